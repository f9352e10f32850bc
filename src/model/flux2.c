/* FLUX.2: docs/models.md 3.13. Originals: https://github.com/black-forest-labs/flux2/blob/main/src/flux2/model.py and
   https://github.com/huggingface/diffusers/blob/v0.36.0/src/diffusers/models/transformers/transformer_flux2.py

   FLUX.1's two kinds of blocks, without biases, with gated feed-forwards, and with one modulation for all blocks of a
   kind. A token is a pixel of a latent of 128 channels. Tokens of pictures that are referred to stand before the
   image's own. */
#include "model/model.h"
#include "text/text.h"

#define DITI_FLUX2_MAX_BLOCKS 256u /* most blocks of both kinds */
#define DITI_FLUX2_AXES 4u

/* ---- configuration ---- */

typedef struct diti_flux2_config {
    uint32_t doubles, singles, heads, head_dim, width, feed; /* width: D; feed: columns of the feed-forward */
    uint32_t channels;                                       /* channels of the latent, whose pixels are the tokens */
    uint32_t text;                                           /* columns of the text encoder's output */
    uint32_t axes[DITI_FLUX2_AXES];                          /* channels of a head that rotate with each coordinate */
    float theta;
    bool guided;  /* distilled guidance is an input */
    uint32_t out; /* columns that the last layer makes */
} diti_flux2_config;

/* ---- key table: names asked for here are diffusers'; the original code base calls them so ---- */

static const char *const diti_flux2_keys[][2] = {
    {"x_embedder", "img_in"},
    {"context_embedder", "txt_in"},
    {"time_guidance_embed.timestep_embedder.linear_1", "time_in.in_layer"},
    {"time_guidance_embed.timestep_embedder.linear_2", "time_in.out_layer"},
    {"time_guidance_embed.guidance_embedder.linear_1", "guidance_in.in_layer"},
    {"time_guidance_embed.guidance_embedder.linear_2", "guidance_in.out_layer"},
    {"double_stream_modulation_img.linear", "double_stream_modulation_img.lin"},
    {"double_stream_modulation_txt.linear", "double_stream_modulation_txt.lin"},
    {"single_stream_modulation.linear", "single_stream_modulation.lin"},
    {"norm_out.linear", "final_layer.adaLN_modulation.1"}, /* halves swapped */
    {"proj_out", "final_layer.linear"},
};
static const char *const diti_flux2_double_keys[][2] = {
    {"attn.qkv", "img_attn.qkv"}, /* rows q, k, v; three matrices in diffusers */
    {"attn.added_qkv", "txt_attn.qkv"},
    {"attn.norm_q.weight", "img_attn.norm.query_norm.scale"},
    {"attn.norm_k.weight", "img_attn.norm.key_norm.scale"},
    {"attn.norm_added_q.weight", "txt_attn.norm.query_norm.scale"},
    {"attn.norm_added_k.weight", "txt_attn.norm.key_norm.scale"},
    {"attn.to_out.0", "img_attn.proj"},
    {"attn.to_add_out", "txt_attn.proj"},
    {"ff.linear_in", "img_mlp.0"},
    {"ff.linear_out", "img_mlp.2"},
    {"ff_context.linear_in", "txt_mlp.0"},
    {"ff_context.linear_out", "txt_mlp.2"},
};
static const char *const diti_flux2_single_keys[][2] = {
    {"attn.to_qkv_mlp_proj", "linear1"},
    {"attn.to_out", "linear2"},
    {"attn.norm_q.weight", "norm.query_norm.scale"},
    {"attn.norm_k.weight", "norm.key_norm.scale"},
};

static const diti_key_table diti_flux2_names[DITI_KEY_TABLES] = {
    {"transformer_blocks.", "double_blocks.", diti_flux2_double_keys, DITI_COUNT(diti_flux2_double_keys)},
    {"single_transformer_blocks.", "single_blocks.", diti_flux2_single_keys, DITI_COUNT(diti_flux2_single_keys)},
    {NULL, NULL, diti_flux2_keys, DITI_COUNT(diti_flux2_keys)},
};

/* ---- weights ---- */

