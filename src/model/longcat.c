/* LongCat-Image and Ovis-Image: docs/models.md 3.24 and 3.25. Originals: in
   https://github.com/huggingface/diffusers/blob/v0.42.1/src/diffusers/models/transformers/ the files
   transformer_longcat_image.py and transformer_ovis_image.py

   FLUX.1's blocks, modulated by the timestep alone, and text that stands on a diagonal of places. LongCat-Image has the
   image's grid behind the text's 512 places, in a plane of its own, and that of a picture to edit in another.
   Ovis-Image has it at the origin, norms its text, which zeros fill up to 256 rows, and gates its feed-forwards. */
#include "model/model.h"
#include "text/text.h"

#define DITI_LONGCAT_MAX_BLOCKS 256u /* most blocks of both kinds */
#define DITI_LONGCAT_AXES 3u

/* ---- configuration ---- */

typedef struct diti_longcat_config {
    uint32_t doubles, singles, heads, head_dim, width; /* width: D */
    uint32_t channels;                                 /* channels of the latent; its patches of 2 x 2 are the tokens */
    uint32_t text;                                     /* columns of the text encoder's output */
    uint32_t axes[DITI_LONGCAT_AXES];                  /* channels of a head that rotate with each coordinate */
    bool ovis;
    uint32_t in, out; /* columns that the first layer reads, and that the last one makes */
} diti_longcat_config;

/* ---- key table: names asked for here are diffusers'; single files and GGUF have FLUX.1's original ones ---- */

static const char *const diti_longcat_keys[][2] = {
    {"x_embedder", "img_in"},
    {"context_embedder", "txt_in"},
    {"time_embed.timestep_embedder.linear_1", "time_in.in_layer"},
    {"time_embed.timestep_embedder.linear_2", "time_in.out_layer"},
    {"norm_out.linear", "final_layer.adaLN_modulation.1"}, /* halves swapped */
    {"proj_out", "final_layer.linear"},
};
static const char *const diti_longcat_double_keys[][2] = {
    {"norm1.linear", "img_mod.lin"},
    {"norm1_context.linear", "txt_mod.lin"},
    DITI_DOUBLE_KEYS,
};
static const char *const diti_longcat_single_keys[][2] = {
    {"norm.linear", "modulation.lin"},
    DITI_SINGLE_KEYS,
};

/* Ovis-Image's own file calls the text's layers semantic, ComfyUI's do not. */
static const char *const diti_ovis_keys[][2] = {
    {"x_embedder", "img_in"},
    {"context_embedder", "txt_in"},
    {"context_embedder_norm.weight", "txt_norm.scale"},
    {"semantic_txt_in", "semantic_txt_in"},
    {"semantic_txt_norm", "semantic_txt_norm"},
    {"timestep_embedder.linear_1", "time_in.in_layer"},
    {"timestep_embedder.linear_2", "time_in.out_layer"},
    {"norm_out.linear", "final_layer.adaLN_modulation.1"}, /* halves swapped */
    {"proj_out", "final_layer.linear"},
};
static const char *const diti_ovis_double_keys[][2] = {
    {"norm1.linear", "img_mod.lin"},
    {"norm1_context.linear", "txt_mod.lin"},
    {"ff.up", "img_mlp.up_proj"},
    {"ff.gate", "img_mlp.gate_proj"},
    {"ff.net.2", "img_mlp.down_proj"},
    {"ff_context.up", "txt_mlp.up_proj"},
    {"ff_context.gate", "txt_mlp.gate_proj"},
    {"ff_context.net.2", "txt_mlp.down_proj"},
    DITI_DOUBLE_KEYS,
};

static const diti_key_table diti_longcat_names[DITI_KEY_TABLES] = {
    {"transformer_blocks.", "double_blocks.", diti_longcat_double_keys, DITI_COUNT(diti_longcat_double_keys)},
    {"single_transformer_blocks.", "single_blocks.", diti_longcat_single_keys, DITI_COUNT(diti_longcat_single_keys)},
    {NULL, NULL, diti_longcat_keys, DITI_COUNT(diti_longcat_keys)},
};
static const diti_key_table diti_ovis_names[DITI_KEY_TABLES] = {
    {"transformer_blocks.", "double_blocks.", diti_ovis_double_keys, DITI_COUNT(diti_ovis_double_keys)},
    {"single_transformer_blocks.", "single_blocks.", diti_longcat_single_keys, DITI_COUNT(diti_longcat_single_keys)},
    {NULL, NULL, diti_ovis_keys, DITI_COUNT(diti_ovis_keys)},
};

