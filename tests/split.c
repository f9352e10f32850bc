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
static char mixed[600]; /* their names; empty: there is one */

static void test_mixed(void) {
    dit_device_info list[8];
    uint32_t count = 8, i;
    dit_context *context;
    char devices[2][600];
    if (dit_device_list(list, &count, &err) < 0 || count < 2) return;
    for (i = 1; i < count && !strcmp(list[i].name, list[0].name); i++) {
    }
    if (i == count) return;
    snprintf(devices[0], sizeof devices[0], "%s,%s", list[0].name, list[i].name);
    snprintf(devices[1], sizeof devices[1], "%s,%s", list[i].name, list[0].name);
    snprintf(mixed, sizeof mixed, "%s", devices[0]);
    for (i = 0; i < 2; i++) {
        context = open_context(devices[i], NULL);
        printf("%s:\n%s", devices[i], logged);
        CHECK(context && context->peers->transports[0][1] > DITI_TRANSPORT_FD);
        dit_context_destroy(context);
        test_exchange(devices[i], NULL);
        test_exchange(devices[i], "transport=staged,chunk=1K");
    }
}

/* --- splits of a job --- */

enum { LATENTS = 16 * 16 * 16 };
static const char tiny[] = "tests/fixtures/pipe_pixart_sigma", bundled[] = "models/emoji-q8_0.gguf";

typedef struct outcome {
    float latent[LATENTS];
    size_t count;
    dit_counters counters;
} outcome;

typedef struct maker {
    dit_context *context;
    dit_model *model;
    dit_job *job;
} maker;

static double difference(const outcome *a, const outcome *b) {
    double error = 0, norm = 0;
    size_t i;
    for (i = 0; i < b->count; i++) {
        error += ((double)a->latent[i] - b->latent[i]) * ((double)a->latent[i] - b->latent[i]);
        norm += (double)b->latent[i] * b->latent[i];
    }
    return sqrt(error / norm);
}

static dit_job_desc request(const maker *m, const char *split, uint32_t side, uint32_t steps) {
    dit_job_desc desc = DITI_ZERO;
    desc.model = m->model;
    desc.prompt = "red apple";
    desc.negative_prompt = "blue";
    desc.width = desc.height = side;
    desc.steps = steps;
    desc.seed = 42;
    desc.guidance.scale = 3;
    desc.split = split;
    return desc;
}

static bool open_maker(maker *m, const char *devices, const char *overrides, const char *path) {
    dit_model_desc desc = DITI_ZERO;
    memset(m, 0, sizeof *m);
    m->context = open_context(devices, overrides);
    desc.source.path = path;
    if (!m->context) return false;
    return CHECK_MESSAGE(dit_model_load(m->context, &desc, &m->model, &err) == DIT_OK, "%s", err.message);
}

static void close_maker(maker *m) {
    dit_job_destroy(m->job);
    dit_model_destroy(m->model);
    dit_context_destroy(m->context);
}

static void read_latent(maker *m, outcome *out) {
    dit_model_info info;
    dit_output picture;
    dit_model_get_info(m->model, &info);
    memset(out, 0, sizeof *out);
    CHECK(dit_job_output(m->job, 0, 0, &picture) == DIT_OK);
    out->count =
        (size_t)info.latent_channels * (picture.width / info.latent_factor) * (picture.height / info.latent_factor);
    CHECK_MESSAGE(out->count <= LATENTS && dit_job_read(m->job, DIT_READ_LATENT_F32, 0, 0, out->latent,
                                                        sizeof out->latent, 0, &err) == DIT_OK,
                  "%s", err.message);
    dit_job_get_counters(m->job, &out->counters);
}

/* Runs the job; the latents, or the error in err. */
static dit_result finish(maker *m, outcome *out) {
    dit_result result = dit_job_wait(m->job, 60000000000u);
    dit_job_status(m->job, NULL, &err);
    if (result == DIT_OK && out) read_latent(m, out);
    return result;
}

