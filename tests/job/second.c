/* The second picture: from a model that is loaded it reads no file and allocates no device memory (the bundled model,
   Z-Image, FLUX.2 klein), and the prompt after it is encoded while it is drawn. Where weights are streamed, the
   decoder's are read while the last step runs. test-runs: lavapipe */
#include "library.h"
#include "files.h"
#include "vulkan_faults.h"
#include "vulkan_test.h"
#include <pthread.h>

enum { SIDE = 32, STEPS = 2, BYTES = SIDE * SIDE * 4 };
#define MODEL "models/emoji-q8_0.gguf"
static const char first_prompt[] = "fox, fluent style", second_prompt[] = "owl, fluent style, at night";

/* The model's file in memory, whose reads are counted; with watched, whose reads of the decoder's tensors are told
   apart. */
typedef struct counted_file {
    unsigned char *data;
    size_t size;
    uint64_t reads;
    dit_job *job;             /* running; NULL: none */
    uint64_t decoder, behind; /* the decoder's tensors lie in these bytes of the file */
    uint32_t early, late;     /* reads of these before the last step was finished, and later */
} counted_file;

static int64_t counted_read(uint64_t offset, void *out, size_t size, void *user) {
    counted_file *file = (counted_file *)user;
    dit_status status;
    file->reads++;
    memcpy(out, file->data + offset, size);
    if (file->job && offset >= file->decoder && offset < file->behind) {
        dit_job_status(file->job, &status, NULL);
        if (status.step < status.step_count)
            file->early++;
        else
            file->late++;
    }
    return (int64_t)size;
}

static dit_model *load(dit_context *context, counted_file *file, const dit_model_desc *how) {
    dit_model_desc desc = *how;
    dit_model *model = NULL;
    dit_error err = {0};
    desc.source.read_at = counted_read;
    desc.source.size = file->size;
    desc.source.user = file;
    CHECK_MESSAGE(dit_model_load(context, &desc, &model, &err) == DIT_OK, "%s", err.message);
    return model;
}

static dit_job_desc describe(const dit_model *model, const char *prompt) {
    dit_job_desc desc = {0};
    desc.model = model;
    desc.prompt = prompt;
    desc.width = desc.height = SIDE;
    desc.steps = STEPS;
    desc.seed = 5;
    return desc;
}

static bool finish(dit_job *job, unsigned char *pixels) {
    dit_error err = {0};
    dit_result result = dit_job_wait(job, UINT64_MAX);
    dit_job_status(job, NULL, &err);
    return CHECK_MESSAGE(result == DIT_OK, "%s", err.message) &&
           CHECK(dit_job_read(job, DIT_READ_RGBA8, 0, 0, pixels, BYTES, 0, &err) == DIT_OK);
}

/* Two pictures of other prompts by one job; reads and allocations of the second. */
static void test_second(dit_context *context, counted_file *file, const dit_model_desc *how, const char *name,
                        unsigned char *pixels) {
    dit_model *model = load(context, file, how);
    dit_job_desc desc = describe(model, first_prompt);
    dit_job *job = NULL;
    dit_error err = {0};
    uint64_t reads;
    if (!model) return;
    if (CHECK_MESSAGE(dit_job_create(context, &desc, &job, &err) == DIT_OK, "%s: %s", name, err.message) &&
        finish(job, pixels)) {
        reads = file->reads;
        fault_begin(0, VK_SUCCESS);
        fault_only = "vkAllocateMemory";
        desc.prompt = second_prompt;
        CHECK_MESSAGE(dit_job_restart(job, &desc, &err) == DIT_OK, "%s: %s", name, err.message);
        finish(job, pixels);
        printf("%s: the second picture reads the file %llu times and allocates device memory %u times\n", name,
               (unsigned long long)(file->reads - reads), fault_calls);
        CHECK_MESSAGE(file->reads == reads && fault_calls == 0, "%s", name);
        fault_only = NULL;
    }
    dit_job_destroy(job);
    dit_model_destroy(model);
}

/* --- repositories, whose members' reads are counted --- */

enum { MEMBERS = 64 };
typedef struct counted_folder {
    const char *path;
    counted_file members[MEMBERS];
    uint32_t count;
} counted_folder;

