/* Chroma: docs/models.md 3.21. Originals: https://github.com/lodestone-rock/flow/blob/master/src/models/chroma/model.py
   and https://github.com/huggingface/diffusers/blob/main/src/diffusers/models/transformers/transformer_chroma.py

   FLUX.1 without pooled text and without layers of modulation: a small network, the approximator, makes every shift,
   scale and gate of the timestep and of that vector's number. The text is T5's alone, without padding but for one row.
 */
#include "model/model.h"

#define DITI_CHROMA_MAX_BLOCKS 256u /* most blocks of both kinds */
#define DITI_CHROMA_MAX_LAYERS 32u  /* most layers of the approximator */
#define DITI_CHROMA_AXES 3u

/* ---- configuration ---- */

typedef struct diti_chroma_config {
    uint32_t doubles, singles, heads, head_dim, width; /* width: D */
    uint32_t channels;                                 /* channels of the latent; its patches of 2 x 2 are the tokens */
    uint32_t text;                                     /* columns of the text encoder's output */
    uint32_t layers, sinusoids,
        hidden; /* the approximator's: columns that it reads in `sinusoids`, its width in `hidden` */
    uint32_t axes[DITI_CHROMA_AXES]; /* channels of a head that rotate with each coordinate */
    uint32_t in, out;                /* columns that the first layer reads, and that the last one makes */
} diti_chroma_config;

/* ---- key table: names asked for here are diffusers'; the original code base calls them so ---- */

#define DITI_CHROMA_GUIDANCE "distilled_guidance_layer"
static const char *const diti_chroma_keys[][2] = {
    {"x_embedder", "img_in"},
    {"context_embedder", "txt_in"},
    {DITI_CHROMA_GUIDANCE ".in_proj", DITI_CHROMA_GUIDANCE ".in_proj"},
    {DITI_CHROMA_GUIDANCE ".out_proj", DITI_CHROMA_GUIDANCE ".out_proj"},
    {"proj_out", "final_layer.linear"},
};
static const char *const diti_chroma_layer_keys[][2] = {{"linear_1", "in_layer"}, {"linear_2", "out_layer"}};
static const char *const diti_chroma_norm_keys[][2] = {{"weight", "scale"}};
static const char *const diti_chroma_double_keys[][2] = {DITI_DOUBLE_KEYS};
static const char *const diti_chroma_single_keys[][2] = {DITI_SINGLE_KEYS};

static const diti_key_table diti_chroma_names[DITI_KEY_TABLES] = {
    {"transformer_blocks.", "double_blocks.", diti_chroma_double_keys, DITI_COUNT(diti_chroma_double_keys)},
    {"single_transformer_blocks.", "single_blocks.", diti_chroma_single_keys, DITI_COUNT(diti_chroma_single_keys)},
    {DITI_CHROMA_GUIDANCE ".layers.", DITI_CHROMA_GUIDANCE ".layers.", diti_chroma_layer_keys,
     DITI_COUNT(diti_chroma_layer_keys)},
    {DITI_CHROMA_GUIDANCE ".norms.", DITI_CHROMA_GUIDANCE ".norms.", diti_chroma_norm_keys,
     DITI_COUNT(diti_chroma_norm_keys)},
    {NULL, NULL, diti_chroma_keys, DITI_COUNT(diti_chroma_keys)},
};

/* ---- weights ---- */

typedef struct diti_chroma_layer {
    diti_weight norm;   /* F32 [1, hidden] */
    diti_layer in, out; /* [hidden, hidden] */
} diti_chroma_layer;

typedef struct diti_chroma {
    diti_transformer base;
    diti_chroma_config config;
    diti_layer patch, text;    /* [D, 4 * channels], [D, text] */
    diti_layer first, vectors; /* the approximator's ends: [hidden, sinusoids], [D, hidden] */
    diti_chroma_layer *layers; /* between these two */
    diti_stream_blocks blocks; /* without modulation */
} diti_chroma;

#define diti_chroma_of(transformer) ((const diti_chroma *)(const void *)(transformer))

/* ---- reading the configuration: what config.json does not say comes from shapes ---- */

