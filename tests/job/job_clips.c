/* Jobs of clips through the public API, whatever the model: numbers of frames, what is refused and how, frames one at a
   time and all, clips together, from pictures and clips, frames that are held, tiles, two devices, and an engine's
   commands and images. job_clips_families.c has what single families add, and job_clips_memory.c how much memory clips
   take; tests/golden compares values with the original programs. test-runs: lavapipe, in test-all sanitize */
#include "clip_jobs.h"
#include "engine.h"

/* --- numbers of frames --- */

static void test_numbers(const dit_model *model) {
    static const float none = 0;
    const dit_tensor latents = {"image_latents", DIT_TYPE_F32, 1, {1, 0, 0, 0, 0}, &none};
    dit_model_info info;
    dit_job_desc desc = describe(model);
    uint32_t frames;
    dit_model_get_info(model, &info);
    CHECK(info.default_frames == 9 && info.frame_multiple == 4 && info.default_fps == 8);
    CHECK(info.default_latent_frames == 3);
    CHECK(!info.wants_image && !info.takes_image && !info.holds_frames);
    CHECK(dit_model_frames(model, 0) == 9 && dit_model_frames(NULL, 49) == 1);
    CHECK(dit_model_frames(model, 1) == 1 && dit_model_frames(model, 9) == 9 && dit_model_frames(model, 49) == 49);
    for (frames = 1; frames < 40; frames++) {
        uint32_t nearest = dit_model_frames(model, frames),
                 below = frames > nearest ? frames - nearest : nearest - frames;
        CHECK_MESSAGE(dit_model_frames(model, nearest) == nearest && below <= 4, "%u frames: nearest %u", frames,
                      nearest);
    }
    CHECK(dit_model_frames(model, UINT32_MAX) > 60000);
    desc.frame_count = 10;
    check_refused(&desc, "frame_count 10 is not possible with this model; the nearest is 9");
    desc.frame_count = FRAMES;
    desc.width = 40;
    check_refused(&desc, "width");
    desc = describe(model);
    desc.fps = -1;
    check_refused(&desc, "fps is -1");
    desc = describe(model);
    desc.mask_strategy = "0";
    check_refused(&desc, "holds no frames");
    desc = describe(model);
    desc.loop_count = 2;
    check_refused(&desc, "holds no frames");
    desc = describe(model);
    desc.strength = 0.5f;
    check_refused(&desc, "strength is given without init_image");
    desc = describe(model);
    desc.inputs = &latents;
    desc.input_count = 1;
    check_refused(&desc, "makes clips, which begin with frames; leave it out");
    desc = describe(model);
    desc.resume_on_loss = true;
    check_refused(&desc, "resume_on_loss must be false");
    desc.resume_on_loss = false;
    desc.guidance.sound_scale = 7;
    check_refused(&desc, "guidance.sound_scale is about a clip's sound, which this model");
    desc.guidance.sound_scale = 0.5f;
    check_refused(&desc, "guidance.sound_scale is 0.5; it must be 0 (scale), or 1 to 1000");
    desc.guidance.sound_scale = 0;
    desc.resume_on_loss = true;
}

/* --- frames one at a time, all, as floats --- */

