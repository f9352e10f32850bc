/* Prompts that are typed, one after the other, with one loaded model: what dit does on a terminal without --prompt.
   With libedit (-DDIT_EDIT) a line is edited, and lines before are found again; else it is read as the terminal gives
   it. txt2img.c includes it behind batch.h. Not part of dit.h. */
#ifndef INTERACTIVE_H
#define INTERACTIVE_H
#ifdef DIT_EDIT
#include <histedit.h>
#include <wchar.h>
#endif

static const char interactive_help[] = "  a red heart          makes a picture of that\n"
                                       "  $3 in winter         begins with picture 3; $ alone with the last one\n"
                                       "  !last [WORDS]        the last prompt again, with more words behind it\n"
                                       "  !size 256x128        !seed 7   !steps 20   !model PATH   !strength 0.6\n"
                                       "  !NAME VALUE          any option of a picture, as --help-all names it; !NAME\n"
                                       "                       alone: as at the start\n"
                                       "  !settings            what is set\n"
                                       "  !help, !quit         Ctrl-C stops a picture, Ctrl-D quits\n";

typedef struct prompt_line {
    char text[16384]; /* as UTF-8 */
    bool interrupted; /* by Ctrl-C */
#ifdef DIT_EDIT
    EditLine *edit;
    HistoryW *history;
    char path[PATH_SIZE]; /* of the history */
#endif
} prompt_line;

#ifdef DIT_EDIT
static char *prompt_mark(EditLine *edit) {
    static char mark[] = "dit> ";
    (void)edit;
    return mark;
}

/* Ctrl-C while a line is typed: the line is dropped. */
static unsigned char prompt_drop(EditLine *edit, int letter) {
    prompt_line *p;
    (void)letter;
    el_get(edit, EL_CLIENTDATA, &p);
    p->interrupted = true;
    return CC_EOF;
}

static bool open_prompt(prompt_line *p) {
    HistEventW event;
    p->edit = el_init("dit.h", stdin, stderr, stderr);
    p->history = history_winit();
    if (!p->edit || !p->history) return false;
    el_set(p->edit, EL_CLIENTDATA, p);
    el_set(p->edit, EL_PROMPT, prompt_mark);
    el_set(p->edit, EL_EDITOR, "emacs");
    el_set(p->edit, EL_SIGNAL, 0);
    el_set(p->edit, EL_SETTY, "-d", "-isig", NULL);
    /* Keys that are typed while a picture is made wait unread and unseen for the next line: the terminal gives single
       keys all the time, since it would turn a waiting Ctrl-D into nothing when it changes from lines to keys. */
    terminal_changed = tcgetattr(0, &terminal_before) == 0;
    el_set(p->edit, EL_SETTY, "-x", "-icanon", "-echo", NULL);
    el_set(p->edit, EL_ADDFN, "dit-drop", "drop the line", prompt_drop);
    el_set(p->edit, EL_BIND, "^C", "dit-drop", NULL);
    el_set(p->edit, EL_BIND, "^R", "em-inc-search-prev", NULL);
    history_w(p->history, &event, H_SETSIZE, 1000);
    history_w(p->history, &event, H_SETUNIQUE, 1);
    el_wset(p->edit, EL_HIST, history_w, p->history);
    if (cache_folder(p->path, sizeof p->path - 9)) {
        strcat(p->path, "/history");
        history_w(p->history, &event, H_LOAD, p->path);
    } else {
        p->path[0] = 0;
    }
    return true;
}

/* wchar_t is Unicode wherever libedit is at home. */
static void store_line(prompt_line *p, const wchar_t *line) {
    char *to = p->text;
    for (; *line && *line != '\n' && to + 5 < p->text + sizeof p->text; line++) to = store_utf8(to, (long)*line);
    *to = 0;
}

/* False at the end. */
static bool read_prompt(prompt_line *p) {
    int length = 0;
    HistEventW event;
    const wchar_t *line;
    p->interrupted = false;
    el_set(p->edit, EL_PREP_TERM, 1); /* before the prompt is seen: from then on Ctrl-C is a key */
    line = el_wgets(p->edit, &length);
    if (p->interrupted) fputs("^C\n", stderr);
    p->text[0] = 0;
    if (p->interrupted) return el_set(p->edit, EL_REFRESH), true;
    if (!line || length <= 0) return fputs("\n", stderr), false;
    store_line(p, line);
    if (p->text[strspn(p->text, " \t")]) history_w(p->history, &event, H_ENTER, line);
    return true;
}

/* The history is the user's alone. */
static void close_prompt(prompt_line *p) {
    HistEventW event;
    if (p->history && p->path[0]) {
        const mode_t before = umask(077);
        history_w(p->history, &event, H_SAVE, p->path);
        umask(before);
    }
    if (p->history) history_wend(p->history);
    if (p->edit) el_end(p->edit);
    if (terminal_changed) tcsetattr(0, TCSADRAIN, &terminal_before);
    terminal_changed = 0;
}
#else
static bool open_prompt(prompt_line *p) { return p->text[0] = 0, true; }

