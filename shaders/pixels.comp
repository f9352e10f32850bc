#version 450
// Between planes (latents, pictures: [channels, height * width]) and rows (tokens, pixels: [positions, channels]). One
// invocation makes four neighbouring columns of the result; results have room for whole groups of four.
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

#define OP_PATCHIFY                                                                                                    \
    0u                       // planes -> tokens, column (c, dt, dy, dx), or with token_channels (dt, dy, dx, c),
                             // times an optional scale
#define OP_UNPATCHIFY 1u     // tokens with column (dt, dy, dx, c) -> planes of the first channels
#define OP_PLANES_TO_ROWS 2u // value * scale + shift
#define OP_IMAGE 3u          // rows of three channels, or four with alpha, in -1..1 -> packed RGBA8 and planes in 0..1
#define OP_TILE 4u           // a rectangle of one picture's rows into another's, see tile() below
#define OP_UNPACK 6u         // packed RGBA8 -> rows of its first channels in -1..1
#define OP_UNPATCHIFY_PLANES 5u // as unpatchify, from tokens with column (c, dt, dy, dx)
#define OP_LIGHT 7u             // planes of sRGB values in 0..1 -> RGBA of halves, linear light, two words a pixel
#define OP_GREY 8u              // the same -> greys of 8 bits, four pixels a word
#define OP_COLORS 9u            // planes of a latent -> rows of red, green and blue, see colors() below
#define OP_ENLARGE 10u          // as image, from a picture that is smaller, with straight lines between its pixels

layout(constant_id = 1) const uint OP = OP_PATCHIFY;
layout(constant_id = 2) const uint IN_FORMAT = FORMAT_F32;
layout(constant_id = 3) const uint OUT_FORMAT = FORMAT_F32;
layout(constant_id = 4) const bool SCALED = false; // patchify: binding 1 holds one float
layout(constant_id = 5) const bool RGBA = false;
layout(constant_id = 6) const bool RGB = false;
layout(constant_id = 7) const bool SWAP = false;  // BGRA
layout(constant_id = 8) const bool WATCH = false; // report values that are not finite

layout(push_constant) uniform Push {
    uint first_group;
    uint rows, columns; // of the result; image: 1 row of pixels
    uint in_offset, in_pitch;
    uint out_offset, out_pitch;
    uint scale_offset;
    uint batch, channels, grid_height, grid_width, patch_size, token_channels;
    float scale, shift;
    uint rgb_offset, rgb_pitch, health_offset;
    uint grid_frames, patch_frames, height, width; // of planes [frames, height, width], which may end inside a patch
};

READABLE(0, src, readonly)
READABLE(1, factor, readonly)
WRITABLE(2, dst)
WRITABLE(3, rgb)
layout(binding = 4) buffer Health { uint health[]; };

float source(const uint row, const uint column) { return src_load1(IN_FORMAT, in_offset + row * in_pitch + column); }

float patchify(const uint row, const uint column) {
    uint area = grid_height * grid_width, item = row / (grid_frames * area), f = row / area % grid_frames;
    uint patch_area = patch_size * patch_size, c = column / (patch_frames * patch_area), at = column;
    if (token_channels != 0u) {
        c = column % token_channels;
        at = column / token_channels;
    }
    uint y = row % area / grid_width * patch_size + at / patch_size % patch_size;
    uint x = row % grid_width * patch_size + at % patch_size;
    f = f * patch_frames + at / patch_area % patch_frames;
    if (y >= height || x >= width) return 0.0;
    float v = source(item * channels + c, (f * height + y) * width + x);
    return SCALED ? v * factor_load1(FORMAT_F32, scale_offset) : v;
}

float unpatchify(const uint row, const uint column) {
    uint item = row / channels, c = row % channels, x = column % width, y = column / width % height,
         f = column / (width * height), volume = patch_frames * patch_size * patch_size;
    uint token = ((item * grid_frames + f / patch_frames) * grid_height + y / patch_size) * grid_width + x / patch_size;
    uint pixel = (f % patch_frames * patch_size + y % patch_size) * patch_size + x % patch_size;
    return source(token, OP == OP_UNPATCHIFY ? pixel * token_channels + c : c * volume + pixel);
}

float planes_to_rows(const uint row, const uint column) {
    uint area = grid_height * grid_width;
    return source(row / area * channels + column, row % area) * scale + shift;
}

// Row c of binding 1 has what channel c adds to red, green and blue; the row behind the channels is added to all. A
// pixel of the latent is a patch of the result's: channel c of pixel (dy, dx) is plane c * patch^2 + dy * patch + dx.
float colors(const uint row, const uint column) {
    uint line = grid_width * patch_size, y = row / line, x = row % line;
    uint at = y / patch_size * grid_width + x / patch_size, plane = y % patch_size * patch_size + x % patch_size;
    float sum = factor_load1(FORMAT_F32, scale_offset + channels * token_channels + column);
    for (uint c = 0u; c < channels; c++)
        sum += source(c * patch_size * patch_size + plane, at) *
               factor_load1(FORMAT_F32, scale_offset + c * token_channels + column);
    return sum;
}

float value(const uint row, const uint column) {
    float v = 0.0;
    if (column >= columns)
        v = 0.0;
    else if (OP == OP_COLORS)
        v = colors(row, column);
    else if (OP == OP_PATCHIFY)
        v = patchify(row, column);
    else if (OP == OP_UNPATCHIFY || OP == OP_UNPATCHIFY_PLANES)
        v = unpatchify(row, column);
    else if (OP == OP_UNPACK)
        v = unpackUnorm4x8(src_u1[in_offset + row])[SWAP && column < 3u ? 2u - column : column] * 2.0 - 1.0;
    else
        v = planes_to_rows(row, column);
    return v;
}