static void test_reading(const dit_model *model) {
    static uint8_t all[FRAMES * PIXELS * 4], one[PIXELS * 4], wide[HEIGHT * (WIDTH * 4 + 12)];
    enum { COUNT = FRAMES * PIXELS * 3 };
    static float floats[COUNT];
    dit_job_desc desc = describe(model);
    dit_job *job = NULL;
    dit_error err = {0};
    dit_status status;
    dit_output output;
    dit_result result;
    uint32_t shown = 0, early = FRAMES, i;
    desc.float_frames = true;
    desc.preview_interval = 1;
    if (!CHECK_MESSAGE(dit_job_create(context, &desc, &job, &err) == DIT_OK, "%s", err.message)) return;
    CHECK(dit_job_read(job, DIT_READ_RGBA8, 0, 0, one, sizeof one, 0, &err) == DIT_WORKING);
    while ((result = dit_job_wait(job, 10000000)) == DIT_WORKING) { /* 10 ms */
        dit_job_status(job, &status, NULL);
        CHECK(status.frame_count == FRAMES && status.frame >= shown && status.frame <= FRAMES);
        if (status.frame && early == FRAMES) early = status.frame;
        for (; shown < status.frame; shown++)
            CHECK_MESSAGE(dit_job_read(job, DIT_READ_RGBA8, 0, shown, all + (size_t)shown * PIXELS * 4, PIXELS * 4, 0,
                                       &err) == DIT_OK,
                          "%s", err.message);
        CHECK(shown == FRAMES || dit_job_read(job, DIT_READ_RGBA8, 0, shown, one, sizeof one, 0, &err) == DIT_WORKING);
    }
    CHECK_MESSAGE(result == DIT_OK, "%s", dit_result_string(result));
    CHECK_MESSAGE(early > 0 && early < FRAMES, "all frames came together");
    for (; shown < FRAMES; shown++)
        CHECK(dit_job_read(job, DIT_READ_RGBA8, 0, shown, all + (size_t)shown * PIXELS * 4, PIXELS * 4, 0, &err) == 0);
    {
        static uint8_t again[FRAMES * PIXELS * 4];
        CHECK(read_all(job, 0, again, FRAMES) && !memcmp(again, all, sizeof all));
        CHECK(memcmp(all, all + PIXELS * 4, PIXELS * 4) != 0); /* something moves */
    }
    CHECK(dit_job_read(job, DIT_READ_RGBA8, 0, 3, wide, sizeof wide, WIDTH * 4 + 12, &err) == DIT_OK);
    for (i = 0; i < HEIGHT; i++)
        CHECK(!memcmp(wide + i * (WIDTH * 4 + 12), all + (3 * PIXELS + i * WIDTH) * 4, WIDTH * 4));
    CHECK(dit_job_read(job, DIT_READ_RGB_F32, 0, DIT_ALL_FRAMES, floats, sizeof floats, 0, &err) == DIT_OK);
    for (i = 0; i < COUNT; i++) {
        float value = floats[i] < 0 ? 0 : floats[i] > 1 ? 1 : floats[i];
        if (fabs(value * 255 - all[i / 3 * 4 + i % 3]) > 0.51) break;
    }
    CHECK_MESSAGE(i == COUNT, "float %u is %g, its byte %u", i, (double)floats[i % COUNT],
                  all[i % COUNT / 3 * 4 + i % 3]);
    CHECK(dit_job_read(job, DIT_READ_RGBA8, 0, FRAMES, one, sizeof one, 0, &err) == DIT_ERROR_INVALID_ARGUMENT);
    CHECK(dit_job_read(job, DIT_READ_RGBA8, 0, DIT_ALL_FRAMES, one, sizeof one, 0, &err) == DIT_ERROR_INVALID_ARGUMENT);
    CHECK_MESSAGE(strstr(err.message, "544 rows"), "%s", err.message);
    CHECK(dit_job_read(job, DIT_READ_PREVIEW, 0, 0, one, sizeof one, 0, &err) == DIT_OK);
    CHECK(dit_job_output(job, 0, 0, &output) == DIT_ERROR_INVALID_ARGUMENT);
    CHECK(dit_job_overlap(job) == 0);
    dit_job_destroy(job);
}

/* Frames in host memory that are more than the budget of its heap leaves. */
static void test_host_budget(const dit_model *model) {
    dit_job_desc desc = describe(model);
    dit_job *job = NULL;
    dit_error err = {0};
    desc.image_count = 2;
    desc.float_frames = true; /* 0.6 MB, of bytes 0.2 MB */
    context->device->host_budget = 1;
    CHECK(dit_job_create(context, &desc, &job, &err) == DIT_ERROR_OUT_OF_HOST_MEMORY && !job);
    CHECK_MESSAGE(strstr(err.message, "leave out float_frames") && strstr(err.message, "0.6 MB"), "%s", err.message);
    desc.float_frames = false;
    CHECK_MESSAGE(dit_job_create(context, &desc, &job, &err) == DIT_OK, "%s", err.message);
    context->device->host_budget = 0;
    dit_job_destroy(job);
}

