/* Planning a job tells what it would take: its memory, its ops, its tensors. Nothing is allocated on the device. */
#include "job/job.h"

/* Without a context the answer is for a device of ordinary limits on the fp16 rung. */
static void diti_job_imaginary_device(const dit_model *model, diti_device *device) {
    diti_identity nobody = DITI_ZERO;
    memset(device, 0, sizeof *device);
    device->portions = diti_portions_of(&nobody, UINT64_MAX);
    device->env = model->env;
    device->rung = DITI_RUNG_FP16;
    device->has_fp16 = true;
    device->limits.storage_range = 0xffffffffu;
    device->limits.allocation = (VkDeviceSize)0xffe00000u; /* as NVIDIA's driver states it */
    device->limits.block = device->limits.band = (VkDeviceSize)1 << 30;
    device->limits.storage_alignment = 256;
    device->limits.group_count = 65535;
    device->limits.group_invocations = device->limits.narrow_invocations = 1024;
    device->limits.shared_bytes = 32768;
    device->limits.subgroup_size = 32;
    device->speed.launch_us = 5;
    device->speed.us_per_gflop = 500;
    device->speed.us_per_gigabyte = 10000;
    device->max_slice_us = 50000;
}

typedef struct diti_inspection { /* a job that is planned and never made */
    diti_device imaginary;
    dit_job *job;
    diti_graph graph;
    diti_plan_memory memory;
} diti_inspection;

static void diti_inspection_free(diti_inspection *inspection) {
    dit_job *job = inspection->job;
    diti_env env;
    diti_graph_free(&inspection->graph);
    if (!job) return;
    env = job->env;
    if (job->share_count) diti_program_free_families(&env, &job->shares[0]->program);
    if (job->share_count) diti_free(&env, job->shares[0]->program.chunks);
    diti_free(&env, job->shares[0]);
    diti_job_request_free(&env, &job->request);
    diti_free(&env, job);
}

static dit_result diti_inspection_plan(diti_inspection *inspection, const dit_context *ctx, const dit_job_desc *desc,
                                       dit_error *err) {
    dit_job *job = inspection->job;
    job->env = desc->model->env;
    job->model = desc->model;
    job->target = desc->target;
    DITI_TRY(diti_job_request_make(desc->model, &job->env, desc, NULL, &job->request, err));
    DITI_TRY(diti_job_divide(job, ctx, err));
    if (!ctx) diti_job_imaginary_device(desc->model, &inspection->imaginary);
    diti_graph_init(&inspection->graph, ctx ? ctx->device : &inspection->imaginary);
    diti_share_emit(job->shares[0], &inspection->graph);
    return diti_plan_measure(&inspection->graph, &inspection->memory, err);
}

/* Call diti_inspection_free in any case. */
static dit_result diti_inspection_begin(diti_inspection *inspection, const dit_context *ctx, const dit_job_desc *desc,
                                        const char *function, dit_error *err) {
    memset(inspection, 0, sizeof *inspection);
    if (desc && diti_job_check_guards(desc, err) < 0) return DIT_ERROR_INVALID_ARGUMENT;
    if (!desc || !desc->model)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "%s: desc must be given, with a model", function);
    if (!ctx && desc->model->device)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "%s: ctx is NULL; only a dry run's model works without a context", function);
    if (desc->model->device && desc->model->device != ctx->device)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "%s: the model was loaded with another context", function);
    inspection->job = (dit_job *)diti_alloc_zero(&desc->model->env, sizeof *inspection->job);
    if (!inspection->job) return diti_fail_memory(err, "the question");
    return diti_inspection_plan(inspection, ctx, desc, err);
}

static void diti_inspection_describe_memory(const diti_inspection *inspection, dit_memory *out) {
    const dit_job *job = inspection->job;
    const diti_job_request *request = &job->request;
    uint64_t streamed = 0;
    size_t count = diti_job_latent_values(job), tables = request->shape.stochastic ? 1u : 0u;
    uint64_t frames = diti_clip_host_bytes(&request->shape);
    uint64_t loading, staging = diti_model_staging_bytes(job->model, &loading), inputs = inspection->memory.inputs;
    bool unified =
        inspection->graph.device->unified; /* staging is in the device's memory, too, and inputs as written */
    uint32_t pictures = (job->target.image ? 0 : diti_image_count(job) * request->shape.frames) +
                        (request->shape.preview_interval ? 1 : 0);
    out->weights = diti_model_weight_bytes(job->model, &streamed) + diti_graph_fetches(&inspection->graph);
    out->streamed = job->model->stream ? streamed : 0;
    diti_job_print_split(&request->shape, out->split);
    out->seconds = request->predicted_seconds;
    out->activations = inspection->memory.activations + inputs +
                       (VkDeviceSize)pictures * request->shape.width * request->shape.height *
                           (request->shape.texels == DITI_TEXELS_LIGHT ? 8u : 4u);
    out->device_local = out->weights + out->activations;
    out->host_visible = (inputs > loading ? inputs : loading) + staging + frames;
    out->peak = out->device_local;
    if (unified) {
        out->activations += inputs + frames;
        out->peak = out->weights + (out->activations > loading ? out->activations : loading) + staging;
    }
    if (request->shape.hold_count) tables++;
    out->host = (size_t)inspection->memory.inputs + (size_t)frames + sizeof *job + sizeof *job->shares[0] +
                count * sizeof(float) * (tables * (size_t)request->shape.steps + 1u);
}

