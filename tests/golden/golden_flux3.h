/* FLUX.3: blocks of each kind and joint ones on what is recorded of the one before, whole evaluations with and without
   pictures that are referred to and the timestep to which a step goes, and the pipelines, whose other parts are those
   of fixtures beside the folder. */
#ifndef GOLDEN_FLUX3_H
#define GOLDEN_FLUX3_H
#include "golden_calls.h"
#include "golden_originals.h"

typedef struct golden_flux3 {
    golden_case base;
    uint32_t references; /* rows */
} golden_flux3;

static inline bool golden_is_flux3(const golden_folder *folder) {
    return folder->golden && diti_checkpoint_find(folder->golden, "case0.mid.txt_mode_blocks.0") &&
           diti_checkpoint_find(folder->golden, "case0.in.img_ids");
}

/* The grid of the tokens whose last coordinate is l, from their largest coordinates, which are halves. */
static inline bool golden_flux3_grid(golden_case *c, const char *rest, float l, uint32_t *height, uint32_t *width) {
    char name[96];
    uint64_t count = 0, i;
    float *ids =
        golden_case_has(c, rest) ? golden_floats(c->m.folder->golden, golden_case_name(c, rest, name), &count) : NULL;
    *height = *width = 0;
    for (i = 0; i + 3 < count; i += 4) {
        if (ids[i + 3] != l) continue;
        if (2 * ids[i + 1] + 1 > (float)*height) *height = (uint32_t)(2 * ids[i + 1]) + 1;
        if (2 * ids[i + 2] + 1 > (float)*width) *width = (uint32_t)(2 * ids[i + 2]) + 1;
    }
    free(ids);
    return *height > 0;
}

static inline diti_tensor golden_flux3_planes(golden_flux3 *c, const char *rest, uint32_t all, uint32_t first,
                                              uint32_t rows, uint32_t columns) {
    float *tokens = golden_case_rows(&c->base, rest, all, columns);
    memmove(tokens, tokens + (size_t)first * columns, (size_t)rows * columns * sizeof *tokens);
    return golden_give(&c->base.m, DITI_F32, columns, rows, golden_transpose(tokens, rows, columns));
}

static inline void golden_flux3_inputs(golden_flux3 *c, const diti_transformer *model, float *timesteps) {
    diti_step_desc *d = &c->base.step;
    uint32_t channels = model->traits.latent_channels, i, first = 0;
    const diti_stored_tensor *text;
    char name[96];
    float *value = golden_case_rows(&c->base, "in.timestep", 1, 1);
    timesteps[0] = 1000 * value[0];
    free(value);
    d->steps = 1;
    if (golden_case_has(&c->base, "in.target_timestep")) {
        value = golden_case_rows(&c->base, "in.target_timestep", 1, 1);
        timesteps[d->steps++] = 1000 * value[0];
        free(value);
    }
    c->base.timesteps = timesteps;
    d->batch = d->branches = d->text_batch = 1;
    golden_flux3_grid(&c->base, "in.img_ids", 0, &d->height, &d->width);
    text = diti_checkpoint_find(c->base.m.folder->golden, golden_case_name(&c->base, "in.encoder_hidden_states", name));
    d->text_tokens = (uint32_t)text->shape[1];
    d->text =
        golden_give(&c->base.m, DITI_F32, d->text_tokens, model->traits.text_columns,
                    golden_case_rows(&c->base, "in.encoder_hidden_states", d->text_tokens, model->traits.text_columns));
    i = d->height * d->width;
    d->latent = golden_flux3_planes(c, "in.hidden_states", i, 0, i, channels);
    while (golden_flux3_grid(&c->base, "in.image_cond_ids", -1 - (float)d->reference_count,
                             &d->references[d->reference_count].height, &d->references[d->reference_count].width)) {
        c->references += d->references[d->reference_count].height * d->references[d->reference_count].width;
        d->reference_count++;
    }
    for (i = 0; i < d->reference_count; i++) {
        uint32_t rows = d->references[i].height * d->references[i].width;
        d->references[i].planes =
            golden_flux3_planes(c, "in.image_cond_hidden_states", c->references, first, rows, channels);
        first += rows;
    }
    d->row = golden_give_u32(&c->base.m, 0);
}

