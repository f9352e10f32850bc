/* Solvers (docs/models.md 7): what the model predicts, and the factors of every step, as rows of one table. */
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

/* Sana-Sprint is shown the latent times this: the model has learnt a flow, whose latents are shorter than those on a
   circle. */
static double diti_trigflow_input(diti_noise_level level) {
    return sqrt(level.sigma * level.sigma + (1 - level.sigma) * (1 - level.sigma));
}

/* The output as a velocity on the circle: ((1 - 2t) x input + (1 - 2t + 2t^2) m) / input. */
static diti_mixture diti_trigflow_x0(diti_noise_level level) {
    double t = level.sigma;
    return diti_mixture_of(level.alpha - level.noise * (1 - 2 * t),
                           -level.noise * (1 - 2 * t + 2 * t * t) / diti_trigflow_input(level));
}

static diti_mixture diti_predicted_x0(diti_prediction prediction, diti_noise_level level) {
    switch (prediction) {
    case DITI_PREDICT_EPSILON: return diti_mixture_of(1 / level.alpha, -level.noise / level.alpha);
    case DITI_PREDICT_V: return diti_mixture_of(level.alpha, -level.noise);
    case DITI_PREDICT_SAMPLE: return diti_mixture_of(0, 1);
    case DITI_PREDICT_RECTIFIED: return diti_mixture_of(1, level.noise);
    case DITI_PREDICT_TRIGFLOW: return diti_trigflow_x0(level);
    case DITI_PREDICT_FLOW: break;
    }
    return diti_mixture_of(1, -level.noise);
}

static diti_mixture diti_predicted_epsilon(diti_prediction prediction, diti_noise_level level) {
    switch (prediction) {
    case DITI_PREDICT_EPSILON: return diti_mixture_of(0, 1);
    case DITI_PREDICT_V: return diti_mixture_of(level.noise, level.alpha);
    case DITI_PREDICT_SAMPLE: return diti_mixture_of(1 / level.noise, -level.alpha / level.noise);
    case DITI_PREDICT_RECTIFIED: return diti_mixture_of(1, -level.alpha);
    case DITI_PREDICT_TRIGFLOW:
    case DITI_PREDICT_FLOW: break;
    }
    return diti_mixture_of(1, level.alpha);
}

typedef struct diti_update { /* diti_step in double */
    double x_x, x_m, x_y, d[4], noise, noise_v, y_x, y_y, e[3];
    bool passes; /* x0 is not remembered */
} diti_update;

/* --- Euler, plain and ancestral (docs/models.md 7.3, 7.7) --- */
/* Ancestral steps go down to less noise than their end has, then up again with fresh noise. With betas x is kept
   divided by alpha. In flows less noise leaves more signal than the end has, so that all is scaled to the end's signal.
   scale: that factor, else 1. Other steps go down to their end. */
static double diti_ancestral_down(const diti_sampling *sampling, diti_noise_level from, diti_noise_level to,
                                  double *scale) {
    double down = sampling->stochastic ? to.sigma * to.sigma / from.sigma : to.sigma;
    *scale = sampling->stochastic && sampling->flow ? to.alpha / (1 - down) : 1;
    return down;
}

static double diti_ancestral_noise(double to, double down, double scale) {
    return sqrt(fmax(to * to - down * down * scale * scale, 0));
}

static diti_update diti_ancestral_update(const diti_sampling *sampling, const diti_interval *interval) {
    diti_update update = DITI_ZERO;
    double from = interval->from.sigma, scale;
    double down = diti_ancestral_down(sampling, interval->from, interval->to, &scale);
    update.noise = diti_ancestral_noise(interval->to.sigma, down, scale);
    update.x_x = scale * down / from;
    update.d[0] = scale * (1 - down / from);
    return update;
}

