/* Anima: docs/models.md 3.16. Original:
   https://github.com/huggingface/diffusers/blob/v0.42.1/src/diffusers/models/transformers/transformer_cosmos.py

   Cosmos-Predict2's transformer for pictures. Blocks attend the image, then the text, then comes a feed-forward; each
   of the three is modulated by a low-rank product of its own plus what all of them share. */
#include "model/model.h"
#include "text/text.h"

#define DITI_ANIMA_MAX_BLOCKS 128u

/* ---- configuration ---- */

typedef struct diti_anima_config {
    uint32_t blocks, heads, head_dim, width, feed; /* width: D; feed: columns of the feed-forward */
    uint32_t rank;                                 /* columns between the two matrices of a modulation */
    uint32_t columns;                              /* columns of patches as the file has them: a mask's are the last */
    uint32_t channels, text;                       /* channels of the latent; columns of the text */
    double scale;                                  /* factor of the lattice of lines and columns */
    uint32_t out;                                  /* columns that the last layer makes */
} diti_anima_config;

/* ---- key table: names asked for here are diffusers'; the original code base calls them so ---- */

static const char *const diti_anima_keys[][2] = {
    {"patch_embed.proj", "x_embedder.proj.1"},
    {"time_embed.t_embedder.linear_1", "t_embedder.1.linear_1"},
    {"time_embed.t_embedder.linear_2", "t_embedder.1.linear_2"},
    {"time_embed.norm.weight", "t_embedding_norm.weight"},
    {"norm_out.linear_1", "final_layer.adaln_modulation.1"},
    {"norm_out.linear_2", "final_layer.adaln_modulation.2"},
    {"proj_out", "final_layer.linear"},
};
static const char *const diti_anima_block_keys[][2] = {
    {"norm1.linear_1", "adaln_modulation_self_attn.1"},
    {"norm1.linear_2", "adaln_modulation_self_attn.2"},
    {"norm2.linear_1", "adaln_modulation_cross_attn.1"},
    {"norm2.linear_2", "adaln_modulation_cross_attn.2"},
    {"norm3.linear_1", "adaln_modulation_mlp.1"},
    {"norm3.linear_2", "adaln_modulation_mlp.2"},
    {"attn1.to_q", "self_attn.q_proj"},
    {"attn1.to_k", "self_attn.k_proj"},
    {"attn1.to_v", "self_attn.v_proj"},
    {"attn1.to_out.0", "self_attn.output_proj"},
    {"attn1.norm_q", "self_attn.q_norm"},
    {"attn1.norm_k", "self_attn.k_norm"},
    {"attn2.to_q", "cross_attn.q_proj"},
    {"attn2.to_k", "cross_attn.k_proj"},
    {"attn2.to_v", "cross_attn.v_proj"},
    {"attn2.to_out.0", "cross_attn.output_proj"},
    {"attn2.norm_q", "cross_attn.q_norm"},
    {"attn2.norm_k", "cross_attn.k_norm"},
    {"ff.net.0.proj", "mlp.layer1"},
    {"ff.net.2", "mlp.layer2"},
};
static const diti_key_table diti_anima_names[DITI_KEY_TABLES] = {
    {"transformer_blocks.", "blocks.", diti_anima_block_keys, DITI_COUNT(diti_anima_block_keys)},
    {NULL, NULL, diti_anima_keys, DITI_COUNT(diti_anima_keys)},
    {NULL, NULL, NULL, 0},
    {NULL, NULL, NULL, 0},
};

/* ---- weights; no layer has a bias ---- */

typedef struct diti_anima_block {
    diti_layer down[3], up[3]; /* [rank, D], [3D, rank]: modulation of attention, of the text's, of the feed */
    diti_fused_linear qkv;     /* [3D, D] */
    diti_weight norms;         /* F32 [2, head_dim]: of queries, of keys */
    diti_layer out;            /* [D, D] */
    diti_layer text_q;         /* [D, D] */
    diti_fused_linear text_kv; /* [2D, text] */
    diti_weight text_norm_q, text_norm_k; /* F32 [head_dim] */
    diti_layer text_out;                  /* [D, D] */
    diti_layer ff_in, ff_out;             /* [feed, D], [D, feed] */
    diti_sublayer attention, cross, feed;
} diti_anima_block;

