/* Several devices: the set in a context, transports and their self-tests, exchanges of plans that run side by side, and
   splits of a job. Every transport that the devices have is forced in turn; bytes counted by transports equal the sum
   of what the plans said beforehand. */
/* test-runs: lavapipe devices3 */
#define DIT_IMPLEMENTATION
#include "dit.h"
#include "vulkan_test.h"

static dit_error err;
#define PAIR "llvmpipe,llvmpipe"

/* --- the set of devices --- */

static char logged[8192];

static void keep_log(int level, const char *message, void *user) {
    size_t used = strlen(logged);
    (void)user;
    snprintf(logged + used, sizeof logged - used, "%d %s\n", level, message);
}

static dit_context *open_context(const char *devices, const char *overrides) {
    dit_context_desc desc = DITI_ZERO;
    dit_context *context = NULL;
    desc.devices = devices;
    desc.overrides = overrides;
    desc.logger.func = keep_log;
    desc.logger.max_level = 2;
    logged[0] = 0;
    CHECK_MESSAGE(dit_context_create(&desc, &context, &err) == DIT_OK, "%s, %s: %s", devices, overrides, err.message);
    return context;
}

static void test_devices(void) {
    dit_device_info info[4];
    dit_context_desc desc = DITI_ZERO;
    dit_context *context = open_context("llvmpipe, llvmpipe", NULL);
    char list[600];
    uint32_t count = 4;
    if (!context) return;
    CHECK(dit_context_devices(context, NULL, &count, &err) == DIT_OK && count == 2);
    CHECK(dit_context_devices(context, info, &count, &err) == DIT_OK && count == 2);
    CHECK(!strcmp(info[0].name, info[1].name) && !strcmp(info[0].rung, info[1].rung));
    dit_context_destroy(context);
    snprintf(list, sizeof list, "%s,%s", info[0].name, info[1].name); /* with commas in parentheses */
    context = open_context(list, NULL);
    CHECK(context && context->device_count == 2);
    dit_context_destroy(context);
    desc.devices = "0,no such device";
    CHECK(dit_context_create(&desc, &context, &err) == DIT_ERROR_UNSUPPORTED_DEVICE &&
          strstr(err.message, "no such device"));
    desc.devices = "0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0";
    CHECK(dit_context_create(&desc, &context, &err) == DIT_ERROR_INVALID_ARGUMENT && strstr(err.message, "at most 16"));
}

/* --- exchanges: two plans --- */

enum { ROWS = 37, COLUMNS = 23, RUNS = 3 };

typedef struct pair {
    dit_context *context;
    diti_plan *plans[2];
    diti_mesh *mesh;
    diti_tensor input[2], state[2];
} pair;

static diti_tensor scaled(diti_graph *graph, diti_tensor x, float scale, diti_tensor out) {
    diti_elementwise_desc desc = DITI_ZERO;
    desc.scale = scale;
    desc.out = out;
    desc.out_f32 = true;
    desc.name = "scaled";
    return diti_elementwise(graph, x, &desc);
}

/* Device 0 doubles x and sends all of it but a border; device 1 adds what comes to what it has and sends that back,
   which is x of the next run. While x is on its way device 0 works on. */
static void emit(pair *p, uint32_t self, diti_graph *graph) {
    diti_tensor x, doubled, inner, other;
    diti_elementwise_desc add = DITI_ZERO;
    uint32_t exchange;
    diti_graph_segment(graph, "start", false);
    p->input[self] = diti_tensor_input(graph, DITI_F32, ROWS, COLUMNS, "input");
    p->state[self] = x = diti_tensor_state(graph, DITI_F32, ROWS, COLUMNS, "x");
    scaled(graph, p->input[self], 1, x);
    diti_graph_segment(graph, "step", true);
    inner = diti_tensor_view(graph, x, 1, ROWS - 2, 4, COLUMNS - 5);
    if (self == 0) {
        doubled = scaled(graph, x, 2, 0);
        exchange = diti_exchange_begin(graph, diti_tensor_view(graph, doubled, 1, ROWS - 2, 4, COLUMNS - 5), 1, true);
        scaled(graph, x, 1, x);
        scaled(graph, x, 1, x);
        diti_exchange_end(graph, exchange);
        exchange = diti_exchange_begin(graph, inner, 1, false);
        scaled(graph, doubled, 1, 0);
        diti_exchange_end(graph, exchange);
        return;
    }
    other = diti_tensor_new(graph, DITI_F32, ROWS - 2, COLUMNS - 5, "other");
    diti_exchange_end(graph, diti_exchange_begin(graph, other, 0, false));
    add.add = other;
    add.out = inner;
    add.name = "add";
    diti_elementwise(graph, inner, &add);
    diti_exchange_begin(graph, inner, 0, true);
}

static void make_pair(pair *p) {
    diti_graph graph;
    uint32_t i;
    for (i = 0; i < 2; i++) {
        diti_graph_init(&graph, p->context->devices[i]);
        emit(p, i, &graph);
        CHECK_MESSAGE(diti_plan_create(&graph, NULL, &p->plans[i], &err) == DIT_OK, "%s", err.message);
        diti_graph_free(&graph);
    }
    CHECK_MESSAGE(diti_mesh_create(p->context->peers, p->plans, 2, &p->mesh, &err) == DIT_OK, "%s", err.message);
}

