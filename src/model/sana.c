/* Sana and Sana-Sprint: docs/models.md 3.19. Originals: https://github.com/NVlabs/Sana and
   https://github.com/huggingface/diffusers/blob/v0.36.0/src/diffusers/models/transformers/sana_transformer.py

   Blocks are modulated as PixArt's are, by a table of their own plus what the timestep says. Attention of the image to
   itself has no softmax, so that its work grows with the number of tokens; the feed-forward is a convolution over the
   picture of which each channel keeps to itself, between two products. */
#include "model/model.h"
#include "text/text.h"

#define DITI_SANA_MAX_BLOCKS 128u

/* ---- configuration ---- */

typedef struct diti_sana_config {
    uint32_t blocks, head_dim, text_head_dim, width, hidden; /* width: D; hidden: half of what the convolution has */
    uint32_t channels, patch, caption;
    uint32_t sample_size; /* latent size of the training */
    float interpolation;  /* 0: tokens have no positions */
    float eps, time_scale, guidance_scale;
    bool guided, normed,
        biased; /* guidance is an input; RMS norms of queries and keys; biases of these and of values */
} diti_sana_config;

/* ---- key tables: names asked for here are diffusers'; the original code base calls them so ---- */

static const char *const diti_sana_keys[][2] = {
    {"patch_embed.proj", "x_embedder.proj"},
    {"time_embed.emb.timestep_embedder.linear_1", "t_embedder.mlp.0"},
    {"time_embed.emb.timestep_embedder.linear_2", "t_embedder.mlp.2"},
    {"time_embed.timestep_embedder.linear_1", "t_embedder.mlp.0"},
    {"time_embed.timestep_embedder.linear_2", "t_embedder.mlp.2"},
    {"time_embed.guidance_embedder.linear_1", "cfg_embedder.mlp.0"},
    {"time_embed.guidance_embedder.linear_2", "cfg_embedder.mlp.2"},
    {"time_embed.linear", "t_block.1"},
    {"caption_projection.linear_1", "y_embedder.y_proj.fc1"},
    {"caption_projection.linear_2", "y_embedder.y_proj.fc2"},
    {"caption_norm", "attention_y_norm"},
    {"scale_shift_table", "final_layer.scale_shift_table"},
    {"proj_out", "final_layer.linear"},
};
static const char *const diti_sana_block_keys[][2] = {
    {"scale_shift_table", "scale_shift_table"},
    {"attn1.qkv", "attn.qkv"}, /* rows q, k, v; three matrices in diffusers */
    {"attn1.norm_q", "attn.q_norm"},
    {"attn1.norm_k", "attn.k_norm"},
    {"attn1.to_out.0", "attn.proj"},
    {"attn2.to_q", "cross_attn.q_linear"},
    {"attn2.kv", "cross_attn.kv_linear"}, /* rows k, v */
    {"attn2.norm_q", "cross_attn.q_norm"},
    {"attn2.norm_k", "cross_attn.k_norm"},
    {"attn2.to_out.0", "cross_attn.proj"},
    {"ff.conv_inverted", "mlp.inverted_conv.conv"},
    {"ff.conv_depth", "mlp.depth_conv.conv"},
    {"ff.conv_point", "mlp.point_conv.conv"},
};

static const diti_key_table diti_sana_names[DITI_KEY_TABLES] = {
    {"transformer_blocks.", "blocks.", diti_sana_block_keys, DITI_COUNT(diti_sana_block_keys)},
    {NULL, NULL, diti_sana_keys, DITI_COUNT(diti_sana_keys)},
    {NULL, NULL, NULL, 0},
};

/* ---- weights ---- */

typedef struct diti_sana_block {
    diti_fused_linear qkv;           /* [3D, D] */
    diti_layer out;                  /* [D, D] */
    diti_weight norms[2];            /* F32 [1, D]: of queries, of keys, over all heads; or none */
    diti_layer text_q;               /* [D, D] */
    diti_fused_linear text_kv;       /* [2D, D] */
    diti_layer text_out;             /* [D, D] */
    diti_weight text_norms[2];       /* F32 [1, D] or none */
    diti_layer ff_in[2];             /* [hidden, D]: what passes, and what gates it */
    diti_weight ff_depth, ff_biases; /* F32 [2 hidden, 9], [1, 2 hidden]: of both */
    diti_layer ff_out;               /* [D, hidden], without a bias */
    diti_weight table;               /* F32 [6, D] */
    diti_sublayer attention, cross, feed[2];
} diti_sana_block;