typedef struct diti_anima {
    diti_transformer base;
    diti_anima_config config;
    diti_layer patch;             /* [D, columns] */
    diti_layer time_in, time_out; /* [D, D], [3D, D] */
    diti_weight time_norm;        /* F32 [D] */
    diti_anima_block *blocks;
    diti_layer final_down, final_up; /* [rank, D], [2D, rank] */
    diti_layer proj_out;             /* [4 * channels, D] */
    diti_sublayer last;
} diti_anima;

#define diti_anima_of(transformer) ((const diti_anima *)(const void *)(transformer))

/* ---- reading the configuration: what config.json does not say comes from shapes ---- */

static dit_result diti_anima_check(const diti_loader *loader, const diti_anima_config *config, dit_error *err) {
    static const diti_need needs[] = {{offsetof(diti_anima_config, blocks), "blocks"},
                                      {offsetof(diti_anima_config, feed), "blocks"},
                                      {offsetof(diti_anima_config, rank), "blocks"},
                                      {offsetof(diti_anima_config, text), "attention to the text"},
                                      {offsetof(diti_anima_config, head_dim), "norms of queries"},
                                      {offsetof(diti_anima_config, width), "patch_embed or proj_out"},
                                      {offsetof(diti_anima_config, columns), "patch_embed or proj_out"},
                                      {offsetof(diti_anima_config, out), "patch_embed or proj_out"}};
    DITI_TRY(diti_config_complete(loader, config, "Anima", needs, DITI_COUNT(needs), err));
    if (config->out % 4 || config->out > 1024 || config->columns < config->out || config->width % config->head_dim ||
        config->width % 2 || config->head_dim > 256 || config->head_dim % 8 || config->blocks > DITI_ANIMA_MAX_BLOCKS)
        return diti_loader_refuse(
            loader, err,
            "an Anima transformer of %u blocks, heads of %u in a width of %u, that takes %u columns of "
            "patches and makes %u, is out of range",
            (unsigned)config->blocks, (unsigned)config->head_dim, (unsigned)config->width, (unsigned)config->columns,
            (unsigned)config->out);
    return DIT_OK;
}

static dit_result diti_anima_read(diti_component *component, diti_loader *loader, const diti_json *json,
                                  dit_error *err) {
    static const diti_shape_key keys[] = {
        {offsetof(diti_anima_config, out), "proj_out.weight", 0},
        {offsetof(diti_anima_config, width), "patch_embed.proj.weight", 0},
        {offsetof(diti_anima_config, columns), "patch_embed.proj.weight", 1},
        {offsetof(diti_anima_config, rank), "norm_out.linear_1.weight", 0},
        {offsetof(diti_anima_config, text), "transformer_blocks.0.attn2.to_k.weight", 1},
        {offsetof(diti_anima_config, feed), "transformer_blocks.0.ff.net.0.proj.weight", 0},
        {offsetof(diti_anima_config, head_dim), "transformer_blocks.0.attn1.norm_q.weight", 0}};
    diti_anima_config *config = &((diti_anima *)(void *)component)->config;
    diti_settings settings = diti_settings_of(json, "the transformer's config.json", err);
    const diti_json *scale = diti_setting_numbers(&settings, "rope_scale");
    static const char *const others[][2] = {
        {"learnable_pos_embed.pos_emb_h", "Cosmos 1.0, another model than Anima"},
        {"crossattn_proj.0.weight", "Cosmos 2.5, another model than Anima"},
        {"img_context_proj.0.weight", "a Cosmos that reads pictures, another model than Anima"}};
    DITI_TRY(diti_refuse_others(loader, others, DITI_COUNT(others), "Anima", err));
    diti_read_shapes(loader, config, keys, DITI_COUNT(keys));
    config->blocks = diti_loader_layers(loader, &settings, "num_layers", "transformer_blocks.", ".attn1.to_q.weight");
    DITI_TRY(diti_anima_check(loader, config, err));
    config->channels = config->out / 4;
    config->heads = config->width / config->head_dim;
    scale = scale && scale->first ? scale->first->next : NULL; /* the second of three: time, lines, columns */
    config->scale = scale && scale->number >= 1 && scale->number <= 64 ? scale->number : 4;
    return settings.result;
}

/* ---- loading ---- */

