/* MiniMax-H3: an evaluation with every block on what the reference gave it, whole clips from a prompt and from
   pictures, whose text encoder is that of another fixture, and tiles of the autoencoder. */
#ifndef GOLDEN_MINIMAX_H
#define GOLDEN_MINIMAX_H
#include "golden_clips.h"
#include "golden_originals.h"

/* The recorded calls: patches of 2 x 2 of a latent of 6 x 10; case0 has 2 frames of it, the clip 7. */
enum {
    GOLDEN_MINIMAX_ROWS = 6,
    GOLDEN_MINIMAX_COLUMNS = 10,
    GOLDEN_MINIMAX_AREA = GOLDEN_MINIMAX_ROWS * GOLDEN_MINIMAX_COLUMNS,
    GOLDEN_MINIMAX_PLANE = GOLDEN_MINIMAX_AREA / 4,
    GOLDEN_MINIMAX_TEXT = 9,
    GOLDEN_MINIMAX_FRAMES = 2,
    GOLDEN_MINIMAX_PICTURES = 5,
    GOLDEN_MINIMAX_SOUND = 16
};

static const char *const golden_minimax_beside[][2] = {{"text_encoder", "tests/fixtures/pipe_krea2"},
                                                       {"tokenizer", "tests/fixtures/pipe_krea2"}};

static inline bool golden_is_minimax(const golden_folder *folder) {
    return diti_equal(folder->name, "pipe_minimax_h3");
}

static inline uint32_t golden_minimax_frames(const diti_transformer *model, uint32_t pictures) {
    return diti_sound_frames(&model->traits, pictures, 0, GOLDEN_MINIMAX_PLANE);
}

/* Values of sound's tokens in planes [C, frames, h, w]: in the first columns (c, dy, dx) of patches. */
static inline void golden_minimax_place(const diti_transformer *model, const float *sound, uint32_t tokens,
                                        float factor, float *planes, uint32_t frames, uint32_t first) {
    uint32_t columns = model->traits.sound_columns, across = GOLDEN_MINIMAX_COLUMNS / 2, token, c;
    for (token = 0; token < tokens; token++)
        for (c = 0; c < columns; c++) {
            uint32_t at = token % GOLDEN_MINIMAX_PLANE, y = at / across * 2 + c / 2 % 2, x = at % across * 2 + c % 2;
            planes[((size_t)c / 4 * frames + first + token / GOLDEN_MINIMAX_PLANE) * GOLDEN_MINIMAX_AREA +
                   y * GOLDEN_MINIMAX_COLUMNS + x] = factor * sound[(size_t)token * columns + c];
        }
}

/* A recorded latent [C, frames, h, w], and the sound behind its frames. */
static inline float *golden_minimax_planes(golden *g, const golden_folder *folder, const diti_transformer *model,
                                           const char *latents, const char *sound, uint32_t *frames) {
    uint64_t count, values;
    float *a = golden_floats(folder->golden, latents, &count), *b = golden_floats(folder->golden, sound, &values), *out;
    uint32_t channels = model->traits.latent_channels, c, tokens = (uint32_t)(values / model->traits.sound_columns);
    uint32_t own = (uint32_t)(count / channels / GOLDEN_MINIMAX_AREA),
             more = (tokens + GOLDEN_MINIMAX_PLANE - 1) / GOLDEN_MINIMAX_PLANE;
    golden_require(g, a && b, "%s and %s are recorded", latents, sound);
    *frames = own + more;
    out = (float *)calloc((size_t)channels * *frames * GOLDEN_MINIMAX_AREA, sizeof *out);
    for (c = 0; c < channels; c++)
        memcpy(out + (size_t)c * *frames * GOLDEN_MINIMAX_AREA, a + (size_t)c * own * GOLDEN_MINIMAX_AREA,
               (size_t)own * GOLDEN_MINIMAX_AREA * sizeof *out);
    golden_minimax_place(model, b, tokens, 1, out, *frames, own);
    free(a);
    free(b);
    return out;
}

/* Recorded rows [text, sound, pictures, D] in the order in which dit.h has them, what fills the last frame behind. */
static inline float *golden_minimax_rows(golden_case *c, const char *name, uint32_t rows, uint32_t width) {
    uint64_t count;
    float *all = golden_floats(c->m.folder->golden, name, &count),
          *out = (float *)calloc((size_t)rows * width, sizeof *out);
    uint32_t video = GOLDEN_MINIMAX_FRAMES * GOLDEN_MINIMAX_PLANE;
    memcpy(out, all, (size_t)GOLDEN_MINIMAX_TEXT * width * sizeof *out);
    memcpy(out + (size_t)GOLDEN_MINIMAX_TEXT * width,
           all + (size_t)(GOLDEN_MINIMAX_TEXT + GOLDEN_MINIMAX_SOUND) * width, (size_t)video * width * sizeof *out);
    memcpy(out + (size_t)(GOLDEN_MINIMAX_TEXT + video) * width, all + (size_t)GOLDEN_MINIMAX_TEXT * width,
           (size_t)GOLDEN_MINIMAX_SOUND * width * sizeof *out);
    free(all);
    return out;
}

static inline void golden_minimax_expect(golden_case *c, const char *name, diti_tensor x, uint32_t width) {
    uint32_t rows = GOLDEN_MINIMAX_TEXT + GOLDEN_MINIMAX_FRAMES * GOLDEN_MINIMAX_PLANE + GOLDEN_MINIMAX_SOUND;
    golden_expect(&c->m, name, diti_tensor_view(&c->m.graph, x, 0, rows, 0, width),
                  golden_minimax_rows(c, name, rows, width), GOLDEN_BLOCK);
}

static inline void golden_minimax_parts(golden_case *c, const diti_transformer *model, uint32_t rows) {
    diti_graph *graph = &c->m.graph;
    uint32_t width = model->traits.width, i;
    char before[96] = "case0.mid.embed", name[96];
    diti_transformer_begin(model, graph, &c->step);
    golden_minimax_expect(c, before, diti_transformer_embed(model, graph, &c->step), width);
    for (i = 0; i < model->traits.layers && !diti_graph_failed(graph); i++) {
        diti_tensor x =
            golden_copy(&c->m, golden_give(&c->m, DITI_F32, rows, width, golden_minimax_rows(c, before, rows, width)));
        diti_format(name, sizeof name, "case0.mid.transformer_blocks.%u", (unsigned)i);
        golden_minimax_expect(c, name, diti_transformer_block(model, graph, &c->step, i, x), width);
        diti_format(before, sizeof before, "%s", name);
    }
}

