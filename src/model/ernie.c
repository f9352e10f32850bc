/* ERNIE-Image: docs/models.md 3.22. Original:
   https://github.com/huggingface/diffusers/blob/v0.42.1/src/diffusers/models/transformers/transformer_ernie_image.py

   Text and image are one row of tokens with the same weights, and one modulation serves all blocks. A token is a pixel
   of FLUX.2's latent. The two channels of a pair that rotates have angles of their own, so that queries and keys are
   turned and then stretched. */
#include "model/model.h"
#include "text/text.h"

#define DITI_ERNIE_MAX_BLOCKS 128u
#define DITI_ERNIE_AXES 3u

/* ---- configuration ---- */

typedef struct diti_ernie_config {
    uint32_t blocks, heads, head_dim, width, feed; /* width: D; feed: columns of the feed-forward */
    uint32_t channels;                             /* channels of the latent, whose pixels are the tokens */
    uint32_t text;                                 /* columns of the text encoder's output */
    uint32_t axes[DITI_ERNIE_AXES];                /* channels of a head that turn with each coordinate */
    float theta, eps;
    uint32_t out; /* columns that the last layer makes */
} diti_ernie_config;

/* ---- weights; all files have diffusers' names ---- */

typedef struct diti_ernie {
    diti_transformer base;
    diti_ernie_config config;
    diti_layer patch, text; /* [D, channels], [D, text] */
    diti_embedder time;     /* [D, D], [D, D] */
    diti_layer modulation;  /* [6D, D] */
    diti_gated_block *blocks;
    diti_fused_linear final_modulation; /* [2D, D]: shift, scale */
    diti_layer proj_out;                /* [channels, D] */
    diti_sublayer last;
} diti_ernie;

#define diti_ernie_of(transformer) ((const diti_ernie *)(const void *)(transformer))

/* ---- reading the configuration: what config.json does not say comes from shapes ---- */

static dit_result diti_ernie_check(const diti_loader *loader, const diti_ernie_config *config, dit_error *err) {
    static const diti_need needs[] = {{offsetof(diti_ernie_config, blocks), "layers"},
                                      {offsetof(diti_ernie_config, feed), "layers"},
                                      {offsetof(diti_ernie_config, text), "text_proj"},
                                      {offsetof(diti_ernie_config, head_dim), "norms of queries"},
                                      {offsetof(diti_ernie_config, width), "x_embedder or final_linear"},
                                      {offsetof(diti_ernie_config, channels), "x_embedder or final_linear"},
                                      {offsetof(diti_ernie_config, out), "x_embedder or final_linear"}};
    DITI_TRY(diti_config_complete(loader, config, "ERNIE-Image", needs, DITI_COUNT(needs), err));
    if (config->channels != config->out || config->out > 1024 || config->width % config->head_dim ||
        config->head_dim > 256 || config->head_dim % 8 || config->width % 4 || config->blocks > DITI_ERNIE_MAX_BLOCKS)
        return diti_loader_refuse(
            loader, err,
            "an ERNIE-Image transformer of %u blocks, heads of %u in a width of %u, that takes %u "
            "channels and makes %u, is out of range",
            (unsigned)config->blocks, (unsigned)config->head_dim, (unsigned)config->width, (unsigned)config->channels,
            (unsigned)config->out);
    return DIT_OK;
}

