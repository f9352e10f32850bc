/* build/dit: pictures and clips from a text, on the command line. `dit --help` shows the options,
   examples/cli/options.h holds them.

   Build: cc -std=c99 -O2 -I. -o build/dit examples/cli/txt2img.c -lm -ldl   (needs stb_image_write.h and, for
   --init-img, stb_image.h; with -DDIT_WEBP and libwebpmux it writes animated WebP)

   A request goes like this (make_request): everything the user typed is checked before any work (check_request), then a
   context, a model and one job are made or taken from the request before (prepare), and the job runs once per picture
   with the next seed (make_picture). Frames of a clip are written as they come (put_frames).

   options.h  the command line            request.h  the job; order of checks     batch.h        many requests: lines,
   app.h      the state of a run          repeat.h   parameters in pictures       interactive.h  typed prompts,
   telling.h  progress and failures       ahead.h    the next prompt              server.h       HTTP
   checks.h   checks before any work      prepare.h  context, model, job          screen.h       drawing on terminals
   given.h    pictures that are given     making.h   steps, previews, files
   hires.h    a second, larger pass       inpaint.h  pasting by a mask

   resume.h keeps what an interrupted picture had finished; clip.h, stills.h, sheet.h and parameters.h write files;
   doctor.h, catalogue.h and completion.h answer questions. make adds what libraries of the distribution give:
   -DDIT_JPEG, DIT_SIXEL, DIT_EDIT, DIT_JSON, DIT_HTTP. */
#define _DEFAULT_SOURCE 1 /* signal() that stays installed, realpath */
#define _XOPEN_SOURCE 700
#define DIT_IMPLEMENTATION
#include "dit.h"
#include "files.h"
#include "clip.h"
#include "info.h"
#include "lora.h"
#include "options.h"
#include "completion.h"
#include "catalogue.h"
#include "parameters.h"
#include "pictures.h"
#include "frames.h"
#include "stills.h"
#include "sheet.h"
#include "wire.h"
#include "screen.h"
#include "upscale.h"
#include <math.h>
#include <signal.h>
#include <time.h>
#ifndef _WIN32
#include <fcntl.h>
#include <locale.h>
#include <sys/ioctl.h>
#endif
#include "app.h"
#include "telling.h"
#include "negatives.h"
#include "checks.h"
#include "inpaint.h"
#include "given.h"
#include "hires.h"
#include "request.h"
#include "repeat.h"
#include "resume.h"
#include "ahead.h"
#include "prepare.h"
#include "making.h"

/* ---- Requests: one, or many one after the other with what is loaded ---- */

/* Options that shape the context, the model and its parts, besides those that name the parts (part_options). */
static const char *const loading_options[] = {"--model",         "--type",          "--tensor-type-rules",
                                              "--weight-budget", "--device-memory", "--offload-to-cpu",
                                              "--keep-streamed", "--clip-on-cpu",   "--split",
                                              "--device",        "--conditioning",  "--encode-prompt",
                                              "--trace",         "--tune",          "--lora-merge"};

/* The values of both, one after the other; freed with free, NULL without memory. */
static char *loading_text(options *o, const lora_list *loras) {
    parameter_text out = {0};
    char weight[32];
    size_t i;
    for (i = 0; i < sizeof loading_options / sizeof loading_options[0]; i++) {
        const option_entry *entry = find_option(loading_options[i]);
        const char *value = entry->value ? *option_text(o, entry) : *option_flag(o, entry) ? "on" : NULL;
        append_pair(&out, entry->name, value ? value : "");
    }
    for (i = 0; i < PART_OPTIONS; i++) {
        const char *path = part_path(o, &part_options[i]);
        append_pair(&out, part_options[i].name, path ? path : "");
    }
    for (i = 0; i < loras->count; i++) {
        snprintf(weight, sizeof weight, "%.9g %d", (double)loras->items[i].weight, (int)loras->items[i].expert);
        append_pair(&out, weight, loras->items[i].path);
    }
    return out.at;
}

