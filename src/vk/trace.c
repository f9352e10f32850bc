/* Traces: a list of events in chunks, filled by any thread. */
#include "vk/vk.h"

DIT_INTERNAL dit_result diti_trace_create(const diti_env *env, bool light, uint32_t limit, diti_trace **out,
                                          dit_error *err) {
    diti_trace *trace = (diti_trace *)diti_alloc_zero(env, sizeof *trace);
    *out = trace;
    if (!trace) return diti_fail_memory(err, "a trace");
    trace->env = *env;
    trace->light = light;
    trace->limit = limit;
    trace->start_us = diti_clock_us();
    return DIT_OK;
}

DIT_INTERNAL void diti_trace_free_chunks(diti_trace *trace, diti_trace_chunk *chunks) {
    diti_trace_chunk *next;
    for (; chunks; chunks = next) {
        next = chunks->next;
        diti_free(&trace->env, chunks);
    }
}

DIT_INTERNAL void diti_trace_destroy(diti_trace *trace) {
    diti_env env;
    if (!trace) return;
    env = trace->env;
    diti_trace_free_chunks(trace, trace->first);
    diti_free(&env, trace);
}

/* --- clocks --- */

/* Under the lock, so that time does not go back. */
static uint64_t diti_trace_time(diti_trace *trace) {
    uint64_t us = diti_clock_us(), ns = us > trace->start_us ? (us - trace->start_us) * 1000u : 0;
    if (ns < trace->last_ns) ns = trace->last_ns;
    trace->last_ns = ns;
    return ns;
}

DIT_INTERNAL uint64_t diti_trace_now(diti_trace *trace) {
    uint64_t ns;
    diti_lock(&trace->lock);
    ns = diti_trace_time(trace);
    diti_unlock(&trace->lock);
    return ns;
}

/* --- events --- */

/* Copies event where there is room; false: a chunk is needed. Under the lock. */
static bool diti_trace_put(diti_trace *trace, const diti_trace_event *event) {
    if (trace->count >= trace->limit) {
        trace->dropped++;
        return true;
    }
    if (!trace->last || trace->last->count == DITI_TRACE_CHUNK) return false;
    trace->last->events[trace->last->count++] = *event;
    trace->count++;
    return true;
}

static void diti_trace_append(diti_trace *trace, diti_trace_chunk *chunk) {
    chunk->next = NULL;
    chunk->count = 0;
    if (trace->last)
        trace->last->next = chunk;
    else
        trace->first = chunk;
    trace->last = chunk;
}

/* Two threads may bring a chunk at once: then the first one stays nearly empty, which does no harm. */
DIT_INTERNAL void diti_trace_add(diti_trace *trace, const diti_trace_event *event) {
    diti_trace_chunk *chunk;
    bool done;
    diti_lock(&trace->lock);
    done = diti_trace_put(trace, event);
    diti_unlock(&trace->lock);
    if (done) return;
    chunk = (diti_trace_chunk *)diti_alloc(&trace->env, sizeof *chunk);
    diti_lock(&trace->lock);
    if (chunk) diti_trace_append(trace, chunk);
    if (!chunk || !diti_trace_put(trace, event)) trace->dropped++;
    diti_unlock(&trace->lock);
}

DIT_INTERNAL void diti_trace_drop(diti_trace *trace, uint64_t events) {
    diti_lock(&trace->lock);
    trace->dropped += events;
    diti_unlock(&trace->lock);
}

DIT_INTERNAL diti_trace_chunk *diti_trace_take(diti_trace *trace, uint64_t *dropped) {
    diti_trace_chunk *chunks;
    diti_lock(&trace->lock);
    chunks = trace->first;
    *dropped = trace->dropped;
    trace->first = trace->last = NULL;
    trace->count = 0;
    trace->dropped = 0;
    diti_unlock(&trace->lock);
    return chunks;
}

/* --- what the host does --- */

/* A row of the lane that nothing else uses now, since what shares a row must nest. false: there is none left, and what
   wanted one is dropped. Under the lock. */
static bool diti_trace_take_row(diti_trace *trace, uint32_t lane, uint8_t *out) {
    uint8_t row = 0;
    while (row < DITI_TRACE_ROWS && trace->rows[lane] >> row & 1u) row++;
    *out = row;
    if (row < DITI_TRACE_ROWS)
        trace->rows[lane] |= (uint64_t)1 << row;
    else
        trace->dropped++;
    return row < DITI_TRACE_ROWS;
}

DIT_INTERNAL diti_trace_scope diti_trace_open(diti_trace *trace, diti_trace_track lane, const char *name) {
    diti_trace_scope scope = DITI_ZERO;
    if (!trace) return scope;
    if (trace->light && lane != DITI_TRACK_APPLICATION && lane != DITI_TRACK_COPY && lane != DITI_TRACK_PEER)
        return scope;
    scope.name = name;
    scope.lane = (uint8_t)lane;
    diti_lock(&trace->lock);
    if (diti_trace_take_row(trace, lane, &scope.row)) scope.trace = trace;
    scope.begin_ns = diti_trace_time(trace);
    diti_unlock(&trace->lock);
    return scope;
}

DIT_INTERNAL void diti_trace_close_as(const diti_trace_scope *scope, const char *text, double bytes) {
    diti_trace_event event = DITI_ZERO;
    if (!scope->trace) return;
    event.kind = DITI_TRACE_SPAN;
    event.name = scope->name;
    if (text) diti_format(event.text, sizeof event.text, "%s", text);
    event.begin_ns = scope->begin_ns;
    event.end_ns = diti_trace_now(scope->trace);
    event.bytes = bytes;
    event.lane = scope->lane;
    event.row = scope->row;
    diti_lock(&scope->trace->lock);
    scope->trace->rows[scope->lane] &= ~((uint64_t)1 << scope->row);
    diti_unlock(&scope->trace->lock);
    diti_trace_add(scope->trace, &event);
}

