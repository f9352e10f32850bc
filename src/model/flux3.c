/* FLUX.3 image: docs/models.md 3.20. Original:
   https://github.com/huggingface/diffusers/blob/main/src/diffusers/models/transformers/transformer_flux3.py

   Text, image and pictures that are referred to have blocks of their own first, in which each kind attends itself
   alone. In the joint blocks that follow all share the weights, with one modulation for a kind. Attention and
   feed-forward read one norm, side by side. Text and references are always at timestep 0. A token is a pixel of
   FLUX.2's latent. */
#include "model/model.h"
#include "text/text.h"

#define DITI_FLUX3_MAX_BLOCKS 128u /* most blocks of one kind */
#define DITI_FLUX3_AXES 4u

/* ---- configuration ---- */

typedef struct diti_flux3_config {
    uint32_t alone, joint, heads, head_dim, width, feed; /* alone: blocks of each kind; width: D */
    uint32_t channels;                                   /* channels of the latent, whose pixels are the tokens */
    uint32_t text;                                       /* columns of the text encoder's output */
    uint32_t axes[DITI_FLUX3_AXES];                      /* channels of a head that rotate with each coordinate */
    float theta;
    bool jumps;   /* a flow map: the timestep to which a step goes is an input */
    uint32_t out; /* columns that the last layer makes */
} diti_flux3_config;

/* ---- key table: names asked for here are diffusers'; the original code base calls them so ---- */

static const char *const diti_flux3_keys[][2] = {
    {"x_embedders.image", "emb_in.image"},
    {"x_embedders.image_cond", "emb_in.image_cond"},
    {"context_embedder", "txt_in"},
    {"timestep_embedder.linear_1", "time_in.in_layer"},
    {"timestep_embedder.linear_2", "time_in.out_layer"},
    {"target_timestep_embedder.linear_1", "ref_time_in.in_layer"},
    {"target_timestep_embedder.linear_2", "ref_time_in.out_layer"},
    {"early_stream_modulations.image.linear", "early_stream_modulations.image.lin"},
    {"early_stream_modulations.image_cond.linear", "early_stream_modulations.image_cond.lin"},
    {"early_stream_modulations.txt.linear", "early_stream_modulations.txt.lin"},
    {"single_stream_modulations.image.linear", "single_stream_modulations.image.lin"},
    {"single_stream_modulations.image_cond.linear", "single_stream_modulations.image_cond.lin"},
    {"single_stream_modulations.txt.linear", "single_stream_modulations.txt.lin"},
    {"norm_out.linear", "final_layer.image.adaLN_modulation.1"}, /* halves swapped */
    {"proj_out", "final_layer.image.linear"},
};
static const char *const diti_flux3_block_keys[][2] = {
    {"attn.to_q", "q_proj"},
    {"attn.to_k", "k_proj"},
    {"attn.to_v", "v_proj"},
    {"attn.norm_q.weight", "norm.query_norm.scale"},
    {"attn.norm_k.weight", "norm.key_norm.scale"},
    {"attn.to_out.0", "attn_out"},
    {"ff.linear_in", "mlp_in"},
    {"ff.linear_out", "mlp_out"},
};

static const diti_key_table diti_flux3_names[DITI_KEY_TABLES] = {
    {"mode_blocks.image.", "content_mode_blocks.image.", diti_flux3_block_keys, DITI_COUNT(diti_flux3_block_keys)},
    {"mode_blocks.image_cond.", "content_mode_blocks.image_cond.", diti_flux3_block_keys,
     DITI_COUNT(diti_flux3_block_keys)},
    {"txt_mode_blocks.", "txt_mode_blocks.", diti_flux3_block_keys, DITI_COUNT(diti_flux3_block_keys)},
    {"single_transformer_blocks.", "single_blocks.", diti_flux3_block_keys, DITI_COUNT(diti_flux3_block_keys)},
    {NULL, NULL, diti_flux3_keys, DITI_COUNT(diti_flux3_keys)},
};

/* ---- weights ---- */

