/* Streamed weights: whatever the budget, the picture is the same to the byte and the memory is really less; what fails
 * or stops in between leaves nothing behind. On a device whose memory the host sees, on one where it does not, and on
 * one that the application made and gave a second queue for.
   test-runs: lavapipe swiftshader sanitize */
#define DIT_IMPLEMENTATION
#include "dit.h"
#include "vulkan_test.h"
#include "engine.h"
#include "files.h"

#define EMOJI "models/emoji-q8_0.gguf"
#define SMALL "tests/fixtures/pipe_pixart_sigma" /* two blocks, random weights */
#if defined(__SANITIZE_ADDRESS__)
#define QUICK 1
#else
#define QUICK 0
#endif
enum { SIDE = 32, BYTES = SIDE * SIDE * 4, STEPS = 2, PROMPTS = 2, JOBS = 2 };

static const char *const prompts[PROMPTS] = {"red heart", "banana, flat style"};
static unsigned char expected[PROMPTS][BYTES]; /* with resident weights */
static dit_context *context;
static const char *path;
static uint64_t resident, least; /* bytes of all weights; the smallest budget */

/* ---- Models and jobs ---- */

static uint64_t memory_used(void) { return context->device->memory_used; }

static dit_model *load(const dit_model_desc *desc) {
    dit_model *model = NULL;
    dit_error err = {0};
    CHECK_MESSAGE(dit_model_load(context, desc, &model, &err) == DIT_OK, "%s", err.message);
    return model;
}

static dit_model *load_with(uint64_t budget, bool release_text) {
    dit_model_desc desc = {0};
    desc.source.path = path;
    desc.weight_budget = budget;
    desc.release_text_encoders = release_text;
    return load(&desc);
}

static dit_job_desc describe(const dit_model *model, int prompt) {
    dit_job_desc desc = {0};
    desc.model = model;
    desc.prompt = prompts[prompt];
    desc.width = desc.height = SIDE;
    desc.steps = STEPS;
    desc.guidance.scale = 1;
    desc.seed = 7;
    return desc;
}

static dit_job *make_job(const dit_model *model, int prompt) {
    dit_job_desc desc = describe(model, prompt);
    dit_job *job = NULL;
    dit_error err = {0};
    if (model) CHECK_MESSAGE(dit_job_create(context, &desc, &job, &err) == DIT_OK, "%s", err.message);
    return job;
}

static void restart(dit_job *job, const dit_model *model, int prompt) {
    dit_job_desc desc = describe(model, prompt);
    dit_error err = {0};
    CHECK_MESSAGE(dit_job_restart(job, &desc, &err) == DIT_OK, "%s", err.message);
}

static bool finish(dit_job *job) {
    dit_error err = {0};
    dit_result result = dit_job_wait(job, UINT64_MAX);
    dit_job_status(job, NULL, &err);
    return CHECK_MESSAGE(result == DIT_OK, "%s", err.message);
}

static bool is_expected(dit_job *job, int prompt) {
    unsigned char rgba[BYTES];
    return dit_job_read(job, DIT_READ_RGBA8, 0, 0, rgba, BYTES, 0, NULL) == DIT_OK &&
           !memcmp(rgba, expected[prompt], BYTES);
}

/* Makes both pictures with one job; returns what it streamed. */
static uint64_t check_pictures(const dit_model *model) {
    dit_counters before = {0}, after = {0};
    dit_job *job = make_job(model, 0);
    int prompt;
    if (!job) return 0;
    dit_job_get_counters(job, &before);
    for (prompt = 0; prompt < PROMPTS; prompt++) {
        if (prompt) restart(job, model, prompt);
        if (finish(job)) CHECK(is_expected(job, prompt));
    }
    dit_job_get_counters(job, &after);
    CHECK(after.allocations == before.allocations && after.recordings == before.recordings);
    dit_job_destroy(job);
    return after.streamed_bytes;
}

