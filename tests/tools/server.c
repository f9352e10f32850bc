/* build/dit --serve: pictures by OpenAI's and A1111's API equal those of the command line; what is malformed, too
   large, too slow or too much is refused in a sentence; clients that leave end their work. DIT_TEST_ALL adds OpenAI's
   own client, the usual one of A1111's API, a browser, and a hundred clients at a time with AddressSanitizer in the
   server.   test-runs: lavapipe */
#define _GNU_SOURCE
#include "library.h"
#include "test.h"
#include "work_folder.h"
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/socket.h>
#include <sys/wait.h>
#define STBI_ONLY_PNG
#define STB_IMAGE_STATIC
#define STB_IMAGE_IMPLEMENTATION
#define STB_IMAGE_WRITE_STATIC
#define STB_IMAGE_WRITE_IMPLEMENTATION
#if defined(__GNUC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"
#pragma GCC diagnostic ignored "-Wunused-but-set-variable"
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"
#endif
#include <stb/stb_image.h>
#include <stb/stb_image_write.h>
#if defined(__GNUC__)
#pragma GCC diagnostic pop
#endif

#define MODEL "tests/fixtures/pipe_pixart_sigma" /* two blocks, random weights: quick */

static char here[400];

static void pause_for(int milliseconds) {
    const struct timespec t = {0, milliseconds * 1000000};
    nanosleep(&t, NULL);
}

/* ---- The server ---- */

typedef struct served {
    pid_t pid;
    int port;
} served;

/* Starts program and waits until it says where it listens; port 0: it did not. */
static served start(const char *program) {
    served s = {0, 0};
    char loras[400], *args[] = {"dit", "-m", MODEL,     "--steps", "2",          "-W",  "32",
                                "-H",  "32", "--serve", "0",       "--lora-dir", loras, NULL},
                     log[400] = "", *at;
    const double begin = seconds();
    remove(in_work("log"));
    snprintf(loras, sizeof loras, "%s", in_work("loras"));
    s.pid = fork();
    if (s.pid == 0) {
        const int file = open(in_work("log"), O_WRONLY | O_CREAT | O_APPEND, 0600);
        dup2(file, 2);
        setenv("XDG_CACHE_HOME", in_work("cache"), 1);
        setenv("HOME", work, 1);
        setenv("ASAN_OPTIONS", "detect_leaks=1:exitcode=99", 1);
        execv(program, args);
        _exit(127);
    }
    while (!s.port && seconds() - begin < 60) {
        FILE *file = fopen(in_work("log"), "r");
        size_t n = file ? fread(log, 1, sizeof log - 1, file) : 0;
        log[n] = 0;
        if (file) fclose(file);
        at = strstr(log, "http://127.0.0.1:");
        if (at) s.port = atoi(at + 17);
        if (waitpid(s.pid, NULL, WNOHANG) == s.pid) break;
        pause_for(20);
    }
    return s;
}

