/* Clips: frames one after the other into a file whose ending says how: raw Y4M (also to the standard output), animated
   PNG, animated WebP by libwebp, numbered PNGs, or what the system's ffmpeg makes. A text can tell what made the clip:
   as PNG's chunk "parameters", as the comment of what ffmpeg writes (not on Windows, where it is no argument of its
   own), as WebP's Exif comment; Y4M and GIF have no place for it. Include it after files.h. Not part of dit.h. */
#ifndef CLIP_H
#define CLIP_H
#include "files.h"
#include <math.h>
#ifdef DIT_WEBP
#include <webp/encode.h>
#include <webp/mux.h>
#endif
#ifndef _WIN32
#include <sys/wait.h>
#endif

typedef enum clip_kind { CLIP_Y4M, CLIP_APNG, CLIP_WEBP, CLIP_PNGS, CLIP_FFMPEG } clip_kind;
enum { CLIP_MOST_FRAMES = 99999 };

/* A clip that is being written: clip_open, then clip_put for every frame, then clip_close. */
typedef struct clip {
    clip_kind kind;
    const char *path, *text; /* text NULL: none */
    uint32_t width, height, frames, written;
    uint32_t rate, scale; /* rate / scale frames a second */
    int quality;          /* of WebP, set behind clip_open; 0, 100: nothing is lost */
    uint32_t kept;        /* of numbered PNGs, set behind clip_open: the first so many stay where they are there */
    output_file out;      /* file NULL: a frame's file is not open, or all goes to the standard output */
    FILE *stream;         /* where Y4M goes */
    unsigned char *planes;
    uint32_t sequence; /* of APNG's chunks */
    long process;      /* ffmpeg */
    const char *sound; /* a WAV file that ffmpeg reads, too; NULL: none */
#ifdef DIT_WEBP
    WebPAnimEncoder *webp;
#endif
    char why[256]; /* what went wrong, as a sentence without the path */
} clip;

static bool clip_fail(clip *c, const char *why) {
    if (!c->why[0]) snprintf(c->why, sizeof c->why, "%s", why);
    return false;
}

/* The message is what the system said about the last write. */
static bool clip_fail_errno(clip *c) {
    return clip_fail(c, errno == EPIPE ? "nobody reads it any more"
                        : errno        ? told_reason(errno)
                                       : "it cannot be written");
}

/* ---- Kinds by the file's ending ---- */

typedef struct clip_ending {
    const char *ending;
    clip_kind kind;
    const char *container; /* as ffmpeg's -f names it */
} clip_ending;

static const clip_ending clip_endings[] = {
    {".y4m", CLIP_Y4M, NULL},       {".apng", CLIP_APNG, NULL},        {".webp", CLIP_WEBP, NULL},
    {".png", CLIP_PNGS, NULL},      {".mp4", CLIP_FFMPEG, "mp4"},      {".mov", CLIP_FFMPEG, "mov"},
    {".webm", CLIP_FFMPEG, "webm"}, {".mkv", CLIP_FFMPEG, "matroska"}, {".gif", CLIP_FFMPEG, "gif"},
};

/* NULL: no clip is written so. "-" is Y4M. */
static const clip_ending *clip_find_ending(const char *path) {
    const char *dot = strrchr(base_name(path), '.');
    size_t i;
    if (strcmp(path, "-") == 0) return &clip_endings[0];
    for (i = 0; dot && i < sizeof clip_endings / sizeof clip_endings[0]; i++)
        if (strcmp(clip_endings[i].ending, dot) == 0) return &clip_endings[i];
    return NULL;
}

/* Whether a file of that name has a place for sound, too. */
static inline bool clip_holds_sound(const char *path) {
    const clip_ending *ending = clip_find_ending(path);
    return ending && ending->kind == CLIP_FFMPEG && strcmp(ending->container, "gif") != 0;
}

/* Where the number of a frame stands in a name of numbered PNGs, "%d" or "%04d": its length, 0: nowhere. *digits: how
   many there are at least. */
