/* ggml's reference quantization of blocks of 32, and the encoding of every type. */
#ifndef CONVERT_BLOCKS_H
#define CONVERT_BLOCKS_H
#include "kblocks.h"

/* The element of largest magnitude, with its sign. */
static float extreme(const float *x) {
    float found = 0;
    for (int i = 0; i < 32; i++) {
        if (fabsf(x[i]) > fabsf(found)) found = x[i];
    }
    return found;
}

static void range(const float *x, float *least, float *most) {
    *least = *most = x[0];
    for (int i = 1; i < 32; i++) {
        if (x[i] < *least) *least = x[i];
        if (x[i] > *most) *most = x[i];
    }
}

/* A scale that is nearly 0 has no inverse; codes are 0 then, as ggml's are on most processors. */
static int whole(float value) { return fabsf(value) < 1e9f ? (int)value : 0; }

static void quantize_q8_0(const float *x, uint8_t *block) {
    float scale = fabsf(extreme(x)) / 127, inverse = scale != 0 ? 1 / scale : 0;
    store_half(block, scale);
    for (int i = 0; i < 32; i++) block[2 + i] = (uint8_t)(int8_t)whole(roundf(x[i] * inverse));
}

/* The codes of a type with 2^bits levels: symmetric around levels / 2, or from the least value up. Returns scale and
 * offset. */
static void codes_symmetric(const float *x, int levels, uint8_t *codes, float *scale) {
    float half = (float)(levels / 2), inverse;
    *scale = extreme(x) / -half;
    inverse = *scale != 0 ? 1 / *scale : 0;
    for (int i = 0; i < 32; i++) {
        int code = whole(x[i] * inverse + (half + 0.5f));
        codes[i] = (uint8_t)(code < levels ? code : levels - 1);
    }
}

static void codes_with_offset(const float *x, int levels, uint8_t *codes, float *scale, float *least) {
    float most, inverse;
    range(x, least, &most);
    *scale = (most - *least) / (float)(levels - 1);
    inverse = *scale != 0 ? 1 / *scale : 0;
    for (int i = 0; i < 32; i++) {
        int code = whole((x[i] - *least) * inverse + 0.5f);
        codes[i] = (uint8_t)(code < levels ? code : levels - 1);
    }
}

static void store_nibbles(const uint8_t *codes, uint8_t *out) {
    for (int i = 0; i < 16; i++) out[i] = (uint8_t)((codes[i] & 15) | (codes[i + 16] & 15) << 4);
}

static void store_fifth_bits(const uint8_t *codes, uint8_t *out) {
    memset(out, 0, 4);
    for (int i = 0; i < 32; i++) out[i / 8] = (uint8_t)(out[i / 8] | (codes[i] >> 4) << i % 8);
}

static void quantize_block(dit_type type, const float *x, uint8_t *block) {
    uint8_t codes[32];
    float scale, least = 0;
    bool offset = type == DIT_TYPE_Q4_1 || type == DIT_TYPE_Q5_1, five = type == DIT_TYPE_Q5_0 || type == DIT_TYPE_Q5_1;
    if (type == DIT_TYPE_Q8_0) {
        quantize_q8_0(x, block);
        return;
    }
    if (offset)
        codes_with_offset(x, five ? 32 : 16, codes, &scale, &least);
    else
        codes_symmetric(x, five ? 32 : 16, codes, &scale);
    store_half(block, scale);
    block += 2;
    if (offset) {
        store_half(block, least);
        block += 2;
    }
    if (five) {
        store_fifth_bits(codes, block);
        block += 4;
    }
    store_nibbles(codes, block);
}

static void encode(dit_type type, const float *values, size_t count, uint8_t *out) {
    uint32_t block = diti_type_block(type), bytes = diti_type_block_bytes(type);
    for (size_t i = 0; i < count; i += block, out += bytes) {
        uint16_t bfloat = diti_float_to_bfloat(values[i]);
        switch (type) {
        case DIT_TYPE_F32: memcpy(out, &values[i], 4); break;
        case DIT_TYPE_F16: store_half(out, values[i]); break;
        case DIT_TYPE_BF16: memcpy(out, &bfloat, 2); break;
        case DIT_TYPE_Q4_K: quantize_q45_k(values + i, 4, out); break;
        case DIT_TYPE_Q5_K: quantize_q45_k(values + i, 5, out); break;
        case DIT_TYPE_Q6_K: quantize_q6_k(values + i, out); break;
        case DIT_TYPE_I4_GROUP: diti_i4_group_encode(values + i, out); break;
        default: quantize_block(type, values + i, out); break;
        }
    }
}

#endif
