/* Autoencoders in tiles: tiles come near to the picture that is decoded at once, show no seam, and save memory. Clips:
   chunks that are recorded once and run again give the bytes of those that are recorded one by one, in as much memory
   however long the clip is.
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
static void pictures_of(dit_context *context, const char *tae, dit_preview maker, uint8_t *picture, uint8_t *preview) {
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
    desc.preview = maker;
    if (!tae && maker == DIT_PREVIEW_TAE) {
        CHECK(dit_job_create(context, &desc, &job, &err) == DIT_ERROR_INVALID_ARGUMENT && !job);
        CHECK_MESSAGE(strstr(err.message, "DIT_ROLE_TAE"), "%s", err.message);
        desc.preview = DIT_PREVIEW_DEFAULT;
    }
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
    static uint8_t picture[5][64 * 64 * 4], preview[5][64 * 64 * 4];
    uint32_t i, seen = 0;
    dit_context_desc desc = DITI_ZERO;
    dit_context *context = NULL;
    dit_model *model = NULL;
    dit_error err = DITI_ZERO;
    CHECK_MESSAGE(dit_context_create(&desc, &context, &err) == DIT_OK, "%s", err.message);
    pictures_of(context, NULL, DIT_PREVIEW_TAE, picture[0], preview[0]); /* the decoder's, for there is no other */
    pictures_of(context, TAESD, DIT_PREVIEW_DEFAULT, picture[1], preview[1]);
    pictures_of(context, TAESD, DIT_PREVIEW_PROJ, picture[2], preview[2]);
    pictures_of(context, TAESD, DIT_PREVIEW_VAE, picture[3], preview[3]);
    pictures_of(context, TAESD, DIT_PREVIEW_TAE, picture[4], preview[4]);
    for (i = 1; i < 5; i++) CHECK(memcmp(picture[0], picture[i], sizeof picture[0]) == 0);
    CHECK(memcmp(preview[0], preview[1], sizeof preview[0]) != 0);
    CHECK(memcmp(preview[0], preview[3], sizeof preview[0]) == 0);
    CHECK(memcmp(preview[1], preview[4], sizeof preview[0]) == 0);
    CHECK(memcmp(preview[2], preview[0], sizeof preview[0]) != 0 &&
          memcmp(preview[2], preview[1], sizeof preview[0]) != 0);
    for (i = 1; i < 64 * 64; i++) seen += memcmp(preview[2], preview[2] + 4 * i, 4) != 0;
    CHECK_MESSAGE(seen > 64 * 32 && preview[2][3] == 255, "%u pixels differ from the first", seen);
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

/* --- clips --- */

#define WAN "tests/fixtures/vae_wan/model.safetensors"
#define KL "tests/fixtures/vae_small_groups8_ldm/model.safetensors"
enum { LATENT = 5, MOST_FRAMES = 45, TILED = 12 };
static float clips[2][MOST_FRAMES * 8 * LATENT * 8 * LATENT * 3], clip_latents[16 * 12 * LATENT * LATENT],
    pixels_in[3 * 64 * TILED * TILED];

typedef struct streamed_clip { /* a clip whose chunks behind the first are one segment */
    diti_graph graph;
    diti_vae_clip clip;
    diti_tensor latents, first, next;
    uint32_t chunks;
} streamed_clip;

