/* Checks that a plan orders its work as the work needs. The check follows from where tensors lie and from what
 * workgroups touch, and from nothing that slice.c concludes. Include it after the library and test.h.
 *
 * Commands between two barriers run in any order, side by side, and so do the workgroups of one dispatch. Copies of
 * exchanges run beside all slices from their begin to their end. In memory that tensors share by turns nobody else may
 * have written what is read. */
#ifndef HAZARDS_H
#define HAZARDS_H

/* Rows of bytes in a block: rows times `width` bytes, every `pitch` bytes. */
typedef struct hazard_span {
    uint32_t block;
    uint64_t begin, end, width, pitch;
    diti_tensor owner; /* the tensor with memory of its own that this is part of */
    bool writes;
} hazard_span;

typedef struct hazard_owners { /* who wrote the bytes of a block last: runs that cover it, by their begins */
    struct hazard_owned {
        uint64_t begin, time;
        diti_tensor owner; /* 0: nobody */
    } * runs;
    size_t count, capacity;
} hazard_owners;

typedef struct hazard_check {
    const diti_plan *plan;
    const char *name;
    hazard_owners *owners; /* of blocks */
    uint64_t now, begun;   /* counts writes; when the segment began */
    uint64_t *lives;       /* for each tensor its first write in this segment, or in the one that wrote it last */
    struct hazard_flight { /* exchanges on their way */
        uint32_t exchange;
        hazard_span span;
    } flights[256];
    uint32_t flight_count;
    hazard_span *epoch; /* the bytes that were touched since the last barrier */
    uint32_t *epoch_sources;
    size_t epoch_count, epoch_capacity;
    uint64_t pairs;  /* how many pairs of spans were compared */
    uint32_t faults; /* found */
} hazard_check;

#define HAZARD_FAULT(check, ...) ((check)->faults++ < 8 ? (void)CHECK_MESSAGE(0, __VA_ARGS__) : (void)0)

static inline uint64_t hazard_block_size(const diti_plan *plan, uint32_t block) { return plan->blocks[block].size; }

/* Elements [from, to) of a tensor; false: of a weight, which nobody writes. */
static inline bool hazard_span_of(const diti_plan *plan, diti_tensor tensor, uint64_t from, uint64_t to, bool writes,
                                  hazard_span *out) {
    const diti_tensor_info *info = &plan->tensors[tensor], *parent = &plan->tensors[info->parent];
    uint64_t size = diti_element_size(info->format), all = (uint64_t)info->rows * info->pitch, rows;
    uint64_t used = info->format == DITI_I8 ? info->pitch : info->columns; /* int8 rows end in their scale */
    if (parent->storage == DITI_STORAGE_WEIGHT) return false;
    if (to > all) to = all;
    from -= from % info->pitch;
    rows = to > from ? (to - from + info->pitch - 1) / info->pitch : 1;
    out->block = parent->block;
    out->owner = info->parent;
    out->writes = writes;
    out->pitch = info->pitch * size;
    out->width = used * size;
    out->begin = parent->offset + (info->first + from) * size;
    out->end = out->begin + (rows - 1) * out->pitch + out->width;
    if (parent->part) { /* a weight that came from another device: rows of packed values, not of elements */
        out->begin = parent->offset;
        out->pitch = out->width = parent->bytes;
        out->end = out->begin + parent->bytes;
    }
    return true;
}

/* Whether two spans share bytes. Rows of equal pitch may lie side by side without touching. */
static inline bool hazard_meet(const hazard_span *a, const hazard_span *b) {
    uint64_t shift;
    if (a->block != b->block || a->end <= b->begin || b->end <= a->begin) return false;
    if (a->pitch != b->pitch) return true;
    if (b->begin < a->begin) {
        const hazard_span *other = a;
        a = b;
        b = other;
    }
    shift = (b->begin - a->begin) % a->pitch;
    return shift < a->width || shift + b->width > a->pitch;
}

/* --- who wrote what --- */

