/* Transformers of FLUX.2 klein and Qwen-Image as GGUF, on the first call that the pipelines beside the folder recorded;
   klein from the original's file, too, where its folder stands there. */
#ifndef GOLDEN_NEWER_H
#define GOLDEN_NEWER_H
#include "golden_pipe.h"

static inline bool golden_is_newer(const golden_folder *folder) {
    return folder->golden && diti_checkpoint_find(folder->golden, "klein.t2i.call0.out");
}

/* Tokens of 4 lines of 6 as planes. */
static inline float *golden_newer_planes(const golden_folder *folder, const char *name, uint32_t side) {
    const diti_stored_tensor *stored = diti_checkpoint_find(folder->golden, name);
    uint64_t count;
    float *values = golden_floats(folder->golden, name, &count);
    return stored && stored->rank == 3 ? golden_pipe_unpack(values, count, 4 * side, 6 * side, side) : values;
}

static inline void golden_newer_evaluate(golden *g, const golden_folder *pipe, const golden_folder *in,
                                         const char *output, const diti_transformer *model) {
    const diti_stored_tensor *text = diti_checkpoint_find(pipe->golden, "t2i.prompt_embeds");
    uint32_t channels = model->traits.latent_channels, side = model->traits.patch;
    golden_case c = DITI_ZERO;
    diti_step_desc *d = &c.step;
    golden_graph_begin(&c.m, g, pipe);
    c.timestep = 1000;
    d->batch = d->branches = d->steps = d->text_batch = 1;
    d->height = 4 * side;
    d->width = 6 * side;
    d->text_tokens = (uint32_t)text->shape[1];
    d->text = golden_give(&c.m, DITI_F32, d->text_tokens, model->traits.text_columns,
                          golden_item(&c.m, "t2i.prompt_embeds", 0, d->text_tokens, model->traits.text_columns));
    d->latent =
        golden_give(&c.m, DITI_F32, channels, d->height * d->width, golden_newer_planes(pipe, "t2i.in.latents", side));
    d->row = golden_give_u32(&c.m, 0);
    diti_transformer_prepare(model, &c.m.graph, d);
    diti_graph_segment(&c.m.graph, "step", true);
    golden_expect(&c.m, output, diti_transformer_step(model, &c.m.graph, d), golden_newer_planes(in, output, side),
                  GOLDEN_MODEL);
    golden_case_run(&c, model);
}

/* file: of weights, below the folder in which all of them stand; output: recorded in the folder, or by the pipeline. */
static inline void golden_newer_file(golden *g, const golden_folder *folder, const char *pipeline, const char *file,
                                     const char *output) {
    int parent = (int)(strlen(folder->path) - strlen(folder->name));
    char path[1024], around[1024];
    diti_transformer *model = NULL;
    diti_json *json;
    diti_checkpoint *weights;
    dit_error err = DITI_ZERO;
    golden_folder pipe;
    diti_format(path, sizeof path, "%.*s%s", parent, folder->path, pipeline);
    diti_format(around, sizeof around, "%.*s.", parent, folder->path);
    golden_open(&g->env, path, &pipe);
    json = golden_open_json(&g->env, path, "transformer/config.json");
    weights = golden_open_checkpoint(&g->env, around, file);
    if (golden_require(
            g,
            pipe.golden && json && weights && golden_open_device(g) &&
                diti_transformer_load(golden_shared.device, &g->env, json, weights, "", NULL, &model, &err) == DIT_OK,
            "%s loads %s", file, err.message))
        golden_newer_evaluate(g, &pipe, diti_checkpoint_find(folder->golden, output) ? folder : &pipe, output, model);
    diti_transformer_destroy(model);
    diti_checkpoint_close(weights);
    diti_json_free(&g->env, json);
    golden_close(&g->env, &pipe);
}

static inline void golden_run_newer(golden *g, const golden_folder *folder) {
    golden_newer_file(g, folder, "pipe_flux2_klein", "gguf_newer/flux-2-klein-4b-Q8_0.gguf", "klein.t2i.call0.out");
    golden_newer_file(g, folder, "pipe_qwenimage", "gguf_newer/qwen-image-Q8_0.gguf", "qwenimage.t2i.call0.out");
    golden_newer_file(g, folder, "pipe_flux2_klein", "flux2_klein_bfl/flux-2-klein-4b.safetensors",
                      "t2i.model_call0.out");
}
#endif
