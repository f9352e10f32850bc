/* Pictures that are read: PNG, JPEG, BMP, TGA, GIF, PSD, PNM with stb_image, scaled to a size. Not part of dit.h. */
#ifndef PICTURES_H
#define PICTURES_H
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#if defined(__has_include) && __has_include(<stb/stb_image.h>)
#define STB_IMAGE_HEADER <stb/stb_image.h>
#elif defined(__has_include) && __has_include(<stb_image.h>)
#define STB_IMAGE_HEADER <stb_image.h>
#endif
#ifdef STB_IMAGE_HEADER
#if defined(__GNUC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"
#pragma GCC diagnostic ignored "-Wunused-but-set-variable"
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wsign-conversion"
#pragma GCC diagnostic ignored "-Wsign-compare"
#pragma GCC diagnostic ignored "-Wshadow"
#endif
#define STBI_MAX_DIMENSIONS 65536
#define STBI_NO_HDR
#define STB_IMAGE_IMPLEMENTATION
#include STB_IMAGE_HEADER
#if defined(__GNUC__)
#pragma GCC diagnostic pop
#endif
#endif

typedef struct picture {
    uint8_t *rgba; /* [height][width][4]; freed with free */
    uint32_t width, height;
} picture;

/* NULL, or why not. */
static const char *load_picture(const char *path, picture *out) {
#ifdef STB_IMAGE_HEADER
    int width = 0, height = 0, channels;
    out->rgba = stbi_load(path, &width, &height, &channels, 4);
    out->width = (uint32_t)width;
    out->height = (uint32_t)height;
    return out->rgba ? NULL : stbi_failure_reason();
#else
    (void)path;
    (void)out;
    return "this program was built without stb_image.h, and reads no pictures";
#endif
}

/* A pixel of the result is the mean of what it covers, at least a pixel wide: n weights, for pixels from *first on. */
static uint32_t scale_weights(uint32_t i, uint32_t from, uint32_t to, uint32_t *first, double **room) {
    double scale = (double)from / to, middle = (i + 0.5) * scale, half = scale > 1 ? scale / 2 : 0.5, sum = 0;
    double begin = fmax(middle - half, 0), end = fmin(middle + half, from), *weights;
    uint32_t n, k;
    *first = (uint32_t)begin;
    n = (uint32_t)ceil(end) - *first;
    weights = realloc(*room, n * sizeof *weights);
    if (!weights) return 0;
    *room = weights;
    for (k = 0; k < n; k++) {
        weights[k] = fmin(end, *first + k + 1.0) - fmax(begin, *first + (double)k);
        sum += weights[k];
    }
    for (k = 0; k < n; k++) weights[k] /= sum;
    return n;
}

/* Scales lines of `from` pixels to `to`: a pixel is `stride` bytes from the next, a line `pitch`. */
static bool scale_lines(const uint8_t *in, uint8_t *out, uint32_t lines, uint32_t from, uint32_t to, size_t stride,
                        size_t in_pitch, size_t out_pitch) {
    double *weights = NULL;
    uint32_t i, line, c, k, first, n = 1;
    for (i = 0; i < to && n; i++) {
        n = scale_weights(i, from, to, &first, &weights);
        for (line = 0; line < lines && n; line++) {
            for (c = 0; c < 4; c++) {
                double sum = 0.5;
                for (k = 0; k < n; k++) sum += weights[k] * in[line * in_pitch + (first + k) * stride + c];
                out[line * out_pitch + i * stride + c] = (uint8_t)sum;
            }
        }
    }
    free(weights);
    return n != 0;
}

/* The whole picture, in another size. */
static bool scale_picture(picture *p, uint32_t width, uint32_t height) {
    uint8_t *wide, *out;
    bool good;
    if (p->width == width && p->height == height) return true;
    wide = malloc((size_t)width * p->height * 4);
    out = malloc((size_t)width * (height > p->height ? height : p->height) * 4);
    good = wide && out &&
           scale_lines(p->rgba, wide, p->height, p->width, width, 4, (size_t)p->width * 4, (size_t)width * 4);
    /* columns are lines whose pixels lie a line apart */
    good = good && scale_lines(wide, out, width, p->height, height, (size_t)width * 4, 4, 4);
    free(wide);
    if (!good) {
        free(out);
        return false;
    }
    free(p->rgba);
    p->rgba = out;
    p->width = width;
    p->height = height;
    return true;
}

/* A size of the picture's shape with about as many pixels as the given one, in multiples. */
static void fit_size(const picture *p, uint32_t multiple, uint32_t *width, uint32_t *height) {
    double scale = sqrt((double)*width * *height / ((double)p->width * p->height));
    uint32_t w = (uint32_t)(p->width * scale / multiple + 0.5), h = (uint32_t)(p->height * scale / multiple + 0.5);
    *width = (w ? w : 1) * multiple;
    *height = (h ? h : 1) * multiple;
}
#endif
