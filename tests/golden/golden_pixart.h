/* PixArt transformers: whole evaluations, and every part alone on the reference's recorded input. Items of a batch have
   timesteps, masks and sizes of their own in the fixtures, so that they are run one by one; batches are
   tests/model/model.c's. */
#ifndef GOLDEN_PIXART_H
#define GOLDEN_PIXART_H
#include "golden_originals.h"
#include "golden_t5.h"

static inline bool golden_is_pixart(const golden_folder *folder) {
    return folder->golden && diti_checkpoint_find(folder->golden, "case0.in.encoder_hidden_states") &&
           (diti_starts_with(folder->name, "pixart") ||
            diti_equal(diti_json_string(folder->config, "_class_name", ""), "PixArtTransformer2DModel"));
}

typedef struct golden_pixart_case {
    golden_case base;
    const diti_pixart *model;
    float micro[3];
} golden_pixart_case;

/* Text, its length, the timestep and the latent of the item. */
static inline void golden_pixart_inputs(golden_pixart_case *c) {
    const diti_pixart_config *config = &c->model->config;
    diti_step_desc *d = &c->base.step;
    uint32_t *item = (uint32_t *)calloc(DITI_ITEM_WORDS, sizeof *item);
    float *mask = golden_case_rows(&c->base, "in.encoder_attention_mask", 1, d->text_tokens);
    float *time = golden_case_rows(&c->base, "in.timestep", 1, 1);
    golden_mask_lengths(c->base.m.g, mask, 1, d->text_tokens, &item[3]);
    c->base.timestep = time[0];
    free(mask);
    free(time);
    d->latent = golden_give(&c->base.m, DITI_F32, config->channels, d->height * d->width,
                            golden_case_rows(&c->base, "in.hidden_states", config->channels, d->height * d->width));
    d->text = golden_give(&c->base.m, DITI_F32, d->text_tokens, config->caption,
                          golden_case_rows(&c->base, "in.encoder_hidden_states", d->text_tokens, config->caption));
    d->text_items = golden_give(&c->base.m, DITI_U32, 1, DITI_ITEM_WORDS, item);
    d->row = golden_give_u32(&c->base.m, 0);
    if (config->sized) {
        float *size = golden_case_rows(&c->base, "in.resolution", 1, 2),
              *aspect = golden_case_rows(&c->base, "in.aspect_ratio", 1, 1);
        memcpy(c->micro, size, 2 * sizeof *size);
        c->micro[2] = aspect[0];
        d->micro = c->micro;
        free(size);
        free(aspect);
    }
}

/* Compares the prepared table of modulation, 6 D values, with the recorded one. */
static inline void golden_pixart_modulation(golden_pixart_case *c) {
    const diti_pixart_state *state = (const diti_pixart_state *)c->base.step.family;
    diti_tensor view = diti_tensor_view(&c->base.m.graph, state->modulation, 0, 1, 0, 6 * c->model->config.width);
    golden_case_expect(&c->base, "mid.adaln_single.0", view, GOLDEN_BLOCK);
}

static inline diti_tensor golden_pixart_recorded(golden_pixart_case *c, uint32_t block) {
    uint32_t width = c->model->config.width;
    char rest[64];
    diti_format(rest, sizeof rest, block ? "mid.transformer_blocks.%u" : "mid.pos_embed", block - 1);
    return golden_case_recorded(&c->base, rest, c->base.step.token_range.rows, width);
}

static inline void golden_pixart_parts(golden_pixart_case *c) {
    diti_graph *graph = &c->base.m.graph;
    const diti_transformer *model = &c->model->base;
    diti_step_desc *d = &c->base.step;
    diti_tensor x;
    char rest[64];
    uint32_t i;
    golden_case_expect(&c->base, "mid.pos_embed", diti_transformer_embed(model, graph, d), GOLDEN_BLOCK);
    for (i = 0; i < c->model->config.blocks; i++) {
        x = golden_pixart_recorded(c, i);
        diti_transformer_block(model, graph, d, i, x);
        diti_format(rest, sizeof rest, "mid.transformer_blocks.%u", i);
        golden_case_expect(&c->base, rest, x, GOLDEN_BLOCK);
    }
    x = diti_transformer_final(model, graph, d, golden_pixart_recorded(c, i));
    golden_case_expect(&c->base, "mid.proj_out", x, GOLDEN_BLOCK);
}

