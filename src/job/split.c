/* Jobs on several devices: which share of the work is whose, and how shares are made. Every share is a job in itself,
   whose plan sends and receives what it has not got; the caller's job steps them all. */
#include "job/job.h"

/* Guidance: one branch each (parallel-cache-quant.md 1.1). */
DIT_INTERNAL void diti_job_assign(dit_job *job, uint32_t share, uint32_t total) {
    uint32_t copies = job->request.shape.guided ? 2u : 1u;
    job->share = share;
    job->share_total = total;
    job->first_branch = total > 1 ? share : 0;
    job->branches = total > 1 ? 1 : copies;
}

DIT_INTERNAL dit_result diti_job_divide(dit_job *job, const dit_context *context, dit_error *err) {
    uint32_t total = job->request.shape.branch_devices, first = context && context->peers ? context->peers->first : 0;
    uint32_t all = !context ? total : context->peers ? context->peers->all : 1;
    job->shares[0] = job;
    job->share_count = 1;
    if (job->request.shape.split_auto && total > all) total = 1;
    if (total > all)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "split cfg2 needs %u devices, the context has %u", total,
                         all);
    if (total > 1 && first >= total)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "split cfg2 has no share for rank %u", first);
    diti_job_assign(job, total > 1 ? first : 0, total);
    return DIT_OK;
}

static dit_result diti_job_replicate(dit_job *share, dit_error *err) {
    dit_model *model = (dit_model *)(uintptr_t)share->model; /* its weights stay what they are, there are only more */
    dit_result result;
    diti_lock(&model->replica_lock);
    result = diti_weights_replicate(&model->transformer->weights, model->device, share->device, err);
    diti_unlock(&model->replica_lock);
    return result;
}

static dit_result diti_job_make_share(dit_job *job, uint32_t index, const dit_progress *progress, dit_error *err) {
    dit_job *share = (dit_job *)diti_alloc_zero(&job->env, sizeof *share);
    dit_error why = DITI_ZERO;
    dit_result result;
    if (!share) return diti_fail(err, DIT_ERROR_OUT_OF_HOST_MEMORY, "no host memory for the job");
    job->shares[job->share_count++] = share;
    share->env = job->env;
    share->context = job->context;
    share->device = job->context->devices[index];
    share->model = job->model;
    share->request = job->request;
    share->shares[0] = share;
    share->share_count = 1;
    share->follows = true;
    share->member = index;
    diti_job_assign(share, job->share + index, job->share_total);
    result = diti_job_replicate(share, &why);
    if (result == DIT_OK) result = diti_job_plan(share, progress, &why);
    if (result >= 0 || !err) return result;
    *err = why;
    diti_format(err->message, sizeof err->message, "device %u (%.100s): %.360s", index, share->device->info.name,
                why.message);
    return result;
}

/* What a run of each segment sends, so that it can be known beforehand. */
static void diti_job_tell_exchanges(const dit_job *share) {
    uint32_t segment;
    for (segment = 0; segment < share->plan->segment_count; segment++) {
        uint64_t bytes = diti_plan_exchange_bytes(share->plan, segment, UINT32_MAX);
        if (bytes)
            diti_log(&share->env, DITI_LOG_INFO, "share %u of %u sends %llu bytes in each %s", share->share,
                     share->share_total, (unsigned long long)bytes, share->plan->segments[segment].name);
    }
}

DIT_INTERNAL dit_result diti_job_add_shares(dit_job *job, const dit_progress *progress, dit_error *err) {
    diti_plan *plans[DITI_MAX_DEVICES];
    uint32_t i, count;
    dit_result result = DIT_OK;
    if (job->share_total == 1) return DIT_OK;
    count = job->share_total - job->share;
    if (count > job->context->device_count) count = job->context->device_count;
    for (i = 1; i < count && result == DIT_OK; i++) result = diti_job_make_share(job, i, progress, err);
    for (i = 0; i < job->share_count; i++) plans[i] = job->shares[i]->plan;
    if (result == DIT_OK) result = diti_mesh_create(job->context->peers, plans, count, &job->mesh, err);
    for (i = 1; i < job->share_count; i++) job->shares[i]->mesh = job->mesh;
    for (i = 0; i < job->share_count && job->mesh; i++) diti_job_tell_exchanges(job->shares[i]);
    if (result != DIT_OK) diti_job_drop_shares(job);
    return result;
}

DIT_INTERNAL void diti_job_settle(dit_job *job) {
    uint32_t i;
    for (i = 0; i < job->share_count; i++) diti_plan_wait(job->shares[i]->plan);
    if (job->mesh) diti_mesh_settle(job->mesh);
}

DIT_INTERNAL void diti_job_drop_shares(dit_job *job) {
    if (job->share_count > 1 || job->mesh) diti_job_settle(job);
    diti_mesh_destroy(job->mesh);
    job->mesh = NULL;
    while (job->share_count > 1) {
        dit_job *share = job->shares[--job->share_count];
        diti_job_destroy_plan(share);
        diti_free(&job->env, share);
    }
}
