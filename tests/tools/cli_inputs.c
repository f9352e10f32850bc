/* Inputs of build/dit, driven as a process: pictures, masks and references, LoRAs, pictures that steer, noise,
   prompts as data, frames and clips, and parts of models; what outputs must not overwrite; and the clips that are made.
   Usage: cli_inputs [PROGRAM]; PROGRAM is build/dit unless given.   test-runs: lavapipe */
#define _GNU_SOURCE
#include "command_line.h"
#include "test.h"
#include "examples/cli/options.h"
#define STB_IMAGE_WRITE_IMPLEMENTATION
#define STB_IMAGE_WRITE_STATIC
#include <stb/stb_image_write.h>

#define EXPERTS "tests/fixtures/pipe_wan22_i2v_a14b"
#define HUNYUAN "tests/fixtures/vae_hunyuanvideo"
#define KLEIN "tests/fixtures/pipe_flux2_klein"
#define FLUX "tests/fixtures/pipe_flux"
#define FLUX_FILL "tests/fixtures/flux_fill/transformer"
#define FLUX_NET "tests/fixtures/flux_controlnet/controlnet"

/* ---- Pictures to begin with, pictures that are referred to, LoRAs, pictures that steer ---- */

/* A picture of another size is scaled, alone to about the model's number of pixels; parameters are told. */
static void test_start_picture(void) {
    char *first = strdup(in_work("first.png")), *second = strdup(in_work("second.png"));
    png_file png;
    outcome o = RUN(QUICK, "-q", "-W", "96", "-o", first);
    CHECK_MESSAGE(o.code == 0, "%s", o.err);
    o = RUN("-m", MODEL, "-p", "x", "--steps", "4", "-i", first, "--mask", first, "--strength", "0.5", "--guidance-end",
            "0.5", "--apg-eta", "0.2", "-o", second);
    CHECK_MESSAGE(o.code == 0 && strstr(o.err, "is 96x32 pixels, scaled to 112x32"), "%s", o.err);
    png = read_png(second);
    CHECK_MESSAGE(strstr(png.text, "Size: 112x32, Init image: first.png, Mask: first.png, Denoising strength: 0.5, "
                                   "Guidance end: 0.5, APG eta: 0.2, Model: ") &&
                      strstr(png.text, ", Init image hash: ") && strstr(png.text, ", Mask hash: "),
                  "%s", png.text);
    free(png.rgb);
    free(first);
    free(second);
}

/* The text of a picture has that. */
static void check_told(const char *path, const char *told) {
    png_file png = read_png(path);
    CHECK_MESSAGE(strstr(png.text, told), "\"%s\" is not in \"%s\"", told, png.text);
    free(png.rgb);
}

static void test_references(void) {
    char *ref = strdup(in_work("ref.png")), *once = strdup(in_work("once.png")), *twice = strdup(in_work("twice.png")),
         *kept = strdup(in_work("kept.png")), *again = strdup(in_work("again.png"));
    outcome o = RUN("-m", KLEIN, "-p", "x", "-q", "--steps", "1", "-W", "80", "-H", "64", "-o", ref);
    CHECK_MESSAGE(o.code == 0, "%s", o.err);
#define KLEIN_RUN "-m", KLEIN, "-p", "x", "-q", "--steps", "1", "-W", "64", "-H", "64"
    o = RUN(KLEIN_RUN, "-r", ref, "-o", once);
    CHECK_MESSAGE(o.code == 0, "%s", o.err);
    o = RUN(KLEIN_RUN, "-r", ref, "--ref-image", ref, "-o", twice);
    CHECK_MESSAGE(o.code == 0, "%s", o.err);
    o = RUN(KLEIN_RUN, "-r", ref, "--keep-references", "-o", kept);
    CHECK_MESSAGE(o.code == 0, "%s", o.err);
    CHECK(other_pixels(once, twice) && other_pixels(once, kept));
    check_told(kept, "References kept: ");
    check_told(once, ", References: ref.png, ");
    o = RUN("--repeat-from", kept, "-m", KLEIN, "-q", "-o", again); /* the reference lies beside it */
    CHECK_MESSAGE(o.code == 0 && same_pixels(kept, again), "%s", o.err);
    o = RUN("--repeat-from", kept, "-m", KLEIN, "-r", twice, "-q", "-o", again); /* another one in its place */
    CHECK_MESSAGE(o.code == 0 && other_pixels(kept, again), "%s", o.err);
    check_refusal(RUN(KLEIN_RUN, "--keep-references", "-o", again), 2, "--keep-references is about --ref-image");
    check_refusal(RUN(KLEIN_RUN, "-r", "missing.png", "-o", again), 3, "--ref-image missing.png: ");
    o = RUN(KLEIN_RUN, "-r", ref, "-i", twice, "--steps", "2", "--strength", "0.5", "-o", again); /* both at a time */
    CHECK_MESSAGE(o.code == 0 && other_pixels(once, again), "%s", o.err);
    o = RUN(KLEIN_RUN, "-r", ref, "-i", ref, "--steps", "2", "--strength", "0.5", "-o", kept);
    CHECK_MESSAGE(o.code == 0 && other_pixels(kept, again), "%s", o.err);
    check_refusal(RUN(QUICK, "-q", "-r", ref, "-o", again), 2, "references");
    free(ref);
    free(once);
    free(twice);
    free(kept);
    free(again);
}

/* A DoRA for a layer of the model: its rows are nearly as they were, and all of length 3. */
static void store_dora(const char *path) {
    enum { ROWS = 48, COLUMNS = 48, RANK = 1 };
    static const char header[] = "{\"transformer.transformer_blocks.0.attn1.to_out.0.lora_A.weight\":"
                                 "{\"dtype\":\"F32\",\"shape\":[1,48],\"data_offsets\":[0,192]},"
                                 "\"transformer.transformer_blocks.0.attn1.to_out.0.lora_B.weight\":"
                                 "{\"dtype\":\"F32\",\"shape\":[48,1],\"data_offsets\":[192,384]},"
                                 "\"transformer.transformer_blocks.0.attn1.to_out.0.dora_scale\":"
                                 "{\"dtype\":\"F32\",\"shape\":[48,1],\"data_offsets\":[384,576]}}";
    static unsigned char bytes[8 + sizeof header - 1 + 4 * (COLUMNS * RANK + 2 * ROWS)];
    float value = 0.01f;
    size_t i;
    bytes[0] = (unsigned char)((sizeof header - 1) & 255);
    bytes[1] = (unsigned char)((sizeof header - 1) >> 8);
    memcpy(bytes + 8, header, sizeof header - 1);
    for (i = 0; i < COLUMNS * RANK + 2 * ROWS; i++) {
        if (i == COLUMNS * RANK + ROWS) value = 3;
        memcpy(bytes + 8 + sizeof header - 1 + 4 * i, &value, sizeof value);
    }
    store(path, bytes, sizeof bytes);
}

static void test_loras(void) {
    static const char lora[] = "tests/fixtures/lora_pixart_sigma/lora";
    static const char *const wrong[] = {"nan", "inf", "1e30", "99999", "-1000", "2,5", "abc", ""};
    char text[160];
    char *plain = strdup(in_work("quick.png")), *option = strdup(in_work("option.png")),
         *tag = strdup(in_work("tag.png")), *merged = strdup(in_work("merged.png")),
         *again = strdup(in_work("again.png"));
    outcome o = RUN(QUICK, "-q", "-o", plain);
    CHECK_MESSAGE(o.code == 0, "%s", o.err);
    o = RUN(QUICK, "-q", "--lora", "tests/fixtures/lora_pixart_sigma/lora:0.8", "-o", option);
    CHECK_MESSAGE(o.code == 0, "%s", o.err);
    o = RUN("-m", MODEL, "-p", "a red heart<lora:lora:0.8>", "--steps", "2", "-W", "32", "-H", "32", "-q", "--lora-dir",
            "tests/fixtures/lora_pixart_sigma", "-o", tag);
    CHECK_MESSAGE(o.code == 0, "%s", o.err);
    o = RUN(QUICK, "-q", "--lora", "tests/fixtures/lora_pixart_sigma/lora:0.8", "--lora-merge", "-o", merged);
    CHECK_MESSAGE(o.code == 0, "%s", o.err);
    CHECK(other_pixels(plain, option) && same_pixels(option, tag));
    check_told(option, ", LoRA: ");
    check_told(merged, "LoRA merged: ");
    o = RUN("--repeat-from", option, "-m", MODEL, "-q", "--lora-dir", "tests/fixtures/lora_pixart_sigma", "-o", again);
    CHECK_MESSAGE(o.code == 0 && same_pixels(option, again), "%s", o.err);
    o = RUN(QUICK, "-q", "--lora", "tests/fixtures/lora_pixart_sigma/lora:12.3456789", "-o", again);
    CHECK_MESSAGE(o.code == 0, "%s", o.err);
    check_told(again, "LoRA: \"lora:12.345679\"");
    store_dora(in_work("dora.safetensors"));
    o = RUN(QUICK, "--lora", (char *)in_work("dora.safetensors"), "-o", again);
    CHECK_MESSAGE(o.code == 0 && other_pixels(plain, again) && strstr(o.err, "LoRA dora is DoRA, which is merged"),
                  "%s", o.err);
    o = RUN(QUICK, "-q", "--lora", (char *)in_work("dora.safetensors"), "--lora-merge", "-o", merged);
    CHECK_MESSAGE(o.code == 0 && same_pixels(merged, again), "%s", o.err);
    check_refusal(RUN(QUICK, "--lora", "missing:0.5", "-o", again), 3, "missing");
    check_refusal(RUN(QUICK, "--lora", "|low_noise|tests/fixtures/lora_pixart_sigma/lora", "-o", again), 2,
                  "--lora |low_noise|: this model has no two experts; leave it out");
    check_refusal(RUN(QUICK, "-q", "--lora", "tests/fixtures/lora_zimage/peft.safetensors", "-o", again), 3,
                  "the adapter is for another model");
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        snprintf(text, sizeof text, "%s:%s", lora, wrong[i]);
        check_refusal(RUN(QUICK, "--lora", text, "-o", again), 2, "must be a number above -1000 and below 1000");
    }
    check_refusal(RUN("-m", MODEL, "-p", "x <lora:lora:2,5>", "--lora-dir", "tests/fixtures/lora_pixart_sigma"), 2,
                  "<lora:lora:2,5> in the prompt: the weight '2,5' must be");
    check_refusal(
        RUN("-m", MODEL, "-p", "x <lora:lora:1:0.5>", "--lora-dir", "tests/fixtures/lora_pixart_sigma"), 2,
        "<lora:lora:1:0.5> in the prompt: a LoRA has one weight here, for the transformer and for text encoders "
        "alike; write <lora:lora:0.8>");
    check_refusal(RUN("-m", MODEL, "-p", "x <lora:no:1>", "--lora-dir", "tests/fixtures/lora_pixart_sigma"), 2,
                  "<lora:no> in the prompt: there is no such file");
    check_refusal(RUN("-m", MODEL, "-p", "x <lora:lora:unet=1>", "--lora-dir", "tests/fixtures/lora_pixart_sigma"), 2,
                  "<lora:lora:unet=1> in the prompt: a LoRA has one weight here");
    snprintf(text, sizeof text, "%s:1:0.5:16", lora);
    check_refusal(RUN(QUICK, "--lora", text, "-o", again), 2, "lora:1:0.5:16: a LoRA has one weight here");
    o = RUN("-m", MODEL, "-p", "a red heart<lora:lora:0.8:0.80>", "--steps", "2", "-W", "32", "-H", "32", "-q",
            "--lora-dir", "tests/fixtures/lora_pixart_sigma", "-o", again);
    CHECK_MESSAGE(o.code == 0 && same_pixels(option, again), "%s", o.err);
    check_refusal(RUN(QUICK, "--lora", "missing:abc", "-o", again), 3, "--lora missing:abc: No such file");
    snprintf(text, sizeof text, "%s:0.5;%s:nan", lora, lora);
    check_refusal(RUN(QUICK, "--lora", text, "-o", again), 2, "lora:nan: the weight 'nan'");
    free(plain);
    free(option);
    free(tag);
    free(merged);
    free(again);
}

/* Prompts as data, for a fixture without text encoders: texts of 512 rows of 48, pooled ones of 32. */
static void store_texts(const char *path) {
    enum { ROWS = 512, COLUMNS = 48, POOLED = 32, VALUES = ROWS * COLUMNS + POOLED, WORDS = 13 };
    const uint32_t shapes[WORDS] = {0x43544944u, 2, 0, 0, ROWS, COLUMNS, ROWS, 0, 0, 0, 1, POOLED, 1};
    static struct {
        uint32_t words[WORDS];
        float values[VALUES];
    } texts[2];
    uint64_t hash;
    uint32_t i;
    for (i = 0; i < VALUES; i++) texts[0].values[i] = (float)sin(0.37 * i);
    hash = diti_hash(texts[0].values, sizeof texts[0].values);
    memcpy(texts[0].words, shapes, sizeof shapes);
    texts[0].words[2] = (uint32_t)hash;
    texts[0].words[3] = (uint32_t)(hash >> 32);
    texts[1] = texts[0];
    store(path, texts, sizeof texts);
}

