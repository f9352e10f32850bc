/* The bytes of tensors that are made of nunchaku's (docs/quantized.md): integers, scales and factors keep their values,
   and get the order that other files have. */
#include "io/io.h"

#define DITI_NUNCHAKU_SHIFT 0.171875 /* nunchaku's kernels add it to GELU's results */
#define DITI_TILE_BYTES 4096u        /* 128 rows of 64 columns */
#define DITI_TILE_SCALES 512u        /* bytes of their scales, where 16 columns share one */
#define DITI_NVFP4_BYTES 36u
#define DITI_Q4_0_BYTES 18u

/* Place of row n of a tile among its scales, and of a vector's value among 128. */
static uint32_t diti_tile_place(uint32_t n) { return n / 16 * 16 + n % 8 / 2 * 4 + n / 8 % 2 * 2 + n % 2; }

/* Bytes of a tensor of the file, whose shape nunchaku.c has checked. */
static dit_result diti_packed_read(const diti_checkpoint *checkpoint, const diti_stored_tensor *tensor, uint64_t offset,
                                   void *out, size_t size, dit_error *err) {
    return diti_file_read(checkpoint->files[tensor->file], tensor->offset + offset, out, size, err);
}

/* Elements [first, first + count) of such a tensor. */
static dit_result diti_packed_floats(const diti_checkpoint *checkpoint, const diti_stored_tensor *tensor,
                                     uint64_t first, uint64_t count, float *out, dit_error *err) {
    uint32_t bytes = diti_type_block_bytes(tensor->type);
    unsigned char *stored = (unsigned char *)diti_alloc_array(&checkpoint->env, (size_t)count, bytes);
    dit_result result;
    if (!stored) return diti_fail_memory(err, "tensor %.200s", tensor->name);
    result = diti_packed_read(checkpoint, tensor, first * bytes, stored, (size_t)count * bytes, err);
    if (result >= 0) diti_type_to_float(tensor->type, stored, count, out);
    diti_free(&checkpoint->env, stored);
    return result;
}

/* Scales and minimums of blocks are halves. */
static dit_result diti_packed_halves(const diti_checkpoint *checkpoint, const diti_stored_tensor *tensor,
                                     const float *values, size_t count, uint16_t *out, dit_error *err) {
    size_t i;
    for (i = 0; i < count; i++) {
        out[i] = diti_float_to_half(values[i]);
        if (!(fabsf(values[i]) < 65520.0f))
            return diti_fail(err, DIT_ERROR_BAD_FILE, "%s: tensor '%.200s' holds %g, which is beyond F16",
                             diti_checkpoint_name(checkpoint), tensor->name, (double)values[i]);
    }
    return DIT_OK;
}

/* --- matrices in tiles --- */

/* The eight nibbles of a word as bytes. */
static uint64_t diti_spread_nibbles(const unsigned char *bytes) {
    uint32_t word;
    uint64_t x;
    memcpy(&word, bytes, sizeof word);
    x = (word | (uint64_t)word << 16) & 0x0000ffff0000ffffu;
    x = (x | x << 8) & 0x00ff00ff00ff00ffu;
    return (x | x << 4) & 0x0f0f0f0f0f0f0f0fu;
}

/* 32 columns of a row whose 64 columns of a tile begin at `row`: words of eight columns each, 16 bytes apart. Integers
   in two's complement become those from 0 to 15, of which Q4_0 takes 8 away. */
static void diti_tile_block(const unsigned char *row, unsigned char *out) {
    uint32_t w;
    for (w = 0; w < 2; w++) {
        uint64_t low = diti_spread_nibbles(row + 16 * w), high = diti_spread_nibbles(row + 16 * (w + 2));
        uint64_t bytes = (low | high << 4) ^ 0x8888888888888888u;
        memcpy(out + 8 * w, &bytes, sizeof bytes);
    }
}

/* 64 columns of such a row as floats of 4 bits; scales of a row and four groups stand together. false for a scale that
   is negative or no number. */
