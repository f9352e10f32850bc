/* LTX-2: an evaluation of both branches with the sound behind the clip's frames, every block on what the reference gave
   it, texts of prompts, and whole pipelines: from prompts, and from a first picture. */
#ifndef GOLDEN_LTX2_H
#define GOLDEN_LTX2_H
#include "golden_clips.h"

static inline bool golden_is_ltx2(const golden_folder *folder) {
    return folder->golden && folder->readme && diti_starts_with(folder->readme, "LTX2Pipeline");
}

/* The clip of the recorded calls. */
enum {
    GOLDEN_LTX2_PICTURES = 9,
    GOLDEN_LTX2_FRAMES = 2,
    GOLDEN_LTX2_ROWS = 2,
    GOLDEN_LTX2_COLUMNS = 3,
    GOLDEN_LTX2_PLANE = GOLDEN_LTX2_ROWS * GOLDEN_LTX2_COLUMNS,
    GOLDEN_LTX2_VIDEO = GOLDEN_LTX2_FRAMES * GOLDEN_LTX2_PLANE,
    GOLDEN_LTX2_SOUND = 9,
    GOLDEN_LTX2_ALL = 4 * GOLDEN_LTX2_PLANE,
    GOLDEN_LTX2_TEXT = 32
};

/* Recorded rows [items, tokens, columns] of pictures and of sound, as rows of the residual stream, [items * all,
   width]: all items' pictures, then all items' sound, in the first columns; by item: as rows of each item one behind
   the other.
 */
static inline float *golden_ltx2_rows(const golden_folder *folder, const char *video, const char *audio, uint32_t items,
                                      uint32_t width, uint32_t audio_width, bool by_item) {
    uint64_t count;
    float *a = golden_floats(folder->golden, video, &count), *b = golden_floats(folder->golden, audio, &count),
          *out = (float *)calloc((size_t)items * GOLDEN_LTX2_ALL * width, sizeof *out);
    uint32_t i, row;
    for (i = 0; i < items && a && b; i++) {
        for (row = 0; row < GOLDEN_LTX2_VIDEO; row++)
            memcpy(out + (size_t)(i * (by_item ? GOLDEN_LTX2_ALL : GOLDEN_LTX2_VIDEO) + row) * width,
                   a + (size_t)(i * GOLDEN_LTX2_VIDEO + row) * width, width * sizeof *out);
        for (row = 0; row < GOLDEN_LTX2_SOUND; row++)
            memcpy(out + (size_t)(by_item ? i * GOLDEN_LTX2_ALL + GOLDEN_LTX2_VIDEO + row
                                          : items * GOLDEN_LTX2_VIDEO + i * GOLDEN_LTX2_SOUND + row) *
                             width,
                   b + (size_t)(i * GOLDEN_LTX2_SOUND + row) * audio_width, audio_width * sizeof *out);
    }
    free(a);
    free(b);
    return out;
}

/* Recorded tokens of pictures and sound as planes of each item. */
static inline float *golden_ltx2_planes(const golden_folder *folder, const char *video, const char *audio,
                                        uint32_t items, uint32_t channels) {
    float *rows = golden_ltx2_rows(folder, video, audio, items, channels, channels, true);
    float *out = (float *)malloc((size_t)items * GOLDEN_LTX2_ALL * channels * sizeof *out);
    uint32_t i, c, row;
    for (i = 0; i < items; i++)
        for (row = 0; row < GOLDEN_LTX2_ALL; row++)
            for (c = 0; c < channels; c++)
                out[((size_t)i * channels + c) * GOLDEN_LTX2_ALL + row] =
                    rows[((size_t)i * GOLDEN_LTX2_ALL + row) * channels + c];
    free(rows);
    return out;
}