static void test_too_small(void) {
    dit_model_desc desc = {0};
    dit_model *model = NULL;
    dit_error err = {0};
    const char *number;
    desc.source.path = path;
    desc.weight_budget = 1;
    CHECK(dit_model_load(context, &desc, &model, &err) == DIT_ERROR_INVALID_ARGUMENT && !model);
    number = strstr(err.message, "needs at least ");
    if (!CHECK_MESSAGE(number, "%s", err.message)) return;
    least = strtoull(number + strlen("needs at least "), NULL, 10);
    desc.weight_budget = least - 1;
    CHECK(dit_model_load(context, &desc, &model, &err) == DIT_ERROR_INVALID_ARGUMENT && !model);
    desc.dry_run = true;
    CHECK(dit_model_load(NULL, &desc, &model, &err) == DIT_ERROR_INVALID_ARGUMENT && !model);
}

/* From now on with this model: its pictures and sizes. */
static void use_model(const char *file) {
    dit_model *model;
    dit_job *job;
    dit_model_info info;
    int prompt;
    path = file;
    model = load_with(0, false);
    job = make_job(model, 0);
    for (prompt = 0; job && prompt < PROMPTS; prompt++) {
        if (prompt) restart(job, model, prompt);
        if (finish(job)) CHECK(dit_job_read(job, DIT_READ_RGBA8, 0, 0, expected[prompt], BYTES, 0, NULL) == DIT_OK);
    }
    dit_model_get_info(model, &info);
    resident = info.weight_bytes;
    CHECK(info.streamed_bytes == 0);
    dit_job_destroy(job);
    dit_model_destroy(model);
    test_too_small();
}

/* ---- Budgets ---- */

static void test_budget(uint64_t budget) {
    uint64_t before = memory_used(), streamed;
    dit_model *model = load_with(budget, false);
    dit_job_desc desc = describe(model, 0);
    dit_memory memory = {0};
    dit_model_info info;
    dit_model_get_info(model, &info);
    CHECK(info.weight_bytes <= budget);
    CHECK(info.weight_bytes + info.streamed_bytes >= resident);
    CHECK((info.streamed_bytes == 0) == (budget >= resident));
    CHECK(dit_job_memory(context, &desc, &memory, NULL) == DIT_OK);
    CHECK(memory.weights == info.weight_bytes && memory.streamed == info.streamed_bytes);
    streamed = check_pictures(model);
    CHECK((streamed == 0) == (budget >= resident));
    /* beside the weights only staging buffers, which count where all memory is the device's */
    CHECK_MESSAGE(memory_used() <= before + budget + (1u << 20), "%llu bytes in use",
                  (unsigned long long)memory_used());
    dit_model_destroy(model);
    CHECK(memory_used() <= before + (1u << 20));
}

/* A prompt's embedding with a streamed encoder and a resident one. */
static void test_encode(void) {
    dit_model *model = load_with(0, true);
    size_t size = 0;
    void *blob[2] = {NULL, NULL};
    int i;
    for (i = 0; i < 2; i++) {
        if (i) dit_model_destroy(model), model = load_with(0, false);
        CHECK(dit_encode_prompt(context, model, prompts[0], NULL, &size, NULL) == DIT_OK);
        blob[i] = calloc(1, size);
        CHECK(dit_encode_prompt(context, model, prompts[0], blob[i], &size, NULL) == DIT_OK);
    }
    CHECK(!memcmp(blob[0], blob[1], size));
    free(blob[0]);
    free(blob[1]);
    dit_model_destroy(model);
}

static void test_release(void) {
    uint64_t before = memory_used(), text;
    dit_model *model = load_with(0, true);
    dit_model_info info;
    dit_model_get_info(model, &info);
    text = info.streamed_bytes;
    CHECK(text > 0 && info.weight_bytes < resident - text / 2);
    CHECK(memory_used() < before + resident - text / 2 + (1u << 16));
    CHECK(check_pictures(model) >= PROMPTS * text); /* loaded again for the second prompt */
    dit_model_destroy(model);
    model = load_with(least, true); /* both */
    check_pictures(model);
    dit_model_destroy(model);
}

/* ---- Several jobs on one model ---- */

static void *wait_for(void *job) {
    finish((dit_job *)job);
    return NULL;
}

