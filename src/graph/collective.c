/* Groups of devices work together by exchanges: everyone's parts to everyone, sums, rows against heads. */
#include "graph/ops_internal.h"
#include "graph/plan.h"

DIT_INTERNAL uint32_t diti_ranks_count(const diti_ranks *group) { return group && group->count > 1 ? group->count : 1; }

DIT_INTERNAL uint32_t diti_ranks_first(const diti_ranks *group, uint32_t index, uint32_t total) {
    uint32_t count = diti_ranks_count(group), i, first = 0;
    double before = 0, all = 0;
    if (count == 1) return index ? total : 0;
    if (index >= count) return total;
    if (group->mirrored) { /* the first half of the members divides the first half of the total */
        if (2 * index > count) return total - diti_ranks_first(group, count - index, total);
        count /= 2;
        total /= 2;
        if (index == count) return total;
    }
    for (i = 0; i < count; i++) all += (double)group->weights[i];
    if (!(all > 0)) return (uint32_t)((uint64_t)total * index / count);
    for (i = 0; i <= index; i++) {
        uint32_t least = total < count || i == 0 ? first : first + 1,
                 most = total < count ? total : total - (count - i);
        first = (uint32_t)((double)total * (before / all) + 0.5);
        first = first < least ? least : first > most ? most : first;
        before += (double)group->weights[i];
    }
    return first;
}

DIT_INTERNAL uint32_t diti_ranks_size(const diti_ranks *group, uint32_t index, uint32_t total) {
    return diti_ranks_first(group, index + 1, total) - diti_ranks_first(group, index, total);
}

static diti_tensor diti_ranks_rows(diti_graph *graph, diti_tensor x, uint32_t first, uint32_t rows) {
    return diti_tensor_view(graph, x, first, rows, 0, diti_tensor_columns(graph, x));
}

/* Ends what has begun from exchange `first` on. */
static void diti_ranks_end(diti_graph *graph, size_t first) {
    size_t i, count = graph->exchange_count;
    for (i = first; i < count; i++) diti_exchange_end(graph, (uint32_t)i);
}

DIT_INTERNAL void diti_send(diti_graph *graph, diti_tensor x, uint32_t device) {
    diti_exchange_begin(graph, x, device, true);
}

DIT_INTERNAL void diti_receive(diti_graph *graph, diti_tensor x, uint32_t device) {
    diti_exchange_end(graph, diti_exchange_begin(graph, x, device, false));
}

DIT_INTERNAL void diti_receive_several(diti_graph *graph, const diti_tensor *x, uint32_t count, uint32_t device) {
    size_t begun = graph->exchange_count;
    uint32_t i;
    for (i = 0; i < count; i++) diti_exchange_begin(graph, x[i], device, false);
    diti_ranks_end(graph, begun);
}

DIT_INTERNAL void diti_receive_by_end(diti_graph *graph, diti_tensor x, uint32_t device) {
    diti_exchange_begin(graph, x, device, false);
}

DIT_INTERNAL void diti_receive_carried(diti_graph *graph, diti_tensor x, uint32_t device) {
    diti_exchange_carry(graph, diti_exchange_begin(graph, x, device, false));
}

DIT_INTERNAL void diti_receive_join(diti_graph *graph, diti_tensor x) { diti_exchange_join(graph, x); }

DIT_INTERNAL uint32_t diti_receive_begin(diti_graph *graph, diti_tensor x, uint32_t device) {
    return diti_exchange_begin(graph, x, device, false);
}

DIT_INTERNAL diti_trade diti_trade_begin(diti_graph *graph, diti_tensor from, uint32_t next, diti_tensor to,
                                         uint32_t before) {
    diti_trade trade;
    trade.sent = diti_exchange_begin(graph, from, next, true);
    trade.received = diti_exchange_begin(graph, to, before, false);
    return trade;
}

