/* Caches of diffusers (First Block Cache, MagCache, TaylorSeer) on the pipelines that stand beside the folder: which
   steps were computed, and the latents where both forecast the same thing. */
#ifndef GOLDEN_CACHE_H
#define GOLDEN_CACHE_H
#include "golden_control.h"

#define GOLDEN_CACHE_STEPS 12u

static inline bool golden_is_cache(const golden_folder *folder) {
    return folder->readme && diti_starts_with(folder->readme, "Caching policies of diffusers");
}

/* Decisions of a job's device, or of its host: 1 for each step that reused blocks. */
static inline void golden_cache_reused(const dit_job *job, float *reused) {
    const diti_program *program = &job->shares[0]->program;
    float state[DITI_REUSE_STATE + GOLDEN_CACHE_STEPS] = {0};
    uint32_t i;
    if (program->residuals[0].state)
        diti_plan_read(program->plan, program->residuals[0].state, state, sizeof state, NULL);
    for (i = 0; i < GOLDEN_CACHE_STEPS; i++)
        reused[i] = program->residuals[0].state ? state[DITI_REUSE_STATE + i] : (float)job->request.reuses[i];
}

static inline void golden_cache_computed(golden_pipe *p, const dit_job *job, const char *name) {
    float reused[GOLDEN_CACHE_STEPS], *computed;
    char said[2][GOLDEN_CACHE_STEPS + 1] = {"", ""};
    uint64_t count, i;
    computed = golden_floats(p->folder->golden, name, &count);
    if (golden_require(p->g, computed && count == GOLDEN_CACHE_STEPS, "%s is there", name)) {
        golden_cache_reused(job, reused);
        for (i = 0; i < count; i++) {
            said[0][i] = reused[i] > 0 ? '-' : '#';
            said[1][i] = computed[i] > 0 ? '#' : '-';
        }
        golden_check(p->g, !strcmp(said[0], said[1]), "%s: computed %s instead of %s", name, said[0], said[1]);
    }
    free(computed);
}

/* "fbc_0.64934", "mag_0.3" and "taylor_o1" as dit.h has them; false: another policy. */
static inline bool golden_cache_name(const golden_pipe *p, const char *model, const char *policy, char *out,
                                     size_t size) {
    char name[64];
    uint64_t count, i;
    float *ratios;
    if (!strcmp(policy, "none")) return diti_format(out, size, "taylor:from=12");
    if (!strncmp(policy, "taylor_o", 8)) return diti_format(out, size, "taylor:order=%s,interval=3,from=3", policy + 8);
    if (!strncmp(policy, "fbc_", 4)) return diti_format(out, size, "fbcache:threshold=%s", policy + 4);
    if (strncmp(policy, "mag_", 4) || !strcmp(policy, "mag_calibrate")) return false;
    diti_format(name, sizeof name, "%s.mag_ratios", model);
    ratios = golden_floats(p->folder->golden, name, &count);
    diti_format(out, size, "mag:threshold=%s,most=3,retain=0.2,ratios=", policy + 4);
    for (i = 0; ratios && i < count; i++)
        diti_format(out + strlen(out), size - strlen(out), "%s%.8f", i ? "/" : "", (double)ratios[i]);
    free(ratios);
    return true;
}

static inline void golden_cache_run(golden_pipe *p, const char *model, const char *policy, dit_job_desc *desc,
                                    dit_tensor *noise) {
    char cache[512], name[64];
    dit_error err = DITI_ZERO;
    dit_job *job = NULL;
    dit_result result;
    if (!golden_cache_name(p, model, policy, cache, sizeof cache)) return;
    desc->cache = cache;
    result = dit_job_create(p->context, desc, &job, &err);
    if (result == DIT_OK && (result = dit_job_wait(job, UINT64_MAX)) != DIT_OK) dit_job_status(job, NULL, &err);
    if (golden_require(p->g, result == DIT_OK, "%s, %s: %s", model, cache, err.message)) {
        diti_format(name, sizeof name, "%s.%s.computed", model, policy);
        if (diti_equal(p->g->rung, "base")) golden_cache_computed(p, job, name);
        diti_format(name, sizeof name, "%s.%s.latents_last", model, policy);
        /* TaylorSeer's latents cannot be the same: diffusers hooks the modules "transformer_blocks.N.attn" and
           "single_transformer_blocks.N.attn" (_TRANSFORMER_BLOCK_IDENTIFIERS of hooks/taylorseer_cache.py) and
           forecasts each one's result by itself; norms, modulation by the step's own time, gates and feed-forwards run
           in every step. Here a range of blocks is one residual, of which all of that is a part, and none of it runs.
           Its lite mode forecasts proj_out's result, behind the last norm's modulation, which here is that of the step.
           Formulas and steps are equal: build/tests/reuse compares the former with their emulation. Measured, its
           latents are 0.06 to 0.10 from those here, and 0.02 to 0.04 from its own without a cache. */
        if (strncmp(policy, "taylor_", 7))
            golden_pipe_latents(p, job, name, 0, 0, noise->shape[1] * noise->shape[2] * noise->shape[3]);
    }
    dit_job_destroy(job);
}