DIT_API dit_result dit_job_memory(const dit_context *ctx, const dit_job_desc *desc, dit_memory *out, dit_error *err) {
    diti_inspection inspection;
    dit_result result;
    if (!out) return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "dit_job_memory: out must be given");
    memset(out, 0, sizeof *out);
    result = diti_inspection_begin(&inspection, ctx, desc, "dit_job_memory", err);
    if (result >= 0) diti_inspection_describe_memory(&inspection, out);
    diti_inspection_free(&inspection);
    return result;
}

/* --- ops and tensors --- */

static bool diti_inspection_in_arena(const diti_graph *graph, size_t index) {
    const diti_tensor_info *tensor = &graph->tensors[index];
    return tensor->parent == index && tensor->storage == DITI_STORAGE_ARENA && tensor->first_use != DITI_UNUSED_YET;
}

/* Bytes of the arena that live at each dispatch: what begins there, less what ended before, added up. */
static void diti_inspection_live(const diti_graph *graph, uint64_t *live) {
    size_t i;
    for (i = 1; i < graph->tensor_count; i++) {
        const diti_tensor_info *tensor = &graph->tensors[i];
        if (!diti_inspection_in_arena(graph, i)) continue;
        live[tensor->first_use] += tensor->bytes;
        live[tensor->last_use + 1] -= tensor->bytes;
    }
    for (i = 1; i < graph->dispatch_count; i++) live[i] += live[i - 1];
}

static void diti_inspection_names(const diti_graph *graph, const diti_dispatch *dispatch, dit_op_info *out) {
    uint32_t i;
    out->weight = out->output = "";
    for (i = 0; i < dispatch->binding_count; i++) {
        const diti_tensor_info *tensor = &graph->tensors[dispatch->bindings[i].tensor];
        if (!dispatch->bindings[i].tensor) continue;
        if (tensor->part && !out->weight[0]) out->weight = tensor->name;
        if (!dispatch->bindings[i].writes || out->output[0]) continue;
        out->output = tensor->name;
        if (dispatch->cost_kind != DITI_COST_MEMORY) continue;
        out->shape[0] = tensor->rows;
        out->shape[1] = tensor->columns;
    }
}

static bool diti_inspection_describe_op(const diti_inspection *inspection, uint32_t index, uint64_t live,
                                        const dit_inspector *inspector) {
    static const dit_op_kind kinds[DITI_COST_KINDS] = {DIT_OP_PRODUCT, DIT_OP_ATTENTION, DIT_OP_CONVOLUTION,
                                                       DIT_OP_OTHER};
    const diti_dispatch *dispatch = &inspection->graph.dispatches[index];
    dit_op_info op = DITI_ZERO;
    op.name = dispatch->name;
    op.segment = inspection->graph.segments[dispatch->segment].name;
    op.index = index;
    op.runs = diti_share_runs(inspection->job->shares[0], dispatch->segment, UINT32_MAX);
    op.kind = kinds[dispatch->cost_kind];
    memcpy(op.shape, dispatch->shape, sizeof op.shape);
    op.flops = dispatch->flops;
    op.bytes = dispatch->memory_bytes;
    op.live = live;
    diti_inspection_names(&inspection->graph, dispatch, &op);
    return inspector->op(&op, inspector->user);
}

static bool diti_inspection_describe_tensor(const diti_graph *graph, const diti_tensor_info *tensor,
                                            const dit_inspector *inspector) {
    static const dit_type types[] = {DIT_TYPE_F32, DIT_TYPE_F16, DIT_TYPE_I32, DIT_TYPE_I8_ROW};
    dit_tensor_info out = DITI_ZERO;
    out.name = tensor->name;
    out.type = types[tensor->format];
    out.rows = tensor->rows;
    out.columns = tensor->columns;
    out.bytes = tensor->bytes;
    out.offset = tensor->offset;
    out.block = tensor->block;
    out.arena = tensor->storage == DITI_STORAGE_ARENA;
    out.first_op = out.arena ? tensor->first_use : 0;
    out.last_op = out.arena ? tensor->last_use : (uint32_t)graph->dispatch_count - 1;
    return inspector->tensor(&out, inspector->user);
}

/* By first_op: once for each op, since tensors are many, but ops that begin something few at a time. */
static bool diti_inspection_describe_tensors(const diti_graph *graph, const uint32_t *order, size_t count,
                                             const dit_inspector *inspector) {
    size_t i;
    for (i = 0; i < count; i++) {
        if (!diti_inspection_describe_tensor(graph, &graph->tensors[order[i]], inspector)) return false;
    }
    return true;
}

/* Tensors that have a place: states and inputs, then the arena's by first use (counted, since dispatches are numbered).
 */
