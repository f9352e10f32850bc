/* Context, model and job, made once and kept for the next request; where device memory runs out, tried again with less
   of it. Include it after request.h and ahead.h. Not part of dit.h. */
#ifndef PREPARE_H
#define PREPARE_H

static void load_pipeline_cache(app *a) {
    char path[PATH_SIZE];
    if (cache_path(a->o.device, path, sizeof path)) a->cache = load_cache(path, &a->cache_size);
    if (mark_path(a->o.device, path, sizeof path)) a->mark = read_file(path, &a->mark_size);
}

static void keep_mark(const void *mark, size_t size, void *user) {
    char path[PATH_SIZE];
    if (mark_path(((app *)user)->o.device, path, sizeof path)) save_mark(path, mark, size);
}

/* Keeps the cache when it has changed; failing to keep it costs time only, so it is no error. */
static void keep_pipeline_cache(app *a) {
    char path[PATH_SIZE];
    size_t size = 0;
    unsigned char *blob = NULL;
    dit_result result = DIT_ERROR_INVALID_ARGUMENT;
    int i;
    if (!a->context) return;
    for (i = 0; i < 3 && result == DIT_ERROR_INVALID_ARGUMENT; i++) { /* a driver's data may grow between both calls */
        if (dit_context_save_cache(a->context, NULL, &size, NULL) != DIT_OK || size == 0) break;
        free(blob);
        blob = malloc(size);
        result = blob ? dit_context_save_cache(a->context, blob, &size, NULL) : DIT_ERROR_OUT_OF_HOST_MEMORY;
    }
    if (result == DIT_OK && (size != a->cache_size || memcmp(blob, a->cache, size) != 0) &&
        cache_path(a->o.device, path, sizeof path))
        save_cache(path, blob, size);
    free(blob);
}

static int open_context(app *a) {
    dit_context_desc desc = {0};
    dit_result result;
    load_pipeline_cache(a);
    desc.devices = a->o.device;
    desc.logger.func = log_message;
    desc.logger.max_level = a->o.quiet ? 0 : a->o.verbose ? 3 : 1;
    desc.logger.user = a;
    if (a->o.quiet) desc.logger.func = NULL;
    desc.progress.func = on_progress;
    desc.progress.user = a;
    desc.worker.run = lend_thread;
    desc.device_memory_limit = a->r.device_memory;
    desc.cache = a->cache;
    desc.cache_size = a->cache_size;
    desc.marker.func = keep_mark;
    desc.marker.user = a;
    desc.mark = a->mark;
    desc.mark_size = a->mark_size;
    desc.trace = a->o.trace != NULL;
    desc.tune = a->o.tune;
    result = dit_context_create(&desc, &a->context, &a->err);
    return result == DIT_OK ? EXIT_GOOD : dit_failed(a, result, a->o.device ? "--device" : NULL);
}

static dit_result load_model(app *a) {
    dit_model_desc desc = describe_model(a);
    desc.progress.func = on_progress;
    desc.progress.user = a;
    return dit_model_load(a->context, &desc, &a->model, &a->err);
}

static void tell_split(app *a, const dit_job_desc *desc) {
    dit_memory memory;
    if (dit_job_memory(a->context, desc, &memory, NULL) != DIT_OK || memory.seconds <= 0) return;
    close_line(a);
    fprintf(stderr, "dit: split %s, %.3g s a picture predicted\n", memory.split, memory.seconds);
}

/* A line for each device that helps. */
static void tell_shares(app *a) {
    dit_share shares[16];
    dit_device_info devices[16];
    uint32_t count = 16, all = 16, i;
    if (dit_job_shares(a->job, shares, &count, NULL) != DIT_OK || count < 2 ||
        dit_context_devices(a->context, devices, &all, NULL) != DIT_OK)
        return;
    close_line(a);
    for (i = 0; i < count && shares[i].device < all; i++)
        fprintf(stderr, "dit: device %u, %s: %s; %.0f %% of the work, sends %.2f MB a step\n", shares[i].device,
                devices[shares[i].device].name, shares[i].work, 100.0 * (double)shares[i].part,
                (double)shares[i].step_bytes / 1e6);
}

