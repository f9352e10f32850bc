#version 450
// Queries or keys: per-head RMS or LayerNorm, then rotary embedding (docs/models.md 2.5), in place, or as int8 for
// attention_coop.comp: a head is int8 and zeros up to 16 bytes before its end, where a scale and, of queries, the
// product with the mean key stand. The mean key is subtracted from keys (docs/kernels.md 3.4: weights do not change,
// and what all keys share would cost most of the eight bits); the module finds it, too. LANES lanes share one head of
// one row.
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

layout(constant_id = 1) const uint LANES = 1; // a power of two that divides the workgroup's size
layout(constant_id = 2) const uint FORMAT = FORMAT_F32;
layout(constant_id = 3) const uint PARTS = 0;
#define PART_RMS 1u
#define PART_LAYER 2u
#define PART_WEIGHT 4u
#define PART_BIAS 8u
#define PART_ROTATE 16u
#define PART_HALF_SPLIT 32u
#define PART_INT8 64u
#define PART_KEYS 128u
#define PART_MEAN 256u
#define PART_SHARED 512u        // row_share neighbouring rows have one row of the tables
#define PART_ROTATE_FIRST 1024u // weights come behind the rotation, which no RMS notices
#define PART_TWO_AXES 2048u     // either half of a head is rotated as if it were a head, half-split
#define HAS(PART) ((PARTS & (PART)) != 0u)

layout(push_constant) uniform Push {
    uint first_group;
    uint rows, heads, head_dim, tokens;
    float eps;
    uint x_offset, x_pitch, weight_offset, bias_offset;
    uint cos_offset, cos_pitch, sin_offset, sin_pitch;
    uint int8_offset, int8_pitch, int8_head, mean_offset; // the first three in bytes
    uint weight_heads,
        text_rows; // heads that share a weight; not 0: of the rows of an item, the others have weights of their own,
    uint others;   // which begin after so many
    uint guard_offset;
    uint row_share;
};
WRITABLE(0, x)
layout(binding = 1) readonly buffer Weight { float weight[]; };
layout(binding = 2) readonly buffer BiasBuffer { float bias[]; };
layout(binding = 3) readonly buffer Cosines { float cosines[]; };
layout(binding = 4) readonly buffer Sines { float sines[]; };
layout(binding = 5) writeonly buffer Int8 { uint int8_words[]; };
layout(binding = 6) buffer Mean { float mean_key[]; };
#define GUARD_BINDING 7
#include "guard.glsl"

// Two neighbouring channels: F16 pairs share a word.
vec2 load_pair(const uint at) {
    return GUARD_FACTOR(y) * (FORMAT == FORMAT_F32 ? vec2(x_load1(FORMAT, at), x_load1(FORMAT, at + 1u))
                                                   : unpackHalf2x16(x_h4[at >> 2][at >> 1 & 1u]));
}
void store_pair(const uint at, const uint count, const vec2 v) {
    x_store_some(FORMAT, at, count, vec4(v * GUARD_FACTOR(x), 0.0, 0.0));
}

shared vec2 lane_sums[THREADS];
vec2 join_lanes(const vec2 v, const bool largest) { // sums, or the largest x and the sum of y
    if (LANES == 1u) return v;
    uint i = gl_LocalInvocationID.x;
    barrier();
    lane_sums[i] = v;
    barrier();
    for (uint span = LANES / 2u; span > 0u; span /= 2u) {
        if (i % LANES < span) {
            vec2 a = lane_sums[i], b = lane_sums[i + span];
            lane_sums[i] = vec2(largest ? max(a.x, b.x) : a.x + b.x, a.y + b.y);
        }
        barrier();
    }
    return lane_sums[i / LANES * LANES];
}

float mean, rest, inverse; // rest: what rounding left of the mean
uint weight_at;
void choose_weight(const uint row, const uint head) {
    uint kind = head / weight_heads;
    if (text_rows != 0u && row % tokens >= text_rows) kind += others;
    weight_at = weight_offset + kind * head_dim;
}
vec2 weigh(const vec2 v, const uint c) {
    return HAS(PART_WEIGHT) ? v * vec2(weight[weight_at + c], weight[weight_at + c + 1u]) : v;
}
vec2 normed_pair(const uint at, const uint c) {
    vec2 v = (load_pair(at + c) - mean - rest) * inverse;
    if (!HAS(PART_ROTATE_FIRST)) v = weigh(v, c);
    if (HAS(PART_BIAS)) v += vec2(bias[bias_offset + c], bias[bias_offset + c + 1u]);
    return v;
}

void measure(const uint at) {
    uint lane = gl_LocalInvocationID.x % LANES;
    mean = 0.0;
    rest = 0.0;
    inverse = 1.0;
    if (HAS(PART_LAYER)) {
        vec2 sum = vec2(0.0);
        for (uint c = 2u * lane; c < head_dim; c += 2u * LANES) sum += load_pair(at + c);
        mean = join_lanes(vec2(sum.x + sum.y, 0.0), false).x / float(head_dim);
    }
    if (HAS(PART_LAYER) || HAS(PART_RMS)) {
        vec2 sum = vec2(0.0), squares = vec2(0.0);
        for (uint c = 2u * lane; c < head_dim; c += 2u * LANES) {
            vec2 d = load_pair(at + c) - mean;
            sum += d;
            squares += d * d;
        }
        vec2 sums = join_lanes(vec2(sum.x + sum.y, squares.x + squares.y), false) / float(head_dim);
        if (HAS(PART_RMS)) sums.x = 0.0;
        rest = sums.x;
        inverse = 1.0 / sqrt(max(sums.y - sums.x * sums.x, 0.0) + eps);
    }
}

