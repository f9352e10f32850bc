/* Whole pipelines through the public API: diffusers repositories with one recorded call, and the bundled model's own
   golden.json with several. A folder of goldens without a model is for the quantized file of the same name in models/.
 */
#ifndef GOLDEN_PIPE_H
#define GOLDEN_PIPE_H
#include "golden_model.h"

/* Latents behind all steps. Rounding of fp16 is multiplied by guidance and carried from step to step, but stays within
   what one evaluation may have; a Q8_0 file is 0.011 to 0.014 away with exact arithmetic (the bundled model's README).
 */
#define GOLDEN_PIPELINE_Q8 5e-2
/* PSNR of pictures in dB from a Q8_0 file (issue 3, 8); 60 dB is a twentieth of the smallest step of a byte. */
#define GOLDEN_PSNR 60.0
#define GOLDEN_PSNR_Q8 40.0
#define GOLDEN_PSNR_FP16 35.0

#define GOLDEN_REFERENCES 2u
typedef struct golden_pipe {
    golden *g;
    const golden_folder *folder;
    dit_context *context;
    dit_model *model;
    bool quantized;
    float shift; /* dit_job_desc.shift */
    dit_image pictures[GOLDEN_REFERENCES];
    dit_reference references[GOLDEN_REFERENCES];
    uint32_t reference_count;
    dit_tensor texts[4]; /* recorded embeddings in place of prompts */
    uint32_t text_count;
    const dit_image *control, *init, *mask; /* NULL: none */
    dit_adapter adapter;                    /* without an image: none */
    const char *cache, *split;
    const char *prompt; /* in place of the call's; NULL: the call's */
    uint32_t item;      /* which picture of the recorded ones is made */
    float guided_last;  /* dit_guidance.last */
} golden_pipe;

static inline bool golden_is_dit_pipe(const golden_folder *folder) {
    return folder->readme && diti_starts_with(folder->readme, "DiTPipeline");
}

static inline bool golden_is_pipe(const golden_folder *folder) {
    static const char *const known[] = {"DiTPipeline", "PixArt", "StableDiffusion3Pipeline", "FluxPipeline",
                                        "HunyuanDiTPipeline"};
    size_t i;
    if (!folder->golden || !golden_has(folder->path, "model_index.json") || !folder->readme ||
        !diti_checkpoint_find(folder->golden, "in.latents"))
        return false;
    for (i = 0; i < DITI_COUNT(known); i++)
        if (diti_starts_with(folder->readme, known[i])) return true;
    return false;
}

static inline bool golden_is_prompts(const golden_folder *folder) {
    return folder->golden && golden_has(folder->path, "golden.json") &&
           diti_checkpoint_find(folder->golden, "case0.in.latents");
}

/* A recorded picture, RGBA, RGB or grey, as RGBA; false: it is not recorded. */
static inline bool golden_picture(const golden_folder *folder, const char *tensor, dit_image *out) {
    uint64_t values, i;
    const diti_stored_tensor *stored = diti_checkpoint_find(folder->golden, tensor);
    uint32_t of = stored && stored->rank == 3 ? (uint32_t)stored->shape[2] : 1, c;
    uint8_t *rgba;
    float *from;
    if (!stored) return false;
    from = golden_floats(folder->golden, tensor, &values);
    rgba = (uint8_t *)malloc((size_t)values / of * 4);
    for (i = 0; i < values / of; i++) {
        for (c = 0; c < 3; c++) rgba[4 * i + c] = (uint8_t)from[of * i + c % of];
        rgba[4 * i + 3] = of == 4 ? (uint8_t)from[of * i + 3] : 255;
    }
    free(from);
    out->width = (uint32_t)stored->shape[1];
    out->height = (uint32_t)stored->shape[0];
    out->rgba = rgba;
    return true;
}

