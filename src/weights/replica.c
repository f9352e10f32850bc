/* Weights where they are needed: copied to other devices than that of loading, cut on the way, or read from the file
   when a plan wants them. Weights that have come to a device stay, for all plans. */
#include "weights/weights.h"

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

DIT_INTERNAL const void *diti_replica_source(const diti_weight_part *part) {
    return part->streamed ? (const void *)part->streamed : (const void *)part->block;
}

DIT_INTERNAL diti_replicas *diti_replicas_of(const diti_weight_part *part) {
    return part->streamed ? part->streamed->replicas : part->block->replicas;
}

DIT_INTERNAL bool diti_replica_same(const diti_replica *replica, const diti_device *device,
                                    const diti_weight_part *part, uint64_t bytes) {
    static const diti_pieces whole = DITI_ZERO;
    return replica->device == device && replica->source == diti_replica_source(part) && replica->from == part->offset &&
           replica->bytes == bytes && !memcmp(&replica->pieces, part->pieces ? part->pieces : &whole, sizeof whole);
}

DIT_INTERNAL diti_replica *diti_replica_find(diti_replicas *replicas, const diti_device *device,
                                             const diti_weight_part *part, uint64_t bytes) {
    size_t i;
    for (i = 0; i < replicas->count; i++)
        if (diti_replica_same(&replicas->list[i], device, part, bytes)) return &replicas->list[i];
    return NULL;
}

DIT_INTERNAL bool diti_replica_needless(const diti_device *device, const diti_weight_part *part) {
    if (part->streamed || part->pieces) return false;
    return !part->block->replicas || (part->block->replicas->home == device && part->offset % 16 == 0);
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
        if (from < upload->target) break; /* nothing is read for what fills up the last word */
        if (left > size) left = size;
        result = diti_upload_read(streamed->env, streamed->checkpoint, upload, done, left, out, err);
        out += left;
        from += left;
        size -= left;
    }
    return result;
}

/* Bytes [from, from + size) of what a part is of: whole rows where it is read from the file. */
static dit_result diti_replica_read(const diti_weight_part *part, uint64_t from, uint64_t size, unsigned char *out,
                                    dit_error *err) {
    const diti_buffer *buffer = part->block ? &part->block->buffer : NULL;
    const diti_replicas *replicas;
    if (part->streamed) return diti_replica_read_file(part->streamed, from, size, out, err);
    replicas = part->block->replicas;
    DITI_TRY(diti_device_check(replicas->home, err));
    if (size > buffer->size - from) size = buffer->size - from; /* whole words */
    if (!buffer->block.mapped)
        return diti_buffer_read(replicas->home, (diti_buffer *)(uintptr_t)buffer, from, out, size, err);
    memcpy(out, (const unsigned char *)buffer->block.mapped + from, (size_t)size);
    return DIT_OK;
}

DIT_INTERNAL dit_result diti_replica_move(const diti_replica_copy *copy, const diti_weight_part *part, uint64_t row,
                                          uint64_t bytes, uint64_t most, dit_error *err) {
    const diti_pieces *pieces = part->pieces;
    uint64_t to_pitch = pieces ? pieces->to_pitch : row, all = pieces ? part->rows : bytes / row, first, count;
    for (first = 0; first < all; first += count) {
        count = all - first < most / row ? all - first : most / row;
        DITI_TRY(diti_replica_read(part, part->offset + first * row, count * row, copy->read, err));
        if (pieces) diti_pieces_pick(pieces, copy->read, count, copy->picked);
        DITI_TRY(diti_buffer_write(copy->device, copy->target, copy->offset + first * to_pitch,
                                   pieces ? copy->picked : copy->read, count * to_pitch, err));
    }
    return DIT_OK;
}

/* ---- bringing what is missing ---- */

static diti_replica_block *diti_fetch_open(diti_fetch *fetch) {
    diti_replicas *replicas = fetch->replicas;
    diti_replica_block *block = (diti_replica_block *)diti_alloc_zero(&replicas->env, sizeof *block);
    if (!block || !diti_grow(&replicas->env, (void **)&replicas->blocks, &replicas->block_capacity,
                             replicas->block_count, sizeof *replicas->blocks)) {
        diti_free(&replicas->env, block);
        return NULL;
    }
    block->device = fetch->device;
    replicas->blocks[replicas->block_count++] = block;
    return block;
}

DIT_INTERNAL bool diti_fetch_note(diti_fetch *fetch, const diti_weight_part *part, uint64_t bytes, uint64_t row) {
    diti_replicas *replicas = fetch->replicas;
    uint64_t limit = fetch->device->limits.block & ~(VkDeviceSize)0xffff;
    diti_replica_block *block =
        replicas->block_count > fetch->first_block ? replicas->blocks[replicas->block_count - 1] : NULL;
    diti_replica *replica;
    if (!diti_grow(&replicas->env, (void **)&replicas->list, &replicas->capacity, replicas->count,
                   sizeof *replicas->list))
        return false;
    if (!block || block->buffer.size + bytes > limit) block = diti_fetch_open(fetch);
    if (!block) return false;
    replica = &replicas->list[replicas->count++];
    memset(replica, 0, sizeof *replica);
    replica->device = fetch->device;
    replica->source = diti_replica_source(part);
    replica->from = part->offset;
    if (part->pieces) replica->pieces = *part->pieces;
    replica->bytes = bytes;
    replica->offset = block->buffer.size;
    block->buffer.size += diti_align_up(bytes, 16);
    if (row > fetch->most) fetch->most = row;
    return true;
}

DIT_INTERNAL dit_result diti_fetch_make(diti_fetch *fetch, dit_error *err) {
    diti_replicas *replicas = fetch->replicas;
    size_t i;
    for (i = fetch->first_block; i < replicas->block_count; i++) {
        diti_replica_block *block = replicas->blocks[i];
        diti_buffer buffer = DITI_ZERO;
        DITI_TRY(diti_buffer_create_shared(block->device, block->buffer.size, "weights", &buffer, err));
        diti_lock(&replicas->lock);
        block->buffer = buffer;
        diti_unlock(&replicas->lock);
    }
    return DIT_OK;
}

DIT_INTERNAL void diti_fetch_undo(diti_fetch *fetch) {
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

DIT_INTERNAL dit_result diti_replicas_enter(diti_device *device, diti_replicas *replicas, dit_error *err) {
    dit_result result = DIT_WORKING;
    VkSemaphore never = VK_NULL_HANDLE; /* C99 has no other way to sleep: nobody signals it */
    while (result == DIT_WORKING) {
        diti_lock(&replicas->lock);
        if (!replicas->fetching) result = DIT_OK;
        replicas->fetching = true;
        diti_unlock(&replicas->lock);
        if (result == DIT_OK) break;
        if (!never) result = diti_timeline_create(device, &never, err);
        if (result >= 0) result = diti_timeline_wait(device, never, 1, 1000000u, err);
    }
    if (never) device->vk.DestroySemaphore(device->device, never, device->callbacks);
    return result;
}

DIT_INTERNAL void diti_replicas_leave(diti_replicas *replicas) {
    diti_lock(&replicas->lock);
    replicas->fetching = false;
    diti_unlock(&replicas->lock);
}
