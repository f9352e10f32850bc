#include "text/tokenizer.h"

#define DITI_PIECE_LIMIT 1024u /* bytes of one piece; SentencePiece trains pieces of at most 16 characters */
#define DITI_PIECE_COUNT_LIMIT (4u << 20)

/* --- the index: pieces sorted by bytes, searched by narrowing a range one byte at a time --- */
static int diti_piece_compare(const diti_piece *a, const diti_piece *b) {
    int order = memcmp(a->text, b->text, a->length < b->length ? a->length : b->length);
    if (order) return order;
    if (a->length != b->length) return a->length < b->length ? -1 : 1;
    return a->id < b->id ? -1 : 1; /* of equal pieces the lowest id is found */
}

static void diti_piece_sift_down(diti_piece *pieces, uint32_t parent, uint32_t count) {
    diti_piece moved = pieces[parent];
    uint32_t child;
    while ((child = parent * 2 + 1) < count) {
        if (child + 1 < count && diti_piece_compare(&pieces[child], &pieces[child + 1]) < 0) child++;
        if (diti_piece_compare(&moved, &pieces[child]) >= 0) break;
        pieces[parent] = pieces[child];
        parent = child;
    }
    pieces[parent] = moved;
}

/* Heap sort: no memory of its own and no slow case that a hostile file could choose. */
static void diti_piece_index_sort(diti_piece_index *index) {
    uint32_t i;
    for (i = index->count / 2; i-- > 0;) diti_piece_sift_down(index->pieces, i, index->count);
    for (i = index->count; i-- > 1;) {
        diti_piece last = index->pieces[i];
        index->pieces[i] = index->pieces[0];
        index->pieces[0] = last;
        diti_piece_sift_down(index->pieces, 0, i);
    }
}

typedef struct diti_piece_range { /* the pieces that begin with the depth bytes read so far */
    uint32_t low, high, depth;
} diti_piece_range;

static diti_piece_range diti_piece_range_all(const diti_piece_index *index) {
    diti_piece_range range = DITI_ZERO;
    range.high = index->count;
    return range;
}

/* First piece of the range whose next byte is at least byte (0..256); pieces that end here come first. */
static uint32_t diti_piece_bound(const diti_piece_index *index, diti_piece_range range, uint32_t byte) {
    while (range.low < range.high) {
        uint32_t middle = range.low + (range.high - range.low) / 2;
        const diti_piece *piece = &index->pieces[middle];
        if (piece->length <= range.depth || (uint8_t)piece->text[range.depth] < byte)
            range.low = middle + 1;
        else
            range.high = middle;
    }
    return range.low;
}

static bool diti_piece_range_narrow(const diti_piece_index *index, diti_piece_range *range, char next) {
    uint32_t byte = (uint8_t)next;
    range->low = diti_piece_bound(index, *range, byte);
    range->high = diti_piece_bound(index, *range, byte + 1);
    range->depth++;
    return range->low < range->high;
}

/* The piece that the bytes read so far spell, or NULL. */
static const diti_piece *diti_piece_range_exact(const diti_piece_index *index, const diti_piece_range *range) {
    const diti_piece *first = &index->pieces[range->low];
    return first->length == range->depth ? first : NULL;
}

static const diti_piece *diti_piece_longest(const diti_piece_index *index, const char *text, size_t length) {
    diti_piece_range range = diti_piece_range_all(index);
    const diti_piece *found = NULL;
    size_t i;
    for (i = 0; i < length && diti_piece_range_narrow(index, &range, text[i]); i++) {
        const diti_piece *piece = diti_piece_range_exact(index, &range);
        if (piece) found = piece;
    }
    return found;
}

static int32_t diti_piece_find(const diti_piece_index *index, const char *text) {
    size_t length = strlen(text);
    const diti_piece *piece = diti_piece_longest(index, text, length);
    return piece && piece->length == length ? piece->id : -1;
}

/* --- building --- */
DIT_INTERNAL void diti_tokenizer_free(diti_tokenizer *tokenizer) {
    diti_env env;
    if (!tokenizer) return;
    env = tokenizer->env;
    diti_normalizer_free(&env, &tokenizer->normalizer);
    diti_free(&env, tokenizer->words.pieces);
    diti_free(&env, tokenizer->specials.pieces);
    diti_free(&env, tokenizer->pool);
    diti_free(&env, tokenizer->name);
    diti_free(&env, tokenizer);
}