/* Ends the server as Ctrl-C does; gives its exit code. */
static int stop(served *s) {
    int status = 0;
    kill(s->pid, SIGINT);
    waitpid(s->pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static bool logged(const char *text) {
    static char log[200000];
    FILE *file = fopen(in_work("log"), "r");
    size_t n = file ? fread(log, 1, sizeof log - 1, file) : 0;
    log[n] = 0;
    if (file) fclose(file);
    return strstr(log, text) != NULL;
}

/* ---- A client ---- */

static int dial(const served *s) {
    struct sockaddr_in to = {0};
    const struct timeval limit = {60, 0};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    to.sin_family = AF_INET;
    to.sin_port = htons((uint16_t)s->port);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    if (connect(fd, (struct sockaddr *)&to, sizeof to) != 0) return close(fd), -1;
    return fd;
}

static bool say(int fd, const void *data, size_t size) {
    const char *p = data;
    while (size) {
        ssize_t n = send(fd, p, size, MSG_NOSIGNAL);
        if (n <= 0) return false;
        p += n;
        size -= (size_t)n;
    }
    return true;
}

typedef struct reply {
    int status; /* 0: none came */
    char *text; /* headers and body; freed with free */
    const char *body;
    size_t size; /* of the body */
} reply;

static reply hear(int fd) {
    reply r = {0};
    size_t length = 0, room = 1 << 16;
    ssize_t n;
    r.text = malloc(room + 1);
    while (r.text && (n = recv(fd, r.text + length, room - length, 0)) > 0) {
        length += (size_t)n;
        if (length == room) r.text = realloc(r.text, (room *= 2) + 1);
    }
    close(fd);
    if (!r.text) return r;
    r.text[length] = 0;
    if (sscanf(r.text, "HTTP/1.1 %d", &r.status) != 1) r.status = 0;
    r.body = strstr(r.text, "\r\n\r\n");
    r.body = r.body ? r.body + 4 : r.text + length;
    r.size = length - (size_t)(r.body - r.text);
    return r;
}

static int request(const served *s, const char *method, const char *path, const char *headers, const void *body,
                   size_t size) {
    char head[1000];
    int fd = dial(s);
    snprintf(head, sizeof head,
             "%s %s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nConnection: close\r\nContent-Length: %zu\r\n%s\r\n", method, path,
             s->port, size, headers);
    if (fd >= 0 && (!say(fd, head, strlen(head)) || !say(fd, body, size))) fprintf(stderr, "    nobody listens\n");
    return fd;
}

static reply get(const served *s, const char *path) { return hear(request(s, "GET", path, "", "", 0)); }

static reply post(const served *s, const char *path, const char *json) {
    return hear(request(s, "POST", path, "Content-Type: application/json\r\n", json, strlen(json)));
}

/* Whether a reply has this status and text; frees it. */
static bool says(reply r, int status, const char *text) {
    const bool good = r.status == status && r.body && strstr(r.body, text);
    if (!good) fprintf(stderr, "    %d, not %d and '%s': %.300s\n", r.status, status, text, r.body ? r.body : "");
    free(r.text);
    return good;
}

/* The bytes behind "key":"...base64..." or ["...base64; the number-th of them. */
static unsigned char *unbase64(const char *text, const char *key, size_t *size) {
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *p = strstr(text, key), *at;
    unsigned char *out = malloc(strlen(text) + 4);
    uint32_t bits = 0, held = 0;
    *size = 0;
    for (p = p ? p + strlen(key) : ""; *p && (at = strchr(letters, *p)) != NULL; p++) {
        bits = bits << 6 | (uint32_t)(at - letters);
        if ((held += 6) >= 8) out[(*size)++] = (unsigned char)(bits >> (held -= 8));
    }
    return out;
}

static bool is_file(const char *text, const char *key, const char *path) {
    size_t size, length = 0;
    unsigned char *bytes = unbase64(text, key, &size), *whole = malloc(1 << 20);
    FILE *file = fopen(path, "rb");
    bool same;
    if (file) length = fread(whole, 1, 1 << 20, file);
    if (file) fclose(file);
    same = size && size == length && memcmp(bytes, whole, size) == 0;
    if (!same) fprintf(stderr, "    %zu bytes and %zu\n", size, length);
    free(bytes);
    free(whole);
    return same;
}

static int shell(const char *format, ...) {
    char command[2000], whole[3000];
    va_list args;
    va_start(args, format);
    vsnprintf(command, sizeof command, format, args);
    va_end(args);
    snprintf(whole, sizeof whole,
             "export XDG_CACHE_HOME=%s/cache WORK=%s DIT='build/dit -m " MODEL " --steps 2 -W 32 -H 32'; %s", work,
             work, command);
    int status = system(whole);
    return WEXITSTATUS(status);
}

/* ---- Pictures ---- */

#define FORM "Content-Type: multipart/form-data; boundary=cut\r\n"

static char *add_file(char *p, const char *field, const char *name) {
    FILE *file = fopen(in_work(name), "rb");
    p += sprintf(p,
                 "--cut\r\nContent-Disposition: form-data; name=\"%s\"; filename=\"a.png\"\r\n"
                 "Content-Type: image/png\r\n\r\n",
                 field);
    if (file) p += fread(p, 1, 15000, file);
    if (file) fclose(file);
    return p + sprintf(p, "\r\n");
}

/* A form that has fox.png edited, with a mask or without; gives its size. */
static size_t make_form(char *form, const char *mask, const char *seed) {
    char *p = form + sprintf(form,
                             "--cut\r\nContent-Disposition: form-data; name=\"prompt\"\r\n\r\nin snow\r\n--cut\r\n"
                             "Content-Disposition: form-data; name=\"seed\"\r\n\r\n%s\r\n",
                             seed);
    p = add_file(p, "image", "fox.png");
    if (mask) p = add_file(p, "mask", mask);
    p += sprintf(p, "--cut--\r\n");
    return (size_t)(p - form);
}

/* The left half transparent; the left half white, also in twice the size. */
static void make_masks(void) {
    static unsigned char alpha[32][32][4], white[32][32][3], large[64][64][3];
    for (int y = 0; y < 64; y++)
        for (int x = 0; x < 64; x++) memset(large[y][x], x < 32 ? 255 : 0, 3);
    CHECK(stbi_write_png(in_work("twice.png"), 64, 64, 3, large, 0));
    for (int y = 0; y < 32; y++)
        for (int x = 0; x < 32; x++) alpha[y][x][3] = x < 16 ? 0 : 255, memset(white[y][x], x < 16 ? 255 : 0, 3);
    CHECK(stbi_write_png(in_work("alpha.png"), 32, 32, 4, alpha, 0) &&
          stbi_write_png(in_work("white.png"), 32, 32, 3, white, 0));
}

/* Whether the picture behind key has the pixels of a file; their texts may differ. */
/* Whether each value of a picture is off by `most` at most. */
static bool near_pixels(const char *text, const char *key, const char *name, int most) {
    size_t size;
    int w = 0, h = 0, w2 = 0, h2 = 0, n, i;
    unsigned char *bytes = unbase64(text, key, &size), *a = stbi_load_from_memory(bytes, (int)size, &w, &h, &n, 3),
                  *b = stbi_load(in_work(name), &w2, &h2, &n, 3);
    bool near = a && b && w == w2 && h == h2;
    for (i = 0; near && i < w * h * 3; i++) near = abs(a[i] - b[i]) <= most;
    free(bytes);
    free(a);
    free(b);
    return near;
}

static bool same_pixels(const char *text, const char *key, const char *name) { return near_pixels(text, key, name, 0); }

/* A form with an image, and another one unless more is NULL; gives its size. */
static size_t make_collage(char *form, const char *model, const char *more, const char *file) {
    char *p = form + sprintf(form,
                             "--cut\r\nContent-Disposition: form-data; name=\"prompt\"\r\n\r\nin snow\r\n--cut\r\n"
                             "Content-Disposition: form-data; name=\"size\"\r\n\r\n64x64\r\n--cut\r\n"
                             "Content-Disposition: form-data; name=\"seed\"\r\n\r\n7\r\n--cut\r\n"
                             "Content-Disposition: form-data; name=\"model\"\r\n\r\n%s\r\n",
                             model);
    p = add_file(p, "image[]", "large.png");
    if (more) p = add_file(p, more, file);
    return (size_t)(p + sprintf(p, "--cut--\r\n") - form);
}

/* Several images are references of models that take them, and elsewhere refused. */
static void test_collage(const served *s) {
    static char form[60000];
    size_t size;
    reply r;
    CHECK(
        shell("$DIT -p 'a red fox' -W 64 -H 64 -q -o $WORK/large.png && $DIT -p hare -W 64 -H 64 -q -o $WORK/hare.png "
              "&& $DIT -m $WORK/models/klein -p 'in snow' -s 7 -W 64 -H 64 -q -r $WORK/large.png -r $WORK/hare.png "
              "-o $WORK/collage.png") == 0);
    size = make_collage(form, "klein", "image[]", "hare.png");
    r = hear(request(s, "POST", "/v1/images/edits", FORM, form, size));
    CHECK_MESSAGE(r.status == 200 && same_pixels(r.body, "\"b64_json\":\"", "collage.png"), "%d %.300s", r.status,
                  r.body);
    free(r.text);
    size = make_collage(form, "klein", NULL, NULL); /* one image of a model that edits pictures is a reference, too */
    CHECK(shell("$DIT -m $WORK/models/klein -p 'in snow' -s 7 -W 64 -H 64 -q -r $WORK/large.png -o $WORK/edited.png") ==
          0);
    r = hear(request(s, "POST", "/v1/images/edits", FORM, form, size));
    CHECK_MESSAGE(r.status == 200 && same_pixels(r.body, "\"b64_json\":\"", "edited.png"), "%d %.300s", r.status,
                  r.body);
    free(r.text);
    size = make_collage(form, "", "image[]", "hare.png");
    CHECK(says(hear(request(s, "POST", "/v1/images/edits", FORM, form, size)), 400,
               "this model (pixart sigma) takes no references"));
    size = make_collage(form, "klein", "image", "log");
    CHECK(says(hear(request(s, "POST", "/v1/images/edits", FORM, form, size)), 400, "image 2: this is no PNG or JPEG"));
}

static void test_openai(const served *s) {
    reply r;
    char form[40000];
    size_t size;
    FILE *file;
    CHECK(shell("$DIT -p 'a red fox' -s 7 -o $WORK/fox.png -q") == 0);
    r = post(s, "/v1/images/generations",
             "{\"model\":\"dall-e-2\",\"prompt\":\"a red fox\",\"seed\":7,\"size\":\"32x32\"}");
    CHECK_MESSAGE(r.status == 200 && is_file(r.body, "\"b64_json\":\"", in_work("fox.png")), "%d %.200s", r.status,
                  r.body);
    free(r.text);
    r = post(
        s, "/v1/images/generations",
        "{\"prompt\":\"a red fox\",\"seed\":7,\"n\":2,\"size\":\"auto\",\"response_format\":\"url\",\"user\":null}");
    CHECK_MESSAGE(r.status == 200 && strstr(r.body, "{\"url\":\"http://127.0.0.1:") &&
                      strstr(r.body, "/pictures/3\"}]}"),
                  "%s", r.body);
    free(r.text);
    r = post(
        s, "/v1/images/generations",
        "{\"prompt\":\"a red fox\",\"seed\":7,\"width\":48,\"height\":32,\"sampler_name\":\"Euler a\",\"scheduler\":"
        "\"karras\",\"output_compression\":0}");
    CHECK(shell("$DIT -p 'a red fox' -s 7 -W 48 --sampler euler-a --scheduler karras -o $WORK/wide.png -q") == 0);
    CHECK_MESSAGE(r.status == 200 && same_pixels(r.body, "\"b64_json\":\"", "wide.png"), "%d %.200s", r.status, r.body);
    free(r.text);
    r = get(s, "/pictures/2");
    CHECK(r.status == 200 && strstr(r.text, "image/png") && r.size > 100);
    file = fopen(in_work("second.png"), "wb");
    fwrite(r.body, 1, r.size, file);
    fclose(file);
    free(r.text);
    CHECK(shell("cmp $WORK/second.png $WORK/fox.png") == 0);
    CHECK(says(get(s, "/pictures/99"), 404, "not kept"));
    CHECK(says(get(s, "/pictures"), 200, "{\"number\":3,\"text\":\"a red fox\\u000aSteps: 2"));
    CHECK(says(get(s, "/v1/models"), 200, "\"id\":\"pipe_pixart_sigma\""));
    /* Edits: --strength 0.75 without a mask, 1 with one, and what is transparent is repainted. */
    size = make_form(form, NULL, "7");
    r = hear(request(s, "POST", "/v1/images/edits", FORM, form, size));
    CHECK(shell("$DIT -p 'in snow' -s 7 -i $WORK/fox.png -q -o $WORK/snow.png") == 0);
    CHECK_MESSAGE(r.status == 200 && same_pixels(r.body, "\"b64_json\":\"", "snow.png"), "%d %.300s", r.status, r.body);
    free(r.text);
    size =
        make_form(form, NULL, "7\r\n--cut\r\nContent-Disposition: form-data; name=\"denoising_strength\"\r\n\r\n0.5");
    r = hear(request(s, "POST", "/v1/images/edits", FORM, form, size));
    CHECK(shell("$DIT -p 'in snow' -s 7 -i $WORK/fox.png --strength 0.5 -q -o $WORK/less.png") == 0);
    CHECK_MESSAGE(r.status == 200 && same_pixels(r.body, "\"b64_json\":\"", "less.png"), "%d %.300s", r.status, r.body);
    free(r.text);
    make_masks();
    size = make_form(form, "alpha.png", "7");
    r = hear(request(s, "POST", "/v1/images/edits", FORM, form, size));
    CHECK(shell("$DIT -p 'in snow' -s 7 -i $WORK/fox.png --mask $WORK/white.png --strength 1 -q -o $WORK/half.png") ==
          0);
    CHECK_MESSAGE(r.status == 200 && same_pixels(r.body, "\"b64_json\":\"", "half.png"), "%d %.300s", r.status, r.body);
    free(r.text);
    size = make_form(form, "white.png", "7"); /* for A1111's API */
    CHECK(says(hear(request(s, "POST", "/v1/images/edits", FORM, form, size)), 400,
               "the mask: nothing of it is transparent"));
    CHECK(says(hear(request(s, "POST", "/v1/images/edits", FORM, form, 90)), 400, "image is missing"));
    size = make_form(form, NULL, "nan");
    CHECK(says(hear(request(s, "POST", "/v1/images/edits", FORM, form, size)), 400, "seed must be a number"));
    size = make_form(form, NULL, "18446744073709551616");
    CHECK(says(hear(request(s, "POST", "/v1/images/edits", FORM, form, size)), 400, "--seed '18446744073709551616'"));
    CHECK(says(post(s, "/v1/images/generations", "{\"prompt\":\"x\",\"model\":\"latte\",\"size\":\"32x32\"}"), 200,
               "\"data\":[{\"b64_json\":\"iVBOR")); /* one frame, and no clip in a file of the server's folder */
    CHECK(access("output.apng", F_OK) != 0);
    CHECK(says(post(s, "/v1/images/edits", "{}"), 400, "must be a form"));
    CHECK(says(post(s, "/v1/images/generations", "{}"), 400, "\"error\":{\"message\":\"prompt is missing"));
    CHECK(says(post(s, "/v1/images/generations", "{\"prompt\":\"x\",\"n\":11}"), 400,
               "n must be a whole number from 1 to 10"));
    CHECK(says(post(s, "/v1/images/generations", "{\"prompt\":\"x\",\"size\":\"big\"}"), 400,
               "size must be WIDTHxHEIGHT"));
    CHECK(says(post(s, "/v1/images/generations", "{\"prompt\":\"x\",\"model\":\"none\"}"), 404,
               "there is no model 'none'"));
    CHECK(says(post(s, "/v1/images/generations", "{\"prompt\":\"x\",\"size\":\"33x32\"}"), 400,
               "nearest valid value is 32"));
    CHECK(
        says(post(s, "/v1/images/generations", "{\"prompt\":\"x\",\"output_format\":\"bmp\"}"), 400, "output_format"));
    r = post(s, "/v1/images/generations", "{\"prompt\":\"x\",\"size\":\"16384x32\",\"output_format\":\"webp\"}");
    CHECK_MESSAGE(strstr(r.body, "has at most 16383 pixels, and 16384x32 are made") ||
                      strstr(r.body, "one that this server writes"),
                  "%d %.300s", r.status, r.body);
    free(r.text);
}

static char *add_base64(char *p, const char *name) {
    char command[400];
    FILE *base64;
    snprintf(command, sizeof command, "base64 -w 0 '%s'", in_work(name));
    base64 = popen(command, "r");
    p += fread(p, 1, 20000, base64);
    pclose(base64);
    return p;
}

/* fox.png begins, with a mask or without; the picture is that of the command line. */
static void check_img2img(const served *s, const char *mask, const char *more, const char *wanted, int most) {
    char json[60000], *p = json;
    reply r;
    p += sprintf(p, "{\"prompt\":\"in snow\",\"seed\":7%s,\"init_images\":[\"data:image/png;base64,", more);
    p = add_base64(p, "fox.png");
    p += sprintf(p, "\"]");
    if (mask) {
        p += sprintf(p, ",\"denoising_strength\":1,\"mask\":\"");
        p = add_base64(p, mask);
        p += sprintf(p, "\"");
    }
    sprintf(p, "}");
    r = post(s, "/sdapi/v1/img2img", json);
    CHECK_MESSAGE(r.status == 200, "%d %.300s", r.status, r.body);
    CHECK_MESSAGE(near_pixels(r.body, "\"images\":[\"", wanted, most), "img2img makes other pixels than %s%s", wanted,
                  more);
    free(r.text);
}

static void test_a1111(const served *s) {
    reply r =
        post(s, "/sdapi/v1/txt2img",
             "{\"prompt\":\"a red fox\",\"negative_prompt\":\"\",\"seed\":7,\"width\":32,\"height\":32,\"steps\":2,"
             "\"sampler_name\":\"\",\"batch_size\":1,\"n_iter\":2,\"restore_faces\":false,\"alwayson_scripts\":{}}");
    CHECK_MESSAGE(r.status == 200 && is_file(r.body, "\"images\":[\"", in_work("fox.png")), "%d %.200s", r.status,
                  r.body);
    CHECK_MESSAGE(strstr(r.body, "\\\"all_seeds\\\":[7,8]") &&
                      strstr(r.body, "\\\"infotexts\\\":[\\\"a red fox\\\\u000aSteps: 2"),
                  "%.100s", r.body);
    free(r.text);
    check_img2img(s, NULL, "", "snow.png", 0);
    CHECK(shell("$DIT -p 'in snow' -s 7 -i $WORK/fox.png --mask $WORK/white.png --strength 1 --mask-blur 4 -q -o "
                "$WORK/soft.png") == 0);
    CHECK(shell("$DIT -p 'in snow' -s 7 -i $WORK/fox.png --mask $WORK/white.png --strength 1 --mask-blur 2 "
                "--padding-mask-crop 3 -q -o $WORK/alone.png") == 0);
    check_img2img(s, "white.png", "", "soft.png", 0);
    check_img2img(s, "alpha.png", ",\"inpainting_mask_invert\":1", "soft.png", 0);
    check_img2img(s, "twice.png", ",\"mask_blur\":4,\"inpaint_full_res\":false", "soft.png", 24); /* grey edges */
    check_img2img(s, "white.png", ",\"mask_blur\":2,\"inpaint_full_res\":1,\"inpaint_full_res_padding\":3", "alone.png",
                  0);
    CHECK(says(post(s, "/sdapi/v1/img2img", "{\"init_images\":[\"aGFsbG8=\"],\"mask\":[\"aGFsbG8=\"]}"), 400,
               "mask must be a picture in base64"));
    CHECK(says(post(s, "/sdapi/v1/img2img", "{\"prompt\":\"x\"}"), 400, "init_images must hold a picture"));
    CHECK(says(post(s, "/sdapi/v1/img2img", "{\"prompt\":\"x\",\"init_images\":[\"%%%\"]}"), 400, "in base64"));
    CHECK(
        says(post(s, "/sdapi/v1/img2img", "{\"prompt\":\"x\",\"init_images\":[\"aGFsbG8=\"]}"), 400, "no PNG or JPEG"));
    CHECK(says(post(s, "/sdapi/v1/txt2img", "{\"prompt\":\"x\",\"seed\":18446744073709551615}"), 200,
               "\\\"all_seeds\\\":[18446744073709551615]"));
    CHECK(says(post(s, "/sdapi/v1/txt2img", "{\"prompt\":\"x\",\"seed\":18446744073709551616}"), 400,
               "--seed '18446744073709551616'"));
    CHECK(says(post(s, "/sdapi/v1/txt2img", "{\"prompt\":\"x\",\"steps\":\"many\"}"), 400, "steps must be a number"));
    CHECK(says(post(s, "/sdapi/v1/txt2img", "{\"prompt\":\"x\",\"steps\":5000}"), 400, "--steps '5000'"));
    CHECK(says(post(s, "/sdapi/v1/txt2img", "{\"prompt\":\"x\",\"sampler_name\":\"warp\"}"), 400, "--sampler 'warp'"));
    CHECK(says(post(s, "/sdapi/v1/txt2img", "{\"prompt\":\"x\",\"batch_size\":9,\"n_iter\":9}"), 400, "64 at most"));
    CHECK(says(post(s, "/sdapi/v1/txt2img", "{\"prompt\":\"x\",\"seed\":5,\"steps\":2.0,\"batch_size\":2.0}"), 200,
               "\\\"all_seeds\\\":[5,6]"));
    CHECK(says(post(s, "/sdapi/v1/txt2img", "{\"prompt\":\"x\",\"subseed_strength\":0.1}"), 400, "from one seed"));
    CHECK(says(post(s, "/sdapi/v1/txt2img", "{\"prompt\":\"x\",\"script_name\":\"x/y/z plot\"}"), 400, "no scripts"));
    CHECK(says(post(s, "/sdapi/v1/txt2img", "{\"prompt\":\"x\",\"restore_faces\":true}"), 400, "restore_faces: "));
    CHECK(says(post(s, "/sdapi/v1/txt2img", "{\"prompt\":\"x\",\"refiner_checkpoint\":\"fox\"}"), 400, "one model"));
    CHECK(says(post(s, "/sdapi/v1/txt2img", "{\"prompt\":\"x\",\"styles\":[\"fox\"]}"), 400, "styles: "));
    CHECK(says(post(s, "/sdapi/v1/txt2img",
                    "{\"prompt\":\"x\",\"alwayson_scripts\":{\"controlnet\":{\"args\":[{\"image\":\"aGFsbG8=\"}]}}}"),
               400, "alwayson_scripts: there are no scripts"));
    CHECK(says(post(s, "/sdapi/v1/options", "{\"sd_model_checkpoint\":7}"), 400, "must be a text"));
    CHECK(says(
        post(
            s, "/sdapi/v1/txt2img",
            "{\"prompt\":\"x\",\"styles\":[],\"enable_hr\":false,\"tiling\":false,\"subseed_strength\":0.0,\"script_name\":null}"),
        200, "\"images\":[\""));
    CHECK(says(post(s, "/v1/images/generations", "{\"prompt\":\"x\",\"stream\":true}"), 400,
               "stream: pictures are sent"));
    CHECK(says(post(s, "/v1/images/generations", "{\"prompt\":\"x\",\"background\":\"transparent\"}"), 400,
               "background: pictures have no transparent parts"));
    CHECK(
        says(post(s, "/sdapi/v1/txt2img", "{\"prompt\":\"x\",\"n_iter\":1.5}"), 400, "n_iter must be a whole number"));
    CHECK(says(get(s, "/sdapi/v1/samplers"), 200, "{\"name\":\"euler\",\"aliases\":[],\"options\":{}}"));
    CHECK(says(get(s, "/sdapi/v1/schedulers"), 200, "\"name\":\"karras\""));
    CHECK(says(get(s, "/sdapi/v1/sd-models"), 200, "\"model_name\":\"pipe_pixart_sigma\""));
    CHECK(says(get(s, "/sdapi/v1/options"), 200, "\"sd_model_checkpoint\":\"pipe_pixart_sigma\""));
    CHECK(says(post(s, "/sdapi/v1/options", "{\"sd_model_checkpoint\":\"none\"}"), 404, "no model 'none'"));
    CHECK(
        says(post(s, "/sdapi/v1/options", "{\"sd_model_checkpoint\":\"pipe_pixart_sigma\",\"other\":1}"), 200, "null"));
    CHECK(says(post(s, "/sdapi/v1/options", "{\"sd_model_checkpoint\":\"fox/small\"}"), 200, "null"));
    CHECK(says(get(s, "/sdapi/v1/options"), 200, "\"sd_model_checkpoint\":\"small\""));
    CHECK(says(post(s, "/sdapi/v1/options", "{\"sd_model_checkpoint\":\"small\"}"), 200, "null"));
    CHECK(says(post(s, "/sdapi/v1/options", "{\"sd_model_checkpoint\":\"pipe_pixart_sigma\"}"), 200, "null"));
    CHECK(says(get(s, "/sdapi/v1/progress"), 200, "{\"progress\":0,\"eta_relative\":0,\"state\":{"));
    CHECK(says(post(s, "/sdapi/v1/interrupt", "{}"), 200, "{}"));
}

/* Members of stable-diffusion.cpp's and SillyTavern's requests to A1111's API. */
static void test_a1111_further(const served *s) {
    static const char *const wrong[] = {"{}", "[7]", "[{\"path\":7}]", "[{\"path\":\"a>b\"}]", "\"style\""};
    char json[60000], *p = json;
    reply r;
    CHECK(shell("$DIT -p 'a red fox <lora:style:0.8>' --lora-dir $WORK/loras -s 7 -o $WORK/style.png -q") == 0);
    r = post(
        s, "/sdapi/v1/txt2img",
        "{\"prompt\":\"a red fox\",\"seed\":7,\"clip_skip\":1,\"override_settings\":{\"CLIP_stop_at_last_layers\":1},"
        "\"lora\":[{\"path\":\"style.safetensors\",\"multiplier\":0.8,\"is_high_noise\":false}]}");
    CHECK_MESSAGE(r.status == 200 && same_pixels(r.body, "\"images\":[\"", "style.png"), "%d %.200s", r.status, r.body);
    free(r.text);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        snprintf(json, sizeof json, "{\"prompt\":\"x\",\"lora\":%s}", wrong[i]);
        CHECK(says(post(s, "/sdapi/v1/txt2img", json), 400, "lora must be a list such as"));
    }
    CHECK(says(post(s, "/sdapi/v1/txt2img", "{\"prompt\":\"x\",\"lora\":[{\"path\":\"../style\"}]}"), 400,
               "without a folder"));
    CHECK(says(post(s, "/sdapi/v1/txt2img", "{\"prompt\":\"x\",\"override_settings\":{\"sd_vae\":\"Automatic\"}}"), 200,
               "\"images\":[\""));
    CHECK(
        says(post(s, "/sdapi/v1/txt2img", "{\"prompt\":\"x\",\"override_settings\":{\"sd_vae\":\"fox.safetensors\"}}"),
             400, "sd_vae: pictures are decoded by"));
    CHECK(says(post(s, "/sdapi/v1/txt2img", "{\"prompt\":\"x\",\"init_images\":[\"aGFsbG8=\"]}"), 400,
               "img2img begins with a picture"));
    CHECK(says(post(s, "/sdapi/v1/img2img", "{\"prompt\":\"x\",\"init_images\":[\"aGFsbG8=\",\"aGFsbG8=\"]}"), 400,
               "init_images must hold one picture"));
    CHECK(says(post(s, "/sdapi/v1/txt2img", "{\"prompt\":\"x\",\"clip_skip\":2}"), 400,
               "--clip-skip: this model uses no layers"));
    CHECK(says(post(s, "/sdapi/v1/txt2img", "{\"prompt\":\"x\",\"clip_skip\":\"two\"}"), 400,
               "clip_skip must be a whole number"));
    p += sprintf(p, "{\"prompt\":\"in snow\",\"seed\":7,\"width\":64,\"height\":64,\"override_settings\":{"
                    "\"sd_model_checkpoint\":\"klein\"},\"extra_images\":[\"");
    p = add_base64(p, "large.png");
    p = add_base64(p + sprintf(p, "\",\""), "hare.png");
    sprintf(p, "\"]}");
    r = post(s, "/sdapi/v1/txt2img", json);
    CHECK_MESSAGE(r.status == 200 && same_pixels(r.body, "\"images\":[\"", "collage.png"), "%d %.200s", r.status,
                  r.body);
    free(r.text);
    CHECK(says(post(s, "/sdapi/v1/txt2img", "{\"prompt\":\"x\",\"extra_images\":\"aGFsbG8=\"}"), 400,
               "extra_images must be a list"));
    CHECK(says(post(s, "/sdapi/v1/txt2img", "{\"prompt\":\"x\",\"extra_images\":[\"aGFsbG8=\"]}"), 400,
               "image 1: this is no PNG"));
    CHECK(says(get(s, "/sdapi/v1/loras"), 200,
               "[{\"name\":\"style\",\"alias\":\"style\",\"path\":\"style.safetensors\",\"metadata\":{}}]"));
    CHECK(says(get(s, "/sdapi/v1/upscalers"), 200, "[{\"name\":\"None\","));
    CHECK(says(get(s, "/sdapi/v1/upscalers"), 200, "{\"name\":\"Lanczos\",\"model_name\":null,"));
    CHECK(
        says(get(s, "/sdapi/v1/latent-upscale-modes"), 200, "[{\"name\":\"Latent\"},{\"name\":\"Latent (nearest)\"},"));
}

/* ---- Requests that are malformed, large, slow or foreign ---- */

static void test_malformed(const served *s) {
    static const char *const bodies[] = {"",
                                         "{",
                                         "[]",
                                         "null",
                                         "7",
                                         "\"x\"",
                                         "{\"prompt\":}",
                                         "{\"prompt\":7}",
                                         "{\"prompt\":[\"x\"]}",
                                         "{\"prompt\":\"\xff\"}",
                                         "{\"prompt\":\"x\\ud800\"}",
                                         "{\"prompt\":\"x\"} x",
                                         "{\"prompt\":\"x\\u0000y\"}"};
    static const char *const raw[] = {"\r\n\r\n",
                                      "GET\r\n\r\n",
                                      "GET / HTTP/9.9\r\n\r\n",
                                      "POST /v1/images/generations HTTP/1.1\r\nHost: "
                                      "localhost\r\nContent-Length: -5\r\n\r\n",
                                      "POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: "
                                      "chunked\r\n\r\nzz\r\n",
                                      "\x16\x03\x01\x02",
                                      "GET /%ff HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"};
    static const struct {
        const char *method, *path, *allow;
    } methods[] = {{"DELETE", "/", "GET, HEAD"},
                   {"POST", "/", "GET, HEAD"},
                   {"POST", "/pictures/1", "GET, HEAD"},
                   {"POST", "/v1/models", "GET, HEAD"},
                   {"GET", "/v1/images/generations", "POST"},
                   {"HEAD", "/v1/images/edits", "POST"},
                   {"GET", "/sdapi/v1/txt2img", "POST"},
                   {"PUT", "/sdapi/v1/options", "GET, HEAD, POST"}};
    char *deep = malloc(1000001);
    size_t i;
    for (i = 0; i < sizeof bodies / sizeof bodies[0]; i++)
        for (int k = 0; k < 2; k++) {
            reply r = post(s, k ? "/sdapi/v1/txt2img" : "/v1/images/generations", bodies[i]);
            CHECK_MESSAGE(r.status == 400, "%s: %d", bodies[i], r.status);
            free(r.text);
        }
    memset(deep, '[', 1000000);
    deep[1000000] = 0;
    CHECK(says(post(s, "/v1/images/generations", deep), 400, "no JSON"));
    free(deep);
    for (i = 0; i < sizeof raw / sizeof raw[0]; i++) {
        const struct timeval moment = {0, 300000}; /* what is no request at all may get no answer */
        int fd = dial(s);
        reply r;
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &moment, sizeof moment);
        say(fd, raw[i], strlen(raw[i]));
        shutdown(fd, SHUT_WR);
        r = hear(fd);
        CHECK_MESSAGE(r.status == 0 || r.status >= 400, "%s: %d", raw[i], r.status);
        free(r.text);
    }
    CHECK(says(get(s, "/nothing"), 404, "nothing at /nothing"));
    CHECK(says(post(s, "/v1/nothing", "{}"), 404, "\"error\":{\"message\""));
    for (i = 0; i < sizeof methods / sizeof methods[0]; i++) {
        reply r = hear(request(s, methods[i].method, methods[i].path, "", "", 0));
        char allow[64];
        snprintf(allow, sizeof allow, "\r\nAllow: %s\r\n", methods[i].allow);
        CHECK_MESSAGE(r.status == 405 && strstr(r.text, allow), "%s %s: %.300s", methods[i].method, methods[i].path,
                      r.text);
        CHECK(strcmp(methods[i].method, "HEAD") == 0 || strstr(r.body, " is not understood at /"));
        free(r.text);
    }
    CHECK(says(hear(request(s, "GET", "/", "Origin: http://evil.example\r\n", "", 0)), 403, "another site"));
    CHECK(says(get(s, "/"), 200, "<title>dit</title>"));
}

