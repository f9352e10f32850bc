/* MiniMax-H3: docs/models.md 3.28. Original:
   https://github.com/huggingface/diffusers/blob/v0.42.1/src/diffusers/models/transformers/transformer_minimax_h3.py

   Text, pictures and sound are one row of tokens with the same weights, in which every kind of token is modulated by
   rows of its own. Sound goes from noise to the clip by timesteps of its own. Its tokens stand in the latent as frames
   behind the clip's (diti_sound_frames), each in the first channels of a patch. The text passes blocks of its own once
   per clip. Heads rotate in their first channels alone. Pictures at the ends of a clip stand in the text, where the
   language model saw them, with the rows that modulate pictures, and once more as tokens of their latents, which are
   nearly without noise in every step. */
#include "model/model.h"
#include "text/text.h"

#define DITI_MINIMAX_MAX_BLOCKS 128u
#define DITI_MINIMAX_MAX_REFINERS 8u
#define DITI_MINIMAX_AXES 3u
#define DITI_MINIMAX_ANCHORED 0.999f /* timestep of pictures at the ends of a clip, at least */
/* Rows of a layer that modulates, and the tokens that have them. An item's tokens stand so: text, pictures at the ends
   of the clip, which have the pictures' rows at a timestep of their own, what the language model says of these,
   pictures and sound. */
enum {
    DITI_MINIMAX_VIDEO,
    DITI_MINIMAX_TEXT,
    DITI_MINIMAX_SOUND,
    DITI_MINIMAX_KINDS,
    DITI_MINIMAX_ANCHOR = DITI_MINIMAX_KINDS,
    DITI_MINIMAX_PARTS
};

/* ---- configuration ---- */

typedef struct diti_minimax_config {
    uint32_t blocks, refiners, heads, head_dim, width, feed; /* width: D, narrower than all heads */
    uint32_t columns, sound, text;                           /* columns of a patch, of a sound's token, of the text */
    uint32_t channels, inner;                                /* channels of the latent; inner: columns of all heads */
    uint32_t sinusoids, time_width, time;                    /* time: columns of the vector that modulates */
    uint32_t angles;                                         /* angles of a head for each axis */
    uint32_t curve; /* rows of a table of those vectors, which stands for their layers; 0: there are layers */
    float theta, eps, head_eps, final_eps;
} diti_minimax_config;

/* ---- key tables: names asked for here are diffusers'; single files and GGUF call them so ---- */

static const char *const diti_minimax_keys[][2] = {
    {"proj_in", "video_patch_proj"},
    {"audio_proj_in", "audio_patch_proj"},
    {"context_embedder", "condition_proj"},
    {"time_embedder.linear_1", "time_embedder.proj_in"},
    {"time_embedder.linear_2", "time_embedder.proj_out"},
    {"token_refiner.final_norm", "token_refiner.final_norm"},
    {"norm_out.norm", "final_layer.norm"},
    {"norm_out.linear", "final_layer.adaln_proj.linear"},
    {"proj_out", "final_layer.video_out"},
    {"audio_proj_out", "final_layer.audio_out"},
    {"adaln_t_table", "adaln_t_table"},
    {"rope.inv_freq", "rope.inv_freq"},
};
static const char *const diti_minimax_block_keys[][2] = {
    {"norm1", "norm1"},
    {"norm2", "norm2"},
    {"attn.qkv", "attn.qkv_proj"}, /* rows q, k, v; three matrices in diffusers */
    {"attn.norm_q", "attn.q_norm"},
    {"attn.norm_k", "attn.k_norm"},
    {"attn.to_out.0", "attn.out_proj"},
    {"ff.net.0.proj", "mlp.fc1"}, /* either has another half first */
    {"ff.net.2", "mlp.fc2"},
    {"adaln_proj", "adaln_proj"},
};
static const diti_key_table diti_minimax_names[DITI_KEY_TABLES] = {
    {"transformer_blocks.", "blocks.", diti_minimax_block_keys, DITI_COUNT(diti_minimax_block_keys)},
    {"token_refiner.refiner_blocks.", "token_refiner.blocks.", diti_minimax_block_keys,
     DITI_COUNT(diti_minimax_block_keys)},
    {NULL, NULL, diti_minimax_keys, DITI_COUNT(diti_minimax_keys)},
};

/* ---- weights ---- */

typedef struct diti_minimax_block {
    diti_layer modulation;     /* [18D, time]: for pictures, text and sound 6 each; the text's blocks have none */
    diti_layer norms[2];       /* [D]: RMS norms before attention and feed-forward */
    diti_fused_linear qkv;     /* [3 * inner, D] */
    diti_weight heads;         /* F32 [2, head_dim]: RMS norms of queries and keys */
    diti_layer out;            /* [D, inner] */
    diti_layer ff_in, ff_gate; /* [feed, D] each */
    diti_layer ff_out;         /* [D, feed] */
    diti_sublayer attention, feed;
} diti_minimax_block;

typedef struct diti_minimax {
    diti_transformer base;
    diti_minimax_config config;
    diti_layer patch, sound, text; /* [D, columns], [D, sound], [D, text] */
    diti_embedder time;            /* [time_width, sinusoids], [time, time_width] */
    float *curve;                  /* host, [config.curve, time] */
    diti_minimax_block *blocks, refiners[DITI_MINIMAX_MAX_REFINERS];
    diti_layer text_norm, final_norm; /* [D] */
    diti_layer final_modulation;      /* [2D, time]: shift, scale */
    diti_layer out, sound_out;        /* [columns, D], [sound, D] */
} diti_minimax;

#define diti_minimax_of(transformer) ((const diti_minimax *)(const void *)(transformer))

/* ---- reading the configuration: what config.json does not say comes from shapes ---- */

