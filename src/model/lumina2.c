/* Lumina-Image 2: docs/models.md 3.18. Originals: https://github.com/Alpha-VLLM/Lumina-Image-2.0 and
   https://github.com/huggingface/diffusers/blob/v0.36.0/src/diffusers/models/transformers/transformer_lumina2.py

   Text and image are one row of tokens with the same weights. Before they meet, the text goes through blocks of its own
   once per picture, and the image through blocks of its own in every step. Heads of queries share heads of keys and
   values. Every sublayer has a norm before and one behind it. */
#include "model/model.h"
#include "text/text.h"

#define DITI_LUMINA2_MAX_BLOCKS 128u
#define DITI_LUMINA2_AXES 3u

/* ---- configuration ---- */

typedef struct diti_lumina2_config {
    uint32_t refiners, blocks;             /* refiners: of the text, and as many of the image, before the blocks */
    uint32_t heads, head_dim, width, feed; /* width: D */
    uint32_t shared;                       /* heads of queries that share one of keys and values */
    uint32_t kv_width;                     /* columns of all keys */
    uint32_t channels;                     /* channels of the latent; its patches of 2 x 2 are the tokens */
    uint32_t text, time;                   /* columns of the text, of the vector that modulates */
    uint32_t axes[DITI_LUMINA2_AXES];      /* channels of a head that rotate with each coordinate */
    float theta, eps;
} diti_lumina2_config;

/* ---- key tables: names asked for here are diffusers'; single files and GGUF call them so ---- */

static const char *const diti_lumina2_keys[][2] = {
    {"x_embedder", "x_embedder"},
    {"time_caption_embed.timestep_embedder.linear_1", "t_embedder.mlp.0"},
    {"time_caption_embed.timestep_embedder.linear_2", "t_embedder.mlp.2"},
    {"time_caption_embed.caption_embedder", "cap_embedder"},
    {"norm_out.linear_1", "final_layer.adaLN_modulation.1"},
    {"norm_out.linear_2", "final_layer.linear"},
};
static const char *const diti_lumina2_block_keys[][2] = {
    {"attn.qkv", "attention.qkv"}, /* rows q, k, v; three matrices in diffusers */
    {"attn.to_out.0", "attention.out"},
    {"attn.norm_q", "attention.q_norm"},
    {"attn.norm_k", "attention.k_norm"},
    {"norm1.linear", "adaLN_modulation.1"},
    {"norm1.norm", "attention_norm1"},
    {"norm1", "attention_norm1"},
    {"norm2", "attention_norm2"},
    {"ffn_norm1", "ffn_norm1"},
    {"ffn_norm2", "ffn_norm2"},
    {"feed_forward.linear_1", "feed_forward.w1"},
    {"feed_forward.linear_2", "feed_forward.w2"},
    {"feed_forward.linear_3", "feed_forward.w3"},
};

static const diti_key_table diti_lumina2_names[DITI_KEY_TABLES] = {
    {"layers.", "layers.", diti_lumina2_block_keys, DITI_COUNT(diti_lumina2_block_keys)},
    {"noise_refiner.", "noise_refiner.", diti_lumina2_block_keys, DITI_COUNT(diti_lumina2_block_keys)},
    {"context_refiner.", "context_refiner.", diti_lumina2_block_keys, DITI_COUNT(diti_lumina2_block_keys)},
    {NULL, NULL, diti_lumina2_keys, DITI_COUNT(diti_lumina2_keys)},
};

/* ---- weights ---- */

typedef struct diti_lumina2_block {
    diti_layer modulation;           /* [4D, time]; the text's blocks have none */
    diti_layer q, k, v;              /* [D, D], [kv width, D] each */
    diti_weight norms[2];            /* F32 [head_dim]: of q, of k */
    diti_layer out;                  /* [D, D] */
    diti_layer ff_gate, ff_in;       /* [feed, D] each */
    diti_layer ff_out;               /* [D, feed] */
    diti_layer before[2], behind[2]; /* [D]: RMS norms around attention and feed-forward */
    diti_sublayer attention, feed;   /* attention is divided in whole groups of heads that share keys */
} diti_lumina2_block;

