#version 450
// Attention for GPUs without matrix units: ACROSS x 8 threads work on QUERIES of one head; tiles of KEYS keys, then of
// their values, stand in shared memory. Scores: each thread PER_THREAD queries x (KEYS / ACROSS) keys. Softmax: TEAM
// threads per query. Output: each thread the same queries x every ACROSS-th group of four channels. Queries and keys
// may be int8 with a scale for each head of each row (qkv_post.comp): sixteen channels at a time, by the dot product of
// four bytes. glslang learned GL_EXT_integer_dot_product late; this is the same instruction, OpSDot of packed words.
// Devices without it get the module without it (diti_spirv_no_dot).
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_spirv_intrinsics : require
#include "attention.glsl"
layout(constant_id = 6) const uint KEYS = 16;              // 2, 4, 8, 16 or 32
layout(constant_id = 7) const bool SHARED_QUERIES = false; // where shared memory has room for them
layout(constant_id = 8) const uint QUERIES = 32;           // fewer where a thread has many groups of channels
#define INT8 (FORMAT == FORMAT_I8)

const uint ACROSS = THREADS / 8u, TEAM = THREADS / QUERIES, PER_THREAD = QUERIES / 8u;
const uint key_loops = (KEYS + ACROSS - 1u) / ACROSS, quad_loops = (QUADS + ACROSS - 1u) / ACROSS,
           row_quads = QUADS + 1u;
const uint part_keys = (KEYS + TEAM - 1u) / TEAM;
shared vec4 tile[KEYS * row_quads];
shared vec4 query_tile[SHARED_QUERIES ? QUERIES * row_quads : 1u];
shared float weights[QUERIES * (KEYS + 1u)];
shared float tops[THREADS];
shared float keeps[QUERIES];

spirv_instruction(extensions = ["SPV_KHR_integer_dot_product"], capabilities = [ 6019, 6018 ],
                  id = 4450) int dot_bytes(int a, int b, spirv_literal int packed_format);
float dot_cells(const vec4 x, const vec4 y) { // whole numbers, as all sums of them here
    ivec4 a = floatBitsToInt(x), b = floatBitsToInt(y);
    return float(dot_bytes(a.x, b.x, 0) + dot_bytes(a.y, b.y, 0) + dot_bytes(a.z, b.z, 0) + dot_bytes(a.w, b.w, 0));
}

