/* Krea 2: docs/models.md 3.15. Original:
   https://github.com/huggingface/diffusers/blob/v0.42.1/src/diffusers/models/transformers/transformer_krea2.py

   One stream of text and image, all of whose blocks are modulated by the timestep plus a table of their own. Heads of
   queries share heads of keys and values, and a gate that reads the same norm closes columns of what they say. The text
   is made of twelve states of the language model: blocks of its own attend the states of each token, a weighted sum is
   left of them, and more blocks attend the tokens. */
#include "model/model.h"
#include "text/text.h"

#define DITI_KREA2_MAX_BLOCKS 128u
#define DITI_KREA2_MAX_STATES 16u
#define DITI_KREA2_AXES 3u

/* ---- configuration ---- */

typedef struct diti_krea2_config {
    uint32_t blocks, heads, kv_heads, head_dim, width, feed; /* width: D; feed: columns of the feed-forward */
    uint32_t channels;                                       /* channels of the latent; tokens are patches of 2 x 2 */
    uint32_t time;                                           /* columns of sinusoids */
    uint32_t kv_rows;
    uint32_t states, text, text_feed, text_head_dim, text_heads, text_kv_heads; /* text: columns of a state */
    uint32_t layerwise, refiners;                                               /* the text's own blocks */
    uint32_t axes[DITI_KREA2_AXES]; /* channels of a head that rotate with each coordinate */
    float theta, eps;
    float sum[DITI_KREA2_MAX_STATES]; /* weights of the states */
    uint32_t in, out;                 /* columns that the first layer reads, and that the last one makes */
} diti_krea2_config;

/* ---- key table: names asked for here are diffusers'; the original code base calls them so ---- */

static const char *const diti_krea2_keys[][2] = {
    {"img_in", "first"},
    {"time_embed.linear_1", "tmlp.0"},
    {"time_embed.linear_2", "tmlp.2"},
    {"time_mod_proj", "tproj.1"},
    {"txt_in.norm.weight", "txtmlp.0.scale"},
    {"txt_in.linear_1", "txtmlp.1"},
    {"txt_in.linear_2", "txtmlp.3"},
    {"text_fusion.projector", "txtfusion.projector"},
    {"final_layer.linear", "last.linear"},
    {"final_layer.norm.weight", "last.norm.scale"},
    {"final_layer.scale_shift_table", "last.modulation.lin"},
};
static const char *const diti_krea2_block_keys[][2] = {
    {"scale_shift_table", "mod.lin"}, /* flat */
    {"norm1.weight", "prenorm.scale"},
    {"norm2.weight", "postnorm.scale"},
    {"attn.to_q", "attn.wq"},
    {"attn.to_k", "attn.wk"},
    {"attn.to_v", "attn.wv"},
    {"attn.to_out.0", "attn.wo"},
    {"attn.to_gate", "attn.gate"},
    {"attn.norm_q.weight", "attn.qknorm.qnorm.scale"},
    {"attn.norm_k.weight", "attn.qknorm.knorm.scale"},
    {"ff.gate", "mlp.gate"},
    {"ff.up", "mlp.up"},
    {"ff.down", "mlp.down"},
};
static const diti_key_table diti_krea2_names[DITI_KEY_TABLES] = {
    {"transformer_blocks.", "blocks.", diti_krea2_block_keys, DITI_COUNT(diti_krea2_block_keys)},
    {"text_fusion.layerwise_blocks.", "txtfusion.layerwise_blocks.", diti_krea2_block_keys,
     DITI_COUNT(diti_krea2_block_keys)},
    {"text_fusion.refiner_blocks.", "txtfusion.refiner_blocks.", diti_krea2_block_keys,
     DITI_COUNT(diti_krea2_block_keys)},
    {NULL, NULL, diti_krea2_keys, DITI_COUNT(diti_krea2_keys)},
};

/* ---- weights; d: D, or columns of a state in the text's own blocks ---- */

typedef struct diti_krea2_block {
    diti_layer norms[2];        /* [d]: before attention, before the feed-forward; 1 is added, as to all norms here */
    diti_fused_linear qkv;      /* [heads * head_dim, d], then twice [kv_heads * head_dim, d] */
    diti_weight q_norm, k_norm; /* F32 [head_dim] */
    diti_layer gate, out;       /* [heads * head_dim, d], [d, heads * head_dim] */
    diti_layer ff_gate, ff_in;  /* [feed, d] each */
    diti_layer ff_out;          /* [d, feed] */
    diti_weight table;          /* F32 [6, D]; the text's own blocks have none */
    diti_sublayer attention, feed;
} diti_krea2_block;