static dit_result diti_chroma_check(const diti_loader *loader, const diti_chroma_config *config, dit_error *err) {
    static const diti_need needs[] = {
        {offsetof(diti_chroma_config, doubles), "blocks of both kinds, double and single"},
        {offsetof(diti_chroma_config, singles), "blocks of both kinds, double and single"},
        {offsetof(diti_chroma_config, text), "context_embedder (txt_in)"},
        {offsetof(diti_chroma_config, layers), DITI_CHROMA_GUIDANCE},
        {offsetof(diti_chroma_config, sinusoids), DITI_CHROMA_GUIDANCE},
        {offsetof(diti_chroma_config, hidden), DITI_CHROMA_GUIDANCE},
        {offsetof(diti_chroma_config, head_dim), "norms of queries"},
        {offsetof(diti_chroma_config, width), "x_embedder (img_in) or proj_out (final_layer)"},
        {offsetof(diti_chroma_config, in), "x_embedder (img_in) or proj_out (final_layer)"},
        {offsetof(diti_chroma_config, out), "x_embedder (img_in) or proj_out (final_layer)"}};
    DITI_TRY(diti_config_complete(loader, config, "Chroma", needs, DITI_COUNT(needs), err));
    if (config->in != config->out || config->in % 4 || config->in > 1024 || config->width % config->head_dim ||
        config->head_dim > 256 || config->head_dim % 4 || config->doubles + config->singles > DITI_CHROMA_MAX_BLOCKS ||
        config->sinusoids % 8 || config->layers > DITI_CHROMA_MAX_LAYERS)
        return diti_loader_refuse(loader, err,
                                  "a Chroma transformer of %u + %u blocks, heads of %u in a width of %u, that takes %u "
                                  "columns and makes %u, with %u layers of modulation of %u columns, is out of range",
                                  (unsigned)config->doubles, (unsigned)config->singles, (unsigned)config->head_dim,
                                  (unsigned)config->width, (unsigned)config->in, (unsigned)config->out,
                                  (unsigned)config->layers, (unsigned)config->sinusoids);
    return DIT_OK;
}

static dit_result diti_chroma_read(diti_component *component, diti_loader *loader, const diti_json *json,
                                   dit_error *err) {
    static const diti_shape_key keys[] = {
        {offsetof(diti_chroma_config, in), "x_embedder.weight", 1},
        {offsetof(diti_chroma_config, out), "proj_out.weight", 0},
        {offsetof(diti_chroma_config, width), "x_embedder.weight", 0},
        {offsetof(diti_chroma_config, text), "context_embedder.weight", 1},
        {offsetof(diti_chroma_config, hidden), DITI_CHROMA_GUIDANCE ".in_proj.weight", 0},
        {offsetof(diti_chroma_config, sinusoids), DITI_CHROMA_GUIDANCE ".in_proj.weight", 1},
        {offsetof(diti_chroma_config, head_dim), "transformer_blocks.0.attn.norm_q.weight", 0}};
    diti_chroma_config *config = &((diti_chroma *)(void *)component)->config;
    diti_settings settings = diti_settings_of(json, "the transformer's config.json", err);
    diti_read_shapes(loader, config, keys, DITI_COUNT(keys));
    config->doubles =
        diti_loader_layers(loader, &settings, "num_layers", "transformer_blocks.", ".attn.to_out.0.weight");
    config->singles =
        diti_loader_layers(loader, &settings, "num_single_layers", "single_transformer_blocks.", ".proj_out.weight");
    config->layers = diti_loader_layers(loader, &settings, "approximator_layers", DITI_CHROMA_GUIDANCE ".layers.",
                                        ".linear_1.weight");
    DITI_TRY(diti_chroma_check(loader, config, err));
    config->channels = config->out / 4;
    config->heads = config->width / config->head_dim;
    /* As published, 16, 56 and 56 of 128; the same shares of other heads. */
    return diti_setting_axes(&settings, "Chroma", "axes_dims_rope", config->head_dim, config->head_dim / 8,
                             config->head_dim / 16 * 7, DITI_CHROMA_AXES, config->axes, err);
}

/* ---- loading ---- */

