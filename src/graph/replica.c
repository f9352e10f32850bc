/* Weights where they are needed: cut from larger ones for devices that divide them, copied to other devices than that
   of loading, read from the file when a plan wants them. What has come to a device stays, for all plans. */
#include "graph/graph.h"

/* ---- cutting ---- */

typedef struct diti_cut_weight {
    const diti_weight *source;
    diti_cut cut;
    diti_weight weight;
    diti_pieces pieces;
} diti_cut_weight;

DIT_INTERNAL uint32_t diti_weight_unit(const diti_weight *weight) {
    uint32_t block;
    if (diti_type_is_i8(weight->type)) return weight->type == DIT_TYPE_I8_ROW_ROTATED ? DITI_ROTATION_GROUP : 16;
    block = diti_type_block(weight->type);
    return block > 4 ? block : 4;
}

DIT_INTERNAL void diti_cuts_free(const diti_env *env, diti_cut_weight **cuts, size_t count) {
    size_t i;
    for (i = 0; i < count; i++) diti_free(env, cuts[i]);
    diti_free(env, cuts);
}

static uint64_t diti_cut_row_bytes(const diti_weight *weight, uint32_t columns) {
    uint64_t bytes = 0;
    if (columns) diti_weight_bytes(weight->type, 1, columns, &bytes);
    return bytes;
}

/* Bytes in which so many values of a row stand, without what stands behind a whole one. */
static uint64_t diti_cut_bytes(const diti_weight *weight, uint32_t columns) {
    return diti_type_is_i8(weight->type) ? columns : diti_cut_row_bytes(weight, columns);
}

/* The stretches of cut, and the scale behind a row of int8. */
static void diti_cut_pieces(diti_cut_weight *made) {
    const diti_weight *source = made->source;
    diti_pieces *pieces = &made->pieces;
    uint64_t to = 0;
    uint32_t i;
    pieces->from_pitch = diti_cut_row_bytes(source, source->columns);
    pieces->to_pitch = diti_cut_row_bytes(source, made->weight.columns);
    for (i = 0; i < 2 && made->cut.columns[i].count; i++) {
        pieces->list[i].from = diti_cut_bytes(source, made->cut.columns[i].first);
        pieces->list[i].to = to;
        to += pieces->list[i].size = diti_cut_bytes(source, made->cut.columns[i].count);
    }
    if (diti_type_is_i8(source->type)) {
        pieces->list[i].from = pieces->from_pitch - 16;
        pieces->list[i].to = pieces->to_pitch - 16;
        pieces->list[i++].size = 16;
    }
    pieces->count = i;
}

static void diti_cut_parts(diti_cut_weight *made) {
    const diti_weight *source = made->source;
    diti_weight *out = &made->weight;
    uint64_t row_bytes = diti_cut_row_bytes(source, source->columns);
    uint32_t i, begin = made->cut.row, end = begin + out->rows;
    for (i = 0; i < source->part_count; i++) {
        diti_weight_part part = source->parts[i];
        uint32_t first = part.first_row, last = first + part.rows;
        if (first < begin) first = begin;
        if (last > end) last = end;
        if (first >= last) continue;
        part.offset += (first - part.first_row) * row_bytes;
        part.first_row = first - begin;
        part.rows = last - first;
        if (made->pieces.count) part.pieces = &made->pieces;
        out->parts[out->part_count++] = part;
    }
}

/* What reaches to the end of rows may have any length; rotated rows have whole groups. */
static bool diti_cut_fits(const diti_weight *weight, const diti_cut *cut) {
    uint32_t i, unit = diti_weight_unit(weight);
    bool whole = weight->type == DIT_TYPE_I8_ROW_ROTATED;
    if (weight->kernel > 1 || cut->row > weight->rows || cut->rows > weight->rows - cut->row) return false;
    for (i = 0; i < 2; i++) {
        uint32_t first = cut->columns[i].first, count = cut->columns[i].count;
        if (first > weight->columns || count > weight->columns - first || first % unit) return false;
        if (count % unit && (whole || first + count < weight->columns)) return false;
    }
    return true;
}