typedef struct diti_lumina2 {
    diti_transformer base;
    diti_lumina2_config config;
    diti_layer patch;            /* [D, 4 * channels] */
    diti_weight text_norm;       /* F32 [text] */
    diti_layer text;             /* [D, text] */
    diti_embedder time;          /* [time, 256], [time, time] */
    diti_lumina2_block *blocks;  /* the image's refiners, then the blocks, then the text's refiners */
    diti_layer final_modulation; /* [D, time]: scale */
    diti_layer proj_out;         /* [4 * channels, D] */
    diti_sublayer last;
} diti_lumina2;

#define diti_lumina2_of(transformer) ((const diti_lumina2 *)(const void *)(transformer))

/* ---- reading the configuration: what config.json does not say comes from shapes ---- */

static dit_result diti_lumina2_check(const diti_loader *loader, const diti_lumina2_config *config, uint32_t in,
                                     uint32_t out, dit_error *err) {
    const char *file = diti_checkpoint_name(loader->checkpoint);
    if (!config->blocks || !config->width || !config->text || !config->time || !config->feed || !in || !out ||
        !config->head_dim || !config->kv_width) {
        return diti_fail(err, DIT_ERROR_UNSUPPORTED_MODEL,
                         "%s: a Lumina-Image 2 transformer without %s: the file is incomplete", file,
                         !config->blocks || !config->feed         ? "layers"
                         : !config->text                          ? "a caption embedder"
                         : !config->time                          ? "a timestep embedder"
                         : !config->head_dim || !config->kv_width ? "queries and keys"
                                                                  : "x_embedder or the last layer");
    }
    if (in != out || in % 4 || in > 1024 || config->width % config->head_dim || config->kv_width % config->head_dim ||
        config->width % config->kv_width || config->head_dim > 256 || config->head_dim % 4 || config->time % 4 ||
        config->blocks + 2 * config->refiners > DITI_LUMINA2_MAX_BLOCKS) {
        return diti_fail(err, DIT_ERROR_UNSUPPORTED_MODEL,
                         "%s: a Lumina-Image 2 transformer of %u + %u blocks, heads of %u in widths of %u and %u, that "
                         "takes %u columns of patches and makes %u, is out of range",
                         file, (unsigned)config->refiners, (unsigned)config->blocks, (unsigned)config->head_dim,
                         (unsigned)config->width, (unsigned)config->kv_width, (unsigned)in, (unsigned)out);
    }
    return DIT_OK;
}

static dit_result diti_lumina2_read(diti_component *component, diti_loader *loader, const diti_json *json,
                                    dit_error *err) {
    static const diti_shape_key keys[] = {
        {offsetof(diti_lumina2_config, width), "x_embedder.weight", 0},
        {offsetof(diti_lumina2_config, text), "time_caption_embed.caption_embedder.1.weight", 1},
        {offsetof(diti_lumina2_config, time), "time_caption_embed.timestep_embedder.linear_2.weight", 0},
        {offsetof(diti_lumina2_config, feed), "layers.0.feed_forward.linear_1.weight", 0},
        {offsetof(diti_lumina2_config, head_dim), "layers.0.attn.norm_q.weight", 0},
        {offsetof(diti_lumina2_config, kv_width), "layers.0.attn.to_k.weight", 0}};
    diti_lumina2_config *config = &((diti_lumina2 *)(void *)component)->config;
    diti_settings settings = diti_settings_of(json, "the transformer's config.json", err);
    uint32_t in = diti_loader_dimension(loader, "x_embedder.weight", 1),
             out = diti_loader_dimension(loader, "norm_out.linear_2.weight", 0),
             fused = diti_loader_dimension(loader, "layers.0.attn.qkv.weight", 0);
    static const char *const others[][2] = {
        {"ref_image_patch_embedder.weight", "OmniGen2, another model than Lumina-Image 2"},
        {"clip_text_pooled_proj.0.weight", "NewBie, another model than Lumina-Image 2"}};
    DITI_TRY(diti_refuse_others(loader, others, DITI_COUNT(others), "Lumina-Image 2", err));
    diti_read_shapes(loader, config, keys, DITI_COUNT(keys));
    if (fused > config->width) config->kv_width = (fused - config->width) / 2;
    config->blocks = diti_loader_layers(loader, &settings, "num_layers", "layers.", ".ffn_norm1.weight");
    config->refiners =
        diti_loader_layers(loader, &settings, "num_refiner_layers", "noise_refiner.", ".ffn_norm1.weight");
    DITI_TRY(diti_lumina2_check(loader, config, in, out, err));
    config->channels = in / 4;
    config->heads = config->width / config->head_dim;
    config->shared = config->width / config->kv_width;
    config->theta = 10000;
    config->eps = (float)diti_setting_number(&settings, "norm_eps", 1e-5, 0, 1);
    if (diti_setting_size(&settings, "num_kv_heads", config->heads / config->shared, 1024) !=
        config->heads / config->shared)
        diti_settings_refuse(&settings, DIT_ERROR_BAD_FILE, "num_kv_heads", "the matrices of keys have another number");
    /* As published, a third of a head each. */
    return diti_setting_axes(&settings, "Lumina-Image 2", "axes_dim_rope", config->head_dim, config->head_dim / 3,
                             config->head_dim / 3, DITI_LUMINA2_AXES, config->axes, err);
}

