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
    double x_x, x_m, x_y, d[3], noise, noise_v, y_x, y_y, e[3];
} diti_update;

/* --- Euler, plain and ancestral (docs/models.md 7.3, 7.7) --- */
/* Down to less noise than the step's end has, then up again with fresh noise. With betas x is kept divided by alpha. */
static diti_update diti_ancestral_update(const diti_interval *interval) {
    diti_update update = DITI_ZERO;
    double from = interval->from.sigma, to = interval->to.sigma, down = to * to / from;
    update.noise = sqrt(fmax(to * to - down * down, 0));
    update.x_x = down / from;
    update.d[0] = 1 - update.x_x;
    return update;
}

/* In flows less noise leaves more signal than the step's end has, so all is scaled to the end's signal. */
static diti_update diti_ancestral_flow_update(const diti_interval *interval) {
    diti_update update = DITI_ZERO;
    double from = interval->from.sigma, to = interval->to.sigma, down = to * to / from;
    double scale = interval->to.alpha / (1 - down);
    update.noise = sqrt(fmax(to * to - down * down * scale * scale, 0));
    update.x_x = scale * down / from;
    update.d[0] = scale * (1 - down / from);
    return update;
}

static diti_update diti_euler_update(const diti_sampling *sampling, const diti_interval *interval) {
    diti_update update = DITI_ZERO;
    double ratio = interval->to.sigma / interval->from.sigma;
    if (sampling->stochastic)
        return sampling->flow ? diti_ancestral_flow_update(interval) : diti_ancestral_update(interval);
    if (sampling->flow) {
        update.x_x = 1;
        update.x_m = interval->to.sigma - interval->from.sigma;
        return update;
    }
    update.x_x = ratio; /* x' = x + (x - x0) / sigma * (sigma' - sigma) */
    update.d[0] = 1 - ratio;
    return update;
}

/* --- DDIM (docs/models.md 7.1); the variance is written for any alpha and noise --- */
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

/* --- DDPM (docs/models.md 7.2), written for any alpha and noise --- */
static diti_update diti_ddpm_update(const diti_sampling *sampling, const diti_interval *interval) {
    diti_update update = DITI_ZERO;
    double kept = interval->from.alpha / interval->to.alpha, from = interval->from.noise * interval->from.noise,
           to = interval->to.noise * interval->to.noise;
    double added = fmax(from - kept * kept * to, 0), posterior = fmax(to / from * added, 1e-20);
    update.x_x = kept * to / from;
    update.d[0] = interval->to.alpha * added / from;
    if (interval->timestep <= 0) return update;
    update.noise = sqrt(sampling->variance == DITI_VARIANCE_LARGE ? added : posterior);
    if (sampling->variance != DITI_VARIANCE_LEARNED) return update;
    update.noise = pow(added * posterior, 0.25); /* v from -1 to 1 goes from one logarithm to the other */
    update.noise_v = log(added / posterior) / 4;
    return update;
}

/* --- LCM: x0 by the consistency function, then noised again to the next level --- */
static diti_update diti_lcm_update(const diti_sampling *sampling, const diti_interval *interval) {
    diti_update update = DITI_ZERO;
    double time = sampling->flow ? (double)INFINITY : interval->timestep * sampling->timestep_scaling, data = 0.5;
    double skip = data * data / (time * time + data * data);
    update.x_x = interval->to.alpha * skip;
    update.d[0] = interval->to.alpha * sqrt(1 - skip);
    update.noise = interval->to.noise;
    return update;
}

/* --- DPM-Solver++ multistep (docs/models.md 7.4) --- */
static double diti_lambda(diti_noise_level level) { return log(level.alpha) - log(level.noise); }

static uint32_t diti_dpm_order(const diti_sampling *sampling, const diti_interval *intervals, uint32_t i) {
    uint32_t n = sampling->steps, order = sampling->order;
    bool lower = sampling->lower_order_final && n < 15;
    if (i == n - 1 && (lower || sampling->euler_at_final || intervals[i].to.noise == 0)) order = 1;
    if (i + 2 == n && lower && order > 2) order = 2;
    return order < i + 1 - sampling->begin ? order : i + 1 - sampling->begin;
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
    double decay = sampling->stochastic ? 2 * h : h, missing = 1 - exp(-decay); /* missing: the part of x' that is x0 */
    double r0, r1;
    update.x_x = now->to.noise / now->from.noise * (sampling->stochastic ? exp(-h) : 1);
    update.d[0] = alpha * missing;
    if (sampling->stochastic) update.noise = now->to.noise * sqrt(missing);
    if (order == 1) return update;
    r0 = (lambda - diti_lambda(intervals[i - 1].from)) / h;
    if (order == 3) {
        r1 = (diti_lambda(intervals[i - 1].from) - diti_lambda(intervals[i - 2].from)) / h;
        diti_dpm_add_third(&update, alpha * (1 - missing / decay),
                           alpha * (missing / (decay * decay) - 1 / decay + 0.5), r0, r1);
    } else if (sampling->heun) {
        diti_dpm_add_second(&update, alpha * (1 - missing / decay), r0);
    } else {
        diti_dpm_add_second(&update, alpha * missing / 2, r0);
    }
    return update;
}

