/* The end of jobs: at once, or later, when the GPU has done with them, too. Retired jobs wait in the context's list,
   and later calls destroy those that nothing uses any more. */
#include "job/job.h"

DIT_API void dit_job_destroy(dit_job *job) {
    diti_env env;
    if (!job) return;
    env = job->env;
    diti_job_drop_terms(job);
    if (job->share_count) {
        diti_job_drop_shares(job);
        diti_plan_wait(job->shares[0]->program.plan);
        diti_job_images_destroy(job);
        diti_snapshot_destroy(job);
        diti_share_destroy(job->shares[0]);
    }
    diti_reruns_free(job);
    diti_job_request_free(&env, &job->request);
    diti_free(&env, job);
}

/* A device that fails has nothing to finish. */
static bool diti_retired_reached(const dit_job *job, VkSemaphore timeline, uint64_t value) {
    uint64_t done = 0;
    return diti_timeline_value(job->shares[0]->device, timeline, &done, NULL) < 0 || done >= value;
}

static bool diti_retired_due(const dit_job *job) {
    const diti_plan *plan = job->shares[0]->program.plan;
    return diti_retired_reached(job, job->retired_by, job->retired_at) &&
           diti_retired_reached(job, plan->timeline.semaphore, plan->timeline.submitted);
}

/* The due jobs of a model, or of all, taken out of the list. */
static dit_job *diti_retired_take(dit_context *context, const dit_model *model, bool all) {
    dit_job **at, *taken = NULL;
    diti_lock(&context->retired_lock);
    for (at = &context->retired; *at;) {
        dit_job *job = *at;
        if ((model && job->model != model) || (!all && !diti_retired_due(job))) {
            at = &job->next_retired;
            continue;
        }
        *at = job->next_retired;
        job->next_retired = taken;
        taken = job;
    }
    context->collecting += taken != NULL;
    diti_atomic_store(&context->any_retired, context->retired != NULL);
    diti_unlock(&context->retired_lock);
    return taken;
}

static void diti_retired_destroy(dit_context *context, dit_job *job) {
    if (!job) return;
    while (job) {
        dit_job *next = job->next_retired;
        dit_job_destroy(job);
        job = next;
    }
    diti_lock(&context->retired_lock);
    context->collecting--;
    diti_unlock(&context->retired_lock);
}

static bool diti_retired_collecting(dit_context *context) {
    bool collecting;
    diti_lock(&context->retired_lock);
    collecting = context->collecting != 0;
    diti_unlock(&context->retired_lock);
    return collecting;
}

DIT_INTERNAL void diti_retired_collect(dit_context *context) {
    if (diti_atomic_load(&context->any_retired)) diti_retired_destroy(context, diti_retired_take(context, NULL, false));
}

/* Other threads may be destroying jobs that they have taken, and the GPU need not have done with these: the caller
   sleeps until they are gone. A device that is lost, or makes no semaphore, lets nobody sleep, but has nothing to
   finish. */
DIT_INTERNAL void diti_retired_end(dit_context *context, const dit_model *model) {
    VkSemaphore never = VK_NULL_HANDLE; /* C99 has no other way to sleep: nobody signals it */
    diti_retired_destroy(context, diti_retired_take(context, model, true));
    while (diti_retired_collecting(context)) {
        if (never || diti_timeline_create(context->device, &never, NULL) >= 0)
            diti_timeline_wait(context->device, never, 1, 1000000u, NULL);
    }
    if (never) diti_destroy_Semaphore(context->device, never);
}

DIT_API void dit_job_retire(dit_job *job, VkSemaphore timeline, uint64_t value) {
    diti_plan *plan;
    dit_context *context;
    if (!job) return;
    context = job->context;
    plan = job->shares[0]->program.plan;
    if (!plan || job->mesh) { /* devices of a split job wait for what the host does in its calls */
        dit_job_destroy(job);
        return;
    }
    job->retired_by = timeline;
    job->retired_at = value;
    if (!timeline) {
        job->retired_by = diti_plan_timeline(plan);
        job->retired_at = UINT64_MAX; /* where no signal can be submitted, it stays until its model goes */
        diti_plan_submit_commands(plan, VK_NULL_HANDLE, &job->retired_at, NULL);
    }
    diti_lock(&context->retired_lock);
    job->next_retired = context->retired;
    context->retired = job;
    diti_atomic_store(&context->any_retired, 1);
    diti_unlock(&context->retired_lock);
    diti_retired_collect(context);
}

DIT_API void dit_model_destroy(dit_model *model) {
    if (!model) return;
    if (model->context) diti_retired_end(model->context, model);
    diti_model_free(model);
}
