/* sample: noise, schedules, solvers, guidance. Plain arithmetic, no Vulkan. */
#ifndef DITI_SAMPLE_H
#define DITI_SAMPLE_H
#include "base/base.h"

/* --- noise (docs/models.md 10) --- */
typedef struct diti_random { /* torch's CPU generator: mt19937 and its normal transform, the cached value survives
                                between calls */
    uint32_t state[624];
    uint32_t index;
    bool has_cached;
    double cached;
} diti_random;
DIT_INTERNAL void diti_random_seed(diti_random *random, uint64_t seed);
DIT_INTERNAL void diti_random_normal(diti_random *random, float *out, size_t count); /* one torch.randn call */
DIT_INTERNAL void diti_philox_normal(uint64_t seed, uint32_t draw, float *out,
                                     size_t count); /* the draw-th torch.randn call on a CUDA device */

/* --- schedules and solvers (docs/models.md 7) ---
   Every solver here is linear in what it remembers, so a whole trajectory is a table of coefficients that the device
   replays, with m = guided model output, x = latent, x0[-1] and x0[-2] = the x0 of the one and two steps before:
   x0 = clamp(x0_x * x + x0_m * m, -clip, clip)
   x' = x_x * x + x_m * m + x_y * y + d0 * x0 + d1 * x0[-1] + d2 * x0[-2] + noise * exp(noise_v * v) * n
   y' = y_x * x + y_y * y + e0 * x0 + e1 * x0[-1] + e2 * x0[-2]
   n = fresh unit normal noise, drawn when the schedule draws; v = the model's word on the variance, -1..1, there when
   the schedule is learned; y = what a corrector (UniPC) makes of the next latent before it has seen the model there,
   kept when the schedule corrects. Where UniPC predicts noise, x0 stands for the predicted noise. */
typedef struct diti_step {
    float timestep;         /* time that the transformer is told */
    float sigma;            /* for reports: noise / signal, or the flow's time in 0..1 */
    float input;            /* the model sees input * x (1 but for Euler on variance-preserving sigmas) */
    float x0_x, x0_m, clip; /* clip: infinity when the schedule does not clip */
    float x_x, x_m, x_y, d0, d1, d2, noise, noise_v;
    float y_x, y_y, e0, e1, e2;
    float kept_x0,
        kept_noise; /* add_noise's factors for a picture at the step after this one; 1 and 0 after the last */
} diti_step;
typedef struct diti_schedule {
    diti_step *steps;
    uint32_t count;
    float initial;               /* latents = noise * initial (init_noise_sigma) */
    float start_x0, start_noise; /* to begin with a picture: latents = start_x0 * x0 + start_noise * noise */
    bool draws;                  /* some step's noise is not 0 */
    bool learned;                /* some step's noise_v is not 0 */
    bool corrects;               /* some step has an x_y */
    const char *sampler;         /* the sampler's name in dit_sampler_name */
} diti_schedule;
typedef struct diti_schedule_request {
    uint32_t steps;
    const char *sampler;  /* "euler", "dpm++2m", "ddim", as diffusers, A1111 and sd.cpp spell them; NULL: what the
                             config's _class_name says */
    const char *schedule; /* NULL: the config's own; else one of dit_schedule_name */
    float shift;          /* 0: the config's own; flow schedules only */
    float strength;       /* 0..1, the part of the steps that is taken, the last ones; 0: all of them, from noise */
    float eta;            /* DDIM: 0 deterministic .. 1 as much noise as DDPM */
    bool use_clipped_model_output; /* DDIM: noise prediction recomputed from the clipped x0 */
    uint32_t image_tokens;         /* sequence length, for dynamic shifting (flow_flux_dev_*) */
    bool uniform; /* flows: from 1 in equal steps to 1 / steps before the shift, as FLUX's pipelines ask for */
    const float *sigmas;
    uint32_t sigma_count; /* explicit flow sigmas as pipelines pass them (FLUX), before the shift; NULL: none */
} diti_schedule_request;
/* config: the parsed scheduler_config.json (NULL: diffusers' defaults of the sampler). Unknown values are refused by
 * name. */
DIT_INTERNAL dit_result diti_schedule_make(const diti_env *env, const diti_json *config,
                                           const diti_schedule_request *request, diti_schedule *out, dit_error *err);