static void drop_pair(pair *p) {
    diti_mesh_destroy(p->mesh);
    diti_plan_destroy(p->plans[0]);
    diti_plan_destroy(p->plans[1]);
}

/* The way of a job, without budgets. */
static dit_result run_pair(pair *p) {
    uint32_t at[2] = {0, 0}, slice[2] = {0, 0}, i, segment;
    uint64_t value, begin = diti_clock_us();
    dit_result result = DIT_OK;
    bool moved = true, all = false, waited;
    while (result >= 0 && !(all && diti_mesh_idle(p->mesh))) {
        if (!moved) result = diti_mesh_wait(p->mesh, 1000000, &waited, &err);
        moved = false;
        if (result >= 0) result = diti_mesh_pump(p->mesh, &moved, &err);
        for (i = 0, all = true; i < 2 && result >= 0; i++) {
            while (at[i] <= RUNS && result >= 0) {
                segment = at[i] ? 1 : 0;
                if (!diti_mesh_ready(p->mesh, i, segment, slice[i])) break;
                result = diti_mesh_submit(p->mesh, i, segment, slice[i], &value, &err);
                moved = true;
                if (++slice[i] == diti_plan_slice_count(p->plans[i], segment)) slice[i] = 0, at[i]++;
            }
            all = all && at[i] > RUNS;
        }
        if (diti_clock_us() - begin > 20000000) return DIT_ERROR_TRANSPORT;
    }
    return result;
}

static void check_pair(pair *p) {
    static float x[2][ROWS][COLUMNS], expected[2][ROWS][COLUMNS];
    uint32_t run, i, r, c, wrong = 0;
    for (i = 0; i < 2; i++) {
        for (r = 0; r < ROWS; r++)
            for (c = 0; c < COLUMNS; c++) x[i][r][c] = expected[i][r][c] = (float)((r * 31 + c * 7 + i * 5) % 101);
        CHECK(diti_plan_write(p->plans[i], p->input[i], x[i], sizeof x[i], &err) == DIT_OK);
    }
    for (run = 0; run < RUNS; run++)
        for (r = 1; r < ROWS - 1; r++)
            for (c = 4; c < COLUMNS - 1; c++)
                expected[0][r][c] = expected[1][r][c] = expected[1][r][c] + 2 * expected[0][r][c];
    CHECK_MESSAGE(run_pair(p) == DIT_OK, "%s", err.message);
    for (i = 0; i < 2; i++) {
        CHECK(diti_plan_read(p->plans[i], p->state[i], x[i], sizeof x[i], &err) == DIT_OK);
        wrong += memcmp(x[i], expected[i], sizeof x[i]) != 0;
    }
    CHECK_MESSAGE(wrong == 0, "%u of 2 devices have wrong values", wrong);
}

static void test_exchange(const char *devices, const char *overrides) {
    pair p = DITI_ZERO;
    uint64_t each, before;
    p.context = open_context(devices, overrides);
    if (!p.context) return;
    make_pair(&p);
    if (p.mesh) {
        each = diti_plan_exchange_bytes(p.plans[0], 1, 1);
        CHECK(each == (ROWS - 2) * (COLUMNS - 5) * 4 && each == diti_plan_exchange_bytes(p.plans[1], 1, UINT32_MAX));
        check_pair(&p);
        before = diti_mesh_bytes(p.mesh, 0, 1);
        CHECK(before == RUNS * each && diti_mesh_bytes(p.mesh, 1, 0) == RUNS * each);
        diti_mesh_settle(p.mesh);
        check_pair(&p); /* once more, from the start */
        CHECK(diti_mesh_bytes(p.mesh, 0, UINT32_MAX) == 2 * before);
    }
    drop_pair(&p);
    dit_context_destroy(p.context);
}

/* Every transport that works here, alone; in chunks of some rows, and of parts of rows. */
static void test_transports(void) {
    static const char *const names[] = {"fd", "dma_buf", "host", "staged"};
    char overrides[96];
    unsigned i, tested = 0;
    for (i = 0; i < 4; i++) {
        dit_context_desc desc = DITI_ZERO;
        dit_context *context = NULL;
        snprintf(overrides, sizeof overrides, "transport=%s", names[i]);
        desc.devices = PAIR;
        desc.overrides = overrides;
        if (dit_context_create(&desc, &context, &err) < 0) {
            CHECK(err.result == DIT_ERROR_TRANSPORT && strstr(err.message, "cannot send"));
            printf("no transport %s here\n", names[i]);
            continue;
        }
        CHECK(context->peers->transports[0][1] == (diti_transport)i);
        dit_context_destroy(context);
        tested++;
        test_exchange(PAIR, overrides);
        snprintf(overrides, sizeof overrides, "transport=%s,chunk=256", names[i]);
        test_exchange(PAIR, overrides);
    }
    CHECK(tested >= 2);
}