static const diti_weight *diti_cut_find(const diti_graph *graph, const diti_weight *weight, const diti_cut *cut) {
    size_t i;
    for (i = 0; i < graph->cut_count; i++)
        if (graph->cuts[i]->source == weight && !memcmp(&graph->cuts[i]->cut, cut, sizeof *cut))
            return &graph->cuts[i]->weight;
    return NULL;
}

DIT_INTERNAL const diti_weight *diti_weight_cut(diti_graph *graph, const diti_weight *weight, const diti_cut *cut) {
    const diti_weight *known = diti_cut_find(graph, weight, cut);
    diti_cut_weight *made;
    if (known || (!cut->rows && !cut->columns[0].count) || diti_graph_failed(graph)) return known ? known : weight;
    made = (diti_cut_weight *)diti_alloc_zero(&graph->device->env, sizeof *made);
    if (!made || !diti_grow(&graph->device->env, (void **)&graph->cuts, &graph->cut_capacity, graph->cut_count,
                            sizeof *graph->cuts)) {
        diti_free(&graph->device->env, made);
        diti_graph_fail(graph, DIT_ERROR_OUT_OF_HOST_MEMORY, "no host memory for the plan");
        return weight;
    }
    graph->cuts[graph->cut_count++] = made;
    if (!diti_cut_fits(weight, cut)) {
        diti_graph_fail(graph, DIT_ERROR_INVALID_ARGUMENT, "weight %s [%u, %u] of %s cannot be cut at such places",
                        weight->name ? weight->name : "", weight->rows, weight->columns, diti_type_name(weight->type));
        return weight;
    }
    made->source = weight;
    made->cut = *cut;
    made->weight.name = weight->name;
    made->weight.type = weight->type;
    made->weight.kernel = weight->kernel;
    made->weight.rows = cut->rows ? cut->rows : weight->rows;
    made->weight.columns = cut->columns[0].count ? cut->columns[0].count + cut->columns[1].count : weight->columns;
    if (made->weight.columns != weight->columns) diti_cut_pieces(made);
    diti_cut_parts(made);
    return &made->weight;
}

/* ---- what is where ---- */

DIT_INTERNAL diti_replicas *diti_replicas_create(const diti_env *env, diti_device *home) {
    diti_replicas *replicas = (diti_replicas *)diti_alloc_zero(env, sizeof *replicas);
    if (!replicas) return NULL;
    replicas->env = *env;
    replicas->home = home;
    return replicas;
}

DIT_INTERNAL void diti_replicas_free(diti_replicas *replicas) {
    diti_env env;
    size_t i;
    if (!replicas) return;
    env = replicas->env;
    for (i = 0; i < replicas->block_count; i++) {
        diti_buffer_destroy(replicas->blocks[i]->device, &replicas->blocks[i]->buffer);
        diti_free(&env, replicas->blocks[i]);
    }
    diti_free(&env, replicas->blocks);
    diti_free(&env, replicas->list);
    diti_free(&env, replicas);
}

DIT_INTERNAL uint64_t diti_replicas_bytes(diti_replicas *replicas, const diti_device *device) {
    uint64_t bytes = 0;
    size_t i;
    if (!replicas) return 0;
    diti_lock(&replicas->lock);
    for (i = 0; i < replicas->block_count; i++)
        if (replicas->blocks[i]->device == device) bytes += replicas->blocks[i]->buffer.size;
    diti_unlock(&replicas->lock);
    return bytes;
}

static const void *diti_replica_source(const diti_weight_part *part) {
    return part->streamed ? (const void *)part->streamed : (const void *)part->buffer;
}

static diti_replicas *diti_replicas_of(const diti_weight_part *part) {
    return part->streamed ? part->streamed->replicas : part->buffer->replicas;
}

