/* Self-tests and what follows from them: classes of kernels that compute wrong, do not compile or lose the device are
   left out one by one, contexts and jobs go on, what is known is kept in the cache blob, and what an earlier start did
   not survive is avoided. Pictures are those of the next lower kernels, to the byte. Kernels are those for processors,
   on every device: gemm_cpu has halves and none. test-runs: lavapipe, in test-all discrete */
#include "library.h"
#include "vulkan_test.h"
#include "engine.h"
#include <pthread.h>

enum { SIDE = 32 };

/* --- contexts --- */

static char said[16384];

static void log_line(int level, const char *message, void *user) {
    size_t used = strlen(said);
    (void)level, (void)user;
    snprintf(said + used, sizeof said - used, "%s\n", message);
}

/* The mark that the application keeps, and the mark that a crash in the n-th self-test would have left. */
typedef struct keeper {
    unsigned char mark[512], crashed[512];
    size_t size, crashed_size;
    uint32_t told, begun, crash_at;
} keeper;

static void keep(const void *mark, size_t size, void *user) {
    keeper *k = (keeper *)user;
    k->told++;
    if (!CHECK(size <= sizeof k->mark && (size > 0) == (mark != NULL))) return;
    if (size > k->size && ++k->begun == k->crash_at) {
        memcpy(k->crashed, mark, size);
        k->crashed_size = size;
    }
    if (size) memcpy(k->mark, mark, size);
    k->size = size;
}

typedef struct known { /* a cache blob */
    unsigned char bytes[1 << 16];
    size_t size;
} known;

/* Threads that the application lends for pipelines that are compiled together; how many times the last context asked
   for one. */
static uint32_t lends, lent;

typedef struct lent_task {
    void (*run)(void *arg);
    void *arg;
} lent_task;

static void *run_lent(void *arg) {
    lent_task task = *(lent_task *)arg;
    free(arg);
    task.run(task.arg);
    return NULL;
}

static bool lend_thread(void (*run)(void *arg), void *arg, void *user) {
    lent_task *task = (lent_task *)malloc(sizeof *task);
    pthread_t thread;
    (void)user;
    task->run = run;
    task->arg = arg;
    if (lent % (lends + 1) == lends || pthread_create(&thread, NULL, run_lent, task)) { /* all have a task */
        lent++;
        free(task);
        return false;
    }
    pthread_detach(thread);
    lent++;
    return true;
}

static dit_context *open_with(const char *overrides, keeper *k, const known *blob, dit_error *err) {
    dit_context_desc desc = DITI_ZERO;
    dit_context *context = NULL;
    memset(err, 0, sizeof *err);
    said[0] = 0;
    lent = 0;
    if (lends) desc.worker.run = lend_thread;
    desc.overrides = overrides;
    desc.logger.func = log_line;
    desc.logger.max_level = DITI_LOG_INFO;
    if (k) {
        desc.marker.func = keep;
        desc.marker.user = k;
        desc.mark = k->size ? k->mark : NULL;
        desc.mark_size = k->size;
    }
    if (blob) {
        desc.cache = blob->bytes;
        desc.cache_size = blob->size;
    }
    dit_context_create(&desc, &context, err);
    return context;
}

/* The rung that a context has come up with. */
static dit_context *open_good(const char *overrides, keeper *k, const known *blob, const char *rung) {
    dit_error err;
    dit_context *context = open_with(overrides, k, blob, &err);
    dit_device_info info = DITI_ZERO;
    if (!CHECK_MESSAGE(context && dit_context_device(context, &info, &err) == DIT_OK, "%s: %s", overrides, err.message))
        return NULL;
    CHECK_MESSAGE(!strcmp(info.rung, rung), "%s: rung '%s' in place of '%s'", overrides, info.rung, rung);
    return context;
}

/* Pipelines that the last context has compiled ahead, as it told. */
static unsigned compiled_ahead(void) {
    static const char behind[] = " pipelines compiled ahead";
    unsigned all = 0, compiled, wanted;
    const char *at = said;
    while ((at = strstr(at, behind)) != NULL) {
        const char *number = at;
        while (number > said && number[-1] != ':') number--;
        if (CHECK_MESSAGE(sscanf(number, " %u of %u", &compiled, &wanted) == 2, "%s", said)) all += compiled;
        at += sizeof behind - 1;
    }
    return all;
}

