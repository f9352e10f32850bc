/* ring: rows everywhere; keys and values go round while attention is computed (docs/parallel.md 1.1). */
#include "split/axes.h"

/* 2 (n / r) d e (r - 1): k, v */
static double diti_ring_bytes(const diti_cost *c, double element) {
    return 2 * c->n * (c->d * element / (c->u * c->r)) / c->k * (c->r - 1);
}

/* r - 1 copies: max(bytes / bw - overlap * attention (r - 1) / r, a tenth), and merges of two partial results. */
static double diti_ring_layer(const diti_cost *c, double strips, double layer_seconds, double *hidden) {
    double copies = diti_cost_send(c, DITI_SPLIT_RING, false, diti_cost_bytes(c, DITI_SPLIT_RING)) +
                    (c->r - 1) * c->q->box.latency * strips;
    double open = copies - c->q->system.overlap * diti_cost_attention(c) * layer_seconds * (c->r - 1) / c->r;
    double values = c->b * c->n * c->d / (c->u * c->r * c->k), stream = c->q->box.devices[0].stream;
    uint32_t rank;
    for (rank = 1; rank < c->q->box.count; rank++) {
        if (c->q->box.devices[rank].stream < stream) stream = c->q->box.devices[rank].stream;
    }
    if (open < 0.1 * copies) open = 0.1 * copies;
    *hidden += copies - open;
    return open + (c->r - 1) * values * c->q->system.merge / stream;
}

DIT_INTERNAL void diti_axis_ring(diti_split_method *out) {
    out->name = "ring";
    out->divides = DITI_DIVIDES_ROWS;
    out->exact = true;
    out->pattern = DITI_PATTERN_RING;
    out->bytes = diti_ring_bytes;
    out->layer = diti_ring_layer;
}