static bool diti_tile_fours(uint32_t n, const unsigned char *row, const unsigned char *scales, unsigned char *out) {
    const unsigned char *scale = scales + (n % 8 * 4 + n / 8 % 4) * 16 + n / 32 * 4;
    bool good = true;
    uint32_t group;
    for (group = 0; group < 4; group++) {
        const unsigned char *words = row + group % 2 * 32 + group / 2 * 4;
        uint64_t bytes = diti_spread_nibbles(words) | diti_spread_nibbles(words + 16) << 4;
        memcpy(out + 4 + 8 * group, &bytes, sizeof bytes);
        out[group] = scale[group];
        good = good && scale[group] < 127;
    }
    return good;
}

/* The bytes of row n of a tile among 64 columns. */
static const unsigned char *diti_tile_at(const unsigned char *tiles, uint32_t n) {
    return tiles + (n / 16 * 8 + n % 8) * 64 + n / 8 % 2 * 8;
}

/* Row n of the tiles at `tiles` as blocks of Q4_0; scales of 128 rows stand in front of those of the next group. */
static void diti_tile_row(uint32_t n, uint32_t columns, const unsigned char *tiles, const uint16_t *scales,
                          unsigned char *out) {
    const unsigned char *row = diti_tile_at(tiles, n);
    const uint16_t *scale = scales + diti_tile_place(n);
    uint32_t column;
    for (column = 0; column < columns; column += DITI_NUNCHAKU_GROUP) {
        uint32_t half;
        for (half = 0; half < 2; half++, out += DITI_Q4_0_BYTES) {
            memcpy(out, scale, sizeof *scale);
            diti_tile_block(row + 4 * half, out + 2);
        }
        row += DITI_TILE_BYTES;
        scale += DITI_NUNCHAKU_TILE;
    }
}

/* --- layers of modulation and of text encoders: AWQ's order, four rows side by side --- */

/* 32 columns of a row as Q4_1 has them: a word of 16 bits has columns j, j + 8, j + 16 and j + 24. */
static void diti_awq_block(const unsigned char *words, unsigned char *out) {
    uint32_t j;
    for (j = 0; j < 8; j++) {
        unsigned char low = words[2 * j], high = words[2 * j + 1];
        out[j] = (unsigned char)((low & 15) | (high & 15) << 4);
        out[8 + j] = (unsigned char)(low >> 4 | (high & 0xf0));
    }
}

/* 32 columns of such a row as I4_GROUP has them: words of eight neighbours. */
static void diti_awq_quarter(const unsigned char *words, unsigned char *out) {
    uint32_t j;
    for (j = 0; j < 4; j++) {
        unsigned char low = words[2 * j], high = words[2 * j + 1], next_low = words[2 * j + 8],
                      next_high = words[2 * j + 9];
        out[j] = (unsigned char)((low & 15) | (next_low & 15) << 4);
        out[4 + j] = (unsigned char)(low >> 4 | (next_low & 0xf0));
        out[8 + j] = (unsigned char)((high & 15) | (next_high & 15) << 4);
        out[12 + j] = (unsigned char)(high >> 4 | (next_high & 0xf0));
    }
}

/* Rows of one split, of which `quads` hold every splits-th: row i is row first + i * splits of the file. */
typedef struct diti_awq_rows {
    uint32_t first, step, count;
    uint32_t quad, quads;
    unsigned char *values;
    uint16_t *scales, *zeros; /* halves [groups][count] of the rows wanted */
} diti_awq_rows;

static dit_result diti_awq_factors(const diti_checkpoint *checkpoint, const diti_nunchaku_layer *layer,
                                   const diti_awq_rows *rows, diti_nunchaku_part part, float *all, uint16_t *out,
                                   dit_error *err) {
    uint32_t group, i, groups = layer->columns / layer->group, span = (rows->count - 1) * rows->step + 1;
    for (group = 0; group < groups; group++) {
        DITI_TRY(diti_packed_floats(checkpoint, layer->parts[part], (uint64_t)group * layer->rows + rows->first, span,
                                    all, err));
        for (i = 0; i < rows->count; i++) all[i] = all[i * rows->step];
        DITI_TRY(diti_packed_halves(checkpoint, layer->parts[part], all, rows->count, out + (size_t)group * rows->count,
                                    err));
    }
    return DIT_OK;
}