static void save(dit_context *context, known *blob) {
    dit_error err = DITI_ZERO;
    blob->size = sizeof blob->bytes;
    CHECK_MESSAGE(dit_context_save_cache(context, blob->bytes, &blob->size, &err) == DIT_OK, "%s", err.message);
}

/* The pixels after a step; the context is destroyed. */
static uint64_t picture(dit_context *context) {
    static unsigned char pixels[SIDE * SIDE * 4];
    dit_model_desc md = DITI_ZERO;
    dit_job_desc jd = DITI_ZERO;
    dit_model *model = NULL;
    dit_job *job = NULL;
    dit_error err = DITI_ZERO;
    memset(pixels, 0, sizeof pixels);
    if (!context) return 0;
    md.source.path = "models/emoji-q8_0.gguf";
    jd.prompt = "banana";
    jd.width = jd.height = SIDE;
    jd.steps = 1;
    CHECK_MESSAGE(dit_model_load(context, &md, &model, &err) == DIT_OK, "%s", err.message);
    jd.model = model;
    CHECK_MESSAGE(model && dit_job_create(context, &jd, &job, &err) == DIT_OK, "%s", err.message);
    if (job && !CHECK(dit_job_wait(job, UINT64_MAX) == DIT_OK)) dit_job_status(job, NULL, &err);
    CHECK_MESSAGE(job && dit_job_read(job, DIT_READ_RGBA8, 0, 0, pixels, sizeof pixels, 0, &err) == DIT_OK, "%s",
                  err.message);
    dit_job_destroy(job);
    dit_model_destroy(model);
    dit_context_destroy(context);
    return diti_hash(pixels, sizeof pixels);
}

/* --- what is proved once --- */

static void test_once(void) {
    static known blob;
    keeper k = DITI_ZERO;
    dit_context *context = open_good("rung=fp16,cpu=1", &k, NULL, "fp16");
    if (!context) return;
    CHECK_MESSAGE(k.begun >= 1 && k.size == 0, "%u self-tests were marked, %zu bytes are left", k.begun, k.size);
    CHECK(context->device->pipelines_compiled > 0 && context->device->submits > 0);
    CHECK_MESSAGE(!compiled_ahead(), "without threads something is compiled ahead: %s", said);
    save(context, &blob);
    dit_context_destroy(context);
    k.told = 0;
    context = open_good("rung=fp16,cpu=1", &k, &blob, "fp16");
    if (!context) return;
    CHECK_MESSAGE(!context->device->pipelines_compiled && !context->device->submits && !k.told,
                  "a second start compiled %llu pipelines and submitted %llu times",
                  (unsigned long long)context->device->pipelines_compiled,
                  (unsigned long long)context->device->submits);
    CHECK(context->device->speed.us_per_gflop > 0 && context->device->calibrated);
    dit_context_destroy(context);
    context = open_good("rung=fp16,guards=0,cpu=1", &k, &blob, "fp16"); /* other overrides may make other kernels */
    if (context) CHECK(context->device->submits > 0 && k.told > 0);
    dit_context_destroy(context);
    context = open_good("rung=fp16,selftest_fail=fp16,cpu=1", &k, NULL, "base, no fp16");
    if (!context) return;
    CHECK_MESSAGE(strstr(said, "fails the self-test of fp16: it computes wrong"), "%s", said);
    save(context, &blob);
    dit_context_destroy(context);
    k.begun = 0;
    context = open_good("rung=fp16,selftest_fail=fp16,cpu=1", &k, &blob, "base, no fp16");
    CHECK_MESSAGE(k.begun == 0, "what failed is tried again");
    dit_context_destroy(context);
}

/* --- pipelines that are compiled ahead, where threads are lent --- */

/* Self-tests that all pass compile nothing beside what was compiled ahead. */
static void test_ahead_is_all(const char *overrides, const char *rung) {
    dit_context *context;
    lends = 2;
    context = open_good(overrides, NULL, NULL, rung);
    lends = 0;
    if (context)
        CHECK_MESSAGE(lent > 0 && compiled_ahead() > 1 && compiled_ahead() == context->device->pipelines_compiled,
                      "%s: %u threads were lent, and %u of %u pipelines compiled ahead", overrides, lent,
                      compiled_ahead(), (unsigned)context->device->pipelines_compiled);
    dit_context_destroy(context);
}

