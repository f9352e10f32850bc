/* Plans that run side by side. A member's slices are submitted in their order, and one only when the exchanges that end
   before it are through: their last copies were submitted to its device, whose timelines the slice then waits for. */
#include "split/mesh.h"

static bool diti_mesh_is_local(const diti_mesh *mesh, uint32_t number) {
    return number >= mesh->first && number - mesh->first < mesh->count;
}

/* --- making --- */

typedef struct diti_mesh_maker {
    diti_mesh *mesh;
    const diti_peers *peers;
    uint64_t tag;
    uint32_t from, to;              /* the pair at hand */
    uint32_t next[DITI_LANE_SIDES]; /* the exchange of either plan to look at next */
    dit_error *err;
} diti_mesh_maker;

/* The next exchange of a side's plan with the other device; NULL: there is none, or the plan is in another process. */
static const diti_exchange *diti_mesh_next(diti_mesh_maker *maker, uint32_t side, diti_mesh_port **port) {
    uint32_t self = side == DITI_LANE_OUT ? maker->from : maker->to, other = maker->from + maker->to - self, *i;
    diti_mesh_member *member;
    if (!diti_mesh_is_local(maker->mesh, self)) return NULL;
    member = &maker->mesh->members[self - maker->mesh->first];
    for (i = &maker->next[side]; *i < member->plan->exchange_count; ++*i) {
        const diti_exchange *exchange = &member->plan->exchanges[*i];
        if (exchange->peer != other || exchange->sends != (side == DITI_LANE_OUT)) continue;
        *port = &member->ports[(*i)++];
        return exchange;
    }
    return NULL;
}

/* Where an exchange's bytes are on its side. */
static void diti_mesh_region(const diti_mesh *mesh, uint32_t number, const diti_exchange *exchange, uint32_t side,
                             diti_lane_copy *copy) {
    const diti_plan *plan = mesh->members[number - mesh->first].plan;
    const diti_tensor_info *tensor = &plan->tensors[exchange->tensor];
    VkDeviceSize size;
    copy->regions[side].buffer = diti_plan_buffer(plan, exchange->tensor, &copy->regions[side].offset, &size);
    copy->regions[side].pitch = (VkDeviceSize)tensor->pitch * diti_element_size(tensor->format);
    copy->row_bytes = diti_exchange_row_bytes(tensor);
    copy->rows = tensor->rows;
    diti_format(copy->name, sizeof copy->name, "%s", tensor->name);
}

static dit_result diti_mesh_mismatch(const diti_mesh_maker *maker, const char *what) {
    return diti_fail(maker->err, DIT_ERROR_INVALID_ARGUMENT,
                     "the plans of devices %u and %u do not fit together: what is sent and received differs in %s",
                     maker->from, maker->to, what);
}

/* The next copy of the pair; DIT_WORKING: there is none. */
static dit_result diti_mesh_match(diti_mesh_maker *maker, diti_lane_copy *copy,
                                  diti_mesh_port *ports[DITI_LANE_SIDES]) {
    const diti_exchange *exchanges[DITI_LANE_SIDES];
    bool both = diti_mesh_is_local(maker->mesh, maker->from) && diti_mesh_is_local(maker->mesh, maker->to);
    uint32_t side;
    uint64_t bytes;
    memset(copy, 0, sizeof *copy);
    ports[0] = ports[1] = NULL;
    for (side = 0; side < DITI_LANE_SIDES; side++) exchanges[side] = diti_mesh_next(maker, side, &ports[side]);
    if (!exchanges[0] && !exchanges[1]) return DIT_WORKING;
    if (both && (!exchanges[0] || !exchanges[1])) return diti_mesh_mismatch(maker, "number");
    if (both && exchanges[0]->segment != exchanges[1]->segment) return diti_mesh_mismatch(maker, "its segment");
    for (side = 0; side < DITI_LANE_SIDES; side++) {
        if (!exchanges[side]) continue;
        bytes = copy->row_bytes * copy->rows;
        diti_mesh_region(maker->mesh, side == DITI_LANE_OUT ? maker->from : maker->to, exchanges[side], side, copy);
        if (bytes && bytes != copy->row_bytes * copy->rows) return diti_mesh_mismatch(maker, "bytes");
    }
    return DIT_OK;
}

