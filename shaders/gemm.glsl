// Common part of all GEMM kernels: the problem, the rows of A (a matrix, or the pixels of an image under a convolution
// tap), and the epilogue.
//   out[r, n] = residual[r, n] + gate[r / rows_per_gate, n] * (multiply[r, n] * activation(sum_k A[r, k] * W[n, k] +
//   bias[n]))
#include "common.glsl"
#include "activation.glsl"

layout(constant_id = 1) const uint A_FORMAT = FORMAT_F32;
layout(constant_id = 2) const uint W_FORMAT =
    FORMAT_F32; // or PACKED: as stored, for kernels that decode it when they load it
layout(constant_id = 3) const uint OUT_FORMAT = FORMAT_F32;
layout(constant_id = 4) const uint OPERAND_FORMATS = 0; // bit 0: of the residual, bit 1: of the multiplier
#ifdef PUSHED_EPILOGUE // one pipeline has all epilogues: drivers on processors take a third of a second to compile one
#define PARTS (band >> 16 & 15u)
#define ACTIVATION (band >> 20)
#define BAND (band & 0xffffu)
#else
layout(constant_id = 5) const uint PARTS = 0; // which of the optional operands exist
layout(constant_id = 6) const uint ACTIVATION = ACTIVATION_NONE;
#define BAND band
#endif
// Kernels that can do only one thing define these.
#ifndef VECTOR
layout(constant_id = 7) const bool VECTOR = true; // N, and every offset and pitch along N, is a multiple of 4
#endif
layout(constant_id = 8) const bool TAIL = false; // K is no multiple of 4; on matrix units and by broadcasts: of a slice
#ifndef CONV
layout(constant_id = 9) const uint CONV_FORM = 0;
#define CONV (CONV_FORM != 0u)
#define CONV_FRAMES ((CONV_FORM & 2u) != 0u) // taps over frames, too: rows are those of a clip, frame after frame
#define CONV_EDGES ((CONV_FORM & 4u) != 0u)  // beyond the edges stand the pixels at the edges in place of zeros
#define CONV_ENDS ((CONV_FORM & 8u) != 0u)   // before the first frame stands that frame, behind the last one that
#else
#define CONV_FRAMES false
#define CONV_EDGES false
#define CONV_ENDS false
#endif
#ifndef INT8
#define INT8 (A_FORMAT == FORMAT_I8)
#endif
#define BLOCKS (A_FORMAT == FORMAT_I8_BLOCKS) // sums have their scales before the epilogue
#ifndef FLOAT8                                // rows of A are E4M3 with a scale each, those of W have none
#define FLOAT8 false
#endif
#define PART_BIAS 1u
#define PART_MULTIPLY 2u
#define PART_GATE 4u
#define PART_RESIDUAL 8u
#define HAS(PART) ((PARTS & (PART)) != 0u)

layout(push_constant) uniform Push {
    uint first_group;
    uint M, N, K;
    uint a_offset, a_pitch;
    uint w_offset, w_pitch; // K of every tap of a convolution is padded with zeros to a multiple of 4
    uint out_offset, out_pitch;
    uint bias_offset;
    uint multiply_offset, multiply_pitch;
    uint gate_offset, gate_pitch, rows_per_gate;
    uint residual_offset, residual_pitch;
    uint tiles_m, tiles_n, band; // tiles are numbered band by band of `band` tile rows, inside a band column by column
    uint in_height, in_width, out_height, out_width; // of the image; the input counts after upsampling
    uint kernel, stride, pad,
        upsample; // taps per side; pad: zeros on the left, and in the upper half, signed, on top, less lines of
                  // the input above those that the first output is about; right shift of input coordinates
    uint guard_offset;
    uint in_frames;
    uint frame_form; // bits 0 to 7: taps over frames; 8 to 15: frames from one result to the next; 16 on: frames that
                     // are missing before the first
};

READABLE(0, a, readonly)
READABLE(1, w, readonly)
WRITABLE(2, dst)
READABLE_F32(3, bias)
READABLE(4, mul, readonly)
READABLE_F32(5, gate)
READABLE(6, res, readonly)
#define GUARD_BINDING 7
#include "guard.glsl"

// Tile row and column of workgroup number g.
uvec2 tile_of(const uint g) {
    uint per_band = BAND * tiles_n, number = g / per_band, first = number * BAND;
    uint rows = min(BAND, tiles_m - first), i = g - number * per_band, column = i / rows;
    return uvec2(first + i - column * rows, column);
}

