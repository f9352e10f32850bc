/* The verdict of a step: whether a half overflowed in it, on this device or another one, and copies that wait for that.
 */
#include "graph/ops_internal.h"
#include "graph/plan_internal.h"

/* Looks at records [first, end). */
static void diti_guard_look(diti_graph *graph, uint32_t first, uint32_t end) {
    const uint32_t group = 64;
    enum { DITI_JUDGE_FIRST = 1, DITI_JUDGE_END, DITI_JUDGE_CELLS, DITI_JUDGE_SEGMENT, DITI_JUDGE_GUARDS };
    diti_dispatch dispatch;
    if (!diti_op_begin(graph, &dispatch, "judge", DITI_KERNEL_JUDGE, group)) return;
    dispatch.stated = DITI_STATED(1);
    dispatch.push[DITI_JUDGE_FIRST] = first;
    dispatch.push[DITI_JUDGE_END] = end;
    dispatch.push[DITI_JUDGE_CELLS] = diti_tensor_get(graph, graph->guards)->pitch / 4;
    dispatch.push[DITI_JUDGE_SEGMENT] = graph->segment_count;
    diti_op_bind(graph, &dispatch, 0, graph->guards, DITI_JUDGE_GUARDS, true, true);
    dispatch.bindings[0].element_bytes = DITI_GUARD_CELL;
    diti_op_emit(graph, &dispatch, 1, DITI_JUDGE_GUARDS + 1);
}

/* Every device's verdict goes to all others: 4 bytes each. */
static void diti_guard_agree(diti_graph *graph) {
    const uint32_t blocked = (uint32_t)(offsetof(diti_health, blocked) / sizeof(uint32_t));
    diti_tensor own = diti_guard_health(graph, blocked, 1);
    uint32_t exchanges[2 * DITI_MAX_DEVICES], i;
    for (i = 0; i < graph->guard_peers; i++) {
        uint32_t device = i < graph->guard_self ? i : i + 1;
        exchanges[2 * i] = diti_exchange_begin(graph, own, device, true);
        exchanges[2 * i + 1] = diti_exchange_begin(
            graph, diti_tensor_view(graph, graph->guards, i + 1, 1, DITI_RECORD_PEAK, 1), device, false);
    }
    for (i = 0; i < 2 * graph->guard_peers; i++) diti_exchange_end(graph, exchanges[i]);
    diti_guard_look(graph, 1, 1 + graph->guard_peers);
}

DIT_INTERNAL void diti_guard_judge(diti_graph *graph) {
    size_t i;
    if (!graph->guards || diti_graph_failed(graph)) return;
    diti_guard_look(graph, graph->guard_judged ? graph->guard_judged : 1, (uint32_t)graph->guard_count);
    graph->guard_judged = (uint32_t)graph->guard_count;
    if (graph->guard_peers && !graph->guard_apart) diti_guard_agree(graph);
    for (i = 0; i < graph->late_count && !diti_graph_failed(graph); i++)
        diti_copy_gated(graph, graph->lates[i].from, graph->lates[i].to, "keep for the next step");
    graph->late_count = 0;
}

DIT_INTERNAL diti_tensor diti_guard_late(diti_graph *graph, diti_tensor state, const char *name) {
    diti_tensor_info info = *diti_tensor_get(graph, state);
    diti_late_copy copy;
    if (!graph->guards || diti_graph_failed(graph)) return state;
    copy.to = state;
    copy.from = diti_tensor_new(graph, info.format, info.rows, info.columns, name);
    if (!diti_grow(&graph->device->env, (void **)&graph->lates, &graph->late_capacity, graph->late_count, sizeof copy))
        return diti_graph_fail_memory(graph, "%u copies behind a step", (unsigned)graph->late_count);
    graph->lates[graph->late_count++] = copy;
    return copy.from;
}
