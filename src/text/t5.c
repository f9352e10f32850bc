#include "text/text.h"

/* T5 1.1, mT5 and umT5 encoders (docs/models.md 5.1): RMS norms, no biases, unscaled scores with a relative position
   bias that depends on key - query only, and a gated feed-forward. */

typedef struct diti_t5_block {
    diti_weight norm;           /* [d] */
    diti_fused_linear qkv;      /* [3 * inner, d] */
    diti_weight out;            /* [d, inner] */
    diti_weight ff_norm;        /* [d] */
    diti_weight gate, up, down; /* wi_0, wi_1 [ff, d]; wo [d, ff] */
    float *bias;                /* own table [buckets, heads] on the host; NULL: that of the blocks before */
} diti_t5_block;

typedef struct diti_t5_config {
    uint32_t columns, vocabulary, blocks; /* columns: d */
    uint32_t heads, head_dim, inner, hidden;
    uint32_t buckets, max_distance;
    float eps;
} diti_t5_config;

struct diti_t5 {
    diti_component base;
    diti_t5_config config;
    diti_encoder_traits traits;
    diti_weight embedding;  /* [vocabulary, d] */
    diti_weight final_norm; /* [d] */
    diti_t5_block *blocks;
};

/* ---- key tables: names asked for are transformers'; llama.cpp calls them so, and Wan's original files so ---- */

static const char *const diti_t5_llama_keys[][2] = {
    {"shared", "token_embd"},
    {"encoder.final_layer_norm", "enc.output_norm"},
};
static const char *const diti_t5_llama_block_keys[][2] = {
    {"layer.0.layer_norm", "attn_norm"},       {"layer.0.SelfAttention.q", "attn_q"},
    {"layer.0.SelfAttention.k", "attn_k"},     {"layer.0.SelfAttention.v", "attn_v"},
    {"layer.0.SelfAttention.o", "attn_o"},     {"layer.0.SelfAttention.relative_attention_bias", "attn_rel_b"},
    {"layer.1.layer_norm", "ffn_norm"},        {"layer.1.DenseReluDense.wi_0", "ffn_gate"},
    {"layer.1.DenseReluDense.wi_1", "ffn_up"}, {"layer.1.DenseReluDense.wo", "ffn_down"},
};

static const diti_key_table diti_t5_llama_names[DITI_KEY_TABLES] = {
    {"encoder.block.", "enc.blk.", diti_t5_llama_block_keys, DITI_COUNT(diti_t5_llama_block_keys)},
    {NULL, NULL, diti_t5_llama_keys, DITI_COUNT(diti_t5_llama_keys)},
    {NULL, NULL, NULL, 0},
};

static const char *const diti_t5_wan_keys[][2] = {
    {"shared", "token_embedding"},
    {"encoder.final_layer_norm", "norm"},
};
static const char *const diti_t5_wan_block_keys[][2] = {
    {"layer.0.layer_norm", "norm1"},
    {"layer.0.SelfAttention", "attn"},
    {"layer.0.SelfAttention.relative_attention_bias", "pos_embedding.embedding"},
    {"layer.1.layer_norm", "norm2"},
    {"layer.1.DenseReluDense.wi_0", "ffn.gate.0"},
    {"layer.1.DenseReluDense.wi_1", "ffn.fc1"},
    {"layer.1.DenseReluDense.wo", "ffn.fc2"},
};

static const diti_key_table diti_t5_wan_names[DITI_KEY_TABLES] = {
    {"encoder.block.", "blocks.", diti_t5_wan_block_keys, DITI_COUNT(diti_t5_wan_block_keys)},
    {NULL, NULL, diti_t5_wan_keys, DITI_COUNT(diti_t5_wan_keys)},
    {NULL, NULL, NULL, 0},
};

/* ---- configuration: sizes from shapes, the rest from config.json or GGUF metadata ---- */

static float diti_t5_eps(diti_settings *settings, const diti_checkpoint *checkpoint) {
    const char *text = diti_checkpoint_text(checkpoint, "t5encoder.attention.layer_norm_rms_epsilon");
    double eps = text ? diti_parse_double(text) : 1e-6;
    return (float)diti_setting_number(settings, "layer_norm_epsilon", eps > 0 && eps < 1 ? eps : 1e-6, 1e-30, 1);
}

