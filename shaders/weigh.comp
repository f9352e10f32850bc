#version 450
// Rows times weights of their own, in place, then all rows of an item times what brings their mean back to where it was: how A1111's web UI
// weighs the tokens of a prompt. A workgroup per row: first for the sums of each row, then for the row itself.
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const bool SUMS = true;
layout(push_constant) uniform Push {
    uint first_group;
    uint columns;
    uint x_offset, x_pitch, table_offset, sums_offset;
};
layout(binding = 0) buffer X { float x[]; };
layout(binding = 1) readonly buffer Table { uvec4 table[]; }; // a row's weight, its item's first row and number of rows
layout(binding = 2) buffer Sums { float sums[]; }; // of each row, and of the row times its weight
shared vec2 lane_sums[gl_WorkGroupSize.x];

vec2 sum_lanes(vec2 v) {
    uint lane = gl_LocalInvocationID.x;
    lane_sums[lane] = v;
    barrier();
    for (uint span = gl_WorkGroupSize.x / 2u; span > 0u; span /= 2u) {
        if (lane < span) lane_sums[lane] += lane_sums[lane + span];
        barrier();
    }
    return lane_sums[0];
}

void main() {
    uint lane = gl_LocalInvocationID.x, lanes = gl_WorkGroupSize.x, row = gl_WorkGroupID.x + first_group, at = x_offset + row * x_pitch;
    uvec4 item = table[table_offset / 4u + row];
    float w = uintBitsToFloat(item.x);
    vec2 sum = vec2(0.0);
    if (SUMS) {
        for (uint c = lane; c < columns; c += lanes) sum += x[at + c] * vec2(1.0, w);
        sum = sum_lanes(sum);
        if (lane == 0u) {
            sums[sums_offset + row * 2u] = sum.x;
            sums[sums_offset + row * 2u + 1u] = sum.y;
        }
        return;
    }
    uint first = sums_offset + item.y * 2u;
    for (uint r = lane; r < item.z; r += lanes) sum += vec2(sums[first + r * 2u], sums[first + r * 2u + 1u]);
    sum = sum_lanes(sum);
    float ratio = sum.x / sum.y;
    if (!(abs(ratio) < 1.0e6)) ratio = 1.0; // there is no mean to keep
    for (uint c = lane; c < columns; c += lanes) x[at + c] *= w * ratio;
}
