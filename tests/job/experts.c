/* A model with two experts under a budget that holds one of them: what stays on the device is the expert's at work. The
   other one's matrices are read when its steps begin, and once, whatever the number of steps; results are those of a
   model that is all on the device. Under a smaller budget matrices that have no room are read in every step. And a
   model that guides by a transformer of its own. test-runs: lavapipe, in test-all sanitize */
#include "library.h"
#include "vulkan_test.h"
#include "engine.h"
#include "files.h"

#define PIPELINE "tests/fixtures/pipe_wan22_i2v_a14b"
enum { WIDTH = 48, HEIGHT = 32, FRAMES = 5, VALUES = FRAMES * WIDTH * HEIGHT * 4, FEW_STEPS = 8, MANY_STEPS = 13 };

typedef struct counted_file { /* a transformer's, whose bytes are counted as they are read */
    const char *folder;
    char *data;
    size_t size;
    uint64_t read;
    bool broken; /* it cannot be read any more */
} counted_file;

static counted_file transformers[2] = {{"transformer/", NULL, 0, 0, false}, {"transformer_2/", NULL, 0, 0, false}};

static int64_t read_counted(uint64_t offset, void *out, size_t size, void *user) {
    counted_file *file = (counted_file *)user;
    if (file->broken || offset > file->size || size > file->size - offset) return -1;
    memcpy(out, file->data + offset, size);
    file->read += size;
    return (int64_t)size;
}

static dit_result open_member(const char *member, dit_source *out, void *user) {
    static char path[512];
    FILE *file;
    uint32_t i;
    (void)user;
    diti_format(path, sizeof path, PIPELINE "/%s", member);
    file = fopen(path, "rb");
    if (!file) return DIT_ERROR_IO;
    fclose(file);
    out->path = path;
    for (i = 0; i < 2; i++) {
        counted_file *counted = &transformers[i];
        if (!diti_starts_with(member, counted->folder) || !diti_ends_with(member, ".safetensors")) continue;
        if (!counted->data) counted->data = test_read_file(path, &counted->size);
        out->path = NULL;
        out->read_at = read_counted;
        out->size = counted->size;
        out->user = counted;
    }
    return DIT_OK;
}

static dit_model *load(dit_context *context, uint64_t budget) {
    dit_model_desc desc = {0};
    dit_model *model = NULL;
    dit_error err = {0};
    desc.source.open = open_member;
    desc.weight_budget = budget;
    CHECK_MESSAGE(dit_model_load(context, &desc, &model, &err) == DIT_OK, "%s", err.message);
    return model;
}

/* One expert fits beside the vectors and the two slots, and both do not. */
static uint64_t tight(void) { return transformers[0].size * 9 / 4; }

static dit_job_desc describe(const dit_model *model, uint32_t steps) {
    static uint8_t rgba[WIDTH * HEIGHT * 4];
    static dit_image image;
    dit_job_desc desc = {0};
    uint32_t i;
    for (i = 0; i < sizeof rgba; i++) rgba[i] = (uint8_t)(i * 37 + i / 512 * 11);
    image.width = WIDTH;
    image.height = HEIGHT;
    image.rgba = rgba;
    desc.model = model;
    desc.prompt = "a fox runs through snow";
    desc.width = WIDTH;
    desc.height = HEIGHT;
    desc.frame_count = FRAMES;
    desc.init_image = &image;
    desc.steps = steps;
    desc.seed = 7;
    return desc;
}

static bool read_frames(dit_job *job, uint8_t *out) {
    dit_error err = {0};
    return CHECK_MESSAGE(dit_job_read(job, DIT_READ_RGBA8, 0, DIT_ALL_FRAMES, out, VALUES, 0, &err) == DIT_OK, "%s",
                         err.message);
}

/* The first step of the expert for low noise. */
static uint32_t boundary(const dit_job *job) {
    uint32_t step = 0;
    while (step < job->request.shape.steps && !diti_job_is_low(job, step)) step++;
    return step;
}

/* Runs step by step; bytes that were read of either file. While steps of the first expert are to come, nothing is read
   of the other one; the last of them may read ahead. */