static dit_result diti_ernie_read(diti_component *component, diti_loader *loader, const diti_json *json,
                                  dit_error *err) {
    static const diti_shape_key keys[] = {
        {offsetof(diti_ernie_config, out), "final_linear.weight", 0},
        {offsetof(diti_ernie_config, width), "x_embedder.proj.weight", 0},
        {offsetof(diti_ernie_config, channels), "x_embedder.proj.weight", 1},
        {offsetof(diti_ernie_config, text), "text_proj.weight", 1},
        {offsetof(diti_ernie_config, feed), "layers.0.mlp.gate_proj.weight", 0},
        {offsetof(diti_ernie_config, head_dim), "layers.0.self_attention.norm_q.weight", 0}};
    diti_ernie_config *config = &((diti_ernie *)(void *)component)->config;
    diti_settings settings = diti_settings_of(json, "the transformer's config.json", err);
    diti_read_shapes(loader, config, keys, DITI_COUNT(keys));
    config->blocks = diti_loader_layers(loader, &settings, "num_layers", "layers.", ".self_attention.to_q.weight");
    DITI_TRY(diti_ernie_check(loader, config, err));
    config->heads = config->width / config->head_dim;
    config->theta = (float)diti_setting_number(&settings, "rope_theta", 256, 2, 1e9);
    config->eps = (float)diti_setting_number(&settings, "eps", 1e-6, 0, 1);
    diti_setting_number(&settings, "patch_size", 1, 1, 1);
    if (diti_setting_size(&settings, "num_attention_heads", config->heads, 1024) != config->heads)
        diti_settings_refuse(&settings, DIT_ERROR_BAD_FILE, "num_attention_heads",
                             "the norms of queries are for another number");
    /* As published, 32, 48 and 48 of 128; the same shares of other heads. */
    return diti_setting_axes(&settings, "ERNIE-Image", "rope_axes_dim", config->head_dim, config->head_dim / 4,
                             config->head_dim / 8 * 3, DITI_ERNIE_AXES, config->axes, err);
}

/* ---- loading ---- */

static void diti_ernie_heads(const diti_pass *p, diti_tensor x, uint32_t kind);

static void diti_ernie_load_blocks(diti_loader *loader, const diti_ernie_config *config, diti_gated_block *blocks) {
    static const diti_gated_names names = {
        NULL,
        {NULL, {"self_attention.to_q", "self_attention.to_k", "self_attention.to_v"}, 3},
        {"self_attention.norm_q.weight", "self_attention.norm_k.weight"},
        "self_attention.to_out.0",
        "mlp.gate_proj",
        "mlp.up_proj",
        "mlp.linear_fc2",
        {"adaLN_sa_ln.weight", "adaLN_mlp_ln.weight"},
        {NULL, NULL}};
    diti_gated_kind kind = DITI_ZERO;
    uint32_t i;
    kind.width = config->width;
    kind.head_dim = config->head_dim;
    kind.feed = config->feed;
    kind.eps = config->eps;
    kind.activation = DITI_ACTIVATION_GELU_ERF;
    diti_gated_blocks_load(loader, blocks, config->blocks, "layers.", &names, &kind, DITI_STREAMS_ONE);
    for (i = 0; i < config->blocks; i++) {
        blocks[i].attention.norms = NULL; /* diti_ernie_heads has them */
        blocks[i].attention.heads = diti_ernie_heads;
    }
}

static void diti_ernie_load_weights(diti_loader *loader, diti_ernie *model) {
    const diti_ernie_config *config = &model->config;
    uint32_t width = config->width;
    diti_load_layer(loader, &model->patch, width, config->channels, 1, "x_embedder.proj");
    diti_load_bare(loader, &model->text, width, config->text, "text_proj");
    diti_load_embedder(loader, &model->time, width, width, width, "time_embedding");
    diti_load_layer(loader, &model->modulation, 6 * width, width, 1, "adaLN_modulation.1");
    diti_ernie_load_blocks(loader, config, model->blocks);
    diti_load_shift_scale(loader, &model->final_modulation, width, "final_norm.linear", true, true);
    diti_load_layer(loader, &model->proj_out, config->channels, width, 1, "final_linear");
    diti_make_output(&model->last, DITI_STREAMS_IMAGE, &model->proj_out);
    model->last.eps = config->eps;
}

/* ---- how its language model is asked (docs/models.md 5.5) ---- */

static const diti_chat diti_ernie_chats[] = {
    {"ErnieImagePipeline", "", "", NULL, "", "", 2048, false, 0, {1, 0, {-2}, false}, 0},
    DITI_CHATS_END,
};

static void diti_ernie_set_traits(diti_ernie *model) {
    const diti_ernie_config *config = &model->config;
    diti_model_traits *traits = &model->base.traits;
    traits->variant = "ernie-image";
    diti_traits_sizes(traits, config->blocks, config->width, config->heads, config->channels, 1);
    traits->feed = config->feed;
    traits->gated = true;
    traits->default_size = 64;
    traits->factor = 16;
    diti_traits_chat(traits, DITI_ENCODER_MISTRAL, &diti_ernie_chats[0], config->text, 1);
    traits->scheduler = "{\"_class_name\":\"FlowMatchEulerDiscreteScheduler\",\"shift\":4.0}";
    traits->uniform_sigmas = true;
    traits->default_steps = 50;
    traits->default_guidance = 4;
    traits->joint = true;
}

