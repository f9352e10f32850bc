/* CogVideoX 2b, 5b, 5b-I2V and 1.5: docs/models.md 3.8. Original:
   https://github.com/huggingface/diffusers/blob/v0.32.2/src/diffusers/models/transformers/cogvideox_transformer_3d.py

   D is the width of the residual stream. Text and video attend together, by the same weights; a vector of the timestep
   modulates each of them with layers of its own. */
#include "model/model.h"

#define DITI_COGVIDEOX_MAX_BLOCKS 64u

/* ---- configuration ---- */

typedef struct diti_cogvideox_config {
    uint32_t blocks, heads, head_dim, width; /* width: D */
    uint32_t channels, out_channels, patch, patch_frames;
    uint32_t text;              /* columns of the text encoder's output */
    uint32_t tokens;            /* rows of it */
    uint32_t embedding, offset; /* columns of the timestep's embedding, and of the sinusoids of the offset; 0: none */
    uint32_t height, width_latents; /* size of the latents of the training */
    uint32_t frames;                /* pictures of a clip of the training */
    double space, time;             /* divisors of positions in a frame and in time; where there is a table of them */
    uint32_t learned;               /* rows of a table of positions in the file, text's first; 0: there is none */
    bool rotates;
    float eps;
} diti_cogvideox_config;

/* ---- weights ---- */

typedef struct diti_cogvideox_block {
    diti_fused_linear_pair modulation; /* [3D, embedding] before attention, [3D, embedding] before the feed-forward */
    diti_layer norm_attention;         /* [D] */
    diti_fused_linear qkv;             /* [3D, D] */
    diti_layer norm_q, norm_k;         /* [head_dim] */
    diti_layer out;                    /* [D, D] */
    diti_layer norm_feed;              /* [D] */
    diti_layer ff_in, ff_out;          /* [4D, D], [D, 4D] */
    diti_sublayer attention, feed;
} diti_cogvideox_block;

typedef struct diti_cogvideox {
    diti_transformer base;
    diti_cogvideox_config config;
    diti_layer patch, text;      /* [D, C * pt * p * p], [D, text] */
    diti_weight positions;       /* [learned, D] */
    diti_embedder time, offset;  /* [embedding, D], [embedding, offset]; then [embedding, embedding] */
    diti_layer norm_final;       /* [D] */
    diti_layer final_modulation; /* [2D, embedding]: shift, scale */
    diti_layer norm_out;         /* [D] */
    diti_layer proj_out;         /* [pt * p * p * out_channels, D] */
    diti_sublayer last;
    diti_cogvideox_block *blocks;
} diti_cogvideox;

#define diti_cogvideox_of(transformer) ((const diti_cogvideox *)(const void *)(transformer))

/* ---- reading the configuration: what config.json does not say comes from shapes ---- */

/* A patch of several frames is embedded by a matrix, one of a frame by a convolution. */
static dit_result diti_cogvideox_read_shapes(diti_loader *loader, diti_cogvideox_config *config, dit_error *err) {
    static const diti_shape_key keys[] = {
        {offsetof(diti_cogvideox_config, width), "patch_embed.proj.weight", 0},
        {offsetof(diti_cogvideox_config, channels), "patch_embed.proj.weight", 1},
        {offsetof(diti_cogvideox_config, patch), "patch_embed.proj.weight", 2},
        {offsetof(diti_cogvideox_config, text), "patch_embed.text_proj.weight", 1},
        {offsetof(diti_cogvideox_config, learned), "patch_embed.pos_embedding", 1},
        {offsetof(diti_cogvideox_config, embedding), "time_embedding.linear_1.weight", 0},
        {offsetof(diti_cogvideox_config, offset), "ofs_embedding.linear_1.weight", 1},
        {offsetof(diti_cogvideox_config, head_dim), "transformer_blocks.0.attn1.norm_q.weight", 0},
        {offsetof(diti_cogvideox_config, out_channels), "proj_out.weight", 0}};
    uint32_t volume;
    diti_read_shapes(loader, config, keys, DITI_COUNT(keys));
    config->patch_frames = config->patch ? 1 : 2;
    if (!config->patch) config->patch = 2;
    volume = config->patch_frames * config->patch * config->patch;
    if (config->patch_frames > 1) config->channels /= volume;
    if (!config->width || !config->channels || !config->text || !config->embedding || !config->head_dim ||
        config->patch > 16 || config->channels > 1024) {
        return diti_loader_refuse(loader, err, "a CogVideoX transformer without %s: the file is incomplete",
                                  !config->head_dim    ? "blocks"
                                  : !config->text      ? "patch_embed.text_proj"
                                  : !config->embedding ? "time_embedding"
                                                       : "patch embedding");
    }
    config->out_channels /= volume;
    return DIT_OK;
}

