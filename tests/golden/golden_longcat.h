/* LongCat-Image, Edit too, and Ovis-Image: the text as blocks read it, blocks, an evaluation, and the pipeline, whose
   other parts are those of fixtures beside the folder. */
#ifndef GOLDEN_LONGCAT_H
#define GOLDEN_LONGCAT_H
#include "golden_calls.h"
#include "golden_originals.h"

static inline bool golden_is_longcat(const golden_folder *folder) {
    return folder->golden && (diti_equal(folder->name, "pipe_longcat") || diti_equal(folder->name, "pipe_ovis"));
}

/* The recorded rows of text or image behind a block. */
static inline void golden_longcat_expect(golden_case *c, const char *block, uint32_t index, uint32_t stream,
                                         diti_tensor x) {
    uint32_t text = c->step.text_tokens, image = c->step.height / 2 * (c->step.width / 2),
             width = diti_tensor_columns(&c->m.graph, x), rows = stream ? image : text;
    char name[64];
    diti_format(name, sizeof name, "mid.%s.%u.%u", block, index, stream);
    golden_expect(&c->m, name, diti_tensor_view(&c->m.graph, x, stream ? text : 0, rows, 0, width),
                  golden_case_rows(c, name, rows, width), GOLDEN_BLOCK);
}

static inline void golden_longcat_parts(golden_case *c, const diti_transformer *model) {
    const diti_longcat_config *config = &diti_longcat_of(model)->config;
    diti_step_desc *d = &c->step;
    uint32_t i, stream;
    diti_tensor x;
    golden_expect(&c->m, "mid.context_embedder", diti_longcat_state_of(d)->text,
                  golden_case_rows(c, "mid.context_embedder", d->text_tokens, config->width), GOLDEN_BLOCK);
    diti_transformer_begin(model, &c->m.graph, d);
    x = diti_transformer_embed(model, &c->m.graph, d);
    for (i = 0; i < config->doubles + config->singles; i++) {
        bool single = i >= config->doubles;
        x = diti_transformer_block(model, &c->m.graph, d, i, x);
        for (stream = 0; stream < DITI_JOINT_STREAMS; stream++)
            golden_longcat_expect(c, single ? "single_transformer_blocks" : "transformer_blocks",
                                  single ? i - config->doubles : i, stream, x);
    }
}

static inline bool golden_run_longcat_case(golden *g, const golden_folder *folder, const diti_transformer *model,
                                           uint32_t index) {
    uint32_t columns = model->traits.text_columns, channels = model->traits.latent_channels, length, firsts = 0,
             unit = model->traits.text_unit;
    golden_case c = DITI_ZERO;
    diti_step_desc *d = &c.step;
    float *values;
    uint64_t count;
    c.index = index;
    c.m.folder = folder;
    if (!golden_case_has(&c, "in.hidden_states")) return false;
    golden_graph_begin(&c.m, g, folder);
    values = golden_case_rows(&c, "in.timestep", 1, 1);
    c.timestep = 1000 * values[0];
    free(values);
    values = golden_floats(folder->golden, "case0.in.encoder_hidden_states", &count);
    d->batch = d->branches = d->text_batch = d->steps = 1;
    d->height = 6;
    d->width = 8;
    length = (uint32_t)(count / columns);
    d->text_tokens = (length + unit - 1) / unit * unit;
    d->text_lengths = &length;
    d->text_firsts = &firsts;
    d->text = golden_give(&c.m, DITI_F32, length, columns, values);
    d->latent = golden_give(
        &c.m, DITI_F32, channels, 48,
        golden_pipe_unpack(golden_case_rows(&c, "in.hidden_states", 12, 4 * channels), channels * 48, 6, 8, 2));
    d->row = golden_give_u32(&c.m, 0);
    diti_transformer_prepare(model, &c.m.graph, d);
    diti_graph_segment(&c.m.graph, "step", true);
    if (!diti_graph_failed(&c.m.graph)) golden_longcat_parts(&c, model);
    golden_expect(&c.m, "case0.out", diti_transformer_step(model, &c.m.graph, d),
                  golden_pipe_unpack(golden_case_rows(&c, "out", 12, 4 * channels), channels * 48, 6, 8, 2),
                  GOLDEN_MODEL);
    golden_case_run(&c, model);
    return true;
}

