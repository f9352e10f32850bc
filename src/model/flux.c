/* FLUX.1: docs/models.md 3.4. Originals: https://github.com/black-forest-labs/flux/blob/main/src/flux/model.py and
   https://github.com/black-forest-labs/flux/blob/main/src/flux/modules/layers.py

   In double blocks text and image have weights of their own and attend each other; in single blocks, which follow, they
   share all weights, and attention and feed-forward are one layer's input. Some models read pictures beside the latent,
   and a control net (docs/models.md 3.4.2) is a smaller model whose blocks add to those of another. */
#include "model/model.h"

#define DITI_FLUX_MAX_BLOCKS 256u /* most blocks of both kinds */
#define DITI_FLUX_AXES 3u

/* ---- configuration ---- */

typedef struct diti_flux_config {
    uint32_t doubles, singles, heads, head_dim, width; /* width: D */
    uint32_t channels;                                 /* channels of the latent; its patches of 2 x 2 are the tokens */
    uint32_t condition, mask; /* channels of a picture behind those, and how many of them are a mask's */
    bool control;             /* the file is a control net's */
    uint32_t modes;           /* kinds of pictures that a control net follows, one at a time; 0: it has but one kind */
    uint32_t text, pooled;    /* columns of the text encoders' outputs */
    uint32_t axes[DITI_FLUX_AXES]; /* channels of a head that rotate with each coordinate */
    bool guided;                   /* distilled guidance is an input */
} diti_flux_config;

/* ---- key table: names asked for here are diffusers'; the original code base calls them so ---- */

static const char *const diti_flux_keys[][2] = {
    {"x_embedder", "img_in"},
    {"context_embedder", "txt_in"},
    {"time_text_embed.timestep_embedder.linear_1", "time_in.in_layer"},
    {"time_text_embed.timestep_embedder.linear_2", "time_in.out_layer"},
    {"time_text_embed.guidance_embedder.linear_1", "guidance_in.in_layer"},
    {"time_text_embed.guidance_embedder.linear_2", "guidance_in.out_layer"},
    {"time_text_embed.text_embedder.linear_1", "vector_in.in_layer"},
    {"time_text_embed.text_embedder.linear_2", "vector_in.out_layer"},
    {"norm_out.linear", "final_layer.adaLN_modulation.1"}, /* halves swapped */
    {"proj_out", "final_layer.linear"},
};
static const char *const diti_flux_double_keys[][2] = {
    {"norm1.linear", "img_mod.lin"},
    {"norm1_context.linear", "txt_mod.lin"},
    DITI_DOUBLE_KEYS,
};
static const char *const diti_flux_single_keys[][2] = {
    {"norm.linear", "modulation.lin"},
    DITI_SINGLE_KEYS,
};

static const diti_key_table diti_flux_names[DITI_KEY_TABLES] = {
    {"transformer_blocks.", "double_blocks.", diti_flux_double_keys, DITI_COUNT(diti_flux_double_keys)},
    {"single_transformer_blocks.", "single_blocks.", diti_flux_single_keys, DITI_COUNT(diti_flux_single_keys)},
    {NULL, NULL, diti_flux_keys, DITI_COUNT(diti_flux_keys)},
};

/* ---- weights ---- */

typedef struct diti_flux {
    diti_transformer base;
    diti_flux_config config;
    diti_layer patch, text;               /* [D, 4 * channels], [D, text] */
    diti_embedder time, guidance, pooled; /* [D, 256 or pooled], [D, D] */
    diti_stream_blocks blocks;
    diti_layer control;  /* a control net's [D, 4 * channels] */
    diti_weight modes;   /* a net's with several kinds of pictures: [kinds, D] */
    diti_layer *outlets; /* a control net's, one [D, D] behind each block */
} diti_flux;

#define diti_flux_of(transformer) ((const diti_flux *)(const void *)(transformer))

/* ---- reading the configuration: what config.json does not say comes from shapes ---- */

/* Behind the latent's columns of a patch stand none, as many of the picture that is followed (Canny, Depth), or
   those and 256 of the mask, a channel for each of the 8 x 8 pixels of a latent element (Fill). */
