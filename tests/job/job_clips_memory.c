/* Memory of clips: it does not grow with the clip but by latents, tiles take less, small buffers are told of, and
   devices hand out what dit_job_memory says. test-runs: lavapipe, in test-all sanitize */
#include "clip_jobs.h"
#include "engine.h"

/* --- what is said --- */

/* Four times the frames: the decoder takes what it took; latents and the transformer's tokens are more. */
static void test_bounds(void) {
    dit_model *model = load(COGVIDEOX, NULL, true);
    dit_job_desc desc = describe(model);
    dit_memory few, many;
    dit_error err = {0};
    uint64_t latents;
    desc.width = desc.height = 128;
    desc.frame_count = 33;
    CHECK_MESSAGE(dit_job_memory(NULL, &desc, &few, &err) == DIT_OK, "%s", err.message);
    desc.frame_count = 129;
    CHECK_MESSAGE(dit_job_memory(NULL, &desc, &many, &err) == DIT_OK, "%s", err.message);
    latents = (uint64_t)24 * 16 * 16 * 16 * sizeof(float); /* of the 24 latent frames more */
    CHECK(many.host >= few.host + (uint64_t)96 * 128 * 128 * 4);
    CHECK(many.activations <= few.activations + 16 * latents);
    dit_model_destroy(model);
}

/* In tiles a clip takes less, though the small autoencoder's channels are hardly more than the colours of the pixels,
   which it has as floats until the last tile is there. The cards of docs/clips.md hold what published ones take. */
static void test_tile_memory(void) {
    dit_model *model = load(COGVIDEOX, NULL, true);
    dit_job_desc desc = describe(model);
    dit_memory whole, tiled;
    dit_error err = {0};
    desc.width = desc.height = 512;
    desc.frame_count = 33;
    CHECK_MESSAGE(dit_job_memory(NULL, &desc, &whole, &err) == DIT_OK, "%s", err.message);
    desc.vae_tile = 128;
    CHECK_MESSAGE(dit_job_memory(NULL, &desc, &tiled, &err) == DIT_OK, "%s", err.message);
    CHECK_MESSAGE(tiled.activations < whole.activations * 9 / 10, "%llu bytes, in tiles %llu",
                  (unsigned long long)whole.activations, (unsigned long long)tiled.activations);
    dit_model_destroy(model);
}

/* A decoder of clips convolves over several frames at once, which a device with small buffers cannot have in one
   binding: the message names the way out, and tiles are it. */
static void test_small_buffers(void) {
    dit_error err = {0};
    dit_model *model = NULL;
    dit_job *job = NULL;
    if (open_context(NULL, "rung=base,storage_range=1M," STEADY)) model = load(COGVIDEOX, NULL, false);
    if (model) {
        dit_job_desc desc = describe(model);
        desc.width = desc.height = 192;
        desc.frame_count = 1;
        CHECK_MESSAGE(dit_job_create(context, &desc, &job, &err) == DIT_ERROR_UNSUPPORTED_DEVICE && !job &&
                          strstr(err.message, "maxStorageBufferRange of 1048576 bytes") &&
                          strstr(err.message, "vae_tile"),
                      "%s", err.message);
        desc.vae_tile = 64;
        desc.frame_count = 9; /* all of its pixels exceed a binding, too, as floats and as bytes */
        CHECK_MESSAGE(dit_job_create(context, &desc, &job, &err) == DIT_OK, "%s", err.message);
        dit_job_destroy(job);
    }
    dit_model_destroy(model);
    dit_context_destroy(context);
}

/* --- what is taken --- */

static void small_cogvideox15(real_file *file) { real_cogvideox(file, 128, 1, 2, 16); }
static void small_wan22_decoder(real_file *file) { real_wan22_decoder(file, 8); }

#define MEASURED_PIPELINE(FOLDER, TRANSFORMER, MOVES)                                                                  \
    { FOLDER, TRANSFORMER, NULL, NULL, NULL, NULL, 0, 0, 0, MOVES, false }