static void emit_streamed(streamed_clip *s, const diti_vae *vae, diti_device *device, uint32_t frames, uint32_t side) {
    diti_video pixels = {frames, 8 * side, 8 * side};
    uint32_t area = side * side, channels = vae->traits.latent_channels, latent;
    diti_tensor rows, table, step;
    diti_vae_chunk chunk;
    memset(s, 0, sizeof *s);
    diti_graph_init(&s->graph, device);
    diti_graph_segment(&s->graph, "latents", false);
    CHECK_MESSAGE(diti_vae_clip_begin(&s->clip, vae, &s->graph, false, &pixels, 0, 0), "%s", s->graph.error.message);
    latent = s->clip.latent.frames;
    s->latents = diti_tensor_input(&s->graph, DITI_F32, channels, latent * area, "latents");
    rows = diti_vae_clip_latents(&s->clip, s->latents);
    diti_graph_segment(&s->graph, "first chunk", false);
    CHECK(diti_vae_clip_chunk(&s->clip, 0, &chunk) && chunk.kind == 0);
    s->first = diti_tensor_state(&s->graph, DITI_F32, chunk.out_frames * 64 * area, 3, "first frames");
    diti_copy(&s->graph, diti_vae_clip_run(&s->clip, &chunk, diti_tensor_view(&s->graph, rows, 0, area, 0, channels)),
              s->first, "keep");
    while (diti_vae_clip_chunk(&s->clip, s->chunks, &chunk)) {
        CHECK(s->chunks == 0 || chunk.kind == 1);
        s->chunks++;
    }
    if (s->chunks < 2) return;
    diti_graph_segment(&s->graph, "next chunk", true);
    CHECK(diti_vae_clip_chunk(&s->clip, 1, &chunk));
    step = diti_tensor_state(&s->graph, DITI_U32, 1, 1, "number of the chunk");
    table = diti_tensor_reshape(&s->graph, rows, latent, area * channels);
    table = diti_tensor_view(&s->graph, table, 1, latent - 1, 0, area * channels);
    rows =
        diti_tensor_reshape(&s->graph, diti_select_row(&s->graph, table, step, "latent of the chunk"), area, channels);
    s->next = diti_tensor_state(&s->graph, DITI_F32, chunk.out_frames * 64 * area, 3, "next frames");
    diti_copy(&s->graph, diti_vae_clip_run(&s->clip, &chunk, rows), s->next, "keep");
    diti_advance_step(&s->graph, step);
}

static uint64_t streamed_bytes(const diti_vae *vae, diti_device *device, uint32_t frames, uint32_t side) {
    diti_plan_memory memory = DITI_ZERO;
    dit_error err = DITI_ZERO;
    streamed_clip s;
    emit_streamed(&s, vae, device, frames, side);
    CHECK_MESSAGE(diti_plan_measure(&s.graph, &memory, &err) == DIT_OK, "%s", err.message);
    diti_graph_free(&s.graph);
    return memory.activations;
}

/* Frames are read one chunk after the other; twice, since a job may be run again. */
static void run_streamed(const diti_vae *vae, diti_device *device, uint32_t frames, float *out) {
    diti_plan *plan = NULL;
    dit_error err = DITI_ZERO;
    streamed_clip s;
    size_t frame = 3 * 64 * LATENT * LATENT, run;
    uint32_t i;
    emit_streamed(&s, vae, device, frames, LATENT);
    CHECK_MESSAGE(diti_plan_create(&s.graph, NULL, &plan, &err) == DIT_OK, "%s", err.message);
    diti_graph_free(&s.graph);
    for (run = 0; run < 2 && plan; run++) {
        CHECK(diti_plan_write(plan, s.latents, clip_latents,
                              16 * s.clip.latent.frames * LATENT * LATENT * sizeof(float), &err) == DIT_OK);
        CHECK_MESSAGE(diti_plan_run(plan, 0, 2, &err) == DIT_OK, "%s", err.message);
        CHECK(diti_plan_read(plan, s.first, out, frame * sizeof(float), &err) == DIT_OK);
        for (i = 1; i < s.chunks; i++) {
            CHECK_MESSAGE(diti_plan_run(plan, 2, 1, &err) == DIT_OK, "%s", err.message);
            CHECK(diti_plan_read(plan, s.next, out + (4 * i - 3) * frame, 4 * frame * sizeof(float), &err) == DIT_OK);
        }
    }
    diti_plan_destroy(plan);
}

