/* The host writes the inputs of a job's plan before a run. */
#include "job/job.h"

/* One for each image of each branch; the unconditional one has the class that means none. */
static dit_result diti_inputs_classes(diti_share *share, dit_error *err) {
    const dit_job *job = share->job;
    const diti_job_request *request = &job->request;
    uint32_t labels[2 * DITI_JOB_MAX_IMAGES], images = request->shape.image_count,
                                              count = diti_job_branches(&job->request.shape) * images;
    uint32_t i;
    for (i = 0; i < count; i++) {
        labels[i] = i + images < count ? job->model->transformer->traits.class_count : request->labels[i % images];
    }
    return diti_plan_write(share->program.plan, share->program.labels, labels + share->assignment.first_branch * images,
                           share->assignment.branches * images * sizeof *labels, err);
}

/* Which rows belong to which branch, as keys of the images. */
static dit_result diti_inputs_items(diti_share *share, dit_error *err) {
    const dit_job *job = share->job;
    uint32_t items[2][DITI_ITEM_WORDS] = {{0, 0, 0, 0}, {0, 0, 0, 0}}, branch;
    diti_text_use use = DITI_ZERO; /* shares that do not encode know the places, too */
    memcpy(use.encodes, job->request.shape.encodes, sizeof use.encodes);
    use.encoded_rows = job->request.shape.encoded_rows;
    use.given_rows = job->request.shape.given_rows;
    use.null_text = job->request.shape.null_text ? job->model->transformer->traits.null_text : NULL;
    for (branch = 0; branch < diti_job_branches(&job->request.shape); branch++) {
        items[branch][2] = diti_prompts_first(&use, job->request.encoded, branch);
        items[branch][3] = job->request.lengths[DITI_TEXT_FIRST][branch];
    }
    for (branch = 0; branch < share->assignment.branches; branch++)
        share->program.text_firsts[branch] = items[share->assignment.first_branch + branch][2];
    return diti_plan_write(share->program.plan, share->program.text_items, items[share->assignment.first_branch],
                           share->assignment.branches * sizeof *items, err);
}

static dit_result diti_inputs_text(diti_share *share, dit_error *err) {
    const dit_job *job = share->job;
    diti_prompts prompts;
    dit_result result = DIT_OK;
    uint32_t branch;
    if (share->program.labels) return diti_inputs_classes(share, err);
    for (branch = 0; branch < share->assignment.branches; branch++)
        share->program.text_firsts[branch] = branch * job->model->texts[DITI_TEXT_FIRST].tokens;
    if (!job->model->fixed_text) result = diti_inputs_items(share, err);
    if ((job->model->transformer->traits.prefixes || job->model->transformer->traits.anchors) &&
        job->request.shape.reference_count && result >= 0)
        result = diti_prompts_shown(job->model, &job->request.shape, job->request.tokens,
                                    share->program.step.shown_rows, err);
    if (result < 0 || share->assignment.share) return result;
    prompts.tokens = job->request.tokens;
    prompts.rows = job->request.encoded;
    prompts.given = job->request.conditioning;
    return diti_prompts_write(job->model, &job->env, share->program.plan, &share->program.text, &prompts, err);
}

static void diti_inputs_coefficients(const diti_job_request *request, const diti_model_traits *traits, float *table) {
    const dit_guidance *guidance = &request->guidance;
    bool shortens = request->shape.norms_tokens && traits->shortens_tokens;
    uint32_t i, frame;
    for (i = 0; i < request->schedule.count; i++, table += diti_job_solver_columns(&request->shape)) {
        const diti_step *step = &request->schedule.steps[i];
        diti_solver_row *row = (diti_solver_row *)table;
        row->x0_x = step->x0_x;
        row->x0_m = step->x0_m;
        row->clip = step->clip;
        row->x_x = step->x_x;
        row->x_m = step->x_m;
        row->x_y = step->x_y;
        row->d0 = step->d0;
        row->d1 = step->d1;
        row->d2 = step->d2;
        row->noise = step->noise;
        row->noise_v = step->noise_v;
        row->y_x = step->y_x;
        row->y_y = step->y_y;
        row->e0 = step->e0;
        row->e1 = step->e1;
        row->e2 = step->e2;
        row->d3 = step->d3;
        row->push = step->push;
        row->shown_x = step->shown_x;
        row->shown_x0 = step->shown_x0;
        row->kept_x0 = step->kept_x0;
        row->kept_noise = step->kept_noise;
        row->number = (float)(i + 1);
        row->guidance = guidance->scale;
        if (guidance->dynamic)
            row->guidance =
                (float)diti_dynamic_guidance((double)guidance->scale, request->schedule.count, (double)step->timestep);
        row->rescale = guidance->rescale;
        row->project = guidance->project;
        row->length_limit = guidance->length_limit > 0 ? guidance->length_limit : shortens ? 1 : 3e38f;
        row->norm_limit = guidance->norm_limit > 0 ? guidance->norm_limit : 3e38f;
        row->guided_channels = traits->guided_channels ? (float)traits->guided_channels : 65536.0f;
        for (frame = 0; frame < request->shape.latent_frames && request->frame_steps; frame++) {
            const diti_frame_step *own = &request->frame_steps[(size_t)i * request->shape.latent_frames + frame];
            float *out = table + DITI_COEFFICIENTS + 2 * (size_t)request->shape.image_count + 3 * (size_t)frame;
            out[0] = own->x;
            out[1] = own->noise;
            out[2] = own->moves;
        }
    }
}

