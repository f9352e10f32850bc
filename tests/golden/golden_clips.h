/* Pipelines of clips through the public API: diffusers repositories and the original programs of Open-Sora and
   Open-Sora-Plan, whose recorded draws stand in for the library's generator, call by call. */
#ifndef GOLDEN_CLIPS_H
#define GOLDEN_CLIPS_H
#include "golden_pipe.h"

/* --- recorded draws --- */
typedef struct golden_draws {
    golden *g;
    const diti_checkpoint *golden; /* NULL: the generator draws */
    const char *first;             /* name of the first draw; NULL: of rest, too */
    char rest[64];                 /* the others' name before their number */
    uint32_t next, calls;
} golden_draws;
static golden_draws golden_recorded;

static inline void golden_draw(diti_random *random, float *out, size_t count) {
    golden_draws *draws = &golden_recorded;
    bool first = draws->first && draws->calls == 0;
    uint64_t have = 0;
    float *values;
    char name[96];
    if (!draws->golden) {
        diti_random_normal(random, out, count);
        return;
    }
    diti_format(name, sizeof name, "%s%u", draws->rest, (unsigned)draws->next);
    values = golden_floats(draws->golden, first ? draws->first : name, &have);
    if (!first) draws->next++;
    draws->calls++;
    memset(out, 0, count * sizeof *out);
    golden_require(draws->g, have == count, "draw %u, %s, has %llu values; the library wants %llu", draws->calls,
                   first ? draws->first : name, (unsigned long long)have, (unsigned long long)count);
    if (have == count) memcpy(out, values, count * sizeof *out);
    free(values);
}

static inline void golden_draw_from(golden *g, const diti_checkpoint *golden, const char *first, const char *rest) {
    memset(&golden_recorded, 0, sizeof golden_recorded);
    golden_recorded.g = g;
    golden_recorded.golden = golden;
    golden_recorded.first = first;
    diti_format(golden_recorded.rest, sizeof golden_recorded.rest, "%s", rest);
}

/* Golden's jobs are made by its own dit_job_create, which calls its own diti_job_request_noise on every system. */
#define diti_random_normal golden_draw
#include "job/noise.c"
#undef diti_random_normal
#include "job/job.c"

/* --- comparing --- */

/* Planes [a][b][area] become [b][a][area]. */
static inline float *golden_clips_swap(float *values, uint32_t a, uint32_t b, size_t area) {
    float *out = (float *)malloc((size_t)a * b * area * sizeof *out);
    uint32_t i, k;
    for (i = 0; i < a && values; i++)
        for (k = 0; k < b; k++)
            memcpy(out + ((size_t)k * a + i) * area, values + ((size_t)i * b + k) * area, area * sizeof *out);
    free(values);
    return out;
}

static inline double golden_clips_tolerance(const golden_pipe *p) {
    return diti_equal(p->g->rung, "base") ? GOLDEN_MODEL : GOLDEN_FP16;
}

/* A recorded tensor of so many values; label tells clips apart. */
static inline float *golden_clips_reference(golden_pipe *p, const char *name, uint64_t size) {
    uint64_t count;
    float *values = golden_floats(p->folder->golden, name, &count);
    if (golden_require(p->g, values && count == size, "%s has %llu values, the clip %llu", name,
                       (unsigned long long)count, (unsigned long long)size))
        return values;
    free(values);
    return (float *)calloc((size_t)size, sizeof(float));
}

static inline void golden_clips_latents(golden_pipe *p, dit_job *job, const char *name) {
    const diti_model_traits *traits = &p->model->transformer->traits;
    uint32_t frames = job->request.shape.latent_frames, channels = traits->latent_channels;
    size_t area = (size_t)job->request.latent_width * job->request.latent_height, count = channels * frames * area;
    const diti_stored_tensor *stored = diti_checkpoint_find(p->folder->golden, name);
    float *latents = (float *)calloc(count, sizeof *latents), *reference = golden_clips_reference(p, name, count);
    dit_error err = DITI_ZERO;
    dit_result result = dit_job_read(job, DIT_READ_LATENT_F32, 0, 0, latents, count * sizeof *latents, 0, &err);
    if (traits->noise_by_frame) reference = golden_clips_swap(reference, frames, channels, area);
    if (stored && stored->rank == 3) reference = golden_transpose(reference, (uint32_t)(frames * area), channels);
    if (golden_require(p->g, result == DIT_OK, "%s: %s", name, err.message))
        golden_compare(p->g, name, latents, reference, count, golden_clips_tolerance(p));
    free(latents);
    free(reference);
}