/* The text of a plan, without its spaces; freed with free, NULL when it cannot be read. */
static char *plan_text(const char *split) {
    size_t size = 0, i, length = 0;
    char *text;
    if (*split == '{') return strdup(split);
    text = (char *)read_file(split + 1, &size);
    for (i = 0; text && i < size; i++)
        if (!isspace((unsigned char)text[i])) text[length++] = text[i];
    if (text) text[length] = 0;
    return text;
}

/* Keeps how the job is split, where the picture depends on it: sums of ring and tensor are added in another order, the
   others make another picture. */
static void keep_split(app *a, const dit_job_desc *desc) {
    static const char *const changing[] = {"ring", "tensor", "pipefusion", "int8"};
    dit_memory memory;
    size_t i;
    free(a->split);
    a->split = NULL;
    if (!desc->split || dit_job_memory(a->context, desc, &memory, NULL) != DIT_OK) return;
    for (i = 0; i < sizeof changing / sizeof changing[0] && !a->split; i++)
        if (strstr(memory.split, changing[i]))
            a->split = strchr("@{", *desc->split) ? plan_text(desc->split) : strdup(memory.split);
}

static dit_result create_job(app *a) {
    dit_job_desc desc;
    dit_tensor noise;
    dit_memory memory;
    dit_result result;
    describe_job(a, 0, &desc, &noise);
    if (a->o.verbose && dit_job_memory(a->context, &desc, &memory, NULL) == DIT_OK) {
        close_line(a);
        fprintf(stderr, "dit: device memory: %.1f MB weights, %.1f MB activations, %.1f MB peak; host %.1f MB\n",
                (double)memory.weights / 1e6, (double)memory.activations / 1e6, (double)memory.peak / 1e6,
                (double)memory.host / 1e6);
    }
    if (desc.split && !a->o.quiet) tell_split(a, &desc);
    keep_split(a, &desc);
    result = dit_job_create(a->context, &desc, &a->job, &a->err);
    if (result == DIT_OK && desc.split && !a->o.quiet) tell_shares(a);
    return result;
}

/* ---- Prompts that the CPU encodes: on a context of their own, before the other one is made ---- */

/* An index for dit_context_desc.devices; false: the CPU has none. */
static bool find_cpu_device(char *out, size_t size) {
    dit_device_info devices[16];
    uint32_t count = 16, i;
    if (dit_device_list(devices, &count, NULL) != DIT_OK) return false;
    for (i = 0; i < count; i++) {
        if (devices[i].type != VK_PHYSICAL_DEVICE_TYPE_CPU || strcmp(devices[i].rung, "none") == 0) continue;
        return snprintf(out, size, "%u", i) > 0;
    }
    return false;
}

/* Both prompts, by the text encoders alone, in a context. */
static dit_result encode_prompts(app *a, dit_context *context, dit_model_desc *parts) {
    dit_model *texts = NULL;
    dit_result result;
    parts->parts = TEXT_PARTS;
    parts->progress.func = on_progress;
    parts->progress.user = a;
    result = dit_model_load(context, parts, &texts, &a->err);
    if (result == DIT_OK) result = encode_prompt(a, context, texts, a->o.prompt, &a->r.texts[1]);
    if (result == DIT_OK) result = encode_prompt(a, context, texts, a->o.negative_prompt, &a->r.texts[0]);
    dit_model_destroy(texts);
    return result;
}

static int encode_on_cpu(app *a) {
    dit_context_desc desc = {0};
    dit_model_desc parts = describe_model(a);
    dit_context *cpu = NULL;
    char device[16];
    dit_result result;
    if (!a->o.clip_on_cpu || a->info.class_count || a->o.conditioning) return EXIT_GOOD;
    if (!find_cpu_device(device, sizeof device))
        return complain(EXIT_DEVICE, "--clip-on-cpu: the CPU has no Vulkan device; mesa-vulkan-drivers brings one, "
                                     "--offload-to-cpu needs none");
    desc.devices = device;
    desc.logger.func = a->o.quiet ? NULL : log_message;
    desc.logger.max_level = a->o.verbose ? 3 : 1;
    desc.logger.user = a;
    parts.weight_budget = 0;
    parts.release_text_encoders = false;
    desc.progress.func = on_progress;
    desc.progress.user = a;
    result = dit_context_create(&desc, &cpu, &a->err);
    if (result == DIT_OK) result = encode_prompts(a, cpu, &parts);
    dit_context_destroy(cpu);
    return result == DIT_OK ? EXIT_GOOD : dit_failed(a, result, "--clip-on-cpu");
}