static void test_steered(void) {
    char *texts = strdup(in_work("texts")), *first = strdup(in_work("first.png")), /* of test_start_picture */
                                                *plain = strdup(in_work("plain.png")),
         *made = strdup(in_work("made.png")), *again = strdup(in_work("again.png"));
    outcome o;
    store_texts(texts);
#define FLUX_RUN "-m", FLUX, "--conditioning", texts, "-q", "--steps", "1", "-W", "96", "-H", "64"
    o = RUN(FLUX_RUN, "-o", plain);
    CHECK_MESSAGE(o.code == 0, "%s", o.err);
    o = RUN(FLUX_RUN, "--control-net", FLUX_NET, "--control-image", first, "--control-strength", "0.6", "--control-end",
            "1", "-o", made);
    CHECK_MESSAGE(o.code == 0 && other_pixels(plain, made), "%s", o.err);
    check_told(made, "Control image: first.png, Control net: controlnet, Control strength: 0.6");
    check_told(made, "Control image hash: ");
    o = RUN("--repeat-from", made, "-m", FLUX, "--conditioning", texts, "--control-net", FLUX_NET, "-q", "-o", again);
    CHECK_MESSAGE(o.code == 0 && same_pixels(made, again), "%s", o.err);
    o = RUN(FLUX_RUN, "--control-net", FLUX_NET, "--control-image", first, "--control-strength", "1", "-o", made);
    CHECK_MESSAGE(o.code == 0 && other_pixels(plain, made), "%s", o.err);
    o = RUN(FLUX_RUN, "--control-net", FLUX_NET, "--control-image", first, "-o", again);
    CHECK_MESSAGE(o.code == 0 && same_pixels(made, again), "%s", o.err);
    o = RUN(FLUX_RUN, "--control-net", FLUX_NET, "--control-image", first, "--control-strength", "0", "-o", again);
    CHECK_MESSAGE(o.code == 0 && same_pixels(plain, again), "%s", o.err);
    check_refusal(RUN(FLUX_RUN, "--control-net", FLUX_NET, "-o", again), 2, "name it with --control-image");
    check_refusal(RUN(FLUX_RUN, "--control-image", first, "-o", again), 2, "--control-net");
    check_refusal(RUN(FLUX_RUN, "--control-strength", "2", "-o", again), 2, "there is no control net");
    check_refusal(
        RUN(FLUX_RUN, "--control-net", FLUX_NET, "--control-image", first, "--control-mode", "1", "-o", again), 2,
        "--control-mode is 1");
    check_refusal(RUN(QUICK, "--control-net", FLUX_NET, "--control-image", first, "-o", again), 3,
                  "takes no control net");
    check_refusal(RUN(FLUX_RUN, "--control-net", "missing", "--control-image", first, "-o", again), 3, "missing");
    o = RUN(FLUX_RUN, "--diffusion-model", FLUX_FILL, "-i", first, "--mask", first, "-o", made);
    CHECK_MESSAGE(o.code == 0, "%s", o.err);
    check_told(made, "Mask: first.png");
    check_refusal(RUN(FLUX_RUN, "--diffusion-model", FLUX_FILL, "-i", first, "-o", again), 2, "with --mask");
    check_refusal(RUN(FLUX_RUN, "--diffusion-model", FLUX_FILL, "-o", again), 2, "with --init-img");
    o = RUN("--info", FLUX, "--control-net", FLUX_NET, "-W", "96", "-H", "64");
    CHECK_MESSAGE(o.code == 0 && strstr(o.out, "control net"), "%s%s", o.out, o.err);
    free(texts);
    free(first);
    free(plain);
    free(made);
    free(again);
}

/* Pictures are bounded before they are decoded: what is refused takes neither time nor memory. */
static void test_start_pictures(void) {
    static const struct {
        const char *file;
        int code; /* 0: it is read, so that what comes after it is refused */
        const char *says;
    } cases[] = {
        {"tests/corpus/picture/jpeg_baseline", 0, "37x29"},
        {"tests/corpus/picture/jpeg_progressive", 0, "37x29"},
        {"tests/corpus/picture/jpeg_restart", 0, "37x29"},
        {"tests/corpus/picture/jpeg_gray", 0, "37x29"},
        {"tests/corpus/picture/jpeg_turned", 0, "29x37"},
        {"tests/corpus/picture/png_rgba16", 0, "5x7"},
        {"tests/corpus/picture/png_interlaced", 0, "9x9"},
        {"tests/corpus/picture/png_palette", 0, "13x11"},
        {"tests/corpus/picture/png_bit", 0, "33x9"},
        {"tests/corpus/picture/png_zero", 3, "damaged"},
        {"tests/corpus/picture/png_huge", 3, "23000x23000 pixels; at most 32768 a side and 67108864 in all"},
        {"tests/corpus/picture/png_bomb", 3, "more than its picture"},
        {"tests/corpus/picture/jpeg_counts", 3, "Huffman tables"},
        {"tests/corpus/picture/jpeg_scans", 3, "more than 100 scans"},
        {"zero.ppm", 3, "PNG or JPEG"},
        {"zero.gif", 3, "PNG or JPEG"},
        {"start.fifo", 3, "pipe"},
        {"cache", 3, "folder"},
    };
    outcome o;
    store(in_work("zero.ppm"), "P6 0 10 255\n", 12);
    store(in_work("zero.gif"), "GIF89a\0\0\1\0\0\0\0,", 14);
    CHECK(mkfifo(in_work("start.fifo"), 0600) == 0);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char *path = (char *)(strchr(cases[i].file, '/') ? cases[i].file : in_work(cases[i].file));
        o = RUN(QUICK, "-i", path, "--noise", "no such file", "-o", (char *)in_work("start.png"));
        if (cases[i].code)
            CHECK_MESSAGE(one_line_saying(&o, cases[i].code, cases[i].says) && strstr(o.err, "--init-img"), "%s", path);
        else
            CHECK_MESSAGE(o.code == 3 && strstr(o.err, cases[i].says) && strstr(o.err, "scaled to 32x32\ndit: --noise"),
                          "%s: %d %s", path, o.code, o.err);
    }
    o = RUN(QUICK, "-i", "tests/corpus/picture/png_bit", "--mask", (char *)in_work("zero.ppm"));
    CHECK(one_line_saying(&o, 3, "--mask"));
    o = RUN(QUICK, "-i", "tests/corpus/picture/png_bit", "--mask", "tests/corpus/picture/jpeg_counts");
    CHECK(one_line_saying(&o, 3, "--mask"));
    o = RUN(QUICK, "--noise", (char *)in_work("start.fifo"));
    CHECK(one_line_saying(&o, 3, "pipe"));
    o = RUN(QUICK, "-o", (char *)in_work("start.fifo"));
    CHECK(one_line_saying(&o, 4, "named pipe"));
    o = RUN("--repeat-from", (char *)in_work("start.fifo"));
    CHECK(one_line_saying(&o, 3, "pipe"));
}

/* A picture whose pixels are squares of two of another one's. */
static void store_doubled(const char *from, const char *to) {
    const png_file png = read_png(from);
    unsigned char *doubled = malloc((size_t)png.width * png.height * 4 * 3);
    if (CHECK(png.rgb && doubled)) {
        for (uint32_t y = 0; y < 2 * png.height; y++)
            for (uint32_t x = 0; x < 2 * png.width; x++)
                memcpy(doubled + ((size_t)y * 2 * png.width + x) * 3,
                       png.rgb + ((size_t)(y / 2) * png.width + x / 2) * 3, 3);
        CHECK(stbi_write_png(to, (int)(2 * png.width), (int)(2 * png.height), 3, doubled, 0));
    }
    free(doubled);
    free(png.rgb);
}

static void store_part(const png_file *from, uint32_t left, uint32_t top, uint32_t width, uint32_t height,
                       const char *to) {
    unsigned char *part = malloc((size_t)width * height * 3);
    uint32_t y;
    for (y = 0; y < height && CHECK(part); y++)
        memcpy(part + (size_t)y * width * 3, from->rgb + 3 * ((size_t)(top + y) * from->width + left), width * 3);
    CHECK(stbi_write_png(to, (int)width, (int)height, 3, part, 0));
    free(part);
}

/* Pixels of the picture that --mask leaves stay as they are; the part that it shows is made alone, as by hand, and
   pasted back. */
static void test_pasting(void) {
    enum { WIDTH = 96, HEIGHT = 64, LEFT = 40, TOP = 16, SIDE = 32, MARGIN = 4 };
    static unsigned char white[HEIGHT][WIDTH][3];
    char *start = strdup(in_work("whole.png")), *mask = strdup(in_work("part_mask.png")),
         *plain = strdup(in_work("plain.png")), *pasted = strdup(in_work("pasted.png")),
         *part = strdup(in_work("part.png")), *cut = strdup(in_work("cut.png")), *again = strdup(in_work("again.png"));
    png_file of_start, of_plain, of_pasted, of_mask;
    uint32_t x, y, moved = 0, wrong = 0, i;
    outcome o = RUN(QUICK, "-q", "-W", "96", "-H", "64", "-o", start);
    CHECK_MESSAGE(o.code == 0, "%s", o.err);
    for (y = TOP + MARGIN; y < TOP + SIDE - MARGIN; y++)
        for (x = LEFT + MARGIN; x < LEFT + SIDE - MARGIN; x++) memset(white[y][x], 255, 3);
    CHECK(stbi_write_png(mask, WIDTH, HEIGHT, 3, white, 0));
#define REPAINT "-m", MODEL, "-p", "x", "-q", "--steps", "2", "--strength", "1", "-i"
    o = RUN(REPAINT, start, "--mask", mask, "-W", "96", "-H", "64", "-o", plain);
    CHECK_MESSAGE(o.code == 0, "%s", o.err);
    o = RUN(REPAINT, start, "--mask", mask, "-W", "96", "-H", "64", "--mask-blur", "0", "-o", pasted);
    CHECK_MESSAGE(o.code == 0, "%s", o.err);
    check_told(pasted, "Size: 96x64, Init image: whole.png, Mask: part_mask.png, Mask blur: 0, Denoising strength: 1");
    of_start = read_png(start), of_plain = read_png(plain), of_pasted = read_png(pasted), of_mask = read_png(mask);
    for (i = 0; CHECK(of_start.rgb && of_plain.rgb && of_pasted.rgb && of_mask.rgb) && i < WIDTH * HEIGHT; i++) {
        const unsigned char *wanted = (of_mask.rgb[3 * i] ? of_plain.rgb : of_start.rgb) + 3 * i;
        wrong += memcmp(wanted, of_pasted.rgb + 3 * i, 3) != 0;
        moved += memcmp(of_plain.rgb + 3 * i, of_start.rgb + 3 * i, 3) != 0;
    }
    CHECK_MESSAGE(wrong == 0 && moved > WIDTH * HEIGHT / 2, "%u of them are others, %u of the plain one", wrong, moved);
    free(of_pasted.rgb), free(of_plain.rgb);
    store_part(&of_start, LEFT, TOP, SIDE, SIDE, part);
    store_part(&of_mask, LEFT, TOP, SIDE, SIDE, cut);
    o = RUN(REPAINT, part, "--mask", cut, "-W", "32", "-H", "32", "--mask-blur", "0", "-o", plain);
    CHECK_MESSAGE(o.code == 0, "%s", o.err);
    o = RUN(REPAINT, start, "--mask", mask, "-W", "32", "-H", "32", "--padding-mask-crop", "4", "-b", "2", "-o",
            pasted);
    CHECK_MESSAGE(o.code == 0, "%s", o.err);
    check_told(pasted, "Size: 32x32, Init image: whole.png, Mask: part_mask.png, Masked area padding: 4, Denoising ");
    of_plain = read_png(plain), of_pasted = read_png(pasted);
    CHECK(of_pasted.width == WIDTH && of_pasted.height == HEIGHT);
    for (y = 0, wrong = 0; y < HEIGHT && CHECK(of_pasted.rgb && of_plain.rgb); y++)
        for (x = 0; x < WIDTH; x++) {
            const bool inside = x >= LEFT && x < LEFT + SIDE && y >= TOP && y < TOP + SIDE;
            const unsigned char *wanted =
                inside ? of_plain.rgb + 3 * ((y - TOP) * SIDE + x - LEFT) : of_start.rgb + 3 * (y * WIDTH + x);
            wrong += memcmp(wanted, of_pasted.rgb + 3 * (y * WIDTH + x), 3) != 0;
        }
    CHECK_MESSAGE(wrong == 0, "%u pixels are others", wrong);
    o = RUN("--repeat-from", pasted, "-m", MODEL, "-q", "-o", again);
    CHECK_MESSAGE(o.code == 0 && same_pixels(pasted, again), "%s", o.err);
    o = RUN(REPAINT, start, "--mask", mask, "-W", "64", "-H", "64", "--padding-mask-crop", "4", "--mask-blur", "3",
            "-o", again); /* scaled, and soft */
    CHECK_MESSAGE(o.code == 0 && other_pixels(pasted, again), "%s", o.err);
    check_refusal(RUN(QUICK, "-q", "-i", start, "--mask-blur", "2", "-o", again), 2,
                  "--mask-blur: there is no mask that it is about; name one with --mask");
    memset(white, 0, sizeof white);
    CHECK(stbi_write_png(mask, WIDTH, HEIGHT, 3, white, 0));
    check_refusal(RUN(QUICK, "-q", "-i", start, "--mask", mask, "--padding-mask-crop", "2", "-o", again), 3,
                  "--padding-mask-crop: nothing is repainted, because nothing in ");
    free(of_pasted.rgb), free(of_plain.rgb), free(of_start.rgb), free(of_mask.rgb);
    free(start), free(mask), free(plain), free(pasted), free(part), free(cut), free(again);
}

