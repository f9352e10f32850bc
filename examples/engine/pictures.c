/* All that concerns dit: a thread loads and plans while frames go on, two jobs take turns so that the picture on the
   cube stays until the next one is there, and every frame records as much of one as its budget allows.

   Built alone: define DIT_IMPLEMENTATION here. */
#include "device.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PROMPTS = 3, BLOB = 1 << 18 };
static const char *prompts[PROMPTS + 1] = {"fox, fluent style on a purple background", "banana, flat style",
                                           "red heart, fluent style", ""}; /* the last: the negative prompt */

typedef enum work { WORK_MODEL, WORK_JOBS } work; /* of the thread */

typedef struct slot { /* a job and the texture that it writes */
    dit_job *job;
    texture target;
    uint64_t frame, drawn; /* the newest that has to do with either, and that shows the texture */
} slot;

typedef struct grave { /* a texture that frames may still show */
    texture target;
    uint64_t frame;
} grave;

struct pictures {
    renderer *r;
    const options *o;
    numbers *n;
    dit_context *context;
    dit_model *model;
    slot slots[2];
    uint32_t front; /* the slot on the cube; the other one makes the next picture */
    bool shows;     /* there is a picture */
    bool running, recorded, wanted;
    bool showed; /* this frame was the first to show the picture */
    uint32_t side, prompt, preview_id;
    uint64_t seed;
    dit_output preview;
    grave graves[4];
    unsigned char *blobs[PROMPTS + 1]; /* encoded prompts */
    size_t blob_size;
    pthread_t thread;
    work work;
    bool threaded; /* the thread exists, and the slots are its own */
    int done;      /* atomic: it has ended; good: as it should */
    bool good;
    int percent; /* atomic: of its work */
    int quit;    /* atomic: the window was closed meanwhile */
    double began_ms;
};

/* ---- the context ---- */

static void warn(int level, const char *message, void *user) {
    (void)level, (void)user;
    fprintf(stderr, "dit: %s\n", message);
}

static int32_t device_alloc(uint32_t device, const VkMemoryRequirements *need, VkMemoryPropertyFlags required,
                            VkMemoryPropertyFlags preferred, dit_block *out, void *user) {
    (void)device;
    out->size = need->size;
    return memory_alloc(user, need, required, preferred, &out->memory, &out->offset, &out->mapped, &out->handle);
}

static void device_free(uint32_t device, const dit_block *block, void *user) {
    (void)device;
    memory_free(user, block->handle);
}

static bool progress(const char *what, uint64_t done, uint64_t total, void *user) {
    pictures *p = user;
    int first = strcmp(what, "preparing kernels") ? 0 : 50; /* weights come before */
    if (strcmp(what, "testing kernels"))                    /* the context comes first, in a moment */
        __atomic_store_n(&p->percent, first + (int)(total ? 50 * done / total : 0), __ATOMIC_RELAXED);
    return !__atomic_load_n(&p->quit, __ATOMIC_RELAXED);
}

static bool open_context(pictures *p, dit_error *err) {
    renderer *r = p->r;
    dit_vulkan vulkan = device_for_dit(r);
    dit_context_desc desc = {.vulkan = &vulkan, .vulkan_count = 1};
    void *cache = read_file(p->o->cache, &desc.cache_size);
    desc.cache = cache;
    desc.frames_in_flight = FRAMES;
    desc.max_slice_us = p->o->budget_us;
    desc.logger.func = warn;
    desc.logger.max_level = 1;
    desc.progress = (dit_progress){progress, p};
    if (r->allocator) desc.device_allocator = (dit_device_allocator){device_alloc, device_free, r->allocator};
    dit_context_create(&desc, &p->context, err);
    free(cache);
    return p->context != NULL;
}

/* ---- loading, in the thread ---- */

static bool load_model(pictures *p, uint32_t parts, dit_error *err) {
    dit_model_desc desc = {.source.path = p->o->model, .parts = parts, .progress = {progress, p}};
    return dit_model_load(p->context, &desc, &p->model, err) == DIT_OK;
}

