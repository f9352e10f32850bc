/* Open-Sora's STDiT (v1.0), STDiT2 (v1.1) and STDiT3 (v1.2): docs/models.md 3.6. Originals:
   https://github.com/hpcaitech/Open-Sora/blob/v1.2.0/opensora/models/stdit/stdit.py
   https://github.com/hpcaitech/Open-Sora/blob/v1.1.0/opensora/models/stdit/stdit2.py
   https://github.com/hpcaitech/Open-Sora/blob/v1.2.0/opensora/models/stdit/stdit3.py

   D is the width of the residual stream, F the frames, N the tokens of a frame. A token attends to its frame, then to
   its position in all frames, and to the text. Frames that are given are modulated as at timestep 0. */
#include "model/model.h"

#define DITI_STDIT_MAX_BLOCKS 64u
#define DITI_STDIT_SIZES 5u

/* ---- configuration ---- */

typedef enum diti_stdit_version { DITI_STDIT_1, DITI_STDIT_2, DITI_STDIT_3 } diti_stdit_version;
typedef struct diti_stdit_config {
    diti_stdit_version version;
    uint32_t blocks, heads, head_dim, width; /* width: D */
    uint32_t channels, out_channels, patch;
    uint32_t caption, tokens; /* columns of the text encoder's output, and the most rows of it */
    uint32_t feed;
    uint32_t square; /* side of the square in pixels whose positions are whole numbers; v1.0: none */
    bool normed;     /* heads of queries and keys have RMS norms */
    float space_scale;
    double time_scale;
} diti_stdit_config;

/* ---- weights, by the names of the original, which no other code base has changed ---- */

/* Attention within frames and within positions. The second part has neither text nor feed-forward in v1.0 and v1.1; its
   table is [3, D] in v1.1, and v1.0 has none. */
enum { DITI_STDIT_SPATIAL, DITI_STDIT_TEMPORAL, DITI_STDIT_PARTS };
typedef struct diti_stdit_block {
    diti_table_block parts[DITI_STDIT_PARTS];
} diti_stdit_block;

typedef struct diti_stdit {
    diti_transformer base;
    diti_stdit_config config;
    diti_layer patch;                       /* [D, C * p * p] */
    diti_embedder time, size, aspect;       /* [D, 256], [D, D]; the others [D/3, 256], [D/3, D/3] */
    diti_embedder frames, fps;              /* as time */
    diti_layer modulation, time_modulation; /* [6D, D], [3D, D] */
    diti_layer caption_in, caption_out;     /* [D, caption], [D, D] */
    diti_weight null_text;                  /* F32 [tokens, caption] */
    diti_weight final_table;                /* F32 [2, D] */
    diti_layer proj_out;                    /* [p * p * out_channels, D] */
    diti_sublayer last;
    diti_stdit_block *blocks;
} diti_stdit;

#define diti_stdit_of(transformer) ((const diti_stdit *)(const void *)(transformer))

/* ---- reading the configuration: what config.json does not say comes from shapes ---- */

static dit_result diti_stdit_read_shapes(diti_loader *loader, diti_stdit_config *config, dit_error *err) {
    static const diti_need needs[] = {{offsetof(diti_stdit_config, feed), "blocks"},
                                      {offsetof(diti_stdit_config, caption), "y_embedder.y_proj"},
                                      {offsetof(diti_stdit_config, width), "patch embedding"},
                                      {offsetof(diti_stdit_config, channels), "patch embedding"},
                                      {offsetof(diti_stdit_config, patch), "patch embedding"}};
    static const diti_shape_key keys[] = {{offsetof(diti_stdit_config, width), "x_embedder.proj.weight", 0},
                                          {offsetof(diti_stdit_config, channels), "x_embedder.proj.weight", 1},
                                          {offsetof(diti_stdit_config, patch), "x_embedder.proj.weight", 3},
                                          {offsetof(diti_stdit_config, caption), "y_embedder.y_proj.fc1.weight", 1},
                                          {offsetof(diti_stdit_config, tokens), "y_embedder.y_embedding", 0},
                                          {offsetof(diti_stdit_config, out_channels), "final_layer.linear.weight", 0}};
    const char *first = "blocks.0.attn.q_norm.weight", *feed = "blocks.0.mlp.fc1.weight";
    diti_read_shapes(loader, config, keys, DITI_COUNT(keys));
    config->version = diti_loader_find(loader, "t_block_temp.1.weight") ? DITI_STDIT_2 : DITI_STDIT_1;
    if (diti_loader_find(loader, "spatial_blocks.0.attn.qkv.weight")) {
        config->version = DITI_STDIT_3;
        first = "spatial_blocks.0.attn.q_norm.weight";
        feed = "spatial_blocks.0.mlp.fc1.weight";
    }
    config->feed = diti_loader_dimension(loader, feed, 0);
    config->head_dim = diti_loader_dimension(loader, first, 0);
    config->normed = config->head_dim > 0;
    if (!config->head_dim) config->head_dim = config->width % 72 == 0 ? 72 : 64; /* as published: 16 heads of 72 */
    DITI_TRY(diti_config_complete(loader, config, "Open-Sora", needs, DITI_COUNT(needs), err));
    DITI_TRY(diti_check_patches(loader, "Open-Sora", config->patch, config->channels, err));
    config->out_channels /= config->patch * config->patch;
    return DIT_OK;
}