typedef struct diti_krea2 {
    diti_transformer base;
    diti_krea2_config config;
    diti_layer patch;             /* [D, 4 * channels] */
    diti_embedder time;           /* [D, time], [D, D] */
    diti_layer modulation;        /* [6D, D] */
    diti_weight text_norm;        /* F32 [text] */
    diti_weight sum;              /* F32 [states], of which config has a copy */
    diti_layer text_in, text_out; /* [D, text], [D, D] */
    diti_krea2_block *blocks;     /* the image's, then the text's: those of the states, and of the tokens */
    diti_layer final_norm;        /* [D] */
    diti_weight final_table;      /* F32 [2, D] */
    diti_layer proj_out;          /* [4 * channels, D] */
    diti_sublayer last;
} diti_krea2;

#define diti_krea2_of(transformer) ((const diti_krea2 *)(const void *)(transformer))

/* ---- reading the configuration: what config.json does not say comes from shapes ---- */

/* The weights of the states are few, and are read here: each scales a whole tensor. */
static dit_result diti_krea2_read_sum(diti_loader *loader, diti_krea2_config *config, dit_error *err) {
    const diti_stored_tensor *tensor = diti_loader_find(loader, "text_fusion.projector.weight");
    if (!tensor || diti_stored_tensor_elements(tensor) != config->states)
        return diti_loader_refuse(loader, err, "the sum of %u states of text (projector) is missing",
                                  (unsigned)config->states);
    return diti_checkpoint_read_float(loader->checkpoint, tensor, config->sum, config->states, err);
}

static dit_result diti_krea2_check(const diti_loader *loader, const diti_krea2_config *config, dit_error *err) {
    static const diti_need needs[] = {{offsetof(diti_krea2_config, blocks), "blocks"},
                                      {offsetof(diti_krea2_config, feed), "blocks"},
                                      {offsetof(diti_krea2_config, text_head_dim), "blocks of the text (text_fusion)"},
                                      {offsetof(diti_krea2_config, text), "blocks of the text (text_fusion)"},
                                      {offsetof(diti_krea2_config, states), "the sum of states of text (projector)"},
                                      {offsetof(diti_krea2_config, head_dim), "norms of queries"},
                                      {offsetof(diti_krea2_config, width), "img_in or final_layer"},
                                      {offsetof(diti_krea2_config, in), "img_in or final_layer"},
                                      {offsetof(diti_krea2_config, out), "img_in or final_layer"},
                                      {offsetof(diti_krea2_config, text_feed), "img_in or final_layer"},
                                      {offsetof(diti_krea2_config, time), "img_in or final_layer"}};
    DITI_TRY(diti_config_complete(loader, config, "Krea 2", needs, DITI_COUNT(needs), err));
    if (config->in != config->out || config->in % 4 || config->in > 1024 || config->head_dim > 256 ||
        config->head_dim % 8 || config->width % config->head_dim || config->kv_rows % config->head_dim ||
        config->width % (config->kv_rows ? config->kv_rows : 1) || config->text % config->text_head_dim ||
        config->text_head_dim % 4 || config->blocks > DITI_KREA2_MAX_BLOCKS || config->states > DITI_KREA2_MAX_STATES)
        return diti_loader_refuse(
            loader, err,
            "a Krea 2 transformer of %u blocks, heads of %u in widths of %u and %u, and %u states of "
            "text, that takes %u columns of patches and makes %u, is out of range",
            (unsigned)config->blocks, (unsigned)config->head_dim, (unsigned)config->width, (unsigned)config->kv_rows,
            (unsigned)config->states, (unsigned)config->in, (unsigned)config->out);
    return DIT_OK;
}

static dit_result diti_krea2_read(diti_component *component, diti_loader *loader, const diti_json *json,
                                  dit_error *err) {
    static const diti_shape_key keys[] = {
        {offsetof(diti_krea2_config, in), "img_in.weight", 1},
        {offsetof(diti_krea2_config, out), "final_layer.linear.weight", 0},
        {offsetof(diti_krea2_config, width), "img_in.weight", 0},
        {offsetof(diti_krea2_config, time), "time_embed.linear_1.weight", 1},
        {offsetof(diti_krea2_config, text), "txt_in.linear_1.weight", 1},
        {offsetof(diti_krea2_config, feed), "transformer_blocks.0.ff.gate.weight", 0},
        {offsetof(diti_krea2_config, kv_rows), "transformer_blocks.0.attn.to_k.weight", 0},
        {offsetof(diti_krea2_config, head_dim), "transformer_blocks.0.attn.norm_q.weight", 0},
        {offsetof(diti_krea2_config, text_feed), "text_fusion.refiner_blocks.0.ff.gate.weight", 0},
        {offsetof(diti_krea2_config, text_kv_heads), "text_fusion.refiner_blocks.0.attn.to_k.weight", 0},
        {offsetof(diti_krea2_config, text_head_dim), "text_fusion.refiner_blocks.0.attn.norm_q.weight", 0},
        {offsetof(diti_krea2_config, states), "text_fusion.projector.weight", 1}};
    diti_krea2_config *config = &((diti_krea2 *)(void *)component)->config;
    diti_settings settings = diti_settings_of(json, "the transformer's config.json", err);
    diti_read_shapes(loader, config, keys, DITI_COUNT(keys));
    config->blocks = diti_loader_layers(loader, &settings, "num_layers", "transformer_blocks.", ".attn.to_q.weight");
    config->layerwise = diti_loader_layers(loader, &settings, "num_layerwise_text_blocks",
                                           "text_fusion.layerwise_blocks.", ".attn.to_q.weight");
    config->refiners = diti_loader_layers(loader, &settings, "num_refiner_text_blocks", "text_fusion.refiner_blocks.",
                                          ".attn.to_q.weight");
    DITI_TRY(diti_krea2_check(loader, config, err));
    config->channels = config->in / 4;
    config->heads = config->width / config->head_dim;
    config->kv_heads = config->kv_rows / config->head_dim;
    config->text_heads = config->text / config->text_head_dim;
    config->text_kv_heads /= config->text_head_dim;
    config->theta = (float)diti_setting_number(&settings, "rope_theta", 1000, 2, 1e9);
    config->eps = (float)diti_setting_number(&settings, "norm_eps", 1e-5, 0, 1);
    DITI_TRY(diti_krea2_read_sum(loader, config, err));
    /* As published, 32, 48 and 48 of 128; the same shares of other heads. */
    return diti_setting_axes(&settings, "Krea 2", "axes_dims_rope", config->head_dim, config->head_dim / 4,
                             config->head_dim / 8 * 3, DITI_KREA2_AXES, config->axes, err);
}