/* The largest copy of the pair; 0: nothing is sent. */
static dit_result diti_mesh_measure(diti_mesh_maker *maker, uint64_t *largest) {
    diti_mesh_port *ports[DITI_LANE_SIDES];
    diti_lane_copy copy;
    dit_result result;
    *largest = 0;
    memset(maker->next, 0, sizeof maker->next);
    while ((result = diti_mesh_match(maker, &copy, ports)) == DIT_OK)
        if (copy.row_bytes * copy.rows > *largest) *largest = copy.row_bytes * copy.rows;
    memset(maker->next, 0, sizeof maker->next);
    return result;
}

static dit_result diti_mesh_add_lane(diti_mesh_maker *maker, uint64_t largest, diti_lane **out) {
    diti_mesh *mesh = maker->mesh;
    const diti_peers *peers = maker->peers;
    diti_lane_desc desc = DITI_ZERO;
    dit_result result;
    if (!diti_grow(&mesh->env, (void **)&mesh->lanes, &mesh->lane_capacity, mesh->lane_count, sizeof *mesh->lanes))
        return diti_fail(maker->err, DIT_ERROR_OUT_OF_HOST_MEMORY, "no host memory for copies between devices");
    desc.transport = DITI_TRANSPORT_APPLICATION;
    desc.from = maker->from;
    desc.to = maker->to;
    if (diti_mesh_is_local(mesh, desc.from)) desc.devices[DITI_LANE_OUT] = peers->devices[desc.from - mesh->first];
    if (diti_mesh_is_local(mesh, desc.to)) desc.devices[DITI_LANE_IN] = peers->devices[desc.to - mesh->first];
    if (desc.devices[0] && desc.devices[1])
        desc.transport = peers->transports[desc.from - mesh->first][desc.to - mesh->first];
    desc.slot_bytes = largest < peers->chunk ? (largest + 255) & ~(uint64_t)255 : peers->chunk;
    desc.application = &peers->application;
    desc.tag = (maker->tag << 8 | maker->from << 4 | maker->to) & 0xffffffffu;
    desc.limit_us = peers->limit_us;
    result = diti_lane_create(&mesh->env, &desc, out, maker->err);
    if (result >= 0) mesh->lanes[mesh->lane_count++] = *out;
    return result;
}

static dit_result diti_mesh_connect(diti_mesh_maker *maker) {
    diti_mesh_port *ports[DITI_LANE_SIDES];
    diti_lane *lane = NULL;
    diti_lane_copy copy;
    uint64_t largest;
    uint32_t side;
    dit_result result = diti_mesh_measure(maker, &largest);
    if (result < 0 || !largest) return result;
    result = diti_mesh_add_lane(maker, largest, &lane);
    while (result >= 0 && (result = diti_mesh_match(maker, &copy, ports)) == DIT_OK) {
        for (side = 0; side < DITI_LANE_SIDES; side++) {
            if (!ports[side]) continue;
            ports[side]->lane = lane;
            ports[side]->side = side;
            ports[side]->copy = (uint32_t)lane->copy_count;
        }
        result = diti_lane_add(lane, &copy, maker->err);
    }
    return result;
}

static dit_result diti_mesh_make(diti_mesh_maker *maker, diti_plan *const *plans) {
    diti_mesh *mesh = maker->mesh;
    dit_result result = DIT_OK;
    uint32_t i, all = maker->peers->all;
    for (i = 0; i < mesh->count; i++) {
        diti_mesh_member *member = &mesh->members[i];
        member->plan = plans[i];
        member->ports =
            (diti_mesh_port *)diti_alloc_array(&mesh->env, plans[i]->exchange_count + 1, sizeof *member->ports);
        if (!member->ports) return diti_fail(maker->err, DIT_ERROR_OUT_OF_HOST_MEMORY, "no host memory for exchanges");
    }
    for (maker->from = 0; maker->from < all && result >= 0; maker->from++) {
        for (maker->to = 0; maker->to < all && result >= 0; maker->to++)
            if (maker->from != maker->to) result = diti_mesh_connect(maker);
    }
    return result;
}

DIT_INTERNAL dit_result diti_mesh_create(diti_peers *peers, diti_plan *const *plans, uint32_t count, diti_mesh **out,
                                         dit_error *err) {
    diti_mesh_maker maker = DITI_ZERO;
    diti_mesh *mesh = (diti_mesh *)diti_alloc_zero(&peers->env, sizeof *mesh);
    dit_result result;
    *out = NULL;
    if (!mesh) return diti_fail(err, DIT_ERROR_OUT_OF_HOST_MEMORY, "no host memory for a mesh of devices");
    mesh->env = peers->env;
    mesh->first = peers->first;
    mesh->count = count;
    maker.mesh = mesh;
    maker.peers = peers;
    maker.tag = peers->meshes++;
    maker.err = err;
    result = diti_mesh_make(&maker, plans);
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
    while (mesh->lane_count) diti_lane_destroy(mesh->lanes[--mesh->lane_count]);
    diti_free(&env, mesh->lanes);
    for (i = 0; i < mesh->count; i++) diti_free(&env, mesh->members[i].ports);
    diti_free(&env, mesh);
}

