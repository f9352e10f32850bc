/* Wan's pipelines through the public API: every recorded call, from the prompts to the last latents and all frames. */
#ifndef GOLDEN_WAN_PIPE_H
#define GOLDEN_WAN_PIPE_H
#include "golden_clips.h"

static inline bool golden_is_wan_pipe(const golden_folder *folder) {
    return folder->golden && folder->readme && strstr(folder->readme, "Layout: a diffusers repository (Wan");
}

/* A recorded picture [1, 3, h, w] in 0..1, as rows of pixels, freed with free; NULL: the case has none. */
static inline float *golden_wan_pipe_image(golden_pipe *p, const char *name, dit_image *image) {
    const diti_stored_tensor *stored = diti_checkpoint_find(p->folder->golden, name);
    uint64_t count;
    float *values = golden_floats(p->folder->golden, name, &count);
    if (!stored || !values) return NULL;
    image->height = (uint32_t)stored->shape[2];
    image->width = (uint32_t)stored->shape[3];
    values = golden_transpose(values, 3, image->width * image->height);
    image->rgb = values;
    return values;
}

/* The negative prompt is given as a web page writes it, which the pipeline reads as it was. */
static inline void golden_wan_pipe_case(golden_pipe *p, const diti_json *call) {
    const char *own = diti_json_string(call, "case", ""), *comma;
    dit_job_desc desc = DITI_ZERO;
    dit_image image = DITI_ZERO;
    dit_job *job = NULL;
    char name[64], negative[128];
    float *pixels;
    golden_clips_desc(p, call, &desc);
    comma = strchr(desc.negative_prompt, ',');
    if (comma) {
        diti_format(negative, sizeof negative, "%.*s&amp;#44;%s", (int)(comma - desc.negative_prompt),
                    desc.negative_prompt, comma + 1);
        desc.negative_prompt = negative;
    }
    desc.guidance.low_scale = (float)diti_json_number(call, "guidance_scale_2", 0);
    diti_format(name, sizeof name, "%s.in.image01", own);
    pixels = golden_wan_pipe_image(p, name, &image);
    if (pixels) desc.init_image = &image;
    diti_format(name, sizeof name, "%s.in.latents", own);
    golden_draw_from(p->g, p->folder->golden, name, "");
    if (golden_clips_run(p, &desc, &job)) {
        diti_format(name, sizeof name, "%s.step%u.latents", own, (unsigned)desc.steps - 1);
        if (!job->request.shape.fixes) golden_clips_latents(p, job, name); /* recorded before the frame is put back */
        diti_format(name, sizeof name, "%s.out.video01", own);
        golden_clips_frames(p, golden_clips_read(p, job), desc.frame_count, (size_t)desc.width * desc.height,
                            GOLDEN_FRAMES_01, name);
    }
    dit_job_destroy(job);
    free(pixels);
}

/* Recorded prompts have 32 tokens, not 512; a case that is named after a scheduler has that of its own folder. */
static inline void golden_wan_pipe_cases(golden_pipe *p) {
    diti_json *calls = golden_clips_json(p->g, p->folder, "calls: ");
    const diti_json *call;
    p->model->texts[DITI_TEXT_FIRST].tokens = p->model->encoders[0].tokens = 32;
    for (call = calls ? calls->first : NULL; call; call = call->next) {
        char file[96];
        diti_format(file, sizeof file, "scheduler_%s/scheduler_config.json", diti_json_string(call, "case", ""));
        if (golden_has(p->folder->path, file)) {
            diti_json_free(&p->model->env, p->model->scheduler);
            p->model->scheduler = golden_open_json(&p->model->env, p->folder->path, file);
        }
        golden_wan_pipe_case(p, call);
    }
    diti_json_free(&p->g->env, calls);
}

/* Two experts in so little memory that weights of both are streamed, each while its steps last: the same results. */
static inline void golden_wan_pipe_budget(golden_pipe *p) {
    dit_model_desc desc = DITI_ZERO;
    dit_model_info info;
    dit_error err = DITI_ZERO;
    uint64_t all;
    dit_model_get_info(p->model, &info);
    all = info.weight_bytes;
    dit_model_destroy(p->model);
    p->model = NULL;
    desc.source.path = p->folder->path;
    desc.weight_budget = all / 4 * 3;
    if (!golden_require(p->g, dit_model_load(p->context, &desc, &p->model, &err) == DIT_OK, "%s", err.message)) return;
    dit_model_get_info(p->model, &info);
    golden_require(p->g, info.weight_bytes <= desc.weight_budget && info.streamed_bytes > 0,
                   "weights take three quarters of their memory");
    golden_wan_pipe_cases(p);
}

/* All files of the folder but the second expert's. */
static inline dit_result golden_wan_pipe_file(const char *member, dit_source *out, void *user) {
    static char path[1024];
    if (diti_starts_with(member, "transformer_2/") || !golden_has((const char *)user, member)) return DIT_ERROR_IO;
    golden_join(path, sizeof path, (const char *)user, member);
    out->path = path;
    return DIT_OK;
}

static inline void golden_wan_pipe_missing(const golden_pipe *p) {
    dit_model_desc desc = DITI_ZERO;
    dit_model *model = NULL;
    dit_error err = DITI_ZERO;
    desc.source.open = golden_wan_pipe_file;
    desc.source.user = (void *)(uintptr_t)p->folder->path;
    desc.dry_run = true;
    golden_require(p->g,
                   dit_model_load(NULL, &desc, &model, &err) == DIT_ERROR_UNSUPPORTED_MODEL &&
                       strstr(err.message, "transformer_2 is missing"),
                   "a missing expert is named, not: %s", err.message);
    dit_model_destroy(model);
}

static inline void golden_run_wan_pipe(golden *g, const golden_folder *folder) {
    golden_pipe p = DITI_ZERO;
    if (golden_pipe_open(&p, g, folder, folder->path)) {
        float usual = p.model->transformer->traits.condition_channels ? 3.5f : 4.0f;
        golden_require(g, !p.model->low || p.model->info.default_guidance == usual, "guidance is %g by default, not %g",
                       (double)p.model->info.default_guidance, (double)usual);
        golden_wan_pipe_cases(&p);
        if (p.model->low) golden_wan_pipe_budget(&p);
        if (p.model && p.model->low) golden_wan_pipe_missing(&p);
    }
    golden_pipe_close(&p);
}
#endif