/* The two texts of either branch side by side: [2 * tokens, columns of both]. */
static inline float *golden_ltx2_texts(const golden_folder *folder, uint32_t video, uint32_t audio) {
    uint64_t count;
    float *a = golden_floats(folder->golden, "connectors.video", &count),
          *b = golden_floats(folder->golden, "connectors.audio", &count),
          *out = (float *)malloc(2 * GOLDEN_LTX2_TEXT * (video + audio) * sizeof *out);
    uint32_t row;
    for (row = 0; row < 2 * GOLDEN_LTX2_TEXT; row++) {
        memcpy(out + row * (video + audio), a + row * video, video * sizeof *out);
        memcpy(out + row * (video + audio) + video, b + row * audio, audio * sizeof *out);
    }
    free(a);
    free(b);
    return out;
}

/* Both streams of x. */
static inline void golden_ltx2_expect(golden_case *c, const diti_ltx2 *model, const char *name, diti_tensor x) {
    static const char *const ends[] = {"", ".audio"};
    diti_pass p = diti_pass_make(&model->base, &c->m.graph, &c->step);
    uint64_t count;
    uint32_t i;
    for (i = 0; i < DITI_LTX2_STREAMS; i++) {
        char full[96];
        diti_format(full, sizeof full, "%s%s", name, ends[i]);
        golden_expect(&c->m, full, diti_ltx2_rows(&p, x, i), golden_floats(c->m.folder->golden, full, &count),
                      GOLDEN_BLOCK);
    }
}

static inline diti_tensor golden_ltx2_recorded(golden_case *c, const diti_ltx2 *model, const char *name,
                                               const char *audio) {
    uint32_t width = model->config.width[0];
    return golden_copy(
        &c->m, golden_give(&c->m, DITI_F32, 2 * GOLDEN_LTX2_ALL, width,
                           golden_ltx2_rows(c->m.folder, name, audio, 2, width, model->config.width[1], false)));
}

static inline void golden_ltx2_parts(golden_case *c, const diti_ltx2 *model) {
    diti_graph *graph = &c->m.graph;
    diti_tensor x;
    uint32_t i;
    diti_transformer_begin(&model->base, graph, &c->step);
    diti_transformer_embed(&model->base, graph, &c->step);
    x = golden_ltx2_recorded(c, model, "call0.mid.proj_in", "call0.mid.audio_proj_in");
    for (i = 0; i < model->config.blocks && !diti_graph_failed(graph); i++) {
        char name[96], audio[96];
        diti_transformer_block(&model->base, graph, &c->step, i, x);
        diti_format(name, sizeof name, "call0.mid.transformer_blocks.%u", (unsigned)i);
        diti_format(audio, sizeof audio, "%s.audio", name);
        golden_ltx2_expect(c, model, name, x);
        x = golden_ltx2_recorded(c, model, name, audio);
    }
}

static inline bool golden_run_ltx2_case(golden *g, const golden_folder *folder, const diti_transformer *transformer,
                                        uint32_t index) {
    const diti_ltx2 *model = diti_ltx2_of(transformer);
    uint32_t channels = model->config.channels, columns = transformer->traits.text_columns;
    golden_case c = DITI_ZERO;
    diti_step_desc *d = &c.step;
    if (index) return false;
    golden_graph_begin(&c.m, g, folder);
    c.timestep = 1000;
    d->batch = d->steps = 1;
    d->branches = d->text_batch = 2;
    d->frames = GOLDEN_LTX2_ALL / GOLDEN_LTX2_PLANE;
    d->clip_frames = GOLDEN_LTX2_PICTURES;
    d->height = GOLDEN_LTX2_ROWS;
    d->width = GOLDEN_LTX2_COLUMNS;
    d->text_tokens = GOLDEN_LTX2_TEXT;
    d->text = golden_give(&c.m, DITI_F32, 2 * GOLDEN_LTX2_TEXT, columns,
                          golden_ltx2_texts(folder, model->config.text[0], model->config.text[1]));
    d->latent = golden_give(&c.m, DITI_F32, channels, GOLDEN_LTX2_ALL,
                            golden_ltx2_planes(folder, "in.latents", "in.audio_latents", 1, channels));
    d->row = golden_give_u32(&c.m, 0);
    diti_transformer_prepare(transformer, &c.m.graph, d);
    diti_graph_segment(&c.m.graph, "step", true);
    golden_ltx2_parts(&c, model);
    golden_expect(&c.m, "model_call0.out", diti_transformer_step(transformer, &c.m.graph, d),
                  golden_ltx2_planes(folder, "model_call0.out", "model_call0.audio", 2, channels), GOLDEN_MODEL);
    golden_case_run(&c, transformer);
    return true;
}

