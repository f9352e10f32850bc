/* Kandinsky 5.0: the order of its noise, the spacing of positions, and the pipeline of clips, whose text encoders are
   those of a fixture beside the folder. golden_ernie.h has its transformer on recorded inputs. */
#ifndef GOLDEN_KANDINSKY_H
#define GOLDEN_KANDINSKY_H
#include "golden_hunyuanvideo15.h"

static const char *const golden_kandinsky_beside[][2] = {{"text_encoder", "tests/fixtures/pipe_kandinsky"},
                                                         {"tokenizer", "tests/fixtures/pipe_kandinsky"}};

static inline bool golden_is_kandinsky_clips(const golden_folder *folder) {
    return diti_equal(folder->name, "pipe_kandinsky_t2v");
}

/* Positions of published sizes: 512 x 768 of the small models, 768 x 1280 of the large ones, and the borders between.
 */
static inline void golden_kandinsky_spacing(golden *g) {
    static const struct {
        uint32_t height, width;
        double spacing;
    } cases[] = {{512, 768, 2},    {768, 512, 2},     {480, 854, 2},     {464, 768, 3.16},
                 {512, 864, 3.16}, {768, 1280, 3.16}, {1024, 1024, 3.16}};
    diti_kandinsky_config clips = DITI_ZERO, pictures = DITI_ZERO;
    size_t i;
    clips.channels = pictures.channels = 16;
    clips.columns = 4 * 33;
    pictures.columns = 4 * 16;
    for (i = 0; i < DITI_COUNT(cases); i++)
        golden_require(g,
                       diti_kandinsky_spacing(&clips, cases[i].height, cases[i].width) == cases[i].spacing &&
                           diti_kandinsky_spacing(&pictures, cases[i].height, cases[i].width) == 1,
                       "the spacing of %u x %u pixels", cases[i].width, cases[i].height);
}

/* Noise is drawn [frames, h, w, C]. */
static inline void golden_kandinsky_noise(golden_pipe *p, uint32_t frames) {
    enum { COLUMNS = 10, ROWS = 6, CHANNELS = 16, MOST = 2 };
    static float drawn[MOST * COLUMNS * ROWS * CHANNELS], planes[MOST * COLUMNS * ROWS * CHANNELS];
    uint32_t count = frames * COLUMNS * ROWS * CHANNELS, i;
    dit_job_desc wish = DITI_ZERO;
    dit_error err = DITI_ZERO;
    diti_random random;
    dit_job *job = NULL;
    diti_random_seed(&random, 7);
    diti_random_normal(&random, drawn, count);
    for (i = 0; i < count; i++) planes[i % CHANNELS * frames * COLUMNS * ROWS + i / CHANNELS] = drawn[i];
    wish.model = p->model;
    wish.prompt = "a fox";
    wish.width = 8 * COLUMNS;
    wish.height = 8 * ROWS;
    wish.frame_count = frames > 1 ? 4 * (frames - 1) + 1 : 0;
    wish.steps = 1;
    wish.seed = 7;
    if (golden_require(p->g, dit_job_create(p->context, &wish, &job, &err) == DIT_OK, "noise: %s", err.message))
        golden_compare(p->g, "noise by tokens", job->request.noise, planes, count, 1e-6);
    dit_job_destroy(job);
}

static inline void golden_run_kandinsky(golden *g, const golden_folder *folder) {
    golden_pipe p = DITI_ZERO;
    if (golden_pipe_open(&p, g, folder, folder->path)) golden_kandinsky_noise(&p, 1);
    golden_pipe_close(&p);
}

static inline void golden_kandinsky_call(golden *g, const golden_folder *folder, const char *name,
                                         const diti_json *call) {
    golden_beside source = DITI_ZERO;
    golden_pipe p = DITI_ZERO;
    dit_model_desc desc = DITI_ZERO;
    source.parts = golden_kandinsky_beside;
    source.count = DITI_COUNT(golden_kandinsky_beside);
    source.path = folder->path;
    desc.source.open = golden_beside_open;
    desc.source.user = &source;
    if (golden_pipe_load(&p, g, folder, &desc)) {
        golden_hv15_clip(&p, name, call);
        golden_kandinsky_noise(&p, 2);
    }
    golden_pipe_close(&p);
}

