/* Models of published sizes, whose weights are made while they are read (real_shapes.h): how many parameters a dry run
   counts and which family it sees, in both namings, from headers alone; and, with DIT_TEST_ALL=1 or with names as
   arguments, one step of each whole architecture at 256 pixels, streamed through 1.5 GB.
   test-runs: plain sanitize */
#define DIT_IMPLEMENTATION
#include "dit.h"
#include "real_shapes.h"
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__)
#define SANITIZED 1
#elif defined(__has_feature)
#define SANITIZED __has_feature(address_sanitizer)
#else
#define SANITIZED 0
#endif

/* ---- architectures ---- */

static void dit_xl_2(real_file *file) { real_dit(file, 1152, 28, 16); }
static void pixart_alpha(real_file *file) { real_pixart(file, 1152, 28, 120, 64, true); }
static void pixart_sigma(real_file *file) { real_pixart(file, 1152, 28, 300, 64, false); }
static void sd3_medium(real_file *file) { real_sd3(file, 24, 192, 0, false); }
static void sd35_medium(real_file *file) { real_sd3(file, 24, 384, 13, true); }
static void sd35_large(real_file *file) { real_sd3(file, 38, 192, 0, true); }
static void flux_schnell(real_file *file) { real_flux(file, 3072, 19, 38, false); }
static void flux_dev(real_file *file) { real_flux(file, 3072, 19, 38, true); }
static void flux_dev_3_6(real_file *file) { real_flux(file, 3072, 3, 6, true); }
static void hunyuandit_v11(real_file *file) { real_hunyuandit(file, 1408, 6144, 40, true); }
static void hunyuandit_v12(real_file *file) { real_hunyuandit(file, 1408, 6144, 40, false); }

typedef struct architecture {
    const char *name;
    void (*make)(real_file *file);
    double millions; /* of parameters, as published; of schnell and v1.1: what they are from dev and v1.2 */
    const char *family, *variant;
} architecture;

static const architecture architectures[] = {
    {"DiT-XL/2", dit_xl_2, 675, "dit", "xl"},
    {"PixArt-alpha", pixart_alpha, 611, "pixart", "alpha"},
    {"PixArt-Sigma", pixart_sigma, 611, "pixart", "sigma"},
    {"SD3-medium", sd3_medium, 2028, "sd3", "3-medium"},
    {"SD3.5-medium", sd35_medium, 2243, "sd3", "3.5-medium"},
    {"SD3.5-large", sd35_large, 8057, "sd3", "3.5-large"},
    {"FLUX.1-schnell", flux_schnell, 11891, "flux", "schnell"},
    {"FLUX.1-dev", flux_dev, 11901, "flux", "dev"},
    {"HunyuanDiT v1.1", hunyuandit_v11, 1517, "hunyuandit", "1.1"},
    {"HunyuanDiT v1.2", hunyuandit_v12, 1500, "hunyuandit", "1.2"},
};

/* ---- headers alone ---- */

static uint64_t count_parameters(const architecture *a, real_file *file, const char *naming) {
    dit_model_desc desc = {0};
    dit_model_info info = {0};
    dit_model *model = NULL;
    dit_error err = {0};
    a->make(file);
    desc.source = real_source(file);
    desc.dry_run = true;
    if (CHECK_MESSAGE(dit_model_load(NULL, &desc, &model, &err) == DIT_OK, "%s, %s: %s", a->name, naming,
                      err.message)) {
        double counted;
        dit_model_get_info(model, &info);
        counted = (double)info.parameters[DIT_ROLE_TRANSFORMER] / 1e6;
        CHECK_MESSAGE(fabs(counted / a->millions - 1) < 0.002, "%s, %s: %.1f million parameters, not %.0f", a->name,
                      naming, counted, a->millions);
        CHECK_MESSAGE(diti_equal(info.family, a->family) && diti_equal(info.variant, a->variant),
                      "%s, %s: taken for %s %s", a->name, naming, info.family, info.variant);
        CHECK_MESSAGE(info.parameters[DIT_ROLE_TRANSFORMER] == file->parameters, "%s, %s: %llu parameters, not %llu",
                      a->name, naming, (unsigned long long)info.parameters[DIT_ROLE_TRANSFORMER],
                      (unsigned long long)file->parameters);
        CHECK_MESSAGE(file->data_read < 1u << 16, "%s, %s: a dry run read %llu bytes of data", a->name, naming,
                      (unsigned long long)file->data_read);
    }
    dit_model_destroy(model);
    real_free(file);
    return info.parameters[DIT_ROLE_TRANSFORMER];
}

