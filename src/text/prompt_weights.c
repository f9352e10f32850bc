#include "text/tokenizer.h"

/* Prompts with weights, as A1111's web UI reads them. Its Python code is followed sign by sign: text becomes
   parts, a bracket that closes multiplies the weights of all parts since the one that opened, brackets left open close
   at the end, and neighbours of equal weight become one part. Its keyword BREAK is text here: a model of fixed length
   has no second window. */

#define DITI_PROMPT_ROUND 1.1
#define DITI_PROMPT_SQUARE (1.0 / 1.1)

typedef struct diti_bracket_stack {
    size_t parts[DITI_PROMPT_PARTS]; /* number of parts when the bracket opened */
    size_t count;
} diti_bracket_stack;
typedef struct diti_prompt_run {
    const diti_env *env;
    diti_prompt *prompt;
    diti_bracket_stack round, square;
    dit_error *err;
} diti_prompt_run;

static dit_result diti_prompt_many(const diti_prompt_run *run) {
    return diti_fail(run->err, DIT_ERROR_INVALID_ARGUMENT, "the prompt has more than %u brackets or weighted parts",
                     DITI_PROMPT_PARTS);
}

static dit_result diti_prompt_add(diti_prompt_run *run, const char *text, size_t length) {
    diti_prompt *prompt = run->prompt;
    diti_prompt_part part;
    void *parts = prompt->parts;
    if (prompt->count == DITI_PROMPT_PARTS) return diti_prompt_many(run);
    if (!diti_grow(run->env, &parts, &prompt->capacity, prompt->count, sizeof part))
        return diti_fail_memory(run->err, "the prompt");
    part.first = prompt->size;
    part.length = length;
    part.weight = 1.0;
    prompt->parts = (diti_prompt_part *)parts;
    prompt->parts[prompt->count++] = part;
    if (length) memcpy(prompt->text + prompt->size, text, length);
    prompt->size += length;
    return DIT_OK;
}

static dit_result diti_prompt_open(diti_prompt_run *run, diti_bracket_stack *stack) {
    if (stack->count == DITI_PROMPT_PARTS) return diti_prompt_many(run);
    stack->parts[stack->count++] = run->prompt->count;
    return DIT_OK;
}

static void diti_prompt_multiply(diti_prompt *prompt, size_t first, double weight) {
    for (; first < prompt->count; first++) prompt->parts[first].weight *= weight;
}

/* Bytes of ": 1.3 )" at text with the number in *weight; 0: it is something else. */
static size_t diti_prompt_weight(const char *text, size_t length, double *weight) {
    size_t at = 1, digits = 0, points = 0, used = 0;
    char number[64];
    while (at < length && strchr(" \t\n\r\f\v", text[at]) && text[at]) at++;
    if (at < length && (text[at] == '-' || text[at] == '+')) {
        if (text[at++] == '-') number[used++] = '-';
    }
    if (at < length && text[at] == '.') number[used++] = '0';
    for (; at < length && (text[at] == '.' || (text[at] >= '0' && text[at] <= '9')); at++) {
        if (used + 1 == sizeof number) return 0;
        number[used++] = text[at];
        if (text[at] == '.')
            points++;
        else
            digits++;
    }
    number[used] = 0;
    while (at < length && strchr(" \t\n\r\f\v", text[at]) && text[at]) at++;
    if (at == length || text[at] != ')' || digits == 0 || points > 1) return 0;
    *weight = diti_parse_double(number);
    return at + 1;
}

/* One sign, or a run of plain text; *used: its bytes. */
static dit_result diti_prompt_sign(diti_prompt_run *run, const char *text, size_t length, size_t *used) {
    static const char signs[] = "\\()[]:";
    double weight = 1.0;
    bool round = run->round.count > 0, square = run->square.count > 0;
    *used = 1;
    if (*text == '\\') { /* a bracket or backslash behind it is text, alone it is nothing */
        *used = length > 1 && text[1] && strchr("()[]\\", text[1]) ? 2 : 1;
        return diti_prompt_add(run, text + 1, *used - 1);
    }
    if (*text == '(') return diti_prompt_open(run, &run->round);
    if (*text == '[') return diti_prompt_open(run, &run->square);
    if (*text == ':') {
        size_t size = diti_prompt_weight(text, length, &weight);
        if (size) *used = size;
        if (!size || !round) return diti_prompt_add(run, text, *used);
        diti_prompt_multiply(run->prompt, run->round.parts[--run->round.count], weight);
    } else if (*text == ')' && round) {
        diti_prompt_multiply(run->prompt, run->round.parts[--run->round.count], DITI_PROMPT_ROUND);
    } else if (*text == ']' && square) {
        diti_prompt_multiply(run->prompt, run->square.parts[--run->square.count], DITI_PROMPT_SQUARE);
    } else {
        while (*text && !strchr(signs, *text) && *used < length && text[*used] && !strchr(signs, text[*used]))
            *used += 1;
        return diti_prompt_add(run, text, *used);
    }
    return DIT_OK;
}

