/* Kandinsky 5.0 text-to-image, text-to-video and image-to-video: docs/models.md 3.23. Original:
   https://github.com/huggingface/diffusers/blob/v0.42.1/src/diffusers/models/transformers/transformer_kandinsky.py

   D is the width of the residual stream. The text passes blocks of its own, which depend on the timestep; the image
   attends what comes out of them. Texts stand at the end of their places. Models of clips read a latent, zeros of its
   size and a mask, which is 1 in the first frame where that is a given picture's. */
#include "model/model.h"
#include "text/text.h"

#define DITI_KANDINSKY_MAX_BLOCKS 128u
#define DITI_KANDINSKY_MAX_TEXT_BLOCKS 8u
#define DITI_KANDINSKY_AXES 3u
#define DITI_KANDINSKY_IMAGE_WIDTH 2560u /* published models of pictures have it; those of clips have 1792 and 4096 */

/* ---- configuration ---- */

typedef struct diti_kandinsky_config {
    uint32_t blocks, text_blocks, heads, head_dim, width, feed; /* width: D; feed: columns of the feed-forward */
    uint32_t columns, channels;         /* columns: a patch has so many on the way in; channels: the latent */
    uint32_t time, text, pooled;        /* columns of the condition, and of the text encoders' outputs */
    uint32_t axes[DITI_KANDINSKY_AXES]; /* channels of a head that rotate by frame, y, x */
    uint32_t out;                       /* columns that the last layer makes */
} diti_kandinsky_config;

/* ---- weights; all files have the original's names ---- */

typedef struct diti_kandinsky_text_block {
    diti_layer modulation;    /* [6D, time] */
    diti_fused_linear qkv;    /* [3D, D] */
    diti_weight norms;        /* F32 [2, head_dim]: of queries, of keys */
    diti_layer out;           /* [D, D] */
    diti_layer ff_in, ff_out; /* [feed, D], [D, feed] */
} diti_kandinsky_text_block;

typedef struct diti_kandinsky_block {
    diti_layer modulation;           /* [9D, time]: of attention, of that to the text, of the feed-forward */
    diti_fused_linear qkv;           /* [3D, D] */
    diti_weight norms;               /* F32 [2, head_dim] */
    diti_layer out;                  /* [D, D] */
    diti_layer text_q, text_out;     /* [D, D] each */
    diti_fused_linear text_kv;       /* [2D, D] */
    diti_weight q_norm, k_norm;      /* F32 [1, head_dim]: of attention to the text */
    diti_layer ff_in, ff_out;        /* [feed, D], [D, feed] */
    diti_sublayer self, cross, feed; /* attention of the image, to the text; feed-forward */
} diti_kandinsky_block;

typedef struct diti_kandinsky {
    diti_transformer base;
    diti_kandinsky_config config;
    diti_layer patch, text, pooled;    /* [D, columns], [D, text], [time, pooled] */
    diti_layer text_norm, pooled_norm; /* [D], [time] */
    diti_layer time_in, time_out;      /* [time, D], [time, time] */
    diti_kandinsky_text_block text_blocks[DITI_KANDINSKY_MAX_TEXT_BLOCKS];
    diti_kandinsky_block *blocks;
    diti_layer final_modulation; /* [2D, time]: shift, scale */
    diti_layer proj_out;         /* [4 * channels, D] */
    diti_sublayer last;
} diti_kandinsky;

/* Norms of tokens add the first one, those of heads the other one, the smallest step from 1 on. */
#define DITI_KANDINSKY_EPS 1e-5f
#define DITI_KANDINSKY_HEAD_EPS 1.1920929e-7f

#define diti_kandinsky_of(transformer) ((const diti_kandinsky *)(const void *)(transformer))

/* ---- reading the configuration: what config.json does not say comes from shapes ---- */

static dit_result diti_kandinsky_check(const diti_loader *loader, const diti_kandinsky_config *config, dit_error *err) {
    static const diti_need needs[] = {{offsetof(diti_kandinsky_config, blocks), "visual_transformer_blocks"},
                                      {offsetof(diti_kandinsky_config, feed), "visual_transformer_blocks"},
                                      {offsetof(diti_kandinsky_config, text_blocks), "text_transformer_blocks"},
                                      {offsetof(diti_kandinsky_config, text), "text_embeddings"},
                                      {offsetof(diti_kandinsky_config, pooled), "pooled_text_embeddings"},
                                      {offsetof(diti_kandinsky_config, time), "time_embeddings"},
                                      {offsetof(diti_kandinsky_config, head_dim), "norms of queries"},
                                      {offsetof(diti_kandinsky_config, width), "visual_embeddings or out_layer"},
                                      {offsetof(diti_kandinsky_config, columns), "visual_embeddings or out_layer"},
                                      {offsetof(diti_kandinsky_config, out), "visual_embeddings or out_layer"}};
    DITI_TRY(diti_config_complete(loader, config, "Kandinsky 5", needs, DITI_COUNT(needs), err));
    if (config->columns != config->out &&
        (config->columns != 2 * config->out + 4 || config->width == DITI_KANDINSKY_IMAGE_WIDTH))
        return diti_loader_refuse(
            loader, err,
            "a Kandinsky 5 transformer of width %u that takes %u columns of patches and makes %u; those "
            "that edit a picture are not supported; use Kandinsky-5.0-T2I or Kandinsky-5.0-T2V",
            (unsigned)config->width, (unsigned)config->columns, (unsigned)config->out);
    if (config->out % 4 || config->out > 1024 || config->width % config->head_dim || config->head_dim > 256 ||
        config->head_dim % 8 || config->width % 4 || config->blocks > DITI_KANDINSKY_MAX_BLOCKS ||
        config->text_blocks > DITI_KANDINSKY_MAX_TEXT_BLOCKS)
        return diti_loader_refuse(
            loader, err,
            "a Kandinsky 5 transformer of %u + %u blocks, heads of %u in a width of %u and %u columns "
            "of patches is out of range",
            (unsigned)config->text_blocks, (unsigned)config->blocks, (unsigned)config->head_dim,
            (unsigned)config->width, (unsigned)config->out);
    return DIT_OK;
}

