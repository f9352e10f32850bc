/* Start pictures and masks: PNG and JPEG are read with stb_image and scaled by stb_image_resize. Limits are checked
   before a file is decoded: sides, pixels, memory, and the parts of a JPEG on which older versions of stb_image write
   or read outside of their tables. Include it after files.h. Not part of dit.h. */
#ifndef PICTURES_H
#define PICTURES_H
#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#if defined(__has_include) && __has_include(<stb/stb_image.h>)
#define STB_IMAGE_HEADER <stb/stb_image.h>
#elif defined(__has_include) && __has_include(<stb_image.h>)
#define STB_IMAGE_HEADER <stb_image.h>
#endif

#define PICTURE_SIDE 32768
#ifndef PICTURE_PIXELS
#define PICTURE_PIXELS ((uint32_t)1 << 26) /* 8192 x 8192: 0.5 to 1.1 GB while it is decoded */
#endif
#define PICTURE_FILE ((size_t)1 << 30) /* bytes */

/* One block of memory of the decoder is at most so large: what the file's size and the picture's explain. */
static size_t picture_block_limit;
static bool picture_block_refused;

/* Zeros, because older versions of stb_image read tables that a JPEG never defined. */
static void *picture_alloc(size_t size) {
    picture_block_refused = picture_block_refused || size > picture_block_limit;
    return size > picture_block_limit ? NULL : calloc(1, size);
}

static void *picture_realloc(void *block, size_t size) {
    picture_block_refused = picture_block_refused || size > picture_block_limit;
    return size > picture_block_limit ? NULL : realloc(block, size);
}

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
#define STBI_MALLOC(size) picture_alloc(size)
#define STBI_REALLOC(block, size) picture_realloc(block, size)
#define STBI_FREE(block) free(block)
#define STBI_ONLY_PNG
#define STBI_ONLY_JPEG
#define STBI_NO_STDIO
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

static const char no_picture_memory[] = "out of memory while the picture is read; bring a smaller one";

#ifdef STB_IMAGE_HEADER
/* A segment DHT (T.81, B.2.4.2): stb_image before 2.28 writes behind its table when the counts sum to more than 256,
   before 2.27 it reads behind another when a DC symbol is above 15. */
static bool sound_huffman_tables(const unsigned char *data, size_t size) {
    while (size >= 17) {
        size_t symbols = 0, i;
        for (i = 1; i <= 16; i++) symbols += data[i];
        if (symbols > 256 || symbols > size - 17 || data[0] >> 4 > 1) return false;
        for (i = 0; i < symbols && data[0] >> 4 == 0; i++) {
            if (data[17 + i] > 15) return false;
        }
        data += 17 + symbols;
        size -= 17 + symbols;
    }
    return size == 0;
}

/* A segment SOF: stb_image before 2.27 reads outside of planes whose sampling factors are no divisors of the largest.
 */
static bool sound_sampling(const unsigned char *data, size_t size) {
    uint32_t most[2] = {1, 1}, count = size >= 6 ? data[5] : 0, i;
    if (count < 1 || count > 4 || size != 6 + 3 * (size_t)count) return false;
    for (i = 0; i < count; i++) {
        uint32_t h = data[7 + 3 * i] >> 4, v = data[7 + 3 * i] & 15;
        if (h < 1 || h > 4 || v < 1 || v > 4) return false;
        if (h > most[0]) most[0] = h;
        if (v > most[1]) most[1] = v;
    }
    for (i = 0; i < count; i++) {
        if (most[0] % (data[7 + 3 * i] >> 4) || most[1] % (data[7 + 3 * i] & 15)) return false;
    }
    return true;
}

/* Says what is wrong with a JPEG; NULL: every segment up to its end lies in the file, tables and sampling factors are
   sound, and scans are so few that they take no minutes. Segments are found as stb_image finds them; bytes between them
   are passed over. */
