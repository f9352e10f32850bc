/* Start pictures and masks, and guidance that ends early: latents against diffusers
   (tests/reference/start_pictures.py), batches, tiles, restarts, cancelling, both ways to run, images of the
   application's, what is refused, and how much work a gate saves. Usage: start [PIPE_SD3 [PIPE_FLUX]], folders of the
   shared fixtures, for the pipelines of those families.   test-runs: lavapipe */
#include "library.h"
#include "vulkan_test.h"
#include "engine.h"
#include "files.h"

#define MODEL "tests/fixtures/pipe_pixart_sigma" /* two blocks, random weights */
enum { WIDTH = 64, HEIGHT = 48, STEPS = 5, SEED = 3, AREA = WIDTH * HEIGHT };
enum { LATENT = 4 * AREA / 64, MOST_LATENT = 16 * AREA / 64 };

static dit_context *context;
static dit_model *model;
static diti_checkpoint *golden;
static uint8_t start_rgba[AREA * 4], mask_rgba[AREA * 4];
static dit_image start_image, mask_image;
static uint32_t channels = 4; /* of latents */

static size_t latent_size(void) { return channels * AREA / 64 * sizeof(float); }

/* ---- the fixture ---- */

static bool read_golden(const char *name, void *out, size_t size) {
    const diti_stored_tensor *tensor = diti_checkpoint_find(golden, name);
    return CHECK_MESSAGE(tensor && diti_checkpoint_read(golden, tensor, 0, out, size, NULL) >= 0, "%s", name);
}

/* Makes picture and mask as the script does; edges of the mask do not follow the latent's grid, and alpha counts for
   nothing. */
static void make_pictures(void) {
    uint32_t x, y;
    for (y = 0; y < HEIGHT; y++) {
        for (x = 0; x < WIDTH; x++) {
            uint8_t *start = start_rgba + (y * WIDTH + x) * 4, *mask = mask_rgba + (y * WIDTH + x) * 4;
            start[0] = (uint8_t)(x * 255 / (WIDTH - 1));
            start[1] = (uint8_t)(y * 255 / (HEIGHT - 1));
            start[2] = (uint8_t)(x * 7 ^ y * 5);
            start[3] = (uint8_t)(x + y);
            mask[0] = mask[1] = mask[2] = (uint8_t)((x > 13 && y * 2 < x + 45 ? 140u : 120u) + (x + y) % 3);
        }
    }
    start_image.width = mask_image.width = WIDTH;
    start_image.height = mask_image.height = HEIGHT;
    start_image.rgba = start_rgba;
    mask_image.rgba = mask_rgba;
}

/* ---- jobs ---- */

static dit_job_desc describe(const dit_image *start, const dit_image *mask, float strength) {
    dit_job_desc desc = {0};
    desc.model = model;
    desc.prompt = "a red heart";
    desc.negative_prompt = "blurry";
    desc.width = WIDTH;
    desc.height = HEIGHT;
    desc.steps = STEPS;
    desc.seed = SEED;
    desc.init_image = start;
    desc.mask = mask;
    desc.strength = strength;
    return desc;
}

static dit_job *make_job(dit_context *ctx, const dit_job_desc *desc) {
    dit_job *job = NULL;
    dit_error err = {0};
    CHECK_MESSAGE(dit_job_create(ctx, desc, &job, &err) == DIT_OK, "%s", err.message);
    return job;
}

static bool finish(dit_job *job) {
    dit_error err = {0};
    dit_result result = job ? dit_job_wait(job, UINT64_MAX) : DIT_ERROR_IO;
    if (job) dit_job_status(job, NULL, &err);
    return CHECK_MESSAGE(result == DIT_OK, "%s", err.message);
}

static bool latent(dit_job *job, uint32_t image, float *out) {
    return CHECK(dit_job_read(job, DIT_READ_LATENT_F32, image, 0, out, latent_size(), 0, NULL) == DIT_OK);
}

static void run(const dit_job_desc *desc, float *out) {
    dit_job *job = make_job(context, desc);
    if (finish(job)) latent(job, 0, out);
    dit_job_destroy(job);
}

static double difference(const float *a, const float *b) {
    double error = 0, size = 0;
    uint32_t i;
    for (i = 0; i < channels * AREA / 64; i++) {
        error += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
        size += (double)b[i] * b[i];
    }
    return sqrt(error / size);
}