static dit_result diti_flux_check_input(const diti_loader *loader, diti_flux_config *config, uint32_t in, uint32_t out,
                                        dit_error *err) {
    const uint32_t mask = 64;
    config->channels = out / 4;
    if (in == out) return DIT_OK;
    config->condition = config->channels;
    if (in == 2 * out) return DIT_OK;
    config->mask = mask;
    config->condition += mask;
    if (in == 2 * out + 4 * mask) return DIT_OK;
    return diti_loader_refuse(
        loader, err,
        "a FLUX transformer that takes %u columns and makes %u; known ones take as many, twice as many "
        "(they follow edges or a depth map), or twice as many and 256 (they repaint a picture)",
        (unsigned)in, (unsigned)out);
}

static dit_result diti_flux_check(const diti_loader *loader, diti_flux_config *config, uint32_t in, uint32_t out,
                                  dit_error *err) {
    if (!config->doubles || (!config->singles && !config->control) || !config->width || !config->text ||
        !config->pooled || !in || !out || !config->head_dim) {
        return diti_loader_refuse(loader, err, "a FLUX transformer without %s: the file is incomplete",
                                  !config->doubles || (!config->singles && !config->control)
                                      ? "blocks of both kinds, double and single"
                                  : !config->text     ? "context_embedder (txt_in)"
                                  : !config->pooled   ? "text_embedder (vector_in)"
                                  : !config->head_dim ? "norms of queries"
                                                      : "x_embedder (img_in) or proj_out (final_layer)");
    }
    DITI_TRY(diti_flux_check_input(loader, config, in, out, err));
    if (in % 4 || out % 4 || in > 1024 || config->width % config->head_dim || config->head_dim > 256 ||
        config->head_dim % 4 || config->doubles + config->singles > DITI_FLUX_MAX_BLOCKS) {
        return diti_loader_refuse(
            loader, err,
            "a FLUX transformer of %u + %u blocks, heads of %u in a width of %u, and %u columns of "
            "patches is out of range",
            (unsigned)config->doubles, (unsigned)config->singles, (unsigned)config->head_dim, (unsigned)config->width,
            (unsigned)in);
    }
    return DIT_OK;
}

static dit_result diti_flux_read(diti_component *component, diti_loader *loader, const diti_json *json,
                                 dit_error *err) {
    static const diti_shape_key keys[] = {
        {offsetof(diti_flux_config, width), "x_embedder.weight", 0},
        {offsetof(diti_flux_config, text), "context_embedder.weight", 1},
        {offsetof(diti_flux_config, pooled), "time_text_embed.text_embedder.linear_1.weight", 1},
        {offsetof(diti_flux_config, head_dim), "transformer_blocks.0.attn.norm_q.weight", 0}};
    diti_flux_config *config = &((diti_flux *)(void *)component)->config;
    diti_settings settings = diti_settings_of(json, "the transformer's config.json", err);
    uint32_t in = diti_loader_dimension(loader, "x_embedder.weight", 1);
    uint32_t out = diti_loader_dimension(loader, "proj_out.weight", 0);
    dit_result result;
    config->control = diti_loader_find(loader, "controlnet_x_embedder.weight") != NULL;
    if (config->control) out = in;
    config->modes = diti_loader_dimension(loader, "controlnet_mode_embedder.weight", 0);
    diti_read_shapes(loader, config, keys, DITI_COUNT(keys));
    config->doubles = diti_loader_count(loader, "transformer_blocks.", ".norm1.linear.weight");
    config->singles = diti_loader_count(loader, "single_transformer_blocks.", ".norm.linear.weight");
    config->guided = diti_loader_find(loader, "time_text_embed.guidance_embedder.linear_1.weight") != NULL;
    result = diti_flux_check(loader, config, in, out, err);
    DITI_TRY(result);
    config->doubles =
        diti_loader_layers(loader, &settings, "num_layers", "transformer_blocks.", ".norm1.linear.weight");
    if (config->singles)
        config->singles = diti_loader_layers(loader, &settings, "num_single_layers", "single_transformer_blocks.",
                                             ".norm.linear.weight");
    config->heads = config->width / config->head_dim;
    DITI_TRY(diti_setting_guided(&settings, config->guided, err));
    /* As published, 16, 56 and 56 of 128; the same shares of other heads. */
    return diti_setting_axes(&settings, "FLUX", "axes_dims_rope", config->head_dim, config->head_dim / 8,
                             config->head_dim / 16 * 7, DITI_FLUX_AXES, config->axes, err);
}

