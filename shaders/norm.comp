#version 450
// LayerNorm or RMSNorm of rows (or neither), affine, then x * (1 + scale) + shift; as floats, or as int8 with a scale
// per row, for which a row can be rotated first, or as E4M3 with such a scale. Two passes with a correction, so that a
// large common offset costs no accuracy. LANES lanes share a row; a workgroup holds several rows.
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

layout(constant_id = 1) const uint LANES = 1; // a power of two that divides the workgroup's size
layout(constant_id = 2) const uint IN_FORMAT = FORMAT_F32;
layout(constant_id = 3) const uint OUT_FORMAT = FORMAT_F32;
layout(constant_id = 4) const uint PARTS = 0;
layout(constant_id = 5) const bool VECTOR = true; // columns and every offset and pitch is a multiple of 4
#define PART_RMS 1u
#define PART_WEIGHT 2u
#define PART_BIAS 4u
#define PART_SCALE 8u
#define PART_SHIFT 16u
#define PART_PLAIN 32u
#define PART_AGREED 64u   // the row's largest magnitude counts with those that others have found in their columns of it
#define PART_MEASURE 128u // that of these columns alone is the result
#define PART_SILU 256u
#define PART_FACTOR 512u    // rows of scale multiply as they are, and not 1 + scale
#define PART_RESIDUAL 1024u // shift has a row for each row of x
layout(constant_id = 6) const uint QUANTIZE = 0;
#define QUANTIZE_ROTATED 2u
#define QUANTIZE_E4M3 3u
#define QUANTIZE_ROTATED_4 4u // as int8, of which -7 to 7 are used
#define ROTATES (QUANTIZE == QUANTIZE_ROTATED || QUANTIZE == QUANTIZE_ROTATED_4)
const float largest = QUANTIZE == QUANTIZE_E4M3 ? 448.0 : QUANTIZE == QUANTIZE_ROTATED_4 ? 7.0 : 127.0;
#define HAS(PART) ((PARTS & (PART)) != 0u)

layout(push_constant) uniform Push {
    uint first_group;
    uint rows, columns;
    float eps;
    uint in_offset, in_pitch, out_offset, out_pitch;
    uint weight_offset, bias_offset, scale_offset, scale_pitch, shift_offset, shift_pitch, rows_per_group;
    uint item_rows, text_rows; // not 0: tables have two rows per group, for the first text_rows rows of each item and
                               // for the others
    uint agreed_offset, agreed_pitch, agreed_count; // magnitudes of a row stand below each other
};
READABLE(0, x, readonly)
WRITABLE(1, dst)
READABLE_F32(2, weight)
READABLE_F32(3, bias)
READABLE_F32(4, scale)
READABLE_F32(5, shift)
READABLE_F32(6, agreed)

