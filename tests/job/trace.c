/* Traces: what dit_trace_write says about real jobs is complete, in order and valid JSON, in every mode; nothing is
 * done where no trace was asked for; pictures stay the same.
   test-runs: lavapipe sanitize */
#include "library.h"
#include "vulkan_test.h"
#include "engine.h"
#include "files.h"
#include <pthread.h>

#define MODEL "tests/fixtures/pipe_pixart_sigma" /* two blocks, random weights */
enum { SIDE = 32, BYTES = SIDE * SIDE * 4, STEPS = 3, MANY_STEPS = 12, MOST = 200000 /* events */ };

static diti_env env;
static unsigned char expected[BYTES]; /* without a trace */

/* ---- Jobs ---- */

/* Refuses every allocation while refuse is set, or the one of number fail_at. Threads ask for memory, too. */
typedef struct memory_user {
    long calls, alive, fail_at;
    bool refuse;
    pthread_mutex_t lock;
} memory_user;

static void *user_alloc(size_t size, size_t align, void *user) {
    memory_user *memory = (memory_user *)user;
    void *block = NULL;
    pthread_mutex_lock(&memory->lock);
    if (++memory->calls != memory->fail_at && !memory->refuse) block = test_block(size, align);
    if (block) memory->alive++;
    pthread_mutex_unlock(&memory->lock);
    return block;
}

static void user_free(void *block, size_t size, void *user) {
    memory_user *memory = (memory_user *)user;
    (void)size;
    free(block);
    pthread_mutex_lock(&memory->lock);
    memory->alive--;
    pthread_mutex_unlock(&memory->lock);
}

static dit_context_desc describe_context(memory_user *memory) {
    dit_context_desc desc = {0};
    desc.trace = true;
    desc.overrides = "rung=base,gflop_ns=100000000"; /* slices that no busy machine changes */
    if (!memory) return desc;
    memset(memory, 0, sizeof *memory);
    pthread_mutex_init(&memory->lock, NULL);
    desc.allocator.alloc = user_alloc;
    desc.allocator.free = user_free;
    desc.allocator.user = memory;
    return desc;
}

static dit_context *open_context(const dit_context_desc *desc) {
    dit_context *ctx = NULL;
    dit_error err = {0};
    CHECK_MESSAGE(dit_context_create(desc, &ctx, &err) == DIT_OK, "%s", err.message);
    return ctx;
}

static dit_model *load_model(dit_context *ctx) {
    dit_model_desc desc = {0};
    dit_model *model = NULL;
    dit_error err = {0};
    desc.source.path = MODEL;
    if (ctx) CHECK_MESSAGE(dit_model_load(ctx, &desc, &model, &err) == DIT_OK, "%s", err.message);
    return model;
}

static dit_job_desc describe(const dit_model *model) {
    dit_job_desc desc = {0};
    desc.model = model;
    desc.prompt = "a red heart";
    desc.width = desc.height = SIDE;
    desc.steps = STEPS;
    desc.seed = 7;
    return desc;
}

typedef struct run { /* a context, a model and a job on it */
    dit_context *ctx;
    dit_model *model;
    dit_job *job;
} run;

/* A traced context that most tests share, because a driver compiles every pipeline anew for a context. */
static memory_user shared_memory;
static run shared;

static bool begin(run *r, const dit_context_desc *desc) {
    dit_job_desc jd;
    dit_error err = {0};
    memset(r, 0, sizeof *r);
    r->ctx = open_context(desc);
    r->model = load_model(r->ctx);
    jd = describe(r->model);
    if (r->model) CHECK_MESSAGE(dit_job_create(r->ctx, &jd, &r->job, &err) == DIT_OK, "%s", err.message);
    return r->job != NULL;
}

static void end(run *r) {
    dit_job_destroy(r->job);
    dit_model_destroy(r->model);
    dit_context_destroy(r->ctx);
}

static bool finish(run *r) {
    dit_error err = {0};
    dit_result result = dit_job_wait(r->job, UINT64_MAX);
    dit_job_status(r->job, NULL, &err);
    return CHECK_MESSAGE(result == DIT_OK, "%s", err.message);
}

static bool is_expected(run *r) {
    unsigned char rgba[BYTES];
    return dit_job_read(r->job, DIT_READ_RGBA8, 0, 0, rgba, BYTES, 0, NULL) == DIT_OK && !memcmp(rgba, expected, BYTES);
}

/* ---- A trace as parsed JSON ---- */

typedef struct text {
    char *bytes;
    size_t size, room, pieces, stop_after; /* 0: take everything */
} text;

static bool take(const void *data, size_t size, void *user) {
    text *t = (text *)user;
    if (t->pieces++ >= t->stop_after && t->stop_after) return false;
    if (t->size + size > t->room) t->bytes = (char *)realloc(t->bytes, t->room = 2 * (t->size + size));
    memcpy(t->bytes + t->size, data, size);
    t->size += size;
    return true;
}

typedef struct trace {
    text text;
    diti_json *root;
    const diti_json *events[MOST], *other;
    uint32_t count, dropped;
} trace;

