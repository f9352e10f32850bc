#include "text/text.h"

/* BERT (docs/models.md 5.3): learned positions, norms behind the sums. */

typedef struct diti_bert_block {
    diti_fused_linear qkv;           /* [3 * d, d] */
    diti_layer out, attention_norm;  /* [d, d], [d] */
    diti_layer up, down, final_norm; /* [ff, d], [d, ff], [d] */
} diti_bert_block;

typedef struct diti_bert_config {
    uint32_t columns, vocabulary, positions, kinds, blocks, heads, hidden;
    float eps;
} diti_bert_config;

struct diti_bert {
    diti_component base;
    diti_bert_config config;
    diti_encoder_traits traits;
    diti_weight embedding;      /* [vocabulary, d] */
    diti_weight position, kind; /* [positions, d], [token types, d]: only type 0 is used */
    diti_layer norm;            /* [d] */
    diti_bert_block *blocks;
};

/* ---- configuration: sizes from shapes, the rest from config.json ---- */

/* Files of whole models have a prefix. */
static const diti_key_table diti_bert_prefixed[DITI_KEY_TABLES] = {
    {NULL, "bert.", NULL, 0},
    {NULL, NULL, NULL, 0},
    {NULL, NULL, NULL, 0},
};

static dit_result diti_bert_check_config(diti_settings *settings, dit_error *err) {
    const char *activation = diti_setting_text(settings, "hidden_act", "gelu");
    const char *positions = diti_setting_text(settings, "position_embedding_type", "absolute");
    DITI_TRY(settings->result);
    if (!diti_equal(activation, "gelu"))
        return diti_fail(err, DIT_ERROR_UNSUPPORTED_MODEL,
                         "config.json: a BERT with hidden_act %.60s is not known, only gelu", activation);
    if (!diti_equal(positions, "absolute"))
        return diti_fail(err, DIT_ERROR_UNSUPPORTED_MODEL,
                         "config.json: a BERT with position_embedding_type %.60s is not known, only absolute",
                         positions);
    return DIT_OK;
}

static dit_result diti_bert_read_config(diti_loader *loader, const diti_json *json, diti_bert_config *config,
                                        dit_error *err) {
    static const diti_shape_key keys[] = {
        {offsetof(diti_bert_config, vocabulary), "embeddings.word_embeddings.weight", 0},
        {offsetof(diti_bert_config, columns), "embeddings.word_embeddings.weight", 1},
        {offsetof(diti_bert_config, positions), "embeddings.position_embeddings.weight", 0},
        {offsetof(diti_bert_config, kinds), "embeddings.token_type_embeddings.weight", 0},
        {offsetof(diti_bert_config, hidden), "encoder.layer.0.intermediate.dense.weight", 0}};
    diti_settings settings = diti_settings_of(json, "the text encoder's config.json", err);
    diti_read_shapes(loader, config, keys, DITI_COUNT(keys));
    config->blocks =
        diti_loader_layers(loader, &settings, "num_hidden_layers", "encoder.layer.", ".intermediate.dense.weight");
    config->eps = (float)diti_setting_number(&settings, "layer_norm_eps", 1e-12, 1e-30, 1);
    config->heads = diti_setting_size(&settings, "num_attention_heads", config->columns / 64, 1024);
    return diti_bert_check_config(&settings, err);
}

static dit_result diti_bert_check(const diti_loader *loader, const diti_bert_config *config, dit_error *err) {
    if (!config->columns || !config->positions || !config->kinds || !config->hidden || !config->blocks) {
        return diti_loader_refuse(loader, err, "not a BERT: %s is missing or has an impossible shape",
                                  !config->columns     ? "the token embedding"
                                  : !config->positions ? "the position embedding"
                                  : !config->kinds     ? "the token type embedding"
                                                       : "a matrix of layer 0");
    }
    if (!config->heads || config->columns % config->heads || config->columns / config->heads > 512) {
        return diti_loader_refuse(loader, err, "a BERT of %u channels in %u heads is not known",
                                  (unsigned)config->columns, (unsigned)config->heads);
    }
    return DIT_OK;
}

static dit_result diti_bert_read(diti_component *component, diti_loader *loader, const diti_json *json,
                                 dit_error *err) {
    diti_bert_config *config = &((diti_bert *)(void *)component)->config;
    dit_result result = diti_bert_read_config(loader, json, config, err);
    return result >= 0 ? diti_bert_check(loader, config, err) : result;
}

