/* Answers to an application's questions about a job: how far it is, what it did, where its pictures are. */
#include "job/job.h"

DIT_API void dit_job_cancel(dit_job *job) {
    if (job) diti_atomic_store(&job->cancel, 1);
}

DIT_API void dit_job_status(const dit_job *job, dit_status *out, dit_error *err) {
    dit_job *shared = (dit_job *)(uintptr_t)job; /* the lock is the one thing that asking changes */
    if (out) memset(out, 0, sizeof *out);
    if (err) memset(err, 0, sizeof *err);
    if (!job) return;
    diti_lock(&shared->status_lock);
    if (out) *out = job->status;
    if (out && job->recording) out->reused = diti_job_reused(shared); /* the commands run whenever they do */
    if (out && out->result == DIT_OK && diti_job_must_repeat(job)) {
        out->result = DIT_WORKING;
        out->frame = out->sound_samples = 0;
    }
    if (err) *err = job->error;
    diti_unlock(&shared->status_lock);
}

/* The bytes that a share sent to other devices. */
static uint64_t diti_job_peer_bytes(const dit_job *job, uint32_t share) {
    uint64_t bytes = diti_mesh_bytes(job->mesh, share, UINT32_MAX);
    uint32_t i;
    for (i = 0; i < job->share_count && job->shares[0]->assignment.folded; i++)
        if (i != share && job->device_of_share[i] == job->device_of_share[share])
            bytes -= diti_mesh_bytes(job->mesh, share, i);
    return bytes;
}

DIT_INTERNAL void diti_job_count_others(const dit_job *job, dit_counters *out) {
    uint32_t i;
    for (i = 1; i < job->share_count; i++)
        if (job->shares[i]->program.plan) diti_counters_add(out, &job->shares[i]->program.plan->counters);
    for (i = 0; i < job->share_count && job->mesh; i++) out->peer_bytes += diti_job_peer_bytes(job, i);
}

DIT_INTERNAL void diti_job_publish(dit_job *job) {
    dit_counters counters = job->gone;
    uint32_t i;
    diti_counters_add(&counters, &job->shares[0]->program.plan->counters);
    diti_job_count_others(job, &counters);
    diti_lock(&job->status_lock);
    job->counters = counters;
    job->told_count = job->share_count;
    for (i = 0; i < job->share_count && job->plans_changed; i++) {
        diti_share_describe(job->shares[i], &job->told[i]);
        job->told[i].device = job->device_of_share[i];
    }
    diti_unlock(&job->status_lock);
    job->plans_changed = false;
}

DIT_INTERNAL void diti_reruns_free(dit_job *job) {
    while (job->reruns) {
        diti_rerun *rerun = job->reruns;
        job->reruns = rerun->before;
        diti_free(&job->env, rerun);
    }
}

DIT_API void dit_job_get_counters(const dit_job *job, dit_counters *out) {
    dit_job *shared = (dit_job *)(uintptr_t)job;
    if (!out) return;
    memset(out, 0, sizeof *out);
    if (!job) return;
    diti_lock(&shared->status_lock);
    *out = job->counters;
    diti_unlock(&shared->status_lock);
}

DIT_API dit_result dit_job_shares(const dit_job *job, dit_share *out, uint32_t *count, dit_error *err) {
    dit_job *shared = (dit_job *)(uintptr_t)job;
    if (!job || !count)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "dit_job_shares: job and count must be given");
    diti_lock(&shared->status_lock);
    if (!out || *count > job->told_count) *count = job->told_count;
    if (out) memcpy(out, job->told, *count * sizeof *out);
    diti_unlock(&shared->status_lock);
    return DIT_OK;
}

static dit_result diti_job_give(const dit_job *job, const diti_job_image *image, uint64_t value, dit_output *out) {
    out->image = image->image;
    out->view = image->view;
    out->format = image->format;
    out->layout = image->layout;
    out->width = job->request.shape.width;
    out->height = job->request.shape.height;
    out->timeline = job->recording ? VK_NULL_HANDLE : diti_plan_timeline(job->shares[0]->program.plan);
    out->value = value;
    out->device = job->device_of_share[0];
    return DIT_OK;
}

DIT_API dit_result dit_job_output(dit_job *job, uint32_t image, uint32_t frame, dit_output *out) {
    const diti_share *first;
    dit_status status;
    if (!job || !out || frame >= job->request.shape.frames || image >= job->request.shape.image_count ||
        job->shares[0]->assignment.share || !diti_image_count(job))
        return DIT_ERROR_INVALID_ARGUMENT;
    first = job->shares[0];
    memset(out, 0, sizeof *out);
    dit_job_status(job, &status, NULL);
    if (status.result < 0 || status.result == DIT_CANCELLED) return status.result;
    if (job->request.shape.clip && status.result == DIT_WORKING && frame < status.frame)
        return diti_job_give(job, &job->images[image], 0, out); /* the layer is written */
    if (!first->run.all_submitted || (job->recording && status.result == DIT_WORKING)) return DIT_WORKING;
    out->final = job->recording ? diti_job_reported(job) : status.result == DIT_OK;
    return diti_job_give(job, &job->images[image], first->run.finish_value, out);
}

DIT_API dit_result dit_job_preview(dit_job *job, dit_output *out) {
    dit_status status;
    if (!job || !out || !job->request.shape.preview_interval || job->shares[0]->assignment.share)
        return DIT_ERROR_INVALID_ARGUMENT;
    memset(out, 0, sizeof *out);
    dit_job_status(job, &status, NULL);
    if (status.preview_id == job->previews_lost) return status.result == DIT_OK ? DIT_WORKING : status.result;
    out->final = true;
    return diti_job_give(job, &job->preview_image, 0, out);
}