/* --encode-prompt: the prompt, then the negative one, for --conditioning. */
static int write_conditioning(app *a) {
    const text_buffer *blobs = a->r.texts;
    dit_model_desc parts = describe_model(a);
    dit_result result;
    output_file out;
    int code = encode_on_cpu(a);
    if (!code && !blobs[1].bytes) {
        code = open_context(a);
        result = code ? DIT_OK : encode_prompts(a, a->context, &parts);
        if (result != DIT_OK) code = dit_failed(a, result, NULL);
    }
    if (code) return code;
    if (!output_open(&out, a->o.encode_prompt) ||
        !output_close(&out, fwrite(blobs[1].bytes, 1, blobs[1].size, out.file) == blobs[1].size &&
                                fwrite(blobs[0].bytes, 1, blobs[0].size, out.file) == blobs[0].size))
        return output_failed(a, a->o.encode_prompt);
    close_line(a);
    if (!a->o.quiet)
        printf("%s  %llu bytes\n", a->o.encode_prompt, (unsigned long long)(blobs[0].size + blobs[1].size));
    fflush(stdout);
    return EXIT_GOOD;
}

/* ---- When device memory runs out: try again with less of it ---- */

/* The memory that model and job would take with the request as it is; false: they are impossible. */
static bool would_take(const app *a, dit_memory *out) {
    dit_model_desc desc = describe_model(a);
    dit_model *model = NULL;
    dit_job_desc job;
    dit_tensor noise;
    bool good;
    desc.dry_run = true;
    if (dit_model_load(a->context, &desc, &model, NULL) != DIT_OK) return false;
    describe_job(a, 0, &job, &noise);
    job.model = model;
    good = dit_job_memory(a->context, &job, out, NULL) == DIT_OK;
    dit_model_destroy(model);
    return good;
}

/* The largest tiles that help. */
static bool relieve_with_tiles(app *a, const dit_memory *before) {
    dit_memory after;
    for (a->r.vae_tile = 512; a->r.vae_tile >= 128; a->r.vae_tile /= 2) {
        if (would_take(a, &after) && after.activations < before->activations) return true;
    }
    a->r.vae_tile = 0;
    return false;
}

static bool relieve_of_encoders(app *a, const dit_memory *before) {
    dit_memory after;
    a->r.offload = true;
    if (would_take(a, &after) && after.weights < before->weights) return true;
    a->r.offload = false;
    return false;
}

/* A smaller budget for weights: what the device has room for, then three quarters of it, again and again, as long as
   the model can do with that. */
static bool relieve_of_weights(app *a, const dit_memory *before) {
    uint64_t last = a->r.weight_budget ? a->r.weight_budget : before->weights, next = last / 4 * 3, room;
    dit_device_info device = {0};
    dit_memory after;
    int i;
    dit_context_device(a->context, &device, NULL);
    room = a->r.device_memory ? a->r.device_memory : device.memory / 5 * 4;
    room = room > before->activations ? room - before->activations : 0;
    if (!a->r.weight_budget && room < next) next = room;
    for (i = 0; i < 6; i++) {
        a->r.weight_budget = next;
        if (next && would_take(a, &after)) break;
        next += (last - next) / 2;
    }
    if (i < 6 && next < last - last / 50) return true;
    a->r.weight_budget = last;
    return false;
}

/* Changes the request so that it takes less device memory; returns the change as the user is told it, NULL: nothing is
   left to try. */
static const char *relieve(app *a) {
    dit_memory before;
    bool streams = a->r.weight_budget != 0;
    if (!would_take(a, &before)) return NULL;
    if (a->model && !a->r.vae_tile && relieve_with_tiles(a, &before)) return "decoding in tiles (--vae-tiling)";
    forget_texts(a);
    dit_model_destroy(a->model);
    a->model = NULL;
    if (!a->r.offload && relieve_of_encoders(a, &before))
        return "text encoders off the device while they do not read (--offload-to-cpu)";
    if (!relieve_of_weights(a, &before)) return NULL;
    return streams && !a->o.verbose ? "" : "weights read from the file while it runs (--weight-budget)";
}

/* Smaller and smaller tiles for a decoder that needs a larger buffer than the device binds, which its message says by
   naming vae_tile; returns the change as the user is told it, NULL: no tile is left to try. */