static size_t clip_find_number(const char *path, const char **at, int *digits) {
    const char *p = strchr(base_name(path), '%'), *end;
    *at = p;
    *digits = 0;
    if (!p) return 0;
    for (end = p + 1; *end >= '0' && *end <= '9'; end++) *digits = *digits < 100 ? 10 * *digits + (*end - '0') : 100;
    return *end == 'd' ? (size_t)(end + 1 - p) : 0;
}

/* Why a name cannot be that of numbered PNGs; NULL when it can. */
static const char *why_no_number(const char *path) {
    const char *at;
    int digits;
    size_t length = clip_find_number(path, &at, &digits);
    if (at && (!length || strchr(at + 1, '%') || digits > 9))
        return "the place of the number is written once, as %d or, with 4 digits, as %04d";
    return NULL;
}

/* Whether a path is written as numbered PNGs even where there is one frame. */
static inline bool clip_is_pattern(const char *path) {
    const char *at;
    int digits;
    return strcmp(path, "-") != 0 && clip_find_number(path, &at, &digits) > 0;
}

/* The path of a frame, which counts from 0: DIR/%04d.png has DIR/0001.png first, clip.png has clip-0001.png. */
static bool clip_number_path(const char *path, uint32_t frame, char *out, size_t size) {
    const char *at;
    int digits;
    size_t length = clip_find_number(path, &at, &digits), stem = length ? (size_t)(at - path) : strlen(path) - 4;
    return snprintf(out, size, "%.*s%s%0*u%s", (int)stem, path, length ? "" : "-", length ? digits : 4, frame + 1,
                    path + stem + length) < (int)size;
}

/* Whether a program of that name can be started. */
static bool clip_has_program(const char *name) {
    const char *path = getenv("PATH"), *end;
#ifdef _WIN32
    const char separator = ';', *ending = ".exe";
    const int runs = 0; /* Windows tells whether it is there */
#else
    const char separator = ':', *ending = "";
    const int runs = X_OK;
#endif
    char full[PATH_SIZE];
    struct stat info;
    for (; path && *path; path = *end ? end + 1 : end) {
        end = strchr(path, separator);
        if (!end) end = path + strlen(path);
        if (snprintf(full, sizeof full, "%.*s/%s%s", (int)(end - path), path, name, ending) < (int)sizeof full &&
            stat(full, &info) == 0 && (info.st_mode & S_IFMT) == S_IFREG && access(full, runs) == 0)
            return true;
    }
    return false;
}

/* Why no clip can be written to a path, a sentence without the path; NULL when one can. Asked before any work. */
static const char *why_no_clip(const char *path) {
    const clip_ending *ending = clip_find_ending(path);
    if (!ending) return "a clip's name ends in .y4m, .apng, .webp, .png (numbered), .gif, .mp4, .mov, .webm or .mkv";
    if (ending->kind == CLIP_FFMPEG && !clip_has_program("ffmpeg"))
        return "this needs the program ffmpeg; install the package ffmpeg, or write .y4m, .apng or .png";
#ifndef DIT_WEBP
    if (ending->kind == CLIP_WEBP)
        return "this program was built without libwebp; install the package libwebp-dev (libwebp-devel, libwebp) and "
               "build it again, or write .apng";
#endif
    if (strcmp(path, "-") == 0) return NULL;
    if (ending->kind == CLIP_PNGS) {
        char first[PATH_SIZE];
        const char *why = why_no_number(path);
        if (why) return why;
        if (!clip_number_path(path, 0, first, sizeof first)) return "the name is too long";
        return why_not_writable(first);
    }
    return why_not_writable(path);
}

/* ---- Sound ---- */

/* The name of the WAV file beside a clip: clip.wav beside clip.gif and clip-0001.png, DIR/sound.wav beside
   DIR/%04d.png. */
