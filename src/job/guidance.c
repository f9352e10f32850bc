/* Guidance by step: which evaluations of the transformer a step needs. Steps outside the interval of guidance leave the
   unconditional branch out (a gate), which halves their work; skip-layer guidance adds a branch without some blocks. */
#include "job/job.h"

/* A fraction of the steps, in steps. A float lies beside the digits that it was written with: 0.7 of 10 steps are 7,
   and not 6.9999999. */
static double diti_guidance_steps(const diti_job_request *request, float fraction) {
    double steps = request->shape.steps, exact = (double)fraction * steps, whole = floor(exact + 0.5);
    return fabs(exact - whole) < 1e-6 * steps ? whole : exact;
}

/* In steps, as diffusers' skip-layer guidance counts them. */
static bool diti_guidance_skips(const diti_job_request *request, uint32_t step) {
    const dit_guidance *guidance = &request->guidance;
    return guidance->skip_layer > 0 && step > diti_guidance_steps(request, guidance->skip_first) &&
           step < diti_guidance_steps(request, guidance->skip_last);
}

static bool diti_guidance_on(const diti_job_request *request, uint32_t step) {
    const dit_guidance *guidance = &request->guidance;
    if (request->shape.reuse.gate_step && step >= request->shape.reuse.gate_step) return false;
    if (guidance->first == 0 && guidance->last == 0) return true;
    return step >= floor(diti_guidance_steps(request, guidance->first)) &&
           step < floor(diti_guidance_steps(request, guidance->last));
}

DIT_INTERNAL uint32_t diti_job_branches(const diti_job_shape *shape) { return shape->guided ? 2u : 1u; }

DIT_INTERNAL uint32_t diti_job_solver_columns(const diti_job_shape *shape) {
    return DITI_COEFFICIENTS + 2u * shape->image_count + (shape->hold_count ? 3u * shape->latent_frames : 0);
}

DIT_INTERNAL diti_step_kind diti_job_step_kind(const diti_job_request *request, uint32_t step) {
    if (!request->shape.guided) return DITI_STEP_USUAL;
    if (!diti_guidance_on(request, step)) return DITI_STEP_ALONE;
    return diti_guidance_skips(request, step) ? DITI_STEP_SKIPPING : DITI_STEP_USUAL;
}

/* A net works from the first step at its `first` on to the last one that ends by its `last`, as diffusers counts them.
 */
DIT_INTERNAL uint32_t diti_control_working(const diti_job_request *request, uint32_t step) {
    uint32_t net, working = 0;
    for (net = 0; net < DITI_MAX_CONTROLS; net++) {
        const dit_adapter *adapter = &request->net_adapters[net];
        bool on = step >= diti_guidance_steps(request, adapter->first) &&
                  step + 1 <= diti_guidance_steps(request, adapter->last);
        if (on && request->shape.controls >> net & 1u) working |= 1u << net;
    }
    return working;
}

DIT_INTERNAL uint32_t diti_job_step_variant(const diti_job_request *request, uint32_t step) {
    uint32_t working = diti_control_working(request, step), set = 0;
    while (set + 1 < request->shape.control_set_count && request->shape.control_sets[set] != working) set++;
    return (uint32_t)diti_job_step_kind(request, step) + DITI_STEP_KINDS * set;
}

DIT_INTERNAL bool diti_strips_used(const diti_job_shape *shape) {
    const uint32_t *degree = shape->split.degree;
    return degree[DITI_SPLIT_PIPEFUSION] > 1 || (shape->strips > 1 && degree[DITI_SPLIT_LAYERS] == 1);
}

/* Steps that need keys and values which the step before has not kept: those of a branch or of a control net that it
   left out, or of a run that goes on here. */
DIT_INTERNAL bool diti_strips_whole(const diti_job_request *request, uint32_t begins, uint32_t step) {
    if (!diti_strips_used(&request->shape) || step < begins + request->shape.warmup) return true;
    if (diti_control_working(request, step) & ~diti_control_working(request, step - 1)) return true;
    return request->shape.guided && diti_job_step_kind(request, step) != DITI_STEP_ALONE &&
           diti_job_step_kind(request, step - 1) == DITI_STEP_ALONE;
}