static trace parsed;

static bool read_trace(dit_context *ctx) {
    dit_error err = {0};
    const diti_json *list, *event;
    memset(&parsed, 0, sizeof parsed);
    if (!CHECK_MESSAGE(dit_trace_write(ctx, take, &parsed.text, &err) == DIT_OK, "%s", err.message)) return false;
    if (!CHECK_MESSAGE(diti_json_parse(&env, parsed.text.bytes, parsed.text.size, "trace", &parsed.root, &err) ==
                           DIT_OK,
                       "%s", err.message))
        return false;
    list = diti_json_get(parsed.root, "traceEvents");
    parsed.other = diti_json_get(parsed.root, "otherData");
    parsed.dropped = (uint32_t)diti_json_number(parsed.other, "dropped_events", 1e9);
    for (event = list ? list->first : NULL; event && parsed.count < MOST; event = event->next)
        parsed.events[parsed.count++] = event;
    return CHECK(parsed.count > 0 && parsed.count < MOST);
}

static void free_trace(void) {
    diti_json_free(&env, parsed.root);
    free(parsed.text.bytes);
    memset(&parsed, 0, sizeof parsed);
}

static const char *word(const diti_json *event, const char *key) { return diti_json_string(event, key, ""); }
static double number(const diti_json *event, const char *key) { return diti_json_number(event, key, -1); }
static double argument(const diti_json *event, const char *key) { return number(diti_json_get(event, "args"), key); }
static double begin_of(const diti_json *event) { return number(event, "ts"); }
static double end_of(const diti_json *event) { return number(event, "ts") + number(event, "dur"); }
static bool is(const diti_json *event, const char *key, const char *value) { return !strcmp(word(event, key), value); }
static bool is_span(const diti_json *event) { return is(event, "ph", "X"); }

static bool is_op(const diti_json *event) {
    return is(event, "cat", "gemm") || is(event, "cat", "conv") || is(event, "cat", "attention") ||
           is(event, "cat", "memory");
}

/* How many spans have this category; NULL: of any. */
static uint32_t count_spans(const char *category) {
    uint32_t i, count = 0;
    for (i = 0; i < parsed.count; i++)
        count += is_span(parsed.events[i]) && (!category || is(parsed.events[i], "cat", category));
    return count;
}

static uint32_t count_ops(void) {
    return count_spans("gemm") + count_spans("conv") + count_spans("attention") + count_spans("memory");
}

static const diti_json *find(const char *name, unsigned process) {
    uint32_t i;
    for (i = 0; i < parsed.count; i++) {
        if (is(parsed.events[i], "name", name) && (unsigned)number(parsed.events[i], "pid") == process)
            return parsed.events[i];
    }
    return NULL;
}

/* The name of the lane that a span stands in; "" when it was never given one. */
static const char *lane_of(const diti_json *event) {
    uint32_t i;
    for (i = 0; i < parsed.count; i++) {
        const diti_json *named = parsed.events[i];
        if (is(named, "ph", "M") && is(named, "name", "thread_name") && number(named, "pid") == number(event, "pid") &&
            number(named, "tid") == number(event, "tid"))
            return word(diti_json_get(named, "args"), "name");
    }
    return "";
}

static bool has_lane(const char *name) {
    uint32_t i;
    for (i = 0; i < parsed.count; i++) {
        if (is_span(parsed.events[i]) && !strcmp(lane_of(parsed.events[i]), name)) return true;
    }
    return false;
}

static int compare_spans(const void *a, const void *b) {
    const diti_json *x = *(const diti_json *const *)a, *y = *(const diti_json *const *)b;
    double d = number(x, "pid") - number(y, "pid");
    if (d == 0) d = number(x, "tid") - number(y, "tid");
    if (d == 0) d = begin_of(x) - begin_of(y);
    if (d == 0) d = end_of(y) - end_of(x);
    return (d > 0) - (d < 0);
}

static const double exact = 1e-6; /* us: times have three decimals, doubles hold many more */

/* In a lane, spans follow or contain each other: viewers cannot draw anything else. */
static void check_lanes(void) {
    static const diti_json *spans[MOST];
    const diti_json *open[16];
    uint32_t i, count = 0, depth = 0;
    for (i = 0; i < parsed.count; i++) {
        if (is_span(parsed.events[i])) spans[count++] = parsed.events[i];
    }
    qsort(spans, count, sizeof spans[0], compare_spans);
    for (i = 0; i < count; i++) {
        const diti_json *span = spans[i];
        if (!CHECK(number(span, "dur") >= 0 && begin_of(span) >= 0 && lane_of(span)[0] && word(span, "name")[0]))
            return;
        while (depth && (number(open[depth - 1], "tid") != number(span, "tid") ||
                         number(open[depth - 1], "pid") != number(span, "pid") ||
                         end_of(open[depth - 1]) <= begin_of(span) + exact))
            depth--;
        if (depth && !CHECK_MESSAGE(end_of(span) <= end_of(open[depth - 1]) + exact,
                                    "lane %s: %s at %.3f to %.3f crosses %s, which ends at %.3f", lane_of(span),
                                    word(span, "name"), begin_of(span), end_of(span), word(open[depth - 1], "name"),
                                    end_of(open[depth - 1])))
            return;
        if (!CHECK(depth < 15)) return;
        open[depth++] = span;
    }
    CHECK(count > 0);
}