/* ---- weights ---- */

typedef struct diti_longcat {
    diti_transformer base;
    diti_longcat_config config;
    diti_layer patch, text; /* [D, 4 * channels], [D, text] */
    diti_weight text_norm;  /* F32 [text], Ovis-Image's */
    diti_embedder time;     /* [D, 256], [D, D] */
    diti_stream_blocks blocks;
} diti_longcat;

#define diti_longcat_of(transformer) ((const diti_longcat *)(const void *)(transformer))

/* ---- reading the configuration: what config.json does not say comes from shapes ---- */

static const char *diti_longcat_title(const diti_longcat_config *config) {
    return config->ovis ? "Ovis-Image" : "LongCat-Image";
}

/* Ovis-Image's text layer. */
static const char *diti_ovis_text(diti_loader *loader) {
    return diti_loader_find(loader, "semantic_txt_in.weight") ? "semantic_txt_in" : "context_embedder";
}

static dit_result diti_longcat_check(const diti_loader *loader, const diti_longcat_config *config, dit_error *err) {
    static const diti_need needs[] = {
        {offsetof(diti_longcat_config, doubles), "blocks of both kinds, double and single"},
        {offsetof(diti_longcat_config, singles), "blocks of both kinds, double and single"},
        {offsetof(diti_longcat_config, text), "context_embedder (txt_in)"},
        {offsetof(diti_longcat_config, head_dim), "norms of queries"},
        {offsetof(diti_longcat_config, width), "x_embedder (img_in) or proj_out (final_layer)"},
        {offsetof(diti_longcat_config, in), "x_embedder (img_in) or proj_out (final_layer)"},
        {offsetof(diti_longcat_config, out), "x_embedder (img_in) or proj_out (final_layer)"}};
    const char *title = diti_longcat_title(config);
    DITI_TRY(diti_config_complete(loader, config, title, needs, DITI_COUNT(needs), err));
    if (config->in != config->out || config->in % 4 || config->in > 1024 || config->width % config->head_dim ||
        config->head_dim > 256 || config->head_dim % 4 || config->doubles + config->singles > DITI_LONGCAT_MAX_BLOCKS)
        return diti_loader_refuse(
            loader, err,
            "a transformer of %s with %u + %u blocks, heads of %u in a width of %u, that takes %u "
            "columns of patches and makes %u, is out of range",
            title, (unsigned)config->doubles, (unsigned)config->singles, (unsigned)config->head_dim,
            (unsigned)config->width, (unsigned)config->in, (unsigned)config->out);
    return DIT_OK;
}

static dit_result diti_longcat_read(diti_component *component, diti_loader *loader, const diti_json *json,
                                    dit_error *err) {
    static const diti_shape_key keys[] = {
        {offsetof(diti_longcat_config, in), "x_embedder.weight", 1},
        {offsetof(diti_longcat_config, out), "proj_out.weight", 0},
        {offsetof(diti_longcat_config, width), "x_embedder.weight", 0},
        {offsetof(diti_longcat_config, head_dim), "transformer_blocks.0.attn.norm_q.weight", 0}};
    diti_longcat_config *config = &((diti_longcat *)(void *)component)->config;
    diti_settings settings = diti_settings_of(json, "the transformer's config.json", err);
    char text[32];
    config->ovis = diti_loader_find(loader, "timestep_embedder.linear_1.weight") != NULL;
    diti_format(text, sizeof text, "%s.weight", diti_ovis_text(loader));
    config->text = diti_loader_dimension(loader, text, 1);
    diti_read_shapes(loader, config, keys, DITI_COUNT(keys));
    config->doubles =
        diti_loader_layers(loader, &settings, "num_layers", "transformer_blocks.", ".norm1.linear.weight");
    config->singles =
        diti_loader_layers(loader, &settings, "num_single_layers", "single_transformer_blocks.", ".norm.linear.weight");
    DITI_TRY(diti_longcat_check(loader, config, err));
    config->channels = config->in / 4;
    config->heads = config->width / config->head_dim;
    /* As published, 16, 56 and 56 of 128; the same shares of other heads. */
    return diti_setting_axes(&settings, diti_longcat_title(config), "axes_dims_rope", config->head_dim,
                             config->head_dim / 8, config->head_dim / 16 * 7, DITI_LONGCAT_AXES, config->axes, err);
}

