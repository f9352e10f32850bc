/* Clips (examples/cli/clip.h), written and read back: Y4M by a reader of its own, animated PNG chunk by chunk with
   stb_image, WebP by libwebp, and by ffmpeg where it is; odd sizes, one frame, and outputs that cannot be written. Then
   clips that are read (examples/cli/frames.h): what was written comes back, what is damaged is named. */
#include "library.h"
#include "examples/cli/stills.h"
#include "examples/cli/frames.h"
#include "files.h"
#include "test.h"
#ifdef DIT_WEBP
#include <webp/demux.h>
#endif

#ifndef _WIN32
enum { MOST_SIDE = 64, MOST_FRAMES = 5 };
static char folder[] = "build/tests/clips.XXXXXX";
static const char *clip_text; /* that write_clip writes, too */
static int clip_quality;      /* likewise */

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
    bool good = clip_open(&c, path, width, height, frames, fps, clip_text, NULL);
    c.quality = clip_quality;
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

/* Numbers in names: where they stand, and names that cannot be. */
static void test_numbers(void) {
    static const char *const names[][3] = {{"clip.png", "clip-0001.png", "clip-12345.png"},
                                           {"d/%04d.png", "d/0001.png", "d/12345.png"},
                                           {"%d.png", "1.png", "12345.png"},
                                           {"100%/a%02db.png", "100%/a01b.png", "100%/a12345b.png"},
                                           {".png", "-0001.png", "-12345.png"}};
    static const char *const bad[] = {"%s.png",   "%.png",    "%04.png",          "%d%d.png",
                                      "%-4d.png", "%10d.png", "%99999999999d.png"};
    char path[100];
    size_t i;
    for (i = 0; i < sizeof names / sizeof names[0]; i++) {
        CHECK_MESSAGE(clip_number_path(names[i][0], 0, path, sizeof path) && !strcmp(path, names[i][1]), "%s", path);
        CHECK_MESSAGE(clip_number_path(names[i][0], 12344, path, sizeof path) && !strcmp(path, names[i][2]), "%s",
                      path);
        CHECK(!why_no_number(names[i][0]) && clip_is_pattern(names[i][0]) == (i == 1 || i == 2 || i == 3));
    }
    for (i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        const char *why = why_no_clip(bad[i]);
        CHECK_MESSAGE(why && strstr(why, "%04d"), "%s: %s", bad[i], why ? why : "taken");
    }
    CHECK(!clip_number_path("d/%04d.png", 0, path, 10) && clip_number_path("d/%04d.png", 0, path, 11));
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

static bool holds(const char *path, const void *bytes, size_t length) {
    size_t size = 0, i;
    char *file = test_read_file(path, &size);
    bool found = false;
    for (i = 0; file && i + length <= size && !found; i++) found = !memcmp(file + i, bytes, length);
    free(file);
    return found;
}

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
    for (clip_quality = 100; clip_quality > 0; clip_quality -= 80) { /* the last clip above lost nothing */
        char *bytes;
        size_t lossy;
        CHECK_MESSAGE(write_clip(path, 64, 48, 3, 12, why), "%s", why);
        bytes = test_read_file(path, &lossy);
        CHECK_MESSAGE((lossy == size) == (clip_quality == 100) && holds(path, "VP8 ", 4) == (clip_quality != 100),
                      "quality %d: %zu bytes, not %zu", clip_quality, lossy, size);
        free(bytes);
    }
    clip_quality = 0;
#else
    CHECK(!write_clip(path, 5, 3, 1, 12, why) && strstr(why, "install the package libwebp-dev") && !exists(path));
    printf("clips: libwebp is not here: only that it is asked for was checked\n");
#endif
}

/* A picture of a model that paints alpha keeps it, beside its text. */
static void test_still_webp(void) {
#ifdef DIT_WEBP
    static unsigned char rgba[MOST_SIDE * 5 * 4];
    size_t size, i;
    int quality, width, height;
    draw(rgba, MOST_SIDE, 5, 0);
    for (quality = 80; quality <= 100; quality += 20) {
        unsigned char *file = encode_still(STILL_WEBP, rgba, MOST_SIDE, 5, quality, "a fox", &size);
        unsigned char *back = file ? WebPDecodeRGBA(file, size, &width, &height) : NULL;
        CHECK(back && width == MOST_SIDE && height == 5);
        for (i = 3; back && i < sizeof rgba && back[i] == rgba[i]; i += 4) {
        }
        CHECK_MESSAGE(i >= sizeof rgba, "quality %d: alpha of pixel %zu", quality, i / 4);
        CHECK(quality < 100 || (back && memcmp(back, rgba, sizeof rgba) == 0));
        WebPFree(back);
        free(file);
    }
#endif
}