/* The second pass is what --init-img makes of the first one's picture, scaled up; each picture of a run has its own,
   and the text of either is enough to make it again. Latents take another way, and need no encoder. */
static void test_hires(void) {
    char *base = strdup(in_work("base.png")), *doubled = strdup(in_work("doubled.png")),
         *by_hand = strdup(in_work("by_hand.png")), *hires = strdup(in_work("hires.png")),
         *second = strdup(in_work("hires_2.png")), *again = strdup(in_work("again.png"));
    outcome o = RUN(QUICK, "-q", "-s", "8", "-o", base);
    CHECK_MESSAGE(o.code == 0, "%s", o.err);
    store_doubled(base, doubled);
    o = RUN(QUICK, "-q", "-s", "8", "-W", "64", "-H", "64", "--steps", "3", "-i", doubled, "--strength", "0.6", "-o",
            by_hand);
    CHECK_MESSAGE(o.code == 0, "%s", o.err);
#define TWICE QUICK, "-q", "-s", "7", "-b", "2", "--hires", "--hires-steps", "3", "--hires-denoising-strength", "0.6"
    o = RUN(TWICE, "--hires-upscaler", "nearest", "-o", hires);
    CHECK_MESSAGE(o.code == 0, "%s", o.err);
    CHECK(same_pixels(second, by_hand));
    check_told(second, "Size: 32x32, Hires upscaler: Nearest, Hires upscale: 2, Hires steps: 3, Hires denoising "
                       "strength: 0.6, Model: ");
    o = RUN("--repeat-from", second, "-m", MODEL, "-q", "-o", again);
    CHECK_MESSAGE(o.code == 0 && same_pixels(second, again), "%s", o.err);
    o = RUN(TWICE, "--hires-upscaler", "Latent (bicubic)", "--hires-width", "48", "-o", hires);
    CHECK_MESSAGE(o.code == 0 && other_pixels(second, by_hand), "%s", o.err);
    check_told(second, "Size: 32x32, Hires upscaler: Latent (bicubic), Hires resize: 48x48, Hires steps: 3, ");
    o = RUN("--repeat-from", second, "-m", MODEL, "-q", "--json", "-o", again);
    CHECK_MESSAGE(o.code == 0 && same_pixels(second, again), "%s", o.err);
    CHECK_MESSAGE(strstr(o.out, "\"pass\":1,") && strstr(o.out, "\"pass\":2,"), "%s", o.out);
    CHECK_MESSAGE(strstr(o.out, "\"width\":48,\"height\":48"), "%s", o.out);
    o = RUN(QUICK, "-q", "-s", "8", "--hires", "-o", again, "--latent-out", (char *)in_work("larger.safetensors"));
    CHECK_MESSAGE(o.code == 0, "%s", o.err);
    check_told(again, "Hires upscaler: Lanczos, Hires upscale: 2, Hires denoising strength: 0.7, Model: ");
    o = RUN(QUICK, "-q", "-W", "64", "-H", "64", "--noise", (char *)in_work("larger.safetensors"), "-o", again);
    CHECK_MESSAGE(o.code == 3 && strstr(o.err, "'noise'"), "%s", o.err); /* it has the latent of the larger size */
    check_refusal(RUN(QUICK, "-i", base, "--mask", base, "--hires", "-o", again), 2,
                  "--hires: it does not go together");
    check_refusal(RUN(QUICK_CLIP, "--hires", "-o", again), 2, "--hires: clips have one pass");
    free(base), free(doubled), free(by_hand), free(hires), free(second), free(again);
}

/* Parts of a mask that do not count are told, and nothing is told of one that shows where to repaint. */
static void test_masks(void) {
    enum { OPAQUE, CLEAR_BLACK, CLEAR_WHITE };
    static const struct {
        uint32_t first, end; /* white in these columns and lines */
        int alpha;
        const char *says; /* NULL: nothing */
    } cases[] = {{0, 0, OPAQUE, ": nothing is repainted, because nothing in it is white\n"},
                 {1, 8, OPAQUE,
                  ": nothing is repainted; its white is in no pixel that counts, which are the first ones of "
                  "squares of 8 x 8\n"},
                 {0, 32, OPAQUE, NULL},
                 {8, 9, OPAQUE, NULL},
                 {8, 20, CLEAR_BLACK, NULL},
                 {8, 20, CLEAR_WHITE, ": its transparency does not count; white is repainted, and black stays\n"}};
    char *mask = strdup(in_work("mask.png"));
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        static unsigned char rgba[32][32][4];
        char said[400] = "";
        outcome o;
        for (uint32_t y = 0; y < 32; y++)
            for (uint32_t x = 0; x < 32; x++) {
                const uint32_t least = x < y ? x : y, most = x < y ? y : x;
                const bool white = least >= cases[i].first && most < cases[i].end;
                memset(rgba[y][x], white ? 255 : 0, 3);
                rgba[y][x][3] = cases[i].alpha == (white ? CLEAR_WHITE : CLEAR_BLACK) ? 0 : 255;
            }
        CHECK(stbi_write_png(mask, 32, 32, 4, rgba, 0));
        o = RUN(QUICK, "-i", mask, "--mask", mask, "--noise", "no such file");
        if (cases[i].says) snprintf(said, sizeof said, "dit: --mask %s%s", mask, cases[i].says);
        CHECK_MESSAGE(o.code == 3 && strncmp(o.err, said, strlen(said)) == 0 &&
                          strncmp(o.err + strlen(said), "dit: --noise", 12) == 0,
                      "%u: %s", (unsigned)i, o.err);
        o = RUN(QUICK, "-q", "-i", mask, "--mask", mask, "--noise", "no such file");
        CHECK_MESSAGE(o.code == 3 && strncmp(o.err, "dit: --noise", 12) == 0, "%s", o.err);
    }
    free(mask);
}

/* No output may be another one or an input, whatever its path looks like; what is there stays as it is. */
static void test_overwriting(void) {
    static const char *const pairs[][4] = {{"-o", "one.png", "--latent-out", "one.png"},
                                           {"-o", "one.png", "--trace", "./one.png"},
                                           {"-o", "one.png", "--preview", "sub/../one.png"},
                                           {"--trace", "one", "--latent-out", "./one"},
                                           {"-o", "s.png", "--latent-out", "s_2.png"},
                                           {"-o", "dangling.png", "--trace", "real/one.png"},
                                           {"-o", "hard.png", "--preview", "to_start.png"},
                                           {"--trace", "start.png", NULL, NULL},
                                           {"-o", "start.png", NULL, NULL},
                                           {"--latent-out", "hard.png", NULL, NULL},
                                           {"--trace", "tokenizer/spiece.model", NULL, NULL},
                                           {"--latent-out", "my_lora.safetensors", NULL, NULL},
                                           {"--trace", "sub/../tagged.safetensors", NULL, NULL}};
    static char paths[4][320];
    size_t size = 0, kept = 0, lora_size = 0;
    unsigned char *bytes = load("tests/corpus/picture/png_rgb", &size),
                  *tokens = load(MODEL "/tokenizer/spiece.model", &kept),
                  *lora = load("tests/fixtures/lora_pixart_sigma/lora/adapter_model.safetensors", &lora_size), *after;
    struct stat info;
    outcome o;
    if (!CHECK(bytes && tokens && lora)) return;
    CHECK(mkdir(in_work("sub"), 0700) == 0 && mkdir(in_work("real"), 0700) == 0 &&
          mkdir(in_work("tokenizer"), 0700) == 0);
    store(in_work("start.png"), bytes, size);
    store(in_work("tokenizer/spiece.model"), tokens, kept);
    store(in_work("my_lora.safetensors"), lora, lora_size);
    store(in_work("tagged.safetensors"), lora, lora_size);
    CHECK(symlink("real/one.png", in_work("dangling.png")) == 0 && symlink("start.png", in_work("to_start.png")) == 0 &&
          link(in_work("start.png"), in_work("hard.png")) == 0);
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        char *args[40] = {"dit", QUICK, "-b", "2", "-q"};
        int n = 14;
        args[n++] = "-i", args[n++] = (char *)in_work("to_start.png");
        args[n++] = "--tokenizer", args[n++] = (char *)in_work("tokenizer");
        args[n++] = "--lora", args[n++] = (char *)in_work("my_lora.safetensors:0.5");
        args[n++] = "-p", args[n++] = "x<lora:tagged:1>", args[n++] = "--lora-dir", args[n++] = work;
        args[n++] = "-o", args[n++] = "/dev/null";
        for (int k = 0; k < 4 && pairs[i][k]; k++) {
            snprintf(paths[k], sizeof paths[k], "%s/%s", work, pairs[i][k]);
            args[n++] = k % 2 ? paths[k] : (char *)pairs[i][k];
        }
        o = run_as(STREAMS_PIPES, NO_STOP, args);
        CHECK_MESSAGE(one_line_saying(&o, 2, pairs[i][0][1] == 'o' ? "--output" : pairs[i][0]) &&
                          (strstr(o.err, "same file") || strstr(o.err, "a file of --tokenizer")),
                      "%s and %s", pairs[i][1], pairs[i][3] ? pairs[i][3] : "an input");
    }
#define REFERRED "-m", KLEIN, "-p", "x", "-q", "--steps", "1", "-r", (char *)in_work("start.png"), "-r"
    store(in_work("second.png"), bytes, size);
    check_refusal(RUN(REFERRED, (char *)in_work("second.png"), "-o", (char *)in_work("hard.png")), 2,
                  "same file as --ref-image");
    check_refusal(RUN(REFERRED, (char *)in_work("second.png"), "--latent-out", (char *)in_work("second.png")), 2,
                  "same file as --ref-image");
    check_refusal(RUN(REFERRED, (char *)in_work("second.png"), "--encode-prompt", (char *)in_work("second.png")), 2,
                  "same file as --ref-image");
    after = load(in_work("start.png"), &kept);
    CHECK(after && kept == size && memcmp(after, bytes, size) == 0);
    CHECK(!exists(in_work("one.png")) && !exists(in_work("one")) && !exists(in_work("s_2.png")));
    free(bytes), free(tokens), free(lora), free(after);
    bytes = load(BUNDLED, &size);
    store(in_work("my.gguf"), bytes, size);
    free(bytes);
    CHECK(link(in_work("my.gguf"), in_work("my.png")) == 0);
    o = RUN("-m", (char *)in_work("my.gguf"), "-p", "x", "--steps", "1", "-o", (char *)in_work("sub/../my.png"));
    CHECK(one_line_saying(&o, 2, "same file as --model"));
    o = RUN("-m", (char *)in_work("my.gguf"), "-p", "x", "--steps", "1", "--trace", (char *)in_work("sub/../my.gguf"));
    CHECK(one_line_saying(&o, 2, "same file as --model"));
    after = load(in_work("my.gguf"), &kept);
    CHECK(kept == size);
    free(after);
    o = RUN(QUICK, "-q", "--steps", "1", "-o", "/dev/null", "--latent-out", "/dev/null");
    CHECK_MESSAGE(o.code == 0 && stat("/dev/null", &info) == 0 && S_ISCHR(info.st_mode), "%s", o.err);
}

/* ---- Noise, and prompts as data ---- */

/* A safetensors file with one F32 tensor of rank 4. */
static void write_tensor(const char *path, const char *name, const uint32_t *shape, const float *values) {
    char header[256];
    size_t count = (size_t)shape[0] * shape[1] * shape[2] * shape[3], n;
    unsigned char *file;
    n = (size_t)snprintf(header, sizeof header,
                         "{\"__metadata__\":{\"format\":\"pt\"},\"%s\":{\"dtype\":\"F32\",\"shape\":[%u,%u,%u,%u],"
                         "\"data_offsets\":[0,%zu]}}",
                         name, shape[0], shape[1], shape[2], shape[3], count * 4);
    file = calloc(1, 8 + n + count * 4);
    if (!file) abort();
    file[0] = (unsigned char)n;
    file[1] = (unsigned char)(n >> 8);
    memcpy(file + 8, header, n);
    memcpy(file + 8 + n, values, count * 4);
    store(path, file, 8 + n + count * 4);
    free(file);
}

static void test_noise_refusals(void) {
    static float values[2 * 4 * 4 * 4];
    uint32_t shape[4] = {2, 4, 4, 4};
    outcome o;
    write_tensor(in_work("noise.safetensors"), "noise", shape, values);
    o = RUN(QUICK, "-q", "-b", "3", "-o", (char *)in_work("n.png"), "--noise", (char *)in_work("noise.safetensors"));
    CHECK(one_line_saying(&o, 2, "is 2"));
    o = RUN(QUICK, "-W", "48", "-o", (char *)in_work("n.png"), "--noise", (char *)in_work("noise.safetensors"));
    CHECK(one_line_saying(&o, 3, "[1, 4, 4, 6]"));
    values[5] = NAN;
    write_tensor(in_work("noise.safetensors"), "noise", shape, values);
    o = RUN(QUICK, "-o", (char *)in_work("n.png"), "--noise", (char *)in_work("noise.safetensors"));
    CHECK(one_line_saying(&o, 3, "value 5"));
    write_tensor(in_work("noise.safetensors"), "nose", shape, values);
    o = RUN(QUICK, "-o", (char *)in_work("n.png"), "--noise", (char *)in_work("noise.safetensors"));
    CHECK(one_line_saying(&o, 3, "no such tensor"));
}

