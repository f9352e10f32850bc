/* Wan's transformers: whole evaluations, and every block alone on the reference's recorded input; then the same weights
   under the original's names, which must give the same. Items of a batch have timesteps and texts of their own in the
   fixtures, so that they are run one by one. */
#ifndef GOLDEN_WAN_H
#define GOLDEN_WAN_H
#include "golden_renamed.h"

static inline bool golden_is_wan(const golden_folder *folder) {
    return folder->golden && diti_equal(diti_json_string(folder->config, "_class_name", ""), "WanTransformer3DModel");
}

typedef struct golden_wan_case {
    golden_case base;
    const diti_wan *model;
    bool frame_steps; /* tokens have timesteps of their own */
    uint32_t length;  /* rows of the text that are a prompt's */
} golden_wan_case;

/* One timestep, or one of each token: 0 for those of given frames, whose row of the tables stands behind the step's. */
static inline void golden_wan_timesteps(golden_wan_case *c, const diti_stored_tensor *stored) {
    diti_step_desc *d = &c->base.step;
    uint32_t tokens = stored->rank > 1 ? (uint32_t)stored->shape[1] : 1, i;
    float *times = golden_case_rows(&c->base, "in.timestep", 1, tokens);
    c->base.timestep = times[tokens - 1];
    c->frame_steps = tokens > 1;
    if (c->frame_steps) {
        uint32_t *steps = (uint32_t *)calloc(d->frames, sizeof *steps);
        for (i = 0; i < tokens; i++) {
            uint32_t given = times[i] == 0, frame = i / (tokens / d->frames);
            golden_require(c->base.m.g, i % (tokens / d->frames) == 0 || steps[frame] == given,
                           "tokens of a frame have one timestep");
            steps[frame] = given;
        }
        d->frame_steps = golden_give(&c->base.m, DITI_U32, 1, d->frames, steps);
    }
    free(times);
}

/* Planes [first, first + count) of the recorded latent, of which a condition's stand behind its own. */
static inline diti_tensor golden_wan_planes(golden_wan_case *c, uint32_t first, uint32_t count) {
    const diti_step_desc *d = &c->base.step;
    uint32_t plane = d->frames * d->height * d->width;
    float *all = golden_case_rows(&c->base, "in.hidden_states", c->model->config.channels, plane);
    memmove(all, all + (size_t)first * plane, (size_t)count * plane * sizeof *all);
    return golden_give(&c->base.m, DITI_F32, count, plane, all);
}

/* Recorded rows that are zeros stand behind the prompt's: what the encoder says there must not count. */
static inline void golden_wan_text(golden_wan_case *c) {
    diti_step_desc *d = &c->base.step;
    uint32_t columns = c->model->config.text, i;
    float *rows = golden_case_rows(&c->base, "in.encoder_hidden_states", d->text_tokens, columns);
    for (c->length = d->text_tokens; c->length && rows[(size_t)c->length * columns - 1] == 0; c->length--)
        for (i = 1; i <= columns; i++) rows[(size_t)c->length * columns - i] = 7;
    d->text_lengths = &c->length;
    d->text = golden_give(&c->base.m, DITI_F32, d->text_tokens, columns, rows);
}

static inline void golden_wan_inputs(golden_wan_case *c) {
    const diti_wan_config *config = &c->model->config;
    diti_step_desc *d = &c->base.step;
    uint32_t own = config->out_channels, more = config->channels - own;
    char name[96];
    golden_wan_timesteps(
        c, diti_checkpoint_find(c->base.m.folder->golden, golden_case_name(&c->base, "in.timestep", name)));
    d->latent = golden_wan_planes(c, 0, own);
    if (more) d->condition = golden_wan_planes(c, own, more);
    golden_wan_text(c);
    if (config->image)
        d->text2 = golden_give(
            &c->base.m, DITI_F32, DITI_WAN_IMAGE_TOKENS, config->image,
            golden_case_rows(&c->base, "in.encoder_hidden_states_image", DITI_WAN_IMAGE_TOKENS, config->image));
    d->row = golden_give_u32(&c->base.m, 0);
}

/* Six rows for all blocks and the embedding of the timestep: of the step, which the last token has, and of timestep 0,
   which the first one has where there are several. */
static inline void golden_wan_modulation(golden_wan_case *c) {
    const diti_step_desc *d = &c->base.step;
    const diti_wan_state *state = (const diti_wan_state *)d->family;
    uint32_t six = 6 * c->model->config.width, tokens = c->frame_steps ? d->token_range.all : 1, row;
    for (row = 0; row < (c->frame_steps ? 2u : 1u); row++) {
        float *recorded = golden_case_rows(&c->base, "mid.condition_embedder.1", tokens, six);
        if (!row) memmove(recorded, recorded + (size_t)(tokens - 1) * six, six * sizeof *recorded);
        golden_expect(&c->base.m, row ? "mid.condition_embedder.1, given frames" : "mid.condition_embedder.1",
                      diti_tensor_view(&c->base.m.graph, state->modulation, row, 1, 0, six), recorded, GOLDEN_BLOCK);
    }
}