static diti_update diti_euler_update(const diti_sampling *sampling, const diti_interval *interval) {
    diti_update update = DITI_ZERO;
    double ratio = interval->to.sigma / interval->from.sigma;
    if (sampling->stochastic) return diti_ancestral_update(sampling, interval);
    if (sampling->flow) {
        update.x_x = 1;
        update.x_m = interval->to.sigma - interval->from.sigma;
        if (sampling->prediction == DITI_PREDICT_RECTIFIED) update.x_m = -update.x_m;
        return update;
    }
    update.x_x = ratio; /* x' = x + (x - x0) / sigma * (sigma' - sigma) */
    update.d[0] = 1 - ratio;
    return update;
}

/* --- Heun and DPM2 (docs/models.md 7.12): steps of two evaluations, even ones where the step begins. The latent of the
   beginning is kept as y. With betas latents are divided by alpha, as Euler's, so that all steps are straight. --- */
static diti_update diti_heun_update(const diti_interval *intervals, uint32_t i) {
    diti_update update = DITI_ZERO;
    double sigma = intervals[i].from.sigma, part;
    if (i % 2 == 0) {
        part = (intervals[i].to.sigma - sigma) / sigma;
        update.x_x = 1 + part;
        update.d[0] = -part;
        update.y_x = 1 + part / 2; /* the whole step with half of this slope, to which comes half of the other */
        update.e[0] = -part / 2;
        return update;
    }
    part = (sigma - intervals[i - 1].from.sigma) / sigma / 2;
    update.x_y = 1;
    update.x_x = part;
    update.d[0] = -part;
    return update;
}

static diti_update diti_dpm2_update(const diti_sampling *sampling, const diti_interval *intervals, uint32_t i) {
    diti_update update = DITI_ZERO;
    double sigma = intervals[i].from.sigma, to = intervals[i].to.sigma, part, down, scale;
    if (i % 2 == 0) {
        part = (to - sigma) / sigma;
        update.x_x = 1 + part;
        update.d[0] = -part;
        update.y_x = 1;
        return update;
    }
    down = diti_ancestral_down(sampling, intervals[i - 1].from, intervals[i].to, &scale);
    part = scale * (down - intervals[i - 1].from.sigma) / sigma;
    update.x_y = scale;
    update.x_x = part;
    update.d[0] = -part;
    update.noise = diti_ancestral_noise(to, down, scale);
    return update;
}

/* --- RES (docs/models.md 7.17): an exponential integrator of x0 over the logarithm of sigma --- */
/* h phi2(-h) for h = ln(1 / ratio): the weight of a slope of x0. */
static double diti_res_slope(double ratio) { return ratio < 1 ? 1 + (1 - ratio) / log(ratio) : 0; }

static diti_update diti_res_update(const diti_sampling *sampling, const diti_interval *intervals, uint32_t i) {
    diti_update update = diti_ancestral_update(sampling, &intervals[i]);
    double scale, down = diti_ancestral_down(sampling, intervals[i].from, intervals[i].to, &scale);
    double ratio = down / intervals[i].from.sigma, unused, before, place;
    if (i == sampling->begin || down == 0) return update;
    before = diti_ancestral_down(sampling, intervals[i - 1].from, intervals[i].from, &unused);
    place = log(before / intervals[i - 1].from.sigma) / -log(ratio); /* below 0: where the last x0 stands */
    update.d[1] = scale * diti_res_slope(ratio) / place;
    update.d[0] -= update.d[1];
    return update;
}

/* Its steps of two evaluations; y is the whole step but for what the second one says, which is in the middle. */
static diti_update diti_res_2s_update(const diti_sampling *sampling, const diti_interval *intervals, uint32_t i) {
    diti_update update = DITI_ZERO;
    double ratio = intervals[i].to.sigma / intervals[i].from.sigma;
    if (i % 2 == 0) {
        update.x_x = ratio;
        update.d[0] = 1 - ratio;
        if (i + 1 == sampling->calls) return update;
        ratio = intervals[i + 1].to.sigma / intervals[i].from.sigma;
        update.y_x = ratio;
        update.e[0] = 1 - ratio - 2 * diti_res_slope(ratio);
        return update;
    }
    update.x_y = 1;
    update.d[0] = 2 * diti_res_slope(intervals[i].to.sigma / intervals[i - 1].from.sigma);
    return update;
}

