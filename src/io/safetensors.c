/* safetensors: a 64-bit header length, a JSON header, the data (docs/models.md 9.1). */
#include "io/io.h"

enum { DITI_SAFETENSORS_MAX_HEADER = 100000000 }; /* the limit of the reference implementation */

static const diti_format_type diti_safetensors_types[] = {
    {"F32", 0, DIT_TYPE_F32, 1, 4},
    {"F16", 0, DIT_TYPE_F16, 1, 2},
    {"BF16", 0, DIT_TYPE_BF16, 1, 2},
    {"F8_E4M3", 0, DIT_TYPE_F8_E4M3, 1, 1},
    {"F8_E5M2", 0, DIT_TYPE_F8_E5M2, 1, 1},
    {"I64", 0, DIT_TYPE_I64, 1, 8},
    {"I32", 0, DIT_TYPE_I32, 1, 4},
    {"F64", 0, DIT_TYPE_STORED, 1, 8},
    {"I16", 0, DIT_TYPE_STORED, 1, 2},
    {"I8", 0, DIT_TYPE_I8_ROW, 1, 1},
    {"U8", 0, DIT_TYPE_STORED, 1, 1},
    {"BOOL", 0, DIT_TYPE_STORED, 1, 1},
    {"U16", 0, DIT_TYPE_STORED, 1, 2},
    {"U32", 0, DIT_TYPE_STORED, 1, 4},
    {"U64", 0, DIT_TYPE_STORED, 1, 8},
    {"F8_E8M0", 0, DIT_TYPE_STORED, 1, 1},
    {"C64", 0, DIT_TYPE_STORED, 1, 8},
    {"F4", 0, DIT_TYPE_STORED, 2, 1},
    {"F6_E2M3", 0, DIT_TYPE_STORED, 4, 3},
    {"F6_E3M2", 0, DIT_TYPE_STORED, 4, 3},
    {"F8_E4M3FNUZ", 0, DIT_TYPE_STORED, 1, 1},
    {"F8_E5M2FNUZ", 0, DIT_TYPE_STORED, 1, 1},
};

typedef struct diti_safetensors {
    diti_checkpoint *checkpoint;
    const char *name;
    uint64_t data_size; /* bytes of data in the file; UINT64_MAX where only headers are read */
    dit_error *err;
} diti_safetensors;

static dit_result diti_safetensors_fail(const diti_safetensors *file, const char *tensor, const char *message) {
    return diti_fail(file->err, DIT_ERROR_BAD_FILE, "%s: tensor '%s': %s", file->name, tensor, message);
}

DIT_INTERNAL const diti_format_type *diti_safetensors_find_type(const char *name) {
    size_t i;
    for (i = 0; i < DITI_COUNT(diti_safetensors_types); i++) {
        if (strcmp(name, diti_safetensors_types[i].name) == 0) return &diti_safetensors_types[i];
    }
    return NULL;
}

static dit_result diti_safetensors_shape(const diti_safetensors *file, const diti_json *entry,
                                         diti_stored_tensor *tensor) {
    const diti_json *shape = diti_json_get(entry, "shape"), *dimension;
    if (!shape || shape->kind != DITI_JSON_ARRAY) return diti_safetensors_fail(file, tensor->name, "has no shape");
    if (shape->count > DITI_COUNT(tensor->shape)) {
        return diti_safetensors_fail(file, tensor->name, "has more than five dimensions");
    }
    for (dimension = shape->first; dimension; dimension = dimension->next) {
        if (!diti_json_u64(dimension, &tensor->shape[tensor->rank++])) {
            return diti_safetensors_fail(file, tensor->name, "a dimension is not a whole number");
        }
    }
    return DIT_OK;
}

static dit_result diti_safetensors_range(const diti_safetensors *file, const diti_json *entry, const char *tensor,
                                         uint64_t *begin, uint64_t *end) {
    const diti_json *offsets = diti_json_get(entry, "data_offsets");
    if (!offsets || offsets->kind != DITI_JSON_ARRAY || offsets->count != 2 || !diti_json_u64(offsets->first, begin) ||
        !diti_json_u64(offsets->first->next, end)) {
        return diti_safetensors_fail(file, tensor, "data_offsets are not two whole numbers");
    }
    if (*begin > *end)
        return diti_fail(file->err, DIT_ERROR_BAD_FILE, "%s: tensor '%s': data_offsets %llu to %llu run backwards",
                         file->name, tensor, (unsigned long long)*begin, (unsigned long long)*end);
    if (*end > file->data_size) {
        return diti_fail(file->err, DIT_ERROR_BAD_FILE,
                         "%s: tensor '%s': data_offsets %llu to %llu are not inside the file's %llu data bytes",
                         file->name, tensor, (unsigned long long)*begin, (unsigned long long)*end,
                         (unsigned long long)file->data_size);
    }
    return DIT_OK;
}

