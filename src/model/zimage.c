/* Z-Image: docs/models.md 3.12. Originals: https://github.com/Tongyi-MAI/Z-Image and
   https://github.com/huggingface/diffusers/blob/v0.36.0/src/diffusers/models/transformers/transformer_z_image.py

   Text and image are one row of tokens with the same weights. Before they meet, the text goes through blocks of its own
   once per picture, and the image through blocks of its own in every step. Every sublayer has a norm before and one
   behind it. Both streams are filled up to a multiple of 32 with learned tokens, which are attended as any other. */
#include "model/model.h"
#include "text/text.h"

#define DITI_ZIMAGE_MAX_BLOCKS 128u
#define DITI_ZIMAGE_AXES 3u
#define DITI_ZIMAGE_UNIT 32u /* tokens of a stream are filled up to a multiple */

/* ---- configuration ---- */

typedef struct diti_zimage_config {
    uint32_t refiners, blocks;             /* refiners: of the text, and as many of the image, before the blocks */
    uint32_t heads, head_dim, width, feed; /* width: D */
    uint32_t channels;                     /* channels of the latent; its patches of 2 x 2 are the tokens */
    uint32_t text, time, time_width;       /* columns of the text, of the vector that modulates, between its layers */
    uint32_t axes[DITI_ZIMAGE_AXES];       /* channels of a head that rotate with each coordinate */
    float theta, eps, time_scale;
    uint32_t in, out; /* columns that the first layer reads, and that the last one makes */
} diti_zimage_config;

/* ---- key tables: names asked for here are diffusers'; single files and GGUF call them so ---- */

static const char *const diti_zimage_keys[][2] = {
    {"all_x_embedder.2-1", "x_embedder"}, {"all_final_layer.2-1", "final_layer"}, {"cap_embedder", "cap_embedder"},
    {"t_embedder", "t_embedder"},         {"x_pad_token", "x_pad_token"},         {"cap_pad_token", "cap_pad_token"},
};
static const char *const diti_zimage_block_keys[][2] = {
    {"attention.qkv", "attention.qkv"}, /* rows q, k, v; three matrices in diffusers */
    {"attention.to_out.0", "attention.out"},
    {"attention.norm_q", "attention.q_norm"},
    {"attention.norm_k", "attention.k_norm"},
    {"attention_norm1", "attention_norm1"},
    {"attention_norm2", "attention_norm2"},
    {"ffn_norm1", "ffn_norm1"},
    {"ffn_norm2", "ffn_norm2"},
    {"feed_forward", "feed_forward"},
    {"adaLN_modulation", "adaLN_modulation"},
};

static const diti_key_table diti_zimage_names[DITI_KEY_TABLES] = {
    {"layers.", "layers.", diti_zimage_block_keys, DITI_COUNT(diti_zimage_block_keys)},
    {"noise_refiner.", "noise_refiner.", diti_zimage_block_keys, DITI_COUNT(diti_zimage_block_keys)},
    {"context_refiner.", "context_refiner.", diti_zimage_block_keys, DITI_COUNT(diti_zimage_block_keys)},
    {NULL, NULL, diti_zimage_keys, DITI_COUNT(diti_zimage_keys)},
};

/* ---- weights ---- */

typedef struct diti_zimage {
    diti_transformer base;
    diti_zimage_config config;
    diti_layer patch;                /* [D, 4 * channels] */
    diti_weight text_norm;           /* F32 [text] */
    diti_layer text;                 /* [D, text] */
    diti_weight text_filler, filler; /* F32 [1, D] */
    diti_embedder time;              /* [time width, 256], [time, time width] */
    diti_gated_block *blocks;        /* the image's refiners, then the blocks, then the text's refiners */
    diti_layer final_modulation;     /* [D, time]: scale */
    diti_layer proj_out;             /* [4 * channels, D] */
    diti_sublayer last;
} diti_zimage;

#define diti_zimage_of(transformer) ((const diti_zimage *)(const void *)(transformer))

/* ---- reading the configuration: what config.json does not say comes from shapes ---- */

