/* The contract printed at the top of dit.h, through the public API alone: descs, hooks, threads, cancelling,
 * determinism, counters, lifetime, the application's device, outputs and errors. Runs once per driver, under the
 * validation layers.
   test-runs: lavapipe sanitize, in test-all swiftshader */
#define _GNU_SOURCE
#include "library.h"
#include "vulkan_test.h"
#include "engine.h"
#include "files.h"
#include <pthread.h>
#include <time.h>

#define MODEL "tests/fixtures/pipe_pixart_sigma" /* two blocks, random weights */
enum { SIDE = 32, BYTES = SIDE * SIDE * 4, STEPS = 3 };

/* One context, model and picture that most tests share, because a driver compiles every pipeline anew for a context. */
static dit_context *shared;
static dit_model *shared_model;
static unsigned char expected[BYTES]; /* prompt "a red heart", seed 7 */

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

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

/* SwiftShader takes seconds to compile a context's pipelines: what says nothing about the driver is then left to
 * DIT_TEST_ALL. */
static bool is_thorough(void) {
    const char *all = getenv("DIT_TEST_ALL");
    dit_device_info info;
    uint32_t count = 1;
    return (all && strcmp(all, "1") == 0) ||
           (dit_device_list(&info, &count, NULL) == DIT_OK && !strstr(info.name, "SwiftShader"));
}

/* ---- Without a device ---- */

static void test_versions_and_names(void) {
    uint32_t i;
    int r;
    CHECK(dit_version() == DIT_VERSION);
    for (r = -11; r <= 2; r++) CHECK(strcmp(dit_result_string((dit_result)r), "unknown result") != 0);
    CHECK(strcmp(dit_result_string((dit_result)77), "unknown result") == 0);
    for (i = 0; dit_sampler_name(i); i++) CHECK(dit_sampler_name(i)[0]);
    CHECK(i >= 3 && !dit_sampler_name(i + 100) && !dit_sampler_name(UINT32_MAX));
    for (i = 0; dit_schedule_name(i); i++) CHECK(dit_schedule_name(i)[0]);
    CHECK(i >= 1 && !dit_schedule_name(UINT32_MAX));
}

static void test_null_arguments(void) {
    dit_error err = {0};
    dit_context *ctx = NULL;
    dit_model *model = NULL;
    dit_job *job = NULL;
    dit_context_desc cd = {0};
    dit_model_desc md = {0};
    dit_job_desc jd = {0};
    dit_status status;
    dit_counters counters;
    dit_output output;
    size_t size = 0;
    dit_context_destroy(NULL);
    dit_model_destroy(NULL);
    dit_job_destroy(NULL);
    dit_job_cancel(NULL);
    dit_job_status(NULL, &status, &err);
    dit_job_get_counters(NULL, &counters);
    CHECK(dit_context_create(NULL, &ctx, &err) == DIT_ERROR_INVALID_ARGUMENT && err.message[0]);
    CHECK(dit_context_create(&cd, NULL, NULL) == DIT_ERROR_INVALID_ARGUMENT);
    CHECK(dit_model_load(NULL, &md, &model, NULL) == DIT_ERROR_INVALID_ARGUMENT);
    CHECK(dit_model_load(NULL, NULL, &model, &err) == DIT_ERROR_INVALID_ARGUMENT);
    CHECK(dit_job_create(NULL, &jd, &job, &err) == DIT_ERROR_INVALID_ARGUMENT);
    CHECK(dit_job_memory(NULL, NULL, NULL, &err) == DIT_ERROR_INVALID_ARGUMENT);
    CHECK(dit_job_restart(NULL, &jd, &err) == DIT_ERROR_INVALID_ARGUMENT);
    CHECK(dit_job_step(NULL, 0) == DIT_ERROR_INVALID_ARGUMENT);
    CHECK(dit_job_wait(NULL, 0) == DIT_ERROR_INVALID_ARGUMENT);
    CHECK(dit_job_record(NULL, NULL, 0) == DIT_ERROR_INVALID_ARGUMENT);
    CHECK(dit_job_output(NULL, 0, 0, &output) == DIT_ERROR_INVALID_ARGUMENT);
    CHECK(dit_job_preview(NULL, &output) == DIT_ERROR_INVALID_ARGUMENT);
    CHECK(dit_job_read(NULL, DIT_READ_RGBA8, 0, 0, &size, 8, 0, &err) == DIT_ERROR_INVALID_ARGUMENT);
    CHECK(dit_encode_prompt(NULL, NULL, "x", NULL, &size, &err) == DIT_ERROR_INVALID_ARGUMENT);
    CHECK(dit_context_save_cache(NULL, NULL, &size, &err) == DIT_ERROR_INVALID_ARGUMENT);
}

/* A desc full of 0xCC, and descs with one guard that is not zero. */
static void test_guards(void) {
    dit_context *ctx = (dit_context *)&ctx; /* what a program has not initialised becomes NULL */
    dit_model *model = (dit_model *)&ctx;
    dit_job *job = (dit_job *)&ctx;
    dit_error err = {0};
    dit_memory memory;
    dit_context_desc cd;
    dit_model_desc md;
    dit_job_desc jd;
    memset(&cd, 0xcc, sizeof cd);
    memset(&md, 0xcc, sizeof md);
    memset(&jd, 0xcc, sizeof jd);
    CHECK(refused(dit_context_create(&cd, &ctx, &err), &err, "zero") && !ctx);
    CHECK(refused(dit_model_load(shared, &md, &model, &err), &err, "zero") && !model);
    CHECK(refused(dit_job_create(shared, &jd, &job, &err), &err, "zero") && !job);
    CHECK(refused(dit_job_memory(shared, &jd, &memory, &err), &err, "zero"));
    memset(&cd, 0, sizeof cd);
    cd._zero_end = 1;
    CHECK(refused(dit_context_create(&cd, &ctx, &err), &err, "zero"));
    memset(&md, 0, sizeof md);
    md.source.path = MODEL;
    md._zero_begin = 1;
    CHECK(refused(dit_model_load(shared, &md, &model, &err), &err, "zero"));
    md._zero_begin = 0;
    md.source.path = "";
    CHECK(dit_model_load(shared, &md, &model, &err) == DIT_ERROR_IO && strstr(err.message, "empty path"));
    jd = describe(shared_model, 7);
    jd._zero_end = 0xcccccccc;
    CHECK(refused(dit_job_create(shared, &jd, &job, &err), &err, "zero"));
}

static void *never_alloc(size_t size, size_t align, void *user) { return (void)size, (void)align, (void)user, NULL; }
static VkResult never_block(uint32_t device, const VkMemoryRequirements *need, VkMemoryPropertyFlags required,
                            VkMemoryPropertyFlags preferred, dit_block *out, void *user) {
    (void)device, (void)need, (void)required, (void)preferred, (void)out, (void)user;
    return VK_ERROR_OUT_OF_DEVICE_MEMORY;
}
static void never_free_block(uint32_t device, const dit_block *block, void *user) {
    (void)device, (void)block, (void)user;
}

/* Either every function of a hook is set or none; a request that this version cannot serve is refused by name. */
static void test_context_refusals(void) {
    dit_context *ctx = (dit_context *)&ctx;
    dit_error err = {0};
    dit_context_desc d = {0}, zero = {0};
    dit_vulkan vk = {0}, two[2];
    d.allocator.alloc = never_alloc;
    CHECK(refused(dit_context_create(&d, &ctx, &err), &err, "allocator"));
    CHECK_MESSAGE(!ctx, "out must be NULL on failure");
    d = zero;
    d.device_allocator.alloc = never_block;
    CHECK(refused(dit_context_create(&d, &ctx, &err), &err, "device_allocator"));
    d = zero;
    d.device_allocator.free = never_free_block;
    CHECK(refused(dit_context_create(&d, &ctx, &err), &err, "device_allocator"));
    d = zero;
    d.vulkan = &vk;
    CHECK(refused(dit_context_create(&d, &ctx, &err), &err, "vulkan_count"));
    d.vulkan_count = 1;
    CHECK(refused(dit_context_create(&d, &ctx, &err), &err, "get_instance_proc_addr"));
    memset(two, 0, sizeof two);
    d.vulkan = two;
    d.vulkan_count = 17;
    CHECK(refused(dit_context_create(&d, &ctx, &err), &err, "vulkan_count"));
    d.vulkan_count = 2;
    d.devices = "0";
    CHECK(refused(dit_context_create(&d, &ctx, &err), &err, "not both"));
    d = zero;
    d.devices = "0,,0";
    CHECK(refused(dit_context_create(&d, &ctx, &err), &err, "a name is missing"));
    d = zero;
    d.transport.rank_count = 2;
    CHECK(refused(dit_context_create(&d, &ctx, &err), &err, "transport"));
    d = zero;
    d.transport.rank = 1;
    CHECK(refused(dit_context_create(&d, &ctx, &err), &err, "rank 1 is not below rank_count 0"));
    d = zero;
    d.overrides = "no_such_key=1";
    CHECK(refused(dit_context_create(&d, &ctx, &err), &err, "no_such_key"));
    d = zero;
    d.devices = "no such device";
    CHECK(dit_context_create(&d, &ctx, &err) == DIT_ERROR_UNSUPPORTED_DEVICE && strstr(err.message, "no such device"));
    d = zero;
    d.devices = "99";
    CHECK(dit_context_create(&d, &ctx, &err) == DIT_ERROR_UNSUPPORTED_DEVICE && strstr(err.message, "99"));
    CHECK_MESSAGE(dit_context_create(&d, &ctx, NULL) == DIT_ERROR_UNSUPPORTED_DEVICE, "err is optional");
}

static void test_device_list(void) {
    dit_device_info all[16], one;
    uint32_t count = 0, room = 16;
    dit_error err = {0};
    CHECK(dit_device_list(NULL, &count, &err) == DIT_OK && count >= 1);
    CHECK(dit_device_list(all, &room, &err) == DIT_OK && room == count && all[0].name[0] && all[0].rung[0]);
    room = 1;
    CHECK(dit_device_list(&one, &room, NULL) == DIT_OK && room == 1 && strcmp(one.name, all[0].name) == 0);
    CHECK(dit_device_list(NULL, NULL, &err) == DIT_ERROR_INVALID_ARGUMENT);
}

/* ---- Requests ---- */

typedef void (*spoiler)(dit_job_desc *desc);
static void spoil_width(dit_job_desc *d) { d->width = 40; }
static void spoil_height(dit_job_desc *d) { d->height = 20000; }
static void spoil_steps(dit_job_desc *d) { d->steps = 1001; }
static void spoil_images(dit_job_desc *d) { d->image_count = 100000; }
static void spoil_frames(dit_job_desc *d) { d->frame_count = 2; }
static void spoil_sampler(dit_job_desc *d) { d->sampler = "eular"; }
static void spoil_schedule(dit_job_desc *d) { d->schedule = "no such schedule"; }
static void spoil_guidance(dit_job_desc *d) { d->guidance.scale = -1; }
static void spoil_guidance_nan(dit_job_desc *d) { d->guidance.scale = NAN; }
static void spoil_distilled(dit_job_desc *d) { d->guidance.distilled = 3; }
static void spoil_rescale(dit_job_desc *d) { d->guidance.rescale = 1.5f; }
static void spoil_project(dit_job_desc *d) { d->guidance.project = NAN; }
static void spoil_norm_limit(dit_job_desc *d) { d->guidance.norm_limit = -1; }
static void spoil_length_limit(dit_job_desc *d) { d->guidance.length_limit = NAN; }
static void spoil_interval(dit_job_desc *d) { d->guidance.first = 0.5f, d->guidance.last = 0.5f; }
static void spoil_rng(dit_job_desc *d) { d->rng = (dit_rng)9; }
static void spoil_labels(dit_job_desc *d) { d->class_labels = (const int32_t *)d; }
static void spoil_adapters(dit_job_desc *d) { d->adapter_count = 1; }
static void spoil_references(dit_job_desc *d) { d->reference_count = 1; }
static void spoil_init(dit_job_desc *d) { d->init_image = (const dit_image *)d; }
static void spoil_mask(dit_job_desc *d) { d->mask = (const dit_image *)d; }
static void spoil_floats(dit_job_desc *d) {
    static uint8_t bytes[SIDE * SIDE * 4];
    static const float floats[SIDE * SIDE * 3];
    static dit_image image;
    image.width = image.height = SIDE;
    image.rgba = bytes;
    image.rgb = floats;
    d->init_image = &image;
}
static void spoil_split(dit_job_desc *d) { d->split = "cfg2"; }
static void spoil_cache(dit_job_desc *d) { d->cache = "teacache"; }
static void spoil_clip(dit_job_desc *d) { d->clip_skip = 2; }
static void spoil_inputs(dit_job_desc *d) { d->input_count = 1; }
static void spoil_model(dit_job_desc *d) { d->model = NULL; }
static void spoil_blob(dit_job_desc *d) { d->conditioning = "not a blob", d->conditioning_size = 10; }
static void spoil_target(dit_job_desc *d) { d->target.format = VK_FORMAT_R32_SFLOAT; }
static void spoil_layout(dit_job_desc *d) { d->target.final_layout = VK_IMAGE_LAYOUT_PREINITIALIZED; }
static void spoil_input_name(dit_job_desc *d) {
    static dit_tensor tensor = {"noize", DIT_TYPE_F32, 4, {1, 4, 4, 4, 0}, "x"};
    d->inputs = &tensor, d->input_count = 1;
}
static void spoil_input_shape(dit_job_desc *d) {
    static const float data[16];
    static dit_tensor tensor = {"noise", DIT_TYPE_F32, 4, {1, 4, 2, 2, 0}, data};
    d->inputs = &tensor, d->input_count = 1;
}
static void spoil_input_twice(dit_job_desc *d) {
    static const float data[64];
    static const dit_tensor noise = {"noise", DIT_TYPE_F32, 4, {1, 4, 4, 4, 0}, data};
    static dit_tensor tensors[2];
    tensors[0] = tensors[1] = noise;
    d->inputs = tensors, d->input_count = 2;
}
static void spoil_init_count(dit_job_desc *d) { d->init_count = 1; }
static void spoil_loop_edit(dit_job_desc *d) { d->loop_edit = NAN; }