/* ---- loading ---- */

/* A table of so many rows, which originals store flat. */
static void diti_krea2_load_table(diti_loader *loader, diti_weight *out, uint32_t rows, uint32_t columns,
                                  const char *name) {
    uint32_t stored = diti_loader_dimension(loader, name, 0);
    diti_load_vector(loader, out, stored == rows ? rows : 1, stored == rows ? columns : rows * columns, name);
    if (!out->part_count) return;
    out->rows = out->parts[0].rows = rows;
    out->columns = columns;
}

typedef struct diti_krea2_sizes {
    uint32_t width, heads, kv_heads, head_dim, feed;
} diti_krea2_sizes;

static void diti_krea2_load_block(diti_loader *loader, diti_krea2_block *block, const diti_krea2_sizes *sizes,
                                  float eps) {
    static const char *const qkv[] = {"attn.to_q", "attn.to_k", "attn.to_v"};
    uint32_t d = sizes->width, i, own = sizes->heads * sizes->head_dim, kv = sizes->kv_heads * sizes->head_dim;
    diti_load_offset(loader, &block->norms[0].weight, d, 1, "norm1.weight");
    diti_load_offset(loader, &block->norms[1].weight, d, 1, "norm2.weight");
    block->qkv.count = 3;
    for (i = 0; i < 3; i++) diti_load_bare(loader, &block->qkv.layers[i], i ? kv : own, d, qkv[i]);
    diti_load_offset(loader, &block->q_norm, sizes->head_dim, 1, "attn.norm_q.weight");
    diti_load_offset(loader, &block->k_norm, sizes->head_dim, 1, "attn.norm_k.weight");
    diti_load_bare(loader, &block->gate, own, d, "attn.to_gate");
    diti_load_bare(loader, &block->out, d, own, "attn.to_out.0");
    diti_load_bare(loader, &block->ff_gate, sizes->feed, d, "ff.gate");
    diti_load_bare(loader, &block->ff_in, sizes->feed, d, "ff.up");
    diti_load_bare(loader, &block->ff_out, d, sizes->feed, "ff.down");
    diti_make_attention(&block->attention, DITI_STREAMS_ONE, &block->qkv, &block->out, own,
                        own / sizes->kv_heads); /* groups stay whole */
    block->attention.gate = &block->gate;
    diti_make_feed(&block->feed, DITI_STREAMS_ONE, &block->ff_in, &block->ff_out);
    block->feed.gate = &block->ff_gate;
    block->feed.activation = DITI_ACTIVATION_SILU;
    block->attention.rms = block->feed.rms = true;
    block->attention.eps = block->feed.eps = eps;
    block->attention.norm = &block->norms[0];
    block->feed.norm = &block->norms[1];
}

