/* build/engine, driven as a process: pictures, previews, cancelling, dropped frames, other sizes and a lost device
   without a window, under synchronization validation; what is drawn is the same whatever the budget and the memory. In
   the full run with the bundled model, on a compute queue, and in a window that is resized, pressed keys in and closed.
   test-runs: lavapipe */
#define _GNU_SOURCE
#include "library.h"
#include "test.h"
#include "files.h"
#include <sys/stat.h>
#include <unistd.h>
#define STBI_ONLY_PNG
#define STB_IMAGE_STATIC
#define STB_IMAGE_IMPLEMENTATION
#if defined(__GNUC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"
#endif
#include <stb/stb_image.h>
#if defined(__GNUC__)
#pragma GCC diagnostic pop
#endif

#define SMALL "--model tests/fixtures/pipe_pixart_sigma --size 32 --steps 4 --headless 5000 --pictures 1"
#define WORK "build/logs/engine"
#define PROMPTS " --prompts " WORK ".prompts"
enum { WIDTH = 480, HEIGHT = 320 };

static diti_env env;

/* Returns the program's notes of a run with these options; NULL where it failed. before: of the command line. */
static diti_json *run(const char *before, const char *given) {
    char command[1024];
    int code;
    remove(WORK ".json");
    snprintf(command, sizeof command, "%s build/engine --validate --json " WORK ".json %s", before, given);
    code = system(command);
    if (!CHECK_MESSAGE(code == 0, "exit code %d of %s", code, command)) return NULL;
    return test_read_json(&env, WORK ".json");
}

static uint32_t number(const diti_json *root, const char *name) {
    double value = diti_json_number(root, name, -1);
    return CHECK_MESSAGE(value >= 0, "no %s", name) ? (uint32_t)value : UINT32_MAX;
}

static uint32_t frames(const diti_json *root, const char *name) { return number(diti_json_get(root, name), "frames"); }

static unsigned char *picture(const char *path) {
    int width = 0, height = 0, channels;
    unsigned char *rgba = stbi_load(path, &width, &height, &channels, 4);
    if (!CHECK_MESSAGE(rgba && width == WIDTH && height == HEIGHT, "%s: %d x %d", path, width, height)) {
        stbi_image_free(rgba);
        return NULL;
    }
    return rgba;
}

/* Pixels that are neither of the background nor of a cube without a picture. */
static uint32_t colourful(const unsigned char *rgba) {
    uint32_t i, count = 0;
    for (i = 0; rgba && i < WIDTH * HEIGHT; i++) {
        int red = rgba[4 * i], green = rgba[4 * i + 1], blue = rgba[4 * i + 2];
        count += abs(red - green) > 40 || abs(green - blue) > 40;
    }
    return count;
}

static void test_changes_of_mind(void) {
    diti_json *root =
        run("", SMALL PROMPTS " --budget 5000 --press 3:d --press 6:_ --press 8:c --press 10:_ --press 40:s"
                              " --press 80:l");
    CHECK(number(root, "messages") == 0 && number(root, "losses") == 1);
    CHECK(number(root, "finished") >= 1 && number(root, "shown") >= number(root, "finished"));
    CHECK(number(root, "previews") >= 1 && number(root, "cancelled") >= 1 && number(root, "retired") == 2);
    CHECK(number(root, "unrecorded") == 1 && number(root, "runs") >= 4);
    CHECK(frames(root, "with_dit") > 10 && frames(root, "without_dit") > 10);
    diti_json_free(&env, root);
}

/* The cube stands still and shows the first picture. */
static unsigned char *still(const char *options, const char *path) {
    char given[512];
    diti_json *root;
    snprintf(given, sizeof given, SMALL PROMPTS " --still --png %s %s", path, options);
    root = run("", given);
    CHECK(number(root, "messages") == 0 && number(root, "finished") == 1);
    diti_json_free(&env, root);
    return picture(path);
}

static void test_picture(void) {
    unsigned char *one = still("--budget 20000", WORK ".png"),
                  *other = still("--budget 1000000 --press 0:d", WORK ".other.png");
    uint32_t count = colourful(one);
    CHECK_MESSAGE(count > 2000, "%u pixels have a colour", count);
    CHECK(one && other && !memcmp(one, other, WIDTH * HEIGHT * 4));
    stbi_image_free(one);
    stbi_image_free(other);
}

/* Pictures of what is drawn: another frame, another picture. */
static void test_realtime(void) {
    int width, height, channels;
    unsigned char *one, *other;
    CHECK(system("build/realtime tests/fixtures/pipe_pixart_sigma 1 2 32 " WORK ".one.png validate >" WORK ".txt") ==
          0);
    CHECK(system("build/realtime tests/fixtures/pipe_pixart_sigma 5 2 32 " WORK ".other.png validate >>" WORK ".txt") ==
          0);
    CHECK(system("grep -q '^5 pictures of 32 x 32 in 2 steps: ' " WORK ".txt") == 0);
    one = stbi_load(WORK ".one.png", &width, &height, &channels, 4);
    other = stbi_load(WORK ".other.png", &width, &height, &channels, 4);
    CHECK(one && other && memcmp(one, other, (size_t)width * (size_t)height * 4) != 0);
    stbi_image_free(one);
    stbi_image_free(other);
}

static void test_refusals(void) {
    CHECK(system("build/engine --nonsense 2>/dev/null") != 0);
    CHECK(system("build/engine --headless 5 --model " WORK ".nothing 2>" WORK ".err") != 0);
    CHECK(system("grep -q nothing " WORK ".err") == 0);
}

