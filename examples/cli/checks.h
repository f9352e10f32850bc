/* Checks of everything that the user typed, before any work: paths, prompts, numbers, sizes, frames, noise. Each
   returns an exit code and complains about the first fault. Include it after telling.h. Not part of dit.h. */
#ifndef CHECKS_H
#define CHECKS_H

/* The bundled model lies beside the build tree or below the install prefix. */
static bool find_bundled(const char *name, char *out) {
    static const char *const places[] = {"../models", "models", "../share/dit", "../share/dit/models"};
    char folder[PATH_SIZE];
    size_t i;
    if (!own_folder(folder, sizeof folder)) return false;
    for (i = 0; i < sizeof places / sizeof places[0]; i++) {
        int n = snprintf(out, PATH_SIZE, "%s%s/%s", folder, places[i], name); /* folder ends with its separator */
        if (n < PATH_SIZE && file_exists(out)) return true;
    }
    return false;
}

/* An option that names a part which lies elsewhere. */
typedef struct part_option {
    const char *name;
    dit_role role;
    size_t value; /* its member of options */
} part_option;

/* The experts of a model with two stand in the order of the steps. */
static const part_option part_options[] = {
    {"--high-noise-diffusion-model", DIT_ROLE_TRANSFORMER, offsetof(options, high_noise)},
    {"--diffusion-model", DIT_ROLE_TRANSFORMER, offsetof(options, diffusion_model)},
    {"--uncond-diffusion-model", DIT_ROLE_TRANSFORMER_2, offsetof(options, uncond)},
    {"--clip-l", DIT_ROLE_TEXT_1, offsetof(options, clip_l)},
    {"--clip-g", DIT_ROLE_TEXT_2, offsetof(options, clip_g)},
    {"--t5", DIT_ROLE_T5, offsetof(options, t5)},
    {"--clip-vision", DIT_ROLE_IMAGE_ENCODER, offsetof(options, clip_vision)},
    {"--vae", DIT_ROLE_VAE, offsetof(options, vae)},
    {"--taesd", DIT_ROLE_TAE, offsetof(options, taesd)},
    {"--audio-vae", DIT_ROLE_SOUND, offsetof(options, audio_vae)},
    {"--high-noise-control-net", DIT_ROLE_CONTROL, offsetof(options, high_noise_net)}, /* before the other expert's */
    {"--control-net", DIT_ROLE_CONTROL, offsetof(options, control_net)},
    {"--tokenizer", DIT_ROLE_TOKENIZER, offsetof(options, tokenizer)}};
enum { PART_OPTIONS = sizeof part_options / sizeof part_options[0] };

static const char *part_path(const options *o, const part_option *part) {
    return *(const char *const *)(const void *)((const char *)o + part->value);
}

static int check_parts(app *a) {
    size_t i;
    a->part_count = 0;
    for (i = 0; i < PART_OPTIONS; i++) {
        const char *path = part_path(&a->o, &part_options[i]);
        if (!path) continue;
        if (!file_exists(path))
            return complain(EXIT_INPUT, "%s %s: %s", part_options[i].name, path, told_reason(errno));
        a->parts[a->part_count].role = part_options[i].role;
        if (path == a->o.diffusion_model && a->o.high_noise) a->parts[a->part_count].role = DIT_ROLE_TRANSFORMER_2;
        a->parts[a->part_count++].source.path = path;
    }
    loras_to_parts(&a->loras, a->o.lora_merge, a->parts, &a->part_count);
    return EXIT_GOOD;
}

static int check_model_path(app *a) {
    const char *path = a->o.model ? a->o.model : a->o.diffusion_model;
    if (!path && a->o.high_noise)
        return complain(EXIT_USAGE, "--high-noise-diffusion-model %s: name the other expert with --diffusion-model",
                        a->o.high_noise);
    if (a->o.high_noise_net && !a->o.control_net)
        return complain(EXIT_USAGE, "--high-noise-control-net %s: name that of the other expert with --control-net",
                        a->o.high_noise_net);
    if (a->o.uncond && a->o.high_noise)
        return complain(EXIT_USAGE,
                        "--uncond-diffusion-model is of Ideogram 4, --high-noise-diffusion-model of Wan 2.2; "
                        "no model has both");
    if (!path && a->o.uncond)
        return complain(EXIT_USAGE, "--uncond-diffusion-model %s: name the other transformer with --diffusion-model",
                        a->o.uncond);
    if (!path) {
        if (!find_bundled("emoji-q8_0.gguf", a->model_path))
            return complain(EXIT_INPUT,
                            "the bundled models/emoji-q8_0.gguf is not beside this program; name a model with --model");
        return check_parts(a);
    }
    if (a->o.model && !file_exists(path))
        return complain(EXIT_INPUT, "--model %s: %s; --list-models shows those that are found", path, strerror(errno));
    snprintf(a->model_path, sizeof a->model_path, "%s", path);
    return check_parts(a);
}

static int check_output(const char *option, const char *path) {
    const char *why = path ? why_not_writable(path) : NULL;
    return why ? complain(EXIT_OUTPUT, "%s %s: %s", option, path, why) : EXIT_GOOD;
}

/* A name that promises what is not written would be a lie; one without an ending promises nothing. */
static int check_still_name(const char *option, const char *path, bool png_alone) {
    const char *name = path ? base_name(path) : "", *dot = strrchr(name, '.');
    const size_t ending = path ? still_ending_of(path) : 0;
    if (!dot || dot == name || (ending == 0 && same_word(dot, still_endings[0].ending))) return EXIT_GOOD;
    if (png_alone)
        return complain(EXIT_USAGE, "%s %s: only PNG is written; use %.*s.png", option, path, (int)(dot - path), path);
    if (!still_endings[ending].can)
        return complain(EXIT_USAGE, "%s %s: this program was built without %s, and writes no %s; use %.*s.png", option,
                        path, still_endings[ending].package, still_endings[ending].name, (int)(dot - path), path);
    if (ending == 0)
        return complain(EXIT_USAGE, "%s %s: pictures are written as PNG, JPEG or WebP; use %.*s.png", option, path,
                        (int)(dot - path), path);
    return EXIT_GOOD;
}

