/* The bundled model makes the pictures that its golden.json describes: latents and PSNR of every case, on every rung.
   test-runs: lavapipe */
#define DIT_IMPLEMENTATION
#include "dit.h"
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

int main(void) {
    golden g = DITI_ZERO;
    g.env = test_env(NULL);
    test_vulkan_begin();
    run_rung(&g, "base");
    if (golden_has_fp16(&g))
        run_rung(&g, "fp16");
    else
        printf("no fp16 on this device: the fp16 rung is not run\n");
    test_vulkan_end();
    return TEST_END("bundled");
}
