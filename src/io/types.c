/* The types that weights are stored in: names, sizes of blocks, and how a block becomes floats. ggml defines the block
   types; docs/models.md 9.2 has their layouts. */
#include "io/io.h"

typedef struct diti_type_layout {
    const char *name;
    uint32_t block, bytes;
} diti_type_layout;

/* In the order of dit_type. Types without a block have rows of their own kind (i8_row.c). */
static const diti_type_layout diti_type_layouts[] = {
    {"stored", 0, 0},         {"F32", 1, 4},         {"F16", 1, 2},
    {"BF16", 1, 2},           {"F8_E4M3", 1, 1},     {"F8_E5M2", 1, 1},
    {"Q8_0", 32, 34},         {"Q4_0", 32, 18},      {"Q4_1", 32, 20},
    {"Q5_0", 32, 22},         {"Q5_1", 32, 24},      {"Q2_K", 256, 84},
    {"Q3_K", 256, 110},       {"Q4_K", 256, 144},    {"Q5_K", 256, 176},
    {"Q6_K", 256, 210},       {"I4_GROUP", 128, 68}, {"MXFP4", 32, 17},
    {"NVFP4", 64, 36},        {"I8_ROW", 0, 0},      {"I8_ROW_ROTATED", 0, 0},
    {"I4_ROW_ROTATED", 0, 0}, {"I32", 1, 4},         {"I64", 1, 8},
};

static const diti_type_layout *diti_type_find_layout(dit_type type) {
    size_t index = (size_t)type;
    return &diti_type_layouts[index < DITI_COUNT(diti_type_layouts) ? index : 0];
}

DIT_INTERNAL const char *diti_type_name(dit_type type) { return diti_type_find_layout(type)->name; }
DIT_API const char *dit_type_name(dit_type type) { return diti_type_name(type); }
DIT_INTERNAL uint32_t diti_type_block(dit_type type) { return diti_type_find_layout(type)->block; }
DIT_INTERNAL uint32_t diti_type_block_bytes(dit_type type) { return diti_type_find_layout(type)->bytes; }

DIT_INTERNAL bool diti_type_bytes(dit_type type, uint64_t rows, uint64_t row_length, uint64_t *out) {
    const diti_type_layout *layout = diti_type_find_layout(type);
    if (!layout->block || row_length % layout->block) return false;
    return diti_mul_u64(rows, row_length / layout->block, out) && diti_mul_u64(*out, layout->bytes, out);
}

/* --- decoding: one function per type, one block per call. All products below are exact in float (11 + 6 + 5 bits at
   most), so that only the last addition rounds and no compiler's contraction changes a bit. --- */

static uint16_t diti_load_u16(const uint8_t *bytes) { return (uint16_t)(bytes[0] | bytes[1] << 8); }

static uint32_t diti_load_u32(const uint8_t *bytes) {
    return (uint32_t)diti_load_u16(bytes) | (uint32_t)diti_load_u16(bytes + 2) << 16;
}

static float diti_load_half(const uint8_t *bytes) { return diti_half_to_float(diti_load_u16(bytes)); }

static void diti_decode_f32(const uint8_t *bytes, float *out) { memcpy(out, bytes, 4); }
static void diti_decode_f16(const uint8_t *bytes, float *out) { *out = diti_load_half(bytes); }
static void diti_decode_bf16(const uint8_t *bytes, float *out) { *out = diti_bfloat_to_float(diti_load_u16(bytes)); }
static void diti_decode_e4m3(const uint8_t *bytes, float *out) { *out = diti_e4m3_to_float(*bytes); }
static void diti_decode_e5m2(const uint8_t *bytes, float *out) { *out = diti_e5m2_to_float(*bytes); }
static void diti_decode_i32(const uint8_t *bytes, float *out) {
    int32_t value;
    memcpy(&value, bytes, sizeof value);
    *out = (float)value;
}
static void diti_decode_i64(const uint8_t *bytes, float *out) {
    int64_t value;
    memcpy(&value, bytes, sizeof value);
    *out = (float)value;
}

