/* Matrices of 8-bit and 4-bit floats with factors, as other programs' files hold them. Each function writes a matrix
   and puts what the file means in place of its values. Include it after the library. */
#ifndef SMALL_FLOATS_H
#define SMALL_FLOATS_H
#include "lora_file.h"

typedef enum small_floats_kind {
    FLOAT8_MARKED, /* ComfyUI: M.weight_scale, one number, and M.comfy_quant */
    FLOAT8_OLDER,  /* M.scale_weight, one number, and M.scale_input; the file has scaled_fp8 */
    FLOAT8_ROWS,   /* E5M2, a factor for each row */
    FLOAT4_COMFY,  /* ComfyUI's nvfp4 */
    SMALL_FLOATS_KINDS
} small_floats_kind;

/* The code of the nearest value that a type of 8 bits has. */
static inline uint8_t small_floats_code(double value, float (*decode)(uint8_t)) {
    uint32_t low = 0, high = decode(0x7c) > 65504.0f ? 0x7b : 0x7e; /* the largest of E5M2, of E4M3 */
    while (low + 1 < high) {                                        /* codes grow with the magnitude */
        uint32_t middle = (low + high) / 2;
        *((double)decode((uint8_t)middle) <= fabs(value) ? &low : &high) = middle;
    }
    if ((double)decode((uint8_t)high) - fabs(value) < fabs(value) - (double)decode((uint8_t)low)) low = high;
    return (uint8_t)(low | (value < 0 ? 128u : 0u));
}

static inline double small_floats_most(const float *values, uint64_t count) {
    double most = 0;
    uint64_t i;
    for (i = 0; i < count; i++) most = fmax(most, fabs((double)values[i]));
    return most > 0 ? most : 1;
}

static inline void small_floats_text(lora_file *file, const char *module, const char *ending, const char *text) {
    uint64_t shape[1] = {strlen(text)};
    char name[300];
    snprintf(name, sizeof name, "%s%s", module, ending);
    lora_file_bytes(file, name, "U8", shape, 1, text, strlen(text));
}

/* The code of the nearest of E2M1's values. */
static inline uint8_t small_floats_nibble(double value) {
    static const double values[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
    uint32_t i, best = 0;
    for (i = 1; i < 8; i++)
        if (fabs(values[i] - fabs(value)) < fabs(values[best] - fabs(value))) best = i;
    return (uint8_t)(best | (value < 0 ? 8u : 0u));
}

static inline double small_floats_value(uint8_t nibble) {
    static const double values[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
    return nibble > 8 ? -values[nibble & 7] : values[nibble & 7]; /* 0 has no sign */
}

/* Place of the scale of row r and group g among `groups` of a row, which are rounded up to fours. */
static inline uint64_t small_floats_place(uint64_t r, uint64_t g, uint64_t groups) {
    uint64_t block = r / 128 * ((groups + 3) / 4) + g / 4;
    return block * 512 + r % 32 * 16 + r % 128 / 32 * 4 + g % 4;
}

/* ComfyUI's nvfp4, columns being a multiple of 16. */
static inline void small_floats_add_fours(lora_file *file, const char *module, float *values, uint64_t rows,
                                          uint64_t columns) {
    uint64_t shape[2], r, g, k, groups = columns / 16, tall = (rows + 127) / 128 * 128, wide = (groups + 3) / 4 * 4;
    uint8_t *codes = (uint8_t *)calloc((size_t)(rows * columns / 2), 1);
    uint8_t *scales = (uint8_t *)calloc((size_t)(tall * wide), 1);
    float factor = (float)(small_floats_most(values, rows * columns) / 448 / 6);
    char name[300];
    for (r = 0; r < rows; r++) {
        for (g = 0; g < groups; g++) {
            float *v = values + r * columns + g * 16;
            uint8_t scale = small_floats_code(small_floats_most(v, 16) / 6 / (double)factor, diti_e4m3_to_float);
            double step = (double)diti_e4m3_to_float(scale) * (double)factor;
            scales[small_floats_place(r, g, groups)] = scale;
            for (k = 0; k < 16; k++) {
                uint8_t nibble = step > 0 ? small_floats_nibble((double)v[k] / step) : 0;
                codes[(r * columns + g * 16 + k) / 2] |= (uint8_t)(k % 2 ? nibble : nibble << 4);
                v[k] = (float)(small_floats_value(nibble) * step);
            }
        }
    }
    shape[0] = rows;
    shape[1] = columns / 2;
    snprintf(name, sizeof name, "%s.weight", module);
    lora_file_bytes(file, name, "U8", shape, 2, codes, (size_t)(rows * columns / 2));
    shape[0] = tall;
    shape[1] = wide;
    snprintf(name, sizeof name, "%s.weight_scale", module);
    lora_file_bytes(file, name, "F8_E4M3", shape, 2, scales, (size_t)(tall * wide));
    snprintf(name, sizeof name, "%s.weight_scale_2", module);
    lora_file_number(file, name, factor);
    small_floats_text(file, module, ".comfy_quant", "{\"format\": \"nvfp4\"}");
    free(scales);
    free(codes);
}

/* module.weight [rows, columns]. */
static inline void small_floats_add(lora_file *file, const char *module, small_floats_kind kind, float *values,
                                    uint64_t rows, uint64_t columns) {
    float (*decode)(uint8_t) = kind == FLOAT8_ROWS ? diti_e5m2_to_float : diti_e4m3_to_float;
    uint64_t shape[2], i, each = kind == FLOAT8_ROWS ? columns : rows * columns;
    uint8_t *codes;
    float *factors;
    char name[300];
    if (kind == FLOAT4_COMFY) {
        small_floats_add_fours(file, module, values, rows, columns);
        return;
    }
    codes = (uint8_t *)malloc((size_t)(rows * columns));
    factors = (float *)malloc((size_t)rows * sizeof *factors);
    for (i = 0; i < rows * columns; i++) {
        if (i % each == 0) factors[i / each] = (float)(small_floats_most(values + i, each) / 448);
        codes[i] = small_floats_code((double)values[i] / (double)factors[i / each], decode);
        values[i] = (float)((double)decode(codes[i]) * (double)factors[i / each]);
    }
    shape[0] = rows;
    shape[1] = columns;
    snprintf(name, sizeof name, "%s.weight", module);
    lora_file_bytes(file, name, kind == FLOAT8_ROWS ? "F8_E5M2" : "F8_E4M3", shape, 2, codes, (size_t)(rows * columns));
    shape[1] = 1;
    snprintf(name, sizeof name, "%s.%s", module, kind == FLOAT8_OLDER ? "scale_weight" : "weight_scale");
    lora_file_bytes(file, name, "F32", shape, kind == FLOAT8_ROWS ? 2 : 0, factors,
                    (size_t)(rows * columns / each) * sizeof *factors);
    if (kind == FLOAT8_MARKED) small_floats_text(file, module, ".comfy_quant", "{\"format\": \"float8_e4m3fn\"}");
    snprintf(name, sizeof name, "%s.scale_input", module);
    if (kind == FLOAT8_OLDER) lora_file_number(file, name, 0.5f);
    free(factors);
    free(codes);
}
#endif
