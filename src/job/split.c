/* Jobs on several devices: which share of the work is whose, and how shares are made. Every share is a job in itself,
   whose plan sends and receives what it has not got; the caller's job steps them all. */
#include "job/job.h"

DIT_INTERNAL void diti_job_split_shape(const dit_model *model, const diti_job_request *request, diti_split_shape *out) {
    const diti_model_traits *traits = &model->transformer->traits;
    const diti_weights *weights = &model->transformer->weights;
    memset(out, 0, sizeof *out);
    out->layers = traits->layers;
    out->hidden = traits->width;
    out->heads = traits->heads;
    out->feed = 4 * traits->width;
    out->rows = request->latent_height / traits->patch * (request->latent_width / traits->patch);
    out->text = model->texts[DITI_TEXT_FIRST].tokens;
    out->text_width = traits->width;
    out->row_values = traits->latent_channels * traits->patch * traits->patch;
    out->joint = traits->joint;
    out->skips = traits->skips ? traits->layers / 2 - 1 : 0;
    out->guided = request->shape.guided;
    out->weight_bytes = (double)weights->bytes;
    if (model->stream)
        out->weight_bytes += (double)(DITI_STREAM_SLOTS * model->stream->slot_bytes);
    else if (weights->streamed)
        out->weight_bytes += (double)weights->streamed->bytes;
}

/* Stages are folded where blocks leave their results for mirrored ones: a device has the stages s and 2 N - 1 - s of
   2 N, so that these results stay on it, and what goes on comes back from device to device. Each stage is a share, both
   of a device beside each other: share 2 r + 1 is the mirrored stage of rank r. Not where weights are streamed: both
   shares would wait for each other in the device's two slots. */
static bool diti_job_folds(const dit_job *job, const dit_context *context) {
    const diti_job_shape *shape = &job->request.shape;
    const diti_model_traits *traits = &job->model->transformer->traits;
    uint32_t stages = 2 * shape->split.degree[DITI_SPLIT_PIPEFUSION], ranks = diti_split_ranks(&shape->split);
    if (!traits->skips || stages < 4 || stages > traits->layers || job->model->stream) return false;
    if (2 * ranks > DITI_MAX_DEVICES || !context || !context->peers) return false;
    return context->peers->all == context->device_count || ranks % context->device_count == 0;
}

/* The members of axes [first, end) of the mesh, of which `self` is one. */
static void diti_job_group(const dit_job *job, uint32_t first, uint32_t end, uint32_t self, diti_group *out) {
    const diti_job_shape *shape = &job->request.shape;
    uint32_t folds = job->folded ? 2 : 1, rank = self / folds, half = self % folds, i;
    uint32_t stride = diti_split_stride(&shape->split, (diti_split_axis)first);
    uint32_t count = diti_split_stride(&shape->split, (diti_split_axis)end) / stride, place = rank / stride % count;
    bool mirrored = job->folded && first == DITI_SPLIT_PIPEFUSION;
    float weights[DITI_SPLIT_DEVICES] = DITI_ZERO;
    memset(out, 0, sizeof *out);
    out->count = mirrored ? 2 * count : count;
    out->index = mirrored && half ? 2 * count - 1 - place : place;
    out->mirrored = mirrored;
    if (end < DITI_SPLIT_AXES && (!job->folded || shape->shares[0] > 0))
        diti_split_weights(&shape->split, shape->shares, rank, first, end, weights);
    for (i = 0; i < out->count; i++) {
        uint32_t at = i < count ? i : 2 * count - 1 - i;
        out->devices[i] = (rank + at * stride - place * stride) * folds + (mirrored ? (i >= count ? 1 : 0) : half);
        out->weights[i] = weights[at];
    }
}

/* Those of all in which its device is number `index` of `count`, every `stride` places one. */
static void diti_job_subgroup(const diti_group *all, uint32_t index, uint32_t count, uint32_t stride, diti_group *out) {
    uint32_t i, own = all->index - index * stride;
    memset(out, 0, sizeof *out);
    out->count = count;
    out->index = index;
    for (i = 0; i < count; i++) out->devices[i] = all->devices[own + i * stride];
    for (i = 0; i < all->count; i++) out->weights[i / stride % count] += all->weights[i];
}

static void diti_job_grid(const dit_job *job, diti_axes *axes) {
    const diti_group *all = &axes->tensor;
    uint32_t in = job->request.shape.split.inputs > 1 ? job->request.shape.split.inputs : 1;
    diti_job_subgroup(all, all->index / in, all->count / in, in, &axes->tensor_out);
    diti_job_subgroup(all, all->index % in, in, 1, &axes->tensor_in);
}

