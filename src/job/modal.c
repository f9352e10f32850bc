/* Guidance of clips that are denoised with their sound (docs/models.md 3.27): a scale for pictures and one for sound,
   and a rescaling of either by what the predictions say of the clean latent. Original:
   https://github.com/huggingface/diffusers/blob/v0.42.1/src/diffusers/pipelines/ltx2/pipeline_ltx2.py */
#include "job/job.h"

/* Further evaluations. */
static dit_result diti_modal_request_terms(const dit_model *model, diti_job_request *out, dit_error *err) {
    dit_guidance *guidance = &out->guidance;
    uint32_t blocks = model->transformer->traits.layers, usual = model->transformer->traits.perturbed;
    if (!usual)
        return diti_fail(
            err, DIT_ERROR_INVALID_ARGUMENT,
            "guidance.perturb and guidance.isolate are LTX-2's, and this model is another one (%s %s); they "
            "must be 0",
            model->info.family, model->info.variant);
    if (!out->shape.guided)
        return diti_fail(
            err, DIT_ERROR_INVALID_ARGUMENT,
            "guidance.perturb and guidance.isolate add to guidance, which is off; give guidance.scale another "
            "value than 1");
    if (!guidance->skip_blocks) guidance->skip_blocks = (uint64_t)1 << (usual - 1);
    if (blocks < 64 && guidance->skip_blocks >> blocks)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "guidance.skip_blocks 0x%llx names blocks beyond the model's %u (bit i is block i)",
                         (unsigned long long)guidance->skip_blocks, blocks);
    out->shape.perturb = guidance->perturb;
    out->shape.isolate = guidance->isolate > 1 ? guidance->isolate - 1 : 0;
    return DIT_OK;
}

DIT_INTERNAL dit_result diti_modal_request(const dit_model *model, const dit_job_desc *desc, diti_job_request *out,
                                           dit_error *err) {
    const diti_model_traits *traits = &model->transformer->traits;
    dit_guidance *guidance = &out->guidance;
    if (guidance->sound_scale != 0 && !(guidance->sound_scale >= 1 && guidance->sound_scale <= 1000))
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "guidance.sound_scale is %g; it must be 0 (scale), or 1 to 1000",
                         (double)guidance->sound_scale);
    if (guidance->sound_scale > 0 && !out->shape.sound_frames)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "guidance.sound_scale is about a clip's sound, which this model (%s %s) has not; it must be 0",
                         model->info.family, model->info.variant);
    if (!(guidance->perturb >= 0 && guidance->perturb <= 100) ||
        !(guidance->isolate == 0 || (guidance->isolate >= 1 && guidance->isolate <= 100)))
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "dit_guidance: perturb %g must be 0 (off) to 100, and isolate %g 0 or 1 (off) to 100",
                         (double)guidance->perturb, (double)guidance->isolate);
    if (guidance->perturb > 0 || guidance->isolate > 1) DITI_TRY(diti_modal_request_terms(model, out, err));
    if (guidance->sound_scale > 1 && !out->shape.guided)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "guidance.sound_scale is %g, and guidance is off; give guidance.scale another value than 1",
                         (double)guidance->sound_scale);
    if (!out->shape.sound_frames || !out->shape.guided) return DIT_OK;
    if (desc->guidance.scale == 0 && guidance->sound_scale == 0) guidance->sound_scale = traits->sound_guidance;
    if (guidance->sound_scale == 0) guidance->sound_scale = guidance->scale;
    if (guidance->rescale == 0) {
        out->shape.sound_scale = guidance->sound_scale / guidance->scale;
        return DIT_OK;
    }
    if (guidance->project > 0 || guidance->norm_limit > 0 || guidance->length_limit > 0 || guidance->dynamic)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "dit_guidance: rescale goes together with scales alone where a clip has a sound; project, "
                         "norm_limit, length_limit and dynamic must be 0");
    out->shape.rescales = guidance->rescale;
    out->shape.scales[0] = guidance->scale;
    out->shape.scales[1] = guidance->sound_scale;
    out->shape.mixed = false;
    return DIT_OK;
}

/* Each step's time in the flow as often as the latent has columns, then one over it. */
DIT_INTERNAL void diti_modal_emit_inputs(diti_share *share, diti_graph *graph) {
    const diti_job_request *request = &share->job->request;
    share->program.times = 0;
    if (request->shape.rescales > 0)
        share->program.times = diti_tensor_input(graph, DITI_F32, request->shape.steps,
                                                 (uint32_t)diti_request_plane(request) + DITI_ROW_WIDTH, "times");
}

