/* build/dit: pictures and clips from a text, on the command line. `dit --help` shows the options,
   examples/cli/options.h holds them.

   Build: cc -std=c99 -O2 -I. -o build/dit examples/cli/txt2img.c -lm -ldl   (needs stb_image_write.h and, for
   --init-img, stb_image.h; with -DDIT_WEBP and libwebpmux it writes animated WebP)

   A request goes like this (make_request): everything the user typed is checked before any work (check_request), then a
   context, a model and one job are made or taken from the request before (prepare), and the job runs once per picture
   with the next seed (make_picture). Frames of a clip are written as they come (put_frames). The command line is one
   request; batch.h, interactive.h and server.h make many. screen.h draws on terminals, stills.h and sheet.h write
   pictures, catalogue.h, completion.h and doctor.h answer questions. make adds what libraries of the distribution give:
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
#include <math.h>
#include <signal.h>
#include <time.h>
#ifndef _WIN32
#include <fcntl.h>
#include <locale.h>
#include <sys/ioctl.h>
#endif

typedef struct text_buffer {
    unsigned char *bytes;
    size_t size, room;
} text_buffer;

typedef struct known_text { /* a prompt and what the encoders made of it; prompt NULL: none */
    char *prompt;
    bool plain; /* without weights of words */
    text_buffer blob;
} known_text;

enum { MOST_REFERENCES = 10, REFERENCE_PIXELS = 1024 * 1024 };
typedef struct request { /* the options as numbers */
    uint32_t width, height, steps, count, preview_interval;
    int quality; /* of JPEG and WebP */
    float guidance;
    uint64_t seed, weight_budget, device_memory;
    uint32_t vae_tile; /* 0: none */
    bool offload;
    int32_t class_label;
    dit_rng rng;
    st_tensor noise; /* [count, C, h, w], of clips of rank 5; data NULL: none */
    type_rules types;
    job_numbers numbers;
    uint64_t skip_blocks;
    uint32_t clip_skip;
    picture start, mask, control; /* rgba NULL: none */
    dit_image control_image;
    dit_adapter control_net;
    text_buffer texts[2]; /* prompts that were encoded elsewhere: the negative one, the other one */
    dit_image start_image, mask_image;
    uint32_t frames;      /* of a clip; 0: the model makes pictures */
    double fps;           /* of a clip */
    uint32_t loops;       /* clips that continue each other; 1: one alone */
    uint32_t loop_frames; /* latent frames; 0: the model's own number */
    picture *video;       /* frames of --init-video; NULL: none */
    dit_image *video_images;
    uint32_t video_count, video_room;
    picture reference_pictures[MOST_REFERENCES]; /* --ref-image */
    dit_image reference_images[MOST_REFERENCES];
    dit_reference references[MOST_REFERENCES];
    uint32_t reference_count;
} request;

enum { STRIP_FRAMES = 8, STRIP_SIDE = 128, MOST_REFERENCE_FRAMES = 4096 };

struct app;
typedef struct follower {
    bool (*watch)(struct app *a, const dit_status *status); /* at every look at the progress; false: stop */
    bool (*take)(struct app *a, uint32_t i);                /* a picture, in place of a file; NULL: files */
    void (*preview)(struct app *a, const unsigned char *rgba, uint32_t width, uint32_t height);
    bool previews; /* are wanted */
    void *user;
} follower;

typedef struct app {
    options o;
    request r;
    char model_path[PATH_SIZE]; /* or that of the transformer, where it stands for all */
    dit_component parts[10 + LORA_MOST];
    lora_list loras;
    char tokenizer_paths[2][PATH_SIZE]; /* paths of the bundled tokenizers, CLIP's and T5's, where they are needed */
    uint32_t part_count;
    dit_model_info info;
    dit_context *context;
    dit_model *headers; /* of the model, for questions before it is loaded */
    dit_model *model;
    dit_job *job;
    dit_error err;
    unsigned char *rgba, *cache, *mark;
    size_t cache_size, mark_size;
    options repeated; /* of --repeat-from */
    char *repeated_text, repeated_paths[15][PATH_SIZE];
    char hashes[6][16];   /* sums of the files of --init-img, --mask, --noise and --conditioning, of the frames of
                             --init-video, of --control-image; empty: they cannot be read twice */
    uint32_t noise_first; /* the first picture in --noise's file that is used */
    char *split;          /* as the PNG tells it: only where it changes the picture; freed with free */
    float *latents;       /* [count, C, h, w], of clips [count, C, frames, h, w] */
    size_t latent_room;   /* values that one may have */
    uint32_t latent_frames;
    clip clip;            /* that is being written; path NULL: none */
    uint32_t loop, shown; /* number of the clip that continues others, and its frames that were taken */
    unsigned char *strip; /* frames of a clip, for --preview; freed with free */
    uint32_t strip_width, strip_height, strip_frames;
    char *loop_prompt;       /* freed with free */
    char *loaded;            /* the options that context and model were made with (loading_text); freed with free */
    known_text known[2];     /* prompts that were encoded apart from a job: a negative one, another one */
    dit_encoding *ahead;     /* makes known[1]; NULL: it is there, or there is none */
    const char *next_prompt; /* of a batch: the line behind this one; NULL: it is not known */
    struct {                 /* what relieve() had to change for this model */
        uint32_t vae_tile;
        uint64_t weight_budget;
        bool offload;
    } relief;
    struct { /* seconds of this picture */
        double ready, prompt, steps, decode, total;
    } took;
    follower follow;          /* who hears of the request besides the terminal */
    picture handed[2];        /* --init-img and --mask that came as bytes, not as files; rgba NULL: none */
    sheet grid;               /* of --grid */
    screen screen;            /* where --preview draws */
    uint32_t first_picture;   /* pictures that this run has made in requests before */
    const char *entry;        /* of a batch: members that begin each line of its JSON; NULL: none */
    char title[16];           /* stands before a picture's name when it is told: "$3  " */
    uint32_t told_step;       /* of the last line in JSON */
    bool terminal, line_open; /* stderr is a terminal; a progress line stands there */
    bool open_out;            /* standard output is open */
    double started, told;     /* seconds: begin of this picture, last progress */
    double first_at;          /* when the first step was seen finished, and how far the picture was then */
    dit_status first;
    uint32_t preview_id;
    dit_preview preview_maker;
} app;

/* ---- Interruption: the only global state, because signal handlers have no other ---- */

static volatile sig_atomic_t caught_signal;
static dit_job *volatile running_job;

static void on_signal(int number) {
    caught_signal = number;
    dit_job_cancel(running_job);
    signal(number, end_by_signal); /* a second Ctrl-C ends the program at once */
}

/* ---- Telling ---- */

static double now(void) {
#ifdef _WIN32
    LARGE_INTEGER count, rate;
    QueryPerformanceCounter(&count);
    QueryPerformanceFrequency(&rate);
    return (double)count.QuadPart / (double)rate.QuadPart;
#else
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
#endif
}

static void clear_line(app *a) {
    if (a->line_open) fputs("\r\033[K", stderr);
    a->line_open = false;
    fflush(stderr);
}

/* For what is told next: progress and picture are over. */
static void close_line(app *a) {
    clear_line(a);
    screen_leave(&a->screen);
}

/* Whether progress may be told now: often on a terminal, every two seconds in a log. */
static bool may_tell(app *a) {
    double time = now();
    if (a->o.quiet || (a->o.json && !a->terminal) || time - a->told < (a->terminal ? 0.05 : 2.0)) return false;
    a->told = time;
    return true;
}

