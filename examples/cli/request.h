/* The request as the library takes it (describe_job), and all of its checks in their order (check_request). Include it
   after hires.h. Not part of dit.h. */
#ifndef REQUEST_H
#define REQUEST_H

/* The frames a second that a model is told. A model whose clips have fewer than 24 is told 24 where a clip passes as
   fast as its own, of which it leaves some out. A still has no rate: 0 is the model's word for that. */
static float told_fps(const app *a) {
    const double own = (double)a->info.default_fps, fps = own < 24 ? a->r.fps * 24 / own : a->r.fps;
    return a->r.frames == 1 ? 0 : (float)(fps > 1000 ? 1000 : fps);
}

/* Pictures and clips that are given: to begin with, or to take frames from. */
static void describe_given(const app *a, dit_job_desc *desc) {
    if ((a->r.start.rgba || a->r.end.rgba) && !(a->r.reference_count && a->info.holds_frames)) {
        desc->init_image = a->r.start_images;
        desc->init_count = a->r.end.rgba ? 2 : 0;
    }
    if (begins_with(a) && a->r.video.count) {
        desc->init_image = a->r.video.images;
        desc->init_count = a->r.video.count;
    }
    desc->mask = a->r.mask.rgba ? &a->r.mask_image : NULL;
    if (a->info.takes_control) {
        desc->control_image = a->r.video.images;
        desc->control_count = a->r.video.count;
        desc->mask = a->r.masks.images;
        desc->mask_count = a->r.masks.count;
        desc->control_strength = a->r.numbers.control_strength; /* the library's 0 is its default */
        if (desc->control_strength == 0) desc->control_strength = 1e-30f;
    }
    if (a->r.control.rgba && a->info.control_count) {
        desc->adapters = &a->r.control_net;
        desc->adapter_count = a->r.control_net.weight != 0;
    } else if (a->r.control.rgba) {
        desc->control_image = &a->r.control_image;
    }
    desc->cache = a->o.keep_references ? "references" : a->o.cache;
    if (a->r.reference_count) {
        desc->references = a->r.references;
        desc->reference_count = a->r.reference_count;
    }
    desc->mask_strategy = a->o.mask_strategy                             ? a->o.mask_strategy
                          : a->r.reference_count && a->info.holds_frames ? a->r.strategy
                                                                         : NULL;
    if (!a->r.frames) return;
    desc->frame_count = a->r.frames;
    desc->fps = told_fps(a);
    if (a->r.loops < 2) return;
    desc->loop_count = a->r.loops;
    desc->loop = a->loop;
    desc->loop_frames = a->r.loop_frames;
    desc->loop_edit = a->r.numbers.loop_edit;
}

/* Whether the picture is looked at before it is finished. */
static bool wants_previews(const app *a) {
    return a->o.preview_path || (a->o.preview && a->screen.kind != SCREEN_NONE) || a->follow.previews;
}

/* The request of picture i, of the pass that is made now; noise is filled in when the user brings it, or with what a
   second pass begins with. */
static void describe_job(const app *a, uint32_t i, dit_job_desc *desc, dit_tensor *noise) {
    const job_numbers *n = &a->r.numbers;
    memset(desc, 0, sizeof *desc);
    desc->model = a->model;
    desc->prompt = a->o.prompt;
    desc->negative_prompt = a->o.negative_prompt;
    desc->prompt_weights = !a->o.plain_prompt;
    if (a->r.texts[1].bytes) {
        desc->prompt = desc->negative_prompt = NULL;
        desc->negative_conditioning = a->r.texts[0].bytes;
        desc->negative_conditioning_size = a->r.texts[0].size;
        desc->conditioning = a->r.texts[1].bytes;
        desc->conditioning_size = a->r.texts[1].size;
    }
    if (a->loop_prompt) desc->prompt = a->loop_prompt;
    desc->class_labels = a->info.class_count ? &a->r.class_label : NULL;
    desc->width = a->r.width;
    desc->height = a->r.height;
    desc->steps = a->r.steps;
    desc->guidance.scale = a->r.guidance;
    desc->guidance.low_scale = n->low_guidance;
    desc->guidance.sound_scale = n->sound_guidance;
    desc->guidance.perturb = n->stg_scale;
    desc->guidance.isolate = n->modality_scale;
    desc->guidance.distilled = n->distilled;
    desc->guidance.rescale = n->rescale;
    desc->guidance.skip_layer = n->slg_scale;
    desc->guidance.skip_first = n->skip_first;
    desc->guidance.skip_last = n->skip_last;
    desc->guidance.skip_blocks = a->r.skip_blocks;
    desc->guidance.dynamic = a->o.dynamic;
    desc->guidance.first = n->guided_first;
    desc->guidance.last = n->guided_last;
    desc->guidance.project = a->o.apg_eta ? 1 - n->apg_eta : 0;
    desc->guidance.norm_limit = n->apg_norm;
    desc->guidance.length_limit = n->length_limit;
    desc->eta = n->eta;
    desc->shift = n->shift;
    desc->clip_skip = a->r.clip_skip;
    describe_given(a, desc);
    desc->strength = n->strength;
    desc->sampler = a->o.sampler;
    desc->schedule = a->o.schedule;
    desc->seed = a->r.seed + i;
    desc->rng = a->r.rng;
    if (wants_previews(a)) {
        const bool cheap = a->preview_maker ? a->preview_maker != DIT_PREVIEW_VAE : a->o.taesd != NULL;
        desc->preview = a->preview_maker;
        desc->preview_interval = a->r.preview_interval ? a->r.preview_interval
                                 : cheap               ? 1
                                                       : (a->r.steps + 4) / 5; /* decoding takes about a step */
    }
    desc->vae_tile = a->r.vae_tile;
    desc->no_sound = !makes_sound(a);
    desc->split = a->o.split;
    desc->resume_on_loss = a->o.resume;
    desc->keep_state = a->o.resumable;
    desc->state = a->resume.state;
    desc->state_size = a->resume.state_size;
    desc->progress.func = on_progress;
    desc->progress.user = (void *)(uintptr_t)a;
    if (a->r.hires.second) describe_second(a, desc, noise);
    if (!a->r.noise.data || a->r.hires.second) return;
    memset(noise, 0, sizeof *noise);
    noise->name = "noise";
    noise->type = DIT_TYPE_F32;
    noise->rank = a->r.noise.rank;
    memcpy(noise->shape, a->r.noise.shape, sizeof noise->shape);
    noise->shape[0] = 1;
    noise->data = a->r.noise.data + i * (a->r.noise.count / a->r.count);
    desc->inputs = noise;
    desc->input_count = 1;
}

