#version 450
// GEMM for drivers that run on a processor: one subgroup per workgroup, no shared memory. Each lane owns LANE_TILE rows
// of the lane operand, all lanes share SPREAD_TILE rows of the spread operand: each loads a few of them, and every lane
// gets every value by a shuffle, so that no value is loaded twice in a workgroup (loads cost such drivers far more than
// arithmetic). Lanes run over A's rows, or over W's (SWAP) where A has few rows.
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_shader_subgroup_shuffle : require
#define PUSHED_EPILOGUE
#include "gemm.glsl"
layout(constant_id = 10) const uint LANE_TILE = 4;    // 4 with SWAP
layout(constant_id = 11) const uint SPREAD_TILE = 32; // a multiple of the workgroup's and subgroup's size
layout(constant_id = 12) const bool SWAP = false;

shared vec4 stage[THREADS * LANE_TILE * SPREAD_TILE / 4u];
const uint totals = INT8 ? THREADS * LANE_TILE * SPREAD_TILE / 4u : 1u;
shared ivec4
    total[totals]; // int8: what the sums held whenever they could have become inexact; each lane has its own part

#define STAGE_SUMS                                                                                                     \
    [[unroll]] for (uint i = 0u; i < LANE_TILE; i++) [[unroll]] for (uint j = 0u; j < SPREAD_TILE; j += 4u)            \
        stage[mine + (i * SPREAD_TILE + j) / 4u] = vec4(sum[i][j], sum[i][j + 1u], sum[i][j + 2u], sum[i][j + 3u]);

void main() {
    const uint lanes = THREADS, lane = gl_LocalInvocationID.x;
    const uint loads = SPREAD_TILE / THREADS;
    uvec2 tile = tile_of(gl_WorkGroupID.x + first_group);
    uint lane_count = SWAP ? N : M, spread_count = SWAP ? M : N;
    uint lane_row = (SWAP ? tile.y : tile.x) * lanes * LANE_TILE + lane * LANE_TILE;
    uint spread_row = (SWAP ? tile.x : tile.y) * SPREAD_TILE;
    float sum[LANE_TILE][SPREAD_TILE];
    [[unroll]] for (uint i = 0u; i < LANE_TILE; i++) [[unroll]] for (uint j = 0u; j < SPREAD_TILE; j++) sum[i][j] = 0.0;

    uint lane_at[LANE_TILE], spread_at[SPREAD_TILE]; // only the first `loads` of spread_at are used
    Pixel pixels[LANE_TILE];
    bool valid[LANE_TILE];
    [[unroll]] for (uint i = 0u; i < LANE_TILE; i++) {
        uint row = min(lane_row + i, lane_count - 1u);
        lane_at[i] = SWAP ? w_offset + row * w_pitch : a_offset + row * a_pitch;
        if (CONV) pixels[i] = pixel_of(row);
    }
    [[unroll]] for (uint j = 0u; j < loads; j++) {
        uint row = min(spread_row + j * lanes + lane, spread_count - 1u);
        spread_at[j] = SWAP ? a_offset + row * a_pitch : w_offset + row * w_pitch;
    }
    uint steps = (K + 3u) / 4u, mine = lane * LANE_TILE * SPREAD_TILE / 4u;
    if (INT8) [[dont_unroll]]
        for (uint q = 0u; q < LANE_TILE * SPREAD_TILE / 4u; q++) total[mine + q] = ivec4(0);
    for (uint tap = 0u; tap < tap_count(); tap++) {
        if (CONV) {
            [[unroll]] for (uint i = 0u; i < LANE_TILE; i++) lane_at[i] =
                a_offset + tap_row(pixels[i], tap, valid[i]) * a_pitch;
        }
        for (uint k = 0u, end = 0u;
             k < steps;) { // once, but for int8: a condition inside the inner loop would cost its body each time
            end = INT8 ? min(k + INT8_EXACT / 4u, steps) : steps;
            for (; k < end; k++) {
                vec4 x[LANE_TILE];
                [[unroll]] for (uint i = 0u; i < LANE_TILE; i++) {
                    x[i] = SWAP ? load_w(lane_at[i], 4u * k) : mask_tail(load_a(lane_at[i] + 4u * k), 4u * k);
                    if (CONV) x[i] = valid[i] ? x[i] : vec4(0.0);
                }
                [[unroll]] for (uint j = 0u; j < loads; j++) {
                    vec4 mine = SWAP ? mask_tail(load_a(spread_at[j] + 4u * k), 4u * k) : load_w(spread_at[j], 4u * k);
                    [[unroll]] for (uint l = 0u; l < THREADS; l++) {
                        vec4 y = subgroupShuffle(mine, l);
                        [[unroll]] for (uint i = 0u; i < LANE_TILE; i++) sum[i][j * THREADS + l] += dot(x[i], y);
                    }
                }
            }
            if (INT8) { // through the stage, so that the addition is compiled once and not once per element
                STAGE_SUMS
                [[unroll]] for (uint i = 0u; i < LANE_TILE; i++) [[unroll]] for (uint j = 0u; j < SPREAD_TILE; j++)
                    sum[i][j] = 0.0;
                [[dont_unroll]] for (uint q = 0u; q < LANE_TILE * SPREAD_TILE / 4u; q++) total[mine + q] +=
                    ivec4(stage[mine + q]);
            }
        }
        if (CONV) {
            [[unroll]] for (uint j = 0u; j < loads; j++) spread_at[j] += steps * 4u;
        }
    }

    // Through shared memory (each lane its own part), so that the epilogue is compiled once and not once per element.
    if (INT8) [[dont_unroll]]
        for (uint q = 0u; q < LANE_TILE * SPREAD_TILE / 4u; q++) stage[mine + q] = vec4(total[mine + q]);
    else
        STAGE_SUMS
    guard_begin();
    [[dont_unroll]] for (uint q = 0u; q < LANE_TILE * SPREAD_TILE / 4u; q++) {
        uint row = SWAP ? spread_row + q : lane_row + q / (SPREAD_TILE / 4u);
        uint n = SWAP ? lane_row : spread_row + q % (SPREAD_TILE / 4u) * 4u;
        if (row >= M || n >= N) continue;
        vec4 v = stage[mine + q];
        if (SWAP) [[unroll]]
            for (uint i = 0u; i < 4u; i++) v[i] = stage[mine + (i * SPREAD_TILE + q) / 4u][q % 4u];
        finish(v, row, n);
    }
    guard_note();
}
