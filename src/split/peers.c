/* How the devices of a context reach each other. Drivers claim more than they do, so a transport counts only after its
   self-test: copies that go round the slots and leave a rest, compared byte for byte. */
#include "split/mesh.h"

#define DITI_PEERS_TEST_CHUNK 4096u
#define DITI_PEERS_TEST_US 10000000u
#define DITI_LETTERS_END_US 5000000u
#define DITI_PEERS_TEST_BYTES (5 * DITI_PEERS_TEST_CHUNK - 52)

typedef struct diti_peers_test {
    diti_device *devices[DITI_LANE_SIDES];
    diti_buffer buffers[DITI_LANE_SIDES];
    diti_lane *lane;
    uint64_t limit_us;
    unsigned char *bytes; /* bytes to send, then those that came */
} diti_peers_test;

static void diti_peers_fill(unsigned char *bytes, uint32_t seed) {
    uint32_t i;
    for (i = 0; i < DITI_PEERS_TEST_BYTES; i++) bytes[i] = (unsigned char)((i * 2654435761u + seed * 40503u) >> 13);
}

/* With bounded waits: a transport that is broken may keep its bytes for ever. */
static dit_result diti_peers_run_lane(diti_lane *lane, uint64_t limit_us, dit_error *err) {
    uint64_t looked_us = 0, waited_us = 0;
    bool moved, waited;
    diti_lane_open(lane, DITI_LANE_OUT, 0, VK_NULL_HANDLE, 0);
    diti_lane_open(lane, DITI_LANE_IN, 0, VK_NULL_HANDLE, 0);
    while (!diti_lane_idle(lane)) {
        DITI_TRY(diti_lane_pump(lane, &moved, err));
        DITI_TRY(diti_lane_wait(lane, 1000000u, &waited, err));
        waited_us += diti_clock_passed(&looked_us);
        if (waited_us > limit_us)
            return diti_fail(err, DIT_ERROR_TRANSPORT, "a copy between devices took more than %llu ms",
                             (unsigned long long)(limit_us / 1000));
    }
    return DIT_OK;
}

static dit_result diti_peers_test_run(diti_peers_test *test, uint32_t seed, bool *agrees, dit_error *err) {
    unsigned char *came = test->bytes + DITI_PEERS_TEST_BYTES;
    *agrees = false;
    diti_peers_fill(test->bytes, seed);
    memset(came, 0, DITI_PEERS_TEST_BYTES);
    DITI_TRY(diti_buffer_write(test->devices[0], &test->buffers[0], 0, test->bytes, DITI_PEERS_TEST_BYTES, err));
    DITI_TRY(diti_buffer_write(test->devices[1], &test->buffers[1], 0, came, DITI_PEERS_TEST_BYTES, err));
    DITI_TRY(diti_peers_run_lane(test->lane, test->limit_us, err));
    DITI_TRY(diti_buffer_read(test->devices[1], &test->buffers[1], 0, came, DITI_PEERS_TEST_BYTES, err));
    *agrees = !memcmp(test->bytes, came, DITI_PEERS_TEST_BYTES);
    return DIT_OK;
}

static dit_result diti_peers_test_make(const diti_peers *peers, diti_peers_test *test, const diti_lane_desc *desc,
                                       dit_error *err) {
    diti_lane_copy copy = DITI_ZERO;
    uint32_t i;
    DITI_TRY(diti_lane_create(&peers->env, desc, &test->lane, err));
    copy.pitch = copy.row_bytes = DITI_PEERS_TEST_BYTES;
    copy.rows = 1;
    diti_format(copy.name, sizeof copy.name, "self-test");
    for (i = 0; i < DITI_LANE_SIDES; i++) {
        DITI_TRY(diti_buffer_create_shared(test->devices[i], DITI_PEERS_TEST_BYTES, "a transport's self-test",
                                           &test->buffers[i], err));
        copy.buffer = test->buffers[i].buffer;
        DITI_TRY(diti_lane_add(test->lane, i, &copy, err));
    }
    return DIT_OK;
}

