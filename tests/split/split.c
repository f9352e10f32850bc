/* Several devices: the set in a context, transports and their self-tests, exchanges of plans that run side by side, and
   splits of a job. Every transport that the devices have is forced in turn; bytes counted by transports equal the sum
   of what the plans said beforehand. */
/* test-runs: lavapipe */
#include "library.h"
#include "split_job.h"
#include "split_ranks.h"
#include "vulkan_test.h"
#include "vulkan_faults.h"
#include "vae_bytes.h"
#include <limits.h>

static bool full; /* the sweeps of make test-all */
#define PAIR "llvmpipe,llvmpipe"

/* --- the set of devices --- */

static char logged[8192];

static void keep_log(int level, const char *message, void *user) {
    size_t used = strlen(logged);
    (void)user;
    snprintf(logged + used, sizeof logged - used, "%d %s\n", level, message);
}

static bool traced, traced_lightly; /* contexts to come */

static dit_context *open_context(const char *devices, const char *overrides) {
    dit_context_desc desc = DITI_ZERO;
    dit_context *context = NULL;
    desc.devices = devices;
    desc.overrides = overrides;
    desc.logger.func = keep_log;
    desc.logger.max_level = 2;
    desc.trace = traced;
    desc.trace_light = traced_lightly;
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
    CHECK_MESSAGE(diti_mesh_create(p->context->peers, p->plans, NULL, 2, &p->mesh, &err) == DIT_OK, "%s", err.message);
}

static void drop_pair(pair *p) {
    diti_mesh_destroy(p->mesh);
    diti_plan_destroy(p->plans[0]);
    diti_plan_destroy(p->plans[1]);
}

/* Runs plans as a job does, without budgets. */
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
    static const char *const names[] = {"group", "fd", "dma_buf", "host", "staged"};
    char overrides[96];
    unsigned i, tested = 0;
    for (i = 0; i < 5; i++) {
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
        if (full) test_exchange(PAIR, overrides);
        snprintf(overrides, sizeof overrides, "transport=%s,chunk=256", names[i]);
        test_exchange(PAIR, overrides);
    }
    CHECK(tested >= 2);
}

/* A transport that fails its self-test is reported and left out. */
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
    char devices[2][600];
    if (dit_device_list(list, &count, &err) < 0 || count < 2) return;
    for (i = 1; i < count && !strcmp(list[i].name, list[0].name); i++) {
    }
    if (i == count) return;
    snprintf(devices[0], sizeof devices[0], "%s,%s", list[0].name, list[i].name);
    snprintf(devices[1], sizeof devices[1], "%s,%s", list[i].name, list[0].name);
    snprintf(mixed, sizeof mixed, "%s", devices[strncmp(list[0].name, "llvmpipe", 8) != 0]); /* the faster one first */
    test_exchange(devices[0], NULL);
    CHECK(strstr(logged, "device 0 reaches device 1 by") && !strstr(logged, "by fd"));
    if (full) test_exchange(devices[1], "transport=staged,chunk=1K");
}

/* --- traces: copies have a lane of their own --- */

static char trace_text[1 << 23]; /* a slow machine has more slices */
static size_t trace_size;

static bool keep_trace(const void *data, size_t size, void *user) {
    (void)user;
    if (size >= sizeof trace_text - trace_size) return false;
    memcpy(trace_text + trace_size, data, size);
    trace_size += size;
    trace_text[trace_size] = 0;
    return true;
}

static uint32_t count_of(const char *text, const char *part) {
    uint32_t count = 0;
    for (; (text = strstr(text, part)); text++) count++;
    return count;
}

static void check_trace(dit_context *context) {
    diti_env env;
    diti_json *json = NULL;
    trace_size = 0;
    CHECK_MESSAGE(dit_trace_write(context, keep_trace, NULL, &err) == DIT_OK, "%s", err.message);
    CHECK(diti_env_init(&env, NULL, NULL, NULL) == DIT_OK &&
          diti_json_parse(&env, trace_text, trace_size, "trace", &json, &err) == DIT_OK);
    diti_json_free(&env, json);
    CHECK(count_of(trace_text, "\"name\":\"copy between devices") >= 1);
    CHECK(count_of(trace_text, "\"name\":\"0 to 1: ") >= 2 && count_of(trace_text, "\"name\":\"1 to 0: ") >= 1);
    if (traced_lightly)
        CHECK(count_of(trace_text, "\"cat\":\"slice\"") == 0);
    else
        CHECK(count_of(trace_text, "\"pid\":3,") > 10); /* ops of the second device */
}

/* --- splits of a job --- */

enum { SIDE = 96 };

/* Two devices with the tiny model serve many tests: to open them and to make their pipelines takes longer than a test.
 */
static maker kept;

static bool open_maker(maker *m, const char *devices, const char *overrides, const char *path) {
    bool usual = !traced && !strcmp(devices, PAIR) && !strcmp(overrides, "rung=base") && path == tiny;
    memset(m, 0, sizeof *m);
    if (usual) *m = kept;
    if (m->context) return true;
    m->context = open_context(devices, overrides);
    if (!m->context || !CHECK_MESSAGE(load_pipeline(m, path) == DIT_OK, "%s", err.message)) return false;
    if (usual) kept = *m;
    return true;
}

static void leave_maker(maker *m) {
    if (kept.context && m->context == kept.context)
        dit_job_destroy(m->job);
    else
        close_maker(m);
}

static void read_outcome(maker *m, outcome *out) {
    dit_output picture;
    memset(out, 0, sizeof *out);
    CHECK(dit_job_output(m->job, 0, 0, &picture) == DIT_OK);
    CHECK_MESSAGE(read_latent(m->job, 0, out) == DIT_OK, "%s", err.message);
    CHECK_MESSAGE(read_picture(m->job, out) == DIT_OK && out->pixels == (size_t)3 * picture.width * picture.height,
                  "%s", err.message);
    out->sent = sent_bytes(m->job);
}

/* Runs the job; the latents, or the error in err. */
static dit_result finish(maker *m, outcome *out) {
    dit_result result = wait_for(m->job, 60);
    if (result == DIT_OK && out) read_outcome(m, out);
    return result;
}