static void diti_awq_put(const diti_nunchaku_layer *layer, const diti_awq_rows *rows, uint32_t i, unsigned char *out) {
    const bool groups = layer->group == DITI_I4_GROUP; /* blocks of Q4_1 else, two of them with the same factors */
    uint32_t column, row = rows->first + i * rows->step, tiles = layer->columns / 64;
    for (column = 0; column < layer->columns; column += 32) {
        uint32_t tile = column / 64, at = column / layer->group * rows->count + i;
        size_t word = ((size_t)(row / 4 - rows->quad) * tiles + tile) * 4 + row % 4;
        const unsigned char *words = rows->values + word * 32 + column / 32 % 2 * 16;
        if (!groups || column % DITI_I4_GROUP == 0) {
            memcpy(out, &rows->scales[at], 2);
            memcpy(out + 2, &rows->zeros[at], 2);
            out += 4;
        }
        if (groups)
            diti_awq_quarter(words, out);
        else
            diti_awq_block(words, out);
        out += 16;
    }
}

/* --- low-rank parts: tiles of 16 rows and columns; of down the rank is along their rows, of up along their columns ---
 */

/* Place of value [n, k] of a tile. */
static uint32_t diti_pack_place(uint32_t n, uint32_t k) {
    return (n % 8 * 4 + k % 8 / 2) * 8 + n / 8 * 4 + k / 8 * 2 + k % 2;
}

/* Value of a row of up or of a column of down, and a place in the rank. */
static float diti_pack_value(const float *values, uint32_t rank, uint32_t index, uint32_t r, bool down) {
    uint32_t n = (down ? r : index) % DITI_NUNCHAKU_PACK, k = (down ? index : r) % DITI_NUNCHAKU_PACK;
    size_t tile = (size_t)(index / DITI_NUNCHAKU_PACK) * (rank / DITI_NUNCHAKU_PACK) + r / DITI_NUNCHAKU_PACK;
    return values[tile * DITI_NUNCHAKU_PACK * DITI_NUNCHAKU_PACK + diti_pack_place(n, k)];
}

/* One layer's part of down [rank, columns] or up [rows, rank]: at r, and of down at `column` behind another's. */
static dit_result diti_made_low_rank_of(const diti_checkpoint *checkpoint, const diti_stored_tensor *tensor,
                                        const diti_nunchaku_layer *layer, uint32_t rank, uint32_t at, uint32_t column,
                                        float *out, dit_error *err) {
    const bool down = tensor->made->part == DITI_NUNCHAKU_DOWN;
    const diti_stored_tensor *packed = layer->parts[tensor->made->part];
    const uint32_t count = down ? layer->columns : (uint32_t)tensor->shape[0], all = (uint32_t)tensor->shape[1];
    float *values = (float *)diti_alloc_array(&checkpoint->env, (size_t)packed->shape[0], rank * sizeof(float));
    dit_result result = values ? DIT_OK : diti_fail_memory(err, "tensor %.200s", tensor->name);
    uint32_t i, r;
    if (result >= 0) result = diti_packed_floats(checkpoint, packed, 0, packed->shape[0] * rank, values, err);
    for (i = 0; i < count && result >= 0; i++) {
        for (r = 0; r < rank; r++) {
            size_t place = down ? (size_t)(at + r) * all + column + i : (size_t)i * all + at + r;
            out[place] = diti_pack_value(values, rank, tensor->made->first + i, r, down);
        }
    }
    diti_free(&checkpoint->env, values);
    return result;
}

/* Adds to `sums` what the constant beside GELU's results makes of a run's rows: shift * sum of weight / smooth. */
static void diti_shift_rows(const diti_nunchaku_layer *layer, const unsigned char *run, uint32_t rows, size_t pitch,
                            const float *smooth, float *values, double *sums) {
    uint32_t i, k;
    for (i = 0; i < rows; i++) {
        double sum = 0;
        diti_type_to_float(DIT_TYPE_Q4_0, run + i * pitch, layer->columns, values);
        for (k = 0; k < layer->columns; k++) sum += (double)values[k] / (double)smooth[k];
        sums[i] += DITI_NUNCHAKU_SHIFT * sum;
    }
}

