/* Pictures of another size, as the libraries make them that models were trained with: each new line and column is a
   weighted sum of the old ones under a window as wide as its pixels, rounded to bytes between the two directions. */
#include "job/job.h"

/* Lanczos' window of three lobes, or Keys' cubic one with a = -1/2; both are 0 beyond their supports. */
static double diti_resize_window(diti_window window, double x) {
    const double pi = 3.14159265358979323846;
    if (x < 0) x = -x;
    if (window == DITI_WINDOW_LANCZOS) {
        if (x < 1e-12) return 1;
        return x < 3 ? 3 * sin(pi * x) * sin(pi * x / 3) / (pi * pi * x * x) : 0;
    }
    if (x < 1) return (1.5 * x - 2.5) * x * x + 1;
    return x < 2 ? ((-0.5 * x + 2.5) * x - 4) * x + 2 : 0;
}

/* The weights of a direction: of `most` each for every new pixel, of old pixels from first[i] on. */
typedef struct diti_resize_axis {
    uint32_t *first, *count;
    double *values;
    int32_t *weights; /* values in steps of 2^-precision */
    uint32_t most, precision;
} diti_resize_axis;

static void diti_resize_axis_free(const diti_env *env, diti_resize_axis *axis) {
    diti_free(env, axis->first);
    diti_free(env, axis->values);
    diti_free(env, axis->weights);
}

/* Lanczos as Pillow has it, with weights of 22 bits behind the point; the cubic one as torch has it, with as many as
   leave the largest weight below 2^15. */
static void diti_resize_round(diti_resize_axis *axis, uint32_t to, diti_window window) {
    double largest = 0;
    size_t i, count = (size_t)to * axis->most;
    for (i = 0; i < count; i++)
        if (axis->values[i] > largest) largest = axis->values[i];
    axis->precision = 22;
    if (window == DITI_WINDOW_CUBIC)
        for (axis->precision = 0; axis->precision < 22; axis->precision++)
            if ((int64_t)(0.5 + largest * (double)((uint64_t)1 << (axis->precision + 1))) >= 1 << 15) break;
    for (i = 0; i < count; i++) {
        double value = axis->values[i] * (double)(1u << axis->precision);
        axis->weights[i] = (int32_t)(value < 0 ? value - 0.5 : value + 0.5);
    }
}

static dit_result diti_resize_axis_make(const diti_env *env, uint32_t from, uint32_t to, diti_window window,
                                        diti_resize_axis *axis, dit_error *err) {
    double scale = (double)from / to, wide = scale > 1 ? scale : 1,
           support = (window == DITI_WINDOW_LANCZOS ? 3 : 2) * wide;
    uint32_t i, k;
    memset(axis, 0, sizeof *axis);
    axis->most = 2 * (uint32_t)ceil(support) + 1;
    axis->first = (uint32_t *)diti_alloc_array(env, to, 2 * sizeof *axis->first);
    axis->values = (double *)diti_alloc_zero(env, (size_t)to * axis->most * sizeof *axis->values);
    axis->weights = (int32_t *)diti_alloc_array(env, (size_t)to * axis->most, sizeof *axis->weights);
    if (!axis->first || !axis->values || !axis->weights) return diti_fail_memory(err, "a picture of another size");
    axis->count = axis->first + to;
    for (i = 0; i < to; i++) {
        double center = (i + 0.5) * scale, sum = 0, *values = axis->values + (size_t)i * axis->most;
        double begin = center - support + 0.5, end = center + support + 0.5;
        axis->first[i] = begin > 0 ? (uint32_t)begin : 0;
        axis->count[i] = (end < from ? (uint32_t)end : from) - axis->first[i];
        for (k = 0; k < axis->count[i]; k++) {
            values[k] = diti_resize_window(window, (k + axis->first[i] - center + 0.5) / wide);
            sum += values[k];
        }
        for (k = 0; k < axis->count[i] && sum != 0; k++) values[k] /= sum;
    }
    diti_resize_round(axis, to, window);
    return DIT_OK;
}

/* A byte of `step` bytes between neighbours along the axis. */
static uint8_t diti_resize_sum(const diti_resize_axis *axis, uint32_t i, const uint8_t *from, size_t step) {
    const int32_t *weights = axis->weights + (size_t)i * axis->most;
    int64_t sum = axis->precision ? (int64_t)1 << (axis->precision - 1) : 0;
    uint32_t k;
    for (k = 0; k < axis->count[i]; k++) sum += (int64_t)weights[k] * from[(axis->first[i] + k) * step];
    sum = sum < 0 ? 0 : sum >> axis->precision;
    return sum > 255 ? 255 : (uint8_t)sum;
}

/* Bytes of lines that are `step` apart; both pictures have lines of four bytes a pixel. */
static void diti_resize_lines(const diti_resize_axis *y, uint32_t height, const uint8_t *from, size_t pitch,
                              size_t line, uint8_t *out) {
    size_t i, k;
    for (i = 0; i < height; i++)
        for (k = 0; k < line; k++) out[i * line + k] = diti_resize_sum(y, (uint32_t)i, from + k, pitch);
}

static void diti_resize_columns(const diti_resize_axis *x, uint32_t height, const uint8_t *from, size_t pitch,
                                size_t line, uint8_t *out) {
    size_t i, k;
    for (i = 0; i < height; i++)
        for (k = 0; k < line; k++)
            out[i * line + k] = diti_resize_sum(x, (uint32_t)(k / 4), from + i * pitch + k % 4, 4);
}

/* torch makes columns first; so does Pillow, whose window Lanczos' is, unless the picture loses more than twice as many
   lines as columns (its version 13; earlier ones never begin with lines). */
DIT_INTERNAL dit_result diti_resize(const diti_env *env, const diti_picture *from, uint32_t width, uint32_t height,
                                    diti_window window, uint8_t **out, dit_error *err) {
    int64_t lines_lost = (int64_t)from->height - height, columns_lost = (int64_t)from->width - width;
    bool lines_first = window == DITI_WINDOW_LANCZOS && lines_lost > 0 && lines_lost > 2 * columns_lost;
    size_t line = (size_t)width * 4, own = (size_t)from->width * 4, pitch = from->pitch ? from->pitch : own;
    uint8_t *between = (uint8_t *)diti_alloc_array(env, lines_first ? height : from->height, lines_first ? own : line);
    uint8_t *made = (uint8_t *)diti_alloc_array(env, height, line);
    diti_resize_axis x, y;
    dit_result result;
    memset(&y, 0, sizeof y);
    result = diti_resize_axis_make(env, from->width, width, window, &x, err);
    if (result >= 0) result = diti_resize_axis_make(env, from->height, height, window, &y, err);
    if (result >= 0 && (!between || !made)) result = diti_fail_memory(err, "a picture of another size");
    if (result >= 0 && lines_first) {
        diti_resize_lines(&y, height, from->rgba, pitch, own, between);
        diti_resize_columns(&x, height, between, own, line, made);
    } else if (result >= 0) {
        diti_resize_columns(&x, from->height, from->rgba, pitch, line, between);
        diti_resize_lines(&y, height, between, line, line, made);
    }
    diti_resize_axis_free(env, &x);
    diti_resize_axis_free(env, &y);
    diti_free(env, between);
    if (result < 0) diti_free(env, made);
    *out = result < 0 ? NULL : made;
    return result;
}