static inline void golden_ltx2_transformer(golden *g, const golden_folder *folder) {
    diti_json *json = golden_open_json(&g->env, folder->path, "transformer/config.json");
    diti_checkpoint *weights =
        golden_open_checkpoint(&g->env, folder->path, "transformer/diffusion_pytorch_model.safetensors");
    golden_run_cases(g, folder, json, weights, golden_run_ltx2_case);
    golden_run_original(g, folder, json, weights, golden_run_ltx2_case);
    diti_checkpoint_close(weights);
    diti_json_free(&g->env, json);
}

/* The blob of a prompt against the connectors' rows, of pictures and of sound side by side. */
static inline void golden_ltx2_text(golden_pipe *p, const char *prompt, uint32_t branch) {
    const diti_ltx2_config *config = &diti_ltx2_of(p->model->transformer)->config;
    uint32_t columns = config->text[0] + config->text[1], count = GOLDEN_LTX2_TEXT * columns;
    float *reference = golden_ltx2_texts(p->folder, config->text[0], config->text[1]), *rows;
    size_t size = 0;
    unsigned char *blob;
    dit_error err = DITI_ZERO;
    dit_encode_prompt(p->context, p->model, prompt, NULL, &size, &err);
    blob = (unsigned char *)malloc(size + 1);
    rows = (float *)malloc(count * sizeof *rows);
    if (golden_require(p->g, dit_encode_prompt(p->context, p->model, prompt, blob, &size, &err) == DIT_OK, "%s",
                       err.message)) {
        memcpy(rows, blob + size - count * sizeof *rows, count * sizeof *rows);
        golden_compare(p->g, prompt, rows, reference + branch * count, count,
                       diti_equal(p->g->rung, "base") ? GOLDEN_MODEL : GOLDEN_FP16);
    }
    free(rows);
    free(blob);
    free(reference);
}

/* Runs a call, from the noise that was recorded, and compares the latent behind the last step. */
static inline bool golden_ltx2_run(golden_pipe *p, dit_job_desc *desc, dit_job **job, const char *noise,
                                   const char *sound, const char *last, const char *last_sound) {
    uint32_t channels = p->model->transformer->traits.latent_channels, count = channels * GOLDEN_LTX2_ALL;
    float *from = golden_ltx2_planes(p->folder, noise, sound, 1, channels),
          *reference = golden_ltx2_planes(p->folder, last, last_sound, 1, channels),
          *latents = (float *)calloc(count, sizeof *latents);
    dit_tensor input = {"noise", DIT_TYPE_F32, 4, {channels, 4, GOLDEN_LTX2_ROWS, GOLDEN_LTX2_COLUMNS}, from};
    dit_error err = DITI_ZERO;
    bool good;
    desc->inputs = &input;
    desc->input_count = 1;
    good = golden_clips_run(p, desc, job);
    if (good &&
        golden_require(
            p->g, dit_job_read(*job, DIT_READ_LATENT_F32, 0, 0, latents, count * sizeof *latents, 0, &err) == DIT_OK,
            "%s: %s", last, err.message))
        golden_compare(p->g, last, latents, reference, count, golden_clips_tolerance(p));
    desc->inputs = NULL;
    desc->input_count = 0;
    free(from);
    free(reference);
    free(latents);
    return good;
}