static void check_op(const diti_json *op, bool cpu) {
    const diti_json *args = diti_json_get(op, "args");
    double groups = argument(op, "groups"), share = groups > 0 ? groups / argument(op, "all_groups") : 1, flops = 0;
    CHECK_MESSAGE(!cpu || number(op, "dur") > 0, "%s took no time", word(op, "name"));
    CHECK_MESSAGE(word(op, "name")[0] && word(args, "tensor")[0] && word(args, "segment")[0], "an op has no names");
    CHECK(argument(op, "bytes") > 0 && argument(op, "plan") >= 1 && argument(op, "slice") >= 0);
    if (is(op, "cat", "memory")) {
        CHECK_MESSAGE(argument(op, "rows") >= 1 && argument(op, "columns") >= 1, "%s has no shape", word(op, "name"));
        return;
    }
    if (is(op, "cat", "attention"))
        flops = 4 * argument(op, "batch") * argument(op, "heads") * argument(op, "queries") * argument(op, "keys") *
                argument(op, "head_dim");
    else if (is(op, "cat", "gemm"))
        flops = 2 * argument(op, "m") * argument(op, "n") * argument(op, "k");
    else
        flops = 2 * argument(op, "m") * argument(op, "n") * argument(op, "k") * argument(op, "kernel") *
                argument(op, "kernel");
    CHECK_MESSAGE(fabs(argument(op, "flops") - flops * share) <= 1, "%s: %.0f operations, its shape says %.0f",
                  word(op, "name"), argument(op, "flops"), flops * share);
}

/* Every slice is followed by its ops: inside it, one after the other, as many as it says. */
static void check_slices(bool cpu) {
    const diti_json *slice = NULL;
    double last = 0, sum = 0, left = 0;
    uint32_t i;
    for (i = 0; i < parsed.count; i++) {
        const diti_json *event = parsed.events[i];
        if (is(event, "cat", "slice")) {
            CHECK_MESSAGE(left == 0, "%.0f ops of a slice are missing", left);
            CHECK_MESSAGE(!slice || sum <= number(slice, "dur") + exact, "ops take %.3f us, their slice %.3f", sum,
                          slice ? number(slice, "dur") : 0.0);
            CHECK(!slice || begin_of(event) >= end_of(slice) - exact);
            CHECK(!strcmp(lane_of(event), "GPU") && argument(event, "predicted_us") > 0);
            slice = event;
            last = begin_of(event);
            left = argument(event, "dispatches");
            sum = 0;
        }
        if (!is_op(event) || !CHECK(slice)) continue;
        CHECK_MESSAGE(begin_of(event) >= last - exact && end_of(event) <= end_of(slice) + exact,
                      "%s at %.3f to %.3f lies outside its place from %.3f to %.3f", word(event, "name"),
                      begin_of(event), end_of(event), last, end_of(slice));
        CHECK(argument(event, "slice") == argument(slice, "slice") &&
              argument(event, "step") == argument(slice, "step"));
        CHECK(is(diti_json_get(event, "args"), "segment", word(slice, "name")));
        check_op(event, cpu);
        last = end_of(event);
        sum += number(event, "dur");
        left--;
    }
    CHECK(slice && left == 0 && sum <= number(slice, "dur") + exact);
}

/* Each step did the same, and none is missing. */
static void check_steps(uint32_t steps) {
    uint32_t ops[1 + MANY_STEPS] = {0}, i;
    for (i = 0; i < parsed.count; i++) {
        const diti_json *event = parsed.events[i];
        double step = argument(event, "step");
        if (!is_op(event)) continue;
        if (!is(diti_json_get(event, "args"), "segment", "step"))
            CHECK(step == 1);
        else if (CHECK(step >= 1 && step <= steps))
            ops[(uint32_t)step]++;
    }
    CHECK(ops[1] > 10);
    for (i = 2; i <= steps; i++) CHECK_MESSAGE(ops[i] == ops[1], "step %u has %u ops, step 1 %u", i, ops[i], ops[1]);
}

/* ---- Without a trace ---- */

static PFN_vkCreateQueryPool real_create_queries;
static uint32_t queries_made;
static VKAPI_ATTR VkResult VKAPI_CALL count_queries(VkDevice device, const VkQueryPoolCreateInfo *info,
                                                    const VkAllocationCallbacks *callbacks, VkQueryPool *out) {
    queries_made += info->queryCount;
    return real_create_queries(device, info, callbacks, out);
}

