/* HunyuanDiT 1.0 to 1.2: docs/models.md 3.5. Original:
   https://github.com/Tencent/HunyuanDiT/blob/main/hydit/modules/models.py

   D is the width of the residual stream. Blocks of the second half also get what their mirror images of the first half
   left (skips). The text of two encoders, BERT and mT5, is attended by every block, with learned rows in place of
   padding; what is pooled of mT5's, the timestep and, before 1.2, sizes and a style shift the first norm of every
   block. */
#include "model/model.h"

#define DITI_HUNYUANDIT_MAX_BLOCKS 128u
#define DITI_HUNYUANDIT_POOL_HEADS 8u

/* ---- configuration ---- */

typedef struct diti_hunyuandit_config {
    uint32_t blocks, heads, head_dim, width, inner; /* width: D; inner: of the feed-forward */
    uint32_t channels, out_channels, patch;
    uint32_t text_tokens, text;   /* BERT: tokens, columns */
    uint32_t text2_tokens, text2; /* mT5: tokens, columns */
    uint32_t pooled;              /* columns of what is pooled of mT5's */
    uint32_t sample_size;         /* latent size of the training */
    bool sized;                   /* sizes and style are conditions (before 1.2) */
    bool original;                /* final layer: shift before scale */
    bool linspace;                /* positions of grids that are not square as diffusers has them since 0.32 */
} diti_hunyuandit_config;

/* ---- key table: names asked for here are diffusers'; the original code base calls them so ---- */

static const char *const diti_hunyuandit_keys[][2] = {
    {"pos_embed.proj", "x_embedder.proj"},
    {"time_extra_emb.timestep_embedder.linear_1", "t_embedder.mlp.0"},
    {"time_extra_emb.timestep_embedder.linear_2", "t_embedder.mlp.2"},
    {"time_extra_emb.extra_embedder.linear_1", "extra_embedder.0"},
    {"time_extra_emb.extra_embedder.linear_2", "extra_embedder.2"},
    {"time_extra_emb.pooler", "pooler"},
    {"time_extra_emb.style_embedder", "style_embedder"},
    {"text_embedder.linear_1", "mlp_t5.0"},
    {"text_embedder.linear_2", "mlp_t5.2"},
    {"text_embedding_padding", "text_embedding_padding"},
    {"norm_out.linear", "final_layer.adaLN_modulation.1"}, /* rows shift, scale; scale, shift in diffusers */
    {"proj_out", "final_layer.linear"},
};
static const char *const diti_hunyuandit_block_keys[][2] = {
    {"norm1.norm", "norm1"},
    {"norm1.linear", "default_modulation.1"},
    {"norm2", "norm3"}, /* before the cross attention */
    {"norm3", "norm2"}, /* before the feed-forward */
    {"attn1.qkv", "attn1.Wqkv"},
    {"attn1.norm_q", "attn1.q_norm"},
    {"attn1.norm_k", "attn1.k_norm"},
    {"attn1.to_out.0", "attn1.out_proj"},
    {"attn2.to_q", "attn2.q_proj"},
    {"attn2.kv", "attn2.kv_proj"},
    {"attn2.norm_q", "attn2.q_norm"},
    {"attn2.norm_k", "attn2.k_norm"},
    {"attn2.to_out.0", "attn2.out_proj"},
    {"ff.net.0.proj", "mlp.fc1"},
    {"ff.net.2", "mlp.fc2"},
    {"skip_norm", "skip_norm"},
    {"skip_linear", "skip_linear"},
};

static const diti_key_table diti_hunyuandit_names[DITI_KEY_TABLES] = {
    {"blocks.", "blocks.", diti_hunyuandit_block_keys, DITI_COUNT(diti_hunyuandit_block_keys)},
    {NULL, NULL, diti_hunyuandit_keys, DITI_COUNT(diti_hunyuandit_keys)},
    {NULL, NULL, NULL, 0},
};

/* ---- weights ---- */

typedef struct diti_hunyuandit_attention {
    diti_layer norm_q, norm_k; /* [head_dim]: LayerNorm of each head */
    diti_layer out;            /* [D, D] */
} diti_hunyuandit_attention;

typedef struct diti_hunyuandit_block {
    diti_layer norm1, norm2, norm3; /* [D]: before attention, cross attention, feed-forward */
    diti_layer shift;               /* [D, D]: of norm1, from silu(c) */
    diti_hunyuandit_attention self, cross;
    diti_fused_linear qkv;     /* [3D, D] */
    diti_layer text_q;         /* [D, D] */
    diti_fused_linear text_kv; /* [2D, text] */
    diti_layer ff_in;          /* [inner, D] */
    diti_layer ff_out;         /* [D, inner] */
    diti_layer skip_norm;      /* [2D] */
    diti_layer skip;           /* [D, 2D] */
    diti_sublayer attention, text, feed, join;
} diti_hunyuandit_block;

typedef struct diti_hunyuandit_pooler {
    diti_weight positions; /* F32 [text2_tokens + 1, text2] */
    diti_layer q;          /* [text2, text2] */
    diti_fused_linear kv;  /* [2 * text2, text2] */
    diti_layer out;        /* [pooled, text2] */
} diti_hunyuandit_pooler;