/* ---- The text of what made a clip ---- */

static bool says(const char *command, const char *text) {
    char out[4000] = "";
    FILE *pipe = popen(command, "r");
    size_t size = pipe ? fread(out, 1, sizeof out - 1, pipe) : 0;
    out[size] = 0;
    return pipe && pclose(pipe) == 0 && strstr(out, text);
}

/* A GIF's frames last two hundredths of a second at least, since browsers show shorter ones for ten, and all of them
   together as long as the clip. shown: frames that it has; 0: it may leave some out. */
static void check_gif_pace(const char *path, double fps, uint32_t frames, uint32_t shown) {
    uint32_t count = 0, sum = 0, shortest = 65535;
    size_t size = 0, i;
    char *file = test_read_file(path, &size);
    for (i = 0; file && i + 8 <= size; i++) {
        const unsigned char *p = (const unsigned char *)file + i;
        const uint32_t delay = p[4] + 256u * p[5];
        if (memcmp(p, "\x21\xf9\x04", 3) != 0) continue;
        count++;
        sum += delay;
        if (delay < shortest) shortest = delay;
    }
    CHECK_MESSAGE(shortest >= 2 && fabs(sum - 100 * frames / fps) <= 2.5 && (!shown || count == shown),
                  "%g a second: %u frames last %u, one of them %u", fps, count, sum, shortest);
    free(file);
}

/* Chunks of PNGs, Exif in UTF-16, and the comment of what ffmpeg makes. */
static void test_texts(void) {
    static const char chunk[] = "tEXtparameters\0a fox, 5 frames";
    static const unsigned char exif[] = {0x92, 0x86, 0, 7,    0,    0,    0,    20,   0,    0,    0,    44,
                                         0,    0,    0, 0,    'U',  'N',  'I',  'C',  'O',  'D',  'E',  0,
                                         0,    'a',  0, 0xe4, 0x27, 0x64, 0xd8, 0x3e, 0xdd, 0x8a, 0x22, 0x65};
    static const double rates[] = {50, 59.94, 100, 240};
    char why[256], command[300];
    size_t i;
    clip_text = "a fox, 5 frames";
    CHECK_MESSAGE(write_clip(in_folder("t.apng"), 5, 3, 2, 12, why), "%s", why);
    CHECK(holds(in_folder("t.apng"), chunk, sizeof chunk - 1));
    CHECK_MESSAGE(write_clip(in_folder("t%d.png"), 5, 3, 2, 12, why), "%s", why);
    CHECK(holds(in_folder("t1.png"), chunk, sizeof chunk - 1) && holds(in_folder("t2.png"), chunk, sizeof chunk - 1));
    if (clip_has_program("ffmpeg")) {
        clip_text = "a \"fox\"; = 5";
        CHECK_MESSAGE(write_clip(in_folder("t.mkv"), 6, 4, 2, 12, why), "%s", why);
        snprintf(command, sizeof command, "ffmpeg -v error -i file:%s -f ffmetadata - </dev/null", in_folder("t.mkv"));
        CHECK(says(command, "=a \"fox\"\\; \\= 5"));
        CHECK_MESSAGE(write_clip(in_folder("t.gif"), 6, 4, 3, 12, why), "%s", why);
        CHECK(holds(in_folder("t.gif"), "NETSCAPE2.0", 11)); /* it plays for ever */
        check_gif_pace(in_folder("t.gif"), 12, 3, 3);
        for (i = 0; i < sizeof rates / sizeof rates[0]; i++) {
            CHECK_MESSAGE(write_clip(in_folder("t.gif"), 6, 4, 12, rates[i], why), "%s", why);
            check_gif_pace(in_folder("t.gif"), rates[i], 12, rates[i] > 50 ? 0 : 12);
        }
    }
#ifdef DIT_WEBP
    clip_text = "a\xc3\xa4\xe2\x9d\xa4\xf0\x9f\xa6\x8a\xe2\x89\xa5"; /* one, two, three, four and three bytes */
    CHECK_MESSAGE(write_clip(in_folder("t.webp"), 5, 3, 2, 12, why), "%s", why);
    CHECK(holds(in_folder("t.webp"), exif, sizeof exif));
#else
    (void)exif;
#endif
    clip_text = NULL;
}

/* ---- Clips that are read ---- */

