// Stored types, bit-exact (docs/models.md 9.2). Who includes it says what TYPE is, a dit_type, and SOURCE(I): word I of
// what is stored.
#define TYPE_F32 1u
#define TYPE_F16 2u
#define TYPE_BF16 3u
#define TYPE_F8_E4M3 4u
#define TYPE_F8_E5M2 5u
#define TYPE_Q8_0 6u
#define TYPE_Q4_0 7u
#define TYPE_Q4_1 8u
#define TYPE_Q5_0 9u
#define TYPE_Q5_1 10u
#define TYPE_Q2_K 11u
#define TYPE_Q3_K 12u
#define TYPE_Q4_K 13u
#define TYPE_Q5_K 14u
#define TYPE_Q6_K 15u
#define TYPE_I4_GROUP 16u
#define TYPE_MXFP4 17u
#define TYPE_NVFP4 18u

uint byte_at(const uint at) { return SOURCE(at >> 2) >> (8u * (at & 3u)) & 255u; }
uint half_bits_at(const uint at) { return SOURCE(at >> 2) >> (8u * (at & 2u)) & 0xffffu; } // at is even
uint word_at(const uint at) { // four bytes from anywhere; reads no word that holds none of them
    uint low = SOURCE(at >> 2), high = SOURCE(at + 3u >> 2), shift = 8u * (at & 3u);
    return low >> shift | high << 1 << (31u - shift);
}
uvec4 bytes_at(const uint at) { return uvec4(word_at(at)) >> uvec4(0u, 8u, 16u, 24u) & 255u; }

// By hand, since drivers may flush subnormal halves.
float half_value(const uint bits) {
    uint sign = (bits & 0x8000u) << 16, exponent = bits >> 10 & 31u, mantissa = bits & 1023u;
    if (exponent == 0u) return uintBitsToFloat(floatBitsToUint(float(mantissa) * 5.9604644775390625e-8) | sign);
    return uintBitsToFloat(sign | (exponent == 31u ? 255u : exponent + 112u) << 23 | mantissa << 13);
}
float half_at(const uint at) { return half_value(half_bits_at(at)); }
float e4m3_value(const uint bits) {
    uint sign = (bits & 128u) << 24, exponent = bits >> 3 & 15u, mantissa = bits & 7u;
    if ((bits & 127u) == 127u) return uintBitsToFloat(sign | 0x7fc00000u);
    if (exponent == 0u) return uintBitsToFloat(floatBitsToUint(float(mantissa) * 0.001953125) | sign);
    return uintBitsToFloat(sign | exponent + 120u << 23 | mantissa << 20);
}

// Scale and minimum of sub-block j in the 12 bytes that Q4_K and Q5_K share.
uvec2 k4_scale(const uint at, const uint j) {
    if (j < 4u) return uvec2(byte_at(at + j) & 63u, byte_at(at + j + 4u) & 63u);
    uint both = byte_at(at + j + 4u);
    return uvec2(both & 15u | byte_at(at + j - 4u) >> 6 << 4, both >> 4 | byte_at(at + j) >> 6 << 4);
}
int k3_scale(const uint at, const uint j) {
    uint low = j < 8u ? byte_at(at + j) & 15u : byte_at(at + j - 8u) >> 4;
    return int(low | (byte_at(at + 8u + (j & 3u)) >> (j >> 2) * 2u & 3u) << 4) - 32;
}

#define BLOCK                                                                                                          \
    (TYPE < TYPE_Q8_0        ? 1u                                                                                      \
     : TYPE < TYPE_Q2_K      ? 32u                                                                                     \
     : TYPE == TYPE_MXFP4    ? 32u                                                                                     \
     : TYPE == TYPE_NVFP4    ? 64u                                                                                     \
     : TYPE == TYPE_I4_GROUP ? 128u                                                                                    \
                             : 256u)

// An element is x * quant + y; all products are exact in F32, so only the addition rounds. Here and below TYPE is asked
// case by case: SPIRV-Cross, which MoltenVK has, reads no switch over what is computed from specialization constants.
vec2 scale_of(const uint block, const uint e) {
    vec2 scale = vec2(1.0, 0.0);
    if (TYPE < TYPE_Q8_0) return scale;
    if (TYPE < TYPE_Q2_K) {
        scale.x = half_at(block);
        if (TYPE == TYPE_Q4_1) scale.y = half_at(block + 2u);
        if (TYPE == TYPE_Q5_1) scale.y = half_at(block + 2u);
    } else if (TYPE == TYPE_Q2_K) {
        uint sub = byte_at(block + e / 16u);
        scale = vec2(half_at(block + 80u) * float(sub & 15u), -(half_at(block + 82u) * float(sub >> 4)));
    } else if (TYPE == TYPE_Q3_K) {
        scale.x = half_at(block + 108u) * float(k3_scale(block + 96u, e / 16u));
    } else if (TYPE == TYPE_Q6_K) {
        scale.x = half_at(block + 208u) * float(int(byte_at(block + 192u + e / 16u) << 24) >> 24);
    } else if (TYPE == TYPE_I4_GROUP) {
        uint both = SOURCE(block >> 2);
        scale = vec2(half_value(both & 0xffffu), half_value(both >> 16));
    } else if (TYPE == TYPE_MXFP4) { // half of the power of 2: quants are twice the values
        uint exponent = byte_at(block);
        scale.x = uintBitsToFloat(exponent < 2u ? 0x200000u << exponent : exponent - 1u << 23);
    } else if (TYPE == TYPE_NVFP4) {
        uint code = SOURCE(block >> 2) >> e / 16u * 8u & 127u;
        scale.x = code == 127u ? 0.0 : 0.5 * e4m3_value(code);
    } else { // Q4_K and Q5_K
        uvec2 sub = k4_scale(block + 4u, e / 32u);
        scale = vec2(half_at(block) * float(sub.x), -(half_at(block + 2u) * float(sub.y)));
    }
    return scale;
}

