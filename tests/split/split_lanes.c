/* Lanes and meshes, which lie under splits: of plans that are made here, with values that are known beforehand. With
   families (tests/drivers/families.c) all copies go by queues of a family that can only copy.
   test-runs: lavapipe newest families */
#include "library.h"
#include "vulkan_test.h"
#include "overlap.h"

static dit_error err;
static bool families;
static const char *pair = "llvmpipe,llvmpipe", *three = "llvmpipe,llvmpipe,llvmpipe";

static bool full(void) { /* the sweeps of make test-all */
    const char *all = getenv("DIT_TEST_ALL");
    return all && *all == '1';
}

static dit_context *open_context(const char *devices, const char *overrides) {
    dit_context_desc desc = DITI_ZERO;
    dit_context *context = NULL;
    desc.devices = devices;
    desc.overrides = overrides;
    CHECK_MESSAGE(dit_context_create(&desc, &context, &err) == DIT_OK, "%s, %s: %s", devices, overrides, err.message);
    return context;
}

/* --- members of a mesh, each with a plan and a list of segments to run --- */

enum { MEMBERS = 3, ROWS = 29, COLUMNS = 24, MOST_RUNS = 16 };
typedef struct mesh {
    dit_context *context;
    diti_plan *plans[MEMBERS];
    diti_mesh *mesh;
    diti_tensor x[MEMBERS], y[MEMBERS]; /* states */
    uint32_t count;
    const char *runs[MEMBERS]; /* a digit for each segment */
} mesh;
typedef void (*emitter)(mesh *m, uint32_t self, diti_graph *graph);

static diti_tensor scaled(diti_graph *graph, diti_tensor x, float scale, diti_tensor add, diti_tensor out) {
    diti_elementwise_desc desc = DITI_ZERO;
    desc.scale = scale;
    desc.add = add;
    desc.out = out;
    desc.out_f32 = true;
    desc.name = "scaled";
    return diti_elementwise(graph, x, &desc);
}

static dit_result make(mesh *m, dit_context *context, emitter emit, uint32_t count, const uint32_t *places) {
    diti_graph graph;
    diti_mesh_places where;
    uint32_t i;
    where.devices = places;
    where.first = 0;
    where.each = count;
    m->context = context;
    m->count = count;
    for (i = 0; i < count; i++) {
        diti_graph_init(&graph, context->devices[places ? places[i] : i]);
        emit(m, i, &graph);
        CHECK_MESSAGE(diti_plan_create(&graph, NULL, &m->plans[i], &err) == DIT_OK, "%s", err.message);
        diti_graph_free(&graph);
    }
    return diti_mesh_create(context->peers, m->plans, places ? &where : NULL, count, &m->mesh, &err);
}

static void drop(mesh *m) {
    uint32_t i;
    diti_mesh_destroy(m->mesh);
    for (i = 0; i < m->count; i++) diti_plan_destroy(m->plans[i]);
}

/* All copies of a run went by queues of the family that only copies. */
static void check_families(const dit_context *context) {
    uint32_t i;
    for (i = 0; families && i < context->device_count; i++) {
        const diti_device *device = context->devices[i];
        CHECK(device->transfer_queue && device->transfer_family == 2 && device->queue_family == 0);
        CHECK_MESSAGE(device->transfer_submits > 5, "device %u: %llu submissions of copies", i,
                      (unsigned long long)device->transfer_submits);
    }
}

/* Runs a mesh as jobs do: every member submits what is ready, and lanes are pumped in between. */
static dit_result run(mesh *m) {
    uint32_t at[MEMBERS] = {0}, slice[MEMBERS] = {0}, i;
    uint64_t value, begin = diti_clock_us();
    dit_result result = DIT_OK;
    bool moved = true, all = false, waited;
    while (result >= 0 && !(all && diti_mesh_idle(m->mesh))) {
        if (!moved) result = diti_mesh_wait(m->mesh, 1000000, &waited, &err);
        moved = false;
        if (result >= 0) result = diti_mesh_pump(m->mesh, &moved, &err);
        for (i = 0, all = true; i < m->count && result >= 0; i++) {
            while (m->runs[i][at[i]] && result >= 0) {
                uint32_t segment = (uint32_t)(m->runs[i][at[i]] - '0');
                if (!diti_mesh_ready(m->mesh, i, segment, slice[i])) break;
                result = diti_mesh_submit(m->mesh, i, segment, slice[i], &value, &err);
                moved = true;
                if (++slice[i] == diti_plan_slice_count(m->plans[i], segment)) slice[i] = 0, at[i]++;
            }
            all = all && !m->runs[i][at[i]];
        }
        if (result >= 0) result = diti_mesh_watch(m->mesh, moved, &err);
        if (diti_clock_us() - begin > 20000000) return DIT_WORKING;
    }
    for (i = 0; i < m->count; i++) diti_plan_wait(m->plans[i]);
    return result;
}

