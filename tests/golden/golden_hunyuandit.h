/* HunyuanDiT transformers: whole evaluations with both conventions of positions, and every part alone on the
   reference's recorded input. Items of a batch have timesteps, masks and sizes of their own in the fixtures, so that
   they are run one by one; batches are tests/model/model.c's. */
#ifndef GOLDEN_HUNYUANDIT_H
#define GOLDEN_HUNYUANDIT_H
#include "golden_text.h"

static inline bool golden_is_hunyuandit(const golden_folder *folder) {
    return folder->golden && diti_starts_with(folder->name, "hunyuandit_") &&
           diti_checkpoint_find(folder->golden, "case0.in.encoder_hidden_states_t5");
}

typedef struct golden_hunyuandit_case {
    golden_case base;
    const diti_hunyuandit *model;
    uint32_t lengths[2];
    float micro[6];
} golden_hunyuandit_case;

static inline diti_tensor golden_hunyuandit_text(golden_hunyuandit_case *c, const char *text, const char *mask,
                                                 uint32_t tokens, uint32_t columns, uint32_t *length) {
    float *ones = golden_case_rows(&c->base, mask, 1, tokens);
    golden_mask_lengths(c->base.m.g, ones, 1, tokens, length);
    free(ones);
    return golden_give(&c->base.m, DITI_F32, tokens, columns, golden_case_rows(&c->base, text, tokens, columns));
}

static inline void golden_hunyuandit_inputs(golden_hunyuandit_case *c) {
    const diti_hunyuandit_config *config = &c->model->config;
    diti_step_desc *d = &c->base.step;
    uint32_t pixels = d->height * d->width;
    float *time = golden_case_rows(&c->base, "in.timestep", 1, 1);
    c->base.timestep = time[0];
    free(time);
    d->latent = golden_give(&c->base.m, DITI_F32, config->channels, pixels,
                            golden_case_rows(&c->base, "in.hidden_states", config->channels, pixels));
    d->text = golden_hunyuandit_text(c, "in.encoder_hidden_states", "in.text_embedding_mask", config->text_tokens,
                                     config->text, &c->lengths[0]);
    d->text2 = golden_hunyuandit_text(c, "in.encoder_hidden_states_t5", "in.text_embedding_mask_t5",
                                      config->text2_tokens, config->text2, &c->lengths[1]);
    d->text_lengths = &c->lengths[0];
    d->text2_lengths = &c->lengths[1];
    d->row = golden_give_u32(&c->base.m, 0);
    if (config->sized) {
        float *sizes = golden_case_rows(&c->base, "in.image_meta_size", 1, 6);
        memcpy(c->micro, sizes, sizeof c->micro);
        d->micro = c->micro;
        free(sizes);
    }
}

/* The recorded tables repeat every value for both halves of a pair. */
static inline void golden_hunyuandit_positions(golden_hunyuandit_case *c, const char *cosines, const char *sines) {
    const diti_hunyuandit_config *config = &c->model->config;
    uint32_t head = config->head_dim, tokens = c->base.step.token_range.rows, i;
    uint64_t count[2];
    char name[2][96];
    float *table = (float *)calloc((size_t)tokens * head, sizeof *table), *wanted[2];
    diti_hunyuandit_place(&c->model->base, &c->base.step, 0, table, table + (size_t)tokens * head / 2);
    wanted[0] = golden_floats(c->base.m.folder->golden, golden_case_name(&c->base, cosines, name[0]), &count[0]);
    wanted[1] = golden_floats(c->base.m.folder->golden, golden_case_name(&c->base, sines, name[1]), &count[1]);
    if (golden_require(c->base.m.g, count[0] == (uint64_t)tokens * head && count[1] == count[0], "%s has its size",
                       name[0])) {
        for (i = 0; i < tokens * head / 2; i++) {
            wanted[0][i] = wanted[0][2 * i];
            wanted[1][i] = wanted[1][2 * i];
        }
        for (i = 0; i < 2; i++)
            golden_compare(c->base.m.g, name[i], table + (size_t)i * tokens * head / 2, wanted[i],
                           (uint64_t)tokens * head / 2, GOLDEN_BLOCK);
    }
    free(wanted[0]);
    free(wanted[1]);
    free(table);
}

static inline diti_tensor golden_hunyuandit_recorded(golden_hunyuandit_case *c, uint32_t block) {
    char rest[64];
    diti_format(rest, sizeof rest, block ? "mid.blocks.%u" : "mid.pos_embed", block - 1);
    return golden_case_recorded(&c->base, rest, c->base.step.token_range.rows, c->model->config.width);
}

