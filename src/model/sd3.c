/* Stable Diffusion 3 and 3.5: docs/models.md 3.3. Originals:
   https://github.com/Stability-AI/sd3-ref/blob/master/mmdit.py and
   https://github.com/Stability-AI/sd3.5/blob/main/mmditx.py

   Every block has weights of its own for text and image, which attend each other; in some blocks of 3.5-medium the
   image attends itself as well. The last block leaves the text as it is. A control net (docs/models.md 3.3.1) is a
   smaller model whose blocks add to those of another; none of them leaves the text. */
#include "model/model.h"

#define DITI_SD3_MAX_BLOCKS 64u

/* ---- configuration ---- */

typedef struct diti_sd3_config {
    uint32_t blocks, heads, head_dim, width; /* width: D */
    uint32_t channels, patch;
    uint32_t text, pooled; /* columns of the text encoders' outputs */
    uint32_t table;        /* the position table is [table * table, D] */
    uint32_t sample_size;  /* latent size of the training */
    uint64_t dual;         /* bit i: block i has a second attention */
    bool normed;           /* queries and keys are */
    bool control;          /* the file is a control net's */
    bool zero_pooled;      /* a control net's pooled text is zeros, and its picture's latent is not shifted */
} diti_sd3_config;

/* ---- key table: names asked for here are diffusers'; the original code base calls them so ---- */

static const char *const diti_sd3_keys[][2] = {
    {"pos_embed.pos_embed", "pos_embed"},
    {"pos_embed.proj", "x_embedder.proj"},
    {"time_text_embed.timestep_embedder.linear_1", "t_embedder.mlp.0"},
    {"time_text_embed.timestep_embedder.linear_2", "t_embedder.mlp.2"},
    {"time_text_embed.text_embedder.linear_1", "y_embedder.mlp.0"},
    {"time_text_embed.text_embedder.linear_2", "y_embedder.mlp.2"},
    {"context_embedder", "context_embedder"},
    {"norm_out.linear", "final_layer.adaLN_modulation.1"}, /* halves swapped */
    {"proj_out", "final_layer.linear"},
};
static const char *const diti_sd3_block_keys[][2] = {
    {"norm1.linear", "x_block.adaLN_modulation.1"},
    {"norm1_context.linear", "context_block.adaLN_modulation.1"}, /* the last block, whose halves are swapped */
    {"attn.qkv", "x_block.attn.qkv"},                             /* rows q, k, v; three matrices in diffusers */
    {"attn.added_qkv", "context_block.attn.qkv"},
    {"attn.norm_q", "x_block.attn.ln_q"},
    {"attn.norm_k", "x_block.attn.ln_k"},
    {"attn.norm_added_q", "context_block.attn.ln_q"},
    {"attn.norm_added_k", "context_block.attn.ln_k"},
    {"attn.to_out.0", "x_block.attn.proj"},
    {"attn.to_add_out", "context_block.attn.proj"},
    {"attn2.qkv", "x_block.attn2.qkv"},
    {"attn2.norm_q", "x_block.attn2.ln_q"},
    {"attn2.norm_k", "x_block.attn2.ln_k"},
    {"attn2.to_out.0", "x_block.attn2.proj"},
    {"ff.net.0.proj", "x_block.mlp.fc1"},
    {"ff.net.2", "x_block.mlp.fc2"},
    {"ff_context.net.0.proj", "context_block.mlp.fc1"},
    {"ff_context.net.2", "context_block.mlp.fc2"},
};

static const diti_key_table diti_sd3_names[DITI_KEY_TABLES] = {
    {"transformer_blocks.", "joint_blocks.", diti_sd3_block_keys, DITI_COUNT(diti_sd3_block_keys)},
    {NULL, NULL, diti_sd3_keys, DITI_COUNT(diti_sd3_keys)},
    {NULL, NULL, NULL, 0},
};

/* ---- weights ---- */