static void run_counting(dit_context *context, const dit_model *model, uint32_t steps, uint64_t read[2], uint8_t *out) {
    dit_job_desc desc = describe(model, steps);
    dit_result result = DIT_WORKING;
    dit_status status;
    dit_error err = {0};
    dit_job *job = NULL;
    uint64_t begun[2], used, early = 0;
    uint32_t seen = 0, first;
    if (!CHECK_MESSAGE(dit_job_create(context, &desc, &job, &err) == DIT_OK, "%s", err.message)) return;
    first = boundary(job);
    CHECK_MESSAGE(first >= 2 && first < steps, "low noise begins at step %u of %u", first, steps);
    begun[0] = transformers[0].read;
    begun[1] = transformers[1].read;
    used = context->device->memory_used;
    while (result == DIT_WORKING) {
        result = dit_job_step(job, 100);
        dit_job_status(job, &status, NULL);
        if (status.stage > DIT_STAGE_DENOISE || status.step + 1 >= first) continue;
        seen++;
        if (transformers[1].read != begun[1]) early = transformers[1].read - begun[1];
    }
    CHECK_MESSAGE(result == DIT_OK, "%s", dit_result_string(result));
    CHECK_MESSAGE(seen > 0 && early == 0, "%llu bytes of transformer_2 were read before its steps",
                  (unsigned long long)early);
    CHECK_MESSAGE(context->device->memory_used == used, "%llu bytes of device memory, then %llu",
                  (unsigned long long)used, (unsigned long long)context->device->memory_used);
    read[0] = transformers[0].read - begun[0];
    read[1] = transformers[1].read - begun[1];
    read_frames(job, out);
    dit_job_destroy(job);
}

static void test_turns(dit_context *context, uint64_t *budget, uint8_t *plain) {
    static uint8_t clip[VALUES];
    dit_model *model = load(context, 0);
    dit_job_desc desc;
    dit_model_info info;
    dit_error err = {0};
    dit_job *job = NULL;
    uint64_t few[2], many[2], i;
    if (!model) return;
    *budget = tight();
    desc = describe(model, FEW_STEPS);
    CHECK_MESSAGE(dit_job_create(context, &desc, &job, &err) == DIT_OK && dit_job_wait(job, UINT64_MAX) == DIT_OK, "%s",
                  err.message);
    if (job) read_frames(job, plain);
    dit_job_destroy(job);
    dit_model_destroy(model);
    model = load(context, *budget);
    if (!model) return;
    dit_model_get_info(model, &info);
    CHECK_MESSAGE(model->stream && model->stream->sizes.experts > 0 && info.weight_bytes <= *budget,
                  "%llu bytes of weights, a budget of %llu", (unsigned long long)info.weight_bytes,
                  (unsigned long long)*budget);
    run_counting(context, model, FEW_STEPS, few, clip);
    CHECK_MESSAGE(!memcmp(clip, plain, sizeof clip), "experts that take turns make another clip");
    run_counting(context, model, MANY_STEPS, many, clip);
    for (i = 0; i < 2;
         i++) { /* a matrix for which there is no room beside the others may be read twice, in no step more */
        printf("%s: %llu of %llu bytes are read in %u steps, %llu in %u\n", transformers[i].folder,
               (unsigned long long)few[i], (unsigned long long)transformers[i].size, FEW_STEPS,
               (unsigned long long)many[i], MANY_STEPS);
        CHECK(few[i] == many[i] && few[i] > transformers[i].size / 2 && few[i] < transformers[i].size / 2 * 3);
    }
    dit_model_destroy(model);
}

/* A budget that holds a part of an expert: what lies in its slots and what passes through the first two take turns. */
static void test_part(dit_context *context, const uint8_t *plain) {
    static uint8_t clip[VALUES];
    dit_model *model = load(context, transformers[0].size * 11 / 10);
    const diti_weights *weights = model ? &model->transformer->component.weights : NULL;
    uint64_t read[2];
    if (!model) return;
    CHECK(weights->expert && weights->expert->count > 2 && weights->streamed->count > 2);
    run_counting(context, model, FEW_STEPS, read, clip);
    CHECK_MESSAGE(!memcmp(clip, plain, sizeof clip), "a part of an expert in its slots makes another clip");
    CHECK(read[0] > transformers[0].size && read[1] > transformers[1].size);
    dit_model_destroy(model);
}

/* The other expert's file cannot be read when its steps begin. */
static void test_broken(dit_context *context, uint64_t budget) {
    dit_model *model = load(context, budget);
    dit_job_desc desc = describe(model, FEW_STEPS);
    dit_job *job = NULL;
    dit_error err = {0};
    if (model && CHECK_MESSAGE(dit_job_create(context, &desc, &job, &err) == DIT_OK, "%s", err.message)) {
        transformers[1].broken = true;
        CHECK(dit_job_wait(job, UINT64_MAX) == DIT_ERROR_IO);
        dit_job_status(job, NULL, &err);
        CHECK_MESSAGE(strstr(err.message, "streamed while the job runs"), "%s", err.message);
        transformers[1].broken = false;
    }
    dit_job_destroy(job);
    dit_model_destroy(model);
}

