/* Terms of the costs that methods make up (cost.c has the letters). */
#include "split/axes.h"

DIT_INTERNAL void diti_cost_shape(diti_cost *c, const diti_split_shape *shape) {
    c->shape = shape;
    c->s = shape->rows;
    c->t = shape->text;
    c->n = c->s + (shape->joint ? c->t : 0);
    c->d = shape->hidden;
    c->layers = shape->layers;
}

/* Per row and layer 8 d^2 for q, k, v, o, two or three matrices of the feed-forward, 4 n d of attention. Cross
 * attention: q and o of s rows, attention to t keys, and their projection. A skip: a matrix [d, 2 d]. By turns: two
 * attentions, of s / f keys and of f. */
DIT_INTERNAL double diti_split_flops(const diti_split_shape *shape) {
    diti_cost c;
    double layer;
    diti_cost_shape(&c, shape);
    if (shape->frames) {
        double f = shape->frames;
        layer = c.s * (16 * c.d * c.d + shape->feeds * 4 * c.d * shape->feed + 4 * (c.s / f + f) * c.d) +
                shape->texts * (c.s * (4 * c.d * c.d + 4 * c.t * c.d) + c.t * 4 * shape->text_width * c.d);
        return c.layers * layer;
    }
    layer = c.n * (8 * c.d * c.d + (shape->gated ? 6 : 4) * c.d * shape->feed + 4 * c.n * c.d);
    if (!shape->joint && shape->text)
        layer += c.s * (4 * c.d * c.d + 4 * c.t * c.d) + c.t * 4 * shape->text_width * c.d;
    return c.layers * layer + shape->skips * c.s * 4 * c.d * c.d;
}

DIT_INTERNAL double diti_cost_attention(const diti_cost *c) {
    double f = c->shape->frames;
    if (f > 0) return c->layers * 4 * c->n * (c->n / f + f) * c->d / diti_split_flops(&c->q->shape);
    return c->layers * 4 * c->n * c->n * c->d / diti_split_flops(&c->q->shape);
}

/* ---- ranks ---- */

/* Saturates, so that absurd degrees stay absurd. */
DIT_INTERNAL uint32_t diti_split_ranks(const diti_split *split) {
    uint32_t ranks = 1, axis;
    for (axis = 0; axis < DITI_SPLIT_AXES && ranks <= DITI_SPLIT_DEVICES; axis++) ranks *= split->degree[axis];
    return ranks;
}

DIT_INTERNAL uint32_t diti_split_stride(const diti_split *split, diti_split_axis axis) {
    uint32_t i, stride = 1;
    for (i = 0; i < (uint32_t)axis; i++) stride *= split->degree[i];
    return stride;
}

/* ---- links ---- */

DIT_INTERNAL double diti_cost_peer(const diti_split_method *method, uint32_t degree, uint32_t place, uint32_t peer,
                                   bool mirror) {
    if (mirror) return place < peer && place + peer == degree - 1 ? 1 : 0;
    if (method->peer) return method->peer(degree, place, peer);
    return peer == (place + 1) % degree ? 1 : 0;
}

/* How many devices' worth of an axis' bytes leaves the sockets, all groups sending at once; the fullest socket's. */
static double diti_cost_leaving(const diti_cost *c, diti_split_axis axis, bool mirror) {
    uint32_t ranks = diti_split_ranks(c->split), stride = diti_split_stride(c->split, axis);
    uint32_t each = c->q->box.per_socket ? c->q->box.per_socket : ranks, degree = c->split->degree[axis], rank, peer;
    double leaving = 0, most = 0;
    for (rank = 0; rank < ranks; rank++) {
        uint32_t place = rank / stride % degree;
        if (rank % each == 0) leaving = 0;
        for (peer = 0; peer < degree; peer++) {
            if ((rank + peer * stride - place * stride) / each != rank / each)
                leaving += diti_cost_peer(&c->methods[axis], degree, place, peer, mirror);
        }
        if (leaving > most) most = leaving;
    }
    return most;
}

