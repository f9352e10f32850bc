#version 450
// attention_coop.comp with VK_NV_cooperative_matrix2: matrices as large as a subgroup's part of the work, which its
// reductions, conversions and operations per element keep in registers. TM: queries of a subgroup; TN: columns of what
// is one value for a row.
#extension GL_GOOGLE_include_directive : require
#extension GL_NV_cooperative_matrix2 : require
#include "attention_matrix.glsl"

float larger(const in float a, const in float b) { return max(a, b); }
float sum_of(const in float a, const in float b) { return a + b; }
float masked(const in uint row, const in uint column, const in float score, const in uint keys) {
    return column < keys ? score : no_score;
}
float put_lse(const in uint row, const in uint column, const in float sum, const in float largest,
              const in uint query) {
    if (column == 0u && query + row < place.queries) store_lse(place, query + row, largest / log2_e, sum);
    return sum > 0.0 ? 1.0 / sum : 0.0;
}

void main() {
    uint own = gl_SubgroupID * TM;
    place = place_of(gl_WorkGroupID.x + first_group, rows);
    if (place.queries == 0u) return;
    float factor = score_scale * log2_e;
    MATRIX(float16_t, TM, depth, A) q_part;
    for (uint first = 0u; first < rows; first += KEYS) {
        fetch(FROM_QUERIES, place.first + first);
        barrier();
        put(0u);
        barrier();
        if (own - first < KEYS)
            coopMatLoad(q_part, tile, (own - first) * stride, stride, gl_CooperativeMatrixLayoutRowMajor);
    }
    FLOATS(depth) o = FLOATS(depth)(0.0), kept;
    FLOATS(TN) largest = FLOATS(TN)(no_score), total = FLOATS(TN)(0.0), top, sum;
    fetch(FROM_KEYS, 0u);
    barrier();
    put(0u);
    fetch(FROM_VALUES, 0u);
    for (uint first_key = 0u; first_key < place.keys; first_key += KEYS) {
        barrier(); // the keys are there, the values before are done with
        put(KEYS * stride);
        fetch(FROM_KEYS, first_key + KEYS);
        MATRIX(float16_t, depth, KEYS, B) k_part;
        coopMatLoad(k_part, tile, 0u, stride, gl_CooperativeMatrixLayoutColumnMajor);
        FLOATS(KEYS) s = coopMatMulAdd(q_part, k_part, FLOATS(KEYS)(0.0)), tops;
        if (first_key + KEYS > place.keys) coopMatPerElementNV(s, s, masked, place.keys - first_key);
        coopMatReduceNV(top, s, gl_CooperativeMatrixReduceRowNV, larger);
        bool raised = false;
        [[unroll]] for (uint e = 0u; e < top.length(); e++) {
            float before = largest[e];
            if (top[e] * factor > before + slack) {
                largest[e] = top[e] * factor;
                raised = true;
            }
            top[e] = exp2(before - largest[e]);
        }
        coopMatReduceNV(tops, largest, gl_CooperativeMatrixReduceRowNV, larger);
        [[unroll]] for (uint e = 0u; e < s.length(); e++) s[e] = exp2(s[e] * factor - tops[e]);
        coopMatReduceNV(sum, s, gl_CooperativeMatrixReduceRowNV, sum_of);
        if (!CONVERSIONS_ROUND) [[unroll]]
            for (uint e = 0u; e < s.length(); e++) s[e] = nearest_half(vec2(s[e])).x;
        total = total * top + sum;
        if (subgroupAny(raised)) {
            coopMatReduceNV(kept, top, gl_CooperativeMatrixReduceRowNV, larger);
            o = o * kept;
        }
        barrier(); // the values are there, the keys are done with
        put(0u);
        fetch(FROM_VALUES, first_key + KEYS);
        MATRIX(float16_t, KEYS, depth, B) v_part;
        coopMatLoad(v_part, tile, KEYS * stride, stride, gl_CooperativeMatrixLayoutRowMajor);
        o = coopMatMulAdd(MATRIX(float16_t, TM, KEYS, A)(s), v_part, o);
    }
    coopMatPerElementNV(total, total, put_lse, largest, place.first + own);
    coopMatReduceNV(kept, total, gl_CooperativeMatrixReduceRowNV, larger);
    o = o * kept;
    for (uint first = 0u; first < rows; first += KEYS) {
        barrier();
        if (own - first < KEYS)
            coopMatStore(o, tile, (own - first) * 2u * stride, 2u * stride, gl_CooperativeMatrixLayoutRowMajor);
        barrier();
        write_out(first);
    }
}