DIT_INTERNAL void diti_trade_end(diti_graph *graph, diti_trade trade) {
    diti_exchange_end(graph, trade.sent);
    diti_exchange_end(graph, trade.received);
}

DIT_INTERNAL void diti_swap(diti_graph *graph, diti_tensor from, diti_tensor to, uint32_t device) {
    diti_trade_end(graph, diti_trade_begin(graph, from, device, to, device));
}

DIT_INTERNAL void diti_broadcast(diti_graph *graph, const diti_ranks *group, uint32_t root, diti_tensor x) {
    uint32_t i;
    if (diti_ranks_count(group) == 1 || diti_graph_failed(graph)) return;
    if (group->index != root)
        diti_receive(graph, x, group->devices[root]);
    else
        for (i = 0; i < group->count; i++)
            if (i != root) diti_send(graph, x, group->devices[i]);
}

/* Rows of an item of which every member has its own, between members and the same item's stretch of a whole. */
static void diti_ranks_send_all(diti_graph *graph, const diti_ranks *group, diti_tensor rows) {
    uint32_t i;
    for (i = 0; i < group->count; i++)
        if (i != group->index) diti_exchange_begin(graph, rows, group->devices[i], true);
}

static void diti_ranks_receive_all(diti_graph *graph, const diti_ranks *group, diti_tensor whole, uint32_t at,
                                   uint32_t total) {
    uint32_t i;
    for (i = 0; i < group->count; i++) {
        uint32_t first = diti_ranks_first(group, i, total), size = diti_ranks_size(group, i, total);
        if (i != group->index && size)
            diti_exchange_begin(graph, diti_ranks_rows(graph, whole, at + first, size), group->devices[i], false);
    }
}

DIT_INTERNAL diti_tensor diti_all_gather(diti_graph *graph, const diti_ranks *group, diti_tensor part, uint32_t items,
                                         uint32_t total, const char *name) {
    uint32_t item, own, first;
    size_t begun;
    diti_tensor whole;
    if (diti_graph_failed(graph) || diti_ranks_count(group) == 1) return part;
    own = diti_ranks_size(group, group->index, total);
    first = diti_ranks_first(group, group->index, total);
    begun = graph->exchange_count;
    for (item = 0; item < items && own; item++)
        diti_ranks_send_all(graph, group, diti_ranks_rows(graph, part, item * own, own));
    whole = diti_tensor_new(graph, diti_tensor_get(graph, part)->format, items * total,
                            diti_tensor_get(graph, part)->columns, name);
    for (item = 0; item < items && !diti_graph_failed(graph); item++) {
        diti_ranks_receive_all(graph, group, whole, item * total, total);
        if (own)
            diti_copy(graph, diti_ranks_rows(graph, part, item * own, own),
                      diti_ranks_rows(graph, whole, item * total + first, own), name);
    }
    diti_ranks_end(graph, begun);
    return whole;
}

