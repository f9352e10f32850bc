/* Plans that run side by side. A member's slices are submitted in their order, and one only when the exchanges that end
   before it are through: their last copies were submitted to its device, whose timelines the slice then waits for. */
#include "graph/group.h"
#include "split/mesh.h"

static bool diti_mesh_is_local(const diti_mesh *mesh, uint32_t number) {
    return number >= mesh->first && number - mesh->first < mesh->count;
}

/* --- making --- */

typedef struct diti_mesh_maker {
    diti_mesh *mesh;
    diti_peers *peers;
    diti_lane *lanes[DITI_MAX_MEMBERS][DITI_MAX_MEMBERS]; /* from, to */
    uint64_t largest[DITI_MAX_MEMBERS][DITI_MAX_MEMBERS]; /* bytes; 0: nothing is sent */
    dit_error *err;
} diti_mesh_maker;

/* Where an exchange's bytes are on its side. */
static void diti_mesh_copy(const diti_plan *plan, const diti_exchange *exchange, diti_lane_copy *copy) {
    const diti_tensor_info *tensor = &plan->tensors[exchange->tensor];
    VkDeviceSize size;
    memset(copy, 0, sizeof *copy);
    copy->buffer = diti_plan_buffer(plan, exchange->tensor, &copy->offset, &size);
    copy->pitch = (VkDeviceSize)tensor->pitch * diti_element_size(tensor->format);
    copy->row_bytes = diti_exchange_row_bytes(tensor);
    copy->rows = tensor->rows;
    diti_format(copy->name, sizeof copy->name, "%s", tensor->name);
}

static uint64_t diti_mesh_exchange_bytes(const diti_plan *plan, const diti_exchange *exchange) {
    const diti_tensor_info *tensor = &plan->tensors[exchange->tensor];
    return tensor->rows * diti_exchange_row_bytes(tensor);
}

/* The largest copy between any two members. */
static dit_result diti_mesh_measure(diti_mesh_maker *maker, uint32_t index) {
    const diti_mesh *mesh = maker->mesh;
    const diti_plan *plan = mesh->members[index].plan;
    uint32_t self = mesh->first + index;
    size_t i;
    for (i = 0; i < plan->exchange_count; i++) {
        const diti_exchange *exchange = &plan->exchanges[i];
        uint64_t bytes = diti_mesh_exchange_bytes(plan, exchange), *largest;
        if (exchange->peer >= mesh->all || exchange->peer == self)
            return diti_fail(maker->err, DIT_ERROR_INVALID_ARGUMENT,
                             "device %u of %u exchanges %s with device %u, which is no other one of them", self,
                             mesh->all, plan->tensors[exchange->tensor].name, exchange->peer);
        largest = exchange->sends ? &maker->largest[self][exchange->peer] : &maker->largest[exchange->peer][self];
        if (*largest < bytes) *largest = bytes;
    }
    return DIT_OK;
}

/* The next exchange of a plan with another member that ends in its segment's run; *carried: one that does not was met.
 */
static const diti_exchange *diti_mesh_next(const diti_plan *plan, uint32_t peer, bool sends, size_t *at,
                                           bool *carried) {
    for (; *at < plan->exchange_count; ++*at) {
        const diti_exchange *exchange = &plan->exchanges[*at];
        if (exchange->peer != peer || exchange->sends != sends) continue;
        if (exchange->carried) *carried = true;
        ++*at;
        return exchange;
    }
    return NULL;
}

/* Checks that one member sends to another what that one receives from it, segment by segment. For carried exchanges
   only a run tells which meets which (diti_lane_pump). */
static dit_result diti_mesh_check(const diti_mesh_maker *maker, uint32_t from, uint32_t to) {
    const diti_plan *sends = maker->mesh->members[from - maker->mesh->first].plan;
    const diti_plan *receives = maker->mesh->members[to - maker->mesh->first].plan;
    size_t at[2] = {0, 0};
    bool carried = false;
    const char *differs = NULL;
    for (;;) {
        const diti_exchange *out = diti_mesh_next(sends, to, true, &at[0], &carried);
        const diti_exchange *in = diti_mesh_next(receives, from, false, &at[1], &carried);
        if (!out && !in) break;
        if (differs) continue;
        differs = !out || !in                                                                      ? "number"
                  : out->segment != in->segment                                                    ? "its segment"
                  : diti_mesh_exchange_bytes(sends, out) != diti_mesh_exchange_bytes(receives, in) ? "bytes"
                                                                                                   : NULL;
    }
    if (!differs || carried) return DIT_OK;
    return diti_fail(maker->err, DIT_ERROR_INVALID_ARGUMENT,
                     "the plans of devices %u and %u do not fit together: what is sent and received differs in %s",
                     from, to, differs);
}

