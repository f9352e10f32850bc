/* Writing: the header, then tensor after tensor, a chunk of elements at a time. */
#ifndef CONVERT_WRITE_H
#define CONVERT_WRITE_H
#include "layers.h"

static dit_result output_failed(converter *convert) {
    convert->output_failed = true;
    return diti_fail(convert->err, DIT_ERROR_IO, "%s: cannot be written: %s", convert->output, told_reason(errno));
}

static dit_result put(converter *convert, const void *data, size_t size) {
    convert->written += size;
    if (!convert->out.file) return hash_bytes(&convert->plan, data, size), DIT_OK; /* a trial of the header */
    return fwrite(data, 1, size, convert->out.file) == size ? DIT_OK : output_failed(convert);
}

static dit_result put_number(converter *convert, uint64_t value, size_t size) {
    uint8_t raw[8];
    for (int i = 0; i < 8; i++) raw[i] = (uint8_t)(value >> 8 * i);
    return put(convert, raw, size);
}

static dit_result put_float(converter *convert, float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return put_number(convert, bits, 4);
}

static dit_result put_text(converter *convert, const char *text) {
    dit_result result = put_number(convert, strlen(text), 8);
    return result < 0 ? result : put(convert, text, strlen(text));
}

static dit_result put_key(converter *convert, const char *prefix, const char *name, uint32_t type) {
    dit_result result = put_number(convert, strlen(prefix) + strlen(name), 8);
    if (result >= 0) result = put(convert, prefix, strlen(prefix));
    if (result >= 0) result = put(convert, name, strlen(name));
    return result < 0 ? result : put_number(convert, type, 4);
}

static dit_result put_array_head(converter *convert, const char *prefix, const char *name, uint32_t type,
                                 uint64_t count) {
    dit_result result = put_key(convert, prefix, name, DITI_GGUF_ARRAY);
    if (result >= 0) result = put_number(convert, type, 4);
    return result < 0 ? result : put_number(convert, count, 8);
}

static dit_result put_padding(converter *convert) {
    static const uint8_t zeros[ALIGNMENT] = {0};
    return put(convert, zeros, (size_t)(-convert->written % ALIGNMENT));
}

/* The metadata's word for a matrix of 4 bits; NULL: it is none. */
static const char *blocks_of(const converter *convert, const out_tensor *tensor) {
    const dit_type type = written_type(convert, tensor);
    return type == DIT_TYPE_I4_GROUP ? "i4_group" : type == DIT_TYPE_I4_ROW_ROTATED ? "i4_row_rotated" : NULL;
}

/* Other programs choose a model by this word (ComfyUI-GGUF's loader.py). They know it for a transformer alone that has
   its original names, which stay as the input has them; all other files are dit.h's own. */
typedef struct known_architecture {
    const char *name;
    const char *tensors[3]; /* the file has all of them */
    const char *parameters; /* names have this whose values that program wants as F32; NULL: none */
} known_architecture;

static bool has_tensor(const converter *convert, const char *wanted) {
    static const char prefix[] = "model.diffusion_model.";
    for (size_t i = 0; i < convert->tensor_count; i++) {
        const char *name = convert->tensors[i].name;
        if (diti_starts_with(name, prefix)) name += sizeof prefix - 1;
        if (strcmp(name, wanted) == 0) return true;
    }
    return false;
}

/* NULL: none that others know. Z-Image is read as a Lumina 2, whose names it has; Qwen-Image's own are diffusers'. */
static const known_architecture *architecture_of(const converter *convert) {
    static const known_architecture known[] = {
        {"hyvid",
         {"double_blocks.0.img_attn_proj.weight", "txt_in.individual_token_refiner.blocks.1.self_attn_qkv.weight"},
         NULL},
        {"wan", {"blocks.0.self_attn.norm_q.weight", "text_embedding.2.weight", "head.modulation"}, ".modulation"},
        {"ltxv",
         {"patchify_proj.weight", "adaln_single.emb.timestep_embedder.linear_2.weight",
          "transformer_blocks.0.scale_shift_table"},
         "scale_shift_table"},
        {"lumina2", {"cap_embedder.1.weight", "context_refiner.0.attention.qkv.weight"}, "_pad_token"},
        {"qwen_image", {"txt_norm.weight", "transformer_blocks.0.img_mod.1.weight"}, NULL},
        {"flux", {"double_blocks.0.img_attn.proj.weight"}, NULL},
        {"sd3", {"joint_blocks.0.x_block.attn.qkv.weight"}, NULL},
    };
    for (size_t k = 0; k < DITI_COUNT(known); k++) {
        bool has = true;
        for (size_t i = 0; i < DITI_COUNT(known[k].tensors) && known[k].tensors[i]; i++)
            has = has && has_tensor(convert, known[k].tensors[i]);
        if (has) return &known[k];
    }
    return NULL;
}

