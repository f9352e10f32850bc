#version 450
// Stored weights as F32 or F16 rows: every stored type (docs/models.md 9.2), bit-exact. Convolutions (Cin, k, k) become
// (k, k, Cin), and those over time (Cin, t, k, k) become (t, k, k, Cin), Cin padded with zeros to a multiple of 4. With
// GATHER row r of the result is row ids[r] of the table.
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

layout(constant_id = 1) const uint TYPE = 1; // dit_type
layout(constant_id = 2) const uint OUT_FORMAT = FORMAT_F32;
layout(constant_id = 3) const bool PERMUTE = false;
layout(constant_id = 4) const bool GATHER = false;
layout(constant_id = 5) const uint RUN = 1; // groups of four elements that an invocation makes, one after the other
layout(constant_id = 6) const bool SMOOTH = false; // columns are multiplied with factors
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
};
layout(binding = 0) readonly buffer Source { uint source[]; };
WRITABLE(1, dst)
layout(binding = 2) readonly buffer Ids { uint ids[]; };
layout(binding = 3) readonly buffer Factors { float factors[]; };

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
    uint tap = PERMUTE ? 4u * first / channel_pitch : 0u, c = 4u * first - tap * channel_pitch;
    for (uint quad = first; quad < min(first + RUN, quads); quad++) {
        uint count = min(channels - c, 4u);
        vec4 v = absent ? vec4(0.0) : elements(stored * row_bytes, c, tap, count);
        for (uint i = 0u; SMOOTH && i < count; i++) v[i] *= factors[factors_offset + c + i];
        dst_store4(OUT_FORMAT, out_offset + row * out_pitch + 4u * quad, v);
        c += 4u;
        if (PERMUTE && c == channel_pitch) {
            c = 0u;
            tap++;
        }
    }
}
