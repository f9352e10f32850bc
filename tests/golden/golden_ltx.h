/* LTX-Video's transformer: whole evaluations, and every block alone on the reference's recorded input. Items of a batch
   have timesteps and texts of their own in the fixtures, so that they are run one by one. */
#ifndef GOLDEN_LTX_H
#define GOLDEN_LTX_H
#include "golden_originals.h"
#include "golden_t5.h"

static inline bool golden_is_ltx(const golden_folder *folder) {
    return folder->golden &&
           diti_equal(diti_json_string(folder->config, "_class_name", ""), "LTXVideoTransformer3DModel");
}

typedef struct golden_ltx_case {
    golden_case base;
    const diti_ltx *model;
} golden_ltx_case;

/* Sizes of the case, whose latents are recorded as tokens [items, tokens, C]; false: there is no such case. */
static inline bool golden_ltx_begin(golden_ltx_case *c, const golden_folder *folder, uint32_t *items) {
    diti_step_desc *d = &c->base.step;
    const diti_stored_tensor *x, *y;
    char name[96];
    uint64_t count;
    float *sizes, *scale;
    x = diti_checkpoint_find(folder->golden, golden_case_name(&c->base, "in.hidden_states", name));
    y = diti_checkpoint_find(folder->golden, golden_case_name(&c->base, "in.encoder_hidden_states", name));
    if (!x || !y || x->rank != 3 || y->rank != 3) return false;
    sizes = golden_floats(folder->golden, golden_case_name(&c->base, "in.fhw", name), &count);
    scale = golden_floats(folder->golden, golden_case_name(&c->base, "in.rope_interpolation_scale", name), &count);
    *items = (uint32_t)x->shape[0];
    d->batch = d->branches = d->steps = d->text_batch = 1;
    d->frames = (uint32_t)sizes[0];
    d->height = (uint32_t)sizes[1];
    d->width = (uint32_t)sizes[2];
    d->text_tokens = (uint32_t)y->shape[1];
    d->fps = floorf(8 / scale[0] + 0.5f);
    free(sizes);
    free(scale);
    return true;
}

/* Latent, text with its length, timestep. Tokens of given frames have timestep 0, and the row behind the only step's.
 */
static inline void golden_ltx_inputs(golden_ltx_case *c) {
    const diti_ltx_config *config = &c->model->config;
    diti_step_desc *d = &c->base.step;
    uint32_t plane = d->height * d->width, tokens = d->frames * plane, i;
    uint32_t *item = (uint32_t *)calloc(DITI_ITEM_WORDS, sizeof *item);
    float *mask = golden_case_rows(&c->base, "in.encoder_attention_mask", 1, d->text_tokens), *times;
    char name[96];
    bool each;
    golden_mask_lengths(c->base.m.g, mask, 1, d->text_tokens, &item[3]);
    free(mask);
    each = diti_checkpoint_find(c->base.m.folder->golden, golden_case_name(&c->base, "in.timestep", name))->rank == 2;
    times = golden_case_rows(&c->base, "in.timestep", 1, each ? tokens : 1);
    c->base.timestep = times[each ? tokens - 1 : 0];
    if (each) {
        uint32_t *steps = (uint32_t *)calloc(d->frames, sizeof *steps);
        for (i = 0; i < d->frames; i++) steps[i] = times[i * plane] > 0 ? 0 : 1;
        d->frame_steps = golden_give(&c->base.m, DITI_U32, 1, d->frames, steps);
    }
    free(times);
    d->latent = golden_give(&c->base.m, DITI_F32, config->channels, tokens,
                            golden_transpose(golden_case_rows(&c->base, "in.hidden_states", tokens, config->channels),
                                             tokens, config->channels));
    d->text = golden_give(&c->base.m, DITI_F32, d->text_tokens, config->caption,
                          golden_case_rows(&c->base, "in.encoder_hidden_states", d->text_tokens, config->caption));
    d->text_items = golden_give(&c->base.m, DITI_U32, 1, DITI_ITEM_WORDS, item);
    d->row = golden_give_u32(&c->base.m, 0);
}

