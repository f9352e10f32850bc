/* The first latent frames of a clip that a picture begins get about the mean and the deviation of the next ones
   (docs/models.md 3.23): what the autoencoder makes of a picture is not quite what the model makes of a clip, and a
   mesh would be seen. Original:
   https://github.com/huggingface/diffusers/blob/v0.42.1/src/diffusers/pipelines/kandinsky5/pipeline_kandinsky_i2v.py

   No op tells a mean or a deviation; norms hide them. A block of latents becomes one long row with known values behind
   it: where these come to lie tells how far they, and so all others, were moved and stretched. Numbers that are
   computed so are rows of DITI_EVEN_WIDTH equal columns. */
#include "job/job.h"

#define DITI_EVEN_WIDTH 8u
#define DITI_EVEN_FRAMES 4u /* latent frames that are changed */
#define DITI_EVEN_NEXT 5u   /* most latent frames that they are compared with */
#define DITI_EVEN_SMALL 1e-6f

/* scale * x + offset + add; positive: of scale * x + offset what is above 0. */
static diti_tensor diti_even_map(diti_graph *graph, diti_tensor x, float scale, float offset, bool positive,
                                 diti_tensor add) {
    diti_elementwise_desc desc = DITI_ZERO;
    desc.scale = scale;
    desc.offset = offset;
    desc.activation = positive ? DITI_ACTIVATION_RELU : DITI_ACTIVATION_NONE;
    desc.add = add;
    desc.out_f32 = true;
    desc.name = "even first frames";
    return diti_elementwise(graph, x, &desc);
}

/* All values of x, as one row: LayerNorm or RMSNorm of it, in the shape of x. */
static diti_tensor diti_even_norm(diti_graph *graph, diti_tensor x, bool rms) {
    uint32_t rows = diti_tensor_rows(graph, x);
    diti_norm_desc desc = DITI_ZERO;
    desc.rms = rms;
    desc.eps = 1e-30f;
    desc.out_f32 = true;
    desc.name = "even first frames";
    x = diti_norm(graph, diti_tensor_reshape(graph, x, 1, rows * DITI_EVEN_WIDTH), &desc);
    return diti_tensor_reshape(graph, x, rows, DITI_EVEN_WIDTH);
}

static void diti_even_fill(diti_graph *graph, diti_tensor x, uint32_t row, float value) {
    diti_elementwise_desc desc = DITI_ZERO;
    desc.offset = value;
    desc.out = diti_tensor_view(graph, x, row, 1, 0, DITI_EVEN_WIDTH);
    desc.name = "even first frames";
    diti_fill_zeros(graph, desc.out);
    diti_elementwise(graph, desc.out, &desc);
}

static diti_tensor diti_even_row(diti_graph *graph, diti_tensor x, uint32_t row) {
    return diti_tensor_view(graph, x, row, 1, 0, DITI_EVEN_WIDTH);
}

/* value / sqrt(value^2 + x^2): 1 over the root of 1 + x^2 for a value of 1; for a small one, value / |x|. */
static diti_tensor diti_even_under(diti_graph *graph, float value, diti_tensor x) {
    diti_tensor both = diti_tensor_new(graph, DITI_F32, 2, DITI_EVEN_WIDTH, "even first frames");
    diti_even_fill(graph, both, 0, value);
    diti_copy(graph, x, diti_even_row(graph, both, 1), "even first frames");
    return diti_even_map(graph, diti_even_row(graph, diti_even_norm(graph, both, true), 0), 0.70710678f, 0, false, 0);
}

typedef struct diti_even { /* a block of latents */
    diti_tensor centred;   /* F32 [rows + 2, DITI_EVEN_WIDTH]: without its mean; two rows of something else behind it */
    diti_tensor mean, deviation, inverse; /* inverse: of deviation */
    uint32_t rows;
} diti_even;

/* One over the root of the mean square of x, whose last rows are 0 and DITI_EVEN_SMALL. */
static diti_tensor diti_even_inverse_root(diti_graph *graph, diti_tensor x) {
    uint32_t rows = diti_tensor_rows(graph, x);
    diti_even_fill(graph, x, rows - 2, 0);
    diti_even_fill(graph, x, rows - 1, DITI_EVEN_SMALL);
    x = diti_even_row(graph, diti_even_norm(graph, x, true), rows - 1);
    return diti_even_map(graph, x, 1 / DITI_EVEN_SMALL, 0, false, 0);
}

static diti_tensor diti_even_invert(diti_graph *graph, diti_tensor x) {
    return diti_even_map(graph, diti_even_under(graph, DITI_EVEN_SMALL, x), 1 / DITI_EVEN_SMALL, 0, false, 0);
}

