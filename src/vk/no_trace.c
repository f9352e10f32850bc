/* DIT_NO_TRACE: what stands in place of traces. A context that asks for one is refused, so no device ever has one. */
#include "vk/vk.h"

DIT_INTERNAL dit_result diti_trace_create(const diti_env *env, bool light, uint32_t limit, diti_trace **out,
                                          dit_error *err) {
    (void)env, (void)light, (void)limit;
    *out = NULL;
    return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                     "dit_context_desc: trace must be false: this build was made without traces (DIT_NO_TRACE)");
}

DIT_INTERNAL void diti_trace_destroy(diti_trace *trace) { (void)trace; }

DIT_INTERNAL dit_result diti_trace_attach(diti_trace *trace, diti_device *device, dit_error *err) {
    (void)trace, (void)device, (void)err;
    return DIT_OK;
}

DIT_INTERNAL uint64_t diti_trace_now(diti_trace *trace) {
    (void)trace;
    return 0;
}

DIT_INTERNAL uint64_t diti_trace_device_ns(const diti_device *device, uint64_t ticks, uint64_t now_ns) {
    (void)device, (void)ticks, (void)now_ns;
    return 0;
}

DIT_INTERNAL void diti_trace_add(diti_trace *trace, const diti_trace_event *event) { (void)trace, (void)event; }

DIT_INTERNAL void diti_trace_drop(diti_trace *trace, uint64_t events) { (void)trace, (void)events; }

DIT_INTERNAL diti_trace_scope diti_trace_open(diti_trace *trace, diti_trace_track lane, const char *name) {
    (void)trace, (void)lane, (void)name;
    diti_trace_scope scope = DITI_ZERO;
    return scope;
}

DIT_INTERNAL void diti_trace_close(const diti_trace_scope *scope, double bytes) { (void)scope, (void)bytes; }

DIT_INTERNAL void diti_trace_close_as(const diti_trace_scope *scope, const char *text, double bytes) {
    (void)scope, (void)text, (void)bytes;
}

DIT_INTERNAL uint64_t diti_trace_submitted(diti_trace *trace) {
    (void)trace;
    return 0;
}

DIT_INTERNAL void diti_trace_finished(diti_trace *trace, uint64_t submission, uint8_t device, uint64_t begin_ns,
                                      uint64_t end_ns) {
    (void)trace, (void)submission, (void)device, (void)begin_ns, (void)end_ns;
}
