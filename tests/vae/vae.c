/* Autoencoders in tiles: tiles come near to the picture that is decoded at once, show no seam, and save memory.
   test-runs: lavapipe */
#include "library.h"
#include "files.h"
#include "vulkan_test.h"

#define MODEL "models/emoji-q8_0.gguf"
#define TAESD "tests/fixtures/taesd/model.safetensors"
enum { WIDTH = 256, HEIGHT = 160, TILE = 128, BORDER = 32 };

static diti_env env;

static double psnr(const float *a, const float *b, size_t count, double range) {
    double sum = 0;
    for (size_t i = 0; i < count; i++) sum += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
    return 10 * log10(range * range * (double)count / (sum > 0 ? sum : 1e-30));
}

/* The most that the difference of two pictures [height][width][channels] changes on average from one line (or column)
   to the next where a tile may begin or end: a seam is a line where it jumps. */
static double worst_jump(const float *a, const float *b, size_t lines, size_t line_step, size_t cells,
                         size_t cell_step) {
    double worst = 0;
    for (size_t y = BORDER - 1; y + 1 < lines; y += BORDER) {
        double sum = 0;
        for (size_t x = 0; x < cells; x++) {
            size_t i = y * line_step + x * cell_step, j = i + line_step;
            sum += fabs(((double)a[j] - b[j]) - ((double)a[i] - b[i]));
        }
        if (sum / (double)cells > worst) worst = sum / (double)cells;
    }
    return worst;
}

static double worst_seam(const float *a, const float *b, size_t height, size_t width, size_t channels) {
    double rows = worst_jump(a, b, height, width * channels, width, channels);
    double columns = worst_jump(a, b, width, channels, height, width * channels);
    return rows > columns ? rows : columns;
}

/* --- the bundled model's decoder, by way of the public calls --- */

static float whole[3 * WIDTH * HEIGHT], tiled[3 * WIDTH * HEIGHT];

static dit_memory make_picture(dit_context *context, const dit_model *model, uint32_t tile, float *out) {
    dit_job_desc desc = DITI_ZERO;
    dit_memory memory = DITI_ZERO;
    dit_error err = DITI_ZERO;
    dit_job *job = NULL;
    desc.model = model;
    desc.prompt = "a red apple";
    desc.width = WIDTH;
    desc.height = HEIGHT;
    desc.steps = 2;
    desc.vae_tile = tile;
    CHECK_MESSAGE(dit_job_memory(context, &desc, &memory, &err) == DIT_OK, "%s", err.message);
    CHECK_MESSAGE(dit_job_create(context, &desc, &job, &err) == DIT_OK, "%s", err.message);
    CHECK(dit_job_wait(job, UINT64_MAX) == DIT_OK);
    CHECK_MESSAGE(dit_job_read(job, DIT_READ_RGB_F32, 0, 0, out, sizeof whole, 0, &err) == DIT_OK, "%s", err.message);
    desc.vae_tile = tile + 64;
    CHECK(dit_job_restart(job, &desc, &err) < 0 && strstr(err.message, "vae_tile"));
    dit_job_destroy(job);
    return memory;
}

static void test_job(void) {
    dit_context_desc desc = DITI_ZERO;
    dit_model_desc model_desc = DITI_ZERO;
    dit_context *context = NULL;
    dit_model *model = NULL;
    dit_error err = DITI_ZERO;
    dit_memory all, some;
    double noise, seam;
    model_desc.source.path = MODEL;
    CHECK_MESSAGE(dit_context_create(&desc, &context, &err) == DIT_OK, "%s", err.message);
    CHECK_MESSAGE(dit_model_load(context, &model_desc, &model, &err) == DIT_OK, "%s", err.message);
    all = make_picture(context, model, 0, whole);
    some = make_picture(context, model, TILE, tiled);
    noise = psnr(whole, tiled, 3 * WIDTH * HEIGHT, 1);
    seam = worst_seam(whole, tiled, HEIGHT, WIDTH, 3);
    printf("%d x %d in tiles of %d: PSNR %.1f dB, worst seam %.4f, activations %.1f MB, all at once %.1f MB\n", WIDTH,
           HEIGHT, TILE, noise, seam, (double)some.activations / 1e6, (double)all.activations / 1e6);
    CHECK_MESSAGE(noise > 30, "PSNR %.1f dB", noise); /* each tile has statistics of its own */
    CHECK_MESSAGE(seam < 1.0 / 255, "seam %.4f", seam);
    CHECK(some.activations < all.activations);
    dit_model_destroy(model);
    dit_context_destroy(context);
}

/* --- a tiny autoencoder for previews --- */