/* Every prefix of a noise file is refused, none crashes or is taken. */
static void test_noise_truncated(void) {
    static const float values[4 * 4 * 4];
    const uint32_t shape[4] = {1, 4, 4, 4};
    size_t size = 0, cut;
    unsigned char *file;
    write_tensor(in_work("whole"), "noise", shape, values);
    file = load(in_work("whole"), &size);
    for (cut = 0; cut < size; cut += cut < 24 ? 5 : 61) {
        store(in_work("cut"), file, cut);
        outcome o = RUN(QUICK, "-o", (char *)in_work("n.png"), "--noise", (char *)in_work("cut"));
        CHECK_MESSAGE(one_line_saying(&o, 3, "--noise"), "cut at %zu of %zu", cut, size);
    }
    free(file);
}

/* --noise with what seeds 4 and 5 would draw gives the pictures and latents of a batch from seed 4; its second picture
   is made again from what it tells. */
static void test_noise_and_latents(void) {
    static float values[2][4 * 4 * 4];
    static diti_random random;
    const uint32_t shape[4] = {2, 4, 4, 4};
    const char *header = "{\"latent\":{\"dtype\":\"F32\",\"shape\":[2,4,4,4],";
    size_t size = 0, size_2 = 0;
    unsigned char *a, *b;
    png_file png;
    outcome o = RUN(QUICK, "-s", "4", "-b", "2", "-o", (char *)in_work("l"), "--latent-out", (char *)in_work("l4"));
    CHECK_MESSAGE(o.code == 0 && count_lines(o.out) == 2, "%s", o.err);
    for (uint64_t i = 0; i < 2; i++) {
        diti_random_seed(&random, 4 + i);
        diti_random_normal(&random, values[i], 4 * 4 * 4);
    }
    write_tensor(in_work("pair.safetensors"), "noise", shape, values[0]);
    o = RUN(QUICK, "-q", "--noise", (char *)in_work("pair.safetensors"), "-o", (char *)in_work("pair.png"),
            "--latent-out", (char *)in_work("n4"));
    CHECK_MESSAGE(o.code == 0, "%s", o.err);
    CHECK(same_pixels(in_work("l"), in_work("pair.png")) && same_pixels(in_work("l_2"), in_work("pair_2.png")));
    a = load(in_work("l4"), &size);
    b = load(in_work("n4"), &size_2);
    CHECK(a && b && size == size_2 && memcmp(a, b, size) == 0);
    CHECK_MESSAGE(a && size > 512 + 8 && a[0] % 8 == 0 && strncmp((char *)a + 8, header, strlen(header)) == 0, "%.60s",
                  a ? (char *)a + 8 : "");
    free(a);
    free(b);
    o = RUN("--repeat-from", (char *)in_work("pair_2.png"), "-m", MODEL, "-q", "-o", (char *)in_work("again.png"),
            "--latent-out", (char *)in_work("n5"));
    CHECK_MESSAGE(o.code == 0 && same_files(in_work("pair_2.png"), in_work("again.png")), "%s", o.err);
    png = read_png(in_work("pair_2.png"));
    CHECK_MESSAGE(strstr(png.text, "Noise: pair.safetensors, ") && strstr(png.text, "Noise picture: 2, "), "%s",
                  png.text);
    free(png.rgb);
    a = load(in_work("l4"), &size);
    b = load(in_work("n5"), &size_2);
    CHECK(a && b && size > size_2 && size_2 > 256 && memcmp(a + size - 256, b + size_2 - 256, 256) == 0);
    free(a);
    free(b);
}

/* Prompts as data: the same picture as from the words, and made again from its text. */
static void test_conditioning(void) {
    char data[320], made[320];
    size_t size = 0;
    unsigned char *file;
    png_file png;
    outcome o;
    snprintf(data, sizeof data, "%s", in_work("heart.cond"));
    snprintf(made, sizeof made, "%s", in_work("made.png"));
    o = RUN("-m", MODEL, "-p", "a red heart", "--encode-prompt", data);
    CHECK_MESSAGE(o.code == 0 && strstr(o.out, "heart.cond  ") && !*o.err, "%d %s", o.code, o.err);
    check_repeated(LIST("-m", MODEL, "--conditioning", data, "--steps", "2", "-W", "32", "-H", "32"), LIST("-m", MODEL),
                   "Conditioning: heart.cond, ");
    CHECK(same_pixels(made, in_work("quick.png"))); /* of test_loras */
    png = read_png(made);
    CHECK_MESSAGE(strncmp(png.text, "\nConditioning: heart.cond, Steps: 2", 35) == 0, "%s", png.text);
    free(png.rgb);
    file = load(data, &size);
    if (!CHECK(file && size > 100)) return;
    file[size / 4] ^= 1;
    store(data, file, size);
    o = RUN("-m", MODEL, "--conditioning", data, "-o", made);
    CHECK(one_line_saying(&o, 2, "--conditioning: the prompt blob is damaged"));
    file[size / 4] ^= 1, file[size / 4 * 3] ^= 1;
    store(data, file, size);
    o = RUN("-m", MODEL, "--conditioning", data, "-o", made);
    CHECK(one_line_saying(&o, 2, "--conditioning: its second half"));
    store(data, file, size - 1);
    o = RUN("-m", MODEL, "--conditioning", data, "-o", made);
    CHECK(one_line_saying(&o, 3, "no file that --encode-prompt wrote"));
    store(data, "", 0);
    o = RUN("-m", MODEL, "--conditioning", data, "-o", made);
    CHECK(one_line_saying(&o, 3, "no file that --encode-prompt wrote"));
    o = RUN("-m", MODEL, "--conditioning", "tests", "-o", made);
    CHECK(one_line_saying(&o, 3, "folder"));
    o = RUN("-m", MODEL, "-p", "x", "--encode-prompt", MODEL "/tokenizer/spiece.model");
    CHECK(one_line_saying(&o, 2, "a file of --model"));
    o = RUN("-m", CLASSES, "--class", "1", "--encode-prompt", data);
    CHECK(one_line_saying(&o, 2, "--encode-prompt"));
    free(file);
}

/* ---- Clips: one folder of a model whose frames may be given ---- */

enum { CLIP_WIDTH = 48, CLIP_HEIGHT = 32, CLIP_PIXELS = CLIP_WIDTH * CLIP_HEIGHT };

/* Frames that an animated PNG states; 0: it is none. */
static uint32_t count_frames(const char *path) {
    size_t size = 0;
    unsigned char *file = load(path, &size);
    uint32_t frames = file && size > 53 && !memcmp(file + 37, "acTL", 4) ? be32(file + 41) : 0;
    free(file);
    return frames;
}

/* A Y4M file of so many frames; those of numbered PNGs (NULL: not compared) have the same luma. */
static void check_y4m(const char *path, uint32_t frames, const char *rate, const char *numbered) {
    static const size_t frame = 6 + CLIP_PIXELS * 3 / 2;
    size_t size = 0, head;
    unsigned char *file = load(path, &size);
    char wanted[100], name[340];
    uint32_t i, k;
    snprintf(wanted, sizeof wanted, "YUV4MPEG2 W48 H32 F%s Ip A1:1 C420jpeg XCOLORRANGE=LIMITED\n", rate);
    head = strlen(wanted);
    if (CHECK_MESSAGE(file && size == head + frames * frame && !memcmp(file, wanted, head), "%s: %zu bytes, %.70s",
                      path, size, file ? (char *)file : ""))
        for (i = 0; i < frames && numbered; i++) {
            png_file png;
            int worst = 0;
            snprintf(name, sizeof name, numbered, i + 1);
            png = read_png(name);
            if (!CHECK_MESSAGE(png.sound && png.width == CLIP_WIDTH && strstr(png.text, "Frames: 4, FPS: 7.5, "),
                               "%s: %s", name, png.text))
                continue;
            for (k = 0; k < CLIP_PIXELS; k++) {
                const unsigned char *p = png.rgb + 3 * k;
                int luma = (int)(16.5 + (65.481 * p[0] + 128.553 * p[1] + 24.966 * p[2]) / 255);
                int off = abs(luma - file[head + i * frame + 6 + k]);
                worst = off > worst ? off : worst;
            }
            CHECK_MESSAGE(worst == 0, "frame %u is off by %d", i + 1, worst);
            free(png.rgb);
        }
    free(file);
}

/* An animated PNG, made again from its text; the same frames as numbered PNGs, and as Y4M through a pipe. */
static void test_clip(void) {
    char command[1500], apng[320], again[320], numbered[320];
    const char *header = "{\"latent\":{\"dtype\":\"F32\",\"shape\":[1,4,4,4,6],";
    size_t size = 0;
    unsigned char *latents;
    png_file png;
    outcome o;
    snprintf(apng, sizeof apng, "%s", in_work("clip.apng"));
    snprintf(again, sizeof again, "%s", in_work("again.apng"));
    snprintf(numbered, sizeof numbered, "%s", in_work("clip/%04d.png"));
    CHECK(mkdir(in_work("clip"), 0700) == 0);
    o = RUN("-m", CLIPS, "-p", "a fox", "--steps", "2", "-W", "48", "-H", "32", "--num_frames", "4", "--fps", "7.5",
            "-o", apng, "--preview", (char *)in_work("strip.png"), "--latent-out", (char *)in_work("clip.latent"));
    CHECK_MESSAGE(o.code == 0 && strstr(o.out, "clip.apng  4 frames, 7.5 a second  seed 42  "), "%d %s%s", o.code,
                  o.err, o.out);
    png = read_png(apng);
    CHECK_MESSAGE(png.sound && png.width == CLIP_WIDTH && count_frames(apng) == 4, "%u frames", count_frames(apng));
    CHECK_MESSAGE(strstr(png.text, ", Size: 48x32, Frames: 4, FPS: 7.5, Model: pipe_opensora11, "), "%s", png.text);
    free(png.rgb);
    png = read_png(in_work("strip.png"));
    CHECK_MESSAGE(png.sound && png.width == 4 * CLIP_WIDTH && png.height == CLIP_HEIGHT, "%ux%u", png.width,
                  png.height);
    free(png.rgb);
    latents = load(in_work("clip.latent"), &size);
    CHECK_MESSAGE(latents && size > 4 * 4 * 4 * 4 * 6 && !strncmp((char *)latents + 8, header, strlen(header)), "%.70s",
                  latents ? (char *)latents + 8 : "");
    free(latents);
    o = RUN("--repeat-from", apng, "-m", CLIPS, "-q", "-o", again);
    CHECK_MESSAGE(o.code == 0 && !*o.err && same_files(apng, again), "%d %s", o.code, o.err);
    o = RUN("--repeat-from", apng, "-m", CLIPS, "-q", "-o", numbered);
    CHECK_MESSAGE(o.code == 0 && !exists(in_work("clip/0005.png")), "%d %s", o.code, o.err);
    CHECK(same_pixels(apng, in_work("clip/0001.png")));
    snprintf(command, sizeof command, "XDG_CACHE_HOME=%s %s --repeat-from %s -m %s -o - 2>%s | cat >%s",
             in_work("cache"), program, in_work("clip/0003.png"), CLIPS, in_work("stderr"), in_work("clip.y4m"));
    CHECK(system(command) == 0);
    check_y4m(in_work("clip.y4m"), 4, "15:2", numbered);
    o = RUN("--repeat-from", apng, "-m", CLIPS, "-q", "-o", again, "--no-metadata");
    png = read_png(again);
    CHECK_MESSAGE(o.code == 0 && png.sound && !*png.text && same_pixels(apng, again), "%d %s", o.code, png.text);
    free(png.rgb);
    o = RUN(QUICK_CLIP, "--init-video", (char *)in_work("clip"), "-o", numbered);
    CHECK(one_line_saying(&o, 2, "the folder of --init-video"));
    o = RUN(QUICK_CLIP, "-i", (char *)in_work("clip/0002.png"), "-o", numbered);
    CHECK(one_line_saying(&o, 2, "same file as --init-img"));
    if (test_sweeps()) { /* the second clip has the next seed */
        o = RUN(QUICK_CLIP, "-b", "2", "-o", again);
        CHECK_MESSAGE(o.code == 0 && exists(in_work("again_2.apng")), "%d %s", o.code, o.err);
        o = RUN(QUICK_CLIP, "-s", "43", "-o", again);
        CHECK_MESSAGE(o.code == 0 && same_files(again, in_work("again_2.apng")), "%d %s", o.code, o.err);
    }
    o = RUN(QUICK_CLIP, "--frames", "9", "--init-video", (char *)in_work("clip"), "-o", again);
    CHECK(one_line_saying(&o, 2, "clip has 4; the nearest valid value is 4"));
}

/* The library's own clip, which is told so many frames a second, and how many of them pass. */
static void check_usual_clip(const char *folder, uint32_t width, uint32_t frames, float told, const char *pass,
                             const char *numbered) {
    static unsigned char rgba[9 * 64 * CLIP_HEIGHT][4];
    dit_context *context = NULL;
    dit_model *model = NULL;
    dit_job *job = NULL;
    dit_context_desc context_desc = {0};
    dit_model_desc model_desc = {0};
    dit_job_desc desc = {0};
    dit_error err = {0};
    char name[340];
    uint32_t frame, i, off, pixels = width * CLIP_HEIGHT;
    model_desc.source.path = folder;
    desc.prompt = "a fox";
    desc.steps = 2;
    desc.width = width;
    desc.height = CLIP_HEIGHT;
    desc.frame_count = frames;
    desc.seed = 42;
    desc.fps = told;
    if (dit_context_create(&context_desc, &context, &err) < 0 ||
        dit_model_load(context, &model_desc, &model, &err) < 0 ||
        (desc.model = model, dit_job_create(context, &desc, &job, &err)) < 0 || dit_job_wait(job, UINT64_MAX) < 0 ||
        dit_job_read(job, DIT_READ_RGBA8, 0, DIT_ALL_FRAMES, rgba, sizeof rgba, 0, &err) < 0)
        CHECK_MESSAGE(false, "%s", err.message);
    for (frame = 0; frame < frames; frame++) {
        png_file png;
        snprintf(name, sizeof name, numbered, frame + 1);
        png = read_png(name);
        for (i = off = 0; i < pixels && png.sound; i++)
            off += memcmp(rgba[frame * pixels + i], png.rgb + 3 * i, 3) != 0;
        CHECK_MESSAGE(png.sound && off == 0 && strstr(png.text, pass), "%u pixels of frame %u; %s", off, frame,
                      png.text);
        free(png.rgb);
    }
    dit_job_destroy(job);
    dit_model_destroy(model);
    dit_context_destroy(context);
}

