#include "base/base.h"

DIT_INTERNAL bool diti_equal(const char *a, const char *b) { return a && b ? strcmp(a, b) == 0 : a == b; }

DIT_INTERNAL bool diti_starts_with(const char *text, const char *prefix) { return strncmp(text, prefix, strlen(prefix)) == 0; }

DIT_INTERNAL bool diti_ends_with(const char *text, const char *suffix) {
    size_t length = strlen(text), tail = strlen(suffix);
    return length >= tail && strcmp(text + length - tail, suffix) == 0;
}

DIT_INTERNAL bool diti_format(char *out, size_t size, const char *format, ...) {
    va_list args;
    int written;
    va_start(args, format);
    written = vsnprintf(out, size, format, args);
    va_end(args);
    return written >= 0 && (size_t)written < size;
}

DIT_INTERNAL uint64_t diti_hash(const void *data, size_t size) {
    const unsigned char *bytes = (const unsigned char *)data;
    uint64_t hash = 0xcbf29ce484222325u;
    size_t i;
    for (i = 0; i < size; i++) hash = (hash ^ bytes[i]) * 0x100000001b3u;
    return hash;
}