// Two-bit planes of Q2_K and Q3_K: halves of 128, in each four runs of 32 by rising shift.
uvec4 k2_bits(const uint at, const uint e) {
    return bytes_at(at + e / 128u * 32u + e % 32u) >> e % 128u / 32u * 2u & 3u;
}

// Twice the values of floats of 4 bits (E2M1).
ivec4 e2m1_quants(const uvec4 bits) {
    return ivec4(uvec4(0xc8643210u) >> (bits & 7u) * 4u & 15u) * (1 - 2 * ivec4(bits >> 3 & 1u));
}

// The integers of elements e to e + 3 (e is a multiple of 4) of a block.
ivec4 quants_of(const uint block, const uint e) {
    uint i = e & 15u, half_shift = e >> 2 & 4u, k_shift = e >> 3 & 4u; // a block of 32: low nibbles are elements 0..15
    uvec4 each = uvec4(0u, 1u, 2u, 3u);
    ivec4 quants = ivec4(0);
    if (TYPE == TYPE_Q8_0)
        quants = ivec4(bytes_at(block + 2u + e) << 24) >> 24;
    else if (TYPE == TYPE_Q4_0)
        quants = ivec4(bytes_at(block + 2u + i) >> half_shift & 15u) - 8;
    else if (TYPE == TYPE_Q4_1)
        quants = ivec4(bytes_at(block + 4u + i) >> half_shift & 15u);
    else if (TYPE == TYPE_Q5_0)
        quants =
            ivec4(bytes_at(block + 6u + i) >> half_shift & 15u | (uvec4(word_at(block + 2u)) >> (each + e) & 1u) << 4) -
            16;
    else if (TYPE == TYPE_Q5_1)
        quants =
            ivec4(bytes_at(block + 8u + i) >> half_shift & 15u | (uvec4(word_at(block + 4u)) >> (each + e) & 1u) << 4);
    else if (TYPE == TYPE_Q2_K)
        quants = ivec4(k2_bits(block + 16u, e));
    else if (TYPE == TYPE_Q3_K)
        quants = ivec4(k2_bits(block + 32u, e)) - 4 + ivec4(bytes_at(block + e % 32u) >> e / 32u & 1u) * 4;
    else if (TYPE == TYPE_Q4_K)
        quants = ivec4(bytes_at(block + 16u + e / 64u * 32u + e % 32u) >> k_shift & 15u);
    else if (TYPE == TYPE_Q5_K)
        quants = ivec4(bytes_at(block + 48u + e / 64u * 32u + e % 32u) >> k_shift & 15u |
                       (bytes_at(block + 16u + e % 32u) >> e / 32u & 1u) << 4);
    else if (TYPE == TYPE_Q6_K) {
        uint part = e / 128u, quarter = e % 128u / 32u, l = e % 32u;
        uvec4 nibbles = bytes_at(block + 64u * part + 32u * (quarter & 1u) + l) >> quarter / 2u * 4u & 15u;
        quants = ivec4(nibbles | (bytes_at(block + 128u + 32u * part + l) >> 2u * quarter & 3u) << 4) - 32;
    } else if (TYPE == TYPE_I4_GROUP) // a word has eight neighbours: four in its low nibbles, four in its high ones
        quants = ivec4(uvec4(SOURCE((block >> 2) + 1u + e / 8u) >> (e & 4u)) >> each * 8u & 15u);
    else if (TYPE == TYPE_MXFP4)
        quants = e2m1_quants(bytes_at(block + 1u + i) >> half_shift);
    else if (TYPE == TYPE_NVFP4) // 16 values to 8 bytes: the first eight in low nibbles
        quants =
            e2m1_quants(uvec4(SOURCE((block >> 2) + 1u + e / 16u * 2u + (e >> 2 & 1u)) >> (e >> 1 & 4u)) >> each * 8u);
    return quants;
}

// Elements e to e + 3 (e is a multiple of 4) of the block that begins at byte `block`, of types that have blocks.
vec4 block_elements(const uint block, const uint e) {
    vec2 scale = scale_of(block, e);
    return scale.x * vec4(quants_of(block, e)) + scale.y;
}
