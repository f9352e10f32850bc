#version 450
// Rows of a prompt times weights of their own, in place, then all rows of an item times what brings their mean back to
// where it was: how A1111's web UI weighs the tokens of a prompt. A workgroup has a row. The first pass (SUMS) writes
// the sums of each row, and of the row times its weight; the second one multiplies the rows.
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

layout(constant_id = 1) const bool SUMS = false;

layout(push_constant) uniform Push {
    uint first_group;
    uint columns;
    uint table_offset; // rows of four: weight, its item's first row and number of rows, 0
    uint x_offset, x_pitch;
    uint sums_offset;
};

READABLE(0, table, readonly)
WRITABLE(1, x)
WRITABLE(2, sums)
#include "lanes.glsl"

void main() {
    uint row = first_group + gl_WorkGroupID.x, at = x_offset + row * x_pitch, entry = table_offset + 4u * row,
         lane = gl_LocalInvocationID.x, summed = SUMS ? columns : 0u;
    uint pairs = sums_offset / 2u, item = SUMS ? 0u : table_u1[entry + 2u];
    float w = table_load1(FORMAT_F32, entry);
    vec2 sum = vec2(0.0);
    for (uint c = lane; c < summed; c += THREADS) sum += x_load1(FORMAT_F32, at + c) * vec2(1.0, w);
    for (uint r = lane; r < item; r += THREADS) sum += uintBitsToFloat(sums_h4[pairs + table_u1[entry + 1u] + r]);
    sum = sum_lanes(sum);
    if (SUMS) sums_h4[pairs + row] = floatBitsToUint(sum);
    w *= mix(1.0, sum.x / sum.y, abs(sum.x) < 1.0e6 * abs(sum.y)); // or there is no mean to keep
    for (uint c = lane; c < columns - summed; c += THREADS)
        x_u1[at + c] = floatBitsToUint(x_load1(FORMAT_F32, at + c) * w);
}