static inline bool clip_sound_path(const char *path, char *out, size_t size) {
    const char *at, *base = base_name(path), *dot = strrchr(base, '.');
    int digits;
    size_t stem = clip_find_number(path, &at, &digits) ? (size_t)(at - path) : (size_t)((dot ? dot : base) - path);
    while (stem > (size_t)(base - path) && strchr("-_.", path[stem - 1])) stem--;
    return snprintf(out, size, "%.*s%s.wav", (int)stem, path, stem == (size_t)(base - path) ? "sound" : "") < (int)size;
}

static void store_le(unsigned char *out, uint32_t value, int bytes) {
    int i;
    for (i = 0; i < bytes; i++) out[i] = (unsigned char)(value >> 8 * i);
}

/* A WAV file with samples of 16 bits; samples are [count][channels] in -1..1. Freed with free; NULL without memory, or
   where there are more samples than such a file holds. */
static inline unsigned char *encode_wav(const float *samples, uint32_t count, uint32_t channels, uint32_t rate,
                                        size_t *size) {
    const uint64_t values = (uint64_t)count * channels;
    unsigned char *wav = values < 0x7fffff00u ? (unsigned char *)malloc(44 + 2 * (size_t)values) : NULL;
    size_t i;
    if (!wav) return NULL;
    memcpy(wav, "RIFF....WAVEfmt ", 16);
    store_le(wav + 4, (uint32_t)(36 + 2 * values), 4);
    store_le(wav + 16, 16, 4);
    store_le(wav + 20, 1, 2); /* whole numbers */
    store_le(wav + 22, channels, 2);
    store_le(wav + 24, rate, 4);
    store_le(wav + 28, 2 * channels * rate, 4);
    store_le(wav + 32, 2 * channels, 2);
    store_le(wav + 34, 16, 2);
    memcpy(wav + 36, "data", 4);
    store_le(wav + 40, (uint32_t)(2 * values), 4);
    for (i = 0; i < values; i++) {
        float v = samples[i] < -1 ? -1 : samples[i] > 1 ? 1 : samples[i];
        store_le(wav + 44 + 2 * i, (uint32_t)lrintf(v * 32767), 2);
    }
    *size = 44 + 2 * (size_t)values;
    return wav;
}

/* ---- Y4M ---- */

/* Four colour samples share one of each chroma where both sides are even, as players expect; else each has its own. */
static bool clip_shares_chroma(const clip *c) { return c->width % 2 == 0 && c->height % 2 == 0; }

static bool clip_y4m_begin(clip *c) {
    size_t pixels = (size_t)c->width * c->height;
    c->planes = (unsigned char *)malloc(pixels * 3);
    if (!c->planes) return clip_fail(c, "not enough memory for a frame");
    if (fprintf(c->stream, "YUV4MPEG2 W%u H%u F%u:%u Ip A1:1 %s XCOLORRANGE=LIMITED\n", c->width, c->height, c->rate,
                c->scale, clip_shares_chroma(c) ? "C420jpeg" : "C444") < 0)
        return clip_fail_errno(c);
    return true;
}

/* The luma of ITU-R BT.601 in 16..235, and its chroma in 16..240. */
static unsigned char clip_luma(const unsigned char *p) {
    return (unsigned char)(16.5 + (65.481 * p[0] + 128.553 * p[1] + 24.966 * p[2]) / 255);
}

static void clip_chroma(double r, double g, double b, unsigned char *u, unsigned char *v) {
    *u = (unsigned char)(128.5 + (-37.797 * r - 74.203 * g + 112 * b) / 255);
    *v = (unsigned char)(128.5 + (112 * r - 93.786 * g - 18.214 * b) / 255);
}

