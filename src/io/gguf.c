/* GGUF versions 2 and 3, little-endian (docs/models.md 9.2). */
#include "io/io.h"

static const diti_format_type diti_gguf_types[] = {
    {"F32", 0, DIT_TYPE_F32, 1, 4},
    {"F16", 1, DIT_TYPE_F16, 1, 2},
    {"Q4_0", 2, DIT_TYPE_Q4_0, 32, 18},
    {"Q4_1", 3, DIT_TYPE_Q4_1, 32, 20},
    {"Q5_0", 6, DIT_TYPE_Q5_0, 32, 22},
    {"Q5_1", 7, DIT_TYPE_Q5_1, 32, 24},
    {"Q8_0", 8, DIT_TYPE_Q8_0, 32, 34},
    {"Q8_1", 9, DIT_TYPE_STORED, 32, 36},
    {"Q2_K", 10, DIT_TYPE_Q2_K, 256, 84},
    {"Q3_K", 11, DIT_TYPE_Q3_K, 256, 110},
    {"Q4_K", 12, DIT_TYPE_Q4_K, 256, 144},
    {"Q5_K", 13, DIT_TYPE_Q5_K, 256, 176},
    {"Q6_K", 14, DIT_TYPE_Q6_K, 256, 210},
    {"Q8_K", 15, DIT_TYPE_STORED, 256, 292},
    {"IQ2_XXS", 16, DIT_TYPE_STORED, 256, 66},
    {"IQ2_XS", 17, DIT_TYPE_STORED, 256, 74},
    {"IQ3_XXS", 18, DIT_TYPE_STORED, 256, 98},
    {"IQ1_S", 19, DIT_TYPE_STORED, 256, 50},
    {"IQ4_NL", 20, DIT_TYPE_STORED, 32, 18},
    {"IQ3_S", 21, DIT_TYPE_STORED, 256, 110},
    {"IQ2_S", 22, DIT_TYPE_STORED, 256, 82},
    {"IQ4_XS", 23, DIT_TYPE_STORED, 256, 136},
    {"I8", 24, DIT_TYPE_I8_ROW, 1, 1},
    {"I16", 25, DIT_TYPE_STORED, 1, 2},
    {"I32", 26, DIT_TYPE_I32, 1, 4},
    {"I64", 27, DIT_TYPE_I64, 1, 8},
    {"F64", 28, DIT_TYPE_STORED, 1, 8},
    {"IQ1_M", 29, DIT_TYPE_STORED, 256, 56},
    {"BF16", 30, DIT_TYPE_BF16, 1, 2},
    {"TQ1_0", 34, DIT_TYPE_STORED, 256, 54},
    {"TQ2_0", 35, DIT_TYPE_STORED, 256, 66},
    {"MXFP4", 39, DIT_TYPE_MXFP4, 32, 17},
    {"NVFP4", 40, DIT_TYPE_NVFP4, 64, 36},
};

/* Bytes of a value by its type; 0 for strings and arrays. */
static const uint8_t diti_gguf_value_bytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

/* Reads forward through the file. The little buffer spares callback sources a call per number. */
typedef struct diti_gguf {
    diti_checkpoint *checkpoint;
    const diti_file *file;
    const char *name;    /* name of the file */
    const char *subject; /* the key or tensor that is being read, for messages */
    uint64_t at, size;
    uint64_t buffer_at;
    size_t buffer_size;
    unsigned char buffer[4096];
    diti_metadata metadata;
    dit_error *err;
} diti_gguf;

static dit_result diti_gguf_fail(const diti_gguf *gguf, const char *message) {
    return diti_fail(gguf->err, DIT_ERROR_BAD_FILE, "%s: %s: %s", gguf->name, gguf->subject, message);
}

static dit_result diti_gguf_fill(diti_gguf *gguf) {
    uint64_t left = gguf->size - gguf->at;
    gguf->buffer_at = gguf->at;
    gguf->buffer_size = left < sizeof gguf->buffer ? (size_t)left : sizeof gguf->buffer;
    return diti_file_read(gguf->file, gguf->at, gguf->buffer, gguf->buffer_size, gguf->err);
}

