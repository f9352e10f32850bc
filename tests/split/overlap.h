/* How much of the time of copies between devices is hidden: the receiving device computes meanwhile. Computed from a
   trace that has slices, too. A copy lasts from handing it to the sending device to seeing it done on the receiving
   one. */
#ifndef OVERLAP_H
#define OVERLAP_H

typedef struct overlap {
    unsigned copies;
    double copies_ms, hidden_ms;
} overlap;

static inline void overlap_add(overlap *o, const diti_trace *trace, const diti_trace_event *copy, unsigned device) {
    const diti_trace_chunk *chunk;
    uint32_t i;
    o->copies++;
    o->copies_ms += (double)(copy->end_ns - copy->begin_ns) * 1e-6;
    for (chunk = trace->first; chunk; chunk = chunk->next) {
        for (i = 0; i < chunk->count; i++) {
            const diti_trace_event *e = &chunk->events[i];
            uint64_t begin = e->begin_ns > copy->begin_ns ? e->begin_ns : copy->begin_ns;
            uint64_t end = e->end_ns < copy->end_ns ? e->end_ns : copy->end_ns;
            if (e->kind == DITI_TRACE_SLICE && e->device == device && begin < end)
                o->hidden_ms += (double)(end - begin) * 1e-6; /* slices of a device follow each other */
        }
    }
}

static inline overlap overlap_of(const diti_trace *trace) {
    overlap o = {0, 0, 0};
    const diti_trace_chunk *chunk;
    uint32_t i;
    for (chunk = trace->first; chunk; chunk = chunk->next) {
        for (i = 0; i < chunk->count; i++) {
            const diti_trace_event *e = &chunk->events[i];
            unsigned from, to;
            if (e->lane == DITI_TRACK_PEER && sscanf(e->text, "%u to %u:", &from, &to) == 2)
                overlap_add(&o, trace, e, to);
        }
    }
    return o;
}
#endif
