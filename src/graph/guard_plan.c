/* Guards while a plan runs (guard.c): the host reads the records, raises exponents, and lets a segment run again. */
#include "graph/plan_internal.h"

#define DITI_INFINITY 0x7f800000u
#define DITI_GUARD_RISE 4u /* DITI_GUARD_TRIES times as much fits what F32 holds */

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
    if (!all) return diti_fail_memory(err, "the guards");
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
    if (plan->guard_blind && records[owner].travels) return;
    if (peak < DITI_INFINITY && records[owner].wanted < wanted) records[owner].wanted = wanted;
}

/* Notes in the records what a report asks for; false: nothing. Where several segments are judged at once, all peaks of
   them count, and the run begins again. */
static bool diti_guard_ask(diti_plan *plan, diti_verdict *out) {
    diti_health health;
    uint32_t i, count = plan->guards ? plan->tensors[plan->guards].rows : 0, first, last;
    bool late;
    memset(out, 0, sizeof *out);
    diti_guard_read(plan, &health);
    if (!health.blocked) return false;
    late = health.blocked <= plan->guard_end;
    first = late ? 1 : health.blocked;
    last = late ? plan->guard_end : health.blocked;
    for (i = 1; i < count; i++) {
        diti_guard_record *record = &plan->guard_records[i], *owner = &plan->guard_records[record->store];
        if (record->segment < first || record->segment > last) continue;
        if (plan->guard_blind && owner->travels) owner->wanted = owner->exponent + DITI_GUARD_RISE;
        diti_guard_consider(plan, record->narrow, record->narrow, diti_guard_peak(plan, i, 1), out);
        diti_guard_consider(plan, record->store, i, diti_guard_peak(plan, i, 0), out);
    }
    out->segment = first - 1;
    out->step = late ? 0 : health.step;
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
    for (turn = 0; turn < 2; turn++) /* the first may miss what the last has, and get it by way of others */
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

DIT_INTERNAL dit_result diti_guard_check(const diti_verdict *verdict, uint32_t tries, uint32_t steps, dit_error *err) {
    char where[48] = "";
    if (!verdict->lost && tries <= DITI_GUARD_TRIES) return DIT_OK;
    if (steps) diti_format(where, sizeof where, " in step %u of %u", verdict->step + 1, steps);
    if (verdict->lost)
        return diti_fail(err, DIT_ERROR_NOT_FINITE,
                         "the result of %s is not finite%s; a weight or an input may be damaged", verdict->name, where);
    return diti_fail(err, DIT_ERROR_NOT_FINITE, "%s still overflows fp16%s after %u tries; try the fp32 rung",
                     verdict->name, where, DITI_GUARD_TRIES);
}

DIT_INTERNAL dit_result diti_guard_restore(diti_plan *plan, uint32_t step, dit_error *err) {
    uint64_t value;
    DITI_TRY(diti_guard_write(plan, step, err));
    return diti_plan_submit_commands(plan, plan->restore, &value, err);
}

DIT_INTERNAL dit_result diti_guard_run(diti_plan *plan, uint32_t segment, dit_error *err) {
    diti_verdict verdict;
    uint32_t tries = 0;
    DITI_TRY(diti_plan_run(plan, segment, 1, err));
    while (diti_guard_raise(plan, &verdict)) {
        DITI_TRY(diti_guard_check(&verdict, ++tries, 0, err));
        DITI_TRY(diti_guard_restore(plan, 0, err));
        DITI_TRY(diti_plan_run(plan, segment, 1, err));
    }
    return DIT_OK;
}