/* A form with too many fields, and a text that a byte of zero would cut. */
static void test_forms(const served *s) {
    static char form[20000];
    char *p = form;
    for (int i = 0; i < 70; i++)
        p += sprintf(p, "--cut\r\nContent-Disposition: form-data; name=\"f%d\"\r\n\r\nx\r\n", i);
    p += sprintf(p, "--cut--\r\n");
    CHECK(
        says(hear(request(s, "POST", "/v1/images/edits", FORM, form, (size_t)(p - form))), 400, "more than 64 fields"));
    p = form + sprintf(form, "--cut\r\nContent-Disposition: form-data; name=\"prompt\"\r\n\r\nx.y\r\n");
    *strchr(form, '.') = 0;
    p = add_file(p, "image", "fox.png");
    p += sprintf(p, "--cut--\r\n");
    CHECK(says(hear(request(s, "POST", "/v1/images/edits", FORM, form, (size_t)(p - form))), 400,
               "prompt is no text in UTF-8"));
}

static void test_foreign_host(const served *s) {
    static const char foreign[] = "GET / HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n";
    int fd = dial(s);
    say(fd, foreign, sizeof foreign - 1);
    CHECK(says(hear(fd), 403, "another site"));
}

static void test_huge(const served *s) {
    char head[300], *chunk = malloc(1 << 20);
    bool heard = true;
    int fd = dial(s), i;
    reply r;
    snprintf(head, sizeof head,
             "POST /v1/images/generations HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000000\r\n\r\n");
    say(fd, head, strlen(head));
    r = hear(fd);
    CHECK_MESSAGE(r.status == 413 && strstr(r.body, "larger than 64 MB"), "%d", r.status);
    free(r.text);
    snprintf(head, sizeof head,
             "POST /sdapi/v1/txt2img HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n");
    fd = dial(s); /* without end */
    heard = say(fd, head, strlen(head));
    memset(chunk, ' ', 1 << 20);
    for (i = 0; i < 200 && heard; i++)
        heard = say(fd, "100000\r\n", 8) && say(fd, chunk, 1 << 20) && say(fd, "\r\n", 2);
    CHECK_MESSAGE(!heard && i >= 60, "%d MB were taken", i);
    close(fd);
    free(chunk);
}