/* Predictions as samplers get them: the other direction, of sound as far as its own schedule goes. */
static inline float *golden_minimax_out(golden_case *c, const diti_transformer *model, uint32_t frames, float factor) {
    uint64_t count;
    float *video = golden_floats(c->m.folder->golden, "case0.out.video", &count),
          *sound = golden_floats(c->m.folder->golden, "case0.out.sound", &count);
    uint32_t channels = model->traits.latent_channels, columns = 4 * channels, token, k;
    float *out = (float *)calloc((size_t)channels * frames * GOLDEN_MINIMAX_AREA, sizeof *out);
    for (token = 0; token < GOLDEN_MINIMAX_FRAMES * GOLDEN_MINIMAX_PLANE; token++)
        for (k = 0; k < columns; k++) {
            uint32_t at = token % GOLDEN_MINIMAX_PLANE, across = GOLDEN_MINIMAX_COLUMNS / 2,
                     y = at / across * 2 + k / 2 % 2, x = at % across * 2 + k % 2;
            out[((size_t)k / 4 * frames + token / GOLDEN_MINIMAX_PLANE) * GOLDEN_MINIMAX_AREA +
                y * GOLDEN_MINIMAX_COLUMNS + x] = -video[(size_t)token * columns + k];
        }
    golden_minimax_place(model, sound, GOLDEN_MINIMAX_SOUND, -factor, out, frames, GOLDEN_MINIMAX_FRAMES);
    free(video);
    free(sound);
    return out;
}

static inline bool golden_run_minimax_case(golden *g, const golden_folder *folder, const diti_transformer *model,
                                           uint32_t index) {
    uint32_t channels = model->traits.latent_channels, frames, rows;
    golden_case c = DITI_ZERO;
    diti_step_desc *d = &c.step;
    uint64_t count;
    float *times, *latent;
    double sigma;
    if (index) return false;
    golden_graph_begin(&c.m, g, folder);
    times = golden_floats(folder->golden, "case0.times", &count);
    sigma = 1 - (double)times[0];
    c.timestep = (float)(1000 * sigma);
    latent = golden_minimax_planes(g, folder, model, "case0.in.latents", "case0.in.sound", &frames);
    d->batch = d->steps = d->branches = d->text_batch = 1;
    d->frames = frames;
    d->clip_frames = GOLDEN_MINIMAX_PICTURES;
    d->height = GOLDEN_MINIMAX_ROWS;
    d->width = GOLDEN_MINIMAX_COLUMNS;
    d->text_tokens = GOLDEN_MINIMAX_TEXT;
    d->text = golden_give(&c.m, DITI_F32, GOLDEN_MINIMAX_TEXT, model->traits.text_columns,
                          golden_floats(folder->golden, "case0.in.text", &count));
    d->latent = golden_give(&c.m, DITI_F32, channels, frames * GOLDEN_MINIMAX_AREA, latent);
    d->row = golden_give_u32(&c.m, 0);
    rows = GOLDEN_MINIMAX_TEXT + frames * GOLDEN_MINIMAX_PLANE;
    diti_transformer_prepare(model, &c.m.graph, d);
    diti_graph_segment(&c.m.graph, "step", true);
    if (!diti_graph_failed(&c.m.graph)) golden_minimax_parts(&c, model, rows);
    golden_expect(&c.m, "case0.out", diti_transformer_step(model, &c.m.graph, d),
                  golden_minimax_out(&c, model, frames, (float)((1 - (double)times[1]) / sigma)), GOLDEN_MODEL);
    golden_case_run(&c, model);
    free(times);
    return true;
}

/* --- the clip --- */

/* Recorded frames, of [frames, 3, h, w] those with the numbers in `list`; pixels [all frames, h, w, 3]. */
static inline void golden_minimax_pictures(golden *g, const golden_folder *folder, const char *name, const char *list,
                                           const float *pixels, size_t area, bool clamped, double tolerance) {
    uint64_t values, numbered;
    float *reference = golden_floats(folder->golden, name, &values),
          *at = golden_floats(folder->golden, list, &numbered), *own;
    uint32_t count = at ? (uint32_t)numbered : 0, i, c;
    size_t k;
    if (!golden_require(g, reference && count && values == count * 3 * area, "%s and %s are recorded", name, list)) {
        free(reference);
        free(at);
        return;
    }
    own = (float *)malloc((size_t)values * sizeof *own);
    for (i = 0; i < count; i++)
        for (c = 0; c < 3; c++)
            for (k = 0; k < area; k++) {
                float v = pixels[((size_t)at[i] * area + k) * 3 + c];
                own[(i * 3 + c) * area + k] = clamped ? v < 0 ? 0 : v > 1 ? 1 : v : v;
            }
    golden_compare(g, name, own, reference, values, tolerance);
    free(own);
    free(at);
    free(reference);
}

/* The latent of a prompt on a new plan, or on that of a longer prompt, whose place then has rows that nothing reads. */
static inline float *golden_minimax_latent(golden_pipe *p, const dit_job_desc *desc, dit_job **job, size_t count) {
    float *latents = (float *)calloc(count, sizeof *latents);
    dit_error err = DITI_ZERO;
    if (golden_clips_run(p, desc, job))
        golden_require(
            p->g, dit_job_read(*job, DIT_READ_LATENT_F32, 0, 0, latents, count * sizeof *latents, 0, &err) == DIT_OK,
            "latents: %s", err.message);
    return latents;
}

static inline void golden_minimax_prompts(golden_pipe *p, dit_job_desc desc, dit_job **job, size_t count) {
    dit_job *fresh = NULL;
    float *again, *alone;
    desc.prompt = "a fox";
    again = golden_minimax_latent(p, &desc, job, count);
    alone = golden_minimax_latent(p, &desc, &fresh, count);
    golden_compare(p->g, "a shorter prompt", again, alone, count, golden_clips_tolerance(p));
    dit_job_destroy(fresh);
    free(again);
    free(alone);
}

