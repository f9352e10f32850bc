/* Qwen-Image-2.1: docs/models.md 3.17. Original:
   https://github.com/huggingface/diffusers/blob/v0.42.1/src/diffusers/models/transformers/transformer_qwenimage21.py

   One stream, whose blocks share a modulation. A prompt's rows, and in their places the tokens of pictures that it is
   shown with, attend what stands before them and themselves, as at timestep 0, so that their keys and values are made
   once; tokens of the image attend all rows. */
#include "model/model.h"
#include "text/text.h"

#define DITI_QWENIMAGE21_AXES 3u
#define DITI_QWENIMAGE21_SLOT 4u /* tokens that take the place of one that the language model has of a picture */

/* ---- configuration ---- */

typedef struct diti_qwenimage21_config {
    uint32_t blocks, heads, head_dim, width, feed; /* width: D; feed: columns of the feed-forward */
    uint32_t channels, text;                       /* channels of the latent; columns of the text encoder's output */
    uint32_t axes[DITI_QWENIMAGE21_AXES];          /* channels of a head that rotate with each coordinate */
    uint32_t in;                                   /* columns that the first layer reads */
} diti_qwenimage21_config;

/* ---- weights; no layer has a bias; single files have diffusers' names, too ---- */

typedef struct diti_qwenimage21 {
    diti_transformer base;
    diti_qwenimage21_config config;
    diti_layer patch;             /* [D, channels] */
    diti_weight text_norm;        /* F32 [text]; 1 is added */
    diti_layer text_in, text_out; /* [D, text], [D, D] */
    diti_embedder time;           /* [D, 256], [D, D] */
    diti_layer modulation;        /* [4D, D]: scale and gate of attention, of the feed-forward */
    diti_gated_block *blocks;
    diti_layer final_scale, proj_out; /* [D, D], [channels, D] */
    diti_sublayer last;
} diti_qwenimage21;

#define diti_qwenimage21_of(transformer) ((const diti_qwenimage21 *)(const void *)(transformer))

/* ---- reading the configuration: what config.json does not say comes from shapes ---- */

static dit_result diti_qwenimage21_check(const diti_loader *loader, const diti_qwenimage21_config *config,
                                         dit_error *err) {
    static const diti_need needs[] = {{offsetof(diti_qwenimage21_config, blocks), "transformer_blocks"},
                                      {offsetof(diti_qwenimage21_config, feed), "transformer_blocks"},
                                      {offsetof(diti_qwenimage21_config, text), "txt_in"},
                                      {offsetof(diti_qwenimage21_config, head_dim), "norms of queries"},
                                      {offsetof(diti_qwenimage21_config, width), "img_in or proj_out"},
                                      {offsetof(diti_qwenimage21_config, in), "img_in or proj_out"},
                                      {offsetof(diti_qwenimage21_config, channels), "img_in or proj_out"}};
    DITI_TRY(diti_config_complete(loader, config, "Qwen-Image-2.1", needs, DITI_COUNT(needs), err));
    if (config->in != config->channels || config->in > 256 || config->width % config->head_dim ||
        config->head_dim > 256 || config->head_dim % 8 || config->blocks > DITI_MAX_BLOCKS)
        return diti_loader_refuse(
            loader, err,
            "a Qwen-Image-2.1 transformer of %u blocks, heads of %u in a width of %u, that takes %u "
            "channels and makes %u, is out of range",
            (unsigned)config->blocks, (unsigned)config->head_dim, (unsigned)config->width, (unsigned)config->in,
            (unsigned)config->channels);
    return DIT_OK;
}