typedef struct diti_sana {
    diti_transformer base;
    diti_sana_config config;
    diti_layer patch;                   /* [D, C * p * p] */
    diti_embedder time, guidance;       /* [D, 256], [D, D] each */
    diti_layer modulation;              /* [6D, D] */
    diti_layer caption_in, caption_out; /* [D, caption], [D, D] */
    diti_weight caption_norm;           /* F32 [1, D] */
    diti_weight final_table;            /* F32 [2, D] */
    diti_layer proj_out;                /* [p * p * C, D] */
    diti_sublayer last;
    diti_sana_block *blocks;
} diti_sana;

#define diti_sana_of(transformer) ((const diti_sana *)(const void *)(transformer))

/* ---- reading the configuration: what config.json does not say comes from shapes ---- */

static dit_result diti_sana_check(const diti_loader *loader, const diti_sana_config *config, dit_error *err) {
    static const diti_need needs[] = {{offsetof(diti_sana_config, blocks), "blocks"},
                                      {offsetof(diti_sana_config, caption), "caption_projection"},
                                      {offsetof(diti_sana_config, hidden), "feed-forwards"},
                                      {offsetof(diti_sana_config, width), "patch embedding"},
                                      {offsetof(diti_sana_config, channels), "patch embedding"},
                                      {offsetof(diti_sana_config, patch), "patch embedding"}};
    DITI_TRY(diti_config_complete(loader, config, "Sana", needs, DITI_COUNT(needs), err));
    if (config->width % 4 || config->hidden % 8 || config->patch > 16 || config->channels > 1024 ||
        config->blocks > DITI_SANA_MAX_BLOCKS || config->head_dim % 4 || config->width % config->head_dim ||
        config->width % config->text_head_dim || config->head_dim > 128 || config->text_head_dim > 256)
        return diti_loader_refuse(
            loader, err,
            "a Sana transformer of %u blocks, heads of %u and, to the text, of %u in a width of %u, "
            "patches of %u and %u channels, is out of range",
            (unsigned)config->blocks, (unsigned)config->head_dim, (unsigned)config->text_head_dim,
            (unsigned)config->width, (unsigned)config->patch, (unsigned)config->channels);
    return DIT_OK;
}

static dit_result diti_sana_read(diti_component *component, diti_loader *loader, const diti_json *json,
                                 dit_error *err) {
    static const diti_shape_key keys[] = {
        {offsetof(diti_sana_config, width), "patch_embed.proj.weight", 0},
        {offsetof(diti_sana_config, channels), "patch_embed.proj.weight", 1},
        {offsetof(diti_sana_config, patch), "patch_embed.proj.weight", 2},
        {offsetof(diti_sana_config, caption), "caption_projection.linear_1.weight", 1},
        {offsetof(diti_sana_config, hidden), "transformer_blocks.0.ff.conv_point.weight", 1}};
    diti_sana_config *config = &((diti_sana *)(void *)component)->config;
    diti_settings settings = diti_settings_of(json, "the transformer's config.json", err);
    const char *norm = diti_setting_text(&settings, "qk_norm", NULL);
    uint32_t grid = 0;
    diti_read_shapes(loader, config, keys, DITI_COUNT(keys));
    config->blocks = diti_loader_layers(loader, &settings, "num_layers", "transformer_blocks.", ".scale_shift_table");
    config->guided = diti_loader_find(loader, "time_embed.guidance_embedder.linear_1.weight") != NULL;
    config->normed = diti_loader_find(loader, "transformer_blocks.0.attn1.norm_q.weight") != NULL;
    config->biased = diti_loader_find(loader, "transformer_blocks.0.attn1.to_q.bias") ||
                     diti_loader_find(loader, "transformer_blocks.0.attn1.qkv.bias");
    config->head_dim = diti_setting_size(&settings, "attention_head_dim", 32, 1024);
    /* as published, 20 heads of 112 or 16 of 72 */
    config->text_head_dim =
        diti_setting_size(&settings, "cross_attention_head_dim", config->width % 112 ? 72 : 112, 1024);
    if (!diti_json_get(json, "interpolation_scale"))
        DITI_TRY(diti_read_position_table(loader, config->width, &grid, &config->interpolation, err));
    config->sample_size = diti_setting_size(&settings, "sample_size", grid ? grid * config->patch : 32, 4096);
    config->interpolation =
        (float)diti_setting_number(&settings, "interpolation_scale", (double)config->interpolation, 0, 1e3);
    config->eps = (float)diti_setting_number(&settings, "norm_eps", 1e-6, 0, 1);
    config->time_scale = (float)diti_setting_number(&settings, "timestep_scale", 1, 1e-3, 1e6);
    if (config->guided) config->time_scale = 1; /* Sprint's pipeline tells the time as it is */
    config->guidance_scale = (float)diti_setting_number(&settings, "guidance_embeds_scale", 0.1, 1e-6, 1e6);
    if (norm && !diti_equal(norm, "rms_norm_across_heads"))
        diti_settings_refuse(&settings, DIT_ERROR_UNSUPPORTED_MODEL, "qk_norm", "only rms_norm_across_heads is known");
    if (diti_setting_bool(&settings, "norm_elementwise_affine", false))
        diti_settings_refuse(&settings, DIT_ERROR_UNSUPPORTED_MODEL, "norm_elementwise_affine", "only false is known");
    DITI_TRY(settings.result);
    return diti_sana_check(loader, config, err);
}

