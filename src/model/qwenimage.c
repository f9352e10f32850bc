/* Qwen-Image: docs/models.md 3.14. Original:
   https://github.com/huggingface/diffusers/blob/v0.36.0/src/diffusers/models/transformers/transformer_qwenimage.py

   FLUX's double blocks alone, modulated by the timestep. Tokens of the image stand around the middle of their grid, and
   the text's on the diagonal behind its edge. Tokens of references (Qwen-Image-Edit) stand around the middles of
   theirs, each in a frame of its own; some models modulate them as at timestep 0. */
#include "model/model.h"
#include "text/text.h"

#define DITI_QWENIMAGE_MAX_BLOCKS 128u
#define DITI_QWENIMAGE_AXES 3u

/* ---- configuration ---- */

typedef struct diti_qwenimage_config {
    uint32_t blocks, heads, head_dim, width; /* width: D */
    uint32_t channels;                       /* channels of the latent; its patches of 2 x 2 are the tokens */
    uint32_t text;                           /* columns of the text encoder's output */
    uint32_t axes[DITI_QWENIMAGE_AXES];      /* channels of a head that rotate with each coordinate */
    bool clean;                              /* references are modulated as at timestep 0 */
    uint32_t in, out;                        /* columns that the first layer reads, and that the last one makes */
} diti_qwenimage_config;

/* ---- weights; single files and GGUF have diffusers' names, too ---- */

typedef struct diti_qwenimage {
    diti_transformer base;
    diti_qwenimage_config config;
    diti_layer patch, text; /* [D, 4 * channels], [D, text] */
    diti_weight text_norm;  /* F32 [text] */
    diti_embedder time;     /* [D, 256], [D, D] */
    diti_stream_blocks blocks;
} diti_qwenimage;

#define diti_qwenimage_of(transformer) ((const diti_qwenimage *)(const void *)(transformer))

/* ---- reading the configuration: what config.json does not say comes from shapes ---- */

static dit_result diti_qwenimage_check(const diti_loader *loader, const diti_qwenimage_config *config, dit_error *err) {
    static const diti_need needs[] = {{offsetof(diti_qwenimage_config, blocks), "transformer_blocks"},
                                      {offsetof(diti_qwenimage_config, text), "txt_in"},
                                      {offsetof(diti_qwenimage_config, head_dim), "norms of queries"},
                                      {offsetof(diti_qwenimage_config, width), "img_in or proj_out"},
                                      {offsetof(diti_qwenimage_config, in), "img_in or proj_out"},
                                      {offsetof(diti_qwenimage_config, out), "img_in or proj_out"}};
    DITI_TRY(diti_config_complete(loader, config, "Qwen-Image", needs, DITI_COUNT(needs), err));
    if (config->in != config->out || config->in % 4 || config->in > 1024 || config->width % config->head_dim ||
        config->head_dim > 256 || config->head_dim % 4 || config->blocks > DITI_QWENIMAGE_MAX_BLOCKS) {
        return diti_loader_refuse(loader, err,
                                  "a Qwen-Image transformer of %u blocks, heads of %u in a width of %u, that takes %u "
                                  "columns of patches and makes %u, is out of range",
                                  (unsigned)config->blocks, (unsigned)config->head_dim, (unsigned)config->width,
                                  (unsigned)config->in, (unsigned)config->out);
    }
    return DIT_OK;
}