typedef struct diti_hunyuandit {
    diti_transformer base;
    diti_hunyuandit_config config;
    diti_layer patch;         /* [D, C * p * p] */
    diti_embedder time;       /* [D, 256], [D, D] */
    diti_embedder extra;      /* [4D, extra columns], [D, 4D] */
    diti_embedder text;       /* [4 * text2, text2], [text, 4 * text2]: mT5's columns become BERT's */
    diti_weight text_padding; /* F32 [text_tokens + text2_tokens, text] */
    diti_weight style;        /* F32 [styles, D], of which the first is used */
    diti_hunyuandit_pooler pooler;
    diti_layer norm_out; /* [2D, D] */
    diti_layer proj_out; /* [p * p * out_channels, D] */
    diti_sublayer last;
    diti_hunyuandit_block *blocks;
} diti_hunyuandit;

#define diti_hunyuandit_of(transformer) ((const diti_hunyuandit *)(const void *)(transformer))

/* Blocks behind the middle one take a skip; the first of the others leave one, the last of them none. */
static bool diti_hunyuandit_takes_skip(const diti_hunyuandit_config *config, uint32_t block) {
    return block > config->blocks / 2;
}

static bool diti_hunyuandit_leaves_skip(const diti_hunyuandit_config *config, uint32_t block) {
    return block + 1 < config->blocks / 2;
}

/* ---- reading the configuration: what config.json does not say comes from shapes ---- */

static dit_result diti_hunyuandit_read_shapes(diti_loader *loader, diti_hunyuandit_config *config, dit_error *err) {
    static const char positions[] = "time_extra_emb.pooler.positional_embedding";
    static const diti_shape_key keys[] = {
        {offsetof(diti_hunyuandit_config, width), "pos_embed.proj.weight", 0},
        {offsetof(diti_hunyuandit_config, channels), "pos_embed.proj.weight", 1},
        {offsetof(diti_hunyuandit_config, patch), "pos_embed.proj.weight", 2},
        {offsetof(diti_hunyuandit_config, head_dim), "blocks.0.attn1.norm_q.weight", 0},
        {offsetof(diti_hunyuandit_config, inner), "blocks.0.ff.net.0.proj.weight", 0},
        {offsetof(diti_hunyuandit_config, text), "text_embedding_padding", 1},
        {offsetof(diti_hunyuandit_config, text2), positions, 1},
        {offsetof(diti_hunyuandit_config, text2_tokens), positions, 0},
        {offsetof(diti_hunyuandit_config, pooled), "time_extra_emb.pooler.c_proj.weight", 0}};
    uint32_t texts = diti_loader_dimension(loader, "text_embedding_padding", 0);
    diti_read_shapes(loader, config, keys, DITI_COUNT(keys));
    config->blocks = diti_loader_count(loader, "blocks.", ".norm1.linear.weight");
    config->sized = diti_loader_find(loader, "time_extra_emb.style_embedder.weight") != NULL;
    if (!config->width || !config->channels || !config->patch || !config->blocks || !config->head_dim ||
        config->text2_tokens < 2 || texts < config->text2_tokens || !config->pooled || !config->inner) {
        return diti_loader_refuse(loader, err, "a HunyuanDiT without %s: the file is incomplete",
                                  !config->blocks                               ? "blocks"
                                  : config->text2_tokens < 2 || !config->pooled ? "pooler"
                                  : texts < config->text2_tokens                ? "text_embedding_padding"
                                  : !config->head_dim || !config->inner         ? "a whole first block"
                                                                                : "patch embedding");
    }
    config->text2_tokens--; /* the first position is the mean's */
    config->text_tokens = texts - config->text2_tokens;
    DITI_TRY(diti_check_patches(loader, "HunyuanDiT", config->patch, config->channels, err));
    config->out_channels = diti_loader_dimension(loader, "proj_out.weight", 0) / (config->patch * config->patch);
    return DIT_OK;
}

static dit_result diti_hunyuandit_check(const diti_hunyuandit_config *config, diti_settings *settings, dit_error *err) {
    static const char *const known[2][2] = {{"activation_fn", "gelu-approximate"}, {"norm_type", "layer_norm"}};
    DITI_TRY(diti_settings_check_known(settings, "HunyuanDiT", known, err));
    if ((uint64_t)config->heads * config->head_dim != config->width || config->head_dim > 256 || config->head_dim % 4 ||
        config->text % 4 || config->pooled % 4 || config->text2 % 4 || config->text2 % DITI_HUNYUANDIT_POOL_HEADS) {
        return diti_fail(err, DIT_ERROR_UNSUPPORTED_MODEL,
                         "HunyuanDiT: %u heads of %u in a width of %u, texts of %u and %u columns and %u pooled ones "
                         "don't go together",
                         (unsigned)config->heads, (unsigned)config->head_dim, (unsigned)config->width,
                         (unsigned)config->text, (unsigned)config->text2, (unsigned)config->pooled);
    }
    if (config->out_channels < config->channels || config->blocks > DITI_HUNYUANDIT_MAX_BLOCKS || config->blocks < 2 ||
        config->blocks % 2 || config->sample_size < config->patch) {
        return diti_fail(err, DIT_ERROR_UNSUPPORTED_MODEL,
                         "HunyuanDiT: %u blocks, patches of %u in a size of %u, %u channels out of %u are out of range",
                         (unsigned)config->blocks, (unsigned)config->patch, (unsigned)config->sample_size,
                         (unsigned)config->out_channels, (unsigned)config->channels);
    }
    return DIT_OK;
}

