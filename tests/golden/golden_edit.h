/* Qwen-Image-Edit part by part: the pictures as the vision tower is given them, what it makes of them, the states of a
   prompt with pictures in it, and an evaluation of the transformer with references, which are modulated as the image is
   or as at timestep 0. */
#ifndef GOLDEN_EDIT_H
#define GOLDEN_EDIT_H
#include "golden_calls.h"
#include "golden_originals.h"

static inline bool golden_is_edit(const golden_folder *folder) {
    return folder->golden && diti_checkpoint_find(folder->golden, "edit2.zero_cond_t.model_call0.out");
}

#define GOLDEN_EDIT_PICTURES 2u
typedef struct golden_edit {
    golden_graph m;
    diti_decoder *decoder;
    diti_encoder_use use;
    uint32_t tokens;
} golden_edit;

/* Rows of groups of `rows` in the order of tokens become those in the order of the tower, or back. */
static inline float *golden_edit_order(const golden_edit *e, float *from, uint32_t rows, uint32_t columns, bool back) {
    size_t size = (size_t)rows * columns;
    float *out = (float *)malloc(e->tokens * size * sizeof *out);
    uint32_t places[64], i;
    diti_vision_order(e->decoder->vision, &e->use, places);
    for (i = 0; i < e->tokens; i++)
        memcpy(out + (back ? i : places[i]) * size, from + (back ? places[i] : i) * size, size * sizeof *out);
    free(from);
    return out;
}

/* The recorded pictures, scaled in two steps as the pipeline does. */
static inline void golden_edit_pixels(golden *g, const golden_folder *folder, golden_edit *e) {
    static const uint32_t sides[GOLDEN_EDIT_PICTURES][2] = {{96, 64}, {64, 96}};
    uint32_t columns = 6 * e->decoder->vision->config.patch * e->decoder->vision->config.patch, i, side;
    float *patches = (float *)calloc((size_t)e->tokens * 4 * columns, sizeof *patches), *at = patches;
    side = diti_vision_side(e->decoder->vision);
    for (i = 0; i < GOLDEN_EDIT_PICTURES; i++) {
        const diti_vision_grid *grid = &e->use.pictures[i];
        golden_pipe p = DITI_ZERO;
        diti_picture picture = DITI_ZERO;
        uint8_t *first = NULL, *second = NULL;
        char name[32];
        diti_format(name, sizeof name, "edit2.image%u_u8", (unsigned)i);
        p.folder = folder;
        golden_calls_pictures(&p, name, 0);
        picture.rgba = p.pictures[0].rgba;
        picture.width = p.pictures[0].width;
        picture.height = p.pictures[0].height;
        diti_resize(&g->env, &picture, sides[i][0], sides[i][1], DITI_WINDOW_LANCZOS, &first, NULL);
        free((void *)(uintptr_t)picture.rgba);
        picture.rgba = first;
        picture.width = sides[i][0];
        picture.height = sides[i][1];
        diti_resize(&g->env, &picture, grid->columns * side, grid->rows * side, DITI_WINDOW_CUBIC, &second, NULL);
        diti_vision_patches(e->decoder->vision, grid, second, at);
        at += (size_t)4 * grid->rows * grid->columns * columns;
        diti_free(&g->env, first);
        diti_free(&g->env, second);
    }
    patches = golden_edit_order(e, patches, 4, columns, true);
    golden_compare_with(g, folder, "edit2.vision_pixel_values", patches, (uint64_t)e->tokens * 4 * columns, 1e-6);
    free(patches);
}

static inline uint32_t golden_edit_columns(const golden_edit *e) {
    return 6 * e->decoder->vision->config.patch * e->decoder->vision->config.patch;
}

/* Plans the graph, gives the recorded pixels, runs and compares; ids NULL: the tower alone. */
static inline void golden_edit_run(golden *g, const golden_folder *folder, golden_edit *e, const int32_t *ids,
                                   const uint32_t *items) {
    uint64_t count;
    float *pixels = golden_floats(folder->golden, "edit2.vision_pixel_values", &count);
    dit_error err = DITI_ZERO;
    dit_result result = golden_graph_create(&e->m, &err);
    pixels = golden_edit_order(e, pixels, 4, golden_edit_columns(e), false);
    if (result >= 0)
        result = diti_plan_write(e->m.plan, e->use.inputs[DITI_DECODER_VISION_PIXELS], pixels,
                                 (size_t)count * sizeof *pixels, &err);
    if (result >= 0)
        result = ids ? diti_decoder_write_inputs(e->decoder, e->m.plan, &e->use, ids, items, &err)
                     : diti_vision_write(e->decoder->vision, &g->env, e->m.plan, &e->use, &err);
    free(pixels);
    if (golden_require(g, result == DIT_OK, "pictures are planned %s", err.message)) golden_graph_run(&e->m);
    golden_graph_end(&e->m);
}

