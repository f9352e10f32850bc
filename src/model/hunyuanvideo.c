/* HunyuanVideo 1.0: docs/models.md 3.11. Originals:
   https://github.com/Tencent-Hunyuan/HunyuanVideo/blob/main/hyvideo/modules/models.py
   https://github.com/huggingface/diffusers/blob/v0.36.0/src/diffusers/models/transformers/transformer_hunyuan_video.py

   D is the width of the residual stream. Blocks are FLUX's. The text first passes blocks of its own, the refiner, which
   depend on the timestep. Texts stand at the end of their places, so that what is attended, the text and the video,
   lies in one piece; no row of the text has a position. */
#include "model/model.h"
#include "text/text.h"

#define DITI_HUNYUANVIDEO_MAX_BLOCKS 256u /* most blocks of both kinds */

/* ---- configuration ---- */

typedef struct diti_hunyuanvideo_config {
    uint32_t doubles, singles, refiners, heads, head_dim, width; /* width: D */
    uint32_t channels, patch;                                    /* a token is a patch of one frame */
    uint32_t text, pooled;                                       /* columns of the text encoders' outputs */
    uint32_t axes[DITI_REFINER_AXES];                            /* channels of a head that rotate by frame, y, x */
    float theta;
    bool guided;  /* distilled guidance is an input */
    uint32_t out; /* columns that the last layer makes */
} diti_hunyuanvideo_config;

/* ---- key table: names asked for here are diffusers'; the original code base calls them so ---- */

static const char *const diti_hunyuanvideo_keys[][2] = {
    {"x_embedder.proj", "img_in.proj"},
    {"context_embedder.proj_in", "txt_in.input_embedder"},
    {"context_embedder.time_text_embed.timestep_embedder.linear_1", "txt_in.t_embedder.mlp.0"},
    {"context_embedder.time_text_embed.timestep_embedder.linear_2", "txt_in.t_embedder.mlp.2"},
    {"context_embedder.time_text_embed.text_embedder", "txt_in.c_embedder"},
    {"time_text_embed.timestep_embedder.linear_1", "time_in.mlp.0"},
    {"time_text_embed.timestep_embedder.linear_2", "time_in.mlp.2"},
    {"time_text_embed.guidance_embedder.linear_1", "guidance_in.mlp.0"},
    {"time_text_embed.guidance_embedder.linear_2", "guidance_in.mlp.2"},
    {"time_text_embed.text_embedder.linear_1", "vector_in.in_layer"},
    {"time_text_embed.text_embedder.linear_2", "vector_in.out_layer"},
    {"norm_out.linear", "final_layer.adaLN_modulation.1"}, /* halves swapped */
    {"proj_out", "final_layer.linear"},
};
static const char *const diti_hunyuanvideo_double_keys[][2] = {
    {"norm1.linear", "img_mod.linear"},
    {"norm1_context.linear", "txt_mod.linear"},
    {"attn.qkv", "img_attn_qkv"}, /* rows q, k, v; three matrices in diffusers */
    {"attn.added_qkv", "txt_attn_qkv"},
    {"attn.norm_q", "img_attn_q_norm"},
    {"attn.norm_k", "img_attn_k_norm"},
    {"attn.norm_added_q", "txt_attn_q_norm"},
    {"attn.norm_added_k", "txt_attn_k_norm"},
    {"attn.to_out.0", "img_attn_proj"},
    {"attn.to_add_out", "txt_attn_proj"},
    {"ff.net.0.proj", "img_mlp.fc1"},
    {"ff.net.2", "img_mlp.fc2"},
    {"ff_context.net.0.proj", "txt_mlp.fc1"},
    {"ff_context.net.2", "txt_mlp.fc2"},
};
static const char *const diti_hunyuanvideo_single_keys[][2] = {
    {"norm.linear", "modulation.linear"},
    {"qkv_mlp", "linear1"}, /* rows q, k, v, then the feed-forward's; four matrices in diffusers */
    {"attn.norm_q", "q_norm"},
    {"attn.norm_k", "k_norm"},
    {"proj_out", "linear2"},
};
static const char *const diti_hunyuanvideo_refiner_keys[][2] = {DITI_REFINER_PAIRS};

