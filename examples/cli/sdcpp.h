/* stable-diffusion.cpp's own API of dit --serve: jobs that are asked for and fetched later (/sdcpp/v1), and its
   requests inside the prompts of other APIs, <sd_cpp_extra_args>{...}</sd_cpp_extra_args>. server.h includes it behind
   api.h. Not part of dit.h. */
#ifndef SDCPP_H
#define SDCPP_H

/* ---- Requests: https://github.com/leejet/stable-diffusion.cpp/blob/master/examples/server/api.md ---- */

static bool refuse_native(exchange *e, const char *name, const char *why) {
    answer_error(e, e->ticket->openai, 400, "%s: %s", name, why);
    return false;
}

/* "default" and "" are no names. */
static bool take_choice(exchange *e, const json_t *from, const char *name, const char **option) {
    const char *text = json_string_value(json_object_get(from, name));
    return (text && (!*text || strcmp(text, "default") == 0)) || take_member(e, from, name, option, false);
}

/* Numbers of blocks, as --skip-layers has them. */
static bool take_layers(exchange *e, const json_t *from) {
    const json_t *list = json_object_get(from, "layers"), *one;
    char text[512] = "";
    size_t i;
    json_array_foreach(list, i, one) {
        const size_t used = strlen(text);
        if (!json_is_integer(one) || sizeof text - used < 24)
            return refuse_native(e, "layers", "must be a few numbers of blocks");
        snprintf(text + used, sizeof text - used, "%s%" JSON_INTEGER_FORMAT, i ? "," : "", json_integer_value(one));
    }
    return !*text || set_text(e->ticket, &e->ticket->o.skip_blocks, text) ||
           refuse_native(e, "layers", "out of memory");
}

/* distilled_guidance is 3.5 where nobody chose it, also for models that are told none; and 3.5 is the usual one of
   those that are. */
static bool take_guidances(exchange *e, const json_t *from) {
    const json_t *slg = json_object_get(from, "slg"), *image = json_object_get(from, "img_cfg"),
                 *text = json_object_get(from, "txt_cfg");
    const double distilled = json_number_value(json_object_get(from, "distilled_guidance"));
    options *o = &e->ticket->o;
    if (json_is_number(image) && json_number_value(image) != (text ? json_number_value(text) : 7))
        return refuse_native(e, "img_cfg", "guidance has one scale, txt_cfg; leave it out");
    if (distilled != 3.5 && !take_wish(e, from, "distilled_guidance", &o->distilled)) return false;
    if (!take_member(e, from, "txt_cfg", &o->guidance, true)) return false;
    if (json_number_value(json_object_get(slg, "scale")) == 0) return true;
    return take_member(e, slg, "scale", &o->slg_scale, true) &&
           take_member(e, slg, "layer_start", &o->skip_first, true) &&
           take_member(e, slg, "layer_end", &o->skip_last, true) && take_layers(e, slg);
}

/* eta is 1 or 0 where a sampler's own noise is meant. */
static bool take_sampling(exchange *e, const json_t *from) {
    static const refused_member others[] = {{"custom_sigmas", NULL, "sample_steps and scheduler choose them"},
                                            {"shifted_timestep", NULL, "flow_shift moves the steps"},
                                            {"extra_sample_args", NULL, "none of them is understood"}};
    const double eta = json_number_value(json_object_get(from, "eta"));
    options *o = &e->ticket->o;
    if (!takes_others(e, from, others, sizeof others / sizeof others[0]) ||
        !take_choice(e, from, "sample_method", &o->sampler) || !take_choice(e, from, "scheduler", &o->schedule) ||
        !take_wish(e, from, "sample_steps", &o->steps) || !take_wish(e, from, "flow_shift", &o->shift))
        return false;
    if (o->sampler && strncmp(o->sampler, "ddim", 4) == 0 && !take_wish(e, from, "eta", &o->eta)) return false;
    if (!o->eta && eta != 0 && eta != 1) return refuse_native(e, "eta", "the sampler ddim alone takes one");
    return take_guidances(e, json_object_get(from, "guidance"));
}