static dit_result make_picture(maker *m, const dit_job_desc *desc, outcome *out) {
    dit_result result;
    uint64_t planned;
    memset(out, 0, sizeof *out);
    result = make_job(m, desc);
    if (result < 0) return result;
    planned = planned_bytes(m->job, false);
    result = finish(m, out);
    if (result == DIT_OK)
        CHECK_MESSAGE(planned == out->sent && (m->job->shares[0]->assignment.share_total > 1) == (planned > 0),
                      "%llu bytes were planned, %llu sent", (unsigned long long)planned, (unsigned long long)out->sent);
    return result;
}

/* The closed form of what decoding sends. */
static uint64_t decode_bytes(const dit_job *job) {
    const diti_job_request *request = &job->request;
    diti_ranks group = DITI_ZERO;
    uint64_t bytes = 0;
    uint32_t i;
    group.count = job->shares[0]->assignment.share_total;
    for (i = 0; i < group.count; i++)
        bytes += vae_strip_bytes(job->model->vae, 4, &group, i, request->latent_height, request->latent_width) +
                 vae_picture_bytes(job->model->vae, &group, i, request->latent_height, request->latent_width);
    return bytes;
}

static outcome reference; /* two steps of the tiny model */

/* Against the first device alone: one evaluation of the transformer, then a few; exact splits differ by rounding alone.
   Closed form of the bytes: the text once, then in every step the latent either way, and what decoding sends. */
static void check_cfg(const char *devices, const char *overrides, const char *path, uint32_t side, uint32_t most) {
    static outcome one, two;
    uint64_t text = 0;
    uint32_t steps;
    maker m;
    dit_job_desc desc;
    bool first = path == tiny && !strcmp(devices, PAIR);
    traced_lightly = path == bundled;
    traced = first || traced_lightly;
    for (steps = open_maker(&m, devices, overrides, path) ? 1 : most + 1; steps <= most;
         steps = steps == 1 && most > 1 ? most : most + 1) {
        desc = request(&m, NULL, side, steps);
        CHECK_MESSAGE(make_picture(&m, &desc, &one) == DIT_OK, "%s: %s", devices, err.message);
        desc.split = "cfg2";
        CHECK_MESSAGE(make_picture(&m, &desc, &two) == DIT_OK, "%s: %s", devices, err.message);
        printf("cfg2 on %s, %u steps: relative L2 %.2g, of the picture %.2g, %llu bytes\n", devices, steps,
               difference(&two, &one), picture_difference(&two, &one), (unsigned long long)two.sent);
        CHECK(difference(&two, &one) <= (steps == 1 ? 1e-5 : 1e-3));
        CHECK(picture_difference(&two, &one) <= (steps == 1 ? 1e-5 : 1e-3));
        if (m.job && steps == 1)
            text =
                diti_plan_exchange_bytes(m.job->shares[0]->program.plan, m.job->shares[0]->program.encode_segment, 1);
        if (traced && steps == 1) check_trace(m.context);
        if (first) reference = one;
        CHECK(text && m.job && two.sent == text + 2 * steps * one.count * sizeof(float) + decode_bytes(m.job));
    }
    leave_maker(&m);
    traced = traced_lightly = false;
}

/* Rows divided among devices: every split is exact. */
static void check_sequence(const char *devices, const char *path, uint32_t side, const char *const *splits) {
    static outcome one, two;
    maker m;
    dit_job_desc desc;
    uint32_t steps;
    if (!open_maker(&m, devices, "rung=base", path)) return;
    for (steps = 1; steps <= 3; steps += 2) {
        const char *const *split;
        desc = request(&m, NULL, side, steps);
        CHECK_MESSAGE(make_picture(&m, &desc, &one) == DIT_OK, "%s: %s", devices, err.message);
        for (split = splits; *split; split++) {
            desc.split = *split;
            CHECK_MESSAGE(make_picture(&m, &desc, &two) == DIT_OK, "%s on %s: %s", *split, devices, err.message);
            printf("%s on %s, %u steps: relative L2 %.2g, %llu bytes\n", *split, devices, steps, difference(&two, &one),
                   (unsigned long long)two.sent);
            CHECK(difference(&two, &one) <= (steps == 1 ? 1e-5 : 1e-3));
        }
    }
    leave_maker(&m);
}

/* The first step has nothing to make up for: it is that of ring2,int8. A second run begins as the first did. */
static void check_feedback(maker *m, const outcome *int8) {
    static outcome once, again;
    dit_job_desc desc = request(m, "ring2,int8:e", 32, 1);
    CHECK_MESSAGE(make_picture(m, &desc, &once) == DIT_OK && difference(&once, int8) == 0, "%s", err.message);
    desc.steps = 4;
    CHECK_MESSAGE(make_picture(m, &desc, &once) == DIT_OK, "%s", err.message);
    desc.split = "ring2,int8";
    CHECK(make_picture(m, &desc, &again) == DIT_OK && difference(&once, &again) > 1e-7 &&
          difference(&once, &again) < 1e-1);
    desc.split = "ring2,int8:e";
    CHECK(make_picture(m, &desc, &again) == DIT_OK && difference(&once, &again) == 0);
    again.count = 0;
    CHECK(dit_job_restart(m->job, &desc, &err) == DIT_OK && wait_for(m->job, 60) == DIT_OK &&
          read_latent(m->job, 0, &again) == DIT_OK && difference(&once, &again) == 0);
}

/* Rows as int8 with a scale each lose about 2e-3 of a prediction. */
static void test_int8_payload(void) {
    static const char *const splits[] = {"ulysses2,int8", "ring2,int8"};
    static outcome one, exact, two;
    dit_job_desc desc;
    maker m;
    uint32_t i;
    if (!open_maker(&m, PAIR, "rung=base", tiny)) return;
    desc = request(&m, NULL, 32, 1);
    CHECK(make_picture(&m, &desc, &one) == DIT_OK);
    desc.split = "ulysses2";
    CHECK(make_picture(&m, &desc, &exact) == DIT_OK);
    for (i = 0; i < 2; i++) {
        desc.split = splits[i];
        CHECK_MESSAGE(make_picture(&m, &desc, &two) == DIT_OK, "%s: %s", splits[i], err.message);
        printf("%s: relative L2 %.2g, %llu bytes\n", splits[i], difference(&two, &one), (unsigned long long)two.sent);
        CHECK(difference(&two, &one) <= 1e-2 && difference(&two, &one) > 1e-6);
        CHECK(two.sent < exact.sent);
    }
    check_feedback(&m, &two);
    leave_maker(&m);
}