static const char *damage_of_jpeg(const unsigned char *data, size_t size) {
    size_t at = 2;
    unsigned scans = 0;
    for (;;) {
        unsigned marker;
        size_t length;
        while (at < size && data[at] != 0xff) at++;
        while (at < size && data[at] == 0xff) at++;
        if (at >= size) return NULL; /* cut off: stb_image sees the end, too */
        marker = data[at++];
        if (marker == 0xd9) return NULL;
        if (marker <= 0x01 || (marker >= 0xd0 && marker <= 0xd8)) continue; /* without a segment */
        length = size - at < 2 ? 0 : (size_t)data[at] << 8 | data[at + 1];
        if (length < 2 || length > size - at) return "the length of a segment";
        if (marker == 0xc4 && !sound_huffman_tables(data + at + 2, length - 2)) return "Huffman tables";
        if (marker >= 0xc0 && marker <= 0xc2 && !sound_sampling(data + at + 2, length - 2)) return "sampling factors";
        if (marker == 0xda && ++scans > 100) return "more than 100 scans";
        at += length;
    }
}

/* Says what is wrong with a PNG; NULL: stb_image sees for itself. It adds to a null pointer where the first IDAT holds
   no bytes, which the specification allows and no program is known to write. */
static const char *damage_of_png(const unsigned char *data, size_t size) {
    size_t at = 8, length;
    for (; size - at >= 8; at += 12 + length) {
        const unsigned char *chunk = data + at;
        length = (size_t)chunk[0] << 24 | (size_t)chunk[1] << 16 | (size_t)chunk[2] << 8 | chunk[3];
        if (memcmp(chunk + 4, "IDAT", 4) == 0) return length ? NULL : "its first IDAT is empty";
        if (size - at < 12 || length > size - at - 12) return NULL;
    }
    return NULL;
}

/* stb_image's reason may hold bytes of the file, which are not for a terminal. */
static const char *damaged_picture(bool png, const char *reason) {
    static char why[160];
    char *p;
    snprintf(why, sizeof why, "the %s file is damaged (%s); get it again, or save it anew", png ? "PNG" : "JPEG",
             reason);
    for (p = why; *p; p++) {
        if (*p < ' ' || *p > '~') *p = '?';
    }
    return why;
}

/* ---- Exif (CIPA DC-008): how the camera was held ---- */

/* The Exif of a PNG or JPEG; NULL: it has none. */
static const unsigned char *find_exif(const unsigned char *data, size_t size, bool png, size_t *length) {
    size_t at = png ? 8 : 2, head = png ? 12 : 2; /* bytes of a chunk or segment beside its data */
    while (at <= size && size - at >= 12) {
        const unsigned char *part = data + at;
        *length = load_number(png ? part : part + 2, png ? 4 : 2, true);
        if (!png && (part[0] != 0xff || part[1] == 0xda)) return NULL;
        if (*length > size - at - head) return NULL;
        if (png && memcmp(part + 4, "eXIf", 4) == 0) return part + 8;
        if (!png && part[1] == 0xe1 && *length >= 8 && memcmp(part + 4, "Exif\0", 6) == 0)
            return *length -= 8, part + 10;
        at += head + *length;
    }
    return NULL;
}

/* 1 to 8, as the tag Orientation counts; 1, upright, where there is none. */
static uint32_t exif_orientation(const unsigned char *exif, size_t size) {
    const bool big = exif && size >= 8 && exif[0] == 'M';
    size_t at, entries;
    if (!exif || size < 8 || memcmp(exif, big ? "MM\0*" : "II*\0", 4) != 0) return 1;
    at = load_number(exif + 4, 4, big);
    if (at > size || size - at < 2) return 1;
    entries = load_number(exif + at, 2, big);
    for (at += 2; entries && size - at >= 12; entries--, at += 12) {
        const uint32_t value = load_number(exif + at + 8, 2, big);
        if (load_number(exif + at, 2, big) != 274 || load_number(exif + at + 2, 2, big) != 3) continue;
        return value >= 1 && value <= 8 ? value : 1;
    }
    return 1;
}

/* Turns and mirrors a picture, so that it is upright; false without memory. */
static bool make_upright(picture *p, uint32_t orientation) {
    const bool turned = orientation >= 5, mirrors_x = strchr("\2\3\7\10", (int)orientation) != NULL,
               mirrors_y = strchr("\3\4\6\7", (int)orientation) != NULL;
    const uint32_t width = turned ? p->height : p->width, height = turned ? p->width : p->height;
    uint8_t *rgba;
    uint32_t x, y;
    if (orientation == 1) return true;
    rgba = malloc((size_t)width * height * 4);
    if (!rgba) return false;
    for (y = 0; y < height; y++)
        for (x = 0; x < width; x++) {
            const uint32_t u = turned ? y : x, v = turned ? x : y;
            const size_t from_x = mirrors_x ? p->width - 1 - u : u, from_y = mirrors_y ? p->height - 1 - v : v;
            memcpy(rgba + ((size_t)y * width + x) * 4, p->rgba + (from_y * p->width + from_x) * 4, 4);
        }
    free(p->rgba);
    p->rgba = rgba;
    p->width = width;
    p->height = height;
    return true;
}