static bool take_one_picture(exchange *e, const json_t *from, const char *name, field *to) {
    const json_t *value = json_object_get(from, name);
    if (!value || json_is_null(value)) return true;
    if (json_is_string(value)) return take_base64(e, name, json_string_value(value), json_string_length(value), to);
    return refuse_native(e, name, "must be a picture in base64");
}

static bool take_native_pictures(exchange *e, const json_t *from) {
    ticket *t = e->ticket;
    if (!take_one_picture(e, from, "init_image", &t->start) || !take_one_picture(e, from, "mask_image", &t->mask) ||
        !take_references(e, from, "ref_images"))
        return false;
    if (t->start.size) {
        t->o.init_image = "init_image";
        t->o.strength = "0.75";
        if (!take_member(e, from, "strength", &t->o.strength, true)) return false;
    }
    t->o.mask = t->mask.size ? "mask_image" : NULL;
    return true;
}

/* "easycache" with its options, as --cache has both. */
static bool take_cache(exchange *e, const json_t *from) {
    const char *mode = json_string_value(json_object_get(from, "cache_mode")),
               *settings = json_string_value(json_object_get(from, "cache_option"));
    char text[300];
    if (!mode || !*mode || strcmp(mode, "disabled") == 0) return true;
    if (snprintf(text, sizeof text, "%s%s%s", mode, settings && *settings ? ":" : "", settings ? settings : "") >=
        (int)sizeof text)
        return refuse_native(e, "cache_option", "it is too long");
    return set_text(e->ticket, &e->ticket->o.cache, text) || refuse_native(e, "cache_mode", "out of memory");
}

/* "hires" with its members, as --hires has them. */
static bool take_hires(exchange *e, const json_t *from) {
    static const refused_member others[] = {
        {"custom_sigmas", NULL, "steps and denoising_strength choose the steps of the second pass"}};
    return !json_is_true(json_object_get(from, "enabled")) ||
           (takes_others(e, from, others, 1) && take_wish(e, from, "steps", &e->ticket->o.hires_steps) &&
            take_upscaler(e, from, "upscaler", "scale", "target_width", "target_height"));
}

/* All members but prompt, output_format and output_compression. */
static bool take_native(exchange *e, const json_t *from) {
    static const refused_member others[] = {
        {"control_image", NULL, "the server reads no picture to follow"},
        {"ip_adapter_image", NULL, "no model here reads one; ref_images shows pictures to those that take them"},
        {"ad_model", NULL, "nothing looks for faces"},
        {"scm_mask", NULL, "cache_option has the settings of a cache"}};
    ticket *t = e->ticket;
    const json_t *metadata = json_object_get(from, "embed_image_metadata");
    if (json_is_false(metadata)) t->o.no_metadata = true;
    if (json_is_true(json_object_get(json_object_get(from, "vae_tiling_params"), "enabled"))) t->o.vae_tiling = true;
    return takes_others(e, from, others, sizeof others / sizeof others[0]) &&
           take_member(e, from, "negative_prompt", &t->o.negative_prompt, false) &&
           take_wish(e, from, "width", &t->o.width) && take_wish(e, from, "height", &t->o.height) &&
           take_member(e, from, "seed", &t->o.seed, true) && take_clip_layers(e, from, "clip_skip") &&
           take_small(e, from, "batch_count", MOST_PICTURES, &t->count) &&
           take_sampling(e, json_object_get(from, "sample_params")) && take_native_pictures(e, from) &&
           take_cache(e, from) && take_hires(e, json_object_get(from, "hires")) && take_lora_list(e, from);
}

