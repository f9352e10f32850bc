/* The contents of a checkpoint while a parser fills them in: names, metadata, tensors and their places. */
#include "io/io.h"

/* --- memory that lives as long as the checkpoint --- */

typedef struct diti_chunk {
    void *next;
    size_t used, size;
} diti_chunk;
enum { DITI_CHUNK_HEADER = 64, DITI_CHUNK_SIZE = 64 * 1024 };

DIT_INTERNAL void *diti_checkpoint_keep(diti_checkpoint *checkpoint, size_t size) {
    diti_chunk *chunk = (diti_chunk *)checkpoint->chunks;
    void *memory;
    if (size > SIZE_MAX - DITI_CHUNK_SIZE) return NULL;
    size = (size + 15) & ~(size_t)15;
    if (!chunk || chunk->size - chunk->used < size) {
        size_t chunk_size = DITI_CHUNK_SIZE;
        if (size > chunk_size / 4) chunk_size = size;
        chunk = (diti_chunk *)diti_alloc(&checkpoint->env, DITI_CHUNK_HEADER + chunk_size);
        if (!chunk) return NULL;
        chunk->next = checkpoint->chunks;
        chunk->used = 0;
        chunk->size = chunk_size;
        checkpoint->chunks = chunk;
    }
    memory = (char *)chunk + DITI_CHUNK_HEADER + chunk->used;
    chunk->used += size;
    return memory;
}

DIT_INTERNAL char *diti_checkpoint_keep_text(diti_checkpoint *checkpoint, const char *text, size_t length) {
    char *copy = length < SIZE_MAX ? (char *)diti_checkpoint_keep(checkpoint, length + 1) : NULL;
    if (!copy) return NULL;
    if (length) memcpy(copy, text, length);
    copy[length] = 0;
    return copy;
}

DIT_INTERNAL void diti_checkpoint_free_kept(diti_checkpoint *checkpoint) {
    diti_chunk *chunk = (diti_chunk *)checkpoint->chunks;
    checkpoint->chunks = NULL;
    while (chunk) {
        diti_chunk *next = (diti_chunk *)chunk->next;
        diti_free(&checkpoint->env, chunk);
        chunk = next;
    }
}

/* --- structs by name --- */

static const char *diti_name_of(const void *items, size_t stride, size_t index) {
    const char *name;
    memcpy(&name, (const char *)items + index * stride, sizeof name);
    return name;
}

/* The slot that holds name, or the free one where it belongs. */
static size_t diti_name_slot(const diti_name_index *index, const void *items, size_t stride, const char *name) {
    size_t slot = (size_t)diti_hash(name, strlen(name)) & (index->size - 1);
    while (index->slots[slot] && strcmp(diti_name_of(items, stride, index->slots[slot] - 1), name) != 0) {
        slot = (slot + 1) & (index->size - 1);
    }
    return slot;
}

DIT_INTERNAL bool diti_name_find(const diti_name_index *index, const void *items, size_t stride, const char *name,
                                 size_t *out) {
    size_t slot;
    if (!index->size) return false;
    slot = diti_name_slot(index, items, stride, name);
    if (!index->slots[slot]) return false;
    *out = index->slots[slot] - 1;
    return true;
}

DIT_INTERNAL dit_result diti_name_build(const diti_env *env, diti_name_index *index, const void *items, size_t stride,
                                        size_t count, const char *file, const char *what, dit_error *err) {
    size_t i, size = 16;
    if (count > UINT32_MAX / 4) return diti_fail(err, DIT_ERROR_BAD_FILE, "%s: too many names", file);
    while (size / 2 < count) size *= 2;
    index->slots = (uint32_t *)diti_alloc_array(env, size, sizeof *index->slots);
    if (!index->slots) return diti_no_memory(file, err);
    index->size = size;
    for (i = 0; i < count; i++) {
        const char *name = diti_name_of(items, stride, i);
        size_t slot = diti_name_slot(index, items, stride, name);
        if (index->slots[slot]) return diti_fail(err, DIT_ERROR_BAD_FILE, "%s: duplicate %s '%s'", file, what, name);
        index->slots[slot] = (uint32_t)i + 1;
    }
    return DIT_OK;
}

