/* A program driven as a process, build/dit unless main names another: with pipes or on a terminal, to its end or until
   it is interrupted; and the PNGs that it writes, read back. A test that includes this defines _GNU_SOURCE first. */
#ifndef COMMAND_LINE_H
#define COMMAND_LINE_H
#include "library.h"
#include "work_folder.h"
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
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
#define CLASSES "tests/fixtures/pipe_dit"
#define CLIPS "tests/fixtures/pipe_opensora11"
#define BUNDLED "models/emoji-q8_0.gguf"
enum { NARROW = 40 }; /* columns of the terminal */

static const char *program = "build/dit";

/* ---- Running ---- */

typedef struct outcome {
    int code; /* exit code, 128 + signal when killed, -1 when it had to be stopped */
    char out[65536], err[65536];
} outcome;

typedef enum streams { STREAMS_PIPES, STREAMS_TERMINAL, STREAMS_NO_OUTPUT, STREAMS_FULL_OUTPUT } streams;

static inline void child(char **args, int out, int err, streams kind) {
    setenv("XDG_CACHE_HOME", in_work("cache"), 1);
    setenv("TERM", "xterm", 1);
    dup2(err, 2);
    if (kind == STREAMS_NO_OUTPUT)
        close(1);
    else if (kind == STREAMS_FULL_OUTPUT)
        dup2(open("/dev/full", O_WRONLY), 1);
    else
        dup2(out, 1);
    execv(program, args);
    _exit(127);
}

static inline int open_terminal(int *slave) {
    int master = posix_openpt(O_RDWR | O_NOCTTY);
    if (master < 0 || grantpt(master) || unlockpt(master)) return -1;
    *slave = open(ptsname(master), O_RDWR | O_NOCTTY);
    ioctl(*slave, TIOCSWINSZ, &(struct winsize){24, NARROW, 0, 0});
    return master;
}

static inline bool drain(int fd, char *text, size_t size) {
    size_t used = strlen(text);
    ssize_t n = read(fd, text + used, size - 1 - used);
    if (n > 0) text[used + (size_t)n] = 0;
    return n > 0;
}

/* Interrupts the child with this signal as soon as this file exists; 0: never. */
typedef struct interruption {
    int number;
    const char *when;
    bool half_written; /* not the file itself, but what the child writes beside it */
} interruption;

static inline outcome run_as(streams kind, interruption stop, char **args) {
    static outcome o;
    int out[2], err[2], status = 0;
    double begin = seconds();
    bool open_out = true, open_err = true;
    char when[512] = "";
    pid_t pid;
    memset(&o, 0, sizeof o);
    if (pipe(out) != 0) abort();
    if (kind != STREAMS_TERMINAL && pipe(err) != 0) abort();
    if (kind == STREAMS_TERMINAL) err[0] = open_terminal(&err[1]);
    pid = fork();
    if (pid == 0) close(out[0]), close(err[0]), child(args, out[1], err[1], kind);
    close(out[1]);
    close(err[1]);
    if (stop.number) snprintf(when, sizeof when, stop.half_written ? "%s.%ld.part" : "%s", stop.when, (long)pid);
    while (open_out || open_err) {
        struct pollfd fds[2] = {{open_out ? out[0] : -1, POLLIN, 0}, {open_err ? err[0] : -1, POLLIN, 0}};
        poll(fds, 2, stop.half_written ? 1 : 20);
        if (fds[0].revents) open_out = drain(out[0], o.out, sizeof o.out);
        if (fds[1].revents) open_err = drain(err[0], o.err, sizeof o.err);
        if (stop.number && exists(when)) kill(pid, stop.number), stop.number = 0;
        if (seconds() - begin > 120) {
            kill(pid, SIGKILL);
            fprintf(stderr, "    stopped after 120 s\n");
            begin = seconds();
        }
    }
    close(out[0]);
    close(err[0]);
    waitpid(pid, &status, 0);
    o.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return o;
}

#define NO_STOP ((interruption){0, NULL, false})
#define ARGS(...) ((char *[]){(char *)"dit", __VA_ARGS__, NULL})
#define RUN(...) run_as(STREAMS_PIPES, NO_STOP, (char **)ARGS(__VA_ARGS__))
/* a quick picture: the tiny model, two steps, 32 x 32 */
#define QUICK "-m", MODEL, "-p", "a red heart", "--steps", "2", "-W", "32", "-H", "32"
#define SMALL "-p", "banana", "--steps", "1", "-W", "64", "-H", "64"
#define QUICK_CLIP "-m", CLIPS, "-p", "a fox", "-q", "--steps", "2", "-W", "48", "-H", "32", "--video-frames", "4"

static inline int count_lines(const char *text) {
    int lines = 0;
    for (; *text; text++) lines += *text == '\n';
    return lines;
}

static inline bool one_line_saying(const outcome *o, int code, const char *word) {
    bool good = o->code == code && count_lines(o->err) == 1 && strncmp(o->err, "dit: ", 5) == 0 && strstr(o->err, word);
    if (!good) fprintf(stderr, "    exit code %d, wanted %d and '%s'; it said: %s\n", o->code, code, word, o->err);
    return good;
}