static bool diti_replica_same(const diti_replica *replica, const diti_device *device, const diti_tensor_info *weight) {
    static const diti_pieces whole = DITI_ZERO;
    const diti_weight_part *part = weight->part;
    return replica->device == device && replica->source == diti_replica_source(part) && replica->from == part->offset &&
           replica->bytes == weight->bytes &&
           !memcmp(&replica->pieces, part->pieces ? part->pieces : &whole, sizeof whole);
}

static diti_replica *diti_replica_find(diti_replicas *replicas, const diti_device *device,
                                       const diti_tensor_info *weight) {
    size_t i;
    for (i = 0; i < replicas->count; i++)
        if (diti_replica_same(&replicas->list[i], device, weight)) return &replicas->list[i];
    return NULL;
}

/* The part is where it was loaded, and can be bound there. */
static bool diti_replica_needless(const diti_device *device, const diti_weight_part *part) {
    if (part->streamed || part->pieces) return false;
    return !part->buffer->replicas || (part->buffer->replicas->home == device && part->offset % 16 == 0);
}

/* ---- bytes ---- */

static dit_result diti_replica_read_file(const diti_streamed *streamed, uint64_t from, uint64_t size,
                                         unsigned char *out, dit_error *err) {
    size_t low = 0, high = streamed->count;
    dit_result result = DIT_OK;
    while (low + 1 < high) { /* the last upload that begins at from or before */
        size_t middle = low + (high - low) / 2;
        if (streamed->uploads[middle].target <= from)
            low = middle;
        else
            high = middle;
    }
    for (; size && low < streamed->count && result >= 0; low++) {
        const diti_upload *upload = &streamed->uploads[low];
        uint64_t done = from - upload->target, left = diti_upload_bytes(upload) - done;
        if (from < upload->target) break; /* what fills up the last word */
        if (left > size) left = size;
        result = diti_upload_read(streamed->env, streamed->checkpoint, upload, done, left, out, err);
        out += left;
        from += left;
        size -= left;
    }
    return result;
}

/* Bytes [from, from + size) of what a part is of; int8 rows whole. */
static dit_result diti_replica_read(const diti_weight_part *part, uint64_t from, uint64_t size, unsigned char *out,
                                    dit_error *err) {
    const diti_buffer *buffer = part->buffer;
    dit_result result;
    if (part->streamed) return diti_replica_read_file(part->streamed, from, size, out, err);
    result = diti_device_check(buffer->replicas->home, err);
    if (result < 0) return result;
    if (size > buffer->size - from) size = buffer->size - from; /* whole words */
    if (!buffer->block.mapped)
        return diti_buffer_read(buffer->replicas->home, (diti_buffer *)(uintptr_t)buffer, from, out, size, err);
    memcpy(out, (const unsigned char *)buffer->block.mapped + from, (size_t)size);
    return DIT_OK;
}

DIT_INTERNAL void diti_pieces_pick(const diti_pieces *pieces, const unsigned char *from, uint64_t rows,
                                   unsigned char *to) {
    uint64_t r;
    uint32_t i;
    memset(to, 0, (size_t)(rows * pieces->to_pitch));
    for (r = 0; r < rows; r++)
        for (i = 0; i < pieces->count; i++)
            memcpy(to + r * pieces->to_pitch + pieces->list[i].to, from + r * pieces->from_pitch + pieces->list[i].from,
                   (size_t)pieces->list[i].size);
}

#define DITI_REPLICA_PIECE ((uint64_t)4 << 20) /* copied at a time */

typedef struct diti_replica_copy {
    diti_device *device;
    diti_buffer *target;
    VkDeviceSize offset;
    unsigned char *read, *picked;
} diti_replica_copy;

/* What is copied as a whole: wanted rows, int8 rows, words. */
static uint64_t diti_replica_row(const diti_tensor_info *weight) {
    if (weight->part->pieces) return weight->part->pieces->from_pitch;
    return weight->format == DITI_I8 ? weight->pitch : 4;
}