/* Everyone's x, of rows that are this member's: sum takes them in. */
static void diti_ranks_sum(diti_graph *graph, const diti_ranks *group, const diti_tensor *parts, diti_tensor out,
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

DIT_INTERNAL void diti_all_reduce(diti_graph *graph, const diti_ranks *group, diti_tensor x, const char *name) {
    diti_tensor parts[DITI_MAX_DEVICES], own;
    uint32_t i, rows, size, columns;
    size_t begun;
    if (diti_graph_failed(graph) || diti_ranks_count(group) == 1) return;
    rows = diti_tensor_get(graph, x)->rows;
    columns = diti_tensor_get(graph, x)->columns;
    size = diti_ranks_size(group, group->index, rows);
    own = size ? diti_ranks_rows(graph, x, diti_ranks_first(group, group->index, rows), size) : 0;
    begun = graph->exchange_count;
    for (i = 0; i < group->count && !diti_graph_failed(graph); i++) {
        uint32_t other = diti_ranks_size(group, i, rows);
        parts[i] = i == group->index ? own : size ? diti_tensor_new(graph, DITI_F32, size, columns, name) : 0;
        if (i == group->index) continue;
        if (other)
            diti_exchange_begin(graph, diti_ranks_rows(graph, x, diti_ranks_first(group, i, rows), other),
                                group->devices[i], true);
        if (size) diti_exchange_begin(graph, parts[i], group->devices[i], false);
    }
    diti_ranks_end(graph, begun);
    if (diti_graph_failed(graph)) return;
    if (size) diti_ranks_sum(graph, group, parts, own, name);
    begun = graph->exchange_count;
    if (size) diti_ranks_send_all(graph, group, own);
    diti_ranks_receive_all(graph, group, x, 0, rows);
    diti_ranks_end(graph, begun);
}

/* ---- payloads ---- */

DIT_INTERNAL void diti_guard_alike(diti_graph *graph, diti_tensor own, diti_tensor received) {
    if (!diti_graph_failed(graph) && graph->guard_alike) diti_guard_pass(graph, own, received);
}

DIT_INTERNAL diti_element diti_payload_format(const diti_graph *graph, diti_tensor x) {
    if (diti_graph_failed(graph)) return DITI_F32;
    return graph->int8_payload ? DITI_I8 : diti_tensor_get(graph, x)->format;
}

/* x and what its rounding has lost so far is rounded; what that loses is kept for the next run of the segment, once
   that does not have to run again. Over n of them the mean of what was sent is off by a rounding over n, not by a
   rounding. The payload has x's exponent, as its receivers expect; what was lost has none. */
static diti_tensor diti_payload_feedback(diti_graph *graph, diti_tensor x) {
    diti_tensor_info info = *diti_tensor_get(graph, x);
    diti_tensor lost = diti_tensor_state(graph, DITI_F32, info.rows, info.columns, "lost by payloads"), sum, payload;
    diti_elementwise_desc desc = DITI_ZERO;
    if (diti_graph_failed(graph)) return 0;
    desc.name = "payload";
    desc.out_f32 = true;
    desc.add = lost;
    sum = diti_elementwise(graph, x, &desc);
    payload = diti_quantize(graph, diti_guard_like(graph, sum, x, "payload"), false, "payload");
    desc.scale = -1;
    desc.add = sum;
    desc.out = diti_guard_late(graph, lost, "lost by payloads");
    x = diti_tensor_new(graph, DITI_F32, info.rows, info.columns, "payload");
    diti_dequantize(graph, payload, x, "payload");
    diti_elementwise(graph, x, &desc);
    return payload;
}

DIT_INTERNAL diti_tensor diti_payload(diti_graph *graph, diti_tensor x) {
    if (diti_graph_failed(graph) || !graph->int8_payload) return x;
    if (graph->int8_feedback && graph->segments[graph->segment_count - 1].repeated)
        return diti_payload_feedback(graph, x);
    return diti_quantize(graph, x, false, "payload");
}

DIT_INTERNAL void diti_payload_unpack(diti_graph *graph, diti_tensor payload, diti_tensor out) {
    if (diti_graph_failed(graph)) return;
    if (diti_tensor_get(graph, payload)->format == DITI_I8)
        diti_dequantize(graph, payload, out, "payload");
    else
        diti_copy(graph, payload, out, "payload");
}

DIT_INTERNAL uint32_t diti_ranks_column(const diti_ranks *group, uint32_t index, uint32_t columns) {
    return index < diti_ranks_count(group) ? 4 * diti_ranks_first(group, index, columns / 4) : columns;
}

DIT_INTERNAL void diti_gather_columns(diti_graph *graph, const diti_ranks *group, diti_tensor x) {
    uint32_t i, columns, first[DITI_MAX_DEVICES + 1];
    if (diti_graph_failed(graph) || diti_ranks_count(group) == 1) return;
    columns = diti_tensor_get(graph, x)->columns;
    for (i = 0; i <= group->count; i++) first[i] = diti_ranks_column(group, i, columns);
    diti_gather_stretches(graph, group, x, first);
}

DIT_INTERNAL void diti_gather_stretches(diti_graph *graph, const diti_ranks *group, diti_tensor x,
                                        const uint32_t *first) {
    uint32_t i, rows;
    diti_tensor own;
    size_t begun;
    if (diti_graph_failed(graph) || diti_ranks_count(group) == 1) return;
    rows = diti_tensor_get(graph, x)->rows;
    begun = graph->exchange_count;
    i = group->index;
    own = diti_tensor_view(graph, x, 0, rows, first[i], first[i + 1] - first[i]);
    diti_ranks_send_all(graph, group, own);
    for (i = 0; i < group->count; i++)
        if (i != group->index)
            diti_exchange_begin(graph, diti_tensor_view(graph, x, 0, rows, first[i], first[i + 1] - first[i]),
                                group->devices[i], false);
    diti_ranks_end(graph, begun);
}

DIT_INTERNAL diti_tensor diti_payload_take(diti_graph *graph, uint32_t exchange, diti_tensor payload,
                                           diti_element format) {
    diti_tensor_info info;
    diti_tensor out;
    diti_exchange_end(graph, exchange);
    if (diti_graph_failed(graph) || !graph->int8_payload) return payload;
    info = *diti_tensor_get(graph, payload);
    out = diti_tensor_new(graph, format, info.rows, info.columns, info.name);
    diti_payload_unpack(graph, payload, out);
    return out;
}

DIT_INTERNAL diti_tensor diti_trade_take(diti_graph *graph, diti_trade trade, diti_tensor payload,
                                         diti_element format) {
    diti_exchange_end(graph, trade.sent);
    return diti_payload_take(graph, trade.received, payload, format);
}

/* ---- Ulysses ---- */

/* Rows of an item that members before this one have. */
static uint32_t diti_heads_rows(const diti_exchange_heads *desc, uint32_t before) {
    uint32_t i, rows = 0;
    for (i = 0; i < before; i++) rows += desc->rows[i];
    return rows;
}

static uint32_t diti_heads_columns(const diti_exchange_heads *desc, uint32_t member) {
    return diti_ranks_size(desc->group, member, desc->heads) * desc->head_dim;
}

/* A member's heads in rows of all heads of one kind (q, k, v). */
static diti_tensor diti_heads_of(diti_graph *graph, const diti_exchange_heads *desc, diti_tensor x, uint32_t first,
                                 uint32_t rows, uint32_t kind, uint32_t member) {
    uint32_t head = kind * desc->heads + diti_ranks_first(desc->group, member, desc->heads);
    return diti_tensor_view(graph, x, first, rows, head * desc->head_dim, diti_heads_columns(desc, member));
}

/* Rows of x, a payload for a member, go to it item by item, or come from it. */
static void diti_heads_move(diti_graph *graph, const diti_exchange_heads *desc, diti_tensor x, uint32_t pitch,
                            uint32_t first, uint32_t rows, uint32_t member, bool sends) {
    uint32_t item;
    for (item = 0; item < desc->items && rows; item++)
        diti_exchange_begin(graph, diti_ranks_rows(graph, x, item * pitch + first, rows), desc->group->devices[member],
                            sends);
}

/* A member's heads of all own rows, `kinds` of them side by side from kind `first` on. */
static void diti_heads_send(diti_graph *graph, const diti_exchange_heads *desc, diti_tensor x, uint32_t first,
                            uint32_t kinds, uint32_t member) {
    uint32_t own = desc->rows[desc->group->index], rows = desc->items * own, kind,
             columns = diti_heads_columns(desc, member);
    diti_tensor packed = diti_tensor_new(graph, diti_graph_failed(graph) ? DITI_F32 : diti_tensor_get(graph, x)->format,
                                         rows, kinds * columns, "heads to send");
    for (kind = 0; kind < kinds; kind++)
        diti_copy(graph, diti_heads_of(graph, desc, x, 0, rows, first + kind, member),
                  diti_tensor_view(graph, packed, 0, rows, kind * columns, columns), "heads to send");
    diti_heads_move(graph, desc, diti_payload(graph, packed), own, 0, own, member, true);
}

/* This member's heads of a member's rows, of kinds [first, first + kinds): straight to their place in out, or as
   payloads that are opened later. */
static diti_tensor diti_heads_receive(diti_graph *graph, const diti_exchange_heads *desc, const diti_heads_flow *flow,
                                      uint32_t first, uint32_t kinds, uint32_t member) {
    uint32_t all = diti_heads_rows(desc, desc->group->count), rows = desc->rows[member],
             columns = diti_heads_columns(desc, desc->group->index);
    diti_tensor payload;
    if (!graph->int8_payload) {
        diti_tensor place = diti_tensor_view(graph, flow->out, 0, desc->items * all, first * columns, kinds * columns);
        diti_heads_move(graph, desc, place, all, diti_heads_rows(desc, member), rows, member, false);
        return 0;
    }
    payload = diti_tensor_new(graph, DITI_I8, desc->items * rows, columns, "heads received");
    diti_guard_alike(graph, flow->x, payload);
    diti_heads_move(graph, desc, payload, rows, 0, rows, member, false);
    return payload;
}

/* Opens what diti_heads_receive left for kind `kind`, whose columns in out these are. */
static void diti_heads_open(diti_graph *graph, const diti_exchange_heads *desc, diti_tensor payload, diti_tensor out,
                            uint32_t kind, uint32_t columns, uint32_t member) {
    uint32_t all = diti_heads_rows(desc, desc->group->count), rows = desc->rows[member], item;
    for (item = 0; item < desc->items; item++)
        diti_payload_unpack(
            graph, diti_ranks_rows(graph, payload, item * rows, rows),
            diti_tensor_view(graph, out, item * all + diti_heads_rows(desc, member), rows, kind * columns, columns));
}

DIT_INTERNAL void diti_heads_flow_begin(diti_graph *graph, const diti_exchange_heads *desc, diti_tensor x,
                                        uint32_t kinds, diti_heads_flow *flow) {
    const diti_ranks *group = desc->group;
    memset(flow, 0, sizeof *flow);
    if (diti_graph_failed(graph)) return;
    flow->x = x;
    flow->kinds = kinds;
    flow->begun = graph->exchange_count;
    flow->out =
        diti_tensor_new(graph, diti_tensor_get(graph, x)->format, desc->items * diti_heads_rows(desc, group->count),
                        kinds * diti_heads_columns(desc, group->index), "heads of all rows");
}

/* Kinds [first, first + kinds), as one message to each member, and from each. */
static void diti_heads_flow_move(diti_graph *graph, const diti_exchange_heads *desc, diti_heads_flow *flow,
                                 uint32_t first, uint32_t kinds) {
    const diti_ranks *group = desc->group;
    uint32_t i, own = desc->rows[group->index];
    for (i = 0; i < group->count && !diti_graph_failed(graph); i++) {
        if (i == group->index) continue;
        if (own) diti_heads_send(graph, desc, flow->x, first, kinds, i);
        if (desc->rows[i]) flow->payloads[i][first] = diti_heads_receive(graph, desc, flow, first, kinds, i);
    }
}

DIT_INTERNAL void diti_heads_flow_send(diti_graph *graph, const diti_exchange_heads *desc, diti_heads_flow *flow,
                                       uint32_t kind) {
    diti_heads_flow_move(graph, desc, flow, kind, 1);
}

DIT_INTERNAL diti_tensor diti_heads_flow_end(diti_graph *graph, const diti_exchange_heads *desc,
                                             diti_heads_flow *flow) {
    const diti_ranks *group = desc->group;
    uint32_t self = group->index, own = desc->rows[self], all = diti_heads_rows(desc, group->count), i, kind, item,
             columns = diti_heads_columns(desc, self);
    if (diti_graph_failed(graph)) return 0;
    for (item = 0; item < desc->items && own; item++) {
        for (kind = 0; kind < flow->kinds; kind++)
            diti_copy(graph, diti_heads_of(graph, desc, flow->x, item * own, own, kind, self),
                      diti_tensor_view(graph, flow->out, item * all + diti_heads_rows(desc, self), own, kind * columns,
                                       columns),
                      "own heads");
    }
    diti_ranks_end(graph, flow->begun);
    for (i = 0; i < group->count && graph->int8_payload; i++) {
        for (kind = 0; kind < flow->kinds && i != self && desc->rows[i]; kind++)
            diti_heads_open(graph, desc, flow->payloads[i][kind], flow->out, kind, columns, i);
    }
    return flow->out;
}

DIT_INTERNAL diti_tensor diti_gather_heads(diti_graph *graph, const diti_exchange_heads *desc, diti_tensor x,
                                           uint32_t kinds) {
    uint32_t kind, pieces = graph->int8_payload ? kinds : 1; /* scales of their own */
    diti_heads_flow flow;
    diti_heads_flow_begin(graph, desc, x, kinds, &flow);
    for (kind = 0; kind < pieces; kind++)
        diti_heads_flow_move(graph, desc, &flow, kind * kinds / pieces, kinds / pieces);
    return diti_heads_flow_end(graph, desc, &flow);
}

DIT_INTERNAL diti_tensor diti_scatter_heads(diti_graph *graph, const diti_exchange_heads *desc, diti_tensor x,
                                            diti_tensor out) {
    const diti_ranks *group = desc->group;
    uint32_t self = group->index, own = desc->rows[self], all = diti_heads_rows(desc, group->count), item, i;
    diti_tensor parts[DITI_MAX_DEVICES], payload;
    diti_element format;
    size_t begun;
    if (diti_graph_failed(graph)) return 0;
    format = diti_tensor_get(graph, x)->format;
    if (!out) out = diti_tensor_new(graph, format, desc->items * own, desc->heads * desc->head_dim, "all heads");
    payload = diti_payload(graph, x);
    begun = graph->exchange_count;
    for (i = 0; i < group->count; i++) {
        if (i == self) continue;
        diti_heads_move(graph, desc, payload, all, diti_heads_rows(desc, i), desc->rows[i], i, true);
        parts[i] = own ? diti_tensor_new(graph, diti_payload_format(graph, x), desc->items * own,
                                         diti_heads_columns(desc, i), "heads received")
                       : 0;
        if (own) diti_guard_alike(graph, x, parts[i]);
        diti_heads_move(graph, desc, parts[i], own, 0, own, i, false);
    }
    for (item = 0; item < desc->items && own; item++)
        diti_copy(graph, diti_ranks_rows(graph, x, item * all + diti_heads_rows(desc, self), own),
                  diti_heads_of(graph, desc, out, item * own, own, 0, self), "own heads");
    diti_ranks_end(graph, begun);
    for (i = 0; i < group->count && own; i++)
        if (i != self)
            diti_payload_unpack(graph, parts[i], diti_heads_of(graph, desc, out, 0, desc->items * own, 0, i));
    return out;
}

DIT_INTERNAL diti_tensor diti_quantize_shared(diti_graph *graph, const diti_ranks *group, diti_tensor x, bool rotated,
                                              const char *name) {
    diti_tensor most = 0;
    if (diti_ranks_count(group) > 1) {
        most = diti_quantize_measure(graph, x, rotated, "largest of rows");
        most = diti_all_gather(graph, group, most, 1, group->count, "largest of rows");
    }
    return diti_quantize_agreed(graph, x, rotated, most, name);
}