/* ---- loading ---- */

static void diti_sana_heads(const diti_pass *p, diti_tensor x, uint32_t kind);
static void diti_sana_text_heads(const diti_pass *p, diti_tensor x, uint32_t kind);

static void diti_sana_load_norms(diti_loader *loader, const diti_sana_config *config, diti_weight norms[2],
                                 const char *attention) {
    char name[64];
    uint32_t i;
    for (i = 0; i < 2 && config->normed; i++) {
        diti_format(name, sizeof name, "%s.norm_%s.weight", attention, i ? "k" : "q");
        diti_load_vector(loader, &norms[i], 1, config->width, name);
    }
}

static void diti_sana_pair(const diti_sana_config *config, diti_sana_block *block) {
    uint32_t i;
    diti_make_attention(&block->attention, DITI_STREAMS_ONE, &block->qkv, &block->out, config->width, config->head_dim);
    block->attention.eps = config->eps;
    diti_make_attention(&block->cross, DITI_STREAMS_ONE, NULL, &block->text_out, config->width, config->text_head_dim);
    block->cross.in = &block->text_q;
    block->cross.in_name = "text_q";
    block->cross.out_name = "text_out";
    if (config->normed) {
        block->attention.heads = diti_sana_heads;
        block->cross.heads = diti_sana_text_heads;
    }
    for (i = 0; i < 2; i++) {
        diti_make_feed(&block->feed[i], DITI_STREAMS_ONE, &block->ff_in[i], &block->ff_out);
        block->feed[i].activation = DITI_ACTIVATION_SILU;
        block->feed[i].eps = config->eps;
    }
    block->feed[1].in_name = "ff_gate";
}

static void diti_sana_load_block(diti_loader *loader, const diti_sana_config *config, diti_sana_block *block,
                                 uint32_t index) {
    static const diti_fused qkv = {"attn1.qkv", {"attn1.to_q", "attn1.to_k", "attn1.to_v"}, 3};
    static const diti_fused kv = {"attn2.kv", {"attn2.to_k", "attn2.to_v", NULL}, 2};
    uint32_t width = config->width, hidden = config->hidden;
    diti_loader_scope(loader, "transformer_blocks.%u.", (unsigned)index);
    diti_load_vector(loader, &block->table, 6, width, "scale_shift_table");
    if (config->biased)
        diti_load_fused(loader, &block->qkv, &qkv, width, width);
    else
        diti_load_fused_bare(loader, &block->qkv, &qkv, width, width);
    diti_sana_load_norms(loader, config, block->norms, "attn1");
    diti_load_layer(loader, &block->out, width, width, 1, "attn1.to_out.0");
    diti_load_layer(loader, &block->text_q, width, width, 1, "attn2.to_q");
    diti_load_fused(loader, &block->text_kv, &kv, width, width);
    diti_sana_load_norms(loader, config, block->text_norms, "attn2");
    diti_load_layer(loader, &block->text_out, width, width, 1, "attn2.to_out.0");
    diti_load_layer_rows(loader, &block->ff_in[0], 0, hidden, 2 * hidden, width, "ff.conv_inverted");
    diti_load_layer_rows(loader, &block->ff_in[1], hidden, hidden, 2 * hidden, width, "ff.conv_inverted");
    diti_load_vector(loader, &block->ff_depth, 2 * hidden, 9, "ff.conv_depth.weight");
    diti_load_vector(loader, &block->ff_biases, 1, 2 * hidden, "ff.conv_depth.bias");
    diti_load_bare(loader, &block->ff_out, width, hidden, "ff.conv_point");
    diti_loader_scope_end(loader);
    diti_sana_pair(config, block);
}

