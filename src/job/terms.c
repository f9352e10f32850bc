/* The terms of a job: several processes must ask for them alike, since plans and exchanges come from them. agree.c
   sends and compares all of them when a job is made. The first word of a run (beats.c) carries those that a restart may
   change, in 24 bits, so that no restart waits for letters. */
#include "job/job.h"

DIT_INTERNAL const char *diti_term_name(uint32_t term) {
    static const char *const names[DITI_TERMS] = {"the number of its devices",
                                                  "override chunk",
                                                  "the model's transformer",
                                                  "types of the transformer's matrices, which shard sends",
                                                  "split",
                                                  "width",
                                                  "height",
                                                  "image_count",
                                                  "frame_count",
                                                  "steps",
                                                  "the number of tokens of its prompts",
                                                  "guidance",
                                                  "cache",
                                                  "which pictures are given",
                                                  "vae_tile"};
    return names[term];
}

static uint64_t diti_terms_mix(uint64_t hash, uint64_t value) {
    uint64_t both[2];
    both[0] = hash;
    both[1] = value;
    return diti_hash(both, sizeof both);
}

static uint64_t diti_terms_model(const dit_model *model) {
    const diti_model_traits *traits = &model->transformer->traits;
    uint64_t hash = diti_hash(model->info.family, strlen(model->info.family));
    hash = diti_terms_mix(hash, diti_hash(model->info.variant, strlen(model->info.variant)));
    hash = diti_terms_mix(hash, (uint64_t)traits->layers << 32 | traits->width);
    return diti_terms_mix(hash, (uint64_t)traits->heads << 32 | traits->patch);
}

static uint64_t diti_terms_matrices(const dit_model *model) {
    const diti_weights *weights = &model->transformer->component.weights;
    uint64_t hash = 0;
    size_t i;
    for (i = 0; i < DITI_TALLIES; i++) hash = diti_terms_mix(hash, weights->types[i].bytes);
    return hash;
}

static uint64_t diti_terms_split(const diti_job_shape *shape) {
    char name[DITI_SPLIT_NAME];
    diti_job_print_split(shape, name);
    return diti_terms_mix(diti_hash(name, strlen(name)), diti_hash(shape->shares, sizeof shape->shares));
}

static uint32_t diti_terms_tokens(const diti_job_shape *shape) { return shape->encoded_rows + shape->given_rows; }

static uint64_t diti_terms_guidance(const diti_job_shape *shape) {
    return (uint64_t)shape->guided << 32 | (uint64_t)shape->mixed << 33 | (uint64_t)shape->kinds << 34 |
           shape->text_rows;
}

static uint64_t diti_terms_cache(const diti_job_shape *shape) {
    return diti_terms_mix((uint64_t)shape->reuse_variants[0] << 32 | shape->reuse_variants[1],
                          (uint64_t)shape->reuse.policy);
}

static uint64_t diti_terms_pictures(const diti_job_shape *shape) {
    uint64_t hash = (uint64_t)shape->controls << 32 | shape->reference_count;
    hash = diti_terms_mix(hash, (uint64_t)shape->given_count << 32 | shape->hold_count);
    return diti_terms_mix(hash, (uint32_t)shape->starts | (uint32_t)shape->masked << 1 |
                                    (uint32_t)shape->repaints << 2 | (uint32_t)shape->follows << 3);
}

DIT_INTERNAL void diti_terms_write(const dit_job *job, diti_terms *out) {
    const diti_job_shape *shape = &job->request.shape;
    uint64_t *values = out->values;
    values[DITI_TERM_DEVICES] = job->context->device_count;
    values[DITI_TERM_CHUNK] = job->context->peers->chunk;
    values[DITI_TERM_MODEL] = diti_terms_model(job->model);
    if (shape->split.shard) values[DITI_TERM_MATRICES] = diti_terms_matrices(job->model);
    values[DITI_TERM_SPLIT] = diti_terms_split(shape);
    values[DITI_TERM_WIDTH] = shape->width;
    values[DITI_TERM_HEIGHT] = shape->height;
    values[DITI_TERM_IMAGES] = shape->image_count;
    values[DITI_TERM_FRAMES] = shape->frames;
    values[DITI_TERM_STEPS] = shape->steps;
    values[DITI_TERM_TEXT] = diti_terms_tokens(shape);
    values[DITI_TERM_GUIDANCE] = diti_terms_guidance(shape);
    values[DITI_TERM_CACHE] = diti_terms_cache(shape);
    values[DITI_TERM_PICTURES] = diti_terms_pictures(shape);
    values[DITI_TERM_TILE] = shape->vae_tile;
    out->made = 1;
}

DIT_INTERNAL uint32_t diti_job_run_terms(const dit_job *job) {
    const diti_job_shape *shape = &job->request.shape;
    uint64_t rest = diti_terms_mix(diti_terms_guidance(shape), diti_terms_cache(shape));
    rest = diti_terms_mix(rest, diti_terms_pictures(shape));
    return (diti_terms_tokens(shape) & DITI_TERMS_TOKENS) | ((uint32_t)(rest & 0x3ffu) << 14);
}