static dit_result diti_qwenimage21_read(diti_component *component, diti_loader *loader, const diti_json *json,
                                        dit_error *err) {
    static const diti_shape_key keys[] = {
        {offsetof(diti_qwenimage21_config, in), "img_in.weight", 1},
        {offsetof(diti_qwenimage21_config, width), "img_in.weight", 0},
        {offsetof(diti_qwenimage21_config, channels), "proj_out.weight", 0},
        {offsetof(diti_qwenimage21_config, text), "txt_in.in_layer.weight", 1},
        {offsetof(diti_qwenimage21_config, feed), "transformer_blocks.0.img_mlp.proj.weight", 0},
        {offsetof(diti_qwenimage21_config, head_dim), "transformer_blocks.0.attn.norm_q.weight", 0}};
    diti_qwenimage21_config *config = &((diti_qwenimage21 *)(void *)component)->config;
    diti_settings settings = diti_settings_of(json, "the transformer's config.json", err);
    diti_read_shapes(loader, config, keys, DITI_COUNT(keys));
    config->blocks = diti_loader_layers(loader, &settings, "num_layers", "transformer_blocks.", ".attn.to_q.weight");
    DITI_TRY(diti_qwenimage21_check(loader, config, err));
    config->heads = config->width / config->head_dim;
    diti_setting_number(&settings, "eps", 1e-6, 1e-6, 1e-6); /* norms here have no other one */
    if (!diti_setting_bool(&settings, "causal_condition", true))
        diti_settings_refuse(&settings, DIT_ERROR_UNSUPPORTED_MODEL, "causal_condition",
                             "false: text that reads the image is not known for Qwen-Image-2.1");
    /* As published, 16, 56 and 56 of 128; the same shares of other heads. */
    return diti_setting_axes(&settings, "Qwen-Image-2.1", "axes_dims_rope", config->head_dim, config->head_dim / 8,
                             config->head_dim / 16 * 7, DITI_QWENIMAGE21_AXES, config->axes, err);
}

/* ---- loading ---- */

static void diti_qwenimage21_load_blocks(diti_loader *loader, const diti_qwenimage21_config *config,
                                         diti_gated_block *blocks) {
    static const diti_gated_names names = {NULL,
                                           {NULL, {"attn.to_q", "attn.to_k", "attn.to_v"}, 3},
                                           {"attn.norm_q.weight", "attn.norm_k.weight"},
                                           "attn.to_out.0",
                                           "img_mlp.gate_layer",
                                           "img_mlp.proj",
                                           "img_mlp.out",
                                           {NULL, NULL},
                                           {NULL, NULL}};
    diti_gated_kind kind = DITI_ZERO;
    kind.width = config->width;
    kind.head_dim = config->head_dim;
    kind.feed = config->feed;
    diti_gated_blocks_load(loader, blocks, config->blocks, "transformer_blocks.", &names, &kind, DITI_STREAMS_ONE);
}

static void diti_qwenimage21_load_weights(diti_loader *loader, diti_qwenimage21 *model) {
    const diti_qwenimage21_config *config = &model->config;
    uint32_t width = config->width;
    diti_load_bare(loader, &model->patch, width, config->channels, "img_in");
    diti_load_offset(loader, &model->text_norm, config->text, 1, "txt_in.text_norm.weight");
    diti_load_bare(loader, &model->text_in, width, config->text, "txt_in.in_layer");
    diti_load_bare(loader, &model->text_out, width, width, "txt_in.out_layer");
    diti_load_bare_embedder(loader, &model->time, width, "time_text_embed.timestep_embedder");
    diti_load_bare(loader, &model->modulation, 4 * width, width, "modulation.1");
    diti_qwenimage21_load_blocks(loader, config, model->blocks);
    diti_load_bare(loader, &model->final_scale, width, width, "norm_out.linear");
    diti_load_bare(loader, &model->proj_out, config->channels, width, "proj_out");
    diti_make_output(&model->last, DITI_STREAMS_ONE, &model->proj_out);
}

/* ---- how its language model is asked (docs/models.md 5.5) ---- */

#define DITI_QWENIMAGE21_COMPREHEND DITI_CHAT_SYSTEM "Comprehend and analyze the provided prompt.<|im_end|>\n"

static const diti_chat diti_qwenimage21_chats[] = {
    {"QwenImage21Pipeline",
     DITI_QWENIMAGE21_COMPREHEND DITI_CHAT_USER,
     DITI_CHAT_ANSWER,
     " <image#>",
     DITI_QWENIMAGE21_COMPREHEND,
     " ",
     1024,
     false,
     0,
     {1, 0, {-1}, true},
     0},
    DITI_CHATS_END,
};

