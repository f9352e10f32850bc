/* The costs of a split. n rows attend, s of them of the image, t are the text's; d is the width, L the layers, e the
 * bytes of a value that is sent; k, u, r, p, l, c the degrees of tensor, ulysses, ring, pipefusion, layers and cfg; k =
 * o i where tensor is a grid of o parts of the outputs of a matrix and i of its inputs; b
 * the branches of guidance that a device computes, m the strips of PipeFusion. Volumes: Ulysses, Ring, USP, tensor and
 * PipeFusion as xDiT's documentation of its methods tables them. Times: T = C / N + bytes / bandwidth + latency, and
 * what stands at each method. */
#include "split/axes.h"

static void diti_cost_split(diti_cost *c, const diti_split *split) {
    c->split = split;
    c->k = split->degree[DITI_SPLIT_TENSOR];
    c->i = split->inputs > 1 ? split->inputs : 1;
    c->o = c->k / c->i;
    c->u = split->degree[DITI_SPLIT_ULYSSES];
    c->r = split->degree[DITI_SPLIT_RING];
    c->p = split->degree[DITI_SPLIT_PIPEFUSION];
    c->l = split->degree[DITI_SPLIT_LAYERS];
    c->c = split->degree[DITI_SPLIT_CFG];
}

static diti_cost diti_cost_begin(const diti_split_request *q, const diti_split *split) {
    diti_cost c;
    c.q = q;
    diti_split_methods(c.methods);
    diti_cost_shape(&c, &q->shape);
    diti_cost_split(&c, split);
    c.e = q->system.element;
    c.b = q->shape.guided && c.c < 2 ? 2 : 1;
    c.m = q->system.strips ? q->system.strips : c.p;
    c.skips = diti_cost_skip_bytes(&c);
    return c;
}

DIT_INTERNAL void diti_split_usual_system(diti_split_system *out) {
    memset(out, 0, sizeof *out);
    out->element = 2;
    out->heads_flow = true;
    out->overlap = 0.8;
    out->merge = 12;
    out->strip_rows = 115;
    out->warmup = 1;
}

DIT_INTERNAL double diti_split_bytes(const diti_split_shape *shape, const diti_split *split, diti_split_axis axis,
                                     double element) {
    diti_cost c = DITI_ZERO;
    if (split->degree[axis] < 2) return 0;
    diti_cost_shape(&c, shape);
    diti_cost_split(&c, split);
    return diti_split_method_of((uint32_t)axis).bytes(&c, element);
}

/* ---- links ---- */

DIT_INTERNAL double diti_split_peer(diti_split_axis axis, uint32_t degree, uint32_t place, uint32_t peer, bool mirror) {
    const diti_split_method method = diti_split_method_of((uint32_t)axis);
    return diti_cost_peer(&method, degree, place, peer, mirror);
}

/* ---- a step ---- */

/* All rows go through all layers: stages, also PipeFusion's while it warms up, wait for each other. */
static void diti_cost_whole(const diti_cost *c, diti_cost_step *step) {
    diti_split_axis axis = c->l > 1 ? DITI_SPLIT_LAYERS : DITI_SPLIT_PIPEFUSION;
    double stages = c->p * c->l;
    step->compute = diti_cost_compute(c, step->layers) * stages;
    step->exchange = step->layers * diti_cost_layer(c, 1, step->compute / step->layers, &step->hidden);
    step->hidden *= step->layers;
    step->exchange += (stages - 1) * (diti_cost_send(c, axis, false, diti_cost_bytes(c, axis)) + c->q->box.latency);
}

DIT_INTERNAL double diti_split_skip_bytes(const diti_split_request *request, const diti_split *split) {
    diti_cost c = diti_cost_begin(request, split);
    return c.skips;
}

DIT_INTERNAL double diti_split_shard_bytes(const diti_split_shape *shape, const diti_split *split) {
    uint32_t ranks = diti_split_ranks(split);
    return split->shard ? shape->weight_bytes * (ranks - 1) / ranks : 0;
}

/* Weights of the next block come while a block is computed, over the links that the rest uses, too: what of both takes
   longer than the arithmetic is waited for. All send to all. */
static void diti_cost_shard(const diti_cost *c, diti_cost_step *step) {
    double bytes = diti_split_shard_bytes(&c->q->shape, c->split) * step->layers / c->layers, ranks, each, rate;
    const diti_split_rates *rates = &c->q->box.inside;
    if (bytes <= 0) return;
    ranks = diti_split_ranks(c->split);
    each = c->q->box.per_socket ? c->q->box.per_socket : ranks;
    if (ranks > each) rates = &c->q->box.across;
    rate = ranks > 2 ? rates->all_to_all : rates->pair;
    if (ranks > each && c->q->box.uplink > 0) { /* (ranks - each) / (ranks - 1) of what `each` devices send */
        double leaving = each * (ranks - each) / (ranks - 1);
        if (leaving * rate > c->q->box.uplink) rate = c->q->box.uplink / leaving;
    }
    bytes /= rate;
    step->hidden += bytes < step->compute ? bytes : step->compute;
    if (bytes > step->compute) step->exchange += bytes - step->compute;
}