/* A request inside the prompt of another API, which loses it. True where there is none. */
static bool take_extra_args(exchange *e) {
    static const char open[] = "<sd_cpp_extra_args>", close[] = "</sd_cpp_extra_args>";
    ticket *t = e->ticket;
    const char *begin = t->o.prompt ? strstr(t->o.prompt, open) : NULL, *end = begin ? strstr(begin, close) : NULL;
    parameter_text prompt = {0};
    json_error_t wrong;
    json_t *object;
    bool good;
    if (!begin) return true;
    object = end ? read_json(begin + sizeof open - 1, (size_t)(end - begin) - (sizeof open - 1), 0, &wrong) : NULL;
    if (!json_is_object(object)) {
        json_decref(object);
        return refuse_native(e, "sd_cpp_extra_args",
                             "must be an object of JSON between <sd_cpp_extra_args> and "
                             "</sd_cpp_extra_args>");
    }
    while (begin > t->o.prompt && begin[-1] == ' ') begin--;
    text_append(&prompt, t->o.prompt, (size_t)(begin - t->o.prompt));
    json_raw(&prompt, end + sizeof close - 1);
    good = prompt.at && set_text(t, &t->o.prompt, prompt.at) ? take_native(e, object)
                                                             : refuse_native(e, "prompt", "out of memory");
    free(prompt.at);
    json_decref(object);
    return good && finish_ticket(e);
}

/* ---- Jobs: tickets that nobody waits for ---- */

static const char *const job_states[] = {"queued", "generating", "completed", "failed", "cancelled"};

/* Pictures of jobs that are over stay as long as those of newer jobs leave room. The lock is held. */
static void forget_old_jobs(server *s) {
    uint32_t pictures = 0, k;
    uint64_t number;
    for (number = s->job_count; number > 0 && number + MOST_JOBS > s->job_count; number--) {
        ticket *t = s->jobs[(number - 1) % MOST_JOBS];
        if (!t || t->state < JOB_COMPLETED) continue;
        pictures += t->made_count;
        if (pictures <= MOST_PICTURES) continue;
        s->jobs[(number - 1) % MOST_JOBS] = NULL;
        free_ticket(t);
        pictures = MOST_PICTURES;
    }
    for (k = 0; k < MOST_JOBS; k++) { /* what was given is read */
        ticket *t = s->jobs[k];
        uint32_t i;
        if (!t || t->state < JOB_COMPLETED) continue;
        free_field(&t->start);
        free_field(&t->mask);
        for (i = 0; i < MOST_REFERENCES; i++) free_field(&t->references[i]);
    }
}

/* A job is over. The lock is held. */
static void end_job(server *s, ticket *t, job_state state, const char *why) {
    t->state = state;
    t->completed = time(NULL);
    snprintf(t->why, sizeof t->why, "%s", why);
    forget_old_jobs(s);
}

static void tell_time(parameter_text *out, const char *key, time_t value) {
    if (value) {
        json_count(out, key, (uint64_t)value);
    } else {
        json_key(out, key);
        json_raw(out, "null");
    }
}

/* The lock is held. */
static void tell_job_result(parameter_text *out, const ticket *t) {
    uint32_t i;
    json_key(out, "result");
    json_raw(out, "{");
    json_text(out, "output_format", format_name(t->kind));
    json_raw(out, ",\"images\":[");
    for (i = 0; i < t->made_count; i++) {
        json_raw(out, i ? ",{" : "{");
        json_count(out, "index", i);
        json_count(out, "seed", t->made[i].seed);
        json_raw(out, ",\"b64_json\":\"");
        base64_append(out, t->made[i].bytes, t->made[i].size);
        json_raw(out, "\"}");
    }
    json_raw(out, "]},\"error\":null");
}

/* The lock is held. */
static void answer_job(exchange *e, const ticket *t) {
    parameter_text *out = &e->answer;
    const ticket *before = e->server->first;
    uint64_t place = 1;
    char id[40];
    snprintf(id, sizeof id, "job_%llu", (unsigned long long)t->job);
    for (; before && before != t; before = before->next) place++;
    json_raw(out, "{");
    json_text(out, "id", id);
    json_text(out, "kind", "img_gen");
    json_text(out, "status", job_states[t->state]);
    json_count(out, "created", (uint64_t)t->created);
    tell_time(out, "started", t->started);
    tell_time(out, "completed", t->completed);
    json_count(out, "queue_position", t->state == JOB_QUEUED ? place : 0);
    if (t->state == JOB_GENERATING) json_number(out, "progress", (double)e->server->status.fraction);
    if (t->state == JOB_COMPLETED) {
        tell_job_result(out, t);
    } else {
        json_raw(out, ",\"result\":null,\"error\":");
        json_raw(out, t->state < JOB_COMPLETED ? "null" : "{");
        if (t->state > JOB_COMPLETED) {
            json_text(out, "code", t->state == JOB_CANCELLED ? "cancelled" : "generation_failed");
            json_text(out, "message", t->why);
            json_raw(out, "}");
        }
    }
    json_raw(out, "}");
}

