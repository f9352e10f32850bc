/* Adapter files: which tensor is what to which module, in the names that trainers write (docs/models.md 9.5). */
#include "weights/lora.h"

/* --- names --- */

typedef struct diti_lora_ending {
    const char *text;
    diti_lora_slot slot;
    const char *module; /* the end of the module's name in its place; NULL: none */
} diti_lora_ending;

static const diti_lora_ending diti_lora_endings[] = {
    {".lora_A.weight", DITI_LORA_DOWN, NULL},
    {".lora_B.weight", DITI_LORA_UP, NULL},
    {".lora_A.default.weight", DITI_LORA_DOWN, NULL},
    {".lora_B.default.weight", DITI_LORA_UP, NULL},
    {".lora_A", DITI_LORA_DOWN, NULL},
    {".lora_B", DITI_LORA_UP, NULL},
    {".lora_down.weight", DITI_LORA_DOWN, NULL},
    {".lora_up.weight", DITI_LORA_UP, NULL},
    {".lora.down.weight", DITI_LORA_DOWN, NULL},
    {".lora.up.weight", DITI_LORA_UP, NULL},
    {"_lora.down.weight", DITI_LORA_DOWN, NULL},
    {"_lora.up.weight", DITI_LORA_UP, NULL},
    {".lora_linear_layer.down.weight", DITI_LORA_DOWN, NULL},
    {".lora_linear_layer.up.weight", DITI_LORA_UP, NULL},
    {".hada_w1_a", DITI_LOHA_1A, NULL},
    {".hada_w1_b", DITI_LOHA_1B, NULL},
    {".hada_w2_a", DITI_LOHA_2A, NULL},
    {".hada_w2_b", DITI_LOHA_2B, NULL},
    {".lokr_w1", DITI_LOKR_1, NULL},
    {".lokr_w1_a", DITI_LOKR_1A, NULL},
    {".lokr_w1_b", DITI_LOKR_1B, NULL},
    {".lokr_w2", DITI_LOKR_2, NULL},
    {".lokr_w2_a", DITI_LOKR_2A, NULL},
    {".lokr_w2_b", DITI_LOKR_2B, NULL},
    {".alpha", DITI_LORA_ALPHA, NULL},
    {".dora_scale", DITI_LORA_MAGNITUDE, NULL},
    {".magnitude", DITI_LORA_MAGNITUDE, NULL}, /* ai-toolkit */
    {".lora_magnitude_vector", DITI_LORA_MAGNITUDE, NULL},
    {".lora_magnitude_vector.weight", DITI_LORA_MAGNITUDE, NULL},
    {".lora_magnitude_vector.default.weight", DITI_LORA_MAGNITUDE, NULL},
    {".hada_t1", DITI_LOHA_T1, NULL},
    {".hada_t2", DITI_LOHA_T2, NULL},
    {".lokr_t2", DITI_LOKR_T2, NULL},
    {".lora_mid.weight", DITI_LORA_MID, NULL},
    {".lora_B.bias", DITI_LORA_UP_BIAS, NULL},
    {".lora_B.default.bias", DITI_LORA_UP_BIAS, NULL},
    {".diff", DITI_LORA_DIFF, NULL},
    {".w_norm", DITI_LORA_DIFF, NULL},
    {".diff_m", DITI_LORA_DIFF, ".modulation"}, /* LightX2V */
    {".diff_b", DITI_LORA_DIFF_BIAS, NULL},
    {".b_norm", DITI_LORA_DIFF_BIAS, NULL},
    /* XLabs' LoRAs of FLUX.1 */
    {".processor.qkv_lora1.down.weight", DITI_LORA_DOWN, ".img_attn.qkv"},
    {".processor.qkv_lora1.up.weight", DITI_LORA_UP, ".img_attn.qkv"},
    {".processor.qkv_lora2.down.weight", DITI_LORA_DOWN, ".txt_attn.qkv"},
    {".processor.qkv_lora2.up.weight", DITI_LORA_UP, ".txt_attn.qkv"},
    {".processor.proj_lora1.down.weight", DITI_LORA_DOWN, ".img_attn.proj"},
    {".processor.proj_lora1.up.weight", DITI_LORA_UP, ".img_attn.proj"},
    {".processor.proj_lora2.down.weight", DITI_LORA_DOWN, ".txt_attn.proj"},
    {".processor.proj_lora2.up.weight", DITI_LORA_UP, ".txt_attn.proj"},
    {".processor.qkv_lora.down.weight", DITI_LORA_DOWN, ".qkv"},
    {".processor.qkv_lora.up.weight", DITI_LORA_UP, ".qkv"},
    {".processor.proj_lora.down.weight", DITI_LORA_DOWN, ".linear2"},
    {".processor.proj_lora.up.weight", DITI_LORA_UP, ".linear2"},
};