static void diti_krea2_load_weights(diti_loader *loader, diti_krea2 *model) {
    const diti_krea2_config *config = &model->config;
    uint32_t i, width = config->width, texts = config->layerwise + config->refiners;
    diti_krea2_sizes sizes = {width, config->heads, config->kv_heads, config->head_dim, config->feed};
    diti_krea2_sizes text = {config->text, config->text_heads, config->text_kv_heads, config->text_head_dim,
                             config->text_feed};
    diti_load_layer(loader, &model->patch, width, 4 * config->channels, 1, "img_in");
    diti_load_embedder(loader, &model->time, width, width, config->time, "time_embed");
    diti_load_layer(loader, &model->modulation, 6 * width, width, 1, "time_mod_proj");
    for (i = 0; i < texts; i++) {
        bool refines = i >= config->layerwise;
        diti_loader_scope(loader, "text_fusion.%s_blocks.%u.", refines ? "refiner" : "layerwise",
                          (unsigned)(refines ? i - config->layerwise : i));
        diti_krea2_load_block(loader, &model->blocks[config->blocks + i], &text, config->eps);
    }
    diti_loader_scope_end(loader);
    diti_load_vector(loader, &model->sum, 1, config->states, "text_fusion.projector.weight");
    diti_load_offset(loader, &model->text_norm, config->text, 1, "txt_in.norm.weight");
    diti_load_layer(loader, &model->text_in, width, config->text, 1, "txt_in.linear_1");
    diti_load_layer(loader, &model->text_out, width, width, 1, "txt_in.linear_2");
    for (i = 0; i < config->blocks; i++) {
        diti_loader_scope(loader, "transformer_blocks.%u.", (unsigned)i);
        diti_krea2_load_block(loader, &model->blocks[i], &sizes, config->eps);
        diti_krea2_load_table(loader, &model->blocks[i].table, 6, width, "scale_shift_table");
    }
    diti_loader_scope_end(loader);
    diti_load_offset(loader, &model->final_norm.weight, width, 1, "final_layer.norm.weight");
    diti_krea2_load_table(loader, &model->final_table, 2, width, "final_layer.scale_shift_table");
    diti_load_layer(loader, &model->proj_out, 4 * config->channels, width, 1, "final_layer.linear");
    diti_make_output(&model->last, DITI_STREAMS_IMAGE, &model->proj_out);
    model->last.rms = true;
    model->last.eps = config->eps;
    model->last.norm = &model->final_norm;
}

/* Turbo takes few steps with one shift; Raw, which has the same tensors, says in model_index.json that it is not
   distilled. */
static void diti_krea2_settle(diti_model_traits *traits, const diti_json *index, const diti_json *scheduler) {
    (void)scheduler;
    if (!index || diti_json_bool(index, "is_distilled", true)) return;
    traits->variant = "raw";
    traits->fixed_shift = 0;
    traits->default_steps = 28;
    traits->default_guidance = 5.5f;
}

/* ---- how its language model is asked (docs/models.md 5.5) ---- */

static const diti_chat diti_krea2_chats[] = {
    {"Krea2Pipeline",
     DITI_CHAT_DESCRIBE,
     DITI_CHAT_ANSWER,
     NULL,
     DITI_CHAT_DESCRIBE,
     "",
     512,
     false,
     DITI_CHAT_KEEPS_AFTER,
     {12, 36, {2, 5, 8, 11, 14, 17, 20, 23, 26, 29, 32, 35}, false},
     0},
    DITI_CHATS_END,
};

static void diti_krea2_set_traits(diti_krea2 *model) {
    const diti_krea2_config *config = &model->config;
    diti_model_traits *traits = &model->base.traits;
    traits->variant = "turbo";
    diti_traits_sizes(traits, config->blocks, config->width, config->heads, config->channels, 2);
    traits->feed = config->feed;
    traits->gated = true;
    traits->default_size = 128;
    diti_traits_chat(traits, DITI_ENCODER_QWEN3_VL, &diti_krea2_chats[0], config->states * config->text, 1);
    traits->scheduler = "{\"_class_name\":\"FlowMatchEulerDiscreteScheduler\",\"shift\":1.0,"
                        "\"use_dynamic_shifting\":true,\"base_shift\":0.5,\"max_shift\":1.15,"
                        "\"base_image_seq_len\":256,\"max_image_seq_len\":6400}";
    traits->fixed_shift = 3.1581929f; /* e^1.15 */
    traits->uniform_sigmas = true;
    traits->default_steps = 8;
    traits->default_guidance = 1;
    traits->guides_beyond = true;
    traits->joint = traits->planar = true;
    traits->settle = diti_krea2_settle;
}

static void diti_krea2_load(diti_component *component, diti_loader *loader) {
    diti_krea2 *model = (diti_krea2 *)(void *)component;
    const diti_krea2_config *config = &model->config;
    model->blocks = (diti_krea2_block *)diti_component_array(
        component, loader, config->blocks + config->layerwise + config->refiners, sizeof *model->blocks);
    if (!model->blocks) return;
    diti_krea2_load_weights(loader, model);
    diti_krea2_set_traits(model);
}

/* ---- once per picture: everything that does not depend on the latent ---- */

typedef struct diti_krea2_state { /* prepare leaves these for the steps */
    diti_tensor sinusoids;        /* input F32 [steps, time] */
    diti_rotation rotation;       /* [text + image rows, head_dim / 2] */
    diti_text_order order;
    diti_tensor text;              /* F32 [prompts * text rows, D] */
    diti_tensor modulation, final; /* F32 [steps, 6D], [steps, 2D] */
    diti_tensor step, step_final;  /* rows of the step at hand */
} diti_krea2_state;

#define diti_krea2_state_of(step) ((diti_krea2_state *)(step)->family)

