/* Sana, Sana-Sprint and Lumina-Image 2: the text, blocks, and whole evaluations, each sample alone and then with the
   other one as two branches, whose texts are of unequal length. */
#ifndef GOLDEN_SANA_H
#define GOLDEN_SANA_H
#include "golden_originals.h"
#include "golden_zimage.h"

typedef struct golden_sana {
    golden_case base;
    uint32_t mode, samples; /* mode: one of GOLDEN_ZIMAGE_MODES */
    uint32_t lengths[2], firsts[2];
} golden_sana;

static inline bool golden_is_class(const golden_folder *folder, const char *name) {
    return folder->golden && folder->config && diti_equal(diti_json_string(folder->config, "_class_name", ""), name);
}

static inline bool golden_is_sana(const golden_folder *folder) {
    return golden_is_class(folder, "SanaTransformer2DModel");
}

static inline bool golden_is_lumina2(const golden_folder *folder) {
    return golden_is_class(folder, "Lumina2Transformer2DModel");
}

/* The first `rows` rows of an item of a recorded tensor [items, at least rows, columns]; NULL: it is not recorded. */
static inline float *golden_sana_rows(golden_sana *c, const char *rest, uint32_t item, uint32_t rows,
                                      uint32_t columns) {
    const diti_stored_tensor *stored;
    char name[96];
    uint64_t count;
    float *all, *out;
    stored = diti_checkpoint_find(c->base.m.folder->golden, golden_case_name(&c->base, rest, name));
    if (!stored) return NULL;
    all = golden_floats(c->base.m.folder->golden, name, &count);
    out = (float *)calloc((size_t)rows * columns, sizeof *out);
    count /= stored->shape[0];
    if (golden_require(c->base.m.g, count >= (uint64_t)rows * columns, "%s has [%u, %u]", name, rows, columns))
        memcpy(out, all + item * count, (size_t)rows * columns * sizeof *out);
    free(all);
    return out;
}

static inline float golden_sana_number(golden_sana *c, const char *rest) {
    float *all = golden_sana_rows(c, rest, c->base.item, 1, 1), value = all ? all[0] : 0;
    free(all);
    return value;
}

/* Texts of the samples that the evaluation has, each in its place, and the tokens that their masks keep. */
static inline void golden_sana_text(golden_sana *c, uint32_t columns, bool exact) {
    const diti_stored_tensor *text;
    diti_step_desc *d = &c->base.step;
    uint32_t first = c->mode == GOLDEN_ZIMAGE_ALONE ? c->base.item : 0, i, tokens, longest = 0;
    uint32_t *items = (uint32_t *)calloc((size_t)d->branches * DITI_ITEM_WORDS, sizeof *items);
    float *all;
    char name[96];
    text = diti_checkpoint_find(c->base.m.folder->golden, golden_case_name(&c->base, "in.encoder_hidden_states", name));
    tokens = (uint32_t)text->shape[1];
    all = (float *)calloc((size_t)d->branches * tokens * columns, sizeof *all);
    for (i = 0; i < d->branches; i++) {
        float *own = golden_sana_rows(c, "in.encoder_hidden_states", first + i, tokens, columns);
        float *mask = golden_sana_rows(c, "in.encoder_attention_mask", first + i, 1, tokens);
        golden_mask_lengths(c->base.m.g, mask, 1, tokens, &c->lengths[i]);
        memcpy(all + (size_t)i * tokens * columns, own, (size_t)tokens * columns * sizeof *all);
        c->firsts[i] = items[i * DITI_ITEM_WORDS + 2] = i * tokens;
        items[i * DITI_ITEM_WORDS + 3] = c->lengths[i];
        if (c->lengths[i] > longest) longest = c->lengths[i];
        free(own);
        free(mask);
    }
    d->text_tokens = exact ? longest : tokens;
    d->text_lengths = c->lengths;
    d->text_firsts = c->firsts;
    d->text = golden_give(&c->base.m, DITI_F32, d->branches * tokens, columns, all);
    d->text_items = golden_give(&c->base.m, DITI_U32, d->branches, DITI_ITEM_WORDS, items);
}

static inline void golden_sana_inputs(golden_sana *c, const diti_transformer *model, bool exact) {
    diti_step_desc *d = &c->base.step;
    uint32_t channels = model->traits.latent_channels;
    d->batch = d->steps = 1;
    d->branches = d->text_batch = c->mode == GOLDEN_ZIMAGE_ALONE ? 1 : 2;
    d->first_branch = c->mode == GOLDEN_ZIMAGE_LAST;
    golden_sana_text(c, model->traits.text_columns, exact);
    d->latent = golden_give(&c->base.m, DITI_F32, channels, d->height * d->width,
                            golden_sana_rows(c, "in.hidden_states", c->base.item, channels, d->height * d->width));
    d->row = golden_give_u32(&c->base.m, 0);
}

