#include "text/tokenizer.h"

/* Pieces sorted by bytes, searched by narrowing a range one byte at a time. */

DIT_INTERNAL bool diti_piece_index_add(const diti_env *env, diti_piece_index *index, const diti_piece *piece) {
    void *pieces = index->pieces;
    bool good = diti_grow(env, &pieces, &index->capacity, index->count, sizeof *piece);
    index->pieces = (diti_piece *)pieces;
    if (good) index->pieces[index->count++] = *piece;
    return good;
}

static int diti_piece_compare(const diti_piece *a, const diti_piece *b) {
    int order = memcmp(a->text, b->text, a->length < b->length ? a->length : b->length);
    if (order) return order;
    if (a->length != b->length) return a->length < b->length ? -1 : 1;
    return a->id < b->id ? -1 : 1; /* the lowest id of equal pieces is found */
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
DIT_INTERNAL void diti_piece_index_sort(diti_piece_index *index) {
    uint32_t i, byte = 0;
    for (i = index->count / 2; i-- > 0;) diti_piece_sift_down(index->pieces, i, index->count);
    for (i = index->count; i-- > 1;) {
        diti_piece last = index->pieces[i];
        index->pieces[i] = index->pieces[0];
        index->pieces[0] = last;
        diti_piece_sift_down(index->pieces, 0, i);
    }
    for (i = 0; i < index->count; i++)
        while (index->pieces[i].length && byte <= (uint8_t)*index->pieces[i].text) index->first[byte++] = i;
    while (byte < DITI_COUNT(index->first)) index->first[byte++] = index->count;
}

DIT_INTERNAL diti_piece_range diti_piece_range_all(const diti_piece_index *index) {
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

DIT_INTERNAL bool diti_piece_range_narrow(const diti_piece_index *index, diti_piece_range *range, char next) {
    uint32_t byte = (uint8_t)next;
    bool whole = range->depth == 0;
    range->low = whole ? index->first[byte] : diti_piece_bound(index, *range, byte);
    range->high = whole ? index->first[byte + 1] : diti_piece_bound(index, *range, byte + 1);
    range->depth++;
    return range->low < range->high;
}

DIT_INTERNAL const diti_piece *diti_piece_range_exact(const diti_piece_index *index, const diti_piece_range *range) {
    const diti_piece *first = &index->pieces[range->low];
    return first->length == range->depth ? first : NULL;
}

DIT_INTERNAL const diti_piece *diti_piece_longest(const diti_piece_index *index, const char *text, size_t length) {
    diti_piece_range range = diti_piece_range_all(index);
    const diti_piece *found = NULL;
    size_t i;
    for (i = 0; i < length && diti_piece_range_narrow(index, &range, text[i]); i++) {
        const diti_piece *piece = diti_piece_range_exact(index, &range);
        if (piece) found = piece;
    }
    return found;
}

DIT_INTERNAL int32_t diti_piece_find(const diti_piece_index *index, const char *text, size_t length) {
    diti_piece wanted = DITI_ZERO;
    uint32_t low, high, end;
    if (!length || length > UINT32_MAX) return -1;
    wanted.text = text;
    wanted.length = (uint32_t)length;
    wanted.id = -1; /* before the lowest id of equal pieces */
    low = index->first[(uint8_t)*text];
    high = end = index->first[(uint8_t)*text + 1];
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (diti_piece_compare(&index->pieces[middle], &wanted) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == end || index->pieces[low].length != length || memcmp(index->pieces[low].text, text, length)) return -1;
    return index->pieces[low].id;
}