/* x * sigmoid(gate) = x * (1/2 + tanh(gate / 2) / 2). */
static diti_tensor diti_krea2_close(diti_graph *graph, diti_tensor x, diti_tensor gate) {
    diti_elementwise_desc desc = DITI_ZERO;
    desc.activation = DITI_ACTIVATION_SQUASH; /* 3 tanh(g / 3) of g = 3 / 2 gate */
    desc.scale = 1.5f;
    desc.out_f32 = true;
    desc.name = "attention_gate";
    gate = diti_elementwise(graph, gate, &desc);
    desc.activation = DITI_ACTIVATION_NONE;
    desc.scale = 1.0f / 6;
    desc.offset = 0.5f;
    return diti_multiply(graph, x, diti_elementwise(graph, gate, &desc), 0, "attention_gate");
}

/* RMS norm of each head, and rotation where there are tables, in place. */
static void diti_krea2_heads(diti_graph *graph, diti_tensor x, uint32_t head_dim, const diti_weight *weight, float eps,
                             diti_tensor cosines, diti_tensor sines) {
    diti_qkv_desc post = DITI_ZERO;
    post.heads = diti_tensor_columns(graph, x) / head_dim;
    post.head_dim = head_dim;
    post.norm = DITI_QKV_RMS;
    post.eps = eps;
    post.weight = weight;
    post.cosines = cosines;
    post.sines = sines;
    post.tokens = cosines ? diti_tensor_rows(graph, cosines) : 0;
    post.name = "heads";
    diti_qk_norm_rope(graph, x, &post);
}

static void diti_krea2_residual(diti_graph *graph, diti_tensor x, diti_tensor h, const diti_weight *weight,
                                const char *name) {
    diti_linear_desc desc = DITI_ZERO;
    desc.residual = desc.out = x;
    desc.name = name;
    diti_linear(graph, h, weight, &desc);
}

/* A block of the text's own, docs/models.md 3.15 step 1, on x F32 [rows, text] in place: rows of so many equal items,
   or of those that `items` names. */
static void diti_krea2_text_block(const diti_pass *p, const diti_krea2_block *w, diti_tensor x, uint32_t batch,
                                  diti_tensor items, uint32_t most) {
    const diti_krea2_config *config = &diti_krea2_of(p->model)->config;
    diti_graph *graph = p->graph;
    diti_attention_desc attention = DITI_ZERO;
    diti_linear_desc linear = DITI_ZERO;
    diti_tensor h = diti_rms_norm(graph, x, &w->norms[0].weight, config->eps, NULL, "text_norm"), qkv[3], gate;
    uint32_t i;
    for (i = 0; i < 3; i++) qkv[i] = diti_layer_run(graph, h, &w->qkv.layers[i], DITI_ACTIVATION_NONE, "text_qkv");
    gate = diti_layer_run(graph, h, &w->gate, DITI_ACTIVATION_NONE, "text_gate");
    diti_krea2_heads(graph, qkv[0], config->text_head_dim, &w->q_norm, config->eps, 0, 0);
    diti_krea2_heads(graph, qkv[1], config->text_head_dim, &w->k_norm, config->eps, 0, 0);
    attention.batch = batch;
    attention.heads = config->text_heads;
    attention.kv_heads = config->text_kv_heads;
    attention.head_dim = config->text_head_dim;
    attention.scale = 1.0f / sqrtf((float)config->text_head_dim);
    attention.items = items;
    attention.key_limit = most;
    attention.name = "text_attention";
    h = diti_krea2_close(graph, diti_attention(graph, qkv[0], qkv[1], qkv[2], &attention), gate);
    diti_krea2_residual(graph, x, h, &w->out.weight, "text_attention_out");
    h = diti_rms_norm(graph, x, &w->norms[1].weight, config->eps, NULL, "text_norm");
    linear.activation = DITI_ACTIVATION_SILU;
    linear.multiply = diti_layer_run(graph, h, &w->ff_in, DITI_ACTIVATION_NONE, "text_ff_in");
    linear.name = "text_ff_gate";
    h = diti_linear(graph, h, &w->ff_gate.weight, &linear);
    diti_krea2_residual(graph, x, h, &w->ff_out.weight, "text_ff_out");
}

/* The weighted sum of each token's states: F32 [tokens, text] of x [tokens * states, text]. */
static diti_tensor diti_krea2_sum(const diti_pass *p, diti_tensor x, uint32_t tokens) {
    const diti_krea2_config *config = &diti_krea2_of(p->model)->config;
    diti_elementwise_desc desc = DITI_ZERO;
    uint32_t i;
    x = diti_tensor_reshape(p->graph, x, tokens, config->states * config->text);
    desc.out_f32 = true;
    desc.name = "sum_states";
    for (i = 0; i < config->states && !diti_graph_failed(p->graph); i++) {
        desc.scale = config->sum[i] != 0 ? config->sum[i] : 1e-30f; /* 0 stands for 1 */
        desc.add =
            diti_elementwise(p->graph, diti_tensor_view(p->graph, x, 0, tokens, i * config->text, config->text), &desc);
    }
    return desc.add;
}

