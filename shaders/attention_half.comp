#version 450
// attention_gpu.comp for devices that multiply pairs of F16, for F16 operands whose heads and rows are whole vectors:
// products are summed in F16, those of a score over SLICE groups of four channels, those of an output over a tile of
// keys. Sums of these, maxima and exponentials are F32. Where a score is so large that its F16 sums are too coarse, or
// an output overflows, the workgroup begins again with F32 sums.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#define VECTOR true
#define HALVES
#include "attention.glsl"
layout(constant_id = 6) const uint KEYS = 16; // or 32
#define QUERIES 32u
#define SLICE 4u
#define LARGE_SCORE 0x41800000u // 16, as bits: sums of F16 are off by 2^-12 of their size or so
#define WEIGHT_UNIT 32.0        // of F16 weights: none that counts is subnormal

const uint ACROSS = THREADS / 8u, TEAM = THREADS / 32u; // at most KEYS parts
const uint key_loops = (KEYS + ACROSS - 1u) / ACROSS, quad_loops = (QUADS + ACROSS - 1u) / ACROSS,
           row_quads = QUADS + 1u, part_keys = KEYS / TEAM;
const uint outputs = 4u * quad_loops, query_row = 4u * QUADS + 1u;
shared f16vec4 query_tile[QUERIES / 4u * query_row]; // a channel of four queries
shared f16vec4 tile[KEYS * row_quads];               // four channels of a key, or of its value
shared uint weights[QUERIES * (KEYS + 1u)];          // as bits: scores, then weights, F16 ones twice
shared float tops[THREADS];
shared float keeps[QUERIES];
shared uint again;

f16vec4 halves(const uvec2 x) { return f16vec4(unpackFloat2x16(x.x), unpackFloat2x16(x.y)); }