static inline void golden_minimax_clip(golden_pipe *p, const diti_json *call) {
    const diti_transformer *model = p->model->transformer;
    uint32_t frames, channels = model->traits.latent_channels, i;
    float *from = golden_minimax_planes(p->g, p->folder, model, "t2v.in.latents", "t2v.in.sound", &frames),
          *reference = golden_minimax_planes(p->g, p->folder, model, "t2v.step2.latents", "t2v.step2.sound", &frames),
          *pixels;
    size_t count = (size_t)channels * frames * GOLDEN_MINIMAX_AREA;
    float *latents = (float *)calloc(count, sizeof *latents);
    dit_tensor noise = {"noise", DIT_TYPE_F32, 4, {0}, NULL};
    dit_job_desc desc = DITI_ZERO;
    dit_error err = DITI_ZERO;
    dit_job *job = NULL;
    noise.shape[0] = channels;
    noise.shape[1] = frames;
    noise.shape[2] = GOLDEN_MINIMAX_ROWS;
    noise.shape[3] = GOLDEN_MINIMAX_COLUMNS;
    noise.data = from;
    golden_pipe_desc(p, call, &desc, NULL);
    desc.frame_count = (uint32_t)diti_json_number(call, "num_frames", 1);
    desc.float_frames = true;
    desc.inputs = &noise;
    desc.input_count = 1;
    for (i = 0; i < 2; i++) { /* again on the same plan */
        if (!golden_clips_run(p, &desc, &job)) break;
        golden_require(
            p->g, dit_job_read(job, DIT_READ_LATENT_F32, 0, 0, latents, count * sizeof *latents, 0, &err) == DIT_OK,
            "latents: %s", err.message);
        golden_compare(p->g, "t2v.step2.latents", latents, reference, count, golden_clips_tolerance(p));
        pixels = golden_clips_read(p, job);
        golden_minimax_pictures(p->g, p->folder, "t2v.out.video01", "t2v.frames", pixels,
                                (size_t)desc.width * desc.height, true, golden_clips_tolerance(p));
        free(pixels);
    }
    if (job) golden_minimax_prompts(p, desc, &job, count);
    dit_job_destroy(job);
    free(from);
    free(reference);
    free(latents);
}

/* The latent of a picture that a clip begins with: drawn by seed 42, rounded to 11 bits, with a part of noise. */
static inline void golden_minimax_anchor(golden_pipe *p, const diti_checkpoint *pictures) {
    enum { AREA = GOLDEN_MINIMAX_AREA };
    const diti_vae *vae = p->model->vae;
    const diti_video latent = {1, GOLDEN_MINIMAX_ROWS, GOLDEN_MINIMAX_COLUMNS};
    uint32_t channels = vae->traits.latent_channels, c, i;
    uint64_t count, values;
    float *pixels = golden_floats(pictures, "first", &count), *all = golden_floats(pictures, "fl.condition", &values);
    float *noise[3], part = p->model->transformer->traits.anchor_noise;
    diti_tensor given[2];
    golden_graph m = DITI_ZERO;
    dit_error err = DITI_ZERO;
    diti_random random;
    if (!golden_require(p->g, pixels && all && values == 2 * (uint64_t)channels * AREA && golden_open_device(p->g),
                        "pictures are recorded"))
        return;
    for (i = 0; i < count; i++) pixels[i] = 2 * pixels[i] / 255 - 1;
    for (i = 0; i < 3; i++) noise[i] = (float *)malloc((size_t)channels * AREA * sizeof(float));
    diti_random_seed(&random, 42);
    diti_random_normal(&random, noise[0], (size_t)channels * AREA);
    diti_random_normal(&random, noise[1], (size_t)channels * AREA);
    for (c = 0; c < channels; c++)
        for (i = 0; i < AREA; i++) {
            noise[1][c * AREA + i] *= part;
            noise[2][c * AREA + i] = (1 - part) * all[2 * c * AREA + i] + noise[1][c * AREA + i];
        }
    golden_graph_begin(&m, p->g, p->folder);
    given[0] = golden_give(&m, DITI_F32, AREA, channels, golden_transpose(noise[0], channels, AREA));
    given[1] = golden_give(&m, DITI_F32, channels, AREA, noise[1]);
    golden_expect(
        &m, "fl.condition",
        diti_anchor_latent(vae, &m.graph, golden_give(&m, DITI_F32, 4 * AREA, 3, pixels), &latent, 0, given, part),
        noise[2], 5e-5);
    if (golden_require(p->g, golden_graph_create(&m, &err) == DIT_OK, "the picture is planned %s", err.message))
        golden_graph_run(&m);
    golden_graph_end(&m);
    free(all);
}

/* The clip's sound against that of the reference, [channels, samples]. */
static inline void golden_minimax_sound(golden_pipe *p, dit_job *job, const diti_checkpoint *pictures) {
    dit_status status = DITI_ZERO;
    dit_model_info info = DITI_ZERO;
    dit_error err = DITI_ZERO;
    uint64_t count;
    float *reference = golden_floats(pictures, "fl.out.sound", &count), *own, *turned;
    uint32_t half = (uint32_t)(count / 2), i;
    dit_job_status(job, &status, NULL);
    dit_model_get_info(p->model, &info);
    own = (float *)malloc(2 * (size_t)count * sizeof *own);
    turned = own + count;
    if (golden_require(p->g, half && info.sound_channels == 2 && info.sound_rate == 400 && status.sound_samples == half,
                       "a sound of %u samples in %u channels at %u Hz", status.sound_samples, info.sound_channels,
                       info.sound_rate) &&
        golden_require(p->g, dit_job_read(job, DIT_READ_SOUND_F32, 0, 0, own, count * sizeof *own, 0, &err) == DIT_OK,
                       "the sound: %s", err.message)) {
        for (i = 0; i < count; i++) turned[i % 2 * half + i / 2] = own[i];
        golden_compare(p->g, "sound", turned, reference, count, golden_clips_tolerance(p));
    }
    free(own);
    free(reference);
}

