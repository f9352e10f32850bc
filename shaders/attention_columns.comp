#version 450
// attention_coop.comp for halves, on devices where a thread holds a column of a matrix of sums (coop_layout.comp finds
// out). Scores and outputs are computed turned, S^T = K Q^T and O^T = V^T P^T, so that a thread has a query: maxima,
// sums and weights need no other thread of the subgroup. SHARE subgroups have the same queries: each scores its part of
// a tile's keys, and has its part of the output's channels. Weights pass through shared memory. A round has two
// barriers: up to the first one scores are made of the keys that lie there, behind it values, the next keys and weights
// are put.
#extension GL_GOOGLE_include_directive : require
layout(constant_id = 15) const bool PAIRED = false; // tiles lie as threads hold first operands, see unit_of
#define TURNED true
#define SIDE TN
#define IN_ORDER
#include "attention_matrix.glsl"

const uint steps = depth / TK, out_count = depth / TM / SHARE, own_keys = KEYS / SHARE, score_count = own_keys / TM;
const uint weight_count = KEYS / TK, weight_stride = KEYS / 8u + 1u;
shared uvec4 queries[rows * stride];
shared uvec4 weights[rows * weight_stride]; // halves: a row has the weights of a query
shared float tops[SHARE * rows];            // the largest score of a query among a subgroup's keys

// A thread may hold pairs of neighbours in a first operand: pair i stands in row i * apart + lane / row_pairs, since
// row_pairs threads have a row. Then tiles of keys and of values are cut into such operands, one after the other, with
// what a thread holds in one piece, so that it loads 16 bytes at a time.
const uint row_pairs = TK / 2u, apart = LANES / row_pairs;
const uint part_units = TM * row_pairs / 4u, lane_units = part_units / LANES; // of 16 bytes: of an operand, of a thread
// The unit that has a pair, in its operand, and the word of this unit.
uint unit_of(const uint row, const uint pair) {
    return (row % apart * row_pairs + pair) * lane_units + row / apart / 4u;
}
uint word_of(const uint row) { return row / apart % 4u; }
const bool EVEN_ROWS = WHOLE_ROWS && THREADS / units % TM == 0u; // a thread's rows are the same row of several operands
void put_key_parts() {
    [[unroll]] for (uint i = 0u; i < fetches; i++) {
        uint row = row_at(EVEN_ROWS ? 0u : i), channel = unit_at(i) * 8u;
        if (!FULL && row_at(i) >= KEYS) break;
        uint at = (row / TM * steps + channel / TK) * part_units + unit_of(row % TM, channel % TK / 2u);
        if (EVEN_ROWS) at += i * (THREADS / units / TM * steps * part_units);
        [[unroll]] for (uint w = 0u; w < 4u; w++) tile[at + w * lane_units][word_of(row % TM)] = fetched[i][w];
    }
}
void put_value_parts() {
    [[unroll]] for (uint i = 0u; i < fetches; i++) {
        uint pair = pair_of(i), channel = quad_of(STEADY ? 0u : i) * 4u;
        if (!FULL && quad_of(i) >= QUADS) break;
        uint at = key_units + (channel / TM * weight_count + pair / row_pairs) * part_units +
                  unit_of(channel % TM, pair % row_pairs);
        if (STEADY) at += i * (quad_step * 4u / TM * weight_count * part_units);
        [[unroll]] for (uint c = 0u; c < 4u; c++)
            tile[at + c % apart * row_pairs * lane_units][word_of(channel % TM) + c / apart] = turned_word(i, c);
    }
}
#ifdef EMULATED // for tests/graph/attention.c: the driver at hand holds operands otherwise
shared uint emulated[THREADS / LANES * part_units * 4u];
#define LOAD_PART(OPERAND, AT, PART)                                                                                   \
    {                                                                                                                  \
        uint from = gl_SubgroupID * part_units * 4u + lane / row_pairs * row_pairs + lane % row_pairs;                 \
        [[unroll]] for (uint i = 0u; i < lane_units * 4u; i++) emulated[from + i * apart * row_pairs] =                \
            tile[AT + (PART)*part_units + lane * lane_units + i / 4u][i % 4u];                                         \
        subgroupBarrier();                                                                                             \
        coopMatLoad(OPERAND, emulated, gl_SubgroupID *part_units * 4u, row_pairs, gl_CooperativeMatrixLayoutRowMajor); \
        subgroupBarrier();                                                                                             \
    }
#else
#define LOAD_PART(OPERAND, AT, PART)                                                                                   \
    [[unroll]] for (uint h = 0u; h < lane_units; h++) {                                                                \
        uvec4 words = tile[AT + (PART)*part_units + lane * lane_units + h];                                            \
        [[unroll]] for (uint w = 0u; w < 4u; w++) {                                                                    \
            f16vec2 pair = unpackFloat2x16(words[w]);                                                                  \
            OPERAND[8u * h + 2u * w] = pair.x;                                                                         \
            OPERAND[8u * h + 2u * w + 1u] = pair.y;                                                                    \
        }                                                                                                              \
    }
#endif

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
        if (PAIRED)
            put_key_parts();
        else
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
                if (PAIRED)
                    LOAD_PART(k_part, 0u, (share * score_count + b) * steps + c)
                else
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
        if (PAIRED)
            put_value_parts();
        else
            put_values();
        [[unroll]] for (uint i = 0u; i < fetches; i++) fetched[i] = keys[i];
        if (PAIRED)
            put_key_parts();
        else
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
                if (PAIRED)
                    LOAD_PART(v_part, key_units, (share * out_count + c) * weight_count + b)
                else
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