static dit_result diti_stdit_check(const diti_stdit_config *config, diti_settings *settings, dit_error *err) {
    uint32_t unit = config->version == DITI_STDIT_2 ? 12u : 4u;
    DITI_TRY(settings->result);
    if ((uint64_t)config->heads * config->head_dim != config->width || config->head_dim > 256 || config->head_dim % 2 ||
        config->width % unit) {
        return diti_fail(err, DIT_ERROR_UNSUPPORTED_MODEL,
                         "Open-Sora transformer: %u heads of %u don't make a width of %u, a multiple of %u",
                         (unsigned)config->heads, (unsigned)config->head_dim, (unsigned)config->width, (unsigned)unit);
    }
    if (config->out_channels < config->channels || !config->blocks || config->blocks > DITI_STDIT_MAX_BLOCKS) {
        return diti_fail(err, DIT_ERROR_UNSUPPORTED_MODEL,
                         "Open-Sora transformer: %u blocks, %u channels out of %u are out of range",
                         (unsigned)config->blocks, (unsigned)config->out_channels, (unsigned)config->channels);
    }
    return DIT_OK;
}

static dit_result diti_stdit_read(diti_component *component, diti_loader *loader, const diti_json *json,
                                  dit_error *err) {
    diti_stdit_config *config = &((diti_stdit *)(void *)component)->config;
    diti_settings settings = diti_settings_of(json, "the transformer's config.json", err);
    dit_result result = diti_stdit_read_shapes(loader, config, err);
    DITI_TRY(result);
    config->blocks =
        diti_loader_layers(loader, &settings, "depth", config->version == DITI_STDIT_3 ? "spatial_blocks." : "blocks.",
                           ".scale_shift_table");
    config->heads = diti_setting_size(&settings, "num_heads", config->width / config->head_dim, 1024);
    if (!config->normed && config->width % config->heads == 0) config->head_dim = config->width / config->heads;
    config->square = diti_setting_size(&settings, "input_sq_size", 512, 65536);
    config->space_scale = (float)diti_setting_number(&settings, "space_scale", 1, 1e-3, 1e3);
    config->time_scale = diti_setting_number(&settings, "time_scale", 1, 1e-3, 1e3);
    return diti_stdit_check(config, &settings, err);
}

/* ---- loading ---- */

static void diti_stdit_load_attention(diti_loader *loader, const diti_stdit_config *config, diti_table_block *part,
                                      const char *name) {
    char qkv[48], out[48], norms[2][48];
    const char *qkv_name = qkv, *norm_names[2];
    diti_format(qkv, sizeof qkv, "%s.qkv", name);
    diti_format(out, sizeof out, "%s.proj", name);
    diti_format(norms[0], sizeof norms[0], "%s.q_norm.weight", name);
    diti_format(norms[1], sizeof norms[1], "%s.k_norm.weight", name);
    norm_names[0] = norms[0];
    norm_names[1] = norms[1];
    diti_load_fused_linear(loader, &part->qkv, &qkv_name, 1, 3 * config->width, config->width, true);
    if (config->normed) diti_load_vectors(loader, &part->norms, norm_names, 2, config->head_dim);
    diti_load_layer(loader, &part->out, config->width, config->width, 1, out);
}

