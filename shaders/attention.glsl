// What both attention kernels share: out = softmax(scale * q k^T + bias) v per batch item and head, over the first `key length` keys.
// Workgroups are numbered query block by query block, then head by head, then item by item.
#include "common.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint FORMAT = FORMAT_F32; // of q, k and v
layout(constant_id = 2) const uint OUT_FORMAT = FORMAT_F32;
layout(constant_id = 3) const uint PARTS = 0;
layout(constant_id = 4) const bool VECTOR = true; // head_dim and every offset and pitch is a multiple of 4
layout(constant_id = 5) const uint QUADS = 16;    // room for head_dim / 4, rounded up
#define PART_LENGTHS 1u
#define PART_BIAS 2u
#define PART_LSE 4u
#define HAS(PART) ((PARTS & (PART)) != 0u)
#define VERY_LOW -3.0e38 // finite, so that differences are never NaN

layout(push_constant) uniform Push {
    uint first_group;
    uint query_tokens, key_tokens, heads, head_dim, query_blocks;
    float scale;
    uint q_offset, q_pitch, k_offset, k_pitch, v_offset, v_pitch, out_offset, out_pitch;
    uint lengths_offset, bias_offset, bias_pitch, lse_offset, lse_pitch;
};

READABLE(0, q, readonly)
READABLE(1, k, readonly)
READABLE(2, v, readonly)
WRITABLE(3, dst)
layout(binding = 4) readonly buffer Lengths { uint lengths[]; };
layout(binding = 5) readonly buffer Bias { float bias[]; };
layout(binding = 6) writeonly buffer Lse { float lse[]; };

struct Place {
    uint item, head, block;
};
Place place_of(uint g) { return Place(g / query_blocks / heads, g / query_blocks % heads, g % query_blocks); }

uint key_count(uint item) { return HAS(PART_LENGTHS) ? min(lengths[lengths_offset + item], key_tokens) : key_tokens; }

// Group `quad` of four channels of a head that starts at `at`.
#define HEAD_LOAD(NAME, AT, QUAD) (VECTOR ? NAME##_load4(FORMAT, (AT) + 4u * (QUAD)) : NAME##_some(FORMAT, (AT) + 4u * (QUAD), head_dim - 4u * (QUAD)))

void store_out(uint at, uint quad, vec4 value) {
    if (VECTOR) dst_store4(OUT_FORMAT, at + 4u * quad, value);
    else dst_store_some(OUT_FORMAT, at + 4u * quad, head_dim - 4u * quad, value);
}

float biased(float score, uint head, uint query, uint key) {
    score *= scale;
    return HAS(PART_BIAS) ? score + bias[bias_offset + head * bias_pitch + key + query_tokens - 1u - query] : score;
}

void store_lse(uint item, uint head, uint query, float largest, float sum) {
    if (HAS(PART_LSE)) lse[lse_offset + (item * query_tokens + query) * lse_pitch + head] = sum > 0.0 ? largest + log(sum) : VERY_LOW;
}