/* Whether questions about a job are refused as the job is. */
static bool asks_alike(const dit_job_desc *desc, const char *says) {
    dit_inspector inspector = {0};
    dit_memory memory;
    dit_error err = {0};
    return refused(dit_job_memory(shared, desc, &memory, &err), &err, says) &&
           refused(dit_job_inspect(shared, desc, &inspector, &err), &err, says);
}

static void test_job_refusals(void) {
    static const struct {
        spoiler spoil;
        const char *says;
    } cases[] = {
        {spoil_width, "is 48"},
        {spoil_height, "is 16384"},
        {spoil_steps, "1000"},
        {spoil_images, "image_count"},
        {spoil_frames, "frame_count"},
        {spoil_sampler, "eular"},
        {spoil_schedule, "no such schedule"},
        {spoil_guidance, "guidance.scale"},
        {spoil_guidance_nan, "guidance.scale"},
        {spoil_distilled, "distilled"},
        {spoil_rescale, "rescale 1.5"},
        {spoil_project, "project nan"},
        {spoil_norm_limit, "norm_limit -1"},
        {spoil_length_limit, "length_limit nan"},
        {spoil_interval, "first 0.5 and last 0.5"},
        {spoil_rng, "rng"},
        {spoil_labels, "class_labels"},
        {spoil_adapters, "adapter"},
        {spoil_references, "references"},
        {spoil_init, "init_image"},
        {spoil_mask, "mask"},
        {spoil_floats, "init_image.rgb"},
        {spoil_split, "split"},
        {spoil_cache, "cache"},
        {spoil_clip, "clip_skip"},
        {spoil_inputs, "inputs"},
        {spoil_model, "model"},
        {spoil_blob, "conditioning"},
        {spoil_target, "target.format"},
        {spoil_layout, "target.final_layout"},
        {spoil_input_name, "noize"},
        {spoil_input_shape, "noise"},
        {spoil_input_twice, "noise is given twice"},
        {spoil_init_count, "init_image is NULL, init_count is 1"},
        {spoil_loop_edit, "loop_edit"},
    };
    size_t i;
    for (i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        dit_job_desc desc = describe(shared_model, 7);
        dit_job *job = (dit_job *)&desc;
        dit_error err = {0};
        cases[i].spoil(&desc);
        CHECK_MESSAGE(refused(dit_job_create(shared, &desc, &job, &err), &err, cases[i].says), "case %zu", i);
        CHECK_MESSAGE(!job, "case %zu leaves something in out", i);
        CHECK_MESSAGE(asks_alike(&desc, cases[i].says), "case %zu", i);
        CHECK(dit_job_create(shared, &desc, &job, NULL) == DIT_ERROR_INVALID_ARGUMENT);
    }
}

/* All zeros but for what is required: the model's own size, steps, guidance, sampler; an empty prompt. */
static void test_zero_job(void) {
    dit_job_desc desc = {0};
    dit_model_info info;
    dit_output output;
    dit_job *job;
    dit_model_get_info(shared_model, &info);
    CHECK(strcmp(info.family, "pixart") == 0 && info.missing == 0 && info.size_multiple == 16);
    CHECK(info.default_width == 64 && info.default_height == 64 && info.latent_channels == 4 &&
          info.latent_factor == 8);
    CHECK_MESSAGE(info.default_sampler[0] && info.default_steps > 0 && info.default_guidance > 1,
                  "defaults are not told");
    CHECK(info.parameters[DIT_ROLE_TRANSFORMER] > 1000 && info.parameters[DIT_ROLE_VAE] > 1000 &&
          info.parameters[DIT_ROLE_TEXT_1] > 1000);
    desc.model = shared_model;
    job = create_job(shared, &desc);
    CHECK(dit_job_output(job, 0, 0, &output) == DIT_WORKING);
    dit_job_cancel(job);
    dit_job_destroy(job);
    desc.steps = 1;
    job = create_job(shared, &desc);
    if (finish(job)) CHECK(dit_job_output(job, 0, 0, &output) == DIT_OK && output.width == 64 && output.height == 64);
    dit_job_destroy(job);
}

static void test_dry_run(void) {
    dit_model_desc desc = {0};
    dit_model *model = NULL;
    dit_model_info dry, loaded;
    dit_job_desc jd;
    dit_job *job = NULL;
    dit_memory memory = {0}, real = {0};
    dit_error err = {0};
    desc.source.path = MODEL;
    desc.dry_run = true;
    if (!CHECK_MESSAGE(dit_model_load(NULL, &desc, &model, &err) == DIT_OK, "%s", err.message)) return;
    dit_model_get_info(model, &dry);
    dit_model_get_info(shared_model, &loaded);
    CHECK(memcmp(&dry, &loaded, sizeof dry) == 0);
    jd = describe(model, 7);
    CHECK(refused(dit_job_create(shared, &jd, &job, &err), &err, "dry run") && !job);
    CHECK_MESSAGE(dit_job_memory(NULL, &jd, &memory, &err) == DIT_OK, "%s", err.message);
    CHECK(memory.weights > 100000 && memory.activations > 1000 && memory.peak >= memory.weights + memory.activations);
    jd = describe(shared_model, 7);
    CHECK(dit_job_memory(shared, &jd, &real, &err) == DIT_OK && real.weights >= memory.weights / 4 * 3);
    dit_model_destroy(model);
}

/* ---- Determinism ---- */

/* Whatever the budget, the bytes are the same. */
static void test_budgets(void) {
    static const uint32_t budgets[] = {0, 1, 500, 20000, UINT32_MAX};
    dit_job_desc desc = describe(shared_model, 7);
    dit_job *job = create_job(shared, &desc);
    size_t i;
    for (i = 0; job && i < sizeof budgets / sizeof budgets[0]; i++) {
        dit_result result;
        dit_error err = {0};
        dit_status status;
        float before = 0;
        bool rises = true;
        do {
            result = dit_job_step(job, budgets[i]);
            dit_job_status(job, &status, NULL);
            rises = rises && status.fraction >= before && status.fraction <= 1 && status.result == result;
            before = status.fraction;
        } while (result == DIT_WORKING);
        dit_job_status(job, &status, &err);
        CHECK_MESSAGE(result == DIT_OK && err.result == DIT_OK && !err.message[0], "%s", err.message);
        CHECK(rises && status.fraction == 1 && status.step == STEPS && status.step_count == STEPS &&
              status.stage == DIT_STAGE_DONE);
        CHECK_MESSAGE(is_expected(job), "budget %u gives another picture", budgets[i]);
        CHECK(dit_job_step(job, 0) == DIT_OK && dit_job_wait(job, 0) == DIT_OK);
        CHECK_MESSAGE(dit_job_restart(job, &desc, &err) == DIT_OK, "%s", err.message);
    }
    dit_job_destroy(job);
}

static void test_batch(void) {
    dit_job_desc desc = describe(shared_model, 6);
    unsigned char rgba[BYTES];
    float latent[4 * (SIDE / 8) * (SIDE / 8)];
    dit_job *job;
    desc.image_count = 3;
    job = create_job(shared, &desc);
    if (finish(job)) {
        CHECK_MESSAGE(read_picture(job, 1, rgba, sizeof rgba) && memcmp(rgba, expected, BYTES) == 0,
                      "image 1 of seed 6 is not seed 7's");
        CHECK(read_picture(job, 2, rgba, sizeof rgba) && memcmp(rgba, expected, BYTES) != 0);
        CHECK(dit_job_read(job, DIT_READ_LATENT_F32, 2, 0, latent, sizeof latent, 0, NULL) == DIT_OK);
        CHECK(dit_job_read(job, DIT_READ_RGBA8, 3, 0, rgba, sizeof rgba, 0, NULL) == DIT_ERROR_INVALID_ARGUMENT);
        CHECK(dit_job_read(job, DIT_READ_RGBA8, 0, 1, rgba, sizeof rgba, 0, NULL) == DIT_ERROR_INVALID_ARGUMENT);
    }
    dit_job_destroy(job);
}

/* ---- Counters: restart and new sizes ---- */

static void test_restart(void) {
    dit_job_desc desc = describe(shared_model, 3), other = describe(shared_model, 7);
    dit_counters created, first, second;
    dit_error err = {0};
    dit_job *job = create_job(shared, &desc);
    dit_job_get_counters(job, &created);
    CHECK(created.recordings > 0 && created.allocations > 0 && created.submits == 0 && created.dispatches == 0);
    if (!finish(job)) return dit_job_destroy(job);
    CHECK(!is_expected(job));
    dit_job_get_counters(job, &first);
    desc.prompt = "something else that is rather longer";
    CHECK(dit_job_restart(job, &desc, &err) == DIT_OK && finish(job) && !is_expected(job));
    CHECK_MESSAGE(dit_job_restart(job, &other, &err) == DIT_OK, "%s", err.message);
    CHECK_MESSAGE(finish(job) && is_expected(job), "a restarted job is not a new one");
    dit_job_get_counters(job, &second);
    CHECK(first.recordings == created.recordings && second.recordings == created.recordings);
    CHECK(first.allocations == created.allocations && second.allocations == created.allocations);
    CHECK(first.pipelines == created.pipelines && second.pipelines == created.pipelines);
    CHECK(second.dispatches == 3 * first.dispatches);
    other.width = SIDE + 16;
    CHECK(refused(dit_job_restart(job, &other, &err), &err, "width"));
    CHECK_MESSAGE(is_expected(job), "a refused restart changes the job");
    other = describe(shared_model, 7);
    other.steps = STEPS + 1;
    CHECK(refused(dit_job_restart(job, &other, &err), &err, "steps"));
    other = describe(shared_model, 7);
    other.guidance.scale = 1;
    CHECK(refused(dit_job_restart(job, &other, &err), &err, "guidance"));
    other.guidance.scale = 9;
    CHECK(dit_job_restart(job, &other, &err) == DIT_OK && finish(job) && !is_expected(job));
    dit_job_destroy(job);
}