DIT_INTERNAL bool diti_job_is_low(const dit_job *job, uint32_t step) {
    return job->model->low && job->request.schedule.steps[step].timestep < job->model->boundary;
}

DIT_INTERNAL bool diti_share_guides_apart(const diti_share *share) {
    return share->job->model->unconditional && share->assignment.branches > 1;
}

DIT_INTERNAL const diti_transformer *diti_share_transformer(const diti_share *share) {
    const dit_model *model = share->job->model;
    bool unconditional =
        share->job->request.shape.bare && share->assignment.branches == 1 && share->assignment.first_branch == 0;
    return unconditional ? model->unconditional : model->transformer;
}

static const diti_transformer *diti_guidance_transformer(const diti_share *share) {
    return share->program.is_low ? share->job->model->low : diti_share_transformer(share);
}

static diti_step_desc *diti_guidance_step_desc(diti_share *share) {
    return share->program.is_low ? &share->program.low : &share->program.step;
}

DIT_INTERNAL bool diti_job_preview_due(const dit_job *job, uint32_t steps_done) {
    uint32_t interval = job->request.shape.preview_interval;
    return interval && steps_done % interval == 0 && steps_done < job->request.shape.steps;
}

/* A member of dit_guidance that is given and does nothing, because there is no guidance; NULL: none. */
static const char *diti_guidance_without(const diti_job_request *request) {
    const dit_guidance *guidance = &request->guidance;
    if (request->shape.guided) return NULL;
    if (guidance->rescale > 0) return "guidance.rescale";
    if (guidance->project > 0) return "guidance.project";
    if (guidance->norm_limit > 0) return "guidance.norm_limit";
    if (guidance->length_limit > 0) return "guidance.length_limit";
    if (guidance->dynamic) return "guidance.dynamic";
    return guidance->first > 0 || (guidance->last > 0 && guidance->last < 1) ? "guidance.first or last" : NULL;
}

DIT_INTERNAL void diti_job_request_kinds(const diti_env *env, diti_job_request *request) {
    const char *idle = NULL;
    uint32_t step, i;
    for (step = 0; step < request->shape.steps; step++) {
        request->shape.kinds |= 1u << diti_job_step_kind(request, step);
        request->shape.variants |= 1u << diti_job_step_variant(request, step);
    }
    for (i = 0; i < DITI_MAX_CONTROLS; i++)
        if (request->net_images[i] && !(request->shape.controls >> i & 1u)) idle = "a control net";
    if (request->guidance.skip_layer > 0 && !(request->shape.kinds >> DITI_STEP_SKIPPING & 1u))
        idle = "guidance.skip_layer";
    if (request->shape.guided && request->shape.kinds == 1u << DITI_STEP_ALONE) idle = "guidance";
    if (idle)
        diti_log(env, DITI_LOG_WARNING, "%s has no effect: none of the %u steps lies in its part of them", idle,
                 (unsigned)request->shape.steps);
    idle = diti_guidance_without(request);
    if (idle)
        diti_log(env, DITI_LOG_WARNING, "%s has no effect: guidance is off; give guidance.scale another value than 1",
                 idle);
}

/* Skip-layer guidance with diffusers' defaults for what is 0. */
DIT_INTERNAL dit_result diti_job_request_skipping(const dit_model *model, diti_job_request *out, dit_error *err) {
    dit_guidance *guidance = &out->guidance;
    uint32_t blocks = model->transformer->traits.layers;
    if (!(guidance->skip_layer >= 0 && guidance->skip_layer <= 100))
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "guidance.skip_layer is %g; it must be 0 (off) to 100",
                         (double)guidance->skip_layer);
    if (guidance->skip_layer == 0) return DIT_OK;
    if (!model->transformer->traits.skips_blocks)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "guidance.skip_layer: models of family %s have no skip-layer guidance; it must be 0",
                         model->info.family);
    if (!out->shape.guided)
        return diti_fail(
            err, DIT_ERROR_INVALID_ARGUMENT,
            "guidance.skip_layer adds to guidance, which is off; give guidance.scale another value than 1");
    if (guidance->skip_first == 0 && guidance->skip_last == 0) {
        guidance->skip_first = 0.01f;
        guidance->skip_last = 0.2f;
    }
    if (!(guidance->skip_first >= 0 && guidance->skip_first < guidance->skip_last && guidance->skip_last <= 1))
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "dit_guidance: skip_first %g and skip_last %g must be rising fractions of the steps, 0 to 1",
                         (double)guidance->skip_first, (double)guidance->skip_last);
    if (!guidance->skip_blocks) guidance->skip_blocks = (uint64_t)7 << 7;
    if (blocks < 64 && guidance->skip_blocks >> blocks)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "guidance.skip_blocks 0x%llx names blocks beyond the model's %u (bit i is block i)",
                         (unsigned long long)guidance->skip_blocks, blocks);
    return DIT_OK;
}