#define TABLE(NAME, AT, COLUMN)                                                                                        \
    (VECTOR ? NAME##_load4((AT) + (COLUMN)) : NAME##_some((AT) + (COLUMN), columns - (COLUMN)))
vec4 load(const uint at, const uint column) {
    return VECTOR ? x_load4(IN_FORMAT, at + column) : x_some(IN_FORMAT, at + column, columns - column);
}
vec4 live(const uint column) {
    return VECTOR ? vec4(1.0) : vec4(lessThan(uvec4(column) + uvec4(0u, 1u, 2u, 3u), uvec4(columns)));
}

shared vec2 lane_sums[THREADS];
// The sum over the lanes of a row, in a fixed order.
vec2 sum_lanes(const vec2 v) {
    if (LANES == 1u) return v;
    uint i = gl_LocalInvocationID.x;
    barrier();
    lane_sums[i] = v;
    barrier();
    for (uint span = LANES / 2u; span > 0u; span /= 2u) {
        if (i % LANES < span) lane_sums[i] += lane_sums[i + span];
        barrier();
    }
    return lane_sums[i / LANES * LANES];
}

float mean, rest, inverse; // rest: what rounding left of the mean; added to it, it would be rounded away

// Four columns of the result; beyond the last one 0 or, where nobody looks, anything.
vec4 result(const uint row, const uint c) {
    uint group = rows_per_group == 0u ? 0u : row / rows_per_group;
    if (item_rows != 0u) group = 2u * group + uint(row % item_rows >= text_rows);
    vec4 v = load(in_offset + row * in_pitch, c);
    if (!HAS(PART_PLAIN)) v = (v - mean - rest) * inverse;
    if (HAS(PART_WEIGHT)) v *= TABLE(weight, weight_offset, c);
    if (HAS(PART_BIAS)) v += TABLE(bias, bias_offset, c);
    if (HAS(PART_SCALE)) v *= (HAS(PART_FACTOR) ? 0.0 : 1.0) + TABLE(scale, scale_offset + group * scale_pitch, c);
    if (HAS(PART_SHIFT)) v += TABLE(shift, shift_offset + (HAS(PART_RESIDUAL) ? row : group) * shift_pitch, c);
    if (HAS(PART_SILU)) v = v / (1.0 + exp(-clamp(v, -88.0, 88.0)));
    return v;
}

void measure(const uint lane, const uint at) {
    mean = 0.0;
    if (!HAS(PART_RMS)) {
        vec4 sum = vec4(0.0);
        for (uint c = 4u * lane; c < columns; c += 4u * LANES) sum += load(at, c);
        mean = sum_lanes(vec2(dot(sum, vec4(1.0)), 0.0)).x / float(columns);
    }
    vec4 sum = vec4(0.0), squares = vec4(0.0);
    for (uint c = 4u * lane; c < columns; c += 4u * LANES) {
        vec4 d = (load(at, c) - mean) * live(c);
        sum += d;
        squares += d * d;
    }
    vec2 sums = sum_lanes(vec2(dot(sum, vec4(1.0)), dot(squares, vec4(1.0)))) / float(columns);
    if (HAS(PART_RMS)) sums.x = 0.0;
    rest = sums.x;
    inverse = 1.0 / sqrt(max(sums.y - sums.x * sums.x, 0.0) + eps);
}

// --- int8: steps of amax / 127, ties to even; E4M3: amax is its largest value, 448. Magnitudes are compared as bits,
// where NaN is the largest and is not lost. ---

uint bits_of(const vec4 v) {
    uvec4 b = floatBitsToUint(v) & 0x7fffffffu;
    return max(max(b.x, b.y), max(b.z, b.w));
}

shared uint lane_bits[THREADS];
uint most_of_lanes(const uint bits) {
    if (LANES == 1u) return bits;
    uint i = gl_LocalInvocationID.x;
    lane_bits[i] = bits;
    barrier();
    for (uint span = LANES / 2u; span > 0u; span /= 2u) {
        if (i % LANES < span) lane_bits[i] = max(lane_bits[i], lane_bits[i + span]);
        barrier();
    }
    return lane_bits[i / LANES * LANES];
}

uint most_of_row(uint bits, const uint row) {
    bits = most_of_lanes(bits);
    for (uint i = 0u; HAS(PART_AGREED) && i < agreed_count; i++)
        bits = max(bits, agreed_u1[agreed_offset + i * agreed_pitch + row]);
    return bits;
}

// Rows of nothing (below 1e-30) and rows that are not finite become zeros, the latter with a scale that is not finite
// either.
bool is_nothing(const uint bits) { return bits < 0x0da24260u; }
bool is_finite(const uint bits) { return bits < 0x7f800000u; }

uint pack_bytes(const vec4 v, const uint bits) {
    if (is_nothing(bits) || !is_finite(bits)) return 0u;
    vec4 steps = v * (largest / uintBitsToFloat(bits));
    uvec4 b;
    if (QUANTIZE == QUANTIZE_E4M3) { // multiples of an eighth of the power of two below, 2^-9 below 2^-6, ties to even
        uvec4 exponent = max(floatBitsToUint(steps) >> 23 & 255u, uvec4(121u));
        b = (exponent - 121u) * 8u + uvec4(roundEven(abs(steps) * uintBitsToFloat(257u - exponent << 23)));
        b = min(b, uvec4(126u)) | floatBitsToUint(steps) >> 31 << 7;
    } else {
        b = uvec4(ivec4(clamp(roundEven(steps), -largest, largest))) & 255u;
    }
    return b.x | b.y << 8 | b.z << 16 | b.w << 24;
}

uint padded_columns() { return (columns + 15u) & ~15u; } // then comes the scale
void store_scale(const uint to, const uint bits) {
    if (HAS(PART_MEASURE)) {
        dst_u1[to] = bits;
        return;
    }
    float scale = is_nothing(bits) ? 0.0 : uintBitsToFloat(bits) / largest;
    dst_u1[(to + padded_columns()) >> 2] = is_finite(bits) ? floatBitsToUint(scale) : 0x7fc00000u;
}

// The regular Hadamard matrix of order 256 is four times that of order 4, [1 1 1 -1; 1 1 -1 1; 1 -1 1 1; -1 1 1 1] / 2,
// on the four base-4 digits of an element's number: half the sum, less the opposite element. Four lanes have 64 quads
// in shared memory.
const uint rotated_quads = ROTATES ? THREADS * 16u : 1u;
shared vec4 rotated[rotated_quads];
void rotate_four(const uint at, const uint stride) {
    vec4 a = rotated[at], b = rotated[at + stride], c = rotated[at + 2u * stride], d = rotated[at + 3u * stride];
    vec4 h = 0.5 * ((a + b) + (c + d));
    rotated[at] = h - d;
    rotated[at + stride] = h - c;
    rotated[at + 2u * stride] = h - b;
    rotated[at + 3u * stride] = h - a;
}

// 256 columns from `first` on. This lane, number `part` of four, reads quads part, part + 4, ... and is left with quads
// 16 part + 0..15.
void rotate(const uint row, const uint first, const uint part) {
    uint base = gl_LocalInvocationID.x / 4u * 64u;
    barrier();
    for (uint j = 0u; j < 16u; j++) {
        vec4 v = first < columns ? result(row, first + 4u * part + 16u * j) : vec4(0.0);
        rotated[base + part + 4u * j] = 0.5 * dot(v, vec4(1.0)) - v.wzyx;
    }
    for (uint j = 0u; j < 4u; j++) rotate_four(base + part + 16u * j, 4u);
    for (uint j = 0u; j < 4u; j++) rotate_four(base + part + 4u * j, 16u);
    barrier();
    for (uint j = 0u; j < 4u; j++) rotate_four(base + 16u * part + 4u * j, 1u);
}

// Two rounds: the largest magnitude, then the bytes. A row that fits is rotated once. Everybody comes here, for the
// barriers.
void quantize_rotated(const uint lane, const uint row, const uint to, const bool exists) {
    uint bits = 0u, part = lane % 4u, step = LANES * 64u, mine = gl_LocalInvocationID.x * 16u;
    for (uint round = 0u; round < 2u; round++) {
        for (uint base = 0u; base < columns; base += step) {
            uint first = base + lane / 4u * 256u;
            if (round == 0u || columns > step) rotate(row, first, part);
            for (uint j = 0u; j < 16u; j++) {
                if (round == 0u)
                    bits = max(bits, bits_of(rotated[mine + j]));
                else if (exists && first < columns)
                    dst_u1[((to + first) >> 2) + 16u * part + j] = pack_bytes(rotated[mine + j], bits);
            }
        }
        if (round == 0u) bits = most_of_row(bits, row);
        if (HAS(PART_MEASURE)) break;
    }
    if (exists && lane == 0u) store_scale(to, bits);
}

void main() {
    uint lane = gl_LocalInvocationID.x % LANES;
    uint wanted = (gl_WorkGroupID.x + first_group) * (THREADS / LANES) + gl_LocalInvocationID.x / LANES;
    uint row = min(wanted, rows - 1u), to = out_offset + row * out_pitch,
         bits = 0u; // nobody leaves before the last barrier
    bool exists = wanted < rows;
    if (!HAS(PART_PLAIN)) measure(lane, in_offset + row * in_pitch);
    if (ROTATES) {
        quantize_rotated(lane, row, to, exists);
        return;
    }
    for (uint round = QUANTIZE != 0u ? 0u : 1u; round < 2u; round++) {
        for (uint c = 4u * lane; c < (QUANTIZE != 0u ? padded_columns() : columns); c += 4u * LANES) {
            vec4 v = c < columns ? result(row, c) : vec4(0.0);
            if (QUANTIZE != 0u) v *= live(c);
            if (round == 0u)
                bits = max(bits, bits_of(v));
            else if (!exists)
                continue;
            else if (QUANTIZE != 0u)
                dst_u1[(to + c) >> 2] = pack_bytes(v, bits);
            else if (VECTOR)
                dst_store4(OUT_FORMAT, to + c, v);
            else
                dst_store_some(OUT_FORMAT, to + c, columns - c, v);
        }
        if (round == 0u) bits = most_of_row(bits, row);
        if (HAS(PART_MEASURE)) break;
    }
    if (QUANTIZE != 0u && exists && lane == 0u) store_scale(to, bits);
}