static void test_untraced(void) {
    memory_user memory;
    dit_context_desc desc = describe_context(&memory);
    dit_job_desc jd;
    dit_error err = {0};
    dit_job *job = NULL;
    text nothing = {0};
    long calls;
    run r;
    desc.trace = false;
    if (!begin(&r, &desc)) return end(&r);
    CHECK(!r.ctx->trace && !r.ctx->device->trace && !r.job->shares[0]->program.plan->profile);
    real_create_queries = r.ctx->device->vk.CreateQueryPool;
    r.ctx->device->vk.CreateQueryPool = count_queries;
    jd = describe(r.model);
    if (CHECK(dit_job_create(r.ctx, &jd, &job, NULL) == DIT_OK))
        CHECK_MESSAGE(queries_made == 2 * job->shares[0]->program.plan->slice_count, "%u queries for %zu slices",
                      queries_made, job->shares[0]->program.plan->slice_count);
    dit_job_destroy(job);
    calls = memory.calls;
    dit_trace_mark(r.ctx, "mark");
    CHECK(dit_trace_begin(r.ctx, "range") == 0);
    dit_trace_end(r.ctx, 0);
    dit_trace_end(r.ctx, 77);
    finish(&r);
    CHECK_MESSAGE(memory.calls == calls, "%ld allocations while running", memory.calls - calls);
    CHECK(dit_job_read(r.job, DIT_READ_RGBA8, 0, 0, expected, BYTES, 0, NULL) == DIT_OK);
    CHECK(dit_trace_write(r.ctx, take, &nothing, &err) == DIT_ERROR_INVALID_ARGUMENT && strstr(err.message, "trace"));
    CHECK(nothing.pieces == 0);
    end(&r);
    CHECK(memory.alive == 0);
}

static void test_arguments(void) {
    dit_context_desc desc = {0};
    dit_context *ctx = NULL;
    dit_error err = {0};
    text nothing = {0};
    desc.trace_light = true;
    CHECK(dit_context_create(&desc, &ctx, &err) == DIT_ERROR_INVALID_ARGUMENT && strstr(err.message, "trace_light"));
    CHECK(dit_trace_write(NULL, take, &nothing, &err) == DIT_ERROR_INVALID_ARGUMENT);
    dit_trace_mark(NULL, "x");
    CHECK(dit_trace_begin(NULL, "x") == 0);
    dit_trace_end(NULL, 1);
}

/* ---- Everything ---- */

#define HARD_NAME "quote\" backslash\\ line\n tab\t \x01 \x7f \xc3\xa9 \xff end"
#define HARD_NAME_READ "quote\" backslash\\ line\n tab\t \x01 \x7f \xc3\xa9 \xef\xbf\xbd end"
static const char long_name[] =
    "01234567890123456789012345678901234567890123456789012345678901\xc3\xa9\xc3\xa9\xc3\xa9";

static void check_application(uint32_t slices) {
    const diti_json *first = find("before", 1), *second = find(HARD_NAME_READ, 1), *outer = find("outer", 1),
                    *inner = find("inner", 1), *on_gpu = find("outer", 2), *cut;
    uint32_t i, seen = 0;
    if (!CHECK(first && second && outer && inner && on_gpu)) return;
    CHECK(is(first, "ph", "i") && is(second, "ph", "i") && is(first, "cat", "application"));
    CHECK(begin_of(first) <= begin_of(outer) && begin_of(outer) <= begin_of(inner));
    CHECK(end_of(inner) <= end_of(outer) && end_of(outer) <= begin_of(second));
    CHECK(!find("inner", 2)); /* encloses no submission */
    CHECK_MESSAGE(argument(on_gpu, "slices") == slices, "%.0f slices in a range that encloses %u",
                  argument(on_gpu, "slices"), slices);
    CHECK(argument(on_gpu, "busy_us") <= number(on_gpu, "dur") + exact);
    for (i = 0; i < parsed.count; i++) {
        const diti_json *slice = parsed.events[i];
        if (!is(slice, "cat", "slice")) continue;
        if (++seen == 1) CHECK(fabs(begin_of(slice) - begin_of(on_gpu)) <= exact);
        if (seen == slices) CHECK(fabs(end_of(slice) - end_of(on_gpu)) <= exact);
    }
    cut = find("01234567890123456789012345678901234567890123456789012345678901", 1);
    CHECK_MESSAGE(cut, "a long name is not cut between its characters");
}

/* A trace of one job, on a context that has done nothing else yet. */
static void test_full(void) {
    run *r = &shared;
    bool cpu = r->ctx->device->is_cpu;
    dit_counters counters;
    uint64_t outer, inner;
    dit_trace_mark(r->ctx, "before");
    dit_trace_mark(r->ctx, long_name);
    outer = dit_trace_begin(r->ctx, "outer");
    inner = dit_trace_begin(r->ctx, "inner");
    CHECK(outer && inner && outer != inner);
    dit_trace_end(r->ctx, inner);
    dit_trace_end(r->ctx, inner); /* once more does nothing */
    finish(r);
    dit_trace_end(r->ctx, outer);
    dit_trace_mark(r->ctx, HARD_NAME);
    CHECK_MESSAGE(is_expected(r), "a trace changes the picture");
    dit_job_get_counters(r->job, &counters);
    if (read_trace(r->ctx)) {
        CHECK(parsed.text.pieces > 3 && parsed.dropped == 0 && is(parsed.other, "mode", "full"));
        CHECK(number(parsed.other, "gpu_clock_accuracy_us") > 0);
        CHECK_MESSAGE(count_ops() == counters.dispatches, "%u ops for %llu dispatches", count_ops(),
                      (unsigned long long)counters.dispatches);
        CHECK(count_spans("slice") == counters.submits - 1); /* the copy into the image is not one */
        CHECK(count_spans("gemm") && count_spans("conv") && count_spans("attention") && count_spans("memory"));
        CHECK(has_lane("load") && has_lane("plan") && has_lane("record") && has_lane("submit") && has_lane("wait") &&
              has_lane("copy") && has_lane("application") && has_lane("application on GPU"));
        check_lanes();
        check_slices(cpu);
        check_steps(STEPS);
        check_application(count_spans("slice"));
    }
    free_trace();
    if (read_trace(r->ctx)) CHECK_MESSAGE(count_spans(NULL) == 0, "writing does not empty the trace");
    free_trace();
}