/* ---- loading ---- */

static void diti_flux_load_control(diti_loader *loader, diti_flux *model) {
    const diti_flux_config *config = &model->config;
    uint32_t i, width = config->width;
    char name[48];
    diti_load_layer(loader, &model->control, width, 4 * config->channels, 1, "controlnet_x_embedder");
    if (config->modes) diti_load_table(loader, &model->modes, config->modes, width, "controlnet_mode_embedder.weight");
    for (i = 0; i < config->doubles + config->singles; i++) {
        bool single = i >= config->doubles;
        diti_format(name, sizeof name, single ? "controlnet_single_blocks.%u" : "controlnet_blocks.%u",
                    (unsigned)(single ? i - config->doubles : i));
        diti_load_layer(loader, &model->outlets[i], width, width, 1, name);
    }
}

static void diti_flux_load_weights(diti_loader *loader, diti_flux *model) {
    const diti_flux_config *config = &model->config;
    uint32_t width = config->width;
    diti_load_layer(loader, &model->patch, width, 4 * (config->channels + config->condition), 1, "x_embedder");
    diti_load_layer(loader, &model->text, width, config->text, 1, "context_embedder");
    diti_load_embedder(loader, &model->time, width, width, 256, "time_text_embed.timestep_embedder");
    if (config->guided)
        diti_load_embedder(loader, &model->guidance, width, width, 256, "time_text_embed.guidance_embedder");
    diti_load_embedder(loader, &model->pooled, width, width, config->pooled, "time_text_embed.text_embedder");
    diti_stream_blocks_load(loader, &model->blocks, width, config->head_dim, DITI_STREAM_MODULATED);
    if (config->control) {
        diti_flux_load_control(loader, model);
        return;
    }
    diti_stream_final_load(loader, &model->blocks, width, 4 * config->channels, DITI_STREAM_MODULATED);
}

/* Sizes that Kontext was trained with, narrow ones first. */
static const uint16_t diti_flux_kontext_sizes[][2] = {{672, 1568}, {688, 1504}, {720, 1456}, {752, 1392},  {800, 1328},
                                                      {832, 1248}, {880, 1184}, {944, 1104}, {1024, 1024}, {1104, 944},
                                                      {1184, 880}, {1248, 832}, {1328, 800}, {1392, 752},  {1456, 720},
                                                      {1504, 688}, {1568, 672}, {0, 0}};

static void diti_flux_set_traits(diti_flux *model) {
    const diti_flux_config *config = &model->config;
    diti_model_traits *traits = &model->base.traits;
    traits->variant = config->mask ? "fill" : config->condition ? "control" : config->guided ? "dev" : "schnell";
    diti_traits_sizes(traits, traits->layers, config->width, config->heads, config->channels, 2);
    traits->default_size = 128;
    traits->text_tokens = config->guided ? 512 : 256;
    traits->text_columns = config->text;
    traits->pooled_columns = config->pooled;
    traits->encoders[0] = DITI_ENCODER_CLIP_L;
    traits->encoders[1] = DITI_ENCODER_T5;
    traits->cache = "dbcache:front=0.14,threshold=0.08,warmup=0.16";
    traits->scheduler = config->guided ? "{\"_class_name\":\"FlowMatchEulerDiscreteScheduler\",\"shift\":3.0,"
                                         "\"use_dynamic_shifting\":true}"
                                       : "{\"_class_name\":\"FlowMatchEulerDiscreteScheduler\",\"shift\":1.0}";
    traits->uniform_sigmas = true;
    traits->default_steps = config->condition ? 50 : config->guided ? 28 : 4;
    traits->default_guidance = 1.0f;
    traits->default_distilled = config->mask ? 30.0f : config->condition ? 10.0f : 3.5f;
    traits->wants_guidance = config->guided;
    traits->condition_channels = config->condition;
    traits->repaint_channels = config->mask;
    if (!config->condition) traits->control_by = "controlnet_x_embedder.weight";
    traits->draws_control = true;
    traits->references = config->guided && !config->condition ? DITI_MAX_REFERENCES : 0;
    traits->reference_sizes = diti_flux_kontext_sizes;
    traits->attends_padding = true;
    traits->joint = traits->planar = true;
}

