#version 450
// Attention on cooperative matrices, for halves. A subgroup owns TM * RM queries from beginning to end: it keeps them
// and their output (floats) in matrices; tiles of KEYS keys and of their values pass through shared memory, the next
// one waits in registers. Scores, then weights, go through shared memory that is the subgroup's own, where one or more
// lanes own a row, or a lane owns more. Queries and keys may be int8, with a scale for each head of each row
// (qkv_post.comp). Where those matrices are too many for a subgroup's registers, SHARE subgroups have the same queries:
// each adds up the scores over its part of the channels, weighs its part of the queries, and has its part of the
// output's channels.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_shader_explicit_arithmetic_types_int8 : require
#extension GL_KHR_shader_subgroup_shuffle : require
layout(constant_id = 16) const bool BY_CHANNELS = false; // values in shared memory, see put_values
#define TURNED BY_CHANNELS
layout(constant_id = 17) const
    bool APART = false; // a tile's outputs are summed apart, then added: fewer copies by some drivers
#include "attention_matrix.glsl"

layout(binding = 0) readonly buffer QScales { float q_scales[]; };
const uint all_steps8 = (ROW + TK8 - 1u) / TK8 - (INT8 ? 1u : 0u);
const uint steps = INT8 ? 0u : depth / TK / SHARE, steps8 = (all_steps8 + SHARE - 1u) / SHARE; // of a subgroup
const uint out_count = depth / TN / SHARE, score_count = KEYS / TN, weight_count = KEYS / TK;
const uint score_stride = KEYS / 4u + 1u;
shared uvec4 scores[SHARE * rows * score_stride]; // then, in place, a row's weights as halves
shared uint keeps[rows];                          // bits of floats
// The memory of scores has room for all queries at once. Matrices that are loaded behind a condition are copied by RADV
// before each product: 16 instructions.
const bool AT_ONCE = SHARE * rows * score_stride >= (rows + KEYS - 1u) / KEYS * KEYS * stride;
// The next tile is read while this one is used, except where the registers have no room: on Intel, whose matrices have
// 8 rows, heads of more than 192 spilled 2 values.
const bool EARLY = SHARE < 8u || TM > 8u;
const uint soft_rows = own_rows / SHARE; // of a subgroup
layout(constant_id = 15) const uint WRITTEN =
    2; // score_count, or 1 where not all products of queries with a tile of keys are written out
const uint row_lanes = soft_rows < LANES ? LANES / soft_rows : 1u;
const uint sharing =
    row_lanes < KEYS / 8u
        ? row_lanes
        : KEYS / 8u; // lanes of a row, each with every sharing-th group of eight keys; others do the same
const uint lane_rows = soft_rows > LANES ? soft_rows / LANES : 1u; // or rows of a lane, every LANES-th
const uint groups = KEYS / 8u / sharing;
float best_of(float x) {
    [[unroll]] for (uint i = soft_rows; i < soft_rows * sharing; i *= 2u) x = max(x, subgroupShuffleXor(x, i));
    return x;
}
float sum_of(float x) {
    [[unroll]] for (uint i = soft_rows; i < soft_rows * sharing; i *= 2u) x += subgroupShuffleXor(x, i);
    return x;
}

