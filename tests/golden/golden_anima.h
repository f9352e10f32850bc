/* Anima's transformer: every block on what the one before it made, both branches of the first step alone, and the whole
   pipeline from recorded embeddings, and from prompts where the text's parts are there, with its parts as components.
 */
#ifndef GOLDEN_ANIMA_H
#define GOLDEN_ANIMA_H
#include "golden_originals.h"
#include "golden_pipe.h"

static inline bool golden_is_anima(const golden_folder *folder) {
    return folder->golden && diti_checkpoint_find(folder->golden, "cond.source_hidden_states") != NULL;
}

static inline float *golden_anima_floats(const golden_folder *folder, const char *name) {
    uint64_t count;
    return golden_floats(folder->golden, name, &count);
}

static inline void golden_anima_parts(golden_case *c, const diti_transformer *model) {
    uint32_t i, rows, width = model->traits.width;
    diti_graph *graph = &c->m.graph;
    char name[96];
    diti_tensor x;
    diti_transformer_begin(model, graph, &c->step);
    x = diti_transformer_embed(model, graph, &c->step);
    for (i = 0; i < model->traits.layers && !diti_graph_failed(graph); i++) {
        x = diti_transformer_block(model, graph, &c->step, i, x);
        rows = diti_tensor_rows(graph, x);
        diti_format(name, sizeof name, "call0.mid.transformer_blocks.%u", (unsigned)i);
        golden_expect(&c->m, name, x, golden_anima_floats(c->m.folder, name), GOLDEN_BLOCK);
        x = golden_copy(&c->m, golden_give(&c->m, DITI_F32, rows, width, golden_anima_floats(c->m.folder, name)));
    }
}

/* A branch of the first step: 32 rows of text, zeros among them. */
static inline void golden_anima_evaluate(golden *g, const golden_folder *folder, const diti_transformer *model,
                                         const char *text, const char *output, bool parts) {
    golden_case c = DITI_ZERO;
    diti_step_desc *d = &c.step;
    golden_graph_begin(&c.m, g, folder);
    c.timestep = 1000;
    d->batch = d->branches = d->steps = d->text_batch = 1;
    d->height = 8;
    d->width = 12;
    d->text_tokens = 32;
    d->text = golden_give(&c.m, DITI_F32, 32, model->traits.text_columns, golden_anima_floats(folder, text));
    d->latent = golden_give(&c.m, DITI_F32, 16, 96, golden_anima_floats(folder, "in.latents"));
    d->row = golden_give_u32(&c.m, 0);
    diti_transformer_prepare(model, &c.m.graph, d);
    diti_graph_segment(&c.m.graph, "step", true);
    if (parts) golden_anima_parts(&c, model);
    golden_expect(&c.m, output, diti_transformer_step(model, &c.m.graph, d), golden_anima_floats(folder, output),
                  GOLDEN_MODEL);
    golden_case_run(&c, model);
}

static inline bool golden_run_anima_case(golden *g, const golden_folder *folder, const diti_transformer *model,
                                         uint32_t index) {
    if (index > 1) return false;
    golden_anima_evaluate(g, folder, model, index ? "uncond.prompt_embeds" : "cond.prompt_embeds",
                          index ? "model_call1.out" : "model_call0.out", index == 0);
    return true;
}

static inline void golden_anima_transformer(golden *g, const golden_folder *folder) {
    diti_json *json = golden_open_json(&g->env, folder->path, "transformer/config.json");
    diti_checkpoint *weights =
        golden_open_checkpoint(&g->env, folder->path, "transformer/diffusion_pytorch_model.safetensors");
    golden_run_cases(g, folder, json, weights, golden_run_anima_case);
    golden_run_original(g, folder, json, weights, golden_run_anima_case);
    diti_checkpoint_close(weights);
    diti_json_free(&g->env, json);
}

#define GOLDEN_ANIMA_PARTS 7u
/* The parts of a pipeline without model_index.json; those of the text where they are there, with the tokenizer of T5
   that stands beside the folder. conditioner: its file instead, or NULL. */
static inline bool golden_anima_open(golden_pipe *p, golden *g, const golden_folder *folder, bool text,
                                     const bytes *conditioner) {
    static const char *const folders[GOLDEN_ANIMA_PARTS] = {
        "transformer", "vae", "scheduler", "text_encoder", "text_conditioner", "tokenizer", "../tokenizers/t5"};
    static const dit_role roles[GOLDEN_ANIMA_PARTS] = {DIT_ROLE_TRANSFORMER, DIT_ROLE_VAE,    DIT_ROLE_SCHEDULER,
                                                       DIT_ROLE_TEXT_1,      DIT_ROLE_TEXT_2, DIT_ROLE_TOKENIZER_1,
                                                       DIT_ROLE_TOKENIZER_2};
    dit_component components[GOLDEN_ANIMA_PARTS];
    dit_context_desc context = DITI_ZERO;
    dit_model_desc desc = DITI_ZERO;
    dit_error err = DITI_ZERO;
    char overrides[256], paths[GOLDEN_ANIMA_PARTS][1024];
    uint32_t i, count = text ? GOLDEN_ANIMA_PARTS : 3;
    memset(components, 0, sizeof components);
    for (i = 0; i < count; i++) {
        golden_join(paths[i], sizeof paths[i], folder->path, folders[i]);
        components[i].role = roles[i];
        components[i].source.path = paths[i];
        if (conditioner && roles[i] == DIT_ROLE_TEXT_2) components[i].source = memory_source(conditioner);
    }
    p->g = g;
    p->folder = folder;
    golden_overrides(g, overrides, sizeof overrides);
    context.overrides = overrides;
    context.devices = g->split && !g->device ? "0,1" : g->device;
    desc.components = components;
    desc.component_count = count;
    return golden_require(g, dit_context_create(&context, &p->context, &err) == DIT_OK, "%s", err.message) &&
           golden_require(g, dit_model_load(p->context, &desc, &p->model, &err) == DIT_OK, "%s", err.message);
}

