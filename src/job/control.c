/* Pictures that steer a picture (docs/models.md 3.3.1, 3.4.1, 3.4.2): what FLUX.1 Fill repaints; edges or a depth map
   that FLUX.1 Canny and Depth follow; pictures that control nets follow. Checks of a request, ops, and what the host
   writes. */
#include "job/job.h"

/* --- requests --- */

DIT_INTERNAL dit_result diti_job_request_repaint(const dit_model *model, const dit_job_desc *desc,
                                                 diti_job_request *out, dit_error *err) {
    if (!desc->init_image || !desc->mask)
        return diti_fail(
            err, DIT_ERROR_INVALID_ARGUMENT,
            "dit_job_desc: this model (%s %s) repaints a part of a picture, and %s is missing; give init_image, "
            "and mask, which is white in that part",
            model->info.family, model->info.variant, desc->init_image ? "mask" : "init_image");
    if (desc->strength != 0 && desc->strength != 1)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "strength is %g; this model (%s %s) makes anew all that mask shows: it must be 0 or 1",
                         (double)desc->strength, model->info.family, model->info.variant);
    DITI_TRY(diti_job_needs_encoder(model, "init_image", err));
    DITI_TRY(diti_job_check_memory("init_image", desc->init_image, &out->shape, err));
    DITI_TRY(diti_job_check_memory("mask", desc->mask, &out->shape, err));
    out->shape.repaints = true;
    out->start = desc->init_image;
    out->mask = desc->mask;
    return DIT_OK;
}

static dit_result diti_control_request_picture(const dit_model *model, const dit_job_desc *desc, diti_job_request *out,
                                               dit_error *err) {
    const diti_model_traits *traits = &model->transformer->traits;
    bool wanted = traits->condition_channels && !traits->repaint_channels && !out->shape.clip;
    if (out->shape.clip && model->transformer->branch) return DIT_OK; /* branch.c has it */
    if (desc->control_count > 1 || desc->mask_count > 1 || desc->control_strength != 0)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "dit_job_desc: %s is about a clip that is followed, and this model (%s %s) follows none; it "
                         "must be 0",
                         desc->control_count > 1 ? "control_count"
                         : desc->mask_count > 1  ? "mask_count"
                                                 : "control_strength",
                         model->info.family, model->info.variant);
    if (!wanted && desc->control_image)
        return diti_fail(
            err, DIT_ERROR_INVALID_ARGUMENT,
            "dit_job_desc: this model (%s %s) reads no control picture by itself; control_image must be NULL%s",
            model->info.family, model->info.variant,
            traits->control_by ? ", a control net follows that of its entry in adapters" : "");
    if (!wanted) return DIT_OK;
    if (!desc->control_image)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "dit_job_desc: this model (%s %s) follows edges or a depth map; give control_image",
                         model->info.family, model->info.variant);
    DITI_TRY(diti_job_needs_encoder(model, "control_image", err));
    DITI_TRY(diti_job_check_memory("control_image", desc->control_image, &out->shape, err));
    out->shape.follows = true;
    out->control_image = desc->control_image;
    return DIT_OK;
}

static dit_result diti_control_request_net(const dit_model *model, uint32_t index, const dit_adapter *adapter,
                                           diti_job_request *out, dit_error *err) {
    char name[32];
    uint32_t net = adapter->control, modes;
    diti_format(name, sizeof name, "adapters[%u].image", (unsigned)index);
    if (net >= model->control_count)
        return diti_fail(
            err, DIT_ERROR_INVALID_ARGUMENT,
            "adapters[%u].control is %u, and the model has %u control nets; add one as a component with the "
            "role DIT_ROLE_CONTROL when it is loaded",
            (unsigned)index, net, (unsigned)model->control_count);
    if (out->shape.controls >> net & 1u)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "adapters[%u].control is %u, which an adapter before has, too; load the net twice",
                         (unsigned)index, net);
    if (!(adapter->weight >= -100 && adapter->weight <= 100))
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "adapters[%u].weight is %g; it must be 0 (stands for 1) or up to "
                         "100 either way",
                         (unsigned)index, (double)adapter->weight);
    if ((adapter->first != 0 || adapter->last != 0) &&
        !(adapter->first >= 0 && adapter->first < adapter->last && adapter->last <= 1))
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "adapters[%u]: first %g and last %g must be rising fractions of the steps, 0 to 1",
                         (unsigned)index, (double)adapter->first, (double)adapter->last);
    modes = model->controls[net]->modes;
    if (modes ? adapter->mode >= modes : adapter->mode > 0)
        return diti_fail(
            err, DIT_ERROR_INVALID_ARGUMENT,
            "adapters[%u].mode is %u; this control net tells %u kinds of pictures apart, from 0 on: it must "
            "be %s",
            (unsigned)index, adapter->mode, (unsigned)(modes ? modes : 1), modes ? "below that" : "0");
    if (!adapter->image.width || !adapter->image.height)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "%s: a control net follows a picture; give it in rgba", name);
    DITI_TRY(diti_job_check_memory(name, &adapter->image, &out->shape, err));
    out->shape.controls |= 1u << net;
    out->net_adapters[net] = *adapter;
    out->net_images[net] = &adapter->image;
    if (adapter->weight == 0) out->net_adapters[net].weight = 1;
    if (adapter->first == 0 && adapter->last == 0) out->net_adapters[net].last = 1;
    return DIT_OK;
}