/* Frames [first, first + frames) of planes. With n values of the sum S and of squares Q, among n + 16 of which the rest
   are nothing, LayerNorm takes a 0 to z = -m / sqrt(q - m^2), where m = S / (n + 16) and q = Q / (n + 16): so m = -z *
   sqrt(q) / sqrt(1 + z^2). */
static diti_even diti_even_measure(diti_graph *graph, diti_tensor planes, uint32_t area, uint32_t first,
                                   uint32_t frames) {
    uint32_t channels = diti_tensor_rows(graph, planes), columns = frames * area;
    diti_tensor x, zero, root;
    double n = (double)channels * columns, all = n + 2 * DITI_EVEN_WIDTH;
    diti_even out = DITI_ZERO;
    out.rows = channels * columns / DITI_EVEN_WIDTH;
    x = diti_tensor_new(graph, DITI_F32, out.rows + 2, DITI_EVEN_WIDTH, "first frames");
    diti_copy(
        graph, diti_tensor_view(graph, planes, 0, channels, first * area, columns),
        diti_tensor_reshape(graph, diti_tensor_view(graph, x, 0, out.rows, 0, DITI_EVEN_WIDTH), channels, columns),
        "first frames");
    root = diti_even_invert(graph, diti_even_inverse_root(graph, x));
    zero = diti_even_row(graph, diti_even_norm(graph, x, false), out.rows);
    root = diti_multiply(graph, root, diti_even_under(graph, 1, zero), 0, "even first frames");
    out.mean =
        diti_even_map(graph, diti_multiply(graph, root, zero, 0, "even first frames"), (float)(-all / n), 0, false, 0);
    out.centred = diti_even_map(graph, x, 0, 0, false, diti_even_map(graph, out.mean, -1, 0, false, 0));
    root = diti_even_inverse_root(graph, out.centred);
    out.inverse = diti_even_map(graph, root, (float)sqrt((n - 1) / all), 0, false, 0);
    out.deviation = diti_even_invert(graph, out.inverse);
    return out;
}

/* to - from, no less than least and no more than most. */
static diti_tensor diti_even_way(diti_graph *graph, diti_tensor from, diti_tensor to, float least, float most) {
    diti_tensor way = diti_even_map(graph, from, -1, 0, false, to);
    diti_tensor above = diti_even_map(graph, way, 1, -most, true, 0);
    way = diti_even_map(graph, way, 1, -least, true, 0);
    return diti_even_map(graph, above, -1, least, false, way);
}

DIT_INTERNAL diti_tensor diti_even_first(diti_graph *graph, diti_tensor planes, uint32_t area) {
    uint32_t channels = diti_tensor_rows(graph, planes), columns = diti_tensor_columns(graph, planes),
             frames = area ? columns / area : 0, next = frames > DITI_EVEN_FRAMES ? frames - DITI_EVEN_FRAMES : 0;
    diti_even from, to;
    diti_tensor out, way, factors, x;
    if (!next || diti_graph_failed(graph)) return planes;
    from = diti_even_measure(graph, planes, area, 0, DITI_EVEN_FRAMES);
    to = diti_even_measure(graph, planes, area, DITI_EVEN_FRAMES, next < DITI_EVEN_NEXT ? next : DITI_EVEN_NEXT);
    out = diti_tensor_new(graph, DITI_F32, channels, columns, "latents of an even clip");
    factors = diti_tensor_new(graph, DITI_F32, from.rows, DITI_EVEN_WIDTH, "even first frames");
    if (diti_graph_failed(graph)) return 0;
    way = diti_even_way(graph, from.deviation, to.deviation, -0.1f, 0.25f);
    way = diti_multiply(graph, way, from.inverse, 0, "even first frames");
    diti_fill_zeros(graph, factors);
    factors = diti_even_map(graph, factors, 0, 1, false, way);
    x = diti_tensor_view(graph, from.centred, 0, from.rows, 0, DITI_EVEN_WIDTH);
    x = diti_multiply(graph, x, factors, 0, "even first frames");
    x = diti_even_map(graph, x, 0, 0, false, from.mean);
    x = diti_even_map(graph, x, 0, 0, false, diti_even_way(graph, from.mean, to.mean, -0.05f, 0.1f));
    diti_copy(graph, planes, out, "latents of an even clip");
    diti_copy(graph, diti_tensor_reshape(graph, x, channels, DITI_EVEN_FRAMES * area),
              diti_tensor_view(graph, out, 0, channels, 0, DITI_EVEN_FRAMES * area), "even first frames");
    return out;
}
