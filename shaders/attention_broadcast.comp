#version 450
// Attention with F32 arithmetic for GPUs without matrix units on which all threads of a subgroup can read one thread's
// register for nothing (gemm_broadcast.comp), for F16 operands whose heads and rows are whole vectors. Each subgroup (a
// team) owns ROWS queries. In the scores of a tile each of its threads has COLUMNS keys; their weights never leave its
// registers, but are broadcast to the team, whose threads divide the channels of the values among themselves. Sums are
// exact in F32, so that no score is too large.
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#extension GL_KHR_shader_subgroup_vote : require
#define VECTOR true
#include "attention.glsl"
layout(constant_id = 10) const uint ROWS = 4;
layout(constant_id = 11) const uint COLUMNS = 2;
layout(constant_id = 12) const uint TEAM = 16; // threads of a subgroup
#define SLICE (TEAM / 4u)                      // quads of a head that a team loads of its queries at a time

const uint KEYS = TEAM * COLUMNS, queries = THREADS / TEAM * ROWS, slices = (QUADS + SLICE - 1u) / SLICE,
           row_quads = SLICE * slices + 1u, query_quads = SLICE * slices + SLICE;
const uint own_loads = (ROWS * SLICE + TEAM - 1u) / TEAM, quad_loops = (QUADS + TEAM - 1u) / TEAM,
           fetches = (KEYS * QUADS + THREADS - 1u) / THREADS;
const float log2_e = 1.4426950408889634;
const float slack = 8.0;            // as in attention_matrix.glsl
shared vec4 tile[KEYS * row_quads]; // keys, then their values; zeros behind a head
shared uvec2 query_tile[queries * query_quads];
uvec2 fetched[fetches];
Place place;

#define FETCH(NAME, FIRST_KEY)                                                                                         \
    [[unroll]] for (uint i = 0u; i < fetches; i++) {                                                                   \
        uint n = t + i * THREADS, key = FIRST_KEY + n / QUADS, row = place.key_row + row_of(key);                      \
        fetched[i] = uvec2(0u);                                                                                        \
        if (key < place.keys && n < KEYS * QUADS)                                                                      \
            fetched[i] = NAME##_h4[(NAME##_offset + row * NAME##_pitch + kv_channel) / 4u + n % QUADS];                \
    }
void put(const uint t) {
    [[unroll]] for (uint i = 0u; i < fetches; i++) {
        uint n = t + i * THREADS;
        if (n < KEYS * QUADS) tile[n / QUADS * row_quads + n % QUADS] = unpack4(fetched[i]);
    }
}

