#version 450
// attention_gpu.comp for devices that compute with F16, most of them in pairs, for F16 operands whose heads and rows
// are whole vectors: products are summed in F16, those of a score over SLICE groups of four channels, those of an
// output over a tile of keys. Sums of these, maxima and exponentials are F32. Where a score is so large that its F16
// sums are too coarse, or an output overflows, the workgroup begins again with F32 sums.
//   A thread has ROWS queries, and the scores of every ACROSS-th key, or outputs of every ACROSS-th group of channels.
//   Shared memory holds side by side what a thread loads at once: a channel of its queries, channels of a key, weights
//   of its queries for a key.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#define VECTOR true
#define HALVES true
#include "attention.glsl"
layout(constant_id = 6) const uint KEYS = 16;           // or 32
layout(constant_id = 7) const uint ROWS = 4;            // queries of a thread: or 8
layout(constant_id = 8) const bool LOADS_APART = false; // see APART
#define FOURS (ROWS / 4u)
#define QUERIES (8u * ROWS)
#define SLICE 4u
#define UNROLLED (LOADS_APART ? 4u : 2u) // keys of a tile whose weights are multiplied at a time
#define LARGE_SCORE 0x41800000u          // 16, as bits: sums of F16 are off by 2^-12 of their size or so
#define WEIGHT_UNIT 32.0                 // of F16 weights: none that counts is subnormal

// Weights of a query are added in as many parts whatever ROWS is, so that results do not depend on it.
const uint ACROSS = THREADS / 8u, PARTS_OF_KEYS = THREADS / 32u; // at most KEYS parts
const uint key_loops = (KEYS + ACROSS - 1u) / ACROSS, quad_loops = (QUADS + ACROSS - 1u) / ACROSS,
           row_quads = QUADS + 1u, part_keys = KEYS / PARTS_OF_KEYS;
const uint outputs = 4u * FOURS * quad_loops, query_row = (4u * QUADS + 1u) * FOURS, weight_row = QUERIES / 4u + 1u;
shared f16vec4 query_tile[8u * query_row]; // a channel of the queries of a thread
shared f16vec4 tile[KEYS * row_quads];     // four channels of a key, or of its value
shared uvec4 weights[KEYS * weight_row];   // of four queries, as bits: scores, then weights, F16 ones in the lower half
shared float tops[QUERIES * PARTS_OF_KEYS]; // query by query
shared float keeps[QUERIES];
shared uint again;

f16vec4 halves(const uvec2 x) { return f16vec4(unpackFloat2x16(x.x), unpackFloat2x16(x.y)); }