static void refused(const dit_job_desc *desc, const char *says) {
    dit_job *job = NULL;
    dit_error err = {0};
    dit_result result = dit_job_create(context, desc, &job, &err);
    CHECK_MESSAGE(result < 0 && !job && strstr(err.message, says) && !strchr(err.message, '\n'), "'%s' does not say %s",
                  err.message, says);
    dit_job_destroy(job);
}

/* ---- against diffusers ---- */

typedef struct reference {
    const char *name, *sampler;
    float strength; /* 0: 0.75; below 0: from noise */
    uint32_t steps; /* how many steps are taken */
    bool masked, gated, skips;
} reference;

static void compare(const reference *r) {
    static float out[MOST_LATENT], wanted[MOST_LATENT];
    dit_job_desc desc =
        describe(r->strength < 0 ? NULL : &start_image, r->masked ? &mask_image : NULL, fmaxf(r->strength, 0));
    dit_status status;
    double error;
    dit_job *job;
    desc.sampler = r->sampler;
    desc.guidance.last = r->gated ? 0.5f : 0;
    if (r->skips) {
        desc.guidance.skip_layer = 2.8f;
        desc.guidance.skip_first = 0.01f;
        desc.guidance.skip_last = 0.5f;
        desc.guidance.skip_blocks = 2; /* the second */
    }
    if (!strncmp(r->name, "sd3", 3)) desc.guidance.scale = 5;
    if (!strncmp(r->name, "flux", 4)) desc.negative_prompt = NULL;
    job = make_job(context, &desc);
    finish(job);
    dit_job_status(job, &status, NULL);
    CHECK_MESSAGE(status.step_count == r->steps, "%s: %u steps", r->name, (unsigned)status.step_count);
    if (latent(job, 0, out) && read_golden(r->name, wanted, latent_size())) {
        error = difference(out, wanted);
        printf("  %s: %.1e\n", r->name, error);
        /* float32 on both sides, sums in another order */
        CHECK_MESSAGE(error < 1e-4, "%s: relative L2 %.1e", r->name, error);
    }
    dit_job_destroy(job);
}

static void test_references(void) {
    static const reference cases[] = {
        {"dpm", NULL, 0.6f, 3, false, false, false},       {"dpm_mask", NULL, 0.8f, 4, true, false, false},
        {"unipc", "unipc", 0.7f, 4, false, false, false},  {"euler", "euler", 0.6f, 3, false, false, false},
        {"euler_mask", "euler", 1, 5, true, false, false}, {"ddim_mask", "ddim", 0.5f, 3, true, false, false},
        {"ddpm", "ddpm", 0, 4, false, false, false},       {"gate", NULL, -1, 5, false, true, false}};
    size_t i;
    for (i = 0; i < DITI_COUNT(cases); i++) compare(&cases[i]);
}

/* SD3's and FLUX's pipelines for pictures and masks, and skip-layer guidance: all cases whose names begin so. */
static void test_folder(const char *folder, const char *family) {
    static const reference cases[] = {{"sd3", NULL, 0.6f, 3, false, false, false},
                                      {"sd3_mask", NULL, 0.85f, 5, true, false, false},
                                      {"sd3_skip", NULL, -1, 5, false, false, true},
                                      {"flux", NULL, 0.6f, 3, false, false, false},
                                      {"flux_mask", NULL, 0.8f, 4, true, false, false}};
    dit_model_desc md = {0};
    dit_model *shared = model;
    dit_error err = {0};
    size_t i;
    md.source.path = folder;
    if (CHECK_MESSAGE(dit_model_load(context, &md, &model, &err) == DIT_OK, "%s", err.message)) {
        channels = 16;
        for (i = 0; i < DITI_COUNT(cases); i++)
            if (!strncmp(cases[i].name, family, strlen(family))) compare(&cases[i]);
        channels = 4;
        if (!strcmp(family, "sd3")) {
            dit_job_desc desc = describe(NULL, NULL, 0);
            desc.guidance.skip_layer = 2.8f;
            refused(&desc, "beyond the model's 2"); /* 7, 8 and 9 are those of large ones */
            desc.guidance.scale = 1;
            refused(&desc, "guidance, which is off");
        }
        dit_model_destroy(model);
    }
    model = shared;
}

