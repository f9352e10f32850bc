/* PixArt-alpha and PixArt-Sigma: docs/models.md 3.2. Originals:
   https://github.com/PixArt-alpha/PixArt-alpha/blob/master/diffusion/model/nets/PixArtMS.py
   https://github.com/PixArt-alpha/PixArt-sigma/blob/master/diffusion/model/nets/PixArtMS.py

   D is the width of the residual stream; the text is attended by every block, and one timestep embedding modulates all
   of them through small tables of their own. */
#include "model/model.h"

#define DITI_PIXART_ALPHA_TOKENS 120u
#define DITI_PIXART_SIGMA_TOKENS 300u
/* The scale of latents: alpha has Stable Diffusion's autoencoder, Sigma SDXL's. */
#define DITI_PIXART_ALPHA_SCALE 0.18215f
#define DITI_PIXART_SIGMA_SCALE 0.13025f
#define DITI_PIXART_MAX_BLOCKS 64u

/* ---- configuration ---- */

typedef struct diti_pixart_config {
    uint32_t blocks, heads, head_dim, width; /* width: D */
    uint32_t channels, out_channels, patch;
    uint32_t caption;     /* columns of the text encoder's output */
    uint32_t sample_size; /* latent size of the training: its grid is the unit of positions */
    float interpolation, eps;
    bool sized;          /* micro-conditions: resolution and aspect ratio */
    uint32_t empty_rows; /* tokens of the caption that stands for none; 0: the file has none */
} diti_pixart_config;

/* ---- key table: names asked for here are diffusers'; the original code base calls them so ---- */

static const char *const diti_pixart_keys[][2] = {
    {"pos_embed.proj", "x_embedder.proj"},
    {"adaln_single.emb.timestep_embedder.linear_1", "t_embedder.mlp.0"},
    {"adaln_single.emb.timestep_embedder.linear_2", "t_embedder.mlp.2"},
    {"adaln_single.emb.resolution_embedder.linear_1", "csize_embedder.mlp.0"},
    {"adaln_single.emb.resolution_embedder.linear_2", "csize_embedder.mlp.2"},
    {"adaln_single.emb.aspect_ratio_embedder.linear_1", "ar_embedder.mlp.0"},
    {"adaln_single.emb.aspect_ratio_embedder.linear_2", "ar_embedder.mlp.2"},
    {"adaln_single.linear", "t_block.1"},
    {"caption_projection.linear_1", "y_embedder.y_proj.fc1"},
    {"caption_projection.linear_2", "y_embedder.y_proj.fc2"},
    {"scale_shift_table", "final_layer.scale_shift_table"},
    {"proj_out", "final_layer.linear"},
};
static const char *const diti_pixart_block_keys[][2] = {
    {"scale_shift_table", "scale_shift_table"},
    {"attn1.qkv", "attn.qkv"}, /* rows q, k, v; three matrices in diffusers */
    {"attn1.to_out.0", "attn.proj"},
    {"attn2.to_q", "cross_attn.q_linear"},
    {"attn2.kv", "cross_attn.kv_linear"}, /* rows k, v */
    {"attn2.to_out.0", "cross_attn.proj"},
    {"ff.net.0.proj", "mlp.fc1"},
    {"ff.net.2", "mlp.fc2"},
};

static const diti_key_table diti_pixart_names[DITI_KEY_TABLES] = {
    {"transformer_blocks.", "blocks.", diti_pixart_block_keys, DITI_COUNT(diti_pixart_block_keys)},
    {NULL, NULL, diti_pixart_keys, DITI_COUNT(diti_pixart_keys)},
    {NULL, NULL, NULL, 0},
};

/* ---- weights ---- */

