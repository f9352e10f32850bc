/* Memory that runs out: every allocation call site fails once, and the first 200 allocations in order (all of them with
 * DIT_TEST_ALL=1), in everything from opening a context to reading the picture. Each such run must end in an error and
 * leave nothing behind. Device memory through the device allocator and the creation of pipelines fail in the same way.
 * test-runs: lavapipe sanitize, in test-all swiftshader */
#define _GNU_SOURCE
#include "library.h"
#include "vulkan_test.h"
#include "engine.h"
#include <execinfo.h>

#define MODEL "tests/fixtures/pipe_pixart_sigma" /* two blocks */
enum { SIDE = 32, BYTES = SIDE * SIDE * 4, FIRST = 200, MAX_CALLS = 100000, FRAMES = 12 };

/* ---- An allocator that fails on demand and knows who called ---- */

static struct {
    long calls, fail_at, live;
    bool failed, record;
    uint64_t sites[MAX_CALLS]; /* the site of call i, while record is set */
    long site_count;
} host;

/* A call site is the chain of callers. */
static uint64_t call_site(void) {
    void *frames[FRAMES];
    int count = backtrace(frames, FRAMES), i;
    uint64_t hash = 14695981039346656037u;
    for (i = 1; i < count; i++) hash = (hash ^ (uint64_t)(uintptr_t)frames[i]) * 1099511628211u;
    return hash;
}

static void *host_alloc(size_t size, size_t align, void *user) {
    void *memory = NULL;
    (void)user;
    if (host.record && host.calls < MAX_CALLS) host.sites[host.site_count++] = call_site();
    if (++host.calls == host.fail_at) return host.failed = true, NULL;
    if (posix_memalign(&memory, align < sizeof(void *) ? sizeof(void *) : align, size ? size : 1) != 0) return NULL;
    memset(memory, 0xcd, size);
    host.live++;
    return memory;
}

static void host_free(void *memory, size_t size, void *user) {
    (void)user;
    memset(memory, 0xdd, size);
    free(memory);
    host.live--;
}

/* ---- Everything that can fail, piece by piece; each piece begins with what the pieces before it have made ---- */

static engine *app; /* NULL: dit's own device */
static dit_context *ctx;
static dit_model *model;
static dit_job *job;
static dit_error err;
static bool by_need; /* the model's matrices are read when its first job is made */

static dit_job_desc describe(void) {
    dit_job_desc desc = {0};
    desc.model = model;
    desc.prompt = "a red heart";
    desc.width = desc.height = SIDE;
    desc.steps = 2;
    desc.preview_interval = 1;
    return desc;
}

static dit_result do_context(void) {
    dit_context_desc desc = {0};
    desc.allocator.alloc = host_alloc;
    desc.allocator.free = host_free;
    desc.overrides = "rung=base,gflop_ns=100000000"; /* one compilation of the self-test */
    if (app) {
        desc.vulkan = &app->handover;
        desc.vulkan_count = 1;
        desc.device_allocator.alloc = engine_alloc;
        desc.device_allocator.free = engine_free;
        desc.device_allocator.user = app;
    }
    return dit_context_create(&desc, &ctx, &err);
}
static void undo_context(void) { dit_context_destroy(ctx), ctx = NULL; }

static dit_result do_model(void) {
    dit_model_desc desc = {0};
    desc.source.path = MODEL;
    desc.weights_by_need = by_need;
    return dit_model_load(ctx, &desc, &model, &err);
}
static void undo_model(void) { dit_model_destroy(model), model = NULL; }

static dit_result do_encode(void) {
    static unsigned char blob[1 << 20];
    size_t size = sizeof blob;
    return dit_encode_prompt(ctx, model, "two words", blob, &size, &err);
}
static void undo_nothing(void) {}

static dit_result do_memory(void) {
    dit_memory memory;
    dit_job_desc desc = describe();
    return dit_job_memory(ctx, &desc, &memory, &err);
}

static dit_result do_job(void) {
    dit_job_desc desc = describe();
    return dit_job_create(ctx, &desc, &job, &err);
}
static void undo_job(void) { dit_job_destroy(job), job = NULL; }

/* The first job of a model, whose loading succeeds. */
static dit_result do_first_job(void) {
    const long at = host.fail_at;
    dit_result result;
    host.fail_at = 0;
    result = do_model();
    host.calls = host.site_count = 0;
    host.fail_at = at;
    if (result == DIT_OK) result = do_job();
    if (result < 0) undo_model();
    return result;
}
static void undo_first_job(void) { undo_job(), undo_model(); }