static void test_jobs(uint64_t budget) {
    dit_model *model = load_with(budget, false);
    dit_job *jobs[JOBS];
    dit_result result[JOBS] = {DIT_WORKING, DIT_WORKING};
    pthread_t threads[JOBS];
    int i, turn;
    for (i = 0; i < JOBS; i++) jobs[i] = make_job(model, i);
    for (turn = 0; turn < 100000 && (result[0] == DIT_WORKING || result[1] == DIT_WORKING); turn++) {
        result[turn % JOBS] = dit_job_step(jobs[turn % JOBS], 0);
        usleep(200);
    }
    for (i = 0; i < JOBS; i++) CHECK(result[i] == DIT_OK && is_expected(jobs[i], i));
    for (i = 0; i < JOBS; i++) restart(jobs[i], model, 1 - i); /* one stops half-way, and still the other ends */
    for (turn = 0; turn < 20; turn++) dit_job_step(jobs[0], 0);
    CHECK(finish(jobs[1]) && is_expected(jobs[1], 0));
    CHECK(finish(jobs[0]) && is_expected(jobs[0], 1));
    for (i = 0; i < JOBS; i++) restart(jobs[i], model, i);
    for (i = 0; i < JOBS; i++) pthread_create(&threads[i], NULL, wait_for, jobs[i]);
    for (i = 0; i < JOBS; i++) pthread_join(threads[i], NULL);
    for (i = 0; i < JOBS; i++) CHECK(is_expected(jobs[i], i));
    for (i = 0; i < JOBS; i++) dit_job_destroy(jobs[i]);
    dit_model_destroy(model);
}

/* ---- What ends early ---- */

typedef struct reader { /* a file behind a callback */
    char *bytes;
    size_t size;
    long reads, fail_at; /* 0: never */
} reader;

static int64_t read_at(uint64_t offset, void *dst, size_t size, void *user) {
    reader *r = (reader *)user;
    if (++r->reads == r->fail_at || offset + size > r->size) return -1;
    memcpy(dst, r->bytes + offset, size);
    return (int64_t)size;
}

static void test_failing_reads(void) {
    reader file = {0};
    dit_model_desc desc = {0};
    dit_model *model;
    dit_job *job;
    dit_error err = {0};
    int i;
    file.bytes = test_read_file(EMOJI, &file.size);
    desc.source.read_at = read_at;
    desc.source.size = file.size;
    desc.source.user = &file;
    desc.weight_budget = least;
    model = load(&desc);
    job = make_job(model, 0);
    for (i = 0; job && i < 4; i++) { /* in the encoder, the steps, the decoder, never */
        static const int after[] = {5, 90, 200};
        file.reads = 0;
        file.fail_at = i < 3 ? after[i] : 0;
        restart(job, model, 0);
        if (i == 3) break;
        CHECK(dit_job_wait(job, UINT64_MAX) == DIT_ERROR_IO);
        dit_job_status(job, NULL, &err);
        CHECK_MESSAGE(strstr(err.message, "tensor ") && strstr(err.message, ".weight") &&
                          strstr(err.message, "reading at"),
                      "%s", err.message);
    }
    if (job) CHECK(finish(job) && is_expected(job, 0));
    dit_job_destroy(job);
    dit_model_destroy(model);
    free(file.bytes);
}

static void test_cancel_and_record(void) {
    dit_model *model = load_with(least, false);
    dit_job *job = make_job(model, 0);
    dit_error err = {0};
    int i, turns;
    for (turns = 1; job && turns < 60; turns += 29) {
        for (i = 0; i < turns; i++) CHECK(dit_job_step(job, 0) == DIT_WORKING);
        dit_job_cancel(job);
        CHECK(dit_job_wait(job, UINT64_MAX) == DIT_CANCELLED);
        restart(job, model, 1);
    }
    if (job) CHECK(finish(job) && is_expected(job, 1));
    restart(job, model, 0);
    CHECK(dit_job_record(job, (VkCommandBuffer)(void *)&err, 1000) == DIT_ERROR_INVALID_ARGUMENT);
    dit_job_status(job, NULL, &err);
    CHECK_MESSAGE(strstr(err.message, "dit_job_record: streamed weights"), "%s", err.message);
    restart(job, model, 0);
    for (i = 0; i < 10; i++) dit_job_step(job, 0);
    dit_job_destroy(job); /* while it runs */
    dit_model_destroy(model);
}

