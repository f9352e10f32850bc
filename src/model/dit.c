/* DiT, class-conditional: docs/models.md 3.1. Original: https://github.com/facebookresearch/DiT/blob/main/models.py

   D is the width of the residual stream. The timestep and the class are one vector c, from which every block's own
   layer makes shifts, scales and gates. The original code base and diffusers compute two things differently, an epsilon
   and the frequencies of the timestep; both are what their files are run with. */
#include "model/model.h"

#define DITI_DIT_MAX_BLOCKS 128u

/* ---- configuration ---- */

typedef struct diti_dit_config {
    uint32_t blocks, heads, head_dim, width; /* width: D */
    uint32_t channels, out_channels, patch, classes;
    uint32_t sample_size;     /* latent size of the training */
    uint32_t frequency_shift; /* the frequency shift of docs/models.md 2.1 */
    float eps2;               /* eps of the norm before the feed-forward; all others have 1e-6 */
    bool original;
} diti_dit_config;

/* ---- key table: names asked for here are diffusers'; the original code base calls them so ---- */

/* diffusers keeps the embedders of timestep and class in every block, all the same; the first block's serve. */
#define DITI_DIT_EMBEDDER "transformer_blocks.0.norm1.emb.timestep_embedder"
#define DITI_DIT_CLASSES "transformer_blocks.0.norm1.emb.class_embedder.embedding_table"

static const char *const diti_dit_keys[][2] = {
    {"pos_embed.proj", "x_embedder.proj"},
    {DITI_DIT_EMBEDDER ".linear_1", "t_embedder.mlp.0"},
    {DITI_DIT_EMBEDDER ".linear_2", "t_embedder.mlp.2"},
    {DITI_DIT_CLASSES, "y_embedder.embedding_table"},
    {"proj_out_1", "final_layer.adaLN_modulation.1"},
    {"proj_out_2", "final_layer.linear"},
};
static const char *const diti_dit_block_keys[][2] = {
    {"norm1.linear", "adaLN_modulation.1"}, {"attn1.qkv", "attn.qkv"}, /* rows q, k, v; three matrices in diffusers */
    {"attn1.to_out.0", "attn.proj"},        {"ff.net.0.proj", "mlp.fc1"}, {"ff.net.2", "mlp.fc2"},
};

static const diti_key_table diti_dit_names[DITI_KEY_TABLES] = {
    {"transformer_blocks.", "blocks.", diti_dit_block_keys, DITI_COUNT(diti_dit_block_keys)},
    {NULL, NULL, diti_dit_keys, DITI_COUNT(diti_dit_keys)},
    {NULL, NULL, NULL, 0},
};

/* ---- weights ---- */

typedef struct diti_dit_block {
    diti_layer modulation; /* [6D, D]: shift, scale, gate of the attention, then of the feed-forward */
    diti_fused_linear qkv; /* [3D, D] */
    diti_layer out;        /* [D, D] */
    diti_layer ff_in;      /* [4D, D] */
    diti_layer ff_out;     /* [D, 4D] */
    diti_sublayer attention, feed;
} diti_dit_block;

typedef struct diti_dit {
    diti_transformer base;
    diti_dit_config config;
    diti_layer patch;            /* [D, C * p * p] */
    diti_embedder time;          /* [D, 256], [D, D] */
    diti_weight classes;         /* [classes + 1, D]; the last row means none */
    diti_layer final_modulation; /* [2D, D]: shift, scale */
    diti_layer proj_out;         /* [p * p * out_channels, D] */
    diti_sublayer last;
    diti_dit_block *blocks;
} diti_dit;

#define diti_dit_of(transformer) ((const diti_dit *)(const void *)(transformer))

/* ---- reading the configuration: what config.json does not say comes from shapes ---- */

/* The original keeps its position table [1, grid * grid, D], which is computed here. */
static uint32_t diti_dit_training_size(diti_loader *loader, const diti_dit_config *config) {
    const diti_stored_tensor *table = diti_model_find(loader->checkpoint, loader->prefix, "pos_embed");
    if (!table || table->rank != 3 || table->shape[1] > 1u << 20) return 32;
    return (uint32_t)lround(sqrt((double)table->shape[1])) * config->patch;
}

