/* HunyuanVideo 1.5: docs/models.md 3.11.1. Originals:
   https://github.com/Tencent-Hunyuan/HunyuanVideo-1.5/blob/main/hyvideo/models/transformers/hunyuanvideo_1_5_transformer.py
   https://github.com/huggingface/diffusers/blob/v0.42.1/src/diffusers/models/transformers/transformer_hunyuan_video15.py

   FLUX's double blocks alone, modulated by the timestep. The text is what version 1.0's refiner makes of a language
   model's states, and what ByT5 says of the texts in quotes, and SigLIP of a picture, which stand behind it in the same
   places. Rows that count stand at the end of their places, so that what is attended, the text and the video, lies in
   one piece; no row of the text has a position. */
#include "model/model.h"
#include "text/text.h"

#define DITI_HUNYUANVIDEO15_MAX_BLOCKS 256u

/* ---- configuration ---- */

typedef struct diti_hunyuanvideo15_config {
    uint32_t blocks, refiners, heads, head_dim, width; /* width: D */
    uint32_t channels;                                 /* channels of the latent, an element of which is a token */
    uint32_t text, glyphs, glyph_hidden;               /* columns of the text encoders' outputs; of the projection */
    uint32_t picture;                                  /* columns of an image encoder's output */
    uint32_t axes[DITI_REFINER_AXES];                  /* channels of a head that rotate by frame, y, x */
    float theta;
    uint32_t target; /* pixels along the side of a square as large as the frames; 0: unknown */
    bool flow;       /* MeanFlow: the timestep of the next step is an input, too; the published model takes 8 steps */
    bool moves;      /* a picture; its tensors are those of a model that makes clips of texts */
    bool told;       /* config.json says which of both it does */
} diti_hunyuanvideo15_config;

/* ---- key table: names asked for here are diffusers'; the original code base calls them so ---- */

