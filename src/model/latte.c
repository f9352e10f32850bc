/* Latte-1 and Open-Sora-Plan v1.1's LatteT2V: docs/models.md 3.7. Originals:
   https://github.com/huggingface/diffusers/blob/v0.32.2/src/diffusers/models/transformers/latte_transformer_3d.py
   https://github.com/PKU-YuanGroup/Open-Sora-Plan/blob/v1.1.0/opensora/models/diffusion/latte/modeling_latte.py

   D is the width of the residual stream, F the frames, N the tokens of a frame. A block is PixArt's, within frames, and
   behind it one without text, within positions. */
#include "model/model.h"

#define DITI_LATTE_MAX_BLOCKS 64u

/* ---- configuration ---- */

typedef struct diti_latte_config {
    bool plan;                               /* Open-Sora-Plan's; else Latte-1 */
    uint32_t blocks, heads, head_dim, width; /* width: D */
    uint32_t channels, out_channels, patch;
    uint32_t caption;     /* columns of the text encoder's output */
    uint32_t sample_size; /* height of the latents of the training: its grid is the unit of positions */
    uint32_t frames;      /* latent frames of the training */
    double space, time;   /* divisors of positions in a frame and in time */
    float eps;
    bool rotates; /* queries and keys of both kinds of attention */
} diti_latte_config;

/* ---- weights ---- */

typedef struct diti_latte_block {
    diti_table_block spatial, temporal;
} diti_latte_block;

typedef struct diti_latte {
    diti_transformer base;
    diti_latte_config config;
    diti_layer patch;                   /* [D, C * p * p] */
    diti_embedder time;                 /* [D, 256], [D, D] */
    diti_layer modulation;              /* [6D, D] */
    diti_layer caption_in, caption_out; /* [D, caption], [D, D] */
    diti_weight final_table;            /* F32 [2, D] */
    diti_layer proj_out;                /* [p * p * out_channels, D] */
    diti_sublayer last;
    diti_latte_block *blocks;
} diti_latte;

#define diti_latte_of(transformer) ((const diti_latte *)(const void *)(transformer))

/* ---- reading the configuration: what config.json does not say comes from shapes ---- */

static dit_result diti_latte_read_shapes(diti_loader *loader, diti_latte_config *config, dit_error *err) {
    static const diti_need needs[] = {{offsetof(diti_latte_config, caption), "caption_projection"},
                                      {offsetof(diti_latte_config, width), "patch embedding"},
                                      {offsetof(diti_latte_config, channels), "patch embedding"},
                                      {offsetof(diti_latte_config, patch), "patch embedding"}};
    static const diti_shape_key keys[] = {
        {offsetof(diti_latte_config, width), "pos_embed.proj.weight", 0},
        {offsetof(diti_latte_config, channels), "pos_embed.proj.weight", 1},
        {offsetof(diti_latte_config, patch), "pos_embed.proj.weight", 2},
        {offsetof(diti_latte_config, caption), "caption_projection.linear_1.weight", 1},
        {offsetof(diti_latte_config, out_channels), "proj_out.weight", 0}};
    diti_read_shapes(loader, config, keys, DITI_COUNT(keys));
    DITI_TRY(diti_config_complete(loader, config, "Latte", needs, DITI_COUNT(needs), err));
    DITI_TRY(diti_check_patches(loader, "Latte", config->patch, config->channels, err));
    config->out_channels /= config->patch * config->patch;
    config->head_dim = config->width % 72 == 0 ? 72 : 64; /* as published: 16 heads of 72 */
    return DIT_OK;
}

static dit_result diti_latte_check(const diti_latte_config *config, diti_settings *settings, dit_error *err) {
    static const char *const known[2][2] = {{"activation_fn", "gelu-approximate"}, {"norm_type", "ada_norm_single"}};
    DITI_TRY(diti_settings_check_known(settings, "Latte", known, err));
    if ((uint64_t)config->heads * config->head_dim != config->width || config->head_dim > 256 || config->width % 4 ||
        (config->rotates && config->head_dim % 4)) {
        return diti_fail(err, DIT_ERROR_UNSUPPORTED_MODEL,
                         "Latte transformer: %u heads of %u don't make a width of %u (a multiple of 4)",
                         (unsigned)config->heads, (unsigned)config->head_dim, (unsigned)config->width);
    }
    if (config->out_channels < config->channels || !config->blocks || config->blocks > DITI_LATTE_MAX_BLOCKS ||
        config->sample_size < config->patch) {
        return diti_fail(
            err, DIT_ERROR_UNSUPPORTED_MODEL,
            "Latte transformer: %u blocks, patches of %u in a size of %u, %u channels out of %u are out of range",
            (unsigned)config->blocks, (unsigned)config->patch, (unsigned)config->sample_size,
            (unsigned)config->out_channels, (unsigned)config->channels);
    }
    return DIT_OK;
}