static void diti_anima_load_block(diti_loader *loader, diti_anima_block *block, const diti_anima_config *config,
                                  uint32_t index) {
    static const char *const qkv[] = {"attn1.to_q", "attn1.to_k", "attn1.to_v"};
    static const char *const kv[] = {"attn2.to_k", "attn2.to_v"};
    static const char *const norms[] = {"attn1.norm_q.weight", "attn1.norm_k.weight"};
    uint32_t width = config->width, i;
    char name[32];
    diti_loader_scope(loader, "transformer_blocks.%u.", (unsigned)index);
    for (i = 0; i < 3; i++) {
        diti_format(name, sizeof name, "norm%u.linear_1", (unsigned)i + 1);
        diti_load_bare(loader, &block->down[i], config->rank, width, name);
        diti_format(name, sizeof name, "norm%u.linear_2", (unsigned)i + 1);
        diti_load_bare(loader, &block->up[i], 3 * width, config->rank, name);
    }
    diti_load_fused_linear(loader, &block->qkv, qkv, 3, width, width, false);
    diti_load_vectors(loader, &block->norms, norms, 2, config->head_dim);
    diti_load_bare(loader, &block->out, width, width, "attn1.to_out.0");
    diti_load_bare(loader, &block->text_q, width, width, "attn2.to_q");
    diti_load_fused_linear(loader, &block->text_kv, kv, 2, width, config->text, false);
    diti_load_vector(loader, &block->text_norm_q, 1, config->head_dim, "attn2.norm_q.weight");
    diti_load_vector(loader, &block->text_norm_k, 1, config->head_dim, "attn2.norm_k.weight");
    diti_load_bare(loader, &block->text_out, width, width, "attn2.to_out.0");
    diti_load_bare(loader, &block->ff_in, config->feed, width, "ff.net.0.proj");
    diti_load_bare(loader, &block->ff_out, width, config->feed, "ff.net.2");
    diti_loader_scope_end(loader);
    diti_make_attention(&block->attention, DITI_STREAMS_ONE, &block->qkv, &block->out, width, config->head_dim);
    block->attention.norms = &block->norms;
    block->attention.norm_eps = 1e-5f;
    block->attention.half_split = true;
    diti_make_text_attention(&block->cross, &block->attention, &block->text_q, &block->text_out, width,
                             config->head_dim);
    diti_make_feed(&block->feed, DITI_STREAMS_ONE, &block->ff_in, &block->ff_out);
    block->feed.activation = DITI_ACTIVATION_GELU_ERF;
}

static void diti_anima_load_weights(diti_loader *loader, diti_anima *model) {
    const diti_anima_config *config = &model->config;
    uint32_t i, width = config->width;
    diti_load_bare(loader, &model->patch, width, config->columns, "patch_embed.proj");
    diti_load_bare(loader, &model->time_in, width, width, "time_embed.t_embedder.linear_1");
    diti_load_bare(loader, &model->time_out, 3 * width, width, "time_embed.t_embedder.linear_2");
    diti_load_vector(loader, &model->time_norm, 1, width, "time_embed.norm.weight");
    for (i = 0; i < config->blocks; i++) diti_anima_load_block(loader, &model->blocks[i], config, i);
    diti_load_bare(loader, &model->final_down, config->rank, width, "norm_out.linear_1");
    diti_load_bare(loader, &model->final_up, 2 * width, config->rank, "norm_out.linear_2");
    diti_load_bare(loader, &model->proj_out, 4 * config->channels, width, "proj_out");
    diti_make_output(&model->last, DITI_STREAMS_ONE, &model->proj_out);
}

/* ---- how its language model is asked (docs/models.md 5.5) ---- */

static const diti_chat diti_anima_chats[] = {
    {"AnimaPipeline AnimaAutoBlocks", "", "", NULL, "", "", 512, false, 0, {1, 0, {-1}, false}, 0},
    DITI_CHATS_END,
};

static void diti_anima_set_traits(diti_anima *model) {
    const diti_anima_config *config = &model->config;
    diti_model_traits *traits = &model->base.traits;
    traits->variant = "1.0";
    diti_traits_sizes(traits, config->blocks, config->width, config->heads, config->channels, 2);
    traits->feed = config->feed;
    traits->default_size = 128;
    diti_traits_chat(traits, DITI_ENCODER_QWEN3, &diti_anima_chats[0], config->text, 0);
    traits->encoders[1] = DITI_ENCODER_CONDITIONER;
    traits->scheduler = "{\"_class_name\":\"FlowMatchEulerDiscreteScheduler\",\"shift\":3.0}";
    traits->uniform_sigmas = true;
    traits->default_steps = 30;
    traits->default_guidance = 4;
    traits->attends_padding = traits->masks_padding = true;
}

