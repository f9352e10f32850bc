#include "text/tokenizer.h"

/* All kinds of tokenizers share this: the pieces of their vocabularies, and the ids that they make of a prompt. */

#define DITI_PIECE_LIMIT 1024u /* bytes of one piece; real ones have at most some fifty */
#define DITI_PIECE_COUNT_LIMIT (4u << 20)

DITI_ONCE_BEGIN

/* --- building --- */
DIT_INTERNAL void diti_tokenizer_free(diti_tokenizer *tokenizer) {
    diti_env env;
    if (!tokenizer) return;
    env = tokenizer->env;
    diti_normalizer_free(&env, &tokenizer->normalizer);
    diti_free(&env, tokenizer->merges.merges);
    diti_free(&env, tokenizer->merges.slots);
    diti_free(&env, tokenizer->words.pieces);
    diti_free(&env, tokenizer->specials.pieces);
    diti_free(&env, tokenizer->pool);
    diti_free(&env, tokenizer->name);
    diti_free(&env, tokenizer);
}

DIT_INTERNAL dit_result diti_tokenizer_create(const diti_env *env, diti_tokenizer_kind kind, const char *name,
                                              uint64_t piece_count, uint64_t piece_bytes, diti_tokenizer **out,
                                              dit_error *err) {
    diti_tokenizer *tokenizer;
    if (piece_count == 0) return diti_fail(err, DIT_ERROR_BAD_FILE, "%s: the vocabulary is empty", name);
    if (piece_count > DITI_PIECE_COUNT_LIMIT || piece_bytes > (uint64_t)DITI_PIECE_COUNT_LIMIT * 64) {
        return diti_fail(err, DIT_ERROR_BAD_FILE,
                         "%s: a vocabulary of %llu pieces in %llu bytes is too large (at most %u pieces)", name,
                         (unsigned long long)piece_count, (unsigned long long)piece_bytes, DITI_PIECE_COUNT_LIMIT);
    }
    tokenizer = (diti_tokenizer *)diti_alloc_zero(env, sizeof *tokenizer);
    if (!tokenizer) return diti_fail_memory(err, "the tokenizer of %s", name);
    tokenizer->env = *env;
    tokenizer->kind = kind;
    tokenizer->name = diti_copy_string(env, name);
    tokenizer->pool = (char *)diti_alloc(env, (size_t)piece_bytes + 1);
    tokenizer->pool_size = (size_t)piece_bytes;
    tokenizer->capacity = (uint32_t)piece_count;
    if (!tokenizer->name || !tokenizer->pool) {
        diti_tokenizer_free(tokenizer);
        return diti_fail_memory(err, "%llu pieces of %s", (unsigned long long)piece_count, name);
    }
    memset(tokenizer->byte_ids, -1, sizeof tokenizer->byte_ids);
    tokenizer->begin = tokenizer->unknown = tokenizer->end = tokenizer->padding = -1;
    tokenizer->min_score = INFINITY;
    tokenizer->max_score = -INFINITY;
    tokenizer->normalizer.add_prefix = tokenizer->normalizer.collapse_spaces = true;
    *out = tokenizer;
    return DIT_OK;
}

/* "<0x0A>" -> 10; -1 for anything else. */
DITI_REGION_END

static int diti_piece_byte_value(const char *text, size_t length) {
    int value = 0, i;
    if (length != 6 || memcmp(text, "<0x", 3) != 0 || text[5] != '>') return -1;
    for (i = 3; i < 5; i++) {
        const char *digits = "0123456789ABCDEF";
        const char *digit = text[i] ? strchr(digits, text[i]) : NULL;
        if (!digit) return -1;
        value = value * 16 + (int)(digit - digits);
    }
    return value;
}

static bool diti_tokenizer_place(diti_tokenizer *tokenizer, const diti_piece *piece) {
    int byte = diti_piece_byte_value(piece->text, piece->length);
    switch (piece->type) {
    case DITI_PIECE_NORMAL:
        tokenizer->min_score = fminf(tokenizer->min_score, piece->score);
        tokenizer->max_score = fmaxf(tokenizer->max_score, piece->score);
        return diti_piece_index_add(&tokenizer->env, &tokenizer->words, piece);
    case DITI_PIECE_USER: return diti_piece_index_add(&tokenizer->env, &tokenizer->words, piece);
    case DITI_PIECE_UNKNOWN:
        if (tokenizer->unknown < 0) tokenizer->unknown = piece->id;
        return diti_piece_index_add(&tokenizer->env, &tokenizer->specials, piece);
    case DITI_PIECE_CONTROL: return diti_piece_index_add(&tokenizer->env, &tokenizer->specials, piece);
    case DITI_PIECE_BYTE:
        if (byte >= 0) tokenizer->byte_ids[byte] = piece->id;
        return true;
    case DITI_PIECE_UNUSED: return true;
    }
    return false;
}