/* Recorded rows of text, then of image and references, in the order of dit.h: text, references, image. */
static inline float *golden_flux3_rows(golden_flux3 *c, const char *text, const char *content, uint32_t width) {
    uint32_t texts = c->base.step.text_tokens, image = c->base.step.height * c->base.step.width,
             references = c->references;
    float *out = (float *)calloc((size_t)(texts + references + image) * width, sizeof *out), *from;
    from = golden_case_rows(&c->base, text, texts, width);
    memcpy(out, from, (size_t)texts * width * sizeof *out);
    free(from);
    from = golden_case_rows(&c->base, content, references + image, width);
    memcpy(out + (size_t)texts * width, from + (size_t)image * width, (size_t)references * width * sizeof *out);
    memcpy(out + (size_t)(texts + references) * width, from, (size_t)image * width * sizeof *out);
    free(from);
    return out;
}

static inline void golden_flux3_expect(golden_flux3 *c, diti_tensor x, uint32_t first, uint32_t rows, const char *list,
                                       uint32_t index) {
    char name[64];
    uint32_t width = diti_tensor_columns(&c->base.m.graph, x);
    diti_format(name, sizeof name, "mid.%s.%u", list, index);
    golden_case_expect(&c->base, name, diti_tensor_view(&c->base.m.graph, x, first, rows, 0, width), GOLDEN_BLOCK);
}

static inline void golden_flux3_parts(golden_flux3 *c, const diti_transformer *model) {
    const diti_flux3_config *config = &diti_flux3_of(model)->config;
    diti_step_desc *d = &c->base.step;
    diti_graph *graph = &c->base.m.graph;
    uint32_t i, width = config->width, texts = d->text_tokens, image = d->height * d->width;
    diti_tensor x;
    diti_transformer_begin(model, graph, d);
    x = diti_transformer_embed(model, graph, d);
    golden_flux3_expect(c, x, 0, texts, "txt_mode_blocks", config->alone - 1);
    if (c->references) golden_flux3_expect(c, x, texts, c->references, "mode_blocks.image_cond", config->alone - 1);
    for (i = 0; i < config->alone; i++) {
        x = diti_transformer_block(model, graph, d, i, x);
        golden_flux3_expect(c, x, texts + c->references, image, "mode_blocks.image", i);
    }
    for (i = 0; i < config->joint; i++) {
        char text[64], content[64];
        diti_format(text, sizeof text, "mid.single_transformer_blocks.%u.0", i);
        diti_format(content, sizeof content, "mid.single_transformer_blocks.%u.1", i);
        x = diti_transformer_block(model, graph, d, config->alone + i, x);
        golden_expect(&c->base.m, content, x, golden_flux3_rows(c, text, content, width), GOLDEN_BLOCK);
        x = golden_copy(&c->base.m, golden_give(&c->base.m, DITI_F32, texts + c->references + image, width,
                                                golden_flux3_rows(c, text, content, width)));
    }
}

static inline void golden_run_flux3_item(golden *g, const golden_folder *folder, const diti_transformer *model,
                                         golden_flux3 *c) {
    uint32_t pixels, channels = model->traits.latent_channels;
    float timesteps[2];
    char name[96];
    diti_tensor out;
    golden_graph_begin(&c->base.m, g, folder);
    golden_flux3_inputs(c, model, timesteps);
    diti_transformer_prepare(model, &c->base.m.graph, &c->base.step);
    diti_graph_segment(&c->base.m.graph, "step", true);
    if (!diti_graph_failed(&c->base.m.graph)) golden_flux3_parts(c, model);
    out = diti_transformer_step(model, &c->base.m.graph, &c->base.step);
    pixels = c->base.step.height * c->base.step.width;
    diti_format(name, sizeof name, "case%u.out [%u]", c->base.index, c->base.item);
    golden_expect(&c->base.m, name, out,
                  golden_transpose(golden_case_rows(&c->base, "out", pixels, channels), pixels, channels),
                  GOLDEN_MODEL);
    golden_case_run(&c->base, model);
}