static void test_sequences(void) {
    static const char *const on_two[] = {"ulysses2", "ring2", NULL}, *const on_three[] = {"ring3", NULL},
                             *const on_four[] = {"cfg2,ulysses2", "ulysses2,ring2", NULL};
    check_sequence(PAIR, tiny, 32, on_two);
    if (full) check_sequence("llvmpipe,llvmpipe,llvmpipe", tiny, 48, on_three);
    check_sequence("llvmpipe,llvmpipe,llvmpipe,llvmpipe", tiny, 32, full ? on_four : on_four + 1);
}

/* --- plans, unequal shares, and what the planner chooses --- */
#define PLAN "{\"format\": \"dit-split-plan\", \"version\": 1, \"split\": "
#define PLAN_FILE "build/test_split_plan.json"

static uint32_t rows_of(const maker *m, uint32_t share) {
    return m->job && share < m->job->share_count ? m->job->shares[share]->program.step.token_range.rows : 0;
}

/* Each device has the part of the rows that its share says; the picture stays what it is. */
static void check_shares(maker *m, dit_job_desc *desc, const outcome *one, const char *split, const double *shares) {
    static outcome two;
    dit_share told[DITI_MAX_DEVICES];
    uint32_t i, all = 0, count = DITI_MAX_DEVICES;
    desc->split = split;
    CHECK_MESSAGE(make_picture(m, desc, &two) == DIT_OK, "%.80s: %s", split, err.message);
    CHECK_MESSAGE(difference(&two, one) <= 1e-5, "%.80s: %g", split, difference(&two, one));
    CHECK(picture_difference(&two, one) <= 1e-5);
    for (i = 0; m->job && i < m->job->share_count; i++) all += rows_of(m, i);
    for (i = 0; m->job && i < m->job->share_count; i++)
        CHECK_MESSAGE(fabs(rows_of(m, i) - shares[i] * all) <= 1, "share %u: %u rows of %u", i, rows_of(m, i), all);
    CHECK(m->job && dit_job_shares(m->job, told, &count, &err) == DIT_OK && count == m->job->share_count);
    for (i = 0; m->job && i < count; i++)
        CHECK(told[i].device == i && fabs((double)told[i].part - shares[i]) < 1e-6 && strstr(told[i].work, "rows") &&
              told[i].step_bytes == diti_plan_exchange_bytes(m->job->shares[i]->program.plan,
                                                             m->job->shares[0]->program.step_segment, UINT32_MAX));
    CHECK(dit_job_shares(NULL, NULL, &count, &err) < 0 && dit_job_shares(m->job, NULL, NULL, &err) < 0);
    printf("shares of %.80s: relative L2 %.2g, %u, %u, ... rows\n", split, difference(&two, one), rows_of(m, 0),
           rows_of(m, 1));
}

/* Devices that compute slowly help each other; over slow links they do not; a faster one gets more of the work. */
static void check_auto(maker *m, dit_job_desc *desc, const outcome *one) {
    static outcome two;
    desc->split = "auto";
    pretend(m, 1e9, 1e11);
    logged[0] = 0;
    CHECK_MESSAGE(make_picture(m, desc, &two) == DIT_OK && difference(&two, one) <= 1e-5, "%s", err.message);
    CHECK_MESSAGE(m->job && m->job->shares[0]->assignment.share_total == 3 &&
                      strstr(logged, "split auto: ring3 of 3 devices"),
                  "%s", logged);
    CHECK_MESSAGE(strstr(logged, "2 device 0 sent ") && strstr(logged, " MB to device 1 by ") &&
                      strstr(logged, " GB/s"),
                  "%s", logged);
    CHECK(m->job && dit_job_restart(m->job, desc, &err) == DIT_OK);
    if (full) CHECK(finish(m, &two) == DIT_OK && difference(&two, one) <= 1e-5);
    desc->split = "cfg2";
    CHECK(m->job && dit_job_restart(m->job, desc, &err) < 0 && strstr(err.message, "split differs"));
    desc->split = "auto";
    pretend(m, 1e13, 1e4);
    CHECK(make_picture(m, desc, &two) == DIT_OK && m->job->shares[0]->assignment.share_total == 1 &&
          difference(&two, one) == 0);
    pretend(m, 1e9, 1e11);
    m->context->devices[1]->speed.us_per_gflop *= 4;
    snprintf(m->context->devices[1]->info.name, sizeof m->context->devices[1]->info.name, "a slower one");
    desc->split = "ring3";
    CHECK_MESSAGE(make_job(m, desc) == DIT_OK, "%s", err.message);
    CHECK_MESSAGE(rows_of(m, 0) == rows_of(m, 2) && rows_of(m, 1) * 3 < rows_of(m, 0) && rows_of(m, 1) > 0,
                  "%u, %u, %u rows", rows_of(m, 0), rows_of(m, 1), rows_of(m, 2));
}

/* Where the weights fill no device whole, auto divides them. */
static void check_auto_memory(maker *m) {
    dit_job_desc desc = request(m, "auto", 32, 1);
    VkDeviceSize limits[2], bytes = m->model->transformer->component.weights.bytes;
    dit_memory memory;
    uint32_t i;
    for (i = 0; i < 2; i++) {
        diti_device *device = m->context->devices[i];
        limits[i] = device->memory_limit;
        device->memory_limit = device->memory_used + bytes * 8 / 10 - (i ? 0 : bytes);
    }
    pretend(m, 1e13, 1e4);
    CHECK_MESSAGE(dit_job_memory(m->context, &desc, &memory, &err) == DIT_OK, "%s", err.message);
    CHECK_MESSAGE((strstr(memory.split, "tensor2") || strstr(memory.split, "layers2")) && memory.seconds > 0, "%s",
                  memory.split);
    for (i = 0; i < 2; i++) {
        m->context->devices[i]->memory_limit = limits[i];
        m->context->devices[i]->calibrated = false;
        CHECK(diti_device_measure(m->context->devices[i], &err) == DIT_OK && m->context->devices[i]->calibrated);
    }
    m->context->peers->links.count = 0;
}

