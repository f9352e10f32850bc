// What every kernel shares. A tensor is a matrix of F32 or F16 elements with a pitch; both formats are read and written through
// 32-bit words, four elements at a time, so that one module serves every rung and needs no 16-bit feature of the device.
#extension GL_EXT_control_flow_attributes : require

#define FORMAT_F32 0u
#define FORMAT_F16 1u
#define FORMAT_I8 3u // rows of int8, zeros up to a multiple of 16, a scale; offsets and pitches count bytes

vec4 unpack4(uvec2 halves) { return vec4(unpackHalf2x16(halves.x), unpackHalf2x16(halves.y)); }
uvec2 pack4(vec4 v) { return uvec2(packHalf2x16(v.xy), packHalf2x16(v.zw)); }

// A binding that is read. `at` counts elements from the start of the binding.
//   NAME_load1: one element. NAME_load4: four, at is a multiple of 4. NAME_some: the first count of four (the rest is 0), any at.
#define READABLE(BINDING, NAME, ACCESS)                                                                                    \
    layout(binding = BINDING) ACCESS buffer NAME##_F4 { vec4 NAME##_f4[]; };                                               \
    layout(binding = BINDING) ACCESS buffer NAME##_H4 { uvec2 NAME##_h4[]; };                                              \
    layout(binding = BINDING) ACCESS buffer NAME##_F1 { float NAME##_f1[]; };                                              \
    layout(binding = BINDING) ACCESS buffer NAME##_U1 { uint NAME##_u1[]; };                                               \
    float NAME##_load1(uint format, uint at) {                                                                             \
        return format == FORMAT_F32 ? NAME##_f1[at] : unpackHalf2x16(NAME##_u1[at >> 1])[at & 1u];                         \
    }                                                                                                                      \
    vec4 NAME##_load4(uint format, uint at) {                                                                              \
        return format == FORMAT_F32 ? NAME##_f4[at >> 2] : unpack4(NAME##_h4[at >> 2]);                                    \
    }                                                                                                                      \
    vec4 NAME##_some(uint format, uint at, uint count) {                                                                   \
        uvec4 from = min(uvec4(at, at + 1u, at + 2u, at + 3u), uvec4(at + min(count, 4u) - 1u));                           \
        vec4 v = vec4(NAME##_load1(format, from.x), NAME##_load1(format, from.y), NAME##_load1(format, from.z),            \
                      NAME##_load1(format, from.w));                                                                       \
        return mix(vec4(0.0), v, lessThan(uvec4(0u, 1u, 2u, 3u), uvec4(count)));                                           \
    }

// A binding that is written (and read). NAME_store4: four elements, at is a multiple of 4. NAME_store_some: the first count of four;
// F16 wants an even at, and an odd last element takes the element of padding behind it with it.
#define WRITABLE(BINDING, NAME)                                                                         \
    READABLE(BINDING, NAME, )                                                                           \
    void NAME##_store4(uint format, uint at, vec4 v) {                                                  \
        if (format == FORMAT_F32) NAME##_f4[at >> 2] = v;                                               \
        else NAME##_h4[at >> 2] = pack4(v);                                                             \
    }                                                                                                   \
    void NAME##_store_some(uint format, uint at, uint count, vec4 v) {                                  \
        if (format == FORMAT_F32) {                                                                     \
            NAME##_f1[at] = v.x;                                                                        \
            if (count > 1u) NAME##_f1[at + 1u] = v.y;                                                   \
            if (count > 2u) NAME##_f1[at + 2u] = v.z;                                                   \
            if (count > 3u) NAME##_f1[at + 3u] = v.w;                                                   \
        } else {                                                                                        \
            NAME##_u1[at >> 1] = packHalf2x16(v.xy);                                                    \
            if (count > 2u) NAME##_u1[(at >> 1) + 1u] = packHalf2x16(v.zw);                             \
        }                                                                                               \
    }

// The same for what is always F32, and only read.
#define READABLE_F32(BINDING, NAME)                                                                                 \
    layout(binding = BINDING) readonly buffer NAME##_F4 { vec4 NAME##_f4[]; };                                      \
    layout(binding = BINDING) readonly buffer NAME##_F1 { float NAME##_f1[]; };                                     \
    vec4 NAME##_load4(uint at) { return NAME##_f4[at >> 2]; }                                                       \
    vec4 NAME##_some(uint at, uint count) {                                                                         \
        uvec4 from = min(uvec4(at, at + 1u, at + 2u, at + 3u), uvec4(at + min(count, 4u) - 1u));                    \
        vec4 v = vec4(NAME##_f1[from.x], NAME##_f1[from.y], NAME##_f1[from.z], NAME##_f1[from.w]);                  \
        return mix(vec4(0.0), v, lessThan(uvec4(0u, 1u, 2u, 3u), uvec4(count)));                                    \
    }
