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
   replays, a row for each evaluation of the model, with m = guided model output, x = latent:
   x0 = clamp(x0_x * x + x0_m * m, -clip, clip)
   x' = x_x * x + x_m * m + x_y * y + d0 * x0 + d1 * h1 + d2 * h2 + d3 * h3 + noise * exp(noise_v * v) * n
   y' = y_x * x + y_y * y + e0 * x0 + e1 * h1 + e2 * h2
   h1' = x0, h2' = h1, h3' = h2 where push is not 0; else h1, h2 and h3 stay.
   n = fresh unit normal noise, drawn when the schedule draws; v = the model's word on the variance, -1..1, there when
   the schedule is learned; h1, h2 and h3 = the x0 that were pushed last, h3 there when the schedule has it; y = a
   second latent, there when the schedule has it: where a step of several evaluations began, or what a corrector (UniPC)
   makes of the next latent before it has seen the model there. Where a solver remembers predicted noise (UniPC on
   request, DEIS, iPNDM, PNDM, gradient estimation), x0 stands for that, and a picture of the state is shown_x * x +
   shown_x0 * x0. */
typedef struct diti_step {
    float timestep;         /* time that the transformer is told */
    float sigma;            /* for reports: noise / signal, or the flow's time in 0..1 */
    float input;            /* the model sees input * x (1 but for Euler on variance-preserving sigmas) */
    float x0_x, x0_m, clip; /* clip: infinity when the schedule does not clip */
    float x_x, x_m, x_y, d0, d1, d2, d3, noise, noise_v;
    float y_x, y_y, e0, e1, e2;
    float push;              /* 1, or 0 where x0 is not remembered */
    float shown_x, shown_x0; /* 0 and 1 where x0 is a picture */
    float kept_x0,
        kept_noise; /* add_noise's factors for a picture at the step after this one; 1 and 0 after the last */
    uint32_t draws; /* noises that the original code draws in this step; n is the last of them */
} diti_step;
typedef struct diti_frame_step { /* one step of one frame of a clip, see diti_schedule_frames */
    float x, noise;              /* before the model sees it the frame becomes x * itself + noise * n, n drawn for it */
    float moves;                 /* 1: the step changes it; 0: it is as it was before the step */
    float fresh;                 /* 1: the model is told that the frame is being made; 0: that it is given */
} diti_frame_step;
typedef struct diti_schedule {
    diti_step *steps;
    uint32_t count;              /* evaluations of the model: heun, dpm2 and pndm need more than the request's steps */
    float initial;               /* latents = noise * initial (init_noise_sigma) */
    float start_x0, start_noise; /* to begin with a picture: latents = start_x0 * x0 + start_noise * noise */
    bool draws;                  /* some step's noise is not 0 */
    bool learned;                /* some step's noise_v is not 0 */
    bool has_y, has_h3;          /* some step has an x_y, a d3 */
    float flow_begin;            /* the timestep of pure noise in a flow; 0: the model has betas */
    const char *sampler;         /* the sampler's name in dit_sampler_name */
} diti_schedule;
typedef struct diti_schedule_request {
    uint32_t steps;
    const char *sampler;  /* "euler", "dpm++2m", "ddim", as diffusers, A1111 and sd.cpp spell them; NULL: what the
                             config's _class_name says */
    const char *schedule; /* NULL: the config's own; else one of dit_schedule_name */
    float shift;          /* 0: the config's own; flow schedules only */
    float strength;       /* 0..1, the part of the steps that is taken, the last ones; 0: all of them, from noise */
    bool takes_whole;     /* strength takes whole steps alone, as pipelines of clips have it */
    float eta;            /* DDIM: 0 deterministic .. 1 as much noise as DDPM */
    bool use_clipped_model_output; /* DDIM: noise prediction recomputed from the clipped x0 */
    uint32_t image_tokens;         /* sequence length, for dynamic shifting (flow_flux_dev_*) */
    uint32_t width, height,
        frames; /* size of the clip in pixels and frames, for Open-Sora's transform of the timesteps */
    /* A model's own dynamic shifting (docs/models.md 7.7); NULL: the config's. */
    double (*measured_shift)(uint32_t image_tokens, uint32_t steps);
    /* A model's own sigmas before the shift (docs/models.md 7.7); NULL: by what follows. */
    double (*sigma)(uint32_t step, uint32_t steps, uint32_t image_tokens);
    bool uniform;   /* flows: from 1 in equal steps to 1 / steps before the shift, as FLUX's pipelines ask for */
    bool quadratic; /* flows: half of the steps equal and small, and others that grow, as LTX-Video's from 0.9.5 on */
    const float *sigmas;
    uint32_t sigma_count; /* explicit flow sigmas as pipelines pass them (FLUX), before the shift; NULL: none */
    bool exact;           /* sigmas are neither shifted nor stretched */
} diti_schedule_request;
/* config: the parsed scheduler_config.json (NULL: diffusers' defaults of the sampler). Unknown values are refused by
 * name. */
