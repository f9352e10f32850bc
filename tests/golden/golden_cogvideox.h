/* CogVideoX's transformers: whole evaluations, and every block alone on the reference's recorded input. Items of a
   batch have timesteps and texts of their own in the fixtures, so that they are run one by one. */
#ifndef GOLDEN_COGVIDEOX_H
#define GOLDEN_COGVIDEOX_H
#include "golden_model.h"

static inline bool golden_is_cogvideox(const golden_folder *folder) {
    return folder->golden &&
           diti_equal(diti_json_string(folder->config, "_class_name", ""), "CogVideoXTransformer3DModel");
}

typedef struct golden_cogvideox_case {
    golden_case base;
    const diti_cogvideox *model;
} golden_cogvideox_case;

/* Channels [first, first + count) of a recorded [frames, channels, pixels] as planes [count, frames * pixels]; those of
   a condition stand behind the latent's own. */
static inline float *golden_cogvideox_planes(golden_cogvideox_case *c, const char *rest, uint32_t channels,
                                             uint32_t first, uint32_t count) {
    const diti_step_desc *d = &c->base.step;
    uint32_t pixels = d->height * d->width, f, k;
    float *all = golden_case_rows(&c->base, rest, d->frames * channels, pixels);
    float *out = (float *)malloc((size_t)count * d->frames * pixels * sizeof *out);
    for (f = 0; f < d->frames; f++)
        for (k = 0; k < count; k++)
            memcpy(out + ((size_t)k * d->frames + f) * pixels, all + ((size_t)f * channels + first + k) * pixels,
                   pixels * sizeof *out);
    free(all);
    return out;
}

static inline void golden_cogvideox_inputs(golden_cogvideox_case *c) {
    const diti_cogvideox_config *config = &c->model->config;
    diti_step_desc *d = &c->base.step;
    uint32_t plane = d->frames * d->height * d->width, own = config->out_channels, all = config->channels;
    uint32_t more = all - own;
    float *time = golden_case_rows(&c->base, "in.timestep", 1, 1);
    c->base.timestep = time[0];
    free(time);
    d->latent =
        golden_give(&c->base.m, DITI_F32, own, plane, golden_cogvideox_planes(c, "in.hidden_states", all, 0, own));
    if (more)
        d->condition = golden_give(&c->base.m, DITI_F32, more, plane,
                                   golden_cogvideox_planes(c, "in.hidden_states", all, own, more));
    d->text = golden_give(&c->base.m, DITI_F32, d->text_tokens, config->text,
                          golden_case_rows(&c->base, "in.encoder_hidden_states", d->text_tokens, config->text));
    d->row = golden_give_u32(&c->base.m, 0);
}

/* The result of block `block`: its text's rows, then its video's. */
static inline float *golden_cogvideox_recorded(golden_cogvideox_case *c, uint32_t block) {
    uint32_t texts = c->base.step.text_tokens, rows = c->base.step.token_range.rows, i;
    size_t width = c->model->config.width;
    float *out = (float *)malloc((texts + rows) * width * sizeof *out);
    for (i = 0; i < 2; i++) {
        uint32_t count = i ? rows : texts;
        char rest[64];
        float *part;
        diti_format(rest, sizeof rest, "mid.transformer_blocks.%u.%u", block, 1 - i);
        part = golden_case_rows(&c->base, rest, count, (uint32_t)width);
        memcpy(out + (i ? texts : 0) * width, part, count * width * sizeof *out);
        free(part);
    }
    return out;
}

static inline void golden_cogvideox_parts(golden_cogvideox_case *c) {
    diti_graph *graph = &c->base.m.graph;
    const diti_transformer *model = &c->model->base;
    diti_step_desc *d = &c->base.step;
    uint32_t i, rows = d->text_tokens + d->token_range.rows, width = c->model->config.width;
    diti_tensor x;
    char label[96];
    golden_case_expect(&c->base, "mid.patch_embed", diti_transformer_embed(model, graph, d), GOLDEN_BLOCK);
    x = golden_case_recorded(&c->base, "mid.patch_embed", rows, width);
    for (i = 0; i < c->model->config.blocks; i++) {
        diti_transformer_block(model, graph, d, i, x);
        diti_format(label, sizeof label, "case%u.block %u [%u]", c->base.index, i, c->base.item);
        golden_expect(&c->base.m, label, x, golden_cogvideox_recorded(c, i), GOLDEN_BLOCK);
        x = golden_copy(&c->base.m, golden_give(&c->base.m, DITI_F32, rows, width, golden_cogvideox_recorded(c, i)));
    }
    golden_case_expect(&c->base, "mid.proj_out", diti_transformer_final(model, graph, d, x), GOLDEN_BLOCK);
}

static inline void golden_cogvideox_whole(golden_cogvideox_case *c) {
    uint32_t channels = c->model->config.out_channels;
    diti_tensor out = diti_transformer_step(&c->model->base, &c->base.m.graph, &c->base.step);
    char label[96], name[96];
    diti_format(label, sizeof label, "%s [%u]", golden_case_name(&c->base, "out", name), c->base.item);
    golden_expect(&c->base.m, label, out, golden_cogvideox_planes(c, "out", channels, 0, channels), GOLDEN_MODEL);
}

static inline bool golden_run_cogvideox_case(golden *g, const golden_folder *folder, const diti_transformer *model,
                                             uint32_t index) {
    golden_cogvideox_case c;
    uint32_t item, items = 1;
    for (item = 0; item < items; item++) {
        diti_step_desc *d = &c.base.step;
        memset(&c, 0, sizeof c);
        c.model = diti_cogvideox_of(model);
        c.base.index = index;
        c.base.item = item;
        if (!golden_case_clip(&c.base, folder, "in.hidden_states", "in.encoder_hidden_states", 1, &items)) return false;
        golden_graph_begin(&c.base.m, g, folder);
        golden_cogvideox_inputs(&c);
        diti_transformer_prepare(model, &c.base.m.graph, d);
        diti_graph_segment(&c.base.m.graph, "step", true);
        diti_transformer_begin(model, &c.base.m.graph, d);
        golden_cogvideox_parts(&c);
        golden_cogvideox_whole(&c);
        golden_case_run(&c.base, model);
    }
    return true;
}

static inline void golden_run_cogvideox(golden *g, const golden_folder *folder) {
    golden_run_transformer(g, folder, NULL, golden_run_cogvideox_case);
}
#endif
