/* build/dit on a terminal of the test's own: pictures in Kitty's, iTerm2's and Sixel's protocol and as half blocks,
   read back and compared with the file; prompts that are typed, Ctrl-C, narrow widths, NO_COLOR, other letters than
   UTF-8, output to a pipe; and batches, sheets, JSON, JPEG and WebP, which pipes get.   test-runs: lavapipe */
#define _GNU_SOURCE
#include "library.h"
#include "test.h"
#include "work_folder.h"
#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/wait.h>
#define STBI_ONLY_PNG
#define STB_IMAGE_STATIC
#define STB_IMAGE_IMPLEMENTATION
#if defined(__GNUC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"
#pragma GCC diagnostic ignored "-Wunused-but-set-variable"
#endif
#include <stb/stb_image.h>
#if defined(__GNUC__)
#pragma GCC diagnostic pop
#endif

#define MODEL "tests/fixtures/pipe_pixart_sigma" /* two blocks, random weights: quick */
#define QUICK "-m", model, "--steps", "2", "-W", "32", "-H", "32"
#define SIDE 32

static char program[512], model[512];

/* ---- A terminal, and a program on it ---- */

typedef struct terminal {
    pid_t pid;
    int fd, out;          /* its screen and keys; standard output where that is a pipe, else -1 */
    const char *answers;  /* to the question what it is; NULL: none */
    char *said, *printed; /* all that came */
    size_t length, seen;  /* of said; how much of it wait_for has passed */
    int code;
} terminal;

typedef struct kind {
    const char *answers;
    int columns, lines;
    const char *environment[4]; /* more than the usual one: NAME=VALUE */
    bool pipe;                  /* standard output is one */
} kind;

enum { SAID = 1 << 22 };

static terminal begin(const kind *k, const char *const *args) {
    terminal t = {0};
    struct winsize size = {(unsigned short)k->lines, (unsigned short)k->columns, 0, 0};
    int ends[2] = {-1, -1};
    t.answers = k->answers;
    t.said = calloc(1, SAID);
    t.printed = calloc(1, 65536);
    if (!t.said || !t.printed || (k->pipe && pipe(ends) != 0)) abort();
    t.pid = forkpty(&t.fd, NULL, NULL, &size);
    if (t.pid == 0) {
        if (chdir(work) != 0) _exit(127);
        unsetenv("NO_COLOR");
        setenv("COLORTERM", "truecolor", 1);
        setenv("TERM", "xterm-256color", 1);
        setenv("LC_ALL", "C.UTF-8", 1);
        setenv("XDG_CACHE_HOME", in_work("cache"), 1);
        for (int i = 0; i < 4 && k->environment[i]; i++) putenv((char *)(uintptr_t)k->environment[i]);
        if (k->pipe) dup2(ends[1], 1), close(ends[0]), close(ends[1]);
        execv(program, (char **)(uintptr_t)args);
        _exit(127);
    }
    if (k->pipe) close(ends[1]);
    t.out = ends[0];
    return t;
}

/* Takes what comes within a moment, and answers; false when the program is gone. */
static bool take(terminal *t) {
    struct pollfd fds[2] = {{t->fd, POLLIN, 0}, {t->out, POLLIN, 0}};
    ssize_t n = 1;
    poll(fds, 2, 50);
    if (fds[1].revents & (POLLIN | POLLHUP)) {
        const size_t had = strlen(t->printed);
        if (read(t->out, t->printed + had, 65535 - had) <= 0) close(t->out), t->out = -1;
    }
    if (fds[0].revents) {
        n = read(t->fd, t->said + t->length, SAID - 1 - t->length);
        if (n > 0) t->length += (size_t)n, t->said[t->length] = 0;
    }
    if (t->answers && strstr(t->said, "\033[c")) {
        if (write(t->fd, t->answers, strlen(t->answers)) < 0) return false;
        t->answers = NULL;
    }
    return n > 0;
}

static double patience = 60; /* seconds */

/* Whether the program says text behind what was waited for before. */
static bool wait_for(terminal *t, const char *text) {
    const double limit = seconds() + patience;
    const char *at;
    while ((at = strstr(t->said + t->seen, text)) == NULL)
        if (!take(t) || seconds() > limit) break;
    if (!at) at = strstr(t->said + t->seen, text);
    if (at) t->seen = (size_t)(at - t->said) + strlen(text);
    if (!at) fprintf(stderr, "    it never said %s, but: %s\n", text, t->said + t->seen);
    return at != NULL;
}

static void type(terminal *t, const char *keys) {
    if (write(t->fd, keys, strlen(keys)) < 0) fprintf(stderr, "    nobody reads\n");
}