/* Clips together equal those alone, restarts repeat, floats are there where asked for; one frame alone. */
static void test_together(const dit_model *model) {
    static uint8_t both[2][FRAMES * PIXELS * 4], alone[FRAMES * PIXELS * 4];
    dit_job_desc desc = describe(model);
    dit_job *job = NULL, *single = NULL;
    dit_error err = {0};
    float value;
    desc.image_count = 2;
    if (run(&job, &desc) && read_all(job, 0, both[0], FRAMES) && read_all(job, 1, both[1], FRAMES)) {
        desc.image_count = 1;
        desc.seed++;
        CHECK(run(&single, &desc) && read_all(single, 0, alone, FRAMES) && !memcmp(alone, both[1], sizeof alone));
        desc.seed--;
        CHECK(run(&single, &desc) && read_all(single, 0, alone, FRAMES) && !memcmp(alone, both[0], sizeof alone));
        CHECK(dit_job_read(single, DIT_READ_RGB_F32, 0, 0, &value, sizeof value, 0, &err) ==
              DIT_ERROR_INVALID_ARGUMENT);
        CHECK_MESSAGE(strstr(err.message, "float_frames"), "%s", err.message);
        desc.frame_count = 1;
        CHECK(dit_job_restart(single, &desc, &err) == DIT_ERROR_INVALID_ARGUMENT && strstr(err.message, "frame_count"));
    }
    dit_job_destroy(single);
    single = NULL;
    desc.frame_count = 1;
    CHECK(run(&single, &desc) && read_all(single, 0, alone, 1));
    dit_job_destroy(single);
    dit_job_destroy(job);
}

/* --- from clips and pictures --- */

/* A clip to begin with: what comes of it depends on it, on strength, and repeats. */
static void test_from_clip(const dit_model *model) {
    static uint8_t first[FRAMES * PIXELS * 4], second[FRAMES * PIXELS * 4];
    dit_image *init = stripes(WIDTH, HEIGHT, FRAMES);
    dit_job_desc desc = describe(model);
    dit_job *job = NULL;
    desc.steps = 4;
    desc.init_image = init;
    desc.init_count = 1;
    check_refused(&desc, "init_image has 1 frames, the clip 17");
    desc.init_count = FRAMES;
    desc.mask = init;
    check_refused(&desc, "mask must be NULL");
    desc.mask = NULL;
    init[3].width--;
    check_refused(&desc, "frame 3: it has 47 x 32 pixels, the clip 48 x 32");
    init[3].width++;
    desc.image_count = 2;
    check_refused(&desc, "image_count must be 1");
    desc.image_count = 0;
    desc.strength = 0.5f;
    if (run(&job, &desc) && read_all(job, 0, first, FRAMES) && run(&job, &desc) && read_all(job, 0, second, FRAMES)) {
        CHECK_MESSAGE(!memcmp(first, second, sizeof first), "the same clip gives the same clip");
        *(uint8_t *)(uintptr_t)&init[9].rgba[40] ^= 128;
        CHECK(run(&job, &desc) && read_all(job, 0, second, FRAMES) && memcmp(first, second, sizeof first));
    }
    dit_job_destroy(job);
    free_stripes(init);
}

