/* Everything that build/dit says while it works: progress on a terminal or as lines of JSON, and failures with what can
   be done about them. Include it after app.h. Not part of dit.h. */
#ifndef TELLING_H
#define TELLING_H

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
    char words[1024];
    close_line(user);
    fprintf(stderr, "dit: %s%s\n", names[level < 0 || level > 3 ? 3 : level], in_options(message, words, sizeof words));
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
    if (a->r.hires.wanted) json_count(&out, "pass", 1 + a->r.hires.second);
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

/* The sound of a clip, in a file beside it. */
static void tell_sound(const app *a, const char *path, uint32_t samples) {
    parameter_text out = {0};
    begin_event(a, &out, "sound");
    json_text(&out, "path", path);
    json_count(&out, "rate", a->info.sound_rate);
    json_count(&out, "channels", a->info.sound_channels);
    json_count(&out, "samples", samples);
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
   guide. After a single step, decoding is measured by itself. */
static void format_rate(const app *a, const dit_status *s, char *out, size_t size) {
    double time = now() - a->first_at, left;
    int n = 0;
    out[0] = 0;
    if (!a->first.step || s->fraction <= a->first.fraction || time <= 0) return;
    if (s->step <= a->first.step && s->stage != DIT_STAGE_DECODE) return;
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
    if (a->r.hires.wanted) snprintf(count + n, sizeof count - (size_t)n, "pass %d/2 ", 1 + a->r.hires.second);
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
#endif