static dit_result diti_minimax_check(const diti_loader *loader, const diti_minimax_config *config, uint32_t out,
                                     uint32_t sound_out, dit_error *err) {
    const char *file = diti_checkpoint_name(loader->checkpoint);
    if (!config->blocks || !config->refiners || !config->width || !config->columns || !out || !config->sound ||
        !sound_out || !config->text || !config->head_dim || !config->inner || !config->feed || !config->time)
        return diti_fail(err, DIT_ERROR_UNSUPPORTED_MODEL,
                         "%s: a MiniMax-H3 transformer without %s: the file is incomplete", file,
                         !config->blocks || !config->feed ? "transformer_blocks"
                         : !config->refiners              ? "token_refiner"
                         : !config->text                  ? "context_embedder"
                         : !config->time                  ? "time_embedder or adaln_t_table"
                         : !config->head_dim              ? "norms of queries"
                         : !config->sound || !sound_out   ? "audio_proj_in or audio_proj_out"
                                                          : "proj_in or proj_out");
    if (config->columns == out && config->sound == sound_out && out % 4 == 0 && out <= 1024 && config->sound % 4 == 0 &&
        config->sound <= out && config->inner % config->head_dim == 0 && config->head_dim <= 256 &&
        config->head_dim % 4 == 0 && config->angles && config->angles % 2 == 0 && config->angles <= 64 &&
        6 * config->angles <= config->head_dim && config->width % 4 == 0 && config->blocks <= DITI_MINIMAX_MAX_BLOCKS &&
        config->refiners <= DITI_MINIMAX_MAX_REFINERS && config->curve != 1 && config->curve <= 65536)
        return DIT_OK;
    return diti_fail(
        err, DIT_ERROR_UNSUPPORTED_MODEL,
        "%s: a MiniMax-H3 transformer of %u + %u blocks, heads of %u, of which %u rotate, in a width of %u, "
        "that takes %u and %u columns and makes %u and %u, is out of range",
        file, (unsigned)config->refiners, (unsigned)config->blocks, (unsigned)config->head_dim,
        (unsigned)(6 * config->angles), (unsigned)config->width, (unsigned)config->columns, (unsigned)config->sound,
        (unsigned)out, (unsigned)sound_out);
}

static dit_result diti_minimax_read(diti_component *component, diti_loader *loader, const diti_json *json,
                                    dit_error *err) {
    static const diti_shape_key keys[] = {
        {offsetof(diti_minimax_config, width), "proj_in.weight", 0},
        {offsetof(diti_minimax_config, columns), "proj_in.weight", 1},
        {offsetof(diti_minimax_config, sound), "audio_proj_in.weight", 1},
        {offsetof(diti_minimax_config, text), "context_embedder.weight", 1},
        {offsetof(diti_minimax_config, feed), "transformer_blocks.0.ff.net.2.weight", 1},
        {offsetof(diti_minimax_config, inner), "transformer_blocks.0.attn.to_out.0.weight", 1},
        {offsetof(diti_minimax_config, head_dim), "transformer_blocks.0.attn.norm_q.weight", 0},
        {offsetof(diti_minimax_config, sinusoids), "time_embedder.linear_1.weight", 1},
        {offsetof(diti_minimax_config, time_width), "time_embedder.linear_1.weight", 0},
        {offsetof(diti_minimax_config, time), "norm_out.linear.weight", 1},
        {offsetof(diti_minimax_config, curve), "adaln_t_table", 0}};
    diti_minimax_config *config = &((diti_minimax *)(void *)component)->config;
    diti_settings settings = diti_settings_of(json, "the transformer's config.json", err);
    uint32_t angles = diti_loader_dimension(loader, "rope.inv_freq", 0);
    diti_read_shapes(loader, config, keys, DITI_COUNT(keys));
    if (!config->curve && (!config->time_width || !config->sinusoids)) config->time = 0;
    config->blocks = diti_loader_layers(loader, &settings, "num_layers", "transformer_blocks.", ".norm1.weight");
    config->refiners =
        diti_loader_layers(loader, &settings, "num_refiner_layers", "token_refiner.refiner_blocks.", ".norm1.weight");
    config->angles = diti_setting_size(&settings, "rope_freq_dim", angles ? angles : 16, 1024);
    config->theta = (float)diti_setting_number(&settings, "rope_theta", 1e4, 2, 1e9);
    config->eps = (float)diti_setting_number(&settings, "norm_eps", 1e-5, 0, 1);
    config->head_eps = (float)diti_setting_number(&settings, "qk_norm_eps", 1e-5, 0, 1);
    config->final_eps = (float)diti_setting_number(&settings, "final_norm_eps", 1e-5, 0, 1);
    if (diti_setting_size(&settings, "in_channels", config->columns / 4, 1024) != config->columns / 4)
        diti_settings_refuse(&settings, DIT_ERROR_UNSUPPORTED_MODEL, "in_channels",
                             "only patches of 2 x 2 in one frame are known");
    DITI_TRY(settings.result);
    DITI_TRY(diti_minimax_check(loader, config, diti_loader_dimension(loader, "proj_out.weight", 0),
                                diti_loader_dimension(loader, "audio_proj_out.weight", 0), err));
    config->channels = config->columns / 4;
    config->heads = config->inner / config->head_dim;
    return DIT_OK;
}

/* ---- loading ---- */

/* Both halves of the gated feed-forward's first matrix: diffusers has that with the activation last. */
static void diti_minimax_load_gated(diti_loader *loader, diti_minimax_block *block, uint32_t feed, uint32_t width) {
    diti_layer *layers[2] = {&block->ff_in, &block->ff_gate};
    uint32_t own = loader->rename ? DITI_NAMES_ORIGINAL : DITI_NAMES_DIFFUSERS, i;
    for (i = 0; i < 2; i++) {
        uint32_t half = loader->rename ? 1 - i : i;
        loader->names = own;
        diti_load_bare_rows(loader, layers[i], half * feed, feed, 2 * feed, width, "ff.net.0.proj");
        loader->names = 0;
        diti_loader_alias(loader, &layers[i]->weight, 0, feed, "ff.net.0.proj", (1 - half) * feed, 2 * feed,
                          DITI_NAMES_ALL - own);
    }
}

static void diti_minimax_load_block(diti_loader *loader, const diti_minimax_config *config, diti_minimax_block *block,
                                    bool refines, uint32_t index) {
    static const diti_fused qkv = {"attn.qkv", {"attn.to_q", "attn.to_k", "attn.to_v"}, 3};
    static const char *const heads[] = {"attn.norm_q.weight", "attn.norm_k.weight"};
    uint32_t width = config->width;
    diti_loader_scope(loader, refines ? "token_refiner.refiner_blocks.%u." : "transformer_blocks.%u.", (unsigned)index);
    if (!refines)
        diti_load_layer(loader, &block->modulation, 6 * DITI_MINIMAX_KINDS * width, config->time, 1,
                        "adaln_proj.linear");
    diti_load_vector(loader, &block->norms[0].weight, 1, width, "norm1.weight");
    diti_load_vector(loader, &block->norms[1].weight, 1, width, "norm2.weight");
    diti_load_fused_bare(loader, &block->qkv, &qkv, config->inner, width);
    diti_load_vectors(loader, &block->heads, heads, 2, config->head_dim);
    diti_load_bare(loader, &block->out, width, config->inner, "attn.to_out.0");
    diti_minimax_load_gated(loader, block, config->feed, width);
    diti_load_bare(loader, &block->ff_out, width, config->feed, "ff.net.2");
    diti_loader_scope(loader, "%s", "");
    diti_make_attention(&block->attention, DITI_STREAMS_ONE, &block->qkv, &block->out, config->inner, config->head_dim);
    diti_make_feed(&block->feed, DITI_STREAMS_ONE, &block->ff_in, &block->ff_out);
    block->feed.gate = &block->ff_gate;
    block->feed.activation = DITI_ACTIVATION_SILU;
    block->attention.rms = block->feed.rms = true;
    block->attention.eps = block->feed.eps = config->eps;
    block->attention.norm = &block->norms[0];
    block->feed.norm = &block->norms[1];
}

