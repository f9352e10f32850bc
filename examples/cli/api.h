/* Requests to dit --serve and their answers: OpenAI's images (generations, edits, models) and
   AUTOMATIC1111's txt2img, img2img, progress, interrupt, options, sd-models, samplers and schedulers. A request's
   members become the options of the command line, which are checked where those are. server.h includes it. Not part of
   dit.h. */
#ifndef API_H
#define API_H
#include "queue.h"

/* ---- Answers ---- */

/* As the API of the path writes errors. */
static void answer_error(exchange *e, bool openai, unsigned status, const char *format, ...) {
    char text[2048];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    free(e->answer.at);
    memset(&e->answer, 0, sizeof e->answer);
    e->status = status;
    json_raw(&e->answer, openai ? "{\"error\":{" : "{");
    if (openai) {
        json_text(&e->answer, "message", text);
        json_text(&e->answer, "type", status < 500 ? "invalid_request_error" : "server_error");
        json_raw(&e->answer, ",\"param\":null,\"code\":null}");
    } else {
        json_text(&e->answer, "error",
                  status == 404   ? "Not Found"
                  : status == 405 ? "Method Not Allowed"
                  : status < 500  ? "Bad Request"
                                  : "Failure");
        json_text(&e->answer, "detail", text);
    }
    json_raw(&e->answer, "}");
}

/* The exit code of the command line, as a client is told it. */
static unsigned status_of(int code) {
    return code == EXIT_USAGE ? 400 : code >= 128 ? 409 : code == EXIT_MEMORY ? 507 : code == EXIT_DEVICE ? 503 : 500;
}

/* ---- Members of a request ---- */

/* A member that becomes an option: a text, or a number as text. False: the answer says what is wrong. Absent members
   and null are the same. */
