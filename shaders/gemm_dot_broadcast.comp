#version 450
// GEMM of int8 blocks by the dot product of four bytes on GPUs on which all threads of a subgroup can read one thread's
// register for nothing (gemm_broadcast.comp): each subgroup (a team) owns ROWS rows of the tile, and each of its
// threads COLUMNS columns of them. A team's rows of A never leave its registers; slices of W, a block of K, lie in
// shared memory, two by turns, so that one barrier is enough. The next slice is loaded while this one is computed.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_spirv_intrinsics : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#define INT8 true
#define VECTOR true
#define CONV false
#include "gemm.glsl"
#include "dot.glsl"
layout(constant_id = 10) const uint ROWS = 8;    // a divisor of TEAM
layout(constant_id = 11) const uint COLUMNS = 4; // a multiple of 4
layout(constant_id = 12) const uint TEAM = 8;    // threads of a subgroup; a divisor of ROWS * STEP_QUADS
layout(constant_id = 13) const uint ACROSS = 2;  // teams side by side
#define SKEWED (STEP_QUADS + 1u)                 // eight threads that read neighbouring columns hit all banks

const uint tile_rows = THREADS / TEAM / ACROSS * ROWS, tile_columns = TEAM * COLUMNS * ACROSS,
           tile_quads = tile_columns * SKEWED;
const uint a_loads = ROWS * STEP_QUADS / TEAM;
const uint w_all = tile_columns * STEP_QUADS, w_loads = (w_all + THREADS - 1u) / THREADS; // some threads may have none
shared ivec4 w_tile[2u * tile_quads];
shared float w_scales[2u * tile_columns];

uint a_at[a_loads], w_at[w_loads], x_scale_at, w_scale_at;
ivec4 next_a[a_loads], next_w[w_loads]; // a slice waits in registers
float next_x_scale, next_w_scale;
void load(const uint s) {
    [[unroll]] for (uint i = 0u; i < a_loads; i++) next_a[i] = a_quads[a_at[i] + s * STEP_QUADS];
    [[unroll]] for (uint i = 0u; i < w_loads; i++) next_w[i] = w_quads[w_at[i] + s * STEP_QUADS];
    next_x_scale = uintBitsToFloat(a_u1[x_scale_at + s]);
    next_w_scale = uintBitsToFloat(w_u1[w_scale_at + s]);
}

void main() {
    uint team = gl_SubgroupID / ACROSS, across = gl_SubgroupID % ACROSS, mate = gl_SubgroupInvocationID,
         t = gl_SubgroupID * TEAM + mate, own_columns = (across * TEAM + mate) * COLUMNS;
    uvec2 tile = tile_of(gl_WorkGroupID.x + first_group);
    uint first_row = tile.x * tile_rows + team * ROWS, first_column = tile.y * tile_columns;
    uint slices = K / (16u * STEP_QUADS), w_to[w_loads];
    [[unroll]] for (uint i = 0u; i < a_loads; i++) {
        uint n = mate + i * TEAM;
        a_at[i] = (a_offset + min(first_row + n / STEP_QUADS, M - 1u) * a_pitch) / 16u + n % STEP_QUADS;
    }
    [[unroll]] for (uint i = 0u; i < w_loads; i++) {
        uint n = t + i * THREADS, c = n / STEP_QUADS;
        w_at[i] = (w_offset + min(first_column + c, N - 1u) * w_pitch) / 16u + n % STEP_QUADS;
        w_to[i] =
            (c % COLUMNS * TEAM * ACROSS + c / COLUMNS) * SKEWED + n % STEP_QUADS; // so that threads that read side by
    } // side find their columns side by side
    x_scale_at = (a_offset + K + min(first_row + mate % ROWS, M - 1u) * a_pitch) / 4u;
    w_scale_at = (w_offset + K + min(first_column + t, N - 1u) * w_pitch) / 4u;
    float sum[ROWS][COLUMNS];
    [[unroll]] for (uint i = 0u; i < ROWS; i++) [[unroll]] for (uint j = 0u; j < COLUMNS; j++) sum[i][j] = 0.0;

    load(0u);
    uint turn = 0u, turn_scales = 0u; // the one of two tiles
    for (uint s = 0u; s < slices; s++) {
        ivec4 own[a_loads];
        float own_scale = next_x_scale;
        [[unroll]] for (uint i = 0u; i < a_loads; i++) own[i] = next_a[i];
        [[unroll]] for (uint i = 0u; i < w_loads; i++) if (w_all % THREADS == 0u || t + i * THREADS < w_all)
            w_tile[turn + w_to[i]] = next_w[i];
        if (t < tile_columns) w_scales[turn_scales + t] = next_w_scale;
        barrier();
        load(min(s + 1u, slices - 1u));
        [[unroll]] for (uint j = 0u; j < COLUMNS; j++) {
            ivec4 y[STEP_QUADS];
            [[unroll]] for (uint k = 0u; k < STEP_QUADS; k++) y[k] =
                w_tile[turn + (j * TEAM * ACROSS + across * TEAM + mate) * SKEWED + k];
            float y_scale = w_scales[turn_scales + own_columns + j], y_less = -SUM_FLOAT * y_scale;
            [[unroll]] for (uint i = 0u; i < ROWS; i++) {
                int block = SUM_BITS;
                [[unroll]] for (uint k = 0u; k < STEP_QUADS; k++) {
                    uint n = i * STEP_QUADS + k;
                    block = dot_quads(subgroupShuffle(own[n / TEAM], n % TEAM), y[k], block);
                }
                precise float v = fma(intBitsToFloat(block), y_scale, y_less); // no other way to compute it
                sum[i][j] = fma(v, subgroupShuffle(own_scale, i), sum[i][j]);
            }
        }
        turn = tile_quads - turn;
        turn_scales = tile_columns - turn_scales;
    }

    guard_begin();
    [[unroll]] for (uint i = 0u; i < ROWS; i++) [[unroll]] for (uint j = 0u; j < COLUMNS; j += 4u) {
        uint row = first_row + i, column = first_column + own_columns + j;
        if (row < M && column < N) finish(vec4(sum[i][j], sum[i][j + 1u], sum[i][j + 2u], sum[i][j + 3u]), row, column);
    }
    guard_note();
}