static void diti_cost_one(const diti_cost *c, bool warm, diti_cost_step *step) {
    bool done = step->layers <= 0;
    uint32_t axis;
    step->compute = step->exchange = step->hidden = 0;
    for (axis = 0; axis < DITI_SPLIT_AXES && !done && !warm; axis++) {
        done = c->split->degree[axis] > 1 && c->methods[axis].step;
        if (done) c->methods[axis].step(c, step);
    }
    if (!done) diti_cost_whole(c, step);
    diti_cost_shard(c, step);
    for (axis = 0; axis < DITI_SPLIT_AXES; axis++) {
        if (c->split->degree[axis] > 1 && c->methods[axis].once) step->exchange += c->methods[axis].once(c);
    }
}

/* ---- steps that do less ---- */

/* Layers that run: all, or p times those of the stage that skips least. */
static double diti_cost_run(const diti_cost *c, uint32_t step) {
    const diti_split_system *system = &c->q->system;
    uint32_t from = system->skip_first, to = from + system->skip_blocks, stage, layers = c->q->shape.layers;
    uint32_t stages = c->split->degree[DITI_SPLIT_PIPEFUSION], most = 0;
    if (from == to || step < system->skip_from || (step - system->skip_from) % system->skip_interval) return layers;
    for (stage = 0; stage < stages; stage++) {
        uint32_t first = stage * layers / stages, end = (stage + 1) * layers / stages;
        uint32_t begin = from > first ? from : first, stop = to < end ? to : end;
        uint32_t run = end - first - (stop > begin ? stop - begin : 0);
        if (run > most) most = run;
    }
    return most * c->p;
}

/* ---- memory and bytes ---- */

/* Weights of all transformers, sharded those of two blocks more than a part; keys and values that PipeFusion keeps of
 * all rows, 2 n d L / p of its heads; of the device's rows the residual stream, fp32, and q, k, v, o and the
 * feed-forward, fp16; skips, fp32.
 */
static double diti_cost_memory(const diti_cost *c) {
    const diti_split_shape *shape = &c->q->shape;
    double stages = c->p * c->l, rows = c->b * c->n / (c->u * c->r), feed = shape->feed * (shape->gated ? 2.0 : 1.0);
    double kept = c->p > 1 ? 4 * c->b * c->n * c->d / (c->u * c->k) * c->layers / c->p : 0;
    double weights = (shape->weight_bytes + shape->second_bytes) / (stages * c->k);
    if (c->split->shard) weights *= 1.0 / diti_split_ranks(c->split) + 2 / c->layers;
    return weights + kept + rows * (4 * c->d + 2 * (4 * c->d + feed) / c->o + 4 * c->d * shape->skips / stages);
}

/* Per step of a stage with a successor. */
static double diti_cost_sent(const diti_cost *c) {
    double sent = c->skips + diti_split_shard_bytes(&c->q->shape, c->split);
    uint32_t i;
    for (i = 0; i < DITI_SPLIT_AXES; i++) {
        double times = c->methods[i].layer ? c->layers / (c->p * c->l) : 1;
        sent += times * diti_cost_bytes(c, (diti_split_axis)i);
    }
    return sent;
}

/* ---- a picture ---- */

static void diti_cost_steps(diti_cost c, diti_split_cost *out) {
    const diti_split_system *system = &c.q->system;
    double host = 0;
    diti_cost_step step;
    uint32_t i;
    for (i = 0; i < system->steps; i++) {
        if (system->gate && i == system->gate) c.b = 1;
        step.layers = diti_cost_run(&c, i);
        diti_cost_one(&c, i < system->warmup, &step);
        out->device_seconds += step.compute + step.exchange;
        host += step.layers * system->launch;
    }
    out->device_seconds += system->serial;
    out->seconds = host + system->serial > out->device_seconds ? host + system->serial : out->device_seconds;
}

DIT_INTERNAL void diti_split_predict(const diti_split_request *request, const diti_split *split, diti_split_cost *out) {
    diti_cost c = diti_cost_begin(request, split);
    diti_cost_step step;
    uint32_t rank, axis;
    memset(out, 0, sizeof *out);
    out->split = *split;
    for (axis = 0; axis < DITI_SPLIT_AXES && request->system.warmup < request->system.steps; axis++) {
        if (split->degree[axis] > 1 && c.methods[axis].fill) out->device_seconds += c.methods[axis].fill(&c);
    }
    diti_cost_steps(c, out);
    step.layers = c.layers;
    diti_cost_one(&c, false, &step);
    out->compute = step.compute;
    out->exchange = step.exchange;
    out->hidden = step.hidden;
    out->sent = diti_cost_sent(&c);
    out->memory = diti_cost_memory(&c);
    out->fits = true;
    for (rank = 0; rank < request->box.count; rank++) {
        double room = request->box.devices[rank].memory;
        if (room > 0 && room < out->memory) out->fits = false;
    }
}
