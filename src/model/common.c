#include "model/model.h"

DIT_INTERNAL const diti_stored_tensor *diti_model_find(const diti_checkpoint *checkpoint, const char *prefix,
                                                       const char *name) {
    char full[320];
    if (!diti_format(full, sizeof full, "%s%s", prefix, name)) return NULL;
    return diti_checkpoint_find(checkpoint, full);
}

DIT_INTERNAL void diti_sinusoid(const float *timesteps, uint32_t count, uint32_t dim, float *out) {
    uint32_t row, i, half = dim / 2;
    for (i = 0; i < half; i++) {
        float exponent = (float)-9.210340371976184 * (float)i / (float)half; /* -ln(10000) */
        float frequency = expf(exponent);
        for (row = 0; row < count; row++) {
            float angle = timesteps[row] * frequency;
            out[(size_t)row * dim + i] = cosf(angle);
            out[(size_t)row * dim + half + i] = sinf(angle);
        }
    }
}

/* models.md 2.3: sines, then cosines of position * 10000^(-i / (dim / 2)). */
static void diti_position_row(double position, uint32_t dim, float *out) {
    uint32_t i, half = dim / 2;
    for (i = 0; i < half; i++) {
        double angle = position * (1.0 / pow(10000.0, (double)i / (double)half));
        out[i] = (float)sin(angle);
        out[half + i] = (float)cos(angle);
    }
}

DIT_INTERNAL void diti_position_table(uint32_t grid_height, uint32_t grid_width, uint32_t dim, float divide_y,
                                      float divide_x, float interpolation, float *out) {
    uint32_t x, y, half = dim / 2; /* the horizontal half comes first */
    size_t line = (size_t)grid_width * dim;
    for (x = 0; x < grid_width; x++) {
        diti_position_row((double)((float)x / divide_x / interpolation), half, out + (size_t)x * dim);
    }
    for (y = 0; y < grid_height; y++) {
        float *first = out + y * line + half;
        diti_position_row((double)((float)y / divide_y / interpolation), half, first);
        for (x = 0; x < grid_width; x++) {
            float *token = out + y * line + (size_t)x * dim;
            if (y > 0) memcpy(token, out + (size_t)x * dim, half * sizeof(float));
            if (x > 0) memcpy(token + half, first, half * sizeof(float));
        }
    }
}