static bool clip_y4m_put(clip *c, const unsigned char *rgba) {
    const uint32_t side = clip_shares_chroma(c) ? 2 : 1, columns = c->width / side, rows = c->height / side;
    const size_t pixels = (size_t)c->width * c->height, chroma = (size_t)columns * rows;
    unsigned char *u = c->planes + pixels, *v = u + chroma;
    uint32_t x, y, k;
    size_t i;
    for (i = 0; i < pixels; i++) c->planes[i] = clip_luma(rgba + 4 * i);
    for (y = 0; y < rows; y++) {
        for (x = 0; x < columns; x++) {
            double sum[3] = {0, 0, 0};
            for (k = 0; k < side * side; k++) {
                const unsigned char *p = rgba + 4 * ((size_t)(y * side + k / side) * c->width + x * side + k % side);
                sum[0] += p[0], sum[1] += p[1], sum[2] += p[2];
            }
            i = (size_t)y * columns + x;
            clip_chroma(sum[0] / (side * side), sum[1] / (side * side), sum[2] / (side * side), &u[i], &v[i]);
        }
    }
    errno = 0;
    if (fputs("FRAME\n", c->stream) < 0 ||
        fwrite(c->planes, 1, pixels + 2 * chroma, c->stream) != pixels + 2 * chroma || fflush(c->stream) != 0)
        return clip_fail_errno(c);
    return true;
}

/* ---- Animated PNG (the PNG specification, third edition, 11.3.6): chunks around those of ordinary PNGs ---- */

static void store_be16(unsigned char *out, uint32_t value) {
    out[0] = (unsigned char)(value >> 8);
    out[1] = (unsigned char)value;
}

static bool clip_put_chunk(clip *c, const char *type, const unsigned char *data, uint32_t size) {
    uint32_t crc;
    return put_chunk_begin(c->out.file, &crc, size, type) && put_chunk_part(c->out.file, &crc, data, size) &&
           put_chunk_end(c->out.file, crc);
}

static bool clip_put_text(clip *c) {
    unsigned char *chunk;
    size_t size;
    bool good;
    if (!c->text) return true;
    chunk = (unsigned char *)malloc(strlen(c->text) + 64);
    if (!chunk) return clip_fail(c, "not enough memory for the text of its parameters");
    size = make_text_chunk("parameters", c->text, chunk);
    good = fwrite(chunk, 1, size, c->out.file) == size;
    free(chunk);
    return good;
}

static bool clip_apng_frame(clip *c) {
    unsigned char control[26] = {0};
    bool exact = c->rate < 65536 && c->scale < 65536;
    store_be32(control, c->sequence++);
    store_be32(control + 4, c->width);
    store_be32(control + 8, c->height);
    store_be16(control + 20, exact ? c->scale : (uint32_t)lrint(1000.0 * c->scale / c->rate));
    store_be16(control + 22, exact ? c->rate : 1000);
    return clip_put_chunk(c, "fcTL", control, sizeof control);
}

/* The pixels of the first frame are those that programs without animation show. */
static bool clip_apng_put(clip *c, const unsigned char *rgba) {
    const size_t header = 8 + 25; /* signature and IHDR */
    unsigned char animation[8] = {0}, number[4];
    size_t size = 0;
    unsigned char *png = encode_png(rgba, c->width, c->height, NULL, NULL, &size);
    uint32_t length, crc;
    bool good = true;
    if (!png) return clip_fail(c, "not enough memory to compress a frame");
    length = (uint32_t)png[header] << 24 | (uint32_t)png[header + 1] << 16 | (uint32_t)png[header + 2] << 8 |
             png[header + 3]; /* the encoder makes one IDAT */
    errno = 0;
    if (!c->written) {
        store_be32(animation, c->frames); /* then 0: it plays for ever */
        good = fwrite(png, 1, header, c->out.file) == header && clip_put_chunk(c, "acTL", animation, 8);
        good = good && clip_put_text(c);
    }
    good = good && clip_apng_frame(c);
    if (!c->written) {
        good = good && clip_put_chunk(c, "IDAT", png + header + 8, length);
    } else {
        store_be32(number, c->sequence++);
        good = good && put_chunk_begin(c->out.file, &crc, length + 4, "fdAT") &&
               put_chunk_part(c->out.file, &crc, number, 4) &&
               put_chunk_part(c->out.file, &crc, png + header + 8, length) && put_chunk_end(c->out.file, crc);
    }
    free(png);
    return good || clip_fail_errno(c);
}

