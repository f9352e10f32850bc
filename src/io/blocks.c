/* Tensors that are more than their bytes tell: I8 tensors that are blocks by the metadata, and what ComfyUI's files say
   about their quantized weights (docs/quantized.md). */
#include "io/io.h"

#define DITI_COMFY_METADATA "_quantization_metadata"

/* A tensor that the metadata calls blocks becomes one of their type (DITI_BLOCKS_KEY). */
static dit_result diti_name_blocks(const diti_checkpoint *checkpoint, diti_stored_tensor *tensor, dit_error *err) {
    const diti_meta *blocks = NULL;
    char key[600];
    if (diti_format(key, sizeof key, DITI_BLOCKS_KEY "%s", tensor->name))
        blocks = diti_metadata_find(&checkpoint->metadata, key);
    if (!blocks) return DIT_OK;
    if (blocks->text && diti_equal(blocks->text, "i4_group") && tensor->rank == 2 &&
        tensor->shape[1] % DITI_I4_GROUP_BYTES == 0) {
        tensor->shape[1] = tensor->shape[1] / DITI_I4_GROUP_BYTES * DITI_I4_GROUP;
        tensor->type = DIT_TYPE_I4_GROUP;
    } else if (blocks->text && diti_equal(blocks->text, "i4_row_rotated") && tensor->rank == 2 &&
               tensor->shape[1] % (DITI_ROTATION_GROUP / 2) == 0) {
        tensor->shape[1] *= 2;
        tensor->type = DIT_TYPE_I4_ROW_ROTATED;
    } else {
        return diti_fail(err, DIT_ERROR_UNSUPPORTED_MODEL,
                         "%s: tensor '%.200s' holds blocks of '%.40s'; dit.h knows rows of i4_group, 68 bytes a block, "
                         "and i4_row_rotated, 128 bytes a group",
                         diti_checkpoint_name(checkpoint), tensor->name, blocks->text ? blocks->text : "several kinds");
    }
    tensor->type_name = diti_type_name(tensor->type);
    return DIT_OK;
}

/* --- ComfyUI: the JSON {"format": …, "convrot": …, "convrot_groupsize": …}, some of it perhaps in "params", for a
   module M: bytes of the tensor M.comfy_quant, or of "layers" in the metadata. --- */

static const diti_json *diti_comfy_get(const diti_json *module, const char *key) {
    const diti_json *value = diti_json_get(module, key), *params = diti_json_get(module, "params");
    return value || !params ? value : diti_json_get(params, key);
}

static bool diti_comfy_rotates(const diti_json *module, bool always) {
    const diti_json *convrot = diti_comfy_get(module, "convrot");
    return always || (convrot && convrot->kind == DITI_JSON_BOOL && convrot->number != 0);
}

/* A tensor that is not read here has a type of that name, which is refused when it is read. */
static dit_result diti_refuse_as(diti_checkpoint *checkpoint, diti_stored_tensor *tensor, const char *name,
                                 dit_error *err) {
    tensor->type = DIT_TYPE_STORED;
    tensor->type_name = diti_checkpoint_keep_text(checkpoint, name, strlen(name));
    return tensor->type_name ? DIT_OK : diti_no_memory(diti_checkpoint_name(checkpoint), err);
}

static dit_result diti_comfy_refuse(diti_checkpoint *checkpoint, diti_stored_tensor *tensor, const char *format,
                                    dit_error *err) {
    char name[100];
    diti_format(name, sizeof name, "ComfyUI's %.60s", format);
    return diti_refuse_as(checkpoint, tensor, name, err);
}