static dit_result diti_qwenimage_read(diti_component *component, diti_loader *loader, const diti_json *json,
                                      dit_error *err) {
    static const diti_shape_key keys[] = {
        {offsetof(diti_qwenimage_config, in), "img_in.weight", 1},
        {offsetof(diti_qwenimage_config, out), "proj_out.weight", 0},
        {offsetof(diti_qwenimage_config, width), "img_in.weight", 0},
        {offsetof(diti_qwenimage_config, text), "txt_in.weight", 1},
        {offsetof(diti_qwenimage_config, head_dim), "transformer_blocks.0.attn.norm_q.weight", 0}};
    diti_qwenimage_config *config = &((diti_qwenimage *)(void *)component)->config;
    diti_settings settings = diti_settings_of(json, "the transformer's config.json", err);
    /* ComfyUI's files of Edit-2511 have an empty tensor that stands for zero_cond_t. */
    const diti_stored_tensor *marker = diti_loader_find(loader, "__index_timestep_zero__");
    if (diti_setting_bool(&settings, "use_layer3d_rope", false) ||
        diti_loader_find(loader, "time_text_embed.addition_t_embedding.weight"))
        return diti_loader_refuse(
            loader, err,
            "a transformer of Qwen-Image-Layered, which makes a picture of several layers, is not "
            "supported; use one of Qwen-Image, Qwen-Image-Edit or Qwen-Image-2.1");
    diti_read_shapes(loader, config, keys, DITI_COUNT(keys));
    config->blocks = diti_loader_layers(loader, &settings, "num_layers", "transformer_blocks.", ".img_mod.1.weight");
    DITI_TRY(diti_qwenimage_check(loader, config, err));
    config->channels = config->in / 4;
    config->heads = config->width / config->head_dim;
    if (marker) diti_loader_use(loader, marker);
    config->clean = diti_setting_bool(&settings, "zero_cond_t", marker != NULL);
    /* As published, 16, 56 and 56 of 128; the same shares of other heads. */
    return diti_setting_axes(&settings, "Qwen-Image", "axes_dims_rope", config->head_dim, config->head_dim / 8,
                             config->head_dim / 16 * 7, DITI_QWENIMAGE_AXES, config->axes, err);
}

/* ---- loading ---- */

static void diti_qwenimage_load_block(diti_loader *loader, diti_double_block *block,
                                      const diti_qwenimage_config *config, uint32_t index) {
    static const char *const norms[] = {"attn.norm_added_q.weight", "attn.norm_added_k.weight", "attn.norm_q.weight",
                                        "attn.norm_k.weight"};
    static const diti_fused qkv[DITI_JOINT_STREAMS] = {
        {"attn.added_qkv", {"attn.add_q_proj", "attn.add_k_proj", "attn.add_v_proj"}, 3},
        {"attn.qkv", {"attn.to_q", "attn.to_k", "attn.to_v"}, 3}};
    static const diti_fused modulation[DITI_JOINT_STREAMS] = {{"txt_mod.1", {"txt_mod.1", NULL, NULL}, 1},
                                                              {"img_mod.1", {"img_mod.1", NULL, NULL}, 1}};
    uint32_t width = config->width;
    diti_loader_scope(loader, "transformer_blocks.%u.", (unsigned)index);
    diti_load_fused_pair(loader, &block->modulation, modulation, 6 * width, width);
    diti_load_fused_pair(loader, &block->qkv, qkv, width, width);
    diti_load_vectors(loader, &block->norms, norms, 4, config->head_dim);
    diti_load_pair(loader, &block->out, width, width, "attn.to_add_out", "attn.to_out.0");
    diti_load_pair(loader, &block->ff_in, 4 * width, width, "txt_mlp.net.0.proj", "img_mlp.net.0.proj");
    diti_load_pair(loader, &block->ff_out, width, 4 * width, "txt_mlp.net.2", "img_mlp.net.2");
    diti_loader_scope_end(loader);
    diti_make_attention(&block->attention, DITI_STREAMS_TWO, block->qkv.streams, block->out.streams, width,
                        config->head_dim);
    block->attention.norms = &block->norms;
    diti_make_feed(&block->feed, DITI_STREAMS_TWO, block->ff_in.streams, block->ff_out.streams);
}

static void diti_qwenimage_load_weights(diti_loader *loader, diti_qwenimage *model) {
    const diti_qwenimage_config *config = &model->config;
    uint32_t i, width = config->width;
    diti_load_layer(loader, &model->patch, width, 4 * config->channels, 1, "img_in");
    diti_load_vector(loader, &model->text_norm, 1, config->text, "txt_norm.weight");
    diti_load_layer(loader, &model->text, width, config->text, 1, "txt_in");
    diti_load_embedder(loader, &model->time, width, width, 256, "time_text_embed.timestep_embedder");
    for (i = 0; i < config->blocks; i++) diti_qwenimage_load_block(loader, &model->blocks.doubles[i], config, i);
    diti_stream_final_load(loader, &model->blocks, width, 4 * config->channels, DITI_STREAM_MODULATED);
}

/* The first model that edits pictures takes one, which its language model sees as large as the autoencoder does. */
static void diti_qwenimage_settle(diti_model_traits *traits, const diti_json *index, const diti_json *scheduler) {
    const char *pipeline = diti_json_string(index, "_class_name", "");
    (void)scheduler;
    traits->edits = diti_starts_with(pipeline, "QwenImageEdit");
    if (traits->edits) traits->variant = "edit";
    if (!diti_equal(pipeline, "QwenImageEditPipeline")) return;
    traits->references = 1;
    traits->shown_area = traits->reference_area;
}