// Element offset of A's row r under a tap; valid is false where the tap falls on padding.
struct Pixel {
    uint image; // first row of the row's image; CONV_FRAMES: number of the frame under tap 0, signed
    int y, x;   // input coordinates under tap (0, 0), after upsampling
};
Pixel pixel_of(const uint row) {
    uint area = out_height * out_width, item = row / area, i = row % area;
    uint in_area = (in_height >> upsample) * (in_width >> upsample);
    return Pixel(CONV_FRAMES ? item * (frame_form >> 8 & 255u) - (frame_form >> 16) : item * in_area,
                 int(i / out_width * stride) - (int(pad) >> 16), int(i % out_width * stride) - int(pad & 0xffffu));
}
uint tap_row(const Pixel p, const uint number, out bool valid) {
    uint tap = number, image = p.image;
    valid = true;
    if (CONV_FRAMES) {
        int frame = int(image + tap / (kernel * kernel)), inside = clamp(frame, 0, int(in_frames) - 1);
        valid = CONV_ENDS || frame == inside;
        image = uint(inside) * ((in_height >> upsample) * (in_width >> upsample));
        tap %= kernel * kernel;
    }
    ivec2 at = ivec2(p.y, p.x) + ivec2(uvec2(tap / kernel, tap % kernel)),
          nearest = clamp(at, ivec2(0), ivec2(in_height, in_width) - 1);
    if (!CONV_EDGES) valid = all(bvec2(valid, at == nearest)); // no && in a loop over slices: it is a branch
    uvec2 pixel = uvec2(nearest) >> upsample;
    return image + pixel.x * (in_width >> upsample) + pixel.y;
}
uint tap_count() { return CONV ? kernel * kernel * (CONV_FRAMES ? frame_form & 255u : 1u) : 1u; }

// Four bytes as whole numbers. Sums of INT8_EXACT products of them are exact in float: 1024 * 128 * 127 < 2^24.
#define INT8_EXACT 1024u
vec4 unpack_bytes(const uint word) {
    int i = int(word);
    return vec4(bitfieldExtract(i, 0, 8), bitfieldExtract(i, 8, 8), bitfieldExtract(i, 16, 8), i >> 24);
}
vec4 load_a(const uint at) { return INT8 ? unpack_bytes(a_u1[at >> 2]) : a_load4(A_FORMAT, at); }
// Weights of 4 bit become bytes with their values in the upper half, sixteen times as large, which their scales undo:
// that takes a mask, and for the first four of eight neighbours a shift. K is a multiple of 32.
#define INT4 (INT8 && W_FORMAT == FORMAT_I4)
uint i4_bytes(const uint word, const uint k) { return ((k & 4u) != 0u ? word : word << 4) & 0xf0f0f0f0u; }
uint w_bytes(const uint row_at, const uint k) {
    return INT4 ? i4_bytes(w_u1[(row_at + (k >> 1)) >> 2], k) : w_u1[(row_at + k) >> 2];
}
vec4 load_w(const uint row_at, const uint k) {
    return INT8 ? unpack_bytes(w_bytes(row_at, k)) : w_load4(W_FORMAT, row_at + k);
}

// Scales stand behind a row's bytes.
float row_scale(const uint row) { return uintBitsToFloat(a_u1[(a_offset + row * a_pitch + ((K + 15u) & ~15u)) >> 2]); }
vec4 column_scales(const uint n) {
    vec4 v = vec4(0.0);
    uint behind = INT4 ? K >> 1 : (K + 15u) & ~15u;
    for (uint i = 0u; i < min(N - n, 4u); i++)
        v = mix(v, vec4(uintBitsToFloat(w_u1[(w_offset + (n + i) * w_pitch + behind) >> 2])), equal(QUAD, uvec4(i)));
    return v;
}

// Zeroes what lies beyond K in a group of four that starts at k: padding in memory may hold anything.
vec4 mask_tail(const vec4 v, const uint k) { return TAIL ? mix(vec4(0.0), v, lessThan(uvec4(k) + QUAD, uvec4(K))) : v; }

