#version 450
// GEMM of halves without matrix units, for GPUs on which all threads of a subgroup can read one thread's register for
// nothing: on Intel's, an operand may be one element of a register. Each subgroup (a team) owns ROWS rows of the tile,
// and each of its threads COLUMNS columns of them. A team's rows of A never leave its registers, and every element is
// broadcast to the team when its turn comes; slices of W, STEP_QUADS quads of K, lie in shared memory, two by turns, so
// that one barrier is enough. The next slice is loaded while this one is computed.
// Operands are F16, and F32 ones are rounded. Eight products are summed in F16, two such sums too, and all else in F32;
// where a device rounds products before it adds them, two such sums are added in F32.
// A team whose sums overflow computes them again with F32 arithmetic.
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#extension GL_KHR_shader_subgroup_vote : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#define HALVES true
#define INT8 false
#include "gemm.glsl"
layout(constant_id = 10) const uint ROWS = 8;                // a divisor of TEAM
layout(constant_id = 11) const uint COLUMNS = 2;             // 2 or 4
layout(constant_id = 12) const uint TEAM = 16;               // threads of a subgroup; a divisor of ROWS * STEP_QUADS
layout(constant_id = 13) const uint STEP_QUADS = 4;          // a multiple of 4
layout(constant_id = 14) const uint ACROSS = 2;              // teams side by side
layout(constant_id = 15) const bool ROUNDS_PRODUCTS = false; // before it adds them, as processors do
#define SKEWED (STEP_QUADS + 1u) // eight threads that read neighbouring columns hit all banks

const uint tile_rows = THREADS / TEAM / ACROSS * ROWS, tile_columns = TEAM * COLUMNS * ACROSS;
const uint mates = TEAM / ROWS; // threads that load one row of A
const uint a_loads = STEP_QUADS / mates, w_loads = tile_columns * STEP_QUADS / THREADS;
const uint tile_quads = tile_columns * SKEWED;
shared uvec2 w_tile[2u * tile_quads]; // four halves each

Pixel pixel;
uint a_at, w_at[w_loads];
uvec2 next_a[a_loads], next_w[w_loads]; // a slice waits in registers

// Four halves of A, of which `count` exist and the others are zero.
uvec2 a_halves(const uint at, const int count) {
    uvec2 v = A_FORMAT == FORMAT_F16 ? a_h4[at >> 2] : pack4(a_f4[at >> 2]);
    if (TAIL) v &= uvec2(count > 1 ? ~0u : 0xffffu, count > 3 ? ~0u : count > 2 ? 0xffffu : 0u);
    return TAIL || CONV ? mix(uvec2(0u), v, bvec2(count > 0)) : v;
}
uvec2 w_halves(const uint at) { return W_FORMAT == FORMAT_F16 ? w_h4[at >> 2] : pack4(w_f4[at >> 2]); }

// Loads the quads of a slice that are this thread's, from these on; behind K's end A is zero, and W whatever it ends
// with.
void load(const uint tap, const uint a_quad, const uint w_quad, const uint quads) {
    bool inside = true;
    uint row_at = CONV ? a_offset + tap_row(pixel, tap, inside) * a_pitch : a_at, last = quads - 1u;
    [[unroll]] for (uint i = 0u; i < a_loads; i++) {
        uint quad = a_quad + i * mates;
        next_a[i] = a_halves(row_at + 4u * (TAIL ? min(quad, last) : quad), inside ? int(K - 4u * quad) : 0);
    }
    [[unroll]] for (uint i = 0u; i < w_loads; i++) next_w[i] =
        w_halves(w_at[i] + 4u * ((TAIL ? min(w_quad, last) : w_quad) + tap * quads));
}

