// Common part of the attention kernels on cooperative matrices: tiles of keys and values that pass through shared
// memory, padded with zeros, and the way out.
#pragma use_vulkan_memory_model
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_vote : require
#define MATRICES
#define HALVES true
#include "attention.glsl"
layout(constant_id = 6) const uint LANES = 32; // of a subgroup
layout(constant_id = 7) const uint TM = 16;    // one matrix product: TM x TK times TK x TN
layout(constant_id = 8) const uint TN = 16;
layout(constant_id = 9) const uint TK = 16;
layout(constant_id = 10) const uint RM = 1;    // matrices of queries of a subgroup
layout(constant_id = 11) const uint KEYS = 32; // a multiple of TM, TN, TK, and of 8 for each lane of a row
layout(constant_id = 12) const uint TK8 = 32;  // depth of a product of int8, a multiple of 16
layout(constant_id = 13) const uint ROW =
    0; // bytes of an int8 head: a multiple of TK8, then the scale and a float in 16 more; 0: halves
layout(constant_id = 14) const uint SHARE = 1; // subgroups that have the same queries
#define INT8 (ROW > 0u)

layout(binding = 0) readonly buffer Q16 { uvec4 q16[]; };
#ifndef IN_ORDER
#define IN_ORDER                                                                                                       \
    readonly // without it drivers take care to load where it is written here, and not only where it is used
#endif
layout(binding = 1) IN_ORDER buffer K16 { uvec4 k16[]; };
layout(binding = 2) IN_ORDER buffer V16 { uvec4 v16[]; };
layout(binding = 3) writeonly buffer Out16 { uvec4 out16[]; };

#define MATRIX(TYPE, ROWS, COLUMNS, USE) coopmat<TYPE, gl_ScopeSubgroup, ROWS, COLUMNS, gl_MatrixUse##USE>
#define FLOATS(COLUMNS) MATRIX(float, TM, COLUMNS, Accumulator)
#ifndef SIDE
#define SIDE TM // queries of a matrix of scores
#endif
const uint own_rows = SIDE * RM, rows = THREADS / LANES / SHARE * own_rows, depth = 4u * QUADS;
const uint units = QUADS / 2u,
           stride = units + 1u; // of 16 bytes in a row of a tile; the skew spreads rows over the banks
const uint score_units = INT8 ? ROW / 16u : units;
const float log2_e = 1.4426950408889634;
const float no_score = -1e30;
const float slack =
    8.0; // weights of a row grow to 2^slack before its maximum is raised: the output is seldom scaled anew

#ifndef TILES
#define TILES 2u
#endif
#ifndef TURNED
#define TURNED false // values lie in shared memory channel by channel
#endif
const uint turned_stride = KEYS / 8u + 1u, turned_units = TURNED ? depth * turned_stride : 0u;
const uint key_units = KEYS * stride, value_units = turned_units > key_units ? turned_units : key_units;
shared uvec4 tile[key_units + (TILES - 1u) * value_units]; // keys, then values; queries before the loop; rows of floats
                                                           // of the output after it
const uint fetches = (KEYS * units + THREADS - 1u) / THREADS;
uvec4 fetched[fetches];
Place place;

// A thread's part i of a tile: its row, and its unit of this row, which is always the same where threads are enough for
// whole rows.
const bool WHOLE_ROWS = THREADS % units == 0u;
uint row_at(const uint i) {
    return WHOLE_ROWS ? gl_LocalInvocationIndex / units + i * (THREADS / units)
                      : (gl_LocalInvocationIndex + i * THREADS) / units;
}
uint unit_at(const uint i) { return (gl_LocalInvocationIndex + (WHOLE_ROWS ? 0u : i * THREADS)) % units; }

