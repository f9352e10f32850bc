/* nunchaku's files (SVDQuant): which layers they have, and what these are called in diffusers. Facts are from
   https://github.com/nunchaku-tech/nunchaku and https://github.com/mit-han-lab/deepcompressor (docs/quantized.md). */
#include "io/io.h"

/* A layer of a block "STACK NUMBER . module", by its older or newer name, and the layers that it is in diffusers. */
typedef struct diti_nunchaku_rule {
    const char *stack, *module;
    const char *layers[3];  /* one behind the other in its rows; none: what stands before takes it as `beside` */
    uint32_t rows, columns; /* sizes of each of them, in widths of the model; 0: as many as the tiles hold */
    uint32_t splits;        /* diti_nunchaku_layer.splits */
    bool shifted;           /* diti_nunchaku_layer.shifted */
    const char *beside;     /* module whose columns follow those of this one in the same layer */
} diti_nunchaku_rule;

#define DITI_DOUBLES "transformer_blocks."
#define DITI_SINGLES "single_transformer_blocks."
#define DITI_QKV                                                                                                       \
    { "attn.to_q", "attn.to_k", "attn.to_v" }
#define DITI_ADDED_QKV                                                                                                 \
    { "attn.add_q_proj", "attn.add_k_proj", "attn.add_v_proj" }
#define DITI_ONE(name)                                                                                                 \
    { name, NULL, NULL }
#define DITI_ZIMAGE_RULES(stack)                                                                                       \
    {stack, "attention.to_qkv", {"attention.to_q", "attention.to_k", "attention.to_v"}, 1, 1, 0, false, NULL},         \
        {stack, "attention.to_out.0", DITI_ONE("attention.to_out.0"), 1, 1, 0, false, NULL},                           \
        {stack, "feed_forward.net.0.proj", {"feed_forward.w3", "feed_forward.w1", NULL}, 0, 1, 0, false, NULL}, {      \
        stack, "feed_forward.net.2", DITI_ONE("feed_forward.w2"), 1, 0, 0, false, NULL                                 \
    }

static const diti_nunchaku_rule diti_nunchaku_rules[] = {
    /* FLUX.1 */
    {DITI_DOUBLES, "norm1.linear", DITI_ONE("norm1.linear"), 6, 1, 6, false, NULL},
    {DITI_DOUBLES, "norm1_context.linear", DITI_ONE("norm1_context.linear"), 6, 1, 6, false, NULL},
    {DITI_DOUBLES, "qkv_proj", DITI_QKV, 1, 1, 0, false, NULL},
    {DITI_DOUBLES, "qkv_proj_context", DITI_ADDED_QKV, 1, 1, 0, false, NULL},
    {DITI_DOUBLES, "out_proj", DITI_ONE("attn.to_out.0"), 1, 1, 0, false, NULL},
    {DITI_DOUBLES, "out_proj_context", DITI_ONE("attn.to_add_out"), 1, 1, 0, false, NULL},
    {DITI_DOUBLES, "mlp_fc1", DITI_ONE("ff.net.0.proj"), 4, 1, 0, false, NULL},
    {DITI_DOUBLES, "mlp_fc2", DITI_ONE("ff.net.2"), 1, 4, 0, true, NULL},
    {DITI_DOUBLES, "mlp_context_fc1", DITI_ONE("ff_context.net.0.proj"), 4, 1, 0, false, NULL},
    {DITI_DOUBLES, "mlp_context_fc2", DITI_ONE("ff_context.net.2"), 1, 4, 0, true, NULL},
    {DITI_DOUBLES, "ff.net.0.proj", DITI_ONE("ff.net.0.proj"), 4, 1, 0, false, NULL},
    {DITI_DOUBLES, "ff.net.2", DITI_ONE("ff.net.2"), 1, 4, 0, true, NULL},
    {DITI_DOUBLES, "ff_context.net.0.proj", DITI_ONE("ff_context.net.0.proj"), 4, 1, 0, false, NULL},
    {DITI_DOUBLES, "ff_context.net.2", DITI_ONE("ff_context.net.2"), 1, 4, 0, true, NULL},
    {DITI_SINGLES, "norm.linear", DITI_ONE("norm.linear"), 3, 1, 3, false, NULL},
    {DITI_SINGLES, "qkv_proj", DITI_QKV, 1, 1, 0, false, NULL},
    {DITI_SINGLES, "attn.to_qkv", DITI_QKV, 1, 1, 0, false, NULL},
    {DITI_SINGLES, "mlp_fc1", DITI_ONE("proj_mlp"), 4, 1, 0, false, NULL},
    {DITI_SINGLES, "out_proj", DITI_ONE("proj_out"), 1, 1, 0, false, "mlp_fc2"},
    {DITI_SINGLES, "attn.to_out", DITI_ONE("proj_out"), 1, 1, 0, false, "mlp_fc2"},
    {DITI_SINGLES, "mlp_fc2", DITI_ONE(NULL), 1, 4, 0, true, NULL},
    /* FLUX.1 by newer names, and Qwen-Image */
    {DITI_DOUBLES, "attn.to_qkv", DITI_QKV, 1, 1, 0, false, NULL},
    {DITI_DOUBLES, "attn.add_qkv_proj", DITI_ADDED_QKV, 1, 1, 0, false, NULL},
    {DITI_DOUBLES, "attn.to_out.0", DITI_ONE("attn.to_out.0"), 1, 1, 0, false, NULL},
    {DITI_DOUBLES, "attn.to_add_out", DITI_ONE("attn.to_add_out"), 1, 1, 0, false, NULL},
    {DITI_DOUBLES, "img_mod.1", DITI_ONE("img_mod.1"), 6, 1, 6, false, NULL},
    {DITI_DOUBLES, "txt_mod.1", DITI_ONE("txt_mod.1"), 6, 1, 6, false, NULL},
    {DITI_DOUBLES, "img_mlp.net.0.proj", DITI_ONE("img_mlp.net.0.proj"), 4, 1, 0, false, NULL},
    {DITI_DOUBLES, "img_mlp.net.2", DITI_ONE("img_mlp.net.2"), 1, 4, 0, true, NULL},
    {DITI_DOUBLES, "txt_mlp.net.0.proj", DITI_ONE("txt_mlp.net.0.proj"), 4, 1, 0, false, NULL},
    {DITI_DOUBLES, "txt_mlp.net.2", DITI_ONE("txt_mlp.net.2"), 1, 4, 0, true, NULL},
    DITI_ZIMAGE_RULES("layers."),
    DITI_ZIMAGE_RULES("noise_refiner."),
    DITI_ZIMAGE_RULES("context_refiner."),
};