/* ---- loading ---- */

static void diti_bert_load_block(diti_loader *loader, diti_bert *bert, uint32_t index) {
    static const char *const qkv[] = {"attention.self.query", "attention.self.key", "attention.self.value"};
    diti_bert_block *block = &bert->blocks[index];
    uint32_t d = bert->config.columns, hidden = bert->config.hidden;
    diti_loader_scope(loader, "encoder.layer.%u.", (unsigned)index);
    diti_load_fused_linear(loader, &block->qkv, qkv, 3, d, d, true);
    diti_load_layer(loader, &block->out, d, d, 1, "attention.output.dense");
    diti_load_norm(loader, &block->attention_norm, d, "attention.output.LayerNorm");
    diti_load_layer(loader, &block->up, hidden, d, 1, "intermediate.dense");
    diti_load_layer(loader, &block->down, d, hidden, 1, "output.dense");
    diti_load_norm(loader, &block->final_norm, d, "output.LayerNorm");
    diti_loader_scope_end(loader);
}

static void diti_bert_load_all(diti_component *component, diti_loader *loader) {
    diti_bert *bert = (diti_bert *)(void *)component;
    const diti_bert_config *config = &bert->config;
    uint32_t d = config->columns, i;
    bert->blocks = (diti_bert_block *)diti_component_array(component, loader, config->blocks, sizeof *bert->blocks);
    if (!bert->blocks) return;
    bert->traits.columns = d;
    bert->traits.vocabulary = config->vocabulary;
    bert->traits.positions = config->positions;
    bert->traits.layers = config->blocks;
    diti_load_table(loader, &bert->embedding, config->vocabulary, d, "embeddings.word_embeddings.weight");
    diti_load_vector(loader, &bert->position, config->positions, d, "embeddings.position_embeddings.weight");
    diti_load_vector(loader, &bert->kind, config->kinds, d, "embeddings.token_type_embeddings.weight");
    diti_load_norm(loader, &bert->norm, d, "embeddings.LayerNorm");
    for (i = 0; i < config->blocks; i++) diti_bert_load_block(loader, bert, i);
}

DIT_INTERNAL dit_result diti_bert_load(diti_device *device, const diti_env *env, const diti_json *config,
                                       const diti_checkpoint *checkpoint, const char *prefix,
                                       const diti_load_options *options, diti_bert **out, dit_error *err) {
    static const diti_component_kind kind = {"text encoder", "text_encoder",     sizeof(diti_bert),
                                             diti_bert_read, diti_bert_load_all, NULL};
    diti_component_source from = {device, env, config, checkpoint, prefix, options, NULL, NULL};
    diti_component *component;
    dit_result result;
    if (!diti_component_has(&from, "embeddings.LayerNorm.weight")) from.keys = diti_bert_prefixed;
    result = diti_component_load(&kind, &from, &component, err);
    *out = (diti_bert *)(void *)component;
    return result;
}

DIT_INTERNAL void diti_bert_destroy(diti_bert *bert) {
    if (bert) diti_component_free(&bert->base);
}

/* ---- the graph: every norm's output is the next sum's input, and so F32 ---- */

static diti_tensor diti_bert_norm(const diti_bert *bert, diti_graph *graph, diti_tensor x, const diti_layer *norm,
                                  const char *name) {
    diti_norm_desc desc = DITI_ZERO;
    desc.eps = bert->config.eps;
    desc.weight = &norm->weight;
    desc.bias = &norm->bias;
    desc.out_f32 = true;
    desc.name = name;
    return diti_norm(graph, x, &desc);
}

static diti_tensor diti_bert_add(diti_graph *graph, diti_tensor x, const diti_weight *table, uint32_t rows,
                                 const char *name) {
    diti_elementwise_desc desc = DITI_ZERO;
    desc.add = diti_tensor_view(graph, diti_tensor_weight(graph, table, 0), 0, rows, 0, table->columns);
    desc.out_f32 = true;
    desc.name = name;
    return diti_elementwise(graph, x, &desc);
}