/* Expects the tensors that prepare makes: pooled text, and its embedding with sizes and style. */
static inline void golden_hunyuandit_conditions(golden_hunyuandit_case *c) {
    diti_graph *graph = &c->base.m.graph;
    const diti_hunyuandit_state *state = (const diti_hunyuandit_state *)c->base.step.family;
    diti_tensor pooled = diti_hunyuandit_pool(c->model, graph, &c->base.step);
    golden_case_expect(&c->base, "mid.time_extra_emb.pooler", pooled, GOLDEN_BLOCK);
    golden_case_expect(&c->base, "mid.time_extra_emb.extra_embedder",
                       diti_hunyuandit_extra(c->model, graph, state->sizes, pooled), GOLDEN_BLOCK);
    golden_case_expect(&c->base, "mid.text_embedder", diti_embed(graph, &c->model->text, c->base.step.text2, 0),
                       GOLDEN_BLOCK);
}

static inline void golden_hunyuandit_parts(golden_hunyuandit_case *c) {
    diti_graph *graph = &c->base.m.graph;
    const diti_hunyuandit_config *config = &c->model->config;
    diti_step_desc *d = &c->base.step;
    diti_tensor x = diti_transformer_embed(&c->model->base, graph, d);
    char rest[64];
    uint32_t i;
    golden_case_expect(&c->base, "mid.pos_embed", x, GOLDEN_BLOCK);
    for (i = 0; i < config->blocks; i++) {
        if (diti_hunyuandit_takes_skip(config, i))
            d->inboxes[0].skips[config->blocks - 1 - i] = golden_hunyuandit_recorded(c, config->blocks - i);
        x = diti_transformer_block(&c->model->base, graph, d, i, golden_hunyuandit_recorded(c, i));
        diti_format(rest, sizeof rest, "mid.blocks.%u", i);
        golden_case_expect(&c->base, rest, x, GOLDEN_BLOCK);
    }
}

/* compared: the recorded output; with the older convention of positions parts are not recorded. */
static inline void golden_run_hunyuandit_item(golden *g, const golden_folder *folder, golden_hunyuandit_case *c,
                                              const char *compared) {
    bool parts = diti_equal(compared, "out");
    golden_graph_begin(&c->base.m, g, folder);
    c->base.step.variance = true;
    golden_hunyuandit_inputs(c);
    diti_transformer_prepare(&c->model->base, &c->base.m.graph, &c->base.step);
    if (parts) golden_hunyuandit_conditions(c);
    diti_graph_segment(&c->base.m.graph, "step", true);
    diti_transformer_begin(&c->model->base, &c->base.m.graph, &c->base.step);
    golden_hunyuandit_positions(c, parts ? "in.rope_cos" : "in.rope_cos_np", parts ? "in.rope_sin" : "in.rope_sin_np");
    if (parts) golden_hunyuandit_parts(c);
    golden_case_expect(&c->base, compared, diti_transformer_step(&c->model->base, &c->base.m.graph, &c->base.step),
                       GOLDEN_MODEL);
    golden_case_run(&c->base, &c->model->base);
}

static inline bool golden_run_hunyuandit_case(golden *g, const golden_folder *folder, const diti_transformer *model,
                                              uint32_t index) {
    static const char *const outputs[] = {"out_np_rope", "out"}; /* positions by equal steps, by linspace */
    golden_hunyuandit_case c;
    const diti_stored_tensor *latent;
    uint32_t item, items = 1, linspace;
    char name[96];
    for (item = 0; item < items; item++) {
        for (linspace = 0; linspace < 2; linspace++) {
            memset(&c, 0, sizeof c);
            c.model = diti_hunyuandit_of(model);
            ((diti_hunyuandit *)(void *)(uintptr_t)model)->config.linspace = linspace != 0;
            c.base.index = index;
            c.base.item = item;
            latent = diti_checkpoint_find(folder->golden, golden_case_name(&c.base, "in.hidden_states", name));
            if (!latent || latent->rank != 4) return false;
            items = (uint32_t)latent->shape[0];
            if (!diti_checkpoint_find(folder->golden, golden_case_name(&c.base, outputs[linspace], name))) continue;
            c.base.step.batch = c.base.step.branches = c.base.step.steps = c.base.step.text_batch = 1;
            c.base.step.height = (uint32_t)latent->shape[2];
            c.base.step.width = (uint32_t)latent->shape[3];
            golden_run_hunyuandit_item(g, folder, &c, outputs[linspace]);
        }
    }
    return true;
}

static inline void golden_run_hunyuandit(golden *g, const golden_folder *folder) {
    golden_run_transformer(g, folder, NULL, golden_run_hunyuandit_case);
}
#endif
