/* Ideogram 4: blocks of both transformers on what is recorded of the first call, whole evaluations, the same from a
   file with the original's names, the pipeline's schedules, and its pictures, whose other parts are those of fixtures
   beside the folder. */
#ifndef GOLDEN_IDEOGRAM4_H
#define GOLDEN_IDEOGRAM4_H
#include "golden_calls.h"
#include "golden_originals.h"

enum { GOLDEN_IDEOGRAM4_ROWS = 3, GOLDEN_IDEOGRAM4_COLUMNS = 5, GOLDEN_IDEOGRAM4_IMAGE = 15 };

static inline bool golden_is_ideogram4(const golden_folder *folder) {
    return folder->golden && diti_checkpoint_find(folder->golden, "polish.uncond.mid.layers.0");
}

static inline float *golden_ideogram4_rows(golden_case *c, const char *which, const char *rest, uint32_t index) {
    uint64_t count;
    char name[64];
    diti_format(name, sizeof name, rest, which, (unsigned)index);
    return golden_floats(c->m.folder->golden, name, &count);
}

static inline void golden_ideogram4_parts(golden_case *c, const diti_transformer *model, const char *which) {
    diti_graph *graph = &c->m.graph;
    char name[64];
    uint32_t i;
    diti_tensor x;
    diti_transformer_begin(model, graph, &c->step);
    x = diti_transformer_embed(model, graph, &c->step);
    for (i = 0; i < model->traits.layers; i++) {
        x = diti_transformer_block(model, graph, &c->step, i, x);
        diti_format(name, sizeof name, "polish.%s.mid.layers.%u", which, (unsigned)i);
        golden_expect(&c->m, name, x, golden_ideogram4_rows(c, which, "polish.%s.mid.layers.%u", i), GOLDEN_BLOCK);
        x = golden_copy(&c->m, golden_give(&c->m, DITI_F32, diti_tensor_rows(graph, x), model->traits.width,
                                           golden_ideogram4_rows(c, which, "polish.%s.mid.layers.%u", i)));
    }
}

/* The first call of a transformer: which is "cond", which reads the text, or "uncond". */
static inline void golden_ideogram4_evaluate(golden *g, const golden_folder *folder, const diti_transformer *model,
                                             const char *which) {
    golden_case c = DITI_ZERO;
    diti_step_desc *d = &c.step;
    uint32_t channels = model->traits.latent_channels;
    uint64_t count = 0;
    float *time, *values;
    golden_graph_begin(&c.m, g, folder);
    time = golden_floats(folder->golden, "polish.cond.in.timestep", &count);
    c.timestep = 1000 * (1 - time[0]);
    free(time);
    d->batch = d->branches = d->steps = d->text_batch = 1;
    d->height = GOLDEN_IDEOGRAM4_ROWS;
    d->width = GOLDEN_IDEOGRAM4_COLUMNS;
    if (diti_equal(which, "cond")) {
        values = golden_floats(folder->golden, "polish.text", &count);
        d->text_tokens = (uint32_t)count / model->traits.text_columns;
        d->text = golden_give(&c.m, DITI_F32, d->text_tokens, model->traits.text_columns, values);
    }
    values = golden_floats(folder->golden, "polish.cond.in.hidden_states", &count);
    d->latent = golden_give(&c.m, DITI_F32, channels, GOLDEN_IDEOGRAM4_IMAGE,
                            golden_transpose(values, GOLDEN_IDEOGRAM4_IMAGE, channels));
    d->row = golden_give_u32(&c.m, 0);
    diti_transformer_prepare(model, &c.m.graph, d);
    diti_graph_segment(&c.m.graph, "step", true);
    if (!diti_graph_failed(&c.m.graph)) golden_ideogram4_parts(&c, model, which);
    values = golden_ideogram4_rows(&c, which, "polish.%s.out", 0);
    for (count = 0; count < GOLDEN_IDEOGRAM4_IMAGE * channels; count++)
        values[count] = -values[count]; /* to the noise */
    golden_expect(&c.m, which, diti_transformer_step(model, &c.m.graph, d),
                  golden_transpose(values, GOLDEN_IDEOGRAM4_IMAGE, channels), GOLDEN_MODEL);
    golden_case_run(&c, model);
}

static bool golden_ideogram4_unconditional;

static inline bool golden_ideogram4_case(golden *g, const golden_folder *folder, const diti_transformer *model,
                                         uint32_t index) {
    if (index) return false;
    golden_ideogram4_evaluate(g, folder, model, golden_ideogram4_unconditional ? "uncond" : "cond");
    return true;
}