/* Lets go of context, model and plan. */
static void unload(app *a) {
    dit_job_destroy(a->job);
    dit_job_destroy(a->other_job);
    forget_texts(a);
    dit_model_destroy(a->model);
    dit_model_destroy(a->headers);
    dit_context_destroy(a->context);
    free(a->cache);
    free(a->mark);
    free(a->loaded);
    a->job = a->other_job = NULL;
    a->model = a->headers = NULL;
    a->context = NULL;
    a->cache = a->mark = NULL;
    a->loaded = NULL;
    memset(a->tokenizer_paths, 0, sizeof a->tokenizer_paths);
    memset(&a->relief, 0, sizeof a->relief);
}

/* Frees what a request alone had. */
static void end_request(app *a) {
    uint32_t i;
    use_pass(a, false);
    free(a->r.hires.picture.rgba);
    free(a->r.hires.latents);
    free_paste(&a->r.paste);
    free_clip(&a->r.video);
    free_clip(&a->r.masks);
    free(a->loop_prompt);
    free_loras(&a->loras);
    free(a->strip);
    free(a->rgba);
    free(a->latents);
    free(a->r.noise.data);
    free(a->r.texts[0].bytes);
    free(a->r.texts[1].bytes);
    free(a->r.start.rgba);
    free(a->r.end.rgba);
    for (i = 0; i < MOST_REFERENCES; i++) free(a->r.reference_pictures[i].rgba);
    free(a->r.mask.rgba);
    free(a->r.control.rgba);
    free(a->split);
    free_resume(a);
    a->loop_prompt = a->split = NULL;
    a->strip = a->rgba = NULL;
    a->latents = NULL;
    memset(&a->r, 0, sizeof a->r);
    memset(a->hashes, 0, sizeof a->hashes);
    a->noise_first = a->strip_frames = 0;
}

/* The pictures of a->o. Context, model and plan stay, and those of the request before serve where they can. */
static int make_request(app *a) {
    const char *negative = a->o.negative_prompt; /* another request may have another model */
    int code = take_loras(&a->o, &a->loras);
    char *loading = loading_text(&a->o, &a->loras);
    uint32_t i;
    if (!a->loaded || !loading || strcmp(loading, a->loaded) != 0) {
        unload(a);
        a->loaded = loading;
        loading = NULL;
    }
    free(loading);
    if (!code) code = check_request(a);
    if (!code && a->o.encode_prompt) {
        code = write_conditioning(a);
    } else {
        if (!code) code = prepare(a);
        for (i = 0; i < a->r.count && !code; i++) code = make_picture(a, i);
        if (!code) code = save_latents(a);
        if (!code && a->o.verbose) tell_counters(a);
    }
    if (!code && a->line) code = remember_outputs(a);
    close_line(a);
    if (code == EXIT_DEVICE) unload(a); /* a device that failed serves no more */
    if (!code) a->first_picture += a->r.count;
    a->o.negative_prompt = negative;
    end_request(a);
    return tell_failure(a, code);
}

/* Text counts as printed only when it has arrived. */
static int finish_output(bool open_out) {
    const char *why = open_out ? why_not_printed() : "it is closed";
    return why ? complain(EXIT_OUTPUT, "cannot write to standard output: %s", why) : EXIT_GOOD;
}

/* Ends the program's work; code: how that went. Returns the exit code. */
static int finish(app *a, int code) {
    if (!code) code = save_grid(a);
    if (!code) code = finish_output(true);
    keep_pipeline_cache(a);
    if (!code)
        code = save_trace(a);
    else
        save_trace(a);
    unload(a);
    sheet_free(&a->grid);
    forget_outputs(a);
    free(a->repeated_text);
    return code;
}

/* Ways to ask for more than one request; all that is above serves them. */
#include "batch.h"
#include "interactive.h"
#include "server.h"
#include "doctor.h"

/* ---- Information ---- */

/* A prompt as long as any text encoder reads, so that no other one needs more memory. */
static const char *longest_prompt(void) {
    static char text[2048];
    memset(text, ' ', sizeof text - 1);
    for (size_t i = 0; i + 1 < sizeof text; i += 2) text[i] = 'a';
    return text;
}