static dit_result counted_open(const char *member, dit_source *out, void *user) {
    counted_folder *folder = (counted_folder *)user;
    counted_file *file = &folder->members[folder->count];
    char path[512];
    diti_format(path, sizeof path, "%s/%s", folder->path, member);
    if (folder->count == MEMBERS) return DIT_ERROR_IO;
    file->data = (unsigned char *)test_read_file(path, &file->size);
    if (!file->data) return DIT_ERROR_IO;
    folder->count++;
    out->read_at = counted_read;
    out->size = file->size;
    out->user = file;
    return DIT_OK;
}

static uint64_t folder_reads(const counted_folder *folder) {
    uint64_t reads = 0;
    uint32_t i;
    for (i = 0; i < folder->count; i++) reads += folder->members[i].reads;
    return reads;
}

/* Families whose text encoder is a language model, with weights that stay and with ones that are streamed and kept: the
   second picture is another, and costs neither a read nor device memory. */
static void test_second_of(dit_context *context, const char *path, bool streamed) {
    static unsigned char pixels[2][64 * 64 * 4];
    counted_folder folder = {0};
    dit_model_desc how = {0};
    dit_model *model = NULL;
    dit_job_desc desc;
    dit_job *job = NULL;
    dit_error err = {0};
    uint64_t reads;
    uint32_t opened, i;
    folder.path = path;
    how.source.open = counted_open;
    how.source.user = &folder;
    how.weight_budget = streamed ? 1200000 : 0;
    how.release_text_encoders = how.keep_streamed = streamed;
    if (CHECK_MESSAGE(dit_model_load(context, &how, &model, &err) == DIT_OK, "%s: %s", path, err.message)) {
        desc = describe(model, first_prompt);
        desc.width = desc.height = 64;
        if (CHECK_MESSAGE(dit_job_create(context, &desc, &job, &err) == DIT_OK, "%s: %s", path, err.message) &&
            CHECK(dit_job_wait(job, UINT64_MAX) == DIT_OK) &&
            CHECK(dit_job_read(job, DIT_READ_RGBA8, 0, 0, pixels[0], sizeof pixels[0], 0, &err) == DIT_OK)) {
            reads = folder_reads(&folder);
            opened = folder.count;
            CHECK_MESSAGE(reads > 0, "%s is read", path);
            fault_begin(0, VK_SUCCESS);
            fault_only = "vkAllocateMemory";
            desc.prompt = "owl, fluent style";
            desc.seed = 6;
            CHECK_MESSAGE(dit_job_restart(job, &desc, &err) == DIT_OK && dit_job_wait(job, UINT64_MAX) == DIT_OK,
                          "%s: %s", path, err.message);
            printf("%s%s: the second picture reads its files %llu times and allocates device memory %u times\n", path,
                   streamed ? ", streamed and kept" : "", (unsigned long long)(folder_reads(&folder) - reads),
                   fault_calls);
            CHECK_MESSAGE(folder_reads(&folder) == reads && folder.count == opened && fault_calls == 0, "%s", path);
            fault_only = NULL;
            CHECK(dit_job_read(job, DIT_READ_RGBA8, 0, 0, pixels[1], sizeof pixels[1], 0, &err) == DIT_OK &&
                  memcmp(pixels[0], pixels[1], sizeof pixels[0]) != 0);
        }
    }
    dit_job_destroy(job);
    dit_model_destroy(model);
    for (i = 0; i < folder.count; i++) free(folder.members[i].data);
}

/* The bytes of the file in which all tensors of the decoder lie. */
static void find_decoder(counted_file *file) {
    diti_env env = test_env(NULL);
    diti_checkpoint *checkpoint = NULL;
    dit_source source = {0};
    dit_error err = {0};
    uint32_t i;
    source.path = MODEL;
    file->decoder = UINT64_MAX;
    file->behind = 0;
    if (!CHECK_MESSAGE(diti_checkpoint_open(&env, &source, &checkpoint, &err) == DIT_OK, "%s", err.message)) return;
    for (i = 0; i < diti_checkpoint_count(checkpoint); i++) {
        const diti_stored_tensor *tensor = diti_checkpoint_tensor(checkpoint, i);
        if (!strstr(tensor->name, "decoder.")) continue;
        if (tensor->offset < file->decoder) file->decoder = tensor->offset;
        if (tensor->offset + tensor->size > file->behind) file->behind = tensor->offset + tensor->size;
    }
    CHECK(file->decoder < file->behind);
    diti_checkpoint_close(checkpoint);
}