DIT_INTERNAL dit_result diti_schedule_make(const diti_env *env, const diti_json *config,
                                           const diti_schedule_request *request, diti_schedule *out, dit_error *err);
DIT_INTERNAL void diti_schedule_free(const diti_env *env, diti_schedule *schedule);
/* The steps of a clip some of whose frames are given (docs/models.md 7.11). mask: for each frame the part of the steps
   that makes it anew, 0 (given, it stays) to 1 (made from noise). out: schedule->count rows of frames. Samplers that
   remember earlier steps cannot hold frames and are refused by name. */
DIT_INTERNAL dit_result diti_schedule_frames(const diti_schedule *schedule, const float *mask, uint32_t frames,
                                             diti_frame_step *out, dit_error *err);
/* CogVideoX's dynamic guidance: the scale of the step at that timestep, of so many steps (docs/models.md 7.9). */
DIT_INTERNAL double diti_dynamic_guidance(double scale, uint32_t steps, double timestep);

/* --- inside the room: config and request, resolved (config.c) -> points in time (schedule.c) -> coefficients
 * (solver.c) --- */
typedef enum diti_solver_kind {
    DITI_SOLVER_EULER,
    DITI_SOLVER_HEUN,
    DITI_SOLVER_DPM2, /* diffusers' KDPM2 */
    DITI_SOLVER_RES,  /* RES, an exponential integrator, over two steps */
    DITI_SOLVER_RES_2S,
    DITI_SOLVER_ER_SDE,
    DITI_SOLVER_GRADIENT,
    DITI_SOLVER_SINGLESTEP,
    DITI_SOLVER_DPM,
    DITI_SOLVER_DEIS,
    DITI_SOLVER_IPNDM,
    DITI_SOLVER_PNDM,
    DITI_SOLVER_DDIM,
    DITI_SOLVER_DDPM,
    DITI_SOLVER_LCM,
    DITI_SOLVER_SCM,
    DITI_SOLVER_UNIPC
} diti_solver_kind;
typedef enum diti_prediction {
    DITI_PREDICT_EPSILON,
    DITI_PREDICT_V,
    DITI_PREDICT_SAMPLE,
    DITI_PREDICT_FLOW,
    DITI_PREDICT_RECTIFIED, /* a flow's velocity the other way round, from noise to data (Open-Sora 1.2) */
    DITI_PREDICT_TRIGFLOW   /* a flow's velocity, on the circle x = cos(s) x0 + sin(s) noise (Sana-Sprint) */
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
    DITI_SIGMAS_BETA,
    DITI_SIGMAS_KL_OPTIMAL,
    DITI_SIGMAS_TANGENT,
    DITI_SIGMAS_QUADRATIC
} diti_sigma_shape;
typedef enum diti_variance { DITI_VARIANCE_SMALL, DITI_VARIANCE_LARGE, DITI_VARIANCE_LEARNED } diti_variance;
typedef struct diti_sampling {
    const char *sampler; /* for messages */
    diti_solver_kind solver;
    uint32_t steps, train_steps;
    uint32_t begin; /* steps that are left out */
    uint32_t calls; /* evaluations of the model, those of the steps that are left out among them except for PNDM's */
    uint32_t first; /* the first evaluation that is taken */
    diti_prediction prediction;
    diti_sigma_shape shape;
    /* variance-preserving models */
    diti_beta_kind betas;
    double beta_start, beta_end, lambda_min;
    const diti_json *trained_betas; /* NULL: by formula */
    double snr_shift;   /* CogVideoX: cumulative alpha a becomes a / (snr_shift + (1 - snr_shift) * a); 0: none */
    bool double_alphas; /* the original keeps the table over the training steps in double (CogVideoX) */
    bool float_betas;   /* the original keeps the respaced betas, and all that it makes of them, in float (Open-Sora) */
    bool strides; /* each step is T / n long, as DDIM's, wherever the next timestep of the list lies (CogVideoX) */
    bool zero_snr, final_sigma_zero;
    double sigma_min, sigma_max; /* extremes of a shape; 0: what it finds, see diti_intervals_reshape */
    diti_spacing spacing;
    uint32_t steps_offset;
    /* flow models */
    bool flow, dynamic_shift;
    bool uniform;                 /* from 1 in equal steps to 1 / steps before the shift, as FLUX's pipelines ask for */
    bool quadratic;               /* half of the steps are equal and small, and the others grow */
    bool transforms;              /* timesteps are uniform and shifted in float, as Open-Sora 1.2 does it */
    double shift, shift_terminal; /* shift_terminal 0: none */
    const float *sigmas;          /* explicit, steps of them; NULL: none */
    double (*sigma)(uint32_t step, uint32_t steps, uint32_t image_tokens); /* the model's own; NULL: none */
    uint32_t image_tokens;
    /* DPM-Solver++, UniPC */
    uint32_t order;
    bool stochastic; /* Euler, too: ancestral */
    bool heun, lower_order_final, euler_at_final;
    bool bh1, predicts_noise;
    bool karras_of_betas; /* UniPC of a flow: Karras' sigmas are those of a model with betas, and become times */
    const diti_json *uncorrected; /* array of steps after which the corrector rests; NULL: none */
    /* DPM2: timesteps of Karras' sigmas are whole numbers, as diffusers' class has them and other programs do not */
    bool whole_karras;
    /* PNDM */
    bool skips_runge_kutta, remembers_output; /* remembers_output: as it is, else as predicted noise */
    /* DDPM */
    diti_variance variance;
    /* LCM */
    uint32_t distilled_steps;
    /* SCM: the first angle, and the second one of two steps; 0: there is none of its own */
    double first_angle, second_angle;
    double timestep_scaling;
    /* DDIM; final_alpha_one is PNDM's, too, and clip DDPM's, LCM's and Heun's */
    bool final_alpha_one, use_clipped_model_output;
    double eta, clip; /* clip: infinity for none */
} diti_sampling;
typedef struct diti_noise_level { /* x = alpha * x0 + noise * epsilon */
    double sigma, alpha, noise;   /* sigma: noise / alpha with betas, noise with flows */
} diti_noise_level;
typedef struct diti_interval { /* the interval that one step has to cross */
    double timestep;
    diti_noise_level from, to; /* from: where the model is evaluated */
    diti_noise_level start;    /* PNDM: where the latent is that moves to `to` */
    double beta;               /* DDPM on tables in float: the step's beta; 0: what from and to say */
} diti_interval;
DIT_INTERNAL dit_result diti_sampling_resolve(const diti_json *config, const diti_schedule_request *request,
                                              diti_sampling *out, dit_error *err);
/* out: as many as sampling->calls. */
DIT_INTERNAL dit_result diti_sampling_intervals(const diti_env *env, const diti_sampling *sampling, diti_interval *out,
                                                dit_error *err);
DIT_INTERNAL void diti_cumulative_alphas(const diti_sampling *sampling, double *out); /* train_steps of them */
/* DPM-Solver++, DEIS and UniPC share their points in time, */
DIT_INTERNAL bool diti_sampling_multistep(const diti_sampling *sampling);
/* and so do Euler and those that came with it in k-diffusion. */
DIT_INTERNAL bool diti_sampling_differential(const diti_sampling *sampling);
/* Steps take two evaluations of the model, but for the last one. */
DIT_INTERNAL bool diti_sampling_double(const diti_sampling *sampling);
#endif