/* Any layer of a text encoder, whose names are transformers' and stay. */
static const diti_nunchaku_rule diti_nunchaku_text = {"", "", DITI_ONE(NULL), 0, 0, 1, false, NULL};

/* Tensors of blocks that are not quantized and have other names than in diffusers. */
static const char *const diti_nunchaku_plain[][2] = {
    {"norm_q.weight", "attn.norm_q.weight"},
    {"norm_k.weight", "attn.norm_k.weight"},
    {"norm_added_q.weight", "attn.norm_added_q.weight"},
    {"norm_added_k.weight", "attn.norm_added_k.weight"},
    {"feed_forward.net.2.weight", "feed_forward.w2.weight"},
};

/* Names of a layer's parts, the older one and the newer one or a text encoder's. */
static const char *const diti_nunchaku_parts[DITI_NUNCHAKU_PARTS][2] = {
    {".qweight", NULL},       {".wscales", ".scales"},       {".wzeros", ".scaled_zeros"},
    {".bias", NULL},          {".smooth", ".smooth_factor"}, {".lora_down", ".proj_down"},
    {".lora_up", ".proj_up"}, {".wcscales", NULL},           {".wtscale", NULL},
};
/* The factors of calibration, which nothing reads. */
static const char *const diti_nunchaku_ignored[] = {".smooth_orig", ".smooth_factor_orig"};

/* Where a file's first linear layer says how wide the model is. */
static const char *const diti_nunchaku_widths[] = {"x_embedder.weight", "img_in.weight",
                                                   "layers.0.attention_norm1.weight"};

typedef struct diti_nunchaku_file { /* while names are made */
    diti_checkpoint *checkpoint;
    dit_error *err;
    uint32_t width;
    bool *used; /* for each packed tensor */
    diti_stored_tensor *tensors;
    size_t count, capacity;
} diti_nunchaku_file;

static const diti_stored_tensor *diti_nunchaku_find(const diti_nunchaku_file *file, const char *base,
                                                    const char *ending) {
    char name[600];
    return diti_format(name, sizeof name, "%s%s", base, ending) ? diti_checkpoint_find(file->checkpoint, name) : NULL;
}

static dit_result diti_nunchaku_fail(const diti_nunchaku_file *file, dit_result result, const char *base,
                                     const char *problem) {
    return diti_fail(file->err, result, "%s: nunchaku's layer '%.200s' %s", diti_checkpoint_name(file->checkpoint),
                     base, problem);
}

/* The length of "STACK NUMBER ." that a name begins with; 0: it does not. */
static size_t diti_nunchaku_block(const char *name, const char *stack) {
    size_t length = strlen(stack), digits;
    if (!diti_starts_with(name, stack)) return 0;
    digits = strspn(name + length, "0123456789");
    return digits && name[length + digits] == '.' ? length + digits + 1 : 0;
}

static const diti_nunchaku_rule *diti_nunchaku_find_rule(const char *base, size_t *block) {
    size_t i;
    for (i = 0; i < DITI_COUNT(diti_nunchaku_rules); i++) {
        const diti_nunchaku_rule *rule = &diti_nunchaku_rules[i];
        *block = diti_nunchaku_block(base, rule->stack);
        if (*block && diti_equal(base + *block, rule->module)) return rule;
    }
    return NULL;
}

/* --- a layer and its shapes --- */

