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

/* A call with pictures that nobody recorded. */
static inline bool golden_calls_later(const golden_folder *folder, const char *name) {
    return diti_equal(name, "edit2") && !diti_checkpoint_find(folder->golden, "edit2.ref0.image_u8") &&
           !diti_checkpoint_find(folder->golden, "edit2.image0_u8");
}

/* A recorded picture as reference `index`, RGBA; how many there are with it: 0 where it is not recorded. */
static inline uint32_t golden_calls_pictures(golden_pipe *p, const char *tensor, uint32_t index) {
    if (index >= GOLDEN_REFERENCES || !golden_picture(p->folder, tensor, &p->pictures[index])) return 0;
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

/* The static shift that makes the recorded sigmas of equal steps; 0: the scheduler's own. */
static inline float golden_calls_shift(const golden_pipe *p, const char *name, uint32_t steps) {
    char sigmas[64];
    uint64_t count;
    float *values, rest = 1.0f / (float)steps, shift = 0;
    diti_format(sigmas, sizeof sigmas, "%s.sigmas", name);
    if (diti_json_bool(p->model->scheduler, "use_dynamic_shifting", false) ||
        !p->model->transformer->traits.uniform_sigmas)
        return 0;
    values = golden_floats(p->folder->golden, sigmas, &count);
    if (values && count > 2) shift = values[1] * rest / ((1 - rest) * (1 - values[1]));
    free(values);
    return shift;
}

/* Z-Image guides no step of which more than cfg_truncation of the noise is gone: the fraction of steps before; 0: it
   guides all. */
static inline float golden_calls_guided(const golden_pipe *p, const char *name, const diti_json *call, uint32_t steps) {
    double most = diti_json_number(call, "cfg_truncation", 0);
    char sigmas[64];
    uint64_t count;
    uint32_t guided = 0;
    float *values;
    if (most <= 0) return 0;
    diti_format(sigmas, sizeof sigmas, "%s.sigmas", name);
    values = golden_floats(p->folder->golden, sigmas, &count);
    while (values && guided < steps && 1 - (double)values[guided] <= most) guided++;
    free(values);
    return (float)guided / (float)steps;
}

/* A prompt of a list: Z-Image's pipeline writes its chat template into the caller's list, where the call was recorded.
 */
static inline void golden_calls_prompt(const diti_json *prompt, char *out, size_t size) {
    static const char user[] = "<|im_start|>user\n", end[] = "<|im_end|>";
    const char *text = prompt->text, *stop;
    if (diti_starts_with(text, user)) text += sizeof user - 1;
    stop = strstr(text, end);
    diti_format(out, size, "%.*s", (int)(stop ? (size_t)(stop - text) : strlen(text)), text);
}

/* Every prompt of a list makes a picture by itself, which equals that of the batch: texts of unequal length do not see
   each other's padding. */
static inline void golden_calls_list(golden_pipe *p, const diti_json *call, const char *noise, const char *latents,
                                     const char *image) {
    const diti_json *prompt = diti_json_get(call, "prompt")->first;
    uint32_t i;
    for (i = 0; prompt; prompt = prompt->next, i++) {
        char text[256];
        golden_calls_prompt(prompt, text, sizeof text);
        p->prompt = text;
        p->item = i;
        golden_pipe_call(p, call, noise, latents, image);
    }
    p->prompt = NULL;
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
        p.guided_last = golden_calls_guided(&p, name, call, steps);
        p.reference_count = golden_calls_references(&p, name);
        if (diti_starts_with(name, "raw")) p.model->transformer->traits.fixed_shift = 0;
        if (p.model->transformer->traits.shown_area) { /* small ones, as the fixture was made */
            p.model->transformer->traits.reference_area = 64 * 64;
            p.model->transformer->traits.shown_area = p.model->transformer->traits.prefixes ? 64 * 64 : 84 * 84;
        }
        if (diti_equal(name, "kv_edit1")) { /* the picture of edit1, whose keys and values are computed once */
            p.reference_count = golden_calls_references(&p, "edit1");
            p.cache = "references";
        }
        if (diti_json_get(call, "prompt") && diti_json_get(call, "prompt")->kind == DITI_JSON_ARRAY)
            golden_calls_list(&p, call, noise, latents, image);
        else
            golden_pipe_call(&p, call, noise, latents, image);
        while (p.reference_count) free((void *)(uintptr_t)p.pictures[--p.reference_count].rgba);
    }
    golden_pipe_close(&p);
}

typedef void golden_one_call(golden *g, const golden_folder *folder, const char *name, const diti_json *call);

static inline void golden_each_call(golden *g, const golden_folder *folder, golden_one_call *one) {
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
            one(g, folder, name, call);
        diti_json_free(&g->env, call);
    }
}