/* An expert is guided where the other one is not. */
static void test_guidance(dit_context *context) {
    static uint8_t frames[3][VALUES];
    static const float scales[3][2] = {{1, 0}, {1, 3}, {3, 1}}; /* of the experts for high noise and low noise */
    dit_model *model = load(context, 0);
    dit_job_desc desc = describe(model, 3);
    dit_error err = {0};
    dit_model_info info;
    size_t i;
    dit_model_get_info(model, &info);
    CHECK(info.default_guidance == 3.5f && info.default_low_guidance == 3.5f);
    desc.shift = 3;
    for (i = 0; i < 3; i++) {
        dit_job *job = NULL;
        desc.guidance.scale = scales[i][0];
        desc.guidance.low_scale = scales[i][1];
        if (!CHECK_MESSAGE(dit_job_create(context, &desc, &job, &err) == DIT_OK, "%s", err.message)) continue;
        CHECK(boundary(job) > 0 && boundary(job) < 3);
        CHECK_MESSAGE(dit_job_wait(job, UINT64_MAX) == DIT_OK && read_frames(job, frames[i]), "guidance %g, %g",
                      (double)scales[i][0], (double)scales[i][1]);
        dit_job_destroy(job);
    }
    CHECK_MESSAGE(memcmp(frames[0], frames[1], VALUES) != 0, "low noise alone is not guided");
    CHECK_MESSAGE(memcmp(frames[0], frames[2], VALUES) != 0 && memcmp(frames[1], frames[2], VALUES) != 0,
                  "high noise alone is not guided");
    dit_model_destroy(model);
}

/* Commands of the application, on a device whose memory the host does not see: slots have one mirror together. */
static void test_recorded(uint64_t budget, const uint8_t *plain) {
    static uint8_t clip[VALUES];
    const uint32_t budgets[] = {UINT32_MAX, 1};
    engine *e = (engine *)calloc(1, sizeof *e);
    dit_context_desc cd = {0};
    dit_context *context;
    dit_model *model;
    dit_job *job = NULL;
    dit_error err = {0};
    uint32_t i;
    e->maps_least = true;
    if (!engine_make_instance(e) || !engine_make_device(e, true)) return free(e);
    cd.device_allocator.alloc = engine_alloc;
    cd.device_allocator.free = engine_free;
    cd.device_allocator.user = e;
    cd.overrides = "rung=base,gflop_ns=100000000";
    context = engine_context(e, &cd);
    model = context ? load(context, budget) : NULL;
    for (i = 0; i < 2 && model; i++) {
        dit_job_desc desc = describe(model, FEW_STEPS);
        dit_result result = i ? dit_job_restart(job, &desc, &err) : dit_job_create(context, &desc, &job, &err);
        if (!CHECK_MESSAGE(result == DIT_OK, "%s", err.message)) break;
        for (result = DIT_WORKING; result == DIT_WORKING;) {
            VkCommandBuffer commands = engine_begin_commands(e);
            result = dit_job_record(job, commands, budgets[i]);
            engine_run(e, commands, VK_NULL_HANDLE, 0);
        }
        CHECK_MESSAGE(result == DIT_OK, "%s", dit_result_string(result));
        memset(clip, 0, sizeof clip);
        CHECK(read_frames(job, clip) && !memcmp(clip, plain, sizeof clip));
    }
    dit_job_destroy(job);
    dit_model_destroy(model);
    dit_context_destroy(context);
    engine_end(e);
    free(e);
}

/* --- Ideogram 4, whose unconditional half of guidance another transformer evaluates, in every step --- */

enum { DRAWN_WIDTH = 48, DRAWN_HEIGHT = 80, DRAWN = DRAWN_WIDTH * DRAWN_HEIGHT * 4 };
static counted_file halves[2] = {{"transformer/", NULL, 0, 0, false},
                                 {"unconditional_transformer/", NULL, 0, 0, false}};
static bool lacks_half;
static dit_status drawn; /* of the last job */