static dit_result diti_zimage_check(const diti_loader *loader, const diti_zimage_config *config, dit_error *err) {
    static const diti_need needs[] = {{offsetof(diti_zimage_config, blocks), "layers"},
                                      {offsetof(diti_zimage_config, feed), "layers"},
                                      {offsetof(diti_zimage_config, text), "cap_embedder"},
                                      {offsetof(diti_zimage_config, time), "t_embedder"},
                                      {offsetof(diti_zimage_config, head_dim), "norms of queries"},
                                      {offsetof(diti_zimage_config, width), "x_embedder or final_layer"},
                                      {offsetof(diti_zimage_config, in), "x_embedder or final_layer"},
                                      {offsetof(diti_zimage_config, out), "x_embedder or final_layer"}};
    DITI_TRY(diti_config_complete(loader, config, "Z-Image", needs, DITI_COUNT(needs), err));
    if (config->in != config->out || config->in % 4 || config->in > 1024 || config->width % config->head_dim ||
        config->head_dim > 256 || config->head_dim % 4 ||
        config->blocks + 2 * config->refiners > DITI_ZIMAGE_MAX_BLOCKS || config->width % 4 || config->time % 4) {
        return diti_loader_refuse(
            loader, err,
            "a Z-Image transformer of %u + %u blocks, heads of %u in a width of %u, that takes %u "
            "columns of patches and makes %u, is out of range",
            (unsigned)config->refiners, (unsigned)config->blocks, (unsigned)config->head_dim, (unsigned)config->width,
            (unsigned)config->in, (unsigned)config->out);
    }
    return DIT_OK;
}

static dit_result diti_zimage_read(diti_component *component, diti_loader *loader, const diti_json *json,
                                   dit_error *err) {
    static const diti_shape_key keys[] = {
        {offsetof(diti_zimage_config, in), "all_x_embedder.2-1.weight", 1},
        {offsetof(diti_zimage_config, out), "all_final_layer.2-1.linear.weight", 0},
        {offsetof(diti_zimage_config, width), "all_x_embedder.2-1.weight", 0},
        {offsetof(diti_zimage_config, text), "cap_embedder.1.weight", 1},
        {offsetof(diti_zimage_config, time_width), "t_embedder.mlp.0.weight", 0},
        {offsetof(diti_zimage_config, time), "t_embedder.mlp.2.weight", 0},
        {offsetof(diti_zimage_config, feed), "layers.0.feed_forward.w1.weight", 0},
        {offsetof(diti_zimage_config, head_dim), "layers.0.attention.norm_q.weight", 0}};
    diti_zimage_config *config = &((diti_zimage *)(void *)component)->config;
    diti_settings settings = diti_settings_of(json, "the transformer's config.json", err);
    static const char *const others[][2] = {{"siglip_embedder.1.weight", "Z-Image-Omni, another model than Z-Image"}};
    DITI_TRY(diti_refuse_others(loader, others, DITI_COUNT(others), "Z-Image", err));
    diti_read_shapes(loader, config, keys, DITI_COUNT(keys));
    config->blocks = diti_loader_layers(loader, &settings, "n_layers", "layers.", ".attention_norm1.weight");
    config->refiners =
        diti_loader_layers(loader, &settings, "n_refiner_layers", "noise_refiner.", ".attention_norm1.weight");
    DITI_TRY(diti_zimage_check(loader, config, err));
    config->channels = config->in / 4;
    config->heads = config->width / config->head_dim;
    config->theta = (float)diti_setting_number(&settings, "rope_theta", 256, 2, 1e9);
    config->eps = (float)diti_setting_number(&settings, "norm_eps", 1e-5, 0, 1);
    config->time_scale = (float)diti_setting_number(&settings, "t_scale", 1000, 1e-3, 1e6);
    if (diti_setting_size(&settings, "n_kv_heads", config->heads, 1024) != config->heads)
        diti_settings_refuse(&settings, DIT_ERROR_UNSUPPORTED_MODEL, "n_kv_heads", "only as many as n_heads is known");
    /* As published, 32, 48 and 48 of 128; the same shares of other heads. */
    return diti_setting_axes(&settings, "Z-Image", "axes_dims", config->head_dim, config->head_dim / 4,
                             config->head_dim / 16 * 6, DITI_ZIMAGE_AXES, config->axes, err);
}

/* ---- loading ---- */