static void diti_sana_load_weights(diti_loader *loader, diti_sana *model) {
    const diti_sana_config *config = &model->config;
    uint32_t i, width = config->width, area = config->patch * config->patch;
    diti_load_layer(loader, &model->patch, width, config->channels * area, config->patch, "patch_embed.proj");
    model->patch.weight.kernel = 1; /* used as a matrix on flattened patches */
    if (config->guided) diti_load_embedder(loader, &model->guidance, width, width, 256, "time_embed.guidance_embedder");
    diti_load_embedder(loader, &model->time, width, width, 256,
                       config->guided ? "time_embed.timestep_embedder" : "time_embed.emb.timestep_embedder");
    diti_load_layer(loader, &model->modulation, 6 * width, width, 1, "time_embed.linear");
    diti_load_layer(loader, &model->caption_in, width, config->caption, 1, "caption_projection.linear_1");
    diti_load_layer(loader, &model->caption_out, width, width, 1, "caption_projection.linear_2");
    diti_load_vector(loader, &model->caption_norm, 1, width, "caption_norm.weight");
    for (i = 0; i < config->blocks; i++) diti_sana_load_block(loader, config, &model->blocks[i], i);
    diti_load_vector(loader, &model->final_table, 2, width, "scale_shift_table");
    diti_load_layer(loader, &model->proj_out, config->channels * area, width, 1, "proj_out");
    diti_make_output(&model->last, DITI_STREAMS_ONE, &model->proj_out);
}

static const char diti_sana_scheduler[] =
    "{\"_class_name\":\"DPMSolverMultistepScheduler\",\"prediction_type\":\"flow_prediction\",\"use_flow_sigmas\":true,"
    "\"flow_shift\":3.0}";
static const char diti_sana_sprint_scheduler[] = "{\"_class_name\":\"SCMScheduler\"}";

/* ---- how its language model is asked (docs/models.md 5.5) ---- */

#define DITI_SANA_ENHANCE                                                                                               \
    "Given a user prompt, generate an 'Enhanced prompt' that provides detailed visual descriptions suitable for image " \
    "generation. Evaluate the level of detail in the user prompt:\n"                                                    \
    "- If the prompt is simple, focus on adding specifics about colors, shapes, sizes, textures, and spatial "          \
    "relationships to create vivid and concrete scenes.\n"                                                              \
    "- If the prompt is already detailed, refine and enhance the existing details slightly without "                    \
    "overcomplicating.\n"                                                                                               \
    "Here are examples of how to transform or refine prompts:\n"                                                        \
    "- User Prompt: A cat sleeping -> Enhanced: A small, fluffy white cat curled up in a round shape, sleeping "        \
    "peacefully on a warm sunny windowsill, surrounded by pots of blooming red flowers.\n"                              \
    "- User Prompt: A busy city street -> Enhanced: A bustling city street scene at dusk, featuring glowing street "    \
    "lamps, a diverse crowd of people in colorful clothing, and a double-decker bus passing by towering glass "         \
    "skyscrapers.\n"                                                                                                    \
    "Please generate only the enhanced description for the prompt below and avoid including any additional "            \
    "commentary or evaluations:\n"                                                                                      \
    "User Prompt: "

static const diti_chat diti_sana_chats[] = {
    {"SanaPipeline SanaSprintPipeline",
     DITI_SANA_ENHANCE,
     "",
     NULL,
     DITI_SANA_ENHANCE,
     "",
     300,
     false,
     DITI_CHAT_LOWERS | DITI_CHAT_KEEPS_FIRST | DITI_CHAT_PLAIN_GUIDES,
     {1, 0, {-1}, false},
     0},
    DITI_CHATS_END,
};