/* A number, or the first of a list, [height, width]. */
static uint32_t diti_latte_sample_size(diti_settings *settings) {
    const diti_json *size = diti_setting(settings, "sample_size");
    uint64_t height = 0;
    if (!size || size->kind != DITI_JSON_ARRAY) return diti_setting_size(settings, "sample_size", 64, 4096);
    if (size->first && diti_json_u64(size->first, &height) && height > 0 && height <= 4096) return (uint32_t)height;
    diti_settings_refuse(settings, DIT_ERROR_UNSUPPORTED_MODEL, "sample_size", "no list of whole numbers to 4096");
    return 64;
}

/* Open-Sora-Plan's frames are those of its autoencoder: the first, and one for each four others. */
static void diti_latte_read_scales(diti_latte_config *config, diti_settings *settings) {
    uint32_t f = config->frames, wanted = config->plan ? (f % 2 ? f - 1 : f) / 16 : 1;
    config->space = config->sample_size >= 128 ? (double)(config->sample_size / 64) : 1;
    config->time = diti_setting_number(settings, "interpolation_scale_1d", wanted > 1 ? wanted : 1, 1e-3, 1e3);
}

static dit_result diti_latte_read_as(bool plan, diti_component *component, diti_loader *loader, const diti_json *json,
                                     dit_error *err) {
    static const diti_size_key keys[] = {{offsetof(diti_latte_config, channels), "in_channels", 1024},
                                         {offsetof(diti_latte_config, patch), "patch_size", 1024},
                                         {offsetof(diti_latte_config, out_channels), "out_channels", 1024},
                                         {offsetof(diti_latte_config, head_dim), "attention_head_dim", 1024}};
    diti_latte_config *config = &((diti_latte *)(void *)component)->config;
    diti_settings settings = diti_settings_of(json, "the transformer's config.json", err);
    dit_result result = diti_latte_read_shapes(loader, config, err);
    DITI_TRY(result);
    config->plan = plan;
    config->blocks = diti_loader_layers(loader, &settings, "num_layers", "transformer_blocks.", ".scale_shift_table");
    diti_read_sizes(&settings, config, keys, DITI_COUNT(keys));
    config->heads = diti_setting_size(&settings, "num_attention_heads", config->width / config->head_dim, 1024);
    config->sample_size = diti_latte_sample_size(&settings);
    config->frames = diti_setting_size(&settings, "video_length", plan ? 17 : 16, 4096);
    config->eps = (float)diti_setting_number(&settings, "norm_eps", 1e-6, 0, 1);
    config->rotates = plan && diti_setting_bool(&settings, "use_rope", false);
    diti_latte_read_scales(config, &settings);
    return diti_latte_check(config, &settings, err);
}

static dit_result diti_latte_read(diti_component *component, diti_loader *loader, const diti_json *json,
                                  dit_error *err) {
    return diti_latte_read_as(false, component, loader, json, err);
}

static dit_result diti_latte_read_plan(diti_component *component, diti_loader *loader, const diti_json *json,
                                       dit_error *err) {
    return diti_latte_read_as(true, component, loader, json, err);
}

/* ---- loading ---- */

static void diti_latte_load_block(diti_loader *loader, const diti_latte_config *config, diti_latte_block *block,
                                  uint32_t index) {
    static const char *const scopes[] = {"transformer_blocks.%u.", "temporal_transformer_blocks.%u."};
    uint32_t i;
    for (i = 0; i < 2; i++) {
        diti_table_block *part = i ? &block->temporal : &block->spatial;
        diti_loader_scope(loader, scopes[i], (unsigned)index);
        diti_load_vector(loader, &part->table, 6, config->width, "scale_shift_table");
        diti_table_block_load(loader, part, config->width, config->head_dim, config->eps, i == 0);
        part->attention.axis = i ? DITI_ATTEND_TEMPORAL : DITI_ATTEND_SPATIAL;
        part->attention.half_split = config->rotates;
        part->attention.two_axes = config->rotates && i == 0;
    }
    diti_loader_scope_end(loader);
}

