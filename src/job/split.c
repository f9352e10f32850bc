/* Jobs on several devices: which share of the work is whose, and how shares are made. Every share has a plan of its
   own, which sends and receives what it has not got; the job steps them all. */
#include "job/job.h"

DIT_INTERNAL void diti_job_redivide(dit_job *job, const uint32_t *devices) {
    uint32_t total = diti_split_ranks(&job->request.shape.split), i;
    bool folded = diti_job_folds(job, job->context);
    uint32_t folds = folded ? 2 : 1;
    for (i = 0; i < DITI_MAX_DEVICES; i++) job->device_of_share[i] = devices[i / folds];
    diti_assign(&job->request.shape, folded, total > 1 ? folds * job->context->peers->first : 0, folds * total,
                &job->shares[0]->assignment);
}

DIT_INTERNAL dit_result diti_job_divide(dit_job *job, const dit_context *context, dit_error *err) {
    uint32_t first = context && context->peers ? context->peers->first : 0, total, shares;
    uint32_t all = !context ? DITI_MAX_DEVICES : context->peers ? context->peers->all : 1, i;
    char name[DITI_SPLIT_NAME];
    diti_share *share = diti_share_create(job, context ? context->device : NULL);
    bool folded;
    if (!share) return diti_fail_memory(err, "the job");
    /* no other process makes a job that is inspected */
    DITI_TRY(diti_job_choose(job->model, context, job->context ? job : NULL, &job->request, err));
    total = diti_split_ranks(&job->request.shape.split);
    diti_split_print(&job->request.shape.split, name);
    if (total > all)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "split %s needs %u devices, the context has %u", name, total,
                         all);
    if (total > 1 && first >= total)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "split %s has no share for rank %u: the devices of the ranks before are enough", name,
                         context->peers->application.rank);
    if (total == 1) job->request.shape.resumes = false;
    folded = diti_job_folds(job, context);
    shares = folded ? 2 * total : total;
    for (i = 0; i < DITI_MAX_DEVICES; i++) job->device_of_share[i] = folded ? i / 2 : i;
    diti_assign(&job->request.shape, folded, total > 1 ? first * (shares / total) : 0, shares, &share->assignment);
    return DIT_OK;
}

static dit_result diti_job_make_share(dit_job *job, uint32_t index, const dit_progress *progress, dit_error *err) {
    const diti_assignment *first = &job->shares[0]->assignment;
    diti_share *share = diti_share_create(job, job->context->devices[job->device_of_share[index]]);
    dit_error why = DITI_ZERO;
    dit_result result;
    if (!share) return diti_fail_memory(err, "the job");
    diti_assign(&job->request.shape, first->folded, first->share + index, first->share_total, &share->assignment);
    result = diti_share_plan(share, progress, &why);
    if (result >= 0 || !err) return result;
    *err = why;
    err->device = job->device_of_share[index] + 1;
    diti_format(err->message, sizeof err->message, "device %u (%.100s): %.360s", job->device_of_share[index],
                share->device->info.name, why.message);
    return result;
}

/* Counts what a run of each segment sends, so that it can be known beforehand. */
static void diti_share_describe_exchanges(const diti_share *share) {
    uint32_t segment;
    for (segment = 0; segment < share->program.plan->segment_count; segment++) {
        uint64_t bytes = diti_plan_exchange_bytes(share->program.plan, segment, UINT32_MAX);
        if (bytes)
            diti_log(&share->job->env, DITI_LOG_INFO, "share %u of %u sends %llu bytes in each %s",
                     share->assignment.share, share->assignment.share_total, (unsigned long long)bytes,
                     share->program.plan->segments[segment].name);
    }
}

DIT_INTERNAL dit_result diti_job_join(dit_job *job, dit_error *err) {
    if (!job->mesh || job->joins) return DIT_OK;
    DITI_TRY(diti_mesh_begin(job->mesh, job->number, job->runs, diti_job_run_terms(job), err));
    job->joins = true;
    return DIT_OK;
}

DIT_INTERNAL dit_result diti_job_add_shares(dit_job *job, const dit_progress *progress, dit_error *err) {
    const diti_assignment *first = &job->shares[0]->assignment;
    diti_plan *plans[DITI_MAX_DEVICES];
    diti_mesh_places places;
    uint32_t i, count, most;
    dit_result result = DIT_OK;
    if (first->share_total == 1) return DIT_OK;
    count = first->share_total - first->share;
    most = job->context->device_count * (first->folded ? 2 : 1);
    if (count > most) count = most;
    for (i = 1; i < count && result == DIT_OK; i++) result = diti_job_make_share(job, i, progress, err);
    for (i = 0; i < job->share_count; i++) plans[i] = job->shares[i]->program.plan;
    places.devices = job->device_of_share;
    places.first = first->share;
    places.each = most;
    if (result == DIT_OK)
        result = diti_mesh_create(job->context->peers, plans, job->resumed || first->folded ? &places : NULL, count,
                                  &job->mesh, err);
    if (result == DIT_OK) result = diti_job_join(job, err);
    for (i = 0; i < job->share_count && job->mesh; i++) diti_share_describe_exchanges(job->shares[i]);
    if (result != DIT_OK) diti_job_drop_shares(job);
    return result;
}

DIT_INTERNAL void diti_job_settle(dit_job *job) {
    uint32_t i;
    if (job->mesh) diti_mesh_release(job->mesh);
    for (i = 0; i < job->share_count; i++) diti_plan_wait(job->shares[i]->program.plan);
    if (job->mesh) diti_mesh_settle(job->mesh);
}

DIT_INTERNAL void diti_job_drop_shares(dit_job *job) {
    if (job->share_count > 1 || job->mesh) diti_job_settle(job);
    diti_job_count_others(job, &job->gone);
    diti_mesh_destroy(job->mesh);
    job->mesh = NULL;
    job->plans_changed = true;
    while (job->share_count > 1) diti_share_destroy(job->shares[--job->share_count]);
}