static dit_result diti_gguf_take(diti_gguf *gguf, void *out, size_t size) {
    if (size > gguf->size - gguf->at) return diti_gguf_fail(gguf, "the file ends here: cut off, or a length is wrong");
    if (size > sizeof gguf->buffer) {
        DITI_TRY(diti_file_read(gguf->file, gguf->at, out, size, gguf->err));
    } else {
        if (gguf->at < gguf->buffer_at || gguf->at + size > gguf->buffer_at + gguf->buffer_size)
            DITI_TRY(diti_gguf_fill(gguf));
        if (size) memcpy(out, gguf->buffer + (gguf->at - gguf->buffer_at), size);
    }
    gguf->at += size;
    return DIT_OK;
}

static dit_result diti_gguf_take_number(diti_gguf *gguf, size_t size, uint64_t *out) {
    unsigned char bytes[8] = DITI_ZERO;
    dit_result result = diti_gguf_take(gguf, bytes, size);
    int i;
    *out = 0;
    for (i = 8; i-- > 0;) *out = *out << 8 | bytes[i];
    return result;
}

static dit_result diti_gguf_take_u32(diti_gguf *gguf, uint32_t *out) {
    uint64_t wide;
    dit_result result = diti_gguf_take_number(gguf, 4, &wide);
    *out = (uint32_t)wide;
    return result;
}

static dit_result diti_gguf_take_text(diti_gguf *gguf, diti_text *out) {
    uint64_t length;
    char *text;
    DITI_TRY(diti_gguf_take_number(gguf, 8, &length));
    if (length > gguf->size - gguf->at) return diti_gguf_fail(gguf, "a text is longer than the file");
    text = (char *)diti_checkpoint_keep(gguf->checkpoint, (size_t)length + 1);
    if (!text) return diti_no_memory(gguf->name, gguf->err);
    text[length] = 0;
    out->text = text;
    out->length = (size_t)length;
    return diti_gguf_take(gguf, text, (size_t)length);
}

static dit_result diti_gguf_take_name(diti_gguf *gguf, const char **out) {
    diti_text text;
    DITI_TRY(diti_gguf_take_text(gguf, &text));
    *out = gguf->subject = text.text;
    if (strlen(text.text) != text.length) return diti_gguf_fail(gguf, "NUL byte in the name");
    return DIT_OK;
}

/* --- metadata --- */

static void diti_gguf_print_float(uint32_t type, uint64_t raw, char *out, size_t size) {
    uint32_t low = (uint32_t)raw;
    float single;
    double value;
    memcpy(&single, &low, sizeof single);
    memcpy(&value, &raw, sizeof value);
    if (type == DITI_GGUF_F32)
        diti_print_double((double)single, 9, out, size);
    else
        diti_print_double(value, 17, out, size);
}

/* A number as text; raw has its little-endian bytes, zero-extended. */
static void diti_gguf_print(uint32_t type, uint64_t raw, char *out, size_t size) {
    uint32_t bits = 8u * diti_gguf_value_bytes[type];
    bool is_signed = type == DITI_GGUF_I8 || type == DITI_GGUF_I16 || type == DITI_GGUF_I32 || type == DITI_GGUF_I64;
    if (type == DITI_GGUF_F32 || type == DITI_GGUF_F64) {
        diti_gguf_print_float(type, raw, out, size);
    } else if (type == DITI_GGUF_BOOL) {
        diti_format(out, size, raw ? "true" : "false");
    } else if (is_signed && raw >> (bits - 1)) {
        diti_format(out, size, "-%llu", (unsigned long long)((~raw + 1) & (UINT64_MAX >> (64 - bits))));
    } else {
        diti_format(out, size, "%llu", (unsigned long long)raw);
    }
}