static inline void golden_edit_tower(golden *g, const golden_folder *folder, golden_edit *e) {
    uint32_t d = e->decoder->config.columns;
    golden_graph_begin(&e->m, g, folder);
    golden_expect(&e->m, "edit2.vision_out", diti_vision_emit(e->decoder->vision, &e->m.graph, &e->use),
                  golden_edit_order(e, golden_item(&e->m, "edit2.vision_out", 0, e->tokens, d), 1, d, false),
                  GOLDEN_MODEL);
    golden_edit_run(g, folder, e, NULL, NULL);
}

/* States that the language model has of the recorded tokens and pixels. */
static inline void golden_edit_states(golden *g, const golden_folder *folder, golden_edit *e) {
    const diti_stored_tensor *text = diti_checkpoint_find(folder->golden, "edit2.prompt_embeds");
    uint32_t d = e->decoder->config.columns, dropped, rows, i;
    uint32_t *ids, *items = (uint32_t *)calloc(4, sizeof *items);
    uint64_t count;
    float *recorded = golden_floats(folder->golden, "edit2.input_ids", &count);
    diti_tensor out;
    rows = (uint32_t)count;
    dropped = rows - (uint32_t)text->shape[1];
    ids = (uint32_t *)malloc(rows * sizeof *ids);
    for (i = 0; i < rows; i++) ids[i] = (uint32_t)recorded[i];
    free(recorded);
    items[1] = items[3] = rows;
    golden_graph_begin(&e->m, g, folder);
    e->use.batch = 1;
    e->use.rows = e->use.tokens = rows;
    e->use.ids = golden_give(&e->m, DITI_U32, 1, rows, ids);
    e->use.items = golden_give(&e->m, DITI_U32, 1, DITI_ITEM_WORDS, items);
    out = diti_decoder_encode(e->decoder, &e->m.graph, &e->use);
    golden_expect(&e->m, "edit2.prompt_embeds", diti_tensor_view(&e->m.graph, out, dropped, rows - dropped, 0, d),
                  golden_item(&e->m, "edit2.prompt_embeds", 0, rows - dropped, d), GOLDEN_MODEL);
    golden_edit_run(g, folder, e, (const int32_t *)(const void *)ids, items);
}

/* The first evaluation with its recorded inputs: tokens of the noise, then of each reference, 4 x 4. */
static inline void golden_edit_evaluate(golden *g, const golden_folder *folder, const diti_transformer *model,
                                        const char *name) {
    const diti_stored_tensor *text = diti_checkpoint_find(folder->golden, "edit2.prompt_embeds");
    uint32_t channels = model->traits.latent_channels, columns = 4 * channels, i;
    golden_case c = DITI_ZERO;
    diti_step_desc *d = &c.step;
    uint64_t count;
    float *tokens = golden_floats(folder->golden, "edit2.model_in", &count), *part;
    golden_graph_begin(&c.m, g, folder);
    c.timestep = 1000;
    d->batch = d->branches = d->steps = d->text_batch = 1;
    d->height = 8;
    d->width = 12;
    d->text_tokens = (uint32_t)text->shape[1];
    d->text = golden_give(&c.m, DITI_F32, d->text_tokens, model->traits.text_columns,
                          golden_item(&c.m, "edit2.prompt_embeds", 0, d->text_tokens, model->traits.text_columns));
    part = (float *)malloc(24 * columns * sizeof *part);
    memcpy(part, tokens, 24 * columns * sizeof *part);
    d->latent = golden_give(&c.m, DITI_F32, channels, 96, golden_pipe_unpack(part, 24 * columns, 8, 12, 2));
    d->reference_count = GOLDEN_EDIT_PICTURES;
    for (i = 0; i < GOLDEN_EDIT_PICTURES; i++) {
        d->references[i].height = d->references[i].width = 8;
        part = (float *)malloc(16 * columns * sizeof *part);
        memcpy(part, tokens + (24 + 16 * i) * columns, 16 * columns * sizeof *part);
        d->references[i].planes =
            golden_give(&c.m, DITI_F32, channels, 64, golden_pipe_unpack(part, 16 * columns, 8, 8, 2));
    }
    free(tokens);
    d->row = golden_give_u32(&c.m, 0);
    diti_transformer_prepare(model, &c.m.graph, d);
    diti_graph_segment(&c.m.graph, "step", true);
    part = golden_floats(folder->golden, name, &count); /* the noise's tokens come first */
    golden_expect(&c.m, name, diti_transformer_step(model, &c.m.graph, d),
                  golden_pipe_unpack(part, 24 * columns, 8, 12, 2), GOLDEN_MODEL);
    golden_case_run(&c, model);
}

