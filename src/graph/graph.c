/* The graph under construction: its tensors, segments and dispatches. The first failure is kept, and later calls do
   nothing, so that ops need not be checked one by one. */
#include "graph/ops_internal.h"

DIT_INTERNAL uint32_t diti_element_size(diti_element element) {
    return element == DITI_I8 ? 1u : element == DITI_F16 ? 2u : 4u;
}

DIT_INTERNAL bool diti_element_is_float(diti_element element) { return element == DITI_F32 || element == DITI_F16; }

DIT_INTERNAL void diti_graph_init(diti_graph *graph, diti_device *device) {
    memset(graph, 0, sizeof *graph);
    graph->device = device;
    graph->tensor_count = 1; /* 0 means "none" */
    graph->activation = device->rung >= DITI_RUNG_FP16 ? DITI_F16 : DITI_F32;
}

DIT_INTERNAL void diti_graph_free(diti_graph *graph) {
    if (!graph->device) return;
    diti_free(&graph->device->env, graph->tensors);
    diti_free(&graph->device->env, graph->dispatches);
    diti_free(&graph->device->env, graph->wanted);
    diti_free(&graph->device->env, graph->guard_records);
    diti_free(&graph->device->env, graph->lates);
    diti_free(&graph->device->env, graph->exchanges);
    diti_cuts_free(&graph->device->env, graph->cuts, graph->cut_count);
    diti_free(&graph->device->env, graph->events);
    diti_free(&graph->device->env, graph->marks);
    memset(graph, 0, sizeof *graph);
}

DIT_INTERNAL diti_tensor diti_graph_fail(diti_graph *graph, dit_result result, const char *format, ...) {
    va_list args;
    if (diti_graph_failed(graph)) return 0;
    graph->error.result = result;
    va_start(args, format);
    vsnprintf(graph->error.message, sizeof graph->error.message, format, args);
    va_end(args);
    return 0;
}

DIT_INTERNAL diti_tensor diti_graph_fail_memory(diti_graph *graph, const char *format, ...) {
    char what[256];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    return diti_graph_fail(graph, DIT_ERROR_OUT_OF_HOST_MEMORY, "no host memory for %s", what);
}

DIT_INTERNAL uint32_t diti_graph_segment(diti_graph *graph, const char *name, bool repeated) {
    diti_segment *segment;
    if (graph->segment_count == DITI_COUNT(graph->segments)) {
        return diti_graph_fail(graph, DIT_ERROR_UNSUPPORTED_MODEL, "the plan has more than %u segments",
                               (unsigned)DITI_COUNT(graph->segments));
    }
    segment = &graph->segments[graph->segment_count];
    diti_format(segment->name, sizeof segment->name, "%s", name);
    segment->first = (uint32_t)graph->dispatch_count;
    segment->repeated = repeated;
    graph->segment_count++;
    diti_graph_mark(graph, DITI_NO_BLOCK);
    return graph->segment_count - 1;
}

DIT_INTERNAL void diti_graph_scope(diti_graph *graph, const char *what, uint32_t index) {
    graph->scope[0] = 0;
    if (what) diti_format(graph->scope, sizeof graph->scope, "%s %u", what, index);
    diti_graph_mark(graph, what ? index : DITI_NO_BLOCK);
}

/* Appends a tensor; the pointer is valid until the next tensor is made. */
static diti_tensor_info *diti_graph_add(diti_graph *graph, diti_tensor *out) {
    diti_tensor_info *info;
    *out = 0;
    if (diti_graph_failed(graph)) return NULL;
    if (!diti_grow(&graph->device->env, (void **)&graph->tensors, &graph->tensor_capacity, graph->tensor_count,
                   sizeof *graph->tensors)) {
        diti_graph_fail_memory(graph, "%u tensors", (unsigned)graph->tensor_count);
        return NULL;
    }
    *out = (diti_tensor)graph->tensor_count++;
    info = &graph->tensors[*out];
    memset(info, 0, sizeof *info);
    info->parent = *out;
    info->first_use = DITI_UNUSED_YET;
    return info;
}

