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
    const uint32_t *lengths = job->request.lengths[DITI_TEXT_FIRST];
    uint32_t items[2][DITI_ITEM_WORDS] = {{0, 0, 0, 0}, {0, 0, 0, 0}}, branch;
    diti_text_use use = DITI_ZERO; /* shares that do not encode know the places, too */
    memcpy(use.encodes, job->request.shape.encodes, sizeof use.encodes);
    use.encoded_rows = job->request.shape.encoded_rows;
    for (branch = 0; branch < diti_job_branches(&job->request.shape); branch++) {
        items[branch][2] = diti_prompts_first(&use, lengths, branch);
        items[branch][3] = lengths[branch];
    }
    return diti_plan_write(share->program.plan, share->program.text_items, items[share->assignment.first_branch],
                           share->assignment.branches * sizeof *items, err);
}

static dit_result diti_inputs_text(diti_share *share, dit_error *err) {
    const dit_job *job = share->job;
    diti_prompts prompts;
    dit_result result = DIT_OK;
    if (share->program.labels) return diti_inputs_classes(share, err);
    if (!job->model->fixed_text) result = diti_inputs_items(share, err);
    if (result < 0 || share->assignment.share) return result;
    prompts.tokens = job->request.tokens;
    prompts.lengths = job->request.lengths[DITI_TEXT_FIRST];
    prompts.given = job->request.conditioning;
    return diti_prompts_write(job->model, &job->env, share->program.plan, &share->program.text, &prompts, err);
}

static void diti_inputs_coefficients(const diti_job_request *request, uint32_t guided_channels, float *table) {
    const dit_guidance *guidance = &request->guidance;
    uint32_t i;
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
        row->norm_limit = guidance->norm_limit > 0 ? guidance->norm_limit : 3e38f;
        row->guided_channels = guided_channels ? (float)guided_channels : 65536.0f;
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
    share->program.denoise.guidance = request->guidance.distilled;
    diti_inputs_coefficients(request, job->model->transformer->traits.guided_channels, table);
    result = job->model->transformer->family->write_inputs(job->model->transformer, share->program.plan,
                                                           &share->program.denoise, timesteps, err);
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

static dit_result diti_inputs_noise(diti_share *share, dit_error *err) {
    const diti_job_request *request = &share->job->request;
    size_t count = diti_job_latent_values(share->job);
    DITI_TRY(diti_plan_write(share->program.plan, share->program.noise, request->noise, count * sizeof(float), err));
    if (!share->program.step_noise) return DIT_OK;
    return diti_plan_write(share->program.plan, share->program.step_noise, request->step_noise,
                           count * request->shape.steps * sizeof(float), err);
}

static dit_result diti_inputs_write(diti_share *share, dit_error *err) {
    DITI_TRY(diti_inputs_text(share, err));
    DITI_TRY(diti_inputs_schedule(share, err));
    DITI_TRY(diti_inputs_noise(share, err));
    if (share->job->request.start) DITI_TRY(diti_start_write(share, err));
    return diti_guard_write(share->program.plan, share->job->begins_at, err);
}

DIT_INTERNAL dit_result diti_job_write_inputs(dit_job *job, dit_error *err) {
    dit_result result = DIT_OK;
    uint32_t i;
    diti_inputs_scale_noise(job);
    for (i = 0; i < job->share_count && result >= 0; i++) result = diti_inputs_write(job->shares[i], err);
    job->request.start = job->request.mask = NULL; /* the desc's pictures need not outlive the call */
    return result;
}
