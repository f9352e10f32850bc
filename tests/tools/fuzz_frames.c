/* libFuzzer: any bytes as a Y4M file of --init-video, read frame by frame, and as the names of two numbered pictures
   and of a clip that is written. */
#include "library.h"
#define PICTURE_PIXELS 65536u /* so that no input is slow */
#include "examples/cli/clip.h"
#include "examples/cli/frames.h"

static void check_sentence(const char *why) {
    const char *p;
    if (!*why) abort();
    for (p = why; *p; p++)
        if (*p < ' ' || *p > '~') abort();
}

static void read_frames(const uint8_t *data, size_t size) {
    static frame_reader f;
    uint64_t pixels;
    const char *why;
    picture p;
    memset(&f, 0, sizeof f);
    f.file = size ? fmemopen((void *)(uintptr_t)data, size, "rb") : NULL;
    if (!f.file) return;
    why = frames_open_y4m(&f);
    if (!why && (!f.width || !f.height || (uint64_t)f.width * f.height > PICTURE_PIXELS || !f.rate != !f.scale))
        abort();
    while (!why) {
        why = frames_next(&f, &p);
        if (!p.rgba) break;
        if (why || p.width != f.width || p.height != f.height) abort();
        for (pixels = (uint64_t)p.width * p.height; pixels; pixels--)
            if (p.rgba[4 * pixels - 1] != 255) abort();
        free(p.rgba);
    }
    if (why) check_sentence(why);
    if ((uint64_t)f.read > size / 6) abort(); /* "FRAME\n" */
    frames_close(&f);
}

static void check_names(const uint8_t *data, size_t size) {
    char *names[2], path[PATH_SIZE];
    const size_t half = size / 2;
    int i;
    names[0] = (char *)malloc(half + 1);
    names[1] = (char *)malloc(size - half + 5);
    if (!names[0] || !names[1]) abort();
    memcpy(names[0], data, half);
    names[0][half] = 0;
    memcpy(names[1], data + half, size - half);
    memcpy(names[1] + (size - half), ".png", 5);
    i = frames_by_number(&names[0], &names[1]);
    if (i != -frames_by_number(&names[1], &names[0]) && (i > 0) == (frames_by_number(&names[1], &names[0]) > 0))
        abort();
    if (!memchr(names[1], '/', strlen(names[1])) && strlen(names[1]) > 4 &&
        !strcmp(names[1] + strlen(names[1]) - 4, ".png") && !why_no_number(names[1]) &&
        clip_number_path(names[1], 11, path, sizeof path) && !strstr(path, "12"))
        abort();
    free(names[0]);
    free(names[1]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    read_frames(data, size);
    check_names(data, size);
    return 0;
}