typedef struct diti_flux2_double {
    diti_fused_linear_pair qkv; /* [3D, D] */
    diti_weight norms;          /* F32 [4, head_dim]: text's q and k, the image's */
    diti_pair out;              /* [D, D] */
    diti_pair ff_gate, ff_in;   /* [feed, D] each */
    diti_pair ff_out;           /* [D, feed] */
    diti_sublayer attention, feed;
} diti_flux2_double;
typedef struct diti_flux2_single {
    diti_fused_linear qkv;     /* [3D, D] */
    diti_weight norms;         /* F32 [2, head_dim]: q, k */
    diti_layer ff_gate, ff_in; /* [feed, D] each */
    diti_layer out;            /* [D, D + feed]: attention's columns, then the feed-forward's */
    diti_sublayer attention, feed;
} diti_flux2_single;

typedef struct diti_flux2 {
    diti_transformer base;
    diti_flux2_config config;
    diti_layer patch, text;       /* [D, channels], [D, text] */
    diti_embedder time, guidance; /* [D, 256], [D, D] */
    diti_layer modulation[3];     /* [6D, D] of the text, [6D, D] of the image, [3D, D] of single blocks */
    diti_flux2_double *doubles;
    diti_flux2_single *singles;
    diti_fused_linear final_modulation; /* [2D, D]: shift, scale */
    diti_layer proj_out;                /* [channels, D] */
    diti_sublayer last;
} diti_flux2;

#define diti_flux2_of(transformer) ((const diti_flux2 *)(const void *)(transformer))

/* ---- reading the configuration: what config.json does not say comes from shapes ---- */

static dit_result diti_flux2_check(const diti_loader *loader, const diti_flux2_config *config, dit_error *err) {
    static const diti_need needs[] = {
        {offsetof(diti_flux2_config, doubles), "blocks of both kinds, double and single"},
        {offsetof(diti_flux2_config, singles), "blocks of both kinds, double and single"},
        {offsetof(diti_flux2_config, feed), "blocks of both kinds, double and single"},
        {offsetof(diti_flux2_config, text), "context_embedder (txt_in)"},
        {offsetof(diti_flux2_config, head_dim), "norms of queries"},
        {offsetof(diti_flux2_config, width), "x_embedder (img_in) or proj_out (final_layer)"},
        {offsetof(diti_flux2_config, channels), "x_embedder (img_in) or proj_out (final_layer)"},
        {offsetof(diti_flux2_config, out), "x_embedder (img_in) or proj_out (final_layer)"}};
    DITI_TRY(diti_config_complete(loader, config, "FLUX.2", needs, DITI_COUNT(needs), err));
    if (config->channels != config->out || config->out > 1024 || config->out % 4 || config->width % config->head_dim ||
        config->head_dim > 256 || config->head_dim % 8 || config->feed % 8 ||
        config->doubles + config->singles > DITI_FLUX2_MAX_BLOCKS) {
        return diti_loader_refuse(loader, err,
                                  "a FLUX.2 transformer of %u + %u blocks, heads of %u in a width of %u, that takes %u "
                                  "columns and makes %u, is out of range",
                                  (unsigned)config->doubles, (unsigned)config->singles, (unsigned)config->head_dim,
                                  (unsigned)config->width, (unsigned)config->channels, (unsigned)config->out);
    }
    return DIT_OK;
}

static dit_result diti_flux2_read(diti_component *component, diti_loader *loader, const diti_json *json,
                                  dit_error *err) {
    static const diti_shape_key keys[] = {
        {offsetof(diti_flux2_config, out), "proj_out.weight", 0},
        {offsetof(diti_flux2_config, width), "x_embedder.weight", 0},
        {offsetof(diti_flux2_config, channels), "x_embedder.weight", 1},
        {offsetof(diti_flux2_config, text), "context_embedder.weight", 1},
        {offsetof(diti_flux2_config, feed), "transformer_blocks.0.ff.linear_out.weight", 1},
        {offsetof(diti_flux2_config, head_dim), "transformer_blocks.0.attn.norm_q.weight", 0}};
    diti_flux2_config *config = &((diti_flux2 *)(void *)component)->config;
    diti_settings settings = diti_settings_of(json, "the transformer's config.json", err);
    diti_read_shapes(loader, config, keys, DITI_COUNT(keys));
    config->doubles =
        diti_loader_layers(loader, &settings, "num_layers", "transformer_blocks.", ".ff.linear_in.weight");
    config->singles = diti_loader_layers(loader, &settings, "num_single_layers", "single_transformer_blocks.",
                                         ".attn.to_qkv_mlp_proj.weight");
    config->guided = diti_loader_find(loader, "time_guidance_embed.guidance_embedder.linear_1.weight") != NULL;
    DITI_TRY(diti_flux2_check(loader, config, err));
    config->heads = config->width / config->head_dim;
    config->theta = (float)diti_setting_number(&settings, "rope_theta", 2000, 2, 1e9);
    diti_setting_number(&settings, "eps", 1e-6, 1e-6, 1e-6); /* norms here have no other one */
    DITI_TRY(diti_setting_guided(&settings, config->guided, err));
    /* As published, a quarter of a head each. */
    return diti_setting_axes(&settings, "FLUX.2", "axes_dims_rope", config->head_dim,
                             config->head_dim / DITI_FLUX2_AXES, config->head_dim / DITI_FLUX2_AXES, DITI_FLUX2_AXES,
                             config->axes, err);
}