/* NULL: it is in another process. */
static diti_device *diti_mesh_device(const diti_mesh *mesh, uint32_t number) {
    return diti_mesh_is_local(mesh, number) ? mesh->members[number - mesh->first].device : NULL;
}

static diti_transport diti_mesh_transport(const diti_mesh_maker *maker, uint32_t from, uint32_t to) {
    const diti_device *out = diti_mesh_device(maker->mesh, from), *in = diti_mesh_device(maker->mesh, to);
    if (!out || !in) return DITI_TRANSPORT_APPLICATION;
    return out == in ? DITI_TRANSPORT_LOCAL : maker->peers->transports[out->ordinal][in->ordinal];
}

/* Bytes of the host's memory for a lane's slots on this device: lanes that are not made yet have equal parts of what
   there still is. */
static uint64_t diti_mesh_room(const diti_mesh_maker *maker, diti_device *device) {
    const diti_mesh *mesh = maker->mesh;
    uint32_t from, to, lanes = 0;
    if (!device) return UINT64_MAX;
    for (from = 0; from < mesh->all; from++)
        for (to = 0; to < mesh->all; to++)
            lanes += maker->largest[from][to] && !maker->lanes[from][to] &&
                     (diti_mesh_device(mesh, from) == device || diti_mesh_device(mesh, to) == device) &&
                     diti_lane_pins(diti_mesh_transport(maker, from, to));
    return lanes ? diti_memory_host_room(device) / lanes : UINT64_MAX;
}

static dit_result diti_mesh_add_lane(diti_mesh_maker *maker, uint32_t from, uint32_t to) {
    diti_mesh *mesh = maker->mesh;
    diti_peers *peers = maker->peers;
    uint64_t largest = maker->largest[from][to], rooms[DITI_LANE_SIDES];
    diti_lane_desc desc = DITI_ZERO;
    if (!diti_grow(&mesh->env, (void **)&mesh->lanes, &mesh->lane_capacity, mesh->lane_count, sizeof *mesh->lanes))
        return diti_fail_memory(maker->err, "copies between devices");
    desc.from = from;
    desc.to = to;
    desc.devices[DITI_LANE_OUT] = diti_mesh_device(mesh, from);
    desc.devices[DITI_LANE_IN] = diti_mesh_device(mesh, to);
    desc.transport = diti_mesh_transport(maker, from, to);
    desc.slot_bytes = peers->chunk;
    if (desc.transport != DITI_TRANSPORT_APPLICATION) { /* processes of one cut alike, whatever else each sends */
        desc.bridged = desc.transport != DITI_TRANSPORT_LOCAL &&
                       peers->bridges[desc.devices[0]->ordinal][desc.devices[1]->ordinal];
        if (largest < peers->chunk) desc.slot_bytes = (largest + 255) & ~(uint64_t)255;
    }
    rooms[DITI_LANE_OUT] = diti_mesh_room(maker, desc.devices[DITI_LANE_OUT]);
    rooms[DITI_LANE_IN] = diti_mesh_room(maker, desc.devices[DITI_LANE_IN]);
    if (diti_lane_pins(desc.transport)) diti_lane_fit(&desc, rooms[0] < rooms[1] ? rooms[0] : rooms[1]);
    desc.application = &peers->application;
    desc.ranks[DITI_LANE_OUT] = mesh->ranks[from / mesh->each];
    desc.ranks[DITI_LANE_IN] = mesh->ranks[to / mesh->each];
    desc.tag = from << 5 | to;
    desc.limit_us = peers->limit_us;
    desc.owed = &peers->owed;
    DITI_TRY(diti_lane_create(&mesh->env, &desc, &maker->lanes[from][to], maker->err));
    mesh->lanes[mesh->lane_count++] = maker->lanes[from][to];
    return DIT_OK;
}