void main() {
    uint team = gl_SubgroupID, mate = gl_SubgroupInvocationID, t = team * TEAM + mate;
    place = place_of(gl_WorkGroupID.x + first_group, queries);
    if (place.queries == 0u) return;
    uint channel = place.head * head_dim, kv_channel = place.kv_head * head_dim,
         first_query = place.first + team * ROWS;
    for (uint n = t; n < queries * SLICE * slices; n += THREADS) {
        uint query = n / (SLICE * slices), quad = n % (SLICE * slices);
        uint row = place.query_row + row_of(min(place.first + query, place.queries - 1u));
        query_tile[query * query_quads + quad] =
            quad < QUADS ? q_h4[(q_offset + row * q_pitch + channel) / 4u + quad] : uvec2(0u);
    }
    for (uint n = t; n < KEYS * (SLICE * slices - QUADS); n += THREADS)
        tile[n % KEYS * row_quads + QUADS + n / KEYS] = vec4(0.0);
    float largest = VERY_LOW, total[ROWS]; // of the row that is the thread's number; of the thread's own weights
    vec4 o[ROWS * quad_loops];
    [[unroll]] for (uint i = 0u; i < ROWS * quad_loops; i++) o[i] = vec4(0.0);
    [[unroll]] for (uint i = 0u; i < ROWS; i++) total[i] = 0.0;

    FETCH(k, 0u)
    for (uint first_key = 0u; first_key < place.keys; first_key += KEYS) {
        uint zero = first_key >> 31; // which no driver knows, so that places in the tile are not all kept in registers
        put(t);
        barrier();
        FETCH(v, first_key)
        float score[ROWS * COLUMNS];
        [[unroll]] for (uint i = 0u; i < ROWS * COLUMNS; i++) score[i] = 0.0;
        for (uint s = 0u; s < slices; s++) {
            vec4 own[own_loads];
            [[unroll]] for (uint i = 0u; i < own_loads; i++) {
                uint n = min(mate + i * TEAM, ROWS * SLICE - 1u);
                own[i] = unpack4(query_tile[(team * ROWS + n / SLICE) * query_quads + s * SLICE + n % SLICE]);
            }
            [[unroll]] for (uint j = 0u; j < COLUMNS; j++) [[unroll]] for (uint k = 0u; k < SLICE; k++) {
                vec4 y = tile[(zero + j * TEAM + mate) * row_quads + s * SLICE + k];
                [[unroll]] for (uint e = 0u; e < 4u; e++) [[unroll]] for (uint i = 0u; i < ROWS; i++) {
                    uint n = i * SLICE + k;
                    score[i * COLUMNS + j] =
                        fma(subgroupShuffle(own[n / TEAM][e], n % TEAM), y[e], score[i * COLUMNS + j]);
                }
            }
        }
        barrier();
        put(t);
        FETCH(k, first_key + KEYS)

        float tops[ROWS];
        float excess = 0.0; // how much larger than its maximum a score of any row is
        [[unroll]] for (uint i = 0u; i < ROWS; i++) {
            tops[i] = VERY_LOW;
            [[unroll]] for (uint j = 0u; j < COLUMNS; j++) {
                uint n = i * COLUMNS + j, key = first_key + j * TEAM + mate;
                score[n] =
                    biased(score[n], place.head, min(first_query + i, place.queries - 1u), min(key, place.keys - 1u)) *
                    log2_e;
                if (key >= place.keys) score[n] = VERY_LOW;
                tops[i] = max(tops[i], score[n]);
            }
            excess = max(excess, tops[i] - subgroupShuffle(largest, i));
        }
        float keep = largest;
        if (subgroupAny(excess > slack)) { // what other threads have of a row matters only then
            [[unroll]] for (uint i = 0u; i < ROWS; i++) {
                float top = tops[i];
                [[unroll]] for (uint l = 0u; l < TEAM; l++) top = max(top, subgroupShuffle(tops[i], l));
                if (mate == i && top > largest + slack) largest = top;
            }
        }
        keep = exp2(keep - largest);
        [[unroll]] for (uint i = 0u; i < ROWS; i++) total[i] *= subgroupShuffle(keep, i);
        [[unroll]] for (uint n = 0u; n < ROWS * COLUMNS; n++) {
            score[n] = exp2(score[n] - subgroupShuffle(largest, n / COLUMNS));
            total[n / COLUMNS] += score[n];
        }
        barrier();
        [[unroll]] for (uint j = 0u; j < quad_loops; j++) { // quads in turn: compilers keep sums of one loop apart
            [[unroll]] for (uint i = 0u; i < ROWS; i++) o[i * quad_loops + j] *= subgroupShuffle(keep, i);
            [[unroll]] for (uint key = 0u; key < KEYS; key++) {
                vec4 y = tile[zero + key * row_quads + min(mate + j * TEAM, QUADS - 1u)];
                [[unroll]] for (uint i = 0u; i < ROWS; i++) o[i * quad_loops + j] +=
                    subgroupShuffle(score[i * COLUMNS + key / TEAM], key % TEAM) * y;
            }
        }
        barrier();
    }

    [[unroll]] for (uint i = 0u; i < ROWS; i++) {
        float sum = 0.0;
        [[unroll]] for (uint l = 0u; l < TEAM; l++) sum += subgroupShuffle(total[i], l);
        uint query = first_query + i;
        if (query >= place.queries) break;
        [[unroll]] for (uint j = 0u; j < quad_loops; j++) {
            uint quad = mate + j * TEAM;
            if (quad < QUADS)
                store_out(out_offset + (place.query_row + row_of(query)) * out_pitch + channel, quad,
                          sum > 0.0 ? o[i * quad_loops + j] / sum : vec4(0.0));
        }
        if (mate == i) store_lse(place, query, largest / log2_e, sum);
    }
}
