/* Z-Image transformers: the refined text, blocks, and whole evaluations, each sample alone and then both as branches
   with texts of unequal length. A folder may have several files of weights, whose outputs begin with the file's kind.
 */
#ifndef GOLDEN_ZIMAGE_H
#define GOLDEN_ZIMAGE_H
#include "golden_model.h"

typedef struct golden_zimage {
    golden_case base;
    const char *kind;       /* in front of the output's name */
    uint32_t samples, mode; /* mode: alone, as one of two branches, as the last of them without the first */
    uint32_t rows[2];       /* tokens of each text */
} golden_zimage;
enum { GOLDEN_ZIMAGE_ALONE, GOLDEN_ZIMAGE_BRANCH, GOLDEN_ZIMAGE_LAST, GOLDEN_ZIMAGE_MODES };

static inline bool golden_is_zimage(const golden_folder *folder) {
    return folder->golden && diti_checkpoint_find(folder->golden, "case0.in.cap_feats0") != NULL;
}

static inline const diti_stored_tensor *golden_zimage_find(golden_zimage *c, const char *rest, uint32_t sample) {
    char name[96];
    diti_format(name, sizeof name, "case%u.%s%u", c->base.index, rest, sample);
    return diti_checkpoint_find(c->base.m.folder->golden, name);
}

static inline float *golden_zimage_floats(golden_zimage *c, const char *rest, uint32_t sample) {
    char name[96];
    uint64_t count;
    diti_format(name, sizeof name, "case%u.%s%u", c->base.index, rest, sample);
    return golden_floats(c->base.m.folder->golden, name, &count);
}

/* Every text of `used` samples from `first` on in rows of its own, one behind the other, and one that nothing reads. */
static inline void golden_zimage_text(golden_zimage *c, uint32_t first, uint32_t used, uint32_t columns,
                                      uint32_t *lengths, uint32_t *firsts) {
    uint32_t rows = 1, i;
    float *all;
    for (i = 0; i < used; i++) {
        lengths[i] = c->rows[first + i];
        firsts[i] = rows;
        rows += lengths[i];
        if (c->base.step.text_tokens < (lengths[i] + 31) / 32 * 32)
            c->base.step.text_tokens = (lengths[i] + 31) / 32 * 32;
    }
    all = (float *)calloc((size_t)rows * columns, sizeof *all);
    for (i = 0; i < used; i++) {
        float *own = golden_zimage_floats(c, "in.cap_feats", first + i);
        memcpy(all + (size_t)firsts[i] * columns, own, (size_t)lengths[i] * columns * sizeof *all);
        free(own);
    }
    c->base.step.text_lengths = lengths;
    c->base.step.text_firsts = firsts;
    c->base.step.text = golden_give(&c->base.m, DITI_F32, rows, columns, all);
}

static inline void golden_zimage_inputs(golden_zimage *c, const diti_transformer *model, uint32_t *lengths,
                                        uint32_t *firsts) {
    diti_step_desc *d = &c->base.step;
    const diti_stored_tensor *latent = golden_zimage_find(c, "in.x", c->base.item);
    uint32_t channels = model->traits.latent_channels;
    bool both = c->mode != GOLDEN_ZIMAGE_ALONE;
    char name[96];
    uint64_t count;
    float *times = golden_floats(c->base.m.folder->golden, golden_case_name(&c->base, "in.t", name), &count);
    c->base.timestep = 1000 - 1000 * times[c->base.item];
    free(times);
    d->height = (uint32_t)latent->shape[2];
    d->width = (uint32_t)latent->shape[3];
    d->batch = d->steps = 1;
    d->branches = d->text_batch = both ? 2 : 1;
    d->first_branch = c->mode == GOLDEN_ZIMAGE_LAST;
    golden_zimage_text(c, both ? 0 : c->base.item, d->branches, model->traits.text_columns, lengths, firsts);
    d->latent = golden_give(&c->base.m, DITI_F32, channels, d->height * d->width,
                            golden_zimage_floats(c, "in.x", c->base.item));
    d->row = golden_give_u32(&c->base.m, 0);
}

/* The item's recorded rows, tokens of the image, what fills it, then the text, in the order in which dit.h has them;
   NULL: none are recorded. */
static inline float *golden_zimage_rows(golden_zimage *c, const char *rest, bool text, uint32_t width) {
    const diti_step_desc *d = &c->base.step;
    uint32_t tokens = d->height / 2 * (d->width / 2), image = tokens + d->lead, own = text ? d->text_tokens : 0;
    const diti_stored_tensor *stored;
    uint64_t count;
    char name[96];
    float *all, *from, *out;
    stored = diti_checkpoint_find(c->base.m.folder->golden, golden_case_name(&c->base, rest, name));
    if (!stored) return NULL;
    all = golden_floats(c->base.m.folder->golden, name, &count);
    from = all + (size_t)c->base.item * stored->shape[1] * width;
    out = (float *)calloc((size_t)(own + image) * width, sizeof *out);
    memcpy(out, from + (size_t)image * width, (size_t)own * width * sizeof *out);
    memcpy(out + (size_t)own * width, from + (size_t)tokens * width, (size_t)d->lead * width * sizeof *out);
    memcpy(out + (size_t)(own + d->lead) * width, from, (size_t)tokens * width * sizeof *out);
    free(all);
    return out;
}

