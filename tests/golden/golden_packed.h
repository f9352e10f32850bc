/* Transformers whose fixtures record latents as tokens, FLUX.2 and Qwen-Image: each block on what is recorded of the
   one before it, and whole evaluations, item by item. */
#ifndef GOLDEN_PACKED_H
#define GOLDEN_PACKED_H
#include "golden_model.h"

static inline bool golden_is_packed(const golden_folder *folder) {
    return folder->golden && diti_checkpoint_find(folder->golden, "case0.in.hidden_states") &&
           (diti_checkpoint_find(folder->golden, "case0.in.img_ids") ||
            diti_checkpoint_find(folder->golden, "case0.in.img_shape"));
}

/* The grid of tokens, from the largest coordinates or from the recorded shape. */
static inline void golden_packed_grid(golden_case *c, uint32_t *height, uint32_t *width) {
    char name[96];
    uint64_t count = 0, i;
    const diti_stored_tensor *ids = diti_checkpoint_find(c->m.folder->golden, golden_case_name(c, "in.img_ids", name));
    float *values =
        golden_floats(c->m.folder->golden, golden_case_name(c, ids ? "in.img_ids" : "in.img_shape", name), &count);
    *height = *width = 1;
    for (i = 0; ids && i + 3 < count; i += 4) {
        if (values[i + 1] + 1 > (float)*height) *height = (uint32_t)values[i + 1] + 1;
        if (values[i + 2] + 1 > (float)*width) *width = (uint32_t)values[i + 2] + 1;
    }
    if (!ids && count >= 3) *height = (uint32_t)values[1], *width = (uint32_t)values[2];
    free(values);
}

/* Tokens of patches of side x side, columns (c, dy, dx), become planes. */
static inline float *golden_packed_planes(float *tokens, uint32_t channels, uint32_t height, uint32_t width,
                                          uint32_t side) {
    uint32_t count = channels * height * width * side * side, i, lines = height * side, line = width * side;
    float *planes = (float *)calloc(count, sizeof *planes);
    for (i = 0; i < count; i++) {
        uint32_t plane = i / (lines * line), y = i / line % lines, x = i % line;
        planes[i] = tokens[((size_t)(y / side) * width + x / side) * channels * side * side + plane * side * side +
                           y % side * side + x % side];
    }
    free(tokens);
    return planes;
}

/* A recorded residual stream of the item, text, then image; NULL: none is recorded. */
static inline float *golden_packed_block(golden_case *c, const diti_transformer *model, uint32_t index) {
    uint32_t doubles = model->traits.layers - model->traits.single_layers, width = model->traits.width;
    uint32_t text = c->step.text_tokens, image = c->step.token_range.all;
    char rest[96];
    float *all, *parts[2];
    uint32_t i, rows[2];
    rows[0] = text;
    rows[1] = image;
    if (index >= doubles) {
        diti_format(rest, sizeof rest, "mid.single_transformer_blocks.%u", index - doubles);
        return golden_case_has(c, rest) ? golden_case_rows(c, rest, text + image, width) : NULL;
    }
    all = (float *)calloc((size_t)(text + image) * width, sizeof *all);
    for (i = 0; i < 2; i++) {
        diti_format(rest, sizeof rest, "mid.transformer_blocks.%u.%u", index, i);
        if (!golden_case_has(c, rest)) break;
        parts[i] = golden_case_rows(c, rest, rows[i], width);
        memcpy(all + (size_t)(i ? text : 0) * width, parts[i], (size_t)rows[i] * width * sizeof *all);
        free(parts[i]);
    }
    if (i == 2) return all;
    free(all);
    return NULL;
}

static inline void golden_packed_parts(golden_case *c, const diti_transformer *model) {
    diti_graph *graph = &c->m.graph;
    diti_tensor x;
    uint32_t i, rows;
    char name[96];
    diti_transformer_begin(model, graph, &c->step);
    rows = c->step.text_tokens + c->step.token_range.all;
    x = diti_transformer_embed(model, graph, &c->step);
    for (i = 0; i < model->traits.layers; i++) {
        float *reference = golden_packed_block(c, model, i);
        x = diti_transformer_block(model, graph, &c->step, i, x);
        if (!reference) continue;
        diti_format(name, sizeof name, "case%u block %u [%u]", c->index, i, c->item);
        golden_expect(&c->m, name, x, reference, GOLDEN_BLOCK);
        x = golden_copy(&c->m,
                        golden_give(&c->m, DITI_F32, rows, model->traits.width, golden_packed_block(c, model, i)));
    }
}

static inline bool golden_run_packed_case(golden *g, const golden_folder *folder, const diti_transformer *model,
                                          uint32_t index) {
    uint32_t item, items = 1, height, width, side = model->traits.patch, channels = model->traits.latent_channels;
    for (item = 0; item < items; item++) {
        const diti_stored_tensor *image, *text;
        golden_case c;
        diti_step_desc *d = &c.step;
        float *value, guidance = 0;
        char name[96];
        diti_tensor out;
        memset(&c, 0, sizeof c);
        c.index = index;
        c.item = item;
        image = diti_checkpoint_find(folder->golden, golden_case_name(&c, "in.hidden_states", name));
        text = diti_checkpoint_find(folder->golden, golden_case_name(&c, "in.encoder_hidden_states", name));
        if (!image || !text) return false;
        items = (uint32_t)image->shape[0];
        golden_graph_begin(&c.m, g, folder);
        golden_packed_grid(&c, &height, &width);
        value = golden_case_rows(&c, "in.timestep", 1, 1);
        c.timestep = 1000 * value[0];
        free(value);
        if (model->traits.wants_guidance) {
            value = golden_case_rows(&c, "in.guidance", 1, 1);
            guidance = value[0];
            free(value);
        }
        d->batch = d->branches = d->text_batch = d->steps = 1;
        d->height = height * side;
        d->width = width * side;
        d->guidance = guidance;
        d->text_tokens = (uint32_t)text->shape[1];
        d->text =
            golden_give(&c.m, DITI_F32, d->text_tokens, model->traits.text_columns,
                        golden_case_rows(&c, "in.encoder_hidden_states", d->text_tokens, model->traits.text_columns));
        d->latent = golden_give(
            &c.m, DITI_F32, channels, d->height * d->width,
            golden_packed_planes(golden_case_rows(&c, "in.hidden_states", height * width, channels * side * side),
                                 channels, height, width, side));
        d->row = golden_give_u32(&c.m, 0);
        diti_transformer_prepare(model, &c.m.graph, d);
        diti_graph_segment(&c.m.graph, "step", true);
        if (!diti_graph_failed(&c.m.graph)) golden_packed_parts(&c, model);
        out = diti_transformer_step(model, &c.m.graph, d);
        diti_format(name, sizeof name, "case%u.out [%u]", index, item);
        golden_expect(&c.m, name, out,
                      golden_packed_planes(golden_case_rows(&c, "out", height * width, channels * side * side),
                                           channels, height, width, side),
                      GOLDEN_MODEL);
        golden_case_run(&c, model);
    }
    return true;
}

static inline void golden_run_packed(golden *g, const golden_folder *folder) {
    golden_run_transformer(g, folder, NULL, golden_run_packed_case);
}
#endif