/* Weights of 1 change nothing; others do, in a restarted job as in a new one; without the flag brackets are text. */
static void test_prompt_weights(void) {
    unsigned char fresh[BYTES], again[BYTES];
    dit_job_desc desc = describe(shared_model, 7), weighted;
    dit_error err = {0};
    dit_job *job, *reference;
    desc.prompt_weights = true;
    weighted = desc;
    weighted.prompt = "a (red:1.6) heart";
    reference = create_job(shared, &weighted);
    if (finish(reference)) read_picture(reference, 0, fresh, BYTES);
    dit_job_destroy(reference);
    desc.prompt = "a (red:1.0) heart";
    job = create_job(shared, &desc);
    if (finish(job)) CHECK(is_expected(job) && memcmp(fresh, expected, BYTES) != 0);
    CHECK_MESSAGE(dit_job_restart(job, &weighted, &err) == DIT_OK, "%s", err.message);
    if (finish(job) && read_picture(job, 0, again, BYTES)) CHECK(!memcmp(fresh, again, BYTES));
    CHECK(dit_job_restart(job, &desc, &err) == DIT_OK && finish(job) && is_expected(job));
    weighted.prompt_weights = false;
    CHECK(dit_job_restart(job, &weighted, &err) == DIT_OK && finish(job));
    if (read_picture(job, 0, again, BYTES)) CHECK(memcmp(fresh, again, BYTES) && memcmp(expected, again, BYTES));
    dit_job_destroy(job);
}

/* Every sampler makes a picture. Guidance from 0 to 1 is guidance; from the last step on it is another picture, and so
   are those that are rescaled or projected. */
static void test_guidance(void) {
    const dit_guidance none = {0};
    dit_guidance guidances[4] = {none, none, none, none};
    dit_error err = {0};
    guidances[0].last = 1;
    guidances[1].first = 0.9f, guidances[1].last = 1;
    guidances[2].rescale = 0.7f;
    guidances[3].project = 1, guidances[3].norm_limit = 2;
    for (int i = 0; i < 4; i++) {
        dit_job_desc desc = describe(shared_model, 7);
        dit_job *job;
        guidances[i].scale = desc.guidance.scale;
        desc.guidance = guidances[i];
        job = create_job(shared, &desc);
        CHECK_MESSAGE(job && finish(job) && is_expected(job) == (i == 0), "guidance %d", i);
        if (i < 2) {
            desc.guidance.rescale = 0.5f;
            CHECK(refused(dit_job_restart(job, &desc, &err), &err, "rescale"));
        }
        dit_job_destroy(job);
    }
}

/* DDPM with the variance that the model predicts beside the noise: another picture than with a fixed one. */
static dit_result open_scheduler(const char *member, dit_source *out, void *user) {
    if (strcmp(member, "scheduler_config.json") != 0) return DIT_ERROR_IO;
    out->data = user;
    out->size = strlen((const char *)user);
    return DIT_OK;
}

static void test_learned_variance(void) {
    static char configs[2][100] = {
        "{\"_class_name\":\"DDPMScheduler\",\"clip_sample\":false,\"variance_type\":\"learned_range\"}",
        "{\"_class_name\":\"DDPMScheduler\",\"clip_sample\":false}"};
    static unsigned char pictures[2][BYTES];
    for (int i = 0; i < 2; i++) {
        dit_component scheduler = {{0}, DIT_ROLE_SCHEDULER, 0, false, DIT_ROLE_NONE};
        dit_model_desc md = {0};
        dit_job_desc jd;
        dit_model *model = NULL;
        dit_job *job;
        dit_error err = {0};
        scheduler.source.open = open_scheduler;
        scheduler.source.user = configs[i];
        md.source.path = MODEL;
        md.components = &scheduler, md.component_count = 1;
        CHECK_MESSAGE(dit_model_load(shared, &md, &model, &err) == DIT_OK, "%s", err.message);
        jd = describe(model, 7);
        job = create_job(shared, &jd);
        CHECK(job && finish(job) && read_picture(job, 0, pictures[i], BYTES));
        dit_job_destroy(job);
        dit_model_destroy(model);
    }
    CHECK(memcmp(pictures[0], pictures[1], BYTES) != 0);
}

/* A prompt of many more tokens than the plan has rows for is planned anew, and the picture is that of a new job. */
static void test_restart_longer(void) {
    static char longer[6 * 50 + 1];
    unsigned char fresh[BYTES], again[BYTES];
    dit_job_desc desc = describe(shared_model, 7), other;
    dit_counters before, after;
    dit_output output, then;
    dit_error err = {0};
    dit_job *job = create_job(shared, &desc), *reference;
    int i;
    for (i = 0; i < 50; i++) memcpy(longer + 6 * i, "a cat ", 7);
    other = desc;
    other.prompt = other.negative_prompt = longer;
    reference = create_job(shared, &other);
    if (finish(reference)) read_picture(reference, 0, fresh, BYTES);
    if (finish(job)) CHECK(is_expected(job) && dit_job_output(job, 0, 0, &output) == DIT_OK);
    dit_job_get_counters(job, &before);
    CHECK_MESSAGE(dit_job_restart(job, &other, &err) == DIT_OK, "%s", err.message);
    if (finish(job) && read_picture(job, 0, again, BYTES)) CHECK(!memcmp(fresh, again, BYTES) && !is_expected(job));
    dit_job_get_counters(job, &after);
    CHECK(after.recordings > before.recordings && after.allocations > before.allocations);
    CHECK_MESSAGE(after.pipelines == before.pipelines, "%llu pipelines for a prompt's length",
                  (unsigned long long)(after.pipelines - before.pipelines));
    CHECK(dit_job_output(job, 0, 0, &then) == DIT_OK && then.timeline == output.timeline && then.value > output.value);
    CHECK(dit_job_restart(job, &desc, &err) == DIT_OK && finish(job) && is_expected(job));
    dit_job_destroy(reference);
    dit_job_destroy(job);
}

/* A plan for a size that was planned before compiles nothing, and a new size only what it needs beyond. */
static void test_new_sizes(void) {
    static const uint32_t sides[] = {32, 48, 32, 48, 80};
    dit_counters counters;
    size_t i;
    for (i = 0; i < sizeof sides / sizeof sides[0]; i++) {
        dit_job_desc desc = describe(shared_model, 7);
        dit_job *job;
        desc.width = desc.height = sides[i];
        job = create_job(shared, &desc);
        dit_job_get_counters(job, &counters);
        if (i == 0 || i == 2 || i == 3)
            CHECK_MESSAGE(counters.pipelines == 0, "%llu pipelines for a size that was planned before",
                          (unsigned long long)counters.pipelines);
        CHECK(counters.recordings > 0);
        dit_job_destroy(job);
    }
}

/* ---- Threads ---- */

typedef struct task {
    pthread_t thread;
    dit_context *ctx;
    const dit_model *model;
    bool own_context;
    uint64_t seed;
    unsigned char rgba[BYTES];
    dit_result result;
    dit_error err;
} task;

static void *run_task(void *arg) {
    task *t = (task *)arg;
    dit_context_desc cd = {0};
    dit_model_desc md = {0};
    dit_model *model = NULL;
    dit_job *job = NULL;
    dit_job_desc desc;
    cd.overrides = SLOW; /* as open_context does */
    md.source.path = MODEL;
    t->result = t->own_context ? dit_context_create(&cd, &t->ctx, &t->err) : DIT_OK;
    if (t->result == DIT_OK && t->own_context) t->result = dit_model_load(t->ctx, &md, &model, &t->err);
    desc = describe(t->own_context ? model : t->model, t->seed);
    if (t->result == DIT_OK) t->result = dit_job_create(t->ctx, &desc, &job, &t->err);
    if (t->result == DIT_OK) t->result = dit_job_wait(job, UINT64_MAX);
    if (t->result == DIT_OK) t->result = dit_job_read(job, DIT_READ_RGBA8, 0, 0, t->rgba, BYTES, 0, &t->err);
    dit_job_destroy(job);
    if (!t->own_context) return NULL;
    dit_model_destroy(model);
    dit_context_destroy(t->ctx);
    return NULL;
}

static void test_two_threads(bool own_contexts) {
    static task tasks[2];
    int i;
    for (i = 0; i < 2; i++) {
        memset(&tasks[i], 0, sizeof tasks[i]);
        tasks[i].own_context = own_contexts;
        tasks[i].ctx = shared;
        tasks[i].model = shared_model;
        tasks[i].seed = 7;
        CHECK(pthread_create(&tasks[i].thread, NULL, run_task, &tasks[i]) == 0);
    }
    for (i = 0; i < 2; i++) {
        pthread_join(tasks[i].thread, NULL);
        CHECK_MESSAGE(tasks[i].result == DIT_OK, "%s", tasks[i].err.message);
        CHECK(memcmp(tasks[i].rgba, expected, BYTES) == 0);
    }
}

static void test_interleaved(void) {
    dit_job_desc a = describe(shared_model, 7), b = describe(shared_model, 8);
    dit_result ra = DIT_WORKING, rb = DIT_WORKING;
    dit_job *ja, *jb;
    b.width = 48;
    b.prompt = "another one";
    ja = create_job(shared, &a);
    jb = create_job(shared, &b);
    while (ra == DIT_WORKING || rb == DIT_WORKING) {
        if (ra == DIT_WORKING) ra = dit_job_step(ja, 300);
        if (rb == DIT_WORKING) rb = dit_job_step(jb, 700);
    }
    CHECK(ra == DIT_OK && rb == DIT_OK && is_expected(ja));
    dit_job_destroy(ja); /* in the order of creation, the other is done afterwards */
    CHECK(dit_job_restart(jb, &b, NULL) == DIT_OK && finish(jb));
    dit_job_destroy(jb);
}

/* ---- Cancelling ---- */

static void test_cancel(void) {
    dit_job_desc desc = describe(shared_model, 7);
    dit_counters before, after;
    dit_output output;
    unsigned char rgba[BYTES];
    dit_error err = {0};
    dit_job *job = create_job(shared, &desc);
    CHECK(dit_job_step(job, 1) == DIT_WORKING);
    CHECK(dit_job_read(job, DIT_READ_RGBA8, 0, 0, rgba, sizeof rgba, 0, &err) == DIT_WORKING);
    dit_job_get_counters(job, &before);
    dit_job_cancel(job);
    CHECK(dit_job_step(job, UINT32_MAX) == DIT_CANCELLED);
    CHECK(dit_job_wait(job, UINT64_MAX) == DIT_CANCELLED);
    dit_job_get_counters(job, &after);
    CHECK_MESSAGE(after.submits == before.submits, "work was submitted after the cancel");
    CHECK(dit_job_output(job, 0, 0, &output) == DIT_CANCELLED);
    CHECK(dit_job_read(job, DIT_READ_RGBA8, 0, 0, rgba, sizeof rgba, 0, &err) == DIT_CANCELLED);
    CHECK(dit_job_restart(job, &desc, &err) == DIT_OK && finish(job) && is_expected(job));
    dit_job_cancel(job);
    CHECK_MESSAGE(dit_job_wait(job, 0) == DIT_OK && is_expected(job), "cancelling a finished job changes it");
    dit_job_destroy(job);
}

static double cancelled_at;

static void *cancel_soon(void *arg) {
    struct timespec pause = {0, 60000000};
    nanosleep(&pause, NULL);
    cancelled_at = seconds();
    dit_job_cancel((dit_job *)arg);
    return NULL;
}

static void test_cancel_from_thread(void) {
    dit_job_desc desc = describe(shared_model, 7);
    pthread_t thread;
    dit_result result;
    dit_status status;
    dit_job *job;
    desc.steps = 400;
    job = create_job(shared, &desc);
    if (!job || pthread_create(&thread, NULL, cancel_soon, job) != 0) return;
    result = dit_job_wait(job, UINT64_MAX);
    pthread_join(thread, NULL);
    CHECK(result == DIT_CANCELLED);
    dit_job_status(job, &status, NULL);
    CHECK(status.result == DIT_CANCELLED && status.step < 400);
    /* a slice is planned for 50 ms, and drivers under validation layers take their time */
    CHECK_MESSAGE(seconds() - cancelled_at < 5, "it took %.2f s", seconds() - cancelled_at);
    dit_job_destroy(job);
}

static bool cancel_progress(const char *what, uint64_t done, uint64_t total, void *user) {
    static const char *const told[] = {"transformer", "text encoder", "autoencoder", "testing kernels",
                                       "preparing kernels"};
    int *left = (int *)user;
    size_t i;
    for (i = 0; i < sizeof told / sizeof *told && (!what || strcmp(what, told[i])); i++) {
    }
    CHECK_MESSAGE(i < sizeof told / sizeof *told && done <= total, "%s: %llu of %llu", what ? what : "NULL",
                  (unsigned long long)done, (unsigned long long)total);
    return (*left)-- > 0;
}

