/* The contract printed at the top of dit.h, as far as it is about the program around dit: its threads, cancelling and
   progress, hooks for memory, logs and threads, lifetimes, sources behind callbacks, the cache blob, a device that is
   lost, and a Vulkan device of its own. contract.c has requests and results.
   test-runs: lavapipe sanitize, in test-all swiftshader */
#define _GNU_SOURCE
#include "shared_job.h"
#include "engine.h"
#include <pthread.h>
#include <time.h>

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
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

static bool lend_none(void (*task)(void *arg), void *arg, void *user) {
    (void)task, (void)arg;
    ++*(int *)user;
    return false;
}

/* Threads that a worker lends compile first, which is cancelled like the tests behind it. */
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
            desc.worker.run = lend_none;
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
} lent_task;

static void *run_lent(void *arg) {
    lent_task t = *(lent_task *)arg;
    free(arg);
    t.task(t.arg);
    return NULL;
}

/* Runs the task on a thread of its own, which nobody waits for. */
static bool begin_lent(void (*task)(void *arg), void *arg) {
    lent_task *t = (lent_task *)malloc(sizeof *t);
    pthread_t thread;
    if (!t) return false;
    t->task = task;
    t->arg = arg;
    if (pthread_create(&thread, NULL, run_lent, t) != 0) return free(t), false;
    pthread_detach(thread);
    return true;
}

/* Refuses every third task. */
static bool lend_two_of_three(void (*task)(void *arg), void *arg, void *user) {
    return ++*(int *)user % 3 != 0 && begin_lent(task, arg);
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
    int asked = 0; /* for a thread */
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
    cd.worker.run = lend_two_of_three;
    cd.worker.user = &asked;
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
    CHECK_MESSAGE(asked > 0, "the worker was asked for no thread");
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

static bool lend_some(void (*task)(void *arg), void *arg, void *user) {
    lender *from = (lender *)user;
    return from->lent < from->most && begin_lent(task, arg) && ++from->lent;
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

/* ---- Sources behind callbacks ---- */

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

/* ---- The cache blob ---- */

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
    CHECK(dit_job_record(job, VK_NULL_HANDLE, 1) == DIT_ERROR_INVALID_ARGUMENT); /* the job goes on */
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
    test_vulkan_begin();
    if (begin_shared()) {
        test_two_threads(false);
        if (test_first_driver()) test_two_threads(true);
        test_cancel();
        test_cancel_from_thread();
        test_progress_cancels();
        test_progress_cancels_context();
        test_progress_of_context();
        test_hooks_and_limits();
        test_workers();
        test_workers_at_start();
        test_destroy_orders();
        test_descs_are_copied();
        test_callback_source();
        if (test_first_driver()) test_waiting_for_weights();
        test_cache();
        if (test_first_driver()) test_tuning();
        test_device_lost();
        test_own_device(true);
        if (test_first_driver()) test_own_device(false);
    }
    end_shared();
    test_vulkan_end();
    return TEST_END("application");
}
