/* Schedulers: the coefficient table of diti_schedule_make, executed in float on the recorded model outputs and noises.
 */
#ifndef GOLDEN_SCHEDULERS_H
#define GOLDEN_SCHEDULERS_H
#include "golden.h"

static inline bool golden_is_scheduler(const golden_folder *folder) {
    return folder->golden && golden_has(folder->path, "scheduler_config.json") &&
           diti_checkpoint_find(folder->golden, "x_init");
}

/* The original DiT code has no configuration: its README names the argument of create_diffusion. */
static inline bool golden_is_respaced(const golden_folder *folder) {
    return folder->golden && folder->readme && strstr(folder->readme, "create_diffusion(\"") &&
           golden_count(folder->golden, "posterior_log_variance_clipped");
}

/* --- the arguments of the reference call stand in the README --- */
typedef struct golden_schedule_call {
    diti_schedule_request request;
    float sigmas[64];
} golden_schedule_call;

static inline double golden_readme_number(const char *readme, const char *key, double otherwise) {
    const char *at = readme ? strstr(readme, key) : NULL;
    return at ? strtod(at + strlen(key), NULL) : otherwise;
}

static inline void golden_read_sigmas(golden_schedule_call *call, const char *readme) {
    const char *at = readme ? strstr(readme, "\"sigmas\": [") : NULL;
    char *end;
    if (!at) return;
    for (at += strlen("\"sigmas\": ["); *at != ']' && call->request.sigma_count < 64;
         at = *end == ',' ? end + 1 : end) {
        call->sigmas[call->request.sigma_count++] = (float)strtod(at, &end);
    }
    call->request.sigmas = call->sigmas;
}

static inline void golden_read_call(golden_schedule_call *call, const golden_folder *folder) {
    double mu = golden_readme_number(folder->readme, "\"mu\": ", 0);
    memset(call, 0, sizeof *call);
    call->request.eta = (float)golden_readme_number(folder->readme, "'eta': ", 0);
    call->request.image_tokens = (uint32_t)golden_readme_number(folder->readme, "image_seq_len=", 0);
    call->request.use_clipped_model_output =
        folder->readme && strstr(folder->readme, "'use_clipped_model_output': True");
    if (mu != 0 && !call->request.image_tokens)
        call->request.shift = (float)exp(mu); /* no number of tokens gives this mu */
    golden_read_sigmas(call, folder->readme);
}

/* --- tables.<run|nN>.* --- */
static inline void golden_compare_table(golden *g, const golden_folder *folder, const golden_schedule_call *call,
                                        const char *table, uint32_t steps) {
    diti_schedule_request request = call->request;
    diti_schedule schedule = DITI_ZERO;
    dit_error err = DITI_ZERO;
    char timesteps[64], sigmas[64], initial[64];
    float *timestep, *sigma, *reference;
    uint64_t count;
    uint32_t i;
    diti_format(timesteps, sizeof timesteps, "tables.%s.timesteps", table);
    diti_format(sigmas, sizeof sigmas, "tables.%s.sigmas", table);
    diti_format(initial, sizeof initial, "tables.%s.init_noise_sigma", table);
    request.steps = steps;
    if (!golden_require(g, diti_schedule_make(&g->env, folder->config, &request, &schedule, &err) == DIT_OK,
                        "%s: %u steps %s", table, steps, err.message))
        return;
    timestep = (float *)malloc(schedule.count * sizeof(float));
    sigma = (float *)malloc(schedule.count * sizeof(float));
    for (i = 0; i < schedule.count; i++) timestep[i] = schedule.steps[i].timestep, sigma[i] = schedule.steps[i].sigma;
    golden_compare_with(g, folder, timesteps, timestep, schedule.count,
                        1e-6); /* float rounding of fractional timesteps */
    reference = golden_floats(folder->golden, sigmas, &count);
    if (reference) { /* behind the steps stands the end, which is no step, once or more */
        golden_require(g, count > schedule.count, "%s has %u entries", sigmas, (unsigned)count);
        golden_compare(g, sigmas, sigma, reference, count > schedule.count ? schedule.count : 0, GOLDEN_BLOCK);
    }
    free(reference);
    if (golden_count(folder->golden, initial))
        golden_compare_with(g, folder, initial, &schedule.initial, 1, GOLDEN_BLOCK);
    free(timestep);
    free(sigma);
    diti_schedule_free(&g->env, &schedule);
}