static bool diti_nunchaku_is(const diti_stored_tensor *tensor, uint32_t rank, uint64_t first, uint64_t second) {
    return tensor && tensor->rank == rank && tensor->shape[0] == first && (rank < 2 || tensor->shape[1] == second);
}

static bool diti_nunchaku_is_float(const diti_stored_tensor *tensor) {
    return tensor->type == DIT_TYPE_F32 || tensor->type == DIT_TYPE_F16 || tensor->type == DIT_TYPE_BF16;
}

static dit_result diti_nunchaku_fail_shape(const diti_nunchaku_file *file, const diti_stored_tensor *tensor,
                                           const char *wanted) {
    return diti_fail(file->err, DIT_ERROR_BAD_FILE, "%s: tensor '%.200s' of a nunchaku layer is not %s",
                     diti_checkpoint_name(file->checkpoint), tensor->name, wanted);
}

/* Wants a part of floats, [first] or [first, second]. */
static dit_result diti_nunchaku_want(const diti_nunchaku_file *file, const diti_stored_tensor *tensor, uint32_t rank,
                                     uint64_t first, uint64_t second) {
    char wanted[100];
    if (diti_nunchaku_is(tensor, rank, first, second) && diti_nunchaku_is_float(tensor)) return DIT_OK;
    diti_format(wanted, sizeof wanted, rank < 2 ? "[%llu] of floats" : "[%llu, %llu] of floats",
                (unsigned long long)first, (unsigned long long)second);
    return diti_nunchaku_fail_shape(file, tensor, wanted);
}

/* Tiles hold groups of 64 columns. */
static dit_result diti_nunchaku_check_group(const diti_nunchaku_file *file, const char *base,
                                            const diti_nunchaku_layer *layer) {
    const diti_stored_tensor *scales = layer->parts[DITI_NUNCHAKU_SCALES];
    uint64_t groups = scales->rank == 2 ? scales->shape[0] : 0;
    char problem[160];
    if (layer->parts[DITI_NUNCHAKU_ROW_FACTORS] || layer->parts[DITI_NUNCHAKU_FACTOR])
        return diti_nunchaku_fail(file, DIT_ERROR_UNSUPPORTED_MODEL, base,
                                  "has wcscales or wtscale, and no scales of F8_E4M3, which go with them");
    if (!groups || groups * DITI_NUNCHAKU_GROUP == layer->tile_columns) return DIT_OK;
    if (layer->tile_columns % groups) return DIT_OK; /* not even groups: the shape is wrong */
    diti_format(problem, sizeof problem, "has groups of %llu columns; dit.h knows groups of %u",
                (unsigned long long)(layer->tile_columns / groups), DITI_NUNCHAKU_GROUP);
    return diti_nunchaku_fail(file, DIT_ERROR_UNSUPPORTED_MODEL, base, problem);
}

/* A layer that such a file calls fp4 has groups of 16, with scales of 8 bits, and one more for each row or for the
 * matrix. */
static dit_result diti_nunchaku_check_fp4(const diti_nunchaku_file *file, const diti_nunchaku_layer *layer) {
    const diti_stored_tensor *scales = layer->parts[DITI_NUNCHAKU_SCALES],
                             *rows = layer->parts[DITI_NUNCHAKU_ROW_FACTORS],
                             *factor = layer->parts[DITI_NUNCHAKU_FACTOR];
    if (!diti_nunchaku_is(scales, 2, layer->tile_columns / 16, layer->tile_rows)) {
        char wanted[80];
        diti_format(wanted, sizeof wanted, "[%u, %u], scales of F8_E4M3", (unsigned)layer->tile_columns / 16,
                    (unsigned)layer->tile_rows);
        return diti_nunchaku_fail_shape(file, scales, wanted);
    }
    if (rows) DITI_TRY(diti_nunchaku_want(file, rows, 1, layer->tile_rows, 0));
    if (!factor || (diti_nunchaku_is_float(factor) && diti_stored_tensor_elements(factor) == 1)) return DIT_OK;
    return diti_nunchaku_fail_shape(file, factor, "one float");
}

static dit_result diti_nunchaku_check_scales(const diti_nunchaku_file *file, const char *base,
                                             const diti_nunchaku_layer *layer) {
    if (layer->fp4) return diti_nunchaku_check_fp4(file, layer);
    DITI_TRY(diti_nunchaku_check_group(file, base, layer));
    return diti_nunchaku_want(file, layer->parts[DITI_NUNCHAKU_SCALES], 2, layer->tile_columns / DITI_NUNCHAKU_GROUP,
                              layer->tile_rows);
}