static dit_result diti_peers_try(const diti_peers *peers, uint32_t from, uint32_t to, diti_transport transport,
                                 bool bridged, bool *agrees, dit_error *err) {
    diti_peers_test test = DITI_ZERO;
    diti_lane_desc desc = DITI_ZERO;
    dit_result result;
    uint32_t i;
    *agrees = false;
    test.bytes = (unsigned char *)diti_alloc(&peers->env, 2 * DITI_PEERS_TEST_BYTES);
    if (!test.bytes) return diti_fail_memory(err, "a transport's self-test");
    test.limit_us = peers->limit_us < DITI_PEERS_TEST_US ? peers->limit_us : DITI_PEERS_TEST_US;
    desc.transport = transport;
    desc.bridged = bridged;
    desc.devices[DITI_LANE_OUT] = test.devices[0] = peers->devices[from];
    desc.devices[DITI_LANE_IN] = test.devices[1] = peers->devices[to];
    desc.from = from;
    desc.to = to;
    desc.slot_bytes = DITI_PEERS_TEST_CHUNK;
    result = diti_peers_test_make(peers, &test, &desc, err);
    for (i = 0; i < 2 && result >= 0; i++) {
        result = diti_peers_test_run(&test, i, agrees, err);
        if (!*agrees) break;
    }
    diti_lane_destroy(test.lane);
    for (i = 0; i < DITI_LANE_SIDES; i++) diti_buffer_destroy(test.devices[i], &test.buffers[i]);
    diti_free(&peers->env, test.bytes);
    return result;
}

static bool diti_peers_offers(const diti_peers *peers, uint32_t from, uint32_t to, diti_transport transport,
                              const char *overrides) {
    static const diti_memory_sharing shares[] = {DITI_SHARING_GROUP, DITI_SHARING_FD, DITI_SHARING_DMA_BUF,
                                                 DITI_SHARING_HOST};
    char wanted[16];
    if (diti_override_text(overrides, "transport", wanted, sizeof wanted) &&
        !diti_equal(wanted, diti_transport_name(transport)))
        return false;
    if (transport == DITI_TRANSPORT_DMA_BUF && !diti_override_is(overrides, "transport", "dma_buf") &&
        !diti_override_number(overrides, "unverified", 0))
        return false; /* this way ran on no driver that dit was tested with */
    return transport == DITI_TRANSPORT_STAGED ||
           diti_share_possible(peers->devices[from], peers->devices[to], shares[transport]);
}

/* Whether the receiving device can wait for the sending one itself, so that the host need not see what is sent before
   the copy goes on. On a queue that also computes it would keep what could run in the meantime from running. */
static dit_result diti_peers_bridge(diti_peers *peers, uint32_t from, uint32_t to, const char *overrides,
                                    dit_error *err) {
    const diti_device *signals = peers->devices[from], *waits = peers->devices[to];
    dit_error why = DITI_ZERO;
    dit_result result;
    bool agrees;
    if (peers->transports[from][to] == DITI_TRANSPORT_STAGED || !diti_timeline_shareable(signals, waits) ||
        !diti_override_number(overrides, "bridge", waits->transfer_queue != NULL))
        return DIT_OK;
    result = diti_peers_try(peers, from, to, peers->transports[from][to], true, &agrees, &why);
    if (diti_override_is(overrides, "break_transport", "bridge")) agrees = false;
    if (result == DIT_ERROR_DEVICE_LOST || result == DIT_ERROR_OUT_OF_HOST_MEMORY) {
        if (err) *err = why;
        return result;
    }
    peers->bridges[from][to] = agrees;
    if (agrees)
        diti_log(&peers->env, DITI_LOG_INFO, "device %u waits for device %u itself", to, from);
    else
        diti_log(&peers->env, DITI_LOG_WARNING, "device %u cannot wait for device %u itself: %s", to, from,
                 why.result < 0 ? why.message : "its self-test failed");
    return DIT_OK;
}

/* The best transport of a pair; what fails is left out, but for what nothing can help. */
static dit_result diti_peers_choose(diti_peers *peers, uint32_t from, uint32_t to, const char *overrides,
                                    dit_error *err) {
    int transport;
    for (transport = 0; transport <= DITI_TRANSPORT_STAGED; transport++) {
        const char *name = diti_transport_name((diti_transport)transport);
        dit_error why = DITI_ZERO;
        dit_result result;
        bool agrees;
        if (!diti_peers_offers(peers, from, to, (diti_transport)transport, overrides)) continue;
        result = diti_peers_try(peers, from, to, (diti_transport)transport, false, &agrees, &why);
        if (diti_override_is(overrides, "break_transport", name)) agrees = false;
        if (result == DIT_ERROR_DEVICE_LOST || result == DIT_ERROR_OUT_OF_HOST_MEMORY) {
            if (err) *err = why;
            return result;
        }
        peers->transports[from][to] = (diti_transport)transport;
        if (agrees) {
            diti_log(&peers->env, DITI_LOG_INFO, "device %u reaches device %u by %s", from, to, name);
            return diti_peers_bridge(peers, from, to, overrides, err);
        }
        diti_log(&peers->env, DITI_LOG_WARNING, "device %u does not reach device %u by %s: %s", from, to, name,
                 why.result < 0 ? why.message : "its self-test failed");
    }
    return diti_fail(err, DIT_ERROR_TRANSPORT, "device %u (%s) cannot send to device %u (%s)", from,
                     peers->devices[from]->info.name, to, peers->devices[to]->info.name);
}