static dit_result load_with_tae(dit_context *context, const char *path, const char *tae, dit_model **out,
                                dit_error *err) {
    dit_model_desc desc = DITI_ZERO;
    dit_component component = DITI_ZERO;
    desc.source.path = path;
    component.role = DIT_ROLE_TAE;
    component.source.path = tae;
    desc.components = &component;
    desc.component_count = tae ? 1 : 0;
    return dit_model_load(context, &desc, out, err);
}

/* Bytes of the picture and of the last preview, both of 64 x 64. */
static void pictures_of(dit_context *context, const char *tae, uint8_t *picture, uint8_t *preview) {
    dit_job_desc desc = DITI_ZERO;
    dit_model *model = NULL;
    dit_job *job = NULL;
    dit_error err = DITI_ZERO;
    CHECK_MESSAGE(load_with_tae(context, "tests/fixtures/pipe_pixart_sigma", tae, &model, &err) == DIT_OK, "%s",
                  err.message);
    desc.model = model;
    desc.width = desc.height = 64;
    desc.steps = 2;
    desc.preview_interval = 1;
    CHECK_MESSAGE(dit_job_create(context, &desc, &job, &err) == DIT_OK, "%s", err.message);
    if (!job) return;
    CHECK(dit_job_wait(job, UINT64_MAX) == DIT_OK);
    CHECK(dit_job_read(job, DIT_READ_RGBA8, 0, 0, picture, 64 * 64 * 4, 0, &err) == DIT_OK);
    CHECK_MESSAGE(dit_job_read(job, DIT_READ_PREVIEW, 0, 0, preview, 64 * 64 * 4, 0, &err) == DIT_OK, "%s",
                  err.message);
    dit_job_destroy(job);
    dit_model_destroy(model);
}

static void test_preview(void) {
    static uint8_t picture[2][64 * 64 * 4], preview[2][64 * 64 * 4];
    dit_context_desc desc = DITI_ZERO;
    dit_context *context = NULL;
    dit_model *model = NULL;
    dit_error err = DITI_ZERO;
    CHECK_MESSAGE(dit_context_create(&desc, &context, &err) == DIT_OK, "%s", err.message);
    pictures_of(context, NULL, picture[0], preview[0]);
    pictures_of(context, TAESD, picture[1], preview[1]);
    CHECK(memcmp(picture[0], picture[1], sizeof picture[0]) == 0);
    CHECK(memcmp(preview[0], preview[1], sizeof preview[0]) != 0);
    CHECK(load_with_tae(context, MODEL, TAESD, &model, &err) == DIT_ERROR_UNSUPPORTED_MODEL && !model);
    CHECK_MESSAGE(strstr(err.message, "tiny autoencoder") && strstr(err.message, "different models"), "%s",
                  err.message);
    dit_context_destroy(context);
}

/* --- alone: memory by size, and an autoencoder without norms, where tiles differ at their borders only --- */

static uint64_t measured(const diti_vae *vae, diti_device *device, uint32_t side, uint32_t tile, bool encode) {
    uint32_t factor = vae->traits.factor;
    diti_plan_memory memory = DITI_ZERO;
    dit_error err = DITI_ZERO;
    diti_graph graph;
    diti_graph_init(&graph, device);
    diti_graph_segment(&graph, "vae", false);
    if (encode)
        diti_vae_encode(vae, &graph, diti_tensor_input(&graph, DITI_F32, factor * side * factor * side, 3, "picture"),
                        factor * side, factor * side, tile);
    else
        diti_vae_decode(vae, &graph,
                        diti_tensor_input(&graph, DITI_F32, vae->traits.latent_channels, side * side, "latent"), side,
                        side, tile, NULL);
    CHECK_MESSAGE(diti_plan_measure(&graph, &memory, &err) == DIT_OK, "%s", err.message);
    diti_graph_free(&graph);
    return memory.activations;
}

static diti_vae *load(diti_device *device, const char *path, diti_checkpoint **file) {
    dit_source source = DITI_ZERO;
    diti_vae *vae = NULL;
    dit_error err = DITI_ZERO;
    source.path = path;
    CHECK_MESSAGE(diti_checkpoint_open(&env, &source, file, &err) == DIT_OK, "%s", err.message);
    CHECK_MESSAGE(diti_vae_load(device, &env, NULL, *file, "", NULL, &vae, &err) == DIT_OK, "%s", err.message);
    return vae;
}

enum { SIDE = 24, FACTOR = 8 };
static float pictures[2][FACTOR * SIDE * FACTOR * SIDE * 3], latents[4 * SIDE * SIDE], codes[2][4 * SIDE * SIDE];