/* All frames as pixels [frames][h][w][3] in 0..1. */
static inline float *golden_clips_read(golden_pipe *p, dit_job *job) {
    const diti_job_shape *shape = &job->request.shape;
    size_t size = (size_t)shape->frames * shape->width * shape->height * 3 * sizeof(float);
    float *pixels = (float *)calloc(1, size);
    dit_error err = DITI_ZERO;
    golden_require(p->g, dit_job_read(job, DIT_READ_RGB_F32, 0, DIT_ALL_FRAMES, pixels, size, 0, &err) == DIT_OK,
                   "frames: %s", err.message);
    return pixels;
}

/* How a pipeline's frames are recorded: 0..1 and clamped, or -1..1; planes of frames, or frames of planes. */
typedef enum golden_frames { GOLDEN_FRAMES_01, GOLDEN_FRAMES_DECODED, GOLDEN_FRAMES_BY_PLANE } golden_frames;

/* Frees pixels. */
static inline void golden_clips_frames(golden_pipe *p, float *pixels, uint32_t frames, size_t area,
                                       golden_frames recorded, const char *name) {
    size_t count = frames * area * 3, i;
    float *reference = golden_clips_reference(p, name, count);
    if (recorded == GOLDEN_FRAMES_BY_PLANE) reference = golden_clips_swap(reference, 3, frames, area);
    for (i = 0; i < frames; i++) { /* frames of pixels, too */
        float *planes = (float *)malloc(3 * area * sizeof *planes);
        memcpy(planes, reference + i * 3 * area, 3 * area * sizeof *planes);
        planes = golden_transpose(planes, 3, (uint32_t)area);
        memcpy(reference + i * 3 * area, planes, 3 * area * sizeof *planes);
        free(planes);
    }
    for (i = 0; i < count; i++) {
        if (recorded != GOLDEN_FRAMES_01)
            reference[i] = reference[i] / 2 + 0.5f;
        else
            pixels[i] = pixels[i] < 0 ? 0 : pixels[i] > 1 ? 1 : pixels[i];
    }
    golden_compare(p->g, name, pixels, reference, count, golden_clips_tolerance(p));
    free(reference);
    free(pixels);
}

/* --- running --- */

static inline bool golden_clips_run(golden_pipe *p, const dit_job_desc *desc, dit_job **job) {
    dit_error err = DITI_ZERO;
    dit_result result = *job ? dit_job_restart(*job, desc, &err) : dit_job_create(p->context, desc, job, &err);
    golden_recorded.golden = NULL;
    if (result == DIT_OK) {
        result = dit_job_wait(*job, UINT64_MAX);
        if (result != DIT_OK) dit_job_status(*job, NULL, &err);
    }
    return golden_require(p->g, result == DIT_OK, "\"%s\" %s", desc->prompt, err.message);
}

/* The config of Open-Sora's small autoencoder lacks that of the pictures' one, which lies beside it. */
static inline dit_result golden_clips_vae_file(const char *member, dit_source *out, void *user) {
    static const char small[] = "{\"architectures\": [\"VideoAutoencoderPipeline\"], \"micro_frame_size\": 17,"
                                " \"vae_2d\": {\"norm_num_groups\": 4}, \"vae_temporal\": {\"num_groups\": 4}}";
    static char path[1024];
    if (diti_equal(member, "config.json")) {
        out->data = small;
        out->size = strlen(small);
        return DIT_OK;
    }
    if (!golden_has((const char *)user, member)) return DIT_ERROR_IO;
    golden_join(path, sizeof path, (const char *)user, member);
    out->path = path;
    return DIT_OK;
}

/* The folder's parts by their roles, where there is no model_index.json. */
static inline bool golden_clips_open(golden_pipe *p, golden *g, const golden_folder *folder, const char *transformer) {
    static const dit_role roles[] = {DIT_ROLE_TRANSFORMER, DIT_ROLE_VAE, DIT_ROLE_TEXT_1, DIT_ROLE_TOKENIZER_1};
    const char *folders[] = {transformer, "vae", "text_encoder", "tokenizer"};
    char overrides[256], paths[4][1024];
    dit_component components[4];
    dit_context_desc context = DITI_ZERO;
    dit_model_desc desc = DITI_ZERO;
    dit_error err = DITI_ZERO;
    uint32_t i;
    memset(p, 0, sizeof *p);
    memset(components, 0, sizeof components);
    p->g = g;
    p->folder = folder;
    golden_overrides(g, overrides, sizeof overrides);
    context.overrides = overrides;
    context.devices = g->split && !g->device ? "0,1" : g->device;
    for (i = 0; i < 4; i++) {
        golden_join(paths[i], sizeof paths[i], folder->path, folders[i]);
        components[i].source.path = paths[i];
        components[i].role = roles[i];
    }
    if (golden_has(paths[1], "vae_2d/config.json")) {
        components[1].source.path = NULL;
        components[1].source.open = golden_clips_vae_file;
        components[1].source.user = paths[1];
    }
    desc.components = components;
    desc.component_count = 4;
    return golden_require(g, dit_context_create(&context, &p->context, &err) == DIT_OK, "%s", err.message) &&
           golden_require(g, dit_model_load(p->context, &desc, &p->model, &err) == DIT_OK, "%s", err.message);
}