/* A progress hook that says no at its first, second, ... call ends the call with DIT_CANCELLED. */
static void test_progress_cancels(void) {
    dit_model_desc desc = {0};
    int calls, n;
    for (n = 0; n < 6; n++) {
        dit_model *model = (dit_model *)&desc;
        dit_error err = {0};
        dit_result result;
        calls = n;
        desc.source.path = MODEL;
        desc.progress.func = cancel_progress;
        desc.progress.user = &calls;
        result = dit_model_load(shared, &desc, &model, &err);
        if (result == DIT_OK && CHECK_MESSAGE(n > 0, "loading never tells its progress")) dit_model_destroy(model);
        if (result != DIT_OK) CHECK_MESSAGE(result == DIT_CANCELLED && !model, "%s", err.message);
    }
}

/* Threads that a worker lends compile first, which is cancelled like the tests behind it. */
static bool lend_here(void (*task)(void *arg), void *arg, void *user) {
    (void)task, (void)arg;
    ++*(int *)user;
    return false;
}

static void test_progress_cancels_context(void) {
    int calls, n, asked = 0;
    for (n = 0; n < 6; n++) {
        dit_context_desc desc = {0};
        dit_context *ctx = (dit_context *)&desc;
        dit_error err = {0};
        dit_result result;
        calls = n / 2;
        desc.progress.func = cancel_progress;
        desc.progress.user = &calls;
        if (n % 2) {
            desc.worker.run = lend_here;
            desc.worker.user = &asked;
        }
        desc.overrides = "rung=base";
        result = dit_context_create(&desc, &ctx, &err);
        if (result == DIT_OK && CHECK_MESSAGE(n > 1, "making a context never tells its progress"))
            dit_context_destroy(ctx);
        if (result != DIT_OK) CHECK_MESSAGE(result == DIT_CANCELLED && !ctx && !err.message[0], "%s", err.message);
    }
    CHECK(calls < 1 && asked > 0);
}

/* The context's progress is that of calls that have none of their own. */
static void test_progress_of_context(void) {
    dit_context_desc cd = {0};
    dit_model_desc md = {0};
    dit_encoding *encoding = NULL;
    dit_error err = {0};
    size_t size = 0;
    int calls = 1000;
    dit_context *ctx;
    dit_model *model;
    void *blob;
    cd.overrides = "rung=base";
    cd.progress.func = cancel_progress;
    cd.progress.user = &calls;
    ctx = open_context(&cd);
    model = ctx ? load_model(ctx) : NULL;
    CHECK(model && dit_encode_prompt(ctx, model, "a fox", NULL, &size, &err) == DIT_OK);
    blob = malloc(size);
    if (model && blob) {
        calls = 0;
        CHECK(dit_encoding_create(ctx, model, "a fox", false, &encoding, &err) == DIT_CANCELLED && !encoding);
        CHECK(dit_encode_prompt(ctx, model, "a fox", blob, &size, &err) == DIT_CANCELLED && !err.message[0]);
        calls = 1000;
        CHECK(dit_encode_prompt(ctx, model, "a fox", blob, &size, &err) == DIT_OK && calls < 1000);
    }
    free(blob);
    dit_model_destroy(model);
    calls = 2;
    md.source.path = MODEL;
    CHECK(ctx && dit_model_load(ctx, &md, &model, &err) == DIT_CANCELLED && !model && calls < 0);
    dit_context_destroy(ctx);
}

/* ---- Hooks ---- */

typedef struct counting_user {
    size_t live, bytes, calls, wrong;
    pthread_mutex_t lock;
} counting_user;

typedef struct counting_head {
    size_t size;
    void *base;
} counting_head;

static void *count_alloc(size_t size, size_t align, void *user) {
    counting_user *c = (counting_user *)user;
    char *base = (char *)malloc(size + align + sizeof(counting_head)), *p;
    counting_head head;
    if (!base) return NULL;
    p = (char *)(((uintptr_t)base + sizeof head + align - 1) / align * align);
    head.size = size;
    head.base = base;
    memcpy(p - sizeof head, &head, sizeof head);
    pthread_mutex_lock(&c->lock);
    c->live++, c->calls++, c->bytes += size;
    if (align == 0 || (align & (align - 1)) != 0) c->wrong++;
    pthread_mutex_unlock(&c->lock);
    memset(p, 0xcd, size);
    return p;
}

static void count_free(void *p, size_t size, void *user) {
    counting_user *c = (counting_user *)user;
    counting_head head;
    memcpy(&head, (char *)p - sizeof head, sizeof head);
    pthread_mutex_lock(&c->lock);
    c->live--, c->bytes -= size;
    if (head.size != size) c->wrong++;
    pthread_mutex_unlock(&c->lock);
    free(head.base);
}

typedef struct log_user {
    int lines, wrong, max_level;
} log_user;

static void count_log(int level, const char *message, void *user) {
    log_user *l = (log_user *)user;
    l->lines++;
    if (level < 0 || level > l->max_level || !message || strchr(message, '\n') || !message[0]) l->wrong++;
}

typedef struct lent_task {
    void (*task)(void *arg);
    void *arg;
    pthread_t thread;
} lent_task;

static int lent;
static void *run_lent(void *arg) {
    lent_task t = *(lent_task *)arg;
    free(arg);
    t.task(t.arg);
    return NULL;
}
static bool lend_thread(void (*work)(void *arg), void *arg, void *user) {
    lent_task *t = (lent_task *)malloc(sizeof *t);
    pthread_t thread;
    if (!t || ++lent % 3 == 0) return free(t), false; /* every third task is refused */
    t->task = work;
    t->arg = arg;
    (void)user;
    if (pthread_create(&thread, NULL, run_lent, t) != 0) return free(t), false;
    pthread_detach(thread);
    return true;
}

/* A picture larger than the memory that a context may take is refused, and the next job is made. */
static void check_memory_limit(dit_context *ctx, const dit_model *model, uint64_t limit) {
    dit_job_desc desc = describe(model, 7);
    dit_job *job = NULL;
    dit_memory memory = {0};
    dit_error err = {0};
    dit_result result;
    desc.width = desc.height = 2048;
    CHECK_MESSAGE(dit_job_memory(ctx, &desc, &memory, &err) == DIT_OK && memory.peak > limit, "%.1f MB, %s",
                  (double)memory.peak / 1e6, err.message);
    result = dit_job_create(ctx, &desc, &job, &err);
    CHECK_MESSAGE(result == DIT_ERROR_OUT_OF_DEVICE_MEMORY && !job && strstr(err.message, "MB"), "%s", err.message);
    dit_job_destroy(job);
}

/* One context with every hook of the host, as many slices as there can be, and little memory. */
static void test_hooks_and_limits(void) {
    static counting_user counts = {0, 0, 0, 0, PTHREAD_MUTEX_INITIALIZER};
    log_user log = {0, 0, 3};
    dit_context_desc cd = {0};
    dit_context *ctx;
    dit_model *model;
    dit_job_desc desc = describe(shared_model, 7);
    dit_error err = {0};
    dit_counters few, many;
    dit_job *job, *reference = create_job(shared, &desc);
    cd.allocator.alloc = count_alloc;
    cd.allocator.free = count_free;
    cd.allocator.user = &counts;
    cd.logger.func = count_log;
    cd.logger.max_level = log.max_level;
    cd.logger.user = &log;
    cd.worker.run = lend_thread;
    cd.max_slice_us = 1;
    cd.device_memory_limit = 48 << 20;
    ctx = open_context(&cd);
    model = ctx ? load_model(ctx) : NULL;
    if (model) check_memory_limit(ctx, model, cd.device_memory_limit);
    desc = describe(model, 7);
    CHECK(refused(dit_job_create(shared, &desc, &job, &err), &err, "another context") && !job);
    CHECK(asks_alike(&desc, "another context"));
    job = model ? create_job(ctx, &desc) : NULL;
    if (finish(job) && finish(reference)) {
        CHECK_MESSAGE(is_expected(job), "hooks, slices of 1 us or too large a picture before change the picture");
        dit_job_get_counters(job, &many);
        dit_job_get_counters(reference, &few);
        CHECK_MESSAGE(many.dispatches > few.dispatches, "%llu and %llu dispatches: nothing was cut",
                      (unsigned long long)many.dispatches, (unsigned long long)few.dispatches);
        CHECK(many.submits > few.submits);
    }
    CHECK(counts.calls > 20 && counts.live > 5);
    dit_job_destroy(reference);
    dit_job_destroy(job);
    dit_model_destroy(model);
    dit_context_destroy(ctx);
    CHECK_MESSAGE(counts.live == 0 && counts.bytes == 0, "%zu blocks, %zu bytes are left", counts.live, counts.bytes);
    CHECK_MESSAGE(counts.wrong == 0, "%zu times a wrong size or alignment", counts.wrong);
    CHECK(log.lines > 0 && log.wrong == 0);
}

/* ---- Threads that compile ---- */

/* Compilations that meet each other: with `wanted` set, the first ones wait until so many run at once. With `fails`
   none succeeds, and the first one waits until another one has failed. */
static struct compiling {
    PFN_vkGetDeviceProcAddr get_device_proc_addr;
    PFN_vkCreateComputePipelines create;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int wanted, inside, most, begun, ended;
    bool fails;
} compiling = {NULL, NULL, PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, 0, 0, 0, 0, false};

static bool compiling_waits(bool first) {
    return compiling.fails ? first && compiling.ended == 0 && compiling.wanted > 1 : compiling.most < compiling.wanted;
}

static VKAPI_ATTR VkResult VKAPI_CALL compile(VkDevice device, VkPipelineCache cache, uint32_t count,
                                              const VkComputePipelineCreateInfo *infos,
                                              const VkAllocationCallbacks *callbacks, VkPipeline *out) {
    struct timespec until;
    VkResult result = VK_ERROR_UNKNOWN;
    bool first;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 20;
    pthread_mutex_lock(&compiling.lock);
    first = compiling.begun++ == 0;
    if (++compiling.inside > compiling.most) compiling.most = compiling.inside;
    pthread_cond_broadcast(&compiling.changed);
    while (compiling_waits(first) && !pthread_cond_timedwait(&compiling.changed, &compiling.lock, &until)) {
    }
    pthread_mutex_unlock(&compiling.lock);
    if (!compiling.fails) result = compiling.create(device, cache, count, infos, callbacks, out);
    pthread_mutex_lock(&compiling.lock);
    compiling.inside--;
    compiling.ended++;
    pthread_cond_broadcast(&compiling.changed);
    pthread_mutex_unlock(&compiling.lock);
    return result;
}

static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL compiling_device(VkDevice device, const char *name) {
    PFN_vkVoidFunction real = compiling.get_device_proc_addr(device, name);
    if (strcmp(name, "vkCreateComputePipelines")) return real;
    compiling.create = (PFN_vkCreateComputePipelines)real;
    return (PFN_vkVoidFunction)compile;
}

static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL compiling_instance(VkInstance instance, const char *name) {
    PFN_vkVoidFunction real = test_vulkan_function(instance, name);
    if (strcmp(name, "vkGetDeviceProcAddr")) return real;
    compiling.get_device_proc_addr = (PFN_vkGetDeviceProcAddr)real;
    return (PFN_vkVoidFunction)compiling_device;
}

typedef struct lender {
    int most, lent; /* threads, so far */
    int asked;      /* times that progress was called; it ends the call at cancel_at */
    int cancel_at;
    uint64_t done, total; /* as progress told last */
} lender;

static char said_of_failure[sizeof((dit_error *)0)->message];

typedef struct lenders_task {
    void (*task)(void *arg);
    void *arg;
} lenders_task;

static void *run_lenders(void *arg) {
    lenders_task t = *(lenders_task *)arg;
    free(arg);
    t.task(t.arg);
    return NULL;
}

static bool lend_some(void (*task)(void *arg), void *arg, void *user) {
    lender *from = (lender *)user;
    lenders_task *t = from->lent < from->most ? (lenders_task *)malloc(sizeof *t) : NULL;
    pthread_t thread;
    if (!t) return false;
    t->task = task;
    t->arg = arg;
    if (pthread_create(&thread, NULL, run_lenders, t) != 0) return free(t), false;
    pthread_detach(thread);
    return from->lent++, true;
}