/* Waits for the end; gives the exit code. */
static int end(terminal *t) {
    const double limit = seconds() + patience;
    int status = 0;
    do
        if (seconds() > limit) kill(t->pid, SIGKILL), fprintf(stderr, "    stopped after %.0f s\n", patience);
    while (take(t));
    while (t->out >= 0 && take(t) + 1 && t->out >= 0) {
    }
    close(t->fd);
    waitpid(t->pid, &status, 0);
    return t->code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* keys are typed before. */
static int end_by(terminal *t, const char *keys) {
    type(t, keys);
    return end(t);
}

static void forget(terminal *t) {
    free(t->said);
    free(t->printed);
}

#define ARGS(...) ((const char *const[]){"dit", __VA_ARGS__, NULL})

static terminal run(const kind *k, const char *const *args) {
    terminal t = begin(k, args);
    end(&t);
    return t;
}

/* ---- Pictures, read back ---- */

typedef struct rgb_picture {
    int width, height;
    unsigned char *rgb; /* freed with free; NULL: none */
} rgb_picture;

static rgb_picture read_file_picture(const char *path) {
    rgb_picture p = {0};
    int channels;
    p.rgb = stbi_load(path, &p.width, &p.height, &channels, 3);
    return p;
}

static unsigned char *unbase64(const char *text, size_t length, size_t *size) {
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    unsigned char *out = malloc(length + 4);
    uint32_t bits = 0, held = 0;
    *size = 0;
    for (size_t i = 0; i < length; i++) {
        const char *at = strchr(letters, text[i]);
        if (!at || !text[i]) continue;
        bits = bits << 6 | (uint32_t)(at - letters);
        if ((held += 6) >= 8) out[(*size)++] = (unsigned char)(bits >> (held -= 8));
    }
    return out;
}

static rgb_picture decode_png(const char *base64, size_t length) {
    rgb_picture p = {0};
    size_t size;
    int channels;
    unsigned char *png = unbase64(base64, length, &size);
    p.rgb = stbi_load_from_memory(png, (int)size, &p.width, &p.height, &channels, 3);
    free(png);
    return p;
}

/* The last picture that was sent; *count: all of them. Checks the form of each part. */
static rgb_picture decode_kitty(const char *said, int *count) {
    char *base64 = calloc(1, SAID);
    const char *p = said, *body, *over;
    size_t length = 0;
    rgb_picture out = {0};
    *count = 0;
    while ((p = strstr(p, "\033_G")) != NULL && (body = strchr(p, ';')) != NULL &&
           (over = strstr(body, "\033\\")) != NULL) {
        const bool first = memmem(p, (size_t)(body - p), "a=T", 3) != NULL,
                   more = memmem(p, (size_t)(body - p), "m=1", 3) != NULL;
        if (memmem(p, (size_t)(body - p), "a=q", 3)) {
            p = over;
            continue;
        }
        if (first) length = 0, ++*count;
        CHECK(over - body - 1 <= 4096 && (!more || (over - body - 1) % 4 == 0));
        memcpy(base64 + length, body + 1, (size_t)(over - body - 1));
        length += (size_t)(over - body - 1);
        p = over;
        if (more) continue;
        free(out.rgb);
        out = decode_png(base64, length);
    }
    free(base64);
    return out;
}

static rgb_picture decode_iterm2(const char *said) {
    const char *p = said, *body, *over;
    rgb_picture out = {0};
    while ((p = strstr(p, "\033]1337;File=")) != NULL && (body = strchr(p, ':')) != NULL &&
           (over = strchr(body, '\007')) != NULL) {
        free(out.rgb);
        out = decode_png(body + 1, (size_t)(over - body - 1));
        p = over;
    }
    return out;
}

/* The last Sixel picture (DEC STD 070, chapter 9): colours in parts of 100, rows of six pixels. *colours: that it has.
 */
static rgb_picture decode_sixel(const char *said, int *colours) {
    static unsigned char palette[1024][3];
    const char *p = NULL, *at = said, *over;
    rgb_picture out = {0};
    int colour = 0, x = 0, y = 0, n, m, v[5];
    *colours = 0;
    while ((at = strstr(at, "\033P")) != NULL) p = at, at++;
    if (!p || (over = strstr(p, "\033\\")) == NULL || (p = strchr(p, 'q')) == NULL) return out;
    out.rgb = calloc(SIDE * SIDE, 3);
    out.width = out.height = SIDE;
    for (p++; p < over;) {
        int repeat = 1;
        if (*p == '"') {
            p += 1 + strspn(p + 1, "0123456789;");
            continue;
        }
        if (*p == '#') {
            m = sscanf(p, "#%d;%d;%d;%d;%d%n", &v[0], &v[1], &v[2], &v[3], &v[4], &n);
            colour = v[0] & 1023;
            p += 1 + strspn(p + 1, "0123456789;");
            if (m != 5) continue;
            for (int c = 0; c < 3; c++) palette[colour][c] = (unsigned char)((v[2 + c] * 255 + 50) / 100);
            ++*colours;
            continue;
        }
        if (*p == '!') repeat = (int)strtol(p + 1, (char **)(uintptr_t)&p, 10);
        if (*p == '$') x = 0;
        if (*p == '-') x = 0, y += 6;
        if (*p >= '?' && *p <= '~')
            for (; repeat; repeat--, x++)
                for (int bit = 0; bit < 6; bit++)
                    if ((*p - '?') >> bit & 1 && x < SIDE && y + bit < SIDE)
                        memcpy(out.rgb + ((y + bit) * SIDE + x) * 3, palette[colour], 3);
        p++;
    }
    return out;
}

/* The last picture in half blocks of 24-bit colours. */
static rgb_picture decode_blocks(const char *said) {
    const char *p = said, *at = said, *over;
    rgb_picture out = {0};
    unsigned char ground[2][3] = {{0}};
    int x = 0, y = 0;
    while ((at = strstr(at, "\0337")) != NULL) p = at, at++;
    over = strstr(p, "\0338");
    if (!over) return out;
    out.rgb = calloc(SIDE * SIDE, 3);
    while (p < over) {
        unsigned which, r, g, b;
        if (sscanf(p, "\033[%u;2;%u;%u;%um", &which, &r, &g, &b) == 4) {
            unsigned char *to = ground[which == 48];
            to[0] = (unsigned char)r, to[1] = (unsigned char)g, to[2] = (unsigned char)b;
            p = strchr(p, 'm') + 1;
        } else if (strncmp(p, "\xe2\x96\x80", 3) == 0) {
            if (x < SIDE && y < SIDE) {
                memcpy(out.rgb + (y * SIDE + x) * 3, ground[0], 3);
                memcpy(out.rgb + ((y + 1) * SIDE + x) * 3, ground[1], 3);
            }
            x++;
            p += 3;
        } else {
            if (*p == '\n') out.width = x, x = 0, y += 2;
            p++;
        }
    }
    out.height = y + 2;
    return out;
}

static bool same_picture(const rgb_picture *a, const rgb_picture *b) {
    return a->rgb && b->rgb && a->width == b->width && a->height == b->height &&
           memcmp(a->rgb, b->rgb, (size_t)a->width * (size_t)a->height * 3) == 0;
}

/* ---- Previews ---- */

static const kind kitty = {"\033_Gi=31;OK\033\\\033[6;20;10t\033[?62;4;22c", 80, 24, {NULL}, false},
                  iterm2 = {"\033]1337;ReportCellSize=17.0;8.0;2.0\033\\\033[?64;1;2;4;6;22c", 80, 24, {NULL}, false},
                  sixel = {"\033[6;12;6t\033[?62;4;6;9;15;22c", 80, 24, {NULL}, false},
                  plain = {"\033[?62;22c", 80, 24, {NULL}, false}, silent = {NULL, 80, 24, {NULL}, false};

static void test_previews(void) {
    rgb_picture file, shown;
    terminal t;
    int count = 0, worst = 0, colours;
    double sum = 0;
    t = run(&kitty, ARGS(QUICK, "-p", "a", "--steps", "4", "--preview", "--preview-interval", "1", "-W", "96", "-H",
                         "64", "-o", "k.png")); /* in more than one part */
    CHECK_MESSAGE(t.code == 0 && strstr(t.said, "k.png  seed 42") && strstr(t.said, "m=1;"), "%d: %s", t.code, t.said);
    file = read_file_picture(in_work("k.png"));
    shown = decode_kitty(t.said, &count);
    CHECK_MESSAGE(same_picture(&file, &shown), "Kitty shows another picture of %dx%d", shown.width, shown.height);
    CHECK_MESSAGE(count >= 2 && count <= 5, "%d pictures of 4 steps", count);
    free(shown.rgb), forget(&t);

    t = run(&iterm2,
            ARGS(QUICK, "-p", "a", "--steps", "4", "--preview=terminal", "-W", "96", "-H", "64", "-o", "i.png"));
    shown = decode_iterm2(t.said);
    CHECK_MESSAGE(t.code == 0 && same_picture(&file, &shown), "%d: iTerm2 shows another picture", t.code);
    free(shown.rgb), free(file.rgb), forget(&t);

    t = run(&plain, ARGS(QUICK, "-p", "a", "--steps", "4", "--preview", "-o", "b.png"));
    file = read_file_picture(in_work("b.png"));
    shown = decode_blocks(t.said);
    CHECK_MESSAGE(t.code == 0 && same_picture(&file, &shown), "%d: blocks show another picture of %dx%d", t.code,
                  shown.width, shown.height);
    free(shown.rgb), forget(&t);

    t = run(&sixel, ARGS(QUICK, "-p", "a", "--steps", "4", "--preview", "-o", "s.png"));
    if (!strstr(t.said, "\033P")) {
        printf("skipped: Sixel: build/dit has no libsixel\n");
    } else { /* a colour of 256 that is near: within 16 of 255 on average over the picture's 1024, none off by more than
                96 */
        shown = decode_sixel(t.said, &colours);
        CHECK_MESSAGE(t.code == 0 && shown.rgb && colours >= 128 && colours <= 256, "%d: %d colours", t.code, colours);
        for (int i = 0; shown.rgb && file.rgb && i < SIDE * SIDE * 3; i++) {
            const int off = abs(shown.rgb[i] - file.rgb[i]);
            sum += off;
            if (off > worst) worst = off;
        }
        sum /= SIDE * SIDE * 3;
        CHECK_MESSAGE(sum <= 16 && worst <= 96, "off by %.2f on average, %d at most", sum, worst);
        free(shown.rgb);
    }
    forget(&t);
    free(file.rgb);
}

static void test_plain_terminals(void) {
    const kind no_colour = {plain.answers, 80, 24, {"NO_COLOR=1", NULL}, false},
               few_colours = {plain.answers, 80, 24, {"COLORTERM=", NULL}, false},
               dumb = {plain.answers, 80, 24, {"TERM=dumb", NULL}, false},
               narrow = {plain.answers, 12, 24, {NULL}, false};
    terminal t = run(&no_colour, ARGS(QUICK, "-p", "a", "--preview", "-o", "n.png"));
    CHECK_MESSAGE(t.code == 0 && !strstr(t.said, "8;2;") && !strstr(t.said, "8;5;") && strstr(t.said, "\0337") &&
                      strpbrk(strstr(t.said, "\0337") + 2, ".:-=+*#%@"),
                  "colours in spite of NO_COLOR: %s", t.said);
    forget(&t);
    t = run(&few_colours, ARGS(QUICK, "-p", "a", "--preview", "-o", "n.png"));
    CHECK(t.code == 0 && !strstr(t.said, "8;2;") && strstr(t.said, "\033[38;5;"));
    forget(&t);
    t = run(&narrow, ARGS(QUICK, "-p", "a", "--preview", "blocks", "-o", "n.png"));
    CHECK(t.code == 0 && strstr(t.said, "\xe2\x96\x80"));
    for (char *line = strtok(strstr(t.said, "\0337"), "\n"); line; line = strtok(NULL, "\n")) {
        int cells = 0;
        for (const char *p = line; (p = strstr(p, "\xe2\x96\x80")) != NULL; p++) cells++;
        CHECK_MESSAGE(cells < 12, "%d cells on 12 columns", cells);
    }
    forget(&t);
    t = run(&dumb, ARGS(QUICK, "-p", "a", "-o", "n.png"));
    CHECK_MESSAGE(t.code == 0 && !strchr(t.said, '\033'), "%s", t.said);
    forget(&t);
    t = run(&silent, ARGS(QUICK, "-p", "a", "--preview", "-o", "n.png")); /* a terminal that never answers */
    CHECK_MESSAGE(t.code == 0 && strstr(t.said, "\xe2\x96\x80"), "%d: %s", t.code, t.said);
    forget(&t);
}

/* A locale in Latin-1, made for the test: no half blocks are written, and typed letters become UTF-8. */
static void test_latin1(void) {
    char command[1000], path[400];
    kind latin = {plain.answers, 80, 24, {path, "LC_ALL=xx_XX.ISO-8859-1", NULL}, false};
    terminal t;
    snprintf(path, sizeof path, "LOCPATH=%s", in_work("locale"));
    snprintf(command, sizeof command,
             "mkdir -p %s/locale && localedef -c -i en_US -f ISO-8859-1 %s/locale/xx_XX.ISO-8859-1 "
             ">/dev/null 2>&1; test -s %s/locale/xx_XX.ISO-8859-1/LC_CTYPE",
             work, work, work);
    if (system(command) != 0) {
        printf("skipped: no locale in Latin-1 can be made here (localedef)\n");
        return;
    }
    t = begin(&latin, ARGS(QUICK, "--preview"));
    wait_for(&t, "dit> ");
    type(&t, "gr\xfcn\n");
    wait_for(&t, "dit-0001.png  seed ");
    CHECK_MESSAGE(end_by(&t, "\004") == 0 && !strstr(t.said, "\xe2\x96\x80") && strstr(t.said, "\033[48;2;"), "%d: %s",
                  t.code, t.said);
    snprintf(command, sizeof command, "grep -q 'gr\xc3\xbcn' %s", in_work("dit-0001.png"));
    CHECK_MESSAGE(system(command) == 0, "the prompt is not in UTF-8: %s", t.said);
    remove(in_work("dit-0001.png"));
    forget(&t);
}

/* ---- Prompts that are typed ---- */

static void test_interactive(void) {
    size_t before;
    terminal t = run(&plain, ARGS(QUICK, "-p", "a red fox", "-s", "7", "-o", "alone.png"));
    CHECK(t.code == 0);
    forget(&t);
    t = run(&plain, ARGS(QUICK, "-p", "in snow", "-s", "7", "-i", "alone.png", "-o", "after.png"));
    CHECK(t.code == 0);
    forget(&t);
    t = begin(&kitty, ARGS(QUICK));
    CHECK(wait_for(&t, "!help tells more") && wait_for(&t, "dit> "));
    type(&t, "!seed 7\n");
    wait_for(&t, "dit> ");
    type(&t, "a red fox\n");
    CHECK(wait_for(&t, "\033_Ga=T") && wait_for(&t, "$1  dit-0001.png  seed 7  ") && wait_for(&t, "dit> "));
    CHECK(same_files(in_work("alone.png"), in_work("dit-0001.png")));
    type(&t, "!last\n");
    CHECK(wait_for(&t, "$2  dit-0002.png  seed 7  ") && same_files(in_work("alone.png"), in_work("dit-0002.png")));
    type(&t, "$1 in snow\n");
    CHECK(wait_for(&t, "$3  dit-0003.png  seed 7  "));
    type(&t, "$9 in snow\n");
    CHECK(wait_for(&t, "dit: $9: no picture has that number"));
    type(&t, "!size 64x32\n!steps 3\n!strengh 0.5\n");
    CHECK(wait_for(&t, "'strengh' is no option of a picture"));
    type(&t, "!settings\n");
    CHECK(wait_for(&t, "!steps 3") && wait_for(&t, "!width 64"));
    type(&t, "\033[A\033[A\033[A\033[A\033[A\033[A\n"); /* six lines back: $1 in snow */
    CHECK(wait_for(&t, "$4  dit-0004.png  seed 7  "));
    type(&t, "!seed\nwide\n");
    CHECK(wait_for(&t, "$5  dit-0005.png  seed ") && wait_for(&t, "dit> "));
    type(&t, "never made\003"); /* the line is dropped */
    CHECK(wait_for(&t, "^C") && wait_for(&t, "dit> "));
    type(&t, "!steps 900\nslow\n");
    CHECK(wait_for(&t, "step "));
    type(&t, "\003"); /* the picture is dropped */
    CHECK(wait_for(&t, "interrupted") && wait_for(&t, "dit> "));
    type(&t, "!steps 2\n!model nothing.gguf\n");
    CHECK(wait_for(&t, "--model nothing.gguf: No such file"));
    type(&t, "!model\n!help\n");
    CHECK(wait_for(&t, "Ctrl-D quits"));
    type(&t, "!steps 60\nagain\n");
    CHECK(wait_for(&t, "step "));
    before = t.seen;
    type(&t, "!settings\n"); /* while the picture is made: the keys wait, unseen */
    CHECK(wait_for(&t, "$6  dit-0006.png") && !memmem(t.said + before, t.seen - before, "!set", 4));
    CHECK(wait_for(&t, "  !steps 60"));
    type(&t, "!steps 61\n!last\n");
    CHECK(wait_for(&t, "step "));
    CHECK_MESSAGE(end_by(&t, "\004") == 0 && strstr(t.said + t.seen, "$7  dit-0007.png"), "%d: %s", t.code,
                  t.said + t.seen);
    remove(in_work("dit-0007.png"));
    CHECK(!strstr(t.said, "never made  "));
    forget(&t);
    {
        rgb_picture a = read_file_picture(in_work("after.png")), b = read_file_picture(in_work("dit-0003.png"));
        CHECK_MESSAGE(same_picture(&a, &b), "$1 begins with another picture than --init-img");
        free(a.rgb), free(b.rgb);
        a = read_file_picture(in_work("dit-0005.png"));
        CHECK(a.width == 64 && a.height == 32);
        free(a.rgb);
    }
}

/* Twelve columns; then !quit, and a history that the next run has. */
static void test_narrow(void) {
    const kind narrow = {plain.answers, 12, 10, {NULL}, false};
    terminal t = begin(&narrow, ARGS(QUICK, "-q"));
    CHECK(wait_for(&t, "dit> "));
    type(&t, "a prompt that is longer than three lines of this terminal\n");
    CHECK(wait_for(&t, "dit> "));
    type(&t, "!quit\n");
    CHECK_MESSAGE(end(&t) == 0, "%d: %s", t.code, t.said);
    CHECK(access(in_work("dit-0007.png"), F_OK) == 0);
    forget(&t);
    t = begin(&plain, ARGS(QUICK));
    CHECK(wait_for(&t, "dit> "));
    type(&t, "\033[A\033[A\n"); /* the line before !quit */
    if (!CHECK(wait_for(&t, "$1  dit-0008.png"))) type(&t, "\003");
    wait_for(&t, "dit> ");
    CHECK(end_by(&t, "\004") == 0);
    CHECK(strstr(t.said, "longer than three lines"));
    forget(&t);
}

/* ---- Output to a pipe ---- */

static void test_pipes(void) {
    const kind piped = {plain.answers, 80, 24, {NULL}, true};
    const char *second, *steps;
    terminal t = run(&piped, ARGS(QUICK, "-p", "a", "-b", "2", "-o", "p.png", "--json"));
    CHECK_MESSAGE(t.code == 0 && strstr(t.printed, "{\"event\":\"progress\",\"picture\":1,\"pictures\":2,") &&
                      strstr(t.printed, "{\"event\":\"picture\",\"path\":\"p_2.png\",\"seed\":43,\"width\":32,") &&
                      strstr(t.printed, "\"seconds\":{\"ready\":") && !strchr(t.printed, '\033'),
                  "%d: %s", t.code, t.printed);
    second = strstr(t.printed, "p_2.png"); /* its steps take milliseconds, and are timed as such */
    second = second ? strstr(second, "\"seconds\"") : NULL;
    steps = second ? strstr(second, "\"steps\":") : NULL;
    CHECK_MESSAGE(steps && strtod(steps + strlen("\"steps\":"), NULL) > 1e-4, "%s", second);
    forget(&t);
    t = run(&piped, ARGS(QUICK, "-p", "a", "-W", "33", "--json"));
    CHECK_MESSAGE(t.code == 2 &&
                      strncmp(t.printed, "{\"event\":\"error\",\"code\":2,\"message\":\"--width '33': ", 50) == 0 &&
                      strstr(t.said, "dit: --width '33'"),
                  "%d: %s", t.code, t.printed);
    forget(&t);
}

static int shell(const char *format, ...) {
    char command[2000], whole[4000];
    va_list args;
    va_start(args, format);
    vsnprintf(command, sizeof command, format, args);
    va_end(args);
    snprintf(whole, sizeof whole,
             "cd %s && export XDG_CACHE_HOME=cache DIT=\"%s -m %s --steps 2 -W 32 -H 32\" && { %s\n} 2>said", work,
             program, model, command);
    int status = system(whole);
    return WEXITSTATUS(status);
}

static bool holds(const char *name, const char *text) {
    size_t size;
    unsigned char *bytes = load(in_work(name), &size);
    const bool found = memmem(bytes, size, text, strlen(text)) != NULL;
    if (!found && size < 5000) fprintf(stderr, "    not '%s' but: %s\n", text, bytes);
    free(bytes);
    return found;
}

/* Each setting does what it says, or is refused and changes nothing; so is what the program is called with. */
static void test_settings(void) {
    static const char *const wrong[][2] = {{"!steps 0", "--steps '0': must be"},
                                           {"!size 65x64", "--width '65': must be"},
                                           {"!height 8", "--height '8': must be"},
                                           {"!seed abc", "--seed 'abc'"},
                                           {"!cache bogus", "bogus"},
                                           {"!sampler eular", "is euler"},
                                           {"!type q9", "q9"},
                                           {"!frames 5", "this model makes pictures"},
                                           {"!model nope", "--model nope: No such file"},
                                           {"!model junk.txt", "junk.txt: too short for a model file"},
                                           {"!vae nope", "--vae nope: No such file"},
                                           {"!lora nope:0.5", "nope"},
                                           {"!init_img nope.png", "--init-img nope.png: No such file"},
                                           {"!output nowhere/a.png", "--output nowhere/a.png: its folder"},
                                           {"!output a.txt", "use a.png"},
                                           {"!output -", "name one"},
                                           {"!prompt a fox", "a line of its own"},
                                           {"!preview kitty", "'preview' is no option of a picture"}};
    terminal t = run(&plain, ARGS(QUICK, "-W", "33"));
    CHECK(shell("printf junk >junk.txt") == 0);
    CHECK_MESSAGE(t.code == 2 && strstr(t.said, "--width '33'") && !strstr(t.said, "dit> "), "%d: %s", t.code, t.said);
    forget(&t);
    t = begin(&plain, ARGS(QUICK, "-o", "fromcli.png"));
    CHECK(wait_for(&t, "dit> "));
    type(&t, "a fox\n!output named.png\na fox\n!last\n!output\na fox\n");
    CHECK(wait_for(&t, "$1  fromcli.png  ") && wait_for(&t, "$2  named.png  ") && wait_for(&t, "$3  named_2.png  ") &&
          wait_for(&t, "$4  fromcli_2.png  "));
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        char line[100];
        snprintf(line, sizeof line, "%s\n", wrong[i][0]);
        type(&t, line);
        CHECK_MESSAGE(wait_for(&t, "\ndit: ") && wait_for(&t, wrong[i][1]), "%s", wrong[i][0]);
    }
    type(&t, "!strength 0.6\n$1 in snow\n"); /* the picture that it is about is named later */
    CHECK(wait_for(&t, "$5  fromcli_3.png  "));
    CHECK_MESSAGE(end_by(&t, "\004") == 0, "%d: %s", t.code, t.said);
    forget(&t);
}