static diti_tensor diti_tensor_make(diti_graph *graph, diti_storage storage, diti_element format, uint32_t rows,
                                    uint32_t columns, const char *name) {
    diti_tensor tensor;
    diti_tensor_info *info;
    uint64_t elements;
    if (rows == 0 || columns == 0 || columns > UINT32_MAX - 32u) {
        return diti_graph_fail(graph, DIT_ERROR_INVALID_ARGUMENT, "tensor %s has the impossible shape [%u, %u]", name,
                               rows, columns);
    }
    info = diti_graph_add(graph, &tensor);
    if (!info) return 0;
    diti_format(info->name, sizeof info->name, "%s", name);
    info->storage = storage;
    info->format = format;
    info->rows = rows;
    info->columns = columns;
    info->pitch = format == DITI_I8 ? diti_i8_pitch(columns) : columns == 1 ? 1 : (columns + 3u) & ~3u;
    elements = (uint64_t)rows * info->pitch;
    info->bytes = diti_align_up(elements * diti_element_size(format), 16);
    if (elements > UINT32_MAX) {
        return diti_graph_fail(graph, DIT_ERROR_INVALID_ARGUMENT, "tensor %s [%u, %u] has more than 2^32 elements",
                               name, rows, columns);
    }
    return tensor;
}

DIT_INTERNAL diti_tensor diti_tensor_new(diti_graph *graph, diti_element format, uint32_t rows, uint32_t columns,
                                         const char *name) {
    return diti_tensor_make(graph, DITI_STORAGE_ARENA, format, rows, columns, name);
}

DIT_INTERNAL diti_tensor diti_tensor_blocks(diti_graph *graph, uint32_t rows, uint32_t columns, const char *name) {
    const uint32_t bytes = columns + columns / DITI_I8_BLOCK * 4u; /* the last scale lies where that of a row does */
    diti_tensor tensor = diti_tensor_new(graph, DITI_I8, rows, bytes - 16u, name);
    if (!tensor) return 0;
    graph->tensors[tensor].columns = columns;
    graph->tensors[tensor].blocks = true;
    return tensor;
}

DIT_INTERNAL diti_tensor diti_tensor_state(diti_graph *graph, diti_element format, uint32_t rows, uint32_t columns,
                                           const char *name) {
    return diti_tensor_make(graph, DITI_STORAGE_STATE, format, rows, columns, name);
}

DIT_INTERNAL diti_tensor diti_tensor_input(diti_graph *graph, diti_element format, uint32_t rows, uint32_t columns,
                                           const char *name) {
    return diti_tensor_make(graph, DITI_STORAGE_INPUT, format, rows, columns, name);
}

DIT_INTERNAL diti_tensor diti_tensor_view(diti_graph *graph, diti_tensor tensor, uint32_t row, uint32_t rows,
                                          uint32_t column, uint32_t columns) {
    diti_tensor view;
    diti_tensor_info *info, base;
    if (diti_graph_failed(graph)) return 0;
    base = *diti_tensor_get(graph, tensor);
    if ((uint64_t)row + rows > base.rows || (uint64_t)column + columns > base.columns || rows == 0 || columns == 0) {
        return diti_graph_fail(graph, DIT_ERROR_INVALID_ARGUMENT, "view [%u+%u, %u+%u] lies outside tensor %s [%u, %u]",
                               row, rows, column, columns, base.name, base.rows, base.columns);
    }
    info = diti_graph_add(graph, &view);
    if (!info) return 0;
    *info = base;
    info->rows = rows;
    info->columns = columns;
    info->first = base.first + (uint64_t)row * base.pitch + column;
    return view;
}

DIT_INTERNAL diti_tensor diti_tensor_reshape(diti_graph *graph, diti_tensor tensor, uint32_t rows, uint32_t columns) {
    diti_tensor view;
    diti_tensor_info *info, base;
    if (diti_graph_failed(graph)) return 0;
    base = *diti_tensor_get(graph, tensor);
    if ((base.pitch != base.columns && base.rows > 1) ||
        (uint64_t)rows * columns != (uint64_t)base.rows * base.columns) {
        return diti_graph_fail(graph, DIT_ERROR_INVALID_ARGUMENT, "tensor %s [%u, %u] cannot be seen as [%u, %u]",
                               base.name, base.rows, base.columns, rows, columns);
    }
    info = diti_graph_add(graph, &view);
    if (!info) return 0;
    *info = base;
    info->rows = rows;
    info->columns = columns;
    info->pitch = columns;
    return view;
}