static void diti_anima_load(diti_component *component, diti_loader *loader) {
    diti_anima *model = (diti_anima *)(void *)component;
    model->blocks =
        (diti_anima_block *)diti_component_array(component, loader, model->config.blocks, sizeof *model->blocks);
    if (!model->blocks) return;
    diti_anima_load_weights(loader, model);
    diti_anima_set_traits(model);
}

/* ---- once per picture: everything that does not depend on the latent ---- */

typedef struct diti_anima_state { /* prepare leaves these for the steps */
    diti_tensor sinusoids;        /* input F32 [steps, D] */
    diti_rotation rotation;       /* [tokens, head_dim / 2] */
    diti_tensor text_rows;        /* input U32 [1, prompts * text tokens]: rows of the text, or none */
    diti_joint_modulation modulation;
    diti_tensor text[DITI_ANIMA_MAX_BLOCKS]; /* [prompts * text tokens, 2D]: keys, normed, and values */
} diti_anima_state;

#define diti_anima_state_of(step) ((diti_anima_state *)(step)->family)

/* up(down(active)) + shared for attention, the feed-forward and the text's attention: F32 [rows, 9D], for the last norm
   [rows, 2D]. active: F32 [rows, 4D], silu of the embedded time and what all modulations share. */
static diti_tensor diti_anima_modulation(const diti_pass *p, diti_tensor active, uint32_t index) {
    static const uint32_t order[3] = {0, 2, 1}; /* as diti_modulator has them */
    const diti_anima *model = diti_anima_of(p->model);
    bool last = index == model->config.blocks;
    uint32_t rows = diti_tensor_rows(p->graph, active), width = p->width, i, chunks = last ? 2 : 3;
    diti_tensor silu = diti_tensor_view(p->graph, active, 0, rows, 0, width), shared, all;
    shared = diti_tensor_view(p->graph, active, 0, rows, width, chunks * width);
    all = diti_tensor_new(p->graph, DITI_F32, rows, (last ? 2 : 9) * width, "modulation");
    for (i = 0; i < (last ? 1u : 3u) && !diti_graph_failed(p->graph); i++) {
        const diti_anima_block *w = last ? NULL : &model->blocks[index];
        const diti_layer *down = last ? &model->final_down : &w->down[order[i]];
        const diti_layer *up = last ? &model->final_up : &w->up[order[i]];
        diti_tensor low = diti_layer_f32(p->graph, silu, down, DITI_ACTIVATION_NONE, 0, "modulation_down");
        low = diti_layer_f32(p->graph, low, up, DITI_ACTIVATION_NONE, 0, "modulation_up");
        diti_add_rows(p->graph, low, shared,
                      diti_tensor_view(p->graph, all, 0, rows, i * chunks * width, chunks * width), "modulation");
    }
    return all;
}

/* RMS norm of each head, in place. */
static void diti_anima_norm(const diti_pass *p, diti_tensor x, const diti_weight *weight, const char *name) {
    diti_qkv_desc desc = DITI_ZERO;
    desc.head_dim = diti_anima_of(p->model)->config.head_dim;
    desc.heads = diti_tensor_columns(p->graph, x) / desc.head_dim;
    desc.norm = DITI_QKV_RMS;
    desc.eps = 1e-5f;
    desc.weight = weight;
    desc.name = name;
    diti_qk_norm_rope(p->graph, x, &desc);
}

/* Rows behind a prompt's are zeros, and are attended. */
static void diti_anima_project_text(diti_pass *p, diti_anima_state *state) {
    const diti_anima *model = diti_anima_of(p->model);
    uint32_t rows = p->step->text_batch * p->step->text_tokens, i, end;
    diti_tensor text = diti_tensor_view(p->graph, p->step->text, 0, rows, 0, model->config.text);
    text = diti_gather_tensor(p->graph, diti_add_rows(p->graph, text, 0, 0, "text"), state->text_rows, "text");
    diti_axes_blocks(p->step->axes, model->config.blocks, &i, &end);
    for (; i < end && !diti_graph_failed(p->graph); i++) {
        const diti_anima_block *w = &model->blocks[i];
        diti_pass_enter(p, i);
        state->text[i] = diti_sublayer_fused(p, text, &w->text_kv, 2, &w->cross, "text_kv");
        diti_anima_norm(
            p, diti_tensor_view(p->graph, state->text[i], 0, rows, 0, diti_column_shard_of(p, &w->cross).count),
            &w->text_norm_k, "text_k_norm");
    }
    diti_graph_scope(p->graph, NULL, 0);
}