static void diti_decode_q8_0(const uint8_t *block, float *out) {
    float scale = diti_load_half(block);
    int i;
    for (i = 0; i < 32; i++) out[i] = scale * (float)(int8_t)block[2 + i];
}

static void diti_decode_q4_0(const uint8_t *block, float *out) {
    float scale = diti_load_half(block);
    int i;
    for (i = 0; i < 16; i++) {
        out[i] = scale * (float)((block[2 + i] & 15) - 8);
        out[i + 16] = scale * (float)((block[2 + i] >> 4) - 8);
    }
}

static void diti_decode_q4_1(const uint8_t *block, float *out) {
    float scale = diti_load_half(block), least = diti_load_half(block + 2);
    int i;
    for (i = 0; i < 16; i++) {
        out[i] = scale * (float)(block[4 + i] & 15) + least;
        out[i + 16] = scale * (float)(block[4 + i] >> 4) + least;
    }
}

/* Fifth bits of the low and high nibbles' elements: bits i and i + 16. */
static int diti_q5_low(const uint8_t *nibbles, uint32_t high, int i) {
    return (nibbles[i] & 15) | (int)(high >> i & 1) << 4;
}
static int diti_q5_high(const uint8_t *nibbles, uint32_t high, int i) {
    return nibbles[i] >> 4 | (int)(high >> (i + 16) & 1) << 4;
}

static void diti_decode_q5_0(const uint8_t *block, float *out) {
    float scale = diti_load_half(block);
    uint32_t high = diti_load_u32(block + 2);
    int i;
    for (i = 0; i < 16; i++) {
        out[i] = scale * (float)(diti_q5_low(block + 6, high, i) - 16);
        out[i + 16] = scale * (float)(diti_q5_high(block + 6, high, i) - 16);
    }
}

static void diti_decode_q5_1(const uint8_t *block, float *out) {
    float scale = diti_load_half(block), least = diti_load_half(block + 2);
    uint32_t high = diti_load_u32(block + 4);
    int i;
    for (i = 0; i < 16; i++) {
        out[i] = scale * (float)diti_q5_low(block + 8, high, i) + least;
        out[i + 16] = scale * (float)diti_q5_high(block + 8, high, i) + least;
    }
}

/* Element e of the two-bit planes that Q2_K and Q3_K share: halves of 128, in each four runs of 32 by rising shift. */
static int diti_k2_bits(const uint8_t *planes, int e) {
    return planes[e / 128 * 32 + e % 32] >> (e % 128 / 32 * 2) & 3;
}

static void diti_decode_q2_k(const uint8_t *block, float *out) {
    const uint8_t *scales = block, *planes = block + 16;
    float scale = diti_load_half(block + 80), least = diti_load_half(block + 82);
    int e;
    for (e = 0; e < 256; e++) {
        uint8_t sub = scales[e / 16];
        out[e] = scale * (float)(sub & 15) * (float)diti_k2_bits(planes, e) - least * (float)(sub >> 4);
    }
}

/* The 16 six-bit scales: low nibbles in bytes 0..7 (all low halves first), upper two bits in bytes 8..11. */
static int diti_q3_k_scale(const uint8_t *packed, int j) {
    int low = j < 8 ? packed[j] & 15 : packed[j - 8] >> 4;
    return (low | (packed[8 + j % 4] >> (j / 4 * 2) & 3) << 4) - 32;
}

static void diti_decode_q3_k(const uint8_t *block, float *out) {
    const uint8_t *mask = block, *planes = block + 32, *scales = block + 96;
    float scale = diti_load_half(block + 108);
    int e;
    for (e = 0; e < 256; e++) {
        int value = diti_k2_bits(planes, e) - (mask[e % 32] >> (e / 32) & 1 ? 0 : 4);
        out[e] = scale * (float)diti_q3_k_scale(scales, e / 16) * (float)value;
    }
}