typedef struct diti_flux3_block {
    diti_fused_linear qkv;     /* [3D, D] */
    diti_weight norms;         /* F32 [2, head_dim]: q, k */
    diti_layer out;            /* [D, D] */
    diti_layer ff_gate, ff_in; /* [feed, D] each */
    diti_layer ff_out;         /* [D, feed] */
    diti_sublayer attention, feed;
} diti_flux3_block;

enum { DITI_FLUX3_TEXT, DITI_FLUX3_REFERENCE, DITI_FLUX3_IMAGE, DITI_FLUX3_KINDS };
static const char *const diti_flux3_kinds[DITI_FLUX3_KINDS] = {"txt", "image_cond", "image"};

typedef struct diti_flux3 {
    diti_transformer base;
    diti_flux3_config config;
    diti_layer patch, reference, text;                            /* [D, channels] twice, [D, text] */
    diti_embedder time, target;                                   /* [D, 256], [D, D] */
    diti_layer early[DITI_FLUX3_KINDS], single[DITI_FLUX3_KINDS]; /* modulations, [3D, D] each */
    diti_flux3_block *blocks;           /* the image's own, the joint ones, the text's own, the references' own */
    diti_fused_linear final_modulation; /* [2D, D]: shift, scale */
    diti_layer proj_out;                /* [channels, D] */
    diti_sublayer last;
} diti_flux3;

#define diti_flux3_of(transformer) ((const diti_flux3 *)(const void *)(transformer))

static const diti_flux3_block *diti_flux3_stream_blocks(const diti_flux3 *model, uint32_t kind) {
    const diti_flux3_config *config = &model->config;
    return model->blocks + config->joint + (kind == DITI_FLUX3_TEXT ? 1 : 2) * config->alone;
}

/* ---- reading the configuration: what config.json does not say comes from shapes ---- */

static dit_result diti_flux3_check(const diti_loader *loader, const diti_flux3_config *config, dit_error *err) {
    static const diti_need needs[] = {
        {offsetof(diti_flux3_config, alone), "blocks of all kinds"},
        {offsetof(diti_flux3_config, joint), "blocks of all kinds"},
        {offsetof(diti_flux3_config, feed), "blocks of all kinds"},
        {offsetof(diti_flux3_config, text), "context_embedder (txt_in)"},
        {offsetof(diti_flux3_config, head_dim), "norms of queries"},
        {offsetof(diti_flux3_config, width), "x_embedders.image (emb_in.image) or proj_out (final_layer)"},
        {offsetof(diti_flux3_config, channels), "x_embedders.image (emb_in.image) or proj_out (final_layer)"},
        {offsetof(diti_flux3_config, out), "x_embedders.image (emb_in.image) or proj_out (final_layer)"}};
    DITI_TRY(diti_config_complete(loader, config, "FLUX.3", needs, DITI_COUNT(needs), err));
    if (config->channels != config->out || config->out > 1024 || config->out % 4 || config->width % config->head_dim ||
        config->head_dim > 256 || config->head_dim % 8 || config->feed % 8 || config->alone > DITI_FLUX3_MAX_BLOCKS ||
        config->joint > DITI_FLUX3_MAX_BLOCKS)
        return diti_loader_refuse(loader, err,
                                  "a FLUX.3 transformer of %u + %u blocks, heads of %u in a width of %u, that takes %u "
                                  "columns and makes %u, is out of range",
                                  (unsigned)config->alone, (unsigned)config->joint, (unsigned)config->head_dim,
                                  (unsigned)config->width, (unsigned)config->channels, (unsigned)config->out);
    return DIT_OK;
}

