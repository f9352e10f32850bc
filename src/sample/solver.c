#include "sample/sample.h"

/* --- what the model's output means: x0 and epsilon as mixtures of x and m --- */
typedef struct diti_mixture {
    double x, m;
} diti_mixture;

static diti_mixture diti_mixture_of(double x, double m) {
    diti_mixture mixture;
    mixture.x = x;
    mixture.m = m;
    return mixture;
}

static diti_mixture diti_predicted_x0(diti_prediction prediction, diti_noise_level level) {
    switch (prediction) {
    case DITI_PREDICT_EPSILON: return diti_mixture_of(1 / level.alpha, -level.noise / level.alpha);
    case DITI_PREDICT_V: return diti_mixture_of(level.alpha, -level.noise);
    case DITI_PREDICT_SAMPLE: return diti_mixture_of(0, 1);
    case DITI_PREDICT_FLOW: break;
    }
    return diti_mixture_of(1, -level.noise);
}

static diti_mixture diti_predicted_epsilon(diti_prediction prediction, diti_noise_level level) {
    switch (prediction) {
    case DITI_PREDICT_EPSILON: return diti_mixture_of(0, 1);
    case DITI_PREDICT_V: return diti_mixture_of(level.noise, level.alpha);
    case DITI_PREDICT_SAMPLE: return diti_mixture_of(1 / level.noise, -level.alpha / level.noise);
    case DITI_PREDICT_FLOW: break;
    }
    return diti_mixture_of(1, level.alpha);
}

typedef struct diti_update { /* diti_step in double */
    double x_x, x_m, d[3], noise;
} diti_update;

/* --- Euler (models.md 7.3, 7.7) --- */
static diti_update diti_euler_update(const diti_sampling *sampling, const diti_interval *interval) {
    diti_update update = DITI_ZERO;
    double ratio = interval->to.sigma / interval->from.sigma;
    if (sampling->flow) {
        update.x_x = 1;
        update.x_m = interval->to.sigma - interval->from.sigma;
        return update;
    }
    update.x_x = ratio; /* x' = x + (x - x0) / sigma * (sigma' - sigma) */
    update.d[0] = 1 - ratio;
    return update;
}

/* --- DDIM (models.md 7.1); the variance is written for any alpha and noise --- */
static double diti_ddim_deviation(const diti_sampling *sampling, const diti_interval *interval) {
    double kept = interval->from.alpha / interval->to.alpha * interval->to.noise / interval->from.noise;
    return sampling->eta * interval->to.noise * sqrt(fmax(1 - kept * kept, 0));
}

static diti_update diti_ddim_update(const diti_sampling *sampling, const diti_interval *interval) {
    diti_update update = DITI_ZERO;
    double deviation = diti_ddim_deviation(sampling, interval);
    double direction = sqrt(fmax(interval->to.noise * interval->to.noise - deviation * deviation, 0));
    diti_mixture epsilon = diti_predicted_epsilon(sampling->prediction, interval->from);
    update.d[0] = interval->to.alpha;
    update.noise = deviation;
    if (sampling->use_clipped_model_output) { /* epsilon = (x - alpha * x0) / noise */
        update.x_x = direction / interval->from.noise;
        update.d[0] -= update.x_x * interval->from.alpha;
        return update;
    }
    update.x_x = direction * epsilon.x;
    update.x_m = direction * epsilon.m;
    return update;
}

/* --- DPM-Solver++ multistep (models.md 7.4) --- */
static double diti_lambda(diti_noise_level level) { return log(level.alpha) - log(level.noise); }

static uint32_t diti_dpm_order(const diti_sampling *sampling, const diti_interval *intervals, uint32_t i) {
    uint32_t n = sampling->steps, order = sampling->order;
    bool lower = sampling->lower_order_final && n < 15;
    if (i == n - 1 && (lower || sampling->euler_at_final || intervals[i].to.noise == 0)) order = 1;
    if (i + 2 == n && lower && order > 2) order = 2;
    return order < i + 1 ? order : i + 1;
}

/* Adds scale times (weight of D1) to the outputs: D1 = (m0 - m1) / r0. */
static void diti_dpm_add_second(diti_update *update, double scale, double r0) {
    update->d[0] += scale / r0;
    update->d[1] -= scale / r0;
}

/* D1 = D1_0 + r0 / (r0 + r1) * D2', D2 = D2' / (r0 + r1), D2' = D1_0 - D1_1, D1_k = (m_k - m_{k+1}) / r_k */
static void diti_dpm_add_third(diti_update *update, double first, double second, double r0, double r1) {
    double difference = (first * r0 + second) / (r0 + r1);
    update->d[0] += (first + difference) / r0;
    update->d[1] -= (first + difference) / r0 + difference / r1;
    update->d[2] += difference / r1;
}

