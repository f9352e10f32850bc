/* cfg: the branches of guidance, which exchange their predictions once per step (docs/parallel.md 1.1). */
#include "split/axes.h"

static double diti_cfg_bytes(const diti_cost *c, double element) { return c->s * c->shape->row_values * element; }

static double diti_cfg_once(const diti_cost *c) {
    return diti_cost_send(c, DITI_SPLIT_CFG, false, diti_cost_bytes(c, DITI_SPLIT_CFG)) + 2 * c->q->box.latency;
}

DIT_INTERNAL void diti_axis_cfg(diti_split_method *out) {
    out->name = "cfg";
    out->divides = DITI_DIVIDES_BRANCHES;
    out->exact = true;
    out->pattern = DITI_PATTERN_PAIR;
    out->bytes = diti_cfg_bytes;
    out->once = diti_cfg_once;
}