static dit_result diti_cogvideox_check(const diti_cogvideox_config *config, const diti_settings *settings,
                                       dit_error *err) {
    DITI_TRY(settings->result);
    if ((uint64_t)config->heads * config->head_dim != config->width || config->head_dim > 256 ||
        config->head_dim % 16 || config->width % 16) {
        return diti_fail(err, DIT_ERROR_UNSUPPORTED_MODEL,
                         "CogVideoX transformer: %u heads of %u (a multiple of 16) don't make a width of %u",
                         (unsigned)config->heads, (unsigned)config->head_dim, (unsigned)config->width);
    }
    if (!config->out_channels || config->out_channels > config->channels || !config->blocks ||
        config->blocks > DITI_COGVIDEOX_MAX_BLOCKS || (config->learned && config->learned <= config->tokens)) {
        return diti_fail(
            err, DIT_ERROR_UNSUPPORTED_MODEL,
            "CogVideoX transformer: %u blocks, %u channels out of %u, %u learned positions are out of range",
            (unsigned)config->blocks, (unsigned)config->out_channels, (unsigned)config->channels,
            (unsigned)config->learned);
    }
    return DIT_OK;
}

static dit_result diti_cogvideox_read(diti_component *component, diti_loader *loader, const diti_json *json,
                                      dit_error *err) {
    static const diti_size_key keys[] = {{offsetof(diti_cogvideox_config, tokens), "max_text_seq_length", 4096},
                                         {offsetof(diti_cogvideox_config, height), "sample_height", 4096},
                                         {offsetof(diti_cogvideox_config, width_latents), "sample_width", 4096},
                                         {offsetof(diti_cogvideox_config, frames), "sample_frames", 4096}};
    diti_cogvideox_config *config = &((diti_cogvideox *)(void *)component)->config;
    diti_settings settings = diti_settings_of(json, "the transformer's config.json", err);
    dit_result result = diti_cogvideox_read_shapes(loader, config, err);
    DITI_TRY(result);
    config->tokens = config->patch_frames > 1 ? 224 : 226;
    config->height = 60;
    config->width_latents = 90;
    config->frames = config->patch_frames > 1 ? 81 : 49;
    diti_read_sizes(&settings, config, keys, DITI_COUNT(keys));
    config->blocks = diti_loader_layers(loader, &settings, "num_layers", "transformer_blocks.", ".norm1.linear.weight");
    config->heads = diti_setting_size(&settings, "num_attention_heads", config->width / config->head_dim, 1024);
    config->rotates = diti_setting_bool(&settings, "use_rotary_positional_embeddings", config->width > 30 * 64);
    config->space = diti_setting_number(&settings, "spatial_interpolation_scale", 1.875, 1e-3, 1e3);
    config->time = diti_setting_number(&settings, "temporal_interpolation_scale", 1, 1e-3, 1e3);
    config->eps = (float)diti_setting_number(&settings, "norm_eps", 1e-5, 0, 1);
    if (!diti_equal(diti_setting_text(&settings, "activation_fn", "gelu-approximate"), "gelu-approximate"))
        diti_settings_refuse(&settings, DIT_ERROR_UNSUPPORTED_MODEL, "activation_fn", "only gelu-approximate is known");
    diti_settings_check_words(&settings, "timestep_activation_fn", "silu swish");
    if (!diti_setting_bool(&settings, "flip_sin_to_cos", true))
        diti_settings_refuse(&settings, DIT_ERROR_UNSUPPORTED_MODEL, "flip_sin_to_cos", "only true is known");
    if (diti_setting_number(&settings, "freq_shift", 0, -1e6, 1e6) != 0)
        diti_settings_refuse(&settings, DIT_ERROR_UNSUPPORTED_MODEL, "freq_shift", "only 0 is known");
    return diti_cogvideox_check(config, &settings, err);
}

