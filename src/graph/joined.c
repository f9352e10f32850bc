#include "graph/ops.h"

DIT_INTERNAL const diti_weight *diti_joined_reader(const diti_joined *joined) {
    const diti_weight *first = &joined->layers[0].weight;
    uint32_t i;
    for (i = 1; i < joined->count; i++) {
        if (joined->layers[i].weight.type != first->type) return NULL;
    }
    return diti_type_is_i8(first->type) ? first : NULL;
}

/* The layer that has row *row of all, which becomes its own. */
static const diti_layer *diti_joined_at(const diti_joined *joined, uint32_t *row) {
    uint32_t i = 0;
    while (i + 1 < joined->count && *row >= joined->layers[i].weight.rows) *row -= joined->layers[i++].weight.rows;
    return &joined->layers[i];
}

/* Some rows of each of several equal stretches: heads of q, of k, of v. */
static diti_tensor diti_linear_kinds(diti_graph *graph, diti_tensor x, const diti_joined *joined,
                                     const diti_linear_desc *desc, uint32_t stretch) {
    diti_linear_desc one = *desc;
    uint32_t i, own = desc->cut.rows ? desc->cut.rows : stretch, rows = diti_tensor_get(graph, x)->rows;
    if (!one.out)
        one.out = diti_tensor_new(graph, one.out_f32 ? DITI_F32 : graph->activation, rows, desc->kinds * own, one.name);
    for (i = 0; i < desc->kinds && !diti_graph_failed(graph); i++) {
        uint32_t row = i * stretch + desc->cut.row;
        const diti_layer *layer = diti_joined_at(joined, &row);
        diti_linear_desc part = one;
        part.bias = &layer->bias;
        part.cut.row = row;
        part.cut.rows = own;
        part.out = diti_tensor_view(graph, one.out, 0, rows, i * own, own);
        diti_linear(graph, x, &layer->weight, &part);
    }
    return one.out;
}

DIT_INTERNAL diti_tensor diti_linear_joined(diti_graph *graph, diti_tensor x, const diti_joined *joined,
                                            const diti_linear_desc *desc) {
    diti_linear_desc one = *desc;
    uint32_t i, total = 0, column = 0;
    const diti_weight *reader = joined->count > 1 ? diti_joined_reader(joined) : NULL;
    uint32_t rows = diti_graph_failed(graph) ? 0 : diti_tensor_get(graph, x)->rows;
    if (diti_graph_failed(graph)) return 0;
    if (reader && diti_tensor_get(graph, x)->format != DITI_I8)
        x = diti_quantize(graph, x, reader->type == DIT_TYPE_I8_ROW_ROTATED, "quantize");
    for (i = 0; i < joined->count; i++) total += joined->layers[i].weight.rows;
    if (desc->kinds) return diti_linear_kinds(graph, x, joined, desc, total / desc->kinds);
    if (!one.out) one.out = diti_tensor_new(graph, one.out_f32 ? DITI_F32 : graph->activation, rows, total, one.name);
    for (i = 0; i < joined->count; i++) {
        const diti_layer *layer = &joined->layers[i];
        diti_linear_desc part = one;
        part.bias = &layer->bias;
        if (joined->count > 1) part.out = diti_tensor_view(graph, one.out, 0, rows, column, layer->weight.rows);
        diti_linear(graph, x, &layer->weight, &part);
        column += layer->weight.rows;
    }
    return one.out;
}