static int check_picture_name(const char *path) {
    const char *why = clip_is_pattern(path) ? why_no_number(path) : NULL;
    int code = why ? complain(EXIT_USAGE, "--output %s: %s", path, why) : check_output("--output", path);
    return code ? code : check_still_name("--output", path, false);
}

/* out.png, out_2.png, out_3.png, ... as sd.cpp names them. The number of a picture, from 1 on, stands where %04d does,
   unless it is that of a clip's frames. */
static bool picture_path(const char *output, uint32_t i, bool clip, char *out, size_t size) {
    const char *dot = strrchr(base_name(output), '.');
    int stem = dot && dot != base_name(output) ? (int)(dot - output) : (int)strlen(output);
    if (!clip && clip_is_pattern(output)) return clip_number_path(output, i, out, size);
    if (i == 0) return snprintf(out, size, "%s", output) < (int)size;
    return snprintf(out, size, "%.*s_%u%s", stem, output, i + 1, output + stem) < (int)size;
}

static bool to_stdout(const options *o) { return strcmp(o->output, "-") == 0; }

/* Whether a clip is written: several frames, or one in a file that only clips are. */
static bool makes_clip(const app *a) {
    const clip_ending *ending = clip_find_ending(a->o.output);
    if (!a->r.frames || (to_stdout(&a->o) && a->r.frames == 1)) return false;
    return a->r.frames > 1 || a->r.loops > 1 || (ending && ending->kind != CLIP_PNGS) || clip_is_pattern(a->o.output);
}

/* Whether a clip's sound is written, with it or beside it; standard output has frames alone. --info tells of a clip
   that has one. */
static bool makes_sound(const app *a) {
    if (!a->info.sound_rate || a->o.no_sound || a->r.loops > 1) return false;
    return a->o.output ? !to_stdout(&a->o) && makes_clip(a) : a->r.frames > 1;
}

/* A picture or clip on standard output: one, and not for a terminal. Events of --json go there, too. */
static int check_stdout(const app *a) {
    if (a->r.count > 1 && to_stdout(&a->o))
        return complain(EXIT_USAGE, "--output -: standard output takes one picture or clip; leave out --batch-count");
    if (!a->open_out && (a->o.json || to_stdout(&a->o)))
        return complain(EXIT_OUTPUT, "cannot write to standard output: it is closed");
    if (!to_stdout(&a->o)) return EXIT_GOOD;
    if (isatty(1))
        return complain(EXIT_USAGE, "--output -: standard output is a terminal; send it to a file or a program");
    return EXIT_GOOD;
}

static int check_clip_name(const char *path) {
    const clip_ending *ending = clip_find_ending(path);
    const char *why = why_no_clip(path);
    const bool misnamed = !ending || (ending->kind == CLIP_PNGS && why_no_number(path));
    return why ? complain(misnamed ? EXIT_USAGE : EXIT_OUTPUT, "--output %s: %s", path, why) : EXIT_GOOD;
}

static int check_still_size(const app *a, still_kind kind) {
    const picture *whole = &a->r.paste.whole;
    const uint32_t width = whole->rgba ? whole->width : a->r.width, height = whole->rgba ? whole->height : a->r.height;
    if (kind != STILL_WEBP || (width <= WEBP_SIDE && height <= WEBP_SIDE)) return EXIT_GOOD;
    return complain(EXIT_USAGE, "%s%s: a side of a WebP has at most %d pixels, and %ux%u are made; use %spng",
                    a->follow.take ? "" : "--output ", a->follow.take ? "webp" : a->o.output, WEBP_SIDE, width, height,
                    a->follow.take ? "" : ".");
}

/* --resume: what no file beside the output can hold, or nobody could go on with. */
static int check_resume(const app *a) {
    const char *why = a->follow.take     ? "--serve writes no files"
                      : to_stdout(&a->o) ? "standard output has no file beside it; name one with --output"
                      : a->r.count > 1   ? "it is of one picture or clip; leave out --batch-count"
                      : a->r.loops > 1   ? "clips of --loop need more than it keeps; leave one of them out"
                      : a->o.hires       ? "--hires needs more than it keeps; leave one of them out"
                                         : NULL;
    if (!a->o.resumable || !why) return EXIT_GOOD;
    return complain(EXIT_USAGE, "--resume: %s", why);
}

/* Whether pictures or clips are made must be known. */
static int check_results(app *a) {
    options *o = &a->o;
    char last[PATH_SIZE];
    int (*check)(const char *);
    int code;
    if (!o->output) o->output = a->r.frames > 1 ? "output.apng" : "output.png";
    if (a->follow.take) return check_still_size(a, a->follow.kind); /* no file is written */
    if (o->grid && makes_clip(a))
        return complain(EXIT_USAGE, "--grid %s: its sheet shows pictures, and this makes clips; leave it out", o->grid);
    code = check_stdout(a);
    if (!code) code = check_resume(a);
    if (code || to_stdout(o)) return code;
    check = makes_clip(a) ? check_clip_name : check_picture_name;
    code = check(o->output);
    if (!code) code = check_still_size(a, still_kind_of(o->output));
    if (code || a->first_picture + a->r.count < 2) return code;
    if (!picture_path(o->output, a->first_picture + a->r.count - 1, makes_clip(a), last, sizeof last))
        return complain(EXIT_OUTPUT, "--output %s: the name is too long", o->output);
    return check(last);
}

static int check_outputs(const app *a) {
    const options *o = &a->o;
    int code = check_still_name("--preview", o->preview_path, true);
    if (!code) code = check_still_name("--grid", o->grid, false);
    if (!code) code = check_output("--grid", o->grid);
    if (!code) code = check_output("--latent-out", o->latent_out);
    if (!code) code = check_output("--encode-prompt", o->encode_prompt);
    if (!code) code = check_output("--preview", o->preview_path);
    if (!code) code = check_output("--trace", o->trace);
    return code;
}

static bool writes_numbered(const app *a) {
    const clip_ending *ending = clip_find_ending(a->o.output);
    return ending && ending->kind == CLIP_PNGS;
}