static void test_batches(void) {
    rgb_picture grid, one;
    CHECK(shell("printf 'a fox\\n\\na hare\\r\\n' | $DIT --batch - -s 5 -o batch.png --grid grid.png >told") == 0);
    CHECK(holds("told", "batch.png  seed 5  ") && holds("told", "batch_2.png  seed 5  ") &&
          holds("told", "grid.png  2 pictures\n"));
    CHECK(shell("$DIT -p 'a hare' -s 5 -o hare.png >told") == 0 &&
          same_files(in_work("hare.png"), in_work("batch_2.png")));
    grid = read_file_picture(in_work("grid.png"));
    one = read_file_picture(in_work("hare.png"));
    CHECK_MESSAGE(grid.width == 64 && grid.height == 32 && one.rgb, "%dx%d", grid.width, grid.height);
    for (int y = 0; grid.rgb && one.rgb && y < 32; y++)
        CHECK(memcmp(grid.rgb + (y * 64 + 32) * 3, one.rgb + y * 32 * 3, 32 * 3) == 0);
    free(grid.rgb), free(one.rgb);
    CHECK(shell("$DIT --repeat-from batch_2.png -o repeated.png -q") == 0 &&
          same_files(in_work("repeated.png"), in_work("batch_2.png")));
    CHECK(shell("printf 'a fox\\na hare\\na fox\\n' >lines.txt; $DIT --batch lines.txt -s 5 --offload-to-cpu --steps 2 "
                "--verbose -o ahead.png") == 0);
    CHECK(holds("said", "the prompt was encoded while the picture before was made"));
    CHECK(shell("$DIT -p 'a hare' -s 5 --offload-to-cpu --steps 2 -o hare.png") == 0 &&
          same_files(in_work("hare.png"), in_work("ahead_2.png")) &&
          same_files(in_work("ahead.png"), in_work("ahead_3.png")));
    if (shell("printf '{}\\n' | $DIT --batch - 2>&1 | grep -q jansson") == 0) {
        printf("skipped: lines of JSON: build/dit has no jansson\n");
    } else {
        CHECK(
            shell(
                "printf '%%s\\n' '{\"prompt\":\"a fox\",\"seed\":5,\"id\":[\"x\",1]}' '{\"prompt\":\"b\",\"width\":33}' 'c' "
                "'{\"prompt\":1,}' '{\"serve\":\"1\"}' '{\"prompt\":\"d\",\"output\":\"own.png\",\"cfg_scale\":1.5,\"plain_prompt\":true}' "
                "| $DIT --batch - --json -o lines.png >told") == 2);
        CHECK(holds("told", "{\"event\":\"picture\",\"line\":1,\"id\":[\"x\",1],\"path\":\"lines.png\",\"seed\":5,"));
        CHECK(holds("told", "{\"event\":\"error\",\"line\":2,\"code\":2,\"message\":\"--width '33'"));
        CHECK(holds("told", "{\"event\":\"picture\",\"line\":3,\"path\":\"lines_2.png\""));
        CHECK(holds(
            "told",
            "{\"event\":\"error\",\"line\":4,\"code\":2,\"message\":\"--batch, line 4: this is no object of JSON"));
        CHECK(holds("told", "line 5: 'serve' is no option of a picture"));
        CHECK(holds("told", "\"path\":\"own.png\"") && holds("own.png", "CFG scale: 1.5"));
        CHECK(same_files(in_work("lines.png"), in_work("batch.png")));
        CHECK(holds("said", "dit: --batch, line 2: --width '33'"));
        CHECK(shell("printf '%%s\\n' '{\"prompt\":\"x\",\"num_images_per_prompt\":2}' | $DIT --batch - -o x.png") ==
                  2 &&
              holds("said", "'num_images_per_prompt' is no option of a picture: --batch-count is the number"));
        CHECK(shell("printf '%%s\\n' '{\"prompt\":\"a fox\",\"output\":\"same.png\",\"seed\":5}' "
                    "'{\"prompt\":\"b\",\"output\":\"./same.png\"}' '{\"prompt\":\"in snow\",\"init_img\":\"same.png\","
                    "\"output\":\"same_2.png\"}' '{\"prompt\":\"b\",\"output\":\"same.png\",\"steps\":0}' 'c' 'd' "
                    "| $DIT --batch - -o same_1.png >told") == 2);
        CHECK(same_files(in_work("same.png"), in_work("batch.png")) && holds("told", "same_2.png  seed 42"));
        CHECK(holds(
            "said",
            "dit: --batch, line 2: --output ./same.png: it is the same file as --output of line 1, which would be lost"));
        CHECK(holds("told", "same_1.png  seed 42") && holds("told", "same_1_2.png  seed 42"));
        CHECK(shell("printf '%%s\n' '{\"prompt\":\"a fox\",\"vae_tile_size\":16,\"output\":\"tiles.png\"}' 'a fox' "
                    "| $DIT --batch - -s 5 -o whole.png -q") == 0);
        CHECK(holds("tiles.png", "VAE tile size: 16") && !same_files(in_work("tiles.png"), in_work("batch.png")) &&
              same_files(in_work("whole.png"), in_work("batch.png"))); /* a line's tiles are of no other line */
        CHECK(shell("printf '%%s\n' '' '{\"prompt\":\"a \\\" 1234567890123456789012\",\"seed\":18446744073709551615}' "
                    "'{\"prompt\":\"b\",\"seed\":18446744073709551616}' '{\"seed\":1e999}' "
                    "| $DIT --batch - -o large.png >told") == 2);
        CHECK(holds("told", "large.png  seed 18446744073709551615  ") &&
              holds("large.png", "a \" 1234567890123456789012"));
        CHECK(holds("said", "dit: --batch, line 3: --seed '18446744073709551616'"));
        CHECK(holds("said", "dit: --batch, line 4: this is no object of JSON"));
        CHECK(
            shell(
                "L=%s/../lora_pixart_sigma/lora; printf '\\357\\273\\277{\"prompt\":\"x\",\"lora\":\"'$L':5\",\"output\":"
                "\"five.png\"}\n{\"prompt\":\"x\",\"lora\":[\"'$L':2\",\"'$L':3\"],\"output\":\"two.png\"}\n"
                "{\"prompt\":\"x\",\"output\":\"one.png\"}\n{\"prompt\":\"x\",\"lora\":[]}\n{\"lora\":[7]}' "
                "| $DIT --lora $L --batch - -q",
                model) == 2); /* a line's LoRAs are in place of those of the command line */
        CHECK(holds("five.png", "LoRA: \"lora:5\"") && holds("two.png", "LoRA: \"lora:2; lora:3\"") &&
              holds("one.png", "LoRA: \"lora:1\""));
        CHECK(holds("said", "line 4: \"lora\" must be") && holds("said", "line 5: \"lora\" must be"));
    }
    CHECK(shell("printf 'a fox\\na hare\\n' | $DIT --batch - -q --latent-out lt.st -o latent.png; code=$?; "
                "$DIT -p 'a fox' -q --latent-out lt2.st -o latent2.png && cmp lt.st lt2.st && exit $code") == 2);
    CHECK(shell("printf 'a fox\\na hare\\n' | $DIT --batch - -q --encode-prompt texts && exit 1; "
                "$DIT -p 'a fox' --encode-prompt texts2 -q && cmp texts texts2") == 0);
    CHECK(
        shell("rm texts; printf 'a fox\\n\\na hare\\n' | $DIT --batch - --encode-prompt texts") == 2 &&
        holds("said", "--encode-prompt texts: it is the same file as --encode-prompt of line 1, which would be lost"));
    CHECK(shell("printf 'a fox\\0 and more\nx\n' | $DIT --batch - -W 33") == 2 &&
          holds("said", "dit: --batch, line 1: it has a byte of zero") &&
          holds("said", "dit: --batch, line 2: --width '33'"));
    CHECK(shell("printf '\n \t\n\r\n' | $DIT --batch -") == 2 && holds("said", "it has no line"));
    for (size_t i = 0; i < 2; i++) { /* while the pipe is open, and gives nothing */
        CHECK(shell("rm -f lines told; mkfifo lines; exec 3<>lines; echo fox >&3; $DIT --batch - --json <lines >told & "
                    "until grep -qs '\"picture\",' told; do sleep 0.02; done; kill -%s $!; "
                    "for i in $(seq 500); do grep -q interrupted said && break; sleep 0.02; done; "
                    "grep -q interrupted said || kill -KILL $!; wait $!",
                    i ? "TERM" : "INT") == (i ? 143 : 130));
        CHECK(holds("said", "dit: interrupted\n") && holds("told", "\"message\":\"interrupted\""));
    }
    CHECK(shell("$DIT --batch nothing") == 3 && holds("said", "dit: --batch nothing: No such file"));
    CHECK(shell("$DIT --batch /dev/null") == 3 && holds("said", "device"));
    CHECK(shell(": | $DIT --batch -") == 2 && holds("said", "it has no line"));
    CHECK(shell("$DIT -p x --batch -") == 2 && holds("said", "leave it out"));
}