static const clip_model measured_ltx = MEASURED_PIPELINE(FIXTURE "pipe_ltx", NULL, true);
static const clip_model measured_cogvideox = MEASURED_PIPELINE(COGVIDEOX, NULL, false);
static const clip_model measured_wan = {"Wan 2.1", FIXTURE "wan", FIXTURE "vae_wan", NULL, NULL, NULL, 7, 40, 0,
                                        false,     false};
static const clip_model measured_hunyuanvideo = {
    "HunyuanVideo", FIXTURE "hunyuanvideo", FIXTURE "vae_hunyuanvideo", NULL, NULL, NULL, 7, 40, 24, false, false};
static const clip_model measured_others[] = {
    MEASURED_PIPELINE(FIXTURE "pipe_latte", NULL, false),
    MEASURED_PIPELINE(FIXTURE "pipe_osp11", FIXTURE "pipe_osp11/65x512x512", false),
    MEASURED_PIPELINE(OPEN_SORA, OPEN_SORA "/transformer", false),
    MEASURED_PIPELINE(FIXTURE "pipe_opensora12", FIXTURE "pipe_opensora12/transformer", false),
    MEASURED_PIPELINE(FIXTURE "pipe_wan22_i2v_a14b", NULL, true),
    MEASURED_PIPELINE(FIXTURE "pipe_cogvideox_5b", NULL, false),
    {"Wan VACE", VACE "transformer", WAN_PARTS "vae", NULL, NULL, NULL, 7, 32, 0, false, false},
    {"Wan 2.2 TI2V", FIXTURE "wan22_ti2v", NULL, NULL, NULL, small_wan22_decoder, 7, 40, 0, false, false},
    {"CogVideoX I2V", FIXTURE "cogvideox_5b_i2v", COGVIDEOX "/vae", COGVIDEOX "/scheduler", NULL, NULL, 7, 40, 0, true,
     true},
    {"CogVideoX 1.5", NULL, COGVIDEOX "/vae", COGVIDEOX "/scheduler", small_cogvideox15, NULL, 224, 4096, 0, false,
     false},
};

typedef struct measured_clip {
    uint32_t side, frames, tile;
} measured_clip;
typedef struct measured_bytes {
    uint64_t said, most, device; /* what dit_job_memory says; at most at any time, all of it and without what the host
                                    sees */
} measured_bytes;

/* Makes a clip in memory of an allocator's. */
static measured_bytes measure_clip(const clip_model *m, const measured_clip *clip) {
    static float values[224 * 4096];
    engine *e = (engine *)calloc(1, sizeof *e);
    real_file files[2] = {{0}};
    dit_image *image = NULL;
    dit_context_desc cd = {0};
    dit_memory memory = {0};
    dit_model_desc md = {0};
    dit_model *model = NULL;
    dit_model_info info;
    dit_job *job = NULL;
    dit_error err = {0};
    dit_job_desc desc = {0};
    dit_tensor inputs[2];
    measured_bytes out = {0, 0, 0};
    memset(inputs, 0, sizeof inputs);
    e->maps_least = true;
    if (!engine_make_instance(e) || !engine_make_device(e, true)) return free(e), out;
    cd.device_allocator.alloc = engine_alloc;
    cd.device_allocator.free = engine_free;
    cd.device_allocator.user = e;
    cd.overrides = "rung=base," STEADY;
    context = engine_context(e, &cd);
    md.source.path = m->name;
    if (context && m->columns)
        model = load_parts(m, files);
    else if (context && m->transformer)
        model = load(m->name, m->transformer, false);
    else if (context)
        CHECK_MESSAGE(dit_model_load(context, &md, &model, &err) == DIT_OK, "%s: %s", m->name, err.message);
    if (model) {
        desc.model = model;
        desc.prompt = "a fox runs through snow";
        dit_model_get_info(model, &info);
        desc.width = m->fixed ? info.default_width : clip->side;
        desc.height = m->fixed ? info.default_height : clip->side;
        desc.frame_count = m->fixed ? info.default_frames : dit_model_frames(model, clip->frames);
        desc.steps = 2;
        desc.vae_tile = clip->tile;
        if (m->moves) desc.init_image = image = stripes(desc.width, desc.height, 1);
        if (m->columns) {
            inputs[0].name = "prompt_embeds", inputs[0].rank = 3;
            inputs[0].shape[1] = m->tokens, inputs[0].shape[2] = m->columns;
            inputs[1].name = "pooled_prompt_embeds", inputs[1].rank = 2, inputs[1].shape[1] = m->pooled;
            inputs[0].type = inputs[1].type = DIT_TYPE_F32;
            inputs[0].shape[0] = inputs[1].shape[0] = 1;
            inputs[0].data = inputs[1].data = values;
            desc.prompt = NULL;
            desc.inputs = inputs, desc.input_count = m->pooled ? 2 : 1;
            desc.guidance.scale = m->pooled ? 0 : 1;
        }
        CHECK_MESSAGE(dit_job_memory(context, &desc, &memory, &err) == DIT_OK, "%s: %s", m->name, err.message);
        CHECK(run(&job, &desc));
        out.said = memory.peak;
        out.most = e->most;
        out.device = e->kinds_most[0];
        printf("%s, %u frames of %u x %u%s: said %.2f MB, at most %.2f MB, %.2f of them the device's\n", m->name,
               desc.frame_count, desc.width, desc.height, clip->tile ? " in tiles" : "", (double)out.said / 1e6,
               (double)out.most / 1e6, (double)out.device / 1e6);
    }
    dit_job_destroy(job);
    dit_model_destroy(model);
    dit_context_destroy(context);
    engine_end(e);
    free(e);
    real_free(&files[0]);
    real_free(&files[1]);
    if (image) free_stripes(image);
    return out;
}

