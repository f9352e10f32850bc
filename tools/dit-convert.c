/* dit-convert: a diffusers folder becomes one GGUF that dit.h opens by itself: weights of all components,
 * configurations, tokenizer and scheduler files. A single component's folder or file is converted too. See usage(). */
#define DIT_IMPLEMENTATION
#include "dit.h"
#include "../examples/cli/programs.h"
#include <ctype.h>

static const char usage_text[] =
    "usage: dit-convert [--type TYPE] [--tensor-type-rules GLOB=TYPE,...] [--name NAME] [--steps N] [--guidance G]\n"
    "                   INPUT OUTPUT.gguf\n"
    "\n"
    "INPUT       diffusers folder (model_index.json), a component's folder, or one safetensors, GGUF or PyTorch file\n"
    "--type TYPE of the linear weights and convolutions: f32, f16, bf16, q8_0 (the default), q5_1, q5_0, q4_1 or q4_0;\n"
    "            K-quants are read by dit.h, but not written by this tool. i8r and i8r+rot: int8 with a scale per row, for\n"
    "            which activations become int8 too while running (W8A8), plain or rotated; see below\n"
    "--tensor-type-rules GLOB=TYPE,...  for tensors whose COMPONENT.NAME a glob (* and ?) matches, before --type; the first\n"
    "            that matches wins: \"vae.*=f16,transformer.*ff.net.*=i8r+rot\"\n"
    "--name NAME the model's name in the file; else the name of INPUT\n"
    "--steps N, --guidance G  what the model works best with, used where a request does not say\n"
    "\n"
    "Norms, biases, tables, patch and time embedders and final projections keep their stored type. With 4 and 5 bits the\n"
    "modulation and text-stream weights become q8_0. What does not fill blocks becomes f16. i8r is for the linear layers of\n"
    "the transformer's blocks but their modulation, where it keeps the picture; all others become q8_0. Rows that no groups\n"
    "of 256 fill are not rotated. Such a matrix NAME is an I8 tensor, followed by its scales, F32, as NAME_scale; where it\n"
    "is rotated, the metadata has dit.rotation.NAME = 256.\n"
    "\n" EXIT_CODES_HELP;

enum { CHUNK = 65536, ALIGNMENT = 32 };

typedef struct out_tensor {
    char *name;
    const diti_checkpoint *from;
    const diti_stored_tensor *stored;
    dit_type type;
    bool flat;     /* written as [shape[0], the rest] with its torch shape in the metadata */
    bool is_scale; /* the scales of the int8 rows before it, whose stored tensor it shares */
    float *scales; /* scales of int8 rows that are made here, known when the rows are written; the tensor of scales owns
                      them */
    uint64_t size, offset;
} out_tensor;

typedef struct type_rule {
    char *glob;
    dit_type type;
} type_rule;

typedef struct small_file {
    char *path, *data;
    size_t size;
} small_file;

typedef struct converter {
    diti_env env;
    const char *input, *output, *name;
    uint32_t steps; /* 0: not told */
    float guidance; /* 0: not told */
    dit_type type;
    type_rule *rules;
    size_t rule_count, rule_capacity;
    diti_package *package;
    const diti_checkpoint *verified; /* the last one whose checksums were compared */
    out_tensor *tensors;
    size_t tensor_count, tensor_capacity;
    small_file *files;
    size_t file_count, file_capacity;
    output_file out;
    bool output_failed, no_memory, help;
    uint64_t written;
    dit_error *err;
} converter;

static dit_result no_memory(converter *convert) {
    return diti_fail(convert->err, DIT_ERROR_OUT_OF_HOST_MEMORY, "%s: out of memory", convert->input);
}

/* --- which type a tensor gets (by class, from what published quantizations skip) --- */

static bool contains_one_of(const char *name, const char *const *parts, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (strstr(name, parts[i])) return true;
    }
    return false;
}

/* Patch embedders, embedders of single numbers and sizes, final projections, position and relative tables, long skips.
 */
static bool is_sensitive(const char *name) {
    static const char *const parts[] = {"pos_embed",
                                        "patch_embed",
                                        "x_embedder",
                                        "img_in.",
                                        "timestep_embedder",
                                        "time_embed",
                                        "t_embedder",
                                        "time_in.",
                                        "time_text_embed",
                                        "guidance_in.",
                                        "guidance_embed",
                                        "vector_in.",
                                        "y_embedder",
                                        "resolution_embedder",
                                        "aspect_ratio_embedder",
                                        "size_embedder",
                                        "csize_embedder",
                                        "ar_embedder",
                                        "extra_embedder",
                                        "style_embedder",
                                        "fps_embedder",
                                        "proj_out.",
                                        "final_layer",
                                        "norm_out",
                                        "relative_attention_bias",
                                        "position_embedding",
                                        "skip_linear",
                                        "conv_in.",
                                        "conv_out."};
    /* Blocks of FLUX end in a large proj_out of their own, which is no final projection. */
    if (strstr(name, "blocks.") && strstr(name, "proj_out.")) return false;
    return contains_one_of(name, parts, DITI_COUNT(parts));
}