static void diti_flux_load(diti_component *component, diti_loader *loader) {
    diti_flux *model = (diti_flux *)(void *)component;
    const diti_flux_config *config = &model->config;
    if (config->control)
        model->outlets = (diti_layer *)diti_component_array(component, loader, config->doubles + config->singles,
                                                            sizeof *model->outlets);
    if (!diti_stream_blocks_make(&model->base, loader, &model->blocks, config->doubles, config->singles) ||
        (config->control && !model->outlets))
        return;
    diti_flux_load_weights(loader, model);
    diti_flux_set_traits(model);
    model->base.outlets = model->outlets;
    model->base.modes = config->modes;
}

/* ---- once per picture: everything that does not depend on the latent ---- */

typedef struct diti_flux_state {     /* prepare leaves these for the steps */
    diti_tensor sinusoids, guidance; /* inputs F32 [steps, 256], [1, 256] */
    diti_rotation rotation;          /* [text + image tokens, head_dim / 2] */
    diti_tensor text;                /* F32 [prompts * text tokens, D] */
    diti_tensor control;             /* F32 [image tokens, D], a control net's picture; else 0 */
    diti_tensor mode;                /* input U32 [1, 1], the kind of picture that a net is told; else 0 */
    diti_joint_modulation modulation;
} diti_flux_state;

#define diti_flux_state_of(step) ((diti_flux_state *)(step)->family)

/* F32 [prompts * text tokens, D]. A control net with several kinds of pictures reads which kind it is in front of each
   prompt: its step->text_tokens count that row. */
static diti_tensor diti_flux_text(const diti_pass *p, diti_flux_state *state) {
    const diti_flux *model = diti_flux_of(p->model);
    const diti_step_desc *step = p->step;
    diti_graph *graph = p->graph;
    uint32_t lead = model->config.modes ? 1 : 0, all = step->text_tokens, rows = all - lead, width = p->width, i;
    diti_tensor text, mode, joined;
    text = diti_tensor_view(graph, step->text, 0, step->text_batch * rows, 0, model->config.text);
    text = diti_layer_f32(graph, text, &model->text, DITI_ACTIVATION_NONE, 0, "context");
    if (!lead) return text;
    state->mode = diti_tensor_input(graph, DITI_U32, 1, 1, "kind of control picture");
    mode = diti_gather_rows(graph, &model->modes, state->mode, "kind of control picture");
    joined = diti_tensor_new(graph, DITI_F32, step->text_batch * all, width, "context");
    for (i = 0; i < step->text_batch && !diti_graph_failed(graph); i++) {
        diti_copy(graph, mode, diti_tensor_view(graph, joined, i * all, 1, 0, width), "context");
        diti_copy(graph, diti_tensor_view(graph, text, i * rows, rows, 0, width),
                  diti_tensor_view(graph, joined, i * all + 1, rows, 0, width), "context");
    }
    return joined;
}

static void diti_flux_prepare(diti_pass *p) {
    const diti_flux *model = diti_flux_of(p->model);
    const diti_flux_config *config = &model->config;
    const diti_step_desc *step = p->step;
    diti_graph *graph = p->graph;
    uint32_t tokens = step->text_tokens + diti_reference_tokens(p) + step->height / 2 * (step->width / 2);
    diti_tensor time, pooled;
    diti_flux_state *state = diti_flux_state_of(step);
    state->sinusoids = diti_tensor_input(graph, DITI_F32, step->steps, 256, "timesteps");
    diti_rotation_prepare(graph, &state->rotation, tokens, config->head_dim / 2);
    pooled = diti_embed(graph, &model->pooled, step->pooled, 0);
    if (config->guided) pooled = diti_embed_guidance(graph, &model->guidance, &state->guidance, pooled);
    time = diti_embed(graph, &model->time, state->sinusoids, 0);
    state->modulation.active = diti_joint_condition(graph, time, pooled, step->text_batch);
    diti_stream_prepare(p, &state->modulation);
    state->text = diti_flux_text(p, state);
    if (config->control)
        state->control =
            diti_layer_f32(graph, diti_control_patches(p), &model->control, DITI_ACTIVATION_NONE, 0, "control picture");
    diti_reference_lead(p, &model->patch);
}