static dit_result diti_t5_check_activation(diti_settings *settings, dit_error *err) {
    const char *name = diti_setting_text(settings, "feed_forward_proj", "gated-gelu");
    if (settings->result < 0 || diti_equal(name, "gated-gelu")) return settings->result;
    return diti_fail(err, DIT_ERROR_UNSUPPORTED_MODEL,
                     "config.json: a T5 encoder with feed_forward_proj %.60s is not known, only gated-gelu", name);
}

static dit_result diti_t5_read_config(diti_loader *loader, const diti_json *json, diti_t5_config *config,
                                      dit_error *err) {
    static const char q[] = "encoder.block.0.layer.0.SelfAttention.q.weight";
    static const char bias[] = "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight";
    static const diti_shape_key keys[] = {
        {offsetof(diti_t5_config, columns), q, 1},
        {offsetof(diti_t5_config, inner), q, 0},
        {offsetof(diti_t5_config, buckets), bias, 0},
        {offsetof(diti_t5_config, heads), bias, 1},
        {offsetof(diti_t5_config, hidden), "encoder.block.0.layer.1.DenseReluDense.wi_0.weight", 0},
        {offsetof(diti_t5_config, vocabulary), "shared.weight", 0}};
    diti_settings settings = diti_settings_of(json, "the text encoder's config.json", err);
    diti_read_shapes(loader, config, keys, DITI_COUNT(keys));
    if (!config->vocabulary) config->vocabulary = diti_loader_dimension(loader, "encoder.embed_tokens.weight", 0);
    config->blocks =
        diti_loader_layers(loader, &settings, "num_layers", "encoder.block.", ".layer.0.SelfAttention.q.weight");
    config->eps = diti_t5_eps(&settings, loader->checkpoint);
    config->max_distance = diti_setting_size(&settings, "relative_attention_max_distance", 128, 1u << 20);
    return diti_t5_check_activation(&settings, err);
}

static dit_result diti_t5_check(const diti_loader *loader, diti_t5_config *config, dit_error *err) {
    if (!config->columns || !config->heads || !config->hidden || !config->vocabulary || !config->blocks) {
        return diti_loader_refuse(
            loader, err, "not a T5 encoder with a gated feed-forward: %s is missing or has an impossible shape",
            !config->heads        ? "the relative position table of block 0"
            : !config->vocabulary ? "the token embedding"
                                  : "a matrix of block 0");
    }
    config->head_dim = config->inner / config->heads;
    if (config->inner % config->heads || config->head_dim > 256 || config->blocks > DITI_ENCODER_INPUTS ||
        config->buckets < 4 || config->buckets % 4 || config->buckets / 4 >= config->max_distance) {
        return diti_loader_refuse(
            loader, err, "a T5 encoder of %u blocks with %u columns in %u heads and %u position buckets is not known",
            (unsigned)config->blocks, (unsigned)config->inner, (unsigned)config->heads, (unsigned)config->buckets);
    }
    return DIT_OK;
}

static dit_result diti_t5_read(diti_component *component, diti_loader *loader, const diti_json *json, dit_error *err) {
    diti_t5_config *config = &((diti_t5 *)(void *)component)->config;
    dit_result result = diti_t5_read_config(loader, json, config, err);
    return result >= 0 ? diti_t5_check(loader, config, err) : result;
}

/* ---- loading ---- */

static void diti_t5_load_table(diti_loader *loader, diti_t5 *t5, diti_t5_block *block) {
    static const char name[] = "layer.0.SelfAttention.relative_attention_bias.weight";
    const diti_stored_tensor *tensor = diti_loader_find(loader, name);
    uint64_t count = (uint64_t)t5->config.buckets * t5->config.heads;
    if (!tensor || loader->error.result) return;
    diti_loader_use(loader, tensor);
    block->bias = (float *)diti_component_array(&t5->base, loader, (size_t)count, sizeof(float));
    if (!block->bias || loader->env->headers_only) return;
    diti_checkpoint_read_float(loader->checkpoint, tensor, block->bias, count, &loader->error);
}

