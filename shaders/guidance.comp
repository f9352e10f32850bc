#version 450
// How a guided prediction is mixed, an image to a workgroup. With c the conditional prediction and d what the
// unconditional one falls short of it, the guided prediction is a * c + b * d. b = (scale - 1) * (limit / |d| where d
// is longer), a takes out what of d points along c, and both are rescaled so that the deviation comes closer to that of
// c, and shortened where the whole is longer than so many lengths of c. a and b go behind the row of coefficients,
// where solver.comp reads them. With SIDE the guided prediction of every token, SIDE x SIDE pixels of all channels, or
// of every line of every channel, gets the length of c's, but grows by length_limit at most, and takes its place; then
// a is 1, and b 0.
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

layout(push_constant) uniform Push {
    uint first_group;
    uint rows, columns;
    uint prediction_offset, prediction_pitch;
    uint row_offset;
    uint channels; // of an image
    uint width;    // of its planes
};
layout(constant_id = 2) const uint SIDE = 0u;
#define SIDE_LINES 65535u

WRITABLE(0, prediction)
WRITABLE(1, row)
#include "solver.glsl"
#include "lanes.glsl"

// One invocation does a token at a time.
void tokens(const uint image, const float scale) {
    bool lines = SIDE == SIDE_LINES;
    uint high = lines ? 1u : SIDE, wide = lines ? width : SIDE, deep = lines ? 1u : channels;
    uint across = width / wide, below = prediction_half() * prediction_pitch, area = high * wide, each = columns / area;
    for (uint t = gl_LocalInvocationID.x; t < each * (channels / deep); t += THREADS) {
        uint own_t = t % each, first = own_t / across * high * width + own_t % across * wide;
        float own = 0.0, all = 0.0, factor = 1.0;
        for (uint round = 0u; round < 2u; round++) {
            for (uint i = 0u; i < deep * area; i++) {
                uint row = prediction_row(image * channels + t / each + i / area), place = i % area;
                uint at = prediction_offset + row * prediction_pitch + first + place / wide * width + place % wide;
                float u = prediction_load1(FORMAT_F32, at), c = prediction_load1(FORMAT_F32, at + below),
                      m = u + scale * (c - u);
                own += c * c;
                all += m * m;
                if (round == 1u) prediction_u1[at + below] = floatBitsToUint(m * factor);
            }
            factor = min(ROW(length_limit), sqrt(own / max(all, 1e-37)));
        }
    }
}

// a and b of a whole image.
vec2 whole(const uint image, const float scale) {
    vec2 sum = vec2(0.0), squares = vec2(0.0);
    float products = 0.0, count = float(channels * columns);
    for (uint r = image * channels; r < (image + 1u) * channels; r++) {
        uint at = prediction_offset + prediction_row(r) * prediction_pitch;
        for (uint column = gl_LocalInvocationID.x; column < columns; column += THREADS) {
            float u = prediction_load1(FORMAT_F32, at + column),
                  c = prediction_load1(FORMAT_F32, at + prediction_half() * prediction_pitch + column), d = c - u;
            sum += vec2(c, d);
            squares += vec2(c * c, d * d);
            products += c * d;
        }
    }
    sum = sum_lanes(sum);
    squares = sum_lanes(squares);
    products = sum_lanes(vec2(products, 0.0)).x;
    float kept = min(1.0, ROW(norm_limit) / sqrt(max(squares.y, 1e-37)));
    float b = (scale - 1.0) * kept, a = 1.0 - ROW(project) * b * products / max(squares.x, 1e-37);
    float length = a * a * squares.x + 2.0 * a * b * products + b * b * squares.y;
    float shorter = min(1.0, ROW(length_limit) * sqrt(squares.x / max(length, 1e-37)));
    sum /= count;
    squares = squares / count - sum * sum;
    products = products / count - sum.x * sum.y;
    float mixed = a * a * squares.x + 2.0 * a * b * products + b * b * squares.y;
    float closer = 1.0 + ROW(rescale) * (sqrt(max(squares.x, 0.0) / max(mixed, 1e-37)) - 1.0);
    return vec2(scale == 1.0 ? 1.0 : a * closer * shorter, b * closer * shorter);
}

void main() {
    uint image = first_group + gl_WorkGroupID.x;
    float scale = ROW(guidance);
    vec2 mixed = vec2(1.0, 0.0);
    if (SIDE != 0u)
        tokens(image, scale);
    else
        mixed = whole(image, scale);
    if (gl_LocalInvocationID.x == 0u) {
        row_u1[IMAGE_AT(image)] = floatBitsToUint(mixed.x);
        row_u1[IMAGE_AT(image) + 1u] = floatBitsToUint(mixed.y);
    }
}