static const diti_key_table diti_hunyuanvideo_names[DITI_KEY_TABLES] = {
    {"transformer_blocks.", "double_blocks.", diti_hunyuanvideo_double_keys, DITI_COUNT(diti_hunyuanvideo_double_keys)},
    {"single_transformer_blocks.", "single_blocks.", diti_hunyuanvideo_single_keys,
     DITI_COUNT(diti_hunyuanvideo_single_keys)},
    {DITI_REFINER, "txt_in.individual_token_refiner.blocks.", diti_hunyuanvideo_refiner_keys,
     DITI_COUNT(diti_hunyuanvideo_refiner_keys)},
    {NULL, NULL, diti_hunyuanvideo_keys, DITI_COUNT(diti_hunyuanvideo_keys)},
};

/* ---- weights ---- */

typedef struct diti_hunyuanvideo {
    diti_transformer base;
    diti_hunyuanvideo_config config;
    diti_refiner refiner;
    diti_layer patch;                     /* [D, 4 * channels] */
    diti_embedder time, guidance, pooled; /* [D, 256 or pooled], [D, D] */
    diti_stream_blocks blocks;
} diti_hunyuanvideo;

#define diti_hunyuanvideo_of(transformer) ((const diti_hunyuanvideo *)(const void *)(transformer))

/* ---- reading the configuration: what config.json does not say comes from shapes ---- */

static dit_result diti_hunyuanvideo_check(const diti_loader *loader, const diti_hunyuanvideo_config *config,
                                          dit_error *err) {
    static const diti_need needs[] = {
        {offsetof(diti_hunyuanvideo_config, doubles), "blocks of both kinds, double and single"},
        {offsetof(diti_hunyuanvideo_config, singles), "blocks of both kinds, double and single"},
        {offsetof(diti_hunyuanvideo_config, refiners), "blocks that refine the text"},
        {offsetof(diti_hunyuanvideo_config, text), "context_embedder (txt_in)"},
        {offsetof(diti_hunyuanvideo_config, pooled), "text_embedder (vector_in)"},
        {offsetof(diti_hunyuanvideo_config, head_dim), "norms of queries"},
        {offsetof(diti_hunyuanvideo_config, width), "x_embedder (img_in) or proj_out (final_layer)"},
        {offsetof(diti_hunyuanvideo_config, channels), "x_embedder (img_in) or proj_out (final_layer)"},
        {offsetof(diti_hunyuanvideo_config, out), "x_embedder (img_in) or proj_out (final_layer)"}};
    DITI_TRY(diti_config_complete(loader, config, "HunyuanVideo", needs, DITI_COUNT(needs), err));
    if (4 * config->channels != config->out) {
        return diti_loader_refuse(
            loader, err,
            "a HunyuanVideo transformer that takes %u channels and makes %u; those that continue a "
            "picture take more than a latent and are not supported",
            (unsigned)config->channels, (unsigned)config->out / 4);
    }
    if (config->channels > 256 || config->width % config->head_dim || config->head_dim > 256 || config->head_dim % 4 ||
        config->refiners > DITI_MAX_REFINERS || config->doubles + config->singles > DITI_HUNYUANVIDEO_MAX_BLOCKS ||
        config->text % 4) {
        return diti_loader_refuse(loader, err,
                                  "a HunyuanVideo transformer of %u + %u + %u blocks, heads of %u in a width of %u, %u "
                                  "columns of text and %u channels is out of range",
                                  (unsigned)config->refiners, (unsigned)config->doubles, (unsigned)config->singles,
                                  (unsigned)config->head_dim, (unsigned)config->width, (unsigned)config->text,
                                  (unsigned)config->channels);
    }
    return DIT_OK;
}

/* Some GGUF files, which have four dimensions at most, join those of the patch embedding. */
static uint32_t diti_hunyuanvideo_channels(diti_loader *loader, uint32_t width) {
    const diti_stored_tensor *patch = diti_loader_find(loader, "x_embedder.proj.weight");
    uint64_t channels = patch && width ? diti_stored_tensor_elements(patch) / 4 / width : 0;
    return channels <= 1024 ? (uint32_t)channels : 1024;
}

