/* Stored weights as matrices that kernels read (shaders/expand.comp), activations as blocks of int8, and rows of tables
   by index. */
#include "graph/ops_internal.h"

#define DITI_EXPAND_GROUP 64u                  /* invocations; each makes four elements */
#define DITI_EXPAND_BYTES ((uint64_t)32 << 20) /* most of a chunk, on devices with less than 8 GB */
#define DITI_EXPAND_MOST_BYTES ((uint64_t)128 << 20)

/* Push words of expand.comp. */
enum {
    DITI_EXPAND_ROWS = 1,
    DITI_EXPAND_ROW_BYTES,
    DITI_EXPAND_SOURCE,
    DITI_EXPAND_FIRST_ROW,
    DITI_EXPAND_CHANNELS,
    DITI_EXPAND_CHANNEL_PITCH,
    DITI_EXPAND_TAPS,
    DITI_EXPAND_OUT,
    DITI_EXPAND_OUT_PITCH,
    DITI_EXPAND_BLOCK_BYTES,
    DITI_EXPAND_IDS,
    DITI_EXPAND_TABLE_FIRST,
    DITI_EXPAND_TABLE_ROWS,
    DITI_EXPAND_LAST_PART,
    DITI_EXPAND_FACTORS,
    DITI_EXPAND_ROW_FACTORS,
    DITI_EXPAND_PUSH_WORDS
};

static diti_element diti_expand_format(const diti_graph *graph) { return graph->activation; }

/* Elements of an expanded row: taps of channels, each padded to a multiple of 4. */
static uint32_t diti_expand_pitch(const diti_weight *weight) {
    uint32_t taps = diti_weight_taps(weight);
    return (weight->columns / taps + 3u) / 4u * 4u * taps;
}

/* int8 with a scale for each 32 columns, in runs of one block: an enum of common.glsl. */
enum { DITI_EXPAND_BLOCKS = 5, DITI_EXPAND_BLOCK_RUN = DITI_I8_BLOCK / 4 };

static bool diti_expand_is_direct(const diti_weight *weight) {
    if (diti_type_is_i8(weight->type)) return true;
    return !weight->smooth && !weight->factor.rows && (weight->type == DIT_TYPE_F32 || weight->type == DIT_TYPE_F16) &&
           diti_weight_taps(weight) == 1 && weight->columns % 4 == 0;
}

/* Most bytes of one expanded chunk, of which there are two at a time. The product of a chunk leaves a part of a large
   GPU without work at its end, so that chunks grow with the device's memory. */
static uint64_t diti_expand_most(const diti_device *device) {
    uint64_t share = device->memory_limit / 256;
    if (share < DITI_EXPAND_BYTES) return DITI_EXPAND_BYTES;
    return share < DITI_EXPAND_MOST_BYTES ? share : DITI_EXPAND_MOST_BYTES;
}

DIT_INTERNAL uint32_t diti_op_dequantize_rows(const diti_graph *graph, const diti_weight *weight, uint32_t part,
                                              bool blocks) {
    uint64_t limit = graph->device->limits.storage_range, row, rows;
    if (!blocks && diti_expand_is_direct(weight)) {
        row = 1;
        diti_weight_bytes(weight->type, 1, weight->columns, &row);
    } else {
        row = (uint64_t)diti_expand_pitch(weight) * diti_element_size(diti_expand_format(graph));
        if (blocks) row = weight->columns + weight->columns / DITI_I8_BLOCK * 4u + 16u;
        if (limit > diti_expand_most(graph->device)) limit = diti_expand_most(graph->device);
    }
    limit -= limit > 4096 ? 1024 : 0; /* bindings begin at aligned offsets */
    rows = limit / row;
    rows = rows > 64 ? rows / 64 * 64 : rows > 4 ? rows / 4 * 4 : rows ? rows : 1;
    return rows < weight->parts[part].rows ? (uint32_t)rows : weight->parts[part].rows;
}

static void diti_expand_constants(diti_dispatch *dispatch, const diti_weight *weight, diti_element format, bool gather,
                                  uint32_t run) {
    dispatch->constants[1] = (uint32_t)weight->type;
    dispatch->constants[2] = format;
    dispatch->constants[3] = diti_weight_taps(weight) > 1;
    dispatch->constants[4] = gather;
    dispatch->constants[5] = run;
    dispatch->constants[6] = weight->smooth != NULL;
    dispatch->constants[7] = weight->factor.rows != 0;
    dispatch->stated = DITI_STATED(8);
}