/* --- ER-SDE (docs/models.md 7.17), of the third order; x is kept divided by alpha with betas --- */
static double diti_er_scale(double lambda) { return lambda * (exp(pow(lambda, 0.3)) + 10); }

static double diti_er_lambda(const diti_sampling *sampling, diti_noise_level level) {
    return sampling->flow ? level.sigma / level.alpha : level.sigma;
}

/* Sums over 200 places from lambda on, up to lambda_from: of 1 / scale (power 0), of (place - lambda_from) / scale. */
static double diti_er_integral(double lambda_from, double lambda, int power) {
    double sum = 0, part = (lambda_from - lambda) / 200;
    int i;
    for (i = 0; i < 200; i++) {
        double place = lambda + i * part;
        sum += (power ? place - lambda_from : 1) / diti_er_scale(place);
    }
    return sum * part;
}

static diti_update diti_er_sde_update(const diti_sampling *sampling, const diti_interval *intervals, uint32_t i) {
    diti_update update = DITI_ZERO;
    const diti_interval *now = &intervals[i];
    double from = diti_er_lambda(sampling, now->from), to = diti_er_lambda(sampling, now->to), length = to - from;
    double alpha_from = sampling->flow ? now->from.alpha : 1, alpha_to = sampling->flow ? now->to.alpha : 1;
    double ratio = diti_er_scale(to) / diti_er_scale(from), slope, curve, before, first, second;
    uint32_t known = i - sampling->begin;
    if (now->to.sigma == 0) {
        update.d[0] = 1;
        return update;
    }
    update.x_x = alpha_to / alpha_from * ratio;
    update.d[0] = alpha_to * (1 - ratio);
    update.noise = alpha_to * sqrt(fmax(to * to - from * from * ratio * ratio, 0));
    if (known == 0) return update;
    before = diti_er_lambda(sampling, intervals[i - 1].from);
    slope = alpha_to * (length + diti_er_integral(from, to, 0) * diti_er_scale(to));
    first = 1 / (from - before); /* the slope of x0 is (x0 - h1) * first */
    if (known > 1) {
        double earliest = diti_er_lambda(sampling, intervals[i - 2].from);
        curve = alpha_to * (length * length / 2 + diti_er_integral(from, to, 1) * diti_er_scale(to));
        curve /= (from - earliest) / 2;
        second = 1 / (before - earliest);
        slope += curve; /* times the slope now, less the slope before */
        update.d[1] -= curve * second;
        update.d[2] += curve * second;
    }
    update.d[0] += slope * first;
    update.d[1] -= slope * first;
    return update;
}

/* --- the formulas of Adams and Bashforth, of the first to the fourth order, newest slope first --- */
static const double diti_adams[4][4] = {{1, 0, 0, 0},
                                        {3 / 2.0, -1 / 2.0, 0, 0},
                                        {23 / 12.0, -16 / 12.0, 5 / 12.0, 0},
                                        {55 / 24.0, -59 / 24.0, 37 / 24.0, -9 / 24.0}};

/* --- iPNDM (docs/models.md 7.12) and gradient estimation (7.17): x0 stands for the slope (x - x0) / sigma --- */
static diti_update diti_gradient_update(const diti_sampling *sampling, const diti_interval *intervals, uint32_t i) {
    diti_update update = DITI_ZERO;
    double length = intervals[i].to.sigma - intervals[i].from.sigma;
    bool estimates = i > sampling->begin && intervals[i].to.sigma > 0;
    update.x_x = 1;
    update.d[0] = estimates ? 2 * length : length;
    update.d[1] = estimates ? -length : 0;
    return update;
}