/* ---- loading ---- */

/* Both norms' layers have the video's shift, scale and gate first, then the text's. */
static void diti_cogvideox_load_modulation(diti_loader *loader, const diti_cogvideox_config *config,
                                           diti_fused_linear_pair *out) {
    static const char *const names[] = {"norm1.linear", "norm2.linear"};
    uint32_t three = 3 * config->width, stream, i;
    for (stream = 0; stream < DITI_JOINT_STREAMS; stream++) {
        out->streams[stream].count = 2;
        for (i = 0; i < 2; i++)
            diti_load_layer_rows(loader, &out->streams[stream].layers[i], stream == DITI_JOINT_TEXT ? three : 0, three,
                                 2 * three, config->embedding, names[i]);
    }
}

static void diti_cogvideox_load_block(diti_loader *loader, const diti_cogvideox_config *config,
                                      diti_cogvideox_block *block, uint32_t index) {
    static const diti_fused qkv = {"attn1.to_qkv", {"attn1.to_q", "attn1.to_k", "attn1.to_v"}, 3};
    uint32_t width = config->width;
    diti_loader_scope(loader, "transformer_blocks.%u.", (unsigned)index);
    diti_cogvideox_load_modulation(loader, config, &block->modulation);
    diti_load_norm(loader, &block->norm_attention, width, "norm1.norm");
    diti_load_fused(loader, &block->qkv, &qkv, width, width);
    diti_load_norm(loader, &block->norm_q, config->head_dim, "attn1.norm_q");
    diti_load_norm(loader, &block->norm_k, config->head_dim, "attn1.norm_k");
    diti_load_layer(loader, &block->out, width, width, 1, "attn1.to_out.0");
    diti_load_norm(loader, &block->norm_feed, width, "norm2.norm");
    diti_load_layer(loader, &block->ff_in, 4 * width, width, 1, "ff.net.0.proj");
    diti_load_layer(loader, &block->ff_out, width, 4 * width, 1, "ff.net.2");
    diti_loader_scope_end(loader);
    diti_make_attention(&block->attention, DITI_STREAMS_SHARED, &block->qkv, &block->out, width, config->head_dim);
    block->attention.norm = &block->norm_attention;
    block->attention.head_norms[0] = &block->norm_q;
    block->attention.head_norms[1] = &block->norm_k;
    diti_make_feed(&block->feed, DITI_STREAMS_SHARED, &block->ff_in, &block->ff_out);
    block->feed.norm = &block->norm_feed;
    block->attention.eps = block->feed.eps = config->eps;
}

static void diti_cogvideox_load_weights(diti_loader *loader, diti_cogvideox *model) {
    const diti_cogvideox_config *config = &model->config;
    uint32_t i, width = config->width, volume = config->patch_frames * config->patch * config->patch;
    diti_load_layer(loader, &model->patch, width, config->channels * volume,
                    config->patch_frames > 1 ? 1 : config->patch, "patch_embed.proj");
    model->patch.weight.kernel = 1; /* used as a matrix on flattened patches */
    diti_load_layer(loader, &model->text, width, config->text, 1, "patch_embed.text_proj");
    if (config->learned)
        diti_load_table(loader, &model->positions, config->learned, width, "patch_embed.pos_embedding");
    diti_load_embedder(loader, &model->time, config->embedding, config->embedding, width, "time_embedding");
    if (config->offset)
        diti_load_embedder(loader, &model->offset, config->embedding, config->embedding, config->offset,
                           "ofs_embedding");
    for (i = 0; i < config->blocks; i++) diti_cogvideox_load_block(loader, config, &model->blocks[i], i);
    diti_load_norm(loader, &model->norm_final, width, "norm_final");
    diti_load_layer(loader, &model->final_modulation, 2 * width, config->embedding, 1, "norm_out.linear");
    diti_load_norm(loader, &model->norm_out, width, "norm_out.norm");
    diti_load_layer(loader, &model->proj_out, config->out_channels * volume, width, 1, "proj_out");
    diti_make_output(&model->last, DITI_STREAMS_ONE, &model->proj_out);
    model->last.eps = config->eps;
    model->last.norm = &model->norm_out;
}

