#version 450
// What a device's vector units can do at best: eight sums per invocation that only multiply-adds happen to, in registers.
// dit-bench holds the result of: glslangValidator -V --target-env vulkan1.1 -x -o tools/bench_fma.inc tools/bench_fma.comp
layout(local_size_x = 64) in;
layout(set = 0, binding = 0) buffer Result { float result[]; };

void main() {
    float start = float(gl_GlobalInvocationID.x) * 1e-6;
    float a = start, b = start + 1.0, c = start + 2.0, d = start + 3.0, e = start + 4.0, f = start + 5.0, g = start + 6.0, h = start + 7.0;
    for (int i = 0; i < 256; i++) { // 256 * 4 * 8 multiply-adds
#define ROUND \
    a = fma(a, 0.999, 0.001), b = fma(b, 0.999, 0.001), c = fma(c, 0.999, 0.001), d = fma(d, 0.999, 0.001); \
    e = fma(e, 0.999, 0.001), f = fma(f, 0.999, 0.001), g = fma(g, 0.999, 0.001), h = fma(h, 0.999, 0.001);
        ROUND ROUND ROUND ROUND
    }
    result[gl_GlobalInvocationID.x] = a + b + c + d + e + f + g + h; // so that no compiler drops them
}