static void diti_stdit_load_rest(diti_loader *loader, const diti_stdit_config *config, diti_table_block *part) {
    static const char *const kv[] = {"cross_attn.kv_linear"};
    uint32_t width = config->width;
    diti_load_layer(loader, &part->text_q, width, width, 1, "cross_attn.q_linear");
    diti_load_fused_linear(loader, &part->text_kv, kv, 1, 2 * width, width, true);
    diti_load_layer(loader, &part->text_out, width, width, 1, "cross_attn.proj");
    diti_load_layer(loader, &part->ff_in, config->feed, width, 1, "mlp.fc1");
    diti_load_layer(loader, &part->ff_out, width, config->feed, 1, "mlp.fc2");
    diti_load_vector(loader, &part->table, 6, width, "scale_shift_table");
}

static void diti_stdit_load_block(diti_loader *loader, const diti_stdit_config *config, diti_stdit_block *block,
                                  uint32_t index) {
    diti_table_block *spatial = &block->parts[DITI_STDIT_SPATIAL], *temporal = &block->parts[DITI_STDIT_TEMPORAL];
    bool apart = config->version == DITI_STDIT_3;
    uint32_t part;
    diti_loader_scope(loader, apart ? "spatial_blocks.%u." : "blocks.%u.", (unsigned)index);
    diti_stdit_load_attention(loader, config, spatial, "attn");
    diti_stdit_load_rest(loader, config, spatial);
    if (apart) diti_loader_scope(loader, "temporal_blocks.%u.", (unsigned)index);
    diti_stdit_load_attention(loader, config, temporal, apart ? "attn" : "attn_temp");
    if (apart) diti_stdit_load_rest(loader, config, temporal);
    if (config->version == DITI_STDIT_2)
        diti_load_vector(loader, &temporal->table, 3, config->width, "scale_shift_table_temporal");
    diti_loader_scope_end(loader);
    for (part = 0; part < DITI_STDIT_PARTS; part++) {
        diti_sublayer *attention = &block->parts[part].attention;
        diti_table_block_pair(&block->parts[part], config->width, config->head_dim, 1e-6f);
        attention->axis = part == DITI_STDIT_SPATIAL ? DITI_ATTEND_SPATIAL : DITI_ATTEND_TEMPORAL;
        attention->rotate_first = config->version == DITI_STDIT_2;
        if (config->normed) attention->norms = &block->parts[part].norms;
    }
}

/* Original names of embedders: NAME.mlp.0, NAME.mlp.2. */
static void diti_stdit_load_embedder(diti_loader *loader, diti_embedder *out, uint32_t width, const char *name) {
    char layer[64];
    diti_format(layer, sizeof layer, "%s.mlp.0", name);
    diti_load_layer(loader, &out->in, width, 256, 1, layer);
    diti_format(layer, sizeof layer, "%s.mlp.2", name);
    diti_load_layer(loader, &out->out, width, width, 1, layer);
}

static void diti_stdit_load_weights(diti_loader *loader, diti_stdit *model) {
    const diti_stdit_config *config = &model->config;
    uint32_t i, width = config->width, area = config->patch * config->patch;
    diti_load_layer(loader, &model->patch, width, config->channels * area, config->patch, "x_embedder.proj");
    model->patch.weight.kernel = 1; /* used as a matrix on flattened patches */
    diti_stdit_load_embedder(loader, &model->time, width, "t_embedder");
    if (config->version == DITI_STDIT_2) {
        diti_stdit_load_embedder(loader, &model->size, width / 3, "csize_embedder");
        diti_stdit_load_embedder(loader, &model->aspect, width / 3, "ar_embedder");
        diti_stdit_load_embedder(loader, &model->frames, width, "fl_embedder");
        diti_load_layer(loader, &model->time_modulation, 3 * width, width, 1, "t_block_temp.1");
    }
    if (config->version != DITI_STDIT_1) diti_stdit_load_embedder(loader, &model->fps, width, "fps_embedder");
    diti_load_layer(loader, &model->modulation, 6 * width, width, 1, "t_block.1");
    diti_load_layer(loader, &model->caption_in, width, config->caption, 1, "y_embedder.y_proj.fc1");
    diti_load_layer(loader, &model->caption_out, width, width, 1, "y_embedder.y_proj.fc2");
    if (config->tokens) {
        diti_load_vector(loader, &model->null_text, config->tokens, config->caption, "y_embedder.y_embedding");
        diti_loader_discount(loader, &model->null_text, 1, (uint64_t)config->tokens * config->caption);
    }
    for (i = 0; i < config->blocks; i++) diti_stdit_load_block(loader, config, &model->blocks[i], i);
    diti_load_vector(loader, &model->final_table, 2, width, "final_layer.scale_shift_table");
    diti_load_layer(loader, &model->proj_out, config->out_channels * area, width, 1, "final_layer.linear");
    diti_make_output(&model->last, DITI_STREAMS_ONE, &model->proj_out);
}

