/* Many requests with one loaded model: --batch reads a request a line, a prompt or an object of JSON whose members are
   options by their long names, as {"prompt": "a fox", "seed": 7, "init_img": "fox.png"}. Members in JSON need jansson
   (-DDIT_JSON). txt2img.c includes it behind what makes pictures. Not part of dit.h. */
#ifndef BATCH_H
#define BATCH_H
#ifdef DIT_JSON
#include <jansson.h>
#endif

enum { LINE_SIZE = 1 << 20 };

/* A copy of text that lives as long as the program: what a loaded model may still point to. */
static const char *kept_text(const char *text) {
    static struct kept {
        struct kept *next;
        char text[1];
    } * all;
    struct kept *k;
    for (k = all; k; k = k->next)
        if (strcmp(k->text, text) == 0) return k->text;
    k = (struct kept *)malloc(sizeof *k + strlen(text));
    if (!k) return NULL;
    memcpy(k->text, text, strlen(text) + 1);
    k->next = all;
    all = k;
    return k->text;
}

/* Options that are about the run, not about a picture, are no part of a request. */
static bool is_request_option(const option_entry *entry) {
    static const char *const others[] = {
        "--batch",       "--grid",  "--repeat-from", "--json",    "--serve",   "--completion",   "--man",
        "--doctor",      "--help",  "--help-all",    "--version", "--info",    "--list-devices", "--info-level",
        "--list-models", "--trace", "--verbose",     "--quiet",   "--preview", "--encode-prompt"};
    size_t i;
    for (i = 0; i < sizeof others / sizeof others[0]; i++)
        if (strcmp(others[i], entry->name) == 0) return false;
    return true;
}

/* Sets an option of a request by its long name without dashes, "cfg_scale" or "cfg-scale". value NULL: a flag's yes. */
static int set_option(options *o, const char *where, const char *name, const char *value) {
    char dashed[40];
    const char *advice;
    const option_entry *entry = NULL;
    if (snprintf(dashed, sizeof dashed, "--%s", name) < (int)sizeof dashed) entry = find_option(dashed);
    if (!entry || !is_request_option(entry)) {
        advice = entry ? NULL : foreign_advice(dashed);
        return complain(EXIT_USAGE, "%s'%s' is no option of a picture%s%s", where, name,
                        advice ? ": " : "; --help-all lists them", advice ? advice : "");
    }
    if (!entry->value) {
        if (value && !same_word(value, "true") && !same_word(value, "false") && !same_word(value, "on") &&
            !same_word(value, "off"))
            return complain(EXIT_USAGE, "%s%s is on or off, not '%s'", where, entry->name, value);
        *option_flag(o, entry) = !value || same_word(value, "true") || same_word(value, "on");
        return EXIT_GOOD;
    }
    if (!value) return complain(EXIT_USAGE, "%s%s needs a value", where, entry->name);
    value = kept_text(value);
    if (!value) return complain(EXIT_MEMORY, "out of memory");
    *option_text(o, entry) = value;
    if (option_text(o, entry) == &o->lora) o->lora_count = 0; /* in place of those of the command line */
    return EXIT_GOOD;
}

#ifdef DIT_JSON
/* JSON in which whole numbers may have 64 bits, as seeds do: jansson holds 63, so that longer ones become texts. */
static json_t *read_json(const char *text, size_t size, size_t flags, json_error_t *wrong) {
    json_t *value = json_loadb(text, size, flags, wrong);
    parameter_text quoted = {0};
    size_t i, length;
    bool in_text = false;
    if (value || json_error_code(wrong) != json_error_numeric_overflow) return value;
    for (i = 0; i < size; i += length) {
        bool whole = !in_text;
        for (length = 0; !in_text && i + length < size && strchr("+-.eE0123456789", text[i + length]); length++)
            whole = whole && strchr("-0123456789", text[i + length]);
        whole = whole && length > 18;
        if (!length) {
            length = in_text && text[i] == '\\' && i + 1 < size ? 2 : 1;
            in_text ^= text[i] == '"';
        }
        if (whole) text_append(&quoted, "\"", 1);
        text_append(&quoted, text + i, length);
        if (whole) text_append(&quoted, "\"", 1);
    }
    value = json_loadb(quoted.at, quoted.length, flags, wrong);
    free(quoted.at);
    return value;
}