/* The text as blocks read it: F32 [prompts * text rows, D]. */
static diti_tensor diti_krea2_text(const diti_pass *p) {
    const diti_krea2 *model = diti_krea2_of(p->model);
    const diti_krea2_config *config = &model->config;
    const diti_text_order *order = &diti_krea2_state_of(p->step)->order;
    diti_graph *graph = p->graph;
    uint32_t tokens = diti_tensor_rows(graph, p->step->text), columns = config->states * config->text, i;
    diti_tensor x = diti_tensor_new(graph, DITI_F32, tokens, columns, "states of text");
    diti_copy(graph, diti_tensor_view(graph, p->step->text, 0, tokens, 0, columns), x, "states of text");
    x = diti_tensor_reshape(graph, x, tokens * config->states, config->text);
    for (i = 0; i < config->layerwise && !diti_graph_failed(graph); i++)
        diti_krea2_text_block(p, &model->blocks[config->blocks + i], x, tokens, 0, 0);
    x = diti_text_order_rows(p, order, diti_krea2_sum(p, x, tokens));
    for (i = 0; i < config->refiners && !diti_graph_failed(graph); i++)
        diti_krea2_text_block(p, &model->blocks[config->blocks + config->layerwise + i], x, p->step->text_batch,
                              order->items, p->step->text_tokens);
    x = diti_rms_norm(graph, x, &model->text_norm, config->eps, NULL, "text_norm");
    x = diti_layer_run(graph, x, &model->text_in, DITI_ACTIVATION_GELU_TANH, "context_in");
    return diti_layer_f32(graph, x, &model->text_out, DITI_ACTIVATION_NONE, 0, "context");
}

/* Modulation of all steps: of the blocks, without their tables, and of the last norm. */
static void diti_krea2_modulate(const diti_pass *p, diti_krea2_state *state) {
    const diti_krea2 *model = diti_krea2_of(p->model);
    diti_graph *graph = p->graph;
    uint32_t steps = p->step->steps, width = p->width, i;
    diti_tensor time, table = diti_tensor_weight(graph, &model->final_table, 0);
    diti_elementwise_desc active = DITI_ZERO;
    time = diti_layer_run(graph, state->sinusoids, &model->time.in, DITI_ACTIVATION_GELU_TANH, "time_in");
    time = diti_layer_f32(graph, time, &model->time.out, DITI_ACTIVATION_NONE, 0, "time");
    state->final = diti_tensor_new(graph, DITI_F32, steps, 2 * width, "final_modulation");
    for (i = 0; i < 2; i++)
        diti_add_rows(graph, time, diti_tensor_view(graph, table, i, 1, 0, width),
                      diti_tensor_view(graph, state->final, 0, steps, i * width, width), "final_modulation");
    active.activation = DITI_ACTIVATION_GELU_TANH;
    active.out_f32 = true;
    active.name = "time_gelu";
    state->modulation = diti_layer_spread(graph, diti_pass_tensor(p), diti_elementwise(graph, time, &active),
                                          &model->modulation, 0, "modulation");
}

static void diti_krea2_prepare(diti_pass *p) {
    const diti_krea2_config *config = &diti_krea2_of(p->model)->config;
    const diti_step_desc *step = p->step;
    uint32_t rows = step->text_tokens + step->height / 2 * (step->width / 2);
    diti_krea2_state *state = diti_krea2_state_of(step);
    state->sinusoids = diti_tensor_input(p->graph, DITI_F32, step->steps, config->time, "timesteps");
    diti_rotation_prepare(p->graph, &state->rotation, rows, config->head_dim / 2);
    diti_text_order_prepare(p, &state->order);
    diti_krea2_modulate(p, state);
    state->text = diti_krea2_text(p);
}

/* ---- inputs ---- */

/* Text stands at the origin, so that nothing rotates, a token of the image at (0, y, x). */
static void diti_krea2_place(const diti_transformer *transformer, const diti_step_desc *step, uint32_t prompt,
                             float *cosines, float *sines) {
    const diti_krea2_config *config = &diti_krea2_of(transformer)->config;
    uint32_t half = config->head_dim / 2, columns = step->width / 2, texts = step->text_tokens, row;
    (void)prompt;
    for (row = 0; row < texts + step->height / 2 * columns; row++) {
        int32_t position[DITI_KREA2_AXES] = {0, 0, 0};
        if (row >= texts) {
            position[1] = (int32_t)((row - texts) / columns);
            position[2] = (int32_t)((row - texts) % columns);
        }
        diti_rotate_axes(config->axes, DITI_KREA2_AXES, (double)config->theta, position, cosines + (size_t)row * half,
                         sines + (size_t)row * half);
    }
}

