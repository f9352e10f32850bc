/* --errors: how far converted models part from the first one, along the way to a picture. */
#ifndef CONVERT_TRAJECTORY_H
#define CONVERT_TRAJECTORY_H
#include "calibrate.h"

typedef struct latents_path { /* latents after each step of each prompt, one after the other */
    float *values;
    size_t count, capacity;
} latents_path;

static dit_result keep_latent(void *user, const diti_share *share, uint32_t segment, dit_error *err) {
    latents_path *t = (latents_path *)user;
    const diti_plan *plan = share->program.plan;
    const diti_tensor_info *info = &plan->tensors[share->program.latent];
    const size_t count = (size_t)info->rows * info->columns;
    (void)segment;
    if (t->count + count > t->capacity) {
        float *more = (float *)realloc(t->values, (t->capacity = 2 * t->capacity + count) * sizeof *more);
        if (!more) return diti_fail(err, DIT_ERROR_OUT_OF_HOST_MEMORY, "latents: out of memory");
        t->values = more;
    }
    t->count += count;
    return diti_plan_read(share->program.plan, share->program.latent, t->values + t->count - count,
                          count * sizeof(float), err);
}

static dit_result trace_model(const char *path, const run_place *place, char *const *prompts, size_t count,
                              uint32_t steps, latents_path *out, dit_error *err) {
    dit_context *context = NULL;
    dit_model *model = NULL;
    dit_result result = open_model(path, place, &context, &model, err);
    out->count = 0;
    for (size_t i = 0; i < count && result >= 0; i++) {
        dit_job_desc desc = {0};
        dit_job *job = NULL;
        desc.model = model;
        desc.prompt = prompts[i];
        desc.seed = i;
        desc.steps = steps;
        result = dit_job_create(context, &desc, &job, err);
        if (result >= 0) result = run_steps(job, keep_latent, out, err);
        dit_job_destroy(job);
    }
    dit_model_destroy(model);
    dit_context_destroy(context);
    return result;
}

/* Relative L2 of all latents. */
static double trajectory_error(const latents_path *reference, const latents_path *other) {
    double off = 0, size = 0;
    for (size_t i = 0; i < reference->count; i++) {
        const double r = (double)reference->values[i], d = (double)other->values[i] - r;
        off += d * d;
        size += r * r;
    }
    return size > 0 && reference->count == other->count ? sqrt(off / size) : NAN;
}

#endif
