#version 450
// In place on queries or keys: per-head RMS or LayerNorm, then rotary embedding (models.md 2.5). LANES lanes share one head of one row.
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint LANES = 1; // a power of two that divides the workgroup's size
layout(constant_id = 2) const uint FORMAT = FORMAT_F32;
layout(constant_id = 3) const uint PARTS = 0;
#define PART_RMS 1u
#define PART_LAYER 2u
#define PART_WEIGHT 4u
#define PART_BIAS 8u
#define PART_ROTATE 16u
#define PART_HALF_SPLIT 32u
#define HAS(PART) ((PARTS & (PART)) != 0u)

layout(push_constant) uniform Push {
    uint first_group;
    uint rows, heads, head_dim, tokens;
    float eps;
    uint x_offset, x_pitch, weight_offset, bias_offset;
    uint cos_offset, cos_pitch, sin_offset, sin_pitch;
};
WRITABLE(0, x)
layout(binding = 1) readonly buffer Weight { float weight[]; };
layout(binding = 2) readonly buffer BiasBuffer { float bias[]; };
layout(binding = 3) readonly buffer Cosines { float cosines[]; };
layout(binding = 4) readonly buffer Sines { float sines[]; };

// Two neighbouring channels: F16 pairs share a word.
vec2 load_pair(const uint at) { return FORMAT == FORMAT_F32 ? vec2(x_load1(FORMAT, at), x_load1(FORMAT, at + 1u)) : unpackHalf2x16(x_h4[at >> 2][at >> 1 & 1u]); }
void store_pair(const uint at, const vec2 v) { x_store_some(FORMAT, at, 2u, vec4(v, 0.0, 0.0)); }

shared vec2 lane_sums[gl_WorkGroupSize.x];
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

float mean, rest, inverse; // rest: what rounding left of the mean
vec2 normed_pair(const uint at, const uint c) {
    vec2 v = (load_pair(at + c) - mean - rest) * inverse;
    if (HAS(PART_WEIGHT)) v *= vec2(weight[weight_offset + c], weight[weight_offset + c + 1u]);
    if (HAS(PART_BIAS)) v += vec2(bias[bias_offset + c], bias[bias_offset + c + 1u]);
    return v;
}

void main() {
    uint lane = gl_LocalInvocationID.x % LANES;
    uint wanted = (gl_WorkGroupID.x + first_group) * (gl_WorkGroupSize.x / LANES) + gl_LocalInvocationID.x / LANES;
    uint item = min(wanted, rows * heads - 1u), row = item / heads;
    uint at = x_offset + row * x_pitch + item % heads * head_dim;
    mean = 0.0;
    rest = 0.0;
    inverse = 1.0;
    if (HAS(PART_LAYER)) {
        vec2 sum = vec2(0.0);
        for (uint c = 2u * lane; c < head_dim; c += 2u * LANES) sum += load_pair(at + c);
        mean = sum_lanes(vec2(sum.x + sum.y, 0.0)).x / float(head_dim);
    }
    if (HAS(PART_LAYER) || HAS(PART_RMS)) {
        vec2 sum = vec2(0.0), squares = vec2(0.0);
        for (uint c = 2u * lane; c < head_dim; c += 2u * LANES) {
            vec2 d = load_pair(at + c) - mean;
            sum += d;
            squares += d * d;
        }
        vec2 sums = sum_lanes(vec2(sum.x + sum.y, squares.x + squares.y)) / float(head_dim);
        if (HAS(PART_RMS)) sums.x = 0.0;
        rest = sums.x;
        inverse = 1.0 / sqrt(max(sums.y - sums.x * sums.x, 0.0) + eps);
    }
    if (wanted != item) return;

    uint table_row = row % tokens, split = head_dim / 2u;
    uint cos_at = cos_offset + table_row * cos_pitch, sin_at = sin_offset + table_row * sin_pitch;
    if (HAS(PART_ROTATE) && HAS(PART_HALF_SPLIT)) {
        for (uint c = 2u * lane; c < split; c += 2u * LANES) {
            vec2 a = normed_pair(at, c), b = normed_pair(at, c + split);
            vec2 cosine = vec2(cosines[cos_at + c], cosines[cos_at + c + 1u]), sine = vec2(sines[sin_at + c], sines[sin_at + c + 1u]);
            store_pair(at + c, a * cosine - b * sine);
            store_pair(at + c + split, b * cosine + a * sine);
        }
        return;
    }
    for (uint c = 2u * lane; c < head_dim; c += 2u * LANES) {
        vec2 v = normed_pair(at, c);
        if (HAS(PART_ROTATE)) {
            float cosine = cosines[cos_at + c / 2u], sine = sines[sin_at + c / 2u];
            v = vec2(v.x * cosine - v.y * sine, v.y * cosine + v.x * sine);
        }
        store_pair(at + c, v);
    }
}
