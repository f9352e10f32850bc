/* engine: a cube that shows pictures, made in the time that its frames leave. See README.md beside this file. */
#include "engine.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#define STB_IMAGE_WRITE_STATIC
#define STB_IMAGE_WRITE_IMPLEMENTATION
#include <stb/stb_image_write.h>
#ifdef ENGINE_WINDOW
#define GLFW_INCLUDE_NONE
#include <GLFW/glfw3.h>
#endif

enum { WIDTH = 480, HEIGHT = 320, MOST = 1 << 16 };
#define BIN_MS 1.0

typedef struct times { /* of frames */
    const char *name;
    float *ms;
    uint32_t count, bins[BINS];
} times;

static struct session {
    options o;
    renderer r;
    numbers n;
    pictures *p;
    times with, without;                              /* frames with work of dit's, and the others */
    uint32_t losses, resizes, loading_frames, before; /* before: pictures that were finished before the last press */
    char keys[16];
    uint32_t key_count;
    bool ends;
} session = {.with.name = "with_dit", .without.name = "without_dit"};

double now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

/* ---- options ---- */

static int usage(void) {
    fprintf(stderr,
            "usage: engine [--model FILE] [--prompts FILE] [--cache FILE] [--json FILE] [--png FILE]\n"
            "    [--headless FRAMES] [--pictures N] [--size PIXELS] [--steps N] [--budget US] [--press FRAME:KEY]...\n"
            "    [--compute] [--vma] [--validate] [--still]\n"
            "keys: space another picture, c cancel, s another size, l lose the device, d drop a frame, q quit\n");
    return 2;
}

static bool parse(options *o, int argc, char **argv) {
    int i;
    o->model = "models/emoji-q8_0.gguf";
    o->side = 128;
    o->steps = 20;
    o->budget_us = 2000;
    for (i = 1; i < argc; i++) {
        const char *name = argv[i], *value = i + 1 < argc ? argv[i + 1] : NULL;
        struct {
            const char *name, **text;
            uint32_t *number;
            bool *flag;
        } known[] = {{"--model", &o->model, NULL, NULL},      {"--prompts", &o->prompts, NULL, NULL},
                     {"--cache", &o->cache, NULL, NULL},      {"--json", &o->json, NULL, NULL},
                     {"--png", &o->png, NULL, NULL},          {"--headless", NULL, &o->headless, NULL},
                     {"--size", NULL, &o->side, NULL},        {"--steps", NULL, &o->steps, NULL},
                     {"--budget", NULL, &o->budget_us, NULL}, {"--compute", NULL, NULL, &o->compute},
                     {"--vma", NULL, NULL, &o->vma},          {"--validate", NULL, NULL, &o->validate},
                     {"--still", NULL, NULL, &o->still},      {"--pictures", NULL, &o->pictures, NULL}};
        size_t k = 0;
        if (!strcmp(name, "--press") && value && o->press_count < 16) {
            char *end;
            o->presses[o->press_count].frame = (uint32_t)strtoul(value, &end, 10);
            if (*end != ':' || !end[1]) return false;
            o->presses[o->press_count++].key = end[1] == '_' ? ' ' : end[1];
            i++;
            continue;
        }
        while (k < sizeof known / sizeof *known && strcmp(name, known[k].name)) k++;
        if (k == sizeof known / sizeof *known || (!known[k].flag && !value)) return false;
        if (known[k].flag) *known[k].flag = true;
        if (known[k].text) *known[k].text = argv[++i];
        if (known[k].number) *known[k].number = (uint32_t)strtoul(argv[++i], NULL, 10);
    }
    return o->budget_us > 0 && o->steps > 0 && o->side >= 16;
}

/* ---- files ---- */

void *read_file(const char *path, size_t *size) {
    FILE *file = path ? fopen(path, "rb") : NULL;
    long length = file && fseek(file, 0, SEEK_END) == 0 ? ftell(file) : 0;
    void *bytes = length > 0 ? malloc((size_t)length) : NULL;
    *size = 0;
    if (bytes && fseek(file, 0, SEEK_SET) == 0) *size = fread(bytes, 1, (size_t)length, file);
    if (file) fclose(file);
    return bytes;
}

void write_file(const char *path, const void *bytes, size_t size) {
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(bytes, 1, size, file) != size) perror(path);
    if (file) fclose(file);
}

/* ---- frame times ---- */

static void add_time(times *t, double ms) {
    uint32_t bin = (uint32_t)(ms / BIN_MS);
    t->bins[bin < BINS ? bin : BINS - 1]++;
    if (t->count < MOST) t->ms[t->count++] = (float)ms;
}