/* Scale and minimum of sub-block j in the 12 bytes that Q4_K and Q5_K share. */
static void diti_q4_k_scale(const uint8_t *packed, int j, int *scale, int *least) {
    if (j < 4) {
        *scale = packed[j] & 63;
        *least = packed[j + 4] & 63;
    } else {
        *scale = (packed[j + 4] & 15) | packed[j - 4] >> 6 << 4;
        *least = packed[j + 4] >> 4 | packed[j] >> 6 << 4;
    }
}

/* Sub-block s of 32 takes the low (even s) or high nibbles of 32 bytes; high_bits adds a fifth bit where there is one.
 */
static void diti_decode_q45_k(const uint8_t *block, const uint8_t *high_bits, const uint8_t *nibbles, float *out) {
    float scale = diti_load_half(block), least = diti_load_half(block + 2);
    int s, i;
    for (s = 0; s < 8; s++) {
        int sub_scale, sub_least;
        float d, m;
        diti_q4_k_scale(block + 4, s, &sub_scale, &sub_least);
        d = scale * (float)sub_scale;
        m = least * (float)sub_least;
        for (i = 0; i < 32; i++) {
            int value = nibbles[s / 2 * 32 + i] >> (s % 2 * 4) & 15;
            if (high_bits) value |= (high_bits[i] >> s & 1) << 4;
            out[32 * s + i] = d * (float)value - m;
        }
    }
}

static void diti_decode_q4_k(const uint8_t *block, float *out) { diti_decode_q45_k(block, NULL, block + 16, out); }
static void diti_decode_q5_k(const uint8_t *block, float *out) {
    diti_decode_q45_k(block, block + 16, block + 48, out);
}

static void diti_decode_q6_k(const uint8_t *block, float *out) {
    const uint8_t *low = block, *high = block + 128, *scales = block + 192;
    float scale = diti_load_half(block + 208);
    int e;
    for (e = 0; e < 256; e++) {
        int half = e / 128, quarter = e % 128 / 32, l = e % 32;
        int nibble = low[64 * half + 32 * (quarter & 1) + l] >> (quarter / 2 * 4) & 15;
        int value = (nibble | (high[32 * half + l] >> (2 * quarter) & 3) << 4) - 32;
        out[e] = scale * (float)(int8_t)scales[e / 16] * (float)value;
    }
}

/* Quants of I4_GROUP: word w of 4 bytes has elements 8 w to 8 w + 3 in its low nibbles and the next four in its high
   ones, so that a shift and a mask make four neighbours of a word. */
static uint32_t diti_i4_byte(uint32_t e) { return e / 8 * 4 + e % 4; }
static uint32_t diti_i4_shift(uint32_t e) { return e & 4; }

static void diti_decode_i4_group(const uint8_t *block, float *out) {
    float scale = diti_load_half(block), least = diti_load_half(block + 2);
    uint32_t e;
    for (e = 0; e < DITI_I4_GROUP; e++)
        out[e] = scale * (float)(block[4 + diti_i4_byte(e)] >> diti_i4_shift(e) & 15) + least;
}

/* Twice the value of a float of 4 bits (E2M1): a whole number. */
static float diti_e2m1_doubled(uint32_t bits) {
    static const int8_t values[] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
    return (float)values[bits & 15];
}

