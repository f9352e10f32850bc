#version 450
// Clips: rows are pixels, line by line and frame after frame, columns are channels. One invocation makes four
// neighbouring columns of a result's row.
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

#define OP_BLEND 0u     // frames between frames, and fewer of them: one to three frames of the source each, see blend()
#define OP_SPREAD 1u    // channels become frames, lines and pixels, or a pixel fills a block of them
#define OP_GATHER 2u    // a block of frames, lines and pixels becomes channels, whose means may be taken
#define OP_CONDITION 3u // x * y + z with rows of a coarser clip, then SiLU (AutoencoderKLCogVideoX)
#define OP_FOLD 4u      // the order of CausalVAEModel 1.0's attention, and OP_UNFOLD the one before
#define OP_UNFOLD 5u
#define OP_FILL 7u  // zeros
#define OP_PLACE 8u // a rectangle of every frame into that of another clip; a tile fades into the one before it
#define OP_DRAW 6u  // mean and log-variance side by side: mean + exp(log-variance / 2) * more, times weight

layout(constant_id = 1) const uint OP = OP_BLEND;
layout(constant_id = 2) const uint IN_FORMAT = FORMAT_F32;
layout(constant_id = 3) const uint OUT_FORMAT = FORMAT_F32;
layout(constant_id = 4) const uint MORE_FORMAT = FORMAT_F32;
layout(constant_id = 5) const uint MODE = 0; // of blend(); gather: 1: what lies before the clip is its first frame
layout(constant_id = 6) const bool MORE = false;
layout(constant_id = 7) const bool CLAMP = false; // to -1..1
#define MODE_DOUBLE 0u
#define MODE_LINEAR 1u
#define MODE_THIRDS 2u
#define MODE_HALVES 3u
#define MODE_FADE_DOWN 1u // of a place: the other tile's share is 1 in the first line, and 0 behind the last
#define MODE_FADE_RIGHT 2u

layout(push_constant) uniform Push {
    uint first_group;
    uint rows, columns; // of the result
    uint in_offset, in_pitch, out_offset, out_pitch;
    uint more_offset, more_pitch, shift_offset, shift_pitch;
    uint height, width;       // of a frame of the result
    uint in_height, in_width; // of a frame of the source; condition: of the coarser clip
    uint frames, in_frames;   // of the result and of the source, or of the coarser clip
    uint first;               // spread: frames of the whole that the result lacks in front; gather: frames that stand
                              // before the clip; blend and condition: frames in front that are on their own
    uint time, side;          // size of a block: frames; lines and columns
    uint channel_step, time_step, line_step, pixel_step; // place in a block, as a number of the source's channels
    uint repeats; // so many neighbouring numbers are one channel; gather: are averaged
    uint modulus; // spread: channels of the result begin anew after so many
                  // place: height and width are those of the rectangle, side and time those of the result's frames,
                  // channel_step and time_step its line and column there; line_step and pixel_step are height and width
                  // of the other tile, repeats and modulus the line and the column in it; first: frames of the source
                  // before those that are wanted; in_frames: rows of a frame of it before the rectangle
    float weight, more_weight;
};
READABLE(0, src, readonly)
WRITABLE(1, dst)
READABLE(2, more, readonly)
READABLE_F32(3, shift)

float source(const uint row, const uint column) { return src_load1(IN_FORMAT, in_offset + row * in_pitch + column); }

float blend(const uint frame, const uint pixel, const uint column) {
    uint area = height * width, a = frame, b = frame, c = frame;
    float nearer = 1.0;
    if (MODE == MODE_DOUBLE && frame >= first) a = first + (frame - first) / 2u;
    if (MODE == MODE_HALVES && frame >= first) {
        a = first + 2u * (frame - first);
        b = a + 1u;
        nearer = 0.5;
    }
    if (MODE == MODE_LINEAR && frame > 0u) {
        a = 1u + (frame - 1u) / 2u;
        b = clamp((frame & 1u) == 0u ? a + 1u : a - 1u, 1u, in_frames - 1u);
        nearer = 0.75;
    }
    if (MODE == MODE_THIRDS) {
        a = 2u * frame;
        b = max(a, 1u) - 1u;
        c = max(a, 2u) - 2u;
    }
    float v = source(a * area + pixel, column);
    if (MODE == MODE_THIRDS) {
        precise float mean = (v + source(b * area + pixel, column) + source(c * area + pixel, column)) / 3.0;
        return mean;
    }
    return nearer < 1.0 ? fma(nearer, v, (1.0 - nearer) * source(b * area + pixel, column)) : v;
}

