/* Every factorisation of the devices, by what it costs. */
#include "split/split.h"

typedef struct diti_choose {
    const diti_split_request *request;
    diti_split_cost *best;
    uint32_t most, count;
    bool grids; /* grids are looked at, and nothing else */
} diti_choose;

static bool diti_choose_better(const diti_split_cost *a, const diti_split_cost *b) {
    if (a->fits != b->fits) return a->fits;
    if (a->seconds < b->seconds || a->seconds > b->seconds) return a->seconds < b->seconds;
    return a->device_seconds < b->device_seconds;
}

static void diti_choose_put(diti_choose *c, const diti_split_cost *cost) {
    uint32_t kept = c->count < c->most ? c->count : c->most, at = kept;
    c->count++;
    while (at > 0 && diti_choose_better(cost, &c->best[at - 1])) at--;
    if (at == c->most) return;
    if (kept == c->most) kept--;
    memmove(c->best + at + 1, c->best + at, (kept - at) * sizeof *c->best);
    c->best[at] = *cost;
}

static bool diti_choose_may_shard(const diti_choose *c, const diti_split *split) {
    if (c->request->methods && !(c->request->methods & DITI_SPLIT_SHARDS)) return false;
    return !diti_split_cuts_blocks(split) && diti_split_ranks(split) > 1;
}

static void diti_choose_insert(diti_choose *c, const diti_split *split) {
    diti_split sharded = *split;
    diti_split_cost cost;
    diti_split_predict(c->request, split, &cost);
    diti_choose_put(c, &cost);
    if (cost.fits || !diti_choose_may_shard(c, split)) return;
    sharded.shard = 1;
    diti_split_predict(c->request, &sharded, &cost);
    diti_choose_put(c, &cost);
}

/* A split of which all degrees are known: as it is, or, where tensor has more devices than heads, as the grid that cuts
   inputs least. */
static void diti_choose_shape(diti_choose *c, diti_split *split) {
    uint32_t tensor = split->degree[DITI_SPLIT_TENSOR];
    bool plain = diti_split_check(split, &c->request->shape, NULL) >= 0;
    if (plain && !c->grids) diti_choose_insert(c, split);
    if (plain || !c->grids) return;
    for (split->inputs = 2; split->inputs <= tensor; split->inputs++) {
        if (tensor % split->inputs || diti_split_check(split, &c->request->shape, NULL) < 0) continue;
        diti_choose_insert(c, split);
        break;
    }
    split->inputs = 0;
}

/* Gives axis and those after it all products of `ranks`. */
static void diti_choose_axis(diti_choose *c, diti_split *split, uint32_t axis, uint32_t ranks) {
    uint32_t degree;
    if (axis == DITI_SPLIT_AXES) {
        if (ranks == 1) diti_choose_shape(c, split);
        return;
    }
    for (degree = 1; degree <= ranks; degree++) {
        if (ranks % degree || (degree > 1 && c->request->methods && !(c->request->methods >> axis & 1))) continue;
        split->degree[axis] = degree;
        diti_choose_axis(c, split, axis + 1, ranks / degree);
    }
}

DIT_INTERNAL uint32_t diti_split_choose(const diti_split_request *request, diti_split_cost *out, uint32_t most) {
    diti_choose c = DITI_ZERO;
    diti_split split = DITI_ZERO;
    c.request = request;
    c.best = out;
    c.most = most;
    diti_choose_axis(&c, &split, 0, request->box.count);
    c.grids = !c.count || !out[0].fits;
    if (c.grids) diti_choose_axis(&c, &split, 0, request->box.count);
    return c.count;
}