static void test_usual_clip(void) {
    char numbered[320], command[1024];
    outcome o;
    CHECK(mkdir(in_work("usual"), 0700) == 0);
    snprintf(numbered, sizeof numbered, "%s", in_work("usual/%d.png"));
    o = RUN(QUICK_CLIP, "-o", numbered);
    if (CHECK_MESSAGE(o.code == 0, "%d %s", o.code, o.err))
        check_usual_clip(CLIPS, CLIP_WIDTH, 4, 24, "FPS: 8, ", numbered);
    CHECK(mkdir(in_work("rate"), 0700) == 0);
    snprintf(numbered, sizeof numbered, "%s", in_work("rate/%d.png"));
    o = RUN("-m", "tests/fixtures/pipe_ltx", "-p", "a fox", "--steps", "2", "-W", "64", "-H", "32", "--frames", "9",
            "--fps", "31", "-o", numbered);
    if (CHECK_MESSAGE(o.code == 0, "%d %s", o.code, o.err))
        check_usual_clip("tests/fixtures/pipe_ltx", 64, 9, 31, "FPS: 31, ", numbered);
    snprintf(numbered, sizeof numbered, "%s", in_work("single-%d.png"));
    o = RUN("-m", CLIPS, "-p", "a fox", "--steps", "2", "-W", "48", "-H", "32", "--frames", "1", "-o", numbered);
    CHECK_MESSAGE(o.code == 0 && strstr(o.out, "single-1.png  1 frame, "), "%s", o.out);
    snprintf(numbered, sizeof numbered, "%s", in_work("lossy.webp")); /* its frames are lossy where that is asked for */
    o = RUN("-m", CLIPS, "-p", "a fox", "--steps", "1", "-W", "48", "-H", "32", "--frames", "2", "--quality", "20",
            "-o", numbered);
    if (o.code) {
        CHECK_MESSAGE(strstr(o.err, "built without libwebp"), "%s", o.err);
        return;
    }
    snprintf(command, sizeof command, "grep -aq 'VP8 ' %s && ! grep -aq VP8L %s", numbered, numbered);
    CHECK(system(command) == 0);
}

/* Last latents as the noise of another clip. */
static void test_clip_noise(void) {
    size_t size = 0;
    unsigned char *file = load(in_work("clip.latent"), &size); /* of test_clip */
    char noise[320], made[320];
    png_file png;
    outcome o;
    snprintf(noise, sizeof noise, "%s", in_work("clip.noise"));
    snprintf(made, sizeof made, "%s", in_work("noisy.apng"));
    if (!CHECK(file && size > 18)) return;
    memcpy(file + 8, "{\"noise\" :", 10);
    store(noise, file, size);
    free(file);
    o = RUN(QUICK_CLIP, "--noise", noise, "-o", made);
    CHECK_MESSAGE(o.code == 0 && count_frames(made) == 4 && other_pixels(made, in_work("clip.apng")), "%d %s", o.code,
                  o.err);
    png = read_png(made);
    CHECK_MESSAGE(strstr(png.text, ", Noise: clip.noise, ") && strstr(png.text, ", Noise hash: "), "%s", png.text);
    free(png.rgb);
    o = RUN(QUICK_CLIP, "--frames", "3", "--noise", noise, "-o", made);
    CHECK(one_line_saying(&o, 2, "--noise has 384 values, 288 are needed"));
    o = RUN(QUICK, "--noise", noise, "-o", (char *)in_work("n.png"));
    CHECK(one_line_saying(&o, 3, "[1, 4, 4, 4]"));
}

/* Frames that are given: a folder to begin with, references through a pipe, and clips that continue each other. */
static void test_given_frames(void) {
    static const char *const told[] = {", Init image: 0001.png, ", ", Init video: clip.y4m, ",
                                       ", Mask strategy: \"0;0,1,-1,-1,1,0.5\", ",
                                       ", Loop: 2, Loop frames: 1, Loop edit: 0.5, ", ", Frames: 4, FPS: 7.5, "};
    char command[1500], made[320], again[320];
    size_t i;
    png_file png;
    outcome o;
    snprintf(made, sizeof made, "%s", in_work("begun.apng"));
    snprintf(again, sizeof again, "%s", in_work("again.apng"));
    o = RUN(QUICK_CLIP, "--init-video", (char *)in_work("clip"), "--strength", "0.5", "-o", made); /* of test_clip */
    CHECK_MESSAGE(o.code == 0 && count_frames(made) == 4, "%d %s", o.code, o.err);
    png = read_png(made);
    CHECK_MESSAGE(strstr(png.text, "Init video: clip, ") && strstr(png.text, "Denoising strength: 0.5, ") &&
                      strstr(png.text, ", Init video hash: "),
                  "%s", png.text);
    free(png.rgb);
    o = RUN("--repeat-from", made, "-m", CLIPS, "-q", "-o", again);
    CHECK_MESSAGE(o.code == 0 && same_files(made, again), "%d %s", o.code, o.err);
    /* from a pipe into one, from a file, and again from the text of that */
    snprintf(command, sizeof command,
             "cat %s | XDG_CACHE_HOME=%s %s -m %s -p '|0|a fox|1|a hare' --steps 2 -W 48 -H 32 --length 4 -q -i %s "
             "--init-video - --mask-strategy '0;0,1,-1,-1,1,0.5' --loop 2 --loop-frames 1 --loop-edit 0.5 -o %s 2>%s",
             in_work("clip.y4m"), in_work("cache"), program, CLIPS, in_work("clip/0001.png"), in_work("loop.y4m"),
             in_work("stderr"));
    CHECK(system(command) == 0);
    check_y4m(in_work("loop.y4m"), 7, "15:2", NULL);
    o = RUN(QUICK_CLIP, "-p", "|0|a fox|1|a hare", "-i", (char *)in_work("clip/0001.png"), "--init-video",
            (char *)in_work("clip.y4m"), "--mask-strategy", "0;0,1,-1,-1,1,0.5", "--loop", "2", "--loop-frames", "1",
            "--loop-edit", "0.5", "-o", (char *)in_work("loop.apng"));
    png = read_png(in_work("loop.apng"));
    CHECK_MESSAGE(o.code == 0 && count_frames(in_work("loop.apng")) == 7, "%d %s", o.code, o.err);
    for (i = 0; i < sizeof told / sizeof told[0]; i++)
        CHECK_MESSAGE(strstr(png.text, told[i]), "no %s in %s", told[i], png.text);
    free(png.rgb);
    o = RUN("--repeat-from", (char *)in_work("loop.apng"), "-m", CLIPS, "-q", "-i", (char *)in_work("clip/0001.png"),
            "-o", (char *)in_work("loop2.y4m"));
    CHECK_MESSAGE(o.code == 0 && same_files(in_work("loop.y4m"), in_work("loop2.y4m")), "%d %s", o.code, o.err);
    o = RUN("--repeat-from", made, "-m", CLIPS, "-q", "--init-video", (char *)in_work("loop.y4m"), "--strength", "1",
            "-o", again);
    CHECK_MESSAGE(o.code == 0 && other_files(made, again), "%d %s", o.code, o.err);
    CHECK(rename(in_work("clip/0001.png"), in_work("clip/0009.png")) == 0); /* another order */
    o = RUN("--repeat-from", made, "-m", CLIPS, "-q", "-o", again);
    CHECK(one_line_saying(&o, 3, "made from another clip than this"));
    o = RUN(QUICK_CLIP, "-i", (char *)in_work("clip/0002.png"), "--mask-strategy", "0,3", "-o", again);
    CHECK(one_line_saying(&o, 2,
                          "--mask-strategy, group 1: reference is 3; the number of --ref-image, --init-img and "
                          "--init-video is 1"));
    o = RUN(QUICK_CLIP, "-p", "|0|a fox|b", "--loop", "2", "--loop-frames", "1", "-o", again);
    CHECK(one_line_saying(&o, 2, "must follow each |"));
}

/* A last frame: models that hold frames take it as their second reference, the clips' last latent frame; it is told,
   and found again. It comes behind test_given_frames, which leaves these files. */
static void test_last_frame(void) {
    char first[320], last[320], made[320], again[320], command[1500];
    png_file png;
    outcome o;
    snprintf(first, sizeof first, "%s", in_work("clip/0002.png"));
    snprintf(last, sizeof last, "%s", in_work("clip/0003.png"));
    snprintf(made, sizeof made, "%s", in_work("ends.apng"));
    snprintf(again, sizeof again, "%s", in_work("again.apng"));
    o = RUN(QUICK_CLIP, "-i", first, "--end-img", last, "-o", made);
    png = read_png(made);
    CHECK_MESSAGE(o.code == 0 && strstr(png.text, ", Init image: 0002.png, End image: 0003.png, ") &&
                      strstr(png.text, ", End image hash: "),
                  "%d %s%s", o.code, o.err, png.text);
    free(png.rgb);
    o = RUN("--repeat-from", made, "-m", CLIPS, "-q", "-i", first, "--end-img", last, "-o", again);
    CHECK_MESSAGE(o.code == 0 && same_files(made, again), "%d %s", o.code, o.err);
    o = RUN(QUICK_CLIP, "-i", first, "-o", again);
    CHECK_MESSAGE(o.code == 0 && other_pixels(made, again), "%d %s", o.code, o.err);
    snprintf(command, sizeof command, "mkdir -p %s && cp %s %s", in_work("ends"), last, in_work("ends"));
    CHECK(system(command) == 0);
    o = RUN(QUICK_CLIP, "-i", first, "--init-video", (char *)in_work("ends"), "--mask-strategy", "0;0,1,0,-1", "-o",
            again);
    CHECK_MESSAGE(o.code == 0 && same_pixels(made, again), "%d %s", o.code, o.err);
    o = RUN("--repeat-from", made, "-m", CLIPS, "-q", "-i", first, "-o", again);
    CHECK(one_line_saying(&o, 3, "made with 0003.png, which is neither here nor beside it; name it with --end-img"));
    snprintf(command, sizeof command, "cp %s %s && cp %s %s", first, in_work("0002.png"), last, in_work("0003.png"));
    CHECK(system(command) == 0);
    o = RUN("--repeat-from", made, "-m", CLIPS, "-q", "-o", again);
    CHECK_MESSAGE(o.code == 0 && same_files(made, again), "%d %s", o.code, o.err);
    snprintf(command, sizeof command, "cp %s %s", first, in_work("0003.png"));
    CHECK(system(command) == 0);
    o = RUN("--repeat-from", made, "-m", CLIPS, "-q", "-o", again);
    check_refusal(o, 3, "was made with another file than this");
    CHECK_MESSAGE(strstr(o.err, "name it with --end-img"), "%s", o.err);
    snprintf(command, sizeof command, "%s", in_work("0003.png"));
    o = RUN("--repeat-from", made, "-m", CLIPS, "-q", "--end-img", command, "-o", again);
    CHECK_MESSAGE(o.code == 0 && other_pixels(made, again), "a file that is named is what the user says: %s", o.err);
    CHECK(remove(in_work("0002.png")) == 0 && remove(in_work("0003.png")) == 0);
    o = RUN(QUICK_CLIP, "-i", first, "--end-img", last, "--init-video", (char *)in_work("clip"), "--mask-strategy", "0",
            "-o", again);
    CHECK(one_line_saying(&o, 2, "--end-img and --init-video: "));
    o = RUN(QUICK_CLIP, "-r", first, "-o", again);
    CHECK(one_line_saying(&o, 2, "this model takes frames from --init-img, --end-img and --init-video; leave it out"));
    o = RUN("-m", "tests/fixtures/pipe_cogvideox_2b", "-p", "x", "-r", first, "-o", again);
    CHECK(one_line_saying(&o, 2, ": this model makes clips after no other pictures; leave it out"));
    o = RUN(QUICK_CLIP, "-i", first, "-r", last, "--mask-strategy", "0", "-o", again);
    CHECK(one_line_saying(&o, 2, "this model takes frames from --init-img, --end-img and --init-video; leave it out"));
    o = RUN(QUICK_CLIP, "-i", first, "--end-img", last, "--frames", "1", "-o", again);
    CHECK(one_line_saying(&o, 2, "a clip of one frame has no other end; ask for more --frames"));
}

/* A picture's text that names a file for every option which is one: all of them are found beside it, and any that is
   not there is named with its option. */