static void diti_cogvideox_load(diti_component *component, diti_loader *loader) {
    diti_cogvideox *model = (diti_cogvideox *)(void *)component;
    const diti_cogvideox_config *config = &model->config;
    diti_model_traits *traits = &model->base.traits;
    bool pictures = config->channels > config->out_channels;
    model->blocks =
        (diti_cogvideox_block *)diti_component_array(component, loader, config->blocks, sizeof *model->blocks);
    if (!model->blocks) return;
    diti_cogvideox_load_weights(loader, model);
    traits->variant = config->patch_frames > 1 ? (pictures ? "1.5-5b-i2v" : "1.5-5b")
                      : !config->rotates       ? "2b"
                      : pictures               ? "5b-i2v"
                                               : "5b";
    traits->latents.channels = config->out_channels;
    traits->latents.scale = config->rotates ? 0.7f : 1.15258426f;
    diti_traits_sizes(traits, config->blocks, config->width, config->heads, config->out_channels, config->patch);
    traits->condition_channels = config->channels - config->out_channels;
    traits->patch_frames = config->patch_frames;
    traits->default_size = config->height;
    traits->default_columns = config->width_latents;
    traits->default_frames = (config->frames + 3) / 4;
    traits->default_fps = config->patch_frames > 1 ? 16 : 8;
    traits->noise_by_frame = true;
    traits->text_tokens = config->tokens;
    traits->text_columns = config->text;
    traits->encoders[0] = DITI_ENCODER_T5;
    traits->default_steps = 50;
    traits->default_guidance = 6;
    traits->attends_padding = traits->joint = traits->planar = true;
}

/* ---- once per clip: everything that does not depend on the latent ---- */

typedef struct diti_cogvideox_state { /* prepare leaves these for the steps */
    diti_tensor sinusoids, offset;    /* inputs F32 [steps, D], [1, offset] */
    diti_tensor ids;                  /* input U32 [1, learned]: 0, 1, … ; or 0 */
    diti_tensor positions;            /* F32 [tokens, D], or 0 */
    diti_rotation rotation;           /* [text tokens + tokens, head_dim / 2], or 0 */
    diti_tensor text;                 /* F32 [prompts * text tokens, D] */
    diti_joint_modulation modulation;
} diti_cogvideox_state;

#define diti_cogvideox_state_of(step) ((diti_cogvideox_state *)(step)->family)

/* F32 [rows, 2 * 6D], of the last norm [rows, 2D]. */
static diti_tensor diti_cogvideox_modulation(const diti_pass *p, diti_tensor active, uint32_t index) {
    const diti_cogvideox *model = diti_cogvideox_of(p->model);
    if (index == model->config.blocks)
        return diti_layer_spread(p->graph, diti_pass_tensor(p), active, &model->final_modulation, 0,
                                 "final_modulation");
    return diti_joint_modulate(p, active, &model->blocks[index].modulation, 6);
}

/* Positions of the file, the text's before the video's, are of one size of clips alone. */
static void diti_cogvideox_learned(const diti_pass *p, diti_cogvideox_state *state, uint32_t tokens) {
    const diti_cogvideox *model = diti_cogvideox_of(p->model);
    uint32_t learned = model->config.learned, texts = p->step->text_tokens, i;
    diti_tensor all;
    if (texts + tokens != learned) {
        diti_graph_fail(p->graph, DIT_ERROR_INVALID_ARGUMENT,
                        "the model has learned positions for %u tokens of text and video, the clip would have %u; ask "
                        "for the size that it was trained on",
                        (unsigned)learned, (unsigned)(texts + tokens));
        return;
    }
    state->ids = diti_tensor_input(p->graph, DITI_U32, 1, learned, "position ids");
    all = diti_gather_rows(p->graph, &model->positions, state->ids, "positions");
    state->positions = diti_tensor_view(p->graph, all, texts, tokens, 0, p->width);
    for (i = 0; i < p->step->text_batch; i++) {
        diti_tensor own = diti_tensor_view(p->graph, state->text, i * texts, texts, 0, p->width);
        diti_add_rows(p->graph, own, diti_tensor_view(p->graph, all, 0, texts, 0, p->width), own, "text_positions");
    }
}

