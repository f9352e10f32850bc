// The sum over a workgroup, in a fixed order.
shared vec2 lane_sums[THREADS];
vec2 sum_lanes(vec2 v) {
    uint i = gl_LocalInvocationID.x;
    barrier();
    lane_sums[i] = v;
    barrier();
    for (uint span = THREADS / 2u; span > 0u; span /= 2u) {
        if (i < span) lane_sums[i] += lane_sums[i + span];
        barrier();
    }
    return lane_sums[0];
}
