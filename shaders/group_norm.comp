#version 450
// GroupNorm over rows of pixels, in three dispatches whose order of additions is fixed: mean and squared deviation of
// every group in every chunk of pixels; their combination; normalisation, optionally with SiLU. An image is summed in
// parts of equal size, which consist of chunks: where several devices have some of the parts each, every device
// combines the chunks of its parts to moments, and combining those of all devices adds the same numbers in the same
// order as one device that has all chunks.
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "activation.glsl"

layout(constant_id = 1) const uint STAGE = 0;
layout(constant_id = 2) const uint IN_FORMAT = FORMAT_F32;
layout(constant_id = 3) const uint OUT_FORMAT = FORMAT_F32;
layout(constant_id = 4) const uint ACTIVATION = ACTIVATION_NONE;
layout(constant_id = 5) const bool VECTOR = true; // columns and every offset and pitch is a multiple of 4
#define STAGE_CHUNKS 0u
#define STAGE_COMBINE 1u
#define STAGE_APPLY 2u
#define STAGE_MOMENTS 3u // of each part, to be combined with those of other devices

layout(push_constant) uniform Push {
    uint first_group;
    uint batch, pixels, columns, groups, chunks, chunk_pixels, part_chunks, part_pixels; // chunks: of an item
    float eps;
    uint in_offset, in_pitch, out_offset, out_pitch;
    // A mean is held as a sum of two floats, so that a large common offset costs no accuracy.
    uint partial_offset,
        partial_pitch; // [batch * chunks, 4 * groups]: mean (two floats), sum of squared deviations, count
    uint stats_offset,
        stats_pitch; // [batch, 4 * groups]: mean (two floats), 1 / sqrt(variance + eps); moments, of parts: as above
    uint weight_offset, bias_offset;
};
READABLE(0, x, readonly)
WRITABLE(1, dst)
layout(binding = 2) buffer Partial { float partial[]; };
layout(binding = 3) buffer Stats { float stats[]; };
layout(binding = 4) readonly buffer Weight { float weight[]; };
layout(binding = 5) readonly buffer BiasBuffer { float bias[]; };

shared vec3 lane_moments[THREADS];

// (count, mean, sum of squared deviations) of two sets together (Chan, Golub, LeVeque). Never fused: the stages shall
// give the same bytes.
vec3 joined(vec3 a, vec3 b) {
    precise float count = a.x + b.x;
    if (count == 0.0) return a;
    precise float d = b.y - a.y, share = b.x / count, mean = a.y + d * share, squares = a.z + b.z + d * d * a.x * share;
    return vec3(count, mean, squares);
}

// One workgroup: one chunk of one item; lanes take groups in turn.
void chunk_stage(const uint g) {
    uint item = g / chunks, within = g % chunks % part_chunks * chunk_pixels,
         first = g % chunks / part_chunks * part_pixels + within;
    uint count = min(min(chunk_pixels, part_pixels - within), pixels - first), width = columns / groups;
    for (uint group = gl_LocalInvocationID.x; group < groups; group += THREADS) {
        uint at = in_offset + (item * pixels + first) * in_pitch + group * width;
        float sum = 0.0, rest = 0.0, squares = 0.0, n = float(count * width);
        for (uint p = 0u; p < count; p++)
            for (uint c = 0u; c < width; c++) sum += x_load1(IN_FORMAT, at + p * in_pitch + c);
        float mean = sum / n;
        for (uint p = 0u; p < count; p++)
            for (uint c = 0u; c < width; c++) {
                float d = x_load1(IN_FORMAT, at + p * in_pitch + c) - mean;
                rest += d;
                squares += d * d;
            }
        uint to = partial_offset + g * partial_pitch + 4u * group;
        partial[to] = mean;
        partial[to + 1u] = rest / n;
        partial[to + 2u] = max(squares - rest * rest / n, 0.0);
        partial[to + 3u] = n;
    }
}