/* ---- loading ---- */

/* Original files have one matrix of rows q, k, v, diffusers' three; adapters have the names of either. */
static void diti_lumina2_load_heads(diti_loader *loader, diti_lumina2_block *block, const diti_lumina2_config *config) {
    static const char *const names[] = {"attn.to_q", "attn.to_k", "attn.to_v"}, fused[] = "attn.qkv";
    diti_layer *const layers[] = {&block->q, &block->k, &block->v};
    uint32_t width = config->width, all = width + 2 * config->kv_width, first = 0, i;
    bool joined = diti_loader_find(loader, "attn.qkv.weight") != NULL;
    for (i = 0; i < 3; i++) {
        uint32_t rows = i ? config->kv_width : width;
        if (joined) {
            diti_load_bare_rows(loader, layers[i], first, rows, all, width, fused);
            diti_loader_alias(loader, &layers[i]->weight, 0, rows, names[i], 0, rows, DITI_NAMES_ALL);
        } else {
            diti_load_bare(loader, layers[i], rows, width, names[i]);
            diti_loader_alias(loader, &layers[i]->weight, 0, rows, fused, first, all, DITI_NAMES_ALL);
        }
        first += rows;
    }
    diti_load_vector(loader, &block->norms[0], 1, config->head_dim, "attn.norm_q.weight");
    diti_load_vector(loader, &block->norms[1], 1, config->head_dim, "attn.norm_k.weight");
}

static void diti_lumina2_load_block(diti_loader *loader, diti_lumina2_block *block, const diti_lumina2_config *config,
                                    const char *list, uint32_t index, diti_streams streams, bool modulated) {
    static const char *const behind[] = {"norm2.weight", "ffn_norm2.weight"};
    uint32_t width = config->width, i;
    diti_loader_scope(loader, "%s%u.", list, (unsigned)index);
    if (modulated) diti_load_layer(loader, &block->modulation, 4 * width, config->time, 1, "norm1.linear");
    diti_lumina2_load_heads(loader, block, config);
    diti_load_bare(loader, &block->out, width, width, "attn.to_out.0");
    diti_load_bare(loader, &block->ff_gate, config->feed, width, "feed_forward.linear_1");
    diti_load_bare(loader, &block->ff_in, config->feed, width, "feed_forward.linear_3");
    diti_load_bare(loader, &block->ff_out, width, config->feed, "feed_forward.linear_2");
    diti_load_vector(loader, &block->before[0].weight, 1, width, modulated ? "norm1.norm.weight" : "norm1.weight");
    diti_load_vector(loader, &block->before[1].weight, 1, width, "ffn_norm1.weight");
    for (i = 0; i < 2; i++) diti_load_vector(loader, &block->behind[i].weight, 1, width, behind[i]);
    diti_loader_scope(loader, "%s", "");
    diti_make_attention(&block->attention, streams, NULL, &block->out, width, config->shared * config->head_dim);
    block->attention.in = &block->q;
    block->attention.in_name = "q";
    diti_make_feed(&block->feed, streams, &block->ff_in, &block->ff_out);
    block->feed.gate = &block->ff_gate;
    block->feed.activation = DITI_ACTIVATION_SILU;
    block->attention.rms = block->feed.rms = true;
    block->attention.eps = block->feed.eps = config->eps;
    block->attention.norm = &block->before[0];
    block->feed.norm = &block->before[1];
}