static diti_update diti_ipndm_update(const diti_sampling *sampling, const diti_interval *intervals, uint32_t i) {
    diti_update update = DITI_ZERO;
    double length = intervals[i].to.sigma - intervals[i].from.sigma;
    uint32_t order = i + 1 - sampling->begin, k;
    if (order > 4) order = 4;
    if (intervals[i].to.sigma == 0) order = 1;
    update.x_x = 1;
    for (k = 0; k < 4; k++) update.d[k] = length * diti_adams[order - 1][k];
    return update;
}

/* --- PNDM (docs/models.md 7.13): x0 stands for the model's output, or for the noise that it predicts --- */
/* x' = mixture.x * x + mixture.m * output: from the interval's start to its end along DDIM's path. */
static diti_mixture diti_pndm_move(const diti_sampling *sampling, const diti_interval *interval) {
    const diti_noise_level *start = &interval->start, *to = &interval->to;
    double kept = to->alpha / start->alpha, added = to->noise - kept * start->noise;
    if (!sampling->remembers_output) return diti_mixture_of(kept, added);
    return diti_mixture_of(kept + added * start->noise, added * start->alpha); /* v */
}

/* Runge-Kutta's four evaluations, of which the first one is remembered. y is the latent of the first, until the third
   one makes the whole step of it but for the part of the fourth; the second one's output is what moved y to x. */
static diti_update diti_pndm_runge_kutta_update(const diti_sampling *sampling, const diti_interval *intervals,
                                                uint32_t i) {
    diti_update update = DITI_ZERO;
    diti_mixture move = diti_pndm_move(sampling, &intervals[i]),
                 whole = diti_pndm_move(sampling, &intervals[i / 4 * 4 + 3]),
                 second = diti_pndm_move(sampling, &intervals[i / 4 * 4 + 1]);
    update.passes = i % 4 != 0;
    update.d[0] = move.m;
    switch (i % 4) {
    case 0:
        update.x_x = move.x;
        update.y_x = 1;
        return update;
    case 1:
        update.x_y = move.x;
        update.y_y = 1;
        return update;
    case 2:
        update.x_y = move.x;
        update.y_x = whole.m / 3 / second.m;
        update.y_y = whole.x - update.y_x * second.x;
        update.e[0] = whole.m / 3;
        update.e[1] = whole.m / 6;
        return update;
    default: break;
    }
    update.x_y = 1;
    update.d[0] = whole.m / 6;
    return update;
}