/* Timesteps, solver coefficients and input scales of all steps. */
static dit_result diti_inputs_schedule(diti_share *share, dit_error *err) {
    const dit_job *job = share->job;
    const diti_job_request *request = &job->request;
    uint32_t count = request->schedule.count, i;
    size_t columns = diti_job_solver_columns(&request->shape);
    float *values = (float *)diti_alloc_array(&job->env, (size_t)count * (columns + 2), sizeof *values);
    float *timesteps = values, *scales, *table;
    dit_result result;
    if (!values) return diti_fail_memory(err, "the schedule");
    scales = values + count;
    table = scales + count;
    for (i = 0; i < count; i++) {
        timesteps[i] = request->schedule.steps[i].timestep;
        scales[i] = request->schedule.steps[i].input;
    }
    share->program.step.guidance = request->guidance.distilled;
    diti_inputs_coefficients(request, &job->model->transformer->traits, table);
    for (i = 0; i < count && request->guidance.low_scale > 0; i++)
        if (diti_job_is_low(job, i) || i + request->late_steps >= count)
            ((diti_solver_row *)(table + i * columns))->guidance = request->guidance.low_scale;
    result = diti_share_transformer(share)->family->write_inputs(diti_share_transformer(share), share->program.plan,
                                                                 &share->program.step, timesteps, err);
    if (result >= 0 && diti_share_guides_apart(share))
        result = job->model->unconditional->family->write_inputs(job->model->unconditional, share->program.plan,
                                                                 &share->program.unconditional, timesteps, err);
    if (result >= 0 && job->model->low)
        result = job->model->low->family->write_inputs(job->model->low, share->program.plan, &share->program.low,
                                                       timesteps, err);
    if (result >= 0) result = diti_control_write(share, timesteps, err);
    if (result >= 0)
        result = diti_plan_write(share->program.plan, share->program.coefficients, table,
                                 (size_t)count * columns * sizeof *table, err);
    if (result >= 0 && share->program.input_scales)
        result = diti_plan_write(share->program.plan, share->program.input_scales, scales, count * sizeof *scales, err);
    diti_free(&job->env, values);
    return result;
}

/* The noise that a run begins with has the level of the first step, which the request forgets then. */
static void diti_inputs_scale_noise(dit_job *job) {
    diti_job_request *request = &job->request;
    size_t count = diti_job_latent_values(job), i;
    for (i = 0; i < count && !request->shape.starts; i++) request->noise[i] *= request->schedule.initial;
    request->schedule.initial = 1;
}

/* Noise of all steps, whose planes have room up to a multiple of four in the device's table. */
static dit_result diti_inputs_step_noise(diti_share *share, diti_tensor table, const float *noise, dit_error *err) {
    const dit_job *job = share->job;
    uint32_t steps = job->request.shape.steps, plane = (uint32_t)diti_request_plane(&job->request);
    size_t count = diti_job_latent_values(job) * steps, room = diti_padded(plane), i;
    float *padded;
    dit_result result;
    if (plane == room) return diti_plan_write(share->program.plan, table, noise, count * sizeof(float), err);
    padded = (float *)diti_alloc_array(&job->env, count / plane * room, sizeof *padded);
    if (!padded) return diti_fail_memory(err, "the noise");
    memset(padded, 0, count / plane * room * sizeof *padded);
    for (i = 0; i < count / plane; i++) memcpy(padded + i * room, noise + i * plane, plane * sizeof *noise);
    result = diti_plan_write(share->program.plan, table, padded, count / plane * room * sizeof(float), err);
    diti_free(&job->env, padded);
    return result;
}

static dit_result diti_inputs_noise(diti_share *share, dit_error *err) {
    const diti_job_request *request = &share->job->request;
    DITI_TRY(diti_plan_write(share->program.plan, share->program.noise, request->noise,
                             diti_job_latent_values(share->job) * sizeof(float), err));
    if (share->program.step_noise)
        DITI_TRY(diti_inputs_step_noise(share, share->program.step_noise, request->step_noise, err));
    if (share->program.renoise) DITI_TRY(diti_inputs_step_noise(share, share->program.renoise, request->renoise, err));
    if (share->program.first_noise)
        DITI_TRY(diti_plan_write(
            share->program.plan, share->program.first_noise, request->first_noise,
            request->shape.steps * diti_first_noise_columns(share->job->model, request) * sizeof(float), err));
    return share->program.frame_steps ? diti_given_write_frame_steps(share, err) : DIT_OK;
}

static dit_result diti_inputs_write(diti_share *share, dit_error *err) {
    DITI_TRY(diti_inputs_text(share, err));
    DITI_TRY(diti_inputs_schedule(share, err));
    DITI_TRY(diti_inputs_noise(share, err));
    if (share->program.start_coefficients) DITI_TRY(diti_start_write(share, err));
    DITI_TRY(diti_given_write(share, err));
    DITI_TRY(diti_branch_write(share, err));
    DITI_TRY(diti_clip_write(share, err));
    DITI_TRY(diti_preview_write(share, err));
    DITI_TRY(diti_loras_write(share->job->model, share->job->request.lora_weights, &share->program.loras,
                              share->program.plan, err));
    DITI_TRY(diti_references_write(share, err));
    DITI_TRY(diti_reuse_write(share, err));
    DITI_TRY(diti_modal_write(share, err));
    return diti_guard_write(share->program.plan, share->job->begins_at, err);
}

DIT_INTERNAL dit_result diti_job_write_inputs(dit_job *job, dit_error *err) {
    dit_result result = DIT_OK;
    uint32_t i;
    diti_inputs_scale_noise(job);
    if (job->request.shape.resumes || job->agrees) result = diti_request_keep_pictures(&job->env, &job->request, err);
    for (i = 0; i < job->share_count && result >= 0; i++) result = diti_inputs_write(job->shares[i], err);
    if (!job->request.keeps_pictures) /* the desc's pictures need not outlive the call */
        diti_request_drop_pictures(&job->env, &job->request);
    return result;
}