static dit_result diti_dit_read_shapes(diti_loader *loader, diti_dit_config *config, dit_error *err) {
    static const diti_shape_key keys[] = {{offsetof(diti_dit_config, width), "pos_embed.proj.weight", 0},
                                          {offsetof(diti_dit_config, channels), "pos_embed.proj.weight", 1},
                                          {offsetof(diti_dit_config, patch), "pos_embed.proj.weight", 2}};
    uint32_t classes = diti_loader_dimension(loader, DITI_DIT_CLASSES ".weight", 0);
    diti_read_shapes(loader, config, keys, DITI_COUNT(keys));
    config->blocks = diti_loader_count(loader, "transformer_blocks.", ".norm1.linear.weight");
    if (!config->width || !config->channels || !config->patch || !config->blocks || classes < 2) {
        return diti_loader_refuse(loader, err, "a DiT without %s: the file is incomplete",
                                  !config->blocks ? "blocks"
                                  : classes < 2   ? "a table of classes"
                                                  : "patch embedding");
    }
    DITI_TRY(diti_check_patches(loader, "DiT", config->patch, config->channels, err));
    config->classes = classes - 1;
    config->out_channels = diti_loader_dimension(loader, "proj_out_2.weight", 0) / (config->patch * config->patch);
    config->head_dim = config->width % 72 == 0 ? 72 : 64; /* XL has 16 heads of 72; L, B and S have heads of 64 */
    return DIT_OK;
}

static dit_result diti_dit_check(const diti_dit_config *config, diti_settings *settings, dit_error *err) {
    static const char *const known[2][2] = {{"activation_fn", "gelu-approximate"}, {"norm_type", "ada_norm_zero"}};
    DITI_TRY(diti_settings_check_known(settings, "DiT", known, err));
    if ((uint64_t)config->heads * config->head_dim != config->width || config->head_dim > 256 || config->width % 4) {
        return diti_fail(err, DIT_ERROR_UNSUPPORTED_MODEL,
                         "DiT: %u heads of %u don't make a width of %u (a multiple of 4)", (unsigned)config->heads,
                         (unsigned)config->head_dim, (unsigned)config->width);
    }
    if (config->out_channels < config->channels || config->blocks > DITI_DIT_MAX_BLOCKS || config->patch > 16 ||
        config->sample_size < config->patch) {
        return diti_fail(err, DIT_ERROR_UNSUPPORTED_MODEL,
                         "DiT: %u blocks, patches of %u in a size of %u, %u channels out of %u are out of range",
                         (unsigned)config->blocks, (unsigned)config->patch, (unsigned)config->sample_size,
                         (unsigned)config->out_channels, (unsigned)config->channels);
    }
    return DIT_OK;
}

static dit_result diti_dit_read(diti_component *component, diti_loader *loader, const diti_json *json, dit_error *err) {
    static const diti_size_key keys[] = {{offsetof(diti_dit_config, heads), "num_attention_heads", 1024},
                                         {offsetof(diti_dit_config, patch), "patch_size", 16},
                                         {offsetof(diti_dit_config, out_channels), "out_channels", 1024},
                                         {offsetof(diti_dit_config, classes), "num_embeds_ada_norm", 1u << 20},
                                         {offsetof(diti_dit_config, sample_size), "sample_size", 4096}};
    diti_dit_config *config = &((diti_dit *)(void *)component)->config;
    diti_settings settings = diti_settings_of(json, "the transformer's config.json", err);
    dit_result result = diti_dit_read_shapes(loader, config, err);
    float eps;
    DITI_TRY(result);
    config->original = loader->rename != NULL;
    config->head_dim = diti_setting_size(&settings, "attention_head_dim", config->head_dim, 1024);
    config->heads = config->width / config->head_dim;
    config->blocks = diti_loader_layers(loader, &settings, "num_layers", "transformer_blocks.", ".norm1.linear.weight");
    config->sample_size = diti_dit_training_size(loader, config);
    diti_read_sizes(&settings, config, keys, DITI_COUNT(keys));
    config->frequency_shift = config->original ? 0 : 1;
    eps = (float)diti_setting_number(&settings, "norm_eps", 1e-5, 0, 1);
    config->eps2 = config->original ? 1e-6f : eps;
    return diti_dit_check(config, &settings, err);
}

/* ---- loading ---- */

