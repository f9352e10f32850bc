#version 450
// GEMM of int8 rows and of int8 blocks for devices with a dot product of four bytes: as gemm_gpu.comp, but a tile holds
// the bytes themselves, 16 to a quad.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_spirv_intrinsics : require
#define INT8 true
#define VECTOR true
#define CONV false
#include "gemm.glsl"
#include "dot.glsl"
layout(constant_id = 10) const uint ROWS = 8;    // a multiple of 4
layout(constant_id = 11) const uint COLUMNS = 8; // a multiple of 4
#define SKEWED (STEP_QUADS + 1u)                 // eight threads that read neighbouring rows hit all banks

layout(binding = 1) readonly buffer W_P { uvec2 w_pairs[]; };

const uint down = THREADS / 16u, tile_rows = down * ROWS, tile_columns = 16u * COLUMNS;
const uint a_loads = tile_rows * STEP_QUADS / THREADS;
const uint w_all = tile_columns * STEP_QUADS, w_loads = (w_all + THREADS - 1u) / THREADS; // some threads may have none
const uint scale_count = tile_rows + tile_columns, scale_loads = (scale_count + THREADS - 1u) / THREADS;
shared ivec4 a_tile[tile_rows * SKEWED];
shared ivec4 w_tile[tile_columns * SKEWED];
shared float scales[scale_count]; // of rows, then of columns: those of a thread side by side

uint a_at[a_loads], w_at[w_loads], scale_at[scale_loads];
ivec4 next_a[a_loads], next_w[w_loads]; // a slice waits in registers
float next_scale[scale_loads];
void load(const uint s, const uint quads, const uint t) { // beyond the last quad lie a row's scale and other rows
    [[unroll]] for (uint i = 0u; i < a_loads; i++) next_a[i] =
        BLOCKS || s * STEP_QUADS + (t + i * THREADS) % STEP_QUADS < quads ? a_quads[a_at[i] + s * STEP_QUADS]
                                                                          : ivec4(0);
    [[unroll]] for (uint i = 0u; i < w_loads; i++) { // times zero
        if (INT4)
            next_w[i] = ivec4(w_pairs[w_at[i] + s * STEP_QUADS], 0, 0);
        else
            next_w[i] = w_quads[w_at[i] + s * STEP_QUADS];
    }
    [[unroll]] for (uint i = 0u; BLOCKS && i < scale_loads; i++) {
        if (t + i * THREADS < tile_rows)
            next_scale[i] = uintBitsToFloat(a_u1[scale_at[i] + s]);
        else
            next_scale[i] = uintBitsToFloat(w_u1[scale_at[i] + s]);
    }
}