static bool is_modulation(const char *name) {
    static const char *const parts[] = {"adaln",        "adaLN",        "modulation",          "_mod.",
                                        ".norm.linear", "norm1.linear", "norm1_context.linear"};
    return contains_one_of(name, parts, DITI_COUNT(parts));
}

static bool is_text_stream(const char *name) {
    static const char *const parts[] = {"add_q_proj", "add_k_proj", "add_v_proj", "to_add_out",
                                        "ff_context", "txt_attn",   "txt_mlp",    "context_block"};
    return contains_one_of(name, parts, DITI_COUNT(parts));
}

/* Needs 8 bits where the rest has fewer: modulation, and the text stream of joint blocks. */
static bool is_delicate(const char *name) { return is_modulation(name) || is_text_stream(name); }

/* A matrix product with many rows, in the blocks of a transformer: what int8 activations suit. */
static bool is_block(const char *name) {
    static const char *const others[] = {"down_blocks.", "up_blocks."};
    return strstr(name, "blocks.") && !contains_one_of(name, others, DITI_COUNT(others)) && !is_modulation(name);
}

/* Tables that are looked up, not multiplied. */
static bool is_table(const char *name) {
    static const char *const parts[] = {"shared.",         "embed_tokens",       "token_embd",
                                        "token_embedding", "position_embedding", "relative_attention_bias"};
    return contains_one_of(name, parts, DITI_COUNT(parts));
}

static uint64_t row_length(const diti_stored_tensor *tensor) {
    return tensor->shape[0] ? diti_stored_tensor_elements(tensor) / tensor->shape[0] : 0;
}

/* F8 has no place in a GGUF; F16 holds all its values. */
static dit_type kept_type(dit_type stored) {
    return stored == DIT_TYPE_F8_E4M3 || stored == DIT_TYPE_F8_E5M2 ? DIT_TYPE_F16 : stored;
}

static bool is_weight(const diti_stored_tensor *tensor) {
    return tensor->rank >= 2 && diti_ends_with(tensor->name, ".weight") && tensor->type != DIT_TYPE_I32 &&
           tensor->type != DIT_TYPE_I64;
}

/* Linear layers have int8 rows; other matrices get as many bits. */
static bool suits_rows(const char *component, const diti_stored_tensor *tensor) {
    return tensor->rank == 2 && strcmp(component, "vae") != 0 && !is_table(tensor->name) &&
           row_length(tensor) <= DITI_I8_MAX_COLUMNS &&
           (diti_type_is_i8(tensor->type) || row_length(tensor) % diti_type_block(tensor->type) == 0);
}

/* The type that was asked for, or the nearest one where rows do not fill its blocks. */
static dit_type fitting_type(dit_type wanted, const char *component, const diti_stored_tensor *tensor) {
    if (diti_type_is_i8(wanted) && suits_rows(component, tensor))
        return diti_i8_type(wanted, (uint32_t)row_length(tensor));
    if (diti_type_is_i8(wanted)) wanted = DIT_TYPE_Q8_0;
    if (row_length(tensor) % diti_type_block(wanted) == 0) return wanted;
    return tensor->type == DIT_TYPE_BF16 ? DIT_TYPE_BF16 : DIT_TYPE_F16;
}

static dit_type choose_type(dit_type wanted, const char *component, const diti_stored_tensor *tensor) {
    bool few_bits = diti_type_block(wanted) > 1 && wanted != DIT_TYPE_Q8_0;
    if (!is_weight(tensor) || is_sensitive(tensor->name)) return kept_type(tensor->type);
    if (few_bits && is_delicate(tensor->name)) wanted = DIT_TYPE_Q8_0;
    if (diti_type_is_i8(wanted) && !is_block(tensor->name)) wanted = DIT_TYPE_Q8_0;
    return fitting_type(wanted, component, tensor);
}

/* name: what the tensor is called in the output. */
static dit_type ruled_type(const converter *convert, const char *component, const char *name,
                           const diti_stored_tensor *tensor) {
    for (size_t i = 0; i < convert->rule_count && is_weight(tensor); i++) {
        if (diti_glob(convert->rules[i].glob, name)) return fitting_type(convert->rules[i].type, component, tensor);
    }
    return choose_type(convert->type, component, tensor);
}

/* --- collecting --- */