static dit_result diti_kandinsky_read(diti_component *component, diti_loader *loader, const diti_json *json,
                                      dit_error *err) {
    static const diti_shape_key keys[] = {
        {offsetof(diti_kandinsky_config, out), "out_layer.out_layer.weight", 0},
        {offsetof(diti_kandinsky_config, width), "visual_embeddings.in_layer.weight", 0},
        {offsetof(diti_kandinsky_config, columns), "visual_embeddings.in_layer.weight", 1},
        {offsetof(diti_kandinsky_config, text), "text_embeddings.in_layer.weight", 1},
        {offsetof(diti_kandinsky_config, pooled), "pooled_text_embeddings.in_layer.weight", 1},
        {offsetof(diti_kandinsky_config, time), "time_embeddings.out_layer.weight", 0},
        {offsetof(diti_kandinsky_config, feed), "visual_transformer_blocks.0.feed_forward.in_layer.weight", 0},
        {offsetof(diti_kandinsky_config, head_dim), "visual_transformer_blocks.0.self_attention.query_norm.weight", 0}};
    diti_kandinsky_config *config = &((diti_kandinsky *)(void *)component)->config;
    diti_settings settings = diti_settings_of(json, "the transformer's config.json", err);
    diti_read_shapes(loader, config, keys, DITI_COUNT(keys));
    config->blocks = diti_loader_layers(loader, &settings, "num_visual_blocks", "visual_transformer_blocks.",
                                        ".visual_modulation.out_layer.weight");
    config->text_blocks = diti_loader_layers(loader, &settings, "num_text_blocks", "text_transformer_blocks.",
                                             ".text_modulation.out_layer.weight");
    DITI_TRY(diti_kandinsky_check(loader, config, err));
    config->heads = config->width / config->head_dim;
    config->channels = config->out / 4;
    diti_settings_check_words(&settings, "attention_type", "regular");
    if (diti_setting_size(&settings, "in_visual_dim", config->channels, 1024) != config->channels)
        diti_settings_refuse(&settings, DIT_ERROR_UNSUPPORTED_MODEL, "in_visual_dim",
                             "only patches of 2 x 2 in one frame are known");
    /* As published, 32, 48 and 48 of 128; the same shares of other heads. */
    return diti_setting_axes(&settings, "Kandinsky 5", "axes_dims", config->head_dim, config->head_dim / 4,
                             config->head_dim / 8 * 3, DITI_KANDINSKY_AXES, config->axes, err);
}

/* ---- loading ---- */

static void diti_kandinsky_load_text_block(diti_loader *loader, const diti_kandinsky_config *config,
                                           diti_kandinsky_text_block *block, uint32_t index) {
    static const char *const qkv[] = {"self_attention.to_query", "self_attention.to_key", "self_attention.to_value"};
    static const char *const norms[] = {"self_attention.query_norm.weight", "self_attention.key_norm.weight"};
    uint32_t width = config->width;
    diti_loader_scope(loader, "text_transformer_blocks.%u.", (unsigned)index);
    diti_load_layer(loader, &block->modulation, 6 * width, config->time, 1, "text_modulation.out_layer");
    diti_load_fused_linear(loader, &block->qkv, qkv, 3, width, width, true);
    diti_load_vectors(loader, &block->norms, norms, 2, config->head_dim);
    diti_load_layer(loader, &block->out, width, width, 1, "self_attention.out_layer");
    diti_load_bare(loader, &block->ff_in, config->feed, width, "feed_forward.in_layer");
    diti_load_bare(loader, &block->ff_out, width, config->feed, "feed_forward.out_layer");
    diti_loader_scope_end(loader);
}