DIT_INTERNAL dit_result diti_job_request_control(const dit_model *model, const dit_job_desc *desc,
                                                 diti_job_request *out, dit_error *err) {
    uint32_t i;
    DITI_TRY(diti_control_request_picture(model, desc, out, err));
    if (!desc->adapter_count) return DIT_OK;
    if (!desc->adapters)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "dit_job_desc: adapters is NULL, adapter_count is %u",
                         desc->adapter_count);
    if (!model->transformer->traits.control_by)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "dit_job_desc: this model (%s %s) takes no control net; adapter_count must be 0",
                         model->info.family, model->info.variant);
    if (desc->reference_count)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "dit_job_desc: control nets know nothing of references; give adapters or references");
    DITI_TRY(diti_job_needs_encoder(model, "adapters", err));
    for (i = 0; i < desc->adapter_count; i++)
        DITI_TRY(diti_control_request_net(model, i, &desc->adapters[i], out, err));
    return DIT_OK;
}

DIT_INTERNAL void diti_control_request_sets(diti_job_request *request) {
    diti_job_shape *shape = &request->shape;
    uint32_t step, set, all = 0;
    for (step = 0; step < shape->steps; step++) {
        uint32_t working = diti_control_working(request, step);
        for (set = 0; set < shape->control_set_count && shape->control_sets[set] != working;) set++;
        shape->control_sets[set] = working;
        if (set == shape->control_set_count) shape->control_set_count++;
        all |= working;
    }
    shape->controls = all;
}

/* --- ops --- */

/* The picture beside the latent, F32 [pictures * condition_channels, h * w]: what is followed; or what is not
   repainted, then the mask. */
static void diti_control_emit_condition(diti_share *share, diti_graph *graph) {
    const dit_job *job = share->job;
    const diti_job_shape *shape = &job->request.shape;
    const diti_model_traits *traits = &job->model->transformer->traits;
    uint32_t plane = (uint32_t)diti_request_plane(&job->request), pixels = shape->width * shape->height, i,
             channels = traits->condition_channels, masks = traits->repaint_channels;
    diti_tensor rows, latent, mask = 0;
    share->program.condition = diti_tensor_new(graph, DITI_F32, shape->image_count * channels, plane, "condition");
    if (share->assignment.share == 0) {
        if (masks) {
            rows = share->program.condition_pixels = diti_tensor_input(graph, DITI_F32, pixels, 3, "kept pixels");
            mask = share->program.condition_mask = diti_tensor_input(graph, DITI_F32, masks, plane, "mask");
        } else {
            share->program.condition_pixels = diti_tensor_input(graph, DITI_U32, 1, pixels, "control picture");
            rows = diti_image_in(graph, share->program.condition_pixels, 3, false);
        }
        latent = diti_encode_mean(share, graph, rows, shape->width, shape->height, true);
        for (i = 0; i < shape->image_count && !diti_graph_failed(graph); i++) {
            diti_copy(graph, latent,
                      diti_tensor_view(graph, share->program.condition, i * channels, channels - masks, 0, plane),
                      "condition");
            if (masks)
                diti_copy(
                    graph, mask,
                    diti_tensor_view(graph, share->program.condition, (i + 1) * channels - masks, masks, 0, plane),
                    "condition");
        }
    }
    diti_broadcast(graph, &share->assignment.all, 0, share->program.condition);
}