static inline size_t hazard_run_at(const hazard_owners *owners, uint64_t at) {
    size_t low = 0, high = owners->count;
    while (high - low > 1) {
        size_t middle = (low + high) / 2;
        if (owners->runs[middle].begin <= at)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* Cuts the run that holds `at` in two, so that one begins there. */
static inline size_t hazard_split(hazard_owners *owners, uint64_t at) {
    size_t i = hazard_run_at(owners, at);
    if (owners->runs[i].begin == at) return i;
    if (owners->count == owners->capacity) {
        owners->capacity = 2 * owners->capacity;
        owners->runs = (struct hazard_owned *)realloc(owners->runs, owners->capacity * sizeof *owners->runs);
    }
    memmove(owners->runs + i + 2, owners->runs + i + 1, (owners->count - i - 1) * sizeof *owners->runs);
    owners->runs[i + 1].begin = at;
    owners->runs[i + 1].owner = owners->runs[i].owner;
    owners->runs[i + 1].time = owners->runs[i].time;
    owners->count++;
    return i + 1;
}

static inline void hazard_own(hazard_check *check, const hazard_span *span) {
    hazard_owners *owners = &check->owners[span->block];
    size_t first, end;
    if (check->plan->blocks[span->block].storage != DITI_STORAGE_ARENA) return;
    first = hazard_split(owners, span->begin);
    end = span->end < hazard_block_size(check->plan, span->block) ? hazard_split(owners, span->end) : owners->count;
    memmove(owners->runs + first + 1, owners->runs + end, (owners->count - end) * sizeof *owners->runs);
    owners->count -= end - first - 1;
    owners->runs[first].owner = span->owner;
    owners->runs[first].time = ++check->now;
    if (check->lives[span->owner] <= check->begun) check->lives[span->owner] = check->now;
}

/* Looks at the first row, one in the middle and the last: nobody else may have written them since they belong to their
   owner. Bytes that were never written may be read: rows that fill up a tile, say. */
static inline void hazard_read(hazard_check *check, const hazard_span *span, const char *op) {
    const diti_plan *plan = check->plan;
    const hazard_owners *owners = &check->owners[span->block];
    uint64_t rows = (span->end - span->begin - span->width) / span->pitch + 1, k;
    if (plan->blocks[span->block].storage != DITI_STORAGE_ARENA) return;
    if (!check->lives[span->owner])
        HAZARD_FAULT(check, "%s: op %s reads %s, which nobody has written", check->name, op,
                     plan->tensors[span->owner].name);
    for (k = 0; k < 3; k++) {
        uint64_t at = span->begin + rows * k / 3 * span->pitch, end;
        size_t i;
        if (k == 2) at = span->begin + (rows - 1) * span->pitch;
        end = at + span->width;
        for (i = hazard_run_at(owners, at); i < owners->count && owners->runs[i].begin < end; i++) {
            if (owners->runs[i].owner == span->owner || owners->runs[i].time < check->lives[span->owner]) continue;
            HAZARD_FAULT(check, "%s: op %s reads %s, of which %s has written bytes from %llu on", check->name, op,
                         plan->tensors[span->owner].name, plan->tensors[owners->runs[i].owner].name,
                         (unsigned long long)owners->runs[i].begin);
            return;
        }
    }
}

/* --- what a piece of a dispatch touches --- */

/* Finds the bytes that workgroups [first, end) touch by a binding, by the rule that graph.h states. */
static inline bool hazard_binding(const diti_plan *plan, const diti_binding *binding, uint32_t first, uint32_t end,
                                  hazard_span *out) {
    const diti_tensor_info *info = &plan->tensors[binding->tensor];
    uint64_t div = binding->group_div ? binding->group_div : 1, from = 0, to = (uint64_t)info->rows * info->pitch;
    if (!binding->tensor) return false;
    if (binding->group_step) {
        from = first / div * binding->group_step;
        to = ((end - 1) / div + 1) * binding->group_step + binding->after;
        from = from > binding->before ? from - binding->before : 0;
    }
    return hazard_span_of(plan, binding->tensor, from, to, binding->writes, out);
}

static inline void hazard_compare(hazard_check *check, const hazard_span *span, uint32_t source) {
    const diti_plan *plan = check->plan;
    uint32_t k;
    size_t i;
    for (i = 0; i < check->epoch_count; i++) {
        const hazard_span *other = &check->epoch[i];
        if (check->epoch_sources[i] == source || !(span->writes || other->writes)) continue;
        check->pairs++;
        if (!hazard_meet(span, other)) continue;
        HAZARD_FAULT(check, "%s: no barrier between op %u, %s, which %s %s, and op %u, %s, which %s %s", check->name,
                     check->epoch_sources[i], plan->sources[check->epoch_sources[i]].name,
                     other->writes ? "writes" : "reads", plan->tensors[other->owner].name, source,
                     plan->sources[source].name, span->writes ? "writes" : "reads", plan->tensors[span->owner].name);
    }
    for (k = 0; k < check->flight_count; k++) {
        const hazard_span *copy = &check->flights[k].span;
        check->pairs++;
        if (!(span->writes || copy->writes) || !hazard_meet(span, copy)) continue;
        HAZARD_FAULT(check, "%s: op %u, %s, %s %s while %s is on its way", check->name, source,
                     plan->sources[source].name, span->writes ? "writes" : "reads", plan->tensors[span->owner].name,
                     plan->tensors[copy->owner].name);
    }
}

static inline void hazard_touch(hazard_check *check, const hazard_span *span, uint32_t source) {
    if (check->epoch_count == check->epoch_capacity) {
        check->epoch_capacity = check->epoch_capacity ? 2 * check->epoch_capacity : 256;
        check->epoch = (hazard_span *)realloc(check->epoch, check->epoch_capacity * sizeof *check->epoch);
        check->epoch_sources =
            (uint32_t *)realloc(check->epoch_sources, check->epoch_capacity * sizeof *check->epoch_sources);
    }
    check->epoch[check->epoch_count] = *span;
    check->epoch_sources[check->epoch_count++] = source;
}

static inline void hazard_piece(hazard_check *check, const diti_plan_dispatch *piece) {
    const diti_plan *plan = check->plan;
    const diti_dispatch *source = &plan->sources[piece->source];
    hazard_span span;
    uint32_t i;
    for (i = 0; i < source->binding_count; i++) {
        if (!hazard_binding(plan, &source->bindings[i], piece->first_group, piece->first_group + piece->groups, &span))
            continue;
        hazard_compare(check, &span, piece->source);
        hazard_touch(check, &span, piece->source);
        if (source->bindings[i].reads) hazard_read(check, &span, source->name);
    }
    for (i = 0; i < source->binding_count; i++) { /* behind all reads: a tensor may become another in its place */
        if (source->bindings[i].writes &&
            hazard_binding(plan, &source->bindings[i], piece->first_group, piece->first_group + piece->groups, &span))
            hazard_own(check, &span);
    }
}

/* --- one dispatch: no workgroup may write what another one reads or writes. Bindings that meet are one tensor, of
   which every workgroup has the same part by either; or whole tensors in another's memory, which is wrong. --- */

static inline bool hazard_same_part(const diti_plan *plan, const diti_binding *a, const diti_binding *b) {
    const diti_tensor_info *x = &plan->tensors[a->tensor], *y = &plan->tensors[b->tensor];
    return x->parent == y->parent && x->first == y->first && x->pitch == y->pitch && x->columns == y->columns;
}

static inline void hazard_dispatch(hazard_check *check, uint32_t index) {
    const diti_plan *plan = check->plan;
    const diti_dispatch *source = &plan->sources[index];
    hazard_span a, b;
    uint32_t i, k;
    for (i = 0; i < source->binding_count && source->groups > 1; i++) {
        for (k = 0; k < source->binding_count; k++) {
            if (i == k || !source->bindings[i].writes) continue;
            if (!hazard_binding(plan, &source->bindings[i], 0, source->groups, &a) ||
                !hazard_binding(plan, &source->bindings[k], 0, source->groups, &b) || !hazard_meet(&a, &b))
                continue;
            if (hazard_same_part(plan, &source->bindings[i], &source->bindings[k])) continue;
            HAZARD_FAULT(check, "%s: op %u, %s, writes %s in the memory of %s, which it has as binding %u", check->name,
                         index, source->name, plan->tensors[source->bindings[i].tensor].name,
                         plan->tensors[source->bindings[k].tensor].name, k);
        }
    }
}

/* --- exchanges --- */

static inline void hazard_fly(hazard_check *check, uint32_t exchange) {
    const diti_plan *plan = check->plan;
    const diti_exchange *from = &plan->exchanges[exchange];
    const diti_tensor_info *info = &plan->tensors[from->tensor];
    hazard_span span;
    uint32_t i;
    if (!hazard_span_of(plan, from->tensor, 0, (uint64_t)info->rows * info->pitch, !from->sends, &span)) return;
    for (i = 0; i < check->flight_count; i++) {
        const hazard_span *other = &check->flights[i].span;
        check->pairs++;
        if ((span.writes || other->writes) && hazard_meet(&span, other))
            HAZARD_FAULT(check, "%s: %s is received and %s on its way at once", check->name, info->name,
                         plan->tensors[other->owner].name);
    }
    if (from->sends) hazard_read(check, &span, "exchange");
    if (!CHECK(check->flight_count < DITI_COUNT(check->flights))) return;
    check->flights[check->flight_count].exchange = exchange;
    check->flights[check->flight_count++].span = span;
}

static inline void hazard_land(hazard_check *check, uint32_t i) {
    if (check->flights[i].span.writes) hazard_own(check, &check->flights[i].span);
    check->flights[i] = check->flights[--check->flight_count];
}

static inline void hazard_land_exchange(hazard_check *check, uint32_t exchange) {
    uint32_t i;
    for (i = 0; i < check->flight_count; i++)
        if (check->flights[i].exchange == exchange) hazard_land(check, i--);
}

static inline void hazard_event(hazard_check *check, const diti_exchange_event *event) {
    const diti_exchange *exchanges = check->plan->exchanges;
    uint32_t i;
    if (event->kind != DITI_EXCHANGE_JOINS) hazard_land_exchange(check, event->exchange);
    if (event->kind == DITI_EXCHANGE_BEGINS) hazard_fly(check, event->exchange);
    for (i = 0; event->kind == DITI_EXCHANGE_JOINS && i < check->flight_count; i++) {
        const diti_exchange *exchange = &exchanges[check->flights[i].exchange];
        if (exchange->carried && exchange->tensor == event->tensor) hazard_land(check, i--);
    }
}

/* --- streamed weights: what a slice reads of them is in its batch, and has a place of its own in the slot --- */

static inline void hazard_stream(hazard_check *check, const diti_plan_slice *slice, uint32_t source) {
    const diti_plan *plan = check->plan;
    const diti_dispatch *dispatch = &plan->sources[source];
    const diti_stream_batch *batch = slice->batch == DITI_NO_BATCH ? NULL : &plan->streaming.batches[slice->batch];
    uint32_t i, k, found;
    for (i = 0; i < dispatch->binding_count; i++) {
        const diti_weight_part *part = plan->tensors[plan->tensors[dispatch->bindings[i].tensor].parent].part;
        if (!dispatch->bindings[i].tensor || !part || !part->streamed || !part->streamed->stream) continue;
        for (k = found = 0; batch && k < batch->count; k++) {
            const diti_stream_item *item = &plan->streaming.items[batch->first + k];
            const bool within = item->from <= part->offset && part->offset < item->from + item->bytes;
            if (item->streamed == part->streamed &&
                (batch->slot < DITI_STREAM_SLOTS ? item->from == part->offset : within))
                found++;
        }
        if (found != 1)
            HAZARD_FAULT(check, "%s: op %u, %s, reads a streamed weight that its slice's batch has %u times",
                         check->name, source, dispatch->name, found);
    }
}

static inline void hazard_batches(hazard_check *check) {
    const diti_plan *plan = check->plan;
    size_t g;
    uint32_t i;
    for (g = 0; g < plan->streaming.batch_count; g++) {
        const diti_stream_batch *batch = &plan->streaming.batches[g];
        uint64_t end = 0;
        for (i = 0; i < batch->count; i++) {
            const diti_stream_item *item = &plan->streaming.items[batch->first + i];
            if (item->offset < end)
                HAZARD_FAULT(check, "%s: weights of batch %u lie in each other", check->name, (uint32_t)g);
            end = item->offset + item->bytes;
        }
        if (end > (batch->slot < DITI_STREAM_SLOTS ? plan->streaming.stream->slot_bytes
                                                   : plan->streaming.stream->sizes.expert) ||
            batch->slot >= DITI_STREAM_SLOTS + plan->streaming.stream->sizes.experts)
            HAZARD_FAULT(check, "%s: batch %u has no room in its slot", check->name, (uint32_t)g);
    }
}

/* --- a run --- */

static inline void hazard_segment(hazard_check *check, uint32_t segment) {
    const diti_plan *plan = check->plan;
    uint32_t event = plan->first_event[segment], s, i;
    check->begun = check->now;
    for (s = 0; s <= plan->segments[segment].count; s++) {
        const diti_plan_slice *slice = &plan->slices[plan->segments[segment].first + s];
        for (; event < plan->first_event[segment + 1] && plan->events[event].slice <= s; event++)
            hazard_event(check, &plan->events[event]);
        if (s == 0)
            check->epoch_count = 0; /* segments begin with a barrier, and so do slices, unless they go on with a
                                       dispatch */
        for (i = 0; s < plan->segments[segment].count && i < slice->count; i++) {
            const diti_plan_dispatch *piece = &plan->dispatches[slice->first + i];
            if (piece->barrier) check->epoch_count = 0;
            hazard_piece(check, piece);
            hazard_stream(check, slice, piece->source);
        }
    }
    for (i = 0; i < check->flight_count; i++) {
        const diti_exchange *exchange = &plan->exchanges[check->flights[i].exchange];
        if (!exchange->carried && exchange->segment == segment) hazard_land(check, i--);
    }
}

/* Steps in strips (PipeFusion) begin, go on and end in segments of their own, one of each for every kind of step. */
static inline int hazard_form(const diti_segment *segment) {
    return !strncmp(segment->name, "patches", 7)         ? 1
           : !strncmp(segment->name, "next patches", 12) ? 2
           : !strncmp(segment->name, "last patches", 12) ? 3
                                                         : 0;
}

/* The number-th of the repeated segments [first, end) with that form, or the last of them; end: there is none. */
static inline uint32_t hazard_nth(const diti_plan *plan, uint32_t first, uint32_t end, int form, uint32_t number) {
    uint32_t found = end, i;
    for (i = first; i < end; i++) {
        if (hazard_form(&plan->segments[i]) != form) continue;
        found = i;
        if (!number--) break;
    }
    return found;
}

static inline void hazard_patches(hazard_check *check, uint32_t first, uint32_t end) {
    static const int forms[] = {1, 2, 2, 3};
    uint32_t kind, i, segment;
    for (kind = 0; kind < 3; kind++) {
        for (i = 0; i < DITI_COUNT(forms); i++) {
            segment = hazard_nth(check->plan, first, end, forms[i], kind);
            if (segment < end) hazard_segment(check, segment);
        }
    }
}

/* Runs all segments in turn. Segments that are repeated, one behind the other, run twice in their order and once in the
   opposite one; where a segment may run again because F16 overflowed, each does. */
static inline void hazard_run(hazard_check *check) {
    const diti_plan *plan = check->plan;
    uint32_t s = 0, end, i, again = plan->guards && plan->device->rung >= DITI_RUNG_FP16 ? 2 : 1, k;
    while (s < plan->segment_count) {
        for (end = s; end < plan->segment_count && plan->segments[end].repeated; end++) {
        }
        if (end == s) {
            for (k = 0; k < again; k++) hazard_segment(check, s);
            s++;
            continue;
        }
        for (i = s; i < end; i++)
            for (k = 0; k < again && !hazard_form(&plan->segments[i]); k++) hazard_segment(check, i);
        for (i = s; i < end; i++)
            if (!hazard_form(&plan->segments[i])) hazard_segment(check, i);
        hazard_patches(check, s, end);
        for (i = end; i-- > s;)
            if (!hazard_form(&plan->segments[i])) hazard_segment(check, i);
        s = end;
    }
}

/* Each mistake is a failed check. Returns how many pairs of uses were compared. */
static inline uint64_t hazard_check_plan(const diti_plan *plan, const char *name) {
    hazard_check check;
    size_t i;
    memset(&check, 0, sizeof check);
    check.plan = plan;
    check.name = name;
    check.owners = (hazard_owners *)calloc(plan->block_count, sizeof *check.owners);
    for (i = 0; i < plan->block_count; i++) {
        check.owners[i].capacity = 64;
        check.owners[i].runs = (struct hazard_owned *)calloc(64, sizeof *check.owners[i].runs);
        check.owners[i].count = 1;
    }
    check.lives = (uint64_t *)calloc(plan->tensor_count, sizeof *check.lives);
    for (i = 0; i < plan->source_count; i++) hazard_dispatch(&check, (uint32_t)i);
    hazard_batches(&check);
    hazard_run(&check);
    CHECK_MESSAGE(check.faults == 0, "%s: %u mistakes", name, check.faults);
    for (i = 0; i < plan->block_count; i++) free(check.owners[i].runs);
    free(check.owners);
    free(check.lives);
    free(check.epoch);
    free(check.epoch_sources);
    return check.pairs;
}
#endif