static dit_result diti_hunyuandit_read(diti_component *component, diti_loader *loader, const diti_json *json,
                                       dit_error *err) {
    static const diti_size_key keys[] = {{offsetof(diti_hunyuandit_config, heads), "num_attention_heads", 1024},
                                         {offsetof(diti_hunyuandit_config, sample_size), "sample_size", 4096},
                                         {offsetof(diti_hunyuandit_config, text_tokens), "text_len", 4096},
                                         {offsetof(diti_hunyuandit_config, text2_tokens), "text_len_t5", 4096}};
    diti_hunyuandit_config *config = &((diti_hunyuandit *)(void *)component)->config;
    diti_settings settings = diti_settings_of(json, "the transformer's config.json", err);
    dit_result result = diti_hunyuandit_read_shapes(loader, config, err);
    DITI_TRY(result);
    config->original = loader->rename != NULL;
    config->blocks = diti_loader_layers(loader, &settings, "num_layers", "blocks.", ".norm1.linear.weight");
    config->head_dim = diti_setting_size(&settings, "attention_head_dim", config->head_dim, 1024);
    config->heads = config->width / config->head_dim;
    config->sample_size = 128;
    config->sized = diti_setting_bool(&settings, "use_style_cond_and_image_meta_size", config->sized);
    diti_read_sizes(&settings, config, keys, DITI_COUNT(keys));
    config->linspace = !config->original;
    return diti_hunyuandit_check(config, &settings, err);
}

/* ---- loading ---- */

static void diti_hunyuandit_load_attention(diti_loader *loader, const diti_hunyuandit_config *config,
                                           diti_hunyuandit_attention *out, const char *name) {
    char full[32];
    diti_format(full, sizeof full, "%s.norm_q", name);
    diti_load_norm(loader, &out->norm_q, config->head_dim, full);
    diti_format(full, sizeof full, "%s.norm_k", name);
    diti_load_norm(loader, &out->norm_k, config->head_dim, full);
    diti_format(full, sizeof full, "%s.to_out.0", name);
    diti_load_layer(loader, &out->out, config->width, config->width, 1, full);
}

static void diti_hunyuandit_self_heads(const diti_pass *p, diti_tensor x, uint32_t kind);

/* Keys and values of the attention to text are projected with the text. */
static void diti_hunyuandit_pair_layers(const diti_hunyuandit_config *config, diti_hunyuandit_block *block) {
    uint32_t width = config->width, head_dim = config->head_dim;
    diti_make_attention(&block->attention, DITI_STREAMS_ONE, &block->qkv, &block->self.out, width, head_dim);
    block->attention.heads = diti_hunyuandit_self_heads;
    diti_make_text_attention(&block->text, &block->attention, &block->text_q, &block->cross.out, width, head_dim);
    block->text.norm_name = "norm2";
    diti_make_feed(&block->feed, DITI_STREAMS_ONE, &block->ff_in, &block->ff_out);
    block->feed.norm_name = "norm3";
    diti_make_output(&block->join, DITI_STREAMS_ONE, &block->skip);
    block->join.norm_name = "skip_norm";
}

static void diti_hunyuandit_load_block(diti_loader *loader, const diti_hunyuandit_config *config,
                                       diti_hunyuandit_block *block, uint32_t index) {
    static const diti_fused qkv = {"attn1.qkv", {"attn1.to_q", "attn1.to_k", "attn1.to_v"}, 3};
    static const diti_fused kv = {"attn2.kv", {"attn2.to_k", "attn2.to_v", NULL}, 2};
    uint32_t width = config->width;
    diti_loader_scope(loader, "blocks.%u.", (unsigned)index);
    if (diti_hunyuandit_takes_skip(config, index)) {
        diti_load_norm(loader, &block->skip_norm, 2 * width, "skip_norm");
        diti_load_layer(loader, &block->skip, width, 2 * width, 1, "skip_linear");
    }
    diti_load_norm(loader, &block->norm1, width, "norm1.norm");
    diti_load_layer(loader, &block->shift, width, width, 1, "norm1.linear");
    diti_load_fused(loader, &block->qkv, &qkv, width, width);
    diti_hunyuandit_load_attention(loader, config, &block->self, "attn1");
    diti_load_norm(loader, &block->norm2, width, "norm2");
    diti_load_layer(loader, &block->text_q, width, width, 1, "attn2.to_q");
    diti_load_fused(loader, &block->text_kv, &kv, width, config->text);
    diti_hunyuandit_load_attention(loader, config, &block->cross, "attn2");
    diti_load_norm(loader, &block->norm3, width, "norm3");
    diti_load_layer(loader, &block->ff_in, config->inner, width, 1, "ff.net.0.proj");
    diti_load_layer(loader, &block->ff_out, width, config->inner, 1, "ff.net.2");
    diti_loader_scope_end(loader);
    diti_hunyuandit_pair_layers(config, block);
}

static void diti_hunyuandit_load_pooler(diti_loader *loader, const diti_hunyuandit_config *config,
                                        diti_hunyuandit_pooler *out) {
    static const char *const kv[] = {"k_proj", "v_proj"};
    uint32_t columns = config->text2;
    diti_loader_scope(loader, "time_extra_emb.pooler.");
    diti_load_vector(loader, &out->positions, config->text2_tokens + 1, columns, "positional_embedding");
    diti_load_layer(loader, &out->q, columns, columns, 1, "q_proj");
    diti_load_fused_linear(loader, &out->kv, kv, 2, columns, columns, true);
    diti_load_layer(loader, &out->out, config->pooled, columns, 1, "c_proj");
    diti_loader_scope_end(loader);
}