/* A new entry whose name is component.rest and a suffix; NULL when there is no memory. */
static out_tensor *new_tensor(converter *convert, const char *component, const char *rest, const char *suffix) {
    size_t size = strlen(component) + strlen(rest) + strlen(suffix) + 2;
    out_tensor *tensor;
    if (!diti_grow(&convert->env, (void **)&convert->tensors, &convert->tensor_capacity, convert->tensor_count,
                   sizeof *tensor)) {
        return NULL;
    }
    tensor = &convert->tensors[convert->tensor_count];
    memset(tensor, 0, sizeof *tensor);
    tensor->name = diti_alloc(&convert->env, size);
    if (!tensor->name) return NULL;
    diti_format(tensor->name, size, *component ? "%s.%s%s" : "%s%s%s", component, rest, suffix);
    convert->tensor_count++;
    return tensor;
}

/* int8 rows stay what they are: their scales come along as a tensor of its own. */
static dit_result keep_rows(converter *convert, out_tensor *tensor, dit_type wanted) {
    const diti_stored_tensor *stored = tensor->stored;
    uint64_t rows = stored->rank == 2 ? stored->shape[0] : 0;
    float *scales = rows && rows <= UINT32_MAX ? diti_alloc_array(&convert->env, (size_t)rows, sizeof *scales) : NULL;
    dit_result result = DIT_OK;
    if (rows && !scales) return no_memory(convert);
    result = diti_i8_read_scales(tensor->from, stored, scales, (uint32_t)rows, convert->err);
    diti_free(&convert->env, scales);
    if (result >= 0) result = diti_i8_stored_type(tensor->from, stored, &tensor->type, convert->err);
    tensor->size = stored->size;
    if (result < 0 || tensor->type == wanted) return result;
    return diti_fail(convert->err, DIT_ERROR_UNSUPPORTED_MODEL,
                     "%s: tensor '%s' is stored as %s and cannot become %s; convert the model's original file",
                     convert->input, stored->name, diti_type_name(tensor->type), diti_type_name(wanted));
}

/* The scales of the int8 rows just added, as a tensor behind them. */
static dit_result add_scales(converter *convert, const char *component, const char *rest) {
    size_t rows = convert->tensor_count - 1;
    out_tensor *tensor = new_tensor(convert, component, rest, DITI_SCALE_SUFFIX);
    if (!tensor) return no_memory(convert);
    tensor->stored = convert->tensors[rows].stored;
    tensor->type = DIT_TYPE_F32;
    tensor->is_scale = true;
    tensor->size = tensor->stored->shape[0] * sizeof(float);
    tensor->scales = diti_alloc_array(&convert->env, (size_t)tensor->stored->shape[0], sizeof(float));
    convert->tensors[rows].scales = tensor->scales;
    return tensor->scales ? DIT_OK : no_memory(convert);
}

static dit_result add_tensor(converter *convert, const char *component, const diti_checkpoint *from, const char *prefix,
                             const diti_stored_tensor *stored) {
    const char *rest = stored->name + strlen(prefix);
    out_tensor *tensor;
    if (stored->type == DIT_TYPE_STORED)
        return diti_checkpoint_read(from, stored, 0, NULL, 0, convert->err); /* says why */
    tensor = new_tensor(convert, component, rest, "");
    if (!tensor) return no_memory(convert);
    tensor->from = from;
    tensor->stored = stored;
    tensor->type = ruled_type(convert, component, tensor->name, stored);
    if (diti_type_is_i8(stored->type)) return keep_rows(convert, tensor, tensor->type);
    tensor->size = diti_stored_tensor_elements(stored);
    if (diti_type_is_i8(tensor->type)) return add_scales(convert, component, rest);
    tensor->flat = stored->rank > 4 || (stored->rank > 2 && diti_type_block(tensor->type) > 1);
    if (diti_type_bytes(tensor->type, 1, tensor->size, &tensor->size)) return DIT_OK;
    return diti_fail(convert->err, DIT_ERROR_BAD_FILE, "%s: tensor '%s' does not fill the blocks of %s", convert->input,
                     stored->name, diti_type_name(tensor->type));
}

static dit_result add_component(converter *convert, const char *component) {
    const diti_checkpoint *from;
    const char *prefix;
    dit_result result = diti_package_component(convert->package, component, &from, &prefix, convert->err);
    if (result >= 0 && from && from != convert->verified) result = diti_checkpoint_verify(from, convert->err);
    convert->verified = from;
    for (uint32_t i = 0; result >= 0 && from && i < diti_checkpoint_count(from); i++) {
        const diti_stored_tensor *stored = diti_checkpoint_tensor(from, i);
        if (diti_starts_with(stored->name, prefix)) result = add_tensor(convert, component, from, prefix, stored);
    }
    return result;
}