/* ---- Text as Exif ---- */

/* Exif (CIPA DC-008, 4.6): a directory of one entry that leads to one of Exif's own with a UserComment, in
   UTF-16. Freed with free; NULL without memory. */
static unsigned char *clip_exif(const char *text, size_t *size) {
    static const unsigned char head[] = {'M', 'M', 0,    42,   0,   0,   0,   8, /* big-endian; the directory's place */
                                         0,   1,   0x87, 0x69, 0,   4,   0,   0,   0,   1,   0,   0,
                                         0,   26,           /* one entry: the place of Exif's directory */
                                         0,   0,   0,    0, /* no further directory */
                                         0,   1,   0x92, 0x86, 0,   7,   0,   0,   0,   0,   0,   0,
                                         0,   44, /* one entry: UserComment, bytes, their place */
                                         0,   0,   0,    0,    'U', 'N', 'I', 'C', 'O', 'D', 'E', 0};
    const unsigned char *p = (const unsigned char *)text;
    unsigned char *exif = (unsigned char *)malloc(sizeof head + 2 * strlen(text)), *to;
    if (!exif) return NULL;
    memcpy(exif, head, sizeof head);
    to = exif + sizeof head;
    while (*p) { /* UTF-8, which was checked */
        unsigned more = *p < 0x80 ? 0 : *p < 0xe0 ? 1 : *p < 0xf0 ? 2 : 3;
        uint32_t code = more ? *p & (0x3fu >> more) : *p;
        for (p++; more && *p; more--) code = code << 6 | (*p++ & 0x3fu);
        if (code >= 0x10000) {
            store_be16(to, 0xd7c0u + (code >> 10));
            to += 2;
            code = 0xdc00u + (code & 0x3ffu);
        }
        store_be16(to, code);
        to += 2;
    }
    *size = (size_t)(to - exif);
    store_be32(exif + 32, (uint32_t)(*size - 44));
    return exif;
}

/* ---- Animated WebP, without loss where nobody has asked for another quality ---- */
#ifdef DIT_WEBP
static int clip_milliseconds(const clip *c, uint32_t frame) { return (int)lrint(1000.0 * frame * c->scale / c->rate); }

static bool clip_webp_begin(clip *c) {
    WebPAnimEncoderOptions options;
    if (!WebPAnimEncoderOptionsInit(&options)) return clip_fail(c, "libwebp is of another version than its header");
    c->webp = WebPAnimEncoderNew((int)c->width, (int)c->height, &options);
    return c->webp || clip_fail(c, "libwebp takes no frames of this size; its sides are 1 to 16383");
}

static bool clip_webp_put(clip *c, const unsigned char *rgba) {
    WebPConfig config;
    WebPPicture picture;
    const bool whole = c->quality == 0 || c->quality == 100;
    bool good =
        WebPConfigInit(&config) && (!whole || WebPConfigLosslessPreset(&config, 6)) && WebPPictureInit(&picture);
    if (!good) return clip_fail(c, "libwebp is of another version than its header");
    if (!whole) config.quality = (float)c->quality;
    config.exact = whole;
    picture.use_argb = 1;
    picture.width = (int)c->width;
    picture.height = (int)c->height;
    good = WebPPictureImportRGBX(&picture, rgba, (int)c->width * 4) &&
           WebPAnimEncoderAdd(c->webp, &picture, clip_milliseconds(c, c->written), &config);
    WebPPictureFree(&picture);
    return good || clip_fail(c, WebPAnimEncoderGetError(c->webp));
}