static dit_result diti_flux_write_inputs(const diti_transformer *transformer, diti_plan *plan,
                                         const diti_step_desc *step, const float *timesteps, dit_error *err) {
    const diti_flux *model = diti_flux_of(transformer);
    const diti_flux_state *state = (const diti_flux_state *)step->family;
    dit_result result =
        diti_write_image_rotations(plan, step, model->config.axes, state->rotation.cosines, state->rotation.sines, err);
    if (result >= 0) result = diti_write_sinusoids(plan, state->sinusoids, timesteps, step->steps, 0, err);
    if (result >= 0 && state->mode)
        result = diti_plan_write(plan, state->mode, &step->control_mode, sizeof step->control_mode, err);
    return result < 0 ? result : diti_write_guidance(plan, state->guidance, step, err);
}

/* ---- one evaluation ---- */

static void diti_flux_begin(diti_pass *p) {
    diti_flux_state *state = diti_flux_state_of(p->step);
    diti_rotation_begin(p, &state->rotation);
    diti_joint_begin(p, &state->modulation);
}

static diti_tensor diti_flux_embed(diti_pass *p) {
    const diti_flux_state *state = diti_flux_state_of(p->step);
    return diti_patch_embed(p, state->text, &diti_flux_of(p->model)->patch, state->control);
}

/* x F32 [items * (text + image), D] is changed in place. */
static diti_tensor diti_flux_run_block(diti_pass *p, diti_tensor x) {
    const diti_flux_state *state = diti_flux_state_of(p->step);
    diti_stream_modulate(p, &state->modulation, p->index);
    diti_rotation_apply(p, &state->rotation);
    diti_stream_block_run(p, x);
    return x;
}

static diti_tensor diti_flux_final(diti_pass *p, diti_tensor x) {
    diti_stream_modulate(p, &diti_flux_state_of(p->step)->modulation, p->model->traits.layers);
    return diti_stream_final(p, x);
}

/* ---- where parts of such models are ---- */

#define DITI_FLUX_TEXTS "comfyanonymous/flux_text_encoders"
#define DITI_FLUX_SCHNELL "black-forest-labs/FLUX.1-schnell"
static const diti_place diti_flux_places[] = {
    {"", DIT_ROLE_TEXT_1, DITI_FLUX_TEXTS ": clip_l.safetensors"},
    {"", DIT_ROLE_TEXT_2, DITI_FLUX_TEXTS ": t5xxl_fp16.safetensors, or " DITI_T5_PLACE},
    {"", DIT_ROLE_VAE, DITI_FLUX_SCHNELL ": ae.safetensors"},
    {"", DIT_ROLE_TOKENIZER_1, DITI_FLUX_SCHNELL ": tokenizer/"},
    {"", DIT_ROLE_TOKENIZER_2, DITI_FLUX_SCHNELL ": tokenizer_2/"},
    {"", DIT_ROLE_SCHEDULER, DITI_FLUX_SCHNELL ": scheduler/"},
    {NULL, DIT_ROLE_NONE, NULL},
};

DIT_INTERNAL const diti_family *diti_flux_family(void) {
    static const diti_family family = {
        "flux",
        "FLUX.1",
        {"FluxTransformer2DModel FluxControlNetModel",
         NULL,
         {"x_embedder.weight", "transformer_blocks.0.norm1_context.linear.weight",
          "single_transformer_blocks.0.proj_mlp.weight", "time_text_embed.text_embedder.linear_1.weight"},
         {"img_in.weight", "double_blocks.0.img_mod.lin.weight", "single_blocks.0.linear1.weight",
          "vector_in.in_layer.weight"},
         {NULL, NULL}},
        {"transformer", "transformer", sizeof(diti_flux), diti_flux_read, diti_flux_load, NULL},
        diti_flux_names,
        {16, 0.3611f, 0.1159f, true},
        NULL,
        NULL,
        diti_flux_places,
        sizeof(diti_flux_state),
        diti_flux_prepare,
        diti_flux_begin,
        diti_flux_embed,
        diti_flux_run_block,
        diti_flux_final,
        diti_flux_write_inputs};
    return &family;
}
