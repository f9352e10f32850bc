#include "text/tokenizer.h"

/* BERT's WordPiece (docs/models.md 6.3). */

DIT_INTERNAL dit_result diti_wordpiece_finish(diti_tokenizer *tokenizer, dit_error *err) {
    int32_t mask;
    dit_error absent = DITI_ZERO;
    dit_result result;
    DITI_TRY(diti_tokenizer_special(tokenizer, "[CLS]", &tokenizer->begin, err));
    DITI_TRY(diti_tokenizer_special(tokenizer, "[SEP]", &tokenizer->end, err));
    DITI_TRY(diti_tokenizer_special(tokenizer, "[PAD]", &tokenizer->padding, err));
    DITI_TRY(diti_tokenizer_special(tokenizer, "[UNK]", &tokenizer->unknown, err));
    result = diti_tokenizer_special(tokenizer, "[MASK]", &mask, &absent); /* not needed */
    if (result != DIT_ERROR_OUT_OF_HOST_MEMORY) return DIT_OK;
    return diti_fail(err, result, "%s", absent.message);
}

/* --- words --- */
/* Unicode's punctuation, and all ASCII that is neither letter nor digit. */
static bool diti_wordpiece_is_punctuation(const diti_codes *codes, size_t at) {
    uint8_t kind = codes->kinds[at];
    return kind == DITI_UNICODE_PUNCTUATION || (kind == DITI_UNICODE_OTHER && codes->at[at] < 0x80);
}

/* The longest piece at text, behind "##" where it goes on with a word; 0: none. */
static size_t diti_wordpiece_longest(const diti_tokenizer *tokenizer, const char *text, size_t length, bool goes_on,
                                     int32_t *id) {
    diti_piece_range range = diti_piece_range_all(&tokenizer->words);
    size_t i, found = 0;
    if (goes_on && (!diti_piece_range_narrow(&tokenizer->words, &range, '#') ||
                    !diti_piece_range_narrow(&tokenizer->words, &range, '#')))
        return 0;
    for (i = 0; i < length && diti_piece_range_narrow(&tokenizer->words, &range, text[i]); i++) {
        const diti_piece *piece = diti_piece_range_exact(&tokenizer->words, &range);
        if (!piece) continue;
        found = i + 1;
        *id = piece->id;
    }
    return found;
}

/* text: a space, then the word of length bytes. */
static void diti_wordpiece_word(const diti_tokenizer *tokenizer, const char *text, size_t length, size_t characters,
                                diti_token_sink *sink) {
    int32_t ids[DITI_WORD_LIMIT];
    size_t ends[DITI_WORD_LIMIT], at = 0, count = 0, i;
    bool known = characters <= DITI_WORD_LIMIT;
    while (known && at < length) {
        size_t size = diti_wordpiece_longest(tokenizer, text + 1 + at, length - at, at > 0, &ids[count]);
        known = size > 0;
        at += size;
        if (known) ends[count++] = at; /* a piece is at least one character: vocabularies are UTF-8 */
        if (count == DITI_WORD_LIMIT && at < length) known = false;
    }
    if (!known) diti_token_emit(sink, tokenizer->unknown, text, length + 1);
    for (i = 0; known && i < count; i++) {
        size_t from = i ? ends[i - 1] + 1 : 0;
        diti_token_emit(sink, ids[i], text + from, ends[i] + 1 - from);
    }
}

static void diti_wordpiece_words(const diti_tokenizer *tokenizer, const diti_codes *codes, char *text,
                                 diti_token_sink *sink) {
    size_t first, end, length, i;
    text[0] = ' ';
    for (first = 0; first < codes->count; first = end) {
        bool single = diti_wordpiece_is_punctuation(codes, first);
        end = first + 1;
        if (codes->kinds[first] == DITI_UNICODE_SPACE) continue;
        while (!single && end < codes->count && codes->kinds[end] != DITI_UNICODE_SPACE &&
               !diti_wordpiece_is_punctuation(codes, end))
            end++;
        for (length = 0, i = first; i < end; i++) length += diti_utf8_encode(codes->at[i], text + 1 + length);
        diti_wordpiece_word(tokenizer, text, length, end - first, sink);
    }
}

DIT_INTERNAL dit_result diti_wordpiece_encode(const diti_tokenizer *tokenizer, const char *text, size_t length,
                                              diti_token_sink *sink, dit_error *err) {
    diti_codes codes;
    char *word;
    dit_result result = DIT_OK;
    if (length == 0) return DIT_OK;
    DITI_TRY(diti_clean(&tokenizer->env, text, length, tokenizer->rules, &codes, err));
    word = (char *)diti_alloc(&tokenizer->env, codes.count * 4 + 2);
    if (word)
        diti_wordpiece_words(tokenizer, &codes, word, sink);
    else
        result = diti_fail_memory(err, "a prompt of %lu bytes", (unsigned long)length);
    diti_free(&tokenizer->env, word);
    diti_codes_free(&codes);
    return result;
}