static dit_result diti_peers_choose_all(diti_peers *peers, const char *overrides, dit_error *err) {
    dit_result result = DIT_OK;
    uint32_t from, to;
    for (from = 0; from < peers->count; from++) {
        for (to = 0; to < peers->count && result >= 0; to++)
            if (from != to) result = diti_peers_choose(peers, from, to, overrides, err);
    }
    return result;
}

static dit_result diti_peers_check(const dit_transport *application, uint32_t count, dit_error *err) {
    if (application->rank && application->rank >= application->rank_count)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "dit_transport: rank %u is not below rank_count %u",
                         application->rank, application->rank_count);
    if (application->rank_count <= 1) return DIT_OK;
    if (!application->send || !application->receive || !application->poll)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "dit_transport: set send, receive and poll");
    if ((uint64_t)application->rank_count * count > DITI_MAX_DEVICES)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "dit_transport: more than %u devices in all",
                         DITI_MAX_DEVICES);
    return DIT_OK;
}

DIT_INTERNAL dit_result diti_peers_create(const diti_env *env, diti_device *const *devices, uint32_t count,
                                          const dit_transport *application, const char *overrides, diti_peers **out,
                                          dit_error *err) {
    diti_peers *peers;
    dit_result result = diti_peers_check(application, count, err);
    uint32_t i;
    *out = NULL;
    DITI_TRY(result);
    peers = (diti_peers *)diti_alloc_zero(env, sizeof *peers);
    if (!peers) return diti_fail_memory(err, "a set of devices");
    peers->env = *env;
    peers->devices = devices;
    peers->count = peers->all = count;
    peers->rank_count = 1;
    peers->chunk = diti_override_number(overrides, "chunk", (uint64_t)8 << 20);
    peers->chunk = peers->chunk < 256 ? 256 : peers->chunk & ~(VkDeviceSize)255;
    peers->limit_us = diti_override_number(overrides, "transport_ms", 300000) * 1000;
    peers->silence_us = diti_override_number(overrides, "silence_ms", 25000) * 1000;
    if (peers->silence_us > peers->limit_us) peers->silence_us = peers->limit_us;
    if (application->rank_count > 1) {
        peers->application = *application;
        for (i = 0; i < application->rank_count; i++) peers->ranks[i] = i;
        peers->rank_count = application->rank_count;
        peers->place = application->rank;
        peers->first = peers->place * count;
        peers->all = peers->rank_count * count;
    }
    result = diti_peers_choose_all(peers, overrides, err);
    if (result < 0)
        diti_peers_destroy(peers);
    else
        *out = peers;
    return result;
}

DIT_INTERNAL void diti_peers_leave_out(diti_peers *peers, uint32_t rank) {
    uint32_t i, kept = 0;
    for (i = 0; i < peers->rank_count; i++) {
        if (peers->ranks[i] == peers->application.rank) peers->place = kept;
        if (peers->ranks[i] != rank) peers->ranks[kept++] = peers->ranks[i];
    }
    peers->rank_count = kept;
    peers->first = peers->place * peers->count;
    peers->all = peers->rank_count * peers->count;
}

/* --- letters --- */

/* The text stands behind the letter. */
static void *diti_letter_room(diti_letter *letter) { return letter + 1; }

DIT_INTERNAL const void *diti_letter_text(const diti_letter *letter) { return letter + 1; }

/* Numbers that no lane has, as in beats.c, which has the other half of them. */
static uint64_t diti_letter_tag(uint32_t job, uint32_t number, uint32_t sender) {
    uint64_t lane = (job << 10 | sender << 5 | sender) & ((1u << DITI_LANE_TAG_BITS) - 1);
    return lane << 14 | 0x200u | (number & 0x1ffu);
}

/* Frees letters that nobody waits for, and that have come or left; all: every letter. */
static void diti_letters_free(diti_peers *peers, bool all) {
    diti_letter **at = &peers->letters;
    diti_lock(&peers->letters_lock);
    while (*at) {
        diti_letter *letter = *at;
        if (!all && (letter->kept || diti_letter_poll(peers, letter, NULL) == DIT_WORKING)) {
            at = &letter->next;
            continue;
        }
        *at = letter->next;
        diti_free(&peers->env, letter);
    }
    diti_unlock(&peers->letters_lock);
}