/* ---- jobs of every kind ---- */

/* Image i of a batch is its single run with seed + i, and a restart is a new run. */
static void test_batch_and_restart(void) {
    static float batch[2][LATENT], one[LATENT];
    static uint8_t other[AREA * 4];
    dit_job_desc desc = describe(&start_image, &mask_image, 0.5f);
    dit_image second = start_image;
    dit_error err = {0};
    dit_job *job;
    uint32_t i;
    desc.image_count = 2;
    job = make_job(context, &desc);
    finish(job);
    for (i = 0; i < 2; i++) latent(job, i, batch[i]);
    dit_job_destroy(job);
    desc.image_count = 1;
    job = make_job(context, &desc);
    finish(job);
    latent(job, 0, one);
    CHECK(!memcmp(one, batch[0], sizeof one) && memcmp(batch[0], batch[1], sizeof one));
    for (i = 0; i < AREA * 4; i++) other[i] = (uint8_t)(255 - start_rgba[i]);
    second.rgba = other;
    desc.init_image = &second;
    CHECK_MESSAGE(dit_job_restart(job, &desc, &err) == DIT_OK, "%s", err.message);
    finish(job);
    latent(job, 0, one);
    CHECK(memcmp(one, batch[0], sizeof one));
    desc.init_image = &start_image;
    desc.seed = SEED + 1;
    CHECK_MESSAGE(dit_job_restart(job, &desc, &err) == DIT_OK, "%s", err.message);
    dit_job_step(job, 0); /* the job is cancelled while the picture is encoded */
    dit_job_cancel(job);
    CHECK(dit_job_wait(job, UINT64_MAX) == DIT_CANCELLED && dit_job_restart(job, &desc, &err) == DIT_OK);
    finish(job);
    latent(job, 0, one);
    CHECK(!memcmp(one, batch[1], sizeof one));
    desc.mask = NULL;
    CHECK(dit_job_restart(job, &desc, &err) == DIT_ERROR_INVALID_ARGUMENT && strstr(err.message, "mask"));
    dit_job_destroy(job);
}

/* FLUX.2's pipelines take the mean that the encoder gives: what a mask keeps of a picture is the same for every seed,
   and the noise that is added is the seed's first, as without a picture. PixArt's latents are drawn. */
static void test_means(void) {
    enum { MOST = 128 * AREA / 256 };
    static float kept[2][MOST], noise[2][MOST];
    static uint8_t black[AREA * 4];
    const dit_image mask = {WIDTH, HEIGHT, black, 0, VK_NULL_HANDLE, VK_IMAGE_LAYOUT_UNDEFINED, VK_FORMAT_UNDEFINED,
                            NULL};
    dit_model *shared = model;
    dit_model_desc md = {0};
    dit_job_desc desc = describe(&start_image, &mask, 0.5f);
    dit_error err = {0};
    uint32_t i;
    for (i = 0; i < 2; i++, desc.seed++) run(&desc, kept[i]);
    CHECK(memcmp(kept[0], kept[1], latent_size()) != 0);
    md.source.path = "tests/fixtures/pipe_flux2_klein";
    if (CHECK_MESSAGE(dit_model_load(context, &md, &model, &err) == DIT_OK, "%s", err.message)) {
        channels = 32; /* 128 for four times as many pixels */
        for (i = 0; i < 2; i++) {
            desc = describe(&start_image, &mask, 0.5f);
            desc.seed = SEED + i;
            run(&desc, kept[i]);
            desc = describe(i ? &start_image : NULL, NULL, (float)i);
            run(&desc, noise[i]);
        }
        CHECK(memcmp(kept[0], kept[1], sizeof kept[0]) == 0 && difference(noise[0], kept[0]) > 0.1);
        CHECK_MESSAGE(difference(noise[1], noise[0]) < 1e-6, "%.1e", difference(noise[1], noise[0]));
        channels = 4;
        dit_model_destroy(model);
    }
    model = shared;
}