static void diti_stdit_set_traits(diti_stdit *model) {
    static const char *const variants[] = {"v1.0", "v1.1", "v1.2"};
    static const uint32_t tokens[] = {120, 200, 300};
    const diti_stdit_config *config = &model->config;
    diti_model_traits *traits = &model->base.traits;
    bool flows = config->version == DITI_STDIT_3; /* the autoencoder of v1.2 scales latents itself */
    traits->variant = variants[config->version];
    traits->latents.channels = config->channels;
    traits->latents.scale = flows ? 1 : 0.18215f;
    diti_traits_sizes(traits, config->blocks, config->width, config->heads, config->channels, config->patch);
    traits->out_channels = config->out_channels;
    traits->default_size = 64;
    traits->default_frames = flows ? 15 : 16;
    traits->default_fps = flows ? 24 : 8; /* v1.1 is told 24 and leaves out two of three */
    traits->text_tokens = config->tokens ? config->tokens : tokens[config->version];
    traits->text_columns = config->caption;
    traits->encoders[0] = DITI_ENCODER_T5;
    traits->default_steps = flows ? 30 : 100;
    traits->default_guidance = 7;
    traits->guided_channels = config->version == DITI_STDIT_2 ? 3 : 0;
    traits->divided = traits->frame_steps = true;
    traits->feeds = traits->texts = flows ? 2 : 1;
    traits->draws_frames = config->version != DITI_STDIT_1;
    traits->pads_patches = config->version != DITI_STDIT_1;
    traits->null_text = config->tokens ? &model->null_text : NULL;
    traits->scheduler =
        flows ? "{\"_class_name\":\"rflow\",\"use_timestep_transform\":true}" : "{\"_class_name\":\"iddpm\"}";
}

static void diti_stdit_load(diti_component *component, diti_loader *loader) {
    diti_stdit *model = (diti_stdit *)(void *)component;
    model->blocks =
        (diti_stdit_block *)diti_component_array(component, loader, model->config.blocks, sizeof *model->blocks);
    if (!model->blocks) return;
    diti_stdit_load_weights(loader, model);
    diti_stdit_set_traits(model);
}

/* ---- once per clip: everything that does not depend on the latent ---- */

typedef struct diti_stdit_state { /* prepare leaves these for the steps */
    diti_tensor sinusoids;        /* input F32 [steps + 1, 256], the last row of timestep 0; without it where all frames
                                     have the step's timestep */
    diti_tensor sizes;            /* input F32 [5, 256]: height, width, aspect ratio, frames, frames of a second; v1.2
                                     has the last one alone */
    diti_tensor positions;        /* input F32 [N, D] */
    diti_tensor times;            /* input F32 [F, D]; v1.0's */
    diti_tensor cosines, sines;   /* inputs F32 [F, head_dim / 2]; v1.0 has none */
    diti_tensor modulation;       /* F32 [steps + 1, columns]: six rows for all blocks, two for the final layer, three
                                     for v1.1's second parts */
    diti_tensor text[DITI_STDIT_MAX_BLOCKS][DITI_STDIT_PARTS]; /* [text rows, 2D]: k and v of the cross attentions */
    diti_tensor frame_steps;                                   /* U32 [1, items * F] of the step at hand; or 0 */
    diti_tensor rows; /* F32 [groups, columns] of modulation: for each frame of each item, or for all */
    diti_tensor row;  /* F32 [1, columns]: that of the step's timestep */
} diti_stdit_state;
enum { DITI_STDIT_FINAL = 6, DITI_STDIT_TIME = 8 }; /* first of these rows in units of D */