typedef struct diti_sd3_block {
    diti_fused_linear_pair
        modulation;              /* [6D, D], of the image in dual blocks [9D, D], of text in the last block [2D, D] */
    diti_fused_linear_pair qkv;  /* [3D, D] */
    diti_weight norms;           /* F32 [4, head_dim]: text's q and k, the image's */
    diti_pair out;               /* [D, D] */
    diti_fused_linear image_qkv; /* [3D, D], of dual blocks */
    diti_weight image_norms;     /* F32 [2, head_dim] */
    diti_layer image_out;        /* [D, D] */
    diti_pair ff_in;             /* [4D, D] */
    diti_pair ff_out;            /* [D, 4D] */
    diti_sublayer attention, image, feed;
} diti_sd3_block;

typedef struct diti_sd3 {
    diti_transformer base;
    diti_sd3_config config;
    diti_layer patch, text;     /* [D, C * p * p], [D, text] */
    diti_weight positions;      /* [table * table, D] */
    diti_embedder time, pooled; /* [D, 256 or pooled], [D, D] */
    diti_sd3_block *blocks;
    diti_fused_linear final_modulation; /* [2D, D]: shift, scale */
    diti_layer proj_out;                /* [p * p * C, D] */
    diti_sublayer last;
    diti_layer control;  /* a control net's [D, C * p * p] */
    diti_layer *outlets; /* a control net's, one [D, D] behind each block */
} diti_sd3;

#define diti_sd3_of(transformer) ((const diti_sd3 *)(const void *)(transformer))

/* ---- reading the configuration: what config.json does not say comes from shapes ---- */

static void diti_sd3_read_dual(diti_loader *loader, diti_sd3_config *config) {
    uint32_t i;
    for (i = 0; i < config->blocks && i < DITI_SD3_MAX_BLOCKS; i++) {
        diti_loader_scope(loader, "transformer_blocks.%u.", (unsigned)i);
        if (diti_loader_find(loader, "attn2.to_out.0.weight")) config->dual |= (uint64_t)1 << i;
    }
    diti_loader_scope_end(loader);
}

static void diti_sd3_read_shapes(diti_loader *loader, diti_sd3_config *config) {
    static const diti_shape_key keys[] = {
        {offsetof(diti_sd3_config, width), "pos_embed.proj.weight", 0},
        {offsetof(diti_sd3_config, channels), "pos_embed.proj.weight", 1},
        {offsetof(diti_sd3_config, patch), "pos_embed.proj.weight", 2},
        {offsetof(diti_sd3_config, text), "context_embedder.weight", 1},
        {offsetof(diti_sd3_config, pooled), "time_text_embed.text_embedder.linear_1.weight", 1},
        {offsetof(diti_sd3_config, head_dim), "transformer_blocks.0.attn.norm_q.weight", 0}};
    uint32_t positions = diti_loader_dimension(loader, "pos_embed.pos_embed", 1), out;
    diti_read_shapes(loader, config, keys, DITI_COUNT(keys));
    config->blocks = diti_loader_count(loader, "transformer_blocks.", ".norm1.linear.weight");
    config->table = (uint32_t)lround(sqrt((double)positions));
    if (config->table * config->table != positions) config->table = 0;
    config->normed = config->head_dim > 0;
    if (!config->normed) config->head_dim = 64; /* as published */
    config->control = diti_loader_find(loader, "pos_embed_input.proj.weight") != NULL;
    out = diti_loader_dimension(loader, "proj_out.weight", 0);
    if (!config->control && out != config->channels * config->patch * config->patch) config->channels = 0;
    diti_sd3_read_dual(loader, config);
}