static dit_result do_run(void) {
    unsigned char rgba[BYTES];
    static float rgb[SIDE * SIDE * 3];
    dit_job_desc desc = describe();
    dit_result result = dit_job_restart(job, &desc, &err);
    if (result == DIT_OK) result = dit_job_wait(job, UINT64_MAX);
    if (result < 0 && err.result == DIT_OK) dit_job_status(job, NULL, &err);
    if (result == DIT_OK) result = dit_job_read(job, DIT_READ_RGBA8, 0, 0, rgba, sizeof rgba, 0, &err);
    if (result == DIT_OK) result = dit_job_read(job, DIT_READ_RGB_F32, 0, 0, rgb, sizeof rgb, 0, &err);
    return result;
}

typedef struct piece {
    const char *name;
    dit_result (*run)(void);
    void (*undo)(void);
    const void *made; /* pointer that must be NULL after a failure */
} piece;

static const piece pieces[] = {
    {"context", do_context, undo_context, &ctx},
    {"model", do_model, undo_model, &model},
    {"prompt", do_encode, undo_nothing, NULL},
    {"memory question", do_memory, undo_nothing, NULL},
    {"job", do_job, undo_job, &job},
    {"run", do_run, undo_nothing, NULL},
};
enum { PIECES = sizeof pieces / sizeof pieces[0] };
static const piece first_job = {"first job", do_first_job, undo_first_job, &job};

/* ---- Host memory ---- */

static void fail_one(const piece *p, long at) {
    long live = host.live;
    dit_result result;
    host.calls = 0;
    host.failed = false;
    host.fail_at = at;
    memset(&err, 0, sizeof err);
    result = p->run();
    host.fail_at = 0;
    if (!CHECK_MESSAGE(host.failed, "%s: there is no allocation %ld", p->name, at)) return p->undo();
    CHECK_MESSAGE(result < 0, "%s: allocation %ld failed and nobody noticed", p->name, at);
    CHECK_MESSAGE(result >= 0 || (err.result == result && err.message[0]), "%s: allocation %ld: no message", p->name,
                  at);
    if (result >= 0) p->undo();
    if (p->made) CHECK_MESSAGE(!*(void *const *)p->made, "%s: allocation %ld: something is left in out", p->name, at);
    CHECK_MESSAGE(host.live == live, "%s: allocation %ld leaves %ld blocks behind", p->name, at, host.live - live);
}

static bool seen_before(long index) {
    long i;
    for (i = 0; i < index; i++) {
        if (host.sites[i] == host.sites[index]) return true;
    }
    return false;
}

/* Runs a piece once to warm up (compiled pipelines stay with the context) and once to learn its call sites; its
 * allocations number from 1 + first in the whole. */
static long sweep_host(const piece *p, long first, bool all) {
    long count, i, live, tried = 0;
    host.calls = host.fail_at = host.site_count = 0;
    CHECK_MESSAGE(p->run() == DIT_OK, "%s: %s", p->name, err.message);
    p->undo();
    live = host.live;
    host.calls = 0;
    host.record = true;
    CHECK_MESSAGE(p->run() == DIT_OK, "%s: %s", p->name, err.message);
    host.record = false;
    count = host.site_count;
    p->undo();
    CHECK_MESSAGE(host.live == live, "%s leaves %ld blocks behind", p->name, host.live - live);
    for (i = 0; i < count; i++) {
        if (!all && first + i >= FIRST && seen_before(i)) continue;
        fail_one(p, i + 1);
        tried++;
    }
    printf("%s: %ld of %ld allocations failed\n", p->name, tried, count);
    return count;
}

/* A restart that found no memory has the picture of the run before, or none: never one of both requests. */
static void test_failed_restart(void) {
    static unsigned char before[BYTES], now[BYTES];
    dit_job_desc desc = describe(), other = describe();
    dit_result result = DIT_WORKING;
    dit_status status;
    long at, kept = 0, failed = 0;
    other.prompt = "a blue cat";
    other.guidance.scale = 7;
    other.seed = 2;
    for (at = 1; result != DIT_OK; at++) {
        if (!CHECK(dit_job_restart(job, &desc, &err) == DIT_OK && dit_job_wait(job, UINT64_MAX) == DIT_OK)) return;
        CHECK(dit_job_read(job, DIT_READ_RGBA8, 0, 0, before, BYTES, 0, &err) == DIT_OK);
        host.calls = 0;
        host.fail_at = at;
        result = dit_job_restart(job, &other, &err);
        host.fail_at = 0;
        if (result == DIT_OK) continue;
        dit_job_status(job, &status, NULL);
        if (status.result == DIT_OK) {
            CHECK(dit_job_wait(job, UINT64_MAX) == DIT_OK &&
                  dit_job_read(job, DIT_READ_RGBA8, 0, 0, now, BYTES, 0, &err) == DIT_OK &&
                  !memcmp(before, now, BYTES));
            kept++;
        } else {
            CHECK_MESSAGE(status.result == DIT_ERROR_OUT_OF_HOST_MEMORY && dit_job_wait(job, UINT64_MAX) < 0 &&
                              dit_job_read(job, DIT_READ_RGBA8, 0, 0, now, BYTES, 0, &err) < 0,
                          "allocation %ld: the job goes on", at);
            failed++;
        }
    }
    CHECK_MESSAGE(kept > 5 && failed > 2, "%ld restarts left the job, %ld failed it", kept, failed);
}

