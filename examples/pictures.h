/* Pictures that are read: PNG, JPEG, BMP, TGA, GIF, PSD, PNM with stb_image, scaled to a size by stb_image_resize. Not
 * part of dit.h. */
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
/* Distributions have one of its two versions, or both. */
#if __has_include(<stb/stb_image_resize2.h>) || __has_include(<stb_image_resize2.h>)
#define STB_IMAGE_RESIZE_IMPLEMENTATION
#if __has_include(<stb/stb_image_resize2.h>)
#include <stb/stb_image_resize2.h>
#else
#include <stb_image_resize2.h>
#endif
#define STB_RESIZE(in, w, h, out, to_w, to_h) stbir_resize_uint8_linear(in, w, h, 0, out, to_w, to_h, 0, STBIR_4CHANNEL)
#elif __has_include(<stb/stb_image_resize.h>) || __has_include(<stb_image_resize.h>)
#define STB_IMAGE_RESIZE_IMPLEMENTATION
#if __has_include(<stb/stb_image_resize.h>)
#include <stb/stb_image_resize.h>
#else
#include <stb_image_resize.h>
#endif
#define STB_RESIZE(in, w, h, out, to_w, to_h) stbir_resize_uint8(in, w, h, 0, out, to_w, to_h, 0, 4)
#endif
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

/* The whole picture, in another size. NULL, or why not. */
static const char *scale_picture(picture *p, uint32_t width, uint32_t height) {
#ifdef STB_RESIZE
    uint8_t *out;
    if (p->width == width && p->height == height) return NULL;
    out = malloc((size_t)width * height * 4);
    if (!out || !STB_RESIZE(p->rgba, (int)p->width, (int)p->height, out, (int)width, (int)height)) {
        free(out);
        return "out of memory; try a smaller -W and -H";
    }
    free(p->rgba);
    p->rgba = out;
    p->width = width;
    p->height = height;
    return NULL;
#else
    if (p->width == width && p->height == height) return NULL;
    return "this program was built without stb_image_resize.h; bring pictures of the size that is made";
#endif
}

/* A size of the picture's shape with about as many pixels as the given one, in multiples. */
static void fit_size(const picture *p, uint32_t multiple, uint32_t *width, uint32_t *height) {
    double scale = sqrt((double)*width * *height / ((double)p->width * p->height));
    uint32_t w = (uint32_t)(p->width * scale / multiple + 0.5), h = (uint32_t)(p->height * scale / multiple + 0.5);
    *width = (w ? w : 1) * multiple;
    *height = (h ? h : 1) * multiple;
}
#endif
