/* LTX-Video 0.9: docs/models.md 3.10. Originals:
   https://github.com/Lightricks/LTX-Video/blob/main/ltx_video/models/transformers/transformer3d.py
   https://github.com/huggingface/diffusers/blob/v0.36.0/src/diffusers/models/transformers/transformer_ltx.py

   D is the width of the residual stream. Tokens of all frames attend each other, then their text, as in PixArt; norms
   of queries and keys, and rotations, are about all heads together. */
#include "model/model.h"

#define DITI_LTX_MAX_BLOCKS 128u

/* ---- configuration ---- */

typedef struct diti_ltx_config {
    uint32_t blocks, heads, head_dim, width; /* width: D */
    uint32_t channels, out_channels;         /* a token is one element of the latent */
    uint32_t caption;                        /* columns of the text encoder's output */
    float eps;                               /* eps of the norms before sublayers */
} diti_ltx_config;

/* ---- key table: names asked for here are diffusers'; the original code base calls them so ---- */

static const char *const diti_ltx_keys[][2] = {
    {"proj_in", "patchify_proj"},
    {"time_embed", "adaln_single"},
    {"caption_projection", "caption_projection"},
    {"scale_shift_table", "scale_shift_table"},
    {"proj_out", "proj_out"},
};
static const char *const diti_ltx_block_keys[][2] = {
    {"attn1.norm_q", "attn1.q_norm"},
    {"attn1.norm_k", "attn1.k_norm"},
    {"attn2.norm_q", "attn2.q_norm"},
    {"attn2.norm_k", "attn2.k_norm"},
    {"attn1", "attn1"},
    {"attn2", "attn2"},
    {"ff", "ff"},
    {"scale_shift_table", "scale_shift_table"},
};

static const diti_key_table diti_ltx_names[DITI_KEY_TABLES] = {
    {"transformer_blocks.", "transformer_blocks.", diti_ltx_block_keys, DITI_COUNT(diti_ltx_block_keys)},
    {NULL, NULL, diti_ltx_keys, DITI_COUNT(diti_ltx_keys)},
};

/* ---- weights ---- */

typedef struct diti_ltx_block {
    diti_table_block table;
    diti_weight norms[2], text_norms[2]; /* F32 [D]: RMS norms of queries and of keys, of all heads together */
} diti_ltx_block;

typedef struct diti_ltx {
    diti_transformer base;
    diti_ltx_config config;
    diti_layer patch;                   /* [D, C] */
    diti_embedder time;                 /* [D, 256], [D, D] */
    diti_layer modulation;              /* [6D, D] */
    diti_layer caption_in, caption_out; /* [D, caption], [D, D] */
    diti_weight final_table;            /* F32 [2, D] */
    diti_layer proj_out;                /* [out_channels, D] */
    diti_sublayer last;
    diti_ltx_block *blocks;
} diti_ltx;

#define diti_ltx_of(transformer) ((const diti_ltx *)(const void *)(transformer))

/* ---- reading the configuration: what config.json does not say comes from shapes ---- */

static dit_result diti_ltx_check(const diti_ltx_config *config, diti_settings *settings, dit_error *err) {
    static const char *const known[2][2] = {{"qk_norm", "rms_norm_across_heads"},
                                            {"activation_fn", "gelu-approximate"}};
    DITI_TRY(diti_settings_check_known(settings, "LTX-Video", known, err));
    if ((uint64_t)config->heads * config->head_dim != config->width || config->head_dim > 256 || config->head_dim % 4 ||
        config->width < 12 || !config->blocks || config->blocks > DITI_LTX_MAX_BLOCKS || !config->out_channels ||
        config->channels > 1024 || config->out_channels != config->channels) {
        return diti_fail(err, DIT_ERROR_UNSUPPORTED_MODEL,
                         "LTX-Video transformer: %u blocks, %u heads of %u in a width of %u, %u channels out of %u are "
                         "out of range",
                         (unsigned)config->blocks, (unsigned)config->heads, (unsigned)config->head_dim,
                         (unsigned)config->width, (unsigned)config->out_channels, (unsigned)config->channels);
    }
    return DIT_OK;
}