static dit_result diti_krea2_write_inputs(const diti_transformer *transformer, diti_plan *plan,
                                          const diti_step_desc *step, const float *timesteps, dit_error *err) {
    const diti_krea2 *model = diti_krea2_of(transformer);
    const diti_krea2_state *state = (const diti_krea2_state *)step->family;
    DITI_TRY(diti_text_order_write(plan, step, &state->order, &model->base.component.env, 1,
                                   step->height / 2 * (step->width / 2), err));
    DITI_TRY(diti_write_places(transformer, plan, step, state->rotation.cosines, state->rotation.sines, 1,
                               diti_krea2_place, err));
    return diti_write_sinusoids(plan, state->sinusoids, timesteps, step->steps, 0, err);
}

/* ---- one evaluation ---- */

static void diti_krea2_begin(diti_pass *p) {
    diti_krea2_state *state = diti_krea2_state_of(p->step);
    diti_rotation_begin(p, &state->rotation);
    if (p->step->same_timestep) return;
    state->step = diti_select_modulation(p, state->modulation);
    state->step_final = diti_select_modulation(p, state->final);
}

static diti_tensor diti_krea2_embed(diti_pass *p) {
    return diti_patch_embed(p, diti_krea2_state_of(p->step)->text, &diti_krea2_of(p->model)->patch, 0);
}

/* The columns of a layer that this device makes, at out or in a new tensor. */
static diti_tensor diti_krea2_columns(const diti_pass *p, diti_tensor h, const diti_layer *layer,
                                      const diti_column_shard *columns, diti_tensor out, const char *name) {
    diti_linear_desc desc = DITI_ZERO;
    desc.out = diti_ranks_count(columns->in) == 1 ? out : 0;
    desc.name = name;
    h = diti_column_shard_begin(p->graph, h, layer, 1, columns, &desc);
    h = diti_linear(p->graph, h, &layer->weight, &desc);
    return diti_column_shard_end(p->graph, columns, h, DITI_ACTIVATION_NONE, out, name);
}

/* qkv with a head of keys and values for each of queries: where devices exchange heads, or keep keys. */
static diti_tensor diti_krea2_repeat(const diti_pass *p, diti_tensor qkv, uint32_t heads, uint32_t kv_heads) {
    diti_graph *graph = p->graph;
    uint32_t head_dim = diti_krea2_of(p->model)->config.head_dim, group = heads / kv_heads, i;
    uint32_t rows = diti_tensor_rows(graph, qkv), width = heads * head_dim, pairs = rows * 2 * kv_heads;
    diti_element format = graph->activation;
    diti_tensor one = diti_tensor_new(graph, format, rows, 2 * kv_heads * head_dim, "keys and values");
    diti_tensor many = diti_tensor_new(graph, format, rows, 2 * width, "repeated keys and values");
    diti_tensor all = diti_tensor_new(graph, format, rows, 3 * width, "repeated_qkv"), heads_of, repeated;
    diti_copy(graph, diti_tensor_view(graph, qkv, 0, rows, width, 2 * kv_heads * head_dim), one, "keys and values");
    heads_of = diti_tensor_reshape(graph, one, pairs, head_dim);
    repeated = diti_tensor_reshape(graph, many, pairs, group * head_dim);
    for (i = 0; i < group && !diti_graph_failed(graph); i++)
        diti_copy(graph, heads_of, diti_tensor_view(graph, repeated, 0, pairs, i * head_dim, head_dim),
                  "repeated keys and values");
    diti_copy(graph, diti_tensor_view(graph, qkv, 0, rows, 0, width), diti_tensor_view(graph, all, 0, rows, 0, width),
              "repeated_qkv");
    diti_copy(graph, many, diti_tensor_view(graph, all, 0, rows, width, 2 * width), "repeated_qkv");
    return all;
}

/* [items * rows at hand, this device's columns of heads], closed by the gate. */
static diti_tensor diti_krea2_attend(const diti_pass *p, const diti_krea2_block *w, diti_tensor h) {
    const diti_krea2_config *config = &diti_krea2_of(p->model)->config;
    diti_graph *graph = p->graph;
    diti_column_shard q = diti_column_shard_of(p, &w->attention), kv = q;
    uint32_t group = config->heads / config->kv_heads, rows = p->items * (p->text + p->image), i;
    bool exchanged = p->step->kept_kv || (p->step->axes && diti_ranks_count(&p->step->axes->sequence) > 1);
    diti_attend_desc desc = DITI_ZERO;
    diti_tensor qkv, gate;
    kv.first /= group;
    kv.count /= group;
    kv.all /= group;
    qkv = diti_tensor_new(graph, graph->activation, rows, q.count + 2 * kv.count, "qkv");
    for (i = 0; i < 3; i++)
        diti_krea2_columns(
            p, h, &w->qkv.layers[i], i ? &kv : &q,
            diti_tensor_view(graph, qkv, 0, rows, i ? q.count + (i - 1) * kv.count : 0, i ? kv.count : q.count), "qkv");
    gate = diti_krea2_columns(p, h, &w->gate, &q, 0, "gate");
    diti_krea2_heads(graph, diti_tensor_view(graph, qkv, 0, rows, 0, q.count), config->head_dim, &w->q_norm,
                     config->eps, p->cosines, p->sines);
    diti_krea2_heads(graph, diti_tensor_view(graph, qkv, 0, rows, q.count, kv.count), config->head_dim, &w->k_norm,
                     config->eps, p->cosines, p->sines);
    if (p->keys && exchanged)
        return diti_graph_fail(graph, DIT_ERROR_INVALID_ARGUMENT,
                               "attention that leaves padding of the text out wants all rows on one device: no "
                               "ulysses, ring or pipefusion");
    desc.items = p->items;
    desc.keys = p->keys;
    desc.heads = q.count / config->head_dim;
    desc.kv_heads = exchanged ? 0 : kv.count / config->head_dim;
    desc.head_dim = config->head_dim;
    desc.text = true;
    desc.int8 = p->model->int8_attention;
    if (exchanged) qkv = diti_krea2_repeat(p, qkv, desc.heads, kv.count / config->head_dim);
    return diti_krea2_close(graph, diti_attend(graph, p->step, &desc, qkv), gate);
}