#ifdef DECODES
#define PACKED ((W_FORMAT & 32u) != 0u)        // then bits 0 to 4 are the dit_type, and w_pitch counts bytes
#define PACKED_ROUNDS ((W_FORMAT & 64u) != 0u) // to F16, which is what an expansion would have written
#define TYPE (W_FORMAT & 31u)
#define SOURCE(I) w_u1[w_offset + (I)]
#include "decode.glsl"
const uint block_bytes = TYPE == TYPE_Q8_0       ? 34u
                         : TYPE == TYPE_Q4_0     ? 18u
                         : TYPE == TYPE_I4_GROUP ? 68u
                         : TYPE == TYPE_MXFP4    ? 17u
                         : TYPE == TYPE_NVFP4    ? 36u
                         : TYPE == TYPE_Q4_K     ? 144u
                                                 : 210u; // Q6_K
vec4 decode_w(const uint column, const uint k) {
    vec4 v = block_elements(column * w_pitch + k / BLOCK * block_bytes, k % BLOCK);
    return PACKED_ROUNDS ? unpack4(pack4(v)) : v;
}
#define W_VALUES(COLUMN, K) (PACKED ? decode_w(COLUMN, K) : w_load4(W_FORMAT, w_offset + (COLUMN)*w_pitch + (K)))
#endif

uint gate_row(const uint row) { return rows_per_gate == 0u ? 0u : row / rows_per_gate; }

#define OPERAND(NAME, FORMAT, AT) (VECTOR ? NAME##_load4(FORMAT, AT) : NAME##_some(FORMAT, AT, N - n))
#define OPERAND_F32(NAME, AT) (VECTOR ? NAME##_load4(AT) : NAME##_some(AT, N - n))

// The factors of a guard's record, read once: what the result is multiplied with, what undoes that of the operands.
vec2 guard_factors = vec2(1.0);
void guard_begin() {
    if (GUARDED) guard_factors = uintBitsToFloat(guard[guard_offset].xy);
}
// A thread remembers the largest magnitudes (as bits) of the result and of what was narrowed.
const uint guard_limit = OUT_FORMAT == FORMAT_F16 ? 0x477fe000u : 0x7f800000u, narrow_limit = 0x477fe000u;
uint result_peak = 0u, narrow_peak = 0u;
vec4 guard_fit(const vec4 v, const uint limit, inout uint peak) {
    uvec4 bits = floatBitsToUint(v) & 0x7fffffffu;
    bits.xy = max(bits.xy, bits.zw);
    uint most = max(bits.x, bits.y);
    peak = max(peak, most);
    return most < limit ? v : clamp(v, -65504.0, 65504.0); // so that what follows can still be judged
}
// Notes what did not fit; the last thing that main() does, once and not for each value.
void guard_note() {
    if (GUARDED && result_peak >= guard_limit) atomicMax(guard[guard_offset + 1u].x, result_peak);
    if (GUARDED && narrow_peak >= narrow_limit) atomicMax(guard[guard_offset + 1u].y, narrow_peak);
}
// For kernels that compute with F16: what was F32, so that it fits.
vec4 narrow_a(const vec4 v) {
    return GUARDED && A_FORMAT == FORMAT_F32 ? guard_fit(v * GUARD_VALUE(z), narrow_limit, narrow_peak) : v;
}

// The epilogue of four neighbouring columns from n (a multiple of 4) on; at least the first exists. After
// guard_begin().
void finish(vec4 v, const uint row, const uint n) {
    if (INT8 && !BLOCKS) v = v * row_scale(row) * column_scales(n);
    if (FLOAT8) v *= row_scale(row);
    v *= guard_factors.y;
    if (HAS(PART_BIAS)) v += OPERAND_F32(bias, bias_offset + n);
    v = activate(ACTIVATION, v);
    if (HAS(PART_MULTIPLY)) v *= OPERAND(mul, OPERAND_FORMATS >> 1, multiply_offset + row * multiply_pitch + n);
    if (HAS(PART_GATE)) v *= OPERAND_F32(gate, gate_offset + gate_row(row) * gate_pitch + n);
    if (HAS(PART_RESIDUAL)) v += OPERAND(res, OPERAND_FORMATS & 1u, residual_offset + row * residual_pitch + n);
    if (ACTIVATION == ACTIVATION_RELU) v = mix(v, vec4(0.0), lessThan(v, vec4(0.0))); // keeps NaN, for those who watch
    if (GUARDED) v = guard_fit(v * guard_factors.x, guard_limit, result_peak);
    uint at = out_offset + row * out_pitch + n;
    if (VECTOR)
        dst_store4(OUT_FORMAT, at, v);
    else
        dst_store_some(OUT_FORMAT, at, N - n, v);
}