static void diti_t5_load_block(diti_loader *loader, diti_t5 *t5, uint32_t index) {
    static const char *const qkv[] = {"layer.0.SelfAttention.q", "layer.0.SelfAttention.k", "layer.0.SelfAttention.v"};
    const diti_t5_config *config = &t5->config;
    diti_t5_block *block = &t5->blocks[index];
    uint32_t d = config->columns, hidden = config->hidden;
    diti_loader_scope(loader, "encoder.block.%u.", (unsigned)index);
    diti_load_vector(loader, &block->norm, 1, d, "layer.0.layer_norm.weight");
    diti_load_fused_linear(loader, &block->qkv, qkv, 3, config->inner, d, false);
    diti_load_linear(loader, &block->out, d, config->inner, "layer.0.SelfAttention.o.weight");
    diti_load_vector(loader, &block->ff_norm, 1, d, "layer.1.layer_norm.weight");
    diti_load_linear(loader, &block->gate, hidden, d, "layer.1.DenseReluDense.wi_0.weight");
    diti_load_linear(loader, &block->up, hidden, d, "layer.1.DenseReluDense.wi_1.weight");
    diti_load_linear(loader, &block->down, d, hidden, "layer.1.DenseReluDense.wo.weight");
    diti_t5_load_table(loader, t5, block);
    diti_loader_scope_end(loader);
}

static void diti_t5_load_weights(diti_loader *loader, diti_t5 *t5) {
    const diti_t5_config *config = &t5->config;
    const char *embedding = "shared.weight";
    uint32_t i;
    if (!diti_loader_find(loader, embedding)) embedding = "encoder.embed_tokens.weight"; /* the tied table */
    diti_load_table(loader, &t5->embedding, config->vocabulary, config->columns, embedding);
    for (i = 0; i < config->blocks; i++) diti_t5_load_block(loader, t5, i);
    diti_load_vector(loader, &t5->final_norm, 1, config->columns, "encoder.final_layer_norm.weight");
}

static void diti_t5_load_all(diti_component *component, diti_loader *loader) {
    diti_t5 *t5 = (diti_t5 *)(void *)component;
    t5->blocks = (diti_t5_block *)diti_component_array(component, loader, t5->config.blocks, sizeof *t5->blocks);
    if (!t5->blocks) return;
    t5->traits.columns = t5->config.columns;
    t5->traits.vocabulary = t5->config.vocabulary;
    t5->traits.layers = t5->config.blocks;
    diti_t5_load_weights(loader, t5);
}

DIT_INTERNAL dit_result diti_t5_load(diti_device *device, const diti_env *env, const diti_json *config,
                                     const diti_checkpoint *checkpoint, const char *prefix,
                                     const diti_load_options *options, diti_t5 **out, dit_error *err) {
    static const diti_component_kind kind = {"text encoder", "text_encoder",   sizeof(diti_t5),
                                             diti_t5_read,   diti_t5_load_all, NULL};
    diti_component_source from = {device, env, config, checkpoint, prefix, options, NULL, NULL};
    diti_component *component;
    dit_result result;
    if (diti_component_has(&from, "token_embedding.weight"))
        from.keys = diti_t5_wan_names;
    else if (!diti_component_has(&from, "encoder.final_layer_norm.weight"))
        from.keys = diti_t5_llama_names;
    result = diti_component_load(&kind, &from, &component, err);
    *out = (diti_t5 *)(void *)component;
    return result;
}

DIT_INTERNAL void diti_t5_destroy(diti_t5 *t5) {
    if (t5) diti_component_free(&t5->base);
}

/* ---- relative positions ---- */

/* The bucket of key - query: half of them for keys behind the query, exact near it, logarithmic up to max_distance.
   The logarithm is float32 and truncated, as in the reference. */