/* Frames of a clip, before it is known how many of them its loops share. */
static uint32_t most_frames(const app *a) {
    uint64_t all = (uint64_t)a->r.frames * a->r.loops;
    return all > CLIP_MOST_FRAMES ? CLIP_MOST_FRAMES : (uint32_t)all;
}

/* Numbered frames are not written into the folder that others are read from. */
static int check_frames_folder(const app *a) {
    file_id read, written;
    char folder[PATH_SIZE];
    const struct {
        const char *option, *path;
    } clips[] = {{"--init-video", a->o.init_video}, {"--control-video", a->o.control_video}, {"--mask", a->o.mask}};
    size_t i;
    if (!folder_of(a->o.output, folder, sizeof folder) || !read_file_id(folder, &written)) return EXIT_GOOD;
    for (i = 0; i < sizeof clips / sizeof clips[0]; i++) {
        if (clips[i].path && is_folder(clips[i].path) && read_file_id(clips[i].path, &read) &&
            same_file(&read, &written))
            return complain(EXIT_USAGE,
                            "--output %s: this is the folder of %s, whose frames would be lost; name another one",
                            a->o.output, clips[i].option);
    }
    return EXIT_GOOD;
}

/* Whether another output might have this path. */
static bool names_output(const options *o, const char *path) {
    const char *const others[] = {o->latent_out, o->preview_path, o->trace, o->grid};
    size_t i;
    for (i = 0; i < sizeof others / sizeof others[0]; i++)
        if (others[i] && same_name(base_name(others[i]), base_name(path))) return true;
    return false;
}

/* The next of --ref-image's paths, which have | between them; false at their end. */
static bool next_reference(const char **at, char path[PATH_SIZE]) {
    const size_t length = *at ? strcspn(*at, "|") : 0;
    if (!*at || !**at) return false;
    snprintf(path, PATH_SIZE, "%.*s", (int)length, *at);
    *at += length + ((*at)[length] == '|');
    return true;
}

enum { MOST_INPUTS = OPTION_COUNT + MOST_REFERENCES + LORA_MOST };

typedef struct input_list {
    named_path paths[MOST_INPUTS];
    uint32_t count;
    char references[MOST_REFERENCES][PATH_SIZE];
} input_list;

/* The file or folder that an option names; NULL: none, or its bytes come another way. */
static const char *input_path(const app *a, const option_entry *entry) {
    const options *o = &a->o;
    const char *const *at = option_text((options *)(uintptr_t)o, entry), *path = *at;
    if (at == &o->model) return path || !o->diffusion_model ? a->model_path : NULL;
    if ((at == &o->init_image && a->handed[0].rgba) || (at == &o->mask && a->handed[1].rgba)) return NULL;
    if ((at == &o->init_video || at == &o->control_video) && path && strcmp(path, "-") == 0) return NULL;
    return path;
}

/* Files and folders that a request reads. Its model's path and its LoRAs must be known. */
static void list_inputs(const app *a, input_list *out) {
    const options *o = &a->o;
    const char *plan = o->split && o->split[0] == '@' ? o->split + 1 : NULL, *at = o->references;
    const named_path others[] = {{"--repeat-from", o->repeat_from},
                                 {"--batch", o->batch && strcmp(o->batch, "-") ? o->batch : NULL},
                                 {"--split", plan}};
    uint32_t i;
    memcpy(out->paths, others, sizeof others);
    out->count = sizeof others / sizeof others[0];
    for (i = 0; i < OPTION_COUNT; i++) {
        if (option_table[i].told != TOLD_FILE) continue;
        out->paths[out->count].option = option_table[i].name;
        out->paths[out->count++].path = input_path(a, &option_table[i]);
    }
    for (i = 0; i < MOST_REFERENCES && next_reference(&at, out->references[i]); i++) {
        out->paths[out->count].option = "--ref-image";
        out->paths[out->count++].path = a->handed[2 + i].rgba ? NULL : out->references[i];
    }
    for (i = 0; i < a->loras.count; i++) {
        out->paths[out->count].option = "--lora";
        out->paths[out->count++].path = a->loras.items[i].path;
    }
}

typedef struct output_list {
    named_path *paths; /* freed with free */
    char *text;        /* likewise */
    size_t count, own; /* own: the first so many are this request's, the others of all requests of the run */
} output_list;

/* Files that a request writes; frames of a clip where they are there, or might be another output. The number of
   pictures must be known. */
static int list_outputs(const app *a, output_list *out) {
    const options *o = &a->o;
    const bool clips = !o->encode_prompt && makes_clip(a), numbered = clips && writes_numbered(a);
    const size_t length = o->output ? strlen(o->output) + 32 : 1;
    const size_t each = numbered ? most_frames(a) : 1, all = o->encode_prompt ? 0 : a->r.count * each;
    const named_path single[] = {{"--latent-out", o->latent_out},
                                 {"--encode-prompt", o->encode_prompt},
                                 {"--preview", o->preview_path},
                                 {"--trace", o->trace},
                                 {"--grid", o->grid}};
    char clip_path[PATH_SIZE];
    size_t i;
    out->count = 0;
    out->paths = calloc(all + sizeof single / sizeof single[0], sizeof *out->paths);
    out->text = malloc(all * length + 1);
    if (!out->paths || !out->text) return complain(EXIT_MEMORY, "out of memory");
    if (numbered && all > CLIP_MOST_FRAMES)
        return complain(EXIT_USAGE, "--batch-count %u: more than %d files; write clips of another kind", a->r.count,
                        CLIP_MOST_FRAMES);
    for (i = 0; i < all && !to_stdout(o) && !a->follow.take; i++) {
        char *path = out->text + i * length;
        if (!picture_path(o->output, a->first_picture + (uint32_t)(i / each), clips, clip_path, sizeof clip_path) ||
            !(numbered ? clip_number_path(clip_path, (uint32_t)(i % each), path, length)
                       : snprintf(path, length, "%s", clip_path) < (int)length))
            return complain(EXIT_OUTPUT, "--output %s: the name is too long", o->output);
        if (numbered && !file_exists(path) && !names_output(o, path)) continue;
        out->paths[out->count].option = "--output";
        out->paths[out->count++].path = path;
    }
    memcpy(out->paths + out->count, single, sizeof single);
    out->own = out->count + 2;
    out->count += sizeof single / sizeof single[0];
    return EXIT_GOOD;
}