#define diti_stdit_state_of(step) ((diti_stdit_state *)(step)->family)

static uint32_t diti_stdit_columns(const diti_stdit *model) {
    return (model->config.version == DITI_STDIT_2 ? 11u : 8u) * model->config.width;
}

static diti_tensor diti_stdit_size(diti_graph *graph, const diti_embedder *embedder, diti_tensor sizes, uint32_t index,
                                   diti_tensor out) {
    return diti_embed(graph, embedder, diti_tensor_view(graph, sizes, index, 1, 0, 256), out);
}

/* v1.1: height, width and aspect ratio, thirds of D; and the two that modulate attention between frames. */
static void diti_stdit_conditions(const diti_stdit *model, diti_graph *graph, diti_tensor sizes, diti_tensor time,
                                  diti_tensor *spatial, diti_tensor *temporal) {
    uint32_t i, third = model->config.width / 3;
    diti_tensor data = diti_tensor_new(graph, DITI_F32, 1, model->config.width, "size_embedding");
    for (i = 0; i < 3; i++)
        diti_stdit_size(graph, i < 2 ? &model->size : &model->aspect, sizes, i,
                        diti_tensor_view(graph, data, 0, 1, i * third, third));
    *spatial = diti_add_rows(graph, time, data, 0, "add_sizes");
    *temporal = diti_add_rows(graph, time, diti_stdit_size(graph, &model->frames, sizes, 3, 0), 0, "add_frames");
    *temporal = diti_add_rows(graph, *temporal, diti_stdit_size(graph, &model->fps, sizes, 4, 0), 0, "add_fps");
}

/* The final layer's rows: from the embedding itself, neither activated nor projected; v1.1 leaves sizes out, but for
   frames that are given. */
static void diti_stdit_final_rows(const diti_stdit *model, diti_graph *graph, diti_tensor time, diti_tensor given,
                                  diti_tensor all, uint32_t steps) {
    uint32_t i, width = model->config.width, rows = diti_tensor_rows(graph, all);
    diti_tensor table = diti_tensor_weight(graph, &model->final_table, 0);
    for (i = 0; i < 2 && !diti_graph_failed(graph); i++) {
        uint32_t column = (DITI_STDIT_FINAL + i) * width;
        diti_tensor own = diti_tensor_view(graph, table, i, 1, 0, width);
        diti_add_rows(graph, diti_tensor_view(graph, time, 0, steps, 0, width), own,
                      diti_tensor_view(graph, all, 0, steps, column, width), "final_modulation");
        if (rows > steps)
            diti_add_rows(graph, diti_tensor_view(graph, given, steps, 1, 0, width), own,
                          diti_tensor_view(graph, all, steps, 1, column, width), "final_modulation");
    }
}

/* Modulation of all steps, and behind it that of timestep 0 (docs/models.md 3.6): F32 [rows, columns]. */
static diti_tensor diti_stdit_modulation(const diti_pass *p, const diti_stdit_state *state) {
    const diti_stdit *model = diti_stdit_of(p->model);
    diti_graph *graph = p->graph;
    uint32_t width = p->width, rows = diti_tensor_rows(graph, state->sinusoids);
    diti_tensor all = diti_tensor_new(graph, DITI_F32, rows, diti_stdit_columns(model), "modulation");
    diti_tensor time = diti_embed(graph, &model->time, state->sinusoids, 0), spatial = time, temporal = 0;
    if (model->config.version == DITI_STDIT_2)
        diti_stdit_conditions(model, graph, state->sizes, time, &spatial, &temporal);
    if (model->config.version == DITI_STDIT_3)
        spatial = time =
            diti_add_rows(graph, time, diti_stdit_size(graph, &model->fps, state->sizes, 0, 0), 0, "add_fps");
    diti_layer_spread(graph, diti_pass_tensor(p), diti_silu(graph, spatial, "modulation_silu"), &model->modulation,
                      diti_tensor_view(graph, all, 0, rows, 0, 6 * width), "modulation");
    if (temporal)
        diti_layer_spread(graph, diti_pass_tensor(p), diti_silu(graph, temporal, "modulation_silu"),
                          &model->time_modulation,
                          diti_tensor_view(graph, all, 0, rows, DITI_STDIT_TIME * width, 3 * width), "modulation");
    diti_stdit_final_rows(model, graph, time, spatial, all, p->step->steps);
    return all;
}

