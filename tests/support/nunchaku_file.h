/* Layers as nunchaku's files have them, packed from integers and floats by the places that tests/reference/nunchaku.py
   writes down, and the layers that they mean, in doubles. Include it after lora_file.h. */
#ifndef NUNCHAKU_FILE_H
#define NUNCHAKU_FILE_H
#include "small_floats.h"

enum { NUNCHAKU_TILE = 128, NUNCHAKU_GROUP = 64 };
#define NUNCHAKU_SHIFT 0.171875 /* what is added to GELU's results */

static inline uint64_t nunchaku_up(uint64_t n, uint64_t to) { return (n + to - 1) / to * to; }

/* bfloat16 to nearest; its value comes back in *value. */
static inline uint16_t nunchaku_bfloat(double *value) {
    uint16_t bits = diti_float_to_bfloat((float)*value);
    *value = (double)diti_bfloat_to_float(bits);
    return bits;
}

static inline uint64_t nunchaku_scale_place(uint64_t n) {
    uint64_t t = n % NUNCHAKU_TILE;
    return n - t + t / 16 * 16 + t % 8 / 2 * 4 + t / 8 % 2 * 2 + t % 2;
}

static inline void nunchaku_add(lora_file *file, const char *base, const char *ending, const char *type, uint64_t first,
                                uint64_t second, const void *values, size_t size) {
    const uint64_t shape[2] = {first, second};
    char name[300];
    snprintf(name, sizeof name, "%s%s", base, ending);
    lora_file_bytes(file, name, type, shape, second ? 2 : 1, values, size);
}

/* values [count], rounded in place; ones fill up. */
static inline void nunchaku_vector(lora_file *file, const char *base, const char *ending, double *values,
                                   uint64_t count) {
    uint64_t i, all = nunchaku_up(count, NUNCHAKU_TILE);
    uint16_t *out = (uint16_t *)malloc((size_t)all * 2);
    for (i = 0; i < all; i++) {
        double one = 1;
        out[nunchaku_scale_place(i)] = nunchaku_bfloat(i < count ? &values[i] : &one);
    }
    nunchaku_add(file, base, ending, "BF16", all, 0, out, (size_t)all * 2);
    free(out);
}

/* scales [rows][groups], rounded already. */
static inline void nunchaku_scales(lora_file *file, const char *base, const double *scales, uint64_t rows,
                                   uint64_t groups) {
    uint64_t n, g, tall = nunchaku_up(rows, NUNCHAKU_TILE), wide = nunchaku_up(groups, 2);
    uint16_t *out = (uint16_t *)malloc((size_t)(tall * wide) * 2);
    for (n = 0; n < tall; n++) {
        for (g = 0; g < wide; g++) {
            double value = n < rows && g < groups ? scales[n * groups + g] : 1;
            out[n / NUNCHAKU_TILE * wide * NUNCHAKU_TILE + g * NUNCHAKU_TILE +
                nunchaku_scale_place(n % NUNCHAKU_TILE)] = nunchaku_bfloat(&value);
        }
    }
    nunchaku_add(file, base, ".wscales", "BF16", wide, tall, out, (size_t)(tall * wide) * 2);
    free(out);
}

/* q [rows][columns], -8 to 7. */
static inline void nunchaku_values(lora_file *file, const char *base, const int8_t *q, uint64_t rows,
                                   uint64_t columns) {
    uint64_t n, k, tall = nunchaku_up(rows, NUNCHAKU_TILE), wide = nunchaku_up(columns, NUNCHAKU_TILE);
    unsigned char *out = (unsigned char *)calloc((size_t)(tall * wide / 2), 1);
    for (n = 0; n < rows; n++) {
        for (k = 0; k < columns; k++) {
            uint64_t t = n % NUNCHAKU_TILE, w = k % 64;
            uint64_t word = (((n / NUNCHAKU_TILE * (wide / 64) + k / 64) * 8 + t / 16) * 8 + t % 8) * 4 + w % 32 / 8;
            word = word * 4 + t / 8 % 2 * 2 + w / 32;
            out[word * 4 + w % 8 / 2] |= (unsigned char)((q[n * columns + k] & 15) << w % 2 * 4);
        }
    }
    nunchaku_add(file, base, ".qweight", "I8", tall, wide / 2, out, (size_t)(tall * wide / 2));
    free(out);
}