/* ComfyUI-GGUF's own converter keeps such parameters in F32, since the program takes no halves for them. */
static void widen_parameters(converter *convert) {
    const known_architecture *known = architecture_of(convert);
    for (size_t i = 0; i < convert->tensor_count && known && known->parameters; i++) {
        out_tensor *tensor = &convert->tensors[i];
        if (tensor->is_made || (tensor->type != DIT_TYPE_BF16 && tensor->type != DIT_TYPE_F16) ||
            !strstr(tensor->name, known->parameters))
            continue;
        tensor->type = DIT_TYPE_F32;
        tensor->size = diti_stored_tensor_elements(tensor->stored) * 4;
    }
}

/* The metadata of an input whose names stay as they are, and what they say about it does, too: one file, or a part's
   folder. NULL: the input is a pipeline's folder, whose parts get names in front. */
static const diti_metadata *kept_metadata(const converter *convert) {
    const out_tensor *tensor = &convert->tensors[0];
    return diti_equal(tensor->name, tensor->stored->name) ? &tensor->from->metadata : NULL;
}

/* Whether an entry of the input's metadata is true of the output, too: sizes of a language model and its tokenizer,
   LTX-Video's "config", but not types and places, nor what is written anew. */
static bool is_kept(const char *name) {
    static const char *const others[] = {"general.architecture",         "general.name",       "general.file_type",
                                         "general.quantization_version", "general.alignment",  "format",
                                         "_quantization_metadata",       "quantization_config"};
    static const char *const prefixes[] = {"dit.", "comfy.gguf.", "split."};
    for (size_t i = 0; i < DITI_COUNT(others); i++)
        if (diti_equal(name, others[i])) return false;
    for (size_t i = 0; i < DITI_COUNT(prefixes); i++)
        if (diti_starts_with(name, prefixes[i])) return false;
    return true;
}

static size_t count_kept(const converter *convert) {
    const diti_metadata *from = kept_metadata(convert);
    size_t count = 0;
    for (size_t i = 0; from && i < from->count; i++) count += is_kept(from->items[i].name);
    return count;
}

static dit_result put_meta(converter *convert, const diti_meta *meta) {
    static const uint8_t bytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8}; /* of a number, by its type in GGUF */
    dit_result result = meta->array ? put_array_head(convert, "", meta->name, meta->type, meta->count)
                                    : put_key(convert, "", meta->name, meta->type);
    for (uint64_t i = 0; meta->texts && i < meta->count && result >= 0; i++) {
        result = put_number(convert, meta->texts[i].length, 8);
        if (result >= 0) result = put(convert, meta->texts[i].text, meta->texts[i].length);
    }
    if (result < 0 || meta->texts) return result;
    return meta->data ? put(convert, meta->data, (size_t)meta->count * bytes[meta->type])
                      : put_text(convert, meta->text);
}