/* Caption projection, then keys and values of every cross attention. */
static void diti_stdit_project_text(diti_pass *p, diti_stdit_state *state) {
    const diti_stdit *model = diti_stdit_of(p->model);
    uint32_t i, end, part, parts = model->config.version == DITI_STDIT_3 ? 2 : 1;
    diti_tensor y = diti_table_text(p, &model->caption_in, &model->caption_out);
    for (diti_axes_blocks(p->step->axes, model->config.blocks, &i, &end); i < end; i++) {
        diti_pass_enter(p, i);
        for (part = 0; part < parts; part++) {
            const diti_table_block *w = &model->blocks[i].parts[part];
            state->text[i][part] = diti_sublayer_fused(p, y, &w->text_kv, 2, &w->cross, "text_kv");
        }
    }
    diti_graph_scope(p->graph, NULL, 0);
}

static void diti_stdit_prepare(diti_pass *p) {
    const diti_stdit_config *config = &diti_stdit_of(p->model)->config;
    const diti_step_desc *step = p->step;
    diti_token_grid grid = diti_transformer_grid(p->model, step);
    diti_stdit_state *state = diti_stdit_state_of(step);
    uint32_t rows = step->steps + (step->frame_steps ? 1 : 0);
    state->sinusoids = diti_tensor_input(p->graph, DITI_F32, rows, 256, "timesteps");
    state->positions = diti_tensor_input(p->graph, DITI_F32, grid.rows * grid.columns, p->width, "positions");
    if (config->version == DITI_STDIT_1) {
        state->times = diti_tensor_input(p->graph, DITI_F32, grid.frames, p->width, "times");
    } else {
        uint32_t sizes = config->version == DITI_STDIT_2 ? DITI_STDIT_SIZES : 1;
        state->sizes = diti_tensor_input(p->graph, DITI_F32, sizes, 256, "sizes");
        state->cosines = diti_tensor_input(p->graph, DITI_F32, grid.frames, config->head_dim / 2, "cosines");
        state->sines = diti_tensor_input(p->graph, DITI_F32, grid.frames, config->head_dim / 2, "sines");
    }
    state->modulation = diti_stdit_modulation(p, state);
    diti_stdit_project_text(p, state);
}

/* ---- inputs ---- */

/* v1.0: whole numbers. Later: those of a square of as many tokens, scaled from the size that config->square names. */
static dit_result diti_stdit_write_positions(const diti_stdit *model, diti_plan *plan, const diti_step_desc *step,
                                             diti_tensor positions, dit_error *err) {
    const diti_stdit_config *config = &model->config;
    diti_token_grid tokens = diti_transformer_grid(&model->base, step);
    diti_grid grid = {tokens.rows, tokens.columns, 1, 1, config->space_scale};
    if (config->version != DITI_STDIT_1) {
        double base = floor(sqrt((double)tokens.rows * tokens.columns) + 0.5);
        grid.interpolation = (float)(sqrt((double)step->pixels[0] * (double)step->pixels[1]) / (double)config->square);
        grid.divide_y = (float)(tokens.rows / base);
        grid.divide_x = (float)(tokens.columns / base);
    }
    return diti_write_positions(plan, positions, &grid, err);
}

/* A picture counts as 120 a second. */
static dit_result diti_stdit_write_sizes(diti_plan *plan, const diti_step_desc *step, diti_tensor sizes,
                                         dit_error *err) {
    uint32_t count = plan->tensors[sizes].rows, frames = step->clip_frames ? step->clip_frames : step->frames;
    float values[DITI_STDIT_SIZES];
    values[0] = (float)step->pixels[0];
    values[1] = (float)step->pixels[1];
    values[2] = (float)step->pixels[0] / (float)step->pixels[1];
    values[3] = frames ? (float)frames : 1;
    values[4] = step->fps > 0 ? step->fps : frames > 1 ? 24 : 120;
    return diti_write_sinusoids(plan, sizes, values + DITI_STDIT_SIZES - count, count, 0, err);
}

