/* Matrices divided among devices (docs/parallel.md 1.1, TP): of every pair of layers around attention or an
   activation the first one's rows, and so heads or columns of the feed-forward, and the same columns of the second one.
   Each device adds its part to the residual stream, the first one bias and stream besides, and the sum of these, in
   F32, becomes everyone's stream. The sum of n rows in total sends 2 (N - 1) / N * n * D * 4 bytes per device of N
   that have as many rows each, else 4 D ((n - r) + (N - 1) r) from a device whose rows are r: twice a block, three
   times where a block attends a text of its own. Norms of all heads together (LTX-Video's) have devices exchange
   queries and keys before, in F32: 4 (N - 1) n D / N bytes each. HunyuanDiT's skips, layers for themselves, send (N -
   1) / N * n * D * 4, the columns that each has made. int8 layers send 4 (N - 1) n bytes more, the largest of each row.

   In two dimensions, a grid of A x B devices: a device has of the first matrix the rows of its place of A and, of
   them, the columns of its place of B; of the second one these columns and those rows. So w columns between the two
   (3 D / A of queries, keys and values, 4 D / A of a feed-forward) are summed over B devices, 4 w ((n - r) + (B - 1) r)
   bytes from a device, r = n / B; the D / B columns that the second one makes are summed over A devices, 4 D / B ((n -
   s) + (A - 1) s), s = n / A, and then go to the B - 1 that lack them, 4 (B - 1) n D / B. */
#include "model/model.h"

static const diti_ranks *diti_tensor_group(const diti_pass *p) {
    return p->step->axes ? &p->step->axes->tensor_out : NULL;
}

static const diti_ranks *diti_tensor_inputs(const diti_pass *p) {
    return p->step->axes ? &p->step->axes->tensor_in : NULL;
}

static uint32_t diti_column_shard_common(uint32_t a, uint32_t b) { /* least common multiple */
    uint32_t x = a, y = b;
    while (y) {
        uint32_t rest = x % y;
        x = y;
        y = rest;
    }
    return a / x * b;
}

/* Heads stay whole; columns of a feed-forward are parted in whole vectors where that goes. */
static uint32_t diti_column_shard_step(const diti_sublayer *sublayer, uint32_t members) {
    if (sublayer->head_dim) return sublayer->head_dim;
    return sublayer->columns % 16 == 0 && sublayer->columns / 16 >= members ? 16 : 4;
}

/* Columns at which devices may part those of the sublayer. */
static uint32_t diti_column_shard_unit(const diti_pass *p, const diti_sublayer *sublayer) {
    uint32_t i, unit = diti_column_shard_step(sublayer, diti_ranks_count(diti_tensor_group(p)));
    for (i = 0; i < sublayer->reader_count; i++)
        if (sublayer->readers[i]->part_count)
            unit = diti_column_shard_common(unit, diti_weight_unit(sublayer->readers[i]));
    return unit;
}

static uint32_t diti_column_shard_first(const diti_ranks *group, uint32_t index, uint32_t all, uint32_t unit) {
    return index == diti_ranks_count(group) ? all : unit * diti_ranks_first(group, index, all / unit);
}

DIT_INTERNAL diti_column_shard diti_column_shard_of(const diti_pass *p, const diti_sublayer *sublayer) {
    const diti_ranks *group = diti_tensor_group(p);
    const diti_weight *first = sublayer->readers[0];
    uint32_t count = diti_ranks_count(group), unit, all = sublayer->columns;
    diti_column_shard column_shard;
    column_shard.first = 0;
    column_shard.count = column_shard.all = all;
    column_shard.in = diti_tensor_inputs(p);
    if (first->rows / 4 < diti_ranks_count(column_shard.in))
        diti_graph_fail(p->graph, DIT_ERROR_INVALID_ARGUMENT,
                        "split tensor%ux%u: %.100s has %u rows, too few to divide", count, column_shard.in->count,
                        first->name ? first->name : "a matrix", first->rows);
    if (count == 1) return column_shard;
    unit = diti_column_shard_unit(p, sublayer);
    if (all / unit < count) {
        diti_graph_fail(p->graph, DIT_ERROR_INVALID_ARGUMENT,
                        "split tensor%u: %.100s: its %u columns can be parted every %u only, as its type %s groups "
                        "them, which is not enough for %u devices",
                        count, first->name ? first->name : "a matrix", all, unit, diti_type_name(first->type), count);
        return column_shard;
    }
    column_shard.first = diti_column_shard_first(group, group->index, all, unit);
    column_shard.count = diti_column_shard_first(group, group->index + 1, all, unit) - column_shard.first;
    return column_shard;
}