void main() {
    uint t = gl_LocalInvocationID.x, across = t % ACROSS, down = t / ACROSS;
    Place place = place_of(gl_WorkGroupID.x + first_group, QUERIES);
    if (place.queries == 0u) return;
    uint keys = place.keys, channel = place.head * head_dim, kv_channel = place.kv_head * head_dim;
    uint own = t / TEAM * (KEYS + 1u) + t % TEAM * part_keys; // softmax: the weights of this thread
    float largest, total;                                     // total: of the thread's own weights
    vec4 o[outputs];
    bool exact = false;
    for (uint n = t; n < QUERIES * QUADS; n += THREADS) {
        uint query = n / QUADS, at = query / 4u * query_row + n % QUADS * 4u;
        f16vec4 v =
            halves(q_h4[(q_offset + (place.query_row + row_of(min(place.first + query, place.queries - 1u))) * q_pitch +
                         channel) /
                            4u +
                        n % QUADS]);
        [[unroll]] for (uint e = 0u; e < 4u; e++) query_tile[at + e][query % 4u] = v[e];
    }
    if (t == 0u) again = 0u;

    for (uint first_key = 0u;; first_key += KEYS) {
        if (!exact && first_key > 0u && first_key >= keys) {
            vec4 most = vec4(0.0);
            [[unroll]] for (uint n = 0u; n < outputs; n++) most += abs(o[n]);
            if ((floatBitsToUint(dot(most, vec4(1.0))) & 0x7fffffffu) > 0x7f61b1e6u)
                again = 1u; // beyond 3e38, or not a number
        }
        barrier();
        if (!exact && again != 0u) {
            exact = true;
            first_key = 0u;
        }
        if (first_key == 0u) {
            largest = VERY_LOW;
            total = 0.0;
        }
        if (first_key >= keys) break;
        uint count = min(KEYS, keys - first_key);
        for (uint n = t; n < count * QUADS; n += THREADS)
            tile[n / QUADS * row_quads + n % QUADS] =
                halves(k_h4[(k_offset + (place.key_row + row_of(first_key + n / QUADS)) * k_pitch + kv_channel) / 4u +
                            n % QUADS]);
        barrier();
        vec4 score[key_loops];
        f16vec4 run[key_loops];
        [[unroll]] for (uint j = 0u; j < key_loops; j++) {
            score[j] = vec4(0.0);
            run[j] = f16vec4(0.0);
        }
        for (uint d = 0u; d < QUADS; d++) {
            f16vec4 y[key_loops];
            [[unroll]] for (uint j = 0u; j < key_loops; j++) y[j] =
                tile[min(across + ACROSS * j, count - 1u) * row_quads + d];
            if (exact) {
                [[unroll]] for (uint e = 0u; e < 4u; e++) {
                    f16vec4 x = query_tile[down * query_row + 4u * d + e];
                    [[unroll]] for (uint j = 0u; j < key_loops; j++) score[j] =
                        fma(vec4(x), vec4(float(y[j][e])), score[j]);
                }
            } else {
                [[unroll]] for (uint e = 0u; e < 4u; e++) {
                    f16vec4 x = query_tile[down * query_row + 4u * d + e];
                    [[unroll]] for (uint j = 0u; j < key_loops; j++) run[j] = fma(x, f16vec4(y[j][e]), run[j]);
                }
            }
            if (d % SLICE == SLICE - 1u || d == QUADS - 1u) {
                [[unroll]] for (uint j = 0u; j < key_loops; j++) {
                    score[j] += vec4(run[j]);
                    run[j] = f16vec4(0.0);
                }
            }
        }
        [[unroll]] for (uint j = 0u; j < key_loops; j++) {
            uint key = across + ACROSS * j;
            if (key >= KEYS) continue;
            [[unroll]] for (uint i = 0u; i < 4u; i++) {
                uint query = down * 4u + i;
                float s = biased(score[j][i], place.head, min(place.first + query, place.queries - 1u),
                                 first_key + min(key, count - 1u));
                if (!exact && (floatBitsToUint(s) & 0x7fffffffu) >= LARGE_SCORE) again = 1u; // or not a number
                weights[query * (KEYS + 1u) + key] = floatBitsToUint(key < count ? s : VERY_LOW);
            }
        }
        barrier();
        for (uint n = t; n < count * QUADS; n += THREADS)
            tile[n / QUADS * row_quads + n % QUADS] =
                halves(v_h4[(v_offset + (place.key_row + row_of(first_key + n / QUADS)) * v_pitch + kv_channel) / 4u +
                            n % QUADS]);
        float top = largest;
        for (uint j = own; j < own + part_keys; j++) top = max(top, uintBitsToFloat(weights[j]));
        tops[t] = top;
        barrier();
        [[unroll]] for (uint i = 0u; i < TEAM; i++) top = max(top, tops[t / TEAM * TEAM + i]);
        float keep = exp(largest - top);
        keeps[t / TEAM] = keep;
        total *= keep;
        largest = top;
        for (uint j = own; j < own + part_keys; j++) {
            float p = exp(uintBitsToFloat(weights[j]) - top);
            total += p;
            weights[j] = exact ? floatBitsToUint(p) : pack2(vec2(p * WEIGHT_UNIT));
        }
        barrier();
        f16vec4 sums[outputs];
        [[unroll]] for (uint n = 0u; n < outputs; n++) {
            o[n] = first_key == 0u ? vec4(0.0) : o[n] * keeps[down * 4u + n % 4u];
            sums[n] = f16vec4(0.0);
        }
        for (uint key = 0u; key < count; key++) {
            uint p[4];
            [[unroll]] for (uint i = 0u; i < 4u; i++) p[i] = weights[(down * 4u + i) * (KEYS + 1u) + key];
            f16vec4 y[quad_loops];
            [[unroll]] for (uint j = 0u; j < quad_loops; j++) y[j] =
                tile[key * row_quads + min(across + j * ACROSS, QUADS - 1u)];
            if (exact) {
                [[unroll]] for (uint n = 0u; n < outputs; n++) o[n] += uintBitsToFloat(p[n % 4u]) * vec4(y[n / 4u]);
            } else {
                [[unroll]] for (uint n = 0u; n < outputs; n++) sums[n] =
                    fma(halves(uvec2(p[n % 4u])), y[n / 4u], sums[n]);
            }
        }
        [[unroll]] for (uint n = 0u; n < outputs; n++) o[n] += vec4(sums[n]) / WEIGHT_UNIT;
    }

    tops[t] = total;
    keeps[t / TEAM] = largest;
    barrier();
    [[unroll]] for (uint n = 0u; n < outputs; n++) {
        uint own_query = down * 4u + n % 4u, query = place.first + own_query, quad = across + n / 4u * ACROSS;
        float sum = tops[TEAM * own_query];
        [[unroll]] for (uint i = 1u; i < TEAM; i++) sum += tops[TEAM * own_query + i];
        if (query >= place.queries || quad >= QUADS) continue;
        store_out(out_offset + (place.query_row + row_of(query)) * out_pitch + channel, quad,
                  sum > 0.0 ? o[n] / sum : vec4(0.0));
        if (quad == 0u) store_lse(place, query, keeps[own_query], sum);
    }
}