/* --- one call, described as diffusers' arguments --- */
static inline void golden_pipe_desc(const golden_pipe *p, const diti_json *call, dit_job_desc *desc, int32_t *labels) {
    const diti_json *list = diti_json_get(call, "class_labels"), *label = list ? list->first : NULL;
    uint32_t i;
    for (i = 0; label && i < DITI_JOB_MAX_IMAGES; i++, label = label->next) labels[i] = (int32_t)label->number;
    desc->class_labels = i ? labels : NULL;
    desc->image_count = i;
    desc->model = p->model;
    desc->split = p->g->split;
    desc->shift = p->shift;
    desc->references = p->reference_count ? p->references : NULL;
    desc->reference_count = p->reference_count;
    desc->control_image = p->control;
    desc->init_image = p->init;
    desc->mask = p->mask;
    desc->adapters = &p->adapter;
    desc->adapter_count = p->adapter.image.rgba ? 1 : 0;
    desc->cache = p->cache;
    desc->guidance.last = p->guided_last;
    desc->guidance.length_limit = (float)diti_json_number(call, "cfg_normalization", 0);
    if (p->split) desc->split = p->split;
    desc->prompt = p->prompt ? p->prompt : diti_json_string(call, "prompt", "");
    desc->negative_prompt = diti_json_string(call, "negative_prompt", "");
    desc->width = (uint32_t)diti_json_number(call, "width", 0);
    desc->height = (uint32_t)diti_json_number(call, "height", 0);
    desc->steps = (uint32_t)diti_json_number(call, "num_inference_steps", diti_json_number(call, "steps", 0));
    desc->guidance.scale = (float)diti_json_number(call, "guidance_scale", diti_json_number(call, "guidance", 0));
    if (diti_json_get(call, "guidance_scale") && p->model->transformer->traits.guides_beyond)
        desc->guidance.scale += 1; /* away from the prompt's own prediction */
    if (diti_json_get(call, "true_cfg_scale"))
        desc->guidance.scale = (float)diti_json_number(call, "true_cfg_scale", 1);
    if (p->prompt && !diti_json_get(call, "negative_prompt") && !desc->guidance.scale)
        desc->guidance.scale = 1; /* Qwen-Image's pipeline guides away from a negative prompt alone */
    if (p->model->transformer->traits.wants_guidance) {
        desc->guidance.distilled = desc->guidance.scale;
        desc->guidance.scale = (float)diti_json_number(call, "true_cfg_scale", 1);
    }
}

static inline double golden_psnr(const float *a, const float *b, uint64_t count) {
    double error = 0;
    uint64_t i;
    for (i = 0; i < count; i++) { /* the reference is clamped */
        double value = a[i] < 0 ? 0 : a[i] > 1 ? 1 : (double)a[i];
        error += (value - (double)b[i]) * (value - (double)b[i]);
    }
    return error > 0 ? 10 * log10((double)count / error) : 999;
}

/* Picture `image`'s part of a recorded tensor of at least that many; label tells them apart. */
static inline float *golden_pipe_part(golden_pipe *p, const char *name, uint32_t image, uint64_t size, char *label) {
    uint64_t count;
    float *all = golden_floats(p->folder->golden, name, &count), *out = (float *)calloc((size_t)size, sizeof(float));
    diti_format(label, 96, image ? "%s [%u]" : "%s", name, (unsigned)image);
    if (golden_require(p->g, all && count % size == 0 && count >= (image + 1) * size, "%s holds picture %u", name,
                       (unsigned)image))
        memcpy(out, all + image * size, (size_t)size * sizeof *out);
    free(all);
    return out;
}

/* Tokens, patches with columns (c, dy, dx), become planes. */
static inline float *golden_pipe_unpack(float *values, uint64_t count, uint32_t height, uint32_t width, uint32_t side) {
    float *planes = (float *)calloc((size_t)count, sizeof *planes);
    uint32_t i;
    for (i = 0; i < count; i++) {
        uint32_t plane = i / (width * height), y = i / width % height, x = i % width;
        planes[i] = values[(y / side * (width / side) + x / side) * side * side * (count / (width * height)) +
                           plane * side * side + y % side * side + x % side];
    }
    free(values);
    return planes;
}

/* Latents of FLUX and those after it are recorded as tokens; the comparison wants planes. */
static inline float *golden_pipe_planes(const golden_pipe *p, const dit_job *job, const char *name, float *values,
                                        uint64_t count) {
    const diti_stored_tensor *stored = diti_checkpoint_find(p->folder->golden, name);
    if (!stored || stored->rank != 3) return values;
    return golden_pipe_unpack(values, count, job->request.latent_height, job->request.latent_width,
                              p->model->transformer->traits.patch);
}

