#version 450
// GEMM for GPUs without matrix units, see main(): two kernels in one module, which dit takes apart
// (diti_spirv_variant).
//   gemm_gpu: F32 arithmetic, and two other forms that share its epilogue: products with few rows, and the sum of a
//   product's parts. Devices need not have float16: nothing of it is left.
//   gemm_half (HALF): F16 operands (F32 ones are rounded), products in pairs, summed in F16 over a slice, or one by one
//   (SCALAR), summed in F16 eight at a time; a thread whose sums overflow computes them again with F32 arithmetic. N
//   and all offsets and pitches are multiples of 4.
// A workgroup of 16 x (size / 16) threads computes a tile of (size / 16 * ROWS) x (16 * COLUMNS),
// from slices of STEP columns of K in shared memory; the next slice is loaded into registers while this one is
// computed. Rows in shared memory are a cell longer than the slice, so that eight threads that read neighbouring rows
// hit all banks.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_EXT_spirv_intrinsics : require
layout(constant_id = 16) const bool HALF = false;
#define HALVES HALF
#define DECODES
#include "gemm.glsl"
layout(constant_id = 10) const uint ROWS = 8;
layout(constant_id = 11) const uint COLUMNS = 4; // a multiple of 4
layout(constant_id = 12) const uint FORM = 0u;
layout(constant_id = 14) const uint STEP_QUADS = 4; // of K in a slice
layout(constant_id = 13) const uint UNROLLED =
    4;              // quads of a slice that are written out: fewer where registers are few
#define FORM_FEW 1u // M is at most ROWS, at most 8
#define FORM_REDUCE                                                                                                    \
    2u // a product was split along K: the K partial results, each [M rounded up to 16, N], are added in order
#define SKEWED (STEP_QUADS + 1u)

const uint down = THREADS / 16u, tile_rows = down * ROWS, tile_columns = 16u * COLUMNS;
const uint a_loads = FORM == FORM_FEW ? 1u : tile_rows * STEP_QUADS / THREADS,
           w_loads = tile_columns * STEP_QUADS / THREADS;
const uint out_rows = FORM == 0u ? ROWS : 1u; // and COLUMNS is 4 in the other forms
const uint a_cells = FORM == FORM_FEW ? THREADS * ROWS : tile_rows * SKEWED, w_cells = tile_columns * SKEWED;
const uint a_float_cells = HALF ? 1u : a_cells, w_float_cells = HALF ? 1u : w_cells;
const uint a_half_cells = HALF ? a_cells : 1u, w_half_cells = HALF ? w_cells : 1u;
shared vec4 a_tile[a_float_cells];
shared vec4 w_tile[w_float_cells];
shared f16vec4 a_halves[a_half_cells];
shared f16vec4 w_halves[w_half_cells];
// Mesa places shared arrays in the order in which the module names them: W's is first, so that every offset within a
// slice fits into the 13 bits that an instruction of Adreno has for it.
f16vec4 w_half(const uint at) { return w_halves[at]; }
f16vec4 a_half(const uint at) { return a_halves[at]; }