static void diti_qwenimage21_set_traits(diti_qwenimage21 *model) {
    const diti_qwenimage21_config *config = &model->config;
    diti_model_traits *traits = &model->base.traits;
    traits->variant = "2.1";
    diti_traits_sizes(traits, config->blocks, config->width, config->heads, config->channels, 1);
    traits->feed = config->feed;
    traits->gated = true;
    traits->default_size = 64;
    traits->factor = 16;
    diti_traits_chat(traits, DITI_ENCODER_QWEN3_VL, &diti_qwenimage21_chats[0], config->text, 1);
    traits->scheduler = "{\"_class_name\":\"FlowMatchEulerDiscreteScheduler\",\"shift\":1.0,"
                        "\"use_dynamic_shifting\":true,\"base_shift\":0.5,\"max_shift\":0.9,"
                        "\"base_image_seq_len\":256,\"max_image_seq_len\":8192,\"shift_terminal\":0.02}";
    traits->uniform_sigmas = true;
    traits->default_steps = 50;
    traits->default_guidance = 1;
    traits->prefixes = traits->caches_references = true;
    traits->references = DITI_MAX_REFERENCES;
    traits->edits = true;
    traits->reference_area = traits->shown_area = 1024 * 1024;
}

static void diti_qwenimage21_load(diti_component *component, diti_loader *loader) {
    diti_qwenimage21 *model = (diti_qwenimage21 *)(void *)component;
    model->blocks =
        (diti_gated_block *)diti_component_array(component, loader, model->config.blocks, sizeof *model->blocks);
    if (!model->blocks) return;
    diti_qwenimage21_load_weights(loader, model);
    diti_qwenimage21_set_traits(model);
}

/* ---- once per picture: everything that does not depend on the latent ---- */

typedef struct diti_qwenimage21_state {     /* prepare leaves these for the steps */
    diti_tensor sinusoids;                  /* input F32 [steps + 1, 256], the last one of timestep 0 */
    diti_tensor order;                      /* input U32 [1, prompts * rows in front]: of text and pictures */
    diti_tensor front_cosines, front_sines; /* inputs F32 [prompts * rows in front, head_dim / 2] */
    diti_rotation rotation;                 /* [prompts * tokens, head_dim / 2] */
    diti_tensor modulation, final;          /* F32 [steps + 1, 4D], with tanh of gates, [steps + 1, D] */
    diti_tensor at;                         /* modulation of the rows at hand */
    diti_reference_kv front;
} diti_qwenimage21_state;

#define diti_qwenimage21_state_of(step) ((diti_qwenimage21_state *)(step)->family)

/* Rows that a prompt has in front of the image, and tokens of the language model that stand for pictures among them. */
static uint32_t diti_qwenimage21_front(const diti_step_desc *step, uint32_t *slots) {
    uint32_t i;
    for (i = *slots = 0; i < step->reference_count; i++)
        *slots += step->references[i].height * step->references[i].width / DITI_QWENIMAGE21_SLOT;
    return step->text_tokens + (DITI_QWENIMAGE21_SLOT - 1) * *slots;
}

static void diti_qwenimage21_modulate(const diti_pass *p, diti_qwenimage21_state *state) {
    const diti_qwenimage21 *model = diti_qwenimage21_of(p->model);
    diti_tensor active = diti_silu(p->graph, diti_embed(p->graph, &model->time, state->sinusoids, 0), "time_silu");
    uint32_t rows = p->step->steps + 1, width = p->width, i;
    state->final = diti_layer_f32(p->graph, active, &model->final_scale, DITI_ACTIVATION_NONE, 0, "final_scale");
    state->modulation = diti_layer_spread(p->graph, diti_pass_tensor(p), active, &model->modulation, 0, "modulation");
    for (i = 1; i < 4; i += 2) {
        diti_tensor gate = diti_tensor_view(p->graph, state->modulation, 0, rows, i * width, width);
        diti_copy(p->graph, diti_adaln_tanh(p->graph, gate), gate, "gates");
    }
}

/* Rows of text, then of pictures: F32 [any, D]. */
static diti_tensor diti_qwenimage21_rows(const diti_pass *p) {
    const diti_qwenimage21 *model = diti_qwenimage21_of(p->model);
    uint32_t texts = diti_tensor_rows(p->graph, p->step->text), lead = p->step->lead;
    diti_tensor text = diti_tensor_view(p->graph, p->step->text, 0, texts, 0, model->config.text), all;
    all = diti_tensor_new(p->graph, DITI_F32, texts + lead, p->width, "rows in front");
    text = diti_layer_run(p->graph, diti_rms_norm(p->graph, text, &model->text_norm, 1e-6f, NULL, "text_norm"),
                          &model->text_in, DITI_ACTIVATION_GELU_TANH, "context_in");
    diti_layer_f32(p->graph, text, &model->text_out, DITI_ACTIVATION_NONE,
                   diti_tensor_view(p->graph, all, 0, texts, 0, p->width), "context");
    if (lead)
        diti_copy(p->graph, p->step->lead_rows, diti_tensor_view(p->graph, all, texts, lead, 0, p->width),
                  "references");
    return all;
}

