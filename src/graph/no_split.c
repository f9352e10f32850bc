/* DIT_NO_SPLIT: groups of one device, which share nothing and exchange nothing. The functions that exchange are
   called in larger groups alone. */
#include "graph/ops_internal.h"
#include "graph/plan_internal.h"

DIT_INTERNAL uint32_t diti_ranks_count(const diti_ranks *group) {
    (void)group;
    return 1;
}

DIT_INTERNAL uint32_t diti_ranks_first(const diti_ranks *group, uint32_t index, uint32_t total) {
    (void)group;
    return index ? total : 0;
}

DIT_INTERNAL uint32_t diti_ranks_size(const diti_ranks *group, uint32_t index, uint32_t total) {
    (void)group;
    return index ? 0 : total;
}

DIT_INTERNAL uint32_t diti_ranks_column(const diti_ranks *group, uint32_t index, uint32_t columns) {
    (void)group;
    return index ? columns : 0;
}

DIT_INTERNAL diti_tensor diti_all_gather(diti_graph *graph, const diti_ranks *group, diti_tensor part, uint32_t items,
                                         uint32_t total, const char *name) {
    (void)graph, (void)group, (void)items, (void)total, (void)name;
    return part;
}

DIT_INTERNAL void diti_all_reduce(diti_graph *graph, const diti_ranks *group, diti_tensor x, const char *name) {
    (void)graph, (void)group, (void)x, (void)name;
}

DIT_INTERNAL void diti_gather_columns(diti_graph *graph, const diti_ranks *group, diti_tensor x) {
    (void)graph, (void)group, (void)x;
}

DIT_INTERNAL void diti_gather_stretches(diti_graph *graph, const diti_ranks *group, diti_tensor x,
                                        const uint32_t *first) {
    (void)graph, (void)group, (void)x, (void)first;
}

DIT_INTERNAL diti_tensor diti_gather_heads(diti_graph *graph, const diti_exchange_heads *desc, diti_tensor x,
                                           uint32_t kinds) {
    (void)graph, (void)desc, (void)kinds;
    return x;
}

DIT_INTERNAL void diti_heads_flow_begin(diti_graph *graph, const diti_exchange_heads *desc, diti_tensor x,
                                        uint32_t kinds, diti_heads_flow *flow) {
    (void)graph, (void)desc, (void)x, (void)kinds, (void)flow;
}

DIT_INTERNAL void diti_heads_flow_send(diti_graph *graph, const diti_exchange_heads *desc, diti_heads_flow *flow,
                                       uint32_t kind) {
    (void)graph, (void)desc, (void)flow, (void)kind;
}

DIT_INTERNAL diti_tensor diti_heads_flow_end(diti_graph *graph, const diti_exchange_heads *desc,
                                             diti_heads_flow *flow) {
    (void)graph, (void)desc;
    return flow->x;
}

DIT_INTERNAL diti_tensor diti_scatter_heads(diti_graph *graph, const diti_exchange_heads *desc, diti_tensor x,
                                            diti_tensor out) {
    (void)graph, (void)desc, (void)out;
    return x;
}

DIT_INTERNAL diti_tensor diti_payload(diti_graph *graph, diti_tensor x) {
    (void)graph;
    return x;
}

DIT_INTERNAL diti_element diti_payload_format(const diti_graph *graph, diti_tensor x) {
    return diti_tensor_get(graph, x)->format;
}

DIT_INTERNAL void diti_payload_unpack(diti_graph *graph, diti_tensor payload, diti_tensor out) {
    (void)graph, (void)payload, (void)out;
}

DIT_INTERNAL diti_tensor diti_payload_take(diti_graph *graph, uint32_t exchange, diti_tensor payload,
                                           diti_element format) {
    (void)graph, (void)exchange, (void)format;
    return payload;
}

DIT_INTERNAL uint32_t diti_exchange_begin(diti_graph *graph, diti_tensor tensor, uint32_t peer, bool sends) {
    (void)graph, (void)tensor, (void)peer, (void)sends;
    return 0;
}

DIT_INTERNAL void diti_exchange_end(diti_graph *graph, uint32_t exchange) { (void)graph, (void)exchange; }

DIT_INTERNAL uint32_t diti_receive_begin(diti_graph *graph, diti_tensor x, uint32_t device) {
    (void)graph, (void)x, (void)device;
    return 0;
}

DIT_INTERNAL diti_trade diti_trade_begin(diti_graph *graph, diti_tensor from, uint32_t next, diti_tensor to,
                                         uint32_t before) {
    const diti_trade none = {0, 0};
    (void)graph, (void)from, (void)next, (void)to, (void)before;
    return none;
}

DIT_INTERNAL void diti_trade_end(diti_graph *graph, diti_trade trade) { (void)graph, (void)trade; }

DIT_INTERNAL diti_tensor diti_trade_take(diti_graph *graph, diti_trade trade, diti_tensor payload,
                                         diti_element format) {
    (void)graph, (void)trade, (void)format;
    return payload;
}

DIT_INTERNAL void diti_send(diti_graph *graph, diti_tensor x, uint32_t device) { (void)graph, (void)x, (void)device; }

DIT_INTERNAL void diti_receive(diti_graph *graph, diti_tensor x, uint32_t device) {
    (void)graph, (void)x, (void)device;
}

DIT_INTERNAL void diti_receive_several(diti_graph *graph, const diti_tensor *x, uint32_t count, uint32_t device) {
    (void)graph, (void)x, (void)count, (void)device;
}

DIT_INTERNAL void diti_receive_by_end(diti_graph *graph, diti_tensor x, uint32_t device) {
    (void)graph, (void)x, (void)device;
}

DIT_INTERNAL void diti_swap(diti_graph *graph, diti_tensor from, diti_tensor to, uint32_t device) {
    (void)graph, (void)from, (void)to, (void)device;
}

DIT_INTERNAL void diti_broadcast(diti_graph *graph, const diti_ranks *group, uint32_t root, diti_tensor x) {
    (void)graph, (void)group, (void)root, (void)x;
}

DIT_INTERNAL void diti_exchange_widen(diti_graph *graph) { (void)graph; }

DIT_INTERNAL void diti_shard_blocks(diti_graph *graph, uint32_t self, uint32_t devices, uint32_t segment) {
    (void)graph, (void)self, (void)devices, (void)segment;
}

DIT_INTERNAL void diti_guard_alike(diti_graph *graph, diti_tensor own, diti_tensor received) {
    (void)graph, (void)own, (void)received;
}

DIT_INTERNAL diti_tensor diti_quantize_shared(diti_graph *graph, const diti_ranks *group, diti_tensor x, bool rotated,
                                              const char *name) {
    (void)group;
    return diti_quantize(graph, x, rotated, name);
}