/* The latent of a control net's picture, F32 [C, h * w]. */
static diti_tensor diti_control_emit_picture(diti_share *share, diti_graph *graph, uint32_t net) {
    const dit_job *job = share->job;
    const diti_job_shape *shape = &job->request.shape;
    const diti_transformer *model = job->model->controls[net];
    diti_tensor planes;
    if (share->assignment.share) {
        planes = diti_tensor_new(graph, DITI_F32, model->traits.latent_channels,
                                 (uint32_t)diti_request_plane(&job->request), "control picture");
    } else {
        share->program.net_pixels[net] =
            diti_tensor_input(graph, DITI_U32, 1, shape->width * shape->height, "control picture");
        planes = diti_encode_mean(share, graph, diti_image_in(graph, share->program.net_pixels[net], 3, false),
                                  shape->width, shape->height, !model->traits.unshifted_control);
    }
    if (share->assignment.share_total > 1 && !diti_graph_failed(graph))
        diti_broadcast(graph, &share->assignment.all, 0, planes);
    return planes;
}

DIT_INTERNAL void diti_control_emit(diti_share *share, diti_graph *graph) {
    const diti_job_shape *shape = &share->job->request.shape;
    uint32_t net;
    if (shape->repaints || shape->follows) diti_control_emit_condition(share, graph);
    for (net = 0; net < share->job->model->control_count && !diti_graph_failed(graph); net++)
        if (shape->controls >> net & 1u)
            share->program.net_steps[net].control = diti_control_emit_picture(share, graph, net);
}

/* The net of a number that a job uses; NULL: it uses none. The transformers' own nets are number 0, which stands for
   both in diti_job_shape.controls, and number 1, which is that of the expert for low noise. */
static const diti_transformer *diti_control_net(const dit_job *job, uint32_t net) {
    const dit_model *model = job->model;
    if (job->request.shape.branch)
        return net == 0 ? model->transformer->branch : net == 1 && model->low ? model->low->branch : NULL;
    return job->request.shape.controls >> net & 1u ? model->controls[net] : NULL;
}

/* Which of both experts' evaluations it adds to. */
static bool diti_control_is_low(const dit_job *job, uint32_t net) { return job->request.shape.branch && net == 1; }

DIT_INTERNAL void diti_control_prepare(diti_share *share, diti_graph *graph, bool low) {
    const dit_job *job = share->job;
    const diti_transformer *model = low ? job->model->low : job->model->transformer;
    uint32_t net;
    for (net = 0; net < DITI_MAX_CONTROLS && !diti_graph_failed(graph); net++) {
        diti_control_use *use = &share->program.nets[net];
        diti_step_desc *own = &share->program.net_steps[net];
        diti_tensor control = job->request.shape.branch ? share->program.control : own->control;
        if (diti_control_is_low(job, net) != low) continue;
        memset(use, 0, sizeof *use);
        memset(&share->program.net_kept_kv[net], 0, sizeof share->program.net_kept_kv[net]);
        use->model = diti_control_net(job, net);
        if (!use->model) continue;
        *own = share->program.low; /* the members that all evaluations have in common */
        own->control = control;
        own->control_mode = job->request.net_adapters[net].mode;
        own->kept_kv = diti_strips_used(&job->request.shape) ? &share->program.net_kept_kv[net] : NULL;
        share->program.net_kept_kv[net].int8 = job->request.shape.int8_kept;
        use->step = own;
        if (use->model->modes) own->text_tokens++;
        diti_control_divide(model, own->axes, use);
        use->scales = diti_tensor_input(graph, DITI_F32, 1, use->model->traits.width, "strength of control");
        share->program.net_scales[net] = use->scales;
        diti_transformer_prepare(use->model, graph, own);
    }
}

DIT_INTERNAL void diti_control_choose(diti_share *share, uint32_t set) {
    bool low = share->program.is_low, branch = share->job->request.shape.branch;
    diti_step_desc *step = low ? &share->program.low : &share->program.step;
    uint32_t net;
    step->controls = share->program.nets_at_work;
    step->control_count = 0;
    for (net = 0; net < DITI_MAX_CONTROLS; net++)
        if (share->job->request.shape.control_sets[set] >> net & 1u)
            step->controls[step->control_count++] = share->program.nets[branch && low ? net + 1 : net];
}