static void diti_lumina2_load_weights(diti_loader *loader, diti_lumina2 *model) {
    const diti_lumina2_config *config = &model->config;
    uint32_t i, width = config->width, image = config->refiners, all = image + config->blocks;
    diti_load_layer(loader, &model->patch, width, 4 * config->channels, 1, "x_embedder");
    diti_load_vector(loader, &model->text_norm, 1, config->text, "time_caption_embed.caption_embedder.0.weight");
    diti_load_layer(loader, &model->text, width, config->text, 1, "time_caption_embed.caption_embedder.1");
    diti_load_embedder(loader, &model->time, config->time, config->time, 256, "time_caption_embed.timestep_embedder");
    for (i = 0; i < config->refiners; i++)
        diti_lumina2_load_block(loader, &model->blocks[all + i], config, "context_refiner.", i, DITI_STREAMS_ONE,
                                false);
    for (i = 0; i < config->refiners; i++)
        diti_lumina2_load_block(loader, &model->blocks[i], config, "noise_refiner.", i, DITI_STREAMS_IMAGE, true);
    for (i = 0; i < config->blocks; i++)
        diti_lumina2_load_block(loader, &model->blocks[image + i], config, "layers.", i, DITI_STREAMS_ONE, true);
    diti_load_layer(loader, &model->final_modulation, width, config->time, 1, "norm_out.linear_1");
    diti_load_layer(loader, &model->proj_out, 4 * config->channels, width, 1, "norm_out.linear_2");
    diti_make_output(&model->last, DITI_STREAMS_IMAGE, &model->proj_out);
}

/* ---- how its language model is asked (docs/models.md 5.5) ---- */

#define DITI_LUMINA2_SUPERIOR                                                                                           \
    "You are an assistant designed to generate superior images with the superior degree of image-text alignment based " \
    "on textual prompts or user prompts. <Prompt Start> "

static const diti_chat diti_lumina2_chats[] = {
    {"Lumina2Pipeline Lumina2Text2ImgPipeline",
     DITI_LUMINA2_SUPERIOR,
     "",
     NULL,
     "",
     "",
     256,
     false,
     DITI_CHAT_PLAIN_GUIDES,
     {1, 0, {-2}, false},
     0},
    DITI_CHATS_END,
};

static void diti_lumina2_set_traits(diti_lumina2 *model) {
    const diti_lumina2_config *config = &model->config;
    diti_model_traits *traits = &model->base.traits;
    traits->variant = "lumina2";
    traits->layers = config->refiners + config->blocks;
    traits->width = config->width;
    traits->heads = config->heads;
    traits->feed = config->feed;
    traits->gated = true;
    traits->latent_channels = traits->out_channels = config->channels;
    traits->patch = 2;
    traits->default_size = 128;
    traits->chat = &diti_lumina2_chats[0];
    traits->text_tokens = traits->chat->tokens;
    traits->text_columns = config->text;
    traits->text_unit = 1;
    traits->encoders[0] = DITI_ENCODER_GEMMA2;
    traits->scheduler = "{\"_class_name\":\"FlowMatchEulerDiscreteScheduler\",\"shift\":6.0}";
    traits->uniform_sigmas = true;
    traits->norms_lines = true;
    traits->whole_rows = true;
    traits->default_steps = 30;
    traits->default_guidance = 4;
    traits->joint = traits->channels_last = true;
}

static void diti_lumina2_load(diti_component *component, diti_loader *loader) {
    diti_lumina2 *model = (diti_lumina2 *)(void *)component;
    model->blocks = (diti_lumina2_block *)diti_component_array(
        component, loader, model->config.blocks + 2 * model->config.refiners, sizeof *model->blocks);
    if (!model->blocks) return;
    diti_lumina2_load_weights(loader, model);
    diti_lumina2_set_traits(model);
}

/* ---- once per picture: everything that does not depend on the latent ---- */

typedef struct diti_lumina2_state {            /* prepare leaves these for the steps */
    diti_tensor sinusoids;                     /* input F32 [steps, 256] */
    diti_tensor cosines, sines;                /* inputs F32 [prompts * (text + image rows), head_dim / 2] */
    diti_tensor tables[2][DITI_JOINT_STREAMS]; /* cosines and sines of the rows at hand: of all, and of the image's */
    diti_text_order order;
    diti_tensor text;  /* F32 [prompts * text rows, D], refined */
    diti_tensor gates; /* tanh of the step's modulation, F32 [1, columns of all layers here]; 0: made by block */
    diti_tensor final; /* F32 [steps, D] */
    diti_adaln adaln;
} diti_lumina2_state;