static dit_result diti_flux3_read(diti_component *component, diti_loader *loader, const diti_json *json,
                                  dit_error *err) {
    static const diti_shape_key keys[] = {
        {offsetof(diti_flux3_config, out), "proj_out.weight", 0},
        {offsetof(diti_flux3_config, width), "x_embedders.image.weight", 0},
        {offsetof(diti_flux3_config, channels), "x_embedders.image.weight", 1},
        {offsetof(diti_flux3_config, text), "context_embedder.weight", 1},
        {offsetof(diti_flux3_config, feed), "single_transformer_blocks.0.ff.linear_out.weight", 1},
        {offsetof(diti_flux3_config, head_dim), "single_transformer_blocks.0.attn.norm_q.weight", 0}};
    diti_flux3_config *config = &((diti_flux3 *)(void *)component)->config;
    diti_settings settings = diti_settings_of(json, "the transformer's config.json", err);
    diti_read_shapes(loader, config, keys, DITI_COUNT(keys));
    config->alone = diti_loader_layers(loader, &settings, "num_layers", "txt_mode_blocks.", ".ff.linear_in.weight");
    config->joint = diti_loader_layers(loader, &settings, "num_single_layers", "single_transformer_blocks.",
                                       ".ff.linear_in.weight");
    config->jumps = diti_setting_bool(&settings, "flow_map",
                                      diti_loader_find(loader, "target_timestep_embedder.linear_1.weight") != NULL);
    DITI_TRY(diti_flux3_check(loader, config, err));
    config->heads = config->width / config->head_dim;
    config->theta = (float)diti_setting_number(&settings, "rope_theta", 10000, 2, 1e9);
    diti_setting_number(&settings, "eps", 1e-6, 1e-6, 1e-6); /* norms here have no other one */
    /* As published, a quarter of a head each. */
    return diti_setting_axes(&settings, "FLUX.3", "axes_dims_rope", config->head_dim,
                             config->head_dim / DITI_FLUX3_AXES, config->head_dim / DITI_FLUX3_AXES, DITI_FLUX3_AXES,
                             config->axes, err);
}

/* ---- loading ---- */

/* The first half of the feed-forward's first matrix has the activation, and the second half is multiplied with it. */
static void diti_flux3_load_block(diti_loader *loader, diti_flux3_block *block, const diti_flux3_config *config,
                                  const char *list, uint32_t index, diti_streams streams) {
    static const char *const qkv[] = {"attn.to_q", "attn.to_k", "attn.to_v"};
    static const char *const norms[] = {"attn.norm_q.weight", "attn.norm_k.weight"};
    uint32_t width = config->width, feed = config->feed;
    diti_loader_scope(loader, "%s%u.", list, (unsigned)index);
    diti_load_fused_linear(loader, &block->qkv, qkv, 3, width, width, false);
    diti_load_vectors(loader, &block->norms, norms, 2, config->head_dim);
    diti_load_bare(loader, &block->out, width, width, "attn.to_out.0");
    diti_load_bare_rows(loader, &block->ff_gate, 0, feed, 2 * feed, width, "ff.linear_in");
    diti_load_bare_rows(loader, &block->ff_in, feed, feed, 2 * feed, width, "ff.linear_in");
    diti_load_bare(loader, &block->ff_out, width, feed, "ff.linear_out");
    diti_loader_scope_end(loader);
    diti_make_attention(&block->attention, streams, &block->qkv, &block->out, width, config->head_dim);
    block->attention.norms = &block->norms;
    diti_make_feed(&block->feed, streams, &block->ff_in, &block->ff_out);
    block->feed.gate = &block->ff_gate;
    block->feed.activation = DITI_ACTIVATION_SILU;
}