typedef struct diti_lora_prefix {
    const char *text;
    dit_role part; /* DIT_ROLE_NONE: more may follow */
} diti_lora_prefix;
static const diti_lora_prefix diti_lora_prefixes[] = {
    {"base_model.model.", DIT_ROLE_NONE},
    {"lycoris_", DIT_ROLE_NONE},
    {"lora_unet_llm_adapter_", DIT_ROLE_TEXT_2}, /* Anima's text conditioner */
    {"diffusion_model.llm_adapter.", DIT_ROLE_TEXT_2},
    {"net.llm_adapter.", DIT_ROLE_TEXT_2},
    {"text_conditioner.", DIT_ROLE_TEXT_2},
    {"lora_unet__", DIT_ROLE_TRANSFORMER}, /* VideoX-Fun: the model itself is a module without a name */
    {"lora_unet_", DIT_ROLE_TRANSFORMER},
    {"Hunyuan_video_I2V_lora_", DIT_ROLE_TRANSFORMER},
    {"pipe.dit.", DIT_ROLE_TRANSFORMER},
    {"net.", DIT_ROLE_TRANSFORMER}, /* Anima's own files */
    {"lora_transformer_", DIT_ROLE_TRANSFORMER},
    {"transformer.", DIT_ROLE_TRANSFORMER},
    {"conditional_transformer.", DIT_ROLE_TRANSFORMER},
    {"diffusion_model.", DIT_ROLE_TRANSFORMER},
    {"model.diffusion_model.", DIT_ROLE_TRANSFORMER},
    {"unet.", DIT_ROLE_TRANSFORMER},
    {"lora_te_", DIT_ROLE_TEXT_1},
    {"lora_te1_", DIT_ROLE_TEXT_1},
    {"lora_te2_", DIT_ROLE_TEXT_2},
    {"lora_te3_", DIT_ROLE_TEXT_3},
    {"text_encoders.clip_l.transformer.", DIT_ROLE_TEXT_1},
    {"text_encoders.clip_g.transformer.", DIT_ROLE_TEXT_2},
    {"text_encoders.t5xxl.transformer.", DIT_ROLE_TEXT_3},
    {"text_encoders.umt5xxl.transformer.", DIT_ROLE_TEXT_3},
    {"text_encoders.qwen3_06b.transformer.", DIT_ROLE_TEXT_1},
    {"text_encoders.qwen3_4b.transformer.", DIT_ROLE_TEXT_1},
    {"text_encoders.qwen3_8b.transformer.", DIT_ROLE_TEXT_1},
    {"text_encoders.qwen25_7b.transformer.", DIT_ROLE_TEXT_1},
    {"text_encoders.gemma2_2b.transformer.", DIT_ROLE_TEXT_1},
    {"text_encoders.llama.transformer.", DIT_ROLE_TEXT_1},
    {"text_encoders.mistral3_24b.transformer.", DIT_ROLE_TEXT_1},
    {"text_encoder.", DIT_ROLE_TEXT_1},
    {"text_encoder_2.", DIT_ROLE_TEXT_2},
    {"text_encoder_3.", DIT_ROLE_TEXT_3},
};

static const diti_lora_ending *diti_lora_ending_of(const char *name) {
    const diti_lora_ending *best = NULL;
    size_t i;
    for (i = 0; i < DITI_COUNT(diti_lora_endings); i++) {
        const diti_lora_ending *ending = &diti_lora_endings[i];
        if (diti_ends_with(name, ending->text) && (!best || strlen(ending->text) > strlen(best->text))) best = ending;
    }
    return best;
}