/* Whether all of a state has one value. */
static bool holds(const mesh *m, uint32_t member, diti_tensor tensor, float wanted) {
    static float values[ROWS * COLUMNS];
    const diti_tensor_info *info = &m->plans[member]->tensors[tensor];
    size_t i, count = (size_t)info->rows * info->columns;
    CHECK(diti_plan_read(m->plans[member], tensor, values, count * sizeof *values, &err) == DIT_OK);
    for (i = 0; i < count; i++)
        if (!(values[i] == wanted)) return CHECK_MESSAGE(0, "value %u: %g, not %g", (unsigned)i, values[i], wanted);
    return CHECK(count > 0);
}

/* A number that a member begins with: states are zeros. */
static void start(mesh *m, uint32_t self, diti_graph *graph, float value) {
    diti_elementwise_desc desc = DITI_ZERO;
    diti_graph_segment(graph, "start", false);
    m->x[self] = diti_tensor_state(graph, DITI_F32, ROWS, COLUMNS, "x");
    m->y[self] = diti_tensor_state(graph, DITI_F32, ROWS, COLUMNS, "y");
    desc.offset = value;
    desc.out = m->x[self];
    desc.out_f32 = true;
    desc.name = "start";
    diti_elementwise(graph, m->x[self], &desc);
}

/* --- carried exchanges: member 0 doubles x in every run of either segment and sends it; member 1 adds what came since
   it last began to receive, once or, in segment 2, twice --- */

static void emit_adding(mesh *m, diti_graph *graph) {
    diti_exchange_join(graph, m->y[1]);
    scaled(graph, m->x[1], 1, m->y[1], m->x[1]);
    diti_exchange_carry(graph, diti_exchange_begin(graph, m->y[1], 0, false));
}

static void emit_carried(mesh *m, uint32_t self, diti_graph *graph) {
    uint32_t segment;
    start(m, self, graph, self == 0 ? 1.0f : 0.0f);
    for (segment = 1; segment < 3; segment++) {
        diti_graph_segment(graph, "step", true);
        if (self == 1) {
            emit_adding(m, graph);
            if (segment == 2) emit_adding(m, graph);
            continue;
        }
        diti_exchange_join(graph, m->x[0]);
        scaled(graph, m->x[0], 2, 0, m->x[0]);
        diti_exchange_carry(graph, diti_exchange_begin(graph, m->x[0], 1, true));
        scaled(graph, m->y[0], 1, 0, m->y[0]);
    }
}

static uint32_t region_counts; /* regions of all copies */
static PFN_vkCmdCopyBuffer plain_copy;

static VKAPI_ATTR void VKAPI_CALL counting_copy(VkCommandBuffer commands, VkBuffer from, VkBuffer to, uint32_t count,
                                                const VkBufferCopy *regions) {
    region_counts += count;
    plain_copy(commands, from, to, count, regions);
}

/* The k-th rows that are sent in a run are the k-th that are received, in whatever segments; rows that lie side by side
   are one copy. */
static void test_carried(const char *overrides, const uint32_t *places, uint32_t chunks) {
    static const char *const runs[][2] = {{"0112212", "01221"}, {"0212111", "0222"}, {"0111111", "0111111"}};
    mesh m = {0};
    uint32_t i, regions;
    dit_context *context = open_context(pair, overrides);
    if (!context) return;
    for (i = 0; i < 2; i++) {
        plain_copy = context->devices[i]->vk.CmdCopyBuffer;
        context->devices[i]->vk.CmdCopyBuffer = counting_copy;
    }
    regions = region_counts;
    if (CHECK_MESSAGE(make(&m, context, emit_carried, 2, places) == DIT_OK, "%s", err.message)) {
        CHECK(region_counts == regions); /* commands of a slot are recorded for the chunk that comes to it */
        CHECK(!places || m.mesh->lanes[0]->transport == DITI_TRANSPORT_LOCAL);
        for (i = 0; i < 3; i++) {
            m.runs[0] = runs[i][0];
            m.runs[1] = runs[i][1];
            CHECK_MESSAGE(run(&m) == DIT_OK, "%s", err.message);
            CHECK(holds(&m, 1, m.x[1], 62) && holds(&m, 1, m.y[1], 64));
            CHECK_MESSAGE(region_counts - regions == (i + 1) * 12 * chunks, "%u regions", region_counts - regions);
            CHECK(diti_mesh_bytes(m.mesh, 0, 1) == (i + 1) * 6 * ROWS * COLUMNS * sizeof(float));
            diti_mesh_settle(m.mesh);
        }
    }
    check_families(context);
    drop(&m);
    dit_context_destroy(context);
}