/* A game ships the file that this writes, and no text encoder. */
static bool encode_prompts(pictures *p, dit_error *err) {
    uint32_t i;
    if (!load_model(p, 0, err)) return false;
    for (i = 0; i <= PROMPTS; i++) {
        if (dit_encode_prompt(p->context, p->model, prompts[i], NULL, &p->blob_size, err) < 0) return false;
        p->blobs[i] = i ? p->blobs[0] + i * p->blob_size : malloc((PROMPTS + 1) * p->blob_size);
        if (dit_encode_prompt(p->context, p->model, prompts[i], p->blobs[i], &p->blob_size, err) < 0) return false;
    }
    if (p->o->prompts) write_file(p->o->prompts, p->blobs[0], (PROMPTS + 1) * p->blob_size);
    dit_model_destroy(p->model);
    p->model = NULL;
    return true;
}

static bool open_model(pictures *p, dit_error *err) {
    size_t size;
    uint32_t i;
    p->blobs[0] = read_file(p->o->prompts, &size);
    p->blob_size = size / (PROMPTS + 1);
    for (i = 1; i <= PROMPTS && p->blobs[0]; i++) p->blobs[i] = p->blobs[0] + i * p->blob_size;
    if (!p->blobs[0] && !encode_prompts(p, err)) return false;
    return load_model(p, 1u << DIT_ROLE_TRANSFORMER | 1u << DIT_ROLE_VAE, err);
}

static dit_job_desc describe(pictures *p, const slot *s) {
    dit_job_desc desc = {.model = p->model,
                         .conditioning = p->blobs[p->prompt],
                         .conditioning_size = p->blob_size,
                         .negative_conditioning = p->blobs[PROMPTS],
                         .negative_conditioning_size = p->blob_size,
                         .width = p->side,
                         .height = p->side,
                         .steps = p->o->steps,
                         .seed = p->seed,
                         .progress = {progress, p}};
    desc.target.image = s->target.image;
    desc.target.format = VK_FORMAT_R8G8B8A8_UNORM;
    desc.target.dst_queue_family = VK_QUEUE_FAMILY_IGNORED;                  /* it is shared by both families */
    if (!p->r->compute_queue) desc.preview_interval = (p->o->steps + 2) / 3; /* another queue would need a copy */
    return desc;
}

static bool open_slot(pictures *p, slot *s, dit_error *err) {
    const VkImageUsageFlags usage =
        VK_IMAGE_USAGE_SAMPLED_BIT | VK_IMAGE_USAGE_TRANSFER_DST_BIT | VK_IMAGE_USAGE_TRANSFER_SRC_BIT;
    uint32_t mips = 1;
    dit_job_desc desc;
    while (p->side >> mips) mips++;
    if (!renderer_make_texture(p->r, p->side, mips, VK_FORMAT_R8G8B8A8_UNORM, usage, &s->target)) {
        snprintf(err->message, sizeof err->message, "no memory for a texture of %u pixels", p->side);
        return false;
    }
    desc = describe(p, s);
    return dit_job_create(p->context, &desc, &s->job, err) == DIT_OK && dit_job_warm_up(s->job, err) == DIT_OK;
}

static void *load(void *user) {
    pictures *p = user;
    dit_error err = {0};
    p->good = p->work != WORK_MODEL || (open_context(p, &err) && open_model(p, &err));
    p->good = p->good && open_slot(p, &p->slots[0], &err) && open_slot(p, &p->slots[1], &err);
    if (!p->good && !__atomic_load_n(&p->quit, __ATOMIC_RELAXED)) fprintf(stderr, "engine: %s\n", err.message);
    __atomic_store_n(&p->done, 1, __ATOMIC_RELEASE);
    return NULL;
}