static dit_result diti_nunchaku_check_low_rank(const diti_nunchaku_file *file, const char *base,
                                               const diti_nunchaku_layer *layer) {
    const diti_stored_tensor *down = layer->parts[DITI_NUNCHAKU_DOWN], *up = layer->parts[DITI_NUNCHAKU_UP];
    uint64_t rank = down && down->rank == 2 ? down->shape[1] : 0;
    if (!down && !up) return DIT_OK;
    if (!down || !up)
        return diti_nunchaku_fail(file, DIT_ERROR_BAD_FILE, base,
                                  down ? "has a lora_down (proj_down) without a lora_up (proj_up)"
                                       : "has a lora_up (proj_up) without a lora_down (proj_down)");
    DITI_TRY(diti_nunchaku_want(file, down, 2, layer->tile_columns, rank));
    DITI_TRY(diti_nunchaku_want(file, up, 2, layer->tile_rows, rank));
    if (rank % DITI_NUNCHAKU_PACK || rank > layer->columns || !rank)
        return diti_nunchaku_fail_shape(file, down, "a low-rank part of a multiple of 16 columns");
    return DIT_OK;
}

/* Sizes of tensors are counted in 32 bits. */
#define DITI_NUNCHAKU_MAX (1u << 24)

static dit_result diti_nunchaku_check_tiles(const diti_nunchaku_file *file, const char *base,
                                            diti_nunchaku_layer *layer) {
    const diti_stored_tensor *values = layer->parts[DITI_NUNCHAKU_VALUES], *bias = layer->parts[DITI_NUNCHAKU_BIAS];
    const diti_stored_tensor *smooth = layer->parts[DITI_NUNCHAKU_SMOOTH];
    layer->tile_rows = (uint32_t)diti_align_up(layer->rows, DITI_NUNCHAKU_TILE);
    layer->tile_columns = (uint32_t)diti_align_up(layer->columns, DITI_NUNCHAKU_TILE);
    if (layer->columns % DITI_NUNCHAKU_GROUP || values->type != DIT_TYPE_I8_ROW ||
        !diti_nunchaku_is(values, 2, layer->tile_rows, layer->tile_columns / 2)) {
        char wanted[120];
        diti_format(wanted, sizeof wanted, "I8 [%u, %u], tiles of 128 for a matrix [%u, %u]",
                    (unsigned)layer->tile_rows, (unsigned)layer->tile_columns / 2, (unsigned)layer->rows,
                    (unsigned)layer->columns);
        return diti_nunchaku_fail_shape(file, values, wanted);
    }
    DITI_TRY(diti_nunchaku_check_scales(file, base, layer));
    if (!smooth) return diti_nunchaku_fail(file, DIT_ERROR_BAD_FILE, base, "has no smooth (smooth_factor)");
    DITI_TRY(diti_nunchaku_want(file, smooth, 1, layer->tile_columns, 0));
    if (bias) DITI_TRY(diti_nunchaku_want(file, bias, 1, layer->tile_rows, 0));
    return diti_nunchaku_check_low_rank(file, base, layer);
}

/* Layers of modulation are AWQ's: four rows side by side, scales and zeros as they are. Their scales have rows for
   groups that do not exist. */
static dit_result diti_nunchaku_check_modulation(const diti_nunchaku_file *file, const char *base,
                                                 diti_nunchaku_layer *layer) {
    const diti_stored_tensor *values = layer->parts[DITI_NUNCHAKU_VALUES], *bias = layer->parts[DITI_NUNCHAKU_BIAS];
    const diti_stored_tensor *scales = layer->parts[DITI_NUNCHAKU_SCALES], *zeros = layer->parts[DITI_NUNCHAKU_ZEROS];
    uint32_t groups = layer->columns / DITI_NUNCHAKU_GROUP;
    layer->tile_rows = layer->rows;
    layer->tile_columns = layer->columns;
    layer->group = DITI_NUNCHAKU_GROUP;
    if (values->type != DIT_TYPE_I32 || layer->columns % DITI_NUNCHAKU_GROUP || layer->rows % 4 ||
        !diti_nunchaku_is(values, 2, layer->rows / 4, layer->columns / 2)) {
        char wanted[120];
        diti_format(wanted, sizeof wanted, "I32 [%u, %u] for a matrix [%u, %u]", (unsigned)layer->rows / 4,
                    (unsigned)layer->columns / 2, (unsigned)layer->rows, (unsigned)layer->columns);
        return diti_nunchaku_fail_shape(file, values, wanted);
    }
    if (!zeros) return diti_nunchaku_fail(file, DIT_ERROR_BAD_FILE, base, "has no wzeros");
    if (!bias) return diti_nunchaku_fail(file, DIT_ERROR_BAD_FILE, base, "has no bias");
    if (layer->parts[DITI_NUNCHAKU_SMOOTH] || layer->parts[DITI_NUNCHAKU_DOWN] || layer->parts[DITI_NUNCHAKU_UP])
        return diti_nunchaku_fail(file, DIT_ERROR_UNSUPPORTED_MODEL, base,
                                  "modulates, and has factors or a low-rank part, which no known file has");
    DITI_TRY(diti_nunchaku_want(file, scales, 2, scales->rank && scales->shape[0] > groups ? scales->shape[0] : groups,
                                layer->rows));
    DITI_TRY(diti_nunchaku_want(file, zeros, 2, scales->shape[0], layer->rows));
    return diti_nunchaku_want(file, bias, 1, layer->rows, 0);
}