/* ---- loading ---- */

/* The first half of the first matrix has the activation, and the second half is multiplied with it. */
static void diti_flux2_load_double(diti_loader *loader, diti_flux2_double *block, const diti_flux2_config *config,
                                   uint32_t index) {
    static const char *const norms[] = {"attn.norm_added_q.weight", "attn.norm_added_k.weight", "attn.norm_q.weight",
                                        "attn.norm_k.weight"};
    static const diti_fused qkv[DITI_JOINT_STREAMS] = {
        {"attn.added_qkv", {"attn.add_q_proj", "attn.add_k_proj", "attn.add_v_proj"}, 3},
        {"attn.qkv", {"attn.to_q", "attn.to_k", "attn.to_v"}, 3}};
    static const char *const outs[] = {"attn.to_add_out", "attn.to_out.0"};
    static const char *const ins[] = {"ff_context.linear_in", "ff.linear_in"};
    static const char *const downs[] = {"ff_context.linear_out", "ff.linear_out"};
    uint32_t width = config->width, feed = config->feed, i;
    diti_loader_scope(loader, "transformer_blocks.%u.", (unsigned)index);
    for (i = 0; i < DITI_JOINT_STREAMS; i++) {
        diti_load_fused_bare(loader, &block->qkv.streams[i], &qkv[i], width, width);
        diti_load_bare(loader, &block->out.streams[i], width, width, outs[i]);
        diti_load_bare_rows(loader, &block->ff_gate.streams[i], 0, feed, 2 * feed, width, ins[i]);
        diti_load_bare_rows(loader, &block->ff_in.streams[i], feed, feed, 2 * feed, width, ins[i]);
        diti_load_bare(loader, &block->ff_out.streams[i], width, feed, downs[i]);
    }
    diti_load_vectors(loader, &block->norms, norms, 4, config->head_dim);
    diti_loader_scope_end(loader);
    diti_make_attention(&block->attention, DITI_STREAMS_TWO, block->qkv.streams, block->out.streams, width,
                        config->head_dim);
    block->attention.norms = &block->norms;
    diti_make_feed(&block->feed, DITI_STREAMS_TWO, block->ff_in.streams, block->ff_out.streams);
    block->feed.gate = block->ff_gate.streams;
    block->feed.activation = DITI_ACTIVATION_SILU;
}

/* Attention and feed-forward read one norm, and stand side by side in what the last layer reads. */
static void diti_flux2_load_single(diti_loader *loader, diti_flux2_single *block, const diti_flux2_config *config,
                                   uint32_t index) {
    static const char *const norms[] = {"attn.norm_q.weight", "attn.norm_k.weight"};
    uint32_t width = config->width, feed = config->feed, all = 3 * width + 2 * feed;
    diti_loader_scope(loader, "single_transformer_blocks.%u.", (unsigned)index);
    block->qkv.count = 1;
    diti_load_bare_rows(loader, &block->qkv.layers[0], 0, 3 * width, all, width, "attn.to_qkv_mlp_proj");
    diti_load_bare_rows(loader, &block->ff_gate, 3 * width, feed, all, width, "attn.to_qkv_mlp_proj");
    diti_load_bare_rows(loader, &block->ff_in, 3 * width + feed, feed, all, width, "attn.to_qkv_mlp_proj");
    diti_load_vectors(loader, &block->norms, norms, 2, config->head_dim);
    diti_load_bare(loader, &block->out, width, width + feed, "attn.to_out");
    diti_loader_scope_end(loader);
    diti_make_attention(&block->attention, DITI_STREAMS_ONE, &block->qkv, &block->out, width, config->head_dim);
    block->attention.norms = &block->norms;
    diti_make_feed(&block->feed, DITI_STREAMS_ONE, &block->ff_in, &block->out);
    block->feed.gate = &block->ff_gate;
    block->feed.activation = DITI_ACTIVATION_SILU;
    block->attention.beside = &block->feed;
    block->attention.norm_name = "norm";
    block->attention.out_name = "out";
}