/* As published, all sizes have 32 heads. */
static dit_result diti_ltx_read(diti_component *component, diti_loader *loader, const diti_json *json, dit_error *err) {
    static const diti_need needs[] = {{offsetof(diti_ltx_config, caption), "caption_projection"},
                                      {offsetof(diti_ltx_config, width), "proj_in (patchify_proj)"},
                                      {offsetof(diti_ltx_config, channels), "proj_in (patchify_proj)"}};
    static const diti_shape_key keys[] = {{offsetof(diti_ltx_config, width), "proj_in.weight", 0},
                                          {offsetof(diti_ltx_config, channels), "proj_in.weight", 1},
                                          {offsetof(diti_ltx_config, caption), "caption_projection.linear_1.weight", 1},
                                          {offsetof(diti_ltx_config, out_channels), "proj_out.weight", 0}};
    diti_ltx_config *config = &((diti_ltx *)(void *)component)->config;
    diti_settings settings = diti_settings_of(json, "the transformer's config.json", err);
    diti_read_shapes(loader, config, keys, DITI_COUNT(keys));
    DITI_TRY(diti_config_complete(loader, config, "LTX-Video", needs, DITI_COUNT(needs), err));
    if (diti_setting_size(&settings, "patch_size", 1, 16) != 1 ||
        diti_setting_size(&settings, "patch_size_t", 1, 16) != 1)
        diti_settings_refuse(&settings, DIT_ERROR_UNSUPPORTED_MODEL, "patch_size", "only 1, of one frame, is known");
    config->blocks = diti_loader_layers(loader, &settings, "num_layers", "transformer_blocks.", ".scale_shift_table");
    if (diti_setting_bool(&settings, "norm_elementwise_affine", false))
        diti_settings_refuse(&settings, DIT_ERROR_UNSUPPORTED_MODEL, "norm_elementwise_affine", "only false is known");
    config->heads = diti_setting_size(&settings, "num_attention_heads", 32, 1024);
    config->head_dim = diti_setting_size(&settings, "attention_head_dim", config->width / config->heads, 1024);
    config->eps = (float)diti_setting_number(&settings, "norm_eps", 1e-6, 0, 1);
    return diti_ltx_check(config, &settings, err);
}

/* ---- loading ---- */

static void diti_ltx_self_heads(const diti_pass *p, diti_tensor x, uint32_t kind);
static void diti_ltx_text_heads(const diti_pass *p, diti_tensor x, uint32_t kind);

static void diti_ltx_load_block(diti_loader *loader, const diti_ltx_config *config, diti_ltx_block *block,
                                uint32_t index) {
    static const char *const qkv[] = {"attn1.to_q", "attn1.to_k", "attn1.to_v"};
    static const char *const kv[] = {"attn2.to_k", "attn2.to_v"};
    diti_table_block *table = &block->table;
    uint32_t width = config->width;
    diti_loader_scope(loader, "transformer_blocks.%u.", (unsigned)index);
    diti_load_vector(loader, &table->table, 6, width, "scale_shift_table");
    diti_load_fused_linear(loader, &table->qkv, qkv, 3, width, width, true);
    diti_load_vector(loader, &block->norms[0], 1, width, "attn1.norm_q.weight");
    diti_load_vector(loader, &block->norms[1], 1, width, "attn1.norm_k.weight");
    diti_load_layer(loader, &table->out, width, width, 1, "attn1.to_out.0");
    diti_load_layer(loader, &table->text_q, width, width, 1, "attn2.to_q");
    diti_load_fused_linear(loader, &table->text_kv, kv, 2, width, width, true);
    diti_load_vector(loader, &block->text_norms[0], 1, width, "attn2.norm_q.weight");
    diti_load_vector(loader, &block->text_norms[1], 1, width, "attn2.norm_k.weight");
    diti_load_layer(loader, &table->text_out, width, width, 1, "attn2.to_out.0");
    diti_load_layer(loader, &table->ff_in, 4 * width, width, 1, "ff.net.0.proj");
    diti_load_layer(loader, &table->ff_out, width, 4 * width, 1, "ff.net.2");
    diti_loader_scope_end(loader);
    diti_table_block_pair(table, width, config->head_dim, config->eps);
    table->attention.rms = table->feed.rms = true;
    table->attention.heads = diti_ltx_self_heads;
    table->cross.heads = diti_ltx_text_heads;
}