/* Control nets that are made another way than those of docs/models.md 3.3.1. */
static dit_result diti_sd3_check_control(diti_loader *loader, const diti_sd3_config *config, dit_error *err) {
    uint32_t channels = diti_loader_dimension(loader, "pos_embed_input.proj.weight", 1);
    if (!config->control) return DIT_OK;
    if (!config->text || !config->channels)
        return diti_loader_refuse(
            loader, err,
            "a control net for SD3 without context_embedder and pos_embed, which reads no text (as those of "
            "SD3.5 large are), is not supported; use one that has both");
    if (channels == config->channels) return DIT_OK;
    return diti_loader_refuse(
        loader, err,
        "a control net for SD3 that reads a latent of %u channels and more (of %u in all: a mask) is not "
        "supported; use one that follows a picture",
        (unsigned)config->channels, (unsigned)channels);
}

static dit_result diti_sd3_check(const diti_loader *loader, const diti_sd3_config *config, dit_error *err) {
    static const diti_need needs[] = {
        {offsetof(diti_sd3_config, blocks), "blocks"},
        {offsetof(diti_sd3_config, text), "context_embedder"},
        {offsetof(diti_sd3_config, pooled), "text_embedder (y_embedder)"},
        {offsetof(diti_sd3_config, table), "a square position table (pos_embed)"},
        {offsetof(diti_sd3_config, width), "patch embedding (x_embedder) or a last layer as wide as its patches"},
        {offsetof(diti_sd3_config, channels), "patch embedding (x_embedder) or a last layer as wide as its patches"},
        {offsetof(diti_sd3_config, patch), "patch embedding (x_embedder) or a last layer as wide as its patches"}};
    DITI_TRY(diti_config_complete(loader, config, "SD3", needs, DITI_COUNT(needs), err));
    if ((uint64_t)config->heads * config->head_dim != config->width || config->head_dim > 256 || config->head_dim % 4 ||
        config->patch > 16 || config->channels > 1024 || config->table > 4096 || config->blocks > DITI_SD3_MAX_BLOCKS) {
        return diti_loader_refuse(
            loader, err,
            "an SD3 transformer of %u blocks, %u heads of %u in a width of %u, patches of %u in %u "
            "channels is out of range",
            (unsigned)config->blocks, (unsigned)config->heads, (unsigned)config->head_dim, (unsigned)config->width,
            (unsigned)config->patch, (unsigned)config->channels);
    }
    return DIT_OK;
}

static dit_result diti_sd3_read(diti_component *component, diti_loader *loader, const diti_json *json, dit_error *err) {
    static const char blocks[] = "transformer_blocks.", last[] = ".norm1.linear.weight";
    diti_sd3_config *config = &((diti_sd3 *)(void *)component)->config;
    diti_settings settings = diti_settings_of(json, "the transformer's config.json", err);
    uint32_t head_dim;
    diti_sd3_read_shapes(loader, config);
    DITI_TRY(diti_sd3_check_control(loader, config, err));
    config->zero_pooled = diti_setting_bool(&settings, "force_zeros_for_pooled_projection", true) && config->control;
    head_dim = diti_setting_size(&settings, "attention_head_dim", config->head_dim, 1024);
    config->sample_size = diti_setting_size(&settings, "sample_size", 128, 4096);
    if (config->blocks) config->blocks = diti_loader_layers(loader, &settings, "num_layers", blocks, last);
    DITI_TRY(settings.result);
    if (config->normed && head_dim != config->head_dim) {
        return diti_fail(err, DIT_ERROR_BAD_FILE, "config.json: attention_head_dim is %u, but the weights have %u",
                         (unsigned)head_dim, (unsigned)config->head_dim);
    }
    config->head_dim = head_dim;
    config->heads = config->width / head_dim;
    return diti_sd3_check(loader, config, err);
}

/* ---- loading ---- */

/* Modulation: six chunks, but nine of the image where it attends itself, and two of text in the last block. */
static void diti_sd3_load_modulation(diti_loader *loader, diti_fused_linear_pair *out, uint32_t width, bool dual,
                                     bool last) {
    static const char *const text[] = {"norm1_context.linear"}, *const image[] = {"norm1.linear"};
    diti_load_fused_linear(loader, &out->streams[DITI_JOINT_IMAGE], image, 1, (dual ? 9 : 6) * width, width, true);
    if (last)
        diti_load_shift_scale(loader, &out->streams[DITI_JOINT_TEXT], width, text[0], loader->rename == NULL, true);
    else
        diti_load_fused_linear(loader, &out->streams[DITI_JOINT_TEXT], text, 1, 6 * width, width, true);
}