/* Layers of a text encoder are AWQ's, too, with groups of 128. Scales have rows for groups that do not exist, which
   make their number a multiple of 8. */
static dit_result diti_nunchaku_check_text(const diti_nunchaku_file *file, const char *base,
                                           diti_nunchaku_layer *layer) {
    const diti_stored_tensor *values = layer->parts[DITI_NUNCHAKU_VALUES], *bias = layer->parts[DITI_NUNCHAKU_BIAS];
    const uint64_t groups = diti_align_up(layer->columns / DITI_I4_GROUP, 8);
    uint32_t part;
    layer->tile_rows = layer->rows;
    layer->tile_columns = layer->columns;
    layer->group = DITI_I4_GROUP;
    if (!diti_equal(values->type_name, "I16") || layer->columns % DITI_I4_GROUP)
        return diti_nunchaku_fail_shape(
            file, values, "I16 [rows / 4, columns] of a text encoder, whose columns are a multiple of 128");
    if (!layer->parts[DITI_NUNCHAKU_ZEROS])
        return diti_nunchaku_fail(file, DIT_ERROR_BAD_FILE, base, "has no scaled_zeros");
    for (part = DITI_NUNCHAKU_SMOOTH; part < DITI_NUNCHAKU_PARTS; part++)
        if (layer->parts[part])
            return diti_nunchaku_fail(
                file, DIT_ERROR_UNSUPPORTED_MODEL, base,
                "is a text encoder's, and has factors or a low-rank part, which no known file has");
    DITI_TRY(diti_nunchaku_want(file, layer->parts[DITI_NUNCHAKU_SCALES], 2, groups, layer->rows));
    DITI_TRY(diti_nunchaku_want(file, layer->parts[DITI_NUNCHAKU_ZEROS], 2, groups, layer->rows));
    return bias ? diti_nunchaku_want(file, bias, 1, layer->rows, 0) : DIT_OK;
}

/* Rows or columns that a rule does not tell are those of the tiles. */
static dit_result diti_nunchaku_size(const diti_nunchaku_file *file, const diti_nunchaku_rule *rule,
                                     diti_nunchaku_layer *layer) {
    const diti_stored_tensor *values = layer->parts[DITI_NUNCHAKU_VALUES];
    uint32_t count = rule->layers[2] ? 3 : rule->layers[1] ? 2 : 1;
    if (values->rank != 2 || values->shape[0] > DITI_NUNCHAKU_MAX || values->shape[1] > DITI_NUNCHAKU_MAX)
        return diti_nunchaku_fail_shape(file, values, "a matrix of nunchaku's tiles");
    layer->rows = rule->rows ? rule->rows * count * file->width : (uint32_t)values->shape[0];
    layer->columns = rule->columns ? rule->columns * file->width : (uint32_t)values->shape[1] * 2;
    if (rule == &diti_nunchaku_text) {
        layer->rows = (uint32_t)values->shape[0] * 4;
        layer->columns = (uint32_t)values->shape[1];
    }
    if (!layer->rows || layer->rows % count || !layer->columns)
        return diti_nunchaku_fail_shape(file, values, "a matrix of layers of equal size");
    return DIT_OK;
}

/* Takes the parts of the layer `base`; *out is NULL where there is no such layer. */
static dit_result diti_nunchaku_take(diti_nunchaku_file *file, const char *base, const diti_nunchaku_rule *rule,
                                     const diti_nunchaku_layer **out) {
    diti_checkpoint *checkpoint = file->checkpoint;
    diti_nunchaku_layer *layer = (diti_nunchaku_layer *)diti_checkpoint_keep(checkpoint, sizeof *layer);
    uint32_t part, name;
    size_t i;
    *out = NULL;
    if (!layer) return diti_no_memory(diti_checkpoint_name(checkpoint), file->err);
    memset(layer, 0, sizeof *layer);
    for (part = 0; part < DITI_NUNCHAKU_PARTS; part++) {
        for (name = 0; name < 2 && diti_nunchaku_parts[part][name] && !layer->parts[part]; name++)
            layer->parts[part] = diti_nunchaku_find(file, base, diti_nunchaku_parts[part][name]);
        if (layer->parts[part]) file->used[layer->parts[part] - checkpoint->tensors] = true;
    }
    for (i = 0; i < DITI_COUNT(diti_nunchaku_ignored); i++) {
        const diti_stored_tensor *ignored = diti_nunchaku_find(file, base, diti_nunchaku_ignored[i]);
        if (ignored) file->used[ignored - checkpoint->tensors] = true;
    }
    for (part = 0; part < DITI_NUNCHAKU_PARTS; part++)
        if (layer->parts[part] && layer->parts[part]->strides)
            return diti_nunchaku_fail(file, DIT_ERROR_UNSUPPORTED_MODEL, base,
                                      "is a view of PyTorch's; save the file as safetensors");
    if (!layer->parts[DITI_NUNCHAKU_VALUES]) return DIT_OK;
    if (!layer->parts[DITI_NUNCHAKU_SCALES])
        return diti_nunchaku_fail(file, DIT_ERROR_BAD_FILE, base,
                                  rule == &diti_nunchaku_text ? "has no scales" : "has no wscales");
    layer->splits = rule->splits;
    layer->fp4 = layer->parts[DITI_NUNCHAKU_SCALES]->type == DIT_TYPE_F8_E4M3;
    layer->shifted = rule->shifted && !layer->fp4; /* kernels of fp4 have a sign for what GELU makes */
    DITI_TRY(diti_nunchaku_size(file, rule, layer));
    DITI_TRY(rule == &diti_nunchaku_text ? diti_nunchaku_check_text(file, base, layer)
             : layer->splits             ? diti_nunchaku_check_modulation(file, base, layer)
                                         : diti_nunchaku_check_tiles(file, base, layer));
    *out = layer;
    return DIT_OK;
}