typedef struct diti_pixart {
    diti_transformer base;
    diti_pixart_config config;
    diti_layer patch;                       /* [D, C * p * p] */
    diti_embedder time, resolution, aspect; /* [D, 256], [D, D]; the others [D/3, 256], [D/3, D/3] */
    diti_layer modulation;                  /* [6D, D] */
    diti_layer caption_in, caption_out;     /* [D, caption], [D, D] */
    diti_weight tables;                     /* F32 [6 * blocks, D] */
    diti_weight final_table;                /* F32 [2, D] */
    diti_layer proj_out;                    /* [p * p * out_channels, D] */
    diti_sublayer last;
    diti_table_block *blocks;
} diti_pixart;

#define diti_pixart_of(transformer) ((const diti_pixart *)(const void *)(transformer))

/* ---- reading the configuration: what config.json does not say comes from shapes ---- */

/* The only difference between alpha's smaller models and Sigma: 120 and 300 tokens. */
static uint32_t diti_pixart_empty_rows(const diti_loader *loader) {
    const diti_stored_tensor *rows = diti_model_find(loader->checkpoint, loader->prefix, "y_embedder.y_embedding");
    if (!rows) rows = diti_model_find(loader->checkpoint, loader->prefix, "caption_projection.y_embedding");
    return rows && rows->rank == 2 && rows->shape[0] <= 65536 ? (uint32_t)rows->shape[0] : 0;
}

/* Originals were trained on 1024 pixels where they have micro-conditions or a long caption, else on 512, unless they
   keep their position table. */
static dit_result diti_pixart_read_training(diti_loader *loader, diti_settings *settings, diti_pixart_config *config,
                                            dit_error *err) {
    bool large = config->sized || config->empty_rows > DITI_PIXART_ALPHA_TOKENS;
    uint32_t grid = 0;
    float stored = 0;
    double interpolation;
    DITI_TRY(diti_read_position_table(loader, config->width, &grid, &stored, err));
    config->sample_size = diti_setting_size(settings, "sample_size",
                                            grid    ? grid * config->patch
                                            : large ? 128
                                                    : 64,
                                            4096);
    interpolation = config->sample_size >= 128 ? (double)(config->sample_size / 64) : 1.0;
    if (stored > 0) interpolation = (double)stored;
    config->interpolation = (float)diti_setting_number(settings, "interpolation_scale", interpolation, 1e-3, 1e3);
    return DIT_OK;
}

/* Everything but what only config.json knows, from the tensors. */
static dit_result diti_pixart_read_shapes(diti_loader *loader, diti_pixart_config *config, dit_error *err) {
    static const diti_need needs[] = {{offsetof(diti_pixart_config, blocks), "blocks"},
                                      {offsetof(diti_pixart_config, caption), "caption_projection"},
                                      {offsetof(diti_pixart_config, width), "patch embedding"},
                                      {offsetof(diti_pixart_config, channels), "patch embedding"},
                                      {offsetof(diti_pixart_config, patch), "patch embedding"}};
    static const diti_shape_key keys[] = {
        {offsetof(diti_pixart_config, width), "pos_embed.proj.weight", 0},
        {offsetof(diti_pixart_config, channels), "pos_embed.proj.weight", 1},
        {offsetof(diti_pixart_config, patch), "pos_embed.proj.weight", 2},
        {offsetof(diti_pixart_config, caption), "caption_projection.linear_1.weight", 1}};
    diti_read_shapes(loader, config, keys, DITI_COUNT(keys));
    config->blocks = diti_loader_count(loader, "transformer_blocks.", ".scale_shift_table");
    config->sized = diti_loader_find(loader, "adaln_single.emb.resolution_embedder.linear_1.weight") != NULL;
    DITI_TRY(diti_config_complete(loader, config, "PixArt", needs, DITI_COUNT(needs), err));
    DITI_TRY(diti_check_patches(loader, "PixArt", config->patch, config->channels, err));
    config->empty_rows = diti_pixart_empty_rows(loader);
    config->out_channels = diti_loader_dimension(loader, "proj_out.weight", 0) / (config->patch * config->patch);
    config->head_dim = config->width % 72 == 0 ? 72 : 64; /* as published: 16 heads of 72 */
    return DIT_OK;
}