/* Floats of 8 bits, which older files store as bytes, have a factor. */
static dit_result diti_comfy_name_floats(diti_checkpoint *checkpoint, diti_stored_tensor *tensor, const char *format,
                                         dit_error *err) {
    const bool e4m3 = diti_equal(format, "float8_e4m3fn"), e5m2 = diti_equal(format, "float8_e5m2");
    if (tensor->type == DIT_TYPE_STORED && diti_equal(format, "nvfp4")) return diti_nvfp4_name(checkpoint, tensor, err);
    if (!e4m3 && !e5m2) return diti_comfy_refuse(checkpoint, tensor, format, err);
    if (tensor->type == DIT_TYPE_STORED) tensor->type = e4m3 ? DIT_TYPE_F8_E4M3 : DIT_TYPE_F8_E5M2;
    tensor->type_name = diti_type_name(tensor->type);
    if (diti_factor_find(checkpoint, tensor)) return diti_factor_check(checkpoint, tensor, err);
    return diti_fail(err, DIT_ERROR_BAD_FILE, "%s: tensor '%.200s' is ComfyUI's %.60s and lacks its factor, '%.200s%s'",
                     diti_checkpoint_name(checkpoint), tensor->name, format, tensor->name, DITI_SCALE_SUFFIX);
}

/* Gives the tensor its type. */
static dit_result diti_comfy_name(diti_checkpoint *checkpoint, diti_stored_tensor *tensor, const diti_json *module,
                                  dit_error *err) {
    const char *format = diti_json_string(module, "format", "no format");
    const bool eight = diti_equal(format, "int8_tensorwise"), four = diti_equal(format, "convrot_w4a4");
    const diti_json *size = diti_comfy_get(module, "convrot_groupsize");
    bool rotates = diti_comfy_rotates(module, four);
    uint64_t group = DITI_ROTATION_GROUP;
    char name[100];
    if (tensor->type != DIT_TYPE_I8_ROW) return diti_comfy_name_floats(checkpoint, tensor, format, err);
    if (size && !diti_json_u64(size, &group)) group = 0;
    if (tensor->rank == 2 && !eight) tensor->shape[1] *= 2; /* all other formats have two values to a byte */
    tensor->type = rotates ? DIT_TYPE_I8_ROW_ROTATED : DIT_TYPE_I8_ROW;
    if (four) tensor->type = DIT_TYPE_I4_ROW_ROTATED;
    tensor->type_name = diti_type_name(tensor->type);
    if ((eight || four) && tensor->rank == 2 &&
        (!rotates || (group == DITI_ROTATION_GROUP && tensor->shape[1] % DITI_ROTATION_GROUP == 0)))
        return DIT_OK;
    diti_format(name, sizeof name, rotates ? "%.40s in groups of %u" : "%.40s", format, (unsigned)group);
    return diti_comfy_refuse(checkpoint, tensor, name, err);
}

DIT_INTERNAL const diti_stored_tensor *diti_comfy_marker(const diti_checkpoint *checkpoint,
                                                         const diti_stored_tensor *tensor) {
    return diti_stored_sibling(checkpoint, tensor, ".weight", ".comfy_quant");
}

static dit_result diti_comfy_read(diti_checkpoint *checkpoint, diti_stored_tensor *tensor,
                                  const diti_stored_tensor *marker, dit_error *err) {
    char text[1024];
    diti_json *module = NULL;
    dit_result result;
    if (marker->size >= sizeof text)
        return diti_fail(err, DIT_ERROR_BAD_FILE, "%s: tensor '%.200s' is no description of a weight",
                         diti_checkpoint_name(checkpoint), marker->name);
    DITI_TRY(diti_file_read(checkpoint->files[marker->file], marker->offset, text, (size_t)marker->size, err));
    DITI_TRY(diti_json_parse(&checkpoint->env, text, (size_t)marker->size, marker->name, &module, err));
    result = diti_comfy_name(checkpoint, tensor, module, err);
    diti_json_free(&checkpoint->env, module);
    return result;
}

/* "layers" have a module's name as the tensors have it, or without what their names begin with. */
static const diti_json *diti_comfy_layer(const diti_json *layers, const char *name) {
    char module[600];
    const char *at = name;
    while (layers && at) {
        const diti_json *found = NULL;
        if (diti_format(module, sizeof module, "%.*s", (int)(strlen(at) - strlen(".weight")), at))
            found = diti_json_get(layers, module);
        if (found || !diti_starts_with(name, "model.diffusion_model.")) return found;
        at = at == name ? name + strlen("model.diffusion_model.") : NULL;
    }
    return NULL;
}

