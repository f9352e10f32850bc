/* Traces as the application sees them: its marks and ranges, and everything written as Chrome trace JSON. */
#include "job/job.h"

DIT_API void dit_trace_mark(dit_context *ctx, const char *name) {
    if (ctx && ctx->trace && name) diti_trace_mark(ctx->trace, name);
}

DIT_API uint64_t dit_trace_begin(dit_context *ctx, const char *name) {
    return ctx && ctx->trace && name ? diti_trace_begin(ctx->trace, name) : 0;
}

DIT_API void dit_trace_end(dit_context *ctx, uint64_t range) {
    if (ctx && ctx->trace && range) diti_trace_end(ctx->trace, range);
}

/* --- writing --- */

typedef struct diti_json_writer {
    bool (*write)(const void *data, size_t size, void *user);
    void *user;
    bool stopped; /* write returned false */
    size_t used;
    char buffer[4096];
} diti_json_writer;

static void diti_write_flush(diti_json_writer *writer) {
    if (!writer->stopped && writer->used) writer->stopped = !writer->write(writer->buffer, writer->used, writer->user);
    writer->used = 0;
}

static void diti_write_bytes(diti_json_writer *writer, const char *bytes, size_t size) {
    if (size > sizeof writer->buffer - writer->used) diti_write_flush(writer);
    memcpy(writer->buffer + writer->used, bytes, size); /* pieces are shorter than the buffer */
    writer->used += size;
}

static void diti_write(diti_json_writer *writer, const char *format, ...) DITI_PRINTF(2, 3);
static void diti_write(diti_json_writer *writer, const char *format, ...) {
    char text[256];
    va_list arguments;
    int length;
    va_start(arguments, format);
    length = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (length > 0) diti_write_bytes(writer, text, (size_t)length < sizeof text ? (size_t)length : sizeof text - 1);
}

/* A JSON string; bytes that are no UTF-8 become U+FFFD. */
static void diti_write_string(diti_json_writer *writer, const char *text) {
    size_t left = strlen(text), length;
    diti_write_bytes(writer, "\"", 1);
    for (; left; text += length, left -= length) {
        unsigned char c = (unsigned char)*text;
        length = diti_utf8_length(text, left);
        if (length == 0) {
            length = 1;
            diti_write_bytes(writer, "\\ufffd", 6);
        } else if (c < 0x20 || c == 0x7f) {
            diti_write(writer, "\\u%04x", c);
        } else {
            if (c == '"' || c == '\\') diti_write_bytes(writer, "\\", 1);
            diti_write_bytes(writer, text, length);
        }
    }
    diti_write_bytes(writer, "\"", 1);
}

/* Microseconds with three decimals, whatever the locale. */
static void diti_write_us(diti_json_writer *writer, const char *key, uint64_t ns) {
    diti_write(writer, "\"%s\":%llu.%03u", key, (unsigned long long)(ns / 1000u), (unsigned)(ns % 1000u));
}

/* --- lanes: a process for the host and one per device, a thread for each row of a lane --- */

static unsigned diti_trace_process(const diti_trace_event *event) {
    return event->lane < DITI_TRACK_GPU ? 1u : 2u + event->device;
}

static unsigned diti_trace_thread(unsigned lane, unsigned row) { return lane * DITI_TRACE_ROWS + row + 1u; }

static void diti_write_name(diti_json_writer *writer, const char *what, unsigned process, unsigned thread,
                            const char *name, unsigned number) {
    diti_write(writer, "{\"ph\":\"M\",\"name\":\"%s\",\"pid\":%u,\"tid\":%u,\"args\":{\"name\":", what, process,
               thread);
    if (number > 1) {
        char numbered[64];
        diti_format(numbered, sizeof numbered, "%s %u", name, number);
        name = numbered;
        diti_write_string(writer, name);
    } else {
        diti_write_string(writer, name);
    }
    diti_write_bytes(writer, "}},\n", 4);
}

static void diti_write_rows(diti_json_writer *writer, unsigned process, unsigned lane, uint64_t used) {
    static const char *const names[DITI_TRACKS] = {
        "application",       "load", "plan", "record", "submit", "wait", "copy", "copy between devices", "GPU",
        "application on GPU"};
    uint32_t row;
    for (row = 0; row < DITI_TRACE_ROWS; row++) {
        if (used >> row & 1u)
            diti_write_name(writer, "thread_name", process, diti_trace_thread(lane, row), names[lane], row + 1);
    }
}

