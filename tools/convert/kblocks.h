/* K-quants: blocks of 256 values, bit for bit what ggml's reference quantizer makes. Its sums are float sums from left
 * to right, so the order of every product and sum here is part of the format; compile with -ffp-contract=off. */
#ifndef CONVERT_KBLOCKS_H
#define CONVERT_KBLOCKS_H
#include "convert.h"

static void store_half(uint8_t *out, float value) {
    uint16_t half = diti_float_to_half(value);
    out[0] = (uint8_t)half;
    out[1] = (uint8_t)(half >> 8);
}

/* The nearest integer, ties to even: adding 1.5 * 2^23 leaves it in the mantissa. Where a scale is so small that its
 * inverse is infinite, the mantissa has what ggml takes for the integer, too. */
static int nearest(float value) {
    uint32_t bits;
    value += 12582912.0f;
    memcpy(&bits, &value, sizeof bits);
    return (int)(bits & 0x7fffff) - 0x400000;
}

static int clamped(int value, int least, int most) { return value < least ? least : value > most ? most : value; }

/* --- 16 values with codes -32..31 and a scale (Q6_K) --- */

enum { Q6_RUN = 16, Q6_HALF = 32 };
static const float least_scale = 1e-15f; /* below it a run is all zeros */

typedef struct fit_sums { /* of values and their codes, weighted by the values' squares */
    float xc, cc;
} fit_sums;

/* Codes of x for an inverse scale; NULL: only their sums. */
static fit_sums code_symmetric(const float *x, float inverse, int *codes) {
    fit_sums sums = {0, 0};
    for (int i = 0; i < Q6_RUN; i++) {
        int code = clamped(nearest(inverse * x[i]), -Q6_HALF, Q6_HALF - 1);
        float weight = x[i] * x[i];
        if (codes) codes[i] = code;
        sums.xc += weight * x[i] * (float)code;
        sums.cc += weight * (float)code * (float)code;
    }
    return sums;
}

/* The scale that fits best in the least squares, of those by which the largest value gets a code of -32 +- 0.9. */
static float fit_symmetric(const float *x, int *codes) {
    float extreme = 0, largest = 0, scale, best;
    fit_sums sums;
    for (int i = 0; i < Q6_RUN; i++) {
        if (fabsf(x[i]) > largest) largest = fabsf(x[i]), extreme = x[i];
    }
    if (largest < least_scale) {
        for (int i = 0; i < Q6_RUN; i++) codes[i] = -Q6_HALF; /* stored as 0 */
        return 0;
    }
    sums = code_symmetric(x, -Q6_HALF / extreme, codes);
    scale = sums.cc != 0 ? sums.xc / sums.cc : 0;
    best = scale * sums.xc;
    for (int trial = -9; trial <= 9; trial++) {
        float inverse = -((float)Q6_HALF + 0.1f * (float)trial) / extreme;
        if (trial == 0) continue;
        sums = code_symmetric(x, inverse, NULL);
        if (!(sums.cc > 0) || !(sums.xc * sums.xc > best * sums.cc)) continue;
        code_symmetric(x, inverse, codes);
        scale = sums.xc / sums.cc;
        best = scale * sums.xc;
    }
    return scale;
}

/* Element e: low nibble, then two high bits, in halves of 128 and quarters of 32. */
static void store_q6(const int *codes, uint8_t *block) {
    memset(block, 0, 192);
    for (int e = 0; e < 256; e++) {
        int half = e / 128, quarter = e % 128 / 32, l = e % 32, code = codes[e] + Q6_HALF;
        uint8_t *low = block + 64 * half + 32 * (quarter & 1) + l, *high = block + 128 + 32 * half + l;
        *low = (uint8_t)(*low | (code & 15) << (quarter / 2 * 4));
        *high = (uint8_t)(*high | (code >> 4) << 2 * quarter);
    }
}

static void quantize_q6_k(const float *x, uint8_t *block) {
    int codes[256];
    float scales[256 / Q6_RUN], extreme = 0, inverse, unit;
    for (int run = 0; run < 256 / Q6_RUN; run++) {
        scales[run] = fit_symmetric(x + Q6_RUN * run, codes + Q6_RUN * run);
        if (fabsf(scales[run]) > fabsf(extreme)) extreme = scales[run];
    }
    if (fabsf(extreme) < least_scale) {
        memset(block, 0, 210);
        return;
    }
    inverse = -128.0f / extreme;
    store_half(block + 208, 1 / inverse);
    unit = diti_half_to_float(diti_float_to_half(1 / inverse));
    for (int run = 0; run < 256 / Q6_RUN; run++) {
        int8_t sub = (int8_t)(nearest(inverse * scales[run]) < 127 ? nearest(inverse * scales[run]) : 127);
        float scale = unit * (float)sub;
        block[192 + run] = (uint8_t)sub;
        for (int i = Q6_RUN * run; i < Q6_RUN * (run + 1) && scale != 0; i++)
            codes[i] = clamped(nearest(x[i] / scale), -Q6_HALF, Q6_HALF - 1);
    }
    store_q6(codes, block);
}

/* --- 32 values with codes 0..levels, a scale and a least value (Q4_K, Q5_K) --- */

enum { K_RUN = 32 };

typedef struct affine_search { /* inverse scales (first + step * i + levels) / range, i to last, are tried */
    int levels, last;
    float first;
} affine_search;

/* The weighted squares of what codes * scale + least is off by. */
static float affine_error(const float *x, const float *weights, const int *codes, float scale, float least) {
    float error = 0;
    for (int i = 0; i < K_RUN; i++) {
        float off = scale * (float)codes[i] + least - x[i];
        error += weights[i] * (off * off);
    }
    return error;
}