static void run_whole(const diti_vae *vae, diti_device *device, uint32_t frames, float *out) {
    uint32_t side = vae->traits.factor * LATENT, rows = frames * side * side;
    diti_video pixels = {frames, side, side};
    diti_plan *plan = NULL;
    dit_error err = DITI_ZERO;
    diti_tensor latents, x, kept;
    diti_vae_clip clip;
    diti_graph graph;
    diti_graph_init(&graph, device);
    diti_graph_segment(&graph, "clip", false);
    CHECK(diti_vae_clip_begin(&clip, vae, &graph, false, &pixels, 0, 0));
    latents = diti_tensor_input(&graph, DITI_F32, vae->traits.latent_channels, clip.latent.frames * LATENT * LATENT,
                                "latents");
    x = diti_vae_clip_all(&clip, diti_vae_clip_latents(&clip, latents));
    kept = diti_tensor_state(&graph, DITI_F32, rows, 3, "kept");
    diti_copy(&graph, x, kept, "keep");
    CHECK_MESSAGE(diti_plan_create(&graph, NULL, &plan, &err) == DIT_OK, "%s", err.message);
    diti_graph_free(&graph);
    if (!plan) return;
    CHECK(diti_plan_write(plan, latents, clip_latents,
                          vae->traits.latent_channels * clip.latent.frames * LATENT * LATENT * sizeof(float),
                          &err) == DIT_OK);
    CHECK_MESSAGE(diti_plan_run(plan, 0, 1, &err) == DIT_OK, "%s", err.message);
    CHECK(diti_plan_read(plan, kept, out, (size_t)rows * 3 * sizeof(float), &err) == DIT_OK);
    diti_plan_destroy(plan);
}

static void test_clip_refusals(const diti_vae *vae, diti_device *device) {
    static const diti_video wrong[] = {{4, 16, 16}, {0, 16, 16}, {5, 12, 16}, {5, 16, 0}};
    static const char *const says[] = {"the nearest that it makes has 1", "no clip of 0 frames", "multiples of 8",
                                       "multiples of 8"};
    diti_vae_clip clip;
    diti_graph graph;
    uint32_t i, nearest;
    for (i = 0; i < DITI_COUNT(wrong); i++) {
        diti_graph_init(&graph, device);
        CHECK(!diti_vae_clip_begin(&clip, vae, &graph, i % 2 == 1, &wrong[i], 0, 0));
        CHECK_MESSAGE(strstr(graph.error.message, says[i]), "%s", graph.error.message);
        diti_graph_free(&graph);
    }
    CHECK(diti_vae_latent_frames(vae, 45, false, NULL) == 12);
    CHECK(diti_vae_latent_frames(vae, 48, false, &nearest) == 0 && nearest == 45);
}

static void test_clip(diti_device *device) {
    diti_checkpoint *file = NULL;
    diti_vae *vae = load(device, WAN, &file);
    uint64_t some, more;
    size_t i;
    if (!vae) return;
    for (i = 0; i < DITI_COUNT(clip_latents); i++)
        clip_latents[i] = (float)(sin(0.7 * (double)i) + cos(0.01 * (double)i));
    run_streamed(vae, device, 9, clips[0]);
    run_whole(vae, device, 9, clips[1]);
    CHECK(memcmp(clips[0], clips[1], 9 * 3 * 64 * LATENT * LATENT * sizeof(float)) == 0);
    some = streamed_bytes(vae, device, 9, 16);
    more = streamed_bytes(vae, device, 45, 16);
    printf("clips of 9 and 45 frames: %.2f and %.2f MB\n", (double)some / 1e6, (double)more / 1e6);
    /* only the latents are longer: rows, planes and their scaled copies of 16 values for each of 16 x 16 places */
    CHECK_MESSAGE(more - some <= 4u * 9 * 16 * 16 * 16 * sizeof(float), "%u bytes more", (unsigned)(more - some));
    test_clip_refusals(vae, device);
    diti_vae_destroy(vae);
    diti_checkpoint_close(file);
}

/* A frame in tiles: decoded from latents, or encoded from pixels. */
static void run_tiled(const diti_vae *vae, diti_device *device, bool encode, uint32_t tile, const float *in,
                      float *out) {
    uint32_t side = TILED, pixels = vae->traits.factor * side, channels = vae->traits.latent_channels;
    uint32_t rows = encode ? side * side : pixels * pixels, columns = encode ? 2 * channels : 3;
    diti_video size = {1, pixels, pixels};
    diti_plan *plan = NULL;
    dit_error err = DITI_ZERO;
    diti_tensor x, kept;
    diti_vae_clip clip;
    diti_graph graph;
    diti_graph_init(&graph, device);
    diti_graph_segment(&graph, "clip", false);
    CHECK(diti_vae_clip_begin(&clip, vae, &graph, encode, &size, tile, 0));
    x = encode ? diti_tensor_input(&graph, DITI_F32, pixels * pixels, 3, "pixels")
               : diti_tensor_input(&graph, DITI_F32, channels, side * side, "latents");
    kept = diti_tensor_state(&graph, DITI_F32, rows, columns, "kept");
    diti_copy(&graph, diti_vae_clip_all(&clip, encode ? x : diti_vae_clip_latents(&clip, x)), kept, "keep");
    CHECK_MESSAGE(diti_plan_create(&graph, NULL, &plan, &err) == DIT_OK, "tiles of %u: %s", tile, err.message);
    diti_graph_free(&graph);
    if (!plan) return;
    CHECK(diti_plan_write(plan, x, in, (size_t)(encode ? 3 * pixels * pixels : channels * side * side) * sizeof *in,
                          &err) == DIT_OK);
    CHECK_MESSAGE(diti_plan_run(plan, 0, 1, &err) == DIT_OK, "%s", err.message);
    CHECK(diti_plan_read(plan, kept, out, (size_t)rows * columns * sizeof *out, &err) == DIT_OK);
    diti_plan_destroy(plan);
}