/* The assembled clip with its text. */
static bool clip_webp_text(clip *c, WebPData *data) {
    WebPData exif = {NULL, 0};
    WebPMux *mux;
    bool good;
    if (!c->text) return true;
    exif.bytes = clip_exif(c->text, &exif.size);
    mux = exif.bytes ? WebPMuxCreate(data, 1) : NULL;
    WebPDataClear(data);
    good = mux && WebPMuxSetChunk(mux, "EXIF", &exif, 1) == WEBP_MUX_OK && WebPMuxAssemble(mux, data) == WEBP_MUX_OK;
    WebPMuxDelete(mux);
    free((void *)(uintptr_t)exif.bytes);
    return good || clip_fail(c, "not enough memory for the text of its parameters");
}

static bool clip_webp_end(clip *c) {
    WebPData data;
    bool good;
    WebPDataInit(&data);
    good = WebPAnimEncoderAdd(c->webp, NULL, clip_milliseconds(c, c->written), NULL) &&
           WebPAnimEncoderAssemble(c->webp, &data);
    if (!good) clip_fail(c, WebPAnimEncoderGetError(c->webp));
    good = good && clip_webp_text(c, &data);
    errno = 0;
    if (good && fwrite(data.bytes, 1, data.size, c->out.file) != data.size) good = clip_fail_errno(c);
    WebPDataClear(&data);
    return good;
}
#endif

/* ---- PNGs with numbers ---- */

static bool clip_png_put(clip *c, const unsigned char *rgba) {
    char path[PATH_SIZE];
    size_t size = 0;
    unsigned char *png;
    bool good;
    if (!clip_number_path(c->path, c->written, path, sizeof path)) return clip_fail(c, "the name is too long");
    if (c->written < c->kept && file_exists(path)) return true;
    png = encode_png(rgba, c->width, c->height, c->text ? "parameters" : NULL, c->text, &size);
    if (!png) return clip_fail(c, "not enough memory to compress a frame");
    errno = 0;
    good = output_open(&c->out, path);
    if (good) good = output_close(&c->out, fwrite(png, 1, size, c->out.file) == size);
    free(png);
    return good || clip_fail_errno(c);
}

/* ---- ffmpeg: it reads Y4M from a pipe and writes the part file that is renamed in the end. Without -xerror some
   versions call it good when the disk was full. ---- */

/* GIF has 256 colours a frame, each frame those that suit it. Browsers show a frame of less than two hundredths of a
   second for ten, so that faster clips leave frames out. */
#define CLIP_GIF "split[a][b];[a]palettegen=stats_mode=single:reserve_transparent=0[p];[b][p]paletteuse=new=1"

/* Players take the colours of large frames for BT.709's where a file does not say which they are; these are as Y4M's.
 */
#define CLIP_COLOURS "setparams=range=tv:colorspace=smpte170m:color_primaries=bt709:color_trc=iec61966-2-1"

/* Sound as players of each container know it. */
static const char *clip_sound_codec(const char *container) {
    return strcmp(container, "webm") == 0 ? "libopus" : "aac";
}

