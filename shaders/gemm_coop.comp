#version 450
// GEMM on matrix units (VK_KHR_cooperative_matrix). A workgroup stages slices of STEP columns of K in shared memory, as units of 16 bytes,
// while the next slice waits in registers; each unit of threads (a subgroup; with SCOPE a whole workgroup) owns ROWS x COLUMNS fragments of
// M_SIZE x N_SIZE results. Then the sums pass through shared memory, so that neighbouring columns meet in one thread for the epilogue.
// All offsets and pitches are multiples of 16 bytes.
//   as it is: F16 operands (F32 ones are rounded), F32 sums.   BRAIN: bfloat16 operands.   BYTES: int8 rows, int32 sums.
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_EXT_shader_explicit_arithmetic_types : require
#ifdef BYTES
#define INT8 true
#define CONV false
#define ELEMENT int8_t
#define SUM int
#define UNIT 16u // elements in 16 bytes
#else
#define INT8 false
#define SUM float
#define UNIT 8u
#ifdef BRAIN
#define CONV false
#extension GL_EXT_bfloat16 : require
#define ELEMENT bfloat16_t
#else
#define ELEMENT float16_t
#endif
#endif
#define VECTOR true
#include "gemm.glsl"
layout(constant_id = 10) const uint UNIT_THREADS = 32; // threads that share a fragment
layout(constant_id = 11) const uint M_SIZE = 16;
layout(constant_id = 12) const uint N_SIZE = 16;
layout(constant_id = 13) const uint K_SIZE = 16;
layout(constant_id = 14) const uint ROWS = 4;
layout(constant_id = 15) const uint COLUMNS = 4;
layout(constant_id = 16) const uint DOWN = 2;  // units of threads above each other
layout(constant_id = 17) const uint STEP = 32; // a multiple of K_SIZE and UNIT
layout(constant_id = 18) const uint SCOPE = gl_ScopeSubgroup;

layout(binding = 0) readonly buffer A_Q { uvec4 a_q[]; };
layout(binding = 1) readonly buffer W_Q { uvec4 w_q[]; };

const uint units_across = gl_WorkGroupSize.x / UNIT_THREADS / DOWN;
const uint tile_rows = DOWN * ROWS * M_SIZE, tile_columns = units_across * COLUMNS * N_SIZE;
const uint step_units = STEP / UNIT, skewed = step_units + 1u; // one more, so that rows below each other lie in other banks
const uint a_loads = tile_rows * step_units / gl_WorkGroupSize.x, w_loads = tile_columns * step_units / gl_WorkGroupSize.x;
const uint strip = COLUMNS * N_SIZE / 4u, strip_skewed = strip + 1u; // a row of fragments as quads of sums
const uint tile_units = (tile_rows + tile_columns) * skewed, strip_units = gl_WorkGroupSize.x / UNIT_THREADS * M_SIZE * strip_skewed;
const uint shared_units = tile_units > strip_units ? tile_units : strip_units;
#ifdef BYTES // fragments may begin in the middle of a unit
shared uvec2 tiles[shared_units * 2u];
void put(const uint at, const uvec4 v) {
    tiles[2u * at] = v.xy;
    tiles[2u * at + 1u] = v.zw;
}
uvec4 get(const uint at) { return uvec4(tiles[2u * at], tiles[2u * at + 1u]); }
#define PART 2u // of a unit that fragments can begin at
#else
shared uvec4 tiles[shared_units];
void put(const uint at, const uvec4 v) { tiles[at] = v; }
uvec4 get(const uint at) { return tiles[at]; }
#define PART 1u
#endif

