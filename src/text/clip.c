#include "text/clip_internal.h"

/* CLIP text encoders (docs/models.md 5.2): learned positions, pre-norm blocks, every token sees only those before it.
   The causal mask is a relative position bias: 0 for keys up to the query, hugely negative for later ones. */

#define DITI_CLIP_MASKED (-1.0e30f) /* finite, so that differences of scores are never NaN */
#define DITI_CLIP_MAX_TOKENS 4096u
enum { DITI_CLIP_CAUSAL, DITI_CLIP_ENDS }; /* inputs: the mask; the rows of end tokens */

struct diti_clip {
    diti_component base;
    diti_clip_config config;
    diti_encoder_traits traits;
    diti_weight embedding;  /* [vocabulary, d] */
    diti_weight position;   /* [positions, d] */
    diti_layer final_norm;  /* [d] */
    diti_weight projection; /* [projected, d]; OpenCLIP's is turned over at load */
    diti_clip_block *blocks;
};

/* ---- key tables: names asked for are those of transformers before 5; OpenCLIP calls them so, and newer transformers
   leave the beginning out where there is no projection ---- */

static const char *const diti_clip_open_keys[][2] = {
    {"text_model.embeddings.token_embedding", "token_embedding"},
    {"text_model.embeddings.position_embedding.weight", "positional_embedding"},
    {"text_model.final_layer_norm", "ln_final"},
    {"text_projection.weight", "text_projection"},
};
static const char *const diti_clip_open_block_keys[][2] = {
    {"layer_norm1", "ln_1"},
    {"layer_norm2", "ln_2"},
    {"self_attn.in_proj_weight", "attn.in_proj_weight"},
    {"self_attn.in_proj_bias", "attn.in_proj_bias"},
    {"self_attn.out_proj", "attn.out_proj"},
    {"mlp.fc1", "mlp.c_fc"},
    {"mlp.fc2", "mlp.c_proj"},
};

static const diti_key_table diti_clip_open_names[DITI_KEY_TABLES] = {
    {"text_model.encoder.layers.", "transformer.resblocks.", diti_clip_open_block_keys,
     DITI_COUNT(diti_clip_open_block_keys)},
    {NULL, NULL, diti_clip_open_keys, DITI_COUNT(diti_clip_open_keys)},
    {NULL, NULL, NULL, 0},
};

static const diti_key_table diti_clip_bare_names[DITI_KEY_TABLES] = {
    {"text_model.", "", NULL, 0},
    {NULL, "", NULL, 0},
};

static bool diti_clip_is_open(const diti_loader *loader) { return loader->user == (const void *)diti_clip_open_names; }

/* ---- configuration: sizes from shapes, the rest from config.json or by size ---- */

DIT_INTERNAL dit_result diti_clip_read_layers(diti_settings *settings, diti_clip_config *config, dit_error *err) {
    /* A model without a config is OpenAI's if it has 768 channels, and OpenCLIP's if it has more. */
    const char *usual = config->siglip ? "gelu_pytorch_tanh" : config->columns <= 768 ? "quick_gelu" : "gelu";
    const char *name = diti_setting_text(settings, "hidden_act", usual);
    uint32_t heads = config->columns < config->head ? 1 : config->columns / config->head;
    config->heads = diti_setting_size(settings, "num_attention_heads", heads, 1024);
    config->eps = (float)diti_setting_number(settings, "layer_norm_eps", config->siglip ? 1e-6 : 1e-5, 1e-30, 1);
    DITI_TRY(settings->result);
    config->activation = DITI_ACTIVATION_GELU_ERF;
    if (diti_equal(name, "gelu")) return DIT_OK;
    config->activation = DITI_ACTIVATION_QUICK_GELU;
    if (diti_equal(name, "quick_gelu")) return DIT_OK;
    config->activation = DITI_ACTIVATION_GELU_TANH;
    if (diti_equal(name, "gelu_pytorch_tanh") && config->siglip) return DIT_OK;
    return diti_fail(err, DIT_ERROR_UNSUPPORTED_MODEL,
                     "config.json: a CLIP encoder with hidden_act %.60s is not known, only quick_gelu and gelu", name);
}