/* The vectors that modulate, at equal steps of the timestep from 0 to 1: what pruned files have in place of layers. */
static void diti_minimax_load_curve(diti_component *component, diti_loader *loader, diti_minimax *model) {
    const diti_minimax_config *config = &model->config;
    size_t count = (size_t)config->curve * config->time;
    const diti_stored_tensor *table = diti_loader_find(loader, "adaln_t_table");
    if (loader->error.result < 0 || !table) return;
    model->curve = (float *)diti_component_array(component, loader, count, sizeof *model->curve);
    if (!model->curve) return;
    if (diti_stored_tensor_elements(table) != count) {
        diti_fail(&loader->error, DIT_ERROR_UNSUPPORTED_MODEL, "%s: adaln_t_table has not %u rows of %u columns",
                  diti_checkpoint_name(loader->checkpoint), (unsigned)config->curve, (unsigned)config->time);
        return;
    }
    diti_checkpoint_read_float(loader->checkpoint, table, model->curve, count, &loader->error);
}

static void diti_minimax_load_weights(diti_component *component, diti_loader *loader, diti_minimax *model) {
    const diti_minimax_config *config = &model->config;
    uint32_t width = config->width, i;
    diti_load_layer(loader, &model->patch, width, config->columns, 1, "proj_in");
    diti_load_layer(loader, &model->sound, width, config->sound, 1, "audio_proj_in");
    diti_load_layer(loader, &model->text, width, config->text, 1, "context_embedder");
    if (config->curve)
        diti_minimax_load_curve(component, loader, model);
    else
        diti_load_embedder(loader, &model->time, config->time, config->time_width, config->sinusoids, "time_embedder");
    for (i = 0; i < config->refiners; i++) diti_minimax_load_block(loader, config, &model->refiners[i], true, i);
    diti_load_vector(loader, &model->text_norm.weight, 1, width, "token_refiner.final_norm.weight");
    for (i = 0; i < config->blocks; i++) diti_minimax_load_block(loader, config, &model->blocks[i], false, i);
    diti_load_vector(loader, &model->final_norm.weight, 1, width, "norm_out.norm.weight");
    diti_load_layer(loader, &model->final_modulation, 2 * width, config->time, 1, "norm_out.linear");
    diti_load_layer(loader, &model->out, config->columns, width, 1, "proj_out");
    diti_load_layer(loader, &model->sound_out, config->sound, width, 1, "audio_proj_out");
}

/* ---- how its language model is asked (docs/models.md 5.5): by the prompt, behind pictures ---- */

static const diti_chat diti_minimax_chats[] = {
    {"MiniMaxH3ModularPipeline",
     "",
     "",
     "<Picture #>: ",
     "",
     " ",
     2048,
     false,
     0,
     {1, 50, {50}, DITI_TAPS_UNNORMED | DITI_TAPS_CUT},
     0},
    DITI_CHATS_END,
};

static void diti_minimax_set_traits(diti_minimax *model) {
    const diti_minimax_config *config = &model->config;
    diti_model_traits *traits = &model->base.traits;
    traits->variant = config->curve ? "h3-pruned" : "h3";
    traits->layers = config->blocks;
    traits->width = config->width;
    traits->heads = config->heads;
    traits->feed = config->feed;
    traits->gated = true;
    traits->latent_channels = traits->out_channels = config->channels;
    traits->patch = 2;
    traits->factor = 16;
    traits->default_size = 48;
    traits->default_columns = 84;
    traits->default_frames = 37;
    traits->least_frames = 7;
    traits->default_fps = 24;
    traits->sound_rate = 40; /* 32,000 samples a second, 800 of a token; with sides the decoder makes each alone */
    traits->sound_sides = 2;
    traits->sound_columns = config->sound;
    traits->chat = &diti_minimax_chats[0];
    traits->text_tokens = traits->chat->tokens;
    traits->text_columns = config->text;
    traits->text_unit = 1;
    traits->encoders[0] = DITI_ENCODER_QWEN3_VL;
    traits->scheduler = "{\"_class_name\":\"MiniMaxH3Scheduler\",\"shift\":12.0}";
    traits->uniform_sigmas = true;
    traits->default_steps = 49;
    traits->default_guidance = 1;
    traits->joint = traits->planar = traits->keeps_case = true;
    traits->whole_rows = traits->anchors = true;
    traits->anchor_noise = 1 - DITI_MINIMAX_ANCHORED;
    traits->shown_area = 768 * 1344;
}

static void diti_minimax_load(diti_component *component, diti_loader *loader) {
    diti_minimax *model = (diti_minimax *)(void *)component;
    model->blocks =
        (diti_minimax_block *)diti_component_array(component, loader, model->config.blocks, sizeof *model->blocks);
    if (!model->blocks) return;
    diti_minimax_load_weights(component, loader, model);
    diti_minimax_set_traits(model);
}

/* ---- once per clip: everything that does not depend on the latent ---- */

typedef struct diti_minimax_state { /* prepare leaves these for the steps */
    diti_tensor sinusoids; /* input F32 [times * steps, sinusoids]: of pictures, of sound, and, where there are some, of
                              pictures at the ends; or their vectors, [.., time] */
    diti_tensor factors;   /* input F32 [steps, columns + sound]: what predictions are multiplied by */
    diti_tensor cosines, sines; /* inputs F32 [3 * rows of an item, 3 * angles] */
    diti_tensor keys;           /* input U32 [items, DITI_ITEM_WORDS]: the rows that an item fills */
    uint32_t video, sound;      /* tokens */
    uint32_t anchors, seen;     /* tokens of pictures at the ends; rows of the text that show them */
    uint32_t times;             /* timesteps of a step */
    diti_tensor text;           /* F32 [text rows + anchors, D] */
    diti_tensor step_factors;   /* the step's */
    diti_text_order order;
    diti_adaln adaln;
} diti_minimax_state;

#define diti_minimax_state_of(step) ((diti_minimax_state *)(step)->family)

static diti_tensor diti_minimax_rms(diti_graph *graph, diti_tensor x, const diti_layer *norm, float eps, bool wide) {
    diti_norm_desc desc = DITI_ZERO;
    desc.rms = true;
    desc.weight = &norm->weight;
    desc.eps = eps;
    desc.out_f32 = wide;
    desc.name = "text_norm";
    return diti_norm(graph, x, &desc);
}