static size_t diti_inspection_order(const diti_graph *graph, uint32_t *starts, uint32_t *order) {
    size_t i, count = 0, before;
    for (i = 1; i < graph->tensor_count; i++) {
        const diti_tensor_info *tensor = &graph->tensors[i];
        if (diti_inspection_in_arena(graph, i)) starts[tensor->first_use + 1]++;
        if (tensor->parent == i && (tensor->storage == DITI_STORAGE_STATE || tensor->storage == DITI_STORAGE_INPUT))
            order[count++] = (uint32_t)i;
    }
    before = count;
    for (i = 1; i <= graph->dispatch_count; i++) starts[i] += starts[i - 1];
    for (i = 1; i < graph->tensor_count; i++) {
        if (!diti_inspection_in_arena(graph, i)) continue;
        order[before + starts[graph->tensors[i].first_use]++] = (uint32_t)i;
        count++;
    }
    return count;
}

static dit_result diti_inspection_describe(const diti_inspection *inspection, const dit_inspector *inspector,
                                           dit_error *err) {
    const diti_graph *graph = &inspection->graph;
    const diti_env *env = &inspection->job->env;
    size_t ops = graph->dispatch_count, i;
    uint64_t *live = (uint64_t *)diti_alloc_array(env, ops + 1, sizeof *live);
    uint32_t *starts = (uint32_t *)diti_alloc_array(env, ops + 1 + graph->tensor_count, sizeof *starts);
    dit_result result = DIT_OK;
    if (!live || !starts) result = diti_fail_memory(err, "the question");
    if (result == DIT_OK) {
        bool on = true;
        diti_inspection_live(graph, live);
        for (i = 0; i < ops && inspector->op && on; i++)
            on = diti_inspection_describe_op(inspection, (uint32_t)i, live[i], inspector);
        if (on && inspector->tensor)
            on = diti_inspection_describe_tensors(graph, starts + ops + 1,
                                                  diti_inspection_order(graph, starts, starts + ops + 1), inspector);
        if (!on) result = DIT_CANCELLED;
    }
    diti_free(env, live);
    diti_free(env, starts);
    return result;
}

DIT_API dit_result dit_job_inspect(const dit_context *ctx, const dit_job_desc *desc, const dit_inspector *inspector,
                                   dit_error *err) {
    diti_inspection inspection;
    dit_result result;
    if (!inspector) return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "dit_job_inspect: inspector must be given");
    result = diti_inspection_begin(&inspection, ctx, desc, "dit_job_inspect", err);
    if (result >= 0) result = diti_inspection_describe(&inspection, inspector, err);
    diti_inspection_free(&inspection);
    return result;
}

/* --- weights --- */

static void diti_weight_infos(const diti_weights *weights, dit_role role, dit_weight_info *out, uint32_t room,
                              uint32_t *count) {
    uint32_t type;
    for (type = 0; type < DITI_TALLIES; type++) {
        const diti_weight_tally *tally = &weights->types[type];
        if (!tally->tensors) continue;
        if (out && *count < room) {
            dit_weight_info *info = &out[*count];
            info->role = role;
            info->type = (dit_type)type;
            info->tensor_count = tally->tensors;
            info->parameters = tally->parameters;
            info->file_bytes = tally->stored_bytes;
            info->device_bytes = tally->bytes;
        }
        ++*count;
    }
}

DIT_API dit_result dit_model_weights(const dit_model *model, dit_weight_info *out, uint32_t *count, dit_error *err) {
    uint32_t room, found = 0, i;
    if (!model || !count)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "dit_model_weights: model and count must be given");
    room = *count;
    if (model->transformer)
        diti_weight_infos(&model->transformer->component.weights, DIT_ROLE_TRANSFORMER, out, room, &found);
    if (diti_model_second(model))
        diti_weight_infos(&diti_model_second(model)->component.weights, DIT_ROLE_TRANSFORMER_2, out, room, &found);
    for (i = 0; i < model->control_count; i++)
        diti_weight_infos(&model->controls[i]->component.weights, DIT_ROLE_CONTROL, out, room, &found);
    for (i = 0; i < DITI_ENCODERS; i++)
        if (diti_encoder_weights(&model->encoders[i]))
            diti_weight_infos(diti_encoder_weights(&model->encoders[i]), (dit_role)(DIT_ROLE_TEXT_1 + (int)i), out,
                              room, &found);
    if (model->vae) diti_weight_infos(diti_vae_weights(model->vae), DIT_ROLE_VAE, out, room, &found);
    if (model->tae) diti_weight_infos(diti_vae_weights(model->tae), DIT_ROLE_TAE, out, room, &found);
    if (model->image_encoder)
        diti_weight_infos(diti_clip_vision_weights(model->image_encoder), DIT_ROLE_IMAGE_ENCODER, out, room, &found);
    if (model->spectrogram)
        diti_weight_infos(diti_spectrogram_weights(model->spectrogram), DIT_ROLE_SOUND, out, room, &found);
    if (model->vocoder) diti_weight_infos(diti_vocoder_weights(model->vocoder), DIT_ROLE_SOUND, out, room, &found);
    *count = out && found > room ? room : found;
    return DIT_OK;
}
