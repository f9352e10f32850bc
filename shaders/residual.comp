#version 450
// Residuals of a range of blocks, kept for later steps (src/graph/ops_residual.c). Rows have no
// gaps. One invocation does four elements. Offsets may wrap, so that they are added before they are divided.
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

#define OP_PUT 0u  // kept[slot] = x
#define OP_TAKE 1u // kept[slot] = x - kept[slot]
#define OP_ADD 2u  // x += the sum of weight[i] * kept[i], over the weights that are not 0

layout(constant_id = 1) const uint OP = OP_PUT;
layout(constant_id = 2) const uint SLOTS = 1u;

layout(push_constant) uniform Push {
    uint first_group;
    uint quads;
    uint x_offset, row_offset, weights; // weights: the first one's place in the row, whose first word is the slot
    uint kept_offset[6];
};

layout(binding = 0) buffer X { vec4 x[]; };
layout(binding = 1) readonly buffer Row { float row[]; };
layout(binding = 2) buffer Kept0 { vec4 kept0[]; };
layout(binding = 3) buffer Kept1 { vec4 kept1[]; };
layout(binding = 4) buffer Kept2 { vec4 kept2[]; };
layout(binding = 5) buffer Kept3 { vec4 kept3[]; };
layout(binding = 6) buffer Kept4 { vec4 kept4[]; };
layout(binding = 7) buffer Kept5 { vec4 kept5[]; };

void main() {
    uint i = (first_group + gl_WorkGroupID.x) * THREADS + gl_LocalInvocationID.x;
    if (i >= quads) return;
    uint at = (x_offset + 4u * i) >> 2, slot = uint(row[row_offset]);
    vec4 v = x[at];
    // factor: of kept[SLOT] in the sum; 0: the slot has no part in it
#define DO(SLOT, KEPT)                                                                                                 \
    if (SLOT < SLOTS) {                                                                                                \
        float factor = OP == OP_ADD ? row[row_offset + weights + SLOT] : slot == SLOT ? -1.0 : 0.0;                    \
        if (factor != 0.0) {                                                                                           \
            uint to = (kept_offset[SLOT] + 4u * i) >> 2;                                                               \
            if (OP != OP_PUT) v += factor * KEPT[to];                                                                  \
            if (OP != OP_ADD) KEPT[to] = v;                                                                            \
        }                                                                                                              \
    }
    DO(0u, kept0) DO(1u, kept1) DO(2u, kept2) DO(3u, kept3) DO(4u, kept4) DO(5u, kept5) if (OP == OP_ADD) x[at] = v;
}