static inline void golden_ideogram4_transformer(golden *g, const golden_folder *folder, const char *which) {
    char path[96];
    diti_json *config;
    diti_checkpoint *weights;
    golden_ideogram4_unconditional = diti_starts_with(which, "unconditional");
    diti_format(path, sizeof path, "%s/config.json", which);
    config = golden_open_json(&g->env, folder->path, path);
    diti_format(path, sizeof path, "%s/diffusion_pytorch_model.safetensors", which);
    weights = golden_open_checkpoint(&g->env, folder->path, path);
    golden_run_cases(g, folder, config, weights, golden_ideogram4_case);
    golden_run_original(g, folder, config, weights, golden_ideogram4_case);
    diti_checkpoint_close(weights);
    diti_json_free(&g->env, config);
}

/* sigmas.STEPS.WIDTHxHEIGHT */
static inline void golden_ideogram4_schedules(golden *g, const golden_folder *folder) {
    static const uint32_t known[][3] = {{48, 2048, 2048}, {20, 768, 1024}, {12, 1536, 1024}};
    size_t k;
    for (k = 0; k < DITI_COUNT(known); k++) {
        uint32_t steps = known[k][0], tokens = known[k][1] / 16 * (known[k][2] / 16), i;
        char name[64];
        uint64_t count;
        float *expected, out[64];
        diti_format(name, sizeof name, "sigmas.%u.%ux%u", (unsigned)steps, (unsigned)known[k][1],
                    (unsigned)known[k][2]);
        expected = golden_floats(folder->golden, name, &count);
        for (i = 0; i < steps; i++) out[i] = (float)diti_ideogram4_sigma(i, steps, tokens);
        if (golden_require(g, expected && count == steps, "%s is there", name))
            golden_compare(g, name, out, expected, steps, 2e-7);
        free(expected);
    }
}

static const char *const golden_ideogram4_beside[][2] = {{"text_encoder/", "tests/fixtures/pipe_krea2"},
                                                         {"tokenizer/", "tests/fixtures/pipe_krea2"},
                                                         {"vae/", "tests/fixtures/pipe_flux2_klein"}};

/* Rows of a text on either side of where a band of rows ends whose states are dealt together. */
static inline void golden_ideogram4_long(golden *g, const golden_folder *folder, dit_context *context,
                                         const dit_model *model) {
    enum { TIMES = 60, FIRST = 250, ROWS = 13 };
    static const char words[] = "a fox runs ";
    char prompt[TIMES * sizeof words] = "";
    dit_error err = DITI_ZERO;
    diti_conditioning out;
    uint64_t count = 0;
    size_t size = 0;
    void *blob = NULL;
    uint32_t i;
    float *rows = golden_floats(folder->golden, "long.text", &count);
    bool good;
    for (i = 0; i < TIMES; i++) memcpy(prompt + i * (sizeof words - 1), words, sizeof words);
    good = dit_encode_prompt(context, model, prompt, NULL, &size, &err) == DIT_OK;
    if (good) blob = malloc(size);
    good = good && dit_encode_prompt(context, model, prompt, blob, &size, &err) == DIT_OK &&
           diti_conditioning_from_blob(&g->env, "golden", blob, size, &out, &err) == DIT_OK;
    if (golden_require(g, good, "a long prompt is encoded %s", err.message)) {
        if (golden_require(g, out.texts[0].length > FIRST + ROWS && count == ROWS * out.texts[0].columns, "long.text"))
            golden_compare(g, "long.text", out.texts[0].rows + (size_t)FIRST * out.texts[0].columns, rows, count,
                           golden_tolerance(GOLDEN_MODEL));
        diti_conditioning_free(&g->env, &out);
    }
    free(blob);
    free(rows);
}

/* Noise that a seed draws, token by token; and a long text. */
static inline void golden_ideogram4_noise(golden *g, const golden_folder *folder) {
    golden_beside source = DITI_ZERO;
    dit_model_desc desc = DITI_ZERO;
    dit_job_desc wish = DITI_ZERO;
    dit_error err = DITI_ZERO;
    golden_pipe p = DITI_ZERO;
    dit_job *job = NULL;
    uint64_t count;
    float *noise = golden_floats(folder->golden, "noise.seed7", &count);
    source.parts = golden_ideogram4_beside;
    source.count = DITI_COUNT(golden_ideogram4_beside);
    source.path = folder->path;
    desc.source.open = golden_beside_open;
    desc.source.user = &source;
    noise = golden_transpose(noise, GOLDEN_IDEOGRAM4_IMAGE, (uint32_t)count / GOLDEN_IDEOGRAM4_IMAGE);
    if (golden_pipe_load(&p, g, folder, &desc)) {
        wish.model = p.model;
        wish.width = 16 * GOLDEN_IDEOGRAM4_COLUMNS;
        wish.height = 16 * GOLDEN_IDEOGRAM4_ROWS;
        wish.steps = 1;
        wish.seed = 7;
        if (golden_require(g, dit_job_create(p.context, &wish, &job, &err) == DIT_OK, "noise: %s", err.message))
            golden_compare(g, "noise.seed7", job->request.noise, noise, count, 1e-6);
        golden_ideogram4_long(g, folder, p.context, p.model);
    }
    dit_job_destroy(job);
    golden_pipe_close(&p);
    free(noise);
}

