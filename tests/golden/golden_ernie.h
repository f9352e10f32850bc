/* ERNIE-Image's transformer, or Kandinsky 5's, on recorded inputs: every block, and whole evaluations of each sample
   alone, then of both as branches with texts of unequal length. */
#ifndef GOLDEN_ERNIE_H
#define GOLDEN_ERNIE_H
#include "golden_model.h"

static inline bool golden_is_ernie(const golden_folder *folder) {
    return folder->golden && diti_checkpoint_find(folder->golden, "case0.in.text_bth");
}

typedef struct golden_ernie {
    golden_case base;
    uint32_t samples, mode; /* mode: alone, as one of two branches, as the last of them without the first */
    uint32_t lengths[2], firsts[2], tokens, most; /* most: rows that the longest text has */
} golden_ernie;
enum { GOLDEN_ERNIE_ALONE, GOLDEN_ERNIE_BRANCH, GOLDEN_ERNIE_LAST, GOLDEN_ERNIE_MODES };

static inline float *golden_ernie_floats(golden_ernie *c, const char *rest) {
    char name[96];
    uint64_t count;
    return golden_floats(c->base.m.folder->golden, golden_case_name(&c->base, rest, name), &count);
}

static inline uint32_t golden_ernie_pixels(const diti_step_desc *d) {
    return (d->frames ? d->frames : 1) * d->height * d->width;
}

static inline void golden_ernie_inputs(golden_ernie *c, const diti_transformer *model) {
    diti_step_desc *d = &c->base.step;
    uint32_t columns = model->traits.text_columns, channels = model->traits.latent_channels, i, first, pixels;
    float *times = golden_ernie_floats(c, "in.timestep"), *lengths = golden_ernie_floats(c, "in.text_lens"), *own;
    char name[96];
    first = c->mode == GOLDEN_ERNIE_ALONE ? c->base.item : 0;
    pixels = golden_ernie_pixels(d);
    c->base.timestep = times[c->base.item];
    d->batch = d->steps = 1;
    d->branches = d->text_batch = c->mode == GOLDEN_ERNIE_ALONE ? 1 : 2;
    d->first_branch = c->mode == GOLDEN_ERNIE_LAST;
    for (i = 0; i < d->text_batch; i++) {
        c->lengths[i] = (uint32_t)lengths[first + i];
        c->firsts[i] = i * c->most;
        if (c->lengths[i] > d->text_tokens) d->text_tokens = c->lengths[i];
    }
    d->text_lengths = c->lengths;
    d->text_firsts = c->firsts;
    own = golden_ernie_floats(c, "in.text_bth");
    memmove(own, own + (size_t)first * c->most * columns, (size_t)d->text_batch * c->most * columns * sizeof *own);
    d->text = golden_give(&c->base.m, DITI_F32, d->text_batch * c->most, columns, own);
    golden_case_name(&c->base, "in.hidden_states", name);
    d->latent = golden_give(&c->base.m, DITI_F32, channels, pixels,
                            golden_item(&c->base.m, name, c->base.item, channels, pixels));
    if (model->traits.pooled_columns) {
        own = golden_ernie_floats(c, "in.pooled");
        memmove(own, own + (size_t)first * model->traits.pooled_columns,
                (size_t)d->text_batch * model->traits.pooled_columns * sizeof *own);
        d->pooled = golden_give(&c->base.m, DITI_F32, d->text_batch, model->traits.pooled_columns, own);
    }
    d->row = golden_give_u32(&c->base.m, 0);
    free(times);
    free(lengths);
}

/* The sample's recorded rows, of the image, then of the text, in the order in which dit.h has them. */
static inline float *golden_ernie_rows(golden_ernie *c, const char *name, const diti_transformer *model) {
    uint32_t pixels = c->base.step.token_range.rows, own = c->lengths[0], width = model->traits.width;
    uint32_t texts = model->traits.joint ? c->most : 0;
    float *all = golden_item(&c->base.m, name, c->base.item, pixels + texts, width), *out;
    if (!texts) return all;
    out = (float *)malloc((size_t)(own + pixels) * width * sizeof *out);
    memcpy(out, all + (size_t)pixels * width, (size_t)own * width * sizeof *out);
    memcpy(out + (size_t)own * width, all, (size_t)pixels * width * sizeof *out);
    free(all);
    return out;
}

