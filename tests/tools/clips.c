/* Clips (examples/cli/clip.h), written and read back: Y4M by a reader of its own, animated PNG chunk by chunk with
   stb_image, WebP by libwebp, and by ffmpeg where it is; odd sizes, one frame, and outputs that cannot be written. */
#include "library.h"
#include "examples/cli/clip.h"
#include "examples/cli/pictures.h"
#include "files.h"
#include "test.h"
#ifdef DIT_WEBP
#include <webp/demux.h>
#endif

#ifndef _WIN32
enum { MOST_SIDE = 64, MOST_FRAMES = 5 };
static char folder[] = "build/tests/clips.XXXXXX";

static const char *in_folder(const char *name) {
    static char paths[8][128];
    static int next;
    char *path = paths[next++ % 8];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

/* Squares of 2 x 2 pixels, so that chroma that four pixels share is theirs; each frame is another. */
static void draw(unsigned char *rgba, uint32_t width, uint32_t height, uint32_t frame) {
    uint32_t x, y;
    for (y = 0; y < height; y++) {
        for (x = 0; x < width; x++) {
            unsigned char *p = rgba + 4 * ((size_t)y * width + x);
            p[0] = (unsigned char)(x / 2 * 37 + frame * 50);
            p[1] = (unsigned char)(y / 2 * 53);
            p[2] = (unsigned char)(255 - (x / 2 + y / 2) * 11 - frame * 20);
            p[3] = (unsigned char)(x * y);
        }
    }
}

/* Writes that many frames; the sentence of a failure in why. */
static bool write_clip(const char *path, uint32_t width, uint32_t height, uint32_t frames, double fps, char *why) {
    static unsigned char rgba[MOST_SIDE * MOST_SIDE * 4];
    static clip c;
    uint32_t i;
    bool good = clip_open(&c, path, width, height, frames, fps);
    for (i = 0; i < frames && good; i++) {
        draw(rgba, width, height, i);
        good = clip_put(&c, rgba);
    }
    good = clip_close(&c) && good;
    snprintf(why, 256, "%s", c.why);
    return good;
}

/* The largest difference of red, green and blue; mean (NULL: not asked for): of all of them. */
static int difference(const unsigned char *got, int step, uint32_t width, uint32_t height, uint32_t frame,
                      double *mean) {
    static unsigned char rgba[MOST_SIDE * MOST_SIDE * 4];
    int worst = 0, k;
    draw(rgba, width, height, frame);
    double sum = 0;
    size_t i;
    for (i = 0; i < (size_t)width * height; i++) {
        for (k = 0; k < 3; k++) {
            int off = abs(got[i * (size_t)step + (size_t)k] - rgba[4 * i + (size_t)k]);
            worst = off > worst ? off : worst;
            sum += off;
        }
    }
    if (mean) *mean = sum / (3.0 * width * height);
    return worst;
}

static bool exists(const char *path) {
    struct stat info;
    return stat(path, &info) == 0;
}

/* Files in the folder, finished or not. */
static int count_files(void) {
    char command[160];
    int count = -1;
    FILE *pipe;
    snprintf(command, sizeof command, "ls %s | wc -l", folder);
    pipe = popen(command, "r");
    if (pipe && fscanf(pipe, "%d", &count) != 1) count = -1;
    if (pipe) pclose(pipe);
    return count;
}

/* ---- Y4M ---- */

static int clamp_byte(double value) { return value < 0 ? 0 : value > 255 ? 255 : (int)(value + 0.5); }

/* A frame of Y4M as RGB, by BT.601's inverse. */
static void to_rgb(const unsigned char *planes, uint32_t width, uint32_t height, uint32_t side, unsigned char *rgb) {
    const unsigned char *u = planes + (size_t)width * height, *v = u + (size_t)(width / side) * (height / side);
    uint32_t x, y;
    for (y = 0; y < height; y++) {
        for (x = 0; x < width; x++) {
            size_t at = (size_t)y * width + x, chroma = (size_t)(y / side) * (width / side) + x / side;
            double l = 255.0 / 219 * (planes[at] - 16), cb = u[chroma] - 128.0, cr = v[chroma] - 128.0;
            rgb[3 * at] = (unsigned char)clamp_byte(l + 1.596027 * cr);
            rgb[3 * at + 1] = (unsigned char)clamp_byte(l - 0.391762 * cb - 0.812968 * cr);
            rgb[3 * at + 2] = (unsigned char)clamp_byte(l + 2.017232 * cb);
        }
    }
}

static void check_y4m(const char *bytes, size_t size, uint32_t width, uint32_t height, uint32_t frames) {
    static unsigned char rgb[MOST_SIDE * MOST_SIDE * 3];
    uint32_t side = width % 2 || height % 2 ? 1 : 2, i;
    size_t frame = (size_t)width * height + 2 * (size_t)(width / side) * (height / side), head;
    char wanted[100];
    snprintf(wanted, sizeof wanted, "YUV4MPEG2 W%u H%u F12:1 Ip A1:1 %s XCOLORRANGE=LIMITED\n", width, height,
             side == 2 ? "C420jpeg" : "C444");
    head = strlen(wanted);
    if (!CHECK_MESSAGE(size == head + frames * (frame + 6) && !memcmp(bytes, wanted, head), "%ux%u: %u bytes", width,
                       height, (unsigned)size))
        return;
    for (i = 0; i < frames; i++) {
        const char *at = bytes + head + i * (frame + 6);
        CHECK(!memcmp(at, "FRAME\n", 6));
        to_rgb((const unsigned char *)at + 6, width, height, side, rgb);
        /* 220 levels of luma and 225 of chroma for 256 */
        CHECK_MESSAGE(difference(rgb, 3, width, height, i, NULL) <= 3, "%ux%u, frame %u is off by %d", width, height, i,
                      difference(rgb, 3, width, height, i, NULL));
    }
}

static void test_y4m(void) {
    static const uint32_t sizes[][3] = {{1, 1, 1}, {5, 3, 2}, {2, 2, 1}, {64, 48, 3}, {6, 7, 2}, {63, 64, 1}};
    const char *path = in_folder("a.y4m");
    char why[256];
    size_t i, size;
    for (i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        char *bytes;
        CHECK_MESSAGE(write_clip(path, sizes[i][0], sizes[i][1], sizes[i][2], 12, why), "%s", why);
        bytes = test_read_file(path, &size);
        if (CHECK(bytes)) check_y4m(bytes, size, sizes[i][0], sizes[i][1], sizes[i][2]);
        free(bytes);
    }
}

static void test_rates(void) {
    static const struct {
        double fps;
        uint32_t rate, scale;
    } cases[] = {{12, 12, 1},   {23.976, 24000, 1001}, {29.97, 30000, 1001}, {59.94, 60000, 1001},
                 {12.5, 25, 2}, {0.001, 1, 1000},      {1000, 1000, 1},      {8.333, 8333, 1000}};
    size_t i;
    for (i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        clip c;
        clip_take_rate(&c, cases[i].fps);
        CHECK_MESSAGE(c.rate == cases[i].rate && c.scale == cases[i].scale, "%g is %u / %u", cases[i].fps, c.rate,
                      c.scale);
    }
}

/* ---- PNG ---- */

static uint32_t load_be32(const unsigned char *p) {
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* Frame `frame` of an animated PNG as an ordinary one: the head, its data as IDAT, and the end. */
static size_t ordinary_png(const unsigned char *head, const unsigned char *data, uint32_t length, unsigned char *out) {
    uint32_t crc = 0;
    memcpy(out, head, 33);
    store_be32(out + 33, length);
    memcpy(out + 37, "IDAT", 4);
    memcpy(out + 41, data, length);
    crc = crc32_of(crc, out + 37, length + 4);
    store_be32(out + 41 + length, crc);
    memcpy(out + 45 + length, "\0\0\0\0IEND\xae\x42\x60\x82", 12);
    return 57 + length;
}

/* Chunks in order, their sums and numbers, and every frame's pixels. */
static void check_apng(const unsigned char *bytes, size_t size, uint32_t width, uint32_t height, uint32_t frames) {
    unsigned char *png = (unsigned char *)malloc(size + 100);
    uint32_t sequence = 0, seen = 0, controls = 0;
    size_t at = 8;
    bool ended = false;
    while (at + 12 <= size && !ended) {
        uint32_t length = load_be32(bytes + at);
        const unsigned char *type = bytes + at + 4, *data = type + 4;
        bool more = !memcmp(type, "fdAT", 4);
        if (!CHECK(length <= size - at - 12)) break;
        CHECK(crc32_of(0, type, length + 4) == load_be32(data + length));
        if (!memcmp(type, "acTL", 4)) CHECK(load_be32(data) == frames && load_be32(data + 4) == 0 && at == 33);
        if (!memcmp(type, "fcTL", 4)) {
            CHECK(load_be32(data) == sequence++ && load_be32(data + 4) == width && load_be32(data + 8) == height);
            CHECK(data[20] == 0 && data[21] == 1 && data[22] == 0 && data[23] == 12 && data[24] == 0 && data[25] == 0);
            controls++;
        }
        if (more) CHECK(load_be32(data) == sequence++);
        if (more || !memcmp(type, "IDAT", 4)) {
            size_t one = ordinary_png(bytes, data + (more ? 4 : 0), length - (more ? 4 : 0), png);
            picture p = {0};
            CHECK(controls == seen + 1 && more == (seen > 0));
            if (CHECK(!decode_picture(png, one, &p) && p.width == width && p.height == height))
                CHECK(!difference(p.rgba, 4, width, height, seen, NULL));
            free(p.rgba);
            seen++;
        }
        ended = !memcmp(type, "IEND", 4);
        at += 12 + length;
    }
    CHECK_MESSAGE(ended && at == size && seen == frames, "%u of %u frames", seen, frames);
    free(png);
}

static void test_apng(void) {
    static const uint32_t sizes[][3] = {{1, 1, 1}, {5, 3, 4}, {64, 48, 3}};
    const char *path = in_folder("a.apng");
    char why[256];
    size_t i, size;
    for (i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        char *bytes;
        CHECK_MESSAGE(write_clip(path, sizes[i][0], sizes[i][1], sizes[i][2], 12, why), "%s", why);
        bytes = test_read_file(path, &size);
        if (CHECK(bytes)) check_apng((const unsigned char *)bytes, size, sizes[i][0], sizes[i][1], sizes[i][2]);
        free(bytes);
    }
}

static void test_pngs(void) {
    static const char *const names[] = {"still-0001.png", "still-0002.png", "still-0003.png"};
    char why[256];
    uint32_t i;
    CHECK_MESSAGE(write_clip(in_folder("still.png"), 7, 5, 3, 12, why), "%s", why);
    CHECK(!exists(in_folder("still.png")) && !exists(in_folder("still-0004.png")));
    for (i = 0; i < 3; i++) {
        picture p = {0};
        if (CHECK(!load_picture(in_folder(names[i]), &p) && p.width == 7 && p.height == 5))
            CHECK(!difference(p.rgba, 4, 7, 5, i, NULL));
        free(p.rgba);
        remove(in_folder(names[i]));
    }
}

/* ---- WebP ---- */

static void test_webp(void) {
    const char *path = in_folder("a.webp");
    char why[256];
#ifdef DIT_WEBP
    static const uint32_t sizes[][3] = {{1, 1, 1}, {5, 3, 4}, {64, 48, 3}};
    size_t i, size;
    for (i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        uint32_t width = sizes[i][0], height = sizes[i][1], frame = 0;
        WebPAnimDecoder *decoder;
        WebPAnimInfo info;
        WebPData data;
        uint8_t *pixels;
        int time;
        char *bytes;
        CHECK_MESSAGE(write_clip(path, width, height, sizes[i][2], 12, why), "%s", why);
        bytes = test_read_file(path, &size);
        data.bytes = (const uint8_t *)bytes;
        data.size = size;
        decoder = bytes ? WebPAnimDecoderNew(&data, NULL) : NULL;
        if (CHECK(decoder && WebPAnimDecoderGetInfo(decoder, &info))) {
            CHECK(info.canvas_width == width && info.canvas_height == height &&
                  (info.loop_count == 0 || sizes[i][2] == 1)); /* a single frame is a still picture */
            for (; WebPAnimDecoderHasMoreFrames(decoder) && WebPAnimDecoderGetNext(decoder, &pixels, &time); frame++) {
                CHECK(!difference(pixels, 4, width, height, frame, NULL));
                CHECK_MESSAGE(sizes[i][2] == 1 || time == (int)lrint((frame + 1) * 1000 / 12.0), "frame %u ends at %d",
                              frame, time);
            }
            CHECK_MESSAGE(frame == sizes[i][2], "%u frames", frame);
        }
        WebPAnimDecoderDelete(decoder);
        free(bytes);
    }
#else
    CHECK(!write_clip(path, 5, 3, 1, 12, why) && strstr(why, "install the package libwebp-dev") && !exists(path));
    printf("clips: libwebp is not here: only that it is asked for was checked\n");
#endif
}

/* ---- ffmpeg ---- */

/* A clip as ffmpeg decodes it, raw RGB of all frames. */
static bool decode(const char *path, unsigned char *out, size_t size) {
    char command[400];
    size_t got;
    FILE *pipe;
    int end;
    snprintf(command, sizeof command, "ffmpeg -v error -i file:%s -f rawvideo -pix_fmt rgb24 - </dev/null", path);
    pipe = popen(command, "r");
    if (!pipe) return false;
    got = fread(out, 1, size, pipe);
    end = fgetc(pipe);
    return pclose(pipe) == 0 && got == size && end == EOF;
}

static void test_ffmpeg(void) {
    static const struct {
        const char *name;
        uint32_t width, height;
        double most; /* what its frames may be off, on average */
    } cases[] = {{"b.y4m", 64, 48, 6},  {"c.y4m", 5, 3, 6},    {"b.apng", 64, 48, 0}, {"c.apng", 5, 3, 0},
                 {"b.mp4", 64, 48, 12}, {"c.mp4", 63, 47, 12}, {"b.mkv", 64, 48, 12}};
    static unsigned char pixels[3 * MOST_SIDE * MOST_SIDE * 3];
    char why[256];
    size_t i;
    if (!clip_has_program("ffmpeg")) {
        printf("clips: ffmpeg is not here: its outputs were not checked\n");
        return;
    }
    for (i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *path = in_folder(cases[i].name);
        size_t frame = (size_t)cases[i].width * cases[i].height * 3, k;
        CHECK_MESSAGE(write_clip(path, cases[i].width, cases[i].height, 3, 12, why), "%s: %s", cases[i].name, why);
        if (!CHECK_MESSAGE(decode(path, pixels, 3 * frame), "%s is not decoded", cases[i].name)) continue;
        for (k = 0; k < 3; k++) {
            double mean = 0;
            difference(pixels + k * frame, 3, cases[i].width, cases[i].height, (uint32_t)k, &mean);
            CHECK_MESSAGE(mean <= cases[i].most, "%s: frame %d is off by %g", cases[i].name, (int)k, mean);
        }
    }
}

/* ---- Outputs that cannot be ---- */

static void refused(const char *path, const char *says) {
    char why[256];
    CHECK_MESSAGE(!write_clip(path, 6, 4, 2, 12, why) && strstr(why, says), "%s: '%s'", path, why);
}

static void test_bad_paths(void) {
    static clip c;
    unsigned char rgba[6 * 4 * 4] = {0};
    char path[160];
    int before = count_files();
    refused("clip.avi", "ends in .y4m");
    refused("clip", "ends in .y4m");
    refused("", "ends in .y4m");
    refused(in_folder("none/clip.y4m"), "its folder does not exist");
    refused(in_folder("none/clip.png"), "No such file");
    snprintf(path, sizeof path, "%s/full.y4m", folder);
    CHECK(symlink("/dev/full", path) == 0);
    refused(path, "No space left");
    remove(path);
    snprintf(path, sizeof path, "%s/full.apng", folder);
    CHECK(symlink("/dev/full", path) == 0);
    refused(path, "No space left");
    remove(path);
    CHECK(!clip_open(&c, in_folder("x.y4m"), 6, 4, 1, 0) && strstr(c.why, "0.001 to 1000") && !clip_close(&c));
    CHECK(!clip_open(&c, in_folder("x.y4m"), 0, 4, 1, 12) && strstr(c.why, "a pixel") && !clip_close(&c));
    CHECK(clip_open(&c, in_folder("x.y4m"), 6, 4, 2, 12) && clip_put(&c, rgba) && !clip_close(&c) &&
          strstr(c.why, "not all of its frames"));
    CHECK(clip_open(&c, in_folder("x.apng"), 6, 4, 1, 12) && clip_put(&c, rgba) && !clip_put(&c, rgba) &&
          !clip_close(&c) && strstr(c.why, "all of its frames"));
    CHECK_MESSAGE(count_files() == before, "%d files stay", count_files() - before);
}

/* The standard output: good, one that nobody reads, and a full one. */
static void test_stdout(void) {
    int saved, ends[2], full = open("/dev/full", O_WRONLY);
    char why[256], *bytes;
    size_t size;
    fflush(stdout);
    saved = dup(1);
    CHECK(freopen(in_folder("out"), "wb", stdout) && write_clip("-", 6, 4, 2, 12, why));
    fflush(stdout);
    CHECK(pipe(ends) == 0 && dup2(ends[1], 1) == 1);
    close(ends[0]);
    close(ends[1]);
    CHECK_MESSAGE(!write_clip("-", 64, 48, 2, 12, why) && strstr(why, "nobody reads it"), "%s", why);
    CHECK(dup2(full, 1) == 1);
    clearerr(stdout);
    CHECK_MESSAGE(!write_clip("-", 64, 48, 2, 12, why) && strstr(why, "No space left"), "%s", why);
    dup2(saved, 1);
    clearerr(stdout);
    close(full);
    close(saved);
    bytes = test_read_file(in_folder("out"), &size);
    if (CHECK(bytes)) check_y4m(bytes, size, 6, 4, 2);
    free(bytes);
}

/* ffmpeg absent, and one that fails at once, in the midst and in the end. */
static void test_bad_ffmpeg(void) {
    static const char *const scripts[] = {"exit 1", "head -c 100 >/dev/null; exit 3", "cat >/dev/null; exit 2",
                                          "kill -9 $$"};
    char program[160], path[600], saved[2000], why[256];
    int before = count_files();
    size_t i;
    snprintf(saved, sizeof saved, "%s", getenv("PATH"));
    setenv("PATH", in_folder("empty"), 1);
    refused(in_folder("x.mp4"), "install the package ffmpeg");
    snprintf(path, sizeof path, "%s:/usr/bin:/bin", folder);
    setenv("PATH", path, 1);
    snprintf(program, sizeof program, "%s/ffmpeg", folder);
    for (i = 0; i < sizeof scripts / sizeof scripts[0]; i++) {
        FILE *script = fopen(program, "w");
        fprintf(script, "#!/bin/sh\n%s\n", scripts[i]);
        fclose(script);
        chmod(program, 0755);
        CHECK_MESSAGE(!write_clip(in_folder("x.mp4"), 64, 64, 5, 12, why) && strstr(why, "ffmpeg did not make it"),
                      "%s: %s", scripts[i], why);
    }
    remove(program);
    setenv("PATH", saved, 1);
    CHECK_MESSAGE(count_files() == before, "%d files stay", count_files() - before);
}

#endif

int main(void) {
#ifndef _WIN32 /* it has neither /dev/full, links nor scripts, and popen has another name there */
    char command[160];
    CHECK(mkdtemp(folder));
    test_y4m();
    test_rates();
    test_apng();
    test_pngs();
    test_webp();
    test_ffmpeg();
    test_bad_paths();
    test_stdout();
    test_bad_ffmpeg();
    snprintf(command, sizeof command, "rm -rf %s", folder);
    CHECK(system(command) == 0);
#else
    CHECK(clip_find_ending("a.y4m") && why_no_clip("a.avi"));
#endif
    return TEST_END("clips");
}
