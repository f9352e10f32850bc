/* The contents of the output: tensors and small files of all components; and what of the input is refused. */
#ifndef CONVERT_COLLECT_H
#define CONVERT_COLLECT_H
#include "calibrate.h"
#include "classes.h"

/* The type in the file. */
static dit_type written_type(const converter *convert, const out_tensor *tensor) {
    return tensor->type == DIT_TYPE_I4_GROUP && convert->expanded ? DIT_TYPE_F32 : tensor->type;
}

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

/* Rows of int8 and int4 stay what they are: their scales come along as a tensor of its own. */
static dit_result keep_rows(converter *convert, out_tensor *tensor, dit_type wanted) {
    const diti_stored_tensor *stored = tensor->stored;
    uint64_t rows = stored->rank == 2 ? stored->shape[0] : 0;
    const diti_stored_tensor *found;
    float *scales;
    dit_result result = diti_i8_find_scales(tensor->from, stored, (uint32_t)rows, &found, convert->err);
    if (result < 0) return result;
    scales = diti_alloc_array(&convert->env, (size_t)rows, sizeof *scales);
    if (!scales) return no_memory(convert);
    result = diti_i8_read_scales(tensor->from, stored, 0, scales, (uint32_t)rows, convert->err);
    diti_free(&convert->env, scales);
    if (result >= 0) result = diti_i8_stored_type(tensor->from, stored, &tensor->type, convert->err);
    tensor->size = stored->size;
    if (result < 0 || tensor->type == wanted) return result;
    return diti_fail(convert->err, DIT_ERROR_UNSUPPORTED_MODEL,
                     "%s: tensor '%s' is stored as %s and cannot become %s; convert the model's original file",
                     convert->input, stored->name, diti_type_name(tensor->type), diti_type_name(wanted));
}

/* A tensor behind the matrix at index `of`, whose values are made when that is written; columns 0: a vector. */
static dit_result add_made(converter *convert, size_t of, const char *component, const char *rest, const char *suffix,
                           dit_type type, uint64_t rows, uint64_t columns) {
    out_tensor *tensor = new_tensor(convert, component, rest, suffix);
    const uint64_t count = rows * (columns ? columns : 1);
    if (!tensor || rows > UINT32_MAX || columns > UINT32_MAX) return no_memory(convert);
    tensor->stored = convert->tensors[of].stored;
    tensor->type = type;
    tensor->is_made = true;
    tensor->made_rows = (uint32_t)rows;
    tensor->made_columns = (uint32_t)columns;
    tensor->size = count * diti_type_block_bytes(type);
    tensor->made = (float *)diti_alloc_array(&convert->env, (size_t)count, sizeof(float));
    convert->tensors[of].made_count++;
    return tensor->made ? DIT_OK : no_memory(convert);
}

/* Adds what stands behind a matrix that has just been added. */
static dit_result add_companions(converter *convert, const char *component, const char *rest) {
    const size_t of = convert->tensor_count - 1;
    const out_tensor *tensor = &convert->tensors[of];
    const uint64_t rows = tensor->stored->shape[0], columns = row_length(tensor->stored);
    const bool low_rank = tensor->method == ROUND_SVD || tensor->method == ROUND_SVD_GPTQ;
    if (diti_type_is_i8(tensor->type))
        return add_made(convert, of, component, rest, DITI_SCALE_SUFFIX, DIT_TYPE_F32, rows, 0);
    if (convert->expanded) return DIT_OK;
    if (!low_rank) return DIT_OK;
    DITI_TRY(add_made(convert, of, component, rest, "_lora_down", DIT_TYPE_F16, convert->rank, columns));
    return add_made(convert, of, component, rest, "_lora_up", DIT_TYPE_F16, rows, convert->rank);
}

/* Calibrated rounding where there are statistics of the layer; a low-rank part needs none. */
static rounding_method choose_method(const converter *convert, const char *component, const char *rest,
                                     const out_tensor *tensor) {
    const bool low_rank = convert->method == ROUND_SVD || convert->method == ROUND_SVD_GPTQ;
    const bool known =
        (strcmp(component, "transformer") == 0 || !*component) && is_calibrated(convert->calibration, rest);
    if (tensor->type != DIT_TYPE_I4_GROUP || (!known && !low_rank)) return ROUND_PLAIN;
    if (low_rank && (convert->rank >= tensor->stored->shape[0] || convert->rank >= row_length(tensor->stored)))
        return known && convert->method == ROUND_SVD_GPTQ ? ROUND_GPTQ : ROUND_PLAIN;
    return !known && convert->method == ROUND_SVD_GPTQ ? ROUND_SVD : convert->method;
}

/* Companions of a matrix in the input stay beside it: int8 rows have no smoothing factors, and no matrix has two
   low-rank parts. */