/* Scale and least value, at most 0, that fit given codes in the weighted least squares; false where none do. */
static bool solve_affine(const float *x, const float *weights, const int *codes, float *scale, float *least) {
    float w = weights[0], wx = w * x[0], wc = 0, wcc = 0, wxc = 0, determinant;
    for (int i = 1; i < K_RUN; i++) {
        w += weights[i];
        wx += weights[i] * x[i];
    }
    for (int i = 0; i < K_RUN; i++) {
        float code = (float)codes[i];
        wc += weights[i] * code;
        wcc += weights[i] * code * code;
        wxc += weights[i] * code * x[i];
    }
    determinant = w * wcc - wc * wc;
    if (!(determinant > 0)) return false;
    *scale = (w * wxc - wx * wc) / determinant;
    *least = (wcc * wx - wc * wxc) / determinant;
    if (*least > 0) {
        *least = 0;
        *scale = wxc / wcc;
    }
    return true;
}

static float fit_affine(const float *x, const float *weights, const affine_search *search, int *codes, float *minimum) {
    float least = x[0], most = x[0], inverse, scale, best;
    for (int i = 1; i < K_RUN; i++) {
        if (x[i] < least) least = x[i];
        if (x[i] > most) most = x[i];
    }
    if (least > 0) least = 0;
    *minimum = -least;
    if (most == least) {
        memset(codes, 0, K_RUN * sizeof *codes);
        return 0;
    }
    inverse = (float)search->levels / (most - least);
    scale = 1 / inverse;
    for (int i = 0; i < K_RUN; i++) codes[i] = clamped(nearest(inverse * (x[i] - least)), 0, search->levels);
    best = affine_error(x, weights, codes, scale, least);
    for (int trial = 0; trial <= search->last; trial++) {
        int tried[K_RUN];
        float fitted, below, error;
        /* the range goes on from the best least value so far */
        inverse = (search->first + 0.1f * (float)trial + (float)search->levels) / (most - least);
        for (int i = 0; i < K_RUN; i++) tried[i] = clamped(nearest(inverse * (x[i] - least)), 0, search->levels);
        if (!solve_affine(x, weights, tried, &fitted, &below)) continue;
        error = affine_error(x, weights, tried, fitted, below);
        if (!(error < best)) continue;
        memcpy(codes, tried, sizeof tried);
        best = error;
        scale = fitted;
        least = below;
    }
    *minimum = -least;
    return scale;
}

/* Values count by their size and the run's mean size. */
static float fit_run(const float *x, const affine_search *search, int *codes, float *minimum) {
    float squares = 0, weights[K_RUN], mean;
    for (int i = 0; i < K_RUN; i++) squares += x[i] * x[i];
    mean = sqrtf(squares / K_RUN);
    for (int i = 0; i < K_RUN; i++) weights[i] = mean + fabsf(x[i]);
    return fit_affine(x, weights, search, codes, minimum);
}

/* Eight scales and minima of six bits in 12 bytes: four whole ones each, then the others' low nibbles, with their high
 * bits above the first ones. */
static void store_sub_scales(const uint8_t *scales, const uint8_t *minima, uint8_t *out) {
    for (int j = 0; j < 4; j++) {
        out[j] = (uint8_t)(scales[j] | scales[j + 4] >> 4 << 6);
        out[j + 4] = (uint8_t)(minima[j] | minima[j + 4] >> 4 << 6);
        out[j + 8] = (uint8_t)((scales[j + 4] & 15) | (minima[j + 4] & 15) << 4);
    }
}

static uint8_t six_bits(float value) {
    uint8_t bits = (uint8_t)nearest(value);
    return bits < 63 ? bits : 63;
}

/* bits: 4 or 5. */
static void quantize_q45_k(const float *x, int bits, uint8_t *block) {
    affine_search search = {bits == 4 ? 15 : 31, bits == 4 ? 20 : 15, bits == 4 ? -1.0f : -0.5f};
    int codes[256];
    uint8_t sub_scales[8], sub_minima[8], *fifth = block + 16, *nibbles = block + (bits == 4 ? 16 : 48);
    float scales[8], minima[8], most = 0, deepest = 0, unit, unit_minimum;
    for (int run = 0; run < 8; run++) {
        scales[run] = fit_run(x + K_RUN * run, &search, codes + K_RUN * run, &minima[run]);
        if (scales[run] > most) most = scales[run];
        if (minima[run] > deepest) deepest = minima[run];
    }
    store_half(block, most / 63);
    store_half(block + 2, deepest / 63);
    unit = diti_half_to_float(diti_float_to_half(most / 63));
    unit_minimum = diti_half_to_float(diti_float_to_half(deepest / 63));
    for (int run = 0; run < 8; run++) {
        float scale, minimum;
        sub_scales[run] = six_bits((most > 0 ? 63.0f / most : 0) * scales[run]);
        sub_minima[run] = six_bits((deepest > 0 ? 63.0f / deepest : 0) * minima[run]);
        scale = unit * (float)sub_scales[run];
        minimum = unit_minimum * (float)sub_minima[run];
        for (int i = K_RUN * run; i < K_RUN * (run + 1) && scale != 0; i++)
            codes[i] = clamped(nearest((x[i] + minimum) / scale), 0, search.levels);
    }
    store_sub_scales(sub_scales, sub_minima, block + 4);
    if (bits == 5) memset(fifth, 0, 32);
    for (int e = 0; e < 256; e++) {
        int run = e / K_RUN, l = e % K_RUN;
        uint8_t *nibble = nibbles + run / 2 * K_RUN + l;
        *nibble = (uint8_t)(run % 2 ? *nibble | (codes[e] & 15) << 4 : codes[e] & 15);
        if (bits == 5) fifth[l] = (uint8_t)(fifth[l] | (codes[e] >> 4) << run);
    }
}

#endif
