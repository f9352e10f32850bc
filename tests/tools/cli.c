/* build/dit, driven as a process: every option, every refusal with its exit code and the value it names, the PNG read
   back, batches, interruption, latents and noise, damaged models, and streams that are closed or full.
   Usage: cli [PROGRAM]; PROGRAM is build/dit unless given.   test-runs: lavapipe */
#define _GNU_SOURCE
#include "library.h"
#include "examples/cli/options.h"
#include "test.h"
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
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

static bool sweep(void) { /* make test-all */
    const char *all = getenv("DIT_TEST_ALL");
    return all && *all == '1';
}

static char work[256]; /* a folder of our own */

/* ---- Running ---- */

typedef struct outcome {
    int code; /* exit code, 128 + signal when killed, -1 when it had to be stopped */
    char out[65536], err[65536];
} outcome;

typedef enum streams { STREAMS_PIPES, STREAMS_TERMINAL, STREAMS_NO_OUTPUT, STREAMS_FULL_OUTPUT } streams;

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static const char *in_work(const char *name) {
    static char paths[8][320];
    static int next;
    char *path = paths[next++ % 8];
    snprintf(path, sizeof paths[0], "%s/%s", work, name);
    return path;
}

static bool exists(const char *path) { return access(path, F_OK) == 0; }