/* down [rank][count] or up [count][rank], rounded in place. */
static inline void nunchaku_low_rank(lora_file *file, const char *base, const char *ending, double *values,
                                     uint64_t count, uint64_t rank, bool down) {
    uint64_t i, r, tall = nunchaku_up(count, NUNCHAKU_TILE);
    uint16_t *out = (uint16_t *)calloc((size_t)(tall * rank), 2);
    for (i = 0; i < count; i++) {
        for (r = 0; r < rank; r++) {
            uint64_t n = (down ? r : i) % 16, k = (down ? i : r) % 16, tile = i / 16 * (rank / 16) + r / 16;
            out[tile * 256 + (n % 8 * 4 + k % 8 / 2) * 8 + n / 8 * 4 + k / 8 * 2 + k % 2] =
                nunchaku_bfloat(&values[down ? r * count + i : i * rank + r]);
        }
    }
    nunchaku_add(file, base, ending, "BF16", tall, rank, out, (size_t)(tall * rank) * 2);
    free(out);
}

/* q [rows][columns], 0 to 15; text: of a text encoder, whose words have 16 bits and not 32. */
static inline void nunchaku_awq(lora_file *file, const char *base, const uint8_t *q, uint64_t rows, uint64_t columns,
                                bool text) {
    uint64_t n, k;
    uint16_t *out = (uint16_t *)calloc((size_t)(rows * columns / 4), 2);
    for (n = 0; n < rows; n++) {
        for (k = 0; k < columns; k++) {
            uint64_t word = ((n / 4 * (columns / 64) + k / 64) * 4 + n % 4) * 16 + k % 64 / 32 * 8 + k % 8;
            out[word] |= (uint16_t)(q[n * columns + k] << k % 32 / 8 * 4);
        }
    }
    nunchaku_add(file, base, ".qweight", text ? "I16" : "I32", rows / 4, text ? columns : columns / 2, out,
                 (size_t)(rows * columns / 2));
    free(out);
}

/* --- whole layers from weights [rows, columns] and a bias [rows] of floats, which become those that the file means ---
 */

typedef struct nunchaku_names {
    const char *smooth, *down, *up;
} nunchaku_names;

static inline double nunchaku_random(const char *name, uint64_t seed, uint64_t i) {
    return (double)(real_random(diti_hash(name, strlen(name)) + seed, i) >> 11) / 9007199254740992.0;
}

static inline double *nunchaku_spread(const char *name, uint64_t seed, uint64_t count, double least, double most) {
    double *out = (double *)malloc((size_t)count * sizeof *out);
    uint64_t i;
    for (i = 0; i < count; i++) out[i] = least + (most - least) * nunchaku_random(name, seed, i);
    return out;
}

/* Row n of (weight - up down) * smooth in groups of 64, and of weight what these, divided again, and the low-rank part
   make. */
