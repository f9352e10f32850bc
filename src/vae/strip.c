/* A picture in strips of lines, one on each of several devices (docs/parallel.md 1.1, DistVAE). Strips need
   from each other the line next to them before every 3x3 convolution (below), the moments of group norms, line by line
   of the latent, and the keys and values of the middle's attention (kl.c). Every sum has the same terms in the
   same order wherever strips end, so devices of one driver make the bytes that one of them makes alone.

   Bytes that member i of N sends for a decode, with e bytes to an element, n(i) neighbours (2, but 1 at both ends), and
   h(i) of the latent's lines, which are w wide:
     n(i) * e * sum of (width * channels) over the inputs of all 3x3 convolutions but the first, whose input every
     device has; of AutoencoderKL inputs count before their norm, in F32 where residuals are
   and of AutoencoderKL
     (N - 1) * h(i) * 16 * groups * number of norms
     (N - 1) * h(i) * w * 2 * channels of the middle * e, where it has attention
   The first member gets the picture (job/emit.c): 16 bytes a pixel from all others. */
#include "vae/vae.h"

DIT_INTERNAL diti_vae_strip diti_strip_whole(uint32_t height, uint32_t width) {
    diti_vae_strip strip = DITI_ZERO;
    strip.height = strip.lines = height;
    strip.width = width;
    return strip;
}

DIT_INTERNAL diti_vae_strip diti_strip_of(const diti_group *group, uint32_t height, uint32_t width, uint32_t *first) {
    diti_vae_strip strip = diti_strip_whole(height, width);
    *first = 0;
    if (diti_group_count(group) == 1) return strip;
    *first = diti_group_first(group, group->index, height);
    strip.group = group;
    strip.height = diti_group_size(group, group->index, height);
    strip.above = group->index > 0;
    strip.below = group->index + 1 < group->count;
    return strip;
}

static diti_tensor diti_strip_lines(diti_graph *graph, const diti_vae_strip *strip, diti_tensor x, uint32_t first,
                                    uint32_t count) {
    uint32_t columns = diti_tensor_columns(graph, x);
    return diti_tensor_view(graph, x, first * strip->width, count * strip->width, 0, columns);
}

DIT_INTERNAL diti_tensor diti_strip_own(diti_graph *graph, const diti_vae_strip *strip, diti_tensor x) {
    return strip->above + strip->below ? diti_strip_lines(graph, strip, x, strip->above, strip->height) : x;
}

/* Sends the own line at the edge, receives what is beyond it. */
static void diti_strip_meet(diti_graph *graph, const diti_vae_strip *strip, diti_tensor x, uint32_t own,
                            uint32_t beyond, uint32_t member) {
    diti_exchange_begin(graph, diti_strip_lines(graph, strip, x, own, 1), strip->group->devices[member], true);
    diti_exchange_begin(graph, diti_strip_lines(graph, strip, x, beyond, 1), strip->group->devices[member], false);
}

DIT_INTERNAL size_t diti_strip_begin(diti_graph *graph, const diti_vae_strip *strip, diti_tensor x) {
    size_t begun = graph->exchange_count;
    uint32_t last = strip->above + strip->height;
    if (strip->above) diti_strip_meet(graph, strip, x, 1, 0, strip->group->index - 1);
    if (strip->below) diti_strip_meet(graph, strip, x, last - 1, last, strip->group->index + 1);
    return begun;
}

DIT_INTERNAL void diti_strip_end(diti_graph *graph, size_t begun) {
    for (; begun < graph->exchange_count; begun++) diti_exchange_end(graph, (uint32_t)begun);
}

DIT_INTERNAL diti_tensor diti_strip_conv(diti_graph *graph, const diti_vae_strip *strip, diti_tensor x,
                                         const diti_layer *layer, diti_conv_desc *desc, bool roomy) {
    bool reaches = layer->weight.kernel > 1;
    uint32_t rows;
    diti_vae_strip to = *strip;
    diti_tensor out;
    desc->batch = 1;
    desc->height = strip->height;
    desc->width = strip->width;
    desc->above = reaches ? strip->above : 0;
    desc->below = reaches ? strip->below : 0;
    desc->bias = &layer->bias;
    if (!roomy || !(strip->above + strip->below)) return diti_conv2d(graph, x, &layer->weight, desc);
    to.height <<= desc->upsample;
    to.width <<= desc->upsample;
    rows = (to.above + to.height + to.below) * to.width;
    out = diti_tensor_new(graph, desc->out_f32 ? DITI_F32 : graph->activation, rows, layer->weight.rows, desc->name);
    desc->out = diti_strip_own(graph, &to, out);
    diti_conv2d(graph, x, &layer->weight, desc);
    return out;
}
