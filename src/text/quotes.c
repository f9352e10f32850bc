#include "text/tokenizer.h"

/* Quoted text, which some models want to have spelled. LongCat-Image's pipeline cuts a prompt by expressions, and these
   are followed sign by sign; where it confuses words, which two different ones with an apostrophe make it do, each word
   stays as it is here. */

static const char *const diti_quote_marks[][2] = {
    {"'", "'"}, {"\"", "\""}, {"\xe2\x80\x98", "\xe2\x80\x99"}, {"\xe2\x80\x9c", "\xe2\x80\x9d"}};

static bool diti_quote_letter(const char *text, size_t length, size_t at) {
    char c = at < length ? (char)(text[at] | 32) : 0;
    return c >= 'a' && c <= 'z';
}

static bool diti_quote_at(const char *text, size_t length, size_t at, const char *mark) {
    return length - at >= strlen(mark) && memcmp(text + at, mark, strlen(mark)) == 0;
}

/* An apostrophe with letters at both sides, from left to right: "it's". The letters of such a word are none of another
   one, so that the second one of "rock'n'roll" is a mark. */
static void diti_quotes_skip_words(const char *text, size_t length, bool *word) {
    size_t i, end = 0;
    for (i = 1; i < length; i++) {
        if (text[i] != '\'' || i <= end || !diti_quote_letter(text, length, i - 1) ||
            !diti_quote_letter(text, length, i + 1))
            continue;
        word[i] = true;
        for (end = i + 1; diti_quote_letter(text, length, end);) end++;
    }
}

/* Where the quotation that begins at `at` ends; 0: none begins there. */
static size_t diti_quote_end(const char *text, size_t length, const bool *word, size_t at) {
    size_t i, k;
    for (k = 0; k < DITI_COUNT(diti_quote_marks); k++) {
        const char *open = diti_quote_marks[k][0], *close = diti_quote_marks[k][1];
        if (word[at] || !diti_quote_at(text, length, at, open)) continue;
        for (i = at + strlen(open); i < length; i++) {
            if (word[i]) continue;
            if (diti_quote_at(text, length, i, close)) return i + strlen(close);
            if (diti_quote_at(text, length, i, open)) return 0;
        }
    }
    return 0;
}

static void diti_quote_spell(const char *text, size_t first, size_t end, bool *begins) {
    for (; first < end; first++) begins[first] = ((uint8_t)text[first] & 0xc0u) != 0x80;
}

/* Text between quotations is one run. It is spelled, too, where it begins with an apostrophe and has another one in a
   word: the pipeline looks at it once more, with its words. */
DIT_INTERNAL void diti_quotes_find(const char *text, size_t length, bool *begins) {
    size_t at = 0, first = 0, end;
    memset(begins, 0, length * sizeof *begins);
    diti_quotes_skip_words(text, length, begins); /* until the run that a byte is in is written */
    while (first < length) {
        for (end = 0; at < length && !(end = diti_quote_end(text, length, begins, at));) at++;
        memset(begins + first, 0, (at - first) * sizeof *begins);
        if (at > first) begins[first] = true;
        if (at > first && text[first] == '\'' && memchr(text + first + 1, '\'', at - first - 1))
            diti_quote_spell(text, first, at, begins);
        if (end) diti_quote_spell(text, at, end, begins);
        first = at = end ? end : length;
    }
}