static dit_result check_companions(const converter *convert, const out_tensor *tensor) {
    const bool low_rank = tensor->method == ROUND_SVD || tensor->method == ROUND_SVD_GPTQ;
    const char *problem = NULL;
    if (diti_type_is_i8(tensor->type) && diti_stored_sibling(tensor->from, tensor->stored, "", DITI_LOW_RANK_SMOOTH))
        problem = "has smoothing factors beside it and cannot become int8 rows";
    else if (low_rank && diti_stored_sibling(tensor->from, tensor->stored, "", DITI_LOW_RANK_DOWN))
        problem = "has a low-rank part beside it and cannot get another";
    if (!problem) return DIT_OK;
    return diti_fail(convert->err, DIT_ERROR_UNSUPPORTED_MODEL, "%s: tensor '%s' %s; convert the model's original file",
                     convert->input, tensor->stored->name, problem);
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
    tensor->rest = rest;
    tensor->type = ruled_type(convert, component, tensor->name, stored);
    if (diti_type_is_i8(stored->type)) return keep_rows(convert, tensor, tensor->type);
    tensor->size = diti_stored_tensor_elements(stored);
    if (tensor->type == DIT_TYPE_I4_ROW_ROTATED) tensor->size /= 2;
    tensor->method = choose_method(convert, component, rest, tensor);
    DITI_TRY(check_companions(convert, tensor));
    if (diti_type_is_i8(tensor->type)) return add_companions(convert, component, rest);
    tensor->flat = stored->rank > 4 || (stored->rank > 2 && diti_type_block(tensor->type) > 1);
    if (diti_type_bytes(written_type(convert, tensor), 1, tensor->size, &tensor->size))
        return add_companions(convert, component, rest);
    return diti_fail(convert->err, DIT_ERROR_BAD_FILE, "%s: tensor '%s' does not fill the blocks of %s", convert->input,
                     stored->name, diti_type_name(tensor->type));
}

/* Whether a tensor only says what others mean, which the output says in its own way: factors of matrices, and what
   ComfyUI has beside those. Scales of int8 rows come along with the rows, and a tokenizer is a small file. */
static bool is_description(const diti_checkpoint *from, const diti_stored_tensor *stored, const char *rest) {
    static const char *const marks[] = {".comfy_quant", ".input_scale", ".scale_input"};
    static const char *const factors[][2] = {{DITI_SCALE_SUFFIX, ""},
                                             {".scale_weight", ".weight"},
                                             {".weight_scale_2", ".weight"},
                                             {".scale", ".weight"},
                                             {DITI_FACTOR_SUFFIX, ""}};
    for (size_t i = 0; i < DITI_COUNT(marks); i++)
        if (diti_stored_sibling(from, stored, marks[i], ".weight")) return true;
    for (size_t i = 0; i < DITI_COUNT(factors); i++) {
        const diti_stored_tensor *of = diti_stored_sibling(from, stored, factors[i][0], factors[i][1]);
        if (of && (diti_factor_find(from, of) == stored || (of->nvfp4 && i == 0))) return true;
    }
    return diti_ends_with(rest, "scaled_fp8") || diti_ends_with(rest, DITI_WORDS_TENSOR) ||
           diti_ends_with(rest, "tekken_model");
}

static dit_result add_component(converter *convert, const char *component) {
    const diti_checkpoint *from;
    const char *prefix;
    dit_result result = diti_package_component(convert->package, component, &from, &prefix, convert->err);
    if (result >= 0 && from && from != convert->verified) result = diti_checkpoint_verify(from, convert->err);
    convert->verified = from;
    for (uint32_t i = 0; result >= 0 && from && i < diti_checkpoint_count(from); i++) {
        const diti_stored_tensor *stored = diti_checkpoint_tensor(from, i);
        const char *rest = stored->name + strlen(prefix);
        if (diti_starts_with(stored->name, prefix) && !is_description(from, stored, rest))
            result = add_tensor(convert, component, from, prefix, stored);
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

/* Whether --without leaves a component out, and the folders that belong to it. */
static bool is_left_out(const converter *convert, const char *component) {
    if (convert->without_vae && strcmp(component, "vae") == 0) return true;
    return convert->without_text && (diti_starts_with(component, "text_encoder") ||
                                     diti_starts_with(component, "tokenizer") || strcmp(component, "connectors") == 0);
}

/* The folders of a pipeline that dit.h looks into: those of weights, and the others. */
static const char *const weight_folders[] = {"transformer",      "transformer_2",  "unconditional_transformer",
                                             "text_encoder",     "text_encoder_2", "text_encoder_3",
                                             "text_conditioner", "connectors",     "image_encoder",
                                             "audio_vae",        "vocoder",        "vae"};
static const char *const other_folders[] = {"scheduler",   "tokenizer",    "tokenizer_2",
                                            "tokenizer_3", "t5_tokenizer", "processor"};

static dit_result add_folders(converter *convert) {
    dit_result result = DIT_OK;
    for (size_t i = 0; i < DITI_COUNT(weight_folders) && result >= 0; i++)
        if (!is_left_out(convert, weight_folders[i])) result = add_files(convert, weight_folders[i]);
    for (size_t i = 0; i < DITI_COUNT(other_folders) && result >= 0; i++)
        if (!is_left_out(convert, other_folders[i])) result = add_files(convert, other_folders[i]);
    for (size_t i = 0; i < DITI_COUNT(weight_folders) && result >= 0; i++)
        if (!is_left_out(convert, weight_folders[i])) result = add_component(convert, weight_folders[i]);
    return result;
}

static dit_result add_everything(converter *convert) {
    dit_result result = add_file(convert, "", "model_index.json");
    if (result < 0) return result;
    if (convert->file_count) {
        result = add_folders(convert);
    } else {
        const bool folder = diti_package_is_folder(convert->package);
        result = add_files(convert, "");
        if (result >= 0 && !folder) result = add_files(convert, "tokenizer");
        if (result >= 0) result = add_component(convert, "");
        if (result >= 0 && !convert->tensor_count && folder) result = add_folders(convert);
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

#endif
