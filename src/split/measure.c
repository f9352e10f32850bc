/* How fast the devices of a context exchange: through the lanes that jobs use, each pair alone, and all at once, since
   links that several pairs share are fast for one of them only. */
#include "split/mesh.h"

#define DITI_MEASURE_BYTES ((uint64_t)8 << 20) /* bytes that a device sends at a time, to all its peers together */
#define DITI_MEASURE_CHUNKS 8u
#define DITI_MEASURE_TIMES 2u
#define DITI_MEASURE_SMALL 256u
#define DITI_MEASURE_MOST_US 10000000u

typedef struct diti_measure {
    diti_peers *peers;
    diti_buffer from[DITI_MAX_DEVICES], to[DITI_MAX_DEVICES];
    diti_lane *lanes[DITI_MAX_DEVICES * DITI_MAX_DEVICES]; /* lanes of the pattern at hand */
    uint32_t lane_count;
    uint32_t landed[DITI_MAX_DEVICES]; /* copies that come to a device: each to a place of its own */
} diti_measure;

static dit_result diti_measure_make(diti_measure *m, dit_error *err) {
    uint32_t i;
    for (i = 0; i < m->peers->count; i++) {
        diti_device *device = m->peers->devices[i];
        DITI_TRY(diti_buffer_create_shared(device, DITI_MEASURE_BYTES, "measuring", &m->from[i], err));
        DITI_TRY(diti_buffer_create_shared(device, DITI_MEASURE_BYTES, "measuring", &m->to[i], err));
    }
    return DIT_OK;
}

static void diti_measure_clear(diti_measure *m) {
    while (m->lane_count) diti_lane_destroy(m->lanes[--m->lane_count]);
    memset(m->landed, 0, sizeof m->landed);
}

static void diti_measure_drop(diti_measure *m) {
    uint32_t i;
    diti_measure_clear(m);
    for (i = 0; i < m->peers->count; i++) {
        diti_buffer_destroy(m->peers->devices[i], &m->from[i]);
        diti_buffer_destroy(m->peers->devices[i], &m->to[i]);
    }
}

/* One more copy of the pattern. */
static dit_result diti_measure_add(diti_measure *m, uint32_t from, uint32_t to, uint64_t bytes, dit_error *err) {
    const diti_peers *peers = m->peers;
    diti_lane_desc desc = DITI_ZERO;
    diti_lane_copy copy = DITI_ZERO;
    diti_lane *lane;
    dit_result result;
    desc.transport = peers->transports[from][to];
    desc.devices[DITI_LANE_OUT] = peers->devices[from];
    desc.devices[DITI_LANE_IN] = peers->devices[to];
    desc.bridged = peers->bridges[from][to];
    desc.from = from;
    desc.to = to;
    desc.slot_bytes = (bytes / DITI_MEASURE_CHUNKS + 255) & ~(uint64_t)255;
    if (desc.slot_bytes > peers->chunk) desc.slot_bytes = peers->chunk;
    DITI_TRY(diti_lane_create(&peers->env, &desc, &lane, err));
    m->lanes[m->lane_count++] = lane;
    copy.pitch = copy.row_bytes = bytes;
    copy.rows = 1;
    diti_format(copy.name, sizeof copy.name, "measuring");
    copy.buffer = m->from[from].buffer;
    result = diti_lane_add(lane, DITI_LANE_OUT, &copy, err);
    copy.buffer = m->to[to].buffer;
    copy.offset = bytes * m->landed[to]++;
    return result < 0 ? result : diti_lane_add(lane, DITI_LANE_IN, &copy, err);
}

/* All copies of the pattern once, at the same time. */
static dit_result diti_measure_once(diti_measure *m, uint64_t *us, dit_error *err) {
    uint64_t begin = diti_clock_us(), looked_us = 0, waited_us = 0;
    bool busy = true, moved, waited;
    uint32_t i;
    for (i = 0; i < m->lane_count; i++) {
        diti_lane_open(m->lanes[i], DITI_LANE_OUT, 0, VK_NULL_HANDLE, 0);
        diti_lane_open(m->lanes[i], DITI_LANE_IN, 0, VK_NULL_HANDLE, 0);
    }
    while (busy) {
        for (i = 0, busy = moved = waited = false; i < m->lane_count; i++) {
            DITI_TRY(diti_lane_pump(m->lanes[i], &moved, err));
            busy = busy || !diti_lane_idle(m->lanes[i]);
        }
        for (i = 0; i < m->lane_count && !moved && !waited; i++)
            DITI_TRY(diti_lane_wait(m->lanes[i], 1000000u, &waited, err));
        *us = diti_clock_us() - begin; /* where the clock was set back, no run takes longer */
        waited_us += diti_clock_passed(&looked_us);
        if (waited_us > DITI_MEASURE_MOST_US)
            return diti_fail(err, DIT_ERROR_TRANSPORT, "copies between devices took more than 10 s");
    }
    return DIT_OK;
}

/* Seconds of the pattern, the shortest; the first run is not counted. */
static dit_result diti_measure_run(diti_measure *m, double *seconds, dit_error *err) {
    uint64_t us = 0, least = UINT64_MAX;
    dit_result result = diti_measure_once(m, &us, err);
    uint32_t i;
    for (i = 0; i < DITI_MEASURE_TIMES && result >= 0; i++) {
        result = diti_measure_once(m, &us, err);
        if (us < least) least = us;
    }
    diti_measure_clear(m);
    *seconds = (double)(least ? least : 1) * 1e-6;
    return result;
}