static void child(char **args, int out, int err, streams kind) {
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

static int open_terminal(int *slave) {
    int master = posix_openpt(O_RDWR | O_NOCTTY);
    if (master < 0 || grantpt(master) || unlockpt(master)) return -1;
    *slave = open(ptsname(master), O_RDWR | O_NOCTTY);
    ioctl(*slave, TIOCSWINSZ, &(struct winsize){24, NARROW, 0, 0});
    return master;
}

static bool drain(int fd, char *text, size_t size) {
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

static outcome run_as(streams kind, interruption stop, char **args) {
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
#define HEART "ein grünes Herz ♥"
/* a quick picture: the tiny model, two steps, 32 x 32 */
#define QUICK "-m", MODEL, "-p", "a red heart", "--steps", "2", "-W", "32", "-H", "32"

static int count_lines(const char *text) {
    int lines = 0;
    for (; *text; text++) lines += *text == '\n';
    return lines;
}

static bool one_line_saying(const outcome *o, int code, const char *word) {
    bool good = o->code == code && count_lines(o->err) == 1 && strncmp(o->err, "dit: ", 5) == 0 && strstr(o->err, word);
    if (!good) fprintf(stderr, "    exit code %d, wanted %d and '%s'; it said: %s\n", o->code, code, word, o->err);
    return good;
}

/* ---- Files ---- */

static unsigned char *load(const char *path, size_t *size) {
    FILE *file = fopen(path, "rb");
    unsigned char *data = NULL;
    long length = 0;
    if (file && fseek(file, 0, SEEK_END) == 0 && (length = ftell(file)) >= 0 && (data = malloc((size_t)length + 1))) {
        rewind(file);
        *size = fread(data, 1, (size_t)length, file);
    }
    if (file) fclose(file);
    return data;
}

static void store(const char *path, const void *data, size_t size) {
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(data, 1, size, file) != size || fclose(file) != 0) abort();
}

typedef struct png_file {
    uint32_t width, height;
    char kind[5];       /* of the text chunk */
    char text[4096];    /* its value */
    unsigned char *rgb; /* freed with free */
    bool sound;         /* signature, order and checksums are right */
} png_file;

static uint32_t be32(const unsigned char *p) {
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static uint32_t crc(const unsigned char *data, size_t size) {
    uint32_t sum = 0xffffffffu;
    for (size_t i = 0; i < size; i++) {
        sum ^= data[i];
        for (int bit = 0; bit < 8; bit++) sum = sum & 1 ? 0xedb88320u ^ sum >> 1 : sum >> 1;
    }
    return ~sum;
}

static void read_text_chunk(png_file *png, const unsigned char *type, const unsigned char *data, uint32_t size) {
    size_t skip = strlen("parameters") + 1 + (memcmp(type, "iTXt", 4) == 0 ? 4 : 0);
    if (size < skip || memcmp(data, "parameters", 11) != 0 || size - skip >= sizeof png->text) return;
    memcpy(png->kind, type, 4);
    memcpy(png->text, data + skip, size - skip);
}

static png_file read_png(const char *path) {
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

static bool same_pixels(const char *a, const char *b) {
    png_file x = read_png(a), y = read_png(b);
    bool same = x.sound && y.sound && x.width == y.width && x.height == y.height &&
                memcmp(x.rgb, y.rgb, (size_t)x.width * x.height * 3) == 0;
    free(x.rgb);
    free(y.rgb);
    return same;
}

/* A safetensors file with one F32 tensor of rank 4. */
static void write_tensor(const char *path, const char *name, const uint32_t *shape, const float *values) {
    char header[256];
    size_t count = (size_t)shape[0] * shape[1] * shape[2] * shape[3], n;
    unsigned char *file;
    n = (size_t)snprintf(header, sizeof header,
                         "{\"__metadata__\":{\"format\":\"pt\"},\"%s\":{\"dtype\":\"F32\",\"shape\":[%u,%u,%u,%u],"
                         "\"data_offsets\":[0,%zu]}}",
                         name, shape[0], shape[1], shape[2], shape[3], count * 4);
    file = calloc(1, 8 + n + count * 4);
    if (!file) abort();
    file[0] = (unsigned char)n;
    file[1] = (unsigned char)(n >> 8);
    memcpy(file + 8, header, n);
    memcpy(file + 8 + n, values, count * 4);
    store(path, file, 8 + n + count * 4);
    free(file);
}

/* ---- Texts that are printed on demand ---- */

static void test_answers(void) {
    static const char *const words[] = {"--model",
                                        "-m,",
                                        "--prompt",
                                        "-p,",
                                        "--negative-prompt",
                                        "-n,",
                                        "-W,",
                                        "-H,",
                                        "--steps",
                                        "--cfg-scale",
                                        "--sampler",
                                        "--sampling-method",
                                        "--scheduler",
                                        "--seed",
                                        "-s,",
                                        "--batch-count",
                                        "-b,",
                                        "--frames",
                                        "--fps",
                                        "--init-video",
                                        "--output",
                                        "-o,",
                                        "--device",
                                        "--list-devices",
                                        "--class",
                                        "--lora",
                                        "--ref-image",
                                        "--preview",
                                        "--verbose",
                                        "--quiet",
                                        "--help",
                                        "--help-all",
                                        "--info",
                                        "--version",
                                        "130"};
    static const char *const rarer[] = {
        "--plain-prompt", "--rng",           "--noise", "--latent-out",        "--trace",
        "--tune",         "--clip-on-cpu",   "--type ", "--tensor-type-rules", "--info-level",
        "--video-frames", "--mask-strategy", "--loop ", "--encode-prompt",     "--conditioning"};
    outcome o = RUN("--help-all");
    size_t column = 0, widest = 0, i;
    CHECK(o.code == 0 && !*o.err);
    for (i = 0; i < sizeof rarer / sizeof rarer[0]; i++)
        CHECK_MESSAGE(strstr(o.out, rarer[i]), "%s is not in --help-all", rarer[i]);
    for (i = 0; o.out[i]; i++) {
        column = o.out[i] == '\n' ? 0 : column + 1;
        if (column > widest) widest = column;
    }
    o = RUN("--help");
    CHECK(o.code == 0 && !*o.err);
    CHECK_MESSAGE(count_lines(o.out) >= 20 && count_lines(o.out) <= 40, "%d lines", count_lines(o.out));
    for (i = 0; o.out[i]; i++) {
        column = o.out[i] == '\n' ? 0 : column + 1;
        if (column > widest) widest = column;
    }
    CHECK_MESSAGE(widest <= 80, "%zu columns", widest);
    for (i = 0; i < sizeof words / sizeof words[0]; i++)
        CHECK_MESSAGE(strstr(o.out, words[i]), "%s is not in --help", words[i]);
    o = RUN("-h");
    CHECK(o.code == 0 && strstr(o.out, "usage: dit"));
    o = RUN("--version");
    CHECK(o.code == 0 && strncmp(o.out, "dit.h ", 6) == 0 && count_lines(o.out) == 1);
    CHECK_MESSAGE(system("for tool in bench compare convert plan; do "
                         "test \"$(build/dit-$tool --version)\" = \"$(build/dit --version)\" || exit; done") == 0,
                  "a tool tells another version than dit");
    o = RUN("--sampler", "list");
    CHECK(o.code == 0 && strstr(o.out, "euler\n"));
    o = RUN("--type", "list");
    CHECK(o.code == 0 && strstr(o.out, "i8r+rot\n"));
    o = RUN("--rng", "list");
    CHECK(o.code == 0 && strstr(o.out, "cpu\n"));
    o = RUN("--list-devices");
    CHECK_MESSAGE(o.code == 0 && strncmp(o.out, "0: ", 3) == 0 && strstr(o.out, "Vulkan 1."), "%s%s", o.out, o.err);
}

/* An option that would have no effect is refused, or told where it may be meant for other models. */
static void test_without_effect(void) {
    char *out = strdup(in_work("rules.png"));
    outcome o = RUN("--info", BUNDLED, "--json");
    CHECK(one_line_saying(&o, 2, "--json: --info tells tables"));
    o = RUN(QUICK, "-o", out, "--tensor-type-rules", "nomatch=i8r,transformer.*=i8r");
    CHECK_MESSAGE(o.code == 0 && strstr(o.err, "dit: warning: --tensor-type-rules or --type has a rule for "
                                               "\"nomatch\", which decides about no weight"),
                  "%s", o.err);
    CHECK(!strstr(o.err, "\"transformer.*\""));
    o = RUN(QUICK, "-o", out, "--tensor-type-rules", "transformer.*=i8r", "--type", "i8r");
    CHECK_MESSAGE(o.code == 0 && strstr(o.err, "has a rule for \"transformer.*blocks.*\", which"), "%s", o.err);
    o = RUN(QUICK, "-o", out, "--type", "i8r", "--offload-to-cpu");
    CHECK_MESSAGE(o.code == 0 && !strstr(o.err, "has a rule"), "%s", o.err);
    free(out);
}

static void test_streams(void) {
    outcome o = run_as(STREAMS_NO_OUTPUT, NO_STOP, (char **)ARGS("--help"));
    CHECK(one_line_saying(&o, 4, "closed"));
    o = run_as(STREAMS_FULL_OUTPUT, NO_STOP, (char **)ARGS("--help"));
    CHECK(one_line_saying(&o, 4, "standard output"));
    o = run_as(STREAMS_NO_OUTPUT, NO_STOP, (char **)ARGS(QUICK, "--json", "-o", (char *)in_work("untold.png")));
    CHECK(one_line_saying(&o, 4, "closed"));
    CHECK(!exists(in_work("untold.png")));
    o = run_as(STREAMS_FULL_OUTPUT, NO_STOP, (char **)ARGS(QUICK, "--json", "-o", (char *)in_work("untold.png")));
    CHECK(one_line_saying(&o, 4, "cannot write to standard output: "));
    CHECK(exists(in_work("untold.png")));
    o = run_as(STREAMS_FULL_OUTPUT, NO_STOP, (char **)ARGS(QUICK, "-o", (char *)in_work("untold.png")));
    CHECK(o.code == 4 && strstr(o.err, "dit: cannot write to standard output: "));
    store(in_work("untold.txt"), "a\nb\n", 4);
    o = run_as(STREAMS_FULL_OUTPUT, NO_STOP,
               (char **)ARGS("-m", MODEL, "--steps", "1", "-W", "32", "-H", "32", "--json", "--batch",
                             (char *)in_work("untold.txt"), "-o", (char *)in_work("untold.png")));
    CHECK(one_line_saying(&o, 4, "standard output") && exists(in_work("untold_2.png")));
}

/* The lines of the other programs arrive, too, or the exit code says that they do not. */
static void test_full_programs(void) {
    static const char *const lines[][10] = {
        {"build/dit-bench", "gemm", "--m", "8", "--n", "32", "--k", "32", "--runs", "1"},
        {"build/dit-bench", "--help"},
        {"build/dit-plan", "-m", "flux", "-d", "4xT4"},
        {"build/dit-plan", "--list"},
        {"build/dit-convert", "--help"},
        {"build/dit-compare", "--help"},
        {"build/dit-compare", "-m", CLASSES, "--class", "3", "--steps", "1", "--list"}};
    const char *usual = program;
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        char *args[12] = {"dit"};
        outcome o;
        program = lines[i][0];
        for (int k = 1; k < 10; k++) args[k] = (char *)lines[i][k];
        o = run_as(STREAMS_FULL_OUTPUT, NO_STOP, args);
        CHECK_MESSAGE(o.code == 4 && strstr(o.err, "cannot write to standard output: "), "%s %s: %d: %s", program,
                      args[1], o.code, o.err);
    }
    program = usual;
}

/* ---- Refusals: before any work, one line, the nearest valid value ---- */

typedef struct refusal {
    const char *args[8]; /* the last is NULL */
    int code;
    const char *says;
} refusal;

static const refusal refusals[] = {
    {{"-W", "40"}, 2, "is 48"},
    {{"-W", "33"}, 2, "is 32"},
    {{"-W", "0"}, 2, "is 16"},
    {{"--width", "-16"}, 2, "is 16"},
    {{"-H", "100000"}, 2, "is 16384"},
    {{"--height=12.5"}, 2, "is 16"},
    {{"-H", "tall"}, 2, "is 64"},
    {{"-H", "99999999999999999999"}, 2, "is 16384"},
    {{"--steps", "0"}, 2, "is 1"},
    {{"--steps", "1001"}, 2, "is 1000"},
    {{"--steps", "12.7"}, 2, "is 13"},
    {{"--steps", "20x"}, 2, "is 20"},
    {{"--steps", "many"}, 2, "is 20"},
    {{"--steps="}, 2, "is 20"},
    {{"--steps", " 5"}, 2, "is 5"},
    {{"--steps", "0x10"}, 2, "is 16"},
    {{"-b", "0"}, 2, "is 1"},
    {{"--batch-count", "-3"}, 2, "is 1"},
    {{"-b", "10000"}, 2, "is 9999"},
    {{"-b", "nan"}, 2, "is 1"},
    {{"--cfg-scale", "0.5"}, 2, "is 1"},
    {{"--cfg-scale", "101"}, 2, "is 100"},
    {{"--cfg-scale", "inf"}, 2, "is 100"},
    {{"--cfg-scale", "nan"}, 2, "is 4.5"},
    {{"--cfg-scale", "4,5"}, 2, "is 4"},
    {{"--low-noise-cfg-scale", "0"}, 2, "is 1"},
    {{"--low-noise-cfg-scale", "3"}, 2, "this model has one transformer, whose guidance is --cfg-scale"},
    {{"--high-noise-cfg-scale", "3"}, 2, "--low-noise-cfg-scale that of the second"},
    {{"-s", "18446744073709551616"}, 2, "is 18446744073709551615"},
    {{"-s", "abc"}, 2, "is 42"},
    {{"-s", "-1.5"}, 2, "-1 or random"},
    {{"-s", "7.9"}, 2, "is 7"},
    {{"--sampler", "eular"}, 2, "is euler"},
    {{"--sampling-method", "dpm++2n"}, 2, "is dpm++2m"},
    {{"--sampler", "res_2s"}, 2, "does not have the sampler \"res_2s\"; the nearest is heun;"},
    {{"--sampler", "DPM++ 2S a"}, 2, "is dpm2-a;"},
    {{"--scheduler", "no such schedule"}, 2, "linspace, leading"},
    {{"--scheduler", "ays"}, 2, "is karras;"},
    {{"--rng", "gpu"}, 2, "is cpu"},
    {{"--weight-budget", "4X"}, 2, "800M or 4G"},
    {{"--weight-budget", "4K"}, 2, "at least"},
    {{"--promt", "x"}, 2, "--prompt"},
    {{"--cfg", "3"}, 2, "did you mean --cfg-scale?"},
    {{"--negative=x"}, 2, "did you mean --negative-prompt?"},
    {{"--guidance-scale", "3"}, 2, "--cfg-scale is the scale of guidance, --guidance what a distilled"},
    {{"--ref-image", "models/strip.png"}, 2, "--ref-image: this model (pixart sigma) takes no references; leave them"},
    {{"--keep-references"}, 2, "does not take; leave it out"},
    {{"--preview", "tae,x.png"},
     2,
     "--preview wants a tiny autoencoder, and the model has none: name its file with --taesd"},
    {{"-m", BUNDLED, "--preview", "proj,x.png"}, 2, "take tae or vae in place of proj"},
    {{"-x"}, 2, "--help"},
    {{"-t", "4"}, 2, "-t is no option of dit: the device computes"},
    {{"--threads", "4"}, 2, "leave it out"},
    {{"--hires"}, 2, "--hires is no option of dit: nothing is scaled up"},
    {{"--prompt-file", "x.txt"}, 2, "--batch FILE has a prompt a line"},
    {{"--stream-layers"}, 2, "--weight-budget 4G streams"},
    {{"--output-begin-idx=3"}, 2, "numbers begin with 1"},
    {{"--threads=4"}, 2, "--threads is no option of dit: the device computes"},
    {{"--batch_size", "2"}, 2, "--batch_size is no option of dit: --batch-count is the number of pictures"},
    {{"--listen-port", "1234"}, 2, "--serve HOST:PORT has both"},
    {{"--image", "a.png"}, 2, "--init-img begins with a picture, --ref-image"},
    {{"--size", "64x64"}, 2, "-W and -H are the width and the height"},
    {{"--lowvram"}, 2, "--weight-budget 4G take less device memory"},
    {{"--preview_intervall", "2"}, 2, "did you mean --preview-interval?"},
    {{"--color"}, 2, "unknown option --color; --help-all lists all"},
    {{"--generator", "2"}, 2, "unknown option --generator; --help-all lists all"},
    {{"--num-inference-steps", "0"}, 2, "--steps '0'"},
    {{"--true_cfg_scale", "0"}, 2, "--cfg-scale '0'"},
    {{"--sampler_name", "nonsense"}, 2, "--sampler 'nonsense'"},
    {{"--denoise", "0.5"}, 2, "--strength: there is no picture"},
    {{"--denoising-strength", "0.5"}, 2, "--strength: there is no picture"},
    {{"--mask-image", "models/strip.png"}, 2, "--mask: there is no picture"},
    {{"--init_image", "no such picture"}, 3, "--init-img no such picture"},
    {{"--text-encoder-2", "no such file"}, 3, "--clip-g no such file"},
    {{"--tae", "no such file"}, 3, "--taesd no such file"},
    {{"--embeddings-connectors", "no such file"}, 3, "--clip-g no such file"},
    {{"--audio-vae", "a.safetensors"}, 2, "clips of LTX-2 are written without their sound"},
    {{"--clip_vision", "no such file"}, 3, "--clip-vision no such file"},
    {{"--image-encoder", "no such file"}, 3, "--clip-vision no such file"},
    {{"--cache", "taylorseer"}, 2, "dit: --cache \"taylorseer\" is unknown"},
    {{"-q7"}, 2, "unknown option -q7"},
    {{"blue"}, 2, "quotes"},
    {{"--steps"}, 2, "needs a value"},
    {{"--output", "--steps", "3"}, 2, "needs a value"},
    {{"--quiet=yes"}, 2, "takes no value"},
    {{"-q", "-v"}, 2, "exclude"},
    {{"-p", "a\xff"}, 2, "byte 2 (0xff)"},
    {{"-p", "\xc0\xaf"}, 2, "UTF-8"},
    {{"-p", "\xed\xa0\x80"}, 2, "UTF-8"},
    {{"-n", "\xe2\x82"}, 2, "--negative-prompt"},
    {{"-o", "/no/such/folder/a.png"}, 4, "does not exist"},
    {{"-o", "/"}, 4, "folder"},
    {{"-o", ""}, 4, "empty"},
    {{"-o", "a.gif"}, 2, "a.png"},
    {{"-o", "a.TIF"}, 2, "a.png"},
    {{"-o", "-", "-b", "2"}, 2, "one picture"},
    {{"--info-level", "1"}, 2, "--info MODEL"},
    {{"--repeat-from", "no such picture"}, 3, "No such file"},
    {{"--repeat-from", "tests/tools/cli.c"}, 3, "this is no PNG"},
    {{"-o", "tests/tools/cli.c/a.png"}, 4, "does not exist"},
    {{"-o", "/proc/a.png"}, 4, "cannot be made"},
    {{"--latent-out", "/no/such/folder/a"}, 4, "does not exist"},
    {{"--preview", "/no/such/folder/a"}, 4, "does not exist"},
    {{"--preview", "same.png", "--output", "same.png"}, 2, "same file"},
    {{"--trace", "/no/such/folder/a.json"}, 4, "does not exist"},
    {{"--trace", "same.png", "--output", "same.png"}, 2, "same file"},
    {{"--type", "q8_0"}, 2, "dit-convert"},
    {{"--type", "i8r+"}, 2, "i8r+rot"},
    {{"--tensor-type-rules", "i8r"}, 2, "GLOB=NAME"},
    {{"--tensor-type-rules", "vae.*=i8r,=i8r"}, 2, "GLOB=NAME"},
    {{"--tensor-type-rules", "vae.*=i8r,"}, 2, "GLOB=NAME"},
    {{"--tensor-type-rules", "a=i8,b=i8r"}, 2, "'i8'"},
    {{"--tensor-type-rules",
      "a=i8r,b=i8r,c=i8r,d=i8r,e=i8r,f=i8r,g=i8r,h=i8r,i=i8r,j=i8r,k=i8r,l=i8r,m=i8r,n=i8r,o=i8r,p=i8r,q=i8r"},
     2,
     "more than"},
    {{"--class", "3"}, 2, "no classes"},
    {{"--class", "\xff"}, 2, "--class"},
    {{"--noise", "no such file"}, 3, "No such file"},
    {{"--noise", "tests/tools/cli.c"}, 3, "no safetensors file"},
    {{"-m", "no such model"}, 3, "No such file"},
    {{"-m", "tests/tools/cli.c"}, 3, "tests/tools/cli.c"},
    {{"-m", "tests"}, 3, "tests"},
    {{"--mask", "a.png"}, 2, "--init-img"},
    {{"--strength", "0.5"}, 2, "--init-img"},
    {{"-i", "a.png", "--strength", "2"}, 2, "value is 1"},
    {{"-i", "no such picture"}, 3, "--init-img no such picture: No such file or directory; check the path"},
    {{"-i", "tests/corpus/picture/png_bit", "--mask", "no such mask"}, 3, "--mask no such mask: No such file"},
    {{"-q", "--repeat-from", "tests/corpus/parameters/png", "-o", "tests/corpus/parameters/png"}, 2, "--repeat-from"},
    {{"-i", "tests/tools/cli.c"}, 3, "PNG or JPEG"},
    {{"--guidance-end", "0"}, 2, "is 0.001"},
    {{"--guidance-start", "0.8", "--guidance-end", "0.5"}, 2, "--guidance-start 0.8: must be less"},
    {{"--skip-layer-start", "0.8"}, 2, "--skip-layer-start 0.8: must be less"},
    {{"--guidance", "3"}, 2, "--guidance: this model is told none"},
    {{"--eta", "0.5"}, 2, "--eta 0.5: only"},
    {{"--flow-shift", "3"}, 2, "--flow-shift 3: only"},
    {{"--guidance-rescale", "nan"}, 2, "is 0.7"},
    {{"--apg-eta", "1.5"}, 2, "value is 1"},
    {{"--slg-scale", "2.8"}, 2, "--slg-scale: models of family pixart have no skip-layer"},
    {{"--skip-layers", "7,x"}, 2, "7,8,9"},
    {{"--skip-layers", "3"}, 2, "--skip-layers: it is about --slg-scale, which is not there"},
    {{"--skip-layer-end", "0.5"}, 2, "--skip-layer-end: it is about --slg-scale, which is not there"},
    {{"--clip-skip", "2"}, 2, "--clip-skip: this model uses no layers of a CLIP"},
    {{"--vae-tile-size", "big"}, 2, "is 512"},
    {{"--frames", "5"}, 2, "--frames 5: this model makes pictures; leave it out"},
    {{"--video-frames", "0"}, 2, "is 1"},
    {{"--num_frames=-3"}, 2, "--frames '-3': must be a whole number from 1 to 99999"},
    {{"--fps", "12"}, 2, "--fps 12: this model makes pictures"},
    {{"--fps", "0"}, 2, "is 0.001"},
    {{"--fps", "nan"}, 2, "is 24"},
    {{"--init-video", "tests"}, 2, "--init-img begins with one"},
    {{"--mask-strategy", "0"}, 2, "takes no frames"},
    {{"--loop", "2"}, 2, "--loop 2: no clip of this model"},
    {{"--loop", "0"}, 2, "is 1"},
    {{"--loop-edit", "1.5"}, 2, "value is 1"},
    {{"--end-img", "a.png"}, 2, "--end-img a.png: this model makes pictures; leave it out"},
    {{"-m", CLIPS, "--end-img", "a.png"}, 2, "--end-img a.png: a clip that ends with a picture begins with one"},
    {{"-m", CLIPS, "--init-img", "models/strip.png", "--end-image", "a.png"}, 3, "--end-img a.png: No such file"},
    {{"--conditioning", "a"}, 2, "leave out --prompt"},
    {{"--encode-prompt", "/no/such/folder/a"}, 4, "--encode-prompt /no/such/folder/a: its folder does not exist"},
    {{"-o", "a.bmp"}, 2, "a.png"},
    {{"-o", "a.b/c.mp4"}, 4, "does not exist"},
    {{"--steps", "1", "-o", "z.mp4"}, 2, "--output z.mp4: pictures are written as PNG, JPEG or WebP; use z.png"},
    {{"--steps", "1", "-o", "z.y4m"}, 2, "use z.png"},
    {{"--steps", "1", "-o", "z.apng"}, 2, "use z.png"},
    {{"--steps", "1", "-o", "z.txt"}, 2, "use z.png"},
    {{"--steps", "1", "-o", "z.gguf"}, 2, "use z.png"},
    {{"--steps", "1", "-o", "fox."}, 2, "use fox.png"},
    {{"--steps", "1", "--grid", "g.svg"}, 2, "--grid g.svg: pictures are written as PNG, JPEG or WebP; use g.png"},
    {{"--steps", "1", "--preview", "kity"}, 2, "--preview 'kity': there are terminal, kitty, "},
    {{"--steps", "1", "--preview", "proj,kity"}, 2, "--preview 'kity': there are"},
    {{"--steps", "1", "--preview", "p.mkv"}, 2, "only PNG is written; use p.png"},
    {{"--steps", "1", "--preview-path", "p.webp"}, 2, "only PNG is written; use p.png"},
    {{"-m", CLIPS, "--frames", "100000"}, 2, "is 99999"},
    {{"-m", CLIPS, "-o", "a.avi"}, 2, "ends in .y4m, .apng"},
    {{"-m", CLIPS, "-o", "no such folder/%04d.png"}, 4, "does not exist"},
    {{"-m", CLIPS, "-o", "%s.png"}, 2, "%04d"},
    {{"-m", CLIPS, "-o", "-", "-b", "2"}, 2, "one picture or clip"},
    {{"-m", CLIPS, "--grid", "/tmp/g.png", "--steps", "1"}, 2, "--grid /tmp/g.png: its sheet shows pictures"},
    {{"-m", CLIPS, "--strength", "0.5"}, 2, "--init-img"},
    {{"-m", CLIPS, "-i", "a.png", "--mask", "a.png"}, 2, "--mask a.png: clips are not repainted in part"},
    {{"-m", CLIPS, "--mask-strategy", "0"}, 2, "nothing to take frames from"},
    {{"--control-video", "tests"}, 2, "--control-video tests: this model makes pictures"},
    {{"-m", CLIPS, "--control-video", "tests"}, 2, "this model follows no clip"},
    {{"-m", CLIPS, "--init-video", "no such clip"}, 3, "--init-video no such clip: No such file"},
    {{"-m", CLIPS, "--init-video", "tests/tools"}, 3, "no PNG or JPEG is in this folder"},
    {{"-m", CLIPS, "--init-video", "tests/corpus/frames/ten_bits"}, 3, "420p10"},
    {{"-m", CLIPS, "-q", "--init-video", "tests/corpus/frames/cut"}, 3, "ends within frame 2"},
    {{"-m", CLIPS, "--noise", "tests/tools/cli.c"}, 3, "[B,C,frames,h,w]"},
    {{"--device", "99"}, 5, "99"},
    {{"--device", "5"}, 5, "digits are an index"}, /* although it is a part of "LLVM 15.0.6, 256 bits" */
    {{"--device", "no such device"}, 5, "is called 'no such device'; the devices are 0: "},
};

static void test_refusals(void) {
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        const refusal *r = &refusals[i];
        char *args[16] = {"dit", "-m", MODEL, "-p", "x", "-o", (char *)in_work("refused.png")};
        int n = 7;
        outcome o;
        for (int k = 0; r->args[k]; k++) args[n++] = (char *)r->args[k];
        o = run_as(STREAMS_PIPES, NO_STOP, args);
        CHECK_MESSAGE(one_line_saying(&o, r->code, r->says), "for %s %s", r->args[0], r->args[1] ? r->args[1] : "");
        CHECK_MESSAGE(!*o.out, "it printed %s", o.out);
        CHECK_MESSAGE(!strstr(o.err, "dit_") && !strstr(o.err, "guidance."), "a word of the API: %s", o.err);
    }
    CHECK(!exists(in_work("refused.png")));
    outcome o = RUN("-m", MODEL);
    CHECK(one_line_saying(&o, 2, "--prompt"));
}

/* A picture of another size is scaled, alone to about the model's number of pixels; parameters are told. */
static void test_start_picture(void) {
    char *first = strdup(in_work("first.png")),
         *second = strdup(in_work("second.png")); /* test_picture made the first */
    png_file png;
    outcome o = RUN("-m", MODEL, "-p", "x", "--steps", "4", "-i", first, "--mask", first, "--strength", "0.5",
                    "--guidance-end", "0.5", "--apg-eta", "0.2", "-o", second);
    CHECK_MESSAGE(o.code == 0 && strstr(o.err, "is 96x32 pixels, scaled to 112x32"), "%s", o.err);
    png = read_png(second);
    CHECK_MESSAGE(strstr(png.text, "Size: 112x32, Init image: first.png, Mask: first.png, Denoising strength: 0.5, "
                                   "Guidance end: 0.5, APG eta: 0.2, Model: ") &&
                      strstr(png.text, ", Init image hash: ") && strstr(png.text, ", Mask hash: "),
                  "%s", png.text);
    free(png.rgb);
    free(first);
    free(second);
}

/* ---- Pictures that are referred to, LoRAs, pictures that steer ---- */

#define KLEIN "tests/fixtures/pipe_flux2_klein"
#define FLUX "tests/fixtures/pipe_flux"
#define FLUX_FILL "tests/fixtures/flux_fill/transformer"
#define FLUX_NET "tests/fixtures/flux_controlnet/controlnet"

/* Whether a run says what is wrong in one line; prints it where it does not. */
static void check_refusal(outcome o, int code, const char *said) {
    CHECK_MESSAGE(one_line_saying(&o, code, said), "exit code %d, \"%s\" should say \"%s\"", o.code, o.err, said);
}

/* The text of a picture has that. */
static void check_told(const char *path, const char *told) {
    png_file png = read_png(path);
    CHECK_MESSAGE(strstr(png.text, told), "\"%s\" is not in \"%s\"", told, png.text);
    free(png.rgb);
}

static void test_references(void) {
    char *ref = strdup(in_work("ref.png")), *once = strdup(in_work("once.png")), *twice = strdup(in_work("twice.png")),
         *kept = strdup(in_work("kept.png")), *again = strdup(in_work("again.png"));
    outcome o = RUN("-m", KLEIN, "-p", "x", "-q", "--steps", "1", "-W", "80", "-H", "64", "-o", ref);
    CHECK_MESSAGE(o.code == 0, "%s", o.err);
#define KLEIN_RUN "-m", KLEIN, "-p", "x", "-q", "--steps", "1", "-W", "64", "-H", "64"
    o = RUN(KLEIN_RUN, "-r", ref, "-o", once);
    CHECK_MESSAGE(o.code == 0, "%s", o.err);
    o = RUN(KLEIN_RUN, "-r", ref, "--ref-image", ref, "-o", twice);
    CHECK_MESSAGE(o.code == 0, "%s", o.err);
    o = RUN(KLEIN_RUN, "-r", ref, "--keep-references", "-o", kept);
    CHECK_MESSAGE(o.code == 0, "%s", o.err);
    CHECK(!same_pixels(once, twice) && !same_pixels(once, kept));
    check_told(kept, "References kept: ");
    check_told(once, ", References: ref.png, ");
    o = RUN("--repeat-from", kept, "-m", KLEIN, "-q", "-o", again); /* the reference lies beside it */
    CHECK_MESSAGE(o.code == 0 && same_pixels(kept, again), "%s", o.err);
    o = RUN("--repeat-from", kept, "-m", KLEIN, "-r", twice, "-q", "-o", again); /* another one in its place */
    CHECK_MESSAGE(o.code == 0 && !same_pixels(kept, again), "%s", o.err);
    check_refusal(RUN(KLEIN_RUN, "--keep-references", "-o", again), 2, "--keep-references is about references");
    check_refusal(RUN(KLEIN_RUN, "-r", "missing.png", "-o", again), 3, "--ref-image missing.png: ");
    o = RUN(KLEIN_RUN, "-r", ref, "-i", twice, "--strength", "0.6", "-o", again); /* both at a time */
    CHECK_MESSAGE(o.code == 0 && !same_pixels(once, again), "%s", o.err);
    o = RUN(KLEIN_RUN, "-r", ref, "-i", ref, "--strength", "0.6", "-o", kept);
    CHECK_MESSAGE(o.code == 0 && !same_pixels(kept, again), "%s", o.err);
    check_refusal(RUN(QUICK, "-q", "-r", ref, "-o", again), 2, "references");
    free(ref);
    free(once);
    free(twice);
    free(kept);
    free(again);
}

/* A DoRA for a layer of the model: its rows are nearly as they were, and all of length 3. */
static void store_dora(const char *path) {
    enum { ROWS = 48, COLUMNS = 48, RANK = 1 };
    static const char header[] = "{\"transformer.transformer_blocks.0.attn1.to_out.0.lora_A.weight\":"
                                 "{\"dtype\":\"F32\",\"shape\":[1,48],\"data_offsets\":[0,192]},"
                                 "\"transformer.transformer_blocks.0.attn1.to_out.0.lora_B.weight\":"
                                 "{\"dtype\":\"F32\",\"shape\":[48,1],\"data_offsets\":[192,384]},"
                                 "\"transformer.transformer_blocks.0.attn1.to_out.0.dora_scale\":"
                                 "{\"dtype\":\"F32\",\"shape\":[48,1],\"data_offsets\":[384,576]}}";
    static unsigned char bytes[8 + sizeof header - 1 + 4 * (COLUMNS * RANK + 2 * ROWS)];
    float value = 0.01f;
    size_t i;
    bytes[0] = (unsigned char)((sizeof header - 1) & 255);
    bytes[1] = (unsigned char)((sizeof header - 1) >> 8);
    memcpy(bytes + 8, header, sizeof header - 1);
    for (i = 0; i < COLUMNS * RANK + 2 * ROWS; i++) {
        if (i == COLUMNS * RANK + ROWS) value = 3;
        memcpy(bytes + 8 + sizeof header - 1 + 4 * i, &value, sizeof value);
    }
    store(path, bytes, sizeof bytes);
}

static void test_loras(void) {
    static const char lora[] = "tests/fixtures/lora_pixart_sigma/lora";
    static const char *const wrong[] = {"nan", "inf", "1e30", "99999", "-1000", "2,5", "abc", ""};
    char text[160];
    char *plain = strdup(in_work("plain.png")), *option = strdup(in_work("option.png")),
         *tag = strdup(in_work("tag.png")), *merged = strdup(in_work("merged.png")),
         *again = strdup(in_work("again.png"));
    outcome o = RUN(QUICK, "-q", "-o", plain);
    CHECK_MESSAGE(o.code == 0, "%s", o.err);
    o = RUN(QUICK, "-q", "--lora", "tests/fixtures/lora_pixart_sigma/lora:0.8", "-o", option);
    CHECK_MESSAGE(o.code == 0, "%s", o.err);
    o = RUN("-m", MODEL, "-p", "a red heart<lora:lora:0.8>", "--steps", "2", "-W", "32", "-H", "32", "-q", "--lora-dir",
            "tests/fixtures/lora_pixart_sigma", "-o", tag);
    CHECK_MESSAGE(o.code == 0, "%s", o.err);
    o = RUN(QUICK, "-q", "--lora", "tests/fixtures/lora_pixart_sigma/lora:0.8", "--lora-merge", "-o", merged);
    CHECK_MESSAGE(o.code == 0, "%s", o.err);
    CHECK(!same_pixels(plain, option) && same_pixels(option, tag));
    check_told(option, ", LoRA: ");
    check_told(merged, "LoRA merged: ");
    o = RUN("--repeat-from", option, "-m", MODEL, "-q", "--lora-dir", "tests/fixtures/lora_pixart_sigma", "-o", again);
    CHECK_MESSAGE(o.code == 0 && same_pixels(option, again), "%s", o.err);
    o = RUN(QUICK, "-q", "--lora", "tests/fixtures/lora_pixart_sigma/lora:12.3456789", "-o", again);
    CHECK_MESSAGE(o.code == 0, "%s", o.err);
    check_told(again, "LoRA: \"lora:12.345679\"");
    store_dora(in_work("dora.safetensors"));
    o = RUN(QUICK, "--lora", (char *)in_work("dora.safetensors"), "-o", again);
    CHECK_MESSAGE(o.code == 0 && !same_pixels(plain, again) && strstr(o.err, "LoRA dora is DoRA, which is merged"),
                  "%s", o.err);
    o = RUN(QUICK, "-q", "--lora", (char *)in_work("dora.safetensors"), "--lora-merge", "-o", merged);
    CHECK_MESSAGE(o.code == 0 && same_pixels(merged, again), "%s", o.err);
    check_refusal(RUN(QUICK, "--lora", "missing:0.5", "-o", again), 3, "missing");
    check_refusal(RUN(QUICK, "-q", "--lora", "tests/fixtures/lora_zimage/peft.safetensors", "-o", again), 3,
                  "the adapter is for another model");
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        snprintf(text, sizeof text, "%s:%s", lora, wrong[i]);
        check_refusal(RUN(QUICK, "--lora", text, "-o", again), 2, "must be a number above -1000 and below 1000");
    }
    check_refusal(RUN("-m", MODEL, "-p", "x <lora:lora:2,5>", "--lora-dir", "tests/fixtures/lora_pixart_sigma"), 2,
                  "<lora:lora:2,5> in the prompt: the weight '2,5' must be");
    check_refusal(
        RUN("-m", MODEL, "-p", "x <lora:lora:1:0.5>", "--lora-dir", "tests/fixtures/lora_pixart_sigma"), 2,
        "<lora:lora:1:0.5> in the prompt: a LoRA has one weight here, for the transformer and for text encoders "
        "alike; write <lora:lora:0.8>");
    check_refusal(RUN("-m", MODEL, "-p", "x <lora:no:1>", "--lora-dir", "tests/fixtures/lora_pixart_sigma"), 2,
                  "<lora:no> in the prompt: there is no such file");
    check_refusal(RUN("-m", MODEL, "-p", "x <lora:lora:unet=1>", "--lora-dir", "tests/fixtures/lora_pixart_sigma"), 2,
                  "<lora:lora:unet=1> in the prompt: a LoRA has one weight here");
    snprintf(text, sizeof text, "%s:1:0.5:16", lora);
    check_refusal(RUN(QUICK, "--lora", text, "-o", again), 2, "lora:1:0.5:16: a LoRA has one weight here");
    o = RUN("-m", MODEL, "-p", "a red heart<lora:lora:0.8:0.80>", "--steps", "2", "-W", "32", "-H", "32", "-q",
            "--lora-dir", "tests/fixtures/lora_pixart_sigma", "-o", again);
    CHECK_MESSAGE(o.code == 0 && same_pixels(option, again), "%s", o.err);
    check_refusal(RUN(QUICK, "--lora", "missing:abc", "-o", again), 3, "--lora missing:abc: No such file");
    snprintf(text, sizeof text, "%s:0.5;%s:nan", lora, lora);
    check_refusal(RUN(QUICK, "--lora", text, "-o", again), 2, "lora:nan: the weight 'nan'");
    CHECK(exists(lora));
    free(plain);
    free(option);
    free(tag);
    free(merged);
    free(again);
}

/* Prompts as data, for a fixture without text encoders: texts of 512 rows of 48, pooled ones of 32. */
static void store_texts(const char *path) {
    enum { ROWS = 512, COLUMNS = 48, POOLED = 32, VALUES = ROWS * COLUMNS + POOLED, WORDS = 13 };
    const uint32_t shapes[WORDS] = {0x43544944u, 2, 0, 0, ROWS, COLUMNS, ROWS, 0, 0, 0, 1, POOLED, 1};
    static struct {
        uint32_t words[WORDS];
        float values[VALUES];
    } texts[2];
    uint64_t hash;
    uint32_t i;
    for (i = 0; i < VALUES; i++) texts[0].values[i] = (float)sin(0.37 * i);
    hash = diti_hash(texts[0].values, sizeof texts[0].values);
    memcpy(texts[0].words, shapes, sizeof shapes);
    texts[0].words[2] = (uint32_t)hash;
    texts[0].words[3] = (uint32_t)(hash >> 32);
    texts[1] = texts[0];
    store(path, texts, sizeof texts);
}

static void test_steered(void) {
    char *texts = strdup(in_work("texts")), *first = strdup(in_work("first.png")), /* test_picture made it */
                                                *plain = strdup(in_work("plain.png")),
         *made = strdup(in_work("made.png")), *again = strdup(in_work("again.png"));
    outcome o;
    store_texts(texts);
#define FLUX_RUN "-m", FLUX, "--conditioning", texts, "-q", "--steps", "1", "-W", "96", "-H", "64"
    o = RUN(FLUX_RUN, "-o", plain);
    CHECK_MESSAGE(o.code == 0, "%s", o.err);
    o = RUN(FLUX_RUN, "--control-net", FLUX_NET, "--control-image", first, "--control-strength", "0.6", "--control-end",
            "1", "-o", made);
    CHECK_MESSAGE(o.code == 0 && !same_pixels(plain, made), "%s", o.err);
    check_told(made, "Control image: first.png, Control net: controlnet, Control strength: 0.6");
    check_told(made, "Control image hash: ");
    o = RUN("--repeat-from", made, "-m", FLUX, "--conditioning", texts, "--control-net", FLUX_NET, "-q", "-o", again);
    CHECK_MESSAGE(o.code == 0 && same_pixels(made, again), "%s", o.err);
    o = RUN(FLUX_RUN, "--control-net", FLUX_NET, "--control-image", first, "--control-strength", "1", "-o", made);
    CHECK_MESSAGE(o.code == 0 && !same_pixels(plain, made), "%s", o.err);
    o = RUN(FLUX_RUN, "--control-net", FLUX_NET, "--control-image", first, "-o", again);
    CHECK_MESSAGE(o.code == 0 && same_pixels(made, again), "%s", o.err);
    o = RUN(FLUX_RUN, "--control-net", FLUX_NET, "--control-image", first, "--control-strength", "0", "-o", again);
    CHECK_MESSAGE(o.code == 0 && same_pixels(plain, again), "%s", o.err);
    check_refusal(RUN(FLUX_RUN, "--control-net", FLUX_NET, "-o", again), 2, "name it with --control-image");
    check_refusal(RUN(FLUX_RUN, "--control-image", first, "-o", again), 2, "--control-net");
    check_refusal(RUN(FLUX_RUN, "--control-strength", "2", "-o", again), 2, "there is no control net");
    check_refusal(
        RUN(FLUX_RUN, "--control-net", FLUX_NET, "--control-image", first, "--control-mode", "1", "-o", again), 2,
        "--control-mode is 1");
    check_refusal(RUN(QUICK, "--control-net", FLUX_NET, "--control-image", first, "-o", again), 3,
                  "takes no control net");
    check_refusal(RUN(FLUX_RUN, "--control-net", "missing", "--control-image", first, "-o", again), 3, "missing");
    o = RUN(FLUX_RUN, "--diffusion-model", FLUX_FILL, "-i", first, "--mask", first, "-o", made);
    CHECK_MESSAGE(o.code == 0, "%s", o.err);
    check_told(made, "Mask: first.png");
    check_refusal(RUN(FLUX_RUN, "--diffusion-model", FLUX_FILL, "-i", first, "-o", again), 2, "with --mask");
    check_refusal(RUN(FLUX_RUN, "--diffusion-model", FLUX_FILL, "-o", again), 2, "with --init-img");
    o = RUN("--info", FLUX, "--control-net", FLUX_NET, "-W", "96", "-H", "64");
    CHECK_MESSAGE(o.code == 0 && strstr(o.out, "control net"), "%s%s", o.out, o.err);
    free(texts);
    free(first);
    free(plain);
    free(made);
    free(again);
}

/* Pictures are bounded before they are decoded: what is refused takes neither time nor memory. */
static void test_start_pictures(void) {
    static const struct {
        const char *file;
        int code; /* 0: it is read, so that what comes after it is refused */
        const char *says;
    } cases[] = {
        {"tests/corpus/picture/jpeg_baseline", 0, "37x29"},
        {"tests/corpus/picture/jpeg_progressive", 0, "37x29"},
        {"tests/corpus/picture/jpeg_restart", 0, "37x29"},
        {"tests/corpus/picture/jpeg_gray", 0, "37x29"},
        {"tests/corpus/picture/jpeg_turned", 0, "29x37"},
        {"tests/corpus/picture/png_rgba16", 0, "5x7"},
        {"tests/corpus/picture/png_interlaced", 0, "9x9"},
        {"tests/corpus/picture/png_palette", 0, "13x11"},
        {"tests/corpus/picture/png_bit", 0, "33x9"},
        {"tests/corpus/picture/png_zero", 3, "damaged"},
        {"tests/corpus/picture/png_huge", 3, "23000x23000 pixels; at most 32768 a side and 67108864 in all"},
        {"tests/corpus/picture/png_bomb", 3, "more than its picture"},
        {"tests/corpus/picture/jpeg_counts", 3, "Huffman tables"},
        {"tests/corpus/picture/jpeg_scans", 3, "more than 100 scans"},
        {"zero.ppm", 3, "PNG or JPEG"},
        {"zero.gif", 3, "PNG or JPEG"},
        {"start.fifo", 3, "pipe"},
        {"cache", 3, "folder"},
    };
    outcome o;
    store(in_work("zero.ppm"), "P6 0 10 255\n", 12);
    store(in_work("zero.gif"), "GIF89a\0\0\1\0\0\0\0,", 14);
    CHECK(mkfifo(in_work("start.fifo"), 0600) == 0);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char *path = (char *)(strchr(cases[i].file, '/') ? cases[i].file : in_work(cases[i].file));
        o = RUN(QUICK, "-i", path, "--noise", "no such file", "-o", (char *)in_work("start.png"));
        if (cases[i].code)
            CHECK_MESSAGE(one_line_saying(&o, cases[i].code, cases[i].says) && strstr(o.err, "--init-img"), "%s", path);
        else
            CHECK_MESSAGE(o.code == 3 && strstr(o.err, cases[i].says) && strstr(o.err, "scaled to 32x32\ndit: --noise"),
                          "%s: %d %s", path, o.code, o.err);
    }
    o = RUN(QUICK, "-i", "tests/corpus/picture/png_bit", "--mask", (char *)in_work("zero.ppm"));
    CHECK(one_line_saying(&o, 3, "--mask"));
    o = RUN(QUICK, "-i", "tests/corpus/picture/png_bit", "--mask", "tests/corpus/picture/jpeg_counts");
    CHECK(one_line_saying(&o, 3, "--mask"));
    o = RUN(QUICK, "--noise", (char *)in_work("start.fifo"));
    CHECK(one_line_saying(&o, 3, "pipe"));
    o = RUN(QUICK, "-o", (char *)in_work("start.fifo"));
    CHECK(one_line_saying(&o, 4, "named pipe"));
}

