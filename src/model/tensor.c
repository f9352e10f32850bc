/* Matrices divided among devices (parallel-cache-quant.md 1.1, TP): of every pair of layers around attention or an
   activation the first one's rows, and so heads or columns of the feed-forward, and the same columns of the second one.
   Each device adds its part to the residual stream, the first one bias and stream besides, and the sum of these, in
   F32, becomes everyone's stream. Of n rows in total that sum sends 2 (N - 1) / N * n * D * 4 bytes per device of N
   that have as many rows each, else 4 D ((n - r) + (N - 1) r) from a device whose rows are r: twice a block, three
   times where a block attends a text of its own. HunyuanDiT's skips, layers for themselves, send (N - 1) / N * n * D *
   4, the columns that each has made. int8 layers send 4 (N - 1) n bytes more, the largest of each row. */
#include "model/model.h"

static const diti_group *diti_tensor_group(const diti_denoise *denoise) {
    return denoise->axes ? &denoise->axes->tensor : NULL;
}

static uint32_t diti_stripe_common(uint32_t a, uint32_t b) { /* least common multiple */
    uint32_t x = a, y = b;
    while (y) {
        uint32_t rest = x % y;
        x = y;
        y = rest;
    }
    return a / x * b;
}

DIT_INTERNAL diti_stripe diti_stripe_make(diti_graph *graph, const diti_denoise *denoise, uint32_t all, uint32_t step,
                                          const diti_weight *const *readers, uint32_t reader_count) {
    const diti_group *group = diti_tensor_group(denoise);
    uint32_t i, count = diti_group_count(group), unit = step, end;
    diti_stripe stripe;
    stripe.first = 0;
    stripe.count = stripe.all = all;
    if (count == 1) return stripe;
    for (i = 0; i < reader_count; i++)
        if (readers[i]->part_count) unit = diti_stripe_common(unit, diti_weight_unit(readers[i]));
    if (all / unit < count) {
        diti_graph_fail(graph, DIT_ERROR_INVALID_ARGUMENT,
                        "split tensor%u: %.100s: its %u columns can be parted every %u only, as its type %s groups "
                        "them, which is not enough for %u devices",
                        count, readers[0]->name ? readers[0]->name : "a matrix", all, unit,
                        diti_type_name(readers[0]->type), count);
        return stripe;
    }
    stripe.first = unit * diti_group_first(group, group->index, all / unit);
    end = group->index + 1 == count ? all : unit * diti_group_first(group, group->index + 1, all / unit);
    stripe.count = end - stripe.first;
    return stripe;
}

/* Columns of a feed-forward, in whole vectors where that goes. */
DIT_INTERNAL diti_stripe diti_stripe_feed(diti_graph *graph, const diti_denoise *denoise,
                                          const diti_weight *const *readers, uint32_t reader_count, uint32_t all) {
    uint32_t step = all % 16 == 0 && all / 16 >= diti_group_count(diti_tensor_group(denoise)) ? 16 : 4;
    return diti_stripe_make(graph, denoise, all, step, readers, reader_count);
}

DIT_INTERNAL void diti_stripe_rows(diti_linear_desc *desc, const diti_stripe *stripe) {
    if (stripe->count == stripe->all) return;
    desc->cut.row = stripe->first;
    desc->cut.rows = stripe->count;
}

DIT_INTERNAL diti_tensor diti_stripe_run(diti_graph *graph, diti_tensor x, const diti_layer *layer,
                                         const diti_stripe *stripe, diti_activation activation, diti_tensor out,
                                         const char *name) {
    diti_linear_desc desc = DITI_ZERO;
    desc.bias = &layer->bias;
    desc.activation = activation;
    desc.out = out;
    desc.name = name;
    diti_stripe_rows(&desc, stripe);
    return diti_linear(graph, x, &layer->weight, &desc);
}

DIT_INTERNAL diti_tensor diti_stripe_joined(diti_graph *graph, diti_tensor x, const diti_joined *joined,
                                            const diti_stripe *stripe, uint32_t kinds, const char *name) {
    diti_linear_desc desc = DITI_ZERO;
    desc.name = name;
    diti_stripe_rows(&desc, stripe);
    if (desc.cut.rows) desc.kinds = kinds;
    return diti_linear_joined(graph, x, joined, &desc);
}

DIT_INTERNAL diti_tensor diti_stripe_input(diti_graph *graph, const diti_denoise *denoise, diti_tensor h,
                                           const diti_weight *reader) {
    if (diti_graph_failed(graph) || !diti_type_is_i8(reader->type) || diti_tensor_get(graph, h)->format == DITI_I8)
        return h;
    return diti_quantize_shared(graph, diti_tensor_group(denoise), h, reader->type == DIT_TYPE_I8_ROW_ROTATED,
                                "quantize");
}

DIT_INTERNAL void diti_stripe_add(diti_graph *graph, const diti_denoise *denoise, diti_tensor h,
                                  const diti_layer *layer, const diti_stripe *stripes, uint32_t stripe_count,
                                  diti_linear_desc *desc) {
    const diti_group *group = diti_tensor_group(denoise);
    uint32_t i, column = 0;
    bool leads = diti_group_count(group) == 1 || group->index == 0;
    desc->bias = leads ? &layer->bias : NULL;
    desc->residual = leads ? desc->out : 0;
    for (i = 0; i < stripe_count && diti_group_count(group) > 1; i++) {
        desc->cut.columns[i].first = column + stripes[i].first;
        desc->cut.columns[i].count = stripes[i].count;
        column += stripes[i].all;
    }
    diti_linear(graph, diti_stripe_input(graph, denoise, h, &layer->weight), &layer->weight, desc);
}

DIT_INTERNAL void diti_stripe_sum(diti_graph *graph, const diti_denoise *denoise, diti_tensor x) {
    diti_all_reduce(graph, diti_tensor_group(denoise), x, "sum over devices");
}

DIT_INTERNAL void diti_layer_add(diti_graph *graph, const diti_denoise *denoise, diti_tensor x, diti_tensor h,
                                 const diti_layer *layer, const diti_stripe *stripe, diti_tensor gate,
                                 uint32_t rows_per_gate, const char *name) {
    diti_linear_desc desc = DITI_ZERO;
    desc.gate = gate;
    desc.rows_per_gate = rows_per_gate;
    desc.out = x;
    desc.name = name;
    diti_stripe_add(graph, denoise, h, layer, stripe, 1, &desc);
    diti_stripe_sum(graph, denoise, x);
}

DIT_INTERNAL diti_tensor diti_layer_spread(diti_graph *graph, const diti_group *group, diti_tensor x,
                                           const diti_layer *layer, diti_tensor out, const char *name) {
    uint32_t columns = layer->weight.rows, first, end;
    diti_linear_desc desc = DITI_ZERO;
    if (diti_graph_failed(graph) || diti_group_count(group) == 1 || columns / 4 < group->count)
        return diti_layer_run(graph, x, layer, DITI_ACTIVATION_NONE, out, true, name);
    if (!out) out = diti_tensor_new(graph, DITI_F32, diti_tensor_get(graph, x)->rows, columns, name);
    first = diti_group_column(group, group->index, columns);
    end = diti_group_column(group, group->index + 1, columns);
    desc.bias = &layer->bias;
    desc.cut.row = first;
    desc.cut.rows = end - first;
    desc.out = diti_tensor_view(graph, out, 0, diti_graph_failed(graph) ? 0 : diti_tensor_get(graph, out)->rows, first,
                                end - first);
    desc.name = name;
    diti_linear(graph, x, &layer->weight, &desc);
    diti_gather_columns(graph, group, out);
    return out;
}