/* A clip that was written comes back; colours lose a little as luma and chroma. */
static void check_read_back(const char *path, uint32_t width, uint32_t height, uint32_t frames, int most) {
    static frame_reader reader;
    const char *why = frames_open(&reader, path);
    picture p = {0};
    while (!why) {
        why = frames_next(&reader, &p);
        if (why || !p.rgba) break;
        if (CHECK(p.width == width && p.height == height))
            CHECK_MESSAGE(difference(p.rgba, 4, width, height, reader.read - 1, NULL) <= most, "frame %u of %s",
                          reader.read, path);
        free(p.rgba);
    }
    CHECK_MESSAGE(!why && reader.read == frames, "%s: %u frames; %s", path, reader.read, why ? why : "");
    CHECK(!reader.file || (reader.rate == 12 && reader.scale == 1));
    frames_close(&reader);
}

static void test_reading(void) {
    static const uint32_t sizes[][3] = {{1, 1, 1}, {5, 3, 2}, {64, 48, 3}};
    char why[256];
    size_t i;
    for (i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        CHECK(write_clip(in_folder("r.y4m"), sizes[i][0], sizes[i][1], sizes[i][2], 12, why));
        check_read_back(in_folder("r.y4m"), sizes[i][0], sizes[i][1], sizes[i][2], 3);
    }
    CHECK(mkdir(in_folder("frames"), 0700) == 0);
    CHECK(write_clip(in_folder("frames/f%d.png"), 7, 5, 5, 12, why));
    CHECK(rename(in_folder("frames/f5.png"), in_folder("frames/f10.PNG")) == 0); /* the last one all the same */
    fclose(fopen(in_folder("frames/notes.txt"), "w"));
    fclose(fopen(in_folder("frames/.f0.png"), "w"));
    check_read_back(in_folder("frames"), 7, 5, 5, 0);
}