/* Checks every "tables.nN" that is there; explicit sigmas are known for the run only. */
static inline void golden_compare_tables(golden *g, const golden_folder *folder, const golden_schedule_call *call) {
    uint32_t i, steps;
    for (i = 0; i < diti_checkpoint_count(folder->golden) && !call->request.sigmas; i++) {
        const char *name = diti_checkpoint_tensor(folder->golden, i)->name;
        char table[32];
        if (!diti_ends_with(name, ".timesteps") || sscanf(name, "tables.n%u.", &steps) != 1) continue;
        diti_format(table, sizeof table, "n%u", steps);
        golden_compare_table(g, folder, call, table, steps);
    }
}

/* --- the trajectory --- */
typedef struct golden_trajectory {
    float *x, *y, *input, *x0[4]; /* x0[1] to x0[3]: those that were pushed last */
    uint64_t count;
} golden_trajectory;

/* variance: what the model says about it (NULL: nothing). */
static inline void golden_execute_step(golden_trajectory *state, const diti_step *step, const float *m,
                                       const float *variance, const float *noise) {
    float *oldest = state->x0[3];
    uint64_t i;
    for (i = 0; i < state->count; i++) {
        float x = state->x[i], y = state->y[i], x0 = step->x0_x * x + step->x0_m * m[i];
        float deviation = step->noise * (variance ? expf(step->noise_v * variance[i]) : 1.0f);
        if (x0 > step->clip) x0 = step->clip;
        if (x0 < -step->clip) x0 = -step->clip;
        state->x0[0][i] = x0;
        state->x[i] = step->x_x * x + step->x_m * m[i] + step->x_y * y + step->d0 * x0 + step->d1 * state->x0[1][i] +
                      step->d2 * state->x0[2][i] + step->d3 * state->x0[3][i] + (noise ? deviation * noise[i] : 0.0f);
        state->y[i] =
            step->y_x * x + step->y_y * y + step->e0 * x0 + step->e1 * state->x0[1][i] + step->e2 * state->x0[2][i];
        state->input[i] = step->shown_x * x + step->shown_x0 * x0;
    }
    if (step->push == 0) return;
    state->x0[3] = state->x0[2], state->x0[2] = state->x0[1], state->x0[1] = state->x0[0], state->x0[0] = oldest;
}

/* KDPM2's last middle is at the time 0, which the original misses by 3e-5, because differences of squares in float say
   where it is: there is no relative precision to ask for. */
static inline void golden_compare_time(golden *g, const golden_folder *folder, const char *name, float timestep) {
    uint64_t count;
    float *reference = golden_floats(folder->golden, name, &count);
    if (reference && count == 1 && reference[0] != 0 && fabsf(reference[0]) < 1e-4f)
        golden_check(g, timestep == 0, "%s is %g, computed is %g", name, (double)reference[0], (double)timestep);
    else
        golden_compare_with(g, folder, name, &timestep, 1, 1e-6);
    free(reference);
}

static inline void golden_compare_start(golden *g, const golden_folder *folder, golden_trajectory *state,
                                        const diti_step *step, uint32_t index) {
    char name[64];
    uint64_t i;
    diti_format(name, sizeof name, "step%u.model_t", index);
    if (!golden_count(folder->golden, name)) diti_format(name, sizeof name, "step%u.t", index);
    golden_compare_time(g, folder, name, step->timestep);
    diti_format(name, sizeof name, "step%u.model_input", index);
    for (i = 0; i < state->count; i++) state->input[i] = step->input * state->x[i];
    if (golden_count(folder->golden, name))
        golden_compare_with(g, folder, name, state->input, state->count, GOLDEN_BLOCK);
}

/* The last of the noises that a step drew. */
static inline float *golden_step_noise(const golden_folder *folder, uint32_t index, uint64_t *count) {
    char name[64];
    diti_format(name, sizeof name, "step%u.noise1", index);
    if (!golden_count(folder->golden, name)) name[strlen(name) - 1] = '0';
    return golden_floats(folder->golden, name, count);
}