DIT_INTERNAL diti_tensor diti_column_shard_gather(const diti_pass *p, diti_tensor x, const diti_sublayer *sublayer,
                                                  diti_tensor *own) {
    const diti_ranks *group = diti_tensor_group(p);
    uint32_t i, rows = diti_tensor_rows(p->graph, x), all = sublayer->columns, unit, first[DITI_MAX_DEVICES + 1];
    diti_tensor whole;
    *own = 0;
    if (diti_graph_failed(p->graph) || diti_ranks_count(group) == 1) return x;
    unit = diti_column_shard_unit(p, sublayer);
    for (i = 0; i <= group->count; i++) first[i] = diti_column_shard_first(group, i, all, unit);
    i = group->index;
    whole = diti_tensor_new(p->graph, DITI_F32, rows, all, "all heads");
    *own = diti_tensor_view(p->graph, whole, 0, rows, first[i], first[i + 1] - first[i]);
    diti_copy(p->graph, x, *own, "own heads");
    diti_gather_stretches(p->graph, group, whole, first);
    return whole;
}

/* The columns of x that are multiplied here: of layers [rows, columns of x] the same, between their groups. */
static diti_tensor diti_column_shard_reads(diti_graph *graph, diti_tensor x, const diti_layer *layers, uint32_t count,
                                           const diti_ranks *in, diti_linear_desc *desc) {
    const diti_weight *weight = &layers->weight;
    uint32_t i, all = weight->columns, unit = all % 16 == 0 && all / 16 >= in->count ? 16 : 4, first, end;
    for (i = 0; i < count; i++) {
        if (layers[i].weight.type != weight->type && diti_type_is_i8(layers[i].weight.type))
            return diti_graph_fail(graph, DIT_ERROR_INVALID_ARGUMENT,
                                   "split: %.100s is int8, and must be of the type of the matrix beside it to be "
                                   "divided by columns",
                                   layers[i].weight.name ? layers[i].weight.name : "a matrix");
        unit = diti_column_shard_common(unit, diti_weight_unit(&layers[i].weight));
    }
    if (all / unit < in->count)
        return diti_graph_fail(graph, DIT_ERROR_INVALID_ARGUMENT,
                               "split: %.100s: its %u columns can be parted every %u only, as its type %s groups them, "
                               "which is not enough for %u devices",
                               weight->name ? weight->name : "a matrix", all, unit, diti_type_name(weight->type),
                               in->count);
    first = unit * diti_ranks_first(in, in->index, all / unit);
    end = in->index + 1 == in->count ? all : unit * diti_ranks_first(in, in->index + 1, all / unit);
    desc->cut.columns[0].first = first;
    desc->cut.columns[0].count = end - first;
    if (diti_type_is_i8(weight->type))
        return diti_quantize_columns(graph, x, first, end - first, diti_type_is_rotated(weight->type), "quantize");
    return diti_tensor_view(graph, x, 0, diti_tensor_get(graph, x)->rows, first, end - first);
}

DIT_INTERNAL diti_tensor diti_column_shard_begin(diti_graph *graph, diti_tensor x, const diti_layer *layers,
                                                 uint32_t count, const diti_column_shard *column_shard,
                                                 diti_linear_desc *desc) {
    if (column_shard->count != column_shard->all) {
        desc->cut.row = column_shard->first;
        desc->cut.rows = column_shard->count;
    }
    if (diti_graph_failed(graph) || diti_ranks_count(column_shard->in) == 1) return x;
    desc->unbiased = column_shard->in->index > 0; /* one of them adds it */
    desc->activation = DITI_ACTIVATION_NONE;
    desc->out_f32 = true;
    return diti_column_shard_reads(graph, x, layers, count, column_shard->in, desc);
}

DIT_INTERNAL diti_tensor diti_column_shard_end(diti_graph *graph, const diti_column_shard *column_shard, diti_tensor x,
                                               diti_activation activation, diti_tensor out, const char *name) {
    diti_elementwise_desc desc = DITI_ZERO;
    if (diti_graph_failed(graph) || diti_ranks_count(column_shard->in) == 1) return x;
    diti_all_reduce(graph, column_shard->in, x, name);
    desc.activation = activation;
    desc.out = out;
    desc.name = name;
    if (!out && !activation && graph->activation == DITI_F32) return x;
    return diti_elementwise(graph, x, &desc);
}

DIT_INTERNAL diti_tensor diti_column_shard_input(const diti_pass *p, diti_tensor h, const diti_weight *reader) {
    if (diti_graph_failed(p->graph) || !diti_type_is_i8(reader->type) ||
        diti_tensor_get(p->graph, h)->format == DITI_I8)
        return h;
    return diti_quantize_shared(p->graph, diti_tensor_group(p), h, diti_type_is_rotated(reader->type), "quantize");
}

