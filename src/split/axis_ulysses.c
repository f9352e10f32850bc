/* ulysses: rows everywhere, heads in attention; all to all before and after it (docs/parallel.md 1.1). */
#include "split/axes.h"

/* 4 (n / u) d e (u - 1) / u: q, k, v, o; by turns 2: what attention between frames reads, and what it makes */
static double diti_ulysses_bytes(const diti_cost *c, double element) {
    return (c->shape->frames ? 2 : 4) * c->n * (c->d * element / (c->u * c->r)) / c->k * (c->u - 1) / c->u;
}

static double diti_ulysses_peer(uint32_t degree, uint32_t place, uint32_t peer) {
    return place == peer ? 0 : 1.0 / (degree - 1);
}

/* Four copies alike. Where each begins as soon as there is something to send, v travels while k and q are projected,
 * and k behind it while q is: of the two, what is left when q is there is waited for, and q and o are. A projection: 2
 * n d^2 operations of a layer. By turns, both copies are waited for. */
static double diti_ulysses_layer(const diti_cost *c, double strips, double layer_seconds, double *hidden) {
    double all = diti_cost_send(c, DITI_SPLIT_ULYSSES, false, diti_cost_bytes(c, DITI_SPLIT_ULYSSES)), copy = all / 4,
           open = 2;
    double projection = layer_seconds * c->layers * 2 * c->n * c->d * c->d / diti_split_flops(c->shape);
    if (c->shape->frames) return all + 2 * c->q->box.latency * strips;
    if (c->q->system.heads_flow && copy > 0) {
        open = ((copy > projection ? copy : projection) + copy - 2 * projection) / copy;
        if (open < 0) open = 0;
        *hidden += (2 - open) * copy;
    }
    return (2 + open) * copy + 2 * c->q->box.latency * strips;
}

DIT_INTERNAL void diti_axis_ulysses(diti_split_method *out) {
    out->name = "ulysses";
    out->divides = DITI_DIVIDES_HEADS | DITI_DIVIDES_ROWS;
    out->exact = true;
    out->pattern = DITI_PATTERN_ALL;
    out->bytes = diti_ulysses_bytes;
    out->peer = diti_ulysses_peer;
    out->layer = diti_ulysses_layer;
}