/* --- UniPC (docs/models.md 7.5) --- */
typedef struct diti_unipc_move { /* from one level to the next, a mixture of x there and of what is remembered */
    double x, m[3];              /* m[0]: the output at the start, m[1] and m[2]: of the two steps before */
    double next;                 /* the output at the end, which only the corrector knows */
} diti_unipc_move;

/* Row i of the system says sum over k of weight[k] * r[k]^i = right[i]; elimination without pivots, because the r are
   distinct. */
static void diti_solve_powers(const double *r, double *right, uint32_t n) {
    double rows[3][3];
    uint32_t i, j, k;
    for (i = 0; i < n; i++) {
        for (k = 0; k < n; k++) rows[i][k] = i ? rows[i - 1][k] * r[k] : 1;
    }
    for (k = 0; k < n; k++) {
        for (i = k + 1; i < n; i++) {
            double factor = rows[i][k] / rows[k][k];
            for (j = k; j < n; j++) rows[i][j] -= factor * rows[k][j];
            right[i] -= factor * right[k];
        }
    }
    for (i = n; i-- > 0;) {
        for (j = i + 1; j < n; j++) right[i] -= rows[i][j] * right[j];
        right[i] /= rows[i][i];
    }
}

static void diti_unipc_weights(double hh, double b, const double *r, double *weights, uint32_t n) {
    double phi = expm1(hh) / hh - 1, factorial = 1;
    uint32_t i;
    for (i = 0; i < n; i++) {
        weights[i] = phi * factorial / b;
        factorial *= i + 2.0;
        phi = phi / hh - 1 / factorial;
    }
    diti_solve_powers(r, weights, n);
}

static diti_unipc_move diti_unipc_move_of(const diti_sampling *sampling, const diti_interval *intervals, uint32_t i,
                                          uint32_t order, bool corrects) {
    diti_unipc_move move = DITI_ZERO;
    const diti_interval *now = &intervals[i];
    double lambda = diti_lambda(now->from), h = diti_lambda(now->to) - lambda, hh = sampling->predicts_noise ? h : -h;
    double b = sampling->bh1 ? hh : expm1(hh), scale = sampling->predicts_noise ? now->to.noise : now->to.alpha;
    double r[3], weights[3];
    uint32_t unknowns = corrects ? order : order - 1, k;
    move.x = sampling->predicts_noise ? now->to.alpha / now->from.alpha : now->to.noise / now->from.noise;
    move.m[0] = -scale * expm1(hh);
    for (k = 0; k < unknowns; k++) r[k] = k + 1 < order ? (diti_lambda(intervals[i - 1 - k].from) - lambda) / h : 1;
    if (unknowns == 1)
        weights[0] = 0.5;
    else
        diti_unipc_weights(hh, b, r, weights, unknowns);
    for (k = 0; k < unknowns; k++) {
        double weight = -scale * b * weights[k] / r[k];
        move.m[0] -= weight;
        if (k + 1 < order)
            move.m[k + 1] += weight;
        else
            move.next = weight;
    }
    return move;
}

static uint32_t diti_unipc_order(const diti_sampling *sampling, uint32_t i) {
    uint32_t order = sampling->order, left = sampling->steps - i;
    if (sampling->lower_order_final && order > left) order = left;
    return order < i + 1 - sampling->begin ? order : i + 1 - sampling->begin;
}

static bool diti_unipc_corrects(const diti_sampling *sampling, uint32_t i) {
    const diti_json *step = sampling->uncorrected ? sampling->uncorrected->first : NULL;
    for (; step; step = step->next) {
        if (step->number == i - 1.0) return false;
    }
    return i > sampling->begin;
}

/* The corrected x is y + next * x0 (x itself where nothing corrects). x' is predicted from it, and y' is what the
   corrector of the following step will make of it, less the part that needs the model's output there. */
