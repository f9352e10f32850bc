/* Text that other programs read: JSON is written, base64 is written and read. Include it after parameters.h. Not part
   of dit.h. */
#ifndef WIRE_H
#define WIRE_H
#include "parameters.h"
#include <math.h>

/* ---- JSON (RFC 8259) ---- */

static void json_raw(parameter_text *out, const char *text) { text_append(out, text, strlen(text)); }

/* A string in quotes. Bytes that are no UTF-8 become U+FFFD, because JSON holds nothing else. */
static void json_quote(parameter_text *out, const char *text) {
    char escape[8];
    json_raw(out, "\"");
    while (*text) {
        const unsigned char c = (unsigned char)*text;
        const size_t plain = strcspn(text, "\"\\\x01\x02\x03\x04\x05\x06\x07\x08\t\n\x0b\x0c\r\x0e\x0f\x10\x11\x12\x13"
                                           "\x14\x15\x16\x17\x18\x19\x1a\x1b\x1c\x1d\x1e\x1f\x7f");
        char copy[5] = "";
        size_t bytes = c < 0x80 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
        if (plain == 0) {
            snprintf(escape, sizeof escape, c == '"' || c == '\\' ? "\\%c" : "\\u%04x", c);
            json_raw(out, escape);
            text++;
            continue;
        }
        snprintf(copy, sizeof copy, "%.*s", (int)bytes, text);
        if (strlen(copy) != bytes || broken_utf8(copy) >= 0) snprintf(copy, sizeof copy, "\xef\xbf\xbd"), bytes = 1;
        json_raw(out, copy);
        text += bytes;
    }
    json_raw(out, "\"");
}

/* Members of an object: `{` or `,` in front of the key, so that json_begin, members and json_end make a whole. */
static void json_key(parameter_text *out, const char *key) {
    json_raw(out, out->length && out->at[out->length - 1] != '{' ? "," : "");
    json_quote(out, key);
    json_raw(out, ":");
}

static void json_text(parameter_text *out, const char *key, const char *value) {
    json_key(out, key);
    json_quote(out, value);
}

/* JSON has no infinities, and 17 digits would be noise. */
static void json_number(parameter_text *out, const char *key, double value) {
    char digits[40];
    snprintf(digits, sizeof digits, "%.*g", value == floor(value) ? 20 : 6, isfinite(value) ? value : 0);
    json_key(out, key);
    json_raw(out, digits);
}

static void json_count(parameter_text *out, const char *key, uint64_t value) {
    char digits[24];
    snprintf(digits, sizeof digits, "%llu", (unsigned long long)value);
    json_key(out, key);
    json_raw(out, digits);
}

static void json_flag(parameter_text *out, const char *key, bool value) {
    json_key(out, key);
    json_raw(out, value ? "true" : "false");
}

/* ---- base64 (RFC 4648, 4) ---- */

static const char base64_letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

static size_t base64_length(size_t size) { return (size + 2) / 3 * 4; }

/* out: base64_length(size) letters, and no NUL. */
static void base64_write(const unsigned char *data, size_t size, char *out) {
    size_t i;
    for (i = 0; i < size; i += 3) {
        const uint32_t bits = (uint32_t)data[i] << 16 | (i + 1 < size ? (uint32_t)data[i + 1] << 8 : 0) |
                              (i + 2 < size ? data[i + 2] : 0);
        *out++ = base64_letters[bits >> 18];
        *out++ = base64_letters[bits >> 12 & 63];
        *out++ = i + 1 < size ? base64_letters[bits >> 6 & 63] : '=';
        *out++ = i + 2 < size ? base64_letters[bits & 63] : '=';
    }
}

static void base64_append(parameter_text *out, const unsigned char *data, size_t size) {
    char letters[1025];
    size_t i, part;
    for (i = 0; i < size; i += part) {
        part = size - i < 768 ? size - i : 768;
        base64_write(data + i, part, letters);
        text_append(out, letters, base64_length(part));
    }
}

/* The bytes, freed with free; NULL where the text is no base64, or without memory. Spaces are left out. */
static unsigned char *base64_read(const char *text, size_t length, size_t *size) {
    unsigned char *data = (unsigned char *)malloc(length / 4 * 3 + 3), *to = data;
    uint32_t bits = 0;
    unsigned held = 0, ends = 0;
    size_t i;
    for (i = 0; data && i < length; i++) {
        const char *letter = text[i] ? strchr(base64_letters, text[i]) : NULL;
        if (strchr(" \r\n\t", text[i]) && text[i]) continue;
        if (text[i] == '=' && held > 1 && ends < 2) {
            ends++;
            continue;
        }
        if (!letter || ends) break;
        bits = bits << 6 | (uint32_t)(letter - base64_letters);
        if (++held < 4) continue;
        *to++ = (unsigned char)(bits >> 16);
        *to++ = (unsigned char)(bits >> 8);
        *to++ = (unsigned char)bits;
        held = 0;
    }
    if (!data || i < length || held == 1 || (ends && held + ends != 4)) return free(data), NULL;
    if (held >= 2) *to++ = (unsigned char)(bits >> (held == 2 ? 4 : 10));
    if (held == 3) *to++ = (unsigned char)(bits >> 2);
    *size = (size_t)(to - data);
    return data;
}
#endif