static bool clip_ffmpeg_begin(clip *c) {
    const char *container = clip_find_ending(c->path)->container;
    const char *filter = strcmp(container, "gif") == 0 ? c->rate > 50 * c->scale ? "fps=50," CLIP_GIF : CLIP_GIF
                         : clip_shares_chroma(c)       ? CLIP_COLOURS ",format=yuv420p"
                                                       : CLIP_COLOURS ",format=yuv444p";
    /* what a player has to know stands in front, so that a clip plays while it is loaded */
    const bool mov = strcmp(container, "mp4") == 0 || strcmp(container, "mov") == 0;
    char target[PATH_SIZE + 8], sound[PATH_SIZE + 8];
#ifdef _WIN32
    char command[2 * PATH_SIZE + 500], more[PATH_SIZE + 64] = "";
    snprintf(target, sizeof target, "file:%s", c->out.part);
    snprintf(sound, sizeof sound, "file:%s", c->sound ? c->sound : "");
    if (c->sound) snprintf(more, sizeof more, "-i \"%s\" -c:a %s -b:a 192k", sound, clip_sound_codec(container));
    snprintf(command, sizeof command, "ffmpeg -v error -xerror -y -f yuv4mpegpipe -i - %s -vf %s %s -f %s \"%s\"", more,
             filter, mov ? "-movflags +faststart" : "", container, target);
    c->stream = _popen(command, "wb");
    return c->stream || clip_fail(c, "ffmpeg cannot be started");
#else
    int ends[2];
    const size_t length = c->text ? strlen(c->text) : 0, most = 100000; /* an argument has 128 KB at most */
    char *comment = length && length < most ? (char *)malloc(length + 16) : NULL;
    pid_t process;
    snprintf(target, sizeof target, "file:%s", c->out.part[0] ? c->out.part : c->path);
    snprintf(sound, sizeof sound, "file:%s", c->sound ? c->sound : "");
    if (comment) snprintf(comment, length + 16, "comment=%s", c->text);
    if (pipe(ends) != 0) return free(comment), clip_fail_errno(c);
    process = fork();
    if (process == 0) {
        const char *with_sound[] = {"-i", sound, "-c:a", clip_sound_codec(container), "-b:a", "192k"};
        const char *arguments[32] = {"ffmpeg",
                                     "-v",
                                     "error",
                                     "-xerror",
                                     "-y",
                                     "-f",
                                     "yuv4mpegpipe",
                                     "-i",
                                     "-",
                                     "-vf",
                                     filter,
                                     "-metadata",
                                     comment ? comment : "comment=",
                                     "-f",
                                     container,
                                     mov ? "-movflags" : target,
                                     mov ? "+faststart" : NULL,
                                     target,
                                     NULL};
        if (c->sound) { /* behind the frames' "-i", "-" */
            memmove(arguments + 9 + 6, arguments + 9, 12 * sizeof arguments[0]);
            memcpy(arguments + 9, with_sound, sizeof with_sound);
        }
        dup2(ends[0], 0);
        close(ends[0]);
        close(ends[1]);
        signal(SIGPIPE, SIG_DFL);
        execvp("ffmpeg", (char *const *)(uintptr_t)arguments);
        _exit(127);
    }
    free(comment);
    close(ends[0]);
    if (process < 0) return close(ends[1]), clip_fail_errno(c);
    fcntl(ends[1], F_SETFD, FD_CLOEXEC);
    c->process = (long)process;
    c->stream = fdopen(ends[1], "wb");
    return c->stream || clip_fail_errno(c);
#endif
}

/* A clip that was given up leaves ffmpeg an end of its input, which is no error of its own. */
static bool clip_ffmpeg_end(clip *c) {
    bool good = true;
#ifdef _WIN32
    good = !c->stream || _pclose(c->stream) == 0;
#else
    int status = 0;
    if (c->stream) good = fclose(c->stream) == 0;
    if (c->process > 0)
        good = waitpid((pid_t)c->process, &status, 0) == c->process && WIFEXITED(status) && WEXITSTATUS(status) == 0 &&
               good;
#endif
    c->stream = NULL;
    if (!good) c->why[0] = 0; /* a broken pipe says less than what ffmpeg has printed */
    return good || clip_fail(c, "ffmpeg did not make it; what it says stands above");
}

/* ---- All kinds ---- */

/* As broadcasters count: 23.976 is 24000 / 1001. */
static void clip_take_rate(clip *c, double fps) {
    uint32_t a, b;
    c->rate = (uint32_t)lrint(fps * 1000);
    c->scale = 1000;
    if (fabs(fps * 1.001 - rint(fps * 1.001)) < 1e-4 && fabs(fps - rint(fps)) > 1e-4) {
        c->rate = (uint32_t)lrint(fps * 1.001) * 1000;
        c->scale = 1001;
    }
    for (a = c->rate, b = c->scale; b;) {
        uint32_t rest = a % b;
        a = b;
        b = rest;
    }
    c->rate /= a;
    c->scale /= a;
}