/* --- metadata --- */

DIT_INTERNAL dit_result diti_metadata_add(diti_checkpoint *checkpoint, diti_metadata *metadata, const diti_meta *meta,
                                          dit_error *err) {
    if (!diti_grow(&checkpoint->env, (void **)&metadata->items, &metadata->capacity, metadata->count, sizeof *meta)) {
        return diti_no_memory(diti_checkpoint_name(checkpoint), err);
    }
    metadata->items[metadata->count++] = *meta;
    return DIT_OK;
}

DIT_INTERNAL dit_result diti_metadata_finish(diti_checkpoint *checkpoint, diti_metadata *metadata, dit_error *err) {
    const diti_file *file = checkpoint->files[checkpoint->file_count - 1];
    return diti_name_build(&checkpoint->env, &metadata->index, metadata->items, sizeof *metadata->items,
                           metadata->count, diti_file_name(file), "metadata key", err);
}

DIT_INTERNAL const diti_meta *diti_metadata_find(const diti_metadata *metadata, const char *name) {
    size_t found;
    if (!diti_name_find(&metadata->index, metadata->items, sizeof *metadata->items, name, &found)) return NULL;
    return &metadata->items[found];
}

DIT_INTERNAL void diti_metadata_free(const diti_env *env, diti_metadata *metadata) {
    diti_free(env, metadata->items);
    diti_free(env, metadata->index.slots);
    memset(metadata, 0, sizeof *metadata);
}

/* --- tensors --- */

DIT_INTERNAL uint64_t diti_stored_tensor_elements(const diti_stored_tensor *tensor) {
    uint64_t count = 1;
    uint32_t i;
    for (i = 0; i < tensor->rank; i++) count *= tensor->shape[i];
    return count;
}

/* Bytes of the shape; false when it overflows, even where a zero elsewhere in the shape would hide that. */
static bool diti_stored_bytes(const diti_stored_tensor *tensor, const diti_format_type *format, uint64_t *out) {
    uint64_t row = tensor->rank ? tensor->shape[tensor->rank - 1] : 1, product = 1;
    bool empty = false;
    uint32_t i;
    for (i = 0; i < tensor->rank; i++) {
        if (tensor->shape[i] == 0)
            empty = true;
        else if (!diti_mul_u64(product, tensor->shape[i], &product))
            return false;
    }
    if (row % format->block || !diti_mul_u64(product / format->block, format->bytes, out)) return false;
    if (empty) *out = 0;
    return true;
}

DIT_INTERNAL dit_result diti_checkpoint_add(diti_checkpoint *checkpoint, diti_stored_tensor *tensor,
                                            const diti_format_type *format, dit_error *err) {
    const diti_file *file = checkpoint->files[checkpoint->file_count - 1];
    tensor->type = format->type;
    tensor->type_name = format->name;
    tensor->file = (uint32_t)(checkpoint->file_count - 1);
    if (!diti_stored_bytes(tensor, format, &tensor->size)) {
        return diti_fail(err, DIT_ERROR_BAD_FILE,
                         "%s: tensor '%s': its shape does not suit %s (blocks of %u) or overflows",
                         diti_file_name(file), tensor->name, format->name, (unsigned)format->block);
    }
    if (!diti_grow(&checkpoint->env, (void **)&checkpoint->tensors, &checkpoint->tensor_capacity,
                   checkpoint->tensor_count, sizeof *tensor)) {
        return diti_no_memory(diti_file_name(file), err);
    }
    checkpoint->tensors[checkpoint->tensor_count++] = *tensor;
    return DIT_OK;
}