static void diti_ernie_load(diti_component *component, diti_loader *loader) {
    diti_ernie *model = (diti_ernie *)(void *)component;
    model->blocks =
        (diti_gated_block *)diti_component_array(component, loader, model->config.blocks, sizeof *model->blocks);
    if (!model->blocks) return;
    diti_ernie_load_weights(loader, model);
    diti_ernie_set_traits(model);
}

/* ---- once per picture: everything that does not depend on the latent ---- */

typedef struct diti_ernie_state {  /* prepare leaves these for the steps */
    diti_tensor sinusoids;         /* input F32 [steps, D] */
    diti_tensor turns[2], here[2]; /* inputs F32 [prompts * (text + image rows), head_dim]: cosines and factors,
                                      sines and zeros; the rows at hand */
    uint32_t table_items;
    diti_text_order order;
    diti_tensor text;              /* F32 [prompts * text rows, D] */
    diti_tensor modulation, final; /* F32 [steps, 6D], [steps, 2D] */
    diti_tensor step, step_final;  /* rows of the step at hand */
} diti_ernie_state;

#define diti_ernie_state_of(step) ((diti_ernie_state *)(step)->family)

static void diti_ernie_prepare(diti_pass *p) {
    const diti_ernie *model = diti_ernie_of(p->model);
    const diti_ernie_config *config = &model->config;
    const diti_step_desc *step = p->step;
    diti_graph *graph = p->graph;
    uint32_t rows = step->text_batch * (step->text_tokens + step->height * step->width);
    diti_ernie_state *state = diti_ernie_state_of(step);
    diti_tensor time, text;
    state->sinusoids = diti_tensor_input(graph, DITI_F32, step->steps, config->width, "timesteps");
    state->turns[0] = diti_tensor_input(graph, DITI_F32, rows, config->head_dim, "cosines and factors");
    state->turns[1] = diti_tensor_input(graph, DITI_F32, rows, config->head_dim, "sines");
    diti_text_order_prepare(p, &state->order);
    time = diti_embed(graph, &model->time, state->sinusoids, 0);
    state->modulation = diti_layer_spread(graph, diti_pass_tensor(p), diti_silu(graph, time, "modulation_silu"),
                                          &model->modulation, 0, "modulation");
    state->final = diti_shift_scale(graph, time, &model->final_modulation);
    text = diti_text_columns(p, config->text);
    text = diti_layer_f32(graph, text, &model->text, DITI_ACTIVATION_NONE, 0, "context");
    state->text = diti_text_order_rows(p, &state->order, text);
}

/* ---- inputs ---- */

/* Channels c and c + half of a head make a pair, whose first one becomes x cos a - y sin a and whose second one y cos b
   + x sin b, with the angles a and b that stand at c / 2 and (c + half) / 2 of a token's list. But for a turn of an
   eighth, which queries and keys have in common, this is a turn by (a + b) / 2, and an eighth, of which then the first
   is multiplied with cos d + sin d and the second with cos d - sin d, d = (a - b) / 2. */
static void diti_ernie_turn(const diti_ernie_config *config, const int32_t *position, float *cosines, float *sines) {
    uint32_t half = config->head_dim / 2, axis, i, at = 0;
    double angles[128];
    for (axis = 0; axis < DITI_ERNIE_AXES; axis++)
        for (i = 0; i < config->axes[axis] / 2; i++)
            angles[at++] = position[axis] * pow((double)config->theta, -2.0 * i / config->axes[axis]);
    for (i = 0; i < half; i++) {
        double a = angles[i / 2], b = angles[(half + i) / 2], turn = (a + b) / 2 + 0.78539816339744831;
        cosines[i] = (float)cos(turn);
        sines[i] = (float)sin(turn);
        if (i % 2) continue; /* two neighbours share a factor */
        cosines[half + i / 2] = (float)(cos((a - b) / 2) + sin((a - b) / 2));
        cosines[half + (half + i) / 2] = (float)(cos((a - b) / 2) - sin((a - b) / 2));
    }
    memset(sines + half, 0, half * sizeof *sines);
}