/* A model that moves a picture. It comes without text encoder here, and is told embeddings. */
static void test_from_picture(void) {
    enum { WIDE = 96, HIGH = 64, TOKENS = 7, COLUMNS = 40 };
    static float embeds[2][TOKENS * COLUMNS];
    static uint8_t first[9 * WIDE * HIGH * 4], second[9 * WIDE * HIGH * 4];
    dit_component components[3];
    dit_model_desc md = {0};
    dit_model *model = NULL;
    dit_model_info info;
    dit_image *image = stripes(WIDE, HIGH, 2);
    dit_tensor inputs[2];
    dit_job_desc desc = {0};
    dit_job *job = NULL;
    dit_error err = {0};
    uint32_t i;
    memset(components, 0, sizeof components);
    memset(inputs, 0, sizeof inputs);
    components[0].source.path = "tests/fixtures/cogvideox_5b_i2v";
    components[0].role = DIT_ROLE_TRANSFORMER;
    components[1].source.path = COGVIDEOX "/vae";
    components[1].role = DIT_ROLE_VAE;
    components[2].source.path = COGVIDEOX "/scheduler";
    components[2].role = DIT_ROLE_SCHEDULER;
    md.components = components;
    md.component_count = 3;
    for (i = 0; i < 2; i++) {
        uint32_t k;
        for (k = 0; k < TOKENS * COLUMNS; k++) embeds[i][k] = (float)((k * 7 + i * 3) % 11) / 11 - 0.5f;
        inputs[i].name = i ? "negative_prompt_embeds" : "prompt_embeds";
        inputs[i].type = DIT_TYPE_F32;
        inputs[i].rank = 3;
        inputs[i].shape[0] = 1, inputs[i].shape[1] = TOKENS, inputs[i].shape[2] = COLUMNS;
        inputs[i].data = embeds[i];
    }
    if (!CHECK_MESSAGE(dit_model_load(context, &md, &model, &err) == DIT_OK, "%s", err.message)) return;
    dit_model_get_info(model, &info);
    CHECK(info.wants_image && info.default_width == WIDE && info.default_height == HIGH && info.default_frames == 9);
    desc.model = model;
    desc.steps = 2;
    desc.inputs = inputs;
    desc.input_count = 2;
    check_refused(&desc, "moves a picture; give init_image");
    desc.init_image = image;
    desc.init_count = 2;
    check_refused(&desc, "this model moves one picture");
    desc.init_count = 1;
    if (run(&job, &desc) &&
        CHECK(dit_job_read(job, DIT_READ_RGBA8, 0, DIT_ALL_FRAMES, first, sizeof first, 0, &err) == DIT_OK)) {
        desc.init_image = image + 1;
        CHECK(run(&job, &desc) &&
              dit_job_read(job, DIT_READ_RGBA8, 0, DIT_ALL_FRAMES, second, sizeof second, 0, &err) == DIT_OK);
        CHECK_MESSAGE(memcmp(first, second, sizeof first), "another picture gives another clip");
        desc.init_image = image;
        CHECK(run(&job, &desc) &&
              dit_job_read(job, DIT_READ_RGBA8, 0, DIT_ALL_FRAMES, second, sizeof second, 0, &err) == DIT_OK);
        CHECK(!memcmp(first, second, sizeof first));
    }
    dit_job_destroy(job);
    dit_model_destroy(model);
    free_stripes(image);
}

/* --- frames that are held --- */