/* Tiles change the latent of the picture a little; rows may have gaps; what the mask keeps is that latent. */
static void test_tiles(void) {
    enum { WIDE = 96, SIDE = 16 };
    static uint8_t rgba[WIDE * SIDE * 4 + SIDE * 8], black[WIDE * SIDE * 4];
    static float plain[LATENT], tiled[LATENT];
    dit_image image = {WIDE, SIDE, rgba, WIDE * 4 + 8, VK_NULL_HANDLE, VK_IMAGE_LAYOUT_UNDEFINED, VK_FORMAT_UNDEFINED,
                       NULL};
    dit_image mask = {WIDE, SIDE, black, 0, VK_NULL_HANDLE, VK_IMAGE_LAYOUT_UNDEFINED, VK_FORMAT_UNDEFINED, NULL};
    dit_job_desc desc = describe(&image, &mask, 0.2f);
    size_t i;
    double error = 0, size = 0;
    for (i = 0; i < sizeof rgba; i++) rgba[i] = (uint8_t)(i * 5 % 251);
    desc.width = WIDE;
    desc.height = SIDE;
    for (i = 0; i < 2; i++) {
        dit_job *job;
        desc.vae_tile = i ? 64 : 0;
        job = make_job(context, &desc);
        finish(job);
        CHECK(dit_job_read(job, DIT_READ_LATENT_F32, 0, 0, i ? tiled : plain, sizeof plain, 0, NULL) == DIT_OK);
        dit_job_destroy(job);
    }
    for (i = 0; i < 4 * WIDE * SIDE / 64; i++) {
        error += ((double)plain[i] - tiled[i]) * ((double)plain[i] - tiled[i]);
        size += (double)plain[i] * plain[i];
    }
    /* each tile is normalised by itself */
    CHECK_MESSAGE(error > 0 && sqrt(error / size) < 0.2, "tiles change the latent by %.1e", sqrt(error / size));
}

/* ---- an image of the application's, in both ways to run ---- */

static void record(engine *e, dit_job *job) {
    dit_result result = DIT_WORKING;
    while (result == DIT_WORKING) {
        VkCommandBuffer commands = engine_begin_commands(e);
        result = dit_job_record(job, commands, 1000);
        engine_run(e, commands, VK_NULL_HANDLE, 0);
    }
    CHECK(result == DIT_OK);
}

static void test_device_image(void) {
    static uint8_t pixels[AREA * 4];
    static float from_host[LATENT], from_image[LATENT], recorded[LATENT];
    dit_context_desc cd = {0};
    dit_model_desc md = {0};
    dit_context *shared = context;
    dit_model *shared_model = model;
    engine e = {0};
    md.source.path = MODEL;
    if (!engine_make_instance(&e) || !engine_make_device(&e, false)) return;
    context = engine_context(&e, &cd);
    if (CHECK(dit_model_load(context, &md, &model, NULL) == DIT_OK)) {
        dit_job_desc desc = describe(NULL, NULL, 0);
        dit_image image = {0};
        dit_output out;
        dit_job *first, *job;
        desc.target.format = VK_FORMAT_B8G8R8A8_UNORM;
        first = make_job(context, &desc);
        finish(first);
        CHECK(dit_job_read(first, DIT_READ_RGBA8, 0, 0, pixels, sizeof pixels, 0, NULL) == DIT_OK);
        CHECK(dit_job_output(first, 0, 0, &out) == DIT_OK);
        image.width = WIDTH;
        image.height = HEIGHT;
        image.rgba = pixels;
        desc = describe(&image, NULL, 0.4f);
        run(&desc, from_host);
        image.rgba = NULL;
        image.image = out.image;
        image.layout = out.layout;
        image.format = out.format;
        job = make_job(context, &desc);
        finish(job);
        latent(job, 0, from_image);
        CHECK(!memcmp(from_host, from_image, sizeof from_host));
        CHECK(dit_job_restart(job, &desc, NULL) == DIT_OK);
        record(&e, job);
        latent(job, 0, recorded);
        CHECK(!memcmp(from_host, recorded, sizeof from_host));
        dit_job_destroy(job);
        dit_job_destroy(first);
    }
    dit_model_destroy(model);
    dit_context_destroy(context);
    engine_end(&e);
    context = shared;
    model = shared_model;
}

/* ---- guidance that is off in some steps ---- */