static void diti_anima_prepare(diti_pass *p) {
    const diti_anima *model = diti_anima_of(p->model);
    const diti_anima_config *config = &model->config;
    const diti_step_desc *step = p->step;
    diti_graph *graph = p->graph;
    uint32_t steps = step->steps, width = config->width, half = config->head_dim / 2;
    diti_anima_state *state = diti_anima_state_of(step);
    diti_norm_desc norm = DITI_ZERO;
    diti_tensor time;
    state->sinusoids = diti_tensor_input(graph, DITI_F32, steps, width, "timesteps");
    diti_rotation_prepare(graph, &state->rotation, p->positions, half);
    state->text_rows = diti_tensor_input(graph, DITI_U32, 1, step->text_batch * step->text_tokens, "text_rows");
    state->modulation.active = diti_tensor_new(graph, DITI_F32, steps, 4 * width, "conditioning");
    state->modulation.shared = true;
    norm.rms = norm.silu = norm.out_f32 = true;
    norm.eps = 1e-6f;
    norm.weight = &model->time_norm;
    norm.out = diti_tensor_view(graph, state->modulation.active, 0, steps, 0, width);
    norm.name = "time_norm";
    diti_norm(graph, state->sinusoids, &norm);
    time = diti_layer_f32(graph, state->sinusoids, &model->time_in, DITI_ACTIVATION_SILU, 0, "time_in");
    diti_layer_f32(graph, time, &model->time_out, DITI_ACTIVATION_NONE,
                   diti_tensor_view(graph, state->modulation.active, 0, steps, width, 3 * width), "time_out");
    diti_joint_prepare(p, &state->modulation, (uint64_t)(9 * config->blocks + 2) * width, diti_anima_modulation);
    diti_anima_project_text(p, state);
}

/* ---- inputs ---- */

/* A head's pairs turn by the frame, which is 0, then by the line, then by the column, which have a sixth of its
   channels each; the frequencies of these two are stretched by the scale to the power of d / (d - 2). */
static void diti_anima_place(const diti_transformer *transformer, const diti_step_desc *step, uint32_t prompt,
                             float *cosines, float *sines) {
    const diti_anima_config *config = &diti_anima_of(transformer)->config;
    uint32_t half = config->head_dim / 2, side = config->head_dim / 6, columns = step->width / 2, row, i;
    double base = 10000 * pow(config->scale, (double)side / (side > 1 ? side - 1 : 1));
    (void)prompt;
    for (row = 0; row < step->height / 2 * columns; row++) {
        for (i = 0; i < half; i++) {
            uint32_t pair = i < half - 2 * side ? 0 : (i - (half - 2 * side)) % side;
            uint32_t at = i < half - 2 * side ? 0 : i < half - side ? row / columns : row % columns;
            double angle = (double)at * pow(base, -(double)pair / side);
            *cosines++ = (float)cos(angle);
            *sines++ = (float)sin(angle);
        }
    }
}

/* Rows of tokens that a prompt has; behind them a number that no row has, which gives zeros. Timesteps are not
   multiplied by 1000. */
static dit_result diti_anima_write_inputs(const diti_transformer *transformer, diti_plan *plan,
                                          const diti_step_desc *step, const float *timesteps, dit_error *err) {
    const diti_anima_state *state = (const diti_anima_state *)step->family;
    const diti_env *env = &transformer->component.env;
    uint32_t i;
    float *times;
    dit_result result;
    DITI_TRY(diti_write_text_rows(plan, state->text_rows, step, err));
    DITI_TRY(diti_write_places(transformer, plan, step, state->rotation.cosines, state->rotation.sines, 1,
                               diti_anima_place, err));
    times = (float *)diti_alloc_array(env, step->steps, sizeof *times);
    if (!times) return diti_fail_memory(err, "the timesteps");
    for (i = 0; i < step->steps; i++) times[i] = timesteps[i] / 1000;
    result = diti_write_sinusoids(plan, state->sinusoids, times, step->steps, 0, err);
    diti_free(env, times);
    return result;
}

/* ---- one evaluation ---- */

static void diti_anima_begin(diti_pass *p) {
    diti_anima_state *state = diti_anima_state_of(p->step);
    diti_rotation_begin(p, &state->rotation);
    diti_joint_begin(p, &state->modulation);
}

static diti_tensor diti_anima_embed(diti_pass *p) { return diti_patch_embed(p, 0, &diti_anima_of(p->model)->patch, 0); }

/* x += gate * to_out(attention of the modulated norm to the text); pictures that share a prompt are queries of one
   attention. */
