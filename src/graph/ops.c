/* Helpers of all ops: filling a dispatch, alignment, views of weights. */
#include "graph/ops_internal.h"

DIT_INTERNAL bool diti_op_begin(diti_graph *graph, diti_dispatch *dispatch, const char *name, diti_kernel kernel,
                                uint32_t group_size) {
    memset(dispatch, 0, sizeof *dispatch);
    if (diti_graph_failed(graph)) return false;
    dispatch->name = name;
    dispatch->kernel = kernel;
    dispatch->constants[0] = group_size;
    dispatch->cost_kind = DITI_COST_MEMORY;
    return true;
}

DIT_INTERNAL void diti_op_bind(const diti_graph *graph, diti_dispatch *dispatch, uint32_t index, diti_tensor tensor,
                               uint8_t word, bool reads, bool writes) {
    diti_binding *binding = &dispatch->bindings[index];
    const diti_tensor_info *info = diti_tensor_get(graph, tensor);
    if (index >= dispatch->binding_count) dispatch->binding_count = index + 1;
    if (!tensor) return;
    binding->tensor = tensor;
    binding->reads = reads;
    binding->writes = writes;
    binding->offset_word = word;
    binding->element_bytes = (uint8_t)diti_element_size(info->format);
    binding->group_div = UINT32_MAX; /* every workgroup may touch all of it, and nothing behind it */
    binding->group_step = (uint64_t)info->rows * info->pitch;
    dispatch->memory_bytes += (double)info->rows * info->columns * binding->element_bytes * (reads && writes ? 2 : 1);
}

DIT_INTERNAL void diti_op_bind_rows(const diti_graph *graph, diti_dispatch *dispatch, uint32_t index, uint32_t div,
                                    uint64_t rows, uint64_t before, uint64_t after) {
    diti_binding *binding = &dispatch->bindings[index];
    uint64_t pitch = diti_tensor_get(graph, binding->tensor)->pitch;
    if (!binding->tensor) return;
    binding->group_div = div;
    binding->group_step = rows * pitch;
    binding->before = before * pitch;
    binding->after = after * pitch;
}

DIT_INTERNAL void diti_op_emit(diti_graph *graph, diti_dispatch *dispatch, uint64_t groups, uint32_t push_count) {
    if (groups > UINT32_MAX - 65536u) {
        diti_graph_fail(graph, DIT_ERROR_INVALID_ARGUMENT, "op %s is too large", dispatch->name);
        return;
    }
    dispatch->groups = (uint32_t)groups;
    dispatch->push_count = push_count;
    diti_graph_dispatch(graph, dispatch);
}

DIT_INTERNAL bool diti_op_aligned(const diti_graph *graph, diti_tensor tensor) {
    const diti_tensor_info *info = diti_tensor_get(graph, tensor);
    return !tensor || (info->first % 4 == 0 && info->pitch % 4 == 0);
}

DIT_INTERNAL bool diti_op_vector(const diti_graph *graph, diti_tensor tensor) {
    return diti_op_aligned(graph, tensor) && (!tensor || diti_tensor_get(graph, tensor)->columns % 4 == 0);
}

DIT_INTERNAL uint32_t diti_op_float(float value) {
    uint32_t word;
    memcpy(&word, &value, sizeof word);
    return word;
}

DIT_INTERNAL bool diti_op_writable(diti_graph *graph, diti_tensor tensor, uint32_t rows, uint32_t columns,
                                   const char *name) {
    const diti_tensor_info *info = diti_tensor_get(graph, tensor);
    if (diti_graph_failed(graph)) return false;
    if (!diti_element_is_float(info->format) || info->rows != rows || info->columns != columns) {
        diti_graph_fail(graph, DIT_ERROR_INVALID_ARGUMENT, "op %s writes [%u, %u] floats, tensor %s is [%u, %u]", name,
                        rows, columns, info->name, info->rows, info->columns);
        return false;
    }
    if (info->format == DITI_F16 && (info->first % 2 || info->pitch % 2)) {
        diti_graph_fail(graph, DIT_ERROR_INVALID_ARGUMENT,
                        "op %s cannot write F16 tensor %s [%u, %u]: its rows begin at odd elements", name, info->name,
                        rows, columns);
        return false;
    }
    return true;
}

DIT_INTERNAL diti_tensor diti_op_vector_weight(diti_graph *graph, const diti_weight *weight, uint32_t columns,
                                               const char *name) {
    if (!weight || !weight->part_count || diti_graph_failed(graph)) return 0;
    if (weight->type != DIT_TYPE_F32 || weight->part_count != 1 ||
        (uint64_t)weight->rows * weight->columns != columns) {
        return diti_graph_fail(graph, DIT_ERROR_INVALID_ARGUMENT, "op %s wants %u F32 values, %s is [%u, %u] of %s",
                               name, columns, weight->name ? weight->name : "the vector", weight->rows, weight->columns,
                               diti_type_name(weight->type));
    }
    return diti_tensor_reshape(graph, diti_tensor_weight(graph, weight, 0), 1, columns);
}
