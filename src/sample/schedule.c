#include "sample/sample.h"

/* Where a trajectory goes: the points in time of docs/models.md 7.0 to 7.8 and 7.12 to 7.14. Tables over the training
   steps are kept in float as torch keeps them, because 1 - alpha of the first steps is so small that their rounding
   shows. */

/* Element i of n numbers from a to b, as numpy.linspace. */
static double diti_linspace(double a, double b, uint32_t i, uint32_t n) {
    if (n < 2) return a;
    return i == n - 1 ? b : a + (double)i * ((b - a) / (double)(n - 1));
}

/* torch.linspace in float: counts from both ends. */
static float diti_linspace_float(float a, float b, uint32_t i, uint32_t n) {
    float step = n > 1 ? (b - a) / (float)(n - 1) : 0;
    return i < n / 2 || n < 2 ? a + step * (float)i : b - step * (float)(n - i - 1);
}

/* --- models with betas: the table of cumulative alphas --- */
static double diti_cosine_alpha(double t) {
    double c = cos((t + 0.008) / 1.008 * 3.14159265358979323846 / 2);
    return c * c;
}

static float diti_beta(const diti_sampling *sampling, uint32_t i) {
    uint32_t n = sampling->train_steps;
    float root;
    switch (sampling->betas) {
    case DITI_BETA_LINEAR: return diti_linspace_float((float)sampling->beta_start, (float)sampling->beta_end, i, n);
    case DITI_BETA_SCALED_LINEAR:
        root = diti_linspace_float((float)sqrt(sampling->beta_start), (float)sqrt(sampling->beta_end), i, n);
        return root * root;
    case DITI_BETA_COSINE:
        return (float)fmin(1 - diti_cosine_alpha((i + 1.0) / n) / diti_cosine_alpha((double)i / n), 0.999);
    }
    return 0;
}

static void diti_fill_alphas(const diti_sampling *sampling, double *alphas) {
    const diti_json *trained = sampling->trained_betas ? sampling->trained_betas->first : NULL;
    uint32_t i;
    for (i = 0; i < sampling->train_steps; i++) {
        alphas[i] = (double)(1.0f - (trained ? (float)trained->number : diti_beta(sampling, i)));
        if (trained) trained = trained->next;
    }
}

static void diti_cumulate(double *alphas, uint32_t count) {
    double product = 1;
    uint32_t i;
    for (i = 0; i < count; i++) {
        product *= alphas[i];
        alphas[i] = (double)(float)product;
    }
}

/* rescale_betas_zero_snr: an affine map of the roots, then back to betas, as diffusers does it step by step in float.
 */
static void diti_rescale_zero_snr(double *cumulative, uint32_t count) {
    float first = sqrtf((float)cumulative[0]), last = sqrtf((float)cumulative[count - 1]), before = 0;
    uint32_t i;
    for (i = 0; i < count; i++) {
        float root = (sqrtf((float)cumulative[i]) - last) * (first / (first - last)), square = root * root;
        float alpha = i ? square / before : square, beta = 1.0f - alpha;
        before = square;
        cumulative[i] = (double)(1.0f - beta);
    }
    diti_cumulate(cumulative, count);
}

static double diti_beta_double(const diti_sampling *sampling, uint32_t i) {
    uint32_t n = sampling->train_steps;
    double root = diti_linspace(sqrt(sampling->beta_start), sqrt(sampling->beta_end), i, n);
    if (sampling->betas == DITI_BETA_LINEAR) return diti_linspace(sampling->beta_start, sampling->beta_end, i, n);
    if (sampling->betas == DITI_BETA_SCALED_LINEAR) return root * root;
    return fmin(1 - diti_cosine_alpha((i + 1.0) / n) / diti_cosine_alpha((double)i / n), 0.999);
}

/* CogVideoX keeps doubles, shifts the ratio of signal and noise, and maps the roots without a way through betas
   (docs/models.md 7.6). */
