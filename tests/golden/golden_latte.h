/* Latte-1's and Open-Sora-Plan's transformers: whole evaluations, and every block alone on the reference's recorded
   input. Items of a batch have timesteps and texts of their own in the fixtures, so that they are run one by one. */
#ifndef GOLDEN_LATTE_H
#define GOLDEN_LATTE_H
#include "golden_t5.h"

static inline bool golden_is_latte(const golden_folder *folder) {
    const char *name = diti_json_string(folder->config, "_class_name", "");
    return folder->golden && (diti_equal(name, "LatteTransformer3DModel") || diti_equal(name, "LatteT2V"));
}

typedef struct golden_latte_case {
    golden_case base;
    const diti_latte *model;
} golden_latte_case;

/* Latent, text with its length, timestep, and whether frames attend each other. */
static inline void golden_latte_inputs(golden_latte_case *c) {
    const diti_latte_config *config = &c->model->config;
    diti_step_desc *d = &c->base.step;
    uint32_t pixels = d->frames * d->height * d->width;
    uint32_t *item = (uint32_t *)calloc(DITI_ITEM_WORDS, sizeof *item);
    float *time = golden_case_rows(&c->base, "in.timestep", 1, 1), *between;
    uint64_t count;
    char name[96];
    between = golden_floats(c->base.m.folder->golden, golden_case_name(&c->base, "in.enable_temporal_attentions", name),
                            &count);
    d->still = between && between[0] <= 0;
    item[3] = d->text_tokens;
    if (golden_case_has(&c->base, "in.encoder_attention_mask")) {
        float *mask = golden_case_rows(&c->base, "in.encoder_attention_mask", 1, d->text_tokens);
        golden_mask_lengths(c->base.m.g, mask, 1, d->text_tokens, &item[3]);
        free(mask);
    }
    c->base.timestep = time[0];
    free(time);
    free(between);
    d->latent = golden_give(&c->base.m, DITI_F32, config->channels, pixels,
                            golden_case_rows(&c->base, "in.hidden_states", config->channels, pixels));
    d->text = golden_give(&c->base.m, DITI_F32, d->text_tokens, config->caption,
                          golden_case_rows(&c->base, "in.encoder_hidden_states", d->text_tokens, config->caption));
    d->text_items = golden_give(&c->base.m, DITI_U32, 1, DITI_ITEM_WORDS, item);
    d->row = golden_give_u32(&c->base.m, 0);
}

/* The result of block `block`, in the order of dit.h's rows: attention between frames is recorded position by position.
 */
static inline float *golden_latte_recorded(golden_latte_case *c, uint32_t block) {
    const diti_step_desc *d = &c->base.step;
    uint32_t rows = d->token_range.rows, width = c->model->config.width, frames = d->frames, f, i;
    uint32_t positions = rows / frames;
    float *recorded, *out;
    char rest[64];
    diti_format(rest, sizeof rest, d->still ? "mid.transformer_blocks.%u" : "mid.temporal_transformer_blocks.%u",
                block);
    recorded = golden_case_rows(&c->base, rest, rows, width);
    if (d->still) return recorded;
    out = (float *)malloc((size_t)rows * width * sizeof *out);
    for (i = 0; i < positions; i++)
        for (f = 0; f < frames; f++)
            memcpy(out + ((size_t)f * positions + i) * width, recorded + ((size_t)i * frames + f) * width,
                   width * sizeof *out);
    free(recorded);
    return out;
}

static inline void golden_latte_parts(golden_latte_case *c) {
    diti_graph *graph = &c->base.m.graph;
    const diti_transformer *model = &c->model->base;
    diti_step_desc *d = &c->base.step;
    uint32_t i, rows = d->token_range.rows, width = c->model->config.width;
    diti_tensor x;
    char label[96];
    golden_case_expect(&c->base, "mid.pos_embed", diti_transformer_embed(model, graph, d), GOLDEN_BLOCK);
    x = golden_case_recorded(&c->base, "mid.pos_embed", rows, width);
    for (i = 0; i < c->model->config.blocks; i++) {
        diti_transformer_block(model, graph, d, i, x);
        diti_format(label, sizeof label, "case%u.block %u [%u]", c->base.index, i, c->base.item);
        golden_expect(&c->base.m, label, x, golden_latte_recorded(c, i), GOLDEN_BLOCK);
        x = golden_copy(&c->base.m, golden_give(&c->base.m, DITI_F32, rows, width, golden_latte_recorded(c, i)));
    }
    golden_case_expect(&c->base, "mid.proj_out", diti_transformer_final(model, graph, d, x), GOLDEN_BLOCK);
}

static inline bool golden_run_latte_case(golden *g, const golden_folder *folder, const diti_transformer *model,
                                         uint32_t index) {
    golden_latte_case c;
    uint32_t item, items = 1;
    for (item = 0; item < items; item++) {
        diti_step_desc *d = &c.base.step;
        memset(&c, 0, sizeof c);
        c.model = diti_latte_of(model);
        c.base.index = index;
        c.base.item = item;
        d->variance = true;
        if (!golden_case_clip(&c.base, folder, "in.hidden_states", "in.encoder_hidden_states", 2, &items)) return false;
        golden_graph_begin(&c.base.m, g, folder);
        golden_latte_inputs(&c);
        diti_transformer_prepare(model, &c.base.m.graph, d);
        golden_case_expect(&c.base, "mid.adaln_single.0",
                           diti_tensor_view(&c.base.m.graph, ((const diti_latte_state *)d->family)->modulation, 0, 1, 0,
                                            6 * c.model->config.width),
                           GOLDEN_BLOCK);
        diti_graph_segment(&c.base.m.graph, "step", true);
        diti_transformer_begin(model, &c.base.m.graph, d);
        golden_latte_parts(&c);
        golden_case_expect(&c.base, "out", diti_transformer_step(model, &c.base.m.graph, d), GOLDEN_MODEL);
        golden_case_run(&c.base, model);
    }
    return true;
}

static inline void golden_run_latte(golden *g, const golden_folder *folder) {
    golden_run_transformer(g, folder, NULL, golden_run_latte_case);
}
#endif
