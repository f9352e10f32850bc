/* Chroma: the vectors of modulation, blocks, an evaluation whose mask leaves some rows of text out, and the pipeline,
   whose other parts are those of fixtures beside the folder. */
#ifndef GOLDEN_CHROMA_H
#define GOLDEN_CHROMA_H
#include "golden_calls.h"
#include "golden_originals.h"

static inline bool golden_is_chroma(const golden_folder *folder) {
    return folder->golden && diti_checkpoint_find(folder->golden, "case0.mid.distilled_guidance_layer");
}

/* The recorded vectors in the order of dit.h. */
static inline float *golden_chroma_vectors(golden_case *c, const diti_chroma_config *config) {
    uint32_t vectors = diti_chroma_vectors(config), i;
    float *from = golden_case_rows(c, "mid.distilled_guidance_layer", vectors, config->width);
    float *out = (float *)malloc((size_t)vectors * config->width * sizeof *out);
    for (i = 0; i < vectors; i++)
        memcpy(out + (size_t)i * config->width, from + (size_t)diti_chroma_number(config, i) * config->width,
               config->width * sizeof *out);
    free(from);
    return out;
}

/* Rows of x from row `at` on are the recorded ones from `first` on. */
static inline void golden_chroma_expect(golden_case *c, const char *rest, diti_tensor x, uint32_t at, uint32_t all,
                                        uint32_t first, uint32_t rows) {
    uint32_t width = diti_tensor_columns(&c->m.graph, x);
    float *reference = golden_case_rows(c, rest, all, width);
    memmove(reference, reference + (size_t)first * width, (size_t)rows * width * sizeof *reference);
    golden_expect(&c->m, rest, diti_tensor_view(&c->m.graph, x, at, rows, 0, width), reference, GOLDEN_BLOCK);
}

static inline void golden_chroma_parts(golden_case *c, const diti_transformer *model, uint32_t text) {
    const diti_chroma_config *config = &diti_chroma_of(model)->config;
    diti_step_desc *d = &c->step;
    uint32_t texts = d->text_tokens, pad = texts - text, image = d->height / 2 * (d->width / 2), i;
    char name[64];
    diti_tensor x;
    diti_transformer_begin(model, &c->m.graph, d);
    golden_expect(&c->m, "mid.distilled_guidance_layer", diti_chroma_state_of(d)->vectors,
                  golden_chroma_vectors(c, config), GOLDEN_BLOCK);
    x = diti_transformer_embed(model, &c->m.graph, d);
    for (i = 0; i < config->doubles; i++) {
        x = diti_transformer_block(model, &c->m.graph, d, i, x);
        diti_format(name, sizeof name, "mid.transformer_blocks.%u.0", i);
        golden_chroma_expect(c, name, x, pad, texts, 0, text);
        diti_format(name, sizeof name, "mid.transformer_blocks.%u.1", i);
        golden_chroma_expect(c, name, x, texts, image, 0, image);
    }
    for (i = 0; i < config->singles; i++) {
        x = diti_transformer_block(model, &c->m.graph, d, config->doubles + i, x);
        diti_format(name, sizeof name, "mid.single_transformer_blocks.%u", i);
        golden_chroma_expect(c, name, x, pad, texts + image, 0, text);
        golden_chroma_expect(c, name, x, texts, texts + image, texts, image);
    }
}