static dit_result put_metadata(converter *convert) {
    const known_architecture *known = architecture_of(convert);
    const diti_metadata *from = kept_metadata(convert);
    const char *kept = from ? diti_checkpoint_text(convert->tensors[0].from, "general.architecture") : NULL;
    dit_result result = put_key(convert, "general.", "architecture", DITI_GGUF_STRING);
    if (result >= 0) result = put_text(convert, known ? known->name : kept ? kept : "dit");
    if (result >= 0) result = put_key(convert, "general.", "name", DITI_GGUF_STRING);
    if (result >= 0) result = put_text(convert, convert->name);
    if (result >= 0) result = put_key(convert, "general.", "quantization_version", DITI_GGUF_U32);
    if (result >= 0) result = put_number(convert, 2, 4);
    if (result >= 0 && convert->steps) result = put_key(convert, "dit.", "steps", DITI_GGUF_U32);
    if (result >= 0 && convert->steps) result = put_number(convert, convert->steps, 4);
    if (result >= 0 && convert->guidance > 0) result = put_key(convert, "dit.", "guidance", DITI_GGUF_F32);
    if (result >= 0 && convert->guidance > 0) result = put_float(convert, convert->guidance);
    for (size_t i = 0; from && i < from->count && result >= 0; i++)
        if (is_kept(from->items[i].name)) result = put_meta(convert, &from->items[i]);
    for (size_t i = 0; i < convert->file_count && result >= 0; i++) {
        const small_file *file = &convert->files[i];
        result = put_array_head(convert, "dit.file.", file->path, DITI_GGUF_U8, file->size);
        if (result >= 0) result = put(convert, file->data, file->size);
    }
    for (size_t i = 0; i < convert->tensor_count && result >= 0; i++) {
        const out_tensor *tensor = &convert->tensors[i];
        if (!tensor->flat) continue;
        result = put_array_head(convert, "comfy.gguf.orig_shape.", tensor->name, DITI_GGUF_I32, tensor->stored->rank);
        for (uint32_t d = 0; d < tensor->stored->rank && result >= 0; d++)
            result = put_number(convert, tensor->stored->shape[d], 4);
    }
    for (size_t i = 0; i < convert->tensor_count && result >= 0; i++) {
        const out_tensor *tensor = &convert->tensors[i];
        if (tensor->type != DIT_TYPE_I8_ROW_ROTATED) continue;
        result = put_key(convert, DITI_ROTATION_KEY, tensor->name, DITI_GGUF_U32);
        if (result >= 0) result = put_number(convert, DITI_ROTATION_GROUP, 4);
    }
    for (size_t i = 0; i < convert->tensor_count && result >= 0; i++) {
        const out_tensor *tensor = &convert->tensors[i];
        if (!blocks_of(convert, tensor)) continue;
        result = put_key(convert, DITI_BLOCKS_KEY, tensor->name, DITI_GGUF_STRING);
        if (result >= 0) result = put_text(convert, blocks_of(convert, tensor));
    }
    return result;
}

/* GGUF's number; whether int8 rows are rotated, or hold 4 bits, stands in the metadata. */
static uint32_t gguf_type(dit_type type) {
    return diti_gguf_code(diti_type_is_i8(type) || type == DIT_TYPE_I4_GROUP ? DIT_TYPE_I8_ROW : type);
}

static dit_result put_shape(converter *convert, const uint64_t *shape, uint32_t rank) {
    dit_result result = put_number(convert, rank, 4);
    for (uint32_t d = rank; d-- > 0 && result >= 0;) result = put_number(convert, shape[d], 8);
    return result;
}

static dit_result put_tensor_info(converter *convert, const out_tensor *tensor) {
    const dit_type type = written_type(convert, tensor);
    const uint64_t *stored = tensor->stored->shape, made[2] = {tensor->made_rows, tensor->made_columns},
                   flat[2] = {stored[0], row_length(tensor->stored)},
                   blocks[2] = {stored[0], type == DIT_TYPE_I4_GROUP
                                               ? row_length(tensor->stored) / DITI_I4_GROUP * DITI_I4_GROUP_BYTES
                                               : row_length(tensor->stored) / 2};
    dit_result result = put_text(convert, tensor->name);
    if (result >= 0 && tensor->is_made)
        result = put_shape(convert, made, tensor->made_columns ? 2 : 1);
    else if (result >= 0 && blocks_of(convert, tensor))
        result = put_shape(convert, blocks, 2);
    else if (result >= 0 && tensor->flat)
        result = put_shape(convert, flat, 2);
    else if (result >= 0)
        result = put_shape(convert, stored, tensor->stored->rank);
    if (result >= 0) result = put_number(convert, gguf_type(type), 4);
    return result < 0 ? result : put_number(convert, tensor->offset, 8);
}