/* --- relays: what member 1 receives it sends on at once --- */

static void emit_relay(mesh *m, uint32_t self, diti_graph *graph) {
    uint32_t round;
    start(m, self, graph, self == 0 ? 1.0f : 0.0f);
    diti_graph_segment(graph, "step", true);
    for (round = 0; round < 2; round++) {
        diti_tensor part = diti_tensor_view(graph, m->x[self], round, ROWS - 2, 4, COLUMNS - 7);
        if (self == 0) scaled(graph, m->x[self], 3, 0, m->x[self]);
        if (self > 0) diti_exchange_end(graph, diti_exchange_begin(graph, part, self - 1, false));
        if (self < 2) diti_exchange_end(graph, diti_exchange_begin(graph, part, self + 1, true));
        if (self == 2)
            scaled(graph, part, 1, diti_tensor_view(graph, m->y[2], 0, ROWS - 2, 0, COLUMNS - 7),
                   diti_tensor_view(graph, m->y[2], 0, ROWS - 2, 0, COLUMNS - 7));
    }
}

static void test_relay(const char *overrides, const uint32_t *places) {
    mesh m = {0};
    dit_context *context = open_context(three, overrides);
    float got[ROWS * COLUMNS];
    uint32_t r, c, wrong = 0;
    if (!context) return;
    if (CHECK_MESSAGE(make(&m, context, emit_relay, 3, places) == DIT_OK, "%s", err.message)) {
        m.runs[0] = m.runs[1] = m.runs[2] = "0111";
        CHECK_MESSAGE(run(&m) == DIT_OK, "%s", err.message);
        CHECK(diti_plan_read(m.plans[2], m.y[2], got, sizeof got, &err) == DIT_OK);
        for (r = 0; r < ROWS; r++)
            for (c = 0; c < COLUMNS; c++)
                wrong += got[r * COLUMNS + c] != (r < ROWS - 2 && c < COLUMNS - 7 ? 3 + 9 + 27 + 81 + 243 + 729 : 0);
        CHECK_MESSAGE(wrong == 0, "%u values are wrong", wrong);
    }
    check_families(context);
    drop(&m);
    dit_context_destroy(context);
}

/* --- slots in the host's memory, of which little may be left --- */

enum { WIDE_ROWS = 512, WIDE_COLUMNS = 1024 }; /* 2 MB */

static void emit_wide(mesh *m, uint32_t self, diti_graph *graph) {
    diti_elementwise_desc desc = DITI_ZERO;
    uint32_t sends;
    diti_graph_segment(graph, "start", false);
    m->x[self] = diti_tensor_state(graph, DITI_F32, WIDE_ROWS, WIDE_COLUMNS, "x");
    m->y[self] = diti_tensor_state(graph, DITI_F32, WIDE_ROWS, WIDE_COLUMNS, "y");
    desc.offset = (float)(self + 1);
    desc.out = m->x[self];
    desc.out_f32 = true;
    desc.name = "start";
    diti_elementwise(graph, m->x[self], &desc);
    diti_graph_segment(graph, "step", true);
    sends = diti_exchange_begin(graph, m->x[self], 1 - self, true);
    diti_exchange_end(graph, diti_exchange_begin(graph, m->y[self], 1 - self, false));
    diti_exchange_end(graph, sends);
}

