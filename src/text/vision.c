#include "text/text.h"

/* The towers that show pictures to Qwen2.5-VL and Qwen3-VL (docs/models.md 5.7, 5.7.1): patches attend each other
   within windows, in some blocks within the whole picture, and four of them become a token of the language model.
   Patches stand window by window, the four of a token side by side, so that windows are runs of rows. Qwen3-VL's has no
   windows, but places that were learned, and gives what some of its blocks make to the first layers of the language
   model. */

#define DITI_VISION_MERGE 2u /* patches along a token's side */
#define DITI_VISION_MAX_BLOCKS 64u

typedef struct diti_vision_block {
    diti_layer norm1, norm2;   /* [D]; Qwen3-VL's have biases */
    diti_layer qkv, out;       /* [3D, D], [D, D] */
    diti_layer gate, up, down; /* [hidden, D], [hidden, D], [D, hidden]; Qwen3-VL has no gate */
} diti_vision_block;

/* Four patches of D as a token of the language model. */
typedef struct diti_vision_merger {
    diti_layer norm, in, out; /* [D], or of four patches [4D]; [4D, 4D], [columns of the language model, 4D] */
} diti_vision_merger;

typedef struct diti_vision_config {
    uint32_t blocks, columns, heads, head_dim, hidden, patch; /* columns: D */
    uint32_t window;                                          /* tokens along a window's side */
    uint64_t whole;                                           /* bit i: block i attends the whole picture */
    bool third;                                               /* Qwen3-VL's */
    uint32_t side;                                            /* places along a side of its grid */
    uint32_t deep[DITI_VISION_DEEP], deep_count;              /* blocks whose rows go to layers 0, 1, ... */
} diti_vision_config;

struct diti_vision {
    diti_vision_config config;
    diti_layer patch; /* [D, 3 * 2 * patch * patch] */
    diti_vision_block *blocks;
    diti_vision_merger merger, deep[DITI_VISION_DEEP];
    float *places; /* on the host: [side * side, D]; NULL: none were learned */
};

/* ---- loading ---- */

/* Whether the file has a tower; then names are asked for behind its prefix, whatever the language model's are. */
static bool diti_vision_begin(diti_loader *loader) {
    static const char *const prefixes[] = {"visual.", "model.visual."};
    size_t i;
    loader->rename = NULL;
    for (i = 0; i < DITI_COUNT(prefixes); i++) {
        diti_loader_scope(loader, "%s", prefixes[i]);
        if (diti_loader_find(loader, "merger.ln_q.weight") || diti_loader_find(loader, "merger.norm.weight"))
            return true;
    }
    return false;
}

static uint64_t diti_vision_read_whole(diti_settings *settings) {
    const diti_json *list = diti_setting_numbers(settings, "fullatt_block_indexes"), *entry;
    uint64_t whole = 0;
    if (!list) return 1u << 7 | 1u << 15 | 1u << 23 | (uint64_t)1 << 31; /* as published */
    for (entry = list->first; entry; entry = entry->next)
        if (entry->number >= 0 && entry->number < DITI_VISION_MAX_BLOCKS) whole |= (uint64_t)1 << (int)entry->number;
    return whole;
}

/* As published, behind blocks 8, 16 and 24 of 27. */
static void diti_vision_read_deep(diti_loader *loader, diti_settings *settings, diti_vision_config *config) {
    const diti_json *list = diti_setting_numbers(settings, "deepstack_visual_indexes"),
                    *entry = list ? list->first : NULL;
    uint32_t i;
    config->deep_count = diti_loader_count(loader, "deepstack_merger_list.", ".linear_fc1.weight");
    if (config->deep_count > DITI_VISION_DEEP) config->deep_count = DITI_VISION_DEEP;
    for (i = 0; i < config->deep_count; i++, entry = entry ? entry->next : NULL)
        config->deep[i] = entry && entry->number >= 0 ? (uint32_t)entry->number : 8 * (i + 1);
}

