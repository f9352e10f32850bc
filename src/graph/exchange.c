/* Exchanges: what the plan of one device sends to others and receives from them. */
#include "graph/ops_internal.h"
#include "graph/plan_internal.h"

/* In use from the begin on, as a dispatch there would have it. */
static void diti_exchange_use(diti_graph *graph, diti_tensor tensor) {
    diti_tensor_info *parent = &graph->tensors[graph->tensors[tensor].parent];
    uint32_t now = (uint32_t)graph->dispatch_count;
    if (parent->first_use == DITI_UNUSED_YET) parent->first_use = now;
    if (parent->last_use < now) parent->last_use = now;
}

static void diti_exchange_note(diti_graph *graph, diti_exchange_event_kind kind, uint32_t exchange,
                               diti_tensor tensor) {
    diti_exchange_event *event;
    if (!diti_grow(&graph->device->env, (void **)&graph->events, &graph->event_capacity, graph->event_count,
                   sizeof *graph->events)) {
        diti_graph_fail_memory(graph, "exchanges");
        return;
    }
    event = &graph->events[graph->event_count++];
    event->kind = kind;
    event->exchange = exchange;
    event->tensor = tensor;
    event->segment = graph->segment_count - 1;
    event->place = (uint32_t)graph->dispatch_count;
    diti_exchange_use(graph, tensor);
}

DIT_INTERNAL uint32_t diti_exchange_begin(diti_graph *graph, diti_tensor tensor, uint32_t peer, bool sends) {
    diti_exchange *exchange;
    uint32_t guard;
    if (diti_graph_failed(graph)) return 0;
    if (!tensor || diti_tensor_get(graph, diti_tensor_get(graph, tensor)->parent)->storage == DITI_STORAGE_WEIGHT)
        return diti_graph_fail(graph, DIT_ERROR_INVALID_ARGUMENT, "only tensors of a plan are exchanged");
    guard = diti_tensor_get(graph, diti_tensor_get(graph, tensor)->parent)->guard;
    if (guard) graph->guard_records[guard].travels = true;
    if (graph->guard_bare && guard)
        return diti_graph_fail(graph, DIT_ERROR_INVALID_ARGUMENT, "%s has an exponent, which other devices do not know",
                               diti_tensor_get(graph, tensor)->name);
    if (!diti_grow(&graph->device->env, (void **)&graph->exchanges, &graph->exchange_capacity, graph->exchange_count,
                   sizeof *graph->exchanges))
        return diti_graph_fail_memory(graph, "exchanges");
    exchange = &graph->exchanges[graph->exchange_count];
    memset(exchange, 0, sizeof *exchange);
    exchange->tensor = tensor;
    exchange->peer = peer;
    exchange->sends = sends;
    exchange->segment = graph->segment_count - 1;
    diti_exchange_note(graph, DITI_EXCHANGE_BEGINS, (uint32_t)graph->exchange_count, tensor);
    return (uint32_t)graph->exchange_count++;
}

DIT_INTERNAL void diti_exchange_end(diti_graph *graph, uint32_t exchange) {
    if (diti_graph_failed(graph)) return;
    graph->exchanges[exchange].ended = true;
    diti_exchange_note(graph, DITI_EXCHANGE_ENDS, exchange, graph->exchanges[exchange].tensor);
}

DIT_INTERNAL void diti_exchange_carry(diti_graph *graph, uint32_t exchange) {
    const diti_tensor_info *tensor;
    if (diti_graph_failed(graph)) return;
    tensor = diti_tensor_get(graph, diti_tensor_get(graph, graph->exchanges[exchange].tensor)->parent);
    graph->exchanges[exchange].carried = true;
    if (tensor->storage != DITI_STORAGE_STATE && tensor->storage != DITI_STORAGE_INPUT)
        diti_graph_fail(graph, DIT_ERROR_INVALID_ARGUMENT,
                        "an exchange of %s is to go on behind its segment, which only states and inputs outlive",
                        tensor->name);
}

DIT_INTERNAL void diti_exchange_join(diti_graph *graph, diti_tensor tensor) {
    if (!diti_graph_failed(graph)) diti_exchange_note(graph, DITI_EXCHANGE_JOINS, 0, tensor);
}

DIT_INTERNAL void diti_exchange_widen(diti_graph *graph) {
    size_t i;
    for (i = 0; i < graph->exchange_count; i++) {
        const diti_exchange *exchange = &graph->exchanges[i];
        const diti_segment *segment = &graph->segments[exchange->segment];
        diti_tensor_info *parent = &graph->tensors[graph->tensors[exchange->tensor].parent];
        if (!exchange->ended && parent->last_use + 1 < segment->first + segment->count)
            parent->last_use = segment->first + segment->count - 1;
    }
}

DIT_INTERNAL uint64_t diti_exchange_row_bytes(const diti_tensor_info *tensor) {
    uint32_t elements = tensor->format == DITI_I8 ? tensor->pitch : tensor->columns; /* int8 rows end in their scale */
    return (uint64_t)elements * diti_element_size(tensor->format);
}

DIT_INTERNAL uint64_t diti_plan_exchange_bytes(const diti_plan *plan, uint32_t segment, uint32_t peer) {
    uint64_t bytes = 0;
    size_t i;
    for (i = 0; i < plan->exchange_count; i++) {
        const diti_exchange *exchange = &plan->exchanges[i];
        const diti_tensor_info *tensor = &plan->tensors[exchange->tensor];
        if (exchange->sends && exchange->segment == segment && (peer == UINT32_MAX || peer == exchange->peer))
            bytes += tensor->rows * diti_exchange_row_bytes(tensor);
    }
    return bytes;
}