vec3 rgb_of(const uint pixel) { return vec3(source(pixel, 0u), source(pixel, 1u), source(pixel, 2u)); }

// The picture of grid_height lines becomes patch_size times as large. Its pixels are where their centres are.
vec3 between(const uint pixel) {
    uint line = grid_width * patch_size;
    vec2 at = (vec2(pixel % line, pixel / line) + 0.5) / float(patch_size) - 0.5;
    at = clamp(at, vec2(0.0), vec2(grid_width - 1u, grid_height - 1u));
    uvec2 low = uvec2(at), high = min(low + 1u, uvec2(grid_width - 1u, grid_height - 1u));
    vec2 part = at - vec2(low);
    vec3 above = mix(rgb_of(low.y * grid_width + low.x), rgb_of(low.y * grid_width + high.x), part.x);
    vec3 below = mix(rgb_of(high.y * grid_width + low.x), rgb_of(high.y * grid_width + high.x), part.x);
    return mix(above, below, part.y);
}

// docs/models.md 4.1: u8 = round(clamp(out / 2 + 0.5, 0, 1) * 255), half to even.
void image(const uint pixel) {
    vec3 v = OP == OP_ENLARGE ? between(pixel) : rgb_of(pixel), unit = v * 0.5 + 0.5;
    uvec3 byte_value = uvec3(roundEven(clamp(unit, 0.0, 1.0) * 255.0));
    if (WATCH && any(equal(floatBitsToUint(v) & 0x7f800000u, uvec3(0x7f800000u))))
        atomicOr(health[health_offset + 2u], 1u);
    if (SWAP) byte_value = byte_value.bgr;
    uint alpha = 255u;
    if (OP == OP_IMAGE && channels == 4u)
        alpha = uint(roundEven(clamp(source(pixel, 3u) * 0.5 + 0.5, 0.0, 1.0) * 255.0));
    if (RGBA) dst_u1[out_offset + pixel] = byte_value.r | byte_value.g << 8 | byte_value.b << 16 | alpha << 24;
    if (RGB) {
        for (uint c = 0u; c < 3u; c++) rgb_u1[rgb_offset + c * rgb_pitch + pixel] = floatBitsToUint(unit[c]);
    }
}

// IEC 61966-2-1, continued beyond 0..1.
float linear(const float v) {
    float size = abs(v);
    return sign(v) * (size <= 0.04045 ? size / 12.92 : pow((size + 0.055) / 1.055, 2.4));
}

uint light(const uint word) {
    uint pixel = word / 2u, part = word & 1u; // red and green, or blue and alpha
    float first = linear(source(2u * part, pixel));
    return pack2(vec2(first, part == 0u ? linear(source(1u, pixel)) : 1.0));
}

// Luma of ITU-R BT.709.
uint grey(const uint word) {
    uint bytes = 0u;
    for (uint i = 0u; i < 4u; i++) {
        vec3 v = vec3(source(0u, 4u * word + i), source(1u, 4u * word + i), source(2u, 4u * word + i));
        float luma = dot(clamp(v, 0.0, 1.0), vec3(0.2126, 0.7152, 0.0722));
        bytes |= uint(roundEven(clamp(luma, 0.0, 1.0) * 255.0)) << 8u * i;
    }
    return bytes;
}

// batch and channels: pixels from line to line of source and result. The first patch_size lines and token_channels
// columns are added to what the result holds, with weights that rise; over the last rgb_offset and rgb_pitch they fall,
// so that sums are 1. Smooth steps: what lies at the border of a tile, where it sees zeros instead of its neighbour,
// hardly counts.
float ramp(const uint i, const uint count, const uint rising, const uint falling) {
    float w = 1.0;
    if (i < rising)
        w = (float(i) + 0.5) / float(rising);
    else if (count - i <= falling)
        w = (float(count - i) - 0.5) / float(falling);
    return w * w * (3.0 - 2.0 * w);
}

vec4 tile(const uint row, const uint column, out uint at) {
    uint y = row / grid_width, x = row % grid_width;
    vec4 v = src_load4(IN_FORMAT, in_offset + (y * batch + x) * in_pitch + column);
    v *= ramp(y, grid_height, patch_size, rgb_offset) * ramp(x, grid_width, token_channels, rgb_pitch);
    at = out_offset + (y * channels + x) * out_pitch + column;
    return y < patch_size || x < token_channels ? v + dst_load4(OUT_FORMAT, at) : v;
}

void main() {
    uint quads = (columns + 3u) / 4u, i = (first_group + gl_WorkGroupID.x) * THREADS + gl_LocalInvocationID.x;
    if (i >= rows * quads) return;
    uint row = i / quads, column = i % quads * 4u;
    if (OP == OP_IMAGE || OP == OP_ENLARGE) {
        for (uint p = column; p < min(column + 4u, columns); p++) image(p);
        return;
    }
    if (OP == OP_LIGHT || OP == OP_GREY) {
        for (uint word = column; word < min(column + 4u, columns); word++)
            dst_u1[out_offset + word] = OP == OP_LIGHT ? light(word) : grey(word);
        return;
    }
    uint at = out_offset + row * out_pitch + column;
    vec4 v;
    if (OP == OP_TILE)
        v = tile(row, column, at);
    else
        v = vec4(value(row, column), value(row, column + 1u), value(row, column + 2u), value(row, column + 3u));
    dst_store4(OUT_FORMAT, at, v);
}