DIT_INTERNAL dit_result diti_modal_write(diti_share *share, dit_error *err) {
    const diti_job_request *request = &share->job->request;
    size_t columns = diti_request_plane(request) + DITI_ROW_WIDTH, i;
    uint32_t steps = request->shape.steps, step;
    float *values;
    dit_result result;
    if (!share->program.times) return DIT_OK;
    values = (float *)diti_alloc_array(&share->job->env, steps * columns, sizeof *values);
    if (!values) return diti_fail_memory(err, "the times of steps");
    for (step = 0; step < steps; step++)
        for (i = 0; i < columns; i++) {
            float time = request->schedule.steps[step].sigma;
            values[step * columns + i] = i < columns - DITI_ROW_WIDTH ? time : 1 / time;
        }
    result = diti_plan_write(share->program.plan, share->program.times, values, steps * columns * sizeof *values, err);
    diti_free(&share->job->env, values);
    return result;
}

/* Rows [row, row + C) of x in the columns of the pictures (0) or of the sound (1). */
static diti_tensor diti_modal_part(const diti_share *share, diti_graph *graph, diti_tensor x, uint32_t row,
                                   uint32_t channels, uint32_t part) {
    const diti_job_request *request = &share->job->request;
    uint32_t area = request->latent_height * request->latent_width,
             pictures = (request->shape.latent_frames - request->shape.sound_frames) * area;
    return diti_tensor_view(graph, x, row, channels, part ? pictures : 0,
                            part ? request->shape.sound_tokens : pictures);
}

/* scale * c + (1 - scale) * u where out is. */
static void diti_modal_mix(diti_graph *graph, diti_tensor c, float scale, diti_tensor u, diti_tensor out) {
    u = diti_scaled_sum(graph, "guidance", u, 1 - scale, 0, 0, 0);
    diti_scaled_sum(graph, "guidance", c, scale, 0, u, out);
}

/* The conditional prediction becomes u + sound_scale * (c - u) where the sound is. */
static void diti_modal_scale(const diti_share *share, diti_graph *graph, diti_tensor both, uint32_t channels) {
    float scale = share->job->request.shape.sound_scale;
    diti_tensor u = diti_modal_part(share, graph, both, 0, channels, 1),
                c = diti_modal_part(share, graph, both, channels, channels, 1);
    diti_modal_mix(graph, c, scale, u, c);
}

/* Rescales a part of the guided prediction v, with x0 = x - t * v: v - (k - 1) * x0 / t, where k is 1 - rescale +
   rescale * (deviation of the conditional x0) / (deviation of the guided one). */
static void diti_modal_rescale(const diti_share *share, diti_graph *graph, diti_tensor conditional, diti_tensor guided,
                               diti_tensor over_time, diti_tensor out, uint32_t part) {
    static const char name[] = "rescaled guidance";
    uint32_t channels = diti_tensor_rows(graph, out), columns;
    float rescale = share->job->request.shape.rescales;
    diti_tensor x0 = diti_modal_part(share, graph, guided, 0, channels, part), factors, block, way;
    diti_moments from, to;
    if (diti_graph_failed(graph)) return;
    columns = diti_tensor_columns(graph, x0);
    to = diti_moments_measure(graph, diti_modal_part(share, graph, conditional, 0, channels, part), 1, 0, columns);
    from = diti_moments_measure(graph, x0, 1, 0, columns);
    factors = diti_tensor_new(graph, DITI_F32, from.rows, DITI_ROW_WIDTH, name);
    block = diti_tensor_new(graph, DITI_F32, from.rows, DITI_ROW_WIDTH, name);
    if (diti_graph_failed(graph)) return;
    way = diti_multiply(graph, to.deviation, from.inverse, 0, name);
    way = diti_scaled_sum(graph, name, way, rescale, -rescale, 0, 0);
    way = diti_multiply(graph, way, over_time, 0, name);
    diti_fill_zeros(graph, factors);
    factors = diti_scaled_sum(graph, name, factors, 0, 0, way, 0);
    diti_copy(graph, x0, diti_tensor_reshape(graph, block, channels, columns), name);
    block = diti_multiply(graph, block, factors, 0, name);
    out = diti_modal_part(share, graph, out, 0, channels, part);
    diti_scaled_sum(graph, name, diti_tensor_reshape(graph, block, channels, columns), -1, 0, out, out);
}