static diti_tensor diti_qwenimage21_run_block(diti_pass *p, diti_tensor x);

static void diti_qwenimage21_prepare(diti_pass *p) {
    const diti_qwenimage21 *model = diti_qwenimage21_of(p->model);
    const diti_step_desc *step = p->step;
    diti_graph *graph = p->graph;
    uint32_t half = model->config.head_dim / 2, prompts = step->text_batch, slots;
    uint32_t rows = prompts * diti_qwenimage21_front(step, &slots), tokens = step->height * step->width;
    diti_qwenimage21_state *state = diti_qwenimage21_state_of(step);
    state->sinusoids = diti_tensor_input(graph, DITI_F32, step->steps + 1, 256, "timesteps");
    state->order = diti_tensor_input(graph, DITI_U32, 1, rows, "rows in front");
    state->front_cosines = diti_tensor_input(graph, DITI_F32, rows, half, "cosines");
    state->front_sines = diti_tensor_input(graph, DITI_F32, rows, half, "sines");
    diti_rotation_prepare(graph, &state->rotation, prompts * tokens, half);
    state->front.items = diti_tensor_input(graph, DITI_U32, step->branches * step->batch, DITI_ITEM_WORDS, "keys");
    state->front.segments = diti_tensor_input(
        graph, DITI_U32, prompts * (step->text_tokens - slots + step->reference_count), DITI_ITEM_WORDS, "segments");
    diti_qwenimage21_modulate(p, state);
    diti_reference_lead(p, &model->patch);
    state->rotation.here_cosines = state->front_cosines;
    state->rotation.here_sines = state->front_sines;
    state->rotation.table_items = prompts;
    state->at = diti_tensor_view(graph, state->modulation, step->steps, 1, 0, 4 * p->width);
    diti_reference_kv_fill(p, &state->front, prompts,
                           diti_gather_tensor(graph, diti_qwenimage21_rows(p), state->order, "rows in front"),
                           diti_qwenimage21_run_block);
}

/* ---- inputs ---- */

typedef struct diti_qwenimage21_tables {
    float *cosines, *sines, *front_cosines, *front_sines;
    uint32_t *order, *segments, *keys; /* keys: those of each prompt's rows in front that count */
} diti_qwenimage21_tables;

/* Lines or columns of a picture are counted from its middle. */
static void diti_qwenimage21_turn(const diti_qwenimage21_config *config, uint32_t frame, uint32_t height,
                                  uint32_t width, uint32_t token, float *cosines, float *sines) {
    int32_t at[DITI_QWENIMAGE21_AXES];
    at[0] = (int32_t)frame;
    at[1] = (int32_t)(token / width) - (int32_t)(height - height / 2);
    at[2] = (int32_t)(token % width) - (int32_t)(width - width / 2);
    diti_rotate_axes(config->axes, DITI_QWENIMAGE21_AXES, 10000, at, cosines, sines);
}

/* A run of a prompt's rows that attend all up to its end. */
static void diti_qwenimage21_segment(diti_qwenimage21_tables *out, uint32_t first, uint32_t row, uint32_t count) {
    out->segments[0] = first + row;
    out->segments[1] = count;
    out->segments[2] = first;
    out->segments[3] = row + count;
    out->segments += DITI_ITEM_WORDS;
}

/* Tokens of text go up a diagonal; a picture is a frame of its own, behind which text goes on as far away as its longer
   side is long. The image stands behind the last token that counts. */