DIT_INTERNAL diti_tensor diti_tensor_padded(diti_graph *graph, diti_tensor tensor) {
    const diti_tensor_info *info = diti_tensor_get(graph, tensor);
    diti_tensor view = diti_tensor_view(graph, tensor, 0, info->rows, 0, info->columns);
    if (view) graph->tensors[view].columns = graph->tensors[view].pitch;
    return view;
}

DIT_INTERNAL diti_tensor diti_tensor_weight(diti_graph *graph, const diti_weight *weight, uint32_t part) {
    diti_tensor tensor;
    diti_tensor_info *info;
    if (part >= weight->part_count)
        return diti_graph_fail(graph, DIT_ERROR_INVALID_ARGUMENT, "the weight %s is missing",
                               weight->name ? weight->name : "");
    info = diti_graph_add(graph, &tensor);
    if (!info) return 0;
    diti_format(info->name, sizeof info->name, "%s", weight->name ? weight->name : "weight");
    info->storage = DITI_STORAGE_WEIGHT;
    info->format = diti_type_is_i8(weight->type) ? DITI_I8 : weight->type == DIT_TYPE_F16 ? DITI_F16 : DITI_F32;
    info->rotated = diti_type_is_rotated(weight->type);
    info->rows = weight->parts[part].rows;
    info->columns = weight->columns;
    info->halved = weight->type == DIT_TYPE_I4_ROW_ROTATED;
    info->pitch =
        info->format == DITI_I8 ? diti_i8_pitch(diti_i8_bytes(weight->type, weight->columns)) : weight->columns;
    info->part = &weight->parts[part];
    diti_weight_bytes(weight->type, info->rows, info->columns, &info->bytes);
    info->bytes = diti_align_up(info->bytes, 4); /* kernels read whole words */
    return graph->add_to_vector && weight->type == DIT_TYPE_F32 ? graph->add_to_vector(graph, weight, tensor) : tensor;
}

DIT_INTERNAL diti_tensor diti_tensor_factors(diti_graph *graph, const diti_weight *weight) {
    diti_tensor tensor;
    diti_tensor_info *info = weight->factor.rows ? diti_graph_add(graph, &tensor) : NULL;
    if (!info) return 0;
    diti_format(info->name, sizeof info->name, "%s", weight->name ? weight->name : "weight");
    info->storage = DITI_STORAGE_WEIGHT;
    info->format = DITI_F32;
    info->rows = 1;
    info->columns = info->pitch = weight->factor.rows;
    info->part = &weight->factor;
    info->bytes = (uint64_t)weight->factor.rows * sizeof(float);
    return tensor;
}

DIT_INTERNAL diti_tensor diti_tensor_bytes(diti_graph *graph, const diti_weight *weight, uint32_t part) {
    diti_tensor tensor = diti_tensor_weight(graph, weight, part);
    if (tensor) graph->tensors[tensor].format = DITI_I8;
    return tensor;
}

DIT_INTERNAL const diti_tensor_info *diti_tensor_get(const diti_graph *graph, diti_tensor tensor) {
    static const diti_tensor_info none = DITI_ZERO; /* before the first tensor could be made */
    if (!graph->tensors) return &none;
    return &graph->tensors[tensor < graph->tensor_count ? tensor : 0];
}

DIT_INTERNAL uint32_t diti_tensor_rows(const diti_graph *graph, diti_tensor tensor) {
    return diti_graph_failed(graph) ? 0 : diti_tensor_get(graph, tensor)->rows;
}

DIT_INTERNAL uint32_t diti_tensor_columns(const diti_graph *graph, diti_tensor tensor) {
    return diti_graph_failed(graph) ? 0 : diti_tensor_get(graph, tensor)->columns;
}

static void diti_graph_use(diti_graph *graph, diti_tensor tensor, uint32_t dispatch) {
    diti_tensor_info *parent = &graph->tensors[graph->tensors[tensor].parent];
    if (parent->first_use == DITI_UNUSED_YET) parent->first_use = dispatch;
    parent->last_use = dispatch;
}

