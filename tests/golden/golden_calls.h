/* Pipelines whose README records several calls, "call NAME: {arguments}", with noise and results under NAME: models
   that a chat template asks a language model for. */
#ifndef GOLDEN_CALLS_H
#define GOLDEN_CALLS_H
#include "golden_pipe.h"

static inline bool golden_is_calls(const golden_folder *folder) {
    return folder->golden && folder->readme && golden_has(folder->path, "model_index.json") &&
           strstr(folder->readme, "\ncall ") != NULL;
}

/* The fixture's prompts have fewer rows than the pipeline allows. */
static inline void golden_calls_crop(dit_model *model, uint32_t tokens) {
    uint32_t i;
    model->texts[DITI_TEXT_FIRST].tokens = tokens;
    model->transformer->traits.text_tokens = tokens;
    for (i = 0; i < DITI_ENCODERS; i++)
        if (model->encoders[i].tokens)
            model->encoders[i].tokens = tokens + (model->encoders[i].chat ? model->encoders[i].dropped : 0);
}

/* Kinds of calls that this program does not know how to make. */
static inline bool golden_calls_later(const golden_folder *folder, const char *name) {
    static const char *const later[] = {"batch2", "kv_edit1", "base_norm"};
    size_t i;
    for (i = 0; i < DITI_COUNT(later); i++)
        if (diti_equal(name, later[i])) return true;
    (void)folder;
    return false;
}

/* A recorded picture as reference `index`, RGBA; how many there are with it: 0 where it is not recorded. */
static inline uint32_t golden_calls_pictures(golden_pipe *p, const char *tensor, uint32_t index) {
    uint64_t values, i;
    const diti_stored_tensor *stored = diti_checkpoint_find(p->folder->golden, tensor);
    uint8_t *rgba;
    float *rgb;
    if (!stored || index >= GOLDEN_REFERENCES) return 0;
    rgb = golden_floats(p->folder->golden, tensor, &values);
    rgba = (uint8_t *)malloc((size_t)values / 3 * 4);
    for (i = 0; i < values / 3; i++) {
        rgba[4 * i] = (uint8_t)rgb[3 * i];
        rgba[4 * i + 1] = (uint8_t)rgb[3 * i + 1];
        rgba[4 * i + 2] = (uint8_t)rgb[3 * i + 2];
        rgba[4 * i + 3] = 255;
    }
    free(rgb);
    p->pictures[index].width = (uint32_t)stored->shape[1];
    p->pictures[index].height = (uint32_t)stored->shape[0];
    p->pictures[index].rgba = rgba;
    p->references[index].frames = &p->pictures[index];
    return index + 1;
}

/* The pictures that a call refers to. */
static inline uint32_t golden_calls_references(golden_pipe *p, const char *name) {
    uint32_t count = 0, more = 1;
    while (more) {
        char tensor[64];
        diti_format(tensor, sizeof tensor, "%s.ref%u.image_u8", name, (unsigned)count);
        more = golden_calls_pictures(p, tensor, count);
        diti_format(tensor, sizeof tensor, "%s.image%u_u8", name, (unsigned)count);
        if (!more) more = golden_calls_pictures(p, tensor, count);
        if (more) count = more;
    }
    return count;
}

/* The static shift that makes the recorded sigmas of equal steps; 0: the scheduler's shift depends on the size. */
static inline float golden_calls_shift(const golden_pipe *p, const char *name, uint32_t steps) {
    char sigmas[64];
    uint64_t count;
    float *values, rest = 1.0f / (float)steps, shift = 0;
    diti_format(sigmas, sizeof sigmas, "%s.sigmas", name);
    if (diti_json_bool(p->model->scheduler, "use_dynamic_shifting", false)) return 0;
    values = golden_floats(p->folder->golden, sigmas, &count);
    if (values && count > 2) shift = values[1] * rest / ((1 - rest) * (1 - values[1]));
    free(values);
    return shift;
}

static inline void golden_calls_one(golden *g, const golden_folder *folder, const char *name, const diti_json *call) {
    golden_pipe p = DITI_ZERO;
    char noise[64], latents[64], image[64];
    uint32_t steps = (uint32_t)diti_json_number(call, "num_inference_steps", 1),
             tokens = (uint32_t)diti_json_number(call, "max_sequence_length", 0);
    diti_format(noise, sizeof noise, "%s.in.latents", name);
    diti_format(latents, sizeof latents, "%s.step%u.latents", name, (unsigned)steps - 1);
    diti_format(image, sizeof image, "%s.out.image01", name);
    if (golden_pipe_open(&p, g, folder, folder->path)) {
        if (tokens) golden_calls_crop(p.model, tokens);
        p.shift = golden_calls_shift(&p, name, steps);
        p.reference_count = golden_calls_references(&p, name);
        if (diti_starts_with(name, "raw")) p.model->transformer->traits.fixed_shift = 0;
        if (p.model->transformer->traits.shown_area) { /* small ones, as the fixture was made */
            p.model->transformer->traits.reference_area = 64 * 64;
            p.model->transformer->traits.shown_area = 84 * 84;
        }
        golden_pipe_call(&p, call, noise, latents, image);
        while (p.reference_count) free((void *)(uintptr_t)p.pictures[--p.reference_count].rgba);
    }
    golden_pipe_close(&p);
}

static inline void golden_run_calls(golden *g, const golden_folder *folder) {
    const char *at = folder->readme;
    while ((at = strstr(at, "\ncall ")) != NULL) {
        const char *colon = strchr(at, ':'), *end = colon ? strchr(colon, '\n') : NULL;
        diti_json *call = NULL;
        char name[32];
        at += sizeof "\ncall " - 1;
        if (!colon || !end) break;
        diti_format(name, sizeof name, "%.*s", (int)(colon - at), at);
        if (golden_calls_later(folder, name)) continue;
        if (golden_require(
                g, diti_json_parse(&g->env, colon + 1, (size_t)(end - colon - 1), "README", &call, NULL) == DIT_OK,
                "the arguments of call %s are JSON", name))
            golden_calls_one(g, folder, name, call);
        diti_json_free(&g->env, call);
    }
}
#endif
