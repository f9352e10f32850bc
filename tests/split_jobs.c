/* What a job may ask for is the same picture under a split: start pictures and masks, previews, several pictures,
   classes, other samplers. The whole sweep takes further pipelines as arguments. */
/* test-runs: lavapipe */
#include "library.h"
#include "vulkan_test.h"

static dit_error err;
static bool full; /* the sweeps of make test-all */
enum { SIDE = 32, VALUES = 2 * 16 * 64 * 64 };

typedef struct maker {
    dit_context *context;
    dit_model *model;
    dit_model_info info;
} maker;

static bool open_maker(maker *m, uint32_t devices, const char *path) {
    static const char name[] = ",llvmpipe";
    char list[16 * sizeof name] = "";
    dit_context_desc desc = DITI_ZERO;
    dit_model_desc model = DITI_ZERO;
    uint32_t i;
    memset(m, 0, sizeof *m);
    for (i = 0; i < devices; i++) strcat(list, name);
    desc.devices = list + 1;
    desc.overrides = "rung=base";
    model.source.path = path;
    if (!CHECK_MESSAGE(dit_context_create(&desc, &m->context, &err) == DIT_OK &&
                           dit_model_load(m->context, &model, &m->model, &err) == DIT_OK,
                       "%s", err.message))
        return false;
    dit_model_get_info(m->model, &m->info);
    return true;
}

static void close_maker(maker *m) {
    dit_model_destroy(m->model);
    dit_context_destroy(m->context);
}

typedef struct outcome {
    float values[VALUES]; /* latents of all pictures */
    size_t count;
    uint8_t preview[4 * 64 * 64];
} outcome;

static bool make(const maker *m, const dit_job_desc *desc, outcome *out) {
    uint32_t pictures = desc->image_count ? desc->image_count : 1, i;
    size_t each = (size_t)m->info.latent_channels * (desc->width / m->info.latent_factor) *
                  (desc->height / m->info.latent_factor);
    dit_job *job = NULL;
    dit_result result = dit_job_create(m->context, desc, &job, &err);
    memset(out, 0, sizeof *out);
    if (result == DIT_OK) {
        result = dit_job_wait(job, UINT64_MAX);
        dit_job_status(job, NULL, &err);
    }
    for (i = 0; i < pictures && result == DIT_OK; i++, out->count += each)
        result = dit_job_read(job, DIT_READ_LATENT_F32, i, 0, out->values + out->count, each * sizeof(float), 0, &err);
    if (result == DIT_OK && desc->preview_interval)
        result = dit_job_read(job, DIT_READ_PREVIEW, 0, 0, out->preview, sizeof out->preview, 0, &err);
    dit_job_destroy(job);
    return CHECK_MESSAGE(result == DIT_OK, "%s: %s", desc->split ? desc->split : "alone", err.message);
}

static double difference(const outcome *a, const outcome *b) {
    double error = 0, norm = 0;
    size_t i;
    for (i = 0; i < b->count; i++) {
        error += ((double)a->values[i] - b->values[i]) * ((double)a->values[i] - b->values[i]);
        norm += (double)b->values[i] * b->values[i];
    }
    return sqrt(error / norm);
}

/* Previews may differ by a step of a byte. */
static int preview_difference(const outcome *a, const outcome *b) {
    int most = 0;
    size_t i;
    for (i = 0; i < sizeof a->preview; i++) {
        int d = a->preview[i] - b->preview[i];
        if (d < 0) d = -d;
        if (d > most) most = d;
    }
    return most;
}

static void check(const maker *m, const char *what, const dit_job_desc *like, const char *const *splits) {
    static outcome one, other;
    dit_job_desc desc = *like;
    if (!make(m, &desc, &one)) return;
    for (; *splits; splits++) {
        desc.split = *splits;
        if (!make(m, &desc, &other)) continue;
        printf("%s, %s: relative L2 %.2g\n", what, *splits, difference(&other, &one));
        CHECK_MESSAGE(difference(&other, &one) <= 1e-3 && preview_difference(&other, &one) <= 1, "%s, %s: %g, %d", what,
                      *splits, difference(&other, &one), preview_difference(&other, &one));
    }
}

static dit_job_desc request(const maker *m) {
    dit_job_desc desc = DITI_ZERO;
    desc.model = m->model;
    desc.prompt = "red apple";
    desc.negative_prompt = "blue";
    desc.width = desc.height = SIDE;
    desc.steps = 2;
    desc.seed = 42;
    desc.guidance.scale = 3;
    return desc;
}

static void test_pictures(void) {
    static const char *const both[] = {"cfg2", "ulysses2", NULL}, *const ring[] = {"ring2", NULL},
                             *const stages[] = {"layers2", "tensor2", "pipefusion2:w3", NULL};
    static uint8_t pixels[SIDE * SIDE * 4], white[SIDE * SIDE * 4];
    dit_image image = DITI_ZERO, mask = DITI_ZERO;
    dit_job_desc desc;
    uint32_t i;
    maker m;
    if (!open_maker(&m, 2, "tests/fixtures/pipe_pixart_sigma")) return;
    for (i = 0; i < sizeof pixels; i++) {
        pixels[i] = (uint8_t)(i * 7 + i / 128);
        white[i] = i % 128 < 64 ? 255 : 0;
    }
    image.width = image.height = mask.width = mask.height = SIDE;
    image.rgba = pixels;
    mask.rgba = white;
    desc = request(&m);
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
    desc = request(&m);
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
    desc = request(&m);
    desc.width = desc.height = 2 * SIDE;
    check(&m, m.info.family, &desc, splits);
    if (!strcmp(m.info.family, "sd3")) {
        desc.steps = 4;
        desc.guidance.skip_layer = 2.8f;
        desc.guidance.skip_blocks = 1;
        desc.guidance.skip_first = 0.2f;
        desc.guidance.skip_last = 0.9f;
        check(&m, "skip-layer guidance", &desc, splits);
    }
    close_maker(&m);
}

int main(int argc, char **argv) {
    const char *all = getenv("DIT_TEST_ALL");
    int i;
    full = all && *all == '1';
    test_vulkan_begin();
    test_pictures();
    if (full) test_classes();
    for (i = 1; i < argc; i++) test_folder(argv[i]);
    test_vulkan_end();
    return TEST_END("split_jobs");
}
