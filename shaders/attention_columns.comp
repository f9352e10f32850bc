#version 450
// attention_coop.comp for halves, on devices where a thread holds a column of a matrix of sums (coop_layout.comp finds
// out). Scores and outputs are computed turned, S^T = K Q^T and O^T = V^T P^T, so that a thread has a query: maxima,
// sums and weights need no other thread of the subgroup. SHARE subgroups have the same queries: each scores its part of
// a tile's keys, and has its part of the output's channels. Weights pass through shared memory. A round has two
// barriers: up to the first one scores are made of the keys that lie there, behind it values, the next keys and weights
// are put.
#extension GL_GOOGLE_include_directive : require
#define TURNED true
#define SIDE TN
#define IN_ORDER
#include "attention_matrix.glsl"

const uint steps = depth / TK, out_count = depth / TM / SHARE, own_keys = KEYS / SHARE, score_count = own_keys / TM;
const uint weight_count = KEYS / TK, weight_stride = KEYS / 8u + 1u;
shared uvec4 queries[rows * stride];
shared uvec4 weights[rows * weight_stride]; // halves: a row has the weights of a query
shared float tops[SHARE * rows];            // the largest score of a query among a subgroup's keys

// A weight rounded to the 11 bits of F16, ties away from zero. Weights are no larger than 2^slack, and what is below
// 2^-14 may be rounded in any way.
float rounded(const float weight) { return uintBitsToFloat((floatBitsToUint(weight) + 0x1000u) & 0xffffe000u); }
uint pack(const vec2 v) { return packFloat2x16(f16vec2(v)); }