static diti_tensor diti_bert_attention(const diti_bert *bert, diti_graph *graph, const diti_encoder_use *use,
                                       const diti_bert_block *block, diti_tensor x) {
    uint32_t rows = use->batch * use->tokens, d = bert->config.columns;
    diti_attention_desc desc = DITI_ZERO;
    diti_linear_desc fused = DITI_ZERO;
    diti_tensor qkv;
    fused.name = "bert_qkv";
    qkv = diti_linear_fused(graph, x, &block->qkv, &fused);
    desc.batch = use->batch;
    desc.heads = bert->config.heads;
    desc.head_dim = d / desc.heads;
    desc.scale = 1.0f / sqrtf((float)desc.head_dim);
    desc.items = use->items;
    desc.name = "bert_attention";
    return diti_attention(graph, diti_tensor_view(graph, qkv, 0, rows, 0, d),
                          diti_tensor_view(graph, qkv, 0, rows, d, d), diti_tensor_view(graph, qkv, 0, rows, 2 * d, d),
                          &desc);
}

/* norm(x + layer(h)); x is lost. */
static diti_tensor diti_bert_sum(const diti_bert *bert, diti_graph *graph, diti_tensor x, diti_tensor h,
                                 const diti_layer *layer, const diti_layer *norm, const char *name) {
    diti_linear_desc desc = DITI_ZERO;
    desc.bias = &layer->bias;
    desc.residual = x;
    desc.out = x;
    desc.name = name;
    return diti_bert_norm(bert, graph, diti_linear(graph, h, &layer->weight, &desc), norm, name);
}

static diti_tensor diti_bert_run_block(const diti_bert *bert, diti_graph *graph, const diti_encoder_use *use,
                                       uint32_t index, diti_tensor x) {
    const diti_bert_block *block = &bert->blocks[index];
    diti_linear_desc up = DITI_ZERO;
    diti_tensor h = diti_bert_attention(bert, graph, use, block, x);
    x = diti_bert_sum(bert, graph, x, h, &block->out, &block->attention_norm, "bert_attention_out");
    up.bias = &block->up.bias;
    up.activation = DITI_ACTIVATION_GELU_ERF;
    up.name = "bert_up";
    h = diti_linear(graph, x, &block->up.weight, &up);
    return diti_bert_sum(bert, graph, x, h, &block->down, &block->final_norm, "bert_down");
}

DIT_INTERNAL diti_tensor diti_bert_encode(const diti_bert *bert, diti_graph *graph, const diti_encoder_use *use) {
    diti_tensor x;
    uint32_t i;
    if (use->tokens > bert->config.positions) {
        return diti_graph_fail(graph, DIT_ERROR_INVALID_ARGUMENT,
                               "%u tokens for a text encoder that knows %u positions", use->tokens,
                               bert->config.positions);
    }
    x = diti_gather_rows(graph, &bert->embedding, use->ids, "bert_embedding");
    x = diti_bert_add(graph, x, &bert->position, use->tokens, "bert_position");
    x = diti_bert_norm(bert, graph, diti_bert_add(graph, x, &bert->kind, 1, "bert_token_type"), &bert->norm,
                       "bert_norm");
    for (i = 0; i < bert->config.blocks && !diti_graph_failed(graph); i++) {
        diti_graph_scope(graph, "block", i);
        x = diti_bert_run_block(bert, graph, use, i, x);
    }
    diti_graph_scope(graph, NULL, 0);
    if (use->weights) diti_weigh_rows(graph, x, use->weights, "bert_weigh");
    return x;
}

/* ---- the same for those who do not ask which encoder it is ---- */

static dit_result diti_bert_type_load(diti_device *device, const diti_env *env, const diti_json *config,
                                      const diti_checkpoint *checkpoint, const char *prefix,
                                      const diti_load_options *options, void **out, dit_error *err) {
    diti_bert *bert = NULL;
    dit_result result = diti_bert_load(device, env, config, checkpoint, prefix, options, &bert, err);
    *out = bert;
    return result;
}

static void diti_bert_type_destroy(void *self) { diti_bert_destroy((diti_bert *)self); }

static const diti_encoder_traits *diti_bert_type_traits(const void *self) { return &((const diti_bert *)self)->traits; }

static const diti_weights *diti_bert_type_weights(const void *self) { return &((const diti_bert *)self)->base.weights; }

static diti_tensor diti_bert_type_encode(const void *self, diti_graph *graph, diti_encoder_use *use) {
    return diti_bert_encode((const diti_bert *)self, graph, use);
}

DIT_INTERNAL const diti_encoder_type *diti_bert_type(void) {
    static const diti_encoder_type type = {false,
                                           true,
                                           diti_bert_type_load,
                                           diti_bert_type_destroy,
                                           diti_bert_type_traits,
                                           diti_bert_type_weights,
                                           diti_bert_type_encode,
                                           NULL};
    return &type;
}
