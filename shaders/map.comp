#version 450
// Work on each element alone: scale, offset, activation and addition. One invocation does four columns.
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "activation.glsl"

#define OP_MAP 0u     // dst[r, c] = activation(x[r, c] * scale + offset) + add[r / add_share % add_rows, c]
#define OP_SELECT 1u  // the same with x[*add, c]: the row of a table that a counter names; words stay as they are
#define OP_ADVANCE 2u // *dst += 1
#define OP_CHOOSE 3u  // as map without add, only rows with add[r / add_share] == chosen: the others keep what dst has
#define FORMAT_U32 2u
#define ACTIVATION_LOG 7u  // these two are of this kernel alone: log(max(x, 1e-5))
#define ACTIVATION_ROOT 8u // sqrt(x)

layout(constant_id = 1) const uint OP = OP_MAP;
layout(constant_id = 2) const uint X_FORMAT = FORMAT_F32;
layout(constant_id = 3) const uint OUT_FORMAT = FORMAT_F32;
layout(constant_id = 4) const uint ACTIVATION = ACTIVATION_NONE;
layout(constant_id = 5) const bool ADD = false;
layout(constant_id = 6) const bool VECTOR = true;  // columns, offsets and pitches are multiples of 4
layout(constant_id = 13) const bool GATED = false; // the record is that of health, see judge.comp

layout(push_constant) uniform Push {
    uint first_group;
    uint rows, columns;
    uint x_offset, x_pitch;
    uint add_offset, add_pitch, add_rows;
    uint out_offset, out_pitch;
    float scale, offset;
    uint guard_offset;
    uint add_share, chosen;
};

READABLE(0, x, readonly)
READABLE(1, add, readonly)
WRITABLE(2, dst)
#define GUARD_BINDING 7
#include "guard.glsl"

vec4 load_i8(uint row, uint column) {
    int word = int(x_u1[(row + column) >> 2]);
    vec4 v = vec4(bitfieldExtract(word, 0, 8), bitfieldExtract(word, 8, 8), bitfieldExtract(word, 16, 8), word >> 24);
    return v * uintBitsToFloat(x_u1[(row + (columns + 15u) / 16u * 16u) >> 2]);
}

vec4 load_x(const uint at, const uint count) { return VECTOR ? x_load4(X_FORMAT, at) : x_some(X_FORMAT, at, count); }

// Notes what F16 does not hold, and cuts it off.
vec4 guarded(const vec4 v) {
    uvec4 bits = floatBitsToUint(v) & 0x7fffffffu;
    bits.xy = max(bits.xy, bits.zw);
    uint most = max(bits.x, bits.y);
    if (OUT_FORMAT != FORMAT_F16 || most < 0x477fe000u) return v;
    atomicMax(guard[guard_offset + 1u].x, most);
    return clamp(v, -65504.0, 65504.0);
}

void map(const uint row, const uint column) {
    uint from_row = row;
    if (OP == OP_SELECT) from_row = add_u1[add_offset];
    if (OP == OP_CHOOSE && add_u1[add_offset + row / add_share] != chosen) return;
    uint from = x_offset + from_row * x_pitch;
    if (OP == OP_SELECT && X_FORMAT == FORMAT_U32) {
        for (uint c = column; c < min(column + 4u, columns); c++) dst_u1[out_offset + c] = x_u1[from + c];
        return;
    }
    vec4 v = X_FORMAT == FORMAT_I8 ? load_i8(from, column) : load_x(from + column, columns - column);
    v = activate(ACTIVATION, v * GUARD_FACTOR(y) * scale + offset);
    if (ACTIVATION == ACTIVATION_SQUASH) v = 3.0 * safe_tanh(v / 3.0);
    if (ACTIVATION == ACTIVATION_RELU) v = mix(v, vec4(0.0), lessThan(v, vec4(0.0)));
    if (ACTIVATION == ACTIVATION_LOG) v = log(max(v, 1e-5));
    if (ACTIVATION == ACTIVATION_ROOT) v = sqrt(v);
    uint at = out_offset + row * out_pitch + column;
    if (ADD) {
        from = add_offset + row / add_share % add_rows * add_pitch + column;
        v += VECTOR ? add_load4(FORMAT_F32, from) : add_some(FORMAT_F32, from, columns - column);
    }
    if (GUARDED) v = guarded(v * GUARD_VALUE(x));
    if (VECTOR)
        dst_store4(OUT_FORMAT, at, v);
    else
        dst_store_some(OUT_FORMAT, at, columns - column, v);
}

void main() {
    uint quads = (columns + 3u) / 4u, i = (first_group + gl_WorkGroupID.x) * THREADS + gl_LocalInvocationID.x;
    if (i >= mix(rows * quads, 0u, GATED && guard[guard_offset].y != 0u)) return; // something must run again first
    if (OP == OP_ADVANCE)
        dst_u1[out_offset] += 1u;
    else
        map(i / quads, i % quads * 4u);
}
