#version 450
// GEMM on matrix units (VK_KHR_cooperative_matrix). A workgroup stages slices of STEP columns of K in shared memory, as
// units of 16 bytes, while the next slice waits in registers; each subgroup owns ROWS x COLUMNS fragments of results.
// Then the sums pass through shared memory, so that neighbouring columns meet in one thread for the epilogue. All
// offsets and pitches are multiples of 16 bytes, and K of floats is one of 8. F16 operands (F32 ones are rounded) and
// F32 sums, or int8 rows and int32 sums. KIND says which type float16_t stands for in matrices: dit puts bfloat16 or
// 8-bit floats in its place in the module's words (diti_spirv_elements). With 8-bit floats rows of A are E4M3 behind
// which a scale stands, those of W bare bytes.
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_EXT_shader_explicit_arithmetic_types : require
#extension GL_EXT_spirv_intrinsics : require
#define HALVES true
#define VECTOR true
#define DECODES
layout(constant_id = 21) const uint KIND = 0; // diti_matrix_kind
// Bit 0: the loop over slices has no conditions; bit 1: DITI_QUIRK_SCATTERED_SUMS; bit 2: the loop asks at its end
// whether it goes on; bit 3: rows of A lie as threads hold first operands, of halves alone, see put_a.
layout(constant_id = 22) const uint LOOP = 0;
#define BRAIN (KIND == 1u)
#define FLOAT8 (KIND >= 2u)
#define INT8 (A_FORMAT == FORMAT_I8 && KIND == 0u)
#define AS_HALVES (KIND >= 4u) // bytes become halves when they are loaded
#include "gemm.glsl"
const bool AHEAD = (LOOP & 1u) != 0u, SCATTERED = (LOOP & 2u) != 0u, LATE = (LOOP & 4u) != 0u,
           PAIRED = (LOOP & 8u) != 0u;
layout(constant_id = 10) const uint LANES = 32; // of a subgroup
layout(constant_id = 11) const uint M_FLOAT = 16;
layout(constant_id = 12) const uint N_FLOAT = 16;
layout(constant_id = 13) const uint K_FLOAT = 16;
layout(constant_id = 14) const uint ROWS = 4;
layout(constant_id = 15) const uint COLUMNS = 4;
layout(constant_id = 16) const uint DOWN = 2;    // subgroups above each other
layout(constant_id = 17) const uint STEP = 32;   // a multiple of a fragment's K, and of a unit
layout(constant_id = 18) const uint M_BYTE = 16; // both shapes are real ones in every pipeline, as they must be
layout(constant_id = 19) const uint N_BYTE = 16;
layout(constant_id = 20) const uint K_BYTE = 32;

layout(binding = 0) readonly buffer A_Q { uvec4 a_q[]; };
layout(binding = 1) readonly buffer W_Q { uvec4 w_q[]; };

const uint float_unit = AS_HALVES ? 8u : FLOAT8 ? 16u : 8u, unit = INT8 ? 16u : float_unit; // elements in 16 bytes
const uint m_size = INT8 ? M_BYTE : M_FLOAT, n_size = INT8 ? N_BYTE : N_FLOAT;
const uint fragments = ROWS * COLUMNS, float_fragments = INT8 ? 1u : fragments, byte_fragments = INT8 ? fragments : 1u;
const uint subgroups_across = THREADS / LANES / DOWN;
const uint tile_rows = DOWN * ROWS * m_size, tile_columns = subgroups_across * COLUMNS * n_size;
const uint step_units = STEP / unit,
           skewed = step_units + 1u; // one more, so that rows below each other lie in other banks
const uint a_loads = tile_rows * step_units / THREADS, w_loads = tile_columns * step_units / THREADS;
const uint strip = COLUMNS * n_size / 4u, strip_skewed = strip + 1u; // a row of fragments as quads of sums
const uint tile_units = (tile_rows + tile_columns) * skewed, strip_units = THREADS / LANES * m_size * strip_skewed;
const uint shared_units = tile_units > strip_units ? tile_units : strip_units;
const uint float_units = INT8 ? 1u : shared_units, byte_units = INT8 ? shared_units * 2u : 1u;
shared uvec4 tiles[float_units];
shared uvec2 byte_tiles[byte_units]; // their fragments may begin in the middle of a unit