static inline float *golden_wan_embedded(golden_wan_case *c) {
    uint32_t rows = c->base.step.token_range.rows, width = c->model->config.width;
    return golden_transpose(golden_case_rows(&c->base, "mid.patch_embedding", width, rows), width, rows);
}

static inline void golden_wan_parts(golden_wan_case *c) {
    diti_graph *graph = &c->base.m.graph;
    const diti_transformer *model = &c->model->base;
    diti_step_desc *d = &c->base.step;
    uint32_t i, rows = d->token_range.rows, width = c->model->config.width;
    diti_tensor x = diti_transformer_embed(model, graph, d);
    golden_expect(&c->base.m, "mid.patch_embedding", x, golden_wan_embedded(c), GOLDEN_BLOCK);
    x = golden_copy(&c->base.m, golden_give(&c->base.m, DITI_F32, rows, width, golden_wan_embedded(c)));
    for (i = 0; i < c->model->config.blocks; i++) {
        char rest[64];
        diti_format(rest, sizeof rest, "mid.blocks.%u", i);
        x = diti_transformer_block(model, graph, d, i, x);
        golden_case_expect(&c->base, rest, x, GOLDEN_BLOCK);
        x = golden_case_recorded(&c->base, rest, rows, width);
    }
    golden_case_expect(&c->base, "mid.proj_out", diti_transformer_final(model, graph, d, x), GOLDEN_BLOCK);
}

static inline bool golden_run_wan_case(golden *g, const golden_folder *folder, const diti_transformer *model,
                                       uint32_t index) {
    golden_wan_case c;
    uint32_t item, items = 1;
    for (item = 0; item < items; item++) {
        diti_step_desc *d = &c.base.step;
        memset(&c, 0, sizeof c);
        c.model = diti_wan_of(model);
        c.base.index = index;
        c.base.item = item;
        if (!golden_case_clip(&c.base, folder, "in.hidden_states", "in.encoder_hidden_states", 2, &items)) return false;
        golden_graph_begin(&c.base.m, g, folder);
        golden_wan_inputs(&c);
        diti_transformer_prepare(model, &c.base.m.graph, d);
        diti_graph_segment(&c.base.m.graph, "step", true);
        diti_transformer_begin(model, &c.base.m.graph, d);
        golden_wan_modulation(&c);
        golden_wan_parts(&c);
        golden_case_expect(&c.base, "out", diti_transformer_step(model, &c.base.m.graph, d), GOLDEN_MODEL);
        golden_case_run(&c.base, model);
    }
    return true;
}

static inline void golden_run_wan(golden *g, const golden_folder *folder) {
    static const char *const pairs[][2] = {{".scale_shift_table", ".modulation"},
                                           {"scale_shift_table", "head.modulation"},
                                           {"proj_out", "head.head"},
                                           {"norm2", "norm3"},
                                           {"attn1.to_out.0", "self_attn.o"},
                                           {"attn1.to_", "self_attn."},
                                           {"attn1.", "self_attn."},
                                           {"attn2.to_out.0", "cross_attn.o"},
                                           {"attn2.to_", "cross_attn."},
                                           {"attn2.", "cross_attn."},
                                           {"ffn.net.0.proj", "ffn.0"},
                                           {"ffn.net.2", "ffn.2"},
                                           {"condition_embedder.time_embedder.linear_1", "time_embedding.0"},
                                           {"condition_embedder.time_embedder.linear_2", "time_embedding.2"},
                                           {"condition_embedder.time_proj", "time_projection.1"},
                                           {"condition_embedder.text_embedder.linear_1", "text_embedding.0"},
                                           {"condition_embedder.text_embedder.linear_2", "text_embedding.2"}};
    static const char original[] = "{\"_class_name\": \"WanModel\", \"num_heads\": 3, \"ffn_dim\": 160, "
                                   "\"in_dim\": 16, \"out_dim\": 16, \"dim\": 72, \"eps\": 1e-06}";
    const golden_renamed to = {"model.diffusion_model.", pairs, DITI_COUNT(pairs), true};
    diti_checkpoint *weights = golden_open_weights(g, folder), *open = NULL;
    diti_json *config = NULL;
    bytes file = {0};
    golden_run_cases(g, folder, folder->config, weights, golden_run_wan_case);
    if (weights && diti_equal(folder->name, "wan")) {
        diti_json_parse(&g->env, original, strlen(original), "the original's config.json", &config, NULL);
        open = golden_open_renamed(g, weights, &to, &file);
        golden_run_cases(g, folder, config, open, golden_run_wan_case);
    }
    diti_json_free(&g->env, config);
    diti_checkpoint_close(open);
    diti_checkpoint_close(weights);
    bytes_free(&file);
}
#endif
