/* The text encoder on a second device, which loads and encodes while the first device loads the rest: both read their
   files at the same time, and the picture is the one that a single device makes of the prompt.
   test-runs: lavapipe */
#include "library.h"
#include "files.h"
#include "vulkan_test.h"
#include <pthread.h>
#include <time.h>

enum { SIDE = 32, STEPS = 2, BYTES = SIDE * SIDE * 4 };
#define MODEL "models/emoji-q8_0.gguf"
static const char prompt[] = "fox, fluent style";
static const dit_role text_roles[] = {DIT_ROLE_TEXT_1, DIT_ROLE_TEXT_2, DIT_ROLE_TEXT_3};

/* Weights of both halves are awaited: the first read of them by one thread returns when the other one reads, too. */
static unsigned char *file_data;
static size_t file_size;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int readers, met; /* threads that have read weights; of these both saw the other one */

typedef struct half {
    dit_context *context;
    dit_model *model;
    uint32_t parts;
    dit_error err;
    dit_result result;
    bool waits, came; /* waits for the other half at its first read of weights; has done so */
    void *blobs[2];
    size_t size;
} half;

static void meet(half *h) {
    struct timespec until;
    int late = 0;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 60;
    pthread_mutex_lock(&lock);
    h->came = true;
    readers++;
    pthread_cond_broadcast(&changed);
    while (readers < 2 && !late) late = pthread_cond_timedwait(&changed, &lock, &until);
    met += readers == 2;
    pthread_mutex_unlock(&lock);
}

static int64_t read_half(uint64_t offset, void *out, size_t size, void *user) {
    half *h = (half *)user;
    if (h->waits && !h->came && offset > file_size / 4) meet(h); /* behind the header */
    memcpy(out, file_data + offset, size);
    return (int64_t)size;
}

static void load_half(half *h) {
    dit_model_desc desc = {0};
    desc.source.read_at = read_half;
    desc.source.size = file_size;
    desc.source.user = h;
    desc.parts = h->parts;
    h->result = dit_model_load(h->context, &desc, &h->model, &h->err);
}

/* The second device's thread: encoders, and both branches' texts. */
static void *load_texts(void *user) {
    half *h = (half *)user;
    const char *texts[2] = {"", prompt};
    int i;
    load_half(h);
    if (h->result == DIT_OK) h->result = dit_encode_prompt(h->context, h->model, prompt, NULL, &h->size, &h->err);
    for (i = 0; i < 2 && h->result == DIT_OK; i++) {
        size_t size = h->size;
        h->blobs[i] = malloc(size);
        h->result = dit_encode_prompt(h->context, h->model, texts[i], h->blobs[i], &size, &h->err);
    }
    return NULL;
}

static void draw(dit_context *context, const dit_model *model, const half *texts, unsigned char *pixels) {
    dit_job_desc desc = {0};
    dit_job *job = NULL;
    dit_error err = {0};
    desc.model = model;
    desc.width = desc.height = SIDE;
    desc.steps = STEPS;
    desc.seed = 5;
    if (texts) {
        desc.negative_conditioning = texts->blobs[0];
        desc.conditioning = texts->blobs[1];
        desc.conditioning_size = desc.negative_conditioning_size = texts->size;
    } else {
        desc.prompt = prompt;
    }
    if (CHECK_MESSAGE(dit_job_create(context, &desc, &job, &err) == DIT_OK, "%s", err.message) &&
        CHECK(dit_job_wait(job, UINT64_MAX) == DIT_OK))
        CHECK(dit_job_read(job, DIT_READ_RGBA8, 0, 0, pixels, BYTES, 0, &err) == DIT_OK);
    dit_job_destroy(job);
}

int main(void) {
    static unsigned char whole[BYTES], apart[BYTES];
    half rest = {0}, texts = {0}, all = {0};
    dit_context_desc desc = {0};
    dit_model_info info;
    pthread_t thread;
    size_t i;
    file_data = (unsigned char *)test_read_file(MODEL, &file_size);
    test_vulkan_begin();
    for (i = 0; i < 3; i++) texts.parts |= 1u << text_roles[i];
    rest.parts = 1u << DIT_ROLE_TRANSFORMER | 1u << DIT_ROLE_VAE;
    rest.waits = texts.waits = true;
    if (CHECK_MESSAGE(dit_context_create(&desc, &rest.context, &rest.err) == DIT_OK, "%s", rest.err.message) &&
        CHECK_MESSAGE(dit_context_create(&desc, &texts.context, &texts.err) == DIT_OK, "%s", texts.err.message)) {
        pthread_create(&thread, NULL, load_texts, &texts);
        load_half(&rest);
        pthread_join(thread, NULL);
        CHECK_MESSAGE(rest.result == DIT_OK, "%s", rest.err.message);
        CHECK_MESSAGE(texts.result == DIT_OK, "%s", texts.err.message);
        CHECK_MESSAGE(met == 2, "%d of 2 halves were loaded at the same time", met);
        if (rest.result == DIT_OK && texts.result == DIT_OK) {
            dit_model_get_info(rest.model, &info);
            CHECK(info.missing >> DIT_ROLE_TEXT_1 & 1u); /* the first device has no encoder */
            draw(rest.context, rest.model, &texts, apart);
            all.context = rest.context;
            load_half(&all);
            CHECK_MESSAGE(all.result == DIT_OK, "%s", all.err.message);
            if (all.model) draw(all.context, all.model, NULL, whole);
            CHECK_MESSAGE(!memcmp(whole, apart, BYTES), "a text from another device gives another picture");
        }
    }
    free(texts.blobs[0]);
    free(texts.blobs[1]);
    dit_model_destroy(all.model);
    dit_model_destroy(rest.model);
    dit_model_destroy(texts.model);
    dit_context_destroy(rest.context);
    dit_context_destroy(texts.context);
    free(file_data);
    test_vulkan_end();
    return TEST_END("text_apart");
}
