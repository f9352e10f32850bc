#include "text/tokenizer.h"

/* ByT5 (docs/models.md 6.7): a token is a byte of UTF-8, behind three that stand for padding, the end and what is
   unknown. There is no vocabulary; tokenizer_config.json may name pieces of text that are tokens of their own. */

#define DITI_BYT5_FIRST 3

DIT_INTERNAL void diti_byt5_finish(diti_tokenizer *tokenizer) {
    tokenizer->padding = 0;
    tokenizer->end = 1;
    tokenizer->unknown = 2;
}

DIT_INTERNAL void diti_byt5_encode(const char *text, size_t length, diti_token_sink *sink) {
    size_t i;
    for (i = 0; i < length; i++) diti_token_emit(sink, DITI_BYT5_FIRST + (uint8_t)text[i], text + i, 1);
}

/* --- what HunyuanVideo 1.5 has of a prompt: the texts in quotes (docs/models.md 3.11.1) --- */

#define DITI_QUOTES 64u /* each has nine bytes or more, and the model reads 256 in all */
typedef struct diti_quote {
    const char *text;
    size_t length;
} diti_quote;

/* The next text between straight or curled quotes, within a line; *at moves behind it. */
static bool diti_quote_next(const char **at, diti_quote *out) {
    static const char marks[2][2][4] = {{"\"", "\""}, {"\xe2\x80\x9c", "\xe2\x80\x9d"}};
    for (; **at; ++*at) {
        uint32_t curled;
        for (curled = 0; curled < 2; curled++) {
            size_t opens = strlen(marks[curled][0]);
            const char *begin = *at + opens, *end;
            if (strncmp(*at, marks[curled][0], opens) != 0) continue;
            end = strstr(begin, marks[curled][1]);
            if (!end || memchr(begin, '\n', (size_t)(end - begin))) continue;
            out->text = begin;
            out->length = (size_t)(end - begin);
            *at = end + strlen(marks[curled][1]);
            return true;
        }
    }
    return false;
}

DIT_INTERNAL dit_result diti_byt5_quotes(const diti_env *env, const char *prompt, char **out, dit_error *err) {
    static const char before[] = "Text \"", after[] = "\". ";
    diti_quote quotes[DITI_QUOTES], quote;
    size_t size = 1, count = 0, i;
    char *to;
    *out = NULL;
    while (count < DITI_QUOTES && diti_quote_next(&prompt, &quote)) {
        for (i = 0; i < count; i++)
            if (quotes[i].length == quote.length && !memcmp(quotes[i].text, quote.text, quote.length)) break;
        if (i < count) continue;
        quotes[count++] = quote;
        size += sizeof before + quote.length + sizeof after;
    }
    if (!count) return DIT_OK;
    *out = to = (char *)diti_alloc(env, size);
    if (!to) return diti_fail_memory(err, "the prompt's quoted texts");
    for (i = 0; i < count; i++) {
        memcpy(to, before, sizeof before - 1);
        memcpy(to + sizeof before - 1, quotes[i].text, quotes[i].length);
        to += sizeof before - 1 + quotes[i].length;
        memcpy(to, after, sizeof after - 1);
        to += sizeof after - 1;
    }
    *to = 0;
    return DIT_OK;
}