static uint64_t dispatches(float first, float last, bool guided, float *out) {
    dit_job_desc desc = describe(NULL, NULL, 0);
    dit_counters begin, end;
    dit_job *job;
    desc.guidance.scale = guided ? 4.5f : 1;
    desc.guidance.first = first;
    desc.guidance.last = last;
    desc.preview_interval = 2;
    job = make_job(context, &desc);
    dit_job_get_counters(job, &begin);
    if (finish(job)) latent(job, 0, out);
    dit_job_get_counters(job, &end);
    CHECK(end.recordings == begin.recordings && end.allocations == begin.allocations &&
          end.pipelines == begin.pipelines);
    dit_job_destroy(job);
    return end.dispatches - begin.dispatches;
}

/* The patches of each branch are one dispatch, so that a step without the unconditional branch has fewer; so do
   modulation and prompts outside of the steps. */
static void test_gate(void) {
    static float all[LATENT], none[LATENT], out[LATENT], late[LATENT];
    uint64_t guided = dispatches(0, 0, true, all), free_ = dispatches(0, 0, false, none), step, half;
    half = dispatches(0, 0.4f, true, out);
    step = (guided - half) / 3;
    CHECK_MESSAGE(step > 0 && guided - half == 3 * step, "%llu, %llu", (unsigned long long)guided,
                  (unsigned long long)half);
    CHECK(dispatches(0.4f, 1, true, late) == guided - 2 * step && dispatches(0.4f, 0.8f, true, late) == half);
    CHECK(memcmp(out, all, sizeof out) && memcmp(out, none, sizeof out) && memcmp(out, late, sizeof out));
    CHECK(free_ < half);
    /* no step is guided: there are the branches' texts, but the unconditional one is not looked at */
    dispatches(0, 0.1f, true, out);
    CHECK(difference(out, none) < 1e-6);
}

/* Fractions as people write them, in few digits, or as an application divides: k of n steps are k steps, of guidance,
   of skip-layer guidance and of a control net. */
static void test_fractions(void) {
    static const uint32_t counts[] = {1, 3, 10, 20, 28, 50, 100, 1000};
    diti_job_request request;
    uint32_t i, k, step, wrong = 0;
    memset(&request, 0, sizeof request);
    request.shape.guided = true;
    request.shape.controls = 1;
    request.guidance.skip_layer = 1;
    for (i = 0; i < DITI_COUNT(counts); i++)
        for (k = 1; k < counts[i]; k++) {
            const float part = (float)((double)k / counts[i]);
            request.shape.steps = counts[i];
            request.net_adapters[0].first = 0;
            request.net_adapters[0].last = request.guidance.last = request.guidance.skip_last = part;
            for (step = 0; step < counts[i]; step++) {
                diti_step_kind kind = step >= k ? DITI_STEP_ALONE : step ? DITI_STEP_SKIPPING : DITI_STEP_USUAL;
                wrong += diti_job_step_kind(&request, step) != kind;
                wrong += (diti_control_working(&request, step) != 0) != (step < k);
            }
            request.net_adapters[0].first = request.guidance.first = request.guidance.skip_first = part;
            request.net_adapters[0].last = request.guidance.last = request.guidance.skip_last = 1;
            for (step = 0; step < counts[i]; step++) {
                diti_step_kind kind = step < k ? DITI_STEP_ALONE : step > k ? DITI_STEP_SKIPPING : DITI_STEP_USUAL;
                wrong += diti_job_step_kind(&request, step) != kind;
                wrong += (diti_control_working(&request, step) != 0) != (step >= k);
            }
            CHECK_MESSAGE(!wrong, "%u of %u steps: %u kinds of steps are wrong", k, counts[i], wrong);
            request.guidance.first = request.guidance.skip_first = 0;
            wrong = 0;
        }
}

static char told[200];

static void listen(int level, const char *message, void *user) {
    (void)user;
    CHECK(level == 1);
    snprintf(told, sizeof told, "%s", message);
}