static void diti_chroma_load_weights(diti_loader *loader, diti_chroma *model) {
    const diti_chroma_config *config = &model->config;
    uint32_t i, width = config->width, hidden = config->hidden;
    char name[64];
    diti_load_layer(loader, &model->patch, width, 4 * config->channels, 1, "x_embedder");
    diti_load_layer(loader, &model->text, width, config->text, 1, "context_embedder");
    diti_load_layer(loader, &model->first, hidden, config->sinusoids, 1, DITI_CHROMA_GUIDANCE ".in_proj");
    for (i = 0; i < config->layers; i++) {
        diti_format(name, sizeof name, DITI_CHROMA_GUIDANCE ".norms.%u.weight", (unsigned)i);
        diti_load_vector(loader, &model->layers[i].norm, 1, hidden, name);
        diti_format(name, sizeof name, DITI_CHROMA_GUIDANCE ".layers.%u.linear_1", (unsigned)i);
        diti_load_layer(loader, &model->layers[i].in, hidden, hidden, 1, name);
        diti_format(name, sizeof name, DITI_CHROMA_GUIDANCE ".layers.%u.linear_2", (unsigned)i);
        diti_load_layer(loader, &model->layers[i].out, hidden, hidden, 1, name);
    }
    diti_load_layer(loader, &model->vectors, width, hidden, 1, DITI_CHROMA_GUIDANCE ".out_proj");
    diti_stream_blocks_load(loader, &model->blocks, width, config->head_dim, 0);
    diti_stream_final_load(loader, &model->blocks, width, 4 * config->channels, 0);
}

static void diti_chroma_set_traits(diti_chroma *model) {
    const diti_chroma_config *config = &model->config;
    diti_model_traits *traits = &model->base.traits;
    traits->variant = "1";
    diti_traits_sizes(traits, traits->layers, config->width, config->heads, config->channels, 2);
    traits->default_size = 128;
    traits->text_tokens = 512;
    traits->text_columns = config->text;
    traits->text_unit = 1;
    traits->padding_rows = 1;
    traits->encoders[0] = DITI_ENCODER_T5;
    traits->scheduler = "{\"_class_name\":\"FlowMatchEulerDiscreteScheduler\",\"shift\":3.0,"
                        "\"use_dynamic_shifting\":true}";
    traits->uniform_sigmas = true;
    traits->default_steps = 35;
    traits->default_guidance = 5;
    traits->joint = traits->planar = true;
}

static void diti_chroma_load(diti_component *component, diti_loader *loader) {
    diti_chroma *model = (diti_chroma *)(void *)component;
    const diti_chroma_config *config = &model->config;
    model->layers = (diti_chroma_layer *)diti_component_array(component, loader, config->layers, sizeof *model->layers);
    if (!model->layers ||
        !diti_stream_blocks_make(&model->base, loader, &model->blocks, config->doubles, config->singles))
        return;
    diti_chroma_load_weights(loader, model);
    diti_chroma_set_traits(model);
}

/* ---- once per picture: everything that does not depend on the latent ---- */

typedef struct diti_chroma_state { /* prepare leaves these for the steps */
    diti_tensor sinusoids;         /* input F32 [steps, vectors * sinusoids]: what the approximator reads */
    diti_rotation rotation;        /* [text + image tokens, head_dim / 2] */
    diti_text_order order;
    diti_tensor text;    /* F32 [prompts * text tokens, D] */
    diti_tensor vectors; /* F32 [1, vectors * D] of the step: blocks one after the other, then the last norm's */
} diti_chroma_state;

#define diti_chroma_state_of(step) ((diti_chroma_state *)(step)->family)

/* Vectors of modulation: twelve of a double block, three of a single one, two of the last norm. */
static uint32_t diti_chroma_vectors(const diti_chroma_config *config) {
    return 12 * config->doubles + 3 * config->singles + 2;
}

/* The number that the approximator knows vector i of the order here by. It counts those of single blocks first, then
   those of the image in double blocks, then the text's. Here a double block has the text's six, then the image's. */
static uint32_t diti_chroma_number(const diti_chroma_config *config, uint32_t i) {
    uint32_t block = i / 12, chunk = i % 12, singles = 3 * config->singles;
    if (i >= 12 * config->doubles + singles) return i;
    if (block >= config->doubles) return i - 12 * config->doubles;
    return singles + 6 * block + (chunk < 6 ? 6 * config->doubles + chunk : chunk - 6);
}