/* ---- how its language model is asked (docs/models.md 5.5) ---- */

#define DITI_LONGCAT_CAPTION                                                                                           \
    DITI_CHAT_SYSTEM                                                                                                   \
    "As an image captioning expert, generate a descriptive text prompt based on an image content, suitable for input " \
    "to a text-to-image model.<|im_end|>\n" DITI_CHAT_USER

#define DITI_OVIS_DESCRIBE                                                                                             \
    DITI_CHAT_USER                                                                                                     \
    "Describe the image by detailing the color, quantity, text, shape, size, texture, spatial relationships of the "   \
    "objects and background"

static const diti_chat diti_ovis_chats[] = {
    {"OvisImagePipeline",
     DITI_OVIS_DESCRIBE ": ",
     DITI_CHAT_ANSWER "<think>\n\n</think>\n\n",
     NULL,
     DITI_OVIS_DESCRIBE,
     "",
     256,
     false,
     0,
     {1, 0, {-1}, false},
     0},
    DITI_CHATS_END,
};

#define DITI_LONGCAT_EDIT                                                                                              \
    DITI_CHAT_SYSTEM                                                                                                   \
    "As an image editing expert, first analyze the content and attributes of the input image(s). Then, based on the "  \
    "user's editing instructions, clearly and precisely determine how to modify the given image(s), ensuring that "    \
    "only the specified parts are altered and all other aspects remain consistent with the original(s).<|im_end|>\n" DITI_CHAT_USER

/* The text behind a prompt would stand behind its padding, where nothing reads it. */
static const diti_chat diti_longcat_chats[] = {
    {"LongCatImagePipeline",
     DITI_LONGCAT_CAPTION,
     "",
     NULL,
     DITI_LONGCAT_CAPTION,
     "",
     512,
     true,
     DITI_CHAT_SPELLS_QUOTES,
     {1, 0, {-1}, false},
     512},
    {"LongCatImageEditPipeline",
     DITI_LONGCAT_EDIT,
     "",
     "",
     DITI_LONGCAT_EDIT,
     "",
     512,
     true,
     DITI_CHAT_SPELLS_QUOTES,
     {1, 0, {-1}, false},
     512},
    DITI_CHATS_END,
};

/* ---- loading ---- */

/* Models that edit pictures have the same tensors; the distilled one has another scheduler. */
static void diti_longcat_settle(diti_model_traits *traits, const diti_json *index, const diti_json *scheduler) {
    const char *pipeline = diti_json_string(index, "_class_name", "");
    if (diti_equal(pipeline, "LongCatImagePipeline")) {
        traits->references = traits->shown_area = 0;
        traits->picture_chat = NULL;
    }
    if (!diti_equal(pipeline, "LongCatImageEditPipeline")) return;
    traits->variant = "edit";
    traits->edits = true;
    if (diti_json_number(scheduler, "base_shift", 0.5) < diti_json_number(scheduler, "max_shift", 1.15)) return;
    traits->variant = "edit-turbo";
    traits->default_steps = 8;
    traits->default_guidance = 1;
}

static void diti_longcat_load_weights(diti_loader *loader, diti_longcat *model) {
    const diti_longcat_config *config = &model->config;
    uint32_t width = config->width, has = DITI_STREAM_MODULATED | (config->ovis ? DITI_STREAM_GATED : 0);
    const char *text = diti_ovis_text(loader),
               *time = config->ovis ? "timestep_embedder" : "time_embed.timestep_embedder";
    diti_load_layer(loader, &model->patch, width, 4 * config->channels, 1, "x_embedder");
    if (config->ovis)
        diti_load_vector(loader, &model->text_norm, 1, config->text,
                         *text == 's' ? "semantic_txt_norm.weight" : "context_embedder_norm.weight");
    diti_load_layer(loader, &model->text, width, config->text, 1, text);
    if (config->ovis)
        diti_loader_alias(loader, &model->text.weight, 0, width, *text == 's' ? "context_embedder" : "semantic_txt_in",
                          0, width, DITI_NAMES_ALL);
    diti_load_embedder(loader, &model->time, width, width, 256, time);
    diti_stream_blocks_load(loader, &model->blocks, width, config->head_dim, has);
    diti_stream_final_load(loader, &model->blocks, width, 4 * config->channels, has);
}