static void diti_kandinsky_load_block(diti_loader *loader, const diti_kandinsky_config *config,
                                      diti_kandinsky_block *block, uint32_t index) {
    static const char *const qkv[] = {"self_attention.to_query", "self_attention.to_key", "self_attention.to_value"};
    static const char *const norms[] = {"self_attention.query_norm.weight", "self_attention.key_norm.weight"};
    static const char *const kv[] = {"cross_attention.to_key", "cross_attention.to_value"};
    uint32_t width = config->width;
    diti_loader_scope(loader, "visual_transformer_blocks.%u.", (unsigned)index);
    diti_load_layer(loader, &block->modulation, 9 * width, config->time, 1, "visual_modulation.out_layer");
    diti_load_fused_linear(loader, &block->qkv, qkv, 3, width, width, true);
    diti_load_vectors(loader, &block->norms, norms, 2, config->head_dim);
    diti_load_layer(loader, &block->out, width, width, 1, "self_attention.out_layer");
    diti_load_layer(loader, &block->text_q, width, width, 1, "cross_attention.to_query");
    diti_load_fused_linear(loader, &block->text_kv, kv, 2, width, width, true);
    diti_load_vector(loader, &block->q_norm, 1, config->head_dim, "cross_attention.query_norm.weight");
    diti_load_vector(loader, &block->k_norm, 1, config->head_dim, "cross_attention.key_norm.weight");
    diti_load_layer(loader, &block->text_out, width, width, 1, "cross_attention.out_layer");
    diti_load_bare(loader, &block->ff_in, config->feed, width, "feed_forward.in_layer");
    diti_load_bare(loader, &block->ff_out, width, config->feed, "feed_forward.out_layer");
    diti_loader_scope_end(loader);
    diti_make_attention(&block->self, DITI_STREAMS_ONE, &block->qkv, &block->out, width, config->head_dim);
    block->self.norms = &block->norms;
    block->self.norm_eps = DITI_KANDINSKY_HEAD_EPS;
    diti_make_text_attention(&block->cross, &block->self, &block->text_q, &block->text_out, width, config->head_dim);
    diti_make_feed(&block->feed, DITI_STREAMS_ONE, &block->ff_in, &block->ff_out);
    block->feed.activation = DITI_ACTIVATION_GELU_ERF;
    block->self.eps = block->cross.eps = block->feed.eps = DITI_KANDINSKY_EPS;
}

static void diti_kandinsky_load_weights(diti_loader *loader, diti_kandinsky *model) {
    const diti_kandinsky_config *config = &model->config;
    uint32_t i, width = config->width;
    diti_load_layer(loader, &model->patch, width, config->columns, 1, "visual_embeddings.in_layer");
    diti_load_layer(loader, &model->text, width, config->text, 1, "text_embeddings.in_layer");
    diti_load_norm(loader, &model->text_norm, width, "text_embeddings.norm");
    diti_load_layer(loader, &model->pooled, config->time, config->pooled, 1, "pooled_text_embeddings.in_layer");
    diti_load_norm(loader, &model->pooled_norm, config->time, "pooled_text_embeddings.norm");
    diti_load_layer(loader, &model->time_in, config->time, width, 1, "time_embeddings.in_layer");
    diti_load_layer(loader, &model->time_out, config->time, config->time, 1, "time_embeddings.out_layer");
    for (i = 0; i < config->text_blocks; i++) diti_kandinsky_load_text_block(loader, config, &model->text_blocks[i], i);
    for (i = 0; i < config->blocks; i++) diti_kandinsky_load_block(loader, config, &model->blocks[i], i);
    diti_load_layer(loader, &model->final_modulation, 2 * width, config->time, 1, "out_layer.modulation.out_layer");
    diti_load_layer(loader, &model->proj_out, 4 * config->channels, width, 1, "out_layer.out_layer");
    diti_make_output(&model->last, DITI_STREAMS_ONE, &model->proj_out);
    model->last.eps = DITI_KANDINSKY_EPS;
}

/* ---- how its language model is asked (docs/models.md 5.5) ---- */

#define DITI_KANDINSKY_IMAGE                                                                                           \
    DITI_CHAT_SYSTEM "You are a prompt engineer. Describe the image by detailing the color, shape, size, texture, "    \
                     "quantity, text, spatial relationships of the objects and background:<|im_end|>\n" DITI_CHAT_USER

#define DITI_KANDINSKY_CLIP                                                                                            \
    DITI_CHAT_SYSTEM                                                                                                   \
    "You are a prompt engineer. Describe the video in detail.\n"                                                       \
    "Describe how the camera moves or shakes, describe the zoom and view angle, whether it follows the objects.\n"     \
    "Describe the location of the video, main characters or objects and their action.\n"                               \
    "Describe the dynamism of the video and presented actions.\n"                                                      \
    "Name the visual style of the video: whether it is a professional footage, user generated content, some kind of "  \
    "animation, video game or scren content.\n"                                                                        \
    "Describe the visual effects, postprocessing and transitions if they are presented in the video.\n"                \
    "Pay attention to the order of key actions shown in the scene.<|im_end|>\n" DITI_CHAT_USER