DITI_ONCE_BEGIN

/* Rows of one tile, [first, first + rows), pitch bytes from one to the next. */
static dit_result diti_tile_rows(const diti_checkpoint *checkpoint, const diti_nunchaku_layer *layer, uint32_t first,
                                 uint32_t rows, unsigned char *out, size_t pitch, dit_error *err) {
    const uint32_t tile = first / DITI_NUNCHAKU_TILE, groups = layer->tile_columns / DITI_NUNCHAKU_GROUP;
    const size_t bytes = (size_t)groups * DITI_TILE_BYTES, scale_count = (size_t)groups * DITI_NUNCHAKU_TILE;
    unsigned char *tiles = (unsigned char *)diti_alloc(&checkpoint->env, bytes);
    float *scales = (float *)diti_alloc_array(&checkpoint->env, scale_count, sizeof *scales);
    uint16_t *halves = (uint16_t *)diti_alloc_array(&checkpoint->env, scale_count, sizeof *halves);
    dit_result result = DIT_OK;
    uint32_t i;
    if (!tiles || !scales || !halves)
        result = diti_fail_memory(err, "tensor %.200s", layer->parts[DITI_NUNCHAKU_VALUES]->name);
    if (result >= 0)
        result =
            diti_packed_read(checkpoint, layer->parts[DITI_NUNCHAKU_VALUES], tile * (uint64_t)bytes, tiles, bytes, err);
    if (result >= 0)
        result = diti_packed_floats(checkpoint, layer->parts[DITI_NUNCHAKU_SCALES], tile * (uint64_t)scale_count,
                                    scale_count, scales, err);
    if (result >= 0)
        result = diti_packed_halves(checkpoint, layer->parts[DITI_NUNCHAKU_SCALES], scales, scale_count, halves, err);
    for (i = 0; i < rows && result >= 0; i++)
        diti_tile_row((first + i) % DITI_NUNCHAKU_TILE, layer->columns, tiles, halves, out + i * pitch);
    diti_free(&checkpoint->env, halves);
    diti_free(&checkpoint->env, scales);
    diti_free(&checkpoint->env, tiles);
    return result;
}

/* Such rows of fp4, as blocks of NVFP4. */
static dit_result diti_tile_rows_of_fours(const diti_checkpoint *checkpoint, const diti_nunchaku_layer *layer,
                                          uint32_t first, uint32_t rows, unsigned char *out, size_t pitch,
                                          dit_error *err) {
    const diti_stored_tensor *scales = layer->parts[DITI_NUNCHAKU_SCALES];
    const uint32_t tile = first / DITI_NUNCHAKU_TILE, across = layer->tile_columns / 64;
    const size_t bytes = (size_t)across * DITI_TILE_BYTES, scale_bytes = (size_t)across * DITI_TILE_SCALES;
    unsigned char *tiles = (unsigned char *)diti_alloc(&checkpoint->env, bytes + scale_bytes), *read = tiles + bytes;
    dit_result result = tiles ? DIT_OK : diti_fail_memory(err, "tensor %.200s", scales->name);
    uint32_t i, k;
    if (result >= 0)
        result =
            diti_packed_read(checkpoint, layer->parts[DITI_NUNCHAKU_VALUES], tile * (uint64_t)bytes, tiles, bytes, err);
    if (result >= 0)
        result = diti_packed_read(checkpoint, scales, tile * (uint64_t)scale_bytes, read, scale_bytes, err);
    for (i = 0; i < rows && result >= 0; i++) {
        uint32_t n = (first + i) % DITI_NUNCHAKU_TILE;
        for (k = 0; k < layer->columns / 64 && result >= 0; k++)
            if (!diti_tile_fours(n, diti_tile_at(tiles, n) + (size_t)k * DITI_TILE_BYTES,
                                 read + (size_t)k * DITI_TILE_SCALES, out + i * pitch + (size_t)k * DITI_NVFP4_BYTES))
                result = diti_fail(err, DIT_ERROR_BAD_FILE,
                                   "%s: tensor '%.200s' holds a scale that is negative or no number",
                                   diti_checkpoint_name(checkpoint), scales->name);
    }
    diti_free(&checkpoint->env, tiles);
    return result;
}