/* --- the tensors that it becomes --- */

static dit_result diti_nunchaku_add(diti_nunchaku_file *file, const diti_stored_tensor *tensor) {
    if (!diti_grow(&file->checkpoint->env, (void **)&file->tensors, &file->capacity, file->count,
                   sizeof *file->tensors))
        return diti_no_memory(diti_checkpoint_name(file->checkpoint), file->err);
    file->tensors[file->count++] = *tensor;
    return DIT_OK;
}

/* A tensor that is made of a part of layers that lie side by side; of SMOOTH, all columns, else rows from first on. */
static dit_result diti_nunchaku_make(diti_nunchaku_file *file, const char *name, const char *ending, dit_type type,
                                     const diti_nunchaku_tensor *made, uint64_t rows, uint64_t columns) {
    diti_nunchaku_tensor *kept =
        (diti_nunchaku_tensor *)diti_checkpoint_keep(file->checkpoint, sizeof(diti_nunchaku_tensor));
    const diti_stored_tensor *values = made->layers[0]->parts[DITI_NUNCHAKU_VALUES];
    const diti_stored_tensor *source = made->layers[0]->parts[made->part];
    diti_stored_tensor tensor = DITI_ZERO;
    char full[600];
    diti_format(full, sizeof full, "%s%s", name, ending);
    tensor.name = diti_checkpoint_keep_text(file->checkpoint, full, strlen(full));
    if (!kept || !tensor.name) return diti_no_memory(diti_checkpoint_name(file->checkpoint), file->err);
    *kept = *made;
    tensor.made = kept;
    tensor.type = type;
    tensor.type_name = diti_type_name(type);
    tensor.rank = columns ? 2 : 1;
    tensor.shape[0] = rows;
    tensor.shape[1] = columns;
    tensor.file = values->file;
    tensor.offset = source ? source->offset : values->offset;
    if (!diti_type_bytes(type, columns ? rows : 1, columns ? columns : rows, &tensor.size))
        return diti_nunchaku_fail(file, DIT_ERROR_UNSUPPORTED_MODEL, name, "has rows that no blocks of 32 fill");
    return diti_nunchaku_add(file, &tensor);
}

/* The type of its rows. */
static dit_type diti_nunchaku_type(const diti_nunchaku_layer *layer) {
    if (layer->splits) return layer->group == DITI_I4_GROUP ? DIT_TYPE_I4_GROUP : DIT_TYPE_Q4_1;
    return layer->fp4 ? DIT_TYPE_NVFP4 : DIT_TYPE_Q4_0;
}

/* Makes the tensors of rows [first, first + rows) of one layer, or of two that lie side by side. */
static dit_result diti_nunchaku_emit(diti_nunchaku_file *file, const char *name, const diti_nunchaku_layer *layer,
                                     const diti_nunchaku_layer *beside, uint32_t first, uint32_t rows) {
    const diti_stored_tensor *const *parts = layer->parts;
    uint64_t columns = (uint64_t)layer->columns + (beside ? beside->columns : 0), rank = 0;
    diti_nunchaku_tensor made = DITI_ZERO;
    made.layers[0] = layer;
    made.layers[1] = beside;
    made.first = first;
    if (beside && beside->fp4 != layer->fp4)
        return diti_nunchaku_fail(file, DIT_ERROR_UNSUPPORTED_MODEL, name, "is fp4 in some of its columns alone");
    DITI_TRY(diti_nunchaku_make(file, name, ".weight", diti_nunchaku_type(layer), &made, rows, columns));
    made.part = DITI_NUNCHAKU_ROW_FACTORS;
    if (parts[made.part] || (beside && beside->parts[made.part]))
        DITI_TRY(diti_nunchaku_make(file, name, ".weight" DITI_FACTOR_SUFFIX, DIT_TYPE_F32, &made, rows, 0));
    made.part = DITI_NUNCHAKU_BIAS;
    if (parts[DITI_NUNCHAKU_BIAS] || layer->shifted || beside)
        DITI_TRY(diti_nunchaku_make(file, name, ".bias", DIT_TYPE_F32, &made, rows, 0));
    if (parts[DITI_NUNCHAKU_DOWN]) rank = parts[DITI_NUNCHAKU_DOWN]->shape[1];
    if (beside && beside->parts[DITI_NUNCHAKU_DOWN]) rank += beside->parts[DITI_NUNCHAKU_DOWN]->shape[1];
    made.part = DITI_NUNCHAKU_UP;
    if (rank) DITI_TRY(diti_nunchaku_make(file, name, ".weight" DITI_LOW_RANK_UP, DIT_TYPE_F32, &made, rows, rank));
    made.first = 0; /* all of the rows read the same */
    made.part = DITI_NUNCHAKU_DOWN;
    if (rank)
        DITI_TRY(diti_nunchaku_make(file, name, ".weight" DITI_LOW_RANK_DOWN, DIT_TYPE_F32, &made, rank, columns));
    made.part = DITI_NUNCHAKU_SMOOTH;
    if (layer->splits) return DIT_OK;
    return diti_nunchaku_make(file, name, ".weight" DITI_LOW_RANK_SMOOTH, DIT_TYPE_F32, &made, columns, 0);
}