/* Seconds of bytes along an axis: two devices exchange as a pair by any method, larger groups by its pattern. */
DIT_INTERNAL double diti_cost_send(const diti_cost *c, diti_split_axis axis, bool mirror, double bytes) {
    double leaving = diti_cost_leaving(c, axis, mirror), rate;
    const diti_split_rates *rates = leaving > 0 ? &c->q->box.across : &c->q->box.inside;
    diti_pattern pattern = c->methods[axis].pattern;
    rate = pattern == DITI_PATTERN_RING ? rates->ring : rates->all_to_all;
    if (c->split->degree[axis] == 2 || pattern == DITI_PATTERN_PAIR) rate = rates->pair;
    if (leaving * rate > c->q->box.uplink && c->q->box.uplink > 0) rate = c->q->box.uplink / leaving;
    return bytes > 0 ? bytes / rate : 0; /* one device may have no link at all */
}

DIT_INTERNAL double diti_cost_bytes(const diti_cost *c, diti_split_axis axis) {
    bool one = (c->methods[axis].divides & DITI_DIVIDES_BRANCHES) != 0;
    return c->split->degree[axis] < 2 ? 0 : (one ? 1 : c->b) * c->methods[axis].bytes(c, c->e);
}

/* ---- a step ---- */

/* How much longer the device with most of it works than one with an equal part: heads count in attention, whole frames
   of clips by turns in everything. */
static double diti_cost_uneven(const diti_cost *c) {
    bool turns = c->q->shape.frames > 0;
    double parts = turns ? c->u : c->u * c->o, whole = turns ? c->q->shape.frames : c->q->shape.heads;
    double more = ceil(whole / parts) * parts / whole - 1;
    return 1 + (turns ? more : diti_cost_attention(c) * more);
}

/* How much longer devices work that all have the text's rows: (s / u r + t) of (s + t) / u r rows in products; in
   attention, where Ulysses divides heads, (s / r + t) of (s + t) / r. */
static double diti_cost_texts(const diti_cost *c) {
    double sequence = c->u * c->r, attention;
    if (!c->q->system.text_whole || !c->q->shape.joint || c->q->shape.text % (uint32_t)sequence == 0) return 1;
    attention = diti_cost_attention(c);
    return 1 + c->t / c->n * ((1 - attention) * (sequence - 1) + attention * (c->r - 1));
}

/* The operations of a branch over the sum of its devices' rates, as unequal devices get proportional shares; the slower
 * branch counts. Where heads, or frames, do not divide, a device with one more is waited for. */
DIT_INTERNAL double diti_cost_compute(const diti_cost *c, double layers) {
    uint32_t ranks = diti_split_ranks(c->split), each = ranks / c->split->degree[DITI_SPLIT_CFG], rank;
    double sum = 0, least = 0;
    for (rank = 0; rank < ranks; rank++) {
        sum += c->q->box.devices[rank].rate;
        if ((rank + 1) % each) continue;
        if (rank < each || sum < least) least = sum;
        sum = 0;
    }
    return diti_split_flops(&c->q->shape) * c->b * layers / c->layers / least * diti_cost_uneven(c) *
           diti_cost_texts(c);
}

DIT_INTERNAL double diti_cost_layer(const diti_cost *c, double strips, double layer_seconds, double *hidden) {
    double seconds = 0;
    uint32_t axis;
    for (axis = 0; axis < DITI_SPLIT_AXES; axis++) {
        if (c->split->degree[axis] > 1 && c->methods[axis].layer)
            seconds += c->methods[axis].layer(c, strips, layer_seconds, hidden);
    }
    return seconds;
}

/* ---- names ---- */

DIT_INTERNAL bool diti_split_parse_number(const char **at, uint32_t least, uint32_t most, uint32_t *out) {
    const char *first = *at;
    for (*out = 0; **at >= '0' && **at <= '9' && *out <= most; ++*at) *out = *out * 10 + (uint32_t)(**at - '0');
    return *at > first && *out >= least && *out <= most;
}