/* Whether a run says what is wrong in one line; prints it where it does not. */
static inline void check_refusal(outcome o, int code, const char *said) {
    CHECK_MESSAGE(one_line_saying(&o, code, said), "exit code %d, \"%s\" should say \"%s\"", o.code, o.err, said);
}

/* ---- Pictures ---- */

typedef struct png_file {
    uint32_t width, height;
    char kind[5];       /* of the text chunk */
    char text[4096];    /* its value */
    unsigned char *rgb; /* freed with free */
    bool sound;         /* signature, order and checksums are right */
} png_file;

static inline uint32_t be32(const unsigned char *p) {
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static inline uint32_t crc(const unsigned char *data, size_t size) {
    uint32_t sum = 0xffffffffu;
    for (size_t i = 0; i < size; i++) {
        sum ^= data[i];
        for (int bit = 0; bit < 8; bit++) sum = sum & 1 ? 0xedb88320u ^ sum >> 1 : sum >> 1;
    }
    return ~sum;
}

static inline void read_text_chunk(png_file *png, const unsigned char *type, const unsigned char *data, uint32_t size) {
    size_t skip = strlen("parameters") + 1 + (memcmp(type, "iTXt", 4) == 0 ? 4 : 0);
    if (size < skip || memcmp(data, "parameters", 11) != 0 || size - skip >= sizeof png->text) return;
    memcpy(png->kind, type, 4);
    memcpy(png->text, data + skip, size - skip);
}

static inline png_file read_png(const char *path) {
    png_file png;
    size_t size = 0, at = 8;
    unsigned char *file = load(path, &size);
    int w = 0, h = 0, channels = 0;
    bool ended = false;
    memset(&png, 0, sizeof png);
    if (!file || size < 45 || memcmp(file, "\211PNG\r\n\032\n", 8) != 0 || memcmp(file + 12, "IHDR", 4) != 0)
        return free(file), png;
    png.width = be32(file + 16);
    png.height = be32(file + 20);
    png.sound = true;
    while (!ended && at + 12 <= size) {
        uint32_t length = be32(file + at);
        if (length > size - at - 12) break;
        if (crc(file + at + 4, length + 4) != be32(file + at + 8 + length)) png.sound = false;
        if (memcmp(file + at + 5, "EXt", 3) == 0 || memcmp(file + at + 5, "TXt", 3) == 0) {
            read_text_chunk(&png, file + at + 4, file + at + 8, length);
        }
        ended = memcmp(file + at + 4, "IEND", 4) == 0;
        at += 12 + length;
    }
    if (!ended || at != size) png.sound = false;
    png.rgb = stbi_load_from_memory(file, (int)size, &w, &h, &channels, 3);
    if (!png.rgb || channels != 3 || w != (int)png.width || h != (int)png.height) png.sound = false;
    free(file);
    return png;
}

/* 1: both PNGs are sound and have the same pixels; -1: they have others; 0: one is not sound. */
static inline int compare_pixels(const char *a, const char *b) {
    png_file x = read_png(a), y = read_png(b);
    bool same = x.rgb && y.rgb && x.width == y.width && x.height == y.height &&
                memcmp(x.rgb, y.rgb, (size_t)x.width * x.height * 3) == 0;
    free(x.rgb);
    free(y.rgb);
    return !x.sound || !y.sound ? 0 : same ? 1 : -1;
}

static inline bool same_pixels(const char *a, const char *b) { return compare_pixels(a, b) > 0; }
static inline bool other_pixels(const char *a, const char *b) { return compare_pixels(a, b) < 0; }

/* Runs with these options, then again from the picture: the same bytes. again: what the picture does not tell. */
static inline void check_repeated(char **args, char **again, const char *told) {
    char made[320], repeated[320], *words[64] = {"dit", "-q", "-o", made};
    int n = 4, i;
    outcome o;
    png_file png;
    snprintf(made, sizeof made, "%s", in_work("made.png"));
    snprintf(repeated, sizeof repeated, "%s", in_work("repeated.png"));
    remove(repeated);
    for (i = 0; args[i]; i++) words[n++] = args[i];
    o = run_as(STREAMS_PIPES, NO_STOP, words);
    CHECK_MESSAGE(o.code == 0, "%d %s", o.code, o.err);
    png = read_png(made);
    CHECK_MESSAGE(strstr(png.text, told), "%s is not in: %s", told, png.text);
    free(png.rgb);
    words[3] = repeated;
    words[4] = "--repeat-from";
    words[5] = made;
    for (n = 6, i = 0; again[i]; i++) words[n++] = again[i];
    words[n] = NULL;
    o = run_as(STREAMS_PIPES, NO_STOP, words);
    CHECK_MESSAGE(o.code == 0 && !*o.err, "%d %s", o.code, o.err);
    CHECK_MESSAGE(same_files(made, repeated), "the picture of %s is another one", png.text);
}

#define LIST(...) ((char *[]){__VA_ARGS__, NULL})
#endif