static void test_host_memory(bool all) {
    long total = 0;
    int i;
    for (i = 0; i < PIECES; i++) {
        total += sweep_host(&pieces[i], total, all);
        host.calls = 0;
        CHECK(pieces[i].run() == DIT_OK);
    }
    CHECK_MESSAGE(total > 50, "only %ld allocations", total);
    test_failed_restart();
    undo_job();
    undo_model();
    by_need = true;
    sweep_host(&first_job, total, all);
    by_need = false;
    undo_context();
    CHECK_MESSAGE(host.live == 0, "%ld blocks are left", host.live);
}

/* ---- Device memory ---- */

static void fail_device(const piece *p, uint64_t at) {
    uint64_t live = app->live, bytes = app->allocated;
    dit_result result;
    app->calls = 0;
    app->fail_at = at;
    memset(&err, 0, sizeof err);
    result = p->run();
    app->fail_at = 0;
    CHECK_MESSAGE(result == DIT_ERROR_OUT_OF_DEVICE_MEMORY && err.result == result, "%s: device allocation %llu: %s %s",
                  p->name, (unsigned long long)at, dit_result_string(result), err.message);
    if (result >= 0) p->undo();
    CHECK_MESSAGE(app->live == live && app->allocated == bytes, "%s: device allocation %llu leaves memory behind",
                  p->name, (unsigned long long)at);
}

static void test_device_memory(void) {
    uint64_t count, total = 0, i;
    int k;
    app = (engine *)calloc(1, sizeof *app);
    if (!engine_make_instance(app) || !engine_make_device(app, true)) return;
    for (k = 0; k < PIECES; k++) {
        app->calls = 0;
        CHECK_MESSAGE(pieces[k].run() == DIT_OK, "%s: %s", pieces[k].name, err.message);
        total += count = app->calls;
        pieces[k].undo();
        for (i = 1; i <= count; i++) fail_device(&pieces[k], i);
        CHECK(pieces[k].run() == DIT_OK);
    }
    CHECK_MESSAGE(total >= 5, "only %llu device allocations", (unsigned long long)total);
    printf("%llu device allocations failed\n", (unsigned long long)total);
    undo_job();
    undo_model();
    undo_context();
    engine_end(app);
    free(app);
    app = NULL;
    CHECK(host.live == 0);
}

/* ---- Pipelines ---- */

static void test_pipelines(void) {
    int n, failures = 0;
    for (n = 1; n <= 4; n++) {
        char text[80];
        dit_context_desc desc = {0};
        dit_result result;
        snprintf(text, sizeof text, "rung=base,gflop_ns=100000000,fail_pipeline=%d", n);
        desc.allocator.alloc = host_alloc;
        desc.allocator.free = host_free;
        desc.overrides = text;
        memset(&err, 0, sizeof err);
        result = dit_context_create(&desc, &ctx, &err);
        if (result == DIT_OK) result = do_model();
        if (result == DIT_OK) result = do_job();
        CHECK_MESSAGE(result < 0 && err.message[0], "pipeline %d failed and nobody noticed", n);
        failures += result < 0;
        undo_job();
        undo_model();
        undo_context();
        CHECK_MESSAGE(host.live == 0, "pipeline %d: %ld blocks are left", n, host.live);
    }
    CHECK(failures == 4);
}

int main(void) {
    const char *all = getenv("DIT_TEST_ALL"), *way = getenv("DIT_TEST_WAY");
    bool sweep = all && strcmp(all, "1") == 0;
    test_vulkan_begin();
    /* The host's own memory is the same on every driver, and SwiftShader compiles all pipelines again each time. */
    if (sweep || !way || strcmp(way, "swiftshader")) test_host_memory(sweep);
    test_device_memory();
    test_pipelines();
    test_vulkan_end();
    return TEST_END("faults");
}