#define A(TYPE, M_SIZE, K_SIZE) coopmat<TYPE, gl_ScopeSubgroup, M_SIZE, K_SIZE, gl_MatrixUseA>
#define B(TYPE, K_SIZE, N_SIZE) coopmat<TYPE, gl_ScopeSubgroup, K_SIZE, N_SIZE, gl_MatrixUseB>
#define INTS coopmat<int, gl_ScopeSubgroup, M_BYTE, N_BYTE, gl_MatrixUseAccumulator>
#define FLOATS coopmat<float, gl_ScopeSubgroup, M_FLOAT, N_FLOAT, gl_MatrixUseAccumulator>

// Where unit i of a thread goes. The place is computed once where threads are enough for whole rows, but not on Intel's
// GPUs, which have no register to keep it in.
const bool STEADY = THREADS % step_units == 0u && LANES > 16u;
uint place_of(const uint i) {
    uint n = gl_LocalInvocationID.x + (STEADY ? 0u : i * THREADS);
    return n / step_units * skewed + n % step_units + (STEADY ? i * (THREADS / step_units * skewed) : 0u);
}

void put(const uint at, const uvec4 v) {
    if (INT8) {
        byte_tiles[2u * at] = v.xy;
        byte_tiles[2u * at + 1u] = v.zw;
    } else {
        tiles[at] = v;
    }
}

// Between a subgroup's writes to its part of shared memory and its reads.
void own_barrier() {
    controlBarrier(gl_ScopeSubgroup, gl_ScopeSubgroup, gl_StorageSemanticsShared, gl_SemanticsAcquireRelease);
}

// A thread may hold pairs of neighbours in a first operand (DITI_LAYOUT_PAIRS): pair i stands in row i * apart +
// lane / row_pairs, since row_pairs threads have a row. Then a slice of A is cut into such operands, one after the
// other, with what a thread holds in one piece, so that it loads 16 bytes at a time.
const uint row_pairs = K_FLOAT / 2u,
           apart = LANES > row_pairs ? LANES / row_pairs : 1u; // no thread has two pairs of a row
const uint part_units = M_FLOAT * row_pairs / 4u,              // of 16 bytes: of an operand, of a thread
    lane_units = part_units > LANES ? part_units / LANES : 1u;
const bool EVEN_ROWS = THREADS % (step_units * M_FLOAT) == 0u; // a thread's rows are the same row of several operands
void put_a(const uint i, const uvec4 v) {
    uint n = gl_LocalInvocationID.x + (EVEN_ROWS ? 0u : i * THREADS);
    uint row = n / step_units, k = n % step_units * 8u, inner = row % M_FLOAT;
    uint at = (row / M_FLOAT * (STEP / K_FLOAT) + k / K_FLOAT) * part_units +
              (inner % apart * row_pairs + k % K_FLOAT / 2u) * lane_units + inner / apart / 4u;
    if (EVEN_ROWS) at += i * (THREADS / step_units / M_FLOAT * (STEP / K_FLOAT) * part_units);
    [[unroll]] for (uint w = 0u; w < 4u; w++) tiles[at + w * lane_units][inner / apart % 4u] = v[w];
}
#ifdef EMULATED // for tests/graph/kernels.c: the driver at hand holds operands otherwise
shared uint emulated[THREADS / LANES * part_units * 4u];
#define LOAD_PART(OPERAND, PART)                                                                                       \
    {                                                                                                                  \
        uint own = gl_SubgroupID * part_units * 4u, lane = gl_SubgroupInvocationID;                                    \
        [[unroll]] for (uint e = 0u; e < lane_units * 4u; e++) emulated[own + lane + e * apart * row_pairs] =          \
            tiles[(PART)*part_units + lane * lane_units + e / 4u][e % 4u];                                             \
        own_barrier();                                                                                                 \
        coopMatLoad(OPERAND, emulated, own, row_pairs, gl_CooperativeMatrixLayoutRowMajor);                            \
        own_barrier();                                                                                                 \
    }
#else
#define LOAD_PART(OPERAND, PART)                                                                                       \
    [[unroll]] for (uint h = 0u; h < lane_units; h++) {                                                                \
        uvec4 words = tiles[(PART)*part_units + gl_SubgroupInvocationID * lane_units + h];                             \
        [[unroll]] for (uint w = 0u; w < 4u; w++) {                                                                    \
            f16vec2 pair = unpackFloat2x16(words[w]);                                                                  \
            OPERAND[8u * h + 2u * w] = pair.x;                                                                         \
            OPERAND[8u * h + 2u * w + 1u] = pair.y;                                                                    \
        }                                                                                                              \
    }
