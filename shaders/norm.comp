#version 450
// LayerNorm or RMSNorm of rows (or neither), affine, then x * (1 + scale) + shift; as floats, or as int8 with a scale per row, for which a
// row can be rotated first. Two passes with a correction, so that a large common offset costs no accuracy. LANES lanes share a row; a
// workgroup holds several rows.
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

layout(local_size_x_id = 0) in;
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
layout(constant_id = 6) const uint QUANTIZE = 0;
layout(constant_id = 7) const uint BATCH = 4; // quads that lanes exchange at a time while rotating: 1, 2, 4, 8 or 16
#define QUANTIZE_ROTATED 2u
#define HAS(PART) ((PARTS & (PART)) != 0u)

layout(push_constant) uniform Push {
    uint first_group;
    uint rows, columns;
    float eps;
    uint in_offset, in_pitch, out_offset, out_pitch;
    uint weight_offset, bias_offset, scale_offset, scale_pitch, shift_offset, shift_pitch, rows_per_group;
};
READABLE(0, x, readonly)
WRITABLE(1, dst)
READABLE_F32(2, weight)
READABLE_F32(3, bias)
READABLE_F32(4, scale)
READABLE_F32(5, shift)

#define TABLE(NAME, AT, COLUMN) (VECTOR ? NAME##_load4((AT) + (COLUMN)) : NAME##_some((AT) + (COLUMN), columns - (COLUMN)))
vec4 load(uint at, uint column) { return VECTOR ? x_load4(IN_FORMAT, at + column) : x_some(IN_FORMAT, at + column, columns - column); }
vec4 live(uint column) { return VECTOR ? vec4(1.0) : vec4(lessThan(uvec4(column) + uvec4(0u, 1u, 2u, 3u), uvec4(columns))); }