static dit_result diti_awq_read(const diti_checkpoint *checkpoint, const diti_nunchaku_layer *layer,
                                diti_awq_rows *rows, unsigned char *out, size_t pitch, dit_error *err) {
    const uint64_t quad_bytes = (uint64_t)layer->columns * 2;
    const size_t factors = (size_t)layer->columns / layer->group * rows->count;
    uint32_t i;
    float *all;
    dit_result result = DIT_OK;
    rows->quad = rows->first / 4;
    rows->quads = (rows->first + (rows->count - 1) * rows->step) / 4 - rows->quad + 1;
    rows->values = (unsigned char *)diti_alloc(&checkpoint->env, (size_t)(rows->quads * quad_bytes));
    rows->scales = (uint16_t *)diti_alloc_array(&checkpoint->env, factors, sizeof(uint16_t));
    rows->zeros = (uint16_t *)diti_alloc_array(&checkpoint->env, factors, sizeof(uint16_t));
    all = (float *)diti_alloc_array(&checkpoint->env, (size_t)rows->count * rows->step, sizeof(float));
    if (!rows->values || !rows->scales || !rows->zeros || !all)
        result = diti_fail_memory(err, "tensor %.200s", layer->parts[DITI_NUNCHAKU_VALUES]->name);
    if (result >= 0)
        result = diti_packed_read(checkpoint, layer->parts[DITI_NUNCHAKU_VALUES], rows->quad * quad_bytes, rows->values,
                                  (size_t)(rows->quads * quad_bytes), err);
    if (result >= 0) result = diti_awq_factors(checkpoint, layer, rows, DITI_NUNCHAKU_SCALES, all, rows->scales, err);
    if (result >= 0) result = diti_awq_factors(checkpoint, layer, rows, DITI_NUNCHAKU_ZEROS, all, rows->zeros, err);
    for (i = 0; i < rows->count && result >= 0; i++) diti_awq_put(layer, rows, i, out + i * pitch);
    diti_free(&checkpoint->env, all);
    diti_free(&checkpoint->env, rows->zeros);
    diti_free(&checkpoint->env, rows->scales);
    diti_free(&checkpoint->env, rows->values);
    return result;
}

/* --- rows of a matrix --- */

/* How many rows from `row` on are read together: those of a tile, or as many of a split. */
static uint32_t diti_made_run(const diti_nunchaku_layer *layer, uint32_t row, uint32_t rows) {
    uint32_t most = DITI_NUNCHAKU_TILE - row % DITI_NUNCHAKU_TILE;
    if (layer->splits && layer->rows / layer->splits - row % (layer->rows / layer->splits) < most)
        most = layer->rows / layer->splits - row % (layer->rows / layer->splits);
    return rows < most ? rows : most;
}

/* Rows [row, row + rows), a run, of a layer. */
static dit_result diti_made_rows(const diti_checkpoint *checkpoint, const diti_nunchaku_layer *layer, uint32_t row,
                                 uint32_t rows, unsigned char *out, size_t pitch, dit_error *err) {
    diti_awq_rows awq = DITI_ZERO;
    uint32_t share;
    if (layer->fp4) return diti_tile_rows_of_fours(checkpoint, layer, row, rows, out, pitch, err);
    if (!layer->splits) return diti_tile_rows(checkpoint, layer, row, rows, out, pitch, err);
    share = layer->rows / layer->splits;
    awq.first = row % share * layer->splits + row / share;
    awq.step = layer->splits;
    awq.count = rows;
    return diti_awq_read(checkpoint, layer, &awq, out, pitch, err);
}