static void diti_sd3_load_attention(diti_loader *loader, diti_sd3_block *block, const diti_sd3_config *config,
                                    bool last) {
    static const char *const norms[] = {"attn.norm_added_q.weight", "attn.norm_added_k.weight", "attn.norm_q.weight",
                                        "attn.norm_k.weight"};
    static const diti_fused qkv[DITI_JOINT_STREAMS] = {
        {"attn.added_qkv", {"attn.add_q_proj", "attn.add_k_proj", "attn.add_v_proj"}, 3},
        {"attn.qkv", {"attn.to_q", "attn.to_k", "attn.to_v"}, 3}};
    uint32_t width = config->width;
    diti_load_fused_pair(loader, &block->qkv, qkv, width, width);
    if (config->normed) diti_load_vectors(loader, &block->norms, norms, 4, config->head_dim);
    diti_load_pair(loader, &block->out, width, width, last ? NULL : "attn.to_add_out", "attn.to_out.0");
}

static void diti_sd3_load_image_attention(diti_loader *loader, diti_sd3_block *block, const diti_sd3_config *config) {
    static const char *const norms[] = {"attn2.norm_q.weight", "attn2.norm_k.weight"};
    static const diti_fused qkv = {"attn2.qkv", {"attn2.to_q", "attn2.to_k", "attn2.to_v"}, 3};
    uint32_t width = config->width;
    diti_load_fused(loader, &block->image_qkv, &qkv, width, width);
    if (config->normed) diti_load_vectors(loader, &block->image_norms, norms, 2, config->head_dim);
    diti_load_layer(loader, &block->image_out, width, width, 1, "attn2.to_out.0");
}

static bool diti_sd3_is_dual(const diti_sd3_config *config, uint32_t index) { return config->dual >> index & 1; }

/* In the last block the feed-forward is the image's alone. */
static void diti_sd3_pair_layers(diti_sd3_block *block, const diti_sd3_config *config, bool dual, bool last) {
    const diti_layer *in = block->ff_in.streams, *out = block->ff_out.streams;
    uint32_t width = config->width, head_dim = config->head_dim;
    diti_make_attention(&block->attention, DITI_STREAMS_TWO, block->qkv.streams, block->out.streams, width, head_dim);
    if (config->normed) block->attention.norms = &block->norms;
    if (last)
        diti_make_feed(&block->feed, DITI_STREAMS_IMAGE, &in[DITI_JOINT_IMAGE], &out[DITI_JOINT_IMAGE]);
    else
        diti_make_feed(&block->feed, DITI_STREAMS_TWO, in, out);
    if (!dual) return;
    diti_make_attention(&block->image, DITI_STREAMS_IMAGE, &block->image_qkv, &block->image_out, width, head_dim);
    if (config->normed) block->image.norms = &block->image_norms;
    block->image.norm_name = "image_norm";
    block->image.in_name = "image_qkv";
    block->image.out_name = "image_attention_out";
    diti_sublayers_share_heads(&block->attention, &block->image);
}

static void diti_sd3_load_block(diti_loader *loader, diti_sd3_block *block, const diti_sd3_config *config,
                                uint32_t index) {
    uint32_t width = config->width;
    bool last = index + 1 == config->blocks && !config->control, dual = diti_sd3_is_dual(config, index);
    memset(block, 0, sizeof *block);
    diti_loader_scope(loader, "transformer_blocks.%u.", (unsigned)index);
    diti_sd3_load_modulation(loader, &block->modulation, width, dual, last);
    diti_sd3_load_attention(loader, block, config, last);
    if (dual) diti_sd3_load_image_attention(loader, block, config);
    diti_load_pair(loader, &block->ff_in, 4 * width, width, last ? NULL : "ff_context.net.0.proj", "ff.net.0.proj");
    diti_load_pair(loader, &block->ff_out, width, 4 * width, last ? NULL : "ff_context.net.2", "ff.net.2");
    diti_loader_scope_end(loader);
    diti_sd3_pair_layers(block, config, dual, last);
}