/* Clips that begin and end with pictures, by seed: the latents and what is decoded. */
static inline void golden_minimax_ends(golden_pipe *p, const diti_json *call) {
    static const char *const cases[] = {"fl", "first_only", "last_only"};
    const diti_transformer *model = p->model->transformer;
    golden_folder folder = *p->folder;
    uint32_t channels = model->traits.latent_channels, frames = 7 + golden_minimax_frames(model, 22), i, c;
    size_t count = (size_t)channels * frames * GOLDEN_MINIMAX_AREA, values = 7 * GOLDEN_MINIMAX_AREA;
    float *latents = (float *)calloc(count, sizeof *latents), *own = (float *)calloc(channels * values, sizeof *own);
    dit_image images[2] = {DITI_ZERO, DITI_ZERO}, given[2];
    dit_job_desc desc = DITI_ZERO;
    dit_error err = DITI_ZERO;
    dit_job *job = NULL;
    folder.golden = golden_open_checkpoint(&p->g->env, p->folder->path, "pictures.safetensors");
    golden_require(p->g,
                   folder.golden && golden_picture(&folder, "first", &images[0]) &&
                       golden_picture(&folder, "last", &images[1]),
                   "pictures are recorded");
    if (!p->g->split) golden_minimax_anchor(p, folder.golden);
    for (i = 0; i < DITI_COUNT(cases) && images[1].rgba; i++) {
        char name[64];
        uint64_t recorded;
        float *pixels;
        memcpy(given, images, sizeof given);
        if (i == 2) memset(&given[0], 0, sizeof given[0]);
        golden_pipe_desc(p, call, &desc, NULL);
        desc.frame_count = 22;
        desc.float_frames = true;
        desc.seed = 5;
        desc.init_image = given;
        desc.init_count = i == 1 ? 1 : 2;
        if (!golden_clips_run(p, &desc, &job)) break;
        golden_require(
            p->g, dit_job_read(job, DIT_READ_LATENT_F32, 0, 0, latents, count * sizeof *latents, 0, &err) == DIT_OK,
            "latents: %s", err.message);
        for (c = 0; c < channels; c++)
            memcpy(own + c * values, latents + (size_t)c * frames * GOLDEN_MINIMAX_AREA, values * sizeof *own);
        diti_format(name, sizeof name, "%s.latents", cases[i]);
        pixels = golden_floats(folder.golden, name, &recorded);
        if (golden_require(p->g, pixels && recorded == channels * values, "%s is recorded", name))
            golden_compare(p->g, name, own, pixels, recorded, golden_clips_tolerance(p));
        free(pixels);
        if (i) continue;
        pixels = golden_clips_read(p, job);
        golden_minimax_pictures(p->g, &folder, "fl.out.video01", "fl.frames", pixels, (size_t)desc.width * desc.height,
                                true, golden_clips_tolerance(p));
        free(pixels);
        golden_minimax_sound(p, job, folder.golden);
    }
    dit_job_destroy(job);
    diti_checkpoint_close(folder.golden);
    free((void *)(uintptr_t)images[0].rgba);
    free((void *)(uintptr_t)images[1].rgba);
    free(latents);
    free(own);
}

/* Noise of pictures is drawn first, then that of sound, token by token. */
static inline void golden_minimax_noise(golden_pipe *p) {
    const diti_transformer *model = p->model->transformer;
    uint32_t channels = model->traits.latent_channels, sound = golden_minimax_frames(model, 22), frames = 7 + sound, c,
             columns = model->traits.sound_columns, tokens = diti_sound_tokens(&model->traits, 22, 0);
    size_t count = (size_t)channels * 7 * GOLDEN_MINIMAX_AREA, all = (size_t)channels * frames * GOLDEN_MINIMAX_AREA;
    float *drawn = (float *)malloc((count + (size_t)tokens * columns) * sizeof *drawn),
          *planes = (float *)calloc(all, sizeof *planes);
    dit_job_desc desc = DITI_ZERO;
    dit_error err = DITI_ZERO;
    diti_random random;
    dit_job *job = NULL;
    diti_random_seed(&random, 7);
    diti_random_normal(&random, drawn, count);
    diti_random_normal(&random, drawn + count, (size_t)tokens * columns);
    for (c = 0; c < channels; c++)
        memcpy(planes + (size_t)c * frames * GOLDEN_MINIMAX_AREA, drawn + (size_t)c * 7 * GOLDEN_MINIMAX_AREA,
               7 * GOLDEN_MINIMAX_AREA * sizeof *planes);
    golden_minimax_place(model, drawn + count, tokens, 1, planes, frames, 7);
    desc.model = p->model;
    desc.prompt = "a fox";
    desc.width = 2 * GOLDEN_MINIMAX_COLUMNS;
    desc.height = 2 * GOLDEN_MINIMAX_ROWS;
    desc.frame_count = 22;
    desc.steps = 1;
    desc.seed = 7;
    if (golden_require(p->g, dit_job_create(p->context, &desc, &job, &err) == DIT_OK, "noise: %s", err.message))
        golden_compare(p->g, "noise by tokens", job->request.noise, planes, all, 1e-6);
    dit_job_destroy(job);
    free(drawn);
    free(planes);
}

/* Requests that such clips cannot meet are refused by name. */
static inline void golden_minimax_refused(golden_pipe *p) {
    static const struct {
        uint32_t frames, width;
        float guidance, fps;
        const char *says;
    } cases[] = {{5, 20, 0, 0, "the nearest is 22"},
                 {1, 20, 0, 0, "the nearest is 22"},
                 {23, 20, 0, 0, "the nearest is 22"},
                 {22, 20, 4, 0, "MiniMax-H3 takes no guidance"},
                 {22, 20, 0, 25, "makes 24 frames of each second"},
                 {22, 22, 0, 0, "multiple"}};
    size_t i;
    for (i = 0; i < DITI_COUNT(cases); i++) {
        dit_job_desc desc = DITI_ZERO;
        dit_error err = DITI_ZERO;
        dit_job *job = NULL;
        dit_result result;
        desc.model = p->model;
        desc.prompt = "a fox";
        desc.width = cases[i].width;
        desc.height = 2 * GOLDEN_MINIMAX_ROWS;
        desc.frame_count = cases[i].frames;
        desc.guidance.scale = cases[i].guidance;
        if (cases[i].guidance > 1) desc.negative_prompt = "blurry";
        desc.fps = cases[i].fps;
        desc.steps = 1;
        result = dit_job_create(p->context, &desc, &job, &err);
        golden_require(p->g, result < 0 && strstr(err.message, cases[i].says) != NULL, "\"%s\" in: %s", cases[i].says,
                       err.message);
        dit_job_destroy(job);
    }
}