static void diti_chroma_prepare(diti_pass *p) {
    const diti_chroma *model = diti_chroma_of(p->model);
    const diti_chroma_config *config = &model->config;
    const diti_step_desc *step = p->step;
    diti_graph *graph = p->graph;
    uint32_t tokens = step->text_tokens + step->height / 2 * (step->width / 2);
    diti_chroma_state *state = diti_chroma_state_of(step);
    state->sinusoids =
        diti_tensor_input(graph, DITI_F32, step->steps, diti_chroma_vectors(config) * config->sinusoids, "timesteps");
    diti_rotation_prepare(graph, &state->rotation, tokens, config->head_dim / 2);
    diti_text_order_prepare(p, &state->order);
    state->text = diti_text_order_embed(p, &state->order, &model->text, config->text);
}

/* For each vector the sinusoids of the timestep, those of a guidance of 0, and those of a thousand times its number, in
   a quarter, a quarter and a half of the columns. */
static dit_result diti_chroma_write_sinusoids(const diti_chroma *model, diti_plan *plan, const diti_step_desc *step,
                                              const diti_chroma_state *state, const float *timesteps, dit_error *err) {
    const diti_env *env = &model->base.component.env;
    uint32_t columns = model->config.sinusoids, vectors = diti_chroma_vectors(&model->config), row, i;
    size_t count = (size_t)step->steps * vectors * columns;
    float *rows = (float *)diti_alloc_array(env, count, sizeof *rows), zero = 0;
    dit_result result;
    if (!rows) return diti_fail_memory(err, "the timesteps");
    for (row = 0; row < step->steps; row++) {
        for (i = 0; i < vectors; i++) {
            float *vector = rows + ((size_t)row * vectors + i) * columns;
            float number = (float)diti_chroma_number(&model->config, i) * 1000.0f;
            diti_sinusoid(&timesteps[row], 1, columns / 4, 0, vector);
            diti_sinusoid(&zero, 1, columns / 4, 0, vector + columns / 4);
            diti_sinusoid(&number, 1, columns / 2, 0, vector + columns / 2);
        }
    }
    result = diti_plan_write(plan, state->sinusoids, rows, count * sizeof *rows, err);
    diti_free(env, rows);
    return result;
}

static dit_result diti_chroma_write_inputs(const diti_transformer *transformer, diti_plan *plan,
                                           const diti_step_desc *step, const float *timesteps, dit_error *err) {
    const diti_chroma *model = diti_chroma_of(transformer);
    const diti_chroma_state *state = (const diti_chroma_state *)step->family;
    DITI_TRY(diti_text_order_write(plan, step, &state->order, &model->base.component.env, 1,
                                   step->height / 2 * (step->width / 2), err));
    DITI_TRY(diti_write_image_rotations(plan, step, model->config.axes, state->rotation.cosines, state->rotation.sines,
                                        err));
    return diti_chroma_write_sinusoids(model, plan, step, state, timesteps, err);
}

/* ---- one evaluation ---- */

/* x F32 [vectors, sinusoids] becomes [1, vectors * D]: x += out(silu(in(RMS(x)))), layer by layer. */
static diti_tensor diti_chroma_approximate(const diti_pass *p, diti_tensor x) {
    const diti_chroma *model = diti_chroma_of(p->model);
    diti_graph *graph = p->graph;
    uint32_t vectors = diti_chroma_vectors(&model->config), i;
    x = diti_layer_f32(graph, x, &model->first, DITI_ACTIVATION_NONE, 0, "approximator_in");
    for (i = 0; i < model->config.layers && !diti_graph_failed(graph); i++) {
        const diti_chroma_layer *layer = &model->layers[i];
        diti_linear_desc linear = DITI_ZERO;
        linear.bias = &layer->out.bias;
        linear.residual = linear.out = x;
        linear.name = "approximator_out";
        diti_linear(graph,
                    diti_layer_run(graph, diti_rms_norm(graph, x, &layer->norm, 1e-6f, NULL, "approximator_norm"),
                                   &layer->in, DITI_ACTIVATION_SILU, "approximator"),
                    &layer->out.weight, &linear);
    }
    x = diti_layer_f32(graph, x, &model->vectors, DITI_ACTIVATION_NONE, 0, "modulation");
    return diti_tensor_reshape(graph, x, 1, vectors * p->width);
}