static inline void nunchaku_round_row(float *weight, uint64_t n, uint64_t columns, const double *smooth,
                                      const double *down, const double *up, uint64_t rank, int8_t *q, double *scales) {
    uint64_t g, k, r;
    for (g = 0; g < columns / NUNCHAKU_GROUP; g++) {
        double most = 0, rest[NUNCHAKU_GROUP], low[NUNCHAKU_GROUP];
        for (k = 0; k < NUNCHAKU_GROUP; k++) {
            uint64_t c = g * NUNCHAKU_GROUP + k;
            for (r = 0, low[k] = 0; r < rank; r++) low[k] += up[n * rank + r] * down[r * columns + c];
            rest[k] = ((double)weight[n * columns + c] - low[k]) * smooth[c];
            if (fabs(rest[k]) > most) most = fabs(rest[k]);
        }
        scales[n * (columns / NUNCHAKU_GROUP) + g] = most / 7;
        nunchaku_bfloat(&scales[n * (columns / NUNCHAKU_GROUP) + g]);
        for (k = 0; k < NUNCHAKU_GROUP; k++) {
            uint64_t c = g * NUNCHAKU_GROUP + k;
            double scale = scales[n * (columns / NUNCHAKU_GROUP) + g], value = rint(rest[k] / scale);
            if (c % 61 == 5) value = -8; /* which roundings do not make */
            if (value > 7) value = 7;
            q[n * columns + c] = (int8_t)value;
            weight[n * columns + c] = (float)(scale * value / smooth[c] + low[k]);
        }
    }
}

/* bias may be NULL. shifted: x is what GELU makes. */
static inline void nunchaku_layer(lora_file *file, const char *base, const nunchaku_names *names, float *weight,
                                  float *bias, uint64_t rows, uint64_t columns, uint64_t rank, bool shifted) {
    double *smooth = nunchaku_spread(base, 1, columns, 0.3, 3),
           *scales = nunchaku_spread(base, 2, rows * columns / 64, 0, 1);
    double *down = nunchaku_spread(base, 3, rank * columns, -0.1, 0.1),
           *up = nunchaku_spread(base, 4, rows * rank, -0.3, 0.3);
    int8_t *q = (int8_t *)malloc((size_t)(rows * columns));
    double *sums = (double *)calloc((size_t)rows, sizeof *sums);
    uint64_t n, k;
    nunchaku_vector(file, base, names->smooth, smooth, columns);
    if (rank) nunchaku_low_rank(file, base, names->down, down, columns, rank, true);
    if (rank) nunchaku_low_rank(file, base, names->up, up, rows, rank, false);
    for (n = 0; n < rows; n++) {
        nunchaku_round_row(weight, n, columns, smooth, down, up, rank, q, scales);
        for (k = 0; k < columns; k++) /* what the shift of x makes, which is not the low-rank part's */
            sums[n] += NUNCHAKU_SHIFT * scales[n * (columns / 64) + k / 64] * q[n * columns + k] / smooth[k];
    }
    nunchaku_values(file, base, q, rows, columns);
    nunchaku_scales(file, base, scales, rows, columns / 64);
    if (bias) {
        double *stored = (double *)malloc((size_t)rows * sizeof *stored);
        for (n = 0; n < rows; n++) stored[n] = (double)bias[n] - (shifted ? sums[n] : 0);
        nunchaku_vector(file, base, ".bias", stored, rows);
        for (n = 0; n < rows; n++) bias[n] = (float)(stored[n] + (shifted ? sums[n] : 0));
        free(stored);
    }
    free(sums);
    free(q);
    free(up);
    free(down);
    free(scales);
    free(smooth);
}

/* Place of the scale of row n and a group of 16 columns: four groups of a row stand together. */
static inline uint64_t nunchaku_fours_place(uint64_t n, uint64_t g, uint64_t groups) {
    uint64_t t = n % NUNCHAKU_TILE;
    return ((n / NUNCHAKU_TILE * (groups / 4) + g / 4) * NUNCHAKU_TILE + (t % 8 * 4 + t / 8 % 4) * 4 + t / 32) * 4 +
           g % 4;
}

/* Row n of (weight - up down) * smooth as floats of 4 bits times `factor`, and of weight what these and the low-rank
   part make. */
