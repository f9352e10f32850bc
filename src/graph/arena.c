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

/* Tensors that have a place, in a binary tree over ops: node 1 spans all of them, its children 2 and 3 a half each. A
   tensor hangs at the smallest node that spans its life, so whatever hangs at one node lives at the same time, and a
   search walks only past tensors that live near its own: plans of clips in tiles have a hundred thousand. */
typedef struct diti_arena_taken {
    VkDeviceSize offset, end;
    uint32_t block;
} diti_arena_taken;
typedef struct diti_arena {
    uint32_t *nodes, *next;  /* first tensor of a node, and the one after a tensor; 0: none */
    uint32_t levels;         /* node 1 spans 2^levels ops */
    diti_arena_taken *taken; /* found by the last search, in order of blocks and offsets */
    size_t count, capacity;
} diti_arena;

static bool diti_arena_open(const diti_graph *graph, diti_arena *arena, uint32_t last) {
    const diti_env *env = &graph->device->env;
    while (last >> arena->levels) arena->levels++;
    arena->nodes = (uint32_t *)diti_alloc_array(env, (size_t)2 << arena->levels, sizeof *arena->nodes);
    arena->next = (uint32_t *)diti_alloc_array(env, graph->tensor_count, sizeof *arena->next);
    return arena->nodes && arena->next;
}

static void diti_arena_close(const diti_env *env, diti_arena *arena) {
    diti_free(env, arena->nodes);
    diti_free(env, arena->next);
    diti_free(env, arena->taken);
}

static void diti_arena_hang(const diti_graph *graph, diti_arena *arena, uint32_t index) {
    const diti_tensor_info *tensor = &graph->tensors[index];
    uint32_t level = 0, *node;
    while (tensor->first_use >> level != tensor->last_use >> level) level++;
    node = &arena->nodes[((size_t)1 << (arena->levels - level)) + (tensor->first_use >> level)];
    arena->next[index] = *node;
    *node = index;
}

/* Adds what lives at the same time as the tensor and hangs at the node, which spans 2^level ops, or below it. */
static bool diti_arena_search(const diti_graph *graph, diti_arena *arena, const diti_tensor_info *tensor, uint32_t node,
                              uint32_t level) {
    uint32_t first = (node << level) - (1u << arena->levels), index;
    if (tensor->last_use < first || tensor->first_use > first + ((1u << level) - 1)) return true;
    for (index = arena->nodes[node]; index; index = arena->next[index]) {
        const diti_tensor_info *other = &graph->tensors[index];
        diti_arena_taken *place;
        if (other->first_use > tensor->last_use || tensor->first_use > other->last_use) continue;
        if (!diti_grow(&graph->device->env, (void **)&arena->taken, &arena->capacity, arena->count,
                       sizeof *arena->taken))
            return false;
        place = &arena->taken[arena->count++];
        place->block = other->block;
        place->offset = other->offset;
        place->end = other->offset + other->bytes;
    }
    return !level || (diti_arena_search(graph, arena, tensor, 2 * node, level - 1) &&
                      diti_arena_search(graph, arena, tensor, 2 * node + 1, level - 1));
}

static int diti_arena_compare(const void *a, const void *b) {
    const diti_arena_taken *x = (const diti_arena_taken *)a, *y = (const diti_arena_taken *)b;
    if (x->block != y->block) return x->block < y->block ? -1 : 1;
    return (x->offset > y->offset) - (x->offset < y->offset);
}

/* Lowest offset in block where so many bytes fit beside what the last search found: one pass in order of offsets that
   keeps the end of what is in the way finds the first gap. */
static VkDeviceSize diti_arena_find_gap(const diti_arena *arena, uint32_t block, VkDeviceSize bytes,
                                        VkDeviceSize alignment) {
    VkDeviceSize offset = 0, end;
    size_t i;
    for (i = 0; i < arena->count; i++) {
        const diti_arena_taken *taken = &arena->taken[i];
        if (taken->block != block) continue;
        if (offset + bytes <= taken->offset) break;
        end = diti_align_up(taken->end, alignment);
        if (end > offset) offset = end;
    }
    return offset;
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
    arena->count = 0;
    if (tensor->storage == DITI_STORAGE_ARENA && !diti_arena_search(graph, arena, tensor, 1, arena->levels))
        return diti_fail_memory(err, "the plan");
    diti_sort(arena->taken, arena->count, sizeof *arena->taken, diti_arena_compare);
    for (block = 0; block < plan->block_count; block++) {
        const diti_plan_block *in = &plan->blocks[block];
        if (in->storage != tensor->storage) continue;
        offset = tensor->storage == DITI_STORAGE_ARENA
                     ? diti_arena_find_gap(arena, block, tensor->bytes, alignment)
                     : diti_align_up(in->size, alignment); /* lives from the first op to the last */
        /* the largest come first: a block becomes larger than others only for a tensor that needs it */
        limit = in->size > limits->block ? in->size : limits->block;
        if (offset + tensor->bytes <= limit) break;
    }
    if (block == plan->block_count) {
        if (!diti_arena_new_block(plan, tensor->storage)) return diti_fail_memory(err, "the plan");
        offset = 0;
    }
    tensor->block = block;
    tensor->offset = offset;
    if (offset + tensor->bytes > plan->blocks[block].size) plan->blocks[block].size = offset + tensor->bytes;
    if (tensor->storage == DITI_STORAGE_ARENA) diti_arena_hang(graph, arena, index);
    return DIT_OK;
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
    diti_arena arena = DITI_ZERO;
    uint32_t last = 0;
    size_t count = 0, i;
    dit_result result = order ? DIT_OK : diti_fail_memory(err, "the plan");
    if (result >= 0) {
        diti_exchange_widen(graph);
        diti_arena_widen(graph);
        for (i = 1; i < graph->tensor_count; i++) {
            const diti_tensor_info *tensor = &graph->tensors[i];
            if (!diti_arena_needs_place(graph, i)) continue;
            order[count++] = (uint32_t)i;
            if (tensor->storage == DITI_STORAGE_ARENA && tensor->last_use > last) last = tensor->last_use;
        }
        diti_arena_sort(graph, order, order + graph->tensor_count, count);
        if (!diti_arena_open(graph, &arena, last)) result = diti_fail_memory(err, "the plan");
        for (i = 0; i < count && result >= 0; i++) result = diti_arena_place(graph, plan, &arena, order[i], err);
    }
    diti_arena_close(env, &arena);
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