/* Everyone sends to its neighbours at distances first, first + stride, ... in its group of `each`. */
typedef struct diti_measure_pattern {
    uint32_t each, stride;
    bool pairs, all; /* pairs of devices; each to all others; neither: round */
} diti_measure_pattern;

static bool diti_measure_sends(const diti_measure_pattern *pattern, uint32_t from, uint32_t to) {
    uint32_t a = from % pattern->each, b = to % pattern->each;
    if (from == to || from / pattern->each != to / pattern->each) return false;
    if (pattern->all) return true;
    if (pattern->pairs)
        return a / (2 * pattern->stride) == b / (2 * pattern->stride) && a % pattern->stride == b % pattern->stride;
    return b == (a + 1) % pattern->each;
}

/* Bytes that arrive per second and device; 0: nobody sends. */
static dit_result diti_measure_rate(diti_measure *m, const diti_measure_pattern *pattern, double *rate,
                                    dit_error *err) {
    uint64_t bytes = DITI_MEASURE_BYTES / (pattern->all ? pattern->each - 1 : 1) & ~(uint64_t)255;
    double seconds = 1;
    uint32_t from, to;
    for (from = 0; from < m->peers->count; from++) {
        for (to = 0; to < m->peers->count; to++)
            if (diti_measure_sends(pattern, from, to)) DITI_TRY(diti_measure_add(m, from, to, bytes, err));
    }
    *rate = m->lane_count ? (double)bytes * (pattern->all ? pattern->each - 1 : 1) : 0;
    DITI_TRY(diti_measure_run(m, &seconds, err));
    *rate /= seconds;
    return DIT_OK;
}

static dit_result diti_measure_rates(diti_measure *m, uint32_t each, uint32_t stride, diti_split_rates *rates,
                                     dit_error *err) {
    diti_measure_pattern pattern = DITI_ZERO;
    pattern.each = each;
    pattern.stride = stride;
    pattern.pairs = true;
    DITI_TRY(diti_measure_rate(m, &pattern, &rates->pair, err));
    rates->ring = rates->all_to_all = rates->pair;
    if (each == 2) return DIT_OK;
    pattern.pairs = false;
    DITI_TRY(diti_measure_rate(m, &pattern, &rates->ring, err));
    pattern.all = true;
    return diti_measure_rate(m, &pattern, &rates->all_to_all, err);
}

/* Each pair alone, both ways at the same time. */
static dit_result diti_measure_pairs(diti_measure *m, diti_split_links *links, dit_error *err) {
    uint32_t a, b;
    for (a = 0; a < m->peers->count; a++) {
        for (b = a + 1; b < m->peers->count; b++) {
            double seconds = 1;
            DITI_TRY(diti_measure_add(m, a, b, DITI_MEASURE_BYTES, err));
            DITI_TRY(diti_measure_add(m, b, a, DITI_MEASURE_BYTES, err));
            DITI_TRY(diti_measure_run(m, &seconds, err));
            links->pairs[a][b] = links->pairs[b][a] = (double)DITI_MEASURE_BYTES / seconds;
        }
    }
    return DIT_OK;
}

/* Copies of next to nothing, round. */
static dit_result diti_measure_latency(diti_measure *m, double *seconds, dit_error *err) {
    uint32_t count = m->peers->count, i;
    for (i = 0; i < count; i++) DITI_TRY(diti_measure_add(m, i, (i + 1) % count, DITI_MEASURE_SMALL, err));
    return diti_measure_run(m, seconds, err);
}

DIT_INTERNAL uint32_t diti_split_sockets(const diti_split_links *links) {
    uint32_t each, a, b;
    for (each = links->count / 2; each > 1; each--) {
        double inside = 0, across = 0;
        if (links->count % each) continue;
        for (a = 0; a < links->count; a++) {
            for (b = a + 1; b < links->count; b++) {
                double rate = links->pairs[a][b];
                if (a / each == b / each && (inside <= 0 || rate < inside)) inside = rate;
                if (a / each != b / each && rate > across) across = rate;
            }
        }
        if (inside > 1.5 * across) return each;
    }
    return 0;
}

static dit_result diti_measure_all(diti_measure *m, diti_split_links *links, dit_error *err) {
    uint32_t each;
    DITI_TRY(diti_measure_make(m, err));
    DITI_TRY(diti_measure_pairs(m, links, err));
    each = links->per_socket = diti_split_sockets(links);
    DITI_TRY(diti_measure_rates(m, each ? each : links->count, 1, &links->inside, err));
    links->across = links->inside;
    if (each) DITI_TRY(diti_measure_rates(m, links->count, each, &links->across, err));
    return diti_measure_latency(m, &links->latency, err);
}

DIT_INTERNAL dit_result diti_peers_measure(diti_peers *peers, dit_error *err) {
    diti_measure *m;
    diti_split_links links = DITI_ZERO;
    dit_result result;
    if (peers->links.count) return DIT_OK;
    m = (diti_measure *)diti_alloc_zero(&peers->env, sizeof *m);
    if (!m) return diti_fail_memory(err, "measuring copies between devices");
    m->peers = peers;
    links.count = peers->count;
    result = diti_measure_all(m, &links, err);
    diti_measure_drop(m);
    diti_free(&peers->env, m);
    DITI_TRY(result);
    peers->links = links;
    diti_log(&peers->env, DITI_LOG_INFO,
             "%u devices exchange %.2f GB/s each in pairs, %.2f round, %.2f all to all; a copy takes %.0f us",
             peers->count, links.inside.pair * 1e-9, links.inside.ring * 1e-9, links.inside.all_to_all * 1e-9,
             links.latency * 1e6);
    return DIT_OK;
}