static uint32_t diti_t5_bucket(const diti_t5_config *config, int64_t relative) {
    uint32_t half = config->buckets / 2, exact = half / 2, first = relative > 0 ? half : 0, beyond;
    uint64_t distance = (uint64_t)(relative < 0 ? -relative : relative);
    float place;
    if (distance < exact) return first + (uint32_t)distance;
    place = logf((float)distance / (float)exact) / (float)log((double)config->max_distance / exact);
    beyond = exact + (uint32_t)(place * (float)(half - exact));
    return first + (beyond < half ? beyond : half - 1);
}

/* out [heads, 2 * tokens - 1]: element key - query + tokens - 1. */
static void diti_t5_fill_table(const diti_t5_config *config, const float *bias, uint32_t tokens, float *out) {
    uint32_t width = 2 * tokens - 1, head, i;
    for (i = 0; i < width; i++) {
        const float *row = bias + (size_t)diti_t5_bucket(config, (int64_t)i - (int64_t)tokens + 1) * config->heads;
        for (head = 0; head < config->heads; head++) out[(size_t)head * width + i] = row[head];
    }
}

DIT_INTERNAL dit_result diti_t5_write_inputs(const diti_t5 *t5, diti_plan *plan, const diti_encoder_use *use,
                                             dit_error *err) {
    size_t count = (size_t)t5->config.heads * (2 * (size_t)use->tokens - 1);
    float *table = (float *)diti_alloc_array(&t5->base.env, count, sizeof(float));
    dit_result result = DIT_OK;
    uint32_t i;
    if (!table) return diti_fail_memory(err, "the text encoder");
    for (i = 0; i < t5->config.blocks && result >= 0; i++) {
        if (!t5->blocks[i].bias) continue;
        diti_t5_fill_table(&t5->config, t5->blocks[i].bias, use->tokens, table);
        result = diti_plan_write(plan, use->inputs[i], table, count * sizeof(float), err);
    }
    diti_free(&t5->base.env, table);
    return result;
}

/* ---- the encoder ---- */

static diti_tensor diti_t5_norm(diti_graph *graph, const diti_t5 *t5, diti_tensor x, const diti_weight *weight,
                                bool out_f32, const char *name) {
    diti_norm_desc desc = DITI_ZERO;
    desc.rms = true;
    desc.eps = t5->config.eps;
    desc.weight = weight;
    desc.out_f32 = out_f32;
    desc.name = name;
    return diti_norm(graph, x, &desc);
}

/* x += weight h, in place. */
static void diti_t5_residual(diti_graph *graph, diti_tensor x, diti_tensor h, const diti_weight *weight,
                             const char *name) {
    diti_linear_desc desc = DITI_ZERO;
    desc.residual = x;
    desc.out = x;
    desc.name = name;
    diti_linear(graph, h, weight, &desc);
}

static diti_tensor diti_t5_attention(const diti_t5 *t5, diti_graph *graph, const diti_encoder_use *use,
                                     const diti_t5_block *block, diti_tensor h, diti_tensor bias) {
    const diti_t5_config *config = &t5->config;
    uint32_t rows = use->rows, inner = config->inner;
    diti_attention_desc desc = DITI_ZERO;
    diti_linear_desc fused = DITI_ZERO;
    diti_tensor qkv;
    fused.name = "t5_qkv";
    qkv = diti_linear_fused(graph, h, &block->qkv, &fused);
    desc.batch = use->batch;
    desc.heads = config->heads;
    desc.head_dim = config->head_dim;
    desc.scale = 1.0f;
    desc.items = use->items;
    desc.packed = true;
    desc.key_limit = use->tokens;
    desc.bias = bias;
    desc.name = "t5_attention";
    return diti_attention(graph, diti_tensor_view(graph, qkv, 0, rows, 0, inner),
                          diti_tensor_view(graph, qkv, 0, rows, inner, inner),
                          diti_tensor_view(graph, qkv, 0, rows, 2 * inner, inner), &desc);
}

/* gelu(wi_0 h) * (wi_1 h) */
static diti_tensor diti_t5_gated(diti_graph *graph, const diti_t5_block *block, diti_tensor h) {
    diti_linear_desc up = DITI_ZERO, gate = DITI_ZERO;
    up.name = "t5_up";
    gate.multiply = diti_linear(graph, h, &block->up, &up);
    gate.activation = DITI_ACTIVATION_GELU_TANH;
    gate.name = "t5_gate";
    return diti_linear(graph, h, &block->gate, &gate);
}