// Channels c and c + 1 of the head at `at`, normed and rotated. Half-split, the two may not be in different halves,
// but of an odd half the last channel goes alone: then the second one is of no use.
uint part = HAS(PART_TWO_AXES) ? head_dim / 2u : head_dim, split = part / 2u;
vec2 post_pair(const uint at, const uint row, const uint c) {
    vec2 v = normed_pair(at, c);
    if (!HAS(PART_ROTATE)) return v;
    uint table_row = HAS(PART_SHARED) ? row % tokens / row_share : row % tokens;
    uint cos_at = cos_offset + table_row * cos_pitch, sin_at = sin_offset + table_row * sin_pitch;
    if (HAS(PART_HALF_SPLIT)) {
        uint i = c / part * split + c % split, next = min(i + 1u, head_dim / 2u - 1u);
        vec2 other = normed_pair(at, c % part < split ? c + split : c - split);
        if (c % part < split) other = -other;
        return v * vec2(cosines[cos_at + i], cosines[cos_at + next]) +
               other * vec2(sines[sin_at + i], sines[sin_at + next]);
    }
    float cosine = cosines[cos_at + c / 2u], sine = sines[sin_at + c / 2u];
    v = v * cosine + vec2(-v.y, v.x) * sine;
    return HAS(PART_ROTATE_FIRST) ? weigh(v, c) : v;
}

#define SAMPLES 256u // rows that the mean key is of: any vector would do, one near the mean does best
shared vec2 samples[HAS(PART_MEAN) ? SAMPLES : 1u];
void find_mean(const uint head) {
    uint count = min(rows, SAMPLES), together = THREADS / LANES;
    for (uint first = 0u; first < count; first += together) {
        uint i = first + gl_LocalInvocationID.x / LANES;
        measure(x_offset + min(i, count - 1u) * rows / count * x_pitch + head * head_dim);
        if (i < count && gl_LocalInvocationID.x % LANES == 0u) samples[i] = vec2(mean + rest, inverse);
    }
    barrier();
    for (uint c = 2u * gl_LocalInvocationID.x; c < head_dim; c += 2u * THREADS) {
        vec2 sum = vec2(0.0);
        rest = 0.0;
        for (uint i = 0u; i < count; i++) {
            uint row = i * rows / count;
            mean = samples[i].x;
            inverse = samples[i].y;
            choose_weight(row, head);
            sum += post_pair(x_offset + row * x_pitch + head * head_dim, row, c);
        }
        sum /= float(count);
        mean_key[mean_offset + head * head_dim + c] = sum.x;
        mean_key[mean_offset + head * head_dim + c + 1u] = sum.y;
    }
}

vec2 centred_pair(const uint at, const uint row, const uint head, const uint c) {
    vec2 v = post_pair(at, row, c);
    if (HAS(PART_KEYS))
        v -= vec2(mean_key[mean_offset + head * head_dim + c], mean_key[mean_offset + head * head_dim + c + 1u]);
    return v;
}

void main() {
    uint lane = gl_LocalInvocationID.x % LANES;
    uint wanted = (gl_WorkGroupID.x + first_group) * (THREADS / LANES) + gl_LocalInvocationID.x / LANES;
    uint item = min(wanted, rows * heads - 1u), row = item / heads, head = item % heads;
    uint at = x_offset + row * x_pitch + head * head_dim;
    if (HAS(PART_MEAN)) {
        find_mean(gl_WorkGroupID.x + first_group);
        return;
    }
    choose_weight(row, head);
    measure(at);
    if (HAS(PART_INT8)) {
        vec2 both = vec2(0.0); // largest, product with the mean key
        for (uint c = 2u * lane; c < head_dim; c += 2u * LANES) {
            vec2 v = centred_pair(at, row, head, c);
            both.x = max(both.x, max(abs(v.x), abs(v.y)));
            vec2 with =
                vec2(mean_key[mean_offset + head * head_dim + c], mean_key[mean_offset + head * head_dim + c + 1u]);
            both.y += dot(v, HAS(PART_KEYS) ? vec2(1.0) : with); // what is not finite shows in a sum
        }
        both = join_lanes(both, true);
        if (wanted != item) return;
        uint to = (int8_offset + row * int8_pitch + head * int8_head) / 4u;
        float step = both.x > 0.0 ? 1.0 / both.x : 0.0;
        for (uint c = 4u * lane; c < int8_head - 16u; c += 4u * LANES) {
            vec4 v = vec4(0.0);
            if (c < head_dim) v = vec4(centred_pair(at, row, head, c), centred_pair(at, row, head, c + 2u));
            int8_words[to + c / 4u] = packSnorm4x8(v * step);
        }
        if (lane > 0u) return;
        int8_words[to + int8_head / 4u - 4u] =
            (floatBitsToUint(both.y) & 0x7f800000u) == 0x7f800000u ? 0x7fc00000u : floatBitsToUint(both.x / 127.0);
        int8_words[to + int8_head / 4u - 3u] = floatBitsToUint(both.y);
        return;
    }
    if (wanted != item) return;
    bool halves = HAS(PART_ROTATE) && HAS(PART_HALF_SPLIT);
    uint span = halves ? split : head_dim, pairs = (span + 1u) / 2u;
    for (uint n = lane; n < (halves ? head_dim / part : 1u) * pairs; n += LANES) {
        uint c = n / pairs * part + n % pairs * 2u, count = min(2u, span - n % pairs * 2u);
        vec2 v = post_pair(at, row, c), other = halves ? post_pair(at, row, c + span) : vec2(0.0);
        store_pair(at + c, count, v);
        if (halves) store_pair(at + c + span, count, other);
    }
}