/* Each block on what is recorded of the one before it. */
static inline void golden_ernie_parts(golden_ernie *c, const diti_transformer *model) {
    diti_graph *graph = &c->base.m.graph;
    uint32_t width = model->traits.width, i;
    char rest[64], name[96];
    diti_tensor x;
    diti_transformer_begin(model, graph, &c->base.step);
    x = diti_transformer_embed(model, graph, &c->base.step);
    for (i = 0; i < model->traits.layers; i++) {
        x = diti_transformer_block(model, graph, &c->base.step, i, x);
        diti_format(rest, sizeof rest, "mid.layers.%u", (unsigned)i);
        golden_case_name(&c->base, rest, name);
        golden_expect(&c->base.m, name, x, golden_ernie_rows(c, name, model), GOLDEN_BLOCK);
        x = golden_copy(&c->base.m, golden_give(&c->base.m, DITI_F32, diti_tensor_rows(graph, x), width,
                                                golden_ernie_rows(c, name, model)));
    }
}

static inline void golden_ernie_run(golden *g, const golden_folder *folder, golden_ernie *c,
                                    const diti_transformer *model) {
    static const char *const modes[] = {"", ", as a branch", ", as the last branch alone"};
    diti_step_desc *d = &c->base.step;
    const diti_stored_tensor *latent, *text;
    uint32_t channels = model->traits.latent_channels, pixels;
    char name[96], label[160];
    diti_tensor out;
    golden_graph_begin(&c->base.m, g, folder);
    latent = diti_checkpoint_find(folder->golden, golden_case_name(&c->base, "in.hidden_states", name));
    text = diti_checkpoint_find(folder->golden, golden_case_name(&c->base, "in.text_bth", name));
    d->frames = latent->rank > 4 ? (uint32_t)latent->shape[2] : 0;
    d->height = (uint32_t)latent->shape[latent->rank - 2];
    d->width = (uint32_t)latent->shape[latent->rank - 1];
    c->most = (uint32_t)text->shape[1];
    pixels = golden_ernie_pixels(d);
    golden_ernie_inputs(c, model);
    diti_transformer_prepare(model, &c->base.m.graph, d);
    diti_graph_segment(&c->base.m.graph, "step", true);
    if (c->mode == GOLDEN_ERNIE_ALONE && !diti_graph_failed(&c->base.m.graph)) golden_ernie_parts(c, model);
    out = diti_transformer_step(model, &c->base.m.graph, d);
    golden_case_name(&c->base, "out", name);
    diti_format(label, sizeof label, "%s [%u]%s", name, (unsigned)c->base.item, modes[c->mode]);
    golden_expect(&c->base.m, label,
                  diti_tensor_view(&c->base.m.graph, out, c->mode == GOLDEN_ERNIE_BRANCH ? c->base.item * channels : 0,
                                   channels, 0, pixels),
                  golden_item(&c->base.m, name, c->base.item, channels, pixels), GOLDEN_MODEL);
    golden_case_run(&c->base, model);
}

static inline bool golden_run_ernie_case(golden *g, const golden_folder *folder, const diti_transformer *model,
                                         uint32_t index) {
    const diti_stored_tensor *text;
    char name[64];
    uint32_t item, mode, samples;
    diti_format(name, sizeof name, "case%u.in.text_bth", (unsigned)index);
    text = diti_checkpoint_find(folder->golden, name);
    samples = text ? (uint32_t)text->shape[0] : 0;
    for (item = 0; item < samples; item++) {
        for (mode = 0; mode < GOLDEN_ERNIE_MODES; mode++) {
            golden_ernie c = DITI_ZERO;
            c.base.index = index;
            c.base.item = item;
            c.mode = mode;
            if (mode != GOLDEN_ERNIE_ALONE && samples < 2) continue;
            if (mode == GOLDEN_ERNIE_LAST && item + 1 < samples) continue;
            golden_ernie_run(g, folder, &c, model);
        }
    }
    return samples > 0;
}

static inline void golden_run_ernie(golden *g, const golden_folder *folder) {
    diti_checkpoint *weights =
        golden_open_checkpoint(&g->env, folder->path, "transformer/diffusion_pytorch_model.safetensors");
    diti_json *json = golden_open_json(&g->env, folder->path, "transformer/config.json");
    if (golden_require(g, weights && json, "the transformer's files") && golden_open_device(g)) {
        VkDeviceSize band = golden_shared.device->limits.band;
        golden_run_cases(g, folder, json, weights, golden_run_ernie_case);
        golden_shared.device->limits.band = 4096; /* pictures too large for a piece of memory, in miniature */
        golden_run_cases(g, folder, json, weights, golden_run_ernie_case);
        golden_shared.device->limits.band = band;
    }
    diti_checkpoint_close(weights);
    diti_json_free(&g->env, json);
}
#endif