static const diti_chat diti_kandinsky_chats[] = {
    {"Kandinsky5T2IPipeline",
     DITI_KANDINSKY_IMAGE,
     "<|im_end|>",
     NULL,
     DITI_KANDINSKY_IMAGE,
     "",
     512,
     false,
     0,
     {1, 0, {-1}, false},
     0},
    {"Kandinsky5T2VPipeline Kandinsky5I2VPipeline",
     DITI_KANDINSKY_CLIP,
     "<|im_end|>",
     NULL,
     DITI_KANDINSKY_CLIP,
     "",
     512,
     false,
     0,
     {1, 0, {-1}, false},
     0},
    DITI_CHATS_END,
};

static const char diti_kandinsky_negative[] =
    "Static, 2D cartoon, cartoon, 2d animation, paintings, images, worst quality, low quality, ugly, deformed, "
    "walking backwards";

/* Models of clips have HunyuanVideo's autoencoder. */
static void diti_kandinsky_set_clips(diti_model_traits *traits) {
    traits->variant = "5.0-t2v";
    traits->default_size = 64;
    traits->default_columns = 96;
    traits->default_frames = 31;
    traits->default_fps = 24;
    traits->chat = &diti_kandinsky_chats[1];
    traits->latents.channels = traits->latent_channels;
    traits->latents.scale = 0.476986f;
    traits->scheduler = "{\"_class_name\":\"FlowMatchEulerDiscreteScheduler\",\"shift\":10.0}";
    traits->default_guidance = 5;
    traits->negative = diti_kandinsky_negative;
    traits->always_negative = true;
    traits->fixes_first = traits->given_last = traits->evens_first = true;
}

static void diti_kandinsky_set_traits(diti_kandinsky *model) {
    const diti_kandinsky_config *config = &model->config;
    diti_model_traits *traits = &model->base.traits;
    traits->variant = "5.0-t2i";
    diti_traits_sizes(traits, config->blocks, config->width, config->heads, config->channels, 2);
    traits->feed = config->feed;
    traits->default_size = 128;
    diti_traits_chat(traits, DITI_ENCODER_QWEN2_VL, &diti_kandinsky_chats[0], config->text, 1);
    traits->pooled_columns = config->pooled;
    traits->encoders[1] = DITI_ENCODER_CLIP_L;
    traits->mends_prompts = true;
    traits->scheduler = "{\"_class_name\":\"FlowMatchEulerDiscreteScheduler\",\"shift\":3.0}";
    traits->default_steps = 50;
    traits->default_guidance = 3.5f;
    traits->channels_last = traits->planar = true;
    traits->attends_padding = traits->masks_padding = true;
    traits->unshifted = true;
    traits->noise_by_token = true;
    if (config->columns > 4 * config->channels) diti_kandinsky_set_clips(traits);
}

static void diti_kandinsky_load(diti_component *component, diti_loader *loader) {
    diti_kandinsky *model = (diti_kandinsky *)(void *)component;
    model->blocks =
        (diti_kandinsky_block *)diti_component_array(component, loader, model->config.blocks, sizeof *model->blocks);
    if (!model->blocks) return;
    diti_kandinsky_load_weights(loader, model);
    diti_kandinsky_set_traits(model);
}

/* ---- once per picture: everything that does not depend on the latent ---- */

typedef struct diti_kandinsky_state { /* prepare leaves these for the steps */
    diti_tensor sinusoids;            /* input F32 [steps * prompts, D] */
    diti_rotation rotation;           /* [tokens, head_dim / 2] */
    diti_tensor wide; /* state F32 [batch * channels read, frames * h * w]: latents, zeros behind each; 0: the latent
                         will do */
    diti_tensor text_cosines, text_sines; /* inputs F32 [prompts * text tokens, head_dim / 2] */
    diti_text_order order;
    diti_adaln adaln, text_adaln; /* modulation: the image's blocks and the last norm, the text's blocks */
    diti_tensor embedded;         /* F32 [prompts * text tokens, D], before the text's blocks */
    diti_tensor text;             /* behind them, in the step at hand */
} diti_kandinsky_state;

#define diti_kandinsky_state_of(step) ((diti_kandinsky_state *)(step)->family)

/* norm(layer(x)), F32. */
static diti_tensor diti_kandinsky_embed_text(const diti_pass *p, diti_tensor x, const diti_layer *layer,
                                             const diti_layer *norm) {
    diti_norm_desc desc = DITI_ZERO;
    desc.weight = &norm->weight;
    desc.bias = &norm->bias;
    desc.eps = DITI_KANDINSKY_EPS;
    desc.out_f32 = true;
    desc.name = "text_norm";
    return diti_norm(p->graph, diti_layer_f32(p->graph, x, layer, DITI_ACTIVATION_NONE, 0, "text_in"), &desc);
}

/* The vector that all modulations are linear in, F32 [steps * prompts, time]. */
static diti_tensor diti_kandinsky_condition(const diti_pass *p, diti_tensor sinusoids) {
    const diti_kandinsky *model = diti_kandinsky_of(p->model);
    diti_tensor time = diti_layer_f32(p->graph, sinusoids, &model->time_in, DITI_ACTIVATION_SILU, 0, "time_in"), pooled;
    time = diti_layer_f32(p->graph, time, &model->time_out, DITI_ACTIVATION_NONE, 0, "time_out");
    pooled = diti_kandinsky_embed_text(p, p->step->pooled, &model->pooled, &model->pooled_norm);
    return diti_silu(p->graph, diti_add_rows(p->graph, time, pooled, 0, "condition"), "modulation_silu");
}