static void diti_latte_load_weights(diti_loader *loader, diti_latte *model) {
    const diti_latte_config *config = &model->config;
    uint32_t i, width = config->width, area = config->patch * config->patch;
    diti_load_layer(loader, &model->patch, width, config->channels * area, config->patch, "pos_embed.proj");
    model->patch.weight.kernel = 1; /* used as a matrix on flattened patches */
    diti_load_embedder(loader, &model->time, width, width, 256, "adaln_single.emb.timestep_embedder");
    diti_load_layer(loader, &model->modulation, 6 * width, width, 1, "adaln_single.linear");
    diti_load_layer(loader, &model->caption_in, width, config->caption, 1, "caption_projection.linear_1");
    diti_load_layer(loader, &model->caption_out, width, width, 1, "caption_projection.linear_2");
    for (i = 0; i < config->blocks; i++) diti_latte_load_block(loader, config, &model->blocks[i], i);
    diti_load_vector(loader, &model->final_table, 2, width, "scale_shift_table");
    diti_load_layer(loader, &model->proj_out, config->out_channels * area, width, 1, "proj_out");
    diti_make_output(&model->last, DITI_STREAMS_ONE, &model->proj_out);
}

/* The scheduler of Latte's pipeline, and the default of Open-Sora-Plan's. */
static const char diti_latte_scheduler[] =
    "{\"_class_name\":\"DDIMScheduler\",\"beta_schedule\":\"linear\",\"beta_start\":0.0001,\"beta_end\":0.02,\"clip_sample\":false}";
static const char diti_latte_plan_scheduler[] =
    "{\"_class_name\":\"PNDMScheduler\",\"beta_schedule\":\"linear\",\"beta_start\":0.0001,\"beta_end\":0.02}";

static void diti_latte_load(diti_component *component, diti_loader *loader) {
    diti_latte *model = (diti_latte *)(void *)component;
    const diti_latte_config *config = &model->config;
    diti_model_traits *traits = &model->base.traits;
    model->blocks = (diti_latte_block *)diti_component_array(component, loader, config->blocks, sizeof *model->blocks);
    if (!model->blocks) return;
    diti_latte_load_weights(loader, model);
    traits->variant = config->plan ? "open-sora-plan-v1.1" : "1";
    traits->latents.channels = config->channels;
    traits->latents.scale = 0.18215f;
    diti_traits_sizes(traits, config->blocks, config->width, config->heads, config->channels, config->patch);
    traits->out_channels = config->out_channels;
    traits->default_size = config->sample_size;
    traits->default_frames = config->frames;
    traits->default_fps = config->plan ? 24 : 8;
    traits->crops_text = true;
    traits->still_pictures = config->plan;
    traits->text_tokens = config->plan ? 300 : 120;
    traits->text_columns = config->caption;
    traits->encoders[0] = DITI_ENCODER_T5;
    traits->default_steps = 50;
    traits->default_guidance = 7.5f;
    traits->scheduler = config->plan ? diti_latte_plan_scheduler : diti_latte_scheduler;
    traits->divided = true;
    traits->feeds = 2;
    traits->texts = 1;
}

/* ---- once per clip: everything that does not depend on the latent ---- */

typedef struct diti_latte_state {            /* prepare leaves these for the steps */
    diti_tensor sinusoids;                   /* input F32 [steps, 256] */
    diti_tensor positions;                   /* input F32 [N, D] */
    diti_tensor times;                       /* input F32 [F, D], or 0 */
    diti_tensor cosines[2], sines[2];        /* inputs F32 [N, head_dim / 2], [F, head_dim / 2], or 0 */
    diti_tensor modulation;                  /* F32 [steps, 8D]: six rows for all blocks, two for the final layer */
    diti_tensor text[DITI_LATTE_MAX_BLOCKS]; /* [text rows, 2D]: k and v of the cross attention */
    diti_tensor row;                         /* F32 [1, 8D]: the step's */
} diti_latte_state;

#define diti_latte_state_of(step) ((diti_latte_state *)(step)->family)

static void diti_latte_project_text(diti_pass *p, diti_latte_state *state) {
    const diti_latte *model = diti_latte_of(p->model);
    diti_tensor y = diti_table_text(p, &model->caption_in, &model->caption_out);
    uint32_t i, end;
    for (diti_axes_blocks(p->step->axes, model->config.blocks, &i, &end); i < end; i++) {
        const diti_table_block *w = &model->blocks[i].spatial;
        diti_pass_enter(p, i);
        state->text[i] = diti_sublayer_fused(p, y, &w->text_kv, 2, &w->cross, "text_kv");
    }
    diti_graph_scope(p->graph, NULL, 0);
}