/* Connections that say little or nothing do not keep others waiting. */
static void test_slow(const served *s) {
    int slow[20], i;
    const double begin = seconds();
    for (i = 0; i < 20; i++) {
        slow[i] = dial(s);
        if (i % 2) say(slow[i], "POST /v1/images/generations HTTP/1.1\r\nHost: loc", 49);
    }
    CHECK(says(post(s, "/v1/images/generations", "{\"prompt\":\"x\"}"), 200, "b64_json"));
    CHECK_MESSAGE(seconds() - begin < 20, "%.1f s", seconds() - begin);
    for (i = 0; i < 20; i++) close(slow[i]);
}

static const char *const
    long_job =
        "{\"prompt\":\"x\",\"steps\":400,\"sampler_name\":\"Euler\",\"width\":96,\"height\":96,\"preview\":true}",
    *const long_openai = "{\"prompt\":\"x\",\"steps\":400,\"size\":\"96x96\"}";

/* Whether the server comes to rest, or makes a picture, within some seconds. */
static bool becomes(const served *s, bool rest) {
    const double begin = seconds();
    while (seconds() - begin < 30) {
        reply r = get(s, "/sdapi/v1/progress?skip_current_image=true");
        const bool idle = r.status == 200 && strstr(r.body, "\"job\":\"\"") && strstr(r.body, "\"waiting\":0"),
                   busy = r.status == 200 && strstr(r.body, "\"job\":\"picture\"");
        free(r.text);
        if (rest ? idle : busy) return true;
        pause_for(30);
    }
    return false;
}