/* A text's tokens stand behind each other from 0 on, the picture at the next place. */
static void diti_ernie_place(const diti_transformer *transformer, const diti_step_desc *step, uint32_t prompt,
                             float *cosines, float *sines) {
    const diti_ernie_config *config = &diti_ernie_of(transformer)->config;
    uint32_t texts = step->text_tokens, rows = texts + step->height * step->width, row;
    uint32_t length = diti_text_order_length(step, prompt, 1);
    for (row = 0; row < rows; row++) {
        int32_t position[DITI_ERNIE_AXES] = {0, 0, 0};
        size_t at = ((size_t)prompt * rows + row) * config->head_dim;
        if (row < texts && row >= texts - length) position[0] = (int32_t)(row - (texts - length));
        if (row >= texts) {
            position[0] = (int32_t)length;
            position[1] = (int32_t)((row - texts) / step->width);
            position[2] = (int32_t)((row - texts) % step->width);
        }
        diti_ernie_turn(config, position, cosines + at, sines + at);
    }
}

/* Sinusoids of timesteps, sines first. */
static dit_result diti_ernie_write_times(const diti_ernie *model, diti_plan *plan, const diti_step_desc *step,
                                         diti_tensor input, const float *timesteps, dit_error *err) {
    const diti_env *env = &model->base.component.env;
    uint32_t width = model->config.width, half = width / 2, row, i;
    float *rows = (float *)diti_alloc_array(env, (size_t)step->steps * width, sizeof *rows);
    dit_result result;
    if (!rows) return diti_fail_memory(err, "the timestep table");
    diti_sinusoid(timesteps, step->steps, width, 0, rows);
    for (row = 0; row < step->steps; row++) {
        for (i = 0; i < half; i++) {
            float cosine = rows[(size_t)row * width + i];
            rows[(size_t)row * width + i] = rows[(size_t)row * width + half + i];
            rows[(size_t)row * width + half + i] = cosine;
        }
    }
    result = diti_plan_write(plan, input, rows, (size_t)step->steps * width * sizeof *rows, err);
    diti_free(env, rows);
    return result;
}

static dit_result diti_ernie_write_inputs(const diti_transformer *transformer, diti_plan *plan,
                                          const diti_step_desc *step, const float *timesteps, dit_error *err) {
    const diti_ernie *model = diti_ernie_of(transformer);
    const diti_ernie_state *state = (const diti_ernie_state *)step->family;
    DITI_TRY(diti_text_order_write(plan, step, &state->order, &model->base.component.env, 1, step->height * step->width,
                                   err));
    DITI_TRY(diti_write_places(transformer, plan, step, state->turns[0], state->turns[1], step->text_batch,
                               diti_ernie_place, err));
    return diti_ernie_write_times(model, plan, step, state->sinusoids, timesteps, err);
}

/* ---- one evaluation ---- */

static void diti_ernie_begin(diti_pass *p) {
    diti_ernie_state *state = diti_ernie_state_of(p->step);
    uint32_t i;
    state->table_items = p->step->text_batch > 1 ? p->items : 0;
    for (i = 0; i < 2; i++)
        state->here[i] = diti_text_order_table(p, state->turns[i], DITI_JOINT_TEXT, state->table_items);
    if (p->step->same_timestep) return;
    state->step = diti_select_modulation(p, state->modulation);
    state->step_final = diti_select_modulation(p, state->final);
}

static diti_tensor diti_ernie_embed(diti_pass *p) {
    return diti_patch_embed(p, diti_ernie_state_of(p->step)->text, &diti_ernie_of(p->model)->patch, 0);
}