#define diti_lumina2_state_of(step) ((diti_lumina2_state *)(step)->family)

/* Rows of a modulation, F32 [1, 4D]. */
enum { DITI_LUMINA2_SCALE_MSA, DITI_LUMINA2_GATE_MSA, DITI_LUMINA2_SCALE_MLP, DITI_LUMINA2_GATE_MLP };

/* RMS norm of each head, then rotation: in place. */
static void diti_lumina2_turn(const diti_pass *p, diti_tensor x, const diti_weight *norm, diti_tensor cosines,
                              diti_tensor sines, const char *name) {
    const diti_lumina2_config *config = &diti_lumina2_of(p->model)->config;
    diti_qkv_desc post = DITI_ZERO;
    post.head_dim = config->head_dim;
    post.heads = diti_tensor_columns(p->graph, x) / post.head_dim;
    post.norm = DITI_QKV_RMS;
    post.eps = config->eps;
    post.weight = norm;
    post.cosines = cosines;
    post.sines = sines;
    post.tokens = diti_tensor_rows(p->graph, cosines);
    post.name = name;
    diti_qk_norm_rope(p->graph, x, &post);
}

static diti_tensor diti_lumina2_linear(const diti_pass *p, diti_tensor h, const diti_layer *layer,
                                       const diti_column_shard *shard, const char *name) {
    const diti_lumina2_config *config = &diti_lumina2_of(p->model)->config;
    diti_linear_desc desc = DITI_ZERO;
    if (shard->count < shard->all) {
        desc.first = shard->first / config->shared;
        desc.count = shard->count / config->shared;
    }
    desc.name = name;
    return diti_linear(p->graph, h, &layer->weight, &desc);
}

/* Attention within each of `runs` equal runs of rows of h, one after the other, so that a device binds the keys of one
   at a time. keys U32 [items, DITI_ITEM_WORDS]: the rows that its items attend, counted from the run's first on; 0: a
   run is an item that attends all of it. */
static diti_tensor diti_lumina2_attend(const diti_pass *p, const diti_lumina2_block *w, diti_tensor h, uint32_t runs,
                                       diti_tensor keys, diti_tensor cosines, diti_tensor sines) {
    const diti_lumina2_config *config = &diti_lumina2_of(p->model)->config;
    diti_graph *graph = p->graph;
    diti_column_shard shard = diti_column_shard_of(p, &w->attention);
    diti_tensor q, k, v, out;
    uint32_t rows, items, i;
    q = diti_sublayer_in(p, h, &w->attention, 0);
    k = diti_lumina2_linear(p, h, &w->k, &shard, "k");
    v = diti_lumina2_linear(p, h, &w->v, &shard, "v");
    if (diti_graph_failed(graph)) return 0;
    diti_lumina2_turn(p, q, &w->norms[0], cosines, sines, "q_turn");
    diti_lumina2_turn(p, k, &w->norms[1], cosines, sines, "k_turn");
    rows = diti_tensor_rows(graph, q) / runs;
    items = keys ? diti_tensor_rows(graph, keys) / runs : 1;
    out = diti_tensor_new(graph, graph->activation, runs * rows, shard.count, "attention");
    for (i = 0; i < runs && !diti_graph_failed(graph); i++) {
        diti_attention_desc desc = DITI_ZERO;
        desc.batch = items;
        desc.heads = shard.count / config->head_dim;
        desc.kv_heads = desc.heads / config->shared;
        desc.head_dim = config->head_dim;
        desc.scale = 1.0f / sqrtf((float)config->head_dim);
        if (keys) desc.items = diti_tensor_view(graph, keys, i * items, items, 0, DITI_ITEM_WORDS);
        desc.key_limit = rows / items;
        desc.out = diti_tensor_view(graph, out, i * rows, rows, 0, shard.count);
        desc.name = "attention";
        diti_attention(graph, diti_tensor_view(graph, q, i * rows, rows, 0, shard.count),
                       diti_tensor_view(graph, k, i * rows, rows, 0, shard.count / config->shared),
                       diti_tensor_view(graph, v, i * rows, rows, 0, shard.count / config->shared), &desc);
    }
    return out;
}