/* The bytes of a PNG or JPEG file, upright; NULL, or why not. */
static const char *decode_picture(const unsigned char *data, size_t size, picture *out) {
    static char why[160];
    const bool png = size >= 8 && memcmp(data, "\x89PNG\r\n\x1a\n", 8) == 0;
    const char *damage;
    const unsigned char *exif;
    size_t exif_size = 0;
    int width = 0, height = 0, channels;
    memset(out, 0, sizeof *out);
    if (!png && (size < 3 || memcmp(data, "\xff\xd8\xff", 3) != 0)) return "this is no PNG or JPEG file";
    if (size > PICTURE_FILE) return "the file is larger than 1 GB";
    damage = png ? damage_of_png(data, size) : damage_of_jpeg(data, size);
    if (damage) return damaged_picture(png, damage);
    picture_block_refused = false;
    picture_block_limit = 2 * size + 65536;
    if (!stbi_info_from_memory(data, (int)size, &width, &height, &channels)) return damaged_picture(png, "its header");
    if (width < 1 || height < 1) return damaged_picture(png, "a side of 0");
    if (width > PICTURE_SIDE || height > PICTURE_SIDE || (uint64_t)width * (uint64_t)height > PICTURE_PIXELS) {
        snprintf(why, sizeof why, "it is %dx%d pixels; at most %d a side and %u in all are read: scale it down", width,
                 height, PICTURE_SIDE, (unsigned)PICTURE_PIXELS);
        return why;
    }
    /* 16 bits in 4 channels, in blocks of up to 32 pixels, in lists that grow by 2. */
    picture_block_limit += (size_t)16 * ((size_t)width + 64) * ((size_t)height + 64);
    out->rgba = stbi_load_from_memory(data, (int)size, &width, &height, &channels, 4);
    if (!out->rgba && !picture_block_refused && strcmp(stbi_failure_reason(), "outofmem") == 0)
        return no_picture_memory;
    if (!out->rgba)
        return damaged_picture(png, picture_block_refused ? "it holds more than its picture" : stbi_failure_reason());
    out->width = (uint32_t)width;
    out->height = (uint32_t)height;
    exif = find_exif(data, size, png, &exif_size);
    if (make_upright(out, exif_orientation(exif, exif_size))) return NULL;
    free(out->rgba);
    memset(out, 0, sizeof *out);
    return no_picture_memory;
}
#else
static const char *decode_picture(const unsigned char *data, size_t size, picture *out) {
    (void)data, (void)size;
    memset(out, 0, sizeof *out);
    return "this program was built without stb_image.h, and reads no pictures";
}
#endif

/* NULL, or why not. */
static const char *load_picture(const char *path, picture *out) {
    const char *why = why_not_readable(path);
    unsigned char *data;
    struct stat info;
    size_t size = 0;
    if (why) return why;
    if (stat(path, &info) == 0 && (uint64_t)info.st_size > PICTURE_FILE) return "the file is larger than 1 GB";
    data = read_file(path, &size);
    if (!data) return errno == ENOMEM ? no_picture_memory : told_reason(errno);
    why = decode_picture(data, size, out);
    free(data);
    return why;
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

/* A size of the picture's shape with about as many pixels as the given one, in multiples up to most. */
static void fit_size(const picture *p, uint32_t multiple, uint32_t most, uint32_t *width, uint32_t *height) {
    double scale = sqrt((double)*width * *height / ((double)p->width * p->height));
    uint32_t w = (uint32_t)(p->width * scale / multiple + 0.5), h = (uint32_t)(p->height * scale / multiple + 0.5);
    if (w > most / multiple) w = most / multiple;
    if (h > most / multiple) h = most / multiple;
    *width = (w ? w : 1) * multiple;
    *height = (h ? h : 1) * multiple;
}
#endif