/* Whether something is wanted that not every model can do. */
static bool wants_more(const app *a) {
    const options *o = &a->o;
    bool more = o->init_image || o->references || o->control_image || o->keep_references || o->cache ||
                o->skip_blocks || o->clip_skip || o->conditioning || a->r.frames;
    size_t i;
    for (i = 0; i < NUMBER_COUNT; i++) more = more || number_text(o, &number_table[i]);
    return more;
}

static dit_result ask_job(app *a) {
    dit_job_desc job;
    dit_tensor noise;
    dit_memory memory;
    describe_job(a, 0, &job, &noise);
    job.model = a->headers;
    return dit_job_memory(NULL, &job, &memory, &a->err);
}

/* Whether the second pass of --hires is possible. Without an encoder the latent is scaled, unless the user says how. */
static int check_second_pass(app *a) {
    dit_result result;
    if (!a->r.hires.wanted) return EXIT_GOOD;
    use_pass(a, true);
    result = ask_job(a);
    use_pass(a, false);
    if (result == DIT_ERROR_UNSUPPORTED_MODEL && !a->o.hires_upscaler && !a->r.hires.latents) {
        a->r.hires.upscaler = UPSCALE_LATENT;
        if (!make_pass_room(a)) return complain(EXIT_MEMORY, "out of memory; try a smaller --hires-scale");
        return check_second_pass(a);
    }
    return result == DIT_OK ? EXIT_GOOD : dit_failed(a, result, "--hires");
}

/* Finds early what the library would refuse only when the weights are loaded. */
static int check_job(app *a) {
    const dit_result result = wants_more(a) ? ask_job(a) : DIT_OK;
    return result == DIT_OK ? check_second_pass(a) : dit_failed(a, result, NULL);
}

/* A prompt "|0|first|2|other": the part for a->loop, as Open-Sora writes prompts of clips that continue each other.
   Other prompts are the same in all. */
static int choose_prompt(app *a) {
    const char *p = a->o.prompt, *begin = NULL, *end = NULL, *text;
    char *after;
    free(a->loop_prompt);
    a->loop_prompt = NULL;
    if (a->r.loops < 2 || !p || strncmp(p, "|0|", 3) != 0) return EXIT_GOOD;
    while (*p == '|') {
        const unsigned long loop = strtoul(p + 1, &after, 10);
        if (p[1] < '0' || p[1] > '9' || *after != '|') {
            return complain(EXIT_USAGE, "--prompt: the number of a clip and | must follow each |, as in "
                                        "\"|0|a fox|2|a hare\"");
        }
        text = after + 1;
        p = text + strcspn(text, "|");
        if (loop <= a->loop) begin = text, end = p;
    }
    a->loop_prompt = malloc((size_t)(end - begin) + 1);
    if (!a->loop_prompt) return complain(EXIT_MEMORY, "out of memory");
    memcpy(a->loop_prompt, begin, (size_t)(end - begin));
    a->loop_prompt[end - begin] = 0;
    return EXIT_GOOD;
}

static int check_request(app *a) {
    int code = check_prompts(&a->o);
    if (!code) code = check_numbers(a);
    if (!code) code = check_outputs(a);
    if (!code && !a->headers) code = check_model_path(a);
    if (!code) code = check_model(a);
    if (!code) code = choose_negative(a);
    if (!code && a->o.encode_prompt) return check_overwriting(a);
    if (!code) code = read_conditioning(a);
    if (!code) code = read_given(a);
    if (!code) code = check_hires(a);
    use_pass(a, a->r.hires.wanted); /* the size of what is written */
    if (!code) code = check_results(a);
    use_pass(a, false);
    if (!code) code = check_noise(a);
    if (!code) code = choose_prompt(a);
    if (!code) code = check_overwriting(a);
    if (!code) code = check_job(a);
    return code;
}
#endif
