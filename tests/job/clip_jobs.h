/* Models of clips, requests for small clips, and pictures to begin with, for the tests of jobs of clips. */
#ifndef CLIP_JOBS_H
#define CLIP_JOBS_H
#include "library.h"
#include "real_vaes.h"
#include "vulkan_test.h"

#define FIXTURE "tests/fixtures/"
#define COGVIDEOX FIXTURE "pipe_cogvideox_2b"
#define OPEN_SORA FIXTURE "pipe_opensora11"
#define VACE FIXTURE "wan_vace/"
#define WAN_PARTS FIXTURE "pipe_wan22_i2v_a14b/"
enum { WIDTH = 48, HEIGHT = 32, PIXELS = WIDTH * HEIGHT, FRAMES = 17 };

static dit_context *context;

/* Slices do not depend on how busy the machine is. */
#define STEADY "gflop_ns=100000000"

/* Opens the context that the tests use; devices NULL: the first one. */
static bool open_context(const char *devices, const char *overrides) {
    dit_context_desc desc = {0};
    dit_error err = {0};
    context = NULL;
    desc.devices = devices;
    desc.overrides = overrides;
    return CHECK_MESSAGE(dit_context_create(&desc, &context, &err) == DIT_OK, "%s", err.message);
}

static dit_model *load(const char *folder, const char *transformer, bool dry) {
    static const dit_role roles[] = {DIT_ROLE_TRANSFORMER, DIT_ROLE_VAE, DIT_ROLE_TEXT_1, DIT_ROLE_TOKENIZER_1,
                                     DIT_ROLE_SCHEDULER};
    static const char *const names[] = {"transformer", "vae", "text_encoder", "tokenizer", "scheduler"};
    char paths[5][256];
    dit_component components[5];
    dit_model_desc desc = {0};
    dit_model *model = NULL;
    dit_error err = {0};
    uint32_t i;
    memset(components, 0, sizeof components);
    for (i = 0; i < 5; i++) {
        diti_format(paths[i], sizeof paths[i], "%s/%s", folder, names[i]);
        components[i].source.path = i == 0 && transformer ? transformer : paths[i];
        components[i].role = roles[i];
    }
    desc.components = components;
    desc.component_count = diti_ends_with(folder, "cogvideox_2b") ? 5 : 4;
    desc.dry_run = dry;
    CHECK_MESSAGE(dit_model_load(dry ? NULL : context, &desc, &model, &err) == DIT_OK, "%s", err.message);
    return model;
}

static dit_job_desc describe(const dit_model *model) {
    dit_job_desc desc = {0};
    desc.model = model;
    desc.prompt = "a fox runs through snow";
    desc.width = WIDTH;
    desc.height = HEIGHT;
    desc.frame_count = FRAMES;
    desc.steps = 2;
    desc.seed = 7;
    return desc;
}

static void check_refused(const dit_job_desc *desc, const char *word) {
    dit_job *job = NULL;
    dit_error err = {0};
    dit_result result = dit_job_create(context, desc, &job, &err);
    CHECK_MESSAGE(result == DIT_ERROR_INVALID_ARGUMENT && strstr(err.message, word), "\"%s\" wanted in: %s: %s", word,
                  dit_result_string(result), err.message);
    dit_job_destroy(job);
}

static bool run(dit_job **job, const dit_job_desc *desc) {
    dit_error err = {0};
    dit_result result = *job ? dit_job_restart(*job, desc, &err) : dit_job_create(context, desc, job, &err);
    if (result == DIT_OK) {
        result = dit_job_wait(*job, UINT64_MAX);
        if (result != DIT_OK) dit_job_status(*job, NULL, &err);
    }
    return CHECK_MESSAGE(result == DIT_OK, "%s", err.message);
}

static bool read_all(dit_job *job, uint32_t image, uint8_t *out, uint32_t frames) {
    dit_error err = {0};
    return CHECK_MESSAGE(
        dit_job_read(job, DIT_READ_RGBA8, image, DIT_ALL_FRAMES, out, (size_t)frames * PIXELS * 4, 0, &err) == DIT_OK,
        "%s", err.message);
}

/* A picture of stripes, another one for every number; freed with free. */
static dit_image *stripes(uint32_t width, uint32_t height, uint32_t frames) {
    dit_image *out = (dit_image *)calloc(frames, sizeof *out);
    uint8_t *rgba = (uint8_t *)calloc((size_t)frames * width * height, 4);
    size_t i;
    for (i = 0; i < (size_t)frames * width * height * 4; i++)
        rgba[i] = (uint8_t)((i / 4 % width * (37 + i / (4 * width * height) * 11) + i % 4 * 50) & 255);
    for (i = 0; i < frames; i++) {
        out[i].width = width;
        out[i].height = height;
        out[i].rgba = rgba + i * width * height * 4;
    }
    return out;
}

static void free_stripes(dit_image *images) {
    free((void *)(uintptr_t)images[0].rgba);
    free(images);
}

/* --- models of which some parts are made up --- */

/* A model of clips: a pipeline, or parts without text encoders, which is told embeddings. */
typedef struct clip_model {
    const char *name;                          /* a pipeline's folder, or the model's */
    const char *transformer, *vae, *scheduler; /* parts; a pipeline may have its transformer elsewhere */
    void (*make_transformer)(real_file *file); /* in place of a folder */
    void (*make_vae)(real_file *file);
    uint32_t tokens, columns, pooled; /* of embeddings; columns 0: the pipeline has encoders */
    bool moves;                       /* it begins with a picture */
    bool fixed;                       /* it makes clips of its own size alone */
} clip_model;

static dit_model *load_parts(const clip_model *m, real_file files[2]) {
    const char *const paths[] = {m->transformer, m->vae, m->scheduler};
    static const dit_role roles[] = {DIT_ROLE_TRANSFORMER, DIT_ROLE_VAE, DIT_ROLE_SCHEDULER};
    void (*const makers[])(real_file * file) = {m->make_transformer, m->make_vae};
    dit_component components[3];
    dit_model_desc desc = {0};
    dit_model *model = NULL;
    dit_error err = {0};
    uint32_t i;
    memset(components, 0, sizeof components);
    for (i = 0; i < 3; i++) {
        dit_component *part = &components[desc.component_count];
        if (!paths[i] && (i == 2 || !makers[i])) continue;
        part->role = roles[i];
        part->source.path = paths[i];
        if (!paths[i]) {
            files[i].container = REAL_SAFETENSORS;
            files[i].type = DIT_TYPE_F16;
            makers[i](&files[i]);
            part->source = real_source(&files[i]);
        }
        desc.component_count++;
    }
    desc.components = components;
    CHECK_MESSAGE(dit_model_load(context, &desc, &model, &err) == DIT_OK, "%s: %s", m->name, err.message);
    return model;
}

#endif