static bool take_member(exchange *e, const json_t *from, const char *name, const char **option, bool number) {
    const json_t *value = json_object_get(from, name);
    char digits[40] = "";
    if (!value || json_is_null(value)) return true;
    if (number && json_is_integer(value))
        snprintf(digits, sizeof digits, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    if (number && json_is_real(value)) snprintf(digits, sizeof digits, "%.9g", json_real_value(value));
    if (number && json_is_string(value) && strspn(json_string_value(value), "0123456789") == json_string_length(value))
        snprintf(digits, sizeof digits, "%s", json_string_value(value)); /* too large for a number of jansson */
    if (number ? !digits[0] : !json_is_string(value)) {
        answer_error(e, e->ticket->openai, 400, "%s must be a %s", name, number ? "number" : "text");
        return false;
    }
    if (set_text(e->ticket, option, digits[0] ? digits : json_string_value(value))) return true;
    answer_error(e, e->ticket->openai, 507, "out of memory");
    return false;
}

/* A number above 0: clients send others for what they leave alone. */
static bool take_wish(exchange *e, const json_t *from, const char *name, const char **option) {
    const json_t *value = json_object_get(from, name);
    if (json_is_number(value) && json_number_value(value) <= 0) return true;
    return take_member(e, from, name, option, true);
}

/* A whole number from 1 to most, which may be written as 2.0; *out stays where it is absent. */
static bool take_small(exchange *e, const json_t *from, const char *name, uint32_t most, uint32_t *out) {
    const json_t *value = json_object_get(from, name);
    const double number = json_number_value(value);
    if (!value || json_is_null(value)) return true;
    if (!(number >= 1 && number <= most) || number != floor(number)) {
        answer_error(e, e->ticket->openai, 400, "%s must be a whole number from 1 to %u", name, most);
        return false;
    }
    *out = (uint32_t)number;
    return true;
}

/* A picture in base64, with or without "data:image/png;base64," in front. */
static bool take_base64(exchange *e, const char *name, const char *text, size_t length, field *out) {
    const char *comma = length > 5 && strncmp(text, "data:", 5) == 0 ? (const char *)memchr(text, ',', length) : NULL;
    size_t size = 0;
    unsigned char *bytes;
    if (comma) length -= (size_t)(comma + 1 - text), text = comma + 1;
    bytes = base64_read(text, length, &size);
    if (bytes && size && grow_field(out, bytes, size)) return free(bytes), true;
    free(bytes);
    answer_error(e, e->ticket->openai, 400, "%s must be a picture in base64", name);
    return false;
}

/* Names for the references that a ticket has. */
static bool list_references(exchange *e) {
    ticket *t = e->ticket;
    char names[16 * MOST_REFERENCES] = "";
    uint32_t i;
    for (i = 0; i < t->reference_count; i++)
        snprintf(names + strlen(names), sizeof names - strlen(names), "%simage %u", i ? "|" : "", i + 1);
    if (!i || set_text(t, &t->o.references, names)) return true;
    answer_error(e, t->openai, 507, "out of memory");
    return false;
}

/* A list of pictures that the picture is made after. */
static bool take_references(exchange *e, const json_t *from, const char *name) {
    const json_t *list = json_object_get(from, name), *one;
    ticket *t = e->ticket;
    size_t i;
    if (!list || json_is_null(list)) return true;
    json_array_foreach(list, i, one) {
        if (!json_is_string(one)) break;
        if (t->reference_count == MOST_REFERENCES)
            return answer_error(e, t->openai, 400, "%s: more than %d pictures", name, MOST_REFERENCES), false;
        if (!take_base64(e, name, json_string_value(one), json_string_length(one),
                         &t->references[t->reference_count++]))
            return false;
    }
    if (json_is_array(list) && i == json_array_size(list)) return list_references(e);
    return answer_error(e, t->openai, 400, "%s must be a list of pictures in base64", name), false;
}

/* stable-diffusion.cpp's list of LoRAs, which are files of --lora-dir, becomes tags of the prompt. */
static bool take_lora_list(exchange *e, const json_t *from) {
    const json_t *list = json_object_get(from, "lora"), *one;
    ticket *t = e->ticket;
    parameter_text prompt = {0};
    size_t i;
    bool good = true;
    if (!list || json_is_null(list)) return true;
    json_raw(&prompt, t->o.prompt ? t->o.prompt : "");
    json_array_foreach(list, i, one) {
        const json_t *weight = json_object_get(one, "multiplier");
        const char *path = json_string_value(json_object_get(one, "path"));
        char tag[512], number[32];
        shortest_number(weight ? (float)json_number_value(weight) : 1, number, sizeof number);
        if (!path || strpbrk(path, "<>:") ||
            snprintf(tag, sizeof tag, " <lora:%s%s:%s>",
                     json_is_true(json_object_get(one, "is_high_noise")) ? "|high_noise|" : "", path,
                     number) >= (int)sizeof tag)
            break;
        json_raw(&prompt, tag);
    }
    if (!json_is_array(list) || i < json_array_size(list)) {
        answer_error(
            e, t->openai, 400,
            "lora must be a list such as [{\"path\": \"NAME\", \"multiplier\": 0.8}], whose names are files in --lora-dir");
        good = false;
    } else if (!prompt.at || !set_text(t, &t->o.prompt, prompt.at)) {
        answer_error(e, t->openai, 507, "out of memory");
        good = false;
    }
    free(prompt.at);
    return good;
}

/* Layers of CLIP as A1111 and stable-diffusion.cpp count them: 2 leaves out one; 1, 0 and -1 are nobody's wish. */
static bool take_clip_layers(exchange *e, const json_t *from, const char *name) {
    const json_t *value = json_object_get(from, name);
    const json_int_t layers = json_integer_value(value);
    char number[24];
    if (!value || json_is_null(value) || (json_is_integer(value) && layers <= 1)) return true;
    if (!json_is_integer(value))
        return answer_error(e, e->ticket->openai, 400, "%s must be a whole number", name), false;
    snprintf(number, sizeof number, "%" JSON_INTEGER_FORMAT, layers);
    if (set_text(e->ticket, &e->ticket->o.clip_skip, number)) return true;
    return answer_error(e, e->ticket->openai, 507, "out of memory"), false;
}

/* Members that would change the picture, and are not understood; answer_error names one that is wanted. */
typedef struct refused_member {
    const char *name, *value, *why; /* value NULL: whatever is neither false nor 0 nor empty */
} refused_member;

static bool takes_others(exchange *e, const json_t *from, const refused_member *others, size_t count) {
    size_t i;
    for (i = 0; i < count; i++) {
        const json_t *member = json_object_get(from, others[i].name);
        const char *text = json_string_value(member);
        const bool wanted = others[i].value ? text && same_word(text, others[i].value)
                            : text          ? *text && !same_word(text, "false")
                                            : json_is_true(member) || json_number_value(member) != 0 ||
                                         json_object_size(member) || json_array_size(member);
        if (!wanted) continue;
        answer_error(e, e->ticket->openai, 400, "%s: %s; leave it out", others[i].name, others[i].why);
        return false;
    }
    return true;
}

/* The name of a model among those that --list-models shows; NULL: none. The lock is not needed: the list stays. */
static const found_model *find_model(const server *s, const char *name) {
    uint32_t i;
    for (i = 0; i < s->models.count; i++) {
        const found_model *m = &s->models.models[i];
        char stem[256];
        model_name(m->name, stem, sizeof stem);
        if (strcmp(m->name, name) == 0 || strcmp(stem, name) == 0) return m;
    }
    return NULL;
}

/* OpenAI's own names and that of stable-diffusion.cpp's server stand for the loaded model, because clients cannot do
   without one. */
static bool take_model(exchange *e, const char *name) {
    static const char *const others[] = {"dall-e", "gpt-image", "chatgpt-image", "sd-cpp-local"};
    const found_model *m = name ? find_model(e->server, name) : NULL;
    size_t i;
    if (m) {
        e->ticket->o.model = m->path;
        return true;
    }
    for (i = 0; name && i < sizeof others / sizeof others[0]; i++)
        if (strncmp(name, others[i], strlen(others[i])) == 0) return true;
    if (!name || !*name) return true;
    answer_error(e, e->ticket->openai, 404, "there is no model '%s'; %s lists them", name,
                 e->ticket->openai ? "/v1/models" : "/sdapi/v1/sd-models");
    return false;
}

/* A ticket with the program's own options; false: the answer says why not. */
static bool begin_ticket(exchange *e, bool openai) {
    server *s = e->server;
    e->ticket = (ticket *)calloc(1, sizeof *e->ticket);
    if (!e->ticket) {
        answer_error(e, openai, 507, "out of memory");
        return false;
    }
    pthread_mutex_lock(&s->lock);
    e->ticket->o = s->usual;
    pthread_mutex_unlock(&s->lock);
    e->ticket->exchange = e;
    e->ticket->openai = openai;
    e->ticket->count = 1;
    e->ticket->o.seed = "random";
    return true;
}

/* The count as an option, and what every request must have. */
static bool finish_ticket(exchange *e) {
    ticket *t = e->ticket;
    char count[16];
    if ((!t->o.prompt || !*t->o.prompt) && !t->o.class_name && t->openai) {
        answer_error(e, t->openai, 400, "prompt is missing: say what shall be on the picture");
        return false;
    }
    if (!t->o.prompt) t->o.prompt = "";
    snprintf(count, sizeof count, "%u", t->count);
    if (set_text(t, &t->o.count, count)) return true;
    answer_error(e, t->openai, 507, "out of memory");
    return false;
}

/* The body as an object; NULL: the answer says what is wrong. */
static json_t *read_object(exchange *e, bool openai) {
    json_error_t wrong;
    json_t *object = e->body.bytes ? read_json((const char *)e->body.bytes, e->body.size, 0, &wrong) : NULL;
    if (json_is_object(object)) return object;
    if (object || !e->body.bytes)
        answer_error(e, openai, 400, "the body must be an object of JSON");
    else
        answer_error(e, openai, 400, "the body is no JSON: %s, at byte %d", wrong.text, wrong.position);
    json_decref(object);
    return NULL;
}

/* ---- OpenAI: https://platform.openai.com/docs/api-reference/images ---- */

/* "1024x1024", or "auto". */
static bool take_size_text(exchange *e, const char *size) {
    char width[16], height[16], rest;
    if (!size || strcmp(size, "auto") == 0) return true;
    if (sscanf(size, "%15[0-9]x%15[0-9]%c", width, height, &rest) != 2) {
        answer_error(e, true, 400, "size must be WIDTHxHEIGHT, such as 1024x1024, or auto");
        return false;
    }
    return set_text(e->ticket, &e->ticket->o.width, width) && set_text(e->ticket, &e->ticket->o.height, height);
}

static bool take_format(exchange *e, const char *response, const char *format) {
    size_t i;
    if (response && strcmp(response, "url") == 0)
        e->ticket->as_url = true;
    else if (response && strcmp(response, "b64_json") != 0)
        return answer_error(e, true, 400, "response_format must be b64_json or url"), false;
    for (i = 0; format && i < STILL_ENDINGS; i++)
        if (still_endings[i].can && same_word(format, still_endings[i].ending + 1))
            return e->ticket->kind = still_endings[i].kind, true;
    if (format) answer_error(e, true, 400, "output_format must be one that this server writes: png, jpeg or webp");
    return !format;
}

/* OpenAI's qualities begin with 0. */
static bool take_quality(exchange *e, const json_t *from) {
    const char **quality = &e->ticket->o.quality;
    if (!take_member(e, from, "output_compression", quality, true)) return false;
    if (*quality && strcmp(*quality, "0") == 0) *quality = "1";
    return true;
}

/* Members that generations and edits have in common. Members beyond OpenAI's own have A1111's names. */
static bool take_openai(exchange *e, const json_t *from) {
    static const refused_member others[] = {{"stream", NULL, "pictures are sent when all of them are finished"},
                                            {"background", "transparent", "pictures have no transparent parts"}};
    ticket *t = e->ticket;
    const char *size = NULL, *model = NULL, *response = NULL, *format = NULL;
    return takes_others(e, from, others, sizeof others / sizeof others[0]) &&
           take_member(e, from, "prompt", &t->o.prompt, false) &&
           take_member(e, from, "negative_prompt", &t->o.negative_prompt, false) &&
           take_member(e, from, "model", &model, false) && take_member(e, from, "size", &size, false) &&
           take_member(e, from, "response_format", &response, false) &&
           take_member(e, from, "output_format", &format, false) && take_quality(e, from) &&
           take_member(e, from, "sampler_name", &t->o.sampler, false) &&
           take_member(e, from, "scheduler", &t->o.schedule, false) &&
           take_member(e, from, "width", &t->o.width, true) && take_member(e, from, "height", &t->o.height, true) &&
           take_member(e, from, "seed", &t->o.seed, true) && take_member(e, from, "steps", &t->o.steps, true) &&
           take_member(e, from, "cfg_scale", &t->o.guidance, true) && take_small(e, from, "n", 10, &t->count) &&
           take_size_text(e, size) && take_format(e, response, format) && take_model(e, model) && finish_ticket(e);
}

static bool take_generations(exchange *e) {
    json_t *object = read_object(e, true);
    bool good = object && begin_ticket(e, true) && take_openai(e, object);
    json_decref(object);
    return good;
}

/* One image begins the picture, or is repainted where the mask says; the picture is made after several. */
static bool take_edited(exchange *e) {
    ticket *t = e->ticket;
    if (t->reference_count > 1) {
        if (!t->mask.size) return list_references(e);
        return answer_error(e, true, 400, "mask is about one image, and there are %u", t->reference_count), false;
    }
    t->start = t->references[0];
    memset(&t->references[0], 0, sizeof t->references[0]);
    t->reference_count = 0;
    t->o.init_image = "image";
    t->o.mask = t->mask.size ? "mask" : NULL;
    t->o.strength = t->mask.size ? "1" : "0.75";
    return true;
}

/* A form with pictures, a mask, and texts. */
static bool take_edits(exchange *e) {
    static const char *const numbers[] = {
        "n", "seed", "steps", "cfg_scale", "output_compression", "width", "height", "denoising_strength"};
    json_t *object = json_object();
    bool good = begin_ticket(e, true);
    uint32_t i;
    size_t k;
    for (i = 0; good && i < e->field_count; i++) {
        field *f = &e->fields[i];
        char *end;
        json_t *value;
        if (!f->bytes) continue;
        if (strcmp(f->name, "image") == 0 || strcmp(f->name, "image[]") == 0) {
            if (e->ticket->reference_count == MOST_REFERENCES)
                answer_error(e, true, 400, "more than %d images", MOST_REFERENCES), good = false;
            else
                e->ticket->references[e->ticket->reference_count++] = *f, memset(f, 0, sizeof *f);
            continue;
        }
        if (strcmp(f->name, "mask") == 0) {
            free_field(&e->ticket->mask);
            e->ticket->mask = *f;
            memset(f, 0, sizeof *f);
            continue;
        }
        value = strlen((char *)f->bytes) == f->size ? json_string((char *)f->bytes) : NULL; /* NULL: it is no UTF-8 */
        for (k = 0; k < sizeof numbers / sizeof numbers[0]; k++) {
            const double number = strtod((const char *)f->bytes, &end);
            if (strcmp(numbers[k], f->name) != 0 || *end || end == (char *)f->bytes || !isfinite(number)) continue;
            if (fabs(number) >= 9e15 && strspn((char *)f->bytes, "0123456789") == f->size)
                break; /* all of its digits */
            json_decref(value);
            value =
                number == floor(number) && fabs(number) < 9e15 ? json_integer((json_int_t)number) : json_real(number);
            break;
        }
        if (json_object_set_new(object, f->name, value) != 0)
            answer_error(e, true, 400, "%s is no text in UTF-8", f->name), good = false;
    }
    if (good && !e->ticket->reference_count)
        answer_error(e, true, 400, "image is missing: a PNG or JPEG to edit"), good = false;
    good = good && take_edited(e) && take_openai(e, object);
    if (good && e->ticket->o.init_image)
        good = take_member(e, object, "denoising_strength", &e->ticket->o.strength, true);
    json_decref(object);
    return good;
}

static const char *format_name(still_kind kind) {
    return kind == STILL_PNG ? "png" : kind == STILL_JPEG ? "jpeg" : "webp";
}

static void answer_openai(exchange *e, const char *host) {
    const ticket *t = e->ticket;
    parameter_text *out = &e->answer;
    char url[512];
    uint32_t i;
    json_raw(out, "{");
    json_count(out, "created", (uint64_t)time(NULL));
    json_text(out, "output_format", format_name(t->kind));
    json_raw(out, ",\"data\":[");
    for (i = 0; i < t->made_count; i++) {
        json_raw(out, i ? ",{" : "{");
        if (t->as_url) { /* the newest pictures of the gallery are this request's */
            snprintf(url, sizeof url, "http://%s/pictures/%llu", host,
                     (unsigned long long)(e->server->kept - t->made_count + i + 1));
            json_text(out, "url", url);
        } else {
            json_key(out, "b64_json");
            json_raw(out, "\"");
            base64_append(out, t->made[i].bytes, t->made[i].size);
            json_raw(out, "\"");
        }
        json_raw(out, "}");
    }
    json_raw(out, "]}");
}

static void answer_models(exchange *e) {
    parameter_text *out = &e->answer;
    uint32_t i;
    json_raw(out, "{\"object\":\"list\",\"data\":[");
    for (i = 0; i < e->server->models.count; i++) {
        char stem[256];
        model_name(e->server->models.models[i].name, stem, sizeof stem);
        json_raw(out, i ? ",{" : "{");
        json_text(out, "id", stem);
        json_text(out, "object", "model");
        json_count(out, "created", 0);
        json_text(out, "owned_by", "dit.h");
        json_raw(out, "}");
    }
    json_raw(out, "]}");
}

/* ---- AUTOMATIC1111: https://github.com/AUTOMATIC1111/stable-diffusion-webui/wiki/API ---- */

/* The upscaler of a second pass, Latent where none is named, and its size; "None" makes no second pass. */
static bool take_upscaler(exchange *e, const json_t *from, const char *upscaler, const char *scale, const char *width,
                          const char *height) {
    options *o = &e->ticket->o;
    o->hires = true;
    o->hires_upscaler = "Latent";
    if (!take_member(e, from, upscaler, &o->hires_upscaler, false) || !take_wish(e, from, width, &o->hires_width) ||
        !take_wish(e, from, height, &o->hires_height) || !take_wish(e, from, "denoising_strength", &o->hires_strength))
        return false;
    if (!o->hires_width && !o->hires_height && !take_wish(e, from, scale, &o->hires_scale)) return false;
    if (!same_word(o->hires_upscaler, "none")) return true;
    o->hires = false;
    o->hires_upscaler = o->hires_width = o->hires_height = o->hires_scale = o->hires_strength = o->hires_steps = NULL;
    return true;
}

/* enable_hr, of A1111, and with another word of stable-diffusion.cpp. */
static bool take_second_pass(exchange *e, const json_t *from) {
    const char **steps = &e->ticket->o.hires_steps;
    return !json_is_true(json_object_get(from, "enable_hr")) ||
           (take_wish(e, from, "hr_second_pass_steps", steps) && take_wish(e, from, "hr_steps", steps) &&
            take_upscaler(e, from, "hr_upscaler", "hr_scale", "hr_resize_x", "hr_resize_y"));
}

/* A1111 pastes what it made over the picture, softly; and makes the masked part alone where inpaint_full_res says so.
 */
static bool take_pasting(exchange *e, const json_t *from) {
    const json_t *part = json_object_get(from, "inpaint_full_res");
    options *o = &e->ticket->o;
    o->mask_blur = "4";
    if (!take_member(e, from, "mask_blur", &o->mask_blur, true)) return false;
    if (!json_is_true(part) && json_number_value(part) == 0) return true;
    o->mask_crop = "0";
    return take_member(e, from, "inpaint_full_res_padding", &o->mask_crop, true);
}

static bool take_a1111(exchange *e, const json_t *from, bool begins) {
    static const refused_member others[] = {{"hr_checkpoint_name", NULL, "one model makes both passes"},
                                            {"hr_prompt", NULL, "prompt is that of both passes"},
                                            {"hr_negative_prompt", NULL, "negative_prompt is that of both passes"},
                                            {"tiling", NULL, "pictures have edges"},
                                            {"subseed_strength", NULL, "noise comes from one seed"},
                                            {"restore_faces", NULL, "nothing is done to faces behind the model"},
                                            {"refiner_checkpoint", NULL, "one model makes the whole picture"},
                                            {"styles", NULL, "there are none"},
                                            {"alwayson_scripts", NULL, "there are no scripts"},
                                            {"script_name", NULL, "there are no scripts"}};
    ticket *t = e->ticket;
    const json_t *settings = json_object_get(from, "override_settings"),
                 *pictures = json_object_get(from, "init_images");
    const json_t *first = json_array_get(pictures, 0), *mask = json_object_get(from, "mask"),
                 *inverts = json_object_get(from, "inpainting_mask_invert");
    const char *model = NULL, *scheduler = NULL, *vae = json_string_value(json_object_get(settings, "sd_vae"));
    uint32_t size = 1, runs = 1;
    if (!takes_others(e, from, others, sizeof others / sizeof others[0]) ||
        !take_member(e, from, "prompt", &t->o.prompt, false) ||
        !take_member(e, from, "negative_prompt", &t->o.negative_prompt, false) ||
        !take_member(e, from, "seed", &t->o.seed, true) || !take_member(e, from, "steps", &t->o.steps, true) ||
        !take_member(e, from, "width", &t->o.width, true) || !take_member(e, from, "height", &t->o.height, true) ||
        !take_member(e, from, "cfg_scale", &t->o.guidance, true) ||
        !take_member(e, from, "sampler_index", &t->o.sampler, false) ||
        !take_member(e, from, "sampler_name", &t->o.sampler, false) ||
        !take_member(e, from, "scheduler", &scheduler, false) ||
        !take_member(e, settings, "sd_model_checkpoint", &model, false) ||
        !take_clip_layers(e, settings, "CLIP_stop_at_last_layers") || !take_clip_layers(e, from, "clip_skip") ||
        !take_lora_list(e, from) || !take_references(e, from, "extra_images") ||
        !take_small(e, from, "batch_size", MOST_PICTURES, &size) ||
        !take_small(e, from, "n_iter", MOST_PICTURES, &runs))
        return false;
    if (vae && *vae && !same_word(vae, "automatic") && !same_word(vae, "none"))
        return answer_error(e, false, 400,
                            "sd_vae: pictures are decoded by the autoencoder of their model; leave it out"),
               false;
    if (!begins && json_array_size(pictures))
        return answer_error(e, false, 400, "init_images: /sdapi/v1/img2img begins with a picture"), false;
    if (json_array_size(pictures) > 1)
        return answer_error(e, false, 400,
                            "init_images must hold one picture; extra_images holds those that are shown to the model"),
               false;
    if (size * runs > MOST_PICTURES)
        return answer_error(e, false, 400, "batch_size times n_iter must be %d at most", MOST_PICTURES), false;
    t->count = size * runs;
    t->previews = json_is_true(json_object_get(from, "preview")); /* a word of this server's own page */
    if (t->o.sampler && !*t->o.sampler) t->o.sampler = NULL;
    if (scheduler && *scheduler) t->o.schedule = scheduler;
    if (!begins && !take_second_pass(e, from)) return false;
    if (begins) {
        if (!json_is_string(first))
            return answer_error(e, false, 400, "init_images must hold a picture in base64"), false;
        if (!take_base64(e, "init_images", json_string_value(first), json_string_length(first), &t->start))
            return false;
        t->o.init_image = "init_images";
        t->o.strength = "0.75";
        if (!take_member(e, from, "denoising_strength", &t->o.strength, true)) return false;
        if (json_is_true(json_object_get(from, "enable_hr")))
            return answer_error(e, false, 400, "enable_hr: /sdapi/v1/txt2img alone makes a second pass"), false;
        if (mask && !json_is_null(mask)) {
            if (!json_is_string(mask)) return answer_error(e, false, 400, "mask must be a picture in base64"), false;
            if (!take_base64(e, "mask", json_string_value(mask), json_string_length(mask), &t->mask)) return false;
            t->o.mask = "mask";
            t->mask_inverted = json_is_true(inverts) || json_number_value(inverts) != 0;
            if (!take_pasting(e, from)) return false;
        }
    }
    return take_model(e, model) && finish_ticket(e);
}

static bool take_txt2img(exchange *e, bool begins) {
    json_t *object = read_object(e, false);
    bool good = object && begin_ticket(e, false) && take_a1111(e, object, begins);
    json_decref(object);
    return good;
}

static void answer_a1111(exchange *e) {
    const ticket *t = e->ticket;
    parameter_text *out = &e->answer, info = {0};
    uint32_t i;
    json_raw(out, "{\"images\":[");
    for (i = 0; i < t->made_count; i++) {
        json_raw(out, i ? ",\"" : "\"");
        base64_append(out, t->made[i].bytes, t->made[i].size);
        json_raw(out, "\"");
    }
    json_raw(out, "],\"parameters\":{");
    json_text(out, "prompt", t->o.prompt);
    json_text(out, "negative_prompt", t->o.negative_prompt ? t->o.negative_prompt : "");
    json_raw(out, "}");
    json_raw(&info, "{");
    json_text(&info, "prompt", t->o.prompt);
    json_text(&info, "negative_prompt", t->o.negative_prompt ? t->o.negative_prompt : "");
    json_flag(&info, "interrupted", t->interrupted);
    if (t->made_count) json_count(&info, "seed", t->made[0].seed);
    json_raw(&info, ",\"all_seeds\":[");
    for (i = 0; i < t->made_count; i++) {
        char digits[24];
        snprintf(digits, sizeof digits, "%s%llu", i ? "," : "", (unsigned long long)t->made[i].seed);
        json_raw(&info, digits);
    }
    json_raw(&info, "],\"infotexts\":[");
    for (i = 0; i < t->made_count; i++) {
        json_raw(&info, i ? "," : "");
        json_quote(&info, t->made[i].text);
    }
    json_raw(&info, "]}");
    json_text(out, "info", info.at ? info.at : "");
    free(info.at);
    json_raw(out, "}");
}

static void answer_progress(exchange *e, bool with_picture) {
    server *s = e->server;
    parameter_text *out = &e->answer;
    double part, left = 0;
    pthread_mutex_lock(&s->lock);
    part = s->running ? (s->pictures_done + (double)s->status.fraction) / s->running->count : 0;
    if (part > 1) part = 1;
    if (part > 0) left = (now() - s->begun) * (1 - part) / part;
    json_raw(out, "{");
    json_number(out, "progress", part);
    json_number(out, "eta_relative", left);
    json_raw(out, ",\"state\":{");
    json_flag(out, "skipped", false);
    json_flag(out, "interrupted", s->interrupt);
    json_text(out, "job", s->running ? "picture" : "");
    json_count(out, "job_count", s->running ? s->running->count : 0);
    json_count(out, "job_no", s->running ? s->pictures_done : 0);
    json_count(out, "sampling_step", s->running ? s->status.step : 0);
    json_count(out, "sampling_steps", s->running ? s->status.step_count : 0);
    json_count(out, "waiting", s->waiting);
    json_raw(out, "},\"current_image\":");
    if (with_picture && s->running && s->preview) {
        json_raw(out, "\"");
        base64_append(out, s->preview, s->preview_size);
        json_raw(out, "\"");
    } else {
        json_raw(out, "null");
    }
    json_raw(out, ",\"textinfo\":null}");
    pthread_mutex_unlock(&s->lock);
}

/* The model of requests that name none, and its name as the lists have it: the folder of a download's snapshot is
   called after its revision. NULL: it is in none of them. */
static const found_model *usual_model(exchange *e, char stem[256]) {
    const catalogue *models = &e->server->models;
    char path[PATH_SIZE] = "";
    uint32_t i;
    pthread_mutex_lock(&e->server->lock);
    if (e->server->usual.model) snprintf(path, sizeof path, "%s", e->server->usual.model);
    pthread_mutex_unlock(&e->server->lock);
    if (!*path) find_bundled("emoji-q8_0.gguf", path);
    for (i = 0; i < models->count && strcmp(models->models[i].path, path) != 0;) i++;
    model_name(i < models->count ? models->models[i].name : path, stem, 256);
    return i < models->count ? &models->models[i] : NULL;
}

static void answer_options(exchange *e) {
    char stem[256];
    usual_model(e, stem);
    json_raw(&e->answer, "{");
    json_text(&e->answer, "sd_model_checkpoint", stem);
    json_text(&e->answer, "samples_format", "png");
    json_raw(&e->answer, "}");
}

/* The model of later requests; other options are the web UI's own, and are passed over as it does with unknown ones. */
static void change_options(exchange *e) {
    json_t *object = read_object(e, false);
    const json_t *checkpoint = json_object_get(object, "sd_model_checkpoint");
    const char *name = json_string_value(checkpoint);
    const found_model *m = name ? find_model(e->server, name) : NULL;
    if (checkpoint && !name && !json_is_null(checkpoint)) {
        answer_error(e, false, 400, "sd_model_checkpoint must be a text");
    } else if (name && !m) {
        answer_error(e, false, 404, "there is no model '%s'; /sdapi/v1/sd-models lists them", name);
    } else if (object) {
        pthread_mutex_lock(&e->server->lock);
        if (m) e->server->usual.model = m->path;
        pthread_mutex_unlock(&e->server->lock);
        json_raw(&e->answer, "null");
    }
    json_decref(object);
}

static void answer_sd_models(exchange *e) {
    parameter_text *out = &e->answer;
    uint32_t i;
    json_raw(out, "[");
    for (i = 0; i < e->server->models.count; i++) {
        const found_model *m = &e->server->models.models[i];
        char stem[256];
        model_name(m->name, stem, sizeof stem);
        json_raw(out, i ? ",{" : "{");
        json_text(out, "title", m->name);
        json_text(out, "model_name", stem);
        json_raw(out, ",\"hash\":null,\"sha256\":null");
        json_text(out, "filename", m->name);
        json_raw(out, ",\"config\":null}");
    }
    json_raw(out, "]");
}

static void add_lora_name(const char *path, void *user) {
    parameter_text *out = (parameter_text *)user;
    const char *name = base_name(path), *dot = strrchr(name, '.');
    char stem[256];
    if (!dot || (strcmp(dot, ".safetensors") != 0 && strcmp(dot, ".gguf") != 0)) return;
    snprintf(stem, sizeof stem, "%.*s", (int)(dot - name), name);
    json_raw(out, out->length && out->at[out->length - 1] == '}' ? ",{" : "{");
    json_text(out, "name", stem);
    json_text(out, "alias", stem);
    json_text(out, "path", name);
    json_raw(out, ",\"metadata\":{}}");
}

/* Files of --lora-dir, which tags <lora:NAME:0.8> name. */
static void tell_lora_names(parameter_text *out, const char *folder) {
    json_raw(out, "[");
    if (folder) each_entry(folder, add_lora_name, out);
    json_raw(out, "]");
}

static void answer_loras(exchange *e) { tell_lora_names(&e->answer, e->server->usual.lora_dir); }

/* Upscalers of pixels, or of latents. */
static void tell_upscalers(parameter_text *out, bool latent, const char *rest) {
    uint32_t i;
    for (i = 0; i < UPSCALERS; i++) {
        if (upscalers[i].latent != latent) continue;
        json_raw(out, out->at[out->length - 1] == '}' ? ",{" : "{");
        json_text(out, "name", upscalers[i].name);
        json_raw(out, rest);
    }
}

static void answer_upscalers(exchange *e) {
    static const char rest[] = ",\"model_name\":null,\"model_path\":null,\"model_url\":null,\"scale\":4}";
    json_raw(&e->answer, "[{\"name\":\"None\"");
    json_raw(&e->answer, rest);
    tell_upscalers(&e->answer, false, rest);
    json_raw(&e->answer, "]");
}

static void answer_latent_modes(exchange *e) {
    json_raw(&e->answer, "[");
    tell_upscalers(&e->answer, true, "}");
    json_raw(&e->answer, "]");
}

/* Lists of A1111's that are empty here. */
static void answer_none(exchange *e) { json_raw(&e->answer, "[]"); }

static void answer_names(exchange *e, const char *(*name_at)(uint32_t), bool samplers) {
    parameter_text *out = &e->answer;
    const char *name;
    uint32_t i;
    json_raw(out, "[");
    for (i = 0; (name = name_at(i)) != NULL; i++) {
        json_raw(out, i ? ",{" : "{");
        json_text(out, "name", name);
        if (!samplers) json_text(out, "label", name);
        json_raw(out, ",\"aliases\":[]");
        json_raw(out, samplers ? ",\"options\":{}}" : ",\"default_rho\":-1,\"need_inner_model\":false}");
    }
    json_raw(out, "]");
}

/* ---- The page's own ---- */

/* The newest first. */
static void answer_gallery(exchange *e) {
    server *s = e->server;
    parameter_text *out = &e->answer;
    uint64_t number;
    json_raw(out, "[");
    pthread_mutex_lock(&s->lock);
    for (number = s->kept; number > 0 && number + MOST_PICTURES > s->kept; number--) {
        json_raw(out, number == s->kept ? "{" : ",{");
        json_count(out, "number", number);
        json_text(out, "text", s->gallery[(number - 1) % MOST_PICTURES].text);
        json_raw(out, "}");
    }
    pthread_mutex_unlock(&s->lock);
    json_raw(out, "]");
}
#endif