/* x += layer(h), in place. */
static void diti_minimax_text_add(diti_graph *graph, diti_tensor x, diti_tensor h, const diti_layer *layer) {
    diti_linear_desc desc = DITI_ZERO;
    desc.residual = desc.out = x;
    desc.name = "text_out";
    diti_linear(graph, h, &layer->weight, &desc);
}

/* RMS norms of the heads of q and k side by side. */
static void diti_minimax_heads(diti_graph *graph, const diti_minimax_config *config, const diti_minimax_block *w,
                               diti_tensor qkv, uint32_t columns) {
    diti_qkv_desc desc = DITI_ZERO;
    desc.heads = 2 * columns / config->head_dim;
    desc.head_dim = config->head_dim;
    desc.norm = DITI_QKV_RMS;
    desc.eps = config->head_eps;
    desc.weight = &w->heads;
    desc.kinds = 2;
    desc.name = "qkv_post";
    diti_qk_norm_rope(graph, diti_tensor_view(graph, qkv, 0, diti_tensor_rows(graph, qkv), 0, 2 * columns), &desc);
}

/* A block of the text's own: no modulation and no rotation; a text attends itself. */
static void diti_minimax_refine(const diti_pass *p, const diti_minimax_block *w, diti_tensor x) {
    const diti_minimax_config *config = &diti_minimax_of(p->model)->config;
    diti_graph *graph = p->graph;
    uint32_t rows = diti_tensor_rows(graph, x), inner = config->inner;
    diti_linear_desc linear = DITI_ZERO;
    diti_attention_desc attention = DITI_ZERO;
    diti_tensor h;
    linear.name = "text_qkv";
    h = diti_linear_fused(graph, diti_minimax_rms(graph, x, &w->norms[0], config->eps, false), &w->qkv, &linear);
    diti_minimax_heads(graph, config, w, h, inner);
    attention.batch = 1;
    attention.heads = config->heads;
    attention.head_dim = config->head_dim;
    attention.scale = 1.0f / sqrtf((float)config->head_dim);
    attention.items = diti_minimax_state_of(p->step)->order.items;
    attention.key_limit = p->step->text_tokens;
    attention.name = "text_attention";
    h = diti_attention(graph, diti_tensor_view(graph, h, 0, rows, 0, inner),
                       diti_tensor_view(graph, h, 0, rows, inner, inner),
                       diti_tensor_view(graph, h, 0, rows, 2 * inner, inner), &attention);
    diti_minimax_text_add(graph, x, h, &w->out);
    h = diti_minimax_rms(graph, x, &w->norms[1], config->eps, false);
    memset(&linear, 0, sizeof linear);
    linear.activation = DITI_ACTIVATION_SILU;
    linear.multiply = diti_layer_run(graph, h, &w->ff_in, DITI_ACTIVATION_NONE, "text_ff_in");
    linear.name = "text_ff_gate";
    diti_minimax_text_add(graph, x, diti_linear(graph, h, &w->ff_gate.weight, &linear), &w->ff_out);
}

/* The text as blocks read it, padding in front, and pictures at the ends before its last rows, which show them:
   F32 [text rows + anchors, D]. */
static diti_tensor diti_minimax_text(const diti_pass *p) {
    const diti_minimax *model = diti_minimax_of(p->model);
    const diti_minimax_config *config = &model->config;
    const diti_minimax_state *state = diti_minimax_state_of(p->step);
    uint32_t rows = diti_tensor_rows(p->graph, p->step->text), width = config->width,
             words = p->step->text_tokens - state->seen, behind = words + state->anchors, i;
    diti_tensor all;
    diti_tensor x = diti_tensor_view(p->graph, p->step->text, 0, rows, 0, config->text);
    x = diti_layer_f32(p->graph, x, &model->text, DITI_ACTIVATION_NONE, 0, "context");
    x = diti_text_order_rows(p, &diti_minimax_state_of(p->step)->order, x);
    for (i = 0; i < config->refiners && !diti_graph_failed(p->graph); i++)
        diti_minimax_refine(p, &model->refiners[i], x);
    x = diti_minimax_rms(p->graph, x, &model->text_norm, config->final_eps, true);
    if (!state->anchors || diti_graph_failed(p->graph)) return x;
    all = diti_tensor_new(p->graph, DITI_F32, behind + state->seen, width, "text and pictures");
    diti_copy(p->graph, diti_tensor_view(p->graph, x, 0, words, 0, width),
              diti_tensor_view(p->graph, all, 0, words, 0, width), "text and pictures");
    diti_copy(p->graph, diti_reference_rows(p, &model->patch),
              diti_tensor_view(p->graph, all, words, state->anchors, 0, width), "text and pictures");
    if (state->seen)
        diti_copy(p->graph, diti_tensor_view(p->graph, x, words, state->seen, 0, width),
                  diti_tensor_view(p->graph, all, behind, state->seen, 0, width), "text and pictures");
    return all;
}

/* Rows of the text that show a picture: its tokens, one that begins and one that ends them. */
static uint32_t diti_minimax_shown(const diti_step_desc *step, uint32_t picture) {
    return step->shown_tokens[picture] ? step->shown_tokens[picture] + 2 : 0;
}

static uint32_t diti_minimax_seen(const diti_step_desc *step) {
    uint32_t i, rows = 0;
    for (i = 0; i < step->reference_count; i++) rows += diti_minimax_shown(step, i);
    return rows;
}

/* The text's token in its row k without padding: those that show pictures stand behind the others. */
static uint32_t diti_minimax_token(const diti_step_desc *step, uint32_t words, uint32_t k) {
    uint32_t shown, i;
    for (i = 0; i < step->reference_count; i++) {
        shown = diti_minimax_shown(step, i);
        if (k < words && shown && k + 1 >= step->shown_rows[i])
            k += shown, words += shown;
        else if (k >= words && k - words < shown)
            return step->shown_rows[i] - 1 + k - words;
        else if (k >= words)
            words += shown;
    }
    return k;
}