/* The whole evaluation's output of the sample, times sign. */
static inline void golden_sana_whole(golden_sana *c, const diti_transformer *model, float sign) {
    static const char *const modes[] = {"", ", as a branch", ", as the last branch alone"};
    diti_step_desc *d = &c->base.step;
    uint32_t channels = model->traits.latent_channels, pixels = d->height * d->width, i,
             place = c->mode == GOLDEN_ZIMAGE_BRANCH ? c->base.item : 0;
    diti_tensor out = diti_transformer_step(model, &c->base.m.graph, d);
    float *reference = golden_sana_rows(c, "out", c->base.item, channels, pixels);
    char name[96], label[128];
    for (i = 0; i < channels * pixels; i++) reference[i] *= sign;
    diti_format(label, sizeof label, "%s [%u]%s", golden_case_name(&c->base, "out", name), (unsigned)c->base.item,
                modes[c->mode]);
    golden_expect(&c->base.m, label, diti_tensor_view(&c->base.m.graph, out, place * channels, channels, 0, pixels),
                  reference, GOLDEN_MODEL);
}

/* Modulation, caption, and each block on what is recorded of the one before it. */
static inline void golden_sana_parts(golden_sana *c, const diti_transformer *model) {
    diti_step_desc *d = &c->base.step;
    diti_graph *graph = &c->base.m.graph;
    const diti_sana_state *state = diti_sana_state_of(d);
    uint32_t width = model->traits.width, i;
    diti_tensor x;
    char rest[64];
    diti_transformer_begin(model, graph, d);
    golden_case_expect(&c->base, "mid.time_embed.0", diti_tensor_view(graph, state->modulation, 0, 1, 0, 6 * width),
                       GOLDEN_BLOCK);
    golden_case_expect(&c->base, "mid.caption_norm", state->caption, GOLDEN_BLOCK);
    x = diti_transformer_embed(model, graph, d);
    for (i = 0; i < model->traits.layers; i++) {
        x = diti_transformer_block(model, graph, d, i, x);
        diti_format(rest, sizeof rest, "mid.transformer_blocks.%u", (unsigned)i);
        golden_case_expect(&c->base, rest, x, GOLDEN_BLOCK);
        x = golden_case_recorded(&c->base, rest, d->token_range.rows, width);
    }
}

static inline void golden_sana_run(golden *g, const golden_folder *folder, golden_sana *c,
                                   const diti_transformer *model) {
    golden_graph_begin(&c->base.m, g, folder);
    golden_sana_inputs(c, model, false);
    c->base.timestep = golden_sana_number(c, "in.timestep");
    c->base.step.guidance = golden_sana_number(c, "in.guidance") / diti_sana_of(model)->config.guidance_scale;
    diti_transformer_prepare(model, &c->base.m.graph, &c->base.step);
    diti_graph_segment(&c->base.m.graph, "step", true);
    if (c->mode == GOLDEN_ZIMAGE_ALONE && !diti_graph_failed(&c->base.m.graph)) golden_sana_parts(c, model);
    golden_sana_whole(c, model, 1);
    golden_case_run(&c->base, model);
}

/* Expects the rows of x from `first` on to be the first recorded ones. */
static inline void golden_lumina2_expect(golden_sana *c, const char *rest, diti_tensor x, uint32_t first, uint32_t rows,
                                         uint32_t width) {
    float *reference = golden_sana_rows(c, rest, c->base.item, rows, width);
    char label[96];
    diti_format(label, sizeof label, "case%u.%s [%u]", (unsigned)c->base.index, rest, (unsigned)c->base.item);
    if (reference)
        golden_expect(&c->base.m, label, diti_tensor_view(&c->base.m.graph, x, first, rows, 0, width), reference,
                      GOLDEN_BLOCK);
}

static inline void golden_lumina2_parts(golden_sana *c, const diti_transformer *model) {
    const diti_lumina2_config *config = &diti_lumina2_of(model)->config;
    diti_step_desc *d = &c->base.step;
    diti_graph *graph = &c->base.m.graph;
    uint32_t width = config->width, image, i;
    char rest[64];
    diti_tensor x;
    diti_transformer_begin(model, graph, d);
    image = d->token_range.all;
    diti_format(rest, sizeof rest, "mid.context_refiner.%u", (unsigned)config->refiners - 1);
    golden_lumina2_expect(c, rest, diti_lumina2_state_of(d)->text, 0, d->text_tokens, width);
    x = diti_transformer_embed(model, graph, d);
    for (i = 0; i < model->traits.layers; i++) {
        bool both = i >= config->refiners;
        x = diti_transformer_block(model, graph, d, i, x);
        diti_format(rest, sizeof rest, both ? "mid.layers.%u" : "mid.noise_refiner.%u",
                    (unsigned)(both ? i - config->refiners : i));
        golden_lumina2_expect(c, rest, x, both ? 0 : d->text_tokens, both ? d->text_tokens + image : image, width);
        if (both)
            x = golden_copy(&c->base.m,
                            golden_give(&c->base.m, DITI_F32, d->text_tokens + image, width,
                                        golden_sana_rows(c, rest, c->base.item, d->text_tokens + image, width)));
    }
}

