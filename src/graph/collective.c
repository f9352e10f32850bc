/* What groups of devices do together, made of exchanges: everyone's parts to everyone, sums, rows against heads. */
#include "graph/graph.h"

DIT_INTERNAL uint32_t diti_group_count(const diti_group *group) { return group && group->count > 1 ? group->count : 1; }

DIT_INTERNAL uint32_t diti_group_first(const diti_group *group, uint32_t index, uint32_t total) {
    uint32_t count = diti_group_count(group), i, first;
    double before = 0, all = 0;
    if (count == 1) return index ? total : 0;
    if (index >= count) return total;
    for (i = 0; i < count; i++) {
        if (i < index) before += (double)group->weights[i];
        all += (double)group->weights[i];
    }
    if (!(all > 0)) return (uint32_t)((uint64_t)total * index / count);
    first = (uint32_t)((double)total * (before / all) + 0.5);
    if (total < count) return first < total ? first : total;
    if (first < index) first = index;
    return first > total - (count - index) ? total - (count - index) : first;
}

DIT_INTERNAL uint32_t diti_group_size(const diti_group *group, uint32_t index, uint32_t total) {
    return diti_group_first(group, index + 1, total) - diti_group_first(group, index, total);
}

static diti_tensor diti_group_rows(diti_graph *graph, diti_tensor x, uint32_t first, uint32_t rows) {
    return diti_tensor_view(graph, x, first, rows, 0,
                            diti_graph_failed(graph) ? 0 : diti_tensor_get(graph, x)->columns);
}

/* Ends what has begun from exchange `first` on. */
static void diti_group_end(diti_graph *graph, size_t first) {
    size_t i, count = graph->exchange_count;
    for (i = first; i < count; i++) diti_exchange_end(graph, (uint32_t)i);
}

/* Rows of an item of which every member has its own, between members and the same item's stretch of a whole. */
static void diti_group_send_all(diti_graph *graph, const diti_group *group, diti_tensor rows) {
    uint32_t i;
    for (i = 0; i < group->count; i++)
        if (i != group->index) diti_exchange_begin(graph, rows, group->devices[i], true);
}

static void diti_group_receive_all(diti_graph *graph, const diti_group *group, diti_tensor whole, uint32_t at,
                                   uint32_t total) {
    uint32_t i;
    for (i = 0; i < group->count; i++) {
        uint32_t first = diti_group_first(group, i, total), size = diti_group_size(group, i, total);
        if (i != group->index && size)
            diti_exchange_begin(graph, diti_group_rows(graph, whole, at + first, size), group->devices[i], false);
    }
}

DIT_INTERNAL diti_tensor diti_all_gather(diti_graph *graph, const diti_group *group, diti_tensor part, uint32_t items,
                                         uint32_t total, const char *name) {
    uint32_t item, own, first;
    size_t begun;
    diti_tensor whole;
    if (diti_graph_failed(graph) || diti_group_count(group) == 1) return part;
    own = diti_group_size(group, group->index, total);
    first = diti_group_first(group, group->index, total);
    begun = graph->exchange_count;
    for (item = 0; item < items && own; item++)
        diti_group_send_all(graph, group, diti_group_rows(graph, part, item * own, own));
    whole = diti_tensor_new(graph, diti_tensor_get(graph, part)->format, items * total,
                            diti_tensor_get(graph, part)->columns, name);
    for (item = 0; item < items && !diti_graph_failed(graph); item++) {
        diti_group_receive_all(graph, group, whole, item * total, total);
        if (own)
            diti_copy(graph, diti_group_rows(graph, part, item * own, own),
                      diti_group_rows(graph, whole, item * total + first, own), name);
    }
    diti_group_end(graph, begun);
    return whole;
}

/* Everyone's x, of rows that are this member's: sum takes them in. */
static void diti_group_sum(diti_graph *graph, const diti_group *group, const diti_tensor *parts, diti_tensor out,
                           const char *name) {
    diti_tensor sum = parts[0];
    uint32_t i;
    for (i = 1; i < group->count; i++) {
        diti_elementwise_desc desc = DITI_ZERO;
        desc.add = parts[i];
        desc.out = i + 1 == group->count ? out : 0;
        desc.out_f32 = true;
        desc.name = name;
        sum = diti_elementwise(graph, sum, &desc);
    }
}

DIT_INTERNAL void diti_all_reduce(diti_graph *graph, const diti_group *group, diti_tensor x, const char *name) {
    diti_tensor parts[DITI_MAX_DEVICES], own;
    uint32_t i, rows, size, columns;
    size_t begun;
    if (diti_graph_failed(graph) || diti_group_count(group) == 1) return;
    rows = diti_tensor_get(graph, x)->rows;
    columns = diti_tensor_get(graph, x)->columns;
    size = diti_group_size(group, group->index, rows);
    own = size ? diti_group_rows(graph, x, diti_group_first(group, group->index, rows), size) : 0;
    begun = graph->exchange_count;
    for (i = 0; i < group->count && !diti_graph_failed(graph); i++) {
        uint32_t other = diti_group_size(group, i, rows);
        parts[i] = i == group->index ? own : size ? diti_tensor_new(graph, DITI_F32, size, columns, name) : 0;
        if (i == group->index) continue;
        if (other)
            diti_exchange_begin(graph, diti_group_rows(graph, x, diti_group_first(group, i, rows), other),
                                group->devices[i], true);
        if (size) diti_exchange_begin(graph, parts[i], group->devices[i], false);
    }
    diti_group_end(graph, begun);
    if (diti_graph_failed(graph)) return;
    if (size) diti_group_sum(graph, group, parts, own, name);
    begun = graph->exchange_count;
    if (size) diti_group_send_all(graph, group, own);
    diti_group_receive_all(graph, group, x, 0, rows);
    diti_group_end(graph, begun);
}