static void diti_ltx_load_weights(diti_loader *loader, diti_ltx *model) {
    const diti_ltx_config *config = &model->config;
    uint32_t i, width = config->width;
    diti_load_layer(loader, &model->patch, width, config->channels, 1, "proj_in");
    diti_load_embedder(loader, &model->time, width, width, 256, "time_embed.emb.timestep_embedder");
    diti_load_layer(loader, &model->modulation, 6 * width, width, 1, "time_embed.linear");
    diti_load_layer(loader, &model->caption_in, width, config->caption, 1, "caption_projection.linear_1");
    diti_load_layer(loader, &model->caption_out, width, width, 1, "caption_projection.linear_2");
    for (i = 0; i < config->blocks; i++) diti_ltx_load_block(loader, config, &model->blocks[i], i);
    diti_load_vector(loader, &model->final_table, 2, width, "scale_shift_table");
    diti_load_layer(loader, &model->proj_out, config->out_channels, width, 1, "proj_out");
    diti_make_output(&model->last, DITI_STREAMS_ONE, &model->proj_out);
}

/* As the repository of the diffusers pipeline has it. */
static const char diti_ltx_scheduler[] =
    "{\"_class_name\":\"FlowMatchEulerDiscreteScheduler\",\"use_dynamic_shifting\":true,\"base_shift\":0.95,"
    "\"max_shift\":2.05,\"base_image_seq_len\":1024,\"max_image_seq_len\":4096,\"shift_terminal\":0.1}";

/* The pipeline of 0.9.5 and later. Original files have no model_index.json: those of 2B tell in their metadata how
   positions count, and 13B is newer than that. */
static void diti_ltx_settle(diti_model_traits *traits, const diti_json *index, const diti_json *scheduler) {
    bool newer = traits->causal_frames || traits->layers > 40;
    (void)scheduler;
    if (index) newer = diti_equal(diti_json_string(index, "_class_name", ""), "LTXConditionPipeline");
    traits->causal_frames = traits->quadratic_sigmas = newer;
    if (!newer) return;
    traits->encodes_padding = false;
    traits->text_tokens = 256;
    traits->picture_noise = 0.15f;
    traits->scheduler = "{\"_class_name\":\"FlowMatchEulerDiscreteScheduler\"}";
}

static bool diti_ltx_is_causal(const diti_loader *loader) {
    const char *text = diti_checkpoint_text(loader->checkpoint, "config");
    diti_json *config = NULL;
    bool causal;
    if (!text || diti_json_parse(loader->env, text, strlen(text), "config", &config, NULL) < 0) return false;
    causal = diti_json_bool(diti_json_get(config, "transformer"), "causal_temporal_positioning", false);
    diti_json_free(loader->env, config);
    return causal;
}

