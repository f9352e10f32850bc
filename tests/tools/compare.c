/* build/dit-compare: its statistics against sums in long double and published values; a fault planted in one weight of
   one block is found, named first and told in one line; dumps are read back, its own and those of a hook in PyTorch.
   DIT_TEST_ALL does so for every family, some of them with made-up text, and opens the page in a browser.
   test-runs: lavapipe */
#define _GNU_SOURCE
#include "library.h"
#include "model/registry.c"
#include "tools/compare_stats.h"
#include "examples/cli/files.h"
#include "test.h"
#include <stdarg.h>
#include <sys/wait.h>

static char work[] = "/tmp/dit-compare-XXXXXX";

static bool sweep(void) {
    const char *all = getenv("DIT_TEST_ALL");
    return all && strcmp(all, "1") == 0;
}

/* Exit code of a shell's line; $WORK is the folder of this test. */
DITI_PRINTF(1, 2) static int shell(const char *format, ...) {
    char line[4096];
    va_list args;
    int status;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    status = system(line);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static char *read_text(const char *name) {
    char path[256];
    size_t size = 0;
    unsigned char *bytes;
    char *text;
    snprintf(path, sizeof path, "%s/%s", work, name);
    bytes = read_file(path, &size);
    text = calloc(size + 1, 1);
    if (bytes && text) memcpy(text, bytes, size);
    free(bytes);
    return text;
}

static bool says(const char *name, const char *words) {
    char *text = read_text(name);
    bool found = text && strstr(text, words);
    if (!found) printf("%s has no \"%s\":\n%.600s\n", name, words, text ? text : "");
    free(text);
    return found;
}

/* ---- statistics ---- */

static bool near(double a, double b, double relative) { return fabs(a - b) <= relative * (fabs(b) > 1 ? fabs(b) : 1); }

static void test_tensors(void) {
    enum { COUNT = 10007 };
    static float a[COUNT], b[COUNT];
    long double aa = 0, bb = 0, ab = 0, dd = 0, most = 0, sum = 0;
    uint64_t total = 0;
    tensor_stats s;
    uint32_t i, seed = 1;
    for (i = 0; i < COUNT; i++) {
        seed = seed * 1664525u + 1013904223u;
        a[i] = (float)((int)(seed >> 8) - (1 << 23)) * 1e-6f;
        b[i] = i % 3 ? a[i] : a[i] * (1 + 1e-4f * (float)(i % 100)) + 1e-5f;
        aa += (long double)a[i] * a[i];
        bb += (long double)b[i] * b[i];
        ab += (long double)a[i] * b[i];
        dd += ((long double)a[i] - b[i]) * ((long double)a[i] - b[i]);
        sum += fabsl((long double)a[i] - b[i]);
        if (fabsl((long double)a[i] - b[i]) > most) most = fabsl((long double)a[i] - b[i]);
    }
    s = compare_tensors(a, b, COUNT);
    CHECK(s.count == COUNT && s.not_finite == 0);
    CHECK(near(s.relative_l2 * 1e3, (double)(sqrtl(dd / aa) * 1e3L), 1e-12));
    CHECK(near(1 - s.cosine, (double)(1 - ab / (sqrtl(aa) * sqrtl(bb))), 1e-14));
    CHECK(near(s.max_abs, (double)most, 1e-15) && near(s.mean_abs, (double)(sum / COUNT), 1e-12));
    CHECK(near(s.rms[1], (double)sqrtl(bb / COUNT), 1e-12));
    for (i = 0; i < STAT_BINS; i++) total += s.bins[i];
    CHECK(total == COUNT && s.bins[0] >= COUNT * 2 / 3 && s.bins[0] < COUNT);
    for (total = 0, i = 0; i < SPREAD_BINS; i++) total += (uint64_t)s.spread[1][i];
    CHECK(total == COUNT && s.mean[0] > s.least[0] && s.mean[0] < s.most[0]);
}

static void test_tensor_edges(void) {
    const float zeros[3] = {0, 0, 0}, ones[3] = {1, 1, 1}, minus[3] = {-1, -1, -1};
    const float odd[4] = {NAN, INFINITY, 1, 2}, other[4] = {NAN, -INFINITY, 1, 2};
    tensor_stats s = compare_tensors(zeros, zeros, 3);
    CHECK(!(s.relative_l2 > 0) && s.cosine >= 1 && !msprobe_fails(&s));
    s = compare_tensors(zeros, ones, 3);
    CHECK(isinf(s.relative_l2) && !(s.cosine > 0) && msprobe_fails(&s));
    s = compare_tensors(ones, minus, 3);
    CHECK(near(s.relative_l2, 2, 1e-15) && near(s.cosine, -1, 1e-15));
    s = compare_tensors(odd, odd, 4);
    CHECK(s.not_finite == 0 && s.count == 2);
    s = compare_tensors(odd, other, 4);
    CHECK(s.not_finite == 1 && msprobe_fails(&s));
    CHECK(stat_bin(0, 1) == 0 && stat_bin(1e-12, 1) == 1 && stat_bin(5e-8, 1) == 2);
    CHECK(stat_bin(0.5, 1) == STAT_BINS - 2 && stat_bin(1, 1) == STAT_BINS - 1 && stat_bin(5, 0) == STAT_BINS - 1);
}

/* Statistics in place of a tensor: plainly computed, held against the tensor and parts of it, damaged. */
static void test_told(void) {
    enum { COUNT = 5003 };
    static float a[COUNT], b[COUNT];
    float told[TOLD_VALUES], bad[TOLD_VALUES];
    long double sum = 0, squares = 0;
    tensor_stats s;
    uint64_t total = 0, k;
    uint32_t i, seed = 7;
    for (i = 0; i < COUNT; i++) {
        seed = seed * 1664525u + 1013904223u;
        a[i] = b[i] = (float)((int)(seed >> 8) - (1 << 22)) * 1e-6f;
        sum += a[i];
        squares += (long double)a[i] * a[i];
    }
    condense_tensor(a, COUNT, told);
    CHECK(told[TOLD_LEAST] >= -4.2f && told[TOLD_MOST] <= 12.6f && told[TOLD_LARGEST] >= told[TOLD_MOST]);
    CHECK(near((double)told[TOLD_MEAN], (double)(sum / COUNT), 1e-6) &&
          near((double)told[TOLD_RMS], (double)sqrtl(squares / COUNT), 1e-6));
    for (i = 0; i < SPREAD_BINS; i++) total += (uint64_t)told[TOLD_SPREAD + i];
    CHECK(total == COUNT && told_wrong(told, COUNT) == NULL);
    for (k = 0; k < SAMPLES; k++) {
        CHECK(sample_place(k, COUNT) >= k * COUNT / SAMPLES && sample_place(k, COUNT) <= (k + 1) * COUNT / SAMPLES);
        CHECK(sample_place(k, (uint64_t)1 << 33) < (uint64_t)1 << 33 && sample_place(k, 1) == 0);
    }
    CHECK(compare_told(told, COUNT, 0, b, COUNT, &s) && !(s.relative_l2 > 0) && s.not_finite == 0 &&
          s.count == SAMPLES);
    for (i = 2000; i < COUNT; i++) b[i] = -b[i];
    CHECK(compare_told(told, COUNT, 0, b, COUNT, &s) && s.relative_l2 > 1 && s.rms[0] <= s.rms[1] + 1e-6);
    CHECK(compare_told(told, COUNT, 0, b, 2000, &s) && !(s.relative_l2 > 0)); /* a part that is as it was */
    CHECK(compare_told(told, COUNT, 2000, b + 2000, COUNT - 2000, &s) && s.relative_l2 > 1.9);
    CHECK(!compare_told(told, COUNT, sample_place(3, COUNT) + 1, b, 2, &s)); /* no sample is there */
    for (i = 0; i < COUNT; i++) b[i] = a[i];
    b[sample_place(9, COUNT) + 1] = 100; /* between the samples: the extremes tell */
    CHECK(compare_told(told, COUNT, 0, b, COUNT, &s) && s.relative_l2 > 1 && s.max_abs > 80);
    b[sample_place(9, COUNT) + 1] = NAN;
    CHECK(compare_told(told, COUNT, 0, b, COUNT, &s) && s.not_finite == 1);
    condense_tensor(b, COUNT, bad);
    CHECK(bad[TOLD_NOT_FINITE] >= 1 && told_wrong(bad, COUNT) == NULL);
    for (i = 0; i < COUNT; i++) b[i] = 0.1f;
    condense_tensor(b, 3, bad);
    CHECK(told_wrong(bad, 3) == NULL && told_wrong(bad, 2) != NULL);
    b[0] = NAN;
    condense_tensor(b, 1, bad);
    CHECK(told_wrong(bad, 1) == NULL && !(bad[TOLD_RMS] > 0));
    for (i = 0; i < TOLD_SAMPLES; i++) {
        memcpy(bad, told, sizeof bad);
        bad[i] = i == TOLD_LEAST || i == TOLD_MEAN ? 100 : i == TOLD_MOST ? -100 : -1;
        CHECK_MESSAGE(told_wrong(bad, COUNT) != NULL, "number %u is wrong", i);
        bad[i] = NAN;
        CHECK(told_wrong(bad, COUNT) != NULL);
    }
}

enum { SIDE_X = 29, SIDE_Y = 23 };

/* SSIM as the paper writes it: means first, then variances around them. */
static double plain_ssim(const unsigned char *a, const unsigned char *b) {
    long double all = 0, windows = 0;
    int x, y, dx, dy;
    for (y = 0; y + 11 <= SIDE_Y; y++)
        for (x = 0; x + 11 <= SIDE_X; x++) {
            long double weights = 0, ma = 0, mb = 0, va = 0, vb = 0, vab = 0, w;
            int pass;
            for (pass = 0; pass < 2; pass++)
                for (dy = 0; dy < 11; dy++)
                    for (dx = 0; dx < 11; dx++) {
                        long double p = luma_of(a + 4 * ((y + dy) * SIDE_X + x + dx));
                        long double q = luma_of(b + 4 * ((y + dy) * SIDE_X + x + dx));
                        w = expl(-((dx - 5) * (dx - 5) + (dy - 5) * (dy - 5)) / 4.5L);
                        if (!pass) weights += w, ma += w * p, mb += w * q;
                        if (pass)
                            va += w * (p - ma) * (p - ma), vb += w * (q - mb) * (q - mb),
                                vab += w * (p - ma) * (q - mb);
                        if (!pass && dy == 10 && dx == 10) ma /= weights, mb /= weights;
                    }
            va /= weights, vb /= weights, vab /= weights;
            all +=
                (2 * ma * mb + 6.5025L) * (2 * vab + 58.5225L) / ((ma * ma + mb * mb + 6.5025L) * (va + vb + 58.5225L));
            windows++;
        }
    return (double)(all / windows);
}

/* GMSD with a padded copy and Prewitt's kernels as arrays. */
static double plain_gmsd(const unsigned char *a, const unsigned char *b) {
    enum { W = SIDE_X / 2, H = SIDE_Y / 2 };
    static const int prewitt[3] = {1, 0, -1};
    const unsigned char *pictures[2];
    static long double padded[2][H + 2][W + 2];
    long double sum = 0, variance = 0, similarity[H][W];
    int which, x, y, i, j;
    pictures[0] = a, pictures[1] = b;
    for (which = 0; which < 2; which++)
        for (y = 0; y < H; y++)
            for (x = 0; x < W; x++) {
                const unsigned char *p = pictures[which] + 4 * (2 * y * SIDE_X + 2 * x);
                padded[which][y + 1][x + 1] =
                    ((long double)luma_of(p) + luma_of(p + 4) + luma_of(p + 4 * SIDE_X) + luma_of(p + 4 * SIDE_X + 4)) /
                    4;
            }
    for (y = 0; y < H; y++)
        for (x = 0; x < W; x++) {
            long double m[2];
            for (which = 0; which < 2; which++) {
                long double gx = 0, gy = 0;
                for (i = 0; i < 3; i++)
                    for (j = 0; j < 3; j++) {
                        gx += padded[which][y + i][x + j] * prewitt[j] / 3;
                        gy += padded[which][y + i][x + j] * prewitt[i] / 3;
                    }
                m[which] = sqrtl(gx * gx + gy * gy);
            }
            similarity[y][x] = (2 * m[0] * m[1] + 170) / (m[0] * m[0] + m[1] * m[1] + 170);
            sum += similarity[y][x] / (W * H);
        }
    for (y = 0; y < H; y++)
        for (x = 0; x < W; x++) variance += (similarity[y][x] - sum) * (similarity[y][x] - sum) / (W * H);
    return (double)sqrtl(variance);
}

static void test_pictures(void) {
    static unsigned char a[SIDE_X * SIDE_Y * 4], b[SIDE_X * SIDE_Y * 4];
    const unsigned char red[4] = {255, 0, 0, 255}, white[4] = {255, 255, 255, 255}, grey[4] = {119, 119, 119, 255};
    long double squares = 0;
    picture_stats s;
    double lab[3];
    size_t i;
    for (i = 0; i < sizeof a; i++) {
        a[i] = (unsigned char)(i * 7 + i / 116 * 31);
        b[i] = (unsigned char)((a[i] ^ (i % 13 == 5 ? 31 : 0)) * 3 / 4 + 20);
        if (i % 4 != 3) squares += ((long double)a[i] - b[i]) * ((long double)a[i] - b[i]);
    }
    CHECK(compare_pictures(a, b, SIDE_X, SIDE_Y, &s));
    CHECK(near(s.psnr, (double)(10 * log10l(255.0L * 255 * 3 * SIDE_X * SIDE_Y / squares)), 1e-12));
    CHECK_MESSAGE(near(s.ssim, plain_ssim(a, b), 1e-9), "SSIM %.12f, plainly %.12f", s.ssim, plain_ssim(a, b));
    CHECK_MESSAGE(near(s.gmsd, plain_gmsd(a, b), 1e-6), "GMSD %.9f, plainly %.9f", s.gmsd, plain_gmsd(a, b));
    CHECK(s.delta_e > 0 && s.ssim < 1 && s.gmsd > 0);
    CHECK(compare_pictures(a, a, SIDE_X, SIDE_Y, &s) && isinf(s.psnr) && near(s.ssim, 1, 1e-12) && !(s.gmsd > 1e-7) &&
          !(s.delta_e > 0));
    CHECK(compare_pictures(a, b, 1, 1, &s) && isnan(s.ssim) && isnan(s.gmsd));
    /* published values of CIELAB under D65 */
    lab_of(red, lab);
    CHECK(fabs(lab[0] - 53.24) < 0.01 && fabs(lab[1] - 80.09) < 0.02 && fabs(lab[2] - 67.20) < 0.02);
    lab_of(white, lab);
    CHECK(fabs(lab[0] - 100) < 1e-4 && fabs(lab[1]) < 0.01 && fabs(lab[2]) < 0.02);
    lab_of(grey, lab);
    CHECK(fabs(lab[0] - 50.03) < 0.01);
}

/* ---- faults ---- */

typedef struct planted {
    const char *folder, *file, *tensor, *flags;
    const char *place; /* where it is to be found */
    const char *vae;   /* of a transformer alone, whose text is made up; NULL: a whole pipeline */
} planted;

#define SMALL "--steps 1 -W 64 -H 64 "
#define DIFFUSERS "transformer/diffusion_pytorch_model.safetensors"
static const planted rows[] = {
    {"pipe_dit", DIFFUSERS, "transformer_blocks.1.attn1.to_out.0.weight", SMALL "--class 3",
     "step 1, block 1, attention out: relative L2 ", NULL},
    {"pipe_pixart_sigma", DIFFUSERS, "transformer_blocks.1.ff.net.0.proj.weight", SMALL "-p fox",
     "step 1, block 1, ff in: relative L2 ", NULL},
    {"pipe_cogvideox_2b", DIFFUSERS, "transformer_blocks.1.attn1.to_out.0.weight", SMALL "-p fox --frames 1",
     "step 1, block 1, attention out: relative L2 ", NULL},
    {"pipe_cogvideox_5b", DIFFUSERS, "transformer_blocks.1.ff.net.2.weight", SMALL "-p fox --frames 1",
     "step 1, block 1, ff out: relative L2 ", NULL},
    {"pipe_flux2_klein", DIFFUSERS, "single_transformer_blocks.1.attn.to_out.weight", SMALL "-p fox",
     "step 1, single block 1, out: relative L2 ", NULL},
    {"pipe_krea2", DIFFUSERS, "transformer_blocks.1.attn.to_out.0.weight", SMALL "-p fox",
     "step 1, block 1, attention out: relative L2 ", NULL},
    {"pipe_kandinsky", DIFFUSERS, "visual_transformer_blocks.1.self_attention.out_layer.weight", SMALL "-p fox",
     "step 1, block 1, attention out: relative L2 ", NULL},
    {"pipe_ernie", DIFFUSERS, "layers.1.self_attention.to_out.0.weight", SMALL "-p fox",
     "step 1, block 1, attention out: relative L2 ", NULL},
    {"pipe_latte", DIFFUSERS, "temporal_transformer_blocks.0.attn1.to_out.0.weight", SMALL "-p fox --frames 4",
     "step 1, block 0, attention out #2: relative L2 ", NULL},
    {"pipe_ltx", DIFFUSERS, "transformer_blocks.1.attn1.to_out.0.weight", SMALL "-p fox --frames 9",
     "step 1, block 1, attention out: relative L2 ", NULL},
    {"pipe_ltx2", DIFFUSERS, "transformer_blocks.1.attn1.to_out.0.weight", SMALL "-p fox --frames 9",
     "step 1, block 1, attention out: relative L2 ", NULL},
    {"pipe_opensora11", NULL, "blocks.1.attn.proj.weight", SMALL "-p fox --frames 4",
     "step 1, block 1, attention out: relative L2 ", NULL},
    {"pipe_opensora12", NULL, "spatial_blocks.0.attn.proj.weight", SMALL "-p fox --frames 17",
     "step 1, block 0, attention out: relative L2 ", NULL},
    {"pipe_qwenimage", DIFFUSERS, "transformer_blocks.1.attn.to_out.0.weight", SMALL "-p fox",
     "step 1, block 1, attention out #3: relative L2 ", NULL},
    {"pipe_zimage", DIFFUSERS, "layers.1.attention.to_out.0.weight", SMALL "-p fox",
     "step 1, block 2, attention out: relative L2 ", NULL},
    {"pipe_wan22_i2v_a14b", DIFFUSERS, "blocks.0.attn1.to_out.0.weight", SMALL "-p fox --frames 5 -i $WORK/fox.png",
     "step 1, block 0, attention out: relative L2 ", NULL},
    {"pipe_flux", DIFFUSERS, "single_transformer_blocks.1.proj_out.weight", SMALL,
     "step 1, single block 1, out: relative L2 ", "pipe_flux/vae"},
    {"sd35_odd", "model.safetensors", "transformer_blocks.1.attn.to_out.0.weight", SMALL,
     "step 1, block 1, attention out #3: relative L2 ", "sd3"},
    {"hunyuandit_v12", "model.safetensors", "blocks.1.attn2.to_out.0.weight", SMALL,
     "step 1, block 1, text out: relative L2 ", "pipe_pixart_sigma/vae"},
    {"sana", "model.safetensors", "transformer_blocks.1.attn2.to_out.0.weight", SMALL,
     "step 1, block 1, text out: relative L2 ", "vae_dcae"},
    {"lumina2", "model.safetensors", "layers.1.attn.to_out.0.weight", SMALL,
     "step 1, block 2, attention out: relative L2 ", "pipe_flux/vae"},
    {"pipe_boogu/transformer", DIFFUSERS, "single_stream_layers.0.attn.to_out.0.weight", SMALL,
     "step 1, block 3, attention out: relative L2 ", "pipe_flux/vae"},
    {"pipe_minimax_h3/transformer", DIFFUSERS, "transformer_blocks.1.attn.to_out.0.weight", SMALL "--frames 22",
     "step 1, block 1, attention out: relative L2 ", "pipe_minimax_h3/vae"},
    {"hunyuanvideo", "model.safetensors", "single_transformer_blocks.1.proj_out.weight", SMALL "--frames 1",
     "step 1, single block 1, out: relative L2 ", "vae_hunyuanvideo"},
    {"pipe_hunyuanvideo15", DIFFUSERS, "transformer_blocks.1.attn.to_out.0.weight", SMALL "--frames 1",
     "step 1, block 1, attention out: relative L2 ", "pipe_hunyuanvideo15/vae"},
    {"pipe_ideogram4", DIFFUSERS, "layers.1.attention.to_out.0.weight", SMALL,
     "step 1, block 1, attention out #2: relative L2 ", "pipe_flux2_klein/vae"}, /* #1: the unconditional one */
    {"pipe_anima", DIFFUSERS, "transformer_blocks.1.attn1.to_out.0.weight", SMALL,
     "step 1, block 1, attention out: relative L2 ", "pipe_anima/vae"},
    {"pipe_chroma/transformer", "diffusion_pytorch_model.safetensors", "single_transformer_blocks.1.proj_out.weight",
     SMALL, "step 1, single block 1, out: relative L2 ", "pipe_flux/vae"},
    {"pipe_longcat/transformer", "diffusion_pytorch_model.safetensors", "single_transformer_blocks.1.proj_out.weight",
     SMALL, "step 1, single block 1, out: relative L2 ", "pipe_flux/vae"},
    {"pipe_ovis/transformer", "diffusion_pytorch_model.safetensors", "single_transformer_blocks.1.proj_mlp.weight",
     SMALL, "step 1, single block 1, ", "pipe_flux/vae"},
    {"pipe_flux3/transformer", "diffusion_pytorch_model.safetensors",
     "single_transformer_blocks.1.attn.to_out.0.weight", SMALL, "step 1, single block 1, attention out: relative L2 ",
     "pipe_flux2_klein/vae"},
    {"qwenimage21/transformer", "diffusion_pytorch_model.safetensors", "transformer_blocks.1.attn.to_out.0.weight",
     SMALL, "prepare, block 1, attention out: relative L2 ",
     "vae_qwenimage21"}, /* the text's rows, once for all steps */
    {"stdit1", "model.safetensors", "blocks.1.attn.proj.weight", SMALL "--frames 4",
     "step 1, block 1, attention out: relative L2 ", "pipe_opensora11/vae"},
    {"pipe_osp11/65x512x512", "diffusion_pytorch_model.safetensors",
     "temporal_transformer_blocks.0.attn1.to_out.0.weight", SMALL "--frames 5",
     "step 1, block 0, attention out #2: relative L2 ", "pipe_osp11/vae"},
};

/* Every family of the registry has a row. */
static void test_families(void) {
    const diti_family *planted_in[DITI_COUNT(rows)] = {NULL};
    size_t i, k;
    for (i = 0; i < DITI_COUNT(rows); i++) {
        dit_model_desc desc = {0};
        dit_model *model = NULL;
        dit_error err = {0};
        char path[512];
        snprintf(path, sizeof path, "tests/fixtures/%s", rows[i].folder);
        desc.source.path = path;
        desc.dry_run = true;
        if (CHECK_MESSAGE(dit_model_load(NULL, &desc, &model, &err) == DIT_OK, "%s: %s", path, err.message))
            planted_in[i] = model->transformer->family;
        dit_model_destroy(model);
    }
    for (i = 0; i < DITI_FAMILIES; i++) {
        const diti_family *family = diti_family_at(i);
        for (k = 0; k < DITI_COUNT(rows) && family && planted_in[k] != family; k++) {
        }
        CHECK_MESSAGE(!family || k < DITI_COUNT(rows), "no row plants a fault in %s", diti_families[i].title);
    }
}

/* Turns the signs of the first quarter of a tensor. */
static bool plant(const char *path, const char *tensor) {
    size_t size = 0, i;
    unsigned char *file = read_file(path, &size);
    uint64_t header = 0;
    st_reader r;
    st_entry entry;
    bool good = file && size > 8;
    for (i = 8; i-- > 0 && good;) header = header << 8 | file[i];
    if (good) {
        r.at = (const char *)file + 8;
        r.end = r.at + header;
        r.bad = false;
        good = st_find(&r, tensor, &entry);
    }
    if (good) {
        const size_t width = strcmp(entry.type, "F32") == 0 ? 4 : 2;
        for (i = 0; i < (entry.range[1] - entry.range[0]) / 4; i += width)
            file[8 + header + entry.range[0] + i + width - 1] ^= 0x80;
        good = write_file(path, file, size);
    }
    free(file);
    return good;
}

/* $WORK/text: made-up rows in place of both prompts, as --encode-prompt would write them for the model. */
static bool make_text(const char *folder) {
    dit_model_desc desc = {0};
    dit_model *model = NULL;
    dit_error err = {0};
    char path[512];
    uint32_t words[4 + 3 * DITI_TEXTS] = {0x43544944u, 2}, i;
    size_t values = 0, k;
    float *rows;
    unsigned char *bytes;
    uint64_t hash;
    bool good;
    snprintf(path, sizeof path, "tests/fixtures/%s", folder);
    desc.source.path = path;
    desc.dry_run = true;
    if (!CHECK_MESSAGE(dit_model_load(NULL, &desc, &model, &err) == DIT_OK, "%s: %s", folder, err.message))
        return false;
    for (i = 0; i < DITI_TEXTS; i++) {
        words[4 + 3 * i] = words[6 + 3 * i] = model->texts[i].tokens;
        words[5 + 3 * i] = model->texts[i].columns;
        values += (size_t)model->texts[i].tokens * model->texts[i].columns;
    }
    dit_model_destroy(model);
    rows = malloc(values * sizeof *rows + 1);
    bytes = malloc(2 * (sizeof words + values * sizeof *rows));
    for (i = 0; i < 2 && rows && bytes; i++) {
        for (k = 0; k < values; k++) rows[k] = (float)sin((double)(k * 37 % 1009) + i);
        hash = diti_hash(rows, values * sizeof *rows);
        words[2] = (uint32_t)hash;
        words[3] = (uint32_t)(hash >> 32);
        memcpy(bytes + i * (sizeof words + values * sizeof *rows), words, sizeof words);
        memcpy(bytes + i * (sizeof words + values * sizeof *rows) + sizeof words, rows, values * sizeof *rows);
    }
    snprintf(path, sizeof path, "%s/text", work);
    good = rows && bytes && write_file(path, bytes, 2 * (sizeof words + values * sizeof *rows));
    free(rows);
    free(bytes);
    return CHECK(good);
}

static void test_fault(const planted *row) {
    char path[512], file[256], given[256] = "";
    const char *name = row->file;
    int code;
    CHECK(shell("rm -rf $WORK/model && cp -r tests/fixtures/%s $WORK/model && chmod -R u+w $WORK/model", row->folder) ==
          0);
    if (!name) { /* the only file of weights */
        char *text;
        shell("cd $WORK/model && ls transformer/*.safetensors >$WORK/name");
        text = read_text("name");
        snprintf(file, sizeof file, "%.*s", (int)strcspn(text, "\n"), text);
        free(text);
        name = file;
    }
    snprintf(path, sizeof path, "%s/model/%s", work, name);
    if (!CHECK_MESSAGE(plant(path, row->tensor), "%s has no %s", path, row->tensor)) return;
    if (row->vae && !make_text(row->folder)) return;
    if (row->vae)
        snprintf(given, sizeof given, "--conditioning $WORK/text --vae %s/%s",
                 strcmp(row->vae, "sd3") == 0 ? "$WORK" : "tests/fixtures", row->vae);
    code =
        shell("build/dit-compare --a \"-m tests/fixtures/%s\" --b \"-m $WORK/model\" %s %s >$WORK/said 2>$WORK/errors",
              row->folder, row->flags, given);
    CHECK_MESSAGE(code == 10, "%s: exit code %d", row->folder, code);
    if (code != 10) says("errors", "no such words");
    CHECK_MESSAGE(says("said", "first past 0.001: ") && says("said", row->place), "%s", row->folder);
    snprintf(file, sizeof file, "; %.*s)", (int)(strrchr(row->tensor, '.') - row->tensor), row->tensor);
    CHECK_MESSAGE(says("said", file), "%s", row->folder);
}

/* only: rows whose folder has this word; NULL: all. */
static void test_faults(const char *only) {
    size_t i, count = sweep() ? DITI_COUNT(rows) : 1;
    if (sweep()) CHECK(shell("build/dit -q -p fox --steps 1 -W 64 -H 64 -o $WORK/fox.png") == 0);
    if (sweep()) /* an autoencoder with SD3's scale */
        CHECK(shell("cp -r tests/fixtures/pipe_flux/vae $WORK/sd3 && chmod -R u+w $WORK/sd3 && "
                    "sed -i 's/0.3611/1.5305/; s/0.1159/0.0609/' $WORK/sd3/config.json") == 0);
    for (i = 0; i < count; i++)
        if (!only || strstr(rows[i].folder, only)) test_fault(&rows[i]);
}

/* ---- dumps ---- */

#define DIT_SMALL "-m tests/fixtures/pipe_dit --class 3 --steps 2 -W 64 -H 64"

/* The operand of a linear layer, under the name that the hook gives it, with a number changed or not. */
static void write_hooked(float change) {
    char dump[256], hooked[256];
    st_tensor t;
    snprintf(dump, sizeof dump, "%s/dump.safetensors", work);
    snprintf(hooked, sizeof hooked, "%s/hooked.safetensors", work);
    if (!CHECK(st_load(dump, "step/block 1/attention@2", &t) == NULL)) return;
    t.data[0] += change;
    CHECK(st_save(hooked, "call.1.transformer_blocks.1.attn1.to_out.0:in", t.shape, t.rank, t.data));
    free(t.data);
}

/* A file of statistics of one tensor, of which `floats` numbers are there, and of the metadata `about`. */
static void write_told(const char *name, const char *about, size_t floats, const float *told) {
    char path[256], header[1024];
    unsigned char *bytes = calloc(1, sizeof header + 8 + floats * sizeof *told);
    size_t size, i;
    snprintf(path, sizeof path, "%s/told.safetensors", work);
    size =
        (size_t)snprintf(header, sizeof header,
                         "{\"%s\":{\"dtype\":\"F32\",\"shape\":[%zu],\"data_offsets\":[0,%zu]},\"__metadata__\":{%s}}",
                         name, floats, floats * sizeof *told, about);
    for (i = 0; i < 8 && bytes; i++) bytes[i] = (unsigned char)(size >> (8 * i));
    if (bytes) memcpy(bytes + 8, header, size);
    if (bytes) memcpy(bytes + 8 + size, told, floats * sizeof *told);
    CHECK(bytes && write_file(path, bytes, 8 + size + floats * sizeof *told));
    free(bytes);
}

#define TO_OUT "call.1.transformer_blocks.1.attn1.to_out.0:in"
#define SHAPED "\"dit.statistics\":\"1\",\"dit.shape." TO_OUT "\":"

/* Statistics as the hook writes them: an input that agrees, one that does not, and files that are damaged. */
static void test_statistics(void) {
    static const struct {
        const char *about;
        size_t floats;
        int number; /* that is NaN; -1: none */
        const char *words;
    } damages[] = {
        {"\"dit.statistics\":\"2\"", TOLD_VALUES, -1, "statistics of version 2"},
        {"\"dit.statistics\":\"1\"", TOLD_VALUES, -1, "'" TO_OUT "' is damaged: 150 floats"},
        {SHAPED "\"16,x\"", TOLD_VALUES, -1, "is damaged: 150 floats"},
        {SHAPED "\"16,\"", TOLD_VALUES, -1, "is damaged: 150 floats"},
        {SHAPED "\"-1\"", TOLD_VALUES, -1, "is damaged: 150 floats"},
        {SHAPED "\"4294967295,4294967295,4294967295\"", TOLD_VALUES, -1, "is damaged: 150 floats"},
        {SHAPED "\"16,32\"", TOLD_VALUES - 1, -1, "is damaged: 150 floats"},
        {SHAPED "\"2\"", TOLD_VALUES, -1, "they count more numbers than the tensor has"},
        {SHAPED "\"16,32\"", TOLD_VALUES, TOLD_RMS, "one of them is not finite"},
    };
    float told[TOLD_VALUES], bad[TOLD_VALUES];
    char dump[256], about[256];
    size_t i;
    st_tensor t;
    snprintf(dump, sizeof dump, "%s/dump.safetensors", work);
    if (!CHECK(st_load(dump, "step/block 1/attention@2", &t) == NULL)) return;
    condense_tensor(t.data, t.count, told);
    snprintf(about, sizeof about, SHAPED "\"1,%u,%u\"", (unsigned)t.shape[0], (unsigned)t.shape[1]);
    write_told(TO_OUT, about, TOLD_VALUES, told);
    CHECK(shell("build/dit-compare " DIT_SMALL " --against $WORK/told.safetensors --json >$WORK/said 2>$WORK/errors") ==
          0);
    CHECK(says("errors", "held against statistics") && says("errors", "the same within 0.001: 1 results"));
    CHECK(says("said", "\"statistics\":1") && says("said", "\"first\":null"));
    t.data[sample_place(5, t.count)] += 100;
    condense_tensor(t.data, t.count, told);
    write_told(TO_OUT, about, TOLD_VALUES, told);
    CHECK(shell("build/dit-compare " DIT_SMALL " --against $WORK/told.safetensors >$WORK/said") == 10);
    CHECK(says("said", "first past 0.001: step 2, block 1, attention: relative L2 "));
    for (i = 0; i < DITI_COUNT(damages); i++) {
        memcpy(bad, told, sizeof bad);
        if (damages[i].number >= 0) bad[damages[i].number] = NAN;
        write_told(TO_OUT, damages[i].about, damages[i].floats, bad);
        CHECK(shell("build/dit-compare " DIT_SMALL " --against $WORK/told.safetensors >$WORK/said 2>$WORK/errors") ==
              3);
        CHECK_MESSAGE(says("errors", damages[i].words), "damage %zu", i);
    }
    CHECK(shell("build/dit-compare " DIT_SMALL " --only-steps 1 --against $WORK/hooked.safetensors >$WORK/said "
                "2>$WORK/errors") == 3);
    CHECK(says("errors", "hooked.safetensors: it has no result of the names and sizes that are looked at"));
    CHECK(shell("head -c 700 $WORK/statistics.safetensors >$WORK/told.safetensors") == 0);
    CHECK(shell("build/dit-compare " DIT_SMALL " --against $WORK/told.safetensors >$WORK/said 2>$WORK/errors") == 3);
    free(t.data);
    if (!sweep()) return;
    CHECK(shell("build/dit-compare --only-steps 1 2>$WORK/errors") == 2 &&
          says("errors", "dit-compare: what shall be compared?"));
    CHECK(shell("build/dit-compare " DIT_SMALL " --against $WORK/statistics.safetensors >$WORK/said") == 0);
    CHECK(says("said", "the same within 0.001") && says("said", "held against statistics"));
    CHECK(shell("build/dit-compare " DIT_SMALL " --type i8r --against $WORK/statistics.safetensors >$WORK/said") == 10);
    CHECK(says("said", "first past 0.001: step 1, block 1, "));
}

/* The hook's statistics of a module are those of the tensors that it writes otherwise. */
static void test_hook(void) {
    static const char script[] = "import sys, torch; sys.path.insert(0, 'tools/compare'); import hook\n"
                                 "torch.manual_seed(1); x = torch.randn(3, 7, 40) * 3 + 1\n"
                                 "net = torch.nn.Sequential(torch.nn.Linear(40, 24), torch.nn.GELU())\n"
                                 "for name in ('whole', 'told'):\n"
                                 "    with hook.record(net, sys.argv[1] + name, [1], statistics=name == 'told'):\n"
                                 "        net(x), net(x + 1)\n";
    static const char *const names[] = {"call.1.0:in", "call.1.0", "call.1.1:in", "call.1.1"};
    float told[TOLD_VALUES];
    char path[256];
    size_t i, k;
    snprintf(path, sizeof path, "%s/hook.py", work);
    CHECK(write_file(path, script, strlen(script)));
    if (shell("python3 -c 'import torch, safetensors.torch' 2>$WORK/errors") != 0) {
        printf("skipped: hook.py in PyTorch: python3 has no torch and safetensors\n");
        return;
    }
    if (!CHECK(shell("PYTHONDONTWRITEBYTECODE=1 python3 $WORK/hook.py $WORK/") == 0)) return;
    for (i = 0; i < DITI_COUNT(names); i++) {
        st_tensor whole, other;
        snprintf(path, sizeof path, "%s/whole", work);
        if (!CHECK(st_load(path, names[i], &whole) == NULL)) continue;
        snprintf(path, sizeof path, "%s/told", work);
        if (CHECK(st_load(path, names[i], &other) == NULL && other.count == TOLD_VALUES)) {
            condense_tensor(whole.data, whole.count, told);
            for (k = 0; k < TOLD_VALUES; k++) /* one number may be in the neighbouring bin */
                CHECK_MESSAGE(fabsf(told[k] - other.data[k]) <= (k < TOLD_SPREAD    ? 1e-5f
                                                                 : k < TOLD_SAMPLES ? 1.0f
                                                                                    : 0.0f),
                              "%s: number %zu is %g, not %g", names[i], k, (double)other.data[k], (double)told[k]);
            CHECK(told_wrong(other.data, whole.count) == NULL);
            free(other.data);
        }
        free(whole.data);
    }
}

static void test_dumps(void) {
    CHECK(shell("build/dit-compare " DIT_SMALL " --dump $WORK/dump.safetensors --dump-statistics "
                "$WORK/statistics.safetensors --ops \"step/block 1/*\" >$WORK/said") == 0);
    write_hooked(0);
    CHECK(shell("build/dit-compare " DIT_SMALL " --against $WORK/hooked.safetensors --json >$WORK/said 2>$WORK/told") ==
          0);
    CHECK(says("told", "the same within 0.001: 1 results; the furthest is step 2, block 1, attention"));
    CHECK(says("said", "\"first\":null"));
    if (!sweep()) return;
    CHECK(shell("build/dit-compare " DIT_SMALL " --against $WORK/dump.safetensors >$WORK/said") == 0);
    CHECK(says("said", "the same within 0.001"));
    write_hooked(100);
    CHECK(shell("build/dit-compare " DIT_SMALL " --against $WORK/hooked.safetensors >$WORK/said") == 10);
    CHECK(says("said", "first past 0.001: step 2, block 1, attention: relative L2 "));
}

/* ---- other configurations, refusals, the page ---- */

#define EMOJI "-p fox --steps 2 -W 64 -H 64 "

/* The devices of two drivers. */
static void test_devices(void) {
    static const char both[] = "$PWD/build/drivers/lavapipe.json:$PWD/build/drivers/swiftshader.json";
    if (shell("test -f build/drivers/lavapipe.json -a -f build/drivers/swiftshader.json") != 0) {
        printf("skipped: two devices: SwiftShader is not there\n");
        return;
    }
    CHECK(shell("VK_ICD_FILENAMES=%s VK_DRIVER_FILES=%s build/dit-compare --a \"--device 0\" --b \"--device 1\" "
                "--rung base --json " EMOJI ">$WORK/said 2>$WORK/told",
                both, both) == 0);
    CHECK(says("said", "\"device\":\"SwiftShader") && says("said", "\"device\":\"llvmpipe"));
    CHECK(says("told", "the same within 0.001: "));
}

static void test_configurations(void) {
    CHECK(shell("build/dit-compare --a \"\" --b \"--split cfg2 --device 0,0\" " EMOJI ">$WORK/said") == 0);
    CHECK(says("said", "latent at the end: relative L2 0,"));
    CHECK(shell("build/dit-compare --a \"\" --b \"--split tensor2 --device 0,0\" " EMOJI ">$WORK/said") == 0);
    CHECK(shell("build/dit-compare --a \"\" --b \"--type i8r\" --limit 0.5 " EMOJI ">$WORK/said") == 0);
    /* rungs: halves part from floats, by no more than halves do */
    CHECK(shell("build/dit-compare --a \"--rung base\" --b \"--rung fp16\" --limit 1e-6 --json " EMOJI
                ">$WORK/said 2>$WORK/told") == 10);
    CHECK(says("said", "\"rung\":\"base\"") && says("said", "\"rung\":\"fp16\"") && says("told", "first past 1e-06: "));
    CHECK(shell("build/dit-compare --a \"--rung base\" --b \"--rung fp16\" --limit 0.05 " EMOJI ">$WORK/said") == 0);
    /* caches: the first step that leaves blocks out is where the two part */
    CHECK(
        shell(
            "build/dit-compare --a \"\" --b \"--cache delta:from=1,interval=2\" -p fox --steps 4 -W 64 -H 64 >$WORK/said") ==
        10);
    CHECK(says("said", "first past 0.001: step "));
    test_devices();
    CHECK(shell("build/dit-compare --a \"\" --b \"--steps 3\" " EMOJI ">$WORK/said") == 10);
    CHECK(
        shell(
            "build/dit-compare sheet --column \"a: --steps 2\" --column \"b: --type i8r\" --row fox --row \"red heart\" "
            "--steps 2 -W 64 -H 64 -o $WORK/sheet.html >$WORK/said") == 0);
    CHECK(says("said", "| b | ") && shell("test -s $WORK/sheet.png -a -s $WORK/sheet.html") == 0);
    CHECK(shell("build/dit-compare sheet --help >$WORK/said") == 0 && says("said", "dit-compare sheet --column"));
}

static void test_refusals(void) {
    static const struct {
        const char *line;
        int code;
        const char *words;
    } wrong[] = {{"", 0, NULL},
                 {"--a --steps --b \"\"", 2, "--steps needs a value"},
                 {"--a \"\" -p fox", 2, "--a \"\": there is nothing to compare it with; say --b"},
                 {"--b \"--type i8r\" -p fox", 2, "--b \"--type i8r\": there is nothing"},
                 {"--a \"--type i8r\" --a \"\" --b \"\" -p fox", 2, "--a: it is given twice"},
                 {"--a \"\" --b \"\" --limit 1 --limit=2 -p fox", 2, "--limit: it is given twice"},
                 {"--a \"\" --b \"\" --steps 1 --only-steps 5 -p fox", 2, "there is no step 5, but 1 to 1"},
                 {"--a \"\" --b \"\" --steps 4 --only-steps 1,4-6 -p fox", 2, "there is no step 5, but 1 to 4"},
                 {"--a \"\" --steps 1 --only-steps 2 --dump $WORK/none -p fox", 2, "there is no step 2"},
                 {"--a \"--steps 2\" --b \"--steps 3\" --only-steps 1 -p fox", 2, "--a has 2 steps and --b 3"},
                 {"--a \"-W 64\" --b \"\" -p fox", 2, "--a makes 64x128 pixels and --b 128x128"},
                 {"--a \"-W 64 -H 32\" --b \"-W 32 -H 64\" -p fox", 2, "64x32 pixels and --b 32x64"},
                 {"--a \"--frames 1\" --b \"--frames 4\" -m tests/fixtures/pipe_latte -p fox", 2,
                  "--a makes 1 frames and --b 4"},
                 {"--a \"\" --limit x", 2, "--limit x: must be a number"},
                 {"--a \"\" --only-steps 3-1", 2, "must be steps from 1"},
                 {"--a \"\" --against x", 2, "leave out --a and --b"},
                 {"-p fox", 2, "what shall be compared?"},
                 {"--a \"\" --b \"\" --nothing", 2, "--nothing"},
                 {"--a \"-m nowhere\" --b \"\" -p fox", 3, "nowhere"},
                 {"--a \"\" --b \"\" -p fox --steps 1 -W 64 -H 64 -o $WORK/o.txt", 2,
                  "o.txt: the page is written as HTML; use "},
                 {"--a \"\" --b \"\" -p fox --steps 1 -W 64 -H 64 -o $WORK/o.png", 2, "o.html"},
                 {"sheet --column a: --row fox --steps 1 -W 64 -H 64 -o $WORK/sh.jpg", 2,
                  "sh.jpg: the page is written as HTML, a sheet"},
                 {"--a \"-o x.png\" --b \"\" -p fox", 2, "--output: a configuration writes no file; leave it out"},
                 {"--a \"--repeat-from x.png\" --b \"\" -p fox", 2,
                  "--repeat-from: a configuration is a model and its options alone; leave it out"},
                 {"--a \"--trace x.json\" --b \"\" -p fox", 2, "--trace: a configuration writes no file; leave it out"},
                 {"--a \"\" --b \"\" -p fox -o $WORK/nodir/o.html", 4, "its folder does not exist"},
                 {"--a \"\" --b \"\" -p fox -o $WORK", 4, "this is a folder"},
                 {"sheet --column \"a: \" --row fox -o $WORK/nodir/o.html", 4, "its folder does not exist"},
                 {"sheet --row fox", 2, "a sheet needs --column"}};
    size_t i;
    for (i = 0; i < DITI_COUNT(wrong); i++) {
        int code = shell("build/dit-compare %s >$WORK/said 2>$WORK/errors", wrong[i].line);
        CHECK_MESSAGE(code == wrong[i].code, "dit-compare %s: exit code %d", wrong[i].line, code);
        if (wrong[i].words) CHECK(says("errors", wrong[i].words));
    }
}

/* Nothing half-written stays where the disk is full. */
static void test_full_disk(void) {
    CHECK(shell("mkdir $WORK/full; ulimit -f 8; build/dit-compare --a \"\" --b \"\" " DIT_SMALL
                " -o $WORK/full/o.html >$WORK/said 2>$WORK/errors") == 4 &&
          says("errors", "File too large"));
    CHECK(shell("rmdir $WORK/full") == 0);
}

/* No output may be an input; what is there stays as it is. */
static void test_overwriting(void) {
    static const struct {
        const char *line, *words;
    } wrong[] = {{"-m $WORK/mm.gguf --dump $WORK/mm.gguf", "it is the same file as --model, which would be lost"},
                 {"-m $WORK/mm.gguf --dump-statistics $WORK/./mm.gguf", "as --model"},
                 {"-m $WORK/mm.gguf --a \"\" --b \"\" -o $WORK/mm.html", "--output"},
                 {"--a \"-m $WORK/mm.gguf\" --b \"\" -o $WORK/mm.html", "as --model"},
                 {"--a \"\" --b \"-m $WORK/mm.gguf\" -o $WORK/mm.html", "as --model"},
                 {"--against $WORK/dd.html -o $WORK/dd.html", "as --against"},
                 {"-i $WORK/in.png --dump $WORK/in.png", "as --init-img"},
                 {"--dump $WORK/none --dump-statistics $WORK/none", "--dump and --dump-statistics"}},
      sheets[] = {{"--column a: --column \"b: -m $WORK/mm.gguf\" --row fox -o $WORK/mm.html", "as --model"},
                  {"--column \"a: -i $WORK/in.png\" --row fox -o $WORK/in.html", "the picture of --output"},
                  {"-m tests/fixtures/pipe_pixart_sigma --column a: --row owl --row \"<lora:lora.png:1> fox\" "
                   "--lora-dir $WORK -o $WORK/lora.html",
                   "as --lora"}};
    size_t i;
    CHECK(
        shell("cp models/emoji-q8_0.gguf $WORK/mm.gguf && cp tests/corpus/picture/png_rgb $WORK/in.png && "
              "cp tests/fixtures/lora_pixart_sigma/lora/adapter_model.safetensors $WORK/lora.png && cd $WORK && "
              "ln mm.gguf mm.html && echo dump >dd.html && sha256sum mm.gguf mm.html in.png dd.html lora.png >sums") ==
        0);
    for (i = 0; i < DITI_COUNT(wrong) + DITI_COUNT(sheets); i++) {
        const bool sheet = i >= DITI_COUNT(wrong);
        const char *line = sheet ? sheets[i - DITI_COUNT(wrong)].line : wrong[i].line;
        int code = shell("build/dit-compare %s --steps 1 -W 64 -H 64 %s >$WORK/said 2>$WORK/errors",
                         sheet ? "sheet" : "-p fox", line);
        CHECK_MESSAGE(code == 2, "%s: exit code %d", line, code);
        CHECK_MESSAGE(says("errors", sheet ? sheets[i - DITI_COUNT(wrong)].words : wrong[i].words), "%s", line);
    }
    CHECK(shell("cd $WORK && sha256sum -c sums >said") == 0);
}

/* The page in a browser: its search leaves one op of each block, and the plots are drawn. */
static void test_page(void) {
    CHECK(shell("build/dit-compare --a \"\" --b \"--type i8r\" " EMOJI "-o $WORK/page.html >$WORK/said") == 10);
    CHECK(shell("! grep -o 'src=\"http[^\"]*\\|href=\"http[^\"]*' $WORK/page.html") == 0);
    if (shell("command -v chromium >/dev/null") != 0) {
        printf("skipped: the page in a browser: chromium is not installed\n");
        return;
    }
    CHECK(shell("timeout 60 chromium --headless=new --no-sandbox --disable-gpu --user-data-dir=$WORK/profile "
                "--virtual-time-budget=5000 --dump-dom \"file://$WORK/page.html#search=attn1.to_q\" >$WORK/dom "
                "2>$WORK/browser.log") == 0);
    CHECK(says("dom", ">20 of ")); /* ten blocks have an expansion and a product */
    CHECK(says("dom", "<canvas") && says("dom", "first past 0.001: ") && says("dom", "id=\"held\" hidden"));
    CHECK(says(
        "dom",
        "u-title\">numbers of A and of B, by their size in root mean squares")); /* of the first op past the limit */
    CHECK(shell("[ \"$(grep -o 'class=\"op[^\"]*\" hidden' $WORK/dom | wc -l)\" -gt 100 ]") == 0);
    CHECK(shell("build/dit-compare " DIT_SMALL " --type i8r --against $WORK/statistics.safetensors -o $WORK/page.html "
                ">$WORK/said") == 10);
    CHECK(shell("timeout 60 chromium --headless=new --no-sandbox --disable-gpu --user-data-dir=$WORK/profile "
                "--virtual-time-budget=5000 --dump-dom \"file://$WORK/page.html\" >$WORK/dom 2>$WORK/browser.log") ==
          0);
    CHECK(says("dom", "<p id=\"held\">Held against statistics") && says("dom", "u-title\">numbers of A and of B"));
}

/* A word chooses rows of faults, for use by hand: DIT_TEST_ALL=1 build/tests/compare chroma */
int main(int argc, char **argv) {
    test_tensors();
    test_tensor_edges();
    test_told();
    test_pictures();
    if (!mkdtemp(work)) return 1;
    setenv("WORK", work, 1);
    if (argc > 1) {
        test_faults(argv[1]);
        shell("rm -rf $WORK");
        return TEST_END("compare");
    }
    test_families();
    test_refusals();
    test_full_disk();
    test_overwriting();
    test_faults(NULL);
    test_dumps();
    test_statistics();
    if (sweep()) test_hook();
    if (sweep()) test_configurations();
    if (sweep()) test_page();
    shell("rm -rf $WORK");
    return TEST_END("compare");
}
