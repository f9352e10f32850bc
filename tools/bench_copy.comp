#version 450
// The ceiling of a device's memory: each invocation copies four pieces of 16 bytes, and a workgroup neighbouring ones.
// dit-bench holds the result of:
// glslangValidator -V --target-env vulkan1.1 -x -o tools/bench_copy.inc tools/bench_copy.comp
layout(local_size_x = 256) in;
layout(set = 0, binding = 0) readonly buffer From { uvec4 from[]; };
layout(set = 0, binding = 1) writeonly buffer To { uvec4 to[]; };

void main() {
    uint at = gl_WorkGroupID.x * 1024 + gl_LocalInvocationID.x;
    uvec4 a = from[at], b = from[at + 256], c = from[at + 512], d = from[at + 768];
    to[at] = a;
    to[at + 256] = b;
    to[at + 512] = c;
    to[at + 768] = d;
}