static void diti_clip_read_sizes(diti_loader *loader, diti_clip_config *config) {
    static const diti_shape_key keys[] = {
        {offsetof(diti_clip_config, vocabulary), "text_model.embeddings.token_embedding.weight", 0},
        {offsetof(diti_clip_config, columns), "text_model.embeddings.token_embedding.weight", 1},
        {offsetof(diti_clip_config, positions), "text_model.embeddings.position_embedding.weight", 0},
        {offsetof(diti_clip_config, hidden), "text_model.encoder.layers.0.mlp.fc1.weight", 0}};
    diti_read_shapes(loader, config, keys, DITI_COUNT(keys));
    config->projected = diti_loader_dimension(loader, "text_projection.weight", diti_clip_is_open(loader) ? 1 : 0);
}

static dit_result diti_clip_read_config(diti_loader *loader, const diti_json *json, diti_clip_config *config,
                                        dit_error *err) {
    diti_settings settings = diti_settings_of(json, "the text encoder's config.json", err);
    double end = diti_setting_number(&settings, "eos_token_id", 2, -1, 2147483646.0);
    diti_clip_read_sizes(loader, config);
    config->blocks =
        diti_loader_layers(loader, &settings, "num_hidden_layers", "text_model.encoder.layers.", ".mlp.fc1.weight");
    config->head = 64;
    config->end = end == 2 ? -1 : (int32_t)end; /* 2: written by old versions */
    return diti_clip_read_layers(&settings, config, err);
}

static dit_result diti_clip_check(const diti_loader *loader, const diti_clip_config *config, dit_error *err) {
    if (!config->columns || !config->positions || !config->hidden || !config->blocks) {
        return diti_loader_refuse(loader, err, "not a CLIP text encoder: %s is missing or has an impossible shape",
                                  !config->columns     ? "the token embedding"
                                  : !config->positions ? "the position embedding"
                                                       : "a matrix of layer 0");
    }
    if (!config->heads || config->columns % config->heads || config->columns / config->heads > 512) {
        return diti_loader_refuse(loader, err, "a CLIP text encoder of %u channels in %u heads is not known",
                                  (unsigned)config->columns, (unsigned)config->heads);
    }
    return DIT_OK;
}

static dit_result diti_clip_read(diti_component *component, diti_loader *loader, const diti_json *json,
                                 dit_error *err) {
    diti_clip_config *config = &((diti_clip *)(void *)component)->config;
    dit_result result = diti_clip_read_config(loader, json, config, err);
    return result >= 0 ? diti_clip_check(loader, config, err) : result;
}

/* ---- loading ---- */