/* No windows; the grid of places is square. */
static void diti_vision_read_third(diti_loader *loader, diti_settings *settings, diti_vision_config *config) {
    uint32_t places = diti_loader_dimension(loader, "pos_embed.weight", 0);
    config->hidden = diti_loader_dimension(loader, "blocks.0.mlp.linear_fc1.weight", 0);
    config->window = 1u << 20;
    config->whole = UINT64_MAX;
    config->side = (uint32_t)(sqrt((double)places) + 0.5);
    diti_vision_read_deep(loader, settings, config);
    if (config->side && config->side <= 1024 && config->side * config->side == places) return;
    config->window = 0; /* refused with what else is out of range */
}

static void diti_vision_read(diti_loader *loader, const diti_json *json, diti_vision_config *config) {
    static const diti_shape_key keys[] = {{offsetof(diti_vision_config, columns), "patch_embed.proj.weight", 0},
                                          {offsetof(diti_vision_config, patch), "patch_embed.proj.weight", 3},
                                          {offsetof(diti_vision_config, hidden), "blocks.0.mlp.gate_proj.weight", 0}};
    dit_error *err = &loader->error;
    diti_settings settings = diti_settings_of(diti_json_get(json, "vision_config"), "vision_config", err);
    uint32_t pixels;
    diti_read_shapes(loader, config, keys, DITI_COUNT(keys));
    config->blocks = diti_loader_layers(loader, &settings, "depth", "blocks.", ".attn.qkv.weight");
    config->heads = diti_setting_size(&settings, "num_heads", 16, 256);
    pixels = diti_setting_size(&settings, "window_size", 112, 4096);
    config->whole = diti_vision_read_whole(&settings);
    if (settings.result != DIT_OK || err->result < 0) return;
    config->window = config->patch ? pixels / (DITI_VISION_MERGE * config->patch) : 0;
    config->third = diti_loader_find(loader, "merger.norm.weight") != NULL;
    if (config->third) diti_vision_read_third(loader, &settings, config);
    if (config->blocks && config->blocks <= DITI_VISION_MAX_BLOCKS && config->hidden && config->window &&
        config->columns % config->heads == 0 && config->columns / config->heads % 8 == 0 &&
        config->columns / config->heads <= 256 && config->patch <= 64) {
        config->head_dim = config->columns / config->heads;
        return;
    }
    diti_loader_refuse(
        loader, err, "a vision tower of %u blocks, %u heads in a width of %u, and patches of %u pixels is out of range",
        (unsigned)config->blocks, (unsigned)config->heads, (unsigned)config->columns, (unsigned)config->patch);
}

static void diti_vision_load_norm(diti_loader *loader, diti_layer *out, uint32_t columns, bool biased,
                                  const char *name) {
    char full[64];
    memset(out, 0, sizeof *out);
    if (biased) diti_load_norm(loader, out, columns, name);
    diti_format(full, sizeof full, "%s.weight", name);
    if (!biased) diti_load_vector(loader, &out->weight, 1, columns, full);
}

static void diti_vision_load_block(diti_loader *loader, diti_vision_block *block, const diti_vision_config *config) {
    uint32_t d = config->columns;
    bool third = config->third;
    diti_vision_load_norm(loader, &block->norm1, d, third, "norm1");
    diti_load_layer(loader, &block->qkv, 3 * d, d, 1, "attn.qkv");
    diti_load_layer(loader, &block->out, d, d, 1, "attn.proj");
    diti_vision_load_norm(loader, &block->norm2, d, third, "norm2");
    if (!third) diti_load_layer(loader, &block->gate, config->hidden, d, 1, "mlp.gate_proj");
    diti_load_layer(loader, &block->up, config->hidden, d, 1, third ? "mlp.linear_fc1" : "mlp.up_proj");
    diti_load_layer(loader, &block->down, d, config->hidden, 1, third ? "mlp.linear_fc2" : "mlp.down_proj");
}

/* width: of the norm, a patch's or four patches'. */
static void diti_vision_load_merger(diti_loader *loader, diti_vision_merger *out, const diti_vision_config *config,
                                    uint32_t width, uint32_t columns) {
    uint32_t four = DITI_VISION_MERGE * DITI_VISION_MERGE * config->columns;
    bool third = config->third;
    diti_vision_load_norm(loader, &out->norm, width, third, third ? "norm" : "ln_q");
    diti_load_layer(loader, &out->in, four, four, 1, third ? "linear_fc1" : "mlp.0");
    diti_load_layer(loader, &out->out, columns, four, 1, third ? "linear_fc2" : "mlp.2");
}