static void diti_dit_load_block(diti_loader *loader, const diti_dit_config *config, diti_dit_block *block,
                                uint32_t index) {
    static const diti_fused qkv = {"attn1.qkv", {"attn1.to_q", "attn1.to_k", "attn1.to_v"}, 3};
    uint32_t width = config->width;
    diti_loader_scope(loader, "transformer_blocks.%u.", (unsigned)index);
    diti_load_layer(loader, &block->modulation, 6 * width, width, 1, "norm1.linear");
    diti_load_fused(loader, &block->qkv, &qkv, width, width);
    diti_load_layer(loader, &block->out, width, width, 1, "attn1.to_out.0");
    diti_load_layer(loader, &block->ff_in, 4 * width, width, 1, "ff.net.0.proj");
    diti_load_layer(loader, &block->ff_out, width, 4 * width, 1, "ff.net.2");
    diti_loader_scope_end(loader);
    diti_make_attention(&block->attention, DITI_STREAMS_ONE, &block->qkv, &block->out, width, config->head_dim);
    diti_make_feed(&block->feed, DITI_STREAMS_ONE, &block->ff_in, &block->ff_out);
    block->feed.eps = config->eps2;
}

static void diti_dit_load_weights(diti_loader *loader, diti_dit *model) {
    const diti_dit_config *config = &model->config;
    uint32_t i, width = config->width, area = config->patch * config->patch;
    diti_load_layer(loader, &model->patch, width, config->channels * area, config->patch, "pos_embed.proj");
    model->patch.weight.kernel = 1; /* used as a matrix on flattened patches */
    diti_load_embedder(loader, &model->time, width, width, 256, DITI_DIT_EMBEDDER);
    diti_load_table(loader, &model->classes, config->classes + 1, width, DITI_DIT_CLASSES ".weight");
    for (i = 0; i < config->blocks; i++) diti_dit_load_block(loader, config, &model->blocks[i], i);
    diti_load_layer(loader, &model->final_modulation, 2 * width, width, 1, "proj_out_1");
    diti_load_layer(loader, &model->proj_out, config->out_channels * area, width, 1, "proj_out_2");
    diti_make_output(&model->last, DITI_STREAMS_ONE, &model->proj_out);
}

static const char *diti_dit_variant(const diti_dit_config *config) {
    switch (config->width) {
    case 1152: return "xl";
    case 1024: return "l";
    case 768: return "b";
    case 384: return "s";
    default: return "custom";
    }
}

/* The original samples by IDDPM's respaced steps with the variance that the model predicts (docs/models.md 7.2), and
   guides three channels of four. */
static const char diti_dit_original_scheduler[] =
    "{\"_class_name\":\"DDPMScheduler\",\"timestep_spacing\":\"respaced\",\"variance_type\":\"learned_range\","
    "\"beta_schedule\":\"linear\",\"beta_start\":0.0001,\"beta_end\":0.02,\"clip_sample\":false}";
static const char diti_dit_scheduler[] =
    "{\"_class_name\":\"DDIMScheduler\",\"timestep_spacing\":\"leading\",\"beta_schedule\":\"linear\","
    "\"beta_start\":0.0001,\"beta_end\":0.02,\"clip_sample\":false}";

static void diti_dit_set_traits(diti_dit *model) {
    const diti_dit_config *config = &model->config;
    diti_model_traits *traits = &model->base.traits;
    bool learned = config->original && config->out_channels == 2 * config->channels;
    traits->variant = diti_dit_variant(config);
    diti_traits_sizes(traits, config->blocks, config->width, config->heads, config->channels, config->patch);
    traits->out_channels = config->out_channels;
    traits->default_size = config->sample_size;
    traits->class_count = config->classes;
    traits->guided_channels = config->original ? 3 : 0;
    traits->scheduler = learned ? diti_dit_original_scheduler : diti_dit_scheduler;
    traits->default_steps = config->original ? 250 : 50;
    traits->default_guidance = 4.0f;
}

static void diti_dit_load(diti_component *component, diti_loader *loader) {
    diti_dit *model = (diti_dit *)(void *)component;
    model->blocks =
        (diti_dit_block *)diti_component_array(component, loader, model->config.blocks, sizeof *model->blocks);
    if (!model->blocks) return;
    diti_dit_load_weights(loader, model);
    diti_dit_set_traits(model);
}

/* ---- once per picture: everything that does not depend on the latent ---- */

typedef struct diti_dit_state { /* prepare leaves these for the steps */
    diti_tensor sinusoids;      /* input F32 [steps * classes, 256] */
    diti_tensor positions;      /* input F32 [tokens, D] */
    diti_adaln adaln;           /* rows of the blocks, then of the final layer; an item for each of step->labels */
} diti_dit_state;

#define diti_dit_state_of(step) ((diti_dit_state *)(step)->family)

