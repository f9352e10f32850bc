// What every kernel shares. A tensor is a matrix of F32 or F16 elements with a pitch; both formats are read and written through
// 32-bit words, four elements at a time, so that one module serves every rung and needs no 16-bit feature of the device.
// Drivers know the formats when they compile, and drop what is not needed; the code here is short, for modules are shipped.
#extension GL_EXT_control_flow_attributes : require

#define FORMAT_F32 0u // these two are the shift from elements to words
#define FORMAT_F16 1u
#define FORMAT_I8 3u // rows of int8, zeros up to a multiple of 16, a scale; offsets and pitches count bytes
#define QUAD uvec4(0u, 1u, 2u, 3u)

vec4 unpack4(const uvec2 halves) { return vec4(unpackHalf2x16(halves.x), unpackHalf2x16(halves.y)); }
uvec2 pack4(const vec4 v) { return uvec2(packHalf2x16(v.xy), packHalf2x16(v.zw)); }
float unpack1(const uint format, const uint word, const uint at) { return mix(unpackHalf2x16(word)[at & 1u], uintBitsToFloat(word), format == FORMAT_F32); }

// A binding that is read. `at` counts elements from the start of the binding.
//   NAME_load1: one element. NAME_load4: four, at is a multiple of 4. NAME_some: the first count of four (the rest is 0), any at.
#define READABLE_WORDS(BINDING, NAME, ACCESS)                                                              \
    layout(binding = BINDING) ACCESS buffer NAME##_F4 { vec4 NAME##_f4[]; };                               \
    layout(binding = BINDING) ACCESS buffer NAME##_U1 { uint NAME##_u1[]; };                               \
    float NAME##_load1(const uint format, const uint at) { return unpack1(format, NAME##_u1[at >> format], at); }      \
    vec4 NAME##_some(const uint format, const uint at, const uint count) {                                                   \
        vec4 v = vec4(0.0);                                                                                \
        for (uint i = 0u; i < min(count, 4u); i++) v = mix(v, vec4(NAME##_load1(format, at + i)), equal(QUAD, uvec4(i))); \
        return v;                                                                                          \
    }
#define READABLE(BINDING, NAME, ACCESS)                                                                    \
    READABLE_WORDS(BINDING, NAME, ACCESS)                                                                  \
    layout(binding = BINDING) ACCESS buffer NAME##_H4 { uvec2 NAME##_h4[]; };                              \
    vec4 NAME##_load4(const uint format, const uint at) {                                                              \
        return format == FORMAT_F32 ? NAME##_f4[at >> 2] : unpack4(NAME##_h4[at >> 2]);                    \
    }

// A binding that is written (and read). NAME_store4: four elements, at is a multiple of 4. NAME_store_some: the first count of four;
// F16 wants an even at, and an odd last element takes the element of padding behind it with it.
#define WRITABLE(BINDING, NAME)                                                                            \
    READABLE(BINDING, NAME, )                                                                              \
    void NAME##_store4(const uint format, const uint at, const vec4 v) {                                                     \
        if (format == FORMAT_F32) NAME##_f4[at >> 2] = v;                                                  \
        else NAME##_h4[at >> 2] = pack4(v);                                                                \
    }                                                                                                      \
    void NAME##_store_some(const uint format, const uint at, const uint count, const vec4 v) {                                     \
        uvec4 words = format == FORMAT_F32 ? floatBitsToUint(v) : uvec4(pack4(v), 0u, 0u);                 \
        for (uint i = 0u; i < min(count, 4u); i += 1u << format) {                                         \
            NAME##_u1[(at + i) >> format] = words.x;                                                       \
            words = words.yzww;                                                                            \
        }                                                                                                  \
    }

// The same for what is always F32, and only read.
#define READABLE_F32(BINDING, NAME)                                                                        \
    READABLE_WORDS(BINDING, NAME, readonly)                                                                \
    vec4 NAME##_load4(const uint at) { return NAME##_f4[at >> 2]; }                                              \
    vec4 NAME##_some(const uint at, const uint count) { return NAME##_some(FORMAT_F32, at, count); }