static dit_result diti_mesh_add_lanes(diti_mesh_maker *maker) {
    const diti_mesh *mesh = maker->mesh;
    uint32_t i, from, to;
    for (i = 0; i < mesh->count; i++) DITI_TRY(diti_mesh_measure(maker, i));
    for (from = 0; from < mesh->all; from++) {
        for (to = 0; to < mesh->all; to++) {
            if (!maker->largest[from][to]) continue;
            if (diti_mesh_is_local(mesh, from) && diti_mesh_is_local(mesh, to))
                DITI_TRY(diti_mesh_check(maker, from, to));
            DITI_TRY(diti_mesh_add_lane(maker, from, to));
        }
    }
    return DIT_OK;
}

static dit_result diti_mesh_add_ports(diti_mesh_maker *maker, uint32_t index) {
    diti_mesh *mesh = maker->mesh;
    const diti_plan *plan = mesh->members[index].plan;
    uint32_t self = mesh->first + index;
    dit_result result = DIT_OK;
    size_t i;
    for (i = 0; i < plan->exchange_count && result >= 0; i++) {
        const diti_exchange *exchange = &plan->exchanges[i];
        diti_mesh_port *port = &mesh->members[index].ports[i];
        diti_lane_copy copy;
        diti_mesh_copy(plan, exchange, &copy);
        port->lane = exchange->sends ? maker->lanes[self][exchange->peer] : maker->lanes[exchange->peer][self];
        port->side = exchange->sends ? DITI_LANE_OUT : DITI_LANE_IN;
        port->copy = (uint32_t)port->lane->sides[port->side].copy_count;
        result = diti_lane_add(port->lane, port->side, &copy, maker->err);
    }
    return result;
}

static dit_result diti_mesh_make(diti_mesh_maker *maker, diti_plan *const *plans, const diti_mesh_places *places) {
    diti_mesh *mesh = maker->mesh;
    dit_result result = DIT_OK;
    uint32_t i;
    for (i = 0; i < mesh->count; i++) {
        diti_mesh_member *member = &mesh->members[i];
        size_t count = plans[i]->exchange_count + 1;
        member->plan = plans[i];
        member->device = maker->peers->devices[places ? places->devices[i] : i];
        member->ports = (diti_mesh_port *)diti_alloc_array(&mesh->env, count, sizeof *member->ports);
        member->open = (uint32_t *)diti_alloc_array(&mesh->env, count, sizeof *member->open);
        if (!member->ports || !member->open) return diti_fail_memory(maker->err, "exchanges");
        memset(member->ports, 0, count * sizeof *member->ports);
    }
    result = diti_mesh_add_lanes(maker);
    for (i = 0; i < mesh->count && result >= 0; i++) result = diti_mesh_add_ports(maker, i);
    return result;
}

DIT_INTERNAL dit_result diti_mesh_create(diti_peers *peers, diti_plan *const *plans, const diti_mesh_places *places,
                                         uint32_t count, diti_mesh **out, dit_error *err) {
    diti_mesh_maker maker = DITI_ZERO;
    diti_mesh *mesh;
    dit_result result;
    uint32_t each = places ? places->each : peers->count;
    *out = NULL;
    if (each * peers->rank_count > DITI_MAX_MEMBERS)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "a mesh has at most %u members", DITI_MAX_MEMBERS);
    mesh = (diti_mesh *)diti_alloc_zero(&peers->env, sizeof *mesh);
    if (!mesh) return diti_fail_memory(err, "a mesh of devices");
    mesh->env = peers->env;
    mesh->count = count;
    mesh->limit_us = peers->limit_us;
    mesh->peers = peers;
    mesh->first = places ? places->first : peers->first;
    mesh->all = peers->rank_count * each;
    mesh->each = each;
    memcpy(mesh->ranks, peers->ranks, sizeof mesh->ranks);
    maker.mesh = mesh;
    maker.peers = peers;
    maker.err = err;
    result = diti_mesh_make(&maker, plans, places);
    if (result < 0)
        diti_mesh_destroy(mesh);
    else
        *out = mesh;
    return result < 0 ? result : DIT_OK;
}