static diti_update diti_unipc_update(const diti_sampling *sampling, const diti_interval *intervals, uint32_t i) {
    diti_update update = DITI_ZERO;
    uint32_t order = diti_unipc_order(sampling, i), k;
    bool corrected = diti_unipc_corrects(sampling, i);
    diti_unipc_move predict = diti_unipc_move_of(sampling, intervals, i, order, false), correct = DITI_ZERO;
    double next = 0;
    if (corrected) next = diti_unipc_move_of(sampling, intervals, i - 1, diti_unipc_order(sampling, i - 1), true).next;
    if (i + 1 < sampling->steps) correct = diti_unipc_move_of(sampling, intervals, i, order, true);
    for (k = 0; k < 3; k++) {
        update.d[k] = predict.m[k];
        update.e[k] = correct.m[k];
    }
    update.d[0] += predict.x * next;
    update.e[0] += correct.x * next;
    update.x_x = corrected ? 0 : predict.x;
    update.x_y = corrected ? predict.x : 0;
    update.y_x = corrected ? 0 : correct.x;
    update.y_y = corrected ? correct.x : 0;
    return update;
}

/* --- the table --- */
static bool diti_step_finite(const diti_step *step) {
    return isfinite(step->timestep) && isfinite(step->input) && isfinite(step->x0_x) && isfinite(step->x0_m) &&
           isfinite(step->x_x) && isfinite(step->x_m) && isfinite(step->x_y) && isfinite(step->d0) &&
           isfinite(step->d1) && isfinite(step->d2) && isfinite(step->noise) && isfinite(step->noise_v) &&
           isfinite(step->y_x) && isfinite(step->y_y) && isfinite(step->e0) && isfinite(step->e1) && isfinite(step->e2);
}

static diti_update diti_solver_update(const diti_sampling *sampling, const diti_interval *intervals, uint32_t i) {
    switch (sampling->solver) {
    case DITI_SOLVER_EULER: return diti_euler_update(sampling, &intervals[i]);
    case DITI_SOLVER_DDIM: return diti_ddim_update(sampling, &intervals[i]);
    case DITI_SOLVER_DDPM: return diti_ddpm_update(sampling, &intervals[i]);
    case DITI_SOLVER_LCM: return diti_lcm_update(sampling, &intervals[i]);
    case DITI_SOLVER_UNIPC: return diti_unipc_update(sampling, intervals, i);
    case DITI_SOLVER_DPM: break;
    }
    return diti_dpm_update(sampling, intervals, i);
}

/* diffusers' add_noise and scale_noise: a picture with the noise of a level. */
static void diti_schedule_mix(const diti_sampling *sampling, diti_noise_level level, float *x0, float *noise) {
    bool scaled = sampling->solver == DITI_SOLVER_EULER && !sampling->flow; /* x / alpha */
    *x0 = scaled ? 1.0f : (float)level.alpha;
    *noise = (float)(scaled ? level.sigma : level.noise);
}

static void diti_fill_step(const diti_sampling *sampling, const diti_interval *intervals, uint32_t i, diti_step *step) {
    diti_noise_level level = intervals[i].from;
    diti_mixture x0 = sampling->predicts_noise ? diti_predicted_epsilon(sampling->prediction, level)
                                               : diti_predicted_x0(sampling->prediction, level);
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
    step->noise_v = (float)update.noise_v;
    step->x_y = (float)update.x_y;
    step->y_x = (float)update.y_x;
    step->y_y = (float)update.y_y;
    step->e0 = (float)update.e[0];
    step->e1 = (float)update.e[1];
    step->e2 = (float)update.e[2];
    step->kept_x0 = 1;
    step->kept_noise = 0;
    if (i + 1 < sampling->steps) diti_schedule_mix(sampling, intervals[i + 1].from, &step->kept_x0, &step->kept_noise);
}

static double diti_initial_scale(const diti_sampling *sampling, const diti_interval *intervals) {
    double highest = intervals[0].from.sigma;
    if (sampling->solver != DITI_SOLVER_EULER || sampling->flow) return 1;
    return sampling->spacing == DITI_SPACING_LEADING ? sqrt(highest * highest + 1) : highest;
}

static dit_result diti_schedule_fill(const diti_sampling *sampling, const diti_interval *intervals, diti_schedule *out,
                                     dit_error *err) {
    uint32_t i, count = sampling->steps - sampling->begin;
    for (i = 0; i < count; i++) {
        diti_fill_step(sampling, intervals, sampling->begin + i, &out->steps[i]);
        if (!diti_step_finite(&out->steps[i]))
            return diti_fail(
                err, DIT_ERROR_INVALID_ARGUMENT,
                "sampler %s has no finite step %u of %u on this schedule: use fewer steps or another sampler",
                sampling->sampler, sampling->begin + i + 1, sampling->steps);
        if (out->steps[i].noise != 0) out->draws = true;
        if (out->steps[i].noise_v != 0) out->learned = true;
        if (out->steps[i].x_y != 0) out->corrects = true;
    }
    out->count = count;
    diti_schedule_mix(sampling, intervals[sampling->begin].from, &out->start_x0, &out->start_noise);
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
    if (!intervals || !out->steps) result = diti_fail_memory(err, "%u steps", sampling.steps);
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