/* A part to its place. */
static dit_result diti_replica_move(const diti_replica_copy *copy, const diti_tensor_info *weight, uint64_t most,
                                    dit_error *err) {
    const diti_weight_part *part = weight->part;
    const diti_pieces *pieces = part->pieces;
    uint64_t from_pitch = diti_replica_row(weight), to_pitch = pieces ? pieces->to_pitch : from_pitch;
    uint64_t all = pieces ? weight->rows : weight->bytes / from_pitch, first, count;
    dit_result result = DIT_OK;
    for (first = 0; first < all && result >= 0; first += count) {
        count = all - first < most / from_pitch ? all - first : most / from_pitch;
        result = diti_replica_read(part, part->offset + first * from_pitch, count * from_pitch, copy->read, err);
        if (result >= 0 && pieces) diti_pieces_pick(pieces, copy->read, count, copy->picked);
        if (result >= 0)
            result = diti_buffer_write(copy->device, copy->target, copy->offset + first * to_pitch,
                                       pieces ? copy->picked : copy->read, count * to_pitch, err);
    }
    return result;
}

/* ---- what a plan needs ---- */

typedef struct diti_fetch {
    diti_plan *plan;
    diti_replicas *replicas; /* of the weights that are looked at */
    size_t first;            /* of its replicas, and of its blocks */
    size_t first_block;
    uint64_t most; /* bytes of the largest row */
} diti_fetch;

static bool diti_fetch_wants(const diti_tensor_info *tensor) {
    return tensor->storage == DITI_STORAGE_WEIGHT && tensor->part && tensor->first_use != DITI_UNUSED_YET &&
           !diti_part_streams(tensor->part);
}

static diti_replica_block *diti_fetch_open(diti_fetch *fetch) {
    diti_replicas *replicas = fetch->replicas;
    diti_replica_block *block = (diti_replica_block *)diti_alloc_zero(&replicas->env, sizeof *block);
    if (!block || !diti_grow(&replicas->env, (void **)&replicas->blocks, &replicas->block_capacity,
                             replicas->block_count, sizeof *replicas->blocks)) {
        diti_free(&replicas->env, block);
        return NULL;
    }
    block->device = fetch->plan->device;
    replicas->blocks[replicas->block_count++] = block;
    return block;
}

/* A place for a part that is not there: its block's number, from 1 on, stands in for the buffer, which is made later.
 */
static bool diti_fetch_note(diti_fetch *fetch, const diti_tensor_info *weight) {
    diti_replicas *replicas = fetch->replicas;
    uint64_t limit = fetch->plan->device->limits.block & ~(VkDeviceSize)0xffff, row = diti_replica_row(weight);
    diti_replica_block *block =
        replicas->block_count > fetch->first_block ? replicas->blocks[replicas->block_count - 1] : NULL;
    diti_replica *replica;
    if (!diti_grow(&replicas->env, (void **)&replicas->list, &replicas->capacity, replicas->count,
                   sizeof *replicas->list))
        return false;
    if (!block || block->buffer.size + weight->bytes > limit) block = diti_fetch_open(fetch);
    if (!block) return false;
    replica = &replicas->list[replicas->count++];
    memset(replica, 0, sizeof *replica);
    replica->device = fetch->plan->device;
    replica->source = diti_replica_source(weight->part);
    replica->from = weight->part->offset;
    if (weight->part->pieces) replica->pieces = *weight->part->pieces;
    replica->bytes = weight->bytes;
    replica->offset = block->buffer.size;
    block->buffer.size += (weight->bytes + 15u) & ~(uint64_t)15u;
    if (row > fetch->most) fetch->most = row;
    return true;
}