/* Rows of a modulation, F32 [1, 6D]. */
enum {
    DITI_KREA2_SCALE_MSA,
    DITI_KREA2_SHIFT_MSA,
    DITI_KREA2_GATE_MSA,
    DITI_KREA2_SCALE_MLP,
    DITI_KREA2_SHIFT_MLP,
    DITI_KREA2_GATE_MLP
};

/* docs/models.md 3.15 step 3; x F32 [items * (text + image), D] is changed in place. */
static diti_tensor diti_krea2_run_block(diti_pass *p, diti_tensor x) {
    const diti_krea2_block *w = &diti_krea2_of(p->model)->blocks[p->index];
    const diti_krea2_state *state = diti_krea2_state_of(p->step);
    diti_tensor h;
    diti_table_modulate(p, &w->table, state->step, 0);
    p->modulation.chunks = 6;
    diti_rotation_apply(p, &state->rotation);
    p->keys = diti_text_order_keys(p, &state->order);
    h = diti_modulate(p, x, (diti_modulator)DITI_KREA2_SHIFT_MSA, (diti_modulator)DITI_KREA2_SCALE_MSA, &w->attention);
    diti_sublayer_add(p, x, (diti_modulator)DITI_KREA2_GATE_MSA, &w->attention, diti_krea2_attend(p, w, h));
    diti_sublayer_feed(p, x, (diti_modulator)DITI_KREA2_SHIFT_MLP, (diti_modulator)DITI_KREA2_SCALE_MLP,
                       (diti_modulator)DITI_KREA2_GATE_MLP, &w->feed);
    return x;
}

static diti_tensor diti_krea2_final(diti_pass *p, diti_tensor x) {
    const diti_krea2 *model = diti_krea2_of(p->model);
    p->modulation.rows = diti_krea2_state_of(p->step)->step_final;
    p->modulation.chunks = 0;
    return diti_output(
        p,
        diti_modulate(p, x, (diti_modulator)DITI_KREA2_SHIFT_MSA, (diti_modulator)DITI_KREA2_SCALE_MSA, &model->last),
        &model->last);
}

/* ---- where parts of such models are ---- */

#define DITI_KREA2_TURBO "krea/Krea-2-Turbo"
static const diti_place diti_krea2_places[] = {
    {"", DIT_ROLE_TRANSFORMER, DITI_KREA2_TURBO ": transformer/"},
    {"", DIT_ROLE_TEXT_1, DITI_KREA2_TURBO ": text_encoder/, or Qwen/Qwen3-VL-4B-Instruct-GGUF"},
    {"", DIT_ROLE_VAE, DITI_KREA2_TURBO ": vae/"},
    {"", DIT_ROLE_TOKENIZER_1, DITI_KREA2_TURBO ": tokenizer/"},
    {"", DIT_ROLE_SCHEDULER, DITI_KREA2_TURBO ": scheduler/"},
    {NULL, DIT_ROLE_NONE, NULL},
};

DIT_INTERNAL const diti_family *diti_krea2_family(void) {
    static const diti_family family = {
        "krea2",
        "Krea 2",
        {"Krea2Transformer2DModel",
         NULL,
         {"text_fusion.projector.weight", "img_in.weight", "transformer_blocks.0.attn.to_gate.weight", NULL},
         {"txtfusion.projector.weight", "first.weight", "blocks.0.attn.gate.weight", NULL},
         {NULL, NULL}},
        {"transformer", "transformer", sizeof(diti_krea2), diti_krea2_read, diti_krea2_load, NULL},
        diti_krea2_names,
        {16, 1, 0, false},
        NULL,
        diti_krea2_chats,
        diti_krea2_places,
        sizeof(diti_krea2_state),
        diti_krea2_prepare,
        diti_krea2_begin,
        diti_krea2_embed,
        diti_krea2_run_block,
        diti_krea2_final,
        diti_krea2_write_inputs};
    return &family;
}
