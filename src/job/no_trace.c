/* DIT_NO_TRACE: the public functions of traces, which have nothing to note or to write. */
#include "job/job.h"

DIT_API void dit_trace_mark(dit_context *ctx, const char *name) { (void)ctx, (void)name; }

DIT_API uint64_t dit_trace_begin(dit_context *ctx, const char *name) {
    (void)ctx, (void)name;
    return 0;
}

DIT_API void dit_trace_end(dit_context *ctx, uint64_t range) { (void)ctx, (void)range; }

DIT_API dit_result dit_trace_write(dit_context *ctx, bool (*write)(const void *data, size_t size, void *user),
                                   void *user, dit_error *err) {
    (void)ctx, (void)write, (void)user;
    return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                     "dit_trace_write: this build was made without traces (DIT_NO_TRACE)");
}