static void test_headers(void) {
    static const char all_in_one[] = "model.diffusion_model."; /* single files that hold encoders and VAE besides */
    size_t i;
    for (i = 0; i < sizeof architectures / sizeof *architectures; i++) {
        const architecture *a = &architectures[i];
        real_file diffusers = {0}, original = {0}, prefixed = {0}, gguf = {0};
        uint64_t count;
        diffusers.safetensors = original.safetensors = prefixed.safetensors = true;
        diffusers.type = DIT_TYPE_BF16;
        original.type = prefixed.type = DIT_TYPE_F16;
        gguf.type = DIT_TYPE_Q8_0;
        original.original = prefixed.original = gguf.original = true;
        prefixed.prefix = all_in_one;
        count = count_parameters(a, &diffusers, "diffusers' names");
        CHECK(count_parameters(a, &original, "original names") == count);
        CHECK(count_parameters(a, &prefixed, "names of an all-in-one file") == count);
        CHECK(count_parameters(a, &gguf, "GGUF") == count);
    }
}

/* ---- the generator itself ---- */

/* Whatever is read at a time, the bytes are the same; the values have the spread that was asked for. */
static void test_generator(void) {
    static const dit_type types[] = {DIT_TYPE_Q8_0, DIT_TYPE_F16, DIT_TYPE_BF16, DIT_TYPE_F32};
    enum { ROWS = 24, COLUMNS = 576, COUNT = ROWS * COLUMNS };
    size_t i, k;
    for (i = 0; i < sizeof types / sizeof *types; i++) {
        real_file file = {0};
        const real_tensor *t;
        unsigned char *whole, *pieces;
        float *values = (float *)calloc(COUNT, sizeof *values);
        double sum = 0, squares = 0;
        uint64_t at, size;
        dit_source source;
        file.type = types[i];
        real_layer(&file, 3, 5, "before", NULL, 0);
        real_layer(&file, ROWS, COLUMNS, "layer", NULL, 0);
        source = real_source(&file);
        t = &file.tensors[2];
        CHECK(t->type == types[i] && t->elements == COUNT);
        whole = (unsigned char *)calloc(2, (size_t)source.size);
        pieces = whole + source.size;
        CHECK(source.read_at(0, whole, (size_t)source.size, source.user) == (int64_t)source.size);
        for (at = 0; at < source.size; at += size) {
            size = 1 + at * 7 % 201;
            if (size > source.size - at) size = source.size - at;
            CHECK(source.read_at(at, pieces + at, (size_t)size, source.user) == (int64_t)size);
        }
        CHECK(!memcmp(whole, pieces, (size_t)source.size));
        CHECK(source.read_at(source.size, pieces, 1, source.user) < 0);
        diti_type_to_float(t->type, whole + file.header.size + t->offset, COUNT, values);
        for (k = 0; k < COUNT; k++) sum += values[k], squares += (double)values[k] * values[k];
        CHECK(fabs(sum / COUNT) * sqrt(COLUMNS) < 0.05);
        CHECK(fabs(sqrt(squares / COUNT * COLUMNS) - 1) < 0.02);
        free(whole);
        free(values);
        real_free(&file);
    }
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    test_generator();
    test_headers();
    return TEST_END("real");
}
