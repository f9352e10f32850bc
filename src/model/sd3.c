#include "model/model.h"

/* Stable Diffusion 3 and 3.5 (docs/models.md 3.3): every block has weights of its own for text and image, which attend
   each other; in some blocks of 3.5-medium the image attends itself as well. The last block leaves the text as it is.
 */

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
    {"norm1_context.linear", "context_block.adaLN_modulation.1"}, /* of the last block: halves swapped */
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

static const char *diti_sd3_original_name(void *user, const char *name, char *out, size_t size) {
    const char *stored = diti_rename_block("transformer_blocks.", "joint_blocks.", diti_sd3_block_keys,
                                           DITI_COUNT(diti_sd3_block_keys), name, out, size);
    (void)user;
    return stored ? stored : diti_rename(diti_sd3_keys, DITI_COUNT(diti_sd3_keys), name, out, size);
}

/* ---- weights ---- */

typedef struct diti_sd3_block {
    diti_joined_pair modulation; /* [6D, D], of the image in dual blocks [9D, D], of text in the last block [2D, D] */
    diti_joined_pair qkv;        /* [3D, D] */
    diti_weight norms;           /* F32 [4, head_dim]: text's q and k, the image's */
    diti_pair out;               /* [D, D] */
    diti_joined image_qkv;       /* [3D, D], of dual blocks */
    diti_weight image_norms;     /* F32 [2, head_dim] */
    diti_layer image_out;        /* [D, D] */
    diti_pair ff_in;             /* [4D, D] */
    diti_pair ff_out;            /* [D, 4D] */
} diti_sd3_block;

typedef struct diti_sd3 {
    diti_transformer base;
    diti_sd3_config config;
    diti_layer patch, text;     /* [D, C * p * p], [D, text] */
    diti_weight positions;      /* [table * table, D] */
    diti_embedder time, pooled; /* [D, 256 or pooled], [D, D] */
    diti_sd3_block *blocks;
    diti_joined final_modulation; /* [2D, D]: shift, scale */
    diti_layer proj_out;          /* [p * p * C, D] */
    bool int8_attention;
} diti_sd3;

static const diti_sd3 *diti_sd3_of(const diti_transformer *transformer) {
    return (const diti_sd3 *)(const void *)transformer;
}

static bool diti_sd3_is_original(const diti_checkpoint *checkpoint, const char *prefix) {
    return diti_model_find(checkpoint, prefix, "x_embedder.proj.weight") &&
           diti_model_find(checkpoint, prefix, "joint_blocks.0.x_block.attn.qkv.weight") &&
           diti_model_find(checkpoint, prefix, "joint_blocks.0.context_block.adaLN_modulation.1.weight");
}

static bool diti_sd3_is_diffusers(const diti_checkpoint *checkpoint, const char *prefix) {
    return diti_model_find(checkpoint, prefix, "pos_embed.pos_embed") &&
           diti_model_find(checkpoint, prefix, "pos_embed.proj.weight") &&
           diti_model_find(checkpoint, prefix, "transformer_blocks.0.norm1_context.linear.weight");
}

static bool diti_sd3_recognise(const diti_json *config, const diti_checkpoint *checkpoint, const char *prefix) {
    const char *name = diti_json_string(config, "_class_name", "");
    if (name[0]) return diti_equal(name, "SD3Transformer2DModel");
    return diti_sd3_is_original(checkpoint, prefix) || diti_sd3_is_diffusers(checkpoint, prefix);
}

/* ---- reading the configuration: what config.json does not say comes from shapes ---- */

static void diti_sd3_read_dual(diti_loader *loader, diti_sd3_config *config) {
    uint32_t i;
    for (i = 0; i < config->blocks && i < DITI_SD3_MAX_BLOCKS; i++) {
        diti_loader_scope(loader, "transformer_blocks.%u.", (unsigned)i);
        if (diti_loader_find(loader, "attn2.to_out.0.weight")) config->dual |= (uint64_t)1 << i;
    }
    diti_loader_scope(loader, "%s", "");
}