/* No output may be another one or an input, whatever its path looks like; what is there stays as it is. */
static void test_overwriting(void) {
    static const char *const pairs[][4] = {{"-o", "one.png", "--latent-out", "one.png"},
                                           {"-o", "one.png", "--trace", "./one.png"},
                                           {"-o", "one.png", "--preview", "sub/../one.png"},
                                           {"--trace", "one", "--latent-out", "./one"},
                                           {"-o", "s.png", "--latent-out", "s_2.png"},
                                           {"-o", "dangling.png", "--trace", "real/one.png"},
                                           {"-o", "hard.png", "--preview", "to_start.png"},
                                           {"--trace", "start.png", NULL, NULL},
                                           {"-o", "start.png", NULL, NULL},
                                           {"--latent-out", "hard.png", NULL, NULL},
                                           {"--trace", "tokenizer/spiece.model", NULL, NULL},
                                           {"--latent-out", "my_lora.safetensors", NULL, NULL},
                                           {"--trace", "sub/../tagged.safetensors", NULL, NULL}};
    static char paths[4][320];
    size_t size = 0, kept = 0, lora_size = 0;
    unsigned char *bytes = load("tests/corpus/picture/png_rgb", &size),
                  *tokens = load(MODEL "/tokenizer/spiece.model", &kept),
                  *lora = load("tests/fixtures/lora_pixart_sigma/lora/adapter_model.safetensors", &lora_size), *after;
    struct stat info;
    outcome o;
    if (!CHECK(bytes && tokens && lora)) return;
    CHECK(mkdir(in_work("sub"), 0700) == 0 && mkdir(in_work("real"), 0700) == 0 &&
          mkdir(in_work("tokenizer"), 0700) == 0);
    store(in_work("start.png"), bytes, size);
    store(in_work("tokenizer/spiece.model"), tokens, kept);
    store(in_work("my_lora.safetensors"), lora, lora_size);
    store(in_work("tagged.safetensors"), lora, lora_size);
    CHECK(symlink("real/one.png", in_work("dangling.png")) == 0 && symlink("start.png", in_work("to_start.png")) == 0 &&
          link(in_work("start.png"), in_work("hard.png")) == 0);
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        char *args[40] = {"dit", QUICK, "-b", "2", "-q"};
        int n = 14;
        args[n++] = "-i", args[n++] = (char *)in_work("to_start.png");
        args[n++] = "--tokenizer", args[n++] = (char *)in_work("tokenizer");
        args[n++] = "--lora", args[n++] = (char *)in_work("my_lora.safetensors:0.5");
        args[n++] = "-p", args[n++] = "x<lora:tagged:1>", args[n++] = "--lora-dir", args[n++] = work;
        args[n++] = "-o", args[n++] = "/dev/null";
        for (int k = 0; k < 4 && pairs[i][k]; k++) {
            snprintf(paths[k], sizeof paths[k], "%s/%s", work, pairs[i][k]);
            args[n++] = k % 2 ? paths[k] : (char *)pairs[i][k];
        }
        o = run_as(STREAMS_PIPES, NO_STOP, args);
        CHECK_MESSAGE(one_line_saying(&o, 2, pairs[i][0][1] == 'o' ? "--output" : pairs[i][0]) &&
                          (strstr(o.err, "same file") || strstr(o.err, "a file of --tokenizer")),
                      "%s and %s", pairs[i][1], pairs[i][3] ? pairs[i][3] : "an input");
    }
#define REFERRED "-m", KLEIN, "-p", "x", "-q", "--steps", "1", "-r", (char *)in_work("start.png"), "-r"
    store(in_work("second.png"), bytes, size);
    check_refusal(RUN(REFERRED, (char *)in_work("second.png"), "-o", (char *)in_work("hard.png")), 2,
                  "same file as --ref-image");
    check_refusal(RUN(REFERRED, (char *)in_work("second.png"), "--latent-out", (char *)in_work("second.png")), 2,
                  "same file as --ref-image");
    check_refusal(RUN(REFERRED, (char *)in_work("second.png"), "--encode-prompt", (char *)in_work("second.png")), 2,
                  "same file as --ref-image");
    after = load(in_work("start.png"), &kept);
    CHECK(after && kept == size && memcmp(after, bytes, size) == 0);
    CHECK(!exists(in_work("one.png")) && !exists(in_work("one")) && !exists(in_work("s_2.png")));
    free(bytes), free(tokens), free(lora), free(after);
    bytes = load(BUNDLED, &size);
    store(in_work("my.gguf"), bytes, size);
    free(bytes);
    CHECK(link(in_work("my.gguf"), in_work("my.png")) == 0);
    o = RUN("-m", (char *)in_work("my.gguf"), "-p", "x", "--steps", "1", "-o", (char *)in_work("sub/../my.png"));
    CHECK(one_line_saying(&o, 2, "same file as --model"));
    o = RUN("-m", (char *)in_work("my.gguf"), "-p", "x", "--steps", "1", "--trace", (char *)in_work("sub/../my.gguf"));
    CHECK(one_line_saying(&o, 2, "same file as --model"));
    after = load(in_work("my.gguf"), &kept);
    CHECK(kept == size);
    free(after);
    o = RUN(QUICK, "-q", "--steps", "1", "-o", "/dev/null", "--latent-out", "/dev/null");
    CHECK_MESSAGE(o.code == 0 && stat("/dev/null", &info) == 0 && S_ISCHR(info.st_mode), "%s", o.err);
}

/* A name of any length and of any characters that the file system takes is written, and told in the picture; a longer
   one, of the last picture too, is refused first. */
static void test_names(void) {
    char path[700], target[512], *cwd = realpath(".", NULL);
    size_t at = (size_t)snprintf(path, sizeof path, "%s/", work);
    outcome o;
    png_file png;
    /* characters that separate values, and a backslash among the letters */
    snprintf(target, sizeof target, "%s/%s", cwd, MODEL);
    CHECK(symlink(target, in_work("mo\ndel, \"x\"")) == 0);
    memset(path + at, 'a', 300);
    memcpy(path + at, "no\\folder", 9);
    strcpy(path + at + 251, ".png");
    o = RUN("-m", (char *)in_work("mo\ndel, \"x\""), "-p", "x", "--steps", "1", "-W", "32", "-H", "32", "-s", "random",
            "-o", path);
    png = read_png(path);
    CHECK_MESSAGE(o.code == 0 && strstr(png.text, ", Model: \"mo\\ndel, \\\"x\\\"\", RNG: "), "%s%s", o.err, png.text);
    CHECK(count_lines(png.text) == 1 && strstr(o.out, "seed ") && !strstr(o.out, "seed random"));
    free(png.rgb);
    o = RUN(QUICK, "-q", "--steps", "1", "-b", "2", "-o", path);
    CHECK(one_line_saying(&o, 4, "too long"));
    memset(path + at, 'a', 300);
    strcpy(path + at + 252, ".png");
    o = RUN(QUICK, "--steps", "1", "-o", path);
    CHECK(one_line_saying(&o, 4, "too long"));
    /* beyond ASCII; and nothing that is printed goes into the picture where standard output is closed */
    memset(path + at, 0, 300);
    for (int i = 0; i < 84; i++) strcat(path, "♥");
    o = run_as(STREAMS_NO_OUTPUT, NO_STOP, (char **)ARGS(QUICK, "-p", HEART, "-o", path));
    CHECK_MESSAGE(o.code == 0, "%s", o.err);
    png = read_png(path);
    CHECK(png.sound && strcmp(png.kind, "iTXt") == 0);
    CHECK_MESSAGE(strncmp(png.text, HEART "\nSteps: 2", sizeof HEART "\nSteps: 2" - 1) == 0, "%s", png.text);
    free(png.rgb);
    CHECK(rename(path, in_work("heart.png")) == 0);
    free(cwd);
}

/* Every realloc of the program itself is refused: that of the PNG encoder. */
static const char no_realloc[] =
    "#define _GNU_SOURCE\n"
    "#include <errno.h>\n"
    "#include <link.h>\n"
    "extern void *__libc_realloc(void *, size_t);\n"
    "static char *begin, *end;\n"
    "static int first(struct dl_phdr_info *info, size_t size, void *user) {\n"
    "    for (int i = 0; i < info->dlpi_phnum; i++)\n"
    "        if (info->dlpi_phdr[i].p_type == PT_LOAD && info->dlpi_phdr[i].p_flags & PF_X)\n"
    "            begin = (char *)info->dlpi_addr + info->dlpi_phdr[i].p_vaddr, end = begin + info->dlpi_phdr[i].p_memsz;\n"
    "    return 1;\n"
    "}\n"
    "__attribute__((constructor)) static void find(void) { dl_iterate_phdr(first, 0); }\n"
    "void *realloc(void *block, size_t size) {\n"
    "    char *caller = __builtin_return_address(0);\n"
    "    if (caller < begin || caller >= end || size < 2048) return __libc_realloc(block, size);\n"
    "    errno = ENOMEM;\n"
    "    return 0;\n"
    "}\n";

/* The finished picture is not lost where memory for its compression is missing. */
static void test_encoder_without_memory(void) {
    char command[800];
    png_file png;
    outcome o;
    store(in_work("no_realloc.c"), no_realloc, sizeof no_realloc - 1);
    snprintf(command, sizeof command, "cc -shared -fPIC -o %s/no_realloc.so %s/no_realloc.c", work, work);
    if (!CHECK(system(command) == 0)) return;
    setenv("LD_PRELOAD", in_work("no_realloc.so"), 1);
    o = RUN(QUICK, "-p", HEART, "-b", "2", "-o", (char *)in_work("whole.png"));
    unsetenv("LD_PRELOAD");
    CHECK_MESSAGE(o.code == 6 && strstr(o.err, "uncompressed") && strstr(o.err, "whole.png"), "%d %s", o.code, o.err);
    CHECK_MESSAGE(strstr(o.out, "whole.png  seed 42") && count_lines(o.out) == 1, "%s", o.out);
    png = read_png(in_work("whole.png"));
    CHECK_MESSAGE(png.sound && strncmp(png.text, HEART "\nSteps: 2", sizeof HEART "\nSteps: 2" - 1) == 0, "%s",
                  png.text);
    free(png.rgb);
    CHECK(same_pixels(in_work("whole.png"), in_work("heart.png"))); /* of test_names */
    setenv("LD_PRELOAD", in_work("no_realloc.so"), 1);
    o = RUN(QUICK, "-o", "-");
    unsetenv("LD_PRELOAD");
    CHECK_MESSAGE(o.code == 6 && strstr(o.err, "uncompressed") && strncmp(o.out, "\211PNG\r\n\032\n", 8) == 0, "%d %s",
                  o.code, o.err);
    o = RUN("--repeat-from", (char *)in_work("heart.png"), "-m", MODEL, "-o", (char *)in_work("heart.png"));
    CHECK_MESSAGE(o.code == 2 && strstr(o.err, "same file as --repeat-from"), "%d %s", o.code, o.err);
    o = RUN("--repeat-from", (char *)in_work("start.fifo"));
    CHECK(one_line_saying(&o, 3, "pipe"));
}

static void test_noise_refusals(void) {
    static float values[2 * 4 * 4 * 4];
    uint32_t shape[4] = {2, 4, 4, 4};
    outcome o;
    write_tensor(in_work("noise.safetensors"), "noise", shape, values);
    o = RUN(QUICK, "-q", "-b", "3", "-o", (char *)in_work("n.png"), "--noise", (char *)in_work("noise.safetensors"));
    CHECK(one_line_saying(&o, 2, "is 2"));
    o = RUN(QUICK, "-W", "48", "-o", (char *)in_work("n.png"), "--noise", (char *)in_work("noise.safetensors"));
    CHECK(one_line_saying(&o, 3, "[1, 4, 4, 6]"));
    values[5] = NAN;
    write_tensor(in_work("noise.safetensors"), "noise", shape, values);
    o = RUN(QUICK, "-o", (char *)in_work("n.png"), "--noise", (char *)in_work("noise.safetensors"));
    CHECK(one_line_saying(&o, 3, "value 5"));
    write_tensor(in_work("noise.safetensors"), "nose", shape, values);
    o = RUN(QUICK, "-o", (char *)in_work("n.png"), "--noise", (char *)in_work("noise.safetensors"));
    CHECK(one_line_saying(&o, 3, "no such tensor"));
}

/* Every prefix of a noise file is refused, none crashes or is taken. */
static void test_noise_truncated(void) {
    static const float values[4 * 4 * 4];
    const uint32_t shape[4] = {1, 4, 4, 4};
    size_t size = 0, cut;
    unsigned char *file;
    write_tensor(in_work("whole"), "noise", shape, values);
    file = load(in_work("whole"), &size);
    for (cut = 0; cut < size; cut += cut < 24 ? 5 : 61) {
        store(in_work("cut"), file, cut);
        outcome o = RUN(QUICK, "-o", (char *)in_work("n.png"), "--noise", (char *)in_work("cut"));
        CHECK_MESSAGE(one_line_saying(&o, 3, "--noise"), "cut at %zu of %zu", cut, size);
    }
    free(file);
}

/* ---- Pictures ---- */