#ifdef BYTES
#define LOAD(NAME, FORMAT, AT) NAME##_q[(AT) >> 4]
#else
// The one place where values lose bits.
uint round_pair(const vec2 v) {
#ifdef BRAIN
    uvec2 bits = floatBitsToUint(v);
    bits += 0x7fffu + (bits >> 16 & 1u);
    return bits.x >> 16 | bits.y & 0xffff0000u;
#else
    return packHalf2x16(v);
#endif
}
uvec4 round_unit(const uvec4 low, const uvec4 high) {
    vec4 x = uintBitsToFloat(low), y = uintBitsToFloat(high);
    return uvec4(round_pair(x.xy), round_pair(x.zw), round_pair(y.xy), round_pair(y.zw));
}
uvec4 unit_of_halves(const uvec4 halves) {
#ifdef BRAIN
    return uvec4(round_pair(unpackHalf2x16(halves.x)), round_pair(unpackHalf2x16(halves.y)), round_pair(unpackHalf2x16(halves.z)),
                 round_pair(unpackHalf2x16(halves.w)));
#else
    return halves;
#endif
}
#define LOAD(NAME, FORMAT, AT) \
    (FORMAT == FORMAT_F32 ? round_unit(NAME##_q[(AT) >> 2], NAME##_q[((AT) >> 2) + 1u]) : unit_of_halves(NAME##_q[(AT) >> 3]))
#endif
// Sixteen bytes from element k of a row on; what lies beyond the row may be anything and becomes zero.
uvec4 cut(const uvec4 unit, const uint k) {
#ifndef BYTES // whose rows end in zeros
    if (TAIL) return unit & (mix(uvec4(0u), uvec4(0xffffu), greaterThan(uvec4(K - k), 2u * QUAD)) | mix(uvec4(0u), uvec4(0xffff0000u), greaterThan(uvec4(K - k), 2u * QUAD + 1u)));
#endif
    return unit;
}
uvec4 unit_of_a(const uint row_at, const uint k) { return k < K ? cut(LOAD(a, A_FORMAT, row_at + k), k) : uvec4(0u); }
uvec4 unit_of_w(const uint row_at, const uint k) { return k < K ? cut(LOAD(w, W_FORMAT, row_at + k), k) : uvec4(0u); }

void main() {
    uint t = gl_LocalInvocationID.x, unit = t / UNIT_THREADS, down = unit % DOWN, across = unit / DOWN;
    uvec2 tile = tile_of(gl_WorkGroupID.x + first_group);
    uint first_row = tile.x * tile_rows, first_column = tile.y * tile_columns;
    uint slices = (K + STEP - 1u) / STEP, total = slices * tap_count(), tap_columns = (K + 3u) & ~3u;

    Pixel pixels[a_loads];
    if (CONV) {
        [[unroll]] for (uint i = 0u; i < a_loads; i++) pixels[i] = pixel_of(min(first_row + (t + i * gl_WorkGroupSize.x) / step_units, M - 1u));
    }
    coopmat<SUM, SCOPE, M_SIZE, N_SIZE, gl_MatrixUseAccumulator> sums[ROWS * COLUMNS];
    [[unroll]] for (uint i = 0u; i < ROWS * COLUMNS; i++) sums[i] = coopmat<SUM, SCOPE, M_SIZE, N_SIZE, gl_MatrixUseAccumulator>(SUM(0));
    uvec4 next_a[a_loads], next_w[w_loads];

    for (uint s = 0u; s <= total; s++) {
        if (s > 0u) { // the slice that waits in registers
            barrier();
            [[unroll]] for (uint i = 0u; i < a_loads; i++) {
                uint n = t + i * gl_WorkGroupSize.x;
                put(n / step_units * skewed + n % step_units, next_a[i]);
            }
            [[unroll]] for (uint i = 0u; i < w_loads; i++) {
                uint n = t + i * gl_WorkGroupSize.x;
                put((tile_rows + n / step_units) * skewed + n % step_units, next_w[i]);
            }
            barrier();
        }
        if (s < total) {
            uint tap = CONV ? s / slices : 0u, first = (CONV ? s % slices : s) * STEP;
            [[unroll]] for (uint i = 0u; i < a_loads; i++) {
                uint n = t + i * gl_WorkGroupSize.x, row = min(first_row + n / step_units, M - 1u);
                bool valid = true;
                if (CONV) row = tap_row(pixels[i], tap, valid);
                next_a[i] = valid ? unit_of_a(a_offset + row * a_pitch, first + n % step_units * UNIT) : uvec4(0u);
            }
            [[unroll]] for (uint i = 0u; i < w_loads; i++) {
                uint n = t + i * gl_WorkGroupSize.x, column = min(first_column + n / step_units, N - 1u);
                next_w[i] = unit_of_w(w_offset + column * w_pitch + tap * tap_columns, first + n % step_units * UNIT);
            }
        }
        if (s == 0u) continue;
        [[unroll]] for (uint k = 0u; k < STEP; k += K_SIZE) {
            coopmat<ELEMENT, SCOPE, M_SIZE, K_SIZE, gl_MatrixUseA> x[ROWS];
            [[unroll]] for (uint i = 0u; i < ROWS; i++)
                coopMatLoad(x[i], tiles, (down * ROWS + i) * M_SIZE * skewed * PART + k * PART / UNIT, skewed * PART, gl_CooperativeMatrixLayoutRowMajor);
            [[unroll]] for (uint j = 0u; j < COLUMNS; j++) {
                coopmat<ELEMENT, SCOPE, K_SIZE, N_SIZE, gl_MatrixUseB> y;
                coopMatLoad(y, tiles, (tile_rows + (across * COLUMNS + j) * N_SIZE) * skewed * PART + k * PART / UNIT, skewed * PART, gl_CooperativeMatrixLayoutColumnMajor);
                [[unroll]] for (uint i = 0u; i < ROWS; i++) sums[i * COLUMNS + j] = coopMatMulAdd(x[i], y, sums[i * COLUMNS + j]);
            }
        }
    }

    uint mine = unit * M_SIZE * strip_skewed;
    [[unroll]] for (uint i = 0u; i < ROWS; i++) {
        barrier();
        [[unroll]] for (uint j = 0u; j < COLUMNS; j++)
            coopMatStore(sums[i * COLUMNS + j], tiles, (mine + j * N_SIZE / 4u) * PART, strip_skewed * PART, gl_CooperativeMatrixLayoutRowMajor);
        barrier();
        for (uint n = t % UNIT_THREADS; n < M_SIZE * strip; n += UNIT_THREADS) {
            uint row = first_row + (down * ROWS + i) * M_SIZE + n / strip, column = first_column + across * COLUMNS * N_SIZE + n % strip * 4u;
            uvec4 bits = get(mine + n / strip * strip_skewed + n % strip);
#ifdef BYTES
            if (row < M && column < N) finish(vec4(ivec4(bits)), row, column);
#else
            if (row < M && column < N) finish(uintBitsToFloat(bits), row, column);
#endif
        }
    }
}