static dit_result diti_pixart_check(const diti_pixart_config *config, diti_settings *settings, dit_error *err) {
    static const char *const known[2][2] = {{"activation_fn", "gelu-approximate"}, {"norm_type", "ada_norm_single"}};
    DITI_TRY(diti_settings_check_known(settings, "PixArt", known, err));
    if ((uint64_t)config->heads * config->head_dim != config->width || config->head_dim > 256 ||
        config->width % (config->sized ? 12u : 4u)) {
        return diti_fail(
            err, DIT_ERROR_UNSUPPORTED_MODEL,
            "PixArt transformer: %u heads of %u don't make a width of %u (a multiple of 4; of 12 with micro-conditions)",
            (unsigned)config->heads, (unsigned)config->head_dim, (unsigned)config->width);
    }
    if (config->out_channels < config->channels || config->blocks > DITI_PIXART_MAX_BLOCKS || config->patch > 16 ||
        config->sample_size < config->patch) {
        return diti_fail(
            err, DIT_ERROR_UNSUPPORTED_MODEL,
            "PixArt transformer: %u blocks, patches of %u in a size of %u, %u channels out of %u are out of range",
            (unsigned)config->blocks, (unsigned)config->patch, (unsigned)config->sample_size,
            (unsigned)config->out_channels, (unsigned)config->channels);
    }
    return DIT_OK;
}

static dit_result diti_pixart_read(diti_component *component, diti_loader *loader, const diti_json *json,
                                   dit_error *err) {
    static const diti_size_key keys[] = {{offsetof(diti_pixart_config, channels), "in_channels", 1024},
                                         {offsetof(diti_pixart_config, patch), "patch_size", 1024},
                                         {offsetof(diti_pixart_config, out_channels), "out_channels", 1024},
                                         {offsetof(diti_pixart_config, head_dim), "attention_head_dim", 1024}};
    diti_pixart_config *config = &((diti_pixart *)(void *)component)->config;
    diti_settings settings = diti_settings_of(json, "the transformer's config.json", err);
    dit_result result = diti_pixart_read_shapes(loader, config, err);
    DITI_TRY(result);
    config->blocks = diti_loader_layers(loader, &settings, "num_layers", "transformer_blocks.", ".scale_shift_table");
    diti_read_sizes(&settings, config, keys, DITI_COUNT(keys));
    config->heads = diti_setting_size(&settings, "num_attention_heads", config->width / config->head_dim, 1024);
    config->sized = diti_setting_bool(&settings, "use_additional_conditions", config->sized);
    DITI_TRY(diti_pixart_read_training(loader, &settings, config, err));
    config->eps = (float)diti_setting_number(&settings, "norm_eps", 1e-6, 0, 1);
    return diti_pixart_check(config, &settings, err);
}

/* ---- loading ---- */

/* All blocks' tables in a row, so that one op can add the timestep to all of them. */
static void diti_pixart_load_tables(diti_loader *loader, diti_pixart *model) {
    diti_weight one;
    uint32_t i;
    for (i = 0; i < model->config.blocks; i++) {
        diti_loader_scope(loader, "transformer_blocks.%u.", (unsigned)i);
        diti_load_vector(loader, i ? &one : &model->tables, 6, model->config.width, "scale_shift_table");
        if (i && !loader->error.result && diti_weight_append(loader, &model->tables, &one))
            diti_loader_move_targets(loader, one.name, model->tables.name, i * 6 * model->config.width);
    }
    diti_loader_scope_end(loader);
}