/* --- diffusers: CogVideoX, Latte, LTX-Video, whose latents are recorded as tokens, [1, frames * h * w, C] --- */

static inline bool golden_is_ltx_pipe(const golden_folder *folder) {
    return diti_starts_with(folder->readme, "LTXPipeline");
}

static inline bool golden_is_clips(const golden_folder *folder) {
    const diti_stored_tensor *latents = folder->golden ? diti_checkpoint_find(folder->golden, "in.latents") : NULL;
    return latents && folder->readme && golden_has(folder->path, "model_index.json") &&
           (golden_is_ltx_pipe(folder) || (latents->rank == 5 && (diti_starts_with(folder->readme, "CogVideoX") ||
                                                                  diti_starts_with(folder->readme, "Latte"))));
}

/* JSON behind a marker in the README, to the line's end. */
static inline diti_json *golden_clips_json(golden *g, const golden_folder *folder, const char *marker) {
    const char *start = strstr(folder->readme, marker), *end;
    diti_json *json = NULL;
    if (!golden_require(g, start != NULL, "the README has no %s", marker)) return NULL;
    start += strlen(marker);
    end = strchr(start, '\n');
    golden_require(
        g,
        diti_json_parse(&g->env, start, end ? (size_t)(end - start) : strlen(start), "README", &json, NULL) == DIT_OK,
        "the README's %s are JSON", marker);
    return json;
}

static inline void golden_clips_desc(const golden_pipe *p, const diti_json *call, dit_job_desc *desc) {
    int32_t none[DITI_JOB_MAX_IMAGES];
    golden_pipe_desc(p, call, desc, none);
    desc->frame_count = (uint32_t)diti_json_number(call, "num_frames", diti_json_number(call, "video_length", 0));
    desc->guidance.dynamic = diti_json_bool(call, "use_dynamic_cfg", false);
    desc->float_frames = true;
}

static inline void golden_run_clips(golden *g, const golden_folder *folder) {
    diti_json *call = golden_clips_json(g, folder, "call arguments: ");
    bool ltx = golden_is_ltx_pipe(folder);
    golden_pipe p = DITI_ZERO;
    dit_job_desc desc = DITI_ZERO;
    dit_job *job = NULL;
    char last[64];
    if (call && golden_pipe_open(&p, g, folder, folder->path)) {
        golden_clips_desc(&p, call, &desc);
        golden_draw_from(g, folder->golden, ltx ? "in.latents_unpacked" : "in.latents", ltx ? "noise" : "sched_noise");
        if (ltx) /* prompts are recorded shorter than the pipeline's 128 tokens */
            p.model->texts[DITI_TEXT_FIRST].tokens = p.model->encoders[0].tokens =
                (uint32_t)diti_json_number(call, "max_sequence_length", 128);
        if (golden_clips_run(&p, &desc, &job)) {
            diti_format(last, sizeof last, "step%u.latents", (unsigned)desc.steps - 1);
            golden_clips_latents(&p, job, last);
            golden_clips_frames(&p, golden_clips_read(&p, job), desc.frame_count, (size_t)desc.width * desc.height,
                                GOLDEN_FRAMES_01, ltx ? "out.video01" : "out.image01");
        }
        dit_job_destroy(job);
    }
    golden_pipe_close(&p);
    diti_json_free(&g->env, call);
}

/* --- Open-Sora-Plan --- */

static inline bool golden_is_plan(const golden_folder *folder) {
    return folder->golden && folder->readme && diti_starts_with(folder->readme, "Open-Sora-Plan") &&
           diti_checkpoint_find(folder->golden, "video.in.latents");
}