static void diti_flux3_load_weights(diti_loader *loader, diti_flux3 *model) {
    const diti_flux3_config *config = &model->config;
    uint32_t i, width = config->width, alone = config->alone, all = alone + config->joint;
    char name[64];
    diti_load_bare(loader, &model->patch, width, config->channels, "x_embedders.image");
    diti_load_bare(loader, &model->reference, width, config->channels, "x_embedders.image_cond");
    diti_load_bare(loader, &model->text, width, config->text, "context_embedder");
    diti_load_bare_embedder(loader, &model->time, width, "timestep_embedder");
    if (config->jumps) diti_load_bare_embedder(loader, &model->target, width, "target_timestep_embedder");
    for (i = 0; i < DITI_FLUX3_KINDS; i++) {
        diti_format(name, sizeof name, "early_stream_modulations.%s.linear", diti_flux3_kinds[i]);
        diti_load_bare(loader, &model->early[i], 3 * width, width, name);
        diti_format(name, sizeof name, "single_stream_modulations.%s.linear", diti_flux3_kinds[i]);
        diti_load_bare(loader, &model->single[i], 3 * width, width, name);
    }
    for (i = 0; i < alone; i++)
        diti_flux3_load_block(loader, &model->blocks[all + i], config, "txt_mode_blocks.", i, DITI_STREAMS_ONE);
    for (i = 0; i < alone; i++)
        diti_flux3_load_block(loader, &model->blocks[all + alone + i], config, "mode_blocks.image_cond.", i,
                              DITI_STREAMS_ONE);
    for (i = 0; i < alone; i++)
        diti_flux3_load_block(loader, &model->blocks[i], config, "mode_blocks.image.", i, DITI_STREAMS_IMAGE);
    for (i = 0; i < config->joint; i++)
        diti_flux3_load_block(loader, &model->blocks[alone + i], config, "single_transformer_blocks.", i,
                              DITI_STREAMS_SHARED);
    diti_load_shift_scale(loader, &model->final_modulation, width, "norm_out.linear", loader->rename == NULL, false);
    diti_load_bare(loader, &model->proj_out, config->channels, width, "proj_out");
    diti_make_output(&model->last, DITI_STREAMS_IMAGE, &model->proj_out);
}

/* ---- how its language model is asked (docs/models.md 5.5) ---- */

static const diti_chat diti_flux3_chats[] = {
    {"Flux3ModularPipeline Flux3DistilledModularPipeline Flux3AutoBlocks Flux3DistilledAutoBlocks",
     DITI_CHAT_USER,
     DITI_CHAT_ANSWER,
     NULL,
     "",
     "",
     1200,
     false,
     0,
     {8, 36, {4, 8, 12, 16, 20, 24, 28, 32}, false},
     80},
    DITI_CHATS_END,
};

static void diti_flux3_set_traits(diti_flux3 *model) {
    const diti_flux3_config *config = &model->config;
    diti_model_traits *traits = &model->base.traits;
    traits->variant = config->jumps ? "klein" : "klein-base";
    diti_traits_sizes(traits, config->alone + config->joint, config->width, config->heads, config->channels, 1);
    traits->single_layers = config->joint;
    traits->feed = config->feed;
    traits->gated = true;
    traits->default_size = 64;
    traits->factor = 16;
    diti_traits_chat(traits, DITI_ENCODER_QWEN3_VL, &diti_flux3_chats[0], config->text,
                     1); /* the chat has texts of whole units */
    traits->scheduler = "{\"_class_name\":\"FlowMatchEulerDiscreteScheduler\",\"shift\":6.93}";
    traits->uniform_sigmas = true;
    traits->default_steps = config->jumps ? 16 : 50;
    traits->default_guidance = config->jumps ? 1 : 3.5f;
    traits->references = DITI_MAX_REFERENCES;
    traits->edits = true;
    traits->reference_limit = 1024 * 1024;
    traits->reference_limit_alone = 2048 * 2048;
    traits->joint = traits->planar = true;
}

static void diti_flux3_load(diti_component *component, diti_loader *loader) {
    diti_flux3 *model = (diti_flux3 *)(void *)component;
    model->blocks = (diti_flux3_block *)diti_component_array(
        component, loader, 3 * model->config.alone + model->config.joint, sizeof *model->blocks);
    if (!model->blocks) return;
    diti_flux3_load_weights(loader, model);
    diti_flux3_set_traits(model);
}

/* ---- once per picture: everything that does not depend on the latent ---- */