static void test_all_files_found(void) {
    static const unsigned char signature[] = "\x89PNG\r\n\x1a\n", keyword[] = "tEXtparameters";
    static unsigned char png[8 + 4 + 15 + 4096 + 4];
    char *text = (char *)png + 8 + 4 + sizeof keyword, name[64], said[128];
    size_t length, i, files = 0;
    outcome o;
    length = (size_t)snprintf(text, 4096, "a fox\nSteps: 1");
    for (i = 0; i < OPTION_COUNT; i++) {
        if (option_table[i].told != TOLD_FILE) continue;
        length += (size_t)snprintf(text + length, 4096 - length, ", %s: file%u", option_table[i].key, (unsigned)i);
        snprintf(name, sizeof name, "file%u", (unsigned)i);
        store(in_work(name), "x", 1);
        files++;
    }
    CHECK(files > 20 && length < 4096);
    memcpy(png, signature, 8);
    memcpy(png + 12, keyword, sizeof keyword); /* with the zero at its end */
    length += sizeof keyword - 4;
    for (i = 0; i < 4; i++) png[8 + i] = (unsigned char)(length >> 8 * (3 - i));
    store(in_work("files.png"), png, 8 + 4 + 4 + length + 4);
    o = RUN("-q", "--repeat-from", (char *)in_work("files.png"), "--version");
    CHECK_MESSAGE(o.code == 0 && !*o.err, "%d %s", o.code, o.err);
    for (i = 0; i < OPTION_COUNT; i++) {
        if (option_table[i].told != TOLD_FILE) continue;
        snprintf(name, sizeof name, "file%u", (unsigned)i);
        CHECK(remove(in_work(name)) == 0);
        snprintf(said, sizeof said, "made with %s, which is neither here nor beside it; name it with %s\n", name,
                 option_table[i].name);
        o = RUN("-q", "--repeat-from", (char *)in_work("files.png"), "--version");
        CHECK(one_line_saying(&o, 3, said));
        store(in_work(name), "x", 1);
    }
}

#define BEGUN                                                                                                          \
    "-m", "tests/fixtures/pipe_ltx", "-p", "x", "-q", "--steps", "1", "-W", "64", "-H", "32", "--frames", "9", "-i",   \
        "models/strip.png"

/* LTX-Video begins a clip with a picture by its own rules, not as frames that are held. */
static void test_begun(void) {
    outcome o = RUN(BEGUN, "-o", (char *)in_work("begun.apng"));
    CHECK_MESSAGE(o.code == 0, "%s", o.err);
    o = RUN(BEGUN, "--mask-strategy", "0", "-o", (char *)in_work("held.apng"));
    CHECK_MESSAGE(o.code == 0 && other_pixels(in_work("begun.apng"), in_work("held.apng")), "%s", o.err);
    o = RUN(BEGUN, "--strength", "0.5", "-o", (char *)in_work("held.apng"));
    CHECK(one_line_saying(&o, 2, "--strength: this model moves a picture as it is; leave it out"));
    o = RUN("--info", "tests/fixtures/pipe_ltx", "--info-level", "1");
    CHECK_MESSAGE(strstr(o.out, "given: --init-img, --end-img, --init-video, --mask-strategy\n"), "%s", o.out);
    o = RUN("--info", "tests/fixtures/pipe_ltx2", "--info-level", "1"); /* its clips have a sound */
    CHECK_MESSAGE(strstr(o.out, "given: --init-img, --end-img, --init-video with --mask-strategy\n"), "%s", o.out);
    o = RUN("--info", CLIPS, "--info-level", "1");
    CHECK_MESSAGE(strstr(o.out, ", --init-video, --mask-strategy, --loop\n"), "%s", o.out);
}

#define VACE "--diffusion-model", "tests/fixtures/wan_vace/transformer"
#define PARTS_RUN "--t5", EXPERTS "/text_encoder", "--tokenizer", EXPERTS "/tokenizer", "--vae", EXPERTS "/vae"
#define VACE_RUN VACE, PARTS_RUN

/* A clip that follows another: a mask for all frames is as many masks, all of it is told, and found again. */
static void test_followed(void) {
    static const unsigned char black[3 * 1024 * 128];
    char made[320], again[320], clip[320], masks[320], command[1500];
    unsigned i;
    png_file png;
    outcome o;
    snprintf(made, sizeof made, "%s", in_work("followed.apng"));
    snprintf(again, sizeof again, "%s", in_work("again.apng"));
    snprintf(clip, sizeof clip, "%s", in_work("follow"));
    snprintf(masks, sizeof masks, "%s", in_work("masks"));
    snprintf(command, sizeof command, "mkdir -p %s %s", clip, masks);
    CHECK(system(command) == 0);
    for (i = 1; i <= 5; i++) {
        snprintf(command, sizeof command, "cp models/strip.png %s/%u.png && cp docs/sheet.png %s/%u.png", clip, i,
                 masks, i);
        CHECK(system(command) == 0);
    }
    o = RUN(VACE_RUN, "-p", "x", "-q", "--steps", "1", "-W", "48", "-H", "32", "--control-video", clip, "--mask",
            "docs/sheet.png", "-r", "models/strip.png", "--control-strength", "0.5", "-o", made);
    png = read_png(made);
    CHECK_MESSAGE(o.code == 0 && count_frames(made) == 5 && strstr(png.text, ", Control video: follow, ") &&
                      strstr(png.text, ", Init video hash: ") && strstr(png.text, ", Mask: sheet.png, ") &&
                      strstr(png.text, ", Control strength: 0.5, ") && strstr(png.text, ", References: strip.png, "),
                  "%d %s%s", o.code, o.err, png.text);
    free(png.rgb);
    o = RUN("--repeat-from", made, VACE_RUN, "-q", "--control-video", clip, "--mask", masks, "-r", "models/strip.png",
            "-o", again);
    CHECK_MESSAGE(o.code == 0 && same_pixels(made, again), "%d %s", o.code, o.err);
    o = RUN("--repeat-from", made, VACE_RUN, "-q", "--control-video", clip, "-r", "models/strip.png", "-o", again);
    CHECK(one_line_saying(&o, 3, "made with sheet.png, which is neither here nor beside it; name it with --mask"));
    o = RUN("--repeat-from", made, VACE_RUN, "-q", "--mask", masks, "-r", "models/strip.png", "-o", again);
    CHECK_MESSAGE(o.code == 0 && same_pixels(made, again), "%d %s", o.code, o.err); /* the clip lies beside it */
    snprintf(command, sizeof command, "%s/5.png", clip);
    CHECK(stbi_write_png(command, 1024, 128, 3, black, 0));
    o = RUN("--repeat-from", made, VACE_RUN, "-q", "--mask", masks, "-r", "models/strip.png", "-o", again);
    CHECK(one_line_saying(&o, 3, "was made from another clip than this"));
    o = RUN("--repeat-from", made, VACE_RUN, "-q", "--control-video", clip, "--mask", masks, "-r", "models/strip.png",
            "-o", again);
    CHECK_MESSAGE(o.code == 0 && other_pixels(made, again), "%d %s", o.code, o.err);
    snprintf(command, sizeof command, "cp models/strip.png %s/5.png", clip);
    CHECK(system(command) == 0);
    o = RUN(VACE_RUN, "-p", "x", "-q", "--frames", "9", "--control-video", clip, "-o", again);
    CHECK(one_line_saying(&o, 2, "has 5; the nearest valid value is 5"));
    o = RUN(VACE_RUN, "-p", "x", "-q", "--mask", masks, "-o", again);
    CHECK(one_line_saying(&o, 2, "there is no clip that it is about; name it with --control-video"));
    o = RUN(VACE_RUN, "-p", "x", "-q", "--init-video", clip, "-o", again);
    CHECK(one_line_saying(&o, 2, "this model follows a clip, which --control-video names"));
    o = RUN(VACE_RUN, "-p", "x", "-q", "--control-image", "models/strip.png", "-o", again);
    CHECK(one_line_saying(&o, 2, "this model follows a clip; name it with --control-video"));
    CHECK(remove(in_work("masks/5.png")) == 0);
    o = RUN(VACE_RUN, "-p", "x", "-q", "--control-video", clip, "--mask", masks, "-o", again);
    CHECK(one_line_saying(&o, 2, "it has 4 frames, the clip 5; give as many, or one picture for all"));
    o = RUN(VACE_RUN, "-p", "x", "-q", "--control-video", clip, "--mask", clip, "-o", (char *)in_work("follow/%d.png"));
    CHECK(one_line_saying(&o, 2, "this is the folder of --control-video"));
    snprintf(command, sizeof command,
             "mkdir -p %s && LC_ALL=C sed 's/\"vace_/\"wace_/g' %s >%s/diffusion_pytorch_model.safetensors && "
             "sed 's/WanVACE/Wan/' tests/fixtures/wan_vace/transformer/config.json >%s/config.json",
             in_work("plain"), "tests/fixtures/wan_vace/transformer/diffusion_pytorch_model.safetensors",
             in_work("plain"), in_work("plain"));
    CHECK(system(command) == 0);
#define APART_RUN                                                                                                      \
    "--diffusion-model", (char *)in_work("plain"), "--control-net", "tests/fixtures/wan_vace/transformer", PARTS_RUN
    o = RUN(APART_RUN, "-p", "x", "-q", "--steps", "1", "-W", "48", "-H", "32", "--control-video", clip, "-o", again);
    png = read_png(again);
    CHECK_MESSAGE(o.code == 0 && strstr(png.text, ", Control net: transformer, "), "%d %s%s", o.code, o.err, png.text);
    free(png.rgb);
    o = RUN(VACE_RUN, "-p", "x", "-q", "--steps", "1", "-W", "48", "-H", "32", "--control-video", clip, "-o", made);
    CHECK_MESSAGE(o.code == 0 && same_pixels(made, again), "%d %s", o.code, o.err);
    o = RUN(APART_RUN, "-p", "x", "-q", "--control-start", "0.5", "-o", again);
    CHECK(one_line_saying(&o, 2, "--control-start: this model follows a clip in all steps; leave it out"));
    o = RUN(VACE_RUN, "-p", "x", "-q", "--high-noise-control-net", clip, "-o", again);
    CHECK(one_line_saying(&o, 2, "name that of the other expert with --control-net"));
    o = RUN(APART_RUN, "-p", "x", "-q", "--high-noise-control-net", "tests/fixtures/wan_vace/transformer_2", "-o",
            again);
    CHECK(one_line_saying(&o, 2, "it is VACE's of the first of two experts"));
    o = RUN(APART_RUN, "--high-noise-diffusion-model", (char *)in_work("plain"), "-p", "x", "-q", "--steps", "2", "-W",
            "48", "-H", "32", "--control-video", clip, "-o", again);
    CHECK_MESSAGE(o.code == 0, "%s", o.err);
    o = RUN(APART_RUN, "--high-noise-diffusion-model", (char *)in_work("plain"), "-p", "x", "-q", "--steps", "2", "-W",
            "48", "-H", "32", "--control-video", clip, "--high-noise-control-net",
            "tests/fixtures/wan_vace/transformer_2", "-o", made);
    CHECK_MESSAGE(o.code == 0 && other_pixels(made, again), "%s", o.err);
}

/* The program of `make clip`: a walk of two frames, the second of which is half way round, raw and as animated PNG. */
static void test_walk(void) {
    enum { FRAME = 6 + CLIP_PIXELS * 3 / 2 };
    const char *usual = program;
    size_t size = 0;
    unsigned char *file;
    outcome o;
    program = "build/clip";
    o = RUN("-m", MODEL, "-W", "48", "-H", "32", "--frames", "2", "--steps", "1", "-o", (char *)in_work("walk.y4m"),
            "-o", (char *)in_work("walk.apng"), "red apple", "blue");
    if (CHECK_MESSAGE(o.code == 0 && strstr(o.err, "frame 2 of 2"), "%d %s", o.code, o.err)) {
        check_y4m(in_work("walk.y4m"), 2, "12:1", NULL);
        CHECK(count_frames(in_work("walk.apng")) == 2);
        file = load(in_work("walk.y4m"), &size);
        CHECK(file && size > 2 * FRAME && memcmp(file + size - FRAME, file + size - 2 * FRAME, FRAME) != 0);
        free(file);
    }
    o = RUN("--frames", "none", "-o", (char *)in_work("walk.y4m"), "red apple");
    CHECK_MESSAGE(o.code == 2 && strstr(o.err, "--frames"), "%d %s", o.code, o.err);
    program = usual;
}

/* Every command of README.md about clips, with a small model, size and number of steps in place of its own. */
static void test_page(void) {
    static const char *const made[] = {"fox.mp4",         "fox.webm",  "wakes.apng",
                                       "frames/0004.png", "hare.cond", "hare.webp"};
    const bool ffmpeg = system("ffmpeg -version >/dev/null 2>&1") == 0;
    char line[1000], folder[200], prefix[700], whole[3000], *from, *to, *name;
    FILE *page = fopen("README.md", "r");
    bool found = false, begun = false;
    int commands = 0;
    size_t i;
    if (!CHECK(page && getcwd(folder, sizeof folder))) return;
    snprintf(prefix, sizeof prefix, "cd %s && cp clip/0002.png fox.png && cp clip.y4m fox.y4m && mkdir -p frames",
             work);
    CHECK(system(prefix) == 0);
    snprintf(prefix, sizeof prefix, "cd %s && exec 2>>said && XDG_CACHE_HOME=cache %s/build/dit", work, folder);
    while (fgets(line, sizeof line, page)) {
        begun = begun || strncmp(line, "Models of clips", 15) == 0;
        if (begun && found && strncmp(line, "```", 3) == 0) break;
        if (!begun || strncmp(line, "build/dit ", 10) != 0) continue;
        found = true;
        line[strcspn(line, "\n")] = 0;
        from = line + 9;
        name = strstr(from, " -m ");
        if (!name) name = strstr(from, " --info ");
        to = name ? name + (name[1] == '-' && name[2] == 'm' ? 4 : 8) : NULL;
        if (!CHECK_MESSAGE(to, "%s names no model", line)) continue;
        name = to + strcspn(to, " ");
        i = strcspn(name, "|");
        while (strncmp(name + i, "| ffmpeg", 8) && name[i]) i += 1 + strcspn(name + i + 1, "|");
        snprintf(whole, sizeof whole, "%s%.*s%s/%s%.*s --steps 1 --frames 4 --loop-frames 1 -W 48 -H 32 %s%s >>said",
                 prefix, (int)(to - from), from, folder, CLIPS, (int)i, name, name[i] ? "| ffmpeg -v error " : "",
                 name[i] ? name + i + 8 : "");
        if (!ffmpeg && (strstr(line, "ffmpeg") || strstr(line, ".mp4"))) continue;
        CHECK_MESSAGE(system(whole) == 0, "%s\n%s", line, whole);
        commands++;
    }
    fclose(page);
    CHECK_MESSAGE(commands >= (ffmpeg ? 7 : 5), "%d commands", commands);
    for (i = ffmpeg ? 0 : 2; i < sizeof made / sizeof made[0]; i++)
        CHECK_MESSAGE(exists(in_work(made[i])), "%s is not there", made[i]);
}