/* Blocks of the text alone have no modulation. */
static void diti_zimage_load_blocks(diti_loader *loader, const diti_zimage_config *config, diti_gated_block *blocks) {
    static const diti_gated_names text = DITI_GATED_NAMES(NULL), image = DITI_GATED_NAMES("adaLN_modulation.0");
    uint32_t refiners = config->refiners, all = refiners + config->blocks;
    diti_gated_kind kind = DITI_ZERO;
    uint32_t i;
    kind.width = config->width;
    kind.head_dim = config->head_dim;
    kind.feed = config->feed;
    kind.time = config->time;
    kind.eps = config->eps;
    diti_gated_blocks_load(loader, &blocks[all], refiners, "context_refiner.", &text, &kind, DITI_STREAMS_ONE);
    diti_gated_blocks_load(loader, blocks, refiners, "noise_refiner.", &image, &kind, DITI_STREAMS_IMAGE);
    diti_gated_blocks_load(loader, &blocks[refiners], config->blocks, "layers.", &image, &kind, DITI_STREAMS_ONE);
    for (i = 0; i < all; i++) blocks[i].attention.norm_eps = config->eps;
}

static void diti_zimage_load_weights(diti_loader *loader, diti_zimage *model) {
    const diti_zimage_config *config = &model->config;
    uint32_t width = config->width;
    diti_load_layer(loader, &model->patch, width, 4 * config->channels, 1, "all_x_embedder.2-1");
    diti_load_vector(loader, &model->text_norm, 1, config->text, "cap_embedder.0.weight");
    diti_load_layer(loader, &model->text, width, config->text, 1, "cap_embedder.1");
    diti_load_vector(loader, &model->text_filler, 1, width, "cap_pad_token");
    diti_load_vector(loader, &model->filler, 1, width, "x_pad_token");
    diti_load_layer(loader, &model->time.in, config->time_width, 256, 1, "t_embedder.mlp.0");
    diti_load_layer(loader, &model->time.out, config->time, config->time_width, 1, "t_embedder.mlp.2");
    diti_zimage_load_blocks(loader, config, model->blocks);
    diti_load_layer(loader, &model->final_modulation, width, config->time, 1, "all_final_layer.2-1.adaLN_modulation.1");
    diti_load_layer(loader, &model->proj_out, 4 * config->channels, width, 1, "all_final_layer.2-1.linear");
    diti_make_output(&model->last, DITI_STREAMS_IMAGE, &model->proj_out);
}

#define DITI_ZIMAGE_SCHEDULER(SHIFT) "{\"_class_name\":\"FlowMatchEulerDiscreteScheduler\",\"shift\":" SHIFT "}"

/* The two models have the same tensors: the distilled one comes with a shift of 3, the other one with 6. */
static void diti_zimage_settle(diti_model_traits *traits, const diti_json *index, const diti_json *scheduler) {
    (void)index;
    if (diti_json_number(scheduler, "shift", 3) < 4.5) return;
    traits->variant = "base";
    traits->scheduler = DITI_ZIMAGE_SCHEDULER("6.0");
    traits->default_steps = 50;
    traits->default_guidance = 6;
}

/* ---- how its language model is asked (docs/models.md 5.5) ---- */

static const diti_chat diti_zimage_chats[] = {
    {"ZImagePipeline", DITI_CHAT_USER, DITI_CHAT_ANSWER, NULL, "", "", 512, false, 0, {1, 0, {-2}, false}, 0},
    DITI_CHATS_END,
};

static void diti_zimage_set_traits(diti_zimage *model) {
    const diti_zimage_config *config = &model->config;
    diti_model_traits *traits = &model->base.traits;
    traits->variant = "turbo";
    diti_traits_sizes(traits, config->refiners + config->blocks, config->width, config->heads, config->channels, 2);
    traits->feed = config->feed;
    traits->gated = true;
    traits->default_size = 128;
    diti_traits_chat(traits, DITI_ENCODER_QWEN3, &diti_zimage_chats[0], config->text, DITI_ZIMAGE_UNIT);
    traits->scheduler = DITI_ZIMAGE_SCHEDULER("3.0");
    traits->uniform_sigmas = true;
    traits->default_steps = 8;
    traits->default_guidance = 1;
    traits->guides_beyond = true;
    traits->joint = traits->channels_last = true;
    traits->settle = diti_zimage_settle;
}

static void diti_zimage_load(diti_component *component, diti_loader *loader) {
    diti_zimage *model = (diti_zimage *)(void *)component;
    model->blocks = (diti_gated_block *)diti_component_array(
        component, loader, model->config.blocks + 2 * model->config.refiners, sizeof *model->blocks);
    if (!model->blocks) return;
    diti_zimage_load_weights(loader, model);
    diti_zimage_set_traits(model);
}