/* Angles of the text's rows of all prompts, one prompt behind the other: F32 [prompts * text rows, head_dim / 2]. */
static diti_tensor diti_lumina2_text_table(const diti_pass *p, diti_tensor table) {
    uint32_t prompts = p->step->text_batch, text = p->step->text_tokens, i;
    uint32_t columns = diti_tensor_columns(p->graph, table), rows = diti_tensor_rows(p->graph, table) / prompts;
    diti_tensor all;
    if (prompts == 1) return diti_tensor_view(p->graph, table, 0, text, 0, columns);
    all = diti_tensor_new(p->graph, DITI_F32, prompts * text, columns, "text_table");
    for (i = 0; i < prompts; i++)
        diti_copy(p->graph, diti_tensor_view(p->graph, table, i * rows, text, 0, columns),
                  diti_tensor_view(p->graph, all, i * text, text, 0, columns), "text_table");
    return all;
}

/* A pass whose rows are those of the texts alone, one item for each prompt. */
static diti_pass diti_lumina2_text_pass(const diti_pass *p) {
    diti_pass here = *p;
    here.items = here.prompts = p->step->text_batch;
    here.text = p->step->text_tokens;
    here.image = 0;
    memset(&here.modulation, 0, sizeof here.modulation);
    return here;
}

/* A block of the text's own, docs/models.md 3.18 step 2: no modulation; a prompt's rows attend those that it fills. */
static void diti_lumina2_refine(const diti_pass *p, const diti_lumina2_block *w, diti_tensor x, diti_tensor cosines,
                                diti_tensor sines) {
    const diti_lumina2_config *config = &diti_lumina2_of(p->model)->config;
    diti_norm_desc norm = DITI_ZERO;
    diti_pass here = diti_lumina2_text_pass(p);
    diti_tensor h = diti_sublayer_norm(&here, x, &norm, &w->attention);
    h = diti_lumina2_attend(&here, w, h, 1, diti_lumina2_state_of(p->step)->order.items, cosines, sines);
    diti_norm_behind(p->graph, x, diti_sublayer_out(&here, &w->attention, h), &w->behind[0].weight, config->eps, 0);
    memset(&norm, 0, sizeof norm);
    h = diti_sublayer_norm(&here, x, &norm, &w->feed);
    h = diti_sublayer_in(&here, h, &w->feed, 0);
    diti_norm_behind(p->graph, x, diti_sublayer_out(&here, &w->feed, h), &w->behind[1].weight, config->eps, 0);
}

/* The text as blocks read it: F32 [prompts * text rows, D], zeros in front of it. */
static diti_tensor diti_lumina2_text(diti_pass *p) {
    const diti_lumina2 *model = diti_lumina2_of(p->model);
    const diti_lumina2_config *config = &model->config;
    const diti_lumina2_state *state = diti_lumina2_state_of(p->step);
    diti_graph *graph = p->graph;
    uint32_t rows = diti_tensor_rows(graph, p->step->text), i;
    diti_tensor text = diti_tensor_view(graph, p->step->text, 0, rows, 0, config->text), cosines, sines;
    diti_norm_desc norm = DITI_ZERO;
    norm.rms = true;
    norm.weight = &model->text_norm;
    norm.eps = config->eps;
    norm.name = "text_norm";
    text = diti_layer_f32(graph, diti_norm(graph, text, &norm), &model->text, DITI_ACTIVATION_NONE, 0, "context");
    text = diti_text_order_rows(p, &state->order, text);
    cosines = diti_lumina2_text_table(p, state->cosines);
    sines = diti_lumina2_text_table(p, state->sines);
    for (i = 0; i < config->refiners && !diti_graph_failed(graph); i++)
        diti_lumina2_refine(p, &model->blocks[config->refiners + config->blocks + i], text, cosines, sines);
    return text;
}

