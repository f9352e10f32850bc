/* The options that made a picture are written as text into its PNG, and read back from it (--repeat-from). The text is
   laid out as AUTOMATIC1111's web UI writes and reads it: the prompt, "Negative prompt: ...", then one line of "Key:
   value, Key: value". Options whose key is in option_table are in it, all of them: files by their names alone, with a
   sum of their bytes where they are small, so that no picture tells where its maker keeps things. Not part of dit.h. */
#ifndef PARAMETERS_H
#define PARAMETERS_H
#include "dit.h"
#include "files.h"
#include "options.h"

/* ---- Text that grows ---- */

typedef struct parameter_text {
    char *at; /* freed with free; NULL when memory ran out */
    size_t length, room;
} parameter_text;

static void text_append(parameter_text *out, const char *bytes, size_t count) {
    char *more;
    if (out->length + count + 1 > out->room) {
        out->room = 2 * (out->length + count) + 256;
        more = realloc(out->at, out->room);
        if (!more) free(out->at);
        out->at = more;
        if (!more) out->length = out->room = 0;
    }
    if (!out->at) return;
    memcpy(out->at + out->length, bytes, count);
    out->at[out->length += count] = 0;
}

/* ---- Writing ---- */

/* A value with a separator in it stands in quotes, as Python's json.dumps writes it. */
static void append_value(parameter_text *out, const char *value) {
    size_t length = strlen(value), i;
    char escape[8];
    bool plain = length && value[0] != ' ' && value[length - 1] != ' ' && value[0] != '"';
    for (i = 0; i < length; i++) plain = plain && (unsigned char)value[i] >= 0x20 && !strchr(",:\\", value[i]);
    if (plain) {
        text_append(out, value, length);
        return;
    }
    text_append(out, "\"", 1);
    for (i = 0; i < length; i++) {
        const char *letters = "\"\\\n\r\t\b\f", *named = "\"\\nrtbf", *found = strchr(letters, value[i]);
        if (found)
            snprintf(escape, sizeof escape, "\\%c", named[found - letters]);
        else if ((unsigned char)value[i] < 0x20)
            snprintf(escape, sizeof escape, "\\u%04x", (unsigned)value[i]);
        else
            snprintf(escape, sizeof escape, "%c", value[i]);
        text_append(out, escape, strlen(escape));
    }
    text_append(out, "\"", 1);
}

static void append_pair(parameter_text *out, const char *key, const char *value) {
    text_append(out, key, strlen(key));
    text_append(out, ": ", 2);
    append_value(out, value);
    text_append(out, ", ", 2);
}

static const char negative_mark[] = "Negative prompt:";

/* How many lines prompt has, when one of them looks as if the negative prompt began there; else 0. */
static unsigned misleading_lines(const char *prompt) {
    unsigned lines = 1;
    bool misleads = strncmp(prompt, negative_mark, sizeof negative_mark - 1) == 0;
    while ((prompt = strchr(prompt, '\n')) != NULL) {
        lines++;
        prompt++;
        misleads = misleads || strncmp(prompt, negative_mark, sizeof negative_mark - 1) == 0;
    }
    return misleads ? lines : 0;
}

/* The text of a picture that these options made, all that the model decided by itself filled in; freed with free, NULL
   without memory. */