/* Evaluates the conditional branch alone, without some blocks. */
static diti_tensor diti_guidance_run(diti_share *share, diti_graph *graph, uint64_t skipped) {
    const diti_transformer *transformer = diti_guidance_transformer(share);
    diti_step_desc step = *diti_guidance_step_desc(share);
    step.first_branch = step.branches - 1;
    step.skipped = skipped;
    if (skipped) step.residual = NULL;
    return diti_transformer_step(transformer, graph, &step);
}

static diti_tensor diti_guidance_sum(diti_graph *graph, diti_tensor x, float scale, diti_tensor add, diti_tensor out) {
    diti_elementwise_desc desc = DITI_ZERO;
    desc.scale = scale;
    desc.add = add;
    desc.out = out;
    desc.out_f32 = true;
    desc.name = "guidance";
    return diti_elementwise(graph, x, &desc);
}

/* k * (c - s), c the conditional prediction, s the same without the blocks. */
static diti_tensor diti_guidance_skipped(diti_share *share, diti_graph *graph, diti_tensor conditional) {
    float k = share->job->request.guidance.skip_layer;
    diti_tensor skipped = diti_guidance_run(share, graph, share->job->request.guidance.skip_blocks);
    if (diti_graph_failed(graph)) return 0;
    return diti_guidance_sum(graph, conditional, k, diti_guidance_sum(graph, skipped, -k, 0, 0), 0);
}

/* u + scale * (c - u) + k * (c - s): the solver makes it of both branches when each has k * (c - s) added. */
static diti_tensor diti_guidance_skip(diti_share *share, diti_graph *graph, diti_tensor prediction) {
    uint32_t rows, columns;
    if (diti_graph_failed(graph)) return 0;
    rows = diti_tensor_get(graph, prediction)->rows / 2;
    columns = diti_tensor_get(graph, prediction)->columns;
    return diti_guidance_sum(
        graph, prediction, 1,
        diti_guidance_skipped(share, graph, diti_tensor_view(graph, prediction, rows, rows, 0, columns)), 0);
}

/* Does so where the conditional branch has a device of its own. */
static diti_tensor diti_guidance_skip_divided(diti_share *share, diti_graph *graph, diti_tensor all,
                                              diti_tensor conditional) {
    uint32_t device = share->assignment.guidance.devices[1 - share->assignment.guidance.index];
    const diti_tensor_info *both = diti_tensor_get(graph, all);
    diti_tensor skipped;
    if (share->assignment.guidance.index) {
        skipped = diti_guidance_skipped(share, graph, conditional);
        if (!diti_graph_failed(graph)) diti_send(graph, skipped, device);
    } else {
        skipped = diti_tensor_new(graph, DITI_F32, both->rows / 2, both->columns, "skipped");
        diti_receive(graph, skipped, device);
    }
    return diti_graph_failed(graph) ? 0 : diti_guidance_sum(graph, all, 1, skipped, 0);
}

/* Where devices decide what is reused, those of the unconditional branch learn how many steps did from the ones that
   evaluate a step alone, or by another transformer: the first of them tells the job's status. */
static void diti_guidance_count(diti_share *share, diti_graph *graph, uint32_t device, bool alone) {
    const diti_residual *r = &share->program.residuals[share->program.is_low];
    bool idle = alone && !share->assignment.guidance.index;
    diti_tensor count;
    if (r->use != DITI_REUSE_DECIDES || !(alone || share->job->request.shape.bare) || diti_graph_failed(graph)) return;
    count = idle ? r->count : diti_tensor_view(graph, r->next, 0, 1, DITI_REUSE_COUNT, 1);
    if (share->assignment.guidance.index)
        diti_send(graph, count, device);
    else
        diti_receive(graph, count, device);
}

