/* ulysses: rows everywhere, heads in attention; all to all before and after it (docs/parallel.md 1.1). */
#include "split/axes.h"

/* 4 (n / u) d e (u - 1) / u: q, k, v, o */
static double diti_ulysses_bytes(const diti_cost *c, double element) {
    return 4 * c->n * (c->d * element / (c->u * c->r)) / c->k * (c->u - 1) / c->u;
}

static double diti_ulysses_peer(uint32_t degree, uint32_t place, uint32_t peer) {
    return place == peer ? 0 : 1.0 / (degree - 1);
}

static double diti_ulysses_layer(const diti_cost *c, double patches, double layer_seconds, double *hidden) {
    (void)layer_seconds, (void)hidden;
    return diti_cost_send(c, DITI_SPLIT_ULYSSES, false, diti_cost_bytes(c, DITI_SPLIT_ULYSSES)) +
           2 * c->q->box.latency * patches;
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
