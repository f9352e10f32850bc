#version 450
// GEMM of int8 rows for devices with a dot product of four bytes: as gemm_gpu.comp, but a tile holds the bytes
// themselves, 16 to a quad. glslang learned GL_EXT_integer_dot_product late; this is the same instruction, OpSDot of
// packed words.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_spirv_intrinsics : require
#define INT8 true
#define VECTOR true
#define CONV false
#include "gemm.glsl"
layout(constant_id = 10) const uint ROWS = 8;
layout(constant_id = 11) const uint COLUMNS = 8; // a multiple of 4
#define STEP_QUADS 2u
#define SKEWED (STEP_QUADS + 1u) // eight threads that read neighbouring rows hit all banks

spirv_instruction(extensions = ["SPV_KHR_integer_dot_product"], capabilities = [ 6019, 6018 ],
                  id = 4450) int dot_bytes(int a, int b, spirv_literal int packed_format);
layout(binding = 0) readonly buffer A_Q { ivec4 a_quads[]; };
layout(binding = 1) readonly buffer W_Q { ivec4 w_quads[]; };
layout(binding = 1) readonly buffer W_P { uvec2 w_pairs[]; };

const uint down = THREADS / 16u, tile_rows = down * ROWS, tile_columns = 16u * COLUMNS;
const uint a_loads = tile_rows * STEP_QUADS / THREADS, w_loads = tile_columns * STEP_QUADS / THREADS;
shared ivec4 a_tile[tile_rows * SKEWED];
shared ivec4 w_tile[tile_columns * SKEWED];

void main() {
    uint t = gl_LocalInvocationID.x, across = t % 16u, row_thread = t / 16u;
    uvec2 tile = tile_of(gl_WorkGroupID.x + first_group);
    uint first_row = tile.x * tile_rows, first_column = tile.y * tile_columns;
    uint quads = (K + 15u) / 16u, slices = (quads + STEP_QUADS - 1u) / STEP_QUADS;
    uint a_at[a_loads], w_at[w_loads];
    [[unroll]] for (uint i = 0u; i < a_loads; i++) {
        uint n = t + i * THREADS;
        a_at[i] = (a_offset + min(first_row + n / STEP_QUADS, M - 1u) * a_pitch) / 16u + n % STEP_QUADS;
    }
    [[unroll]] for (uint i = 0u; i < w_loads; i++) {
        uint n = t + i * THREADS;
        w_at[i] =
            (w_offset + min(first_column + n / STEP_QUADS, N - 1u) * w_pitch) / (INT4 ? 8u : 16u) + n % STEP_QUADS;
    }
    int sum[ROWS][COLUMNS];
    [[unroll]] for (uint i = 0u; i < ROWS; i++) [[unroll]] for (uint j = 0u; j < COLUMNS; j++) sum[i][j] = 0;
    ivec4 next_a[a_loads], next_w[w_loads];

    for (uint s = 0u; s <= slices; s++) {
        if (s > 0u) { // the slice that waits in registers
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
                w_tile[(c % COLUMNS * 16u + c / COLUMNS) * SKEWED + n % STEP_QUADS] = v;
            }
            barrier();
        }
        if (s < slices) { // beyond the last quad lie a row's scale and other rows
            [[unroll]] for (uint i = 0u; i < a_loads; i++) next_a[i] =
                s * STEP_QUADS + (t + i * THREADS) % STEP_QUADS < quads ? a_quads[a_at[i] + s * STEP_QUADS] : ivec4(0);
            [[unroll]] for (uint i = 0u; i < w_loads; i++) { // times zero
                if (INT4)
                    next_w[i] = ivec4(w_pairs[w_at[i] + s * STEP_QUADS], 0, 0);
                else
                    next_w[i] = w_quads[w_at[i] + s * STEP_QUADS];
            }
        }
        if (s == 0u) continue;
        [[unroll]] for (uint k = 0u; k < STEP_QUADS; k++) {
            ivec4 y[COLUMNS];
            [[unroll]] for (uint j = 0u; j < COLUMNS; j++) y[j] = w_tile[(j * 16u + across) * SKEWED + k];
            [[unroll]] for (uint i = 0u; i < ROWS; i++) {
                ivec4 x = a_tile[(row_thread * ROWS + i) * SKEWED + k];
                [[unroll]] for (uint j = 0u; j < COLUMNS; j++) sum[i][j] +=
                    dot_bytes(x.x, y[j].x, 0) + dot_bytes(x.y, y[j].y, 0) + dot_bytes(x.z, y[j].z, 0) +
                    dot_bytes(x.w, y[j].w, 0);
            }
        }
    }

    guard_begin();
    [[unroll]] for (uint i = 0u; i < ROWS; i++) [[unroll]] for (uint j = 0u; j < COLUMNS; j += 4u) {
        uint row = first_row + row_thread * ROWS + i, column = first_column + across * COLUMNS + j;
        if (row < M && column < N)
            finish(vec4(ivec4(sum[i][j], sum[i][j + 1u], sum[i][j + 2u], sum[i][j + 3u])), row, column);
    }
    guard_note();
}
