#include "graph/graph.h"

DIT_INTERNAL const diti_weight *diti_joined_reader(const diti_joined *joined) {
    const diti_weight *first = &joined->layers[0].weight;
    uint32_t i;
    for (i = 1; i < joined->count; i++) {
        if (joined->layers[i].weight.type != first->type) return NULL;
    }
    return diti_type_is_i8(first->type) ? first : NULL;
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