/* A picture that is given becomes tokens in the order of the model's. */
static inline void golden_ideogram4_encode(golden *g, const golden_folder *folder) {
    const uint32_t height = 16 * GOLDEN_IDEOGRAM4_ROWS, width = 16 * GOLDEN_IDEOGRAM4_COLUMNS;
    diti_json *config = golden_open_json(&g->env, "tests/fixtures/pipe_flux2_klein", "vae/config.json");
    diti_checkpoint *weights =
        golden_open_checkpoint(&g->env, "tests/fixtures/pipe_flux2_klein", "vae/diffusion_pytorch_model.safetensors");
    dit_error err = DITI_ZERO;
    diti_vae *vae = NULL;
    golden_graph m;
    uint64_t count;
    diti_tensor x;
    float *picture = golden_floats(folder->golden, "encode.in.image", &count);
    picture = golden_transpose(picture, 3, height * width);
    if (golden_open_device(g) &&
        golden_require(g, diti_vae_load(golden_shared.device, &g->env, config, weights, "", NULL, &vae, &err) == DIT_OK,
                       "the autoencoder %s", err.message)) {
        diti_vae_put_pixels_last(vae, NULL, NULL);
        golden_graph_begin(&m, g, folder);
        x = golden_copy(&m, golden_give(&m, DITI_F32, height * width, 3, picture));
        x = diti_vae_encode(vae, &m.graph, x, height, width, 0);
        golden_expect(&m, "encode.mean",
                      diti_tensor_view(&m.graph, x, 0, GOLDEN_IDEOGRAM4_IMAGE, 0, diti_tensor_columns(&m.graph, x) / 2),
                      golden_floats(folder->golden, "encode.mean", &count), GOLDEN_MODEL);
        if (golden_require(g, golden_graph_create(&m, &err) == DIT_OK, "encode is planned %s", err.message))
            golden_graph_run(&m);
        golden_graph_end(&m);
    }
    diti_vae_destroy(vae);
    diti_checkpoint_close(weights);
    diti_json_free(&g->env, config);
}

static inline void golden_ideogram4_call(golden *g, const golden_folder *folder, const char *name,
                                         const diti_json *call) {
    golden_beside source = DITI_ZERO;
    source.parts = golden_ideogram4_beside;
    source.count = DITI_COUNT(golden_ideogram4_beside);
    golden_beside_call(g, folder, name, call, &source);
}

/* Either branch on a device of its own; full sweeps: rows, heads and blocks divided among devices, too. */
static inline void golden_ideogram4_split(golden *g, const golden_folder *folder, const char *name,
                                          const diti_json *call) {
    static const char *const splits[][2] = {
        {"cfg2", "0,0"}, {"tensor3", "0,0,0"}, {"layers2", "0,0"}, {"ulysses3", "0,0,0"}, {"cfg2,ring2", "0,0,0,0"}};
    golden on = *g;
    size_t i;
    for (i = 0; i < (test_sweeps() ? DITI_COUNT(splits) : 1) && diti_equal(name, "polish"); i++) {
        on.split = splits[i][0];
        on.device = splits[i][1];
        golden_ideogram4_call(&on, folder, name, call);
    }
    g->compared = on.compared;
}

/* Bindings do not hold the states of a long text together. */
static inline void golden_ideogram4_narrow(golden *g, const golden_folder *folder) {
    golden on = *g;
    if (g->overrides || g->split) return;
    on.overrides = "storage_range=700000";
    golden_ideogram4_noise(&on, folder);
    g->compared = on.compared;
}

static inline void golden_run_ideogram4(golden *g, const golden_folder *folder) {
    golden_ideogram4_schedules(g, folder);
    golden_ideogram4_noise(g, folder);
    golden_ideogram4_narrow(g, folder);
    golden_ideogram4_encode(g, folder);
    golden_ideogram4_transformer(g, folder, "transformer");
    golden_ideogram4_transformer(g, folder, "unconditional_transformer");
    golden_each_call(g, folder, golden_ideogram4_call);
    if (!g->split) golden_each_call(g, folder, golden_ideogram4_split);
}
#endif