/* The bytes of [offset, offset + size) that the run at `run`, which begins at byte `begin`, has. */
static void diti_made_copy(const unsigned char *run, uint64_t begin, uint64_t bytes, uint64_t offset, size_t size,
                           unsigned char *out) {
    uint64_t from = begin > offset ? begin : offset,
             end = begin + bytes < offset + size ? begin + bytes : offset + size;
    if (from < end) memcpy(out + (from - offset), run + (from - begin), (size_t)(end - from));
}

static dit_result diti_made_values(const diti_checkpoint *checkpoint, const diti_stored_tensor *tensor, uint64_t offset,
                                   unsigned char *out, size_t size, dit_error *err) {
    const diti_nunchaku_tensor *made = tensor->made;
    const uint64_t pitch = tensor->size / tensor->shape[0];
    const uint32_t begin = (uint32_t)(offset / pitch), end = (uint32_t)((offset + size + pitch - 1) / pitch);
    unsigned char *run = (unsigned char *)diti_alloc(&checkpoint->env, (size_t)(DITI_NUNCHAKU_TILE * pitch));
    dit_result result = run ? DIT_OK : diti_fail_memory(err, "tensor %.200s", tensor->name);
    uint32_t row, rows, i;
    for (row = begin; row < end && result >= 0; row += rows) {
        size_t at = 0;
        rows = diti_made_run(made->layers[0], made->first + row, end - row);
        for (i = 0; i < 2 && made->layers[i] && result >= 0; i++) {
            result = diti_made_rows(checkpoint, made->layers[i], made->first + row, rows, run + at, (size_t)pitch, err);
            at +=
                (size_t)made->layers[i]->columns / diti_type_block(tensor->type) * diti_type_block_bytes(tensor->type);
        }
        diti_made_copy(run, row * pitch, rows * pitch, offset, size, out);
    }
    diti_free(&checkpoint->env, run);
    return result;
}

/* --- vectors --- */

/* A vector in the order of tiles, or of a layer of modulation as it is; count values. */
static dit_result diti_made_vector(const diti_checkpoint *checkpoint, const diti_nunchaku_layer *layer,
                                   diti_nunchaku_part part, uint32_t first, uint32_t count, float *out,
                                   dit_error *err) {
    const diti_stored_tensor *tensor = layer->parts[part];
    const uint32_t all = (uint32_t)tensor->shape[0];
    float *values = (float *)diti_alloc_array(&checkpoint->env, all, sizeof(float));
    dit_result result = values ? DIT_OK : diti_fail_memory(err, "tensor %.200s", tensor->name);
    uint32_t i;
    if (result >= 0) result = diti_packed_floats(checkpoint, tensor, 0, all, values, err);
    for (i = 0; i < count && result >= 0; i++) {
        uint32_t n = first + i;
        out[i] = values[n / DITI_NUNCHAKU_TILE * DITI_NUNCHAKU_TILE + diti_tile_place(n % DITI_NUNCHAKU_TILE)];
    }
    diti_free(&checkpoint->env, values);
    return result;
}

/* A bias of modulation; the file's has 1 added to the scales of norms, the second and the last but one of the splits,
   which the model adds itself. */
static dit_result diti_awq_bias(const diti_checkpoint *checkpoint, const diti_nunchaku_layer *layer, uint32_t first,
                                uint32_t count, float *out, dit_error *err) {
    const uint32_t splits = layer->splits, share = layer->rows / splits;
    float *values = (float *)diti_alloc_array(&checkpoint->env, layer->rows, sizeof(float));
    dit_result result = values ? DIT_OK : diti_fail_memory(err, "a bias of modulation");
    uint32_t i;
    if (result >= 0)
        result = diti_packed_floats(checkpoint, layer->parts[DITI_NUNCHAKU_BIAS], 0, layer->rows, values, err);
    for (i = 0; i < count && result >= 0; i++) {
        uint32_t split = (first + i) / share, row = (first + i) % share;
        out[i] = values[row * splits + split] - (split == 1 || split == splits - 2 ? 1.0f : 0.0f);
    }
    diti_free(&checkpoint->env, values);
    return result;
}