/* Frames that are held: every rule of mask_strategy and loops. */
static void test_holding(void) {
    static const struct {
        const char *strategy, *word;
    } bad[] = {
        {"0,0,0,0,1,0,0", "group 1"}, {"0;x", "group 2 (\"x\")"},
        {"0,0,0,0,1,2", "edit is 2"}, {"0,0,0,4", "start is 4"},
        {"0,0,0,-5", "start is -5"},  {"0,0,1", "reference_start is 1"},
        {"0,1", "reference is 1"},    {"1", "loop is 1; loop_count is 1"},
        {"0,0,0,0,0", "length is 0"}, {"0,0,0,0,1,0.5.5", "group 1"},
        {"0,,0", "group 1"},          {"0,0,0.5", "group 1"},
    };
    static uint8_t first[4 * PIXELS * 4], second[4 * PIXELS * 4];
    dit_model *model = load(OPEN_SORA, NULL, false);
    dit_image *image = stripes(WIDTH, HEIGHT, 1);
    dit_reference reference = {0};
    dit_job_desc desc = describe(model);
    dit_job *job = NULL;
    dit_error err = {0};
    size_t i;
    reference.frames = image;
    desc.frame_count = 4;
    desc.references = &reference;
    desc.reference_count = 1;
    check_refused(&desc, "references are given without mask_strategy");
    desc.mask_strategy = "";
    check_refused(&desc, "references are given without mask_strategy");
    for (i = 0; i < DITI_COUNT(bad); i++) {
        desc.mask_strategy = bad[i].strategy;
        check_refused(&desc, bad[i].word);
    }
    desc.mask_strategy = "0";
    reference.frame_count = UINT32_MAX;
    check_refused(&desc, "it has 4294967295 frames; at most 65536");
    reference.frame_count = 1;
    desc.loop_edit = NAN;
    check_refused(&desc, "give loop_count");
    desc.loop_edit = 0;
    desc.loop_frames = 2;
    check_refused(&desc, "give loop_count");
    desc.loop_count = 2;
    desc.loop_frames = 4;
    check_refused(&desc, "loop_frames is 4; it must be less than the clip's 4 latent");
    desc.loop_frames = 2;
    desc.loop = 2;
    check_refused(&desc, "loop is 2; it must be below loop_count");
    desc.loop = 1;
    check_refused(&desc, "dit_job_restart takes it when the run of loop 0 has finished");
    desc.loop = 0;
    desc.loop_edit = 1.5f;
    check_refused(&desc, "loop_edit is 1.5");
    desc.loop_edit = 0;
    if (run(&job, &desc) && read_all(job, 0, first, 4)) {
        CHECK(dit_job_overlap(job) == 2);
        desc.loop = 1;
        CHECK(run(&job, &desc) && read_all(job, 0, second, 4) && memcmp(first, second, sizeof first));
        CHECK(dit_job_restart(job, &desc, &err) == DIT_ERROR_INVALID_ARGUMENT && strstr(err.message, "loop is 1"));
        desc.loop = 0;
        CHECK(run(&job, &desc) && read_all(job, 0, second, 4) && !memcmp(first, second, sizeof first));
    }
    dit_job_destroy(job);
    dit_model_destroy(model);
    free_stripes(image);
}

/* --- in tiles --- */

/* A clip in tiles is one chunk, whose frames are ready together; a job makes it again, and devices divide its tiles.
   The last split divides the transformer's tokens, too, whose sums then round in other places. */
static void test_tiles(bool sweep) {
    enum { SIDE = 80, TILED_FRAMES = 9 };
    static const char *const splits[] = {NULL, NULL, "cfg2", "ulysses2"};
    static uint8_t frames[2][TILED_FRAMES * SIDE * SIDE * 4];
    dit_context *before = context;
    dit_error err = {0};
    dit_model *model = NULL;
    dit_job *job = NULL;
    uint32_t i;
    if (open_context(sweep ? "0,0" : NULL, STEADY)) model = load(COGVIDEOX, NULL, false);
    for (i = 0; i < (sweep ? 4 : 2) && model; i++) {
        dit_job_desc desc = describe(model);
        int most = 0;
        size_t k;
        desc.width = desc.height = SIDE;
        desc.frame_count = TILED_FRAMES;
        desc.steps = 1;
        desc.vae_tile = 64;
        desc.split = splits[i];
        if (i > 1) dit_job_destroy(job), job = NULL;
        CHECK(run(&job, &desc));
        CHECK_MESSAGE(dit_job_read(job, DIT_READ_RGBA8, 0, DIT_ALL_FRAMES, frames[i > 0], sizeof frames[0], 0, &err) ==
                          DIT_OK,
                      "%s", err.message);
        for (k = 0; i > 0 && k < sizeof frames[0]; k++)
            if (abs(frames[0][k] - frames[1][k]) > most) most = abs(frames[0][k] - frames[1][k]);
        if (i > 0) CHECK_MESSAGE(most <= (i == 3), "case %u makes another clip, off by %d of 255", i, most);
    }
    CHECK(memcmp(frames[0], frames[0] + sizeof frames[0] / 2, SIDE * 4) != 0);
    dit_job_destroy(job);
    dit_model_destroy(model);
    dit_context_destroy(context);
    context = before;
}

