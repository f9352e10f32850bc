/* A picture in bands of lines, one on each of several devices (docs/parallel.md 1.1, DistVAE). Bands need
   from each other the line next to them before every 3x3 convolution (below), the moments of group norms, line by line
   of the latent, and the keys and values of the middle's attention (kl.c). Every sum has the same terms in the
   same order wherever bands end, so devices of one driver make the bytes that one of them makes alone.

   Bytes that member i of N sends for a decode, with e bytes to an element, n(i) neighbours (2, but 1 at both ends), and
   h(i) of the latent's lines, which are w wide:
     n(i) * e * sum of (width * channels) over the inputs of all 3x3 convolutions but the first, whose input every
     device has; of AutoencoderKL inputs count before their norm, in F32 where residuals are
   and of AutoencoderKL
     (N - 1) * h(i) * 16 * groups * number of norms
     (N - 1) * h(i) * w * 2 * channels of the middle * e, where it has attention
   The first member gets the picture (job/emit.c): 16 bytes a pixel from all others. */
#include "vae/vae.h"

DIT_INTERNAL diti_row_band diti_row_band_whole(uint32_t height, uint32_t width) {
    diti_row_band row_band = DITI_ZERO;
    row_band.height = row_band.lines = height;
    row_band.images = 1;
    row_band.width = width;
    return row_band;
}

DIT_INTERNAL diti_row_band diti_row_band_of(const diti_ranks *group, uint32_t height, uint32_t width, uint32_t *first) {
    diti_row_band row_band = diti_row_band_whole(height, width);
    *first = 0;
    if (diti_ranks_count(group) == 1) return row_band;
    *first = diti_ranks_first(group, group->index, height);
    row_band.group = group;
    row_band.height = diti_ranks_size(group, group->index, height);
    row_band.above = group->index > 0;
    row_band.below = group->index + 1 < group->count;
    return row_band;
}

static diti_tensor diti_row_band_lines(diti_graph *graph, const diti_row_band *row_band, diti_tensor x, uint32_t first,
                                       uint32_t count) {
    uint32_t columns = diti_tensor_columns(graph, x);
    return diti_tensor_view(graph, x, first * row_band->width, count * row_band->width, 0, columns);
}

DIT_INTERNAL diti_tensor diti_row_band_local(diti_graph *graph, const diti_row_band *row_band, diti_tensor x) {
    return row_band->above + row_band->below
               ? diti_row_band_lines(graph, row_band, x, row_band->above, row_band->height)
               : x;
}

/* Sends the own line at the edge, receives what is beyond it. */
static diti_trade diti_row_band_meet(diti_graph *graph, const diti_row_band *row_band, diti_tensor x, uint32_t own,
                                     uint32_t beyond, uint32_t member) {
    uint32_t device = row_band->group->devices[member];
    return diti_trade_begin(graph, diti_row_band_lines(graph, row_band, x, own, 1), device,
                            diti_row_band_lines(graph, row_band, x, beyond, 1), device);
}

DIT_INTERNAL diti_row_band_edges diti_row_band_begin(diti_graph *graph, const diti_row_band *row_band, diti_tensor x) {
    diti_row_band_edges edges = DITI_ZERO;
    uint32_t last = row_band->above + row_band->height;
    if (row_band->above) edges.above = diti_row_band_meet(graph, row_band, x, 1, 0, row_band->group->index - 1);
    if (row_band->below)
        edges.below = diti_row_band_meet(graph, row_band, x, last - 1, last, row_band->group->index + 1);
    return edges;
}

DIT_INTERNAL void diti_row_band_end(diti_graph *graph, const diti_row_band *row_band, diti_row_band_edges edges) {
    if (row_band->above) diti_trade_end(graph, edges.above);
    if (row_band->below) diti_trade_end(graph, edges.below);
}

DIT_INTERNAL diti_tensor diti_row_band_conv(diti_graph *graph, const diti_row_band *row_band, diti_tensor x,
                                            const diti_layer *layer, diti_conv_desc *desc, bool roomy) {
    bool reaches = layer->weight.kernel > 1;
    uint32_t rows;
    diti_row_band to = *row_band;
    diti_tensor out;
    desc->batch = row_band->images;
    desc->height = row_band->height;
    desc->width = row_band->width;
    desc->above = reaches ? row_band->above : 0;
    desc->below = reaches ? row_band->below : 0;
    desc->bias = &layer->bias;
    if (!roomy || !(row_band->above + row_band->below)) return diti_conv(graph, x, &layer->weight, desc);
    to.height <<= desc->upsample;
    to.width <<= desc->upsample;
    rows = (to.above + to.height + to.below) * to.width;
    out = diti_tensor_new(graph, desc->out_f32 ? DITI_F32 : graph->activation, rows, layer->weight.rows, desc->name);
    desc->out = diti_row_band_local(graph, &to, out);
    diti_conv(graph, x, &layer->weight, desc);
    return out;
}

DIT_INTERNAL diti_tensor diti_row_band_norm(diti_graph *graph, const diti_row_band *row_band, diti_tensor x,
                                            const diti_layer *layer, diti_group_norm_desc *desc, bool roomy) {
    diti_row_band_edges edges = DITI_ZERO;
    desc->batch = row_band->images;
    desc->weight = &layer->weight;
    desc->bias = &layer->bias;
    desc->parts = row_band->lines; /* pictures must not depend on where bands end */
    if (!row_band->group) return diti_group_norm(graph, x, desc);
    desc->parts = diti_ranks_size(row_band->group, row_band->group->index, row_band->lines);
    if (roomy) edges = diti_row_band_begin(graph, row_band, x);
    desc->moments = diti_all_gather(
        graph, row_band->group, diti_group_moments(graph, roomy ? diti_row_band_local(graph, row_band, x) : x, desc), 1,
        row_band->lines, "moments of all lines");
    if (roomy) diti_row_band_end(graph, row_band, edges);
    return diti_group_norm(graph, x, desc);
}