/* first.png and quick.png are what later tests start from and compare with. */
static void test_picture(void) {
    outcome o =
        RUN("-m", MODEL, "-p", "a red heart", "-n", "blue, green", "--steps", "2", "-W", "96", "-H", "32", "-s", "7",
            "--cfg-scale", "2.5", "--sampler", "dpm++2m", "--rng", "cuda", "-o", (char *)in_work("quick.png"));
    png_file png = read_png(in_work("quick.png"));
    size_t size = 0;
    unsigned char *file = load(in_work("quick.png"), &size);
    CHECK_MESSAGE(o.code == 0, "%d %s", o.code, o.err);
    CHECK(png.sound && png.width == 96 && png.height == 32);
    CHECK(strcmp(png.kind, "tEXt") == 0);
    CHECK_MESSAGE(strncmp(png.text, "a red heart\nNegative prompt: blue, green\nSteps: 2, Sampler: dpm++2m, ", 69) == 0,
                  "%s", png.text);
    CHECK_MESSAGE(
        strstr(png.text, "CFG scale: 2.5, Seed: 7, Size: 96x32, Model: pipe_pixart_sigma, RNG: cuda, Device: "), "%s",
        png.text);
    CHECK(strstr(o.out, in_work("quick.png")) && strstr(o.out, "seed 7") && count_lines(o.out) == 1);
    CHECK_MESSAGE(!strpbrk(o.err, "\r\033"), "a terminal's line in a log: %s", o.err);
    free(png.rgb);
    if (CHECK(file)) store(in_work("first.png"), file, size);
    free(file);
    o = RUN(QUICK, "-q", "-o", (char *)in_work("quick.png"));
    CHECK_MESSAGE(o.code == 0 && !*o.out && !*o.err, "not quiet: %s%s", o.out, o.err);
    png = read_png(in_work("quick.png"));
    CHECK_MESSAGE(png.sound && png.width == 32, "an existing file is not replaced");
    free(png.rgb);
}

/* ---- The text in a PNG, and the picture that is made from it again ---- */

static bool same_files(const char *a, const char *b) {
    size_t size = 0, size_2 = 0;
    unsigned char *x = load(a, &size), *y = load(b, &size_2);
    bool same = x && y && size == size_2 && memcmp(x, y, size) == 0;
    free(x);
    free(y);
    return same;
}

#define START "in \"a\",\nb\\c.png" /* a name that has all that separates and quotes */

/* Runs with these options, then again from the picture: the same bytes. again: what the picture does not tell. */
static void check_repeated(char **args, char **again, const char *told) {
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

static char *const told_args[] = {"-m",
                                  MODEL,
                                  "-p",
                                  "a (red:1.3) heart",
                                  "-n",
                                  "blue\nsky",
                                  "--steps",
                                  "3",
                                  "-W",
                                  "32",
                                  "-H",
                                  "48",
                                  "-s-1",
                                  "--cfg-scale",
                                  "3.1415927",
                                  "--sampler",
                                  "Euler a",
                                  "--scheduler",
                                  "KARRAS",
                                  "--rng",
                                  "cuda",
                                  "--guidance-start",
                                  "0.1",
                                  "--guidance-end",
                                  "0.9",
                                  "--guidance-rescale",
                                  "0.3",
                                  "--apg-eta",
                                  "0.2",
                                  "--apg-norm",
                                  "7",
                                  "--plain-prompt",
                                  "--dynamic-guidance",
                                  "--vae-tile-size",
                                  "64",
                                  "--type",
                                  "i8r",
                                  "--tensor-type-rules",
                                  "transformer.*=stored,vae.*=stored",
                                  "--strength",
                                  "0.9",
                                  "--init-img",
                                  NULL,
                                  "--mask",
                                  NULL,
                                  NULL};
static char *const unchanging[] = {"--latent-out",
                                   NULL,
                                   "--preview",
                                   NULL,
                                   "--trace",
                                   NULL,
                                   "--weight-budget",
                                   "200K",
                                   "--offload-to-cpu",
                                   "--keep-streamed",
                                   "-b",
                                   "2",
                                   "-v",
                                   "-o",
                                   NULL,
                                   NULL};
static char *const slow[] = {"--tune", NULL}; /* make test-all */
static char *const split_args[] = {"--devices",        "0,0", "--split", "cfg2",
                                   "--resume-on-loss", NULL}; /* the same bytes */
static char *const told_by_text[] = {/* tests/tools/parameters.c; or of models and machines that are not here */
                                     "--class",
                                     "--guidance",
                                     "--slg-scale",
                                     "--skip-layers",
                                     "--skip-layer-start",
                                     "--skip-layer-end",
                                     "--eta",
                                     "--flow-shift",
                                     "--clip-skip",
                                     "--vae-tiling",
                                     "--device-memory",
                                     "--diffusion-model",
                                     "--high-noise-diffusion-model",
                                     "--uncond-diffusion-model",
                                     "--clip-l",
                                     "--clip-g",
                                     "--t5",
                                     "--clip-vision",
                                     "--vae",
                                     "--taesd",
                                     "--tokenizer",
                                     "--noise",
                                     "--clip-on-cpu",
                                     "--quiet",
                                     "--repeat-from",
                                     NULL};
static char *const of_pictures[] = {"--ref-image",
                                    "--cache",
                                    "--keep-references",
                                    "--lora",
                                    "--lora-dir",
                                    "--lora-merge",
                                    "--control-net",
                                    "--control-image",
                                    "--control-strength",
                                    "--control-start",
                                    "--control-end",
                                    "--control-mode",
                                    "--cfg-normalization",
                                    "--low-noise-cfg-scale",
                                    NULL}; /* test_references, test_loras, test_steered, test_one_expert */
static char *const pictureless[] = {"--list-devices", "--info",    "--info-level",    "--help",
                                    "--help-all",     "--version", "--encode-prompt", "--list-models",
                                    "--doctor",       "--man",     "--completion",    NULL};
static char *const of_terminal[] = {"--batch", "--grid",    "--json", "--preview-path", "--preview-interval",
                                    "--serve", "--quality", NULL}; /* tests/tools/terminal.c, server.c */
static char *const of_clips[] = {"--frames",
                                 "--fps",
                                 "--init-video",
                                 "--mask-strategy",
                                 "--loop",
                                 "--loop-frames",
                                 "--loop-edit",
                                 "--conditioning",
                                 "--end-img",
                                 "--control-video",
                                 NULL}; /* test_clip, test_conditioning, test_followed */

/* An option that no test knows is one that might change pictures unseen. */
static void check_all_options_known(void) {
    char *const *const lists[] = {told_args, unchanging, split_args,  told_by_text, pictureless,
                                  slow,      of_clips,   of_terminal, of_pictures};
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        bool known = false;
        for (size_t k = 0; k < sizeof lists / sizeof *lists; k++)
            for (size_t n = 0; n < (k == 0   ? sizeof told_args
                                    : k == 1 ? sizeof unchanging
                                             : 0) /
                                       sizeof(char *) ||
                               (k > 1 && lists[k][n]);
                 n++) {
                char word[64];
                if (!lists[k][n]) continue;
                snprintf(word, sizeof word, strncmp(lists[k][n], "--", 2) ? "%.2s" : "%s", lists[k][n]);
                known = known || option_matches(&option_table[i], word);
            }
        CHECK_MESSAGE(known, "%s is in no list of this test: does a picture depend on it?", option_table[i].name);
    }
}

/* Fills the places of files in a list. */
static void fill(char **out, char *const *list, size_t count, char *const *files) {
    size_t i, k = 0;
    for (i = 0; i + 1 < count; i++) out[i] = list[i] ? list[i] : files[k++];
    out[count - 1] = NULL;
}

static void test_repeating(void) {
    char start[320], other[320], base[320], fifth[320], *told[64], *same[32], *files[4], text[400];
    outcome o;
    png_file png;
    size_t i, size = 0;
    unsigned char *bytes;
    check_all_options_known();
    snprintf(start, sizeof start, "%s", in_work(START));
    snprintf(base, sizeof base, "%s", in_work("quick.png")); /* of test_picture */
    snprintf(other, sizeof other, "%s", in_work("other.png"));
    snprintf(fifth, sizeof fifth, "%s", in_work("l_2")); /* of test_noise_and_latents */
    bytes = load(base, &size);
    if (!CHECK(bytes)) return;
    store(start, bytes, size);
    free(bytes);
    fill(told, told_args, sizeof told_args / sizeof told_args[0], LIST(start, start));
    check_repeated(told, LIST("-m", MODEL), "CFG scale: 3.1415927, Seed: ");
    png = read_png(in_work("made.png"));
    for (i = 0; i < OPTION_COUNT; i++)
        for (size_t k = 0; told[k]; k++) {
            if (!option_matches(&option_table[i], told[k]) || option_table[i].told != TOLD_HERE) continue;
            snprintf(text, sizeof text, "%s: ", option_table[i].key);
            CHECK_MESSAGE(strstr(png.text, text), "%s is not in %s", text, png.text);
        }
    CHECK_MESSAGE(strstr(png.text, "Sampler: euler-a, Schedule type: karras, "), "%s", png.text);
    CHECK_MESSAGE(strstr(png.text, "Init image: \"in \\\"a\\\",\\nb\\\\c.png\", Mask: \"in "), "%s", png.text);
    free(png.rgb);
    /* further options go first; other inputs are refused, missing ones named */
    o = RUN("--repeat-from", base, "-m", MODEL, "--seed", "5", "-q", "-o", other);
    CHECK_MESSAGE(o.code == 0 && same_files(fifth, other), "%d: %s", o.code, o.err);
    if (sweep()) {
        o = RUN("--repeat-from", (char *)in_work("made.png"), "-m", MODEL, "--seed", "5", "-q", "-o", other);
        png = read_png(other);
        CHECK_MESSAGE(o.code == 0 && strstr(png.text, "Seed: 5, ") && strstr(png.text, "Guidance end: 0.9"), "%s%s",
                      o.err, png.text);
        free(png.rgb);
    }
    o = RUN("--repeat-from", (char *)in_work("made.png"), "-q", "-o", other);
    CHECK(one_line_saying(&o, 3, "name it with --model"));
    bytes = load(start, &size);
    bytes[size - 20] ^= 1;
    store(start, bytes, size);
    free(bytes);
    o = RUN("--repeat-from", (char *)in_work("made.png"), "-m", MODEL, "-q", "-o", other);
    CHECK_MESSAGE(o.code == 3 && strstr(o.err, "another file"), "%d: %s", o.code, o.err);
    /* options that change nothing, and a split that changes nothing */
    files[0] = strdup(in_work("u.latent"));
    files[1] = strdup(in_work("u_preview.png"));
    files[2] = strdup(in_work("u.json"));
    files[3] = other;
    fill(same, unchanging, sizeof unchanging / sizeof unchanging[0], files);
    told[0] = "dit";
    for (i = 0; i < 10; i++) told[1 + i] = LIST(QUICK)[i];
    for (i = 0; same[i]; i++) told[11 + i] = same[i];
    told[11 + i] = NULL;
    o = run_as(STREAMS_PIPES, NO_STOP, told);
    CHECK_MESSAGE(o.code == 0 && same_files(base, other), "%d: %s", o.code, o.err);
    if (sweep()) {
        o = RUN(QUICK, "-q", "--steps", "8", "--preview", files[1], "-o", start);
        CHECK(o.code == 0 && exists(files[1]));
        o = RUN(QUICK, "-q", "--steps", "8", "-o", other);
        CHECK_MESSAGE(o.code == 0 && same_files(start, other), "previews change the picture");
    }
    o = RUN(QUICK, "-q", "--devices", "0,0", "--split", "cfg2", "--resume-on-loss", "-o", other);
    CHECK_MESSAGE(o.code == 0 && same_files(base, other), "%d: %s", o.code, o.err);
    if (sweep()) {
        o = RUN(QUICK, "-q", slow[0], "-o", other);
        CHECK_MESSAGE(o.code == 0 && same_files(base, other), "%d: %s", o.code, o.err);
        o = RUN("--repeat-from", base, "-m", MODEL, "-q", "-o", other);
        CHECK_MESSAGE(o.code == 0 && same_files(base, other), "%d: %s", o.code, o.err);
    }
    for (i = 0; i < 3; i++) free(files[i]);
    if (sweep())
        check_repeated(LIST(QUICK, "--devices", "0,0", "--split", "pipefusion2"), LIST("-m", MODEL, "--devices", "0,0"),
                       "Split: pipefusion2, ");
    if (sweep())
        check_repeated(LIST("-p", "banana", "--steps", "1", "-W", "32", "-H", "32"), LIST(NULL), "Model: emoji-q8_0, ");
}

/* The PNG alone goes to standard output. */
static void test_standard_output(void) {
    char command[1200];
    outcome o;
    snprintf(command, sizeof command,
             "XDG_CACHE_HOME=%s %s -m %s -p 'a red heart' --steps 2 -W 32 -H 32 -o - >%s 2>%s && test ! -e ./-",
             in_work("cache"), program, MODEL, in_work("stdout.png"), in_work("stderr"));
    CHECK(system(command) == 0);
    CHECK(same_files(in_work("stdout.png"), in_work("quick.png"))); /* of test_picture */
    o = run_as(STREAMS_NO_OUTPUT, NO_STOP, (char **)ARGS(QUICK, "-o", "-"));
    CHECK(one_line_saying(&o, 4, "closed"));
    o = run_as(STREAMS_FULL_OUTPUT, NO_STOP, (char **)ARGS(QUICK, "-q", "-o", "-"));
    CHECK(one_line_saying(&o, 4, "standard output"));
}

/* ---- Clips: one folder of a model whose frames may be given ---- */

#define QUICK_CLIP "-m", CLIPS, "-p", "a fox", "-q", "--steps", "2", "-W", "48", "-H", "32", "--video-frames", "4"
enum { CLIP_WIDTH = 48, CLIP_HEIGHT = 32, CLIP_PIXELS = CLIP_WIDTH * CLIP_HEIGHT };

/* Frames that an animated PNG states; 0: it is none. */
static uint32_t count_frames(const char *path) {
    size_t size = 0;
    unsigned char *file = load(path, &size);
    uint32_t frames = file && size > 53 && !memcmp(file + 37, "acTL", 4) ? be32(file + 41) : 0;
    free(file);
    return frames;
}

/* A Y4M file of so many frames; those of numbered PNGs (NULL: not compared) have the same luma. */
static void check_y4m(const char *path, uint32_t frames, const char *rate, const char *numbered) {
    static const size_t frame = 6 + CLIP_PIXELS * 3 / 2;
    size_t size = 0, head;
    unsigned char *file = load(path, &size);
    char wanted[100], name[340];
    uint32_t i, k;
    snprintf(wanted, sizeof wanted, "YUV4MPEG2 W48 H32 F%s Ip A1:1 C420jpeg XCOLORRANGE=LIMITED\n", rate);
    head = strlen(wanted);
    if (CHECK_MESSAGE(file && size == head + frames * frame && !memcmp(file, wanted, head), "%s: %zu bytes, %.70s",
                      path, size, file ? (char *)file : ""))
        for (i = 0; i < frames && numbered; i++) {
            png_file png;
            int worst = 0;
            snprintf(name, sizeof name, numbered, i + 1);
            png = read_png(name);
            if (!CHECK_MESSAGE(png.sound && png.width == CLIP_WIDTH && strstr(png.text, "Frames: 4, FPS: 7.5, "),
                               "%s: %s", name, png.text))
                continue;
            for (k = 0; k < CLIP_PIXELS; k++) {
                const unsigned char *p = png.rgb + 3 * k;
                int luma = (int)(16.5 + (65.481 * p[0] + 128.553 * p[1] + 24.966 * p[2]) / 255);
                int off = abs(luma - file[head + i * frame + 6 + k]);
                worst = off > worst ? off : worst;
            }
            CHECK_MESSAGE(worst == 0, "frame %u is off by %d", i + 1, worst);
            free(png.rgb);
        }
    free(file);
}

/* An animated PNG, made again from its text; the same frames as numbered PNGs, and as Y4M through a pipe. */
static void test_clip(void) {
    char command[1500], apng[320], again[320], numbered[320];
    const char *header = "{\"latent\":{\"dtype\":\"F32\",\"shape\":[1,4,4,4,6],";
    size_t size = 0;
    unsigned char *latents;
    png_file png;
    outcome o;
    snprintf(apng, sizeof apng, "%s", in_work("clip.apng"));
    snprintf(again, sizeof again, "%s", in_work("again.apng"));
    snprintf(numbered, sizeof numbered, "%s", in_work("clip/%04d.png"));
    CHECK(mkdir(in_work("clip"), 0700) == 0);
    o = RUN("-m", CLIPS, "-p", "a fox", "--steps", "2", "-W", "48", "-H", "32", "--num_frames", "4", "--fps", "7.5",
            "-o", apng, "--preview", (char *)in_work("strip.png"), "--latent-out", (char *)in_work("clip.latent"));
    CHECK_MESSAGE(o.code == 0 && strstr(o.out, "clip.apng  4 frames, 7.5 a second  seed 42  "), "%d %s%s", o.code,
                  o.err, o.out);
    png = read_png(apng);
    CHECK_MESSAGE(png.sound && png.width == CLIP_WIDTH && count_frames(apng) == 4, "%u frames", count_frames(apng));
    CHECK_MESSAGE(strstr(png.text, ", Size: 48x32, Frames: 4, FPS: 7.5, Model: pipe_opensora11, "), "%s", png.text);
    free(png.rgb);
    png = read_png(in_work("strip.png"));
    CHECK_MESSAGE(png.sound && png.width == 4 * CLIP_WIDTH && png.height == CLIP_HEIGHT, "%ux%u", png.width,
                  png.height);
    free(png.rgb);
    latents = load(in_work("clip.latent"), &size);
    CHECK_MESSAGE(latents && size > 4 * 4 * 4 * 4 * 6 && !strncmp((char *)latents + 8, header, strlen(header)), "%.70s",
                  latents ? (char *)latents + 8 : "");
    free(latents);
    o = RUN("--repeat-from", apng, "-m", CLIPS, "-q", "-o", again);
    CHECK_MESSAGE(o.code == 0 && !*o.err && same_files(apng, again), "%d %s", o.code, o.err);
    o = RUN("--repeat-from", apng, "-m", CLIPS, "-q", "-o", numbered);
    CHECK_MESSAGE(o.code == 0 && !exists(in_work("clip/0005.png")), "%d %s", o.code, o.err);
    CHECK(same_pixels(apng, in_work("clip/0001.png")));
    snprintf(command, sizeof command, "XDG_CACHE_HOME=%s %s --repeat-from %s -m %s -o - 2>%s | cat >%s",
             in_work("cache"), program, in_work("clip/0003.png"), CLIPS, in_work("stderr"), in_work("clip.y4m"));
    CHECK(system(command) == 0);
    check_y4m(in_work("clip.y4m"), 4, "15:2", numbered);
    o = RUN(QUICK_CLIP, "--init-video", (char *)in_work("clip"), "-o", numbered);
    CHECK(one_line_saying(&o, 2, "the folder of --init-video"));
    o = RUN(QUICK_CLIP, "-i", (char *)in_work("clip/0002.png"), "-o", numbered);
    CHECK(one_line_saying(&o, 2, "same file as --init-img"));
    if (sweep()) { /* the second clip has the next seed */
        o = RUN(QUICK_CLIP, "-b", "2", "-o", again);
        CHECK_MESSAGE(o.code == 0 && exists(in_work("again_2.apng")), "%d %s", o.code, o.err);
        o = RUN(QUICK_CLIP, "-s", "43", "-o", again);
        CHECK_MESSAGE(o.code == 0 && same_files(again, in_work("again_2.apng")), "%d %s", o.code, o.err);
    }
    o = RUN(QUICK_CLIP, "--frames", "9", "--init-video", (char *)in_work("clip"), "-o", again);
    CHECK(one_line_saying(&o, 2, "clip has 4; the nearest valid value is 4"));
}

/* The library's own clip, which is told so many frames a second, and how many of them pass. */
static void check_usual_clip(const char *folder, uint32_t width, uint32_t frames, float told, const char *pass,
                             const char *numbered) {
    static unsigned char rgba[9 * 64 * CLIP_HEIGHT][4];
    dit_context *context = NULL;
    dit_model *model = NULL;
    dit_job *job = NULL;
    dit_context_desc context_desc = {0};
    dit_model_desc model_desc = {0};
    dit_job_desc desc = {0};
    dit_error err = {0};
    char name[340];
    uint32_t frame, i, off, pixels = width * CLIP_HEIGHT;
    model_desc.source.path = folder;
    desc.prompt = "a fox";
    desc.steps = 2;
    desc.width = width;
    desc.height = CLIP_HEIGHT;
    desc.frame_count = frames;
    desc.seed = 42;
    desc.fps = told;
    if (dit_context_create(&context_desc, &context, &err) < 0 ||
        dit_model_load(context, &model_desc, &model, &err) < 0 ||
        (desc.model = model, dit_job_create(context, &desc, &job, &err)) < 0 || dit_job_wait(job, UINT64_MAX) < 0 ||
        dit_job_read(job, DIT_READ_RGBA8, 0, DIT_ALL_FRAMES, rgba, sizeof rgba, 0, &err) < 0)
        CHECK_MESSAGE(false, "%s", err.message);
    for (frame = 0; frame < frames; frame++) {
        png_file png;
        snprintf(name, sizeof name, numbered, frame + 1);
        png = read_png(name);
        for (i = off = 0; i < pixels && png.sound; i++)
            off += memcmp(rgba[frame * pixels + i], png.rgb + 3 * i, 3) != 0;
        CHECK_MESSAGE(png.sound && off == 0 && strstr(png.text, pass), "%u pixels of frame %u; %s", off, frame,
                      png.text);
        free(png.rgb);
    }
    dit_job_destroy(job);
    dit_model_destroy(model);
    dit_context_destroy(context);
}