// The chunks of one part together, for one group; means are relative to that of the first chunk, which is base.
vec3 part_moments(uint part, uint group, out float base) {
    uint first = part * part_chunks, at = partial_offset + first * partial_pitch + 4u * group;
    base = partial[at];
    vec3 all = vec3(partial[at + 3u], partial[at + 1u], partial[at + 2u]);
    for (uint chunk = 1u; chunk < part_chunks; chunk++) {
        at += partial_pitch;
        all = joined(all, vec3(partial[at + 3u], partial[at] - base + partial[at + 1u], partial[at + 2u]));
    }
    return all;
}

// One invocation: one group of one part of one item.
void moments_stage(const uint g) {
    uint id = g * THREADS + gl_LocalInvocationID.x, part = id / groups, group = id % groups;
    if (part >= batch * (chunks / part_chunks)) return;
    float base;
    vec3 all = part_moments(part, group, base);
    uint to = stats_offset + part * stats_pitch + 4u * group;
    stats[to] = base;
    stats[to + 1u] = all.y;
    stats[to + 2u] = all.z;
    stats[to + 3u] = all.x;
}

// One workgroup: one group of one item.
void combine_stage(const uint g) {
    uint item = g / groups, group = g % groups, lane = gl_LocalInvocationID.x, parts = chunks / part_chunks;
    float common_mean =
        partial[partial_offset + item * chunks * partial_pitch + 4u * group]; // means below are relative to it
    vec3 all = vec3(0.0);
    for (uint part = lane; part < parts; part += THREADS) {
        float base;
        vec3 one = part_moments(item * parts + part, group, base);
        precise float mean = base - common_mean + one.y;
        all = joined(all, vec3(one.x, mean, one.z));
    }
    lane_moments[lane] = all;
    barrier();
    for (uint span = THREADS / 2u; span > 0u; span /= 2u) {
        if (lane < span) lane_moments[lane] = joined(lane_moments[lane], lane_moments[lane + span]);
        barrier();
    }
    if (lane != 0u) return;
    all = lane_moments[0];
    uint to = stats_offset + item * stats_pitch + 4u * group;
    stats[to] = common_mean;
    stats[to + 1u] = all.y;
    stats[to + 2u] = 1.0 / sqrt(all.z / all.x + eps);
    stats[to + 3u] = all.x;
}

// One invocation: four channels of a pixel.
void apply_stage(const uint g) {
    uint id = g * THREADS + gl_LocalInvocationID.x, quads = (columns + 3u) / 4u, row = id / quads,
         column = id % quads * 4u;
    if (row >= batch * pixels) return;
    uint count = min(columns - column, 4u), width = columns / groups, from = stats_offset + row / pixels * stats_pitch;
    uint at = in_offset + row * in_pitch + column;
    vec4 v = VECTOR ? x_load4(IN_FORMAT, at) : x_some(IN_FORMAT, at, count);
    for (uint i = 0u; i < count; i++) {
        uint c = column + i, moments = from + c / width * 4u;
        v[i] = (v[i] - stats[moments] - stats[moments + 1u]) * stats[moments + 2u] * weight[weight_offset + c] +
               bias[bias_offset + c];
    }
    if (ACTIVATION == ACTIVATION_SILU) v = activate(ACTIVATION_SILU, v);
    uint to = out_offset + row * out_pitch + column;
    if (VECTOR)
        dst_store4(OUT_FORMAT, to, v);
    else
        dst_store_some(OUT_FORMAT, to, count, v);
}

void main() {
    uint g = gl_WorkGroupID.x + first_group;
    if (STAGE == STAGE_CHUNKS)
        chunk_stage(g);
    else if (STAGE == STAGE_APPLY)
        apply_stage(g);
    else if (STAGE == STAGE_MOMENTS)
        moments_stage(g);
    else
        combine_stage(g);
}
