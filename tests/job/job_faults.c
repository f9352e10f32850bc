/* Vulkan calls that fail, from opening a context to reading the picture: each time there must be a clean error (or a
   way around it), the next try must succeed and draw the same picture, and the validation layers must find nothing
   left. By default each function fails where it is called first and last; DIT_TEST_ALL=1: every single call, and on
   the application's device, while it records, too. */
/* test-runs: sanitize, in test-all lavapipe */
#include "library.h"
#include "vulkan_test.h"
#include "vulkan_faults.h"
#include "engine.h"
#include <sys/wait.h>

enum { SIDE = 32, BYTES = SIDE * SIDE * 4 };

static dit_context *context;
static dit_model *model;
static dit_job *job;
static dit_error err;
static uint8_t picture[BYTES], expected[BYTES];
static bool all;
static engine *app; /* NULL: dit opens its own device */

/* --- the stages; each needs those before it --- */

static dit_result make_context(void) {
    dit_vulkan through = {0};
    dit_context_desc desc = {0};
    if (app) through = app->handover;
    through.get_instance_proc_addr = fault_get_instance_proc_addr;
    desc.vulkan = &through;
    desc.vulkan_count = 1;
    if (app) {
        desc.device_allocator.alloc = engine_alloc;
        desc.device_allocator.free = engine_free;
        desc.device_allocator.user = app;
    }
    desc.overrides = "mapped=0,allocation=1M,gflop_ns=100000000"; /* as on a board whose memory the host does not see */
    return dit_context_create(&desc, &context, &err);
}

static void drop_context(void) {
    dit_context_destroy(context);
    context = NULL;
}

static dit_result make_model(void) {
    dit_model_desc desc = {0};
    desc.source.path = "tests/fixtures/pipe_pixart_sigma";
    return dit_model_load(context, &desc, &model, &err);
}

static void drop_model(void) {
    dit_model_destroy(model);
    model = NULL;
}

static dit_result make_job(void) {
    dit_job_desc desc = {0};
    desc.model = model;
    desc.prompt = "red apple";
    desc.width = desc.height = SIDE;
    desc.steps = 2;
    desc.guidance.scale = 3;
    desc.preview_interval = 1;
    return dit_job_create(context, &desc, &job, &err);
}

static void drop_job(void) {
    dit_job_destroy(job);
    job = NULL;
}

static dit_result make_picture(void) {
    dit_result result = dit_job_wait(job, UINT64_MAX);
    if (result < 0) dit_job_status(job, NULL, &err);
    if (result >= 0) result = dit_job_read(job, DIT_READ_RGBA8, 0, 0, picture, BYTES, 0, &err);
    return result;
}

/* Makes the picture in the application's command buffers, as many as it takes. */
static dit_result record_picture(void) {
    dit_result result = DIT_WORKING;
    while (result == DIT_WORKING) {
        VkCommandBuffer commands = engine_begin_commands(app);
        result = dit_job_record(job, commands, 3000);
        engine_run(app, commands, VK_NULL_HANDLE, 0);
    }
    if (result < 0) dit_job_status(job, NULL, &err);
    if (result >= 0) result = dit_job_read(job, DIT_READ_RGBA8, 0, 0, picture, BYTES, 0, &err);
    return result;
}

/* A job that failed is over; the next one starts anew. */
static void renew_job(void) {
    drop_job();
    CHECK_MESSAGE(make_job() == DIT_OK, "%s", err.message);
}

typedef struct stage {
    const char *name;
    dit_result (*make)(void);
    void (*drop)(void);
} stage;

static const stage stages[] = {{"context", make_context, drop_context},
                               {"model", make_model, drop_model},
                               {"job", make_job, drop_job},
                               {"picture", make_picture, renew_job}};
static const stage recorded[] = {{"wrapped context", make_context, drop_context},
                                 {"wrapped model", make_model, drop_model},
                                 {"wrapped job", make_job, drop_job},
                                 {"recorded picture", record_picture, renew_job}};

