#version 450
// Convolutions that keep channels apart: depthwise ones, each channel by itself, with k x k taps and zeros around the
// picture, and 1 x 1 ones of groups of channels. Rows are pixels, line by line and picture after picture. One
// invocation makes four neighbouring channels of a pixel.
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "activation.glsl"

#define OP_DEPTHWISE 0u // dst[r, c] = sum of taps x[r', c] * weight[c, tap] + bias[c]
#define OP_GROUPED 1u   // dst[r, c] = sum of i in 0..size - 1 of x[r, c / size * size + i] * weight[c, i]
#define OP_SNAKE                                                                                                       \
    2u // rows are samples: twice as many by a filter, u + sin(exp(weight[c]) u)^2 / exp(bias[c]), half as
       // many by another filter; gate has both filters, which have SNAKE_TAPS each
#define SNAKE_TAPS 12

layout(constant_id = 1) const uint OP = OP_DEPTHWISE;
layout(constant_id = 2) const uint IN_FORMAT = FORMAT_F32;
layout(constant_id = 3) const uint OUT_FORMAT = FORMAT_F32;
layout(constant_id = 4) const bool BIAS = false;
layout(constant_id = 5) const bool GATE = false;  // the result is multiplied with silu of that of a second source
layout(constant_id = 6) const bool VECTOR = true; // columns, offsets and pitches of x, gate and dst are multiples of 4

layout(push_constant) uniform Push {
    uint first_group;
    uint rows, columns;
    uint in_offset, in_pitch, gate_offset, gate_pitch, out_offset, out_pitch;
    uint weight_offset, bias_offset;
    uint first, gate_first; // channels of the weight at which those of x and of gate begin
    uint height, width;     // of a picture
    uint size;              // taps of a side, odd; or channels of a group
};
READABLE(0, x, readonly)
READABLE(1, gate, readonly)
WRITABLE(2, dst)
READABLE_F32(3, weight)
READABLE_F32(4, bias)

// Value `which` of the weights of four channels, which have `count` each; begin: channel of column 0.
vec4 weights(const uint begin, const uint column, const uint which, const uint count) {
    vec4 v;
    for (uint j = 0u; j < 4u; j++)
        v[j] = weight_load1(FORMAT_F32, weight_offset + (begin + min(column + j, columns - 1u)) * count + which);
    return v;
}

vec4 x_at(const uint at, const uint count) { return VECTOR ? x_load4(IN_FORMAT, at) : x_some(IN_FORMAT, at, count); }
vec4 gate_at(const uint at, const uint count) {
    return VECTOR ? gate_load4(IN_FORMAT, at) : gate_some(IN_FORMAT, at, count);
}

vec4 depthwise(const bool second, const uint row, const uint column) {
    uint count = min(columns - column, 4u), y = row / width % height, column_of = row % width;
    int reach = int(size / 2u), pitch = int(second ? gate_pitch : in_pitch);
    int centre = int((second ? gate_offset : in_offset) + column) + int(row) * pitch;
    uint begin = second ? gate_first : first;
    vec4 sum = vec4(0.0);
    for (int dy = -reach; dy <= reach; dy++) {
        if (int(y) + dy < 0 || int(y) + dy >= int(height)) continue;
        for (int dx = -reach; dx <= reach; dx++) {
            if (int(column_of) + dx < 0 || int(column_of) + dx >= int(width)) continue;
            uint at = uint(centre + (dy * int(width) + dx) * pitch), tap = uint((dy + reach) * int(size) + dx + reach);
            sum += (second ? gate_at(at, count) : x_at(at, count)) * weights(begin, column, tap, size * size);
        }
    }
    if (BIAS) sum += bias_some(bias_offset + begin + column, count);
    return sum;
}

vec4 grouped(const uint row, const uint column) {
    vec4 sum = vec4(0.0);
    for (uint i = 0u; i < size; i++) {
        vec4 v = vec4(0.0);
        for (uint j = 0u; j < min(columns - column, 4u); j++)
            v[j] = x_load1(IN_FORMAT, in_offset + row * in_pitch + (column + j) / size * size + i);
        sum += v * weights(first, column, i, size);
    }
    return sum;
}

// sin(x)^2 with an error below 4e-7 for every x that a sine makes sense of: sine's own may be wrong by 5e-4.
vec4 sine_squared(const vec4 x) {
    vec4 half_angle = 0.5 * (x - 3.141592653589793 * roundEven(0.3183098861837907 * x)), w = half_angle * half_angle;
    w *= 1.0 + w * (-0.33333333 + w * (0.04444444 + w * (-0.0031746 + w * 0.000141093)));
    return 4.0 * (w - w * w);
}

float filter_tap(const int i) { return uintBitsToFloat(bias_u1[bias_offset + i]); }

// Beyond the ends stand the samples at the ends, of x and of those that it becomes.
vec4 snake(const uint row, const uint column) {
    vec4 a = weights(0u, column, 0u, 1u), b = weights(columns, column, 0u, 1u), sum = vec4(0.0);
    int last = int(rows) - 1;
    for (int j = 0; j < SNAKE_TAPS; j++) {
        int n = clamp(2 * int(row) + j - 5, 0, 2 * last + 1);
        vec4 u = vec4(0.0);
        for (int i = (n + 1) & 1; i < SNAKE_TAPS; i += 2)
            u +=
                filter_tap(i) * x_at(in_offset + clamp((n + 5 - i) / 2, 0, last) * in_pitch + column, columns - column);
        sum += filter_tap(SNAKE_TAPS + j) * (u + b * sine_squared(a * u));
    }
    return sum;
}

void main() {
    uint quads = (columns + 3u) / 4u, i = (first_group + gl_WorkGroupID.x) * THREADS + gl_LocalInvocationID.x;
    if (i >= rows * quads) return;
    uint row = i / quads, column = i % quads * 4u, to = out_offset + row * out_pitch + column;
    vec4 v = OP == OP_SNAKE     ? snake(row, column)
             : OP == OP_GROUPED ? grouped(row, column)
                                : depthwise(false, row, column);
    if (GATE) v *= activate(ACTIVATION_SILU, depthwise(true, row, column));
    if (VECTOR)
        dst_store4(OUT_FORMAT, to, v);
    else
        dst_store_some(OUT_FORMAT, to, columns - column, v);
}
