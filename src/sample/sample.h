/* sample: noise, schedules, solvers, guidance. Plain arithmetic, no Vulkan. */
#ifndef DITI_SAMPLE_H
#define DITI_SAMPLE_H
#include "base/base.h"

/* --- noise (models.md 10) --- */
typedef struct diti_random { /* torch's CPU generator: mt19937 and its normal transform, the cached value survives between calls */
    uint32_t state[624];
    uint32_t index;
    bool has_cached;
    double cached;
} diti_random;
DIT_INTERNAL void diti_random_seed(diti_random *random, uint64_t seed);
DIT_INTERNAL void diti_random_normal(diti_random *random, float *out, size_t count); /* one torch.randn call */
DIT_INTERNAL void diti_philox_normal(uint64_t seed, uint32_t draw, float *out, size_t count); /* the draw-th torch.randn call on a CUDA device */

/* --- schedules and solvers ---
   Every solver here is linear in what it remembers, so a whole trajectory is a table of coefficients that the device replays:
     x0  = clamp(x0_x * x + x0_m * m, -clip, clip)         m = guided model output, x = latent
     x'  = x_x * x + x_m * m + d0 * x0 + d1 * x0[-1] + d2 * x0[-2] + noise * n
   x0[-1], x0[-2] are the x0 of the one and two steps before; n = fresh unit normal noise (only drawn when any step's noise is not 0). */
typedef struct diti_step {
    float timestep;  /* what the transformer is told */
    float sigma;     /* for reports */
    float input;     /* the model sees input * x (1 but for Euler on variance-preserving sigmas) */
    float x0_x, x0_m, clip; /* clip: infinity when the schedule does not clip */
    float x_x, x_m, d0, d1, d2, noise;
} diti_step;
typedef struct diti_schedule {
    diti_step *steps;
    uint32_t count;
    float initial;   /* latents = noise * initial (init_noise_sigma) */
} diti_schedule;
typedef struct diti_schedule_request {
    uint32_t steps;
    const char *sampler;  /* "euler", "dpm++2m", "ddim"; NULL: what the config's _class_name says */
    const char *schedule; /* NULL: the config's own; else one of dit_schedule_name */
    float shift;          /* 0: the config's own; flow schedules only */
    float eta;            /* DDIM */
    uint32_t image_tokens; /* sequence length, for dynamic shifting (flow_flux_dev_*) */
    const float *sigmas; uint32_t sigma_count; /* explicit sigmas as pipelines pass them (FLUX); NULL: none */
} diti_schedule_request;
/* config: the parsed scheduler_config.json (NULL: defaults of the sampler). Unknown values are refused by name. */
DIT_INTERNAL dit_result diti_schedule_make(const diti_env *env, const diti_json *config, const diti_schedule_request *request, diti_schedule *out, dit_error *err);
DIT_INTERNAL void diti_schedule_free(const diti_env *env, diti_schedule *schedule);
#endif