/* The mask of the first frame, which is that of a given picture. */
static void diti_kandinsky_mark(const diti_pass *p) {
    const diti_kandinsky_config *config = &diti_kandinsky_of(p->model)->config;
    uint32_t area = p->step->height * p->step->width, all = config->columns / 4, i;
    diti_elementwise_desc ones = DITI_ZERO;
    ones.offset = 1;
    ones.name = "mask of the given frame";
    diti_fill_zeros(p->graph, diti_kandinsky_state_of(p->step)->wide);
    for (i = 0; i < p->step->batch && !diti_graph_failed(p->graph); i++) {
        ones.out = diti_tensor_view(p->graph, diti_kandinsky_state_of(p->step)->wide, (i + 1) * all - 1, 1, 0, area);
        diti_elementwise(p->graph, ones.out, &ones);
    }
}

static void diti_kandinsky_prepare(diti_pass *p) {
    const diti_kandinsky *model = diti_kandinsky_of(p->model);
    const diti_kandinsky_config *config = &model->config;
    const diti_step_desc *step = p->step;
    diti_graph *graph = p->graph;
    diti_token_grid grid = diti_transformer_grid(p->model, step);
    uint32_t prompts = step->text_batch, rows = prompts * step->text_tokens, half = config->head_dim / 2, i, end;
    uint32_t tokens = grid.frames * grid.rows * grid.columns;
    diti_kandinsky_state *state = diti_kandinsky_state_of(step);
    diti_tensor condition, text;
    state->sinusoids = diti_tensor_input(graph, DITI_F32, step->steps * prompts, config->width, "timesteps");
    diti_rotation_prepare(graph, &state->rotation, tokens, half);
    if (config->columns > 4 * config->channels)
        state->wide = diti_tensor_state(graph, DITI_F32, step->batch * (config->columns / 4), 4 * tokens, "wide");
    if (state->wide && step->fixed) diti_kandinsky_mark(p);
    state->text_cosines = diti_tensor_input(graph, DITI_F32, rows, half, "text_cosines");
    state->text_sines = diti_tensor_input(graph, DITI_F32, rows, half, "text_sines");
    state->order.items = diti_tensor_input(graph, DITI_U32, prompts, DITI_ITEM_WORDS, "text_items");
    state->order.order = diti_tensor_input(graph, DITI_U32, 1, rows, "text_order");
    state->order.keys = diti_tensor_input(graph, DITI_U32, step->branches * step->batch, DITI_ITEM_WORDS, "text_keys");
    condition = diti_kandinsky_condition(p, state->sinusoids);
    diti_axes_blocks(step->axes, config->blocks, &i, &end);
    for (state->adaln.first = i; i < end; i++) diti_adaln_add(&state->adaln, &model->blocks[i].modulation);
    diti_adaln_add(&state->adaln, &model->final_modulation);
    for (i = 0; i < config->text_blocks; i++) diti_adaln_add(&state->text_adaln, &model->text_blocks[i].modulation);
    diti_adaln_prepare_active(p, &state->adaln, condition, prompts);
    diti_adaln_prepare_active(p, &state->text_adaln, condition, prompts);
    text = diti_text_columns(p, config->text);
    text = diti_kandinsky_embed_text(p, text, &model->text, &model->text_norm);
    state->embedded = diti_text_order_rows(p, &state->order, text);
}

/* ---- inputs ---- */

/* Lines and columns of clips are closer together: their positions are divided by this (_get_scale_factor of
   Kandinsky5T2VPipeline). */
static double diti_kandinsky_spacing(const diti_kandinsky_config *config, uint32_t height, uint32_t width) {
    bool dense = height >= 480 && height <= 854 && width >= 480 && width <= 854;
    if (config->columns == 4 * config->channels) return 1;
    return dense ? 2 : 3.16;
}

/* The next pairs' turns of one token, which stands at `position` of an axis with so many channels. */
static void diti_kandinsky_turn(double position, uint32_t axis, float *cosines, float *sines) {
    uint32_t i;
    for (i = 0; i < axis / 2; i++) {
        double angle = position * pow(10000, -2.0 * i / axis);
        cosines[i] = (float)cos(angle);
        sines[i] = (float)sin(angle);
    }
}

/* The clip's tokens stand at (frame, y, x). */
static void diti_kandinsky_place(const diti_transformer *transformer, const diti_step_desc *step, uint32_t prompt,
                                 float *cosines, float *sines) {
    const diti_kandinsky_config *config = &diti_kandinsky_of(transformer)->config;
    diti_token_grid grid = diti_transformer_grid(transformer, step);
    uint32_t plane = grid.rows * grid.columns, row, i;
    double spacing = diti_kandinsky_spacing(config, 8 * step->height, 8 * step->width);
    (void)prompt;
    for (row = 0; row < grid.frames * plane; row++) {
        const double at[DITI_KANDINSKY_AXES] = {(double)(row / plane), row % plane / grid.columns / spacing,
                                                row % grid.columns / spacing};
        for (i = 0; i < DITI_KANDINSKY_AXES; cosines += config->axes[i] / 2, sines += config->axes[i++] / 2)
            diti_kandinsky_turn(at[i], config->axes[i], cosines, sines);
    }
}