typedef struct diti_flux3_state { /* prepare leaves these for the steps */
    diti_tensor sinusoids;        /* input F32 [2 * steps, 256]: of the steps, then as many of timestep 0 */
    diti_tensor target;           /* input F32 [steps, 256], of the timesteps that follow; 0: no flow map */
    diti_tensor text_keys;        /* input U32 [prompts, DITI_ITEM_WORDS]: the rows of its place that each text has */
    diti_rotation rotations[DITI_JOINT_STREAMS]; /* [prompts * (text + references + image rows), head_dim / 2]: for all
                                                    rows, for the image's */
    diti_text_order order;
    diti_tensor rows[2]; /* text and references as they come: F32 [prompts * text, D], [references, D] */
    diti_tensor text; /* F32 [prompts * (text + references), D], behind their own blocks; made in each step of a map */
    diti_tensor early[DITI_FLUX3_KINDS], reference;      /* F32 [steps, 3D] each */
    diti_tensor single, final;                           /* F32 [steps, 6D], text's columns first, [steps, 2D] */
    diti_tensor here_early, here_single, here_reference; /* the step's rows */
} diti_flux3_state;

#define diti_flux3_state_of(step) ((diti_flux3_state *)(step)->family)

/* x + gate * (attention(h) + feed(h)), in place, where h = LN(x) * (1 + scale) + shift. */
static void diti_flux3_run(const diti_pass *p, const diti_flux3_block *w, diti_tensor x) {
    diti_tensor h = diti_modulate(p, x, DITI_SHIFT_MSA, DITI_SCALE_MSA, &w->attention), fed;
    h = diti_sublayer_attend(p, h, &w->attention, 0);
    fed = diti_modulate(p, x, DITI_SHIFT_MSA, DITI_SCALE_MSA, &w->feed);
    fed = diti_sublayer_in(p, fed, &w->feed, 0);
    diti_sublayer_add(p, x, DITI_GATE_MSA, &w->attention, h);
    diti_sublayer_add(p, x, DITI_GATE_MSA, &w->feed, fed);
}

/* Blocks of the text's, or of the references' own, on x F32 [items * rows, D] in place: all rows on every device.
   modulation: F32 [1, 3D]. */
static void diti_flux3_run_stream(const diti_pass *p, uint32_t kind, diti_tensor x, diti_tensor modulation) {
    const diti_flux3 *model = diti_flux3_of(p->model);
    const diti_flux3_state *state = diti_flux3_state_of(p->step);
    const diti_flux3_block *blocks = diti_flux3_stream_blocks(model, kind);
    bool text = kind == DITI_FLUX3_TEXT;
    uint32_t texts = p->step->text_tokens, i;
    diti_step_desc step = *p->step;
    diti_pass here = *p;
    memset(&step.token_range, 0, sizeof step.token_range);
    step.axes = NULL;
    step.kept_kv = NULL;
    here.step = &step;
    here.items = here.prompts = text ? p->step->text_batch : 1;
    here.text = 0;
    here.image = step.token_range.all = diti_tensor_rows(p->graph, x) / here.items;
    here.table_items = here.items;
    here.modulation.rows = modulation;
    here.modulation.chunks = 0;
    here.cosines = diti_rotation_rows_of(p, state->rotations[0].cosines, here.items, text ? 0 : texts, here.image);
    here.sines = diti_rotation_rows_of(p, state->rotations[0].sines, here.items, text ? 0 : texts, here.image);
    here.keys = text ? state->text_keys : 0;
    for (i = 0; i < model->config.alone && !diti_graph_failed(p->graph); i++) diti_flux3_run(&here, &blocks[i], x);
}

