/* PixArt transformers: whole evaluations, and every part alone on the reference's recorded input. Items of a batch have
   timesteps, masks and sizes of their own in the fixtures, so that they are run one by one; batches are
   tests/model.c's. */
#ifndef GOLDEN_PIXART_H
#define GOLDEN_PIXART_H
#include "golden_t5.h"

static inline bool golden_is_pixart(const golden_folder *folder) {
    return folder->golden && diti_checkpoint_find(folder->golden, "case0.in.encoder_hidden_states") &&
           (diti_starts_with(folder->name, "pixart") ||
            diti_equal(diti_json_string(folder->config, "_class_name", ""), "PixArtTransformer2DModel"));
}

typedef struct golden_pixart_case {
    golden_graph m;
    const diti_pixart *model;
    diti_denoise denoise;
    diti_pixart_step step;
    uint32_t index, item, batch;
    float timestep;
} golden_pixart_case;

static inline const char *golden_pixart_name(const golden_pixart_case *c, const char *rest, char *out) {
    diti_format(out, 96, "case%u.%s", c->index, rest);
    return out;
}

/* The item's rows of a recorded tensor. */
static inline float *golden_pixart_rows(golden_pixart_case *c, const char *rest, uint32_t rows, uint32_t columns) {
    char name[96];
    return golden_item(&c->m, golden_pixart_name(c, rest, name), c->item, rows, columns);
}

static inline void golden_pixart_expect(golden_pixart_case *c, const char *rest, diti_tensor tensor, double fp32) {
    char name[96], label[96];
    uint32_t rows = 1, columns = 1;
    if (!diti_graph_failed(&c->m.graph))
        rows = diti_tensor_get(&c->m.graph, tensor)->rows, columns = diti_tensor_get(&c->m.graph, tensor)->columns;
    diti_format(label, sizeof label, "%s [%u]", golden_pixart_name(c, rest, name), c->item);
    golden_expect(&c->m, label, tensor, golden_pixart_rows(c, rest, rows, columns), fp32);
}

/* Text, its length, the timestep and the latent of the item. */
static inline void golden_pixart_inputs(golden_pixart_case *c) {
    const diti_pixart_config *config = &c->model->config;
    diti_denoise *d = &c->denoise;
    uint32_t *item = (uint32_t *)calloc(DITI_ITEM_WORDS, sizeof *item);
    float *mask = golden_pixart_rows(c, "in.encoder_attention_mask", 1, d->text_tokens);
    float *time = golden_pixart_rows(c, "in.timestep", 1, 1);
    golden_mask_lengths(c->m.g, mask, 1, d->text_tokens, &item[3]);
    c->timestep = time[0];
    free(mask);
    free(time);
    d->latent = golden_give(&c->m, DITI_F32, config->channels, d->height * d->width,
                            golden_pixart_rows(c, "in.hidden_states", config->channels, d->height * d->width));
    d->text = golden_give(&c->m, DITI_F32, d->text_tokens, config->caption,
                          golden_pixart_rows(c, "in.encoder_hidden_states", d->text_tokens, config->caption));
    d->text_items = golden_give(&c->m, DITI_U32, 1, DITI_ITEM_WORDS, item);
    d->step = golden_give_u32(&c->m, 0);
    if (config->sized) {
        float *size = golden_pixart_rows(c, "in.resolution", 1, 2),
              *aspect = golden_pixart_rows(c, "in.aspect_ratio", 1, 1);
        d->resolution[0] = size[0];
        d->resolution[1] = size[1];
        d->aspect = aspect[0];
        free(size);
        free(aspect);
    }
}

/* [D] of the reference, six times or once, against the prepared table. */
static inline void golden_pixart_modulation(golden_pixart_case *c) {
    const diti_pixart_state *state = (const diti_pixart_state *)c->denoise.family;
    diti_tensor view = diti_tensor_view(&c->m.graph, state->modulation, 0, 1, 0, 6 * c->model->config.width);
    golden_pixart_expect(c, "mid.adaln_single.0", view, GOLDEN_BLOCK);
}

static inline diti_tensor golden_pixart_recorded(golden_pixart_case *c, uint32_t block) {
    uint32_t width = c->model->config.width;
    char rest[64];
    diti_format(rest, sizeof rest, block ? "mid.transformer_blocks.%u" : "mid.pos_embed", block - 1);
    return golden_copy(
        &c->m, golden_give(&c->m, DITI_F32, c->step.tokens, width, golden_pixart_rows(c, rest, c->step.tokens, width)));
}