/* Members of dit_guidance that have nothing to work on are told by name. */
static void test_without_guidance(void) {
    static const char *const names[] = {"rescale", "project", "norm_limit", "length_limit", "dynamic", "first or last"};
    diti_env env = test_env(NULL);
    char wanted[64];
    size_t i, k;
    env.logger.func = listen;
    env.logger.max_level = 1;
    for (i = 0; i < 2 * DITI_COUNT(names); i++) {
        diti_job_request request;
        dit_guidance *guidance = &request.guidance;
        float *const numbers[] = {
            &guidance->rescale, &guidance->project, &guidance->norm_limit, &guidance->length_limit, NULL,
            &guidance->first};
        k = i / 2;
        memset(&request, 0, sizeof request);
        request.shape.steps = 4;
        request.shape.guided = i % 2;
        if (numbers[k])
            *numbers[k] = 0.5f;
        else
            guidance->dynamic = true;
        if (k == 5) guidance->last = 1;
        told[0] = 0;
        diti_job_request_kinds(&env, &request);
        snprintf(wanted, sizeof wanted, "guidance.%s has no effect: guidance is off", names[k]);
        CHECK_MESSAGE(request.shape.guided ? !told[0] : strncmp(told, wanted, strlen(wanted)) == 0, "%s: \"%s\"",
                      names[k], told);
    }
}

/* Parts of the steps in which no step lies are told: of guidance, of skip-layer guidance with diffusers' defaults, of a
   control net. */
static void test_idle(void) {
    static const dit_image picture = {0};
    static const struct {
        uint32_t steps;
        float first, last, skip_layer, net_last;
        const char *says; /* NULL: something is done in some step */
    } cases[] = {{4, 0.3f, 0.4f, 0, 0, "guidance has no effect: none of the 4 steps"},
                 {10, 0.3f, 0.4f, 0, 0, NULL},
                 {5, 0, 0, 2.8f, 0, "guidance.skip_layer has no effect: none of the 5 steps"},
                 {6, 0, 0, 2.8f, 0, NULL},
                 {4, 0, 0, 0, 0.2f, "a control net has no effect: none of the 4 steps"},
                 {5, 0, 0, 0, 0.2f, NULL},
                 {1, 0, 0, 0, 0, NULL}};
    diti_env env = test_env(NULL);
    size_t i;
    env.logger.func = listen;
    env.logger.max_level = 1;
    for (i = 0; i < DITI_COUNT(cases); i++) {
        diti_job_request request;
        memset(&request, 0, sizeof request);
        request.shape.guided = true;
        request.shape.steps = cases[i].steps;
        request.guidance.first = cases[i].first;
        request.guidance.last = cases[i].last;
        request.guidance.skip_layer = cases[i].skip_layer;
        request.guidance.skip_first = 0.01f;
        request.guidance.skip_last = 0.2f;
        request.net_adapters[1].last = cases[i].net_last;
        request.net_images[1] = cases[i].net_last > 0 ? &picture : NULL;
        request.shape.controls = cases[i].net_last > 0 ? 2 : 0;
        told[0] = 0;
        diti_control_request_sets(&request);
        diti_job_request_kinds(&env, &request);
        CHECK_MESSAGE(cases[i].says ? strstr(told, cases[i].says) != NULL : !told[0], "%u: %s", (unsigned)i, told);
    }
}

/* Another scale or interval runs on the same plan, but a step of a kind that was not planned needs a new one. */
static void test_gate_restart(void) {
    static float first[LATENT], again[LATENT];
    dit_job_desc desc = describe(NULL, NULL, 0);
    dit_error err = {0};
    dit_job *job;
    desc.guidance.last = 0.4f;
    desc.guidance.scale = 3;
    job = make_job(context, &desc);
    finish(job);
    desc.guidance.last = 0.8f;
    CHECK_MESSAGE(dit_job_restart(job, &desc, &err) == DIT_OK, "%s", err.message);
    finish(job);
    latent(job, 0, again);
    desc.guidance.last = 0;
    CHECK(dit_job_restart(job, &desc, &err) == DIT_ERROR_INVALID_ARGUMENT && strstr(err.message, "interval"));
    dit_job_destroy(job);
    desc.guidance.last = 0.8f;
    run(&desc, first);
    CHECK(!memcmp(first, again, sizeof first));
}