/* The clip's sound against that of the reference (tests/reference/ltx2_sound.py), [channels, samples]; a buffer that is
   too small, and a job that leaves it out. */
static inline void golden_ltx2_sound(golden_pipe *p, dit_job *job) {
    diti_checkpoint *file = golden_open_checkpoint(&p->g->env, p->folder->path, "sound.safetensors");
    uint64_t count = 0, i, half;
    float *reference = golden_floats(file, "out", &count), *samples = (float *)calloc(count + 1, sizeof *samples),
          *turned = (float *)calloc(count + 1, sizeof *turned);
    dit_model_info info;
    dit_status status;
    dit_error err = DITI_ZERO;
    dit_model_get_info(p->model, &info);
    dit_job_status(job, &status, NULL);
    half = count / 2;
    golden_require(p->g, info.sound_channels == 2 && info.sound_rate >= 24000 && status.sound_samples == half,
                   "a sound of %u samples in %u channels at %u Hz", status.sound_samples, info.sound_channels,
                   info.sound_rate);
    golden_require(p->g,
                   dit_job_read(job, DIT_READ_SOUND_F32, 0, 0, samples, count * sizeof *samples - 1, 0, &err) ==
                           DIT_ERROR_INVALID_ARGUMENT &&
                       strstr(err.message, "the sound needs"),
                   "a sound too long for its buffer: %s", err.message);
    if (golden_require(p->g,
                       dit_job_read(job, DIT_READ_SOUND_F32, 0, 0, samples, count * sizeof *samples, 0, &err) == DIT_OK,
                       "the sound: %s", err.message)) {
        for (i = 0; i < count; i++) turned[i % 2 * half + i / 2] = samples[i];
        golden_compare(p->g, "sound", turned, reference, count, golden_clips_tolerance(p));
    }
    free(reference);
    free(samples);
    free(turned);
    diti_checkpoint_close(file);
}

/* Eight steps without guidance are those of distilled models; with it, or of another number, they are the scheduler's.
 */
static inline void golden_ltx2_distilled(golden_pipe *p, dit_job_desc desc) {
    static const float sigmas[] = {1, 0.99375f, 0.9875f, 0.98125f, 0.975f, 0.909375f, 0.725f, 0.421875f};
    uint32_t guided, i;
    desc.steps = 8;
    for (guided = 0; guided < 2; guided++) {
        dit_job *job = NULL;
        dit_error err = DITI_ZERO;
        bool same = true;
        desc.guidance.scale = guided ? 3.0f : 1.0f;
        if (golden_require(p->g, dit_job_create(p->context, &desc, &job, &err) == DIT_OK, "%s", err.message))
            for (i = 0; i < 8; i++)
                same =
                    same && fabs((double)job->request.schedule.steps[i].timestep - 1000.0 * (double)sigmas[i]) < 1e-3;
        golden_require(p->g, same == !guided, "steps of distilled models with guidance %g",
                       (double)desc.guidance.scale);
        dit_job_destroy(job);
    }
}

/* A picture that is held at both ends: frames are counted without those of the sound. */
static inline void golden_ltx2_held(golden_pipe *p, dit_job_desc desc, const dit_image *picture) {
    uint32_t channels = p->model->transformer->traits.latent_channels, count = channels * GOLDEN_LTX2_ALL, i,
             last = (GOLDEN_LTX2_FRAMES - 1) * GOLDEN_LTX2_PLANE;
    float *latents = (float *)calloc(count, sizeof *latents);
    dit_reference reference = DITI_ZERO;
    dit_error err = DITI_ZERO;
    dit_job *job = NULL;
    bool same = true;
    reference.frames = picture;
    reference.frame_count = 1;
    desc.init_image = NULL;
    desc.references = &reference;
    desc.reference_count = 1;
    desc.mask_strategy = "0,0,0,0,1,0;0,0,0,-1,1,0";
    if (golden_clips_run(p, &desc, &job) &&
        golden_require(
            p->g, dit_job_read(job, DIT_READ_LATENT_F32, 0, 0, latents, count * sizeof *latents, 0, &err) == DIT_OK,
            "held frames: %s", err.message)) {
        for (i = 0; i < channels * GOLDEN_LTX2_PLANE; i++) {
            const float *plane = latents + i / GOLDEN_LTX2_PLANE * GOLDEN_LTX2_ALL + i % GOLDEN_LTX2_PLANE;
            same = same && plane[0] == plane[last];
        }
        golden_require(p->g, same && latents[0] != 0, "the first and the last frame are the picture's");
    }
    dit_job_destroy(job);
    free(latents);
}