static void diti_latte_prepare(diti_pass *p) {
    const diti_latte *model = diti_latte_of(p->model);
    const diti_latte_config *config = &model->config;
    const diti_step_desc *step = p->step;
    diti_token_grid grid = diti_transformer_grid(p->model, step);
    diti_latte_state *state = diti_latte_state_of(step);
    uint32_t i, rows[2];
    state->sinusoids = diti_tensor_input(p->graph, DITI_F32, step->steps, 256, "timesteps");
    state->positions = diti_tensor_input(p->graph, DITI_F32, p->positions, p->width, "positions");
    if (!step->still && (config->plan || grid.frames > 1))
        state->times = diti_tensor_input(p->graph, DITI_F32, grid.frames, p->width, "times");
    rows[0] = p->positions;
    rows[1] = grid.frames;
    for (i = 0; i < 2 && config->rotates; i++) {
        state->cosines[i] = diti_tensor_input(p->graph, DITI_F32, rows[i], config->head_dim / 2, "cosines");
        state->sines[i] = diti_tensor_input(p->graph, DITI_F32, rows[i], config->head_dim / 2, "sines");
    }
    state->modulation = diti_table_rows(p, diti_embed(p->graph, &model->time, state->sinusoids, 0), &model->modulation,
                                        &model->final_table);
    diti_latte_project_text(p, state);
}

/* ---- inputs ---- */

/* The first half of a head by the line, the second by the column. */
static dit_result diti_latte_write_plane(const diti_latte *model, diti_plan *plan, const diti_step_desc *step,
                                         const diti_latte_state *state, dit_error *err) {
    const diti_latte_config *config = &model->config;
    const diti_env *env = &plan->device->env;
    diti_token_grid grid = diti_transformer_grid(&model->base, step);
    uint32_t quarter = config->head_dim / 4, side = grid.rows > grid.columns ? grid.rows : grid.columns, i;
    size_t count = (size_t)grid.rows * grid.columns * 2 * quarter, own = (size_t)side * quarter;
    float *table = (float *)diti_alloc_array(env, 2 * (count + own), sizeof(float)), *line = table + 2 * count;
    dit_result result;
    if (!table) return diti_fail_memory(err, "the rotation of positions");
    diti_rotation_rows(side, config->space, true, 2 * quarter, line, line + own);
    for (i = 0; i < 4 * grid.rows * grid.columns; i++) { /* cosines, then sines: of the line, of the column */
        uint32_t token = i / 2 % (grid.rows * grid.columns), sines = i / (2 * grid.rows * grid.columns);
        uint32_t place = i % 2 ? token % grid.columns : token / grid.columns;
        memcpy(table + (size_t)i * quarter, line + sines * own + (size_t)place * quarter, quarter * sizeof(float));
    }
    result = diti_plan_write(plan, state->cosines[0], table, count * sizeof(float), err);
    if (result >= 0) result = diti_plan_write(plan, state->sines[0], table + count, count * sizeof(float), err);
    diti_free(env, table);
    return result;
}

static dit_result diti_latte_write_inputs(const diti_transformer *transformer, diti_plan *plan,
                                          const diti_step_desc *step, const float *timesteps, dit_error *err) {
    const diti_latte *model = diti_latte_of(transformer);
    const diti_latte_config *config = &model->config;
    const diti_latte_state *state = (const diti_latte_state *)step->family;
    diti_token_grid grid = diti_transformer_grid(transformer, step);
    DITI_TRY(
        diti_write_stretched(plan, state->positions, &grid, config->sample_size / config->patch, config->space, err));
    if (state->times) DITI_TRY(diti_write_times(plan, state->times, config->time, err));
    if (config->rotates) {
        DITI_TRY(diti_latte_write_plane(model, plan, step, state, err));
        DITI_TRY(diti_write_rotation(plan, state->cosines[1], state->sines[1], config->time, true, err));
    }
    return diti_write_timesteps(plan, state->sinusoids, step, timesteps, err);
}

/* ---- one evaluation ---- */

static void diti_latte_begin(diti_pass *p) {
    diti_latte_state *state = diti_latte_state_of(p->step);
    if (!p->step->same_timestep) state->row = diti_select_modulation(p, state->modulation);
}

/* x F32 [items * F * N, D] is changed in place. docs/models.md 3.7. */
static diti_tensor diti_latte_run_block(diti_pass *p, diti_tensor x) {
    const diti_latte_block *w = &diti_latte_of(p->model)->blocks[p->index];
    const diti_latte_state *state = diti_latte_state_of(p->step);
    p->cosines = state->cosines[0];
    p->sines = state->sines[0];
    diti_table_modulate(p, &w->spatial.table, state->row, 0);
    diti_block_attend(p, x, &w->spatial.attention);
    diti_table_finish(p, x, &w->spatial, state->text[p->index]);
    if (p->step->still) return x;
    if (p->index == 0 && state->times) {
        diti_elementwise_desc desc = DITI_ZERO;
        desc.add = diti_pass_frames_table(p, state->times);
        desc.rows_per_add = p->positions;
        desc.out = x;
        desc.name = "add_times";
        diti_elementwise(p->graph, x, &desc);
    }
    p->cosines = state->cosines[1];
    p->sines = state->sines[1];
    diti_table_modulate(p, &w->temporal.table, state->row, 0);
    diti_block_attend(p, x, &w->temporal.attention);
    diti_table_finish(p, x, &w->temporal, 0);
    return x;
}