DIT_INTERNAL void diti_mesh_destroy(diti_mesh *mesh) {
    diti_env env;
    uint32_t i;
    if (!mesh) return;
    env = mesh->env;
    diti_beats_settle(mesh, mesh->peers);
    while (mesh->lane_count) diti_lane_destroy(mesh->lanes[--mesh->lane_count]);
    diti_free(&env, mesh->lanes);
    for (i = 0; i < mesh->count; i++) {
        diti_free(&env, mesh->members[i].ports);
        diti_free(&env, mesh->members[i].open);
    }
    diti_free(&env, mesh);
}

/* --- running --- */

/* An exchange goes on its way; false: it still is since it began before. */
static bool diti_mesh_open(diti_mesh_member *member, uint32_t exchange) {
    diti_mesh_port *port = &member->ports[exchange];
    if (port->open && port->lane->sides[port->side].submitted < port->last) return false;
    if (member->next.wait_count) { /* the slice may use what has just arrived */
        if (diti_plan_submit_waits(member->plan, &member->next, &member->error) < 0) return false;
        memset(&member->next, 0, sizeof member->next);
    }
    if (!port->open) member->open[member->open_count++] = exchange;
    port->open = true;
    port->last = diti_lane_open(port->lane, port->side, port->copy, member->plan->timeline.semaphore,
                                member->plan->timeline.submitted);
    return true;
}

/* Closes what is open and wanted: one exchange, or those carried of a tensor, or those that end with their segment.
   false: something is not through. */
static bool diti_mesh_close(diti_mesh_member *member, const diti_exchange_event *event) {
    uint32_t i, kept = 0;
    bool all = true;
    for (i = 0; i < member->open_count; i++) {
        uint32_t number = member->open[i];
        const diti_exchange *exchange = &member->plan->exchanges[number];
        diti_mesh_port *port = &member->ports[number];
        const diti_lane_side *side = &port->lane->sides[port->side];
        bool wanted = !event                               ? !exchange->carried
                      : event->kind == DITI_EXCHANGE_JOINS ? exchange->carried && exchange->tensor == event->tensor
                                                           : number == event->exchange;
        if (wanted && side->submitted >= port->last) {
            diti_submission_wait(&member->next, side->timeline, port->last);
            port->open = false;
            continue;
        }
        if (wanted) all = false;
        member->open[kept++] = number;
    }
    member->open_count = kept;
    return all;
}

/* The cursor of a member stands before a slice: in their order, what begins there goes on its way, and what ends there
   must have come through. */
static bool diti_mesh_meet(diti_mesh_member *member, uint32_t slice) {
    const diti_exchange_event *events = member->plan->events;
    for (; member->met < member->last && events[member->met].slice <= slice; member->met++) {
        const diti_exchange_event *event = &events[member->met];
        bool begins = event->kind == DITI_EXCHANGE_BEGINS;
        if (!(begins ? diti_mesh_open(member, event->exchange) : diti_mesh_close(member, event))) return false;
    }
    return true;
}

DIT_INTERNAL bool diti_mesh_ready(diti_mesh *mesh, uint32_t index, uint32_t segment, uint32_t slice) {
    diti_mesh_member *member = &mesh->members[index];
    if (slice == 0 && !member->arrived) {
        if (!diti_mesh_meet(member, UINT32_MAX) || !diti_mesh_close(member, NULL)) return false;
        member->arrived = true;
        member->met = member->plan->first_event[segment];
        member->last = member->plan->first_event[segment + 1];
    }
    return diti_mesh_meet(member, slice);
}

DIT_INTERNAL dit_result diti_mesh_submit(diti_mesh *mesh, uint32_t index, uint32_t segment, uint32_t slice,
                                         uint64_t *value, dit_error *err) {
    diti_mesh_member *member = &mesh->members[index];
    DITI_TRY(diti_plan_submit_after(member->plan, segment, slice, &member->next, value, err));
    memset(&member->next, 0, sizeof member->next);
    member->arrived = false;
    diti_mesh_meet(member, slice + 1);
    return DIT_OK;
}

