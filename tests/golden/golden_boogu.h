/* Boogu-Image: blocks and an evaluation without and with pictures that it is made after, and the pipelines, whose other
   parts are those of fixtures beside the folder. */
#ifndef GOLDEN_BOOGU_H
#define GOLDEN_BOOGU_H
#include "golden_calls.h"
#include "golden_originals.h"

static inline bool golden_is_boogu(const golden_folder *folder) {
    return folder->golden && diti_equal(folder->name, "pipe_boogu");
}

/* Recorded rows of what a block makes, from `first` on. */
static inline void golden_boogu_expect(golden_case *c, const char *block, uint32_t index, diti_tensor x, uint32_t first,
                                       uint32_t rows) {
    uint32_t width = diti_tensor_columns(&c->m.graph, x);
    char name[64];
    diti_format(name, sizeof name, "mid.%s.%u", block, (unsigned)index);
    golden_expect(&c->m, name, diti_tensor_view(&c->m.graph, x, first, rows, 0, width),
                  golden_case_rows(c, name, rows, width), GOLDEN_BLOCK);
}

static inline void golden_boogu_parts(golden_case *c, const diti_transformer *model) {
    const diti_lumina2_config *config = &diti_lumina2_of(model)->config;
    diti_step_desc *d = &c->step;
    uint32_t text = d->text_tokens, image = d->height / 2 * (d->width / 2), i, row = text;
    diti_tensor x;
    golden_boogu_expect(c, "context_refiner", 0, diti_lumina2_state_of(d)->text, 0, text);
    diti_transformer_begin(model, &c->m.graph, d);
    x = diti_transformer_embed(model, &c->m.graph, d);
    x = diti_transformer_block(model, &c->m.graph, d, 0, x);
    golden_boogu_expect(c, "noise_refiner", 0, x, text + d->lead, image);
    for (i = 0; i < d->reference_count; i++) {
        uint32_t rows = d->references[i].height / 2 * (d->references[i].width / 2);
        golden_boogu_expect(c, "ref_image_refiner.0", i, x, row, rows);
        row += rows;
    }
    for (i = 0; i < config->doubles + config->blocks; i++) {
        bool single = i >= config->doubles;
        x = diti_transformer_block(model, &c->m.graph, d, config->refiners + i, x);
        golden_boogu_expect(c, single ? "single_stream_layers" : "double_stream_layers",
                            single ? i - config->doubles : i, x, 0, text + d->lead + image);
    }
}

static inline bool golden_run_boogu_case(golden *g, const golden_folder *folder, const diti_transformer *model,
                                         uint32_t index) {
    static const uint32_t sizes[2][2] = {{6, 8}, {4, 6}}, references[2][2] = {{6, 4}, {4, 4}};
    uint32_t columns = model->traits.text_columns, channels = model->traits.latent_channels, length, firsts = 0, i;
    golden_case c = DITI_ZERO;
    diti_step_desc *d = &c.step;
    float *values;
    uint64_t count;
    char name[40];
    c.index = index;
    c.m.folder = folder;
    if (!golden_case_has(&c, "in.hidden_states")) return false;
    golden_graph_begin(&c.m, g, folder);
    values = golden_case_rows(&c, "in.timestep", 1, 1);
    c.timestep = 1000 * (1 - values[0]);
    free(values);
    diti_format(name, sizeof name, "case%u.in.encoder_hidden_states", (unsigned)index);
    values = golden_floats(folder->golden, name, &count);
    d->batch = d->branches = d->text_batch = d->steps = 1;
    d->height = sizes[index][0];
    d->width = sizes[index][1];
    d->text_tokens = length = (uint32_t)(count / columns);
    d->text_lengths = &length;
    d->text_firsts = &firsts;
    d->text = golden_give(&c.m, DITI_F32, length, columns, values);
    d->latent = golden_give(&c.m, DITI_F32, channels, d->height * d->width,
                            golden_case_rows(&c, "in.hidden_states", channels, d->height * d->width));
    for (i = 0; i < 2 * index; i++) {
        uint32_t pixels = references[i][0] * references[i][1];
        diti_format(name, sizeof name, "in.ref%u", (unsigned)i);
        d->references[i].planes =
            golden_give(&c.m, DITI_F32, channels, pixels, golden_case_rows(&c, name, channels, pixels));
        d->references[i].height = references[i][0];
        d->references[i].width = references[i][1];
        d->reference_count++;
    }
    d->row = golden_give_u32(&c.m, 0);
    diti_transformer_prepare(model, &c.m.graph, d);
    diti_graph_segment(&c.m.graph, "step", true);
    if (!diti_graph_failed(&c.m.graph)) golden_boogu_parts(&c, model);
    values = golden_case_rows(&c, "out", channels, d->height * d->width);
    for (i = 0; i < channels * d->height * d->width; i++) values[i] = -values[i]; /* towards the noise */
    diti_format(name, sizeof name, "case%u.out", (unsigned)index);
    golden_expect(&c.m, name, diti_transformer_step(model, &c.m.graph, d), values, GOLDEN_MODEL);
    golden_case_run(&c, model);
    return true;
}