/* What fails its self-test is reported and left out. */
static void test_broken(void) {
    dit_context *context = open_context(PAIR, NULL);
    char overrides[64], wanted[64];
    diti_transport best;
    if (!context) return;
    best = context->peers->transports[0][1];
    dit_context_destroy(context);
    snprintf(overrides, sizeof overrides, "break_transport=%s", diti_transport_name(best));
    context = open_context(PAIR, overrides);
    snprintf(wanted, sizeof wanted, "1 device 1 does not reach device 0 by %s", diti_transport_name(best));
    CHECK_MESSAGE(strstr(logged, wanted), "the log has no '%s':\n%s", wanted, logged);
    CHECK(context && context->peers->transports[0][1] > best);
    dit_context_destroy(context);
}

/* Two drivers in one context, where there are two: opaque descriptors of one are none of the other's business. */
static void test_mixed(void) {
    dit_device_info list[8];
    uint32_t count = 8, i;
    dit_context *context;
    char devices[2][2][300];
    if (dit_device_list(list, &count, &err) < 0 || count < 2) return;
    for (i = 1; i < count && !strcmp(list[i].name, list[0].name); i++) {
    }
    if (i == count) return;
    snprintf(devices[0][0], sizeof devices[0][0], "%s,%s", list[0].name, list[i].name);
    snprintf(devices[1][0], sizeof devices[1][0], "%s,%s", list[i].name, list[0].name);
    for (i = 0; i < 2; i++) {
        context = open_context(devices[i][0], NULL);
        printf("%s:\n%s", devices[i][0], logged);
        CHECK(context && context->peers->transports[0][1] > DITI_TRANSPORT_FD);
        dit_context_destroy(context);
        test_exchange(devices[i][0], NULL);
        test_exchange(devices[i][0], "transport=staged,chunk=1K");
    }
}

/* --- splits of a job --- */

enum { LATENT = 16 * 16 * 16, SIDE = 128 };

typedef struct outcome {
    float latent[LATENT];
    uint64_t peer_bytes;
    double fraction;
} outcome;

static double difference(const float *a, const float *b, size_t count) {
    double error = 0, norm = 0;
    size_t i;
    for (i = 0; i < count; i++) {
        error += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
        norm += (double)b[i] * b[i];
    }
    return sqrt(error / norm);
}

static dit_job_desc request(const dit_model *model, const char *split, uint32_t steps) {
    dit_job_desc desc = DITI_ZERO;
    desc.model = model;
    desc.prompt = "banana";
    desc.width = desc.height = SIDE;
    desc.steps = steps;
    desc.seed = 42;
    desc.split = split;
    return desc;
}

static dit_model *load_model(dit_context *context) {
    dit_model_desc desc = DITI_ZERO;
    dit_model *model = NULL;
    desc.source.path = "models/emoji-q8_0.gguf";
    CHECK_MESSAGE(dit_model_load(context, &desc, &model, &err) == DIT_OK, "%s", err.message);
    return model;
}

static void finish(dit_job *job, outcome *out) {
    dit_counters counters;
    dit_result result = dit_job_wait(job, 60000000000u);
    dit_job_status(job, NULL, &err);
    CHECK_MESSAGE(result == DIT_OK, "%d %s", (int)result, err.message);
    if (result == DIT_OK)
        CHECK(dit_job_read(job, DIT_READ_LATENT_F32, 0, 0, out->latent, sizeof out->latent, 0, &err) == DIT_OK);
    dit_job_get_counters(job, &counters);
    out->peer_bytes = counters.peer_bytes;
}

static void picture(const char *devices, const char *overrides, const char *split, uint32_t steps, outcome *out) {
    dit_context *context = open_context(devices, overrides);
    dit_model *model = context ? load_model(context) : NULL;
    dit_job_desc desc = request(model, split, steps);
    dit_job *job = NULL;
    memset(out, 0, sizeof *out);
    CHECK_MESSAGE(model && dit_job_create(context, &desc, &job, &err) == DIT_OK, "%s", err.message);
    if (job) finish(job, out);
    dit_job_destroy(job);
    dit_model_destroy(model);
    dit_context_destroy(context);
}

static void test_cfg(const char *devices) {
    static outcome one, two;
    picture("llvmpipe", "rung=base", NULL, 1, &one);
    picture(devices, "rung=base", "cfg2", 1, &two);
    printf("cfg2 on %s: relative L2 %.2g after a step, %llu bytes\n", devices,
           difference(two.latent, one.latent, LATENT), (unsigned long long)two.peer_bytes);
    CHECK(difference(two.latent, one.latent, LATENT) <= 1e-5);
    picture("llvmpipe", "rung=base", NULL, 4, &one);
    picture(devices, "rung=base", "cfg2", 4, &two);
    printf("cfg2 on %s: relative L2 %.2g after 4 steps\n", devices, difference(two.latent, one.latent, LATENT));
    CHECK(difference(two.latent, one.latent, LATENT) <= 1e-3);
}

int main(void) {
    test_vulkan_begin();
    test_cfg(PAIR);
    test_devices();
    test_transports();
    test_broken();
    test_mixed();
    test_vulkan_end();
    return TEST_END("split");
}