static void diti_flux2_load_weights(diti_loader *loader, diti_flux2 *model) {
    static const char *const modulation[] = {"double_stream_modulation_txt.linear",
                                             "double_stream_modulation_img.linear", "single_stream_modulation.linear"};
    const diti_flux2_config *config = &model->config;
    uint32_t i, width = config->width;
    diti_load_bare(loader, &model->patch, width, config->channels, "x_embedder");
    diti_load_bare(loader, &model->text, width, config->text, "context_embedder");
    diti_load_bare_embedder(loader, &model->time, width, "time_guidance_embed.timestep_embedder");
    if (config->guided)
        diti_load_bare_embedder(loader, &model->guidance, width, "time_guidance_embed.guidance_embedder");
    for (i = 0; i < 3; i++)
        diti_load_bare(loader, &model->modulation[i], (i < 2 ? 6 : 3) * width, width, modulation[i]);
    for (i = 0; i < config->doubles; i++) diti_flux2_load_double(loader, &model->doubles[i], config, i);
    for (i = 0; i < config->singles; i++) diti_flux2_load_single(loader, &model->singles[i], config, i);
    diti_load_shift_scale(loader, &model->final_modulation, width, "norm_out.linear", loader->rename == NULL, false);
    diti_load_bare(loader, &model->proj_out, config->channels, width, "proj_out");
    diti_make_output(&model->last, DITI_STREAMS_IMAGE, &model->proj_out);
}

/* Distilled models take four steps without guidance; their bases, which have the same tensors, say in model_index.json
   that they are not. */
static void diti_flux2_settle(diti_model_traits *traits, const diti_json *index, const diti_json *scheduler) {
    (void)scheduler;
    traits->keeps_references = index && diti_equal(diti_json_string(index, "_class_name", ""), "Flux2KleinKVPipeline");
    if (traits->wants_guidance || !index || diti_json_bool(index, "is_distilled", true)) return;
    traits->variant = traits->width < 4096 ? "klein-base-4b" : "klein-base-9b";
    traits->default_steps = 50;
    traits->default_guidance = 4;
}

/* The shift by mu: two measured lines, of 200 steps and of 10, and between them by the number of steps; long sequences
   have one line alone (docs/models.md 7.7). */
static double diti_flux2_shift(uint32_t image_tokens, uint32_t steps) {
    const double few[2] = {8.73809524e-05, 1.89833333}, many[2] = {0.00016927, 0.45666666};
    double at200 = many[0] * image_tokens + many[1], at10 = few[0] * image_tokens + few[1];
    double slope = (at10 - at200) / (10 - 200.0);
    return exp(image_tokens > 4300 ? at200 : slope * steps + at200 - 200 * slope);
}

/* ---- how its language model is asked (docs/models.md 5.5) ---- */

/* Mistral's; the message has a line feed in it, as BFL published it. */
#define DITI_FLUX2_REASON                                                                                              \
    "[SYSTEM_PROMPT]You are an AI that reasons about image descriptions. You give structured responses focusing on "   \
    "object relationships, object\nattribution and actions without speculation.[/SYSTEM_PROMPT][INST]"

static const diti_chat diti_flux2_chats[] = {
    {"Flux2KleinPipeline Flux2KleinKVPipeline",
     DITI_CHAT_USER,
     DITI_CHAT_ANSWER "<think>\n\n</think>\n\n",
     NULL,
     "",
     "",
     512,
     true,
     0,
     {3, 36, {9, 18, 27}, false},
     0},
    {"Flux2Pipeline",
     DITI_FLUX2_REASON,
     "[/INST]",
     NULL,
     "",
     "",
     512,
     true,
     DITI_CHAT_PADS_BEFORE,
     {3, 0, {10, 20, 30}, true},
     0},
    DITI_CHATS_END,
};