static char *write_parameters(const options *o) {
    parameter_text out = {0};
    const char *prompt = o->prompt ? o->prompt : "";
    char value[64];
    size_t i, head;
    text_append(&out, prompt, strlen(prompt));
    text_append(&out, "\n", 1);
    if (o->negative_prompt && *o->negative_prompt) {
        text_append(&out, negative_mark, sizeof negative_mark - 1);
        text_append(&out, " ", 1);
        text_append(&out, o->negative_prompt, strlen(o->negative_prompt));
        text_append(&out, "\n", 1);
    }
    head = out.length;
    for (i = 0; i < OPTION_COUNT; i++) {
        const option_entry *entry = &option_table[i];
        if (!is_told(entry)) continue;
        if (is_size(entry)) {
            const char *const *width = option_text((options *)o, entry), *const *height =
                                                                             option_text((options *)o, entry + 1);
            if (!*width || !*height) continue;
            snprintf(value, sizeof value, "%.15sx%.15s", *width, *height);
            append_pair(&out, entry->key, value);
        } else if (!entry->value) {
            if (*option_flag((options *)o, entry)) append_pair(&out, entry->key, "True");
        } else if (*option_text((options *)o, entry)) {
            append_pair(&out, entry->key, *option_text((options *)o, entry));
        }
    }
    if (misleading_lines(prompt)) {
        snprintf(value, sizeof value, "%u", misleading_lines(prompt));
        append_pair(&out, "Prompt lines", value);
    }
    for (i = 0; i < FACT_COUNT; i++)
        if (*fact_text((options *)o, &fact_table[i]))
            append_pair(&out, fact_table[i].key, *fact_text((options *)o, &fact_table[i]));
    if (out.length > head) out.at[out.length -= 2] = 0; /* the last separator */
    return out.at;
}

/* ---- Reading ---- */

static int hex_digit(char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* The code of "uXXXX" at p, or -1. */
static long hex_code(const char *p) {
    long code = 0;
    int i;
    if (*p++ != 'u') return -1;
    for (i = 0; i < 4; i++) {
        if (hex_digit(p[i]) < 0) return -1;
        code = 16 * code + hex_digit(p[i]);
    }
    return code;
}

static char *store_utf8(char *to, long code) {
    if (code < 0x80) {
        *to++ = (char)code;
    } else if (code < 0x800) {
        *to++ = (char)(0xc0 | code >> 6);
        *to++ = (char)(0x80 | (code & 0x3f));
    } else {
        *to++ = (char)(code < 0x10000 ? 0xe0 | code >> 12 : 0xf0 | code >> 18);
        if (code >= 0x10000) *to++ = (char)(0x80 | (code >> 12 & 0x3f));
        *to++ = (char)(0x80 | (code >> 6 & 0x3f));
        *to++ = (char)(0x80 | (code & 0x3f));
    }
    return to;
}

/* Where the quoted value at p ends, behind its quotes; NULL when it does not. */
static char *quoted_end(char *p) {
    for (p++; *p && *p != '"'; p++)
        if (*p == '\\' && p[1]) p++;
    return *p ? p + 1 : NULL;
}

/* The quoted value at p, which ends, made plain in its place. */
static void unquote(char *p) {
    static const char letters[] = "\"\\/nrtbf", plain[] = "\"\\/\n\r\t\b\f";
    char *to = p++;
    const char *found;
    long code, low;
    while (*p != '"') {
        found = *p == '\\' ? strchr(letters, p[1]) : NULL;
        code = *p == '\\' ? hex_code(p + 1) : -1;
        if (found) {
            *to++ = plain[found - letters];
            p += 2;
        } else if (code > 0) {
            p += 6;
            low = *p == '\\' && code >= 0xd800 && code < 0xdc00 ? hex_code(p + 1) : -1;
            if (low >= 0xdc00 && low < 0xe000) code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00), p += 6;
            to = store_utf8(to, code);
        } else {
            *to++ = *p++;
        }
    }
    *to = 0;
}

/* Where a value ends that is not quoted, cut off behind its last letter. */
static char *cut_value(char *p) {
    char *end = p + strcspn(p, ","), *next = end + (*end != 0);
    while (end > p && end[-1] == ' ') end--;
    *end = 0;
    return next;
}

static void take_pair(const char *key, char *value, options *out, parameter_text *unknown) {
    char *cross = strchr(value, 'x');
    size_t i;
    for (i = 0; i < FACT_COUNT; i++) {
        if (strcmp(fact_table[i].key, key) != 0) continue;
        *fact_text(out, &fact_table[i]) = value;
        return;
    }
    for (i = 0; i < OPTION_COUNT; i++) {
        const option_entry *entry = &option_table[i];
        if (!is_told(entry) || strcmp(entry->key, key) != 0 || (is_size(entry) && !cross)) continue;
        if (is_size(entry)) {
            *cross = 0;
            *option_text(out, entry + 1) = cross + 1;
        }
        if (entry->value)
            *option_text(out, entry) = value;
        else
            *option_flag(out, entry) = strcmp(value, "True") == 0;
        return;
    }
    if (unknown->length) text_append(unknown, ", ", 2);
    text_append(unknown, key, strlen(key));
}