void main() {
    uint own = gl_SubgroupID / SHARE * own_rows, share = gl_SubgroupID % SHARE;
    place = place_of(gl_WorkGroupID.x + first_group, rows);
    if (place.queries == 0u) return;
    float factor = score_scale * log2_e;
    uint scored = WRITTEN == score_count
                      ? score_count
                      : score_count + (first_group >> 31); // drivers unroll loops whose length they know

    MATRIX(float16_t, TM, TK, A) q_part[RM * (INT8 ? 1u : steps)];
    MATRIX(int8_t, TM, TK8, A) q_part8[RM * (INT8 ? steps8 : 1u)];
    if (AT_ONCE) {
        for (uint first = 0u; first < rows; first += KEYS) {
            fetch(FROM_QUERIES, place.first + first);
            [[unroll]] for (uint i = 0u; i < fetches; i++) if (FULL || row_at(i) < KEYS)
                scores[(first + row_at(i)) * stride + unit_at(i)] = fetched[i];
        }
        barrier();
        [[unroll]] for (uint i = 0u; i < RM; i++) {
            uint r = (own + i * TM) * stride;
            [[unroll]] for (uint c = 0u; c < steps8; c++) if (SHARE == 1u || share * steps8 + c < all_steps8)
                coopMatLoad(q_part8[i * steps8 + c], scores, r + (share * steps8 + c) * (TK8 / 16u), stride,
                            gl_CooperativeMatrixLayoutRowMajor);
            [[unroll]] for (uint c = 0u; c < steps; c++)
                coopMatLoad(q_part[i * steps + c], scores, r + (share * steps + c) * (TK / 8u), stride,
                            gl_CooperativeMatrixLayoutRowMajor);
        }
    }
    for (uint first = 0u; first < rows && !AT_ONCE; first += KEYS) {
        fetch(FROM_QUERIES, place.first + first);
        barrier();
        put(0u);
        barrier();
        [[unroll]] for (uint i = 0u; i < RM; i++) {
            uint r = own + i * TM - first;
            if (r < KEYS) {
                [[unroll]] for (uint c = 0u; c < steps8; c++) if (SHARE == 1u || share * steps8 + c < all_steps8)
                    coopMatLoad(q_part8[i * steps8 + c], tile, r * stride + (share * steps8 + c) * (TK8 / 16u), stride,
                                gl_CooperativeMatrixLayoutRowMajor);
                [[unroll]] for (uint c = 0u; c < steps; c++)
                    coopMatLoad(q_part[i * steps + c], tile, r * stride + (share * steps + c) * (TK / 8u), stride,
                                gl_CooperativeMatrixLayoutRowMajor);
            }
        }
    }

    FLOATS(TN) o[RM * out_count];
    [[unroll]] for (uint i = 0u; i < RM * out_count; i++) o[i] = FLOATS(TN)(0.0);
    uint lane = gl_SubgroupInvocationID, first_row = own + share * soft_rows + lane % min(soft_rows, LANES),
         part = lane / soft_rows % sharing;
    const bool spare = soft_rows * sharing < LANES; // lanes that repeat what others do
    float largest[lane_rows], total[lane_rows], factors[lane_rows];
    uint scale_at[lane_rows];
    [[unroll]] for (uint i = 0u; i < lane_rows; i++) {
        uint query = place.query_row + row_of(min(place.first + first_row + i * LANES, place.queries - 1u));
        largest[i] = no_score;
        total[i] = 0.0;
        factors[i] = factor;
        scale_at[i] = (q_offset + query * q_pitch + place.head * ROW + ROW) / 4u - 4u;
        if (INT8) factors[i] *= q_scales[scale_at[i]];
    }

    const bool some = place.keys > 0u;
    if (EARLY && some) fetch(FROM_KEYS, 0u);
    barrier();
    if (EARLY && some) {
        put(0u);
        fetch_values(0u);
    }
    for (uint first_key = 0u; first_key < place.keys; first_key += KEYS) {
        if (!EARLY) {
            fetch(FROM_KEYS, first_key);
            barrier(); // the keys before are done with
            put(0u);
            fetch_values(first_key);
        }
        barrier(); // the keys are there, the values before are done with
        put_values();
        if (EARLY) fetch(FROM_KEYS, first_key + KEYS);
        bool raised = false; // the maximum of any row of this lane
        MATRIX(float16_t, TM, TK, A) weights[RM * weight_count];
        FLOATS(TN) s[RM];
        MATRIX(int, TM, TN, Accumulator) s8[RM];
        for (uint first_b = 0u; first_b < scored; first_b += WRITTEN) {
            [[unroll]] for (uint n = 0u; n < WRITTEN; n++) {
                uint b = first_b + n;
                [[unroll]] for (uint i = 0u; i < RM; i++) s[i] = FLOATS(TN)(0.0);
                [[unroll]] for (uint c = 0u; c < steps; c++) {
                    MATRIX(float16_t, TK, TN, B) k_part;
                    coopMatLoad(k_part, tile, b * TN * stride + (share * steps + c) * (TK / 8u), stride,
                                gl_CooperativeMatrixLayoutColumnMajor);
                    [[unroll]] for (uint i = 0u; i < RM; i++) s[i] = coopMatMulAdd(q_part[i * steps + c], k_part, s[i]);
                }
                [[unroll]] for (uint i = 0u; i < RM; i++) s8[i] = MATRIX(int, TM, TN, Accumulator)(0);
                [[unroll]] for (uint c = 0u; c < steps8; c++) {
                    MATRIX(int8_t, TK8, TN, B) k_part;
                    if (SHARE > 1u && share * steps8 + c >= all_steps8) break;
                    coopMatLoad(k_part, tile, b * TN * stride + (share * steps8 + c) * (TK8 / 16u), stride,
                                gl_CooperativeMatrixLayoutColumnMajor);
                    [[unroll]] for (uint i = 0u; i < RM; i++) s8[i] =
                        coopMatMulAdd(q_part8[i * steps8 + c], k_part, s8[i]);
                }
                [[unroll]] for (uint i = 0u; i < RM; i++) {
                    if (INT8) s[i] = FLOATS(TN)(s8[i]);
                    coopMatStore(s[i], scores, (share * rows + own + i * TM) * score_stride + b * (TN / 4u),
                                 score_stride, gl_CooperativeMatrixLayoutRowMajor);
                }
            }
        }

        if (SHARE == 1u)
            subgroupBarrier();
        else
            barrier();
        [[unroll]] for (uint i = 0u; i < lane_rows; i++) {
            uint row = first_row + i * LANES;
            vec4 x[groups * 2u];
            float top = no_score, before = largest[i];
            [[unroll]] for (uint g = 0u; g < groups * 2u; g++) {
                uint first = ((g / 2u * sharing + part) * 2u + g % 2u) * 4u;
                x[g] = uintBitsToFloat(scores[row * score_stride + first / 4u]);
                [[unroll]] for (uint h = 1u; h < SHARE; h++) x[g] +=
                    uintBitsToFloat(scores[(h * rows + row) * score_stride + first / 4u]);
                x[g] *= factors[i];
                if (INT8) [[unroll]]
                    for (uint h = 0u; h < 4u; h++)
                        x[g][h] *= uintBitsToFloat(tile[(first + h) * stride + score_units - 1u].x);
                x[g] =
                    mix(vec4(no_score), x[g], lessThan(first_key + first + uvec4(0u, 1u, 2u, 3u), uvec4(place.keys)));
                top = max(max(max(top, x[g].x), max(x[g].y, x[g].z)), x[g].w);
            }
            top = best_of(top);
            if (top > before + slack) {
                largest[i] = top;
                raised = true;
            }
            float keep = exp2(before - largest[i]);
            atomicStore(keeps[row], floatBitsToUint(keep), gl_ScopeWorkgroup, 0,
                        gl_SemanticsRelaxed); // all lanes of a row store it: no race, and no branch
            total[i] *= keep;
            [[unroll]] for (uint g = 0u; g < groups * 2u; g++) {
                x[g] = exp2(x[g] - largest[i]);
                total[i] += dot(x[g], vec4(1.0));
            }
            subgroupBarrier(); // all lanes of the row have read it
            if (!spare || lane < soft_rows * sharing) {
                [[unroll]] for (uint g = 0u; g < groups; g++) scores[row * score_stride + g * sharing + part] =
                    uvec4(pack4(x[2u * g]), pack4(x[2u * g + 1u]));
            }
        }

        barrier(); // the values are there, the keys are done with
        if (EARLY) {
            put(0u);
            fetch_values(first_key + KEYS);
        }
        bool any_raised = SHARE > 1u || subgroupAny(raised);
        [[unroll]] for (uint i = 0u; i < RM; i++) {
            FLOATS(TN) kept;
            coopMatLoad(kept, keeps, own + i * TM, 0u, gl_CooperativeMatrixLayoutColumnMajor);
            [[unroll]] for (uint b = 0u; b < weight_count; b++)
                coopMatLoad(weights[i * weight_count + b], scores, (own + i * TM) * score_stride + b * (TK / 8u),
                            score_stride, gl_CooperativeMatrixLayoutRowMajor);
            if (any_raised) {
                [[unroll]] for (uint c = 0u; c < out_count; c++) o[i * out_count + c] = o[i * out_count + c] * kept;
            }
        }
        [[unroll]] for (uint c = 0u; c < out_count; c++) {
            FLOATS(TN) sum[RM];
            [[unroll]] for (uint i = 0u; i < RM; i++) {
                if (APART)
                    sum[i] = FLOATS(TN)(0.0);
                else
                    sum[i] = o[i * out_count + c];
            }
            [[unroll]] for (uint b = 0u; b < weight_count; b++) {
                MATRIX(float16_t, TK, TN, B) v_part;
                if (TURNED)
                    coopMatLoad(v_part, tile, key_units + (share * out_count + c) * TN * turned_stride + b * (TK / 8u),
                                turned_stride, gl_CooperativeMatrixLayoutColumnMajor);
                else
                    coopMatLoad(v_part, tile, (KEYS + b * TK) * stride + (share * out_count + c) * (TN / 8u), stride,
                                gl_CooperativeMatrixLayoutRowMajor);
                [[unroll]] for (uint i = 0u; i < RM; i++) sum[i] =
                    coopMatMulAdd(weights[i * weight_count + b], v_part, sum[i]);
            }
            [[unroll]] for (uint i = 0u; i < RM; i++) {
                if (APART)
                    o[i * out_count + c] = o[i * out_count + c] + sum[i];
                else
                    o[i * out_count + c] = sum[i];
            }
        }
    }

    barrier(); // the last of keeps is read
    [[unroll]] for (uint i = 0u; i < lane_rows; i++) {
        uint query = place.first + first_row + i * LANES;
        float sum = sum_of(total[i]), largest_score = largest[i] / log2_e;
        if (INT8) largest_score += scale * q_scales[scale_at[i] + 1u]; // what subtracting the mean key took away
        if (lane < soft_rows && query < place.queries) store_lse(place, query, largest_score, sum);
        atomicStore(keeps[first_row + i * LANES], floatBitsToUint(sum > 0.0 ? 1.0 / sum : 0.0), gl_ScopeWorkgroup, 0,
                    gl_SemanticsRelaxed);
    }
    barrier();
    [[unroll]] for (uint i = 0u; i < RM; i++) {
        FLOATS(TN) norm;
        coopMatLoad(norm, keeps, own + i * TM, 0u, gl_CooperativeMatrixLayoutColumnMajor);
        [[unroll]] for (uint c = 0u; c < out_count; c++) o[i * out_count + c] = o[i * out_count + c] * norm;
    }
    for (uint first = 0u; first < rows; first += KEYS) { // out through the tile
        barrier();
        [[unroll]] for (uint i = 0u; i < RM; i++) {
            uint r = own + i * TM - first;
            if (r < KEYS) {
                [[unroll]] for (uint c = 0u; c < out_count; c++)
                    coopMatStore(o[i * out_count + c], tile, r * 2u * stride + (share * out_count + c) * (TN / 4u),
                                 2u * stride, gl_CooperativeMatrixLayoutRowMajor);
            }
        }
        barrier();
        write_out(first);
    }
}