static inline void nunchaku_fours_row(float *weight, uint64_t n, uint64_t columns, const double *smooth,
                                      const double *down, const double *up, uint64_t rank, double factor, int8_t *q,
                                      uint8_t *scales) {
    uint64_t g, k, r, wide = nunchaku_up(columns, NUNCHAKU_TILE) / 16;
    for (g = 0; g < columns / 16; g++) {
        double most = 0, rest[16], low[16], step;
        uint8_t scale;
        for (k = 0; k < 16; k++) {
            uint64_t c = g * 16 + k;
            for (r = 0, low[k] = 0; r < rank; r++) low[k] += up[n * rank + r] * down[r * columns + c];
            rest[k] = ((double)weight[n * columns + c] - low[k]) * smooth[c];
            most = fmax(most, fabs(rest[k]));
        }
        scale = small_floats_code(most / 6 / factor, diti_e4m3_to_float);
        step = (double)diti_e4m3_to_float(scale) * factor;
        scales[nunchaku_fours_place(n, g, wide)] = scale;
        for (k = 0; k < 16; k++) {
            uint64_t c = g * 16 + k;
            uint8_t nibble = step > 0 ? small_floats_nibble(rest[k] / step) : 0;
            q[n * columns + c] = (int8_t)nibble;
            weight[n * columns + c] = (float)(small_floats_value(nibble) * step / smooth[c] + low[k]);
        }
    }
}

/* A layer of fp4; by_row: it has a factor for each row (wcscales) in place of one (wtscale). */
static inline void nunchaku_fours(lora_file *file, const char *base, const nunchaku_names *names, float *weight,
                                  float *bias, uint64_t rows, uint64_t columns, uint64_t rank, bool by_row) {
    double *smooth = nunchaku_spread(base, 1, columns, 0.3, 3),
           *factors = (double *)malloc((size_t)rows * sizeof(double));
    double *down = nunchaku_spread(base, 3, rank * columns, -0.1, 0.1),
           *up = nunchaku_spread(base, 4, rows * rank, -0.3, 0.3),
           *stored = (double *)malloc((size_t)rows * sizeof(double));
    uint64_t n, tall = nunchaku_up(rows, NUNCHAKU_TILE), wide = nunchaku_up(columns, NUNCHAKU_TILE) / 16;
    uint8_t *scales = (uint8_t *)calloc((size_t)(tall * wide), 1);
    int8_t *q = (int8_t *)malloc((size_t)(rows * columns));
    float factor = (float)(small_floats_most(weight, rows * columns) / 300);
    char name[300];
    nunchaku_vector(file, base, names->smooth, smooth, columns);
    if (rank) nunchaku_low_rank(file, base, names->down, down, columns, rank, true);
    if (rank) nunchaku_low_rank(file, base, names->up, up, rows, rank, false);
    for (n = 0; n < rows; n++) factors[n] = by_row ? (double)factor * (1 + (double)(n % 7) / 8) : (double)factor;
    if (by_row) nunchaku_vector(file, base, ".wcscales", factors, rows);
    snprintf(name, sizeof name, "%s.wtscale", base);
    if (!by_row) lora_file_number(file, name, factor);
    for (n = 0; n < rows; n++) nunchaku_fours_row(weight, n, columns, smooth, down, up, rank, factors[n], q, scales);
    nunchaku_values(file, base, q, rows, columns);
    nunchaku_add(file, base, ".wscales", "F8_E4M3", wide, tall, scales, (size_t)(tall * wide));
    for (n = 0; n < rows && bias; n++) stored[n] = (double)bias[n];
    if (bias) nunchaku_vector(file, base, ".bias", stored, rows);
    for (n = 0; n < rows && bias; n++) bias[n] = (float)stored[n];
    free(q);
    free(scales);
    free(stored);
    free(up);
    free(down);
    free(factors);
    free(smooth);
}