static void test_ahead_once(void) {
    static known blob;
    keeper k = DITI_ZERO;
    dit_context *context = open_good("rung=half,cpu=1", &k, NULL, "half");
    if (context) save(context, &blob);
    dit_context_destroy(context);
    CHECK_MESSAGE(k.size == 0 && compiled_ahead() > 0, "%zu bytes of a mark are left; %s", k.size, said);
    memset(&k, 0, sizeof k);
    context = open_good("rung=half,cpu=1", &k, &blob, "half");
    CHECK_MESSAGE(!lent && !k.told && !compiled_ahead(), "what is known is compiled ahead: %s", said);
    dit_context_destroy(context);
}

/* A pipeline that does not compile leaves its class out as ever, and the others are compiled ahead. An override that
   counts pipelines means the order of self-tests. */
static void test_ahead_fails(void) {
    dit_error err;
    dit_context *context = open_good("rung=half,cpu=1", NULL, NULL, "half");
    unsigned others = compiled_ahead();
    size_t i;
    for (i = 0; context && i < context->device->pipeline_count; i++)
        others -= context->device->pipelines[i]->kernel == DITI_KERNEL_ATTENTION_HALF;
    dit_context_destroy(context);
    context = open_good("rung=half,fail_pipeline=attention_half,cpu=1", NULL, NULL, "half, no half_attention");
    CHECK_MESSAGE(compiled_ahead() == others && others > 1 && lent > 0 && strstr(said, "cannot compile attention_half"),
                  "%u others: %s", others, said);
    if (context) CHECK(context->device->dropped == DITI_CLASS_BIT(DITI_CLASS_HALF_ATTENTION));
    dit_context_destroy(context);
    context = open_good("rung=half,selftest_fail=half,cpu=1", NULL, NULL, "fp16, no half");
    CHECK_MESSAGE(compiled_ahead() > 1 && strstr(said, "it computes wrong"), "%s", said);
    dit_context_destroy(context);
    context = open_with("rung=half,fail_pipeline=1,cpu=1", NULL, NULL, &err);
    CHECK_MESSAGE(!context && !lent && !compiled_ahead(), "%s", said);
    dit_context_destroy(context);
}

/* A crash in the driver's compiler throws no class out: the next start compiles one after the other, and then the class
   has its own mark. */
static void test_ahead_crash(void) {
    keeper k = DITI_ZERO;
    dit_context *context;
    unsigned char mark[512];
    size_t size;
    k.crash_at = 1;
    dit_context_destroy(open_good("rung=half,cpu=1", &k, NULL, "half"));
    if (!CHECK(k.crashed_size > 0)) return;
    size = k.crashed_size;
    memcpy(mark, k.crashed, size);
    memset(&k, 0, sizeof k);
    memcpy(k.mark, mark, k.size = size);
    k.crash_at = 1;
    context = open_good("rung=half,cpu=1", &k, NULL, "half");
    CHECK_MESSAGE(!lent && !compiled_ahead(), "what an earlier start did not survive is tried again: %s", said);
    CHECK_MESSAGE(k.size == size && !memcmp(k.mark, mark, size), "the mark is not kept");
    dit_context_destroy(context);
    if (!CHECK(k.begun > 0 && k.crashed_size > size)) return;
    memcpy(k.mark, k.crashed, k.size = k.crashed_size); /* the second start crashed, too, in its first class */
    dit_context_destroy(open_good("rung=half,cpu=1", &k, NULL, "fp16, no half"));
    CHECK_MESSAGE(!lent && strstr(said, "an earlier start did not survive it"), "%s", said);
    memset(&k, 0, sizeof k);
    k.crash_at = 2; /* the first class itself */
    dit_context_destroy(open_good("rung=half,cpu=1", &k, NULL, "half"));
    memcpy(k.mark, k.crashed, k.size = k.crashed_size);
    dit_context_destroy(open_good("rung=half,cpu=1", &k, NULL, "fp16, no half"));
    CHECK_MESSAGE(lent > 0 && compiled_ahead() > 1, "the mark of a class ends compiling ahead: %s", said);
}