/* x - times * v. */
static diti_tensor diti_modal_clean(const diti_share *share, diti_graph *graph, diti_tensor v, diti_tensor times) {
    v = diti_multiply(graph, v, times, 0, "clean latent");
    return diti_scaled_sum(graph, "clean latent", v, -1, 0, share->program.step.latent, 0);
}

/* perturb * (c - p) + isolate * (c - i), c the conditional prediction, p and i those of further evaluations; 0: none.
   Where the conditional branch has devices of its own, they make it for the others, too. */
static diti_tensor diti_modal_terms(diti_share *share, diti_graph *graph, diti_tensor conditional) {
    const diti_job_request *request = &share->job->request;
    const float factors[2] = {request->shape.perturb, request->shape.isolate};
    bool divided = share->assignment.guidance.count > 1;
    uint32_t device = divided ? share->assignment.guidance.devices[1 - share->assignment.guidance.index] : 0, i;
    diti_tensor terms = 0;
    if (diti_graph_failed(graph) || (factors[0] <= 0 && factors[1] <= 0)) return 0;
    if (divided && !share->assignment.guidance.index) {
        terms = diti_tensor_new(graph, DITI_F32, diti_tensor_rows(graph, conditional),
                                diti_tensor_columns(graph, conditional), "terms of guidance");
        diti_receive(graph, terms, device);
        return terms;
    }
    for (i = 0; i < 2 && !diti_graph_failed(graph); i++) {
        diti_tensor other;
        if (factors[i] <= 0) continue;
        other = diti_guidance_other(share, graph, i ? 0 : request->guidance.skip_blocks, i > 0);
        if (diti_graph_failed(graph)) return 0;
        other = diti_scaled_sum(graph, "terms of guidance", other, -factors[i], 0, terms, 0);
        terms = diti_scaled_sum(graph, "terms of guidance", conditional, factors[i], 0, other, 0);
    }
    if (divided && terms) diti_send(graph, terms, device);
    return terms;
}

DIT_INTERNAL diti_tensor diti_modal_guide(diti_share *share, diti_graph *graph, diti_tensor both) {
    const diti_job_shape *shape = &share->job->request.shape;
    uint32_t channels, columns, part;
    diti_tensor row, times, out, guided, conditional, terms;
    if (diti_graph_failed(graph) || !shape->sound_frames) return both;
    channels = diti_tensor_rows(graph, both) / 2;
    columns = diti_tensor_columns(graph, both);
    terms = diti_modal_terms(share, graph, diti_tensor_view(graph, both, channels, channels, 0, columns));
    if (shape->rescales <= 0) {
        if (shape->sound_scale > 0 && shape->sound_scale != 1) diti_modal_scale(share, graph, both, channels);
        return terms ? diti_scaled_sum(graph, "guidance", both, 1, 0, terms, 0) : both;
    }
    out = diti_tensor_new(graph, DITI_F32, channels, columns, "guided prediction");
    times = diti_tensor_new(graph, DITI_F32, channels, columns, "times");
    row = diti_select_row(graph, share->program.times, share->program.step_row, "select times");
    if (diti_graph_failed(graph)) return 0;
    diti_fill_zeros(graph, times);
    times = diti_scaled_sum(graph, "times", times, 0, 0, diti_tensor_view(graph, row, 0, 1, 0, columns), 0);
    conditional = diti_tensor_view(graph, both, channels, channels, 0, columns);
    diti_copy(graph, conditional, out, "guided prediction");
    for (part = 0; part < 2 && !diti_graph_failed(graph); part++) {
        diti_tensor u = diti_modal_part(share, graph, both, 0, channels, part),
                    v = diti_modal_part(share, graph, out, 0, channels, part);
        diti_modal_mix(graph, v, shape->scales[part], u, v);
    }
    if (terms) diti_scaled_sum(graph, "guidance", out, 1, 0, terms, out);
    conditional = diti_modal_clean(share, graph, conditional, times);
    guided = diti_modal_clean(share, graph, out, times);
    for (part = 0; part < 2 && !diti_graph_failed(graph); part++)
        diti_modal_rescale(share, graph, conditional, guided,
                           diti_tensor_view(graph, row, 0, 1, columns, DITI_ROW_WIDTH), out, part);
    return out;
}