static void diti_flux2_set_traits(diti_flux2 *model) {
    const diti_flux2_config *config = &model->config;
    diti_model_traits *traits = &model->base.traits;
    traits->variant = config->guided ? "dev" : config->width < 4096 ? "klein-4b" : "klein-9b";
    diti_traits_sizes(traits, config->doubles + config->singles, config->width, config->heads, config->channels, 1);
    traits->single_layers = config->singles;
    traits->feed = config->feed;
    traits->gated = true;
    traits->default_size = 64;
    traits->factor = 16;
    traits->chat = &diti_flux2_chats[config->guided ? 1 : 0];
    traits->text_tokens = 512;
    traits->text_columns = config->text;
    traits->encoders[0] = config->guided ? DITI_ENCODER_MISTRAL : DITI_ENCODER_QWEN3;
    traits->scheduler = "{\"_class_name\":\"FlowMatchEulerDiscreteScheduler\",\"shift\":3.0,"
                        "\"use_dynamic_shifting\":true}";
    traits->uniform_sigmas = true;
    traits->measured_shift = diti_flux2_shift;
    traits->default_steps = config->guided ? 28 : 4;
    traits->default_guidance = 1;
    traits->default_distilled = 4;
    traits->wants_guidance = config->guided;
    traits->references = DITI_MAX_REFERENCES;
    traits->edits = true;
    traits->reference_limit = traits->reference_limit_alone = 1024 * 1024;
    traits->caches_references = true;
    traits->attends_padding = true;
    traits->joint = traits->planar = true;
    traits->settle = diti_flux2_settle;
}

static void diti_flux2_load(diti_component *component, diti_loader *loader) {
    diti_flux2 *model = (diti_flux2 *)(void *)component;
    const diti_flux2_config *config = &model->config;
    model->doubles =
        (diti_flux2_double *)diti_component_array(component, loader, config->doubles, sizeof *model->doubles);
    model->singles =
        (diti_flux2_single *)diti_component_array(component, loader, config->singles, sizeof *model->singles);
    if (!model->doubles || !model->singles) return;
    diti_flux2_load_weights(loader, model);
    diti_flux2_set_traits(model);
}

/* ---- once per picture: everything that does not depend on the latent ---- */

typedef struct diti_flux2_state {    /* prepare leaves these for the steps */
    diti_tensor sinusoids, guidance; /* inputs F32 [steps, 256], [1, 256] */
    diti_rotation rotation;          /* [text + image rows, head_dim / 2] */
    diti_tensor text;                /* F32 [prompts * text tokens, D] */
    /* F32 [steps, 12D], text's columns first, [steps, 3D], [steps, 2D], and the step's rows */
    diti_tensor modulation[3], step[3];
    diti_reference_kv references; /* where they are kept; then these tables have a row more, of timestep 0 */
} diti_flux2_state;

#define diti_flux2_state_of(step) ((diti_flux2_state *)(step)->family)

/* Modulation of double blocks, of single ones and of the last norm, for all steps. */
static void diti_flux2_modulate(const diti_pass *p, diti_flux2_state *state, diti_tensor active) {
    const diti_flux2 *model = diti_flux2_of(p->model);
    diti_graph *graph = p->graph;
    uint32_t steps = diti_tensor_rows(graph, active), columns = 6 * p->width, i;
    state->modulation[0] = diti_tensor_new(graph, DITI_F32, steps, 2 * columns, "modulation");
    for (i = 0; i < DITI_JOINT_STREAMS; i++)
        diti_layer_spread(graph, diti_pass_tensor(p), active, &model->modulation[i],
                          diti_tensor_view(graph, state->modulation[0], 0, steps, i * columns, columns), "modulation");
    state->modulation[1] =
        diti_layer_spread(graph, diti_pass_tensor(p), active, &model->modulation[2], 0, "single_modulation");
    state->modulation[2] = diti_shift_scale(graph, active, &model->final_modulation);
}

static diti_tensor diti_flux2_run_block(diti_pass *p, diti_tensor x);

/* The rows of references attend each other alone, at timestep 0: each block's keys and values of them are the same in
   all steps (docs/models.md 3.13.1). */
static void diti_flux2_keep_references(const diti_pass *p, diti_flux2_state *state) {
    diti_graph *graph = p->graph;
    uint32_t rows = p->step->lead, i, before = diti_tensor_rows(graph, state->rotation.cosines) - rows;
    for (i = 0; i < 3; i++)
        state->step[i] = diti_tensor_view(graph, state->modulation[i], p->step->steps, 1, 0,
                                          diti_tensor_columns(graph, state->modulation[i]));
    state->rotation.here_cosines = diti_tensor_view(graph, state->rotation.cosines, before, rows, 0,
                                                    diti_tensor_columns(graph, state->rotation.cosines));
    state->rotation.here_sines = diti_tensor_view(graph, state->rotation.sines, before, rows, 0,
                                                  diti_tensor_columns(graph, state->rotation.sines));
    diti_reference_kv_fill(p, &state->references, 1, p->step->lead_rows, diti_flux2_run_block);
}