static void diti_cumulative_alphas_double(const diti_sampling *sampling, double *out) {
    const diti_json *trained = sampling->trained_betas ? sampling->trained_betas->first : NULL;
    double product = 1, shift = sampling->snr_shift, first, last;
    uint32_t i, count = sampling->train_steps;
    for (i = 0; i < count; i++) {
        product *= 1 - (trained ? trained->number : diti_beta_double(sampling, i));
        if (trained) trained = trained->next;
        out[i] = product / (shift + (1 - shift) * product);
    }
    first = sqrt(out[0]);
    last = sqrt(out[count - 1]);
    for (i = 0; i < count && sampling->zero_snr; i++) {
        double root = (sqrt(out[i]) - last) * (first / (first - last));
        out[i] = root * root;
    }
}

DIT_INTERNAL void diti_cumulative_alphas(const diti_sampling *sampling, double *out) {
    uint32_t count = sampling->train_steps;
    bool finite = diti_sampling_differential(sampling) || (diti_sampling_multistep(sampling) && !sampling->strides);
    if (sampling->double_alphas) {
        diti_cumulative_alphas_double(sampling, out);
    } else {
        diti_fill_alphas(sampling, out);
        diti_cumulate(out, count);
        if (sampling->zero_snr) diti_rescale_zero_snr(out, count);
    }
    if (sampling->zero_snr && finite) out[count - 1] = 1.0 / 16777216.0; /* these solvers need a finite sigma */
}

static double diti_training_sigma(const double *alphas, uint32_t i) {
    float alpha = (float)alphas[i];
    return (double)sqrtf((1.0f - alpha) / alpha);
}

static double diti_training_sigma_between(const double *alphas, uint32_t count, double timestep) {
    double below = floor(timestep);
    uint32_t i = (uint32_t)below;
    if (i + 1 >= count) return diti_training_sigma(alphas, count - 1);
    return diti_training_sigma(alphas, i) +
           (timestep - below) * (diti_training_sigma(alphas, i + 1) - diti_training_sigma(alphas, i));
}

/* The timestep at which training has this sigma: linear in its logarithm. */
static double diti_sigma_timestep(const double *alphas, uint32_t count, double sigma) {
    uint32_t i = 0;
    double low, high, part;
    if (count < 2) return 0;
    while (i + 2 < count && log(diti_training_sigma(alphas, i + 1)) <= log(sigma)) i++;
    low = log(diti_training_sigma(alphas, i));
    high = log(diti_training_sigma(alphas, i + 1));
    part = fmin(fmax((low - log(sigma)) / (low - high), 0), 1);
    return (1 - part) * i + part * (i + 1);
}

/* --- timesteps: element i of the descending list --- */
static double diti_timestep_ddim(const diti_sampling *sampling, uint32_t i) {
    uint32_t n = sampling->steps, total = sampling->train_steps;
    switch (sampling->spacing) {
    case DITI_SPACING_LEADING: return (double)(n - 1 - i) * (total / n) + sampling->steps_offset;
    case DITI_SPACING_TRAILING: return rint(total - i * ((double)total / n)) - 1;
    default: break;
    }
    return rint(diti_linspace(0, total - 1.0, n - 1 - i, n));
}

static double diti_timestep_euler(const diti_sampling *sampling, uint32_t i) {
    uint32_t n = sampling->steps;
    if (sampling->spacing != DITI_SPACING_LINSPACE) return diti_timestep_ddim(sampling, i);
    return (double)(float)diti_linspace(0, sampling->train_steps - 1.0, n - 1 - i, n);
}

/* last: the training steps that lambda_min_clipped leaves. */
static double diti_timestep_dpm(const diti_sampling *sampling, uint32_t last, uint32_t i) {
    uint32_t n = sampling->steps;
    switch (sampling->spacing) {
    case DITI_SPACING_LEADING: return (double)(n - i) * (last / (n + 1)) + sampling->steps_offset;
    case DITI_SPACING_TRAILING: return rint(last - i * ((double)sampling->train_steps / n)) - 1;
    default: break;
    }
    return rint(diti_linspace(0, last - 1.0, n - i, n + 1));
}