#endif

// The one place where values lose bits.
uvec2 round_quad(const vec4 v) {
    uvec4 bits = floatBitsToUint(v);
    bits = mix(bits + 0x7fffu + (bits >> 16 & 1u), bits | 0x400000u,
               greaterThan(bits & 0x7fffffffu, uvec4(0x7f800000u))); // NaN stays NaN
    return BRAIN ? bits.xz >> 16 | bits.yw & 0xffff0000u : pack4(v);
}
uvec4 round_unit(const vec4 low, const vec4 high) { return uvec4(round_quad(low), round_quad(high)); }
// Eight 8-bit floats as halves, E4M3 as 2^-8 of what they are, so that exponents need not be looked at.
uvec4 halves_of(const uvec2 bytes, const bool e5m2) {
    uvec4 even = uvec4(bytes.x, bytes.x >> 16, bytes.y, bytes.y >> 16) & 0xffu,
          odd = uvec4(bytes.x, bytes.x >> 16, bytes.y, bytes.y >> 16) >> 8 & 0xffu, both = even | odd << 16;
    return e5m2 ? both << 8 : (both & 0x00800080u) << 8 | (both & 0x007f007fu) << 7;
}
const float as_halves_factor = KIND == 4u ? 65536.0 : 256.0; // of both operands, of the first
// Sixteen bytes from element k of a row on. Behind the row's end its last bytes follow once more, since a load behind a
// condition waits: beyond() makes zeros of those of A, so that it does not matter what W has there.
uint inside(const uint k) { return TAIL ? min(k, (K - 1u) / unit * unit) : k; }
uvec4 beyond(const uvec4 v, const bool none) { return mix(v, uvec4(0u), bvec4(none)); }
#define UNIT_OF(NAME, FORMAT, E5M2)                                                                                    \
    uvec4 NAME##_unit(const uint row_at, const uint k) {                                                               \
        uint at = row_at + k;                                                                                          \
        uvec4 v;                                                                                                       \
        if (AS_HALVES)                                                                                                 \
            v = halves_of((at & 8u) != 0u ? NAME##_q[at >> 4].zw : NAME##_q[at >> 4].xy, E5M2);                        \
        else if (INT8 || FLOAT8)                                                                                       \
            v = NAME##_q[at >> 4];                                                                                     \
        else if (FORMAT == FORMAT_F16)                                                                                 \
            v = BRAIN ? round_unit(unpack4(NAME##_q[at >> 3].xy), unpack4(NAME##_q[at >> 3].zw)) : NAME##_q[at >> 3];  \
        else                                                                                                           \
            v = round_unit(FIT(uintBitsToFloat(NAME##_q[at >> 2])), FIT(uintBitsToFloat(NAME##_q[(at >> 2) + 1u])));   \
        return v;                                                                                                      \
    }
#define FIT(V) narrow_a(V)
UNIT_OF(a, A_FORMAT, false)
#undef FIT
#define FIT(V) (V)
UNIT_OF(w, W_FORMAT, KIND == 5u)

// Sixteen bytes of weights of 4 bit.
uvec4 i4_unit(const uint row_at, const uint k) {
    uint at = row_at + (k >> 1);
    uvec2 v = (at & 8u) != 0u ? w_q[at >> 4].zw : w_q[at >> 4].xy;
    return uvec4(i4_bytes(v.x, 0u), i4_bytes(v.x, 4u), i4_bytes(v.y, 0u), i4_bytes(v.y, 4u));
}

// One slice of K. PER: elements in an element of TILES. Places are counted in elements of TILES from the start, so that
// only one sum depends on the thread, and all else is a constant that loads take for nothing.
#define LOAD_A(OPERAND, TILES, I, K_AT, PER, M_SIZE)                                                                   \
    coopMatLoad(OPERAND, TILES, (down * ROWS + I) * M_SIZE * (skewed * unit / PER) + K_AT / PER, skewed * unit / PER,  \
                gl_CooperativeMatrixLayoutRowMajor)
#define LOAD_PAIRED(OPERAND, TILES, I, K_AT, PER, M_SIZE)                                                              \
    if (PAIRED)                                                                                                        \
        LOAD_PART(OPERAND, (down * ROWS + I) * (STEP / K_FLOAT) + K_AT / K_FLOAT)                                      \
    else                                                                                                               \
        LOAD_A(OPERAND, TILES, I, K_AT, PER, M_SIZE)
#define MULTIPLY(TYPE, SUMS, TILES, PER, M_SIZE, N_SIZE, K_SIZE, LOAD)                                                 \
    [[unroll]] for (uint k = 0u; k < STEP; k += K_SIZE) {                                                              \
        A(TYPE, M_SIZE, K_SIZE) x[ROWS];                                                                               \
        [[unroll]] for (uint i = 0u; i < ROWS; i++) LOAD(x[i], TILES, i, k, PER, M_SIZE);                              \
        [[unroll]] for (uint j = 0u; j < COLUMNS; j++) {                                                               \
            B(TYPE, K_SIZE, N_SIZE) y;                                                                                 \
            uint at = (tile_rows + (across * COLUMNS + j) * N_SIZE) * (skewed * unit / PER) + k / PER;                 \
            coopMatLoad(y, TILES, at, skewed *unit / PER, gl_CooperativeMatrixLayoutColumnMajor);                      \
            [[unroll]] for (uint i = 0u; i < ROWS; i++) SUMS[i * COLUMNS + j] =                                        \
                coopMatMulAdd(x[i], y, SUMS[i * COLUMNS + j]);                                                         \
        }                                                                                                              \
    }

// The slice of K that waits in registers, 16 bytes at a time. Neighbours in a row of a slice are loaded by neighbouring
// threads.
uvec4 next[a_loads + w_loads]; // rows of A, then columns of W
Pixel pixels[a_loads];
void fetch(const uint slice, const uint slices, const uint first_row, const uint first_column) {
    uint tap = CONV ? slice / slices : 0u, first = (CONV ? slice % slices : slice) * STEP;
    uint t = gl_LocalInvocationID.x, tap_columns = (K + 3u) & ~3u;
    [[unroll]] for (uint i = 0u; i < a_loads; i++) {
        uint n = t + i * THREADS, row = min(first_row + n / step_units, M - 1u), k = first + n % step_units * unit;
        bool valid = true;
        if (CONV) row = tap_row(pixels[i], tap, valid);
        next[i] = beyond(a_unit(a_offset + row * a_pitch, inside(k)), !valid || (TAIL && k >= K));
    }
    [[unroll]] for (uint i = 0u; i < w_loads; i++) {
        uint n = t + i * THREADS, column = min(first_column + n / step_units, N - 1u);
        uint k = inside(first + n % step_units * unit);
        if (PACKED)
            next[a_loads + i] = round_unit(decode_w(column, k), decode_w(column, k + 4u));
        else if (INT4)
            next[a_loads + i] = i4_unit(w_offset + column * w_pitch, k);
        else
            next[a_loads + i] = w_unit(w_offset + column * w_pitch + tap * tap_columns, k);
    }
}

void main() {
    uint t = gl_LocalInvocationID.x, down = gl_SubgroupID % DOWN, across = gl_SubgroupID / DOWN;
    uvec2 tile = tile_of(gl_WorkGroupID.x + first_group);
    uint first_row = tile.x * tile_rows, first_column = tile.y * tile_columns;
    uint slices = (K + STEP - 1u) / STEP, total = slices * tap_count();

    if (CONV) {
        [[unroll]] for (uint i = 0u; i < a_loads; i++) pixels[i] =
            pixel_of(min(first_row + (t + i * THREADS) / step_units, M - 1u));
    }
    FLOATS sums[float_fragments];
    [[unroll]] for (uint i = 0u; i < float_fragments; i++) sums[i] = FLOATS(0.0);
    INTS byte_sums[byte_fragments];
    [[unroll]] for (uint i = 0u; i < byte_fragments; i++) byte_sums[i] = INTS(0);
    // Sums begin as products of zeros in memory: constant matrices would be in the way where their elements are
    // replaced (diti_spirv_no_bytes, diti_spirv_elements).
    if (SCATTERED) {
        for (uint n = t; n < (INT8 ? 2u * K_BYTE : 4u * K_FLOAT); n += THREADS) put(n, uvec4(0u));
        barrier();
        if (INT8) {
            A(int8_t, M_BYTE, K_BYTE) x;
            B(int8_t, K_BYTE, N_BYTE) y;
            coopMatLoad(x, byte_tiles, 0u, K_BYTE / 8u, gl_CooperativeMatrixLayoutRowMajor);
            coopMatLoad(y, byte_tiles, 0u, K_BYTE / 8u, gl_CooperativeMatrixLayoutColumnMajor);
            [[unroll]] for (uint i = 0u; i < byte_fragments; i++) byte_sums[i] = coopMatMulAdd(x, y, byte_sums[i]);
        } else {
            A(float16_t, M_FLOAT, K_FLOAT) x;
            B(float16_t, K_FLOAT, N_FLOAT) y;
            coopMatLoad(x, tiles, 0u, K_FLOAT / float_unit, gl_CooperativeMatrixLayoutRowMajor);
            coopMatLoad(y, tiles, 0u, K_FLOAT / float_unit, gl_CooperativeMatrixLayoutColumnMajor);
            [[unroll]] for (uint i = 0u; i < float_fragments; i++) sums[i] = coopMatMulAdd(x, y, sums[i]);
        }
    }

    // AHEAD: the first slice is loaded before the loop. The last round loads a slice again that nobody needs.
    if (AHEAD) fetch(0u, slices, first_row, first_column);
    [[dont_unroll]] for (uint s = AHEAD ? 1u : 0u;; s++) {
        if (!LATE && s > total) break;
        if (AHEAD || s > 0u) {
            barrier();
            [[unroll]] for (uint i = 0u; i < a_loads + w_loads; i++) {
                if (PAIRED && i < a_loads)
                    put_a(i, next[i]);
                else
                    put(place_of(i), next[i]);
            }
            barrier();
        }
        fetch(min(s, total - 1u), slices, first_row, first_column);
        if (AHEAD || s > 0u) {
            if (INT8) {
                MULTIPLY(int8_t, byte_sums, byte_tiles, 8u, M_BYTE, N_BYTE, K_BYTE, LOAD_A)
            } else {
                MULTIPLY(float16_t, sums, tiles, float_unit, M_FLOAT, N_FLOAT, K_FLOAT, LOAD_PAIRED)
            }
        }
        if (LATE && s == total) break;
    }

    guard_begin();
    uint mine = gl_SubgroupID * m_size * strip_skewed;
    const bool even = m_size * strip % LANES == 0u; // no thread is left without an element in the last round
    // Drivers write out loops whose length they know. Four rounds are worth it, of eight NVK takes seven times as long
    // to compile. A row of fragments has a constant number in either case: sums whose number is known only when the
    // kernel runs would go through memory, in the loop over slices, too.
    uint none = m_size * strip > 4u * LANES ? first_group >> 31 : 0u;
    barrier();
    [[unroll]] for (uint i = 0u; i < ROWS + none; i++) {
        if (i > 0u) own_barrier();
        [[unroll]] for (uint r = 0u; r < ROWS; r++) if (r == i) [[unroll]] for (uint j = 0u; j < COLUMNS; j++) {
            uint at = mine + j * n_size / 4u;
            if (INT8)
                coopMatStore(byte_sums[r * COLUMNS + j], byte_tiles, 2u * at, 2u * strip_skewed,
                             gl_CooperativeMatrixLayoutRowMajor);
            else
                coopMatStore(sums[r * COLUMNS + j], tiles, at, strip_skewed, gl_CooperativeMatrixLayoutRowMajor);
        }
        own_barrier();
        for (uint passed = 0u; passed < m_size * strip + none; passed += LANES) {
            uint n = gl_SubgroupInvocationID + passed;
            if (!even && n >= m_size * strip) break;
            uint row = first_row + (down * ROWS + i) * m_size + n / strip,
                 column = first_column + across * COLUMNS * n_size + n % strip * 4u;
            uint at = mine + n / strip * strip_skewed + n % strip;
            vec4 v =
                INT8 ? vec4(ivec4(uvec4(byte_tiles[2u * at], byte_tiles[2u * at + 1u]))) : uintBitsToFloat(tiles[at]);
            if (AS_HALVES) v *= as_halves_factor;
            if (row < M && column < N) finish(v, row, column);
        }
    }
    guard_note();
}