/* The texts of an array for an option that may be repeated. */
static int set_list(options *o, const char *where, const char *name, const json_t *list) {
    const char *between = same_word(name, "lora") ? ";" : same_word(name, "ref_image") ? "|" : NULL;
    parameter_text all = {0};
    const json_t *value;
    size_t i;
    int code = EXIT_GOOD;
    json_array_foreach(list, i, value) {
        const char *text = json_string_value(value);
        if (!text || !between) break;
        json_raw(&all, i ? between : "");
        json_raw(&all, text);
    }
    if (!i || i < json_array_size(list))
        code = complain(EXIT_USAGE,
                        "%s\"%s\" must be a text, a number, true or false; \"lora\" and \"ref_image\" may be "
                        "lists of texts",
                        where, name);
    else
        code = all.at ? set_option(o, where, name, all.at) : complain(EXIT_MEMORY, "out of memory");
    free(all.at);
    return code;
}

/* One member of a line: its value as the command line would have it. */
static int set_member(options *o, const char *where, const char *name, const json_t *value) {
    char digits[40];
    if (json_is_string(value)) return set_option(o, where, name, json_string_value(value));
    if (json_is_boolean(value)) return set_option(o, where, name, json_is_true(value) ? "true" : "false");
    if (json_is_integer(value)) {
        snprintf(digits, sizeof digits, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
        return set_option(o, where, name, digits);
    }
    if (json_is_real(value)) {
        snprintf(digits, sizeof digits, "%.9g", json_real_value(value));
        return set_option(o, where, name, digits);
    }
    return set_list(o, where, name, value);
}

/* A line of JSON, over the options of the command line. "id" goes into what is told about the line. */
static int read_json_line(const char *line, const char *where, options *o, parameter_text *entry) {
    json_error_t wrong;
    json_t *object = read_json(line, strlen(line), JSON_REJECT_DUPLICATES, &wrong), *value;
    const char *name;
    int code = EXIT_GOOD;
    if (!json_is_object(object)) {
        code =
            complain(EXIT_USAGE, "%sthis is no object of JSON: %s", where, object ? "it begins otherwise" : wrong.text);
        json_decref(object);
        return code;
    }
    json_object_foreach(object, name, value) {
        char *text;
        if (code) break;
        if (strcmp(name, "id") != 0) {
            code = set_member(o, where, name, value);
            continue;
        }
        text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
        json_raw(entry, ",\"id\":");
        json_raw(entry, text ? text : "null");
        free(text);
    }
    json_decref(object);
    return code;
}
#else
static int read_json_line(const char *line, const char *where, options *o, parameter_text *entry) {
    (void)line, (void)o, (void)entry;
    return complain(EXIT_USAGE, "%sthis program was built without jansson, and reads no JSON; write a prompt a line",
                    where);
}
#endif

/* A line without its end; NULL at the end of the file. *wrong: why it is no request; NULL: it may be one. */
static char *read_batch_line(FILE *from, char *line, const char **wrong) {
    size_t length = 0;
    int c = getc(from);
    *wrong = NULL;
    if (c == EOF) return NULL;
    for (; c != EOF && c != '\n'; c = getc(from)) {
        if (!c) *wrong = "it has a byte of zero, which ends a text";
        if (length + 1 == LINE_SIZE)
            *wrong = "it is longer than 1 MB";
        else
            line[length++] = (char)c;
    }
    while (length && line[length - 1] == '\r') length--;
    line[length] = 0;
    return line;
}

/* The prompt of a line that is one; NULL: it is empty, or options. */
static const char *line_prompt(const char *line) {
    const char first = line[strspn(line, " \t")];
    return first && first != '{' ? line : NULL;
}

/* Requests one after the other; the first failure is the exit code, and the others go on but where the device or a
   signal says otherwise. */
static int make_batch(app *a) {
    const options usual = a->o;
    const bool from_pipe = strcmp(usual.batch, "-") == 0;
    const char *why = from_pipe ? NULL : why_not_readable(usual.batch);
    FILE *from = from_pipe ? stdin : why ? NULL : fopen(usual.batch, "r");
    char *lines[2] = {(char *)malloc(LINE_SIZE), (char *)malloc(LINE_SIZE)}, *line = lines[0], *behind = NULL,
         where[64];
    int code = EXIT_GOOD, first = EXIT_GOOD;
    uint32_t shared = 0, own, number = 0, requests = 0;
    const char *wrong = NULL, *next_wrong = NULL;
    if (from_pipe) end_reading_by_signals();
    if (!from) code = complain(EXIT_INPUT, "--batch %s: %s", usual.batch, why ? why : told_reason(errno));
    if (!code && (!lines[0] || !lines[1])) code = complain(EXIT_MEMORY, "out of memory");
    if (!code && usual.output && to_stdout(&usual))
        code = complain(EXIT_USAGE, "--output -: standard output takes one picture or clip; leave out --batch");
    if (!code && usual.prompt)
        code = complain(EXIT_USAGE, "--prompt: the lines of --batch are the prompts; leave it out");
    first = tell_failure(a, code);
    if (!code) behind = read_batch_line(from, lines[0], &next_wrong);
    if (behind && strncmp(behind, "\xef\xbb\xbf", 3) == 0) /* editors on Windows begin files so */
        memmove(behind, behind + 3, strlen(behind + 3) + 1);
    for (; !code && !caught_signal && behind;
         behind = from_pipe ? read_batch_line(from, lines[0], &next_wrong) : behind) {
        parameter_text entry = {0};
        char count[24];
        line = behind;
        wrong = next_wrong;
        if (!from_pipe) behind = read_batch_line(from, lines[line == lines[0]], &next_wrong); /* a pipe may wait */
        a->next_prompt = behind && !from_pipe && !next_wrong ? line_prompt(behind) : NULL;
        number++;
        if (!wrong && !line[strspn(line, " \t")]) continue;
        requests++;
        snprintf(where, sizeof where, "--batch, line %u: ", number);
        snprintf(count, sizeof count, "\"line\":%u", number);
        json_raw(&entry, count);
        a->o = usual;
        a->o.output = NULL;
        if (wrong)
            code = complain(EXIT_USAGE, "%s%s", where, wrong);
        else if (line[strspn(line, " \t")] == '{')
            code = read_json_line(line, where, &a->o, &entry);
        else
            a->o.prompt = line;
        own = a->o.output != NULL;
        if (!own) a->o.output = usual.output;
        a->first_picture = own ? 0 : shared;
        a->entry = entry.at;
        a->line = number;
        complaint.where = where;
        code = code ? tell_failure(a, code) : make_request(a);
        complaint.where = NULL;
        if (!own && !code) shared = a->first_picture;
        a->entry = NULL;
        free(entry.at);
        if (code && !first) first = code;
        if (code != EXIT_DEVICE && code < 128) code = EXIT_GOOD;
    }
    a->o = usual;
    if (caught_signal && code < 128) { /* between two requests */
        code = tell_failure(a, dit_failed(a, DIT_CANCELLED, NULL));
        if (!first) first = code;
    }
    if (!first && !requests) first = complain(EXIT_USAGE, "--batch %s: it has no line", usual.batch);
    if (from && !from_pipe) fclose(from);
    free(lines[0]);
    free(lines[1]);
    a->next_prompt = NULL;
    a->line = 0;
    return first;
}
#endif