static dit_result diti_safetensors_tensor(const diti_safetensors *file, const diti_json *entry) {
    diti_stored_tensor tensor = DITI_ZERO;
    const char *dtype = diti_json_string(entry, "dtype", NULL);
    const diti_format_type *type;
    uint64_t begin = 0, end = 0;
    if (strlen(entry->key) != entry->key_length) return diti_safetensors_fail(file, entry->key, "NUL byte in the name");
    if (!dtype) return diti_safetensors_fail(file, entry->key, "has no dtype");
    type = diti_safetensors_find_type(dtype);
    if (!type) {
        return diti_fail(file->err, DIT_ERROR_BAD_FILE, "%s: tensor '%s': unknown dtype '%s'", file->name, entry->key,
                         dtype);
    }
    tensor.name = diti_checkpoint_keep_text(file->checkpoint, entry->key, entry->key_length);
    if (!tensor.name) return diti_no_memory(file->name, file->err);
    DITI_TRY(diti_safetensors_shape(file, entry, &tensor));
    DITI_TRY(diti_safetensors_range(file, entry, tensor.name, &begin, &end));
    tensor.offset = begin;
    DITI_TRY(diti_checkpoint_add(file->checkpoint, &tensor, type, file->err));
    return tensor.size == end - begin ? DIT_OK
                                      : diti_safetensors_fail(file, tensor.name, "size does not match its shape");
}

static dit_result diti_safetensors_metadata(const diti_safetensors *file, const diti_json *entry) {
    diti_metadata *metadata = &file->checkpoint->metadata;
    const diti_json *value;
    if (metadata->index.size) return DIT_OK; /* an earlier shard's stays */
    if (entry->kind != DITI_JSON_OBJECT) {
        return diti_fail(file->err, DIT_ERROR_BAD_FILE, "%s: __metadata__ is not an object", file->name);
    }
    for (value = entry->first; value; value = value->next) {
        diti_meta meta = DITI_ZERO;
        if (value->kind != DITI_JSON_STRING) {
            return diti_fail(file->err, DIT_ERROR_BAD_FILE, "%s: __metadata__ '%s' is not text", file->name,
                             value->key);
        }
        meta.name = diti_checkpoint_keep_text(file->checkpoint, value->key, strlen(value->key));
        meta.text = diti_checkpoint_keep_text(file->checkpoint, value->text, value->text_length);
        meta.type = DITI_GGUF_STRING;
        meta.count = 1;
        if (!meta.name || !meta.text) return diti_no_memory(file->name, file->err);
        DITI_TRY(diti_metadata_add(file->checkpoint, metadata, &meta, file->err));
    }
    return diti_metadata_finish(file->checkpoint, metadata, file->err);
}

static dit_result diti_safetensors_header(const diti_safetensors *file, const diti_json *root) {
    const diti_json *entry;
    if (root->kind != DITI_JSON_OBJECT) {
        return diti_fail(file->err, DIT_ERROR_BAD_FILE, "%s: the header is not an object", file->name);
    }
    for (entry = root->first; entry; entry = entry->next) {
        DITI_TRY(strcmp(entry->key, "__metadata__") == 0 ? diti_safetensors_metadata(file, entry)
                                                         : diti_safetensors_tensor(file, entry));
    }
    return DIT_OK;
}

static dit_result diti_safetensors_header_size(const diti_file *bytes, size_t *out, dit_error *err) {
    unsigned char head[8] = DITI_ZERO;
    uint64_t size = 0;
    int i, letters = 0;
    if (diti_file_size(bytes) >= 8) {
        DITI_TRY(diti_file_read(bytes, 0, head, sizeof head, err));
    } else {
        return diti_fail(err, DIT_ERROR_BAD_FILE, "%s: too short for a model file", diti_file_name(bytes));
    }
    for (i = 8; i-- > 0;) size = size << 8 | head[i], letters += head[i] < 127 && (head[i] > 31 || head[i] == 10);
    if (!memcmp(head, "version ", 8)) return diti_fail(err, DIT_ERROR_BAD_FILE, DITI_POINTER, diti_file_name(bytes));
    if (letters == 8)
        return diti_fail(
            err, DIT_ERROR_BAD_FILE,
            "%s: neither GGUF nor safetensors, but text, perhaps what a download said in place of the file",
            diti_file_name(bytes));
    if (size > DITI_SAFETENSORS_MAX_HEADER || size > diti_file_size(bytes) - 8) {
        return diti_fail(err, DIT_ERROR_BAD_FILE,
                         "%s: neither GGUF nor safetensors, or cut off: a header of %llu bytes in a file of %llu",
                         diti_file_name(bytes), (unsigned long long)size, (unsigned long long)diti_file_size(bytes));
    }
    *out = (size_t)size;
    return DIT_OK;
}

DIT_INTERNAL dit_result diti_safetensors_parse(diti_checkpoint *checkpoint, dit_error *err) {
    const diti_file *bytes = checkpoint->files[checkpoint->file_count - 1];
    diti_safetensors file = DITI_ZERO;
    diti_json *root = NULL;
    size_t size = 0, first = checkpoint->tensor_count;
    uint64_t data_offset;
    char *text;
    dit_result result;
    DITI_TRY(diti_safetensors_header_size(bytes, &size, err));
    file.checkpoint = checkpoint;
    file.name = diti_file_name(bytes);
    data_offset = 8 + (uint64_t)size;
    file.data_size = checkpoint->env.headers_only ? UINT64_MAX : diti_file_size(bytes) - data_offset;
    file.err = err;
    text = (char *)diti_alloc(&checkpoint->env, size);
    if (!text) return diti_no_memory(file.name, err);
    result = diti_file_read(bytes, 8, text, size, err);
    if (result >= 0) result = diti_json_parse(&checkpoint->env, text, size, file.name, &root, err);
    if (result >= 0) result = diti_safetensors_header(&file, root);
    if (result >= 0) result = diti_checkpoint_place(checkpoint, first, data_offset, err);
    diti_json_free(&checkpoint->env, root);
    diti_free(&checkpoint->env, text);
    return result;
}