/* The columns of x, as wide as the residual stream, that this device makes; of one row of it, too. */
static diti_tensor diti_column_shard_made(const diti_pass *p, diti_tensor x) {
    const diti_ranks *in = diti_tensor_inputs(p);
    diti_tensor_info info;
    uint32_t first, end;
    if (!x || diti_graph_failed(p->graph) || diti_ranks_count(in) == 1) return x;
    info = *diti_tensor_get(p->graph, x);
    first = diti_ranks_column(in, in->index, info.columns);
    end = diti_ranks_column(in, in->index + 1, info.columns);
    return diti_tensor_view(p->graph, x, 0, info.rows, first, end - first);
}

/* Rows of weight that make them. */
static void diti_column_shard_makes(const diti_pass *p, const diti_weight *weight, diti_cut *cut) {
    const diti_ranks *in = diti_tensor_inputs(p);
    if (diti_ranks_count(in) == 1) return;
    cut->row = diti_ranks_column(in, in->index, weight->rows);
    cut->rows = diti_ranks_column(in, in->index + 1, weight->rows) - cut->row;
}

DIT_INTERNAL void diti_column_shard_add(const diti_pass *p, diti_tensor h, const diti_layer *layer,
                                        const diti_sublayer *sublayer, diti_linear_desc *desc) {
    const diti_ranks *group = diti_tensor_group(p);
    if (diti_ranks_count(group) == 1 || group->index == 0) desc->residual = diti_column_shard_made(p, desc->out);
    diti_column_shard_make(p, h, layer, sublayer, desc);
}

DIT_INTERNAL void diti_column_shard_make(const diti_pass *p, diti_tensor h, const diti_layer *layer,
                                         const diti_sublayer *sublayer, diti_linear_desc *desc) {
    const diti_ranks *group = diti_tensor_group(p);
    uint32_t i, column = 0;
    bool leads = diti_ranks_count(group) == 1 || group->index == 0;
    desc->bias = leads ? &layer->bias : NULL;
    desc->out = diti_column_shard_made(p, desc->out);
    desc->gate = diti_column_shard_made(p, desc->gate);
    diti_column_shard_makes(p, &layer->weight, &desc->cut);
    for (i = 0; sublayer && diti_ranks_count(group) > 1; sublayer = sublayer->beside, i++) {
        diti_column_shard column_shard = diti_column_shard_of(p, sublayer);
        desc->cut.columns[i].first = column + column_shard.first;
        desc->cut.columns[i].count = column_shard.count;
        column += column_shard.all;
    }
    diti_linear(p->graph, diti_column_shard_input(p, h, &layer->weight), &layer->weight, desc);
}

DIT_INTERNAL void diti_column_shard_sum(const diti_pass *p, diti_tensor x) {
    diti_all_reduce(p->graph, diti_tensor_group(p), diti_column_shard_made(p, x), "sum over devices");
    diti_gather_columns(p->graph, diti_tensor_inputs(p), x);
}

DIT_INTERNAL diti_tensor diti_layer_spread(diti_graph *graph, const diti_ranks *group, diti_tensor x,
                                           const diti_layer *layer, diti_tensor out, const char *name) {
    uint32_t columns = layer->weight.rows, first, end;
    diti_linear_desc desc = DITI_ZERO;
    if (diti_graph_failed(graph) || diti_ranks_count(group) == 1 || columns / 4 < group->count)
        return diti_layer_f32(graph, x, layer, DITI_ACTIVATION_NONE, out, name);
    if (!out) out = diti_tensor_new(graph, DITI_F32, diti_tensor_get(graph, x)->rows, columns, name);
    first = diti_ranks_column(group, group->index, columns);
    end = diti_ranks_column(group, group->index + 1, columns);
    desc.bias = &layer->bias;
    desc.cut.row = first;
    desc.cut.rows = end - first;
    desc.out = diti_tensor_view(graph, out, 0, diti_tensor_rows(graph, out), first, end - first);
    desc.name = name;
    diti_linear(graph, x, &layer->weight, &desc);
    diti_gather_columns(graph, group, out);
    return out;
}

DIT_INTERNAL void diti_all_heads_norm(const diti_pass *p, diti_tensor x, const diti_sublayer *sublayer,
                                      const diti_weight *weight, float eps, const char *name) {
    diti_tensor own, all = diti_column_shard_gather(p, x, sublayer, &own);
    diti_qkv_desc desc = DITI_ZERO;
    desc.heads = 1;
    desc.head_dim = p->width;
    desc.norm = DITI_QKV_RMS;
    desc.eps = eps;
    desc.weight = weight;
    desc.name = name;
    diti_qk_norm_rope(p->graph, all, &desc);
    if (own) diti_copy(p->graph, own, x, name);
}