/* Tiles of any side lie where the pixels are: those whose quarter is no whole latent are as the next smaller ones. */
static void test_clip_tiles(diti_device *device) {
    diti_checkpoint *file = NULL;
    diti_vae *vae = load(device, WAN, &file);
    int encode;
    size_t i;
    if (!vae) return;
    for (encode = 0; encode < 2; encode++) {
        size_t values = encode ? 2 * 16 * TILED * TILED : 3 * 64 * TILED * TILED;
        for (i = 0; i < DITI_COUNT(pixels_in); i++)
            pixels_in[i] = (float)sin(0.7 * (double)i + 0.001 * (double)(i * i));
        run_tiled(vae, device, encode, 8, pixels_in, clips[0]);
        run_tiled(vae, device, encode, 9 + 2 * (uint32_t)encode, pixels_in, clips[1]);
        CHECK(memcmp(clips[0], clips[1], values * sizeof(float)) == 0);
    }
    diti_vae_destroy(vae);
    diti_checkpoint_close(file);
}

/* An autoencoder of pictures takes four frames at a time, and each as if it were alone. */
static void test_clip_of_pictures(diti_device *device) {
    diti_checkpoint *file = NULL;
    diti_vae *vae = load(device, KL, &file);
    size_t frame, i;
    if (!vae) return;
    frame = 3 * (size_t)vae->traits.factor * vae->traits.factor * LATENT * LATENT;
    CHECK(vae->traits.factor <= 8 && vae->traits.latent_channels == 4);
    for (i = 0; i < DITI_COUNT(clip_latents); i++) clip_latents[i] = (float)sin(0.7 * (double)i);
    run_whole(vae, device, 5, clips[0]);
    for (i = 0; i < 5; i++) { /* planes of the clip have five frames side by side */
        float planes[4 * LATENT * LATENT];
        uint32_t c, area = LATENT * LATENT;
        for (c = 0; c < 4; c++) memcpy(planes + c * area, clip_latents + (c * 5 + i) * area, area * sizeof(float));
        if (i) memcpy(clip_latents, planes, sizeof planes);
        if (!i) continue;
        run_whole(vae, device, 1, clips[1]);
        CHECK_MESSAGE(memcmp(clips[0] + i * frame, clips[1], frame * sizeof(float)) == 0, "frame %u", (unsigned)i);
        for (c = 0; c < DITI_COUNT(clip_latents); c++) clip_latents[c] = (float)sin(0.7 * (double)c);
    }
    diti_vae_destroy(vae);
    diti_checkpoint_close(file);
}

int main(void) {
    dit_context_desc desc = DITI_ZERO;
    diti_device *device = NULL;
    dit_error err = DITI_ZERO;
    env = test_env(NULL);
    test_vulkan_begin();
    if (getenv("DIT_TEST_ALL") && !strcmp(getenv("DIT_TEST_ALL"), "1"))
        test_job(); /* the bundled model: make test has the tiny decoder in tiles */
    test_preview();
    CHECK_MESSAGE(diti_device_open(&desc, &env, &device, &err) == DIT_OK, "%s", err.message);
    if (device) test_tiny(device);
    if (device) test_clip(device);
    if (device) test_clip_tiles(device);
    if (device) test_clip_of_pictures(device);
    if (device) diti_device_close(device);
    test_vulkan_end();
    return TEST_END("vae");
}
