#include "text/text.h"

/* Anima's text conditioner (docs/models.md 5.8): tokens of T5's vocabulary attend each other and the states that a
   language model has of the same prompt. Norms are RMS norms before each sublayer; both attentions rotate by position.
 */

typedef struct diti_conditioner_attention {
    diti_layer q, k, v, out;    /* [d, d], [d, columns of what is read] twice, [d, d] */
    diti_weight q_norm, k_norm; /* [head_dim] */
} diti_conditioner_attention;

typedef struct diti_conditioner_block {
    diti_weight norms[3]; /* [d]: before its own tokens, before the states, before the feed-forward */
    diti_conditioner_attention own, cross;
    diti_layer up, down; /* [hidden, d], [d, hidden] */
} diti_conditioner_block;

typedef struct diti_conditioner_config {
    uint32_t blocks, width, columns, vocabulary, source, head_dim, hidden; /* width: d; columns: of the result */
} diti_conditioner_config;

typedef struct diti_conditioner {
    diti_component base;
    diti_conditioner_config config;
    diti_encoder_traits traits;
    diti_weight embedding; /* [vocabulary, columns] */
    diti_layer in, out;    /* [d, columns], where these differ, and [columns, d] */
    diti_weight norm;      /* [columns] */
    diti_conditioner_block *blocks;
} diti_conditioner;

/* ---- loading ---- */

static dit_result diti_conditioner_read(diti_component *component, diti_loader *loader, const diti_json *json,
                                        dit_error *err) {
    static const diti_shape_key keys[] = {
        {offsetof(diti_conditioner_config, vocabulary), "embed.weight", 0},
        {offsetof(diti_conditioner_config, columns), "embed.weight", 1},
        {offsetof(diti_conditioner_config, width), "blocks.0.self_attn.o_proj.weight", 0},
        {offsetof(diti_conditioner_config, source), "blocks.0.cross_attn.k_proj.weight", 1},
        {offsetof(diti_conditioner_config, hidden), "blocks.0.mlp.0.weight", 0},
        {offsetof(diti_conditioner_config, head_dim), "blocks.0.self_attn.q_norm.weight", 0}};
    diti_conditioner_config *config = &((diti_conditioner *)(void *)component)->config;
    diti_settings settings = diti_settings_of(json, "the text conditioner's config.json", err);
    diti_read_shapes(loader, config, keys, DITI_COUNT(keys));
    config->blocks = diti_loader_layers(loader, &settings, "num_layers", "blocks.", ".mlp.0.weight");
    DITI_TRY(settings.result);
    if (config->blocks && config->width && config->columns && config->source && config->hidden && config->head_dim &&
        config->width % config->head_dim == 0 && config->head_dim % 4 == 0 && config->head_dim <= 256)
        return DIT_OK;
    return diti_loader_refuse(loader, err,
                              "a text conditioner of %u blocks and heads of %u in a width of %u is out of range",
                              (unsigned)config->blocks, (unsigned)config->head_dim, (unsigned)config->width);
}

static void diti_conditioner_load_attention(diti_loader *loader, diti_conditioner_attention *out,
                                            const diti_conditioner_config *config, uint32_t index, const char *name,
                                            uint32_t columns) {
    uint32_t d = config->width;
    diti_loader_scope(loader, "blocks.%u.%s.", (unsigned)index, name);
    diti_load_bare(loader, &out->q, d, d, "q_proj");
    diti_load_bare(loader, &out->k, d, columns, "k_proj");
    diti_load_bare(loader, &out->v, d, columns, "v_proj");
    diti_load_bare(loader, &out->out, d, d, "o_proj");
    diti_load_vector(loader, &out->q_norm, 1, config->head_dim, "q_norm.weight");
    diti_load_vector(loader, &out->k_norm, 1, config->head_dim, "k_norm.weight");
}

static void diti_conditioner_load_all(diti_component *component, diti_loader *loader) {
    static const char *const norms[] = {"norm_self_attn.weight", "norm_cross_attn.weight", "norm_mlp.weight"};
    diti_conditioner *conditioner = (diti_conditioner *)(void *)component;
    const diti_conditioner_config *config = &conditioner->config;
    uint32_t i, k;
    conditioner->blocks =
        (diti_conditioner_block *)diti_component_array(component, loader, config->blocks, sizeof *conditioner->blocks);
    if (!conditioner->blocks) return;
    conditioner->traits.columns = config->columns;
    conditioner->traits.vocabulary = config->vocabulary;
    conditioner->traits.layers = config->blocks;
    conditioner->traits.source = config->source;
    diti_load_table(loader, &conditioner->embedding, config->vocabulary, config->columns, "embed.weight");
    if (diti_loader_find(loader, "in_proj.weight"))
        diti_load_layer(loader, &conditioner->in, config->width, config->columns, 1, "in_proj");
    for (i = 0; i < config->blocks; i++) {
        diti_conditioner_block *block = &conditioner->blocks[i];
        diti_conditioner_load_attention(loader, &block->own, config, i, "self_attn", config->width);
        diti_conditioner_load_attention(loader, &block->cross, config, i, "cross_attn", config->source);
        diti_loader_scope(loader, "blocks.%u.", (unsigned)i);
        for (k = 0; k < 3; k++) diti_load_vector(loader, &block->norms[k], 1, config->width, norms[k]);
        diti_load_layer(loader, &block->up, config->hidden, config->width, 1, "mlp.0");
        diti_load_layer(loader, &block->down, config->width, config->hidden, 1, "mlp.2");
    }
    diti_loader_scope_end(loader);
    diti_load_layer(loader, &conditioner->out, config->columns, config->width, 1, "out_proj");
    diti_load_vector(loader, &conditioner->norm, 1, config->columns, "norm.weight");
}