static bool count_progress(const char *what, uint64_t done, uint64_t total, void *user) {
    lender *from = (lender *)user;
    if (strcmp(what, "preparing kernels")) return true;
    CHECK(done >= from->done && done <= total && (!from->total || total == from->total));
    from->done = done;
    from->total = total;
    return ++from->asked != from->cancel_at;
}

/* Makes a job of a model on a context that lends threads; *err is the error of its creation. */
static dit_job *create_with(dit_context *ctx, dit_model *model, lender *from) {
    dit_job_desc desc = describe(model, 7);
    dit_job *job = NULL;
    dit_error err = {0};
    compiling.inside = compiling.most = compiling.begun = compiling.ended = 0;
    desc.progress.func = count_progress;
    desc.progress.user = from;
    err.result = dit_job_create(ctx, &desc, &job, &err);
    CHECK_MESSAGE(err.result == (from->cancel_at   ? DIT_CANCELLED
                                 : compiling.fails ? DIT_ERROR_VULKAN
                                                   : DIT_OK),
                  "%s", err.message);
    CHECK(compiling.inside == 0); /* nothing goes on behind the application's back */
    if (compiling.fails) snprintf(said_of_failure, sizeof said_of_failure, "%s", err.message);
    return job;
}

static void test_workers(void) {
    dit_context_desc cd = {0};
    dit_vulkan vulkan = {0};
    lender two = {0}, none = {0};
    dit_context *ctx;
    dit_model *model;
    dit_job *job;
    char alone[sizeof said_of_failure];
    vulkan.get_instance_proc_addr = compiling_instance;
    cd.vulkan = &vulkan;
    cd.vulkan_count = 1;
    cd.worker.run = lend_some;
    cd.worker.user = &two;
    ctx = open_context(&cd);
    model = ctx ? load_model(ctx) : NULL;
    if (!model) return;
    /* a failure has the words of a job without threads, though another pipeline fails first */
    compiling.fails = true;
    create_with(ctx, model, &none);
    memcpy(alone, said_of_failure, sizeof alone);
    two.most = 2;
    compiling.wanted = 2;
    create_with(ctx, model, &two);
    CHECK(two.lent == 2 && compiling.begun <= 3);
    CHECK_MESSAGE(strcmp(alone, said_of_failure) == 0, "'%s', not '%s'", said_of_failure, alone);
    /* cancelled at the first word: each thread ends what it is at */
    compiling.fails = false;
    compiling.wanted = 3;
    memset(&two, 0, sizeof two);
    two.most = 2;
    two.cancel_at = 1;
    create_with(ctx, model, &two);
    CHECK(two.lent == 2 && two.asked == 1 && compiling.begun < (int)two.total);
    /* three compile at once, and make the same picture */
    memset(&two, 0, sizeof two);
    two.most = 2;
    job = create_with(ctx, model, &two);
    CHECK_MESSAGE(two.lent == 2 && compiling.most == 3, "%d compiled at once", compiling.most);
    CHECK(two.done == two.total && two.total > 5);
    if (finish(job)) CHECK_MESSAGE(is_expected(job), "lent threads change the picture");
    compiling.wanted = 0;
    dit_job_destroy(job);
    dit_model_destroy(model);
    dit_context_destroy(ctx);
}

/* Self-tests are compiled on the threads, too, and run behind that one after the other. */
static void test_workers_at_start(void) {
    dit_context_desc cd = {0};
    dit_vulkan vulkan = {0};
    lender one = {0};
    dit_context *ctx;
    vulkan.get_instance_proc_addr = compiling_instance;
    cd.vulkan = &vulkan;
    cd.vulkan_count = 1;
    cd.worker.run = lend_some;
    cd.worker.user = &one;
    cd.overrides = "rung=base"; /* nothing is feigned, so that speed is measured, too */
    one.most = 1;
    compiling.inside = compiling.most = compiling.begun = compiling.ended = 0;
    compiling.wanted = 2;
    ctx = open_context(&cd);
    compiling.wanted = 0;
    CHECK_MESSAGE(one.lent == 1 && compiling.most == 2 && compiling.inside == 0, "%d threads, %d compiled at once",
                  one.lent, compiling.most);
    dit_context_destroy(ctx);
}

/* ---- Lifetime ---- */

static void test_destroy_orders(void) {
    dit_job_desc desc = describe(shared_model, 7);
    dit_model *second = load_model(shared);
    dit_job *never = create_job(shared, &desc), *running = create_job(shared, &desc), *other;
    desc.model = second;
    other = create_job(shared, &desc);
    CHECK(dit_job_step(running, UINT32_MAX) == DIT_WORKING && dit_job_step(other, 1) == DIT_WORKING);
    dit_job_destroy(running); /* with work in flight */
    dit_job_destroy(never);
    dit_job_cancel(other);
    dit_job_destroy(other); /* cancelled, never told */
    dit_model_destroy(second);
}

/* Memory that a desc points to may vanish when the call returns. */
static void test_descs_are_copied(void) {
    char *prompt = strdup("a red heart"), *path = strdup(MODEL);
    dit_model_desc md = {0};
    dit_model *model = NULL;
    dit_job_desc desc;
    dit_job *job;
    md.source.path = path;
    CHECK(dit_model_load(shared, &md, &model, NULL) == DIT_OK);
    memset(path, 'x', strlen(path));
    free(path);
    desc = describe(model, 7);
    desc.prompt = prompt;
    job = create_job(shared, &desc);
    memset(prompt, 'x', strlen(prompt));
    free(prompt);
    memset(&desc, 0xcc, sizeof desc);
    if (finish(job)) CHECK(is_expected(job));
    dit_job_destroy(job);
    dit_model_destroy(model);
}

/* A model folder behind callbacks: nothing but read_at and open. */
typedef struct callback_file {
    char path[256];
    uint64_t size;
    struct callback_file *next;
} callback_file;
static callback_file *callback_files;
static int callback_reads, callback_pause_ms;

static int64_t read_file_at(uint64_t offset, void *dst, size_t size, void *user) {
    struct timespec pause = {0, callback_pause_ms * 1000000L};
    FILE *file = fopen(((callback_file *)user)->path, "rb");
    size_t n = 0;
    if (callback_pause_ms) nanosleep(&pause, NULL);
    if (callback_reads % 2 && size > 1) size /= 2; /* dit asks for the rest */
    if (file && fseek(file, (long)offset, SEEK_SET) == 0) n = fread(dst, 1, size, file);
    if (file) fclose(file);
    callback_reads++;
    return (int64_t)n;
}

static dit_result open_member(const char *member, dit_source *out, void *user) {
    callback_file *entry = (callback_file *)calloc(1, sizeof *entry);
    FILE *file;
    (void)user;
    memset(out, 0, sizeof *out);
    snprintf(entry->path, sizeof entry->path, "%s/%s", MODEL, member);
    file = fopen(entry->path, "rb");
    if (!file) return free(entry), DIT_ERROR_IO;
    fseek(file, 0, SEEK_END);
    entry->size = (uint64_t)ftell(file);
    fclose(file);
    entry->next = callback_files;
    callback_files = entry;
    out->read_at = read_file_at;
    out->size = entry->size;
    out->open = open_member;
    out->user = entry;
    return DIT_OK;
}

static void test_callback_source(void) {
    dit_model_desc md = {0};
    dit_model *model = NULL;
    dit_error err = {0};
    md.source.open = open_member;
    CHECK_MESSAGE(dit_model_load(shared, &md, &model, &err) == DIT_OK, "%s", err.message);
    if (model) {
        dit_job_desc desc = describe(model, 7);
        dit_job *job = create_job(shared, &desc);
        if (finish(job)) CHECK_MESSAGE(is_expected(job), "read through callbacks, the model is another");
        dit_job_destroy(job);
    }
    CHECK(callback_reads > 10);
    dit_model_destroy(model);
    while (callback_files) {
        callback_file *next = callback_files->next;
        free(callback_files);
        callback_files = next;
    }
}

typedef struct fetching {
    dit_model *model;
    dit_job *job;
    double processor; /* seconds that making the job took */
} fetching;