static void diti_ltx_load(diti_component *component, diti_loader *loader) {
    diti_ltx *model = (diti_ltx *)(void *)component;
    const diti_ltx_config *config = &model->config;
    diti_model_traits *traits = &model->base.traits;
    model->blocks = (diti_ltx_block *)diti_component_array(component, loader, config->blocks, sizeof *model->blocks);
    if (!model->blocks) return;
    diti_ltx_load_weights(loader, model);
    traits->variant = config->blocks > 40 ? "13b" : "2b";
    traits->latents.channels = config->channels;
    traits->latents.scale = 1;
    diti_traits_sizes(traits, config->blocks, config->width, config->heads, config->channels, 1);
    traits->default_size = 16;
    traits->default_columns = 22;
    traits->default_frames = 21;
    traits->default_fps = 25;
    traits->text_tokens = 128;
    traits->text_columns = config->caption;
    traits->encoders[0] = DITI_ENCODER_T5;
    traits->default_steps = 50;
    traits->negative = "worst quality, inconsistent motion, blurry, jittery, distorted";
    traits->default_guidance = 3;
    traits->scheduler = diti_ltx_scheduler;
    traits->uniform_sigmas = true;
    traits->planar = true;
    traits->encodes_padding = traits->keeps_case = traits->fixed_tokens = true;
    traits->frame_steps = traits->fixes_first = true;
    traits->causal_frames = diti_ltx_is_causal(loader);
    traits->settle = diti_ltx_settle;
}

/* ---- once per clip: everything that does not depend on the latent ---- */

typedef struct diti_ltx_state {            /* prepare leaves these for the steps */
    diti_tensor sinusoids;                 /* input F32 [steps, 256], and of timestep 0 where frames are given */
    diti_rotation rotation;                /* [tokens, D / 2] */
    diti_tensor modulation;                /* F32 [rows of sinusoids, 8D]: six for all blocks, two for the last norm */
    diti_tensor text[DITI_LTX_MAX_BLOCKS]; /* [text rows, 2D]: k, normed, and v of the cross attention */
    diti_tensor rows;                      /* F32 [1 or frames, 8D]: the step's */
} diti_ltx_state;

#define diti_ltx_state_of(step) ((diti_ltx_state *)(step)->family)

/* RMS norm of all heads of q or k together, in place, then rotation where there are tables. Devices that have some of
   the heads each first bring all of them together. */
static void diti_ltx_norm_heads(const diti_pass *p, diti_tensor x, const diti_sublayer *sublayer,
                                const diti_weight *norm, bool rotates) {
    const diti_ltx_state *state = diti_ltx_state_of(p->step);
    diti_tensor own, all = diti_column_shard_gather(p, x, sublayer, &own);
    diti_qkv_desc desc = DITI_ZERO;
    desc.heads = 1;
    desc.head_dim = p->width;
    desc.norm = DITI_QKV_RMS;
    desc.eps = 1e-5f;
    desc.weight = norm;
    desc.cosines = rotates ? state->rotation.here_cosines : 0;
    desc.sines = rotates ? state->rotation.here_sines : 0;
    desc.tokens = rotates ? p->image : 0;
    desc.name = "qk_norm";
    diti_qk_norm_rope(p->graph, all, &desc);
    if (own) diti_copy(p->graph, own, x, "qk_norm");
}

static void diti_ltx_self_heads(const diti_pass *p, diti_tensor x, uint32_t kind) {
    const diti_ltx_block *w = &diti_ltx_of(p->model)->blocks[p->index];
    diti_ltx_norm_heads(p, x, &w->table.attention, &w->norms[kind], true);
}

static void diti_ltx_text_heads(const diti_pass *p, diti_tensor x, uint32_t kind) {
    const diti_ltx_block *w = &diti_ltx_of(p->model)->blocks[p->index];
    diti_ltx_norm_heads(p, x, &w->table.cross, &w->text_norms[kind], false);
}