DIT_INTERNAL void diti_clip_load_block(diti_loader *loader, const diti_clip_config *config, diti_clip_block *block,
                                       const char *tower, uint32_t index) {
    static const char *const qkv[] = {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"};
    uint32_t i, d = config->columns, hidden = config->hidden;
    diti_loader_scope(loader, "%s.encoder.layers.%u.", tower, (unsigned)index);
    diti_load_norm(loader, &block->norm1, d, "layer_norm1");
    if (diti_clip_is_open(loader)) { /* one matrix already */
        block->qkv.count = 1;
        diti_load_linear(loader, &block->qkv.layers[0].weight, 3 * d, d, "self_attn.in_proj_weight");
        diti_load_vector(loader, &block->qkv.layers[0].bias, 1, 3 * d, "self_attn.in_proj_bias");
    } else {
        diti_load_fused_linear(loader, &block->qkv, qkv, 3, d, d, true);
    }
    for (i = 0; i < 3 && diti_clip_is_open(loader); i++)
        diti_loader_alias(loader, &block->qkv.layers[0].weight, i * d, d, qkv[i], 0, d, DITI_NAMES_ALL);
    diti_load_layer(loader, &block->out, d, d, 1, "self_attn.out_proj");
    diti_load_norm(loader, &block->norm2, d, "layer_norm2");
    diti_load_layer(loader, &block->up, hidden, d, 1, "mlp.fc1");
    diti_load_layer(loader, &block->down, d, hidden, 1, "mlp.fc2");
    diti_loader_scope_end(loader);
}

static void diti_clip_load_weights(diti_loader *loader, diti_clip *clip) {
    const diti_clip_config *config = &clip->config;
    uint32_t d = config->columns, i;
    diti_load_table(loader, &clip->embedding, config->vocabulary, d, "text_model.embeddings.token_embedding.weight");
    diti_load_vector(loader, &clip->position, config->positions, d, "text_model.embeddings.position_embedding.weight");
    for (i = 0; i < config->blocks; i++) diti_clip_load_block(loader, config, &clip->blocks[i], "text_model", i);
    diti_load_norm(loader, &clip->final_norm, d, "text_model.final_layer_norm");
    if (!config->projected) return;
    if (diti_clip_is_open(loader))
        diti_load_transposed(loader, &clip->projection, config->projected, d, "text_projection.weight");
    else
        diti_load_linear(loader, &clip->projection, config->projected, d, "text_projection.weight");
}

static void diti_clip_load_all(diti_component *component, diti_loader *loader) {
    diti_clip *clip = (diti_clip *)(void *)component;
    const diti_clip_config *config = &clip->config;
    clip->blocks = (diti_clip_block *)diti_component_array(component, loader, config->blocks, sizeof *clip->blocks);
    if (!clip->blocks) return;
    clip->traits.columns = config->columns;
    clip->traits.projected = config->projected;
    clip->traits.vocabulary = config->vocabulary;
    clip->traits.positions = config->positions;
    clip->traits.layers = config->blocks;
    diti_clip_load_weights(loader, clip);
}

DIT_INTERNAL dit_result diti_clip_load(diti_device *device, const diti_env *env, const diti_json *config,
                                       const diti_checkpoint *checkpoint, const char *prefix,
                                       const diti_load_options *options, diti_clip **out, dit_error *err) {
    static const diti_component_kind kind = {"text encoder", "text_encoder",     sizeof(diti_clip),
                                             diti_clip_read, diti_clip_load_all, NULL};
    diti_component_source from = {device, env, config, checkpoint, prefix, options, NULL, NULL};
    diti_component *component;
    dit_result result;
    if (diti_component_has(&from, "final_layer_norm.weight"))
        from.keys = diti_clip_bare_names;
    else if (!diti_component_has(&from, "text_model.final_layer_norm.weight"))
        from.keys = diti_clip_open_names;
    result = diti_component_load(&kind, &from, &component, err);
    *out = (diti_clip *)(void *)component;
    return result;
}

DIT_INTERNAL void diti_clip_destroy(diti_clip *clip) {
    if (clip) diti_component_free(&clip->base);
}

/* ---- the graph ---- */

DIT_INTERNAL diti_tensor diti_clip_norm(const diti_clip_config *config, diti_graph *graph, diti_tensor x,
                                        const diti_layer *norm, const diti_weight *reader, bool out_f32,
                                        const char *name) {
    diti_norm_desc desc = DITI_ZERO;
    desc.eps = config->eps;
    desc.weight = &norm->weight;
    desc.bias = &norm->bias;
    desc.reader = reader;
    desc.out_f32 = out_f32;
    desc.name = name;
    return diti_norm(graph, x, &desc);
}

/* x += layer(h), in place. */
static void diti_clip_residual(diti_graph *graph, diti_tensor x, diti_tensor h, const diti_layer *layer,
                               const char *name) {
    diti_linear_desc desc = DITI_ZERO;
    desc.bias = &layer->bias;
    desc.residual = x;
    desc.out = x;
    desc.name = name;
    diti_linear(graph, h, &layer->weight, &desc);
}

static diti_tensor diti_clip_attention(const diti_clip_config *config, const diti_clip_block *block, diti_graph *graph,
                                       uint32_t batch, diti_tensor mask, diti_tensor h) {
    uint32_t rows = diti_tensor_rows(graph, h), d = config->columns;
    diti_attention_desc desc = DITI_ZERO;
    diti_linear_desc fused = DITI_ZERO;
    diti_tensor qkv;
    fused.name = "clip_qkv";
    qkv = diti_linear_fused(graph, h, &block->qkv, &fused);
    desc.batch = batch;
    desc.heads = config->heads;
    desc.head_dim = d / desc.heads;
    desc.scale = 1.0f / sqrtf((float)desc.head_dim);
    desc.bias = mask;
    desc.name = "clip_attention";
    return diti_attention(graph, diti_tensor_view(graph, qkv, 0, rows, 0, d),
                          diti_tensor_view(graph, qkv, 0, rows, d, d), diti_tensor_view(graph, qkv, 0, rows, 2 * d, d),
                          &desc);
}

DIT_INTERNAL void diti_clip_run_block(const diti_clip_config *config, const diti_clip_block *block, diti_graph *graph,
                                      uint32_t batch, diti_tensor mask, diti_tensor x) {
    diti_linear_desc up = DITI_ZERO;
    diti_tensor h =
        diti_clip_norm(config, graph, x, &block->norm1, diti_fused_linear_reader(&block->qkv), false, "clip_norm1");
    h = diti_clip_attention(config, block, graph, batch, mask, h);
    diti_clip_residual(graph, x, h, &block->out, "clip_attention_out");
    h = diti_clip_norm(config, graph, x, &block->norm2, &block->up.weight, false, "clip_norm2");
    up.bias = &block->up.bias;
    up.activation = config->activation;
    up.name = "clip_up";
    h = diti_linear(graph, h, &block->up.weight, &up);
    diti_clip_residual(graph, x, h, &block->down, "clip_down");
}

static diti_tensor diti_clip_copy(diti_graph *graph, diti_tensor x, diti_tensor out, const char *name) {
    diti_elementwise_desc desc = DITI_ZERO;
    desc.out = out;
    desc.out_f32 = true;
    desc.name = name;
    return diti_elementwise(graph, x, &desc);
}

static diti_tensor diti_clip_embed(const diti_clip *clip, diti_graph *graph, const diti_encoder_use *use) {
    diti_elementwise_desc desc = DITI_ZERO;
    diti_tensor x = diti_gather_rows(graph, &clip->embedding, use->ids, "clip_embedding");
    desc.add =
        diti_tensor_view(graph, diti_tensor_weight(graph, &clip->position, 0), 0, use->tokens, 0, clip->config.columns);
    desc.out_f32 = true;
    desc.name = "clip_position";
    return diti_elementwise(graph, x, &desc);
}

/* The token that stands for each prompt, out of the last layer's output: normed and projected. */
static diti_tensor diti_clip_pool(const diti_clip *clip, diti_graph *graph, const diti_encoder_use *use,
                                  diti_tensor x) {
    bool projects = clip->config.projected && !use->unprojected;
    uint32_t i, columns = projects ? clip->config.projected : clip->config.columns;
    diti_tensor out = diti_tensor_new(graph, DITI_F32, use->batch, columns, "pooled prompt");
    for (i = 0; i < use->batch && !diti_graph_failed(graph); i++) {
        diti_tensor row =
            diti_select_row(graph, x, diti_tensor_view(graph, use->inputs[DITI_CLIP_ENDS], 0, 1, i, 1), "clip_pooled");
        diti_tensor to = diti_tensor_view(graph, out, i, 1, 0, columns);
        diti_linear_desc desc = DITI_ZERO;
        desc.out = to;
        desc.name = "clip_projection";
        row = diti_clip_norm(&clip->config, graph, row, &clip->final_norm, projects ? &clip->projection : NULL,
                             !projects, "clip_final_norm");
        if (projects)
            diti_linear(graph, row, &clip->projection, &desc);
        else
            diti_clip_copy(graph, row, to, "clip_pooled");
    }
    return out;
}

static bool diti_clip_use_fits(const diti_clip *clip, diti_graph *graph, const diti_encoder_use *use) {
    const diti_clip_config *config = &clip->config;
    if (use->tokens > config->positions || use->tokens > DITI_CLIP_MAX_TOKENS) {
        diti_graph_fail(graph, DIT_ERROR_INVALID_ARGUMENT, "%u tokens for a text encoder that knows %u positions",
                        use->tokens, config->positions);
    } else if (use->skip >= config->blocks) {
        diti_graph_fail(graph, DIT_ERROR_INVALID_ARGUMENT, "%u layers of a text encoder of %u cannot be skipped",
                        use->skip, config->blocks);
    }
    return !diti_graph_failed(graph);
}

DIT_INTERNAL diti_tensor diti_clip_encode(const diti_clip *clip, diti_graph *graph, diti_encoder_use *use) {
    uint32_t i, last = clip->config.blocks - use->skip;
    diti_tensor x, states = 0;
    if (!diti_clip_use_fits(clip, graph, use)) return 0;
    use->inputs[DITI_CLIP_CAUSAL] =
        diti_tensor_input(graph, DITI_F32, clip->config.heads, 2 * use->tokens - 1, "causal mask");
    use->inputs[DITI_CLIP_ENDS] = diti_tensor_input(graph, DITI_U32, 1, use->batch, "end tokens");
    x = diti_clip_embed(clip, graph, use);
    for (i = 0; i < clip->config.blocks && !diti_graph_failed(graph); i++) {
        diti_graph_scope(graph, "block", i);
        diti_clip_run_block(&clip->config, &clip->blocks[i], graph, use->batch, use->inputs[DITI_CLIP_CAUSAL], x);
        if (i + 1 == last && use->norm_states)
            states = diti_clip_norm(&clip->config, graph, x, &clip->final_norm, NULL, true, "clip_states");
        else if (i + 1 == last)
            states = diti_clip_copy(graph, x, 0, "clip_states");
    }
    diti_graph_scope(graph, NULL, 0);
    use->pooled = diti_clip_pool(clip, graph, use, x);
    if (use->weights) diti_weigh_rows(graph, states, use->weights, "clip_weigh");
    return states;
}

/* ---- what the host writes ---- */

/* As transformers does: the first end token, the first token where there is none; for old configs the first token with
   the largest id. */
static uint32_t diti_clip_end(const diti_clip *clip, const int32_t *ids, uint32_t tokens) {
    uint32_t i, found = 0;
    for (i = 0; i < tokens; i++) {
        if (clip->config.end >= 0 && ids[i] == clip->config.end) return i;
        if (clip->config.end < 0 && ids[i] > ids[found]) found = i;
    }
    return found;
}

static dit_result diti_clip_write_mask(const diti_clip *clip, diti_plan *plan, const diti_encoder_use *use,
                                       dit_error *err) {
    uint32_t width = 2 * use->tokens - 1, count = clip->config.heads * width, i;
    float *mask = (float *)diti_alloc_array(&clip->base.env, count, sizeof *mask);
    dit_result result;
    if (!mask) return diti_fail_memory(err, "the text encoder's mask");
    for (i = 0; i < count; i++)
        mask[i] = i % width < use->tokens ? 0.0f : DITI_CLIP_MASKED; /* key - query + tokens - 1 */
    result = diti_plan_write(plan, use->inputs[DITI_CLIP_CAUSAL], mask, count * sizeof *mask, err);
    diti_free(&clip->base.env, mask);
    return result;
}

DIT_INTERNAL dit_result diti_clip_write_inputs(const diti_clip *clip, diti_plan *plan, const diti_encoder_use *use,
                                               const int32_t *ids, dit_error *err) {
    uint32_t *rows = (uint32_t *)diti_alloc_array(&clip->base.env, use->batch, sizeof *rows);
    dit_result result;
    uint32_t i;
    if (!rows) return diti_fail_memory(err, "%u prompts", use->batch);
    for (i = 0; i < use->batch; i++)
        rows[i] = i * use->tokens + diti_clip_end(clip, ids + (size_t)i * use->tokens, use->tokens);
    result = diti_plan_write(plan, use->inputs[DITI_CLIP_ENDS], rows, use->batch * sizeof *rows, err);
    diti_free(&clip->base.env, rows);
    return result >= 0 ? diti_clip_write_mask(clip, plan, use, err) : result;
}

/* ---- the same for those who do not ask which encoder it is ---- */

static dit_result diti_clip_type_load(diti_device *device, const diti_env *env, const diti_json *config,
                                      const diti_checkpoint *checkpoint, const char *prefix,
                                      const diti_load_options *options, void **out, dit_error *err) {
    diti_clip *clip = NULL;
    dit_result result = diti_clip_load(device, env, config, checkpoint, prefix, options, &clip, err);
    *out = clip;
    return result;
}

static void diti_clip_type_destroy(void *self) { diti_clip_destroy((diti_clip *)self); }

static const diti_encoder_traits *diti_clip_type_traits(const void *self) { return &((const diti_clip *)self)->traits; }

static const diti_weights *diti_clip_type_weights(const void *self) { return &((const diti_clip *)self)->base.weights; }

static diti_tensor diti_clip_type_encode(const void *self, diti_graph *graph, diti_encoder_use *use) {
    return diti_clip_encode((const diti_clip *)self, graph, use);
}

static dit_result diti_clip_type_write(const void *self, diti_plan *plan, const diti_encoder_use *use,
                                       const int32_t *ids, const uint32_t *items, dit_error *err) {
    (void)items;
    return diti_clip_write_inputs((const diti_clip *)self, plan, use, ids, err);
}

DIT_INTERNAL const diti_encoder_type *diti_clip_type(void) {
    static const diti_encoder_type type = {false,
                                           false,
                                           diti_clip_type_load,
                                           diti_clip_type_destroy,
                                           diti_clip_type_traits,
                                           diti_clip_type_weights,
                                           diti_clip_type_encode,
                                           diti_clip_type_write};
    return &type;
}