/* Two slots: while one serves the last step, the other takes what the decoder reads first. */
static void test_decoder_ahead(dit_context *context, counted_file *file, const unsigned char *expected) {
    static unsigned char pixels[BYTES];
    dit_model_desc how = {0};
    dit_model *model;
    dit_job_desc desc;
    dit_error err = {0};
    dit_job *job = NULL;
    how.weight_budget = 3u << 20;
    model = load(context, file, &how);
    desc = describe(model, second_prompt);
    if (!model) return;
    if (CHECK_MESSAGE(dit_job_create(context, &desc, &job, &err) == DIT_OK, "%s", err.message)) {
        file->early = file->late = 0;
        file->job = job;
        finish(job, pixels);
        file->job = NULL;
        printf("the decoder's weights are read %u times before the last step has ended, and %u times later\n",
               file->early, file->late);
        CHECK(file->early > 0);
        CHECK_MESSAGE(!memcmp(pixels, expected, BYTES), "streamed weights change the picture");
    }
    dit_job_destroy(job);
    dit_model_destroy(model);
}

typedef struct encoding {
    dit_context *context;
    const dit_model *model;
    void *blob;
    size_t size;
    dit_result result;
} encoding;

static void *encode(void *user) {
    encoding *e = (encoding *)user;
    e->result = dit_encode_prompt(e->context, e->model, second_prompt, e->blob, &e->size, NULL);
    return NULL;
}

/* A thread encodes the next prompt while the job draws; the picture of that text is the one of the prompt itself. */
static void test_encode_meanwhile(dit_context *context, counted_file *file, const unsigned char *expected) {
    static unsigned char pixels[BYTES];
    static const dit_model_desc how = {0};
    dit_model *model = load(context, file, &how);
    dit_job_desc desc = describe(model, first_prompt);
    encoding e = {context, model, NULL, 0, DIT_OK};
    size_t none_size;
    void *none;
    dit_job *job = NULL;
    dit_error err = {0};
    pthread_t thread;
    if (!model) return;
    CHECK(dit_encode_prompt(context, model, "", NULL, &e.size, &err) == DIT_OK);
    e.blob = malloc(e.size);
    none = malloc(e.size);
    none_size = e.size;
    CHECK(dit_encode_prompt(context, model, "", none, &none_size, &err) == DIT_OK);
    if (CHECK_MESSAGE(dit_job_create(context, &desc, &job, &err) == DIT_OK, "%s", err.message)) {
        dit_job_step(job, 0);
        pthread_create(&thread, NULL, encode, &e);
        finish(job, pixels);
        pthread_join(thread, NULL);
        CHECK(e.result == DIT_OK && memcmp(pixels, expected, BYTES) != 0);
        dit_job_destroy(job);
        job = NULL;
        desc.prompt = NULL;
        desc.conditioning = e.blob;
        desc.conditioning_size = e.size;
        desc.negative_conditioning = none;
        desc.negative_conditioning_size = none_size;
        if (CHECK_MESSAGE(dit_job_create(context, &desc, &job, &err) == DIT_OK, "%s", err.message)) finish(job, pixels);
        CHECK_MESSAGE(!memcmp(pixels, expected, BYTES), "a text that was encoded meanwhile gives another picture");
    }
    dit_job_destroy(job);
    dit_model_destroy(model);
    free(e.blob);
    free(none);
}

/* One thread steps the next prompt beside the job: it is there before the last step is finished, and its picture is
   that of the prompt itself. */
