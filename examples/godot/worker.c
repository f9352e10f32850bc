#include "worker.h"
#define DIT_IMPLEMENTATION
#include "dit.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct weights {
    worker *w;
    uint32_t users; /* nodes' models and requests; under the worker's lock */
    char *path;
    uint64_t weight_budget;
    bool release_encoders, int8;
    weights *next_unused;
    dit_model *model; /* this and next_loaded: the thread's alone */
    weights *next_loaded;
};

struct request {
    weights *m;
    uint32_t users; /* the node and the thread; what follows is under the worker's lock */
    state state;
    bool cancelled;
    float fraction;
    unsigned char *rgba;
    char message[512];
    request *next;
    char *prompt, *negative_prompt; /* these and wish do not change */
    wish what;
    uint32_t width, height;
};

struct worker {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    bool started, quit; /* quit: under the lock, like all down to note */
    uint32_t users;     /* the extension, and weights that somebody holds */
    request *first, **last;
    weights *unused;  /* that nobody holds any more, and the thread has to unload */
    request *current; /* that runs */
    dit_job *job;     /* of current, as long as it can be cancelled */
    char note[256];
    place at; /* from here on the thread's alone */
    own_device *device;
    dit_context *context;
    dit_job *kept; /* the newest job: a request of its shape runs in it without being planned anew */
    weights *kept_weights, *loaded;
};

static void lock(worker *w) { pthread_mutex_lock(&w->lock); }
static void unlock(worker *w) { pthread_mutex_unlock(&w->lock); }

static char *copy_text(const char *text) {
    size_t size = strlen(text ? text : "") + 1;
    char *copy = malloc(size);
    return copy ? memcpy(copy, text ? text : "", size) : NULL;
}

/* ---- what nodes hold; all of it under the lock ---- */

static void free_worker(worker *w) { /* called without the lock, when the last user is gone */
    pthread_cond_destroy(&w->wake);
    pthread_mutex_destroy(&w->lock);
    free(w);
}

static bool drop_worker(worker *w) { return --w->users == 0; }

static void free_weights(weights *m) {
    free(m->path);
    free(m);
}

/* Returns whether the worker is to be freed, too. */
static bool drop_weights(weights *m) {
    worker *w = m->w;
    if (--m->users) return false;
    if (m->model) { /* only the thread may destroy it */
        m->next_unused = w->unused;
        w->unused = m;
        pthread_cond_signal(&w->wake);
    } else {
        free_weights(m);
    }
    return drop_worker(w);
}

static bool drop_request(request *r) {
    weights *m = r->m;
    if (--r->users) return false;
    free(r->prompt);
    free(r->negative_prompt);
    free(r->rgba);
    free(r);
    return drop_weights(m);
}

weights *weights_new(worker *w, const model_options *options) {
    weights *m = calloc(1, sizeof *m);
    if (m) m->path = copy_text(options->path);
    if (!m || !m->path) {
        free(m);
        return NULL;
    }
    m->w = w;
    m->users = 1;
    m->weight_budget = options->weight_budget;
    m->release_encoders = options->release_encoders;
    m->int8 = options->int8;
    lock(w);
    w->users++;
    unlock(w);
    return m;
}

void weights_release(weights *m) {
    worker *w = m ? m->w : NULL;
    bool last;
    if (!m) return;
    lock(w);
    last = drop_weights(m);
    unlock(w);
    if (last) free_worker(w);
}

request *request_new(weights *m, const wish *what) {
    request *r = calloc(1, sizeof *r);
    worker *w = m->w;
    if (!r) return NULL;
    r->what = *what;
    r->prompt = copy_text(what->prompt);
    r->negative_prompt = copy_text(what->negative_prompt);
    if (!r->prompt || !r->negative_prompt) {
        free(r->prompt);
        free(r->negative_prompt);
        free(r);
        return NULL;
    }
    r->m = m;
    r->users = 1;
    lock(w);
    m->users++;
    if (w->quit) {
        r->state = STATE_FAILED;
        snprintf(r->message, sizeof r->message, "dit's thread has ended");
    } else {
        r->users++;
        *w->last = r;
        w->last = &r->next;
        pthread_cond_signal(&w->wake);
    }
    unlock(w);
    return r;
}

void request_look(request *r, report *out) {
    lock(r->m->w);
    out->state = r->state;
    out->fraction = r->fraction;
    out->width = r->width;
    out->height = r->height;
    out->rgba = r->rgba;
    r->rgba = NULL;
    memcpy(out->message, r->message, sizeof out->message);
    unlock(r->m->w);
}

