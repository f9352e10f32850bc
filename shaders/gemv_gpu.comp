#version 450
// Few rows (M at most ROWS, at most 8) times a matrix, on GPUs: a workgroup computes four columns; its threads split K and add up in shared
// memory in a fixed order.
#extension GL_GOOGLE_include_directive : require
#define INT8 false // the sums would not be exact
#include "gemm.glsl"
layout(constant_id = 10) const uint ROWS = 1;

shared vec4 partial[gl_WorkGroupSize.x * ROWS];

void main() {
    uint t = gl_LocalInvocationID.x, n = (gl_WorkGroupID.x + first_group) * 4u, quads = (K + 3u) / 4u;
    vec4 sum[ROWS];
    [[unroll]] for (uint r = 0u; r < ROWS; r++) sum[r] = vec4(0.0);
    for (uint quad = t; quad < quads; quad += gl_WorkGroupSize.x) {
        vec4 y[4];
        [[unroll]] for (uint c = 0u; c < 4u; c++) y[c] = load_w(w_offset + min(n + c, N - 1u) * w_pitch + 4u * quad);
        [[unroll]] for (uint r = 0u; r < ROWS; r++) {
            vec4 x = mask_tail(load_a(a_offset + min(r, M - 1u) * a_pitch + 4u * quad), 4u * quad);
            sum[r] += vec4(dot(x, y[0]), dot(x, y[1]), dot(x, y[2]), dot(x, y[3]));
        }
    }
    [[unroll]] for (uint r = 0u; r < ROWS; r++) partial[r * gl_WorkGroupSize.x + t] = sum[r];
    barrier();
    for (uint span = gl_WorkGroupSize.x / 2u; span > 0u; span /= 2u) {
        if (t < span) {
            [[unroll]] for (uint r = 0u; r < ROWS; r++) partial[r * gl_WorkGroupSize.x + t] += partial[r * gl_WorkGroupSize.x + t + span];
        }
        barrier();
    }
    if (t < M) finish(partial[t * gl_WorkGroupSize.x], t, n);
}
