// Common part of the attention kernels: out = softmax(scale * q k^T + bias) v per batch item and head. Without a table
// of items all have as many queries and keys. With one (PART_ITEMS) its rows tell first query, queries, first key and
// keys of each item, all counted in rows; the queries are still equal batches, unless PART_PACKED takes them from the
// table as well. No keys give 0. PART_STRIDED: items lie interleaved, row_step of them at a time: the rows of one are
// row_step apart, and those of its neighbour are the next ones. Workgroups are numbered query block by query block,
// then head by head, then item by item; packed: the blocks of all items, then head by head, and the last of
// query_blocks may be no block.
#include "common.glsl"

layout(constant_id = 1) const uint FORMAT = FORMAT_F32; // of q, k and v
layout(constant_id = 2) const uint OUT_FORMAT = FORMAT_F32;
layout(constant_id = 3) const uint PARTS = 0;
#ifndef VECTOR
layout(constant_id = 4) const bool VECTOR = true; // head_dim and every offset and pitch is a multiple of 4
#endif
layout(constant_id = 5) const uint QUADS = 16; // room for head_dim / 4, rounded up
#define PART_ITEMS 1u
#define PART_BIAS 2u
#define PART_LSE 4u
#define PART_PACKED 8u
#define PART_STRIDED 16u
#define PART_CAP 32u
#define HAS(PART) ((PARTS & (PART)) != 0u)
#define VERY_LOW -3.0e38 // finite, so that differences are never NaN

layout(push_constant) uniform Push {
    uint first_group;
    uint query_tokens, key_tokens, heads, head_dim, query_blocks;
    float scale;
    uint q_offset, q_pitch, k_offset, k_pitch, v_offset, v_pitch, out_offset, out_pitch;
    uint items_offset, item_count, bias_offset, bias_pitch, bias_origin, lse_offset, lse_pitch;
    uint guard_offset;
    uint row_step;
    uint kv_share; // heads of queries that have the same keys and values
    float cap;
};

#ifndef MATRICES
READABLE(0, q, readonly)
READABLE(1, k, readonly)
READABLE(2, v, readonly)
WRITABLE(3, dst)
layout(binding = 5) readonly buffer Bias { float bias[]; };
#endif
layout(binding = 4) readonly buffer Items { uint items[]; };
layout(binding = 6) writeonly buffer Lse { float lse[]; };
#define GUARD_BINDING 7
#include "guard.glsl"
float score_scale = scale * GUARD_FACTOR(y);

struct Place {
    uint head, kv_head;      // of queries; of their keys and values
    uint first;              // of the block's queries, counted in its item
    uint query_row, queries; // of the item; no queries: the workgroup has nothing to do
    uint key_row, keys;
};
Place place_of(const uint g, const uint block_queries) {
    uint i = g / query_blocks / heads, first = g % query_blocks * block_queries;
    uint query_row = i * query_tokens, queries = query_tokens, key_row = i * key_tokens, keys = key_tokens;
    if (HAS(PART_STRIDED)) {
        query_row = i / row_step * row_step * query_tokens + i % row_step;
        key_row = i / row_step * row_step * key_tokens + i % row_step;
    }
    for (uint end = HAS(PART_PACKED) ? item_count : i + 1u; HAS(PART_ITEMS) && i < end; i++) {
        uint at = items_offset + 4u * i;
        key_row = items[at + 2u];
        keys = min(items[at + 3u], key_tokens);
        if (!HAS(PART_PACKED)) break;
        query_row = items[at];
        queries = items[at + 1u];
        if (first < queries) break;
        first -= (queries + block_queries - 1u) / block_queries * block_queries;
        queries = 0u;
    }
    uint head = g / query_blocks % heads;
    return Place(head, head / kv_share, first, query_row, queries, key_row, keys);
}
uint row_of(const uint r) { return HAS(PART_STRIDED) ? r * row_step : r; } // from an item's first row to row r of it

#ifndef MATRICES
// Group `quad` of four channels of a head that starts at `at`. Beside int8 queries and keys values are F16.
const uint FLOATS = FORMAT == FORMAT_I8 ? FORMAT_F16 : FORMAT;
#define HEAD(NAME)                                                                                                     \
    vec4 NAME##_head(const uint head, const uint quad) {                                                               \
        uint at = head + 4u * quad;                                                                                    \
        return VECTOR ? NAME##_load4(FLOATS, at) : NAME##_some(FLOATS, at, head_dim - 4u * quad);                      \
    }
HEAD(q)
HEAD(k)
HEAD(v)
#define HEAD_LOAD(NAME, AT, QUAD) NAME##_head(AT, QUAD)

void store_out(const uint at, const uint quad, const vec4 value) {
    uint first = at + 4u * quad;
    if (VECTOR)
        dst_store4(OUT_FORMAT, first, value);
    else
        dst_store_some(OUT_FORMAT, first, head_dim - 4u * quad, value);
}

// query and key: counted in their item
float biased(float score, const uint head, const uint query, const uint key) {
    score *= score_scale;
    if (HAS(PART_CAP)) score = cap * tanh(clamp(score / cap, -15.0, 15.0)); // as safe_tanh of activation.glsl
    return HAS(PART_BIAS) ? score + bias[bias_offset + head * bias_pitch + key + bias_origin - query] : score;
}
#endif

void store_lse(const Place place, const uint query, const float largest, const float sum) {
    if (HAS(PART_LSE))
        lse[lse_offset + (place.query_row + row_of(query)) * lse_pitch + place.head] =
            sum > 0.0 ? largest + log(sum) : VERY_LOW;
}