/* Three pixels by two, 0 1 2 above 3 4 5, in a PNG whose eXIf says how the camera was held, or which was cut there. */
static size_t make_turned(unsigned char *png, unsigned orientation, bool big, size_t cut) {
    static const unsigned char tags[2][26] = {
        {'I', 'I', 42, 0, 8, 0, 0, 0, 1, 0, 0x12, 1, 3, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
        {'M', 'M', 0, 42, 0, 0, 0, 8, 0, 1, 1, 0x12, 0, 3, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0}};
    unsigned char rgba[6][4] = {{0}}, *plain;
    size_t size, i;
    for (i = 0; i < 6; i++) rgba[i][0] = (unsigned char)i, rgba[i][3] = 255;
    plain = encode_png(rgba[0], 3, 2, NULL, NULL, &size);
    memcpy(png, plain, 33);
    store_be32(png + 33, (uint32_t)cut);
    memcpy(png + 37, "eXIf", 4);
    memcpy(png + 41, tags[big], cut);
    if (cut > 19) png[41 + (big ? 19 : 18)] = (unsigned char)orientation;
    store_be32(png + 41 + cut, crc32_of(0, png + 37, cut + 4));
    memcpy(png + 45 + cut, plain + 33, size - 33);
    free(plain);
    return size + 12 + cut;
}

/* Pictures of cameras that were held otherwise become upright, as programs that show them do it. */
static void test_upright(void) {
    static const unsigned char upright[8][6] = {{0, 1, 2, 3, 4, 5}, {2, 1, 0, 5, 4, 3}, {5, 4, 3, 2, 1, 0},
                                                {3, 4, 5, 0, 1, 2}, {0, 3, 1, 4, 2, 5}, {3, 0, 4, 1, 5, 2},
                                                {5, 2, 4, 1, 3, 0}, {2, 5, 1, 4, 0, 3}};
    unsigned char png[256], *jpeg;
    unsigned orientation;
    size_t size, i, big;
    picture p;
    for (orientation = 0; orientation < 10; orientation++)
        for (big = 0; big < 2; big++) {
            const unsigned taken = orientation >= 1 && orientation <= 8 ? orientation : 1;
            CHECK(!decode_picture(png, make_turned(png, orientation, big, 26), &p));
            CHECK_MESSAGE(p.width == (taken < 5 ? 3 : 2) && p.height == (taken < 5 ? 2 : 3), "%u: %ux%u", orientation,
                          p.width, p.height);
            for (i = 0; i < 6; i++)
                CHECK_MESSAGE(p.rgba[4 * i] == upright[taken - 1][i], "%u: pixel %zu is %u", orientation, i,
                              p.rgba[4 * i]);
            free(p.rgba);
        }
    for (i = 0; i < 22; i++) {
        CHECK(!decode_picture(png, make_turned(png, 6, true, i), &p) && p.width == 3);
        free(p.rgba);
    }
    jpeg = read_file("tests/corpus/picture/jpeg_turned", &size);
    CHECK(jpeg && !decode_picture(jpeg, size, &p) && p.width == 29 && p.height == 37);
    free(p.rgba);
    free(jpeg);
}

/* The sentence says what is wrong with which frame; frames: that come before. */
static void unreadable(const char *path, uint32_t frames, const char *says) {
    static frame_reader reader;
    const char *why = frames_open(&reader, path);
    picture p = {0};
    while (!why) {
        why = frames_next(&reader, &p);
        if (!p.rgba) break;
        free(p.rgba);
    }
    CHECK_MESSAGE(says ? why && strstr(why, says) : !why, "%s: %s", path, why ? why : "taken");
    CHECK_MESSAGE(reader.read == frames, "%s: %u frames", path, reader.read);
    frames_close(&reader);
}

static void test_unreadable(void) {
    static const struct {
        const char *name;
        uint32_t frames;
        const char *says; /* NULL: all is well */
    } cases[] = {{"c420", 3, NULL},
                 {"c420_odd", 2, NULL},
                 {"c422", 1, NULL},
                 {"c411", 1, NULL},
                 {"c444_full", 2, NULL},
                 {"c444alpha", 1, NULL},
                 {"mono", 2, NULL},
                 {"frame_words", 1, NULL},
                 {"ten_bits", 0, "420p10"},
                 {"interlaced", 0, "interlaced"},
                 {"empty", 0, "no Y4M"},
                 {"no_size", 0, "no size"},
                 {"zero", 0, "W0 in its first line"},
                 {"huge", 0, "32768 pixels a side"},
                 {"wide", 0, "67108864 in all"},
                 {"cut", 1, "ends within frame 2"},
                 {"cut_word", 2, "behind frame 2"},
                 {"no_frame", 1, "behind frame 1"},
                 {"long_line", 0, "no Y4M"},
                 {"rate", 0, "F-1:2 in its first line"},
                 {"numbers", 0, "no Y4M"}};
    char path[64], why[256];
    size_t i;
    for (i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        snprintf(path, sizeof path, "tests/corpus/frames/%s", cases[i].name);
        unreadable(path, cases[i].frames, cases[i].says);
    }
    unreadable(in_folder("nothing"), 0, "No such file");
    CHECK(mkdir(in_folder("none"), 0700) == 0);
    unreadable(in_folder("none"), 0, "no PNG or JPEG");
    CHECK(write_clip(in_folder("frames/f%d.png"), 5, 7, 1, 12, why));
    unreadable(in_folder("frames"), 1, "f2.png is 7x5 pixels, the first picture is 5x7");
    fclose(fopen(in_folder("frames/f1.png"), "w"));
    unreadable(in_folder("frames"), 0, "f1.png: this is no PNG");
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
        printf("skipped: what ffmpeg reads and writes (it is not installed)\n");
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

/* A clip of a camera, whose colours are BT.709's, keeps them on the way that the refusal of its file tells. */
static void test_cameras(void) {
    static frame_reader reader;
    static const char made[] =
        "color=c=0xC03020:s=16x16:r=12:d=0.1,format=rgb24,scale=out_color_matrix=bt709,format=yuv444p";
    char command[700], path[160];
    const char *why, *begin, *at;
    picture p = {0};
    if (!clip_has_program("ffmpeg")) return; /* test_ffmpeg has told so */
    snprintf(path, sizeof path, "%s", in_folder("camera.mkv"));
    snprintf(command, sizeof command, "ffmpeg -v error -f lavfi -i %s -colorspace bt709 file:%s", made, path);
    CHECK(system(command) == 0);
    why = frames_open(&reader, path);
    begin = why ? strchr(why, '`') : NULL;
    at = begin ? strstr(begin, " CLIP ") : NULL;
    if (CHECK_MESSAGE(at && strstr(at, " clip.y4m`"), "%s", why ? why : "taken")) {
        snprintf(command, sizeof command, "%.*s file:%s %.*s -v error %s", (int)(at - begin - 1), begin + 1, path,
                 (int)(strstr(at, " clip.y4m`") - at - 6), at + 6, in_folder("camera.y4m"));
        CHECK_MESSAGE(system(command) == 0, "%s", command);
    }
    frames_close(&reader);
    why = frames_open(&reader, in_folder("camera.y4m"));
    if (!why) why = frames_next(&reader, &p);
    if (CHECK_MESSAGE(!why && p.rgba, "%s", why ? why : "no frame"))
        CHECK_MESSAGE(abs(p.rgba[0] - 0xc0) < 5 && abs(p.rgba[1] - 0x30) < 5 && abs(p.rgba[2] - 0x20) < 5,
                      "red is %u, green %u, blue %u", p.rgba[0], p.rgba[1], p.rgba[2]);
    free(p.rgba);
    frames_close(&reader);
}

/* Players are told the number and the rate of frames, whose chroma is shared, and whose colours these are; all of that
   in front of the frames. */
static void test_players(void) {
    static const char wanted[] = "codec_name=h264\nwidth=64\nheight=48\npix_fmt=yuv420p\ncolor_range=tv\n"
                                 "color_space=smpte170m\ncolor_transfer=iec61966-2-1\ncolor_primaries=bt709\n"
                                 "avg_frame_rate=12/1\nnb_frames=5\n";
    char command[400], told[400] = "", why[256], *bytes;
    size_t size = 0, i, head = 0, frames = 0;
    FILE *pipe;
    if (!clip_has_program("ffmpeg") || !clip_has_program("ffprobe")) return; /* test_ffmpeg has told so */
    CHECK_MESSAGE(write_clip(in_folder("b.mp4"), 64, 48, 5, 12, why), "%s", why);
    snprintf(command, sizeof command,
             "ffprobe -v error -of default=nw=1 -show_entries stream=codec_name,width,height,pix_fmt,color_range,"
             "color_space,color_transfer,color_primaries,avg_frame_rate,nb_frames file:%s",
             in_folder("b.mp4"));
    pipe = popen(command, "r");
    if (pipe) told[fread(told, 1, sizeof told - 1, pipe)] = 0;
    if (pipe) pclose(pipe);
    CHECK_MESSAGE(!strcmp(told, wanted), "ffprobe tells %s", told);
    bytes = test_read_file(in_folder("b.mp4"), &size);
    for (i = 0; bytes && i + 4 <= size; i++) {
        if (!head && !memcmp(bytes + i, "moov", 4)) head = i;
        if (!frames && !memcmp(bytes + i, "mdat", 4)) frames = i;
    }
    CHECK_MESSAGE(head && head < frames, "moov at %u, mdat at %u", (unsigned)head, (unsigned)frames);
    free(bytes);
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
    refused(in_folder("none/clip.png"), "its folder does not exist");
    snprintf(path, sizeof path, "%s/full.y4m", folder);
    CHECK(symlink("/dev/full", path) == 0);
    refused(path, "No space left");
    remove(path);
    snprintf(path, sizeof path, "%s/full.apng", folder);
    CHECK(symlink("/dev/full", path) == 0);
    refused(path, "No space left");
    remove(path);
    snprintf(path, sizeof path, "%s/full.mkv", folder);
    CHECK(symlink("/dev/full", path) == 0);
    if (clip_has_program("ffmpeg")) refused(path, "ffmpeg did not make it");
    remove(path);
    CHECK(!clip_open(&c, in_folder("x.y4m"), 6, 4, 1, 0, NULL, NULL) && strstr(c.why, "0.001 to 1000") &&
          !clip_close(&c));
    CHECK(!clip_open(&c, in_folder("x.y4m"), 0, 4, 1, 12, NULL, NULL) && strstr(c.why, "a pixel") && !clip_close(&c));
    CHECK(clip_open(&c, in_folder("x.y4m"), 6, 4, 2, 12, NULL, NULL) && clip_put(&c, rgba) && !clip_close(&c) &&
          strstr(c.why, "not all of its frames"));
    CHECK(clip_open(&c, in_folder("x.apng"), 6, 4, 1, 12, NULL, NULL) && clip_put(&c, rgba) && !clip_put(&c, rgba) &&
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
    test_numbers();
    test_pngs();
    test_texts();
    test_reading();
    test_upright();
    test_webp();
    test_still_webp();
    test_ffmpeg();
    test_cameras();
    test_players();
    test_bad_paths();
    test_unreadable();
    test_stdout();
    test_bad_ffmpeg();
    snprintf(command, sizeof command, "rm -rf %s", folder);
    CHECK(system(command) == 0);
#else
    CHECK(clip_find_ending("a.y4m") && why_no_clip("a.avi"));
#endif
    return TEST_END("clips");
}
