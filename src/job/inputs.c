/* The host writes the inputs of a job's plan before a run. */
#include "job/job.h"

/* One for each image of each branch; the unconditional one has the class that means none. */
static dit_result diti_inputs_classes(dit_job *job, dit_error *err) {
    const diti_job_request *request = &job->request;
    uint32_t labels[2 * DITI_JOB_MAX_IMAGES], images = request->shape.image_count,
                                              count = diti_job_branches(&job->request.shape) * images;
    uint32_t i;
    for (i = 0; i < count; i++) {
        labels[i] = i + images < count ? job->model->transformer->traits.class_count : request->labels[i % images];
    }
    return diti_plan_write(job->program.plan, job->program.labels, labels + job->assignment.first_branch * images,
                           job->assignment.branches * images * sizeof *labels, err);
}

/* Which rows belong to which branch, as keys of the images. */
static dit_result diti_inputs_items(dit_job *job, dit_error *err) {
    const uint32_t *lengths = job->request.lengths[DITI_TEXT_FIRST];
    uint32_t items[2][DITI_ITEM_WORDS] = {{0, 0, 0, 0}, {0, 0, 0, 0}}, branch;
    diti_text_use use = DITI_ZERO; /* shares that do not encode know the places, too */
    memcpy(use.encodes, job->request.shape.encodes, sizeof use.encodes);
    use.encoded_rows = job->request.shape.encoded_rows;
    for (branch = 0; branch < diti_job_branches(&job->request.shape); branch++) {
        items[branch][2] = diti_prompts_first(&use, lengths, branch);
        items[branch][3] = lengths[branch];
    }
    return diti_plan_write(job->program.plan, job->program.text_items, items[job->assignment.first_branch],
                           job->assignment.branches * sizeof *items, err);
}

static dit_result diti_inputs_text(dit_job *job, dit_error *err) {
    diti_prompts prompts;
    dit_result result = DIT_OK;
    if (job->program.labels) return diti_inputs_classes(job, err);
    if (!job->model->fixed_text) result = diti_inputs_items(job, err);
    if (result < 0 || job->assignment.share) return result;
    prompts.tokens = job->request.tokens;
    prompts.lengths = job->request.lengths[DITI_TEXT_FIRST];
    prompts.given = job->request.conditioning;
    return diti_prompts_write(job->model, &job->env, job->program.plan, &job->program.text, &prompts, err);
}

static void diti_inputs_coefficients(const diti_job_request *request, uint32_t guided_channels, float *table) {
    const dit_guidance *guidance = &request->guidance;
    uint32_t i;
    for (i = 0; i < request->schedule.count; i++, table += diti_job_solver_columns(&request->shape)) {
        const diti_step *step = &request->schedule.steps[i];
        table[0] = step->x0_x;
        table[1] = step->x0_m;
        table[2] = step->clip;
        table[3] = step->x_x;
        table[4] = step->x_m;
        table[5] = step->d0;
        table[6] = step->d1;
        table[7] = step->d2;
        table[8] = step->noise;
        table[9] = guidance->scale;
        table[10] = (float)(i + 1); /* what health says when this step goes wrong */
        table[11] = step->noise_v;
        table[12] = step->x_y;
        table[13] = step->y_x;
        table[14] = step->y_y;
        table[15] = step->e0;
        table[16] = step->e1;
        table[17] = step->e2;
        table[18] = guidance->rescale;
        table[19] = guidance->project;
        table[20] = guidance->norm_limit > 0 ? guidance->norm_limit : 3e38f;
        table[21] = guided_channels ? (float)guided_channels : 65536.0f;
        table[22] = step->kept_x0;
        table[23] = step->kept_noise;
    }
}

/* Timesteps, solver coefficients and input scales of all steps. */
static dit_result diti_inputs_schedule(dit_job *job, dit_error *err) {
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
    job->program.denoise.guidance = request->guidance.distilled;
    diti_inputs_coefficients(request, job->model->transformer->traits.guided_channels, table);
    result = job->model->transformer->family->write_inputs(job->model->transformer, job->program.plan,
                                                           &job->program.denoise, timesteps, err);
    if (result >= 0)
        result = diti_plan_write(job->program.plan, job->program.coefficients, table,
                                 (size_t)count * columns * sizeof *table, err);
    if (result >= 0 && job->program.input_scales)
        result = diti_plan_write(job->program.plan, job->program.input_scales, scales, count * sizeof *scales, err);
    diti_free(&job->env, values);
    return result;
}

static dit_result diti_inputs_noise(dit_job *job, dit_error *err) {
    diti_job_request *request = &job->request;
    size_t count = diti_job_latent_values(job), i;
    dit_result result;
    for (i = 0; i < count && !request->shape.starts && !job->is_secondary; i++)
        request->noise[i] *= request->schedule.initial; /* consumed here: other shares use the outcome */
    result = diti_plan_write(job->program.plan, job->program.noise, request->noise, count * sizeof(float), err);
    if (result >= 0 && job->program.step_noise)
        result = diti_plan_write(job->program.plan, job->program.step_noise, request->step_noise,
                                 count * request->shape.steps * sizeof(float), err);
    return result;
}

static dit_result diti_inputs_write(dit_job *job, dit_error *err) {
    DITI_TRY(diti_inputs_text(job, err));
    DITI_TRY(diti_inputs_schedule(job, err));
    DITI_TRY(diti_inputs_noise(job, err));
    if (job->request.start) DITI_TRY(diti_start_write(job, err));
    return diti_guard_write(job->program.plan, job->begins_at, err);
}

DIT_INTERNAL dit_result diti_job_write_inputs(dit_job *job, dit_error *err) {
    dit_result result = DIT_OK;
    uint32_t i;
    for (i = 0; i < job->share_count && result >= 0; i++) {
        if (i) job->shares[i]->request = job->request; /* which stays the caller's job's to free */
        result = diti_inputs_write(job->shares[i], err);
    }
    job->request.start = job->request.mask = NULL; /* of the desc */
    job->request.schedule.initial = 1;             /* the noise has it now */
    return result;
}
