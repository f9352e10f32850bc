/* Everything that a job may ask for gives the same picture under a split: start pictures and masks, previews, several
   pictures, classes, other samplers, clips. The whole sweep takes further pipelines as arguments. */
/* test-runs: lavapipe */
#include "library.h"
#include "split_job.h"
#include "vulkan_test.h"

static bool full; /* the sweeps of make test-all */
enum { SIDE = 32 };

static bool open_maker(maker *m, uint32_t devices, const char *path) {
    memset(m, 0, sizeof *m);
    return CHECK_MESSAGE(open_devices(m, devices, "rung=base", 0) == DIT_OK && load_pipeline(m, path) == DIT_OK, "%s",
                         err.message);
}

typedef uint8_t preview[4 * 64 * 64];

static bool make(maker *m, const dit_job_desc *desc, outcome *out, preview pixels) {
    uint32_t pictures = desc->image_count ? desc->image_count : 1, i;
    dit_result result = make_job(m, desc);
    out->count = 0;
    memset(pixels, 0, sizeof(preview));
    if (result == DIT_OK) result = wait_for(m->job, 600);
    for (i = 0; i < pictures && result == DIT_OK; i++) result = read_latent(m->job, i, out);
    if (result == DIT_OK && desc->preview_interval)
        result = dit_job_read(m->job, DIT_READ_PREVIEW, 0, 0, pixels, sizeof(preview), 0, &err);
    return CHECK_MESSAGE(result == DIT_OK, "%s: %s", desc->split ? desc->split : "alone", err.message);
}

/* Previews may differ by a step of a byte. */
static int preview_difference(const uint8_t *a, const uint8_t *b) {
    int most = 0;
    size_t i;
    for (i = 0; i < sizeof(preview); i++) {
        int d = a[i] - b[i];
        if (d < 0) d = -d;
        if (d > most) most = d;
    }
    return most;
}

static void check(maker *m, const char *what, const dit_job_desc *like, const char *const *splits) {
    static outcome one, other;
    static preview first, second;
    dit_job_desc desc = *like;
    if (!make(m, &desc, &one, first)) return;
    for (; *splits; splits++) {
        desc.split = *splits;
        if (!make(m, &desc, &other, second)) continue;
        printf("%s, %s: relative L2 %.2g\n", what, *splits, difference(&other, &one));
        CHECK_MESSAGE(difference(&other, &one) <= 1e-3 && preview_difference(second, first) <= 1, "%s, %s: %g, %d",
                      what, *splits, difference(&other, &one), preview_difference(second, first));
    }
}

static void test_pictures(void) {
    static const char *const both[] = {"cfg2", "ulysses2", NULL}, *const ring[] = {"ring2", NULL},
                             *const stages[] = {"layers2", "tensor2", "pipefusion2:w3", NULL};
    static uint8_t pixels[SIDE * SIDE * 4], white[SIDE * SIDE * 4];
    dit_image image = DITI_ZERO, mask = DITI_ZERO;
    dit_job_desc desc;
    uint32_t i;
    maker m;
    if (!open_maker(&m, 2, tiny)) return;
    for (i = 0; i < sizeof pixels; i++) {
        pixels[i] = (uint8_t)(i * 7 + i / 128);
        white[i] = i % 128 < 64 ? 255 : 0;
    }
    image.width = image.height = mask.width = mask.height = SIDE;
    image.rgba = pixels;
    mask.rgba = white;
    desc = request(&m, NULL, SIDE, 2);
    desc.steps = 3;
    desc.init_image = &image;
    desc.strength = 0.7f;
    desc.preview_interval = 1;
    if (full) check(&m, "start picture", &desc, both);
    if (full) check(&m, "start picture", &desc, stages);
    desc.mask = &mask;
    desc.image_count = 2;
    check(&m, "two with a mask", &desc, both);
    if (full) check(&m, "two with a mask", &desc, ring);
    if (full) check(&m, "two with a mask", &desc, stages);
    close_maker(&m);
}

static void test_classes(void) {
    static const char *const splits[] = {"cfg2", "ulysses2", "ring2", NULL};
    static const int32_t labels[] = {3, 7};
    dit_job_desc desc;
    maker m;
    if (!open_maker(&m, 2, "tests/fixtures/pipe_dit")) return;
    desc = request(&m, NULL, SIDE, 2);
    desc.prompt = desc.negative_prompt = NULL;
    desc.class_labels = labels;
    desc.image_count = 2;
    desc.sampler = "ddim";
    desc.eta = 0.5f;
    check(&m, "classes", &desc, splits);
    close_maker(&m);
}