static dit_result diti_made_shift(const diti_checkpoint *checkpoint, const diti_nunchaku_layer *layer, uint32_t first,
                                  uint32_t count, double *sums, dit_error *err) {
    const size_t pitch = (size_t)layer->columns / 32 * DITI_Q4_0_BYTES;
    unsigned char *run = (unsigned char *)diti_alloc(&checkpoint->env, DITI_NUNCHAKU_TILE * pitch);
    float *values = (float *)diti_alloc_array(&checkpoint->env, layer->columns, sizeof(float));
    float *smooth = (float *)diti_alloc_array(&checkpoint->env, layer->columns, sizeof(float));
    dit_result result = run && values && smooth ? DIT_OK : diti_fail_memory(err, "a bias of nunchaku's");
    uint32_t row, rows;
    if (result >= 0) result = diti_made_vector(checkpoint, layer, DITI_NUNCHAKU_SMOOTH, 0, layer->columns, smooth, err);
    for (row = 0; row < count && result >= 0; row += rows) {
        rows = diti_made_run(layer, first + row, count - row);
        result = diti_made_rows(checkpoint, layer, first + row, rows, run, pitch, err);
        if (result >= 0) diti_shift_rows(layer, run, rows, pitch, smooth, values, sums + row);
    }
    diti_free(&checkpoint->env, smooth);
    diti_free(&checkpoint->env, values);
    diti_free(&checkpoint->env, run);
    return result;
}

static dit_result diti_made_bias_of(const diti_checkpoint *checkpoint, const diti_nunchaku_layer *layer, uint32_t first,
                                    uint32_t count, float *values, double *sums, dit_error *err) {
    uint32_t i;
    if (layer->parts[DITI_NUNCHAKU_BIAS]) {
        DITI_TRY(layer->splits ? diti_awq_bias(checkpoint, layer, first, count, values, err)
                               : diti_made_vector(checkpoint, layer, DITI_NUNCHAKU_BIAS, first, count, values, err));
        for (i = 0; i < count; i++) sums[i] += (double)values[i];
    }
    return layer->shifted ? diti_made_shift(checkpoint, layer, first, count, sums, err) : DIT_OK;
}

static dit_result diti_made_bias(const diti_checkpoint *checkpoint, const diti_stored_tensor *tensor, float *out,
                                 dit_error *err) {
    const diti_nunchaku_tensor *made = tensor->made;
    const uint32_t count = (uint32_t)tensor->shape[0];
    double *sums = (double *)diti_alloc_array(&checkpoint->env, count, sizeof *sums);
    dit_result result = sums ? DIT_OK : diti_fail_memory(err, "tensor %.200s", tensor->name);
    uint32_t i;
    for (i = 0; i < 2 && made->layers[i] && result >= 0; i++)
        result = diti_made_bias_of(checkpoint, made->layers[i], made->first, count, out, sums, err);
    for (i = 0; i < count && result >= 0; i++) out[i] = (float)sums[i];
    diti_free(&checkpoint->env, sums);
    return result;
}

static dit_result diti_made_low_rank(const diti_checkpoint *checkpoint, const diti_stored_tensor *tensor, float *out,
                                     dit_error *err) {
    uint32_t i, at = 0, column = 0;
    memset(out, 0, (size_t)tensor->size);
    for (i = 0; i < 2 && tensor->made->layers[i]; i++) {
        const diti_nunchaku_layer *layer = tensor->made->layers[i];
        const diti_stored_tensor *part = layer->parts[DITI_NUNCHAKU_DOWN];
        uint32_t rank = part ? (uint32_t)part->shape[1] : 0;
        if (rank) DITI_TRY(diti_made_low_rank_of(checkpoint, tensor, layer, rank, at, column, out, err));
        at += rank;
        column += layer->columns;
    }
    return DIT_OK;
}

/* Divides a layer's smoothing factors by the factor of its matrix, which multiplies the columns so: layers side by side
   may have different ones. */