static void test_compute_queue(void) {
    diti_json *root;
    if (system("sh tools/newest.sh fetch >/dev/null 2>&1") != 0) {
        printf("skipped: the newest layers cannot be had, and older ones do not follow timeline semaphores\n");
        return;
    }
    root = run("sh tools/newest.sh with $PWD/build/drivers/families.json", SMALL PROMPTS
               " --budget 20000 --compute --press 3:d --press 30:_ --press 33:c --press 36:_ --press 80:s");
    CHECK(number(root, "messages") == 0 && number(root, "finished") >= 1 && number(root, "retired") == 2);
    diti_json_free(&env, root);
}

static void test_vma(void) {
    diti_json *root;
    if (system("grep -q vmaCreateAllocator build/engine") != 0) {
        printf("skipped: the engine was built without VMA (make vma)\n");
        return;
    }
    root = run("", SMALL PROMPTS " --vma --budget 20000 --press 10:s");
    CHECK(number(root, "messages") == 0 && number(root, "finished") == 1 && number(root, "retired") == 2);
    diti_json_free(&env, root);
}

static void test_bundled(void) {
    diti_json *root = run("", "--size 64 --steps 2 --budget 100000 --headless 5000 --pictures 1 --prompts " WORK
                              ".bundled --cache " WORK ".cache --png " WORK ".png");
    unsigned char *rgba = picture(WORK ".png");
    CHECK(number(root, "messages") == 0 && number(root, "finished") == 1 && colourful(rgba) > 2000);
    stbi_image_free(rgba);
    diti_json_free(&env, root);
}

/* A window without a frame in the left upper corner of the screen shows what is drawn without one. */
static bool on_screen(const unsigned char *wanted) {
    size_t size = 0;
    unsigned char *screen = NULL;
    FILE *file = fopen(WORK ".screen/Xvfb_screen0", "rb");
    uint32_t header, pitch, x, y, wrong = 0;
    if (file) {
        screen = malloc(16u << 20);
        size = fread(screen, 1, 16u << 20, file);
        fclose(file);
    }
    if (size < 100) {
        free(screen);
        return false;
    }
    header = (uint32_t)screen[0] << 24 | (uint32_t)screen[1] << 16 | (uint32_t)screen[2] << 8 | screen[3];
    header += 12u * ((uint32_t)screen[78] << 8 | screen[79]); /* colours */
    pitch = (uint32_t)screen[48] << 24 | (uint32_t)screen[49] << 16 | (uint32_t)screen[50] << 8 | screen[51];
    for (y = 0; y < HEIGHT; y++)
        for (x = 0; x < WIDTH; x++) {
            const unsigned char *bgrx = screen + header + (size_t)y * pitch + x * 4,
                                *rgba = wanted + (y * WIDTH + x) * 4;
            if (header + (size_t)y * pitch + x * 4 + 4 > size || bgrx[0] != rgba[2] || bgrx[1] != rgba[1] ||
                bgrx[2] != rgba[0])
                wrong++;
        }
    free(screen);
    return wrong == 0;
}

static void test_window(void) {
    unsigned char *wanted;
    diti_json *root = NULL;
    bool same = false;
    int i;
    if (system("command -v Xvfb >/dev/null && command -v xdotool >/dev/null && pkg-config --exists glfw3") != 0) {
        printf("skipped: the engine in a window needs Xvfb, xdotool and GLFW\n");
        return;
    }
    wanted = still("--budget 50000", WORK ".png");
    mkdir(WORK ".screen", 0777);
    CHECK(
        system(
            "Xvfb :97 -screen 0 800x600x24 -fbdir " WORK ".screen >" WORK ".x.log 2>&1 & echo $! >" WORK
            ".x.pid; sleep 2;"
            " DISPLAY=:97 build/engine --validate --model tests/fixtures/pipe_pixart_sigma --size 32 --steps 4" PROMPTS
            " --still --json " WORK ".window.json >" WORK ".window.log 2>&1 &") == 0);
    for (i = 0; i < 120 && wanted && !same; i++) {
        usleep(500000);
        same = on_screen(wanted);
    }
    CHECK_MESSAGE(same, "the window shows something else than the picture without one");
    CHECK(system("export DISPLAY=:97; w=$(xdotool search --name 'dit.h engine' | head -n 1);"
                 " xdotool windowsize $w 640 400; sleep 2; xdotool windowsize $w 200 300; sleep 2;"
                 " xdotool windowfocus $w; xdotool key --window $w space; sleep 2; xdotool key --window $w s; sleep 8;"
                 " xdotool key --window $w c; sleep 1; xdotool key --window $w Escape; sleep 3") == 0);
    root = test_read_json(&env, WORK ".window.json");
    if (CHECK(root))
        CHECK(number(root, "messages") == 0 && number(root, "resizes") >= 2 && number(root, "runs") >= 2 &&
              number(root, "retired") == 2);
    system("kill $(cat " WORK ".x.pid)");
    diti_json_free(&env, root);
    stbi_image_free(wanted);
}

int main(void) {
    env = test_env(NULL);
    test_changes_of_mind();
    test_picture();
    test_realtime();
    test_refusals();
    if (getenv("DIT_TEST_ALL") && atoi(getenv("DIT_TEST_ALL"))) {
        test_compute_queue();
        test_bundled();
        test_vma();
        test_window();
    }
    return TEST_END("engine");
}