static inline void golden_pipe_latents(golden_pipe *p, dit_job *job, const char *name, uint32_t recorded,
                                       uint32_t image, uint64_t count) {
    dit_error err = DITI_ZERO;
    char label[96];
    float *latents = (float *)calloc((size_t)count, sizeof(float)),
          *reference = golden_pipe_part(p, name, recorded, count, label);
    double exact = !diti_equal(p->g->rung, "base") ? GOLDEN_FP16 : GOLDEN_MODEL;
    dit_result result =
        dit_job_read(job, DIT_READ_LATENT_F32, image, 0, latents, (size_t)count * sizeof(float), 0, &err);
    reference = golden_pipe_planes(p, job, name, reference, count);
    if (golden_require(p->g, result == DIT_OK, "%s: %s", label, err.message))
        golden_compare(p->g, label, latents, reference, count, p->quantized ? GOLDEN_PIPELINE_Q8 : exact);
    free(reference);
    free(latents);
}

/* The bytes of a picture with alpha, of which as many as rounding moves are one step away from what is recorded. */
static inline void golden_pipe_alpha(golden_pipe *p, dit_job *job, uint32_t index, const float *alpha,
                                     uint64_t pixels) {
    dit_error err = DITI_ZERO;
    uint8_t *rgba = (uint8_t *)calloc((size_t)pixels, 4);
    double most = 0;
    uint64_t i;
    dit_result result = dit_job_read(job, DIT_READ_RGBA8, index, 0, rgba, (size_t)pixels * 4, 0, &err);
    for (i = 0; i < pixels; i++) {
        double away = fabs((double)rgba[4 * i + 3] - 255.0 * (double)alpha[i]);
        if (away > most) most = away;
    }
    golden_check(p->g, result == DIT_OK && most <= (diti_equal(p->g->rung, "base") ? 0.51 : 6),
                 "alpha: at most %.2f of 255 away %s", most, err.message);
    free(rgba);
}

static inline void golden_pipe_image(golden_pipe *p, dit_job *job, const char *name, uint32_t recorded, uint32_t index,
                                     uint64_t pixels) {
    bool fp16 = !diti_equal(p->g->rung, "base");
    dit_error err = DITI_ZERO;
    char label[96];
    double psnr, least = fp16 ? GOLDEN_PSNR_FP16 : p->quantized ? GOLDEN_PSNR_Q8 : GOLDEN_PSNR;
    const diti_stored_tensor *stored = diti_checkpoint_find(p->folder->golden, name);
    uint32_t planes = stored && stored->shape[stored->rank - 3] == 4 ? 4 : 3;
    float *reference = golden_pipe_part(p, name, recorded, planes * pixels, label),
          *image = (float *)calloc((size_t)pixels, 3 * sizeof(float));
    dit_result result =
        dit_job_read(job, DIT_READ_RGB_F32, index, 0, image, (size_t)pixels * 3 * sizeof(float), 0, &err);
    if (golden_require(p->g, result == DIT_OK, "%s: %s", label, err.message)) {
        image = golden_transpose(image, (uint32_t)pixels, 3); /* the reference has planes */
        psnr = golden_psnr(image, reference, 3 * pixels);
        golden_check(p->g, psnr >= least, "%s: PSNR %.1f dB, at least %.0f", label, psnr, least);
        if (planes == 4) golden_pipe_alpha(p, job, index, reference + 3 * pixels, pixels);
    }
    free(reference);
    free(image);
}

/* Puts the noise that the reference's scheduler drew in its steps in place of the noise that dit.h draws. */
static inline void golden_pipe_step_noise(golden_pipe *p, dit_job *job) {
    uint32_t i, steps = job->request.shape.steps;
    uint64_t count = 0, size = 0;
    float *all = NULL;
    char name[64];
    if (!job->shares[0]->program.step_noise) return;
    for (i = 0; i < steps; i++) {
        float *noise;
        diti_format(name, sizeof name, "sched_noise%u", (unsigned)i);
        noise = golden_floats(p->folder->golden, name, &count);
        if (!golden_require(p->g, noise != NULL, "%s is there", name)) break;
        all = (float *)realloc(all, (size_t)(size + count) * sizeof *all);
        memcpy(all + size, noise, (size_t)count * sizeof *all);
        size += count;
        free(noise);
    }
    golden_require(p->g,
                   diti_plan_write(job->shares[0]->program.plan, job->shares[0]->program.step_noise, all,
                                   (size_t)size * sizeof *all, NULL) == DIT_OK,
                   "noise of all steps");
    free(all);
}