/* A prompt's tokens stand behind each other, and at the end of its rows. */
static void diti_kandinsky_place_text(const diti_transformer *transformer, const diti_step_desc *step, uint32_t prompt,
                                      float *cosines, float *sines) {
    uint32_t width = diti_kandinsky_of(transformer)->config.head_dim, texts = step->text_tokens, row;
    uint32_t pad = texts - diti_text_order_length(step, prompt, 1);
    for (row = 0; row < texts; row++) {
        size_t to = ((size_t)prompt * texts + row) * (width / 2);
        diti_kandinsky_turn(row < pad ? 0 : row - pad, width, cosines + to, sines + to);
    }
}

static dit_result diti_kandinsky_write_inputs(const diti_transformer *transformer, diti_plan *plan,
                                              const diti_step_desc *step, const float *timesteps, dit_error *err) {
    const diti_kandinsky *model = diti_kandinsky_of(transformer);
    const diti_kandinsky_state *state = (const diti_kandinsky_state *)step->family;
    DITI_TRY(diti_text_order_write(plan, step, &state->order, &model->base.component.env, 1, 0, err));
    DITI_TRY(diti_write_places(transformer, plan, step, state->rotation.cosines, state->rotation.sines, 1,
                               diti_kandinsky_place, err));
    DITI_TRY(diti_write_places(transformer, plan, step, state->text_cosines, state->text_sines, step->text_batch,
                               diti_kandinsky_place_text, err));
    return diti_adaln_write(plan, state->sinusoids, step, timesteps, 0, err);
}

/* ---- one evaluation ---- */

static diti_tensor diti_kandinsky_text_norm(const diti_pass *p, diti_tensor x, diti_tensor rows, uint32_t chunk) {
    uint32_t width = p->width, prompts = p->step->text_batch;
    diti_norm_desc desc = DITI_ZERO;
    desc.eps = DITI_KANDINSKY_EPS;
    desc.shift = diti_tensor_view(p->graph, rows, 0, prompts, chunk * width, width);
    desc.scale = diti_tensor_view(p->graph, rows, 0, prompts, (chunk + 1) * width, width);
    desc.rows_per_group = p->step->text_tokens;
    desc.name = "text_norm";
    return diti_norm(p->graph, x, &desc);
}

/* x += gate * layer(h), with a gate for each prompt. */
static void diti_kandinsky_text_add(const diti_pass *p, diti_tensor x, diti_tensor h, const diti_layer *layer,
                                    diti_tensor rows, uint32_t chunk) {
    diti_linear_desc desc = DITI_ZERO;
    desc.bias = &layer->bias;
    desc.gate = diti_tensor_view(p->graph, rows, 0, p->step->text_batch, chunk * p->width, p->width);
    desc.rows_per_gate = p->step->text_tokens;
    desc.residual = desc.out = x;
    desc.name = "text_out";
    diti_linear(p->graph, h, &layer->weight, &desc);
}

/* A prompt's rows attend those of them that are kept. Prompts are apart, so that whatever stands beside one changes no
   sum. */
static diti_tensor diti_kandinsky_text_attend(const diti_pass *p, diti_tensor h, const diti_kandinsky_text_block *w) {
    const diti_kandinsky_config *config = &diti_kandinsky_of(p->model)->config;
    const diti_kandinsky_state *state = diti_kandinsky_state_of(p->step);
    uint32_t prompts = p->step->text_batch, texts = p->step->text_tokens, width = p->width, i;
    diti_graph *graph = p->graph;
    diti_linear_desc fused = DITI_ZERO;
    diti_qkv_desc turn = DITI_ZERO;
    diti_attention_desc desc = DITI_ZERO;
    diti_tensor out = diti_tensor_new(graph, graph->activation, prompts * texts, width, "text_attention");
    fused.name = "text_qkv";
    h = diti_linear_fused(graph, h, &w->qkv, &fused);
    turn.heads = 2 * config->heads;
    turn.head_dim = config->head_dim;
    turn.norm = DITI_QKV_RMS;
    turn.eps = DITI_KANDINSKY_HEAD_EPS;
    turn.weight = &w->norms;
    turn.kinds = 2;
    turn.cosines = state->text_cosines;
    turn.sines = state->text_sines;
    turn.tokens = prompts * texts;
    turn.name = "text_turn";
    diti_qk_norm_rope(graph, diti_tensor_view(graph, h, 0, prompts * texts, 0, 2 * width), &turn);
    desc.batch = 1;
    desc.heads = config->heads;
    desc.head_dim = config->head_dim;
    desc.scale = 1.0f / sqrtf((float)desc.head_dim);
    desc.key_limit = texts;
    desc.name = "text_attention";
    for (i = 0; i < prompts && !diti_graph_failed(graph); i++) {
        desc.items = diti_tensor_view(graph, state->order.keys, i * p->step->batch, 1, 0, DITI_ITEM_WORDS);
        desc.out = diti_tensor_view(graph, out, i * texts, texts, 0, width);
        diti_attention(graph, diti_tensor_view(graph, h, i * texts, texts, 0, width),
                       diti_tensor_view(graph, h, i * texts, texts, width, width),
                       diti_tensor_view(graph, h, i * texts, texts, 2 * width, width), &desc);
    }
    return out;
}