/* Skips what stands before a module's name. */
static const char *diti_lora_part_of(const char *name, dit_role *part) {
    size_t i = 0;
    *part = DIT_ROLE_TRANSFORMER;
    while (i < DITI_COUNT(diti_lora_prefixes)) {
        const diti_lora_prefix *prefix = &diti_lora_prefixes[i++];
        if (!diti_starts_with(name, prefix->text)) continue;
        name += strlen(prefix->text);
        if (prefix->part != DIT_ROLE_NONE) {
            *part = prefix->part;
            break;
        }
        i = 0;
    }
    return name;
}

static diti_lora_module *diti_lora_module_of(diti_lora_file *file, const char *name, size_t length, dit_role part,
                                             bool bias) {
    size_t i;
    void *array = file->modules;
    diti_lora_module *module;
    for (i = file->module_count; i-- > 0;) { /* tensors of a module are neighbours, mostly */
        module = &file->modules[i];
        if (module->part == part && module->bias == bias && strlen(module->name) == length &&
            !memcmp(module->name, name, length))
            return module;
    }
    if (!diti_grow(&file->env, &array, &file->module_capacity, file->module_count, sizeof *module)) return NULL;
    file->modules = (diti_lora_module *)array;
    module = &file->modules[file->module_count];
    memset(module, 0, sizeof *module);
    module->part = part;
    module->bias = bias;
    module->name = diti_checkpoint_keep_text(file->checkpoint, name, length);
    if (!module->name) return NULL;
    file->module_count++;
    return module;
}

/* The module that a tensor of that ending is about; NULL: no memory. */
static diti_lora_module *diti_lora_module_named(diti_lora_file *file, const char *name, const diti_lora_ending *ending,
                                                dit_role part) {
    size_t length = strlen(name) - strlen(ending->text), more = ending->module ? strlen(ending->module) : 0;
    char *full = (char *)diti_alloc_array(&file->env, length + more + 1, 1);
    diti_lora_module *module;
    if (!full) return NULL;
    memcpy(full, name, length);
    if (more) memcpy(full + length, ending->module, more);
    module = diti_lora_module_of(file, full, length + more, part,
                                 ending->slot == DITI_LORA_DIFF_BIAS || ending->slot == DITI_LORA_UP_BIAS);
    diti_free(&file->env, full);
    return module;
}

static dit_result diti_lora_sort(diti_lora_file *file, dit_error *err) {
    uint32_t i, count = diti_checkpoint_count(file->checkpoint);
    for (i = 0; i < count; i++) {
        const diti_stored_tensor *tensor = diti_checkpoint_tensor(file->checkpoint, i);
        const diti_lora_ending *ending = diti_lora_ending_of(tensor->name);
        dit_role part;
        const char *name = diti_lora_part_of(tensor->name, &part);
        diti_lora_module *module;
        if (!ending || strlen(name) <= strlen(ending->text)) {
            if (!file->foreign++) file->first_foreign = tensor;
            diti_log(&file->env, DITI_LOG_INFO, "%s: left out: tensor %s", diti_checkpoint_name(file->checkpoint),
                     tensor->name);
            continue;
        }
        module = diti_lora_module_named(file, name, ending, part);
        if (!module) return diti_fail_memory(err, "the modules of %.200s", diti_checkpoint_name(file->checkpoint));
        module->tensors[ending->slot] = tensor;
    }
    return DIT_OK;
}

/* --- shapes --- */

static dit_result diti_lora_refuse(const diti_lora_file *file, const diti_stored_tensor *tensor, dit_error *err,
                                   const char *problem) {
    return diti_fail(err, DIT_ERROR_BAD_FILE, "%s: tensor %.200s: %s", diti_checkpoint_name(file->checkpoint),
                     tensor->name, problem);
}

/* A tensor as a matrix: its first dimension, and all others together. */
static bool diti_lora_matrix(const diti_stored_tensor *tensor, uint32_t *rows, uint32_t *columns) {
    const uint64_t most = 1u << 24;
    uint64_t wide = 1;
    uint32_t i;
    *rows = *columns = 0;
    if (!tensor || tensor->rank < 2 || !tensor->shape[0] || tensor->shape[0] > most) return false;
    for (i = 1; i < tensor->rank; i++) {
        if (!tensor->shape[i] || tensor->shape[i] > most / wide) return false;
        wide *= tensor->shape[i];
    }
    *rows = (uint32_t)tensor->shape[0];
    *columns = (uint32_t)wide;
    return true;
}