static void diti_dit_prepare(diti_pass *p) {
    const diti_dit *model = diti_dit_of(p->model);
    diti_graph *graph = p->graph;
    const diti_step_desc *step = p->step;
    uint32_t patch = model->config.patch, tokens = step->height / patch * (step->width / patch), i, end;
    diti_dit_state *state = diti_dit_state_of(step);
    diti_tensor c, classes;
    state->sinusoids = diti_tensor_input(graph, DITI_F32, step->steps * step->text_batch, 256, "timesteps");
    state->positions = diti_tensor_input(graph, DITI_F32, tokens, p->width, "positions");
    c = diti_embed(graph, &model->time, state->sinusoids, 0);
    classes = diti_gather_rows(graph, &model->classes, step->labels, "class_embedding");
    c = diti_add_rows(graph, c, classes, 0, "add_class");
    diti_axes_blocks(step->axes, model->config.blocks, &i, &end);
    for (state->adaln.first = i; i < end; i++) diti_adaln_add(&state->adaln, &model->blocks[i].modulation);
    diti_adaln_add(&state->adaln, &model->final_modulation);
    diti_adaln_prepare(p, &state->adaln, c);
}

/* diffusers stretches the grid of the training over any other; the original's coordinates are integers. */
static dit_result diti_dit_write_inputs(const diti_transformer *transformer, diti_plan *plan,
                                        const diti_step_desc *step, const float *timesteps, dit_error *err) {
    const diti_dit *model = diti_dit_of(transformer);
    const diti_dit_state *state = (const diti_dit_state *)step->family;
    uint32_t patch = model->config.patch;
    double base = model->config.sample_size / patch;
    diti_grid grid = {step->height / patch, step->width / patch, 1, 1, 1};
    dit_result result;
    if (!model->config.original) {
        grid.divide_y = (float)(grid.rows / base);
        grid.divide_x = (float)(grid.columns / base);
    }
    result = diti_write_positions(plan, state->positions, &grid, err);
    DITI_TRY(result);
    return diti_adaln_write(plan, state->sinusoids, step, timesteps, model->config.frequency_shift, err);
}

/* ---- one evaluation ---- */

static void diti_dit_begin(diti_pass *p) { diti_adaln_select(p, &diti_dit_state_of(p->step)->adaln); }

static diti_tensor diti_dit_embed(diti_pass *p) {
    return diti_patch_embed(p, 0, &diti_dit_of(p->model)->patch, diti_dit_state_of(p->step)->positions);
}

/* DiTBlock.forward, docs/models.md 3.1 step 3; x F32 [items * rows, D] is changed in place. */
static diti_tensor diti_dit_run_block(diti_pass *p, diti_tensor x) {
    const diti_dit_block *w = &diti_dit_of(p->model)->blocks[p->index];
    p->modulation.rows = diti_pass_last(p, diti_adaln_get(p->graph, &diti_dit_state_of(p->step)->adaln, p->index));
    diti_block_run(p, x, &w->attention, &w->feed);
    return x;
}

static diti_tensor diti_dit_final(diti_pass *p, diti_tensor x) {
    const diti_sublayer *last = &diti_dit_of(p->model)->last;
    p->modulation.rows = diti_pass_last(p, diti_adaln_last(p->graph, &diti_dit_state_of(p->step)->adaln));
    return diti_output_modulated(p, x, last);
}

/* ---- where parts of such models are ---- */

static const diti_place diti_dit_places[] = {
    {"", DIT_ROLE_TRANSFORMER, "facebook/DiT-XL-2-256: transformer/"},
    {"", DIT_ROLE_VAE, "stabilityai/sd-vae-ft-ema: diffusion_pytorch_model.safetensors"},
    {NULL, DIT_ROLE_NONE, NULL},
};

/* Video models share the names, but have a table of positions in time. */
DIT_INTERNAL const diti_family *diti_dit_family(void) {
    static const diti_family family = {
        "dit",
        "DiT",
        {"DiTTransformer2DModel",
         "ada_norm_zero",
         {"pos_embed.proj.weight", DITI_DIT_CLASSES ".weight", NULL, NULL},
         {"x_embedder.proj.weight", "y_embedder.embedding_table.weight", "blocks.0.adaLN_modulation.1.weight", NULL},
         {"temp_embed", NULL}},
        {"transformer", "transformer", sizeof(diti_dit), diti_dit_read, diti_dit_load, NULL},
        diti_dit_names,
        {4, 0.18215f, 0, false},
        NULL,
        NULL,
        diti_dit_places,
        sizeof(diti_dit_state),
        diti_dit_prepare,
        diti_dit_begin,
        diti_dit_embed,
        diti_dit_run_block,
        diti_dit_final,
        diti_dit_write_inputs};
    return &family;
}