static void test_leaving(const served *s) {
    int fd = request(s, "POST", "/sdapi/v1/txt2img", "", long_job, strlen(long_job)), waits;
    CHECK(becomes(s, false));
    waits = request(s, "POST", "/sdapi/v1/txt2img", "", long_job, strlen(long_job));
    pause_for(100);
    close(waits); /* out of the queue */
    close(fd);    /* in the midst of a picture */
    CHECK_MESSAGE(becomes(s, true), "work goes on for nobody");
    CHECK(logged("interrupted"));
}

static void test_interrupting(const served *s) {
    int fd = request(s, "POST", "/sdapi/v1/txt2img", "", long_job, strlen(long_job)), openai;
    reply r;
    CHECK(becomes(s, false));
    CHECK(says(post(s, "/sdapi/v1/interrupt", ""), 200, "{}"));
    CHECK(says(hear(fd), 200, "\\\"interrupted\\\":true"));
    openai = request(s, "POST", "/v1/images/generations", "", long_openai, strlen(long_openai));
    CHECK(becomes(s, false));
    for (int i = 0; i < 200; i++) { /* progress goes on, and is told */
        r = get(s, "/sdapi/v1/progress");
        const bool shown = strstr(r.body, "\"sampling_steps\":400") && !strstr(r.body, "\"sampling_step\":0,");
        free(r.text);
        if (shown) break;
        CHECK(i < 199);
        pause_for(20);
    }
    post(s, "/sdapi/v1/interrupt", "");
    CHECK(says(hear(openai), 409, "interrupted"));
}