static void diti_longcat_set_traits(diti_longcat *model) {
    const diti_longcat_config *config = &model->config;
    diti_model_traits *traits = &model->base.traits;
    traits->variant = "1.0";
    diti_traits_sizes(traits, traits->layers, config->width, config->heads, config->channels, 2);
    traits->default_size = 128;
    traits->gated = config->ovis;
    diti_traits_chat(traits, config->ovis ? DITI_ENCODER_QWEN3 : DITI_ENCODER_QWEN2_VL,
                     config->ovis ? &diti_ovis_chats[0] : &diti_longcat_chats[0], config->text,
                     config->ovis ? diti_ovis_chats[0].tokens : 1);
    traits->scheduler = "{\"_class_name\":\"FlowMatchEulerDiscreteScheduler\",\"shift\":3.0,"
                        "\"use_dynamic_shifting\":true}";
    traits->uniform_sigmas = true;
    traits->default_steps = 50;
    traits->default_guidance = config->ovis ? 5 : 4.5f;
    traits->norms_tokens = traits->shortens_tokens = !config->ovis;
    traits->joint = traits->planar = true;
    if (config->ovis) return;
    traits->references = 1;
    traits->reference_area = 1024 * 1024;
    traits->reference_unit = 16;
    traits->shown_area = 512 * 512;
    traits->shown_half = true;
    traits->picture_chat = &diti_longcat_chats[1];
    traits->settle = diti_longcat_settle;
}

static void diti_longcat_load(diti_component *component, diti_loader *loader) {
    diti_longcat *model = (diti_longcat *)(void *)component;
    const diti_longcat_config *config = &model->config;
    if (!diti_stream_blocks_make(&model->base, loader, &model->blocks, config->doubles, config->singles)) return;
    diti_longcat_load_weights(loader, model);
    diti_longcat_set_traits(model);
}

/* ---- once per picture: everything that does not depend on the latent ---- */

typedef struct diti_longcat_state { /* prepare leaves these for the steps */
    diti_tensor sinusoids;          /* input F32 [steps, 256] */
    diti_rotation rotation;         /* [prompts * (text + image rows), head_dim / 2] */
    diti_text_order order;
    diti_tensor text; /* F32 [prompts * text rows, D] */
    diti_joint_modulation modulation;
} diti_longcat_state;

#define diti_longcat_state_of(step) ((diti_longcat_state *)(step)->family)

/* The text's rows in their places, F32 [prompts * text rows, D]; rows that no text fills are those of zeros. */
static diti_tensor diti_longcat_text(const diti_pass *p) {
    const diti_longcat *model = diti_longcat_of(p->model);
    diti_graph *graph = p->graph;
    uint32_t rows = diti_tensor_rows(graph, p->step->text), columns = model->config.text;
    diti_tensor text = diti_tensor_new(graph, DITI_F32, rows + 1, columns, "text");
    diti_copy(graph, diti_tensor_view(graph, p->step->text, 0, rows, 0, columns),
              diti_tensor_view(graph, text, 0, rows, 0, columns), "text");
    diti_fill_zeros(graph, diti_tensor_view(graph, text, rows, 1, 0, columns));
    if (model->config.ovis) text = diti_rms_norm(graph, text, &model->text_norm, 1e-6f, NULL, "text_norm");
    text = diti_layer_f32(graph, text, &model->text, DITI_ACTIVATION_NONE, 0, "context");
    return diti_text_order_rows(p, &diti_longcat_state_of(p->step)->order, text);
}