static void cancel(worker *w, request *r) {
    r->cancelled = true;
    if (w->current == r) dit_job_cancel(w->job); /* an atomic flag */
    if (r->state != STATE_WAITING) return;
    r->state = STATE_FAILED; /* the thread finds it in its queue and drops it */
    snprintf(r->message, sizeof r->message, "cancelled");
}

void request_cancel(request *r) {
    lock(r->m->w);
    cancel(r->m->w, r);
    unlock(r->m->w);
}

void request_release(request *r) {
    worker *w = r ? r->m->w : NULL;
    bool last;
    if (!r) return;
    lock(w);
    cancel(w, r);
    last = drop_request(r);
    unlock(w);
    if (last) free_worker(w);
}

bool worker_note(worker *w, char *line, size_t size) {
    lock(w);
    snprintf(line, size, "%s", w->note);
    w->note[0] = 0;
    unlock(w);
    return line[0] != 0;
}

/* ---- the thread ---- */

static bool wanted(worker *w) { /* the request that runs */
    bool is;
    lock(w);
    is = !w->quit && w->current && !w->current->cancelled;
    unlock(w);
    return is;
}

static bool progress(const char *what, uint64_t done, uint64_t total, void *user) {
    (void)what, (void)done, (void)total;
    return wanted(user);
}

static void keep_no_job(worker *w) {
    lock(w);
    w->job = NULL; /* nobody cancels it any more */
    unlock(w);
    dit_job_destroy(w->kept);
    w->kept = NULL;
    w->kept_weights = NULL;
}

static void unload(worker *w, weights *m) {
    weights **at = &w->loaded;
    while (*at && *at != m) at = &(*at)->next_loaded;
    if (*at) *at = m->next_loaded;
    if (w->kept_weights == m) keep_no_job(w);
    dit_model_destroy(m->model);
    m->model = NULL;
}

/* Models are loaded again when a request needs them. */
static void close_context(worker *w) {
    keep_no_job(w);
    while (w->loaded) unload(w, w->loaded);
    dit_context_destroy(w->context);
    own_device_close(w->device);
    w->context = NULL;
    w->device = NULL;
}

static void warn(int level, const char *message, void *user) {
    worker *w = user;
    (void)level;
    lock(w);
    snprintf(w->note, sizeof w->note, "%s", message);
    unlock(w);
}

static bool open_context(worker *w, dit_error *err) {
    dit_context_desc desc = {0};
    dit_vulkan vulkan = {0};
    char note[256] = "";
    if (w->context) return true;
    if (!own_device_open(&w->device, &w->at, &vulkan, note, sizeof note, err->message, sizeof err->message))
        return false;
    desc.vulkan = &vulkan;
    desc.vulkan_count = 1;
    desc.max_slice_us = w->at.slice_us;
    desc.logger.func = warn;
    desc.logger.max_level = 1;
    desc.logger.user = w;
    desc.progress.func = progress;
    desc.progress.user = w;
    if (dit_context_create(&desc, &w->context, err) != DIT_OK) {
        close_context(w);
        return false;
    }
    warn(2, note, w);
    return true;
}

static bool open_model(worker *w, weights *m, dit_error *err) {
    static const dit_type_rule int8[] = {{"transformer.*blocks.*", DIT_TYPE_I8_ROW}};
    dit_model_desc desc = {0};
    if (m->model) return true;
    desc.source.path = m->path;
    desc.weight_budget = m->weight_budget;
    desc.release_text_encoders = m->release_encoders;
    if (m->int8) desc.types = int8, desc.type_count = 1;
    desc.progress.func = progress;
    desc.progress.user = w;
    if (dit_model_load(w->context, &desc, &m->model, err) != DIT_OK) return false;
    m->next_loaded = w->loaded;
    w->loaded = m;
    return true;
}

/* A job of the same shape runs again; another one is planned anew. */
static bool open_job(worker *w, request *r, dit_error *err) {
    dit_job_desc desc = {0};
    desc.model = r->m->model;
    desc.prompt = r->prompt;
    desc.negative_prompt = r->negative_prompt;
    desc.seed = r->what.seed;
    desc.width = r->what.width;
    desc.height = r->what.height;
    desc.steps = r->what.steps;
    desc.guidance.scale = r->what.guidance;
    desc.preview_interval = r->what.preview_interval;
    desc.progress.func = progress;
    desc.progress.user = w;
    if (w->kept_weights == r->m && dit_job_restart(w->kept, &desc, err) == DIT_OK) return true;
    keep_no_job(w);
    if (dit_job_create(w->context, &desc, &w->kept, err) != DIT_OK) return false;
    w->kept_weights = r->m;
    return true;
}

