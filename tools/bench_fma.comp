#version 450
// The ceiling of a device's vector units: each invocation does multiply-adds on eight sums in registers, and nothing
// else. dit-bench holds the results of:
// glslangValidator -V --target-env vulkan1.1 -x -o tools/bench_fma.inc tools/bench_fma.comp
// and, with -DHALF (pairs of half floats), tools/bench_half.inc; with -DDOT (four products of bytes each),
// tools/bench_dot.inc.
#if defined HALF
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#define VALUE f16vec2
#define START f16vec2(float(gl_GlobalInvocationID.x) * 1e-6)
#define STEP(V) V = fma(V, f16vec2(0.999), f16vec2(0.001))
#define RESULT(V) float((V).x + (V).y)
#elif defined DOT
#extension GL_EXT_integer_dot_product : require
#define VALUE int
#define START int(gl_GlobalInvocationID.x * 0x01030507u)
#define STEP(V) V += dotPacked4x8EXT(V, 0x03fe05fc)
#define RESULT(V) float(V)
#else
#define VALUE float
#define START float(gl_GlobalInvocationID.x) * 1e-6
#define STEP(V) V = fma(V, 0.999, 0.001)
#define RESULT(V) V
#endif
layout(local_size_x = 64) in;
layout(set = 0, binding = 0) buffer Result { float result[]; };

void main() {
    VALUE start = START;
    VALUE a = start, b = start + VALUE(1), c = start + VALUE(2), d = start + VALUE(3), e = start + VALUE(4), f = start + VALUE(5),
          g = start + VALUE(6), h = start + VALUE(7);
    for (int i = 0; i < 256; i++) { // 256 * 4 * 8 steps
#define ROUND STEP(a); STEP(b); STEP(c); STEP(d); STEP(e); STEP(f); STEP(g); STEP(h);
        ROUND ROUND ROUND ROUND
    }
    result[gl_GlobalInvocationID.x] = RESULT(a + b + c + d + e + f + g + h); // so that no compiler drops them
}