/* Pictures of other kinds, and pipes. */
static void test_kinds(void) {
    static const char *const kinds[] = {"jpg", "webp"};
    CHECK(shell("$DIT -p 'grün ♥, a: \"b\"' -o - >piped.png && $DIT -p 'grün ♥, a: \"b\"' -o kind.png >told") == 0 &&
          same_files(in_work("piped.png"), in_work("kind.png")));
    CHECK(shell("$DIT --info kind.png >text") == 0 && holds("text", "grün ♥, a: \"b\"\nSteps: "));
    CHECK(shell("$DIT -p 'grün ♥, a: \"b\"' --no-metadata -o bare.png -q && ! grep -q Steps bare.png") == 0);
    CHECK(shell("$DIT --info bare.png") == 3 && holds("said", "bare.png: no text with parameters is in it"));
    for (size_t i = 0; i < 2; i++) {
        const int code = shell("$DIT -p 'grün ♥, a: \"b\"' -o kind.%s >told", kinds[i]);
        if (code == 2 && holds("said", "was built without")) {
            printf("skipped: .%s: build/dit has no library for it\n", kinds[i]);
            continue;
        }
        CHECK(code == 0);
        if (i == 1)
            CHECK(shell("$DIT -p x -W 16384 -o wide.webp") == 2 &&
                  holds("said", "has at most 16383 pixels, and 16384x32"));
        CHECK(
            shell(
                "$DIT --repeat-from kind.%s -o again.%s >told && cmp kind.%s again.%s && $DIT --repeat-from kind.%s -o "
                "from.png -q && cmp from.png kind.png",
                kinds[i], kinds[i], kinds[i], kinds[i], kinds[i]) == 0);
        CHECK(shell("$DIT -p 'grün ♥, a: \"b\"' --no-metadata -o bare.%s -q && ! grep -q Steps bare.%s && "
                    "! grep -q 'S.t.e.p.s' bare.%s && $DIT --info kind.%s >text && $DIT --info kind.png | cmp - text",
                    kinds[i], kinds[i], kinds[i], kinds[i]) == 0);
        CHECK(shell("$DIT --repeat-from bare.%s", kinds[i]) == 3 && holds("said", "no text with parameters is in it"));
        CHECK(
            shell(
                "$DIT -p x --quality 30 -o low.%s >told && $DIT --repeat-from low.%s -o low2.%s -q && cmp low.%s low2.%s",
                kinds[i], kinds[i], kinds[i], kinds[i], kinds[i]) == 0);
    }
    CHECK(shell("$DIT -p x --quality 101") == 2 && holds("said", "--quality '101'"));
    CHECK(shell("$DIT -p x --preview 2>&1 | grep -q 'no terminal; name a FILE.png'") == 0);
    CHECK(shell("$DIT -p x --preview-path path.png --preview-interval 1 -o kind.png >told && test -s path.png") == 0);
}