/* --- shapes: sigma i of n between two extremes --- */
/* The part of a beta distribution with both parameters a that lies below x, x up to one half: its hypergeometric
   series. */
static double diti_beta_below(double a, double x) {
    double term = pow(x, a) * pow(1 - x, a) / (a * tgamma(a) * tgamma(a) / tgamma(2 * a)), sum = term;
    int k;
    for (k = 0; k < 60; k++) {
        term *= (2 * a + k) / (a + 1 + k) * x;
        sum += term;
    }
    return sum;
}

/* The x below which that part is p. */
static double diti_beta_quantile(double a, double p) {
    double low = 0, high = 0.5, part = p > 0.5 ? 1 - p : p, middle;
    int i;
    for (i = 0; i < 60; i++) {
        middle = (low + high) / 2;
        if (diti_beta_below(a, middle) < part)
            low = middle;
        else
            high = middle;
    }
    return p > 0.5 ? 1 - low : low;
}

/* Part i of n of RES4LYF's bong_tangent, falling from 1: two arcs of a tangent's inverse that meet at one half, over n
   steps and two more, behind which 0 follows. */
static double diti_tangent_part(uint32_t i, uint32_t n) {
    int steps = (int)n + 2, pivot = (int)(steps * 0.6), length = pivot;
    double slope = 0.2 / (steps / 40.0), first, last, at, from = 1, to = 0.5;
    int place = (int)i;
    if (place >= pivot - 1) { /* the second arc, which begins where the first one ends */
        place -= pivot - 1;
        length = steps - pivot;
        from = 0.5;
        to = 0;
        pivot = 0;
    }
    if (n < 2) return 1;
    first = atan(slope * pivot);
    last = atan(slope * (pivot - (length - 1)));
    at = atan(slope * (pivot - place));
    return (at - last) / (first - last) * (from - to) + to;
}

/* Half of n steps bring the time 0.025 in equal parts; the others go on as fast, and reach 1 by a parabola. */
static double diti_quadratic_sigma(uint32_t i, uint32_t n) {
    const double end = 0.025;
    double half = n / 2, rest = n - half, over = half - end * n, a, b;
    if (n < 2) return 1;
    if (i < n / 2) return 1 - i * end / half;
    a = over / (half * rest * rest);
    b = end / half - 2 * over / (rest * rest);
    return 1 - (a * i * i + b * i + a * half * half);
}

static double diti_shaped_sigma(diti_sigma_shape shape, double highest, double lowest, uint32_t i, uint32_t n) {
    double a = pow(highest, 1 / 7.0), b = pow(lowest, 1 / 7.0);
    if (shape == DITI_SIGMAS_BETA)
        return lowest + diti_beta_quantile(0.6, 1 - diti_linspace(0, 1, i, n)) * (highest - lowest);
    if (shape == DITI_SIGMAS_KL_OPTIMAL) return tan(diti_linspace(atan(highest), atan(lowest), i, n));
    if (shape == DITI_SIGMAS_TANGENT) return highest * diti_tangent_part(i, n);
    if (shape == DITI_SIGMAS_QUADRATIC) return highest * diti_quadratic_sigma(i, n);
    if (shape == DITI_SIGMAS_KARRAS) return pow(a + diti_linspace(0, 1, i, n) * (b - a), 7);
    return exp(diti_linspace(log(highest), log(lowest), i, n));
}

/* --- levels and intervals --- */
static diti_noise_level diti_level_from_sigma(double sigma) {
    diti_noise_level level;
    level.sigma = sigma;
    level.alpha = 1 / sqrt(sigma * sigma + 1);
    level.noise = sigma * level.alpha;
    return level;
}

