#version 450
// Attention to some keys (x) and to others (o) becomes attention to both, in o. The logarithms of their sums of
// exponentials are x_lse and o_lse; lse gets the new ones. One invocation does four columns.
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

layout(push_constant) uniform Push {
    uint first_group;
    uint rows, columns;
    uint x_offset, x_pitch;
    uint o_offset, o_pitch;
    uint x_lse_offset, o_lse_offset, lse_offset, lse_pitch; // the pitch of all three
    uint head_dim;
};

READABLE(0, x, readonly)
READABLE(1, x_lse, readonly)
WRITABLE(2, o)
READABLE(3, o_lse, readonly)
WRITABLE(4, lse)

void main() {
    uint quads = (columns + 3u) / 4u, i = (first_group + gl_WorkGroupID.x) * THREADS + gl_LocalInvocationID.x;
    if (i >= rows * quads) return;
    uint row = i / quads, column = i % quads * 4u;
    uint head = row * lse_pitch + column / head_dim, at = o_offset + row * o_pitch + column;
    float before = o_lse_load1(FORMAT_F32, o_lse_offset + head),
          more = x_lse_load1(FORMAT_F32, x_lse_offset + head) - before;
    vec4 v = o_load4(FORMAT_F32, at);
    o_store4(FORMAT_F32, at, v + (x_load4(FORMAT_F32, x_offset + row * x_pitch + column) - v) / (1.0 + exp(-more)));
    if (column % head_dim == 0u)
        lse_u1[lse_offset + head] = floatBitsToUint(before + max(more, 0.0) + log(1.0 + exp(-abs(more))));
}