/* The host has the places, of which each picture gets some in between. */
static void diti_vision_load_places(diti_component *component, diti_loader *loader, diti_vision *vision) {
    size_t count = (size_t)vision->config.side * vision->config.side * vision->config.columns;
    const diti_stored_tensor *tensor = diti_loader_find(loader, "pos_embed.weight");
    if (!tensor || diti_stored_tensor_elements(tensor) != count) return;
    diti_loader_use(loader, tensor);
    if (!loader->device) return; /* nothing is read */
    vision->places = (float *)diti_component_array(component, loader, count, sizeof *vision->places);
    if (vision->places) diti_checkpoint_read_float(loader->checkpoint, tensor, vision->places, count, &loader->error);
}

static void diti_vision_load_all(diti_component *component, diti_loader *loader, diti_vision *vision,
                                 uint32_t columns) {
    const diti_vision_config *config = &vision->config;
    uint32_t i, d = config->columns;
    char prefix[32];
    vision->blocks =
        (diti_vision_block *)diti_component_array(component, loader, config->blocks, sizeof *vision->blocks);
    if (!vision->blocks) return;
    diti_format(prefix, sizeof prefix, "%s", loader->scope);
    diti_load_conv(loader, &vision->patch, d, 3, 2, config->patch, config->third, "patch_embed.proj");
    vision->patch.weight.kernel = vision->patch.weight.frames = 1; /* patches are columns as they are stored */
    if (config->third) diti_vision_load_places(component, loader, vision);
    for (i = 0; i < config->blocks; i++) {
        diti_loader_scope(loader, "%sblocks.%u.", prefix, (unsigned)i);
        diti_vision_load_block(loader, &vision->blocks[i], config);
    }
    diti_loader_scope(loader, "%smerger.", prefix);
    diti_vision_load_merger(loader, &vision->merger, config, d, columns);
    for (i = 0; i < config->deep_count; i++) {
        diti_loader_scope(loader, "%sdeepstack_merger_list.%u.", prefix, (unsigned)i);
        diti_vision_load_merger(loader, &vision->deep[i], config, DITI_VISION_MERGE * DITI_VISION_MERGE * d, columns);
    }
}

DIT_INTERNAL diti_vision *diti_vision_load(diti_component *component, diti_loader *loader, const diti_json *json,
                                           uint32_t columns) {
    const char *(*rename)(void *, const char *, char *, size_t) = loader->rename;
    diti_vision *vision = NULL;
    if (diti_vision_begin(loader)) {
        vision = (diti_vision *)diti_component_array(component, loader, 1, sizeof *vision);
        if (vision) diti_vision_read(loader, json, &vision->config);
        if (vision && loader->error.result == DIT_OK) diti_vision_load_all(component, loader, vision, columns);
    }
    loader->rename = rename;
    diti_loader_scope_end(loader);
    return vision;
}

DIT_INTERNAL uint32_t diti_vision_side(const diti_vision *vision) { return DITI_VISION_MERGE * vision->config.patch; }

/* ---- the order of rows ---- */

DIT_INTERNAL uint32_t diti_vision_tokens(const diti_encoder_use *use) {
    uint32_t i, tokens = 0;
    for (i = 0; i < use->picture_count; i++) tokens += use->pictures[i].rows * use->pictures[i].columns;
    return tokens;
}

static uint32_t diti_vision_windows(const diti_vision *vision, const diti_encoder_use *use) {
    uint32_t i, m = vision->config.window, windows = 0;
    for (i = 0; i < use->picture_count; i++)
        windows += (use->pictures[i].rows + m - 1) / m * ((use->pictures[i].columns + m - 1) / m);
    return windows;
}

/* Calls of this give tokens of a picture window by window: the next one behind *at, whose fields are 0 at first. */
typedef struct diti_vision_cursor {
    uint32_t top, left, row, column; /* corner of the window, place in the picture */
} diti_vision_cursor;

