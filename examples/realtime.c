/* A model repaints what an application draws, again and again: condition, plan and memory stay, and every run reads the
   newest frame, a VkImage. Draws with the renderer of examples/engine; make build/realtime.
   usage: realtime [MODEL [PICTURES [STEPS [SIDE [LAST.png [validate]]]]]] */
#include "engine/device.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#define STB_IMAGE_WRITE_STATIC
#define STB_IMAGE_WRITE_IMPLEMENTATION
#include <stb/stb_image_write.h>

static double now_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static bool open_job(renderer *r, const char *path, dit_context **context, dit_model **model, dit_job_desc *desc,
                     dit_job **job, dit_error *err) {
    dit_vulkan vulkan = device_for_dit(r);
    dit_context_desc cd = {.vulkan = &vulkan, .vulkan_count = 1, .frames_in_flight = FRAMES};
    dit_model_desc md = {.source.path = path};
    if (dit_context_create(&cd, context, err) < 0 || dit_model_load(*context, &md, model, err) < 0) return false;
    desc->model = *model;
    return dit_job_create(*context, desc, job, err) == DIT_OK && dit_job_warm_up(*job, err) == DIT_OK;
}

/* Draws a frame and makes a picture of it: in one command buffer, and in more where pieces are cut anew or fp16
   overflowed. */
static bool make_picture(renderer *r, dit_job *job, float sine, dit_error *err) {
    dit_result result = DIT_WORKING;
    dit_output out = {0};
    bool drawn = false;
    while (!out.final && result >= 0) {
        if (!renderer_begin(r)) {
            snprintf(err->message, sizeof err->message, "the device is lost");
            return false;
        }
        if (!drawn) renderer_draw(r, VK_NULL_HANDLE, VK_NULL_HANDLE, sine, NULL, 0);
        drawn = true;
        result = dit_job_record(job, renderer_computing(r), UINT32_MAX);
        renderer_end(r);
        while (!renderer_finished(r, r->frame) && !r->lost) { /* an application would draw meanwhile */
            const struct timespec pause = {0, 100000};
            nanosleep(&pause, NULL);
        }
        if (result == DIT_OK) result = dit_job_output(job, 0, 0, &out);
    }
    if (result < 0) dit_job_status(job, NULL, err);
    return result >= 0;
}

static bool write_png(dit_job *job, uint32_t side, const char *path, dit_error *err) {
    unsigned char *rgba = malloc((size_t)side * side * 4);
    bool written = rgba && dit_job_read(job, DIT_READ_RGBA8, 0, 0, rgba, (size_t)side * side * 4, 0, err) == DIT_OK &&
                   stbi_write_png(path, (int)side, (int)side, 4, rgba, 0);
    if (!written && !err->message[0]) snprintf(err->message, sizeof err->message, "%s cannot be written", path);
    free(rgba);
    return written;
}

int main(int argc, char **argv) {
    static renderer r;
    options o = {0};
    const char *path = argc > 1 ? argv[1] : "models/emoji-q8_0.gguf";
    uint32_t pictures = argc > 2 ? (uint32_t)atoi(argv[2]) : 10, steps = argc > 3 ? (uint32_t)atoi(argv[3]) : 4;
    uint32_t side = argc > 4 ? (uint32_t)atoi(argv[4]) : 128, i;
    dit_context *context = NULL;
    dit_model *model = NULL;
    dit_job *job = NULL;
    dit_image start = {0};
    dit_job_desc desc = {0};
    dit_error err = {0};
    bool good = false;
    double begin, seconds, restarting = 0;
    o.validate = argc > 6;
    if (!renderer_open(&r, &o, side, side)) return 1;
    start.width = start.height = side;
    start.image = r.target.image; /* as renderer_draw leaves it */
    start.layout = VK_IMAGE_LAYOUT_TRANSFER_SRC_OPTIMAL;
    start.format = VK_FORMAT_R8G8B8A8_UNORM;
    desc.prompt = "dice, flat style";
    desc.width = desc.height = side;
    desc.steps = 2 * steps; /* of which the last half is taken */
    desc.strength = 0.5f;
    desc.init_image = &start;
    desc.seed = 42; /* the same noise every time, so that pictures follow each other smoothly */
    if (!open_job(&r, path, &context, &model, &desc, &job, &err)) goto end;
    if (!make_picture(&r, job, 0, &err)) goto end; /* the first one is not measured */
    begin = now_s();
    for (i = 0; i < pictures; i++) {
        double before = now_s();
        if (dit_job_restart(job, &desc, &err) < 0) goto end;
        restarting += now_s() - before;
        if (!make_picture(&r, job, sinf((float)i * 0.1f), &err)) goto end;
    }
    seconds = now_s() - begin;
    printf("%u pictures of %u x %u in %u steps: %.2f a second, %.1f ms each, of which a restart takes %.2f ms\n",
           pictures, side, side, steps, pictures / seconds, seconds * 1e3 / pictures, restarting * 1e3 / pictures);
    good = argc <= 5 || write_png(job, side, argv[5], &err);
end:
    if (!good) fprintf(stderr, "realtime: %s\n", err.message);
    if (r.device) r.DeviceWaitIdle(r.device);
    dit_job_destroy(job);
    dit_model_destroy(model);
    dit_context_destroy(context);
    renderer_close(&r);
    return !good || r.messages;
}