/* --- from a picture to a clip: the parts are those of other fixtures --- */

static const char *const golden_kandinsky_parts[][2] = {{"transformer", "tests/fixtures/pipe_kandinsky_t2v"},
                                                        {"scheduler", "tests/fixtures/pipe_kandinsky_t2v"},
                                                        {"model_index", "tests/fixtures/pipe_kandinsky_t2v"},
                                                        {"text_encoder", "tests/fixtures/pipe_kandinsky"},
                                                        {"tokenizer", "tests/fixtures/pipe_kandinsky"}};

static inline bool golden_is_kandinsky_moves(const golden_folder *folder) {
    return diti_equal(folder->name, "kandinsky_i2v");
}

/* Frames that are recorded: two that the first latent frames make, which are evened, and the last one. */
static inline void golden_kandinsky_frames(golden_pipe *p, dit_job *job, const dit_job_desc *desc) {
    static const uint32_t shown[] = {0, 3, 24};
    size_t frame = (size_t)desc->width * desc->height * 3, i;
    float *all = golden_clips_read(p, job);
    for (i = 0; i < DITI_COUNT(shown); i++) memmove(all + i * frame, all + shown[i] * frame, frame * sizeof *all);
    golden_clips_frames(p, all, DITI_COUNT(shown), frame / 3, GOLDEN_FRAMES_01, "i2v.frames01");
}

/* The seed's noise: the clip's, then the picture's. */
static inline void golden_kandinsky_moved(golden *g, const golden_folder *folder, const char *name,
                                          const diti_json *call) {
    golden_beside source = DITI_ZERO;
    golden_pipe p = DITI_ZERO;
    dit_model_desc parts = DITI_ZERO;
    dit_component vae = DITI_ZERO;
    dit_image picture = DITI_ZERO;
    dit_job_desc desc = DITI_ZERO;
    dit_error err = DITI_ZERO;
    dit_job *job = NULL;
    (void)name;
    source.index = "{\"_class_name\":\"Kandinsky5I2VPipeline\"}";
    source.parts = golden_kandinsky_parts;
    source.count = DITI_COUNT(golden_kandinsky_parts);
    source.path = folder->path;
    vae.role = DIT_ROLE_VAE;
    vae.source.path = "tests/fixtures/vae_hunyuanvideo";
    parts.source.open = golden_beside_open;
    parts.source.user = &source;
    parts.components = &vae;
    parts.component_count = 1;
    if (golden_pipe_load(&p, g, folder, &parts) &&
        golden_require(g, golden_picture(folder, "i2v.image0_u8", &picture), "there is a picture")) {
        p.init = &picture;
        golden_pipe_desc(&p, call, &desc, NULL);
        desc.frame_count = (uint32_t)diti_json_number(call, "num_frames", 1);
        desc.seed = (uint64_t)diti_json_number(call, "seed", 0);
        desc.float_frames = true;
        if (golden_require(
                g, dit_job_create(p.context, &desc, &job, &err) == DIT_OK && dit_job_wait(job, UINT64_MAX) == DIT_OK,
                "a picture is moved %s", err.message)) {
            golden_clips_latents(&p, job, "i2v.step2.latents");
            golden_kandinsky_frames(&p, job, &desc);
        }
        dit_job_destroy(job);
    }
    golden_pipe_close(&p);
    free((void *)(uintptr_t)picture.rgba);
}

static inline void golden_run_kandinsky_moves(golden *g, const golden_folder *folder) {
    golden_each_call(g, folder, golden_kandinsky_moved);
}

static inline void golden_run_kandinsky_clips(golden *g, const golden_folder *folder) {
    golden_kandinsky_spacing(g);
    golden_each_call(g, folder, golden_kandinsky_call);
}
#endif