static void diti_qwenimage21_place(const diti_qwenimage21_config *config, const diti_step_desc *step, uint32_t prompt,
                                   uint32_t text_rows, diti_qwenimage21_tables *out) {
    uint32_t half = config->head_dim / 2, slots, front = diti_qwenimage21_front(step, &slots), first = prompt * front;
    uint32_t length = diti_text_order_length(step, prompt, 1), tokens = step->height * step->width, i;
    uint32_t text = step->text_firsts ? step->text_firsts[prompt] : prompt * step->text_tokens;
    uint32_t row = 0, token = 0, next = 0, picture = 0, image = 0, seen = 0;
    while (token < step->text_tokens && row < front) {
        size_t at = (size_t)(first + row) * half;
        bool shown = picture < step->reference_count && step->shown_rows[picture] == token;
        uint32_t height = shown ? step->references[picture].height : 0, width = 0, count = 1;
        int32_t diagonal[DITI_QWENIMAGE21_AXES] = {(int32_t)next, (int32_t)next, (int32_t)next};
        if (shown) {
            width = step->references[picture++].width;
            count = height * width;
            token += count / DITI_QWENIMAGE21_SLOT;
        } else {
            diti_rotate_axes(config->axes, DITI_QWENIMAGE21_AXES, 10000, diagonal, out->front_cosines + at,
                             out->front_sines + at);
            out->order[first + row] =
                token < length ? text + token : text_rows + DITI_QWENIMAGE21_SLOT * slots; /* zeros */
            token++;
        }
        for (i = 0; i < count && shown; i++, at += half) {
            diti_qwenimage21_turn(config, next, height, width, i, out->front_cosines + at, out->front_sines + at);
            out->order[first + row + i] = text_rows + seen++;
        }
        diti_qwenimage21_segment(out, first, row, count);
        row += count;
        next += !shown ? 1 : height > width ? height : width;
        if (token <= length) image = next, out->keys[prompt] = row;
    }
    for (i = 0; i < tokens; i++)
        diti_qwenimage21_turn(config, image, step->height, step->width, i,
                              out->cosines + ((size_t)prompt * tokens + i) * half,
                              out->sines + ((size_t)prompt * tokens + i) * half);
}

static dit_result diti_qwenimage21_write_tables(const diti_qwenimage21 *model, diti_plan *plan,
                                                const diti_step_desc *step, dit_error *err) {
    const diti_qwenimage21_state *state = (const diti_qwenimage21_state *)step->family;
    const diti_env *env = &model->base.component.env;
    uint32_t prompts = step->text_batch, rows = plan->tensors[state->order].columns, i;
    size_t half = model->config.head_dim / 2, front = rows * half,
           tokens = plan->tensors[state->rotation.cosines].rows * half;
    size_t segments = (size_t)plan->tensors[state->front.segments].rows * DITI_ITEM_WORDS;
    float *angles = (float *)diti_alloc_array(env, 2 * (front + tokens), sizeof *angles);
    uint32_t *words = (uint32_t *)diti_alloc_zero(env, (rows + segments + prompts) * sizeof *words);
    dit_result result = angles && words ? DIT_OK : diti_fail_memory(err, "the rotation of positions");
    diti_qwenimage21_tables out;
    if (result >= 0) {
        out.front_cosines = angles;
        out.front_sines = angles + front;
        out.cosines = angles + 2 * front;
        out.sines = out.cosines + tokens;
        out.order = words;
        out.segments = words + rows;
        out.keys = words + rows + segments;
        for (i = 0; i < prompts; i++)
            diti_qwenimage21_place(&model->config, step, i, plan->tensors[step->text].rows, &out);
        result = diti_plan_write(plan, state->front_cosines, angles, front * sizeof *angles, err);
    }
    if (result >= 0) result = diti_plan_write(plan, state->front_sines, angles + front, front * sizeof *angles, err);
    if (result >= 0) result = diti_plan_write(plan, state->rotation.cosines, out.cosines, tokens * sizeof *angles, err);
    if (result >= 0) result = diti_plan_write(plan, state->rotation.sines, out.sines, tokens * sizeof *angles, err);
    if (result >= 0) result = diti_plan_write(plan, state->order, words, rows * sizeof *words, err);
    if (result >= 0) result = diti_plan_write(plan, state->front.segments, words + rows, segments * sizeof *words, err);
    if (result >= 0) result = diti_reference_kv_write(plan, step, env, out.keys, err);
    diti_free(env, angles);
    diti_free(env, words);
    return result;
}

static dit_result diti_qwenimage21_write_inputs(const diti_transformer *transformer, diti_plan *plan,
                                                const diti_step_desc *step, const float *timesteps, dit_error *err) {
    DITI_TRY(diti_qwenimage21_write_tables(diti_qwenimage21_of(transformer), plan, step, err));
    return diti_write_timesteps(plan, ((const diti_qwenimage21_state *)step->family)->sinusoids, step, timesteps, err);
}

/* ---- one evaluation ---- */