/* Any tensor of a module, for messages. */
static const diti_stored_tensor *diti_lora_any(const diti_lora_module *module) {
    uint32_t i = 0;
    while (!module->tensors[i]) i++;
    return module->tensors[i];
}

/* The shape of a product a * b of two tensors, [rows, rank] and [rank, columns], between which a convolution may have a
   Tucker factor. */
static dit_result diti_lora_product(const diti_lora_file *file, const diti_lora_module *module, diti_lora_slot a,
                                    diti_lora_slot b, uint32_t *rows, uint32_t *rank, uint32_t *columns,
                                    dit_error *err) {
    const diti_stored_tensor *there = module->tensors[a] ? module->tensors[a] : module->tensors[b], *tucker;
    uint32_t inner, taps, mixed = 0, wide = 0;
    if (!module->tensors[a] || !module->tensors[b])
        return diti_lora_refuse(file, there ? there : diti_lora_any(module), err,
                                "the other half of the pair is missing; the file is incomplete");
    tucker = diti_lora_tucker(module, b, &taps);
    if (tucker && !diti_lora_matrix(tucker, &mixed, &wide))
        return diti_lora_refuse(file, tucker, err, "not a Tucker factor");
    if (!diti_lora_matrix(module->tensors[a], rows, &inner))
        return diti_lora_refuse(file, module->tensors[a], err, "not a matrix");
    if (!diti_lora_matrix(module->tensors[b], rank, columns))
        return diti_lora_refuse(file, module->tensors[b], err, "not a matrix");
    if (tucker && a != DITI_LORA_UP) { /* LoHa's and LoKr's a is turned then */
        uint32_t turned = *rows;
        *rows = inner;
        inner = turned;
    }
    if (tucker && (mixed != *rank || wide != *rank * taps || *columns > (1u << 24) / taps))
        return diti_fail(err, DIT_ERROR_BAD_FILE, "%s: tensor %.200s is no Tucker factor of rank %u",
                         diti_checkpoint_name(file->checkpoint), tucker->name, (unsigned)*rank);
    *columns *= taps;
    if (inner == *rank) return DIT_OK;
    return diti_fail(err, DIT_ERROR_BAD_FILE,
                     "%s: tensor %.150s has %u columns and tensor %.150s %u rows: not one rank",
                     diti_checkpoint_name(file->checkpoint), module->tensors[a]->name, (unsigned)inner,
                     module->tensors[b]->name, (unsigned)*rank);
}

static dit_result diti_loha_shape(const diti_lora_file *file, diti_lora_module *module, dit_error *err) {
    uint32_t rows, rank, columns;
    DITI_TRY(diti_lora_product(file, module, DITI_LOHA_1A, DITI_LOHA_1B, &module->rows, &module->rank, &module->columns,
                               err));
    DITI_TRY(diti_lora_product(file, module, DITI_LOHA_2A, DITI_LOHA_2B, &rows, &rank, &columns, err));
    if (rows == module->rows && columns == module->columns) return DIT_OK;
    return diti_lora_refuse(file, module->tensors[DITI_LOHA_2A], err, "the two products of LoHa differ in shape");
}

/* One factor of a LoKr; *rank: of its product, 0 where it is whole. */
static dit_result diti_lokr_factor(const diti_lora_file *file, const diti_lora_module *module, diti_lora_slot whole,
                                   uint32_t *rows, uint32_t *rank, uint32_t *columns, dit_error *err) {
    diti_lora_slot a = (diti_lora_slot)(whole + 1), b = (diti_lora_slot)(whole + 2);
    *rank = 0;
    if (module->tensors[whole] && whole == DITI_LOKR_2 && module->tensors[DITI_LOKR_T2])
        return diti_lora_refuse(file, module->tensors[DITI_LOKR_T2], err, "a Tucker factor of a matrix that is whole");
    if (!module->tensors[whole] && (module->tensors[a] || module->tensors[b]))
        return diti_lora_product(file, module, a, b, rows, rank, columns, err);
    if (diti_lora_matrix(module->tensors[whole], rows, columns)) return DIT_OK;
    if (module->tensors[whole]) return diti_lora_refuse(file, module->tensors[whole], err, "not a matrix");
    return diti_lora_refuse(file, diti_lora_any(module), err, "one of LoKr's factors is missing");
}