static void diti_expand_to_blocks(diti_dispatch *dispatch) {
    dispatch->constants[2] = DITI_EXPAND_BLOCKS;
    dispatch->constants[5] = DITI_EXPAND_BLOCK_RUN;
}

/* Push words that describe the stored rows; false for a type that no kernel reads. */
static bool diti_expand_source(diti_graph *graph, diti_dispatch *dispatch, const diti_weight *weight, uint32_t rows,
                               uint32_t first) {
    uint32_t taps = diti_weight_taps(weight);
    uint64_t row_bytes;
    if (weight->type < DIT_TYPE_F32 || weight->type > DIT_TYPE_NVFP4 ||
        !diti_type_bytes(weight->type, 1, weight->columns, &row_bytes)) {
        diti_graph_fail(graph, DIT_ERROR_UNSUPPORTED_MODEL, "weight %s [%u, %u]: no kernel reads type %s in such rows",
                        weight->name ? weight->name : "", weight->rows, weight->columns, diti_type_name(weight->type));
        return false;
    }
    dispatch->push[DITI_EXPAND_ROWS] = rows;
    dispatch->push[DITI_EXPAND_ROW_BYTES] = (uint32_t)row_bytes;
    dispatch->push[DITI_EXPAND_FIRST_ROW] = first;
    dispatch->push[DITI_EXPAND_CHANNELS] = weight->columns / taps;
    dispatch->push[DITI_EXPAND_CHANNEL_PITCH] = (weight->columns / taps + 3u) / 4u * 4u;
    dispatch->push[DITI_EXPAND_TAPS] = taps;
    dispatch->push[DITI_EXPAND_BLOCK_BYTES] = diti_type_block_bytes(weight->type);
    return true;
}

/* Software drivers divide slowly, one lane after the other: there an invocation makes a whole run of elements. */
static uint32_t diti_expand_run(const diti_graph *graph) { return graph->device->is_cpu ? 8 : 1; }

static void diti_expand_emit(diti_graph *graph, diti_dispatch *dispatch, diti_tensor source, diti_tensor out,
                             uint32_t rows) {
    uint32_t pitch = diti_tensor_get(graph, out)->pitch, run = dispatch->constants[5];
    uint32_t quads = dispatch->push[DITI_EXPAND_CHANNEL_PITCH] * dispatch->push[DITI_EXPAND_TAPS] / 4,
             runs = (quads + run - 1) / run;
    dispatch->push[DITI_EXPAND_OUT_PITCH] = pitch;
    diti_op_bind(graph, dispatch, 0, source, DITI_EXPAND_SOURCE, true, false);
    dispatch->bindings[0].element_bytes = 4;
    dispatch->bindings[0].group_step = 0; /* packed bytes, not elements */
    if (diti_tensor_get(graph, out)->floats) diti_op_bind_rows(graph, dispatch, 0, runs, DITI_EXPAND_GROUP, 0, 0);
    diti_op_bind(graph, dispatch, 1, out, DITI_EXPAND_OUT, false, true);
    diti_op_bind_rows(graph, dispatch, 1, runs, DITI_EXPAND_GROUP, 0,
                      0); /* `runs` workgroups make as many rows as one has invocations */
    diti_op_emit(graph, dispatch, ((uint64_t)rows * runs + DITI_EXPAND_GROUP - 1) / DITI_EXPAND_GROUP,
                 DITI_EXPAND_PUSH_WORDS);
}

/* Binds the factors of a part's rows, if it has any. */
static void diti_expand_bind_factors(diti_graph *graph, diti_dispatch *dispatch, const diti_weight *weight,
                                     uint32_t part) {
    const diti_weight_part *rows = &weight->parts[part];
    diti_tensor factors = diti_tensor_factors(graph, weight);
    if (factors)
        factors = diti_tensor_view(graph, factors, 0, 1, weight->factor.first_row + rows->first_row, rows->rows);
    if (factors) diti_op_bind(graph, dispatch, 4, factors, DITI_EXPAND_ROW_FACTORS, true, false);
}