static dit_result diti_made_factor(const diti_checkpoint *checkpoint, const diti_nunchaku_layer *layer, float *smooth,
                                   dit_error *err) {
    const diti_stored_tensor *tensor = layer->parts[DITI_NUNCHAKU_FACTOR];
    float factor;
    uint32_t i;
    if (!tensor) return DIT_OK;
    DITI_TRY(diti_packed_floats(checkpoint, tensor, 0, 1, &factor, err));
    if (factor == 0 || !(factor - factor == 0))
        return diti_fail(err, DIT_ERROR_BAD_FILE, "%s: tensor '%.200s' is %g; it must be finite and not 0",
                         diti_checkpoint_name(checkpoint), tensor->name, (double)factor);
    for (i = 0; i < layer->columns; i++) smooth[i] /= factor;
    return DIT_OK;
}

/* Factors of rows; of layers side by side they must be alike. */
static dit_result diti_made_row_factors(const diti_checkpoint *checkpoint, const diti_stored_tensor *tensor, float *out,
                                        dit_error *err) {
    const uint32_t count = (uint32_t)tensor->shape[0];
    float *other = (float *)diti_alloc_array(&checkpoint->env, count, sizeof *other);
    dit_result result = other ? DIT_OK : diti_fail_memory(err, "tensor %.200s", tensor->name);
    uint32_t i, k;
    for (i = 0; i < 2 && tensor->made->layers[i] && result >= 0; i++) {
        float *to = i ? other : out;
        for (k = 0; k < count; k++) to[k] = 1;
        if (tensor->made->layers[i]->parts[DITI_NUNCHAKU_ROW_FACTORS])
            result = diti_made_vector(checkpoint, tensor->made->layers[i], DITI_NUNCHAKU_ROW_FACTORS,
                                      tensor->made->first, count, to, err);
        if (result >= 0 && i && memcmp(out, other, count * sizeof *out))
            result = diti_fail(err, DIT_ERROR_UNSUPPORTED_MODEL,
                               "%s: tensor '%.200s' is made of layers whose wcscales differ, which dit.h cannot apply",
                               diti_checkpoint_name(checkpoint), tensor->name);
    }
    diti_free(&checkpoint->env, other);
    return result;
}

static dit_result diti_made_smooth(const diti_checkpoint *checkpoint, const diti_stored_tensor *tensor, float *out,
                                   dit_error *err) {
    uint32_t i, column = 0;
    for (i = 0; i < 2 && tensor->made->layers[i]; i++) {
        const diti_nunchaku_layer *layer = tensor->made->layers[i];
        DITI_TRY(diti_made_vector(checkpoint, layer, DITI_NUNCHAKU_SMOOTH, 0, layer->columns, out + column, err));
        DITI_TRY(diti_made_factor(checkpoint, layer, out + column, err));
        column += layer->columns;
    }
    return DIT_OK;
}

/* --- any tensor --- */

static dit_result diti_made_floats(const diti_checkpoint *checkpoint, const diti_stored_tensor *tensor, float *out,
                                   dit_error *err) {
    switch (tensor->made->part) {
    case DITI_NUNCHAKU_BIAS: return diti_made_bias(checkpoint, tensor, out, err);
    case DITI_NUNCHAKU_SMOOTH: return diti_made_smooth(checkpoint, tensor, out, err);
    case DITI_NUNCHAKU_ROW_FACTORS: return diti_made_row_factors(checkpoint, tensor, out, err);
    default: return diti_made_low_rank(checkpoint, tensor, out, err);
    }
}

DIT_INTERNAL dit_result diti_nunchaku_read(const diti_checkpoint *checkpoint, const diti_stored_tensor *tensor,
                                           uint64_t offset, unsigned char *out, size_t size, dit_error *err) {
    float *values;
    dit_result result;
    if (tensor->made->part == DITI_NUNCHAKU_VALUES) return diti_made_values(checkpoint, tensor, offset, out, size, err);
    values = (float *)diti_alloc(&checkpoint->env, (size_t)tensor->size);
    if (!values) return diti_fail_memory(err, "tensor %.200s", tensor->name);
    result = diti_made_floats(checkpoint, tensor, values, err);
    if (result >= 0) memcpy(out, (const unsigned char *)values + offset, size);
    diti_free(&checkpoint->env, values);
    return result;
}

DITI_REGION_END