static void diti_sana_set_traits(diti_sana *model) {
    const diti_sana_config *config = &model->config;
    diti_model_traits *traits = &model->base.traits;
    traits->variant = config->guided ? "sprint" : "sana";
    diti_traits_sizes(traits, config->blocks, config->width, config->width / config->head_dim, config->channels,
                      config->patch);
    traits->feed = config->hidden;
    traits->gated = true;
    traits->default_size = config->sample_size;
    traits->factor = 32;
    diti_traits_chat(traits, DITI_ENCODER_GEMMA2, &diti_sana_chats[0], config->caption, 0);
    traits->whole_rows = true;
    traits->default_steps = config->guided ? 2 : 20;
    traits->default_guidance = config->guided ? 1 : 4.5f;
    traits->default_distilled = 4.5f;
    traits->wants_guidance = config->guided;
    traits->scheduler = config->guided ? diti_sana_sprint_scheduler : diti_sana_scheduler;
}

static void diti_sana_load(diti_component *component, diti_loader *loader) {
    diti_sana *model = (diti_sana *)(void *)component;
    model->blocks =
        (diti_sana_block *)diti_component_array(component, loader, model->config.blocks, sizeof *model->blocks);
    if (!model->blocks) return;
    diti_sana_load_weights(loader, model);
    diti_sana_set_traits(model);
}

/* ---- once per picture: everything that does not depend on the latent ---- */

typedef struct diti_sana_state {            /* prepare leaves these for the steps */
    diti_tensor sinusoids, guidance;        /* inputs F32 [steps, 256], [1, 256] or 0 */
    diti_tensor positions;                  /* input F32 [tokens, D] or 0 */
    diti_tensor modulation;                 /* F32 [steps, 8D]: six rows for all blocks, two for the last norm */
    diti_tensor caption;                    /* F32 [text rows, D] */
    diti_tensor text[DITI_SANA_MAX_BLOCKS]; /* [text rows, 2D]: k and v of the cross attention */
    diti_tensor row;                        /* modulation of the step at hand: F32 [1, 8D] */
} diti_sana_state;

#define diti_sana_state_of(step) ((diti_sana_state *)(step)->family)

static void diti_sana_heads(const diti_pass *p, diti_tensor x, uint32_t kind) {
    const diti_sana_block *w = &diti_sana_of(p->model)->blocks[p->index];
    diti_all_heads_norm(p, x, &w->attention, &w->norms[kind], 1e-5f, kind ? "k_norm" : "q_norm");
}

static void diti_sana_text_heads(const diti_pass *p, diti_tensor x, uint32_t kind) {
    const diti_sana_block *w = &diti_sana_of(p->model)->blocks[p->index];
    diti_all_heads_norm(p, x, &w->cross, &w->text_norms[kind], 1e-5f, kind ? "text_k_norm" : "text_q_norm");
}

/* Caption projection and its norm, then keys and values of every block's cross attention. */
static void diti_sana_project_text(diti_pass *p, diti_sana_state *state) {
    const diti_sana *model = diti_sana_of(p->model);
    diti_norm_desc norm = DITI_ZERO;
    uint32_t i, end;
    norm.rms = norm.out_f32 = true;
    norm.eps = 1e-5f;
    norm.weight = &model->caption_norm;
    norm.name = "caption_norm";
    state->caption = diti_norm(p->graph, diti_table_text(p, &model->caption_in, &model->caption_out), &norm);
    for (diti_axes_blocks(p->step->axes, model->config.blocks, &i, &end); i < end; i++) {
        const diti_sana_block *w = &model->blocks[i];
        diti_pass_enter(p, i);
        state->text[i] = diti_sublayer_fused(p, state->caption, &w->text_kv, 2, &w->cross, "text_kv");
        if (w->cross.heads)
            w->cross.heads(p,
                           diti_tensor_view(p->graph, state->text[i], 0, diti_tensor_rows(p->graph, state->text[i]), 0,
                                            diti_column_shard_of(p, &w->cross).count),
                           1);
    }
    diti_graph_scope(p->graph, NULL, 0);
}