/* Puts the ticket into the queue and gives it a number. */
static void enqueue_job(exchange *e) {
    server *s = e->server;
    ticket *t = e->ticket, **place;
    char id[40], url[80];
    pthread_mutex_lock(&s->lock);
    if (s->waiting >= MOST_WAITING || caught_signal) {
        pthread_mutex_unlock(&s->lock);
        answer_error(e, false, 429, "%d requests are waiting already; try again later", MOST_WAITING);
        return;
    }
    e->ticket = NULL;
    t->exchange = NULL;
    t->job = ++s->job_count;
    t->created = time(NULL);
    place = &s->jobs[(t->job - 1) % MOST_JOBS];
    free_ticket(*place); /* there are more places than requests in the queue: this one is over */
    *place = t;
    append_ticket(s, t);
    pthread_mutex_unlock(&s->lock);
    snprintf(id, sizeof id, "job_%llu", (unsigned long long)t->job);
    snprintf(url, sizeof url, "/sdcpp/v1/jobs/%s", id);
    e->status = 202;
    json_raw(&e->answer, "{");
    json_text(&e->answer, "id", id);
    json_text(&e->answer, "kind", "img_gen");
    json_text(&e->answer, "status", "queued");
    json_count(&e->answer, "created", (uint64_t)time(NULL));
    json_text(&e->answer, "poll_url", url);
    json_raw(&e->answer, "}");
}

static bool post_img_gen(exchange *e) {
    json_t *object = read_object(e, false);
    const char *format = json_string_value(json_object_get(object, "output_format"));
    const bool good = object && begin_ticket(e, false) &&
                      take_member(e, object, "prompt", &e->ticket->o.prompt, false) && take_native(e, object) &&
                      take_format(e, NULL, format) && (e->ticket->kind == STILL_PNG || take_quality(e, object)) &&
                      finish_ticket(e);
    json_decref(object);
    if (good) enqueue_job(e);
    return false;
}

static bool post_vid_gen(exchange *e) {
    answer_error(e, false, 400, "the server makes pictures; dit --frames N makes clips, on the command line");
    return false;
}

/* A job that waits leaves the queue; one that is being made ends soon. The lock is held. */
static void cancel_job(server *s, ticket *t) {
    ticket **link = &s->first;
    if (t->state == JOB_GENERATING) s->interrupt = true;
    if (t->state != JOB_QUEUED) return;
    while (*link != t) link = &(*link)->next;
    *link = t->next;
    if (s->last == &t->next) s->last = link;
    s->waiting--;
    end_job(s, t, JOB_CANCELLED, "the job was cancelled by a client");
}

/* ---- Capabilities ---- */

static void tell_names(parameter_text *out, const char *key, const char *(*name_at)(uint32_t)) {
    uint32_t i;
    json_key(out, key);
    json_raw(out, "[\"default\"");
    for (i = 0; name_at(i); i++) {
        json_raw(out, ",");
        json_quote(out, name_at(i));
    }
    json_raw(out, "]");
}

static double usual_number(const char *option, double model) { return option ? strtod(option, NULL) : model; }