/* Each branch on devices of its own: one prediction goes either way, or, of the conditional branch alone, one way. */
static diti_tensor diti_guidance_divided(diti_share *share, diti_graph *graph, diti_step_kind kind) {
    const diti_transformer *transformer = diti_guidance_transformer(share);
    uint32_t rows = diti_tensor_get(graph, share->program.latent)->rows * (share->job->request.shape.learned ? 2u : 1u);
    uint32_t columns = diti_tensor_get(graph, share->program.latent)->columns, own = share->assignment.guidance.index,
             other = 1 - own;
    uint32_t device = share->assignment.guidance.devices[other];
    bool alone = kind == DITI_STEP_ALONE;
    diti_tensor all, mine;
    if (alone && own == 1) {
        all = diti_transformer_step(transformer, graph, diti_guidance_step_desc(share));
        diti_send(graph, all, device);
        diti_guidance_count(share, graph, device, true);
        return all;
    }
    all = diti_tensor_new(graph, DITI_F32, alone ? rows : 2 * rows, columns, "predictions");
    if (alone) {
        diti_receive(graph, all, device);
        diti_guidance_count(share, graph, device, true);
        return all;
    }
    mine = diti_tensor_view(graph, all, own * rows, rows, 0, columns);
    diti_guidance_sum(graph, diti_transformer_step(transformer, graph, diti_guidance_step_desc(share)), 1, 0, mine);
    diti_swap(graph, mine, diti_tensor_view(graph, all, other * rows, rows, 0, columns), device);
    diti_guidance_count(share, graph, device, false);
    return kind == DITI_STEP_SKIPPING ? diti_guidance_skip_divided(share, graph, all, mine) : all;
}

/* The unconditional branch by its own transformer, then the other one: both predictions. */
static diti_tensor diti_guidance_apart(diti_share *share, diti_graph *graph) {
    diti_step_desc *unconditional = &share->program.unconditional;
    uint32_t rows = diti_tensor_get(graph, share->program.latent)->rows,
             columns = diti_tensor_get(graph, share->program.latent)->columns;
    diti_tensor all = diti_tensor_new(graph, DITI_F32, 2 * rows, columns, "predictions");
    unconditional->latent = share->program.step.latent;
    unconditional->input_scale = share->program.step.input_scale;
    diti_guidance_sum(graph, diti_transformer_step(share->job->model->unconditional, graph, unconditional), 1, 0,
                      diti_tensor_view(graph, all, 0, rows, 0, columns));
    diti_guidance_sum(graph, diti_transformer_step(share->job->model->transformer, graph, &share->program.step), 1, 0,
                      diti_tensor_view(graph, all, rows, rows, 0, columns));
    return all;
}

DIT_INTERNAL diti_tensor diti_guidance_emit(diti_share *share, diti_graph *graph, diti_step_kind kind) {
    const diti_transformer *transformer = diti_guidance_transformer(share);
    diti_tensor prediction;
    if (share->assignment.guidance.count > 1) return diti_guidance_divided(share, graph, kind);
    if (kind == DITI_STEP_ALONE) return diti_guidance_run(share, graph, 0);
    if (diti_share_guides_apart(share)) return diti_guidance_apart(share, graph);
    prediction = diti_transformer_step(transformer, graph, diti_guidance_step_desc(share));
    return kind == DITI_STEP_SKIPPING ? diti_guidance_skip(share, graph, prediction) : prediction;
}

DIT_INTERNAL diti_tensor diti_guidance_other(diti_share *share, diti_graph *graph, uint64_t perturbed, bool isolated) {
    diti_step_desc step = *diti_guidance_step_desc(share);
    step.first_branch = step.branches - 1;
    step.perturbed = perturbed;
    step.isolated = isolated;
    step.residual = NULL;
    return diti_transformer_step(diti_guidance_transformer(share), graph, &step);
}
