/* Guards: F16 ends at 65504, activations of some models do not (docs/kernels.md 1.5). Every op of a guarded graph that
   may store too much in F16 has a record on the device. What it stores is scaled by 2^-e, which its readers undo; what
   does not fit nevertheless is cut off and noted. At the end of a segment one small dispatch looks at the records and
   says whether the segment must run again; from then on nothing has an effect (diti_op_gate) until the host, which sees
   the records after every segment, has raised e where that helps and let the segment run once more. What was not finite
   before anything was too large cannot be helped, and where all is F32 that is what guards are for: to say which op it
   was. */
#include "graph/ops_internal.h"
#include "graph/plan_internal.h"

/* Words of a record, as in guard.glsl. The first record is diti_health. */
enum {
    DITI_RECORD_STORE,    /* float: the result times that is stored */
    DITI_RECORD_LOAD,     /* float: operands times that are what they stand for */
    DITI_RECORD_NARROW,   /* float: an F32 operand times that becomes F16 */
    DITI_RECORD_PEAK = 4, /* magnitudes, as bits, that did not fit: of the result, of that operand */
    DITI_RECORD_WORDS = 8
};
#define DITI_RECORD_RUN 4u /* of the first record, behind diti_health: guard_run */
#define DITI_GUARDED 23u   /* id of the specialization constant */
#define DITI_GATED 13u     /* of elementwise.comp */
#define DITI_INFINITY 0x7f800000u

