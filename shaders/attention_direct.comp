#version 450
// attention_coop.comp for halves, on devices where a thread holds the same elements of a matrix of sums as of a first
// operand (coop_layout.comp finds out): scores become weights element by element, and neither leaves the registers.
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_shader_subgroup_shuffle : require
#include "attention_matrix.glsl"
// The bits of a thread's number that choose a column of a matrix of sums, and those of an element's number. The others
// choose a row.
layout(constant_id = 15) const uint THREAD_COLUMNS = 0;
layout(constant_id = 16) const uint ELEMENT_COLUMNS = 0;
layout(constant_id = 17) const bool SCATTERED = false; // DITI_QUIRK_SCATTERED_SUMS

const uint steps = depth / TK, out_count = depth / TN, score_count = KEYS / TN; // TN is TK
const uint elements = TM * TN / LANES;                                          // of a matrix, those of a thread
#define ROW_OF(E) ((E) & ~ELEMENT_COLUMNS)                   // the first element in the row of element E
#define IS_ROW(R) (ROW_OF((R) % elements) == (R) % elements) // statistics of a row are those of its first element
shared float masks[KEYS];                                    // what the scores of the last tile of keys begin with
shared float numbers[rows];

void main() {
    uint t = gl_LocalInvocationIndex, own = gl_SubgroupID * own_rows;
    place = place_of(gl_WorkGroupID.x + first_group, rows);
    if (place.queries == 0u) return;
    float factor = score_scale * log2_e;
    for (uint n = t; n < KEYS; n += THREADS) masks[n] = n > (place.keys - 1u) % KEYS ? no_score : 0.0;
    for (uint n = t; n < rows; n += THREADS) numbers[n] = float(n);

    MATRIX(float16_t, TM, TK, A) q_part[RM * steps];
    for (uint first = 0u; first < rows; first += KEYS) {
        fetch(FROM_QUERIES, place.first + first);
        barrier();
        put(0u);
        barrier();
        [[unroll]] for (uint i = 0u; i < RM; i++) {
            uint r = own + i * TM - first;
            if (r < KEYS) [[unroll]]
                for (uint c = 0u; c < steps; c++)
                    coopMatLoad(q_part[i * steps + c], tile, r * stride + c * (TK / 8u), stride,
                                gl_CooperativeMatrixLayoutRowMajor);
        }
    }
    FLOATS(TN) o[RM * out_count];
    float largest[RM * elements], total[RM * elements]; // total: of the thread's own weights
    [[unroll]] for (uint i = 0u; i < RM * out_count; i++) {
        o[i] = FLOATS(TN)(0.0);
        if (SCATTERED) o[i] = coopMatMulAdd(MATRIX(float16_t, TM, TK, A)(0.0), MATRIX(float16_t, TK, TN, B)(0.0), o[i]);
    }
    [[unroll]] for (uint r = 0u; r < RM * elements; r++) {
        largest[r] = no_score;
        total[r] = 0.0;
    }

    fetch(FROM_KEYS, 0u);
    barrier();
    put(0u);
    fetch(FROM_VALUES, 0u);
    for (uint first_key = 0u; first_key < place.keys; first_key += KEYS) {
        barrier(); // the keys are there, the values before are done with
        put(KEYS * stride);
        fetch(FROM_KEYS, first_key + KEYS);
        FLOATS(TN) s[RM * score_count];
        [[unroll]] for (uint b = 0u; b < score_count; b++) {
            FLOATS(TN) mask = FLOATS(TN)(0.0);
            if (first_key + KEYS > place.keys) coopMatLoad(mask, masks, b * TN, 0u, gl_CooperativeMatrixLayoutRowMajor);
            [[unroll]] for (uint i = 0u; i < RM; i++) s[i * score_count + b] = mask;
            [[unroll]] for (uint c = 0u; c < steps; c++) {
                MATRIX(float16_t, TK, TN, B) k_part;
                coopMatLoad(k_part, tile, b * TN * stride + c * (TK / 8u), stride,
                            gl_CooperativeMatrixLayoutColumnMajor);
                [[unroll]] for (uint i = 0u; i < RM; i++) s[i * score_count + b] =
                    coopMatMulAdd(q_part[i * steps + c], k_part, s[i * score_count + b]);
            }
        }

        float tops[RM * elements];
        float excess = 0.0; // how much larger than its maximum a score of any row is
        [[unroll]] for (uint r = 0u; r < RM * elements; r++) {
            if (!IS_ROW(r)) continue;
            float top = no_score;
            [[unroll]] for (uint b = 0u; b < score_count; b++)
                [[unroll]] for (uint e = 0u; e < elements; e++) if (ROW_OF(e) == r % elements) top =
                    max(top, s[r / elements * score_count + b][e]);
            tops[r] = top * factor;
            excess = max(excess, tops[r] - largest[r]);
        }
        if (subgroupAny(excess > slack)) { // what other threads of a row have matters only then
            [[unroll]] for (uint r = 0u; r < RM * elements; r++) {
                if (!IS_ROW(r)) continue;
                float top = tops[r], before = largest[r];
                [[unroll]] for (uint bit = 1u; bit < LANES; bit *= 2u) if ((THREAD_COLUMNS & bit) != 0u) top =
                    max(top, subgroupShuffleXor(top, bit));
                if (top > before + slack) largest[r] = top;
                float keep = exp2(before - largest[r]);
                total[r] *= keep;
                [[unroll]] for (uint c = 0u; c < out_count; c++)
                    [[unroll]] for (uint e = 0u; e < elements; e++) if (ROW_OF(e) == r % elements)
                        o[r / elements * out_count + c][e] *= keep;
            }
        }
        MATRIX(float16_t, TM, TK, A) weights[RM * score_count];
        [[unroll]] for (uint i = 0u; i < RM; i++) [[unroll]] for (uint b = 0u; b < score_count; b++)
            [[unroll]] for (uint e = 0u; e < elements; e += 2u) { // two at a time, since halves are made in pairs
            vec2 weight;
            [[unroll]] for (uint n = 0u; n < 2u; n++) {
                uint r = i * elements + ROW_OF(e + n);
                weight[n] = exp2(s[i * score_count + b][e + n] * factor - largest[r]);
                total[r] += weight[n];
            }
            [[unroll]] for (uint n = 0u; n < 2u; n++) weights[i * score_count + b][e + n] = to_half(weight)[n];
        }

        barrier(); // the values are there, the keys are done with
        put(0u);
        fetch(FROM_VALUES, first_key + KEYS);
        [[unroll]] for (uint c = 0u; c < out_count; c++) [[unroll]] for (uint b = 0u; b < score_count; b++) {
            MATRIX(float16_t, TK, TN, B) v_part;
            coopMatLoad(v_part, tile, (KEYS + b * TK) * stride + c * (TN / 8u), stride,
                        gl_CooperativeMatrixLayoutRowMajor);
            [[unroll]] for (uint i = 0u; i < RM; i++) o[i * out_count + c] =
                coopMatMulAdd(weights[i * score_count + b], v_part, o[i * out_count + c]);
        }
    }

    [[unroll]] for (uint i = 0u; i < RM; i++) {
        FLOATS(TN) number; // of an element's row
        coopMatLoad(number, numbers, own + i * TM, 0u, gl_CooperativeMatrixLayoutColumnMajor);
        [[unroll]] for (uint e = 0u; e < elements; e++) {
            uint r = i * elements + e;
            if (!IS_ROW(r)) continue;
            float sum = total[r];
            [[unroll]] for (uint bit = 1u; bit < LANES; bit *= 2u) if ((THREAD_COLUMNS & bit) != 0u) sum +=
                subgroupShuffleXor(sum, bit);
            uint query = place.first + uint(number[e]);
            if ((gl_SubgroupInvocationID & THREAD_COLUMNS) == 0u && query < place.queries)
                store_lse(place, query, largest[r] / log2_e, sum);
            float norm = sum > 0.0 ? 1.0 / sum : 0.0;
            [[unroll]] for (uint c = 0u; c < out_count; c++)
                [[unroll]] for (uint n = 0u; n < elements; n++) if (ROW_OF(n) == e) o[i * out_count + c][n] *= norm;
        }
    }
    for (uint first = 0u; first < rows; first += KEYS) { // out through the tile
        barrier();
        [[unroll]] for (uint i = 0u; i < RM; i++) {
            uint r = own + i * TM - first;
            if (r < KEYS) [[unroll]]
                for (uint c = 0u; c < out_count; c++)
                    coopMatStore(o[i * out_count + c], tile, r * 2u * stride + c * (TN / 4u), 2u * stride,
                                 gl_CooperativeMatrixLayoutRowMajor);
        }
        barrier();
        write_out(first);
    }
}