static void diti_longcat_prepare(diti_pass *p) {
    const diti_longcat *model = diti_longcat_of(p->model);
    const diti_longcat_config *config = &model->config;
    const diti_step_desc *step = p->step;
    diti_graph *graph = p->graph;
    uint32_t rows =
        step->text_batch * (step->text_tokens + diti_reference_tokens(p) + step->height / 2 * (step->width / 2));
    diti_longcat_state *state = diti_longcat_state_of(step);
    state->sinusoids = diti_tensor_input(graph, DITI_F32, step->steps, 256, "timesteps");
    diti_rotation_prepare(graph, &state->rotation, rows, config->head_dim / 2);
    diti_text_order_prepare(p, &state->order);
    state->modulation.active = diti_silu(graph, diti_embed(graph, &model->time, state->sinusoids, 0), "time_silu");
    state->modulation.shared = true;
    diti_stream_prepare(p, &state->modulation);
    diti_reference_lead(p, &model->patch);
    state->text = diti_longcat_text(p);
}

/* ---- inputs ---- */

/* LongCat-Image's image begins behind all places of a prompt, however many a given text has, and with it the picture
   that it is made after; behind a text that has tokens of that picture, where the text ends. */
static void diti_longcat_place(const diti_transformer *transformer, const diti_step_desc *step, uint32_t prompt,
                               float *cosines, float *sines) {
    const diti_longcat_config *config = &diti_longcat_of(transformer)->config;
    uint32_t half = config->head_dim / 2, texts = step->text_tokens, row, columns = step->width / 2;
    uint32_t unit = transformer->traits.text_unit, pad = texts - diti_text_order_length(step, prompt, unit);
    uint32_t rows = texts + diti_image_rows(step), behind = config->ovis ? 0 : diti_longcat_chats[0].tokens;
    if (step->reference_count) behind = texts;
    for (row = 0; row < rows; row++) {
        int32_t position[DITI_LONGCAT_AXES] = {0, 0, 0};
        size_t at = ((size_t)prompt * rows + row) * half;
        uint32_t token = row - texts, y = 0, x = 0;
        if (row >= texts && token < step->lead) {
            position[0] = (int32_t)(2 + diti_reference_position(step, 2, token, &y, &x));
        } else if (row >= texts) {
            position[0] = config->ovis ? 0 : 1;
            y = (token - step->lead) / columns;
            x = (token - step->lead) % columns;
        }
        if (row >= pad) {
            position[1] = (int32_t)(row < texts ? row - pad : behind + y);
            position[2] = (int32_t)(row < texts ? row - pad : behind + x);
        }
        diti_rotate_axes(config->axes, DITI_LONGCAT_AXES, 10000, position, cosines + at, sines + at);
    }
}

static dit_result diti_longcat_write_inputs(const diti_transformer *transformer, diti_plan *plan,
                                            const diti_step_desc *step, const float *timesteps, dit_error *err) {
    const diti_longcat *model = diti_longcat_of(transformer);
    const diti_longcat_state *state = (const diti_longcat_state *)step->family;
    DITI_TRY(diti_text_order_write(plan, step, &state->order, &model->base.component.env, transformer->traits.text_unit,
                                   diti_image_rows(step), err));
    DITI_TRY(diti_write_places(transformer, plan, step, state->rotation.cosines, state->rotation.sines,
                               step->text_batch, diti_longcat_place, err));
    return diti_write_timesteps(plan, state->sinusoids, step, timesteps, err);
}

/* ---- one evaluation ---- */

static void diti_longcat_begin(diti_pass *p) {
    diti_longcat_state *state = diti_longcat_state_of(p->step);
    diti_rotation_begin_order(p, &state->rotation, DITI_JOINT_TEXT);
    diti_joint_begin(p, &state->modulation);
}

static diti_tensor diti_longcat_embed(diti_pass *p) {
    return diti_patch_embed(p, diti_longcat_state_of(p->step)->text, &diti_longcat_of(p->model)->patch, 0);
}

/* x F32 [items * (text + image), D] is changed in place. */
static diti_tensor diti_longcat_run_block(diti_pass *p, diti_tensor x) {
    const diti_longcat_state *state = diti_longcat_state_of(p->step);
    diti_stream_modulate(p, &state->modulation, p->index);
    diti_rotation_apply(p, &state->rotation);
    p->keys = diti_text_order_keys(p, &state->order);
    diti_stream_block_run(p, x);
    return x;
}