/* --- the sweep --- */

/* The first and the last call of each function; how often one waits or asks is not the same in every run.
 */
static bool is_chosen(unsigned k, unsigned total) { return all || k == 1 || k == total; }

static bool is_poll(const char *name) {
    return !strcmp(name, "vkGetSemaphoreCounterValue") || !strcmp(name, "vkWaitSemaphores") ||
           !strcmp(name, "vkGetQueryPoolResults");
}

static void fail_call(const stage *at, const char *name, unsigned k, VkResult code) {
    dit_result result;
    memset(&err, 0, sizeof err);
    fault_begin(k, code);
    fault_only = name;
    result = at->make();
    CHECK_MESSAGE(fault_name || is_poll(name), "%s: %s did not happen %u times", at->name, name, k);
    CHECK_MESSAGE(result < 0 || !err.message[0], "%s: %s call %u: an error without failure: %s", at->name, name, k,
                  err.message);
    CHECK_MESSAGE(result <= DIT_OK, "%s: %s call %u gave %d", at->name, name, k, result);
    CHECK_MESSAGE(result >= 0 || (err.message[0] && err.result == result), "%s: %s call %u: result %d, error %d '%s'",
                  at->name, name, k, result, err.result, err.message);
    fault_begin(0, code);
    at->drop();
}

static void sweep_stage(const stage *at, VkResult code) {
    static const char *names[FAULT_MOST];
    unsigned i, j, k, calls, tried = 0;
    CHECK_MESSAGE(at->make() == DIT_OK, "%s: %s", at->name, err.message);
    at->drop();
    fault_begin(0, code); /* the second time: pipelines are there by then */
    CHECK_MESSAGE(at->make() == DIT_OK, "%s: %s", at->name, err.message);
    CHECK_MESSAGE(fault_calls > 0, "%s makes no call that could fail", at->name);
    calls = fault_calls < FAULT_MOST ? fault_calls : FAULT_MOST;
    memcpy(names, fault_names, calls * sizeof *names);
    at->drop();
    for (i = 0; i < calls; i++) {
        unsigned total = 0;
        k = 1;
        for (j = 0; j < calls; j++) {
            total += names[j] == names[i];
            k += j < i && names[j] == names[i];
        }
        if (!is_chosen(k, total)) continue;
        fail_call(at, names[i], k, code);
        tried++;
    }
    printf("%s: %u of %u calls failed once\n", at->name, tried, calls);
    fault_begin(0, code);
    CHECK_MESSAGE(at->make() == DIT_OK, "%s, after all failures: %s", at->name, err.message);
}

/* Pipelines are kept by the context, which needs a new one for each failure: the first shader module fails before there
   is any, the ninth pipeline before the others. Leaves the context and the model. */
static void sweep_pipelines(VkResult code) {
    CHECK(make_context() == DIT_OK && make_model() == DIT_OK);
    fail_call(&stages[2], "vkCreateShaderModule", 1, code);
    fail_call(&stages[2], "vkCreateComputePipelines", 9, code);
    CHECK_MESSAGE(make_job() == DIT_OK, "after a failed pipeline: %s", err.message);
    drop_job();
}

static void sweep(const stage *list, VkResult code) {
    size_t i;
    for (i = 0; i < DITI_COUNT(stages); i++) sweep_stage(&list[i], code);
    if (!expected[3]) memcpy(expected, picture, BYTES);
    CHECK_MESSAGE(!memcmp(expected, picture, BYTES), "the picture after the failures is another one");
    drop_job();
    drop_model();
    drop_context();
}

static void sweep_wrapped(void) {
    static engine mine;
    app = &mine;
    if (engine_make_instance(app) && engine_make_device(app, true)) sweep(recorded, VK_ERROR_OUT_OF_HOST_MEMORY);
    engine_end(app);
    app = NULL;
}