static dit_result diti_fetch_list(diti_fetch *fetch, dit_error *err) {
    diti_plan *plan = fetch->plan;
    size_t i;
    fetch->first = fetch->replicas->count;
    fetch->first_block = fetch->replicas->block_count;
    for (i = 1; i < plan->tensor_count; i++) {
        const diti_tensor_info *tensor = &plan->tensors[i];
        if (tensor->parent != i || !diti_fetch_wants(tensor) || diti_replica_needless(plan->device, tensor->part) ||
            diti_replicas_of(tensor->part) != fetch->replicas ||
            diti_replica_find(fetch->replicas, plan->device, tensor))
            continue;
        if (!diti_fetch_note(fetch, tensor))
            return diti_fail(err, DIT_ERROR_OUT_OF_HOST_MEMORY, "no host memory to bring weights to a device");
    }
    return DIT_OK;
}

static dit_result diti_fetch_make(diti_fetch *fetch, dit_error *err) {
    diti_replicas *replicas = fetch->replicas;
    dit_result result = DIT_OK;
    size_t i;
    for (i = fetch->first_block; i < replicas->block_count && result >= 0; i++) {
        diti_replica_block *block = replicas->blocks[i];
        diti_buffer buffer = DITI_ZERO;
        result = diti_buffer_create_shared(block->device, block->buffer.size, "weights", &buffer, err);
        diti_lock(&replicas->lock);
        if (result >= 0) block->buffer = buffer;
        diti_unlock(&replicas->lock);
    }
    return result;
}

/* Blocks of this fetch are filled in the order of its replicas: offset 0 is the next one's first. */
static dit_result diti_fetch_fill(diti_fetch *fetch, diti_replica_copy *copy, uint64_t most, dit_error *err) {
    diti_replicas *replicas = fetch->replicas;
    diti_plan *plan = fetch->plan;
    size_t block = fetch->first_block, next = fetch->first, i;
    dit_result result = DIT_OK;
    for (i = 1; i < plan->tensor_count && result >= 0 && next < replicas->count; i++) {
        const diti_tensor_info *tensor = &plan->tensors[i];
        diti_replica *replica = &replicas->list[next];
        if (tensor->parent != i || !diti_fetch_wants(tensor) || !diti_replica_same(replica, plan->device, tensor))
            continue;
        if (replica->offset == 0 && next > fetch->first) block++;
        copy->target = &replicas->blocks[block]->buffer;
        copy->offset = replica->offset;
        replica->buffer = copy->target->buffer;
        result = diti_replica_move(copy, tensor, most, err);
        next++;
    }
    return result;
}

/* Nothing of a fetch that has failed stays. */
static void diti_fetch_undo(diti_fetch *fetch) {
    diti_replicas *replicas = fetch->replicas;
    for (;;) {
        diti_replica_block *block = NULL;
        diti_lock(&replicas->lock);
        if (replicas->block_count > fetch->first_block) block = replicas->blocks[--replicas->block_count];
        diti_unlock(&replicas->lock);
        if (!block) break;
        if (block->buffer.buffer) diti_buffer_destroy(block->device, &block->buffer);
        diti_free(&replicas->env, block);
    }
    replicas->count = fetch->first;
}

static dit_result diti_fetch_missing(diti_fetch *fetch, dit_error *err) {
    diti_replicas *replicas = fetch->replicas;
    diti_replica_copy copy = DITI_ZERO;
    dit_result result;
    uint64_t most;
    diti_lock(&replicas->lock);
    result = diti_fetch_list(fetch, err);
    diti_unlock(&replicas->lock);
    most = fetch->most > DITI_REPLICA_PIECE ? fetch->most : DITI_REPLICA_PIECE;
    if (result >= 0 && replicas->count > fetch->first) {
        diti_trace_scope scope = diti_trace_open(replicas->home->trace, DITI_LANE_LOAD, "weights to a device");
        copy.device = fetch->plan->device;
        copy.read = (unsigned char *)diti_alloc_array(&replicas->env, 2, (size_t)most);
        copy.picked = copy.read + most;
        if (!copy.read) result = diti_fail(err, DIT_ERROR_OUT_OF_HOST_MEMORY, "no host memory to copy weights");
        if (result >= 0) result = diti_fetch_make(fetch, err);
        if (result >= 0) result = diti_fetch_fill(fetch, &copy, most, err);
        diti_free(&replicas->env, copy.read);
        diti_trace_close(&scope, 0);
    }
    if (result < 0) diti_fetch_undo(fetch);
    return result;
}