static dit_result open_halves(const char *member, dit_source *out, void *user) {
    static char path[512];
    FILE *file;
    uint32_t i;
    (void)user;
    if (lacks_half && diti_starts_with(member, halves[1].folder)) return DIT_ERROR_IO;
    diti_format(path, sizeof path, "tests/fixtures/%s/%s",
                diti_starts_with(member, "text_encoder/") || diti_starts_with(member, "tokenizer/") ? "pipe_krea2"
                : diti_starts_with(member, "vae/")                                                  ? "pipe_flux2_klein"
                                                                                                    : "pipe_ideogram4",
                member);
    file = fopen(path, "rb");
    if (!file) return DIT_ERROR_IO;
    fclose(file);
    out->path = path;
    for (i = 0; i < 2; i++) {
        counted_file *counted = &halves[i];
        if (!diti_starts_with(member, counted->folder) || !diti_ends_with(member, ".safetensors")) continue;
        if (!counted->data) counted->data = test_read_file(path, &counted->size);
        out->path = NULL;
        out->read_at = read_counted;
        out->size = counted->size;
        out->user = counted;
    }
    return DIT_OK;
}

/* The first picture of a job; read: bytes of either transformer's file that the job has read. */
static void draw_halves(dit_context *context, const dit_model_desc *desc, const dit_job_desc *wish, const char *what,
                        uint8_t *out, uint64_t read[2]) {
    dit_model_desc full = *desc;
    dit_job_desc job_desc = *wish;
    dit_model *model = NULL;
    dit_job *job = NULL;
    dit_error err = {0};
    uint32_t i;
    full.source.open = open_halves;
    memset(out, 0, DRAWN);
    if (!CHECK_MESSAGE(dit_model_load(context, &full, &model, &err) == DIT_OK, "%s: %s", what, err.message)) return;
    for (i = 0; i < 2; i++) read[i] = halves[i].read;
    job_desc.model = model;
    job_desc.prompt = "a fox runs through snow";
    job_desc.width = DRAWN_WIDTH;
    job_desc.height = DRAWN_HEIGHT;
    if (!wish->steps) job_desc.steps = 2;
    job_desc.seed = 7;
    if (CHECK_MESSAGE(dit_job_create(context, &job_desc, &job, &err) == DIT_OK &&
                          dit_job_wait(job, UINT64_MAX) == DIT_OK,
                      "%s: %s", what, err.message))
        CHECK(dit_job_read(job, DIT_READ_RGBA8, 0, 0, out, DRAWN, 0, &err) == DIT_OK);
    if (job) dit_job_status(job, &drawn, NULL);
    for (i = 0; i < 2; i++) read[i] = halves[i].read - read[i];
    dit_job_destroy(job);
    dit_model_destroy(model);
}

/* Both are streamed in every step; two pictures are made at once; each is on a device of its own, which reads it alone;
   the last step is guided less, and a negative prompt is not read. */
static void test_halves(dit_context *context, dit_context *two) {
    static uint8_t plain[DRAWN], other[DRAWN];
    dit_model_desc all = {0}, little = {0}, by_need = {0};
    dit_job_desc desc = {0}, wish = {0};
    uint64_t read[2];
    draw_halves(context, &all, &desc, "resident", plain, read);
    CHECK(read[0] == 0 && read[1] == 0);
    little.weight_budget = 250000;
    draw_halves(context, &little, &desc, "streamed", other, read);
    CHECK_MESSAGE(!memcmp(plain, other, DRAWN), "streamed transformers make another picture");
    CHECK_MESSAGE(read[0] > halves[0].size / 4 && read[1] > halves[1].size / 4, "%llu and %llu bytes are streamed",
                  (unsigned long long)read[0], (unsigned long long)read[1]);
    wish.image_count = 2;
    draw_halves(context, &all, &wish, "two pictures", other, read);
    CHECK_MESSAGE(!memcmp(plain, other, DRAWN), "the first of two pictures is another one");
    by_need.weights_by_need = true;
    wish = desc;
    wish.split = "cfg2";
    draw_halves(two, &by_need, &wish, "cfg2", other, read);
    CHECK_MESSAGE(!memcmp(plain, other, DRAWN), "two devices make another picture");
    CHECK_MESSAGE(read[0] > halves[0].size / 2 && read[0] < halves[0].size * 5 / 4 && read[1] > halves[1].size / 2 &&
                      read[1] < halves[1].size * 5 / 4,
                  "%llu and %llu bytes are read by two devices", (unsigned long long)read[0],
                  (unsigned long long)read[1]);
    wish = desc;
    wish.guidance.scale = 7;
    wish.guidance.low_scale = 3;
    wish.negative_prompt = "blurry";
    draw_halves(context, &all, &wish, "the same guidance by name", other, read);
    CHECK_MESSAGE(!memcmp(plain, other, DRAWN), "the default is not 7, and 3 in the last step");
    wish.guidance.low_scale = 0;
    draw_halves(context, &all, &wish, "one guidance", other, read);
    CHECK_MESSAGE(memcmp(plain, other, DRAWN) != 0, "the last step is not guided less");
}