static void diti_pixart_load_weights(diti_loader *loader, diti_pixart *model) {
    const diti_pixart_config *config = &model->config;
    uint32_t i, width = config->width, area = config->patch * config->patch;
    diti_load_layer(loader, &model->patch, width, config->channels * area, config->patch, "pos_embed.proj");
    model->patch.weight.kernel = 1; /* used as a matrix on flattened patches */
    diti_load_embedder(loader, &model->time, width, width, 256, "adaln_single.emb.timestep_embedder");
    if (config->sized) {
        uint32_t third = width / 3;
        diti_load_embedder(loader, &model->resolution, third, third, 256, "adaln_single.emb.resolution_embedder");
        diti_load_embedder(loader, &model->aspect, third, third, 256, "adaln_single.emb.aspect_ratio_embedder");
    }
    diti_load_layer(loader, &model->modulation, 6 * width, width, 1, "adaln_single.linear");
    diti_load_layer(loader, &model->caption_in, width, config->caption, 1, "caption_projection.linear_1");
    diti_load_layer(loader, &model->caption_out, width, width, 1, "caption_projection.linear_2");
    diti_pixart_load_tables(loader, model);
    for (i = 0; i < config->blocks; i++) {
        diti_loader_scope(loader, "transformer_blocks.%u.", (unsigned)i);
        diti_table_block_load(loader, &model->blocks[i], width, config->head_dim, config->eps, true);
    }
    diti_loader_scope_end(loader);
    diti_load_vector(loader, &model->final_table, 2, width, "scale_shift_table");
    diti_load_layer(loader, &model->proj_out, config->out_channels * area, width, 1, "proj_out");
    diti_make_output(&model->last, DITI_STREAMS_ONE, &model->proj_out);
}

/* The scheduler that both of its pipelines are published with (docs/models.md 3.2); original files name none. */
static const char diti_pixart_scheduler[] =
    "{\"_class_name\":\"DPMSolverMultistepScheduler\",\"beta_schedule\":\"linear\",\"beta_start\":0.0001,\"beta_end\":0.02}";

static void diti_pixart_set_traits(diti_pixart *model) {
    const diti_pixart_config *config = &model->config;
    diti_model_traits *traits = &model->base.traits;
    bool alpha = config->sized || (config->empty_rows && config->empty_rows <= DITI_PIXART_ALPHA_TOKENS);
    traits->variant = alpha ? "alpha" : "sigma";
    traits->latents.channels = 4;
    traits->latents.scale = alpha ? DITI_PIXART_ALPHA_SCALE : DITI_PIXART_SIGMA_SCALE;
    diti_traits_sizes(traits, config->blocks, config->width, config->heads, config->channels, config->patch);
    traits->out_channels = config->out_channels;
    traits->default_size = config->sample_size;
    traits->text_tokens = alpha ? DITI_PIXART_ALPHA_TOKENS : DITI_PIXART_SIGMA_TOKENS;
    traits->text_columns = config->caption;
    traits->encoders[0] = DITI_ENCODER_T5;
    traits->default_steps = 20;
    traits->default_guidance = 4.5f;
    traits->scheduler = diti_pixart_scheduler;
    traits->attends_padding = false; /* padding is masked in the encoder and in the cross attention */
}

static void diti_pixart_load(diti_component *component, diti_loader *loader) {
    diti_pixart *model = (diti_pixart *)(void *)component;
    model->blocks =
        (diti_table_block *)diti_component_array(component, loader, model->config.blocks, sizeof *model->blocks);
    if (!model->blocks) return;
    diti_pixart_load_weights(loader, model);
    diti_pixart_set_traits(model);
}

/* ---- once per picture: everything that does not depend on the latent ---- */

typedef struct diti_pixart_state { /* prepare leaves these for the steps */
    diti_tensor sinusoids;         /* input F32 [steps, 256] */
    diti_tensor sizes;             /* input F32 [3, 256]: height, width, aspect ratio; 0: the model has none */
    diti_tensor positions;         /* input F32 [tokens, D] */
    diti_tensor modulation;        /* F32 [steps, 8D]: six rows for all blocks, two for the final layer */
    diti_tensor
        tables; /* F32 [steps, (6 * blocks + 2)D]: with every block's own table; 0: too large, added in a step */
    diti_tensor text[DITI_PIXART_MAX_BLOCKS]; /* [text rows, 2D]: k and v of the cross attention */
    diti_tensor step_tables;                  /* rows of the step at hand, F32 [6 * blocks, D]: six of every block */
    diti_tensor step_final;                   /* F32 [2, D]: shift, scale */
} diti_pixart_state;