/* Whether an expansion may change places with the newest dispatch: that is the product which reads the expansion before
   it, and nothing begins or ends between the two. */
static bool diti_graph_may_pass(const diti_graph *graph) {
    size_t count = graph->dispatch_count;
    const diti_dispatch *newest = graph->dispatches + count - 1;
    uint32_t i;
    if (graph->segments[graph->segment_count - 1].count == 0 || newest->early) return false;
    if (graph->event_count && graph->events[graph->event_count - 1].place == count) return false;
    if (graph->mark_count && graph->marks[graph->mark_count - 1].place == count) return false;
    for (i = 0; i < newest->binding_count; i++)
        if (newest->bindings[i].tensor && graph->tensors[newest->bindings[i].tensor].parent == graph->made_early)
            return true;
    return false;
}

/* The newest two dispatches change places. Tensors of either live at both, so that they can change places again. */
static void diti_graph_pass(diti_graph *graph) {
    uint32_t place = (uint32_t)graph->dispatch_count - 1, i;
    diti_dispatch *at = &graph->dispatches[place - 1], product = at[0], expansion = at[1];
    at[0] = expansion;
    at[0].passed = true;
    at[1] = product;
    for (i = 0; i < product.binding_count; i++)
        if (product.bindings[i].tensor) diti_graph_use(graph, product.bindings[i].tensor, place);
    for (i = 0; i < expansion.binding_count; i++) {
        diti_tensor_info *made = &graph->tensors[graph->tensors[expansion.bindings[i].tensor].parent];
        if (expansion.bindings[i].writes) made->first_use = place - 1;
    }
}

DIT_INTERNAL void diti_graph_dispatch(diti_graph *graph, const diti_dispatch *dispatch) {
    diti_dispatch *copy;
    bool passes;
    uint32_t i;
    if (diti_graph_failed(graph)) return;
    if (graph->segment_count == 0) {
        diti_graph_fail(graph, DIT_ERROR_INVALID_ARGUMENT, "op %s comes before the first segment", dispatch->name);
        return;
    }
    if (!diti_grow(&graph->device->env, (void **)&graph->dispatches, &graph->dispatch_capacity, graph->dispatch_count,
                   sizeof *graph->dispatches)) {
        diti_graph_fail_memory(graph, "%u dispatches", (unsigned)graph->dispatch_count);
        return;
    }
    for (i = 0; i < dispatch->binding_count; i++) {
        if (dispatch->bindings[i].tensor)
            diti_graph_use(graph, dispatch->bindings[i].tensor, (uint32_t)graph->dispatch_count);
    }
    passes = dispatch->early && diti_graph_may_pass(graph);
    copy = &graph->dispatches[graph->dispatch_count++];
    *copy = *dispatch;
    copy->segment = graph->segment_count - 1;
    copy->gate = graph->gate;
    copy->gate_else = graph->gate_else;
    graph->gated = graph->gated || graph->gate;
    graph->segments[copy->segment].count++;
    if (passes) diti_graph_pass(graph);
    for (i = 0; i < dispatch->binding_count && dispatch->early; i++)
        if (dispatch->bindings[i].writes) graph->made_early = graph->tensors[dispatch->bindings[i].tensor].parent;
}

DIT_INTERNAL void diti_graph_mark(diti_graph *graph, uint32_t block) {
    diti_mark *mark;
    if (diti_graph_failed(graph) || !graph->segment_count) return;
    if (!diti_grow(&graph->device->env, (void **)&graph->marks, &graph->mark_capacity, graph->mark_count,
                   sizeof *graph->marks)) {
        diti_graph_fail_memory(graph, "the plan");
        return;
    }
    mark = &graph->marks[graph->mark_count++];
    mark->block = block;
    mark->segment = graph->segment_count - 1;
    mark->place = (uint32_t)graph->dispatch_count;
    mark->event = (uint32_t)graph->event_count;
    mark->tensor = (uint32_t)graph->tensor_count;
    memcpy(mark->scope, graph->scope, sizeof mark->scope);
}
