#version 450
// Work on each element alone: activation and addition, picking a row of a table, the solver step. One invocation does four columns.
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "activation.glsl"

#define OP_MAP 0u     // dst[r, c] = activation(x[r, c] * scale + offset) + add[r % add_rows, c]
#define OP_SELECT 1u  // dst[0, c] = x[*step, c]
#define OP_ADVANCE 2u // *dst += 1
#define OP_SOLVER 3u  // one step of sample/sample.h, see solve() below

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint OP = OP_MAP;
layout(constant_id = 2) const uint X_FORMAT = FORMAT_F32;
layout(constant_id = 3) const uint OUT_FORMAT = FORMAT_F32;
layout(constant_id = 4) const uint ACTIVATION = ACTIVATION_NONE;
layout(constant_id = 5) const bool ADD = false;
layout(constant_id = 6) const bool VECTOR = true; // columns, offsets and pitches are multiples of 4
layout(constant_id = 7) const bool GUIDED = false;
layout(constant_id = 8) const bool KEEP_X0 = false;
layout(constant_id = 9) const bool NOISY = false;

layout(push_constant) uniform Push {
    uint first_group;
    uint rows, columns;
    uint x_offset, x_pitch;
    uint add_offset, add_pitch, add_rows;
    uint out_offset, out_pitch;
    float scale, offset;
    uint h1_offset, h2_offset, x0_offset, noise_offset, health_offset; // all with the pitch of out
};

READABLE(0, x, readonly)
READABLE(1, add, readonly)
WRITABLE(2, dst)
WRITABLE(3, h1)
WRITABLE(4, h2)
WRITABLE(5, x0)
READABLE(6, noise, readonly)
layout(binding = 7) buffer Health { uint health[]; };

vec4 load_x(const uint at, const uint count) { return VECTOR ? x_load4(X_FORMAT, at) : x_some(X_FORMAT, at, count); }

bool finite(const vec4 v) { return all(notEqual(floatBitsToUint(v) & 0x7f800000u, uvec4(0x7f800000u))); }

void map(const uint row, const uint column) {
    vec4 v = activate(ACTIVATION, load_x(x_offset + row * x_pitch + column, columns - column) * scale + offset);
    uint at = out_offset + row * out_pitch + column;
    if (ADD) {
        uint from = add_offset + row % add_rows * add_pitch + column;
        v += VECTOR ? add_load4(FORMAT_F32, from) : add_some(FORMAT_F32, from, columns - column);
    }
    if (VECTOR) dst_store4(OUT_FORMAT, at, v);
    else dst_store_some(OUT_FORMAT, at, columns - column, v);
}

void select_row(const uint column) {
    vec4 v = load_x(x_offset + add_u1[add_offset] * x_pitch + column, columns - column);
    if (VECTOR) dst_store4(FORMAT_F32, out_offset + column, v);
    else dst_store_some(FORMAT_F32, out_offset + column, columns - column, v);
}

float coefficient(const uint i) { return add_load1(FORMAT_F32, add_offset + i); }

// States and prediction have pitches that are multiples of 4, so whole groups of four are read and written; padding stays finite.
void solve(const uint row, const uint column) {
    uint at = row * out_pitch + column;
    vec4 m = x_load4(FORMAT_F32, x_offset + row * x_pitch + column);
    vec4 x = dst_load4(FORMAT_F32, out_offset + at), before = h1_load4(FORMAT_F32, h1_offset + at);
    if (GUIDED) m += coefficient(9u) * (x_load4(FORMAT_F32, x_offset + (rows + row) * x_pitch + column) - m);
    vec4 start = coefficient(0u) * x + coefficient(1u) * m;
    if (coefficient(2u) < 3e38) start = clamp(start, vec4(-coefficient(2u)), vec4(coefficient(2u)));
    vec4 next = coefficient(3u) * x + coefficient(4u) * m + coefficient(5u) * start + coefficient(6u) * before +
                coefficient(7u) * h2_load4(FORMAT_F32, h2_offset + at);
    if (NOISY) next += coefficient(8u) * noise_load4(FORMAT_F32, noise_offset + row * out_pitch + column);
    h2_store4(FORMAT_F32, h2_offset + at, before);
    h1_store4(FORMAT_F32, h1_offset + at, start);
    dst_store4(FORMAT_F32, out_offset + at, next);
    if (KEEP_X0) x0_store4(FORMAT_F32, x0_offset + at, start);
    bvec4 real = lessThan(uvec4(column) + uvec4(0u, 1u, 2u, 3u), uvec4(columns));
    if (!finite(mix(vec4(0.0), next, real)) || !finite(mix(vec4(0.0), m, real))) {
        atomicCompSwap(health[health_offset], 0u, uint(coefficient(10u)));
    }
}

void main() {
    uint quads = (columns + 3u) / 4u, i = (first_group + gl_WorkGroupID.x) * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
    if (i >= rows * quads) return;
    uint row = i / quads, column = i % quads * 4u;
    if (OP == OP_MAP) map(row, column);
    if (OP == OP_SELECT) select_row(column);
    if (OP == OP_ADVANCE) dst_u1[out_offset] += 1u;
    if (OP == OP_SOLVER) solve(row, column);
}