/* Tokens of pictures and of sound; false: the graph has failed. */
static bool diti_minimax_count(diti_pass *p, diti_minimax_state *state) {
    const diti_step_desc *step = p->step;
    diti_token_grid grid = diti_transformer_grid(p->model, step);
    uint32_t plane = grid.rows * grid.columns, sound;
    sound = diti_sound_frames(&p->model->traits, step->clip_frames, step->fps, plane);
    if (step->text_batch > 1)
        diti_graph_fail(p->graph, DIT_ERROR_INVALID_ARGUMENT,
                        "MiniMax-H3 takes no guidance and no negative prompt, and clips that are made together have "
                        "one prompt; guidance must be 0 or 1");
    else if (step->fps > 0 && step->fps != p->model->traits.default_fps)
        diti_graph_fail(p->graph, DIT_ERROR_INVALID_ARGUMENT,
                        "MiniMax-H3 makes %g frames of each second, and fps is %g; it must be 0 or that",
                        (double)p->model->traits.default_fps, (double)step->fps);
    else if (sound >= grid.frames)
        diti_graph_fail(p->graph, DIT_ERROR_INVALID_ARGUMENT,
                        "MiniMax-H3: %u frames of a latent, of which %u are the sound's, have none for pictures",
                        (unsigned)grid.frames, (unsigned)sound);
    if (diti_graph_failed(p->graph)) return false;
    state->video = (grid.frames - sound) * plane;
    state->anchors = p->step->behind_text = diti_reference_tokens(p);
    state->seen = diti_minimax_seen(step);
    state->times = state->anchors ? 3 : 2;
    state->sound = diti_sound_tokens(&p->model->traits, step->clip_frames, step->fps);
    return true;
}

static void diti_minimax_prepare(diti_pass *p) {
    const diti_minimax *model = diti_minimax_of(p->model);
    const diti_minimax_config *config = &model->config;
    const diti_step_desc *step = p->step;
    diti_minimax_state *state = diti_minimax_state_of(step);
    diti_token_grid grid = diti_transformer_grid(p->model, step);
    uint32_t rows = step->text_tokens + grid.frames * grid.rows * grid.columns, i, end;
    diti_graph *graph = p->graph;
    diti_tensor active;
    if (!diti_minimax_count(p, state)) return;
    rows += state->anchors;
    state->sinusoids = diti_tensor_input(graph, DITI_F32, state->times * step->steps,
                                         config->curve ? config->time : config->sinusoids, "timesteps");
    state->factors = diti_tensor_input(graph, DITI_F32, step->steps, config->columns + config->sound, "factors");
    state->cosines = diti_tensor_input(graph, DITI_F32, 3 * rows, 3 * config->angles, "cosines");
    state->sines = diti_tensor_input(graph, DITI_F32, 3 * rows, 3 * config->angles, "sines");
    state->keys = diti_tensor_input(graph, DITI_U32, step->branches * step->batch, DITI_ITEM_WORDS, "keys of items");
    diti_text_order_prepare(p, &state->order);
    active = config->curve ? diti_add_rows(graph, state->sinusoids, 0, 0, "time")
                           : diti_silu(graph, diti_embed(graph, &model->time, state->sinusoids, 0), "time_silu");
    diti_axes_blocks(step->axes, config->blocks, &i, &end);
    for (state->adaln.first = i; i < end; i++) diti_adaln_add(&state->adaln, &model->blocks[i].modulation);
    diti_adaln_add(&state->adaln, &model->final_modulation);
    diti_adaln_prepare_active(p, &state->adaln, active, state->times);
    state->text = diti_minimax_text(p);
}

/* ---- inputs ---- */

/* A row's coordinates, as the original counts them: (time, y, x). Rows that fill a place stand at the origin. */
static void diti_minimax_locate(const diti_transformer *transformer, const diti_step_desc *step, uint32_t row,
                                double out[DITI_MINIMAX_AXES]) {
    const diti_minimax_state *state = (const diti_minimax_state *)step->family;
    diti_token_grid grid = diti_transformer_grid(transformer, step);
    uint32_t length = diti_text_order_length(step, 0, 1), pad = step->text_tokens - length,
             plane = grid.rows * grid.columns, tokens = state->sound / transformer->traits.sound_sides, frame, i,
             words = step->text_tokens - state->seen, frames = state->video / plane;
    double side = sqrt((double)step->height * step->width), unit = 5.0 / 3.0;
    const double high = step->height / side, wide = step->width / side, left = (1 - wide) / 2;
    const double right = ((grid.columns - 1) * (wide / grid.columns) + left) * 32;
    bool ends = false;
    out[0] = out[1] = out[2] = 0;
    if (row < words || row - words >= state->anchors) {
        if (row >= words) row -= state->anchors;
        if (row < step->text_tokens) {
            out[0] = row < pad ? 0 : diti_minimax_token(step, words - pad, row - pad);
            return;
        }
        row -= step->text_tokens;
    } else {
        row -= words;
        ends = step->ends && row + plane >= state->anchors;
        row %= plane;
    }
    out[0] = length;
    if (row < state->video) {
        double spent = 0;
        frame = ends ? frames : row / plane;
        for (i = 0; i < frame; i++) spent += i % 5 ? unit * 4 : unit;
        out[0] += ends ? spent - unit : spent;
        out[1] = (row % plane / grid.columns * (high / grid.rows) + (1 - high) / 2) * 32;
        out[2] = (row % grid.columns * (wide / grid.columns) + left) * 32;
        return;
    }
    row -= state->video;
    if (row >= state->sound) {
        out[0] = 0;
        return;
    }
    out[0] += row % tokens;
    out[2] = row < tokens ? left * 32 : right;
}

/* Rows of q, k and v of each token, of which v's do not rotate; in float32, as the original rounds them. */
static void diti_minimax_place(const diti_transformer *transformer, const diti_step_desc *step, uint32_t prompt,
                               float *cosines, float *sines) {
    const diti_minimax_config *config = &diti_minimax_of(transformer)->config;
    diti_token_grid grid = diti_transformer_grid(transformer, step);
    uint32_t rows = step->text_tokens + step->behind_text + grid.frames * grid.rows * grid.columns,
             half = 3 * config->angles, row, i, kind;
    (void)prompt;
    for (row = 0; row < rows; row++) {
        double at[DITI_MINIMAX_AXES];
        diti_minimax_locate(transformer, step, row, at);
        for (kind = 0; kind < 3; kind++)
            for (i = 0; i < half; i++) {
                float power = (float)(2 * (i % config->angles)) / (float)(2 * config->angles);
                float angle = kind == 2 ? 0 : (float)at[i / config->angles] * (1.0f / powf(config->theta, power));
                cosines[((size_t)row * 3 + kind) * half + i] = (float)cos((double)angle);
                sines[((size_t)row * 3 + kind) * half + i] = (float)sin((double)angle);
            }
    }
}

/* The sound's part of noise where pictures have so much: its shift is a quarter of theirs. */
static double diti_minimax_sound_sigma(double sigma) { return 0.25 * sigma / (1 - 0.75 * sigma); }

/* The timesteps of step i, which count from noise, 0, to the clip, 1. */
static void diti_minimax_times(const float *timesteps, uint32_t i, float out[3]) {
    double sigma = (double)timesteps[i] / 1000;
    out[0] = 1.0f - (float)sigma;
    out[1] = 1.0f - (float)diti_minimax_sound_sigma(sigma);
    out[2] = out[0] > DITI_MINIMAX_ANCHORED ? out[0] : DITI_MINIMAX_ANCHORED;
}