static void *make_fetching_job(void *arg) {
    fetching *f = (fetching *)arg;
    dit_job_desc desc = describe(f->model, 7);
    struct timespec t;
    f->job = create_job(shared, &desc);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    f->processor = (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
    return NULL;
}

/* Weights that come by need: one job brings them, from a slow file, and another that needs the same sleeps meanwhile.
 */
static void test_waiting_for_weights(void) {
    dit_model_desc md = {0};
    dit_model *model = NULL;
    dit_error err = {0};
    fetching makers[3] = {{0}}; /* two at the same time; one that finds all weights there */
    pthread_t threads[3];
    int i;
    md.source.open = open_member;
    md.weights_by_need = true;
    CHECK_MESSAGE(dit_model_load(shared, &md, &model, &err) == DIT_OK, "%s", err.message);
    if (!model) return;
    callback_reads = 0;
    callback_pause_ms = 100;
    for (i = 0; i < 3; i++) {
        makers[i].model = model;
        if (i == 2) pthread_join(threads[0], NULL), pthread_join(threads[1], NULL);
        pthread_create(&threads[i], NULL, make_fetching_job, &makers[i]);
    }
    pthread_join(threads[2], NULL);
    callback_pause_ms = 0;
    CHECK_MESSAGE(callback_reads >= 10, "%d reads", callback_reads);
    for (i = 0; i < 3; i++) {
        CHECK_MESSAGE(makers[i].processor < 3 * makers[2].processor + 0.15,
                      "%.2f s of processor, %.2f s without waiting", makers[i].processor, makers[2].processor);
        if (finish(makers[i].job)) CHECK(is_expected(makers[i].job));
        dit_job_destroy(makers[i].job);
    }
    dit_model_destroy(model);
    while (callback_files) {
        callback_file *next = callback_files->next;
        free(callback_files);
        callback_files = next;
    }
}

/* ---- Inputs, prompts, results ---- */

/* Both ends are the prompts themselves; the middle of a prompt and itself is that prompt, whatever is overwritten. */
static void test_mixed_prompts(const unsigned char *blob, size_t size) {
    unsigned char *other = (unsigned char *)malloc(size), *mixed = (unsigned char *)malloc(size);
    dit_error err = {0};
    size_t filled = size;
    CHECK(dit_encode_prompt(shared, shared_model, "a wooden chair on the table", other, &filled, &err) == DIT_OK);
    CHECK(dit_mix_prompts(blob, other, size, 1, mixed, &err) == DIT_OK && !memcmp(mixed, other, size));
    CHECK(dit_mix_prompts(blob, blob, size, 0.5f, mixed, &err) == DIT_OK && !memcmp(mixed, blob, size));
    CHECK(dit_mix_prompts(blob, other, size, 0.25f, mixed, &err) == DIT_OK && memcmp(mixed, blob, size) &&
          dit_mix_prompts(blob, other, size, 0.25f, other, &err) == DIT_OK && !memcmp(mixed, other, size));
    CHECK(refused(dit_mix_prompts(blob, other, size, 1.5f, mixed, &err), &err, "part is 1.5"));
    CHECK(refused(dit_mix_prompts(blob, other, size, NAN, mixed, &err), &err, "it must be 0 (a) to 1 (b)"));
    CHECK(refused(dit_mix_prompts(blob, other, size - 4, 0, mixed, &err), &err, "a: the prompt blob is damaged"));
    CHECK(refused(dit_mix_prompts(blob, NULL, size, 0, mixed, &err), &err, "b: "));
    CHECK(refused(dit_mix_prompts(blob, other, size, 0, NULL, &err), &err, "blob must be given"));
    other[size - 5] ^= 0x10;
    CHECK(refused(dit_mix_prompts(blob, other, size, 0, mixed, &err), &err, "b: the prompt blob is damaged"));
    free(mixed);
    free(other);
}

/* A prompt embedding that is given; its mask may have each of the types. */
static void test_masks(void) {
    static const struct {
        dit_type type;
        uint32_t bytes;
        uint64_t one;
    } types[] = {{DIT_TYPE_STORED, 4, 0x3f800000}, {DIT_TYPE_F32, 4, 0x3f800000}, {DIT_TYPE_F16, 2, 0x3c00},
                 {DIT_TYPE_BF16, 2, 0x3f80},       {DIT_TYPE_I32, 4, 1},          {DIT_TYPE_I64, 8, 1}};
    const diti_text_shape *text = &shared_model->texts[DITI_TEXT_FIRST];
    dit_tensor tensors[2] = {{"prompt_embeds", DIT_TYPE_F32, 3, {1, text->tokens, text->columns, 0, 0}, NULL},
                             {"prompt_attention_mask", DIT_TYPE_STORED, 2, {1, text->tokens, 0, 0, 0}, NULL}};
    float *rows = (float *)calloc((size_t)text->tokens * text->columns, sizeof *rows);
    uint8_t *mask = (uint8_t *)malloc(8 * (size_t)text->tokens);
    dit_job_desc desc = describe(shared_model, 7);
    dit_memory memory;
    dit_error err = {0};
    size_t i, k;
    desc.prompt = NULL;
    desc.inputs = tensors;
    desc.input_count = 2;
    tensors[0].data = rows;
    tensors[1].data = mask;
    for (i = 0; i < sizeof types / sizeof types[0]; i++) {
        tensors[1].type = types[i].type;
        memset(mask, 0, 8 * (size_t)text->tokens);
        for (k = 0; k < 5; k++) memcpy(mask + k * types[i].bytes, &types[i].one, types[i].bytes); /* little-endian */
        CHECK_MESSAGE(dit_job_memory(shared, &desc, &memory, &err) == DIT_OK, "%s: %s", dit_type_name(types[i].type),
                      err.message);
        memcpy(mask + 7 * types[i].bytes, &types[i].one, types[i].bytes);
        CHECK(refused(dit_job_memory(shared, &desc, &memory, &err), &err, "followed by zeros"));
    }
    tensors[1].type = DIT_TYPE_Q8_0;
    CHECK(refused(dit_job_memory(shared, &desc, &memory, &err), &err, "ones and zeros"));
    desc.prompt = "a red heart";
    desc.inputs = &tensors[1];
    desc.input_count = 1;
    CHECK(refused(dit_job_memory(shared, &desc, &memory, &err), &err, "prompt_attention_mask is given without"));
    free(rows);
    free(mask);
}

static void test_inputs(void) {
    float noise[4 * (SIDE / 8) * (SIDE / 8)];
    static diti_random random;
    dit_tensor tensors[2] = {{"noise", DIT_TYPE_F32, 4, {1, 4, SIDE / 8, SIDE / 8, 0}, noise}};
    dit_job_desc desc = describe(shared_model, 99); /* the seed plays no part */
    unsigned char *blob = NULL;
    size_t size = 0, small = 16;
    dit_error err = {0};
    dit_job *job;
    diti_random_seed(&random, 7);
    diti_random_normal(&random, noise, sizeof noise / sizeof noise[0]);
    desc.inputs = tensors;
    desc.input_count = 1;
    job = create_job(shared, &desc);
    if (finish(job)) CHECK_MESSAGE(is_expected(job), "noise by name is not the seed's");
    tensors[0].type = DIT_TYPE_STORED; /* zero: F32 */
    CHECK(dit_job_restart(job, &desc, &err) == DIT_OK && finish(job) && is_expected(job));
    dit_job_destroy(job);
    CHECK(dit_encode_prompt(shared, shared_model, "a red heart", NULL, &size, &err) == DIT_OK && size > 64);
    blob = (unsigned char *)malloc(size);
    CHECK(refused(dit_encode_prompt(shared, shared_model, "a red heart", blob, &small, &err), &err, "16") &&
          small == size);
    CHECK_MESSAGE(dit_encode_prompt(shared, shared_model, "a red heart", blob, &size, &err) == DIT_OK, "%s",
                  err.message);
    desc = describe(shared_model, 7);
    desc.prompt = NULL;
    desc.conditioning = blob;
    desc.conditioning_size = size;
    job = create_job(shared, &desc);
    if (finish(job)) CHECK_MESSAGE(is_expected(job), "a prompt blob is not its prompt");
    dit_job_destroy(job);
    test_mixed_prompts(blob, size);
    blob[size - 5] ^= 0x10;
    CHECK(refused(dit_job_create(shared, &desc, &job, &err), &err, "damaged"));
    desc.conditioning_size = size - 1;
    CHECK(refused(dit_job_create(shared, &desc, &job, &err), &err, "damaged"));
    free(blob);
}

/* Text encoders run in one context and the rest in another: a prompt crosses as a blob. */
static void test_parts(void) {
    const uint32_t texts = 1u << DIT_ROLE_TEXT_1 | 1u << DIT_ROLE_TEXT_2 | 1u << DIT_ROLE_TEXT_3;
    dit_model_desc desc = {0};
    dit_model *encoder = NULL, *painter = NULL;
    dit_model_info whole, parts[2];
    dit_job_desc request;
    dit_error err = {0};
    unsigned char blob[65536];
    size_t size = sizeof blob;
    dit_job *job;
    desc.source.path = MODEL;
    desc.parts = texts;
    CHECK_MESSAGE(dit_model_load(shared, &desc, &encoder, &err) == DIT_OK, "%s", err.message);
    desc.parts = ~texts;
    CHECK_MESSAGE(dit_model_load(shared, &desc, &painter, &err) == DIT_OK, "%s", err.message);
    if (!encoder || !painter) return;
    dit_model_get_info(shared_model, &whole);
    dit_model_get_info(encoder, &parts[0]);
    dit_model_get_info(painter, &parts[1]);
    CHECK(parts[0].missing == (1u << DIT_ROLE_TRANSFORMER | 1u << DIT_ROLE_VAE) &&
          parts[1].missing == 1u << DIT_ROLE_TEXT_1);
    CHECK(parts[0].weight_bytes && parts[1].weight_bytes &&
          parts[0].weight_bytes + parts[1].weight_bytes == whole.weight_bytes);
    CHECK_MESSAGE(dit_encode_prompt(shared, encoder, "a red heart", blob, &size, &err) == DIT_OK, "%s", err.message);
    CHECK(refused(dit_encode_prompt(shared, painter, "a red heart", blob, &size, &err), &err, "parts"));
    request = describe(encoder, 7);
    CHECK(refused(dit_job_create(shared, &request, &job, &err), &err, "parts"));
    request = describe(painter, 7);
    CHECK(refused(dit_job_create(shared, &request, &job, &err), &err, "parts"));
    request.prompt = NULL;
    request.conditioning = blob;
    request.conditioning_size = size;
    CHECK(refused(dit_job_create(shared, &request, &job, &err), &err, "negative_conditioning is missing"));
    request.conditioning = NULL;
    request.negative_conditioning = blob;
    request.negative_conditioning_size = size;
    CHECK(refused(dit_job_create(shared, &request, &job, &err), &err, "conditioning is missing") &&
          !strstr(err.message, "negative_"));
    request.conditioning = blob;
    request.negative_conditioning_size = size - 1;
    CHECK(refused(dit_job_create(shared, &request, &job, &err), &err, "negative_conditioning: "));
    request.negative_conditioning = NULL;
    request.guidance.scale = 1;
    job = create_job(shared, &request);
    CHECK(finish(job));
    dit_job_destroy(job);
    dit_model_destroy(encoder);
    dit_model_destroy(painter);
}

/* ---- Inspecting a job that does not run ---- */

typedef struct inspected {
    uint32_t ops, tensors, last_first, stop_at;
    uint64_t live, arena;
    bool good;
} inspected;

static bool inspect_op(const dit_op_info *op, void *user) {
    inspected *seen = (inspected *)user;
    seen->good = seen->good && op->index == seen->ops && op->name[0] && op->segment[0] && op->bytes > 0 &&
                 op->shape[0] > 0 && op->runs == (strcmp(op->segment, "step") == 0 ? 3u : 1u);
    if (op->live > seen->live) seen->live = op->live;
    return ++seen->ops != seen->stop_at;
}

static bool inspect_tensor(const dit_tensor_info *tensor, void *user) {
    inspected *seen = (inspected *)user;
    seen->good = seen->good && tensor->name[0] && tensor->rows && tensor->columns && tensor->bytes &&
                 tensor->first_op <= tensor->last_op && tensor->last_op < seen->ops &&
                 tensor->first_op >= seen->last_first;
    seen->last_first = tensor->first_op;
    if (tensor->arena && tensor->offset + tensor->bytes > seen->arena) seen->arena = tensor->offset + tensor->bytes;
    seen->tensors++;
    return true;
}

/* Every part that a model has is among its weights: an expert for low noise and a control net, too. */
static void check_weights(const char *path, const char *net) {
    dit_model_desc desc = {0};
    dit_component component = {0};
    dit_weight_info weights[32];
    uint32_t count = sizeof weights / sizeof weights[0], role, i;
    uint64_t bytes = 0;
    dit_model *model = NULL;
    dit_model_info info;
    dit_error err = {0};
    component.source.path = net;
    component.role = DIT_ROLE_CONTROL;
    desc.source.path = path;
    desc.components = &component;
    desc.component_count = net != NULL;
    desc.dry_run = true;
    if (!CHECK_MESSAGE(dit_model_load(NULL, &desc, &model, &err) == DIT_OK, "%s", err.message)) return;
    dit_model_get_info(model, &info);
    CHECK(dit_model_weights(model, weights, &count, &err) == DIT_OK);
    for (role = 0; role < sizeof info.parameters / sizeof info.parameters[0]; role++) {
        uint64_t parameters = 0;
        for (i = 0; i < count; i++) parameters += weights[i].role == (dit_role)role ? weights[i].parameters : 0;
        CHECK_MESSAGE(parameters == info.parameters[role], "%s, role %u: %llu parameters, not %llu", path, role,
                      (unsigned long long)parameters, (unsigned long long)info.parameters[role]);
    }
    for (i = 0; i < count; i++) bytes += weights[i].device_bytes;
    CHECK(bytes == info.weight_bytes && info.parameters[net ? DIT_ROLE_CONTROL : DIT_ROLE_TRANSFORMER_2] > 0);
    dit_model_destroy(model);
}

static void test_inspection(void) {
    dit_model_desc desc = {0};
    dit_model *model = NULL;
    dit_job_desc request;
    dit_inspector inspector = {inspect_op, inspect_tensor, NULL};
    dit_weight_info weights[16];
    inspected seen = {0};
    dit_memory memory;
    dit_model_info info;
    dit_error err = {0};
    uint32_t count = 0, i;
    uint64_t bytes = 0, parameters = 0;
    desc.source.path = MODEL;
    desc.dry_run = true;
    CHECK_MESSAGE(dit_model_load(NULL, &desc, &model, &err) == DIT_OK, "%s", err.message);
    if (!model) return;
    request = describe(model, 7);
    request.steps = 3;
    seen.good = true;
    inspector.user = &seen;
    CHECK_MESSAGE(dit_job_inspect(NULL, &request, &inspector, &err) == DIT_OK && seen.good, "%s", err.message);
    CHECK(seen.ops > 50 && seen.tensors > 50 && seen.live > 0 && seen.live <= seen.arena);
    CHECK(dit_job_memory(NULL, &request, &memory, &err) == DIT_OK && seen.arena <= memory.activations);
    seen.ops = 0;
    seen.stop_at = 5;
    CHECK(dit_job_inspect(NULL, &request, &inspector, &err) == DIT_CANCELLED && seen.ops == 5);
    CHECK(refused(dit_job_inspect(NULL, &request, NULL, &err), &err, "inspector"));
    request.width = 7;
    CHECK(refused(dit_job_inspect(NULL, &request, &inspector, &err), &err, "width"));
    dit_model_get_info(model, &info);
    CHECK(info.layers == 2 && info.hidden == 48 && info.heads == 2 && info.patch == 2 && info.absent_bytes == 0);
    CHECK(dit_model_weights(model, NULL, &count, &err) == DIT_OK && count == 3);
    CHECK(refused(dit_model_weights(model, NULL, NULL, &err), &err, "count"));
    count = 16;
    CHECK(dit_model_weights(model, weights, &count, &err) == DIT_OK && count == 3);
    for (i = 0; i < count; i++) {
        CHECK(weights[i].type == DIT_TYPE_F32 && weights[i].file_bytes == 4 * weights[i].parameters);
        CHECK(weights[i].parameters == info.parameters[weights[i].role]);
        bytes += weights[i].device_bytes;
        parameters += weights[i].tensor_count;
    }
    CHECK(bytes == info.weight_bytes && parameters > 200 && strcmp(dit_type_name(DIT_TYPE_Q8_0), "Q8_0") == 0);
    count = 1;
    CHECK(dit_model_weights(model, weights, &count, &err) == DIT_OK && count == 1);
    dit_model_destroy(model);
    check_weights("tests/fixtures/pipe_wan22_i2v_a14b", NULL);
    check_weights("tests/fixtures/pipe_flux", "tests/fixtures/flux_controlnet/controlnet");
}

static void test_reading(void) {
    dit_job_desc desc = describe(shared_model, 7);
    dit_job *job = create_job(shared, &desc);
    static float rgb[SIDE * SIDE * 3], latent[4 * (SIDE / 8) * (SIDE / 8)];
    static unsigned char wide[SIDE * (SIDE * 4 + 12)];
    dit_error err = {0};
    int i, far = 0;
    if (!finish(job)) return dit_job_destroy(job);
    CHECK(dit_job_read(job, DIT_READ_RGB_F32, 0, 0, rgb, sizeof rgb, 0, &err) == DIT_OK);
    for (i = 0; i < SIDE * SIDE * 3; i++) {
        float value = rgb[i] < 0 ? 0 : rgb[i] > 1 ? 1 : rgb[i];
        if (fabsf(value * 255 - (float)expected[i / 3 * 4 + i % 3]) > 0.51f) far++;
    }
    CHECK_MESSAGE(far == 0, "%d values differ between RGB_F32 and RGBA8", far);
    for (i = 3; i < BYTES; i += 4) far += expected[i] != 255;
    CHECK(far == 0);
    CHECK(dit_job_read(job, DIT_READ_LATENT_F32, 0, 0, latent, sizeof latent, 0, &err) == DIT_OK);
    for (i = 0; i < (int)(sizeof latent / sizeof latent[0]); i++) far += !isfinite(latent[i]);
    CHECK(far == 0);
    memset(wide, 0xab, sizeof wide);
    CHECK(dit_job_read(job, DIT_READ_RGBA8, 0, 0, wide, sizeof wide, SIDE * 4 + 12, &err) == DIT_OK);
    for (i = 0; i < SIDE; i++) {
        far += memcmp(wide + i * (SIDE * 4 + 12), expected + i * SIDE * 4, SIDE * 4) != 0;
        far += i + 1 < SIDE && wide[i * (SIDE * 4 + 12) + SIDE * 4 + 3] != 0xab;
    }
    CHECK_MESSAGE(far == 0, "a row pitch is not kept");
    CHECK(refused(dit_job_read(job, DIT_READ_RGBA8, 0, 0, wide, BYTES - 1, 0, &err), &err, "bytes"));
    CHECK(refused(dit_job_read(job, DIT_READ_RGBA8, 0, 0, wide, sizeof wide, SIDE * 4 - 1, &err), &err, "bytes"));
    CHECK(refused(dit_job_read(job, DIT_READ_RGB_F32, 0, 0, rgb, sizeof rgb - 1, 0, &err), &err, "bytes"));
    CHECK(refused(dit_job_read(job, DIT_READ_LATENT_F32, 0, 0, latent, sizeof latent - 1, 0, &err), &err, "bytes"));
    CHECK(refused(dit_job_read(job, DIT_READ_PREVIEW, 0, 0, wide, sizeof wide, 0, &err), &err, "preview"));
    CHECK(dit_job_read(job, (dit_read)9, 0, 0, wide, sizeof wide, 0, &err) == DIT_ERROR_INVALID_ARGUMENT);
    CHECK(dit_job_read(job, DIT_READ_RGBA8, 0, 0, wide, sizeof wide, 0, NULL) == DIT_OK);
    dit_job_destroy(job);
}

static void test_previews(void) {
    dit_job_desc desc = describe(shared_model, 7);
    dit_output output;
    unsigned char rgba[BYTES];
    uint32_t seen = 0, id = 0;
    dit_result result;
    dit_status status;
    dit_error err = {0};
    dit_job *job;
    desc.preview_interval = 1;
    desc.preview = (dit_preview)9;
    CHECK(refused(dit_job_create(shared, &desc, &job, &err), &err, "preview 9"));
    desc.preview = DIT_PREVIEW_DEFAULT;
    job = create_job(shared, &desc);
    CHECK(dit_job_preview(job, &output) == DIT_WORKING);
    do {
        result = dit_job_step(job, 1);
        dit_job_status(job, &status, NULL);
        if (status.preview_id == id) continue;
        id = status.preview_id;
        seen++;
        CHECK(dit_job_preview(job, &output) == DIT_OK && output.image && output.width && output.width <= SIDE &&
              output.height <= SIDE);
        CHECK(dit_job_read(job, DIT_READ_PREVIEW, 0, 0, rgba, (size_t)output.width * output.height * 4, 0, NULL) ==
              DIT_OK);
    } while (result == DIT_WORKING);
    CHECK(result == DIT_OK && seen == STEPS - 1);
    CHECK_MESSAGE(is_expected(job), "previews change the picture");
    CHECK(dit_job_restart(job, &desc, NULL) == DIT_OK && dit_job_preview(job, &output) == DIT_WORKING);
    CHECK(finish(job) && is_expected(job));
    dit_job_destroy(job);
}

static void test_samplers(void) {
    dit_error err = {0};
    uint32_t i;
    for (i = 0; dit_sampler_name(i); i++) {
        dit_job_desc desc = describe(shared_model, 7);
        dit_job *job = NULL;
        dit_result result;
        desc.sampler = dit_sampler_name(i);
        if (!is_thorough() && !strstr("unipc ddpm pndm", desc.sampler)) continue; /* their own kernels */
        result = dit_job_create(shared, &desc, &job, &err);
        if (!strcmp(desc.sampler, "scm"))
            CHECK_MESSAGE(result < 0 && strstr(err.message, "use any other"), "scm is for Sana-Sprint: %s",
                          err.message);
        else if (CHECK_MESSAGE(result == DIT_OK, "%s: %s", desc.sampler, err.message))
            finish(job);
        dit_job_destroy(job);
    }
}

/* ---- The cache blob ---- */

/* A folder whose model_index.json has sigmas, too. */
static dit_result open_sigmas(const char *member, dit_source *out, void *user) {
    static char path[256];
    const char *sigmas = (const char *)user;
    FILE *file;
    memset(out, 0, sizeof *out);
    if (!strcmp(member, "model_index.json")) {
        out->data = sigmas;
        out->size = strlen(sigmas);
        return DIT_OK;
    }
    snprintf(path, sizeof path, "tests/fixtures/pipe_flux/%s", member);
    file = fopen(path, "rb");
    if (!file) return DIT_ERROR_IO;
    fclose(file);
    out->path = path;
    return DIT_OK;
}

static dit_result load_sigmas(const char *list, dit_model **out, dit_error *err) {
    static char index[256];
    dit_model_desc desc = {0};
    snprintf(index, sizeof index, "{\"_class_name\": \"FluxPipeline\", \"sample_sigmas\": %s}", list);
    desc.source.open = open_sigmas;
    desc.source.user = index;
    desc.dry_run = true;
    return dit_model_load(NULL, &desc, out, err);
}

/* The timestep of each of some steps. */
static bool timesteps_of(const dit_model *model, uint32_t steps, const char *schedule, double *out) {
    const diti_env env = test_env(NULL);
    dit_job_desc desc = {0};
    dit_error err = {0};
    diti_job_request request;
    uint32_t i;
    desc.model = model;
    desc.width = 96;
    desc.height = 64;
    desc.steps = steps;
    desc.schedule = schedule;
    if (!CHECK_MESSAGE(diti_job_request_make(model, &env, &desc, NULL, &request, &err) == DIT_OK, "%s", err.message))
        return false;
    for (i = 0; i < request.schedule.count; i++) out[i] = (double)request.schedule.steps[i].timestep;
    diti_job_request_free(&env, &request);
    return true;
}

/* Sigmas that a repository has for its own number of steps; diffusers' scheduler shifts them by 1.6579 here. */
static void test_sample_sigmas(void) {
    static const char *const wrong[] = {"[1, 0.5, 0.6]", "[1.5]", "[0]", "[1, \"x\"]", "3"};
    static const double sigmas[] = {1, 0.9, 0.6};
    double own[3], equal[3], named[3], four[4], shift;
    dit_error err = {0};
    dit_model_info info;
    dit_model *model = NULL;
    size_t i;
    if (CHECK_MESSAGE(load_sigmas("[1, 0.9, 0.6]", &model, &err) == DIT_OK, "%s", err.message)) {
        dit_model_get_info(model, &info);
        CHECK(info.default_steps == 3);
        if (timesteps_of(model, 0, NULL, own) && timesteps_of(model, 3, "simple", named) &&
            timesteps_of(model, 4, NULL, four)) {
            shift = named[1] / 1000 * (1 / 3.0) / (2 / 3.0 * (1 - named[1] / 1000));
            for (i = 0; i < 3; i++)
                CHECK_MESSAGE(fabs(own[i] - 1000 * shift * sigmas[i] / (1 + (shift - 1) * sigmas[i])) < 1e-2,
                              "step %d is at %g", (int)i, own[i]);
            CHECK_MESSAGE(fabs(four[2] - 1000 * shift * 0.5 / (1 + (shift - 1) * 0.5)) < 1e-2, "%g", four[2]);
        }
    }
    dit_model_destroy(model);
    model = NULL;
    if (CHECK(load_sigmas("null", &model, &err) == DIT_OK) && timesteps_of(model, 3, NULL, equal))
        CHECK_MESSAGE(fabs(equal[1] - named[1]) < 1e-3, "%g, %g", equal[1], named[1]);
    dit_model_destroy(model);
    for (i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        model = NULL;
        CHECK_MESSAGE(load_sigmas(wrong[i], &model, &err) < 0 && strstr(err.message, "sample_sigmas") && !model,
                      "%s: %s", wrong[i], err.message);
    }
}

static void test_cache(void) {
    dit_context_desc cd = {0};
    dit_context *ctx;
    dit_error err = {0};
    size_t size = 0, small = 3, i;
    unsigned char *blob;
    CHECK(dit_context_save_cache(shared, NULL, &size, &err) == DIT_OK && size > 0);
    blob = (unsigned char *)malloc(size);
    CHECK(refused(dit_context_save_cache(shared, blob, &small, &err), &err, "") && small == size);
    CHECK(dit_context_save_cache(shared, blob, &size, &err) == DIT_OK);
    cd.cache = blob;
    cd.cache_size = size;
    for (i = 0; i < 3; i++) { /* whole, damaged, cut */
        if (i == 1) blob[size / 2] ^= 0xff;
        if (i == 2) cd.cache_size = size / 3;
        ctx = open_context(&cd);
        dit_context_destroy(ctx);
    }
    free(blob);
}

typedef struct tuning {
    uint32_t measured, most;
} tuning;

static bool count_tuning(const char *what, uint64_t done, uint64_t total, void *user) {
    tuning *t = (tuning *)user;
    if (strcmp(what, "measuring kernels") != 0) return true;
    t->measured++;
    return done <= total && t->measured != t->most;
}

/* The picture is the same one; what was measured is in the cache, and the next context measures nothing. */
static void test_tuning(void) {
    dit_context_desc cd = {0};
    dit_context *ctx;
    dit_job_desc desc;
    dit_error err = {0};
    dit_model *model;
    dit_job *job = NULL;
    tuning t = {0, 3};
    unsigned char *blob = NULL;
    size_t size = 0;
    int round;
    cd.tune = true;
    cd.overrides = SLOW ",launch_us=4000"; /* so long that a run of a candidate is one launch */
    for (round = 0; round < 2; round++) {  /* given up after three, then measured; known */
        ctx = open_context(&cd);
        model = ctx ? load_model(ctx) : NULL;
        if (!model) break;
        desc = describe(model, 7);
        desc.progress.func = count_tuning;
        desc.progress.user = &t;
        if (round == 0) {
            CHECK(dit_job_create(ctx, &desc, &job, &err) == DIT_CANCELLED && !job && t.measured == 3);
            t.most = 0;
        }
        t.measured = 0;
        job = create_job(ctx, &desc);
        if (round == 0) CHECK_MESSAGE(t.measured > 3, "%u measured", t.measured);
        if (round > 0) CHECK_MESSAGE(t.measured == 0, "%u measured again", t.measured);
        if (finish(job)) CHECK(is_expected(job));
        if (round == 0) {
            CHECK(dit_context_save_cache(ctx, NULL, &size, &err) == DIT_OK);
            blob = (unsigned char *)malloc(size);
            CHECK(dit_context_save_cache(ctx, blob, &size, &err) == DIT_OK);
            cd.cache = blob;
            cd.cache_size = size;
        }
        dit_job_destroy(job);
        dit_model_destroy(model);
        dit_context_destroy(ctx);
        job = NULL;
    }
    free(blob);
}

/* ---- A device that is lost ---- */

static void test_device_lost(void) {
    dit_context_desc cd = {0};
    dit_context *ctx;
    dit_model *model;
    dit_job_desc desc;
    dit_job *job, *late = NULL;
    dit_error err = {0};
    cd.overrides = "fail_submit=40," SLOW;
    ctx = open_context(&cd);
    model = ctx ? load_model(ctx) : NULL;
    desc = describe(model, 7);
    desc.steps = 50;
    job = model ? create_job(ctx, &desc) : NULL;
    if (job) {
        CHECK(dit_job_wait(job, UINT64_MAX) == DIT_ERROR_DEVICE_LOST);
        dit_job_status(job, NULL, &err);
        CHECK(err.result == DIT_ERROR_DEVICE_LOST && err.vk == VK_ERROR_DEVICE_LOST && err.message[0]);
        CHECK(dit_job_wait(job, UINT64_MAX) == DIT_ERROR_DEVICE_LOST);
        CHECK(dit_job_restart(job, &desc, &err) < 0 || dit_job_wait(job, UINT64_MAX) == DIT_ERROR_DEVICE_LOST);
        if (dit_job_create(ctx, &desc, &late, &err) == DIT_OK)
            CHECK(dit_job_wait(late, UINT64_MAX) == DIT_ERROR_DEVICE_LOST);
    }
    dit_job_destroy(late);
    dit_job_destroy(job);
    dit_model_destroy(model);
    dit_context_destroy(ctx);
}

/* ---- The application's device ---- */

/* Frames as an engine makes them: a command buffer each, dit's work inside, the image used when it is whole. */
static void record_frames(engine *e, dit_job *job, uint32_t budget_us) {
    dit_result result = DIT_WORKING;
    dit_output output;
    unsigned char rgba[BYTES];
    int frames = 0;
    while (result == DIT_WORKING && frames < 100000) {
        VkCommandBuffer commands = engine_begin_commands(e);
        CHECK(dit_job_output(job, 0, 0, &output) == DIT_WORKING);
        result = dit_job_record(job, commands, budget_us);
        engine_run(e, commands, VK_NULL_HANDLE, 0);
        frames++;
    }
    CHECK(result == DIT_OK);
    CHECK_MESSAGE(budget_us > 100000 || frames > 2, "%d frames", frames);
    if (!CHECK(dit_job_output(job, 0, 0, &output) == DIT_OK && output.image && !output.timeline)) return;
    engine_read_image(e, &output, rgba);
    CHECK_MESSAGE(memcmp(rgba, expected, BYTES) == 0, "recorded with %u us, the picture differs", budget_us);
    CHECK(is_expected(job));
}

static void test_recording(engine *e, dit_context *ctx, const dit_model *model) {
    dit_job_desc desc = describe(model, 7);
    dit_counters before, cut, after;
    dit_error err = {0};
    dit_job *job = create_job(ctx, &desc);
    if (!job) return;
    dit_job_get_counters(job, &before);
    record_frames(e, job, UINT32_MAX);
    CHECK_MESSAGE(dit_job_restart(job, &desc, &err) == DIT_OK, "%s", err.message);
    record_frames(e, job, 1);
    dit_job_get_counters(job, &cut);
    CHECK_MESSAGE(cut.recordings > before.recordings, "work was not cut for the smaller budget");
    CHECK_MESSAGE(dit_job_restart(job, &desc, &err) == DIT_OK, "%s", err.message);
    record_frames(e, job, 1);
    dit_job_get_counters(job, &after);
    CHECK_MESSAGE(after.submits == before.submits, "dit submits in record mode");
    CHECK(after.recordings == cut.recordings && after.allocations == before.allocations);
    CHECK(dit_job_restart(job, &desc, &err) == DIT_OK && finish(job) && is_expected(job)); /* now stepped */
    CHECK(dit_job_restart(job, &desc, &err) == DIT_OK && dit_job_step(job, 0) == DIT_WORKING);
    {
        VkCommandBuffer commands = engine_begin_commands(e);
        CHECK_MESSAGE(dit_job_record(job, commands, 1) == DIT_ERROR_INVALID_ARGUMENT, "both ways in one run");
        engine_run(e, commands, VK_NULL_HANDLE, 0);
    }
    dit_job_destroy(job);
}

static void test_target(engine *e, dit_context *ctx, const dit_model *model, VkFormat format) {
    engine_image image = engine_make_image(e, SIDE, SIDE, format);
    dit_job_desc desc = describe(model, 7);
    dit_output output;
    unsigned char rgba[BYTES], t;
    dit_job *job;
    int i;
    desc.target.image = image.image;
    desc.target.format = format;
    desc.target.final_layout = VK_IMAGE_LAYOUT_GENERAL;
    desc.target.dst_queue_family = e->family;
    desc.target.dst_stage = VK_PIPELINE_STAGE_TRANSFER_BIT;
    desc.target.dst_access = VK_ACCESS_TRANSFER_READ_BIT;
    job = create_job(ctx, &desc);
    if (finish(job) && CHECK(dit_job_output(job, 0, 0, &output) == DIT_OK)) {
        CHECK(output.image == image.image && output.layout == VK_IMAGE_LAYOUT_GENERAL && output.format == format);
        engine_read_image(e, &output, rgba);
        for (i = 0; format == VK_FORMAT_B8G8R8A8_UNORM && i < BYTES; i += 4)
            t = rgba[i], rgba[i] = rgba[i + 2], rgba[i + 2] = t;
        CHECK(memcmp(rgba, expected, BYTES) == 0 && is_expected(job));
    }
    dit_job_destroy(job);
    engine_free_image(e, &image);
}

/* dit's own image, waited for with its timeline while the job may still run. */
static void test_timeline(engine *e, dit_context *ctx, const dit_model *model) {
    dit_job_desc desc = describe(model, 7);
    dit_job *job = create_job(ctx, &desc);
    unsigned char rgba[BYTES];
    dit_output output;
    while (job && dit_job_output(job, 0, 0, &output) == DIT_WORKING && dit_job_step(job, UINT32_MAX) == DIT_WORKING) {
    }
    if (CHECK(dit_job_output(job, 0, 0, &output) == DIT_OK && output.view && output.timeline && output.value > 0)) {
        CHECK(output.layout == VK_IMAGE_LAYOUT_SHADER_READ_ONLY_OPTIMAL && output.format == VK_FORMAT_R8G8B8A8_UNORM);
        engine_read_image(e, &output, rgba);
        CHECK(memcmp(rgba, expected, BYTES) == 0);
    }
    finish(job);
    dit_job_destroy(job);
}

/* Compares the answer of dit_job_memory with what the device allocator hands out. */
static void test_memory_answer(engine *e, dit_context *ctx, const dit_model *model, uint64_t weights) {
    dit_job_desc desc = describe(model, 7);
    dit_memory memory = {0};
    dit_error err = {0};
    uint64_t before = e->allocated, real;
    dit_job *job;
    desc.width = desc.height = 64;
    CHECK(dit_job_memory(ctx, &desc, &memory, &err) == DIT_OK);
    CHECK_MESSAGE(e->allocated == before, "the question allocates");
    job = create_job(ctx, &desc);
    real = e->allocated - before;
    CHECK_MESSAGE(memory.activations >= real / 4 * 3 && memory.activations <= real * 2 + (1 << 20),
                  "activations: said %llu, are %llu", (unsigned long long)memory.activations, (unsigned long long)real);
    CHECK_MESSAGE(memory.weights >= weights / 4 * 3 && memory.weights <= weights * 2, "weights: said %llu, are %llu",
                  (unsigned long long)memory.weights, (unsigned long long)weights);
    CHECK(memory.peak >= memory.weights && memory.peak >= memory.activations && memory.host > 0);
    dit_job_destroy(job);
    CHECK_MESSAGE(e->allocated == before, "a destroyed job leaves memory behind");
}

static void test_own_device(bool extend) {
    engine *e = (engine *)calloc(1, sizeof *e);
    dit_context_desc cd = {0};
    dit_context *ctx = NULL;
    dit_model *model = NULL;
    dit_job *job = NULL;
    dit_job_desc desc;
    uint64_t before;
    if (!engine_make_instance(e) || !engine_make_device(e, extend)) return free(e);
    cd.device_allocator.alloc = engine_alloc;
    cd.device_allocator.free = engine_free;
    cd.device_allocator.user = e;
    cd.overrides = extend ? SLOW : "rung=base," SLOW;
    ctx = engine_context(e, &cd);
    before = e->allocated;
    if (ctx) model = load_model(ctx);
    if (model && extend) {
        test_memory_answer(e, ctx, model, e->allocated - before);
        test_recording(e, ctx, model);
        test_target(e, ctx, model, VK_FORMAT_R8G8B8A8_UNORM);
        test_target(e, ctx, model, VK_FORMAT_B8G8R8A8_UNORM);
        test_timeline(e, ctx, model);
    }
    if (model) {
        desc = describe(model, 7);
        job = create_job(ctx, &desc);
        finish(job);
    }
    CHECK(e->lock_count > 0);
    dit_job_destroy(job);
    dit_model_destroy(model);
    dit_context_destroy(ctx);
    engine_run(e, engine_begin_commands(e), VK_NULL_HANDLE, 0); /* the device is as usable as before */
    engine_end(e);
    free(e);
}

int main(void) {
    dit_context_desc cd = {0};
    dit_job_desc desc;
    dit_job *job;
    test_vulkan_begin();
    test_versions_and_names();
    test_null_arguments();
    test_context_refusals();
    test_device_list();
    shared = open_context(&cd);
    shared_model = shared ? load_model(shared) : NULL;
    desc = describe(shared_model, 7);
    job = shared_model ? create_job(shared, &desc) : NULL;
    if (finish(job) && read_picture(job, 0, expected, BYTES)) {
        dit_job_destroy(job);
        if (test_quick_way("newest") || test_quick_way("swiftshader")) {
            /* what its layers see better, or another driver does its own way: jobs beside each other, frames, an
               engine's queue */
            test_interleaved();
            test_two_threads(false);
            test_previews();
            test_own_device(true);
            dit_model_destroy(shared_model);
            dit_context_destroy(shared);
            test_vulkan_end();
            return TEST_END("contract");
        }
        if (test_first_driver()) test_guards();
        test_job_refusals();
        test_dry_run();
        test_sample_sigmas();
        test_budgets();
        test_batch();
        test_restart();
        test_guidance();
        test_learned_variance();
        test_new_sizes();
        test_interleaved();
        test_two_threads(false);
        test_cancel();
        test_cancel_from_thread();
        test_progress_cancels();
        test_progress_cancels_context();
        test_progress_of_context();
        test_destroy_orders();
        test_descs_are_copied();
        test_callback_source();
        test_inputs();
        test_masks();
        test_parts();
        test_inspection();
        test_reading();
        test_previews();
        test_samplers();
        test_cache();
        if (is_thorough()) {
            test_zero_job();
            test_restart_longer();
            test_prompt_weights();
            test_device_lost();
            test_hooks_and_limits();
            test_workers();
            test_workers_at_start();
        }
        if (test_first_driver()) {
            test_tuning();
            test_two_threads(true);
            test_waiting_for_weights();
        }
        test_own_device(true);
        if (test_first_driver()) test_own_device(false);
    } else {
        dit_job_destroy(job);
    }
    dit_model_destroy(shared_model);
    dit_context_destroy(shared);
    test_vulkan_end();
    return TEST_END("contract");
}
