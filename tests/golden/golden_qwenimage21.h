/* Qwen-Image-2.1 part by part: first evaluations of the recorded calls, of prompts alone and with pictures in their
   places, and where the whole pipeline is there the vision tower with what it adds to the language model's layers. */
#ifndef GOLDEN_QWENIMAGE21_H
#define GOLDEN_QWENIMAGE21_H
#include "golden_edit.h"
#include "golden_originals.h"

static inline bool golden_is_qwenimage21(const golden_folder *folder) {
    return folder->golden && folder->readme && diti_starts_with(folder->readme, "QwenImage21");
}

/* Tokens from `first` on of a recorded tensor [tokens, channels], as planes of height x width. */
static inline float *golden_qwenimage21_planes(const golden_folder *folder, const char *name, uint32_t first,
                                               uint32_t channels, uint32_t height, uint32_t width) {
    uint64_t count;
    float *all = golden_floats(folder->golden, name, &count);
    size_t size = (size_t)channels * height * width;
    memmove(all, all + (size_t)first * channels, size * sizeof *all);
    return golden_pipe_unpack(all, size, height, width, 1);
}

/* The first evaluation of a call: 4 x 6 tokens behind `rows` of the prompt, with so many references of 4 x 4. */
static inline void golden_qwenimage21_evaluate(golden *g, const golden_folder *folder, const diti_transformer *model,
                                               const char *call, uint32_t references) {
    char name[64];
    golden_case c = DITI_ZERO;
    diti_step_desc *d = &c.step;
    const diti_stored_tensor *text, *out;
    uint32_t channels = model->traits.latent_channels, columns = model->traits.text_columns, i;
    uint64_t count;
    float *ids;
    golden_graph_begin(&c.m, g, folder);
    diti_format(name, sizeof name, "%s.prompt_embeds", call);
    text = diti_checkpoint_find(folder->golden, name);
    c.timestep = 1000;
    d->batch = d->branches = d->steps = d->text_batch = 1;
    d->height = 4;
    d->width = 6;
    d->text_tokens = (uint32_t)text->shape[1];
    d->text = golden_give(&c.m, DITI_F32, d->text_tokens, columns, golden_item(&c.m, name, 0, d->text_tokens, columns));
    diti_format(name, sizeof name, "%s.model_in", call);
    d->latent = golden_give(&c.m, DITI_F32, channels, 24,
                            golden_qwenimage21_planes(folder, name, 16 * references, channels, 4, 6));
    d->reference_count = references;
    ids = golden_floats(folder->golden, "edit2.input_ids", &count);
    for (i = 0; i < references; i++) {
        uint32_t row = (uint32_t)count - d->text_tokens + (i ? d->shown_rows[0] + 4 : 0);
        while (ids[row] != 912) row++; /* the picture's token */
        d->shown_rows[i] = row - ((uint32_t)count - d->text_tokens);
        d->references[i].height = d->references[i].width = 4;
        d->references[i].planes =
            golden_give(&c.m, DITI_F32, channels, 16, golden_qwenimage21_planes(folder, name, 16 * i, channels, 4, 4));
    }
    free(ids);
    d->row = golden_give_u32(&c.m, 0);
    diti_transformer_prepare(model, &c.m.graph, d);
    diti_graph_segment(&c.m.graph, "step", true);
    diti_format(name, sizeof name, "%s.model_call0.out", call);
    out = diti_checkpoint_find(folder->golden, name); /* the image's rows are the last ones */
    golden_expect(&c.m, name, diti_transformer_step(model, &c.m.graph, d),
                  golden_qwenimage21_planes(folder, name, (uint32_t)out->shape[1] - 24, channels, 4, 6), GOLDEN_MODEL);
    golden_case_run(&c, model);
}

/* Tokens that the tower makes of both pictures, for the embedding and for two layers, and the whole prompt's states. */
static inline void golden_qwenimage21_text(golden *g, const golden_folder *folder) {
    static const char *const names[] = {"edit2.vision_out.%u", "edit2.vision_deepstack0.%u",
                                        "edit2.vision_deepstack1.%u"};
    diti_load_options options = DITI_ZERO;
    diti_taps taps = {1, 0, {-1}, true};
    diti_json *json = golden_open_json(&g->env, folder->path, "text_encoder/config.json");
    diti_checkpoint *weights = golden_open_checkpoint(&g->env, folder->path, "text_encoder/model.safetensors");
    dit_error err = DITI_ZERO;
    golden_edit e = DITI_ZERO;
    uint32_t i;
    options.shown = true;
    options.taps = &taps;
    if (golden_require(g,
                       json && weights &&
                           diti_decoder_load(golden_shared.device, &g->env, json, weights, "", &options, &e.decoder,
                                             &err) == DIT_OK &&
                           e.decoder->vision,
                       "the text encoder and its tower load %s", err.message)) {
        e.use.picture_count = 2;
        for (i = 0; i < 2; i++) e.use.pictures[i].rows = e.use.pictures[i].columns = 2;
        e.tokens = diti_vision_tokens(&e.use);
        golden_graph_begin(&e.m, g, folder);
        e.use.deep[2] = diti_vision_emit(e.decoder->vision, &e.m.graph, &e.use);
        for (i = 0; i < 6; i++) {
            uint32_t d = e.decoder->config.columns, picture = i % 2;
            char name[64];
            diti_format(name, sizeof name, names[i / 2], (unsigned)picture);
            golden_expect(&e.m, name, diti_tensor_view(&e.m.graph, e.use.deep[(i / 2 + 2) % 3], picture * 4, 4, 0, d),
                          golden_item(&e.m, name, 0, 4, d), GOLDEN_MODEL);
        }
        golden_edit_run(g, folder, &e, NULL, NULL);
        memset(e.use.deep, 0, sizeof e.use.deep);
        golden_edit_states(g, folder, &e);
    }
    diti_decoder_destroy(e.decoder);
    diti_checkpoint_close(weights);
    diti_json_free(&g->env, json);
}

static inline bool golden_run_qwenimage21_case(golden *g, const golden_folder *folder, const diti_transformer *model,
                                               uint32_t index) {
    if (index > 1) return false;
    golden_qwenimage21_evaluate(g, folder, model, index ? "edit2" : "t2i", 2 * index);
    return true;
}

static inline void golden_run_qwenimage21(golden *g, const golden_folder *folder) {
    diti_json *json = golden_open_json(&g->env, folder->path, "transformer/config.json");
    diti_checkpoint *weights =
        golden_open_checkpoint(&g->env, folder->path, "transformer/diffusion_pytorch_model.safetensors");
    golden_run_cases(g, folder, json, weights, golden_run_qwenimage21_case);
    golden_run_original(g, folder, json, weights, golden_run_qwenimage21_case);
    if (diti_checkpoint_find(folder->golden, "edit2.vision_deepstack0.0")) golden_qwenimage21_text(g, folder);
    diti_checkpoint_close(weights);
    diti_json_free(&g->env, json);
}
#endif