static dit_result diti_lokr_shape(const diti_lora_file *file, diti_lora_module *module, dit_error *err) {
    uint32_t rows, columns, rank;
    DITI_TRY(diti_lokr_factor(file, module, DITI_LOKR_1, &rows, &module->rank, &columns, err));
    DITI_TRY(diti_lokr_factor(file, module, DITI_LOKR_2, &module->rows2, &rank, &module->columns2, err));
    if (rank) module->rank = rank; /* the second one's counts */
    if ((uint64_t)rows * module->rows2 > 1u << 24 || (uint64_t)columns * module->columns2 > 1u << 24)
        return diti_lora_refuse(file, module->tensors[module->tensors[DITI_LOKR_2] ? DITI_LOKR_2 : DITI_LOKR_2A], err,
                                "LoKr's product is absurdly large");
    module->rows = rows * module->rows2;
    module->columns = columns * module->columns2;
    return DIT_OK;
}

/* A vector is a matrix of one column. */
static dit_result diti_lora_diff_shape(const diti_lora_file *file, diti_lora_module *module, dit_error *err) {
    const diti_stored_tensor *tensor = module->tensors[diti_lora_diff_slot(module)];
    if (module->tensors[DITI_LORA_DIFF_BIAS] && module->tensors[DITI_LORA_UP_BIAS])
        return diti_lora_refuse(file, tensor, err, "the same bias has another difference");
    if (tensor->rank == 1 && tensor->shape[0] && tensor->shape[0] <= 1u << 24) {
        module->rows = (uint32_t)tensor->shape[0];
        module->columns = 1;
        return DIT_OK;
    }
    if (diti_lora_matrix(tensor, &module->rows, &module->columns)) return DIT_OK;
    return diti_lora_refuse(file, tensor, err, "neither a vector nor a matrix");
}

static bool diti_lora_has(const diti_lora_module *module, diti_lora_slot first, diti_lora_slot last) {
    int i;
    for (i = (int)first; i <= (int)last; i++)
        if (module->tensors[i]) return true;
    return false;
}

/* A magnitude for each row, or for each channel of the input; where these are as many, one for each row. */
static dit_result diti_dora_shape(const diti_lora_file *file, diti_lora_module *module, dit_error *err) {
    const diti_stored_tensor *tensor = module->tensors[DITI_LORA_MAGNITUDE];
    uint64_t count = tensor ? diti_stored_tensor_elements(tensor) : 0;
    bool flat = tensor && tensor->rank == 1;
    if (!tensor) return DIT_OK;
    if (tensor->rank && count == module->rows && tensor->shape[0] == module->rows) return DIT_OK;
    if (module->kind == DITI_KIND_DIFF || !tensor->rank || !count || count > module->columns ||
        module->columns % count || (!flat && (tensor->shape[0] != 1 || tensor->shape[1] != count)))
        return diti_fail(
            err, DIT_ERROR_BAD_FILE, "%s: tensor %.200s has magnitudes that are neither of %u rows nor of %u columns",
            diti_checkpoint_name(file->checkpoint), tensor->name, (unsigned)module->rows, (unsigned)module->columns);
    module->share = module->columns / (uint32_t)count;
    return DIT_OK;
}