/* --- host inputs --- */

/* Pixels in -1..1, and 0, which is grey, where the mask is white: of the picture nothing else than what stays is known.
 */
static dit_result diti_control_write_kept(diti_share *share, dit_error *err) {
    const dit_job *job = share->job;
    const dit_image *image = job->request.start;
    size_t pitch = image->row_pitch ? image->row_pitch : (size_t)image->width * 4, values;
    uint32_t x, y, c;
    float *pixels, *at;
    dit_result result;
    values = (size_t)image->width * image->height * 3;
    pixels = at = (float *)diti_alloc_array(&job->env, values, sizeof *pixels);
    if (!pixels) return diti_fail_memory(err, "init_image");
    for (y = 0; y < image->height; y++)
        for (x = 0; x < image->width; x++) {
            float keeps = 1 - diti_mask_at(job->request.mask, x, y);
            for (c = 0; c < 3; c++) *at++ = keeps * ((float)image->rgba[y * pitch + 4 * x + c] / 127.5f - 1);
        }
    result =
        diti_plan_write(share->program.plan, share->program.condition_pixels, pixels, values * sizeof *pixels, err);
    diti_free(&job->env, pixels);
    return result;
}

/* Plane dy * side + dx has pixel (side * y + dy, side * x + dx) of the mask at (y, x). */
static dit_result diti_control_write_mask(diti_share *share, dit_error *err) {
    const dit_job *job = share->job;
    uint32_t width = job->request.latent_width, height = job->request.latent_height, x, y, plane,
             side = diti_model_factor(job->model), planes = job->model->transformer->traits.repaint_channels;
    size_t values = (size_t)width * height * planes;
    float *mask = (float *)diti_alloc_array(&job->env, values, sizeof *mask), *at = mask;
    dit_result result;
    if (!mask) return diti_fail_memory(err, "the mask");
    for (plane = 0; plane < planes; plane++)
        for (y = 0; y < height; y++)
            for (x = 0; x < width; x++)
                *at++ = diti_mask_at(job->request.mask, x * side + plane % side, y * side + plane / side);
    result = diti_plan_write(share->program.plan, share->program.condition_mask, mask, values * sizeof *mask, err);
    diti_free(&job->env, mask);
    return result;
}

static dit_result diti_control_write_scales(diti_share *share, uint32_t net, dit_error *err) {
    const dit_job *job = share->job;
    const dit_adapter *adapter = &job->request.net_adapters[job->request.shape.branch ? 0 : net];
    uint32_t width = job->model->transformer->traits.width, c;
    float *scales = (float *)diti_alloc_array(&job->env, width, sizeof *scales);
    dit_result result;
    if (!scales) return diti_fail_memory(err, "the strength of control");
    for (c = 0; c < width; c++) scales[c] = adapter->weight;
    result = diti_plan_write(share->program.plan, share->program.net_scales[net], scales, width * sizeof *scales, err);
    diti_free(&job->env, scales);
    return result;
}

DIT_INTERNAL dit_result diti_control_write(diti_share *share, const float *timesteps, dit_error *err) {
    const dit_job *job = share->job;
    const diti_job_shape *shape = &job->request.shape;
    bool first = share->assignment.share == 0;
    uint32_t net;
    if (first && shape->repaints && job->request.start) {
        DITI_TRY(diti_control_write_kept(share, err));
        DITI_TRY(diti_control_write_mask(share, err));
    }
    if (first && shape->follows && job->request.control_image)
        DITI_TRY(diti_job_write_pixels(share, share->program.condition_pixels, job->request.control_image, err));
    for (net = 0; net < DITI_MAX_CONTROLS; net++) {
        const diti_transformer *model = diti_control_net(job, net);
        const dit_image *image = job->request.net_images[net];
        if (!model) continue;
        share->program.net_steps[net].guidance = job->request.guidance.distilled;
        share->program.net_steps[net].control_mode = job->request.net_adapters[net].mode;
        if (first && image) DITI_TRY(diti_job_write_pixels(share, share->program.net_pixels[net], image, err));
        DITI_TRY(diti_control_write_scales(share, net, err));
        DITI_TRY(
            model->family->write_inputs(model, share->program.plan, &share->program.net_steps[net], timesteps, err));
    }
    return DIT_OK;
}