/* state->text by the modulation of that row of the tables' steps; 0: of the step at hand. */
static void diti_flux3_run_others(const diti_pass *p, diti_flux3_state *state, const uint32_t *row) {
    diti_graph *graph = p->graph;
    uint32_t prompts = p->step->text_batch, texts = p->step->text_tokens, behind = p->step->behind_text, i, k;
    diti_tensor own[2] = {0, 0};
    state->text = diti_tensor_new(graph, DITI_F32, prompts * (texts + behind), p->width, "context");
    for (k = 0; k < (behind ? 2u : 1u) && !diti_graph_failed(graph); k++) {
        diti_tensor modulation = row ? diti_tensor_view(graph, state->early[k], *row, 1, 0, 3 * p->width)
                                     : diti_select_modulation(p, state->early[k]);
        own[k] = diti_add_rows(graph, state->rows[k], 0, 0, "context");
        diti_flux3_run_stream(p, k, own[k], modulation);
    }
    for (i = 0; i < prompts && !diti_graph_failed(graph); i++) {
        uint32_t first = i * (texts + behind);
        diti_copy(graph, diti_tensor_view(graph, own[0], i * texts, texts, 0, p->width),
                  diti_tensor_view(graph, state->text, first, texts, 0, p->width), "context");
        if (behind)
            diti_copy(graph, own[1], diti_tensor_view(graph, state->text, first + texts, behind, 0, p->width),
                      "context");
    }
}

/* Modulations of all steps: the image's of silu(c(t)), those of text and references of silu(c(0)), where a flow map
   adds c'(next t) to either. */
static void diti_flux3_modulate(const diti_pass *p, diti_flux3_state *state) {
    const diti_flux3 *model = diti_flux3_of(p->model);
    diti_graph *graph = p->graph;
    uint32_t steps = p->step->steps, width = p->width, i;
    diti_tensor time = diti_embed(graph, &model->time, state->sinusoids, 0), active[DITI_FLUX3_KINDS];
    if (model->config.jumps) {
        diti_tensor target = diti_embed(graph, &model->target, state->target, 0);
        for (i = 0; i < 2; i++) {
            diti_tensor half = diti_tensor_view(graph, time, i * steps, steps, 0, width);
            diti_add_rows(graph, half, target, half, "target_timestep");
        }
    }
    time = diti_silu(graph, time, "conditioning_silu");
    active[DITI_FLUX3_IMAGE] = diti_tensor_view(graph, time, 0, steps, 0, width);
    active[DITI_FLUX3_TEXT] = active[DITI_FLUX3_REFERENCE] = diti_tensor_view(graph, time, steps, steps, 0, width);
    state->single = diti_tensor_new(graph, DITI_F32, steps, 6 * width, "modulation");
    state->reference = diti_tensor_new(graph, DITI_F32, steps, 3 * width, "modulation");
    for (i = 0; i < DITI_FLUX3_KINDS; i++) {
        diti_tensor to = state->reference;
        if (i != DITI_FLUX3_REFERENCE)
            to = diti_tensor_view(graph, state->single, 0, steps, i == DITI_FLUX3_IMAGE ? 3 * width : 0, 3 * width);
        state->early[i] =
            diti_layer_spread(graph, diti_pass_tensor(p), active[i], &model->early[i], 0, "early_modulation");
        diti_layer_spread(graph, diti_pass_tensor(p), active[i], &model->single[i], to, "modulation");
    }
    state->final = diti_shift_scale(graph, active[DITI_FLUX3_IMAGE], &model->final_modulation);
}

static void diti_flux3_prepare(diti_pass *p) {
    const diti_flux3 *model = diti_flux3_of(p->model);
    const diti_flux3_config *config = &model->config;
    diti_step_desc *step = p->step;
    diti_graph *graph = p->graph;
    uint32_t rows, prompts = step->text_batch, first = 0;
    diti_flux3_state *state = diti_flux3_state_of(step);
    step->behind_text = diti_reference_tokens(p);
    rows = prompts * (step->text_tokens + step->behind_text + step->height * step->width);
    state->sinusoids = diti_tensor_input(graph, DITI_F32, 2 * step->steps, 256, "timesteps");
    if (config->jumps) state->target = diti_tensor_input(graph, DITI_F32, step->steps, 256, "target timesteps");
    diti_rotation_prepare(graph, &state->rotations[0], rows, config->head_dim / 2);
    state->text_keys = diti_tensor_input(graph, DITI_U32, prompts, DITI_ITEM_WORDS, "text_keys");
    diti_text_order_prepare(p, &state->order);
    diti_flux3_modulate(p, state);
    state->rows[DITI_FLUX3_TEXT] = diti_text_order_embed(p, &state->order, &model->text, config->text);
    if (step->behind_text) state->rows[DITI_FLUX3_REFERENCE] = diti_reference_rows(p, &model->reference);
    if (!config->jumps) diti_flux3_run_others(p, state, &first);
}