static dit_result add_file(converter *convert, const char *folder, const char *name) {
    char path[512];
    small_file file = {0};
    dit_result result;
    if (!diti_format(path, sizeof path, *folder ? "%s/%s" : "%s%s", folder, name)) return DIT_OK;
    result = diti_package_read(convert->package, path, &file.data, &file.size, convert->err);
    if (result < 0 || !file.data) return result;
    file.path = diti_copy_string(&convert->env, path);
    if (!file.path || !diti_grow(&convert->env, (void **)&convert->files, &convert->file_capacity, convert->file_count,
                                 sizeof file)) {
        diti_free(&convert->env, file.path);
        diti_free(&convert->env, file.data);
        return no_memory(convert);
    }
    convert->files[convert->file_count++] = file;
    return DIT_OK;
}

static dit_result add_files(converter *convert, const char *folder) {
    static const char *const names[] = {"config.json",
                                        "scheduler_config.json",
                                        "tokenizer_config.json",
                                        "special_tokens_map.json",
                                        "added_tokens.json",
                                        "spiece.model",
                                        "tokenizer.json",
                                        "vocab.json",
                                        "merges.txt",
                                        "vocab.txt"};
    dit_result result = DIT_OK;
    for (size_t i = 0; i < DITI_COUNT(names) && result >= 0; i++) result = add_file(convert, folder, names[i]);
    return result;
}

/* model_index.json names each component with [library, class]. */
static dit_result add_indexed_files(converter *convert, const char *text, size_t size) {
    diti_json *index;
    dit_result result = diti_json_parse(&convert->env, text, size, "model_index.json", &index, convert->err);
    if (result < 0) return result;
    for (const diti_json *entry = index->kind == DITI_JSON_OBJECT ? index->first : NULL; entry && result >= 0;
         entry = entry->next) {
        if (entry->kind == DITI_JSON_ARRAY) result = add_files(convert, entry->key);
    }
    diti_json_free(&convert->env, index);
    return result;
}

static dit_result add_everything(converter *convert) {
    static const char *const components[] = {"transformer", "text_encoder", "text_encoder_2", "text_encoder_3", "vae"};
    dit_result result = add_file(convert, "", "model_index.json");
    if (result < 0) return result;
    if (convert->file_count) {
        result = add_indexed_files(convert, convert->files[0].data, convert->files[0].size);
        for (size_t i = 0; i < DITI_COUNT(components) && result >= 0; i++)
            result = add_component(convert, components[i]);
    } else {
        result = add_files(convert, "");
        if (result >= 0) result = add_component(convert, "");
    }
    if (result >= 0 && !convert->tensor_count) {
        result = diti_fail(convert->err, DIT_ERROR_BAD_FILE,
                           "%s: no weights found: neither safetensors, GGUF nor PyTorch files", convert->input);
    }
    return result;
}

/* --- input that would be refused only when the output is used is refused here. A sound file of a model that dit.h does
   not run is converted all the same. --- */

static dit_result refuse_damage(converter *convert, dit_result result, const dit_error *why) {
    if (result >= 0 || result == DIT_ERROR_UNSUPPORTED_MODEL) return DIT_OK;
    *convert->err = *why;
    return result;
}

static dit_result check_json(converter *convert, const small_file *file) {
    diti_json *json = NULL;
    diti_schedule_request request = {0};
    diti_sampling sampling;
    dit_error why = {0};
    dit_result result = diti_json_parse(&convert->env, file->data, file->size, file->path, &json, convert->err);
    if (result >= 0 && diti_ends_with(file->path, "scheduler_config.json")) {
        request.steps = 1;
        request.image_tokens = 4096;
        result = refuse_damage(convert, diti_sampling_resolve(json, &request, &sampling, &why), &why);
    }
    diti_json_free(&convert->env, json);
    return result;
}

static dit_result check_tokenizer(converter *convert, const small_file *file) {
    const char *slash = strrchr(file->path, '/');
    diti_tokenizer *tokenizer = NULL;
    dit_error why = {0};
    uint32_t limit;
    char folder[512];
    dit_result result;
    diti_format(folder, sizeof folder, "%.*s", slash ? (int)(slash + 1 - file->path) : 0, file->path);
    result = diti_tokenizer_load_folder(&convert->env, convert->package, folder, &tokenizer, &limit, &why);
    diti_tokenizer_free(tokenizer);
    return refuse_damage(convert, result, &why);
}