static void test_usual_clip(void) {
    char numbered[320];
    outcome o;
    CHECK(mkdir(in_work("usual"), 0700) == 0);
    snprintf(numbered, sizeof numbered, "%s", in_work("usual/%d.png"));
    o = RUN(QUICK_CLIP, "-o", numbered);
    if (CHECK_MESSAGE(o.code == 0, "%d %s", o.code, o.err))
        check_usual_clip(CLIPS, CLIP_WIDTH, 4, 24, "FPS: 8, ", numbered);
    CHECK(mkdir(in_work("rate"), 0700) == 0);
    snprintf(numbered, sizeof numbered, "%s", in_work("rate/%d.png"));
    o = RUN("-m", "tests/fixtures/pipe_ltx", "-p", "a fox", "--steps", "2", "-W", "64", "-H", "32", "--frames", "9",
            "--fps", "31", "-o", numbered);
    if (CHECK_MESSAGE(o.code == 0, "%d %s", o.code, o.err))
        check_usual_clip("tests/fixtures/pipe_ltx", 64, 9, 31, "FPS: 31, ", numbered);
    snprintf(numbered, sizeof numbered, "%s", in_work("single-%d.png"));
    o = RUN("-m", CLIPS, "-p", "a fox", "--steps", "2", "-W", "48", "-H", "32", "--frames", "1", "-o", numbered);
    CHECK_MESSAGE(o.code == 0 && strstr(o.out, "single-1.png  1 frame, "), "%s", o.out);
}

/* Last latents as the noise of another clip. */
static void test_clip_noise(void) {
    size_t size = 0;
    unsigned char *file = load(in_work("clip.latent"), &size); /* of test_clip */
    char noise[320], made[320];
    png_file png;
    outcome o;
    snprintf(noise, sizeof noise, "%s", in_work("clip.noise"));
    snprintf(made, sizeof made, "%s", in_work("noisy.apng"));
    if (!CHECK(file && size > 18)) return;
    memcpy(file + 8, "{\"noise\" :", 10);
    store(noise, file, size);
    free(file);
    o = RUN(QUICK_CLIP, "--noise", noise, "-o", made);
    CHECK_MESSAGE(o.code == 0 && count_frames(made) == 4 && !same_pixels(made, in_work("clip.apng")), "%d %s", o.code,
                  o.err);
    png = read_png(made);
    CHECK_MESSAGE(strstr(png.text, ", Noise: clip.noise, ") && strstr(png.text, ", Noise hash: "), "%s", png.text);
    free(png.rgb);
    o = RUN(QUICK_CLIP, "--frames", "3", "--noise", noise, "-o", made);
    CHECK(one_line_saying(&o, 2, "--noise has 384 values, 288 are needed"));
    o = RUN(QUICK, "--noise", noise, "-o", (char *)in_work("n.png"));
    CHECK(one_line_saying(&o, 3, "[1, 4, 4, 4]"));
}

/* Frames that are given: a folder to begin with, references through a pipe, and clips that continue each other. */
static void test_given_frames(void) {
    static const char *const told[] = {", Init image: 0001.png, ", ", Init video: clip.y4m, ",
                                       ", Mask strategy: \"0;0,1,-1,-1,1,0.5\", ",
                                       ", Loop: 2, Loop frames: 1, Loop edit: 0.5, ", ", Frames: 4, FPS: 7.5, "};
    char command[1500], made[320], again[320];
    size_t i;
    png_file png;
    outcome o;
    snprintf(made, sizeof made, "%s", in_work("begun.apng"));
    snprintf(again, sizeof again, "%s", in_work("again.apng"));
    o = RUN(QUICK_CLIP, "--init-video", (char *)in_work("clip"), "--strength", "0.5", "-o", made); /* of test_clip */
    CHECK_MESSAGE(o.code == 0 && count_frames(made) == 4, "%d %s", o.code, o.err);
    png = read_png(made);
    CHECK_MESSAGE(strstr(png.text, "Init video: clip, ") && strstr(png.text, "Denoising strength: 0.5, ") &&
                      strstr(png.text, ", Init video hash: "),
                  "%s", png.text);
    free(png.rgb);
    o = RUN("--repeat-from", made, "-m", CLIPS, "-q", "-o", again);
    CHECK_MESSAGE(o.code == 0 && same_files(made, again), "%d %s", o.code, o.err);
    /* from a pipe into one, from a file, and again from the text of that */
    snprintf(command, sizeof command,
             "cat %s | XDG_CACHE_HOME=%s %s -m %s -p '|0|a fox|1|a hare' --steps 2 -W 48 -H 32 --length 4 -q -i %s "
             "--init-video - --mask-strategy '0;0,1,-1,-1,1,0.5' --loop 2 --loop-frames 1 --loop-edit 0.5 -o %s 2>%s",
             in_work("clip.y4m"), in_work("cache"), program, CLIPS, in_work("clip/0001.png"), in_work("loop.y4m"),
             in_work("stderr"));
    CHECK(system(command) == 0);
    check_y4m(in_work("loop.y4m"), 7, "15:2", NULL);
    o = RUN(QUICK_CLIP, "-p", "|0|a fox|1|a hare", "-i", (char *)in_work("clip/0001.png"), "--init-video",
            (char *)in_work("clip.y4m"), "--mask-strategy", "0;0,1,-1,-1,1,0.5", "--loop", "2", "--loop-frames", "1",
            "--loop-edit", "0.5", "-o", (char *)in_work("loop.apng"));
    png = read_png(in_work("loop.apng"));
    CHECK_MESSAGE(o.code == 0 && count_frames(in_work("loop.apng")) == 7, "%d %s", o.code, o.err);
    for (i = 0; i < sizeof told / sizeof told[0]; i++)
        CHECK_MESSAGE(strstr(png.text, told[i]), "no %s in %s", told[i], png.text);
    free(png.rgb);
    o = RUN("--repeat-from", (char *)in_work("loop.apng"), "-m", CLIPS, "-q", "-i", (char *)in_work("clip/0001.png"),
            "-o", (char *)in_work("loop2.y4m"));
    CHECK_MESSAGE(o.code == 0 && same_files(in_work("loop.y4m"), in_work("loop2.y4m")), "%d %s", o.code, o.err);
    o = RUN("--repeat-from", made, "-m", CLIPS, "-q", "--init-video", (char *)in_work("loop.y4m"), "--strength", "1",
            "-o", again);
    CHECK_MESSAGE(o.code == 0 && !same_files(made, again), "%d %s", o.code, o.err);
    CHECK(rename(in_work("clip/0001.png"), in_work("clip/0009.png")) == 0); /* another order */
    o = RUN("--repeat-from", made, "-m", CLIPS, "-q", "-o", again);
    CHECK(one_line_saying(&o, 3, "made from another clip than this"));
    o = RUN(QUICK_CLIP, "-i", (char *)in_work("clip/0002.png"), "--mask-strategy", "0,3", "-o", again);
    CHECK(one_line_saying(&o, 2,
                          "--mask-strategy, group 1: reference is 3; the number of --ref-image, --init-img and "
                          "--init-video is 1"));
    o = RUN(QUICK_CLIP, "-p", "|0|a fox|b", "--loop", "2", "--loop-frames", "1", "-o", again);
    CHECK(one_line_saying(&o, 2, "must follow each |"));
}

/* A last frame: models that hold frames take it as their second reference, the clips' last latent frame; it is told,
   and found again. It comes behind test_given_frames, which leaves these files. */
static void test_last_frame(void) {
    char first[320], last[320], made[320], again[320], command[1500];
    png_file png;
    outcome o;
    snprintf(first, sizeof first, "%s", in_work("clip/0002.png"));
    snprintf(last, sizeof last, "%s", in_work("clip/0003.png"));
    snprintf(made, sizeof made, "%s", in_work("ends.apng"));
    snprintf(again, sizeof again, "%s", in_work("again.apng"));
    o = RUN(QUICK_CLIP, "-i", first, "--end-img", last, "-o", made);
    png = read_png(made);
    CHECK_MESSAGE(o.code == 0 && strstr(png.text, ", Init image: 0002.png, End image: 0003.png, ") &&
                      strstr(png.text, ", End image hash: "),
                  "%d %s%s", o.code, o.err, png.text);
    free(png.rgb);
    o = RUN("--repeat-from", made, "-m", CLIPS, "-q", "-i", first, "--end-img", last, "-o", again);
    CHECK_MESSAGE(o.code == 0 && same_files(made, again), "%d %s", o.code, o.err);
    o = RUN(QUICK_CLIP, "-i", first, "-o", again);
    CHECK_MESSAGE(o.code == 0 && !same_pixels(made, again), "%d %s", o.code, o.err);
    snprintf(command, sizeof command, "mkdir -p %s && cp %s %s", in_work("ends"), last, in_work("ends"));
    CHECK(system(command) == 0);
    o = RUN(QUICK_CLIP, "-i", first, "--init-video", (char *)in_work("ends"), "--mask-strategy", "0;0,1,0,-1", "-o",
            again);
    CHECK_MESSAGE(o.code == 0 && same_pixels(made, again), "%d %s", o.code, o.err);
    o = RUN("--repeat-from", made, "-m", CLIPS, "-q", "-i", first, "-o", again);
    CHECK(one_line_saying(&o, 3, "made with 0003.png, which is neither here nor beside it; name it with --end-img"));
    o = RUN(QUICK_CLIP, "-i", first, "--end-img", last, "--init-video", (char *)in_work("clip"), "--mask-strategy", "0",
            "-o", again);
    CHECK(one_line_saying(&o, 2, "--end-img and --init-video: "));
    o = RUN(QUICK_CLIP, "-r", first, "-o", again);
    CHECK(one_line_saying(&o, 2, "this model takes frames from --init-img, --end-img and --init-video; leave it out"));
    o = RUN(QUICK_CLIP, "-i", first, "-r", last, "--mask-strategy", "0", "-o", again);
    CHECK(one_line_saying(&o, 2, "this model takes frames from --init-img, --end-img and --init-video; leave it out"));
    o = RUN(QUICK_CLIP, "-i", first, "--end-img", last, "--frames", "1", "-o", again);
    CHECK(one_line_saying(&o, 2, "a clip of one frame has no other end; ask for more --frames"));
}

#define BEGUN                                                                                                          \
    "-m", "tests/fixtures/pipe_ltx", "-p", "x", "-q", "--steps", "1", "-W", "64", "-H", "32", "--frames", "9", "-i",   \
        "models/strip.png"

/* LTX-Video begins a clip with a picture by its own rules, not as frames that are held. */
static void test_begun(void) {
    outcome o = RUN(BEGUN, "-o", (char *)in_work("begun.apng"));
    CHECK_MESSAGE(o.code == 0, "%s", o.err);
    o = RUN(BEGUN, "--mask-strategy", "0", "-o", (char *)in_work("held.apng"));
    CHECK_MESSAGE(o.code == 0 && !same_pixels(in_work("begun.apng"), in_work("held.apng")), "%s", o.err);
    o = RUN(BEGUN, "--strength", "0.5", "-o", (char *)in_work("held.apng"));
    CHECK(one_line_saying(&o, 2, "this model moves a picture as it is; strength must be 0"));
}

#define VACE "--diffusion-model", "tests/fixtures/wan_vace/transformer"
#define VACE_RUN VACE, "--t5", EXPERTS "/text_encoder", "--tokenizer", EXPERTS "/tokenizer", "--vae", EXPERTS "/vae"
#define EXPERTS "tests/fixtures/pipe_wan22_i2v_a14b"

/* A clip that follows another: a mask for all frames is as many masks, all of it is told, and found again. */
static void test_followed(void) {
    char made[320], again[320], clip[320], masks[320], command[1500];
    unsigned i;
    png_file png;
    outcome o;
    snprintf(made, sizeof made, "%s", in_work("followed.apng"));
    snprintf(again, sizeof again, "%s", in_work("again.apng"));
    snprintf(clip, sizeof clip, "%s", in_work("follow"));
    snprintf(masks, sizeof masks, "%s", in_work("masks"));
    snprintf(command, sizeof command, "mkdir -p %s %s", clip, masks);
    CHECK(system(command) == 0);
    for (i = 1; i <= 5; i++) {
        snprintf(command, sizeof command, "cp models/strip.png %s/%u.png && cp docs/sheet.png %s/%u.png", clip, i,
                 masks, i);
        CHECK(system(command) == 0);
    }
    o = RUN(VACE_RUN, "-p", "x", "-q", "--steps", "1", "-W", "48", "-H", "32", "--control-video", clip, "--mask",
            "docs/sheet.png", "-r", "models/strip.png", "--control-strength", "0.5", "-o", made);
    png = read_png(made);
    CHECK_MESSAGE(o.code == 0 && count_frames(made) == 5 && strstr(png.text, ", Control video: follow, ") &&
                      strstr(png.text, ", Init video hash: ") && strstr(png.text, ", Mask: sheet.png, ") &&
                      strstr(png.text, ", Control strength: 0.5, ") && strstr(png.text, ", References: strip.png, "),
                  "%d %s%s", o.code, o.err, png.text);
    free(png.rgb);
    o = RUN("--repeat-from", made, VACE_RUN, "-q", "--control-video", clip, "--mask", masks, "-r", "models/strip.png",
            "-o", again);
    CHECK_MESSAGE(o.code == 0 && same_pixels(made, again), "%d %s", o.code, o.err);
    o = RUN("--repeat-from", made, VACE_RUN, "-q", "--control-video", clip, "-r", "models/strip.png", "-o", again);
    CHECK(one_line_saying(&o, 3, "made with sheet.png, which is neither here nor beside it; name it with --mask"));
    o = RUN(VACE_RUN, "-p", "x", "-q", "--frames", "9", "--control-video", clip, "-o", again);
    CHECK(one_line_saying(&o, 2, "has 5; the nearest valid value is 5"));
    o = RUN(VACE_RUN, "-p", "x", "-q", "--mask", masks, "-o", again);
    CHECK(one_line_saying(&o, 2, "there is no clip that it is about; name it with --control-video"));
    o = RUN(VACE_RUN, "-p", "x", "-q", "--init-video", clip, "-o", again);
    CHECK(one_line_saying(&o, 2, "this model follows a clip, which --control-video names"));
    o = RUN(VACE_RUN, "-p", "x", "-q", "--control-image", "models/strip.png", "-o", again);
    CHECK(one_line_saying(&o, 2, "this model follows a clip; name it with --control-video"));
    CHECK(remove(in_work("masks/5.png")) == 0);
    o = RUN(VACE_RUN, "-p", "x", "-q", "--control-video", clip, "--mask", masks, "-o", again);
    CHECK(one_line_saying(&o, 2, "it has 4 frames, the clip 5; give as many, or one picture for all"));
    o = RUN(VACE_RUN, "-p", "x", "-q", "--control-video", clip, "--mask", clip, "-o", (char *)in_work("follow/%d.png"));
    CHECK(one_line_saying(&o, 2, "this is the folder of --control-video"));
}

/* The program of `make clip`: a walk of two frames, the second of which is half way round, raw and as animated PNG. */
static void test_walk(void) {
    enum { FRAME = 6 + CLIP_PIXELS * 3 / 2 };
    const char *usual = program;
    size_t size = 0;
    unsigned char *file;
    outcome o;
    program = "build/clip";
    o = RUN("-m", MODEL, "-W", "48", "-H", "32", "--frames", "2", "--steps", "1", "-o", (char *)in_work("walk.y4m"),
            "-o", (char *)in_work("walk.apng"), "red apple", "blue");
    if (CHECK_MESSAGE(o.code == 0 && strstr(o.err, "frame 2 of 2"), "%d %s", o.code, o.err)) {
        check_y4m(in_work("walk.y4m"), 2, "12:1", NULL);
        CHECK(count_frames(in_work("walk.apng")) == 2);
        file = load(in_work("walk.y4m"), &size);
        CHECK(file && size > 2 * FRAME && memcmp(file + size - FRAME, file + size - 2 * FRAME, FRAME) != 0);
        free(file);
    }
    o = RUN("--frames", "none", "-o", (char *)in_work("walk.y4m"), "red apple");
    CHECK_MESSAGE(o.code == EXIT_USAGE && strstr(o.err, "--frames"), "%d %s", o.code, o.err);
    program = usual;
}

/* Every command of README.md about clips, with a small model, size and number of steps in place of its own. */
static void test_page(void) {
    static const char *const made[] = {"fox.mp4",         "fox.webm",  "wakes.apng",
                                       "frames/0004.png", "hare.cond", "hare.webp"};
    const bool ffmpeg = system("ffmpeg -version >/dev/null 2>&1") == 0;
    char line[1000], folder[200], prefix[700], whole[3000], *from, *to, *name;
    FILE *page = fopen("README.md", "r");
    bool found = false, begun = false;
    int commands = 0;
    size_t i;
    if (!CHECK(page && getcwd(folder, sizeof folder))) return;
    snprintf(prefix, sizeof prefix, "cd %s && cp clip/0002.png fox.png && cp clip.y4m fox.y4m && mkdir -p frames",
             work);
    CHECK(system(prefix) == 0);
    snprintf(prefix, sizeof prefix, "cd %s && exec 2>>said && XDG_CACHE_HOME=cache %s/build/dit", work, folder);
    while (fgets(line, sizeof line, page)) {
        begun = begun || strncmp(line, "Models of clips", 15) == 0;
        if (begun && found && strncmp(line, "```", 3) == 0) break;
        if (!begun || strncmp(line, "build/dit ", 10) != 0) continue;
        found = true;
        line[strcspn(line, "\n")] = 0;
        from = line + 9;
        name = strstr(from, " -m ");
        if (!name) name = strstr(from, " --info ");
        to = name ? name + (name[1] == '-' && name[2] == 'm' ? 4 : 8) : NULL;
        if (!CHECK_MESSAGE(to, "%s names no model", line)) continue;
        name = to + strcspn(to, " ");
        i = strcspn(name, "|");
        while (strncmp(name + i, "| ffmpeg", 8) && name[i]) i += 1 + strcspn(name + i + 1, "|");
        snprintf(whole, sizeof whole, "%s%.*s%s/%s%.*s --steps 1 --frames 4 --loop-frames 1 -W 48 -H 32 %s%s >>said",
                 prefix, (int)(to - from), from, folder, CLIPS, (int)i, name, name[i] ? "| ffmpeg -v error " : "",
                 name[i] ? name + i + 8 : "");
        if (!ffmpeg && (strstr(line, "ffmpeg") || strstr(line, ".mp4"))) continue;
        CHECK_MESSAGE(system(whole) == 0, "%s\n%s", line, whole);
        commands++;
    }
    fclose(page);
    CHECK_MESSAGE(commands >= (ffmpeg ? 7 : 5), "%d commands", commands);
    for (i = ffmpeg ? 0 : 2; i < sizeof made / sizeof made[0]; i++)
        CHECK_MESSAGE(exists(in_work(made[i])), "%s is not there", made[i]);
}