static void diti_sana_prepare(diti_pass *p) {
    const diti_sana *model = diti_sana_of(p->model);
    const diti_sana_config *config = &model->config;
    const diti_step_desc *step = p->step;
    uint32_t tokens = step->height / config->patch * (step->width / config->patch);
    diti_sana_state *state = diti_sana_state_of(step);
    diti_tensor time;
    state->sinusoids = diti_tensor_input(p->graph, DITI_F32, step->steps, 256, "timesteps");
    if (config->interpolation > 0)
        state->positions = diti_tensor_input(p->graph, DITI_F32, tokens, p->width, "positions");
    time = diti_embed(p->graph, &model->time, state->sinusoids, 0);
    if (config->guided) {
        state->guidance = diti_tensor_input(p->graph, DITI_F32, 1, 256, "guidance");
        time = diti_add_rows(p->graph, time, diti_embed(p->graph, &model->guidance, state->guidance, 0), 0, "guidance");
    }
    state->modulation = diti_table_rows(p, time, &model->modulation, &model->final_table);
    diti_sana_project_text(p, state);
}

static dit_result diti_sana_write_inputs(const diti_transformer *transformer, diti_plan *plan,
                                         const diti_step_desc *step, const float *timesteps, dit_error *err) {
    const diti_sana *model = diti_sana_of(transformer);
    const diti_sana_config *config = &model->config;
    const diti_sana_state *state = (const diti_sana_state *)step->family;
    const diti_env *env = &model->base.component.env;
    diti_token_grid grid = diti_transformer_grid(transformer, step);
    float guidance = step->guidance * config->guidance_scale, *times;
    uint32_t i;
    dit_result result = DIT_OK;
    if (state->positions)
        result = diti_write_stretched(plan, state->positions, &grid, config->sample_size / config->patch,
                                      config->interpolation, err);
    if (result >= 0 && state->guidance) result = diti_write_sinusoids(plan, state->guidance, &guidance, 1, 0, err);
    DITI_TRY(result);
    times = (float *)diti_alloc_array(env, step->steps, sizeof *times);
    if (!times) return diti_fail_memory(err, "the timesteps");
    for (i = 0; i < step->steps; i++) times[i] = timesteps[i] * config->time_scale;
    result = diti_write_sinusoids(plan, state->sinusoids, times, step->steps, 0, err);
    diti_free(env, times);
    return result;
}

/* ---- one evaluation ---- */

static void diti_sana_begin(diti_pass *p) {
    diti_sana_state *state = diti_sana_state_of(p->step);
    if (p->step->same_timestep) return;
    state->row = diti_select_modulation(p, state->modulation);
}

/* Attention without a softmax, docs/models.md 3.19 step 3: of an item's rows to each other. */
static diti_tensor diti_sana_attend(const diti_pass *p, const diti_sublayer *attention, diti_tensor h) {
    uint32_t columns = diti_column_shard_of(p, attention).count, rows, kind;
    diti_linear_attention_desc desc = DITI_ZERO;
    h = diti_sublayer_in(p, h, attention, 0);
    rows = diti_tensor_rows(p->graph, h);
    for (kind = 0; kind < 2 && attention->heads; kind++)
        attention->heads(p, diti_tensor_view(p->graph, h, 0, rows, kind * columns, columns), kind);
    desc.items = p->items;
    desc.heads = columns / attention->head_dim;
    desc.head_dim = desc.step = attention->head_dim;
    desc.key_offset = columns;
    desc.value_offset = 2 * columns;
    desc.name = "linear_attention";
    return diti_linear_attention(p->graph, h, &desc);
}

/* docs/models.md 3.19 step 5: x += gate * out(depth(silu(in(h))) * silu(depth(silu(in'(h))))). */
static void diti_sana_feed(const diti_pass *p, diti_tensor x, const diti_sana_block *w) {
    diti_token_grid grid = diti_transformer_grid(p->model, p->step);
    diti_depthwise_desc depth = DITI_ZERO;
    diti_tensor h = diti_modulate(p, x, DITI_SHIFT_MLP, DITI_SCALE_MLP, &w->feed[0]), passes;
    passes = diti_sublayer_in(p, h, &w->feed[0], 0);
    depth.gate = diti_sublayer_in(p, h, &w->feed[1], 0);
    depth.height = grid.rows;
    depth.width = grid.columns;
    depth.weight = &w->ff_depth;
    depth.bias = &w->ff_biases;
    depth.first = diti_column_shard_of(p, &w->feed[0]).first;
    depth.gate_first = w->feed[0].columns + depth.first;
    depth.name = "ff_depth";
    diti_sublayer_add(p, x, DITI_GATE_MLP, &w->feed[0], diti_depthwise(p->graph, passes, &depth));
}