/* No output may be another one, an input, or what a line of the batch has made before. */
static int check_overwriting(const app *a) {
    output_list outputs = {0};
    input_list inputs;
    char why[2 * PATH_SIZE];
    int code = list_outputs(a, &outputs);
    if (!code && !a->o.encode_prompt && makes_clip(a) && writes_numbered(a)) code = check_frames_folder(a);
    list_inputs(a, &inputs);
    if (!code && (find_overwritten(outputs.paths, outputs.count, inputs.paths, inputs.count, why, sizeof why) ||
                  find_overwritten(outputs.paths, outputs.count, a->made, a->made_count, why, sizeof why)))
        code = complain(EXIT_USAGE, "%s", why);
    free(outputs.paths);
    free(outputs.text);
    return code;
}

/* Keeps the paths of what a line of the batch has made, so that no later line replaces it. */
static int remember_outputs(app *a) {
    output_list outputs = {0};
    int code = list_outputs(a, &outputs);
    named_path *more = code ? NULL : realloc(a->made, (a->made_count + outputs.own) * sizeof *more);
    size_t i;
    if (more) a->made = more;
    for (i = 0; more && i < outputs.own; i++) {
        const char *path = outputs.paths[i].path;
        const size_t length = path ? strlen(path) + 1 : 0;
        char *kept = path ? malloc(length + 40) : NULL;
        if (!path) continue;
        if (!kept) break;
        memcpy(kept, path, length);
        snprintf(kept + length, 40, "%s of line %u", outputs.paths[i].option, a->line);
        more[a->made_count].path = kept;
        more[a->made_count++].option = kept + length;
    }
    if (!code && (!more || i < outputs.own)) code = complain(EXIT_MEMORY, "out of memory");
    free(outputs.paths);
    free(outputs.text);
    return code;
}

static void forget_outputs(app *a) {
    while (a->made_count) free((char *)(uintptr_t)a->made[--a->made_count].path);
    free(a->made);
    a->made = NULL;
}

static int check_prompts(const options *o) {
    int code;
    if (o->conditioning && ((o->prompt && *o->prompt) || o->negative_prompt || o->class_name || o->encode_prompt))
        return complain(EXIT_USAGE, "--conditioning: it stands for the prompts; leave out %s",
                        o->prompt && *o->prompt ? "--prompt"
                        : o->negative_prompt    ? "--negative-prompt"
                        : o->class_name         ? "--class"
                                                : "--encode-prompt");
    if (o->info_level) return complain(EXIT_USAGE, "--info-level: it is about --info MODEL, which is not there");
    if (o->quiet && o->verbose) return complain(EXIT_USAGE, "--quiet and --verbose exclude each other; leave one out");
    code = check_text("--prompt", o->prompt);
    if (!code) code = check_text("--class", o->class_name);
    return code ? code : check_text("--negative-prompt", o->negative_prompt);
}

/* Checks the numbers that can be checked without a model. */
static int check_numbers(app *a) {
    const options *o = &a->o;
    bool random = false;
    int code = EXIT_GOOD;
    a->r.count = 1;
    a->r.seed = 42;
    if (o->steps) code = take_count("--steps", o->steps, 1, 1000, 20, "", &a->r.steps);
    if (!code && o->count) code = take_count("--batch-count", o->count, 1, 9999, 1, "", &a->r.count);
    if (!code && o->guidance) code = take_guidance(o->guidance, 4.5f, &a->r.guidance);
    if (!code && o->seed) code = take_seed(o->seed, &a->r.seed, &random);
    if (random)
        a->r.seed = ((uint64_t)time(NULL) * 2654435761u + (uint64_t)getpid() + (uint64_t)(now() * 1e9)) % 4294967296u;
    if (!code && o->weight_budget) code = take_size("--weight-budget", o->weight_budget, &a->r.weight_budget);
    if (!code && o->device_memory) code = take_size("--device-memory", o->device_memory, &a->r.device_memory);
    a->r.vae_tile = o->vae_tiling ? 512 : 0;
    a->r.offload = o->offload;
    if (!code) code = take_numbers(o, &a->r.numbers);
    if (!code) code = check_ranges(o, &a->r.numbers);
    if (!code && o->skip_blocks) code = take_blocks(o->skip_blocks, &a->r.skip_blocks);
    if (!code && !o->slg_scale && ((o->skip_blocks && !o->stg_scale) || o->skip_first || o->skip_last))
        code = complain(EXIT_USAGE, "%s: it is about --slg-scale, which is not there; say that, too, or leave it out",
                        o->skip_blocks && !o->stg_scale ? "--skip-layers"
                        : o->skip_first                 ? "--skip-layer-start"
                                                        : "--skip-layer-end");
    if (!code && o->clip_skip) code = take_clip_skip(o->clip_skip, &a->r.clip_skip);
    if (!a->r.clip_skip) a->o.clip_skip = NULL;
    if (!code && o->vae_tile)
        code = take_count("--vae-tile-size", o->vae_tile, 1, 16384, 512, " pixels of both sides", &a->r.vae_tile);
    a->r.loops = 1;
    if (!code && o->loop) code = take_count("--loop", o->loop, 1, 1000, 1, "", &a->r.loops);
    if (!code && o->loop_frames) code = take_count("--loop-frames", o->loop_frames, 1, 9999, 5, "", &a->r.loop_frames);
    if (!code && o->preview_interval)
        code = take_count("--preview-interval", o->preview_interval, 1, 1000, 4, "", &a->r.preview_interval);
    a->r.quality = STILL_QUALITY;
    if (!code && o->quality) {
        uint32_t quality = STILL_QUALITY;
        code = take_count("--quality", o->quality, 1, 100, STILL_QUALITY, "", &quality);
        a->r.quality = (int)quality;
    }
    if (!code) code = take_rng(o->rng, &a->r.rng);
    if (!code) code = take_types(o, &a->r.types);
    if (a->model) { /* what this model needed before */
        if (!o->vae_tiling && !o->vae_tile) a->r.vae_tile = a->relief.vae_tile;
        a->r.weight_budget = a->relief.weight_budget;
        a->r.offload = a->relief.offload;
    }
    if (o->cache && (same_word(o->cache, "none") || same_word(o->cache, "off") || same_word(o->cache, "disabled")))
        a->o.cache = NULL;
    return code ? code : take_sampler(&a->o);
}