/* Two lanes of 2 MB have 16 MB on a device, or share what there is. */
static void test_host_budget(void) {
    static const struct {
        const char *overrides;
        uint64_t least, most;
    } cases[] = {{"transport=staged", 16u << 20, 17u << 20},
                 {"transport=staged,host_budget=6M", 5u << 20, 6u << 20},
                 {"transport=staged,host_budget=1", 2u << 20, 3u << 20}}; /* as little as it pays to copy */
    static float got[WIDE_ROWS * WIDE_COLUMNS];
    uint32_t i, k, c, wrong;
    for (i = 0; i < DITI_COUNT(cases); i++) {
        mesh m = {0};
        uint64_t before[2];
        dit_context *context = open_context(pair, cases[i].overrides);
        if (!context) return;
        for (k = 0; k < 2; k++) before[k] = context->devices[k]->host_used;
        if (CHECK_MESSAGE(make(&m, context, emit_wide, 2, NULL) == DIT_OK, "%s", err.message)) {
            m.runs[0] = m.runs[1] = "0111";
            CHECK_MESSAGE(run(&m) == DIT_OK, "%s", err.message);
        }
        for (k = 0; k < 2 && m.mesh; k++) {
            uint64_t pinned = context->devices[k]->host_used - before[k];
            CHECK_MESSAGE(pinned >= cases[i].least && pinned <= cases[i].most, "%s: %llu bytes on device %u",
                          cases[i].overrides, (unsigned long long)pinned, k);
            CHECK(diti_plan_read(m.plans[k], m.y[k], got, sizeof got, &err) == DIT_OK);
            for (c = wrong = 0; c < WIDE_ROWS * WIDE_COLUMNS; c++) wrong += got[c] != (float)(2 - k);
            CHECK_MESSAGE(wrong == 0, "%s: %u values are wrong", cases[i].overrides, wrong);
        }
        drop(&m);
        dit_context_destroy(context);
    }
}

/* Processes keep their chunks, and have fewer slots. */
static void test_fewer_slots(void) {
    static const struct {
        uint64_t room;
        uint32_t slots;
    } cases[] = {{UINT64_MAX, DITI_LANE_SLOTS}, {32u << 20, 4}, {(32u << 20) - 1, 3}, {16u << 20, 2}, {0, 1}};
    uint32_t i;
    for (i = 0; i < DITI_COUNT(cases); i++) {
        diti_lane_desc desc = DITI_ZERO;
        desc.transport = DITI_TRANSPORT_APPLICATION;
        desc.slot_bytes = 8u << 20;
        diti_lane_fit(&desc, cases[i].room);
        CHECK_MESSAGE(desc.slots == cases[i].slots && desc.slot_bytes == 8u << 20, "%u: %u slots", i, desc.slots);
    }
}

/* --- int8 payloads: what rounding loses comes behind it --- */

static diti_tensor pattern;
static bool feeds_back;

static void emit_payload(mesh *m, uint32_t self, diti_graph *graph) {
    diti_tensor payload, values;
    start(m, self, graph, 0);
    if (!self) pattern = diti_tensor_input(graph, DITI_F32, ROWS, COLUMNS, "pattern");
    diti_graph_segment(graph, "step", true);
    graph->int8_payload = true;
    graph->int8_feedback = feeds_back;
    if (!self) diti_exchange_end(graph, diti_exchange_begin(graph, diti_payload(graph, pattern), 1, true));
    if (!self) return;
    payload = diti_tensor_new(graph, DITI_I8, ROWS, COLUMNS, "payload");
    diti_exchange_end(graph, diti_exchange_begin(graph, payload, 0, false));
    values = diti_tensor_new(graph, DITI_F32, ROWS, COLUMNS, "values");
    diti_payload_unpack(graph, payload, values);
    scaled(graph, values, 1, m->y[1], m->y[1]);
}

/* The root of the mean square of the error of the mean of 16 steps of what came; and again in a second run. */
static double mean_error(dit_context *context, bool feedback) {
    static float sent[ROWS * COLUMNS], got[ROWS * COLUMNS];
    double error[2] = {0, 1};
    uint32_t i, k;
    mesh m = {0};
    feeds_back = feedback;
    for (i = 0; i < ROWS * COLUMNS; i++) sent[i] = sinf((float)i * 1.37f) * (float)(1 + i % 5);
    if (!CHECK_MESSAGE(make(&m, context, emit_payload, 2, NULL) == DIT_OK, "%s", err.message)) return 1;
    CHECK(diti_plan_write(m.plans[0], pattern, sent, sizeof sent, &err) == DIT_OK);
    for (k = 0; k < 2; k++) {
        m.runs[0] = m.runs[1] = "01111111111111111";
        CHECK_MESSAGE(run(&m) == DIT_OK, "%s", err.message);
        CHECK(diti_plan_read(m.plans[1], m.y[1], got, sizeof got, &err) == DIT_OK);
        for (i = 0, error[k] = 0; i < ROWS * COLUMNS; i++)
            error[k] += (got[i] / 16.0 - sent[i]) * (got[i] / 16.0 - sent[i]);
        diti_mesh_settle(m.mesh);
    }
    CHECK(error[0] == error[1]); /* every run begins without an error */
    drop(&m);
    return sqrt(error[0] / (ROWS * COLUMNS));
}