static diti_noise_level diti_level_from_alpha(double cumulative) {
    diti_noise_level level;
    level.alpha = sqrt(cumulative);
    level.noise = sqrt(1 - cumulative);
    level.sigma = level.noise / level.alpha;
    return level;
}

static diti_noise_level diti_level_from_flow(double sigma) {
    diti_noise_level level;
    level.sigma = level.noise = sigma;
    level.alpha = 1 - sigma;
    return level;
}

/* Each step ends where the next begins. */
static void diti_chain_intervals(diti_interval *intervals, uint32_t count, diti_noise_level last) {
    uint32_t i;
    for (i = 0; i + 1 < count; i++) intervals[i].to = intervals[i + 1].from;
    intervals[count - 1].to = last;
}

static dit_result diti_check_timestep(const diti_sampling *sampling, double timestep, dit_error *err) {
    if (timestep >= 0 && timestep < sampling->train_steps) return DIT_OK;
    return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                     "%u steps (steps_offset %u) ask for timestep %g of 0..%u: use fewer steps", sampling->steps,
                     sampling->steps_offset, timestep, sampling->train_steps - 1);
}

/* DDPM and LCM go from each timestep of their list to the next, and from the last to the end. LCM skips through those
   that it was distilled on. */
static double diti_timestep_listed(const diti_sampling *sampling, uint32_t i) {
    uint32_t skipped, stride;
    if (sampling->solver == DITI_SOLVER_DDPM) return diti_timestep_ddim(sampling, i);
    skipped = (uint32_t)floor((double)i * ((double)sampling->distilled_steps / sampling->steps));
    stride = sampling->train_steps / sampling->distilled_steps;
    return (double)(sampling->distilled_steps - skipped) * stride - 1;
}

static dit_result diti_intervals_listed(const diti_sampling *sampling, const double *alphas, diti_interval *out,
                                        dit_error *err) {
    uint32_t i;
    if (sampling->solver == DITI_SOLVER_LCM && sampling->steps > sampling->distilled_steps)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "%u steps are more than the %u that lcm was distilled on: use at most %u, better 4 to 8",
                         sampling->steps, sampling->distilled_steps, sampling->distilled_steps);
    for (i = 0; i < sampling->steps; i++) {
        double timestep = diti_timestep_listed(sampling, i);
        DITI_TRY(diti_check_timestep(sampling, timestep, err));
        out[i].timestep = timestep;
        out[i].from = diti_level_from_alpha(alphas[(uint32_t)timestep]);
    }
    diti_chain_intervals(out, sampling->steps, diti_level_from_alpha(1));
    return DIT_OK;
}

/* DDIM always steps by T / n, wherever the next timestep of the list lies (docs/models.md 7.1). */
static dit_result diti_intervals_ddim(const diti_sampling *sampling, const double *alphas, diti_interval *out,
                                      dit_error *err) {
    uint32_t i, stride = sampling->train_steps / sampling->steps;
    double last = sampling->final_alpha_one ? 1 : alphas[0];
    for (i = 0; i < sampling->steps; i++) {
        double timestep = diti_timestep_ddim(sampling, i);
        DITI_TRY(diti_check_timestep(sampling, timestep, err));
        out[i].timestep = timestep;
        out[i].from = diti_level_from_alpha(alphas[(uint32_t)timestep]);
        out[i].to = diti_level_from_alpha(timestep >= stride ? alphas[(uint32_t)timestep - stride] : last);
    }
    return DIT_OK;
}

/* --- PNDM (docs/models.md 7.13): evaluations that follow no falling list of times --- */
typedef struct diti_pndm_times {
    const diti_sampling *sampling;
    const double *alphas;
    uint32_t stride; /* training steps that a step crosses */
} diti_pndm_times;