/* noise, latents, image: names of recorded tensors; image NULL: none is recorded. */
static inline void golden_pipe_call(golden_pipe *p, const diti_json *call, const char *noise, const char *latents,
                                    const char *image) {
    dit_error err = DITI_ZERO;
    dit_job_desc desc = DITI_ZERO;
    dit_tensor inputs[5] = DITI_ZERO, *input = inputs;
    dit_job *job = NULL;
    dit_result result;
    int32_t labels[DITI_JOB_MAX_IMAGES];
    uint32_t i, images;
    uint64_t count;
    const diti_stored_tensor *stored = diti_checkpoint_find(p->folder->golden, noise);
    float *values = golden_floats(p->folder->golden, noise, &count);
    if (p->prompt) { /* one picture alone */
        count /= stored->shape[0];
        memmove(values, values + p->item * count, (size_t)count * sizeof *values);
    }
    golden_pipe_desc(p, call, &desc, labels);
    images = desc.image_count ? desc.image_count : 1;
    input->name = "noise";
    input->type = DIT_TYPE_F32;
    input->data = values;
    memcpy(inputs + 1, p->texts, sizeof p->texts);
    desc.inputs = inputs;
    desc.input_count = 1 + p->text_count;
    if (p->text_count) desc.prompt = desc.negative_prompt = NULL;
    if (golden_require(p->g, values && stored && (stored->rank == 4 || stored->rank == 3), "%s is there", noise)) {
        uint32_t side = p->model->transformer->traits.patch, factor = diti_model_factor(p->model);
        input->rank = 4;
        memcpy(input->shape, stored->shape, sizeof input->shape);
        if (p->prompt) input->shape[0] = 1;
        if (stored->rank == 3) { /* tokens */
            input->shape[1] = stored->shape[2] / (side * side);
            input->shape[2] = desc.height / factor;
            input->shape[3] = desc.width / factor;
            input->data = values =
                golden_pipe_unpack(values, count, (uint32_t)input->shape[2], (uint32_t)input->shape[3], side);
        }
        result = dit_job_create(p->context, &desc, &job, &err);
        if (result == DIT_OK) golden_pipe_step_noise(p, job);
        if (result == DIT_OK) {
            result = dit_job_wait(job, UINT64_MAX);
            if (result != DIT_OK) dit_job_status(job, NULL, &err);
        }
        golden_require(p->g, result == DIT_OK, "\"%s\" %s", desc.prompt ? desc.prompt : "", err.message);
        for (i = 0; i < images && result == DIT_OK; i++) {
            golden_pipe_latents(p, job, latents, p->item + i, i, count / images);
            if (image) golden_pipe_image(p, job, image, p->item + i, i, (uint64_t)desc.width * desc.height);
        }
    }
    dit_job_destroy(job);
    free(values);
}

/* --- opening --- */

/* The cache goes from each context to the next one, so that a driver compiles each kernel once and self-tests run once.
 */
static struct golden_pipe_cache {
    void *bytes;
    size_t size;
} golden_pipe_cache;

static inline void golden_pipe_keep_cache(dit_context *context) {
    size_t size = 0;
    void *bytes;
    if (!context || dit_context_save_cache(context, NULL, &size, NULL) != DIT_OK || !(bytes = malloc(size))) return;
    free(golden_pipe_cache.bytes);
    golden_pipe_cache.bytes = bytes;
    golden_pipe_cache.size = size;
    if (dit_context_save_cache(context, bytes, &golden_pipe_cache.size, NULL) != DIT_OK) golden_pipe_cache.size = 0;
}