/* A transport that fails is the other rank's, unless that one still said that another is lost. */
static dit_result diti_mesh_pump_lane(diti_mesh *mesh, diti_lane *lane, bool *moved, dit_error *err) {
    uint32_t other = lane->ranks[lane->sides[DITI_LANE_OUT].device ? DITI_LANE_IN : DITI_LANE_OUT];
    dit_result result;
    if (lane->transport != DITI_TRANSPORT_APPLICATION) return diti_lane_pump(lane, moved, err);
    result = diti_beats_joined(mesh, other) ? diti_lane_pump(lane, moved, err) : diti_lane_stand(lane, err);
    if (result != DIT_ERROR_TRANSPORT) return result;
    diti_beats_pump(mesh, NULL);
    diti_beats_lose(mesh, other);
    return result;
}

DIT_INTERNAL dit_result diti_mesh_pump(diti_mesh *mesh, bool *moved, dit_error *err) {
    size_t i;
    for (i = 0; i < mesh->lane_count; i++) DITI_TRY(diti_mesh_pump_lane(mesh, mesh->lanes[i], moved, err));
    DITI_TRY(diti_beats_pump(mesh, err));
    for (i = 0; i < mesh->count; i++) {
        if (mesh->members[i].error.result >= 0) continue;
        if (err) *err = mesh->members[i].error;
        return mesh->members[i].error.result;
    }
    return DIT_OK;
}

DIT_INTERNAL bool diti_mesh_idle(const diti_mesh *mesh) {
    size_t i;
    for (i = 0; i < mesh->lane_count; i++)
        if (!diti_lane_idle(mesh->lanes[i])) return false;
    return true;
}

DIT_INTERNAL bool diti_mesh_awaits(const diti_mesh *mesh, const diti_device *device) {
    size_t i;
    for (i = 0; i < mesh->lane_count; i++) {
        const diti_lane *lane = mesh->lanes[i];
        const diti_lane_side *out = &lane->sides[DITI_LANE_OUT], *in = &lane->sides[DITI_LANE_IN];
        if (lane->bridge && in->device == device && out->device != device && out->finished < in->submitted) return true;
    }
    return false;
}

DIT_INTERNAL diti_device *diti_mesh_waits(const diti_mesh *mesh) {
    size_t i;
    for (i = 0; i < 2 * mesh->lane_count; i++) {
        const diti_lane_side *side = &mesh->lanes[i / 2]->sides[i % 2];
        if (side->device && side->finished < side->submitted && !diti_mesh_awaits(mesh, side->device))
            return side->device;
    }
    return NULL;
}

DIT_INTERNAL void diti_mesh_release(diti_mesh *mesh) {
    size_t i;
    for (i = 0; i < mesh->lane_count; i++) diti_lane_release(mesh->lanes[i]);
}

DIT_INTERNAL dit_result diti_mesh_wait(diti_mesh *mesh, uint64_t timeout_ns, bool *waited, dit_error *err) {
    size_t i;
    for (i = 0, *waited = false; i < mesh->lane_count && !*waited; i++)
        DITI_TRY(diti_lane_wait(mesh->lanes[i], timeout_ns, waited, err));
    return DIT_OK;
}

/* Counts what happened so far, in any order; *busy: something is on its way. */
static dit_result diti_mesh_moves(const diti_mesh *mesh, uint64_t *moves, bool *busy, dit_error *err) {
    uint64_t done = 0;
    uint32_t i;
    size_t k;
    *moves = 0;
    *busy = false;
    for (k = 0; k < mesh->lane_count; k++) {
        const diti_lane_side *out = &mesh->lanes[k]->sides[DITI_LANE_OUT], *in = &mesh->lanes[k]->sides[DITI_LANE_IN];
        *moves += out->submitted + out->finished + in->submitted + in->finished;
        *busy = *busy || out->finished < out->submitted || in->finished < in->submitted;
    }
    for (i = 0; i < mesh->count && !*busy; i++) {
        const diti_plan *plan = mesh->members[i].plan;
        DITI_TRY(diti_timeline_value(plan->device, plan->timeline.semaphore, &done, err));
        *moves += plan->timeline.submitted;
        *busy = done < plan->timeline.submitted;
    }
    return DIT_OK;
}