#define diti_pixart_state_of(step) ((diti_pixart_state *)(step)->family)

/* Thirds of D: height, width, aspect ratio. */
static diti_tensor diti_pixart_size_embedding(const diti_pixart *model, diti_graph *graph, diti_tensor sizes) {
    uint32_t i, third = model->config.width / 3;
    diti_tensor out = diti_tensor_new(graph, DITI_F32, 1, model->config.width, "size_embedding");
    for (i = 0; i < 3; i++) {
        diti_embed(graph, i < 2 ? &model->resolution : &model->aspect, diti_tensor_view(graph, sizes, i, 1, 0, 256),
                   diti_tensor_view(graph, out, 0, 1, i * third, third));
    }
    return out;
}

/* Modulation of all steps (docs/models.md 3.2 steps 2, 3 and 6): F32 [steps, 8D]. */
static diti_tensor diti_pixart_modulation(const diti_pass *p, const diti_pixart_state *state) {
    const diti_pixart *model = diti_pixart_of(p->model);
    diti_graph *graph = p->graph;
    diti_tensor time = diti_embed(graph, &model->time, state->sinusoids, 0);
    if (state->sizes)
        time = diti_add_rows(graph, time, diti_pixart_size_embedding(model, graph, state->sizes), 0, "add_sizes");
    return diti_table_rows(p, time, &model->modulation, &model->final_table);
}

#define DITI_PIXART_TABLE_BYTES (64u << 20)

/* The modulation of every block in every step; 0 where that is too much to keep, as with very many steps. */
static diti_tensor diti_pixart_all_tables(const diti_pass *p, diti_tensor modulation) {
    const diti_pixart *model = diti_pixart_of(p->model);
    diti_graph *graph = p->graph;
    uint32_t i, steps = p->step->steps, width = p->width, blocks = model->config.blocks;
    uint64_t bytes = (uint64_t)steps * (6 * blocks + 2) * width * sizeof(float);
    diti_tensor all, shared, own, add;
    if (bytes > DITI_PIXART_TABLE_BYTES || bytes > graph->device->limits.storage_range) return 0;
    if (model->tables.part_count != 1) return 0;
    all = diti_tensor_new(graph, DITI_F32, steps, (6 * blocks + 2) * width, "block_modulation");
    own = diti_tensor_reshape(graph, diti_tensor_weight(graph, &model->tables, 0), blocks, 6 * width);
    shared = diti_tensor_view(graph, modulation, 0, steps, 0, 6 * width);
    for (i = 0; i < blocks; i++) {
        add = diti_tensor_view(graph, own, i, 1, 0, 6 * width);
        diti_add_rows(graph, shared, add, diti_tensor_view(graph, all, 0, steps, i * 6 * width, 6 * width),
                      "block_modulation");
    }
    diti_add_rows(graph, diti_tensor_view(graph, modulation, 0, steps, 6 * width, 2 * width), 0,
                  diti_tensor_view(graph, all, 0, steps, 6 * blocks * width, 2 * width), "final_modulation");
    return all;
}

/* Caption projection, then keys and values of every block's cross attention. */
static void diti_pixart_project_text(diti_pass *p, diti_pixart_state *state) {
    const diti_pixart *model = diti_pixart_of(p->model);
    uint32_t i, end;
    diti_tensor y = diti_table_text(p, &model->caption_in, &model->caption_out);
    for (diti_axes_blocks(p->step->axes, model->config.blocks, &i, &end); i < end; i++) {
        const diti_table_block *w = &model->blocks[i];
        diti_pass_enter(p, i);
        state->text[i] = diti_sublayer_fused(p, y, &w->text_kv, 2, &w->cross, "text_kv");
    }
    diti_graph_scope(p->graph, NULL, 0);
}

