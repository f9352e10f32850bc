/* Guards: F16 ends at 65504, activations of some models do not (docs/kernels.md 1.5). Every op of a guarded graph that
   may store too much in F16 has a record on the device. Its results are scaled by 2^-e, which their readers undo; what
   does not fit nevertheless is cut off and noted. At the end of a segment one small dispatch looks at the records and
   says whether the segment must run again; from then on nothing has an effect (diti_op_gate) until the host, which sees
   the records after every segment, has raised e where that helps and let the segment run once more. A result that was
   not finite before anything was too large cannot be helped, and where all is F32 that is what guards are for: to say
   which op it was. */
#include "graph/ops_internal.h"
#include "graph/plan_internal.h"

#define DITI_GUARDED 23u /* id of the specialization constant */
#define DITI_GATED 13u   /* id of the specialization constant in map.comp and solver.comp */

/* A record, one more row of the tensor. */
static uint32_t diti_guard_add(diti_graph *graph, const char *name, const char *what) {
    diti_guard_record *record;
    diti_tensor_info *tensor = &graph->tensors[graph->guards];
    if (!diti_grow(&graph->device->env, (void **)&graph->guard_records, &graph->guard_capacity, graph->guard_count,
                   sizeof *graph->guard_records)) {
        return diti_graph_fail_memory(graph, "%u guards", (unsigned)graph->guard_count);
    }
    record = &graph->guard_records[graph->guard_count];
    memset(record, 0, sizeof *record);
    record->segment = graph->segment_count;
    diti_format(record->name, sizeof record->name, "%s%s%s%s", what, name, graph->scope[0] ? " of " : "", graph->scope);
    tensor->rows = (uint32_t)++graph->guard_count; /* the first record is the row that was there */
    tensor->bytes = (uint64_t)tensor->rows * tensor->pitch * sizeof(uint32_t);
    return tensor->rows - 1;
}

DIT_INTERNAL void diti_guard_begin(diti_graph *graph) {
    uint32_t words = (uint32_t)graph->device->limits.storage_alignment / 4;
    if (words < DITI_RECORD_WORDS) words = DITI_RECORD_WORDS;
    if (graph->device->unguarded) return;
    graph->guards = diti_tensor_input(graph, DITI_U32, 1, words, "guards");
    if (!diti_graph_failed(graph)) diti_guard_add(graph, "", "");
}

/* The first records stand for the other devices: what they say arrives where peaks are. */
DIT_INTERNAL void diti_guard_join(diti_graph *graph, uint32_t self, uint32_t devices) {
    uint32_t i;
    if (!graph->guards) return;
    for (i = 1; i < devices && !diti_graph_failed(graph); i++) {
        uint32_t record = diti_guard_add(graph, "", "");
        graph->guard_records[record].segment = UINT32_MAX;
    }
    if (diti_graph_failed(graph)) return;
    diti_format(graph->guard_records[0].name, sizeof graph->guard_records[0].name, "an op of another device");
    graph->guard_self = self;
    graph->guard_peers = devices - 1;
    graph->guard_judged = devices;
}

DIT_INTERNAL diti_tensor diti_guard_health(diti_graph *graph, uint32_t first, uint32_t words) {
    return diti_tensor_view(graph, graph->guards, 0, 1, first, words);
}

static uint32_t diti_guard_of(const diti_graph *graph, diti_tensor tensor) {
    return tensor ? diti_tensor_get(graph, diti_tensor_get(graph, tensor)->parent)->guard : 0;
}

DIT_INTERNAL void diti_guard_pass(diti_graph *graph, diti_tensor from, diti_tensor to) {
    uint32_t guard = diti_guard_of(graph, from), before = diti_guard_of(graph, to);
    size_t i;
    if (!guard) return;
    for (i = 1; i < graph->guard_count && before; i++) { /* every other use of the record of `to` takes the same one */
        diti_guard_record *record = &graph->guard_records[i];
        if (record->store == before) record->store = guard;
        if (record->load[0] == before) record->load[0] = guard;
        if (record->load[1] == before) record->load[1] = guard;
    }
    if (before && graph->guard_records[before].travels) graph->guard_records[guard].travels = true;
    graph->tensors[graph->tensors[to].parent].guard = guard;
}

/* Whose exponent the result has: the first record of its tensor, which may be written in parts; none where something
   else wrote it. */
static uint32_t diti_guard_record_of(diti_graph *graph, diti_tensor out, uint32_t record) {
    diti_tensor_info *parent = &graph->tensors[graph->tensors[out].parent];
    if (parent->format == DITI_F16 && !parent->guard && parent->first_use == DITI_UNUSED_YET) parent->guard = record;
    return parent->guard;
}

static void diti_guard_bind(diti_graph *graph, diti_dispatch *dispatch, uint32_t binding, uint8_t word,
                            uint32_t constant, diti_tensor record) {
    double bytes = dispatch->memory_bytes;
    diti_op_bind(graph, dispatch, binding, record, word, true, true);
    dispatch->memory_bytes = bytes; /* rarely touched */
    dispatch->bindings[binding].element_bytes = DITI_GUARD_CELL;
    dispatch->constants[constant] = 1;
    dispatch->stated |= 1u << constant;
}

DIT_INTERNAL void diti_op_guard(diti_graph *graph, diti_dispatch *dispatch, const diti_guard_use *use) {
    uint32_t record, narrow = 0, load[2];
    if (!graph->guards || diti_graph_failed(graph)) return;
    load[0] = diti_guard_of(graph, use->operands[0]);
    load[1] = diti_guard_of(graph, use->operands[1]);
    if (use->narrows && diti_tensor_get(graph, use->operands[0])->format == DITI_F32)
        narrow = load[0] = diti_guard_add(graph, dispatch->name, "input of ");
    if (!use->out && !load[0] && !load[1]) return;
    record = diti_guard_add(graph, dispatch->name, "");
    if (diti_graph_failed(graph)) return;
    memcpy(graph->guard_records[record].load, load, sizeof load);
    graph->guard_records[record].narrow = narrow;
    graph->guard_records[record].has_result = use->out != 0;
    if (use->out) graph->guard_records[record].store = diti_guard_record_of(graph, use->out, record);
    diti_guard_bind(graph, dispatch, use->binding, use->word, DITI_GUARDED,
                    diti_tensor_view(graph, graph->guards, record, 1, 0, diti_tensor_get(graph, graph->guards)->pitch));
}

DIT_INTERNAL void diti_op_gate(diti_graph *graph, diti_dispatch *dispatch, uint32_t binding, uint8_t word) {
    if (!graph->guards || diti_graph_failed(graph)) return;
    diti_guard_bind(graph, dispatch, binding, word, DITI_GATED, diti_guard_health(graph, 0, DITI_HEALTH_WORDS));
}

DIT_INTERNAL void diti_guard_expect(diti_graph *graph, diti_tensor received, const char *name) {
    uint32_t record;
    if (!graph->guards || graph->activation != DITI_F16 || diti_graph_failed(graph)) return;
    record = diti_guard_add(graph, name, "");
    if (diti_graph_failed(graph)) return;
    graph->guard_records[record].store = record;
    graph->tensors[graph->tensors[received].parent].guard = record;
}