static dit_result diti_lora_shape(const diti_lora_file *file, diti_lora_module *module, dit_error *err) {
    bool lora = diti_lora_has(module, DITI_LORA_DOWN, DITI_LORA_MID);
    bool loha = diti_lora_has(module, DITI_LOHA_1A, DITI_LOHA_T2);
    bool lokr = diti_lora_has(module, DITI_LOKR_1, DITI_LOKR_T2);
    bool diff = diti_lora_has(module, DITI_LORA_DIFF, DITI_LORA_UP_BIAS);
    if (!lora && !loha && !lokr && !diff)
        return diti_lora_refuse(file, diti_lora_any(module), err, "a module without any factors");
    if (lora + loha + lokr + diff > 1)
        return diti_fail(err, DIT_ERROR_BAD_FILE, "%s: module %.200s has factors of more than one kind of adapter",
                         diti_checkpoint_name(file->checkpoint), module->name);
    if (lora && module->tensors[DITI_LORA_UP] &&
        diti_ends_with(module->tensors[DITI_LORA_UP]->name, "attn.qkv_proj.lora_B.default.weight"))
        return diti_lora_refuse(
            file, module->tensors[DITI_LORA_UP], err,
            "DiffSynth-Studio has rows of queries, keys and values head by head there, and the model "
            "one after the other; take the file in the form of diffusers or ComfyUI");
    module->kind = lora ? DITI_KIND_LORA : loha ? DITI_KIND_LOHA : lokr ? DITI_KIND_LOKR : DITI_KIND_DIFF;
    if (diff) return diti_lora_diff_shape(file, module, err);
    if (loha) return diti_loha_shape(file, module, err);
    if (lokr) return diti_lokr_shape(file, module, err);
    return diti_lora_product(file, module, DITI_LORA_UP, DITI_LORA_DOWN, &module->rows, &module->rank, &module->columns,
                             err);
}

/* --- scales --- */

/* A value of the configuration; text encoders' stand behind their own prefix. */
static const diti_json *diti_lora_setting(const diti_lora_file *file, const diti_lora_module *module, const char *key) {
    static const char *const parts[] = {"transformer", "text_encoder", "text_encoder_2", "text_encoder_3"};
    uint32_t part = module->part == DIT_ROLE_TRANSFORMER ? 0 : (uint32_t)module->part - DIT_ROLE_TEXT_1 + 1;
    char full[64];
    const diti_json *value;
    diti_format(full, sizeof full, "%s%s%s", file->prefixed ? parts[part] : "", file->prefixed ? "." : "", key);
    value = diti_json_get(file->config, full);
    return value && value->kind != DITI_JSON_NULL ? value : NULL;
}

/* The number of a pattern that is the module's name, or stands behind a dot at its end; NULL: none does. */
static const diti_json *diti_lora_pattern(const diti_lora_file *file, const diti_lora_module *module, const char *key) {
    const diti_json *patterns = diti_lora_setting(file, module, key), *entry;
    if (!patterns || patterns->kind != DITI_JSON_OBJECT) return NULL;
    for (entry = patterns->first; entry; entry = entry->next) {
        size_t length = strlen(module->name);
        if (entry->kind != DITI_JSON_NUMBER || !diti_ends_with(module->name, entry->key)) continue;
        if (length == entry->key_length || module->name[length - entry->key_length - 1] == '.') return entry;
    }
    return NULL;
}

static double diti_lora_number(const diti_lora_file *file, const diti_lora_module *module, const char *pattern,
                               const char *key, double otherwise) {
    const diti_json *value = diti_lora_pattern(file, module, pattern);
    if (!value) value = diti_lora_setting(file, module, key);
    return value && value->kind == DITI_JSON_NUMBER ? value->number : otherwise;
}

/* Without an alpha tensor: PEFT's configuration, else 1. */
static double diti_lora_configured(const diti_lora_file *file, const diti_lora_module *module) {
    const diti_json *rooted = diti_lora_setting(file, module, "use_rslora");
    double alpha = diti_lora_number(file, module, "alpha_pattern", "lora_alpha",
                                    diti_lora_number(file, module, "alpha_pattern", "alpha", 0));
    double rank = module->rank;
    if (!file->config || alpha == 0) return 1;
    if (module->kind == DITI_KIND_LOKR) rank = diti_lora_number(file, module, "rank_pattern", "r", rank);
    if (module->kind == DITI_KIND_LORA && rooted && rooted->kind == DITI_JSON_BOOL && rooted->number != 0)
        rank = sqrt(rank);
    return rank > 0 ? alpha / rank : 1;
}