/* Everything that a further run adds to the trace, after it was emptied. */
static void check_rerun(run *r) {
    dit_counters before, after;
    dit_job_desc jd = describe(r->model);
    CHECK(dit_trace_write(r->ctx, take, &parsed.text, NULL) == DIT_OK);
    free_trace();
    dit_job_get_counters(r->job, &before);
    CHECK(dit_job_restart(r->job, &jd, NULL) == DIT_OK);
    finish(r);
    CHECK(is_expected(r));
    dit_job_get_counters(r->job, &after);
    if (read_trace(r->ctx)) {
        CHECK(parsed.dropped == 0);
        CHECK_MESSAGE(count_ops() == after.dispatches - before.dispatches, "%u ops for %llu dispatches", count_ops(),
                      (unsigned long long)(after.dispatches - before.dispatches));
        check_lanes();
        check_steps(STEPS);
    }
    free_trace();
}

/* The whole step is one slice, so that the same one is wanted again before its timestamps were read. */
static void test_one_slice_per_step(void) {
    diti_device *device = shared.ctx->device;
    uint32_t longest = device->max_slice_us;
    dit_job_desc desc = describe(shared.model);
    dit_result result = DIT_WORKING;
    dit_counters counters;
    dit_job *job = NULL;
    CHECK(dit_trace_write(shared.ctx, take, &parsed.text, NULL) == DIT_OK);
    free_trace();
    desc.steps = MANY_STEPS;
    device->max_slice_us = 100000000;
    if (CHECK(dit_job_create(shared.ctx, &desc, &job, NULL) == DIT_OK)) {
        const diti_plan *plan = job->shares[0]->program.plan;
        CHECK(diti_plan_slice_count(plan, job->shares[0]->program.step_segment) == 1);
        CHECK(plan->profile->slices[plan->segments[job->shares[0]->program.step_segment].first].sets ==
              DITI_PROFILE_SETS);
        while (result == DIT_WORKING) result = dit_job_step(job, UINT32_MAX);
        CHECK(result == DIT_OK);
        dit_job_get_counters(job, &counters);
        if (read_trace(shared.ctx)) {
            CHECK_MESSAGE(count_ops() == counters.dispatches && parsed.dropped == 0,
                          "%u ops for %llu dispatches, %u events dropped", count_ops(),
                          (unsigned long long)counters.dispatches, parsed.dropped);
            check_slices(device->is_cpu);
            check_steps(MANY_STEPS);
        }
        free_trace();
    }
    device->max_slice_us = longest;
    dit_job_destroy(job);
}

/* Slices are submitted without waiting for those before them: none may vanish uncounted. */
static void test_overrun(void) {
    enum { TIMES = 50 };
    dit_context *ctx = shared.ctx;
    diti_elementwise_desc op = {0};
    diti_plan *plan = NULL;
    diti_graph graph;
    diti_tensor x;
    dit_error err = {0};
    uint64_t value = 0;
    int i;
    CHECK(dit_trace_write(ctx, take, &parsed.text, NULL) == DIT_OK);
    free_trace();
    diti_graph_init(&graph, ctx->device);
    diti_graph_segment(&graph, "again", true);
    x = diti_tensor_state(&graph, DITI_F32, 512, 512, "state");
    op.out = x;
    op.offset = 1;
    op.name = "add";
    diti_elementwise(&graph, x, &op);
    if (CHECK_MESSAGE(diti_plan_create(&graph, NULL, &plan, &err) == DIT_OK, "%s", err.message)) {
        for (i = 0; i < TIMES; i++) CHECK(diti_plan_submit(plan, 0, 0, &value, &err) == DIT_OK);
        diti_plan_wait(plan);
        diti_plan_learn(plan);
        CHECK(plan->profile->flight_count == 0 && plan->profile->slices[0].busy == 0);
        if (read_trace(ctx))
            CHECK_MESSAGE(2 * count_ops() + parsed.dropped == 2 * TIMES, "%u ops, %u events dropped of %d", count_ops(),
                          parsed.dropped, 2 * TIMES);
        free_trace();
    }
    diti_plan_destroy(plan);
    diti_graph_free(&graph);
}