/* Whether a clip of the model may begin with a whole one, or so many continue each other. */
static bool can_begin(const app *a, bool with_clip, uint32_t loops) {
    const uint32_t side = 8 * a->info.size_multiple, count = a->info.default_frames;
    dit_image *frames = calloc(count, sizeof *frames);
    unsigned char *pixels = calloc((size_t)side * side, 4);
    dit_job_desc desc = {0};
    dit_memory memory;
    uint32_t i;
    bool can;
    for (i = 0; frames && i < count; i++) {
        frames[i].width = frames[i].height = side;
        frames[i].rgba = pixels;
    }
    desc.model = a->headers;
    desc.prompt = "a";
    desc.sampler = "euler";
    desc.width = desc.height = side;
    desc.loop_count = loops;
    if (with_clip) desc.init_image = frames, desc.init_count = count;
    can = frames && pixels && dit_job_memory(NULL, &desc, &memory, NULL) == DIT_OK;
    free(frames);
    free(pixels);
    return can;
}

/* Clips of the model: their defaults, numbers of frames that are possible, and inputs. */
static void tell_clips(const app *a) {
    char counts[128];
    if (!a->info.default_frames) return;
    frame_counts(a->headers, counts, sizeof counts);
    if (lacks_sizes(&a->info))
        printf("clips; their sizes and frames are told with the autoencoder\n");
    else
        printf("clips of %u frames, %g a second, unless told otherwise; frames possible: %s\n", a->info.default_frames,
               (double)a->info.default_fps, counts);
    if (a->info.wants_image) printf("a picture is needed: --init-img\n");
    if (a->info.takes_last_image)
        printf("the last frame %s: --end-img\n", a->info.wants_last_image ? "is needed, too" : "may be given, too");
    if (a->info.takes_control)
        printf("a clip may be followed: --control-video, --mask, --control-strength; pictures: --ref-image, "
               "--init-img\n");
    if (a->info.holds_frames)
        printf("frames may be given: --init-img, --end-img, --init-video%s--mask-strategy%s\n",
               can_begin(a, true, 1) ? ", " : " with ", can_begin(a, false, 2) ? ", --loop" : "");
    else if (can_begin(a, true, 1))
        printf("a clip may be the beginning: --init-video, --strength\n");
    if (a->info.takes_image && !a->info.wants_image && !a->info.takes_control && !a->info.holds_frames)
        printf("a picture may be the first frame: --init-img\n");
}

static dit_result tell_model(app *a, const dit_model *model, int level) {
    weight_table table = {0};
    dit_job_desc desc;
    const bool reads = a->r.start.rgba || a->r.control.rgba || a->r.reference_count,
               readable = !lacks_sizes(&a->info) && (!reads || !(a->info.missing & 1u << DIT_ROLE_VAE));
    dit_result result = read_weights(model, &table, &a->err);
    if (result == DIT_OK) {
        tell_family(a->o.model ? a->o.model : base_name(a->model_path), a->headers, &a->info);
        tell_clips(a);
        tell_negative(&a->info);
        tell_weights(&a->info, &table);
        tell_missing(&a->info);
    }
    if (result == DIT_OK && level > 1 && a->info.layers && !readable) {
        printf("memory is told with the autoencoder, which %s\n",
               lacks_sizes(&a->info) ? "tells the size of the clip" : "reads the picture that is given or needed");
    } else if (result == DIT_OK && level > 1 && a->info.missing & 1u << DIT_ROLE_TRANSFORMER_2 && a->r.guidance != 1) {
        printf("memory is told with the unconditional transformer, or with --cfg-scale 1\n");
    } else if (result == DIT_OK && level > 1 && a->info.layers) {
        dit_tensor noise;
        describe_job(a, 0, &desc, &noise);
        desc.model = model;
        desc.image_count = a->r.frames ? 1 : a->r.count; /* clips are made one by one */
        if (!a->o.prompt && !a->info.class_count) desc.prompt = longest_prompt();
        if (a->info.missing & 1u << DIT_ROLE_SCHEDULER && !desc.sampler)
            desc.sampler = "euler"; /* they differ little */
        result = tell_job(a->context, &table, &desc, level, &a->err);
    }
    free(table.rows);
    return result;
}