/* ---- Memory that inputs take, and parts of a model ---- */

/* Megabytes that a run of --info tells. */
static double told_memory(char **words) {
    outcome o = run_as(STREAMS_PIPES, NO_STOP, words);
    const char *at = strstr(o.out, "\ndevice memory: ");
    CHECK_MESSAGE(o.code == 0 && at, "%s%s", o.err, o.out);
    return at ? strtod(at + strlen("\ndevice memory: "), NULL) : 0;
}

/* Pictures that are given take memory, too: tokens of a reference, an encoder for a start, the blocks of a control net,
   which the picture that it follows may be left out for. */
static void test_info_given(void) {
    static char picture[] = "models/strip.png";
    const double klein = told_memory(ARGS("--info", KLEIN, "-W", "128", "-H", "128")),
                 flux = told_memory(ARGS("--info", FLUX, "-W", "128", "-H", "128"));
    outcome o;
    CHECK(told_memory(ARGS("--info", KLEIN, "-W", "128", "-H", "128", "-r", picture)) > 1.05 * klein);
    CHECK(told_memory(ARGS("--info", FLUX, "-W", "128", "-H", "128", "-i", picture)) > flux);
    o = RUN("--info", KLEIN, "-r", picture);
    CHECK_MESSAGE(o.code == 0 && strstr(o.out, "2896x368 pixels"), "%s%s", o.err, o.out);
    CHECK(told_memory(ARGS("--info", FLUX, "-W", "128", "-H", "128", "--control-net", FLUX_NET)) > 1.12 * flux);
    check_refusal(RUN("--info", KLEIN, "-r", "missing.png"), 3, "missing.png");
    /* An edited picture is as large as its pipeline makes it: Qwen-Image's sides are multiples of 32,
       LongCat-Image's are rounded up. */
    o = RUN("--info", "tests/fixtures/pipe_qwenimage", "-r", picture);
    CHECK_MESSAGE(o.code == 0 && strstr(o.out, "\n2912x352 pixels"), "%s%s", o.err, o.out);
    o = RUN("--info", "tests/fixtures/pipe_qwenimage", "-r", "docs/sheet.png", "-r", picture); /* the last */
    CHECK_MESSAGE(o.code == 0 && strstr(o.out, "\n2912x352 pixels"), "%s%s", o.err, o.out);
    o = RUN("--info", "--diffusion-model", "tests/fixtures/pipe_longcat/transformer", "--vae",
            "tests/fixtures/pipe_zimage/vae", "-r", picture);
    CHECK_MESSAGE(o.code == 0 && strstr(o.out, "\n2912x368 pixels"), "%s%s", o.err, o.out);
    /* Families know how many pixels a latent element has where no autoencoder is there to tell. */
    o = RUN("--info", KLEIN "/transformer");
    CHECK_MESSAGE(o.code == 0 && strstr(o.out, "\n1024x1024 pixels, 4 steps"), "%s%s", o.out, o.err);
    o = RUN("--info", "tests/fixtures/sana");
    CHECK_MESSAGE(o.code == 0 && strstr(o.out, "\n256x256 pixels, 20 steps"), "%s%s", o.out, o.err);
    o = RUN("--info", "tests/fixtures/pipe_longcat/transformer", "-r", "models/strip.png");
    CHECK_MESSAGE(o.code == 0 && !o.err[0] && strstr(o.out, "\nmemory is told with the autoencoder"), "%s%s", o.err,
                  o.out);
}

/* Two experts from files of their own make what their folder makes, and not in the other order. A last frame makes
   another clip. */
static void test_experts(void) {
    char *ways[][4] = {
        {"-m", EXPERTS},
        {"--diffusion-model", EXPERTS "/transformer_2", "--high-noise-diffusion-model", EXPERTS "/transformer"},
        {"--diffusion-model", EXPERTS "/transformer", "--high-noise-diffusion-model", EXPERTS "/transformer_2"}};
    static const char *const made[] = {"folder.y4m", "experts.y4m", "turned.y4m"};
    outcome o = RUN("--high-noise-diffusion-model", EXPERTS "/transformer", "-p", "x");
    CHECK(one_line_saying(&o, 2, "name the other expert with --diffusion-model"));
    for (size_t i = 0; i < 3; i++) {
        o = RUN(ways[i][0], ways[i][1], "--t5", EXPERTS "/text_encoder", "--tokenizer", EXPERTS "/tokenizer", "--vae",
                EXPERTS "/vae", "-p", "x", "--frames", "5", "-W", "48", "-H", "32", "--steps", "2", "--flow-shift", "3",
                "-i", "models/strip.png", "-o", (char *)in_work(made[i]), ways[i][2], ways[i][3]);
        CHECK_MESSAGE(o.code == 0, "%s", o.err);
    }
    CHECK(same_files(in_work(made[0]), in_work(made[1])) && other_files(in_work(made[0]), in_work(made[2])));
    o = RUN("-m", EXPERTS, "-p", "x", "--frames", "5", "-W", "48", "-H", "32", "--steps", "2", "--flow-shift", "3",
            "-i", "models/strip.png", "--end-img", "models/strip.png", "-o", (char *)in_work(made[1]));
    CHECK_MESSAGE(o.code == 0 && other_files(in_work(made[0]), in_work(made[1])), "%s", o.err);
}

/* A LoRA of rank 1 for a layer of both experts. */
static void store_style(const char *path) {
    enum { WIDTH = 72 };
    static const char header[] = "{\"transformer.blocks.0.ffn.net.2.lora_A.weight\":"
                                 "{\"dtype\":\"F32\",\"shape\":[1,144],\"data_offsets\":[0,576]},"
                                 "\"transformer.blocks.0.ffn.net.2.lora_B.weight\":"
                                 "{\"dtype\":\"F32\",\"shape\":[72,1],\"data_offsets\":[576,864]}}";
    static unsigned char bytes[8 + sizeof header - 1 + 4 * 3 * WIDTH];
    const float value = 0.2f;
    bytes[0] = (unsigned char)(sizeof header - 1);
    memcpy(bytes + 8, header, sizeof header - 1);
    for (size_t i = 0; i < 3 * WIDTH; i++) memcpy(bytes + 8 + sizeof header - 1 + 4 * i, &value, sizeof value);
    store(path, bytes, sizeof bytes);
}

/* A clip of two steps, one of each expert, with these options. */
static outcome run_experts(const char *made, char *a, char *b, char *c, char *d) {
    return RUN("-m", EXPERTS, "-p", "x", "--frames", "5", "-W", "48", "-H", "32", "--steps", "2", "--flow-shift", "3",
               "-i", "models/strip.png", "-o", (char *)in_work(made), a, b, c, d);
}

/* A LoRA is for the expert that its name or what stands before it tells, else for both. Each expert has guidance. */
static void test_one_expert(void) {
    char *plain = strdup(in_work("style.safetensors")), *high = strdup(in_work("Style-HighNoise_v2.safetensors")),
         *low = strdup(in_work("high-up-LOW-v2.safetensors")), told_high[300], told_low[300];
    outcome o;
    store_style(plain);
    store_style(high);
    store_style(low);
    snprintf(told_high, sizeof told_high, "|high_noise|%s", plain);
    snprintf(told_low, sizeof told_low, "|low_noise|%s;|high_noise|%s:0", plain, plain);
    o = run_experts("none.y4m", NULL, NULL, NULL, NULL);
    CHECK_MESSAGE(o.code == 0, "%s", o.err);
    o = run_experts("both.y4m", "--lora", plain, NULL, NULL);
    CHECK_MESSAGE(o.code == 0 && !strstr(o.err, "expert"), "%s", o.err);
    o = run_experts("pair.y4m", "--lora", high, "--lora", low);
    CHECK_MESSAGE(o.code == 0 &&
                      strstr(o.err, "LoRA Style-HighNoise_v2.safetensors is for the expert for high noise") &&
                      strstr(o.err, "LoRA high-up-LOW-v2.safetensors is for the expert for low noise, by its name"),
                  "%s", o.err);
    CHECK(same_files(in_work("both.y4m"), in_work("pair.y4m")));
    o = run_experts("high.y4m", "--lora", high, NULL, NULL);
    CHECK(o.code == 0);
    o = run_experts("told.y4m", "--lora", told_high, NULL, NULL);
    CHECK(o.code == 0 && same_files(in_work("high.y4m"), in_work("told.y4m")));
    o = run_experts("low.y4m", "--lora", low, NULL, NULL);
    CHECK(o.code == 0 && other_files(in_work("low.y4m"), in_work("high.y4m")));
    CHECK(other_files(in_work("low.y4m"), in_work("both.y4m")) && other_files(in_work("low.y4m"), in_work("none.y4m")));
    CHECK(other_files(in_work("high.y4m"), in_work("both.y4m")));
    o = run_experts("told.apng", "--lora", told_low, "--low-noise-cfg-scale", "1");
    CHECK_MESSAGE(o.code == 0, "%s", o.err);
    check_told(in_work("told.apng"), "CFG scale: 3.5, Low noise CFG scale: 1, ");
    check_told(in_work("told.apng"), "LoRA: \"|low_noise|style.safetensors:1\"");
    o = run_experts("less.y4m", "--low-noise-cfg-scale", "1", NULL, NULL);
    CHECK(o.code == 0 && other_files(in_work("less.y4m"), in_work("none.y4m")));
    free(plain);
    free(high);
    free(low);
}

#define GUIDED "tests/fixtures/pipe_ideogram4"

/* A transformer for the unconditional half of guidance is the one of the folder, or another one by its option. */
static void test_unconditional(void) {
    static const char *const made[] = {"folder.png", "named.png", "turned.png"};
    char *parts[][2] = {{"-m", GUIDED},
                        {"--uncond-diffusion-model", GUIDED "/unconditional_transformer"},
                        {"--uncond-diffusion-model", GUIDED "/transformer"}};
    outcome o = RUN("--uncond-diffusion-model", GUIDED "/transformer", "-p", "x");
    CHECK(one_line_saying(&o, 2, "name the other transformer with --diffusion-model"));
    o = RUN("--uncond-diffusion-model", GUIDED, "--high-noise-diffusion-model", GUIDED, "--diffusion-model", GUIDED,
            "-p", "x");
    CHECK(one_line_saying(&o, 2, "no model has both"));
    o = RUN("-m", EXPERTS, "--uncond-diffusion-model", EXPERTS "/transformer_2", "-p", "x");
    CHECK(one_line_saying(&o, 2, "--uncond-diffusion-model is of Ideogram 4"));
    o = RUN("-m", GUIDED, "--high-noise-diffusion-model", GUIDED "/transformer", "-p", "x");
    CHECK(one_line_saying(&o, 2, "--high-noise-diffusion-model is of Wan 2.2"));
    o = RUN("-m", "tests/fixtures/pipe_krea2", "--uncond-diffusion-model", "tests/fixtures/pipe_krea2/transformer",
            "-p", "x");
    CHECK(one_line_saying(&o, 3, "Krea 2 has one transformer; leave out this one"));
    for (size_t i = 0; i < 3; i++) {
        o = RUN("-m", GUIDED, parts[i][0], parts[i][1], "--llm", "tests/fixtures/pipe_krea2/text_encoder",
                "--tokenizer", "tests/fixtures/pipe_krea2/tokenizer", "--vae", "tests/fixtures/pipe_flux2_klein/vae",
                "-p", "x", "-W", "48", "-H", "32", "--steps", "1", "-o", (char *)in_work(made[i]));
        CHECK_MESSAGE(o.code == 0, "%s", o.err);
    }
    CHECK(same_pixels(in_work(made[0]), in_work(made[1])) && other_pixels(in_work(made[0]), in_work(made[2])));
    /* The last step is guided less, where nobody asks for one scale in all of them. */
    o = RUN("-m", GUIDED, "--llm", "tests/fixtures/pipe_krea2/text_encoder", "--tokenizer",
            "tests/fixtures/pipe_krea2/tokenizer", "--vae", "tests/fixtures/pipe_flux2_klein/vae", "-p", "x", "-W",
            "48", "-H", "32", "--steps", "1", "--cfg-scale", "7", "-o", (char *)in_work(made[1]));
    CHECK(o.code == 0 && other_pixels(in_work(made[0]), in_work(made[1])));
    check_told(in_work(made[0]), "CFG scale: 7, Low noise CFG scale: 3, ");
    check_told(in_work(made[1]), "CFG scale: 7, Seed");
    o = RUN("--repeat-from", (char *)in_work(made[0]), "-m", GUIDED, "--llm", "tests/fixtures/pipe_krea2/text_encoder",
            "--tokenizer", "tests/fixtures/pipe_krea2/tokenizer", "--vae", "tests/fixtures/pipe_flux2_klein/vae", "-o",
            (char *)in_work(made[2]));
    CHECK(o.code == 0 && same_pixels(in_work(made[0]), in_work(made[2])));
}