static dit_result diti_hunyuanvideo_read(diti_component *component, diti_loader *loader, const diti_json *json,
                                         dit_error *err) {
    static const diti_shape_key keys[] = {
        {offsetof(diti_hunyuanvideo_config, out), "proj_out.weight", 0},
        {offsetof(diti_hunyuanvideo_config, width), "context_embedder.proj_in.weight", 0},
        {offsetof(diti_hunyuanvideo_config, text), "context_embedder.proj_in.weight", 1},
        {offsetof(diti_hunyuanvideo_config, pooled), "time_text_embed.text_embedder.linear_1.weight", 1},
        {offsetof(diti_hunyuanvideo_config, head_dim), "transformer_blocks.0.attn.norm_q.weight", 0}};
    diti_hunyuanvideo_config *config = &((diti_hunyuanvideo *)(void *)component)->config;
    diti_settings settings = diti_settings_of(json, "the transformer's config.json", err);
    diti_read_shapes(loader, config, keys, DITI_COUNT(keys));
    config->channels = diti_hunyuanvideo_channels(loader, config->width);
    config->refiners = diti_loader_count(loader, DITI_REFINER, ".norm1.weight");
    config->doubles =
        diti_loader_layers(loader, &settings, "num_layers", "transformer_blocks.", ".norm1.linear.weight");
    config->singles =
        diti_loader_layers(loader, &settings, "num_single_layers", "single_transformer_blocks.", ".norm.linear.weight");
    config->guided = diti_loader_find(loader, "time_text_embed.guidance_embedder.linear_1.weight") != NULL;
    config->patch = 2;
    DITI_TRY(diti_hunyuanvideo_check(loader, config, err));
    config->heads = config->width / config->head_dim;
    config->theta = (float)diti_setting_number(&settings, "rope_theta", 256, 2, 1e9);
    if (diti_setting_size(&settings, "patch_size", 2, 16) != 2 ||
        diti_setting_size(&settings, "patch_size_t", 1, 16) != 1)
        diti_settings_refuse(&settings, DIT_ERROR_UNSUPPORTED_MODEL, "patch_size", "only 2, of one frame, is known");
    diti_settings_check_words(&settings, "qk_norm", "rms_norm");
    if (diti_setting(&settings, "image_condition_type"))
        diti_settings_refuse(&settings, DIT_ERROR_UNSUPPORTED_MODEL, "image_condition_type",
                             "a model that continues a picture (HunyuanVideo-I2V) is not supported; use HunyuanVideo");
    DITI_TRY(diti_setting_guided(&settings, config->guided, err));
    /* As published, 16, 56 and 56 of 128; the same shares of other heads. */
    return diti_setting_axes(&settings, "HunyuanVideo", "rope_axes_dim", config->head_dim, config->head_dim / 8,
                             config->head_dim / 16 * 7, DITI_REFINER_AXES, config->axes, err);
}

/* ---- loading ---- */

static void diti_hunyuanvideo_load_weights(diti_loader *loader, diti_hunyuanvideo *model) {
    const diti_hunyuanvideo_config *config = &model->config;
    uint32_t width = config->width;
    diti_load_layer(loader, &model->patch, width, 4 * config->channels, 2, "x_embedder.proj");
    model->patch.weight.kernel = 1; /* used as a matrix on flattened patches */
    diti_refiner_load(loader, &model->refiner, config->refiners, width, config->text, config->head_dim);
    diti_load_embedder(loader, &model->time, width, width, 256, "time_text_embed.timestep_embedder");
    if (config->guided)
        diti_load_embedder(loader, &model->guidance, width, width, 256, "time_text_embed.guidance_embedder");
    diti_load_embedder(loader, &model->pooled, width, width, config->pooled, "time_text_embed.text_embedder");
    diti_stream_blocks_load(loader, &model->blocks, width, config->head_dim, DITI_STREAM_MODULATED);
    diti_stream_final_load(loader, &model->blocks, width, 4 * config->channels, DITI_STREAM_MODULATED);
}

/* ---- how its language model is asked (docs/models.md 5.5) ---- */

#define DITI_HUNYUANVIDEO_VIDEO                                                                                         \
    "<|start_header_id|>system<|end_header_id|>\n\nDescribe the video by detailing the following aspects: 1. The main " \
    "content and theme of the video.2. The color, shape, size, texture, quantity, text, and spatial relationships of "  \
    "the objects.3. Actions, events, behaviors temporal relationships, physical movement changes of the objects.4. "    \
    "background environment, light, style and atmosphere.5. camera angles, movements, and transitions used in the "     \
    "video:<|eot_id|><|start_header_id|>user<|end_header_id|>\n\n"

static const diti_chat diti_hunyuanvideo_chats[] = {
    {"HunyuanVideoPipeline",
     DITI_HUNYUANVIDEO_VIDEO,
     "<|eot_id|>",
     NULL,
     DITI_HUNYUANVIDEO_VIDEO,
     "",
     256,
     false,
     0,
     {1, 0, {-3}, false},
     0},
    DITI_CHATS_END,
};