float spread(const uint frame, const uint y, const uint x, const uint column) {
    uint whole = frame + first;
    uint number =
        column % modulus * channel_step + whole % time * time_step + y % side * line_step + x % side * pixel_step;
    return source((whole / time * in_height + y / side) * in_width + x / side, number / repeats);
}

float gather(const uint frame, const uint y, const uint x, const uint column) {
    float sum = 0.0;
    for (uint i = 0u; i < repeats; i++) {
        uint number = column * repeats + i, place = number % channel_step;
        int from = int(frame * time + place / time_step % time) - int(first);
        uint row = (uint(max(from, 0)) * in_height + y * side + place / line_step % side) * in_width + x * side +
                   place / pixel_step % side;
        if (from >= 0 || MODE != 0u) sum += source(row, number / channel_step);
    }
    return sum / float(repeats);
}

uint coarse_row(const uint frame, const uint y, const uint x) {
    uint t = frame < first ? frame : first + (frame - first) * (in_frames - first) / (frames - first);
    return (t * in_height + y * in_height / height) * in_width + x * in_width / width;
}

// The row of the result, whose value before is in v.
uint place(const uint frame, const uint y, const uint x, const uint column, const uint count, inout vec4 v) {
    v = src_some(IN_FORMAT,
                 in_offset + (((frame + first) * in_height + y) * in_width + x + in_frames) * in_pitch + column, count);
    if (MORE) {
        uint row = ((frame + first) * line_step + y + repeats) * pixel_step + x + modulus;
        float own = MODE == MODE_FADE_DOWN ? float(y) / float(height) : float(x) / float(width);
        v = more_some(MORE_FORMAT, more_offset + row * more_pitch + column, count) * (1.0 - own) + v * own;
    }
    return (frame * side + y + channel_step) * time + x + time_step;
}

void main() {
    uint quads = (columns + 3u) / 4u, i = (first_group + gl_WorkGroupID.x) * THREADS + gl_LocalInvocationID.x;
    if (i >= rows * quads) return;
    uint row = i / quads, column = i % quads * 4u, area = height * width, frame = row / area, pixel = row % area;
    uint y = pixel / width, x = pixel % width, count = min(columns - column, 4u);
    vec4 v = vec4(0.0);
    for (uint j = 0u; j < (OP == OP_FILL || OP == OP_PLACE ? 0u : count); j++) {
        uint c = column + j;
        float one;
        if (OP == OP_BLEND)
            one = blend(frame, pixel, c);
        else if (OP == OP_SPREAD)
            one = spread(frame, y, x, c);
        else if (OP == OP_GATHER)
            one = gather(frame, y, x, c);
        else if (OP == OP_FOLD)
            one = source((frame * columns + c) % frames * area + pixel, (frame * columns + c) / frames);
        else if (OP == OP_UNFOLD)
            one = source((c * frames + frame) / columns * area + pixel, (c * frames + frame) % columns);
        else
            one = source(row, c);
        v[j] = one;
    }
    if (OP == OP_CONDITION) {
        uint coarse = coarse_row(frame, y, x);
        v = fma(v, more_some(MORE_FORMAT, more_offset + coarse * more_pitch + column, count),
                shift_some(shift_offset + coarse * shift_pitch + column, count));
        precise vec4 silu = v / (1.0 + exp(-clamp(v, -88.0, 88.0)));
        if (MODE != 0u) v = silu;
    } else if (OP == OP_DRAW) {
        vec4 spread = src_some(IN_FORMAT, in_offset + row * in_pitch + columns + column, count);
        if (MORE)
            v += exp(0.5 * clamp(spread, -30.0, 20.0)) *
                 more_some(MORE_FORMAT, more_offset + row * more_pitch + column, count);
        v *= weight;
    } else if (OP == OP_PLACE) {
        row = place(frame, y, x, column, count, v);
    } else if (MORE) {
        v = weight * v + more_weight * more_some(MORE_FORMAT, more_offset + row * more_pitch + column, count);
    }
    if (CLAMP) v = clamp(v, -1.0, 1.0);
    dst_store_some(OUT_FORMAT, out_offset + row * out_pitch + column, count, v);
}