/* The frames that are given keep something in place of the step's latent; frame f is that of the planes f, f + frames,
 * ...
 */
typedef struct golden_hold {
    const diti_frame_step *frames; /* of this step */
    uint64_t count, pixels;
} golden_hold;

/* Truth values are bytes of a type that dit.h does not read. */
static inline bool golden_read_bytes(const golden_folder *folder, const char *name, unsigned char *out, size_t count) {
    const diti_stored_tensor *tensor = diti_checkpoint_find(folder->golden, name);
    char path[1024];
    FILE *file = tensor && tensor->size == count && golden_join(path, sizeof path, folder->path, "golden.safetensors")
                     ? fopen(path, "rb")
                     : NULL;
    bool read = file && !fseek(file, (long)tensor->offset, SEEK_SET) && fread(out, 1, count, file) == count;
    if (file) fclose(file);
    return read;
}

static inline void golden_renoise(golden *g, const golden_folder *folder, golden_trajectory *state,
                                  const golden_hold *hold, uint32_t index) {
    char name[64];
    uint64_t i, count;
    unsigned char *fresh = (unsigned char *)calloc((size_t)hold->count, 1);
    float *noise;
    diti_format(name, sizeof name, "step%u.noise0", index);
    noise = golden_floats(folder->golden, name, &count);
    if (golden_require(g, noise && count == state->count, "%s is there", name)) {
        for (i = 0; i < state->count; i++) {
            const diti_frame_step *frame = &hold->frames[i / hold->pixels % hold->count];
            state->x[i] = frame->x * state->x[i] + frame->noise * noise[i];
        }
    }
    diti_format(name, sizeof name, "step%u.x_mask", index);
    golden_require(g, golden_read_bytes(folder, name, fresh, (size_t)hold->count), "%s is there", name);
    for (i = 0; i < hold->count; i++)
        golden_check(g, (hold->frames[i].fresh != 0) == (fresh[i] != 0), "%s of frame %u", name, (unsigned)i);
    free(fresh);
    free(noise);
}

static inline bool golden_run_step(golden *g, const golden_folder *folder, golden_trajectory *state,
                                   const diti_step *step, const golden_hold *hold, uint32_t index) {
    char name[64];
    uint64_t count, noise_count, i;
    float *m, *noise, *before = (float *)malloc((size_t)state->count * sizeof(float));
    bool fits;
    memcpy(before, state->x, (size_t)state->count * sizeof(float));
    if (hold) golden_renoise(g, folder, state, hold, index);
    golden_compare_start(g, folder, state, step, index);
    noise = golden_step_noise(folder, index, &noise_count);
    diti_format(name, sizeof name, "step%u.model_output", index);
    m = golden_floats(folder->golden, name, &count);
    fits = golden_require(g,
                          m && (count == state->count || count == 2 * state->count) &&
                              (step->noise == 0 || noise_count == state->count),
                          "%s and its noise are there", name);
    if (fits) {
        golden_execute_step(state, step, m, count > state->count ? m + state->count : NULL,
                            noise_count == state->count ? noise : NULL);
        diti_format(name, sizeof name, "step%u.pred_original_sample", index);
        if (golden_count(folder->golden, name))
            golden_compare_with(g, folder, name, state->input, state->count, GOLDEN_BLOCK);
        for (i = 0; i < state->count && hold; i++)
            if (hold->frames[i / hold->pixels % hold->count].moves == 0) state->x[i] = before[i];
        diti_format(name, sizeof name, "step%u.prev_sample", index);
        golden_compare_with(g, folder, name, state->x, state->count, GOLDEN_BLOCK);
    }
    free(m);
    free(noise);
    free(before);
    return fits;
}