/* ---- once per picture: everything that does not depend on the latent ---- */

typedef struct diti_zimage_state {               /* prepare leaves these for the steps */
    diti_tensor sinusoids;                       /* input F32 [steps, 256] */
    diti_rotation rotations[DITI_JOINT_STREAMS]; /* [prompts * (text + image rows), head_dim / 2]: for all rows, for the
                                                    image's */
    diti_text_order order;
    diti_tensor text;  /* F32 [prompts * text rows, D], refined */
    diti_tensor final; /* F32 [steps, D] */
    diti_adaln adaln;
} diti_zimage_state;

#define diti_zimage_state_of(step) ((diti_zimage_state *)(step)->family)

/* A block of the text's own, docs/models.md 3.12 step 2: no modulation; a prompt's rows attend those that it fills. */
static void diti_zimage_refine(const diti_pass *p, const diti_gated_block *w, diti_tensor x, diti_tensor cosines,
                               diti_tensor sines) {
    const diti_zimage_config *config = &diti_zimage_of(p->model)->config;
    diti_graph *graph = p->graph;
    uint32_t rows = diti_tensor_rows(graph, x), width = p->width;
    diti_linear_desc linear = DITI_ZERO;
    diti_qkv_desc post = DITI_ZERO;
    diti_attention_desc attention = DITI_ZERO;
    diti_tensor h, up;
    linear.name = "refiner_qkv";
    h = diti_rms_norm(graph, x, &w->before[0].weight, config->eps, diti_fused_linear_reader(&w->qkv), "refiner_norm");
    h = diti_linear_fused(graph, h, &w->qkv, &linear);
    post.heads = 2 * config->heads;
    post.head_dim = config->head_dim;
    post.norm = DITI_QKV_RMS;
    post.eps = config->eps;
    post.weight = &w->norms;
    post.kinds = 2;
    post.cosines = cosines;
    post.sines = sines;
    post.tokens = rows;
    post.name = "refiner_heads";
    diti_qk_norm_rope(graph, diti_tensor_view(graph, h, 0, rows, 0, 2 * width), &post);
    attention.batch = p->step->text_batch;
    attention.heads = config->heads;
    attention.head_dim = config->head_dim;
    attention.scale = 1.0f / sqrtf((float)config->head_dim);
    attention.items = diti_zimage_state_of(p->step)->order.items;
    attention.key_limit = p->step->text_tokens;
    attention.name = "refiner_attention";
    h = diti_attention(graph, diti_tensor_view(graph, h, 0, rows, 0, width),
                       diti_tensor_view(graph, h, 0, rows, width, width),
                       diti_tensor_view(graph, h, 0, rows, 2 * width, width), &attention);
    h = diti_layer_f32(graph, h, &w->out, DITI_ACTIVATION_NONE, 0, "refiner_out");
    diti_norm_behind(graph, x, h, &w->behind[0].weight, config->eps, 0);
    h = diti_rms_norm(graph, x, &w->before[1].weight, config->eps, NULL, "refiner_norm");
    up = diti_layer_run(graph, h, &w->ff_in, DITI_ACTIVATION_NONE, "refiner_in");
    memset(&linear, 0, sizeof linear);
    linear.activation = DITI_ACTIVATION_SILU;
    linear.multiply = up;
    linear.name = "refiner_gate";
    h = diti_linear(graph, h, &w->ff_gate.weight, &linear);
    h = diti_layer_f32(graph, h, &w->ff_out, DITI_ACTIVATION_NONE, 0, "refiner_ff_out");
    diti_norm_behind(graph, x, h, &w->behind[1].weight, config->eps, 0);
}

