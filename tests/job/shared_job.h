/* A context, a model and its picture, which the tests of the contract share: a driver compiles every pipeline anew for
   a context. */
#ifndef SHARED_JOB_H
#define SHARED_JOB_H
#include "library.h"
#include "vulkan_test.h"

#define MODEL "tests/fixtures/pipe_pixart_sigma" /* two blocks, random weights */
enum { SIDE = 32, BYTES = SIDE * SIDE * 4, STEPS = 3 };

static dit_context *shared;
static dit_model *shared_model;
static unsigned char expected[BYTES]; /* prompt "a red heart", seed 7 */

static dit_model *load_model(dit_context *ctx) {
    dit_model_desc desc = {0};
    dit_model *model = NULL;
    dit_error err = {0};
    desc.source.path = MODEL;
    CHECK_MESSAGE(dit_model_load(ctx, &desc, &model, &err) == DIT_OK, "%s", err.message);
    return model;
}

/* Slices that no busy machine, no fast device and no number of cores changes. */
#define SLOW "gflop_ns=100000000,cores=1"

static dit_context *open_context(dit_context_desc *desc) {
    dit_context *ctx = NULL;
    dit_error err = {0};
    if (!desc->overrides) desc->overrides = SLOW;
    CHECK_MESSAGE(dit_context_create(desc, &ctx, &err) == DIT_OK, "%s", err.message);
    return ctx;
}

static dit_job_desc describe(const dit_model *model, uint64_t seed) {
    dit_job_desc desc = {0};
    desc.model = model;
    desc.prompt = "a red heart";
    desc.width = desc.height = SIDE;
    desc.steps = STEPS;
    desc.seed = seed;
    return desc;
}

static dit_job *create_job(dit_context *ctx, const dit_job_desc *desc) {
    dit_job *job = NULL;
    dit_error err = {0};
    CHECK_MESSAGE(dit_job_create(ctx, desc, &job, &err) == DIT_OK, "%s", err.message);
    return job;
}

static bool finish(dit_job *job) {
    dit_result result = job ? dit_job_wait(job, UINT64_MAX) : DIT_ERROR_INVALID_ARGUMENT;
    dit_error err = {0};
    if (job) dit_job_status(job, NULL, &err);
    return CHECK_MESSAGE(result == DIT_OK, "%s: %s", dit_result_string(result), err.message);
}

static bool read_picture(dit_job *job, uint32_t image, unsigned char *rgba, size_t size) {
    dit_error err = {0};
    return job &&
           CHECK_MESSAGE(dit_job_read(job, DIT_READ_RGBA8, image, 0, rgba, size, 0, &err) == DIT_OK, "%s", err.message);
}

/* Whether the job's picture is the one everybody expects. */
static bool is_expected(dit_job *job) {
    unsigned char rgba[BYTES];
    return read_picture(job, 0, rgba, sizeof rgba) && memcmp(rgba, expected, BYTES) == 0;
}

static bool refused(dit_result result, const dit_error *err, const char *word) {
    bool good = result == DIT_ERROR_INVALID_ARGUMENT && err->result == result && strstr(err->message, word) &&
                !strchr(err->message, '\n');
    if (!good) fprintf(stderr, "    %s, '%s' does not say %s\n", dit_result_string(result), err->message, word);
    return good;
}

/* Whether questions about a job are refused as the job is. */
static bool asks_alike(const dit_job_desc *desc, const char *says) {
    dit_inspector inspector = {0};
    dit_memory memory;
    dit_error err = {0};
    return refused(dit_job_memory(shared, desc, &memory, &err), &err, says) &&
           refused(dit_job_inspect(shared, desc, &inspector, &err), &err, says);
}

/* Makes what the tests share; whether they can begin. */
static bool begin_shared(void) {
    dit_context_desc cd = {0};
    dit_job_desc desc;
    dit_job *job;
    bool made;
    shared = open_context(&cd);
    shared_model = shared ? load_model(shared) : NULL;
    desc = describe(shared_model, 7);
    job = shared_model ? create_job(shared, &desc) : NULL;
    made = finish(job) && read_picture(job, 0, expected, BYTES);
    dit_job_destroy(job);
    return made;
}

static void end_shared(void) {
    dit_model_destroy(shared_model);
    dit_context_destroy(shared);
}
#endif