static bool read_prompt(prompt_line *p) {
    fputs("dit> ", stderr);
    fflush(stderr);
    p->text[0] = 0;
    p->interrupted = false;
    if (fgets(p->text, sizeof p->text, stdin)) return p->text[strcspn(p->text, "\r\n")] = 0, true;
    fputs("\n", stderr);
    if (!caught_signal) return false;
    clearerr(stdin);
    return p->interrupted = true;
}

static void close_prompt(prompt_line *p) { (void)p; }
#endif

/* ---- Lines: a prompt or a command ---- */

enum { MOST_REMEMBERED = 1000 };

typedef struct conversation {
    options start, set; /* as the program was called; as they are now */
    char *paths[MOST_REMEMBERED];
    uint32_t made; /* pictures, $1 ... */
    char last[16384];
    bool over;
} conversation;

/* "256x128", or one number for both. */
static int set_size(options *o, const char *value) {
    char width[32], height[32] = "";
    if (sscanf(value, "%31[0-9]%*[xX*]%31[0-9]", width, height) < 1)
        return complain(EXIT_USAGE, "!size '%s': say it as 256x128", value);
    o->width = kept_text(width);
    o->height = kept_text(height[0] ? height : width);
    return EXIT_GOOD;
}

/* An option as it was when the program was called. */
static int reset_option(conversation *c, const char *name) {
    char dashed[40];
    const option_entry *entry = NULL;
    if (same_word(name, "size")) {
        c->set.width = c->start.width;
        c->set.height = c->start.height;
        return EXIT_GOOD;
    }
    if (snprintf(dashed, sizeof dashed, "--%s", name) < (int)sizeof dashed) entry = find_option(dashed);
    if (!entry || !is_request_option(entry))
        return complain(EXIT_USAGE, "!%s: there is no such option; !help tells more", name);
    if (entry->value)
        *option_text(&c->set, entry) = *option_text(&c->start, entry);
    else
        *option_flag(&c->set, entry) = !*option_flag(&c->set, entry); /* a flag turns */
    return EXIT_GOOD;
}

/* Refuses values that no picture could be made with. Pictures that are begun with, referred to or followed may be named
   later, and parts of the model, too: what depends on them is left to each prompt's own check. */
static int check_settings(const options *set) {
    static app trial; /* zeros */
    input_list inputs;
    uint32_t i;
    int code;
    trial.o = *set;
    trial.o.quiet = true;
    code = take_loras(&trial.o, &trial.loras);
    if (!code) code = check_numbers(&trial);
    if (!code) code = check_outputs(&trial);
    if (!code) code = check_model_path(&trial);
    if (!code) list_inputs(&trial, &inputs);
    for (i = 0; !code && i < inputs.count; i++)
        if (inputs.paths[i].path && !file_exists(inputs.paths[i].path))
            code = complain(EXIT_INPUT, "%s %s: %s", inputs.paths[i].option, inputs.paths[i].path, told_reason(errno));
    if (!code) code = open_headers(&trial, NULL);
    if (!code) code = check_frames(&trial);
    if (!code) code = check_sizes(&trial);
    if (!code && set->output && to_stdout(set))
        code = complain(EXIT_USAGE, "--output -: pictures of prompts that are typed go to files; name one");
    if (!code) code = check_results(&trial);
    if (!code && !set->conditioning && !trial.info.missing && !trial.info.wants_image && !trial.info.wants_mask &&
        !trial.info.wants_control) {
        trial.o.prompt = trial.info.class_count ? NULL : "a";
        trial.o.mask_strategy = NULL;
        trial.o.keep_references = false;
        trial.r.numbers.strength = 0;
        trial.r.loops = 1;
        code = check_job(&trial);
    }
    end_request(&trial);
    unload(&trial);
    memset(&trial, 0, sizeof trial);
    return code;
}

/* value empty: as it was when the program was called. A setting that cannot be is told and leaves all as it was. */
static int change_setting(conversation *c, const char *name, const char *value) {
    const options before = c->set;
    int code;
    if (same_word(name, "prompt")) return complain(EXIT_USAGE, "!prompt: type the prompt as a line of its own");
    if (!*value)
        code = reset_option(c, name);
    else if (same_word(name, "size"))
        code = set_size(&c->set, value);
    else
        code = set_option(&c->set, "!", name, value);
    if (!code) code = check_settings(&c->set);
    if (code) c->set = before;
    return code;
}

static void tell_settings(conversation *c) {
    size_t i;
    for (i = 0; i < OPTION_COUNT; i++) {
        const option_entry *entry = &option_table[i];
        if (!is_request_option(entry)) continue;
        if (entry->value && *option_text(&c->set, entry))
            fprintf(stderr, "  !%s %s\n", entry->name + 2, *option_text(&c->set, entry));
        else if (!entry->value && *option_flag(&c->set, entry))
            fprintf(stderr, "  !%s\n", entry->name + 2);
    }
    if (!c->set.seed) fprintf(stderr, "  !seed random\n");
}