static void diti_sd3_read_shapes(diti_loader *loader, diti_sd3_config *config) {
    uint32_t positions = diti_loader_dimension(loader, "pos_embed.pos_embed", 1), out;
    config->width = diti_loader_dimension(loader, "pos_embed.proj.weight", 0);
    config->channels = diti_loader_dimension(loader, "pos_embed.proj.weight", 1);
    config->patch = diti_loader_dimension(loader, "pos_embed.proj.weight", 2);
    config->text = diti_loader_dimension(loader, "context_embedder.weight", 1);
    config->pooled = diti_loader_dimension(loader, "time_text_embed.text_embedder.linear_1.weight", 1);
    config->blocks = diti_loader_count(loader, "transformer_blocks.", ".norm1.linear.weight");
    config->table = (uint32_t)lround(sqrt((double)positions));
    if (config->table * config->table != positions) config->table = 0;
    config->head_dim = diti_loader_dimension(loader, "transformer_blocks.0.attn.norm_q.weight", 0);
    config->normed = config->head_dim > 0;
    if (!config->normed) config->head_dim = 64; /* as published */
    out = diti_loader_dimension(loader, "proj_out.weight", 0);
    if (out != config->channels * config->patch * config->patch) config->channels = 0;
    diti_sd3_read_dual(loader, config);
}

static dit_result diti_sd3_check(const diti_loader *loader, const diti_sd3_config *config, dit_error *err) {
    const char *file = diti_checkpoint_name(loader->checkpoint);
    if (!config->blocks || !config->width || !config->channels || !config->patch || !config->text || !config->pooled ||
        !config->table) {
        return diti_fail(err, DIT_ERROR_UNSUPPORTED_MODEL, "%s: an SD3 transformer without %s: the file is incomplete",
                         file,
                         !config->blocks   ? "blocks"
                         : !config->text   ? "context_embedder"
                         : !config->pooled ? "text_embedder (y_embedder)"
                         : !config->table  ? "a square position table (pos_embed)"
                                           : "patch embedding (x_embedder) or a last layer as wide as its patches");
    }
    if ((uint64_t)config->heads * config->head_dim != config->width || config->head_dim > 256 || config->head_dim % 4 ||
        config->patch > 16 || config->channels > 1024 || config->table > 4096 || config->blocks > DITI_SD3_MAX_BLOCKS) {
        return diti_fail(err, DIT_ERROR_UNSUPPORTED_MODEL,
                         "%s: an SD3 transformer of %u blocks, %u heads of %u in a width of %u, patches of %u in %u "
                         "channels is out of range",
                         file, (unsigned)config->blocks, (unsigned)config->heads, (unsigned)config->head_dim,
                         (unsigned)config->width, (unsigned)config->patch, (unsigned)config->channels);
    }
    return DIT_OK;
}