static inline void golden_longcat_call(golden *g, const golden_folder *folder, const char *name,
                                       const diti_json *call) {
    static const char *const parts[2][3][2] = {{{"text_encoder/", "tests/fixtures/pipe_qwenimage"},
                                                {"tokenizer/", "tests/fixtures/pipe_qwenimage"},
                                                {"vae/", "tests/fixtures/pipe_flux"}},
                                               {{"text_encoder/", "tests/fixtures/pipe_zimage"},
                                                {"tokenizer/", "tests/fixtures/pipe_zimage"},
                                                {"vae/", "tests/fixtures/pipe_flux"}}};
    golden_beside source = DITI_ZERO;
    source.parts = parts[diti_equal(folder->name, "pipe_ovis")];
    source.count = DITI_COUNT(parts[0]);
    if (diti_equal(name, "edit")) { /* a small picture, as the fixture was made */
        source.index = "{\"_class_name\": \"LongCatImageEditPipeline\"}";
        source.area = 128 * 128;
    }
    golden_beside_call(g, folder, name, call, &source);
}

/* Equal tensors are several models by a pipeline's class and a scheduler. */
static inline void golden_longcat_settle(golden *g, const diti_json *config, const diti_checkpoint *weights) {
    static const struct {
        const char *index, *scheduler, *variant;
        uint32_t steps, references;
        float guidance;
    } cases[] = {{"{}", "{}", "1.0", 50, 1, 4.5f},
                 {"{\"_class_name\": \"LongCatImagePipeline\"}", "{}", "1.0", 50, 0, 4.5f},
                 {"{\"_class_name\": \"LongCatImageEditPipeline\"}", "{}", "edit", 50, 1, 4.5f},
                 {"{\"_class_name\": \"LongCatImageEditPipeline\"}", "{\"base_shift\": 1.15, \"max_shift\": 1.15}",
                  "edit-turbo", 8, 1, 1}};
    size_t i;
    for (i = 0; i < DITI_COUNT(cases); i++) {
        diti_transformer *model = NULL;
        diti_json *index = NULL, *scheduler = NULL;
        const diti_model_traits *traits;
        dit_error err = DITI_ZERO;
        if (!golden_require(
                g,
                diti_transformer_load(NULL, &g->env, config, weights, "", NULL, &model, &err) == DIT_OK &&
                    diti_json_parse(&g->env, cases[i].index, strlen(cases[i].index), "index", &index, &err) == DIT_OK &&
                    diti_json_parse(&g->env, cases[i].scheduler, strlen(cases[i].scheduler), "scheduler", &scheduler,
                                    &err) == DIT_OK,
                "%s", err.message))
            return;
        traits = &model->traits;
        if (traits->settle) model->traits.settle(&model->traits, index, scheduler);
        golden_check(g,
                     diti_equal(traits->variant, cases[i].variant) && traits->default_steps == cases[i].steps &&
                         traits->references == cases[i].references && traits->default_guidance == cases[i].guidance,
                     "%s is \"%s\", with %u steps, guidance %g and %u references", cases[i].index, traits->variant,
                     traits->default_steps, (double)traits->default_guidance, traits->references);
        diti_json_free(&g->env, index);
        diti_json_free(&g->env, scheduler);
        diti_transformer_destroy(model);
    }
}

static inline void golden_run_longcat(golden *g, const golden_folder *folder) {
    diti_json *config = golden_open_json(&g->env, folder->path, "transformer/config.json");
    diti_checkpoint *weights =
        golden_open_checkpoint(&g->env, folder->path, "transformer/diffusion_pytorch_model.safetensors");
    golden_run_cases(g, folder, config, weights, golden_run_longcat_case);
    golden_run_original(g, folder, config, weights, golden_run_longcat_case);
    if (diti_equal(folder->name, "pipe_longcat")) golden_longcat_settle(g, config, weights);
    diti_checkpoint_close(weights);
    diti_json_free(&g->env, config);
    golden_each_call(g, folder, golden_longcat_call);
}
#endif