/* A folder may have a mask of its frames. */
static inline diti_frame_step *golden_read_frames(golden *g, const golden_folder *folder, const diti_schedule *schedule,
                                                  golden_hold *hold) {
    diti_frame_step *frames;
    float *mask = golden_floats(folder->golden, "mask", &hold->count);
    const diti_stored_tensor *latent = diti_checkpoint_find(folder->golden, "x_init");
    dit_error err = DITI_ZERO;
    if (!mask) return NULL;
    hold->pixels = latent->shape[3] * latent->shape[4];
    frames = (diti_frame_step *)malloc(schedule->count * (size_t)hold->count * sizeof *frames);
    golden_require(g, diti_schedule_frames(schedule, mask, (uint32_t)hold->count, frames, &err) == DIT_OK, "frames %s",
                   err.message);
    free(mask);
    return frames;
}

static inline void golden_run_trajectory(golden *g, const golden_folder *folder, const diti_schedule *schedule) {
    golden_trajectory state = DITI_ZERO;
    golden_hold hold = DITI_ZERO;
    diti_frame_step *frames = golden_read_frames(g, folder, schedule, &hold);
    uint32_t i;
    state.x = golden_floats(folder->golden, "x_init", &state.count);
    state.y = (float *)calloc((size_t)state.count, sizeof(float));
    state.input = (float *)calloc((size_t)state.count, sizeof(float));
    for (i = 0; i < 4; i++) state.x0[i] = (float *)calloc((size_t)state.count, sizeof(float));
    for (i = 0; i < schedule->count; i++) {
        if (frames) hold.frames = frames + i * hold.count;
        if (!golden_run_step(g, folder, &state, &schedule->steps[i], frames ? &hold : NULL, i)) break;
    }
    free(frames);
    for (i = 0; i < 4; i++) free(state.x0[i]);
    free(state.input);
    free(state.y);
    free(state.x);
}

static inline void golden_compare_alphas(golden *g, const golden_folder *folder, const diti_schedule_request *request) {
    diti_sampling sampling;
    double *table;
    float *alphas;
    uint32_t i;
    if (!golden_count(folder->golden, "alphas_cumprod") ||
        diti_sampling_resolve(folder->config, request, &sampling, NULL) < 0 || sampling.flow)
        return;
    table = (double *)malloc(sampling.train_steps * sizeof *table);
    alphas = (float *)malloc(sampling.train_steps * sizeof *alphas);
    diti_cumulative_alphas(&sampling, table);
    for (i = 0; i < sampling.train_steps; i++) alphas[i] = (float)table[i];
    free(table);
    golden_compare_with(g, folder, "alphas_cumprod", alphas, sampling.train_steps, 1e-7); /* one float rounding */
    free(alphas);
}

static inline void golden_run_scheduler(golden *g, const golden_folder *folder) {
    golden_schedule_call call;
    diti_schedule schedule = DITI_ZERO;
    dit_error err = DITI_ZERO;
    uint32_t steps = (uint32_t)golden_readme_number(folder->readme, "set_timesteps(", 0);
    if (!steps) steps = (uint32_t)golden_count(folder->golden, "tables.run.timesteps");
    golden_read_call(&call, folder);
    call.request.steps = steps;
    golden_compare_alphas(g, folder, &call.request);
    golden_compare_table(g, folder, &call, "run", steps);
    golden_compare_tables(g, folder, &call);
    if (golden_require(g, diti_schedule_make(&g->env, folder->config, &call.request, &schedule, &err) == DIT_OK,
                       "%u steps %s", steps, err.message)) {
        golden_run_trajectory(g, folder, &schedule);
    }
    diti_schedule_free(&g->env, &schedule);
}

/* --- the original DiT code --- */
static const char golden_respaced_config[] =
    "{\"_class_name\":\"DDPMScheduler\",\"timestep_spacing\":\"respaced\",\"variance_type\":\"learned_range\","
    "\"clip_sample\":false}";

/* The original's arrays begin with the last step; a step's noise and noise_v give both ends of the learned range. */
static inline void golden_compare_respaced(golden *g, const golden_folder *folder, const diti_schedule *schedule) {
    uint32_t i, n = schedule->count;
    float *alphas = (float *)malloc(n * sizeof(float)), *reference;
    uint64_t count;
    double worst = 0;
    for (i = 0; i < n; i++) {
        double sigma = (double)schedule->steps[n - 1 - i].sigma;
        alphas[i] = (float)(1 / (1 + sigma * sigma));
    }
    golden_compare_with(g, folder, "alphas_cumprod", alphas, n, 1e-6);
    reference = golden_floats(folder->golden, "posterior_log_variance_clipped", &count);
    for (i = 1; i < n && count == n && schedule->learned; i++) {
        const diti_step *step = &schedule->steps[n - 1 - i];
        double error = 2 * (log((double)step->noise) - (double)step->noise_v) - (double)reference[i];
        if (!(fabs(error) <= worst)) worst = fabs(error);
    }
    golden_check(g, count == n && worst <= 1e-5, "posterior_log_variance_clipped is off by %g", worst);
    free(reference);
    free(alphas);
}