/* The device is opened again, with all classes; the application's own cannot be. */
static void test_ahead_loss(void) {
    static engine e;
    keeper k = DITI_ZERO;
    dit_context_desc desc = DITI_ZERO;
    dit_context *context = NULL;
    dit_error err = DITI_ZERO;
    dit_context_destroy(open_good("rung=half,selftest_lose=ahead,cpu=1", &k, NULL, "half"));
    CHECK_MESSAGE(lent > 0 && k.size > 0 && !compiled_ahead(), "a lost device leaves no mark: %s", said);
    dit_context_destroy(open_good("rung=half,selftest_lose=ahead,cpu=1", &k, NULL, "half"));
    CHECK_MESSAGE(!lent && k.size > 0, "the mark is not enough: %s", said);
    dit_context_destroy(open_good("rung=half,selftest_lose=half,cpu=1", NULL, NULL, "fp16, no half"));
    if (!engine_make_instance(&e) || !engine_make_device(&e, true)) return;
    desc.vulkan = &e.handover;
    desc.vulkan_count = 1;
    desc.worker.run = lend_thread;
    desc.overrides = "rung=half,selftest_lose=ahead,cpu=1";
    CHECK(dit_context_create(&desc, &context, &err) == DIT_ERROR_DEVICE_LOST && !context);
    CHECK_MESSAGE(strstr(err.message, "self-test"), "%s", err.message);
    engine_end(&e);
}

static void test_ahead(void) {
    test_ahead_is_all("rung=half,cpu=1", "half");
    lends = 1;
    test_ahead_once();
    test_ahead_fails();
    test_ahead_crash();
    test_ahead_loss();
    lends = 0;
}

static void test_skip(void) {
    keeper k = DITI_ZERO;
    dit_context *context = open_good("rung=half,selftest=skip,selftest_fail=half,cpu=1", &k, NULL, "half");
    if (!context) return;
    CHECK(!context->device->pipelines_compiled && !context->device->submits && !k.told);
    dit_context_destroy(context);
}

/* --- a device that is lost --- */

static void test_loss(uint64_t fp16) {
    static known blob;
    keeper k = DITI_ZERO;
    dit_error err;
    dit_context *context = open_good("rung=half,selftest_lose=half,cpu=1", &k, NULL, "fp16, no half");
    CHECK_MESSAGE(k.size > 0, "a lost device leaves no mark");
    CHECK_MESSAGE(strstr(said, "fails the self-test of half: it lost the device"), "%s", said);
    if (context) save(context, &blob);
    CHECK(picture(context) == fp16);
    k.begun = 0;
    context = open_good("rung=half,selftest_lose=half,cpu=1", &k, NULL, "fp16, no half"); /* the mark is enough */
    CHECK_MESSAGE(k.begun <= 1 && strstr(said, "an earlier start did not survive it"), "%s", said);
    dit_context_destroy(context);
    context = open_good("rung=half,selftest_lose=half,cpu=1", NULL, &blob, "fp16, no half"); /* the blob serves, too */
    if (context) CHECK(!strstr(said, "it lost the device"));
    dit_context_destroy(context);
    memset(&k, 0, sizeof k);
    dit_context_destroy(open_good("rung=fp16,fail_submit=2,cpu=1", &k, NULL, "base, no fp16"));
    context = open_with("rung=base,fail_submit=2,cpu=1", &k, NULL, &err); /* below there is nothing */
    CHECK(!context && err.result == DIT_ERROR_DEVICE_LOST && err.message[0]);
}

/* Two devices of one instance: the first one, which the other one shares the instance of, is opened again. */
static void test_loss_of_several(void) {
    dit_context_desc desc = DITI_ZERO;
    dit_context *context = NULL;
    dit_error err = DITI_ZERO;
    desc.devices = "0,0";
    desc.overrides = "rung=fp16,selftest_lose=fp16,cpu=1";
    if (!CHECK_MESSAGE(dit_context_create(&desc, &context, &err) == DIT_OK, "%s", err.message)) return;
    CHECK(context->device_count == 2 && context->device == context->devices[0]);
    CHECK(!strcmp(context->devices[0]->info.rung, "base, no fp16"));
    CHECK(!strcmp(context->devices[1]->info.rung, "base, no fp16"));
    dit_context_destroy(context);
}

