// F16 ends at 65504. A guarded tensor holds its values times a power of two, so that they fit: what makes it notes what
// does not, and its readers undo it (src/graph/guard.c). Include after the push constants, one of which is
// guard_offset, with GUARD_BINDING defined.
layout(constant_id = 23) const bool GUARDED = false;

// A record is two cells. As floats: what the result is multiplied with, what undoes that of the operands, and what an
// operand is multiplied with. Magnitudes (as bits) that did not fit: of the result, of that operand.
layout(binding = GUARD_BINDING) buffer Guard { uvec4 guard[]; };
#define GUARD_VALUE(MEMBER) uintBitsToFloat(guard[guard_offset].MEMBER)
#define GUARD_FACTOR(MEMBER) mix(1.0, GUARD_VALUE(MEMBER), GUARDED) // without a record anything may stand there