/* Whatever was submitted is there, also when the job is destroyed with slices in flight. */
static void test_cancel(void) {
    dit_job_desc desc = describe(shared.model);
    dit_counters counters;
    dit_job *job = NULL;
    CHECK(dit_trace_write(shared.ctx, take, &parsed.text, NULL) == DIT_OK);
    free_trace();
    if (!CHECK(dit_job_create(shared.ctx, &desc, &job, NULL) == DIT_OK)) return;
    CHECK(dit_job_step(job, UINT32_MAX) == DIT_WORKING);
    dit_job_get_counters(job, &counters);
    dit_job_cancel(job);
    CHECK(dit_job_wait(job, UINT64_MAX) == DIT_CANCELLED);
    dit_job_destroy(job);
    if (read_trace(shared.ctx)) {
        CHECK(counters.dispatches > 0);
        CHECK_MESSAGE(count_ops() == counters.dispatches && parsed.dropped == 0, "%u ops for %llu dispatches",
                      count_ops(), (unsigned long long)counters.dispatches);
    }
    free_trace();
}

/* ---- Less than everything ---- */

static void test_light(void) {
    dit_context_desc desc = describe_context(NULL);
    const diti_json *on_gpu;
    dit_counters counters;
    uint64_t range;
    run r;
    desc.trace_light = true;
    if (!begin(&r, &desc)) return end(&r);
    range = dit_trace_begin(r.ctx, "light");
    finish(&r);
    dit_trace_end(r.ctx, range);
    CHECK(is_expected(&r));
    dit_job_get_counters(r.job, &counters);
    if (read_trace(r.ctx)) {
        CHECK(is(parsed.other, "mode", "light") && parsed.dropped == 0);
        CHECK(count_spans("copy") >= 1 && count_spans("application") == 2);
        CHECK(count_spans("copy") + count_spans("application") == count_spans(NULL));
        on_gpu = find("light", 2);
        CHECK(on_gpu && argument(on_gpu, "slices") == (double)(counters.submits - 1) &&
              argument(on_gpu, "busy_us") > 0);
        check_lanes();
    }
    free_trace();
    end(&r);
}

static void test_without_timestamps(void) {
    dit_context_desc desc = describe_context(NULL);
    dit_counters counters;
    uint64_t range;
    run r;
    desc.overrides = "rung=base,timestamps=0,gflop_ns=100000000";
    if (!begin(&r, &desc)) return end(&r);
    range = dit_trace_begin(r.ctx, "range");
    finish(&r);
    dit_trace_end(r.ctx, range);
    CHECK(is_expected(&r));
    dit_job_get_counters(r.job, &counters);
    if (read_trace(r.ctx)) {
        CHECK(strstr(word(parsed.other, "gpu_clock"), "no timestamps"));
        CHECK(!diti_json_get(parsed.other, "gpu_clock_accuracy_us"));
        CHECK(count_ops() == 0 && parsed.dropped == 0 && count_spans("slice") == counters.submits - 1);
        CHECK(find("range", 2) && argument(find("range", 2), "slices") == (double)(counters.submits - 1));
        check_lanes();
    }
    free_trace();
    end(&r);
}

/* Commands in the application's own command buffer. */
static void test_recorded(void) {
    engine *app = (engine *)calloc(1, sizeof *app);
    dit_context_desc desc = describe_context(NULL);
    dit_result result = DIT_WORKING;
    uint64_t range;
    run r = {0};
    if (!engine_make_instance(app) || !engine_make_device(app, true)) return free(app);
    desc.vulkan = &app->handover;
    desc.vulkan_count = 1;
    if (begin(&r, &desc)) {
        range = dit_trace_begin(r.ctx, "frame");
        while (result == DIT_WORKING) {
            VkCommandBuffer commands = engine_begin_commands(app);
            result = dit_job_record(r.job, commands, 1000000);
            engine_run(app, commands, VK_NULL_HANDLE, 0);
        }
        dit_trace_end(r.ctx, range);
        CHECK(result == DIT_OK && is_expected(&r));
        if (read_trace(r.ctx)) {
            CHECK(count_ops() == 0 && count_spans("slice") == 0 && parsed.dropped == 0);
            CHECK(find("dit_job_record", 1) && find("frame", 1) && !find("frame", 2));
        }
        free_trace();
    }
    end(&r);
    engine_end(app);
    free(app);
}

/* ---- Limits ---- */

static void test_limit(void) {
    dit_context_desc desc = describe_context(NULL);
    dit_context *ctx;
    int round, i;
    desc.overrides = "rung=base,trace_events=100,gflop_ns=100000000";
    ctx = open_context(&desc);
    for (round = 0; ctx && round < 2; round++) { /* counting begins anew with each file */
        for (i = 0; i < 150; i++) dit_trace_mark(ctx, i < 100 ? "early" : "late");
        if (read_trace(ctx)) {
            CHECK(parsed.dropped == 50 && number(parsed.other, "most_events") == 100);
            CHECK(find("early", 1) && !find("late", 1));
        }
        free_trace();
    }
    dit_context_destroy(ctx);
}