/* Columns that the extra embedder reads: pooled text, sinusoids of six sizes, style. */
static uint32_t diti_hunyuandit_extra_columns(const diti_hunyuandit_config *config) {
    return config->pooled + (config->sized ? 6 * 256 + config->width : 0);
}

static void diti_hunyuandit_load_weights(diti_loader *loader, diti_hunyuandit *model) {
    const diti_hunyuandit_config *config = &model->config;
    uint32_t i, width = config->width, area = config->patch * config->patch;
    static const char style[] = "time_extra_emb.style_embedder.weight";
    diti_load_layer(loader, &model->patch, width, config->channels * area, config->patch, "pos_embed.proj");
    model->patch.weight.kernel = 1; /* used as a matrix on flattened patches */
    diti_load_embedder(loader, &model->time, width, width, 256, "time_extra_emb.timestep_embedder");
    diti_load_embedder(loader, &model->extra, width, 4 * width, diti_hunyuandit_extra_columns(config),
                       "time_extra_emb.extra_embedder");
    diti_load_embedder(loader, &model->text, config->text, 4 * config->text2, config->text2, "text_embedder");
    diti_load_vector(loader, &model->text_padding, config->text_tokens + config->text2_tokens, config->text,
                     "text_embedding_padding");
    diti_hunyuandit_load_pooler(loader, config, &model->pooler);
    if (config->sized) {
        diti_load_vector(loader, &model->style, diti_loader_dimension(loader, style, 0), width, style);
    }
    for (i = 0; i < config->blocks; i++) diti_hunyuandit_load_block(loader, config, &model->blocks[i], i);
    loader->names = config->original ? DITI_NAMES_ORIGINAL : DITI_NAMES_DIFFUSERS; /* either has another half first */
    diti_load_layer(loader, &model->norm_out, 2 * width, width, 1, "norm_out.linear");
    for (i = 0; i < 2; i++)
        diti_loader_alias(loader, &model->norm_out.weight, i * width, width, "norm_out.linear", (1 - i) * width,
                          2 * width, DITI_NAMES_ALL - loader->names);
    loader->names = 0;
    diti_load_layer(loader, &model->proj_out, config->out_channels * area, width, 1, "proj_out");
    diti_make_output(&model->last, DITI_STREAMS_ONE, &model->proj_out);
}

#define DITI_HUNYUANDIT_SCHEDULER(beta_end)                                                                            \
    "{\"_class_name\":\"DDPMScheduler\",\"prediction_type\":\"v_prediction\",\"beta_schedule\":\"scaled_linear\","     \
    "\"beta_start\":0.00085,\"beta_end\":" beta_end ",\"steps_offset\":1,\"clip_sample\":false}"

static void diti_hunyuandit_set_traits(diti_hunyuandit *model) {
    const diti_hunyuandit_config *config = &model->config;
    diti_model_traits *traits = &model->base.traits;
    traits->variant = config->sized ? "1.1" : "1.2";
    diti_traits_sizes(traits, config->blocks, config->width, config->heads, config->channels, config->patch);
    traits->feed = config->inner;
    traits->out_channels = config->out_channels;
    traits->default_size = config->sample_size;
    traits->text_tokens = config->text_tokens;
    traits->text_columns = config->text;
    traits->text2_tokens = config->text2_tokens;
    traits->text2_columns = config->text2;
    traits->encoders[0] = DITI_ENCODER_BERT;
    traits->encoders[1] = DITI_ENCODER_MT5;
    traits->default_steps = config->original ? 100 : 50;
    traits->default_guidance = config->original ? 6.0f : 5.0f;
    traits->scheduler = config->sized ? DITI_HUNYUANDIT_SCHEDULER("0.03") : DITI_HUNYUANDIT_SCHEDULER("0.018");
    traits->attends_padding = true;
    traits->masks_padding = true;
    traits->skips = true;
}

static void diti_hunyuandit_load(diti_component *component, diti_loader *loader) {
    diti_hunyuandit *model = (diti_hunyuandit *)(void *)component;
    model->blocks =
        (diti_hunyuandit_block *)diti_component_array(component, loader, model->config.blocks, sizeof *model->blocks);
    if (!model->blocks) return;
    diti_hunyuandit_load_weights(loader, model);
    diti_hunyuandit_set_traits(model);
}

/* ---- positions (docs/models.md 3.5): a grid of 512 pixels, into which that of the picture is fitted and centred ----
 */

/* Half a head turns with x, the other half with y: columns [0, head_dim / 4) and behind, of rows [tokens, head_dim /
 * 2]. */
static void diti_hunyuandit_place(const diti_transformer *transformer, const diti_step_desc *step, uint32_t prompt,
                                  float *cosines, float *sines) {
    const diti_hunyuandit_config *config = &diti_hunyuandit_of(transformer)->config;
    uint32_t token, k, quarter = config->head_dim / 4, patch = config->patch;
    diti_grid_axis y, x;
    (void)prompt;
    diti_grid_fit(64.0 / patch, 64.0 / patch, step->height / patch, step->width / patch, &y, &x);
    for (token = 0; token < y.count * x.count; token++) {
        float at_x = diti_grid_place(&x, token % x.count, config->linspace),
              at_y = diti_grid_place(&y, token / x.count, config->linspace);
        size_t row = (size_t)token * 2 * quarter;
        for (k = 0; k < 2 * quarter; k++) {
            float frequency = 1.0f / powf(10000.0f, (float)(2 * (k % quarter)) / (float)(2 * quarter));
            float angle = (k < quarter ? at_x : at_y) * frequency;
            cosines[row + k] = cosf(angle);
            sines[row + k] = sinf(angle);
        }
    }
}