DIT_INTERNAL dit_result diti_tokenizer_create(const diti_env *env, const char *name, uint64_t piece_count,
                                              uint64_t piece_bytes, diti_tokenizer **out, dit_error *err) {
    diti_tokenizer *tokenizer;
    if (piece_count == 0) return diti_fail(err, DIT_ERROR_BAD_FILE, "%s: the vocabulary is empty", name);
    if (piece_count > DITI_PIECE_COUNT_LIMIT || piece_bytes > (uint64_t)DITI_PIECE_COUNT_LIMIT * 64) {
        return diti_fail(err, DIT_ERROR_BAD_FILE,
                         "%s: a vocabulary of %llu pieces in %llu bytes is too large (at most %u pieces)", name,
                         (unsigned long long)piece_count, (unsigned long long)piece_bytes, DITI_PIECE_COUNT_LIMIT);
    }
    tokenizer = (diti_tokenizer *)diti_alloc_zero(env, sizeof *tokenizer);
    if (!tokenizer) return diti_fail(err, DIT_ERROR_OUT_OF_HOST_MEMORY, "%s: out of memory for the tokenizer", name);
    tokenizer->env = *env;
    tokenizer->name = diti_copy_string(env, name);
    tokenizer->pool = (char *)diti_alloc(env, (size_t)piece_bytes + 1);
    tokenizer->pool_size = (size_t)piece_bytes;
    tokenizer->capacity = (uint32_t)piece_count;
    if (!tokenizer->name || !tokenizer->pool) {
        diti_tokenizer_free(tokenizer);
        return diti_fail(err, DIT_ERROR_OUT_OF_HOST_MEMORY, "%s: out of memory for %llu pieces", name,
                         (unsigned long long)piece_count);
    }
    memset(tokenizer->byte_ids, -1, sizeof tokenizer->byte_ids);
    tokenizer->unknown = tokenizer->end = tokenizer->padding = -1;
    tokenizer->min_score = INFINITY;
    tokenizer->max_score = -INFINITY;
    tokenizer->normalizer.add_prefix = tokenizer->normalizer.collapse_spaces = true;
    *out = tokenizer;
    return DIT_OK;
}

/* "<0x0A>" -> 10; -1 for anything else. */
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

static bool diti_piece_index_add(const diti_env *env, diti_piece_index *index, const diti_piece *piece) {
    void *pieces = index->pieces;
    bool good = diti_grow(env, &pieces, &index->capacity, index->count, sizeof *piece);
    index->pieces = (diti_piece *)pieces;
    if (good) index->pieces[index->count++] = *piece;
    return good;
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
    return diti_fail(err, DIT_ERROR_OUT_OF_HOST_MEMORY, "%s: out of memory for %u pieces", name, tokenizer->capacity);
}

static bool diti_tokenizer_spells_bytes(const diti_tokenizer *tokenizer) {
    int i;
    for (i = 0; i < 256; i++) {
        if (tokenizer->byte_ids[i] < 0) return false;
    }
    return true;
}

DIT_INTERNAL dit_result diti_tokenizer_finish(diti_tokenizer *tokenizer, dit_error *err) {
    const char *name = tokenizer->name;
    diti_piece_index_sort(&tokenizer->words);
    diti_piece_index_sort(&tokenizer->specials);
    if (tokenizer->end < 0) tokenizer->end = diti_piece_find(&tokenizer->specials, "</s>");
    if (tokenizer->padding < 0) tokenizer->padding = diti_piece_find(&tokenizer->specials, "<pad>");
    if (tokenizer->words.count == 0)
        return diti_fail(err, DIT_ERROR_BAD_FILE, "%s: the vocabulary has no piece of text", name);
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
    int32_t *id;    /* that piece */
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
typedef struct diti_token_sink {
    int32_t *ids;
    uint32_t room, count, lost;
} diti_token_sink;

static void diti_token_emit(diti_token_sink *sink, int32_t id) {
    if (sink->count < sink->room)
        sink->ids[sink->count++] = id;
    else
        sink->lost++;
}

static void diti_token_emit_bytes(const diti_tokenizer *tokenizer, diti_token_sink *sink, const char *text,
                                  uint32_t length) {
    uint32_t i;
    for (i = 0; i < length; i++) diti_token_emit(sink, tokenizer->byte_ids[(uint8_t)text[i]]);
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
            diti_token_emit(sink, lattice->id[end]);
        after_unknown = unknown;
    }
}

static dit_result diti_tokenizer_encode_segment(const diti_tokenizer *tokenizer, const char *text, size_t length,
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
        result = diti_fail(err, DIT_ERROR_OUT_OF_HOST_MEMORY, "out of memory for a prompt of %lu bytes",
                           (unsigned long)size);
    }
    diti_lattice_free(&tokenizer->env, &lattice);
    diti_free(&tokenizer->env, normalized);
    return result;
}

/* Text between special pieces is encoded piece by piece, as transformers does. */
static dit_result diti_tokenizer_encode_all(const diti_tokenizer *tokenizer, const char *text, size_t length,
                                            diti_token_sink *sink, dit_error *err) {
    size_t start = 0, position = 0;
    while (position < length) {
        const diti_piece *special = diti_piece_longest(&tokenizer->specials, text + position, length - position);
        dit_result result;
        if (!special) {
            position++;
            continue;
        }
        result = diti_tokenizer_encode_segment(tokenizer, text + start, position - start, sink, err);
        if (result < 0) return result;
        diti_token_emit(sink, special->id);
        start = position += special->length;
    }
    return diti_tokenizer_encode_segment(tokenizer, text + start, length - start, sink, err);
}

DIT_INTERNAL dit_result diti_tokenizer_encode(const diti_tokenizer *tokenizer, const char *text, int32_t *ids,
                                              uint32_t capacity, uint32_t *count, uint32_t *lost, dit_error *err) {
    diti_token_sink sink = DITI_ZERO;
    dit_result result;
    uint32_t i;
    if (capacity == 0)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "%s: room for at least one token is needed", tokenizer->name);
    sink.ids = ids;
    sink.room = capacity - 1; /* </s> always fits */
    result = diti_tokenizer_encode_all(tokenizer, text ? text : "", text ? strlen(text) : 0, &sink, err);
    if (result < 0) return result;
    ids[sink.count++] = tokenizer->end;
    for (i = sink.count; i < capacity; i++) ids[i] = tokenizer->padding;
    if (count) *count = sink.count;
    if (lost) *lost = sink.lost;
    return DIT_OK;
}