/* The noise, recorded as tokens or as planes of latents in 2 x 2 patches. */
static inline float *golden_cache_noise(golden_pipe *p, const char *model, dit_tensor *noise) {
    uint32_t side = p->model->transformer->traits.patch;
    const diti_stored_tensor *stored;
    uint64_t count;
    char name[64];
    float *values;
    diti_format(name, sizeof name, "%s.in.latents", model);
    stored = diti_checkpoint_find(p->folder->golden, name);
    values = golden_floats(p->folder->golden, name, &count);
    noise->name = "noise";
    noise->type = DIT_TYPE_F32;
    noise->rank = 4;
    if (stored->rank == 4) {
        memcpy(noise->shape, stored->shape, sizeof noise->shape);
    } else {
        noise->shape[0] = 1;
        noise->shape[1] = stored->shape[2] / (side * side);
        noise->shape[2] = 64 / diti_model_factor(p->model);
        noise->shape[3] = 96 / diti_model_factor(p->model);
        values = golden_pipe_unpack(values, count, (uint32_t)noise->shape[2], (uint32_t)noise->shape[3], side);
    }
    noise->data = values;
    return values;
}

static inline void golden_cache_model(golden *g, const golden_folder *folder, const char *model, const char *base) {
    static const char *const policies[] = {"none",        "fbc_0.0",     "fbc_0.64934", "fbc_0.67334", "fbc_0.74601",
                                           "fbc_0.77423", "fbc_1.07539", "fbc_1.14424", "mag_0.06",    "mag_0.3",
                                           "mag_1",       "taylor_o1",   "taylor_o2"};
    dit_tensor inputs[5] = DITI_ZERO;
    dit_job_desc desc = DITI_ZERO;
    diti_checkpoint *golden;
    golden_pipe p;
    char path[1024], name[64];
    float *noise;
    size_t i;
    diti_format(path, sizeof path, "%.*s%s", (int)(strlen(folder->path) - strlen(folder->name)), folder->path, base);
    diti_format(name, sizeof name, "%s.none.latents_last", model);
    if (!diti_checkpoint_find(folder->golden, name)) return;
    if (golden_pipe_open(&p, g, folder, path)) {
        bool flux = !strcmp(model, "flux");
        golden = golden_open_checkpoint(&g->env, path, "golden.safetensors");
        if (flux) {
            golden_control_texts(&p, golden);
            golden_calls_crop(p.model, (uint32_t)p.texts[0].shape[1]);
        } else {
            desc.prompt = "a photo of an astronaut riding a horse on mars, highly detailed";
            if (!strcmp(model, "klein")) /* whose padding is seen */
                golden_calls_crop(p.model, (uint32_t)diti_checkpoint_find(golden, "t2i.prompt_embeds")->shape[1]);
            if (!strcmp(model, "qwen")) desc.negative_prompt = "blurry, low quality";
        }
        noise = golden_cache_noise(&p, model, &inputs[0]);
        memcpy(inputs + 1, p.texts, sizeof p.texts);
        desc.inputs = inputs;
        desc.input_count = 1 + p.text_count;
        desc.model = p.model;
        desc.width = 96;
        desc.height = 64;
        desc.steps = GOLDEN_CACHE_STEPS;
        desc.split = g->split;
        if (p.model->transformer->traits.wants_guidance) desc.guidance.distilled = 3.5f;
        desc.guidance.scale = strcmp(model, "qwen") ? 1.0f : 4.0f;
        for (i = 0; i < DITI_COUNT(policies); i++) {
            diti_format(name, sizeof name, "%s.%s.computed", model, policies[i]);
            if (diti_checkpoint_find(folder->golden, name)) golden_cache_run(&p, model, policies[i], &desc, &inputs[0]);
        }
        for (i = 0; i < p.text_count; i++) free((void *)(uintptr_t)p.texts[i].data);
        free(noise);
        diti_checkpoint_close(golden);
    }
    golden_pipe_close(&p);
}

static inline void golden_run_cache(golden *g, const golden_folder *folder) {
    golden_cache_model(g, folder, "flux", "pipe_flux");
    golden_cache_model(g, folder, "qwen", "pipe_qwenimage");
    golden_cache_model(g, folder, "klein", "pipe_flux2_klein");
}
#endif