/* A lost device takes everything with it: each try begins with a new context. Returns the calls that could lose it. */
static unsigned lose_at(unsigned n) {
    dit_result result = DIT_OK;
    size_t i;
    memset(&err, 0, sizeof err);
    fault_begin(n, VK_ERROR_DEVICE_LOST);
    for (i = 0; i < DITI_COUNT(stages) && result >= 0; i++) result = stages[i].make();
    if (n && !fault_lost) { /* fewer calls asked how far the device is this time */
        CHECK_MESSAGE(result == DIT_OK, "%s", err.message);
    } else if (n) {
        CHECK_MESSAGE(result == DIT_ERROR_DEVICE_LOST && err.result == result, "loss at call %u, %s: result %d '%s'", n,
                      fault_name ? fault_name : "none", result, err.message);
        drop_job();
        if (context && model) { /* nothing works any more */
            result = make_job();
            CHECK_MESSAGE(result == DIT_ERROR_DEVICE_LOST && !job, "after a loss at call %u, %s: a job can be made: %d",
                          n, fault_name, result);
        }
    } else {
        CHECK_MESSAGE(result == DIT_OK, "%s", err.message);
    }
    drop_job();
    drop_model();
    drop_context();
    return fault_calls;
}

static void sweep_losses(void) {
    unsigned n, calls = lose_at(0), step = all ? 1 : calls / 3 + 1;
    CHECK(calls > 10);
    for (n = 1; n <= calls; n += step) lose_at(n);
    lose_at(calls);
}

/* A driver that does not tell of a loss: the device takes the last n submissions of a run without running them, and
   every wait for them ends as if they had run. */
static void lose_quietly(unsigned n, uint64_t value) {
    unsigned submissions;
    dit_result result;
    fault_begin(0, VK_SUCCESS);
    CHECK_MESSAGE(make_context() == DIT_OK && make_model() == DIT_OK && make_job() == DIT_OK, "%s", err.message);
    fault_only = "vkQueueSubmit";
    fault_calls = 0;
    CHECK(dit_job_wait(job, UINT64_MAX) == DIT_OK && fault_calls > n);
    submissions = fault_calls;
    fault_begin(0, VK_SUCCESS);
    renew_job();
    fault_begin(submissions - n, VK_ERROR_DEVICE_LOST);
    fault_only = "vkQueueSubmit";
    fault_quiet = value;
    result = dit_job_wait(job, UINT64_MAX);
    CHECK_MESSAGE(fault_lost && result == DIT_ERROR_DEVICE_LOST, "the last %u, timelines at %llu: result %d", n + 1,
                  (unsigned long long)value, result);
    drop_job();
    drop_model();
    drop_context();
}

/* A model whose weights never arrived is not loaded. */
static void lose_quietly_while_loading(void) {
    dit_result result;
    fault_begin(0, VK_SUCCESS);
    CHECK_MESSAGE(make_context() == DIT_OK, "%s", err.message);
    fault_begin(1, VK_ERROR_DEVICE_LOST);
    fault_only = "vkQueueSubmit";
    fault_quiet = UINT64_MAX;
    result = make_model();
    CHECK_MESSAGE(fault_lost && result == DIT_ERROR_DEVICE_LOST, "result %d", result);
    drop_model();
    drop_context();
    fault_begin(0, VK_SUCCESS);
}

/* --- a device that is slow for longer than it is waited for --- */

/* The job is given up with a sentence, and nothing that the device may still use is destroyed with it. */
static void give_up(void) {
    fault_begin(0, VK_SUCCESS);
    CHECK_MESSAGE(make_context() == DIT_OK && make_model() == DIT_OK && make_job() == DIT_OK, "%s", err.message);
    context->device->patience_us = 100000; /* as device_ms=100; what came before may have taken longer */
    fault_gate.shut = true;
    CHECK(make_picture() == DIT_ERROR_DEVICE_LOST);
    CHECK_MESSAGE(strstr(err.message, "has finished nothing for 100 ms"), "%s", err.message);
    drop_job();
    CHECK(make_job() == DIT_ERROR_DEVICE_LOST && !job);
    CHECK(diti_device_keeps(context->device) && context->device->kept);
}