/* One sentence about the first part that is missing, with the option that adds it. */
static int complain_missing(const app *a) {
    static const char *const flags[] = {"--clip-l", "--clip-g", "--t5", "--llm"};
    const char *what, *flag = "--model with its whole folder";
    int role = DIT_ROLE_TRANSFORMER, text;
    while (!(a->info.missing & 1u << role)) role++;
    what = role_name(&a->info, (dit_role)role);
    if (role == DIT_ROLE_TRANSFORMER) flag = "--diffusion-model FILE";
    if (role == DIT_ROLE_VAE) flag = "--vae FILE";
    if (role == DIT_ROLE_IMAGE_ENCODER) flag = "--clip-vision FILE";
    if (role == DIT_ROLE_TRANSFORMER_2) flag = "--uncond-diffusion-model FILE, or do without guidance by --cfg-scale 1";
    text = role >= DIT_ROLE_TEXT_1 && role <= DIT_ROLE_TEXT_3 ? role - DIT_ROLE_TEXT_1 : -1;
    if (text >= 0 && !strstr(what, "LLaMA")) flag = flags[text];
    if (text >= 0 && strstr(what, "T5")) flag = flags[2];
    if (text >= 0 && (strstr(what, "Qwen") || strstr(what, "Gemma") || strstr(what, "Mistral"))) flag = flags[3];
    if (text >= 0 && strstr(what, "connectors")) flag = "--embeddings-connectors";
    if (role >= DIT_ROLE_TOKENIZER_1 && role <= DIT_ROLE_TOKENIZER_3) flag = "--tokenizer FOLDER";
    return complain(EXIT_INPUT, "--model %s: it has no %s%s; add it with %s%s", a->model_path, what,
                    text >= 0 ? " text encoder" : "", flag, text >= 0 && strncmp(flag, "--model", 7) ? " FILE" : "");
}

/* Models show either what a prompt says or a class. */
static int check_class(app *a, const dit_model *model) {
    uint32_t count = a->info.class_count;
    if (!count && a->o.class_name)
        return complain(EXIT_USAGE, "--class %s: this model has no classes; say --prompt instead", a->o.class_name);
    if (!count && !a->o.prompt && !a->o.conditioning)
        return complain(EXIT_USAGE,
                        "what shall be on the picture? Say --prompt \"a red heart\"; --help lists the options");
    if (!count) return EXIT_GOOD;
    if (a->o.class_name && (a->o.prompt || a->o.negative_prompt))
        return complain(EXIT_USAGE, "%s: this model takes none beside --class; leave it out",
                        a->o.prompt ? "--prompt" : "--negative-prompt");
    if (!a->o.class_name)
        return complain(EXIT_USAGE, "%sthis model takes none; say --class with a number from 0 to %u or a name",
                        a->o.prompt            ? "--prompt: "
                        : a->o.negative_prompt ? "--negative-prompt: "
                                               : "what shall be on the picture? Not a prompt, ",
                        count - 1);
    a->r.class_label = dit_model_class(model, a->o.class_name);
    if (a->r.class_label >= 0) return EXIT_GOOD;
    return complain(EXIT_USAGE,
                    "--class %s: no such class; there are 0 to %u, and the names that the model's folder "
                    "lists in model_index.json",
                    a->o.class_name, count - 1);
}

#define TEXT_PARTS (1u << DIT_ROLE_TEXT_1 | 1u << DIT_ROLE_TEXT_2 | 1u << DIT_ROLE_TEXT_3)
#define TOKENIZERS (1u << DIT_ROLE_TOKENIZER_1 | 1u << DIT_ROLE_TOKENIZER_2 | 1u << DIT_ROLE_TOKENIZER_3)

static dit_model_desc describe_model(const app *a) {
    dit_model_desc desc = {0};
    if (a->o.model || !a->o.diffusion_model) desc.source.path = a->model_path;
    desc.components = a->part_count ? a->parts : NULL;
    desc.component_count = a->part_count;
    desc.types = a->r.types.rules;
    desc.type_count = a->r.types.count;
    desc.weight_budget = a->r.weight_budget;
    desc.release_text_encoders = a->r.offload;
    desc.keep_streamed = a->o.keep_streamed;
    desc.weights_by_need =
        a->o.split && !a->r.weight_budget && !a->r.offload &&
        (strstr(a->o.split, "tensor") || strstr(a->o.split, "layers") || strstr(a->o.split, "pipefusion"));
    desc.parts = a->o.clip_on_cpu || a->o.conditioning ? ~TEXT_PARTS : 0;
    return desc;
}

/* The tokenizers of CLIP and T5 are one for all models, and files of encoders come without: the bundled ones serve. */
static bool add_tokenizers(app *a) {
    static const char *const bundled[][2] = {{"tokenizer of CLIP-L", "clip"},
                                             {"tokenizer of CLIP-G", "clip"},
                                             {"tokenizer of T5", "t5"},
                                             {"tokenizer of text conditioner", "t5"}}; /* Anima's reads T5's tokens */
    const uint32_t before = a->part_count;
    size_t i;
    int role;
    for (role = DIT_ROLE_TOKENIZER_1; role <= DIT_ROLE_TOKENIZER_3; role++) {
        for (i = 0; i < sizeof bundled / sizeof bundled[0]; i++) {
            char *path = a->tokenizer_paths[i / 2];
            if (!(a->info.missing & 1u << role) || path[0] ||
                strcmp(role_name(&a->info, (dit_role)role), bundled[i][0]) != 0)
                continue;
            if (find_bundled(bundled[i][1], path))
                a->parts[a->part_count++].source.path = path;
            else
                path[0] = 0;
        }
    }
    return a->part_count > before;
}