static dit_result diti_stdit_write_inputs(const diti_transformer *transformer, diti_plan *plan,
                                          const diti_step_desc *step, const float *timesteps, dit_error *err) {
    const diti_stdit *model = diti_stdit_of(transformer);
    const diti_stdit_state *state = (const diti_stdit_state *)step->family;
    DITI_TRY(diti_stdit_write_positions(model, plan, step, state->positions, err));
    if (state->times) DITI_TRY(diti_write_times(plan, state->times, model->config.time_scale, err));
    if (state->cosines) DITI_TRY(diti_write_rotation(plan, state->cosines, state->sines, 1, false, err));
    if (state->sizes) DITI_TRY(diti_stdit_write_sizes(plan, step, state->sizes, err));
    return diti_write_timesteps(plan, state->sinusoids, step, timesteps, err);
}

/* ---- one evaluation ---- */

static void diti_stdit_begin(diti_pass *p) {
    diti_stdit_state *state = diti_stdit_state_of(p->step);
    if (p->step->same_timestep) return;
    state->frame_steps = diti_pass_frame_steps(p);
    state->rows = diti_pass_frame_rows(p, state->modulation, state->frame_steps, "select_modulation");
    state->row = state->frame_steps ? diti_pass_frame_rows(p, state->modulation, 0, "select_modulation") : state->rows;
}

/* v1.0's attention between frames reads the residual stream itself, in the first block with the table of frames added,
   and has the gate of attention within frames, at the step's timestep for all frames. */
static void diti_stdit_attend_plainly(diti_pass *p, diti_tensor x, const diti_stdit_block *block) {
    const diti_sublayer *attention = &block->parts[DITI_STDIT_TEMPORAL].attention;
    const diti_stdit_state *state = diti_stdit_state_of(p->step);
    diti_tensor h = x;
    if (p->index == 0) {
        diti_elementwise_desc desc = DITI_ZERO;
        desc.add = diti_pass_frames_table(p, state->times);
        desc.rows_per_add = p->positions;
        desc.name = "add_times";
        h = diti_elementwise(p->graph, x, &desc);
    }
    if (state->frame_steps) diti_table_modulate(p, &block->parts[DITI_STDIT_SPATIAL].table, state->row, 0);
    h = diti_sublayer_attend(p, h, attention, 0);
    diti_sublayer_add(p, x, DITI_GATE_MSA, attention, h);
}

/* x F32 [items * F * N, D] is changed in place. docs/models.md 3.6. */
static diti_tensor diti_stdit_run_block(diti_pass *p, diti_tensor x) {
    const diti_stdit *model = diti_stdit_of(p->model);
    const diti_stdit_block *block = &model->blocks[p->index];
    const diti_table_block *spatial = &block->parts[DITI_STDIT_SPATIAL], *temporal = &block->parts[DITI_STDIT_TEMPORAL];
    const diti_stdit_state *state = diti_stdit_state_of(p->step);
    diti_tensor modulation;
    diti_table_modulate(p, &spatial->table, state->rows, 0);
    modulation = p->modulation.rows;
    diti_block_attend(p, x, &spatial->attention);
    if (model->config.version == DITI_STDIT_1) {
        diti_stdit_attend_plainly(p, x, block);
        p->modulation.rows = modulation;
        diti_table_finish(p, x, spatial, state->text[p->index][DITI_STDIT_SPATIAL]);
        return x;
    }
    if (model->config.version == DITI_STDIT_3)
        diti_table_finish(p, x, spatial, state->text[p->index][DITI_STDIT_SPATIAL]);
    diti_table_modulate(p, &temporal->table, state->rows,
                        model->config.version == DITI_STDIT_2 ? (uint32_t)DITI_STDIT_TIME : 0);
    p->cosines = state->cosines;
    p->sines = state->sines;
    diti_block_attend(p, x, &temporal->attention);
    if (model->config.version == DITI_STDIT_2) {
        p->modulation.rows = modulation;
        diti_table_finish(p, x, spatial, state->text[p->index][DITI_STDIT_SPATIAL]);
    } else {
        diti_table_finish(p, x, temporal, state->text[p->index][DITI_STDIT_TEMPORAL]);
    }
    return x;
}

