/* Which part of the work is whose: the groups in which a share of a job divides it with others. */
#include "job/job.h"

/* Without what is streamed, which is counted once, with the model. */
static double diti_job_weight_bytes(const dit_model *model, const diti_transformer *transformer) {
    const diti_weights *weights = transformer ? &transformer->component.weights : NULL;
    if (!weights) return 0;
    return (double)weights->bytes + (weights->streamed && !model->stream ? (double)weights->streamed->bytes : 0);
}

DIT_INTERNAL void diti_job_split_shape(const dit_model *model, const diti_job_request *request, diti_split_shape *out) {
    const diti_model_traits *traits = &model->transformer->traits;
    uint32_t deep = traits->patch_frames ? traits->patch_frames : 1;
    memset(out, 0, sizeof *out);
    out->layers = traits->layers;
    out->hidden = traits->width;
    out->heads = traits->heads;
    out->feed = traits->feed ? traits->feed : 4 * traits->width;
    out->gated = traits->gated;
    out->rows = diti_request_positions(model, request) * (request->shape.latent_frames / deep);
    out->text = model->texts[DITI_TEXT_FIRST].tokens + model->texts[DITI_TEXT_SECOND].tokens;
    out->text_width = traits->width;
    out->row_values = traits->latent_channels * traits->patch * traits->patch * deep;
    out->joint = traits->joint;
    if (traits->divided) {
        out->frames = request->shape.latent_frames;
        out->feeds = traits->feeds;
        out->texts = traits->texts;
    }
    out->skips = traits->skips ? traits->layers / 2 - 1 : 0;
    out->guided = request->shape.guided;
    out->weight_bytes = diti_job_weight_bytes(model, model->transformer) + (double)diti_stream_bytes(model->stream);
    out->second_bytes = diti_job_weight_bytes(model, diti_model_second(model));
}

/* Stages are folded where blocks leave their results for mirrored ones: a device has the stages s and 2 N - 1 - s of
   2 N, so that these results stay on it, and what goes on comes back from device to device. Each stage is a share, both
   of a device beside each other: share 2 r + 1 is the mirrored stage of rank r. Not where weights are streamed: both
   shares would wait for each other in the device's two slots. */
DIT_INTERNAL bool diti_job_folds(const dit_job *job, const dit_context *context) {
    const diti_job_shape *shape = &job->request.shape;
    const diti_model_traits *traits = &job->model->transformer->traits;
    uint32_t stages = 2 * shape->split.degree[DITI_SPLIT_PIPEFUSION], ranks = diti_split_ranks(&shape->split);
    if (!traits->skips || stages < 4 || stages > traits->layers || job->model->stream) return false;
    if (2 * ranks > DITI_MAX_DEVICES || !context || !context->peers) return false;
    return context->peers->all == context->device_count || ranks % context->device_count == 0;
}

/* The members of axes [first, end) of the mesh, of which `self` is one. */
static void diti_assign_group(const diti_job_shape *shape, const diti_assignment *assignment, uint32_t first,
                              uint32_t end, diti_ranks *out) {
    uint32_t self = assignment->share;
    uint32_t folds = assignment->folded ? 2 : 1, rank = self / folds, half = self % folds, i;
    uint32_t stride = diti_split_stride(&shape->split, (diti_split_axis)first);
    uint32_t count = diti_split_stride(&shape->split, (diti_split_axis)end) / stride, place = rank / stride % count;
    bool mirrored = assignment->folded && first == DITI_SPLIT_PIPEFUSION;
    float weights[DITI_SPLIT_DEVICES] = DITI_ZERO;
    memset(out, 0, sizeof *out);
    out->count = mirrored ? 2 * count : count;
    out->index = mirrored && half ? 2 * count - 1 - place : place;
    out->mirrored = mirrored;
    if (end < DITI_SPLIT_AXES && (!assignment->folded || shape->shares[0] > 0))
        diti_split_weights(&shape->split, shape->shares, rank, first, end, weights);
    for (i = 0; i < out->count; i++) {
        uint32_t at = i < count ? i : 2 * count - 1 - i;
        out->devices[i] = (rank + at * stride - place * stride) * folds + (mirrored ? (i >= count ? 1 : 0) : half);
        out->weights[i] = weights[at];
    }
}

/* Takes the members of `all` among which its own device is number `index` of `count`, every `stride` places one. */
static void diti_assign_subgroup(const diti_ranks *all, uint32_t index, uint32_t count, uint32_t stride,
                                 diti_ranks *out) {
    uint32_t i, own = all->index - index * stride;
    memset(out, 0, sizeof *out);
    out->count = count;
    out->index = index;
    for (i = 0; i < count; i++) out->devices[i] = all->devices[own + i * stride];
    for (i = 0; i < all->count; i++) out->weights[i / stride % count] += all->weights[i];
}

static void diti_assign_grid(const diti_job_shape *shape, diti_axes *axes) {
    const diti_ranks *all = &axes->tensor;
    uint32_t in = shape->split.inputs > 1 ? shape->split.inputs : 1;
    diti_assign_subgroup(all, all->index / in, all->count / in, in, &axes->tensor_out);
    diti_assign_subgroup(all, all->index % in, in, 1, &axes->tensor_in);
}

DIT_INTERNAL void diti_assign(const diti_job_shape *shape, bool folded, uint32_t share, uint32_t total,
                              diti_assignment *out) {
    uint32_t branches = diti_job_branches(shape), i;
    diti_axes *axes = &out->axes;
    memset(out, 0, sizeof *out);
    out->share = share;
    out->share_total = total;
    out->folded = folded;
    out->all.count = total;
    out->all.index = share;
    for (i = 0; i < total; i++) out->all.devices[i] = i;
    if (total > 1) {
        diti_assign_group(shape, out, DITI_SPLIT_TENSOR, DITI_SPLIT_ULYSSES, &axes->tensor);
        diti_assign_grid(shape, axes);
        diti_assign_group(shape, out, DITI_SPLIT_ULYSSES, DITI_SPLIT_RING, &axes->ulysses);
        diti_assign_group(shape, out, DITI_SPLIT_RING, DITI_SPLIT_PIPEFUSION, &axes->ring);
        diti_assign_group(shape, out, DITI_SPLIT_ULYSSES, DITI_SPLIT_PIPEFUSION, &axes->sequence);
        diti_assign_group(shape, out, DITI_SPLIT_PIPEFUSION, DITI_SPLIT_LAYERS, &axes->pipefusion);
        diti_assign_group(shape, out, DITI_SPLIT_LAYERS, DITI_SPLIT_CFG, &axes->layers);
        diti_assign_group(shape, out, DITI_SPLIT_CFG, DITI_SPLIT_AXES, &out->guidance);
    }
    out->first_branch = out->guidance.count > 1 ? out->guidance.index : 0;
    out->branches = out->guidance.count > 1 ? 1 : branches;
}
