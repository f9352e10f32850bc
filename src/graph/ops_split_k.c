/* Split-K: a product with too few tiles to fill the device is cut along K into products of their own, whose F32 results
   shaders/gemm_gpu.comp adds in order before the epilogue. The number of parts depends on the problem and the device
   alone, so that the same job gives the same bytes whatever the tiles and slices. */
#include "graph/ops_internal.h"

#define DITI_SPLIT_DEPTH 2048u /* least K that is split (docs/kernels.md 1.4) */
#define DITI_SPLIT_MAX 8u
#define DITI_SPLIT_UNIT 64u                   /* K of a part: whole slices of every kernel */
#define DITI_SPLIT_BYTES ((uint64_t)64 << 20) /* most of all parts; any device binds twice as much */

/* Rows from part to part: so many that the parts are bound apart from each other, and run side by side. */
static uint32_t diti_split_rows(const diti_gemm *gemm) { return (uint32_t)diti_align_up(gemm->rows, 16); }

/* K of a part is a multiple of this: packed weights are cut between blocks, at whole words. */
static uint32_t diti_split_unit(const diti_gemm *gemm) {
    uint32_t unit = DITI_SPLIT_UNIT;
    uint64_t bytes;
    while (gemm->packed && (!diti_weight_bytes(gemm->packed, 1, unit, &bytes) || bytes % 4)) unit *= 2;
    return unit;
}

static uint32_t diti_split_depth(const diti_graph *graph, const diti_gemm *gemm, uint64_t tiles) {
    const diti_device *device = graph->device;
    uint32_t cores = device->limits.cores, unit = diti_split_unit(gemm), parts;
    if (device->is_cpu || gemm->image || gemm->parts || gemm->blocks || gemm->depth < DITI_SPLIT_DEPTH || !tiles ||
        tiles > cores / 2 || diti_tensor_get(graph, gemm->x)->format == DITI_I8)
        return gemm->depth;
    parts = (uint32_t)(cores / tiles);
    if (parts > DITI_SPLIT_MAX) parts = DITI_SPLIT_MAX;
    if ((uint64_t)parts * diti_split_rows(gemm) * (gemm->columns + 3u) * sizeof(float) > DITI_SPLIT_BYTES)
        return gemm->depth;
    return (gemm->depth / parts + unit - 1) / unit * unit;
}

static void diti_split_part(diti_graph *graph, const diti_gemm *whole, diti_tensor partial, uint32_t part,
                            uint32_t depth) {
    const diti_tensor_info *weight = diti_tensor_get(graph, whole->weight);
    uint32_t first = part * depth, stored = weight->columns - first, rows = weight->rows, column = first;
    uint64_t bytes;
    diti_gemm gemm = DITI_ZERO;
    gemm.rows = whole->rows;
    gemm.columns = whole->columns;
    gemm.depth = whole->depth - first < depth ? whole->depth - first : depth;
    gemm.x = diti_tensor_view(graph, whole->x, 0, whole->rows, first, gemm.depth);
    if (whole->packed && diti_weight_bytes(whole->packed, 1, first, &bytes)) column = (uint32_t)(bytes / 4);
    gemm.weight = diti_tensor_view(graph, whole->weight, 0, rows, column, stored < depth ? stored : depth);
    gemm.packed = whole->packed;
    gemm.out = diti_tensor_view(graph, partial, part * diti_split_rows(whole), whole->rows, 0, whole->columns);
    gemm.parts = 1;
    gemm.name = whole->name;
    diti_op_gemm_whole(graph, &gemm);
}

DIT_INTERNAL diti_tensor diti_op_partials(diti_graph *graph, uint32_t rows, uint32_t columns) {
    diti_tensor partials = diti_tensor_new(graph, DITI_F32, rows, columns, "partial products");
    if (columns % 4 && !diti_graph_failed(graph)) diti_fill_zeros(graph, diti_tensor_padded(graph, partials));
    return partials;
}

DIT_INTERNAL bool diti_op_splits_gemm(const diti_graph *graph, const diti_gemm *gemm, uint64_t tiles) {
    return diti_split_depth(graph, gemm, tiles) < gemm->depth;
}

/* Does it in parts; false: it is not split. */
static bool diti_op_split_gemm(diti_graph *graph, const diti_gemm *gemm, uint64_t tiles) {
    uint32_t depth = diti_split_depth(graph, gemm, tiles), parts = (gemm->depth + depth - 1) / depth, i;
    diti_gemm sum = *gemm;
    if (parts <= 1) return false;
    sum.x = diti_op_partials(graph, parts * diti_split_rows(gemm), gemm->columns);
    for (i = 0; i < parts && !diti_graph_failed(graph); i++) diti_split_part(graph, gemm, sum.x, i, depth);
    sum.weight = 0;
    sum.packed = DIT_TYPE_STORED;
    sum.depth = sum.parts = parts;
    diti_op_gemm_whole(graph, &sum);
    return true;
}

DIT_INTERNAL void diti_op_gemm(diti_graph *graph, const diti_gemm *gemm) {
    uint32_t down, across;
    if (diti_graph_failed(graph) || !diti_op_writable(graph, gemm->out, gemm->rows, gemm->columns, gemm->name)) return;
    down = diti_op_gemm_tiles(graph, gemm, &across);
    if (!diti_op_split_gemm(graph, gemm, (uint64_t)down * across)) diti_op_gemm_whole(graph, gemm);
}