/* Whether a transformer stands beside another one: for low noise, or Ideogram 4's. */
static bool has_second(const app *a) {
    return a->info.parameters[DIT_ROLE_TRANSFORMER_2] || a->info.missing & 1u << DIT_ROLE_TRANSFORMER_2;
}
static bool has_experts(const app *a) { return has_second(a) && a->info.default_frames; }

/* LoRAs that cannot be computed beside the weights are merged without --lora-merge, too. */
static bool merge_loras(app *a) {
    dit_lora_info info;
    uint32_t i, number = 0;
    bool merges = false;
    for (i = 0; i < a->part_count; i++) {
        if (a->parts[i].role != DIT_ROLE_LORA || dit_model_lora(a->headers, number++, &info) != DIT_OK ||
            !info.only_merged)
            continue;
        a->parts[i].merge = merges = true;
        if (!a->o.quiet)
            fprintf(stderr, "dit: LoRA %s is DoRA, which is merged into the weights, as --lora-merge does\n",
                    info.name);
    }
    return merges;
}

/* Reads the model's headers only. what: goes before a failure; NULL: nothing. */
static int open_headers(app *a, const char *what) {
    dit_model_desc desc = describe_model(a);
    dit_result result;
    int role;
    desc.dry_run = true;
    result = dit_model_load(NULL, &desc, &a->headers, &a->err);
    if (result != DIT_OK) return dit_failed(a, result, what);
    dit_model_get_info(a->headers, &a->info);
    for (role = DIT_ROLE_TEXT_1; role <= DIT_ROLE_TEXT_3; role++) /* a part that another device runs is not missing */
        if (a->info.parameters[role]) a->info.missing &= ~(1u << role);
    if (a->o.guidance && strtod(a->o.guidance, NULL) == 1) a->info.missing &= ~(1u << DIT_ROLE_TRANSFORMER_2);
    if (a->o.conditioning) a->info.missing &= ~(TEXT_PARTS | TOKENIZERS);
    if (a->o.encode_prompt) a->info.missing &= TEXT_PARTS | TOKENIZERS;
    if (add_tokenizers(a))
        what = "there is no tokenizer (--tokenizer names one), and the usual one does not do";
    else if (!(has_experts(a) && divide_loras(&a->loras, a->parts, &a->part_count, a->o.quiet)) && !merge_loras(a))
        return EXIT_GOOD;
    dit_model_destroy(a->headers);
    a->headers = NULL;
    return open_headers(a, what);
}

/* ---- Clips ---- */

/* The numbers of frames that clips of the model may have: "any number", "1, 5, 9, 13, 17, 21 and so on". */
static void frame_counts(const dit_model *model, char *out, size_t size) {
    uint32_t frames, found = 0, all = 1;
    int n = 0;
    while (all <= 100 && dit_model_frames(model, all) == all) all++;
    snprintf(out, size, "any number");
    for (frames = 1; all <= 100 && frames <= 1000 && found < 6; frames++) {
        if (dit_model_frames(model, frames) != frames) continue;
        n += snprintf(out + n, size - (size_t)n, "%s%u", found++ ? ", " : "", frames);
    }
    if (found == 6) snprintf(out + n, size - (size_t)n, " and so on");
}

/* Options of clips are refused where the model makes pictures or lacks what they ask for. */
static int check_clip_options(const app *a) {
    const options *o = &a->o;
    const struct {
        const char *name, *value;
        bool can;
        const char *why;
    } wanted[] = {
        {"--lora", marked_lora(&a->loras), has_experts(a), "this model has no two experts"},
        {"--low-noise-cfg-scale", o->low_guidance, has_second(a),
         "this model has one transformer, whose guidance is --cfg-scale"},
        {"--sound-cfg-scale", o->sound_guidance, a->info.default_sound_guidance > 0,
         "clips of this model are made without a sound"},
        {"--fps", o->fps, a->info.default_frames > 0, "this model makes pictures"},
        {"--init-video", o->init_video, a->info.default_frames > 0,
         "this model makes pictures; --init-img begins with one"},
        {"--init-video", o->init_video, !a->info.wants_image, "this model moves a picture, which --init-img names"},
        {"--init-video", o->init_video, !a->info.takes_control,
         "this model follows a clip, which --control-video names"},
        {"--control-video", o->control_video, a->info.takes_control,
         a->info.default_frames ? "this model follows no clip" : "this model makes pictures"},
        {"--strength", o->strength, !a->info.takes_control,
         "this model follows a clip; --control-strength says how closely"},
        {"--end-img", o->end_image, a->info.takes_last_image || a->info.holds_frames,
         a->info.default_frames ? "no clip of this model ends with a picture that is given"
                                : "this model makes pictures"},
        {"--mask", o->mask, !a->info.default_frames || a->info.takes_control, "clips are not repainted in part"},
        {"--ref-image", o->references, !a->info.default_frames || a->info.takes_control || a->info.holds_frames,
         "this model makes clips after no other pictures"},
        {"--ref-image", o->references,
         !a->info.holds_frames || (o->mask_strategy && !o->init_image && !o->end_image && !o->init_video),
         "this model takes frames from --init-img, --end-img and --init-video"},
        {"--mask-strategy", o->mask_strategy, a->info.holds_frames, "this model takes no frames from others"},
        {"--loop", a->r.loops > 1 ? o->loop : NULL, a->info.holds_frames, "no clip of this model continues another"},
        {"--loop-frames", o->loop_frames, a->info.holds_frames, "no clip of this model continues another"},
        {"--loop-edit", o->loop_edit, a->info.holds_frames, "no clip of this model continues another"}};
    size_t i;
    for (i = 0; i < sizeof wanted / sizeof wanted[0]; i++)
        if (wanted[i].value && !wanted[i].can)
            return complain(EXIT_USAGE, "%s %s: %s; leave it out", wanted[i].name, wanted[i].value, wanted[i].why);
    if (o->mask_strategy && !o->init_image && !o->init_video && a->r.loops < 2)
        return complain(EXIT_USAGE, "--mask-strategy: there is nothing to take frames from; name it with --init-img or "
                                    "--init-video");
    if (a->info.wants_image && !o->init_image && !o->info)
        return complain(EXIT_USAGE, "--init-img: this model moves a picture; name one");
    if (a->info.wants_last_image && !o->end_image && !o->info)
        return complain(EXIT_USAGE, "--end-img: this model goes from --init-img to another picture; name it");
    if (o->end_image && o->init_video)
        return complain(EXIT_USAGE,
                        "--end-img and --init-video: a clip ends with a picture or begins with a clip; leave "
                        "one of them out");
    if (a->info.takes_control && o->mask && !o->control_video)
        return complain(EXIT_USAGE, "--mask: there is no clip that it is about; name it with --control-video");
    if (a->info.default_frames && o->init_image && !a->info.wants_image && !a->info.holds_frames &&
        !a->info.takes_image)
        return complain(EXIT_USAGE, "--init-img: this model begins with no picture%s; --init-video begins with a clip",
                        a->info.places[DIT_ROLE_IMAGE_ENCODER]
                            ? " (one that does and is a single file wants --clip-vision FILE, too)"
                            : "");
    return EXIT_GOOD;
}