static dit_result diti_lora_scale(const diti_lora_file *file, diti_lora_module *module, dit_error *err) {
    const diti_stored_tensor *tensor = module->tensors[DITI_LORA_ALPHA];
    float alpha = 0;
    module->scale = tensor || module->kind == DITI_KIND_DIFF ? 1 : diti_lora_configured(file, module);
    if (!(fabs(module->scale) < 1e30))
        return diti_fail(err, DIT_ERROR_BAD_FILE, "%s: the scale of module %.200s is not finite",
                         diti_checkpoint_name(file->checkpoint), module->name);
    if (!tensor || !module->rank) return DIT_OK;
    if (diti_stored_tensor_elements(tensor) != 1) return diti_lora_refuse(file, tensor, err, "alpha is one number");
    if (file->env.headers_only) return DIT_OK;
    DITI_TRY(diti_checkpoint_read_float(file->checkpoint, tensor, &alpha, 1, err));
    if (!isfinite(alpha)) return diti_lora_refuse(file, tensor, err, "alpha is not finite");
    module->scale = (double)alpha / module->rank;
    return DIT_OK;
}

/* PEFT's bias of up has the scale of its LoRA. */
static dit_result diti_lora_scale_bias(const diti_lora_file *file, diti_lora_module *module, dit_error *err) {
    size_t i;
    for (i = 0; i < file->module_count; i++) {
        const diti_lora_module *pair = &file->modules[i];
        if (pair->part != module->part || pair->bias || pair->kind != DITI_KIND_LORA ||
            !diti_equal(pair->name, module->name))
            continue;
        module->scale = pair->scale;
        return DIT_OK;
    }
    return diti_lora_refuse(file, module->tensors[DITI_LORA_UP_BIAS], err,
                            "the pair that this bias belongs to is missing");
}

/* --- opening --- */

static dit_result diti_lora_parse_config(diti_lora_file *file, const char *text, size_t size, const char *what,
                                         dit_error *err) {
    DITI_TRY(diti_json_parse(&file->env, text, size, what, &file->config, err));
    if (file->config->kind == DITI_JSON_OBJECT) return DIT_OK;
    return diti_fail(err, DIT_ERROR_BAD_FILE, "%s: %s is not an object", diti_checkpoint_name(file->checkpoint), what);
}

static dit_result diti_lora_read_config(diti_lora_file *file, const dit_source *folder, dit_error *err) {
    static const char name[] = "adapter_config.json", key[] = "lora_adapter_metadata";
    const char *metadata = diti_checkpoint_text(file->checkpoint, key);
    diti_file *config = NULL;
    char *text = NULL;
    size_t size = 0;
    dit_result result = DIT_OK;
    if (metadata) {
        file->prefixed = true;
        return diti_lora_parse_config(file, metadata, strlen(metadata), key, err);
    }
    if (!folder) return DIT_OK;
    result = diti_file_open_member(&file->env, folder, name, &config, err);
    if (result >= 0 && config) result = diti_file_read_all(&file->env, config, &text, &size, err);
    if (result >= 0 && text) result = diti_lora_parse_config(file, text, size, name, err);
    diti_free(&file->env, text);
    diti_file_close(config);
    return result;
}

/* PEFT writes adapter_model.safetensors and adapter_config.json, diffusers pytorch_lora_weights.safetensors. */
static dit_result diti_lora_open_folder(diti_lora_file *file, const dit_source *source, dit_error *err) {
    static const char *const names[] = {"adapter_model.safetensors", "pytorch_lora_weights.safetensors",
                                        "adapter_model.bin", "pytorch_lora_weights.bin"};
    size_t i;
    for (i = 0; i < DITI_COUNT(names) && !file->checkpoint; i++)
        DITI_TRY(diti_checkpoint_open_member(&file->env, source, names[i], &file->checkpoint, err));
    if (file->checkpoint) return diti_lora_read_config(file, source, err);
    return diti_fail(err, DIT_ERROR_IO, "%s: a folder without %s or %s", source->path ? source->path : "the LoRA",
                     names[0], names[1]);
}

/* A file of PEFT's has its configuration beside it. */
static dit_result diti_lora_open_file(diti_lora_file *file, const dit_source *source, dit_error *err) {
    static const char peft[] = "adapter_model.safetensors";
    dit_source folder = DITI_ZERO;
    char *path;
    dit_result result;
    DITI_TRY(diti_checkpoint_open(&file->env, source, &file->checkpoint, err));
    if (!source->path || !diti_ends_with(source->path, peft)) return diti_lora_read_config(file, NULL, err);
    path = diti_copy_string(&file->env, source->path);
    if (!path) return diti_fail_memory(err, "%.200s", source->path);
    path[strlen(path) - strlen(peft)] = 0;
    folder.path = path[0] ? path : ".";
    result = diti_lora_read_config(file, &folder, err);
    diti_free(&file->env, path);
    return result;
}