static inline bool golden_pipe_load(golden_pipe *p, golden *g, const golden_folder *folder,
                                    const dit_model_desc *desc) {
    dit_context_desc context = DITI_ZERO;
    dit_error err = DITI_ZERO;
    char overrides[256];
    memset(p, 0, sizeof *p);
    p->g = g;
    p->folder = folder;
    p->quantized = desc->source.path && diti_ends_with(desc->source.path, ".gguf");
    golden_overrides(g, overrides, sizeof overrides);
    context.overrides = overrides;
    context.devices = g->split && !g->device ? "0,1" : g->device;
    context.cache = golden_pipe_cache.bytes;
    context.cache_size = golden_pipe_cache.size;
    return golden_require(g, dit_context_create(&context, &p->context, &err) == DIT_OK, "%s", err.message) &&
           golden_require(g, dit_model_load(p->context, desc, &p->model, &err) == DIT_OK, "%s", err.message);
}

static inline bool golden_pipe_open_with(golden_pipe *p, golden *g, const golden_folder *folder, const char *model,
                                         const dit_component *component) {
    dit_model_desc desc = DITI_ZERO;
    desc.source.path = model;
    desc.components = component;
    desc.component_count = component ? 1 : 0;
    return golden_pipe_load(p, g, folder, &desc);
}

static inline bool golden_pipe_open(golden_pipe *p, golden *g, const golden_folder *folder, const char *model) {
    return golden_pipe_open_with(p, g, folder, model, NULL);
}

static inline void golden_pipe_close(golden_pipe *p) {
    dit_model_destroy(p->model);
    golden_pipe_keep_cache(p->context);
    dit_context_destroy(p->context);
}

/* The fixture's README holds the call, as JSON except for DiT. */
static inline void golden_run_pipe(golden *g, const golden_folder *folder) {
    static const char marker[] = "call arguments: ";
    static const char dit_call[] = "call arguments: {\"class_labels\": [3, 7], \"width\": 64, \"height\": 64, "
                                   "\"num_inference_steps\": 4, \"guidance_scale\": 4.0}\n";
    const char *start = strstr(golden_is_dit_pipe(folder) ? dit_call : folder->readme, marker), *end;
    diti_json *call = NULL;
    golden_pipe p = DITI_ZERO;
    char last[64];
    if (!golden_require(g, start != NULL, "the README has no call arguments")) return;
    start += sizeof marker - 1;
    end = strchr(start, '\n');
    golden_require(
        g,
        diti_json_parse(&g->env, start, end ? (size_t)(end - start) : strlen(start), "README", &call, NULL) == DIT_OK,
        "the README's call arguments are JSON");
    diti_format(last, sizeof last, "step%u.latents", (unsigned)diti_json_number(call, "num_inference_steps", 1) - 1);
    if (call && golden_pipe_open(&p, g, folder, folder->path))
        golden_pipe_call(&p, call,
                         diti_checkpoint_find(folder->golden, "in.latents_unpacked") ? "in.latents_unpacked"
                                                                                     : "in.latents",
                         last, "out.image01");
    golden_pipe_close(&p);
    diti_json_free(&g->env, call);
}

static inline void golden_run_prompts(golden *g, const golden_folder *folder) {
    diti_json *json = golden_open_json(&g->env, folder->path, "golden.json");
    const diti_json *list = diti_json_get(json, "cases"), *call;
    golden_pipe p = DITI_ZERO;
    char model[1024], noise[64], latents[64], image[64];
    unsigned i = 0;
    if (golden_has(folder->path, "model_index.json"))
        diti_format(model, sizeof model, "%s", folder->path);
    else
        diti_format(model, sizeof model, "models/%s-q8_0.gguf", folder->name);
    if (golden_pipe_open(&p, g, folder, model)) {
        for (call = list ? list->first : NULL; call; call = call->next, i++) {
            if (g->every && i % g->every != g->from) continue;
            diti_format(noise, sizeof noise, "case%u.in.latents", i);
            diti_format(latents, sizeof latents, "case%u.out.latents", i);
            diti_format(image, sizeof image, "case%u.out.image01", i);
            golden_pipe_call(&p, call, noise, latents, image);
        }
        golden_require(g, i > 0, "no case");
    }
    golden_pipe_close(&p);
    diti_json_free(&g->env, json);
}
#endif