static int check_info(app *a, int *level) {
    const options *o = &a->o;
    *level = 2;
    if (*o->info && o->model && strcmp(o->info, o->model) != 0)
        return complain(EXIT_USAGE, "--info %s: --model names another one; leave one of them out", o->info);
    if (*o->info) a->o.model = o->info;
    if (o->json) return complain(EXIT_USAGE, "--json: --info tells tables, no JSON; leave it out");
    if (o->info_level) {
        *level = o->info_level[0] - '0';
        if (*level < 1 || *level > 3 || o->info_level[1])
            return complain(EXIT_USAGE, "--info-level '%s': 1 weights, 2 memory, 3 every op and tensor", o->info_level);
    }
    return EXIT_GOOD;
}

/* A picture of zeros, of the size that is made; false: no memory. */
static bool blank_picture(const app *a, picture *out) {
    out->width = a->r.width;
    out->height = a->r.height;
    out->rgba = calloc((size_t)out->width * out->height, 4);
    return out->rgba != NULL;
}

/* Pictures that the model needs and that are not given: any will do. */
static int stand_in(app *a) {
    const bool follows = a->info.wants_control || a->info.control_count;
    int code;
    bool good = true;
    if ((a->info.wants_image || a->info.wants_mask) && !a->r.start.rgba) good = blank_picture(a, &a->r.start);
    if (good && a->info.wants_last_image && !a->r.end.rgba) good = blank_picture(a, &a->r.end);
    if (good && a->info.wants_mask && !a->r.mask.rgba) good = blank_picture(a, &a->r.mask);
    if (good && follows && !a->r.control.rgba) good = blank_picture(a, &a->r.control);
    if (!good) return complain(EXIT_MEMORY, "out of memory");
    code = scale_start(a);
    return code ? code : scale_control(a);
}

/* Whether --info names a picture; *code: its parameters are shown, or why not. */
static bool show_picture_info(const app *a, int *code) {
    unsigned char begin[12] = "", *file = NULL;
    const char *path = a->o.info, *why = NULL;
    char *text = NULL;
    size_t size = 0;
    FILE *from = *path && !why_not_readable(path) ? fopen(path, "rb") : NULL;
    const bool known = from && fread(begin, 1, sizeof begin, from) == sizeof begin;
    if (from) fclose(from);
    if (!known || (memcmp(begin, "\x89PNG", 4) && memcmp(begin, "\xff\xd8\xff", 3) &&
                   (memcmp(begin, "RIFF", 4) || memcmp(begin + 8, "WEBP", 4))))
        return false;
    file = read_file(path, &size);
    if (file) text = find_picture_text(file, size, &why);
    *code = text ? EXIT_GOOD : complain(EXIT_INPUT, "--info %s: %s", path, file ? why : told_reason(errno));
    if (text) puts(text);
    free(text);
    free(file);
    return true;
}

static int show_info(app *a) {
    dit_result result;
    int level, code;
    if (show_picture_info(a, &code)) return code;
    code = check_info(a, &level);
    if (!code) code = check_numbers(a);
    if (!code && a->r.count > 64) code = complain(EXIT_USAGE, "--batch-count %u: at most 64 with --info", a->r.count);
    if (!code) code = take_loras(&a->o, &a->loras);
    if (!code) code = check_model_path(a);
    if (!code) code = open_headers(a, NULL);
    if (!code) code = check_clip_options(a);
    if (!code) code = check_frames(a);
    if (!code) code = read_given(a);
    if (!code) code = stand_in(a);
    if (!code && a->o.device) code = open_context(a);
    if (code) return code;
    take_defaults(a);
    result = tell_model(a, a->headers, level);
    dit_model_destroy(a->headers);
    end_request(a);
    dit_context_destroy(a->context);
    free(a->cache);
    free(a->mark);
    return result == DIT_OK ? EXIT_GOOD : dit_failed(a, result, NULL);
}

/* ---- The program ---- */

/* A closed standard stream would let the next opened file take its number, and printing would end up in a picture. */
static bool guard_streams(void) {
    bool open_out = true;
#ifndef _WIN32
    int fd;
    open_out = fcntl(1, F_GETFD) != -1;
    do fd = open("/dev/null", O_RDWR);
    while (fd >= 0 && fd < 3);
    if (fd >= 3) close(fd);
#endif
    return open_out;
}

static void put_line(parameter_text *line) {
    if (line->at) puts(line->at);
    free(line->at);
    memset(line, 0, sizeof *line);
}

