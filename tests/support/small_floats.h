/* Matrices of 8-bit and 4-bit floats with factors, as other programs' files hold them. Each function writes a matrix
   and puts what the file means in place of its values. Include it after the library. */
#ifndef SMALL_FLOATS_H
#define SMALL_FLOATS_H
#include "lora_file.h"

typedef enum small_floats_kind {
    FLOAT8_MARKED, /* ComfyUI: M.weight_scale, one number, and M.comfy_quant */
    FLOAT8_OLDER,  /* M.scale_weight, one number, and M.scale_input; the file has scaled_fp8 */
    FLOAT8_ROWS,   /* E5M2, a factor for each row */
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

/* module.weight [rows, columns]. */
static inline void small_floats_add(lora_file *file, const char *module, small_floats_kind kind, float *values,
                                    uint64_t rows, uint64_t columns) {
    float (*decode)(uint8_t) = kind == FLOAT8_ROWS ? diti_e5m2_to_float : diti_e4m3_to_float;
    uint64_t shape[2], i, each = kind == FLOAT8_ROWS ? columns : rows * columns;
    uint8_t *codes = (uint8_t *)malloc((size_t)(rows * columns));
    float *factors = (float *)malloc((size_t)rows * sizeof *factors);
    char name[300];
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