static dit_result put_header(converter *convert) {
    uint64_t offset = 0,
             keys = 3 + convert->file_count + (convert->steps > 0) + (convert->guidance > 0) + count_kept(convert);
    dit_result result = put(convert, "GGUF", 4);
    for (size_t i = 0; i < convert->tensor_count; i++) {
        out_tensor *tensor = &convert->tensors[i];
        tensor->offset = offset;
        offset += (tensor->size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
        if (tensor->flat || tensor->type == DIT_TYPE_I8_ROW_ROTATED || blocks_of(convert, tensor)) keys++;
    }
    if (result >= 0) result = put_number(convert, 3, 4);
    if (result >= 0) result = put_number(convert, convert->tensor_count, 8);
    if (result >= 0) result = put_number(convert, keys, 8);
    if (result >= 0) result = put_metadata(convert);
    for (size_t i = 0; i < convert->tensor_count && result >= 0; i++)
        result = put_tensor_info(convert, &convert->tensors[i]);
    return result < 0 ? result : put_padding(convert);
}

/* Quantized blocks have no NaN, F16 no large values: better an error than a picture of noise. */
static dit_result check_values(converter *convert, const out_tensor *tensor, const float *values, size_t count) {
    float limit = tensor->type == DIT_TYPE_F16 || diti_type_block(tensor->type) > 1 ? 65504.0f : INFINITY;
    for (size_t i = 0; i < count; i++) {
        if (fabsf(values[i]) <= limit) continue;
        return diti_fail(convert->err, DIT_ERROR_NOT_FINITE, "%s: tensor '%s': %g does not fit %s", convert->input,
                         tensor->stored->name, (double)values[i], diti_type_name(tensor->type));
    }
    return DIT_OK;
}

/* Copies a tensor that keeps its type; decodes and encodes another, CHUNK elements at a time. */
static dit_result put_elements(converter *convert, const out_tensor *tensor, uint64_t first, size_t count) {
    static uint8_t stored[8 * CHUNK], encoded[8 * CHUNK];
    static float values[CHUNK];
    uint32_t block = diti_type_block(tensor->stored->type), bytes = diti_type_block_bytes(tensor->stored->type);
    size_t size = count / block * bytes;
    dit_result result =
        diti_checkpoint_read(tensor->from, tensor->stored, first / block * bytes, stored, size, convert->err);
    if (result < 0) return result;
    if (tensor->type == tensor->stored->type && !is_folded(tensor)) return put(convert, stored, size);
    diti_type_to_float(tensor->stored->type, stored, count, values);
    result = diti_factor_apply(tensor->from, tensor->stored, first, count, values, convert->err);
    if (result < 0) return result;
    fold(tensor, first, values, count);
    result = check_values(convert, tensor, values, count);
    if (result < 0) return result;
    encode(tensor->type, values, count, encoded);
    if (written_type(convert, tensor) != tensor->type) {
        diti_type_to_float(tensor->type, encoded, count, values);
        return put(convert, values, count * sizeof *values);
    }
    return put(convert, encoded, count / diti_type_block(tensor->type) * diti_type_block_bytes(tensor->type));
}

/* Quants -7 to 7 that are floats, as bytes: column 2 b in the low half of byte b, the next one in its high half. */
static void pack_row_4(const float *quants, uint32_t columns, int8_t *out) {
    for (uint32_t c = 0; c < columns; c += 2)
        out[c / 2] = (int8_t)(uint8_t)(((int)quants[c] & 15) | ((int)quants[c + 1] & 15) << 4);
}

/* Makes rows of int8 and int4 exactly as loading a model as such does. */
static dit_result put_row(converter *convert, const out_tensor *tensor, uint32_t row, uint8_t *stored, float *values,
                          int8_t *codes, float *scale) {
    uint32_t columns = (uint32_t)row_length(tensor->stored);
    uint64_t size = 0;
    dit_result result;
    diti_type_bytes(tensor->stored->type, 1, columns, &size);
    result = diti_checkpoint_read(tensor->from, tensor->stored, row * size, stored, (size_t)size, convert->err);
    if (result < 0) return result;
    diti_type_to_float(tensor->stored->type, stored, columns, values);
    result = diti_factor_apply(tensor->from, tensor->stored, (uint64_t)row * columns, columns, values, convert->err);
    if (result < 0) return result;
    fold(tensor, (uint64_t)row * columns, values, columns);
    if (diti_type_is_rotated(tensor->type)) diti_rotate_row(values, columns);
    if (tensor->type == DIT_TYPE_I4_ROW_ROTATED && diti_quantize_row_4(values, columns, scale)) {
        pack_row_4(values, columns, codes);
        return put(convert, codes, columns / 2);
    }
    if (tensor->type != DIT_TYPE_I4_ROW_ROTATED && diti_quantize_row(values, columns, codes, scale))
        return put(convert, codes, columns);
    return diti_fail(convert->err, DIT_ERROR_NOT_FINITE, "%s: tensor '%s': row %u holds values that are not finite",
                     convert->input, tensor->stored->name, row);
}

static dit_result put_rows(converter *convert, const out_tensor *tensor) {
    size_t columns = (size_t)row_length(tensor->stored);
    uint8_t *stored = diti_alloc_array(&convert->env, columns, 8);
    float *values = diti_alloc_array(&convert->env, columns, sizeof *values);
    int8_t *codes = diti_alloc_array(&convert->env, columns, sizeof *codes);
    dit_result result = stored && values && codes ? DIT_OK : no_memory(convert);
    for (uint32_t row = 0; row < tensor->stored->shape[0] && result >= 0; row++)
        result = put_row(convert, tensor, row, stored, values, codes, &tensor[1].made[row]);
    diti_free(&convert->env, stored);
    diti_free(&convert->env, values);
    diti_free(&convert->env, codes);
    return result < 0 ? result : put_padding(convert);
}

static dit_result put_bytes(converter *convert, const out_tensor *tensor) {
    static uint8_t bytes[CHUNK];
    for (uint64_t first = 0; first < tensor->size; first += CHUNK) {
        size_t count = tensor->size - first < CHUNK ? (size_t)(tensor->size - first) : CHUNK;
        dit_result result = diti_checkpoint_read(tensor->from, tensor->stored, first, bytes, count, convert->err);
        if (result >= 0) result = put(convert, bytes, count);
        if (result < 0) return result;
    }
    return put_padding(convert);
}

static dit_result put_made(converter *convert, const out_tensor *tensor) {
    const uint64_t count = (uint64_t)tensor->made_rows * (tensor->made_columns ? tensor->made_columns : 1);
    dit_result result = DIT_OK;
    for (uint64_t i = 0; i < count && result >= 0; i++) {
        if (tensor->type == DIT_TYPE_F16)
            result = put_number(convert, diti_float_to_half(tensor->made[i]), 2);
        else
            result = put_float(convert, tensor->made[i]);
    }
    return result < 0 ? result : put_padding(convert);
}

/* A matrix that is rounded as a whole. */
static dit_result put_layer(converter *convert, out_tensor *tensor) {
    const size_t columns = (size_t)row_length(tensor->stored);
    rounded_layer layer;
    dit_result result = round_layer(convert, tensor, &layer);
    uint8_t block[DITI_I4_GROUP_BYTES];
    for (size_t at = 0; result >= 0 && at < tensor->stored->shape[0] * columns; at += GROUP) {
        float values[GROUP];
        if (convert->expanded) {
            for (size_t i = 0; i < GROUP; i++) values[i] = (float)layer_value(&layer, at / columns, at % columns + i);
            result = put(convert, values, sizeof values);
        } else {
            diti_i4_group_pack(layer.q.codes + at, layer.q.scale[at / GROUP], layer.q.least[at / GROUP], block);
            result = put(convert, block, sizeof block);
        }
    }
    rounded_layer_free(&layer);
    return result < 0 ? result : put_padding(convert);
}

static dit_result put_tensor(converter *convert, out_tensor *tensor) {
    uint64_t elements = diti_stored_tensor_elements(tensor->stored);
    if (tensor->is_made) return put_made(convert, tensor);
    if (tensor->method != ROUND_PLAIN) return put_layer(convert, tensor);
    if (diti_type_is_i8(tensor->stored->type)) return put_bytes(convert, tensor);
    if (diti_type_is_i8(tensor->type)) return put_rows(convert, tensor);
    for (uint64_t first = 0; first < elements; first += CHUNK) {
        uint64_t left = elements - first;
        dit_result result = put_elements(convert, tensor, first, left < CHUNK ? (size_t)left : CHUNK);
        if (result < 0) return result;
    }
    return put_padding(convert);
}

/* The files that are read and the one that is written must not be the same. */
static dit_result check_output(converter *convert) {
    file_id output, input;
    if (!identify(convert->output, &output)) return DIT_OK;
    for (size_t i = 0; i < convert->tensor_count; i++) {
        const diti_checkpoint *from = convert->tensors[i].from;
        if (!from || (i > 0 && from == convert->tensors[i - 1].from)) continue;
        for (size_t k = 0; k < from->file_count; k++) {
            if (!identify(diti_file_name(from->files[k]), &input) || !same_file(&output, &input)) continue;
            return diti_fail(convert->err, DIT_ERROR_INVALID_ARGUMENT,
                             "%s: weights are read from this file, which would be lost; name another output",
                             convert->output);
        }
    }
    return DIT_OK;
}

#endif
