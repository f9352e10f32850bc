/* The first latent frames of a clip that a picture begins get about the mean and the deviation of the next ones
   (docs/models.md 3.23): what the autoencoder makes of a picture is not quite what the model makes of a clip, and a
   mesh would be seen. Original:
   https://github.com/huggingface/diffusers/blob/v0.42.1/src/diffusers/pipelines/kandinsky5/pipeline_kandinsky_i2v.py */
#include "job/job.h"

#define DITI_EVEN_FRAMES 4u /* latent frames that are changed */
#define DITI_EVEN_NEXT 5u   /* most latent frames that they are compared with */

static diti_tensor diti_even_sum(diti_graph *graph, diti_tensor x, float scale, float offset, diti_tensor add) {
    return diti_scaled_sum(graph, "even first frames", x, scale, offset, add, 0);
}

/* x - least where x is above least; else 0. */
static diti_tensor diti_even_above(diti_graph *graph, diti_tensor x, float least) {
    diti_elementwise_desc desc = DITI_ZERO;
    desc.scale = 1;
    desc.offset = -least;
    desc.activation = DITI_ACTIVATION_RELU;
    desc.out_f32 = true;
    desc.name = "even first frames";
    return diti_elementwise(graph, x, &desc);
}

/* to - from, no less than least and no more than most. */
static diti_tensor diti_even_way(diti_graph *graph, diti_tensor from, diti_tensor to, float least, float most) {
    diti_tensor way = diti_even_sum(graph, from, -1, 0, to), above = diti_even_above(graph, way, most);
    return diti_even_sum(graph, above, -1, least, diti_even_above(graph, way, least));
}

DIT_INTERNAL diti_tensor diti_even_first(diti_graph *graph, diti_tensor planes, uint32_t area) {
    uint32_t channels = diti_tensor_rows(graph, planes), columns = diti_tensor_columns(graph, planes),
             frames = area ? columns / area : 0, next = frames > DITI_EVEN_FRAMES ? frames - DITI_EVEN_FRAMES : 0;
    diti_moments from, to;
    diti_tensor out, way, factors, x;
    if (!next || diti_graph_failed(graph)) return planes;
    from = diti_moments_measure(graph, planes, area, 0, DITI_EVEN_FRAMES);
    to = diti_moments_measure(graph, planes, area, DITI_EVEN_FRAMES, next < DITI_EVEN_NEXT ? next : DITI_EVEN_NEXT);
    out = diti_tensor_new(graph, DITI_F32, channels, columns, "latents of an even clip");
    factors = diti_tensor_new(graph, DITI_F32, from.rows, DITI_ROW_WIDTH, "even first frames");
    if (diti_graph_failed(graph)) return 0;
    way = diti_even_way(graph, from.deviation, to.deviation, -0.1f, 0.25f);
    way = diti_multiply(graph, way, from.inverse, 0, "even first frames");
    diti_fill_zeros(graph, factors);
    factors = diti_even_sum(graph, factors, 0, 1, way);
    x = diti_tensor_view(graph, from.centred, 0, from.rows, 0, DITI_ROW_WIDTH);
    x = diti_multiply(graph, x, factors, 0, "even first frames");
    x = diti_even_sum(graph, x, 0, 0, from.mean);
    x = diti_even_sum(graph, x, 0, 0, diti_even_way(graph, from.mean, to.mean, -0.05f, 0.1f));
    diti_copy(graph, planes, out, "latents of an even clip");
    diti_copy(graph, diti_tensor_reshape(graph, x, channels, DITI_EVEN_FRAMES * area),
              diti_tensor_view(graph, out, 0, channels, 0, DITI_EVEN_FRAMES * area), "even first frames");
    return out;
}
