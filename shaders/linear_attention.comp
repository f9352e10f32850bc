#version 450
// Attention without a softmax: with k and q cut off below 0, the result of a query is the sum of v (k . q) over all
// keys, divided by the sum of k . q. Sums over keys come first, so that the work grows with the number of rows and not
// with its square. A table has a row for each head: head_dim rows of head_dim + 4 values, S[i, j] = sum of k[i] v[j]
// over keys, then z[i] = sum of k[i] and three values of nothing. Every sum has a fixed order.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "common.glsl"

#define OP_SUM 0u   // a table over some rows: a workgroup makes that of a head and a part
#define OP_FOLD 1u  // the tables of all parts of a head are added
#define OP_APPLY 2u // a table and queries make the result

layout(constant_id = 1) const uint OP = OP_SUM;
layout(constant_id = 2) const uint IN_FORMAT = FORMAT_F32;
layout(constant_id = 3) const uint OUT_FORMAT = FORMAT_F32;
layout(constant_id = 4) const uint HEAD = 32; // head_dim, a multiple of 4

layout(push_constant) uniform Push {
    uint first_group;
    uint rows, heads, parts, part_rows;
    uint in_offset, in_pitch, out_offset, out_pitch;
    uint head_step, key_offset, value_offset; // columns from a head to the next, from its queries to keys and to values
    uint sum_offset, sum_pitch;
    float eps;
};
READABLE(0, x, readonly)
WRITABLE(1, dst)
READABLE_F32(2, sums)

#define TABLE_ROW (HEAD + 4u)

void sum_up(const uint group) {
    uint head = group % heads, part = group / heads, end = min((part + 1u) * part_rows, rows);
    uint from = in_offset + head * head_step, to = out_offset + (part * heads + head) * out_pitch;
    for (uint e = gl_LocalInvocationID.x; e < HEAD * TABLE_ROW / 4u; e += THREADS) {
        uint i = e / (TABLE_ROW / 4u), j = e % (TABLE_ROW / 4u) * 4u;
        vec4 sum = vec4(0.0);
        for (uint row = part * part_rows; row < end; row++) {
            float k = max(x_load1(IN_FORMAT, from + row * in_pitch + key_offset + i), 0.0);
            vec4 v = j < HEAD ? x_load4(IN_FORMAT, from + row * in_pitch + value_offset + j) : vec4(1.0, 0.0, 0.0, 0.0);
            sum += k * v;
        }
        dst_store4(OUT_FORMAT, to + i * TABLE_ROW + j, sum);
    }
}

void fold(const uint index) {
    uint quads = HEAD * TABLE_ROW / 4u, head = index / quads, at = index % quads * 4u;
    if (head >= heads) return;
    vec4 sum = vec4(0.0);
    for (uint part = 0u; part < parts; part++) sum += sums_load4(sum_offset + (part * heads + head) * sum_pitch + at);
    dst_store4(OUT_FORMAT, out_offset + head * out_pitch + at, sum);
}

void apply(const uint index) {
    uint quads = heads * HEAD / 4u, row = index / quads, head = index % quads / (HEAD / 4u),
         j = index % (HEAD / 4u) * 4u;
    if (row >= rows) return;
    uint from = in_offset + row * in_pitch + head * head_step, table = sum_offset + head * sum_pitch;
    vec4 sum = vec4(0.0);
    float all = 0.0;
    // Written out, the loop is a table in registers: Turnip spills 180 of them on Adreno 618.
    [[dont_unroll]] for (uint i = 0u; i < HEAD; i += 4u) {
        vec4 q = max(x_load4(IN_FORMAT, from + i), vec4(0.0));
        for (uint k = 0u; k < 4u; k++) {
            sum += q[k] * sums_load4(table + (i + k) * TABLE_ROW + j);
            all += q[k] * sums_load1(FORMAT_F32, table + (i + k) * TABLE_ROW + HEAD);
        }
    }
    dst_store4(OUT_FORMAT, out_offset + row * out_pitch + head * HEAD + j, sum / (all + eps));
}

void main() {
    uint group = first_group + gl_WorkGroupID.x;
    if (OP == OP_SUM)
        sum_up(group);
    else if (OP == OP_FOLD)
        fold(group * THREADS + gl_LocalInvocationID.x);
    else
        apply(group * THREADS + gl_LocalInvocationID.x);
}