// Four elements as they are in memory, so that they wait in few registers.
#define WORDS_OF(NAME, FORMAT, AT)                                                                                     \
    (INT8                   ? uvec4(NAME##_u1[(AT) >> 2], 0u, 0u, 0u)                                                  \
     : FORMAT == FORMAT_F16 ? uvec4(NAME##_h4[(AT) >> 2], 0u, 0u)                                                      \
                            : floatBitsToUint(NAME##_f4[(AT) >> 2]))
uvec4 w_words(const uint column, const uint row_at, const uint k) {
    return INT8     ? uvec4(w_bytes(row_at, k), 0u, 0u, 0u)
           : PACKED ? floatBitsToUint(decode_w(column, k))
                    : WORDS_OF(w, W_FORMAT, row_at + k);
}

// The device multiplies halves one by one: a result has one sum in F16, of eight products, not two of a slice. UNROLLED
// is even then.
layout(constant_id = 17) const bool SCALAR = false;
// A sum in F16 has eight products where the device rounds each before it adds it, as Adrenos do, and processors, which
// have one or two rows. It begins as a product: adding one to zero would take an instruction, since zeros have signs.
#define EIGHT (SCALAR || ROWS <= 2u)
#define RUN(I, J) (SCALAR ? float(run[I][J].x) : float(run[I][J].x) + float(run[I][J].y))
layout(constant_id = 18) const bool LOADS_APART = false; // see APART
// Pairs are summed in F32 at once (VK_VALVE_shader_mixed_float_dot_product).
layout(constant_id = 15) const bool MIXED = false;
spirv_instruction(extensions = ["SPV_VALVE_mixed_float_dot_product"], capabilities = [6912],
                  id = 6916) float mixed_dot(f16vec2 x, f16vec2 y,
                                             float sum); // OpFDot2MixAcc32VALVE; see diti_spirv_no_mixed
// Values that were F16 in memory need no rounding.
f16vec4 halves_of(const uint format, const uvec4 words) {
    vec4 v = uintBitsToFloat(words);
    return format == FORMAT_F16 ? f16vec4(unpackFloat2x16(words.x), unpackFloat2x16(words.y))
                                : f16vec4(to_half(v.xy), to_half(v.zw));
}
vec4 floats_of(const uint format, const uvec4 words) {
    return INT8 ? unpack_bytes(words.x) : format == FORMAT_F16 ? unpack4(words.xy) : uintBitsToFloat(words);
}

// A workgroup computes four columns; its threads split K and add up in a fixed order.
vec4 few_rows(const uint t, const uint n) {
    uint quads = (K + 3u) / 4u;
    vec4 sum[ROWS];
    [[unroll]] for (uint r = 0u; r < ROWS; r++) sum[r] = vec4(0.0);
    for (uint quad = t; quad < quads; quad += THREADS) {
        vec4 y[4];
        [[unroll]] for (uint c = 0u; c < 4u; c++) y[c] = W_VALUES(min(n + c, N - 1u), 4u * quad);
        [[unroll]] for (uint r = 0u; r < ROWS; r++) {
            vec4 x = mask_tail(a_load4(A_FORMAT, a_offset + min(r, M - 1u) * a_pitch + 4u * quad), 4u * quad);
            sum[r] += vec4(dot(x, y[0]), dot(x, y[1]), dot(x, y[2]), dot(x, y[3]));
        }
    }
    [[unroll]] for (uint r = 0u; r < ROWS; r++) a_tile[r * THREADS + t] = sum[r];
    barrier();
    for (uint half_way = THREADS / 2u; half_way > 0u; half_way /= 2u) {
        if (t < half_way) [[unroll]]
            for (uint r = 0u; r < ROWS; r++) a_tile[r * THREADS + t] += a_tile[r * THREADS + t + half_way];
        barrier();
    }
    return a_tile[min(t, ROWS - 1u) * THREADS];
}

vec4 reduce(const uint row, const uint n) {
    uint part_rows = (M + 15u) & ~15u;
    vec4 v = vec4(0.0);
    for (uint part = 0u; part < K; part++) v += a_load4(FORMAT_F32, a_offset + (part * part_rows + row) * a_pitch + n);
    return v;
}

void main() {
    uint t = gl_LocalInvocationID.x, across = t % 16u, row_thread = t / 16u;
    uvec2 tile = tile_of(gl_WorkGroupID.x + first_group);
    uint first_row = tile.x * tile_rows, first_column = tile.y * tile_columns;
    uint quads = (K + 3u) / 4u, slices = (quads + STEP_QUADS - 1u) / STEP_QUADS,
         total = FORM == 0u ? slices * tap_count() : 0u;

    // A thread loads the same quad of every slice, of rows that are `apart` from each other: a multiple of COLUMNS.
    const uint apart = THREADS / STEP_QUADS;
    uint loaded_quad = t % STEP_QUADS, loaded_row = t / STEP_QUADS;
    uint a_at[a_loads], w_at[w_loads], column[w_loads];
    Pixel pixels[a_loads];
    [[unroll]] for (uint i = 0u; i < a_loads; i++) {
        uint row = min(first_row + loaded_row + i * apart, M - 1u);
        a_at[i] = a_offset + row * a_pitch;
        if (CONV) pixels[i] = pixel_of(row);
    }
    [[unroll]] for (uint i = 0u; i < w_loads; i++) {
        column[i] = min(first_column + loaded_row + i * apart, N - 1u);
        w_at[i] = w_offset + column[i] * w_pitch;
    }
    float sum[ROWS][COLUMNS];
    int whole[ROWS][COLUMNS]; // int8: what the sums held whenever they could have become inexact
    [[unroll]] for (uint i = 0u; i < ROWS; i++) [[unroll]] for (uint j = 0u; j < COLUMNS; j++) sum[i][j] = 0.0;
    if (INT8) {
        [[unroll]] for (uint i = 0u; i < ROWS; i++) [[unroll]] for (uint j = 0u; j < COLUMNS; j++) whole[i][j] = 0;
    }
    uvec4 next_a[a_loads], next_w[w_loads];
    uint written = UNROLLED == STEP_QUADS
                       ? STEP_QUADS
                       : STEP_QUADS + (first_group >> 31); // drivers unroll loops whose length they know

    // Shared memory: where the first quad of a thread is put, and where the first row and column stand that it
    // multiplies. Columns of W are put so that threads which read side by side find theirs side by side.
    uint a_put = loaded_row * SKEWED + loaded_quad, a_first = row_thread * ROWS * SKEWED;
    uint w_put = (loaded_row % COLUMNS * 16u + loaded_row / COLUMNS) * SKEWED + loaded_quad, w_first = across * SKEWED;
    for (uint s = 0u; s <= total; s++) {
        if (s > 0u) { // the slice that waits in registers
            barrier();
            uint quad = (CONV ? (s - 1u) % slices : s - 1u) * STEP_QUADS + loaded_quad;
            [[unroll]] for (uint i = 0u; i < a_loads; i++) {
                if (HALF)
                    a_halves[a_put + i * apart * SKEWED] =
                        f16vec4(mask_tail(vec4(halves_of(A_FORMAT, next_a[i])), 4u * quad));
                else
                    a_tile[a_put + i * apart * SKEWED] = mask_tail(floats_of(A_FORMAT, next_a[i]), 4u * quad);
            }
            [[unroll]] for (uint i = 0u; i < w_loads; i++) {
                if (HALF)
                    w_halves[w_put + i * (apart / COLUMNS) * SKEWED] = halves_of(W_FORMAT, next_w[i]);
                else
                    w_tile[w_put + i * (apart / COLUMNS) * SKEWED] = floats_of(W_FORMAT, next_w[i]);
            }
            barrier();
        }
        if (s < total) { // behind K's end A is zero, and W whatever it ends with, so that no load waits for a condition
            uint tap = CONV ? s / slices : 0u, quad = (CONV ? s % slices : s) * STEP_QUADS + loaded_quad,
                 k = 4u * min(quad, quads - 1u);
            [[unroll]] for (uint i = 0u; i < a_loads; i++) {
                bool valid = true;
                uint row_at = CONV ? a_offset + tap_row(pixels[i], tap, valid) * a_pitch : a_at[i];
                next_a[i] = mix(uvec4(0u), WORDS_OF(a, A_FORMAT, row_at + k), bvec4(valid && quad < quads));
            }
            [[unroll]] for (uint i = 0u; i < w_loads; i++) next_w[i] =
                w_words(column[i], w_at[i], k + 4u * tap * quads);
        }
        if (s == 0u) continue;
        if (INT8 && (s - 1u) % (INT8_EXACT / 4u / STEP_QUADS) == 0u) {
            [[unroll]] for (uint i = 0u; i < ROWS; i++) [[unroll]] for (uint j = 0u; j < COLUMNS; j++) {
                whole[i][j] += int(sum[i][j]);
                sum[i][j] = 0.0;
            }
        }
        if (!HALF) {
            for (uint first = 0u; first < written; first += UNROLLED) [[unroll]] for (uint k = 0u; k < UNROLLED; k++) {
                    vec4 y[COLUMNS];
                    [[unroll]] for (uint j = 0u; j < COLUMNS; j++) y[j] =
                        w_tile[w_first + j * 16u * SKEWED + first + k];
                    [[unroll]] for (uint i = 0u; i < ROWS; i++) {
                        vec4 x = a_tile[a_first + i * SKEWED + first + k];
                        [[unroll]] for (uint j = 0u; j < COLUMNS; j++) sum[i][j] =
                            fma(x.w, y[j].w, fma(x.z, y[j].z, fma(x.y, y[j].y, fma(x.x, y[j].x, sum[i][j]))));
                    }
                }
            continue;
        }
        if (MIXED) {
            for (uint first = 0u; first < written; first += UNROLLED) [[unroll]] for (uint k = 0u; k < UNROLLED; k++) {
                    f16vec4 y[COLUMNS];
                    [[unroll]] for (uint j = 0u; j < COLUMNS; j++) y[j] =
                        w_half(w_first + j * 16u * SKEWED + first + k);
                    [[unroll]] for (uint i = 0u; i < ROWS; i++) {
                        f16vec4 x = a_half(a_first + i * SKEWED + first + k);
                        [[unroll]] for (uint j = 0u; j < COLUMNS; j++) sum[i][j] =
                            mixed_dot(x.zw, y[j].zw, mixed_dot(x.xy, y[j].xy, sum[i][j]));
                    }
                }
            continue;
        }
        f16vec2 run[ROWS][COLUMNS]; // SCALAR: the first of each
        [[unroll]] for (uint i = 0u; i < ROWS; i++) [[unroll]] for (uint j = 0u; j < COLUMNS; j++) run[i][j] =
            f16vec2(0.0);
        for (uint first = 0u; first < written; first += UNROLLED) [[unroll]] for (uint k = 0u; k < UNROLLED; k++) {
                f16vec4 y[COLUMNS];
                [[unroll]] for (uint j = 0u; j < COLUMNS; j++) y[j] =
                    w_half(w_first + j * 16u * SKEWED + first + k + APART(k));
                [[unroll]] for (uint i = 0u; i < ROWS; i++) {
                    f16vec4 x = a_half(a_first + i * SKEWED + first + k + APART(k));
                    [[unroll]] for (uint j = 0u; j < COLUMNS; j++) {
                        bool begins = EIGHT ? k % 2u == 0u : UNROLLED == STEP_QUADS && k == 0u;
                        f16vec4 z = y[j];
                        if (SCALAR)
                            run[i][j].x =
                                fma(x.w, z.w,
                                    fma(x.z, z.z, fma(x.y, z.y, begins ? x.x * z.x : fma(x.x, z.x, run[i][j].x))));
                        else
                            run[i][j] = fma(x.zw, z.zw, begins ? x.xy * z.xy : fma(x.xy, z.xy, run[i][j]));
                    }
                }
                if (EIGHT && k % 2u == 1u) {
                    [[unroll]] for (uint i = 0u; i < ROWS; i++) [[unroll]] for (uint j = 0u; j < COLUMNS; j++)
                        sum[i][j] += RUN(i, j);
                }
            }
        if (!EIGHT) {
            [[unroll]] for (uint i = 0u; i < ROWS; i++) [[unroll]] for (uint j = 0u; j < COLUMNS; j++) sum[i][j] +=
                RUN(i, j);
        }
    }
    if (HALF && !MIXED) {
        uint largest = 0u; // magnitude of a sum, by its bits
        [[unroll]] for (uint i = 0u; i < ROWS; i++) [[unroll]] for (uint j = 0u; j < COLUMNS; j++) largest =
            max(largest, floatBitsToUint(sum[i][j]) & 0x7fffffffu);
        // Few threads come here, which read memory themselves: short code, not fast code.
        if (largest >= 0x7f800000u) {
            [[unroll]] for (uint i = 0u; i < ROWS; i++) [[unroll]] for (uint j = 0u; j < COLUMNS; j++) sum[i][j] = 0.0;
            for (uint q = 0u; q < quads * tap_count(); q++) {
                uint tap = CONV ? q / quads : 0u, quad = CONV ? q % quads : q;
                vec4 y[COLUMNS];
                [[unroll]] for (uint j = 0u; j < COLUMNS; j++) {
                    uint n = min(first_column + across * COLUMNS + j, N - 1u);
                    y[j] = vec4(halves_of(W_FORMAT, w_words(n, w_offset + n * w_pitch, 4u * q)));
                }
                [[unroll]] for (uint i = 0u; i < ROWS; i++) {
                    uint row = min(first_row + row_thread * ROWS + i, M - 1u);
                    bool valid = true;
                    if (CONV) row = tap_row(pixel_of(row), tap, valid);
                    vec4 x = vec4(halves_of(A_FORMAT, WORDS_OF(a, A_FORMAT, a_offset + row * a_pitch + 4u * quad)));
                    x = valid ? mask_tail(x, 4u * quad) : vec4(0.0);
                    [[unroll]] for (uint j = 0u; j < COLUMNS; j++) sum[i][j] =
                        fma(x.w, y[j].w, fma(x.z, y[j].z, fma(x.y, y[j].y, fma(x.x, y[j].x, sum[i][j]))));
                }
            }
        }
    }

    guard_begin();
    [[unroll]] for (uint i = 0u; i < out_rows; i++) [[unroll]] for (uint j = 0u; j < COLUMNS; j += 4u) {
        uint row = first_row + row_thread * ROWS + i, column = first_column + across * COLUMNS + j;
        vec4 v = vec4(sum[i][j], sum[i][j + 1u], sum[i][j + 2u], sum[i][j + 3u]);
        if (INT8) v = vec4(ivec4(whole[i][j], whole[i][j + 1u], whole[i][j + 2u], whole[i][j + 3u]) + ivec4(v));
        if (FORM == FORM_FEW) {
            row = t;
            column = (gl_WorkGroupID.x + first_group) * 4u;
            v = few_rows(t, column);
        }
        if (FORM == FORM_REDUCE) {
            row = tile.x;
            column = 4u * (tile.y * THREADS + t);
            if (column < N) v = reduce(row, column);
        }
        if (row < M && column < N) finish(v, row, column);
    }
    guard_note();
}