static dit_result diti_lora_fill(diti_lora_file *file, const dit_source *source, dit_error *err) {
    size_t i;
    if (diti_source_is_folder(source))
        DITI_TRY(diti_lora_open_folder(file, source, err));
    else
        DITI_TRY(diti_lora_open_file(file, source, err));
    DITI_TRY(diti_lora_sort(file, err));
    for (i = 0; i < file->module_count; i++) {
        DITI_TRY(diti_lora_shape(file, &file->modules[i], err));
        DITI_TRY(diti_dora_shape(file, &file->modules[i], err));
        DITI_TRY(diti_lora_scale(file, &file->modules[i], err));
    }
    for (i = 0; i < file->module_count; i++)
        if (file->modules[i].tensors[DITI_LORA_UP_BIAS]) DITI_TRY(diti_lora_scale_bias(file, &file->modules[i], err));
    if (file->module_count) return DIT_OK;
    return diti_fail(err, DIT_ERROR_UNSUPPORTED_MODEL,
                     "%s: not a LoRA, LoHa or LoKr: none of its tensors is a factor of one (the first is %.200s)",
                     diti_checkpoint_name(file->checkpoint), file->first_foreign ? file->first_foreign->name : "none");
}

DIT_INTERNAL dit_result diti_lora_open(const diti_env *env, const dit_source *source, diti_lora_file **out,
                                       dit_error *err) {
    diti_lora_file *file = (diti_lora_file *)diti_alloc_zero(env, sizeof *file);
    dit_result result;
    *out = NULL;
    if (!file) return diti_fail_memory(err, "a LoRA");
    file->env = *env;
    result = diti_lora_fill(file, source, err);
    if (result < 0)
        diti_lora_close(file);
    else
        *out = file;
    return result;
}

DIT_INTERNAL void diti_lora_close(diti_lora_file *file) {
    diti_env env;
    size_t i;
    if (!file) return;
    env = file->env;
    for (i = 0; i < file->module_count; i++) diti_lora_forget(file, &file->modules[i]);
    diti_free(&env, file->modules);
    diti_json_free(&env, file->config);
    diti_checkpoint_close(file->checkpoint);
    diti_free(&env, file);
}

/* --- what it says of steps --- */

/* The number before "step" or "-step" in a file's name: "Qwen-Image-Lightning-8steps-V1.0". lightx2v's of Wan 2.1 tell
   none, and are for 4. */
static uint32_t diti_lora_named_steps(const char *name) {
    const char *slash = strrchr(name, '/'), *at = slash ? slash + 1 : name, *end;
    const uint32_t untold = strstr(at, "cfg_step_distill") ? 4 : 0;
    while ((end = strstr(at, "step")) != NULL) {
        const char *digits = end;
        uint32_t steps = 0;
        if (digits > at && (digits[-1] == '-' || digits[-1] == '_')) digits--;
        while (digits > at && digits[-1] >= '0' && digits[-1] <= '9') digits--;
        while (*digits >= '0' && *digits <= '9' && steps < 1000) steps = 10 * steps + (uint32_t)(*digits++ - '0');
        if (steps && steps <= 64) return steps; /* more are steps of a training */
        at = end + 4;
    }
    return untold;
}

DIT_INTERNAL void diti_lora_defaults(const diti_lora_file *file, uint32_t *steps, float *guidance) {
    const char *told = diti_checkpoint_text(file->checkpoint, "dit.steps");
    const char *scale = diti_checkpoint_text(file->checkpoint, "dit.guidance");
    const char *name = diti_checkpoint_name(file->checkpoint), *slash = strrchr(name, '/');
    double count = told ? diti_parse_double(told) : 0, value = scale ? diti_parse_double(scale) : 0;
    *steps = count >= 1 && count <= 1000 ? (uint32_t)count : 0;
    *guidance = value > 0 && value <= 1000 ? (float)value : 0;
    if (*steps || *guidance > 0) return;
    *steps = diti_lora_named_steps(name);
    if (*steps && !strstr(slash ? slash : name, "CFG")) *guidance = 1; /* distilled with the guidance in it */
}