static inline bool golden_run_chroma_case(golden *g, const golden_folder *folder, const diti_transformer *model,
                                          uint32_t index) {
    uint32_t columns = model->traits.text_columns, channels = model->traits.latent_channels, length = 0, firsts = 0, i;
    golden_case c;
    diti_step_desc *d = &c.step;
    uint64_t count;
    float *values;
    memset(&c, 0, sizeof c);
    c.index = index;
    c.m.folder = folder;
    if (!golden_case_has(&c, "in.hidden_states")) return false;
    golden_graph_begin(&c.m, g, folder);
    values = golden_case_rows(&c, "in.timestep", 1, 1);
    c.timestep = 1000 * values[0];
    free(values);
    values = golden_floats(folder->golden, "case0.in.attention_mask", &count);
    for (i = 0; i < count; i++) length += values[i] != 0;
    free(values);
    d->batch = d->branches = d->text_batch = d->steps = 1;
    d->height = 6;
    d->width = 8;
    d->text_tokens = (uint32_t)count;
    d->text_lengths = &length;
    d->text_firsts = &firsts;
    d->text = golden_give(&c.m, DITI_F32, d->text_tokens, columns,
                          golden_case_rows(&c, "in.encoder_hidden_states", d->text_tokens, columns));
    d->latent = golden_give(
        &c.m, DITI_F32, channels, 48,
        golden_pipe_unpack(golden_case_rows(&c, "in.hidden_states", 12, 4 * channels), channels * 48, 6, 8, 2));
    d->row = golden_give_u32(&c.m, 0);
    diti_transformer_prepare(model, &c.m.graph, d);
    diti_graph_segment(&c.m.graph, "step", true);
    if (!diti_graph_failed(&c.m.graph)) golden_chroma_parts(&c, model, length);
    golden_expect(&c.m, "case0.out", diti_transformer_step(model, &c.m.graph, d),
                  golden_pipe_unpack(golden_case_rows(&c, "out", 12, 4 * channels), channels * 48, 6, 8, 2),
                  GOLDEN_MODEL);
    golden_case_run(&c, model);
    return true;
}

static inline void golden_chroma_call(golden *g, const golden_folder *folder, const char *name, const diti_json *call) {
    static const char *const parts[][2] = {{"text_encoder/", "tests/fixtures/pipe_pixart_sigma"},
                                           {"tokenizer/", "tests/fixtures/pipe_pixart_sigma"},
                                           {"vae/", "tests/fixtures/pipe_flux"}};
    golden_beside source = DITI_ZERO;
    source.parts = parts;
    source.count = DITI_COUNT(parts);
    golden_beside_call(g, folder, name, call, &source);
}

/* Full sweeps: the splits that take prompts of unequal length, and all others. */
static inline void golden_chroma_split(golden *g, const golden_folder *folder, const char *name,
                                       const diti_json *call) {
    static const char *const splits[][3] = {{"cfg", "cfg2", "0,0"},       {"cfg", "tensor3", "0,0,0"},
                                            {"cfg", "layers2", "0,0"},    {"flash", "ulysses3", "0,0,0"},
                                            {"flash", "ring2", "0,0"},    {"flash", "tensor2", "0,0"},
                                            {"flash", "layers3", "0,0,0"}};
    golden on = *g;
    size_t i;
    for (i = 0; i < DITI_COUNT(splits); i++) {
        if (!diti_equal(name, splits[i][0])) continue;
        on.split = splits[i][1];
        on.device = splits[i][2];
        golden_chroma_call(&on, folder, name, call);
    }
    g->compared = on.compared;
}

static inline void golden_run_chroma(golden *g, const golden_folder *folder) {
    static const char *const files[] = {"transformer/diffusion_pytorch_model.safetensors", "model.safetensors"};
    diti_json *config = golden_open_json(&g->env, folder->path, "transformer/config.json");
    size_t i;
    for (i = 0; i < DITI_COUNT(files); i++) {
        diti_checkpoint *weights;
        if (!golden_has(folder->path, files[i])) continue;
        weights = golden_open_checkpoint(&g->env, folder->path, files[i]);
        golden_run_cases(g, folder, config, weights, golden_run_chroma_case);
        golden_run_original(g, folder, config, weights, golden_run_chroma_case);
        diti_checkpoint_close(weights);
    }
    diti_json_free(&g->env, config);
    if (!golden_has(folder->path, "model_index.json")) return;
    golden_each_call(g, folder, golden_chroma_call);
    if (test_sweeps() && !g->split) golden_each_call(g, folder, golden_chroma_split);
}
#endif