DIT_INTERNAL dit_result diti_tokenizer_add(diti_tokenizer *tokenizer, const char *text, size_t length, int32_t id,
                                           float score, diti_piece_type type, dit_error *err) {
    const char *name = tokenizer->name;
    diti_piece piece;
    if (tokenizer->count >= tokenizer->capacity || length > tokenizer->pool_size - tokenizer->pool_used)
        return diti_fail(err, DIT_ERROR_BAD_FILE, "%s: more pieces than announced", name);
    if (length > DITI_PIECE_LIMIT)
        return diti_fail(err, DIT_ERROR_BAD_FILE, "%s: piece %d is %lu bytes long (at most %u)", name, id,
                         (unsigned long)length, DITI_PIECE_LIMIT);
    if (!isfinite(score))
        return diti_fail(err, DIT_ERROR_BAD_FILE, "%s: the score of piece %d is not a finite number", name, id);
    piece.text = tokenizer->pool + tokenizer->pool_used;
    piece.length = (uint32_t)length;
    piece.id = id;
    piece.score = score;
    piece.type = type;
    if (length) memcpy(tokenizer->pool + tokenizer->pool_used, text, length);
    tokenizer->pool_used += length;
    tokenizer->count++;
    if (length == 0 || diti_tokenizer_place(tokenizer, &piece)) return DIT_OK; /* an empty piece never matches */
    return diti_fail_memory(err, "%u pieces of %s", tokenizer->capacity, name);
}

DIT_INTERNAL dit_result diti_tokenizer_special(diti_tokenizer *tokenizer, const char *text, int32_t *id,
                                               dit_error *err) {
    size_t length = strlen(text);
    diti_piece piece = DITI_ZERO;
    *id = diti_piece_find(&tokenizer->specials, text, length);
    if (*id >= 0) return DIT_OK;
    *id = diti_piece_find(&tokenizer->words, text, length);
    if (*id < 0) return diti_fail(err, DIT_ERROR_BAD_FILE, "%s: the vocabulary has no %s", tokenizer->name, text);
    piece = *diti_piece_longest(&tokenizer->words, text, length);
    piece.type = DITI_PIECE_CONTROL;
    if (!diti_piece_index_add(&tokenizer->env, &tokenizer->specials, &piece))
        return diti_fail_memory(err, "%s", tokenizer->name);
    diti_piece_index_sort(&tokenizer->specials);
    return DIT_OK;
}

/* --- a piece of a prompt --- */

/* Whole characters only: where the last one is cut, it goes. */
static void diti_lost_close(diti_tokens *tokens, size_t used) {
    size_t start = used;
    tokens->lost_more = true;
    while (start > 0 && used - start < 4 && ((uint8_t)tokens->lost_text[start - 1] & 0xc0u) == 0x80) start--;
    if (start > 0) start--;
    if (used > 0 && diti_utf8_length(tokens->lost_text + start, used - start) != used - start)
        tokens->lost_text[start] = 0;
}

static void diti_lost_append(diti_tokens *tokens, const char *text, size_t length) {
    size_t used = strlen(tokens->lost_text), i;
    if (tokens->lost_more) return;
    for (i = 0; i < length; i++) {
        bool space = length - i >= 3 && memcmp(text + i, "\xe2\x96\x81", 3) == 0;
        char c = space || (uint8_t)text[i] < ' ' ? ' ' : text[i];
        if (space) i += 2;
        if (used == 0 && (c == ' ' || ((uint8_t)c & 0xc0u) == 0x80)) continue; /* begins with a whole character */
        if (used + 1 == sizeof tokens->lost_text) {
            diti_lost_close(tokens, used);
            return;
        }
        tokens->lost_text[used++] = c;
        tokens->lost_text[used] = 0;
    }
}

DIT_INTERNAL void diti_token_emit(diti_token_sink *sink, int32_t id, const char *text, size_t length) {
    diti_tokens *tokens = sink->tokens;
    if (tokens->count < sink->room) {
        if (tokens->weights) tokens->weights[tokens->count] = sink->weight;
        tokens->ids[tokens->count++] = id;
        return;
    }
    tokens->lost++;
    diti_lost_append(tokens, text, length);
}