/* An interval of guidance works for classes, too, each with a modulation of its own, in a batch. */
static void test_gate_of_classes(void) {
    static const int32_t labels[] = {3, 7};
    static float free_[4 * 64], alone[4 * 64];
    dit_model_desc md = {0};
    dit_model *classes = NULL;
    uint32_t i;
    md.source.path = "tests/fixtures/pipe_dit";
    if (!CHECK(dit_model_load(context, &md, &classes, NULL) == DIT_OK)) return;
    for (i = 0; i < 2; i++) {
        dit_job_desc desc = {0};
        dit_job *job;
        desc.model = classes;
        desc.class_labels = labels;
        desc.image_count = 2;
        desc.width = desc.height = 64;
        desc.steps = 2;
        desc.guidance.scale = i ? 4 : 1;
        desc.guidance.last = i ? 0.1f : 0;
        job = make_job(context, &desc);
        finish(job);
        CHECK(dit_job_read(job, DIT_READ_LATENT_F32, 1, 0, i ? alone : free_, sizeof alone, 0, NULL) == DIT_OK);
        dit_job_destroy(job);
    }
    for (i = 0; i < DITI_COUNT(alone); i++)
        CHECK_MESSAGE(fabsf(alone[i] - free_[i]) < 1e-5f, "value %u", (unsigned)i); /* sums in another order */
    dit_model_destroy(classes);
}

/* ---- latents in place of a picture ---- */

/* A mask that keeps all gives the picture's latents back: with these in its place a job makes the same. Each picture of
   a batch has its own, or all have one; no encoder is needed. */
static void test_latents(void) {
    static uint8_t black[AREA * 4];
    static float kept[2 * MOST_LATENT], noise[2 * MOST_LATENT], wanted[2][MOST_LATENT], out[MOST_LATENT];
    diti_vae_traits *traits = (diti_vae_traits *)(uintptr_t)diti_vae_get_traits(model->vae);
    const size_t values = latent_size() / sizeof(float);
    dit_image keep = mask_image;
    dit_tensor inputs[2];
    dit_job_desc desc = describe(&start_image, &keep, 0.6f);
    dit_job *job;
    uint32_t i, k;
    keep.rgba = black;
    memset(inputs, 0, sizeof inputs);
    inputs[0].name = "noise";
    inputs[0].data = noise;
    inputs[1].name = "image_latents";
    inputs[1].data = kept;
    for (i = 0; i < 2; i++) {
        inputs[i].type = DIT_TYPE_F32;
        inputs[i].rank = 4;
        inputs[i].shape[0] = 1;
        inputs[i].shape[1] = channels;
        inputs[i].shape[2] = HEIGHT / 8;
        inputs[i].shape[3] = WIDTH / 8;
        for (k = 0; k < values; k++) noise[i * values + k] = (float)((k * 37u + i * 11u) % 64u) / 16.0f - 2.0f;
        desc.seed = SEED + i;
        run(&desc, kept + i * values); /* the latents of each seed: they are drawn */
    }
    CHECK(memcmp(kept, kept + values, latent_size()) != 0);
    desc.mask = NULL;
    desc.inputs = inputs;
    desc.input_count = 1;
    for (i = 0; i < 2; i++) {
        desc.seed = SEED + i;
        inputs[0].data = noise + i * values;
        run(&desc, wanted[i]);
    }
    traits->has_encoder = false;
    desc.init_image = NULL;
    desc.seed = SEED;
    desc.input_count = 2;
    inputs[0].data = noise;
    run(&desc, out);
    CHECK_MESSAGE(difference(out, wanted[0]) < 1e-6, "latents for a picture: %.2e", difference(out, wanted[0]));
    desc.image_count = 2;
    inputs[0].data = noise;
    inputs[0].shape[0] = inputs[1].shape[0] = 2;
    job = make_job(context, &desc);
    if (finish(job))
        for (k = 0; k < 2; k++)
            if (latent(job, k, out)) CHECK_MESSAGE(difference(out, wanted[k]) < 1e-5, "picture %u", (unsigned)k);
    inputs[1].shape[0] = 1; /* the first ones for both */
    memcpy(noise + values, noise, latent_size());
    CHECK(job && dit_job_restart(job, &desc, NULL) == DIT_OK);
    if (finish(job))
        for (k = 0; k < 2; k++)
            if (latent(job, k, out)) CHECK_MESSAGE(difference(out, wanted[0]) < 1e-5, "one for both, %u", (unsigned)k);
    traits->has_encoder = true;
    desc.init_image = &start_image;
    refused(&desc, "image_latents and init_image");
    CHECK(job && dit_job_restart(job, &desc, NULL) < 0);
    desc.input_count = 1;
    CHECK(job && dit_job_restart(job, &desc, NULL) < 0); /* a picture in place of latents */
    dit_job_destroy(job);
    desc.init_image = NULL;
    desc.input_count = 2;
    inputs[1].shape[2]--;
    refused(&desc, "input image_latents has");
    inputs[1].shape[2]++;
    kept[5] = NAN;
    refused(&desc, "input image_latents holds a value that is not finite, at position 5");
}

