/* Krea 2's transformer on what its pipeline recorded of the first call: the text as blocks read it, every block on what
   the one before it made, and the whole evaluation; the same from original files and GGUF, whose folder stands beside
   the pipeline's. */
#ifndef GOLDEN_KREA2_H
#define GOLDEN_KREA2_H
#include "golden_calls.h"

static inline bool golden_is_krea2(const golden_folder *folder) {
    return folder->golden && diti_checkpoint_find(folder->golden, "turbo.call0.mid.txt_in");
}

static inline bool golden_is_krea2_files(const golden_folder *folder) {
    return folder->golden && diti_checkpoint_find(folder->golden, "q8_0.call0.out");
}

/* Recorded rows [1, text + more, columns] without those of the text that the mask leaves out. */
static inline float *golden_krea2_rows(const golden_folder *folder, const char *name, uint32_t columns,
                                       uint32_t *rows) {
    uint64_t count = 0, texts = 0, row;
    float *all = golden_floats(folder->golden, name, &count);
    float *mask = golden_floats(folder->golden, "turbo.prompt_mask", &texts);
    *rows = 0;
    for (row = 0; all && mask && row < count / columns; row++)
        if (row >= texts || mask[row] != 0)
            memmove(all + (size_t)(*rows)++ * columns, all + row * columns, columns * sizeof *all);
    free(mask);
    return all;
}

static inline void golden_krea2_expect(golden_case *c, const char *name, diti_tensor x, uint32_t columns) {
    uint32_t rows;
    float *reference = golden_krea2_rows(c->m.folder, name, columns, &rows);
    golden_expect(&c->m, name, x, reference, GOLDEN_BLOCK);
}

/* Every block alone: block 0 behind the embedding, the others behind what is recorded. */
static inline void golden_krea2_parts(golden_case *c, const diti_transformer *model) {
    const diti_krea2 *krea2 = diti_krea2_of(model);
    uint32_t i, rows, width = krea2->config.width;
    diti_graph *graph = &c->m.graph;
    char name[96];
    diti_tensor x;
    golden_krea2_expect(c, "turbo.call0.mid.txt_in", diti_krea2_state_of(&c->step)->text, width);
    diti_transformer_begin(model, graph, &c->step);
    x = diti_transformer_embed(model, graph, &c->step);
    for (i = 0; i < krea2->config.blocks; i++) {
        x = diti_transformer_block(model, graph, &c->step, i, x);
        diti_format(name, sizeof name, "turbo.call0.mid.transformer_blocks.%u", (unsigned)i);
        golden_krea2_expect(c, name, x, width);
        x = golden_copy(&c->m, golden_give(&c->m, DITI_F32, diti_tensor_rows(graph, x), width,
                                           golden_krea2_rows(c->m.folder, name, width, &rows)));
    }
    golden_krea2_expect(c, "turbo.call0.mid.final_layer", diti_transformer_final(model, graph, &c->step, x),
                        4 * krea2->config.channels);
}

/* output: recorded in folder; the inputs are in `pipe`. */
static inline void golden_krea2_evaluate(golden *g, const golden_folder *pipe, const golden_folder *folder,
                                         const diti_transformer *model, const char *output, bool parts) {
    uint32_t channels = model->traits.latent_channels, rows, lengths[1];
    golden_case c = DITI_ZERO;
    diti_step_desc *d = &c.step;
    uint64_t count;
    float *values;
    golden_graph_begin(&c.m, g, pipe);
    c.timestep = 1000;
    d->batch = d->branches = d->steps = d->text_batch = 1;
    d->height = 8;
    d->width = 12;
    values = golden_krea2_rows(pipe, "turbo.prompt_hidden", model->traits.text_columns, &rows);
    d->text_tokens = lengths[0] = rows;
    d->text_lengths = lengths;
    d->text = golden_give(&c.m, DITI_F32, rows, model->traits.text_columns, values);
    values = golden_floats(pipe->golden, "turbo.in.latents", &count);
    d->latent = golden_give(&c.m, DITI_F32, channels, 96, golden_pipe_unpack(values, count, 8, 12, 2));
    d->row = golden_give_u32(&c.m, 0);
    diti_transformer_prepare(model, &c.m.graph, d);
    diti_graph_segment(&c.m.graph, "step", true);
    if (parts) golden_krea2_parts(&c, model);
    values = golden_floats(folder->golden, output, &count);
    golden_expect(&c.m, output, diti_transformer_step(model, &c.m.graph, d),
                  golden_pipe_unpack(values, count, 8, 12, 2), GOLDEN_MODEL);
    golden_case_run(&c, model);
}

/* file: of weights, in folder; output: recorded in the folder `in`. */
static inline void golden_krea2_file(golden *g, const golden_folder *pipe, const golden_folder *folder,
                                     const char *file, const golden_folder *in, const char *output, bool parts) {
    diti_json *json = golden_open_json(&g->env, pipe->path, "transformer/config.json");
    diti_checkpoint *weights = golden_open_checkpoint(&g->env, folder->path, file);
    diti_transformer *model = NULL;
    dit_error err = DITI_ZERO;
    if (golden_require(
            g,
            json && weights && golden_open_device(g) &&
                diti_transformer_load(golden_shared.device, &g->env, json, weights, "", NULL, &model, &err) == DIT_OK,
            "%s loads %s", file, err.message))
        golden_krea2_evaluate(g, pipe, in, model, output, parts);
    diti_transformer_destroy(model);
    diti_checkpoint_close(weights);
    diti_json_free(&g->env, json);
}

static inline void golden_run_krea2(golden *g, const golden_folder *folder) {
    golden_krea2_file(g, folder, folder, "transformer/diffusion_pytorch_model.safetensors", folder,
                      "turbo.model_call0.out", true);
}

static inline void golden_run_krea2_files(golden *g, const golden_folder *folder) {
    golden_folder pipe;
    char path[1024];
    diti_format(path, sizeof path, "%.*s%s", (int)(strlen(folder->path) - strlen(folder->name)), folder->path,
                "pipe_krea2");
    golden_open(&g->env, path, &pipe);
    if (golden_require(g, golden_is_krea2(&pipe), "the pipeline stands beside the folder")) {
        golden_krea2_file(g, &pipe, folder, "krea2_turbo.safetensors", &pipe, "turbo.model_call0.out", true);
        golden_krea2_file(g, &pipe, folder, "krea2_turbo-Q8_0.gguf", folder, "q8_0.call0.out", false);
    }
    golden_close(&g->env, &pipe);
}
#endif