/* --- running --- */

/* The cursor of a member stands before a slice of a segment: what begins there goes on its way. */
static void diti_mesh_open(diti_mesh_member *member, uint32_t segment, uint32_t slice) {
    const diti_plan *plan = member->plan;
    size_t i;
    for (i = 0; i < plan->exchange_count; i++) {
        diti_mesh_port *port = &member->ports[i];
        if (plan->exchanges[i].segment != segment || plan->exchanges[i].begin != slice) continue;
        port->open = true;
        port->last = diti_lane_open(port->lane, port->side, port->copy, plan->timeline, plan->submitted);
    }
}

/* Closes what must be through before a slice; false: something is not. */
static bool diti_mesh_close(diti_mesh_member *member, uint32_t segment, uint32_t slice) {
    const diti_plan *plan = member->plan;
    size_t i;
    for (i = 0; i < plan->exchange_count; i++) {
        diti_mesh_port *port = &member->ports[i];
        const diti_exchange *exchange = &plan->exchanges[i];
        const diti_lane_side *side;
        bool arrives = slice == 0 && !member->arrived; /* whatever is open is of the segment before */
        if (!port->open || (!arrives && exchange->segment == segment && exchange->end > slice)) continue;
        side = &port->lane->sides[port->side];
        if (side->submitted < port->last) return false;
        diti_submission_wait(&member->next, side->timeline, port->last);
        port->open = false;
    }
    return true;
}

DIT_INTERNAL bool diti_mesh_ready(diti_mesh *mesh, uint32_t index, uint32_t segment, uint32_t slice) {
    diti_mesh_member *member = &mesh->members[index];
    if (!diti_mesh_close(member, segment, slice)) return false;
    if (slice > 0 || member->arrived) return true;
    member->arrived = true;
    diti_mesh_open(member, segment, 0);
    return diti_mesh_close(member, segment, 0);
}

DIT_INTERNAL dit_result diti_mesh_submit(diti_mesh *mesh, uint32_t index, uint32_t segment, uint32_t slice,
                                         uint64_t *value, dit_error *err) {
    diti_mesh_member *member = &mesh->members[index];
    dit_result result = diti_plan_submit_after(member->plan, segment, slice, &member->next, value, err);
    if (result < 0) return result;
    memset(&member->next, 0, sizeof member->next);
    member->arrived = false;
    diti_mesh_open(member, segment, slice + 1);
    return DIT_OK;
}

DIT_INTERNAL dit_result diti_mesh_pump(diti_mesh *mesh, bool *moved, dit_error *err) {
    dit_result result = DIT_OK;
    size_t i;
    for (i = 0; i < mesh->lane_count && result >= 0; i++) result = diti_lane_pump(mesh->lanes[i], moved, err);
    return result;
}

DIT_INTERNAL bool diti_mesh_idle(const diti_mesh *mesh) {
    size_t i;
    for (i = 0; i < mesh->lane_count; i++)
        if (!diti_lane_idle(mesh->lanes[i])) return false;
    return true;
}

DIT_INTERNAL dit_result diti_mesh_wait(diti_mesh *mesh, uint64_t timeout_ns, bool *waited, dit_error *err) {
    dit_result result = DIT_OK;
    size_t i;
    for (i = 0, *waited = false; i < mesh->lane_count && result >= 0 && !*waited; i++)
        result = diti_lane_wait(mesh->lanes[i], timeout_ns, waited, err);
    return result;
}

DIT_INTERNAL void diti_mesh_settle(diti_mesh *mesh) {
    uint32_t i;
    size_t k;
    for (k = 0; k < mesh->lane_count; k++) diti_lane_settle(mesh->lanes[k]);
    for (i = 0; i < mesh->count; i++) {
        diti_mesh_member *member = &mesh->members[i];
        for (k = 0; k < member->plan->exchange_count; k++) member->ports[k].open = false;
        memset(&member->next, 0, sizeof member->next);
        member->arrived = false;
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