static diti_tensor diti_longcat_final(diti_pass *p, diti_tensor x) {
    diti_stream_modulate(p, &diti_longcat_state_of(p->step)->modulation, p->model->traits.layers);
    return diti_stream_final(p, x);
}

/* ---- where parts of such models are ---- */

#define DITI_LONGCAT_PLACE "meituan-longcat/LongCat-Image"
static const diti_place diti_longcat_places[] = {
    {"edit", DIT_ROLE_TRANSFORMER, DITI_LONGCAT_PLACE "-Edit: transformer/"},
    {"", DIT_ROLE_TRANSFORMER, DITI_LONGCAT_PLACE ": transformer/"},
    {"", DIT_ROLE_TEXT_1, DITI_LONGCAT_PLACE ": text_encoder/"},
    {"", DIT_ROLE_VAE, DITI_LONGCAT_PLACE ": vae/"},
    {"", DIT_ROLE_TOKENIZER_1, DITI_LONGCAT_PLACE ": tokenizer/"},
    {"", DIT_ROLE_SCHEDULER, DITI_LONGCAT_PLACE ": scheduler/"},
    {"1.0", DIT_ROLE_NONE, "a single file of LongCat-Image-Edit-Turbo looks alike and wants 8 steps and guidance 1"},
    {NULL, DIT_ROLE_NONE, NULL},
};

DIT_INTERNAL const diti_family *diti_longcat_family(void) {
    static const diti_family family = {
        "longcat",
        "LongCat-Image",
        {"LongCatImageTransformer2DModel",
         NULL,
         {"time_embed.timestep_embedder.linear_1.weight", "transformer_blocks.0.norm1_context.linear.weight",
          "single_transformer_blocks.0.proj_mlp.weight", NULL},
         {"img_in.weight", "double_blocks.0.img_mod.lin.weight", "single_blocks.0.linear1.weight", NULL},
         {NULL, NULL}},
        {"transformer", "transformer", sizeof(diti_longcat), diti_longcat_read, diti_longcat_load, NULL},
        diti_longcat_names,
        {16, 0.3611f, 0.1159f, false}, /* FLUX.1's */
        NULL,
        diti_longcat_chats,
        diti_longcat_places,
        sizeof(diti_longcat_state),
        diti_longcat_prepare,
        diti_longcat_begin,
        diti_longcat_embed,
        diti_longcat_run_block,
        diti_longcat_final,
        diti_longcat_write_inputs};
    return &family;
}

#define DITI_OVIS_PLACE "AIDC-AI/Ovis-Image-7B"
static const diti_place diti_ovis_places[] = {
    {"", DIT_ROLE_TRANSFORMER, DITI_OVIS_PLACE ": ovis_image.safetensors, or transformer/"},
    {"", DIT_ROLE_TEXT_1, DITI_OVIS_PLACE ": text_encoder/"},
    {"", DIT_ROLE_VAE, DITI_OVIS_PLACE ": ae.safetensors, or vae/"},
    {"", DIT_ROLE_TOKENIZER_1, DITI_OVIS_PLACE ": tokenizer/"},
    {"", DIT_ROLE_SCHEDULER, DITI_OVIS_PLACE ": scheduler/"},
    {NULL, DIT_ROLE_NONE, NULL},
};

DIT_INTERNAL const diti_family *diti_longcat_ovis_family(void) {
    static const diti_family family = {
        "ovis",
        "Ovis-Image",
        {"OvisImageTransformer2DModel",
         NULL,
         {"context_embedder_norm.weight", "timestep_embedder.linear_1.weight",
          "transformer_blocks.0.norm1_context.linear.weight", NULL},
         {"img_in.weight", "double_blocks.0.img_mlp.gate_proj.weight", "single_blocks.0.linear1.weight", NULL},
         {NULL, NULL}},
        {"transformer", "transformer", sizeof(diti_longcat), diti_longcat_read, diti_longcat_load, NULL},
        diti_ovis_names,
        {16, 0.3611f, 0.1159f, false}, /* FLUX.1's */
        NULL,
        diti_ovis_chats,
        diti_ovis_places,
        sizeof(diti_longcat_state),
        diti_longcat_prepare,
        diti_longcat_begin,
        diti_longcat_embed,
        diti_longcat_run_block,
        diti_longcat_final,
        diti_longcat_write_inputs};
    return &family;
}