/* The text as blocks read it: F32 [prompts * text rows, D], what fills a place in front of it. */
static diti_tensor diti_zimage_text(diti_pass *p) {
    const diti_zimage *model = diti_zimage_of(p->model);
    const diti_zimage_config *config = &model->config;
    const diti_zimage_state *state = diti_zimage_state_of(p->step);
    diti_graph *graph = p->graph;
    uint32_t rows = diti_tensor_rows(graph, p->step->text), i;
    diti_tensor text = diti_tensor_view(graph, p->step->text, 0, rows, 0, config->text), all, cosines, sines;
    all = diti_tensor_new(graph, DITI_F32, rows + 1, p->width, "context");
    text = diti_rms_norm(graph, text, &model->text_norm, config->eps, NULL, "refiner_norm");
    diti_layer_f32(graph, text, &model->text, DITI_ACTIVATION_NONE, diti_tensor_view(graph, all, 0, rows, 0, p->width),
                   "context");
    diti_copy(graph, diti_tensor_weight(graph, &model->text_filler, 0),
              diti_tensor_view(graph, all, rows, 1, 0, p->width), "context_filler");
    all = diti_text_order_rows(p, &state->order, all);
    cosines = diti_rotation_rows_of(p, state->rotations[0].cosines, p->step->text_batch, 0, p->step->text_tokens);
    sines = diti_rotation_rows_of(p, state->rotations[0].sines, p->step->text_batch, 0, p->step->text_tokens);
    for (i = 0; i < config->refiners && !diti_graph_failed(graph); i++)
        diti_zimage_refine(p, &model->blocks[config->refiners + config->blocks + i], all, cosines, sines);
    return all;
}

/* Rows that fill the image's last group of tokens, F32 [lead, D]. */
static diti_tensor diti_zimage_filler(const diti_pass *p, uint32_t lead) {
    diti_tensor rows = diti_tensor_new(p->graph, DITI_F32, lead, p->width, "filler");
    diti_fill_zeros(p->graph, rows);
    return diti_add_rows(p->graph, rows, diti_tensor_weight(p->graph, &diti_zimage_of(p->model)->filler, 0), 0,
                         "filler");
}

static void diti_zimage_prepare(diti_pass *p) {
    const diti_zimage *model = diti_zimage_of(p->model);
    const diti_zimage_config *config = &model->config;
    diti_step_desc *step = p->step;
    diti_graph *graph = p->graph;
    uint32_t tokens = step->height / 2 * (step->width / 2), rows;
    diti_zimage_state *state = diti_zimage_state_of(step);
    diti_tensor time;
    step->lead = (DITI_ZIMAGE_UNIT - tokens % DITI_ZIMAGE_UNIT) % DITI_ZIMAGE_UNIT;
    rows = step->text_tokens + step->lead + tokens;
    state->sinusoids = diti_tensor_input(graph, DITI_F32, step->steps, 256, "timesteps");
    diti_rotation_prepare(graph, &state->rotations[0], step->text_batch * rows, config->head_dim / 2);
    diti_text_order_prepare(p, &state->order);
    time = diti_embed(graph, &model->time, state->sinusoids, 0);
    state->final = diti_gated_prepare(p, &state->adaln, model->blocks, time, &model->final_modulation);
    state->text = diti_zimage_text(p);
    if (step->lead) step->lead_rows = diti_zimage_filler(p, step->lead);
}

/* ---- inputs ---- */

/* A text's tokens stand behind each other from 1 on, the picture at the next place, what fills it at the origin. */
static void diti_zimage_place(const diti_transformer *transformer, const diti_step_desc *step, uint32_t prompt,
                              float *cosines, float *sines) {
    const diti_zimage_config *config = &diti_zimage_of(transformer)->config;
    uint32_t half = config->head_dim / 2, texts = step->text_tokens, columns = step->width / 2, row;
    uint32_t rows = texts + step->lead + step->height / 2 * columns;
    uint32_t length = diti_text_order_length(step, prompt, DITI_ZIMAGE_UNIT);
    for (row = 0; row < rows; row++) {
        int32_t position[DITI_ZIMAGE_AXES] = {0, 0, 0};
        size_t at = ((size_t)prompt * rows + row) * half;
        if (row < texts && row >= texts - length) position[0] = (int32_t)(1 + row - (texts - length));
        if (row >= texts + step->lead) {
            uint32_t token = row - texts - step->lead;
            position[0] = (int32_t)(length + 1);
            position[1] = (int32_t)(token / columns);
            position[2] = (int32_t)(token % columns);
        }
        diti_rotate_axes(config->axes, DITI_ZIMAGE_AXES, (double)config->theta, position, cosines + at, sines + at);
    }
}