/* A layer of modulation: row s * share + d of weight is row d * splits + s of the file. */
static inline void nunchaku_modulation(lora_file *file, const char *base, float *weight, float *bias, uint64_t rows,
                                       uint64_t columns, uint32_t splits) {
    uint64_t n, g, k, groups = columns / 64, share = rows / splits, all = nunchaku_up(groups, 16);
    uint8_t *q = (uint8_t *)malloc((size_t)(rows * columns));
    uint16_t *scales = (uint16_t *)calloc((size_t)(2 * all * rows), 2), *zeros = scales + all * rows;
    uint16_t *stored = (uint16_t *)malloc((size_t)rows * 2);
    for (n = 0; n < rows; n++) {
        uint64_t from = n % splits * share + n / splits;
        double one = n % splits == 1 || n % splits == splits - 2u, value = (double)bias[from] + one;
        stored[n] = nunchaku_bfloat(&value);
        bias[from] = (float)(value - one);
        for (g = 0; g < groups; g++) {
            double most = 0, scale, zero;
            float *w = weight + from * columns + g * 64;
            for (k = 0; k < 64; k++) most = fabs((double)w[k]) > most ? fabs((double)w[k]) : most;
            scale = most / 7.5;
            scales[g * rows + n] = nunchaku_bfloat(&scale);
            zero = -7 * scale;
            zeros[g * rows + n] = nunchaku_bfloat(&zero);
            for (k = 0; k < 64; k++) {
                double value4 = rint(((double)w[k] - zero) / scale);
                value4 = value4 < 0 ? 0 : value4 > 15 ? 15 : value4;
                q[n * columns + g * 64 + k] = (uint8_t)value4;
                w[k] = (float)(scale * value4 + zero);
            }
        }
    }
    nunchaku_awq(file, base, q, rows, columns, false);
    nunchaku_add(file, base, ".wscales", "BF16", all, rows, scales, (size_t)(all * rows) * 2);
    nunchaku_add(file, base, ".wzeros", "BF16", all, rows, zeros, (size_t)(all * rows) * 2);
    nunchaku_add(file, base, ".bias", "BF16", rows, 0, stored, (size_t)rows * 2);
    free(stored);
    free(scales);
    free(q);
}

/* A layer of a text encoder: groups of 128 columns, with scales and zeros in halves, and rows of them for groups that
   do not exist. */
static inline void nunchaku_text(lora_file *file, const char *base, float *weight, uint64_t rows, uint64_t columns) {
    uint64_t n, g, k, groups = columns / 128, all = nunchaku_up(groups, 8);
    uint8_t *q = (uint8_t *)malloc((size_t)(rows * columns));
    uint16_t *scales = (uint16_t *)calloc((size_t)(2 * all * rows), 2), *zeros = scales + all * rows;
    for (n = 0; n < rows; n++) {
        for (g = 0; g < groups; g++) {
            float *w = weight + n * columns + g * 128;
            double least = (double)w[0], most = (double)w[0], scale, zero;
            for (k = 0; k < 128; k++) least = fmin(least, (double)w[k]), most = fmax(most, (double)w[k]);
            scales[g * rows + n] = diti_float_to_half((float)((most - least) / 15));
            zeros[g * rows + n] = diti_float_to_half((float)least);
            scale = (double)diti_half_to_float(scales[g * rows + n]);
            zero = (double)diti_half_to_float(zeros[g * rows + n]);
            for (k = 0; k < 128; k++) {
                double value = rint(((double)w[k] - zero) / scale);
                value = value < 0 ? 0 : value > 15 ? 15 : value;
                q[n * columns + g * 128 + k] = (uint8_t)value;
                w[k] = (float)(scale * value + zero);
            }
        }
    }
    nunchaku_awq(file, base, q, rows, columns, true);
    nunchaku_add(file, base, ".scales", "F16", all, rows, scales, (size_t)(all * rows) * 2);
    nunchaku_add(file, base, ".scaled_zeros", "F16", all, rows, zeros, (size_t)(all * rows) * 2);
    free(scales);
    free(q);
}
#endif