/* ---- stable-diffusion.cpp's API: jobs that are fetched later ---- */

/* The number of the job that a request makes; 0: it makes none. */
static int make_job(const served *s, const char *json) {
    reply r = post(s, "/sdcpp/v1/img_gen", json);
    int number = 0;
    const char *id = r.status == 202 ? strstr(r.body, "{\"id\":\"job_") : NULL;
    if (!CHECK_MESSAGE(id &&
                           sscanf(id, "{\"id\":\"job_%d\",\"kind\":\"img_gen\",\"status\":\"queued\"", &number) == 1 &&
                           strstr(r.body, "\"poll_url\":\"/sdcpp/v1/jobs/job_"),
                       "%d %.300s", r.status, r.body))
        number = 0;
    free(r.text);
    return number;
}

/* A job when it has come to this state. */
static reply job_in(const served *s, int number, const char *state) {
    char path[80], wanted[80];
    reply r = {0};
    snprintf(path, sizeof path, "/sdcpp/v1/jobs/job_%d", number);
    snprintf(wanted, sizeof wanted, "\"status\":\"%s\"", state);
    for (int i = 0; i < 500; i++) {
        free(r.text);
        r = get(s, path);
        if (strstr(r.body, wanted)) return r;
        pause_for(20);
    }
    CHECK_MESSAGE(false, "job %d never is %s: %.300s", number, state, r.body);
    return r;
}

/* Both APIs ask for a second pass as the command line does: the same file. */
static void test_second_pass(const served *s) {
    static const char base[] = "\"prompt\":\"a red fox\",\"seed\":7,\"width\":32,\"height\":32,";
    char json[600];
    reply r;
    CHECK(shell("$DIT -p 'a red fox' -s 7 --hires --hires-upscaler latent --hires-scale 1.5 "
                "--hires-denoising-strength 0.5 -q -o $WORK/larger.png") == 0);
    snprintf(json, sizeof json,
             "{%s\"steps\":2,\"enable_hr\":true,\"hr_scale\":1.5,\"hr_upscaler\":\"Latent\",\"hr_resize_x\":0,"
             "\"hr_second_pass_steps\":0,\"denoising_strength\":0.5,\"hr_prompt\":\"\"}",
             base);
    r = post(s, "/sdapi/v1/txt2img", json);
    CHECK_MESSAGE(r.status == 200 && is_file(r.body, "\"images\":[\"", in_work("larger.png")), "%d %.300s", r.status,
                  r.body);
    CHECK_MESSAGE(strstr(r.body, "Hires upscaler: Latent, Hires upscale: 1.5, Hires denoising strength: 0.5"), "%.300s",
                  r.body);
    free(r.text);
    snprintf(
        json, sizeof json,
        "{%s\"sample_params\":{\"sample_steps\":2},\"hires\":{\"enabled\":true,\"upscaler\":\"Latent\",\"scale\":2,"
        "\"target_width\":48,\"target_height\":48,\"steps\":0,\"denoising_strength\":0.5,\"custom_sigmas\":[],"
        "\"upscale_tile_size\":128}}",
        base);
    r = job_in(s, make_job(s, json), "completed");
    CHECK_MESSAGE(same_pixels(r.body, "\"b64_json\":\"", "larger.png"), "%.300s", r.body);
    free(r.text);
    snprintf(json, sizeof json, "{%s\"steps\":2,\"enable_hr\":true,\"hr_upscaler\":\"None\"}", base);
    r = post(s, "/sdapi/v1/txt2img", json);
    CHECK_MESSAGE(same_pixels(r.body, "\"images\":[\"", "fox.png"), "%.300s", r.body);
    free(r.text);
    CHECK(says(post(s, "/sdapi/v1/txt2img", "{\"prompt\":\"x\",\"enable_hr\":true,\"hr_upscaler\":\"R-ESRGAN 4x+\"}"),
               400, "--hires-upscaler 'R-ESRGAN 4x+'"));
    CHECK(says(post(s, "/sdapi/v1/txt2img", "{\"prompt\":\"x\",\"enable_hr\":true,\"hr_prompt\":\"y\"}"), 400,
               "hr_prompt: prompt is that of both passes"));
    CHECK(says(post(s, "/sdapi/v1/img2img", "{\"prompt\":\"x\",\"init_images\":[\"aGFsbG8=\"],\"enable_hr\":true}"),
               400, "enable_hr: /sdapi/v1/txt2img alone"));
}

static void test_jobs(const served *s) {
    static const struct {
        const char *member, *says;
    } refused[] = {{"\"hires\":{\"enabled\":true,\"custom_sigmas\":[1,0.5]}", "custom_sigmas: steps and"},
                   {"\"hires\":{\"enabled\":true,\"scale\":\"big\"}", "scale must be a number"},
                   {"\"control_image\":\"aGFsbG8=\"", "control_image: the server reads no picture to follow"},
                   {"\"sample_params\":{\"custom_sigmas\":[1,0.5]}", "custom_sigmas: sample_steps and"},
                   {"\"sample_params\":{\"eta\":0.5}", "eta: the sampler ddim alone"},
                   {"\"sample_params\":{\"guidance\":{\"img_cfg\":2}}", "img_cfg: guidance has one scale"},
                   {"\"sample_params\":{\"guidance\":{\"slg\":{\"scale\":2,\"layers\":[\"x\"]}}}",
                    "layers: must be a few numbers"},
                   {"\"init_image\":7", "init_image: must be a picture in base64"},
                   {"\"lora\":7", "lora must be a list"},
                   {"\"output_format\":\"bmp\"", "output_format must be one"},
                   {"\"width\":\"wide\"", "width must be a number"}};
    char json[40000], *p = json;
    int number, waiting;
    size_t i, size;
    unsigned char *bytes;
    reply r =
        job_in(s,
               make_job(s, "{\"prompt\":\"a red fox\",\"seed\":7,\"width\":-1,\"clip_skip\":-1,\"batch_count\":2,"
                           "\"control_image\":null,\"ref_images\":[],\"lora\":[],\"cache_mode\":\"disabled\","
                           "\"hires\":{\"enabled\":false},\"sample_params\":{\"scheduler\":\"default\",\"eta\":1.0,"
                           "\"flow_shift\":0.0,\"custom_sigmas\":[],\"guidance\":{\"txt_cfg\":4.5,\"img_cfg\":4.5,"
                           "\"distilled_guidance\":3.5,\"slg\":{\"layers\":[7,8],\"scale\":0.0}}}}"),
               "completed");
    CHECK(strstr(r.body, "\"index\":1,\"seed\":8,") && is_file(r.body, "\"b64_json\":\"", in_work("fox.png")));
    free(r.text);
    p += sprintf(p, "{\"prompt\":\"in snow\",\"seed\":7,\"embed_image_metadata\":false,\"init_image\":\"");
    p = add_base64(p, "fox.png");
    sprintf(p, "\"}");
    r = job_in(s, make_job(s, json), "completed");
    bytes = unbase64(r.body, "\"b64_json\":\"", &size);
    CHECK(same_pixels(r.body, "\"b64_json\":\"", "snow.png") && !memmem(bytes, size, "parameters", 10));
    free(bytes);
    free(r.text);
    r = job_in(s, make_job(s, "{\"prompt\":\"x\",\"sample_params\":{\"sample_method\":\"warp\"}}"), "failed");
    CHECK(strstr(r.body, "\"result\":null,\"error\":{\"code\":\"generation_failed\",\"message\":\"--sampler 'warp'"));
    free(r.text);
    for (i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        snprintf(json, sizeof json, "{\"prompt\":\"x\",%s}", refused[i].member);
        CHECK(says(post(s, "/sdcpp/v1/img_gen", json), 400, refused[i].says));
    }
    CHECK(says(post(s, "/sdcpp/v1/img_gen", "[]"), 400, "must be an object"));
    CHECK(says(post(s, "/sdcpp/v1/vid_gen", "{}"), 400, "dit --frames N makes clips"));
    number = make_job(s, "{\"prompt\":\"x\",\"sample_params\":{\"sample_steps\":900}}");
    waiting = make_job(s, "{\"prompt\":\"x\"}");
    r = job_in(s, number, "generating");
    CHECK(strstr(r.body, "\"completed\":null,\"queue_position\":0,\"progress\":"));
    free(r.text);
    snprintf(json, sizeof json, "/sdcpp/v1/jobs/job_%d/cancel", waiting);
    CHECK(says(get(s, json), 405, "POST is"));
    CHECK(says(post(s, json, ""), 200, "\"error\":{\"code\":\"cancelled\",\"message\":"));
    snprintf(json, sizeof json, "/sdcpp/v1/jobs/job_%d/cancel", number);
    CHECK(says(post(s, json, ""), 200, "\"status\":\"generating\""));
    free(job_in(s, number, "cancelled").text);
    CHECK(says(get(s, "/sdcpp/v1/jobs/job_99"), 404, "there is no job"));
    CHECK(says(get(s, "/sdcpp/v1/jobs/fox"), 404, "there is no job"));
    CHECK(says(get(s, "/sdcpp/v1/capabilities"), 200, "\"defaults_by_mode\":{\"img_gen\":{\"prompt\":"));
    if (!test_sweeps()) return;
    for (i = 0; i < 3; i++) { /* pictures of 64 are kept */
        const int made = make_job(s, "{\"prompt\":\"x\",\"batch_count\":30,\"sample_params\":{\"sample_steps\":1}}");
        free(job_in(s, made, "completed").text);
        number = i ? number : made;
    }
    snprintf(json, sizeof json, "/sdcpp/v1/jobs/job_%d", number);
    CHECK(says(get(s, json), 410, "made room for those of newer jobs"));
}