static dit_result diti_gguf_number(diti_gguf *gguf, diti_meta *meta) {
    char text[48];
    uint64_t raw;
    void *data;
    DITI_TRY(diti_gguf_take_number(gguf, diti_gguf_value_bytes[meta->type], &raw));
    diti_gguf_print(meta->type, raw, text, sizeof text);
    data = diti_checkpoint_keep(gguf->checkpoint, sizeof raw);
    meta->text = diti_checkpoint_keep_text(gguf->checkpoint, text, strlen(text));
    if (!data || !meta->text) return diti_no_memory(gguf->name, gguf->err);
    memcpy(data, &raw, sizeof raw);
    meta->data = data;
    return DIT_OK;
}

static dit_result diti_gguf_text_array(diti_gguf *gguf, diti_meta *meta) {
    diti_text *texts;
    uint64_t i;
    size_t bytes;
    dit_result result = DIT_OK;
    if (meta->count > (gguf->size - gguf->at) / 8)
        return diti_gguf_fail(gguf, "more array elements than the file has bytes");
    if (!diti_mul_size((size_t)meta->count, sizeof *texts, &bytes)) return diti_no_memory(gguf->name, gguf->err);
    texts = (diti_text *)diti_checkpoint_keep(gguf->checkpoint, bytes);
    if (!texts) return diti_no_memory(gguf->name, gguf->err);
    meta->texts = texts;
    for (i = 0; i < meta->count && result >= 0; i++) result = diti_gguf_take_text(gguf, &texts[i]);
    return result;
}

static dit_result diti_gguf_number_array(diti_gguf *gguf, diti_meta *meta) {
    size_t element = diti_gguf_value_bytes[meta->type];
    void *data;
    if (meta->count > (gguf->size - gguf->at) / element) {
        return diti_gguf_fail(gguf, "more array elements than the file has bytes");
    }
    data = diti_checkpoint_keep(gguf->checkpoint, (size_t)meta->count * element);
    if (!data) return diti_no_memory(gguf->name, gguf->err);
    meta->data = data;
    return diti_gguf_take(gguf, data, (size_t)meta->count * element);
}

static dit_result diti_gguf_array(diti_gguf *gguf, diti_meta *meta) {
    DITI_TRY(diti_gguf_take_u32(gguf, &meta->type));
    DITI_TRY(diti_gguf_take_number(gguf, 8, &meta->count));
    meta->array = true;
    if (meta->type == DITI_GGUF_STRING) return diti_gguf_text_array(gguf, meta);
    if (meta->type > DITI_GGUF_F64 || meta->type == DITI_GGUF_ARRAY) {
        return diti_gguf_fail(gguf, "an array of arrays or of an unknown type");
    }
    return diti_gguf_number_array(gguf, meta);
}

static dit_result diti_gguf_value(diti_gguf *gguf, diti_meta *meta) {
    diti_text text = DITI_ZERO;
    dit_result result;
    DITI_TRY(diti_gguf_take_u32(gguf, &meta->type));
    if (meta->type > DITI_GGUF_F64) return diti_gguf_fail(gguf, "unknown metadata type");
    if (meta->type == DITI_GGUF_ARRAY) return diti_gguf_array(gguf, meta);
    meta->count = 1;
    if (meta->type != DITI_GGUF_STRING) return diti_gguf_number(gguf, meta);
    result = diti_gguf_take_text(gguf, &text);
    meta->text = text.text;
    return result;
}

static dit_result diti_gguf_metadata(diti_gguf *gguf, uint64_t count) {
    uint64_t i;
    for (i = 0; i < count; i++) {
        diti_meta meta = DITI_ZERO;
        gguf->subject = "metadata";
        DITI_TRY(diti_gguf_take_name(gguf, &meta.name));
        DITI_TRY(diti_gguf_value(gguf, &meta));
        DITI_TRY(diti_metadata_add(gguf->checkpoint, &gguf->metadata, &meta, gguf->err));
    }
    return diti_metadata_finish(gguf->checkpoint, &gguf->metadata, gguf->err);
}