static void test_feedback(void) {
    dit_context *context = open_context(pair, NULL);
    double without, with;
    if (!context) return;
    without = mean_error(context, false);
    with = mean_error(context, true);
    printf("int8 payloads: the mean of 16 steps is off by %.2g, with the error fed back by %.2g\n", without, with);
    CHECK(without > 1e-4 && with < 0.15 * without);
    dit_context_destroy(context);
}

/* --- plans that do not fit together --- */

enum { MISMATCH_BYTES, MISMATCH_CARRIED, MISMATCH_NUMBER, MISMATCH_SEGMENT, MISMATCH_PEER, MISMATCHES };
static int mismatch;

static void emit_mismatch(mesh *m, uint32_t self, diti_graph *graph) {
    uint32_t exchange, rows = mismatch <= MISMATCH_CARRIED && self ? ROWS - 1 : ROWS;
    start(m, self, graph, 1);
    if (mismatch == MISMATCH_SEGMENT && self) diti_graph_segment(graph, "other", false);
    if (mismatch == MISMATCH_NUMBER && self) return;
    exchange = diti_exchange_begin(graph, diti_tensor_view(graph, m->x[self], 0, rows, 0, COLUMNS),
                                   mismatch == MISMATCH_PEER ? 2 : 1 - self, self == 0);
    if (mismatch == MISMATCH_CARRIED && self) diti_exchange_carry(graph, exchange);
}

static void test_mismatches(void) {
    static const char *const messages[] = {"differs in bytes", "(x) where device 1 is to receive 2688 (x)",
                                           "differs in number", "differs in its segment",
                                           "device 0 of 2 exchanges x with device 2"};
    dit_context *context = open_context(pair, NULL);
    diti_graph graph;
    diti_tensor tensor;
    if (!context) return;
    for (mismatch = 0; mismatch < MISMATCHES; mismatch++) {
        mesh m = {0};
        dit_result result = make(&m, context, emit_mismatch, 2, NULL);
        m.runs[0] = m.runs[1] = "0";
        CHECK((result == DIT_OK) == (mismatch == MISMATCH_CARRIED));
        if (result == DIT_OK) result = run(&m);
        CHECK_MESSAGE(result == DIT_ERROR_INVALID_ARGUMENT && strstr(err.message, messages[mismatch]), "%d: %d, %s",
                      mismatch, (int)result, err.message);
        drop(&m);
    }
    diti_graph_init(&graph, context->devices[0]);
    diti_graph_segment(&graph, "start", false);
    tensor = diti_tensor_new(&graph, DITI_F32, ROWS, COLUMNS, "passing");
    diti_exchange_carry(&graph, diti_exchange_begin(&graph, tensor, 1, true));
    CHECK(diti_graph_failed(&graph) && strstr(graph.error.message, "passing"));
    diti_graph_free(&graph);
    dit_context_destroy(context);
}

/* --- members that wait for each other, or for what nobody sends --- */

static void emit_stuck(mesh *m, uint32_t self, diti_graph *graph) {
    start(m, self, graph, 1);
    if (m->runs[self][1] == '1') { /* each receives before it sends */
        diti_graph_segment(graph, "step", false);
        diti_exchange_end(graph, diti_exchange_begin(graph, m->x[self], 1 - self, false));
        scaled(graph, m->x[self], 1, 0, m->y[self]);
        diti_exchange_begin(graph, m->y[self], 1 - self, true);
    } else if (self == 0) {
        diti_exchange_carry(graph, diti_exchange_begin(graph, m->x[self], 1, true));
    } else {
        diti_graph_segment(graph, "step", false);
        diti_graph_segment(graph, "unused", false);
        diti_exchange_begin(graph, m->x[self], 0, false);
    }
}

static void test_stuck(void) {
    static const char *const messages[] = {"device 0 waits to receive x from device 1, for 50 ms",
                                           "device 0 waits to send x to device 1, for 50 ms"};
    dit_context *context = open_context(pair, "transport_ms=50");
    uint32_t i;
    for (i = 0; i < 2 && context; i++) {
        mesh m = {0};
        m.runs[0] = i ? "0" : "01";
        m.runs[1] = i ? "0" : "01";
        if (CHECK_MESSAGE(make(&m, context, emit_stuck, 2, NULL) == DIT_OK, "%s", err.message)) {
            CHECK(run(&m) == DIT_ERROR_TRANSPORT);
            CHECK_MESSAGE(!strcmp(err.message, messages[i]), "%s", err.message);
        }
        drop(&m);
    }
    dit_context_destroy(context);
}

/* --- calls that fail in the middle of exchanges --- */