static dit_result diti_minimax_write_times(const diti_minimax *model, diti_plan *plan, const diti_step_desc *step,
                                           const float *timesteps, dit_error *err) {
    const diti_minimax_config *config = &model->config;
    const diti_env *env = &model->base.component.env;
    const diti_minimax_state *state = (const diti_minimax_state *)step->family;
    uint32_t columns = config->curve ? config->time : 1, count = state->times * step->steps, i, c;
    float *rows = (float *)diti_alloc_array(env, (size_t)count * columns, sizeof *rows);
    dit_result result;
    if (!rows) return diti_fail_memory(err, "the timesteps");
    for (i = 0; i < count; i++) {
        float times[3], time, place;
        uint32_t below;
        diti_minimax_times(timesteps, i / state->times, times);
        time = rows[(size_t)i * columns] = times[i % state->times];
        if (!config->curve) continue;
        place = (time > 0 ? time < 1 ? time : 1 : 0) * (float)(config->curve - 1);
        below = (uint32_t)place < config->curve - 1 ? (uint32_t)place : config->curve - 2;
        for (c = 0; c < columns; c++) {
            const float *at = model->curve + (size_t)below * columns + c;
            rows[(size_t)i * columns + c] = at[0] + (at[columns] - at[0]) * (place - (float)below);
        }
    }
    result = config->curve ? diti_plan_write(plan, state->sinusoids, rows, (size_t)count * columns * sizeof *rows, err)
                           : diti_write_sinusoids(plan, state->sinusoids, rows, count, 0, err);
    diti_free(env, rows);
    return result;
}

/* The model says where the clip is, and samplers want the other direction. The sampler goes by the pictures' part of
   noise: what is said of sound is scaled so that a step of Euler's takes it as far as its own part goes. */
static dit_result diti_minimax_write_factors(const diti_minimax *model, diti_plan *plan, const diti_step_desc *step,
                                             const float *timesteps, dit_error *err) {
    const diti_minimax_state *state = (const diti_minimax_state *)step->family;
    const diti_env *env = &model->base.component.env;
    uint32_t columns = model->config.columns, all = columns + model->config.sound, i, k;
    float *rows = (float *)diti_alloc_array(env, (size_t)step->steps * all, sizeof *rows);
    dit_result result;
    if (!rows) return diti_fail_memory(err, "the timesteps");
    for (i = 0; i < step->steps; i++) {
        double sigma = (double)timesteps[i] / 1000, next, factor = 4; /* 4: the slope at the beginning */
        for (k = i + 1; k < step->steps && timesteps[k] >= timesteps[i];) k++;
        next = k < step->steps ? (double)timesteps[k] / 1000 : 0;
        if (sigma > next) factor = (diti_minimax_sound_sigma(sigma) - diti_minimax_sound_sigma(next)) / (sigma - next);
        for (k = 0; k < all; k++) rows[(size_t)i * all + k] = k < columns ? -1 : (float)-factor;
    }
    result = diti_plan_write(plan, state->factors, rows, (size_t)step->steps * all * sizeof *rows, err);
    diti_free(env, rows);
    return result;
}

static dit_result diti_minimax_write_keys(const diti_minimax *model, diti_plan *plan, const diti_step_desc *step,
                                          dit_error *err) {
    const diti_minimax_state *state = (const diti_minimax_state *)step->family;
    const diti_env *env = &model->base.component.env;
    uint32_t items = step->branches * step->batch, length = diti_text_order_length(step, 0, 1), i;
    uint32_t *words = (uint32_t *)diti_alloc_zero(env, items * DITI_ITEM_WORDS * sizeof *words);
    dit_result result;
    if (!words) return diti_fail_memory(err, "the rows of items");
    for (i = 0; i < items; i++) {
        words[i * DITI_ITEM_WORDS + 2] = step->text_tokens - length;
        words[i * DITI_ITEM_WORDS + 3] = length + state->anchors + state->video + state->sound;
    }
    result = diti_plan_write(plan, state->keys, words, items * DITI_ITEM_WORDS * sizeof *words, err);
    diti_free(env, words);
    return result;
}

/* The text's rows as diti_minimax_token has them. */
static dit_result diti_minimax_write_order(const diti_minimax *model, diti_plan *plan, const diti_step_desc *step,
                                           dit_error *err) {
    const diti_minimax_state *state = (const diti_minimax_state *)step->family;
    const diti_env *env = &model->base.component.env;
    uint32_t texts = step->text_tokens, length = diti_text_order_length(step, 0, 1), i, pad = texts - length,
             first = step->text_firsts ? step->text_firsts[0] : 0,
             *places = (uint32_t *)diti_alloc_array(env, texts, sizeof *places);
    dit_result result;
    if (!places) return diti_fail_memory(err, "the text's rows");
    for (i = 0; i < texts; i++)
        places[i] =
            i < pad ? plan->tensors[step->text].rows : first + diti_minimax_token(step, length - state->seen, i - pad);
    result = diti_plan_write(plan, state->order.order, places, texts * sizeof *places, err);
    diti_free(env, places);
    return result;
}

static dit_result diti_minimax_write_inputs(const diti_transformer *transformer, diti_plan *plan,
                                            const diti_step_desc *step, const float *timesteps, dit_error *err) {
    const diti_minimax *model = diti_minimax_of(transformer);
    const diti_minimax_state *state = (const diti_minimax_state *)step->family;
    DITI_TRY(diti_text_order_write(plan, step, &state->order, &model->base.component.env, 1, state->video, err));
    if (state->seen) DITI_TRY(diti_minimax_write_order(model, plan, step, err));
    DITI_TRY(diti_write_places(transformer, plan, step, state->cosines, state->sines, 1, diti_minimax_place, err));
    DITI_TRY(diti_minimax_write_keys(model, plan, step, err));
    DITI_TRY(diti_minimax_write_factors(model, plan, step, timesteps, err));
    return diti_minimax_write_times(model, plan, step, timesteps, err);
}

/* ---- one evaluation ---- */

static void diti_minimax_begin(diti_pass *p) {
    diti_minimax_state *state = diti_minimax_state_of(p->step);
    if (p->step->same_timestep) return;
    diti_adaln_select(p, &state->adaln);
    state->step_factors = diti_select_row(p->graph, state->factors, p->step->row, "select_factors");
}

/* The rows of an item that tokens of a kind have, what fills the sound's last frame among them, and with the pictures
   the rows of the text that show some. */