/* A whole number's value; otherwise where the key is absent. */
static uint64_t diti_gguf_integer(const diti_gguf *gguf, const char *key, uint64_t otherwise) {
    const diti_meta *meta = diti_metadata_find(&gguf->metadata, key);
    uint64_t value;
    if (!meta || meta->array || !meta->data || meta->type == DITI_GGUF_F32 || meta->type == DITI_GGUF_F64)
        return otherwise;
    memcpy(&value, meta->data, sizeof value);
    return value;
}

/* --- tensors --- */

static const diti_format_type *diti_gguf_find_type(uint32_t id) {
    size_t i;
    for (i = 0; i < DITI_COUNT(diti_gguf_types); i++) {
        if (diti_gguf_types[i].id == id) return &diti_gguf_types[i];
    }
    return NULL;
}

DIT_INTERNAL uint32_t diti_gguf_code(dit_type type) {
    size_t i;
    for (i = 0; i < DITI_COUNT(diti_gguf_types); i++) {
        if (diti_gguf_types[i].type == type) return diti_gguf_types[i].id;
    }
    return 0;
}

/* Dimensions stand fastest first in the file. ggml has four at most, city96's tools write five. */
static dit_result diti_gguf_shape(diti_gguf *gguf, diti_stored_tensor *tensor) {
    uint32_t i;
    dit_result result = diti_gguf_take_u32(gguf, &tensor->rank);
    DITI_TRY(result);
    if (tensor->rank > DITI_COUNT(tensor->shape)) return diti_gguf_fail(gguf, "has more than five dimensions");
    for (i = tensor->rank; i-- > 0 && result >= 0;) result = diti_gguf_take_number(gguf, 8, &tensor->shape[i]);
    return result;
}

/* The torch shape of a tensor that was reshaped to fill its blocks (city96's metadata). */
static dit_result diti_gguf_original_shape(diti_gguf *gguf, diti_stored_tensor *tensor) {
    char key[512];
    const diti_meta *meta = NULL;
    uint64_t elements = diti_stored_tensor_elements(tensor);
    uint32_t i;
    if (diti_format(key, sizeof key, "comfy.gguf.orig_shape.%s", tensor->name))
        meta = diti_metadata_find(&gguf->metadata, key);
    if (!meta) return DIT_OK;
    if (!meta->array || meta->type != DITI_GGUF_I32 || meta->count > DITI_COUNT(tensor->shape)) {
        return diti_gguf_fail(gguf, "its orig_shape is not an array of at most five i32");
    }
    tensor->rank = (uint32_t)meta->count;
    for (i = 0; i < tensor->rank; i++) {
        int32_t dimension;
        memcpy(&dimension, (const char *)meta->data + 4 * i, sizeof dimension);
        if (dimension <= 0 || elements % (uint64_t)dimension)
            return diti_gguf_fail(gguf, "its orig_shape does not suit its size");
        elements /= (uint64_t)dimension;
        tensor->shape[i] = (uint64_t)dimension;
    }
    return elements == 1 ? DIT_OK : diti_gguf_fail(gguf, "its orig_shape does not suit its size");
}

static dit_result diti_gguf_tensor(diti_gguf *gguf, uint64_t alignment) {
    diti_stored_tensor tensor = DITI_ZERO;
    const diti_format_type *type;
    uint32_t id;
    gguf->subject = "tensor list";
    DITI_TRY(diti_gguf_take_name(gguf, &tensor.name));
    DITI_TRY(diti_gguf_shape(gguf, &tensor));
    DITI_TRY(diti_gguf_take_u32(gguf, &id));
    DITI_TRY(diti_gguf_take_number(gguf, 8, &tensor.offset));
    type = diti_gguf_find_type(id);
    if (!type) {
        return diti_fail(gguf->err, DIT_ERROR_BAD_FILE, "%s: tensor '%s': unknown type number %lu", gguf->name,
                         tensor.name, (unsigned long)id);
    }
    if (tensor.offset % alignment) {
        return diti_fail(gguf->err, DIT_ERROR_BAD_FILE, "%s: tensor '%s': offset %llu is not aligned to %llu",
                         gguf->name, tensor.name, (unsigned long long)tensor.offset, (unsigned long long)alignment);
    }
    DITI_TRY(diti_checkpoint_add(gguf->checkpoint, &tensor, type, gguf->err));
    return diti_gguf_original_shape(gguf, &gguf->checkpoint->tensors[gguf->checkpoint->tensor_count - 1]);
}