/* ---- once per picture: everything that does not depend on the latent ---- */

typedef struct diti_hunyuandit_state { /* prepare leaves these for the steps */
    diti_tensor sinusoids;             /* input F32 [steps * prompts, 256] */
    diti_tensor sizes;                 /* input F32 [6, 256]; 0: the model has none */
    diti_rotation rotation;            /* [tokens, head_dim / 2] */
    diti_tensor text_rows;             /* input U32 [1, prompts * texts]: see diti_hunyuandit_context */
    diti_adaln adaln;                  /* rows of the blocks, then of the final layer; an item for each prompt */
    diti_tensor text[DITI_HUNYUANDIT_MAX_BLOCKS]; /* [prompts * texts, 2D]: k, normed, and v of the cross attention */
} diti_hunyuandit_state;

#define diti_hunyuandit_state_of(step) ((diti_hunyuandit_state *)(step)->family)

/* Tokens of both encoders in one row: what a prompt is to the blocks. */
static uint32_t diti_hunyuandit_texts(const diti_hunyuandit_config *config) {
    return config->text_tokens + config->text2_tokens;
}

/* BERT's rows, then mT5's projected ones, of every prompt; where a prompt has no token, the learned row of that place:
   F32 [prompts * texts, text]. text_rows tells for each of them a row of the learned ones, BERT's and mT5's in a row.
 */
static diti_tensor diti_hunyuandit_context(const diti_hunyuandit *model, diti_graph *graph, const diti_step_desc *step,
                                           diti_tensor text_rows) {
    const diti_hunyuandit_config *config = &model->config;
    uint32_t prompts = step->text_batch, texts = diti_hunyuandit_texts(config), columns = config->text;
    uint32_t rows = prompts * config->text_tokens, rows2 = prompts * config->text2_tokens;
    diti_tensor all = diti_tensor_new(graph, DITI_F32, texts + rows + rows2, columns, "texts");
    diti_add_rows(graph, diti_tensor_weight(graph, &model->text_padding, 0), 0,
                  diti_tensor_view(graph, all, 0, texts, 0, columns), "text_padding");
    diti_add_rows(graph, diti_tensor_view(graph, step->text, 0, rows, 0, columns), 0,
                  diti_tensor_view(graph, all, texts, rows, 0, columns), "text");
    diti_embed(graph, &model->text, diti_tensor_view(graph, step->text2, 0, rows2, 0, config->text2),
               diti_tensor_view(graph, all, texts + rows, rows2, 0, columns));
    return diti_gather_tensor(graph, all, text_rows, "context");
}

/* Attention over equal batches; kv: keys and values side by side, or what is both. */
static diti_tensor diti_hunyuandit_attend(diti_graph *graph, diti_tensor q, diti_tensor kv,
                                          const diti_attention_desc *desc) {
    uint32_t width = desc->heads * desc->head_dim;
    uint32_t rows = diti_tensor_rows(graph, kv);
    bool both = !diti_graph_failed(graph) && diti_tensor_get(graph, kv)->columns == 2 * width;
    return diti_attention(graph, q, diti_tensor_view(graph, kv, 0, rows, 0, width),
                          diti_tensor_view(graph, kv, 0, rows, both ? width : 0, width), desc);
}

/* Attention pooling of mT5's rows, padding included: the mean asks, the mean and the rows answer. [prompts, pooled] */
static diti_tensor diti_hunyuandit_pool(const diti_hunyuandit *model, diti_graph *graph, const diti_step_desc *step) {
    const diti_hunyuandit_config *config = &model->config;
    const diti_hunyuandit_pooler *pooler = &model->pooler;
    uint32_t i, prompts = step->text_batch, tokens = config->text2_tokens, columns = config->text2;
    diti_attention_desc desc = DITI_ZERO;
    diti_tensor text = diti_tensor_view(graph, step->text2, 0, prompts * tokens, 0, columns);
    diti_tensor positions = diti_tensor_weight(graph, &pooler->positions, 0);
    diti_tensor rows = diti_tensor_new(graph, DITI_F32, prompts * (tokens + 1), columns, "pooler_rows"), mean, kv, q;
    diti_linear_desc fused = DITI_ZERO;
    desc.batch = prompts;
    desc.heads = DITI_HUNYUANDIT_POOL_HEADS;
    desc.head_dim = columns / DITI_HUNYUANDIT_POOL_HEADS;
    desc.name = "text_mean"; /* scale 0 makes every score 0, so that attention is the mean */
    mean = diti_hunyuandit_attend(graph, diti_tensor_view(graph, text, 0, prompts, 0, columns), text, &desc);
    mean = diti_add_rows(graph, mean, diti_tensor_view(graph, positions, 0, 1, 0, columns), 0, "text_mean");
    for (i = 0; i < prompts && !diti_graph_failed(graph); i++) {
        uint32_t first = i * (tokens + 1);
        diti_add_rows(graph, diti_tensor_view(graph, mean, i, 1, 0, columns), 0,
                      diti_tensor_view(graph, rows, first, 1, 0, columns), "pooler_rows");
        diti_add_rows(graph, diti_tensor_view(graph, text, i * tokens, tokens, 0, columns),
                      diti_tensor_view(graph, positions, 1, tokens, 0, columns),
                      diti_tensor_view(graph, rows, first + 1, tokens, 0, columns), "pooler_rows");
    }
    fused.name = "pooler_kv";
    q = diti_layer_run(graph, mean, &pooler->q, DITI_ACTIVATION_NONE, "pooler_q");
    kv = diti_linear_fused(graph, rows, &pooler->kv, &fused);
    desc.scale = 1.0f / sqrtf((float)desc.head_dim);
    desc.name = "pooler";
    q = diti_hunyuandit_attend(graph, q, kv, &desc);
    return diti_layer_f32(graph, q, &pooler->out, DITI_ACTIVATION_NONE, 0, "pooler_out");
}