/* The text's blocks for all prompts, docs/models.md 3.23 step 2: F32 [prompts * text tokens, D], padding in front. */
static diti_tensor diti_kandinsky_text(const diti_pass *p) {
    const diti_kandinsky *model = diti_kandinsky_of(p->model);
    const diti_kandinsky_state *state = diti_kandinsky_state_of(p->step);
    diti_tensor x = diti_add_rows(p->graph, state->embedded, 0, 0, "text"), h, rows;
    uint32_t i;
    for (i = 0; i < model->config.text_blocks && !diti_graph_failed(p->graph); i++) {
        const diti_kandinsky_text_block *w = &model->text_blocks[i];
        rows = diti_adaln_get(p->graph, &state->text_adaln, i);
        h = diti_kandinsky_text_attend(p, diti_kandinsky_text_norm(p, x, rows, DITI_SHIFT_MSA), w);
        diti_kandinsky_text_add(p, x, h, &w->out, rows, DITI_GATE_MSA);
        h = diti_kandinsky_text_norm(p, x, rows, DITI_SHIFT_MLP);
        h = diti_layer_run(p->graph, h, &w->ff_in, DITI_ACTIVATION_GELU_ERF, "text_ff_in");
        diti_kandinsky_text_add(p, x, h, &w->ff_out, rows, DITI_GATE_MLP);
    }
    return x;
}

static void diti_kandinsky_begin(diti_pass *p) {
    diti_kandinsky_state *state = diti_kandinsky_state_of(p->step);
    diti_rotation_begin(p, &state->rotation);
    diti_adaln_select(p, &state->adaln);
    diti_adaln_select(p, &state->text_adaln);
    if (!p->step->same_timestep) state->text = diti_kandinsky_text(p);
}

/* Patches of models of clips are the latent's, zeros and a mask's, channel by channel. */
static void diti_kandinsky_widen(diti_pass *p) {
    const diti_kandinsky_config *config = &diti_kandinsky_of(p->model)->config;
    const diti_step_desc *step = p->step;
    uint32_t channels = config->channels, all = config->columns / 4, i;
    uint32_t first = 4 * step->token_range.strip_token, count = 4 * step->token_range.strip_tokens;
    diti_tensor wide = diti_kandinsky_state_of(step)->wide;
    for (i = 0; i < step->batch && !diti_graph_failed(p->graph); i++)
        diti_copy(p->graph, diti_tensor_view(p->graph, step->latent, i * channels, channels, first, count),
                  diti_tensor_view(p->graph, wide, i * all, channels, first, count), "wide");
    p->latent = wide;
    p->channels = all;
}

static diti_tensor diti_kandinsky_embed(diti_pass *p) {
    if (diti_kandinsky_state_of(p->step)->wide) diti_kandinsky_widen(p);
    return diti_patch_embed(p, 0, &diti_kandinsky_of(p->model)->patch, 0);
}

/* RMS norm of each head, in place. */
static void diti_kandinsky_norm(const diti_pass *p, diti_tensor x, const diti_weight *weight, const char *name) {
    diti_qkv_desc desc = DITI_ZERO;
    desc.head_dim = diti_kandinsky_of(p->model)->config.head_dim;
    desc.heads = diti_tensor_columns(p->graph, x) / desc.head_dim;
    desc.norm = DITI_QKV_RMS;
    desc.eps = DITI_KANDINSKY_HEAD_EPS;
    desc.weight = weight;
    desc.name = name;
    diti_qk_norm_rope(p->graph, x, &desc);
}

/* x += gate * to_out(attention of the modulated norm to the text); pictures that share a prompt are queries of one
   attention. */