static void put_device(uint32_t index, const dit_device_info *d) {
    parameter_text line = {0};
    char text[40];
    size_t i;
    json_raw(&line, "{");
    json_count(&line, "index", index);
    json_text(&line, "name", d->name);
    for (i = 0; i < 16; i++) snprintf(text + 2 * i, 3, "%02x", d->uuid[i]);
    json_text(&line, "uuid", text);
    snprintf(text, sizeof text, "%u.%u", d->api_version >> 22 & 0x7f, d->api_version >> 12 & 0x3ff);
    json_text(&line, "vulkan", text);
    json_count(&line, "memory", d->memory);
    json_text(&line, "rung", d->rung);
    json_raw(&line, "}");
    put_line(&line);
}

static void put_model(const found_model *m) {
    parameter_text line = {0};
    bool first = true;
    int role;
    json_raw(&line, "{");
    json_text(&line, "name", m->name);
    json_text(&line, "path", m->path);
    json_text(&line, "family", m->info.family);
    json_text(&line, "variant", m->info.variant);
    json_count(&line, "bytes", m->bytes);
    json_key(&line, "lacks");
    json_raw(&line, "[");
    for (role = 0; role < 32; role++) {
        if (!(m->info.missing & 1u << role)) continue;
        json_raw(&line, first ? "" : ",");
        json_quote(&line, role_name(&m->info, (dit_role)role));
        first = false;
    }
    json_raw(&line, "]}");
    put_line(&line);
}

static int list_devices(app *a) {
    dit_device_info *devices = NULL;
    uint32_t count = 0, i;
    dit_result result = dit_device_list(NULL, &count, &a->err);
    if (result == DIT_OK) devices = calloc(count ? count : 1, sizeof *devices);
    if (result == DIT_OK && !devices) return complain(EXIT_MEMORY, "out of memory");
    if (result == DIT_OK) result = dit_device_list(devices, &count, &a->err);
    for (i = 0; result == DIT_OK && i < count; i++) {
        const dit_device_info *d = &devices[i];
        if (a->o.json) {
            put_device(i, d);
            continue;
        }
        printf("%u: %s, Vulkan %u.%u, %.1f GB, %s\n", i, d->name, d->api_version >> 22 & 0x7f,
               d->api_version >> 12 & 0x3ff, (double)d->memory / 1e9, d->rung[0] ? d->rung : "cannot be used");
    }
    free(devices);
    return result == DIT_OK ? EXIT_GOOD : dit_failed(a, result, NULL);
}

static void list_names(const char *(*name_at)(uint32_t)) {
    const char *name;
    uint32_t i;
    for (i = 0; (name = name_at(i)) != NULL; i++) puts(name);
}

static int list_models(const app *a) {
    catalogue all = {NULL, 0, 0};
    char bundled[PATH_SIZE] = "";
    uint32_t i;
    if (!find_bundled("emoji-q8_0.gguf", bundled)) bundled[0] = 0;
    find_models(&all, bundled);
    for (i = 0; a->o.json && i < all.count; i++) put_model(&all.models[i]);
    if (!a->o.json) tell_models(&all);
    free(all.models);
    if (all.count) return EXIT_GOOD;
    return complain(EXIT_INPUT, "no model is in the usual folders; put one into models/, or name a folder with "
                                "DIT_MODELS=FOLDER");
}

static bool answers_only(app *a, int *code) {
    char version[64];
    size_t i;
    if (a->o.help_all)
        for (i = 0; i < HELP_PARTS; i++) fputs(help_parts[i], stdout);
    else if (a->o.help)
        fputs(help_text, stdout);
    else if (a->o.version)
        version_text(version, sizeof version), puts(version);
    else if (a->o.sampler && strcmp(a->o.sampler, "list") == 0)
        list_names(dit_sampler_name);
    else if (a->o.schedule && strcmp(a->o.schedule, "list") == 0)
        list_names(dit_schedule_name);
    else if (a->o.rng && strcmp(a->o.rng, "list") == 0)
        list_names(rng_name);
    else if (a->o.hires_upscaler && strcmp(a->o.hires_upscaler, "list") == 0)
        list_names(upscaler_name);
    else if (a->o.type && strcmp(a->o.type, "list") == 0)
        list_names(type_name);
    else if (a->o.completion)
        *code = put_completion(a->o.completion);
    else if (a->o.man)
        version_text(version, sizeof version), put_man(version);
    else if (a->o.doctor)
        *code = a->o.json ? complain(EXIT_USAGE, "--json: dit doctor tells sentences, no JSON; leave it out")
                          : see_doctor(a);
    else if (a->o.list_models)
        *code = list_models(a);
    else if (a->o.list_devices)
        *code = list_devices(a);
    else if (a->o.info)
        *code = show_info(a);
    else
        return false;
    return true;
}