/* ---- inputs ---- */

/* Places are counted in halves: text token j stands at (0, 0, 0, j), a token of the image at (0, y / 2, x / 2, 0), one
   of reference i at (0, y / 2, x / 2, -1 - i). */
static void diti_flux3_place(const diti_transformer *transformer, const diti_step_desc *step, uint32_t prompt,
                             float *cosines, float *sines) {
    const diti_flux3_config *config = &diti_flux3_of(transformer)->config;
    uint32_t half = config->head_dim / 2, texts = step->text_tokens, behind = step->behind_text, row;
    uint32_t rows = texts + behind + step->height * step->width;
    uint32_t pad = texts - diti_text_order_length(step, prompt, 1);
    for (row = 0; row < rows; row++) {
        int32_t position[DITI_FLUX3_AXES] = {0, 0, 0, 0};
        size_t at = ((size_t)prompt * rows + row) * half;
        if (row < texts) {
            position[3] = row > pad ? 2 * (int32_t)(row - pad) : 0;
        } else {
            uint32_t y = 0, x = 0, token = row - texts - behind;
            if (row < texts + behind) {
                position[3] = -2 - 2 * (int32_t)diti_reference_position(step, 1, row - texts, &y, &x);
            } else {
                y = token / step->width;
                x = token % step->width;
            }
            position[1] = (int32_t)y;
            position[2] = (int32_t)x;
        }
        diti_rotate_parts(config->axes, DITI_FLUX3_AXES, (double)config->theta, 0.5, position, cosines + at,
                          sines + at);
    }
}

static dit_result diti_flux3_write_keys(const diti_flux3_state *state, diti_plan *plan, const diti_step_desc *step,
                                        const diti_env *env, dit_error *err) {
    uint32_t prompts = step->text_batch, i;
    uint32_t *words = (uint32_t *)diti_alloc_zero(env, (size_t)prompts * DITI_ITEM_WORDS * sizeof *words);
    dit_result result;
    if (!words) return diti_fail_memory(err, "the text's rows");
    for (i = 0; i < prompts; i++) {
        uint32_t length = diti_text_order_length(step, i, 1);
        words[i * DITI_ITEM_WORDS + 2] = step->text_tokens - length;
        words[i * DITI_ITEM_WORDS + 3] = length;
    }
    result = diti_plan_write(plan, state->text_keys, words, (size_t)prompts * DITI_ITEM_WORDS * sizeof *words, err);
    diti_free(env, words);
    return result;
}

/* A step goes to the timestep of the next one, the last step to 0. */
static dit_result diti_flux3_write_inputs(const diti_transformer *transformer, diti_plan *plan,
                                          const diti_step_desc *step, const float *timesteps, dit_error *err) {
    const diti_flux3_state *state = (const diti_flux3_state *)step->family;
    const diti_env *env = &transformer->component.env;
    uint32_t image = step->behind_text + step->height * step->width;
    DITI_TRY(diti_text_order_write(plan, step, &state->order, env, 1, image, err));
    DITI_TRY(diti_flux3_write_keys(state, plan, step, env, err));
    DITI_TRY(diti_write_places(transformer, plan, step, state->rotations[0].cosines, state->rotations[0].sines,
                               step->text_batch, diti_flux3_place, err));
    DITI_TRY(diti_write_timesteps(plan, state->sinusoids, step, timesteps, err));
    return state->target ? diti_write_next_timesteps(plan, state->target, step, timesteps, err) : DIT_OK;
}

/* ---- one evaluation ---- */

