/* How calibrated weights are rounded, on plain arrays in double precision. A layer computes y = W x with W [rows,
 * columns]; H [columns, columns] is the mean of x x^T over calibration. Asymmetric 4 bit in groups of 128 columns:
 * value = scale * code + least with codes 0..15, scale and least rounded to F16, as the file holds them. */
#ifndef CONVERT_METHODS_H
#define CONVERT_METHODS_H
#include "convert.h"

enum { GROUP = 128, LEVELS = 15 };

typedef struct grouped { /* W in 4 bits: codes [rows, columns], scale and least [rows, columns / 128] */
    uint32_t rows, columns;
    uint8_t *codes;
    uint16_t *scale, *least; /* F16 */
} grouped;

static double half_value(uint16_t half) { return (double)diti_half_to_float(half); }

/* --- one group --- */

/* The range of 128 values, shrunk to a part of it, becomes codes 0 to 15. */
static void group_range(const double *w, double shrink, uint16_t *scale, uint16_t *least) {
    double low = w[0], high = w[0];
    for (int i = 1; i < GROUP; i++) {
        if (w[i] < low) low = w[i];
        if (w[i] > high) high = w[i];
    }
    *least = diti_float_to_half((float)(low * shrink));
    *scale = diti_float_to_half((float)((high * shrink - half_value(*least)) / LEVELS));
}

static uint8_t group_code(double w, uint16_t scale, uint16_t least) {
    double step = half_value(scale), code = step > 0 ? rint((w - half_value(least)) / step) : 0;
    return (uint8_t)(code < 0 ? 0 : code > LEVELS ? LEVELS : code);
}

static double group_value(uint8_t code, uint16_t scale, uint16_t least) {
    return half_value(scale) * code + half_value(least);
}

static double grouped_value(const grouped *g, uint32_t row, uint32_t column) {
    size_t group = (size_t)row * (g->columns / GROUP) + column / GROUP;
    return group_value(g->codes[(size_t)row * g->columns + column], g->scale[group], g->least[group]);
}

/* --- plain rounding --- */

static void round_groups(const double *w, grouped *out) {
    for (uint32_t row = 0; row < out->rows; row++) {
        for (uint32_t first = 0; first < out->columns; first += GROUP) {
            size_t at = (size_t)row * out->columns + first, group = at / GROUP;
            group_range(w + at, 1, &out->scale[group], &out->least[group]);
            for (int i = 0; i < GROUP; i++)
                out->codes[at + i] = group_code(w[at + i], out->scale[group], out->least[group]);
        }
    }
}

/* --- GPTQ (arXiv:2210.17323): the error of a column is made good by those that come after it --- */

/* R, upper triangular, in place of a symmetric positive definite matrix A = R R^T; its last column first. */
static bool upper_factor(double *a, uint32_t n, double *column) {
    for (uint32_t j = n; j-- > 0;) {
        if (!(a[(size_t)j * n + j] > 0)) return false;
        column[j] = sqrt(a[(size_t)j * n + j]);
        for (uint32_t i = 0; i < j; i++) column[i] = a[(size_t)i * n + j] / column[j];
        for (uint32_t i = 0; i <= j; i++) a[(size_t)i * n + j] = column[i];
        for (uint32_t i = 0; i < j; i++) {
            double *row = a + (size_t)i * n;
            for (uint32_t k = i; k < j; k++) row[k] -= column[i] * column[k];
        }
    }
    return true;
}

/* The inverse of an upper triangular matrix, in place; its last row first. */
static void invert_upper(double *r, uint32_t n, double *sum) {
    for (uint32_t i = n; i-- > 0;) {
        double *row = r + (size_t)i * n, inverse = 1 / row[i];
        memset(sum, 0, n * sizeof *sum);
        for (uint32_t m = i + 1; m < n; m++) {
            const double *below = r + (size_t)m * n;
            for (uint32_t k = m; k < n; k++) sum[k] += row[m] * below[k];
        }
        for (uint32_t k = 0; k < n; k++) row[k] = k < i ? 0 : k == i ? inverse : -sum[k] * inverse;
    }
}

/* U, upper triangular, with U^T U = (2 H + lambda I)^-1 and lambda = 1 % of the mean diagonal: the inverse of R where
 * 2 H + lambda I = R R^T. work: [n]. false: H is not positive definite. */
static bool gptq_factor(const double *h, uint32_t n, double *u, double *work) {
    double lambda = 0;
    for (uint32_t i = 0; i < n; i++) lambda += 2 * h[(size_t)i * n + i] / n * 0.01;
    if (!(lambda > 0)) return false;
    for (size_t i = 0; i < (size_t)n * n; i++) u[i] = 2 * h[i];
    for (uint32_t i = 0; i < n; i++) u[(size_t)i * n + i] += lambda;
    if (!upper_factor(u, n, work)) return false;
    invert_upper(u, n, work);
    return true;
}