static void begin_thread(pictures *p, work what) {
    p->work = what;
    p->done = p->percent = 0;
    p->began_ms = now_ms();
    p->threaded = pthread_create(&p->thread, NULL, load, p) == 0;
}

pictures *pictures_open(renderer *r, const options *o, numbers *n) {
    pictures *p = calloc(1, sizeof *p);
    if (!p) return NULL;
    p->r = r;
    p->o = o;
    p->n = n;
    p->side = o->side;
    p->seed = 42;
    p->wanted = true;
    begin_thread(p, WORK_MODEL);
    return p;
}

/* ---- frames ---- */

/* Jobs of another size take over; frames in flight still use the old ones. */
static void change_size(pictures *p) {
    uint32_t i, k;
    for (i = 0; i < 2; i++) {
        for (k = 0; k < 4 && p->graves[k].target.image; k++) {
        }
        if (k == 4) return; /* not so fast */
        p->graves[k].target = p->slots[i].target;
        p->graves[k].frame = p->r->frame;
        /* the compute queue's commands are dit's alone, and the drawing of this frame waits for them */
        dit_job_retire(p->slots[i].job, p->r->compute_queue ? p->r->compute_timeline : p->r->timeline, p->r->frame);
        p->n->retired++;
        memset(&p->slots[i], 0, sizeof p->slots[i]);
    }
    p->side = p->side > 64 ? p->side / 2 : p->side * 2;
    p->shows = p->running = p->recorded = false;
    memset(&p->preview, 0, sizeof p->preview);
    p->wanted = true;
    begin_thread(p, WORK_JOBS);
}

void pictures_key(pictures *p, char key) {
    if (key == ' ') { /* another prompt and seed */
        p->prompt = (p->prompt + 1) % PROMPTS;
        p->seed++;
        p->wanted = true;
    }
    if ((key == 'c' || key == ' ') && p->running && !p->recorded) dit_job_cancel(p->slots[!p->front].job);
    if (key == 's' && !p->threaded && p->context) change_size(p);
}

/* The run that was asked for, in the slot that is not shown, once its frames have finished. */
static bool begin_run(pictures *p) {
    slot *s = &p->slots[!p->front];
    dit_error err = {0};
    dit_job_desc desc = describe(p, s);
    if (!renderer_finished(p->r, s->frame)) return true;
    if (dit_job_restart(s->job, &desc, &err) < 0) {
        fprintf(stderr, "engine: %s\n", err.message);
        return false;
    }
    p->n->restarts++;
    p->wanted = p->recorded = false;
    p->running = true;
    p->preview_id = 0;
    return true;
}

static void note_record(pictures *p, double before) {
    double after = now_ms();
    if (p->n->record_count < sizeof p->n->record_us / sizeof *p->n->record_us)
        p->n->record_us[p->n->record_count] = (float)((after - before) * 1e3);
    if (p->n->record_count++ == 0) p->n->first_slice_ms = after - p->began_ms;
}

/* The picture is recorded: its mips follow in this frame, which shows it. */
static void show(pictures *p, slot *s) {
    if (p->r->compute_queue) p->r->wait_compute = p->r->frame;
    renderer_make_mips(p->r, &s->target);
    p->front = (uint32_t)(s - p->slots);
    p->shows = p->recorded = p->showed = true;
    p->n->shown++;
    memset(&p->preview, 0, sizeof p->preview);
}