static bool diti_vision_next(const diti_vision_grid *grid, uint32_t window, diti_vision_cursor *at, bool *new_window) {
    *new_window = false;
    if (++at->column < at->left + window && at->column < grid->columns) return true;
    at->column = at->left;
    if (++at->row < at->top + window && at->row < grid->rows) return true;
    *new_window = true;
    at->left += window;
    if (at->left >= grid->columns) at->left = 0, at->top += window;
    at->row = at->top;
    at->column = at->left;
    return at->top < grid->rows;
}

DIT_INTERNAL void diti_vision_order(const diti_vision *vision, const diti_encoder_use *use, uint32_t *places) {
    uint32_t i, first = 0, number = 0;
    for (i = 0; i < use->picture_count; i++) {
        const diti_vision_grid *grid = &use->pictures[i];
        diti_vision_cursor at = DITI_ZERO;
        bool new_window;
        do places[first + at.row * grid->columns + at.column] = number++;
        while (diti_vision_next(grid, vision->config.window, &at, &new_window));
        first += grid->rows * grid->columns;
    }
}

/* ---- the graph ---- */

static diti_tensor diti_vision_norm(diti_graph *graph, diti_tensor x, const diti_layer *layer, const char *name) {
    diti_norm_desc desc = DITI_ZERO;
    desc.rms = !layer->bias.part_count;
    desc.eps = 1e-6f;
    desc.weight = &layer->weight;
    if (!desc.rms) desc.bias = &layer->bias;
    desc.name = name;
    return diti_norm(graph, x, &desc);
}

/* activation(layer(x)), times multiply where it is there. */
static diti_tensor diti_vision_linear(diti_graph *graph, diti_tensor x, const diti_layer *layer,
                                      diti_activation activation, diti_tensor multiply, const char *name) {
    diti_linear_desc desc = DITI_ZERO;
    desc.bias = &layer->bias;
    desc.activation = activation;
    desc.multiply = multiply;
    desc.name = name;
    return diti_linear(graph, x, &layer->weight, &desc);
}

static void diti_vision_add(diti_graph *graph, diti_tensor x, diti_tensor h, const diti_layer *layer,
                            const char *name) {
    diti_linear_desc desc = DITI_ZERO;
    desc.bias = &layer->bias;
    desc.residual = desc.out = x;
    desc.name = name;
    diti_linear(graph, h, &layer->weight, &desc);
}

static diti_tensor diti_vision_attend(const diti_vision *vision, diti_graph *graph, const diti_encoder_use *use,
                                      uint32_t index, diti_tensor qkv) {
    const diti_vision_config *config = &vision->config;
    bool whole = config->whole >> index & 1;
    uint32_t rows = diti_tensor_rows(graph, qkv), d = config->columns, i, most = 0;
    diti_qkv_desc rotate = DITI_ZERO;
    diti_attention_desc desc = DITI_ZERO;
    rotate.heads = 2 * config->heads;
    rotate.head_dim = config->head_dim;
    rotate.cosines = use->inputs[DITI_DECODER_VISION_COSINES];
    rotate.sines = use->inputs[DITI_DECODER_VISION_SINES];
    rotate.half_split = true;
    rotate.name = "vision_rotate";
    diti_qk_norm_rope(graph, diti_tensor_view(graph, qkv, 0, rows, 0, 2 * d), &rotate);
    for (i = 0; i < use->picture_count; i++) {
        uint32_t keys = use->pictures[i].rows * use->pictures[i].columns;
        if (keys > most) most = keys;
    }
    if (!whole && most > config->window * config->window) most = config->window * config->window;
    desc.batch = whole ? use->picture_count : diti_vision_windows(vision, use);
    desc.heads = config->heads;
    desc.head_dim = config->head_dim;
    desc.scale = 1.0f / sqrtf((float)config->head_dim);
    desc.items = use->inputs[whole ? DITI_DECODER_VISION_PICTURES : DITI_DECODER_VISION_WINDOWS];
    desc.packed = true;
    desc.key_limit = DITI_VISION_MERGE * DITI_VISION_MERGE * most;
    desc.name = "vision_attention";
    return diti_attention(graph, diti_tensor_view(graph, qkv, 0, rows, 0, d),
                          diti_tensor_view(graph, qkv, 0, rows, d, d), diti_tensor_view(graph, qkv, 0, rows, 2 * d, d),
                          &desc);
}

