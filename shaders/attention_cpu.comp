#version 450
// Attention for drivers that run on a processor (see gemm_cpu.comp): one subgroup per workgroup; each lane owns QUERIES
// queries, all lanes share KEYS keys, whose k and v rows each lane loads in part and all get by shuffles. The
// unnormalised output waits in shared memory, each lane its own part, so that head_dim is no constant of the code.
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_shader_subgroup_shuffle : require
#include "attention.glsl"
layout(constant_id = 6) const uint QUERIES = 4;
layout(constant_id = 7) const uint KEYS = 16; // a multiple of the workgroup's and subgroup's size
layout(constant_id = 8) const uint STEP = 1;  // quads of a head in one round of a loop; divides their number

shared vec4 partial[THREADS * QUERIES * QUADS];

void main() {
    const uint lanes = THREADS, lane = gl_LocalInvocationID.x;
    const uint loads = KEYS / THREADS;
    Place place = place_of(gl_WorkGroupID.x + first_group, lanes * QUERIES);
    if (place.queries == 0u) return;
    uint quads = (head_dim + 3u) / 4u, keys = place.keys;
    uint first_query = place.first + lane * QUERIES, mine = lane * QUERIES * QUADS;
    uint q_at[QUERIES];
    float largest[QUERIES], total[QUERIES];
    [[unroll]] for (uint i = 0u; i < QUERIES; i++) {
        q_at[i] = q_offset + (place.query_row + row_of(min(first_query + i, place.queries - 1u))) * q_pitch +
                  place.head * head_dim;
        largest[i] = VERY_LOW;
        total[i] = 0.0;
        for (uint d = 0u; d < quads; d++) partial[mine + i * QUADS + d] = vec4(0.0);
    }

    for (uint first_key = 0u; first_key < keys; first_key += KEYS) {
        uint key_row[KEYS]; // only the first `loads` are used
        [[unroll]] for (uint j = 0u; j < loads; j++) key_row[j] =
            place.key_row + row_of(min(first_key + j * lanes + lane, keys - 1u));
        float score[QUERIES][KEYS];
        [[unroll]] for (uint i = 0u; i < QUERIES; i++) [[unroll]] for (uint j = 0u; j < KEYS; j++) score[i][j] = 0.0;
        for (uint begin = 0u; begin < quads; begin += STEP) [[unroll]] for (uint s = 0u; s < STEP; s++) {
                uint d = begin + s;
                vec4 x[QUERIES];
                [[unroll]] for (uint i = 0u; i < QUERIES; i++) x[i] = HEAD_LOAD(q, q_at[i], d);
                [[unroll]] for (uint j = 0u; j < loads; j++) {
                    vec4 own = HEAD_LOAD(k, k_offset + key_row[j] * k_pitch + place.kv_head * head_dim, d);
                    [[unroll]] for (uint l = 0u; l < THREADS; l++) {
                        vec4 y = subgroupShuffle(own, l);
                        [[unroll]] for (uint i = 0u; i < QUERIES; i++) score[i][j * THREADS + l] += dot(x[i], y);
                    }
                }
            }

        float keep[QUERIES];
        [[unroll]] for (uint i = 0u; i < QUERIES; i++) {
            float top = largest[i];
            [[unroll]] for (uint j = 0u; j < KEYS; j++) {
                if (first_key + j < keys)
                    score[i][j] =
                        biased(score[i][j], place.head, min(first_query + i, place.queries - 1u), first_key + j);
                else
                    score[i][j] = VERY_LOW;
                top = max(top, score[i][j]);
            }
            keep[i] = exp(largest[i] - top);
            float sum = 0.0;
            [[unroll]] for (uint j = 0u; j < KEYS; j++) {
                score[i][j] = exp(score[i][j] - top); // 0 beyond the last key
                sum += score[i][j];
            }
            largest[i] = top;
            total[i] = total[i] * keep[i] + sum;
        }

        for (uint begin = 0u; begin < quads; begin += STEP) [[unroll]] for (uint s = 0u; s < STEP; s++) {
                uint d = begin + s;
                vec4 o[QUERIES];
                [[unroll]] for (uint i = 0u; i < QUERIES; i++) o[i] = partial[mine + i * QUADS + d] * keep[i];
                [[unroll]] for (uint j = 0u; j < loads; j++) {
                    vec4 own = HEAD_LOAD(v, v_offset + key_row[j] * v_pitch + place.kv_head * head_dim, d);
                    [[unroll]] for (uint l = 0u; l < THREADS; l++) {
                        vec4 y = subgroupShuffle(own, l);
                        [[unroll]] for (uint i = 0u; i < QUERIES; i++) o[i] += score[i][j * THREADS + l] * y;
                    }
                }
                [[unroll]] for (uint i = 0u; i < QUERIES; i++) partial[mine + i * QUADS + d] = o[i];
            }
    }

    for (uint i = 0u; i < QUERIES; i++) {
        uint query = first_query + i;
        if (query >= place.queries) break;
        float norm = 0.0;
        [[unroll]] for (uint n = 0u; n < QUERIES; n++) {
            if (n != i) continue;
            norm = total[n] > 0.0 ? 1.0 / total[n] : 0.0;
            store_lse(place, query, largest[n], total[n]);
        }
        uint at = out_offset + (place.query_row + row_of(query)) * out_pitch + place.head * head_dim;
        for (uint d = 0u; d < quads; d++) store_out(at, d, partial[mine + i * QUADS + d] * norm);
    }
}