DIT_INTERNAL void diti_trace_close(const diti_trace_scope *scope, double bytes) {
    diti_trace_close_as(scope, NULL, bytes);
}

/* --- what the application marks --- */

/* As much as fits, never half a character. */
static void diti_trace_copy_text(char *out, size_t size, const char *text) {
    size_t length = strlen(text);
    if (length >= size) {
        length = size - 1;
        while (length && ((unsigned char)text[length] & 0xc0u) == 0x80u) length--;
    }
    memcpy(out, text, length);
    out[length] = 0;
}

DIT_INTERNAL void diti_trace_mark(diti_trace *trace, const char *text) {
    diti_trace_event event = DITI_ZERO;
    event.kind = DITI_TRACE_MARK;
    event.begin_ns = event.end_ns = diti_trace_now(trace);
    diti_trace_copy_text(event.text, sizeof event.text, text);
    diti_trace_add(trace, &event);
}

DIT_INTERNAL uint64_t diti_trace_begin(diti_trace *trace, const char *text) {
    diti_trace_range range = DITI_ZERO;
    uint32_t slot = 0;
    range.open = true;
    diti_trace_copy_text(range.text, sizeof range.text, text);
    diti_lock(&trace->lock);
    while (slot < DITI_TRACE_RANGES && trace->ranges[slot].id) slot++;
    if (slot == DITI_TRACE_RANGES) {
        trace->dropped++;
    } else if (diti_trace_take_row(trace, DITI_TRACK_APPLICATION, &range.row)) {
        range.id = ++trace->range_count * DITI_TRACE_RANGES + slot;
        range.first = trace->submitted + 1;
        range.begin_ns = diti_trace_time(trace); /* behind the end of whatever had the row */
        trace->ranges[slot] = range;
    }
    diti_unlock(&trace->lock);
    return range.id;
}

static void diti_trace_add_range(diti_trace *trace, const diti_trace_range *range, uint64_t end_ns) {
    diti_trace_event event = DITI_ZERO;
    event.kind = DITI_TRACE_SPAN;
    event.lane = DITI_TRACK_APPLICATION;
    event.row = range->row;
    event.begin_ns = range->begin_ns;
    event.end_ns = end_ns;
    memcpy(event.text, range->text, sizeof event.text);
    diti_trace_add(trace, &event);
}

static void diti_trace_add_device_range(diti_trace *trace, const diti_trace_range *range) {
    diti_trace_event event = DITI_ZERO;
    event.kind = DITI_TRACE_RANGE;
    event.lane = DITI_TRACK_GPU_APPLICATION;
    event.row = range->row;
    event.device = range->device;
    event.begin_ns = range->device_begin_ns;
    event.end_ns = range->device_end_ns;
    event.busy_ns = range->busy_ns;
    event.count = range->slices;
    memcpy(event.text, range->text, sizeof event.text);
    diti_trace_add(trace, &event);
}

/* Whether nothing is to come for a range, so that its place is free. Under the lock. */
static bool diti_trace_range_complete(const diti_trace_range *range) {
    return range->id && !range->open && range->finished == range->last + 1 - range->first;
}

/* Its place stays taken until the device is through with what was submitted in it. */
DIT_INTERNAL void diti_trace_end(diti_trace *trace, uint64_t range) {
    diti_trace_range *place = &trace->ranges[range % DITI_TRACE_RANGES], ended = DITI_ZERO;
    uint64_t now = diti_trace_now(trace);
    bool complete = false;
    diti_lock(&trace->lock);
    if (range && place->id == range && place->open) {
        place->open = false;
        place->last = trace->submitted;
        trace->rows[DITI_TRACK_APPLICATION] &= ~((uint64_t)1 << place->row);
        ended = *place;
        complete = diti_trace_range_complete(place);
        if (complete) place->id = 0;
    }
    diti_unlock(&trace->lock);
    if (!ended.id) return;
    diti_trace_add_range(trace, &ended, now);
    if (complete && ended.slices) diti_trace_add_device_range(trace, &ended);
}

DIT_INTERNAL uint64_t diti_trace_submitted(diti_trace *trace) {
    uint64_t submission;
    diti_lock(&trace->lock);
    submission = ++trace->submitted;
    diti_unlock(&trace->lock);
    return submission;
}

static void diti_trace_widen(diti_trace_range *range, uint64_t begin_ns, uint64_t end_ns) {
    range->finished++;
    if (!end_ns) return;
    if (!range->slices || begin_ns < range->device_begin_ns) range->device_begin_ns = begin_ns;
    if (!range->slices || end_ns > range->device_end_ns) range->device_end_ns = end_ns;
    range->busy_ns += end_ns - begin_ns;
    range->slices++;
}

DIT_INTERNAL void diti_trace_finished(diti_trace *trace, uint64_t submission, uint8_t device, uint64_t begin_ns,
                                      uint64_t end_ns) {
    diti_trace_range complete = DITI_ZERO, *place;
    uint32_t slot;
    for (slot = 0; slot < DITI_TRACE_RANGES; slot++) {
        place = &trace->ranges[slot];
        complete.id = 0;
        diti_lock(&trace->lock);
        if (place->id && submission >= place->first && (place->open || submission <= place->last)) {
            diti_trace_widen(place, begin_ns, end_ns);
            place->device = device;
            if (diti_trace_range_complete(place)) {
                complete = *place;
                place->id = 0;
            }
        }
        diti_unlock(&trace->lock);
        if (complete.id && complete.slices) diti_trace_add_device_range(trace, &complete);
    }
}