static diti_rows diti_minimax_rows(const diti_pass *p, uint32_t kind) {
    const diti_minimax_state *state = diti_minimax_state_of(p->step);
    diti_rows rows = diti_pass_rows(p, kind == DITI_MINIMAX_TEXT ? DITI_JOINT_TEXT : DITI_JOINT_IMAGE);
    if (kind == DITI_MINIMAX_VIDEO) {
        rows.first -= state->seen;
        rows.count = state->seen + state->video;
    }
    if (kind == DITI_MINIMAX_TEXT) rows.count -= state->seen + state->anchors;
    if (kind == DITI_MINIMAX_ANCHOR) {
        rows.first -= state->seen + state->anchors;
        rows.count = state->anchors;
    }
    if (kind == DITI_MINIMAX_SOUND) {
        rows.first += state->video;
        rows.count -= state->video;
    }
    return rows;
}

static diti_tensor diti_minimax_embed(diti_pass *p) {
    const diti_minimax *model = diti_minimax_of(p->model);
    const diti_minimax_state *state = diti_minimax_state_of(p->step);
    const diti_step_desc *step = p->step;
    diti_graph *graph = p->graph;
    uint32_t rows = p->text + p->image, filler = p->image - state->video - state->sound, width = p->width, i;
    diti_tensor x = diti_tensor_new(graph, DITI_F32, p->items * rows, width, "residual"), patches;
    diti_patches at = DITI_ZERO;
    at.batch = step->batch;
    at.channels = model->config.channels;
    at.frames = step->frames;
    at.height = step->height;
    at.width = step->width;
    at.patch = 2;
    patches = diti_patchify(graph, step->latent, &at, step->input_scale);
    for (i = 0; i < p->items && !diti_graph_failed(graph); i++) {
        uint32_t from = i % step->batch * p->image, to = i * rows + p->text, sound = to + state->video;
        if (p->text)
            diti_copy(graph, state->text, diti_tensor_view(graph, x, i * rows, p->text, 0, width), "text_embed");
        diti_layer_f32(graph, diti_tensor_view(graph, patches, from, state->video, 0, model->config.columns),
                       &model->patch, DITI_ACTIVATION_NONE, diti_tensor_view(graph, x, to, state->video, 0, width),
                       "patch_embed");
        diti_layer_f32(graph,
                       diti_tensor_view(graph, patches, from + state->video, state->sound, 0, model->config.sound),
                       &model->sound, DITI_ACTIVATION_NONE, diti_tensor_view(graph, x, sound, state->sound, 0, width),
                       "sound_embed");
        if (filler) diti_fill_zeros(graph, diti_tensor_view(graph, x, sound + state->sound, filler, 0, width));
    }
    return x;
}

/* The rows that modulate tokens of a kind in the block at hand, F32 [1, 6D]. */
static diti_tensor diti_minimax_modulation(const diti_pass *p, diti_tensor rows, uint32_t kind) {
    uint32_t time = kind == DITI_MINIMAX_SOUND ? 1 : kind == DITI_MINIMAX_ANCHOR ? 2 : 0;
    if (kind == DITI_MINIMAX_ANCHOR) kind = DITI_MINIMAX_VIDEO;
    return diti_tensor_view(p->graph, rows, time, 1, kind * 6 * p->width, 6 * p->width);
}

/* RMS(x) * weight * (1 + scale) + shift, of each kind by its rows: [items * (text + image), D]. */
static diti_tensor diti_minimax_norm(const diti_pass *p, diti_tensor x, diti_tensor rows, diti_modulator shift,
                                     diti_modulator scale, const diti_sublayer *sublayer) {
    diti_tensor all = diti_tensor_new(p->graph, p->graph->activation, diti_tensor_rows(p->graph, x), p->width, "norm");
    uint32_t i, kind;
    for (i = 0; i < p->items; i++)
        for (kind = 0; kind < DITI_MINIMAX_PARTS && !diti_graph_failed(p->graph); kind++) {
            diti_rows part = diti_minimax_rows(p, kind);
            diti_norm_desc desc = DITI_ZERO;
            diti_tensor own;
            if (!part.count) continue;
            own = diti_minimax_modulation(p, rows, kind);
            desc.shift = diti_tensor_view(p->graph, own, 0, 1, (uint32_t)shift * p->width, p->width);
            desc.scale = diti_tensor_view(p->graph, own, 0, 1, (uint32_t)scale * p->width, p->width);
            desc.out = diti_tensor_view(p->graph, all, i * part.of + part.first, part.count, 0, p->width);
            diti_sublayer_norm(p, diti_tensor_view(p->graph, x, i * part.of + part.first, part.count, 0, p->width),
                               &desc, sublayer);
        }
    return all;
}

/* x += gate * out(h), of each kind by its gate, in place. */
static void diti_minimax_add(const diti_pass *p, diti_tensor x, diti_tensor rows, diti_modulator gate,
                             const diti_sublayer *sublayer, diti_tensor h) {
    uint32_t kind;
    h = diti_column_shard_input(p, h, &sublayer->out->weight);
    for (kind = 0; kind < DITI_MINIMAX_PARTS && !diti_graph_failed(p->graph); kind++) {
        diti_linear_desc desc = DITI_ZERO;
        desc.rows = diti_minimax_rows(p, kind);
        if (!desc.rows.count) continue;
        desc.gate = diti_tensor_view(p->graph, diti_minimax_modulation(p, rows, kind), 0, 1, (uint32_t)gate * p->width,
                                     p->width);
        desc.out = x;
        desc.name = sublayer->out_name;
        diti_column_shard_add(p, h, sublayer->out, sublayer, &desc);
    }
    diti_column_shard_sum(p, x);
}

/* [items * (text + image), this device's columns of heads]. */
static diti_tensor diti_minimax_attend(const diti_pass *p, const diti_minimax_block *w, diti_tensor h) {
    const diti_minimax_config *config = &diti_minimax_of(p->model)->config;
    const diti_minimax_state *state = diti_minimax_state_of(p->step);
    uint32_t columns = diti_column_shard_of(p, &w->attention).count;
    diti_attend_desc desc = DITI_ZERO;
    diti_tensor qkv = diti_sublayer_in(p, h, &w->attention, 0);
    diti_minimax_heads(p->graph, config, w, qkv, columns);
    diti_turn_heads(p->graph, qkv, columns / config->head_dim, config->head_dim, state->cosines, state->sines,
                    "turn_heads");
    desc.items = p->items;
    desc.keys = diti_tensor_view(p->graph, state->keys, 0, p->items, 0, DITI_ITEM_WORDS);
    desc.heads = columns / config->head_dim;
    desc.head_dim = config->head_dim;
    desc.text = true;
    desc.int8 = p->model->int8_attention;
    return diti_attend(p->graph, p->step, &desc, qkv);
}