static void diti_cogvideox_prepare(diti_pass *p) {
    const diti_cogvideox *model = diti_cogvideox_of(p->model);
    const diti_cogvideox_config *config = &model->config;
    const diti_step_desc *step = p->step;
    diti_token_grid grid = diti_transformer_grid(p->model, step);
    uint32_t tokens = grid.frames * grid.rows * grid.columns, all = step->text_tokens + tokens;
    diti_cogvideox_state *state = diti_cogvideox_state_of(step);
    diti_graph *graph = p->graph;
    diti_tensor text, time;
    state->sinusoids = diti_tensor_input(graph, DITI_F32, step->steps, p->width, "timesteps");
    time = diti_embed(graph, &model->time, state->sinusoids, 0);
    if (config->offset) {
        state->offset = diti_tensor_input(graph, DITI_F32, 1, config->offset, "offset");
        time = diti_add_rows(graph, time, diti_embed(graph, &model->offset, state->offset, 0), 0, "add_offset");
    }
    state->modulation.active = diti_joint_condition(graph, time, 0, step->text_batch);
    diti_joint_prepare(p, &state->modulation, (12 * (uint64_t)config->blocks + 2) * p->width,
                       diti_cogvideox_modulation);
    text = diti_tensor_view(graph, step->text, 0, step->text_batch * step->text_tokens, 0, config->text);
    state->text = diti_layer_f32(graph, text, &model->text, DITI_ACTIVATION_NONE, 0, "context");
    if (config->learned) diti_cogvideox_learned(p, state, tokens);
    if (config->rotates) {
        diti_rotation_prepare(graph, &state->rotation, all, config->head_dim / 2);
    } else if (!config->learned) {
        state->positions = diti_tensor_input(graph, DITI_F32, tokens, p->width, "positions");
    }
}

/* ---- inputs ---- */

/* 2b: a quarter of the row by the frame, the rest by the column, then by the line. */
static dit_result diti_cogvideox_write_positions(const diti_cogvideox *model, diti_plan *plan,
                                                 const diti_step_desc *step, diti_tensor positions, dit_error *err) {
    const diti_env *env = &model->base.component.env;
    const diti_cogvideox_config *config = &model->config;
    diti_token_grid tokens = diti_transformer_grid(&model->base, step);
    uint32_t width = config->width, quarter = width / 4, plane = tokens.rows * tokens.columns, i;
    diti_grid grid = {tokens.rows, tokens.columns, 1, 1, (float)config->space};
    size_t count = (size_t)tokens.frames * plane * width;
    float *table = (float *)diti_alloc_array(env, count, sizeof *table);
    float *times = (float *)diti_alloc_array(env, (size_t)tokens.frames * quarter, sizeof *times);
    float *places = (float *)diti_alloc_array(env, (size_t)plane * 3 * quarter, sizeof *places);
    dit_result result = DIT_OK;
    if (!table || !times || !places) result = diti_fail_memory(err, "the position table");
    if (result >= 0) {
        diti_position_rows(tokens.frames, config->time, quarter, times);
        diti_position_table(&grid, 3 * quarter, places);
        for (i = 0; i < tokens.frames * plane; i++) {
            memcpy(table + (size_t)i * width, times + (size_t)(i / plane) * quarter, quarter * sizeof *table);
            memcpy(table + (size_t)i * width + quarter, places + (size_t)(i % plane) * 3 * quarter,
                   3 * quarter * sizeof *table);
        }
        result = diti_plan_write(plan, positions, table, count * sizeof *table, err);
    }
    diti_free(env, table);
    diti_free(env, times);
    diti_free(env, places);
    return result;
}