/* How many frames are made, and how fast they pass. */
static int check_frames(app *a) {
    const options *o = &a->o;
    char counts[128];
    uint32_t nearest;
    int code;
    a->r.frames = a->info.default_frames;
    /* Frames are smaller than pictures; Open-Sora-Plan's autoencoder takes 65 of them at a time. */
    if (o->vae_tiling && !o->vae_tile && a->r.frames)
        a->r.vae_tile = strncmp(a->info.variant, "open-sora-plan", 14) == 0 ? 128 : 256;
    a->r.fps = o->fps ? strtod(o->fps, NULL) : (double)a->info.default_fps;
    if (!o->frames) return EXIT_GOOD;
    code = take_count("--frames", o->frames, 1, CLIP_MOST_FRAMES, a->r.frames ? a->r.frames : 1, "", &a->r.frames);
    if (code) return code;
    nearest = dit_model_frames(a->headers, a->r.frames);
    frame_counts(a->headers, counts, sizeof counts);
    if (!a->info.default_frames && a->r.frames > 1)
        return complain(EXIT_USAGE, "--frames %s: this model makes pictures; leave it out", o->frames);
    if (a->r.frames != nearest)
        return complain(EXIT_USAGE, "--frames %s: this model makes clips of %s frames; the nearest valid value is %u",
                        o->frames, counts, nearest);
    if (!a->info.default_frames) a->r.frames = 0;
    if (o->end_image && a->r.frames == 1)
        return complain(EXIT_USAGE, "--end-img %s: a clip of one frame has no other end; ask for more --frames",
                        o->end_image);
    return EXIT_GOOD;
}

/* --clip-l and --clip-g are the first and second text encoder of every family, but for a T5. */
static int check_encoders(const app *a) {
    const char *given[] = {a->o.clip_l, a->o.clip_g};
    size_t i;
    for (i = 0; i < 2; i++) {
        if (given[i] && a->info.encoders[i] && strcmp(a->info.encoders[i], "T5") == 0)
            return complain(EXIT_USAGE, "%s %s: this model has a T5 there; name that with --t5",
                            i ? "--clip-g" : "--clip-l", given[i]);
    }
    return EXIT_GOOD;
}

/* Says whose files are cut off: those of the first part with which bytes are missing. */
static int complain_absent(const app *a) {
    dit_model_desc desc = describe_model(a);
    uint64_t absent = a->info.absent_bytes;
    const char *option = "--model", *path = a->model_path;
    uint32_t count = desc.component_count, i;
    bool found = false;
    desc.weight_budget = 0;
    desc.release_text_encoders = false;
    desc.dry_run = true;
    for (i = desc.source.path ? 0 : 1; i <= count && !found; i++) {
        dit_model *model = NULL;
        dit_model_info info = {0};
        desc.component_count = i;
        if (dit_model_load(NULL, &desc, &model, NULL) == DIT_OK) dit_model_get_info(model, &info);
        dit_model_destroy(model);
        found = info.absent_bytes > 0;
        if (found && i) path = desc.components[i - 1].source.path;
    }
    for (i = 0; i < PART_OPTIONS; i++)
        if (part_path(&a->o, &part_options[i]) == path) option = part_options[i].name;
    return complain(EXIT_INPUT, "%s %s: %llu bytes at the end of its files are missing; get the file again", option,
                    path, (unsigned long long)absent);
}

/* Two transformers are experts of models that make clips, or branches of one that makes pictures. */
static int check_second(const app *a) {
    bool clips = a->info.default_frames > 0;
    if (a->o.uncond && clips)
        return complain(EXIT_USAGE, "--uncond-diffusion-model is of Ideogram 4; leave the option out for a model of %s",
                        a->info.family);
    if (a->o.high_noise && !clips)
        return complain(EXIT_USAGE,
                        "--high-noise-diffusion-model is of Wan 2.2; leave the option out for a model of %s",
                        a->info.family);
    return EXIT_GOOD;
}

/* Whether a path has the word, in whatever letters. */
static bool path_says(const char *path, const char *word) {
    size_t i;
    for (; path && *path; path++) {
        for (i = 0; word[i] && tolower((unsigned char)path[i]) == word[i]; i++) {
        }
        if (!word[i]) return true;
    }
    return false;
}

/* Says what a distilled model wants whose name is all that tells it, where nothing is asked for. */
static void tell_distilled(const app *a) {
    const char *path = a->o.diffusion_model ? a->o.diffusion_model : a->model_path, *advice;
    advice = distilled_advice(a->headers, &a->info);
    if (!advice || a->o.quiet || a->o.steps || a->o.guidance) return;
    if (path_says(path, "turbo") || path_says(path, "instant"))
        fprintf(stderr, "dit: %u steps with guidance %g: %s (--steps, --cfg-scale)\n", a->info.default_steps,
                (double)a->info.default_guidance, advice);
}