static void diti_sd3_load_control(diti_loader *loader, diti_sd3 *model) {
    const diti_sd3_config *config = &model->config;
    uint32_t i, width = config->width, patch = config->patch;
    char name[32];
    diti_load_layer(loader, &model->control, width, config->channels * patch * patch, patch, "pos_embed_input.proj");
    model->control.weight.kernel = 1; /* used as a matrix on flattened patches */
    for (i = 0; i < config->blocks; i++) {
        diti_format(name, sizeof name, "controlnet_blocks.%u", (unsigned)i);
        diti_load_layer(loader, &model->outlets[i], width, width, 1, name);
    }
}

static void diti_sd3_load_weights(diti_loader *loader, diti_sd3 *model) {
    const diti_sd3_config *config = &model->config;
    uint32_t i, width = config->width, area = config->patch * config->patch;
    diti_load_table(loader, &model->positions, config->table * config->table, width, "pos_embed.pos_embed");
    diti_load_layer(loader, &model->patch, width, config->channels * area, config->patch, "pos_embed.proj");
    model->patch.weight.kernel = 1; /* used as a matrix on flattened patches */
    diti_load_embedder(loader, &model->time, width, width, 256, "time_text_embed.timestep_embedder");
    diti_load_embedder(loader, &model->pooled, width, width, config->pooled, "time_text_embed.text_embedder");
    diti_load_layer(loader, &model->text, width, config->text, 1, "context_embedder");
    for (i = 0; i < config->blocks; i++) diti_sd3_load_block(loader, &model->blocks[i], config, i);
    if (config->control) {
        diti_sd3_load_control(loader, model);
        return;
    }
    diti_load_shift_scale(loader, &model->final_modulation, width, "norm_out.linear", loader->rename == NULL, true);
    diti_load_layer(loader, &model->proj_out, config->channels * area, width, 1, "proj_out");
    diti_make_output(&model->last, DITI_STREAMS_IMAGE, &model->proj_out);
}

static void diti_sd3_set_traits(diti_sd3 *model) {
    const diti_sd3_config *config = &model->config;
    diti_model_traits *traits = &model->base.traits;
    traits->variant = config->dual ? "3.5-medium" : config->normed ? "3.5-large" : "3-medium";
    diti_traits_sizes(traits, config->blocks, config->width, config->heads, config->channels, config->patch);
    traits->skips_blocks = true;
    traits->default_size = config->sample_size;
    traits->text_tokens = 77 + 256; /* CLIP's, then T5's */
    traits->text_columns = config->text;
    traits->pooled_columns = config->pooled;
    traits->encoders[0] = DITI_ENCODER_CLIP_L;
    traits->encoders[1] = DITI_ENCODER_CLIP_G;
    traits->encoders[2] = DITI_ENCODER_T5;
    traits->lacks_encoders = true;
    traits->cache = "delta:first=1,blocks=0.834,from=0.358,interval=2+gate:0.715";
    traits->scheduler = "{\"_class_name\":\"FlowMatchEulerDiscreteScheduler\",\"shift\":3.0}";
    traits->default_steps = 28;
    traits->default_guidance = config->normed ? 4.5f : 7.0f;
    traits->attends_padding = true;
    traits->joint = true;
    traits->control_by = "pos_embed_input.proj.weight";
    traits->spreads_control = true;
    traits->unshifted_control = config->zero_pooled;
}