static void diti_flux2_prepare(diti_pass *p) {
    const diti_flux2 *model = diti_flux2_of(p->model);
    const diti_flux2_config *config = &model->config;
    const diti_step_desc *step = p->step;
    diti_graph *graph = p->graph;
    uint32_t tokens = step->text_tokens + diti_reference_tokens(p) + step->height * step->width;
    diti_tensor text, time;
    diti_flux2_state *state = diti_flux2_state_of(step);
    bool keeps = step->keeps_references && step->reference_count > 0;
    state->sinusoids = diti_tensor_input(graph, DITI_F32, step->steps + (keeps ? 1 : 0), 256, "timesteps");
    diti_rotation_prepare(graph, &state->rotation, tokens, config->head_dim / 2);
    time = diti_embed(graph, &model->time, state->sinusoids, 0);
    if (config->guided) time = diti_embed_guidance(graph, &model->guidance, &state->guidance, time);
    diti_flux2_modulate(p, state, diti_silu(graph, time, "conditioning_silu"));
    text = diti_tensor_view(graph, step->text, 0, step->text_batch * step->text_tokens, 0, config->text);
    state->text = diti_layer_f32(graph, text, &model->text, DITI_ACTIVATION_NONE, 0, "context");
    diti_reference_lead(p, &model->patch);
    if (keeps) diti_flux2_keep_references(p, state);
}

/* Text token j stands at (0, 0, 0, j), a token of the image at (0, y, x, 0), one of reference i at (10 + 10 i, y, x,
   0). References whose keys and values are kept stand behind the image. */
static void diti_flux2_place(const diti_transformer *transformer, const diti_step_desc *step, uint32_t prompt,
                             float *cosines, float *sines) {
    const diti_flux2_config *config = &diti_flux2_of(transformer)->config;
    uint32_t half = config->head_dim / 2, texts = step->text_tokens, image = step->height * step->width, row;
    uint32_t first = step->reference_kv ? texts + image : texts, lead = 0, i;
    (void)prompt;
    for (i = 0; i < step->reference_count; i++) lead += step->references[i].height * step->references[i].width;
    for (row = 0; row < texts + image + lead; row++) {
        int32_t position[DITI_FLUX2_AXES] = {0, 0, 0, 0};
        if (row < texts) {
            position[3] = (int32_t)row;
        } else if (row >= first && row < first + lead) {
            uint32_t y, x;
            position[0] = (int32_t)(10 + 10 * diti_reference_position(step, 1, row - first, &y, &x));
            position[1] = (int32_t)y;
            position[2] = (int32_t)x;
        } else {
            uint32_t token = row - texts - (first == texts ? lead : 0);
            position[1] = (int32_t)(token / step->width);
            position[2] = (int32_t)(token % step->width);
        }
        diti_rotate_axes(config->axes, DITI_FLUX2_AXES, (double)config->theta, position, cosines + (size_t)row * half,
                         sines + (size_t)row * half);
    }
}

static dit_result diti_flux2_write_inputs(const diti_transformer *transformer, diti_plan *plan,
                                          const diti_step_desc *step, const float *timesteps, dit_error *err) {
    const diti_flux2_state *state = (const diti_flux2_state *)step->family;
    DITI_TRY(diti_write_places(transformer, plan, step, state->rotation.cosines, state->rotation.sines, 1,
                               diti_flux2_place, err));
    DITI_TRY(diti_write_guidance(plan, state->guidance, step, err));
    return diti_write_timesteps(plan, state->sinusoids, step, timesteps, err);
}

/* ---- one evaluation ---- */

static void diti_flux2_begin(diti_pass *p) {
    diti_flux2_state *state = diti_flux2_state_of(p->step);
    uint32_t i;
    diti_rotation_begin(p, &state->rotation);
    for (i = 0; i < 3 && !p->step->same_timestep; i++) state->step[i] = diti_select_modulation(p, state->modulation[i]);
}