/* A diffusers folder: prompts of several encoders, and skip-layer guidance where the family has it. */
static void test_folder(const char *path) {
    static const char *const splits[] = {"cfg2", "ulysses2", "ring2", "layers2", "tensor2", NULL};
    dit_job_desc desc;
    maker m;
    if (!open_maker(&m, 2, path)) return;
    desc = request(&m, NULL, SIDE, 2);
    desc.width = desc.height = 2 * SIDE;
    check(&m, m.model->info.family, &desc, splits);
    if (!strcmp(m.model->info.family, "sd3")) {
        desc.steps = 4;
        desc.guidance.skip_layer = 2.8f;
        desc.guidance.skip_blocks = 1;
        desc.guidance.skip_first = 0.2f;
        desc.guidance.skip_last = 0.9f;
        check(&m, "skip-layer guidance", &desc, splits);
    }
    close_maker(&m);
}

/* Clips with prompts of unequal length, given frames and tiles; devices give the latent and all frames of one alone. */
typedef struct clip_case {
    const char *path;
    uint32_t frames, width, height, tile;
    bool begins;
    uint32_t given; /* frames of a reference; 0: there is none */
} clip_case;

static void test_clip(const clip_case *c) {
    static const char *const splits[] = {"cfg2", "ulysses2", "ring2", "ulysses3", NULL};
    static uint8_t pixels[128 * 128 * 4];
    static outcome one, other;
    dit_image image = DITI_ZERO, given[8];
    dit_reference reference = DITI_ZERO;
    dit_job_desc desc;
    uint32_t i;
    maker m;
    if (!open_maker(&m, 3, c->path)) return;
    for (i = 0; i < sizeof pixels; i++) pixels[i] = (uint8_t)(i * 7 + i / 128);
    desc = request(&m, NULL, 0, 2);
    desc.prompt = "a red apple on a long wooden table";
    desc.width = image.width = c->width;
    desc.height = image.height = c->height;
    image.rgba = pixels;
    desc.frame_count = c->frames;
    desc.float_frames = true;
    desc.vae_tile = c->tile;
    if (c->begins) desc.init_image = &image;
    for (i = 0; i < c->given; i++) {
        given[i] = image;
        given[i].rgba = pixels + i * image.width * 4; /* the picture moves up */
    }
    reference.frames = given;
    reference.frame_count = c->given;
    if (c->given) {
        desc.references = &reference;
        desc.reference_count = 1;
        desc.mask_strategy = "0,0,0,0,2,0.3";
    }
    for (i = 0; i <= DITI_COUNT(splits) - 1; i++) {
        const char *split = i ? splits[i - 1] : NULL;
        outcome *out = i ? &other : &one;
        dit_result result;
        desc.split = split;
        out->count = 0;
        result = make_job(&m, &desc);
        if (result == DIT_ERROR_UNSUPPORTED_MODEL || (result < 0 && split)) {
            printf("%s, %s: refused: %s\n", c->path, split ? split : "alone", err.message);
            continue;
        }
        if (result == DIT_OK) result = wait_for(m.job, 600);
        if (result == DIT_OK) result = read_latent(m.job, 0, out);
        if (result == DIT_OK) result = read_picture(m.job, out);
        if (!CHECK_MESSAGE(result == DIT_OK, "%s, %s: %s", c->path, split ? split : "alone", err.message)) break;
        if (!split) continue;
        printf("%s%s%s, %s: relative L2 %.2g, frames %.2g\n", c->path, c->tile ? " in tiles" : "",
               c->given ? " with frames given" : "", split, difference(&other, &one), picture_difference(&other, &one));
        CHECK_MESSAGE(difference(&other, &one) <= 1e-3 && picture_difference(&other, &one) <= 1e-3, "%s, %s: %g, %g",
                      c->path, split, difference(&other, &one), picture_difference(&other, &one));
    }
    close_maker(&m);
}

static void test_clips(void) {
    static const clip_case clips[] = {{"tests/fixtures/pipe_wan22_i2v_a14b", 5, 64, 64, 0, true, 0},
                                      {"tests/fixtures/pipe_ltx", 9, 64, 64, 0, true, 0},
                                      {"tests/fixtures/pipe_opensora11", 6, 64, 64, 0, false, 0},
                                      {"tests/fixtures/pipe_opensora12", 17, 32, 64, 32, false, 0},
                                      {"tests/fixtures/pipe_opensora12", 17, 32, 64, 0, false, 1},
                                      {"tests/fixtures/pipe_opensora12", 17, 32, 64, 0, false, 7},
                                      {"tests/fixtures/pipe_latte", 6, 64, 64, 32, false, 0},
                                      {"tests/fixtures/pipe_cogvideox_2b", 9, 64, 64, 0, false, 0}};
    size_t i;
    for (i = 0; i < DITI_COUNT(clips); i++) test_clip(&clips[i]);
}

int main(int argc, char **argv) {
    int i;
    full = whole_sweep();
    test_vulkan_begin();
    test_pictures();
    if (full) test_classes();
    if (full) test_clips();
    for (i = 1; i < argc; i++) test_folder(argv[i]);
    test_vulkan_end();
    return TEST_END("split_jobs");
}
