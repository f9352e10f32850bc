#version 450
// Whether a step may reuse what blocks added in an earlier one (docs/models.md 7.16): the change of what the first
// blocks add, relative to what they added when all blocks were computed last; or (EasyCache) the change of the output
// that the change of the input lets expect.
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

// out[r] = (sum of |x - before|, sum of |before|) of row r of the image, a workgroup each. FORECASTS: the second is the
// sum of |x|.
#define OP_SUMS 0u
// out[2b], out[2b + 1] = the sums of those rows that are branch b's; x is the result of OP_SUMS. FORECASTS: before's
// four sums of the output follow.
#define OP_TOTAL 1u
// x [devices, 4 or 8] is the result of OP_TOTAL on all devices; one workgroup.
#define OP_DECIDE 2u

layout(constant_id = 1) const uint OP = OP_SUMS;
layout(constant_id = 2) const uint FORECASTS = 0u;

layout(push_constant) uniform Push {
    uint first_group;
    uint rows,
        columns;     // OP_SUMS: image rows of an item, columns; OP_TOTAL: rows of a branch; OP_DECIDE: devices, steps
    uint item, text; // OP_SUMS: rows of an item in x, of which so many come first; OP_TOTAL: branches, the first
    uint x_offset, x_pitch;
    uint before_offset[2];
    uint state_offset, out_offset, row_offset, gate_offset;
    uint entries; // of either half of the gate
};

READABLE_F32(0, x)
READABLE_F32(1, before0)
READABLE_F32(2, before1)
layout(binding = 3) buffer State { float state[]; };
layout(binding = 4) buffer Out { float result[]; };
layout(binding = 5) readonly buffer Row { float row[]; };
layout(binding = 6) buffer Gate { uvec4 gate[]; };
#include "lanes.glsl"

// Words of the state: slot of what the first blocks added last, whether there is such a thing, steps reused since, and
// in all, then for each step whether it did. Words of the row: slot, whether all must be computed, threshold, most
// steps reused one after the other; the number of the step.
void sums() {
    uint r = first_group + gl_WorkGroupID.x, at = (r / rows * item + text + r % rows) * x_pitch;
    bool second = state[state_offset] != 0.0;
    vec2 sum = vec2(0.0);
    for (uint c = gl_LocalInvocationID.x * 4u; c < columns; c += THREADS * 4u) {
        vec4 v = x_load4(x_offset + at + c), old;
        if (second)
            old = before1_load4(before_offset[1] + at + c);
        else
            old = before0_load4(before_offset[0] + at + c);
        sum += vec2(dot(abs(v - old), vec4(1.0)), dot(abs(FORECASTS != 0u ? v : old), vec4(1.0)));
    }
    sum = sum_lanes(sum);
    if (gl_LocalInvocationID.x == 0u) {
        result[out_offset + r * 4u] = sum.x;
        result[out_offset + r * 4u + 1u] = sum.y;
    }
}

void total() {
    for (uint b = 0u; b < 2u; b++) {
        vec2 sum = vec2(0.0);
        for (uint r = gl_LocalInvocationID.x; r < rows && b >= text && b < text + item; r += THREADS) {
            uint at = x_offset + ((b - text) * rows + r) * x_pitch;
            sum += vec2(x_load1(FORMAT_F32, at), x_load1(FORMAT_F32, at + 1u));
        }
        sum = sum_lanes(sum);
        if (gl_LocalInvocationID.x == 0u) {
            result[out_offset + 2u * b] = sum.x;
            result[out_offset + 2u * b + 1u] = sum.y;
        }
    }
    if (FORECASTS != 0u && gl_LocalInvocationID.x < 4u) {
        uint i = gl_LocalInvocationID.x;
        result[out_offset + 4u + i] = state[state_offset] != 0.0 ? before1_load1(FORMAT_F32, before_offset[1] + i)
                                                                 : before0_load1(FORMAT_F32, before_offset[0] + i);
    }
}