static diti_noise_level diti_pndm_level(const diti_pndm_times *times, double timestep) {
    double last = times->sampling->final_alpha_one ? 1 : times->alphas[0];
    uint32_t most = times->sampling->train_steps - 1;
    if (timestep < 0) return diti_level_from_alpha(last);
    return diti_level_from_alpha(times->alphas[timestep > most ? most : (uint32_t)timestep]);
}

/* An evaluation at a timestep; its step takes the latent from one timestep to another. */
static dit_result diti_pndm_call(const diti_pndm_times *times, double timestep, double start, double end,
                                 diti_interval *out, dit_error *err) {
    DITI_TRY(diti_check_timestep(times->sampling, timestep, err));
    out->timestep = timestep;
    out->from = diti_pndm_level(times, timestep);
    out->start = diti_pndm_level(times, start);
    out->to = diti_pndm_level(times, end);
    return DIT_OK;
}

/* Each of the first three steps is evaluated where it begins, twice in its middle, and where it ends. */
static dit_result diti_pndm_runge_kutta(const diti_pndm_times *times, diti_interval *out, dit_error *err) {
    const diti_sampling *sampling = times->sampling;
    uint32_t call, half = times->stride / 2;
    double start = 0;
    for (call = 0; call < 12; call++) {
        double at = diti_timestep_ddim(sampling, sampling->begin + call / 4 + (call % 4 ? 1 : 0));
        if (call % 4 == 1 || call % 4 == 2) at += half;
        if (call % 4 == 0) start = at;
        DITI_TRY(diti_pndm_call(times, at, start, at - (call % 2 ? 0 : half), &out[call], err));
    }
    return DIT_OK;
}

/* Without these the second step is evaluated twice: the first one is done again from where it began. */
static dit_result diti_intervals_pndm(const diti_sampling *sampling, const double *alphas, diti_interval *out,
                                      dit_error *err) {
    diti_pndm_times times;
    uint32_t call = 0, i = sampling->begin;
    times.sampling = sampling;
    times.alphas = alphas;
    times.stride = sampling->train_steps / sampling->steps;
    if (!sampling->skips_runge_kutta) {
        DITI_TRY(diti_pndm_runge_kutta(&times, out, err));
        call = 12;
        i += 3;
    }
    for (; call < sampling->calls; call++) {
        bool again = sampling->skips_runge_kutta && call == 1;
        double at = diti_timestep_ddim(sampling, i), start = again ? at + times.stride : at;
        DITI_TRY(diti_pndm_call(&times, at, start, start - times.stride, &out[call], err));
        if (!again) i++;
    }
    return DIT_OK;
}

/* The training steps that lambda_min_clipped leaves; lambda = ln(alpha / noise) falls with the timestep. */
static uint32_t diti_clipped_training_steps(const diti_sampling *sampling, const double *alphas) {
    uint32_t count = sampling->train_steps;
    while (count > 1 && -log(diti_training_sigma(alphas, count - 1)) < sampling->lambda_min) count--;
    return count;
}

static dit_result diti_intervals_spaced(const diti_sampling *sampling, const double *alphas, diti_interval *out,
                                        dit_error *err) {
    uint32_t i, last = diti_clipped_training_steps(sampling, alphas);
    for (i = 0; i < sampling->steps; i++) {
        double timestep =
            diti_sampling_multistep(sampling) ? diti_timestep_dpm(sampling, last, i) : diti_timestep_euler(sampling, i);
        DITI_TRY(diti_check_timestep(sampling, timestep, err));
        out[i].timestep = timestep;
        out[i].from = diti_level_from_sigma(diti_training_sigma_between(alphas, sampling->train_steps, timestep));
    }
    return DIT_OK;
}

/* Euler shapes between its own first and last sigma, multistep solvers between the extremes of training, all between
 * those that the config says (docs/models.md 7.0). */
