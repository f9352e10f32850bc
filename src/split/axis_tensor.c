/* tensor: columns, then rows of each pair of matrices; two sums over the devices per block (docs/parallel.md 1.1).
   tensorAxB is a grid of A parts of a matrix's outputs and B of its inputs. */
#include "split/axes.h"

/* Behind tensor2, degree: "x2". */
static bool diti_tensor_axis_read(const char **at, uint32_t *degree, diti_split_plan *out) {
    uint32_t inputs;
    if (**at != 'x') return true;
    ++*at;
    if (!diti_split_parse_number(at, 1, DITI_SPLIT_DEVICES, &inputs)) return false;
    out->split.inputs = inputs > 1 ? inputs : 0;
    *degree *= inputs;
    return *degree <= DITI_SPLIT_DEVICES;
}

static void diti_tensor_axis_print(const diti_split *split, const diti_split_plan *plan, char *out, size_t size) {
    uint32_t degree = split->degree[DITI_SPLIT_TENSOR];
    (void)plan;
    if (split->inputs > 1)
        diti_format(out, size, "%ux%u", (unsigned)(degree / split->inputs), (unsigned)split->inputs);
    else
        diti_format(out, size, "%u", (unsigned)degree);
}

/* Rows of D columns take two sums over o devices of a part for each i and their gathering over those of a row, and sums
   over i devices of what first matrices make, 3 D and the feed-forward's; i = 1: 4 n d e (k - 1) / k. By turns a layer
   has as many sums as attentions, to the text, too, and feed-forwards. */
static double diti_tensor_axis_bytes(const diti_cost *c, double element) {
    const diti_split_shape *shape = c->shape;
    double firsts = 3 + shape->feed * (shape->gated ? 2.0 : 1.0) / c->d, sums = 2;
    if (shape->frames) sums += shape->feeds + shape->texts;
    return c->n * (c->d * element / (c->u * c->r)) / c->k *
           (sums * (2 * (c->o - 1) + c->o * (c->i - 1)) + sums * firsts * (c->i - 1));
}

static double diti_tensor_axis_layer(const diti_cost *c, double strips, double layer_seconds, double *hidden) {
    double turns = c->i > 1 ? 6 : 2; /* a grid sums firsts, too, and gathers */
    (void)layer_seconds, (void)hidden;
    return diti_cost_send(c, DITI_SPLIT_TENSOR, false, diti_cost_bytes(c, DITI_SPLIT_TENSOR)) +
           turns * c->q->box.latency * strips;
}

DIT_INTERNAL void diti_axis_tensor(diti_split_method *out) {
    out->name = "tensor";
    out->divides = DITI_DIVIDES_HEADS;
    out->exact = true;
    out->cuts_blocks = true;
    out->pattern = DITI_PATTERN_ALL;
    out->read = diti_tensor_axis_read;
    out->print = diti_tensor_axis_print;
    out->bytes = diti_tensor_axis_bytes;
    out->layer = diti_tensor_axis_layer;
}