/* SanaTransformerBlock.forward; x F32 [items * rows, D] is changed in place. */
static diti_tensor diti_sana_run_block(diti_pass *p, diti_tensor x) {
    const diti_sana_block *w = &diti_sana_of(p->model)->blocks[p->index];
    const diti_sana_state *state = diti_sana_state_of(p->step);
    diti_tensor h;
    if (p->image != p->step->token_range.all)
        return diti_graph_fail(p->graph, DIT_ERROR_INVALID_ARGUMENT,
                               "Sana's convolutions want all rows on one device: no ulysses, ring or pipefusion");
    diti_table_modulate(p, &w->table, state->row, 0);
    h = diti_modulate(p, x, DITI_SHIFT_MSA, DITI_SCALE_MSA, &w->attention);
    diti_sublayer_add(p, x, DITI_GATE_MSA, &w->attention, diti_sana_attend(p, &w->attention, h));
    h = diti_sublayer_in(p, x, &w->cross, 0);
    if (w->cross.heads) w->cross.heads(p, h, 0);
    diti_sublayer_add(p, x, DITI_NO_GATE, &w->cross, diti_attend_text(p, &w->cross, h, state->text[p->index]));
    diti_sana_feed(p, x, w);
    return x;
}

static diti_tensor diti_sana_final(diti_pass *p, diti_tensor x) {
    const diti_sublayer *last = &diti_sana_of(p->model)->last;
    p->modulation.rows = diti_tensor_view(p->graph, diti_sana_state_of(p->step)->row, 0, 1, 6 * p->width, 2 * p->width);
    return diti_output_modulated(p, x, last);
}

static diti_tensor diti_sana_embed(diti_pass *p) {
    return diti_patch_embed(p, 0, &diti_sana_of(p->model)->patch, diti_sana_state_of(p->step)->positions);
}

/* ---- where parts of such models are ---- */

#define DITI_SANA_USUAL "Efficient-Large-Model/Sana_1600M_1024px_BF16_diffusers"
#define DITI_SANA_SPRINT "Efficient-Large-Model/Sana_Sprint_1.6B_1024px_diffusers"
static const diti_place diti_sana_places[] = {
    {"sprint", DIT_ROLE_TRANSFORMER, DITI_SANA_SPRINT ": transformer/"},
    {"sprint", DIT_ROLE_SCHEDULER, DITI_SANA_SPRINT ": scheduler/"},
    {"", DIT_ROLE_TRANSFORMER, DITI_SANA_USUAL ": transformer/"},
    {"", DIT_ROLE_TEXT_1, DITI_SANA_USUAL ": text_encoder/"},
    {"", DIT_ROLE_TOKENIZER_1, DITI_SANA_USUAL ": tokenizer/"},
    {"", DIT_ROLE_VAE, DITI_SANA_USUAL ": vae/"},
    {"", DIT_ROLE_SCHEDULER, DITI_SANA_USUAL ": scheduler/"},
    {NULL, DIT_ROLE_NONE, NULL},
};

DIT_INTERNAL const diti_family *diti_sana_family(void) {
    static const diti_family family = {
        "sana",
        "Sana",
        {"SanaTransformer2DModel",
         NULL,
         {"caption_norm.weight", "patch_embed.proj.weight", "transformer_blocks.0.ff.conv_depth.weight", NULL},
         {"x_embedder.proj.weight", "attention_y_norm.weight", "blocks.0.mlp.depth_conv.conv.weight", NULL},
         {NULL, NULL}},
        {"transformer", "transformer", sizeof(diti_sana), diti_sana_read, diti_sana_load, NULL},
        diti_sana_names,
        {32, 0.41407f, 0, true},
        NULL,
        diti_sana_chats,
        diti_sana_places,
        sizeof(diti_sana_state),
        diti_sana_prepare,
        diti_sana_begin,
        diti_sana_embed,
        diti_sana_run_block,
        diti_sana_final,
        diti_sana_write_inputs};
    return &family;
}