static inline void golden_anima_give(const golden_folder *folder, dit_tensor *input, const char *name,
                                     const char *tensor) {
    const diti_stored_tensor *stored = diti_checkpoint_find(folder->golden, tensor);
    memset(input, 0, sizeof *input);
    input->name = name;
    input->type = DIT_TYPE_F32;
    input->rank = stored->rank == 5 ? 4 : stored->rank;
    memcpy(input->shape, stored->shape, input->rank * sizeof *input->shape);
    if (stored->rank == 5) input->shape[2] = stored->shape[3], input->shape[3] = stored->shape[4];
    input->data = golden_anima_floats(folder, tensor);
}

/* The blob of a prompt against the conditioner's rows, of which those behind the prompt's tokens are zeros. */
static inline void golden_anima_blob(golden_pipe *p, const char *prompt, const char *name) {
    uint64_t count = 0, i;
    float *reference = golden_floats(p->folder->golden, name, &count), *rows;
    unsigned char blob[65536];
    size_t size = sizeof blob;
    dit_error err = DITI_ZERO;
    if (golden_require(p->g, dit_encode_prompt(p->context, p->model, prompt, blob, &size, &err) == DIT_OK, "%s",
                       err.message)) {
        rows = (float *)malloc((size_t)count * sizeof *rows);
        memcpy(rows, blob + size - (size_t)count * sizeof *rows, (size_t)count * sizeof *rows);
        for (i = 0; i < count; i++)
            if (reference[i] == 0) rows[i] = 0;
        golden_compare(p->g, name, rows, reference, count, diti_equal(p->g->rung, "base") ? GOLDEN_MODEL : GOLDEN_FP16);
        free(rows);
    }
    free(reference);
}

/* The whole pipeline: from prompts, or from the rows that were recorded. */
static inline void golden_anima_pipe(golden *g, const golden_folder *folder, bool text) {
    golden_pipe p = DITI_ZERO;
    dit_job_desc desc = DITI_ZERO;
    dit_tensor inputs[3];
    dit_error err = DITI_ZERO;
    dit_job *job = NULL;
    uint32_t i;
    if (!golden_anima_open(&p, g, folder, text, NULL)) {
        golden_pipe_close(&p);
        return;
    }
    p.model->texts[DITI_TEXT_FIRST].tokens = p.model->transformer->traits.text_tokens = 32; /* as recorded */
    for (i = 0; i < 2; i++) p.model->encoders[i].tokens = 32;
    golden_anima_give(folder, &inputs[0], "noise", "in.latents");
    golden_anima_give(folder, &inputs[1], "prompt_embeds", "cond.prompt_embeds");
    golden_anima_give(folder, &inputs[2], "negative_prompt_embeds", "uncond.prompt_embeds");
    desc.model = p.model;
    desc.split = g->split;
    desc.width = 96;
    desc.height = 64;
    desc.steps = 3;
    desc.guidance.scale = 4;
    desc.inputs = inputs;
    desc.input_count = text ? 1 : 3;
    if (text) {
        desc.prompt = "a photo of an astronaut riding a horse on mars, highly detailed";
        desc.negative_prompt = "blurry, low quality";
        golden_anima_blob(&p, desc.prompt, "cond.prompt_embeds");
        golden_anima_blob(&p, desc.negative_prompt, "uncond.prompt_embeds");
    }
    if (golden_require(g,
                       dit_job_create(p.context, &desc, &job, &err) == DIT_OK &&
                           (dit_job_wait(job, UINT64_MAX) == DIT_OK || (dit_job_status(job, NULL, &err), false)),
                       "the pipeline runs %s", err.message)) {
        golden_pipe_latents(&p, job, "step2.latents", 0, 0, 16 * 96);
        golden_pipe_image(&p, job, "out.image01", 0, 0, 96 * 64);
    }
    dit_job_destroy(job);
    for (i = 0; i < 3; i++) free((void *)(uintptr_t)inputs[i].data);
    golden_pipe_close(&p);
}

/* The conditioner in files that hold the transformer, too, in front of whose names ComfyUI has what it will. */
static inline void golden_anima_conditioner(golden *g, const golden_folder *folder) {
    static const char *const befores[] = {"net.llm_adapter.", "llm_adapter.", "model.diffusion_model.llm_adapter."};
    diti_checkpoint *from =
        golden_open_checkpoint(&g->env, folder->path, "text_conditioner/diffusion_pytorch_model.safetensors");
    size_t i;
    for (i = 0; from && i < DITI_COUNT(befores); i++) {
        golden_original to = {NULL, befores[i], golden_same_names, DITI_COUNT(golden_same_names), NULL, false};
        bytes file = golden_original_file(g, from, &to);
        golden_pipe p = DITI_ZERO;
        if (golden_anima_open(&p, g, folder, true, &file)) {
            p.model->texts[DITI_TEXT_FIRST].tokens = p.model->encoders[0].tokens = p.model->encoders[1].tokens = 32;
            golden_anima_blob(&p, "blurry, low quality", "uncond.prompt_embeds");
        }
        golden_pipe_close(&p);
        bytes_free(&file);
    }
    diti_checkpoint_close(from);
}

static inline void golden_run_anima(golden *g, const golden_folder *folder) {
    golden_anima_transformer(g, folder);
    golden_anima_pipe(g, folder, false);
    if (!golden_has(folder->path, "text_conditioner/config.json")) return;
    golden_anima_pipe(g, folder, true);
    golden_anima_conditioner(g, folder);
}
#endif