static void diti_chroma_begin(diti_pass *p) {
    const diti_chroma_config *config = &diti_chroma_of(p->model)->config;
    diti_chroma_state *state = diti_chroma_state_of(p->step);
    diti_tensor row;
    diti_rotation_begin(p, &state->rotation);
    if (p->step->same_timestep) return;
    row = diti_select_row(p->graph, state->sinusoids, p->step->row, "select_timestep");
    row = diti_tensor_reshape(p->graph, row, diti_chroma_vectors(config), config->sinusoids);
    state->vectors = diti_chroma_approximate(p, row);
}

static diti_tensor diti_chroma_embed(diti_pass *p) {
    return diti_patch_embed(p, diti_chroma_state_of(p->step)->text, &diti_chroma_of(p->model)->patch, 0);
}

/* x F32 [items * (text + image), D] is changed in place. */
static diti_tensor diti_chroma_run_block(diti_pass *p, diti_tensor x) {
    const diti_chroma *model = diti_chroma_of(p->model);
    const diti_chroma_state *state = diti_chroma_state_of(p->step);
    uint32_t doubles = model->config.doubles, index = p->index;
    bool single = index >= doubles;
    uint32_t first = single ? 12 * doubles + 3 * (index - doubles) : 12 * index;
    p->modulation.rows =
        diti_tensor_view(p->graph, state->vectors, 0, 1, first * p->width, (single ? 3 : 12) * p->width);
    diti_rotation_apply(p, &state->rotation);
    p->keys = diti_text_order_keys(p, &state->order);
    diti_stream_block_run(p, x);
    return x;
}

static diti_tensor diti_chroma_final(diti_pass *p, diti_tensor x) {
    const diti_chroma *model = diti_chroma_of(p->model);
    uint32_t first = diti_chroma_vectors(&model->config) - 2;
    p->modulation.rows =
        diti_tensor_view(p->graph, diti_chroma_state_of(p->step)->vectors, 0, 1, first * p->width, 2 * p->width);
    return diti_stream_final(p, x);
}

/* ---- where parts of such models are ---- */

#define DITI_CHROMA_PLACE "lodestones/Chroma1-HD"
static const diti_place diti_chroma_places[] = {
    {"", DIT_ROLE_TRANSFORMER, DITI_CHROMA_PLACE ": Chroma1-HD.safetensors"},
    {"", DIT_ROLE_TEXT_1, DITI_CHROMA_PLACE ": text_encoder/, or " DITI_T5_PLACE},
    {"", DIT_ROLE_VAE, DITI_CHROMA_PLACE ": vae/"},
    {"", DIT_ROLE_TOKENIZER_1, DITI_CHROMA_PLACE ": tokenizer/"},
    {"", DIT_ROLE_SCHEDULER, DITI_CHROMA_PLACE ": scheduler/"},
    {NULL, DIT_ROLE_NONE, NULL},
};

DIT_INTERNAL const diti_family *diti_chroma_family(void) {
    static const diti_family family = {
        "chroma",
        "Chroma",
        {"ChromaTransformer2DModel",
         NULL,
         {DITI_CHROMA_GUIDANCE ".in_proj.weight", "x_embedder.weight", "transformer_blocks.0.attn.to_q.weight", NULL},
         {DITI_CHROMA_GUIDANCE ".in_proj.weight", "img_in.weight", "double_blocks.0.img_attn.qkv.weight", NULL},
         {NULL, NULL}},
        {"transformer", "transformer", sizeof(diti_chroma), diti_chroma_read, diti_chroma_load, NULL},
        diti_chroma_names,
        {16, 0.3611f, 0.1159f, false}, /* FLUX.1's */
        NULL,
        NULL,
        diti_chroma_places,
        sizeof(diti_chroma_state),
        diti_chroma_prepare,
        diti_chroma_begin,
        diti_chroma_embed,
        diti_chroma_run_block,
        diti_chroma_final,
        diti_chroma_write_inputs};
    return &family;
}