/* ---- how its language model is asked (docs/models.md 5.5) ---- */

#define DITI_QWENIMAGE_EDIT                                                                                            \
    DITI_CHAT_SYSTEM                                                                                                   \
    "Describe the key features of the input image (color, shape, size, texture, objects, background), then explain "   \
    "how the user's text instruction should alter or modify the image. Generate a new image that meets the user's "    \
    "requirements while maintaining consistency with the original input where appropriate.<|im_end|>"                  \
    "\n" DITI_CHAT_USER

static const diti_chat diti_qwenimage_chats[] = {
    {"QwenImagePipeline",
     DITI_CHAT_DESCRIBE,
     DITI_CHAT_ANSWER,
     NULL,
     DITI_CHAT_DESCRIBE,
     "",
     1024,
     false,
     0,
     {1, 0, {-1}, false},
     0},
    {"QwenImageEditPipeline",
     DITI_QWENIMAGE_EDIT,
     DITI_CHAT_ANSWER,
     "",
     DITI_QWENIMAGE_EDIT,
     "",
     1024,
     false,
     0,
     {1, 0, {-1}, false},
     0},
    {"QwenImageEditPlusPipeline",
     DITI_QWENIMAGE_EDIT,
     DITI_CHAT_ANSWER,
     "Picture #: ",
     DITI_QWENIMAGE_EDIT,
     "",
     1024,
     false,
     0,
     {1, 0, {-1}, false},
     0},
    DITI_CHATS_END,
};

static void diti_qwenimage_set_traits(diti_qwenimage *model) {
    const diti_qwenimage_config *config = &model->config;
    diti_model_traits *traits = &model->base.traits;
    traits->variant = "1.0";
    diti_traits_sizes(traits, traits->layers, config->width, config->heads, config->channels, 2);
    traits->default_size = 128;
    diti_traits_chat(traits, DITI_ENCODER_QWEN2_VL, &diti_qwenimage_chats[0], config->text, 1);
    traits->scheduler = "{\"_class_name\":\"FlowMatchEulerDiscreteScheduler\",\"shift\":1.0,"
                        "\"use_dynamic_shifting\":true,\"base_shift\":0.5,\"max_shift\":0.9,"
                        "\"base_image_seq_len\":256,\"max_image_seq_len\":8192,\"shift_terminal\":0.02}";
    traits->uniform_sigmas = true;
    traits->default_steps = 50;
    traits->default_guidance = 4;
    traits->norms_tokens = true;
    traits->joint = traits->planar = true;
    traits->references = DITI_MAX_REFERENCES;
    traits->reference_area = 1024 * 1024;
    traits->shown_area = 384 * 384;
    traits->picture_chat = &diti_qwenimage_chats[2];
    traits->settle = diti_qwenimage_settle;
}

static void diti_qwenimage_load(diti_component *component, diti_loader *loader) {
    diti_qwenimage *model = (diti_qwenimage *)(void *)component;
    if (!diti_stream_blocks_make(&model->base, loader, &model->blocks, model->config.blocks, 0)) return;
    diti_qwenimage_load_weights(loader, model);
    diti_qwenimage_set_traits(model);
}

/* ---- once per picture: everything that does not depend on the latent ---- */

typedef struct diti_qwenimage_state { /* prepare leaves these for the steps */
    diti_tensor sinusoids;            /* input F32 [steps, 256] */
    diti_rotation rotation;           /* [prompts * (text + image rows), head_dim / 2] */
    diti_text_order order;
    diti_tensor text; /* F32 [prompts * text rows, D] */
    diti_joint_modulation modulation;
    /* F32 [1, 6D], for references as at timestep 0; 0: they have the image's */
    diti_tensor clean[DITI_QWENIMAGE_MAX_BLOCKS];
} diti_qwenimage_state;

#define diti_qwenimage_state_of(step) ((diti_qwenimage_state *)(step)->family)