/* A range that is never ended takes up one place, and does no other harm. */
static void test_ranges(void) {
    dit_context *ctx = shared.ctx;
    uint64_t ranges[DITI_TRACE_RANGES + 3];
    uint32_t i;
    CHECK(dit_trace_write(ctx, take, &parsed.text, NULL) == DIT_OK);
    free_trace();
    for (i = 0; i < DITI_COUNT(ranges); i++) {
        ranges[i] = dit_trace_begin(ctx, "open");
        CHECK((ranges[i] != 0) == (i < DITI_TRACE_RANGES));
    }
    dit_trace_end(ctx, UINT64_MAX);
    dit_trace_end(ctx, 1);
    if (read_trace(ctx)) CHECK(count_spans(NULL) == 0 && parsed.dropped == 3);
    free_trace();
    for (i = 0; i < DITI_TRACE_RANGES; i++) dit_trace_end(ctx, ranges[i]);
    ranges[0] = dit_trace_begin(ctx, "again");
    CHECK(ranges[0]);
    dit_trace_end(ctx, ranges[0]);
    if (read_trace(ctx)) CHECK(count_spans("application") == DITI_TRACE_RANGES + 1);
    free_trace();
}

/* The write hook refuses: at once, and in the middle. */
static void test_stopped_writing(void) {
    text some = {0};
    int i;
    for (i = 0; i < 2000; i++) dit_trace_mark(shared.ctx, "one of many");
    some.stop_after = 2;
    CHECK(dit_trace_write(shared.ctx, take, &some, NULL) == DIT_CANCELLED && some.pieces == 3);
    if (read_trace(shared.ctx)) CHECK(!find("one of many", 1));
    free_trace();
    free(some.bytes);
}

/* From some moment on nothing is allocated any more: the job goes on, and what is missing is counted. */
static void test_memory_while_running(void) {
    dit_job_desc desc = describe(shared.model);
    dit_counters before, after;
    CHECK(dit_job_restart(shared.job, &desc, NULL) == DIT_OK);
    CHECK(dit_trace_write(shared.ctx, take, &parsed.text, NULL) == DIT_OK);
    free_trace();
    dit_job_get_counters(shared.job, &before);
    shared_memory.refuse = true;
    finish(&shared);
    dit_job_get_counters(shared.job, &after);
    if (read_trace(shared.ctx))
        CHECK_MESSAGE(count_spans(NULL) == 0 && parsed.dropped > after.dispatches - before.dispatches,
                      "%u events dropped", parsed.dropped);
    free_trace();
    shared_memory.refuse = false;
    CHECK(is_expected(&shared));
    check_rerun(&shared); /* afterwards everything is back */
}

/* Each allocation of making a traced job fails once: a clean error, or an event less. */
static void test_memory_while_planning(void) {
    dit_job_desc desc = describe(shared.model);
    dit_error err = {0};
    dit_job *job = NULL;
    long count, alive, i;
    int failed = 0;
    for (i = 0; i < 2; i++) { /* the first may leave a chunk of events behind */
        dit_job_destroy(job);
        CHECK(dit_trace_write(shared.ctx, take, &parsed.text, NULL) == DIT_OK);
        free_trace();
        alive = shared_memory.alive;
        shared_memory.calls = 0;
        CHECK(dit_job_create(shared.ctx, &desc, &job, &err) == DIT_OK);
    }
    count = shared_memory.calls;
    dit_job_destroy(job);
    for (i = count > 12 ? count - 12 : 1; i <= count; i++) { /* the allocations of a traced plan are among the last */
        dit_result result;
        job = NULL;
        shared_memory.calls = 0;
        shared_memory.fail_at = i;
        result = dit_job_create(shared.ctx, &desc, &job, &err);
        shared_memory.fail_at = 0;
        failed += result < 0;
        CHECK(result == DIT_OK || (result == DIT_ERROR_OUT_OF_HOST_MEMORY && !job && err.message[0]));
        dit_job_destroy(job);
    }
    CHECK_MESSAGE(failed >= 4, "only %d allocations of a traced plan failed", failed);
    CHECK(dit_trace_write(shared.ctx, take, &parsed.text, NULL) == DIT_OK);
    free_trace();
    CHECK_MESSAGE(shared_memory.alive <= alive, "%ld blocks are left", shared_memory.alive - alive);
}

/* ---- Threads ---- */

static void *mark_often(void *arg) {
    dit_context *ctx = (dit_context *)arg;
    int i;
    for (i = 0; i < 500; i++) {
        uint64_t range = dit_trace_begin(ctx, "range of a thread");
        dit_trace_mark(ctx, "mark of a thread");
        dit_trace_end(ctx, range);
    }
    return NULL;
}

