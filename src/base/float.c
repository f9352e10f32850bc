/* Conversions between F32 and the shorter floats that weights are stored in: F16, BF16, E4M3 and E5M2. */
#include "base/base.h"

static float diti_float_from_bits(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint32_t diti_bits_from_float(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* value = mantissa * 2^exponent, exact for the few mantissa bits of the small formats. */
static float diti_small_float(bool negative, uint32_t mantissa, int exponent) {
    float magnitude = ldexpf((float)mantissa, exponent);
    return negative ? -magnitude : magnitude;
}

DIT_INTERNAL float diti_half_to_float(uint16_t bits) {
    uint32_t sign = (uint32_t)(bits & 0x8000u) << 16, exponent = (bits >> 10) & 31u, mantissa = bits & 1023u;
    if (exponent == 31) return diti_float_from_bits(sign | 0x7f800000u | (mantissa << 13));
    if (exponent == 0) return diti_small_float(sign != 0, mantissa, -24);
    return diti_float_from_bits(sign | ((exponent + 112u) << 23) | (mantissa << 13));
}

DIT_INTERNAL uint16_t diti_float_to_half(float value) {
    uint32_t bits = diti_bits_from_float(value), sign = (bits >> 16) & 0x8000u, magnitude = bits & 0x7fffffffu, shift,
             kept, rest, half;
    if (magnitude > 0x7f800000u) return (uint16_t)(sign | 0x7e00u);
    if (magnitude >= 0x477ff000u) return (uint16_t)(sign | 0x7c00u); /* 65520 and above round to infinity */
    if (magnitude < 0x33000000u) return (uint16_t)sign;              /* below half of the smallest subnormal */
    if (magnitude >= 0x38800000u) {
        kept = magnitude - 0x38000000u;
        shift = 13;
    } else {
        shift = 126u - (magnitude >> 23);
        kept = (magnitude & 0x7fffffu) | 0x800000u;
    }
    half = kept >> shift;
    rest = kept & ((1u << shift) - 1u);
    if (rest > (1u << (shift - 1)) || (rest == (1u << (shift - 1)) && (half & 1u))) half++;
    return (uint16_t)(sign | half);
}

DIT_INTERNAL float diti_bfloat_to_float(uint16_t bits) { return diti_float_from_bits((uint32_t)bits << 16); }

DIT_INTERNAL uint16_t diti_float_to_bfloat(float value) {
    uint32_t bits = diti_bits_from_float(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return (uint16_t)((bits >> 16) | 0x40u);
    return (uint16_t)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

DIT_INTERNAL float diti_e4m3_to_float(uint8_t bits) {
    uint32_t exponent = (bits >> 3) & 15u, mantissa = bits & 7u;
    bool negative = (bits & 0x80u) != 0;
    if (exponent == 15 && mantissa == 7) return diti_float_from_bits(negative ? 0xffc00000u : 0x7fc00000u);
    if (exponent == 0) return diti_small_float(negative, mantissa, -9);
    return diti_small_float(negative, mantissa | 8u, (int)exponent - 10);
}

/* To nearest, ties to even; beyond 448 and infinities become 448. */
DIT_INTERNAL uint8_t diti_float_to_e4m3(float value) {
    uint32_t bits = diti_bits_from_float(value), sign = bits >> 31 << 7, exponent = bits >> 23 & 255u, code;
    float steps = diti_float_from_bits(bits & 0x7fffffffu);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return (uint8_t)(sign | 0x7fu);
    if (exponent < 121) exponent = 121; /* 2^-6: below, steps are 2^-9 */
    if (exponent > 136) return (uint8_t)(sign | 0x7eu);
    steps *= diti_float_from_bits((257u - exponent) << 23); /* each is an eighth of the power of two below */
    code = (uint32_t)steps;
    steps -= (float)code;
    if (steps > 0.5f || (steps >= 0.5f && (code & 1u))) code++;
    code += (exponent - 121) * 8;
    return (uint8_t)(sign | (code < 0x7e ? code : 0x7e));
}

DIT_INTERNAL float diti_e5m2_to_float(uint8_t bits) { return diti_half_to_float((uint16_t)(bits << 8)); }