/* The application's own device cannot be opened again. */
static void test_loss_of_engine(void) {
    static engine e;
    dit_context_desc desc = DITI_ZERO;
    dit_context *context = NULL;
    dit_error err = DITI_ZERO;
    if (!engine_make_instance(&e) || !engine_make_device(&e, true)) return;
    desc.vulkan = &e.handover;
    desc.vulkan_count = 1;
    desc.overrides = "rung=fp16,selftest_lose=fp16,cpu=1";
    CHECK(dit_context_create(&desc, &context, &err) == DIT_ERROR_DEVICE_LOST && !context);
    CHECK_MESSAGE(strstr(err.message, "overrides") && strstr(err.message, "self-test"), "%s", err.message);
    engine_end(&e);
}

/* --- a crash, and what the application hands over after it --- */

static void test_crash(void) {
    static known blob;
    keeper k = DITI_ZERO;
    dit_context *context;
    unsigned char mark[512];
    size_t size, i;
    k.crash_at = 1;
    context = open_good("rung=fp16,cpu=1", &k, NULL, "fp16");
    if (context) save(context, &blob);
    dit_context_destroy(context);
    if (!CHECK(k.crashed_size > 0)) return;
    size = k.crashed_size;
    memcpy(mark, k.crashed, size);
    memset(&k, 0, sizeof k);
    memcpy(k.mark, mark, k.size = size); /* the process ended there: this is what the next one finds */
    dit_context_destroy(open_good("rung=fp16,cpu=1", &k, NULL, "base, no fp16"));
    CHECK_MESSAGE(k.begun == 0 && k.size == size && !memcmp(k.mark, mark, size), "the mark is not kept");
    dit_context_destroy(open_good("rung=fp16,cpu=1", &k, &blob, "base, no fp16")); /* whatever was known before */
    for (i = 0; i < size; i++) { /* damaged in any way, it is some other mark, or none */
        memcpy(k.mark, mark, k.size = size);
        k.mark[i] ^= 0x55;
        if (i % 9 == 0) dit_context_destroy(open_good("rung=fp16,cpu=1", &k, NULL, "fp16"));
    }
    for (i = 1; i < size; i += 6) {
        memcpy(k.mark, mark, size);
        k.size = i;
        dit_context_destroy(open_good("rung=fp16,cpu=1", &k, NULL, "fp16"));
    }
    for (i = 0; i < 2; i++) { /* marks of other drivers do not pile up for ever */
        uint32_t words[2] = {0x6d746964u, DITI_MAX_MARKS + (uint32_t)i};
        memcpy(k.mark, words, sizeof words);
        k.size = sizeof words + words[1] * sizeof(uint64_t);
        for (size_t j = sizeof words; j < k.size; j++) k.mark[j] = (unsigned char)j;
        dit_context_destroy(open_good("rung=fp16,cpu=1", &k, NULL, "fp16"));
        CHECK_MESSAGE(k.size == (i ? 0 : sizeof words + (DITI_MAX_MARKS - 1) * sizeof(uint64_t)), "%zu", k.size);
    }
}

/* --- pipelines that do not compile --- */

static void test_compile(uint64_t fp16, uint64_t base) {
    dit_context *context = open_good("rung=half,selftest=skip,fail_pipeline=gemm_half,cpu=1", NULL, NULL, "half");
    dit_context *wrong;
    dit_error err;
    uint64_t hash = picture(context);
    CHECK_MESSAGE(hash == fp16, "without gemm_half the picture is not that of rung fp16");
    CHECK_MESSAGE(strstr(said, "does without half") && strstr(said, "gemm_half"), "%s", said);
    hash = picture(open_good("rung=fp16,selftest=skip,fail_pipeline=gemm_cpu:1=1,cpu=1", NULL, NULL, "fp16"));
    CHECK_MESSAGE(hash == base, "without halves the picture is not that of rung base");
    dit_context_destroy(
        open_good("rung=fp16,fail_pipeline=gemm_half,cpu=1", NULL, NULL, "fp16")); /* it is not used there */
    dit_context_destroy(open_good("rung=half,fail_pipeline=gemm_half,cpu=1", NULL, NULL, "fp16, no half"));
    CHECK_MESSAGE(strstr(said, "cannot compile gemm_half"), "%s", said);
    wrong = open_with("rung=fp16,fail_pipeline=gemm_cpu,cpu=1", NULL, NULL, &err);
    CHECK_MESSAGE(!wrong && err.result == DIT_ERROR_VULKAN && strstr(err.message, "gemm_cpu"), "%s", err.message);
}