static inline void golden_lumina2_run(golden *g, const golden_folder *folder, golden_sana *c,
                                      const diti_transformer *model) {
    golden_graph_begin(&c->base.m, g, folder);
    golden_sana_inputs(c, model, true);
    c->base.timestep = 1000 - 1000 * golden_sana_number(c, "in.timestep");
    diti_transformer_prepare(model, &c->base.m.graph, &c->base.step);
    diti_graph_segment(&c->base.m.graph, "step", true);
    if (c->mode == GOLDEN_ZIMAGE_ALONE && !diti_graph_failed(&c->base.m.graph)) golden_lumina2_parts(c, model);
    golden_sana_whole(c, model, -1);
    golden_case_run(&c->base, model);
}

/* Every sample of a case in every mode. */
static inline bool
golden_run_samples(golden *g, const golden_folder *folder, const diti_transformer *model, uint32_t index,
                   void (*run)(golden *, const golden_folder *, golden_sana *, const diti_transformer *)) {
    golden_sana c;
    uint32_t item, mode, samples = 1;
    for (item = 0; item < samples; item++) {
        for (mode = 0; mode < GOLDEN_ZIMAGE_MODES; mode++) {
            const diti_stored_tensor *latent;
            char name[96];
            memset(&c, 0, sizeof c);
            c.base.m.folder = folder;
            c.base.index = index;
            c.base.item = item;
            c.mode = mode;
            latent = diti_checkpoint_find(folder->golden, golden_case_name(&c.base, "in.hidden_states", name));
            if (!latent) return false;
            samples = (uint32_t)latent->shape[0];
            c.base.step.height = (uint32_t)latent->shape[2];
            c.base.step.width = (uint32_t)latent->shape[3];
            if (mode != GOLDEN_ZIMAGE_ALONE && samples < 2) continue;
            if (mode == GOLDEN_ZIMAGE_LAST && item + 1 < samples) continue;
            run(g, folder, &c, model);
        }
    }
    return true;
}

static inline bool golden_run_sana_case(golden *g, const golden_folder *folder, const diti_transformer *model,
                                        uint32_t index) {
    return golden_run_samples(g, folder, model, index, golden_sana_run);
}

static inline bool golden_run_lumina2_case(golden *g, const golden_folder *folder, const diti_transformer *model,
                                           uint32_t index) {
    return golden_run_samples(g, folder, model, index, golden_lumina2_run);
}

/* An original file with a table of positions of 4 x 4 places, and without a word about them elsewhere. */
static inline void golden_sana_table(golden *g, const diti_checkpoint *weights, float interpolation) {
    static const char sizes[] = "{\"attention_head_dim\": 16, \"cross_attention_head_dim\": 32}";
    static const golden_original to = {NULL, "", golden_sana_names, DITI_COUNT(golden_sana_names), NULL, false};
    bytes plain = golden_original_file(g, weights, &to);
    bytes file = golden_original_table(&plain, 16, 64, interpolation);
    dit_source source = memory_source(&file);
    diti_transformer *model = NULL;
    diti_checkpoint *open = NULL;
    diti_json *config = NULL;
    dit_error err = DITI_ZERO;
    if (golden_require(g,
                       diti_checkpoint_open(&g->env, &source, &open, &err) == DIT_OK &&
                           diti_json_parse(&g->env, sizes, sizeof sizes - 1, "config.json", &config, &err) == DIT_OK &&
                           diti_transformer_load(golden_shared.device, &g->env, config, open, "", NULL, &model, &err) ==
                               DIT_OK,
                       "an original with a table %s", err.message))
        golden_check(g,
                     diti_sana_of(model)->config.interpolation == interpolation &&
                         diti_sana_of(model)->config.sample_size == 4,
                     "positions of an original are divided by %g", (double)interpolation);
    diti_transformer_destroy(model);
    diti_checkpoint_close(open);
    diti_json_free(&g->env, config);
    bytes_free(&plain);
    bytes_free(&file);
}

static inline void golden_run_sana(golden *g, const golden_folder *folder) {
    diti_checkpoint *weights = golden_open_weights(g, folder);
    golden_run_cases(g, folder, folder->config, weights, golden_run_sana_case);
    golden_run_original(g, folder, folder->config, weights, golden_run_sana_case);
    golden_sana_table(g, weights, 1);
    golden_sana_table(g, weights, 2);
    diti_checkpoint_close(weights);
}

static inline void golden_run_lumina2(golden *g, const golden_folder *folder) {
    diti_checkpoint *weights = golden_open_weights(g, folder);
    golden_run_cases(g, folder, folder->config, weights, golden_run_lumina2_case);
    golden_run_original(g, folder, folder->config, weights, golden_run_lumina2_case);
    diti_checkpoint_close(weights);
}
#endif