/* ---- The trace ---- */

/* Whether any span of the load lane and any slice go on at the same time. */
static bool loads_beside_work(void) {
    const diti_trace_chunk *a, *b;
    uint32_t i, j;
    for (a = context->trace->first; a; a = a->next) {
        for (i = 0; i < a->count; i++) {
            const diti_trace_event *load_event = &a->events[i];
            if (load_event->lane != DITI_LANE_LOAD || strcmp(load_event->name, "stream weights") != 0) continue;
            for (b = context->trace->first; b; b = b->next) {
                for (j = 0; j < b->count; j++) {
                    const diti_trace_event *slice = &b->events[j];
                    if (slice->kind == DITI_TRACE_SLICE && slice->begin_ns < load_event->end_ns &&
                        load_event->begin_ns < slice->end_ns)
                        return true;
                }
            }
        }
    }
    return false;
}

/* ---- Devices ---- */

static bool begin(const char *overrides, bool trace) {
    dit_context_desc desc = {0};
    dit_error err = {0};
    desc.overrides = overrides;
    desc.trace = trace;
    return CHECK_MESSAGE(dit_context_create(&desc, &context, &err) == DIT_OK, "%s", err.message);
}

/* Memory that the host sees: it writes the slots itself. */
static void test_mapped(void) {
    if (!begin("rung=base", true)) return;
    use_model(SMALL);
    test_budget(least);
    test_jobs(least);
    test_cancel_and_record();
    if (!QUICK) {
        test_budget((least + resident) / 2);
        test_budget(resident);
        test_release();
        test_encode();
        use_model(EMOJI);
        test_budget(least);
        CHECK(loads_beside_work());
        test_release();
        test_failing_reads();
    }
    CHECK(memory_used() == 0);
    dit_context_destroy(context);
}

/* Memory that it does not see, and so small a staging ring that every matrix takes several turns. */
static void test_staged(void) {
    if (!begin("rung=base,mapped=0,staging=1K", false)) return;
    use_model(SMALL);
    test_budget(least);
    test_budget(resident);
    test_jobs((least + resident) / 2);
    test_cancel_and_record();
    dit_context_destroy(context);
}

/* The copies go to a queue that the application names: here the one there is, so that waiting for another queue's
   semaphore is seen, but no second family. */
static void test_engine(void) {
    engine app = {0};
    dit_context_desc desc = {0};
    desc.overrides = "rung=base,mapped=0,staging=1K";
    if (engine_make_instance(&app) && engine_make_device(&app, true)) {
        app.handover.transfer_queue = app.queue;
        app.handover.transfer_family = app.family;
        context = engine_context(&app, &desc);
        if (context) test_budget(least);
        dit_context_destroy(context);
    }
    engine_end(&app);
}

/* The device is lost while it streams. */
static void test_lost(void) {
    dit_model *model;
    dit_job *job;
    if (!begin("rung=base,mapped=0,fail_submit=40", false)) return;
    model = load_with(least, false);
    job = make_job(model, 0);
    if (job) CHECK(dit_job_wait(job, UINT64_MAX) == DIT_ERROR_DEVICE_LOST);
    dit_job_destroy(job);
    dit_model_destroy(model);
    dit_context_destroy(context);
}

/* SwiftShader compiles for seconds: only the few kernels of an encoder. */
static void test_encoder_alone(void) {
    path = SMALL;
    test_encode();
    dit_context_destroy(context);
}

int main(void) {
    bool all = getenv("DIT_TEST_ALL") && strcmp(getenv("DIT_TEST_ALL"), "1") == 0;
    test_vulkan_begin();
    if (begin("rung=base,mapped=0,staging=1K", false)) {
        bool slow = strstr(context->device->info.name, "SwiftShader") != NULL && !all;
        if (slow)
            test_encoder_alone();
        else
            dit_context_destroy(context);
        if (!slow) {
            test_mapped();
            test_staged();
            if (!QUICK) test_engine();
            test_lost();
        }
    }
    test_vulkan_end();
    return TEST_END("stream");
}