/* Over links that are slow for what goes between layers, PipeFusion is the fastest: only auto:any takes it. */
static void check_auto_any(maker *m) {
    static const char *const names[] = {"auto", "auto:any"};
    dit_memory memory;
    size_t i;
    for (i = 0; i < DITI_COUNT(names); i++) {
        dit_job_desc desc = request(m, names[i], 1024, 20);
        desc.guidance.scale = 1;
        pretend(m, 1e9, 3e5);
        CHECK_MESSAGE(dit_job_memory(m->context, &desc, &memory, &err) == DIT_OK, "%s", err.message);
        CHECK_MESSAGE(!strstr(memory.split, "pipefusion") == !i, "%s: %s", names[i], memory.split);
        printf("%s: %s\n", names[i], memory.split);
    }
    m->context->peers->links.count = 0;
}

/* A device with F16 beside one without it: both compute with F32, and the picture is that of the base rung. */
static void test_mixed_rungs(void) {
    static const char *const splits[] = {"ulysses2", "layers2", "ring2", "tensor2", "cfg2", "cfg2,shard"};
    static outcome out;
    uint32_t base, i;
    maker m;
    for (base = 0; base < 2; base++) {
        if (!open_maker(&m, PAIR, base ? "rung=half" : "rung=fp16", tiny)) return;
        m.context->devices[base]->rung = DITI_RUNG_BASE;
        for (i = base; i < (full ? DITI_COUNT(splits) : base + 1); i++) {
            dit_job_desc desc = request(&m, splits[i], 32, 2);
            CHECK_MESSAGE(make_picture(&m, &desc, &out) == DIT_OK && difference(&out, &reference) <= 1e-5,
                          "%s, device %u on the base rung: %s, off by %.3g", splits[i], base, err.message,
                          difference(&out, &reference));
        }
        leave_maker(&m);
    }
}

static void check_plan_refusals(maker *m) {
    static const char *const cases[][2] = {{"@" PLAN_FILE, "split ring3 needs 3 devices"},
                                           {"@build/no_such_plan.json", "no_such_plan.json"},
                                           {PLAN "\"ring2\", \"shares\": [0.5, 0.3]}", "do not sum to 1"}};
    size_t i;
    for (i = 0; i < DITI_COUNT(cases); i++) {
        dit_job_desc desc = request(m, cases[i][0], 32, 1);
        CHECK_MESSAGE(make_job(m, &desc) < 0 && strstr(err.message, cases[i][1]), "%s: %s", cases[i][0], err.message);
    }
}

static void test_plans(void) {
    static const double three[] = {0.5, 0.3, 0.2}, two[] = {0.75, 0.25}, four[] = {0.36, 0.14, 0.2, 0.3};
    static const char text[] = PLAN "\"ring3\", \"shares\": [0.5, 0.3, 0.2]}";
    static outcome one, out;
    FILE *file = fopen(PLAN_FILE, "wb");
    maker m;
    dit_job_desc desc;
    if (CHECK(file != NULL)) fputs(text, file), fclose(file);
    if (!open_maker(&m, "llvmpipe,llvmpipe,llvmpipe", "rung=base", tiny)) return;
    desc = request(&m, NULL, SIDE, 1);
    CHECK(make_picture(&m, &desc, &one) == DIT_OK);
    check_shares(&m, &desc, &one, "@" PLAN_FILE, three);
    check_auto(&m, &desc, &one);
    leave_maker(&m);
    if (!open_maker(&m, PAIR, "rung=base", tiny)) return;
    check_plan_refusals(&m);
    dit_job_destroy(m.job);
    m.job = NULL;
    check_auto_memory(&m);
    check_auto_any(&m);
    desc = request(&m, "auto", 32, 2); /* measured in earnest */
    CHECK_MESSAGE(make_picture(&m, &desc, &out) == DIT_OK && difference(&out, &reference) <= 1e-5, "%s", err.message);
    CHECK_MESSAGE(m.context->peers->links.count == 2 && m.context->peers->links.inside.pair > 1e6 &&
                      m.context->devices[1]->calibrated && strstr(logged, "2 devices exchange"),
                  "%s", logged);
    desc.split = NULL;
    desc.steps = 1;
    if (full && make_picture(&m, &desc, &one) == DIT_OK)
        check_shares(&m, &desc, &one, PLAN "\"ulysses2\", \"shares\": [0.75, 0.25]}", two);
    leave_maker(&m);
    remove(PLAN_FILE);
    if (!full || !open_maker(&m, "llvmpipe,llvmpipe,llvmpipe,llvmpipe", "rung=base", bundled)) return;
    desc = request(&m, NULL, SIDE, 1);
    CHECK(make_picture(&m, &desc, &one) == DIT_OK);
    check_shares(&m, &desc, &one, PLAN "\"ulysses3\", \"shares\": [0.5, 0.3, 0.2]}", three);
    check_shares(&m, &desc, &one, PLAN "\"ulysses2,ring2\", \"shares\": [0.36, 0.14, 0.2, 0.3]}", four);
    leave_maker(&m);
}

/* Several pictures in tiles, which go to devices as a whole, and a preview, which is the first one's alone. */
static void test_tiles(void) {
    static float second[2][3 * SIDE * SIDE];
    static uint8_t previews[2][4 * SIDE * SIDE];
    static outcome out[2];
    dit_model_info info;
    dit_job_desc desc;
    maker m;
    uint32_t i;
    if (!open_maker(&m, PAIR, "rung=base", tiny)) return;
    dit_model_get_info(m.model, &info);
    for (i = 0; i < 2; i++) {
        desc = request(&m, i ? "cfg2" : NULL, 10 * info.latent_factor, 2); /* four tiles */
        desc.vae_tile = 8 * info.latent_factor;
        desc.preview_interval = 1;
        desc.image_count = 2;
        CHECK_MESSAGE(make_picture(&m, &desc, &out[i]) == DIT_OK, "%s", err.message);
        CHECK(dit_job_read(m.job, DIT_READ_RGB_F32, 1, 0, second[i], sizeof second[i], 0, &err) == DIT_OK &&
              dit_job_read(m.job, DIT_READ_PREVIEW, 0, 0, previews[i], sizeof previews[i], 0, &err) == DIT_OK);
    }
    CHECK(picture_difference(&out[1], &out[0]) <= 1e-5 &&
          relative_l2(second[1], second[0], NULL, out[0].pixels) <= 1e-5 &&
          relative_l2(second[1], out[1].picture, NULL, out[0].pixels) > 1e-2);
    CHECK(previews[0][3] == 255 && !memcmp(previews[0], previews[1], sizeof previews[0]));
    leave_maker(&m);
}