/* LN(x) * (1 + scale) + shift with the final rows of one row of the modulation, F32. */
static diti_tensor diti_stdit_norm_out(const diti_pass *p, diti_tensor x, diti_tensor row) {
    diti_norm_desc desc = DITI_ZERO;
    desc.eps = 1e-6f;
    desc.shift = diti_tensor_view(p->graph, row, 0, 1, DITI_STDIT_FINAL * p->width, p->width);
    desc.scale = diti_tensor_view(p->graph, row, 0, 1, (DITI_STDIT_FINAL + 1) * p->width, p->width);
    desc.out_f32 = true;
    desc.name = "norm_out";
    return diti_norm(p->graph, x, &desc);
}

/* Frames that are given are normed and modulated twice, as at the step's timestep and then as at timestep 0: so the
   original does, and so it was trained. */
static diti_tensor diti_stdit_final(diti_pass *p, diti_tensor x) {
    const diti_sublayer *last = &diti_stdit_of(p->model)->last;
    const diti_stdit_state *state = diti_stdit_state_of(p->step);
    diti_tensor given;
    if (!state->frame_steps) {
        p->modulation.rows = diti_tensor_view(p->graph, state->row, 0, 1, DITI_STDIT_FINAL * p->width, 2 * p->width);
        return diti_output_modulated(p, x, last);
    }
    x = diti_stdit_norm_out(p, x, state->row);
    given = diti_stdit_norm_out(p, x,
                                diti_tensor_view(p->graph, state->modulation, p->step->steps, 1, 0,
                                                 diti_tensor_columns(p->graph, state->modulation)));
    diti_copy_chosen(p->graph, given, x, state->frame_steps, p->step->steps, "given_frames");
    return diti_output(p, x, last);
}

static diti_tensor diti_stdit_embed(diti_pass *p) {
    return diti_patch_embed(p, 0, &diti_stdit_of(p->model)->patch, diti_stdit_state_of(p->step)->positions);
}

/* ---- where parts of such models are ---- */

#define DITI_STDIT_SD_VAE "stabilityai/sd-vae-ft-ema: diffusion_pytorch_model.safetensors"
static const diti_place diti_stdit_places[] = {
    {"v1.2", DIT_ROLE_TRANSFORMER, "hpcai-tech/OpenSora-STDiT-v3"},
    {"v1.2", DIT_ROLE_VAE, "hpcai-tech/OpenSora-VAE-v1.2"},
    {"v1.1", DIT_ROLE_TRANSFORMER, "hpcai-tech/OpenSora-STDiT-v2-stage3"},
    {"v1.0", DIT_ROLE_TRANSFORMER, "hpcai-tech/Open-Sora"},
    {"", DIT_ROLE_VAE, DITI_STDIT_SD_VAE},
    {"", DIT_ROLE_TEXT_1, "DeepFloyd/t5-v1_1-xxl, or " DITI_T5_PLACE},
    {"", DIT_ROLE_TOKENIZER_1, "DeepFloyd/t5-v1_1-xxl: spiece.model"},
    {NULL, DIT_ROLE_NONE, NULL},
};

/* No code base has given these models other names; the two lists are of v1.2, and of v1.1 and v1.0. */
DIT_INTERNAL const diti_family *diti_stdit_family(void) {
    static const diti_family family = {
        "stdit",
        "Open-Sora",
        {"STDiT",
         NULL,
         {"t_block.1.weight", "y_embedder.y_proj.fc1.weight", "spatial_blocks.0.attn.qkv.weight",
          "temporal_blocks.0.attn.qkv.weight"},
         {"t_block.1.weight", "y_embedder.y_proj.fc1.weight", "blocks.0.attn_temp.qkv.weight", NULL},
         {NULL, NULL}},
        {"transformer", "transformer", sizeof(diti_stdit), diti_stdit_read, diti_stdit_load, NULL},
        NULL,
        {4, 0.18215f, 0, false},
        NULL,
        NULL,
        diti_stdit_places,
        sizeof(diti_stdit_state),
        diti_stdit_prepare,
        diti_stdit_begin,
        diti_stdit_embed,
        diti_stdit_run_block,
        diti_stdit_final,
        diti_stdit_write_inputs};
    return &family;
}