DIT_INTERNAL void diti_schedule_free(const diti_env *env, diti_schedule *schedule);

/* --- inside the room: config and request, resolved (config.c) -> points in time (schedule.c) -> coefficients
 * (solver.c) --- */
typedef enum diti_solver_kind {
    DITI_SOLVER_EULER,
    DITI_SOLVER_DPM,
    DITI_SOLVER_DDIM,
    DITI_SOLVER_DDPM,
    DITI_SOLVER_LCM,
    DITI_SOLVER_UNIPC
} diti_solver_kind;
typedef enum diti_prediction {
    DITI_PREDICT_EPSILON,
    DITI_PREDICT_V,
    DITI_PREDICT_SAMPLE,
    DITI_PREDICT_FLOW
} diti_prediction;
typedef enum diti_beta_kind { DITI_BETA_LINEAR, DITI_BETA_SCALED_LINEAR, DITI_BETA_COSINE } diti_beta_kind;
typedef enum diti_spacing {
    DITI_SPACING_LINSPACE,
    DITI_SPACING_LEADING,
    DITI_SPACING_TRAILING,
    DITI_SPACING_RESPACED /* the original DiT code's (docs/models.md 7.2); no diffusers file asks for it */
} diti_spacing;
typedef enum diti_sigma_shape {
    DITI_SIGMAS_OWN,
    DITI_SIGMAS_KARRAS,
    DITI_SIGMAS_EXPONENTIAL,
    DITI_SIGMAS_LU,
    DITI_SIGMAS_BETA
} diti_sigma_shape;
typedef enum diti_variance { DITI_VARIANCE_SMALL, DITI_VARIANCE_LARGE, DITI_VARIANCE_LEARNED } diti_variance;
typedef struct diti_sampling {
    const char *sampler; /* for messages */
    diti_solver_kind solver;
    uint32_t steps, train_steps;
    uint32_t begin; /* steps that are left out */
    diti_prediction prediction;
    diti_sigma_shape shape;
    /* variance-preserving models */
    diti_beta_kind betas;
    double beta_start, beta_end, lambda_min;
    const diti_json *trained_betas; /* NULL: by formula */
    bool zero_snr, final_sigma_zero;
    diti_spacing spacing;
    uint32_t steps_offset;
    /* flow models */
    bool flow, dynamic_shift;
    bool uniform;                 /* from 1 in equal steps to 1 / steps before the shift, as FLUX's pipelines ask for */
    double shift, shift_terminal; /* shift_terminal 0: none */
    const float *sigmas;          /* explicit, steps of them; NULL: none */
    /* DPM-Solver++, UniPC */
    uint32_t order;
    bool stochastic; /* Euler, too: ancestral */
    bool heun, lower_order_final, euler_at_final;
    bool bh1, predicts_noise;
    const diti_json *uncorrected; /* array of steps after which the corrector rests; NULL: none */
    /* DDPM */
    diti_variance variance;
    /* LCM */
    uint32_t distilled_steps;
    double timestep_scaling;
    /* DDIM; clip is DDPM's and LCM's, too */
    bool final_alpha_one, use_clipped_model_output;
    double eta, clip; /* clip: infinity for none */
} diti_sampling;
typedef struct diti_noise_level { /* x = alpha * x0 + noise * epsilon */
    double sigma, alpha, noise;   /* sigma: noise / alpha with betas, noise with flows */
} diti_noise_level;
typedef struct diti_interval { /* the interval that one step has to cross */
    double timestep;
    diti_noise_level from, to;
} diti_interval;
DIT_INTERNAL dit_result diti_sampling_resolve(const diti_json *config, const diti_schedule_request *request,
                                              diti_sampling *out, dit_error *err);
/* out: as many as there are steps. */
DIT_INTERNAL dit_result diti_sampling_intervals(const diti_env *env, const diti_sampling *sampling, diti_interval *out,
                                                dit_error *err);
DIT_INTERNAL void diti_cumulative_alphas(const diti_sampling *sampling, float *out); /* train_steps of them */
/* DPM-Solver++ and UniPC share their points in time. */
DIT_INTERNAL bool diti_sampling_multistep(const diti_sampling *sampling);
#endif