static void diti_intervals_reshape(const diti_sampling *sampling, const double *alphas, diti_interval *out) {
    uint32_t i, n = sampling->steps, count = sampling->train_steps;
    bool multistep = diti_sampling_multistep(sampling);
    bool rounds = sampling->shape == DITI_SIGMAS_KARRAS || sampling->shape == DITI_SIGMAS_LU;
    double highest = multistep ? diti_training_sigma(alphas, count - 1) : out[0].from.sigma;
    double lowest = multistep ? diti_training_sigma(alphas, 0) : out[n - 1].from.sigma;
    if (sampling->sigma_max > 0) highest = sampling->sigma_max;
    if (sampling->sigma_min > 0) lowest = sampling->sigma_min;
    for (i = 0; i < n; i++) {
        double sigma = diti_shaped_sigma(sampling->shape, highest, lowest, i, n),
               timestep = diti_sigma_timestep(alphas, count, sigma);
        if (multistep) timestep = rounds ? rint(timestep) : floor(timestep);
        if (sampling->whole_karras && rounds) timestep = rint(timestep);
        out[i].timestep = timestep;
        out[i].from = diti_level_from_sigma(sigma);
    }
}

/* Steps of two evaluations: the second one is where the step ends (Heun), or where its middle is on a logarithmic scale
   (DPM2, RES 2S), the ancestral step's being one to less noise. */
static void diti_intervals_double(const diti_sampling *sampling, const double *alphas, diti_interval *out) {
    uint32_t i;
    for (i = sampling->steps - 1; i > 0; i--) {
        diti_interval end = out[i], middle = end;
        double from = out[i - 1].from.sigma, to = end.from.sigma;
        if (!sampling->stochastic) to = sqrt(from * to);
        if (sampling->solver != DITI_SOLVER_HEUN) {
            middle.from = sampling->flow ? diti_level_from_flow(to) : diti_level_from_sigma(to);
            middle.timestep =
                sampling->flow ? to * sampling->train_steps : diti_sigma_timestep(alphas, sampling->train_steps, to);
        }
        out[2 * i] = end;
        out[2 * i - 1] = middle;
    }
}

static dit_result diti_intervals_betas(const diti_sampling *sampling, const double *alphas, diti_interval *out,
                                       dit_error *err) {
    if (sampling->solver == DITI_SOLVER_PNDM) return diti_intervals_pndm(sampling, alphas, out, err);
    if (sampling->solver == DITI_SOLVER_DDIM || sampling->strides)
        return diti_intervals_ddim(sampling, alphas, out, err);
    if (sampling->solver == DITI_SOLVER_DDPM || sampling->solver == DITI_SOLVER_LCM)
        return diti_intervals_listed(sampling, alphas, out, err);
    DITI_TRY(diti_intervals_spaced(sampling, alphas, out, err));
    if (sampling->shape != DITI_SIGMAS_OWN) diti_intervals_reshape(sampling, alphas, out);
    if (sampling->calls > sampling->steps) diti_intervals_double(sampling, alphas, out);
    diti_chain_intervals(out, sampling->calls,
                         diti_level_from_sigma(sampling->final_sigma_zero ? 0 : diti_training_sigma(alphas, 0)));
    return DIT_OK;
}

/* --- respaced (docs/models.md 7.2): in double, as the original DiT code keeps its tables --- */
/* The smallest whole stride that visits steps of total timesteps, from 0 on; 0: none does. */
static uint32_t diti_respaced_stride(uint32_t total, uint32_t steps) {
    uint32_t stride;
    for (stride = 1; stride < total; stride++) {
        if ((total + stride - 1) / stride == steps) return stride;
    }
    return 0;
}

/* Timesteps from the lowest to the highest: by a whole stride for DDIM, else spread from 0 to the last one, the sum of
   strides rounded. */
static dit_result diti_respaced_timesteps(const diti_sampling *sampling, diti_interval *out, dit_error *err) {
    uint32_t i, n = sampling->steps, total = sampling->train_steps;
    double stride = n > 1 ? (total - 1.0) / (n - 1.0) : 1, at = 0;
    if (sampling->solver == DITI_SOLVER_DDIM) {
        stride = diti_respaced_stride(total, n);
        if (stride == 0)
            return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                             "no whole stride makes %u of %u timesteps: use a number of steps that divides them", n,
                             total);
    }
    for (i = 0; i < n; i++, at += stride) out[n - 1 - i].timestep = rint(at);
    return DIT_OK;
}