void main() {
    uint own = gl_SubgroupID / SHARE * own_rows, share = gl_SubgroupID % SHARE, lane = gl_SubgroupInvocationID;
    place = place_of(gl_WorkGroupID.x + first_group, rows);
    if (place.queries == 0u) return;
    float factor = score_scale * log2_e;
    for (uint first = 0u; first < rows; first += KEYS) {
        fetch(FROM_QUERIES, place.first + first);
        [[unroll]] for (uint i = 0u; i < fetches; i++) {
            if (row_at(i) >= KEYS || first + row_at(i) >= rows) break;
            queries[(first + row_at(i)) * stride + unit_at(i)] = fetched[i];
        }
    }
    FLOATS(TN) o[RM * out_count];
    [[unroll]] for (uint i = 0u; i < RM * out_count; i++) o[i] = FLOATS(TN)(0.0);
    float largest[RM], total[RM]; // total: of the subgroup's keys
    [[unroll]] for (uint i = 0u; i < RM; i++) {
        largest[i] = no_score;
        total[i] = 0.0;
    }

    if (place.keys > 0u) {
        fetch(FROM_KEYS, 0u);
        put(0u);
    }
    barrier();
    for (uint first_key = 0u; first_key < place.keys; first_key += KEYS) {
        fetch(FROM_KEYS, first_key + KEYS);
        uvec4 keys[fetches];
        [[unroll]] for (uint i = 0u; i < fetches; i++) keys[i] = fetched[i];
        fetch_values(first_key);
        FLOATS(TN) s[RM * score_count];
        [[unroll]] for (uint b = 0u; b < RM * score_count; b++) s[b] = FLOATS(TN)(0.0);
        [[unroll]] for (uint c = 0u; c < steps; c++) {
            MATRIX(float16_t, TK, TN, B) q_part[RM];
            [[unroll]] for (uint i = 0u; i < RM; i++)
                coopMatLoad(q_part[i], queries, (own + i * TN) * stride + c * (TK / 8u), stride,
                            gl_CooperativeMatrixLayoutColumnMajor);
            [[unroll]] for (uint b = 0u; b < score_count; b++) {
                MATRIX(float16_t, TM, TK, A) k_part;
                coopMatLoad(k_part, tile, (share * own_keys + b * TM) * stride + c * (TK / 8u), stride,
                            gl_CooperativeMatrixLayoutRowMajor);
                [[unroll]] for (uint i = 0u; i < RM; i++) s[i * score_count + b] =
                    coopMatMulAdd(k_part, q_part[i], s[i * score_count + b]);
            }
        }
        if (first_key + KEYS > place.keys) { // all elements at once, so that drivers keep this a branch
            uint left = place.keys - first_key - min(share * own_keys, place.keys - first_key);
            [[unroll]] for (uint n = 0u; n < RM * score_count; n++)
                [[unroll]] for (uint e = 0u; e < TM; e++) if (n % score_count * TM + e >= left) s[n][e] = no_score;
        }
        [[unroll]] for (uint i = 0u; i < RM; i++) {
            float top = no_score;
            [[unroll]] for (uint b = 0u; b < score_count; b++) [[unroll]] for (uint e = 0u; e < TM; e++) top =
                max(top, s[i * score_count + b][e]);
            tops[share * rows + own + i * TN + lane] = top * factor;
        }
        barrier(); // the tops are there, the keys and the weights and values before are done with
        put_values();
        [[unroll]] for (uint i = 0u; i < fetches; i++) fetched[i] = keys[i];
        put(0u);
        [[unroll]] for (uint i = 0u; i < RM; i++) {
            uint row = own + i * TN + lane;
            float top = tops[row], before = largest[i];
            [[unroll]] for (uint h = 1u; h < SHARE; h++) top = max(top, tops[h * rows + row]);
            bool raised = top > before + slack;
            if (raised) largest[i] = top;
            if (subgroupAny(raised)) {
                float keep = exp2(before - largest[i]);
                total[i] *= keep;
                [[unroll]] for (uint c = 0u; c < out_count; c++) [[unroll]] for (uint e = 0u; e < TM; e++)
                    o[i * out_count + c][e] *= keep;
            }
        }
        [[unroll]] for (uint i = 0u; i < RM; i++) {
            uint row = own + i * TN + lane;
            [[unroll]] for (uint b = 0u; b < score_count; b++) {
                vec4 x[TM / 4u];
                [[unroll]] for (uint e = 0u; e < TM; e++) {
                    float weight = exp2(s[i * score_count + b][e] * factor - largest[i]);
                    total[i] += weight;
                    x[e / 4u][e % 4u] = rounded(weight);
                }
                [[unroll]] for (uint e = 0u; e < TM / 8u; e++)
                    weights[row * weight_stride + (share * own_keys + b * TM) / 8u + e] =
                        uvec4(pack(x[2u * e].xy), pack(x[2u * e].zw), pack(x[2u * e + 1u].xy), pack(x[2u * e + 1u].zw));
            }
        }
        barrier(); // the weights, the values and the next keys are there, the tops are done with
        MATRIX(float16_t, TK, TN, B) weight[RM * weight_count];
        [[unroll]] for (uint i = 0u; i < RM; i++) [[unroll]] for (uint b = 0u; b < weight_count; b++)
            coopMatLoad(weight[i * weight_count + b], weights, (own + i * TN) * weight_stride + b * (TK / 8u),
                        weight_stride, gl_CooperativeMatrixLayoutColumnMajor);
        [[unroll]] for (uint c = 0u; c < out_count; c++) {
            FLOATS(TN) sum[RM]; // apart from the output, whose registers drivers would copy
            [[unroll]] for (uint i = 0u; i < RM; i++) sum[i] = FLOATS(TN)(0.0);
            [[unroll]] for (uint b = 0u; b < weight_count; b++) {
                MATRIX(float16_t, TM, TK, A) v_part;
                coopMatLoad(v_part, tile, key_units + (share * out_count + c) * TM * turned_stride + b * (TK / 8u),
                            turned_stride, gl_CooperativeMatrixLayoutRowMajor);
                [[unroll]] for (uint i = 0u; i < RM; i++) sum[i] =
                    coopMatMulAdd(v_part, weight[i * weight_count + b], sum[i]);
            }
            [[unroll]] for (uint i = 0u; i < RM; i++) o[i * out_count + c] = o[i * out_count + c] + sum[i];
        }
    }

    [[unroll]] for (uint i = 0u; i < RM; i++) tops[share * rows + own + i * TN + lane] = total[i];
    barrier();
    [[unroll]] for (uint i = 0u; i < RM; i++) {
        uint row = own + i * TN + lane, query = place.first + row;
        float sum = tops[row];
        [[unroll]] for (uint h = 1u; h < SHARE; h++) sum += tops[h * rows + row];
        if (query >= place.queries) continue;
        if (share == 0u) store_lse(place, query, largest[i] / log2_e, sum);
        float norm = sum > 0.0 ? 1.0 / sum : 0.0;
        uint at = (out_offset + (place.query_row + row_of(query)) * out_pitch + place.head * head_dim) / 8u;
        [[unroll]] for (uint c = 0u; c < out_count; c++) {
            [[unroll]] for (uint e = 0u; e < TM / 8u; e++) {
                uint unit = (share * out_count + c) * (TM / 8u) + e;
                if (unit >= head_dim / 8u) continue;
                vec4 low, high;
                [[unroll]] for (uint n = 0u; n < 4u; n++) {
                    low[n] = o[i * out_count + c][8u * e + n] * norm;
                    high[n] = o[i * out_count + c][8u * e + 4u + n] * norm;
                }
                if (OUT_FORMAT == FORMAT_F16) {
                    out16[at + unit] = uvec4(pack4(low), pack4(high));
                } else {
                    out16[2u * (at + unit)] = floatBitsToUint(low);
                    out16[2u * (at + unit) + 1u] = floatBitsToUint(high);
                }
            }
        }
    }
}