static diti_tensor diti_flux2_embed(diti_pass *p) {
    return diti_patch_embed(p, diti_flux2_state_of(p->step)->text, &diti_flux2_of(p->model)->patch, 0);
}

/* DoubleStreamBlock.forward and SingleStreamBlock.forward, docs/models.md 3.13 steps 3 and 4; x F32 [items * (text +
   image), D] is changed in place. */
static diti_tensor diti_flux2_run_block(diti_pass *p, diti_tensor x) {
    const diti_flux2 *model = diti_flux2_of(p->model);
    const diti_flux2_state *state = diti_flux2_state_of(p->step);
    bool single = p->index >= model->config.doubles;
    p->modulation.rows = state->step[single];
    p->modulation.chunks = single ? 3 : 6;
    diti_rotation_apply(p, &state->rotation);
    if (single) {
        const diti_flux2_single *w = &model->singles[p->index - model->config.doubles];
        diti_parallel_block_run(p, x, &w->attention, &w->feed);
    } else {
        const diti_flux2_double *w = &model->doubles[p->index];
        diti_block_run(p, x, &w->attention, &w->feed);
    }
    return x;
}

static diti_tensor diti_flux2_final(diti_pass *p, diti_tensor x) {
    const diti_flux2 *model = diti_flux2_of(p->model);
    p->modulation.rows = diti_flux2_state_of(p->step)->step[2];
    return diti_output_modulated(p, x, &model->last);
}

/* ---- where parts of such models are ---- */

#define DITI_FLUX2_4B "black-forest-labs/FLUX.2-klein-4B"
#define DITI_FLUX2_9B "black-forest-labs/FLUX.2-klein-9B"
#define DITI_FLUX2_DEV "black-forest-labs/FLUX.2-dev"
static const diti_place diti_flux2_places[] = {
    {"dev", DIT_ROLE_TRANSFORMER, DITI_FLUX2_DEV ": transformer/"},
    {"dev", DIT_ROLE_TEXT_1, DITI_FLUX2_DEV ": text_encoder/"},
    {"dev", DIT_ROLE_VAE, DITI_FLUX2_DEV ": vae/"},
    {"dev", DIT_ROLE_TOKENIZER_1, DITI_FLUX2_DEV ": tokenizer/"},
    {"dev", DIT_ROLE_SCHEDULER, DITI_FLUX2_DEV ": scheduler/"},
    {"klein-9b", DIT_ROLE_TRANSFORMER, DITI_FLUX2_9B ": transformer/"},
    {"klein-9b", DIT_ROLE_TEXT_1, DITI_FLUX2_9B ": text_encoder/, or unsloth/Qwen3-8B-GGUF: Qwen3-8B-Q4_K_M.gguf"},
    {"", DIT_ROLE_TRANSFORMER, DITI_FLUX2_4B ": transformer/"},
    {"", DIT_ROLE_TEXT_1, DITI_FLUX2_4B ": text_encoder/, or unsloth/Qwen3-4B-GGUF: Qwen3-4B-Q4_K_M.gguf"},
    {"", DIT_ROLE_VAE, DITI_FLUX2_4B ": vae/"},
    {"", DIT_ROLE_TOKENIZER_1, DITI_FLUX2_4B ": tokenizer/"},
    {"", DIT_ROLE_SCHEDULER, DITI_FLUX2_4B ": scheduler/"},
    {NULL, DIT_ROLE_NONE, NULL},
};

DIT_INTERNAL const diti_family *diti_flux2_family(void) {
    static const diti_family family = {
        "flux2",
        "FLUX.2",
        {"Flux2Transformer2DModel",
         NULL,
         {"x_embedder.weight", "single_stream_modulation.linear.weight", "double_stream_modulation_img.linear.weight",
          NULL},
         {"img_in.weight", "single_stream_modulation.lin.weight", "double_stream_modulation_img.lin.weight", NULL},
         {NULL, NULL}},
        {"transformer", "transformer", sizeof(diti_flux2), diti_flux2_read, diti_flux2_load, NULL},
        diti_flux2_names,
        {128, 1, 0, true},
        NULL,
        diti_flux2_chats,
        diti_flux2_places,
        sizeof(diti_flux2_state),
        diti_flux2_prepare,
        diti_flux2_begin,
        diti_flux2_embed,
        diti_flux2_run_block,
        diti_flux2_final,
        diti_flux2_write_inputs};
    return &family;
}