/* An allocator hands out what dit_job_memory says at most, within a tenth, while the clip is made. The devices
   of these tests count staging and frames of the host as memory, too. */
static void check_peak(const clip_model *m) {
    const measured_clip clip = {128, 17, 0};
    measured_bytes bytes = measure_clip(m, &clip);
    CHECK_MESSAGE((double)bytes.most <= 1.1 * (double)bytes.said && (double)bytes.most >= 0.9 * (double)bytes.said,
                  "%s: said %llu, at most %llu were taken", m->name, (unsigned long long)bytes.said,
                  (unsigned long long)bytes.most);
}

static void test_peaks(bool sweep) {
    size_t i;
    check_peak(&measured_ltx);
    if (!sweep) return;
    check_peak(&measured_cogvideox);
    check_peak(&measured_wan);
    check_peak(&measured_hunyuanvideo);
    for (i = 0; i < DITI_COUNT(measured_others); i++) check_peak(&measured_others[i]);
}

/* Decodes four times the frames, in the memory that a quarter of them takes: what the device has more are latents and
   the transformer's tokens, 16 floats for each value of the latent at most, and in tiles the pixels: as floats and as
   bytes of the whole clip, and as floats of two rows of tiles, with a sixteenth for places between tensors. */
static void check_four_times(const clip_model *m, uint32_t frames, uint32_t channels, uint32_t tile) {
    const uint32_t side = tile ? 80 : 64;
    const measured_clip few = {side, frames, tile}, many = {side, 4 * frames - 3, tile};
    const uint64_t more = many.frames - few.frames, latents = more / 4 * (side / 8) * (side / 8) * channels * 4;
    const uint64_t tiled = tile ? more * (17 * side * side + 25 * tile * (side + tile / 4)) : 0;
    uint64_t before = measure_clip(m, &few).device, after = measure_clip(m, &many).device;
    CHECK_MESSAGE(before && after > before && after - before <= 16 * latents + tiled,
                  "%s: %u frames take %llu bytes, %u frames %llu", m->name, few.frames, (unsigned long long)before,
                  many.frames, (unsigned long long)after);
}

static void test_four_times(bool sweep) {
    check_four_times(&measured_wan, sweep ? 33 : 9, 16, 0);
    if (!sweep) return;
    check_four_times(&measured_cogvideox, 33, 16, 0);
    check_four_times(&measured_hunyuanvideo, 33, 16, 0);
    check_four_times(&measured_wan, 17, 16, 64);
    check_four_times(&measured_cogvideox, 17, 16, 64);
}

int main(void) {
    test_vulkan_begin();
    test_bounds();
    test_tile_memory();
    test_small_buffers();
    test_peaks(test_sweeps());
    test_four_times(test_sweeps());
    test_vulkan_end();
    return TEST_END("job_clips_memory");
}