static diti_tensor diti_latte_final(diti_pass *p, diti_tensor x) {
    const diti_sublayer *last = &diti_latte_of(p->model)->last;
    p->modulation.rows =
        diti_tensor_view(p->graph, diti_latte_state_of(p->step)->row, 0, 1, 6 * p->width, 2 * p->width);
    return diti_output_modulated(p, x, last);
}

static diti_tensor diti_latte_embed(diti_pass *p) {
    return diti_patch_embed(p, 0, &diti_latte_of(p->model)->patch, diti_latte_state_of(p->step)->positions);
}

/* ---- where parts of such models are ---- */

#define DITI_LATTE_1 "maxin-cn/Latte-1"
static const diti_place diti_latte_places[] = {
    {"", DIT_ROLE_TRANSFORMER, DITI_LATTE_1 ": transformer/"},
    {"", DIT_ROLE_TEXT_1, DITI_LATTE_1 ": text_encoder/, or " DITI_T5_PLACE},
    {"", DIT_ROLE_TOKENIZER_1, DITI_LATTE_1 ": tokenizer/"},
    {"", DIT_ROLE_VAE, DITI_LATTE_1 ": vae/"},
    {"", DIT_ROLE_SCHEDULER, DITI_LATTE_1 ": scheduler/"},
    {NULL, DIT_ROLE_NONE, NULL},
};
#define DITI_LATTE_PLAN "LanguageBind/Open-Sora-Plan-v1.1.0"
static const diti_place diti_latte_plan_places[] = {
    {"", DIT_ROLE_TRANSFORMER, DITI_LATTE_PLAN ": 65x512x512/"},
    {"", DIT_ROLE_VAE, DITI_LATTE_PLAN ": vae/"},
    {"", DIT_ROLE_TEXT_1, "DeepFloyd/t5-v1_1-xxl, or " DITI_T5_PLACE},
    {"", DIT_ROLE_TOKENIZER_1, "DeepFloyd/t5-v1_1-xxl: spiece.model"},
    {NULL, DIT_ROLE_NONE, NULL},
};

#define DITI_LATTE_FIRST "temporal_transformer_blocks.0.scale_shift_table"

DIT_INTERNAL const diti_family *diti_latte_plan_family(void) {
    static const diti_family family = {
        "latte",
        "Open-Sora-Plan",
        {"LatteT2V",
         NULL,
         {DITI_LATTE_FIRST, "pos_embed.proj.weight", "caption_projection.y_embedding", NULL},
         {DITI_LATTE_FIRST, "pos_embed.proj.weight", "caption_projection.y_embedding", NULL},
         {NULL, NULL}},
        {"transformer", "transformer", sizeof(diti_latte), diti_latte_read_plan, diti_latte_load, NULL},
        NULL,
        {4, 0.18215f, 0, false},
        NULL,
        NULL,
        diti_latte_plan_places,
        sizeof(diti_latte_state),
        diti_latte_prepare,
        diti_latte_begin,
        diti_latte_embed,
        diti_latte_run_block,
        diti_latte_final,
        diti_latte_write_inputs};
    return &family;
}

DIT_INTERNAL const diti_family *diti_latte_family(void) {
    static const diti_family family = {
        "latte",
        "Latte",
        {"LatteTransformer3DModel",
         NULL,
         {DITI_LATTE_FIRST, "pos_embed.proj.weight", "caption_projection.linear_1.weight", NULL},
         {DITI_LATTE_FIRST, "pos_embed.proj.weight", "caption_projection.linear_1.weight", NULL},
         {NULL, NULL}},
        {"transformer", "transformer", sizeof(diti_latte), diti_latte_read, diti_latte_load, NULL},
        NULL,
        {4, 0.18215f, 0, false},
        NULL,
        NULL,
        diti_latte_places,
        sizeof(diti_latte_state),
        diti_latte_prepare,
        diti_latte_begin,
        diti_latte_embed,
        diti_latte_run_block,
        diti_latte_final,
        diti_latte_write_inputs};
    return &family;
}
