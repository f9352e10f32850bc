/* Open-Sora's transformers, all versions: whole evaluations, and every part alone on the reference's recorded input.
   Items of a batch have timesteps and texts of their own in the fixtures, so that they are run one by one. */
#ifndef GOLDEN_STDIT_H
#define GOLDEN_STDIT_H
#include "golden_t5.h"

static inline bool golden_is_stdit(const golden_folder *folder) {
    return folder->golden && (diti_starts_with(folder->name, "stdit") || diti_starts_with(folder->name, "opensora_"));
}

typedef struct golden_stdit_case {
    golden_case base;
    diti_stdit *model;
} golden_stdit_case;

/* A recorded number, of the item where there is one for each. */
static inline float golden_stdit_number(golden_stdit_case *c, const char *rest, float otherwise) {
    char name[96];
    uint64_t count;
    float *values = golden_floats(c->base.m.folder->golden, golden_case_name(&c->base, rest, name), &count);
    float number = values ? values[count > c->base.item ? c->base.item : 0] : otherwise;
    free(values);
    return number;
}

/* Latent, text with its length, timestep, sizes, and which frames are given: those have the row behind the only step's.
 */
static inline void golden_stdit_inputs(golden_stdit_case *c) {
    const diti_stdit_config *config = &c->model->config;
    diti_step_desc *d = &c->base.step;
    uint32_t pixels = d->frames * d->height * d->width, i;
    uint32_t *item = (uint32_t *)calloc(DITI_ITEM_WORDS, sizeof *item);
    float *mask = golden_case_rows(&c->base, "in.mask", 1, d->text_tokens);
    golden_mask_lengths(c->base.m.g, mask, 1, d->text_tokens, &item[3]);
    free(mask);
    c->base.timestep = golden_stdit_number(c, "in.timestep", 0);
    d->pixels[0] = (uint32_t)golden_stdit_number(c, "in.height", (float)(8 * d->height));
    d->pixels[1] = (uint32_t)golden_stdit_number(c, "in.width", (float)(8 * d->width));
    d->clip_frames = (uint32_t)golden_stdit_number(c, "in.num_frames", 0);
    d->fps = golden_stdit_number(c, "in.fps", 0);
    c->model->config.time_scale = (double)golden_stdit_number(c, "in.time_scale", 1);
    d->latent = golden_give(&c->base.m, DITI_F32, config->channels, pixels,
                            golden_case_rows(&c->base, "in.x", config->channels, pixels));
    d->text = golden_give(&c->base.m, DITI_F32, d->text_tokens, config->caption,
                          golden_case_rows(&c->base, "in.y", d->text_tokens, config->caption));
    d->text_items = golden_give(&c->base.m, DITI_U32, 1, DITI_ITEM_WORDS, item);
    d->row = golden_give_u32(&c->base.m, 0);
    if (golden_case_has(&c->base, "in.x_mask")) {
        float *kept = golden_case_rows(&c->base, "in.x_mask", 1, d->frames);
        uint32_t *steps = (uint32_t *)calloc(d->frames, sizeof *steps);
        for (i = 0; i < d->frames; i++) steps[i] = kept[i] > 0 ? 0 : 1;
        d->frame_steps = golden_give(&c->base.m, DITI_U32, 1, d->frames, steps);
        free(kept);
    }
}

/* Stretches of the prepared modulation: of the timestep, and of timestep 0 where frames are given. */
static inline void golden_stdit_modulation(golden_stdit_case *c) {
    static const char *const names[2][2] = {{"mid.t_block", "mid.t_block@1"},
                                            {"mid.t_block_temp", "mid.t_block_temp@1"}};
    const diti_stdit_state *state = (const diti_stdit_state *)c->base.step.family;
    uint32_t width = c->model->config.width, i, row;
    for (i = 0; i < 2; i++)
        for (row = 0; row < 2; row++)
            if (golden_case_has(&c->base, names[i][row]))
                golden_case_expect(&c->base, names[i][row],
                                   diti_tensor_view(&c->base.m.graph, state->modulation, row, 1,
                                                    i ? DITI_STDIT_TIME * width : 0, (i ? 3 : 6) * width),
                                   GOLDEN_BLOCK);
}

/* The input of a block: the output of the one before it, or the embedding, recorded before positions are added. */
static inline diti_tensor golden_stdit_recorded(golden_stdit_case *c, uint32_t block) {
    uint32_t rows = c->base.step.token_range.rows, width = c->model->config.width, i;
    uint32_t positions = rows / c->base.step.frames;
    char rest[64];
    float *x, *table;
    diti_format(rest, sizeof rest,
                c->model->config.version == DITI_STDIT_3 ? "mid.temporal_blocks.%u" : "mid.blocks.%u", block - 1);
    if (block) return golden_case_recorded(&c->base, rest, rows, width);
    x = golden_case_rows(&c->base, "mid.x_embedder", rows, width);
    table = golden_item(&c->base.m, golden_case_name(&c->base, "mid.pos_embed", rest), 0, positions, width);
    for (i = 0; i < rows * width; i++) x[i] += table[i % (positions * width)];
    free(table);
    return golden_copy(&c->base.m, golden_give(&c->base.m, DITI_F32, rows, width, x));
}

static inline void golden_stdit_parts(golden_stdit_case *c) {
    diti_graph *graph = &c->base.m.graph;
    const diti_transformer *model = &c->model->base;
    diti_step_desc *d = &c->base.step;
    diti_tensor x;
    char rest[64];
    uint32_t i;
    for (i = 0; i < c->model->config.blocks; i++) {
        x = golden_stdit_recorded(c, i);
        diti_transformer_block(model, graph, d, i, x);
        diti_format(rest, sizeof rest,
                    c->model->config.version == DITI_STDIT_3 ? "mid.temporal_blocks.%u" : "mid.blocks.%u", i);
        golden_case_expect(&c->base, rest, x, GOLDEN_BLOCK);
    }
    x = diti_transformer_final(model, graph, d, golden_stdit_recorded(c, i));
    golden_case_expect(&c->base, "mid.final_layer", x, GOLDEN_BLOCK);
}

static inline bool golden_run_stdit_case(golden *g, const golden_folder *folder, const diti_transformer *model,
                                         uint32_t index) {
    golden_stdit_case c;
    uint32_t item, items = 1;
    for (item = 0; item < items; item++) {
        diti_step_desc *d = &c.base.step;
        memset(&c, 0, sizeof c);
        c.model = (diti_stdit *)(uintptr_t)diti_stdit_of(model);
        c.base.index = index;
        c.base.item = item;
        d->variance = true;
        if (!golden_case_clip(&c.base, folder, "in.x", "in.y", 2, &items)) return false;
        golden_graph_begin(&c.base.m, g, folder);
        golden_stdit_inputs(&c);
        diti_transformer_prepare(model, &c.base.m.graph, d);
        golden_stdit_modulation(&c);
        diti_graph_segment(&c.base.m.graph, "step", true);
        diti_transformer_begin(model, &c.base.m.graph, d);
        golden_stdit_parts(&c);
        golden_case_expect(&c.base, "out", diti_transformer_step(model, &c.base.m.graph, d), GOLDEN_MODEL);
        golden_case_run(&c.base, model);
    }
    return true;
}

static inline void golden_run_stdit(golden *g, const golden_folder *folder) {
    golden_run_transformer(g, folder, NULL, golden_run_stdit_case);
}
#endif