static void diti_pixart_prepare(diti_pass *p) {
    const diti_pixart_config *config = &diti_pixart_of(p->model)->config;
    const diti_step_desc *step = p->step;
    uint32_t tokens = step->height / config->patch * (step->width / config->patch);
    diti_pixart_state *state = diti_pixart_state_of(step);
    state->sinusoids = diti_tensor_input(p->graph, DITI_F32, step->steps, 256, "timesteps");
    state->positions = diti_tensor_input(p->graph, DITI_F32, tokens, p->width, "positions");
    if (config->sized) state->sizes = diti_tensor_input(p->graph, DITI_F32, 3, 256, "sizes");
    state->modulation = diti_pixart_modulation(p, state);
    state->tables = diti_pixart_all_tables(p, state->modulation);
    diti_pixart_project_text(p, state);
}

static dit_result diti_pixart_write_inputs(const diti_transformer *transformer, diti_plan *plan,
                                           const diti_step_desc *step, const float *timesteps, dit_error *err) {
    const diti_pixart *model = diti_pixart_of(transformer);
    const diti_pixart_state *state = (const diti_pixart_state *)step->family;
    const uint32_t *pixels = step->pixels;
    float sizes[3]; /* height, width, aspect ratio */
    diti_token_grid grid = diti_transformer_grid(transformer, step);
    dit_result result =
        diti_write_stretched(plan, state->positions, &grid, model->config.sample_size / model->config.patch,
                             model->config.interpolation, err);
    if (result >= 0) {
        result = diti_write_sinusoids(plan, state->sinusoids, timesteps, step->steps, 0, err);
    }
    if (result < 0 || !state->sizes) return result;
    sizes[0] = (float)pixels[0];
    sizes[1] = (float)pixels[1];
    sizes[2] = (float)pixels[0] / (float)pixels[1];
    return diti_write_sinusoids(plan, state->sizes, step->micro ? step->micro : sizes, 3, 0, err);
}

/* ---- one evaluation ---- */

/* This step's rows: the timestep's modulation plus every block's own table. */
static void diti_pixart_begin(diti_pass *p) {
    const diti_pixart *model = diti_pixart_of(p->model);
    diti_graph *graph = p->graph;
    diti_pixart_state *state = diti_pixart_state_of(p->step);
    uint32_t i, width = p->width, rows = 6 * model->config.blocks;
    diti_tensor row, from = state->tables ? state->tables : state->modulation;
    if (p->step->same_timestep) return;
    row = diti_select_modulation(p, from);
    if (state->tables) {
        row = diti_tensor_reshape(graph, row, rows + 2, width);
        state->step_tables = diti_tensor_view(graph, row, 0, rows, 0, width);
        state->step_final = diti_tensor_view(graph, row, rows, 2, 0, width);
        return;
    }
    row = diti_tensor_reshape(graph, row, 8, width);
    state->step_final = diti_tensor_view(graph, row, 6, 2, 0, width);
    state->step_tables = diti_tensor_new(graph, DITI_F32, model->tables.rows, width, "block_modulation");
    row = diti_tensor_view(graph, row, 0, 6, 0, width);
    for (i = 0; i < model->tables.part_count; i++) {
        const diti_weight_part *part = &model->tables.parts[i];
        diti_tensor out = diti_tensor_view(graph, state->step_tables, part->first_row, part->rows, 0, width);
        diti_add_rows(graph, diti_tensor_weight(graph, &model->tables, i), row, out, "block_modulation");
    }
}

/* PixArtBlock.forward, docs/models.md 3.2 step 5; x F32 [items * rows, D] is changed in place. */
static diti_tensor diti_pixart_run_block(diti_pass *p, diti_tensor x) {
    const diti_table_block *w = &diti_pixart_of(p->model)->blocks[p->index];
    const diti_pixart_state *state = diti_pixart_state_of(p->step);
    diti_tensor rows = diti_tensor_view(p->graph, state->step_tables, 6 * p->index, 6, 0, p->width);
    p->modulation.rows = diti_tensor_reshape(p->graph, rows, 1, 6 * p->width);
    diti_block_attend(p, x, &w->attention);
    diti_table_finish(p, x, w, state->text[p->index]);
    return x;
}