/* The first name of dit-0001.png, dit-0002.png, ... or of --output's kind that is not there yet. */
static bool free_name(const app *a, const conversation *c, char *out, size_t size) {
    const bool clip = a->headers && a->info.default_frames;
    uint32_t i;
    for (i = 0; i < 1000000; i++) {
        const bool good = c->set.output ? picture_path(c->set.output, i, clip, out, size)
                                        : snprintf(out, size, "dit-%04u.png", i + 1) < (int)size;
        if (!good) return false;
        if (!file_exists(out)) return true;
    }
    return false;
}

static int make_prompted(app *a, conversation *c, const char *prompt) {
    char path[PATH_SIZE];
    int code;
    a->o = c->set;
    a->o.prompt = prompt;
    if (!a->o.seed) a->o.seed = "random";
    if (*prompt == '$') { /* the picture to begin with */
        char *end;
        const unsigned long number = strtoul(prompt + 1, &end, 10);
        const uint32_t index = end == prompt + 1 ? c->made : (uint32_t)number;
        if (index < 1 || index > c->made || index > MOST_REMEMBERED || !c->paths[index - 1])
            return complain(EXIT_USAGE, "%.*s: %s", (int)(end - prompt), prompt,
                            c->made ? "no picture has that number" : "no picture has been made yet");
        a->o.init_image = c->paths[index - 1];
        a->o.prompt = end + strspn(end, " \t");
        if (!*a->o.prompt) return complain(EXIT_USAGE, "%s: what shall become of it? Say it behind the number", prompt);
    }
    if (!free_name(a, c, path, sizeof path)) return complain(EXIT_OUTPUT, "--output: the name is too long");
    a->o.output = path;
    a->first_picture = 0;
    snprintf(a->title, sizeof a->title, "$%u  ", c->made + 1);
    code = make_request(a);
    if (code) return code;
    if (c->made < MOST_REMEMBERED) c->paths[c->made] = strdup(path);
    c->made++;
    return EXIT_GOOD;
}

/* One line: a command behind !, or a prompt. */
static int take_line(app *a, conversation *c, char *line) {
    char *name, *value;
    size_t end;
    line += strspn(line, " \t");
    for (end = strlen(line); end && strchr(" \t", line[end - 1]); end--) line[end - 1] = 0;
    if (!*line) return EXIT_GOOD;
    if (*line != '!') {
        const char *words = *line == '$' ? line + 1 + strspn(line + 1, "0123456789") : line;
        snprintf(c->last, sizeof c->last, "%s", words + strspn(words, " \t"));
        return make_prompted(a, c, line);
    }
    name = line + 1;
    value = name + strcspn(name, " \t=");
    if (*value) *value++ = 0;
    value += strspn(value, " \t");
    if (same_word(name, "quit") || same_word(name, "exit")) return c->over = true, EXIT_GOOD;
    if (same_word(name, "help") || !*name) return fputs(interactive_help, stderr), EXIT_GOOD;
    if (same_word(name, "settings")) return tell_settings(c), EXIT_GOOD;
    if (same_word(name, "last")) {
        const size_t length = strlen(c->last);
        if (!*c->last) return complain(EXIT_USAGE, "!last: there was no prompt yet");
        if (*value) snprintf(c->last + length, sizeof c->last - length, " %s", value);
        return make_prompted(a, c, c->last);
    }
    return change_setting(c, name, value);
}

/* Ctrl-C ends a picture, not the program. */
static void listen_again(void) {
    caught_signal = 0;
    signal(SIGINT, on_signal);
}

static int interact(app *a) {
    static conversation c;
    static prompt_line p;
    uint32_t i;
    int code = check_settings(&a->o);
    if (code) return tell_failure(a, code);
    if (!open_prompt(&p)) return complain(EXIT_MEMORY, "out of memory");
    if (a->screen.kind == SCREEN_NONE && !a->o.preview) screen_open(&a->screen, 2, SCREEN_ASKED);
    c.start = c.set = a->o;
    if (!a->o.quiet) fprintf(stderr, "Say what shall be on the picture; !help tells more, Ctrl-D ends.\n");
    while (!c.over && caught_signal != SIGTERM && read_prompt(&p)) {
        listen_again();
        if (!p.interrupted) take_line(a, &c, p.text);
        if (caught_signal == SIGTERM) break;
        listen_again();
    }
    close_prompt(&p);
    for (i = 0; i < c.made && i < MOST_REMEMBERED; i++) free(c.paths[i]);
    a->o = c.start;
    return caught_signal == SIGTERM ? 128 + SIGTERM : EXIT_GOOD;
}
#endif
