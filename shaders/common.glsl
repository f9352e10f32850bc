// Common part of every kernel. A tensor is a matrix of F32 or F16 elements with a pitch; both formats are read and
// written through 32-bit words, four elements at a time, so that one module serves every rung and needs no 16-bit
// feature of the device. Drivers know the formats when they compile, and drop what is not needed; the code here is
// short, for modules are shipped.
#extension GL_EXT_control_flow_attributes : require
#extension GL_EXT_spirv_intrinsics : require

// Threads of a workgroup. The host sets both constants; gl_WorkGroupSize is not used, for Metal takes no array that is
// sized by it.
layout(local_size_x_id = 0) in;
layout(constant_id = 24) const uint THREADS = 1;

#define FORMAT_F32 0u // these two are the shift from elements to words
#define FORMAT_F16 1u
#define FORMAT_I4 4u        // of weights alone: two values to a byte (docs/kernels.md 1.3), else as the next
#define FORMAT_I8 3u        // rows of int8, zeros up to a multiple of 16, a scale; offsets and pitches count bytes
#define FORMAT_I8_BLOCKS 5u // the same in whole blocks of 32, behind them a scale for each block
#define QUAD uvec4(0u, 1u, 2u, 3u)

vec4 unpack4(const uvec2 halves) { return vec4(unpackHalf2x16(halves.x), unpackHalf2x16(halves.y)); }

// F16 values are rounded to nearest, ties to even, on every driver. Vulkan leaves it to the driver how packHalf2x16 and
// conversions round, and some truncate (RADV, NVK). So each value is first rounded to a multiple of the step that F16
// has at its size, 2^-24 below 2^-14, and is then converted exactly. In between it is 2^112 times as large, so that
// 65520 and more become infinity; truncation would make 65504 of them.
vec2 nearest_half(const vec2 v) {
    uvec2 size = clamp(floatBitsToUint(v) & 0x7f800000u, 0x38800000u, 0x47800000u); // 2^-14 to 2^16
    precise vec2 steps = roundEven(v * uintBitsToFloat(0x84000000u - size)),
                 far_up = steps * uintBitsToFloat(size + 0x33000000u);
    precise vec2 nearest = far_up * 1.925929944387236e-34;
    return nearest;
}
#ifdef HALVES // true in kernels that compute with F16: conversions round to nearest where the device can be told so
spirv_execution_mode(extensions = ["SPV_KHR_float_controls"], capabilities = [4467], 4462,
                     16); // RoundingModeRTE; see diti_spirv_no_rounding
layout(constant_id = 25) const bool CONVERSIONS_ROUND = false;
f16vec2 to_half(const vec2 v) { return f16vec2(CONVERSIONS_ROUND ? v : nearest_half(v)); }
uint pack2(const vec2 v) { return HALVES ? packFloat2x16(to_half(v)) : packHalf2x16(nearest_half(v)); }
// Turnip reads two vectors of halves that lie side by side as four words, and needs more instructions to take these
// apart than a second load takes. A part of the index of every other vector keeps it from that (LOADS_APART): a zero
// that only dit knows, since it dispatches one row of workgroups.
#define APART(N) (LOADS_APART && ((N)&1u) != 0u ? gl_WorkGroupID.y : 0u)
#else
uint pack2(const vec2 v) { return packHalf2x16(nearest_half(v)); }
#endif
uvec2 pack4(const vec4 v) { return uvec2(pack2(v.xy), pack2(v.zw)); }
float unpack1(const uint format, const uint word, const uint at) {
    return mix(unpackHalf2x16(word)[at & 1u], uintBitsToFloat(word), format == FORMAT_F32);
}

// A binding that is read. `at` counts elements from the start of the binding.
//   NAME_load1: one element. NAME_load4: four, at is a multiple of 4. NAME_some: the first count of four (the rest is
//   0), any at.
#define READABLE_WORDS(BINDING, NAME, ACCESS)                                                                          \
    layout(binding = BINDING) ACCESS buffer NAME##_F4 { vec4 NAME##_f4[]; };                                           \
    layout(binding = BINDING) ACCESS buffer NAME##_U1 { uint NAME##_u1[]; };                                           \
    float NAME##_load1(const uint format, const uint at) { return unpack1(format, NAME##_u1[at >> format], at); }      \
    vec4 NAME##_some(const uint format, const uint at, const uint count) {                                             \
        vec4 v = vec4(0.0);                                                                                            \
        for (uint i = 0u; i < min(count, 4u); i++)                                                                     \
            v = mix(v, vec4(NAME##_load1(format, at + i)), equal(QUAD, uvec4(i)));                                     \
        return v;                                                                                                      \
    }
#define READABLE(BINDING, NAME, ACCESS)                                                                                \
    READABLE_WORDS(BINDING, NAME, ACCESS)                                                                              \
    layout(binding = BINDING) ACCESS buffer NAME##_H4 { uvec2 NAME##_h4[]; };                                          \
    vec4 NAME##_load4(const uint format, const uint at) {                                                              \
        return format == FORMAT_F32 ? NAME##_f4[at >> 2] : unpack4(NAME##_h4[at >> 2]);                                \
    }

// A binding that is written (and read). NAME_store4: four elements, at is a multiple of 4. NAME_store_some: the first
// count of four; F16 wants an even at, and an odd last element takes the element of padding behind it with it.
#define WRITABLE(BINDING, NAME)                                                                                        \
    READABLE(BINDING, NAME, spirv_decorate(20) /* Aliased */)                                                          \
    void NAME##_store4(const uint format, const uint at, const vec4 v) {                                               \
        if (format == FORMAT_F32)                                                                                      \
            NAME##_f4[at >> 2] = v;                                                                                    \
        else                                                                                                           \
            NAME##_h4[at >> 2] = pack4(v);                                                                             \
    }                                                                                                                  \
    void NAME##_store_some(const uint format, const uint at, const uint count, const vec4 v) {                         \
        uvec4 words = format == FORMAT_F32 ? floatBitsToUint(v) : uvec4(pack4(v), 0u, 0u);                             \
        for (uint i = 0u; i < min(count, 4u); i += 1u << format) {                                                     \
            NAME##_u1[(at + i) >> format] = words.x;                                                                   \
            words = words.yzww;                                                                                        \
        }                                                                                                              \
    }

// READABLE for what is always F32, and only read.
#define READABLE_F32(BINDING, NAME)                                                                                    \
    READABLE_WORDS(BINDING, NAME, readonly)                                                                            \
    vec4 NAME##_load4(const uint at) { return NAME##_f4[at >> 2]; }                                                    \
    vec4 NAME##_some(const uint at, const uint count) { return NAME##_some(FORMAT_F32, at, count); }