enum { FAIL_SEND, FAIL_RECEIVE, FAIL_GATHER, FAIL_REDUCE, FAIL_PLAN, FAILS };
static int failing;             /* the case at hand */
static VkSemaphore fails_at[2]; /* a submission that signals one of these fails */
static unsigned fails_after;    /* not 0: or the n-th from now on */
static unsigned submissions;
static VkResult fails_with;
static PFN_vkQueueSubmit plain_submit;
static PFN_vkQueueWaitIdle plain_wait;

static VKAPI_ATTR VkResult VKAPI_CALL failing_submit(VkQueue queue, uint32_t count, const VkSubmitInfo *info,
                                                     VkFence fence) {
    uint32_t i;
    bool fails = ++submissions == fails_after;
    for (i = 0; i < info->signalSemaphoreCount; i++)
        fails = fails || info->pSignalSemaphores[i] == fails_at[0] || info->pSignalSemaphores[i] == fails_at[1];
    if (fails && fails_with == VK_ERROR_DEVICE_LOST) plain_wait(queue); /* nothing runs on a device that is lost */
    return fails ? fails_with : plain_submit(queue, count, info, fence);
}

static void emit_failing(mesh *m, uint32_t self, diti_graph *graph) {
    diti_ranks group = DITI_ZERO;
    diti_tensor part;
    group.count = 2;
    group.index = self;
    group.devices[1] = 1;
    start(m, self, graph, (float)(self + 1));
    diti_graph_segment(graph, "step", true);
    if (failing == FAIL_REDUCE) {
        diti_all_reduce(graph, &group, m->x[self], "sum");
    } else if (failing == FAIL_GATHER) {
        part = diti_tensor_view(graph, m->x[self], 0, diti_ranks_size(&group, self, ROWS), 0, COLUMNS);
        diti_copy(graph, diti_all_gather(graph, &group, part, 1, ROWS, "whole"), m->y[self], "gathered");
    } else {
        diti_swap(graph, m->x[self], m->y[self], 1 - self);
    }
    scaled(graph, m->x[self], 1, 0, m->x[self]);
}

/* A failed call gives an error that names the device; nothing hangs or is lost, and memory that was out may be there
   the next time. */
static void check_failure(mesh *m, diti_device *device, VkResult code) {
    dit_result wanted = code == VK_ERROR_DEVICE_LOST ? DIT_ERROR_DEVICE_LOST : DIT_ERROR_OUT_OF_DEVICE_MEMORY, result;
    char name[16];
    uint64_t begin = diti_clock_us();
    snprintf(name, sizeof name, "device %u", device->ordinal);
    fails_with = code;
    plain_submit = device->vk.QueueSubmit;
    plain_wait = device->vk.QueueWaitIdle;
    device->vk.QueueSubmit = failing_submit;
    result = run(m);
    device->vk.QueueSubmit = plain_submit;
    if (fails_after > submissions) /* so many there are not */
        CHECK(result == DIT_OK);
    else
        CHECK_MESSAGE(result == wanted && strstr(err.message, name), "%d: %d, %s", failing, (int)result, err.message);
    diti_mesh_settle(m->mesh);
    CHECK(diti_clock_us() - begin < 5000000);
    if (code == VK_ERROR_DEVICE_LOST) return;
    CHECK_MESSAGE(run(m) == DIT_OK, "%s", err.message);
    diti_mesh_settle(m->mesh);
}

static void test_failures(void) {
    VkDeviceSize used[2];
    dit_context *context = NULL;
    uint32_t i, k;
    for (failing = 0; failing < FAILS; failing++) {
        for (k = 0; k < 2; k++) { /* out of memory, lost: the latter ends the context */
            mesh m = {0};
            if (!context) context = open_context(pair, "chunk=512");
            if (!context) return;
            for (i = 0; i < 2; i++) used[i] = context->devices[i]->memory_used;
            m.runs[0] = m.runs[1] = "0111";
            if (CHECK_MESSAGE(make(&m, context, emit_failing, 2, NULL) == DIT_OK, "%s", err.message)) {
                diti_lane **lanes = m.mesh->lanes;
                fails_at[0] = failing == FAIL_PLAN ? m.plans[1]->timeline.semaphore : VK_NULL_HANDLE;
                fails_at[1] = failing == FAIL_PLAN                             ? VK_NULL_HANDLE
                              : failing == FAIL_SEND || failing == FAIL_REDUCE ? lanes[1]->sides[DITI_LANE_OUT].timeline
                                                                               : lanes[0]->sides[DITI_LANE_IN].timeline;
                check_failure(&m, context->devices[1], k ? VK_ERROR_DEVICE_LOST : VK_ERROR_OUT_OF_DEVICE_MEMORY);
                fails_at[0] = fails_at[1] = VK_NULL_HANDLE;
                for (fails_after = 1; full() && k == 0; fails_after++) { /* every submission of either device */
                    submissions = 0;
                    check_failure(&m, context->devices[fails_after % 2], VK_ERROR_OUT_OF_DEVICE_MEMORY);
                    if (submissions < fails_after) break;
                }
                fails_after = 0;
            }
            drop(&m);
            for (i = 0; i < 2; i++) CHECK(context->devices[i]->memory_used == used[i]);
            if (k) dit_context_destroy(context);
            if (k) context = NULL;
        }
    }
}