/* Other prompts, with as many rows of text and with more, and steps without guidance. */
static void test_restart(void) {
    static outcome alone, split;
    static const char *const prompts[] = {
        "a dog", "a very long description of a small dog that sits beside a red apple and looks at "
                 "a blue house with a green door behind which there are seven white cats"};
    maker m;
    dit_job *first = NULL;
    dit_job_desc desc;
    uint32_t i;
    if (!open_maker(&m, PAIR, "rung=base", tiny)) return;
    desc = request(&m, "cfg2", 32, 2);
    desc.guidance.last = 0.5f;
    CHECK_MESSAGE(dit_job_create(m.context, &desc, &first, &err) == DIT_OK, "%s", err.message);
    for (i = 0; i < 2 && first; i++) {
        desc.prompt = prompts[i];
        desc.split = "cfg2";
        m.job = first;
        if (i == 0) { /* in the middle of a run */
            CHECK(dit_job_step(m.job, 0) == DIT_WORKING && dit_job_step(m.job, 0) >= 0);
            dit_job_cancel(m.job);
            CHECK(dit_job_wait(m.job, UINT64_MAX) == DIT_CANCELLED);
        }
        CHECK_MESSAGE(dit_job_restart(m.job, &desc, &err) == DIT_OK && finish(&m, &split) == DIT_OK, "%s", err.message);
        m.job = NULL;
        desc.split = NULL;
        CHECK(make_picture(&m, &desc, &alone) == DIT_OK);
        CHECK_MESSAGE(difference(&split, &alone) <= 1e-3, "prompt %u: %g", i, difference(&split, &alone));
        dit_job_destroy(m.job);
        m.job = NULL;
    }
    dit_job_destroy(first);
    leave_maker(&m);
}

static void test_refusals(void) {
    maker m;
    dit_job_desc desc;
    if (!open_maker(&m, PAIR, "rung=base", tiny)) return;
    desc = request(&m, "ulysses32", 32, 1);
    CHECK(dit_job_create(m.context, &desc, &m.job, &err) == DIT_ERROR_INVALID_ARGUMENT && strstr(err.message, "heads"));
    desc.split = "cfg2,";
    CHECK(dit_job_create(m.context, &desc, &m.job, &err) == DIT_ERROR_INVALID_ARGUMENT && strstr(err.message, "write"));
    desc = request(&m, "cfg2", 32, 1);
    desc.guidance.scale = 1;
    CHECK(dit_job_create(m.context, &desc, &m.job, &err) == DIT_ERROR_INVALID_ARGUMENT &&
          strstr(err.message, "without classifier-free guidance"));
    leave_maker(&m);
    if (!open_maker(&m, "llvmpipe", "rung=base", tiny)) return;
    desc = request(&m, "cfg2", 32, 1);
    CHECK(dit_job_create(m.context, &desc, &m.job, &err) == DIT_ERROR_INVALID_ARGUMENT &&
          strstr(err.message, "needs 2 devices, the context has 1"));
    leave_maker(&m);
}

static const char *failing_split = "cfg2";

/* A device that is lost ends the job, whose error names it, and the other one works on. */
static void test_lost(void) {
    static outcome out;
    unsigned at, lost = 0;
    bool fails = true;
    maker m;
    dit_job_desc desc;
    if (!open_maker(&m, PAIR, "rung=base", tiny)) return;
    for (at = full ? 1 : 5; fails; at++) {
        diti_device *device = m.context->devices[1];
        device->lost = 0; /* it never was */
        device->submits = 0;
        device->fail_submit_after = at;
        desc = request(&m, failing_split, 32, 2);
        fails = make_picture(&m, &desc, &out) != DIT_OK;
        if (!fails) break;
        lost++;
        CHECK_MESSAGE(err.result == DIT_ERROR_DEVICE_LOST && strstr(err.message, "device 1"), "submit %u: %s", at,
                      err.message);
        desc.split = NULL;
        CHECK_MESSAGE(make_picture(&m, &desc, &out) == DIT_OK, "the other device: %s", err.message);
        fails = full;
    }
    leave_maker(&m);
    printf("%s: device 1 was lost at %u of its submits\n", failing_split, lost);
    CHECK(lost > (full ? 5 : 0));
}

/* --- calls of the second device that fail: memory is out, or it is lost --- */

static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL plain_entry(VkInstance instance, const char *name) {
    return test_vulkan_function(instance, name);
}

/* The second device's calls can be made to fail. */
static dit_result open_faulty(dit_context **out) {
    dit_vulkan through[2] = {{0}, {0}};
    dit_context_desc desc = DITI_ZERO;
    through[0].get_instance_proc_addr = plain_entry;
    through[1].get_instance_proc_addr = fault_get_instance_proc_addr;
    desc.vulkan = through;
    desc.vulkan_count = 2;
    desc.overrides = "rung=base,mapped=0";
    fault_begin(0, VK_ERROR_OUT_OF_DEVICE_MEMORY);
    return dit_context_create(&desc, out, &err);
}

static dit_result faulty_picture(maker *m, const char *only, unsigned at, VkResult code, outcome *out) {
    dit_job_desc desc = request(m, failing_split, 32, 2);
    dit_result result;
    fault_begin(at, code);
    fault_only = only;
    result = make_picture(m, &desc, out);
    fault_only = NULL;
    fault_at = 0;
    return result;
}

/* A call that fails ends the job with an error, or there is a way around it; the next job is right. */
static void check_fault(maker *m, const char *only, unsigned at, VkResult code) {
    static outcome out;
    dit_result result = faulty_picture(m, only, at, code, &out);
    if (result < 0)
        CHECK_MESSAGE(result == DIT_ERROR_OUT_OF_DEVICE_MEMORY && strstr(err.message, "device 1"), "%s %u: %d %s",
                      fault_name ? fault_name : "-", at, (int)result, err.message);
    CHECK_MESSAGE(faulty_picture(m, NULL, 0, code, &out) == DIT_OK && difference(&out, &reference) <= 1e-3, "%s: %s",
                  only ? only : "next", err.message);
}