/* Queries or keys of the block at hand: the norm of each head, its turn, and the factors behind it. */
static void diti_ernie_heads(const diti_pass *p, diti_tensor x, uint32_t kind) {
    const diti_ernie *model = diti_ernie_of(p->model);
    uint32_t head_dim = model->config.head_dim, half = head_dim / 2, rows = diti_tensor_rows(p->graph, p->cosines);
    diti_qkv_desc desc = DITI_ZERO;
    desc.heads = diti_tensor_columns(p->graph, x) / head_dim;
    desc.head_dim = head_dim;
    desc.tokens = rows;
    desc.norm = DITI_QKV_RMS;
    desc.eps = model->config.eps;
    desc.weight = &model->blocks[p->index].norms;
    desc.kinds = 2;
    desc.kind = kind + 1;
    desc.cosines = diti_tensor_view(p->graph, p->cosines, 0, rows, 0, half);
    desc.sines = diti_tensor_view(p->graph, p->sines, 0, rows, 0, half);
    desc.half_split = true;
    desc.name = kind ? "k_turn" : "q_turn";
    diti_qk_norm_rope(p->graph, x, &desc);
    desc.norm = DITI_QKV_NO_NORM;
    desc.weight = NULL;
    desc.kinds = desc.kind = 0;
    desc.cosines = diti_tensor_view(p->graph, p->cosines, 0, rows, half, half);
    desc.sines = diti_tensor_view(p->graph, p->sines, 0, rows, half, half);
    desc.half_split = false;
    desc.name = kind ? "k_factors" : "q_factors";
    diti_qk_norm_rope(p->graph, x, &desc);
}

/* ErnieImageSharedAdaLNBlock.forward, docs/models.md 3.22 step 3; x F32 [items * (text + image), D] is changed in
   place. */
static diti_tensor diti_ernie_run_block(diti_pass *p, diti_tensor x) {
    const diti_gated_block *w = &diti_ernie_of(p->model)->blocks[p->index];
    const diti_ernie_state *state = diti_ernie_state_of(p->step);
    p->modulation.rows = state->step;
    p->modulation.chunks = 6;
    p->cosines = state->here[0];
    p->sines = state->here[1];
    p->table_items = state->table_items;
    p->keys = diti_text_order_keys(p, &state->order);
    diti_block_attend(p, x, &w->attention);
    diti_sublayer_feed(p, x, DITI_SHIFT_MLP, DITI_SCALE_MLP, DITI_GATE_MLP, &w->feed);
    return x;
}

static diti_tensor diti_ernie_final(diti_pass *p, diti_tensor x) {
    const diti_ernie *model = diti_ernie_of(p->model);
    p->modulation.rows = diti_ernie_state_of(p->step)->step_final;
    p->modulation.chunks = 0;
    return diti_output_modulated(p, x, &model->last);
}

/* ---- where parts of such models are ---- */

#define DITI_ERNIE_USUAL "baidu/ERNIE-Image"
static const diti_place diti_ernie_places[] = {
    {"", DIT_ROLE_TRANSFORMER, DITI_ERNIE_USUAL ": transformer/"},
    {"", DIT_ROLE_TEXT_1, DITI_ERNIE_USUAL ": text_encoder/"},
    {"", DIT_ROLE_VAE, DITI_ERNIE_USUAL ": vae/"},
    {"", DIT_ROLE_TOKENIZER_1, DITI_ERNIE_USUAL ": tokenizer/"},
    {"", DIT_ROLE_SCHEDULER, DITI_ERNIE_USUAL ": scheduler/"},
    {"", DIT_ROLE_NONE, "ERNIE-Image-Turbo looks alike and wants 8 steps and guidance 1"},
    {NULL, DIT_ROLE_NONE, NULL},
};

DIT_INTERNAL const diti_family *diti_ernie_family(void) {
    static const diti_family family = {
        "ernie",
        "ERNIE-Image",
        {"ErnieImageTransformer2DModel",
         NULL,
         {"adaLN_modulation.1.weight", "x_embedder.proj.weight", "layers.0.adaLN_sa_ln.weight", NULL},
         {"adaLN_modulation.1.weight", "x_embedder.proj.weight", "layers.0.adaLN_sa_ln.weight", NULL},
         {NULL, NULL}},
        {"transformer", "transformer", sizeof(diti_ernie), diti_ernie_read, diti_ernie_load, NULL},
        NULL,
        {128, 1, 0, false}, /* FLUX.2's */
        NULL,
        diti_ernie_chats,
        diti_ernie_places,
        sizeof(diti_ernie_state),
        diti_ernie_prepare,
        diti_ernie_begin,
        diti_ernie_embed,
        diti_ernie_run_block,
        diti_ernie_final,
        diti_ernie_write_inputs};
    return &family;
}