/* Its requests inside prompts of the other APIs. */
static void test_extra_args(const served *s) {
    static const char *const paths[] = {"/v1/images/generations", "/sdapi/v1/txt2img"};
    static const char *const keys[] = {"\"b64_json\":\"", "\"images\":[\""};
    for (size_t i = 0; i < 2; i++) {
        reply r = post(
            s, paths[i],
            "{\"model\":\"sd-cpp-local\",\"prompt\":\"a red fox <sd_cpp_extra_args>{\\\"seed\\\":7,\\\"sample_params\\\":"
            "{\\\"sample_steps\\\":2}}</sd_cpp_extra_args>\"}");
        CHECK_MESSAGE(r.status == 200 && is_file(r.body, keys[i], in_work("fox.png")), "%d %.300s", r.status, r.body);
        free(r.text);
        CHECK(says(post(s, paths[i], "{\"prompt\":\"x <sd_cpp_extra_args>{\"}"), 400, "sd_cpp_extra_args: must be an"));
        CHECK(says(post(s, paths[i], "{\"prompt\":\"<sd_cpp_extra_args>{\\\"lora\\\":7}</sd_cpp_extra_args>\"}"), 400,
                   "lora must be a list"));
    }
}

/* Whoever started the server reads where it listens, and no more. */
static void test_unheard(void) {
    char *args[] = {"dit", "-m", MODEL, "--steps", "2", "-W", "32", "-H", "32", "--serve", "0", NULL}, log[400] = "";
    int ends[2];
    ssize_t n = 0;
    served s = {0, 0};
    if (!CHECK(pipe(ends) == 0)) return;
    s.pid = fork();
    if (s.pid == 0) {
        signal(SIGPIPE, SIG_DFL);
        dup2(ends[1], 2);
        close(ends[0]);
        close(ends[1]);
        setenv("XDG_CACHE_HOME", in_work("cache"), 1);
        execv("build/dit", args);
        _exit(127);
    }
    close(ends[1]);
    for (size_t used = 0; !strchr(log, '\n') && (n = read(ends[0], log + used, sizeof log - 1 - used)) > 0;)
        used += (size_t)n;
    close(ends[0]);
    if (!CHECK(sscanf(log, "dit: http://127.0.0.1:%d/", &s.port) == 1)) return;
    CHECK(says(post(&s, "/v1/images/generations", "{\"prompt\":\"x\"}"), 200, "b64_json"));
    CHECK_MESSAGE(stop(&s) == 130, "a closed pipe ends the server");
}

/* One is made, 32 wait, and the next ones are told to come later; all are answered when the server ends. */
static void test_queue(served *s) {
    int fds[40], full = 0, ended = 0, other = 0;
    fds[0] = request(s, "POST", "/sdapi/v1/txt2img", "", long_job, strlen(long_job));
    CHECK(becomes(s, false));
    for (int i = 1; i < 40; i++) {
        fds[i] = request(s, "POST", "/sdapi/v1/txt2img", "", long_job, strlen(long_job));
        if (i == 36) pause_for(200);
    }
    pause_for(300);
    CHECK_MESSAGE(stop(s) == 130, "exit code");
    CHECK(logged("the server ended"));
    for (int i = 0; i < 40; i++) {
        reply r = hear(fds[i]);
        full += r.status == 429 && strstr(r.body, "32 requests are waiting");
        ended += r.status == 503 && strstr(r.body, "the server ends");
        other += r.status == 409;
        free(r.text);
    }
    CHECK_MESSAGE(full == 7 && ended == 32 && other == 1, "%d were too many, %d waited, %d was made", full, ended,
                  other);
}

/* ---- make test-all ---- */

typedef struct crowd {
    const served *server;
    int number, good, busy;
} crowd;

static void *one_of_many(void *user) {
    crowd *c = user;
    char body[200];
    for (int i = 0; i < 3; i++) {
        int fd;
        reply r;
        snprintf(body, sizeof body, "{\"prompt\":\"number %d\",\"seed\":%d}", c->number, c->number);
        fd = request(c->server, "POST", c->number % 2 ? "/v1/images/generations" : "/sdapi/v1/txt2img", "", body,
                     strlen(body));
        if (c->number % 10 == 9) { /* some leave at once */
            close(fd);
            c->good++;
            continue;
        }
        r = hear(fd);
        c->good += r.status == 200;
        c->busy += r.status == 429;
        free(r.text);
        r = get(c->server, "/sdapi/v1/progress");
        free(r.text);
    }
    return NULL;
}

static void test_crowd(void) {
    enum { CLIENTS = 100 };
    static pthread_t threads[CLIENTS];
    static crowd all[CLIENTS];
    served s;
    int good = 0, busy = 0;
    if (access("build/asan/dit", X_OK) != 0) {
        printf("skipped: a hundred clients: build/asan/dit is not built\n");
        return;
    }
    s = start("build/asan/dit");
    if (!CHECK_MESSAGE(s.port, "the server did not start")) return;
    for (int i = 0; i < CLIENTS; i++) {
        all[i].server = &s;
        all[i].number = i;
        CHECK(pthread_create(&threads[i], NULL, one_of_many, &all[i]) == 0);
    }
    for (int i = 0; i < CLIENTS; i++) {
        pthread_join(threads[i], NULL);
        good += all[i].good;
        busy += all[i].busy;
    }
    CHECK_MESSAGE(good + busy == 3 * CLIENTS && good > 30, "%d made, %d too many, of %d", good, busy, 3 * CLIENTS);
    test_malformed(&s);
    test_huge(&s);
    test_slow(&s);
    CHECK(becomes(&s, true));
    good = stop(&s); /* 99: what a driver leaves behind counts as a leak, in no module, since the driver is gone */
    if (!CHECK_MESSAGE((good == 130 || good == 99) && !logged("runtime error") && !logged("ERROR: AddressSanitizer") &&
                           !logged("examples/cli/") && !logged("dit.h:"),
                       "exit code %d; the sanitizers speak", good))
        shell("grep -v '^dit: ' $WORK/log | head -c 3000 >&2");
}

static void write_client(const char *python) {
    FILE *file = fopen(in_work("client.py"), "w");
    fputs(python, file);
    fclose(file);
}

/* The client that was written, with a package of Python's. */
static void run_client(const served *s, const char *package) {
    if (shell("test -x build/clients/bin/python || python3 -m venv build/clients >$WORK/pip.log 2>&1; "
              "build/clients/bin/python -c 'import %s' 2>/dev/null || "
              "{ build/clients/bin/pip install -q %s >$WORK/pip.log 2>&1 && build/clients/bin/python -c 'import %s'; }",
              package, package, package) != 0) {
        printf("skipped: the client %s: it cannot be installed (build/clients)\n", package);
        return;
    }
    CHECK_MESSAGE(shell("build/clients/bin/python $WORK/client.py %d $WORK >&2", s->port) == 0, "the client %s fails",
                  package);
}

