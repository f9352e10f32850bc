#version 450
// attention_coop.comp for halves, on devices where a thread holds a column of a matrix of sums (coop_layout.comp finds
// out). Scores and outputs are computed turned, S^T = K Q^T and O^T = V^T P^T, so that a thread has a query: maxima,
// sums and weights need no other thread of the subgroup. SHARE subgroups have the same queries: each scores its part of
// a tile's keys, and has its part of the output's channels. Weights pass through shared memory. A round has two
// barriers: up to the first one scores are made of the keys that lie there, behind it values, the next keys and weights
// are put. A subgroup has one matrix of queries (RM is 1), and TM is 8, so that what a thread has of a matrix of sums
// is 16 bytes of halves.
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
// The unit that has a pair of a row, where `count` operands stand side by side, and the word of this unit.
uint unit_of(const uint row, const uint pair, const uint count) {
    return (row / TM * count + pair / row_pairs) * part_units +
           (row % apart * row_pairs + pair % row_pairs) * lane_units + row / apart / 4u % lane_units;
}
uint word_of(const uint row) { return row / apart % 4u; }
const bool EVEN_ROWS = WHOLE_ROWS && THREADS / units % TM == 0u; // a thread's rows are the same row of several operands

uvec4 next_keys[fetches]; // beside the values, which are `fetched`
void fetch_keys(const uint first) {
    uint offset = (k_offset + place.kv_head * head_dim) / 8u;
    [[unroll]] for (uint i = 0u; i < fetches; i++) {
        uint key = place.key_row + row_of(min(first + row_at(i), place.keys - 1u));
        next_keys[i] = k16[offset + key * (k_pitch / 8u) + min(unit_at(i), head_dim / 8u - 1u)];
    }
}
void put_keys() {
    [[unroll]] for (uint i = 0u; i < fetches; i++) {
        if (!FULL && row_at(i) >= KEYS) break;
        if (PAIRED) {
            uint row = row_at(EVEN_ROWS ? 0u : i), at = unit_of(row, unit_at(i) * 4u, steps);
            if (EVEN_ROWS) at += i * (THREADS / units / TM * steps * part_units);
            [[unroll]] for (uint w = 0u; w < 4u; w++) tile[at + w * lane_units][word_of(row)] = next_keys[i][w];
        } else {
            tile[row_at(i) * stride + unit_at(i)] = next_keys[i];
        }
    }
}
void put_turned() { // values, a row of a tile being a channel
    [[unroll]] for (uint i = 0u; i < fetches; i++) {
        uint pair = pair_of(i), channel = quad_of(PAIRED && STEADY ? 0u : i) * 4u;
        if (!FULL && quad_of(i) >= QUADS) break;
        uint at = key_units + (PAIRED ? unit_of(channel, pair, weight_count) : channel * turned_stride + pair / 4u);
        if (PAIRED && STEADY) at += i * (quad_step * 4u / TM * weight_count * part_units);
        [[unroll]] for (uint c = 0u; c < 4u; c++)
            tile[at + (PAIRED ? c % apart * row_pairs * lane_units : c * turned_stride)]
                [PAIRED ? word_of(channel) + c / apart : pair % 4u] = turned_word(i, c);
    }
}
#ifdef EMULATED // for tests/graph/attention.c: the driver at hand holds operands otherwise
shared uint emulated[THREADS / LANES * part_units * 4u];
#endif
// Operand `column` of the `count` side by side that hold TM rows of a tile, keys or channels of values.
MATRIX(float16_t, TM, TK, A)
operand(const uint tile_at, const uint row_units, const uint count, const uint row, const uint column) {
    MATRIX(float16_t, TM, TK, A) part;
    uint lane = gl_SubgroupInvocationID, at = tile_at + (row * count + column) * part_units + lane * lane_units;
    if (!PAIRED) {
        coopMatLoad(part, tile, tile_at + row * TM * row_units + column * (TK / 8u), row_units,
                    gl_CooperativeMatrixLayoutRowMajor);
        return part;
    }
#ifdef EMULATED
    uint from = gl_SubgroupID * part_units * 4u + lane;
    [[unroll]] for (uint i = 0u; i < lane_units * 4u; i++) emulated[from + i * apart * row_pairs] =
        tile[at + i / 4u][i % 4u];
    subgroupBarrier();
    coopMatLoad(part, emulated, gl_SubgroupID * part_units * 4u, row_pairs, gl_CooperativeMatrixLayoutRowMajor);
    subgroupBarrier();
#else
    [[unroll]] for (uint h = 0u; h < lane_units; h++) {
        uvec4 words = tile[at + h];
        [[unroll]] for (uint w = 0u; w < 4u; w++) {
            part[8u * h + 2u * w] = unpackFloat2x16(words[w]).x;
            part[8u * h + 2u * w + 1u] = unpackFloat2x16(words[w]).y;
        }
    }
#endif
    return part;
}

// Weights rounded to the 11 bits of F16, ties away from zero. They are no larger than 2^slack, and what is below 2^-14
// may be rounded in any way.
uint pack(const vec2 v) {
    return packFloat2x16(f16vec2(uintBitsToFloat((floatBitsToUint(v) + 0x1000u) & 0xffffe000u)));
}

