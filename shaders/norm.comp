#version 450
// LayerNorm or RMSNorm of rows, affine, then x * (1 + scale) + shift. Two passes with a correction, so that a large common offset costs no
// accuracy. LANES lanes share a row; a workgroup holds several rows.
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

void main() {
    uint lane = gl_LocalInvocationID.x % LANES;
    uint wanted = (gl_WorkGroupID.x + first_group) * (gl_WorkGroupSize.x / LANES) + gl_LocalInvocationID.x / LANES;
    uint row = min(wanted, rows - 1u), at = in_offset + row * in_pitch; // nobody leaves before the last barrier
    float mean = 0.0;
    vec2 sums = vec2(0.0);
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
    sums = sum_lanes(vec2(dot(sum, vec4(1.0)), dot(squares, vec4(1.0)))) / float(columns);
    if (HAS(PART_RMS)) sums.x = 0.0;
    float rest = sums.x; // what rounding left of the mean; added to it, it would be rounded away
    float inverse = 1.0 / sqrt(max(sums.y - sums.x * sums.x, 0.0) + eps);
    if (wanted >= rows) return;

    uint group = rows_per_group == 0u ? 0u : row / rows_per_group, to = out_offset + row * out_pitch;
    for (uint c = 4u * lane; c < columns; c += 4u * LANES) {
        vec4 v = (load(at, c) - mean - rest) * inverse;
        if (HAS(PART_WEIGHT)) v *= TABLE(weight, weight_offset, c);
        if (HAS(PART_BIAS)) v += TABLE(bias, bias_offset, c);
        if (HAS(PART_SCALE)) v *= 1.0 + TABLE(scale, scale_offset + group * scale_pitch, c);
        if (HAS(PART_SHIFT)) v += TABLE(shift, shift_offset + group * shift_pitch, c);
        if (VECTOR) dst_store4(OUT_FORMAT, to + c, v);
        else dst_store_some(OUT_FORMAT, to + c, columns - c, v);
    }
}