shared vec2 lane_sums[gl_WorkGroupSize.x];
// The sum over the lanes of a row, in a fixed order.
vec2 sum_lanes(vec2 v) {
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
vec4 result(uint row, uint c) {
    uint group = rows_per_group == 0u ? 0u : row / rows_per_group;
    vec4 v = load(in_offset + row * in_pitch, c);
    if (!HAS(PART_PLAIN)) v = (v - mean - rest) * inverse;
    if (HAS(PART_WEIGHT)) v *= TABLE(weight, weight_offset, c);
    if (HAS(PART_BIAS)) v += TABLE(bias, bias_offset, c);
    if (HAS(PART_SCALE)) v *= 1.0 + TABLE(scale, scale_offset + group * scale_pitch, c);
    if (HAS(PART_SHIFT)) v += TABLE(shift, shift_offset + group * shift_pitch, c);
    return v;
}

void measure(uint lane, uint at) {
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

// --- int8: steps of amax / 127, ties to even. Magnitudes are compared as bits, where NaN is the largest, and is not lost. ---

uint bits_of(vec4 v) {
    uvec4 b = floatBitsToUint(v) & 0x7fffffffu;
    return max(max(b.x, b.y), max(b.z, b.w));
}

shared uint lane_bits[QUANTIZE != 0u ? gl_WorkGroupSize.x : 1u];
uint most_of_lanes(uint bits) {
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

// What to multiply by; rows of nothing and rows that are not finite become zeros, the latter with a scale that is not finite either.
float steps_of(uint bits) {
    float most = uintBitsToFloat(bits);
    return bits < 0x0da24260u || bits >= 0x7f800000u ? 0.0 : 127.0 / most; // 1e-30
}
float scale_of(uint bits) { return bits < 0x0da24260u ? 0.0 : bits >= 0x7f800000u ? uintBitsToFloat(0x7fc00000u) : uintBitsToFloat(bits) / 127.0; }

uint pack_bytes(vec4 v, float steps) {
    if (steps == 0.0) return 0u;
    uvec4 b = uvec4(ivec4(clamp(roundEven(v * steps), -127.0, 127.0))) & 255u;
    return b.x | b.y << 8 | b.z << 16 | b.w << 24;
}

void store_scale(uint to, uint bits) {
    uint at = (to + ((columns + 15u) & ~15u)) >> 2;
    dst_u1[at] = floatBitsToUint(scale_of(bits));
}

void quantize(uint lane, uint row, uint to, bool exists) {
    uint bits = 0u;
    for (uint c = 4u * lane; c < columns; c += 4u * LANES) bits = max(bits, bits_of(result(row, c) * live(c)));
    bits = most_of_lanes(bits);
    if (!exists) return;
    float steps = steps_of(bits);
    for (uint c = 4u * lane; c < ((columns + 15u) & ~15u); c += 4u * LANES)
        dst_u1[(to + c) >> 2] = c < columns ? pack_bytes(result(row, c) * live(c), steps) : 0u;
    if (lane == 0u) store_scale(to, bits);
}

// The regular Hadamard matrix of order 4: half the sum, less the opposite element.
#define FOUR(A, B, C, D)                        \
    {                                           \
        vec4 h = 0.5 * ((A + B) + (C + D));     \
        vec4 a = A, b = B, c = C;               \
        A = h - D, B = h - c, C = h - b, D = h - a; \
    }
const uint exchanged = QUANTIZE == QUANTIZE_ROTATED ? gl_WorkGroupSize.x * BATCH : 1u;
shared vec4 exchange[exchanged];

// 256 columns from `first` on, by four lanes: this one, number `part`, has quads part, part + 4, ... of them, before and after. Everybody
// comes here, for the barriers.
void rotate(uint row, uint first, uint part, out vec4 x[16]) {
    uint i = gl_LocalInvocationID.x;
    [[unroll]] for (uint j = 0u; j < 16u; j++) {
        x[j] = first < columns ? result(row, first + 4u * part + 16u * j) : vec4(0.0);
        x[j] = 0.5 * dot(x[j], vec4(1.0)) - x[j].wzyx;
    }
    [[unroll]] for (uint j = 0u; j < 16u; j += 4u) FOUR(x[j], x[j + 1u], x[j + 2u], x[j + 3u])
    [[unroll]] for (uint j = 0u; j < 4u; j++) FOUR(x[j], x[j + 4u], x[j + 8u], x[j + 12u])
    [[unroll]] for (uint begin = 0u; begin < 16u; begin += BATCH) {
        barrier();
        [[unroll]] for (uint j = 0u; j < BATCH; j++) exchange[j * gl_WorkGroupSize.x + i] = x[begin + j];
        barrier();
        [[unroll]] for (uint j = 0u; j < BATCH; j++) {
            uint at = j * gl_WorkGroupSize.x + (i & ~3u);
            vec4 half_sum = 0.5 * ((exchange[at] + exchange[at + 1u]) + (exchange[at + 2u] + exchange[at + 3u]));
            x[begin + j] = half_sum - exchange[at + 3u - part];
        }
    }
}

void quantize_rotated(uint lane, uint row, uint to, bool exists) {
    vec4 x[16];
    uint bits = 0u, part = lane % 4u, step = LANES * 64u;
    for (uint base = 0u; base < columns; base += step) {
        rotate(row, base + lane / 4u * 256u, part, x);
        [[unroll]] for (uint j = 0u; j < 16u; j++) bits = max(bits, bits_of(x[j]));
    }
    bits = most_of_lanes(bits);
    float steps = steps_of(bits);
    for (uint base = 0u; base < columns; base += step) {
        uint first = base + lane / 4u * 256u;
        if (columns > step) rotate(row, first, part, x);
        if (exists && first < columns) {
            [[unroll]] for (uint j = 0u; j < 16u; j++) dst_u1[(to + first + 4u * part + 16u * j) >> 2] = pack_bytes(x[j], steps);
        }
    }
    if (exists && lane == 0u) store_scale(to, bits);
}

void main() {
    uint lane = gl_LocalInvocationID.x % LANES;
    uint wanted = (gl_WorkGroupID.x + first_group) * (gl_WorkGroupSize.x / LANES) + gl_LocalInvocationID.x / LANES;
    uint row = min(wanted, rows - 1u), to = out_offset + row * out_pitch; // nobody leaves before the last barrier
    if (!HAS(PART_PLAIN)) measure(lane, in_offset + row * in_pitch);
    if (QUANTIZE == QUANTIZE_ROTATED) {
        quantize_rotated(lane, row, to, wanted < rows);
        return;
    }
    if (QUANTIZE != 0u) {
        quantize(lane, row, to, wanted < rows);
        return;
    }
    if (wanted >= rows) return;
    for (uint c = 4u * lane; c < columns; c += 4u * LANES) {
        vec4 v = result(row, c);
        if (VECTOR) dst_store4(OUT_FORMAT, to + c, v);
        else dst_store_some(OUT_FORMAT, to + c, columns - c, v);
    }
}