/* Keys, normed, and values of every block's cross attention. */
static void diti_ltx_project_text(diti_pass *p, diti_ltx_state *state) {
    const diti_ltx *model = diti_ltx_of(p->model);
    diti_tensor y = diti_table_text(p, &model->caption_in, &model->caption_out);
    uint32_t i, end;
    for (diti_axes_blocks(p->step->axes, model->config.blocks, &i, &end); i < end; i++) {
        const diti_table_block *w = &model->blocks[i].table;
        uint32_t columns = diti_column_shard_of(p, &w->cross).count;
        diti_pass_enter(p, i);
        state->text[i] = diti_sublayer_fused(p, y, &w->text_kv, 2, &w->cross, "text_kv");
        diti_ltx_text_heads(p, diti_tensor_view(p->graph, state->text[i], 0, diti_tensor_rows(p->graph, y), 0, columns),
                            1);
    }
    diti_graph_scope(p->graph, NULL, 0);
}

static void diti_ltx_prepare(diti_pass *p) {
    const diti_ltx *model = diti_ltx_of(p->model);
    const diti_step_desc *step = p->step;
    diti_token_grid grid = diti_transformer_grid(p->model, step);
    uint32_t tokens = grid.frames * grid.rows * grid.columns, rows = step->steps + (step->frame_steps ? 1 : 0);
    diti_ltx_state *state = diti_ltx_state_of(step);
    state->sinusoids = diti_tensor_input(p->graph, DITI_F32, rows, 256, "timesteps");
    diti_rotation_prepare(p->graph, &state->rotation, tokens, p->width / 2);
    state->modulation = diti_table_rows(p, diti_embed(p->graph, &model->time, state->sinusoids, 0), &model->modulation,
                                        &model->final_table);
    diti_ltx_project_text(p, state);
}

/* ---- inputs ---- */

/* Where a latent frame begins, of eight frames; or, for the first one is a single frame, as many less seven. */
static float diti_ltx_second(const diti_ltx *model, const diti_step_desc *step, uint32_t frame) {
    double fps = step->fps > 0 ? (double)step->fps : 25.0;
    if (!model->base.traits.causal_frames) return (float)frame * (float)(8.0 / fps);
    return (float)(frame ? 8 * frame - 7 : 0) * (float)(1.0 / fps);
}

/* docs/models.md 3.10: a token's places in time, in lines and in columns, each as a part of 20 seconds or of 2048
   pixels and from -1 to 1, times frequencies from pi / 2 on; the three take turns. Products are float32, as the
   original rounds them: angles become 15,700. */
static void diti_ltx_place(const diti_transformer *transformer, const diti_step_desc *step, uint32_t prompt,
                           float *cosines, float *sines) {
    const diti_ltx *model = diti_ltx_of(transformer);
    diti_token_grid grid = diti_transformer_grid(transformer, step);
    uint32_t half = model->config.width / 2, count = model->config.width / 6, rest = half - 3 * count, j, axis, token;
    uint32_t plane = grid.rows * grid.columns, tokens = grid.frames * plane;
    float pace = 1.0f / (float)(count - 1);
    (void)prompt;
    for (j = 0; j < count; j++) {
        float exponent = j < count / 2 ? pace * (float)j : 1.0f - pace * (float)(count - 1 - j); /* torch.linspace */
        float frequency = (float)pow(10000.0, (double)exponent) * 3.14159265f / 2.0f;
        for (token = 0; token < tokens; token++) {
            float places[3];
            places[0] = diti_ltx_second(model, step, token / plane) / 20.0f;
            places[1] = (float)(token % plane / grid.columns) * 32.0f / 2048.0f;
            places[2] = (float)(token % grid.columns) * 32.0f / 2048.0f;
            for (axis = 0; axis < 3; axis++) {
                float angle = frequency * (places[axis] * 2.0f - 1.0f);
                cosines[(size_t)token * half + rest + 3 * j + axis] = cosf(angle);
                sines[(size_t)token * half + rest + 3 * j + axis] = sinf(angle);
            }
        }
    }
    for (token = 0; token < tokens; token++) { /* channels in front, which no frequency is left for */
        for (j = 0; j < rest; j++) {
            cosines[(size_t)token * half + j] = 1;
            sines[(size_t)token * half + j] = 0;
        }
    }
}