static void diti_flux3_begin(diti_pass *p) {
    diti_flux3_state *state = diti_flux3_state_of(p->step);
    diti_rotation_begin_both(p, state->rotations);
    if (p->step->same_timestep) return;
    state->here_early = diti_select_modulation(p, state->early[DITI_FLUX3_IMAGE]);
    state->here_single = diti_select_modulation(p, state->single);
    if (p->step->behind_text) state->here_reference = diti_select_modulation(p, state->reference);
}

static diti_tensor diti_flux3_embed(diti_pass *p) {
    diti_flux3_state *state = diti_flux3_state_of(p->step);
    if (diti_flux3_of(p->model)->config.jumps && p->text) diti_flux3_run_others(p, state, NULL);
    return diti_patch_embed(p, state->text, &diti_flux3_of(p->model)->patch, 0);
}

/* x F32 [items * (text + references + image), D] is changed in place. */
static diti_tensor diti_flux3_run_block(diti_pass *p, diti_tensor x) {
    const diti_flux3 *model = diti_flux3_of(p->model);
    const diti_flux3_state *state = diti_flux3_state_of(p->step);
    bool joint = p->index >= model->config.alone;
    uint32_t stream = joint ? (uint32_t)DITI_JOINT_TEXT : (uint32_t)DITI_JOINT_IMAGE;
    p->modulation.rows = joint ? state->here_single : state->here_early;
    p->modulation.chunks = joint ? 3 : 0;
    p->modulation.lead = joint ? state->here_reference : 0;
    diti_rotation_apply(p, &state->rotations[stream]);
    if (joint) p->keys = diti_text_order_keys(p, &state->order);
    diti_flux3_run(p, &model->blocks[p->index], x);
    return x;
}

static diti_tensor diti_flux3_final(diti_pass *p, diti_tensor x) {
    const diti_flux3 *model = diti_flux3_of(p->model);
    p->modulation.rows = diti_select_modulation(p, diti_flux3_state_of(p->step)->final);
    return diti_output_modulated(p, x, &model->last);
}

/* ---- where parts of such models are ---- */

#define DITI_FLUX3_PLACE "black-forest-labs/flux-3-image-klein"
static const diti_place diti_flux3_places[] = {
    {"klein-base", DIT_ROLE_TRANSFORMER, DITI_FLUX3_PLACE "-base: transformer/"},
    {"", DIT_ROLE_TRANSFORMER, DITI_FLUX3_PLACE ": transformer/"},
    {"", DIT_ROLE_TEXT_1, DITI_FLUX3_PLACE ": text_encoder/, or Qwen/Qwen3-VL-4B-Instruct"},
    {"", DIT_ROLE_VAE, DITI_FLUX3_PLACE ": vae/"},
    {"", DIT_ROLE_TOKENIZER_1, DITI_FLUX3_PLACE ": tokenizer/"},
    {"", DIT_ROLE_SCHEDULER, DITI_FLUX3_PLACE ": scheduler/"},
    {NULL, DIT_ROLE_NONE, NULL},
};

DIT_INTERNAL const diti_family *diti_flux3_family(void) {
    static const diti_family family = {
        "flux3",
        "FLUX.3",
        {"Flux3Transformer2DModel",
         NULL,
         {"x_embedders.image.weight", "single_stream_modulations.image.linear.weight",
          "txt_mode_blocks.0.attn.to_q.weight", NULL},
         {"emb_in.image.weight", "single_stream_modulations.image.lin.weight", "txt_mode_blocks.0.q_proj.weight", NULL},
         {NULL, NULL}},
        {"transformer", "transformer", sizeof(diti_flux3), diti_flux3_read, diti_flux3_load, NULL},
        diti_flux3_names,
        {128, 1, 0, false}, /* FLUX.2's */
        NULL,
        diti_flux3_chats,
        diti_flux3_places,
        sizeof(diti_flux3_state),
        diti_flux3_prepare,
        diti_flux3_begin,
        diti_flux3_embed,
        diti_flux3_run_block,
        diti_flux3_final,
        diti_flux3_write_inputs};
    return &family;
}
