/* layers: blocks, one device after the other; for memory alone (docs/parallel.md 1.1). */
#include "split/axes.h"

/* n d e; s d e where the text stays outside */
DIT_INTERNAL double diti_cost_stage_bytes(const diti_cost *c, double element) {
    return c->n * (c->d * element / (c->u * c->r));
}

DIT_INTERNAL double diti_cost_stage_peer(uint32_t degree, uint32_t place, uint32_t peer) {
    (void)degree;
    return peer == place + 1 ? 1 : 0;
}

DIT_INTERNAL void diti_axis_layers(diti_split_method *out) {
    out->name = "layers";
    out->divides = DITI_DIVIDES_LAYERS;
    out->exact = true;
    out->cuts_blocks = true;
    out->pattern = DITI_PATTERN_PAIR;
    out->bytes = diti_cost_stage_bytes;
    out->peer = diti_cost_stage_peer;
}
