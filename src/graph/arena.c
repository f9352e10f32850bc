/* Where tensors live: arena tensors share memory by liveness, states and inputs get their own. */
#include "graph/plan_internal.h"

/* A run of repeated segments is one loop, and one under guards may run again: whatever comes into it from before must
   survive until its last dispatch. */
static void diti_arena_widen_loop(diti_graph *graph, uint32_t first, uint32_t end) {
    size_t i;
    for (i = 1; i < graph->tensor_count; i++) {
        diti_tensor_info *tensor = &graph->tensors[i];
        if (tensor->first_use < first && tensor->last_use >= first && tensor->last_use < end)
            tensor->last_use = end - 1;
    }
}

/* The segment behind the repeated ones from s on. */
static uint32_t diti_arena_loop_end(const diti_graph *graph, uint32_t s) {
    while (s < graph->segment_count && graph->segments[s].repeated) s++;
    return s;
}

static void diti_arena_widen(diti_graph *graph) {
    bool again = graph->guards && graph->activation == DITI_F16;
    uint32_t s, end, last;
    for (s = 0; s < graph->segment_count; s = end) {
        const diti_segment *segment = &graph->segments[s];
        end = segment->repeated ? diti_arena_loop_end(graph, s) : s + 1;
        last = segment->late ? diti_arena_loop_end(graph, s + 1) : end;
        if (segment->repeated || segment->late || again)
            diti_arena_widen_loop(graph, segment->first,
                                  graph->segments[last - 1].first + graph->segments[last - 1].count);
    }
}

static bool diti_arena_overlap_in_time(const diti_tensor_info *a, const diti_tensor_info *b) {
    return a->storage != DITI_STORAGE_ARENA || (a->first_use <= b->last_use && b->first_use <= a->last_use);
}

/* Tensors that have a place, by offset. Most live for a few ops, and are compared only with those that live in the same
   part of the plan: plans of clips in tiles have tens of thousands. */
#define DITI_ARENA_PARTS 256u
typedef struct diti_arena_list {
    uint32_t *tensors;
    size_t count, capacity;
} diti_arena_list;
typedef struct diti_arena {
    diti_arena_list all, parts[DITI_ARENA_PARTS];
    uint32_t part_ops; /* ops of a part */
} diti_arena;

/* Lowest offset in block where tensor fits beside everything placed there that lives at the same time. The list is
   ordered by offset, so one pass that keeps the end of what is in the way finds the first gap. */
static VkDeviceSize diti_arena_find_gap(const diti_graph *graph, const diti_arena *arena, uint32_t block,
                                        const diti_tensor_info *tensor, VkDeviceSize alignment) {
    uint32_t part = tensor->first_use / arena->part_ops;
    const bool brief = tensor->storage == DITI_STORAGE_ARENA && part == tensor->last_use / arena->part_ops;
    const diti_arena_list *placed = brief ? &arena->parts[part] : &arena->all;
    VkDeviceSize offset = 0, end;
    size_t i;
    for (i = 0; i < placed->count; i++) {
        const diti_tensor_info *other = &graph->tensors[placed->tensors[i]];
        if (other->block != block || !diti_arena_overlap_in_time(other, tensor)) continue;
        if (offset + tensor->bytes <= other->offset) break;
        end = diti_align_up(other->offset + other->bytes, alignment);
        if (end > offset) offset = end;
    }
    return offset;
}

static bool diti_arena_insert(const diti_graph *graph, diti_arena_list *placed, uint32_t tensor) {
    size_t first = 0, end = placed->count, middle;
    if (!diti_grow(&graph->device->env, (void **)&placed->tensors, &placed->capacity, placed->count,
                   sizeof *placed->tensors))
        return false;
    while (first < end) {
        middle = first + (end - first) / 2;
        if (graph->tensors[placed->tensors[middle]].offset > graph->tensors[tensor].offset)
            end = middle;
        else
            first = middle + 1;
    }
    memmove(placed->tensors + first + 1, placed->tensors + first, (placed->count - first) * sizeof *placed->tensors);
    placed->tensors[first] = tensor;
    placed->count++;
    return true;
}

static bool diti_arena_remember(const diti_graph *graph, diti_arena *arena, uint32_t index) {
    const diti_tensor_info *tensor = &graph->tensors[index];
    uint32_t part;
    if (!diti_arena_insert(graph, &arena->all, index)) return false;
    if (tensor->storage != DITI_STORAGE_ARENA) return true;
    for (part = tensor->first_use / arena->part_ops; part <= tensor->last_use / arena->part_ops; part++)
        if (!diti_arena_insert(graph, &arena->parts[part], index)) return false;
    return true;
}

static bool diti_arena_new_block(diti_plan *plan, diti_storage storage) {
    if (!diti_grow(&plan->device->env, (void **)&plan->blocks, &plan->block_capacity, plan->block_count,
                   sizeof *plan->blocks))
        return false;
    memset(&plan->blocks[plan->block_count], 0, sizeof plan->blocks[0]);
    plan->blocks[plan->block_count++].storage = storage;
    return true;
}