/* The guidance of the sound, which is 7 where nobody asks for any, and the rescaling of both
   (tests/reference/ltx2_guidance.py). */
static inline void golden_ltx2_guidance(golden_pipe *p, dit_job_desc desc) {
    static const char *const names[][2] = {{"sound.latents", "sound.audio_latents"},
                                           {"rescaled.latents", "rescaled.audio_latents"},
                                           {"terms.latents", "terms.audio_latents"},
                                           {"all.latents", "all.audio_latents"}};
    golden_folder folder = *p->folder;
    const golden_folder *before = p->folder;
    dit_error err = DITI_ZERO;
    dit_job *job;
    uint32_t i;
    folder.golden = golden_open_checkpoint(&p->g->env, folder.path, "guidance.safetensors");
    p->folder = &folder;
    for (i = 0; i < DITI_COUNT(names) && folder.golden; i++) {
        job = NULL;
        desc.guidance.scale = i ? 3 : 0;
        desc.guidance.sound_scale = i ? 7 : 0;
        desc.guidance.rescale = i % 2 ? 0.7f : 0;
        desc.guidance.perturb = i > 1 ? 1.0f : 0;
        desc.guidance.isolate = i > 1 ? 3.0f : 0;
        golden_ltx2_run(p, &desc, &job, "in.latents", "in.audio_latents", names[i][0], names[i][1]);
        desc.guidance.sound_scale = 6;
        golden_require(p->g,
                       job && dit_job_restart(job, &desc, &err) == DIT_ERROR_INVALID_ARGUMENT &&
                           strstr(err.message, "the sound's beside that of the pictures"),
                       "a restart with another guidance of sound: %s", err.message);
        dit_job_destroy(job);
    }
    job = NULL;
    desc.guidance.dynamic = true;
    golden_require(p->g,
                   dit_job_create(p->context, &desc, &job, &err) == DIT_ERROR_INVALID_ARGUMENT && !job &&
                       strstr(err.message, "rescale goes together with scales alone"),
                   "dynamic guidance, rescaled: %s", err.message);
    desc.guidance.dynamic = false;
    desc.guidance.scale = 1;
    golden_require(p->g,
                   dit_job_create(p->context, &desc, &job, &err) == DIT_ERROR_INVALID_ARGUMENT && !job &&
                       strstr(err.message, "guidance.perturb and guidance.isolate add to guidance, which is off"),
                   "further terms without guidance: %s", err.message);
    desc.guidance.perturb = desc.guidance.isolate = 0;
    golden_require(p->g,
                   dit_job_create(p->context, &desc, &job, &err) == DIT_ERROR_INVALID_ARGUMENT && !job &&
                       strstr(err.message, "guidance.sound_scale is 6, and guidance is off"),
                   "guidance of sound alone: %s", err.message);
    p->folder = before;
    diti_checkpoint_close(folder.golden);
}