/* Prompts as data: the same picture as from the words, and made again from its text. */
static void test_conditioning(void) {
    char data[320], made[320];
    size_t size = 0;
    unsigned char *file;
    png_file png;
    outcome o;
    snprintf(data, sizeof data, "%s", in_work("heart.cond"));
    snprintf(made, sizeof made, "%s", in_work("made.png"));
    o = RUN("-m", MODEL, "-p", "a red heart", "--encode-prompt", data);
    CHECK_MESSAGE(o.code == 0 && strstr(o.out, "heart.cond  ") && !*o.err, "%d %s", o.code, o.err);
    check_repeated(LIST("-m", MODEL, "--conditioning", data, "--steps", "2", "-W", "32", "-H", "32"), LIST("-m", MODEL),
                   "Conditioning: heart.cond, ");
    CHECK(same_pixels(made, in_work("quick.png"))); /* of test_picture */
    png = read_png(made);
    CHECK_MESSAGE(strncmp(png.text, "\nConditioning: heart.cond, Steps: 2", 35) == 0, "%s", png.text);
    free(png.rgb);
    file = load(data, &size);
    if (!CHECK(file && size > 100)) return;
    file[size / 4] ^= 1;
    store(data, file, size);
    o = RUN("-m", MODEL, "--conditioning", data, "-o", made);
    CHECK(one_line_saying(&o, 2, "--conditioning: the prompt blob is damaged"));
    file[size / 4] ^= 1, file[size / 4 * 3] ^= 1;
    store(data, file, size);
    o = RUN("-m", MODEL, "--conditioning", data, "-o", made);
    CHECK(one_line_saying(&o, 2, "--conditioning: its second half"));
    store(data, file, size - 1);
    o = RUN("-m", MODEL, "--conditioning", data, "-o", made);
    CHECK(one_line_saying(&o, 3, "no file that --encode-prompt wrote"));
    store(data, "", 0);
    o = RUN("-m", MODEL, "--conditioning", data, "-o", made);
    CHECK(one_line_saying(&o, 3, "no file that --encode-prompt wrote"));
    o = RUN("-m", MODEL, "--conditioning", "tests", "-o", made);
    CHECK(one_line_saying(&o, 3, "folder"));
    o = RUN("-m", MODEL, "-p", "x", "--encode-prompt", MODEL "/tokenizer/spiece.model");
    CHECK(one_line_saying(&o, 2, "a file of --model"));
    o = RUN("-m", CLASSES, "--class", "1", "--encode-prompt", data);
    CHECK(one_line_saying(&o, 2, "--encode-prompt"));
    free(file);
}

/* A class in place of a prompt. */
static void test_class(void) {
    outcome o;
    png_file png;
    check_repeated(LIST("-m", CLASSES, "--class", "3", "--steps", "2", "--eta", "0.5", "--vae-tiling"),
                   LIST("-m", CLASSES), "Eta: 0.5, VAE tile size: 512, ");
    png = read_png(in_work("made.png"));
    CHECK_MESSAGE(png.sound && png.width == 64 && strncmp(png.text, "\nClass: 3, Steps: 2, Sampler: ddim, ", 36) == 0,
                  "%s", png.text);
    free(png.rgb);
    o = RUN("-m", CLASSES, "--class", "10");
    CHECK(one_line_saying(&o, 2, "0 to 9"));
    o = RUN("-m", CLASSES, "-p", "a cat");
    CHECK(one_line_saying(&o, 2, "--class"));
    o = RUN("-m", CLASSES);
    CHECK(one_line_saying(&o, 2, "what shall be on the picture? Not a prompt, this model takes none; say --class"));
    o = RUN("-m", CLASSES, "--class", "3", "-n", "fox");
    CHECK(one_line_saying(&o, 2, "--negative-prompt: this model takes none beside --class; leave it out"));
}

/* int8 products: another picture than with stored weights, but nearly the same; told in the PNG; rules go first. */
static void test_types(void) {
    static const char *const words[][4] = {{NULL}, /* quick.png of test_picture */
                                           {"--type", "i8r"},
                                           {"--type", "i8r", "--tensor-type-rules", "transformer.*=stored"},
                                           {"--tensor-type-rules", "transformer.*blocks.*=i8r"}};
    png_file pngs[4];
    int difference[4] = {0};
    for (int i = 0; i < 4; i++) {
        char name[16], *args[24] = {"dit", QUICK, "-q", "-o"};
        int n = 13;
        outcome o;
        snprintf(name, sizeof name, i ? "type%d.png" : "quick.png", i);
        args[n++] = (char *)in_work(name);
        for (int k = 0; k < 4 && words[i][k]; k++) args[n++] = (char *)words[i][k];
        if (i) o = run_as(STREAMS_PIPES, NO_STOP, args), CHECK_MESSAGE(o.code == 0, "%s", o.err);
        pngs[i] = read_png(in_work(name));
        if (!CHECK(pngs[i].rgb && pngs[i].width == 32 && pngs[0].rgb)) continue;
        CHECK(!strstr(pngs[i].text, "Weights: i8r") == !words[i][0] || i == 3);
        for (int k = 0; k < 3 * 32 * 32; k++) {
            int d = abs(pngs[i].rgb[k] - pngs[0].rgb[k]);
            if (d > difference[i]) difference[i] = d;
        }
    }
    CHECK_MESSAGE(difference[1] > 0 && difference[1] < 48, "%d", difference[1]);
    CHECK(difference[2] == 0);
    CHECK(pngs[1].rgb && pngs[3].rgb && !memcmp(pngs[1].rgb, pngs[3].rgb, 3 * 32 * 32));
    for (int i = 0; i < 4; i++) free(pngs[i].rgb);
}

static void test_defaults(void) {
    outcome o = RUN("-m", MODEL, "-p", "x", "-v", "--steps", "1", "-o", (char *)in_work("d.png"));
    png_file png = read_png(in_work("d.png"));
    CHECK(o.code == 0 && png.sound && png.width == 64 && png.height == 64);
    CHECK(strstr(png.text, "Seed: 42, ") && strstr(png.text, "RNG: cpu, "));
    CHECK(strstr(o.err, "device memory") && strstr(o.err, "dispatches"));
    free(png.rgb);
}

/* Three pictures and what the device did for them; the seed after the last one is 0. */
static void test_batch(void) {
    outcome o = RUN(QUICK, "-q", "-s", "18446744073709551615", "-b", "3", "-o", (char *)in_work("b.png"), "--trace",
                    (char *)in_work("t.json"));
    size_t size = 0;
    unsigned char *text = load(in_work("t.json"), &size);
    diti_env env;
    diti_json *root = NULL;
    const diti_json *list, *event;
    uint32_t pictures = 0, products = 0;
    png_file png;
    diti_env_init(&env, NULL, NULL, NULL);
    CHECK_MESSAGE(o.code == 0 && !*o.out && !*o.err, "%s%s", o.out, o.err);
    if (CHECK(text && diti_json_parse(&env, (char *)text, size, "t.json", &root, NULL) == DIT_OK)) {
        list = diti_json_get(root, "traceEvents");
        for (event = list ? list->first : NULL; event; event = event->next) {
            pictures +=
                diti_equal(diti_json_string(event, "name", ""), "picture") && diti_json_number(event, "pid", 0) == 1;
            products += diti_equal(diti_json_string(event, "cat", ""), "gemm");
        }
        CHECK_MESSAGE(pictures == 3 && products > 20, "%u pictures and %u products in the trace", pictures, products);
    }
    diti_json_free(&env, root);
    free(text);
    CHECK(exists(in_work("b.png")) && exists(in_work("b_2.png")) && exists(in_work("b_3.png")) &&
          !exists(in_work("b_4.png")));
    o = RUN(QUICK, "-q", "-s", "1", "-o", (char *)in_work("single.png"));
    CHECK(o.code == 0);
    CHECK_MESSAGE(same_pixels(in_work("b_3.png"), in_work("single.png")), "picture 3 is not its single run");
    CHECK_MESSAGE(!same_pixels(in_work("b.png"), in_work("single.png")), "the seed changes nothing");
    png = read_png(in_work("b_3.png"));
    CHECK(strstr(png.text, "Seed: 1, "));
    free(png.rgb);
    png = read_png(in_work("b_2.png"));
    CHECK_MESSAGE(png.sound && strstr(png.text, "Seed: 0, "), "the seed after the last is 0");
    free(png.rgb);
}

/* --noise with what seeds 4 and 5 would draw gives the pictures and latents of a batch from seed 4; its second picture
   is made again from what it tells. */
static void test_noise_and_latents(void) {
    static float values[2][4 * 4 * 4];
    static diti_random random;
    const uint32_t shape[4] = {2, 4, 4, 4};
    const char *header = "{\"latent\":{\"dtype\":\"F32\",\"shape\":[2,4,4,4],";
    size_t size = 0, size_2 = 0;
    unsigned char *a, *b;
    png_file png;
    outcome o = RUN(QUICK, "-s", "4", "-b", "2", "-o", (char *)in_work("l"), "--latent-out", (char *)in_work("l4"));
    CHECK_MESSAGE(o.code == 0 && count_lines(o.out) == 2, "%s", o.err);
    for (uint64_t i = 0; i < 2; i++) {
        diti_random_seed(&random, 4 + i);
        diti_random_normal(&random, values[i], 4 * 4 * 4);
    }
    write_tensor(in_work("pair.safetensors"), "noise", shape, values[0]);
    o = RUN(QUICK, "-q", "--noise", (char *)in_work("pair.safetensors"), "-o", (char *)in_work("pair.png"),
            "--latent-out", (char *)in_work("n4"));
    CHECK_MESSAGE(o.code == 0, "%s", o.err);
    CHECK(same_pixels(in_work("l"), in_work("pair.png")) && same_pixels(in_work("l_2"), in_work("pair_2.png")));
    a = load(in_work("l4"), &size);
    b = load(in_work("n4"), &size_2);
    CHECK(a && b && size == size_2 && memcmp(a, b, size) == 0);
    CHECK_MESSAGE(a && size > 512 + 8 && a[0] % 8 == 0 && strncmp((char *)a + 8, header, strlen(header)) == 0, "%.60s",
                  a ? (char *)a + 8 : "");
    free(a);
    free(b);
    o = RUN("--repeat-from", (char *)in_work("pair_2.png"), "-m", MODEL, "-q", "-o", (char *)in_work("again.png"),
            "--latent-out", (char *)in_work("n5"));
    CHECK_MESSAGE(o.code == 0 && same_files(in_work("pair_2.png"), in_work("again.png")), "%s", o.err);
    png = read_png(in_work("pair_2.png"));
    CHECK_MESSAGE(strstr(png.text, "Noise: pair.safetensors, ") && strstr(png.text, "Noise picture: 2, "), "%s",
                  png.text);
    free(png.rgb);
    a = load(in_work("l4"), &size);
    b = load(in_work("n5"), &size_2);
    CHECK(a && b && size > size_2 && size_2 > 256 && memcmp(a + size - 256, b + size_2 - 256, 256) == 0);
    free(a);
    free(b);
}

static void test_terminal(void) {
    size_t widest = 0;
    char *line;
    png_file png;
    outcome o = run_as(STREAMS_TERMINAL, NO_STOP,
                       (char **)ARGS("-m", MODEL, "-p", "x", "--steps", "300", "-W", "32", "-H", "32", "--preview",
                                     (char *)in_work("preview.png"), "-o", (char *)in_work("t.png")));
    CHECK(o.code == 0);
    png = read_png(in_work("preview.png"));
    CHECK(png.sound && png.width >= 4 && png.width <= 32 && png.height >= 4);
    free(png.rgb);
    CHECK_MESSAGE(strchr(o.err, '\r') && strstr(o.err, "step "), "no progress line: %s", o.err);
    CHECK_MESSAGE(count_lines(o.err) == 0, "progress left lines behind: %s", o.err);
    for (line = strtok(o.err, "\r"); line; line = strtok(NULL, "\r")) {
        size_t length = strcspn(line, "\033");
        if (length > widest) widest = length;
    }
    CHECK_MESSAGE(widest > 10 && widest < NARROW, "%zu columns on a terminal of %d", widest, NARROW);
}

static int left_parts;
static int count_part(const char *path, const struct stat *info, int kind, struct FTW *ftw) {
    (void)info, (void)kind, (void)ftw;
    left_parts += strstr(path, ".part") != NULL;
    return 0;
}

static void test_interruption(int number) {
    interruption stop = {number, in_work("begun.png"), false};
    double begin = seconds();
    outcome o;
    remove(in_work("begun.png"));
    o = run_as(STREAMS_PIPES, stop,
               (char **)ARGS("-m", MODEL, "-p", "x", "--steps", "400", "-W", "128", "-H", "128", "-b", "9999",
                             "--preview", (char *)in_work("begun.png"), "-o", (char *)in_work("never.png"),
                             "--latent-out", (char *)in_work("never")));
    CHECK_MESSAGE(o.code == 128 + number, "exit code %d: %s", o.code, o.err);
    CHECK_MESSAGE(seconds() - begin < 60, "it took %.1f s to stop", seconds() - begin);
    CHECK_MESSAGE(strstr(o.err, "interrupted"), "it said %s", o.err);
    CHECK(!exists(in_work("never.png")) && !exists(in_work("never")));
    left_parts = 0;
    nftw(work, count_part, 16, FTW_PHYS);
    CHECK_MESSAGE(left_parts == 0, "%d half-written files", left_parts);
}

/* Interrupts clips that continue each other when the file is begun, or when the first picture is there. */
static void test_clip_interruption(const char *name, const char *first) {
    char path[320], begun[320];
    interruption stop = {SIGTERM, begun, !first};
    outcome o;
    snprintf(path, sizeof path, "%s", in_work(name));
    snprintf(begun, sizeof begun, "%s", in_work(first ? first : name));
    o = run_as(STREAMS_PIPES, stop,
               (char **)ARGS(QUICK_CLIP, "--loop", "1000", "--loop-frames", "1", "--steps", "100", "-o", path));
    CHECK_MESSAGE(o.code == 128 + SIGTERM && !exists(path), "%s: exit code %d: %s", name, o.code, o.err);
    left_parts = 0;
    nftw(work, count_part, 16, FTW_PHYS);
    CHECK_MESSAGE(left_parts == 0, "%s: %d half-written files", name, left_parts);
}

/* Interrupts before the first step: while the device is opened, the model is read or kernels are prepared. */
static void test_early_interruption(int number) {
    interruption stop = {number, "/", false};
    outcome o = run_as(STREAMS_PIPES, stop, (char **)ARGS(QUICK, "--steps", "400", "-o", (char *)in_work("never.png")));
    CHECK_MESSAGE(o.code == 128 + number, "exit code %d: %s", o.code, o.err);
    CHECK(!exists(in_work("never.png")));
}

/* As sd.cpp does, but from 1 on, as frames of clips are numbered. */
static void test_numbered_stills(void) {
    char *pattern = strdup(in_work("still-%03d.png"));
    outcome o = RUN(QUICK, "-q", "-b", "2", "-o", pattern);
    CHECK_MESSAGE(o.code == 0 && exists(in_work("still-001.png")) && exists(in_work("still-002.png")), "%s", o.err);
    CHECK(!exists(pattern));
    check_refusal(RUN(QUICK, "-o", "a%d%d.png"), 2, "the place of the number is written once");
    check_refusal(RUN(QUICK, "-i", (char *)in_work("still-002.png"), "-b", "2", "-o", pattern), 2,
                  "the same file as --init-img");
    free(pattern);
}

static void test_write_failure(void) {
    char command[400];
    outcome o = RUN(QUICK, "-q", "-o", "/dev/full");
    CHECK(one_line_saying(&o, 4, "/dev/full"));
    CHECK(setrlimit(RLIMIT_FSIZE, &(struct rlimit){1024, RLIM_INFINITY}) == 0);
    o = RUN(QUICK, "-q", "-W", "64", "-H", "64", "-o", (char *)in_work("limited.png"));
    CHECK(setrlimit(RLIMIT_FSIZE, &(struct rlimit){RLIM_INFINITY, RLIM_INFINITY}) == 0);
    CHECK(one_line_saying(&o, 4, "(ulimit -f)") && !exists(in_work("limited.png")));
    snprintf(command, sizeof command, "! ls '%s' | grep '\\.part$'", work);
    CHECK_MESSAGE(system(command) == 0, "half a file stays");
}

/* ---- Models and caches ---- */

static void test_cache(void) {
    char path[512] = "", command[700];
    FILE *list;
    struct stat info;
    snprintf(command, sizeof command, "ls %s/dit/* 2>/dev/null", in_work("cache"));
    list = popen(command, "r");
    if (list && fgets(path, sizeof path, list)) path[strcspn(path, "\n")] = 0;
    if (list) pclose(list);
    CHECK_MESSAGE(path[0] && stat(path, &info) == 0 && info.st_size > 8, "no pipeline cache was kept");
    if (!path[0]) return;
    CHECK(truncate(path, info.st_size / 2) == 0);
    outcome o = RUN(QUICK, "-q", "-o", (char *)in_work("c.png"));
    CHECK_MESSAGE(o.code == 0 && !*o.err, "%s", o.err);
    CHECK(stat(path, &info) == 0 && info.st_size > 8);
    CHECK(remove(path) == 0 && mkfifo(path, 0600) == 0);
    /* an output that is a symbolic link stays one, and its file is written */
    store(in_work("real.png"), "x", 1);
    CHECK(symlink("real.png", in_work("link.png")) == 0);
    o = RUN(QUICK, "-q", "-o", (char *)in_work("link.png"));
    CHECK_MESSAGE(o.code == 0 && !*o.err, "%s", o.err);
    CHECK(lstat(in_work("link.png"), &info) == 0 && S_ISLNK(info.st_mode));
    CHECK(stat(in_work("real.png"), &info) == 0 && info.st_size > 100);
    CHECK(remove(path) == 0);
}

static void test_damaged_model(void) {
    size_t size = 0;
    unsigned char *file = load(BUNDLED, &size);
    outcome o;
    if (!file) file = load("tests/fixtures/gguf_t5_q8_0/model.gguf", &size);
    if (!CHECK_MESSAGE(file, "no GGUF to damage")) return;
    store(in_work("half.gguf"), file, size / 2);
    o = RUN("-p", "x", "-m", (char *)in_work("half.gguf"), "-o", (char *)in_work("h.png"));
    CHECK(one_line_saying(&o, 3, "half.gguf"));
    file[8] ^= 0x40; /* the count of tensors */
    file[15] ^= 0x40;
    store(in_work("half.gguf"), file, size);
    o = RUN("-p", "x", "-m", (char *)in_work("half.gguf"), "-o", (char *)in_work("h.png"));
    CHECK(one_line_saying(&o, 3, "half.gguf"));
    o = RUN("-p", "x", "-m", "tests/fixtures/gguf_t5_q8_0/model.gguf", "-o", (char *)in_work("h.png"));
    CHECK(one_line_saying(&o, 3, "model.gguf"));
    CHECK(!exists(in_work("h.png")));
    free(file);
    file = load(BUNDLED, &size);
    if (file) store(in_work("half.gguf"), file, size / 2);
    o = RUN("-p", "x", "-m", BUNDLED, "--diffusion-model", (char *)in_work("half.gguf"));
    CHECK(file && one_line_saying(&o, 3, "--diffusion-model") && strstr(o.err, "half.gguf: "));
    o = RUN("-p", "x", "--diffusion-model", BUNDLED, "--vae", (char *)in_work("half.gguf"));
    CHECK(file && one_line_saying(&o, 3, "--vae") && strstr(o.err, "half.gguf: "));
    o = RUN("-p", "x", "-m", (char *)in_work("half.gguf"), "--vae", BUNDLED);
    CHECK(file && one_line_saying(&o, 3, "--model") && strstr(o.err, "half.gguf: "));
    free(file);
}

/* A pipeline's folder without one of its files, or with another in its place: the message is about that file. */
static void test_damaged_folder(void) {
    static const char reversed[] = "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,0]}}";
    static const struct {
        const char *file, *text, *says; /* text NULL: the file is not there */
    } damages[] = {
        {"tokenizer", NULL, "there is no tokenizer (--tokenizer names one), and the usual one does not do: "},
        {"transformer/config.json", NULL, "config.json is missing beside it: PixArt transformer: 0 heads"},
        {"tokenizer/special_tokens_map.json", "[]", "tokenizer/special_tokens_map.json: it is not an"},
        {"vae/diffusion_pytorch_model.safetensors", reversed, "data_offsets 4 to 0 run backwards"}};
    char command[512], path[320], data[256] = "";
    size_t i;
    for (i = 0; i < sizeof damages / sizeof damages[0]; i++) {
        outcome o;
        snprintf(command, sizeof command, "rm -rf %s && cp -r " MODEL " %s && rm -r %s/%s", in_work("damaged"),
                 in_work("damaged"), in_work("damaged"), damages[i].file);
        CHECK(system(command) == 0);
        snprintf(path, sizeof path, "%s/%s", in_work("damaged"), damages[i].file);
        if (damages[i].text == reversed) { /* a header, and four bytes */
            data[0] = (char)strlen(reversed);
            memcpy(data + 8, reversed, sizeof reversed);
            store(path, data, 8 + strlen(reversed) + 4);
        } else if (damages[i].text)
            store(path, damages[i].text, strlen(damages[i].text));
        o = RUN("-m", (char *)in_work("damaged"), "-p", "x");
        CHECK(one_line_saying(&o, 3, damages[i].says));
        CHECK(i || strstr(o.err, "tokenizer.json in "));
    }
}

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *ftw) {
    (void)info, (void)kind, (void)ftw;
    return remove(path);
}

/* ---- --info: what a model is, takes and lacks; nothing is loaded ---- */

/* The bundled model's header with none of its data. */
static size_t store_header(const char *path) {
    size_t size = 0;
    unsigned char *file = load(BUNDLED, &size);
    const size_t header = size / 10;
    if (file) store(path, file, header);
    free(file);
    return header;
}