static dit_result diti_arena_place(diti_graph *graph, diti_plan *plan, diti_arena *arena, uint32_t index,
                                   dit_error *err) {
    diti_tensor_info *tensor = &graph->tensors[index];
    const diti_limits *limits = &graph->device->limits;
    VkDeviceSize limit = limits->allocation, alignment = limits->storage_alignment, offset = 0;
    uint32_t block;
    if (alignment < 16) alignment = 16;
    if (tensor->bytes > limit) {
        return diti_fail(
            err, DIT_ERROR_OUT_OF_DEVICE_MEMORY,
            "tensor %s [%u, %u] needs %llu bytes in one allocation, the device allows %llu; set vae_tile for a tensor of the "
            "VAE, or ask for a smaller image or batch",
            tensor->name, tensor->rows, tensor->columns, (unsigned long long)tensor->bytes, (unsigned long long)limit);
    }
    for (block = 0; block < plan->block_count; block++) {
        if (plan->blocks[block].storage != tensor->storage) continue;
        offset = diti_arena_find_gap(graph, arena, block, tensor, alignment);
        /* the largest come first: a block becomes larger than others only for a tensor that needs it */
        limit = plan->blocks[block].size > limits->block ? plan->blocks[block].size : limits->block;
        if (offset + tensor->bytes <= limit) break;
    }
    if (block == plan->block_count) {
        if (!diti_arena_new_block(plan, tensor->storage)) return diti_fail_memory(err, "the plan");
        offset = 0;
    }
    tensor->block = block;
    tensor->offset = offset;
    if (offset + tensor->bytes > plan->blocks[block].size) plan->blocks[block].size = offset + tensor->bytes;
    return diti_arena_remember(graph, arena, index) ? DIT_OK : diti_fail_memory(err, "the plan");
}

/* Large tensors first: they find gaps hardest. Stable, so that equal sizes keep their order. */
static void diti_arena_sort(const diti_graph *graph, uint32_t *order, uint32_t *scratch, size_t count) {
    size_t half = count / 2, i = 0, left = 0, right = half;
    if (count < 2) return;
    diti_arena_sort(graph, order, scratch, half);
    diti_arena_sort(graph, order + half, scratch, count - half);
    while (i < count) {
        bool take_left =
            right == count || (left < half && graph->tensors[order[left]].bytes >= graph->tensors[order[right]].bytes);
        scratch[i++] = take_left ? order[left++] : order[right++];
    }
    memcpy(order, scratch, count * sizeof *order);
}

static bool diti_arena_needs_place(const diti_graph *graph, size_t index) {
    const diti_tensor_info *tensor = &graph->tensors[index];
    return tensor->parent == index && tensor->storage != DITI_STORAGE_WEIGHT &&
           (tensor->storage != DITI_STORAGE_ARENA || tensor->first_use != DITI_UNUSED_YET);
}

static void diti_arena_copy_to_views(diti_graph *graph) {
    size_t i;
    for (i = 1; i < graph->tensor_count; i++) {
        const diti_tensor_info *parent = &graph->tensors[graph->tensors[i].parent];
        graph->tensors[i].block = parent->block;
        graph->tensors[i].offset = parent->offset;
    }
}

DIT_INTERNAL dit_result diti_plan_assign_memory(diti_graph *graph, diti_plan *plan, dit_error *err) {
    const diti_env *env = &graph->device->env;
    uint32_t *order = (uint32_t *)diti_alloc_array(env, graph->tensor_count * 2, sizeof *order);
    diti_arena *arena = (diti_arena *)diti_alloc_array(env, 1, sizeof *arena);
    uint32_t last = 0;
    size_t count = 0, i;
    dit_result result = order && arena ? DIT_OK : diti_fail_memory(err, "the plan");
    if (result >= 0) {
        diti_exchange_widen(graph);
        diti_arena_widen(graph);
        for (i = 1; i < graph->tensor_count; i++) {
            const diti_tensor_info *tensor = &graph->tensors[i];
            if (!diti_arena_needs_place(graph, i)) continue;
            order[count++] = (uint32_t)i;
            if (tensor->storage == DITI_STORAGE_ARENA && tensor->last_use > last) last = tensor->last_use;
        }
        arena->part_ops = last / DITI_ARENA_PARTS + 1;
        diti_arena_sort(graph, order, order + graph->tensor_count, count);
        for (i = 0; i < count && result >= 0; i++) result = diti_arena_place(graph, plan, arena, order[i], err);
    }
    for (i = 0; arena && i < DITI_ARENA_PARTS; i++) diti_free(env, arena->parts[i].tensors);
    if (arena) diti_free(env, arena->all.tensors);
    diti_free(env, arena);
    diti_free(env, order);
    DITI_TRY(result);
    diti_arena_copy_to_views(graph);
    return DIT_OK;
}

DIT_INTERNAL dit_result diti_plan_measure(diti_graph *graph, diti_plan_memory *out, dit_error *err) {
    diti_plan plan;
    dit_result result;
    size_t i;
    memset(&plan, 0, sizeof plan);
    memset(out, 0, sizeof *out);
    if (diti_graph_failed(graph)) {
        if (err) *err = graph->error;
        return graph->error.result;
    }
    plan.device = graph->device;
    result = diti_plan_assign_memory(graph, &plan, err);
    for (i = 0; i < plan.block_count && result >= 0; i++) {
        *(plan.blocks[i].storage == DITI_STORAGE_INPUT ? &out->inputs : &out->activations) += plan.blocks[i].size;
        out->blocks++;
    }
    diti_free(&graph->device->env, plan.blocks);
    return result;
}

DIT_INTERNAL VkBuffer diti_plan_buffer(const diti_plan *plan, diti_tensor tensor, VkDeviceSize *offset,
                                       VkDeviceSize *size) {
    const diti_tensor_info *info = &plan->tensors[tensor];
    VkDeviceSize element = diti_element_size(info->format);
    *offset = info->offset + info->first * element;
    *size = ((VkDeviceSize)(info->rows - 1) * info->pitch + info->columns) * element;
    if (plan->tensors[info->parent].storage == DITI_STORAGE_WEIGHT) {
        *offset = plan->tensors[info->parent].offset + info->first * element;
        return plan->tensors[info->parent].buffer;
    }
    return plan->blocks[info->block].buffer.buffer;
}