/* --- on two devices --- */

/* The branches of guidance on a device each give the same clip, from a clip, too. */
static void test_divided(void) {
    static uint8_t alone[FRAMES * PIXELS * 4], divided[FRAMES * PIXELS * 4];
    dit_image *init = stripes(WIDTH, HEIGHT, FRAMES);
    dit_context *before = context;
    dit_model *model = NULL;
    uint32_t i;
    if (open_context("0,0", STEADY)) model = load(COGVIDEOX, NULL, false);
    for (i = 0; i < 2 && model; i++) {
        dit_job_desc desc = describe(model);
        dit_job *one = NULL, *two = NULL;
        if (i) desc.init_image = init, desc.init_count = FRAMES;
        desc.steps = 3;
        CHECK(run(&one, &desc) && read_all(one, 0, alone, FRAMES));
        desc.split = "cfg2";
        CHECK(run(&two, &desc) && read_all(two, 0, divided, FRAMES));
        CHECK_MESSAGE(!memcmp(alone, divided, sizeof alone), "case %u: two devices make another clip", i);
        dit_job_destroy(one);
        dit_job_destroy(two);
    }
    dit_model_destroy(model);
    dit_context_destroy(context);
    context = before;
    free_stripes(init);
}

/* --- within an engine --- */

/* Commands of the application make the clip that steps make, in one piece and cut. */
static void test_recording(engine *e, const dit_model *model) {
    static uint8_t stepped[FRAMES * PIXELS * 4], recorded[FRAMES * PIXELS * 4];
    const uint32_t budgets[] = {UINT32_MAX, 1};
    dit_job_desc desc = describe(model);
    dit_job *job = NULL;
    dit_error err = {0};
    uint32_t i;
    if (run(&job, &desc) && read_all(job, 0, stepped, FRAMES)) {
        for (i = 0; i < 2 && CHECK(dit_job_restart(job, &desc, &err) == DIT_OK); i++) {
            dit_result result = DIT_WORKING;
            while (result == DIT_WORKING) {
                VkCommandBuffer commands = engine_begin_commands(e);
                result = dit_job_record(job, commands, budgets[i]);
                engine_run(e, commands, VK_NULL_HANDLE, 0);
            }
            CHECK_MESSAGE(result == DIT_OK, "%s", dit_result_string(result));
            memset(recorded, 0, sizeof recorded);
            CHECK(read_all(job, 0, recorded, FRAMES));
            CHECK_MESSAGE(!memcmp(recorded, stepped, sizeof stepped), "with %u us the recorded clip differs",
                          budgets[i]);
        }
    }
    dit_job_destroy(job);
}

/* Frames become layers of an image of the application's. */
static void test_target_layers(engine *e, const dit_model *model) {
    static uint8_t frames[FRAMES * PIXELS * 4], layer[PIXELS * 4];
    engine_image image = engine_make_layers(e, WIDTH, HEIGHT, VK_FORMAT_R8G8B8A8_UNORM, FRAMES + 1);
    dit_job_desc desc = describe(model);
    dit_job *job = NULL;
    dit_output output;
    uint32_t i;
    desc.target.image = image.image;
    desc.target.format = VK_FORMAT_R8G8B8A8_UNORM;
    desc.target.layer = 1;
    desc.target.final_layout = VK_IMAGE_LAYOUT_GENERAL;
    desc.target.dst_queue_family = e->family;
    if (run(&job, &desc) && read_all(job, 0, frames, FRAMES)) {
        for (i = 0; i < FRAMES && CHECK(dit_job_output(job, 0, i, &output) == DIT_OK); i++) {
            engine_read_part(e, &output, 0, 1 + i, layer);
            CHECK_MESSAGE(!memcmp(layer, frames + (size_t)i * PIXELS * 4, PIXELS * 4), "layer %u", 1 + i);
        }
        CHECK(dit_job_output(job, 0, FRAMES, &output) == DIT_ERROR_INVALID_ARGUMENT);
    }
    dit_job_destroy(job);
    engine_free_image(e, &image);
}