/* Half of 2^(exponent - 127). */
static float diti_e8m0_halved(uint32_t exponent) {
    uint32_t bits = exponent < 2 ? 0x00200000u << exponent : (exponent - 1) << 23;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static void diti_decode_mxfp4(const uint8_t *block, float *out) {
    float scale = diti_e8m0_halved(block[0]);
    int i;
    for (i = 0; i < 16; i++) {
        out[i] = scale * diti_e2m1_doubled(block[1 + i]);
        out[i + 16] = scale * diti_e2m1_doubled((uint32_t)block[1 + i] >> 4);
    }
}

/* Scales have no sign, and the code of NaN is 0. */
static void diti_decode_nvfp4(const uint8_t *block, float *out) {
    int group, i;
    for (group = 0; group < 4; group++) {
        const uint8_t *nibbles = block + 4 + 8 * group;
        uint8_t code = block[group] & 127;
        float scale = code == 127 ? 0 : diti_e4m3_to_float(code) * 0.5f;
        for (i = 0; i < 8; i++) {
            out[16 * group + i] = scale * diti_e2m1_doubled(nibbles[i]);
            out[16 * group + i + 8] = scale * diti_e2m1_doubled((uint32_t)nibbles[i] >> 4);
        }
    }
}

DIT_INTERNAL void diti_i4_group_pack(const uint8_t *quants, uint16_t scale, uint16_t least, uint8_t *block) {
    uint32_t e;
    memset(block, 0, DITI_I4_GROUP_BYTES);
    block[0] = (uint8_t)scale;
    block[1] = (uint8_t)(scale >> 8);
    block[2] = (uint8_t)least;
    block[3] = (uint8_t)(least >> 8);
    for (e = 0; e < DITI_I4_GROUP; e++) block[4 + diti_i4_byte(e)] |= (uint8_t)((quants[e] & 15) << diti_i4_shift(e));
}

DIT_INTERNAL bool diti_i4_group_encode(const float *values, uint8_t *block) {
    uint8_t quants[DITI_I4_GROUP];
    float least = values[0], most = values[0], scale, inverse;
    uint16_t half, half_least;
    uint32_t e;
    for (e = 0; e < DITI_I4_GROUP; e++) {
        if (!(fabsf(values[e]) <= 65504.0f)) return false;
        if (values[e] < least) least = values[e];
        if (values[e] > most) most = values[e];
    }
    half_least = diti_float_to_half(least);
    least = diti_half_to_float(half_least);
    half = diti_float_to_half((most - least) / 15);
    scale = diti_half_to_float(half);
    inverse = scale > 0 ? 1 / scale : 0;
    for (e = 0; e < DITI_I4_GROUP; e++) {
        float quant = rintf((values[e] - least) * inverse);
        quants[e] = (uint8_t)(quant < 0 ? 0 : quant > 15 ? 15 : quant);
    }
    diti_i4_group_pack(quants, half, half_least, block);
    return true;
}

typedef void (*diti_block_decoder)(const uint8_t *block, float *out);

static diti_block_decoder diti_type_decoder(dit_type type) {
    switch (type) {
    case DIT_TYPE_F32: return diti_decode_f32;
    case DIT_TYPE_F16: return diti_decode_f16;
    case DIT_TYPE_BF16: return diti_decode_bf16;
    case DIT_TYPE_F8_E4M3: return diti_decode_e4m3;
    case DIT_TYPE_F8_E5M2: return diti_decode_e5m2;
    case DIT_TYPE_Q8_0: return diti_decode_q8_0;
    case DIT_TYPE_Q4_0: return diti_decode_q4_0;
    case DIT_TYPE_Q4_1: return diti_decode_q4_1;
    case DIT_TYPE_Q5_0: return diti_decode_q5_0;
    case DIT_TYPE_Q5_1: return diti_decode_q5_1;
    case DIT_TYPE_Q2_K: return diti_decode_q2_k;
    case DIT_TYPE_Q3_K: return diti_decode_q3_k;
    case DIT_TYPE_Q4_K: return diti_decode_q4_k;
    case DIT_TYPE_Q5_K: return diti_decode_q5_k;
    case DIT_TYPE_Q6_K: return diti_decode_q6_k;
    case DIT_TYPE_I4_GROUP: return diti_decode_i4_group;
    case DIT_TYPE_MXFP4: return diti_decode_mxfp4;
    case DIT_TYPE_NVFP4: return diti_decode_nvfp4;
    case DIT_TYPE_I32: return diti_decode_i32;
    case DIT_TYPE_I64: return diti_decode_i64;
    default: return NULL;
    }
}

DIT_INTERNAL void diti_type_to_float(dit_type type, const void *blocks, uint64_t count, float *out) {
    diti_block_decoder decode = diti_type_decoder(type);
    const uint8_t *block = (const uint8_t *)blocks;
    uint32_t elements = diti_type_block(type), bytes = diti_type_block_bytes(type);
    uint64_t done;
    if (!decode) return;
    for (done = 0; done + elements <= count; done += elements, block += bytes) decode(block, out + done);
}