static diti_update diti_pndm_update(const diti_sampling *sampling, const diti_interval *intervals, uint32_t i) {
    diti_update update = DITI_ZERO;
    diti_mixture move = diti_pndm_move(sampling, &intervals[i]);
    uint32_t order = 4, k;
    if (!sampling->skips_runge_kutta && i < 12) return diti_pndm_runge_kutta_update(sampling, intervals, i);
    update.x_x = move.x;
    if (sampling->skips_runge_kutta && i == 1) { /* the first step again, with the mean of both outputs */
        update.passes = true;
        update.x_x = 0;
        update.x_y = move.x;
        update.d[0] = update.d[1] = move.m / 2;
        return update;
    }
    if (sampling->skips_runge_kutta && i < 4) order = i ? i : 1;
    if (sampling->skips_runge_kutta && i == 0) update.y_x = 1;
    for (k = 0; k < 4; k++) update.d[k] = move.m * diti_adams[order - 1][k];
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
    double added = interval->beta > 0 ? interval->beta : fmax(from - kept * kept * to, 0),
           posterior = fmax(to / from * added, 1e-20);
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

/* --- SCM (docs/models.md 7.15): x0, then noised again to the next angle --- */
static diti_update diti_scm_update(const diti_interval *interval) {
    diti_update update = DITI_ZERO;
    update.d[0] = interval->to.alpha;
    update.noise = interval->to.noise;
    return update;
}

/* --- DPM-Solver++ multistep (docs/models.md 7.4) --- */
static double diti_lambda(diti_noise_level level) { return log(level.alpha) - log(level.noise); }

static uint32_t diti_dpm_order(const diti_sampling *sampling, const diti_interval *intervals, uint32_t i) {
    uint32_t n = sampling->steps, order = sampling->order;
    bool lower = sampling->lower_order_final && n < 15;
    bool ends = sampling->strides && intervals[i].timestep < sampling->train_steps / n;
    if (i == n - 1 && (lower || sampling->euler_at_final || intervals[i].to.noise == 0 || ends)) order = 1;
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

/* --- DPM-Solver++ singlestep (docs/models.md 7.14): of each pair of steps the second one begins again where the first
   one did, and uses both outputs; y is that latent --- */
static diti_update diti_singlestep_update(const diti_sampling *sampling, const diti_interval *intervals, uint32_t i) {
    diti_update update = DITI_ZERO;
    const diti_interval *now = &intervals[i];
    bool lower = sampling->lower_order_final || sampling->steps % 2 || intervals[sampling->steps - 1].to.noise == 0;
    double h, missing, newer;
    if (sampling->order == 1 || i % 2 == 0 || i == sampling->begin || (lower && i + 1 == sampling->steps)) {
        missing = 1 - exp(diti_lambda(now->from) - diti_lambda(now->to));
        update.x_x = now->to.noise / now->from.noise;
        update.d[0] = now->to.alpha * missing;
        update.y_x = 1;
        return update;
    }
    h = diti_lambda(now->to) - diti_lambda(intervals[i - 1].from);
    missing = 1 - exp(-h);
    newer = now->to.alpha * (sampling->heun ? 1 - missing / h : missing / 2) * h /
            (diti_lambda(now->from) - diti_lambda(intervals[i - 1].from));
    update.x_y = now->to.noise / intervals[i - 1].from.noise;
    update.d[0] = newer;
    update.d[1] = now->to.alpha * missing - newer;
    return update;
}

/* --- DEIS (docs/models.md 7.14): x0 stands for the predicted noise, a polynomial in the logarithm of sigma through the
   newest predictions --- */
/* The integral of ln(sigma)^power from 0 to sigma. */
static double diti_log_integral(double sigma, uint32_t power) {
    double l = sigma > 0 ? log(sigma) : 0;
    return sigma * (power == 0 ? 1 : power == 1 ? l - 1 : l * l - 2 * l + 2);
}

static diti_update diti_deis_update(const diti_sampling *sampling, const diti_interval *intervals, uint32_t i) {
    diti_update update = DITI_ZERO;
    const diti_interval *now = &intervals[i];
    double from = now->from.noise / now->from.alpha, to = now->to.noise / now->to.alpha, logs[3], whole[3];
    uint32_t order = diti_dpm_order(sampling, intervals, i), k;
    for (k = 0; k < order; k++) {
        logs[k] = log(intervals[i - k].from.noise / intervals[i - k].from.alpha);
        whole[k] = diti_log_integral(to, k) - diti_log_integral(from, k);
    }
    update.x_x = now->to.alpha / now->from.alpha;
    for (k = 0; k < order; k++) {
        double a = logs[(k + 1) % order], b = logs[(k + 2) % order], here = logs[k];
        if (order == 1) update.d[k] = now->to.alpha * whole[0];
        if (order == 2) update.d[k] = now->to.alpha * (whole[1] - a * whole[0]) / (here - a);
        if (order == 3)
            update.d[k] =
                now->to.alpha * (whole[2] - (a + b) * whole[1] + a * b * whole[0]) / ((here - a) * (here - b));
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
           isfinite(step->d1) && isfinite(step->d2) && isfinite(step->d3) && isfinite(step->noise) &&
           isfinite(step->noise_v) && isfinite(step->y_x) && isfinite(step->y_y) && isfinite(step->e0) &&
           isfinite(step->e1) && isfinite(step->e2);
}

static diti_update diti_solver_update(const diti_sampling *sampling, const diti_interval *intervals, uint32_t i) {
    switch (sampling->solver) {
    case DITI_SOLVER_EULER: return diti_euler_update(sampling, &intervals[i]);
    case DITI_SOLVER_HEUN: return diti_heun_update(intervals, i);
    case DITI_SOLVER_DPM2: return diti_dpm2_update(sampling, intervals, i);
    case DITI_SOLVER_RES: return diti_res_update(sampling, intervals, i);
    case DITI_SOLVER_RES_2S: return diti_res_2s_update(sampling, intervals, i);
    case DITI_SOLVER_ER_SDE: return diti_er_sde_update(sampling, intervals, i);
    case DITI_SOLVER_GRADIENT: return diti_gradient_update(sampling, intervals, i);
    case DITI_SOLVER_SINGLESTEP: return diti_singlestep_update(sampling, intervals, i);
    case DITI_SOLVER_DEIS: return diti_deis_update(sampling, intervals, i);
    case DITI_SOLVER_IPNDM: return diti_ipndm_update(sampling, intervals, i);
    case DITI_SOLVER_PNDM: return diti_pndm_update(sampling, intervals, i);
    case DITI_SOLVER_DDIM: return diti_ddim_update(sampling, &intervals[i]);
    case DITI_SOLVER_DDPM: return diti_ddpm_update(sampling, &intervals[i]);
    case DITI_SOLVER_LCM: return diti_lcm_update(sampling, &intervals[i]);
    case DITI_SOLVER_SCM: return diti_scm_update(&intervals[i]);
    case DITI_SOLVER_UNIPC: return diti_unipc_update(sampling, intervals, i);
    case DITI_SOLVER_DPM: break;
    }
    return diti_dpm_update(sampling, intervals, i);
}

/* Euler and its like keep x / alpha on models with betas, so that steps are straight; the model is shown x. */
static bool diti_sampling_scaled(const diti_sampling *sampling) {
    return diti_sampling_differential(sampling) && !sampling->flow;
}

/* diffusers' add_noise and scale_noise: a picture with the noise of a level. */
static void diti_schedule_mix(const diti_sampling *sampling, diti_noise_level level, float *x0, float *noise) {
    bool scaled = diti_sampling_scaled(sampling);
    *x0 = scaled ? 1.0f : (float)level.alpha;
    *noise = (float)(scaled ? level.sigma : level.noise);
}

/* The mixture that stands in x0's place; x0 is given as a mixture of the latent and the model's output. */
static diti_mixture diti_solver_remembers(const diti_sampling *sampling, diti_noise_level level, diti_mixture x0) {
    if (sampling->solver == DITI_SOLVER_PNDM && sampling->remembers_output) return diti_mixture_of(0, 1);
    if (sampling->solver == DITI_SOLVER_IPNDM || sampling->solver == DITI_SOLVER_GRADIENT)
        return diti_mixture_of((1 - x0.x) / level.sigma, -x0.m / level.sigma);
    if (sampling->solver == DITI_SOLVER_PNDM || sampling->solver == DITI_SOLVER_DEIS || sampling->predicts_noise)
        return diti_predicted_epsilon(sampling->prediction, level);
    return x0;
}

/* Noises that the original code draws: CogVideoX's second order draws two and uses the second one, DPM2 draws none in
   the first half of its steps, Open-Sora's flows draw for given frames alone. */
static uint32_t diti_solver_draws(const diti_sampling *sampling, const diti_interval *intervals, uint32_t i,
                                  const diti_update *update) {
    if ((sampling->solver == DITI_SOLVER_DPM2 || sampling->transforms) && update->noise == 0) return 0;
    return sampling->strides && sampling->solver == DITI_SOLVER_DPM ? diti_dpm_order(sampling, intervals, i) : 1;
}

static void diti_fill_step(const diti_sampling *sampling, const diti_interval *intervals, uint32_t i, diti_step *step) {
    diti_noise_level level = intervals[i].from;
    double input = diti_sampling_scaled(sampling) ? level.alpha : 1;
    diti_mixture picture = diti_predicted_x0(sampling->prediction, level), x0;
    diti_update update = diti_solver_update(sampling, intervals, i);
    picture.x *= input;
    if (sampling->prediction == DITI_PREDICT_TRIGFLOW) input = diti_trigflow_input(level);
    x0 = diti_solver_remembers(sampling, level, picture);
    step->timestep = (float)intervals[i].timestep;
    step->sigma = (float)level.sigma;
    step->input = (float)input;
    step->x0_x = (float)x0.x;
    step->x0_m = (float)x0.m;
    step->clip = (float)sampling->clip;
    step->x_x = (float)update.x_x;
    step->x_m = (float)update.x_m;
    step->x_y = (float)update.x_y;
    step->d0 = (float)update.d[0];
    step->d1 = (float)update.d[1];
    step->d2 = (float)update.d[2];
    step->d3 = (float)update.d[3];
    step->noise = (float)update.noise;
    step->noise_v = (float)update.noise_v;
    step->y_x = (float)update.y_x;
    step->y_y = (float)update.y_y;
    step->e0 = (float)update.e[0];
    step->e1 = (float)update.e[1];
    step->e2 = (float)update.e[2];
    step->push = update.passes ? 0.0f : 1.0f;
    step->shown_x = (float)(picture.x - picture.m / x0.m * x0.x); /* the model's output of x0, and its picture */
    step->shown_x0 = (float)(picture.m / x0.m);
    if (!isfinite(step->shown_x) || !isfinite(step->shown_x0)) step->shown_x = 0, step->shown_x0 = 1;
    step->kept_x0 = 1;
    step->kept_noise = 0;
    if (i + 1 < sampling->calls) diti_schedule_mix(sampling, intervals[i + 1].from, &step->kept_x0, &step->kept_noise);
    step->draws = diti_solver_draws(sampling, intervals, i, &update);
}

static double diti_initial_scale(const diti_sampling *sampling, const diti_interval *intervals) {
    double highest = intervals[0].from.sigma;
    if (!diti_sampling_scaled(sampling)) return 1;
    return sampling->spacing == DITI_SPACING_LEADING ? sqrt(highest * highest + 1) : highest;
}

static dit_result diti_schedule_fill(const diti_sampling *sampling, const diti_interval *intervals, diti_schedule *out,
                                     dit_error *err) {
    uint32_t i, count = sampling->calls - sampling->first;
    for (i = 0; i < count; i++) {
        const diti_step *step = &out->steps[i];
        diti_fill_step(sampling, intervals, sampling->first + i, &out->steps[i]);
        if (!diti_step_finite(step))
            return diti_fail(
                err, DIT_ERROR_INVALID_ARGUMENT,
                "sampler %s has no finite step %u of %u on this schedule: use fewer steps or another sampler",
                sampling->sampler, sampling->first + i + 1, sampling->calls);
        if (step->noise != 0) out->draws = true;
        if (step->noise_v != 0) out->learned = true;
        if (step->x_y != 0) out->has_y = true;
        if (step->d3 != 0) out->has_h3 = true;
    }
    out->count = count;
    diti_schedule_mix(sampling, intervals[sampling->first].from, &out->start_x0, &out->start_noise);
    out->initial = (float)diti_initial_scale(sampling, intervals);
    out->flow_begin = sampling->flow ? (float)sampling->train_steps : 0.0f;
    out->sampler = sampling->sampler;
    return DIT_OK;
}

DIT_INTERNAL dit_result diti_schedule_make(const diti_env *env, const diti_json *config,
                                           const diti_schedule_request *request, diti_schedule *out, dit_error *err) {
    diti_sampling sampling;
    diti_interval *intervals;
    dit_result result = diti_sampling_resolve(config, request, &sampling, err);
    memset(out, 0, sizeof *out);
    DITI_TRY(result);
    intervals = (diti_interval *)diti_alloc_array(env, sampling.calls, sizeof *intervals);
    out->steps = (diti_step *)diti_alloc_array(env, sampling.calls, sizeof *out->steps);
    if (!intervals || !out->steps) result = diti_fail_memory(err, "%u steps", sampling.calls);
    if (result >= 0) memset(intervals, 0, sampling.calls * sizeof *intervals);
    if (result >= 0) result = diti_sampling_intervals(env, &sampling, intervals, err);
    if (result >= 0) result = diti_schedule_fill(&sampling, intervals, out, err);
    diti_free(env, intervals);
    if (result < 0) diti_schedule_free(env, out);
    return result;
}

DIT_INTERNAL void diti_schedule_free(const diti_env *env, diti_schedule *schedule) {
    diti_free(env, schedule->steps);
    memset(schedule, 0, sizeof *schedule);
}

/* --- frames that are given (docs/models.md 7.11) --- */

/* Whether a frame may stand still in a step: what a sampler remembers of it would be of another noise level. */
static bool diti_schedule_holds(const diti_schedule *schedule) {
    uint32_t i;
    for (i = 0; i < schedule->count; i++) {
        const diti_step *step = &schedule->steps[i];
        if (step->d1 != 0 || step->d2 != 0 || step->d3 != 0 || step->x_y != 0) return false;
    }
    return true;
}

/* A frame that is to be made anew in part begins at the noise of the step at which its part begins. In flows that is
   the first step whose time is not above the part; before it the model takes the frame for given, from then on not. On
   models with betas it is the step that is as many steps before the end, rounded down, and in that step, too, the model
   takes the frame for given. A frame of which nothing is made anew moves in the last step of these, as in the original.
 */
DIT_INTERNAL dit_result diti_schedule_frames(const diti_schedule *schedule, const float *mask, uint32_t frames,
                                             diti_frame_step *out, dit_error *err) {
    uint32_t step, frame;
    if (!diti_schedule_holds(schedule))
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "sampler %s remembers earlier steps, so that it cannot hold the frames that are given; use "
                         "euler, euler-a, ddim or ddpm",
                         schedule->sampler);
    for (frame = 0; frame < frames; frame++) {
        bool moved = mask[frame] == 1;
        uint32_t begins;
        if (!(mask[frame] >= 0 && mask[frame] <= 1))
            return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                             "frame %u is to be made anew to the part %g; it must be 0 (it stays) to 1 (all of it)",
                             frame, (double)mask[frame]);
        begins = (uint32_t)(mask[frame] * (float)schedule->count);
        for (step = 0; step < schedule->count; step++) {
            const diti_step *before = step ? &schedule->steps[step - 1] : NULL;
            diti_frame_step *now = &out[(size_t)step * frames + frame];
            uint32_t left = schedule->count - 1 - step;
            bool flow = schedule->flow_begin > 0, up;
            up = flow ? mask[frame] * schedule->flow_begin >= schedule->steps[step].timestep : begins >= left;
            now->x = 1;
            now->noise = 0;
            if (flow ? up && !moved : begins == left) {
                now->x = before ? before->kept_x0 : schedule->start_x0;
                now->noise = before ? before->kept_noise : schedule->start_noise;
            }
            now->moves = up ? 1.0f : 0.0f;
            now->fresh = (flow ? up : begins > left) ? 1.0f : 0.0f;
            moved = up;
        }
    }
    return DIT_OK;
}

DIT_INTERNAL double diti_dynamic_guidance(double scale, uint32_t steps, double timestep) {
    return 1 + scale * (1 - cos(3.14159265358979323846 * pow((steps - timestep) / steps, 5))) / 2;
}