static inline void golden_run_plan(golden *g, const golden_folder *folder) {
    diti_json *calls = golden_clips_json(g, folder, "calls: ");
    const diti_json *call;
    golden_pipe p = DITI_ZERO;
    if (calls && golden_clips_open(&p, g, folder, "65x512x512")) {
        for (call = calls->first; call; call = call->next) {
            const char *name = diti_json_string(call, "case", "");
            char tensor[96];
            dit_job_desc desc = DITI_ZERO;
            dit_job *job = NULL;
            golden_clips_desc(&p, call, &desc);
            desc.prompt = "a photo of an astronaut riding a horse on mars, highly detailed";
            diti_format(tensor, sizeof tensor, "%s.in.latents", name);
            golden_draw_from(g, folder->golden, tensor, "");
            if (golden_clips_run(&p, &desc, &job)) {
                diti_format(tensor, sizeof tensor, "%s.step%u.latents", name,
                            (unsigned)diti_json_number(call, "model_calls", 1) - 1);
                golden_clips_latents(&p, job, tensor);
                diti_format(tensor, sizeof tensor, "%s.out.video", name);
                golden_clips_frames(&p, golden_clips_read(&p, job), desc.frame_count, (size_t)desc.width * desc.height,
                                    GOLDEN_FRAMES_DECODED, tensor);
            }
            dit_job_destroy(job);
        }
    }
    golden_pipe_close(&p);
    diti_json_free(&g->env, calls);
}

/* --- Open-Sora 1.1 and 1.2: references, mask strategies, loops --- */

static inline bool golden_is_sora(const golden_folder *folder) {
    return folder->golden && folder->readme && golden_has(folder->path, "inference.json") &&
           diti_starts_with(folder->readme, "Open-Sora v1.");
}

typedef struct golden_sora {
    golden_pipe pipe;
    const diti_json *config, *call;
    const char *name;
    dit_job_desc desc;
    char prompts[4][256], strategy[128];
    dit_reference references[4];
    dit_image *frames[4];
    float *joined; /* all clips one after the other */
    uint32_t joined_frames;
    size_t area;
} golden_sora;

/* "|0|first|1|second", or one prompt for all clips. */
static inline void golden_sora_prompts(golden_sora *s, const char *text) {
    const char *suffix = diti_json_get(s->config, "aes") ? " aesthetic score: 6.5." : "";
    uint32_t i = 0;
    if (*text != '|') {
        for (; i < 4; i++) diti_format(s->prompts[i], sizeof s->prompts[i], "%s%s", text, suffix);
        return;
    }
    for (; *text == '|' && i < 4; i++) {
        const char *begin = strchr(text + 1, '|') + 1, *end = strchr(begin, '|');
        int length = (int)(end ? (size_t)(end - begin) : strlen(begin));
        diti_format(s->prompts[i], sizeof s->prompts[i], "%.*s%s", length, begin, suffix);
        text = begin + length;
    }
}

/* References are recorded as planes [3][frames][h][w] in -1..1. */
static inline void golden_sora_references(golden_sora *s, const char *names) {
    uint32_t count = 0;
    while (*names && count < 4) {
        char name[32];
        const char *end = strchr(names, ';');
        size_t length = end ? (size_t)(end - names) : strlen(names), i;
        const diti_stored_tensor *stored;
        dit_reference *out = &s->references[count];
        float *values;
        uint64_t have;
        diti_format(name, sizeof name, "%.*s", (int)length, names);
        stored = diti_checkpoint_find(s->pipe.folder->golden, name);
        values = golden_floats(s->pipe.folder->golden, name, &have);
        if (!golden_require(s->pipe.g, stored && values, "%s is there", name)) return;
        out->frame_count = (uint32_t)stored->shape[1];
        for (i = 0; i < have; i++) values[i] = values[i] / 2 + 0.5f;
        values = golden_transpose(values, 3, (uint32_t)(have / 3));
        out->frames = s->frames[count] = (dit_image *)calloc(out->frame_count, sizeof(dit_image));
        for (i = 0; i < out->frame_count; i++) {
            s->frames[count][i].width = s->desc.width;
            s->frames[count][i].height = s->desc.height;
            s->frames[count][i].rgb = values + i * s->area * 3;
        }
        count++;
        names += length + (end ? 1 : 0);
    }
    s->desc.references = count ? s->references : NULL;
    s->desc.reference_count = count;
}