static void test_encode_beside(dit_context *context, counted_file *file, const unsigned char *expected,
                               const dit_model_desc *how) {
    static unsigned char pixels[BYTES];
    dit_model *model = load(context, file, how);
    dit_job_desc desc = describe(model, first_prompt);
    dit_encoding *next = NULL;
    dit_result encoded = DIT_WORKING, drawn = DIT_WORKING;
    dit_status status = {0};
    size_t size = 0, none_size;
    void *blob, *none;
    dit_job *job = NULL;
    dit_error err = {0};
    uint32_t calls = 0;
    if (!model) return;
    CHECK(dit_encode_prompt(context, model, "", NULL, &size, &err) == DIT_OK);
    blob = malloc(size);
    none = malloc(size);
    none_size = size;
    CHECK(dit_encode_prompt(context, model, "", none, &none_size, &err) == DIT_OK);
    desc.steps = 4;
    CHECK_MESSAGE(dit_job_create(context, &desc, &job, &err) == DIT_OK, "%s", err.message);
    CHECK_MESSAGE(dit_encoding_create(context, model, second_prompt, false, &next, &err) == DIT_OK, "%s", err.message);
    while (drawn == DIT_WORKING && encoded == DIT_WORKING && job && next) {
        drawn = dit_job_step(job, 0);
        encoded = dit_encoding_step(next, 0, blob, &size, &err);
        calls++;
    }
    dit_job_status(job, &status, NULL);
    printf("the next prompt is encoded in %u calls, when %u of %u steps are finished\n", calls, status.step,
           status.step_count);
    CHECK_MESSAGE(encoded == DIT_OK && drawn == DIT_WORKING && status.step < status.step_count, "%s", err.message);
    CHECK(dit_encoding_step(next, 0, blob, &size, &err) == DIT_OK);
    dit_encoding_destroy(next);
    dit_job_wait(job, UINT64_MAX);
    dit_job_destroy(job);
    job = NULL;
    desc = describe(model, NULL);
    desc.conditioning = blob;
    desc.conditioning_size = size;
    desc.negative_conditioning = none;
    desc.negative_conditioning_size = none_size;
    if (CHECK_MESSAGE(dit_job_create(context, &desc, &job, &err) == DIT_OK, "%s", err.message)) finish(job, pixels);
    CHECK_MESSAGE(!memcmp(pixels, expected, BYTES), "a text that was encoded beside a job gives another picture");
    dit_job_destroy(job);
    CHECK(dit_encoding_create(context, model, "cut off", true, &next, &err) == DIT_OK);
    size = 1;
    CHECK(dit_encoding_step(next, 0, blob, &size, &err) == DIT_ERROR_INVALID_ARGUMENT && size == none_size &&
          strstr(err.message, "dit_encoding_step: the blob needs"));
    CHECK(dit_encoding_step(next, 0, blob, &size, &err) == DIT_WORKING);
    dit_encoding_destroy(next); /* which waits */
    CHECK(dit_encoding_create(context, NULL, "x", false, &next, &err) == DIT_ERROR_INVALID_ARGUMENT && !next &&
          !strcmp(err.message, "dit_encoding_create: model is NULL"));
    dit_model_destroy(model);
    free(blob);
    free(none);
}

int main(void) {
    static unsigned char pixels[2][BYTES];
    static const dit_model_desc resident = {0};
    dit_model_desc kept = {0};
    dit_context_desc desc = {0};
    dit_vulkan vulkan = {0};
    dit_context *context = NULL;
    dit_error err = {0};
    counted_file file = {0};
    int i;
    file.data = (unsigned char *)test_read_file(MODEL, &file.size);
    test_vulkan_begin();
    vulkan.get_instance_proc_addr = fault_get_instance_proc_addr;
    desc.vulkan = &vulkan;
    desc.vulkan_count = 1;
    desc.overrides = "gflop_ns=100000000"; /* many slices, on fast machines as well: calls take turns */
    if (CHECK_MESSAGE(dit_context_create(&desc, &context, &err) == DIT_OK, "%s", err.message)) {
        test_second(context, &file, &resident, "resident", pixels[0]);
        kept.weight_budget = 4u << 20;
        kept.release_text_encoders = kept.keep_streamed = true;
        test_second(context, &file, &kept, "streamed and kept", pixels[1]);
        CHECK(!memcmp(pixels[0], pixels[1], BYTES));
        for (i = 0; i < 2; i++) {
            test_second_of(context, "tests/fixtures/pipe_zimage", i);
            test_second_of(context, "tests/fixtures/pipe_flux2_klein", i);
        }
        find_decoder(&file);
        test_decoder_ahead(context, &file, pixels[0]);
        test_encode_beside(context, &file, pixels[0], &resident);
        kept.keep_streamed = false;
        if (getenv("DIT_TEST_ALL") && *getenv("DIT_TEST_ALL") == '1')
            test_encode_beside(context, &file, pixels[0], &kept);
    }
    dit_context_destroy(context);
    context = NULL;
    desc.vulkan = NULL; /* the functions that count are one thread's */
    desc.vulkan_count = 0;
    if (CHECK_MESSAGE(dit_context_create(&desc, &context, &err) == DIT_OK, "%s", err.message))
        test_encode_meanwhile(context, &file, pixels[0]);
    dit_context_destroy(context);
    free(file.data);
    test_vulkan_end();
    return TEST_END("second");
}