/* OpenAI's own client for Python. */
static void test_openai_client(const served *s) {
    write_client(
        "import sys, base64, openai\n"
        "c = openai.OpenAI(base_url=f'http://127.0.0.1:{sys.argv[1]}/v1', api_key='none', max_retries=0)\n"
        "fox = open(sys.argv[2] + '/fox.png', 'rb').read()\n"
        "r = c.images.generate(model='dall-e-2', prompt='a red fox', n=1, size='auto', extra_body={'seed': 7})\n"
        "assert base64.b64decode(r.data[0].b64_json) == fox and r.created > 0\n"
        "r = c.images.generate(prompt='a red fox', n=2, response_format='url', extra_body={'seed': 7})\n"
        "import urllib.request\n"
        "assert urllib.request.urlopen(r.data[0].url).read() == fox and len(r.data) == 2\n"
        "r = c.images.edit(model='dall-e-2', image=open(sys.argv[2] + '/fox.png', 'rb'), prompt='in snow', n=1, "
        "response_format='b64_json', extra_body={'seed': 7})\n"
        "assert base64.b64decode(r.data[0].b64_json)[:4] == b'\\x89PNG'\n"
        "assert 'pipe_pixart_sigma' in [m.id for m in c.models.list()]\n"
        "try:\n"
        "    c.images.generate(prompt='x', size='33x32')\n"
        "    sys.exit('33 pixels were accepted')\n"
        "except openai.BadRequestError as e:\n"
        "    assert 'nearest valid value is 32' in e.message, e.message\n");
    run_client(s, "openai");
}

/* The client for Python that programs of A1111's API use, webuiapi. It sends all that A1111 knows in each request. */
static void test_a1111_client(const served *s) {
    write_client(
        "import sys, io, threading, time, webuiapi\n"
        "a = webuiapi.WebUIApi(host='127.0.0.1', port=int(sys.argv[1]), sampler='DPM++ 2M', scheduler='Karras', steps=2)\n"
        "def pixels(r): return r.image.convert('RGB').tobytes()\n"
        "r = a.txt2img(prompt='a red fox', negative_prompt='blue', seed=7, cfg_scale=4.5, width=32, height=32)\n"
        "assert r.image.size == (32, 32) and r.info['seed'] == 7, r.info\n"
        "assert 'CFG scale: 4.5' in r.info['infotexts'][0] and 'dpm++2m' in r.info['infotexts'][0], r.info\n"
        "assert pixels(a.txt2img(prompt='a red fox', negative_prompt='blue', seed=7, cfg_scale=4.5, width=32, height=32))"
        " == pixels(r)\n"
        "two = a.txt2img(prompt='a red fox', seed=7, width=32, height=32, batch_size=2)\n"
        "assert len(two.images) == 2 and two.info['all_seeds'] == [7, 8], two.info\n"
        "i = a.img2img(images=[r.image], prompt='in snow', seed=7, width=32, height=32, denoising_strength=0.6)\n"
        "assert i.image.size == (32, 32) and pixels(i) != pixels(r)\n"
        "assert a.util_get_model_names() and 'euler' in a.util_get_sampler_names() and a.util_get_scheduler_names()\n"
        "assert a.util_get_current_model() == 'pipe_pixart_sigma', a.util_get_current_model()\n"
        "a.util_set_model('pipe_pixart_sigma')\n"
        "a.util_wait_for_ready(check_interval=0.1)\n"
        "seen = []\n"
        "def stop():\n"
        "    while not seen:\n"
        "        p = a.get_progress()\n"
        "        if p['state']['sampling_step'] > 0: seen.append(p); a.interrupt()\n"
        "        time.sleep(0.02)\n"
        "t = threading.Thread(target=stop, daemon=True); t.start()\n"
        "try:\n"
        "    long = a.txt2img(prompt='x', steps=400, width=96, height=96)\n"
        "    assert long.info['interrupted'], long.info\n"
        "except RuntimeError as e:\n"
        "    assert 'interrupted' in str(e), e\n"
        "t.join(10)\n"
        "assert seen and 0 < seen[0]['progress'] < 1 and seen[0]['state']['sampling_steps'] == 400, seen\n"
        "try:\n"
        "    a.txt2img(prompt='x', width=33, height=32)\n"
        "    sys.exit('33 pixels were accepted')\n"
        "except RuntimeError as e:\n"
        "    assert 'nearest valid value is 32' in str(e), e\n");
    run_client(s, "webuiapi");
}

/* A browser without a window opens the page, and draws. */
static void test_browser(const served *s) {
    if (shell("command -v chromium >/dev/null") != 0) {
        printf("skipped: the page in a browser: chromium is not installed\n");
        return;
    }
    CHECK_MESSAGE(shell("sh tests/tools/browser.sh http://127.0.0.1:%d/ $WORK >$WORK/browser.log 2>&1", s->port) == 0,
                  "the page does not work: see below");
    shell("grep -v '^\\[' $WORK/browser.log | head -n 20 >&2");
}

int main(int argc, char **argv) {
    const char *only = argc > 1 ? argv[1] : "";
    served s;
    signal(SIGPIPE, SIG_IGN);
    if (!getcwd(here, sizeof here) || !make_work("server")) return 1;
    if (shell("mkdir -p $WORK/models $WORK/loras $WORK/hub/models--fox--small/snapshots && cd tests/fixtures && "
              "ln -s $PWD/lora_pixart_sigma/lora $WORK/loras/style.safetensors && "
              "ln -s $PWD/pipe_latte $WORK/models/latte && ln -s $PWD/pipe_flux2_klein $WORK/models/klein && "
              "ln -s $PWD/pipe_dit $WORK/hub/models--fox--small/snapshots/1a2b") != 0)
        return 1;
    setenv("DIT_MODELS", in_work("models"), 1);
    setenv("HF_HOME", in_work("nowhere"), 1);
    setenv("HF_HUB_CACHE", "~/hub", 1);
    s = start("build/dit");
    if (!s.port && logged("was built without")) {
        printf("skipped: build/dit has no libmicrohttpd or jansson\n");
        CHECK(logged("dit doctor tells how to get them"));
        return TEST_END("server");
    }
    if (!CHECK_MESSAGE(s.port, "the server did not start")) return TEST_END("server");
    CHECK(shell("build/dit --serve nowhere 2>$WORK/said") == 2 &&
          shell("grep -q \"must be .HOST:.PORT\" $WORK/said") == 0);
    CHECK(shell("build/dit --serve %d 2>$WORK/said", s.port) == 4 && shell("grep -q 'choose another' $WORK/said") == 0);
    CHECK(shell("build/dit --serve 0 -m nothing 2>$WORK/said") == 3 && shell("grep -q 'No such file' $WORK/said") == 0);
    CHECK(shell("build/dit --serve %d --steps 2000 2>$WORK/said", s.port) == 2 &&
          shell("grep -q -e \"--steps '2000'\" $WORK/said") == 0);
    CHECK(shell("build/dit --serve %d -p fox 2>$WORK/said", s.port) == 2 &&
          shell("grep -q 'leave out --prompt$' $WORK/said") == 0);
    CHECK(shell("build/dit --serve %d --loop 2 2>$WORK/said", s.port) == 2 &&
          shell("grep -q 'leave out --loop' $WORK/said") == 0);
    CHECK(shell("build/dit --serve %d -b 2 2>$WORK/said", s.port) == 2 &&
          shell("grep -q 'leave out --batch-count$' $WORK/said") == 0);
    test_openai(&s);
    test_a1111(&s);
    test_collage(&s);
    test_a1111_further(&s);
    test_extra_args(&s);
    test_second_pass(&s);
    test_jobs(&s);
    if (!strstr("browser client crowd", only) || !*only) {
        test_malformed(&s);
        test_forms(&s);
        test_foreign_host(&s);
        test_slow(&s);
        test_leaving(&s);
        test_interrupting(&s);
        test_huge(&s);
    }
    if (test_sweeps()) test_openai_client(&s);
    if (test_sweeps()) test_a1111_client(&s);
    if (test_sweeps()) test_browser(&s);
    test_queue(&s);
    test_unheard();
    if (test_sweeps()) test_crowd();
    remove_work();
    return TEST_END("server");
}