static void diti_anima_attend_text(const diti_pass *p, diti_tensor x, const diti_anima_block *w) {
    const diti_sublayer *cross = &w->cross;
    uint32_t width = diti_column_shard_of(p, cross).count, rows;
    diti_tensor kv = diti_pass_last(p, diti_anima_state_of(p->step)->text[p->index]), q;
    diti_attention_desc desc = DITI_ZERO;
    q = diti_sublayer_in(p, diti_modulate(p, x, DITI_SHIFT_MSA2, DITI_SCALE_MSA2, cross), cross, 0);
    diti_anima_norm(p, q, &w->text_norm_q, "text_q_norm");
    rows = diti_tensor_rows(p->graph, kv);
    desc.batch = p->prompts;
    desc.heads = width / cross->head_dim;
    desc.head_dim = cross->head_dim;
    desc.scale = 1.0f / sqrtf((float)cross->head_dim);
    desc.name = "text_attention";
    q = diti_attention(p->graph, q, diti_tensor_view(p->graph, kv, 0, rows, 0, width),
                       diti_tensor_view(p->graph, kv, 0, rows, width, width), &desc);
    diti_sublayer_add(p, x, DITI_GATE_MSA2, cross, q);
}

/* CosmosTransformerBlock.forward, docs/models.md 3.16 step 3; x F32 [items * tokens, D] is changed in place. */
static diti_tensor diti_anima_run_block(diti_pass *p, diti_tensor x) {
    const diti_anima_block *w = &diti_anima_of(p->model)->blocks[p->index];
    const diti_anima_state *state = diti_anima_state_of(p->step);
    p->modulation.rows = diti_joint_modulation_rows(p, &state->modulation, p->index, diti_anima_modulation);
    p->modulation.chunks = 9;
    diti_rotation_apply(p, &state->rotation);
    diti_block_attend(p, x, &w->attention);
    diti_anima_attend_text(p, x, w);
    diti_sublayer_feed(p, x, DITI_SHIFT_MLP, DITI_SCALE_MLP, DITI_GATE_MLP, &w->feed);
    return x;
}

static diti_tensor diti_anima_final(diti_pass *p, diti_tensor x) {
    const diti_anima *model = diti_anima_of(p->model);
    p->modulation.rows = diti_joint_modulation_rows(p, &diti_anima_state_of(p->step)->modulation, model->config.blocks,
                                                    diti_anima_modulation);
    p->modulation.chunks = 2;
    return diti_output_modulated(p, x, &model->last);
}

/* ---- where parts of such models are ---- */

#define DITI_ANIMA_PLACE "circlestone-labs/Anima"
static const diti_place diti_anima_places[] = {
    {"", DIT_ROLE_TRANSFORMER, DITI_ANIMA_PLACE ": split_files/diffusion_models/"},
    {"", DIT_ROLE_TEXT_1, DITI_ANIMA_PLACE ": split_files/text_encoders/qwen_3_06b_base.safetensors"},
    {"", DIT_ROLE_TEXT_2, DITI_ANIMA_PLACE ": split_files/diffusion_models/, in the transformer's file"},
    {"", DIT_ROLE_TOKENIZER_1, "Qwen/Qwen3-0.6B-Base: tokenizer.json"},
    {"", DIT_ROLE_TOKENIZER_2, "google-t5/t5-base: tokenizer.json"},
    {"", DIT_ROLE_VAE, DITI_ANIMA_PLACE ": split_files/vae/qwen_image_vae.safetensors"},
    {NULL, DIT_ROLE_NONE, NULL},
};

DIT_INTERNAL const diti_family *diti_anima_family(void) {
    static const diti_family family = {
        "anima",
        "Anima",
        {"CosmosTransformer3DModel",
         NULL,
         {"patch_embed.proj.weight", "time_embed.t_embedder.linear_1.weight",
          "transformer_blocks.0.norm1.linear_1.weight", NULL},
         {"x_embedder.proj.1.weight", "t_embedder.1.linear_1.weight", "blocks.0.adaln_modulation_self_attn.1.weight",
          NULL},
         {NULL, NULL}},
        {"transformer", "transformer", sizeof(diti_anima), diti_anima_read, diti_anima_load, NULL},
        diti_anima_names,
        {16, 1, 0, false},
        NULL,
        diti_anima_chats,
        diti_anima_places,
        sizeof(diti_anima_state),
        diti_anima_prepare,
        diti_anima_begin,
        diti_anima_embed,
        diti_anima_run_block,
        diti_anima_final,
        diti_anima_write_inputs};
    return &family;
}
