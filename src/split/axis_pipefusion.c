/* pipefusion: blocks, with strips of rows in flight; keys and values of other rows are one step old (docs/parallel.md
   1.1). */
#include "split/axes.h"

/* Behind pipefusion4: ":" and some of m8, w2 and k8, in this order. */
static bool diti_pipefusion_read(const char **at, uint32_t *degree, diti_split_plan *out) {
    const char *first = *at + 1;
    (void)degree;
    if (**at != ':') return true;
    ++*at;
    if (**at == 'm' && (++*at, !diti_split_parse_number(at, 1, DITI_SPLIT_LARGEST, &out->strips))) return false;
    if (**at == 'w' && (++*at, !diti_split_parse_number(at, 0, DITI_SPLIT_LARGEST, &out->warmup))) return false;
    out->kept_int8 = (*at)[0] == 'k' && (*at)[1] == '8';
    if (out->kept_int8) *at += 2;
    return *at > first;
}

static void diti_pipefusion_print(const diti_split *split, const diti_split_plan *plan, char *out, size_t size) {
    uint32_t degree = split->degree[DITI_SPLIT_PIPEFUSION];
    bool counted = plan && plan->strips != degree, warm = plan && plan->warmup != 1, kept = plan && plan->kept_int8;
    char count[16] = "", warmup[16] = "";
    if (counted) diti_format(count, sizeof count, "m%u", (unsigned)plan->strips);
    if (warm) diti_format(warmup, sizeof warmup, "w%u", (unsigned)plan->warmup);
    diti_format(out, size, "%u%s%s%s%s", (unsigned)degree, counted || warm || kept ? ":" : "", count, warmup,
                kept ? "k8" : "");
}

static dit_result diti_pipefusion_limits(const diti_split_plan *plan, const diti_split_shape *shape, const char *name,
                                         dit_error *err) {
    const uint32_t *degree = plan->split.degree;
    if ((uint64_t)plan->strips * degree[DITI_SPLIT_ULYSSES] * degree[DITI_SPLIT_RING] <= shape->rows) return DIT_OK;
    return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                     "split %s: %u patches of the picture, which has %u rows of tokens", name, (unsigned)plan->strips,
                     (unsigned)shape->rows);
}

/* Skips that go to the mirrored stage: (skips / (p / 2)) s d e. */
DIT_INTERNAL double diti_cost_skip_bytes(const diti_cost *c) {
    return c->p < 2 ? 0 : c->shape->skips / (c->p / 2) * diti_cost_bytes(c, DITI_SPLIT_PIPEFUSION);
}

/* A full pipeline: max(C f / (p eta), link) + copies of its layers; skips are waited for, or share the link; fewer
 * strips than stages leave stages idle. f = (s + m t) / (s + t) where the text is computed for each strip, else 1;
 * eta: small strips run less efficiently. */
static void diti_pipefusion_step(const diti_cost *c, diti_cost_step *step) {
    bool again = c->q->shape.joint && c->q->system.text_per_strip;
    double rows = (c->s / c->m + (again ? c->t : 0)) / (c->u * c->r), idle = c->m < c->p ? c->p / c->m : 1;
    double link = diti_cost_send(c, DITI_SPLIT_PIPEFUSION, false, diti_cost_bytes(c, DITI_SPLIT_PIPEFUSION));
    double compute = diti_cost_compute(c, step->layers);
    step->exchange = step->layers / c->p * diti_cost_layer(c, c->m, compute * c->p / step->layers, &step->hidden);
    *(c->q->system.skips_wait ? &step->exchange : &link) += diti_cost_send(c, DITI_SPLIT_PIPEFUSION, true, c->skips);
    step->compute = compute * idle * (again ? (c->s + c->m * c->t) / c->n : 1) * (1 + c->q->system.strip_rows / rows);
    step->hidden = step->hidden * step->layers / c->p + (link < step->compute ? link : step->compute);
    if (link > step->compute) step->exchange += link - step->compute;
}

/* Until the first strip has gone through: (p - 1) (C / (p m) + hop). */
static double diti_pipefusion_fill(const diti_cost *c) {
    double link = diti_cost_send(c, DITI_SPLIT_PIPEFUSION, false, diti_cost_bytes(c, DITI_SPLIT_PIPEFUSION));
    return (c->p - 1) * ((diti_cost_compute(c, c->layers) + link) / c->m + c->q->box.latency);
}

DIT_INTERNAL void diti_axis_pipefusion(diti_split_method *out) {
    out->name = "pipefusion";
    out->divides = DITI_DIVIDES_LAYERS | DITI_DIVIDES_ROWS;
    out->excludes = 1u << DITI_SPLIT_LAYERS;
    out->cuts_blocks = true;
    out->pattern = DITI_PATTERN_PAIR;
    out->read = diti_pipefusion_read;
    out->print = diti_pipefusion_print;
    out->limits = diti_pipefusion_limits;
    out->bytes = diti_cost_stage_bytes;
    out->peer = diti_cost_stage_peer;
    out->step = diti_pipefusion_step;
    out->fill = diti_pipefusion_fill;
}