static void test_faults(void) {
    static const char *const some[] = {"vkAllocateMemory", "vkQueueSubmit", "vkCreateCommandPool"};
    static outcome out;
    const char *names[FAULT_MOST];
    maker m = DITI_ZERO;
    unsigned i, calls;
    CHECK_MESSAGE(open_faulty(&m.context) == DIT_OK && load_pipeline(&m, tiny) == DIT_OK, "%s", err.message);
    if (m.model && !full)
        for (i = 0; i < 2; i++) check_fault(&m, some[i], 1, VK_ERROR_OUT_OF_DEVICE_MEMORY);
    if (m.model && full && CHECK(faulty_picture(&m, NULL, 0, VK_ERROR_OUT_OF_DEVICE_MEMORY, &out) == DIT_OK)) {
        calls = fault_calls < FAULT_MOST ? fault_calls : FAULT_MOST;
        memcpy(names, fault_names, sizeof names);
        for (i = 0; i < calls; i++)
            if (i == 0 || i + 1 == calls || strcmp(names[i], names[i - 1]) || strcmp(names[i], names[i + 1]))
                check_fault(&m, NULL, i + 1, VK_ERROR_OUT_OF_DEVICE_MEMORY);
        printf("%s: %u calls of device 1\n", failing_split, calls);
    }
    leave_maker(&m);
}

/* A call that fails while links are measured gives an error or none and leaves nothing behind; the next try works. */
static void test_measure_faults(void) {
    dit_context *context = NULL;
    const char *names[FAULT_MOST];
    unsigned at, calls, failed = 0, tried = 0;
    if (!CHECK_MESSAGE(open_faulty(&context) == DIT_OK, "%s", err.message)) return;
    fault_begin(0, VK_ERROR_OUT_OF_DEVICE_MEMORY);
    CHECK(diti_peers_measure(context->peers, &err) == DIT_OK);
    calls = fault_calls < FAULT_MOST ? fault_calls : FAULT_MOST;
    memcpy(names, fault_names, sizeof names);
    for (at = 0; at < calls; at++) { /* the first and the last of calls alike */
        dit_result result;
        if (at && at + 1 < calls && !strcmp(names[at], names[at - 1]) && !strcmp(names[at], names[at + 1])) continue;
        if (tried > 60 && at + 1 < calls) continue;
        fault_begin(at + 1, VK_ERROR_OUT_OF_DEVICE_MEMORY);
        context->peers->links.count = 0;
        result = diti_peers_measure(context->peers, &err);
        fault_at = 0;
        failed += result < 0;
        tried++;
        CHECK_MESSAGE(result == DIT_OK || result == DIT_ERROR_OUT_OF_DEVICE_MEMORY || result == DIT_ERROR_VULKAN,
                      "call %u, %s: %d %s", at, names[at], (int)result, err.message);
    }
    printf("measuring failed at %u of %u calls\n", failed, tried);
    CHECK(failed > 0);
    context->peers->links.count = 0;
    CHECK(diti_peers_measure(context->peers, &err) == DIT_OK && context->peers->links.inside.pair > 0);
    dit_context_destroy(context);
}

static void test_failing(void) {
    static const char *const splits[] = {"cfg2", "ulysses2", "ring2"};
    unsigned i;
    for (i = 0; i < (full ? 3 : 1); i++) { /* tests/split/split_lanes.c has one fault for each kind of exchange */
        failing_split = splits[i];
        test_lost();
        test_faults();
    }
    failing_split = splits[0];
}

/* --- ranks: two contexts that know of each other by the application's transport alone --- */

static bool open_rank(maker *m, uint32_t *rank, const char *overrides) {
    dit_context_desc desc = DITI_ZERO;
    dit_job_desc job;
    memset(m, 0, sizeof *m);
    desc.devices = "llvmpipe";
    desc.overrides = overrides;
    desc.transport = rank_transport(rank, 2);
    if (!CHECK_MESSAGE(dit_context_create(&desc, &m->context, &err) == DIT_OK && load_pipeline(m, tiny) == DIT_OK, "%s",
                       err.message))
        return false;
    job = request(m, "cfg2", 32, 2);
    job.preview_interval = 1;
    return CHECK_MESSAGE(dit_job_create(m->context, &job, &m->job, &err) == DIT_OK, "%s", err.message);
}

/* Both begin again and take some steps, so that each has heard the other. */
static void set_out(maker *m) {
    int i, turns;
    for (i = 0; i < 2; i++) {
        dit_job_desc desc = request(&m[i], "cfg2", 32, 40);
        CHECK_MESSAGE(dit_job_create(m[i].context, &desc, &m[i].job, &err) == DIT_OK, "%s", err.message);
    }
    for (turns = 0; turns < 20; turns++)
        for (i = 0; i < 2; i++) CHECK(dit_job_step(m[i].job, 1000) == DIT_WORKING);
}

static void expect_end(maker *m, const char *words, uint64_t most_us) {
    uint64_t begin = diti_clock_us();
    CHECK(dit_job_wait(m->job, 40000000000u) == DIT_ERROR_TRANSPORT);
    dit_job_status(m->job, NULL, &err);
    CHECK_MESSAGE(strstr(err.message, words), "%s", err.message);
    CHECK_MESSAGE(diti_clock_us() - begin < most_us, "after %.1f s", (double)(diti_clock_us() - begin) * 1e-6);
    printf("%s\n", err.message);
}

static void drop_jobs(maker *m) {
    int i;
    for (i = 0; i < 2; i++) {
        dit_job_destroy(m[i].job);
        m[i].job = NULL;
    }
    lose_letters();
}

/* Both ranks run to their end. */
static void finish_ranks(maker *m, outcome *out) {
    dit_result results[2] = {DIT_WORKING, DIT_WORKING};
    uint64_t begin = diti_clock_us();
    while ((results[0] == DIT_WORKING || results[1] == DIT_WORKING) && diti_clock_us() - begin < 60000000) {
        results[0] = dit_job_wait(m[0].job, 1000000);
        results[1] = dit_job_wait(m[1].job, 1000000);
    }
    dit_job_status(m[0].job, NULL, &err);
    CHECK_MESSAGE(results[0] == DIT_OK && results[1] == DIT_OK, "%d, %d: %s", (int)results[0], (int)results[1],
                  err.message);
    if (results[0] == DIT_OK) read_outcome(&m[0], out);
}

/* Whether rank 0 has sent rows that rank 1 has not taken, or asked for such. Signs of life are 4 bytes. */
static bool rank_0_waits(void) {
    unsigned i;
    for (i = 0; i < LETTERS; i++)
        if (letters[i].used && !letters[i].done && !letters[i].lost && letters[i].size > 4 &&
            !(letters[i].data ? letters[i].from : letters[i].to))
            return true;
    return false;
}

/* A job begins again, or is destroyed, while rows are on their way to or from another rank. The memory for that stays,
   since it may be written later, and the run after has other memory. */