/* A quarter of the head turns by the frame, the rest by the line, then by the column; text does not turn. */
static void diti_cogvideox_place(const diti_transformer *transformer, const diti_step_desc *step, uint32_t prompt,
                                 float *cosines, float *sines) {
    const diti_cogvideox_config *config = &diti_cogvideox_of(transformer)->config;
    diti_token_grid grid = diti_transformer_grid(transformer, step);
    uint32_t half = config->head_dim / 2, first = half / 4, rest = 3 * half / 8, i, k;
    uint32_t plane = grid.rows * grid.columns, texts = step->text_tokens;
    diti_grid_axis y, x;
    (void)prompt;
    diti_grid_fit(config->height / config->patch, config->width_latents / config->patch, grid.rows, grid.columns, &y,
                  &x);
    for (i = 0; i < texts + grid.frames * plane; i++) {
        uint32_t token = i < texts ? 0 : i - texts, line = token % plane / grid.columns, column = token % grid.columns;
        bool whole = config->patch_frames > 1;
        float places[3];
        places[0] = (float)(token / plane);
        places[1] = whole ? (float)line : diti_grid_place(&y, line, true);
        places[2] = whole ? (float)column : diti_grid_place(&x, column, true);
        for (k = 0; k < half; k++) {
            uint32_t axis = k < first ? 0 : k < first + rest ? 1 : 2, pairs = axis ? rest : first;
            uint32_t j = axis == 0 ? k : axis == 1 ? k - first : k - first - rest;
            float angle = places[axis] * (1.0f / powf(10000.0f, (float)(2 * j) / (float)(2 * pairs)));
            cosines[(size_t)i * half + k] = i < texts ? 1 : cosf(angle);
            sines[(size_t)i * half + k] = i < texts ? 0 : sinf(angle);
        }
    }
}

static dit_result diti_cogvideox_write_ids(const diti_cogvideox *model, diti_plan *plan, diti_tensor ids,
                                           dit_error *err) {
    const diti_env *env = &model->base.component.env;
    uint32_t count = model->config.learned, i;
    uint32_t *values = (uint32_t *)diti_alloc_array(env, count, sizeof *values);
    dit_result result;
    if (!values) return diti_fail_memory(err, "the positions");
    for (i = 0; i < count; i++) values[i] = i;
    result = diti_plan_write(plan, ids, values, count * sizeof *values, err);
    diti_free(env, values);
    return result;
}

static dit_result diti_cogvideox_write_inputs(const diti_transformer *transformer, diti_plan *plan,
                                              const diti_step_desc *step, const float *timesteps, dit_error *err) {
    static const float offset = 2; /* as all pipelines set it */
    const diti_cogvideox *model = diti_cogvideox_of(transformer);
    const diti_cogvideox_state *state = (const diti_cogvideox_state *)step->family;
    if (state->ids) DITI_TRY(diti_cogvideox_write_ids(model, plan, state->ids, err));
    if (state->positions && !state->ids)
        DITI_TRY(diti_cogvideox_write_positions(model, plan, step, state->positions, err));
    if (state->rotation.cosines)
        DITI_TRY(diti_write_places(transformer, plan, step, state->rotation.cosines, state->rotation.sines, 1,
                                   diti_cogvideox_place, err));
    if (state->offset) DITI_TRY(diti_write_sinusoids(plan, state->offset, &offset, 1, 0, err));
    return diti_write_timesteps(plan, state->sinusoids, step, timesteps, err);
}

/* ---- one evaluation ---- */

static void diti_cogvideox_begin(diti_pass *p) {
    diti_cogvideox_state *state = diti_cogvideox_state_of(p->step);
    diti_joint_begin(p, &state->modulation);
    if (!state->rotation.cosines) return;
    diti_rotation_begin(p, &state->rotation);
}

static diti_tensor diti_cogvideox_embed(diti_pass *p) {
    const diti_cogvideox_state *state = diti_cogvideox_state_of(p->step);
    return diti_patch_embed(p, state->text, &diti_cogvideox_of(p->model)->patch, state->positions);
}

/* CogVideoXBlock.forward, docs/models.md 3.8 step 4; x F32 [items * (text + video), D] is changed in place. */
static diti_tensor diti_cogvideox_run_block(diti_pass *p, diti_tensor x) {
    const diti_cogvideox_block *w = &diti_cogvideox_of(p->model)->blocks[p->index];
    const diti_cogvideox_state *state = diti_cogvideox_state_of(p->step);
    p->modulation.rows = diti_joint_modulation_rows(p, &state->modulation, p->index, diti_cogvideox_modulation);
    p->modulation.chunks = 6;
    diti_rotation_apply(p, &state->rotation);
    diti_block_run(p, x, &w->attention, &w->feed);
    return x;
}