static void run(const diti_vae *vae, diti_device *device, uint32_t tile, bool encode, float *out) {
    uint32_t pixels = vae->traits.factor * SIDE * vae->traits.factor * SIDE, i;
    diti_elementwise_desc copy = DITI_ZERO;
    diti_plan *plan = NULL;
    dit_error err = DITI_ZERO;
    diti_tensor x, input;
    diti_graph graph;
    size_t size;
    diti_graph_init(&graph, device);
    diti_graph_segment(&graph, "vae", false);
    if (encode) {
        input = diti_tensor_input(&graph, DITI_F32, pixels, 3, "picture");
        x = diti_vae_encode(vae, &graph, input, vae->traits.factor * SIDE, vae->traits.factor * SIDE, tile);
    } else {
        input = diti_tensor_input(&graph, DITI_F32, vae->traits.latent_channels, SIDE * SIDE, "latent");
        x = diti_vae_decode(vae, &graph, input, SIDE, SIDE, tile, NULL);
    }
    size = (size_t)diti_tensor_get(&graph, x)->rows * diti_tensor_get(&graph, x)->columns;
    copy.out = diti_tensor_state(&graph, DITI_F32, diti_tensor_get(&graph, x)->rows,
                                 diti_tensor_get(&graph, x)->columns, "kept");
    diti_elementwise(&graph, x, &copy);
    CHECK_MESSAGE(diti_plan_create(&graph, NULL, &plan, &err) == DIT_OK, "%s", err.message);
    diti_graph_free(&graph);
    if (!plan) return;
    for (i = 0; i < vae->traits.latent_channels * SIDE * SIDE; i++)
        latents[i] = (float)(sin(0.3 * (i % SIDE) + i / (SIDE * SIDE)) * cos(0.2 * (i / SIDE % SIDE)));
    if (encode)
        CHECK(diti_plan_write(plan, input, pictures[0], (size_t)pixels * 3 * sizeof(float), &err) == DIT_OK);
    else
        CHECK(diti_plan_write(plan, input, latents, (size_t)vae->traits.latent_channels * SIDE * SIDE * sizeof(float),
                              &err) == DIT_OK);
    CHECK_MESSAGE(diti_plan_run(plan, 0, 1, &err) == DIT_OK, "%s", err.message);
    CHECK(diti_plan_read(plan, copy.out, out, size * sizeof(float), &err) == DIT_OK);
    diti_plan_destroy(plan);
}

static double peak(const float *values, size_t count) {
    double low = values[0], high = values[0];
    for (size_t i = 0; i < count; i++) {
        if (values[i] < low) low = values[i];
        if (values[i] > high) high = values[i];
    }
    return high - low;
}

static void test_tiny(diti_device *device) {
    diti_checkpoint *file = NULL;
    diti_vae *vae = load(device, TAESD, &file);
    size_t count = DITI_COUNT(pictures[0]);
    uint64_t once, small, large;
    if (!vae) return;
    run(vae, device, 0, false, pictures[0]);
    run(vae, device, 16, false, pictures[1]);
    printf("TAESD, %d in tiles of 16: PSNR %.1f dB, worst seam %.4f of the range\n", SIDE,
           psnr(pictures[0], pictures[1], count, peak(pictures[0], count)),
           worst_seam(pictures[0], pictures[1], FACTOR * SIDE, FACTOR * SIDE, 3) / peak(pictures[0], count));
    CHECK(psnr(pictures[0], pictures[1], count, peak(pictures[0], count)) > 30); /* its borders: zeros for neighbours */
    run(vae, device, 0, true, codes[0]);
    run(vae, device, 16, true, codes[1]);
    count = DITI_COUNT(codes[0]);
    printf("encoded: PSNR %.1f dB\n", psnr(codes[0], codes[1], count, peak(codes[0], count)));
    CHECK(psnr(codes[0], codes[1], count, peak(codes[0], count)) > 25);
    CHECK(measured(vae, device, 128, 64, true) < measured(vae, device, 128, 0, true));
    once = measured(vae, device, 128, 0, false);
    large = measured(vae, device, 128, 64, false);
    small = measured(vae, device, 128, 32, false);
    printf("TAESD, 1024 px: %.1f MB at once, %.1f MB in tiles of 512, %.1f MB of 256\n", (double)once / 1e6,
           (double)large / 1e6, (double)small / 1e6);
    CHECK(small < large && large < once);
    diti_vae_destroy(vae);
    diti_checkpoint_close(file);
}

int main(void) {
    dit_context_desc desc = DITI_ZERO;
    diti_device *device = NULL;
    dit_error err = DITI_ZERO;
    env = test_env(NULL);
    test_vulkan_begin();
    test_job();
    test_preview();
    CHECK_MESSAGE(diti_device_open(&desc, &env, &device, &err) == DIT_OK, "%s", err.message);
    if (device) test_tiny(device);
    if (device) diti_device_close(device);
    test_vulkan_end();
    return TEST_END("vae");
}
