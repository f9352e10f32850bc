/* The bundled model makes the pictures that its golden.json describes: latents and PSNR, in make test of one case with
   few steps on each rung, with DIT_TEST_ALL=1 of every case on each. test-runs: lavapipe */
#include "library.h"
#include "golden.h"
#include "golden_pipe.h"
#include "vulkan_test.h"

static void run_rung(golden *g, const char *rung) {
    golden_folder folder;
    g->rung = rung;
    golden_begin(g, "tests/fixtures/emoji");
    golden_open(&g->env, g->path, &folder);
    printf("rung %s\n", rung);
    if (golden_require(g, golden_is_prompts(&folder), "tests/fixtures/emoji is complete"))
        golden_run_prompts(g, &folder);
    golden_close(&g->env, &folder);
}

/* The pixels of a small picture after one step; rung is what the context says. */
static uint64_t picture(const char *overrides, char *rung) {
    static unsigned char pixels[64 * 64 * 4];
    dit_context_desc cd = DITI_ZERO;
    dit_model_desc md = DITI_ZERO;
    dit_job_desc jd = DITI_ZERO;
    dit_context *context = NULL;
    dit_model *model = NULL;
    dit_job *job = NULL;
    dit_device_info info = DITI_ZERO;
    dit_error err = DITI_ZERO;
    cd.overrides = overrides;
    md.source.path = "models/emoji-q8_0.gguf";
    jd.prompt = "banana";
    jd.width = jd.height = 64;
    jd.steps = 1;
    CHECK_MESSAGE(dit_context_create(&cd, &context, &err) == DIT_OK &&
                      dit_context_device(context, &info, &err) == DIT_OK &&
                      dit_model_load(context, &md, &model, &err) == DIT_OK,
                  "%s: %s", overrides, err.message);
    jd.model = model;
    CHECK_MESSAGE(model && dit_job_create(context, &jd, &job, &err) == DIT_OK &&
                      dit_job_wait(job, UINT64_MAX) == DIT_OK &&
                      dit_job_read(job, DIT_READ_RGBA8, 0, 0, pixels, sizeof pixels, 0, &err) == DIT_OK,
                  "%s: %s", overrides, err.message);
    memcpy(rung, info.rung, sizeof info.rung);
    dit_job_destroy(job);
    dit_model_destroy(model);
    dit_context_destroy(context);
    return diti_hash(pixels, sizeof pixels);
}

/* A rung that computes wrong is left out and reported, and the picture is that of the next one. */
static void test_climbing_down(void) {
    char rung[32], other[32];
    uint64_t right = picture("rung=fp16", rung), climbed = picture("rung=half,selftest_fail=half", other);
    CHECK_MESSAGE(!strcmp(rung, "fp16") && !strcmp(other, "fp16, no half"), "rungs '%s' and '%s'", rung, other);
    CHECK(right == climbed);
}

int main(void) {
    const char *all = getenv("DIT_TEST_ALL");
    golden g = DITI_ZERO;
    bool has_fp16;
    g.env = test_env(NULL);
    test_vulkan_begin();
    has_fp16 = golden_has_fp16(&g);
    g.every = all && !strcmp(all, "1") ? 0 : 4;
    g.from = 3; /* 8 steps */
    run_rung(&g, "base");
    if (has_fp16)
        run_rung(&g, "fp16"), test_climbing_down();
    else
        printf("no fp16 on this device: the fp16 rung is not run\n");
    test_vulkan_end();
    return TEST_END("bundled");
}