static void diti_hunyuanvideo_set_traits(diti_hunyuanvideo *model) {
    const diti_hunyuanvideo_config *config = &model->config;
    diti_model_traits *traits = &model->base.traits;
    traits->variant = "1.0";
    diti_traits_sizes(traits, traits->layers, config->width, config->heads, config->channels, config->patch);
    traits->default_size = 90;
    traits->default_columns = 160;
    traits->default_frames = 33;
    traits->default_fps = 24;
    traits->pooled_columns = config->pooled;
    diti_traits_chat(traits, DITI_ENCODER_LLAMA, &diti_hunyuanvideo_chats[0], config->text, 1);
    traits->encoders[1] = DITI_ENCODER_CLIP_L;
    traits->scheduler = "{\"_class_name\":\"FlowMatchEulerDiscreteScheduler\",\"shift\":7.0}";
    traits->uniform_sigmas = true;
    traits->default_steps = 50;
    traits->negative =
        "Aerial view, aerial view, overexposed, low quality, deformation, a poor composition, bad hands, bad "
        "teeth, bad eyes, bad limbs, distortion";
    traits->default_guidance = 1;
    traits->default_distilled = 6;
    traits->wants_guidance = config->guided;
    traits->attends_padding = traits->masks_padding = true;
    traits->joint = traits->planar = true;
}

static void diti_hunyuanvideo_load(diti_component *component, diti_loader *loader) {
    diti_hunyuanvideo *model = (diti_hunyuanvideo *)(void *)component;
    const diti_hunyuanvideo_config *config = &model->config;
    if (!diti_stream_blocks_make(&model->base, loader, &model->blocks, config->doubles, config->singles)) return;
    diti_hunyuanvideo_load_weights(loader, model);
    diti_hunyuanvideo_set_traits(model);
}

/* ---- once per clip: everything that does not depend on the latent ---- */

typedef struct diti_hunyuanvideo_state { /* prepare leaves these for the steps */
    diti_tensor sinusoids, guidance;     /* inputs F32 [steps, 256], [1, 256] */
    diti_rotation rotation;              /* [text + video tokens, head_dim / 2] */
    diti_text_order order;
    diti_refiner_state refiner;
    diti_joint_modulation modulation;
} diti_hunyuanvideo_state;

#define diti_hunyuanvideo_state_of(step) ((diti_hunyuanvideo_state *)(step)->family)

static void diti_hunyuanvideo_prepare(diti_pass *p) {
    const diti_hunyuanvideo *model = diti_hunyuanvideo_of(p->model);
    const diti_hunyuanvideo_config *config = &model->config;
    const diti_step_desc *step = p->step;
    diti_graph *graph = p->graph;
    diti_token_grid grid = diti_transformer_grid(p->model, step);
    uint32_t tokens = step->text_tokens + grid.frames * grid.rows * grid.columns;
    diti_tensor time, pooled;
    diti_hunyuanvideo_state *state = diti_hunyuanvideo_state_of(step);
    state->sinusoids = diti_tensor_input(graph, DITI_F32, step->steps, 256, "timesteps");
    diti_rotation_prepare(graph, &state->rotation, tokens, config->head_dim / 2);
    diti_text_order_prepare(p, &state->order);
    pooled = diti_embed(graph, &model->pooled, step->pooled, 0);
    if (config->guided) pooled = diti_embed_guidance(graph, &model->guidance, &state->guidance, pooled);
    time = diti_embed(graph, &model->time, state->sinusoids, 0);
    state->modulation.active = diti_joint_condition(graph, time, pooled, step->text_batch);
    diti_stream_prepare(p, &state->modulation);
    diti_refiner_prepare(p, &model->refiner, &state->order, state->sinusoids, &state->refiner);
}

/* ---- inputs ---- */

static void diti_hunyuanvideo_place(const diti_transformer *transformer, const diti_step_desc *step, uint32_t prompt,
                                    float *cosines, float *sines) {
    const diti_hunyuanvideo_config *config = &diti_hunyuanvideo_of(transformer)->config;
    (void)prompt;
    diti_refiner_turns(transformer, step, config->axes, config->theta, cosines, sines);
}

static dit_result diti_hunyuanvideo_write_inputs(const diti_transformer *transformer, diti_plan *plan,
                                                 const diti_step_desc *step, const float *timesteps, dit_error *err) {
    const diti_hunyuanvideo *model = diti_hunyuanvideo_of(transformer);
    const diti_hunyuanvideo_state *state = (const diti_hunyuanvideo_state *)step->family;
    diti_token_grid grid = diti_transformer_grid(transformer, step);
    DITI_TRY(diti_write_places(transformer, plan, step, state->rotation.cosines, state->rotation.sines, 1,
                               diti_hunyuanvideo_place, err));
    DITI_TRY(diti_text_order_write(plan, step, &state->order, &model->base.component.env, 1,
                                   grid.frames * grid.rows * grid.columns, err));
    DITI_TRY(diti_write_guidance(plan, state->guidance, step, err));
    return diti_write_timesteps(plan, state->sinusoids, step, timesteps, err);
}

