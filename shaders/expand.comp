#version 450
// Stored weights as F32 or F16 rows: every stored type (docs/models.md 9.2), bit-exact; or, with rows of activations,
// too, as int8 in blocks of 32 with a scale each. Convolutions (Cin, k, k) become
// (k, k, Cin), and those over time (Cin, t, k, k) become (t, k, k, Cin), Cin padded with zeros to a multiple of 4. With
// GATHER row r of the result is row ids[r] of the table.
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

layout(constant_id = 1) const uint TYPE = 1; // dit_type
layout(constant_id = 2) const uint OUT_FORMAT = FORMAT_F32;
layout(constant_id = 3) const bool PERMUTE = false;
layout(constant_id = 4) const bool GATHER = false;
layout(constant_id = 5) const uint RUN = 1; // groups of four elements that an invocation makes, one after the other
layout(constant_id = 6) const bool SMOOTH = false;  // columns are multiplied with factors
layout(constant_id = 7) const bool FACTORS = false; // rows are, before columns
layout(push_constant) uniform Push {
    uint first_group;
    uint rows, row_bytes;
    uint source_offset; // words
    uint first_row;     // of the part's rows
    uint channels, channel_pitch, taps;
    uint out_offset, out_pitch;
    uint block_bytes;
    uint ids_offset, table_first, table_rows,
        last_part; // GATHER: the table rows of this part; the last part also answers wrong ids, with 0
    uint factors_offset;
    uint row_factors_offset; // of the part's first row
};
layout(binding = 0) readonly buffer Source { uint source[]; };
WRITABLE(1, dst)
layout(binding = 2) readonly buffer Ids { uint ids[]; };
layout(binding = 3) readonly buffer Factors { float factors[]; };
layout(binding = 4) readonly buffer RowFactors { float row_factors[]; };

#define SOURCE(I) source[source_offset + (I)]
#include "decode.glsl"

float plain_value(const uint row, const uint k) {
    switch (TYPE) {
    case TYPE_F32: return uintBitsToFloat(source[source_offset + (row >> 2) + k]);
    case TYPE_F16: return half_at(row + 2u * k);
    case TYPE_BF16: return uintBitsToFloat(half_bits_at(row + 2u * k) << 16);
    case TYPE_F8_E4M3: return e4m3_value(byte_at(row + k));
    case TYPE_F8_E5M2: return half_value(byte_at(row + k) << 8);
    }
    return 0.0;
}

// Elements of a stored row that starts at byte `row`: count of them from channel c (a multiple of 4) on under a tap.
vec4 elements(const uint row, const uint c, const uint tap, const uint count) {
    vec4 v = vec4(0.0);
    if (OUT_FORMAT == FORMAT_I8_BLOCKS && TYPE == TYPE_F16) // of activations: whole fours, subnormals do not matter
        return unpack4(uvec2(SOURCE(row + 2u * c >> 2), SOURCE((row + 2u * c >> 2) + 1u)));
    bool together = TYPE >= TYPE_Q8_0 && !PERMUTE; // four neighbours share their scale
    for (uint i = 0u; i < (together ? 1u : count); i++) {
        uint k = PERMUTE ? (c + i) * taps + tap : c + i;
        if (TYPE < TYPE_Q8_0) {
            v[i] = plain_value(row, k);
            continue;
        }
        uint block = row + k / BLOCK * block_bytes, e = k % BLOCK;
        vec4 four = block_elements(block, e & ~3u);
        if (together)
            v = four;
        else
            v[i] = four[e & 3u];
    }
    return v;
}

// The bytes of a block of 32 and its scale. Blocks that are stored as integers of at most 8 bits with one scale keep
// both; else the largest magnitude becomes 127. Scales have 22 bits at most, see gemm_dot_gpu.comp. Magnitudes are
// compared as bits, where NaN is the largest: such a block becomes zeros under a scale that is not finite.
#define LIKE_BLOCKS (TYPE == TYPE_Q8_0 || TYPE == TYPE_Q4_0 || TYPE == TYPE_Q5_0)
uint pack_bytes(const ivec4 v) { return v.x & 255 | (v.y & 255) << 8 | (v.z & 255) << 16 | v.w << 24; }
uint block_words[8];
float make_block(const uint row, const uint number) {
    if (LIKE_BLOCKS) {
        uint block = row + number * block_bytes;
        [[unroll]] for (uint i = 0u; i < 8u; i++) block_words[i] = pack_bytes(quants_of(block, 4u * i));
        return scale_of(block, 0u).x;
    }
    vec4 values[8];
    uint most = 0u;
    [[unroll]] for (uint i = 0u; i < 8u; i++) {
        values[i] = elements(row, 32u * number + 4u * i, 0u, 4u);
        uvec4 bits = floatBitsToUint(values[i]) & 0x7fffffffu;
        most = max(most, max(max(bits.x, bits.y), max(bits.z, bits.w)));
    }
    bool nothing = most < 0x0da24260u, finite = most < 0x7f800000u; // 1e-30
    uint scale_bits = floatBitsToUint(uintBitsToFloat(most) / 127.0) + 3u & ~3u;
    float scale = nothing ? 0.0 : uintBitsToFloat(finite ? scale_bits : 0x7fc00000u),
          inverse = nothing || !finite ? 0.0 : 1.0 / scale;
    [[unroll]] for (uint i = 0u; i < 8u; i++) block_words[i] =
        finite ? pack_bytes(ivec4(clamp(roundEven(values[i] * inverse), -127.0, 127.0))) : 0u;
    return scale;
}

void main() {
    uint id = (gl_WorkGroupID.x + first_group) * THREADS + gl_LocalInvocationID.x;
    uint quads = channel_pitch * taps / 4u, runs = (quads + RUN - 1u) / RUN, row = id / runs, first = id % runs * RUN;
    if (row >= rows) return;
    uint stored = row + first_row;
    bool absent = false;
    if (GATHER) {
        stored = ids[ids_offset + row] - table_first;
        absent = stored >= table_rows; // another part's, or no row at all
        if (absent && (last_part == 0u || stored >= 0x80000000u)) return;
    }
    if (OUT_FORMAT == FORMAT_I8_BLOCKS) { // a run is a block
        uint to = out_offset + row * out_pitch, number = first / RUN;
        float scale = make_block(stored * row_bytes, number);
        [[unroll]] for (uint i = 0u; i < 4u; i++) dst_h4[(to >> 3) + 4u * number + i] =
            uvec2(block_words[2u * i], block_words[2u * i + 1u]);
        dst_u1[(to >> 2) + 8u * runs + number] = floatBitsToUint(scale);
        return;
    }
    uint tap = PERMUTE ? 4u * first / channel_pitch : 0u, c = 4u * first - tap * channel_pitch;
    for (uint quad = first; quad < min(first + RUN, quads); quad++) {
        uint count = min(channels - c, 4u);
        vec4 v = absent ? vec4(0.0) : elements(stored * row_bytes, c, tap, count);
        if (FACTORS && !absent) v *= row_factors[row_factors_offset + stored];
        for (uint i = 0u; SMOOTH && i < count; i++) v[i] *= factors[factors_offset + c + i];
        dst_store4(OUT_FORMAT, out_offset + row * out_pitch + 4u * quad, v);
        c += 4u;
        if (PERMUTE && c == channel_pitch) {
            c = 0u;
            tap++;
        }
    }
}