static void test_leaving(maker *m) {
    static outcome once, again;
    uint64_t begin;
    dit_job_desc descs[2] = {request(&m[0], "cfg2", 32, 40), request(&m[1], "cfg2", 32, 40)};
    int i, turns;
    begin = diti_clock_us();
    while (!rank_0_waits() && diti_clock_us() - begin < 20000000) /* rank 1 may still compile, and rank 0 wait for it */
        for (i = 1; i >= 0; i--) CHECK(dit_job_step(m[i].job, 1000) == DIT_WORKING);
    CHECK(rank_0_waits());
    begin = diti_clock_us();
    CHECK_MESSAGE(dit_job_restart(m[0].job, &descs[0], &err) == DIT_OK, "%s", err.message);
    CHECK_MESSAGE(diti_clock_us() - begin < 20000000, "after %.1f s", (double)(diti_clock_us() - begin) * 1e-6);
    CHECK(m[0].context->peers->owed.first);
    expect_end(&m[1], "rank 0 ended its run early", 2000000);
    for (i = 0; i < 2; i++) {
        if (i) CHECK(dit_job_restart(m[0].job, &descs[0], &err) == DIT_OK);
        CHECK(dit_job_restart(m[1].job, &descs[1], &err) == DIT_OK);
        finish_ranks(m, i ? &again : &once);
    }
    CHECK(difference(&once, &again) == 0);
    for (i = 0; i < 2; i++) CHECK(dit_job_restart(m[i].job, &descs[i], &err) == DIT_OK);
    for (turns = 0; turns < 40; turns++)
        for (i = 0; i < 2; i++) CHECK(dit_job_step(m[i].job, 1000) == DIT_WORKING);
    begin = diti_clock_us();
    dit_job_destroy(m[0].job);
    m[0].job = NULL;
    CHECK_MESSAGE(diti_clock_us() - begin < 20000000, "after %.1f s", (double)(diti_clock_us() - begin) * 1e-6);
    expect_end(&m[1], "rank 0 ended its run early", 2000000);
}

/* A rank that stops in the middle of a run ends the others within 30 s, without a launcher; one that fails or is
   cancelled, or destroys its job, at once. */
static void test_dead_ranks(maker *m) {
    int i, turns;
    drop_jobs(m);
    set_out(m);
    CHECK(m[0].job->mesh->silence_us <= 28000000);
    if (!full) m[0].job->mesh->silence_us = 2500000;
    expect_end(&m[0], "it was killed, hangs or is not stepped", full ? 30000000 : 10000000);
    drop_jobs(m);
    set_out(m);
    dit_job_cancel(m[0].job);
    CHECK(dit_job_step(m[0].job, 0) == DIT_CANCELLED);
    expect_end(&m[1], "rank 0 ended its run early", 2000000);
    for (i = 0; i < 2; i++) { /* both begin again */
        dit_job_desc desc = request(&m[i], "cfg2", 32, 40);
        CHECK_MESSAGE(dit_job_restart(m[i].job, &desc, &err) == DIT_OK, "%s", err.message);
    }
    for (turns = 0; turns < 40; turns++)
        for (i = 0; i < 2; i++) CHECK(dit_job_step(m[i].job, 1000) == DIT_WORKING);
    test_leaving(m);
    drop_jobs(m);
}

/* Rows fail on their way, while others are on theirs. */
static void test_failed_rows(maker *m) {
    uint32_t nth;
    for (nth = 1; nth < 4; nth += 2) {
        dit_result results[2] = {DIT_WORKING, DIT_WORKING};
        uint64_t begin = diti_clock_us();
        int i;
        for (i = 0; i < 2; i++) {
            dit_job_desc desc = request(&m[i], "cfg2", 32, 2);
            desc.preview_interval = 1;
            CHECK_MESSAGE(dit_job_restart(m[i].job, &desc, &err) == DIT_OK, "%s", err.message);
        }
        broken_rows = nth;
        while (results[0] == DIT_WORKING && results[1] == DIT_WORKING && diti_clock_us() - begin < 20000000)
            for (i = 0; i < 2; i++) results[i] = dit_job_wait(m[i].job, 1000000);
        i = results[1] == DIT_ERROR_TRANSPORT && results[0] == DIT_WORKING;
        dit_job_status(m[i].job, NULL, &err);
        CHECK_MESSAGE(results[i] == DIT_ERROR_TRANSPORT && strstr(err.message, "transport to rank"), "%s", err.message);
        lose_letters();
    }
}

/* Both begin their third run since the job was made, in which a word of each is sent, and rows are not. */
static void test_broken_rows(maker *m) {
    dit_result results[2] = {DIT_WORKING, DIT_WORKING};
    uint64_t begin = diti_clock_us();
    int i, turns;
    for (i = 0; i < 2; i++) {
        dit_job_desc desc = request(&m[i], "cfg2", 32, 2);
        desc.preview_interval = 1;
        for (turns = i ? 0 : 2; turns < 3; turns++) CHECK(dit_job_restart(m[i].job, &desc, &err) == DIT_OK);
    }
    broken_sends = 3;
    while (results[0] == DIT_WORKING && results[1] == DIT_WORKING && diti_clock_us() - begin < 20000000)
        for (i = 0; i < 2; i++) results[i] = dit_job_wait(m[i].job, 1000000);
    i = results[1] == DIT_ERROR_TRANSPORT && results[0] == DIT_WORKING;
    dit_job_status(m[i].job, NULL, &err);
    CHECK_MESSAGE(results[i] == DIT_ERROR_TRANSPORT && strstr(err.message, "could not send to rank"), "%s",
                  err.message);
}

