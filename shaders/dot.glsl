// Common part of products by the dot product of four bytes. glslang learned GL_EXT_integer_dot_product late; this is
// the same instruction, OpSDot of packed words.
#define STEP_QUADS 2u // quads of 16 bytes in a slice of K; a block of int8 has as many

spirv_instruction(extensions = ["SPV_KHR_integer_dot_product"], capabilities = [ 6019, 6018 ],
                  id = 4450) int dot_bytes(int a, int b, spirv_literal int packed_format);
layout(binding = 0) readonly buffer A_Q { ivec4 a_quads[]; };
layout(binding = 1) readonly buffer W_Q { ivec4 w_quads[]; };

int dot_quads(const ivec4 x, const ivec4 y, const int sum) {
    return sum + dot_bytes(x.x, y.x, 0) + dot_bytes(x.y, y.y, 0) + dot_bytes(x.z, y.z, 0) + dot_bytes(x.w, y.w, 0);
}

// A block's sum, less than 2^20 in magnitude, begins with the bits of 1.5 * 2^23. As a float it is that number more
// than the sum, so that one fma converts and scales it: exactly, since that number times a scale of at most 22 bits is
// exact.
#define SUM_BITS 0x4b400000
#define SUM_FLOAT 12582912.0