/* Pictures at the ends of a clip that are refused, by what is said. */
static inline void golden_minimax_no_ends(golden_pipe *p, const char *only) {
    static uint8_t rgba[20 * 12 * 4];
    static float rgb[20 * 12 * 3];
    static const struct {
        uint32_t count, width, images;
        bool floats, missing;
        float strength;
        const char *says;
    } cases[] = {{2, 20, 1, false, true, 0, "init_image, the last frame, frame 0: it needs either rgba or rgb"},
                 {1, 20, 1, false, true, 0, "init_image, frame 0: it needs either rgba or rgb"},
                 {2, 24, 1, false, false, 0, "init_image, frame 0: it has 24 x 12 pixels, the clip 20 x 12"},
                 {1, 20, 1, true, false, 0, "init_image: this model's pictures are bytes"},
                 {3, 20, 1, false, false, 0, "init_count must be 1, or 2"},
                 {22, 20, 1, false, false, 0, "a clip of this model has a sound"},
                 {2, 20, 2, false, false, 0, "with frames that are given are made one by one"},
                 {1, 20, 1, false, false, 0.5f, "strength must be 0"}};
    size_t i;
    uint32_t k;
    for (i = 0; i < (only ? 1 : DITI_COUNT(cases)); i++) {
        const char *says = only ? only : cases[i].says;
        dit_image images[22] = {DITI_ZERO};
        dit_job_desc desc = DITI_ZERO;
        dit_error err = DITI_ZERO;
        dit_job *job = NULL;
        dit_result result;
        for (k = 0; k < DITI_COUNT(images); k++) {
            images[k].width = cases[i].width;
            images[k].height = 12;
            if (!cases[i].missing || only) images[k].rgba = rgba;
            if (cases[i].floats) images[k].rgba = NULL, images[k].rgb = rgb;
        }
        desc.model = p->model;
        desc.prompt = "a fox";
        desc.width = 20;
        desc.height = 12;
        desc.frame_count = 22;
        desc.steps = 1;
        desc.init_image = images;
        desc.init_count = cases[i].count;
        desc.image_count = cases[i].images;
        desc.strength = cases[i].strength;
        result = dit_job_create(p->context, &desc, &job, &err);
        golden_require(p->g, result < 0 && strstr(err.message, says) != NULL, "\"%s\" in: %s", says, err.message);
        dit_job_destroy(job);
    }
}

/* The folder, in which a word of a member's names of tensors is another one of its length. */
typedef struct golden_minimax_changed {
    golden_beside beside;
    const char *member, *word, *other;
    bytes file;
} golden_minimax_changed;

static inline dit_result golden_minimax_open_changed(const char *member, dit_source *out, void *user) {
    golden_minimax_changed *other = (golden_minimax_changed *)user;
    dit_result result = golden_beside_open(member, out, &other->beside);
    char block[4096];
    size_t size, i, length = strlen(other->word);
    FILE *file;
    if (result != DIT_OK || !out->path || !diti_starts_with(member, other->member)) return result;
    if (!diti_ends_with(member, ".safetensors") || (file = fopen(out->path, "rb")) == NULL) return result;
    bytes_free(&other->file);
    while ((size = fread(block, 1, sizeof block, file)) > 0) bytes_add(&other->file, block, size);
    fclose(file);
    for (i = 0; i + length < other->file.size; i++)
        if (!memcmp(other->file.data + i, other->word, length)) memcpy(other->file.data + i, other->other, length);
    *out = memory_source(&other->file);
    return DIT_OK;
}

/* Models that cannot read a picture say which file is to blame, and make clips of texts. */
static inline void golden_minimax_lacking(golden *g, const golden_folder *folder) {
    static const char *const cases[][4] = {
        {"vae/", "\"encoder.", "\"unknown.", "init_image: the model's autoencoder has no encoder"},
        {"text_encoder/", "\"visual.", "\"hidden.",
         "init_image: the text encoder's file has no vision tower (visual.*)"}};
    size_t i;
    for (i = 0; i < DITI_COUNT(cases); i++) {
        golden_minimax_changed other = DITI_ZERO;
        golden_pipe p = DITI_ZERO;
        dit_model_desc desc = DITI_ZERO;
        other.beside.parts = golden_minimax_beside;
        other.beside.count = DITI_COUNT(golden_minimax_beside);
        other.beside.path = folder->path;
        other.member = cases[i][0];
        other.word = cases[i][1];
        other.other = cases[i][2];
        desc.source.open = golden_minimax_open_changed;
        desc.source.user = &other;
        if (golden_pipe_load(&p, g, folder, &desc)) golden_minimax_no_ends(&p, cases[i][3]);
        golden_pipe_close(&p);
        bytes_free(&other.file);
    }
}

static inline void golden_minimax_call(golden *g, const golden_folder *folder, const char *name,
                                       const diti_json *call) {
    golden_beside source = DITI_ZERO;
    golden_pipe p = DITI_ZERO;
    dit_model_desc desc = DITI_ZERO;
    (void)name;
    source.parts = golden_minimax_beside;
    source.count = DITI_COUNT(golden_minimax_beside);
    source.path = folder->path;
    desc.source.open = golden_beside_open;
    desc.source.user = &source;
    if (golden_pipe_load(&p, g, folder, &desc)) {
        golden_minimax_clip(&p, call);
        golden_minimax_ends(&p, call);
        if (!g->split) golden_minimax_noise(&p);
        if (!g->split) golden_minimax_refused(&p);
        if (!g->split) golden_minimax_no_ends(&p, NULL);
    }
    golden_pipe_close(&p);
    if (!g->split) golden_minimax_lacking(g, folder);
}

/* --- tiles of the decoder --- */

/* Recorded frames of out, [frames * area, 3] in -1..1. */
static inline void golden_minimax_watch(golden_graph *m, const golden_folder *folder, diti_tensor out, uint32_t area,
                                        bool still) {
    uint64_t count = 1, values, i, k;
    const char *name = still ? "still.out" : "tiles.out";
    float *all = golden_floats(folder->golden, name, &values),
          *at = still ? (float *)calloc(1, sizeof *at) : golden_floats(folder->golden, "tiles.frames", &count);
    golden_require(m->g, all && at && count * area * 3 == values, "tiles are recorded");
    for (i = 0; all && at && i < count; i++) {
        float *reference = (float *)malloc(3 * (size_t)area * sizeof *reference);
        memcpy(reference, all + i * 3 * area, 3 * (size_t)area * sizeof *reference);
        reference = golden_transpose(reference, 3, area);
        for (k = 0; k < 3 * (uint64_t)area; k++) reference[k] = 2 * reference[k] - 1;
        golden_expect(m, name, diti_tensor_view(&m->graph, out, (uint32_t)at[i] * area, area, 0, 3), reference,
                      GOLDEN_MODEL);
    }
    free(all);
    free(at);
}

/* Rows of q, k and v, [width, columns] each, head by head. */
static inline float *golden_minimax_mix(float *const parts[3], uint32_t width, uint32_t columns, uint32_t head) {
    float *out = (float *)malloc(3 * (size_t)width * columns * sizeof *out);
    uint32_t row, k;
    for (k = 0; k < 3; k++)
        for (row = 0; row < width; row++)
            memcpy(out + ((size_t)(row / head * 3 + k) * head + row % head) * columns, parts[k] + (size_t)row * columns,
                   columns * sizeof *out);
    return out;
}