/* The tables of the rotation, which are recorded with every angle twice. */
static inline void golden_ltx_tables(golden_ltx_case *c) {
    static const char *const names[] = {"rope_cos", "rope_sin"};
    const diti_step_desc *d = &c->base.step;
    uint32_t half = c->model->config.width / 2, tokens = d->frames * d->height * d->width, i, k, count = tokens * half;
    float *own = (float *)malloc(2 * (size_t)count * sizeof *own);
    char label[96];
    diti_ltx_place(&c->model->base, d, 0, own, own + count);
    for (i = 0; i < 2; i++) {
        float *recorded = golden_case_rows(&c->base, names[i], tokens, 2 * half);
        for (k = 0; k < count; k++) recorded[k] = recorded[2 * k];
        diti_format(label, sizeof label, "case%u.%s [%u]", c->base.index, names[i], c->base.item);
        golden_compare(c->base.m.g, label, own + (size_t)i * count, recorded, count, GOLDEN_BLOCK);
        free(recorded);
    }
    free(own);
}

static inline void golden_ltx_parts(golden_ltx_case *c) {
    diti_graph *graph = &c->base.m.graph;
    const diti_transformer *model = &c->model->base;
    diti_step_desc *d = &c->base.step;
    uint32_t i, rows = d->token_range.rows, width = c->model->config.width;
    diti_tensor x;
    golden_case_expect(&c->base, "mid.proj_in", diti_transformer_embed(model, graph, d), GOLDEN_BLOCK);
    x = golden_case_recorded(&c->base, "mid.proj_in", rows, width);
    for (i = 0; i < c->model->config.blocks; i++) {
        char rest[64];
        diti_transformer_block(model, graph, d, i, x);
        diti_format(rest, sizeof rest, "mid.transformer_blocks.%u", i);
        golden_case_expect(&c->base, rest, x, GOLDEN_BLOCK);
        x = golden_case_recorded(&c->base, rest, rows, width);
    }
    x = diti_transformer_final(model, graph, d, x);
    golden_case_expect(&c->base, "out", x, GOLDEN_BLOCK);
}

static inline bool golden_run_ltx_case(golden *g, const golden_folder *folder, const diti_transformer *model,
                                       uint32_t index) {
    golden_ltx_case c;
    uint32_t item, items = 1, tokens;
    for (item = 0; item < items; item++) {
        diti_step_desc *d = &c.base.step;
        diti_tensor out;
        char label[96], name[96];
        memset(&c, 0, sizeof c);
        c.model = diti_ltx_of(model);
        c.base.index = index;
        c.base.item = item;
        if (!golden_ltx_begin(&c, folder, &items)) return false;
        golden_graph_begin(&c.base.m, g, folder);
        golden_ltx_tables(&c);
        golden_ltx_inputs(&c);
        diti_transformer_prepare(model, &c.base.m.graph, d);
        diti_graph_segment(&c.base.m.graph, "step", true);
        diti_transformer_begin(model, &c.base.m.graph, d);
        golden_ltx_parts(&c);
        out = diti_transformer_step(model, &c.base.m.graph, d);
        tokens = d->frames * d->height * d->width;
        diti_format(label, sizeof label, "%s whole [%u]", golden_case_name(&c.base, "out", name), item);
        golden_expect(&c.base.m, label, out,
                      golden_transpose(golden_case_rows(&c.base, "out", tokens, c.model->config.channels), tokens,
                                       c.model->config.channels),
                      GOLDEN_MODEL);
        golden_case_run(&c.base, model);
    }
    return true;
}

static inline void golden_run_ltx(golden *g, const golden_folder *folder) {
    diti_checkpoint *weights = golden_open_weights(g, folder);
    golden_run_cases(g, folder, folder->config, weights, golden_run_ltx_case);
    golden_run_original(g, folder, folder->config, weights, golden_run_ltx_case);
    diti_checkpoint_close(weights);
}
#endif
