#include "text/tokenizer.h"

/* SentencePiece unigram (docs/models.md 6.2). */

static bool diti_tokenizer_spells_bytes(const diti_tokenizer *tokenizer) {
    int i;
    for (i = 0; i < 256; i++) {
        if (tokenizer->byte_ids[i] < 0) return false;
    }
    return true;
}

DIT_INTERNAL dit_result diti_unigram_finish(diti_tokenizer *tokenizer, dit_error *err) {
    const char *name = tokenizer->name;
    if (tokenizer->end < 0) tokenizer->end = diti_piece_find(&tokenizer->specials, "</s>", 4);
    if (tokenizer->padding < 0) tokenizer->padding = diti_piece_find(&tokenizer->specials, "<pad>", 5);
    if (tokenizer->unknown < 0)
        return diti_fail(err, DIT_ERROR_BAD_FILE, "%s: the vocabulary has no unknown piece (<unk>)", name);
    if (tokenizer->end < 0)
        return diti_fail(err, DIT_ERROR_BAD_FILE, "%s: the vocabulary has no end piece (</s>)", name);
    if (tokenizer->padding < 0)
        return diti_fail(err, DIT_ERROR_BAD_FILE, "%s: the vocabulary has no padding piece (<pad>)", name);
    if (tokenizer->min_score > tokenizer->max_score) tokenizer->min_score = tokenizer->max_score = 0.0f;
    tokenizer->unknown_score = tokenizer->min_score - 10.0f;
    tokenizer->byte_fallback = diti_tokenizer_spells_bytes(tokenizer);
    return DIT_OK;
}

/* --- Viterbi: the segmentation with the largest sum of scores --- */
typedef struct diti_lattice { /* per byte position: the best path that ends there */
    float *score;
    uint32_t *from; /* where its last piece begins; UINT32_MAX: not reached */
    int32_t *id;    /* id of that piece */
} diti_lattice;

static void diti_lattice_free(const diti_env *env, diti_lattice *lattice) {
    diti_free(env, lattice->score);
    diti_free(env, lattice->from);
    diti_free(env, lattice->id);
}

static bool diti_lattice_create(const diti_env *env, size_t length, diti_lattice *lattice) {
    lattice->score = (float *)diti_alloc_array(env, length + 1, sizeof(float));
    lattice->from = (uint32_t *)diti_alloc_array(env, length + 1, sizeof(uint32_t));
    lattice->id = (int32_t *)diti_alloc_array(env, length + 1, sizeof(int32_t));
    if (!lattice->score || !lattice->from || !lattice->id) return false;
    memset(lattice->from, 0xff, (length + 1) * sizeof(uint32_t));
    return true;
}

static void diti_lattice_relax(diti_lattice *lattice, uint32_t start, uint32_t end, float score, int32_t id) {
    float total = lattice->score[start] + score;
    if (lattice->from[end] != UINT32_MAX && total <= lattice->score[end]) return;
    lattice->score[end] = total;
    lattice->from[end] = start;
    lattice->id[end] = id;
}

/* SentencePiece favours user pieces so much that they always win. */
static float diti_piece_path_score(const diti_tokenizer *tokenizer, const diti_piece *piece) {
    return piece->type == DITI_PIECE_USER ? (float)piece->length * tokenizer->max_score - 0.1f : piece->score;
}

static void diti_lattice_extend(const diti_tokenizer *tokenizer, diti_lattice *lattice, const char *text,
                                uint32_t length, uint32_t start, uint32_t character) {
    diti_piece_range range = diti_piece_range_all(&tokenizer->words);
    bool known = false;
    uint32_t end;
    for (end = start + 1; end <= length && diti_piece_range_narrow(&tokenizer->words, &range, text[end - 1]); end++) {
        const diti_piece *piece = diti_piece_range_exact(&tokenizer->words, &range);
        if (!piece) continue;
        diti_lattice_relax(lattice, start, end, diti_piece_path_score(tokenizer, piece), piece->id);
        if (end == start + character) known = true;
    }
    if (!known) diti_lattice_relax(lattice, start, start + character, tokenizer->unknown_score, tokenizer->unknown);
}

/* Turns the chain of beginnings around: afterwards from[p] is the end of the piece that starts at p. */
static void diti_lattice_reverse(diti_lattice *lattice, uint32_t length) {
    uint32_t position = length, next = UINT32_MAX;
    while (position) {
        uint32_t before = lattice->from[position];
        lattice->from[position] = next;
        next = position;
        position = before;
    }
    lattice->from[0] = next;
}

static void diti_lattice_fill(const diti_tokenizer *tokenizer, diti_lattice *lattice, const char *text,
                              uint32_t length) {
    uint32_t start, character;
    for (start = 0; start < length; start += character) {
        character = (uint32_t)diti_utf8_length(text + start, length - start);
        if (character == 0) character = 1; /* a damaged character map can write broken text */
        diti_lattice_extend(tokenizer, lattice, text, length, start, character);
    }
    diti_lattice_reverse(lattice, length);
}

/* --- encoding --- */
static void diti_token_emit_bytes(const diti_tokenizer *tokenizer, diti_token_sink *sink, const char *text,
                                  uint32_t length) {
    uint32_t i;
    for (i = 0; i < length; i++) diti_token_emit(sink, tokenizer->byte_ids[(uint8_t)text[i]], text + i, 1);
}

static void diti_token_emit_path(const diti_tokenizer *tokenizer, const diti_lattice *lattice, const char *text,
                                 uint32_t length, diti_token_sink *sink) {
    bool after_unknown = false;
    uint32_t start, end;
    for (start = 0; start < length; start = end) {
        bool unknown;
        end = lattice->from[start];
        unknown = lattice->id[end] == tokenizer->unknown;
        if (unknown && tokenizer->byte_fallback)
            diti_token_emit_bytes(tokenizer, sink, text + start, end - start);
        else if (!unknown || !after_unknown)
            diti_token_emit(sink, lattice->id[end], text + start, end - start);
        after_unknown = unknown;
    }
}

DIT_INTERNAL dit_result diti_unigram_encode(const diti_tokenizer *tokenizer, const char *text, size_t length,
                                            diti_token_sink *sink, dit_error *err) {
    diti_lattice lattice = DITI_ZERO;
    char *normalized = NULL;
    size_t size = 0;
    dit_result result =
        diti_normalizer_run(&tokenizer->env, &tokenizer->normalizer, text, length, &normalized, &size, err);
    if (result < 0 || size == 0) {
        diti_free(&tokenizer->env, normalized);
        return result;
    }
    if (diti_lattice_create(&tokenizer->env, size, &lattice)) {
        diti_lattice_fill(tokenizer, &lattice, normalized, (uint32_t)size);
        diti_token_emit_path(tokenizer, &lattice, normalized, (uint32_t)size, sink);
    } else {
        result = diti_fail_memory(err, "a prompt of %lu bytes", (unsigned long)size);
    }
    diti_lattice_free(&tokenizer->env, &lattice);
    diti_free(&tokenizer->env, normalized);
    return result;
}
