/* Pictures and latents scaled up by the filters that A1111, torch and Pillow have. Not part of dit.h. */
#ifndef UPSCALE_H
#define UPSCALE_H
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

typedef enum upscale_kernel {
    UPSCALE_NEAREST,
    UPSCALE_NEAREST_EXACT,
    UPSCALE_LINEAR,
    UPSCALE_CUBIC,       /* torch's bicubic: a = -0.75, values beyond an edge are those at the edge */
    UPSCALE_ANTIALIASED, /* torch's with antialias: a = -0.5, values beyond an edge have no weight */
    UPSCALE_LANCZOS      /* three lobes, as Pillow's */
} upscale_kernel;

/* Names as A1111 and stable-diffusion.cpp have them. */
static const struct {
    const char *name;
    bool latent;
    upscale_kernel kernel;
} upscalers[] = {{"Lanczos", false, UPSCALE_LANCZOS},
                 {"Nearest", false, UPSCALE_NEAREST},
                 {"Latent", true, UPSCALE_LINEAR},
                 {"Latent (nearest)", true, UPSCALE_NEAREST},
                 {"Latent (nearest-exact)", true, UPSCALE_NEAREST_EXACT},
                 {"Latent (antialiased)", true, UPSCALE_LINEAR},
                 {"Latent (bicubic)", true, UPSCALE_CUBIC},
                 {"Latent (bicubic antialiased)", true, UPSCALE_ANTIALIASED}};
enum { UPSCALERS = sizeof upscalers / sizeof upscalers[0], UPSCALE_TAPS = 6, UPSCALE_LATENT = 2 };

static const char *upscaler_name(uint32_t index) { return index < UPSCALERS ? upscalers[index].name : NULL; }

static double sinc(double x) { return x == 0 ? 1 : sin(3.14159265358979323846 * x) / (3.14159265358979323846 * x); }

/* The weight of a value that is x values away; lines up to half a kernel's width. */
static double kernel_at(upscale_kernel kernel, double x) {
    const double a = kernel == UPSCALE_CUBIC ? -0.75 : -0.5;
    x = fabs(x);
    if (kernel == UPSCALE_LINEAR) return x < 1 ? 1 - x : 0;
    if (kernel == UPSCALE_LANCZOS) return x < 3 ? sinc(x) * sinc(x / 3) : 0;
    if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
    return x < 2 ? ((x - 5) * x + 8) * x * a - 4 * a : 0;
}

typedef struct upscale_place { /* the values of a line that make one of the longer line */
    uint32_t at[UPSCALE_TAPS];
    double weight[UPSCALE_TAPS];
} upscale_place;

/* Where value i of a line of `longer` values lies on one of `length`, which is not longer. */
static upscale_place place_on_line(upscale_kernel kernel, uint32_t i, uint32_t length, uint32_t longer) {
    const bool exact = kernel == UPSCALE_NEAREST_EXACT,
               outside = kernel == UPSCALE_ANTIALIASED || kernel == UPSCALE_LANCZOS;
    const double scale = (double)length / longer, centre = (i + 0.5) * scale - 0.5;
    const int64_t first = (int64_t)floor(centre) - UPSCALE_TAPS / 2 + 1;
    upscale_place place = {{0}, {0}};
    double sum = 0;
    uint32_t k;
    if (kernel == UPSCALE_NEAREST || exact) {
        place.at[0] = (uint32_t)(((2 * (uint64_t)i + exact) * length) / (2 * (uint64_t)longer));
        place.weight[0] = 1;
        return place;
    }
    for (k = 0; k < UPSCALE_TAPS; k++) {
        const int64_t at = first + k;
        const bool there = at >= 0 && at < length;
        place.at[k] = at < 0 ? 0 : at < length ? (uint32_t)at : length - 1;
        place.weight[k] = there || !outside ? kernel_at(kernel, (double)at - centre) : 0;
        sum += place.weight[k];
    }
    for (k = 0; k < UPSCALE_TAPS; k++) place.weight[k] /= sum;
    return place;
}

/* to [height][width][step] = from [from_height][from_width][step], lines along x, then along y; false: no memory. step:
   values from one element to the next, of which each is scaled by itself. */
static bool upscale_floats(upscale_kernel kernel, const float *from, uint32_t from_width, uint32_t from_height,
                           float *to, uint32_t width, uint32_t height, uint32_t step) {
    float *wide = malloc((size_t)from_height * width * step * sizeof *wide);
    uint32_t x, y, c, k;
    if (!wide) return false;
    for (x = 0; x < width; x++) {
        const upscale_place place = place_on_line(kernel, x, from_width, width);
        for (y = 0; y < from_height; y++)
            for (c = 0; c < step; c++) {
                double sum = 0;
                for (k = 0; k < UPSCALE_TAPS; k++)
                    sum += place.weight[k] * from[((size_t)y * from_width + place.at[k]) * step + c];
                wide[((size_t)y * width + x) * step + c] = (float)sum;
            }
    }
    for (y = 0; y < height; y++) {
        const upscale_place place = place_on_line(kernel, y, from_height, height);
        for (x = 0; x < width * step; x++) {
            double sum = 0;
            for (k = 0; k < UPSCALE_TAPS; k++) sum += place.weight[k] * wide[(size_t)place.at[k] * width * step + x];
            to[(size_t)y * width * step + x] = (float)sum;
        }
    }
    free(wide);
    return true;
}
#endif