/* x F32 [patches, D] is changed in place. */
static void diti_vision_run_block(const diti_vision *vision, diti_graph *graph, const diti_encoder_use *use,
                                  uint32_t index, diti_tensor x) {
    const diti_vision_block *block = &vision->blocks[index];
    diti_tensor h = diti_vision_norm(graph, x, &block->norm1, "vision_norm1");
    h = diti_vision_linear(graph, h, &block->qkv, DITI_ACTIVATION_NONE, 0, "vision_qkv");
    diti_vision_add(graph, x, diti_vision_attend(vision, graph, use, index, h), &block->out, "vision_attention_out");
    h = diti_vision_norm(graph, x, &block->norm2, "vision_norm2");
    if (vision->config.third)
        h = diti_vision_linear(graph, h, &block->up, DITI_ACTIVATION_GELU_TANH, 0, "vision_up");
    else
        h = diti_vision_linear(graph, h, &block->gate, DITI_ACTIVATION_SILU,
                               diti_vision_linear(graph, h, &block->up, DITI_ACTIVATION_NONE, 0, "vision_up"),
                               "vision_gate");
    diti_vision_add(graph, x, h, &block->down, "vision_down");
}

/* F32 [tokens, columns of the language model]. */
static diti_tensor diti_vision_merge(diti_graph *graph, diti_tensor x, const diti_vision_merger *merger) {
    uint32_t four = merger->in.weight.columns, tokens = diti_tensor_rows(graph, x) / 4;
    bool all = merger->norm.weight.columns == four; /* the norm is of four patches together */
    diti_linear_desc desc = DITI_ZERO;
    if (all) x = diti_tensor_reshape(graph, x, tokens, four);
    x = diti_vision_norm(graph, x, &merger->norm, "vision_norm_out");
    if (!all) x = diti_tensor_reshape(graph, x, tokens, four);
    x = diti_vision_linear(graph, x, &merger->in, DITI_ACTIVATION_GELU_ERF, 0, "vision_merge_in");
    desc.bias = &merger->out.bias;
    desc.out_f32 = true;
    desc.name = "vision_merge_out";
    return diti_linear(graph, x, &merger->out.weight, &desc);
}

DIT_INTERNAL diti_tensor diti_vision_emit(const diti_vision *vision, diti_graph *graph, diti_encoder_use *use) {
    const diti_vision_config *config = &vision->config;
    uint32_t patches = DITI_VISION_MERGE * DITI_VISION_MERGE * diti_vision_tokens(use), i, k;
    uint32_t half = config->head_dim / 2;
    diti_tensor *inputs = use->inputs, x;
    diti_linear_desc desc = DITI_ZERO;
    inputs[DITI_DECODER_VISION_PIXELS] =
        diti_tensor_input(graph, DITI_F32, patches, 6 * config->patch * config->patch, "patches of pictures");
    inputs[DITI_DECODER_VISION_COSINES] = diti_tensor_input(graph, DITI_F32, patches, half, "vision cosines");
    inputs[DITI_DECODER_VISION_SINES] = diti_tensor_input(graph, DITI_F32, patches, half, "vision sines");
    inputs[DITI_DECODER_VISION_PICTURES] =
        diti_tensor_input(graph, DITI_U32, use->picture_count, DITI_ITEM_WORDS, "pictures");
    inputs[DITI_DECODER_VISION_WINDOWS] =
        diti_tensor_input(graph, DITI_U32, diti_vision_windows(vision, use), DITI_ITEM_WORDS, "windows");
    if (vision->places)
        inputs[DITI_DECODER_VISION_PLACES] =
            diti_tensor_input(graph, DITI_F32, patches, config->columns, "places of patches");
    desc.bias = config->third ? &vision->patch.bias : NULL;
    desc.residual = inputs[DITI_DECODER_VISION_PLACES];
    desc.out_f32 = true;
    desc.name = "vision_patches";
    x = diti_linear(graph, inputs[DITI_DECODER_VISION_PIXELS], &vision->patch.weight, &desc);
    for (i = 0; i < config->blocks && !diti_graph_failed(graph); i++) {
        diti_graph_scope(graph, "vision block", i);
        diti_vision_run_block(vision, graph, use, i, x);
        for (k = 0; k < config->deep_count; k++)
            if (config->deep[k] == i) use->deep[k] = diti_vision_merge(graph, x, &vision->deep[k]);
    }
    diti_graph_scope(graph, NULL, 0);
    return diti_vision_merge(graph, x, &vision->merger);
}
/* ---- what the host writes ---- */