/* x += gate * feed(norm(x)). Where what lies between its layers would be very large, kinds of tokens go one after the
   other, the pictures' in bands. */
static void diti_minimax_feed(const diti_pass *p, diti_tensor x, diti_tensor rows, const diti_sublayer *feed) {
    uint64_t bytes = (uint64_t)diti_tensor_rows(p->graph, x) * feed->columns * diti_element_size(p->graph->activation);
    uint32_t i, kind;
    if (bytes <= p->graph->device->limits.band) {
        diti_tensor h = diti_minimax_norm(p, x, rows, DITI_SHIFT_MLP, DITI_SCALE_MLP, feed);
        diti_minimax_add(p, x, rows, DITI_GATE_MLP, feed, diti_sublayer_in(p, h, feed, 0));
        return;
    }
    for (i = 0; i < p->items; i++)
        for (kind = 0; kind < DITI_MINIMAX_PARTS && !diti_graph_failed(p->graph); kind++) {
            diti_rows part = diti_minimax_rows(p, kind);
            diti_pass here = *p;
            if (!part.count) continue;
            here.items = here.prompts = 1;
            here.text = 0;
            here.image = part.count;
            here.modulation.rows = diti_minimax_modulation(p, rows, kind);
            diti_sublayer_feed(&here, diti_tensor_view(p->graph, x, i * part.of + part.first, part.count, 0, p->width),
                               DITI_SHIFT_MLP, DITI_SCALE_MLP, DITI_GATE_MLP, feed);
        }
}

/* MiniMaxH3TransformerBlock.forward, docs/models.md 3.28 step 3; x F32 [items * (text + image), D] is changed in place.
 */
static diti_tensor diti_minimax_run_block(diti_pass *p, diti_tensor x) {
    const diti_minimax_block *w = &diti_minimax_of(p->model)->blocks[p->index];
    diti_tensor rows = diti_adaln_get(p->graph, &diti_minimax_state_of(p->step)->adaln, p->index), h;
    h = diti_minimax_norm(p, x, rows, DITI_SHIFT_MSA, DITI_SCALE_MSA, &w->attention);
    diti_minimax_add(p, x, rows, DITI_GATE_MSA, &w->attention, diti_minimax_attend(p, w, h));
    diti_minimax_feed(p, x, rows, &w->feed);
    return x;
}

/* Writes what is said of tokens of a kind to out, in the direction that samplers want. */
static void diti_minimax_predict(const diti_pass *p, diti_tensor x, uint32_t kind, uint32_t first, uint32_t count,
                                 const diti_layer *layer, diti_tensor out) {
    const diti_minimax *model = diti_minimax_of(p->model);
    const diti_minimax_state *state = diti_minimax_state_of(p->step);
    diti_tensor rows = diti_adaln_last(p->graph, &state->adaln), h;
    uint32_t width = p->width, columns = layer->weight.rows, row = kind == DITI_MINIMAX_SOUND;
    diti_norm_desc desc = DITI_ZERO;
    diti_linear_desc linear = DITI_ZERO;
    desc.rms = true;
    desc.eps = model->config.final_eps;
    desc.weight = &model->final_norm.weight;
    desc.shift = diti_tensor_view(p->graph, rows, row, 1, 0, width);
    desc.scale = diti_tensor_view(p->graph, rows, row, 1, width, width);
    desc.name = "norm_out";
    h = diti_norm(p->graph, diti_tensor_view(p->graph, x, first, count, 0, width), &desc);
    linear.bias = &layer->bias;
    linear.gate = diti_tensor_view(p->graph, state->step_factors, 0, 1, row ? model->config.columns : 0, columns);
    linear.out = out;
    linear.name = "proj_out";
    diti_linear(p->graph, h, &layer->weight, &linear);
}

static diti_tensor diti_minimax_final(diti_pass *p, diti_tensor x) {
    const diti_minimax *model = diti_minimax_of(p->model);
    const diti_minimax_state *state = diti_minimax_state_of(p->step);
    uint32_t columns = model->config.columns, rows = p->text + p->image, i;
    diti_tensor out = diti_tensor_new(p->graph, DITI_F32, p->items * p->image, columns, "proj_out");
    if (diti_graph_failed(p->graph)) return 0;
    diti_fill_zeros(p->graph, out);
    for (i = 0; i < p->items && !diti_graph_failed(p->graph); i++) {
        uint32_t from = i * rows + p->text, to = i * p->image;
        diti_minimax_predict(p, x, DITI_MINIMAX_VIDEO, from, state->video, &model->out,
                             diti_tensor_view(p->graph, out, to, state->video, 0, columns));
        diti_minimax_predict(p, x, DITI_MINIMAX_SOUND, from + state->video, state->sound, &model->sound_out,
                             diti_tensor_view(p->graph, out, to + state->video, state->sound, 0, model->config.sound));
    }
    return out;
}

/* ---- where parts of such models are ---- */

#define DITI_MINIMAX_REPOSITORY "MiniMaxAI/MiniMax-H3: "
static const diti_place diti_minimax_places[] = {
    {"", DIT_ROLE_TRANSFORMER, DITI_MINIMAX_REPOSITORY "transformer/"},
    {"", DIT_ROLE_TEXT_1, DITI_MINIMAX_REPOSITORY "text_encoder/"},
    {"", DIT_ROLE_TOKENIZER_1, DITI_MINIMAX_REPOSITORY "tokenizer/"},
    {"", DIT_ROLE_VAE, DITI_MINIMAX_REPOSITORY "vae/"},
    {"", DIT_ROLE_SCHEDULER, DITI_MINIMAX_REPOSITORY "scheduler/"},
    {NULL, DIT_ROLE_NONE, NULL},
};

DIT_INTERNAL const diti_family *diti_minimax_family(void) {
    static const diti_family family = {
        "minimax",
        "MiniMax-H3",
        {"MiniMaxH3Transformer3DModel",
         NULL,
         {"audio_proj_in.weight", "token_refiner.refiner_blocks.0.attn.to_q.weight",
          "transformer_blocks.0.adaln_proj.linear.weight", NULL},
         {"audio_patch_proj.weight", "token_refiner.blocks.0.attn.qkv_proj.weight", "blocks.0.adaln_proj.linear.weight",
          NULL},
         {NULL, NULL}},
        {"transformer", "transformer", sizeof(diti_minimax), diti_minimax_read, diti_minimax_load, NULL},
        diti_minimax_names,
        {24, 1, 0, true},
        NULL,
        diti_minimax_chats,
        diti_minimax_places,
        sizeof(diti_minimax_state),
        diti_minimax_prepare,
        diti_minimax_begin,
        diti_minimax_embed,
        diti_minimax_run_block,
        diti_minimax_final,
        diti_minimax_write_inputs};
    return &family;
}