static void diti_sd3_load(diti_component *component, diti_loader *loader) {
    diti_sd3 *model = (diti_sd3 *)(void *)component;
    model->blocks =
        (diti_sd3_block *)diti_component_array(component, loader, model->config.blocks, sizeof *model->blocks);
    if (model->config.control)
        model->outlets =
            (diti_layer *)diti_component_array(component, loader, model->config.blocks, sizeof *model->outlets);
    if (!model->blocks || (model->config.control && !model->outlets)) return;
    diti_sd3_load_weights(loader, model);
    model->base.outlets = model->outlets;
    /* a table that others compute is counted by nobody */
    diti_loader_discount(loader, &model->positions, 0, (uint64_t)model->positions.rows * model->positions.columns);
    diti_sd3_set_traits(model);
}

/* ---- once per picture: everything that does not depend on the latent ---- */

typedef struct diti_sd3_state { /* prepare leaves these for the steps */
    diti_tensor sinusoids, ids; /* inputs F32 [steps, 256]; U32 [1, tokens]: rows of the position table */
    diti_tensor positions;      /* F32 [tokens, D]; a control net's have its picture added */
    diti_tensor text;           /* F32 [prompts * text tokens, D] */
    diti_joint_modulation modulation;
} diti_sd3_state;

#define diti_sd3_state_of(step) ((diti_sd3_state *)(step)->family)

static uint32_t diti_sd3_chunks(const diti_sd3_config *config, uint32_t index) {
    return diti_sd3_is_dual(config, index) ? 9 : 6;
}

/* F32 [rows, 2 * chunks * D], of the last norm [rows, 2D]. */
static diti_tensor diti_sd3_modulation(const diti_pass *p, diti_tensor active, uint32_t index) {
    const diti_sd3 *model = diti_sd3_of(p->model);
    if (index == model->config.blocks) return diti_shift_scale(p->graph, active, &model->final_modulation);
    return diti_joint_modulate(p, active, &model->blocks[index].modulation, diti_sd3_chunks(&model->config, index));
}

/* F32 [prompts, D]. */
static diti_tensor diti_sd3_pooled(const diti_pass *p) {
    const diti_sd3 *model = diti_sd3_of(p->model);
    diti_tensor pooled = p->step->pooled;
    if (model->config.zero_pooled) {
        pooled = diti_tensor_new(p->graph, DITI_F32, p->step->text_batch, model->config.pooled, "no pooled text");
        diti_fill_zeros(p->graph, pooled);
    }
    return diti_embed(p->graph, &model->pooled, pooled, 0);
}

static void diti_sd3_prepare(diti_pass *p) {
    const diti_sd3 *model = diti_sd3_of(p->model);
    const diti_sd3_config *config = &model->config;
    const diti_step_desc *step = p->step;
    diti_graph *graph = p->graph;
    uint32_t rows = step->height / config->patch, columns = step->width / config->patch, i, chunks = 2;
    diti_sd3_state *state = diti_sd3_state_of(step);
    diti_tensor text, time;
    if (rows > config->table || columns > config->table) {
        diti_graph_fail(
            graph, DIT_ERROR_UNSUPPORTED_MODEL,
            "the model has positions for %u x %u patches, the image would have %u x %u; ask for a smaller one",
            (unsigned)config->table, (unsigned)config->table, (unsigned)columns, (unsigned)rows);
        return;
    }
    state->sinusoids = diti_tensor_input(graph, DITI_F32, step->steps, 256, "timesteps");
    state->ids = diti_tensor_input(graph, DITI_U32, 1, rows * columns, "position ids");
    state->positions = diti_gather_rows(graph, &model->positions, state->ids, "positions");
    if (config->control) {
        diti_tensor picture =
            diti_layer_f32(graph, diti_control_patches(p), &model->control, DITI_ACTIVATION_NONE, 0, "control picture");
        state->positions = diti_add_rows(graph, picture, state->positions, 0, "positions");
    }
    time = diti_embed(graph, &model->time, state->sinusoids, 0);
    state->modulation.active = diti_joint_condition(graph, time, diti_sd3_pooled(p), step->text_batch);
    for (i = 0; i < config->blocks; i++) chunks += 2 * diti_sd3_chunks(config, i);
    diti_joint_prepare(p, &state->modulation, (uint64_t)chunks * config->width, diti_sd3_modulation);
    text = diti_tensor_view(graph, step->text, 0, step->text_batch * step->text_tokens, 0, config->text);
    state->text = diti_layer_f32(graph, text, &model->text, DITI_ACTIVATION_NONE, 0, "context");
}