/* Angles of a patch: its line, then its column, times 10000^(-4i / head_dim). */
static void diti_vision_angles(const diti_vision *vision, uint32_t line, uint32_t column, float *cosines,
                               float *sines) {
    uint32_t quarter = vision->config.head_dim / 4, i;
    for (i = 0; i < 2 * quarter; i++) {
        float frequency = 1.0f / (float)pow(10000.0, (double)(i % quarter) / (double)quarter);
        float angle = (float)(i < quarter ? line : column) * frequency;
        cosines[i] = (float)cos((double)angle);
        sines[i] = (float)sin((double)angle);
    }
}

/* Between the four nearest places of the grid, whose corners are those of the picture. */
static void diti_vision_between(const diti_vision *vision, const diti_vision_grid *grid, uint32_t line, uint32_t column,
                                float *out) {
    uint32_t side = vision->config.side, d = vision->config.columns, at[2][2], c;
    uint32_t places[2] = {line, column},
             counts[2] = {DITI_VISION_MERGE * grid->rows, DITI_VISION_MERGE * grid->columns};
    float part[2];
    for (c = 0; c < 2; c++) {
        float place = (float)places[c] * (float)(side - 1) / (float)(counts[c] > 1 ? counts[c] - 1 : 1);
        at[c][0] = (uint32_t)place;
        at[c][1] = at[c][0] + 1 < side ? at[c][0] + 1 : side - 1;
        part[c] = place - (float)at[c][0];
    }
    for (c = 0; c < d; c++) {
        const float *rows[2];
        rows[0] = vision->places + (size_t)at[0][0] * side * d + c;
        rows[1] = vision->places + (size_t)at[0][1] * side * d + c;
        out[c] = (1 - part[0]) * ((1 - part[1]) * rows[0][at[1][0] * d] + part[1] * rows[0][at[1][1] * d]) +
                 part[0] * ((1 - part[1]) * rows[1][at[1][0] * d] + part[1] * rows[1][at[1][1] * d]);
    }
}

typedef struct diti_vision_tables {
    float *places;
    float *cosines, *sines;
    uint32_t *windows, *pictures;
} diti_vision_tables;

static void diti_vision_fill(const diti_vision *vision, const diti_encoder_use *use, const diti_vision_tables *out) {
    uint32_t merge = DITI_VISION_MERGE, half = vision->config.head_dim / 2, i, k, row = 0, window = 0;
    for (i = 0; i < use->picture_count; i++) {
        const diti_vision_grid *grid = &use->pictures[i];
        diti_vision_cursor at = DITI_ZERO;
        uint32_t begin = row, first = row;
        bool new_window, more;
        do {
            for (k = 0; k < merge * merge; k++, row++) {
                uint32_t line = merge * at.row + k / merge, column = merge * at.column + k % merge;
                diti_vision_angles(vision, line, column, out->cosines + (size_t)row * half,
                                   out->sines + (size_t)row * half);
                if (out->places)
                    diti_vision_between(vision, grid, line, column, out->places + (size_t)row * vision->config.columns);
            }
            more = diti_vision_next(grid, vision->config.window, &at, &new_window);
            if (!new_window) continue;
            out->windows[window * 4] = out->windows[window * 4 + 2] = first;
            out->windows[window * 4 + 1] = out->windows[window * 4 + 3] = row - first;
            first = row;
            window++;
        } while (more);
        out->pictures[i * 4] = out->pictures[i * 4 + 2] = begin;
        out->pictures[i * 4 + 1] = out->pictures[i * 4 + 3] = row - begin;
    }
}