/* Begins a clip of so many frames of RGBA, fps of them a second (0.001 to 1000); "-" is Y4M to the standard output.
   text: what made it, in UTF-8; NULL: nothing. sound: a WAV file, which what ffmpeg makes but GIF gets, too; NULL:
   none. path, text, sound and c stay where they are until clip_close, which is due after a failure, too: c->why says
   what it was. */
static bool clip_open(clip *c, const char *path, uint32_t width, uint32_t height, uint32_t frames, double fps,
                      const char *text, const char *sound) {
    const char *why = why_no_clip(path);
    memset(c, 0, sizeof *c);
    c->path = path;
    c->sound = clip_holds_sound(path) ? sound : NULL;
    c->text = text;
    c->width = width;
    c->height = height;
    c->frames = frames;
    if (why) return clip_fail(c, why);
    if (!(fps >= 0.001 && fps <= 1000)) return clip_fail(c, "a clip has 0.001 to 1000 frames a second");
    if (!width || !height || !frames) return clip_fail(c, "a clip has a frame at least, and its sides a pixel");
    clip_take_rate(c, fps);
    c->kind = clip_find_ending(path)->kind;
#ifndef _WIN32
    signal(SIGPIPE, SIG_IGN); /* writes fail with EPIPE */
#endif
    if (c->kind == CLIP_PNGS) return true;
    errno = 0;
    if (strcmp(path, "-") == 0)
        c->stream = stdout;
    else if (!output_open(&c->out, path))
        return clip_fail_errno(c);
#ifdef _WIN32
    if (c->stream == stdout) _setmode(_fileno(stdout), _O_BINARY);
#endif
    if (c->kind == CLIP_FFMPEG && !clip_ffmpeg_begin(c)) return false;
    if (!c->stream) c->stream = c->out.file;
#ifdef DIT_WEBP
    if (c->kind == CLIP_WEBP) return clip_webp_begin(c);
#endif
    return c->kind == CLIP_APNG || clip_y4m_begin(c);
}

/* One more frame, rgba [height][width][4]; alpha is not kept. */
static bool clip_put(clip *c, const unsigned char *rgba) {
    bool good = !c->why[0];
    if (good && c->written == c->frames) return clip_fail(c, "the clip has all of its frames");
    switch (c->kind) {
    case CLIP_APNG: good = good && clip_apng_put(c, rgba); break;
    case CLIP_PNGS: good = good && clip_png_put(c, rgba); break;
    case CLIP_WEBP:
#ifdef DIT_WEBP
        good = good && clip_webp_put(c, rgba);
#endif
        break;
    case CLIP_Y4M:
    case CLIP_FFMPEG: good = good && clip_y4m_put(c, rgba); break;
    }
    if (good) c->written++;
    return good;
}

/* Ends a clip. It is there when all frames were put and all was good; else nothing stays but numbered PNGs. */
static bool clip_close(clip *c) {
    bool good = !c->why[0];
    uint32_t crc;
    if (good && c->written < c->frames) good = clip_fail(c, "it has not all of its frames");
    errno = 0;
    if (good && c->kind == CLIP_APNG &&
        !(put_chunk_begin(c->out.file, &crc, 0, "IEND") && put_chunk_end(c->out.file, crc)))
        good = clip_fail_errno(c);
#ifdef DIT_WEBP
    if (good && c->kind == CLIP_WEBP) good = clip_webp_end(c);
    WebPAnimEncoderDelete(c->webp);
    c->webp = NULL;
#endif
    if (c->kind == CLIP_FFMPEG && (c->stream || c->process)) good = clip_ffmpeg_end(c) && good;
    if (c->stream == stdout && fflush(stdout) != 0) good = clip_fail_errno(c);
    if (c->out.file && !output_close(&c->out, good) && good) good = clip_fail_errno(c);
    free(c->planes);
    c->planes = NULL;
    return good;
}
#endif