/* Two norms with affine, one behind the other, of the video alone; the second is modulated. */
static diti_tensor diti_cogvideox_final(diti_pass *p, diti_tensor x) {
    const diti_cogvideox *model = diti_cogvideox_of(p->model);
    diti_tensor y = diti_tensor_new(p->graph, DITI_F32, p->items * p->image, p->width, "norm_final"), rows;
    uint32_t i, all = p->text + p->image;
    diti_norm_desc desc = DITI_ZERO;
    for (i = 0; i < p->items && !diti_graph_failed(p->graph); i++) {
        diti_norm_desc first = DITI_ZERO;
        first.eps = model->config.eps;
        first.weight = &model->norm_final.weight;
        first.bias = &model->norm_final.bias;
        first.out = diti_tensor_view(p->graph, y, i * p->image, p->image, 0, p->width);
        first.name = "norm_final";
        diti_norm(p->graph, diti_tensor_view(p->graph, x, i * all + p->text, p->image, 0, p->width), &first);
    }
    rows = diti_joint_modulation_rows(p, &diti_cogvideox_state_of(p->step)->modulation, model->config.blocks,
                                      diti_cogvideox_modulation);
    desc.shift = diti_tensor_view(p->graph, rows, 0, p->prompts, 0, p->width);
    desc.scale = diti_tensor_view(p->graph, rows, 0, p->prompts, p->width, p->width);
    desc.rows_per_group = p->items * p->image / p->prompts;
    return diti_output(p, diti_sublayer_norm(p, y, &desc, &model->last), &model->last);
}

/* ---- where parts of such models are ---- */

#define DITI_COGVIDEOX_5B "THUDM/CogVideoX-5b"
static const diti_place diti_cogvideox_places[] = {
    {"2b", DIT_ROLE_TRANSFORMER, "THUDM/CogVideoX-2b: transformer/"},
    {"2b", DIT_ROLE_VAE, "THUDM/CogVideoX-2b: vae/"},
    {"2b", DIT_ROLE_SCHEDULER, "THUDM/CogVideoX-2b: scheduler/"},
    {"5b-i2v", DIT_ROLE_TRANSFORMER, "THUDM/CogVideoX-5b-I2V: transformer/"},
    {"1.5-5b-i2v", DIT_ROLE_TRANSFORMER, "THUDM/CogVideoX1.5-5B-I2V: transformer/"},
    {"1.5", DIT_ROLE_TRANSFORMER, "THUDM/CogVideoX1.5-5B: transformer/"},
    {"", DIT_ROLE_TRANSFORMER, DITI_COGVIDEOX_5B ": transformer/"},
    {"", DIT_ROLE_TEXT_1, DITI_COGVIDEOX_5B ": text_encoder/, or " DITI_T5_PLACE},
    {"", DIT_ROLE_TOKENIZER_1, DITI_COGVIDEOX_5B ": tokenizer/"},
    {"", DIT_ROLE_VAE, DITI_COGVIDEOX_5B ": vae/"},
    {"", DIT_ROLE_SCHEDULER, DITI_COGVIDEOX_5B ": scheduler/"},
    {NULL, DIT_ROLE_NONE, NULL},
};

DIT_INTERNAL const diti_family *diti_cogvideox_family(void) {
    static const diti_family family = {
        "cogvideox",
        "CogVideoX",
        {"CogVideoXTransformer3DModel",
         NULL,
         {"patch_embed.text_proj.weight", "transformer_blocks.0.norm1.linear.weight", "norm_final.weight", NULL},
         {"patch_embed.text_proj.weight", "transformer_blocks.0.norm1.linear.weight", "norm_final.weight", NULL},
         {NULL, NULL}},
        {"transformer", "transformer", sizeof(diti_cogvideox), diti_cogvideox_read, diti_cogvideox_load, NULL},
        NULL,
        {16, 0.7f, 0, false},
        NULL,
        NULL,
        diti_cogvideox_places,
        sizeof(diti_cogvideox_state),
        diti_cogvideox_prepare,
        diti_cogvideox_begin,
        diti_cogvideox_embed,
        diti_cogvideox_run_block,
        diti_cogvideox_final,
        diti_cogvideox_write_inputs};
    return &family;
}