static inline void golden_ltx2_pipe(golden *g, const golden_folder *folder) {
    diti_json *call = golden_clips_json(g, folder, "call arguments: ");
    golden_pipe p = DITI_ZERO;
    dit_job_desc desc = DITI_ZERO;
    dit_job *job = NULL;
    dit_image picture = DITI_ZERO;
    if (call && golden_pipe_open(&p, g, folder, folder->path)) {
        golden_clips_desc(&p, call, &desc);
        p.model->texts[DITI_TEXT_FIRST].tokens = p.model->transformer->traits.text_tokens =
            p.model->encoders[0].tokens = p.model->encoders[1].tokens = GOLDEN_LTX2_TEXT; /* as recorded */
        golden_ltx2_text(&p, desc.negative_prompt, 0);
        golden_ltx2_text(&p, desc.prompt, 1);
        if (golden_ltx2_run(&p, &desc, &job, "in.latents", "in.audio_latents", "step2.latents", "out.audio_latents")) {
            golden_clips_frames(&p, golden_clips_read(&p, job), desc.frame_count, (size_t)desc.width * desc.height,
                                GOLDEN_FRAMES_01, "out.video01");
            golden_ltx2_sound(&p, job);
        }
        dit_job_destroy(job);
        job = NULL;
        golden_ltx2_distilled(&p, desc);
        if (golden_has(folder->path, "guidance.safetensors")) golden_ltx2_guidance(&p, desc);
        desc.steps = 2;
        desc.init_image = &picture;
        if (golden_picture(folder, "i2v.picture", &picture)) {
            golden_ltx2_run(&p, &desc, &job, "i2v.in.latents", "i2v.in.audio_latents", "i2v.step1.latents",
                            "i2v.out.audio_latents");
            golden_ltx2_held(&p, desc, &picture);
        }
        dit_job_destroy(job);
        free((void *)(uintptr_t)picture.rgba);
    }
    golden_pipe_close(&p);
    diti_json_free(&g->env, call);
}

/* Gemma 3's rotations: as files of today spell them, as older ones do, and as they are where nothing is said. */
static inline void golden_ltx2_rotations(golden *g, const golden_folder *folder) {
    static const struct {
        const char *says;
        float theta, inside, stretch;
    } cases[] = {
        {"\"rope_parameters\": {\"full_attention\": {\"rope_type\": \"linear\", \"factor\": 4, \"rope_theta\": 5e5}, "
         "\"sliding_attention\": {\"rope_type\": \"default\", \"rope_theta\": 2e4}}",
         5e5f, 2e4f, 4},
        {"\"rope_theta\": 5e5, \"rope_local_base_freq\": 2e4, "
         "\"rope_scaling\": {\"factor\": 4, \"rope_type\": \"linear\"}",
         5e5f, 2e4f, 4},
        {"\"rope_theta\": 1e6, \"rope_local_base_freq\": 1e4", 1e6f, 1e4f, 1},
        {"\"rope_scaling\": null", 1e6f, 1e4f, 1},
    };
    diti_checkpoint *weights = golden_open_checkpoint(&g->env, folder->path, "text_encoder/model.safetensors");
    size_t i;
    for (i = 0; weights && i < DITI_COUNT(cases); i++) {
        diti_decoder *decoder = NULL;
        diti_json *json = NULL;
        dit_error err = DITI_ZERO;
        char text[512];
        diti_format(text, sizeof text, "{\"head_dim\": 8, \"sliding_window\": 8, %s}", cases[i].says);
        if (diti_json_parse(&g->env, text, strlen(text), "config.json", &json, &err) >= 0)
            diti_decoder_load(golden_shared.device, &g->env, json, weights, "", NULL, &decoder, &err);
        golden_require(g,
                       decoder && decoder->config.theta == cases[i].theta &&
                           decoder->config.local_theta == cases[i].inside &&
                           decoder->config.linear_stretch == cases[i].stretch,
                       "rotations of Gemma 3, %s: %s", cases[i].says, err.message);
        diti_decoder_destroy(decoder);
        diti_json_free(&g->env, json);
    }
    diti_checkpoint_close(weights);
}

static inline void golden_run_ltx2(golden *g, const golden_folder *folder) {
    golden_ltx2_transformer(g, folder);
    golden_ltx2_pipe(g, folder);
    golden_ltx2_rotations(g, folder);
}
#endif