/* The text's rows in their places, F32 [prompts * text rows, D]. */
static diti_tensor diti_qwenimage_text(const diti_pass *p) {
    const diti_qwenimage *model = diti_qwenimage_of(p->model);
    diti_tensor text = diti_text_columns(p, model->config.text);
    text = diti_rms_norm(p->graph, text, &model->text_norm, 1e-6f, NULL, "text_norm");
    text = diti_layer_f32(p->graph, text, &model->text, DITI_ACTIVATION_NONE, 0, "context");
    return diti_text_order_rows(p, &diti_qwenimage_state_of(p->step)->order, text);
}

/* active: of timestep 0, F32 [1, D]. */
static void diti_qwenimage_modulate_clean(const diti_pass *p, diti_qwenimage_state *state, diti_tensor active) {
    const diti_qwenimage *model = diti_qwenimage_of(p->model);
    uint32_t i, end;
    for (diti_axes_blocks(p->step->axes, model->config.blocks, &i, &end); i < end; i++)
        state->clean[i] = diti_layer_spread(p->graph, diti_pass_tensor(p), active,
                                            &model->blocks.doubles[i].modulation.streams[DITI_JOINT_IMAGE].layers[0], 0,
                                            "reference_modulation");
}

static void diti_qwenimage_prepare(diti_pass *p) {
    const diti_qwenimage *model = diti_qwenimage_of(p->model);
    const diti_qwenimage_config *config = &model->config;
    const diti_step_desc *step = p->step;
    diti_graph *graph = p->graph;
    uint32_t references = diti_reference_tokens(p), steps = step->steps;
    uint32_t rows = step->text_batch * (step->text_tokens + references + step->height / 2 * (step->width / 2));
    bool clean = config->clean && references;
    diti_qwenimage_state *state = diti_qwenimage_state_of(step);
    diti_tensor time;
    state->sinusoids = diti_tensor_input(graph, DITI_F32, steps + (clean ? 1 : 0), 256, "timesteps");
    diti_rotation_prepare(graph, &state->rotation, rows, config->head_dim / 2);
    diti_text_order_prepare(p, &state->order);
    time = diti_silu(graph, diti_embed(graph, &model->time, state->sinusoids, 0), "conditioning_silu");
    state->modulation.active = diti_tensor_view(graph, time, 0, steps, 0, config->width);
    state->modulation.shared = true;
    diti_stream_prepare(p, &state->modulation);
    if (clean) diti_qwenimage_modulate_clean(p, state, diti_tensor_view(graph, time, steps, 1, 0, config->width));
    diti_reference_lead(p, &model->patch);
    state->text = diti_qwenimage_text(p);
}

/* ---- inputs ---- */

/* A place in a grid of so many lines or columns, counted from its middle. */
static int32_t diti_qwenimage_centered(uint32_t at, uint32_t count) {
    return (int32_t)at - (int32_t)(count - count / 2);
}

/* Text goes on where the longest half side of any picture ends. */
static uint32_t diti_qwenimage_behind(const diti_step_desc *step) {
    uint32_t most = step->height > step->width ? step->height / 4 : step->width / 4, i;
    for (i = 0; i < step->reference_count; i++) {
        if (step->references[i].height / 4 > most) most = step->references[i].height / 4;
        if (step->references[i].width / 4 > most) most = step->references[i].width / 4;
    }
    return most;
}

/* Lines and columns are counted from the middle, half of them below 0; reference i is in frame i + 1. */
static void diti_qwenimage_place(const diti_transformer *transformer, const diti_step_desc *step, uint32_t prompt,
                                 float *cosines, float *sines) {
    const diti_qwenimage_config *config = &diti_qwenimage_of(transformer)->config;
    uint32_t half = config->head_dim / 2, texts = step->text_tokens, row, i;
    uint32_t lines = step->height / 2, columns = step->width / 2, rows = texts + diti_image_rows(step);
    uint32_t pad = texts - diti_text_order_length(step, prompt, 1), behind = diti_qwenimage_behind(step);
    for (row = 0; row < rows; row++) {
        int32_t position[DITI_QWENIMAGE_AXES] = {0, 0, 0};
        size_t at = ((size_t)prompt * rows + row) * half;
        uint32_t token = row - texts, y, x;
        for (i = 0; i < DITI_QWENIMAGE_AXES && row >= pad && row < texts; i++)
            position[i] = (int32_t)(behind + row - pad);
        if (row >= texts && token < step->lead) {
            i = diti_reference_position(step, 2, token, &y, &x);
            position[0] = (int32_t)(i + 1);
            position[1] = diti_qwenimage_centered(y, step->references[i].height / 2);
            position[2] = diti_qwenimage_centered(x, step->references[i].width / 2);
        } else if (row >= texts) {
            token -= step->lead;
            position[1] = diti_qwenimage_centered(token / columns, lines);
            position[2] = diti_qwenimage_centered(token % columns, columns);
        }
        diti_rotate_axes(config->axes, DITI_QWENIMAGE_AXES, 10000, position, cosines + at, sines + at);
    }
}

