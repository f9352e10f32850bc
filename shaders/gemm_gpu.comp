#version 450
// GEMM for GPUs without matrix units: a workgroup of 16 x (size / 16) threads computes a tile of (size / 16 * ROWS) x (16 * COLUMNS),
// from slices of STEP columns of K in shared memory; the next slice is loaded into registers while this one is computed.
// Rows in shared memory are four floats longer than the slice, so that eight threads that read neighbouring rows hit all banks.
#extension GL_GOOGLE_include_directive : require
#include "gemm.glsl"
layout(constant_id = 10) const uint ROWS = 8;
layout(constant_id = 11) const uint COLUMNS = 4; // a multiple of 4
#define STEP_QUADS 4u
#define SKEWED (STEP_QUADS + 1u)

const uint down = gl_WorkGroupSize.x / 16u, tile_rows = down * ROWS, tile_columns = 16u * COLUMNS;
const uint a_loads = tile_rows * STEP_QUADS / gl_WorkGroupSize.x, w_loads = tile_columns * STEP_QUADS / gl_WorkGroupSize.x;
shared vec4 a_tile[tile_rows * SKEWED];
shared vec4 w_tile[tile_columns * SKEWED];

void main() {
    uint t = gl_LocalInvocationID.x, across = t % 16u, row_thread = t / 16u;
    uvec2 tile = tile_of(gl_WorkGroupID.x + first_group);
    uint first_row = tile.x * tile_rows, first_column = tile.y * tile_columns;
    uint quads = (K + 3u) / 4u, slices = (quads + STEP_QUADS - 1u) / STEP_QUADS, total = slices * tap_count();

    Pixel pixels[a_loads];
    if (CONV) {
        [[unroll]] for (uint i = 0u; i < a_loads; i++) pixels[i] = pixel_of(min(first_row + (t + i * gl_WorkGroupSize.x) / STEP_QUADS, M - 1u));
    }
    float sum[ROWS][COLUMNS];
    [[unroll]] for (uint i = 0u; i < ROWS; i++)
        [[unroll]] for (uint j = 0u; j < COLUMNS; j++) sum[i][j] = 0.0;
    int whole[ROWS][COLUMNS]; // int8: what the sums held whenever they could have become inexact
    if (INT8) {
        [[unroll]] for (uint i = 0u; i < ROWS; i++)
            [[unroll]] for (uint j = 0u; j < COLUMNS; j++) whole[i][j] = 0;
    }
    vec4 next_a[a_loads], next_w[w_loads];

    for (uint s = 0u; s <= total; s++) {
        if (s > 0u) { // the slice that waits in registers
            barrier();
            [[unroll]] for (uint i = 0u; i < a_loads; i++) {
                uint n = t + i * gl_WorkGroupSize.x;
                a_tile[n / STEP_QUADS * SKEWED + n % STEP_QUADS] = next_a[i];
            }
            [[unroll]] for (uint i = 0u; i < w_loads; i++) { // so that threads that read side by side find their columns side by side
                uint n = t + i * gl_WorkGroupSize.x, c = n / STEP_QUADS;
                w_tile[(c % COLUMNS * 16u + c / COLUMNS) * SKEWED + n % STEP_QUADS] = next_w[i];
            }
            barrier();
        }
        if (s < total) {
            uint tap = CONV ? s / slices : 0u, first = (CONV ? s % slices : s) * STEP_QUADS;
            [[unroll]] for (uint i = 0u; i < a_loads; i++) {
                uint n = t + i * gl_WorkGroupSize.x, row = min(first_row + n / STEP_QUADS, M - 1u), quad = first + n % STEP_QUADS;
                bool valid = true;
                if (CONV) row = tap_row(pixels[i], tap, valid);
                next_a[i] = valid && quad < quads ? mask_tail(load_a(a_offset + row * a_pitch + 4u * quad), 4u * quad) : vec4(0.0);
            }
            [[unroll]] for (uint i = 0u; i < w_loads; i++) {
                uint n = t + i * gl_WorkGroupSize.x, column = min(first_column + n / STEP_QUADS, N - 1u), quad = first + n % STEP_QUADS;
                next_w[i] = quad < quads ? load_w(w_offset + column * w_pitch + 4u * (tap * quads + quad)) : vec4(0.0);
            }
        }
        if (s == 0u) continue;
        if (INT8 && (s - 1u) % (INT8_EXACT / 4u / STEP_QUADS) == 0u) {
            [[unroll]] for (uint i = 0u; i < ROWS; i++)
                [[unroll]] for (uint j = 0u; j < COLUMNS; j++) {
                    whole[i][j] += int(sum[i][j]);
                    sum[i][j] = 0.0;
                }
        }
        [[unroll]] for (uint k = 0u; k < STEP_QUADS; k++) {
            vec4 y[COLUMNS];
            [[unroll]] for (uint j = 0u; j < COLUMNS; j++) y[j] = w_tile[(j * 16u + across) * SKEWED + k];
            [[unroll]] for (uint i = 0u; i < ROWS; i++) {
                vec4 x = a_tile[(row_thread * ROWS + i) * SKEWED + k];
                [[unroll]] for (uint j = 0u; j < COLUMNS; j++) sum[i][j] = fma(x.w, y[j].w, fma(x.z, y[j].z, fma(x.y, y[j].y, fma(x.x, y[j].x, sum[i][j]))));
            }
        }
    }

    [[unroll]] for (uint i = 0u; i < ROWS; i++)
        [[unroll]] for (uint j = 0u; j < COLUMNS; j += 4u) {
            uint row = first_row + row_thread * ROWS + i, column = first_column + across * COLUMNS + j;
            vec4 v = vec4(sum[i][j], sum[i][j + 1u], sum[i][j + 2u], sum[i][j + 3u]);
            if (INT8) v = vec4(ivec4(whole[i][j], whole[i][j + 1u], whole[i][j + 2u], whole[i][j + 3u]) + ivec4(v));
            if (row < M && column < N) finish(v, row, column);
        }
}