static void diti_lumina2_prepare(diti_pass *p) {
    const diti_lumina2 *model = diti_lumina2_of(p->model);
    const diti_lumina2_config *config = &model->config;
    diti_step_desc *step = p->step;
    diti_graph *graph = p->graph;
    uint32_t rows = step->text_tokens + step->height / 2 * (step->width / 2), i, end;
    diti_lumina2_state *state = diti_lumina2_state_of(step);
    diti_tensor time;
    state->sinusoids = diti_tensor_input(graph, DITI_F32, step->steps, 256, "timesteps");
    state->cosines = diti_tensor_input(graph, DITI_F32, step->text_batch * rows, config->head_dim / 2, "cosines");
    state->sines = diti_tensor_input(graph, DITI_F32, step->text_batch * rows, config->head_dim / 2, "sines");
    diti_text_order_prepare(p, &state->order);
    if (!state->order.keys) /* another device may have the longer text */
        state->order.keys = diti_tensor_input(graph, DITI_U32, step->branches * step->batch, DITI_ITEM_WORDS, "keys");
    time = diti_silu(graph, diti_embed(graph, &model->time, state->sinusoids, 0), "modulation_silu");
    diti_axes_blocks(step->axes, p->model->traits.layers, &i, &end);
    for (state->adaln.first = i; i < end; i++) diti_adaln_add(&state->adaln, &model->blocks[i].modulation);
    diti_adaln_prepare_active(p, &state->adaln, time, 1);
    state->final = diti_layer_f32(graph, time, &model->final_modulation, DITI_ACTIVATION_NONE, 0, "final_modulation");
    state->text = diti_lumina2_text(p);
}

/* ---- inputs ---- */

/* A text's tokens stand behind each other from 0 on, the picture at the next place. */
static void diti_lumina2_place(const diti_transformer *transformer, const diti_step_desc *step, uint32_t prompt,
                               float *cosines, float *sines) {
    const diti_lumina2_config *config = &diti_lumina2_of(transformer)->config;
    uint32_t half = config->head_dim / 2, texts = step->text_tokens, columns = step->width / 2, row;
    uint32_t rows = texts + step->height / 2 * columns;
    uint32_t length = diti_text_order_length(step, prompt, 1);
    for (row = 0; row < rows; row++) {
        int32_t position[DITI_LUMINA2_AXES] = {0, 0, 0};
        size_t at = ((size_t)prompt * rows + row) * half;
        if (row < texts && row >= texts - length) position[0] = (int32_t)(row - (texts - length));
        if (row >= texts) {
            position[0] = (int32_t)length;
            position[1] = (int32_t)((row - texts) / columns);
            position[2] = (int32_t)((row - texts) % columns);
        }
        diti_rotate_axes(config->axes, DITI_LUMINA2_AXES, (double)config->theta, position, cosines + at, sines + at);
    }
}

/* The model counts time from noise, 0, to the picture, 1. */
static dit_result diti_lumina2_write_inputs(const diti_transformer *transformer, diti_plan *plan,
                                            const diti_step_desc *step, const float *timesteps, dit_error *err) {
    const diti_lumina2 *model = diti_lumina2_of(transformer);
    const diti_lumina2_state *state = (const diti_lumina2_state *)step->family;
    const diti_env *env = &model->base.component.env;
    uint32_t image = step->height / 2 * (step->width / 2), i;
    float *times;
    dit_result result;
    DITI_TRY(diti_text_order_write(plan, step, &state->order, env, 1, image, err));
    DITI_TRY(diti_write_places(transformer, plan, step, state->cosines, state->sines, step->text_batch,
                               diti_lumina2_place, err));
    times = (float *)diti_alloc_array(env, step->steps, sizeof *times);
    if (!times) return diti_fail_memory(err, "the timesteps");
    for (i = 0; i < step->steps; i++) times[i] = 1 - timesteps[i] / 1000;
    result = diti_write_sinusoids(plan, state->sinusoids, times, step->steps, 0, err);
    diti_free(env, times);
    return result;
}

/* ---- one evaluation ---- */

static void diti_lumina2_begin(diti_pass *p) {
    diti_lumina2_state *state = diti_lumina2_state_of(p->step);
    uint32_t stream, items = p->step->text_batch > 1 ? p->items : 0;
    for (stream = 0; stream < DITI_JOINT_STREAMS; stream++) {
        state->tables[0][stream] = diti_text_order_table(p, state->cosines, stream, items);
        state->tables[1][stream] = diti_text_order_table(p, state->sines, stream, items);
    }
    if (p->step->same_timestep) return;
    diti_adaln_select(p, &state->adaln);
    state->gates = state->adaln.table ? diti_adaln_tanh(p->graph, state->adaln.row) : 0;
}

static diti_tensor diti_lumina2_embed(diti_pass *p) {
    return diti_patch_embed(p, diti_lumina2_state_of(p->step)->text, &diti_lumina2_of(p->model)->patch, 0);
}

/* Lumina2TransformerBlock.forward, docs/models.md 3.18 step 3; x F32 [items * (text + image), D] is changed in place.
 */