static dit_result diti_intervals_respaced(const diti_sampling *sampling, diti_interval *out, dit_error *err) {
    const diti_json *trained = sampling->trained_betas ? sampling->trained_betas->first : NULL;
    uint32_t i, next = sampling->steps;
    double product = 1, before = 1, kept = 1;
    DITI_TRY(diti_respaced_timesteps(sampling, out, err));
    for (i = 0; i < sampling->train_steps && next; i++) {
        product *= 1 - (trained ? trained->number : diti_beta_double(sampling, i));
        if (trained) trained = trained->next;
        if (out[next - 1].timestep != i) continue;
        next--;
        if (sampling->float_betas) { /* a table of floats, from which torch accumulates in double */
            out[next].beta = (double)(float)(1 - product / before);
            kept *= (double)(1.0f - (float)out[next].beta);
        }
        out[next].from = diti_level_from_alpha(sampling->float_betas ? (double)(float)kept : product);
        before = product;
    }
    diti_chain_intervals(out, sampling->steps, diti_level_from_alpha(1));
    return DIT_OK;
}

/* --- flows (docs/models.md 7.4, 7.7) --- */
static double diti_shift(double sigma, double shift) { return shift * sigma / (1 + (shift - 1) * sigma); }

static double diti_flow_sigma(const diti_sampling *sampling, uint32_t i) {
    uint32_t n = sampling->steps;
    double training = 1.0 / sampling->train_steps,
           lowest = sampling->dynamic_shift ? training : diti_shift(training, sampling->shift);
    if (sampling->sigmas) return diti_shift((double)sampling->sigmas[i], sampling->shift);
    if (sampling->sigma)
        return diti_shift((double)(float)sampling->sigma(i, n, sampling->image_tokens), sampling->shift);
    if (sampling->quadratic) return diti_shift(diti_quadratic_sigma(i, n), sampling->shift);
    if (diti_sampling_multistep(sampling)) /* nearly uniform; they want some signal from the beginning */
        return diti_shift(1 - diti_linspace(1, training, n - i, n + 1), sampling->shift);
    if (sampling->uniform) return diti_shift((n - i) / (double)n, sampling->shift);
    return diti_shift(diti_linspace(1, lowest, i, n),
                      sampling->shift); /* the low end is shifted twice, as in diffusers */
}

/* Open-Sora 1.2: timesteps in float, as the original computes them, because a mask is compared with them. */
static void diti_intervals_transformed(const diti_sampling *sampling, diti_interval *out) {
    uint32_t i, n = sampling->steps;
    float total = (float)sampling->train_steps, ratio = (float)sampling->shift;
    for (i = 0; i < n; i++) {
        float time = (float)((1 - (double)i / n) * sampling->train_steps);
        if (ratio != 1) {
            time /= total;
            time = ratio * time / (1 + (ratio - 1) * time) * total;
        }
        out[i].timestep = (double)time;
        out[i].from = diti_level_from_flow((double)time / sampling->train_steps);
    }
    diti_chain_intervals(out, n, diti_level_from_flow(0));
}