/* docs/models.md 3.5 step 4: pooled text, sizes and style, embedded: F32 [prompts, D]. */
static diti_tensor diti_hunyuandit_extra(const diti_hunyuandit *model, diti_graph *graph, diti_tensor sizes,
                                         diti_tensor pooled) {
    const diti_hunyuandit_config *config = &model->config;
    uint32_t i, width = config->width, prompts = diti_tensor_rows(graph, pooled);
    diti_tensor all, style;
    if (!sizes) return diti_embed(graph, &model->extra, pooled, 0);
    all = diti_tensor_new(graph, DITI_F32, prompts, diti_hunyuandit_extra_columns(config), "extra");
    diti_add_rows(graph, pooled, 0, diti_tensor_view(graph, all, 0, prompts, 0, config->pooled), "extra");
    sizes = diti_tensor_reshape(graph, sizes, 1, 6 * 256);
    style = diti_tensor_view(graph, diti_tensor_weight(graph, &model->style, 0), 0, 1, 0, width);
    for (i = 0; i < prompts; i++) {
        diti_add_rows(graph, sizes, 0, diti_tensor_view(graph, all, i, 1, config->pooled, 6 * 256), "extra");
        diti_add_rows(graph, style, 0, diti_tensor_view(graph, all, i, 1, config->pooled + 6 * 256, width), "extra");
    }
    return diti_embed(graph, &model->extra, all, 0);
}

/* LayerNorm of each head of q or k, in place, then rotation where the pass has one. */
static void diti_hunyuandit_heads(const diti_pass *p, diti_tensor x, const diti_layer *norm, const char *name) {
    diti_qkv_desc desc = DITI_ZERO;
    uint32_t columns = diti_graph_failed(p->graph) ? 0 : diti_tensor_get(p->graph, x)->columns;
    uint32_t head_dim = diti_hunyuandit_of(p->model)->config.head_dim;
    desc.heads = columns / head_dim;
    desc.head_dim = head_dim;
    desc.norm = DITI_QKV_LAYER;
    desc.eps = 1e-6f;
    desc.weight = &norm->weight;
    desc.bias = &norm->bias;
    desc.cosines = p->cosines;
    desc.sines = p->sines;
    desc.tokens = p->cosines && !diti_graph_failed(p->graph) ? diti_tensor_get(p->graph, p->cosines)->rows : 0;
    desc.name = name;
    diti_qk_norm_rope(p->graph, x, &desc);
}

/* Queries or keys of the block at hand: their norm, and their rotation. */
static void diti_hunyuandit_self_heads(const diti_pass *p, diti_tensor x, uint32_t kind) {
    const diti_hunyuandit_block *w = &diti_hunyuandit_of(p->model)->blocks[p->index];
    diti_hunyuandit_heads(p, x, kind ? &w->self.norm_k : &w->self.norm_q, kind ? "k" : "q");
}

/* Keys, normed, and values of every block's cross attention. */
static void diti_hunyuandit_project_text(diti_pass *p, diti_tensor context, diti_hunyuandit_state *state) {
    const diti_hunyuandit *model = diti_hunyuandit_of(p->model);
    uint32_t i, end, rows = diti_graph_failed(p->graph) ? 0 : diti_tensor_get(p->graph, context)->rows;
    diti_axes_blocks(p->step->axes, model->config.blocks, &i, &end);
    for (; i < end && !diti_graph_failed(p->graph); i++) {
        const diti_hunyuandit_block *w = &model->blocks[i];
        diti_tensor keys;
        diti_pass_enter(p, i);
        state->text[i] = diti_sublayer_fused(p, context, &w->text_kv, 2, &w->text, "text_kv");
        keys = diti_tensor_view(p->graph, state->text[i], 0, rows, 0, diti_column_shard_of(p, &w->text).count);
        diti_hunyuandit_heads(p, keys, &w->cross.norm_k, "text_k");
    }
    diti_graph_scope(p->graph, NULL, 0);
}

static void diti_hunyuandit_prepare(diti_pass *p) {
    const diti_hunyuandit *model = diti_hunyuandit_of(p->model);
    const diti_hunyuandit_config *config = &model->config;
    const diti_step_desc *step = p->step;
    diti_graph *graph = p->graph;
    uint32_t patch = config->patch, tokens = step->height / patch * (step->width / patch), i, end;
    uint32_t prompts = step->text_batch;
    diti_hunyuandit_state *state = diti_hunyuandit_state_of(step);
    diti_tensor c;
    state->sinusoids = diti_tensor_input(graph, DITI_F32, step->steps * prompts, 256, "timesteps");
    if (config->sized) state->sizes = diti_tensor_input(graph, DITI_F32, 6, 256, "sizes");
    diti_rotation_prepare(graph, &state->rotation, tokens, config->head_dim / 2);
    state->text_rows = diti_tensor_input(graph, DITI_U32, 1, prompts * diti_hunyuandit_texts(config), "text_rows");
    c = diti_hunyuandit_extra(model, graph, state->sizes, diti_hunyuandit_pool(model, graph, step));
    c = diti_add_rows(graph, diti_embed(graph, &model->time, state->sinusoids, 0), c, 0, "add_extra");
    diti_axes_blocks(step->axes, config->blocks, &i, &end);
    for (state->adaln.first = i; i < end; i++) diti_adaln_add(&state->adaln, &model->blocks[i].shift);
    diti_adaln_add(&state->adaln, &model->norm_out);
    diti_adaln_prepare(p, &state->adaln, c);
    diti_hunyuandit_project_text(p, diti_hunyuandit_context(model, graph, step, state->text_rows), state);
}