static dit_result diti_nunchaku_take_beside(diti_nunchaku_file *file, const char *base, size_t block,
                                            const diti_nunchaku_rule *rule, const diti_nunchaku_layer **out) {
    char name[600];
    const diti_nunchaku_rule *other;
    diti_format(name, sizeof name, "%.*s%s", (int)block, base, rule->beside);
    other = diti_nunchaku_find_rule(name, &block);
    if (other) DITI_TRY(diti_nunchaku_take(file, name, other, out));
    return *out ? DIT_OK
                : diti_nunchaku_fail(file, DIT_ERROR_BAD_FILE, base, "needs mlp_fc2 beside it, which the file lacks");
}

static dit_result diti_nunchaku_layer_of(diti_nunchaku_file *file, const diti_stored_tensor *values) {
    const diti_nunchaku_layer *layer = NULL, *beside = NULL;
    const diti_nunchaku_rule *rule;
    char base[600], name[600];
    size_t block = 0;
    uint32_t i, count;
    if (!diti_format(base, sizeof base, "%.*s", (int)(strlen(values->name) - strlen(".qweight")), values->name))
        return diti_nunchaku_fail(file, DIT_ERROR_BAD_FILE, values->name, "has too long a name");
    if (diti_nunchaku_find(file, base, ".scales") || diti_nunchaku_find(file, base, ".scaled_zeros")) {
        DITI_TRY(diti_nunchaku_take(file, base, &diti_nunchaku_text, &layer));
        return diti_nunchaku_emit(file, base, layer, NULL, 0, layer->rows);
    }
    rule = diti_nunchaku_find_rule(base, &block);
    if (!rule)
        return diti_nunchaku_fail(file, DIT_ERROR_UNSUPPORTED_MODEL, base,
                                  "is none that dit.h knows the layout of; it knows those of FLUX.1, Qwen-Image and "
                                  "Z-Image: convert the model's original file");
    if (!file->width)
        return diti_nunchaku_fail(file, DIT_ERROR_UNSUPPORTED_MODEL, base,
                                  "stands in a file without the layers that are not quantized; merge it with "
                                  "unquantized_layers.safetensors (nunchaku.merge_safetensors)");
    if (!rule->layers[0]) return DIT_OK; /* another one takes it */
    DITI_TRY(diti_nunchaku_take(file, base, rule, &layer));
    if (layer && rule->beside) DITI_TRY(diti_nunchaku_take_beside(file, base, block, rule, &beside));
    count = rule->layers[2] ? 3 : rule->layers[1] ? 2 : 1;
    for (i = 0; i < count && layer; i++) {
        diti_format(name, sizeof name, "%.*s%s", (int)block, base, rule->layers[i]);
        DITI_TRY(diti_nunchaku_emit(file, name, layer, beside, i * (layer->rows / count), layer->rows / count));
    }
    return DIT_OK;
}

/* --- what is not quantized --- */

/* Rows [part, part + 1) of two halves of a matrix, under a name of its own. */
static dit_result diti_nunchaku_half(diti_nunchaku_file *file, const diti_stored_tensor *whole, uint32_t part,
                                     size_t block, const char *name) {
    diti_stored_tensor tensor = *whole;
    char full[600];
    if (whole->rank != 2 || whole->shape[0] % 2 || whole->strides)
        return diti_nunchaku_fail_shape(file, whole, "two matrices of equal size");
    diti_format(full, sizeof full, "%.*s%s", (int)block, whole->name, name);
    tensor.name = diti_checkpoint_keep_text(file->checkpoint, full, strlen(full));
    if (!tensor.name) return diti_no_memory(diti_checkpoint_name(file->checkpoint), file->err);
    tensor.shape[0] /= 2;
    tensor.size /= 2;
    tensor.offset += part * tensor.size;
    return diti_nunchaku_add(file, &tensor);
}