/* Quantizations of other programs are told by two tensors that stand side by side. Their matrices have other shapes or
   names, so that nothing else in the file would say what is wrong with it. */
static dit_result diti_refuse_foreign(const diti_checkpoint *checkpoint, dit_error *err) {
    static const struct {
        const char *ending, *beside, *program;
    } marks[] = {{".weight", ".weight.quant_state.bitsandbytes__nf4", "bitsandbytes (nf4)"},
                 {".weight", ".weight.quant_state.bitsandbytes__fp4", "bitsandbytes (fp4)"},
                 {".weight", ".SCB", "bitsandbytes (int8)"},
                 {".weight._data", ".weight._scale", "optimum-quanto"},
                 {".qweight", ".qzeros", "GPTQ or AWQ"},
                 {".weight_packed", ".weight_scale", "compressed-tensors"}};
    size_t i, k;
    for (i = 0; i < checkpoint->tensor_count; i++) {
        const diti_stored_tensor *tensor = &checkpoint->tensors[i];
        for (k = 0; k < DITI_COUNT(marks); k++)
            if (diti_stored_sibling(checkpoint, tensor, marks[k].ending, marks[k].beside))
                return diti_fail(err, DIT_ERROR_UNSUPPORTED_MODEL,
                                 "%s: tensor '%.200s' is quantized by %s, which dit.h does not read; use the model's "
                                 "F16 or BF16 file, ComfyUI's fp8, or a GGUF",
                                 diti_checkpoint_name(checkpoint), tensor->name, marks[k].program);
    }
    return DIT_OK;
}

static bool diti_may_be_described(const diti_stored_tensor *tensor) {
    return tensor->type == DIT_TYPE_I8_ROW || tensor->type == DIT_TYPE_F8_E4M3 || tensor->type == DIT_TYPE_F8_E5M2 ||
           (tensor->type == DIT_TYPE_STORED && diti_equal(tensor->type_name, "U8"));
}

DIT_INTERNAL dit_result diti_checkpoint_name_types(diti_checkpoint *checkpoint, dit_error *err) {
    const diti_meta *told = diti_metadata_find(&checkpoint->metadata, DITI_COMFY_METADATA);
    const diti_json *layers = NULL;
    diti_json *metadata = NULL;
    dit_result result = DIT_OK;
    size_t i;
    DITI_TRY(diti_refuse_foreign(checkpoint, err));
    if (told && told->text)
        DITI_TRY(
            diti_json_parse(&checkpoint->env, told->text, strlen(told->text), DITI_COMFY_METADATA, &metadata, err));
    if (metadata) layers = diti_json_get(metadata, "layers");
    for (i = 0; i < checkpoint->tensor_count && result >= 0; i++) {
        diti_stored_tensor *tensor = &checkpoint->tensors[i];
        const diti_json *layer = NULL;
        const diti_stored_tensor *marker;
        if (!diti_may_be_described(tensor)) continue;
        if (diti_ends_with(tensor->name, ".weight")) layer = diti_comfy_layer(layers, tensor->name);
        marker = diti_comfy_marker(checkpoint, tensor);
        if (layer)
            result = diti_comfy_name(checkpoint, tensor, layer, err);
        else if (marker && !checkpoint->absent)
            result = diti_comfy_read(checkpoint, tensor, marker, err);
        else if (diti_type_has_factors(tensor->type) &&
                 diti_stored_sibling(checkpoint, tensor, ".weight", ".weight_scale_inv"))
            result = diti_refuse_as(checkpoint, tensor, "F8 with factors for blocks (weight_scale_inv)", err);
        else if (tensor->type == DIT_TYPE_I8_ROW)
            result = diti_name_blocks(checkpoint, tensor, err);
    }
    diti_json_free(&checkpoint->env, metadata);
    return result;
}