/* A recorded picture that is scaled as one of more than 1024 x 1024 pixels is, with a limit of 64 x 64: every byte. */
static inline void golden_calls_resize(golden *g, const golden_folder *folder) {
    const diti_stored_tensor *out = diti_checkpoint_find(folder->golden, "resize.out.image_u8");
    diti_model_traits traits = DITI_ZERO;
    diti_picture from = DITI_ZERO;
    golden_pipe p = DITI_ZERO;
    uint32_t width = 0, height = 0, i, wrong = 0;
    uint8_t *made = NULL;
    if (!out) return;
    p.folder = folder;
    traits.reference_limit = traits.reference_limit_alone = 64 * 64;
    if (!golden_require(g,
                        golden_calls_pictures(&p, "resize.in.image_u8", 0) == 1 &&
                            golden_calls_pictures(&p, "resize.out.image_u8", 1) == 2,
                        "the pictures of resize are recorded"))
        return;
    diti_reference_scaled(&traits, &p.pictures[0], 1, &width, &height);
    from.rgba = p.pictures[0].rgba;
    from.width = p.pictures[0].width;
    from.height = p.pictures[0].height;
    if (golden_require(g, width == p.pictures[1].width && height == p.pictures[1].height,
                       "a reference is scaled to %u x %u", width, height) &&
        golden_require(g, diti_resize(&g->env, &from, width, height, DITI_WINDOW_LANCZOS, &made, NULL) == DIT_OK,
                       "a reference is scaled")) {
        for (i = 0; i < 4 * width * height; i++) wrong += made[i] != p.pictures[1].rgba[i];
        golden_require(g, !wrong, "%u bytes of a scaled reference differ", wrong);
    }
    diti_free(&g->env, made);
    for (i = 0; i < 2; i++) free((void *)(uintptr_t)p.pictures[i].rgba);
}

static inline void golden_run_calls(golden *g, const golden_folder *folder) {
    golden_calls_resize(g, folder);
    golden_each_call(g, folder, golden_calls_one);
}

/* --- pipelines some of whose parts are those of other fixtures --- */
typedef struct golden_beside {
    const char *const (*parts)[2]; /* how members of the folder begin, and the fixture that has them */
    size_t count;
    const char *const (*names)[2]; /* how a repository calls a member's folder, and the fixture does */
    size_t name_count;
    const char *config; /* in place of the transformer's config.json; NULL: the folder's */
    const char *index;  /* in place of model_index.json; NULL: the folder's */
    uint32_t area;      /* pixels that references are scaled to; 0: the model's */
    const char *path;
    char file[1024];
} golden_beside;

static inline dit_result golden_beside_open(const char *member, dit_source *out, void *user) {
    golden_beside *beside = (golden_beside *)user;
    const char *folder = beside->path;
    char stored[256];
    size_t i;
    for (i = 0; i < beside->name_count; i++) {
        if (diti_starts_with(member, beside->names[i][1])) return DIT_ERROR_IO;
        if (!diti_starts_with(member, beside->names[i][0])) continue;
        diti_format(stored, sizeof stored, "%s%s", beside->names[i][1], member + strlen(beside->names[i][0]));
        member = stored;
        break;
    }
    for (i = 0; i < beside->count; i++)
        if (!strncmp(member, beside->parts[i][0], strlen(beside->parts[i][0]))) folder = beside->parts[i][1];
    if (!golden_has(folder, member)) return DIT_ERROR_IO;
    out->data = !strcmp(member, "transformer/config.json") ? beside->config
                : !strcmp(member, "model_index.json")      ? beside->index
                                                           : NULL;
    out->size = out->data ? strlen((const char *)out->data) : 0;
    if (out->data) return DIT_OK;
    golden_join(beside->file, sizeof beside->file, folder, member);
    out->path = beside->file;
    return DIT_OK;
}

static inline void golden_beside_call(golden *g, const golden_folder *folder, const char *name, const diti_json *call,
                                      golden_beside *beside) {
    golden_pipe p = DITI_ZERO;
    dit_model_desc desc = DITI_ZERO;
    char noise[64], latents[64], image[64];
    beside->path = folder->path;
    desc.source.open = golden_beside_open;
    desc.source.user = beside;
    diti_format(noise, sizeof noise, "%s.in.latents", name);
    diti_format(latents, sizeof latents, "%s.step%u.latents", name,
                (unsigned)diti_json_number(call, "num_inference_steps", 1) - 1);
    diti_format(image, sizeof image, "%s.out.image01", name);
    if (golden_pipe_load(&p, g, folder, &desc)) {
        p.reference_count = golden_calls_references(&p, name);
        if (beside->area) p.model->transformer->traits.reference_area = beside->area;
        golden_pipe_call(&p, call, noise, latents, diti_checkpoint_find(folder->golden, image) ? image : NULL);
        while (p.reference_count) free((void *)(uintptr_t)p.pictures[--p.reference_count].rgba);
    }
    golden_pipe_close(&p);
}
#endif