/* Rounds columns [first, first + 128) of a row, each with what those before it in the group leave; errors: theirs, over
 * U's diagonal. */
static void gptq_group(double *w, const double *u, uint32_t first, uint32_t row, grouped *out, double *errors) {
    const uint32_t n = out->columns;
    size_t at = (size_t)row * n + first, group = at / GROUP;
    group_range(w, 1, &out->scale[group], &out->least[group]);
    for (uint32_t i = 0; i < GROUP; i++) {
        const double *factors = u + (size_t)(first + i) * n + first;
        out->codes[at + i] = group_code(w[i], out->scale[group], out->least[group]);
        errors[i] = (w[i] - group_value(out->codes[at + i], out->scale[group], out->least[group])) / factors[i];
        for (uint32_t k = i + 1; k < GROUP; k++) w[k] -= errors[i] * factors[k];
    }
}

/* w [rows, columns] is used up. Blocks of 128 columns: within one, every column sees the errors before it; columns
 * behind get them of the whole block at once. */
static void gptq_round(double *w, const double *u, grouped *out) {
    const uint32_t n = out->columns;
    for (uint32_t first = 0; first < n; first += GROUP) {
        for (uint32_t row = 0; row < out->rows; row++) {
            double errors[GROUP], *values = w + (size_t)row * n;
            gptq_group(values + first, u, first, row, out, errors);
            for (uint32_t i = 0; i < GROUP; i++) {
                const double *factors = u + (size_t)(first + i) * n;
                for (uint32_t k = first + GROUP; k < n; k++) values[k] -= errors[i] * factors[k];
            }
        }
    }
}

/* --- output error --- */

/* d H d^T of one row's error d: what its output is off by, squared, in the mean. Four sums at a time, because each
 * would wait for the one before. */
static double row_error(const double *d, const double *h, uint32_t n, uint32_t stride) {
    double error = 0;
    for (uint32_t i = 0; i < n; i++) {
        const double *line = h + (size_t)i * stride;
        double dot[4] = {0, 0, 0, 0};
        for (uint32_t k = 0; k < n; k += 4) /* n is a multiple of 128 */
            for (uint32_t m = 0; m < 4; m++) dot[m] += line[k + m] * d[k + m];
        error += d[i] * (dot[0] + dot[1] + dot[2] + dot[3]);
    }
    return error;
}

/* The sum over every step-th row of W - Q, where Q stands for W diag(smooth). d: [columns]. */
static double output_error(const double *w, const grouped *q, const double *smooth, const double *h, uint32_t step,
                           double *d) {
    const uint32_t n = q->columns;
    double sum = 0;
    for (uint32_t row = 0; row < q->rows; row += step) {
        for (uint32_t k = 0; k < n; k++)
            d[k] = w[(size_t)row * n + k] - grouped_value(q, row, k) / (smooth ? smooth[k] : 1);
        sum += row_error(d, h, n, n);
    }
    return sum;
}

/* --- AWQ (arXiv:2306.00978): columns that much comes through are enlarged before they are rounded --- */

/* s = mean|x|^alpha, so that sqrt(largest * least) = 1; a column that nothing came through keeps 1e-4 of the mean. */
static void awq_factors(const double *mean, uint32_t n, double alpha, double *s) {
    double low = INFINITY, high = 0, unit;
    for (uint32_t k = 0; k < n; k++) {
        s[k] = pow(mean[k], alpha);
        if (s[k] < 1e-4) s[k] = 1e-4;
        if (s[k] < low) low = s[k];
        if (s[k] > high) high = s[k];
    }
    unit = sqrt(low * high);
    for (uint32_t k = 0; k < n; k++) s[k] /= unit;
}

enum { AWQ_ROWS = 64 }; /* that decide about alpha, spread over all */

/* Finds the alpha of 0, 1/20, .. 19/20 whose plain rounding of W diag(s) has the least output error. scaled: [rows + 1,
 * columns] to work in. */
static double awq_search(const double *w, const double *mean, const double *h, double *scaled, double *s,
                         grouped *trial) {
    const uint32_t n = trial->columns, every = trial->rows > AWQ_ROWS ? trial->rows / AWQ_ROWS : 1;
    double best = INFINITY, alpha = 0;
    for (int step = 0; step < 20; step++) {
        double error;
        awq_factors(mean, n, step / 20.0, s);
        for (size_t i = 0; i < (size_t)trial->rows * n; i++) scaled[i] = w[i] * s[i % n];
        round_groups(scaled, trial);
        error = output_error(w, trial, s, h, every, scaled + (size_t)trial->rows * n);
        if (error < best) best = error, alpha = step / 20.0;
    }
    awq_factors(mean, n, alpha, s);
    return alpha;
}