/* Its sizes and parts. */
static int check_model(app *a) {
    int code = a->headers ? EXIT_GOOD : open_headers(a, NULL);
    if (!code) code = check_second(a);
    if (!code) code = check_encoders(a);
    if (!code) code = check_class(a, a->headers);
    if (!code) code = check_clip_options(a);
    if (!code) code = check_frames(a);
    if (!code && a->o.encode_prompt && a->info.class_count)
        code = complain(EXIT_USAGE, "--encode-prompt: this model takes no prompts, but classes; leave it out");
    if (code) return code;
    /* The model's own sampler by name is the model's own, so that a PNG that names it says all. */
    if (a->o.sampler && strcmp(a->o.sampler, a->info.default_sampler) == 0) a->o.sampler = NULL;
    if (a->info.absent_bytes) return complain_absent(a);
    if (a->info.missing) return complain_missing(a);
    tell_distilled(a);
    return EXIT_GOOD;
}

/* A picture that is edited is as large as the model reads it, else its contents would move; of several the originals
   mean the last one. Other pictures have the shape of the first one. */
static void fit_edited(app *a, uint32_t multiple) {
    const picture *first = &a->r.reference_pictures[0], *last = first + a->r.reference_count - 1;
    uint32_t width = last->width, height = last->height;
    if (dit_model_edited_size(a->headers, &width, &height)) {
        a->r.width = width;
        a->r.height = height;
    } else {
        fit_size(first, multiple, 16384, &a->r.width, &a->r.height);
    }
}

static int check_sizes(app *a) {
    const dit_model_info *m = &a->info;
    uint32_t multiple = m->size_multiple ? m->size_multiple : 1;
    int code = EXIT_GOOD;
    a->r.width = m->default_width;
    a->r.height = m->default_height;
    if ((a->r.start.rgba || a->r.end.rgba) && !a->o.width && !a->o.height)
        fit_size(a->r.start.rgba ? &a->r.start : &a->r.end, multiple, 16384, &a->r.width, &a->r.height);
    else if (a->r.control.rgba && !a->o.width && !a->o.height)
        fit_size(&a->r.control, multiple, 16384, &a->r.width, &a->r.height);
    else if (a->r.reference_count && !a->info.takes_control && !a->o.width && !a->o.height)
        fit_edited(a, multiple);
    else if (a->r.video.count && !a->o.width && !a->o.height)
        fit_size(&a->r.video.frames[0], multiple, 16384, &a->r.width, &a->r.height);
    if (a->o.width) code = take_count("--width", a->o.width, multiple, 16384, m->default_width, " pixels", &a->r.width);
    if (!code && a->o.height) {
        code = take_count("--height", a->o.height, multiple, 16384, m->default_height, " pixels", &a->r.height);
    }
    return code;
}

/* A sum of all bytes of a file, as 8 hexadecimal digits, so that a PNG's reader knows it again. */
static void read_hash(const char *path, char out[16]) {
    size_t size = 0;
    unsigned char *file = read_file(path, &size);
    out[0] = 0;
    if (file) snprintf(out, 16, "%08x", (unsigned)crc32_of(0, file, size));
    free(file);
}

/* A file is the one that the picture of --repeat-from was made with. told: its sum in that picture's text; NULL: none
   is there, or the user has named another file. */
static int check_told_file(const app *a, const char *option, const char *path, const char *told, const char *found) {
    if (!told || strcmp(told, found) == 0) return EXIT_GOOD;
    return complain(EXIT_INPUT, "%s was made with another file than this %s; name it with %s", a->o.repeat_from, path,
                    option);
}

static int check_noise(app *a) {
    const dit_model_info *m = &a->info;
    st_tensor *noise = &a->r.noise;
    uint32_t factor = m->latent_factor ? m->latent_factor : 8;
    const char *wrong;
    size_t i;
    int code;
    if (!a->o.noise) return EXIT_GOOD;
    wrong = st_load(a->o.noise, "noise", noise);
    if (wrong)
        return complain(EXIT_INPUT, "--noise %s: %s; it takes a safetensors file with 'noise', F32 %s", a->o.noise,
                        wrong, a->r.frames ? "[B,C,frames,h,w]" : "[B,C,h,w]");
    if (a->r.frames && noise->rank != 5)
        return complain(EXIT_INPUT, "--noise %s: for clips the shape must have 5 numbers, [B,C,frames,h,w]",
                        a->o.noise);
    if (!a->r.frames && (noise->rank != 4 || noise->shape[1] != m->latent_channels ||
                         noise->shape[2] != a->r.height / factor || noise->shape[3] != a->r.width / factor)) {
        return complain(EXIT_INPUT, "--noise %s: for %ux%u pixels the shape must be [%u, %u, %u, %u]", a->o.noise,
                        a->r.width, a->r.height, a->r.count, m->latent_channels, a->r.height / factor,
                        a->r.width / factor);
    }
    read_hash(a->o.noise, a->hashes[2]);
    code = check_told_file(a, "--noise", a->o.noise, a->o.noise_hash, a->hashes[2]);
    if (code) return code;
    if (a->o.noise_picture) {
        size_t values = noise->count / (size_t)noise->shape[0];
        uint64_t first = strtoull(a->o.noise_picture, NULL, 10);
        if (first < 1 || first > noise->shape[0])
            return complain(EXIT_INPUT, "--noise %s: it has no noise for picture %s", a->o.noise, a->o.noise_picture);
        a->noise_first = (uint32_t)first - 1;
        memmove(noise->data, noise->data + values * a->noise_first, values * sizeof *noise->data);
        noise->count = values;
        noise->shape[0] = 1;
    }
    if (a->o.count && noise->shape[0] != a->r.count) {
        return complain(EXIT_USAGE, "--batch-count %u: %s holds noise for %llu; the nearest valid value is %llu",
                        a->r.count, a->o.noise, (unsigned long long)noise->shape[0],
                        (unsigned long long)noise->shape[0]);
    }
    if (noise->shape[0] > 9999) return complain(EXIT_INPUT, "--noise %s: more than 9999 pictures", a->o.noise);
    a->r.count = (uint32_t)noise->shape[0];
    for (i = 0; i < noise->count; i++) {
        if (!isfinite(noise->data[i]))
            return complain(EXIT_INPUT, "--noise %s: value %zu is not finite", a->o.noise, i);
    }
    return EXIT_GOOD;
}
#endif