static inline void golden_pixart_parts(golden_pixart_case *c) {
    diti_graph *graph = &c->m.graph;
    diti_tensor x;
    char rest[64];
    uint32_t i;
    golden_pixart_expect(c, "mid.pos_embed", diti_pixart_patches(graph, &c->step), GOLDEN_BLOCK);
    for (i = 0; i < c->model->config.blocks; i++) {
        x = golden_pixart_recorded(c, i);
        diti_pixart_run_block(graph, &c->step, i, x);
        diti_format(rest, sizeof rest, "mid.transformer_blocks.%u", i);
        golden_pixart_expect(c, rest, x, GOLDEN_BLOCK);
    }
    x = diti_pixart_final(graph, &c->step, golden_pixart_recorded(c, i));
    golden_pixart_expect(c, "mid.proj_out", x, GOLDEN_BLOCK);
}

/* The predicted channels are the first of the recorded ones; the rest is sigma, which pipelines drop. */
static inline void golden_pixart_whole(golden_pixart_case *c) {
    const diti_pixart_config *config = &c->model->config;
    uint32_t pixels = c->denoise.height * c->denoise.width;
    diti_tensor out = c->model->base.family->step(&c->model->base, &c->m.graph, &c->denoise);
    char label[96], name[96];
    float *all = golden_pixart_rows(c, "out", config->out_channels, pixels);
    diti_format(label, sizeof label, "%s [%u]", golden_pixart_name(c, "out", name), c->item);
    golden_expect(&c->m, label, out, all, GOLDEN_MODEL);
}

static inline void golden_run_pixart_item(golden *g, const golden_folder *folder, golden_pixart_case *c) {
    const diti_family *family = c->model->base.family;
    dit_error err = DITI_ZERO;
    dit_result result;
    golden_graph_begin(&c->m, g, folder);
    golden_pixart_inputs(c);
    family->prepare(&c->model->base, &c->m.graph, &c->denoise);
    golden_pixart_modulation(c);
    diti_graph_segment(&c->m.graph, "step", true);
    diti_pixart_begin_step(c->model, &c->m.graph, &c->denoise, &c->step);
    golden_pixart_parts(c);
    golden_pixart_whole(c);
    result = golden_graph_create(&c->m, &err);
    if (result == DIT_OK) result = family->write_inputs(&c->model->base, c->m.plan, &c->denoise, &c->timestep, &err);
    if (golden_require(g, result == DIT_OK, "case%u [%u] is planned %s", c->index, c->item, err.message))
        golden_graph_run(&c->m);
    golden_graph_end(&c->m);
    diti_free(&g->env, c->denoise.family);
}

static inline bool golden_run_pixart_case(golden *g, const golden_folder *folder, const diti_pixart *model,
                                          uint32_t index) {
    golden_pixart_case c;
    const diti_stored_tensor *latent, *text;
    uint32_t item, items = 1;
    char name[96];
    for (item = 0; item < items; item++) {
        memset(&c, 0, sizeof c);
        c.model = model;
        c.index = index;
        c.item = item;
        latent = diti_checkpoint_find(folder->golden, golden_pixart_name(&c, "in.hidden_states", name));
        text = diti_checkpoint_find(folder->golden, golden_pixart_name(&c, "in.encoder_hidden_states", name));
        if (!latent || !text || latent->rank != 4 || text->rank != 3) return false;
        items = (uint32_t)latent->shape[0];
        c.denoise.batch = c.denoise.copies = c.denoise.steps = c.denoise.text_batch = 1;
        c.denoise.height = (uint32_t)latent->shape[2];
        c.denoise.width = (uint32_t)latent->shape[3];
        c.denoise.text_tokens = (uint32_t)text->shape[1];
        golden_run_pixart_item(g, folder, &c);
    }
    return true;
}

static inline void golden_run_pixart(golden *g, const golden_folder *folder) {
    /* The original format does not say for which size the model was trained. */
    diti_json *instead = golden_config(g, folder, "{\"sample_size\": 16, \"interpolation_scale\": 2}");
    const diti_json *config = folder->config ? folder->config : instead;
    diti_checkpoint *weights = golden_open_weights(g, folder);
    diti_transformer *model = NULL;
    dit_error err = DITI_ZERO;
    uint32_t i = 0;
    if (golden_require(g, weights != NULL, "weights can be opened") && golden_open_device(g) &&
        golden_require(
            g, diti_transformer_load(golden_shared.device, &g->env, config, weights, "", NULL, &model, &err) == DIT_OK,
            "loads %s", err.message)) {
        while (golden_run_pixart_case(g, folder, (const diti_pixart *)(const void *)model, i)) i++;
        golden_require(g, i > 0, "no case");
    }
    diti_transformer_destroy(model);
    diti_checkpoint_close(weights);
    diti_json_free(&g->env, instead);
}
#endif