static int terminal_columns(void) {
#ifdef TIOCGWINSZ
    struct winsize size;
    if (ioctl(2, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
#endif
    return 80;
}

/* Draws over the line before on a terminal, cut to its width, because a wrapped line cannot be drawn over. */
static void tell_progress(app *a, const char *text) {
    if (a->terminal)
        fprintf(stderr, "\r%.*s\033[K", terminal_columns() - 1, text);
    else
        fprintf(stderr, "%s\n", text);
    a->line_open = a->terminal;
    fflush(stderr);
}

static void log_message(int level, const char *message, void *user) {
    static const char *const names[] = {"error: ", "warning: ", "", ""};
    close_line(user);
    fprintf(stderr, "dit: %s%s\n", names[level < 0 || level > 3 ? 3 : level], message);
}

static bool on_progress(const char *what, uint64_t done, uint64_t total, void *user) {
    app *a = user;
    char text[128];
    if (a->terminal && total && may_tell(a)) {
        snprintf(text, sizeof text, "%s %3.0f %%", what, 100.0 * (double)done / (double)total);
        tell_progress(a, text);
    }
    return caught_signal == 0 && (!a->follow.watch || a->follow.watch(a, NULL));
}

/* ---- Telling in JSON: a line for each event (--json) ---- */

static void begin_event(const app *a, parameter_text *out, const char *event) {
    json_raw(out, "{");
    json_text(out, "event", event);
    if (!a->entry) return;
    json_raw(out, ",");
    json_raw(out, a->entry);
}

static void end_event(const app *a, parameter_text *out) {
    FILE *to = a->o.output && strcmp(a->o.output, "-") == 0 ? stderr : stdout;
    json_raw(out, "}\n");
    if (out->at) fwrite(out->at, 1, out->length, to);
    fflush(to);
    free(out->at);
}

static void tell_step(app *a, const dit_status *s, uint32_t picture) {
    parameter_text out = {0};
    const uint32_t step = s->step + (s->stage == DIT_STAGE_DECODE ? 1 + s->frame : 0);
    if (step == a->told_step) return;
    a->told_step = step;
    begin_event(a, &out, "progress");
    json_count(&out, "picture", picture + 1);
    json_count(&out, "pictures", a->r.count);
    json_text(&out, "stage",
              s->stage == DIT_STAGE_DECODE    ? "decode"
              : s->stage == DIT_STAGE_DENOISE ? "steps"
                                              : "prompt");
    json_count(&out, "step", s->step);
    json_count(&out, "steps", s->step_count);
    json_number(&out, "fraction", (double)s->fraction);
    end_event(a, &out);
}

static void tell_file(app *a, const char *path, uint32_t i, uint32_t frames) {
    parameter_text out = {0};
    begin_event(a, &out, a->r.frames ? "clip" : "picture");
    json_text(&out, "path", path);
    json_count(&out, "seed", a->r.seed + i);
    json_count(&out, "width", a->r.width);
    json_count(&out, "height", a->r.height);
    if (frames) json_count(&out, "frames", frames);
    json_count(&out, "steps", a->r.steps);
    json_key(&out, "seconds");
    json_raw(&out, "{");
    json_number(&out, "ready", i ? 0 : a->took.ready);
    json_number(&out, "prompt", a->took.prompt);
    json_number(&out, "steps", a->took.steps);
    json_number(&out, "decode", a->took.decode);
    json_number(&out, "total", a->took.total);
    json_raw(&out, "}");
    end_event(a, &out);
}

/* Returns code. */
static int tell_failure(const app *a, int code) {
    parameter_text out = {0};
    if (!code || !a->o.json) return code;
    begin_event(a, &out, "error");
    json_count(&out, "code", (uint64_t)code);
    json_text(&out, "message", complaint.text);
    end_event(a, &out);
    return code;
}

/* ---- Progress ---- */

static const char *stage_name(dit_stage stage) {
    return stage == DIT_STAGE_DENOISE  ? "step"
           : stage == DIT_STAGE_DECODE ? "decoding"
           : stage == DIT_STAGE_DONE   ? "done"
                                       : "reading the prompt";
}

static void format_time_left(char *out, size_t size, double seconds) {
    if (seconds < 60)
        snprintf(out, size, "%.0f s left", ceil(seconds));
    else if (seconds < 3600)
        snprintf(out, size, "%.0f min %02.0f s left", floor(seconds / 60), floor(fmod(seconds, 60)));
    else
        snprintf(out, size, "%.0f h %02.0f min left", floor(seconds / 3600), floor(fmod(seconds / 60, 60)));
}

/* Rates count from the first finished step on, because what lies before it (the prompt, the driver's compiler) is no
 * guide. */
static void format_rate(const app *a, const dit_status *s, char *out, size_t size) {
    double time = now() - a->first_at, left;
    int n = 0;
    out[0] = 0;
    if (!a->first.step || s->step <= a->first.step || s->fraction <= a->first.fraction || time <= 0) return;
    left = time * (1.0 - s->fraction) / (s->fraction - a->first.fraction);
    if (s->stage == DIT_STAGE_DENOISE) n = snprintf(out, size, "  %.2f steps/s", (s->step - a->first.step) / time);
    n += snprintf(out + n, size - (size_t)n, "  ");
    format_time_left(out + n, size - (size_t)n, left);
}

/* "[=====>    ] ", as wide as the rest of the line leaves room for. */
static void format_bar(float fraction, char *out, size_t size) {
    int width = terminal_columns() - 64, filled, i;
    if (width > 20) width = 20;
    out[0] = 0;
    if (width < 5 || (size_t)width + 4 > size) return;
    filled = (int)(fraction * (float)width);
    for (i = 0; i < width; i++) out[i + 1] = i < filled ? '=' : i == filled ? '>' : ' ';
    out[0] = '[';
    memcpy(out + width + 1, "] ", 3);
}

/* "picture 2/4 [=====>    ] step 10/20  3.21 steps/s  4 s left", "[========> ] decoding frame 12/49  3 s left" */
static void show_status(app *a, const dit_status *s, uint32_t picture) {
    char text[256], bar[32] = "", rate[96], count[64] = "", step[48] = "";
    int n = 0;
    if (s->step && !a->first.step) a->first = *s, a->first_at = now();
    if (a->o.json) tell_step(a, s, picture);
    if (a->follow.watch || !may_tell(a)) return;
    if (a->terminal) format_bar(s->fraction, bar, sizeof bar);
    if (a->r.count > 1)
        n = snprintf(count, sizeof count, "%s %u/%u ", a->r.frames ? "clip" : "picture", picture + 1, a->r.count);
    if (a->r.loops > 1) snprintf(count + n, sizeof count - (size_t)n, "loop %u/%u ", a->loop + 1, a->r.loops);
    if (s->stage == DIT_STAGE_DENOISE) snprintf(step, sizeof step, " %u/%u", s->step, s->step_count);
    if (s->stage == DIT_STAGE_DECODE && s->frame_count > 1)
        snprintf(step, sizeof step, " frame %u/%u", s->frame < s->frame_count ? s->frame + 1 : s->frame_count,
                 s->frame_count);
    format_rate(a, s, rate, sizeof rate);
    snprintf(text, sizeof text, "%s%s%s%s%s", count, bar, stage_name(s->stage), step, rate);
    tell_progress(a, text);
}

/* ---- Failing ---- */

/* Tells the user what can be done about a result of dit.h; returns the exit code of that result. */
static int dit_failed(app *a, dit_result result, const char *what) {
    const char *advice = "";
    char words[sizeof a->err.message + 128];
    close_line(a);
    if (caught_signal || result == DIT_CANCELLED) {
        snprintf(complaint.text, sizeof complaint.text, "interrupted");
        if (!a->o.quiet && !complaint.silent) fprintf(stderr, "dit: interrupted\n");
        return 128 + (caught_signal ? caught_signal : SIGINT);
    }
    switch (result) {
    case DIT_ERROR_BAD_FILE: advice = "; check the path, or get the file again"; break;
    case DIT_ERROR_OUT_OF_HOST_MEMORY:
    case DIT_ERROR_OUT_OF_DEVICE_MEMORY:
        advice = "; try a smaller -W and -H, --weight-budget, or another --device";
        break;
    case DIT_ERROR_UNSUPPORTED_DEVICE:
        if (!a->context) advice = a->o.device ? "; --list-devices shows what there is" : "; dit doctor tells more";
        break;
    case DIT_ERROR_DEVICE_LOST: advice = "; try again, and update the driver if it happens again"; break;
    default: break;
    }
    return complain(exit_code_of(result), "%s%s%s%s", what ? what : "", what ? ": " : "",
                    a->err.message[0] ? in_options(a->err.message, words, sizeof words) : dit_result_string(result),
                    advice);
}

static int output_failed(app *a, const char *path) {
    int why = errno;
    close_line(a);
    return complain(exit_code_of_writing(why), "cannot write %s: %s", path, told_reason(why));
}

/* ---- Checking the request, before any work ---- */

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

/* T5's place depends on the family, and a tokenizer may be anybody's: both are told from what they hold. */
static int check_parts(app *a) {
    const struct {
        const char *option, *path;
        dit_role role;
    } parts[] = {{"--diffusion-model", a->o.diffusion_model, DIT_ROLE_TRANSFORMER},
                 {"--clip-l", a->o.clip_l, DIT_ROLE_TEXT_1},
                 {"--clip-g", a->o.clip_g, DIT_ROLE_TEXT_2},
                 {"--t5", a->o.t5, DIT_ROLE_NONE},
                 {"--vae", a->o.vae, DIT_ROLE_VAE},
                 {"--taesd", a->o.taesd, DIT_ROLE_TAE},
                 {"--control-net", a->o.control_net, DIT_ROLE_CONTROL},
                 {"--tokenizer", a->o.tokenizer, DIT_ROLE_NONE}};
    size_t i;
    a->part_count = 0;
    for (i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        if (!parts[i].path) continue;
        if (!file_exists(parts[i].path))
            return complain(EXIT_INPUT, "%s %s: %s", parts[i].option, parts[i].path, told_reason(errno));
        a->parts[a->part_count].role = parts[i].role;
        a->parts[a->part_count++].source.path = parts[i].path;
    }
    loras_to_parts(&a->loras, a->o.lora_merge, a->parts, &a->part_count);
    return EXIT_GOOD;
}

static int check_model_path(app *a) {
    const char *path = a->o.model ? a->o.model : a->o.diffusion_model;
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

/* Previews are PNGs. */
static int check_png_name(const char *option, const char *path) {
    static const char *const others[] = {".jpg", ".jpeg", ".webp", ".bmp", ".tga", ".gif", ".ppm", ".avif"};
    const char *dot = path ? strrchr(base_name(path), '.') : NULL;
    size_t i;
    for (i = 0; dot && i < sizeof others / sizeof others[0]; i++) {
        if (same_word(dot, others[i])) {
            return complain(EXIT_USAGE, "%s %s: only PNG is written; use %.*s.png", option, path, (int)(dot - path),
                            path);
        }
    }
    return EXIT_GOOD;
}

/* A name that promises what cannot be written would be a lie. */
static int check_still_name(const char *option, const char *path) {
    static const char *const others[] = {".bmp", ".tga", ".gif", ".ppm", ".avif", ".tif", ".tiff", ".jxl"};
    const char *dot = path ? strrchr(base_name(path), '.') : NULL;
    const size_t ending = path ? still_ending_of(path) : 0;
    size_t i;
    if (!still_endings[ending].can)
        return complain(EXIT_USAGE, "%s %s: this program was built without %s, and writes no %s; use %.*s.png", option,
                        path, still_endings[ending].package, still_endings[ending].name, (int)(dot - path), path);
    for (i = 0; dot && i < sizeof others / sizeof others[0]; i++)
        if (same_word(dot, others[i]))
            return complain(EXIT_USAGE, "%s %s: pictures are written as PNG, JPEG or WebP; use %.*s.png", option, path,
                            (int)(dot - path), path);
    return EXIT_GOOD;
}

static int check_picture_name(const char *path) {
    int code = check_still_name("--output", path);
    return code ? code : check_output("--output", path);
}

/* out.png, out_2.png, out_3.png, ... as sd.cpp names them. */
static bool picture_path(const char *output, uint32_t i, char *out, size_t size) {
    const char *dot = strrchr(base_name(output), '.');
    int stem = dot && dot != base_name(output) ? (int)(dot - output) : (int)strlen(output);
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

/* A picture or clip on standard output: one, and not for a terminal. */
static int check_stdout(const app *a) {
    if (!to_stdout(&a->o)) return EXIT_GOOD;
    if (a->r.count > 1)
        return complain(EXIT_USAGE, "--output -: standard output takes one picture or clip; leave out --batch-count");
    if (!a->open_out) return complain(EXIT_OUTPUT, "cannot write to standard output: it is closed");
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

/* Whether pictures or clips are made must be known. */
static int check_results(app *a) {
    options *o = &a->o;
    char last[PATH_SIZE];
    int (*check)(const char *);
    int code;
    if (!o->output) o->output = a->r.frames > 1 ? "output.apng" : "output.png";
    if (a->follow.take) return EXIT_GOOD; /* no file is written */
    code = check_stdout(a);
    if (code || to_stdout(o)) return code;
    check = makes_clip(a) ? check_clip_name : check_picture_name;
    code = check(o->output);
    if (code || a->first_picture + a->r.count < 2) return code;
    if (!picture_path(o->output, a->first_picture + a->r.count - 1, last, sizeof last))
        return complain(EXIT_OUTPUT, "--output %s: the name is too long", o->output);
    return check(last);
}

static int check_outputs(const app *a) {
    const options *o = &a->o;
    int code = check_png_name("--preview", o->preview_path);
    if (!code) code = check_still_name("--grid", o->grid);
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
    if (!a->o.init_video || !is_folder(a->o.init_video) || !folder_of(a->o.output, folder, sizeof folder) ||
        !read_file_id(a->o.init_video, &read) || !read_file_id(folder, &written) || !same_file(&read, &written))
        return EXIT_GOOD;
    return complain(EXIT_USAGE,
                    "--output %s: this is the folder of --init-video, whose frames would be lost; name "
                    "another one",
                    a->o.output);
}

/* Whether another output might have this path. */
static bool names_output(const options *o, const char *path) {
    const char *const others[] = {o->latent_out, o->preview_path, o->trace, o->grid};
    size_t i;
    for (i = 0; i < sizeof others / sizeof others[0]; i++)
        if (others[i] && same_name(base_name(others[i]), base_name(path))) return true;
    return false;
}

/* No output may be another one or an input. The number of pictures must be known. */
static int check_overwriting(const app *a) {
    const options *o = &a->o;
    const char *plan = o->split && o->split[0] == '@' ? o->split + 1 : NULL;
    const named_path inputs[] = {{"--model", a->o.model || !a->o.diffusion_model ? a->model_path : NULL},
                                 {"--diffusion-model", o->diffusion_model},
                                 {"--clip-l", o->clip_l},
                                 {"--clip-g", o->clip_g},
                                 {"--t5", o->t5},
                                 {"--vae", o->vae},
                                 {"--taesd", o->taesd},
                                 {"--tokenizer", o->tokenizer},
                                 {"--init-img", a->handed[0].rgba ? NULL : o->init_image},
                                 {"--mask", a->handed[1].rgba ? NULL : o->mask},
                                 {"--control-net", o->control_net},
                                 {"--control-image", o->control_image},
                                 {"--noise", o->noise},
                                 {"--conditioning", o->conditioning},
                                 {"--init-video", o->init_video && strcmp(o->init_video, "-") ? o->init_video : NULL},
                                 {"--repeat-from", o->repeat_from},
                                 {"--batch", o->batch && strcmp(o->batch, "-") ? o->batch : NULL},
                                 {"--split", plan}};
    const bool clips = !o->encode_prompt && makes_clip(a), numbered = clips && writes_numbered(a);
    const size_t length = o->output ? strlen(o->output) + 32 : 1;
    const size_t each = numbered ? most_frames(a) : 1, all = o->encode_prompt ? 0 : a->r.count * each;
    named_path *outputs = calloc(all + 5, sizeof *outputs);
    char *paths = malloc(all * length + 1), why[2 * PATH_SIZE], clip_path[PATH_SIZE];
    size_t count = 0, i;
    int code = outputs && paths ? EXIT_GOOD : complain(EXIT_MEMORY, "out of memory");
    if (!code && numbered && all > CLIP_MOST_FRAMES)
        code = complain(EXIT_USAGE, "--batch-count %u: more than %d files; write clips of another kind", a->r.count,
                        CLIP_MOST_FRAMES);
    for (i = 0; i < all && !code && !to_stdout(o) && !a->follow.take; i++) {
        char *path = paths + i * length;
        if (!picture_path(o->output, a->first_picture + (uint32_t)(i / each), clip_path, sizeof clip_path) ||
            !(numbered ? clip_number_path(clip_path, (uint32_t)(i % each), path, length)
                       : snprintf(path, length, "%s", clip_path) < (int)length))
            code = complain(EXIT_OUTPUT, "--output %s: the name is too long", o->output);
        if (numbered && !file_exists(path) && !names_output(o, path)) continue;
        outputs[count].option = "--output";
        outputs[count++].path = path;
    }
    if (!code && numbered) code = check_frames_folder(a);
    if (!code) {
        outputs[count].option = "--latent-out", outputs[count].path = o->latent_out;
        outputs[count + 1].option = "--preview", outputs[count + 1].path = o->preview_path;
        outputs[count + 2].option = "--trace", outputs[count + 2].path = o->trace;
        outputs[count + 3].option = "--encode-prompt", outputs[count + 3].path = o->encode_prompt;
        outputs[count + 4].option = "--grid", outputs[count + 4].path = o->grid;
        if (find_overwritten(outputs, count + 5, inputs, sizeof inputs / sizeof inputs[0], why, sizeof why))
            code = complain(EXIT_USAGE, "%s", why);
    }
    free(outputs);
    free(paths);
    return code;
}

static int check_prompts(const options *o) {
    int code;
    if (o->conditioning && ((o->prompt && *o->prompt) || o->negative_prompt || o->class_name || o->encode_prompt))
        return complain(EXIT_USAGE, "--conditioning: it stands for the prompts; leave out %s",
                        o->prompt && *o->prompt ? "--prompt"
                        : o->negative_prompt    ? "--negative-prompt"
                        : o->class_name         ? "--class"
                                                : "--encode-prompt");
    if (!o->prompt && !o->class_name && !o->conditioning)
        return complain(EXIT_USAGE,
                        "what shall be on the picture? Say --prompt \"a red heart\"; --help lists the options");
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
    if (!code && o->clip_skip) code = take_count("--clip-skip", o->clip_skip, 1, 32, 1, "", &a->r.clip_skip);
    if (!code && o->vae_tile)
        code = take_count("--vae-tile-size", o->vae_tile, 1, 16384, 512, " pixels", &a->r.vae_tile);
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
    return code ? code : take_sampler(&a->o);
}

/* One sentence about the first part that is missing, with the option that adds it. */
static int complain_missing(const app *a) {
    static const char *const flags[] = {"--clip-l", "--clip-g", "--t5"};
    const char *what, *flag = "--model with its whole folder";
    int role = DIT_ROLE_TRANSFORMER, text;
    while (!(a->info.missing & 1u << role)) role++;
    what = role_name(&a->info, (dit_role)role);
    if (role == DIT_ROLE_TRANSFORMER) flag = "--diffusion-model FILE";
    if (role == DIT_ROLE_VAE) flag = "--vae FILE";
    text = role >= DIT_ROLE_TEXT_1 && role <= DIT_ROLE_TEXT_3 ? role - DIT_ROLE_TEXT_1 : -1;
    if (text >= 0 && !strstr(what, "LLaMA")) flag = strstr(what, "T5") ? flags[2] : flags[text];
    if (role >= DIT_ROLE_TOKENIZER_1 && role <= DIT_ROLE_TOKENIZER_3) flag = "--tokenizer FOLDER";
    return complain(EXIT_INPUT, "--model %s: it has no %s%s; add it with %s%s", a->model_path, what,
                    text >= 0 ? " text encoder" : "", flag, text >= 0 && strncmp(flag, "--model", 7) ? " FILE" : "");
}

/* Models show either what a prompt says or a class. */
static int check_class(app *a, const dit_model *model) {
    uint32_t count = a->info.class_count;
    if (!count && a->o.class_name)
        return complain(EXIT_USAGE, "--class %s: this model has no classes; say --prompt instead", a->o.class_name);
    if (!count) return EXIT_GOOD;
    if (a->o.prompt || a->o.negative_prompt || !a->o.class_name)
        return complain(EXIT_USAGE, "--prompt: this model takes none; say --class with a number from 0 to %u or a name",
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

/* Reads the model's headers only. */
static int open_headers(app *a) {
    dit_model_desc desc = describe_model(a);
    dit_result result;
    int role;
    desc.dry_run = true;
    result = dit_model_load(NULL, &desc, &a->headers, &a->err);
    if (result != DIT_OK) return dit_failed(a, result, NULL);
    dit_model_get_info(a->headers, &a->info);
    for (role = DIT_ROLE_TEXT_1; role <= DIT_ROLE_TEXT_3; role++) /* a part that another device runs is not missing */
        if (a->info.parameters[role]) a->info.missing &= ~(1u << role);
    if (a->o.conditioning) a->info.missing &= ~(TEXT_PARTS | TOKENIZERS);
    if (a->o.encode_prompt) a->info.missing &= TEXT_PARTS | TOKENIZERS;
    if (!add_tokenizers(a)) return EXIT_GOOD;
    dit_model_destroy(a->headers);
    a->headers = NULL;
    return open_headers(a);
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
        {"--fps", o->fps, a->info.default_frames > 0, "this model makes pictures"},
        {"--init-video", o->init_video, a->info.default_frames > 0,
         "this model makes pictures; --init-img begins with one"},
        {"--init-video", o->init_video, !a->info.wants_image, "this model moves a picture, which --init-img names"},
        {"--mask", o->mask, !a->info.default_frames, "clips are not repainted in part"},
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
    if (a->info.default_frames && o->init_image && !a->info.wants_image && !a->info.holds_frames)
        return complain(EXIT_USAGE, "--init-img: this model begins with no picture; --init-video begins with a clip");
    return EXIT_GOOD;
}

/* How many frames are made, and how fast they pass. */
static int check_frames(app *a) {
    const options *o = &a->o;
    char counts[128];
    uint32_t nearest;
    int code = check_clip_options(a);
    if (code) return code;
    a->r.frames = a->info.default_frames;
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
    return EXIT_GOOD;
}

/* Its sizes and parts. */
static int check_model(app *a) {
    int code = a->headers ? EXIT_GOOD : open_headers(a);
    if (!code) code = check_class(a, a->headers);
    if (!code) code = check_frames(a);
    if (!code && a->o.encode_prompt && a->info.class_count)
        code = complain(EXIT_USAGE, "--encode-prompt: this model takes no prompts, but classes; leave it out");
    if (code) return code;
    /* The model's own sampler by name is the model's own, so that a PNG that names it says all. */
    if (a->o.sampler && strcmp(a->o.sampler, a->info.default_sampler) == 0) a->o.sampler = NULL;
    if (a->info.absent_bytes) {
        return complain(EXIT_INPUT, "--model %s: %llu bytes at the end of its files are missing; get the file again",
                        a->model_path, (unsigned long long)a->info.absent_bytes);
    }
    return a->info.missing ? complain_missing(a) : EXIT_GOOD;
}

static int check_sizes(app *a) {
    const dit_model_info *m = &a->info;
    uint32_t multiple = m->size_multiple ? m->size_multiple : 1;
    int code = EXIT_GOOD;
    a->r.width = m->default_width;
    a->r.height = m->default_height;
    if (a->r.start.rgba && !a->o.width && !a->o.height)
        fit_size(&a->r.start, multiple, 16384, &a->r.width, &a->r.height);
    else if (a->r.control.rgba && !a->o.width && !a->o.height)
        fit_size(&a->r.control, multiple, 16384, &a->r.width, &a->r.height);
    else if (a->r.video_count && !a->o.width && !a->o.height)
        fit_size(&a->r.video[0], multiple, 16384, &a->r.width, &a->r.height);
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

static int check_noise(app *a) {
    const dit_model_info *m = &a->info;
    st_tensor *noise = &a->r.noise;
    uint32_t factor = m->latent_factor ? m->latent_factor : 8;
    const char *wrong;
    size_t i;
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
    if (a->o.noise_hash && strcmp(a->o.noise_hash, a->hashes[2]) != 0)
        return complain(EXIT_INPUT, "%s was made from another file than this %s; name it with --noise",
                        a->o.repeat_from, a->o.noise);
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

/* Whether a picture or clip that is given takes part of the steps, as --strength says. */
static bool begins_with(const app *a) {
    if (a->r.video_count) return !a->o.mask_strategy;
    return a->r.start.rgba && !a->info.wants_image && !a->info.wants_mask && !a->r.frames;
}

/* The frames a second that a model is told: 24 where they pass as fast as its own, of which it leaves some out. A still
   has no rate: 0 is the model's word for that. */
static float told_fps(const app *a) {
    const double fps = a->r.fps * 24 / (double)a->info.default_fps;
    return a->r.frames == 1 ? 0 : (float)(fps > 1000 ? 1000 : fps);
}

/* Pictures and clips that are given: to begin with, or to take frames from. */
static void describe_given(const app *a, dit_job_desc *desc) {
    if (a->r.start.rgba && !a->r.reference_count) desc->init_image = &a->r.start_image;
    if (begins_with(a) && a->r.video_count) {
        desc->init_image = a->r.video_images;
        desc->init_count = a->r.video_count;
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
                          : a->r.reference_count && a->info.holds_frames ? "0"
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

/* The request of picture i; noise is filled in when the user brings it. */
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
    desc->mask = a->r.mask.rgba ? &a->r.mask_image : NULL;
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
    desc->split = a->o.split;
    desc->resume_on_loss = a->o.resume;
    desc->progress.func = on_progress;
    desc->progress.user = (void *)(uintptr_t)a;
    if (!a->r.noise.data) return;
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

/* handed: the picture itself, where it came without a file. */
static int read_picture(const char *option, const char *path, const picture *handed, picture *out) {
    const char *wrong = NULL;
    const size_t size = (size_t)handed->width * handed->height * 4;
    if (handed->rgba) {
        *out = *handed;
        out->rgba = malloc(size);
        if (!out->rgba) return complain(EXIT_MEMORY, "%s", no_picture_memory);
        memcpy(out->rgba, handed->rgba, size);
    } else if (path) {
        wrong = load_picture(path, out);
    }
    if (!wrong) return EXIT_GOOD;
    return complain(wrong == no_picture_memory ? EXIT_MEMORY : EXIT_INPUT, "%s %s: %s", option, path, wrong);
}

/* --init-img and --mask, as they are in their files. */
static int read_start(app *a) {
    const options *o = &a->o;
    const char *what = o->mask ? "--mask" : "--strength";
    int code;
    if ((o->mask || o->strength) && !o->init_image && !(o->strength && o->init_video))
        return complain(EXIT_USAGE, "%s: there is no picture that it is about; name it with --init-img", what);
    if (o->init_image && o->init_video && !o->mask_strategy)
        return complain(EXIT_USAGE, "--init-img and --init-video: a clip begins with one of them, unless "
                                    "--mask-strategy says which frames each gives");
    if (!o->init_image) return EXIT_GOOD;
    code = read_picture("--init-img", o->init_image, &a->handed[0], &a->r.start);
    if (!code) code = read_picture("--mask", o->mask, &a->handed[1], &a->r.mask);
    if (code) return code;
    if (!a->handed[0].rgba) read_hash(o->init_image, a->hashes[0]);
    if (o->mask && !a->handed[1].rgba) read_hash(o->mask, a->hashes[1]);
    if (o->init_hash && strcmp(o->init_hash, a->hashes[0]) != 0)
        return complain(EXIT_INPUT, "%s was made from another file than this %s; name it with --init-img",
                        o->repeat_from, o->init_image);
    if (o->mask_hash && strcmp(o->mask_hash, a->hashes[1]) != 0)
        return complain(EXIT_INPUT, "%s was made with another file than this %s; name it with --mask", o->repeat_from,
                        o->mask);
    return EXIT_GOOD;
}

/* --control-image, and what goes with it. */
static int read_control(app *a) {
    static const picture nothing = {0};
    const options *o = &a->o;
    const char *lone = o->control_strength ? "--control-strength"
                       : o->control_first  ? "--control-start"
                       : o->control_last   ? "--control-end"
                       : o->control_mode   ? "--control-mode"
                                           : NULL;
    int code;
    if (lone && !o->control_net)
        return complain(EXIT_USAGE, "%s: there is no control net that it is about; name one with --control-net", lone);
    if (o->control_net && !o->control_image)
        return complain(EXIT_USAGE, "--control-net %s: it follows a picture; name it with --control-image",
                        o->control_net);
    if (a->info.wants_control && !o->control_image && !o->info)
        return complain(EXIT_USAGE, "--control-image: this model follows edges or a depth map; name a picture of them");
    if (a->info.wants_mask && !o->info && !(o->init_image && o->mask))
        return complain(EXIT_USAGE,
                        "%s: this model repaints a part of a picture; name the picture with --init-img and the "
                        "part, which is white, with --mask",
                        o->init_image ? "--mask" : "--init-img");
    if (!o->control_image) return EXIT_GOOD;
    if (!a->info.wants_control && !o->control_net)
        return complain(EXIT_USAGE,
                        "--control-image %s: this model follows no picture by itself; name a control net for it "
                        "with --control-net, or leave it out",
                        o->control_image);
    code = read_picture("--control-image", o->control_image, &nothing, &a->r.control);
    if (code) return code;
    read_hash(o->control_image, a->hashes[5]);
    if (o->control_hash && strcmp(o->control_hash, a->hashes[5]) != 0)
        return complain(EXIT_INPUT, "%s was made from another file than this %s; name it with --control-image",
                        o->repeat_from, o->control_image);
    return EXIT_GOOD;
}

static dit_image image_of(const picture *p) {
    dit_image image = {0};
    image.width = p->width;
    image.height = p->height;
    image.rgba = p->rgba;
    return image;
}

/* Scales both to the size that is made; a mask of another size than its picture has lost its place. */
static int scale_start(app *a) {
    picture *start = &a->r.start, *mask = &a->r.mask;
    const char *wrong;
    if (!start->rgba) return EXIT_GOOD;
    if (mask->rgba && (mask->width != start->width || mask->height != start->height))
        return complain(EXIT_USAGE, "--mask %s: it is %ux%u pixels, %s is %ux%u; they must have the same size",
                        a->o.mask, mask->width, mask->height, a->o.init_image, start->width, start->height);
    if (!a->o.quiet && (start->width != a->r.width || start->height != a->r.height))
        fprintf(stderr, "dit: %s is %ux%u pixels, scaled to %ux%u\n", a->o.init_image, start->width, start->height,
                a->r.width, a->r.height);
    wrong = scale_picture(start, a->r.width, a->r.height);
    if (!wrong && mask->rgba) wrong = scale_picture(mask, a->r.width, a->r.height);
    if (wrong) return complain(EXIT_MEMORY, "%s", wrong);
    a->r.start_image = image_of(start);
    a->r.mask_image = image_of(mask);
    return EXIT_GOOD;
}

static int scale_control(app *a) {
    picture *control = &a->r.control;
    const char *wrong;
    if (!control->rgba) return EXIT_GOOD;
    if (!a->o.quiet && (control->width != a->r.width || control->height != a->r.height))
        fprintf(stderr, "dit: %s is %ux%u pixels, scaled to %ux%u\n", a->o.control_image, control->width,
                control->height, a->r.width, a->r.height);
    wrong = scale_picture(control, a->r.width, a->r.height);
    if (wrong) return complain(EXIT_MEMORY, "%s", wrong);
    a->r.control_image = a->r.control_net.image = image_of(control);
    a->r.control_net.weight = a->r.numbers.control_strength;
    a->r.control_net.first = a->r.numbers.control_first;
    a->r.control_net.last = a->r.numbers.control_last;
    a->r.control_net.mode = (uint32_t)a->r.numbers.control_mode;
    return EXIT_GOOD;
}

/* ---- --init-video: each frame is scaled when it has been read ---- */

static int add_video_frame(app *a, picture *frame) {
    request *r = &a->r;
    if (r->video_count == r->video_room) {
        const uint32_t room = 2 * r->video_room + 16;
        picture *more = realloc(r->video, room * sizeof *more);
        if (!more) return free(frame->rgba), complain(EXIT_MEMORY, "--init-video: %s", no_picture_memory);
        r->video = more;
        r->video_room = room;
    }
    r->video[r->video_count++] = *frame;
    return EXIT_GOOD;
}

static int video_failed(const app *a, const char *why) {
    return complain(why == no_picture_memory ? EXIT_MEMORY : EXIT_INPUT, "--init-video %s: %s", a->o.init_video, why);
}

/* The first frame, whose shape the clip gets. */
static int open_video(app *a, frame_reader *reader) {
    picture frame;
    const char *why;
    if (!a->o.init_video) return EXIT_GOOD;
    why = frames_open(reader, a->o.init_video);
    if (!why) why = frames_next(reader, &frame);
    if (why) return video_failed(a, why);
    if (!frame.rgba) return video_failed(a, "it has no frame");
    if (!a->o.fps && reader->rate) a->r.fps = (double)reader->rate / reader->scale;
    if (!(a->r.fps >= 0.001 && a->r.fps <= 1000)) return video_failed(a, "its frames a second are not 0.001 to 1000");
    return add_video_frame(a, &frame);
}

/* The other frames: as many as the clip has, or of a reference all. Without --frames a clip to begin with may be
   shorter than the model's own. */
static int read_video(app *a, frame_reader *reader) {
    const bool reference = a->o.mask_strategy != NULL;
    const uint32_t most = reference ? MOST_REFERENCE_FRAMES : a->r.frames;
    picture frame = {NULL, 0, 0};
    const char *why = NULL;
    int code = EXIT_GOOD;
    if (!a->o.init_video) return EXIT_GOOD;
    if (!a->o.quiet && (reader->width != a->r.width || reader->height != a->r.height))
        fprintf(stderr, "dit: %s is %ux%u pixels, scaled to %ux%u\n", a->o.init_video, reader->width, reader->height,
                a->r.width, a->r.height);
    why = scale_picture(&a->r.video[0], a->r.width, a->r.height);
    while (!why && !code && a->r.video_count < most) {
        why = frames_next(reader, &frame);
        if (why || !frame.rgba) break;
        why = scale_picture(&frame, a->r.width, a->r.height);
        if (why)
            free(frame.rgba);
        else
            code = add_video_frame(a, &frame);
        if (caught_signal) return dit_failed(a, DIT_CANCELLED, NULL);
    }
    if (code) return code;
    if (why) return video_failed(a, why);
    if (reference && a->r.video_count == most) return video_failed(a, "more than 4095 frames; cut it");
    snprintf(a->hashes[4], sizeof a->hashes[4], "%08x", (unsigned)(reader->sum ^ reader->sum >> 32));
    if (a->o.video_hash && strcmp(a->o.video_hash, a->hashes[4]) != 0)
        return complain(EXIT_INPUT, "%s was made from another clip than this %s; name it with --init-video",
                        a->o.repeat_from, a->o.init_video);
    return EXIT_GOOD;
}

/* A clip to begin with has all frames that are made. */
static int fit_frames(app *a) {
    uint32_t frames = a->r.video_count, i;
    if (!frames) return EXIT_GOOD;
    if (!a->o.mask_strategy && frames < a->r.frames) {
        while (frames > 1 && dit_model_frames(a->headers, frames) != frames) frames--;
        if (a->o.frames || dit_model_frames(a->headers, frames) != frames)
            return complain(EXIT_USAGE, "--frames %u: %s has %u; the nearest valid value is %u", a->r.frames,
                            a->o.init_video, a->r.video_count, dit_model_frames(a->headers, frames));
        if (!a->o.quiet)
            fprintf(stderr, "dit: %s has %u of the usual %u frames, %u of them are taken\n", a->o.init_video,
                    a->r.video_count, a->r.frames, frames);
        a->r.frames = frames;
        for (i = frames; i < a->r.video_count; i++) free(a->r.video[i].rgba);
        a->r.video_count = frames;
    }
    a->r.video_images = calloc(a->r.video_count, sizeof *a->r.video_images);
    if (!a->r.video_images) return complain(EXIT_MEMORY, "out of memory");
    for (i = 0; i < a->r.video_count; i++) a->r.video_images[i] = image_of(&a->r.video[i]);
    return EXIT_GOOD;
}

/* The references of models that hold frames: --init-img, then --init-video. */
static void name_references(app *a) {
    dit_reference *next = a->r.references;
    if (!a->info.holds_frames || (a->r.video_count && !a->o.mask_strategy)) return;
    if (a->r.start.rgba) next->frames = &a->r.start_image, next++->frame_count = 1;
    if (a->r.video_count) next->frames = a->r.video_images, next++->frame_count = a->r.video_count;
    a->r.reference_count = (uint32_t)(next - a->r.references);
}

/* --ref-image: each is scaled down to about a million pixels. */
static int read_references(app *a) {
    const char *at = a->o.references;
    const picture nothing = {0};
    while (at && *at) {
        const size_t length = strcspn(at, "|");
        picture *p = &a->r.reference_pictures[a->r.reference_count];
        char path[PATH_SIZE];
        const char *wrong = NULL;
        double scale;
        int code;
        if (a->r.reference_count == MOST_REFERENCES)
            return complain(EXIT_USAGE, "--ref-image: more than %d pictures", MOST_REFERENCES);
        snprintf(path, sizeof path, "%.*s", (int)length, at);
        code = read_picture("--ref-image", path, &nothing, p);
        if (code) return code;
        scale = sqrt(REFERENCE_PIXELS / ((double)p->width * p->height));
        if (scale < 1) wrong = scale_picture(p, (uint32_t)(p->width * scale), (uint32_t)(p->height * scale));
        if (wrong) return complain(EXIT_MEMORY, "%s", wrong);
        a->r.reference_images[a->r.reference_count] = image_of(p);
        a->r.references[a->r.reference_count].frames = &a->r.reference_images[a->r.reference_count];
        a->r.reference_count++;
        at += length + (at[length] == '|');
    }
    return EXIT_GOOD;
}

/* Everything that is given as pixels, and the size that is made. */
static int read_given(app *a) {
    static frame_reader reader;
    int code = read_start(a);
    if (!code) code = read_control(a);
    if (!code) code = open_video(a, &reader);
    if (!code) code = check_sizes(a);
    if (!code) code = scale_start(a);
    if (!code) code = scale_control(a);
    if (!code) code = read_video(a, &reader);
    frames_close(&reader);
    if (!code) code = fit_frames(a);
    if (!code && a->o.references) return read_references(a);
    if (!code) name_references(a);
    return code;
}

/* ---- Prompts as data ---- */

/* A file of --encode-prompt: the blobs of both prompts, which have one size. */
static int read_conditioning(app *a) {
    const char *path = a->o.conditioning, *why = path ? why_not_readable(path) : NULL;
    unsigned char *file;
    size_t size = 0;
    int i;
    if (!path) return EXIT_GOOD;
    if (why) return complain(EXIT_INPUT, "--conditioning %s: %s", path, why);
    file = read_file(path, &size);
    if (!file) return complain(EXIT_INPUT, "--conditioning %s: %s", path, told_reason(errno));
    snprintf(a->hashes[3], sizeof a->hashes[3], "%08x", (unsigned)crc32_of(0, file, size));
    for (i = 0; i < 2 && size && size % 2 == 0; i++) {
        a->r.texts[i].size = size / 2;
        a->r.texts[i].bytes = malloc(size / 2);
        if (a->r.texts[i].bytes) memcpy(a->r.texts[i].bytes, file + (1 - i) * (size / 2), size / 2);
    }
    free(file);
    if (!size || size % 2 || memcmp(a->r.texts[1].bytes, "DITC", 4))
        return complain(EXIT_INPUT, "--conditioning %s: this is no file that --encode-prompt wrote", path);
    if (!a->r.texts[0].bytes || !a->r.texts[1].bytes) return complain(EXIT_MEMORY, "out of memory");
    if (a->o.conditioning_hash && strcmp(a->o.conditioning_hash, a->hashes[3]) != 0)
        return complain(EXIT_INPUT, "%s was made with another file than this %s; name it with --conditioning",
                        a->o.repeat_from, path);
    return EXIT_GOOD;
}

/* Whether something is wanted that not every model can do. */
static bool wants_more(const app *a) {
    const options *o = &a->o;
    bool more = o->init_image || o->control_image || o->keep_references || o->cache || o->skip_blocks || o->clip_skip ||
                o->conditioning || a->r.frames;
    size_t i;
    for (i = 0; i < NUMBER_COUNT; i++) more = more || number_text(o, &number_table[i]);
    return more;
}

/* Finds early what the library would refuse only when the weights are loaded. */
static int check_job(app *a) {
    dit_job_desc job;
    dit_tensor noise;
    dit_memory memory;
    dit_result result;
    if (!wants_more(a)) return EXIT_GOOD;
    describe_job(a, 0, &job, &noise);
    job.model = a->headers;
    result = dit_job_memory(NULL, &job, &memory, &a->err);
    return result == DIT_OK ? EXIT_GOOD : dit_failed(a, result, NULL);
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
    if (!code && a->o.encode_prompt) return check_overwriting(a);
    if (!code) code = read_conditioning(a);
    if (!code) code = read_given(a);
    if (!code) code = check_results(a);
    if (!code) code = check_noise(a);
    if (!code) code = choose_prompt(a);
    if (!code) code = check_overwriting(a);
    if (!code) code = check_job(a);
    return code;
}

/* ---- Parameters as other tools read them ---- */

static void model_name(const char *path, char *out, size_t size) {
    static const char *const endings[] = {".gguf", ".safetensors", ".pth", ".pt", ".ckpt", ".bin", "/"};
    size_t length, i;
    snprintf(out, size, "%s", base_name(path));
    for (i = 0; i < sizeof endings / sizeof endings[0]; i++) {
        size_t cut = strlen(endings[i]);
        length = strlen(out);
        if (length > cut && strcmp(out + length - cut, endings[i]) == 0) out[length - cut] = 0;
    }
}

static void version_text(char *out, size_t size) {
    uint32_t v = dit_version();
    snprintf(out, size, "dit.h %u.%u.%u", v / 10000, v / 100 % 100, v % 100);
}

/* A number in as few digits as give it again. */
static void shortest_number(float value, char *out, size_t size) {
    int digits = 6;
    do snprintf(out, size, "%.*g", digits, (double)value);
    while (strtof(out, NULL) != value && ++digits < 10);
}

/* A file that the text of the picture names by its name alone: here, or beside the picture; with one of these endings
   where it is a model. */
static bool find_named(const char *name, const char *picture, char out[PATH_SIZE]);

/* The paths of references by their names alone, or, with a picture that tells these names, the paths where they are;
 *lost becomes the first that is nowhere. false: out is too small, or one is nowhere. */
static bool join_references(const char *paths, const char *picture, char *out, size_t size, char lost[PATH_SIZE]) {
    size_t used = 0;
    while (*paths) {
        const size_t length = strcspn(paths, "|");
        char one[PATH_SIZE], found[PATH_SIZE];
        int n;
        snprintf(one, sizeof one, "%.*s", (int)length, paths);
        if (picture && !find_named(one, picture, found)) return snprintf(lost, PATH_SIZE, "%s", one), false;
        n = snprintf(out + used, size - used, "%s%s", used ? "|" : "", picture ? found : base_name(one));
        if (n < 0 || (size_t)n >= size - used) return false;
        used += (size_t)n;
        paths += length + (paths[length] == '|');
    }
    return true;
}

/* The text of picture i; freed with free, NULL without memory. */
static char *parameters_text(const app *a, uint32_t i) {
    static const char *const files[] = {"--init-img",      "--mask",       "--noise",      "--diffusion-model",
                                        "--clip-l",        "--clip-g",     "--t5",         "--vae",
                                        "--taesd",         "--tokenizer",  "--init-video", "--conditioning",
                                        "--control-image", "--control-net"};
    char references[PATH_SIZE];
    char steps[16], guidance[32], seed[24], width[16], height[16], tile[16], model[256], number[16], version[64];
    char frames_text[16], fps[32];
    dit_device_info device = {0};
    options told = a->o;
    size_t k;
    for (k = 0; k < sizeof files / sizeof files[0]; k++) {
        const char **path = option_text(&told, find_option(files[k]));
        if (*path) *path = base_name(*path);
    }
    if (told.references && join_references(told.references, NULL, references, sizeof references, NULL))
        told.references = references;
    snprintf(steps, sizeof steps, "%u", a->r.steps);
    snprintf(seed, sizeof seed, "%llu", (unsigned long long)(a->r.seed + i));
    snprintf(width, sizeof width, "%u", a->r.width);
    snprintf(height, sizeof height, "%u", a->r.height);
    snprintf(tile, sizeof tile, "%u", a->r.vae_tile);
    snprintf(number, sizeof number, "%u", a->noise_first + i + 1);
    shortest_number(a->r.guidance, guidance, sizeof guidance);
    model_name(a->model_path, model, sizeof model);
    version_text(version, sizeof version);
    told.steps = steps;
    told.seed = seed;
    told.width = width;
    told.height = height;
    told.guidance = guidance;
    told.model = model;
    told.vae_tile = a->r.vae_tile ? tile : NULL;
    told.rng = a->r.rng == DIT_RNG_PHILOX ? "cuda" : "cpu";
    told.split = a->split;
    if (!told.sampler && *a->info.default_sampler) told.sampler = a->info.default_sampler;
    if (!told.schedule && *a->info.default_schedule) told.schedule = a->info.default_schedule;
    snprintf(frames_text, sizeof frames_text, "%u", a->r.frames);
    shortest_number((float)a->r.fps, fps, sizeof fps);
    told.frames = a->r.frames ? frames_text : NULL;
    told.fps = a->r.frames ? fps : NULL;
    if (begins_with(a) && !told.strength) told.strength = "0.75";
    told.init_hash = told.init_image && *a->hashes[0] ? a->hashes[0] : NULL;
    told.control_hash = told.control_image && *a->hashes[5] ? a->hashes[5] : NULL;
    told.mask_hash = told.mask && *a->hashes[1] ? a->hashes[1] : NULL;
    told.conditioning_hash = told.conditioning && *a->hashes[3] ? a->hashes[3] : NULL;
    told.video_hash = told.init_video && *a->hashes[4] ? a->hashes[4] : NULL;
    told.noise_hash = told.noise && *a->hashes[2] ? a->hashes[2] : NULL;
    told.noise_picture = told.noise && a->noise_first + i ? number : NULL;
    if (dit_context_device(a->context, &device, NULL) == DIT_OK) told.device_name = device.name;
    told.made_by = version;
    told.lora = a->loras.told;
    return write_parameters(&told);
}

/* ---- Repeating a picture ---- */

static bool find_named(const char *name, const char *picture, char out[PATH_SIZE]) {
    static const char *const endings[] = {"", ".gguf", ".safetensors", ".pth", ".pt", ".ckpt", ".bin"};
    char folder[PATH_SIZE];
    size_t i;
    name = base_name(name);
    if (!*name || snprintf(folder, sizeof folder, "%.*s", (int)(base_name(picture) - picture), picture) >= PATH_SIZE)
        return false;
    for (i = 0; i < 2 * sizeof endings / sizeof endings[0]; i++) {
        const char *ending = endings[i / 2];
        int n = snprintf(out, PATH_SIZE, "%s%s%s", i % 2 ? folder : "", name, ending);
        if (n < PATH_SIZE && file_exists(out)) return true;
    }
    return false;
}

/* Files that are named on the command line are what the user says; the others must be found. */
static int find_repeated_files(app *a) {
    static const char *const files[] = {
        "--model", "--diffusion-model", "--clip-l",       "--clip-g",        "--t5",
        "--vae",   "--taesd",           "--tokenizer",    "--mask",          "--init-img",
        "--noise", "--init-video",      "--conditioning", "--control-image", "--control-net"};
    char bundled[PATH_SIZE], name[256] = "";
    options *from = &a->repeated;
    size_t i;
    if (from->diffusion_model && from->model) { /* it stood for the model */
        model_name(from->diffusion_model, name, sizeof name);
        if (a->o.model == from->model && strcmp(name, from->model) == 0) a->o.model = NULL;
    }
    if (find_bundled("emoji-q8_0.gguf", bundled)) model_name(bundled, name, sizeof name);
    if (a->o.model && a->o.model == from->model && strcmp(a->o.model, name) == 0) a->o.model = NULL;
    for (i = 0; i < sizeof files / sizeof files[0]; i++) {
        const option_entry *entry = find_option(files[i]);
        const char **path = option_text(&a->o, entry);
        if (!*path || *path != *option_text(from, entry)) continue;
        if (!find_named(*path, a->o.repeat_from, a->repeated_paths[i]))
            return complain(EXIT_INPUT, "%s was made with %s, which is neither here nor beside it; name it with %s",
                            a->o.repeat_from, *path, entry->name);
        *path = a->repeated_paths[i];
    }
    if (a->o.references && a->o.references == from->references) {
        static char found[4 * PATH_SIZE];
        char lost[PATH_SIZE] = "";
        if (!join_references(a->o.references, a->o.repeat_from, found, sizeof found, lost))
            return complain(EXIT_INPUT,
                            "%s was made after %s, which is neither here nor beside it; name it with --ref-image",
                            a->o.repeat_from, lost);
        a->o.references = found;
    }
    if (a->o.init_image != a->repeated_paths[9]) a->o.init_hash = NULL;
    if (a->o.mask != a->repeated_paths[8]) a->o.mask_hash = NULL;
    if (a->o.control_image != a->repeated_paths[13]) a->o.control_hash = NULL;
    if (a->o.noise != a->repeated_paths[10]) a->o.noise_hash = a->o.noise_picture = NULL;
    if (a->o.init_video != a->repeated_paths[11]) a->o.video_hash = NULL;
    if (a->o.conditioning != a->repeated_paths[12]) a->o.conditioning_hash = NULL;
    return EXIT_GOOD;
}

/* The options of the picture, and over them those of the command line. */
static int repeat_options(app *a, int argc, char **argv) {
    const char *picture = a->o.repeat_from, *wrong = NULL;
    bool quiet = a->o.quiet;
    parameter_text unknown = {0};
    char version[64];
    size_t size = 0;
    const char *unreadable = why_not_readable(picture);
    unsigned char *file = unreadable ? NULL : read_file(picture, &size);
    if (!file)
        return complain(EXIT_INPUT, "--repeat-from %s: %s", picture, unreadable ? unreadable : told_reason(errno));
    a->repeated_text = find_picture_text(file, size, &wrong);
    free(file);
    if (!a->repeated_text) return complain(EXIT_INPUT, "--repeat-from %s: %s", picture, wrong);
    if (!read_parameters(a->repeated_text, &a->repeated, &unknown)) {
        free(unknown.at);
        return complain(EXIT_INPUT, "--repeat-from %s: its text is not one of parameters", picture);
    }
    version_text(version, sizeof version);
    if (!quiet && unknown.at)
        fprintf(stderr, "dit: %s: left out, since dit does not know it: %s\n", picture, unknown.at);
    if (!quiet && (!a->repeated.made_by || strcmp(a->repeated.made_by, version) != 0))
        fprintf(stderr, "dit: %s was made by %s, this is %s: the picture may differ\n", picture,
                a->repeated.made_by ? a->repeated.made_by : "another program", version);
    free(unknown.at);
    if (a->repeated.split && a->repeated.split[0] == '@') a->repeated.split = NULL; /* no file that a picture names */
    a->o = a->repeated;
    a->o.references = NULL; /* those of the command line replace them all */
    parse_options(argc, argv, &a->o);
    if (!a->o.references) a->o.references = a->repeated.references;
    return find_repeated_files(a);
}

/* Pictures of another driver or device have other last bits. */
static void tell_other_device(app *a) {
    dit_device_info device = {0};
    const char *then = a->repeated.device_name;
    if (a->o.quiet || !then || dit_context_device(a->context, &device, NULL) != DIT_OK || !strcmp(then, device.name))
        return;
    close_line(a);
    fprintf(stderr, "dit: %s was made on %s: bytes may differ here\n", a->o.repeat_from, then);
}

/* ---- Preparing ---- */

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
    if (!a->context || dit_context_save_cache(a->context, NULL, &size, NULL) != DIT_OK || size == 0) return;
    blob = malloc(size);
    if (blob && dit_context_save_cache(a->context, blob, &size, NULL) == DIT_OK &&
        (size != a->cache_size || memcmp(blob, a->cache, size) != 0) && cache_path(a->o.device, path, sizeof path)) {
        save_cache(path, blob, size);
    }
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

static dit_result encode_prompt(app *a, dit_context *cpu, const dit_model *texts, const char *prompt,
                                text_buffer *out) {
    dit_result (*encode)(dit_context *, const dit_model *, const char *, void *, size_t *, dit_error *) =
        a->o.plain_prompt ? dit_encode_prompt : dit_encode_weighted_prompt;
    dit_result result;
    if (!prompt) prompt = "";
    result = encode(cpu, texts, prompt, NULL, &out->size, &a->err);
    if (result != DIT_OK) return result;
    out->bytes = malloc(out->size);
    if (!out->bytes) return DIT_ERROR_OUT_OF_HOST_MEMORY;
    return encode(cpu, texts, prompt, out->bytes, &out->size, &a->err);
}

#include "ahead.h"

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
    const char *relief = NULL;
    dit_result result;
    do {
        result = a->model ? DIT_OK : load_model(a);
        if (result == DIT_OK) result = plan_job(a);
        relief = result == DIT_ERROR_OUT_OF_DEVICE_MEMORY ? relieve(a) : NULL;
        if (relief && *relief && !a->o.quiet) {
            close_line(a);
            fprintf(stderr, "dit: device memory ran out; trying again with %s\n", relief);
        }
    } while (relief);
    a->relief.vae_tile = a->r.vae_tile;
    a->relief.weight_budget = a->r.weight_budget;
    a->relief.offload = a->r.offload;
    return result == DIT_OK ? EXIT_GOOD : dit_failed(a, result, NULL);
}

static size_t latent_values(const app *a) {
    return (size_t)a->info.latent_channels * a->latent_frames * (a->r.width / a->info.latent_factor) *
           (a->r.height / a->info.latent_factor);
}

static int prepare(app *a) {
    double begin = now();
    int code;
    a->latent_frames = a->r.frames ? a->r.frames : 1; /* no more than these */
    a->latent_room = latent_values(a);
    a->rgba = malloc((size_t)a->r.width * a->r.height * 4);
    if (a->o.latent_out) a->latents = calloc(a->r.count, a->latent_room * sizeof(float));
    if (!a->rgba || (a->o.latent_out && !a->latents))
        return complain(EXIT_MEMORY, "out of memory; try a smaller -W and -H");
    if (a->r.steps == 0) a->r.steps = a->info.default_steps;
    if (!(a->r.guidance > 0)) a->r.guidance = a->info.default_guidance;
    code = encode_on_cpu(a);
    if (!code && !a->context) code = open_context(a);
    if (!code) tell_other_device(a);
    if (!code) code = load_and_plan(a);
    close_line(a);
    a->took.ready = now() - begin;
    if (!code && a->o.verbose)
        fprintf(stderr, "dit: %s %s from %s, ready after %.2f s\n", a->info.family, a->info.variant, a->model_path,
                now() - begin);
    return code;
}

/* ---- Making pictures ---- */

static void write_preview(app *a, const unsigned char *rgba, uint32_t width, uint32_t height) {
    size_t size = 0;
    unsigned char *png = a->o.preview_path ? encode_png(rgba, width, height, NULL, NULL, &size) : NULL;
    if (png && !write_file(a->o.preview_path, png, size)) {
        close_line(a);
        complain(EXIT_OUTPUT, "cannot write %s: %s; going on without previews", a->o.preview_path, strerror(errno));
        a->o.preview_path = NULL;
    }
    free(png);
}

/* Draws over the preview before. */
static void show_picture(app *a, const unsigned char *rgba, uint32_t width, uint32_t height) {
    if (a->screen.kind == SCREEN_NONE) return;
    clear_line(a);
    screen_draw(&a->screen, rgba, width, height);
}

/* A strip of up to eight frames of a clip, spread over it, as they are decoded. rgba is the frame that is number
   `frame` of `all`. */
static void add_to_strip(app *a, uint32_t frame, uint32_t all) {
    const uint32_t tiles = all < STRIP_FRAMES ? all : STRIP_FRAMES, n = a->strip_frames;
    const size_t size = (size_t)a->r.width * a->r.height * 4;
    uint32_t width = a->r.width, height = a->r.height, y;
    unsigned char *tile;
    if ((!a->o.preview_path && a->screen.kind == SCREEN_NONE) || n >= tiles ||
        frame != (tiles > 1 ? (uint64_t)n * (all - 1) / (tiles - 1) : 0))
        return;
    tile = malloc(size);
    if (!tile) return;
    memcpy(tile, a->rgba, size);
    shrink(tile, &width, &height, STRIP_SIDE);
    if (!a->strip) a->strip = calloc((size_t)width * height, 4 * STRIP_FRAMES);
    if (a->strip) { /* as wide as it is filled */
        for (y = height; n && y-- > 1;)
            memmove(a->strip + (size_t)y * (n + 1) * width * 4, a->strip + (size_t)y * n * width * 4,
                    (size_t)n * width * 4);
        for (y = 0; y < height; y++)
            memcpy(a->strip + ((size_t)y * (n + 1) + n) * width * 4, tile + (size_t)y * width * 4, (size_t)width * 4);
        a->strip_frames++;
        write_preview(a, a->strip, (n + 1) * width, height);
        show_picture(a, a->strip, (n + 1) * width, height);
    }
    free(tile);
}

static void refresh_preview(app *a, const dit_status *status) {
    dit_output out;
    unsigned char *rgba;
    size_t size = 0;
    if (!wants_previews(a) || status->preview_id == a->preview_id) return;
    a->preview_id = status->preview_id;
    if (dit_job_preview(a->job, &out) != DIT_OK) return;
    size = (size_t)out.width * out.height * 4;
    rgba = malloc(size);
    if (rgba && dit_job_read(a->job, DIT_READ_PREVIEW, 0, 0, rgba, size, 0, NULL) == DIT_OK) {
        shrink(rgba, &out.width, &out.height, 512);
        show_picture(a, rgba, out.width, out.height);
        if (a->follow.previews) a->follow.preview(a, rgba, out.width, out.height);
        shrink(rgba, &out.width, &out.height, 256);
        write_preview(a, rgba, out.width, out.height);
    }
    free(rgba);
}

/* Writes the frames of a clip that are decoded by now; what continues another clip begins with frames of that one,
   which are left out. */
static int put_frames(app *a, uint32_t ready) {
    const size_t size = (size_t)a->r.width * a->r.height * 4;
    const uint32_t known = a->loop ? dit_job_overlap(a->job) : 0;
    dit_result result;
    if (a->shown < known) a->shown = known;
    for (; a->shown < ready; a->shown++) {
        result = dit_job_read(a->job, DIT_READ_RGBA8, 0, a->shown, a->rgba, size, 0, &a->err);
        if (result != DIT_OK) return dit_failed(a, result, NULL);
        if (!clip_put(&a->clip, a->rgba)) return EXIT_OUTPUT; /* clip_close tells why */
        add_to_strip(a, a->clip.written - 1, a->clip.frames);
    }
    return EXIT_GOOD;
}

static int run_job(app *a, uint32_t picture) {
    const uint64_t glance = 50000000; /* ns between looks at the progress */
    dit_status status = {0};
    dit_result result;
    int code = EXIT_GOOD;
    double begin = now(), stages[2] = {0, 0}; /* when the first step and the decoding were seen to begin */
    memset(&a->first, 0, sizeof a->first);
    a->shown = 0;
    a->preview_id = 0;
    running_job = a->job;
    if (caught_signal) dit_job_cancel(a->job);
    if (a->o.json) { /* however soon the picture is there, its beginning is told */
        dit_job_status(a->job, &status, NULL);
        tell_step(a, &status, picture);
    }
    dit_job_step(a->job, 0);
    go_ahead(a);
    do {
        result = dit_job_wait(a->job, glance);
        if (result == DIT_WORKING) go_ahead(a);
        dit_job_status(a->job, &status, NULL);
        if (!stages[0] && status.stage >= DIT_STAGE_DENOISE) stages[0] = now();
        if (!stages[1] && status.stage >= DIT_STAGE_DECODE) stages[1] = now();
        if (a->follow.watch && !a->follow.watch(a, &status)) dit_job_cancel(a->job);
        refresh_preview(a, &status);
        if (a->clip.path && result >= 0 && result != DIT_CANCELLED && !code) {
            code = put_frames(a, status.frame);
            if (code) dit_job_cancel(a->job);
        }
        if (result == DIT_WORKING) show_status(a, &status, picture);
    } while (result == DIT_WORKING);
    running_job = NULL;
    if (!stages[0]) stages[0] = now();
    if (!stages[1]) stages[1] = now();
    a->took.prompt = stages[0] - begin;
    a->took.steps = stages[1] - stages[0];
    a->took.decode = now() - stages[1];
    if (status.reruns && !a->o.quiet) {
        close_line(a);
        fprintf(stderr, "dit: fp16 overflowed in %s; run again, scaled: %u times\n", status.rerun_op, status.reruns);
    }
    if (a->o.cache && strncmp(a->o.cache, "gate", 4) && !a->o.quiet && result == DIT_OK) {
        close_line(a);
        fprintf(stderr, "dit: %u of %u steps reused blocks (--cache)\n", status.reused, status.step_count);
    }
    if (result == DIT_OK || code) return code;
    dit_job_status(a->job, NULL, &a->err);
    return dit_failed(a, result, NULL);
}

/* bytes NULL: memory for them is missing. */
static bool put_picture(const app *a, FILE *file, const unsigned char *bytes, size_t size, const char *text) {
    if (bytes) return fwrite(bytes, 1, size, file) == size;
    return put_stored_png(file, a->rgba, a->r.width, a->r.height, "parameters", text);
}

/* Writes a picture to path, or to standard output where path is NULL. */
static bool write_picture(const app *a, const char *path, const unsigned char *bytes, size_t size, const char *text) {
    output_file out;
    if (path) return output_open(&out, path) && output_close(&out, put_picture(a, out.file, bytes, size, text));
#ifdef _WIN32
    _setmode(1, _O_BINARY);
#endif
    return put_picture(a, stdout, bytes, size, text) && fflush(stdout) == 0;
}

static void tell_picture(app *a, const char *path, uint32_t i) {
    close_line(a);
    if (a->o.json) {
        tell_file(a, path, i, 0);
    } else if (!a->o.quiet) {
        fprintf(to_stdout(&a->o) ? stderr : stdout, "%s%s  seed %llu  %.2f s\n", a->title, path,
                (unsigned long long)(a->r.seed + i), a->took.total);
        fflush(stdout);
    }
    if (a->o.verbose)
        fprintf(stderr, "dit: load %.2f s, encode %.2f s, steps %.2f s, decode %.2f s\n", i ? 0 : a->took.ready,
                a->took.prompt, a->took.steps, a->took.decode);
}

/* Where memory for its compression is missing, a PNG is whole, but larger, and that is told. */
static int save_picture(app *a, uint32_t i) {
    const bool out = to_stdout(&a->o);
    char path[PATH_SIZE] = "standard output", *text = parameters_text(a, i);
    unsigned char *bytes = NULL;
    size_t size = 0;
    still_kind kind = STILL_PNG;
    int code = EXIT_GOOD;
    show_picture(a, a->rgba, a->r.width, a->r.height);
    if (!out && !picture_path(a->o.output, a->first_picture + i, path, sizeof path)) {
        errno = ENAMETOOLONG;
        free(text);
        return output_failed(a, a->o.output);
    }
    if (!out) kind = still_kind_of(path);
    if (text) bytes = encode_still(kind, a->rgba, a->r.width, a->r.height, a->r.quality, text, &size);
    if (!bytes && kind != STILL_PNG) {
        close_line(a);
        code = complain(EXIT_MEMORY, "%s: %s", path, no_still_memory);
    } else if (!write_picture(a, out ? NULL : path, bytes, size, text)) {
        code = output_failed(a, path);
    } else {
        a->took.total = now() - a->started;
        tell_picture(a, path, i);
    }
    if (!code && !bytes)
        code = complain(EXIT_MEMORY, "out of memory while %s was compressed: it is written whole, but uncompressed%s",
                        path, text ? "" : " and without its parameters");
    if (!code && a->o.grid && !sheet_add(&a->grid, a->rgba, a->r.width, a->r.height))
        code = complain(EXIT_MEMORY, "--grid: out of memory; make fewer pictures");
    free(bytes);
    free(text);
    return code;
}

/* --grid, when all pictures are made. */
static int save_grid(app *a) {
    uint32_t width, height;
    size_t size = 0;
    unsigned char *rgba, *bytes = NULL;
    int code = EXIT_GOOD;
    if (!a->o.grid || !a->grid.count) return EXIT_GOOD;
    rgba = sheet_draw(&a->grid, &width, &height);
    if (rgba) bytes = encode_still(still_kind_of(a->o.grid), rgba, width, height, STILL_QUALITY, NULL, &size);
    free(rgba);
    if (!bytes)
        code = complain(EXIT_MEMORY, "--grid: out of memory; make fewer pictures");
    else if (!write_file(a->o.grid, bytes, size))
        code = output_failed(a, a->o.grid);
    else if (!a->o.quiet && !a->o.json)
        fprintf(a->o.output && to_stdout(&a->o) ? stderr : stdout, "%s  %u pictures\n", a->o.grid, a->grid.count);
    if (!code && a->grid.left_out && !a->o.quiet)
        fprintf(stderr, "dit: --grid: %u pictures more than %d are left out\n", a->grid.left_out, SHEET_MOST);
    free(bytes);
    return code;
}

/* A latent may have fewer frames than its clip: values that are not written stay NaN, which no latent holds. */
static int read_latent(app *a, uint32_t i) {
    const size_t frame = latent_values(a) / a->latent_frames;
    float *latent;
    dit_result result;
    if (!a->latents) return EXIT_GOOD;
    latent = a->latents + i * a->latent_room;
    memset(latent, 0xff, a->latent_room * sizeof *latent);
    result = dit_job_read(a->job, DIT_READ_LATENT_F32, 0, 0, latent, a->latent_room * sizeof *latent, 0, &a->err);
    if (result != DIT_OK) return dit_failed(a, result, NULL);
    while (a->latent_frames > 1 && latent[a->latent_frames * frame - 1] != latent[a->latent_frames * frame - 1])
        a->latent_frames--;
    return EXIT_GOOD;
}

static int read_picture_made(app *a) {
    dit_result result =
        dit_job_read(a->job, DIT_READ_RGBA8, 0, 0, a->rgba, (size_t)a->r.width * a->r.height * 4, 0, &a->err);
    return result == DIT_OK ? EXIT_GOOD : dit_failed(a, result, NULL);
}

/* The job for picture i, or for the clip that continues the one before. */
static int restart_job(app *a, uint32_t i) {
    dit_job_desc desc;
    dit_tensor noise;
    dit_result result;
    describe_job(a, i, &desc, &noise);
    result = dit_job_restart(a->job, &desc, &a->err);
    return result == DIT_OK ? EXIT_GOOD : dit_failed(a, result, NULL);
}

/* Makes a clip, or several that continue each other, into one file. */
static int make_clip(app *a, uint32_t i) {
    const uint32_t frames = a->r.loops * (a->r.frames - dit_job_overlap(a->job)) + dit_job_overlap(a->job);
    const char *told = to_stdout(&a->o) ? "standard output" : a->o.output;
    char path[PATH_SIZE], begin[PATH_SIZE], end[PATH_SIZE], *text = parameters_text(a, i);
    int code = EXIT_GOOD, first;
    bool numbered;
    if (!text) return complain(EXIT_MEMORY, "out of memory");
    picture_path(a->o.output, a->first_picture + i, path, sizeof path);
    if (!to_stdout(&a->o)) told = path;
    a->strip_frames = 0;
    if (!clip_open(&a->clip, path, a->r.width, a->r.height, frames, a->r.fps, text)) code = EXIT_OUTPUT;
    for (a->loop = 0; a->loop < a->r.loops && !code; a->loop++) {
        if (i || a->loop) {
            code = choose_prompt(a);
            if (!code) code = restart_job(a, i);
        }
        if (!code) code = run_job(a, i);
    }
    a->loop = 0;
    first = code;
    if (!clip_close(&a->clip) && (!code || (code == EXIT_OUTPUT && !caught_signal))) {
        close_line(a);
        code = complain(strstr(a->clip.why, "memory") ? EXIT_MEMORY : EXIT_OUTPUT, "cannot write %s: %s", told,
                        a->clip.why);
    }
    numbered = a->clip.kind == CLIP_PNGS && frames > 1 && clip_number_path(path, 0, begin, sizeof begin) &&
               clip_number_path(path, frames - 1, end, sizeof end);
    a->clip.path = NULL;
    free(text);
    if (first || code) return code;
    close_line(a);
    a->took.total = now() - a->started;
    if (a->o.json)
        tell_file(a, told, i, frames);
    else if (!a->o.quiet)
        fprintf(to_stdout(&a->o) ? stderr : stdout, "%s%s%s%s  %u frame%s, %g a second  seed %llu  %.2f s\n", a->title,
                numbered ? begin : told, numbered ? " to " : "", numbered ? base_name(end) : "", frames,
                frames > 1 ? "s" : "", a->r.fps, (unsigned long long)(a->r.seed + i), a->took.total);
    fflush(stdout);
    return EXIT_GOOD;
}

static int make_picture(app *a, uint32_t i) {
    uint64_t range = dit_trace_begin(a->context, a->r.frames ? "clip" : "picture");
    int code = EXIT_GOOD;
    a->told_step = UINT32_MAX;
    a->started = now();
    if (makes_clip(a)) {
        code = make_clip(a, i);
    } else {
        if (i) code = restart_job(a, i);
        if (!code) code = run_job(a, i);
        if (!code) code = read_picture_made(a);
        if (!code && a->follow.take)
            code = a->follow.take(a, i) ? EXIT_GOOD : complain(EXIT_MEMORY, "%s", no_still_memory);
        else if (!code)
            code = save_picture(a, i);
    }
    if (!code) code = read_latent(a, i);
    dit_trace_end(a->context, range);
    return code;
}

static bool append_bytes(const void *data, size_t size, void *user) {
    text_buffer *b = user;
    if (size > b->room - b->size) {
        size_t room = 2 * b->room + size;
        unsigned char *more = realloc(b->bytes, room);
        if (!more) return false;
        b->bytes = more;
        b->room = room;
    }
    memcpy(b->bytes + b->size, data, size);
    b->size += size;
    return true;
}

/* Writes the trace of a failed run, too: it tells how far the run came. */
static int save_trace(app *a) {
    text_buffer text = {0};
    dit_result result;
    int code = EXIT_GOOD;
    if (!a->o.trace || !a->context) return EXIT_GOOD;
    result = dit_trace_write(a->context, append_bytes, &text, &a->err);
    if (result != DIT_OK)
        code = complain(EXIT_MEMORY, "out of memory while writing the trace");
    else if (!write_file(a->o.trace, text.bytes, text.size))
        code = output_failed(a, a->o.trace);
    free(text.bytes);
    return code;
}

static int save_latents(app *a) {
    uint64_t shape[5];
    uint32_t rank = 0, i;
    if (!a->latents) return EXIT_GOOD;
    for (i = 1; i < a->r.count; i++)
        memmove(a->latents + i * latent_values(a), a->latents + i * a->latent_room, latent_values(a) * sizeof(float));
    shape[rank++] = a->r.count;
    shape[rank++] = a->info.latent_channels;
    if (a->r.frames) shape[rank++] = a->latent_frames;
    shape[rank++] = a->r.height / a->info.latent_factor;
    shape[rank++] = a->r.width / a->info.latent_factor;
    return st_save(a->o.latent_out, "latent", shape, (int)rank, a->latents) ? EXIT_GOOD
                                                                            : output_failed(a, a->o.latent_out);
}

static void tell_counters(const app *a) {
    dit_counters c;
    dit_job_get_counters(a->job, &c);
    fprintf(stderr,
            "dit: %llu dispatches in %llu submits, %llu command buffers, %llu pipelines compiled, %llu allocations\n",
            (unsigned long long)c.dispatches, (unsigned long long)c.submits, (unsigned long long)c.recordings,
            (unsigned long long)c.pipelines, (unsigned long long)c.allocations);
}

/* ---- Requests: one, or many one after the other with what is loaded ---- */

/* Options that shape the context, the model and its parts. */
static const char *const loading_options[] = {
    "--model",         "--diffusion-model", "--clip-l",         "--clip-g",        "--t5",
    "--vae",           "--taesd",           "--tokenizer",      "--type",          "--tensor-type-rules",
    "--weight-budget", "--device-memory",   "--offload-to-cpu", "--keep-streamed", "--clip-on-cpu",
    "--split",         "--device",          "--conditioning",   "--encode-prompt", "--trace",
    "--tune",          "--lora-merge",      "--control-net"};

/* Their values, one after the other; freed with free, NULL without memory. */
static char *loading_text(options *o, const lora_list *loras) {
    parameter_text out = {0};
    char weight[32];
    size_t i;
    for (i = 0; i < sizeof loading_options / sizeof loading_options[0]; i++) {
        const option_entry *entry = find_option(loading_options[i]);
        const char *value = entry->value ? *option_text(o, entry) : *option_flag(o, entry) ? "on" : NULL;
        append_pair(&out, entry->name, value ? value : "");
    }
    for (i = 0; i < loras->count; i++) {
        snprintf(weight, sizeof weight, "%.9g", (double)loras->items[i].weight);
        append_pair(&out, weight, loras->items[i].path);
    }
    return out.at;
}

/* Lets go of context, model and plan. */
static void unload(app *a) {
    dit_job_destroy(a->job);
    forget_texts(a);
    dit_model_destroy(a->model);
    dit_model_destroy(a->headers);
    dit_context_destroy(a->context);
    free(a->cache);
    free(a->mark);
    free(a->loaded);
    a->job = NULL;
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
    for (i = 0; i < a->r.video_count; i++) free(a->r.video[i].rgba);
    free(a->r.video);
    free(a->r.video_images);
    free(a->loop_prompt);
    free_loras(&a->loras);
    free(a->strip);
    free(a->rgba);
    free(a->latents);
    free(a->r.noise.data);
    free(a->r.texts[0].bytes);
    free(a->r.texts[1].bytes);
    free(a->r.start.rgba);
    for (i = 0; i < MOST_REFERENCES; i++) free(a->r.reference_pictures[i].rgba);
    free(a->r.mask.rgba);
    free(a->r.control.rgba);
    free(a->split);
    a->loop_prompt = a->split = NULL;
    a->strip = a->rgba = NULL;
    a->latents = NULL;
    memset(&a->r, 0, sizeof a->r);
    memset(a->hashes, 0, sizeof a->hashes);
    a->noise_first = a->strip_frames = 0;
}

/* The pictures of a->o. Context, model and plan stay, and those of the request before serve where they can. */
static int make_request(app *a) {
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
    close_line(a);
    if (code == EXIT_DEVICE) unload(a); /* a device that failed serves no more */
    if (!code) a->first_picture += a->r.count;
    end_request(a);
    return tell_failure(a, code);
}

/* Ends the program's work; code: how that went. Returns the exit code. */
static int finish(app *a, int code) {
    if (!code) code = save_grid(a);
    keep_pipeline_cache(a);
    if (!code)
        code = save_trace(a);
    else
        save_trace(a);
    unload(a);
    sheet_free(&a->grid);
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

/* Clips of the model: their defaults, numbers of frames that are possible, and inputs. */
static void tell_clips(const app *a) {
    char counts[128];
    if (!a->info.default_frames) return;
    frame_counts(a->headers, counts, sizeof counts);
    printf("clips of %u frames, %g a second, unless told otherwise; frames possible: %s\n", a->info.default_frames,
           (double)a->info.default_fps, counts);
    if (a->info.wants_image) printf("a picture is needed: --init-img\n");
    if (a->info.holds_frames) printf("frames may be given: --init-img, --init-video, --mask-strategy, --loop\n");
}

static dit_result tell_model(app *a, const dit_model *model, int level) {
    weight_table table = {0};
    dit_job_desc desc;
    dit_result result = read_weights(model, &table, &a->err);
    if (result == DIT_OK) {
        tell_family(a->o.model ? a->o.model : base_name(a->model_path), &a->info);
        tell_clips(a);
        tell_weights(&a->info, &table);
        tell_missing(&a->info);
    }
    if (result == DIT_OK && level > 1 && a->info.layers) {
        dit_tensor noise;
        describe_job(a, 0, &desc, &noise);
        desc.model = model;
        desc.image_count = a->r.count;
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
    if (o->info_level) {
        *level = o->info_level[0] - '0';
        if (*level < 1 || *level > 3 || o->info_level[1])
            return complain(EXIT_USAGE, "--info-level '%s': 1 weights, 2 memory, 3 every op and tensor", o->info_level);
    }
    return EXIT_GOOD;
}

static int show_info(app *a) {
    dit_result result;
    int level, code = check_info(a, &level);
    if (!code) code = check_numbers(a);
    if (!code && a->r.count > 64) code = complain(EXIT_USAGE, "--batch-count %u: at most 64 with --info", a->r.count);
    if (!code) code = take_loras(&a->o, &a->loras);
    if (!code) code = check_model_path(a);
    if (!code) code = open_headers(a);
    if (!code) code = check_frames(a);
    if (!code) code = check_sizes(a);
    if (!code && a->o.device) code = open_context(a);
    if (code) return code;
    if (!a->r.steps) a->r.steps = a->info.default_steps;
    if (!(a->r.guidance > 0)) a->r.guidance = a->info.default_guidance;
    if (a->info.wants_image || a->info.wants_mask || a->info.wants_control || a->info.control_count) {
        a->r.start.rgba = calloc((size_t)a->r.width * a->r.height, 4); /* any will do */
        if (!a->r.start.rgba) return complain(EXIT_MEMORY, "out of memory");
        a->r.start.width = a->r.width;
        a->r.start.height = a->r.height;
        a->r.start_image = a->r.mask_image = a->r.control_image = a->r.control_net.image = image_of(&a->r.start);
        if (a->info.wants_mask) a->r.mask.rgba = a->r.start.rgba;
        if (!a->info.wants_image && !a->info.wants_mask) {
            a->r.control.rgba = a->r.start.rgba;
            a->r.start.rgba = NULL;
        }
    }
    result = tell_model(a, a->headers, level);
    dit_model_destroy(a->headers);
    free(a->r.start.rgba);
    free(a->r.control.rgba);
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

/* Text that is printed on demand counts as printed only when it has arrived. */
static int finish_output(bool open_out) {
    if (!open_out) return complain(EXIT_OUTPUT, "cannot write to standard output: it is closed");
    if (fflush(stdout) != 0 || ferror(stdout))
        return complain(EXIT_OUTPUT, "cannot write to standard output: %s", told_reason(errno));
    return EXIT_GOOD;
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

static int list_models(void) {
    catalogue all = {NULL, 0, 0};
    char bundled[PATH_SIZE] = "";
    if (!find_bundled("emoji-q8_0.gguf", bundled)) bundled[0] = 0;
    find_models(&all, bundled);
    tell_models(&all);
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
    else if (a->o.type && strcmp(a->o.type, "list") == 0)
        list_names(type_name);
    else if (a->o.completion)
        *code = put_completion(a->o.completion);
    else if (a->o.man)
        version_text(version, sizeof version), put_man(version);
    else if (a->o.doctor)
        *code = see_doctor(a);
    else if (a->o.list_models)
        *code = list_models();
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