void main() {
    uint team = gl_SubgroupID / ACROSS, mate = gl_SubgroupInvocationID, t = gl_SubgroupID * TEAM + mate,
         across = gl_SubgroupID % ACROSS * TEAM + mate;
    uvec2 tile = tile_of(gl_WorkGroupID.x + first_group);
    uint first_row = tile.x * tile_rows + team * ROWS, first_column = tile.y * tile_columns;
    uint quads = (K + 3u) / 4u, slices = (quads + STEP_QUADS - 1u) / STEP_QUADS, total = slices * tap_count();

    uint own_row = min(first_row + mate / mates, M - 1u), a_quad = mate % mates;
    uint w_row = t / STEP_QUADS, w_quad = t % STEP_QUADS;
    // Columns change places, so that threads that read side by side find theirs side by side.
    uint w_to = (w_row % COLUMNS * TEAM * ACROSS + w_row / COLUMNS) * SKEWED + w_quad;
    a_at = a_offset + own_row * a_pitch;
    if (CONV) pixel = pixel_of(own_row);
    [[unroll]] for (uint i = 0u; i < w_loads; i++) w_at[i] =
        w_offset + min(first_column + w_row + i * (THREADS / STEP_QUADS), N - 1u) * w_pitch;
    float sum[ROWS][COLUMNS];
    [[unroll]] for (uint i = 0u; i < ROWS; i++) [[unroll]] for (uint j = 0u; j < COLUMNS; j++) sum[i][j] = 0.0;

    load(0u, a_quad, w_quad, quads);
    for (uint s = 0u; s < total; s++) {
        uint turn = s % 2u * tile_quads; // the one of two slices
        uvec4 own[a_loads]; // one half in each word, the lower one: a driver broadcasts the upper one by two copies
        [[unroll]] for (uint i = 0u; i < a_loads; i++) own[i] = next_a[i].xxyy >> uvec4(0u, 16u, 0u, 16u);
        [[unroll]] for (uint i = 0u; i < w_loads; i++)
            w_tile[turn + w_to + i * (THREADS / STEP_QUADS / COLUMNS) * SKEWED] = next_w[i];
        barrier();
        uint next = min(s + 1u, total - 1u), first = (CONV ? next % slices : next) * STEP_QUADS;
        load(CONV ? next / slices : 0u, first + a_quad, first + w_quad, quads);

        float16_t run[ROWS][COLUMNS];
        [[unroll]] for (uint k = 0u; k < STEP_QUADS; k += 2u) [[unroll]] for (uint j = 0u; j < COLUMNS; j++) {
            float16_t eight[ROWS];
            [[unroll]] for (uint h = k; h < k + 2u; h++) {
                uvec2 words = w_tile[turn + (j * TEAM * ACROSS + across) * SKEWED + h];
                f16vec4 y = f16vec4(unpackFloat2x16(words.x), unpackFloat2x16(words.y));
                [[unroll]] for (uint c = 0u; c < 4u; c++) [[unroll]] for (uint i = 0u; i < ROWS; i++) {
                    uint x = subgroupShuffle(own[h / mates][c], i * mates + h % mates);
                    eight[i] = fma(unpackFloat2x16(x).x, y[c], h == k && c == 0u ? float16_t(0.0) : eight[i]);
                }
            }
            [[unroll]] for (uint i = 0u; i < ROWS; i++) {
                run[i][j] = k % 4u == 0u || ROUNDS_PRODUCTS ? eight[i] : run[i][j] + eight[i];
                if (k % 4u != 0u || ROUNDS_PRODUCTS) sum[i][j] += float(run[i][j]);
            }
        }
    }

    uint largest = 0u; // magnitude of a sum, by its bits
    [[unroll]] for (uint i = 0u; i < ROWS; i++) [[unroll]] for (uint j = 0u; j < COLUMNS; j++) largest =
        max(largest, floatBitsToUint(sum[i][j]) & 0x7fffffffu);
    // Few teams come here, which read memory themselves, for one row after the other: short code, not fast code.
    for (uint r = 0u; r < ROWS && subgroupAny(largest >= 0x7f800000u); r++) {
        uint loader = r * mates, row_at = subgroupShuffle(a_at, loader);
        Pixel p = Pixel(0u, 0, 0);
        if (CONV)
            p = Pixel(subgroupShuffle(pixel.image, loader), subgroupShuffle(pixel.y, loader),
                      subgroupShuffle(pixel.x, loader));
        float again[COLUMNS];
        [[unroll]] for (uint j = 0u; j < COLUMNS; j++) again[j] = 0.0;
        for (uint tap = 0u; tap < tap_count(); tap++) {
            bool inside = true;
            if (CONV) row_at = a_offset + tap_row(p, tap, inside) * a_pitch;
            for (uint quad = 0u; quad < quads; quad++) {
                vec4 x = unpack4(a_halves(row_at + 4u * quad, inside ? int(K - 4u * quad) : 0));
                [[unroll]] for (uint j = 0u; j < COLUMNS; j++) {
                    uint n = min(first_column + across * COLUMNS + j, N - 1u);
                    vec4 y = unpack4(w_halves(w_offset + n * w_pitch + 4u * (tap * quads + quad)));
                    again[j] = fma(x.w, y.w, fma(x.z, y.z, fma(x.y, y.y, fma(x.x, y.x, again[j]))));
                }
            }
        }
        [[unroll]] for (uint i = 0u; i < ROWS; i++) [[unroll]] for (uint j = 0u; j < COLUMNS; j++) {
            if (i == r) sum[i][j] = again[j];
        }
    }

    // A thread with two columns takes two of its neighbour's for those of half of its rows.
    const uint rows = COLUMNS == 2u ? ROWS / 2u : ROWS;
    uint odd = COLUMNS == 2u ? mate & 1u : 0u, n = first_column + (across - odd) * COLUMNS;
    guard_begin();
    [[unroll]] for (uint i = 0u; i < rows; i++) {
        uint row = first_row + odd * rows + i;
        vec2 low = vec2(sum[i][0], sum[i][1]), high = vec2(sum[i][COLUMNS - 2u], sum[i][COLUMNS - 1u]);
        if (COLUMNS == 2u) {
            vec2 below = vec2(sum[i + rows][0], sum[i + rows][1]),
                 got = subgroupShuffleXor(odd == 1u ? low : below, 1u);
            high = odd == 1u ? below : got;
            low = odd == 1u ? got : low;
        }
        if (row < M && n < N) finish(vec4(low, high), row, n);
    }
    guard_note();
}