static inline void golden_sora_desc(golden_sora *s) {
    const diti_json *size = diti_json_get(s->config, "image_size"), *scheduler = diti_json_get(s->config, "scheduler"),
                    *text;
    dit_job_desc *desc = &s->desc;
    desc->model = s->pipe.model;
    desc->split = s->pipe.g->split;
    desc->height = (uint32_t)size->first->number;
    desc->width = (uint32_t)size->first->next->number;
    s->area = (size_t)desc->width * desc->height;
    desc->frame_count = (uint32_t)diti_json_number(s->call, "num_frames", diti_json_number(s->config, "num_frames", 0));
    desc->steps = (uint32_t)diti_json_number(scheduler, "num_sampling_steps", 0);
    desc->guidance.scale = (float)diti_json_number(scheduler, "cfg_scale", 0);
    desc->float_frames = true;
    desc->loop_count = (uint32_t)diti_json_number(s->call, "loop", 1);
    if (desc->loop_count > 1)
        desc->loop_frames = (uint32_t)diti_json_number(s->call, "condition_frame_length",
                                                       diti_json_number(s->config, "condition_frame_length", 0));
    text = diti_json_get(s->call, "prompt");
    golden_sora_prompts(s, text->first->text);
    if ((text = diti_json_get(s->call, "reference_path")) != NULL) golden_sora_references(s, text->first->text);
    if ((text = diti_json_get(s->call, "mask_strategy")) != NULL) desc->mask_strategy = text->first->text;
}

/* The clip's frames behind those that it shares with the one before. */
static inline void golden_sora_join(golden_sora *s, const float *pixels, uint32_t frames, uint32_t overlap) {
    uint32_t added = frames - overlap;
    s->joined = (float *)realloc(s->joined, (s->joined_frames + added) * s->area * 3 * sizeof *s->joined);
    memcpy(s->joined + s->joined_frames * s->area * 3, pixels + overlap * s->area * 3,
           added * s->area * 3 * sizeof *s->joined);
    s->joined_frames += added;
}

static inline void golden_sora_clips(golden_sora *s) {
    dit_job *job = NULL;
    char name[96];
    uint32_t i;
    diti_format(name, sizeof name, "%s.noise", s->name);
    golden_draw_from(s->pipe.g, s->pipe.folder->golden, NULL, name);
    for (i = 0; i < s->desc.loop_count; i++) {
        float *pixels;
        s->desc.loop = i;
        s->desc.prompt = s->prompts[i];
        golden_recorded.golden = s->pipe.folder->golden;
        if (!golden_clips_run(&s->pipe, &s->desc, &job)) break;
        diti_format(name, sizeof name, "%s.clip%u.step%u.latents", s->name, (unsigned)i, (unsigned)s->desc.steps - 1);
        golden_clips_latents(&s->pipe, job, name);
        pixels = golden_clips_read(&s->pipe, job);
        golden_sora_join(s, pixels, s->desc.frame_count, i ? dit_job_overlap(job) : 0);
        diti_format(name, sizeof name, "%s.clip%u.out.video", s->name, (unsigned)i);
        if (diti_checkpoint_find(s->pipe.folder->golden, name))
            golden_clips_frames(&s->pipe, pixels, s->desc.frame_count, s->area, GOLDEN_FRAMES_BY_PLANE, name);
        else
            free(pixels);
    }
    diti_format(name, sizeof name, "%s.out.video", s->name);
    if (diti_checkpoint_find(s->pipe.folder->golden, name) && s->joined) {
        golden_clips_frames(&s->pipe, s->joined, s->joined_frames, s->area, GOLDEN_FRAMES_BY_PLANE, name);
        s->joined = NULL;
    }
    dit_job_destroy(job);
}

static inline void golden_sora_free(golden_sora *s) {
    uint32_t i;
    for (i = 0; i < 4; i++) {
        if (s->frames[i]) free((void *)(uintptr_t)s->frames[i][0].rgb);
        free(s->frames[i]);
    }
    free(s->joined);
}

static inline void golden_run_sora(golden *g, const golden_folder *folder) {
    diti_json *config = golden_open_json(&g->env, folder->path, "inference.json");
    const diti_json *cases = diti_json_get(config, "cases"), *call;
    golden_pipe p = DITI_ZERO;
    if (golden_clips_open(&p, g, folder, "transformer")) {
        uint32_t guided = p.model->transformer->traits.guided_channels;
        for (call = cases ? cases->first : NULL; call; call = call->next) {
            const diti_json *channels = diti_json_get(call, "cfg_channel");
            golden_sora s;
            memset(&s, 0, sizeof s);
            s.pipe = p;
            s.config = config;
            s.call = call;
            s.name = diti_json_string(call, "case", "");
            /* the configuration of a published model is fixed; cfg_channel null means all channels */
            p.model->transformer->traits.guided_channels = channels && channels->kind == DITI_JSON_NULL ? 0 : guided;
            golden_sora_desc(&s);
            golden_sora_clips(&s);
            golden_sora_free(&s);
        }
        p.model->transformer->traits.guided_channels = guided;
    }
    golden_pipe_close(&p);
    diti_json_free(&g->env, config);
}
#endif