static dit_result diti_gguf_tensors(diti_gguf *gguf, uint64_t count) {
    size_t first = gguf->checkpoint->tensor_count;
    uint64_t alignment = diti_gguf_integer(gguf, "general.alignment", 32), i;
    gguf->subject = "general.alignment";
    if (alignment == 0 || alignment > (1u << 20) || (alignment & (alignment - 1))) {
        return diti_gguf_fail(gguf, "not a power of two up to 1 MiB");
    }
    for (i = 0; i < count; i++) {
        DITI_TRY(diti_gguf_tensor(gguf, alignment));
    }
    DITI_TRY(
        diti_checkpoint_place(gguf->checkpoint, first, (gguf->at + alignment - 1) / alignment * alignment, gguf->err));
    for (; first < gguf->checkpoint->tensor_count; first++) diti_iq4_name(&gguf->checkpoint->tensors[first]);
    return DIT_OK;
}

/* --- the file --- */

static dit_result diti_gguf_version(diti_gguf *gguf) {
    char magic[4];
    uint32_t version = 0;
    DITI_TRY(diti_gguf_take(gguf, magic, sizeof magic));
    if (memcmp(magic, "GGUF", 4) != 0) return diti_gguf_fail(gguf, "no GGUF file");
    DITI_TRY(diti_gguf_take_u32(gguf, &version));
    if (version == 2 || version == 3) return DIT_OK;
    if (version == 0x02000000 || version == 0x03000000)
        return diti_gguf_fail(gguf, "a big-endian file; dit.h reads little-endian ones");
    return diti_fail(gguf->err, DIT_ERROR_BAD_FILE, "%s: GGUF version %lu; dit.h reads 2 and 3", gguf->name,
                     (unsigned long)version);
}

/* A count of things that take at least size bytes each. */
static dit_result diti_gguf_take_count(diti_gguf *gguf, uint64_t size, uint64_t *out) {
    dit_result result = diti_gguf_take_number(gguf, 8, out);
    if (result < 0 || *out <= (gguf->size - gguf->at) / size) return result;
    return diti_fail(gguf->err, DIT_ERROR_BAD_FILE, "%s: %s: %llu are more than the file can hold", gguf->name,
                     gguf->subject, (unsigned long long)*out);
}

static dit_result diti_gguf_contents(diti_gguf *gguf) {
    uint64_t tensors = 0, keys = 0;
    gguf->subject = "header";
    DITI_TRY(diti_gguf_version(gguf));
    gguf->subject = "tensors";
    DITI_TRY(diti_gguf_take_count(gguf, 24, &tensors));
    gguf->subject = "metadata keys";
    DITI_TRY(diti_gguf_take_count(gguf, 13, &keys));
    DITI_TRY(diti_gguf_metadata(gguf, keys));
    return diti_gguf_tensors(gguf, tensors);
}

DIT_INTERNAL dit_result diti_gguf_parse(diti_checkpoint *checkpoint, uint32_t *split_number, uint32_t *split_count,
                                        dit_error *err) {
    diti_gguf gguf = DITI_ZERO;
    dit_result result;
    gguf.checkpoint = checkpoint;
    gguf.file = checkpoint->files[checkpoint->file_count - 1];
    gguf.name = diti_file_name(gguf.file);
    gguf.size = diti_file_size(gguf.file);
    gguf.err = err;
    result = diti_gguf_contents(&gguf);
    *split_number = (uint32_t)diti_gguf_integer(&gguf, "split.no", 0);
    *split_count = (uint32_t)diti_gguf_integer(&gguf, "split.count", 1);
    if (checkpoint->file_count == 1)
        checkpoint->metadata = gguf.metadata;
    else
        diti_metadata_free(&checkpoint->env, &gguf.metadata);
    return result;
}