void main() {
    uint t = gl_LocalInvocationID.x, across = t % ACROSS, down = t / ACROSS;
    Place place = place_of(gl_WorkGroupID.x + first_group, QUERIES);
    if (place.queries == 0u) return;
    uint keys = place.keys, channel = place.head * head_dim, kv_channel = place.kv_head * head_dim;
    // Softmax: a thread has FOURS parts of the keys of one query, the first of whose weights is there.
    const uint team = THREADS / QUERIES;
    uint own_query = t / team, own_part = t % team * FOURS, own = own_part * part_keys * weight_row + own_query / 4u;
    float largest, total[FOURS]; // total: of each part's weights
    vec4 o[outputs];             // groups of channels, then queries
    uint quad_at[quad_loops];
    [[unroll]] for (uint j = 0u; j < quad_loops; j++) quad_at[j] = min(across + j * ACROSS, QUADS - 1u);
    bool exact = false;
    for (uint n = t; n < QUERIES * QUADS; n += THREADS) {
        uint query = n / QUADS, at = query / ROWS * query_row + n % QUADS * 4u * FOURS + query % ROWS / 4u;
        f16vec4 v =
            halves(q_h4[(q_offset + (place.query_row + row_of(min(place.first + query, place.queries - 1u))) * q_pitch +
                         channel) /
                            4u +
                        n % QUADS]);
        [[unroll]] for (uint e = 0u; e < 4u; e++) query_tile[at + e * FOURS][query % 4u] = v[e];
    }
    if (t == 0u) again = 0u;

    for (uint first_key = 0u;; first_key += KEYS) {
        if (!exact && first_key > 0u && first_key >= keys) {
            vec4 most = vec4(0.0);
            [[unroll]] for (uint n = 0u; n < outputs; n++) most += abs(o[n]);
            if ((floatBitsToUint(dot(most, vec4(1.0))) & 0x7fffffffu) > 0x7f61b1e6u)
                atomicOr(again, 1u); // beyond 3e38, or not a number
        }
        barrier();
        if (!exact && again != 0u) {
            exact = true;
            first_key = 0u;
        }
        if (first_key == 0u) {
            largest = VERY_LOW;
            [[unroll]] for (uint f = 0u; f < FOURS; f++) total[f] = 0.0;
        }
        if (first_key >= keys) break;
        uint count = min(KEYS, keys - first_key);
        for (uint n = t; n < count * QUADS; n += THREADS)
            tile[n / QUADS * row_quads + n % QUADS] =
                halves(k_h4[(k_offset + (place.key_row + row_of(first_key + n / QUADS)) * k_pitch + kv_channel) / 4u +
                            n % QUADS]);
        barrier();
        vec4 score[key_loops * FOURS];
        uint key_at[key_loops];
        [[unroll]] for (uint n = 0u; n < key_loops * FOURS; n++) {
            score[n] = vec4(0.0);
            key_at[n / FOURS] = min(across + ACROSS * (n / FOURS), count - 1u) * row_quads;
        }
        if (exact) { // which is rare: short code, not fast code
            [[dont_unroll]] for (uint d = 0u; d < 4u * QUADS; d++)
                [[unroll]] for (uint n = 0u; n < key_loops * FOURS; n++) score[n] =
                    fma(vec4(query_tile[down * query_row + d * FOURS + n % FOURS]),
                        vec4(float(tile[key_at[n / FOURS] + d / 4u][d % 4u])), score[n]);
        } else {
            [[dont_unroll]] for (uint slice = 0u; slice < QUADS; slice += SLICE) {
                f16vec4 run[key_loops * FOURS];
                uint x_at = down * query_row + 4u * FOURS * slice;
                [[unroll]] for (uint part = 0u; part < SLICE; part++) {
                    if (QUADS % SLICE != 0u && slice + part >= QUADS) continue;
                    f16vec4 y[key_loops];
                    [[unroll]] for (uint j = 0u; j < key_loops; j++) y[j] =
                        tile[key_at[j] + slice + APART(part) + part];
                    [[unroll]] for (uint e = 0u; e < 4u; e++) [[unroll]] for (uint f = 0u; f < FOURS; f++) {
                        uint n = (4u * part + e) * FOURS + f;
                        f16vec4 x = query_tile[x_at + APART(n) + n];
                        [[unroll]] for (uint j = 0u; j < key_loops; j++) run[j * FOURS + f] =
                            part + e == 0u ? x * y[j][e] : fma(x, f16vec4(y[j][e]), run[j * FOURS + f]);
                    }
                }
                [[unroll]] for (uint n = 0u; n < key_loops * FOURS; n++) score[n] += vec4(run[n]);
            }
        }
        uint most = 0u; // bits of the largest score without a sign
        [[unroll]] for (uint j = 0u; j < key_loops; j++) {
            uint key = across + ACROSS * j;
            if (key >= KEYS) continue;
            [[unroll]] for (uint f = 0u; f < FOURS; f++) {
                uvec4 bits;
                [[unroll]] for (uint i = 0u; i < 4u; i++) {
                    uint query = down * ROWS + f * 4u + i;
                    float s = biased(score[j * FOURS + f][i], place.head, min(place.first + query, place.queries - 1u),
                                     first_key + min(key, count - 1u));
                    most = max(most, floatBitsToUint(s) & 0x7fffffffu); // NaN counts as more than infinity
                    bits[i] = floatBitsToUint(key < count ? s : VERY_LOW);
                }
                weights[key * weight_row + down * FOURS + f] = bits;
            }
        }
        if (!exact && most >= LARGE_SCORE) atomicOr(again, 1u);
        barrier();
        uint padded = (count + UNROLLED - 1u) / UNROLLED * UNROLLED;
        for (uint n = t; n < padded * QUADS; n += THREADS) {
            uint key = n / QUADS;
            f16vec4 v = halves(
                v_h4[(v_offset + (place.key_row + row_of(first_key + min(key, count - 1u))) * v_pitch + kv_channel) /
                         4u +
                     n % QUADS]);
            tile[key * row_quads + n % QUADS] = key < count ? v : f16vec4(0.0);
        }
        float top = largest;
        for (uint j = 0u; j < FOURS * part_keys; j++)
            top = max(top, uintBitsToFloat(weights[own + j * weight_row][own_query % 4u]));
        tops[t] = top;
        barrier();
        [[unroll]] for (uint i = 0u; i < team; i++) top = max(top, tops[own_query * team + i]);
        float keep = exp(largest - top);
        if (own_part == 0u) keeps[own_query] = keep;
        largest = top;
        [[unroll]] for (uint f = 0u; f < FOURS; f++) {
            total[f] *= keep;
            for (uint j = 0u; j < part_keys; j++) {
                uint at = own + (f * part_keys + j) * weight_row;
                float p = exp(uintBitsToFloat(weights[at][own_query % 4u]) - top);
                total[f] += p;
                weights[at][own_query % 4u] = exact ? floatBitsToUint(p) : pack2(vec2(p * WEIGHT_UNIT));
            }
        }
        barrier();
        f16vec4 sums[outputs];
        [[unroll]] for (uint n = 0u; n < outputs; n++) {
            o[n] = first_key == 0u ? vec4(0.0) : o[n] * keeps[down * ROWS + n % ROWS];
            sums[n] = f16vec4(0.0);
        }
        if (exact) {
            for (uint key = 0u; key < count; key++)
                [[unroll]] for (uint n = 0u; n < outputs; n++) o[n] +=
                    uintBitsToFloat(weights[key * weight_row + down * FOURS + n % ROWS / 4u][n % 4u]) *
                    vec4(tile[key * row_quads + quad_at[n / ROWS]]);
        } else {
            [[dont_unroll]] for (uint first = 0u; first < padded; first += UNROLLED) {
                uint weight_at = first * weight_row + down * FOURS, value_at = first * row_quads;
                [[unroll]] for (uint part = 0u; part < UNROLLED; part++) {
                    f16vec4 y[quad_loops];
                    [[unroll]] for (uint j = 0u; j < quad_loops; j++) y[j] =
                        tile[value_at + quad_at[j] + part * row_quads];
                    [[unroll]] for (uint f = 0u; f < FOURS; f++) {
                        uvec4 p = weights[weight_at + part * weight_row + f];
                        [[unroll]] for (uint i = 0u; i < 4u; i++) {
                            f16vec4 weight = f16vec4(unpackFloat2x16(p[i]).x);
                            [[unroll]] for (uint j = 0u; j < quad_loops; j++) sums[j * ROWS + f * 4u + i] =
                                fma(weight, y[j], sums[j * ROWS + f * 4u + i]);
                        }
                    }
                }
            }
            [[unroll]] for (uint n = 0u; n < outputs; n++) o[n] += vec4(sums[n]) / WEIGHT_UNIT;
        }
    }

    [[unroll]] for (uint f = 0u; f < FOURS; f++) tops[own_query * PARTS_OF_KEYS + own_part + f] = total[f];
    if (own_part == 0u) keeps[own_query] = largest;
    barrier();
    [[unroll]] for (uint n = 0u; n < outputs; n++) {
        uint thread_query = down * ROWS + n % ROWS, query = place.first + thread_query,
             quad = across + n / ROWS * ACROSS;
        float sum = 0.0;
        [[unroll]] for (uint part = 0u; part < PARTS_OF_KEYS; part++) sum += tops[PARTS_OF_KEYS * thread_query + part];
        if (query >= place.queries || quad >= QUADS) continue;
        store_out(out_offset + (place.query_row + row_of(query)) * out_pitch + channel, quad,
                  sum > 0.0 ? o[n] / sum : vec4(0.0));
        if (quad == 0u) store_lse(place, query, keeps[thread_query], sum);
    }
}