/* Names only the rows that something stands in. */
static void diti_write_lanes(diti_json_writer *writer, const dit_context *ctx, const diti_trace_chunk *chunks) {
    uint64_t host[DITI_TRACKS] = DITI_ZERO, used[DITI_MAX_DEVICES][DITI_TRACKS];
    uint32_t lane, i;
    memset(used, 0, sizeof used);
    for (; chunks; chunks = chunks->next) {
        for (i = 0; i < chunks->count; i++) {
            const diti_trace_event *event = &chunks->events[i];
            *(event->lane < DITI_TRACK_GPU ? &host[event->lane] : &used[event->device][event->lane]) |= (uint64_t)1
                                                                                                        << event->row;
        }
    }
    diti_write_name(writer, "process_name", 1, 0, "host", 1);
    for (lane = 0; lane < DITI_TRACK_GPU; lane++) diti_write_rows(writer, 1, lane, host[lane]);
    for (i = 0; i < ctx->device_count; i++) {
        diti_write_name(writer, "process_name", 2 + i, 0, ctx->devices[i]->info.name, 1);
        for (lane = DITI_TRACK_GPU; lane < DITI_TRACKS; lane++) diti_write_rows(writer, 2 + i, lane, used[i][lane]);
    }
}

/* --- events --- */

static const char *const diti_trace_shape_names[][6] = {
    /* by kind, from DITI_TRACE_PRODUCT on */
    {"gemm", "m", "n", "k", NULL, NULL},
    {"conv", "m", "n", "k", "kernel", NULL},
    {"attention", "queries", "keys", "heads", "head_dim", "batch"},
    {"memory", "rows", "columns", NULL, NULL, NULL},
};

static void diti_write_op(diti_json_writer *writer, const diti_trace_event *event) {
    const char *const *names = diti_trace_shape_names[event->kind - DITI_TRACE_PRODUCT];
    uint32_t i;
    diti_write(writer, ",\"cat\":\"%s\",\"args\":{", names[0]);
    for (i = 0; i < 5 && names[i + 1]; i++) diti_write(writer, "\"%s\":%u,", names[i + 1], event->shape[i]);
    diti_write(writer, "\"flops\":%.0f,\"bytes\":%.0f,\"tensor\":", event->flops, event->bytes);
    diti_write_string(writer, event->text);
    if (event->groups < event->all_groups)
        diti_write(writer, ",\"first_group\":%u,\"groups\":%u,\"all_groups\":%u", event->first, event->groups,
                   event->all_groups);
}

static void diti_write_slice(diti_json_writer *writer, const diti_trace_event *event) {
    diti_write(writer, ",\"cat\":\"slice\",\"args\":{\"dispatches\":%u,", event->count);
    diti_write_us(writer, "predicted_us", event->busy_ns);
}

/* Where an op or slice of the GPU lane belongs. */
static void diti_write_place(diti_json_writer *writer, const diti_trace_event *event) {
    diti_write_bytes(writer, ",\"segment\":", 11);
    diti_write_string(writer, event->segment);
    diti_write(writer, ",\"step\":%u,\"slice\":%u,\"plan\":%u}", event->step, event->slice, event->plan);
}

static void diti_write_span(diti_json_writer *writer, const diti_trace_event *event) {
    static const char *const categories[] = {"application", "host", "copy"};
    unsigned category = event->lane == DITI_TRACK_COPY || event->lane == DITI_TRACK_PEER ? 2u
                        : event->lane != DITI_TRACK_APPLICATION                          ? 1u
                                                                                         : 0u;
    diti_write(writer, ",\"cat\":\"%s\",\"args\":{", categories[category]);
    if (event->bytes > 0) diti_write(writer, "\"bytes\":%.0f", event->bytes);
    diti_write_bytes(writer, "}", 1);
}