/* For `tokens` places of a prompt from `place` on: rows from `first` on where it has tokens, else the learned ones. */
static void diti_hunyuandit_fill_rows(uint32_t *rows, uint32_t place, uint32_t tokens, uint32_t length,
                                      uint32_t first) {
    uint32_t i;
    for (i = 0; i < tokens; i++) rows[place + i] = i < length ? first + i : place + i;
}

static dit_result diti_hunyuandit_write_text_rows(const diti_hunyuandit *model, diti_plan *plan,
                                                  const diti_step_desc *step, diti_tensor text_rows, dit_error *err) {
    const diti_hunyuandit_config *config = &model->config;
    uint32_t prompts = step->text_batch, texts = diti_hunyuandit_texts(config), i;
    uint32_t *rows = (uint32_t *)diti_alloc_array(&model->base.component.env, (size_t)prompts * texts, sizeof *rows);
    dit_result result;
    if (!rows) return diti_fail_memory(err, "the text's rows");
    for (i = 0; i < prompts; i++) {
        uint32_t own = step->text_lengths ? step->text_lengths[i] : config->text_tokens,
                 own2 = step->text2_lengths ? step->text2_lengths[i] : config->text2_tokens;
        diti_hunyuandit_fill_rows(rows + (size_t)i * texts, 0, config->text_tokens, own,
                                  texts + i * config->text_tokens);
        diti_hunyuandit_fill_rows(rows + (size_t)i * texts, config->text_tokens, config->text2_tokens, own2,
                                  texts + prompts * config->text_tokens + i * config->text2_tokens);
    }
    result = diti_plan_write(plan, text_rows, rows, (size_t)prompts * texts * sizeof *rows, err);
    diti_free(&model->base.component.env, rows);
    return result;
}

static dit_result diti_hunyuandit_write_inputs(const diti_transformer *transformer, diti_plan *plan,
                                               const diti_step_desc *step, const float *timesteps, dit_error *err) {
    const diti_hunyuandit *model = diti_hunyuandit_of(transformer);
    const diti_hunyuandit_state *state = (const diti_hunyuandit_state *)step->family;
    /* Height and width of the original and of the target, top and left of the crop: the original is the training's. */
    float sizes[6] = {1024, 1024, 0, 0, 0, 0};
    DITI_TRY(diti_write_places(transformer, plan, step, state->rotation.cosines, state->rotation.sines, 1,
                               diti_hunyuandit_place, err));
    DITI_TRY(diti_hunyuandit_write_text_rows(model, plan, step, state->text_rows, err));
    DITI_TRY(diti_adaln_write(plan, state->sinusoids, step, timesteps, 0, err));
    if (!state->sizes) return DIT_OK;
    sizes[2] = (float)step->pixels[0];
    sizes[3] = (float)step->pixels[1];
    return diti_write_sinusoids(plan, state->sizes, step->micro ? step->micro : sizes, 6, 0, err);
}

/* ---- one evaluation ---- */

static void diti_hunyuandit_begin(diti_pass *p) {
    diti_hunyuandit_state *state = diti_hunyuandit_state_of(p->step);
    diti_rotation_begin(p, &state->rotation);
    diti_adaln_select(p, &state->adaln);
}

static diti_tensor diti_hunyuandit_embed(diti_pass *p) {
    return diti_patch_embed(p, 0, &diti_hunyuandit_of(p->model)->patch, 0);
}

/* LN(x) * weight + bias, plus shift (0: none). */
static diti_tensor diti_hunyuandit_norm(const diti_pass *p, diti_tensor x, const diti_layer *norm, diti_tensor shift,
                                        const diti_sublayer *sublayer) {
    diti_norm_desc desc = DITI_ZERO;
    desc.weight = &norm->weight;
    desc.bias = &norm->bias;
    desc.shift = shift;
    desc.rows_per_group = p->items / p->prompts * p->image;
    return diti_sublayer_norm(p, x, &desc, sublayer);
}

/* Pictures that share a prompt are queries of one attention. Only k of the text is normed, and nothing of it rotated.
 */
static diti_tensor diti_hunyuandit_text_attention(const diti_pass *p, const diti_hunyuandit_block *w, diti_tensor h) {
    diti_attention_desc desc = DITI_ZERO;
    diti_tensor q = diti_sublayer_in(p, h, &w->text, 0);
    diti_hunyuandit_heads(p, q, &w->cross.norm_q, "text_q");
    desc.batch = p->prompts;
    desc.head_dim = w->text.head_dim;
    desc.heads = diti_column_shard_of(p, &w->text).count / desc.head_dim;
    desc.scale = 1.0f / sqrtf((float)desc.head_dim);
    desc.name = "text_attention";
    return diti_hunyuandit_attend(p->graph, q, diti_pass_last(p, diti_hunyuandit_state_of(p->step)->text[p->index]),
                                  &desc);
}