/* Products by broadcasts, as Intel's GPUs without matrices have them, are a class of their own: without it others take
   their place. */
static void test_broadcast(void) {
    static const char *const wrong[] = {"selftest_fail=broadcast", "fail_pipeline=gemm_broadcast"};
    static const char *const attention[] = {"selftest_fail=broadcast_attention", "fail_pipeline=attention_broadcast"};
    dit_context *context = open_good("rung=half,cpu=0,portions=0", NULL, NULL, "half");
    size_t i;
    if (context) CHECK(context->device->team == context->device->limits.subgroup_size);
    dit_context_destroy(context);
    for (i = 0; i < DITI_COUNT(wrong); i++) {
        char overrides[80];
        snprintf(overrides, sizeof overrides, "rung=half,cpu=0,portions=0,%s", wrong[i]);
        context = open_good(overrides, NULL, NULL, "half, no broadcast");
        if (context) CHECK(!context->device->team);
        CHECK_MESSAGE(strstr(said, "fails the self-test of broadcast"), "%s", said);
        dit_context_destroy(context);
    }
    for (i = 0; i < DITI_COUNT(attention); i++) {
        char overrides[80];
        snprintf(overrides, sizeof overrides, "rung=fp16,cpu=0,portions=0,%s", attention[i]);
        context = open_good(overrides, NULL, NULL, "fp16, no broadcast_attention");
        if (context) CHECK(context->device->team && !context->device->attention_team);
        dit_context_destroy(context);
    }
}

/* Makes a job and says what the device is then. */
static void plan_only(dit_context *context, dit_device_info *info) {
    dit_model_desc md = DITI_ZERO;
    dit_job_desc jd = DITI_ZERO;
    dit_model *model = NULL;
    dit_job *job = NULL;
    dit_error err = DITI_ZERO;
    md.source.path = "models/emoji-q8_0.gguf";
    jd.prompt = "fox";
    jd.width = jd.height = SIDE;
    jd.steps = 1;
    CHECK_MESSAGE(dit_model_load(context, &md, &model, &err) == DIT_OK, "%s", err.message);
    jd.model = model;
    CHECK_MESSAGE(dit_job_create(context, &jd, &job, &err) == DIT_OK && !err.message[0], "%s", err.message);
    CHECK(dit_context_device(context, info, &err) == DIT_OK);
    dit_job_destroy(job);
    dit_model_destroy(model);
}

/* A job learns it, and then the next start knows it. */
static void test_compile_is_remembered(void) {
    static known blob;
    const char *overrides = "rung=half,selftest=skip,fail_pipeline=gemm_half,cpu=1";
    dit_context *context = open_good(overrides, NULL, NULL, "half");
    dit_device_info info;
    if (!context) return;
    plan_only(context, &info);
    CHECK_MESSAGE(!strcmp(info.rung, "fp16, no half"), "rung '%s'", info.rung);
    save(context, &blob);
    CHECK(diti_proof_find(context->device, DITI_CLASS_HALF) == DITI_PROOF_BAD);
    dit_context_destroy(context);
    context = open_good(overrides, NULL, &blob, "half");
    if (context) CHECK(diti_proof_find(context->device, DITI_CLASS_HALF) == DITI_PROOF_BAD);
    dit_context_destroy(context);
}

/* --- everything that GPUs compute, on kernels for GPUs --- */

static void test_probes(const char *overrides) {
    static const uint32_t dims[] = {64, 72, 128};
    dit_error err;
    dit_context *context = open_with(overrides, NULL, NULL, &err);
    diti_device *device;
    bool agrees;
    int i, i8;
    if (!context) {
        CHECK_MESSAGE(strstr(err.message, "has not what rung"), "%s: %s", overrides, err.message);
        return;
    }
    device = context->device;
    for (i = DITI_PROBE_PLAIN; i <= DITI_PROBE_CONV; i++)
        for (i8 = 0; i8 <= (i < DITI_PROBE_CONV); i8++) {
            dit_result result =
                diti_probe_product(device, (diti_probe)i, i8 ? DIT_TYPE_I8_ROW : DIT_TYPE_STORED, &agrees, &err);
            CHECK_MESSAGE(result == DIT_OK && agrees, "%s: probe %d of %s", overrides, i, i8 ? "int8" : "floats");
        }
    for (i = 0; i < 3; i++)
        for (i8 = 0; i8 <= (diti_attention_int8_head(device, dims[i]) > 0); i8++) {
            dit_result result = diti_probe_attention(device, i8, dims[i], &agrees, &err);
            CHECK_MESSAGE(result == DIT_OK && agrees, "%s: attention of %u", overrides, dims[i]);
        }
    dit_context_destroy(context);
}

