#version 450
// One solver step: the formulas of src/sample/sample.h, with guidance. One invocation does four columns.
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

layout(constant_id = 2) const bool GUIDED = false;
layout(constant_id = 3) const bool MIXED = false; // guidance.comp has said how
layout(constant_id = 4) const bool KEEP_X0 = false;
layout(constant_id = 5) const bool NOISY = false;
layout(constant_id = 6) const bool HAS_Y = false;  // below h2 stands y
layout(constant_id = 7) const bool KEPT = false;   // below them stand a picture's latent, its noise, 0 where they stay
layout(constant_id = 8) const bool HAS_H3 = false; // below y stands h3
layout(constant_id = 9) const bool HOLDS = false;  // some frames of the latent do not move
layout(constant_id = 10) const bool RENOISES = false; // before the model is evaluated: some frames get noise, no more
layout(constant_id = 13) const bool GATED = false;    // nothing happens while a segment must run again, see judge.comp

layout(push_constant) uniform Push {
    uint first_group;
    uint rows, columns;
    uint prediction_offset, prediction_pitch;
    uint row_offset;
    uint channels;          // of an image
    uint x_offset, x_pitch; // the pitch of all states
    uint h1_offset, h2_offset, x0_offset, noise_offset;
    uint guard_offset; // of health
    uint frames;       // those of a clip stand side by side in a row, each of as many columns
};

READABLE(0, prediction, readonly)
READABLE(1, row, readonly)
WRITABLE(2, x)
WRITABLE(3, h1)
WRITABLE(4, h2)
WRITABLE(5, x0)
READABLE(6, noise, readonly)
#define GUARD_BINDING 7
#include "guard.glsl"
#include "solver.glsl"

vec4 guided(vec4 u, vec4 c, uint latent_row) {
    uint image = IMAGE_AT(latent_row / channels);
    if (MIXED) return row_load1(FORMAT_F32, image) * c + row_load1(FORMAT_F32, image + 1u) * (c - u);
    return ROW(guidance) == 1.0 || latent_row % channels >= uint(ROW(guided_channels)) ? c
                                                                                       : u + ROW(guidance) * (c - u);
}

// Health is told when a value is infinite or none.
void judge(vec4 next, vec4 m, uint column) {
    bvec4 real = lessThan(uvec4(column) + uvec4(0u, 1u, 2u, 3u), uvec4(columns));
    uvec4 exponents = max(floatBitsToUint(next) & 0x7f800000u, floatBitsToUint(m) & 0x7f800000u);
    if (any(equal(mix(uvec4(0u), exponents, real), uvec4(0x7f800000u)))) {
        atomicCompSwap(guard[guard_offset].x, 0u, uint(ROW(number)));
    }
}

// Number `which` of the frames that four columns belong to.
vec4 of_frames(uint which, uint column) {
    vec4 factors;
    for (uint i = 0u; i < 4u; i++) {
        uint frame = min(column + i, columns - 1u) / (columns / frames);
        factors[i] = row_load1(FORMAT_F32, FRAMES_AT + 3u * frame + which);
    }
    return factors;
}

void renoise(uint latent_row, uint column) {
    uint at = latent_row * x_pitch + column;
    vec4 next = of_frames(0u, column) * x_load4(FORMAT_F32, x_offset + at) +
                of_frames(1u, column) * noise_load4(FORMAT_F32, noise_offset + at);
    x_store4(FORMAT_F32, x_offset + at, next);
    judge(next, next, column);
}

// States and prediction have pitches that are multiples of 4, so whole groups of four are read and written; padding
// stays finite.
void solve(uint latent_row, uint column) {
    uint at = latent_row * x_pitch + column, at_y = at + rows * x_pitch,
         from = prediction_offset + prediction_row(latent_row) * prediction_pitch + column;
    vec4 m = prediction_load4(FORMAT_F32, from);
    vec4 now = x_load4(FORMAT_F32, x_offset + at), before = h1_load4(FORMAT_F32, h1_offset + at);
    vec4 older = h2_load4(FORMAT_F32, h2_offset + at);
    if (GUIDED) {
        from += prediction_half() * prediction_pitch;
        m = guided(m, prediction_load4(FORMAT_F32, from), latent_row);
    }
    vec4 start = ROW(x0_x) * now + ROW(x0_m) * m;
    if (ROW(clip) < 3e38) start = clamp(start, vec4(-ROW(clip)), vec4(ROW(clip)));
    vec4 next = ROW(x_x) * now + ROW(x_m) * m + ROW(d0) * start + ROW(d1) * before + ROW(d2) * older;
    if (HAS_H3) next += ROW(d3) * h2_load4(FORMAT_F32, h2_offset + at_y + rows * x_pitch);
    if (HAS_Y) {
        vec4 y = h2_load4(FORMAT_F32, h2_offset + at_y);
        next += ROW(x_y) * y;
        y = ROW(y_x) * now + ROW(y_y) * y + ROW(e0) * start + ROW(e1) * before + ROW(e2) * older;
        h2_store4(FORMAT_F32, h2_offset + at_y, y);
    }
    if (NOISY) {
        vec4 noisy = ROW(noise) * noise_load4(FORMAT_F32, noise_offset + at);
        if (LEARNED) noisy *= exp(ROW(noise_v) * prediction_load4(FORMAT_F32, from + channels * prediction_pitch));
        next += noisy;
    }
    if (KEPT) {
        uint below = rows * x_pitch, kept = h2_offset + at_y + (HAS_H3 ? 2u : 1u) * below;
        vec4 v = ROW(kept_x0) * h2_load4(FORMAT_F32, kept) + ROW(kept_noise) * h2_load4(FORMAT_F32, kept + below);
        next = mix(v, next, h2_load4(FORMAT_F32, kept + 2u * below));
    }
    if (HOLDS) next = mix(now, next, notEqual(of_frames(2u, column), vec4(0.0)));
    if (ROW(push) != 0.0) {
        if (HAS_H3) h2_store4(FORMAT_F32, h2_offset + at_y + rows * x_pitch, older);
        h2_store4(FORMAT_F32, h2_offset + at, before);
        h1_store4(FORMAT_F32, h1_offset + at, start);
    }
    x_store4(FORMAT_F32, x_offset + at, next);
    if (KEEP_X0) x0_store4(FORMAT_F32, x0_offset + at, ROW(shown_x) * now + ROW(shown_x0) * start);
    judge(next, m, column);
}

void main() {
    uint quads = (columns + 3u) / 4u, i = (first_group + gl_WorkGroupID.x) * THREADS + gl_LocalInvocationID.x;
    if (i >= mix(rows * quads, 0u, GATED && guard[guard_offset].y != 0u)) return;
    if (RENOISES)
        renoise(i / quads, i % quads * 4u);
    else
        solve(i / quads, i % quads * 4u);
}