// Cells of a head: four channels, or the bits of sixteen int8, of which the last holds the scale.
Place place;
uint int8_cells = (head_dim + 15u) / 16u + 1u;
#define CELL_OF(NAME, AT, HEAD, C)                                                                                     \
    (INT8 ? NAME##_f4[(AT) / 16u + (HEAD)*int8_cells + (C)] : HEAD_LOAD(NAME, (AT) + (HEAD)*head_dim, C))
vec4 query_cell(const uint query, const uint c) {
    uint at = q_offset + (place.query_row + row_of(min(place.first + query, place.queries - 1u))) * q_pitch;
    return CELL_OF(q, at, place.head, c);
}

void main() {
    uint t = gl_LocalInvocationID.x, across = t % ACROSS, down = t / ACROSS;
    place = place_of(gl_WorkGroupID.x + first_group, QUERIES);
    if (place.queries == 0u) return;
    uint quads = (head_dim + 3u) / 4u, keys = place.keys, first_query = place.first;
    uint channel = place.head * head_dim, kv_channel = place.kv_head * head_dim, query_row = place.query_row,
         key_row = place.key_row, cells = INT8 ? int8_cells : quads;
    uint own = t / TEAM, part = t % TEAM * part_keys,
         part_end = min(part + part_keys, KEYS); // softmax: query and first key of this thread
    float largest = VERY_LOW, total = 0.0;       // total: of the weights that this thread computes
    vec4 o[PER_THREAD][quad_loops];
    [[unroll]] for (uint i = 0u; i < PER_THREAD; i++) [[unroll]] for (uint c = 0u; c < quad_loops; c++) o[i][c] =
        vec4(0.0);
    if (SHARED_QUERIES) {
        for (uint n = t; n < QUERIES * cells; n += THREADS)
            query_tile[n / cells * row_quads + n % cells] = query_cell(n / cells, n % cells);
    }

    for (uint first_key = 0u; first_key < keys; first_key += KEYS) {
        uint count = min(KEYS, keys - first_key);
        barrier();
        for (uint n = t; n < count * cells; n += THREADS) {
            uint at = k_offset + (key_row + row_of(first_key + n / cells)) * k_pitch;
            tile[n / cells * row_quads + n % cells] = CELL_OF(k, at, place.kv_head, n % cells);
        }
        barrier();
        float score[PER_THREAD][key_loops];
        [[unroll]] for (uint i = 0u; i < PER_THREAD; i++) [[unroll]] for (uint j = 0u; j < key_loops; j++) score[i][j] =
            0.0;
        for (uint d = 0u; d < cells; d++) {
            vec4 y[key_loops];
            [[unroll]] for (uint j = 0u; j < key_loops; j++) y[j] =
                tile[min(across + ACROSS * j, count - 1u) * row_quads + d];
            [[unroll]] for (uint i = 0u; i < PER_THREAD; i++) {
                uint query = down * PER_THREAD + i;
                vec4 x = SHARED_QUERIES ? query_tile[query * row_quads + d] : query_cell(query, d);
                [[unroll]] for (uint j = 0u; j < key_loops; j++) if (!INT8) score[i][j] =
                    fma(x.w, y[j].w, fma(x.z, y[j].z, fma(x.y, y[j].y, fma(x.x, y[j].x, score[i][j]))));
                else score[i][j] = d + 1u < cells ? score[i][j] + dot_cells(x, y[j]) : score[i][j] * (x.x * y[j].x);
            }
        }
        [[unroll]] for (uint j = 0u; j < key_loops; j++) {
            uint key = across + ACROSS * j;
            if (key >= KEYS) continue;
            [[unroll]] for (uint i = 0u; i < PER_THREAD; i++) {
                uint query = down * PER_THREAD + i;
                weights[query * (KEYS + 1u) + key] =
                    key < count
                        ? biased(score[i][j], place.head, min(first_query + query, place.queries - 1u), first_key + key)
                        : VERY_LOW;
            }
        }
        barrier();
        for (uint n = t; n < count * quads; n += THREADS)
            tile[n / quads * row_quads + n % quads] =
                HEAD_LOAD(v, v_offset + (key_row + row_of(first_key + n / quads)) * v_pitch + kv_channel, n % quads);
        float top = VERY_LOW;
        for (uint j = part; j < part_end; j++) top = max(top, weights[own * (KEYS + 1u) + j]);
        tops[t] = top;
        barrier();
        top = largest;
        [[unroll]] for (uint i = 0u; i < TEAM; i++) top = max(top, tops[own * TEAM + i]);
        float own_keep = exp(largest - top), added = 0.0; // beside a large total single weights would be lost
        for (uint j = part; j < min(part_end, count); j++) {
            float p = exp(weights[own * (KEYS + 1u) + j] - top);
            weights[own * (KEYS + 1u) + j] = p;
            added += p;
        }
        if (part == 0u) keeps[own] = own_keep;
        total = total * own_keep + added;
        largest = top;
        barrier();
        [[unroll]] for (uint i = 0u; i < PER_THREAD; i++) {
            float keep = keeps[down * PER_THREAD + i];
            [[unroll]] for (uint c = 0u; c < quad_loops; c++) o[i][c] *= keep;
        }
        for (uint key = 0u; key < count; key++) {
            vec4 y[quad_loops];
            [[unroll]] for (uint c = 0u; c < quad_loops; c++) y[c] =
                tile[key * row_quads + min(across + ACROSS * c, quads - 1u)];
            [[unroll]] for (uint i = 0u; i < PER_THREAD; i++) {
                float p = weights[(down * PER_THREAD + i) * (KEYS + 1u) + key];
                [[unroll]] for (uint c = 0u; c < quad_loops; c++) o[i][c] += p * y[c];
            }
        }
    }

    barrier();
    tops[t] = total;
    if (part == 0u) keeps[own] = largest;
    barrier();
    [[unroll]] for (uint i = 0u; i < PER_THREAD; i++) {
        uint query = first_query + down * PER_THREAD + i;
        if (query >= place.queries) continue;
        float sum = 0.0;
        [[unroll]] for (uint n = 0u; n < TEAM; n++) sum += tops[(down * PER_THREAD + i) * TEAM + n];
        float norm = sum > 0.0 ? 1.0 / sum : 0.0;
        uint at = out_offset + (query_row + row_of(query)) * out_pitch + channel;
        [[unroll]] for (uint c = 0u; c < quad_loops; c++) if (across + ACROSS * c < quads)
            store_out(at, across + ACROSS * c, o[i][c] * norm);
        if (across > 0u) continue;
        float top = keeps[down * PER_THREAD + i];
        if (INT8)
            top += scale * query_cell(down * PER_THREAD + i, cells - 1u).y; // what subtracting the mean key took away
        store_lse(place, query, top, sum);
    }
}
