/* The mean and the deviation of a block of latents. No op tells them; norms hide them. The block becomes one long row
   with known values behind it: where these come to lie tells how far they, and so all others, were moved and stretched.
 */
#include "job/job.h"

#define DITI_MOMENTS_SMALL 1e-6f

DIT_INTERNAL diti_tensor diti_scaled_sum(diti_graph *graph, const char *name, diti_tensor x, float scale, float offset,
                                         diti_tensor add, diti_tensor out) {
    diti_elementwise_desc desc = DITI_ZERO;
    desc.scale = scale;
    desc.offset = offset;
    desc.add = add;
    desc.out = out;
    desc.out_f32 = true;
    desc.name = name;
    return diti_elementwise(graph, x, &desc);
}

/* scale * x + offset + add. */
static diti_tensor diti_moments_sum(diti_graph *graph, diti_tensor x, float scale, float offset, diti_tensor add) {
    return diti_scaled_sum(graph, "mean and deviation", x, scale, offset, add, 0);
}

/* All values of x, as one row: LayerNorm or RMSNorm of it, in the shape of x. */
static diti_tensor diti_moments_norm(diti_graph *graph, diti_tensor x, bool rms) {
    uint32_t rows = diti_tensor_rows(graph, x);
    diti_norm_desc desc = DITI_ZERO;
    desc.rms = rms;
    desc.eps = 1e-30f;
    desc.out_f32 = true;
    desc.name = "mean and deviation";
    x = diti_norm(graph, diti_tensor_reshape(graph, x, 1, rows * DITI_ROW_WIDTH), &desc);
    return diti_tensor_reshape(graph, x, rows, DITI_ROW_WIDTH);
}

static void diti_moments_fill(diti_graph *graph, diti_tensor x, uint32_t row, float value) {
    diti_elementwise_desc desc = DITI_ZERO;
    desc.offset = value;
    desc.out = diti_tensor_view(graph, x, row, 1, 0, DITI_ROW_WIDTH);
    desc.name = "mean and deviation";
    diti_fill_zeros(graph, desc.out);
    diti_elementwise(graph, desc.out, &desc);
}

static diti_tensor diti_moments_row(diti_graph *graph, diti_tensor x, uint32_t row) {
    return diti_tensor_view(graph, x, row, 1, 0, DITI_ROW_WIDTH);
}

/* value / sqrt(value^2 + x^2): 1 over the root of 1 + x^2 for a value of 1; for a small one, value / |x|. */
static diti_tensor diti_moments_under(diti_graph *graph, float value, diti_tensor x) {
    diti_tensor both = diti_tensor_new(graph, DITI_F32, 2, DITI_ROW_WIDTH, "mean and deviation");
    diti_moments_fill(graph, both, 0, value);
    diti_copy(graph, x, diti_moments_row(graph, both, 1), "mean and deviation");
    return diti_moments_sum(graph, diti_moments_row(graph, diti_moments_norm(graph, both, true), 0), 0.70710678f, 0, 0);
}

/* One over the root of the mean square of x, whose last rows are 0 and DITI_MOMENTS_SMALL. */
static diti_tensor diti_moments_inverse_root(diti_graph *graph, diti_tensor x) {
    uint32_t rows = diti_tensor_rows(graph, x);
    diti_moments_fill(graph, x, rows - 2, 0);
    diti_moments_fill(graph, x, rows - 1, DITI_MOMENTS_SMALL);
    x = diti_moments_row(graph, diti_moments_norm(graph, x, true), rows - 1);
    return diti_moments_sum(graph, x, 1 / DITI_MOMENTS_SMALL, 0, 0);
}

static diti_tensor diti_moments_invert(diti_graph *graph, diti_tensor x) {
    return diti_moments_sum(graph, diti_moments_under(graph, DITI_MOMENTS_SMALL, x), 1 / DITI_MOMENTS_SMALL, 0, 0);
}

/* Frames [first, first + frames) of planes. With n values of the sum S and of squares Q, among n + 16 of which the rest
   are nothing, LayerNorm takes a 0 to z = -m / sqrt(q - m^2), where m = S / (n + 16) and q = Q / (n + 16): so m = -z *
   sqrt(q) / sqrt(1 + z^2). */
DIT_INTERNAL diti_moments diti_moments_measure(diti_graph *graph, diti_tensor planes, uint32_t area, uint32_t first,
                                               uint32_t frames) {
    uint32_t channels = diti_tensor_rows(graph, planes), columns = frames * area;
    diti_tensor x, zero, root;
    double n = (double)channels * columns, all = n + 2 * DITI_ROW_WIDTH;
    diti_moments out = DITI_ZERO;
    out.rows = channels * columns / DITI_ROW_WIDTH;
    x = diti_tensor_new(graph, DITI_F32, out.rows + 2, DITI_ROW_WIDTH, "block of latents");
    diti_copy(graph, diti_tensor_view(graph, planes, 0, channels, first * area, columns),
              diti_tensor_reshape(graph, diti_tensor_view(graph, x, 0, out.rows, 0, DITI_ROW_WIDTH), channels, columns),
              "block of latents");
    root = diti_moments_invert(graph, diti_moments_inverse_root(graph, x));
    zero = diti_moments_row(graph, diti_moments_norm(graph, x, false), out.rows);
    root = diti_multiply(graph, root, diti_moments_under(graph, 1, zero), 0, "mean and deviation");
    out.mean =
        diti_moments_sum(graph, diti_multiply(graph, root, zero, 0, "mean and deviation"), (float)(-all / n), 0, 0);
    out.centred = diti_moments_sum(graph, x, 0, 0, diti_moments_sum(graph, out.mean, -1, 0, 0));
    root = diti_moments_inverse_root(graph, out.centred);
    out.inverse = diti_moments_sum(graph, root, (float)sqrt((n - 1) / all), 0, 0);
    out.deviation = diti_moments_invert(graph, out.inverse);
    return out;
}