/* A header's entry for values F32 [shape] at bytes [begin, end) of the data. */
static inline void golden_minimax_list(char *header, size_t size, const char *name, const char *shape, uint64_t begin,
                                       uint64_t end) {
    size_t used = strlen(header);
    snprintf(header + used, size - used, "%s\"%s\":{\"dtype\":\"F32\",\"shape\":[%s],\"data_offsets\":[%llu,%llu]}",
             begin ? "," : "", name, shape, (unsigned long long)begin, (unsigned long long)end);
}

/* The file of a header whose entries are all there, and of the data, which is freed. */
static inline bytes golden_minimax_file(char *header, bytes *data) {
    bytes out = safetensors_bytes(strcat(header, "}"), 0);
    bytes_add(&out, data->data, data->size);
    bytes_free(data);
    return out;
}

/* The decoder as the original code base writes it; freed with bytes_free. */
static inline bytes golden_minimax_original(const diti_checkpoint *from, uint32_t head) {
    static const char *const names[][2] = {{"decoder.proj_in", "decoder.x_embedder"},
                                           {"attn.to_q", "attn.to_qkv"},
                                           {"attn.to_out.0", "attn.to_out"},
                                           {"ff.net.0.proj", "ff.w1"},
                                           {"ff.net.2", "ff.w2"},
                                           {"encoder.down_blocks.", "encoder.down."},
                                           {".resnets.", ".block."},
                                           {"conv_shortcut", "nin_shortcut"},
                                           {"downsamplers.0.", "downsample."}};
    static char header[32768];
    bytes data = {0};
    uint32_t i, k;
    strcpy(header, "{");
    for (i = 0; i < diti_checkpoint_count(from); i++) {
        const diti_stored_tensor *tensor = diti_checkpoint_tensor(from, i);
        uint64_t begin = data.size, count, rows = tensor->shape[0];
        float *values = golden_floats(from, tensor->name, &count), *parts[3] = {values, NULL, NULL}, *mixed;
        char name[256], shape[128] = "";
        diti_format(name, sizeof name, "%s", tensor->name);
        for (k = 0; k < DITI_COUNT(names); k++) golden_replace(name, sizeof name, names[k][0], names[k][1]);
        if (strstr(name, "attn.to_qkv")) {
            for (k = 1; k < 3; k++) {
                char other[256];
                diti_format(other, sizeof other, "%s", tensor->name);
                *(strstr(other, "to_q.") + 3) = "qkv"[k];
                parts[k] = golden_floats(from, other, &count);
            }
            mixed = golden_minimax_mix(parts, (uint32_t)rows, (uint32_t)(count / rows), head);
            bytes_add(&data, mixed, 3 * (size_t)count * sizeof *mixed);
            rows *= 3;
            free(mixed);
        } else if (strstr(name, "ff.w1")) {
            bytes_add(&data, values + count / 2, (size_t)count / 2 * sizeof *values);
            bytes_add(&data, values, (size_t)count / 2 * sizeof *values);
        } else if (!strstr(name, "attn.to_k") && !strstr(name, "attn.to_v")) {
            bytes_add(&data, values, (size_t)count * sizeof *values);
        }
        for (k = 0; k < 3; k++) free(parts[k]);
        if (data.size == begin) continue;
        for (k = 0; k < tensor->rank; k++)
            snprintf(shape + strlen(shape), sizeof shape - strlen(shape), "%s%llu", k ? "," : "",
                     (unsigned long long)(k ? tensor->shape[k] : rows));
        golden_minimax_list(header, sizeof header, name, shape, begin, data.size);
    }
    return golden_minimax_file(header, &data);
}

static inline void golden_minimax_tiles(golden *g, const golden_folder *folder, const diti_json *json,
                                        const diti_checkpoint *weights, bool still) {
    enum { FRAMES = 12, ROWS = 10, COLUMNS = 20, TILE = 8, PICTURES = 39, AREA = ROWS * COLUMNS };
    const diti_video latent = {still ? 1 : FRAMES, ROWS, COLUMNS},
                     pixels = {still ? 1 : PICTURES, 2 * ROWS, 2 * COLUMNS};
    uint32_t columns, rows, i;
    uint64_t count;
    dit_error err = DITI_ZERO;
    diti_vae *vae = NULL;
    diti_vae_clip clip;
    golden_graph m = DITI_ZERO;
    diti_tensor out;
    float *table;
    if (golden_require(g,
                       weights && golden_open_device(g) &&
                           diti_vae_load(golden_shared.device, &g->env, json, weights, "", NULL, &vae, &err) >= 0,
                       "the autoencoder %s", err.message)) {
        golden_graph_begin(&m, g, folder);
        rows = diti_vae_turns(vae, &latent, TILE, &columns, NULL);
        table = (float *)malloc(2 * (size_t)rows * columns * sizeof *table);
        diti_vae_turns(vae, &latent, TILE, &columns, table);
        diti_vae_clip_begin(&clip, vae, &m.graph, false, &pixels, TILE, 0);
        for (i = 0; i < 2; i++) {
            float *half = (float *)malloc((size_t)rows * columns * sizeof *half);
            memcpy(half, table + i * (size_t)rows * columns, (size_t)rows * columns * sizeof *half);
            clip.turns[i] = golden_give(&m, DITI_F32, rows, columns, half);
        }
        out = golden_give(&m, DITI_F32, vae->traits.latent_channels, FRAMES * ROWS * COLUMNS,
                          golden_floats(folder->golden, "tiles.in.latents", &count));
        out = diti_tensor_view(&m.graph, out, 0, vae->traits.latent_channels, 0, latent.frames * AREA);
        out = diti_vae_clip_all(&clip, diti_vae_clip_latents(&clip, out));
        golden_minimax_watch(&m, folder, out, pixels.height * pixels.width, still);
        if (golden_require(g, golden_graph_create(&m, &err) == DIT_OK, "tiles are planned %s", err.message))
            golden_graph_run(&m);
        golden_graph_end(&m);
        free(table);
    }
    diti_vae_destroy(vae);
}