#define SEES "tests/fixtures/pipe_hunyuanvideo15"

/* Models that read the picture which they move have an image encoder, which may be a file of its own. */
static void test_image_encoder(void) {
    outcome o = RUN("--diffusion-model", "tests/fixtures/wan21_i2v", "--t5", "tests/fixtures/umt5_encoder",
                    "--tokenizer", EXPERTS "/tokenizer", "--vae", EXPERTS "/vae", "-p", "x", "-i", "models/strip.png");
    CHECK(one_line_saying(&o, 3, "it has no image encoder; add it with --clip-vision FILE"));
    o = RUN("-m", SEES, "-p", "x", "-i", "models/strip.png");
    CHECK(one_line_saying(&o, 2, "(one that does and is a single file wants --clip-vision FILE, too)"));
    o = RUN("-m", SEES, "--clip-vision", SEES "/image_encoder", "-p", "x", "-i", "models/strip.png");
    CHECK(one_line_saying(&o, 3, "an image encoder serves models that read the picture which they move"));
}

/* Autoencoders whose latents have as many channels and other values are refused. */
static void test_foreign_vae(void) {
    static char kl[] = "tests/fixtures/pipe_kandinsky/vae";
    char target[512], *scale;
    size_t size = 0;
    unsigned char *config = load("tests/fixtures/pipe_kandinsky/vae/config.json", &size);
    outcome o = RUN("-m", "tests/fixtures/pipe_zimage", "--vae", "tests/fixtures/vae_wan", "-p", "x");
    CHECK(
        one_line_saying(&o, 3, "the VAE is like Wan's and Qwen-Image's, and a model of family zimage wants one like"));
    o = RUN("-m", "tests/fixtures/pipe_krea2", "--vae", kl, "-p", "x");
    CHECK(one_line_saying(&o, 3, "the VAE is like FLUX.1's and SD3's, and a model of family krea2 wants one like"));
    if (!CHECK(config && getcwd(target, sizeof target - 96))) return;
    config[size - 1] = 0;
    scale = strstr((char *)config, "0.3611");
    if (CHECK(scale != NULL)) memcpy(scale, "1.5305", 6);
    strcat(target, "/tests/fixtures/pipe_kandinsky/vae/diffusion_pytorch_model.safetensors");
    CHECK(mkdir(in_work("sd3_vae"), 0700) == 0 &&
          symlink(target, in_work("sd3_vae/diffusion_pytorch_model.safetensors")) == 0);
    store(in_work("sd3_vae/config.json"), config, strlen((char *)config));
    o = RUN("-m", "tests/fixtures/pipe_kandinsky", "--vae", (char *)in_work("sd3_vae"), "-p", "x");
    CHECK(one_line_saying(&o, 3, "the VAE is that of SD3"));
    free(config);
}

/* Parts of a model may lie elsewhere; one sentence names each part that is missing. */
static void test_parts(void) {
    static char flux[] = "tests/fixtures/gguf_flux_sdcpp/model.gguf", clip[] = "tests/fixtures/clip_l_proj",
                t5[] = "tests/fixtures/umt5_encoder", tokenizer[] = "tests/fixtures/tokenizers/clip";
    outcome o = RUN("--diffusion-model", flux, "-p", "x");
    CHECK(one_line_saying(&o, 3, "no CLIP-L text encoder; add it with --clip-l FILE"));
    o = RUN("--diffusion-model", flux, "--clip_l", clip, "--tokenizer", tokenizer, "-p", "x");
    CHECK(one_line_saying(&o, 3, "no T5 text encoder; add it with --t5 FILE"));
    /* The bundled tokenizers of CLIP and T5 are too large for these encoders. */
    o = RUN("--diffusion-model", flux, "--clip-l", clip, "-p", "x");
    CHECK(one_line_saying(&o, 3, "tokenizer of CLIP-L has a token 1"));
    o = RUN("--diffusion-model", flux, "--clip-l", clip, "--t5xxl", t5, "--tokenizer", tokenizer, "-p", "x");
    CHECK(one_line_saying(&o, 3, "tokenizer of T5 has a token 1"));
    o = RUN("-m", "tests/fixtures/pipe_anima", "-p", "x"); /* likewise, of T5's tokens */
    CHECK(one_line_saying(&o, 3, "tokenizer of text conditioner has a token 1"));
    o = RUN("-m", "tests/fixtures/hunyuandit_v12", "-p", "x");
    CHECK(one_line_saying(&o, 3, "no BERT text encoder; add it with --clip-l FILE"));
    o = RUN("--diffusion-model", flux, "--clip-l", t5, "-p", "x");
    CHECK(one_line_saying(&o, 3, "no CLIP-L, which the text_encoder of this model is, but T5"));
    o = RUN("-m", MODEL, "--clip-l", MODEL "/vae", "-p", "x");
    CHECK(one_line_saying(&o, 3, "no T5, which the text_encoder of this model is"));
    o = RUN("-m", MODEL, "--clip-l", MODEL "/text_encoder", "-p", "x");
    CHECK(one_line_saying(&o, 2, "--clip-l " MODEL "/text_encoder: this model has a T5 there; name that with --t5"));
    /* Language models stand where CLIP-L does elsewhere, and have a name of their own. */
    o = RUN("--diffusion-model", "tests/fixtures/pipe_zimage/transformer", "-p", "x");
    CHECK(one_line_saying(&o, 3, "no Qwen3 text encoder; add it with --llm FILE"));
    o = RUN("--diffusion-model", "tests/fixtures/pipe_zimage/transformer", "--llm",
            "tests/fixtures/pipe_zimage/text_encoder", "--tokenizer", "tests/fixtures/pipe_zimage/tokenizer", "-p",
            "x");
    CHECK(one_line_saying(&o, 3, "no autoencoder; add it with --vae FILE"));
    test_experts();
    test_one_expert();
    test_unconditional();
    test_image_encoder();
    test_foreign_vae();
    o = RUN("-m", MODEL, "--vae", "tests/fixtures/nothing", "-p", "x");
    CHECK(one_line_saying(&o, 3, "--vae tests/fixtures/nothing: No such file"));
    o = RUN("-m", MODEL, "--t5", clip, "-p", "x");
    CHECK(one_line_saying(&o, 3, "holds no part"));
    /* Nothing but the named part of a whole model is taken. */
    o = RUN("-m", "tests/fixtures/pipe_flux", "--t5", BUNDLED, "-p", "x");
    CHECK(one_line_saying(&o, 3, "T5) gives 256 channels, the transformer wants 48"));
    o = RUN("-m", "tests/fixtures/pipe_flux", "--tokenizer", BUNDLED, "-p", "x");
    CHECK(one_line_saying(&o, 3, "no CLIP-L text encoder"));
    o = RUN("-m", "tests/fixtures/pipe_dit", "--t5", BUNDLED, "--class", "1");
    CHECK(one_line_saying(&o, 3, "no T5 text encoder"));
    o = RUN("-m", "tests/fixtures/pipe_dit", "--tokenizer", BUNDLED, "--class", "1");
    CHECK(one_line_saying(&o, 3, "no tokenizer"));
    o = RUN("-m", MODEL, "--taesd", "tests/fixtures/taesd", "--vae", "tests/fixtures/pipe_dit/vae", SMALL, "-o",
            (char *)in_work("parts.png"));
    CHECK_MESSAGE(o.code == 0 && exists(in_work("parts.png")), "%s", o.err);
}

/* ---- Negative prompts that originals have ---- */

/* A folder of the parts of two fixtures. */
static bool join_pipeline(const char *folder) {
    static const char *const parts[][2] = {{"pipe_kandinsky_t2v", "model_index.json"},
                                           {"pipe_kandinsky_t2v", "transformer"},
                                           {"pipe_kandinsky_t2v", "vae"},
                                           {"pipe_kandinsky_t2v", "scheduler"},
                                           {"pipe_kandinsky", "text_encoder"},
                                           {"pipe_kandinsky", "text_encoder_2"},
                                           {"pipe_kandinsky", "tokenizer"},
                                           {"pipe_kandinsky", "tokenizer_2"}};
    char from[800], to[800], *here = getcwd(NULL, 0);
    bool good = here && mkdir(folder, 0700) == 0;
    size_t i;
    for (i = 0; i < sizeof parts / sizeof parts[0] && good; i++) {
        snprintf(from, sizeof from, "%s/tests/fixtures/%s/%s", here, parts[i][0], parts[i][1]);
        snprintf(to, sizeof to, "%s/%s", folder, parts[i][1]);
        good = symlink(from, to) == 0;
    }
    free(here);
    return good;
}

/* Makes a frame and gives the text of its parameters. */
static const char *told_by(char *const *more, const char *made) {
    static png_file png;
    char *words[32] = {"dit", "-q", "--frames", "1", "--steps", "1", "-W", "32", "-H", "32", "-o", (char *)made};
    int n = 12;
    outcome o;
    while (*more) words[n++] = *more++;
    words[n] = NULL;
    o = run_as(STREAMS_PIPES, NO_STOP, words);
    CHECK_MESSAGE(o.code == 0, "%d %s", o.code, o.err);
    png = read_png(made);
    free(png.rgb);
    return png.text;
}

/* diffusers guides clips of Kandinsky 5.0 away from a text where none is given; a picture that was made without one is
   repeated without. */
static void test_usual_negative(void) {
    static const char line[] = "\nNegative prompt: Static, 2D cartoon, cartoon";
    char model[320], usual[320], same[320], bare[320], again[320];
    snprintf(model, sizeof model, "%s", in_work("kandinsky"));
    snprintf(usual, sizeof usual, "%s", in_work("usual.png"));
    snprintf(same, sizeof same, "%s", in_work("same.png"));
    snprintf(bare, sizeof bare, "%s", in_work("bare.png"));
    snprintf(again, sizeof again, "%s", in_work("again.png"));
    if (!CHECK(join_pipeline(model))) return;
    CHECK(strstr(told_by(LIST("-m", model, "-p", "a fox"), usual), line));
    CHECK(strstr(told_by(LIST("-m", model, "-p", "a fox", "-n", "default"), same), line) && same_files(usual, same));
    CHECK(strstr(told_by(LIST("-m", model, "--repeat-from", usual), again), line) && same_files(usual, again));
    CHECK(!strstr(told_by(LIST("-m", model, "-p", "a fox", "-n", ""), bare), "Negative") && other_files(usual, bare));
    CHECK(!strstr(told_by(LIST("-m", model, "--repeat-from", bare), again), "Negative") && same_files(bare, again));
    CHECK(!strstr(told_by(LIST("-m", model, "-p", "a fox", "--cfg-scale", "1"), again), "Negative"));
    CHECK(strstr(told_by(LIST("-m", model, "--repeat-from", bare, "-n", "default"), again), line));
    CHECK(strstr(told_by(LIST("-m", EXPERTS, "-p", "a fox", "-i", bare, "-n", "default"), again),
                 "\nNegative prompt: 色调艳丽，"));
    CHECK(!strstr(told_by(LIST("-m", EXPERTS, "-p", "a fox", "-i", bare), again), "Negative"));
    /* a picture may be the first frame */
    CHECK(strstr(told_by(LIST("-m", model, "--vae", HUNYUAN, "-p", "a fox", "-i", bare), again),
                 ", Init image: bare.png, ") &&
          !strstr(told_by(LIST("-m", model, "--vae", HUNYUAN, "-p", "a fox"), same), "Init image") &&
          other_files(same, again));
    check_refusal(RUN("-m", model, "--vae", HUNYUAN, "-p", "a fox", "-i", bare, "--end-img", bare, "-q", "-o", again),
                  2, "no clip of this model ends with a picture");
    check_refusal(RUN("-m", CLIPS, "-p", "a fox", "--stg-scale", "1", "-q", "-o", (char *)in_work("x.apng")), 2,
                  "--stg-scale and --modality-scale are LTX-2's, and this model is another one");
    check_refusal(RUN(QUICK, "-q", "-n", "default", "-o", again), 2,
                  "the program of this model (pixart sigma) has none");
}

int main(int argc, char **argv) {
    if (argc > 1) program = argv[1];
    if (!make_work("cli_inputs")) return 1;
    signal(SIGPIPE, SIG_IGN);
    test_start_picture();
    if (test_sweeps()) test_references(); /* the table of refusals and the goldens have references in make test */
    test_loras();
    test_steered();
    test_start_pictures();
    test_pasting();
    test_hires();
    test_masks();
    test_overwriting();
    test_noise_refusals();
    test_noise_truncated();
    test_noise_and_latents();
    test_conditioning();
    test_clip();
    test_usual_negative();
    test_usual_clip();
    test_walk();
    test_clip_noise();
    test_given_frames();
    test_last_frame();
    test_all_files_found();
    test_begun();
    test_followed();
    test_page();
    test_info_given();
    test_parts();
    remove_work();
    return TEST_END("cli_inputs");
}