/* The model counts time from noise, 0, to the picture, 1. */
static dit_result diti_zimage_write_inputs(const diti_transformer *transformer, diti_plan *plan,
                                           const diti_step_desc *step, const float *timesteps, dit_error *err) {
    const diti_zimage *model = diti_zimage_of(transformer);
    const diti_zimage_state *state = (const diti_zimage_state *)step->family;
    const diti_env *env = &model->base.component.env;
    float *times;
    uint32_t i;
    dit_result result;
    DITI_TRY(diti_text_order_write(plan, step, &state->order, env, DITI_ZIMAGE_UNIT, diti_image_rows(step), err));
    DITI_TRY(diti_write_places(transformer, plan, step, state->rotations[0].cosines, state->rotations[0].sines,
                               step->text_batch, diti_zimage_place, err));
    times = (float *)diti_alloc_array(env, step->steps, sizeof *times);
    if (!times) return diti_fail_memory(err, "the timesteps");
    for (i = 0; i < step->steps; i++) times[i] = (1000.0f - timesteps[i]) / 1000.0f * model->config.time_scale;
    result = diti_write_sinusoids(plan, state->sinusoids, times, step->steps, 0, err);
    diti_free(env, times);
    return result;
}

/* ---- one evaluation ---- */

static void diti_zimage_begin(diti_pass *p) {
    diti_zimage_state *state = diti_zimage_state_of(p->step);
    diti_rotation_begin_both(p, state->rotations);
    diti_adaln_select_gates(p, &state->adaln);
}

static diti_tensor diti_zimage_embed(diti_pass *p) {
    return diti_patch_embed(p, diti_zimage_state_of(p->step)->text, &diti_zimage_of(p->model)->patch, 0);
}

/* ZImageTransformerBlock.forward, docs/models.md 3.12 step 3; x F32 [items * (text + image), D] is changed in place. */
static diti_tensor diti_zimage_run_block(diti_pass *p, diti_tensor x) {
    const diti_zimage *model = diti_zimage_of(p->model);
    const diti_zimage_state *state = diti_zimage_state_of(p->step);
    uint32_t stream = p->index < model->config.refiners ? (uint32_t)DITI_JOINT_IMAGE : (uint32_t)DITI_JOINT_TEXT;
    diti_rotation_apply(p, &state->rotations[stream]);
    if (stream == DITI_JOINT_TEXT) p->keys = diti_text_order_keys(p, &state->order);
    diti_gated_block_run(p, &model->blocks[p->index], &state->adaln, x);
    return x;
}

static diti_tensor diti_zimage_final(diti_pass *p, diti_tensor x) {
    return diti_gated_final(p, x, diti_zimage_state_of(p->step)->final, &diti_zimage_of(p->model)->last);
}

/* ---- where parts of such models are ---- */

#define DITI_ZIMAGE_TURBO "Tongyi-MAI/Z-Image-Turbo"
static const diti_place diti_zimage_places[] = {
    {"", DIT_ROLE_TRANSFORMER, DITI_ZIMAGE_TURBO ": transformer/"},
    {"", DIT_ROLE_TEXT_1, DITI_ZIMAGE_TURBO ": text_encoder/, or unsloth/Qwen3-4B-GGUF: Qwen3-4B-Q4_K_M.gguf"},
    {"", DIT_ROLE_VAE, DITI_ZIMAGE_TURBO ": vae/"},
    {"", DIT_ROLE_TOKENIZER_1, DITI_ZIMAGE_TURBO ": tokenizer/"},
    {"", DIT_ROLE_SCHEDULER, DITI_ZIMAGE_TURBO ": scheduler/"},
    {NULL, DIT_ROLE_NONE, NULL},
};

DIT_INTERNAL const diti_family *diti_zimage_family(void) {
    static const diti_family family = {
        "zimage",
        "Z-Image",
        {"ZImageTransformer2DModel",
         NULL,
         {"all_x_embedder.2-1.weight", "cap_pad_token", "layers.0.attention.to_q.weight", NULL},
         {"x_pad_token", "cap_embedder.1.weight", "layers.0.attention.qkv.weight", NULL},
         {NULL, NULL}},
        {"transformer", "transformer", sizeof(diti_zimage), diti_zimage_read, diti_zimage_load, NULL},
        diti_zimage_names,
        {16, 0.3611f, 0.1159f, false},
        NULL,
        diti_zimage_chats,
        diti_zimage_places,
        sizeof(diti_zimage_state),
        diti_zimage_prepare,
        diti_zimage_begin,
        diti_zimage_embed,
        diti_zimage_run_block,
        diti_zimage_final,
        diti_zimage_write_inputs};
    return &family;
}
