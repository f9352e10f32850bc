#version 450
// One workgroup looks at the records of guards. If one of them has something to say, the segment must run again, which
// is noted in the first record: that of health (diti_health).
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

layout(push_constant) uniform Push {
    uint first_group;
    uint first, end; // records
    uint cells;      // of a record
    uint segment;
    uint guard_offset;
};

#define GUARD_BINDING 0
#include "guard.glsl"

void main() {
    for (uint r = first + gl_LocalInvocationID.x; r < end; r += THREADS) {
        uvec2 peaks = guard[guard_offset + r * cells + 1u].xy;
        if (peaks != uvec2(0u)) atomicCompSwap(guard[guard_offset].y, 0u, segment);
    }
}