/* The middle of the position table. */
static dit_result diti_sd3_write_ids(const diti_sd3 *model, diti_plan *plan, const diti_step_desc *step,
                                     diti_tensor ids, dit_error *err) {
    uint32_t rows = step->height / model->config.patch, columns = step->width / model->config.patch;
    uint32_t table = model->config.table, top = (table - rows) / 2, left = (table - columns) / 2, i;
    size_t count = (size_t)rows * columns;
    uint32_t *values = (uint32_t *)diti_alloc_array(&model->base.component.env, count, sizeof *values);
    dit_result result;
    if (!values) return diti_fail_memory(err, "the positions");
    for (i = 0; i < rows * columns; i++) values[i] = (top + i / columns) * table + left + i % columns;
    result = diti_plan_write(plan, ids, values, count * sizeof *values, err);
    diti_free(&model->base.component.env, values);
    return result;
}

static dit_result diti_sd3_write_inputs(const diti_transformer *transformer, diti_plan *plan,
                                        const diti_step_desc *step, const float *timesteps, dit_error *err) {
    const diti_sd3_state *state = (const diti_sd3_state *)step->family;
    dit_result result = diti_sd3_write_ids(diti_sd3_of(transformer), plan, step, state->ids, err);
    DITI_TRY(result);
    return diti_write_sinusoids(plan, state->sinusoids, timesteps, step->steps, 0, err);
}

/* ---- one evaluation ---- */

static void diti_sd3_begin(diti_pass *p) { diti_joint_begin(p, &diti_sd3_state_of(p->step)->modulation); }

static diti_tensor diti_sd3_embed(diti_pass *p) {
    const diti_sd3_state *state = diti_sd3_state_of(p->step);
    return diti_patch_embed(p, state->text, &diti_sd3_of(p->model)->patch, state->positions);
}

/* JointBlock.forward (JointTransformerBlock in diffusers), docs/models.md 3.3 step 4; x F32 [items * (text + image), D]
   is changed in place. In dual blocks the image attends itself as well; both attentions read the same x. */
static diti_tensor diti_sd3_run_block(diti_pass *p, diti_tensor x) {
    const diti_sd3 *model = diti_sd3_of(p->model);
    const diti_sd3_block *w = &model->blocks[p->index];
    bool dual = diti_sd3_is_dual(&model->config, p->index);
    diti_tensor h, image = 0;
    p->modulation.rows =
        diti_joint_modulation_rows(p, &diti_sd3_state_of(p->step)->modulation, p->index, diti_sd3_modulation);
    p->modulation.chunks = diti_sd3_chunks(&model->config, p->index);
    if (dual) image = diti_modulate(p, x, DITI_SHIFT_MSA2, DITI_SCALE_MSA2, &w->image);
    diti_block_attend(p, x, &w->attention);
    if (dual) {
        image = diti_sublayer_attend(p, image, &w->image, 0);
        diti_sublayer_add(p, x, DITI_GATE_MSA2, &w->image, image);
    }
    h = diti_modulate(p, x, DITI_SHIFT_MLP, DITI_SCALE_MLP, &w->feed);
    diti_sublayer_add(p, x, DITI_GATE_MLP, &w->feed, diti_sublayer_in(p, h, &w->feed, 0));
    return x;
}