/* Finds the part that a group's range is best shrunk to: 1, 19/20 .. 11/20, by the error of the group's own part of the
 * output. h: the group's block of H as seen by scaled weights. */
static void clip_group(const double *w, const double *h, uint32_t stride, uint16_t *scale, uint16_t *least) {
    double best = INFINITY;
    uint16_t tried, below;
    for (int step = 0; step < 10; step++) {
        double d[GROUP], error;
        group_range(w, 1 - step / 20.0, &tried, &below);
        for (int i = 0; i < GROUP; i++) d[i] = w[i] - group_value(group_code(w[i], tried, below), tried, below);
        error = row_error(d, h, GROUP, stride);
        if (error < best) best = error, *scale = tried, *least = below;
    }
}

/* scaled: W diag(s); h: diag(1/s) H diag(1/s). */
static void awq_round(const double *scaled, const double *h, grouped *out) {
    const uint32_t n = out->columns;
    for (uint32_t row = 0; row < out->rows; row++) {
        for (uint32_t first = 0; first < n; first += GROUP) {
            size_t at = (size_t)row * n + first, group = at / GROUP;
            clip_group(scaled + at, h + (size_t)first * n + first, n, &out->scale[group], &out->least[group]);
            for (int i = 0; i < GROUP; i++)
                out->codes[at + i] = group_code(scaled[at + i], out->scale[group], out->least[group]);
        }
    }
}

/* --- SmoothQuant (arXiv:2211.10438) --- */

/* s = max|x|^alpha / max|w|^(1 - alpha) of each column; x / s times W diag(s) is x times W. */
static void smooth_factors(const double *x_most, const double *w_most, uint32_t n, double alpha, double *s) {
    for (uint32_t k = 0; k < n; k++) {
        s[k] = pow(x_most[k], alpha) / pow(w_most[k] > 1e-5 ? w_most[k] : 1e-5, 1 - alpha);
        if (!(s[k] > 1e-5)) s[k] = 1e-5;
    }
}

/* --- the low-rank part (SVDQuant, arXiv:2411.05007), by a randomised decomposition (arXiv:0909.4061) --- */

/* Makes the columns of q [n, count], stored one after the other, orthonormal: modified Gram-Schmidt, twice. */
static void orthonormalize(double *q, uint32_t n, uint32_t count) {
    for (uint32_t j = 0; j < count; j++) {
        double *column = q + (size_t)j * n, norm = 0;
        for (uint32_t pass = 0; pass < 2; pass++) {
            for (uint32_t i = 0; i < j; i++) {
                const double *before = q + (size_t)i * n;
                double dot = 0;
                for (uint32_t k = 0; k < n; k++) dot += before[k] * column[k];
                for (uint32_t k = 0; k < n; k++) column[k] -= dot * before[k];
            }
        }
        for (uint32_t k = 0; k < n; k++) norm += column[k] * column[k];
        norm = norm > 0 ? 1 / sqrt(norm) : 0;
        for (uint32_t k = 0; k < n; k++) column[k] *= norm;
    }
}

/* out [count, rows] = the columns v [count, columns] through w; or, turned, [count, columns] through its transpose. */
static void apply_matrix(const double *w, uint32_t rows, uint32_t columns, bool turned, const double *v, uint32_t count,
                         double *out) {
    memset(out, 0, (size_t)count * (turned ? columns : rows) * sizeof *out);
    for (uint32_t j = 0; j < count; j++) {
        for (uint32_t row = 0; row < rows; row++) {
            const double *line = w + (size_t)row * columns;
            double *o = out + (size_t)j * (turned ? columns : rows), dot = 0;
            if (turned) {
                for (uint32_t k = 0; k < columns; k++) o[k] += v[(size_t)j * rows + row] * line[k];
            } else {
                for (uint32_t k = 0; k < columns; k++) dot += v[(size_t)j * columns + k] * line[k];
                o[row] = dot;
            }
        }
    }
}

/* A subspace that W maps most into: up [rank, rows] orthonormal and down = up W [rank, columns], so that up^T down is
 * about the best approximation of that rank. Gaussians of a fixed seed, three rounds of iteration. */
static void low_rank(const double *w, uint32_t rows, uint32_t columns, uint32_t rank, double *up, double *down) {
    uint64_t state = 0x9e3779b97f4a7c15u;
    for (size_t i = 0; i < (size_t)rank * columns; i++) {
        double sum = -6; /* twelve uniform numbers are nearly normal */
        for (int k = 0; k < 12; k++) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            sum += ldexp((double)(state >> 11), -53);
        }
        down[i] = sum;
    }
    for (int round = 0; round < 4; round++) {
        apply_matrix(w, rows, columns, false, down, rank, up);
        orthonormalize(up, rows, rank);
        apply_matrix(w, rows, columns, true, up, rank, down);
        if (round < 3) orthonormalize(down, columns, rank);
    }
}

#endif