static void test_info(void) {
    char whole[65536];
    unsigned char *text;
    size_t size = 0;
    outcome o = RUN("--info", BUNDLED, "-W", "256");
    CHECK_MESSAGE(o.code == 0 && !*o.err, "%s", o.err);
    CHECK_MESSAGE(strstr(o.out, BUNDLED ": pixart sigma\n10 layers, hidden 256, 4 heads, patch 2, 8 latent channels\n"),
                  "%s", o.out);
    CHECK_MESSAGE(strstr(o.out, "\ntransformer") && strstr(o.out, " 11,209,504 ") &&
                      strstr(o.out, "Q8_0 11.7 MB in 103"),
                  "%s", o.out);
    CHECK_MESSAGE(strstr(o.out, "missing: nothing\n") && strstr(o.out, "\n256x128 pixels, 20 steps\n") &&
                      strstr(o.out, "\ndevice memory: "),
                  "%s", o.out);
    memcpy(whole, o.out, sizeof whole);
    o = RUN("--info", BUNDLED);
    text = load("docs/memory.md", &size);
    if (CHECK(text != NULL)) {
        text[size - 1] = 0;
        CHECK_MESSAGE(strstr((char *)text, o.out), "docs/memory.md quotes another --info");
    }
    free(text);
    o = RUN("--info", "-m", BUNDLED, "--width=256");
    CHECK_MESSAGE(o.code == 0 && strcmp(whole, o.out) == 0, "--info without a value is another model: %s", o.out);
    o = RUN("--info", BUNDLED, "--info-level", "1");
    CHECK_MESSAGE(o.code == 0 && strstr(o.out, "missing: nothing\n") && !strstr(o.out, "device memory"), "%s", o.out);
}

/* Megabytes that a run of --info tells. */
static double told_memory(char **words) {
    outcome o = run_as(STREAMS_PIPES, NO_STOP, words);
    const char *at = strstr(o.out, "\ndevice memory: ");
    CHECK_MESSAGE(o.code == 0 && at, "%s%s", o.err, o.out);
    return at ? strtod(at + strlen("\ndevice memory: "), NULL) : 0;
}

/* Pictures that are given take memory, too: tokens of a reference, an encoder for a start, the blocks of a control net,
   which the picture that it follows may be left out for. */
static void test_info_given(void) {
    static char picture[] = "models/strip.png";
    const double klein = told_memory(ARGS("--info", KLEIN, "-W", "128", "-H", "128")),
                 flux = told_memory(ARGS("--info", FLUX, "-W", "128", "-H", "128"));
    outcome o;
    CHECK(told_memory(ARGS("--info", KLEIN, "-W", "128", "-H", "128", "-r", picture)) > 1.05 * klein);
    CHECK(told_memory(ARGS("--info", FLUX, "-W", "128", "-H", "128", "-i", picture)) > flux);
    o = RUN("--info", KLEIN, "-r", picture);
    CHECK_MESSAGE(o.code == 0 && strstr(o.out, "2896x368 pixels"), "%s%s", o.err, o.out);
    CHECK(told_memory(ARGS("--info", FLUX, "-W", "128", "-H", "128", "--control-net", FLUX_NET)) > 1.12 * flux);
    check_refusal(RUN("--info", KLEIN, "-r", "missing.png"), 3, "missing.png");
    o = RUN("--info", "tests/fixtures/pipe_longcat/transformer", "-r", "models/strip.png");
    CHECK_MESSAGE(o.code == 0 && !o.err[0] && strstr(o.out, "\nmemory is told with the autoencoder"), "%s%s", o.err,
                  o.out);
}

/* Models of clips: defaults, frames that are possible, and memory for as many as are asked for. */
static void test_info_clips(void) {
    outcome o = RUN("--info", CLIPS, "--frames", "12", "-W", "64", "-H", "48");
    CHECK_MESSAGE(o.code == 0 && !*o.err &&
                      strstr(o.out, "\nclips of 16 frames, 8 a second, unless told otherwise; "
                                    "frames possible: any number\n") &&
                      strstr(o.out, "\n64x48 pixels, 12 frames, 100 steps\n") && strstr(o.out, "\ndevice memory: "),
                  "%s%s", o.err, o.out);
    o = RUN("--info", CLIPS, "--frames", "0");
    CHECK(one_line_saying(&o, 2, "is 1"));
}

/* Every op and tensor; the peak is marked where most lives. */
static void test_info_plan(void) {
    outcome o = RUN("--info", CLASSES, "--info-level", "3", "--steps", "3", "-b", "2");
    const char *ops = strstr(o.out, "\nops: "), *tensors = strstr(o.out, "\ntensors: "), *line;
    unsigned peak = 0, first, last, marked = 0, spanning = 0;
    CHECK_MESSAGE(o.code == 0 && !*o.err && ops && tensors && ops < tensors, "%s%s", o.err, o.out);
    if (o.code || !ops || !tensors) return;
    CHECK(strstr(ops, "\nstep, each step\n") && strstr(ops, "\ndecode\n") && strstr(o.out, "2 pictures at a time"));
    CHECK(sscanf(strstr(tensors, "peak, op"), "peak, op %u", &peak) == 1);
    for (line = strchr(tensors + 1, '\n'); line && line[1]; line = strchr(line + 1, '\n')) {
        char mark = 0;
        if (!CHECK(sscanf(line, " %u %u%c", &first, &last, &mark) == 3 && first <= last)) return;
        if (strstr(line, "(kept)") && strstr(line, "(kept)") < strchr(line + 1, '\n')) continue;
        marked += mark == '*';
        spanning += first <= peak && peak <= last;
    }
    CHECK_MESSAGE(marked > 0 && marked == spanning, "%u marked, %u live at the peak", marked, spanning);
}

static void test_info_damaged(void) {
    char path[320];
    size_t size = 0, header;
    unsigned char *file;
    outcome o;
    snprintf(path, sizeof path, "%s", in_work("header.gguf"));
    header = store_header(path);
    o = RUN("--info", path);
    CHECK_MESSAGE(o.code == 0 && strstr(o.out, " 11,209,504 ") && strstr(o.out, "cut off: "), "%s%s", o.err, o.out);
    o = RUN("-m", path, "-p", "x", "-o", (char *)in_work("h.png"));
    CHECK(one_line_saying(&o, 3, "missing") && !exists(in_work("h.png")));
    file = load(path, &size);
    store(path, file, header / 50);
    free(file);
    o = RUN("--info", path);
    CHECK(one_line_saying(&o, 3, "header.gguf") && !*o.out);
    store(path, "", 0);
    o = RUN("--info", path);
    CHECK(one_line_saying(&o, 3, "header.gguf"));
    o = RUN("--info", "tests/fixtures/nothing.gguf");
    CHECK(one_line_saying(&o, 3, "nothing.gguf"));
    o = RUN("--info", BUNDLED, "-m", MODEL);
    CHECK(one_line_saying(&o, 2, "--model"));
    o = RUN("--info", BUNDLED, "--info-level", "4");
    CHECK(one_line_saying(&o, 2, "--info-level '4'"));
    o = RUN("--info", BUNDLED, "-W", "100");
    CHECK(one_line_saying(&o, 2, "96"));
}

/* A part of a pipeline is answered, too, with what it lacks and where that usually is. */
static void test_info_part(void) {
    size_t size = 0, header;
    unsigned char *file = load(MODEL "/transformer/diffusion_pytorch_model.safetensors", &size);
    unsigned char *config = load(MODEL "/transformer/config.json", &header);
    outcome o = RUN("--info", MODEL "/transformer");
    CHECK_MESSAGE(o.code == 0 && strstr(o.out, "missing: autoencoder, usually from PixArt-alpha/") &&
                      strstr(o.out, "missing: T5, usually from ") && strstr(o.out, "\ndevice memory: "),
                  "%s%s", o.err, o.out);
    CHECK(mkdir(in_work("headers"), 0700) == 0 && mkdir(in_work("headers/transformer"), 0700) == 0);
    if (file && config) {
        store(in_work("headers/transformer/config.json"), config, header);
        header = 8 + (size_t)file[0] + ((size_t)file[1] << 8);
        store(in_work("headers/transformer/diffusion_pytorch_model.safetensors"), file, header + 100);
    }
    o = RUN("--info", (char *)in_work("headers"));
    CHECK_MESSAGE(o.code == 0 && strstr(o.out, "pixart sigma") && strstr(o.out, "cut off: "), "%s%s", o.err, o.out);
    o = RUN("-m", (char *)in_work("headers"), "-p", "x");
    CHECK(one_line_saying(&o, 3, "missing"));
    o = RUN("--info", "tests/fixtures/t5_encoder");
    CHECK_MESSAGE(o.code == 0 && strstr(o.out, "no transformer") && strstr(o.out, "missing: transformer\n") &&
                      strstr(o.out, "127,824") && !strstr(o.out, "text encoder 2"),
                  "%s%s", o.err, o.out);
    o = RUN("--info", "tests/fixtures/flux_fill"); /* its memory depends on the autoencoder, which is missing */
    CHECK_MESSAGE(o.code == 0 && !o.err[0] && strstr(o.out, "missing: autoencoder") &&
                      strstr(o.out, "\nmemory is told with the autoencoder"),
                  "%s%s", o.err, o.out);
    o = RUN("--info", "tests/fixtures/pipe_ltx2/transformer"); /* a latent alone has no size in pixels */
    CHECK_MESSAGE(o.code == 0 && strstr(o.out, "\n30 steps, guidance 3, ") &&
                      strstr(o.out, "clips; their sizes and frames are told with the autoencoder\n") &&
                      strstr(o.out, "memory is told with the autoencoder, which tells the size of the clip\n"),
                  "%s%s", o.err, o.out);
    free(file);
    free(config);
}

/* Where no file tells a distilled model, --info says what it wants, and a run does whose model is called so. */
static void test_distilled(void) {
    static char advice[] = "ERNIE-Image-Turbo looks alike and wants 8 steps and guidance 1 (--steps, --cfg-scale)\n",
                *turbo;
    char *own[] = {NULL, "-q", "--steps=1", "--cfg-scale=2"}, target[512], command[1024],
         *made = (char *)in_work("turbo.gguf");
    size_t i;
    outcome o = RUN("--info", "tests/fixtures/pipe_ernie", "--info-level", "1");
    CHECK_MESSAGE(o.code == 0 && strstr(o.out, advice), "%s%s", o.err, o.out);
    if (!CHECK(getcwd(target, sizeof target - 32) != NULL)) return;
    strcat(target, "/tests/fixtures/pipe_ernie");
    turbo = (char *)in_work("ERNIE-Image-Turbo");
    CHECK(symlink(target, turbo) == 0);
    for (i = 0; i < sizeof own / sizeof own[0]; i++) { /* a width that cannot be ends each run before its work */
        o = RUN("-m", turbo, "-p", "x", "-W", "40", own[i]);
        CHECK_MESSAGE(o.code == 2 && !strstr(o.err, advice) == (i > 0), "%s: %s", own[i] ? own[i] : "", o.err);
    }
    o = RUN("-m", "tests/fixtures/pipe_ernie", "-p", "x", "-W", "40");
    CHECK(one_line_saying(&o, 2, "multiple of 16"));
    snprintf(command, sizeof command, "build/dit-convert %s/transformer --steps 8 --guidance 1 %s", turbo, made);
    CHECK(system(command) == 0);
    o = RUN("--info", made, "--info-level", "1");
    CHECK_MESSAGE(o.code == 0 && strstr(o.out, " 8 steps, guidance 1,") && !strstr(o.out, advice), "%s%s", o.err,
                  o.out);
    /* Half of a pair is told, too. */
    o = RUN("--info", "tests/fixtures/pipe_ideogram4/transformer");
    CHECK_MESSAGE(o.code == 0 && !o.err[0] && strstr(o.out, "\nmemory is told with the unconditional transformer"),
                  "%s%s", o.err, o.out);
    o = RUN("--info", "tests/fixtures/pipe_ideogram4/transformer", "--cfg-scale", "1");
    CHECK_MESSAGE(o.code == 0 && strstr(o.out, "\ndevice memory: "), "%s%s", o.err, o.out);
}

#define SMALL "-p", "banana", "--steps", "1", "-W", "64", "-H", "64"

/* Two experts from files of their own make what their folder makes, and not in the other order. A last frame makes
   another clip. */
static void test_experts(void) {
    char *ways[][4] = {
        {"-m", EXPERTS},
        {"--diffusion-model", EXPERTS "/transformer_2", "--high-noise-diffusion-model", EXPERTS "/transformer"},
        {"--diffusion-model", EXPERTS "/transformer", "--high-noise-diffusion-model", EXPERTS "/transformer_2"}};
    static const char *const made[] = {"folder.y4m", "experts.y4m", "turned.y4m"};
    outcome o = RUN("--high-noise-diffusion-model", EXPERTS "/transformer", "-p", "x");
    CHECK(one_line_saying(&o, 2, "name the other expert with --diffusion-model"));
    for (size_t i = 0; i < 3; i++) {
        o = RUN(ways[i][0], ways[i][1], "--t5", EXPERTS "/text_encoder", "--tokenizer", EXPERTS "/tokenizer", "--vae",
                EXPERTS "/vae", "-p", "x", "--frames", "5", "-W", "48", "-H", "32", "--steps", "2", "--flow-shift", "3",
                "-i", "models/strip.png", "-o", (char *)in_work(made[i]), ways[i][2], ways[i][3]);
        CHECK_MESSAGE(o.code == 0, "%s", o.err);
    }
    CHECK(same_files(in_work(made[0]), in_work(made[1])) && !same_files(in_work(made[0]), in_work(made[2])));
    o = RUN("-m", EXPERTS, "-p", "x", "--frames", "5", "-W", "48", "-H", "32", "--steps", "2", "--flow-shift", "3",
            "-i", "models/strip.png", "--end-img", "models/strip.png", "-o", (char *)in_work(made[1]));
    CHECK_MESSAGE(o.code == 0 && !same_files(in_work(made[0]), in_work(made[1])), "%s", o.err);
}

/* A LoRA of rank 1 for a layer of both experts. */
static void store_style(const char *path) {
    enum { WIDTH = 72 };
    static const char header[] = "{\"transformer.blocks.0.ffn.net.2.lora_A.weight\":"
                                 "{\"dtype\":\"F32\",\"shape\":[1,144],\"data_offsets\":[0,576]},"
                                 "\"transformer.blocks.0.ffn.net.2.lora_B.weight\":"
                                 "{\"dtype\":\"F32\",\"shape\":[72,1],\"data_offsets\":[576,864]}}";
    static unsigned char bytes[8 + sizeof header - 1 + 4 * 3 * WIDTH];
    const float value = 0.2f;
    bytes[0] = (unsigned char)(sizeof header - 1);
    memcpy(bytes + 8, header, sizeof header - 1);
    for (size_t i = 0; i < 3 * WIDTH; i++) memcpy(bytes + 8 + sizeof header - 1 + 4 * i, &value, sizeof value);
    store(path, bytes, sizeof bytes);
}

/* A clip of two steps, one of each expert, with these options. */
static outcome run_experts(const char *made, char *a, char *b, char *c, char *d) {
    return RUN("-m", EXPERTS, "-p", "x", "--frames", "5", "-W", "48", "-H", "32", "--steps", "2", "--flow-shift", "3",
               "-i", "models/strip.png", "-o", (char *)in_work(made), a, b, c, d);
}

/* A LoRA is for the expert that its name or what stands before it tells, else for both. Each expert has guidance. */
static void test_one_expert(void) {
    char *plain = strdup(in_work("style.safetensors")), *high = strdup(in_work("Style-HighNoise_v2.safetensors")),
         *low = strdup(in_work("style_LOW.safetensors")), told_high[300], told_low[300];
    outcome o;
    store_style(plain);
    store_style(high);
    store_style(low);
    snprintf(told_high, sizeof told_high, "|high_noise|%s", plain);
    snprintf(told_low, sizeof told_low, "|low_noise|%s;|high_noise|%s:0", plain, plain);
    o = run_experts("none.y4m", NULL, NULL, NULL, NULL);
    CHECK_MESSAGE(o.code == 0, "%s", o.err);
    o = run_experts("both.y4m", "--lora", plain, NULL, NULL);
    CHECK_MESSAGE(o.code == 0 && !strstr(o.err, "expert"), "%s", o.err);
    o = run_experts("pair.y4m", "--lora", high, "--lora", low);
    CHECK_MESSAGE(o.code == 0 &&
                      strstr(o.err, "LoRA Style-HighNoise_v2.safetensors is for the expert for high noise") &&
                      strstr(o.err, "LoRA style_LOW.safetensors is for the expert for low noise, by its name"),
                  "%s", o.err);
    CHECK(same_files(in_work("both.y4m"), in_work("pair.y4m")));
    o = run_experts("high.y4m", "--lora", high, NULL, NULL);
    CHECK(o.code == 0);
    o = run_experts("told.y4m", "--lora", told_high, NULL, NULL);
    CHECK(o.code == 0 && same_files(in_work("high.y4m"), in_work("told.y4m")));
    o = run_experts("low.y4m", "--lora", low, NULL, NULL);
    CHECK(o.code == 0 && !same_files(in_work("low.y4m"), in_work("high.y4m")));
    CHECK(!same_files(in_work("low.y4m"), in_work("both.y4m")) && !same_files(in_work("low.y4m"), in_work("none.y4m")));
    CHECK(!same_files(in_work("high.y4m"), in_work("both.y4m")));
    o = run_experts("told.apng", "--lora", told_low, "--low-noise-cfg-scale", "1");
    CHECK_MESSAGE(o.code == 0, "%s", o.err);
    check_told(in_work("told.apng"), "CFG scale: 3.5, Low noise CFG scale: 1, ");
    check_told(in_work("told.apng"), "LoRA: \"|low_noise|style.safetensors:1\"");
    o = run_experts("less.y4m", "--low-noise-cfg-scale", "1", NULL, NULL);
    CHECK(o.code == 0 && !same_files(in_work("less.y4m"), in_work("none.y4m")));
    free(plain);
    free(high);
    free(low);
}

#define GUIDED "tests/fixtures/pipe_ideogram4"

/* A transformer for the unconditional half of guidance is the one of the folder, or another one by its option. */
static void test_unconditional(void) {
    static const char *const made[] = {"folder.png", "named.png", "turned.png"};
    char *parts[][2] = {{"-m", GUIDED},
                        {"--uncond-diffusion-model", GUIDED "/unconditional_transformer"},
                        {"--uncond-diffusion-model", GUIDED "/transformer"}};
    outcome o = RUN("--uncond-diffusion-model", GUIDED "/transformer", "-p", "x");
    CHECK(one_line_saying(&o, 2, "name the other transformer with --diffusion-model"));
    o = RUN("--uncond-diffusion-model", GUIDED, "--high-noise-diffusion-model", GUIDED, "--diffusion-model", GUIDED,
            "-p", "x");
    CHECK(one_line_saying(&o, 2, "no model has both"));
    o = RUN("-m", EXPERTS, "--uncond-diffusion-model", EXPERTS "/transformer_2", "-p", "x");
    CHECK(one_line_saying(&o, 2, "--uncond-diffusion-model is of Ideogram 4"));
    o = RUN("-m", GUIDED, "--high-noise-diffusion-model", GUIDED "/transformer", "-p", "x");
    CHECK(one_line_saying(&o, 2, "--high-noise-diffusion-model is of Wan 2.2"));
    o = RUN("-m", "tests/fixtures/pipe_krea2", "--uncond-diffusion-model", "tests/fixtures/pipe_krea2/transformer",
            "-p", "x");
    CHECK(one_line_saying(&o, 3, "Krea 2 has one transformer; leave out this one"));
    for (size_t i = 0; i < 3; i++) {
        o = RUN("-m", GUIDED, parts[i][0], parts[i][1], "--llm", "tests/fixtures/pipe_krea2/text_encoder",
                "--tokenizer", "tests/fixtures/pipe_krea2/tokenizer", "--vae", "tests/fixtures/pipe_flux2_klein/vae",
                "-p", "x", "-W", "48", "-H", "32", "--steps", "1", "-o", (char *)in_work(made[i]));
        CHECK_MESSAGE(o.code == 0, "%s", o.err);
    }
    CHECK(same_pixels(in_work(made[0]), in_work(made[1])) && !same_pixels(in_work(made[0]), in_work(made[2])));
    /* The last step is guided less, where nobody asks for one scale in all of them. */
    o = RUN("-m", GUIDED, "--llm", "tests/fixtures/pipe_krea2/text_encoder", "--tokenizer",
            "tests/fixtures/pipe_krea2/tokenizer", "--vae", "tests/fixtures/pipe_flux2_klein/vae", "-p", "x", "-W",
            "48", "-H", "32", "--steps", "1", "--cfg-scale", "7", "-o", (char *)in_work(made[1]));
    CHECK(o.code == 0 && !same_pixels(in_work(made[0]), in_work(made[1])));
    check_told(in_work(made[0]), "CFG scale: 7, Low noise CFG scale: 3, ");
    check_told(in_work(made[1]), "CFG scale: 7, Seed");
    o = RUN("--repeat-from", (char *)in_work(made[0]), "-m", GUIDED, "--llm", "tests/fixtures/pipe_krea2/text_encoder",
            "--tokenizer", "tests/fixtures/pipe_krea2/tokenizer", "--vae", "tests/fixtures/pipe_flux2_klein/vae", "-o",
            (char *)in_work(made[2]));
    CHECK(o.code == 0 && same_pixels(in_work(made[0]), in_work(made[2])));
}