void main() {
    uint lane = gl_SubgroupInvocationID, share = gl_SubgroupID % SHARE;
    uint own = gl_SubgroupID / SHARE * TN, row = own + lane; // of the workgroup's queries: a subgroup's, a thread's
    place = place_of(gl_WorkGroupID.x + first_group, rows);
    if (place.queries == 0u) return;
    float factor = score_scale * log2_e;
    [[unroll]] for (uint i = 0u; i < units / SHARE; i++) { // all of them: THREADS is rows * SHARE
        uint query = place.query_row + row_of(min(place.first + row_at(i), place.queries - 1u)), unit = unit_at(i);
        uint from = (q_offset + query * q_pitch + place.head * head_dim) / 8u;
        uvec4 channels = q16[from + min(unit, head_dim / 8u - 1u)];
        queries[row_at(i) * stride + unit] = unit < head_dim / 8u ? channels : uvec4(0u);
    }
    FLOATS(TN) o[out_count];
    [[unroll]] for (uint c = 0u; c < out_count; c++) o[c] = FLOATS(TN)(0.0);
    float largest = no_score, total = 0.0; // total: of the subgroup's keys

    if (place.keys > 0u) {
        fetch_keys(0u);
        put_keys();
    }
    barrier();
    for (uint first_key = 0u; first_key < place.keys; first_key += KEYS) {
        fetch_keys(first_key + KEYS);
        fetch_values(first_key);
        FLOATS(TN) s[score_count];
        [[unroll]] for (uint b = 0u; b < score_count; b++) s[b] = FLOATS(TN)(0.0);
        [[unroll]] for (uint c = 0u; c < steps; c++) {
            MATRIX(float16_t, TK, TN, B) q_part;
            coopMatLoad(q_part, queries, own * stride + c * (TK / 8u), stride, gl_CooperativeMatrixLayoutColumnMajor);
            [[unroll]] for (uint b = 0u; b < score_count; b++) s[b] =
                coopMatMulAdd(operand(0u, stride, steps, share * score_count + b, c), q_part, s[b]);
        }
        if (first_key + KEYS > place.keys) { // all elements at once, so that drivers keep this a branch
            int left = int(place.keys - first_key - share * own_keys);
            [[unroll]] for (uint n = 0u; n < own_keys; n++) if (int(n) >= left) s[n / TM][n % TM] = no_score;
        }
        float top = no_score;
        [[unroll]] for (uint n = 0u; n < own_keys; n++) top = max(top, s[n / TM][n % TM]);
        tops[share * rows + row] = top * factor;
        barrier(); // the tops are there, the keys and the weights and values before are done with
        put_turned();
        put_keys();
        top = tops[row];
        [[unroll]] for (uint h = 1u; h < SHARE; h++) top = max(top, tops[h * rows + row]);
        bool raised = top > largest + slack;
        float before = largest;
        if (raised) largest = top;
        if (subgroupAny(raised)) {
            float keep = exp2(before - largest);
            total *= keep;
            [[unroll]] for (uint n = 0u; n < out_count * TM; n++) o[n / TM][n % TM] *= keep;
        }
        [[unroll]] for (uint b = 0u; b < score_count; b++) {
            uvec4 words;
            [[unroll]] for (uint w = 0u; w < 4u; w++) {
                float low = exp2(s[b][2u * w] * factor - largest), high = exp2(s[b][2u * w + 1u] * factor - largest);
                total += low;
                total += high;
                words[w] = pack(vec2(low, high));
            }
            weights[row * weight_stride + share * own_keys / 8u + b] = words;
        }
        barrier(); // the weights, the values and the next keys are there, the tops are done with
        MATRIX(float16_t, TK, TN, B) weight[weight_count];
        [[unroll]] for (uint b = 0u; b < weight_count; b++)
            coopMatLoad(weight[b], weights, own * weight_stride + b * (TK / 8u), weight_stride,
                        gl_CooperativeMatrixLayoutColumnMajor);
        [[unroll]] for (uint c = 0u; c < out_count; c++) {
            FLOATS(TN) sum = FLOATS(TN)(0.0); // apart from the output, whose registers drivers would copy
            [[unroll]] for (uint b = 0u; b < weight_count; b++) sum = coopMatMulAdd(
                operand(key_units, turned_stride, weight_count, share * out_count + c, b), weight[b], sum);
            o[c] = o[c] + sum;
        }
    }

    tops[share * rows + row] = total;
    barrier();
    uint query = place.first + row;
    total = tops[row];
    [[unroll]] for (uint h = 1u; h < SHARE; h++) total += tops[h * rows + row];
    if (query >= place.queries) return;
    if (share == 0u) store_lse(place, query, largest / log2_e, total);
    float norm = total > 0.0 ? 1.0 / total : 0.0;
    uint at = (out_offset + (place.query_row + row_of(query)) * out_pitch + place.head * head_dim) / 8u;
    [[unroll]] for (uint c = 0u; c < out_count; c++) {
        uint unit = share * out_count + c;
        if (unit >= head_dim / 8u) continue;
        vec4 low, high;
        [[unroll]] for (uint n = 0u; n < 4u; n++) {
            low[n] = o[c][n] * norm;
            high[n] = o[c][4u + n] * norm;
        }
        if (OUT_FORMAT == FORMAT_F16) {
            out16[at + unit] = uvec4(pack4(low), pack4(high));
        } else {
            out16[2u * (at + unit)] = floatBitsToUint(low);
            out16[2u * (at + unit) + 1u] = floatBitsToUint(high);
        }
    }
}