/* Each block on what is recorded of the one before it, as far as anything is. */
static inline void golden_zimage_parts(golden_zimage *c, const diti_transformer *model) {
    const diti_zimage_config *config = &diti_zimage_of(model)->config;
    diti_step_desc *d = &c->base.step;
    diti_graph *graph = &c->base.m.graph;
    uint32_t width = config->width, image, i;
    char name[96];
    float *reference;
    diti_tensor x;
    diti_transformer_begin(model, graph, d);
    image = d->token_range.all;
    diti_format(name, sizeof name, "mid.context_refiner.%u", config->refiners - 1);
    if (golden_case_has(&c->base, name)) {
        uint64_t count;
        const diti_stored_tensor *stored;
        float *all;
        char full[96];
        stored = diti_checkpoint_find(c->base.m.folder->golden, golden_case_name(&c->base, name, full));
        all = golden_floats(c->base.m.folder->golden, full, &count);
        reference = (float *)calloc((size_t)d->text_tokens * width, sizeof *reference);
        memcpy(reference, all + (size_t)c->base.item * stored->shape[1] * width,
               (size_t)d->text_tokens * width * sizeof *reference);
        free(all);
        golden_expect(&c->base.m, name, diti_zimage_state_of(d)->text, reference, GOLDEN_BLOCK);
    }
    x = diti_transformer_embed(model, graph, d);
    for (i = 0; i < model->traits.layers; i++) {
        bool text = i >= config->refiners;
        x = diti_transformer_block(model, graph, d, i, x);
        diti_format(name, sizeof name, text ? "mid.layers.%u" : "mid.noise_refiner.%u",
                    text ? i - config->refiners : i);
        reference = golden_zimage_rows(c, name, text, width);
        if (!reference) continue;
        golden_expect(
            &c->base.m, name,
            diti_tensor_view(graph, x, text ? 0 : d->text_tokens, (text ? d->text_tokens : 0) + image, 0, width),
            reference, GOLDEN_BLOCK);
        if (text)
            x = golden_copy(&c->base.m, golden_give(&c->base.m, DITI_F32, d->text_tokens + image, width,
                                                    golden_zimage_rows(c, name, text, width)));
    }
}

static inline void golden_zimage_run(golden *g, const golden_folder *folder, golden_zimage *c,
                                     const diti_transformer *model) {
    static const char *const modes[] = {"", ", as a branch", ", as the last branch alone"};
    diti_step_desc *d = &c->base.step;
    uint32_t lengths[2], firsts[2], pixels, i, place, channels = model->traits.latent_channels;
    char name[96], label[96];
    float *reference;
    diti_tensor out;
    golden_graph_begin(&c->base.m, g, folder);
    golden_zimage_inputs(c, model, lengths, firsts);
    diti_transformer_prepare(model, &c->base.m.graph, d);
    diti_graph_segment(&c->base.m.graph, "step", true);
    if (c->mode == GOLDEN_ZIMAGE_ALONE && !diti_graph_failed(&c->base.m.graph)) golden_zimage_parts(c, model);
    out = diti_transformer_step(model, &c->base.m.graph, d);
    pixels = d->height * d->width;
    place = c->mode == GOLDEN_ZIMAGE_BRANCH ? c->base.item : 0;
    diti_format(name, sizeof name, "%scase%u.out%u", c->kind, c->base.index, c->base.item);
    reference = golden_item(&c->base.m, name, 0, channels, pixels);
    for (i = 0; i < channels * pixels; i++) reference[i] = -reference[i]; /* the pipeline's next step */
    diti_format(label, sizeof label, "%s%s", name, modes[c->mode]);
    golden_expect(&c->base.m, label, diti_tensor_view(&c->base.m.graph, out, place * channels, channels, 0, pixels),
                  reference, GOLDEN_MODEL);
    golden_case_run(&c->base, model);
}

static const char *golden_zimage_kind = "";

static inline bool golden_run_zimage_case(golden *g, const golden_folder *folder, const diti_transformer *model,
                                          uint32_t index) {
    golden_zimage c;
    uint32_t item, mode, samples = 1;
    for (item = 0; item < samples; item++) {
        for (mode = 0; mode < GOLDEN_ZIMAGE_MODES; mode++) {
            const diti_stored_tensor *text;
            memset(&c, 0, sizeof c);
            c.base.m.folder = folder;
            c.base.index = index;
            c.base.item = item;
            c.mode = mode;
            c.kind = golden_zimage_kind;
            for (samples = 0; samples < 2 && (text = golden_zimage_find(&c, "in.cap_feats", samples)) != NULL;)
                c.rows[samples++] = (uint32_t)text->shape[0];
            if (!samples) return false;
            if (mode != GOLDEN_ZIMAGE_ALONE && samples < 2) continue;
            if (mode == GOLDEN_ZIMAGE_LAST && item + 1 < samples) continue;
            golden_zimage_run(g, folder, &c, model);
        }
    }
    return true;
}

static inline void golden_run_zimage(golden *g, const golden_folder *folder) {
    static const char *const files[][2] = {{"z_image_turbo_bf16.safetensors", "bf16."},
                                           {"z_image-Q8_0.gguf", "q8_0."},
                                           {"z_image_sdcpp-Q4_0.gguf", "q4_0."}};
    size_t i;
    golden_zimage_kind = "";
    if (golden_has(folder->path, "model.safetensors")) {
        golden_run_transformer(g, folder, NULL, golden_run_zimage_case);
        return;
    }
    for (i = 0; i < DITI_COUNT(files); i++) {
        diti_checkpoint *weights;
        if (!golden_has(folder->path, files[i][0])) continue;
        weights = golden_open_checkpoint(&g->env, folder->path, files[i][0]);
        golden_zimage_kind = files[i][1];
        golden_run_cases(g, folder, folder->config, weights, golden_run_zimage_case);
        diti_checkpoint_close(weights);
    }
}
#endif