#define SEES "tests/fixtures/pipe_hunyuanvideo15"

/* Models that read the picture which they move have an image encoder, which may be a file of its own. */
static void test_image_encoder(void) {
    outcome o = RUN("--diffusion-model", "tests/fixtures/wan21_i2v", "--t5", "tests/fixtures/umt5_encoder",
                    "--tokenizer", EXPERTS "/tokenizer", "--vae", EXPERTS "/vae", "-p", "x", "-i", "models/strip.png");
    CHECK(one_line_saying(&o, 3, "it has no image encoder; add it with --clip-vision FILE"));
    o = RUN("-m", SEES, "-p", "x", "-i", "models/strip.png");
    CHECK(one_line_saying(&o, 2, "(one that does and is a single file wants --clip-vision FILE, too)"));
    o = RUN("-m", SEES, "--clip-vision", SEES "/image_encoder", "-p", "x", "-i", "models/strip.png");
    CHECK(one_line_saying(&o, 3, "an image encoder serves models that read the picture which they move"));
}

/* Autoencoders whose latents have as many channels and other values are refused. */
static void test_foreign_vae(void) {
    static char kl[] = "tests/fixtures/pipe_kandinsky/vae";
    char target[512], *scale;
    size_t size = 0;
    unsigned char *config = load("tests/fixtures/pipe_kandinsky/vae/config.json", &size);
    outcome o = RUN("-m", "tests/fixtures/pipe_zimage", "--vae", "tests/fixtures/vae_wan", "-p", "x");
    CHECK(
        one_line_saying(&o, 3, "the VAE is like Wan's and Qwen-Image's, and a model of family zimage wants one like"));
    o = RUN("-m", "tests/fixtures/pipe_krea2", "--vae", kl, "-p", "x");
    CHECK(one_line_saying(&o, 3, "the VAE is like FLUX.1's and SD3's, and a model of family krea2 wants one like"));
    if (!CHECK(config && getcwd(target, sizeof target - 96))) return;
    config[size - 1] = 0;
    scale = strstr((char *)config, "0.3611");
    if (CHECK(scale != NULL)) memcpy(scale, "1.5305", 6);
    strcat(target, "/tests/fixtures/pipe_kandinsky/vae/diffusion_pytorch_model.safetensors");
    CHECK(mkdir(in_work("sd3_vae"), 0700) == 0 &&
          symlink(target, in_work("sd3_vae/diffusion_pytorch_model.safetensors")) == 0);
    store(in_work("sd3_vae/config.json"), config, strlen((char *)config));
    o = RUN("-m", "tests/fixtures/pipe_kandinsky", "--vae", (char *)in_work("sd3_vae"), "-p", "x");
    CHECK(one_line_saying(&o, 3, "the VAE is that of SD3"));
    free(config);
}

/* Parts of a model may lie elsewhere; one sentence names each part that is missing. */
static void test_parts(void) {
    static char flux[] = "tests/fixtures/gguf_flux_sdcpp/model.gguf", clip[] = "tests/fixtures/clip_l_proj",
                t5[] = "tests/fixtures/umt5_encoder", tokenizer[] = "tests/fixtures/tokenizers/clip";
    outcome o = RUN("--diffusion-model", flux, "-p", "x");
    CHECK(one_line_saying(&o, 3, "no CLIP-L text encoder; add it with --clip-l FILE"));
    o = RUN("--diffusion-model", flux, "--clip_l", clip, "--tokenizer", tokenizer, "-p", "x");
    CHECK(one_line_saying(&o, 3, "no T5 text encoder; add it with --t5 FILE"));
    /* The bundled tokenizers of CLIP and T5 are too large for these encoders. */
    o = RUN("--diffusion-model", flux, "--clip-l", clip, "-p", "x");
    CHECK(one_line_saying(&o, 3, "tokenizer of CLIP-L has a token 1"));
    o = RUN("--diffusion-model", flux, "--clip-l", clip, "--t5xxl", t5, "--tokenizer", tokenizer, "-p", "x");
    CHECK(one_line_saying(&o, 3, "tokenizer of T5 has a token 1"));
    o = RUN("-m", "tests/fixtures/hunyuandit_v12", "-p", "x");
    CHECK(one_line_saying(&o, 3, "no BERT text encoder; add it with --clip-l FILE"));
    o = RUN("--diffusion-model", flux, "--clip-l", t5, "-p", "x");
    CHECK(one_line_saying(&o, 3, "not a CLIP text encoder"));
    o = RUN("-m", MODEL, "--clip-l", MODEL "/vae", "-p", "x");
    CHECK(one_line_saying(&o, 3, "no T5, which the text_encoder of this model is"));
    o = RUN("-m", MODEL, "--clip-l", MODEL "/text_encoder", "-p", "x");
    CHECK(one_line_saying(&o, 2, "--clip-l " MODEL "/text_encoder: this model has a T5 there; name that with --t5"));
    /* Language models stand where CLIP-L does elsewhere, and have a name of their own. */
    o = RUN("--diffusion-model", "tests/fixtures/pipe_zimage/transformer", "-p", "x");
    CHECK(one_line_saying(&o, 3, "no Qwen3 text encoder; add it with --llm FILE"));
    o = RUN("--diffusion-model", "tests/fixtures/pipe_zimage/transformer", "--llm",
            "tests/fixtures/pipe_zimage/text_encoder", "--tokenizer", "tests/fixtures/pipe_zimage/tokenizer", "-p",
            "x");
    CHECK(one_line_saying(&o, 3, "no autoencoder; add it with --vae FILE"));
    test_experts();
    test_one_expert();
    test_unconditional();
    test_image_encoder();
    test_foreign_vae();
    o = RUN("-m", MODEL, "--vae", "tests/fixtures/nothing", "-p", "x");
    CHECK(one_line_saying(&o, 3, "--vae tests/fixtures/nothing: No such file"));
    o = RUN("-m", MODEL, "--t5", clip, "-p", "x");
    CHECK(one_line_saying(&o, 3, "holds no part"));
    /* Nothing but the named part of a whole model is taken. */
    o = RUN("-m", "tests/fixtures/pipe_flux", "--t5", BUNDLED, "-p", "x");
    CHECK(one_line_saying(&o, 3, "T5) gives 256 channels, the transformer wants 48"));
    o = RUN("-m", "tests/fixtures/pipe_flux", "--tokenizer", BUNDLED, "-p", "x");
    CHECK(one_line_saying(&o, 3, "no CLIP-L text encoder"));
    o = RUN("-m", "tests/fixtures/pipe_dit", "--t5", BUNDLED, "--class", "1");
    CHECK(one_line_saying(&o, 3, "no T5 text encoder"));
    o = RUN("-m", "tests/fixtures/pipe_dit", "--tokenizer", BUNDLED, "--class", "1");
    CHECK(one_line_saying(&o, 3, "no tokenizer"));
    o = RUN("-m", MODEL, "--taesd", "tests/fixtures/taesd", "--vae", "tests/fixtures/pipe_dit/vae", SMALL, "-o",
            (char *)in_work("parts.png"));
    CHECK_MESSAGE(o.code == 0 && exists(in_work("parts.png")), "%s", o.err);
}

/* ---- Device memory that runs out: less is taken, step by step, each said once; pictures stay the same but for tiles
 * --- */

static int count_of(const char *text, const char *word) {
    int count = 0;
    for (; (text = strstr(text, word)) != NULL; text++) count++;
    return count;
}

static bool relieved(const outcome *o, bool tiles, bool encoders, bool weights) {
    bool good = o->code == 0 && count_of(o->err, "--vae-tiling") == tiles &&
                count_of(o->err, "--offload-to-cpu") == encoders && count_of(o->err, "--weight-budget") == weights &&
                count_of(o->err, "memory ran out") == tiles + encoders + weights;
    if (!good) fprintf(stderr, "    exit code %d; it said: %s\n", o->code, o->err);
    return good;
}

/* The loader reads two variables, the second one first. */
static outcome run_without_drivers(void) {
    static const char *const names[] = {"VK_ICD_FILENAMES", "VK_DRIVER_FILES"};
    char *drivers[2];
    outcome o;
    size_t i;
    for (i = 0; i < 2; i++) {
        drivers[i] = getenv(names[i]) ? strdup(getenv(names[i])) : NULL;
        setenv(names[i], "/nowhere.json", 1);
    }
    o = RUN("-m", BUNDLED, SMALL, "-o", (char *)in_work("none.png"), "--clip-on-cpu");
    for (i = 0; i < 2; i++) {
        if (drivers[i])
            setenv(names[i], drivers[i], 1);
        else
            unsetenv(names[i]);
        free(drivers[i]);
    }
    return o;
}

/* Installed below a prefix the program finds its model there; without one it says what to do. */
static void test_prefix(void) {
    const char *here = program;
    char *cwd = realpath(".", NULL), target[512];
    size_t size = 0;
    unsigned char *binary = load(here, &size);
    outcome o;
    CHECK(mkdir(in_work("bin"), 0700) == 0 && mkdir(in_work("share"), 0700) == 0 &&
          mkdir(in_work("share/dit"), 0700) == 0);
    store(in_work("bin/dit"), binary, size);
    CHECK(chmod(in_work("bin/dit"), 0700) == 0);
    program = in_work("bin/dit");
    o = RUN("-p", "banana", "-o", (char *)in_work("installed.png"));
    CHECK(one_line_saying(&o, 3, "--model"));
    snprintf(target, sizeof target, "%s/%s", cwd, BUNDLED);
    CHECK(symlink(target, in_work("share/dit/emoji-q8_0.gguf")) == 0);
    o = RUN(SMALL, "-o", (char *)in_work("installed.png"));
    CHECK(relieved(&o, false, false, false) && exists(in_work("installed.png")));
    program = here;
    free(binary);
    free(cwd);
}

static void test_memory_runs_out(void) {
    char plenty[320], less[320];
    png_file png;
    outcome o;
    snprintf(plenty, sizeof plenty, "%s", in_work("installed.png")); /* of test_prefix */
    snprintf(less, sizeof less, "%s", in_work("less.png"));
    if (sweep()) {
        o = RUN("-m", BUNDLED, SMALL, "-o", less, "--device-memory", "19M");
        CHECK(relieved(&o, false, true, false) && same_pixels(plenty, less));
        o = RUN("-m", BUNDLED, SMALL, "-o", less, "--device-memory", "9M", "-q");
        CHECK(o.code == 0 && !*o.err);
    }
    o = RUN("-m", BUNDLED, SMALL, "-o", less, "--device-memory", "9M");
    CHECK(relieved(&o, false, true, true) && same_pixels(plenty, less));
    o = RUN(SMALL, "-o", less, "--clip-on-cpu"); /* without a model: the one that is below the working folder */
    CHECK(relieved(&o, false, false, false) && same_pixels(plenty, less));
    png = read_png(less);
    CHECK_MESSAGE(strstr(png.text, "Size: 64x64, Model: emoji-q8_0, "), "%s", png.text);
    free(png.rgb);
    if (sweep()) {
        o = RUN("-p", "banana", "-q", "--steps", "2", "-o", less);
        png = read_png(less);
        CHECK_MESSAGE(o.code == 0 && png.sound && png.width == 128 && png.height == 128, "%s", o.err);
        free(png.rgb);
    }
    o = run_without_drivers();
    CHECK_MESSAGE(o.code == 5 && strstr(o.err, "--clip-on-cpu: "), "%d: %s", o.code, o.err);
    o = RUN("-m", BUNDLED, SMALL, "-o", (char *)in_work("none.png"), "--device-memory", "2M");
    CHECK_MESSAGE(o.code == 6 && count_of(o.err, "--offload-to-cpu") == 1 && !exists(in_work("none.png")), "%d: %s",
                  o.code, o.err);
    o = RUN("-m", MODEL, SMALL, "-W", "256", "-H", "256", "-o", less, "--device-memory", "6M");
    CHECK(relieved(&o, true, false, false) && exists(less));
}

/* dit-plan on this machine: a table that it reads again, a plan of it that build/dit runs, and one rank of two alone.
 */
static void test_planner(void) {
    const char *usual = program;
    char table[320], plan[320];
    outcome o;
    snprintf(table, sizeof table, "@%s", in_work("table.json"));
    snprintf(plan, sizeof plan, "@%s", in_work("plan.json"));
    program = "build/dit-plan";
    o = RUN("--measure", table + 1, "-d", "0,0");
    CHECK_MESSAGE(o.code == 0 && strstr(o.out, "device 1, ") && strstr(o.out, "all to all"), "%d: %s", o.code, o.err);
    o = RUN("-m", "flux", "-d", table, "--methods", "ulysses", "-o", plan + 1);
    CHECK_MESSAGE(o.code == 0 && strstr(o.out, "2 devices, measured") && strstr(o.out, "ulysses2"), "%s", o.err);
    o = RUN("--run-rank", "1", "--split", "cfg2", "-m", MODEL, "-W", "32", "-H", "32", "--steps", "3", "-d", "0");
    CHECK_MESSAGE(o.code == 0 && strstr(o.out, "rank 1 of 2, cfg2 on ") && strstr(o.out, "ms of arithmetic a step"),
                  "%s", o.err);
    o = RUN("--run-rank", "1", "--split", "cfg2", "-m", "absent.gguf", "-d", "0");
    CHECK_MESSAGE(o.code == 3 && strstr(o.err, "absent.gguf"), "%d: %s", o.code, o.err);
    o = RUN("--measure", table + 1, "-d", "no such device");
    CHECK_MESSAGE(o.code == 5 && strstr(o.err, "no such device"), "%d: %s", o.code, o.err);
    program = usual;
    o = RUN("-m", MODEL, "-p", "apple", "-W", "32", "-H", "32", "--steps", "1", "--devices", "0,0", "--split", plan,
            "--resume-on-loss", "-o", (char *)in_work("split.png"));
    CHECK_MESSAGE(o.code == 0 && strstr(o.err, "dit: device 0, ") && strstr(o.err, "heads 1-1 of 2; ") &&
                      strstr(o.err, " % of the work, sends "),
                  "%d: %s", o.code, o.err);
    o = RUN("--info", MODEL, "--devices", "0,0", "--split", "ulysses2,int8", "-W", "32", "-H", "32");
    CHECK_MESSAGE(o.code == 0 && strstr(o.out, "\nsplit over devices: ulysses2,int8\n"), "%d: %s", o.code, o.err);
    o = RUN("-m", MODEL, "-p", "apple", "--devices", "0", "--split", "@absent.json");
    CHECK_MESSAGE(o.code != 0 && strstr(o.err, "absent.json"), "%d: %s", o.code, o.err);
}

/* All programs end with the same codes, and say so in their help. */
static void test_exit_codes(void) {
    static const char codes[] = "Exit codes: 0 good, 2 wrong usage, 3 model or input file, 4 output, 5 device,\n"
                                "6 out of memory, 130 interrupted, 1 anything else.\n";
    static const char *const programs[] = {"build/dit-convert", "build/dit-plan", "build/dit-bench"};
    static const struct {
        int program, code;
        const char *args[8];
    } cases[] = {{0, 2, {"--fast", "a", "b.gguf"}},
                 {0, 3, {"tests/fixtures/none", "none.gguf"}},
                 {0, 4, {MODEL, "/no/such/folder/none.gguf"}},
                 {1, 2, {"-m", "nothing", "-d", "4xT4"}},
                 {1, 2, {"-m", "flux", "-d", "4xT4", "-o", "build/none", "--gantt", "build/none"}},
                 {1, 3, {"-m", "flux", "-d", "@absent.json"}},
                 {1, 4, {"-m", "flux", "-d", "4xT4", "-o", "/proc/plan.json"}},
                 {1, 5, {"--measure", "/dev/null", "-d", "no such device"}},
                 {2, 2, {"gem"}},
                 {2, 2, {"copy", "--report", "build/none", "--cache", "./build/none"}},
                 {2, 3, {"model", "--model", "no/such/file.gguf"}},
                 {2, 4, {"copy", "--report", "/no/such/folder/report.md"}},
                 {2, 5, {"copy", "--device", "no such device"}}};
    const char *usual = program;
    outcome o = RUN("--help");
    CHECK(strstr(o.out, codes));
    for (size_t i = 0; i < 3; i++) {
        program = programs[i];
        o = RUN("--help");
        CHECK_MESSAGE(o.code == 0 && strstr(o.out, codes), "%s --help: %s", program, o.out);
    }
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char *args[10] = {"dit"};
        for (int k = 0; k < 8; k++) args[k + 1] = (char *)cases[i].args[k];
        program = programs[cases[i].program];
        o = run_as(STREAMS_PIPES, NO_STOP, args);
        CHECK_MESSAGE(o.code == cases[i].code && count_lines(o.err) == 1, "%s %s %s: %d, not %d: %s", program, args[1],
                      args[2], o.code, cases[i].code, o.err);
    }
    program = "build/dit-convert";
    o = RUN(MODEL, "none.gguf", "--help");
    CHECK(o.code == 0 && strstr(o.out, codes));
    program = usual;
}

/* dit-convert leaves nothing half-written, and what was there. Q4_K takes it long enough to be interrupted on a busy
 * machine. */
static void test_interrupted_conversion(int number) {
    interruption stop = {number, in_work("converted.gguf"), true};
    const char *usual = program;
    struct stat info;
    outcome o;
    store(in_work("converted.gguf"), "old", 3);
    program = "build/dit-convert";
    o = run_as(STREAMS_PIPES, stop, (char **)ARGS("--type", "q4_k", BUNDLED, (char *)in_work("converted.gguf")));
    CHECK_MESSAGE(o.code == 128 + number, "exit code %d: %s", o.code, o.err);
    CHECK(stat(in_work("converted.gguf"), &info) == 0 && info.st_size == 3);
    left_parts = 0;
    nftw(work, count_part, 16, FTW_PHYS);
    CHECK_MESSAGE(left_parts == 0, "%d half-written files", left_parts);
    program = usual;
}

int main(int argc, char **argv) {
    if (argc > 1) program = argv[1];
    snprintf(work, sizeof work, "%s/dit-cli-XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
    if (!mkdtemp(work) || mkdir(in_work("cache"), 0700) != 0) return 1;
    signal(SIGPIPE, SIG_IGN);
    test_answers();
    test_refusals();
    test_picture();
    test_start_picture();
    if (sweep()) test_references(); /* the table of refusals and the goldens have references in make test */
    test_loras();
    test_steered();
    test_start_pictures();
    test_overwriting();
    test_names();
    test_encoder_without_memory();
    test_noise_refusals();
    test_noise_truncated();
    test_noise_and_latents();
    test_repeating();
    test_standard_output();
    test_conditioning();
    test_clip();
    test_usual_clip();
    test_walk();
    test_clip_noise();
    test_given_frames();
    test_last_frame();
    test_begun();
    test_followed();
    test_page();
    test_class();
    test_types();
    test_without_effect();
    test_streams();
    test_full_programs();
    test_defaults();
    test_batch();
    test_terminal();
    test_interruption(SIGINT);
    if (sweep()) test_interruption(SIGTERM);
    test_early_interruption(SIGTERM);
    if (sweep()) test_early_interruption(SIGINT);
    test_clip_interruption("never.apng", NULL);
    if (sweep()) test_clip_interruption("never%d.png", "never1.png");
    if (sweep() && system("ffmpeg -version >/dev/null 2>&1") == 0) test_clip_interruption("never.mp4", NULL);
    test_numbered_stills();
    test_write_failure();
    test_cache();
    test_damaged_model();
    test_damaged_folder();
    test_prefix();
    test_memory_runs_out();
    test_info();
    test_info_given();
    test_info_clips();
    test_info_plan();
    test_info_damaged();
    test_info_part();
    test_distilled();
    test_parts();
    test_planner();
    test_exit_codes();
    test_interrupted_conversion(SIGINT);
    test_interrupted_conversion(SIGTERM);
    nftw(work, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    return TEST_END("cli");
}