static void diti_write_arguments(diti_json_writer *writer, const diti_trace_event *event) {
    switch (event->kind) {
    case DITI_TRACE_MARK: diti_write(writer, ",\"cat\":\"application\",\"s\":\"p\""); break;
    case DITI_TRACE_SPAN: diti_write_span(writer, event); break;
    case DITI_TRACE_RANGE:
        diti_write(writer, ",\"cat\":\"application\",\"args\":{\"slices\":%u,", event->count);
        diti_write_us(writer, "busy_us", event->busy_ns);
        diti_write_bytes(writer, "}", 1);
        break;
    case DITI_TRACE_SLICE:
        diti_write_slice(writer, event);
        diti_write_place(writer, event);
        break;
    default:
        diti_write_op(writer, event);
        diti_write_place(writer, event);
        break;
    }
}

static void diti_write_event(diti_json_writer *writer, const diti_trace_event *event) {
    diti_write(writer, "{\"ph\":\"%s\",\"pid\":%u,\"tid\":%u,", event->kind == DITI_TRACE_MARK ? "i" : "X",
               diti_trace_process(event), diti_trace_thread(event->lane, event->row));
    diti_write_us(writer, "ts", event->begin_ns);
    if (event->kind != DITI_TRACE_MARK) {
        diti_write_bytes(writer, ",", 1);
        diti_write_us(writer, "dur", event->end_ns - event->begin_ns);
    }
    diti_write_bytes(writer, ",\"name\":", 8);
    diti_write_string(writer, event->name ? event->name : event->text);
    diti_write_arguments(writer, event);
    diti_write_bytes(writer, "},\n", 3);
}

/* --- the file --- */

static void diti_write_head(diti_json_writer *writer, const dit_context *ctx, uint64_t dropped) {
    const diti_device *device = ctx->device;
    const char *clock = device->limits.timestamp_bits
                            ? "timestamps, aligned with the host's clock once"
                            : "none: this queue has no timestamps, so slices last from submission until they are seen "
                              "finished, and there are no ops";
    diti_write(writer, "{\"displayTimeUnit\":\"ms\",\"otherData\":{\"writer\":\"dit.h %u.%u.%u\",\"mode\":\"%s\",",
               DIT_VERSION / 10000u, DIT_VERSION / 100u % 100u, DIT_VERSION % 100u,
               ctx->trace->light ? "light" : "full");
    diti_write(writer, "\"dropped_events\":%llu,\"most_events\":%u,", (unsigned long long)dropped, ctx->trace->limit);
    diti_write(writer, "\"host_clock\":\"microseconds\",\"gpu_clock\":");
    diti_write_string(writer, clock);
    if (device->limits.timestamp_bits) {
        diti_write_bytes(writer, ",", 1);
        diti_write_us(writer, "gpu_clock_accuracy_us", device->clock.accuracy_ns);
    }
    diti_write(writer, "},\"traceEvents\":[\n");
}

static void diti_write_trace(diti_json_writer *writer, const dit_context *ctx, const diti_trace_chunk *chunks,
                             uint64_t dropped) {
    uint32_t i;
    diti_write_head(writer, ctx, dropped);
    diti_write_lanes(writer, ctx, chunks);
    for (; chunks && !writer->stopped; chunks = chunks->next) {
        for (i = 0; i < chunks->count; i++) diti_write_event(writer, &chunks->events[i]);
    }
    /* an event without a comma ends the list */
    diti_write(writer,
               "{\"ph\":\"M\",\"name\":\"process_sort_index\",\"pid\":1,\"tid\":0,\"args\":{\"sort_index\":0}}\n]}\n");
    diti_write_flush(writer);
}

DIT_API dit_result dit_trace_write(dit_context *ctx, bool (*write)(const void *data, size_t size, void *user),
                                   void *user, dit_error *err) {
    diti_json_writer writer;
    diti_trace_chunk *chunks;
    uint64_t dropped;
    if (!ctx || !write)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "dit_trace_write: ctx and write must be given");
    if (!ctx->trace)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "dit_trace_write: the context was created without trace");
    writer.write = write;
    writer.user = user;
    writer.stopped = false;
    writer.used = 0;
    chunks = diti_trace_take(ctx->trace, &dropped);
    diti_write_trace(&writer, ctx, chunks, dropped);
    diti_trace_free_chunks(ctx->trace, chunks);
    return writer.stopped ? DIT_CANCELLED : DIT_OK;
}