static inline void golden_boogu_call(golden *g, const golden_folder *folder, const char *name, const diti_json *call) {
    static const char *const parts[][2] = {{"text_encoder/", "tests/fixtures/pipe_krea2"},
                                           {"tokenizer/", "tests/fixtures/pipe_krea2"},
                                           {"vae/", "tests/fixtures/pipe_flux"}};
    static const char *const names[][2] = {{"mllm/", "text_encoder/"}, {"processor/", "tokenizer/"}};
    golden_beside source = DITI_ZERO;
    source.parts = parts;
    source.count = DITI_COUNT(parts);
    if (!diti_equal(name, "negative")) { /* as the original's repositories */
        source.names = names;
        source.name_count = DITI_COUNT(names);
    }
    if (diti_equal(name, "turbo")) source.index = "{\"_class_name\": \"BooguImageTurboPipeline\"}";
    golden_beside_call(g, folder, name, call, &source);
}

/* Timesteps of three steps by the original's scheduler, of 3072 tokens of an image, and what tells Turbo. */
static inline void golden_boogu_settle(golden *g, const diti_json *config, const diti_checkpoint *weights) {
    static const struct {
        const char *index, *scheduler, *variant;
        uint32_t steps;
        float sigmas[3];
    } cases[] = {
        {"{}", NULL, "0.1", 50, {1, 0.86332041f, 0.612267256f}},
        {"{}",
         "\"dynamic_time_shift\": false, \"time_shift_version\": \"v1\", \"seq_len\": 1024, \"base_shift\": 0.3, "
         "\"max_shift\": 1.0, ",
         "0.1",
         50,
         {1, 0.756419241f, 0.437049031f}},
        {"{}", "\"dynamic_time_shift\": false, \"seq_len\": 65536, ", "0.1", 50, {1, 0.810126588f, 0.516129017f}},
        {"{}", "\"dynamic_time_shift\": false, ", "0.1", 50, {1, 0.666666657f, 0.333333313f}},
        {"{}", "", "0.1", 50, {1, 0.648817301f, 0.31594938f}},
        {"{}", "\"time_shift_version\": \"v1\", ", "0.1", 50, {1, 0.841551006f, 0.570408821f}},
        {"{}", "\"do_shift\": false, ", "0.1", 50, {1, 0.666666657f, 0.333333313f}},
        {"{}", "\"shift\": 3.0, ", "0.1", 50, {1, 0.857142857f, 0.6f}}, /* diffusers' own scheduler */
        {"{\"_class_name\": \"BooguImageTurboPipeline\"}", "", "turbo", 4, {0.999f, 0.666f, 0.333f}}};
    size_t i, k;
    for (i = 0; i < DITI_COUNT(cases); i++) {
        diti_transformer *model = NULL;
        diti_json *index = NULL, *scheduler = NULL;
        diti_schedule_request wanted = DITI_ZERO;
        diti_schedule schedule = DITI_ZERO;
        char text[256];
        dit_error err = DITI_ZERO;
        diti_format(text, sizeof text, "{%s\"_class_name\": \"FlowMatchEulerDiscreteScheduler\"}",
                    cases[i].scheduler ? cases[i].scheduler : "");
        if (!golden_require(
                g,
                diti_transformer_load(NULL, &g->env, config, weights, "", NULL, &model, &err) == DIT_OK &&
                    diti_json_parse(&g->env, cases[i].index, strlen(cases[i].index), "index", &index, &err) == DIT_OK &&
                    diti_json_parse(&g->env, text, strlen(text), "scheduler", &scheduler, &err) == DIT_OK,
                "%s", err.message))
            return;
        model->traits.settle(&model->traits, index, cases[i].scheduler ? scheduler : NULL);
        wanted.steps = 3;
        wanted.image_tokens = 3072;
        wanted.uniform = model->traits.uniform_sigmas;
        wanted.shift = model->traits.fixed_shift;
        wanted.sigma = model->traits.sigma;
        wanted.sampler = model->traits.sampler ? model->traits.sampler : "euler";
        if (golden_require(g, diti_schedule_make(&g->env, scheduler, &wanted, &schedule, &err) == DIT_OK, "%s",
                           err.message))
            for (k = 0; k < 3; k++)
                golden_check(g, fabs((double)schedule.steps[k].timestep - 1000.0 * (double)cases[i].sigmas[k]) < 1e-3,
                             "%s: step %u is at %g, not %g", text, (unsigned)k, (double)schedule.steps[k].timestep,
                             1000 * (double)cases[i].sigmas[k]);
        golden_check(
            g, diti_equal(model->traits.variant, cases[i].variant) && model->traits.default_steps == cases[i].steps,
            "%s is \"%s\" with %u steps", cases[i].index, model->traits.variant, model->traits.default_steps);
        diti_schedule_free(&g->env, &schedule);
        diti_json_free(&g->env, index);
        diti_json_free(&g->env, scheduler);
        diti_transformer_destroy(model);
    }
}

static inline void golden_run_boogu(golden *g, const golden_folder *folder) {
    diti_json *config = golden_open_json(&g->env, folder->path, "transformer/config.json");
    diti_checkpoint *weights =
        golden_open_checkpoint(&g->env, folder->path, "transformer/diffusion_pytorch_model.safetensors");
    golden_run_cases(g, folder, config, weights, golden_run_boogu_case);
    golden_run_original(g, folder, config, weights, golden_run_boogu_case);
    golden_boogu_settle(g, config, weights);
    diti_checkpoint_close(weights);
    diti_json_free(&g->env, config);
    golden_each_call(g, folder, golden_boogu_call);
}
#endif