static dit_result check_files(converter *convert) {
    static const char *const words[] = {"spiece.model", "tokenizer.json", "merges.txt", "vocab.txt"};
    dit_model_desc desc = {0};
    dit_model *model = NULL;
    dit_error why = {0};
    dit_result result = DIT_OK;
    for (size_t i = 0; i < convert->file_count && result >= 0; i++) {
        const small_file *file = &convert->files[i];
        if (diti_ends_with(file->path, ".json")) result = check_json(convert, file);
        for (size_t k = 0; k < DITI_COUNT(words) && result >= 0; k++)
            if (diti_ends_with(file->path, words[k])) result = check_tokenizer(convert, file);
    }
    if (result < 0) return result;
    desc.source.path = convert->input;
    desc.dry_run = true;
    result = refuse_damage(convert, dit_model_load(NULL, &desc, &model, &why), &why);
    dit_model_destroy(model);
    return result;
}

/* --- ggml's reference quantization of one block of 32 --- */

static void store_half(uint8_t *out, float value) {
    uint16_t half = diti_float_to_half(value);
    out[0] = (uint8_t)half;
    out[1] = (uint8_t)(half >> 8);
}

/* The element of largest magnitude, with its sign. */
static float extreme(const float *x) {
    float found = 0;
    for (int i = 0; i < 32; i++) {
        if (fabsf(x[i]) > fabsf(found)) found = x[i];
    }
    return found;
}

static void range(const float *x, float *least, float *most) {
    *least = *most = x[0];
    for (int i = 1; i < 32; i++) {
        if (x[i] < *least) *least = x[i];
        if (x[i] > *most) *most = x[i];
    }
}

static void quantize_q8_0(const float *x, uint8_t *block) {
    float scale = fabsf(extreme(x)) / 127, inverse = scale != 0 ? 1 / scale : 0;
    store_half(block, scale);
    for (int i = 0; i < 32; i++) block[2 + i] = (uint8_t)(int8_t)roundf(x[i] * inverse);
}

/* The codes of a type with 2^bits levels: symmetric around levels / 2, or from the least value up. Returns scale and
 * offset. */
static void codes_symmetric(const float *x, int levels, uint8_t *codes, float *scale) {
    float half = (float)(levels / 2), inverse;
    *scale = extreme(x) / -half;
    inverse = *scale != 0 ? 1 / *scale : 0;
    for (int i = 0; i < 32; i++) {
        int code = (int)(x[i] * inverse + (half + 0.5f));
        codes[i] = (uint8_t)(code < levels ? code : levels - 1);
    }
}

static void codes_with_offset(const float *x, int levels, uint8_t *codes, float *scale, float *least) {
    float most, inverse;
    range(x, least, &most);
    *scale = (most - *least) / (float)(levels - 1);
    inverse = *scale != 0 ? 1 / *scale : 0;
    for (int i = 0; i < 32; i++) {
        int code = (int)((x[i] - *least) * inverse + 0.5f);
        codes[i] = (uint8_t)(code < levels ? code : levels - 1);
    }
}

static void store_nibbles(const uint8_t *codes, uint8_t *out) {
    for (int i = 0; i < 16; i++) out[i] = (uint8_t)((codes[i] & 15) | (codes[i + 16] & 15) << 4);
}

static void store_fifth_bits(const uint8_t *codes, uint8_t *out) {
    memset(out, 0, 4);
    for (int i = 0; i < 32; i++) out[i / 8] = (uint8_t)(out[i / 8] | (codes[i] >> 4) << i % 8);
}

static void quantize_block(dit_type type, const float *x, uint8_t *block) {
    uint8_t codes[32];
    float scale, least = 0;
    bool offset = type == DIT_TYPE_Q4_1 || type == DIT_TYPE_Q5_1, five = type == DIT_TYPE_Q5_0 || type == DIT_TYPE_Q5_1;
    if (type == DIT_TYPE_Q8_0) {
        quantize_q8_0(x, block);
        return;
    }
    if (offset)
        codes_with_offset(x, five ? 32 : 16, codes, &scale, &least);
    else
        codes_symmetric(x, five ? 32 : 16, codes, &scale);
    store_half(block, scale);
    block += 2;
    if (offset) {
        store_half(block, least);
        block += 2;
    }
    if (five) {
        store_fifth_bits(codes, block);
        block += 4;
    }
    store_nibbles(codes, block);
}

static void encode(dit_type type, const float *values, size_t count, uint8_t *out) {
    uint32_t block = diti_type_block(type), bytes = diti_type_block_bytes(type);
    for (size_t i = 0; i < count; i += block, out += bytes) {
        uint16_t bfloat = diti_float_to_bfloat(values[i]);
        switch (type) {
        case DIT_TYPE_F32: memcpy(out, &values[i], 4); break;
        case DIT_TYPE_F16: store_half(out, values[i]); break;
        case DIT_TYPE_BF16: memcpy(out, &bfloat, 2); break;
        default: quantize_block(type, values + i, out); break;
        }
    }
}