static diti_tensor diti_lumina2_run_block(diti_pass *p, diti_tensor x) {
    const diti_lumina2 *model = diti_lumina2_of(p->model);
    const diti_lumina2_block *w = &model->blocks[p->index];
    const diti_lumina2_state *state = diti_lumina2_state_of(p->step);
    uint32_t stream = p->index < model->config.refiners ? (uint32_t)DITI_JOINT_IMAGE : (uint32_t)DITI_JOINT_TEXT;
    diti_tensor gates, h, keys = stream == DITI_JOINT_TEXT ? diti_text_order_keys(p, &state->order) : 0;
    if (p->image != p->step->token_range.all)
        return diti_graph_fail(p->graph, DIT_ERROR_INVALID_ARGUMENT,
                               "Lumina-Image 2 wants all rows on one device: no ulysses, ring or pipefusion");
    p->modulation.rows = diti_adaln_get(p->graph, &state->adaln, p->index);
    gates = diti_adaln_gates(p, &state->adaln, state->gates);
    h = diti_modulate(p, x, DITI_NO_GATE, (diti_modulator)DITI_LUMINA2_SCALE_MSA, &w->attention);
    h = diti_lumina2_attend(p, w, h, p->items, keys, state->tables[0][stream], state->tables[1][stream]);
    diti_sublayer_add_normed(p, x, &w->attention, h, &w->behind[0].weight,
                             diti_tensor_view(p->graph, gates, 0, 1, DITI_LUMINA2_GATE_MSA * p->width, p->width));
    h = diti_modulate(p, x, DITI_NO_GATE, (diti_modulator)DITI_LUMINA2_SCALE_MLP, &w->feed);
    h = diti_sublayer_in(p, h, &w->feed, 0);
    diti_sublayer_add_normed(p, x, &w->feed, h, &w->behind[1].weight,
                             diti_tensor_view(p->graph, gates, 0, 1, DITI_LUMINA2_GATE_MLP * p->width, p->width));
    return x;
}

static diti_tensor diti_lumina2_final(diti_pass *p, diti_tensor x) {
    const diti_lumina2 *model = diti_lumina2_of(p->model);
    p->modulation.rows = diti_select_row(p->graph, diti_lumina2_state_of(p->step)->final, p->step->row, "final_scale");
    return diti_output_opposite(p, diti_modulate(p, x, DITI_NO_GATE, (diti_modulator)0, &model->last), &model->last);
}

/* ---- where parts of such models are ---- */

#define DITI_LUMINA2_USUAL "Alpha-VLLM/Lumina-Image-2.0"
static const diti_place diti_lumina2_places[] = {
    {"", DIT_ROLE_TRANSFORMER, DITI_LUMINA2_USUAL ": transformer/"},
    {"", DIT_ROLE_TEXT_1, DITI_LUMINA2_USUAL ": text_encoder/"},
    {"", DIT_ROLE_VAE, DITI_LUMINA2_USUAL ": vae/"},
    {"", DIT_ROLE_TOKENIZER_1, DITI_LUMINA2_USUAL ": tokenizer/"},
    {"", DIT_ROLE_SCHEDULER, DITI_LUMINA2_USUAL ": scheduler/"},
    {NULL, DIT_ROLE_NONE, NULL},
};

DIT_INTERNAL const diti_family *diti_lumina2_family(void) {
    static const diti_family family = {
        "lumina2",
        "Lumina-Image 2",
        {"Lumina2Transformer2DModel",
         NULL,
         {"time_caption_embed.caption_embedder.1.weight", "layers.0.norm1.linear.weight", NULL, NULL},
         {"cap_embedder.1.weight", "layers.0.attention.qkv.weight", "layers.0.adaLN_modulation.1.weight", NULL},
         {NULL, NULL}},
        {"transformer", "transformer", sizeof(diti_lumina2), diti_lumina2_read, diti_lumina2_load, NULL},
        diti_lumina2_names,
        {16, 0.3611f, 0.1159f, false},
        NULL,
        diti_lumina2_chats,
        diti_lumina2_places,
        sizeof(diti_lumina2_state),
        diti_lumina2_prepare,
        diti_lumina2_begin,
        diti_lumina2_embed,
        diti_lumina2_run_block,
        diti_lumina2_final,
        diti_lumina2_write_inputs};
    return &family;
}