/* ---- Ulysses ---- */

static uint32_t diti_heads_rows(const diti_exchange_heads *desc, uint32_t before) {
    uint32_t i, rows = 0;
    for (i = 0; i < before; i++) rows += desc->rows[i];
    return rows;
}

/* Columns of a member's heads, of kind `kind` of kinds that have `heads` heads each. */
static diti_tensor diti_heads_view(diti_graph *graph, const diti_exchange_heads *desc, diti_tensor x, uint32_t first,
                                   uint32_t rows, uint32_t column_head, uint32_t heads) {
    return diti_tensor_view(graph, x, first, rows, column_head * desc->head_dim, heads * desc->head_dim);
}

/* The columns of member's heads of every kind, side by side: [items * own rows, kinds * its heads * head_dim]. */
static void diti_heads_pack(diti_graph *graph, const diti_exchange_heads *desc, diti_tensor x, uint32_t kinds,
                            uint32_t member, diti_tensor out, uint32_t first, uint32_t at, uint32_t rows) {
    uint32_t kind, head = diti_group_first(desc->group, member, desc->heads),
                   heads = diti_group_size(desc->group, member, desc->heads);
    for (kind = 0; kind < kinds && rows; kind++)
        diti_copy(graph, diti_heads_view(graph, desc, x, first, rows, kind * desc->heads + head, heads),
                  diti_heads_view(graph, desc, out, at, rows, kind * heads, heads), "heads of rows");
}

DIT_INTERNAL diti_tensor diti_gather_heads(diti_graph *graph, const diti_exchange_heads *desc, diti_tensor x,
                                           uint32_t kinds) {
    const diti_group *group = desc->group;
    uint32_t self = group->index, own = desc->rows[self], all = diti_heads_rows(desc, group->count), item, i;
    uint32_t heads = diti_group_size(group, self, desc->heads);
    diti_element format = diti_graph_failed(graph) ? DITI_F32 : diti_tensor_get(graph, x)->format;
    diti_tensor out;
    size_t begun = graph->exchange_count;
    for (i = 0; i < group->count && own; i++) {
        uint32_t columns = kinds * diti_group_size(group, i, desc->heads) * desc->head_dim;
        diti_tensor packed;
        if (i == self) continue;
        packed = diti_tensor_new(graph, format, desc->items * own, columns, "heads to send");
        diti_heads_pack(graph, desc, x, kinds, i, packed, 0, 0, desc->items * own);
        for (item = 0; item < desc->items; item++)
            diti_exchange_begin(graph, diti_group_rows(graph, packed, item * own, own), group->devices[i], true);
    }
    out = diti_tensor_new(graph, format, desc->items * all, kinds * heads * desc->head_dim, "heads of all rows");
    for (item = 0; item < desc->items && !diti_graph_failed(graph); item++) {
        for (i = 0; i < group->count; i++) {
            diti_tensor rows;
            if (i == self || !desc->rows[i]) continue;
            rows = diti_group_rows(graph, out, item * all + diti_heads_rows(desc, i), desc->rows[i]);
            diti_exchange_begin(graph, rows, group->devices[i], false);
        }
        diti_heads_pack(graph, desc, x, kinds, self, out, item * own, item * all + diti_heads_rows(desc, self), own);
    }
    diti_group_end(graph, begun);
    return out;
}

DIT_INTERNAL diti_tensor diti_scatter_heads(diti_graph *graph, const diti_exchange_heads *desc, diti_tensor x,
                                            diti_tensor out) {
    const diti_group *group = desc->group;
    uint32_t self = group->index, own = desc->rows[self], all = diti_heads_rows(desc, group->count), item, i;
    diti_element format = diti_graph_failed(graph) ? DITI_F32 : diti_tensor_get(graph, x)->format;
    diti_tensor parts[DITI_MAX_DEVICES];
    size_t begun = graph->exchange_count;
    if (!out) out = diti_tensor_new(graph, format, desc->items * own, desc->heads * desc->head_dim, "all heads");
    for (i = 0; i < group->count && !diti_graph_failed(graph); i++) {
        uint32_t heads = diti_group_size(group, i, desc->heads);
        if (i == self) continue;
        parts[i] = own ? diti_tensor_new(graph, format, desc->items * own, heads * desc->head_dim, "heads received") : 0;
        for (item = 0; item < desc->items; item++) {
            uint32_t first = item * all + diti_heads_rows(desc, i);
            if (desc->rows[i])
                diti_exchange_begin(graph, diti_group_rows(graph, x, first, desc->rows[i]), group->devices[i], true);
            if (own)
                diti_exchange_begin(graph, diti_group_rows(graph, parts[i], item * own, own), group->devices[i], false);
        }
    }
    for (item = 0; item < desc->items && own; item++)
        diti_copy(graph, diti_group_rows(graph, x, item * all + diti_heads_rows(desc, self), own),
                  diti_heads_view(graph, desc, out, item * own, own, diti_group_first(group, self, desc->heads),
                                  diti_group_size(group, self, desc->heads)),
                  "own heads");
    diti_group_end(graph, begun);
    for (i = 0; i < group->count && own && !diti_graph_failed(graph); i++)
        if (i != self)
            diti_copy(graph, parts[i],
                      diti_heads_view(graph, desc, out, 0, desc->items * own,
                                      diti_group_first(group, i, desc->heads),
                                      diti_group_size(group, i, desc->heads)),
                      "heads received");
    return out;
}