DIT_INTERNAL diti_tensor diti_op_dequantize(diti_graph *graph, const diti_weight *weight, uint32_t part, uint32_t first,
                                            uint32_t rows, bool blocks, const char *name) {
    diti_tensor source = diti_tensor_weight(graph, weight, part), out;
    diti_dispatch dispatch;
    if (!source) return 0;
    if (!blocks && diti_expand_is_direct(weight))
        return diti_tensor_view(graph, source, first, rows, 0, weight->columns);
    if (!diti_op_begin(graph, &dispatch, "expand", DITI_KERNEL_EXPAND, DITI_EXPAND_GROUP)) return 0;
    diti_expand_constants(&dispatch, weight, diti_expand_format(graph), false, diti_expand_run(graph));
    if (blocks) diti_expand_to_blocks(&dispatch);
    if (!diti_expand_source(graph, &dispatch, weight, rows, first)) return 0;
    out = blocks ? diti_tensor_blocks(graph, rows, weight->columns, name)
                 : diti_tensor_new(graph, diti_expand_format(graph), rows, diti_expand_pitch(weight), name);
    if (!out) return 0;
    if (weight->smooth) {
        diti_tensor factors = diti_op_vector_weight(graph, weight->smooth, weight->columns, name);
        if (!factors) return 0;
        diti_op_bind(graph, &dispatch, 3, factors, DITI_EXPAND_FACTORS, true, false);
    }
    diti_expand_bind_factors(graph, &dispatch, weight, part);
    dispatch.early = !graph->device->is_cpu;
    diti_expand_emit(graph, &dispatch, source, out, rows);
    return out;
}

/* --- activations as blocks of int8 --- */

/* The blocks that an earlier dispatch has made of the very same rows and columns, so that layers side by side share
   them: in the same block of the model, with nothing in between that writes x. 0: there are none. */
static diti_tensor diti_quantize_blocks_find(const diti_graph *graph, const diti_tensor_info *x) {
    size_t i = graph->dispatch_count, least = graph->segments[graph->segment_count - 1].first, k;
    if (graph->event_count && graph->events[graph->event_count - 1].place > least)
        least = graph->events[graph->event_count - 1].place;
    if (graph->mark_count && graph->marks[graph->mark_count - 1].place > least)
        least = graph->marks[graph->mark_count - 1].place;
    while (i-- > least) {
        const diti_dispatch *at = &graph->dispatches[i];
        const diti_tensor_info *from = diti_tensor_get(graph, at->bindings[0].tensor);
        for (k = 0; k < at->binding_count; k++)
            if (at->bindings[k].writes && diti_tensor_get(graph, at->bindings[k].tensor)->parent == x->parent) return 0;
        if (at->kernel == DITI_KERNEL_EXPAND && at->constants[2] == DITI_EXPAND_BLOCKS && at->gate == graph->gate &&
            at->gate_else == graph->gate_else && from->parent == x->parent && from->first == x->first &&
            from->rows == x->rows && from->columns == x->columns && from->pitch == x->pitch)
            return at->bindings[1].tensor;
    }
    return 0;
}

DIT_INTERNAL diti_tensor diti_quantize_blocks(diti_graph *graph, diti_tensor x, const char *name) {
    diti_tensor_info info = *diti_tensor_get(graph, x);
    diti_weight like = DITI_ZERO; /* the rows of x, as those of a weight */
    diti_dispatch dispatch;
    diti_tensor out;
    if (diti_graph_failed(graph)) return 0;
    if (!diti_element_is_float(info.format) || info.columns % DITI_I8_BLOCK || !diti_op_aligned(graph, x))
        return diti_graph_fail(graph, DIT_ERROR_INVALID_ARGUMENT, "op %s: %s [%u, %u] has no whole blocks of floats",
                               name, info.name, info.rows, info.columns);
    out = diti_quantize_blocks_find(graph, &info);
    if (out) return out;
    out = diti_tensor_blocks(graph, info.rows, info.columns, name);
    if (!out || !diti_op_begin(graph, &dispatch, name, DITI_KERNEL_EXPAND, DITI_EXPAND_GROUP)) return 0;
    graph->tensors[out].floats = x;
    diti_guard_pass(graph, x, out);
    like.type = info.format == DITI_F16 ? DIT_TYPE_F16 : DIT_TYPE_F32;
    like.columns = info.columns;
    diti_expand_constants(&dispatch, &like, DITI_F32, false, 1);
    diti_expand_to_blocks(&dispatch);
    if (!diti_expand_source(graph, &dispatch, &like, info.rows, 0)) return 0;
    dispatch.push[DITI_EXPAND_ROW_BYTES] = info.pitch * diti_element_size(info.format);
    diti_expand_emit(graph, &dispatch, x, out, info.rows);
    return out;
}