static void diti_kandinsky_attend_text(const diti_pass *p, diti_tensor x, const diti_kandinsky_block *w) {
    const diti_kandinsky_state *state = diti_kandinsky_state_of(p->step);
    const diti_sublayer *cross = &w->cross;
    uint32_t width = diti_column_shard_of(p, cross).count, rows = p->step->text_batch * p->step->text_tokens;
    diti_tensor kv = diti_sublayer_fused(p, state->text, &w->text_kv, 2, cross, "text_kv"), q;
    diti_attention_desc desc = DITI_ZERO;
    diti_kandinsky_norm(p, diti_tensor_view(p->graph, kv, 0, rows, 0, width), &w->k_norm, "text_k_norm");
    q = diti_sublayer_in(p, diti_modulate(p, x, DITI_SHIFT_MLP, DITI_SCALE_MLP, cross), cross, 0);
    diti_kandinsky_norm(p, q, &w->q_norm, "text_q_norm");
    desc.batch = p->prompts;
    desc.heads = width / cross->head_dim;
    desc.head_dim = cross->head_dim;
    desc.scale = 1.0f / sqrtf((float)cross->head_dim);
    desc.items = diti_pass_last(p, state->order.items);
    desc.key_limit = p->step->text_tokens;
    desc.name = "text_attention";
    q = diti_attention(p->graph, q, diti_tensor_view(p->graph, kv, 0, rows, 0, width),
                       diti_tensor_view(p->graph, kv, 0, rows, width, width), &desc);
    diti_sublayer_add(p, x, DITI_GATE_MLP, cross, q);
}

/* Kandinsky5TransformerDecoderBlock.forward, docs/models.md 3.23 step 3; x F32 [items * tokens, D] is changed in place.
   The modulation of attention to the text stands second, that of the feed-forward third. */
static diti_tensor diti_kandinsky_run_block(diti_pass *p, diti_tensor x) {
    const diti_kandinsky_block *w = &diti_kandinsky_of(p->model)->blocks[p->index];
    const diti_kandinsky_state *state = diti_kandinsky_state_of(p->step);
    p->modulation.rows = diti_pass_last(p, diti_adaln_get(p->graph, &state->adaln, p->index));
    diti_rotation_apply(p, &state->rotation);
    diti_block_attend(p, x, &w->self);
    diti_kandinsky_attend_text(p, x, w);
    diti_sublayer_feed(p, x, DITI_SHIFT_MSA2, DITI_SCALE_MSA2, DITI_GATE_MSA2, &w->feed);
    return x;
}

static diti_tensor diti_kandinsky_final(diti_pass *p, diti_tensor x) {
    const diti_sublayer *last = &diti_kandinsky_of(p->model)->last;
    p->modulation.rows = diti_pass_last(p, diti_adaln_last(p->graph, &diti_kandinsky_state_of(p->step)->adaln));
    return diti_output_modulated(p, x, last);
}

/* ---- where parts of such models are ---- */

#define DITI_KANDINSKY_USUAL "kandinskylab/Kandinsky-5.0-T2I-Lite-sft-Diffusers"
#define DITI_KANDINSKY_CLIPS "kandinskylab/Kandinsky-5.0-T2V-Lite-sft-5s-Diffusers"
static const diti_place diti_kandinsky_places[] = {
    {"5.0-t2v", DIT_ROLE_TRANSFORMER, DITI_KANDINSKY_CLIPS ": transformer/"},
    {"5.0-t2v", DIT_ROLE_VAE, DITI_KANDINSKY_CLIPS ": vae/"},
    {"5.0-t2v", DIT_ROLE_SCHEDULER, DITI_KANDINSKY_CLIPS ": scheduler/"},
    {"", DIT_ROLE_TRANSFORMER, DITI_KANDINSKY_USUAL ": transformer/"},
    {"", DIT_ROLE_TEXT_1, DITI_KANDINSKY_USUAL ": text_encoder/"},
    {"", DIT_ROLE_TEXT_2, DITI_KANDINSKY_USUAL ": text_encoder_2/"},
    {"", DIT_ROLE_TOKENIZER_1, DITI_KANDINSKY_USUAL ": tokenizer/"},
    {"", DIT_ROLE_TOKENIZER_2, DITI_KANDINSKY_USUAL ": tokenizer_2/"},
    {"", DIT_ROLE_VAE, DITI_KANDINSKY_USUAL ": vae/"},
    {"", DIT_ROLE_SCHEDULER, DITI_KANDINSKY_USUAL ": scheduler/"},
    {NULL, DIT_ROLE_NONE, NULL},
};

DIT_INTERNAL const diti_family *diti_kandinsky_family(void) {
    static const diti_family family = {
        "kandinsky",
        "Kandinsky 5.0",
        {"Kandinsky5Transformer3DModel",
         NULL,
         {"visual_embeddings.in_layer.weight", "text_transformer_blocks.0.text_modulation.out_layer.weight",
          "visual_transformer_blocks.0.visual_modulation.out_layer.weight", NULL},
         {"visual_embeddings.in_layer.weight", "text_transformer_blocks.0.text_modulation.out_layer.weight",
          "visual_transformer_blocks.0.visual_modulation.out_layer.weight", NULL},
         {NULL, NULL}},
        {"transformer", "transformer", sizeof(diti_kandinsky), diti_kandinsky_read, diti_kandinsky_load, NULL},
        NULL,
        {16, 0.3611f, 0, false}, /* FLUX.1's, without the shift */
        NULL,
        diti_kandinsky_chats,
        diti_kandinsky_places,
        sizeof(diti_kandinsky_state),
        diti_kandinsky_prepare,
        diti_kandinsky_begin,
        diti_kandinsky_embed,
        diti_kandinsky_run_block,
        diti_kandinsky_final,
        diti_kandinsky_write_inputs};
    return &family;
}