static bool record(pictures *p, slot *s) {
    double before = now_ms();
    dit_result result = dit_job_record(s->job, renderer_computing(p->r), p->o->budget_us);
    dit_status status;
    dit_output out;
    dit_error err;
    note_record(p, before);
    dit_job_status(s->job, &status, &err);
    if (result < 0) {
        fprintf(stderr, "engine: %s\n", err.message);
        if (result == DIT_ERROR_DEVICE_LOST) p->r->lost = true;
        return false;
    }
    if (p->r->compute_queue) p->r->compute_waits = s->drawn;
    if (result == DIT_WORKING) {
        if (p->recorded) p->recorded = false; /* fp16 overflowed: the rest comes again */
        if (status.preview_id != p->preview_id && dit_job_preview(s->job, &out) == DIT_OK) {
            p->preview = out;
            p->preview_id = status.preview_id;
            p->n->previews++;
        }
    } else if (result == DIT_CANCELLED) {
        p->running = false;
        p->n->cancelled++;
        memset(&p->preview, 0, sizeof p->preview);
    } else if (!p->recorded) {
        show(p, s);
    } else if (dit_job_output(s->job, 0, 0, &out) == DIT_OK && out.final) {
        p->running = false;
        p->n->finished++;
    }
    return true;
}

static void empty_graves(pictures *p) {
    uint32_t i;
    for (i = 0; i < 4; i++)
        if (p->graves[i].target.image && renderer_finished(p->r, p->graves[i].frame))
            renderer_free_texture(p->r, &p->graves[i].target);
}

bool pictures_frame(pictures *p, bool *recorded) {
    slot *s;
    *recorded = false;
    empty_graves(p);
    if (p->threaded) {
        if (!__atomic_load_n(&p->done, __ATOMIC_ACQUIRE)) return true;
        pthread_join(p->thread, NULL);
        p->threaded = false;
        if (!p->good) return false;
        p->n->load_ms = now_ms() - p->began_ms;
    }
    if (!p->running && p->wanted && !begin_run(p)) return false;
    p->showed = false;
    if (p->shows) p->slots[p->front].frame = p->slots[p->front].drawn = p->r->frame;
    if (!p->running) return true;
    s = &p->slots[p->recorded ? p->front : !p->front];
    *recorded = !p->recorded;
    if (!record(p, s)) return false;
    s->frame = p->r->frame;
    return true;
}

void pictures_drop(pictures *p) {
    if (p->threaded || !p->running) return;
    if (dit_job_unrecord(p->slots[p->recorded ? p->front : !p->front].job) == DIT_OK) p->n->unrecorded++;
    memset(&p->preview, 0, sizeof p->preview); /* the newest may be lost with the frame */
    p->preview_id = 0;
    if (!p->showed) return;
    p->front = !p->front;
    p->recorded = false;
    p->shows = --p->n->shown > 0;
}

float pictures_progress(pictures *p) {
    dit_status status;
    if (p->threaded) return (float)__atomic_load_n(&p->percent, __ATOMIC_RELAXED) / 100;
    if (!p->running) return 1;
    dit_job_status(p->slots[p->recorded ? p->front : !p->front].job, &status, NULL);
    return status.fraction;
}

bool pictures_loading(const pictures *p) { return p->threaded; }

VkImageView pictures_cube(const pictures *p) {
    return p->shows && !p->threaded ? p->slots[p->front].target.view : VK_NULL_HANDLE;
}

VkImageView pictures_small(const pictures *p) { return p->preview.view; }

/* All frames have finished, or the device is lost. */
void pictures_close(pictures *p) {
    uint32_t i;
    void *cache;
    size_t size = 0;
    if (!p) return;
    __atomic_store_n(&p->quit, 1, __ATOMIC_RELAXED);
    if (p->threaded) pthread_join(p->thread, NULL);
    if (p->context && p->o->cache && !p->r->lost && dit_context_save_cache(p->context, NULL, &size, NULL) == DIT_OK) {
        cache = malloc(size);
        if (cache && dit_context_save_cache(p->context, cache, &size, NULL) == DIT_OK)
            write_file(p->o->cache, cache, size);
        free(cache);
    }
    for (i = 0; i < 2; i++) {
        dit_job_destroy(p->slots[i].job);
        renderer_free_texture(p->r, &p->slots[i].target);
    }
    for (i = 0; i < 4; i++) renderer_free_texture(p->r, &p->graves[i].target);
    dit_model_destroy(p->model);
    dit_context_destroy(p->context);
    free(p->blobs[0]);
    free(p);
}