static void diti_prompt_merge(diti_prompt *prompt) {
    size_t i, kept = 0;
    for (i = 1; i < prompt->count; i++) {
        if (prompt->parts[i].weight == prompt->parts[kept].weight)
            prompt->parts[kept].length += prompt->parts[i].length;
        else
            prompt->parts[++kept] = prompt->parts[i];
    }
    if (prompt->count) prompt->count = kept + 1;
}

static dit_result diti_prompt_read(diti_prompt_run *run, const char *text, size_t length) {
    size_t position = 0, used = 0, i;
    dit_result result = DIT_OK;
    for (; position < length && result >= 0; position += used)
        result = diti_prompt_sign(run, text + position, length - position, &used);
    DITI_TRY(result);
    for (i = 0; i < run->round.count; i++) diti_prompt_multiply(run->prompt, run->round.parts[i], DITI_PROMPT_ROUND);
    for (i = 0; i < run->square.count; i++) diti_prompt_multiply(run->prompt, run->square.parts[i], DITI_PROMPT_SQUARE);
    diti_prompt_merge(run->prompt);
    return DIT_OK;
}

DIT_INTERNAL dit_result diti_prompt_parse(const diti_env *env, const char *text, size_t length, diti_prompt *out,
                                          dit_error *err) {
    diti_prompt_run *run = (diti_prompt_run *)diti_alloc_zero(env, sizeof *run);
    dit_result result;
    memset(out, 0, sizeof *out);
    out->text = (char *)diti_alloc(env, length + 1);
    if (!run || !out->text) {
        result = diti_fail_memory(err, "the prompt");
    } else {
        run->env = env;
        run->prompt = out;
        run->err = err;
        result = diti_prompt_read(run, text, length);
    }
    diti_free(env, run);
    if (result < 0) diti_prompt_free(env, out);
    return result;
}

/* --- what A1111 makes more of than weights --- */

static bool diti_prompt_is_word(char c) {
    return c == '_' || (uint8_t)c >= 0x80 || (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z');
}

/* Whether ": 0.5 " stands before text[end]. */
static bool diti_prompt_is_timed(const char *text, size_t end) {
    size_t digits = 0;
    while (end && strchr(" \t\n", text[end - 1])) end--;
    while (end && strchr("0123456789.", text[end - 1])) end--, digits++;
    while (end && strchr(" \t\n", text[end - 1])) end--;
    return digits && end && text[end - 1] == ':';
}

DIT_INTERNAL const char *diti_prompt_unread(const char *text) {
    size_t i, depth = 0;
    bool bars = false;
    for (i = 0; text[i]; i++) {
        bool begins = i == 0 || !diti_prompt_is_word(text[i - 1]);
        if (begins && strncmp(text + i, "BREAK", 5) == 0 && !diti_prompt_is_word(text[i + 5])) return "BREAK";
        if (text[i] == '\\' && text[i + 1]) {
            i++;
        } else if (text[i] == '[') {
            depth++;
            bars = false;
        } else if (text[i] == '|') {
            bars = true;
        } else if (text[i] == ']' && depth) {
            depth--;
            if (bars) return "[a|b]";
            if (diti_prompt_is_timed(text, i)) return "[a:b:0.5]";
        }
    }
    return NULL;
}

DIT_INTERNAL void diti_prompt_free(const diti_env *env, diti_prompt *prompt) {
    diti_free(env, prompt->text);
    diti_free(env, prompt->parts);
    memset(prompt, 0, sizeof *prompt);
}