/* What a run will send, summed before it. */
static uint64_t planned_bytes(const dit_job *job) {
    uint64_t bytes = 0;
    uint32_t i, segment, step;
    for (i = 0; i < job->share_count; i++) {
        const dit_job *share = job->shares[i];
        for (segment = 0; segment < share->step_segment; segment++)
            bytes += diti_plan_exchange_bytes(share->plan, segment, UINT32_MAX);
        for (step = 0; step < share->request.shape.steps; step++)
            bytes += diti_plan_exchange_bytes(share->plan, diti_job_step_segment(share, step), UINT32_MAX);
    }
    return bytes;
}

static void make_picture(const char *devices, const char *overrides, const char *path, const char *split, uint32_t side,
                         uint32_t steps, outcome *out) {
    maker m;
    dit_job_desc desc;
    uint64_t planned = 0;
    memset(out, 0, sizeof *out);
    if (open_maker(&m, devices, overrides, path)) {
        desc = request(&m, split, side, steps);
        CHECK_MESSAGE(dit_job_create(m.context, &desc, &m.job, &err) == DIT_OK, "%s", err.message);
        if (m.job) {
            planned = planned_bytes(m.job);
            CHECK_MESSAGE(finish(&m, out) == DIT_OK, "%s: %s", devices, err.message);
        }
        CHECK_MESSAGE(planned == out->counters.peer_bytes && (split != NULL) == (planned > 0),
                      "%llu bytes were planned, %llu sent", (unsigned long long)planned,
                      (unsigned long long)out->counters.peer_bytes);
    }
    close_maker(&m);
}

/* One evaluation of the transformer, then a few: exact splits differ by rounding alone. Closed form of the bytes: the
   text once (both prompts' rows, or those of one branch), then in every step a latent either way. */
static void check_cfg(const char *devices, const char *overrides, const char *path, uint32_t side, uint32_t steps) {
    static outcome one, two;
    make_picture("llvmpipe", "rung=base", path, NULL, side, steps, &one);
    make_picture(devices, overrides, path, "cfg2", side, steps, &two);
    printf("cfg2 on %s, %u steps: relative L2 %.2g, %llu bytes\n", devices, steps, difference(&two, &one),
           (unsigned long long)two.counters.peer_bytes);
    CHECK(difference(&two, &one) <= (steps == 1 ? 1e-5 : 1e-3));
    CHECK(two.counters.peer_bytes % 16 == 0 && two.counters.peer_bytes > 2 * steps * one.count * sizeof(float));
}

/* Other prompts, with as many rows of text and with more, and steps without guidance. */
static void test_restart(void) {
    static outcome alone[3], split[3];
    static const char *const prompts[] = {
        "red apple", "a dog",
        "a very long description of a small dog that sits beside a red apple and looks at "
        "a blue house with a green door behind which there are seven white cats"};
    maker m[2];
    uint32_t i, k;
    for (k = 0; k < 2; k++) {
        dit_job_desc desc;
        if (!open_maker(&m[k], k ? PAIR : "llvmpipe", "rung=base", tiny)) return;
        desc = request(&m[k], k ? "cfg2" : NULL, 32, 3);
        desc.guidance.last = 0.67f;
        CHECK_MESSAGE(dit_job_create(m[k].context, &desc, &m[k].job, &err) == DIT_OK, "%s", err.message);
        for (i = 0; i < 3 && m[k].job; i++) {
            desc.prompt = prompts[i];
            CHECK_MESSAGE(i == 0 || dit_job_restart(m[k].job, &desc, &err) == DIT_OK, "%s", err.message);
            if (k && i == 1) { /* in the middle of a run */
                CHECK(dit_job_step(m[k].job, 0) == DIT_WORKING && dit_job_step(m[k].job, 0) >= 0);
                dit_job_cancel(m[k].job);
                CHECK(dit_job_wait(m[k].job, UINT64_MAX) == DIT_CANCELLED);
                CHECK(dit_job_restart(m[k].job, &desc, &err) == DIT_OK);
            }
            CHECK_MESSAGE(finish(&m[k], k ? &split[i] : &alone[i]) == DIT_OK, "%s", err.message);
        }
        close_maker(&m[k]);
    }
    for (i = 0; i < 3; i++)
        CHECK_MESSAGE(difference(&split[i], &alone[i]) <= 1e-3, "prompt %u: %g", i, difference(&split[i], &alone[i]));
}