/* The predicted channels are the first of the recorded ones; the rest is sigma, which pipelines drop. */
static inline void golden_pixart_whole(golden_pixart_case *c) {
    const diti_pixart_config *config = &c->model->config;
    uint32_t pixels = c->base.step.height * c->base.step.width;
    diti_tensor out = diti_transformer_step(&c->model->base, &c->base.m.graph, &c->base.step);
    char label[96], name[96];
    float *all = golden_case_rows(&c->base, "out", config->out_channels, pixels);
    diti_format(label, sizeof label, "%s [%u]", golden_case_name(&c->base, "out", name), c->base.item);
    golden_expect(&c->base.m, label, out, all, GOLDEN_MODEL);
}

static inline void golden_run_pixart_item(golden *g, const golden_folder *folder, golden_pixart_case *c) {
    golden_graph_begin(&c->base.m, g, folder);
    golden_pixart_inputs(c);
    diti_transformer_prepare(&c->model->base, &c->base.m.graph, &c->base.step);
    golden_pixart_modulation(c);
    diti_graph_segment(&c->base.m.graph, "step", true);
    diti_transformer_begin(&c->model->base, &c->base.m.graph, &c->base.step);
    golden_pixart_parts(c);
    golden_pixart_whole(c);
    golden_case_run(&c->base, &c->model->base);
}

static inline bool golden_run_pixart_case(golden *g, const golden_folder *folder, const diti_transformer *model,
                                          uint32_t index) {
    golden_pixart_case c;
    const diti_stored_tensor *latent, *text;
    uint32_t item, items = 1;
    char name[96];
    for (item = 0; item < items; item++) {
        memset(&c, 0, sizeof c);
        c.model = diti_pixart_of(model);
        c.base.index = index;
        c.base.item = item;
        latent = diti_checkpoint_find(folder->golden, golden_case_name(&c.base, "in.hidden_states", name));
        text = diti_checkpoint_find(folder->golden, golden_case_name(&c.base, "in.encoder_hidden_states", name));
        if (!latent || !text || latent->rank != 4 || text->rank != 3) return false;
        items = (uint32_t)latent->shape[0];
        c.base.step.batch = c.base.step.branches = c.base.step.steps = c.base.step.text_batch = 1;
        c.base.step.height = (uint32_t)latent->shape[2];
        c.base.step.width = (uint32_t)latent->shape[3];
        c.base.step.text_tokens = (uint32_t)text->shape[1];
        golden_run_pixart_item(g, folder, &c);
    }
    return true;
}

/* Originals that keep their table, where no configuration says anything; 1 / 0.5 is more than a right angle. */
static inline void golden_pixart_table(golden *g, const golden_folder *folder) {
    static const float interpolations[] = {2, 0.5f};
    char path[1024];
    size_t i;
    golden_join(path, sizeof path, folder->path, "model.safetensors");
    for (i = 0; i < DITI_COUNT(interpolations); i++) {
        diti_transformer *model = NULL;
        diti_checkpoint *open = NULL;
        dit_error err = DITI_ZERO;
        bytes plain, file;
        dit_source source;
        plain.data = (unsigned char *)test_read_file(path, &plain.size);
        file = golden_original_table(&plain, 64, 144, interpolations[i]);
        source = memory_source(&file);
        if (golden_require(
                g,
                diti_checkpoint_open(&g->env, &source, &open, &err) == DIT_OK &&
                    diti_transformer_load(golden_shared.device, &g->env, NULL, open, "", NULL, &model, &err) == DIT_OK,
                "an original with a table %s", err.message))
            golden_check(g,
                         diti_pixart_of(model)->config.interpolation == interpolations[i] &&
                             diti_pixart_of(model)->config.sample_size == 16,
                         "positions of an original are divided by %g", (double)interpolations[i]);
        diti_transformer_destroy(model);
        diti_checkpoint_close(open);
        bytes_free(&file);
        free(plain.data);
    }
}

static inline void golden_run_pixart(golden *g, const golden_folder *folder) {
    /* The original format does not say for which size the model was trained. */
    golden_run_transformer(g, folder, "{\"sample_size\": 16, \"interpolation_scale\": 2}", golden_run_pixart_case);
    if (!folder->config) golden_pixart_table(g, folder);
}
#endif
