/* Jobs on several devices: which share of the work is whose, and how shares are made. Every share is a job in itself,
   whose plan sends and receives what it has not got; the caller's job steps them all. */
#include "job/job.h"

DIT_INTERNAL uint32_t diti_job_redivide(dit_job *job, const uint32_t *devices) {
    uint32_t total = diti_split_ranks(&job->request.shape.split), i;
    job->assignment.folded = diti_job_folds(job, job->context);
    for (i = 0; i < DITI_MAX_DEVICES; i++) job->device_of_share[i] = devices[job->assignment.folded ? i / 2 : i];
    return job->assignment.folded ? 2 * total : total;
}

DIT_INTERNAL dit_result diti_job_divide(dit_job *job, const dit_context *context, dit_error *err) {
    uint32_t first = context && context->peers ? context->peers->first : 0, total, shares;
    uint32_t all = !context ? DITI_MAX_DEVICES : context->peers ? context->peers->all : 1, i;
    char name[DITI_SPLIT_NAME];
    bool folded;
    job->shares[0] = job;
    job->share_count = 1;
    DITI_TRY(diti_job_choose(job->model, context, &job->request, err));
    total = diti_split_ranks(&job->request.shape.split);
    diti_split_print(&job->request.shape.split, name);
    if (total > all)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "split %s needs %u devices, the context has %u", name, total,
                         all);
    if (total > 1 && first >= total)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "split %s has no share for rank %u", name, first);
    if (total == 1) job->request.shape.resumes = false;
    if (job->request.shape.resumes && context && context->peers && all > context->peers->count)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "resume_on_loss: devices of several processes cannot go on without one; it must be false");
    folded = diti_job_folds(job, context);
    shares = folded ? 2 * total : total;
    for (i = 0; i < DITI_MAX_DEVICES; i++) job->device_of_share[i] = folded ? i / 2 : i;
    diti_assign(&job->request.shape, folded, total > 1 ? first * (shares / total) : 0, shares, &job->assignment);
    return DIT_OK;
}

static dit_result diti_job_make_share(dit_job *job, uint32_t index, const dit_progress *progress, dit_error *err) {
    dit_job *share = (dit_job *)diti_alloc_zero(&job->env, sizeof *share);
    dit_error why = DITI_ZERO;
    dit_result result;
    if (!share) return diti_fail_memory(err, "the job");
    job->shares[job->share_count++] = share;
    share->env = job->env;
    share->context = job->context;
    share->device = job->context->devices[job->device_of_share[index]];
    share->model = job->model;
    share->request = job->request;
    share->shares[0] = share;
    share->share_count = 1;
    share->is_secondary = true;
    share->member = index;
    memcpy(share->device_of_share, job->device_of_share, sizeof share->device_of_share);
    share->resumed = job->resumed;
    diti_assign(&job->request.shape, job->assignment.folded, job->assignment.share + index, job->assignment.share_total,
                &share->assignment);
    result = diti_job_plan(share, progress, &why);
    if (result >= 0 || !err) return result;
    *err = why;
    err->device = job->device_of_share[index] + 1;
    diti_format(err->message, sizeof err->message, "device %u (%.100s): %.360s", job->device_of_share[index],
                share->device->info.name, why.message);
    return result;
}

/* Counts what a run of each segment sends, so that it can be known beforehand. */
static void diti_job_tell_exchanges(const dit_job *share) {
    uint32_t segment;
    for (segment = 0; segment < share->program.plan->segment_count; segment++) {
        uint64_t bytes = diti_plan_exchange_bytes(share->program.plan, segment, UINT32_MAX);
        if (bytes)
            diti_log(&share->env, DITI_LOG_INFO, "share %u of %u sends %llu bytes in each %s", share->assignment.share,
                     share->assignment.share_total, (unsigned long long)bytes,
                     share->program.plan->segments[segment].name);
    }
}

DIT_INTERNAL dit_result diti_job_add_shares(dit_job *job, const dit_progress *progress, dit_error *err) {
    diti_plan *plans[DITI_MAX_DEVICES];
    uint32_t i, count, most;
    dit_result result = DIT_OK;
    if (job->assignment.share_total == 1) return DIT_OK;
    count = job->assignment.share_total - job->assignment.share;
    most = job->context->device_count * (job->assignment.folded ? 2 : 1);
    if (count > most) count = most;
    for (i = 1; i < count && result == DIT_OK; i++) result = diti_job_make_share(job, i, progress, err);
    for (i = 0; i < job->share_count; i++) plans[i] = job->shares[i]->program.plan;
    if (result == DIT_OK)
        result = diti_mesh_create(job->context->peers, plans,
                                  job->resumed || job->assignment.folded ? job->device_of_share : NULL, count,
                                  &job->mesh, err);
    for (i = 1; i < job->share_count; i++) job->shares[i]->mesh = job->mesh;
    for (i = 0; i < job->share_count && job->mesh; i++) diti_job_tell_exchanges(job->shares[i]);
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
    diti_mesh_destroy(job->mesh);
    job->mesh = NULL;
    while (job->share_count > 1) {
        dit_job *share = job->shares[--job->share_count];
        diti_program_destroy(share->device, &share->program);
        diti_buffer_destroy(share->device, &share->states);
        diti_free(&job->env, share);
    }
}