static void test_threads(void) {
    dit_job_desc desc = describe(shared.model);
    pthread_t threads[2];
    uint32_t i, marks = 0, ranges = 0;
    CHECK(dit_trace_write(shared.ctx, take, &parsed.text, NULL) == DIT_OK);
    free_trace();
    CHECK(dit_job_restart(shared.job, &desc, NULL) == DIT_OK);
    for (i = 0; i < 2; i++) CHECK(pthread_create(&threads[i], NULL, mark_often, shared.ctx) == 0);
    finish(&shared);
    for (i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    CHECK(is_expected(&shared));
    if (read_trace(shared.ctx)) {
        for (i = 0; i < parsed.count; i++) {
            marks += is(parsed.events[i], "name", "mark of a thread");
            ranges += is(parsed.events[i], "name", "range of a thread") && number(parsed.events[i], "pid") == 1;
        }
        CHECK_MESSAGE(marks == 1000 && ranges + parsed.dropped == 1000, "%u marks, %u ranges, %u dropped", marks,
                      ranges, parsed.dropped);
        check_lanes();
    }
    free_trace();
}

/* ---- Several devices ---- */

/* Chunks of one copy overlap, since one leaves while the one before it arrives: each needs a row of its own. */
static void test_devices(const char *split) {
    dit_context_desc desc = describe_context(NULL);
    dit_job_desc jd;
    dit_error err = {0};
    run r = {0};
    desc.devices = "0,0";
    desc.overrides = "rung=base,chunk=1K,gflop_ns=100000000";
    r.ctx = open_context(&desc);
    r.model = load_model(r.ctx);
    jd = describe(r.model);
    jd.split = split;
    jd.guidance.scale = 3;
    jd.steps = 2;
    if (r.model && CHECK_MESSAGE(dit_job_create(r.ctx, &jd, &r.job, &err) == DIT_OK, "%s", err.message) && finish(&r) &&
        read_trace(r.ctx)) {
        CHECK(parsed.dropped == 0 && count_spans("copy") > 20 && has_lane("copy between devices"));
        CHECK_MESSAGE(has_lane("copy between devices 2"), "no two chunks of %s were on their way at once", split);
        check_lanes();
        free_trace();
    }
    end(&r);
}

/* Rows are finite; a span that finds none is counted as dropped, and nothing overlaps. */
static void test_rows(void) {
    diti_trace_scope scopes[DITI_TRACE_ROWS + 3];
    uint32_t i;
    CHECK(dit_trace_write(shared.ctx, take, &parsed.text, NULL) == DIT_OK);
    free_trace();
    for (i = 0; i < DITI_COUNT(scopes); i++) scopes[i] = diti_trace_open(shared.ctx->trace, DITI_TRACK_PEER, "span");
    for (i = 0; i < DITI_COUNT(scopes); i++) diti_trace_close(&scopes[i], 0);
    if (read_trace(shared.ctx)) {
        CHECK_MESSAGE(parsed.dropped == 3, "%u were dropped", parsed.dropped);
        check_lanes();
        free_trace();
    }
}

/* ---- Clocks ---- */

/* Counters of few bits go round; the host's time tells how often. */
static void test_clock(void) {
    static diti_device device; /* zeros */
    uint32_t bits[] = {32, 36, 64}, i, turns;
    for (i = 0; i < 3; i++) {
        uint64_t mask = bits[i] == 64 ? UINT64_MAX : ((uint64_t)1 << bits[i]) - 1;
        device.limits.timestamp_bits = bits[i];
        device.limits.timestamp_period = 2;
        device.clock.ticks = mask - 1000; /* about to go round */
        device.clock.ns = 5000000;
        for (turns = 0; turns < 3; turns++) {
            uint64_t passed = bits[i] == 64 ? 4000 : turns * (mask + 1) + 4000; /* ticks */
            uint64_t ns = diti_trace_device_ns(&device, (device.clock.ticks + passed) & mask,
                                               device.clock.ns + 2 * passed + 300000000); /* seen 0.3 s later */
            CHECK_MESSAGE(ns == device.clock.ns + 2 * passed, "%u bits, %u turns: %llu ns", bits[i], turns,
                          (unsigned long long)ns);
        }
    }
}

int main(void) {
    dit_context_desc desc = describe_context(&shared_memory);
    env = test_env(NULL);
    test_vulkan_begin();
    if (test_quick_way("newest")) { /* its layers see these runs better; cfg2 runs nowhere else */
        test_devices("cfg2");
        test_devices("ulysses2");
        test_vulkan_end();
        return TEST_END("trace");
    }
    test_clock();
    test_arguments();
    test_untraced();
    if (begin(&shared, &desc)) {
        test_full();
        test_one_slice_per_step();
        test_overrun();
        test_cancel();
        test_ranges();
        test_stopped_writing();
        test_memory_while_running();
        test_memory_while_planning();
        test_threads();
        test_rows();
    }
    end(&shared);
    CHECK_MESSAGE(shared_memory.alive == 0, "%ld blocks are left", shared_memory.alive);
    test_light();
    test_without_timestamps();
    test_recorded();
    test_limit();
    if (test_first_driver()) test_devices("ulysses2");
    if (getenv("DIT_TEST_ALL") && !strcmp(getenv("DIT_TEST_ALL"), "1")) test_devices("cfg2");
    test_vulkan_end();
    return TEST_END("trace");
}