static void diti_intervals_flow(const diti_sampling *sampling, diti_interval *out) {
    uint32_t i, n = sampling->steps;
    double first, last, stretch;
    if (sampling->transforms && sampling->shape == DITI_SIGMAS_OWN && !sampling->sigmas) {
        diti_intervals_transformed(sampling, out);
        return;
    }
    for (i = 0; i < n; i++) out[i].from.sigma = diti_flow_sigma(sampling, i);
    stretch = sampling->shift_terminal > 0 ? (1 - out[n - 1].from.sigma) / (1 - sampling->shift_terminal) : 1;
    if (!(stretch > 0)) stretch = 1; /* a single step, from noise alone, has nothing to stretch */
    for (i = 0; i < n; i++) out[i].from.sigma = 1 - (1 - out[i].from.sigma) / stretch;
    first = out[0].from.sigma;
    last = out[n - 1].from.sigma;
    for (i = 0; i < n; i++) {
        double sigma = sampling->shape == DITI_SIGMAS_OWN ? out[i].from.sigma
                                                          : diti_shaped_sigma(sampling->shape, first, last, i, n);
        if (sampling->solver == DITI_SOLVER_ER_SDE && sigma >= 1) /* the solver divides by the signal, as in ComfyUI */
            sigma = diti_shift(1 - 1e-4, sampling->shift);
        out[i].from = diti_level_from_flow(sigma);
        out[i].timestep = sigma * sampling->train_steps;
        if (diti_sampling_multistep(sampling)) out[i].timestep = floor(out[i].timestep);
    }
    if (sampling->calls > n) diti_intervals_double(sampling, NULL, out);
    diti_chain_intervals(out, sampling->calls, diti_level_from_flow(0));
}

/* Karras' sigmas between the extremes of training steps with betas, as diffusers' UniPC takes them in flows, too: each
   becomes the time at which a flow has as much noise for its signal. */
static void diti_intervals_karras_flow(const diti_sampling *sampling, const double *alphas, diti_interval *out) {
    uint32_t i, n = sampling->steps;
    diti_intervals_reshape(sampling, alphas, out);
    for (i = 0; i < n; i++) {
        out[i].from = diti_level_from_flow(out[i].from.sigma / (out[i].from.sigma + 1));
        out[i].timestep = floor(out[i].from.sigma * sampling->train_steps);
    }
    diti_chain_intervals(out, n, diti_level_from_flow(0));
}

/* --- Sana-Sprint (docs/models.md 7.15): angles on a circle, equally far from each other --- */
static diti_noise_level diti_level_from_angle(double angle) {
    diti_noise_level level;
    level.alpha = cos(angle);
    level.noise = sin(angle);
    level.sigma = level.noise / (level.alpha + level.noise); /* the time of a flow with as much noise */
    return level;
}

static void diti_intervals_angles(const diti_sampling *sampling, diti_interval *out) {
    uint32_t i, n = sampling->steps;
    for (i = 0; i < n; i++) {
        double angle = diti_linspace(sampling->first_angle, 0, i, n + 1);
        if (n == 2 && i == 1 && sampling->second_angle > 0) angle = sampling->second_angle;
        out[i].from = diti_level_from_angle(angle);
        out[i].timestep = out[i].from.sigma;
    }
    diti_chain_intervals(out, n, diti_level_from_angle(0));
}

DIT_INTERNAL dit_result diti_sampling_intervals(const diti_env *env, const diti_sampling *sampling, diti_interval *out,
                                                dit_error *err) {
    double *alphas;
    dit_result result = DIT_OK;
    if (sampling->flow && !sampling->karras_of_betas) {
        diti_intervals_flow(sampling, out);
        return DIT_OK;
    }
    if (sampling->solver == DITI_SOLVER_SCM) {
        diti_intervals_angles(sampling, out);
        return DIT_OK;
    }
    if (sampling->spacing == DITI_SPACING_RESPACED && !sampling->flow)
        return diti_intervals_respaced(sampling, out, err);
    alphas = (double *)diti_alloc_array(env, sampling->train_steps, sizeof *alphas);
    if (!alphas) return diti_fail_memory(err, "a schedule of %u training steps", sampling->train_steps);
    diti_cumulative_alphas(sampling, alphas);
    if (sampling->flow)
        diti_intervals_karras_flow(sampling, alphas, out);
    else
        result = diti_intervals_betas(sampling, alphas, out, err);
    diti_free(env, alphas);
    return result;
}
