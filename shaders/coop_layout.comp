#version 450
// How a subgroup spreads the elements of a matrix over its threads, which VK_KHR_cooperative_matrix leaves to the
// driver: for each thread and each of its elements the number of that element, row by row, in a matrix of sums and in a
// first operand. Numbers up to 2048 are exact as halves.
#pragma use_vulkan_memory_model
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#include "common.glsl"
layout(constant_id = 6) const uint LANES = 32; // as in attention_matrix.glsl; one subgroup runs
layout(constant_id = 7) const uint TM = 16;
layout(constant_id = 8) const uint TN = 16;
layout(constant_id = 9) const uint TK = 16; // the sums are TM x TN, the operand is TM x TK
layout(push_constant) uniform Push { uint first_group, out_offset; };
layout(binding = 3) writeonly buffer Out { float found[]; }; // sums, operand, how many elements a thread has of either
shared float floats[TM * TN];
shared uint halves[TM * TK / 2u];

void main() {
    uint t = gl_LocalInvocationIndex, lane = gl_SubgroupInvocationID;
    for (uint n = t; n < TM * TN; n += THREADS) floats[n] = float(n);
    for (uint n = t; n < TM * TK / 2u; n += THREADS) halves[n] = packHalf2x16(vec2(2u * n, 2u * n + 1u));
    barrier();
    coopmat<float, gl_ScopeSubgroup, TM, TN, gl_MatrixUseAccumulator> sums;
    coopmat<float16_t, gl_ScopeSubgroup, TM, TK, gl_MatrixUseA> operand;
    coopMatLoad(sums, floats, 0u, TN, gl_CooperativeMatrixLayoutRowMajor);
    coopMatLoad(operand, halves, 0u, TK / 2u, gl_CooperativeMatrixLayoutRowMajor);
    uint at = out_offset, each = TM * TN / LANES;
    [[unroll]] for (uint e = 0u; e < each; e++) if (e < sums.length()) found[at + lane * each + e] = sums[e];
    at += TM * TN;
    each = TM * TK / LANES;
    [[unroll]] for (uint e = 0u; e < each; e++) if (e < operand.length()) found[at + lane * each + e] = operand[e];
    at += TM * TK;
    if (t != 0u) return;
    found[at] = sums.length();
    found[at + 1u] = operand.length();
}