/* ---- what is refused ---- */

static void test_refusals(void) {
    dit_image bad = start_image;
    dit_job_desc desc = describe(NULL, &mask_image, 0);
    refused(&desc, "mask is given without init_image");
    desc = describe(NULL, NULL, 0.5f);
    refused(&desc, "strength is given without init_image");
    desc = describe(&start_image, NULL, 1.5f);
    refused(&desc, "strength is 1.5");
    desc = describe(&start_image, NULL, NAN);
    refused(&desc, "strength is nan");
    bad.height = 32;
    desc = describe(&bad, NULL, 0);
    refused(&desc, "init_image is 64 x 32 pixels, the picture 64 x 48");
    desc = describe(&start_image, &bad, 0);
    refused(&desc, "mask is 64 x 32 pixels");
    bad = start_image;
    bad.rgba = NULL;
    desc = describe(&bad, NULL, 0);
    refused(&desc, "either rgba or image");
    bad.rgba = start_rgba;
    bad.row_pitch = 8;
    refused(&desc, "row_pitch");
    bad.row_pitch = (size_t)0 - 4 * (size_t)bad.width; /* rows from the last one up */
    refused(&desc, "row_pitch");
    bad = mask_image;
    bad.rgba = NULL;
    bad.image = (VkImage)(uintptr_t)&desc;
    desc = describe(&start_image, &bad, 0);
    refused(&desc, "mask.rgba");
    desc = describe(&bad, NULL, 0);
    refused(&desc, "init_image.layout");
    bad.layout = VK_IMAGE_LAYOUT_PREINITIALIZED;
    refused(&desc, "init_image.layout");
    bad.layout = 77; /* no layout has this number */
    refused(&desc, "init_image.layout 77");
    bad.layout = VK_IMAGE_LAYOUT_PRESENT_SRC_KHR;
    bad.format = VK_FORMAT_R32_SFLOAT;
    refused(&desc, "init_image.format");
    desc = describe(&start_image, NULL, 0);
    desc.guidance.skip_layer = 2.8f;
    refused(&desc, "no skip-layer guidance");
    desc.guidance.skip_layer = NAN;
    refused(&desc, "skip_layer is nan");
}

/* An autoencoder that only decodes. */
static void test_no_encoder(void) {
    dit_job_desc desc = describe(&start_image, NULL, 0);
    dit_model *whole = model;
    diti_vae_traits *traits = (diti_vae_traits *)(uintptr_t)diti_vae_get_traits(model->vae);
    traits->has_encoder = false;
    refused(&desc, "has no encoder");
    traits->has_encoder = true;
    model = whole;
}

int main(int argc, char **argv) {
    diti_env env = test_env(NULL);
    dit_source source = {0};
    dit_context_desc cd = {0};
    dit_model_desc md = {0};
    test_vulkan_begin();
    source.path = "tests/fixtures/start/latents.safetensors";
    md.source.path = MODEL;
    cd.overrides = "rung=base,gflop_ns=100000000"; /* slices that no busy machine changes */
    if (CHECK(diti_checkpoint_open(&env, &source, &golden, NULL) == DIT_OK) &&
        CHECK(dit_context_create(&cd, &context, NULL) == DIT_OK) &&
        CHECK(dit_model_load(context, &md, &model, NULL) == DIT_OK)) {
        make_pictures();
        test_references();
        test_batch_and_restart();
        test_means();
        test_tiles();
        test_latents();
        test_device_image();
        test_gate();
        test_fractions();
        test_idle();
        test_without_guidance();
        test_without_guidance();
        test_gate_restart();
        test_gate_of_classes();
        test_refusals();
        test_no_encoder();
        if (argc > 1) test_folder(argv[1], "sd3");
        if (argc > 2) test_folder(argv[2], "flux");
    }
    diti_checkpoint_close(golden);
    dit_model_destroy(model);
    dit_context_destroy(context);
    test_vulkan_end();
    return TEST_END("start");
}
