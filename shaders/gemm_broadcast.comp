#version 450
// GEMM with F32 arithmetic for GPUs without matrix units on which all threads of a subgroup can read one thread's
// register for nothing: on Intel's, an operand may be one element of a register. Each subgroup (a team) owns ROWS rows
// of the tile, and each of its threads COLUMNS columns of them. A team's rows of A never leave its registers, and every
// element is broadcast to the team when its turn comes; slices of W, STEP_QUADS quads of K, lie in shared memory, two
// by turns, so that one barrier is enough. The next slice is loaded while this one is computed. Conversions and copies
// that F16 arithmetic needs on such a GPU cost as much as it saves; sums here are exact in F32, and nothing overflows.
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_ballot : require
#define INT8 false
#define DECODES
#include "gemm.glsl"
layout(constant_id = 10) const uint ROWS = 4;
layout(constant_id = 11) const uint COLUMNS = 4; // a multiple of 4
layout(constant_id = 12) const uint TEAM = 16;   // threads of a subgroup; a divisor of ROWS * STEP_QUADS
layout(constant_id = 13) const uint STEP_QUADS = 4;
#define SKEWED (STEP_QUADS + 1u) // eight threads that read neighbouring columns hit all banks

const uint tile_rows = THREADS / TEAM * ROWS, tile_columns = TEAM * COLUMNS;
const uint a_loads = ROWS * STEP_QUADS / TEAM, w_loads = tile_columns * STEP_QUADS / THREADS;
shared vec4 w_tile[2u * tile_columns * SKEWED];

// Four elements as they are in memory, so that they wait in few registers.
#define WORDS_OF(NAME, FORMAT, AT)                                                                                     \
    (FORMAT == FORMAT_F16 ? uvec4(NAME##_h4[(AT) >> 2], 0u, 0u) : floatBitsToUint(NAME##_f4[(AT) >> 2]))
vec4 values_of(const uint format, const uvec4 words) {
    return format == FORMAT_F16 ? unpack4(words.xy) : uintBitsToFloat(words);
}

void main() {
    uint team = gl_SubgroupID, mate = gl_SubgroupInvocationID, t = team * TEAM + mate;
    uvec2 tile = tile_of(gl_WorkGroupID.x + first_group);
    uint first_row = tile.x * tile_rows + team * ROWS, first_column = tile.y * tile_columns;
    uint quads = (K + 3u) / 4u, slices = (quads + STEP_QUADS - 1u) / STEP_QUADS, total = slices * tap_count();

    Pixel pixels[a_loads];
    if (CONV) {
        [[unroll]] for (uint i = 0u; i < a_loads; i++) pixels[i] =
            pixel_of(min(first_row + (mate + i * TEAM) / STEP_QUADS, M - 1u));
    }
    float sum[ROWS][COLUMNS];
    [[unroll]] for (uint i = 0u; i < ROWS; i++) [[unroll]] for (uint j = 0u; j < COLUMNS; j++) sum[i][j] = 0.0;
    vec4 own[a_loads];
    uvec4 next_a[a_loads], next_w[w_loads];

    for (uint s = 0u; s <= total; s++) {
        uint turn = s % 2u * tile_columns * SKEWED;
        if (s > 0u) { // the slice that waits in registers
            [[unroll]] for (uint i = 0u; i < a_loads; i++) {
                uint quad = (CONV ? (s - 1u) % slices : s - 1u) * STEP_QUADS + (mate + i * TEAM) % STEP_QUADS;
                own[i] = mask_tail(values_of(A_FORMAT, next_a[i]), 4u * quad);
            }
            [[unroll]] for (uint i = 0u; i < w_loads;
                            i++) { // so that threads that read side by side find their columns side by side
                uint n = t + i * THREADS, c = n / STEP_QUADS;
                w_tile[turn + (c % COLUMNS * TEAM + c / COLUMNS) * SKEWED + n % STEP_QUADS] =
                    values_of(W_FORMAT, next_w[i]);
            }
            barrier();
        }
        if (s < total) {
            uint tap = CONV ? s / slices : 0u, first = (CONV ? s % slices : s) * STEP_QUADS;
            [[unroll]] for (uint i = 0u; i < a_loads; i++) {
                uint n = mate + i * TEAM, row = min(first_row + n / STEP_QUADS, M - 1u), quad = first + n % STEP_QUADS;
                bool valid = true;
                if (CONV) row = tap_row(pixels[i], tap, valid);
                next_a[i] =
                    valid && quad < quads ? WORDS_OF(a, A_FORMAT, a_offset + row * a_pitch + 4u * quad) : uvec4(0u);
            }
            [[unroll]] for (uint i = 0u; i < w_loads; i++) {
                uint n = t + i * THREADS, column = min(first_column + n / STEP_QUADS, N - 1u),
                     quad = first + n % STEP_QUADS;
                next_w[i] = quad >= quads ? uvec4(0u)
                            : PACKED      ? floatBitsToUint(decode_w(column, 4u * quad))
                                     : WORDS_OF(w, W_FORMAT, w_offset + column * w_pitch + 4u * (tap * quads + quad));
            }
        }
        if (s == 0u) continue;
        [[unroll]] for (uint k = 0u; k < STEP_QUADS; k++) [[unroll]] for (uint j = 0u; j < COLUMNS; j++) {
            vec4 y = w_tile[turn + (j * TEAM + mate) * SKEWED + k];
            [[unroll]] for (uint i = 0u; i < ROWS; i++) {
                uint n = i * STEP_QUADS + k;
                vec4 x = subgroupBroadcast(own[n / TEAM], n % TEAM);
                sum[i][j] = fma(x.w, y.w, fma(x.z, y.z, fma(x.y, y.y, fma(x.x, y.x, sum[i][j]))));
            }
        }
    }

    guard_begin();
    [[unroll]] for (uint i = 0u; i < ROWS; i++) [[unroll]] for (uint j = 0u; j < COLUMNS; j += 4u) {
        uint row = first_row + i, column = first_column + mate * COLUMNS + j;
        if (row < M && column < N) finish(vec4(sum[i][j], sum[i][j + 1u], sum[i][j + 2u], sum[i][j + 3u]), row, column);
    }
    guard_note();
}