/* ---- the graph ---- */

enum { DITI_CONDITIONER_COSINES, DITI_CONDITIONER_SINES }; /* inputs F32 [tokens, head_dim / 2] */

static diti_tensor diti_conditioner_norm(diti_graph *graph, diti_tensor x, const diti_weight *weight, bool last) {
    diti_norm_desc desc = DITI_ZERO;
    desc.rms = true;
    desc.eps = 1e-6f;
    desc.weight = weight;
    desc.out_f32 = last;
    desc.name = "conditioner_norm";
    return diti_norm(graph, x, &desc);
}

static diti_tensor diti_conditioner_linear(diti_graph *graph, diti_tensor x, const diti_layer *layer,
                                           diti_activation activation, diti_tensor residual, const char *name) {
    diti_linear_desc desc = DITI_ZERO;
    desc.bias = &layer->bias;
    desc.activation = activation;
    desc.residual = desc.out = residual;
    desc.name = name;
    return diti_linear(graph, x, &layer->weight, &desc);
}

/* Heads of h through layer, normed and rotated by their places among so many tokens. */
static diti_tensor diti_conditioner_heads(const diti_conditioner *conditioner, diti_graph *graph,
                                          const diti_encoder_use *use, diti_tensor h, const diti_layer *layer,
                                          const diti_weight *norm, uint32_t tokens) {
    const diti_conditioner_config *config = &conditioner->config;
    diti_qkv_desc desc = DITI_ZERO;
    diti_tensor x = diti_conditioner_linear(graph, h, layer, DITI_ACTIVATION_NONE, 0, "conditioner_heads");
    desc.heads = config->width / config->head_dim;
    desc.head_dim = config->head_dim;
    desc.norm = DITI_QKV_RMS;
    desc.eps = 1e-6f;
    desc.weight = norm;
    desc.half_split = true;
    desc.cosines = diti_tensor_view(graph, use->inputs[DITI_CONDITIONER_COSINES], 0, tokens, 0, config->head_dim / 2);
    desc.sines = diti_tensor_view(graph, use->inputs[DITI_CONDITIONER_SINES], 0, tokens, 0, config->head_dim / 2);
    desc.tokens = tokens;
    desc.name = "conditioner_rotate";
    diti_qk_norm_rope(graph, x, &desc);
    return x;
}

/* x += out(attention of norm x to what `from` has, as far as items name it). */
static void diti_conditioner_attend(const diti_conditioner *conditioner, diti_graph *graph, const diti_encoder_use *use,
                                    const diti_conditioner_attention *w, diti_tensor x, diti_tensor h, diti_tensor from,
                                    uint32_t tokens, diti_tensor items) {
    const diti_conditioner_config *config = &conditioner->config;
    diti_attention_desc desc = DITI_ZERO;
    diti_tensor q = diti_conditioner_heads(conditioner, graph, use, h, &w->q, &w->q_norm, use->tokens);
    diti_tensor k = diti_conditioner_heads(conditioner, graph, use, from, &w->k, &w->k_norm, tokens);
    diti_tensor v = diti_conditioner_linear(graph, from, &w->v, DITI_ACTIVATION_NONE, 0, "conditioner_values");
    desc.batch = use->batch;
    desc.heads = config->width / config->head_dim;
    desc.head_dim = config->head_dim;
    desc.scale = 1.0f / sqrtf((float)config->head_dim);
    desc.items = items;
    desc.key_limit = tokens;
    desc.name = "conditioner_attention";
    diti_conditioner_linear(graph, diti_attention(graph, q, k, v, &desc), &w->out, DITI_ACTIVATION_NONE, x,
                            "conditioner_out");
}