/* x F32 [rows, d] is changed in place. */
static void diti_t5_run_block(const diti_t5 *t5, diti_graph *graph, const diti_encoder_use *use, uint32_t index,
                              diti_tensor x, diti_tensor bias) {
    const diti_t5_block *block = &t5->blocks[index];
    diti_tensor h = diti_t5_norm(graph, t5, x, &block->norm, false, "t5_norm1");
    h = diti_t5_attention(t5, graph, use, block, h, bias);
    diti_t5_residual(graph, x, h, &block->out, "t5_attention_out");
    h = diti_t5_norm(graph, t5, x, &block->ff_norm, false, "t5_norm2");
    h = diti_t5_gated(graph, block, h);
    diti_t5_residual(graph, x, h, &block->down, "t5_down");
}

/* The table that block index uses: its own, else that of the last block before it that has one. */
static diti_tensor diti_t5_bias(const diti_t5 *t5, diti_graph *graph, diti_encoder_use *use, uint32_t index) {
    if (!t5->blocks[index].bias) return index ? diti_t5_bias(t5, graph, use, index - 1) : 0;
    if (!use->inputs[index]) {
        use->inputs[index] =
            diti_tensor_input(graph, DITI_F32, t5->config.heads, 2 * use->tokens - 1, "relative_positions");
    }
    return use->inputs[index];
}

DIT_INTERNAL diti_tensor diti_t5_encode(const diti_t5 *t5, diti_graph *graph, diti_encoder_use *use) {
    diti_tensor x = diti_gather_rows(graph, &t5->embedding, use->ids, "t5_embedding");
    uint32_t i;
    for (i = 0; i < t5->config.blocks && !diti_graph_failed(graph); i++) {
        diti_graph_scope(graph, "block", i);
        diti_t5_run_block(t5, graph, use, i, x, diti_t5_bias(t5, graph, use, i));
    }
    diti_graph_scope(graph, NULL, 0);
    x = diti_t5_norm(graph, t5, x, &t5->final_norm, true, "t5_final_norm");
    if (use->weights) diti_weigh_rows(graph, x, use->weights, "t5_weigh");
    return x;
}

/* ---- the same for those who do not ask which encoder it is ---- */

static dit_result diti_t5_type_load(diti_device *device, const diti_env *env, const diti_json *config,
                                    const diti_checkpoint *checkpoint, const char *prefix,
                                    const diti_load_options *options, void **out, dit_error *err) {
    diti_t5 *t5 = NULL;
    dit_result result = diti_t5_load(device, env, config, checkpoint, prefix, options, &t5, err);
    *out = t5;
    return result;
}

static void diti_t5_type_destroy(void *self) { diti_t5_destroy((diti_t5 *)self); }

static const diti_encoder_traits *diti_t5_type_traits(const void *self) { return &((const diti_t5 *)self)->traits; }

static const diti_weights *diti_t5_type_weights(const void *self) { return &((const diti_t5 *)self)->base.weights; }

static diti_tensor diti_t5_type_encode(const void *self, diti_graph *graph, diti_encoder_use *use) {
    return diti_t5_encode((const diti_t5 *)self, graph, use);
}

static dit_result diti_t5_type_write(const void *self, diti_plan *plan, const diti_encoder_use *use, const int32_t *ids,
                                     const uint32_t *items, dit_error *err) {
    (void)ids;
    (void)items;
    return diti_t5_write_inputs((const diti_t5 *)self, plan, use, err);
}

DIT_INTERNAL const diti_encoder_type *diti_t5_type(void) {
    static const diti_encoder_type type = {true,
                                           true,
                                           diti_t5_type_load,
                                           diti_t5_type_destroy,
                                           diti_t5_type_traits,
                                           diti_t5_type_weights,
                                           diti_t5_type_encode,
                                           diti_t5_type_write};
    return &type;
}