DIT_INTERNAL void diti_job_assign(dit_job *job, uint32_t share, uint32_t total) {
    uint32_t copies = job->request.shape.guided ? 2u : 1u;
    diti_axes *axes = &job->axes;
    job->share = share;
    job->share_total = total;
    memset(axes, 0, sizeof *axes);
    memset(&job->guidance, 0, sizeof job->guidance);
    if (total > 1) {
        diti_job_group(job, DITI_SPLIT_TENSOR, DITI_SPLIT_ULYSSES, share, &axes->tensor);
        diti_job_grid(job, axes);
        diti_job_group(job, DITI_SPLIT_ULYSSES, DITI_SPLIT_RING, share, &axes->ulysses);
        diti_job_group(job, DITI_SPLIT_RING, DITI_SPLIT_PIPEFUSION, share, &axes->ring);
        diti_job_group(job, DITI_SPLIT_ULYSSES, DITI_SPLIT_PIPEFUSION, share, &axes->sequence);
        diti_job_group(job, DITI_SPLIT_PIPEFUSION, DITI_SPLIT_LAYERS, share, &axes->pipefusion);
        diti_job_group(job, DITI_SPLIT_LAYERS, DITI_SPLIT_CFG, share, &axes->layers);
        diti_job_group(job, DITI_SPLIT_CFG, DITI_SPLIT_AXES, share, &job->guidance);
    }
    job->first_branch = job->guidance.count > 1 ? job->guidance.index : 0;
    job->branches = job->guidance.count > 1 ? 1 : copies;
}

DIT_INTERNAL uint32_t diti_job_redivide(dit_job *job, const uint32_t *devices) {
    uint32_t total = diti_split_ranks(&job->request.shape.split), i;
    job->folded = diti_job_folds(job, job->context);
    for (i = 0; i < DITI_MAX_DEVICES; i++) job->places[i] = devices[job->folded ? i / 2 : i];
    return job->folded ? 2 * total : total;
}

DIT_INTERNAL dit_result diti_job_divide(dit_job *job, const dit_context *context, dit_error *err) {
    uint32_t first = context && context->peers ? context->peers->first : 0, total, shares;
    uint32_t all = !context ? DITI_MAX_DEVICES : context->peers ? context->peers->all : 1, i;
    char name[DITI_SPLIT_NAME];
    dit_result result;
    job->shares[0] = job;
    job->share_count = 1;
    result = diti_job_choose(job->model, context, &job->request, err);
    if (result < 0) return result;
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
    job->folded = diti_job_folds(job, context);
    shares = job->folded ? 2 * total : total;
    for (i = 0; i < DITI_MAX_DEVICES; i++) job->places[i] = job->folded ? i / 2 : i;
    diti_job_assign(job, total > 1 ? first * (shares / total) : 0, shares);
    return DIT_OK;
}

static dit_result diti_job_make_share(dit_job *job, uint32_t index, const dit_progress *progress, dit_error *err) {
    dit_job *share = (dit_job *)diti_alloc_zero(&job->env, sizeof *share);
    dit_error why = DITI_ZERO;
    dit_result result;
    if (!share) return diti_fail(err, DIT_ERROR_OUT_OF_HOST_MEMORY, "no host memory for the job");
    job->shares[job->share_count++] = share;
    share->env = job->env;
    share->context = job->context;
    share->device = job->context->devices[job->places[index]];
    share->model = job->model;
    share->request = job->request;
    share->shares[0] = share;
    share->share_count = 1;
    share->follows = true;
    share->member = index;
    memcpy(share->places, job->places, sizeof share->places);
    share->resumed = job->resumed;
    share->folded = job->folded;
    diti_job_assign(share, job->share + index, job->share_total);
    result = diti_job_plan(share, progress, &why);
    if (result >= 0 || !err) return result;
    *err = why;
    err->device = job->places[index] + 1;
    diti_format(err->message, sizeof err->message, "device %u (%.100s): %.360s", job->places[index],
                share->device->info.name, why.message);
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
    uint32_t i, count, most;
    dit_result result = DIT_OK;
    if (job->share_total == 1) return DIT_OK;
    count = job->share_total - job->share;
    most = job->context->device_count * (job->folded ? 2 : 1);
    if (count > most) count = most;
    for (i = 1; i < count && result == DIT_OK; i++) result = diti_job_make_share(job, i, progress, err);
    for (i = 0; i < job->share_count; i++) plans[i] = job->shares[i]->plan;
    if (result == DIT_OK)
        result = diti_mesh_create(job->context->peers, plans, job->resumed || job->folded ? job->places : NULL, count,
                                  &job->mesh, err);
    for (i = 1; i < job->share_count; i++) job->shares[i]->mesh = job->mesh;
    for (i = 0; i < job->share_count && job->mesh; i++) diti_job_tell_exchanges(job->shares[i]);
    if (result != DIT_OK) diti_job_drop_shares(job);
    return result;
}

DIT_INTERNAL void diti_job_settle(dit_job *job) {
    uint32_t i;
    if (job->mesh) diti_mesh_release(job->mesh);
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
        diti_buffer_destroy(share->device, &share->states);
        diti_free(&job->env, share);
    }
}