/* Members that a request leaves out have these values. */
static void tell_native_defaults(parameter_text *out, const options *o, const dit_model_info *info) {
    json_raw(
        out,
        "{\"prompt\":\"\",\"negative_prompt\":\"\",\"clip_skip\":-1,\"strength\":0.75,\"seed\":-1,\"batch_count\":1,"
        "\"auto_resize_ref_image\":true,\"increase_ref_index\":false,\"control_strength\":1");
    json_number(out, "width", usual_number(o->width, info->default_width));
    json_number(out, "height", usual_number(o->height, info->default_height));
    json_raw(
        out,
        ",\"sample_params\":{\"scheduler\":\"default\",\"sample_method\":\"default\",\"eta\":null,\"shifted_timestep\":0,"
        "\"flow_shift\":null");
    json_number(out, "sample_steps", usual_number(o->steps, info->default_steps));
    json_raw(out, ",\"guidance\":{\"img_cfg\":null,\"distilled_guidance\":3.5");
    json_number(out, "txt_cfg", usual_number(o->guidance, (double)info->default_guidance));
    json_raw(out, ",\"slg\":{\"layers\":[7,8,9],\"layer_start\":0.01,\"layer_end\":0.2,\"scale\":0}}},"
                  "\"hires\":{\"enabled\":false,\"upscaler\":\"Latent\",\"scale\":2,\"target_width\":0,"
                  "\"target_height\":0,\"steps\":0,\"denoising_strength\":0.7,\"custom_sigmas\":[],"
                  "\"upscale_tile_size\":128},\"vae_tiling_params\":{\"enabled\":false},\"cache_mode\":\"disabled\","
                  "\"cache_option\":\"\",\"scm_mask\":\"\",\"output_format\":\"png\",\"output_compression\":95}");
}

static void tell_formats(parameter_text *out) {
    size_t i;
    json_raw(out, "[");
    for (i = 0; i < STILL_ENDINGS; i++) {
        const char *name = format_name(still_endings[i].kind);
        if (!still_endings[i].can || strcmp(name, still_endings[i].ending + 1) != 0) continue;
        if (i) json_raw(out, ",");
        json_quote(out, name);
    }
    json_raw(out, "]");
}

static const char native_features[] =
    "{\"init_image\":true,\"mask_image\":true,\"control_image\":false,\"ip_adapter_image\":false,\"ref_images\":true,"
    "\"lora\":true,\"vae_tiling\":true,\"hires\":true,\"cache\":true,\"cancel_queued\":true,\"cancel_generating\":true}";

/* All modes' members, and beside them those of the one mode, as older clients read them. */
static void answer_capabilities(exchange *e) {
    static const char *const modes[] = {"", "_by_mode"};
    static const dit_model_info unknown = {0};
    server *s = e->server;
    parameter_text *out = &e->answer;
    char stem[256];
    const found_model *m = usual_model(e, stem);
    size_t i;
    json_raw(out, "{\"model\":{");
    json_text(out, "name", m ? m->name : stem);
    json_text(out, "stem", stem);
    json_text(out, "path", m ? m->name : stem);
    json_raw(out, "},\"current_mode\":\"img_gen\",\"supported_modes\":[\"img_gen\"]");
    for (i = 0; i < 2; i++) {
        char key[32];
        snprintf(key, sizeof key, "defaults%s", modes[i]);
        json_key(out, key);
        if (i) json_raw(out, "{\"img_gen\":");
        tell_native_defaults(out, &s->usual, m ? &m->info : &unknown);
        if (i) json_raw(out, "}");
        snprintf(key, sizeof key, "output_formats%s", modes[i]);
        json_key(out, key);
        if (i) json_raw(out, "{\"img_gen\":");
        tell_formats(out);
        if (i) json_raw(out, "}");
        snprintf(key, sizeof key, "features%s", modes[i]);
        json_key(out, key);
        if (i) json_raw(out, "{\"img_gen\":");
        json_raw(out, native_features);
        if (i) json_raw(out, "}");
    }
    tell_names(out, "samplers", dit_sampler_name);
    tell_names(out, "schedulers", dit_schedule_name);
    json_key(out, "loras");
    tell_lora_names(out, s->usual.lora_dir);
    json_raw(out, ",\"upscalers\":[{\"name\":\"None\"}");
    tell_upscalers(out, false, "}");
    tell_upscalers(out, true, "}");
    json_raw(out, "],\"limits\":{\"min_width\":16,\"max_width\":16384,\"min_height\":16,\"max_height\":16384");
    json_count(out, "max_batch_count", MOST_PICTURES);
    json_count(out, "max_queue_size", MOST_WAITING);
    json_raw(out, "}}");
}
#endif