static diti_tensor diti_conditioner_encode(const void *self, diti_graph *graph, diti_encoder_use *use) {
    const diti_conditioner *conditioner = (const diti_conditioner *)self;
    const diti_conditioner_config *config = &conditioner->config;
    uint32_t most = use->tokens > use->source_tokens ? use->tokens : use->source_tokens, i;
    diti_tensor x = diti_gather_rows(graph, &conditioner->embedding, use->ids, "conditioner_embedding"), h;
    diti_linear_desc in = DITI_ZERO;
    use->inputs[DITI_CONDITIONER_COSINES] =
        diti_tensor_input(graph, DITI_F32, most, config->head_dim / 2, "conditioner cosines");
    use->inputs[DITI_CONDITIONER_SINES] =
        diti_tensor_input(graph, DITI_F32, most, config->head_dim / 2, "conditioner sines");
    in.bias = &conditioner->in.bias;
    in.out_f32 = true;
    in.name = "conditioner_in";
    if (conditioner->in.weight.part_count) x = diti_linear(graph, x, &conditioner->in.weight, &in);
    for (i = 0; i < config->blocks && !diti_graph_failed(graph); i++) {
        const diti_conditioner_block *block = &conditioner->blocks[i];
        diti_graph_scope(graph, "block", i);
        h = diti_conditioner_norm(graph, x, &block->norms[0], false);
        diti_conditioner_attend(conditioner, graph, use, &block->own, x, h, h, use->tokens, use->items);
        h = diti_conditioner_norm(graph, x, &block->norms[1], false);
        diti_conditioner_attend(conditioner, graph, use, &block->cross, x, h, use->source, use->source_tokens,
                                use->source_items);
        h = diti_conditioner_norm(graph, x, &block->norms[2], false);
        h = diti_conditioner_linear(graph, h, &block->up, DITI_ACTIVATION_GELU_ERF, 0, "conditioner_up");
        diti_conditioner_linear(graph, h, &block->down, DITI_ACTIVATION_NONE, x, "conditioner_down");
    }
    diti_graph_scope(graph, NULL, 0);
    in.bias = &conditioner->out.bias;
    x = diti_conditioner_norm(graph, diti_linear(graph, x, &conditioner->out.weight, &in), &conditioner->norm, true);
    if (use->weights) diti_weigh_rows(graph, x, use->weights, "conditioner_weigh");
    return x;
}

/* ---- what the host writes, and what those call who do not ask which encoder it is ---- */

static dit_result diti_conditioner_write(const void *self, diti_plan *plan, const diti_encoder_use *use,
                                         const int32_t *ids, const uint32_t *items, dit_error *err) {
    const diti_conditioner *conditioner = (const diti_conditioner *)self;
    const diti_tensor *inputs = use->inputs;
    uint32_t half = conditioner->config.head_dim / 2, rows = plan->tensors[inputs[DITI_CONDITIONER_COSINES]].rows, i;
    size_t count = (size_t)rows * half;
    float *cosines = (float *)diti_alloc_array(&conditioner->base.env, 2 * count, sizeof *cosines);
    dit_result result;
    (void)ids;
    (void)items;
    if (!cosines) return diti_fail_memory(err, "the text conditioner's positions");
    for (i = 0; i < count; i++) {
        double angle = (double)(i / half) * pow(10000.0, -(double)(i % half) / half);
        cosines[i] = (float)cos(angle);
        cosines[count + i] = (float)sin(angle);
    }
    result = diti_plan_write(plan, inputs[DITI_CONDITIONER_COSINES], cosines, count * sizeof *cosines, err);
    if (result >= 0)
        result = diti_plan_write(plan, inputs[DITI_CONDITIONER_SINES], cosines + count, count * sizeof *cosines, err);
    diti_free(&conditioner->base.env, cosines);
    return result;
}

static dit_result diti_conditioner_load(diti_device *device, const diti_env *env, const diti_json *config,
                                        const diti_checkpoint *checkpoint, const char *prefix,
                                        const diti_load_options *options, void **out, dit_error *err) {
    static const diti_component_kind kind = {"text conditioner",    "text_conditioner",        sizeof(diti_conditioner),
                                             diti_conditioner_read, diti_conditioner_load_all, NULL};
    diti_component_source from = {device, env, config, checkpoint, prefix, options, NULL, NULL};
    diti_component *component = NULL;
    dit_result result = diti_component_load(&kind, &from, &component, err);
    *out = component;
    return result;
}

static void diti_conditioner_destroy(void *self) {
    if (self) diti_component_free(&((diti_conditioner *)self)->base);
}

static const diti_encoder_traits *diti_conditioner_traits(const void *self) {
    return &((const diti_conditioner *)self)->traits;
}

static const diti_weights *diti_conditioner_weights(const void *self) {
    return &((const diti_conditioner *)self)->base.weights;
}

DIT_INTERNAL const diti_encoder_type *diti_conditioner_type(void) {
    static const diti_encoder_type type = {false,
                                           true,
                                           diti_conditioner_load,
                                           diti_conditioner_destroy,
                                           diti_conditioner_traits,
                                           diti_conditioner_weights,
                                           diti_conditioner_encode,
                                           diti_conditioner_write};
    return &type;
}
