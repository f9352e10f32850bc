#version 450
// The end of a product that was split along K: adds the K partial results, each [M rounded up to 16, N], in order and runs
// the epilogue.
#extension GL_GOOGLE_include_directive : require
#include "gemm.glsl"

void main() {
    uvec2 tile = tile_of(gl_WorkGroupID.x + first_group);
    uint row = tile.x, column = 4u * (tile.y * gl_WorkGroupSize.x + gl_LocalInvocationID.x);
    if (column >= N) return;
    uint part_rows = (M + 15u) & ~15u;
    vec4 v = vec4(0.0);
    for (uint part = 0u; part < K; part++) v += a_load4(FORMAT_F32, a_offset + (part * part_rows + row) * a_pitch + column);
    finish(v, row, column);
}