/* --- writing --- */

static dit_result output_failed(converter *convert) {
    convert->output_failed = true;
    return diti_fail(convert->err, DIT_ERROR_IO, "%s: cannot be written: %s", convert->output, told_reason(errno));
}

static dit_result put(converter *convert, const void *data, size_t size) {
    convert->written += size;
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

static dit_result put_metadata(converter *convert) {
    dit_result result = put_key(convert, "general.", "architecture", DITI_GGUF_STRING);
    if (result >= 0) result = put_text(convert, "dit");
    if (result >= 0) result = put_key(convert, "general.", "name", DITI_GGUF_STRING);
    if (result >= 0) result = put_text(convert, convert->name);
    if (result >= 0) result = put_key(convert, "general.", "quantization_version", DITI_GGUF_U32);
    if (result >= 0) result = put_number(convert, 2, 4);
    if (result >= 0 && convert->steps) result = put_key(convert, "dit.", "steps", DITI_GGUF_U32);
    if (result >= 0 && convert->steps) result = put_number(convert, convert->steps, 4);
    if (result >= 0 && convert->guidance > 0) result = put_key(convert, "dit.", "guidance", DITI_GGUF_F32);
    if (result >= 0 && convert->guidance > 0) result = put_float(convert, convert->guidance);
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
    return result;
}

/* GGUF's number; whether int8 rows are rotated stands in the metadata. */
static uint32_t gguf_type(dit_type type) { return diti_gguf_code(diti_type_is_i8(type) ? DIT_TYPE_I8_ROW : type); }

static dit_result put_tensor_info(converter *convert, const out_tensor *tensor) {
    uint32_t rank = tensor->is_scale ? 1 : tensor->flat ? 2 : tensor->stored->rank;
    dit_result result = put_text(convert, tensor->name);
    if (result >= 0) result = put_number(convert, rank, 4);
    if (result >= 0 && tensor->flat) {
        result = put_number(convert, row_length(tensor->stored), 8);
        if (result >= 0) result = put_number(convert, tensor->stored->shape[0], 8);
    }
    for (uint32_t d = rank; !tensor->flat && d-- > 0 && result >= 0;)
        result = put_number(convert, tensor->stored->shape[d], 8);
    if (result >= 0) result = put_number(convert, gguf_type(tensor->type), 4);
    return result < 0 ? result : put_number(convert, tensor->offset, 8);
}

static dit_result put_header(converter *convert) {
    uint64_t offset = 0, keys = 3 + convert->file_count + (convert->steps > 0) + (convert->guidance > 0);
    dit_result result = put(convert, "GGUF", 4);
    for (size_t i = 0; i < convert->tensor_count; i++) {
        out_tensor *tensor = &convert->tensors[i];
        tensor->offset = offset;
        offset += (tensor->size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
        if (tensor->flat || tensor->type == DIT_TYPE_I8_ROW_ROTATED) keys++;
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
    if (tensor->type == tensor->stored->type) return put(convert, stored, size);
    diti_type_to_float(tensor->stored->type, stored, count, values);
    result = check_values(convert, tensor, values, count);
    if (result < 0) return result;
    encode(tensor->type, values, count, encoded);
    return put(convert, encoded, count / diti_type_block(tensor->type) * diti_type_block_bytes(tensor->type));
}

/* Makes int8 rows exactly as loading a model as int8 does. */
static dit_result put_row(converter *convert, const out_tensor *tensor, uint32_t row, uint8_t *stored, float *values,
                          int8_t *codes) {
    uint32_t columns = (uint32_t)row_length(tensor->stored);
    uint64_t size = 0;
    dit_result result;
    diti_type_bytes(tensor->stored->type, 1, columns, &size);
    result = diti_checkpoint_read(tensor->from, tensor->stored, row * size, stored, (size_t)size, convert->err);
    if (result < 0) return result;
    diti_type_to_float(tensor->stored->type, stored, columns, values);
    if (tensor->type == DIT_TYPE_I8_ROW_ROTATED) diti_rotate_row(values, columns);
    if (diti_quantize_row(values, columns, codes, &tensor->scales[row])) return put(convert, codes, columns);
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
        result = put_row(convert, tensor, row, stored, values, codes);
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

static dit_result put_scales(converter *convert, const out_tensor *tensor) {
    dit_result result = DIT_OK;
    for (uint64_t row = 0; row < tensor->stored->shape[0] && result >= 0; row++)
        result = put_float(convert, tensor->scales[row]);
    return result < 0 ? result : put_padding(convert);
}

static dit_result put_tensor(converter *convert, const out_tensor *tensor) {
    uint64_t elements = diti_stored_tensor_elements(tensor->stored);
    if (tensor->is_scale) return put_scales(convert, tensor);
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

static dit_result write_output(converter *convert) {
    dit_result result = check_output(convert);
    if (result < 0) return result;
    if (!output_open(&convert->out, convert->output)) return output_failed(convert);
    result = put_header(convert);
    for (size_t i = 0; i < convert->tensor_count && result >= 0; i++)
        result = put_tensor(convert, &convert->tensors[i]);
    if (!output_close(&convert->out, result >= 0) && result >= 0) result = output_failed(convert);
    return result;
}

/* --- the program --- */

static void report(const converter *convert) {
    printf("%s: %.1f MB, %zu tensors:", convert->output, (double)convert->written / 1e6, convert->tensor_count);
    for (int type = 1; type <= DIT_TYPE_I64; type++) {
        uint64_t size = 0;
        size_t count = 0;
        for (size_t i = 0; i < convert->tensor_count; i++) {
            if (convert->tensors[i].type != (dit_type)type) continue;
            size += convert->tensors[i].size;
            count++;
        }
        if (count) printf(" %zu %s (%.1f MB)", count, diti_type_name((dit_type)type), (double)size / 1e6);
    }
    printf("\n");
}

/* Takes the steps and the guidance that the input was told from it, where the command line does not say them. */
static void inherit_defaults(converter *convert) {
    const diti_checkpoint *from = convert->tensors[0].from;
    const char *steps = diti_checkpoint_text(from, "dit.steps"), *guidance = diti_checkpoint_text(from, "dit.guidance");
    double step_count = steps ? diti_parse_double(steps) : 0, scale = guidance ? diti_parse_double(guidance) : 0;
    if (!convert->steps && step_count >= 1 && step_count <= 1000) convert->steps = (uint32_t)step_count;
    if (convert->guidance <= 0 && scale > 0 && scale <= 1000) convert->guidance = (float)scale;
}

static dit_result convert_model(converter *convert) {
    dit_source source = {0};
    dit_result result;
    source.path = convert->input;
    result = diti_package_open(&convert->env, &source, &convert->package, convert->err);
    if (result >= 0) result = add_everything(convert);
    if (result >= 0) result = check_files(convert);
    if (result >= 0) inherit_defaults(convert);
    if (result >= 0) result = write_output(convert);
    if (result >= 0) report(convert);
    return result;
}

static void clean_up(converter *convert) {
    for (size_t i = 0; i < convert->tensor_count; i++) {
        diti_free(&convert->env, convert->tensors[i].name);
        if (convert->tensors[i].is_scale) diti_free(&convert->env, convert->tensors[i].scales);
    }
    for (size_t i = 0; i < convert->rule_count; i++) diti_free(&convert->env, convert->rules[i].glob);
    diti_free(&convert->env, convert->rules);
    for (size_t i = 0; i < convert->file_count; i++) {
        diti_free(&convert->env, convert->files[i].path);
        diti_free(&convert->env, convert->files[i].data);
    }
    diti_free(&convert->env, convert->tensors);
    diti_free(&convert->env, convert->files);
    diti_package_close(convert->package);
}

static bool same_letters(const char *a, const char *b) {
    for (; *a && toupper((unsigned char)*a) == toupper((unsigned char)*b); a++, b++) {
    }
    return *a == *b;
}

/* In capitals or small letters: "q8_0". */
static bool type_from_name(const char *name, dit_type *out) {
    *out = same_letters(name, "i8r") ? DIT_TYPE_I8_ROW : DIT_TYPE_I8_ROW_ROTATED;
    if (same_letters(name, "i8r") || same_letters(name, "i8r+rot")) return true;
    for (int type = DIT_TYPE_F32; type <= DIT_TYPE_I64; type++) {
        *out = (dit_type)type;
        if (same_letters(name, diti_type_name(*out))) return true;
    }
    return false;
}

static bool writable_type(const char *name, dit_type *out) {
    if (!type_from_name(name, out)) return false;
    return diti_type_is_i8(*out) ||
           (*out >= DIT_TYPE_F32 && *out <= DIT_TYPE_Q5_1 && *out != DIT_TYPE_F8_E4M3 && *out != DIT_TYPE_F8_E5M2);
}

/* The last part of a path: "models/emoji/" gives "emoji". */
static const char *input_name(const char *path, char *out, size_t size) {
    size_t end = strlen(path), start;
    while (end > 0 && path[end - 1] == '/') end--;
    for (start = end; start > 0 && path[start - 1] != '/'; start--) {
    }
    diti_format(out, size, "%.*s", (int)(end - start), path + start);
    return out;
}

static bool usage(const char *problem, const char *argument) {
    fprintf(stderr, "dit-convert: %s%s; see dit-convert --help\n", problem, argument);
    return false;
}

static bool add_rule(converter *convert, const char *glob, size_t length, dit_type type) {
    type_rule rule = {NULL, type};
    char *text = diti_alloc(&convert->env, length + 1);
    if (!text || !diti_grow(&convert->env, (void **)&convert->rules, &convert->rule_capacity, convert->rule_count,
                            sizeof rule)) {
        diti_free(&convert->env, text);
        convert->no_memory = true;
        return usage("out of memory", "");
    }
    memcpy(text, glob, length);
    text[length] = 0;
    rule.glob = text;
    convert->rules[convert->rule_count++] = rule;
    return true;
}

/* "GLOB=TYPE,GLOB=TYPE" */
static bool parse_rules(converter *convert, const char *text) {
    for (;; text++) {
        size_t length = strcspn(text, ","), name = length;
        char type_name[32];
        dit_type type;
        while (name > 0 && text[name - 1] != '=') name--;
        if (name < 2 || !diti_format(type_name, sizeof type_name, "%.*s", (int)(length - name), text + name) ||
            !writable_type(type_name, &type))
            return usage("GLOB=TYPE is needed, with a type that can be written, not ", text);
        if (!add_rule(convert, text, name - 1, type)) return false;
        text += length;
        if (!*text) return true;
    }
}

static bool parse_value(converter *convert, const char *option, const char *value) {
    char *end = NULL;
    double number = strtod(value, &end);
    if (strcmp(option, "--name") == 0) {
        convert->name = value;
        return true;
    }
    if (strcmp(option, "--tensor-type-rules") == 0) return parse_rules(convert, value);
    if (strcmp(option, "--type") == 0)
        return writable_type(value, &convert->type) || usage("cannot write the type ", value);
    if (*end || end == value || !(number > 0 && number <= 1000))
        return usage("a number from 1 to 1000 is needed, not ", value);
    if (strcmp(option, "--steps") == 0 && floor(number) != number)
        return usage("the steps are a whole number, not ", value);
    if (strcmp(option, "--steps") == 0)
        convert->steps = (uint32_t)number;
    else
        convert->guidance = (float)number;
    return true;
}

static bool takes_value(const char *option) {
    return !strcmp(option, "--type") || !strcmp(option, "--name") || !strcmp(option, "--steps") ||
           !strcmp(option, "--guidance") || !strcmp(option, "--tensor-type-rules");
}

static bool parse_arguments(converter *convert, int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        const char *argument = argv[i];
        if (strcmp(argument, "--help") == 0 || strcmp(argument, "-h") == 0) {
            convert->help = true;
            return true;
        }
        if (takes_value(argument)) {
            if (++i == argc) return usage("a value is missing after ", argument);
            if (!parse_value(convert, argument, argv[i])) return false;
        } else if (argument[0] == '-') {
            return usage("unknown option ", argument);
        } else if (!convert->input) {
            convert->input = argument;
        } else if (!convert->output) {
            convert->output = argument;
        } else {
            return usage("one argument too many: ", argument);
        }
    }
    if (!convert->output) return usage("INPUT and OUTPUT.gguf are needed", "");
    if (!diti_ends_with(convert->output, ".gguf"))
        return usage("the output's name must end in .gguf: ", convert->output);
    return true;
}

/* A value that does not fit its type is the input's fault. */
static int exit_code(const converter *convert, dit_result result) {
    if (convert->output_failed) return exit_code_of_writing(errno);
    return result == DIT_ERROR_NOT_FINITE ? EXIT_INPUT : exit_code_of(result);
}

int main(int argc, char **argv) {
    converter convert = {0};
    dit_error err = {0};
    char name[256];
    const char *why;
    dit_result result = DIT_OK;
    int code = EXIT_GOOD;
    convert.type = DIT_TYPE_Q8_0;
    convert.err = &err;
    diti_env_init(&convert.env, NULL, NULL, &err);
    end_cleanly_by_signals();
    if (!parse_arguments(&convert, argc, argv)) {
        code = convert.no_memory ? EXIT_MEMORY : EXIT_USAGE;
    } else if (convert.help) {
        fputs(usage_text, stdout);
    } else if ((why = why_not_writable(convert.output)) != NULL) {
        fprintf(stderr, "dit-convert: %s: %s\n", convert.output, why);
        code = EXIT_OUTPUT;
    } else {
        if (!convert.name) convert.name = input_name(convert.input, name, sizeof name);
        result = convert_model(&convert);
        if (result < 0) code = exit_code(&convert, result);
        if (result < 0) fprintf(stderr, "dit-convert: %s\n", err.message);
    }
    clean_up(&convert);
    return code;
}