/* A record, one more row of the tensor. */
static uint32_t diti_guard_add(diti_graph *graph, const char *name, const char *what) {
    diti_guard_record *record;
    diti_tensor_info *tensor = &graph->tensors[graph->guards];
    if (!diti_grow(&graph->device->env, (void **)&graph->guard_records, &graph->guard_capacity, graph->guard_count,
                   sizeof *graph->guard_records)) {
        return diti_graph_fail(graph, DIT_ERROR_OUT_OF_HOST_MEMORY, "no host memory for %u guards",
                               (unsigned)graph->guard_count);
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
    for (i = 1; i < graph->guard_count && before; i++) { /* what else `to` holds takes the same one */
        diti_guard_record *record = &graph->guard_records[i];
        if (record->store == before) record->store = guard;
        if (record->load[0] == before) record->load[0] = guard;
        if (record->load[1] == before) record->load[1] = guard;
    }
    graph->tensors[graph->tensors[to].parent].guard = guard;
}

DIT_INTERNAL diti_tensor diti_guard_release(diti_graph *graph, diti_tensor tensor, const char *name) {
    diti_elementwise_desc copy = DITI_ZERO;
    if (diti_graph_failed(graph) || !diti_guard_of(graph, tensor)) return tensor;
    copy.out_f32 = true;
    copy.name = name;
    return diti_elementwise(graph, tensor, &copy);
}

/* Whose exponent the result has: the first record of its tensor, which may be written in parts; none where something
   else wrote it. */
static uint32_t diti_guard_own(diti_graph *graph, diti_tensor out, uint32_t record) {
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
    if (dispatch->constant_count <= constant) dispatch->constant_count = constant + 1;
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
    if (use->out) graph->guard_records[record].store = diti_guard_own(graph, use->out, record);
    diti_guard_bind(graph, dispatch, use->binding, use->word, DITI_GUARDED,
                    diti_tensor_view(graph, graph->guards, record, 1, 0, diti_tensor_get(graph, graph->guards)->pitch));
}

DIT_INTERNAL void diti_op_gate(diti_graph *graph, diti_dispatch *dispatch, uint32_t binding, uint8_t word) {
    if (!graph->guards || diti_graph_failed(graph)) return;
    diti_guard_bind(graph, dispatch, binding, word, DITI_GATED, diti_guard_health(graph, 0, DITI_HEALTH_WORDS));
}

/* Looks at records [first, end). */
static void diti_guard_look(diti_graph *graph, uint32_t first, uint32_t end) {
    const uint32_t group = 64;
    diti_dispatch dispatch;
    if (!diti_op_begin(graph, &dispatch, "judge", "elementwise", group)) return;
    dispatch.constants[1] = DITI_OP_JUDGE;
    dispatch.constant_count = 2;
    dispatch.push[3] = first;
    dispatch.push[4] = diti_tensor_get(graph, graph->guards)->pitch / 4;
    dispatch.push[5] = end;
    dispatch.push[7] = graph->segment_count;
    diti_op_bind(graph, &dispatch, 7, graph->guards, 16, true, true);
    dispatch.bindings[7].element_bytes = DITI_GUARD_CELL;
    diti_op_emit(graph, &dispatch, 1, 17);
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
    if (!graph->guards || diti_graph_failed(graph)) return;
    diti_guard_look(graph, graph->guard_judged ? graph->guard_judged : 1, (uint32_t)graph->guard_count);
    graph->guard_judged = (uint32_t)graph->guard_count;
    if (graph->guard_peers) diti_guard_agree(graph);
}

/* --- on the host --- */

static uint32_t diti_guard_power(uint32_t up, uint32_t down) { return (127u + up - down) << 23; }

static void diti_guard_fill(const diti_guard_record *records, size_t i, uint32_t *out) {
    const diti_guard_record *record = &records[i];
    uint32_t first = records[record->load[0]].exponent, second = records[record->load[1]].exponent;
    /* A product's second operand is a factor of its result; queries and keys, whose result is no tensor, are both
       undone in the scores. */
    bool product = record->load[1] && record->has_result;
    out[DITI_RECORD_STORE] = diti_guard_power(product ? second : 0, records[record->store].exponent);
    out[DITI_RECORD_LOAD] = diti_guard_power(first + (product ? 0 : second), 0);
    out[DITI_RECORD_NARROW] = diti_guard_power(0, records[record->narrow].exponent);
}

DIT_INTERNAL dit_result diti_guard_write(diti_plan *plan, uint32_t step, dit_error *err) {
    const diti_tensor_info *tensor = &plan->tensors[plan->guards];
    size_t words = (size_t)tensor->rows * tensor->columns, i;
    dit_result result;
    uint32_t *all;
    if (!plan->guards) return DIT_OK;
    plan->guard_run++;
    plan->guard_step = step;
    all = (uint32_t *)diti_alloc_zero(&plan->device->env, words * sizeof *all);
    if (!all) return diti_fail(err, DIT_ERROR_OUT_OF_HOST_MEMORY, "no host memory for the guards");
    for (i = 1; i < tensor->rows; i++) diti_guard_fill(plan->guard_records, i, all + i * tensor->columns);
    all[offsetof(diti_health, step) / sizeof *all] = step;
    all[DITI_RECORD_RUN] = plan->guard_run;
    result = diti_plan_write(plan, plan->guards, all, words * sizeof *all, err);
    diti_free(&plan->device->env, all);
    return result;
}

DIT_INTERNAL void diti_guard_read(const diti_plan *plan, diti_health *out) {
    const uint32_t *words;
    memset(out, 0, sizeof *out);
    if (!plan->guards) return;
    diti_buffer_invalidate(plan->device, &plan->report);
    words = (const uint32_t *)plan->report.block.mapped;
    out->step = plan->guard_step;
    if (words[DITI_RECORD_RUN] == plan->guard_run) memcpy(out, words, sizeof *out);
}

static uint32_t diti_guard_peak(const diti_plan *plan, size_t record, uint32_t which) {
    const uint32_t *words = (const uint32_t *)plan->report.block.mapped;
    return words[record * plan->tensors[plan->guards].columns + DITI_RECORD_PEAK + which];
}

/* Takes a peak into account: makes e so large that it becomes 2^12 to 2^13. */
static void diti_guard_consider(diti_plan *plan, uint32_t owner, uint32_t record, uint32_t peak, diti_verdict *out) {
    diti_guard_record *records = plan->guard_records;
    uint32_t wanted = records[owner].exponent + (peak >> 23) - 139u;
    if (!peak) return;
    if (!out->record) {
        out->record = record;
        out->lost = peak >= DITI_INFINITY;
    }
    if (peak < DITI_INFINITY && records[owner].wanted < wanted) records[owner].wanted = wanted;
}

/* What a report asks for, noted in the records; false: nothing. */
static bool diti_guard_ask(diti_plan *plan, diti_verdict *out) {
    diti_health health;
    uint32_t i, count = plan->guards ? plan->tensors[plan->guards].rows : 0;
    memset(out, 0, sizeof *out);
    diti_guard_read(plan, &health);
    if (!health.blocked) return false;
    for (i = 1; i < count; i++) {
        const diti_guard_record *record = &plan->guard_records[i];
        if (record->segment != health.blocked) continue;
        diti_guard_consider(plan, record->narrow, record->narrow, diti_guard_peak(plan, i, 1), out);
        diti_guard_consider(plan, record->store, i, diti_guard_peak(plan, i, 0), out);
    }
    out->segment = health.blocked - 1;
    out->step = health.step;
    out->name = plan->guard_records[out->record].name;
    return true;
}

static void diti_guard_grant(diti_plan *plan) {
    uint32_t i, count = plan->guards ? plan->tensors[plan->guards].rows : 0;
    for (i = 1; i < count; i++) {
        diti_guard_record *record = &plan->guard_records[i];
        if (record->wanted > record->exponent) record->exponent = record->wanted;
        record->wanted = 0;
    }
}

DIT_INTERNAL bool diti_guard_raise(diti_plan *plan, diti_verdict *out) {
    if (!diti_guard_ask(plan, out)) return false;
    diti_guard_grant(plan);
    return true;
}

/* Records of one op stand in the same order in both plans, each of which may have others between them. */
static void diti_guard_join_wanted(diti_plan *a, diti_plan *b) {
    uint32_t i, k, next = 1, counts[2];
    counts[0] = a->guards ? a->tensors[a->guards].rows : 0;
    counts[1] = b->guards ? b->tensors[b->guards].rows : 0;
    for (i = 1; i < counts[0]; i++) {
        diti_guard_record *one = &a->guard_records[i], *other;
        for (k = next; k < counts[1]; k++) {
            other = &b->guard_records[k];
            if (other->segment != one->segment || strcmp(other->name, one->name) != 0) continue;
            if (other->wanted < one->wanted) other->wanted = one->wanted;
            if (one->wanted < other->wanted) one->wanted = other->wanted;
            next = k + 1;
            break;
        }
    }
}

DIT_INTERNAL bool diti_guard_raise_all(diti_plan *const *plans, uint32_t count, diti_verdict *out) {
    bool asked = false;
    uint32_t i, k, turn;
    for (i = 0; i < count; i++) asked = diti_guard_ask(plans[i], &out[i]) || asked;
    for (turn = 0; turn < 2; turn++) /* what the first has not got may come from the last by way of others */
        for (i = 0; i < count; i++)
            for (k = 0; k < i && asked; k++) diti_guard_join_wanted(plans[k], plans[i]);
    for (i = 0; i < count; i++) diti_guard_grant(plans[i]);
    return asked;
}

DIT_INTERNAL void diti_guard_inherit(diti_plan *plan, const diti_plan *before) {
    uint32_t i, count = plan->guards ? plan->tensors[plan->guards].rows : 0;
    if (!before->guards || before->tensors[before->guards].rows != count) return;
    for (i = 1; i < count; i++) plan->guard_records[i].exponent = before->guard_records[i].exponent;
}

DIT_INTERNAL void diti_guard_forget(diti_plan *plan) {
    uint32_t i;
    for (i = 0; plan->guards && i < plan->tensors[plan->guards].rows; i++) plan->guard_records[i].exponent = 0;
}

DIT_INTERNAL dit_result diti_guard_check(const diti_plan *plan, const diti_verdict *verdict, uint32_t tries,
                                         uint32_t steps, dit_error *err) {
    char where[48] = "";
    if (!verdict->lost && tries <= DITI_GUARD_TRIES) return DIT_OK;
    if (steps && plan->segments[verdict->segment].repeated)
        diti_format(where, sizeof where, " in step %u of %u", verdict->step + 1, steps);
    if (verdict->lost)
        return diti_fail(err, DIT_ERROR_NOT_FINITE,
                         "the result of %s is not finite%s; a weight or an input may be damaged", verdict->name, where);
    return diti_fail(err, DIT_ERROR_NOT_FINITE, "%s still overflows fp16%s after %u tries; try the fp32 rung",
                     verdict->name, where, DITI_GUARD_TRIES);
}

DIT_INTERNAL dit_result diti_guard_restore(diti_plan *plan, uint32_t step, dit_error *err) {
    uint64_t value;
    dit_result result = diti_guard_write(plan, step, err);
    return result < 0 ? result : diti_plan_submit_commands(plan, plan->restore, &value, err);
}

DIT_INTERNAL dit_result diti_guard_run(diti_plan *plan, uint32_t segment, dit_error *err) {
    diti_verdict verdict;
    uint32_t tries = 0;
    dit_result result = diti_plan_run(plan, segment, 1, err);
    while (result >= 0 && diti_guard_raise(plan, &verdict)) {
        result = diti_guard_check(plan, &verdict, ++tries, 0, err);
        if (result >= 0) result = diti_guard_restore(plan, 0, err);
        if (result >= 0) result = diti_plan_run(plan, segment, 1, err);
    }
    return result;
}
