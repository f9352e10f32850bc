/* Strings: comparison, patterns, numbers as text that no locale changes, hashes, and lengths in UTF-8. */
#include "base/base.h"

DIT_INTERNAL bool diti_equal(const char *a, const char *b) { return a && b ? strcmp(a, b) == 0 : a == b; }

DIT_INTERNAL bool diti_starts_with(const char *text, const char *prefix) {
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

DIT_INTERNAL bool diti_ends_with(const char *text, const char *suffix) {
    size_t length = strlen(text), tail = strlen(suffix);
    return length >= tail && strcmp(text + length - tail, suffix) == 0;
}

/* Steps back to the newest star only: what an older one could take, the newest can. */
DIT_INTERNAL bool diti_glob(const char *pattern, const char *text) {
    const char *star = NULL, *retry = text;
    while (*text) {
        if (*pattern == '*') {
            star = ++pattern;
            retry = text;
        } else if (*pattern == '?' || *pattern == *text) {
            pattern++;
            text++;
        } else if (star) {
            pattern = star;
            text = ++retry;
        } else {
            return false;
        }
    }
    while (*pattern == '*') pattern++;
    return *pattern == 0;
}

DIT_INTERNAL bool diti_format(char *out, size_t size, const char *format, ...) {
    va_list args;
    int written;
    va_start(args, format);
    written = vsnprintf(out, size, format, args);
    va_end(args);
    return written >= 0 && (size_t)written < size;
}

/* Writes the decimal point of this locale, up to 7 bytes. */
static void diti_decimal_point(char point[8]) {
    char text[16];
    size_t length;
    snprintf(text, sizeof text, "%.1f", 0.0);
    length = strlen(text) - 2;
    if (length > 7) length = 7;
    memcpy(point, text + 1, length);
    point[length] = 0;
}

DIT_INTERNAL double diti_parse_double(const char *text) {
    char point[8], copy[272];
    const char *dot = strchr(text, '.');
    if (!dot) return strtod(text, NULL);
    diti_decimal_point(point);
    if (!diti_format(copy, sizeof copy, "%.*s%s%s", (int)(dot - text), text, point, dot + 1)) return (double)NAN;
    return strtod(copy, NULL);
}

DIT_INTERNAL bool diti_print_double(double value, int digits, char *out, size_t size) {
    char point[8];
    char *found;
    if (!diti_format(out, size, "%.*g", digits, value)) return false;
    diti_decimal_point(point);
    found = strstr(out, point);
    if (!found) return true;
    *found = '.';
    memmove(found + 1, found + strlen(point), strlen(found + strlen(point)) + 1);
    return true;
}

DIT_INTERNAL uint64_t diti_hash(const void *data, size_t size) {
    const unsigned char *bytes = (const unsigned char *)data;
    uint64_t hash = 0xcbf29ce484222325u;
    size_t i;
    for (i = 0; i < size; i++) hash = (hash ^ bytes[i]) * 0x100000001b3u;
    return hash;
}

DIT_INTERNAL size_t diti_utf8_length(const char *text, size_t size) {
    const unsigned char *bytes = (const unsigned char *)text;
    unsigned char lead = size ? bytes[0] : 0xff, low = 0x80, high = 0xbf;
    size_t length, i;
    if (lead < 0x80) return 1;
    if (lead < 0xc2 || lead > 0xf4) return 0;
    length = lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
    if (length > size) return 0;
    if (lead == 0xe0) low = 0xa0;
    if (lead == 0xed) high = 0x9f;
    if (lead == 0xf0) low = 0x90;
    if (lead == 0xf4) high = 0x8f;
    if (bytes[1] < low || bytes[1] > high) return 0;
    for (i = 2; i < length; i++) {
        if ((bytes[i] & 0xc0) != 0x80) return 0;
    }
    return length;
}

DIT_INTERNAL void diti_show_text(char *text) {
    size_t size = strlen(text), length;
    for (; size; text += length, size -= length) {
        length = diti_utf8_length(text, size);
        if (length && (unsigned char)*text >= 0x20 && *text != 0x7f) continue;
        *text = '?';
        length = 1;
    }
}