/* --- the cache blob has a part for each device --- */

static void test_cache(void) {
    dit_context_desc desc = DITI_ZERO;
    dit_context *context = open_context(pair, NULL);
    unsigned char *blob;
    size_t size = 0, small = 0;
    uint32_t choice = 0, cut;
    if (!context) return;
    diti_tuned_add(context->devices[1], 12345, 2);
    CHECK(dit_context_save_cache(context, NULL, &size, &err) == DIT_OK);
    blob = malloc(size);
    CHECK(blob && dit_context_save_cache(context, blob, &small, &err) == DIT_ERROR_INVALID_ARGUMENT && small == size);
    CHECK(dit_context_save_cache(context, blob, &size, &err) == DIT_OK);
    dit_context_destroy(context);
    desc.devices = pair;
    desc.cache = blob;
    for (cut = 0; cut < 2; cut++) { /* the second part cut off: nothing is taken over */
        desc.cache_size = size - cut;
        CHECK_MESSAGE(dit_context_create(&desc, &context, &err) == DIT_OK, "%s", err.message);
        CHECK(diti_tuned_find(context->devices[1], 12345, &choice) == !cut && (cut || choice == 2));
        CHECK(!diti_tuned_find(context->devices[0], 12345, &choice));
        dit_context_destroy(context);
    }
    free(blob);
}

/* --- Ulysses: values and keys travel while queries are projected --- */

/* Products of queries, keys and values, by their name, in slices [first, end) of a segment. */
static uint32_t count_products(const diti_plan *plan, uint32_t segment, uint32_t first, uint32_t end,
                               const char *name) {
    uint32_t slice, i, count = 0, before = UINT32_MAX;
    for (slice = first; slice < end; slice++) {
        const diti_plan_slice *s = &plan->slices[plan->segments[segment].first + slice];
        for (i = s->first; i < s->first + s->count; i++) {
            uint32_t source = plan->dispatches[i].source;
            if (source != before && !strcmp(plan->sources[source].name, name)) count++;
            before = source;
        }
    }
    return count;
}

/* In a step: exchanges between whose first begin and first end two of the three products are computed, joint: of the
   text's, too. */
static uint32_t count_flows(const diti_share *share, bool joint) {
    const diti_plan *plan = share->program.plan;
    uint32_t segment = share->program.step_segment, i, flows = 0;
    const diti_exchange_event *begun = NULL;
    for (i = plan->first_event[segment]; i < plan->first_event[segment + 1]; i++) {
        const diti_exchange_event *event = &plan->events[i];
        if (event->kind == DITI_EXCHANGE_BEGINS && !begun) begun = event;
        if (event->kind != DITI_EXCHANGE_ENDS || !begun) continue;
        flows += count_products(plan, segment, begun->slice, event->slice, "qkv") == 2 &&
                 (!joint || count_products(plan, segment, begun->slice, event->slice, "text_qkv") == 2);
        begun = NULL;
    }
    return flows;
}