/* ---- one evaluation ---- */

static void diti_hunyuanvideo_begin(diti_pass *p) {
    diti_hunyuanvideo_state *state = diti_hunyuanvideo_state_of(p->step);
    diti_rotation_begin(p, &state->rotation);
    diti_joint_begin(p, &state->modulation);
}

static diti_tensor diti_hunyuanvideo_embed(diti_pass *p) {
    const diti_hunyuanvideo *model = diti_hunyuanvideo_of(p->model);
    const diti_hunyuanvideo_state *state = diti_hunyuanvideo_state_of(p->step);
    return diti_patch_embed(p, diti_refiner_run(p, &model->refiner, &state->order, &state->refiner), &model->patch, 0);
}

/* x F32 [items * (text + video), D] is changed in place. */
static diti_tensor diti_hunyuanvideo_run_block(diti_pass *p, diti_tensor x) {
    const diti_hunyuanvideo_state *state = diti_hunyuanvideo_state_of(p->step);
    diti_stream_modulate(p, &state->modulation, p->index);
    diti_rotation_apply(p, &state->rotation);
    p->keys = diti_text_order_keys(p, &state->order);
    diti_stream_block_run(p, x);
    return x;
}

static diti_tensor diti_hunyuanvideo_final(diti_pass *p, diti_tensor x) {
    diti_stream_modulate(p, &diti_hunyuanvideo_state_of(p->step)->modulation, p->model->traits.layers);
    return diti_stream_final(p, x);
}

/* ---- where parts of such models are ---- */

#define DITI_HUNYUANVIDEO_REPOSITORY "hunyuanvideo-community/HunyuanVideo"
static const diti_place diti_hunyuanvideo_places[] = {
    {"", DIT_ROLE_TRANSFORMER, DITI_HUNYUANVIDEO_REPOSITORY ": transformer/"},
    {"", DIT_ROLE_TEXT_1, DITI_HUNYUANVIDEO_REPOSITORY ": text_encoder/"},
    {"", DIT_ROLE_TEXT_2, DITI_HUNYUANVIDEO_REPOSITORY ": text_encoder_2/"},
    {"", DIT_ROLE_TOKENIZER_1, DITI_HUNYUANVIDEO_REPOSITORY ": tokenizer/"},
    {"", DIT_ROLE_TOKENIZER_2, DITI_HUNYUANVIDEO_REPOSITORY ": tokenizer_2/"},
    {"", DIT_ROLE_VAE, DITI_HUNYUANVIDEO_REPOSITORY ": vae/"},
    {"", DIT_ROLE_SCHEDULER, DITI_HUNYUANVIDEO_REPOSITORY ": scheduler/"},
    {NULL, DIT_ROLE_NONE, NULL},
};

DIT_INTERNAL const diti_family *diti_hunyuanvideo_family(void) {
    static const diti_family family = {
        "hunyuanvideo",
        "HunyuanVideo",
        {"HunyuanVideoTransformer3DModel",
         NULL,
         {"x_embedder.proj.weight", "context_embedder.token_refiner.refiner_blocks.0.norm1.weight",
          "single_transformer_blocks.0.proj_mlp.weight", NULL},
         {"img_in.proj.bias", "txt_in.individual_token_refiner.blocks.0.norm1.weight",
          "double_blocks.0.img_attn_qkv.weight", NULL},
         {NULL, NULL}},
        {"transformer", "transformer", sizeof(diti_hunyuanvideo), diti_hunyuanvideo_read, diti_hunyuanvideo_load, NULL},
        diti_hunyuanvideo_names,
        {16, 0.476986f, 0, true},
        NULL,
        diti_hunyuanvideo_chats,
        diti_hunyuanvideo_places,
        sizeof(diti_hunyuanvideo_state),
        diti_hunyuanvideo_prepare,
        diti_hunyuanvideo_begin,
        diti_hunyuanvideo_embed,
        diti_hunyuanvideo_run_block,
        diti_hunyuanvideo_final,
        diti_hunyuanvideo_write_inputs};
    return &family;
}
