/* A device that divides a matrix with others reads some rows of it, and some columns of each row: a cut of its weight.
 */
#include "weights/weights.h"

DIT_INTERNAL uint32_t diti_weight_taps(const diti_weight *weight) {
    return (weight->kernel > 1 ? weight->kernel * weight->kernel : 1) * (weight->frames > 1 ? weight->frames : 1);
}

DIT_INTERNAL uint32_t diti_weight_unit(const diti_weight *weight) {
    uint32_t block;
    if (diti_type_is_i8(weight->type)) return diti_type_is_rotated(weight->type) ? DITI_ROTATION_GROUP : 16;
    block = diti_type_block(weight->type);
    return block > 4 ? block : 4;
}

DIT_INTERNAL void diti_cuts_free(const diti_env *env, diti_cut_weight **cuts, size_t count) {
    size_t i;
    for (i = 0; i < count; i++) diti_free(env, cuts[i]);
    diti_free(env, cuts);
}

static uint64_t diti_cut_row_bytes(const diti_weight *weight, uint32_t columns) {
    uint64_t bytes = 0;
    if (columns) diti_weight_bytes(weight->type, 1, columns, &bytes);
    return bytes;
}

/* Bytes in which so many values of a row stand, without what stands behind a whole one. */
static uint64_t diti_cut_bytes(const diti_weight *weight, uint32_t columns) {
    return diti_type_is_i8(weight->type) ? diti_i8_bytes(weight->type, columns) : diti_cut_row_bytes(weight, columns);
}

/* The stretches of cut, and the scale behind a row of int8. */
static void diti_cut_pieces(diti_cut_weight *made) {
    const diti_weight *source = made->source;
    diti_pieces *pieces = &made->pieces;
    uint64_t to = 0;
    uint32_t i;
    pieces->from_pitch = diti_cut_row_bytes(source, source->columns);
    pieces->to_pitch = diti_cut_row_bytes(source, made->weight.columns);
    for (i = 0; i < 2 && made->cut.columns[i].count; i++) {
        pieces->list[i].from = diti_cut_bytes(source, made->cut.columns[i].first);
        pieces->list[i].to = to;
        to += pieces->list[i].size = diti_cut_bytes(source, made->cut.columns[i].count);
    }
    if (diti_type_is_i8(source->type)) {
        pieces->list[i].from = pieces->from_pitch - 16;
        pieces->list[i].to = pieces->to_pitch - 16;
        pieces->list[i++].size = 16;
    }
    pieces->count = i;
}

static void diti_cut_parts(diti_cut_weight *made) {
    const diti_weight *source = made->source;
    diti_weight *out = &made->weight;
    uint64_t row_bytes = diti_cut_row_bytes(source, source->columns);
    uint32_t i, begin = made->cut.row, end = begin + out->rows;
    for (i = 0; i < source->part_count; i++) {
        diti_weight_part part = source->parts[i];
        uint32_t first = part.first_row, last = first + part.rows;
        if (first < begin) first = begin;
        if (last > end) last = end;
        if (first >= last) continue;
        part.offset += (first - part.first_row) * row_bytes;
        part.first_row = first - begin;
        part.rows = last - first;
        if (made->pieces.count) part.pieces = &made->pieces;
        out->parts[out->part_count++] = part;
    }
}

/* Columns that reach to the end of rows may be any number; rotated rows have whole groups. */
static bool diti_cut_fits(const diti_weight *weight, const diti_cut *cut) {
    uint32_t i, unit = diti_weight_unit(weight);
    bool whole = diti_type_is_rotated(weight->type);
    if (diti_weight_taps(weight) > 1 || cut->row > weight->rows || cut->rows > weight->rows - cut->row) return false;
    for (i = 0; i < 2; i++) {
        uint32_t first = cut->columns[i].first, count = cut->columns[i].count;
        if (first > weight->columns || count > weight->columns - first || first % unit) return false;
        if (count % unit && (whole || first + count < weight->columns)) return false;
    }
    return true;
}

DIT_INTERNAL bool diti_cut_make(diti_cut_weight *made, const diti_weight *weight, const diti_cut *cut) {
    if (!diti_cut_fits(weight, cut)) return false;
    made->source = weight;
    made->cut = *cut;
    made->weight.name = weight->name;
    made->weight.type = weight->type;
    made->weight.kernel = weight->kernel;
    made->weight.frames = weight->frames;
    made->weight.smooth = weight->smooth; /* for all columns */
    made->weight.factor = weight->factor;
    made->weight.factor.first_row += cut->row;
    made->weight.rows = cut->rows ? cut->rows : weight->rows;
    made->weight.columns = cut->columns[0].count ? cut->columns[0].count + cut->columns[1].count : weight->columns;
    if (made->weight.columns != weight->columns) diti_cut_pieces(made);
    diti_cut_parts(made);
    return true;
}

DIT_INTERNAL void diti_pieces_pick(const diti_pieces *pieces, const unsigned char *from, uint64_t rows,
                                   unsigned char *to) {
    uint64_t r;
    uint32_t i;
    memset(to, 0, (size_t)(rows * pieces->to_pitch));
    for (r = 0; r < rows; r++)
        for (i = 0; i < pieces->count; i++)
            memcpy(to + r * pieces->to_pitch + pieces->list[i].to, from + r * pieces->from_pitch + pieces->list[i].from,
                   (size_t)pieces->list[i].size);
}