/* Caches reuse blocks of both transformers, each its own, whether one device has both or each has one; streamed blocks
   are then read for neither. */
static void test_reused_halves(dit_context *context, dit_context *two) {
    static uint8_t whole[DRAWN], plain[DRAWN], other[DRAWN];
    static const struct {
        const char *cache;
        float first, last;
    } known[] = {
        {"delta:first=0,from=1", 0, 0}, {"fbcache:threshold=2,warmup=2", 0, 0.8f}, {"easycache:threshold=2", 0.2f, 1}};
    dit_model_desc all = {0}, little = {0};
    dit_job_desc desc = {0}, wish;
    uint64_t before[2], read[2];
    size_t i;
    little.weight_budget = 250000;
    desc.steps = 5;
    draw_halves(context, &little, &desc, "no cache", whole, before);
    for (i = 0; i < DITI_COUNT(known); i++) {
        uint32_t reused;
        wish = desc;
        wish.cache = known[i].cache;
        wish.guidance.first = known[i].first;
        wish.guidance.last = known[i].last;
        draw_halves(context, i ? &all : &little, &wish, wish.cache, plain, read);
        reused = drawn.reused;
        CHECK_MESSAGE(reused >= 2 && memcmp(whole, plain, DRAWN), "%s: %u steps reuse blocks", wish.cache, reused);
        if (!i)
            CHECK_MESSAGE(read[0] < before[0] * 9 / 10 && read[1] < before[1] * 9 / 10,
                          "%llu of %llu and %llu of %llu bytes are streamed", (unsigned long long)read[0],
                          (unsigned long long)before[0], (unsigned long long)read[1], (unsigned long long)before[1]);
        wish.split = "cfg2";
        draw_halves(two, &all, &wish, wish.cache, other, read);
        CHECK_MESSAGE(drawn.reused == reused && !memcmp(plain, other, DRAWN),
                      "%s: two devices make another picture, with %u steps reused, not %u", wish.cache, drawn.reused,
                      reused);
    }
}

/* Without the second transformer there are pictures without guidance alone. */
static void test_half(dit_context *context) {
    static uint8_t alone[DRAWN], other[DRAWN];
    dit_model_desc desc = {0};
    dit_job_desc wish = {0};
    dit_model *model = NULL;
    dit_model_info info;
    dit_job *job = NULL;
    dit_error err = {0};
    uint64_t read[2];
    wish.guidance.scale = 1;
    draw_halves(context, &desc, &wish, "unguided", alone, read);
    lacks_half = true;
    draw_halves(context, &desc, &wish, "unguided, without the second", other, read);
    CHECK(!memcmp(alone, other, DRAWN));
    desc.source.open = open_halves;
    if (CHECK_MESSAGE(dit_model_load(context, &desc, &model, &err) == DIT_OK, "%s", err.message)) {
        dit_model_get_info(model, &info);
        CHECK(info.missing == 1u << DIT_ROLE_TRANSFORMER_2);
        wish.model = model;
        wish.guidance.scale = 0;
        CHECK(dit_job_create(context, &wish, &job, &err) == DIT_ERROR_UNSUPPORTED_MODEL && !job);
        CHECK_MESSAGE(strstr(err.message, "DIT_ROLE_TRANSFORMER_2") != NULL, "%s", err.message);
    }
    dit_model_destroy(model);
    lacks_half = false;
}

int main(void) {
    static uint8_t plain[VALUES];
    dit_context_desc cd = {0};
    dit_context *context = NULL, *two = NULL;
    dit_error err = {0};
    uint64_t budget = 0;
    test_vulkan_begin();
    cd.overrides = "rung=base,gflop_ns=100000000";
    if (CHECK_MESSAGE(dit_context_create(&cd, &context, &err) == DIT_OK, "%s", err.message)) {
        test_turns(context, &budget, plain);
        test_part(context, plain);
        test_guidance(context);
        test_broken(context, budget);
        cd.devices = "0,0";
        if (CHECK_MESSAGE(dit_context_create(&cd, &two, &err) == DIT_OK, "%s", err.message)) {
            test_halves(context, two);
            test_reused_halves(context, two);
        }
        test_half(context);
    }
    dit_context_destroy(two);
    dit_context_destroy(context);
    test_recorded(budget, plain);
    free(transformers[0].data);
    free(transformers[1].data);
    free(halves[0].data);
    free(halves[1].data);
    test_vulkan_end();
    return TEST_END("experts");
}