/* One plan at a time brings weights, which takes seconds: the others sleep. */
static dit_result diti_fetch_enter(const diti_plan *plan, diti_replicas *replicas, dit_error *err) {
    dit_result result = DIT_WORKING;
    VkSemaphore never = VK_NULL_HANDLE; /* C99 has no other way to sleep: nobody signals it */
    while (result == DIT_WORKING) {
        diti_lock(&replicas->lock);
        if (!replicas->fetching) result = DIT_OK;
        replicas->fetching = true;
        diti_unlock(&replicas->lock);
        if (result == DIT_OK) break;
        if (!never) result = diti_timeline_create(plan->device, &never, err);
        if (result >= 0) result = diti_timeline_wait(plan->device, never, 1, 1000000u, err);
    }
    if (never) plan->device->vk.DestroySemaphore(plan->device->device, never, plan->device->callbacks);
    return result;
}

static void diti_fetch_leave(diti_replicas *replicas) {
    diti_lock(&replicas->lock);
    replicas->fetching = false;
    diti_unlock(&replicas->lock);
}

/* Weights of one component at a time. */
static dit_result diti_fetch_component(diti_plan *plan, diti_replicas *replicas, dit_error *err) {
    diti_fetch fetch = DITI_ZERO;
    dit_result result;
    size_t i;
    fetch.plan = plan;
    fetch.replicas = replicas;
    result = diti_fetch_enter(plan, replicas, err);
    if (result < 0) return result;
    result = diti_fetch_missing(&fetch, err);
    for (i = 1; i < plan->tensor_count && result >= 0; i++) {
        diti_tensor_info *tensor = &plan->tensors[i];
        const diti_replica *replica;
        if (tensor->parent != i || !diti_fetch_wants(tensor) || diti_replica_needless(plan->device, tensor->part) ||
            diti_replicas_of(tensor->part) != replicas)
            continue;
        replica = diti_replica_find(replicas, plan->device, tensor);
        tensor->buffer = replica->buffer;
        tensor->offset = replica->offset;
    }
    diti_fetch_leave(replicas);
    return result;
}

DIT_INTERNAL uint64_t diti_graph_fetches(const diti_graph *graph) {
    uint64_t bytes = 0;
    size_t i, j;
    for (i = 1; i < graph->tensor_count; i++) {
        const diti_tensor_info *tensor = &graph->tensors[i];
        if (tensor->parent != i || !diti_fetch_wants(tensor) || diti_replica_needless(graph->device, tensor->part))
            continue;
        for (j = 1; j < i; j++) { /* steps of several kinds read the same */
            const diti_tensor_info *other = &graph->tensors[j];
            if (other->storage == DITI_STORAGE_WEIGHT && other->parent == j && other->bytes == tensor->bytes &&
                other->part->offset == tensor->part->offset && other->part->pieces == tensor->part->pieces &&
                diti_replica_source(other->part) == diti_replica_source(tensor->part))
                break;
        }
        if (j == i) bytes += (tensor->bytes + 15u) & ~(uint64_t)15u;
    }
    return bytes;
}

DIT_INTERNAL dit_result diti_plan_fetch_weights(diti_plan *plan, dit_error *err) {
    dit_result result = DIT_OK;
    size_t i;
    for (i = 1; i < plan->tensor_count && result >= 0; i++) {
        diti_tensor_info *tensor = &plan->tensors[i];
        if (tensor->parent != i || !diti_fetch_wants(tensor) || tensor->buffer) continue;
        if (diti_replica_needless(plan->device, tensor->part)) {
            tensor->buffer = tensor->part->buffer->buffer;
            tensor->offset = tensor->part->offset;
        } else {
            result = diti_fetch_component(plan, diti_replicas_of(tensor->part), err);
        }
    }
    return result;
}