/* The device answers after all: everything that was kept is then destroyed, by the next object that is destroyed or
   with the context. */
static void test_slow(bool before_context) {
    give_up();
    if (before_context) fault_open_gate();
    drop_model();
    CHECK(before_context == !diti_device_keeps(context->device) && before_context == !context->device->kept);
    if (!before_context) fault_open_gate();
    drop_context();
    CHECK_MESSAGE(!fault_gate.semaphore, "the device was not destroyed although it had answered");
}

/* The machine sleeps for an hour, again and again, while the device has something to finish: nobody takes it for lost.
 */
static void test_sleep(void) {
    dit_result result = DIT_WORKING;
    int hour;
    fault_begin(0, VK_SUCCESS);
    CHECK_MESSAGE(make_context() == DIT_OK && make_model() == DIT_OK && make_job() == DIT_OK, "%s", err.message);
    fault_gate.shut = true;
    for (hour = 0; hour < 10 && result == DIT_WORKING; hour++) {
        result = dit_job_step(job, 1000);
        job->watched_us -= 3600000000u;
    }
    dit_job_status(job, NULL, &err);
    CHECK_MESSAGE(result == DIT_WORKING && job->shares[0]->run.flight_count, "result %d, %s", (int)result, err.message);
    fault_open_gate();
    CHECK(make_picture() == DIT_OK);
    drop_job();
    drop_model();
    drop_context();
}

/* The device never answers; a process of its own tests this, and ends as any other. */
static void silent_device(void) {
    __lsan_disable(); /* the kept memory is left on purpose */
    give_up();
    drop_model();
    drop_context();
    CHECK(fault_gate.semaphore); /* the device is still there */
    fflush(stdout);
    exit(test_failed != 0);
}

static void test_silent(void) {
    int status = 1;
    pid_t child = fork();
    if (!child) silent_device();
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    CHECK_MESSAGE(status == 0, "a process with a device that does not answer ended with status %x", (unsigned)status);
}

/* A driver that says too early that a wait has taken too long, while the device works on. Takes the context and the
   model that there are. */
static void test_early_timeout(unsigned n) {
    dit_result result;
    if (!context) CHECK_MESSAGE(make_context() == DIT_OK && make_model() == DIT_OK, "%s", err.message);
    CHECK_MESSAGE(make_job() == DIT_OK, "%s", err.message);
    fault_begin(n, VK_TIMEOUT);
    fault_only = "vkWaitSemaphores";
    result = make_picture();
    CHECK_MESSAGE(result == DIT_OK || result == DIT_ERROR_DEVICE_LOST, "wait %u: %d '%s'", n, result, err.message);
    fault_begin(0, VK_SUCCESS);
    drop_job();
    drop_model();
    drop_context();
}

int main(void) {
    const char *whole = getenv("DIT_TEST_ALL"), *layers = getenv("DIT_TEST_LAYERS");
    all = whole && !strcmp(whole, "1");
    test_silent(); /* before this process has drivers and threads */
    test_vulkan_begin();
    if (layers && !strcmp(layers, "full")) {
        printf("skipped: a slow device (GPU-assisted validation waits for each submission)\n");
    } else {
        test_slow(true);
        test_slow(false);
        test_sleep();
    }
    sweep(stages, VK_ERROR_OUT_OF_DEVICE_MEMORY);
    if (all) sweep(stages, VK_ERROR_OUT_OF_HOST_MEMORY);
    if (all) sweep_wrapped();
    sweep_pipelines(VK_ERROR_OUT_OF_DEVICE_MEMORY);
    test_early_timeout(1);
    if (all) test_early_timeout(2);
    if (all) test_early_timeout(5);
    sweep_losses();
    lose_quietly_while_loading();
    lose_quietly(0, UINT64_MAX);
    lose_quietly(1, UINT64_MAX);
    lose_quietly(0, (uint64_t)1 << 40);
    test_vulkan_end();
    return TEST_END("job_faults");
}