/* joint: text and image have products of their own, and attend together, so that rounding differs. */
static void test_flow(const char *path, bool joint) {
    static float latents[2][4096];
    double error = 0, norm = 0;
    dit_context_desc desc = DITI_ZERO;
    dit_model_desc source = DITI_ZERO;
    dit_job_desc request = DITI_ZERO;
    dit_context *context = NULL;
    dit_model *model = NULL;
    dit_job *job = NULL;
    uint32_t i, k, layers = 0;
    desc.devices = pair;
    desc.overrides = "rung=base";
    source.source.path = path;
    request.prompt = "a red fox";
    request.width = request.height = 32;
    request.steps = 2;
    request.guidance.scale = joint ? 1 : 0; /* devices that divide text want as much of it in both branches */
    memset(latents, 0, sizeof latents);
    CHECK_MESSAGE(dit_context_create(&desc, &context, &err) == DIT_OK &&
                      dit_model_load(context, &source, &model, &err) == DIT_OK,
                  "%s", err.message);
    request.model = model;
    for (i = 0; i < 2 && model; i++) {
        request.split = i ? "ulysses2" : NULL;
        if (!CHECK_MESSAGE(dit_job_create(context, &request, &job, &err) == DIT_OK, "%s", err.message)) break;
        layers = model->transformer->traits.layers;
        for (k = 0; k < job->share_count && i; k++)
            CHECK_MESSAGE(count_flows(job->shares[k], joint) == layers, "%s: %u of %u layers", path,
                          count_flows(job->shares[k], joint), layers);
        CHECK(dit_job_wait(job, 60000000000u) == DIT_OK);
        CHECK_MESSAGE(dit_job_read(job, DIT_READ_LATENT_F32, 0, 0, latents[i],
                                   diti_job_latent_values(job) * sizeof(float), 0, &err) == DIT_OK,
                      "%s", err.message);
        dit_job_destroy(job);
    }
    for (k = 0; k < DITI_COUNT(latents[0]); k++) {
        error += ((double)latents[0][k] - latents[1][k]) * ((double)latents[0][k] - latents[1][k]);
        norm += (double)latents[0][k] * latents[0][k];
    }
    printf("%s: %u layers flow, relative L2 %.2g\n", path, layers, sqrt(error / norm));
    CHECK(latents[0][0] != 0 && (joint ? error <= 1e-10 * norm : !(error > 0)));
    dit_model_destroy(model);
    dit_context_destroy(context);
}

/* --- on four devices: how much of the copies is hidden by computing, of Ring's keys and values while others are
   attended to, and of Ulysses' heads --- */

static void test_overlap(const char *split) {
    dit_context_desc desc = DITI_ZERO;
    dit_model_desc source = DITI_ZERO;
    dit_job_desc request = DITI_ZERO;
    dit_context *context = NULL;
    dit_model *model = NULL;
    dit_job *job = NULL;
    overlap o;
    desc.devices = "llvmpipe,llvmpipe,llvmpipe,llvmpipe";
    desc.overrides = "rung=base";
    desc.trace = true;
    source.source.path = "tests/fixtures/pipe_pixart_sigma";
    request.prompt = "a red fox";
    request.width = request.height = 64;
    request.steps = 2;
    request.split = split;
    CHECK_MESSAGE(dit_context_create(&desc, &context, &err) == DIT_OK &&
                      dit_model_load(context, &source, &model, &err) == DIT_OK,
                  "%s", err.message);
    request.model = model;
    if (model && CHECK_MESSAGE(dit_job_create(context, &request, &job, &err) == DIT_OK, "%s", err.message)) {
        CHECK(dit_job_wait(job, 60000000000u) == DIT_OK);
        o = overlap_of(context->trace);
        printf("%s: %u chunks took %.1f ms, of which the receiving device computed in %.1f (%.0f %%)\n", split,
               o.copies, o.copies_ms, o.hidden_ms, o.copies_ms > 0 ? 100 * o.hidden_ms / o.copies_ms : 0);
        CHECK(o.copies > 0 && o.hidden_ms > 0 && o.hidden_ms <= o.copies_ms);
    }
    dit_job_destroy(job);
    dit_model_destroy(model);
    dit_context_destroy(context);
}

int main(void) {
    static const uint32_t one[] = {0, 0, 0}, two[] = {0, 1, 1};
    const char *driver = getenv("VK_ICD_FILENAMES");
    families = driver && strstr(driver, "families");
    if (families) pair = "SwiftShader,SwiftShader", three = "SwiftShader,SwiftShader,SwiftShader";
    test_vulkan_begin();
    test_carried(NULL, NULL, 1);
    test_carried("transport=staged,chunk=1K", NULL, 3);
    if (families) {
        test_relay("chunk=512", NULL);
        test_vulkan_end();
        return TEST_END("split_lanes");
    }
    test_carried(NULL, one, 1);
    test_relay("chunk=512", NULL);
    test_relay(NULL, two);
    test_relay("chunk=512", one);
    test_host_budget();
    test_fewer_slots();
    test_mismatches();
    test_stuck();
    test_failures();
    test_cache();
    if (full() || test_first_driver()) { /* the newest compiles their kernels for 50 s */
        test_flow("tests/fixtures/pipe_pixart_sigma", false);
        test_flow("tests/fixtures/pipe_qwenimage", true);
        test_feedback();
    }
    if (full()) test_overlap("ring4");
    if (full()) test_overlap("ulysses2");
    test_vulkan_end();
    return TEST_END("split_lanes");
}