DIT_INTERNAL dit_result diti_mesh_watch(diti_mesh *mesh, bool moved, dit_error *err) {
    uint64_t moves, passed_us = diti_clock_passed(&mesh->watched_us);
    bool busy;
    uint32_t i;
    DITI_TRY(diti_mesh_moves(mesh, &moves, &busy, err));
    mesh->still_us = moved || busy || moves != mesh->moves ? 0 : mesh->still_us + passed_us;
    mesh->moves = moves;
    if (mesh->still_us <= mesh->limit_us) return DIT_OK;
    for (i = 0; i < mesh->count; i++) {
        const diti_mesh_member *member = &mesh->members[i];
        const diti_exchange *exchange = member->open_count ? &member->plan->exchanges[member->open[0]] : NULL;
        if (exchange)
            return diti_fail(err, DIT_ERROR_TRANSPORT, "device %u waits to %s %s %s device %u, for %llu ms",
                             mesh->first + i, exchange->sends ? "send" : "receive",
                             member->plan->tensors[exchange->tensor].name, exchange->sends ? "to" : "from",
                             exchange->peer, (unsigned long long)(mesh->limit_us / 1000));
    }
    return diti_fail(err, DIT_ERROR_TRANSPORT, "nothing moved on any device for %llu ms",
                     (unsigned long long)(mesh->limit_us / 1000));
}

DIT_INTERNAL void diti_mesh_settle(diti_mesh *mesh) {
    uint32_t i;
    size_t k;
    mesh->still_us = 0;
    diti_beats_settle(mesh, mesh->peers);
    for (k = 0; k < mesh->lane_count; k++) {
        diti_lane_settle(mesh->lanes[k]);
        if (!mesh->lanes[k]->limit_us) mesh->lanes[k]->limit_us = mesh->limit_us; /* a rank that ended may be back */
    }
    for (i = 0; i < mesh->count; i++) {
        diti_mesh_member *member = &mesh->members[i];
        for (k = 0; k < member->open_count; k++) member->ports[member->open[k]].open = false;
        member->open_count = member->met = member->last = 0;
        memset(&member->error, 0, sizeof member->error);
        memset(&member->next, 0, sizeof member->next);
        member->arrived = false;
    }
}

DIT_INTERNAL dit_result diti_mesh_begin(diti_mesh *mesh, uint32_t job, uint32_t run, uint32_t terms, dit_error *err) {
    size_t i;
    mesh->job = job;
    mesh->run = run;
    mesh->terms = terms;
    for (i = 0; i < mesh->lane_count; i++) {
        const diti_lane *lane = mesh->lanes[i];
        if (!lane->ledger) continue;
        lane->ledger->tag = (job & 0xfu) << 24 | lane->tag << 14 | (run & 0xfu) << 10;
        lane->ledger->count = 0;
    }
    return diti_beats_create(mesh, err);
}

DIT_INTERNAL void diti_mesh_log(diti_mesh *mesh) {
    size_t i;
    for (i = 0; i < mesh->lane_count; i++) {
        diti_lane *lane = mesh->lanes[i];
        uint64_t bytes = lane->bytes - lane->told_bytes, us = lane->busy_us - lane->told_us;
        lane->told_bytes = lane->bytes;
        lane->told_us = lane->busy_us;
        if (bytes)
            diti_log(&mesh->env, DITI_LOG_INFO, "device %u sent %.3f MB to device %u by %s, at %.3f GB/s", lane->from,
                     (double)bytes * 1e-6, lane->to, diti_transport_name(lane->transport),
                     (double)bytes * 1e-3 / (double)(us ? us : 1));
    }
}

DIT_INTERNAL uint64_t diti_mesh_bytes(const diti_mesh *mesh, uint32_t member, uint32_t to) {
    uint64_t bytes = 0;
    size_t i;
    for (i = 0; i < mesh->lane_count; i++) {
        const diti_lane *lane = mesh->lanes[i];
        if (lane->from == mesh->first + member && (to == UINT32_MAX || to == lane->to)) bytes += lane->bytes;
    }
    return bytes;
}