static const char *const diti_hunyuanvideo15_keys[][2] = {
    {"x_embedder.proj", "img_in.proj"},
    {"context_embedder.proj_in", "txt_in.input_embedder"},
    {"context_embedder.time_text_embed.timestep_embedder.linear_1", "txt_in.t_embedder.mlp.0"},
    {"context_embedder.time_text_embed.timestep_embedder.linear_2", "txt_in.t_embedder.mlp.2"},
    {"context_embedder.time_text_embed.text_embedder", "txt_in.c_embedder"},
    {"context_embedder_2.norm", "byt5_in.layernorm"},
    {"context_embedder_2.linear_1", "byt5_in.fc1"},
    {"context_embedder_2.linear_2", "byt5_in.fc2"},
    {"context_embedder_2.linear_3", "byt5_in.fc3"},
    {"image_embedder.norm_in", "vision_in.proj.0"},
    {"image_embedder.linear_1", "vision_in.proj.1"},
    {"image_embedder.linear_2", "vision_in.proj.3"},
    {"image_embedder.norm_out", "vision_in.proj.4"},
    {"time_embed.timestep_embedder.linear_1", "time_in.mlp.0"},
    {"time_embed.timestep_embedder.linear_2", "time_in.mlp.2"},
    {"time_embed.timestep_embedder_r.linear_1", "time_r_in.mlp.0"},
    {"time_embed.timestep_embedder_r.linear_2", "time_r_in.mlp.2"},
    {"cond_type_embed", "cond_type_embedding"},
    {"norm_out.linear", "final_layer.adaLN_modulation.1"}, /* halves swapped */
    {"proj_out", "final_layer.linear"},
};
static const char *const diti_hunyuanvideo15_block_keys[][2] = {
    {"norm1.linear", "img_mod.linear"},
    {"norm1_context.linear", "txt_mod.linear"},
    {"attn.qkv", "img_attn_qkv"}, /* ComfyUI's files have one matrix, Tencent's three */
    {"attn.added_qkv", "txt_attn_qkv"},
    {"attn.to_q", "img_attn_q"},
    {"attn.to_k", "img_attn_k"},
    {"attn.to_v", "img_attn_v"},
    {"attn.add_q_proj", "txt_attn_q"},
    {"attn.add_k_proj", "txt_attn_k"},
    {"attn.add_v_proj", "txt_attn_v"},
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
static const char *const diti_hunyuanvideo15_refiner_keys[][2] = {DITI_REFINER_PAIRS};

static const diti_key_table diti_hunyuanvideo15_names[DITI_KEY_TABLES] = {
    {"transformer_blocks.", "double_blocks.", diti_hunyuanvideo15_block_keys,
     DITI_COUNT(diti_hunyuanvideo15_block_keys)},
    {DITI_REFINER, "txt_in.individual_token_refiner.blocks.", diti_hunyuanvideo15_refiner_keys,
     DITI_COUNT(diti_hunyuanvideo15_refiner_keys)},
    {NULL, NULL, diti_hunyuanvideo15_keys, DITI_COUNT(diti_hunyuanvideo15_keys)},
};

/* ---- weights ---- */

#define DITI_HUNYUANVIDEO15_GLYPH_LAYERS 3u
typedef struct diti_hunyuanvideo15 {
    diti_transformer base;
    diti_hunyuanvideo15_config config;
    diti_refiner refiner;
    diti_layer glyph_norm;                              /* [glyphs] */
    diti_layer glyph[DITI_HUNYUANVIDEO15_GLYPH_LAYERS]; /* [glyph_hidden, glyphs], then square, [D, glyph_hidden] */
    diti_layer picture_norms[2], picture[2];            /* [picture], [D]; [picture, picture], [D, picture] */
    diti_weight kinds;                                  /* F32 [3, D]: added to text, to glyphs, to a picture's rows */
    diti_layer patch;                                   /* [D, 2 * channels + 1] */
    diti_embedder time, next;                           /* [D, 256], [D, D] */
    diti_stream_blocks blocks;
} diti_hunyuanvideo15;

#define diti_hunyuanvideo15_of(transformer) ((const diti_hunyuanvideo15 *)(const void *)(transformer))

/* ---- reading the configuration: what config.json does not say comes from shapes ---- */

static dit_result diti_hunyuanvideo15_check(const diti_loader *loader, const diti_hunyuanvideo15_config *config,
                                            uint32_t in, dit_error *err) {
    static const diti_need needs[] = {
        {offsetof(diti_hunyuanvideo15_config, blocks), "blocks"},
        {offsetof(diti_hunyuanvideo15_config, refiners), "blocks that refine the text"},
        {offsetof(diti_hunyuanvideo15_config, width), "context_embedder (txt_in)"},
        {offsetof(diti_hunyuanvideo15_config, text), "context_embedder (txt_in)"},
        {offsetof(diti_hunyuanvideo15_config, glyphs), "context_embedder_2 (byt5_in)"},
        {offsetof(diti_hunyuanvideo15_config, glyph_hidden), "context_embedder_2 (byt5_in)"},
        {offsetof(diti_hunyuanvideo15_config, picture), "image_embedder (vision_in)"},
        {offsetof(diti_hunyuanvideo15_config, head_dim), "norms of queries"},
        {offsetof(diti_hunyuanvideo15_config, channels), "proj_out (final_layer)"}};
    DITI_TRY(diti_config_complete(loader, config, "HunyuanVideo 1.5", needs, DITI_COUNT(needs), err));
    if (in != 2 * config->channels + 1)
        return diti_loader_refuse(
            loader, err,
            "a HunyuanVideo 1.5 transformer that takes %u channels and makes %u: only the latent, a "
            "picture's and a mask are known; those that enlarge clips (sr) are not supported",
            (unsigned)in, (unsigned)config->channels);
    if (config->channels > 128 || config->width % config->head_dim || config->head_dim > 256 || config->head_dim % 4 ||
        config->refiners > DITI_MAX_REFINERS || config->blocks > DITI_HUNYUANVIDEO15_MAX_BLOCKS || config->text % 4 ||
        config->glyphs % 4)
        return diti_loader_refuse(
            loader, err,
            "a HunyuanVideo 1.5 transformer of %u + %u blocks, heads of %u in a width of %u, %u and %u "
            "columns of text and %u channels is out of range",
            (unsigned)config->refiners, (unsigned)config->blocks, (unsigned)config->head_dim, (unsigned)config->width,
            (unsigned)config->text, (unsigned)config->glyphs, (unsigned)config->channels);
    return DIT_OK;
}

/* Tencent's config.json has "ideal_resolution": "720p" and "ideal_task": "t2v". */
static void diti_hunyuanvideo15_read_task(diti_settings *settings, diti_hunyuanvideo15_config *config) {
    const char *size = diti_setting_text(settings, "ideal_resolution", "");
    const char *key = diti_setting(settings, "task_type") ? "task_type" : "ideal_task";
    const char *task = diti_setting_text(settings, key, config->flow ? "i2v" : "t2v");
    config->target = diti_equal(size, "480p") ? 640 : diti_equal(size, "720p") ? 960 : 0;
    if (diti_setting(settings, "target_size")) config->target = diti_setting_size(settings, "target_size", 640, 4096);
    config->moves = diti_equal(task, "i2v");
    config->told = diti_setting(settings, key) != NULL;
    if (!config->moves && !diti_equal(task, "t2v"))
        diti_settings_refuse(settings, DIT_ERROR_UNSUPPORTED_MODEL, key,
                             "only models that make clips of texts (t2v) or of a picture (i2v) are supported");
}

static dit_result diti_hunyuanvideo15_read(diti_component *component, diti_loader *loader, const diti_json *json,
                                           dit_error *err) {
    static const diti_shape_key keys[] = {
        {offsetof(diti_hunyuanvideo15_config, width), "context_embedder.proj_in.weight", 0},
        {offsetof(diti_hunyuanvideo15_config, text), "context_embedder.proj_in.weight", 1},
        {offsetof(diti_hunyuanvideo15_config, glyph_hidden), "context_embedder_2.linear_1.weight", 0},
        {offsetof(diti_hunyuanvideo15_config, glyphs), "context_embedder_2.linear_1.weight", 1},
        {offsetof(diti_hunyuanvideo15_config, picture), "image_embedder.linear_1.weight", 1},
        {offsetof(diti_hunyuanvideo15_config, channels), "proj_out.weight", 0},
        {offsetof(diti_hunyuanvideo15_config, head_dim), "transformer_blocks.0.attn.norm_q.weight", 0}};
    diti_hunyuanvideo15_config *config = &((diti_hunyuanvideo15 *)(void *)component)->config;
    diti_settings settings = diti_settings_of(json, "the transformer's config.json", err);
    const diti_stored_tensor *patch = diti_loader_find(loader, "x_embedder.proj.weight");
    uint64_t in;
    diti_read_shapes(loader, config, keys, DITI_COUNT(keys));
    config->refiners = diti_loader_count(loader, DITI_REFINER, ".norm1.weight");
    config->blocks = diti_loader_layers(loader, &settings, "num_layers", "transformer_blocks.", ".norm1.linear.weight");
    config->flow = diti_loader_find(loader, "time_embed.timestep_embedder_r.linear_1.weight") != NULL;
    in = patch && config->width ? diti_stored_tensor_elements(patch) / config->width : 0;
    DITI_TRY(diti_hunyuanvideo15_check(loader, config, in < 4096 ? (uint32_t)in : 4096, err));
    config->heads = config->width / config->head_dim;
    config->theta = (float)diti_setting_number(&settings, "rope_theta", 256, 2, 1e9);
    diti_settings_check_words(&settings, "qk_norm", "rms_norm");
    diti_hunyuanvideo15_read_task(&settings, config);
    DITI_TRY(settings.result);
    /* As published, 16, 56 and 56 of 128; the same shares of other heads. */
    return diti_setting_axes(&settings, "HunyuanVideo 1.5", "rope_axes_dim", config->head_dim, config->head_dim / 8,
                             config->head_dim / 16 * 7, DITI_REFINER_AXES, config->axes, err);
}

/* ---- loading ---- */

static void diti_hunyuanvideo15_load_weights(diti_loader *loader, diti_hunyuanvideo15 *model) {
    const diti_hunyuanvideo15_config *config = &model->config;
    uint32_t width = config->width, hidden = config->glyph_hidden;
    diti_load_layer(loader, &model->patch, width, 2 * config->channels + 1, 1, "x_embedder.proj");
    diti_refiner_load(loader, &model->refiner, config->refiners, width, config->text, config->head_dim);
    diti_load_norm(loader, &model->glyph_norm, config->glyphs, "context_embedder_2.norm");
    diti_load_layer(loader, &model->glyph[0], hidden, config->glyphs, 1, "context_embedder_2.linear_1");
    diti_load_layer(loader, &model->glyph[1], hidden, hidden, 1, "context_embedder_2.linear_2");
    diti_load_layer(loader, &model->glyph[2], width, hidden, 1, "context_embedder_2.linear_3");
    diti_load_norm(loader, &model->picture_norms[0], config->picture, "image_embedder.norm_in");
    diti_load_layer(loader, &model->picture[0], config->picture, config->picture, 1, "image_embedder.linear_1");
    diti_load_layer(loader, &model->picture[1], width, config->picture, 1, "image_embedder.linear_2");
    diti_load_norm(loader, &model->picture_norms[1], width, "image_embedder.norm_out");
    diti_load_vector(loader, &model->kinds, 3, width, "cond_type_embed.weight");
    diti_load_embedder(loader, &model->time, width, width, 256, "time_embed.timestep_embedder");
    if (config->flow) diti_load_embedder(loader, &model->next, width, width, 256, "time_embed.timestep_embedder_r");
    diti_stream_blocks_load(loader, &model->blocks, width, config->head_dim, DITI_STREAM_MODULATED);
    diti_stream_final_load(loader, &model->blocks, width, config->channels, DITI_STREAM_MODULATED);
}

/* ---- how its language model is asked (docs/models.md 5.5): Python joins the lines with the blanks before them ---- */

#define DITI_HUNYUANVIDEO15_LINE "        "
#define DITI_HUNYUANVIDEO15_VIDEO                                                                                      \
    DITI_CHAT_SYSTEM                                                                                                   \
    "You are a helpful assistant. Describe the video by detailing the following aspects: " DITI_HUNYUANVIDEO15_LINE    \
    "1. The main content and theme of the video. " DITI_HUNYUANVIDEO15_LINE                                            \
    "2. The color, shape, size, texture, quantity, text, and spatial relationships of the "                            \
    "objects. " DITI_HUNYUANVIDEO15_LINE                                                                               \
    "3. Actions, events, behaviors temporal relationships, physical movement changes of the "                          \
    "objects. " DITI_HUNYUANVIDEO15_LINE                                                                               \
    "4. background environment, light, style and atmosphere. " DITI_HUNYUANVIDEO15_LINE                                \
    "5. camera angles, movements, and transitions used in the video.<|im_end|>\n" DITI_CHAT_USER

static const diti_chat diti_hunyuanvideo15_chats[] = {
    {"HunyuanVideo15Pipeline HunyuanVideo15ImageToVideoPipeline",
     DITI_HUNYUANVIDEO15_VIDEO,
     DITI_CHAT_ANSWER,
     NULL,
     DITI_HUNYUANVIDEO15_VIDEO,
     " ",
     1000,
     false,
     0,
     {1, 0, {-3}, false},
     0},
    DITI_CHATS_END,
};

/* Such models have the tensors of those for texts. */
static void diti_hunyuanvideo15_move(diti_model_traits *traits) {
    bool large = traits->default_columns > 53;
    traits->variant = large ? "i2v-720p" : "i2v-480p";
    if (large) traits->scheduler = "{\"_class_name\":\"FlowMatchEulerDiscreteScheduler\",\"shift\":7.0}";
    traits->condition_channels = traits->latent_channels + 1;
    traits->marks_given = traits->means = true;
    traits->pictures_seen = 1;
}

/* A file in the transformer's place has no config.json, and the folder around it tells what it does. */
static void diti_hunyuanvideo15_settle(diti_model_traits *traits, const diti_json *index, const diti_json *scheduler) {
    (void)scheduler;
    if (diti_equal(diti_json_string(index, "_class_name", ""), "HunyuanVideo15ImageToVideoPipeline"))
        diti_hunyuanvideo15_move(traits);
}

static void diti_hunyuanvideo15_set_traits(diti_hunyuanvideo15 *model) {
    const diti_hunyuanvideo15_config *config = &model->config;
    diti_model_traits *traits = &model->base.traits;
    bool large = config->target > 800;
    traits->variant = !config->target ? "1.5" : large ? "720p" : "480p";
    diti_traits_sizes(traits, traits->layers, config->width, config->heads, config->channels, 1);
    traits->default_size = large ? 45 : 30;
    traits->default_columns = large ? 80 : 53;
    traits->default_frames = 31;
    traits->default_fps = 24;
    traits->text2_tokens = 256;
    traits->text2_columns = config->glyphs;
    diti_traits_chat(traits, DITI_ENCODER_QWEN2_VL, &diti_hunyuanvideo15_chats[0], config->text, 1);
    traits->encoders[1] = DITI_ENCODER_BYT5;
    traits->scheduler = large ? "{\"_class_name\":\"FlowMatchEulerDiscreteScheduler\",\"shift\":9.0}"
                              : "{\"_class_name\":\"FlowMatchEulerDiscreteScheduler\",\"shift\":5.0}";
    traits->uniform_sigmas = true;
    traits->default_steps = 50;
    traits->default_guidance = 6;
    traits->attends_padding = traits->masks_padding = true;
    traits->joint = traits->planar = true;
    traits->seen_columns = config->picture;
    traits->settle = diti_hunyuanvideo15_settle;
    if (!config->told) traits->see = diti_hunyuanvideo15_move;
    if (config->moves) diti_hunyuanvideo15_move(traits);
    if (!config->flow) return;
    traits->default_steps = 8;
    traits->default_guidance = 1;
    traits->scheduler = "{\"_class_name\":\"FlowMatchEulerDiscreteScheduler\",\"shift\":7.0}";
}

static void diti_hunyuanvideo15_load(diti_component *component, diti_loader *loader) {
    diti_hunyuanvideo15 *model = (diti_hunyuanvideo15 *)(void *)component;
    if (!diti_stream_blocks_make(&model->base, loader, &model->blocks, model->config.blocks, 0)) return;
    diti_hunyuanvideo15_load_weights(loader, model);
    diti_hunyuanvideo15_set_traits(model);
}

/* ---- once per clip: everything that does not depend on the latent ---- */

typedef struct diti_hunyuanvideo15_state { /* prepare leaves these for the steps */
    diti_tensor sinusoids, next;           /* inputs F32 [steps, 256]: of this step, of the one behind it */
    diti_rotation rotation;                /* [text + video tokens, head_dim / 2] */
    diti_text_order order;
    diti_tensor places; /* input U32 [1, prompts * (text tokens + those behind)]: rows of the text, then of the glyphs,
                           then of the picture; 0: there are neither glyphs nor a picture */
    diti_tensor glyphs; /* F32 [prompts * text2 tokens, D]; 0: there are none */
    diti_tensor seen;   /* F32 [tokens, D]: of the picture; 0: there is none */
    uint32_t seen_rows;
    diti_refiner_state refiner;
    diti_joint_modulation modulation;
} diti_hunyuanvideo15_state;

#define diti_hunyuanvideo15_state_of(step) ((diti_hunyuanvideo15_state *)(step)->family)

/* Row number `kind` of the embedding of kinds: F32 [1, D]. */
static diti_tensor diti_hunyuanvideo15_kind(const diti_pass *p, uint32_t kind) {
    diti_tensor table = diti_tensor_weight(p->graph, &diti_hunyuanvideo15_of(p->model)->kinds, 0);
    return diti_tensor_view(p->graph, table, kind, 1, 0, p->width);
}

/* The quoted texts as blocks read them, from what ByT5 says: F32 [prompts * text2 tokens, D]. */
static diti_tensor diti_hunyuanvideo15_glyphs(const diti_pass *p) {
    const diti_hunyuanvideo15 *model = diti_hunyuanvideo15_of(p->model);
    diti_graph *graph = p->graph;
    uint32_t rows = diti_tensor_rows(graph, p->step->text2), i;
    diti_tensor x = diti_tensor_view(graph, p->step->text2, 0, rows, 0, model->config.glyphs);
    x = diti_layer_norm(graph, x, &model->glyph_norm, 1e-5f, "glyph_norm");
    for (i = 0; i + 1 < DITI_HUNYUANVIDEO15_GLYPH_LAYERS; i++)
        x = diti_layer_run(graph, x, &model->glyph[i], DITI_ACTIVATION_GELU_ERF, "glyph_in");
    x = diti_layer_f32(graph, x, &model->glyph[i], DITI_ACTIVATION_NONE, 0, "glyphs");
    return diti_add_rows(graph, x, diti_hunyuanvideo15_kind(p, 1), 0, "glyphs");
}

/* The picture as blocks read it, from what the image encoder says: F32 [tokens, D]. */
static diti_tensor diti_hunyuanvideo15_picture(const diti_pass *p) {
    const diti_hunyuanvideo15 *model = diti_hunyuanvideo15_of(p->model);
    diti_graph *graph = p->graph;
    diti_tensor x = diti_layer_norm(graph, p->step->seen, &model->picture_norms[0], 1e-5f, "picture_norm");
    x = diti_layer_run(graph, x, &model->picture[0], DITI_ACTIVATION_GELU_ERF, "picture_in");
    x = diti_layer_f32(graph, x, &model->picture[1], DITI_ACTIVATION_NONE, 0, "picture");
    x = diti_layer_norm(graph, x, &model->picture_norms[1], 1e-5f, "picture_norm");
    return diti_add_rows(graph, x, diti_hunyuanvideo15_kind(p, 2), 0, "picture");
}

static void diti_hunyuanvideo15_prepare(diti_pass *p) {
    const diti_hunyuanvideo15 *model = diti_hunyuanvideo15_of(p->model);
    const diti_hunyuanvideo15_config *config = &model->config;
    diti_step_desc *step = p->step;
    diti_graph *graph = p->graph;
    diti_token_grid grid = diti_transformer_grid(p->model, step);
    diti_hunyuanvideo15_state *state = diti_hunyuanvideo15_state_of(step);
    uint32_t seen = step->seen ? diti_tensor_rows(graph, step->seen) : 0;
    uint32_t texts = step->text_tokens + step->text2_tokens + seen;
    uint32_t tokens = texts + grid.frames * grid.rows * grid.columns;
    diti_tensor time;
    state->seen_rows = seen;
    step->behind_text = step->text2_tokens + seen;
    state->sinusoids = diti_tensor_input(graph, DITI_F32, step->steps, 256, "timesteps");
    diti_rotation_prepare(graph, &state->rotation, tokens, config->head_dim / 2);
    diti_text_order_prepare(p, &state->order);
    time = diti_embed(graph, &model->time, state->sinusoids, 0);
    if (config->flow) {
        state->next = diti_tensor_input(graph, DITI_F32, step->steps, 256, "next timesteps");
        time = diti_add_rows(graph, time, diti_embed(graph, &model->next, state->next, 0), 0, "next_time");
    }
    state->modulation.shared = true;
    state->modulation.active = diti_joint_condition(graph, time, 0, 1);
    diti_stream_prepare(p, &state->modulation);
    diti_refiner_prepare(p, &model->refiner, &state->order, state->sinusoids, &state->refiner);
    if (!step->behind_text) return;
    state->places = diti_tensor_input(graph, DITI_U32, 1, step->text_batch * texts, "places of text");
    if (step->text2_tokens) state->glyphs = diti_hunyuanvideo15_glyphs(p);
    if (seen) state->seen = diti_hunyuanvideo15_picture(p);
}

/* ---- inputs ---- */

static void diti_hunyuanvideo15_place(const diti_transformer *transformer, const diti_step_desc *step, uint32_t prompt,
                                      float *cosines, float *sines) {
    const diti_hunyuanvideo15_config *config = &diti_hunyuanvideo15_of(transformer)->config;
    (void)prompt;
    diti_refiner_turns(transformer, step, config->axes, config->theta, cosines, sines);
}

/* A prompt's place: rows of none, the picture, its glyphs, its text; and the keys of its items. */
static dit_result diti_hunyuanvideo15_write_places(const diti_hunyuanvideo15 *model, diti_plan *plan,
                                                   const diti_step_desc *step, uint32_t image, dit_error *err) {
    const diti_env *env = &model->base.component.env;
    const diti_hunyuanvideo15_state *state = (const diti_hunyuanvideo15_state *)step->family;
    uint32_t prompts = step->text_batch, texts = step->text_tokens, all = texts + step->behind_text;
    uint32_t items = step->branches * step->batch, most = state->glyphs ? model->base.traits.text2_tokens : 0, i, k;
    uint32_t seen = state->seen_rows, first_seen = prompts * (texts + most);
    size_t count = (size_t)prompts * all, words = (size_t)items * DITI_ITEM_WORDS;
    uint32_t *places = (uint32_t *)diti_alloc_zero(env, (count + words) * sizeof *places), *keys;
    dit_result result;
    if (!places) return diti_fail_memory(err, "the text's rows");
    keys = places + count;
    for (i = 0; i < items; i++) {
        uint32_t prompt = i / (items / prompts), length = diti_text_order_length(step, prompt, 1);
        uint32_t glyphs = step->text2_lengths ? step->text2_lengths[prompt] : step->text2_tokens;
        uint32_t pad = all - length - glyphs - seen, *place = places + (size_t)prompt * all;
        for (k = 0; k < pad; k++) *place++ = first_seen + seen; /* zeros */
        for (k = 0; k < seen; k++) *place++ = first_seen + k;
        for (k = 0; k < glyphs; k++) *place++ = prompts * texts + prompt * most + k;
        for (k = 0; k < length; k++) *place++ = (prompt + 1) * texts - length + k;
        keys[i * DITI_ITEM_WORDS + 2] = pad;
        keys[i * DITI_ITEM_WORDS + 3] = all - pad + image;
    }
    result = diti_plan_write(plan, state->places, places, count * sizeof *places, err);
    if (result >= 0 && state->order.keys)
        result = diti_plan_write(plan, state->order.keys, keys, words * sizeof *keys, err);
    diti_free(env, places);
    return result;
}

static dit_result diti_hunyuanvideo15_write_inputs(const diti_transformer *transformer, diti_plan *plan,
                                                   const diti_step_desc *step, const float *timesteps, dit_error *err) {
    const diti_hunyuanvideo15 *model = diti_hunyuanvideo15_of(transformer);
    const diti_hunyuanvideo15_state *state = (const diti_hunyuanvideo15_state *)step->family;
    diti_token_grid grid = diti_transformer_grid(transformer, step);
    uint32_t image = grid.frames * grid.rows * grid.columns;
    DITI_TRY(diti_write_places(transformer, plan, step, state->rotation.cosines, state->rotation.sines, 1,
                               diti_hunyuanvideo15_place, err));
    DITI_TRY(diti_text_order_write(plan, step, &state->order, &model->base.component.env, 1, image, err));
    if (state->places) DITI_TRY(diti_hunyuanvideo15_write_places(model, plan, step, image, err));
    if (state->next) DITI_TRY(diti_write_next_timesteps(plan, state->next, step, timesteps, err));
    return diti_write_timesteps(plan, state->sinusoids, step, timesteps, err);
}

/* ---- one evaluation ---- */

static void diti_hunyuanvideo15_begin(diti_pass *p) {
    diti_hunyuanvideo15_state *state = diti_hunyuanvideo15_state_of(p->step);
    diti_rotation_begin(p, &state->rotation);
    diti_joint_begin(p, &state->modulation);
}

/* Rows of a text as the next rows of a table. */
static uint32_t diti_hunyuanvideo15_put(diti_graph *graph, diti_tensor from, diti_tensor table, uint32_t at) {
    uint32_t rows = from ? diti_tensor_rows(graph, from) : 0;
    if (rows)
        diti_copy(graph, from, diti_tensor_view(graph, table, at, rows, 0, diti_tensor_columns(graph, from)),
                  "places of text");
    return at + rows;
}

/* The text as blocks read it: F32 [prompts * (text tokens + those behind), D], padding in front. */
static diti_tensor diti_hunyuanvideo15_text(const diti_pass *p) {
    const diti_hunyuanvideo15 *model = diti_hunyuanvideo15_of(p->model);
    const diti_hunyuanvideo15_state *state = diti_hunyuanvideo15_state_of(p->step);
    diti_graph *graph = p->graph;
    diti_tensor x = diti_refiner_run(p, &model->refiner, &state->order, &state->refiner), all;
    uint32_t rows = diti_tensor_rows(graph, x), glyphs = state->glyphs ? diti_tensor_rows(graph, state->glyphs) : 0;
    if (!state->places) return diti_add_rows(graph, x, diti_hunyuanvideo15_kind(p, 0), x, "kind");
    all = diti_tensor_new(graph, DITI_F32, rows + glyphs + state->seen_rows, p->width, "places of text");
    diti_add_rows(graph, x, diti_hunyuanvideo15_kind(p, 0), diti_tensor_view(graph, all, 0, rows, 0, p->width), "kind");
    diti_hunyuanvideo15_put(graph, state->seen, all, diti_hunyuanvideo15_put(graph, state->glyphs, all, rows));
    return diti_gather_tensor(graph, all, state->places, "places of text");
}

static diti_tensor diti_hunyuanvideo15_embed(diti_pass *p) {
    return diti_patch_embed(p, diti_hunyuanvideo15_text(p), &diti_hunyuanvideo15_of(p->model)->patch, 0);
}

/* x F32 [items * (text + video), D] is changed in place. */
static diti_tensor diti_hunyuanvideo15_run_block(diti_pass *p, diti_tensor x) {
    const diti_hunyuanvideo15_state *state = diti_hunyuanvideo15_state_of(p->step);
    diti_stream_modulate(p, &state->modulation, p->index);
    diti_rotation_apply(p, &state->rotation);
    p->keys = diti_text_order_keys(p, &state->order);
    diti_stream_block_run(p, x);
    return x;
}

static diti_tensor diti_hunyuanvideo15_final(diti_pass *p, diti_tensor x) {
    diti_stream_modulate(p, &diti_hunyuanvideo15_state_of(p->step)->modulation, p->model->traits.layers);
    return diti_stream_final(p, x);
}

/* ---- where parts of such models are ---- */

#define DITI_HUNYUANVIDEO15_REPOSITORY "hunyuanvideo-community/HunyuanVideo-1.5-Diffusers-480p_t2v"
static const diti_place diti_hunyuanvideo15_places[] = {
    {"", DIT_ROLE_TRANSFORMER, DITI_HUNYUANVIDEO15_REPOSITORY ": transformer/"},
    {"", DIT_ROLE_TEXT_1, DITI_HUNYUANVIDEO15_REPOSITORY ": text_encoder/"},
    {"", DIT_ROLE_TEXT_2, DITI_HUNYUANVIDEO15_REPOSITORY ": text_encoder_2/"},
    {"", DIT_ROLE_TOKENIZER_1, DITI_HUNYUANVIDEO15_REPOSITORY ": tokenizer/"},
    {"", DIT_ROLE_VAE, DITI_HUNYUANVIDEO15_REPOSITORY ": vae/"},
    {"", DIT_ROLE_SCHEDULER, DITI_HUNYUANVIDEO15_REPOSITORY ": scheduler/"},
    {"", DIT_ROLE_IMAGE_ENCODER, "hunyuanvideo-community/HunyuanVideo-1.5-Diffusers-480p_i2v: image_encoder/"},
    {NULL, DIT_ROLE_NONE, NULL},
};

DIT_INTERNAL const diti_family *diti_hunyuanvideo15_family(void) {
    static const diti_family family = {
        "hunyuanvideo15",
        "HunyuanVideo 1.5",
        {"HunyuanVideo15Transformer3DModel HunyuanVideo_1_5_DiffusionTransformer",
         NULL,
         {"cond_type_embed.weight", "context_embedder_2.norm.weight", "image_embedder.norm_in.weight", NULL},
         {"cond_type_embedding.weight", "byt5_in.layernorm.weight", "vision_in.proj.0.weight", NULL},
         {NULL, NULL}},
        {"transformer", "transformer", sizeof(diti_hunyuanvideo15), diti_hunyuanvideo15_read, diti_hunyuanvideo15_load,
         NULL},
        diti_hunyuanvideo15_names,
        {32, 1.03682f, 0, true},
        NULL,
        diti_hunyuanvideo15_chats,
        diti_hunyuanvideo15_places,
        sizeof(diti_hunyuanvideo15_state),
        diti_hunyuanvideo15_prepare,
        diti_hunyuanvideo15_begin,
        diti_hunyuanvideo15_embed,
        diti_hunyuanvideo15_run_block,
        diti_hunyuanvideo15_final,
        diti_hunyuanvideo15_write_inputs};
    return &family;
}