void main() {
    uint t = gl_LocalInvocationID.x, across = t % 16u, row_thread = t / 16u;
    uvec2 tile = tile_of(gl_WorkGroupID.x + first_group);
    uint first_row = tile.x * tile_rows, first_column = tile.y * tile_columns;
    uint quads = (K + 15u) / 16u, slices = (quads + STEP_QUADS - 1u) / STEP_QUADS;
    [[unroll]] for (uint i = 0u; i < a_loads; i++) {
        uint n = t + i * THREADS;
        a_at[i] = (a_offset + min(first_row + n / STEP_QUADS, M - 1u) * a_pitch) / 16u + n % STEP_QUADS;
    }
    [[unroll]] for (uint i = 0u; i < w_loads; i++) {
        uint n = t + i * THREADS;
        w_at[i] =
            (w_offset + min(first_column + n / STEP_QUADS, N - 1u) * w_pitch) / (INT4 ? 8u : 16u) + n % STEP_QUADS;
    }
    [[unroll]] for (uint i = 0u; BLOCKS && i < scale_loads; i++) {
        uint n = t + i * THREADS, row = min(first_row + n, M - 1u), column = min(first_column + n - tile_rows, N - 1u);
        scale_at[i] = (n < tile_rows ? a_offset + row * a_pitch : w_offset + column * w_pitch) / 4u + 4u * quads;
    }
    int sum[ROWS][COLUMNS];
    float scaled[ROWS][COLUMNS];
    [[unroll]] for (uint i = 0u; i < ROWS; i++) [[unroll]] for (uint j = 0u; j < COLUMNS; j++) {
        sum[i][j] = 0;
        scaled[i][j] = 0.0;
    }

    load(0u, quads, t);
    for (uint s = 0u; s < slices; s++) {
        barrier();
        [[unroll]] for (uint i = 0u; i < a_loads; i++) {
            uint n = t + i * THREADS;
            a_tile[n / STEP_QUADS * SKEWED + n % STEP_QUADS] = next_a[i];
        }
        [[unroll]] for (uint i = 0u; i < w_loads;
                        i++) { // so that threads that read side by side find their columns side by side
            uint n = t + i * THREADS, c = n / STEP_QUADS;
            ivec4 v = next_w[i];
            if (INT4)
                v = ivec4(i4_bytes(uint(v.x), 0u), i4_bytes(uint(v.x), 4u), i4_bytes(uint(v.y), 0u),
                          i4_bytes(uint(v.y), 4u));
            if (w_all % THREADS == 0u || n < w_all)
                w_tile[(c % COLUMNS * 16u + c / COLUMNS) * SKEWED + n % STEP_QUADS] = v;
        }
        [[unroll]] for (uint i = 0u; BLOCKS && i < scale_loads;
                        i++) if (scale_count % THREADS == 0u || t + i * THREADS < scale_count) scales[t + i * THREADS] =
            next_scale[i];
        barrier();
        load(min(s + 1u, slices - 1u), quads, t);
        if (BLOCKS) {
            ivec4 y[COLUMNS][STEP_QUADS];
            float y_scale[COLUMNS], y_less[COLUMNS];
            [[unroll]] for (uint j = 0u; j < COLUMNS; j++) {
                [[unroll]] for (uint k = 0u; k < STEP_QUADS; k++) y[j][k] = w_tile[(j * 16u + across) * SKEWED + k];
                y_scale[j] = scales[tile_rows + across * COLUMNS + j];
                y_less[j] = -SUM_FLOAT * y_scale[j];
            }
            [[unroll]] for (uint i = 0u; i < ROWS; i++) {
                uint r = row_thread * ROWS + i;
                ivec4 x[STEP_QUADS];
                [[unroll]] for (uint k = 0u; k < STEP_QUADS; k++) x[k] = a_tile[r * SKEWED + k];
                [[unroll]] for (uint j = 0u; j < COLUMNS; j++) {
                    int block = SUM_BITS;
                    [[unroll]] for (uint k = 0u; k < STEP_QUADS; k++) block = dot_quads(x[k], y[j][k], block);
                    precise float v = fma(intBitsToFloat(block), y_scale[j], y_less[j]); // no other way to compute it
                    scaled[i][j] = fma(v, scales[r], scaled[i][j]);
                }
            }
        } else {
            [[unroll]] for (uint k = 0u; k < STEP_QUADS; k++) {
                ivec4 y[COLUMNS];
                [[unroll]] for (uint j = 0u; j < COLUMNS; j++) y[j] = w_tile[(j * 16u + across) * SKEWED + k];
                [[unroll]] for (uint i = 0u; i < ROWS; i++) {
                    ivec4 x = a_tile[(row_thread * ROWS + i) * SKEWED + k];
                    [[unroll]] for (uint j = 0u; j < COLUMNS; j++) sum[i][j] = dot_quads(x, y[j], sum[i][j]);
                }
            }
        }
    }

    guard_begin();
    [[unroll]] for (uint i = 0u; i < ROWS; i++) [[unroll]] for (uint j = 0u; j < COLUMNS; j += 4u) {
        uint row = first_row + row_thread * ROWS + i, column = first_column + across * COLUMNS + j;
        vec4 v = BLOCKS ? vec4(scaled[i][j], scaled[i][j + 1u], scaled[i][j + 2u], scaled[i][j + 3u])
                        : vec4(ivec4(sum[i][j], sum[i][j + 1u], sum[i][j + 2u], sum[i][j + 3u]));
        if (row < M && column < N) finish(v, row, column);
    }
    guard_note();
}