// EasyCache's words of the state, behind those of the steps, for each branch: by how much the output changes where the
// input changes by 1; the change of the output that is expected since it was computed last, relative to it; the
// input's change when it was computed last.
bool expects_little(vec4 inputs, vec4 outputs, float threshold, bool computed, out vec2 rate, out vec2 error) {
    bool known = false, little = true;
    for (uint b = 0u; b < 2u; b++) {
        uint at = state_offset + 4u + columns + b;
        float input_change = b == 0u ? inputs.x : inputs.z, change = b == 0u ? outputs.x : outputs.z,
              size = b == 0u ? outputs.y : outputs.w, before = state[at + 4u];
        rate[b] = computed && before > 0.0 && change > 0.0 ? change / before : state[at];
        error[b] = state[at + 2u];
        if (input_change <= 0.0) continue; // the branch is not evaluated
        error[b] += size > 0.0 ? rate[b] * input_change / size : 0.0;
        known = rate[b] > 0.0 && size > 0.0;
        little = little && known && error[b] < threshold;
    }
    return known && little;
}

void decide() {
    vec4 words =
        vec4(state[state_offset], state[state_offset + 1u], state[state_offset + 2u], state[state_offset + 3u]);
    vec4 all = vec4(0.0), outputs = vec4(0.0);
    for (uint r = 0u; r < rows; r++) {
        all += x_load4(x_offset + r * x_pitch);
        if (FORECASTS != 0u) outputs += x_load4(x_offset + r * x_pitch + 4u);
    }
    float threshold = row[row_offset + 2u], most = row[row_offset + 3u];
    bool reuse = words.y != 0.0 && row[row_offset + 1u] == 0.0 && (most == 0.0 || words.z < most);
    // a branch that is not evaluated has sums of 0
    vec2 rate = vec2(0.0), error = vec2(0.0), before = vec2(0.0);
    if (FORECASTS == 0u) {
        reuse = reuse && all.x <= threshold * all.y && all.z <= threshold * all.w;
    } else {
        before = vec2(state[state_offset + 8u + columns], state[state_offset + 9u + columns]);
        reuse = expects_little(all, outputs, threshold, words.y != 0.0 && words.z == 0.0, rate, error) && reuse;
    }
    barrier(); // state and result may be the same
    if (gl_LocalInvocationID.x == 0u) {
        result[out_offset] = reuse ? words.x : words.y != 0.0 ? 1.0 - words.x : 0.0;
        result[out_offset + 1u] = 1.0;
        result[out_offset + 2u] = reuse ? words.z + 1.0 : 0.0;
        result[out_offset + 3u] = words.w + (reuse ? 1.0 : 0.0);
    }
    if (FORECASTS != 0u && gl_LocalInvocationID.x < 2u) {
        uint b = gl_LocalInvocationID.x, at = out_offset + 4u + columns + b;
        result[at] = rate[b];
        result[at + 2u] = reuse ? error[b] : 0.0;
        result[at + 4u] = reuse ? before[b] : words.y != 0.0 ? (b == 0u ? all.x : all.z) : 0.0;
    }
    for (uint i = gl_LocalInvocationID.x; i < columns; i += THREADS)
        result[out_offset + 4u + i] =
            i == uint(row[row_offset + 4u]) ? (reuse ? 1.0 : 0.0) : state[state_offset + 4u + i];
    for (uint i = gl_LocalInvocationID.x; i < entries; i += THREADS) {
        gate[(gate_offset >> 2) + i] = uvec4(reuse ? 0u : i, 1u, 1u, 0u);
        gate[(gate_offset >> 2) + entries + i] = uvec4(reuse ? i : 0u, 1u, 1u, 0u);
    }
}

void main() {
    if (OP == OP_SUMS)
        sums();
    else if (OP == OP_TOTAL)
        total();
    else
        decide();
}