/* The caller waits for it, so far. */
static diti_letter *diti_letter_new(diti_peers *peers, uint32_t rank, size_t size, dit_error *err) {
    diti_letter *letter;
    diti_letters_free(peers, false);
    letter = (diti_letter *)diti_alloc_zero(&peers->env, sizeof *letter + size);
    if (!letter) {
        diti_fail_memory(err, "a message to another process");
        return NULL;
    }
    letter->rank = rank;
    letter->size = size;
    letter->kept = true;
    diti_lock(&peers->letters_lock);
    letter->next = peers->letters;
    peers->letters = letter;
    diti_unlock(&peers->letters_lock);
    return letter;
}

static dit_result diti_letter_broken(const diti_letter *letter, dit_error *err) {
    return diti_fail(err, DIT_ERROR_TRANSPORT, "the application's transport to rank %u failed", letter->rank);
}

DIT_INTERNAL dit_result diti_letter_send(diti_peers *peers, uint32_t job, uint32_t number, uint32_t to,
                                         const void *data, size_t size, diti_letter **out, dit_error *err) {
    const dit_transport *with = &peers->application;
    diti_letter *letter = diti_letter_new(peers, to, size, err);
    dit_result result = DIT_OK;
    if (!letter) return DIT_ERROR_OUT_OF_HOST_MEMORY;
    if (out) *out = letter;
    memcpy(diti_letter_room(letter), data, size);
    letter->request =
        with->send(to, diti_letter_room(letter), size, diti_letter_tag(job, number, with->rank), with->user);
    if (!letter->request) result = diti_letter_broken(letter, err);
    if (!out) diti_letter_drop(peers, &letter);
    return result;
}

DIT_INTERNAL dit_result diti_letter_ask(diti_peers *peers, uint32_t job, uint32_t number, uint32_t from, size_t size,
                                        diti_letter **out, dit_error *err) {
    const dit_transport *with = &peers->application;
    diti_letter *letter = diti_letter_new(peers, from, size, err);
    *out = letter;
    if (!letter) return DIT_ERROR_OUT_OF_HOST_MEMORY;
    letter->request =
        with->receive(from, diti_letter_room(letter), size, diti_letter_tag(job, number, from), with->user);
    return letter->request ? DIT_OK : diti_letter_broken(letter, err);
}

DIT_INTERNAL dit_result diti_letter_poll(const diti_peers *peers, diti_letter *letter, dit_error *err) {
    int done = letter->request ? peers->application.poll(letter->request, peers->application.user) : 1;
    if (done) letter->request = NULL;
    if (done < 0) return diti_letter_broken(letter, err);
    return done ? DIT_OK : DIT_WORKING;
}

DIT_INTERNAL void diti_letter_drop(diti_peers *peers, diti_letter **letter) {
    diti_lock(&peers->letters_lock);
    if (*letter) (*letter)->kept = false;
    *letter = NULL;
    diti_unlock(&peers->letters_lock);
    diti_letters_free(peers, false);
}

/* Waits a while for letters that are on their way: the other processes make the same calls, and so send and take them,
   and the application's transport should have nothing left to do behind the context. */
static void diti_letters_end(diti_peers *peers) {
    uint64_t looked_us = 0, waited_us = 0;
    VkSemaphore never = VK_NULL_HANDLE; /* C99 has no other way to sleep: nobody signals it */
    diti_letters_free(peers, false);
    while (peers->letters && (waited_us += diti_clock_passed(&looked_us)) < DITI_LETTERS_END_US) {
        if (peers->count && (never || diti_timeline_create(peers->devices[0], &never, NULL) >= 0))
            diti_timeline_wait(peers->devices[0], never, 1, 1000000u, NULL);
        diti_letters_free(peers, false);
    }
    if (never) diti_destroy_Semaphore(peers->devices[0], never);
    diti_letters_free(peers, true);
}

DIT_INTERNAL void diti_peers_destroy(diti_peers *peers) {
    diti_env env;
    if (!peers) return;
    env = peers->env;
    diti_beats_part(peers);
    diti_lane_free_owed(&env, &peers->owed, true);
    diti_beats_free(&env, peers->deaf);
    diti_beats_free(&env, peers->coming);
    diti_letters_end(peers);
    diti_free(&env, peers);
}