DIT_INTERNAL diti_tensor diti_gather_rows(diti_graph *graph, const diti_weight *table, diti_tensor ids,
                                          const char *name) {
    uint32_t count, part;
    diti_tensor out, aligned;
    if (diti_graph_failed(graph)) return 0;
    count = diti_tensor_get(graph, ids)->columns;
    out = diti_tensor_new(graph, DITI_F32, count, table->columns, name);
    aligned = out;
    if (table->columns % 4) { /* the kernel writes whole groups of four */
        aligned = diti_tensor_new(graph, DITI_F32, count, (table->columns + 3u) & ~3u, name);
        out = diti_tensor_view(graph, aligned, 0, count, 0, table->columns);
    }
    for (part = 0; part < table->part_count; part++) {
        diti_tensor source = diti_tensor_weight(graph, table, part);
        diti_dispatch dispatch;
        if (!source || !diti_op_begin(graph, &dispatch, "gather rows", DITI_KERNEL_EXPAND, DITI_EXPAND_GROUP)) return 0;
        diti_expand_constants(&dispatch, table, DITI_F32, true, diti_expand_run(graph));
        if (!diti_expand_source(graph, &dispatch, table, count, 0)) return 0;
        dispatch.constants[3] = 0;
        dispatch.push[DITI_EXPAND_TABLE_FIRST] = table->parts[part].first_row;
        dispatch.push[DITI_EXPAND_TABLE_ROWS] = table->parts[part].rows;
        dispatch.push[DITI_EXPAND_LAST_PART] = part + 1 == table->part_count;
        diti_op_bind(graph, &dispatch, 2, ids, DITI_EXPAND_IDS, true, false);
        diti_expand_bind_factors(graph, &dispatch, table, part);
        diti_expand_emit(graph, &dispatch, source, aligned, count);
    }
    return out;
}

DIT_INTERNAL diti_tensor diti_gather_tensor(diti_graph *graph, diti_tensor table, diti_tensor ids, const char *name) {
    const diti_tensor_info *info = diti_tensor_get(graph, table);
    uint32_t count, rows = info->rows, columns = info->columns, pitch = info->pitch;
    diti_weight like = DITI_ZERO; /* rows of the table, as those of a weight */
    diti_dispatch dispatch;
    diti_tensor out;
    if (diti_graph_failed(graph)) return 0;
    if (info->format != DITI_F32 || columns % 4 || !diti_op_aligned(graph, table))
        return diti_graph_fail(graph, DIT_ERROR_INVALID_ARGUMENT, "op %s: %s [%u, %u] is not F32 in whole fours", name,
                               info->name, rows, columns);
    count = diti_tensor_get(graph, ids)->columns;
    out = diti_tensor_new(graph, DITI_F32, count, columns, name);
    if (!out || !diti_op_begin(graph, &dispatch, name, DITI_KERNEL_EXPAND, DITI_EXPAND_GROUP)) return 0;
    like.type = DIT_TYPE_F32;
    like.columns = columns;
    diti_expand_constants(&dispatch, &like, DITI_F32, true, diti_expand_run(graph));
    if (!diti_expand_source(graph, &dispatch, &like, count, 0)) return 0;
    dispatch.push[DITI_EXPAND_ROW_BYTES] = pitch * 4;
    dispatch.push[DITI_EXPAND_TABLE_ROWS] = rows;
    dispatch.push[DITI_EXPAND_LAST_PART] = true;
    diti_op_bind(graph, &dispatch, 2, ids, DITI_EXPAND_IDS, true, false);
    diti_expand_emit(graph, &dispatch, table, out, count);
    return out;
}