static dit_result diti_ltx_write_inputs(const diti_transformer *transformer, diti_plan *plan,
                                        const diti_step_desc *step, const float *timesteps, dit_error *err) {
    const diti_ltx_state *state = (const diti_ltx_state *)step->family;
    DITI_TRY(diti_write_places(transformer, plan, step, state->rotation.cosines, state->rotation.sines, 1,
                               diti_ltx_place, err));
    return diti_write_timesteps(plan, state->sinusoids, step, timesteps, err);
}

/* ---- one evaluation ---- */

static void diti_ltx_begin(diti_pass *p) {
    diti_ltx_state *state = diti_ltx_state_of(p->step);
    diti_rotation_begin(p, &state->rotation);
    if (!p->step->same_timestep)
        state->rows = diti_pass_frame_rows(p, state->modulation, diti_pass_frame_steps(p), "select_modulation");
}

static diti_tensor diti_ltx_embed(diti_pass *p) { return diti_patch_embed(p, 0, &diti_ltx_of(p->model)->patch, 0); }

/* LTXVideoTransformerBlock.forward, docs/models.md 3.10; x F32 [items * tokens, D] is changed in place. */
static diti_tensor diti_ltx_run_block(diti_pass *p, diti_tensor x) {
    const diti_table_block *w = &diti_ltx_of(p->model)->blocks[p->index].table;
    const diti_ltx_state *state = diti_ltx_state_of(p->step);
    diti_table_modulate(p, &w->table, state->rows, 0);
    diti_block_attend(p, x, &w->attention);
    diti_table_finish(p, x, w, state->text[p->index]);
    return x;
}

static diti_tensor diti_ltx_final(diti_pass *p, diti_tensor x) {
    const diti_sublayer *last = &diti_ltx_of(p->model)->last;
    diti_tensor rows = diti_ltx_state_of(p->step)->rows;
    p->modulation.rows =
        diti_tensor_view(p->graph, rows, 0, diti_tensor_rows(p->graph, rows), 6 * p->width, 2 * p->width);
    return diti_output_modulated(p, x, last);
}

/* ---- where parts of such models are ---- */

#define DITI_LTX_REPOSITORY "Lightricks/LTX-Video"
static const diti_place diti_ltx_places[] = {
    {"", DIT_ROLE_TRANSFORMER, DITI_LTX_REPOSITORY ": transformer/"},
    {"", DIT_ROLE_TEXT_1, DITI_LTX_REPOSITORY ": text_encoder/, or " DITI_T5_PLACE},
    {"", DIT_ROLE_TOKENIZER_1, DITI_LTX_REPOSITORY ": tokenizer/"},
    {"", DIT_ROLE_VAE, DITI_LTX_REPOSITORY ": vae/"},
    {"", DIT_ROLE_SCHEDULER, DITI_LTX_REPOSITORY ": scheduler/"},
    {NULL, DIT_ROLE_NONE, NULL},
};

DIT_INTERNAL const diti_family *diti_ltx_family(void) {
    static const diti_family family = {
        "ltx",
        "LTX-Video",
        {"LTXVideoTransformer3DModel",
         NULL,
         {"proj_in.weight", "time_embed.linear.weight", "transformer_blocks.0.attn1.norm_q.weight", NULL},
         {"patchify_proj.weight", "adaln_single.linear.weight", "transformer_blocks.0.attn1.q_norm.weight", NULL},
         {NULL, NULL}},
        {"transformer", "transformer", sizeof(diti_ltx), diti_ltx_read, diti_ltx_load, NULL},
        diti_ltx_names,
        {128, 1, 0, false},
        NULL,
        NULL,
        diti_ltx_places,
        sizeof(diti_ltx_state),
        diti_ltx_prepare,
        diti_ltx_begin,
        diti_ltx_embed,
        diti_ltx_run_block,
        diti_ltx_final,
        diti_ltx_write_inputs};
    return &family;
}