static inline void golden_edit_transformer(golden *g, const golden_folder *folder, bool clean) {
    char config[512];
    diti_transformer *model = NULL;
    dit_error err = DITI_ZERO;
    diti_json *json = golden_open_json(&g->env, folder->path, "transformer/config.json"), *own = NULL;
    diti_checkpoint *weights =
        golden_open_checkpoint(&g->env, folder->path, "transformer/diffusion_pytorch_model.safetensors");
    diti_format(config, sizeof config,
                "{\"_class_name\":\"QwenImageTransformer2DModel\",\"axes_dims_rope\":[8,12,12],\"zero_cond_t\":%s}",
                clean ? "true" : "false");
    if (golden_require(
            g,
            json && weights && diti_json_parse(&g->env, config, strlen(config), "config", &own, &err) == DIT_OK &&
                diti_transformer_load(golden_shared.device, &g->env, own, weights, "", NULL, &model, &err) == DIT_OK,
            "the transformer loads %s", err.message))
        golden_edit_evaluate(g, folder, model, clean ? "edit2.zero_cond_t.model_call0.out" : "edit2.model_call0.out");
    diti_transformer_destroy(model);
    diti_checkpoint_close(weights);
    diti_json_free(&g->env, own);
    diti_json_free(&g->env, json);
}

/* ComfyUI's file of Edit-2511, in which an empty tensor stands for zero_cond_t. */
static inline void golden_edit_marked(golden *g, const golden_folder *folder) {
    static const char axes[] = "{\"axes_dims_rope\": [8, 12, 12]}";
    diti_transformer *model = NULL;
    diti_checkpoint *open = NULL;
    diti_json *json = NULL;
    dit_error err = DITI_ZERO;
    char path[1024];
    bytes plain, file;
    dit_source source;
    golden_join(path, sizeof path, folder->path, "transformer/diffusion_pytorch_model.safetensors");
    plain.data = (unsigned char *)test_read_file(path, &plain.size);
    file = golden_original_with(&plain,
                                "\"__index_timestep_zero__\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]}");
    source = memory_source(&file);
    if (golden_require(g,
                       diti_json_parse(&g->env, axes, sizeof axes - 1, "config.json", &json, &err) == DIT_OK &&
                           diti_checkpoint_open(&g->env, &source, &open, &err) == DIT_OK &&
                           diti_transformer_load(golden_shared.device, &g->env, json, open, "", NULL, &model, &err) ==
                               DIT_OK,
                       "the marked transformer loads %s", err.message))
        golden_edit_evaluate(g, folder, model, "edit2.zero_cond_t.model_call0.out");
    diti_transformer_destroy(model);
    diti_checkpoint_close(open);
    diti_json_free(&g->env, json);
    bytes_free(&file);
    free(plain.data);
}

static inline void golden_run_edit(golden *g, const golden_folder *folder) {
    diti_load_options options = DITI_ZERO;
    diti_json *json = golden_open_json(&g->env, folder->path, "text_encoder/config.json");
    diti_checkpoint *weights = golden_open_checkpoint(&g->env, folder->path, "text_encoder/model.safetensors");
    dit_error err = DITI_ZERO;
    golden_edit e = DITI_ZERO;
    options.shown = true;
    golden_open_device(g);
    if (golden_require(g,
                       json && weights &&
                           diti_decoder_load(golden_shared.device, &g->env, json, weights, "", &options, &e.decoder,
                                             &err) == DIT_OK &&
                           e.decoder->vision,
                       "the text encoder and its tower load %s", err.message)) {
        e.use.picture_count = GOLDEN_EDIT_PICTURES;
        e.use.pictures[0].rows = e.use.pictures[1].columns = 2;
        e.use.pictures[0].columns = e.use.pictures[1].rows = 3;
        e.tokens = diti_vision_tokens(&e.use);
        golden_edit_pixels(g, folder, &e);
        golden_edit_tower(g, folder, &e);
        golden_edit_states(g, folder, &e);
    }
    diti_decoder_destroy(e.decoder);
    diti_checkpoint_close(weights);
    diti_json_free(&g->env, json);
    golden_edit_transformer(g, folder, false);
    golden_edit_transformer(g, folder, true);
    golden_edit_marked(g, folder);
}
#endif