static void test_refusals(void) {
    maker m;
    dit_job_desc desc;
    if (!open_maker(&m, PAIR, "rung=base", tiny)) return;
    desc = request(&m, "cfg3", 32, 1);
    CHECK(dit_job_create(m.context, &desc, &m.job, &err) == DIT_ERROR_INVALID_ARGUMENT && strstr(err.message, "cfg3"));
    desc = request(&m, "cfg2", 32, 1);
    desc.guidance.scale = 1;
    CHECK(dit_job_create(m.context, &desc, &m.job, &err) == DIT_ERROR_INVALID_ARGUMENT &&
          strstr(err.message, "without guidance"));
    close_maker(&m);
    if (!open_maker(&m, "llvmpipe", "rung=base", tiny)) return;
    desc = request(&m, "cfg2", 32, 1);
    CHECK(dit_job_create(m.context, &desc, &m.job, &err) == DIT_ERROR_INVALID_ARGUMENT &&
          strstr(err.message, "needs 2 devices, the context has 1"));
    close_maker(&m);
}

/* A device that is lost ends the job, whose error names it, and the other one works on. */
static void test_lost(void) {
    static outcome out;
    unsigned at, lost = 0, all = getenv("DIT_TEST_ALL") && *getenv("DIT_TEST_ALL") == '1';
    uint64_t submits = 0;
    maker m;
    dit_job_desc desc;
    if (!open_maker(&m, PAIR, "rung=base", tiny)) return;
    desc = request(&m, "cfg2", 32, 2);
    CHECK(dit_job_create(m.context, &desc, &m.job, &err) == DIT_OK && finish(&m, &out) == DIT_OK);
    submits = m.context->devices[1]->submits;
    for (at = (unsigned)submits; at > 0 && lost < 100; at = all ? at - 1 : at > submits / 2 ? (unsigned)submits / 2 : 0) {
        m.context->devices[1]->submits = 0;
        close_maker(&m);
        if (!open_maker(&m, PAIR, "rung=base", tiny)) return;
        m.context->devices[1]->fail_submit_after = at;
        desc = request(&m, "cfg2", 32, 2);
        if (dit_job_create(m.context, &desc, &m.job, &err) == DIT_OK && finish(&m, NULL) == DIT_OK) continue;
        lost++;
        CHECK_MESSAGE(err.result == DIT_ERROR_DEVICE_LOST && strstr(err.message, "device 1"), "submit %u: %s", at,
                      err.message);
        dit_job_destroy(m.job);
        m.job = NULL;
        desc.split = NULL;
        CHECK_MESSAGE(dit_job_create(m.context, &desc, &m.job, &err) == DIT_OK && finish(&m, &out) == DIT_OK,
                      "the other device: %s", err.message);
    }
    printf("device 1 was lost at %u of its submits\n", lost);
    CHECK(lost > 1);
    close_maker(&m);
}

int main(void) {
    test_vulkan_begin();
    test_devices();
    test_transports();
    test_broken();
    test_mixed();
    check_cfg(PAIR, "rung=base", tiny, 32, 1);
    check_cfg(PAIR, "rung=base,transport=staged,chunk=1K", tiny, 32, 4);
    check_cfg(PAIR, "rung=base", bundled, 64, 2);
    if (mixed[0]) check_cfg(mixed, "rung=base", tiny, 32, 4);
    test_restart();
    test_refusals();
    test_lost();
    test_vulkan_end();
    return TEST_END("split");
}
