/* DiT transformers, original and diffusers: whole evaluations, and every part alone on the reference's recorded input.
   Items of a batch have timesteps of their own in the fixtures, so that they are run one by one, but for the case that
   the original's guidance was recorded with. */
#ifndef GOLDEN_DIT_H
#define GOLDEN_DIT_H
#include "golden_model.h"

static inline bool golden_is_dit(const golden_folder *folder) {
    return folder->golden && diti_starts_with(folder->name, "dit_") &&
           (diti_checkpoint_find(folder->golden, "case0.in.class_labels") ||
            diti_checkpoint_find(folder->golden, "case0.in.y"));
}

typedef struct golden_dit_case {
    golden_case base;
    const diti_dit *model;
    bool original;
} golden_dit_case;

/* How the folder's code base calls it. */
static inline const char *golden_dit_name(const golden_dit_case *c, const char *diffusers, const char *original) {
    return c->original ? original : diffusers;
}

/* Labels in the order of the branches: the last recorded one first, where a case has both in one evaluation. */
static inline void golden_dit_inputs(golden_dit_case *c) {
    diti_step_desc *d = &c->base.step;
    uint32_t i, count = d->text_batch, *labels = (uint32_t *)calloc(count, sizeof *labels);
    float *recorded = golden_case_rows(&c->base, golden_dit_name(c, "in.class_labels", "in.y"), 1, count);
    float *time = golden_case_rows(&c->base, golden_dit_name(c, "in.timestep", "in.t"), 1, 1);
    uint32_t channels = c->model->config.channels, pixels = d->height * d->width;
    float *latent = golden_case_rows(&c->base, golden_dit_name(c, "in.hidden_states", "in.x"), channels, pixels);
    for (i = 0; i < count; i++) labels[i] = (uint32_t)recorded[count - 1 - i];
    c->base.timestep = time[0];
    free(recorded);
    free(time);
    d->latent = golden_give(&c->base.m, DITI_F32, channels, pixels, latent);
    d->labels = golden_give(&c->base.m, DITI_U32, 1, count, labels);
    d->row = golden_give_u32(&c->base.m, 0);
}

/* The output of block `block` - 1; the original's embedding is recorded before the positions are added. */
static inline bool golden_dit_recorded(golden_dit_case *c, uint32_t block, diti_tensor *x) {
    char rest[64];
    diti_format(rest, sizeof rest, "%s", golden_dit_name(c, "mid.pos_embed", "none"));
    if (block)
        diti_format(rest, sizeof rest, golden_dit_name(c, "mid.transformer_blocks.%u", "mid.blocks.%u"), block - 1);
    if (!golden_case_has(&c->base, rest)) return false;
    *x = golden_case_recorded(&c->base, rest, c->base.step.token_range.rows, c->model->config.width);
    return true;
}

static inline void golden_dit_parts(golden_dit_case *c) {
    diti_graph *graph = &c->base.m.graph;
    const diti_dit_config *config = &c->model->config;
    diti_step_desc *d = &c->base.step;
    const diti_transformer *model = &c->model->base;
    diti_tensor x = diti_transformer_embed(model, graph, d);
    char rest[64];
    uint32_t i;
    if (!c->original) golden_case_expect(&c->base, "mid.pos_embed", x, GOLDEN_BLOCK);
    if (golden_case_has(&c->base, "mid.blocks.0.adaLN_modulation"))
        golden_case_expect(&c->base, "mid.blocks.0.adaLN_modulation",
                           diti_adaln_get(graph, &diti_dit_state_of(d)->adaln, 0), GOLDEN_BLOCK);
    for (i = 0; i < config->blocks; i++) {
        if (!golden_dit_recorded(c, i, &x)) continue;
        diti_transformer_block(model, graph, d, i, x);
        diti_format(rest, sizeof rest, golden_dit_name(c, "mid.transformer_blocks.%u", "mid.blocks.%u"), i);
        golden_case_expect(&c->base, rest, x, GOLDEN_BLOCK);
    }
    if (golden_dit_recorded(c, i, &x) &&
        golden_case_has(&c->base, golden_dit_name(c, "mid.proj_out_2", "mid.final_layer"))) {
        golden_case_expect(&c->base, golden_dit_name(c, "mid.proj_out_2", "mid.final_layer"),
                           diti_transformer_final(model, graph, d, x), GOLDEN_BLOCK);
    }
}