/* Moments [2C, h, w] that the encoder says of a picture, in tiles. */
static inline void golden_minimax_encode(golden *g, const golden_folder *folder, const diti_json *json,
                                         const diti_checkpoint *weights) {
    enum { ROWS = 10, COLUMNS = 16, TILE = 8, AREA = ROWS * COLUMNS, PIXELS = 4 * AREA };
    diti_checkpoint *pictures = golden_open_checkpoint(&g->env, folder->path, "pictures.safetensors");
    uint64_t count = 0, i;
    float *pixels = golden_floats(pictures, "encode.wide", &count);
    dit_error err = DITI_ZERO;
    diti_vae *vae = NULL;
    golden_graph m = DITI_ZERO;
    if (golden_require(g,
                       count == 3 * PIXELS && golden_open_device(g) &&
                           diti_vae_load(golden_shared.device, &g->env, json, weights, "", NULL, &vae, &err) >= 0,
                       "the encoder %s", err.message)) {
        for (i = 0; i < count; i++) pixels[i] = 2 * pixels[i] / 255 - 1;
        golden_graph_begin(&m, g, folder);
        golden_expect(
            &m, "encode.out",
            diti_vae_encode(vae, &m.graph, golden_give(&m, DITI_F32, PIXELS, 3, pixels), 2 * ROWS, 2 * COLUMNS, TILE),
            golden_transpose(golden_floats(pictures, "encode.out", &count), 2 * vae->traits.latent_channels, AREA),
            GOLDEN_MODEL);
        if (golden_require(g, golden_graph_create(&m, &err) == DIT_OK, "the encoder is planned %s", err.message))
            golden_graph_run(&m);
        golden_graph_end(&m);
    }
    diti_vae_destroy(vae);
    diti_checkpoint_close(pictures);
}

/* By diffusers' names, and by the original's. */
static inline void golden_minimax_decoders(golden *g, const golden_folder *folder) {
    diti_json *json = golden_open_json(&g->env, folder->path, "vae/config.json");
    diti_checkpoint *weights = golden_open_checkpoint(&g->env, folder->path, "vae/diffusion_pytorch_model.safetensors"),
                    *open = NULL;
    dit_error err = DITI_ZERO;
    dit_source source;
    bytes file;
    golden_minimax_tiles(g, folder, json, weights, false);
    golden_minimax_tiles(g, folder, json, weights, true);
    if (weights) golden_minimax_encode(g, folder, json, weights);
    if (weights) {
        file = golden_minimax_original(weights, (uint32_t)diti_json_number(json, "decoder_attention_head_dim", 64));
        source = memory_source(&file);
        if (golden_require(g, diti_checkpoint_open(&g->env, &source, &open, &err) == DIT_OK, "original names %s",
                           err.message)) {
            golden_minimax_tiles(g, folder, json, open, false);
            golden_minimax_encode(g, folder, json, open);
        }
        diti_checkpoint_close(open);
        bytes_free(&file);
    }
    diti_checkpoint_close(weights);
    diti_json_free(&g->env, json);
}

/* --- sound --- */

/* The decoder as ComfyUI keeps it: whole weights, which reading makes of diffusers' rows and lengths, and the
   statistics of latents as tensors, without what `lacks` names; freed with bytes_free. */
static inline bytes golden_minimax_plain_sound(const diti_checkpoint *from, const diti_json *json, const char *lacks) {
    static const char *const lists[] = {"latents_mean", "latents_std"};
    static char header[65536];
    bytes data = {0};
    uint32_t i, k;
    strcpy(header, "{");
    for (i = 0; i < diti_checkpoint_count(from) + 2; i++) {
        uint32_t own = diti_checkpoint_count(from);
        const diti_stored_tensor *tensor = i < own ? diti_checkpoint_tensor(from, i) : NULL;
        const diti_json *item = tensor ? NULL : diti_json_get(json, lists[i - own])->first;
        const char *name = tensor ? tensor->name : lists[i - own];
        uint64_t begin = data.size, count = 0;
        float *values = tensor ? golden_floats(from, name, &count) : NULL;
        char shape[64] = "20";
        if (diti_ends_with(name, ".weight_g") || diti_equal(name, lacks)) {
            free(values);
            continue;
        }
        if (tensor) {
            bytes_add(&data, values, (size_t)count * sizeof *values);
            for (k = 0, shape[0] = 0; k < tensor->rank; k++)
                snprintf(shape + strlen(shape), sizeof shape - strlen(shape), "%s%llu", k ? "," : "",
                         (unsigned long long)tensor->shape[k]);
        }
        for (; item; item = item->next) {
            float value = (float)item->number;
            bytes_add(&data, &value, sizeof value);
        }
        free(values);
        golden_minimax_list(header, sizeof header, name, shape, begin, data.size);
    }
    return golden_minimax_file(header, &data);
}

/* Recorded tokens as samples, at once and in parts. */
static inline void golden_minimax_decode_sound(golden *g, const golden_folder *folder, const diti_json *json,
                                               const diti_checkpoint *weights, uint32_t tile) {
    diti_checkpoint *pictures = golden_open_checkpoint(&g->env, folder->path, "pictures.safetensors");
    diti_component_source from = {golden_shared.device, &g->env, json, weights, "", NULL, NULL, NULL};
    uint64_t count = 0, samples = 0;
    float *tokens = golden_floats(pictures, "fl.sound", &count),
          *reference = golden_floats(pictures, "fl.out.sound", &samples);
    diti_vocoder *vocoder = NULL;
    dit_error err = DITI_ZERO;
    golden_graph m = DITI_ZERO;
    diti_tensor out;
    if (golden_require(g, count && samples && diti_vocoder_create(&from, &vocoder, &err) >= 0, "the sound's decoder %s",
                       err.message)) {
        golden_graph_begin(&m, g, folder);
        out = diti_tensor_new(&m.graph, DITI_F32, (uint32_t)samples / 2, 2, "sound");
        diti_sound_decode(NULL, vocoder, &m.graph, golden_give(&m, DITI_F32, (uint32_t)count / 20, 20, tokens), tile,
                          out);
        golden_expect(&m, tile ? "sound in parts" : "sound", out, golden_transpose(reference, 2, (uint32_t)samples / 2),
                      GOLDEN_MODEL);
        if (golden_require(g, golden_graph_create(&m, &err) == DIT_OK, "the sound is planned %s", err.message))
            golden_graph_run(&m);
        golden_graph_end(&m);
    }
    diti_vocoder_destroy(vocoder);
    diti_checkpoint_close(pictures);
}

/* Files that a model of clips with sound is given for it. */
static inline void golden_minimax_other_sound(golden *g, const golden_folder *folder, const char *model,
                                              const bytes *file, const char *path, const char *says) {
    dit_component component = DITI_ZERO;
    dit_context_desc context = DITI_ZERO;
    dit_context *opened = NULL;
    dit_model *loaded = NULL;
    dit_model_desc desc = DITI_ZERO;
    dit_error err = DITI_ZERO;
    (void)folder;
    component.role = DIT_ROLE_SOUND;
    if (file)
        component.source = memory_source(file);
    else
        component.source.path = path;
    desc.source.path = model;
    desc.components = &component;
    desc.component_count = 1;
    context.devices = g->device;
    golden_require(g, dit_context_create(&context, &opened, &err) == DIT_OK, "%s", err.message);
    if (opened)
        golden_require(g, dit_model_load(opened, &desc, &loaded, &err) < 0 && strstr(err.message, says) != NULL,
                       "\"%s\" in: %s", says, err.message);
    dit_model_destroy(loaded);
    dit_context_destroy(opened);
}