/* skip_linear(LN(x, skip)): the new residual stream, F32 [items * rows, D]. */
static diti_tensor diti_hunyuandit_join(const diti_pass *p, const diti_hunyuandit_block *w, diti_tensor x,
                                        diti_tensor skip) {
    uint32_t width = p->width, rows = diti_graph_failed(p->graph) ? 0 : diti_tensor_get(p->graph, x)->rows;
    diti_tensor both = diti_tensor_new(p->graph, DITI_F32, rows, 2 * width, "skip");
    diti_add_rows(p->graph, x, 0, diti_tensor_view(p->graph, both, 0, rows, 0, width), "skip");
    diti_add_rows(p->graph, skip, 0, diti_tensor_view(p->graph, both, 0, rows, width, width), "skip");
    both = diti_hunyuandit_norm(p, both, &w->skip_norm, 0, &w->join);
    return diti_layer_spread(p->graph, diti_pass_tensor(p), both, &w->skip, 0, "residual");
}

/* HunYuanDiTBlock.forward, docs/models.md 3.5 step 5: x F32 [items * rows, D] is changed in place, or replaced where a
   skip joins it. Nothing is gated. */
static diti_tensor diti_hunyuandit_run_block(diti_pass *p, diti_tensor x) {
    const diti_hunyuandit *model = diti_hunyuandit_of(p->model);
    const diti_hunyuandit_block *w = &model->blocks[p->index];
    const diti_hunyuandit_state *state = diti_hunyuandit_state_of(p->step);
    diti_tensor shift = diti_pass_last(p, diti_adaln_get(p->graph, &state->adaln, p->index)), h;
    diti_rotation_apply(p, &state->rotation);
    if (diti_hunyuandit_takes_skip(&model->config, p->index)) x = diti_hunyuandit_join(p, w, x, diti_skip_take(p));
    h = diti_hunyuandit_norm(p, x, &w->norm1, shift, &w->attention);
    diti_sublayer_add(p, x, DITI_NO_GATE, &w->attention, diti_sublayer_attend(p, h, &w->attention, 0));
    h = diti_hunyuandit_norm(p, x, &w->norm2, 0, &w->text);
    diti_sublayer_add(p, x, DITI_NO_GATE, &w->text, diti_hunyuandit_text_attention(p, w, h));
    h = diti_hunyuandit_norm(p, x, &w->norm3, 0, &w->feed);
    diti_sublayer_add(p, x, DITI_NO_GATE, &w->feed, diti_sublayer_in(p, h, &w->feed, 0));
    if (diti_hunyuandit_leaves_skip(&model->config, p->index)) diti_skip_leave(p, x);
    return x;
}

/* The original's last layer has the shift's rows first, diffusers' the scale's. */
static diti_tensor diti_hunyuandit_final(diti_pass *p, diti_tensor x) {
    const diti_hunyuandit *model = diti_hunyuandit_of(p->model);
    const diti_sublayer *last = &model->last;
    bool original = model->config.original;
    p->modulation.rows = diti_pass_last(p, diti_adaln_last(p->graph, &diti_hunyuandit_state_of(p->step)->adaln));
    x = diti_modulate(p, x, original ? DITI_SHIFT : DITI_SCALE, original ? DITI_SCALE : DITI_SHIFT, last);
    return diti_output(p, x, last);
}

/* ---- where parts of such models are ---- */

#define DITI_HUNYUANDIT_REPOSITORY "Tencent-Hunyuan/HunyuanDiT-v1.2-Diffusers"
static const diti_place diti_hunyuandit_places[] = {
    {"", DIT_ROLE_TEXT_1, DITI_HUNYUANDIT_REPOSITORY ": text_encoder/"},
    {"", DIT_ROLE_TEXT_2, DITI_HUNYUANDIT_REPOSITORY ": text_encoder_2/"},
    {"", DIT_ROLE_TOKENIZER_1, DITI_HUNYUANDIT_REPOSITORY ": tokenizer/"},
    {"", DIT_ROLE_TOKENIZER_2, DITI_HUNYUANDIT_REPOSITORY ": tokenizer_2/"},
    {"", DIT_ROLE_VAE, DITI_HUNYUANDIT_REPOSITORY ": vae/"},
    {"", DIT_ROLE_SCHEDULER, DITI_HUNYUANDIT_REPOSITORY ": scheduler/"},
    {NULL, DIT_ROLE_NONE, NULL},
};

DIT_INTERNAL const diti_family *diti_hunyuandit_family(void) {
    static const diti_family family = {
        "hunyuandit",
        "HunyuanDiT",
        {"HunyuanDiT2DModel",
         NULL,
         {"text_embedding_padding", "blocks.0.attn2.norm_q.weight", NULL, NULL},
         {"mlp_t5.0.weight", "blocks.0.default_modulation.1.weight", NULL, NULL},
         {NULL, NULL}},
        {"transformer", "transformer", sizeof(diti_hunyuandit), diti_hunyuandit_read, diti_hunyuandit_load, NULL},
        diti_hunyuandit_names,
        {4, 0.13025f, 0, false},
        NULL,
        NULL,
        diti_hunyuandit_places,
        sizeof(diti_hunyuandit_state),
        diti_hunyuandit_prepare,
        diti_hunyuandit_begin,
        diti_hunyuandit_embed,
        diti_hunyuandit_run_block,
        diti_hunyuandit_final,
        diti_hunyuandit_write_inputs};
    return &family;
}