/* Frames become layers of an image of dit's, each there as soon as it can be read; without a format there is none. */
static void test_own_layers(engine *e, const dit_model *model) {
    static uint8_t frames[2 * FRAMES * PIXELS * 4], layer[PIXELS * 4], first[PIXELS * 4];
    dit_job_desc desc = describe(model), plain = desc;
    dit_result result = DIT_WORKING;
    dit_job *job = NULL;
    dit_status status;
    dit_output output;
    dit_error err = {0};
    uint32_t i, clip, early = 0;
    desc.target.format = VK_FORMAT_R8G8B8A8_UNORM;
    desc.target.dst_queue_family = e->family;
    desc.image_count = 2;
    if (!CHECK_MESSAGE(dit_job_create(context, &desc, &job, &err) == DIT_OK, "%s", err.message)) return;
    CHECK(dit_job_output(job, 0, 0, &output) == DIT_WORKING);
    while (result == DIT_WORKING) {
        result = dit_job_wait(job, 1000000);
        dit_job_status(job, &status, NULL);
        if (result != DIT_WORKING || !status.frame || early) continue;
        CHECK(dit_job_output(job, 1, status.frame - 1, &output) == DIT_OK && !output.final);
        early = status.frame;
        engine_read_part(e, &output, 0, early - 1, first);
    }
    CHECK(result == DIT_OK && early > 0);
    for (clip = 0; clip < 2 && read_all(job, clip, frames + (size_t)clip * FRAMES * PIXELS * 4, FRAMES); clip++)
        for (i = 0; i < FRAMES && CHECK(dit_job_output(job, clip, i, &output) == DIT_OK && output.final); i++) {
            const uint8_t *frame = frames + ((size_t)clip * FRAMES + i) * PIXELS * 4;
            if (clip && i + 1 == early) CHECK_MESSAGE(!memcmp(first, frame, PIXELS * 4), "frame %u came too early", i);
            engine_read_part(e, &output, 0, i, layer);
            CHECK_MESSAGE(!memcmp(layer, frame, PIXELS * 4), "layer %u of clip %u", i, clip);
        }
    CHECK(dit_job_restart(job, &plain, &err) != DIT_OK); /* has no image */
    dit_job_destroy(job);
    job = NULL;
    if (run(&job, &plain)) CHECK(dit_job_output(job, 0, 0, &output) == DIT_ERROR_INVALID_ARGUMENT);
    dit_job_destroy(job);
}

static void test_engine(void) {
    engine *e = (engine *)calloc(1, sizeof *e);
    dit_context_desc cd = {0};
    dit_context *before = context;
    dit_model *model;
    if (!engine_make_instance(e) || !engine_make_device(e, true)) return free(e);
    cd.overrides = STEADY;
    context = engine_context(e, &cd);
    model = context ? load(COGVIDEOX, NULL, false) : NULL;
    if (model) {
        test_recording(e, model);
        test_target_layers(e, model);
        test_own_layers(e, model);
    }
    dit_model_destroy(model);
    dit_context_destroy(context);
    context = before;
    engine_end(e);
    free(e);
}

int main(void) {
    const bool sweep = test_sweeps(); /* golden has clips that begin with frames in make test */
    dit_model *model;
    test_vulkan_begin();
    if (open_context(NULL, STEADY)) {
        model = load(COGVIDEOX, NULL, false);
        if (model) {
            test_numbers(model);
            test_reading(model);
            test_host_budget(model);
            test_together(model);
            if (sweep) test_from_clip(model);
        }
        dit_model_destroy(model);
        if (sweep) test_from_picture();
        test_holding();
        test_tiles(sweep);
        if (sweep) test_divided(); /* compiles every kernel anew */
        test_engine();
    }
    dit_context_destroy(context);
    test_vulkan_end();
    return TEST_END("job_clips");
}