static inline void golden_run_respaced(golden *g, const golden_folder *folder) {
    const char *argument = strstr(folder->readme, "create_diffusion(\"") + strlen("create_diffusion(\"");
    bool ddim = diti_starts_with(argument, "ddim");
    diti_schedule_request request = DITI_ZERO;
    diti_schedule schedule = DITI_ZERO;
    diti_json *config = NULL;
    dit_error err = DITI_ZERO;
    request.steps = (uint32_t)strtoul(argument + (ddim ? 4 : 0), NULL, 10);
    request.sampler = ddim ? "ddim" : NULL;
    diti_json_parse(&g->env, golden_respaced_config, strlen(golden_respaced_config), "config", &config, &err);
    if (golden_require(g, diti_schedule_make(&g->env, config, &request, &schedule, &err) == DIT_OK, "%u steps %s",
                       request.steps, err.message)) {
        golden_compare_respaced(g, folder, &schedule);
        if (golden_count(folder->golden, "x_init")) golden_run_trajectory(g, folder, &schedule);
    }
    diti_schedule_free(&g->env, &schedule);
    diti_json_free(&g->env, config);
}

/* --- Open-Sora: no configuration either, the README names the arguments --- */
static inline bool golden_is_opensora(const golden_folder *folder) {
    return folder->golden && folder->readme && diti_starts_with(folder->readme, "Open-Sora v1.") &&
           (strstr(folder->readme, "IDDPM") || strstr(folder->readme, "RFLOW sampler"));
}

/* Timesteps by name: those of IDDPM stand from the last step on. */
static inline void golden_compare_times(golden *g, const golden_folder *folder, const diti_schedule *schedule,
                                        const char *name, bool reversed) {
    uint32_t i, n = schedule->count;
    float *times = (float *)malloc(n * sizeof *times);
    for (i = 0; i < n; i++) times[i] = schedule->steps[reversed ? n - 1 - i : i].timestep;
    golden_compare_with(g, folder, name, times, n, 1e-7); /* the same floats */
    free(times);
}

static inline void golden_run_opensora(golden *g, const golden_folder *folder) {
    bool flow = strstr(folder->readme, "RFLOW") != NULL;
    const char *text =
        flow ? "{\"_class_name\":\"rflow\",\"use_timestep_transform\":true}" : "{\"_class_name\":\"iddpm\"}";
    diti_schedule_request request = DITI_ZERO;
    diti_schedule schedule = DITI_ZERO;
    diti_json *config = NULL;
    dit_error err = DITI_ZERO;
    request.steps = flow ? (uint32_t)golden_count(folder->golden, "timesteps")
                         : (uint32_t)golden_readme_number(folder->readme, "num_sampling_steps=", 0);
    request.width = (uint32_t)golden_readme_number(folder->readme, "width=", 0);
    request.height = (uint32_t)golden_readme_number(folder->readme, "height=", 0);
    request.frames = (uint32_t)golden_readme_number(folder->readme, "num_frames=", 0);
    diti_json_parse(&g->env, text, strlen(text), "config", &config, &err);
    if (golden_require(g, diti_schedule_make(&g->env, config, &request, &schedule, &err) == DIT_OK, "%u steps %s",
                       request.steps, err.message)) {
        golden_compare_times(g, folder, &schedule, flow ? "timesteps" : "timestep_map", !flow);
        if (!flow) golden_compare_respaced(g, folder, &schedule);
        if (golden_count(folder->golden, "x_init")) golden_run_trajectory(g, folder, &schedule);
    }
    diti_schedule_free(&g->env, &schedule);
    diti_json_free(&g->env, config);
}
#endif