static dit_result diti_place_tensor(const diti_checkpoint *checkpoint, diti_stored_tensor *tensor, uint64_t data_offset,
                                    uint64_t *end, dit_error *err) {
    const diti_file *file = checkpoint->files[tensor->file];
    uint64_t size = diti_file_size(file);
    if (diti_add_u64(tensor->offset, data_offset, &tensor->offset) && diti_add_u64(tensor->offset, tensor->size, end) &&
        (*end <= size || checkpoint->env.headers_only)) {
        return DIT_OK;
    }
    return diti_fail(err, DIT_ERROR_BAD_FILE, "%s: tensor '%s': its data is past the end of the file (%llu bytes)",
                     diti_file_name(file), tensor->name, (unsigned long long)size);
}

static int diti_stored_order(const void *a, const void *b) {
    uint64_t x = (*(const diti_stored_tensor *const *)a)->offset, y = (*(const diti_stored_tensor *const *)b)->offset;
    return (x > y) - (x < y);
}

/* Empty tensors take no place. */
static dit_result diti_refuse_overlaps(const diti_checkpoint *checkpoint, size_t first, dit_error *err) {
    const diti_stored_tensor **order = (const diti_stored_tensor **)diti_alloc_array(
        &checkpoint->env, checkpoint->tensor_count - first, sizeof(const diti_stored_tensor *));
    dit_result result = DIT_OK;
    size_t i, count = 0;
    if (!order) return diti_no_memory(diti_checkpoint_name(checkpoint), err);
    for (i = first; i < checkpoint->tensor_count; i++) {
        if (checkpoint->tensors[i].size) order[count++] = &checkpoint->tensors[i];
    }
    diti_sort(order, count, sizeof *order, diti_stored_order);
    for (i = 1; i < count && result >= 0; i++) {
        if (order[i]->offset - order[i - 1]->offset >= order[i - 1]->size) continue;
        result = diti_fail(err, DIT_ERROR_BAD_FILE, "%s: tensors '%s' and '%s' overlap",
                           diti_file_name(checkpoint->files[order[i]->file]), order[i - 1]->name, order[i]->name);
    }
    diti_free(&checkpoint->env, order);
    return result;
}

DIT_INTERNAL dit_result diti_checkpoint_place(diti_checkpoint *checkpoint, size_t first, uint64_t data_offset,
                                              dit_error *err) {
    uint64_t size = diti_file_size(checkpoint->files[checkpoint->file_count - 1]), needed = size, end = 0;
    size_t i;
    for (i = first; i < checkpoint->tensor_count; i++) {
        DITI_TRY(diti_place_tensor(checkpoint, &checkpoint->tensors[i], data_offset, &end, err));
        if (end > needed) needed = end;
    }
    checkpoint->absent += needed - size;
    return diti_refuse_overlaps(checkpoint, first, err);
}

DIT_INTERNAL const char *diti_checkpoint_name(const diti_checkpoint *checkpoint) {
    return diti_file_name(checkpoint->files[0]);
}

DIT_INTERNAL const diti_stored_tensor *diti_checkpoint_find(const diti_checkpoint *checkpoint, const char *name) {
    size_t found;
    if (!diti_name_find(&checkpoint->index, checkpoint->tensors, sizeof *checkpoint->tensors, name, &found))
        return NULL;
    return &checkpoint->tensors[found];
}

DIT_INTERNAL const diti_stored_tensor *diti_stored_sibling(const diti_checkpoint *checkpoint,
                                                           const diti_stored_tensor *tensor, const char *ending,
                                                           const char *other) {
    char name[600];
    size_t found, length = strlen(tensor->name);
    if (!diti_ends_with(tensor->name, ending) ||
        !diti_format(name, sizeof name, "%.*s%s", (int)(length - strlen(ending)), tensor->name, other) ||
        !diti_name_find(&checkpoint->index, checkpoint->tensors, sizeof *checkpoint->tensors, name, &found))
        return NULL;
    return &checkpoint->tensors[found];
}
