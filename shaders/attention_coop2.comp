#version 450
// attention_coop.comp with VK_NV_cooperative_matrix2, whose conversions and reductions keep scores in registers.
// Matrices of 32-bit floats have one shape, TM x TN: what is one value for a row is such a matrix, too, and fits scores
// and outputs element by element. Rows are reduced once for a tile of keys. TN and TK are the same.
#extension GL_GOOGLE_include_directive : require
#extension GL_NV_cooperative_matrix2 : require
layout(constant_id = 15) const bool SINGLE = false; // keys and values take turns in one tile
#define TILES (SINGLE ? 1u : 2u)
#include "attention_matrix.glsl"
layout(constant_id = 16) const bool HELD = true;  // queries stay in registers, else in shared memory
layout(constant_id = 17) const bool AHEAD = true; // the next tile is on its way during a product

#define A16 MATRIX(float16_t, TM, TK, A)
#define B16 MATRIX(float16_t, TK, TN, B)
#define C32 MATRIX(float, TM, TN, Accumulator)
const uint deep = depth / TK, wide = depth / TN, parts = KEYS / TN;
const uint held = HELD ? RM * deep : 1u;
const uint values_at = SINGLE ? 0u : KEYS * stride;
shared uvec4 queries[HELD ? 1u : rows * stride];

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
    uint own = gl_SubgroupID * own_rows;
    place = place_of(gl_WorkGroupID.x + first_group, rows);
    if (place.queries == 0u) return;
    float factor = score_scale * log2_e;
    A16 q_part[held];
    for (uint first = 0u; first < rows; first += KEYS) {
        fetch(FROM_QUERIES, place.first + first);
        if (HELD) {
            barrier();
            put(0u);
            barrier();
            [[unroll]] for (uint r = 0u; r < RM; r++) if (own + r * TM - first < KEYS)
                [[unroll]] for (uint d = 0u; d < deep; d++)
                    coopMatLoad(q_part[r * deep + d], tile, (own + r * TM - first) * stride + d * (TK / 8u), stride,
                                gl_CooperativeMatrixLayoutRowMajor);
        } else {
            [[unroll]] for (uint i = 0u; i < fetches; i++) if (row_at(i) < KEYS && first + row_at(i) < rows)
                queries[(first + row_at(i)) * stride + unit_at(i)] = fetched[i];
        }
    }
    C32 o[RM * wide], largest[RM], total[RM], top[RM];
    [[unroll]] for (uint n = 0u; n < RM * wide; n++) o[n] = C32(0.0);
    [[unroll]] for (uint r = 0u; r < RM; r++) {
        largest[r] = C32(no_score);
        total[r] = C32(0.0);
    }
    const bool some = place.keys > 0u;
    if (AHEAD && some) fetch(FROM_KEYS, 0u);
    if (AHEAD && !SINGLE && some) {
        barrier();
        put(0u);
        fetch(FROM_VALUES, 0u);
    }
    [[dont_unroll]] for (uint first_key = 0u; first_key < place.keys; first_key += KEYS) {
        if (!AHEAD) fetch(FROM_KEYS, first_key);
        barrier(); // what was there is done with
        if (AHEAD && !SINGLE) {
            put(values_at);
            fetch(FROM_KEYS, first_key + KEYS);
        } else {
            put(0u);
            if (!AHEAD && !SINGLE) {
                fetch(FROM_VALUES, first_key);
                put(values_at);
            }
            barrier();
            if (AHEAD) fetch(FROM_VALUES, first_key);
        }
        C32 s[RM * parts];
        [[unroll]] for (uint n = 0u; n < RM * parts; n++) s[n] = C32(0.0);
        [[unroll]] for (uint d = 0u; d < deep; d++) {
            A16 q_now[RM];
            [[unroll]] for (uint r = 0u; r < RM; r++) {
                if (HELD)
                    q_now[r] = q_part[r * deep + d];
                else
                    coopMatLoad(q_now[r], queries, (own + r * TM) * stride + d * (TK / 8u), stride,
                                gl_CooperativeMatrixLayoutRowMajor);
            }
            [[unroll]] for (uint j = 0u; j < parts; j++) {
                B16 k_part;
                coopMatLoad(k_part, tile, j * TN * stride + d * (TK / 8u), stride,
                            gl_CooperativeMatrixLayoutColumnMajor);
                [[unroll]] for (uint r = 0u; r < RM; r++) s[r * parts + j] =
                    coopMatMulAdd(q_now[r], k_part, s[r * parts + j]);
            }
        }
        if (first_key + KEYS > place.keys) [[unroll]]
            for (uint n = 0u; n < RM * parts; n++) {
                uint before = first_key + n % parts * TN;
                coopMatPerElementNV(s[n], s[n], masked, max(place.keys, before) - before);
            }
        bool raised = false;
        [[unroll]] for (uint r = 0u; r < RM; r++) {
            C32 most = s[r * parts];
            [[unroll]] for (uint j = 1u; j < parts; j++) [[unroll]] for (uint e = 0u; e < most.length(); e++) most[e] =
                max(most[e], s[r * parts + j][e]);
            coopMatReduceNV(top[r], most, gl_CooperativeMatrixReduceRowNV, larger);
            [[unroll]] for (uint e = 0u; e < most.length(); e++) {
                float before = largest[r][e];
                if (top[r][e] * factor > before + slack) {
                    largest[r][e] = top[r][e] * factor;
                    raised = true;
                }
                top[r][e] = before - largest[r][e];
            }
        }
        if (subgroupAny(raised)) [[unroll]]
            for (uint r = 0u; r < RM; r++) {
                [[unroll]] for (uint e = 0u; e < top[r].length(); e++) top[r][e] = exp2(top[r][e]);
                total[r] = total[r] * top[r];
                [[unroll]] for (uint n = 0u; n < wide; n++) o[r * wide + n] = o[r * wide + n] * top[r];
            }
        if (SINGLE) {
            if (!AHEAD) fetch(FROM_VALUES, first_key);
            barrier();
            put(0u);
            barrier();
            if (AHEAD) fetch(FROM_KEYS, first_key + KEYS);
        } else if (AHEAD) {
            barrier(); // the values are there, the keys are done with
            put(0u);
            fetch(FROM_VALUES, first_key + KEYS);
        }
        [[unroll]] for (uint j = 0u; j < parts; j++) {
            A16 p[RM];
            [[unroll]] for (uint r = 0u; r < RM; r++) {
                [[unroll]] for (uint e = 0u; e < s[r * parts + j].length(); e++) {
                    float weight = exp2(s[r * parts + j][e] * factor - largest[r][e]);
                    total[r][e] += weight;
                    s[r * parts + j][e] = CONVERSIONS_ROUND ? weight : nearest_half(vec2(weight)).x;
                }
                p[r] = A16(s[r * parts + j]);
            }
            [[unroll]] for (uint n = 0u; n < wide; n++) {
                B16 v_part;
                coopMatLoad(v_part, tile, values_at + j * TK * stride + n * (TN / 8u), stride,
                            gl_CooperativeMatrixLayoutRowMajor);
                [[unroll]] for (uint r = 0u; r < RM; r++) o[r * wide + n] =
                    coopMatMulAdd(p[r], v_part, o[r * wide + n]);
            }
        }
    }
    [[unroll]] for (uint r = 0u; r < RM; r++) {
        top[r] = total[r];
        coopMatReduceNV(total[r], top[r], gl_CooperativeMatrixReduceRowNV, sum_of);
        coopMatPerElementNV(total[r], total[r], put_lse, largest[r], place.first + own + r * TM);
        [[unroll]] for (uint n = 0u; n < wide; n++) o[r * wide + n] = o[r * wide + n] * total[r];
    }
    for (uint first = 0u; first < rows; first += out_rows) {
        barrier();
        [[unroll]] for (uint r = 0u; r < RM; r++) if (own + r * TM - first < out_rows)
            [[unroll]] for (uint n = 0u; n < wide; n++)
                coopMatStore(o[r * wide + n], tile, (own + r * TM - first) * 2u * stride + n * (TN / 4u), 2u * stride,
                             gl_CooperativeMatrixLayoutRowMajor);
        barrier();
        write_out(first);
    }
}
