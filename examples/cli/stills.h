/* Pictures as files: PNG by stb_image_write, JPEG by libjpeg (-DDIT_JPEG) and WebP by libwebp (-DDIT_WEBP), each with a
   text that tells what made it: as PNG's chunk "parameters", elsewhere as Exif's UserComment, which other tools read,
   too. Include it after clip.h and parameters.h. Not part of dit.h. */
#ifndef STILLS_H
#define STILLS_H
#include "parameters.h" /* first: clip.h wants dit.h's declarations */
#include "clip.h"
#ifdef DIT_JPEG
#include <jpeglib.h>
#endif

typedef enum still_kind { STILL_PNG, STILL_JPEG, STILL_WEBP } still_kind;

static const struct {
    const char *ending, *name, *package;
    still_kind kind;
    bool can;
} still_endings[] = {
    {".png", "PNG", "", STILL_PNG, true},
#ifdef DIT_JPEG
    {".jpg", "JPEG", "libjpeg", STILL_JPEG, true},
    {".jpeg", "JPEG", "libjpeg", STILL_JPEG, true},
#else
    {".jpg", "JPEG", "libjpeg", STILL_JPEG, false},
    {".jpeg", "JPEG", "libjpeg", STILL_JPEG, false},
#endif
#ifdef DIT_WEBP
    {".webp", "WebP", "libwebp", STILL_WEBP, true},
#else
    {".webp", "WebP", "libwebp", STILL_WEBP, false},
#endif
};
enum { STILL_ENDINGS = sizeof still_endings / sizeof still_endings[0], STILL_QUALITY = 95, WEBP_SIDE = 16383 };

/* The number of the path's ending in still_endings; 0, as of PNG, where it is none of them. */
static size_t still_ending_of(const char *path) {
    const char *dot = strrchr(base_name(path), '.');
    size_t i;
    for (i = 0; dot && i < STILL_ENDINGS; i++)
        if (same_word(dot, still_endings[i].ending)) return i;
    return 0;
}

static still_kind still_kind_of(const char *path) { return still_endings[still_ending_of(path)].kind; }

static const char no_still_memory[] = "out of memory while the picture was compressed; try a smaller -W and -H";

/* ---- JPEG ---- */

#ifdef DIT_JPEG
typedef struct jpeg_trouble {
    struct jpeg_error_mgr manager;
    jmp_buf back;
} jpeg_trouble;

static void jpeg_fails(j_common_ptr jpeg) { longjmp(((jpeg_trouble *)jpeg->err)->back, 1); }

/* Fully sampled colours, because pictures are small beside photographs. Freed with free; NULL without memory. */
static unsigned char *encode_jpeg(const unsigned char *rgba, uint32_t width, uint32_t height, int quality,
                                  const char *text, size_t *size) {
    static const unsigned char exif_head[6] = {'E', 'x', 'i', 'f', 0, 0};
    struct jpeg_compress_struct jpeg;
    jpeg_trouble trouble;
    unsigned char *volatile bytes = NULL, *volatile row = NULL, *volatile exif = NULL, *made = NULL;
    unsigned long length = 0;
    size_t exif_size = 0, x;
    memset(&jpeg, 0, sizeof jpeg);
    jpeg.err = jpeg_std_error(&trouble.manager);
    trouble.manager.error_exit = jpeg_fails;
    if (setjmp(trouble.back)) {
        jpeg_destroy_compress(&jpeg);
        free(row), free(exif), free(bytes);
        return NULL;
    }
    jpeg_create_compress(&jpeg);
    jpeg_mem_dest(&jpeg, &made, &length);
    jpeg.image_width = width;
    jpeg.image_height = height;
    jpeg.input_components = 3;
    jpeg.in_color_space = JCS_RGB;
    jpeg_set_defaults(&jpeg);
    jpeg_set_quality(&jpeg, quality, TRUE);
    jpeg.comp_info[0].h_samp_factor = jpeg.comp_info[0].v_samp_factor = 1;
    jpeg_start_compress(&jpeg, TRUE);
    if (text) exif = clip_exif(text, &exif_size);
    if (exif && exif_size <= 65527) {
        unsigned char *marker = malloc(exif_size + 6);
        if (marker) {
            memcpy(marker, exif_head, 6);
            memcpy(marker + 6, exif, exif_size);
            jpeg_write_marker(&jpeg, JPEG_APP0 + 1, marker, (unsigned)exif_size + 6);
            free(marker);
        }
    }
    row = malloc((size_t)width * 3);
    while (row && jpeg.next_scanline < height) {
        const unsigned char *from = rgba + (size_t)jpeg.next_scanline * width * 4;
        JSAMPROW rows[1];
        for (x = 0; x < width; x++) memcpy(row + 3 * x, from + 4 * x, 3);
        rows[0] = row;
        jpeg_write_scanlines(&jpeg, rows, 1);
    }
    if (row) jpeg_finish_compress(&jpeg);
    bytes = row ? made : NULL;
    if (!row) free(made);
    jpeg_destroy_compress(&jpeg);
    free(row), free(exif);
    *size = (size_t)length;
    return bytes;
}
#endif

/* ---- WebP ---- */