DIT_INTERNAL dit_result diti_vision_write(const diti_vision *vision, const diti_env *env, diti_plan *plan,
                                          const diti_encoder_use *use, dit_error *err) {
    uint32_t rows = DITI_VISION_MERGE * DITI_VISION_MERGE * diti_vision_tokens(use);
    size_t count = (size_t)rows * (vision->config.head_dim / 2), windows = diti_vision_windows(vision, use);
    const diti_tensor *inputs = use->inputs;
    size_t places = inputs[DITI_DECODER_VISION_PLACES] ? (size_t)rows * vision->config.columns : 0;
    diti_vision_tables tables;
    dit_result result;
    tables.places = places ? (float *)diti_alloc_array(env, places, sizeof(float)) : NULL;
    tables.cosines = (float *)diti_alloc_array(env, 2 * count, sizeof(float));
    tables.windows =
        (uint32_t *)diti_alloc_array(env, (windows + use->picture_count) * DITI_ITEM_WORDS, sizeof(uint32_t));
    if (tables.cosines && tables.windows && (tables.places || !places)) {
        tables.sines = tables.cosines + count;
        tables.pictures = tables.windows + windows * DITI_ITEM_WORDS;
        diti_vision_fill(vision, use, &tables);
        result = diti_plan_write(plan, inputs[DITI_DECODER_VISION_COSINES], tables.cosines, count * 4, err);
        if (result >= 0 && places)
            result = diti_plan_write(plan, inputs[DITI_DECODER_VISION_PLACES], tables.places, places * 4, err);
        if (result >= 0)
            result = diti_plan_write(plan, inputs[DITI_DECODER_VISION_SINES], tables.sines, count * 4, err);
        if (result >= 0)
            result = diti_plan_write(plan, inputs[DITI_DECODER_VISION_WINDOWS], tables.windows,
                                     windows * DITI_ITEM_WORDS * 4, err);
        if (result >= 0)
            result = diti_plan_write(plan, inputs[DITI_DECODER_VISION_PICTURES], tables.pictures,
                                     (size_t)use->picture_count * DITI_ITEM_WORDS * 4, err);
    } else {
        result = diti_fail_memory(err, "the patches of pictures");
    }
    diti_free(env, tables.places);
    diti_free(env, tables.cosines);
    diti_free(env, tables.windows);
    return result;
}

/* A patch's columns are (c, t, y, x), of two frames that are alike. */
static void diti_vision_patch(const diti_vision *vision, const uint8_t *rgba, uint32_t width, uint32_t line,
                              uint32_t column, float *out) {
    static const float mean[3] = {0.48145466f, 0.4578275f, 0.40821073f},
                       std[3] = {0.26862954f, 0.26130258f, 0.27577711f};
    uint32_t side = vision->config.patch, c, y, x;
    for (c = 0; c < 3; c++) {
        float *first = out + (size_t)c * 2 * side * side;
        float middle = vision->config.third ? 0.5f : mean[c], spread = vision->config.third ? 0.5f : std[c];
        for (y = 0; y < side; y++)
            for (x = 0; x < side; x++)
                first[y * side + x] =
                    ((float)rgba[((size_t)(line * side + y) * width + column * side + x) * 4 + c] - middle * 255.0f) /
                    (spread * 255.0f);
        memcpy(first + side * side, first, sizeof *first * side * side);
    }
}

DIT_INTERNAL void diti_vision_patches(const diti_vision *vision, const diti_vision_grid *grid, const uint8_t *rgba,
                                      float *out) {
    uint32_t merge = DITI_VISION_MERGE, side = vision->config.patch, k, row = 0;
    diti_vision_cursor at = DITI_ZERO;
    bool new_window;
    do {
        for (k = 0; k < merge * merge; k++, row++)
            diti_vision_patch(vision, rgba, grid->columns * merge * side, merge * at.row + k / merge,
                              merge * at.column + k % merge, out + (size_t)row * 6 * side * side);
    } while (diti_vision_next(grid, vision->config.window, &at, &new_window));
}