static inline void golden_minimax_sounds(golden *g, const golden_folder *folder) {
    static const char file[] = "/audio_vae/diffusion_pytorch_model.safetensors";
    diti_json *json = golden_open_json(&g->env, folder->path, "audio_vae/config.json");
    diti_checkpoint *weights = golden_open_checkpoint(&g->env, folder->path, file + 1), *plain = NULL;
    dit_error err = DITI_ZERO;
    dit_source source;
    char path[200];
    bytes made;
    if (!golden_require(g, json && weights && golden_open_device(g), "the sound's decoder is there")) return;
    golden_minimax_decode_sound(g, folder, json, weights, 0);
    golden_minimax_decode_sound(g, folder, json, weights, 5);
    made = golden_minimax_plain_sound(weights, json, "");
    source = memory_source(&made);
    if (golden_require(g, diti_checkpoint_open(&g->env, &source, &plain, &err) == DIT_OK, "whole weights %s",
                       err.message))
        golden_minimax_decode_sound(g, folder, NULL, plain, 0);
    diti_checkpoint_close(plain);
    bytes_free(&made);
    made = golden_minimax_plain_sound(weights, json, "latents_std");
    golden_minimax_other_sound(g, folder, folder->path, &made, NULL,
                               "a decoder of sound without latents_mean and latents_std");
    bytes_free(&made);
    diti_format(path, sizeof path, "%s%s", folder->path, file);
    golden_minimax_other_sound(g, folder, "tests/fixtures/pipe_ltx2", NULL, path,
                               "this audio_vae makes samples of tokens, and ltx2's makes spectrograms");
    golden_minimax_other_sound(g, folder, folder->path, NULL,
                               "tests/fixtures/pipe_ltx2/audio_vae/diffusion_pytorch_model.safetensors",
                               "this audio_vae makes spectrograms of tokens, and minimax's makes samples");
    diti_checkpoint_close(weights);
    diti_json_free(&g->env, json);
}

/* --- a pruned file: a table of what the timestep says, in place of its layers --- */

enum { GOLDEN_MINIMAX_GRID = 2049 };

static inline void golden_minimax_layer(const diti_checkpoint *weights, const char *name, const double *in,
                                        uint32_t columns, double *out, uint32_t rows) {
    char full[96];
    uint64_t count;
    uint32_t r, c;
    float *matrix, *bias;
    diti_format(full, sizeof full, "time_embedder.%s.weight", name);
    matrix = golden_floats(weights, full, &count);
    diti_format(full, sizeof full, "time_embedder.%s.bias", name);
    bias = golden_floats(weights, full, &count);
    for (r = 0; r < rows; r++) {
        out[r] = bias[r];
        for (c = 0; c < columns; c++) out[r] += in[c] * matrix[(size_t)r * columns + c];
        out[r] /= 1 + exp(-out[r]);
    }
    free(matrix);
    free(bias);
}

static inline void golden_minimax_pruned(golden *g, const golden_folder *folder, const diti_json *json,
                                         const diti_checkpoint *weights) {
    enum { SINUSOIDS = 256, HALF = SINUSOIDS / 2, WIDTH = 16, TIME = 12 };
    static const golden_original same = {
        "", "", golden_minimax_names, DITI_COUNT(golden_minimax_names), ".ff.net.0.proj.", false};
    double sinusoids[SINUSOIDS], hidden[WIDTH], vector[TIME];
    bytes file = golden_original_file(g, weights, &same), whole;
    uint64_t size = file.size - 8 - *(const uint64_t *)(const void *)file.data;
    diti_checkpoint *open = NULL;
    dit_error err = DITI_ZERO;
    dit_source source;
    char entry[160];
    uint32_t i, k;
    diti_format(entry, sizeof entry,
                "\"adaln_t_table\":{\"dtype\":\"F32\",\"shape\":[%u,%u],\"data_offsets\":[%llu,%llu]}",
                (unsigned)GOLDEN_MINIMAX_GRID, (unsigned)TIME, (unsigned long long)size,
                (unsigned long long)(size + 4ull * GOLDEN_MINIMAX_GRID * TIME));
    whole = golden_original_with(&file, entry);
    for (i = 0; i < GOLDEN_MINIMAX_GRID; i++) {
        float row[TIME];
        for (k = 0; k < HALF; k++) {
            double angle = i / (GOLDEN_MINIMAX_GRID - 1.0) * exp(-log(10000.0) * k / HALF);
            sinusoids[k] = cos(angle);
            sinusoids[HALF + k] = sin(angle);
        }
        golden_minimax_layer(weights, "linear_1", sinusoids, SINUSOIDS, hidden, WIDTH);
        golden_minimax_layer(weights, "linear_2", hidden, WIDTH, vector, TIME);
        for (k = 0; k < TIME; k++) row[k] = (float)vector[k];
        bytes_add(&whole, row, sizeof row);
    }
    source = memory_source(&whole);
    if (golden_require(g, diti_checkpoint_open(&g->env, &source, &open, &err) == DIT_OK, "a pruned file %s",
                       err.message))
        golden_run_cases(g, folder, json, open, golden_run_minimax_case);
    diti_checkpoint_close(open);
    bytes_free(&file);
    bytes_free(&whole);
}

static inline void golden_run_minimax(golden *g, const golden_folder *folder) {
    diti_json *json = golden_open_json(&g->env, folder->path, "transformer/config.json");
    diti_checkpoint *weights =
        golden_open_checkpoint(&g->env, folder->path, "transformer/diffusion_pytorch_model.safetensors");
    golden_run_cases(g, folder, json, weights, golden_run_minimax_case);
    if (golden_shared.device) {
        VkDeviceSize band = golden_shared.device->limits.band;
        golden_shared.device->limits.band = 4096; /* kinds of tokens one after the other, in bands */
        golden_run_cases(g, folder, json, weights, golden_run_minimax_case);
        golden_shared.device->limits.band = band;
    }
    golden_run_original(g, folder, json, weights, golden_run_minimax_case);
    if (weights) golden_minimax_pruned(g, folder, json, weights);
    diti_checkpoint_close(weights);
    diti_json_free(&g->env, json);
    golden_minimax_decoders(g, folder);
    if (!g->split) golden_minimax_sounds(g, folder);
    golden_each_call(g, folder, golden_minimax_call);
}
#endif