static diti_tensor diti_sd3_final(diti_pass *p, diti_tensor x) {
    const diti_sd3 *model = diti_sd3_of(p->model);
    uint32_t layers = model->config.blocks;
    p->modulation.rows =
        diti_joint_modulation_rows(p, &diti_sd3_state_of(p->step)->modulation, layers, diti_sd3_modulation);
    return diti_output_modulated(p, x, &model->last);
}

/* ---- where parts of such models are ---- */

#define DITI_SD3_MEDIUM "stabilityai/stable-diffusion-3-medium-diffusers"
#define DITI_SD3_FILES "stabilityai/stable-diffusion-3-medium"
#define DITI_SD35_LARGE "stabilityai/stable-diffusion-3.5-large"
static const diti_place diti_sd3_places[] = {
    {"3-", DIT_ROLE_TEXT_1, DITI_SD3_FILES ": text_encoders/clip_l.safetensors"},
    {"3-", DIT_ROLE_TEXT_2, DITI_SD3_FILES ": text_encoders/clip_g.safetensors"},
    {"3-", DIT_ROLE_TEXT_3, DITI_SD3_FILES ": text_encoders/t5xxl_fp16.safetensors, or " DITI_T5_PLACE},
    {"3-", DIT_ROLE_VAE, DITI_SD3_MEDIUM ": vae/"},
    {"3-", DIT_ROLE_TOKENIZER_1, DITI_SD3_MEDIUM ": tokenizer/"},
    {"3-", DIT_ROLE_TOKENIZER_2, DITI_SD3_MEDIUM ": tokenizer_2/"},
    {"3-", DIT_ROLE_TOKENIZER_3, DITI_SD3_MEDIUM ": tokenizer_3/"},
    {"3-", DIT_ROLE_SCHEDULER, DITI_SD3_MEDIUM ": scheduler/"},
    {"", DIT_ROLE_TEXT_1, DITI_SD35_LARGE ": text_encoders/clip_l.safetensors"},
    {"", DIT_ROLE_TEXT_2, DITI_SD35_LARGE ": text_encoders/clip_g.safetensors"},
    {"", DIT_ROLE_TEXT_3, DITI_SD35_LARGE ": text_encoders/t5xxl_fp16.safetensors, or " DITI_T5_PLACE},
    {"", DIT_ROLE_VAE, DITI_SD35_LARGE ": vae/"},
    {"", DIT_ROLE_TOKENIZER_1, DITI_SD35_LARGE ": tokenizer/"},
    {"", DIT_ROLE_TOKENIZER_2, DITI_SD35_LARGE ": tokenizer_2/"},
    {"", DIT_ROLE_TOKENIZER_3, DITI_SD35_LARGE ": tokenizer_3/"},
    {"", DIT_ROLE_SCHEDULER, DITI_SD35_LARGE ": scheduler/"},
    {NULL, DIT_ROLE_NONE, NULL},
};

DIT_INTERNAL const diti_family *diti_sd3_family(void) {
    static const diti_family family = {
        "sd3",
        "SD3",
        {"SD3Transformer2DModel SD3ControlNetModel",
         NULL,
         {"pos_embed.pos_embed", "pos_embed.proj.weight", "transformer_blocks.0.norm1_context.linear.weight", NULL},
         {"x_embedder.proj.weight", "joint_blocks.0.x_block.attn.qkv.weight",
          "joint_blocks.0.context_block.adaLN_modulation.1.weight", NULL},
         {NULL, NULL}},
        {"transformer", "transformer", sizeof(diti_sd3), diti_sd3_read, diti_sd3_load, NULL},
        diti_sd3_names,
        {16, 1.5305f, 0.0609f, true},
        NULL,
        NULL,
        diti_sd3_places,
        sizeof(diti_sd3_state),
        diti_sd3_prepare,
        diti_sd3_begin,
        diti_sd3_embed,
        diti_sd3_run_block,
        diti_sd3_final,
        diti_sd3_write_inputs};
    return &family;
}