static bool stderr_is_terminal(void) {
#ifdef _WIN32
    HANDLE console = GetStdHandle(STD_ERROR_HANDLE); /* it understands the codes that redraw a line only if asked to */
    DWORD mode;
    return GetConsoleMode(console, &mode) && SetConsoleMode(console, mode | 4 /* virtual terminal */);
#else
    const char *kind = getenv("TERM");
    return isatty(2) && !(kind && strcmp(kind, "dumb") == 0);
#endif
}

/* The maker of previews may stand in front of their place: "tae,kitty". */
static const char *choose_preview_maker(app *a, const char *where) {
    static const char *const makers[] = {"proj", "tae", "vae"};
    size_t i;
    for (i = 0; i < sizeof makers / sizeof makers[0]; i++) {
        const size_t length = strlen(makers[i]);
        if (strncmp(where, makers[i], length) != 0 || (where[length] && where[length] != ',')) continue;
        a->preview_maker = (dit_preview)(DIT_PREVIEW_PROJ + (int)i);
        return where[length] ? where + length + 1 : a->o.preview_path ? a->o.preview_path : "terminal";
    }
    return where;
}

/* --preview: a way to draw on the terminal, or a file. */
static int choose_previews(app *a) {
    screen_kind kind;
    const char *why;
    if (!a->o.preview) return EXIT_GOOD;
    a->o.preview = choose_preview_maker(a, a->o.preview);
    kind = screen_named(a->o.preview);
    if (kind == SCREEN_NONE && base_name(a->o.preview) == a->o.preview && !strchr(a->o.preview, '.'))
        return complain(
            EXIT_USAGE,
            "--preview '%s': there are terminal, kitty, iterm2, sixel and blocks, and names of files such as "
            "preview.png",
            a->o.preview);
    if (kind == SCREEN_NONE) {
        if (a->o.preview_path && strcmp(a->o.preview_path, a->o.preview) != 0)
            return complain(EXIT_USAGE, "--preview %s: --preview-path names another file; leave one of them out",
                            a->o.preview);
        a->o.preview_path = a->o.preview;
        return EXIT_GOOD;
    }
    why = screen_open(&a->screen, 2, kind);
    return why ? complain(EXIT_USAGE, "--preview %s: %s", a->o.preview, why) : EXIT_GOOD;
}

/* Nothing says what to show, and somebody sits at the terminal who can. */
static bool asks_for_prompts(const app *a) {
    const options *o = &a->o;
    return !o->prompt && !o->class_name && !o->conditioning && !o->encode_prompt && !o->repeat_from && isatty(0) &&
           isatty(2) && !(o->output && to_stdout(o));
}

int main(int argc, char **argv) {
    static app a; /* zeros */
    bool open_out = guard_streams();
    int code;
#ifndef _WIN32
    /* Letters of the terminal; where the locale names none, it is taken to be UTF-8. */
    if (!setlocale(LC_CTYPE, "") || strcmp(nl_langinfo(CODESET), "ANSI_X3.4-1968") == 0) setlocale(LC_CTYPE, "C.UTF-8");
#endif
    code = parse_options(argc, argv, &a.o);
    a.open_out = open_out;
    a.terminal = stderr_is_terminal();
    if (!code && a.o.repeat_from) code = repeat_options(&a, argc, argv);
    if (!code) code = choose_previews(&a);
    if (code) return tell_failure(&a, code);
    if (answers_only(&a, &code)) return code ? code : finish_output(open_out);
    end_cleanly_by_signals();
    signal(SIGINT, on_signal);
    signal(SIGTERM, on_signal);
    if (a.o.serve) return finish(&a, serve(&a));
    if (a.o.batch) return finish(&a, make_batch(&a));
    if (asks_for_prompts(&a)) return finish(&a, interact(&a));
    return finish(&a, make_request(&a));
}