static dit_result diti_qwenimage_write_inputs(const diti_transformer *transformer, diti_plan *plan,
                                              const diti_step_desc *step, const float *timesteps, dit_error *err) {
    const diti_qwenimage *model = diti_qwenimage_of(transformer);
    const diti_qwenimage_state *state = (const diti_qwenimage_state *)step->family;
    DITI_TRY(
        diti_text_order_write(plan, step, &state->order, &model->base.component.env, 1, diti_image_rows(step), err));
    DITI_TRY(diti_write_places(transformer, plan, step, state->rotation.cosines, state->rotation.sines,
                               step->text_batch, diti_qwenimage_place, err));
    return diti_write_timesteps(plan, state->sinusoids, step, timesteps, err);
}

/* ---- one evaluation ---- */

static void diti_qwenimage_begin(diti_pass *p) {
    diti_qwenimage_state *state = diti_qwenimage_state_of(p->step);
    diti_rotation_begin_order(p, &state->rotation, DITI_JOINT_TEXT);
    diti_joint_begin(p, &state->modulation);
}

static diti_tensor diti_qwenimage_embed(diti_pass *p) {
    return diti_patch_embed(p, diti_qwenimage_state_of(p->step)->text, &diti_qwenimage_of(p->model)->patch, 0);
}

/* x F32 [items * (text + image), D] is changed in place. */
static diti_tensor diti_qwenimage_run_block(diti_pass *p, diti_tensor x) {
    const diti_qwenimage_state *state = diti_qwenimage_state_of(p->step);
    diti_stream_modulate(p, &state->modulation, p->index);
    p->modulation.lead = state->clean[p->index];
    diti_rotation_apply(p, &state->rotation);
    p->keys = diti_text_order_keys(p, &state->order);
    diti_stream_block_run(p, x);
    return x;
}

static diti_tensor diti_qwenimage_final(diti_pass *p, diti_tensor x) {
    diti_stream_modulate(p, &diti_qwenimage_state_of(p->step)->modulation, p->model->traits.layers);
    return diti_stream_final(p, x);
}

/* ---- where parts of such models are ---- */

#define DITI_QWENIMAGE_PLACE "Qwen/Qwen-Image"
static const diti_place diti_qwenimage_places[] = {
    {"", DIT_ROLE_TRANSFORMER, DITI_QWENIMAGE_PLACE ": transformer/"},
    {"", DIT_ROLE_TEXT_1, DITI_QWENIMAGE_PLACE ": text_encoder/"},
    {"", DIT_ROLE_VAE, DITI_QWENIMAGE_PLACE ": vae/"},
    {"", DIT_ROLE_TOKENIZER_1, DITI_QWENIMAGE_PLACE ": tokenizer/"},
    {"", DIT_ROLE_SCHEDULER, DITI_QWENIMAGE_PLACE ": scheduler/"},
    {NULL, DIT_ROLE_NONE, NULL},
};

DIT_INTERNAL const diti_family *diti_qwenimage_family(void) {
    static const diti_family family = {
        "qwenimage",
        "Qwen-Image",
        {"QwenImageTransformer2DModel",
         NULL,
         {"txt_norm.weight", "img_in.weight", "transformer_blocks.0.img_mod.1.weight", NULL},
         {"txt_norm.weight", "img_in.weight", "transformer_blocks.0.img_mod.1.weight", NULL},
         {NULL, NULL}},
        {"transformer", "transformer", sizeof(diti_qwenimage), diti_qwenimage_read, diti_qwenimage_load, NULL},
        NULL,
        {16, 1, 0, false},
        NULL,
        diti_qwenimage_chats,
        diti_qwenimage_places,
        sizeof(diti_qwenimage_state),
        diti_qwenimage_prepare,
        diti_qwenimage_begin,
        diti_qwenimage_embed,
        diti_qwenimage_run_block,
        diti_qwenimage_final,
        diti_qwenimage_write_inputs};
    return &family;
}
