/* Products chunk by chunk of their weight: as many rows of it at a time as are expanded together. */
#include "graph/ops_internal.h"

DIT_INTERNAL diti_tensor diti_linear_columns(diti_graph *graph, diti_tensor tensor, uint32_t first, uint32_t count) {
    diti_tensor_info info = *diti_tensor_get(graph, tensor);
    if (!tensor || info.columns == count) return tensor;
    return diti_tensor_view(graph, tensor, 0, info.rows, first, count);
}

DIT_INTERNAL diti_tensor diti_linear_rows(diti_graph *graph, diti_tensor tensor, uint32_t first, uint32_t count) {
    return tensor ? diti_tensor_view(graph, tensor, first, count, 0, diti_tensor_get(graph, tensor)->columns) : 0;
}

/* One product for the rows of each item: the weight is expanded once for all. */
static void diti_linear_items(diti_graph *graph, const diti_gemm *all, const diti_rows *which) {
    uint32_t row, item = 0;
    if (!which->of) diti_op_gemm(graph, all);
    for (row = which->first; which->of && row < all->rows && !diti_graph_failed(graph); row += which->of, item++) {
        diti_gemm gemm = *all;
        gemm.rows = which->count;
        gemm.x = diti_linear_rows(graph, all->x, row, which->count);
        gemm.multiply = diti_linear_rows(graph, all->multiply, row, which->count);
        gemm.residual = diti_linear_rows(graph, all->residual, row, which->count);
        gemm.out = diti_linear_rows(graph, all->out, all->out_step ? item * all->out_step : row, which->count);
        if (all->rows_per_gate) gemm.gate = diti_linear_rows(graph, all->gate, row / all->rows_per_gate, 1);
        gemm.rows_per_gate = 0;
        diti_op_gemm(graph, &gemm);
    }
}

/* Output columns that belong to rows [first, first + rows) of a part of the weight; column: the first of them. */
static void diti_linear_chunk(diti_graph *graph, diti_gemm gemm, const diti_weight *weight, const diti_rows *which,
                              uint32_t part, uint32_t first, uint32_t rows, uint32_t column) {
    if (gemm.float8)
        gemm.weight = diti_tensor_view(graph, diti_tensor_bytes(graph, weight, part), first, rows, 0, weight->columns);
    else
        gemm.weight = gemm.packed
                          ? diti_tensor_weight(graph, weight, part)
                          : diti_op_dequantize(graph, weight, part, first, rows, gemm.blocks, "expanded weight");
    gemm.columns = rows;
    gemm.bias = diti_linear_columns(graph, gemm.bias, column, rows);
    gemm.multiply = diti_linear_columns(graph, gemm.multiply, column, rows);
    gemm.gate = diti_linear_columns(graph, gemm.gate, column, rows);
    gemm.residual = diti_linear_columns(graph, gemm.residual, column, rows);
    gemm.out = diti_linear_columns(graph, gemm.out, column, rows);
    diti_linear_items(graph, &gemm, which);
}

/* Whether a product decodes its weights; else they are expanded before. */
DIT_INTERNAL bool diti_linear_decodes(const diti_graph *graph, const diti_gemm *gemm, const diti_weight *weight,
                                      const diti_rows *which) {
    if (graph->device->is_cpu || !graph->device->decodes || which->of || gemm->image || gemm->blocks ||
        weight->smooth || weight->factor.rows ||
        (weight->type != DIT_TYPE_Q8_0 && weight->type != DIT_TYPE_Q4_0 && weight->type != DIT_TYPE_Q4_K &&
         weight->type != DIT_TYPE_Q6_K && weight->type != DIT_TYPE_I4_GROUP && weight->type != DIT_TYPE_MXFP4 &&
         weight->type != DIT_TYPE_NVFP4))
        return false;
    return diti_op_gemm_decodes(graph, gemm);
}

/* Rows of bytes that a binding can hold. */
static uint32_t diti_linear_byte_rows(const diti_graph *graph, const diti_weight *weight) {
    uint64_t rows = (graph->device->limits.storage_range - 1024) / weight->columns / 64 * 64;
    return rows < weight->rows ? (uint32_t)rows : weight->rows;
}

DIT_INTERNAL void diti_linear_pass_on(diti_graph *graph, const diti_weight *weight, uint32_t begin, uint32_t end) {
    uint32_t part;
    for (part = 0; part < weight->part_count && !diti_graph_failed(graph); part++) {
        uint32_t first = weight->parts[part].first_row;
        diti_tensor tensor;
        if (first >= end || first + weight->parts[part].rows <= begin) continue;
        tensor = diti_tensor_weight(graph, weight, part);
        if (tensor)
            graph->tensors[tensor].first_use = graph->tensors[tensor].last_use = (uint32_t)graph->dispatch_count;
    }
}

DIT_INTERNAL void diti_linear_chunks(diti_graph *graph, const diti_gemm *gemm, const diti_weight *weight,
                                     const diti_rows *which, uint32_t begin, uint32_t end) {
    uint32_t part, first;
    for (part = 0; part < weight->part_count; part++) {
        uint32_t before = weight->parts[part].first_row, rows = weight->parts[part].rows,
                 most = gemm->float8 ? diti_linear_byte_rows(graph, weight)
                                     : diti_op_dequantize_rows(graph, weight, part, gemm->blocks);
        diti_gemm one = *gemm;
        if (before >= end || before + rows <= begin) continue;
        one.columns = rows;
        one.packed = weight->type;
        if (begin <= before && before + rows <= end && diti_linear_decodes(graph, &one, weight, which))
            most = rows;
        else
            one.packed = DIT_TYPE_STORED;
        if (before + rows > end) rows = end - before;
        for (first = begin > before ? begin - before : 0; first < rows && !diti_graph_failed(graph); first += most)
            diti_linear_chunk(graph, one, weight, which, part, first, rows - first < most ? rows - first : most,
                              before + first - begin);
    }
}