/* Convolutions, attention or all products leave the matrices; needs a driver that has them (way `newest`), where a
   picture on rung half takes too long: of that one the job is only made. */
static void test_matrices(void) {
    static const char *const fails[] = {"gemm_coop:9=1", "attention_coop", "attention_direct", "gemm_coop:22=8"};
    static const diti_class drops[] = {DITI_CLASS_COOP_CONV, DITI_CLASS_COOP_ATTENTION, DITI_CLASS_COOP_ATTENTION,
                                       DITI_CLASS_COOP_PAIRS};
    static const unsigned layouts[] = {0, 0, 7, DITI_LAYOUT_PAIRS};
    dit_device_info info = DITI_ZERO;
    dit_context *failing, *without;
    char overrides[96];
    dit_error err;
    int i;
    for (i = 0; i < 4; i++) {
        snprintf(overrides, sizeof overrides, "rung=coop,layout=%u,selftest=skip,fail_pipeline=%s", layouts[i],
                 fails[i]);
        failing = open_with(overrides, NULL, NULL, &err);
        if (!CHECK_MESSAGE(failing, "%s", err.message)) return;
        without = open_good("rung=coop,selftest=skip", NULL, NULL, "coop");
        if (!without) return;
        diti_class_drop(without->device, drops[i]);
        CHECK_MESSAGE(picture(failing) == picture(without), "%s", overrides);
    }
    /* Threads of these drivers do not hold pairs as they are told: products tell. */
    snprintf(overrides, sizeof overrides, "rung=coop,layout=%u", DITI_LAYOUT_PAIRS);
    dit_context_destroy(open_good(overrides, NULL, NULL, "coop, no coop_pairs"));
    CHECK_MESSAGE(strstr(said, "fails the self-test of coop_pairs: it computes wrong"), "%s", said);
    failing = open_good("rung=coop,selftest=skip,fail_pipeline=gemm_coop", NULL, NULL, "coop");
    if (!failing) return;
    plan_only(failing, &info);
    CHECK_MESSAGE(diti_starts_with(info.rung, "half, no coop"), "rung '%s'", info.rung);
    dit_context_destroy(failing);
}

int main(void) {
    const bool sweep = getenv("DIT_TEST_ALL") && !strcmp(getenv("DIT_TEST_ALL"), "1");
    const char *way = getenv("DIT_TEST_WAY");
    dit_error err;
    dit_context *context;
    test_vulkan_begin();
    context = open_with("rung=fp16,cpu=1", NULL, NULL, &err);
    if (context) {
        uint64_t fp16 = picture(context), base = picture(open_good("rung=base,cpu=1", NULL, NULL, "base"));
        CHECK(fp16 && base && fp16 != base);
        test_once();
        test_ahead();
        test_skip();
        test_loss(fp16);
        test_loss_of_several();
        test_loss_of_engine();
        test_crash();
        test_compile(fp16, base);
        test_compile_is_remembered();
        test_probes("rung=fp16,selftest=skip,cpu=1");
    } else {
        CHECK_MESSAGE(strstr(err.message, "has not what rung"), "%s", err.message);
        printf("skipped: self-tests above the base rung (the device has no fp16)\n");
    }
    if (sweep) {
        test_broadcast(); /* LLVM takes half a minute; make test has the kernels' values in tests/graph/kernels.c */
        test_probes("rung=half,dot=1,cpu=0,selftest=skip");
        if (way && !strcmp(way, "lavapipe")) test_ahead_is_all("rung=half,cpu=0", "half");
        if (way && !strcmp(way, "newest")) {
            test_ahead_is_all("rung=coop", "coop");
            test_probes("rung=coop,selftest=skip");
            test_matrices();
        }
    }
    test_vulkan_end();
    return TEST_END("selftest");
}