static dit_result diti_nunchaku_copy(diti_nunchaku_file *file, const diti_stored_tensor *from) {
    diti_stored_tensor tensor = *from;
    char name[600];
    size_t block = 0, i;
    for (i = 0; i < DITI_COUNT(diti_nunchaku_rules) && !block; i++)
        block = diti_nunchaku_block(from->name, diti_nunchaku_rules[i].stack);
    if (block && diti_equal(from->name + block, "feed_forward.net.0.proj.weight")) {
        DITI_TRY(diti_nunchaku_half(file, from, 0, block, "feed_forward.w3.weight"));
        return diti_nunchaku_half(file, from, 1, block, "feed_forward.w1.weight");
    }
    for (i = 0; i < DITI_COUNT(diti_nunchaku_plain) && block; i++) {
        if (!diti_equal(from->name + block, diti_nunchaku_plain[i][0])) continue;
        if (!diti_format(name, sizeof name, "%.*s%s", (int)block, from->name, diti_nunchaku_plain[i][1])) continue;
        tensor.name = diti_checkpoint_keep_text(file->checkpoint, name, strlen(name));
        if (!tensor.name) return diti_no_memory(diti_checkpoint_name(file->checkpoint), file->err);
    }
    return diti_nunchaku_add(file, &tensor);
}

/* A tensor of a quantized layer that none of its parts is would change what the layer computes. */
static dit_result diti_nunchaku_copy_others(diti_nunchaku_file *file) {
    const diti_checkpoint *checkpoint = file->checkpoint;
    size_t i;
    for (i = 0; i < checkpoint->tensor_count; i++) {
        const diti_stored_tensor *tensor = &checkpoint->tensors[i];
        const char *dot = strrchr(tensor->name, '.');
        char base[600];
        if (file->used[i]) continue;
        if (dot && diti_format(base, sizeof base, "%.*s", (int)(dot - tensor->name), tensor->name) &&
            diti_nunchaku_find(file, base, ".qweight"))
            return diti_fail(file->err, DIT_ERROR_UNSUPPORTED_MODEL,
                             "%s: tensor '%.200s' belongs to a nunchaku layer, and dit.h does not know what it is for",
                             diti_checkpoint_name(checkpoint), tensor->name);
        DITI_TRY(diti_nunchaku_copy(file, tensor));
    }
    return DIT_OK;
}

static dit_result diti_nunchaku_names(diti_nunchaku_file *file) {
    const diti_checkpoint *checkpoint = file->checkpoint;
    size_t i;
    for (i = 0; i < DITI_COUNT(diti_nunchaku_widths) && !file->width; i++) {
        const diti_stored_tensor *tensor = diti_checkpoint_find(checkpoint, diti_nunchaku_widths[i]);
        if (tensor && tensor->rank && tensor->shape[0] < 1u << 20) file->width = (uint32_t)tensor->shape[0];
    }
    for (i = 0; i < checkpoint->tensor_count; i++)
        if (diti_ends_with(checkpoint->tensors[i].name, ".qweight"))
            DITI_TRY(diti_nunchaku_layer_of(file, &checkpoint->tensors[i]));
    return diti_nunchaku_copy_others(file);
}

static bool diti_nunchaku_wrote(const diti_checkpoint *checkpoint) {
    size_t i;
    for (i = 0; i < checkpoint->tensor_count; i++)
        if (diti_stored_sibling(checkpoint, &checkpoint->tensors[i], ".qweight", ".wscales") ||
            diti_stored_sibling(checkpoint, &checkpoint->tensors[i], ".qweight", ".scaled_zeros"))
            return true;
    return false;
}

DIT_INTERNAL dit_result diti_checkpoint_name_nunchaku(diti_checkpoint *checkpoint, dit_error *err) {
    diti_nunchaku_file file = DITI_ZERO;
    dit_result result;
    if (!diti_nunchaku_wrote(checkpoint)) return DIT_OK;
    file.checkpoint = checkpoint;
    file.err = err;
    file.used = (bool *)diti_alloc_array(&checkpoint->env, checkpoint->tensor_count, sizeof *file.used);
    result = file.used ? diti_nunchaku_names(&file) : diti_no_memory(diti_checkpoint_name(checkpoint), err);
    diti_free(&checkpoint->env, file.used);
    if (result < 0) {
        diti_free(&checkpoint->env, file.tensors);
        return result;
    }
    checkpoint->packed = checkpoint->tensors; /* the layers' parts are there */
    checkpoint->tensors = file.tensors;
    checkpoint->tensor_count = file.count;
    checkpoint->tensor_capacity = file.capacity;
    diti_free(&checkpoint->env, checkpoint->index.slots);
    memset(&checkpoint->index, 0, sizeof checkpoint->index);
    return diti_name_build(&checkpoint->env, &checkpoint->index, checkpoint->tensors, sizeof *checkpoint->tensors,
                           checkpoint->tensor_count, diti_checkpoint_name(checkpoint), "tensor", err);
}