/* NULL: err tells why. */
static unsigned char *read_pixels(worker *w, const request *r, dit_read what, dit_error *err) {
    size_t size = (size_t)r->width * r->height * 4;
    unsigned char *rgba = malloc(size);
    if (!rgba) snprintf(err->message, sizeof err->message, "no memory for %u x %u pixels", r->width, r->height);
    if (rgba && dit_job_read(w->kept, what, 0, 0, rgba, size, 0, err) == DIT_OK) return rgba;
    free(rgba);
    return NULL;
}

/* Leaves pixels where request_look finds them; under the lock. */
static void publish(request *r, unsigned char *rgba) {
    free(r->rgba);
    r->rgba = rgba;
}

static dit_result run_job(worker *w, request *r, dit_error *err) {
    dit_result result = DIT_WORKING;
    uint32_t preview = 0;
    dit_status status;
    while (result == DIT_WORKING) {
        unsigned char *rgba = NULL;
        result = dit_job_wait(w->kept, 20000000);
        dit_job_status(w->kept, &status, err);
        if (result == DIT_WORKING && status.preview_id != preview) {
            preview = status.preview_id;
            rgba = read_pixels(w, r, DIT_READ_PREVIEW, err); /* one that fails is left out */
        }
        lock(w);
        r->fraction = status.fraction;
        if (rgba) publish(r, rgba);
        unlock(w);
    }
    return result;
}

/* NULL: err tells why, or the request was cancelled. */
static unsigned char *make_picture(worker *w, request *r, dit_error *err) {
    dit_model_info info;
    if (!open_context(w, err) || !open_model(w, r->m, err) || !open_job(w, r, err)) return NULL;
    dit_model_get_info(r->m->model, &info);
    lock(w);
    r->width = r->what.width ? r->what.width : info.default_width;
    r->height = r->what.height ? r->what.height : info.default_height;
    w->job = w->kept;
    if (r->cancelled || w->quit) dit_job_cancel(w->job);
    unlock(w);
    return run_job(w, r, err) == DIT_OK ? read_pixels(w, r, DIT_READ_RGBA8, err) : NULL;
}

static void run(worker *w, request *r) {
    dit_error err = {0};
    unsigned char *rgba = make_picture(w, r, &err);
    const char *reason = err.message[0] ? err.message : "dit gave no reason";
    lock(w);
    w->job = NULL;
    w->current = NULL;
    if (r->cancelled || w->quit) reason = "cancelled";
    if (rgba && !r->cancelled && !w->quit) {
        publish(r, rgba);
        rgba = NULL;
        r->fraction = 1;
        r->state = STATE_FINISHED;
    } else {
        snprintf(r->message, sizeof r->message, "%s", reason);
        r->state = STATE_FAILED;
    }
    unlock(w);
    free(rgba);
    if (err.result == DIT_ERROR_DEVICE_LOST) close_context(w); /* the next request begins anew */
}

static void *work(void *user) {
    worker *w = user;
    lock(w);
    while (!w->quit) {
        request *r = w->first;
        weights *m = w->unused;
        if (m) {
            w->unused = m->next_unused;
            unlock(w);
            unload(w, m);
            free_weights(m);
            lock(w);
        } else if (r) {
            w->first = r->next;
            if (!w->first) w->last = &w->first;
            if (r->state == STATE_WAITING) {
                r->state = STATE_RUNNING;
                w->current = r;
                unlock(w);
                run(w, r);
                lock(w);
            }
            drop_request(r); /* the extension uses the worker, so that this is not its end */
        } else {
            pthread_cond_wait(&w->wake, &w->lock);
        }
    }
    unlock(w);
    close_context(w);
    return NULL;
}

worker *worker_start(const place *at) {
    worker *w = calloc(1, sizeof *w);
    if (!w) return NULL;
    w->at = *at;
    w->users = 1;
    w->last = &w->first;
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->wake, NULL);
    w->started = pthread_create(&w->thread, NULL, work, w) == 0;
    if (w->started) return w;
    free_worker(w);
    return NULL;
}

void worker_stop(worker *w) {
    bool last;
    if (!w) return;
    lock(w);
    w->quit = true;
    if (w->current) dit_job_cancel(w->job);
    pthread_cond_signal(&w->wake);
    unlock(w);
    pthread_join(w->thread, NULL);
    lock(w);
    while (w->first) {
        request *r = w->first;
        w->first = r->next;
        cancel(w, r);
        drop_request(r);
    }
    while (w->unused) {
        weights *m = w->unused;
        w->unused = m->next_unused;
        free_weights(m);
    }
    last = drop_worker(w);
    unlock(w);
    if (last) free_worker(w);
}