static diti_update diti_dpm_update(const diti_sampling *sampling, const diti_interval *intervals, uint32_t i) {
    diti_update update = DITI_ZERO;
    const diti_interval *now = &intervals[i];
    uint32_t order = diti_dpm_order(sampling, intervals, i);
    double alpha = now->to.alpha, lambda = diti_lambda(now->from), h = diti_lambda(now->to) - lambda;
    double decay = sampling->stochastic ? 2 * h : h, missing = 1 - exp(-decay); /* of x0 in x' */
    double r0, r1;
    update.x_x = now->to.noise / now->from.noise * (sampling->stochastic ? exp(-h) : 1);
    update.d[0] = alpha * missing;
    if (sampling->stochastic) update.noise = now->to.noise * sqrt(missing);
    if (order == 1) return update;
    r0 = (lambda - diti_lambda(intervals[i - 1].from)) / h;
    if (order == 3) {
        r1 = (diti_lambda(intervals[i - 1].from) - diti_lambda(intervals[i - 2].from)) / h;
        diti_dpm_add_third(&update, alpha * (1 - missing / h), alpha * (missing / (h * h) - 1 / h + 0.5), r0, r1);
    } else if (sampling->heun) {
        diti_dpm_add_second(&update, alpha * (1 - missing / decay), r0);
    } else {
        diti_dpm_add_second(&update, alpha * missing / 2, r0);
    }
    return update;
}

/* --- the table --- */
static bool diti_step_finite(const diti_step *step) {
    return isfinite(step->timestep) && isfinite(step->input) && isfinite(step->x0_x) && isfinite(step->x0_m) &&
           isfinite(step->x_x) && isfinite(step->x_m) && isfinite(step->d0) && isfinite(step->d1) &&
           isfinite(step->d2) && isfinite(step->noise);
}

static diti_update diti_solver_update(const diti_sampling *sampling, const diti_interval *intervals, uint32_t i) {
    switch (sampling->solver) {
    case DITI_SOLVER_EULER: return diti_euler_update(sampling, &intervals[i]);
    case DITI_SOLVER_DDIM: return diti_ddim_update(sampling, &intervals[i]);
    case DITI_SOLVER_DPM: break;
    }
    return diti_dpm_update(sampling, intervals, i);
}

static void diti_fill_step(const diti_sampling *sampling, const diti_interval *intervals, uint32_t i, diti_step *step) {
    diti_noise_level level = intervals[i].from;
    diti_mixture x0 = diti_predicted_x0(sampling->prediction, level);
    diti_update update = diti_solver_update(sampling, intervals, i);
    /* Euler with betas keeps x / alpha, so that the step is straight; the model is shown x. */
    double input = sampling->solver == DITI_SOLVER_EULER && !sampling->flow ? level.alpha : 1;
    step->timestep = (float)intervals[i].timestep;
    step->sigma = (float)level.sigma;
    step->input = (float)input;
    step->x0_x = (float)(x0.x * input);
    step->x0_m = (float)x0.m;
    step->clip = (float)sampling->clip;
    step->x_x = (float)update.x_x;
    step->x_m = (float)update.x_m;
    step->d0 = (float)update.d[0];
    step->d1 = (float)update.d[1];
    step->d2 = (float)update.d[2];
    step->noise = (float)update.noise;
}

static double diti_initial_scale(const diti_sampling *sampling, const diti_interval *intervals) {
    double highest = intervals[0].from.sigma;
    if (sampling->solver != DITI_SOLVER_EULER || sampling->flow) return 1;
    return sampling->spacing == DITI_SPACING_LEADING ? sqrt(highest * highest + 1) : highest;
}

static dit_result diti_schedule_fill(const diti_sampling *sampling, const diti_interval *intervals, diti_schedule *out,
                                     dit_error *err) {
    uint32_t i;
    for (i = 0; i < sampling->steps; i++) {
        diti_fill_step(sampling, intervals, i, &out->steps[i]);
        if (!diti_step_finite(&out->steps[i]))
            return diti_fail(
                err, DIT_ERROR_INVALID_ARGUMENT,
                "sampler %s has no finite step %u of %u on this schedule: use fewer steps or another sampler",
                sampling->sampler, i + 1, sampling->steps);
        if (out->steps[i].noise != 0) out->draws = true;
    }
    out->count = sampling->steps;
    out->initial = (float)diti_initial_scale(sampling, intervals);
    out->sampler = sampling->sampler;
    return DIT_OK;
}

DIT_INTERNAL dit_result diti_schedule_make(const diti_env *env, const diti_json *config,
                                           const diti_schedule_request *request, diti_schedule *out, dit_error *err) {
    diti_sampling sampling;
    diti_interval *intervals;
    dit_result result = diti_sampling_resolve(config, request, &sampling, err);
    memset(out, 0, sizeof *out);
    if (result < 0) return result;
    intervals = (diti_interval *)diti_alloc_array(env, sampling.steps, sizeof *intervals);
    out->steps = (diti_step *)diti_alloc_array(env, sampling.steps, sizeof *out->steps);
    if (!intervals || !out->steps)
        result = diti_fail(err, DIT_ERROR_OUT_OF_HOST_MEMORY, "out of memory for %u steps", sampling.steps);
    if (result == DIT_OK) result = diti_sampling_intervals(env, &sampling, intervals, err);
    if (result == DIT_OK) result = diti_schedule_fill(&sampling, intervals, out, err);
    diti_free(env, intervals);
    if (result < 0) diti_schedule_free(env, out);
    return result;
}

DIT_INTERNAL void diti_schedule_free(const diti_env *env, diti_schedule *schedule) {
    diti_free(env, schedule->steps);
    memset(schedule, 0, sizeof *schedule);
}