static void diti_qwenimage21_begin(diti_pass *p) {
    diti_qwenimage21_state *state = diti_qwenimage21_state_of(p->step);
    diti_rotation_begin_order(p, &state->rotation, DITI_JOINT_IMAGE);
    state->at = diti_select_modulation(p, state->modulation);
}

static diti_tensor diti_qwenimage21_embed(diti_pass *p) {
    return diti_patch_embed(p, 0, &diti_qwenimage21_of(p->model)->patch, 0);
}

/* Chunks of the modulation. */
enum { DITI_QWENIMAGE21_SCALE_MSA, DITI_QWENIMAGE21_GATE_MSA, DITI_QWENIMAGE21_SCALE_MLP, DITI_QWENIMAGE21_GATE_MLP };

/* x F32 [items * rows, D] is changed in place: tokens of the image, or, once, the rows in front of it. */
static diti_tensor diti_qwenimage21_run_block(diti_pass *p, diti_tensor x) {
    const diti_gated_block *w = &diti_qwenimage21_of(p->model)->blocks[p->index];
    const diti_qwenimage21_state *state = diti_qwenimage21_state_of(p->step);
    diti_tensor h;
    p->modulation.rows = state->at;
    p->modulation.chunks = 4;
    diti_rotation_apply(p, &state->rotation);
    h = diti_modulate(p, x, DITI_NO_GATE, (diti_modulator)DITI_QWENIMAGE21_SCALE_MSA, &w->attention);
    h = diti_sublayer_attend(p, h, &w->attention, 0);
    diti_sublayer_add(p, x, (diti_modulator)DITI_QWENIMAGE21_GATE_MSA, &w->attention, h);
    diti_sublayer_feed(p, x, DITI_NO_GATE, (diti_modulator)DITI_QWENIMAGE21_SCALE_MLP,
                       (diti_modulator)DITI_QWENIMAGE21_GATE_MLP, &w->feed);
    return x;
}

static diti_tensor diti_qwenimage21_final(diti_pass *p, diti_tensor x) {
    const diti_qwenimage21 *model = diti_qwenimage21_of(p->model);
    p->modulation.rows =
        diti_select_row(p->graph, diti_qwenimage21_state_of(p->step)->final, p->step->row, "final_scale");
    p->modulation.chunks = 1;
    return diti_output(p, diti_modulate(p, x, DITI_NO_GATE, (diti_modulator)0, &model->last), &model->last);
}

/* ---- where parts of such models are ---- */

#define DITI_QWENIMAGE21_PLACE "Qwen/Qwen-Image-2.1"
static const diti_place diti_qwenimage21_places[] = {
    {"", DIT_ROLE_TRANSFORMER, DITI_QWENIMAGE21_PLACE ": transformer/"},
    {"", DIT_ROLE_TEXT_1, DITI_QWENIMAGE21_PLACE ": text_encoder/"},
    {"", DIT_ROLE_VAE, DITI_QWENIMAGE21_PLACE ": vae/"},
    {"", DIT_ROLE_TOKENIZER_1, DITI_QWENIMAGE21_PLACE ": processor/"},
    {"", DIT_ROLE_SCHEDULER, DITI_QWENIMAGE21_PLACE ": scheduler/"},
    {NULL, DIT_ROLE_NONE, NULL},
};

DIT_INTERNAL const diti_family *diti_qwenimage21_family(void) {
    static const diti_family family = {
        "qwenimage21",
        "Qwen-Image-2.1",
        {"QwenImage21Transformer2DModel",
         NULL,
         {"txt_in.text_norm.weight", "modulation.1.weight", "transformer_blocks.0.img_mlp.gate_layer.weight", NULL},
         {"txt_in.text_norm.weight", "modulation.1.weight", "transformer_blocks.0.img_mlp.gate_layer.weight", NULL},
         {NULL, NULL}},
        {"transformer", "transformer", sizeof(diti_qwenimage21), diti_qwenimage21_read, diti_qwenimage21_load, NULL},
        NULL,
        {64, 1, 0, false},
        NULL,
        diti_qwenimage21_chats,
        diti_qwenimage21_places,
        sizeof(diti_qwenimage21_state),
        diti_qwenimage21_prepare,
        diti_qwenimage21_begin,
        diti_qwenimage21_embed,
        diti_qwenimage21_run_block,
        diti_qwenimage21_final,
        diti_qwenimage21_write_inputs};
    return &family;
}