/* Both branches in one evaluation, guided as the original's forward_with_cfg: channels 0 to 2; the others are each
   branch's own. */
static inline void golden_dit_guided(golden_dit_case *c, diti_tensor out) {
    diti_graph *graph = &c->base.m.graph;
    uint32_t channels = c->model->config.out_channels, pixels = c->base.step.height * c->base.step.width, half;
    uint32_t guided = c->model->base.traits.guided_channels;
    float *all = golden_case_rows(&c->base, "out", 2 * channels, pixels);
    float *scale = golden_case_rows(&c->base, "in.cfg_scale", 1, 1);
    diti_tensor u = diti_tensor_view(graph, out, 0, guided, 0, pixels),
                d = diti_tensor_view(graph, out, channels, guided, 0, pixels);
    diti_elementwise_desc mix = DITI_ZERO;
    mix.out_f32 = true;
    mix.scale = 1 - scale[0];
    u = diti_elementwise(graph, u, &mix);
    mix.scale = scale[0];
    mix.add = u;
    d = diti_elementwise(graph, d, &mix); /* s c + (1 - s) u */
    golden_expect(
        &c->base.m, "case1.out, guided channels", d,
        (float *)memcpy(calloc((size_t)guided * pixels, sizeof(float)), all, (size_t)guided * pixels * sizeof(float)),
        GOLDEN_MODEL);
    for (half = 0; half < 2; half++) { /* recorded are the conditional, then the unconditional branch */
        size_t count = (size_t)(channels - guided) * pixels;
        float *rest = (float *)calloc(count, sizeof(float));
        memcpy(rest, all + ((size_t)half * channels + guided) * pixels, count * sizeof(float));
        golden_expect(&c->base.m, half ? "case1.out, others, unconditional" : "case1.out, others, conditional",
                      diti_tensor_view(graph, out, (1 - half) * channels + guided, channels - guided, 0, pixels), rest,
                      GOLDEN_MODEL);
    }
    free(scale);
    free(all);
}

static inline void golden_run_dit_item(golden *g, const golden_folder *folder, golden_dit_case *c, bool guided) {
    golden_graph_begin(&c->base.m, g, folder);
    c->base.step.variance = true;
    golden_dit_inputs(c);
    diti_transformer_prepare(&c->model->base, &c->base.m.graph, &c->base.step);
    diti_graph_segment(&c->base.m.graph, "step", true);
    diti_transformer_begin(&c->model->base, &c->base.m.graph, &c->base.step);
    if (guided) {
        golden_dit_guided(c, diti_transformer_step(&c->model->base, &c->base.m.graph, &c->base.step));
    } else {
        golden_dit_parts(c);
        golden_case_expect(&c->base, "out", diti_transformer_step(&c->model->base, &c->base.m.graph, &c->base.step),
                           GOLDEN_MODEL);
    }
    golden_case_run(&c->base, &c->model->base);
}

static inline bool golden_run_dit_case(golden *g, const golden_folder *folder, const diti_transformer *model,
                                       uint32_t index) {
    golden_dit_case c;
    const diti_stored_tensor *latent;
    uint32_t item, items = 1;
    char name[96];
    for (item = 0; item < items; item++) {
        bool guided;
        memset(&c, 0, sizeof c);
        c.model = diti_dit_of(model);
        c.original = c.model->config.original;
        c.base.index = index;
        c.base.item = item;
        latent = diti_checkpoint_find(folder->golden,
                                      golden_case_name(&c.base, golden_dit_name(&c, "in.hidden_states", "in.x"), name));
        if (!latent || latent->rank != 4) return false;
        guided = diti_checkpoint_find(folder->golden, golden_case_name(&c.base, "in.cfg_scale", name)) != NULL;
        items = guided ? 1 : (uint32_t)latent->shape[0];
        c.base.step.batch = c.base.step.steps = 1;
        c.base.step.branches = c.base.step.text_batch = guided ? 2 : 1;
        c.base.step.height = (uint32_t)latent->shape[2];
        c.base.step.width = (uint32_t)latent->shape[3];
        golden_run_dit_item(g, folder, &c, guided);
    }
    return true;
}

static inline void golden_run_dit(golden *g, const golden_folder *folder) {
    golden_run_transformer(g, folder, NULL, golden_run_dit_case);
}
#endif