static diti_tensor diti_pixart_final(diti_pass *p, diti_tensor x) {
    const diti_sublayer *last = &diti_pixart_of(p->model)->last;
    p->modulation.rows = diti_tensor_reshape(p->graph, diti_pixart_state_of(p->step)->step_final, 1, 2 * p->width);
    return diti_output_modulated(p, x, last);
}

static diti_tensor diti_pixart_embed(diti_pass *p) {
    return diti_patch_embed(p, 0, &diti_pixart_of(p->model)->patch, diti_pixart_state_of(p->step)->positions);
}

/* ---- where parts of such models are ---- */

#define DITI_PIXART_ALPHA "PixArt-alpha/PixArt-XL-2-1024-MS"
#define DITI_PIXART_SIGMA "PixArt-alpha/PixArt-Sigma-XL-2-1024-MS"
static const diti_place diti_pixart_places[] = {
    {"alpha", DIT_ROLE_TEXT_1, DITI_PIXART_ALPHA ": text_encoder/, or " DITI_T5_PLACE},
    {"alpha", DIT_ROLE_TOKENIZER_1, DITI_PIXART_ALPHA ": tokenizer/"},
    {"alpha", DIT_ROLE_VAE, DITI_PIXART_ALPHA ": vae/"},
    {"alpha", DIT_ROLE_SCHEDULER, DITI_PIXART_ALPHA ": scheduler/"},
    {"", DIT_ROLE_TEXT_1, DITI_PIXART_SIGMA ": text_encoder/, or " DITI_T5_PLACE},
    {"", DIT_ROLE_TOKENIZER_1, DITI_PIXART_SIGMA ": tokenizer/"},
    {"", DIT_ROLE_VAE, DITI_PIXART_SIGMA ": vae/"},
    {"", DIT_ROLE_SCHEDULER, DITI_PIXART_SIGMA ": scheduler/"},
    {NULL, DIT_ROLE_NONE, NULL},
};

/* Alpha's and Sigma's transformers may look alike: their pipelines tell. */
static const diti_pipeline_class diti_pixart_pipelines[] = {
    {"PixArtAlphaPipeline", "alpha", DITI_PIXART_ALPHA_TOKENS, DITI_PIXART_ALPHA_SCALE},
    {"PixArtSigmaPipeline", "sigma", DITI_PIXART_SIGMA_TOKENS, DITI_PIXART_SIGMA_SCALE},
    {NULL, NULL, 0, 0},
};

DIT_INTERNAL const diti_family *diti_pixart_family(void) {
    static const diti_family family = {
        "pixart",
        "PixArt",
        {"PixArtTransformer2DModel",
         "ada_norm_single",
         {"adaln_single.linear.weight", "pos_embed.proj.weight", "transformer_blocks.0.scale_shift_table", NULL},
         {"x_embedder.proj.weight", "t_block.1.weight", "y_embedder.y_proj.fc1.weight", "blocks.0.scale_shift_table"},
         {"temporal_transformer_blocks.0.scale_shift_table", "blocks.0.attn_temp.qkv.weight"}},
        {"transformer", "transformer", sizeof(diti_pixart), diti_pixart_read, diti_pixart_load, NULL},
        diti_pixart_names,
        {4, DITI_PIXART_ALPHA_SCALE, 0, false},
        diti_pixart_pipelines,
        NULL,
        diti_pixart_places,
        sizeof(diti_pixart_state),
        diti_pixart_prepare,
        diti_pixart_begin,
        diti_pixart_embed,
        diti_pixart_run_block,
        diti_pixart_final,
        diti_pixart_write_inputs};
    return &family;
}