static const char *fit_in_buffers(app *a) {
    uint32_t side = a->r.width > a->r.height ? a->r.width : a->r.height;
    uint32_t tile = a->r.vae_tile ? a->r.vae_tile / 2 : 512;
    while (tile >= side) tile /= 2;
    if (!a->model || !strstr(a->err.message, "vae_tile") || tile < 64) return NULL;
    a->r.vae_tile = tile;
    return "decoding in tiles (--vae-tiling)";
}

/* The plan of the picture before serves for the next one that has its shape. */
static dit_result plan_job(app *a) {
    dit_job_desc desc;
    dit_tensor noise;
    take_texts(a);
    if (a->job) {
        describe_job(a, 0, &desc, &noise);
        if (dit_job_restart(a->job, &desc, NULL) == DIT_OK) return DIT_OK;
        dit_job_destroy(a->job);
        a->job = NULL;
    }
    return create_job(a);
}

static int load_and_plan(app *a) {
    const uint32_t asked_tile = a->r.vae_tile;
    const char *relief = NULL;
    dit_result result;
    do {
        result = a->model ? DIT_OK : load_model(a);
        if (result == DIT_OK) result = plan_job(a);
        if (result == DIT_ERROR_OUT_OF_DEVICE_MEMORY && a->other_job) { /* of the other pass, which is planned again */
            dit_job_destroy(a->other_job);
            a->other_job = NULL;
            result = plan_job(a);
        }
        relief = result == DIT_ERROR_OUT_OF_DEVICE_MEMORY ? relieve(a)
                 : result == DIT_ERROR_UNSUPPORTED_DEVICE ? fit_in_buffers(a)
                                                          : NULL;
        if (relief && *relief && !a->o.quiet) {
            close_line(a);
            fprintf(stderr, "dit: %s; trying again with %s\n",
                    result == DIT_ERROR_OUT_OF_DEVICE_MEMORY ? "device memory ran out"
                                                             : "the device's buffers are too small for the decoder",
                    relief);
        }
    } while (relief);
    if (a->r.vae_tile != asked_tile) a->relief.vae_tile = a->r.vae_tile;
    a->relief.weight_budget = a->r.weight_budget;
    a->relief.offload = a->r.offload;
    return result == DIT_OK ? EXIT_GOOD : dit_failed(a, result, NULL);
}

static size_t latent_values(const app *a) {
    return (size_t)a->info.latent_channels * a->latent_frames * (a->r.width / a->info.latent_factor) *
           (a->r.height / a->info.latent_factor);
}

/* Steps and guidance that nobody asked for are the model's. */
static void take_defaults(app *a) {
    if (a->r.steps == 0) a->r.steps = a->info.default_steps;
    if (a->r.guidance > 0) return;
    a->r.guidance = a->info.default_guidance;
    if (!a->o.low_guidance) a->r.numbers.low_guidance = a->info.default_low_guidance;
    if (!a->o.sound_guidance && a->r.guidance > 1) a->r.numbers.sound_guidance = a->info.default_sound_guidance;
}

static int prepare(app *a) {
    double begin = now();
    int code;
    a->latent_frames = a->r.frames ? a->r.frames : 1; /* no more than these */
    a->r.asked_width = a->r.width;
    a->r.asked_height = a->r.height;
    use_pass(a, a->r.hires.wanted); /* room for the larger size */
    a->latent_room = latent_values(a);
    a->rgba = malloc((size_t)a->r.width * a->r.height * 4);
    use_pass(a, false);
    if (!a->r.hires.wanted) {
        dit_job_destroy(a->other_job);
        a->other_job = NULL;
    }
    if (a->o.latent_out) a->latents = calloc(a->r.count, a->latent_room * sizeof(float));
    if (!a->rgba || (a->o.latent_out && !a->latents))
        return complain(EXIT_MEMORY, "out of memory; try a smaller -W and -H");
    take_defaults(a);
    code = encode_on_cpu(a);
    if (!code && !a->context) code = open_context(a);
    if (!code) tell_other_device(a);
    if (!code) code = read_resume(a);
    if (!code) code = load_and_plan(a);
    if (!code) tell_resume(a);
    close_line(a);
    a->took.ready = now() - begin;
    if (!code && a->o.verbose)
        fprintf(stderr, "dit: %s %s from %s, ready after %.2f s\n", a->info.family, a->info.variant, a->model_path,
                now() - begin);
    return code;
}
#endif