static int compare(const void *a, const void *b) {
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static float part(float *list, uint32_t count, double which) {
    if (count) qsort(list, count, sizeof *list, compare);
    return count ? list[(uint32_t)(which * (count - 1))] : 0;
}

static void write_times(FILE *file, const times *t) {
    uint32_t i;
    fprintf(
        file,
        "  \"%s\": {\"frames\": %u, \"p50_ms\": %.3f, \"p99_ms\": %.3f, \"max_ms\": %.3f, \"bin_ms\": %g, \"bins\": [",
        t->name, t->count, part(t->ms, t->count, 0.5), part(t->ms, t->count, 0.99), part(t->ms, t->count, 1), BIN_MS);
    for (i = 0; i < BINS; i++) fprintf(file, "%s%u", i ? ", " : "", t->bins[i]);
    fprintf(file, "]},\n");
}

static void write_json(struct session *s) {
    FILE *file = s->o.json ? fopen(s->o.json, "w") : NULL;
    numbers *n = &s->n;
    uint32_t recorded = n->record_count < 8192 ? n->record_count : 8192;
    if (!file) {
        if (s->o.json) perror(s->o.json);
        return;
    }
    fprintf(file, "{\n  \"device\": \"%s\", \"queue\": \"%s\", \"memory\": \"%s\",\n", s->r.name,
            s->o.compute ? "compute" : "graphics", s->o.vma ? "vma" : "own");
    fprintf(file,
            "  \"finished\": %u, \"shown\": %u, \"previews\": %u, \"cancelled\": %u, \"retired\": %u, \"runs\": %u,\n"
            "  \"unrecorded\": %u, \"losses\": %u, \"resizes\": %u, \"loading_frames\": %u, \"messages\": %u,\n",
            n->finished, n->shown, n->previews, n->cancelled, n->retired, n->restarts, n->unrecorded, s->losses,
            s->resizes, s->loading_frames, s->r.messages);
    write_times(file, &s->without);
    write_times(file, &s->with);
    fprintf(file, "  \"budget_us\": %u, \"load_ms\": %.1f, \"first_slice_ms\": %.1f,\n", s->o.budget_us, n->load_ms,
            n->first_slice_ms);
    fprintf(file, "  \"record_us\": {\"p50\": %.1f, \"p99\": %.1f}\n}\n", (double)part(n->record_us, recorded, 0.5),
            (double)part(n->record_us, recorded, 0.99));
    fclose(file);
}

/* A bar of progress, and below it how many frames took how long: blue without dit, orange with it. */
static uint32_t make_bars(const struct session *s, float progress, rectangle *bars) {
    const times *all[2] = {&s->without, &s->with};
    uint32_t count = 0, i, k, most[2] = {1, 1};
    bars[count++] = (rectangle){-0.95f, -0.95f, 1.9f, 0.03f, 0.2f, 0.2f, 0.25f};
    bars[count++] = (rectangle){-0.95f, -0.95f, 1.9f * progress, 0.03f, 0.3f, 0.9f, 0.4f};
    for (i = 0; i < 2; i++)
        for (k = 0; k < BINS; k++)
            if (all[i]->bins[k] > most[i]) most[i] = all[i]->bins[k];
    for (i = 0; i < 2; i++)
        for (k = 0; k < BINS; k++) {
            float height = 0.35f * (float)all[i]->bins[k] / (float)most[i];
            if (height <= 0) continue;
            if (height < 0.01f) height = 0.01f;
            bars[count++] = (rectangle){-0.95f + 0.04f * (float)k + 0.015f * (float)i,
                                        0.95f - height,
                                        0.015f,
                                        height,
                                        i ? 1.0f : 0.3f,
                                        i ? 0.6f : 0.5f,
                                        i ? 0.2f : 1.0f};
        }
    return count;
}

/* ---- keys ---- */

static void press(struct session *s, char key) {
    if (s->key_count < sizeof s->keys) s->keys[s->key_count++] = key;
}

/* false: this frame is dropped. */
static bool use_keys(struct session *s) {
    bool keeps = true;
    uint32_t i;
    for (i = 0; i < s->key_count; i++) {
        char key = s->keys[i];
        if (key == 'q') s->ends = true;
        if (key == 'l') s->r.lost = true; /* feigned, and treated like a real loss */
        if (key == 'd' && !s->r.surface) keeps = false;
        pictures_key(s->p, key);
    }
    s->key_count = 0;
    return keeps;
}

#ifdef ENGINE_WINDOW
static void on_key(GLFWwindow *window, int key, int code, int action, int mods) {
    (void)window, (void)code, (void)mods;
    if (action != GLFW_PRESS) return;
    if (key == GLFW_KEY_ESCAPE) press(&session, 'q');
    if (key == GLFW_KEY_SPACE) press(&session, ' ');
    if (key >= GLFW_KEY_A && key <= GLFW_KEY_Z) press(&session, (char)(key - GLFW_KEY_A + 'a'));
}

static void on_resize(GLFWwindow *window, int width, int height) {
    (void)window, (void)width, (void)height;
    session.r.resized = true;
    session.resizes++;
}
#endif

static bool poll_window(struct session *s, uint32_t frame) {
    uint32_t i, left = 0;
    for (i = 0; i < s->o.press_count; i++) left += s->o.presses[i].frame != UINT32_MAX;
    if (left) s->before = s->n.finished;
    if (s->o.pictures && s->n.finished - s->before >= s->o.pictures) return false;
    for (i = 0; i < s->o.press_count; i++)
        if (s->o.presses[i].frame == frame) {
            press(s, s->o.presses[i].key);
            s->o.presses[i].frame = UINT32_MAX; /* once, though a dropped frame is made again */
        }
#ifdef ENGINE_WINDOW
    if (s->r.window) {
        glfwPollEvents();
        return !glfwWindowShouldClose(s->r.window);
    }
#endif
    return true;
}

/* ---- the loop ---- */

/* While dit loads, frames without a window come every 10 ms and are counted apart. */
static void rest(struct session *s) {
    const struct timespec pause = {0, 10000000};
    nanosleep(&pause, NULL);
    s->loading_frames++;
}

/* Frames until the program ends or the device is lost. false: it cannot go on. */
static bool run(struct session *s, uint32_t *frame) {
    rectangle bars[2 + 2 * BINS];
    double begin = now_ms(), end;
    while (!s->ends && !s->r.lost && (!s->o.headless || *frame < s->o.headless)) {
        bool works = false, keeps, goes;
        uint32_t count;
        if (!poll_window(s, *frame)) break;
        keeps = use_keys(s);
        if (s->r.lost) break;
        if (!renderer_begin(&s->r)) continue;
        goes = pictures_frame(s->p, &works);
        count = s->o.still ? 0 : make_bars(s, pictures_progress(s->p), bars);
        renderer_draw(&s->r, pictures_cube(s->p), s->o.still ? VK_NULL_HANDLE : pictures_small(s->p),
                      s->o.still ? 0.5f : (float)(*frame % 400 < 200 ? *frame % 200 : 200 - *frame % 200) / 220, bars,
                      count);
        if (keeps) {
            renderer_end(&s->r);
            if (s->o.headless && pictures_loading(s->p))
                rest(s); /* as a display would have it */
            else
                ++*frame;
        } else {
            pictures_drop(s->p);
            renderer_drop(&s->r);
        }
        end = now_ms();
        add_time(works ? &s->with : &s->without, end - begin);
        begin = end;
        if (!goes && !s->r.lost) return false;
    }
    return true;
}

static void save_png(struct session *s) {
    unsigned char *rgba = malloc((size_t)s->r.extent.width * s->r.extent.height * 4);
    if (!rgba || !renderer_read(&s->r, rgba) ||
        !stbi_write_png(s->o.png, (int)s->r.extent.width, (int)s->r.extent.height, 4, rgba, 0))
        fprintf(stderr, "engine: no %s\n", s->o.png);
    free(rgba);
}

/* Everything of the device's is made; after a loss all of it is destroyed and made anew. */
static bool play(struct session *s) {
    uint32_t frame = 0, messages = 0;
    bool good;
    do {
        void *window = s->r.window;
        memset(&s->r, 0, sizeof s->r);
        s->r.window = window;
        s->r.messages = messages;
        good = renderer_open(&s->r, &s->o, WIDTH, HEIGHT);
        s->p = good ? pictures_open(&s->r, &s->o, &s->n) : NULL;
        good = s->p && run(s, &frame);
        if (good && !s->r.lost && s->o.png && !s->r.surface) save_png(s);
        if (s->r.device) s->r.DeviceWaitIdle(s->r.device);
        pictures_close(s->p);
        if (s->r.lost) s->losses++;
        renderer_close(&s->r);
        messages = s->r.messages;
    } while (good && s->r.lost && s->losses < 3);
    return good && !messages;
}

int main(int argc, char **argv) {
    struct session *s = &session;
    bool good;
    if (!parse(&s->o, argc, argv)) return usage();
    s->with.ms = malloc(2 * MOST * sizeof(float));
    if (!s->with.ms) return 1;
    s->without.ms = s->with.ms + MOST;
#ifdef ENGINE_WINDOW
    if (!s->o.headless) {
        if (!glfwInit() || (glfwWindowHint(GLFW_CLIENT_API, GLFW_NO_API),
                            s->r.window = glfwCreateWindow(WIDTH, HEIGHT, "dit.h engine", NULL, NULL)) == NULL)
            return fprintf(stderr, "engine: no window; --headless 300 needs none\n"), 1;
        glfwSetKeyCallback(s->r.window, on_key);
        glfwSetFramebufferSizeCallback(s->r.window, on_resize);
    }
#else
    if (!s->o.headless) return fprintf(stderr, "engine: built without GLFW; --headless 300 needs no window\n"), 1;
#endif
    good = play(s);
    write_json(s);
#ifdef ENGINE_WINDOW
    if (s->r.window) glfwTerminate();
#endif
    free(s->with.ms);
    return good ? 0 : 1;
}