static bool golden_flux3_jumps;

/* Cases that have a timestep to which their step goes are of a flow map, the others go without. */
static inline bool golden_run_flux3_case(golden *g, const golden_folder *folder, const diti_transformer *model,
                                         uint32_t index) {
    uint32_t item, items = 1;
    for (item = 0; item < items; item++) {
        const diti_stored_tensor *image;
        golden_flux3 c;
        char name[96];
        memset(&c, 0, sizeof c);
        c.base.m.folder = folder;
        c.base.index = index;
        c.base.item = item;
        image = diti_checkpoint_find(folder->golden, golden_case_name(&c.base, "in.hidden_states", name));
        if (!image) return false;
        if (golden_case_has(&c.base, "in.target_timestep") != golden_flux3_jumps) return true;
        items = (uint32_t)image->shape[0];
        golden_run_flux3_item(g, folder, model, &c);
    }
    return true;
}

/* --- pipelines --- */

static const char golden_flux3_base[] = "{\"_class_name\": \"Flux3Transformer2DModel\", \"flow_map\": false}";

static inline void golden_flux3_call(golden *g, const golden_folder *folder, const char *name, const diti_json *call) {
    static const char *const parts[][2] = {{"text_encoder/", "tests/fixtures/pipe_krea2"},
                                           {"tokenizer/", "tests/fixtures/pipe_krea2"},
                                           {"vae/", "tests/fixtures/pipe_flux2_klein"}};
    golden_beside source = DITI_ZERO;
    source.parts = parts;
    source.count = DITI_COUNT(parts);
    if (diti_equal(name, "base")) source.config = golden_flux3_base;
    golden_beside_call(g, folder, name, call, &source);
}

/* Full sweeps: the picture that is made after others, on several devices. */
static inline void golden_flux3_split(golden *g, const golden_folder *folder, const char *name, const diti_json *call) {
    static const char *const splits[][2] = {
        {"ulysses3", "0,0,0"}, {"ring2", "0,0"}, {"tensor3", "0,0,0"}, {"layers2", "0,0"}};
    golden on = *g;
    size_t i;
    for (i = 0; i < DITI_COUNT(splits) && diti_equal(name, "edit2"); i++) {
        on.split = splits[i][0];
        on.device = splits[i][1];
        golden_flux3_call(&on, folder, name, call);
    }
    g->compared = on.compared;
}

static inline void golden_run_flux3(golden *g, const golden_folder *folder) {
    const char *file = golden_has(folder->path, "model.safetensors")
                           ? "model.safetensors"
                           : "transformer/diffusion_pytorch_model.safetensors";
    diti_checkpoint *weights = golden_open_checkpoint(&g->env, folder->path, file);
    diti_json *base = NULL;
    golden_require(
        g, diti_json_parse(&g->env, golden_flux3_base, strlen(golden_flux3_base), "config", &base, NULL) == DIT_OK,
        "a configuration");
    golden_flux3_jumps = false;
    golden_run_cases(g, folder, base, weights, golden_run_flux3_case);
    golden_flux3_jumps = true;
    golden_run_cases(g, folder, NULL, weights, golden_run_flux3_case);
    golden_run_original(g, folder, NULL, weights, golden_run_flux3_case);
    diti_json_free(&g->env, base);
    diti_checkpoint_close(weights);
    if (!golden_has(folder->path, "model_index.json")) return;
    golden_each_call(g, folder, golden_flux3_call);
    if (test_sweeps() && !g->split) golden_each_call(g, folder, golden_flux3_split);
}
#endif