#ifdef DIT_WEBP
/* Quality 100 loses nothing. Freed with free; NULL without memory. */
static unsigned char *encode_webp(const unsigned char *rgba, uint32_t width, uint32_t height, int quality,
                                  const char *text, size_t *size) {
    WebPConfig config;
    WebPPicture image;
    WebPMemoryWriter writer;
    WebPData exif = {NULL, 0}, bare, whole = {NULL, 0};
    WebPMux *mux;
    unsigned char *out = NULL;
    bool good = WebPConfigInit(&config) && WebPPictureInit(&image);
    WebPMemoryWriterInit(&writer);
    config.quality = (float)quality;
    if (quality == 100) config.lossless = config.exact = 1;
    image.use_argb = config.lossless;
    image.width = (int)width;
    image.height = (int)height;
    image.writer = WebPMemoryWrite;
    image.custom_ptr = &writer;
    good = good && WebPPictureImportRGBA(&image, rgba, (int)width * 4) && WebPEncode(&config, &image);
    WebPPictureFree(&image);
    bare.bytes = writer.mem;
    bare.size = writer.size;
    mux = good ? WebPMuxCreate(&bare, 0) : NULL;
    if (text) exif.bytes = clip_exif(text, &exif.size);
    good = mux && (!exif.bytes || WebPMuxSetChunk(mux, "EXIF", &exif, 0) == WEBP_MUX_OK) &&
           WebPMuxAssemble(mux, &whole) == WEBP_MUX_OK;
    if (good && (out = malloc(whole.size)) != NULL) memcpy(out, whole.bytes, *size = whole.size);
    WebPMuxDelete(mux);
    WebPDataClear(&whole);
    WebPMemoryWriterClear(&writer);
    free((void *)(uintptr_t)exif.bytes);
    return out;
}
#endif

/* ---- All ---- */

/* The file of a picture, freed with free; NULL without memory. text NULL: none. */
static unsigned char *encode_still(still_kind kind, const unsigned char *rgba, uint32_t width, uint32_t height,
                                   int quality, const char *text, size_t *size) {
    (void)quality;
#ifdef DIT_JPEG
    if (kind == STILL_JPEG) return encode_jpeg(rgba, width, height, quality, text, size);
#endif
#ifdef DIT_WEBP
    if (kind == STILL_WEBP) return encode_webp(rgba, width, height, quality, text, size);
#endif
    (void)kind;
    return encode_png(rgba, width, height, text ? "parameters" : NULL, text, size);
}

/* ---- The text of a picture, read back ---- */

/* Whether UTF-16 has its high bytes first: most letters of such texts are ASCII, whose high bytes are 0. Exif's own
   order does not tell, because programs write either in either. */
static bool utf16_is_big(const unsigned char *text, size_t size, bool otherwise) {
    size_t i, zeros[2] = {0, 0};
    for (i = 0; i < size; i++) zeros[i % 2] += !text[i];
    return zeros[0] == zeros[1] ? otherwise : zeros[0] > zeros[1];
}

/* The UserComment of Exif's bytes as UTF-8, freed with free: letters of ASCII, or UTF-16 in either order. NULL: there
   is none, or no memory. */
static char *exif_comment(const unsigned char *exif, size_t size) {
    bool big = size > 2 && exif[0] == 'M';
    parameter_text out = {0};
    size_t i, at = 0, end = size;
    for (i = 8; i + 12 <= size && !at; i++) /* the entry: tag, type 7, count, place */
        if (memcmp(exif + i, big ? "\x92\x86\x00\x07" : "\x86\x92\x07\x00", 4) == 0) {
            const size_t bytes = load_number(exif + i + 4, 4, big);
            at = load_number(exif + i + 8, 4, big);
            if (at < 8 || at > size || bytes < 8 || bytes > size - at) return NULL;
            end = at + bytes;
        }
    if (!at) return NULL;
    if (memcmp(exif + at, "ASCII\0\0\0", 8) == 0) {
        text_append(&out, (const char *)exif + at + 8, strnlen((const char *)exif + at + 8, end - at - 8));
        return out.at;
    }
    if (memcmp(exif + at, "UNICODE\0", 8) != 0) return NULL;
    at += 8;
    big = utf16_is_big(exif + at, end - at, big);
    for (; at + 2 <= end; at += 2) {
        char letter[5] = "";
        long code = (long)load_number(exif + at, 2, big), low;
        if (!code) break;
        if (code >= 0xd800 && code < 0xdc00 && at + 4 <= end) {
            low = (long)load_number(exif + at + 2, 2, big);
            if (low >= 0xdc00 && low < 0xe000) code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00), at += 2;
        }
        text_append(&out, letter, (size_t)(store_utf8(letter, code) - letter));
    }
    return out.at;
}

/* The text that a PNG, JPEG or WebP has about what made it, freed with free; NULL, and in *wrong why. */
static char *find_picture_text(const unsigned char *file, size_t size, const char **wrong) {
    char *text = NULL;
    size_t at, length;
    *wrong = "no text with parameters is in it";
    if (size > 4 && memcmp(file, "\xff\xd8\xff", 3) == 0) {
        for (at = 2; at + 10 < size && file[at] == 0xff && file[at + 1] != 0xda && !text; at += 2 + length) {
            length = (size_t)file[at + 2] << 8 | file[at + 3];
            if (length < 2 || length > size - at - 2) break;
            if (file[at + 1] == 0xe1 && length > 8 && memcmp(file + at + 4, "Exif\0", 6) == 0)
                text = exif_comment(file + at + 10, length - 8);
        }
        return text;
    }
    if (size > 12 && memcmp(file, "RIFF", 4) == 0 && memcmp(file + 8, "WEBP", 4) == 0) {
        for (at = 12; size - at >= 8 && !text; at += 8 + length + length % 2) {
            length = load_number(file + at + 4, 4, false);
            if (length + length % 2 > size - at - 8) break;
            if (memcmp(file + at, "EXIF", 4) == 0) text = exif_comment(file + at + 8, length);
        }
        return text;
    }
    text = find_png_text(file, size, "parameters", wrong);
    if (!text && strstr(*wrong, "no PNG")) *wrong = "this is no PNG, JPEG or WebP";
    return text;
}
#endif