/* ---- Words: errors that a person meets first, as they are read ---- */

static void test_words(void) {
    static const struct {
        const char *command;
        int code;
        const char *said; /* all of it */
    } cases[] = {
        {"$DIT --promt x", 2, "dit: unknown option --promt; did you mean --prompt? (--help-all lists all)\n"},
        {"$DIT --zzz", 2, "dit: unknown option --zzz; --help-all lists all\n"},
        {"$DIT a red heart", 2, "dit: unexpected 'a'; put the whole prompt in quotes: --prompt \"a red heart\"\n"},
        {"$DIT", 2, "dit: what shall be on the picture? Say --prompt \"a red heart\"; --help lists the options\n"},
        {"$DIT -p", 2, "dit: -p needs a value; write --prompt=VALUE for one that begins as an option does\n"},
        {"$DIT -p x -m nothing.gguf", 3,
         "dit: --model nothing.gguf: No such file or directory; --list-models shows those that are found\n"},
        {"printf junk >junk.gguf; $DIT -p x -m junk.gguf", 3,
         "dit: junk.gguf: too short for a model file; check the path, or get the file again\n"},
        {"$DIT -p x -o nowhere/a.png", 4, "dit: --output nowhere/a.png: its folder does not exist; create it first\n"},
        {"$DIT -p x -W 100", 2,
         "dit: --width '100': must be a multiple of 16 from 16 to 16384 pixels; the nearest valid value is 96\n"},
        {"$DIT -p x --completion tcsh", 2, "dit: --completion 'tcsh': there are scripts for bash, zsh and fish\n"},
        {"VK_DRIVER_FILES=/nowhere.json VK_ICD_FILENAMES=/nowhere.json $DIT -p x", 5,
         "dit: no Vulkan driver is installed: install a driver for this machine's GPU, or a software one: apt-get install "
         "mesa-vulkan-drivers; dit doctor tells more\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        size_t size;
        unsigned char *said;
        const int code = shell("%s", cases[i].command);
        said = load(in_work("said"), &size);
        CHECK_MESSAGE(code == cases[i].code && strcmp((char *)said, cases[i].said) == 0, "%s: %d: %s", cases[i].command,
                      code, said);
        free(said);
    }
    CHECK(
        shell("$DIT -p x --device-memory 60K") == 6 &&
        holds("said", "are in use (--device-memory); try a smaller -W and -H, --weight-budget, or another --device\n"));
}

/* ---- Answers of the program about itself ---- */

static void test_answers(void) {
    CHECK(shell("$DIT doctor >told") == 0); /* other things than devices may be wrong on this machine */
    CHECK(holds("told", "device 0: ") && holds("told", " steps/s, decoding ") &&
          holds("told", " MB of device memory\n"));
    CHECK(holds("told", " GB, base\n") && holds("told", " s with kernels of rung base, ")); /* software drivers */
    CHECK(
        shell("VK_DRIVER_FILES=/nowhere.json $DIT doctor >told") == 5 &&
        holds("told", "wrong: VK_DRIVER_FILES names /nowhere.json, which is not there\n    unset VK_DRIVER_FILES\n") &&
        holds("told", "wrong: no Vulkan driver is installed") && holds("told", "things are wrong\n"));
    CHECK(shell("printf '{\"ICD\": {\"library_path\": \"a.so\"}' >broken.json; "
                "VK_DRIVER_FILES=broken.json VK_ICD_FILENAMES=broken.json $DIT doctor >told") == 5 &&
          holds("told", "wrong: broken.json is no manifest of a driver, ") && !holds("told", "install "));
    CHECK(shell("printf '{\"ICD\": {\"library_path\": \"./a.so\"}}' >gone.json; "
                "VK_DRIVER_FILES=gone.json VK_ICD_FILENAMES=gone.json $DIT doctor >told") == 5 &&
          holds("told", "wrong: gone.json names ././a.so, which is not there\n    unset VK_DRIVER_FILES\n"));
    shell(
        "mkdir -p data/vulkan/icd.d; cp broken.json data/vulkan/icd.d/mine.json; unset VK_DRIVER_FILES VK_ICD_FILENAMES; "
        "XDG_DATA_HOME=data $DIT doctor >told"); /* newer loaders take the other drivers */
    CHECK(holds("told", "wrong: data/vulkan/icd.d/mine.json is no manifest of a driver, ") &&
          holds("told", "mine.json, "));
    CHECK(
        shell(
            "DIT_MODELS=${DIT##*-m } && export DIT_MODELS=${DIT_MODELS%%/pipe_pixart*} && $DIT --list-models >told") ==
            0 &&
        holds("told", "pipe_pixart_sigma  pixart sigma  0.9 MB  ") &&
        holds("told", "emoji-q8_0.gguf  pixart sigma  18.3 MB  "));
    CHECK(shell("DIT_MODELS=${DIT##*-m } && export DIT_MODELS=${DIT_MODELS%%/pipe_pixart*} && "
                "$DIT --list-models --json >told && ! grep -qv '^{\"name\":\".*\"lacks\":\\[.*]}$' told") == 0 &&
          holds("told", "\"family\":\"pixart\",\"variant\":\"sigma\",\"bytes\":"));
    CHECK(shell("$DIT --list-devices --json >told") == 0 && holds("told", "{\"index\":0,\"name\":\"") &&
          holds("told", ",\"rung\":\"base\"}\n"));
    CHECK(
        shell(
            "$DIT --completion bash >c.bash && bash -c 'source ./c.bash; COMP_WORDS=(dit --prev); COMP_CWORD=1; _dit; "
            "echo \"${COMPREPLY[*]}\"; COMP_WORDS=(dit --preview k); COMP_CWORD=2; _dit; echo \"${COMPREPLY[*]}\"' >told") ==
            0 &&
        holds("told", "--preview --preview-path --preview-interval\nkitty\n"));
    CHECK(shell("$DIT --completion zsh >c.zsh && { ! command -v zsh >told || zsh -n c.zsh; }") == 0 &&
          holds("c.zsh", "{-p,--prompt}'[what to show]:value:' \\\n"));
    CHECK(shell("$DIT --completion fish >c.fish && { ! command -v fish >told || fish --no-execute c.fish; }") == 0 &&
          holds("c.fish", "complete -c dit -l prompt -s p -x -d 'what to show'\n"));
    CHECK(
        shell(
            "$DIT --man >dit.1 && { ! command -v groff >told || ! groff -man -Tutf8 -ww dit.1 2>&1 >page | grep .; }") ==
            0 &&
        holds("dit.1", ".TP\n.B \\-p, \\-\\-prompt TEXT\nwhat to show\n") && holds("dit.1", ".SH EXIT STATUS\n"));
}

/* ---- README's commands as they are printed; those of clips are in tests/tools/cli_inputs.c ---- */

static bool run_line(const char *line) {
    char whole[1400];
    if (strcmp(line, "build/dit") == 0) { /* on a terminal */
        terminal t = begin(&plain, (const char *const[]){"dit", NULL});
        wait_for(&t, "dit> ");
        type(&t, "banana\n");
        wait_for(&t, "$1  dit-");
        end_by(&t, "\004");
        forget(&t);
        return t.code == 0;
    }
    if (strstr(line, "--serve")) { /* ends when it is told to */
        snprintf(whole, sizeof whole, "timeout -s INT 5 %s; [ $? = 124 ]", line);
        return shell("%s", whole) == 0;
    }
    if (strstr(line, "--preview ")) {
        terminal t = begin(&kitty, ARGS("-c", line));
        end(&t);
        forget(&t);
        return t.code == 0;
    }
    return shell("%s", line) == 0;
}

static void test_page(void) {
    char line[1000], usual[512];
    FILE *page = fopen("README.md", "r");
    bool commands = false, section = false;
    int count = 0;
    patience = 900; /* the bundled model's own number of steps takes a processor a while */
    if (!CHECK(page)) return;
    CHECK(shell("mkdir -p build && ln -s %s build/dit", program) == 0);
    while (fgets(line, sizeof line, page)) {
        line[strcspn(line, "\n")] = 0;
        if (strncmp(line, "## ", 3) == 0) section = strcmp(line, "## The program") == 0;
        if (strncmp(line, "Models of clips", 15) == 0) break;
        if (strncmp(line, "```", 3) == 0) commands = strcmp(line, "```sh") == 0;
        if (!section || !commands || !strstr(line, "build/dit") || !strncmp(line, "```", 3)) continue;
        if (strstr(line, "--mask")) CHECK(shell("cp banana.png mask.png") == 0);
        snprintf(usual, sizeof usual, "%s", program);
        if (strncmp(line, "build/dit --prompt", 18) == 0 && strstr(line, "--preview "))
            snprintf(program, sizeof program, "/bin/sh");
        CHECK_MESSAGE(run_line(line), "%s", line);
        snprintf(program, sizeof program, "%s", usual);
        count++;
    }
    fclose(page);
    CHECK_MESSAGE(count >= 12, "%d commands", count);
    CHECK(access(in_work("telescope.png"), F_OK) == 0 && access(in_work("half.png"), F_OK) == 0 &&
          access(in_work("sheet.jpg"), F_OK) == 0 && access(in_work("snowflake.webp"), F_OK) == 0);
}

int main(int argc, char **argv) {
    char *here = realpath(".", NULL);
    const char *only = argc > 1 ? argv[1] : "";
    signal(SIGPIPE, SIG_IGN);
    snprintf(program, sizeof program, "%s/build/dit", here);
    snprintf(model, sizeof model, "%s/" MODEL, here);
    if (!make_work("terminal")) return 1;
    if (strstr("previews", only)) test_previews();
    if (strstr("plain", only)) test_plain_terminals();
    if (strstr("latin1", only)) test_latin1();
    if (strstr("interactive", only)) test_interactive();
    if (strstr("interactive narrow", only)) test_narrow();
    if (strstr("settings", only)) test_settings();
    if (strstr("pipes", only)) test_pipes();
    if (strstr("batches", only)) test_batches();
    if (strstr("kinds", only)) test_kinds();
    if (strstr("words", only)) test_words();
    if (strstr("answers", only)) test_answers();
    if (test_sweeps() && strstr("page", only)) test_page();
    remove_work();
    free(here);
    return TEST_END("terminal");
}