static void test_ranks(void) {
    static uint32_t ranks[2] = {0, 1};
    static outcome out;
    uint8_t pixels[32 * 32 * 4];
    dit_output preview;
    maker m[2];
    dit_job_desc desc;
    if (open_rank(&m[0], &ranks[0], "rung=base,chunk=512") && open_rank(&m[1], &ranks[1], "rung=base,chunk=512")) {
        finish_ranks(m, &out);
        CHECK(difference(&out, &reference) <= 1e-5);
        CHECK(sent_bytes(m[0].job) == planned_bytes(m[0].job, false) &&
              sent_bytes(m[1].job) == planned_bytes(m[1].job, false));
        CHECK(dit_job_read(m[1].job, DIT_READ_RGBA8, 0, 0, pixels, sizeof pixels, 0, &err) < 0 &&
              strstr(err.message, "rank 0"));
        CHECK(dit_job_preview(m[0].job, &preview) == DIT_OK && preview.image);
        CHECK(dit_job_preview(m[1].job, &preview) == DIT_ERROR_INVALID_ARGUMENT);
        desc = request(&m[0], "cfg2", 32, 2); /* the other one sleeps */
        desc.preview_interval = 1;
        CHECK(dit_job_restart(m[0].job, &desc, &err) == DIT_OK);
        m[0].job->mesh->lanes[0]->limit_us = m[0].job->mesh->lanes[1]->limit_us = 200000;
        CHECK(dit_job_wait(m[0].job, 20000000000u) == DIT_ERROR_TRANSPORT);
        dit_job_status(m[0].job, NULL, &err);
        CHECK_MESSAGE(strstr(err.message, "for 200 ms"), "%s", err.message);
        lose_letters();
        broken_sends = 1;
        CHECK(dit_job_restart(m[0].job, &desc, &err) == DIT_OK);
        CHECK(dit_job_wait(m[0].job, 20000000000u) == DIT_ERROR_TRANSPORT);
        dit_job_status(m[0].job, NULL, &err);
        CHECK_MESSAGE(strstr(err.message, "could not send to rank 1"), "%s", err.message);
        test_broken_rows(m);
        test_failed_rows(m);
        test_dead_ranks(m);
    }
    close_maker(&m[0]);
    close_maker(&m[1]);
}

/* One rank's devices have F16 and the other's have none: both compute with F32, as devices of one process do. The rank
   that is made first cannot know it then, and plans anew. */
static void test_rank_formats(void) {
    static const char *const rungs[2] = {"rung=fp16,chunk=512", "rung=base,chunk=512"};
    static uint32_t ranks[2] = {0, 1};
    static outcome out;
    maker m[2];
    int first, i;
    for (first = 0; first < 2; first++) {
        memset(letters, 0, sizeof letters);
        if (open_rank(&m[0], &ranks[0], rungs[first]) && open_rank(&m[1], &ranks[1], rungs[1 - first])) {
            finish_ranks(m, &out);
            CHECK_MESSAGE(difference(&out, &reference) <= 1e-5, "rank 0 with %s: off by %.3g", rungs[first],
                          difference(&out, &reference));
            for (i = 0; i < 2; i++) CHECK(m[i].job->shares[0]->program.plan->activation == DITI_F32);
            drop_jobs(m);
            set_out(m); /* the next job is planned so at once in both */
            for (i = 0; i < 2; i++) CHECK(m[i].job->shares[0]->program.plan->activation == DITI_F32);
            drop_jobs(m);
        }
        close_maker(&m[0]);
        close_maker(&m[1]);
    }
}

/* Ranks that make different calls: each says in what it differs from the other one, or that that one has said so. */
static void check_rank_terms(dit_job_desc *(*change)(dit_job_desc *), const char *split, const char *overrides,
                             const char *what) {
    static uint32_t ranks[2] = {0, 1};
    dit_result results[2] = {DIT_WORKING, DIT_WORKING};
    uint64_t begin = diti_clock_us();
    uint32_t said = 0;
    char words[2][128];
    maker m[2];
    int i;
    memset(m, 0, sizeof m);
    memset(letters, 0, sizeof letters);
    for (i = 0; i < 2; i++) {
        dit_job_desc job;
        if (!open_rank(&m[i], &ranks[i], i ? overrides : "rung=base")) break;
        job = request(&m[i], split, 32, 2);
        CHECK_MESSAGE(make_job(&m[i], i ? change(&job) : &job) == DIT_OK, "%s", err.message);
        snprintf(words[i], sizeof words[i], "rank %d differs from rank %d in %s", 1 - i, i, what);
    }
    while (m[0].job && m[1].job && results[0] >= 0 && results[1] >= 0 && diti_clock_us() - begin < 20000000)
        for (i = 0; i < 2; i++) results[i] = dit_job_wait(m[i].job, 1000000);
    for (i = 0; i < 2 && m[0].job && m[1].job; i++) {
        dit_job_status(m[i].job, NULL, &err);
        CHECK_MESSAGE(results[i] == DIT_ERROR_TRANSPORT, "%s, rank %d: %d %s", what, i, (int)results[i], err.message);
        said += strstr(err.message, words[i]) != NULL;
    }
    CHECK_MESSAGE(said > 0, "%s: %s", what, err.message);
    for (i = 0; i < 2; i++)
        if (m[i].job) m[i].job->mesh->silence_us = 0; /* neither waits for what the other one does not fetch */
    drop_jobs(m);
    for (i = 0; i < 2; i++) close_maker(&m[i]);
    memset(letters, 0, sizeof letters);
}

static dit_job_desc *more_steps(dit_job_desc *job) { return job->steps = 3, job; }
static dit_job_desc *other_width(dit_job_desc *job) { return job->width = 64, job; }
static dit_job_desc *other_split(dit_job_desc *job) { return job->split = "cfg2", job; }
static dit_job_desc *as_it_is(dit_job_desc *job) { return job; }

static void test_rank_terms(void) {
    check_rank_terms(more_steps, "ulysses2", "rung=base", "steps (3 and 2)");
    check_rank_terms(as_it_is, "ulysses2", "rung=base,chunk=1K", "override chunk");
    if (!full) return;
    check_rank_terms(other_width, "cfg2", "rung=base", "width (64 and 32)");
    check_rank_terms(other_split, "ulysses2", "rung=base", "split");
}

int main(void) {
    full = whole_sweep();
    test_vulkan_begin();
    test_devices();
    test_transports();
    test_broken();
    test_mixed();
    check_cfg(PAIR, "rung=base,transport=staged,chunk=1K", tiny, 32, 2);
    check_cfg(PAIR ",llvmpipe", "rung=base", bundled, 64, full ? 4 : 1);
    if (full && mixed[0]) check_cfg(mixed, "rung=base", tiny, 32, 4);
    test_sequences();
    test_int8_payload();
    test_plans();
    test_mixed_rungs();
    test_tiles();
    test_restart();
    test_refusals();
    test_failing();
    close_maker(&kept);
    if (full) test_measure_faults();
    test_ranks();
    test_rank_formats();
    test_rank_terms();
    test_vulkan_end();
    return TEST_END("split");
}