#define FROM_QUERIES 0u
#define FROM_KEYS 1u
#define FROM_VALUES 2u
// Rows of the item from `first` on. Behind its last row and channel follow those once more, since a load behind a
// condition waits: what queries have there is zeroed, and the weights of such keys are zeros.
void fetch(const uint from, const uint first) {
    bool int8 = INT8 && from != FROM_VALUES;
    uint offset = v_offset, pitch = v_pitch, row = place.key_row, count = place.keys, head = place.kv_head;
    if (from == FROM_KEYS) {
        offset = k_offset;
        pitch = k_pitch;
    }
    if (from == FROM_QUERIES) {
        offset = q_offset;
        pitch = q_pitch;
        row = place.query_row;
        count = place.queries;
        head = place.head;
    }
    uint used = int8 ? score_units : head_dim / 8u;
    offset = int8 ? (offset + head * ROW) / 16u : (offset + head * head_dim) / 8u;
    pitch /= int8 ? 16u : 8u;
    [[unroll]] for (uint i = 0u; i < fetches; i++) {
        uint r = first + row_at(i), c = unit_at(i);
        bool there = r < count && c < used;
        uint at = offset + (row + row_of(min(r, count - 1u))) * pitch + min(c, used - 1u);
        if (from == FROM_VALUES)
            fetched[i] = v16[at];
        else if (from == FROM_KEYS)
            fetched[i] = k16[at];
        else
            fetched[i] = there ? q16[at] : uvec4(0u);
    }
}
// No thread is left over, so that put asks nothing, and no branch stands there. Threads with more than four units keep
// the branch: RADV would load all of them at once, and spill.
const bool FULL = KEYS * units % THREADS == 0u && fetches < 5u;
void put(const uint at) {
    [[unroll]] for (uint i = 0u; i < fetches; i++) {
        if (!FULL && row_at(i) >= KEYS) break;
        tile[at + row_at(i) * stride + unit_at(i)] = fetched[i];
    }
}

// Values as they are have a row for each key. Turned, a row holds a channel of all keys, as operands want it whose sums
// go over keys: else drivers load halves of such a matrix one by one. A thread takes four channels of two neighbouring
// keys, whose halves make four words. Eight pairs of keys and four groups of channels are neighbours, so that threads
// read 32 bytes of a row of values, and hardly meet in one bank.
layout(binding = 2) IN_ORDER buffer V16Quads { uvec2 v16_quads[]; };
const bool STEADY = THREADS % (2u * KEYS) == 0u; // a thread's pair of keys is always the same
uint pair_of(const uint i) {
    uint n = gl_LocalInvocationIndex + (STEADY ? 0u : i * THREADS);
    return n % 8u + n / 32u % (KEYS / 16u) * 8u;
}
const uint quad_step = THREADS / (2u * KEYS) * 4u;
uint quad_of(const uint i) {
    uint n = gl_LocalInvocationIndex + (STEADY ? 0u : i * THREADS);
    return n / 8u % 4u + n / (2u * KEYS) * 4u + (STEADY ? i * quad_step : 0u);
}
void fetch_values(const uint first) {
    if (!TURNED) {
        fetch(FROM_VALUES, first);
        return;
    }
    uint last = place.keys - 1u, pitch = v_pitch / 4u,
         offset = (v_offset + place.kv_head * head_dim) / 4u + place.key_row * pitch;
    [[unroll]] for (uint i = 0u; i < fetches; i++) {
        uint key = first + 2u * pair_of(i), c = min(quad_of(i), head_dim / 4u - 1u);
        uvec2 low = v16_quads[offset + row_of(min(key, last)) * pitch + c],
              high = v16_quads[offset + row_of(min(key + 1u, last)) * pitch + c];
        fetched[i] = uvec4(low, high);
    }
}
uint turned_word(const uint i, const uint c) { // channel c of both keys
    uint low = fetched[i][c / 2u], high = fetched[i][c / 2u + 2u];
    return c % 2u == 0u ? (low & 0xffffu) | (high << 16) : (low >> 16) | (high & 0xffff0000u);
}
void put_values() {
    if (!TURNED) {
        put(key_units);
        return;
    }
    [[unroll]] for (uint i = 0u; i < fetches; i++) {
        uint pair = pair_of(i), quad = quad_of(i), at = key_units + quad * 4u * turned_stride + pair / 4u;
        if (!FULL && quad >= QUADS) break;
        [[unroll]] for (uint c = 0u; c < 4u; c++) tile[at + c * turned_stride][pair % 4u] = turned_word(i, c);
    }
}

// TILES / 2 * KEYS rows of floats of the tile, from row `first` of the workgroup's on.
const uint out_rows = TILES * KEYS / 2u;
void write_out(const uint first) {
    for (uint n = gl_LocalInvocationIndex; n < out_rows * units; n += THREADS) {
        uint r = n / units, c = n % units, query = place.first + first + r;
        if (first + r >= rows || query >= place.queries || c >= head_dim / 8u) continue;
        uint at = (out_offset + (place.query_row + row_of(query)) * out_pitch + place.head * head_dim) / 8u + c;
        uvec4 low = tile[2u * (r * stride + c)], high = tile[2u * (r * stride + c) + 1u];
        if (OUT_FORMAT == FORMAT_F16)
            low = uvec4(pack4(uintBitsToFloat(low)), pack4(uintBitsToFloat(high)));
        else
            out16[2u * at + 1u] = high;
        out16[OUT_FORMAT == FORMAT_F16 ? at : 2u * at] = low;
    }
}