/* The line of pairs; false when it is none. lines: of the prompt, where they are told. */
static bool read_pairs(char *p, options *out, unsigned long *lines, parameter_text *unknown) {
    unsigned pairs = 0;
    char *key, *value, *end;
    while (*p) {
        while (*p == ' ' || *p == ',') p++;
        if (!*p) break;
        key = p;
        p = strchr(p, ':');
        if (!p) return false;
        *p++ = 0;
        while (*p == ' ') p++;
        value = p;
        end = *p == '"' ? quoted_end(p) : NULL;
        if (end && (*end == ',' || !*end)) {
            p = end + (*end != 0);
            unquote(value);
        } else {
            p = cut_value(p);
        }
        pairs++;
        if (strcmp(key, "Prompt lines") == 0)
            *lines = strtoul(value, NULL, 10);
        else
            take_pair(key, value, out, unknown);
    }
    return pairs >= 3; /* as A1111 decides whether a last line is one of pairs */
}

/* Takes the options of a picture out of its text, which is changed and which they point into. unknown: the keys that
   dit does not know. false: it is no such text. */
static bool read_parameters(char *text, options *out, parameter_text *unknown) {
    size_t length = strlen(text), mark = sizeof negative_mark - 1;
    unsigned long lines = 0, line = 1;
    char *last, *p = text;
    memset(out, 0, sizeof *out);
    while (length && strchr("\n\r ", text[length - 1])) text[--length] = 0;
    last = strrchr(text, '\n');
    if (!read_pairs(last ? last + 1 : text, out, &lines, unknown)) return false;
    if (!last) return true;
    *last = 0;
    if (!out->class_name || *text) out->prompt = text;
    while (strncmp(p, negative_mark, mark) != 0 || line <= lines) {
        p = strchr(p, '\n');
        if (!p) return true;
        p++;
        line++;
    }
    out->negative_prompt = p + mark + (p[mark] == ' ');
    if (p > text)
        p[-1] = 0;
    else
        out->prompt = "";
    return true;
}

/* ---- The text chunk of a PNG ---- */

static uint32_t load_be32(const unsigned char *p) {
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* A copy of the text that a PNG has for key, freed with free; NULL, and in *wrong why. */
static char *find_png_text(const unsigned char *file, size_t size, const char *key, const char **wrong) {
    static const unsigned char signature[] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
    size_t at = sizeof signature, keyed = strlen(key) + 1, length, skip, i;
    parameter_text text = {0};
    *wrong = "this is no PNG";
    if (size < sizeof signature || memcmp(file, signature, sizeof signature) != 0) return NULL;
    *wrong = "no text with parameters is in it";
    for (; size - at >= 12; at += 12 + length) {
        const unsigned char *data = file + at + 8;
        bool wide = memcmp(file + at + 4, "iTXt", 4) == 0;
        length = load_be32(file + at);
        if (length > size - at - 12) break;
        if ((!wide && memcmp(file + at + 4, "tEXt", 4) != 0) || length < keyed || memcmp(data, key, keyed) != 0)
            continue;
        skip = keyed;
        if (wide) { /* compression flag and method, language, translated key */
            *wrong = "its parameters are compressed";
            if (length < keyed + 2 || data[skip]) continue;
            for (skip += 2, i = 0; i < 2; i++) {
                while (skip < length && data[skip]) skip++;
                skip++;
            }
            if (skip > length) continue;
        }
        *wrong = "out of memory";
        for (i = skip; i < length; i++) {
            char latin[3] = {(char)data[i], 0, 0};
            if (!wide && data[i] >= 0x80) store_utf8(latin, data[i]); /* tEXt is Latin-1 */
            text_append(&text, latin, latin[1] ? 2 : 1);
        }
        if (length == skip) text_append(&text, "", 0);
        return text.at;
    }
    return NULL;
}
#endif
