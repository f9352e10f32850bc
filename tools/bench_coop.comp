#version 450
// The ceiling of a device's cooperative matrices: each subgroup adds products to eight sums in registers, and does
// next to nothing else. dit-bench holds the results of:
// glslangValidator -V --target-env vulkan1.2 -x -o tools/bench_coop_f16.inc tools/bench_coop.comp
// and, with -DS8, tools/bench_coop_s8.inc.
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_EXT_shader_explicit_arithmetic_types_int8 : require
#ifdef S8
#define VALUE int8_t
#define SUM int
#else
#define VALUE float16_t
#define SUM float
#endif
#pragma use_vulkan_memory_model
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint M = 16;
layout(constant_id = 2) const uint N = 16;
layout(constant_id = 3) const uint K = 16;
layout(set = 0, binding = 0) buffer Result { SUM result[]; };

#define LEFT coopmat<VALUE, gl_ScopeSubgroup, M, K, gl_MatrixUseA>
#define RIGHT coopmat<VALUE, gl_ScopeSubgroup, K, N, gl_MatrixUseB>
#define SUMS coopmat<SUM, gl_ScopeSubgroup, M, N, gl_MatrixUseAccumulator>

void main() {
    uint subgroup = gl_WorkGroupID.x * gl_NumSubgroups + gl_SubgroupID;
    VALUE start = VALUE(subgroup & 7u);
    LEFT a0 = LEFT(start), a1 = a0 + a0, change = LEFT(VALUE(1));
    RIGHT b0 = RIGHT(start), b1 = b0 + b0, b2 = b1 + b0, b3 = b1 + b1;
    SUMS c0 = SUMS(SUM(0)), c1 = c0, c2 = c0, c3 = c0, d0 = c0, d1 = c0, d2 = c0, d3 = c0;
    for (int i = 0; i < 64; i++) { // 64 * 4 * 8 products
#define ROUND \
    c0 = coopMatMulAdd(a0, b0, c0); \
    c1 = coopMatMulAdd(a0, b1, c1); \
    c2 = coopMatMulAdd(a0, b2, c2); \
    c3 = coopMatMulAdd(a0, b3, c3); \
    d0 = coopMatMulAdd(a1, b0, d0); \
    d1 = coopMatMulAdd(a1, b1, d1); \
    d2 = coopMatMulAdd(a1, b2, d2); \
    d3 = coopMatMulAdd(a1, b3, d3);
        ROUND ROUND ROUND ROUND
        a0 = a0 + change; // so that no compiler computes a product once for all; seldom, since vector units do it
        a1 = a1 + change;
    }
    c0 = c0 + c1 + c2 + c3 + d0 + d1 + d2 + d3;
    coopMatStore(c0, result, (subgroup & 255u) * M * N, N, gl_CooperativeMatrixLayoutRowMajor); // whoever comes last: nobody reads it
}