static dit_result diti_sd3_read_config(diti_loader *loader, const diti_json *json, diti_sd3_config *config,
                                       dit_error *err) {
    static const char blocks[] = "transformer_blocks.", last[] = ".norm1.linear.weight";
    diti_settings settings = diti_settings_of(json, "the transformer's config.json", err);
    uint32_t head_dim;
    diti_sd3_read_shapes(loader, config);
    head_dim = diti_setting_size(&settings, "attention_head_dim", config->head_dim, 1024);
    config->sample_size = diti_setting_size(&settings, "sample_size", 128, 4096);
    if (config->blocks) config->blocks = diti_loader_layers(loader, &settings, "num_layers", blocks, last);
    if (settings.result != DIT_OK) return settings.result;
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
static void diti_sd3_load_modulation(diti_loader *loader, diti_joined_pair *out, uint32_t width, bool dual, bool last) {
    static const char *const text[] = {"norm1_context.linear"}, *const image[] = {"norm1.linear"};
    diti_load_joined(loader, &out->streams[DITI_JOINT_IMAGE], image, 1, (dual ? 9 : 6) * width, width, true);
    if (last)
        diti_load_shift_scale(loader, &out->streams[DITI_JOINT_TEXT], width, text[0], loader->rename == NULL);
    else
        diti_load_joined(loader, &out->streams[DITI_JOINT_TEXT], text, 1, 6 * width, width, true);
}

static void diti_sd3_load_attention(diti_loader *loader, diti_sd3_block *block, const diti_sd3_config *config,
                                    bool last) {
    static const char *const norms[] = {"attn.norm_added_q.weight", "attn.norm_added_k.weight", "attn.norm_q.weight",
                                        "attn.norm_k.weight"};
    static const char *const text[] = {"attn.add_q_proj", "attn.add_k_proj", "attn.add_v_proj"};
    static const char *const image[] = {"attn.to_q", "attn.to_k", "attn.to_v"};
    static const char *const fused_text[] = {"attn.added_qkv"}, *const fused_image[] = {"attn.qkv"};
    uint32_t width = config->width;
    if (loader->rename)
        diti_load_joined_pair(loader, &block->qkv, fused_text, fused_image, 1, 3 * width, width);
    else
        diti_load_joined_pair(loader, &block->qkv, text, image, 3, width, width);
    if (config->normed) diti_load_vectors(loader, &block->norms, norms, 4, config->head_dim);
    diti_load_pair(loader, &block->out, width, width, last ? NULL : "attn.to_add_out", "attn.to_out.0");
}

static void diti_sd3_load_image_attention(diti_loader *loader, diti_sd3_block *block, const diti_sd3_config *config) {
    static const char *const norms[] = {"attn2.norm_q.weight", "attn2.norm_k.weight"};
    static const char *const image[] = {"attn2.to_q", "attn2.to_k", "attn2.to_v"}, *const fused[] = {"attn2.qkv"};
    uint32_t width = config->width;
    if (loader->rename)
        diti_load_joined(loader, &block->image_qkv, fused, 1, 3 * width, width, true);
    else
        diti_load_joined(loader, &block->image_qkv, image, 3, width, width, true);
    if (config->normed) diti_load_vectors(loader, &block->image_norms, norms, 2, config->head_dim);
    diti_load_layer(loader, &block->image_out, width, width, 1, "attn2.to_out.0");
}

static bool diti_sd3_is_dual(const diti_sd3_config *config, uint32_t index) { return config->dual >> index & 1; }

static void diti_sd3_load_block(diti_loader *loader, diti_sd3_block *block, const diti_sd3_config *config,
                                uint32_t index) {
    uint32_t width = config->width;
    bool last = index + 1 == config->blocks, dual = diti_sd3_is_dual(config, index);
    memset(block, 0, sizeof *block);
    diti_loader_scope(loader, "transformer_blocks.%u.", (unsigned)index);
    diti_sd3_load_modulation(loader, &block->modulation, width, dual, last);
    diti_sd3_load_attention(loader, block, config, last);
    if (dual) diti_sd3_load_image_attention(loader, block, config);
    diti_load_pair(loader, &block->ff_in, 4 * width, width, last ? NULL : "ff_context.net.0.proj", "ff.net.0.proj");
    diti_load_pair(loader, &block->ff_out, width, 4 * width, last ? NULL : "ff_context.net.2", "ff.net.2");
    diti_loader_scope(loader, "%s", "");
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
    diti_load_shift_scale(loader, &model->final_modulation, width, "norm_out.linear", loader->rename == NULL);
    diti_load_layer(loader, &model->proj_out, config->channels * area, width, 1, "proj_out");
}

static void diti_sd3_set_traits(diti_sd3 *model) {
    const diti_sd3_config *config = &model->config;
    diti_model_traits *traits = &model->base.traits;
    traits->family = "sd3";
    traits->variant = config->dual ? "3.5-medium" : config->normed ? "3.5-large" : "3-medium";
    traits->layers = config->blocks;
    traits->skips_blocks = true;
    traits->width = config->width;
    traits->heads = config->heads;
    traits->latent_channels = traits->out_channels = config->channels;
    traits->patch = config->patch;
    traits->default_size = config->sample_size;
    traits->text_tokens = 77 + 256; /* CLIP's, then T5's */
    traits->text_columns = config->text;
    traits->pooled_columns = config->pooled;
    traits->encoders[0] = DITI_ENCODER_CLIP_L;
    traits->encoders[1] = DITI_ENCODER_CLIP_G;
    traits->encoders[2] = DITI_ENCODER_T5;
    traits->lacks_encoders = true;
    traits->scheduler = "{\"_class_name\":\"FlowMatchEulerDiscreteScheduler\",\"shift\":3.0}";
    traits->default_steps = 28;
    traits->default_guidance = config->normed ? 4.5f : 7.0f;
    traits->attends_padding = true;
    traits->joint = true;
}

static void diti_sd3_destroy(diti_transformer *transformer) {
    diti_sd3 *model = (diti_sd3 *)(void *)transformer;
    diti_env env = transformer->env;
    diti_weights_free(transformer->device, &env, &transformer->weights);
    diti_free(&env, model->blocks);
    diti_free(&env, model);
}

static dit_result diti_sd3_fill(diti_sd3 *model, diti_loader *loader, dit_error *err) {
    model->blocks = (diti_sd3_block *)diti_alloc_array(&model->base.env, model->config.blocks, sizeof *model->blocks);
    if (!model->blocks) return diti_fail(err, DIT_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for the transformer");
    diti_sd3_load_weights(loader, model);
    /* a table that others compute is counted by nobody */
    diti_loader_discount(loader, &model->positions, 0, (uint64_t)model->positions.rows * model->positions.columns);
    diti_sd3_set_traits(model);
    return diti_loader_finish(loader, &model->base.weights, err);
}

static dit_result diti_sd3_load(diti_device *device, const diti_env *env, const diti_json *config,
                                const diti_checkpoint *checkpoint, const char *prefix, const diti_load_options *options,
                                diti_transformer **out, dit_error *err) {
    diti_sd3_config read = DITI_ZERO;
    diti_loader loader;
    diti_sd3 *model;
    dit_result result;
    diti_loader_begin(&loader, device, env, checkpoint, prefix, "transformer", options ? options->progress : NULL);
    diti_loader_rules(&loader, "transformer", options);
    if (!diti_sd3_is_diffusers(checkpoint, prefix)) loader.rename = diti_sd3_original_name;
    result = diti_sd3_read_config(&loader, config, &read, err);
    if (result != DIT_OK) return result;
    model = (diti_sd3 *)diti_alloc_zero(env, sizeof *model);
    if (!model) return diti_fail(err, DIT_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for the transformer");
    model->base.family = diti_sd3_family();
    model->base.device = device;
    model->base.env = *env;
    model->config = read;
    model->int8_attention = options && options->int8_attention;
    result = diti_sd3_fill(model, &loader, err);
    if (result != DIT_OK)
        diti_sd3_destroy(&model->base);
    else
        *out = &model->base;
    return result;
}

/* ---- once per picture: everything that does not depend on the latent ---- */

typedef struct diti_sd3_step { /* what an evaluation has besides */
    diti_joint joint;
    diti_tensor active;                      /* F32 [prompts, D], where tables are not kept */
    diti_tensor tables[DITI_SD3_MAX_BLOCKS]; /* F32 [prompts, 2 * chunks * D], where they are */
} diti_sd3_step;

typedef struct diti_sd3_state {              /* what prepare leaves for the steps */
    diti_sd3_step step;                      /* the one at hand */
    diti_tensor sinusoids, ids;              /* inputs F32 [steps, 256]; U32 [1, tokens]: rows of the position table */
    diti_tensor positions;                   /* F32 [tokens, D] */
    diti_tensor text;                        /* F32 [prompts * text tokens, D] */
    diti_tensor active;                      /* F32 [steps, prompts * D]: what modulations are linear in */
    bool kept;                               /* those of all steps are, below; else they are made in each step */
    diti_tensor final_table;                 /* F32 [steps, prompts * 2D] */
    diti_tensor tables[DITI_SD3_MAX_BLOCKS]; /* F32 [steps, prompts * 2 * chunks * D] */
} diti_sd3_state;

static uint32_t diti_sd3_chunks(const diti_sd3_config *config, uint32_t index) {
    return diti_sd3_is_dual(config, index) ? 9 : 6;
}

static diti_tensor diti_sd3_final_modulation(const diti_sd3 *model, diti_graph *graph, diti_tensor active) {
    diti_linear_desc desc = DITI_ZERO;
    desc.out_f32 = true;
    desc.name = "final_modulation";
    return diti_linear_joined(graph, active, &model->final_modulation, &desc);
}

/* All modulations of all steps, where that is not too much to keep. */
static void diti_sd3_keep_tables(const diti_sd3 *model, diti_graph *graph, const diti_denoise *denoise,
                                 diti_sd3_state *state) {
    const diti_sd3_config *config = &model->config;
    uint32_t steps = denoise->steps, prompts = denoise->text_batch;
    uint32_t i, end, rows = steps * prompts, width = config->width, chunks = 2;
    diti_tensor active = diti_tensor_reshape(graph, state->active, rows, width), table;
    for (i = 0; i < config->blocks; i++) chunks += 2 * diti_sd3_chunks(config, i);
    state->kept = (uint64_t)rows * chunks * width * sizeof(float) <= DITI_MODULATION_BYTES;
    if (!state->kept) return;
    for (diti_axes_blocks(denoise->axes, config->blocks, &i, &end); i < end; i++) {
        chunks = diti_sd3_chunks(config, i);
        diti_graph_scope(graph, "block", i);
        table = diti_joint_modulate(graph, denoise, active, &model->blocks[i].modulation, chunks);
        state->tables[i] = diti_tensor_reshape(graph, table, steps, prompts * 2 * chunks * width);
    }
    diti_graph_scope(graph, NULL, 0);
    table = diti_sd3_final_modulation(model, graph, active);
    state->final_table = diti_tensor_reshape(graph, table, steps, prompts * 2 * width);
}

static void diti_sd3_prepare(const diti_transformer *transformer, diti_graph *graph, diti_denoise *denoise) {
    const diti_sd3 *model = diti_sd3_of(transformer);
    const diti_sd3_config *config = &model->config;
    uint32_t rows = denoise->height / config->patch, columns = denoise->width / config->patch;
    diti_tensor text, time;
    diti_sd3_state *state;
    if (rows > config->table || columns > config->table) {
        diti_graph_fail(
            graph, DIT_ERROR_UNSUPPORTED_MODEL,
            "the model has positions for %u x %u patches, the image would have %u x %u; ask for a smaller one",
            (unsigned)config->table, (unsigned)config->table, (unsigned)columns, (unsigned)rows);
        return;
    }
    state = (diti_sd3_state *)diti_alloc_zero(&transformer->env, sizeof *state);
    if (!state) {
        diti_graph_fail(graph, DIT_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for the transformer's plan");
        return;
    }
    denoise->family = state;
    state->sinusoids = diti_tensor_input(graph, DITI_F32, denoise->steps, 256, "timesteps");
    state->ids = diti_tensor_input(graph, DITI_U32, 1, rows * columns, "position ids");
    state->positions = diti_gather_rows(graph, &model->positions, state->ids, "positions");
    time = diti_embed(graph, &model->time, state->sinusoids, 0);
    state->active = diti_joint_condition(graph, time, diti_embed(graph, &model->pooled, denoise->pooled, 0));
    diti_sd3_keep_tables(model, graph, denoise, state);
    text = diti_tensor_view(graph, denoise->text, 0, denoise->text_batch * denoise->text_tokens, 0, config->text);
    state->text = diti_layer_run(graph, text, &model->text, DITI_ACTIVATION_NONE, 0, true, "context");
}

/* The middle of the position table. */
static dit_result diti_sd3_write_ids(const diti_sd3 *model, diti_plan *plan, const diti_denoise *denoise,
                                     diti_tensor ids, dit_error *err) {
    uint32_t rows = denoise->height / model->config.patch, columns = denoise->width / model->config.patch;
    uint32_t table = model->config.table, top = (table - rows) / 2, left = (table - columns) / 2, i;
    size_t count = (size_t)rows * columns;
    uint32_t *values = (uint32_t *)diti_alloc_array(&model->base.env, count, sizeof *values);
    dit_result result;
    if (!values) return diti_fail(err, DIT_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for the positions");
    for (i = 0; i < rows * columns; i++) values[i] = (top + i / columns) * table + left + i % columns;
    result = diti_plan_write(plan, ids, values, count * sizeof *values, err);
    diti_free(&model->base.env, values);
    return result;
}

static dit_result diti_sd3_write_inputs(const diti_transformer *transformer, diti_plan *plan,
                                        const diti_denoise *denoise, const float *timesteps, dit_error *err) {
    const diti_sd3_state *state = (const diti_sd3_state *)denoise->family;
    dit_result result = diti_sd3_write_ids(diti_sd3_of(transformer), plan, denoise, state->ids, err);
    if (result != DIT_OK) return result;
    return diti_write_sinusoids(&transformer->env, plan, state->sinusoids, timesteps, denoise->steps, 0, err);
}

/* ---- one evaluation ---- */

static diti_sd3_state *diti_sd3_at(const diti_denoise *denoise) { return (diti_sd3_state *)denoise->family; }

static void diti_sd3_begin(const diti_transformer *transformer, diti_graph *graph, diti_denoise *denoise) {
    const diti_sd3_config *config = &diti_sd3_of(transformer)->config;
    diti_sd3_state *state = diti_sd3_at(denoise);
    diti_sd3_step *step = &state->step;
    uint32_t i, end;
    diti_joint_begin(&step->joint, denoise, config->width, 1e-6f);
    if (denoise->again) return;
    if (!state->kept)
        step->active = diti_joint_select(graph, &step->joint, denoise, state->active, "select_conditioning");
    diti_axes_blocks(denoise->axes, config->blocks, &i, &end);
    for (; i < end && state->kept; i++)
        step->tables[i] = diti_joint_select(graph, &step->joint, denoise, state->tables[i], "select_modulation");
}

static diti_tensor diti_sd3_embed(const diti_transformer *transformer, diti_graph *graph, diti_denoise *denoise) {
    const diti_sd3 *model = diti_sd3_of(transformer);
    const diti_sd3_state *state = diti_sd3_at(denoise);
    return diti_joint_embed(graph, &state->step.joint, denoise, state->text, &model->patch, model->config.channels,
                            model->config.patch, state->positions);
}

/* This step's modulation of a block: shift, scale and gate of the attention, of the feed-forward, and of the image's
   own attention where it has one. */
static void diti_sd3_modulation(const diti_sd3 *model, diti_graph *graph, const diti_denoise *denoise, uint32_t index,
                                diti_modulation *out) {
    const diti_sd3_state *state = diti_sd3_at(denoise);
    out->rows = state->step.tables[index];
    out->chunks = diti_sd3_chunks(&model->config, index);
    if (!state->kept)
        out->rows =
            diti_joint_modulate(graph, denoise, state->step.active, &model->blocks[index].modulation, out->chunks);
}

static void diti_sd3_heads(const diti_sd3 *model, const diti_stripe *stripe, const diti_weight *norms, bool text,
                           diti_heads *out) {
    memset(out, 0, sizeof *out);
    out->count = stripe->count / model->config.head_dim;
    out->dim = model->config.head_dim;
    out->text = out->apart = text;
    out->weights = model->config.normed ? norms : NULL;
    out->int8 = model->int8_attention;
}

/* Attention of text and image, and in dual blocks of the image alone; both of the same x. */
static void diti_sd3_attend(const diti_sd3 *model, diti_graph *graph, const diti_denoise *denoise, uint32_t index,
                            const diti_modulation *m, diti_tensor x) {
    const diti_sd3_block *block = &model->blocks[index];
    const diti_joint *joint = &diti_sd3_at(denoise)->step.joint;
    bool dual = diti_sd3_is_dual(&model->config, index);
    const diti_weight *readers[DITI_JOINT_STREAMS + 1];
    diti_heads heads;
    diti_stripe stripe;
    diti_tensor h, image = dual ? diti_joint_norm_image(graph, joint, x, m, 6, "image_norm") : 0;
    uint32_t i;
    for (i = 0; i < DITI_JOINT_STREAMS; i++) readers[i] = &block->out.streams[DITI_JOINT_IMAGE - i].weight;
    readers[i] = &block->image_out.weight;
    stripe = diti_stripe_make(graph, denoise, model->config.width, model->config.head_dim, readers, dual ? 3 : 2);
    for (i = 0; i < DITI_JOINT_STREAMS; i++)
        readers[i] = diti_stripe_reader(&stripe, diti_joined_reader(&block->qkv.streams[i]));
    diti_sd3_heads(model, &stripe, &block->norms, true, &heads);
    h = diti_joint_norm(graph, joint, x, m, 0, readers, "norm1");
    h = diti_joint_qkv(graph, joint, h, &block->qkv, &stripe);
    h = diti_joint_attention(graph, joint, denoise, h, &heads, 0);
    diti_joint_add(graph, joint, denoise, x, h, &block->out, &stripe, m, 2, "attention_out");
    if (!dual) return;
    diti_sd3_heads(model, &stripe, &block->image_norms, false, &heads);
    image = diti_stripe_joined(graph, image, &block->image_qkv, &stripe, 3, "image_qkv");
    image = diti_joint_attention(graph, joint, denoise, image, &heads, 0);
    diti_joint_add_image(graph, joint, denoise, x, image, &block->image_out, &stripe, m, 8, "image_attention_out");
}

/* docs/models.md 3.3 step 4; x F32 [items * (text + image), D] is changed in place. */
static diti_tensor diti_sd3_run_block(const diti_transformer *transformer, diti_graph *graph, diti_denoise *denoise,
                                      uint32_t index, diti_tensor x) {
    const diti_sd3 *model = diti_sd3_of(transformer);
    const diti_sd3_block *block = &model->blocks[index];
    const diti_joint *joint = &diti_sd3_at(denoise)->step.joint;
    const diti_weight *readers[DITI_JOINT_STREAMS];
    diti_modulation m;
    diti_stripe feed;
    diti_tensor h;
    uint32_t i;
    diti_graph_scope(graph, "block", index);
    for (i = 0; i < DITI_JOINT_STREAMS; i++) readers[i] = &block->ff_out.streams[DITI_JOINT_IMAGE - i].weight;
    feed = diti_stripe_feed(graph, denoise, readers, 2, block->ff_in.streams[DITI_JOINT_IMAGE].weight.rows);
    diti_sd3_modulation(model, graph, denoise, index, &m);
    diti_sd3_attend(model, graph, denoise, index, &m, x);
    if (index + 1 == model->config.blocks) {
        h = diti_joint_norm_image(graph, joint, x, &m, 3, "norm2");
        h = diti_stripe_run(graph, h, &block->ff_in.streams[DITI_JOINT_IMAGE], &feed, DITI_ACTIVATION_GELU_TANH, 0,
                            "ff_in");
        diti_joint_add_image(graph, joint, denoise, x, h, &block->ff_out.streams[DITI_JOINT_IMAGE], &feed, &m, 5,
                             "ff_out");
        return x;
    }
    for (i = 0; i < DITI_JOINT_STREAMS; i++) readers[i] = diti_stripe_reader(&feed, &block->ff_in.streams[i].weight);
    h = diti_joint_norm(graph, joint, x, &m, 3, readers, "norm2");
    h = diti_joint_layer(graph, joint, h, &block->ff_in, &feed, DITI_ACTIVATION_GELU_TANH, "ff_in");
    diti_joint_add(graph, joint, denoise, x, h, &block->ff_out, &feed, &m, 5, "ff_out");
    return x;
}

static diti_tensor diti_sd3_final(const diti_transformer *transformer, diti_graph *graph, diti_denoise *denoise,
                                  diti_tensor x) {
    const diti_sd3 *model = diti_sd3_of(transformer);
    const diti_sd3_state *state = diti_sd3_at(denoise);
    diti_modulation m = DITI_ZERO;
    diti_tensor h;
    if (state->kept)
        m.rows = diti_joint_select(graph, &state->step.joint, denoise, state->final_table, "select_modulation");
    else
        m.rows = diti_sd3_final_modulation(model, graph, state->step.active);
    h = diti_joint_norm_image(graph, &state->step.joint, x, &m, 0, "norm_out");
    return diti_layer_run(graph, h, &model->proj_out, DITI_ACTIVATION_NONE, 0, true, "proj_out");
}

DIT_INTERNAL const diti_family *diti_sd3_family(void) {
    static const diti_family family = {
        "sd3",          diti_sd3_recognise, diti_sd3_load,      diti_sd3_destroy, diti_sd3_prepare,
        diti_sd3_begin, diti_sd3_embed,     diti_sd3_run_block, diti_sd3_final,   diti_sd3_write_inputs};
    return &family;
}
