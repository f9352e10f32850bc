/* Streamed weights: whatever the budget, the picture is the same to the byte and the memory is really less; what fails
 * or stops in between leaves nothing behind. On a device whose memory the host sees, on one where it does not, and on
 * one that the application made and gave a second queue for.
   test-runs: families lavapipe, in test-all sanitize discrete */
#include "library.h"
#include "vulkan_test.h"
#include "engine.h"
#include "files.h"
#include "set_clock.h"
#include <pthread.h>
#include <unistd.h>

#define EMOJI "models/emoji-q8_0.gguf"
#define SMALL "tests/fixtures/pipe_pixart_sigma" /* two blocks, random weights */
#define BRAIN "tests/fixtures/pipe_zimage"       /* transformer and text encoder in BF16 */
enum { SIDE = 32, BYTES = SIDE * SIDE * 4, STEPS = 2, PROMPTS = 2, JOBS = 2 };

static const char *const prompts[PROMPTS] = {"red heart", "banana, flat style"};
static unsigned char expected[PROMPTS][BYTES]; /* with resident weights */
static dit_context *context;
static const char *path;
static uint64_t resident, least; /* bytes of all weights; the smallest budget */

/* ---- Models and jobs ---- */

static uint64_t memory_used(void) { return context->device->memory_used; }

static dit_model *load(const dit_model_desc *desc) {
    dit_model *model = NULL;
    dit_error err = {0};
    CHECK_MESSAGE(dit_model_load(context, desc, &model, &err) == DIT_OK, "%s", err.message);
    return model;
}

static dit_model *load_with(uint64_t budget, bool release_text) {
    dit_model_desc desc = {0};
    desc.source.path = path;
    desc.weight_budget = budget;
    desc.release_text_encoders = release_text;
    return load(&desc);
}

static dit_job_desc describe(const dit_model *model, int prompt) {
    dit_job_desc desc = {0};
    desc.model = model;
    desc.prompt = prompts[prompt];
    desc.width = desc.height = SIDE;
    desc.steps = STEPS;
    desc.guidance.scale = 1;
    desc.seed = 7;
    return desc;
}

static dit_job *make_job(const dit_model *model, int prompt) {
    dit_job_desc desc = describe(model, prompt);
    dit_job *job = NULL;
    dit_error err = {0};
    if (model) CHECK_MESSAGE(dit_job_create(context, &desc, &job, &err) == DIT_OK, "%s", err.message);
    return job;
}

static void restart(dit_job *job, const dit_model *model, int prompt) {
    dit_job_desc desc = describe(model, prompt);
    dit_error err = {0};
    CHECK_MESSAGE(dit_job_restart(job, &desc, &err) == DIT_OK, "%s", err.message);
}

static bool finish(dit_job *job) {
    dit_error err = {0};
    dit_result result = dit_job_wait(job, UINT64_MAX);
    dit_job_status(job, NULL, &err);
    return CHECK_MESSAGE(result == DIT_OK, "%s", err.message);
}

static bool is_expected(dit_job *job, int prompt) {
    unsigned char rgba[BYTES];
    return dit_job_read(job, DIT_READ_RGBA8, 0, 0, rgba, BYTES, 0, NULL) == DIT_OK &&
           !memcmp(rgba, expected[prompt], BYTES);
}

/* Makes both pictures with one job; returns what it streamed. */
static uint64_t check_pictures(const dit_model *model) {
    dit_counters before = {0}, after = {0};
    dit_job *job = make_job(model, 0);
    uint32_t cuts;
    int prompt;
    if (!job) return 0;
    cuts = job->shares[0]->program.plan->recuts;
    dit_job_get_counters(job, &before);
    for (prompt = 0; prompt < PROMPTS; prompt++) {
        if (prompt) restart(job, model, prompt);
        if (finish(job)) CHECK(is_expected(job, prompt));
    }
    dit_job_get_counters(job, &after);
    CHECK(after.allocations == before.allocations);
    /* a busy machine may take so long that slices are cut anew, which records them */
    CHECK(after.recordings == before.recordings || job->shares[0]->program.plan->recuts > cuts);
    dit_job_destroy(job);
    return after.streamed_bytes;
}

static void test_too_small(void) {
    dit_model_desc desc = {0};
    dit_model *model = NULL;
    dit_error err = {0};
    const char *number;
    desc.source.path = path;
    desc.weight_budget = 1;
    CHECK(dit_model_load(context, &desc, &model, &err) == DIT_ERROR_INVALID_ARGUMENT && !model);
    number = strstr(err.message, "needs at least ");
    if (!CHECK_MESSAGE(number, "%s", err.message)) return;
    least = strtoull(number + strlen("needs at least "), NULL, 10);
    desc.weight_budget = least - 1;
    CHECK(dit_model_load(context, &desc, &model, &err) == DIT_ERROR_INVALID_ARGUMENT && !model);
    desc.dry_run = true;
    CHECK(dit_model_load(NULL, &desc, &model, &err) == DIT_ERROR_INVALID_ARGUMENT && !model);
}

/* Switches the tests to this model: makes its pictures and finds its sizes. */
static void use_model(const char *file) {
    dit_model *model;
    dit_job *job;
    dit_model_info info;
    int prompt;
    path = file;
    model = load_with(0, false);
    job = make_job(model, 0);
    for (prompt = 0; job && prompt < PROMPTS; prompt++) {
        if (prompt) restart(job, model, prompt);
        if (finish(job)) CHECK(dit_job_read(job, DIT_READ_RGBA8, 0, 0, expected[prompt], BYTES, 0, NULL) == DIT_OK);
    }
    CHECK_MESSAGE(memcmp(expected[0], expected[1], BYTES) != 0, "%s makes one picture of all prompts", file);
    dit_model_get_info(model, &info);
    resident = info.weight_bytes;
    CHECK(info.streamed_bytes == 0);
    dit_job_destroy(job);
    dit_model_destroy(model);
    test_too_small();
}

/* ---- Budgets ---- */

static void test_budget(uint64_t budget) {
    uint64_t before = memory_used(), streamed;
    dit_model *model = load_with(budget, false);
    dit_job_desc desc = describe(model, 0);
    dit_memory memory = {0};
    dit_model_info info;
    dit_model_get_info(model, &info);
    CHECK(info.weight_bytes <= budget);
    CHECK(info.weight_bytes + info.streamed_bytes >= resident);
    CHECK((info.streamed_bytes == 0) == (budget >= resident));
    CHECK(dit_job_memory(context, &desc, &memory, NULL) == DIT_OK);
    CHECK(memory.weights == info.weight_bytes && memory.streamed == info.streamed_bytes);
    streamed = check_pictures(model);
    CHECK((streamed == 0) == (budget >= resident));
    /* beside the weights only staging buffers, which count where all memory is the device's */
    CHECK_MESSAGE(memory_used() <= before + budget + (1u << 20), "%llu bytes in use",
                  (unsigned long long)memory_used());
    dit_model_destroy(model);
    CHECK(memory_used() <= before + (1u << 20));
}

/* A prompt's embedding with a streamed encoder and a resident one. */
static void test_encode(void) {
    dit_model *model = load_with(0, true);
    size_t size = 0;
    void *blob[2] = {NULL, NULL};
    int i;
    for (i = 0; i < 2; i++) {
        if (i) dit_model_destroy(model), model = load_with(0, false);
        CHECK(dit_encode_prompt(context, model, prompts[0], NULL, &size, NULL) == DIT_OK);
        blob[i] = calloc(1, size);
        CHECK(dit_encode_prompt(context, model, prompts[0], blob[i], &size, NULL) == DIT_OK);
    }
    CHECK(!memcmp(blob[0], blob[1], size));
    free(blob[0]);
    free(blob[1]);
    dit_model_destroy(model);
}

static void test_release(void) {
    uint64_t before = memory_used(), text;
    dit_model *model = load_with(0, true);
    dit_model_info info;
    dit_model_get_info(model, &info);
    text = info.streamed_bytes;
    CHECK(text > 0 && info.weight_bytes < resident - text / 2);
    CHECK(memory_used() < before + resident - text / 2 + (1u << 16));
    CHECK(check_pictures(model) >= PROMPTS * text); /* loaded again for the second prompt */
    dit_model_destroy(model);
    model = load_with(least, true); /* both */
    check_pictures(model);
    dit_model_destroy(model);
}

/* ---- Several jobs on one model ---- */

static void *wait_for(void *job) {
    finish((dit_job *)job);
    return NULL;
}

static void test_jobs(uint64_t budget) {
    dit_model *model = load_with(budget, false);
    dit_job *jobs[JOBS];
    dit_result result[JOBS] = {DIT_WORKING, DIT_WORKING};
    pthread_t threads[JOBS];
    int i, turn;
    for (i = 0; i < JOBS; i++) jobs[i] = make_job(model, i);
    for (turn = 0; turn < 100000 && (result[0] == DIT_WORKING || result[1] == DIT_WORKING); turn++) {
        result[turn % JOBS] = dit_job_step(jobs[turn % JOBS], 0);
        usleep(200);
    }
    for (i = 0; i < JOBS; i++) CHECK(result[i] == DIT_OK && is_expected(jobs[i], i));
    for (i = 0; i < JOBS; i++) restart(jobs[i], model, 1 - i); /* one stops half-way, and still the other ends */
    for (turn = 0; turn < 20; turn++) dit_job_step(jobs[0], 0);
    CHECK(finish(jobs[1]) && is_expected(jobs[1], 0));
    CHECK(finish(jobs[0]) && is_expected(jobs[0], 1));
    for (i = 0; i < JOBS; i++) restart(jobs[i], model, i);
    for (i = 0; i < JOBS; i++) pthread_create(&threads[i], NULL, wait_for, jobs[i]);
    for (i = 0; i < JOBS; i++) pthread_join(threads[i], NULL);
    for (i = 0; i < JOBS; i++) CHECK(is_expected(jobs[i], i));
    for (i = 0; i < JOBS; i++) dit_job_destroy(jobs[i]);
    dit_model_destroy(model);
}

/* Waits for the slot of a plan's first batch, of which it thinks that a submission still reads it. */
typedef struct claiming {
    diti_stream_client *client;
    dit_result result;
    int over; /* atomic */
    dit_error err;
} claiming;

static void *claim(void *user) {
    claiming *c = (claiming *)user;
    diti_submission submission = DITI_ZERO;
    c->result = diti_stream_claim(c->client, 0, &submission, &c->err);
    if (c->result == DIT_OK) diti_stream_release(c->client, 0, false);
    diti_atomic_store(&c->over, 1);
    return NULL;
}

/* A queue signals, as in the library: where the host does while another thread waits, layers of 2023 were seen to keep
   the two from each other for their ten seconds. */
static void signal_timeline(diti_device *device, VkSemaphore timeline) {
    dit_error err = {0};
    CHECK_MESSAGE(diti_submit(device, NULL, 0, timeline, 1, &err) == DIT_OK, "%s", err.message);
}

/* While a thread waits for its own submissions to be done with a slot, another job runs to its end. */
static void test_claim_waits_alone(uint64_t budget) {
    dit_model *model = load_with(budget, false);
    dit_job *jobs[JOBS] = {make_job(model, 0), make_job(model, 1)};
    diti_stream_client *client = &jobs[0]->shares[0]->program.plan->streaming;
    diti_device *device = client->stream->device;
    const diti_timeline *own = client->timeline;
    diti_timeline pretended = DITI_ZERO;
    diti_stream_slot *slot = &client->stream->slots[client->batches[0].slot], *other;
    claiming c = DITI_ZERO;
    uint64_t all = UINT64_MAX;
    pthread_t thread;
    c.client = client;
    CHECK(diti_timeline_create(device, &pretended.semaphore, &c.err) == DIT_OK);
    client->timeline = &pretended;
    slot->reader = pretended.semaphore;
    slot->reader_value = pretended.submitted = 1;
    pthread_create(&thread, NULL, claim, &c);
    usleep(100000);
    CHECK(!diti_atomic_load(&c.over) && slot->claimant == client && !client->stream->home->busy);
    client = &jobs[1]->shares[0]->program.plan->streaming;
    other = &client->stream->slots[client->batches[1].slot];
    if (CHECK(client->batch_count > 1 && other != slot))
        CHECK_MESSAGE(diti_stream_load(client, 1, false, &all, &c.err) == DIT_OK, "%s", c.err.message);
    CHECK(diti_stream_load(client, 0, false, &all, &c.err) == DIT_WORKING); /* the slot is the first one's */
    signal_timeline(device, pretended.semaphore);
    pthread_join(thread, NULL);
    CHECK_MESSAGE(c.result == DIT_OK && !slot->claimant, "%s", c.err.message);
    jobs[0]->shares[0]->program.plan->streaming.timeline = own;
    diti_destroy_Semaphore(device, pretended.semaphore);
    CHECK(finish(jobs[1]) && is_expected(jobs[1], 1));
    CHECK(finish(jobs[0]) && is_expected(jobs[0], 0));
    dit_job_destroy(jobs[0]);
    dit_job_destroy(jobs[1]);
    dit_model_destroy(model);
}

static void *load_in_hurry(void *user) {
    claiming *c = (claiming *)user;
    uint64_t bytes = 1000;
    c->result = diti_stream_load(c->client, 0, false, &bytes, &c->err);
    diti_atomic_store(&c->over, 1);
    return NULL;
}

/* Likewise while a thread whose slot was taken waits for copies to the device, before it fills the slot in one go. */
static void test_hurry_waits_alone(void) {
    dit_model *model = load_with(least, false);
    dit_job *jobs[JOBS] = {make_job(model, 0), make_job(model, 1)};
    diti_stream_client *client = &jobs[0]->shares[0]->program.plan->streaming;
    diti_device *device = client->stream->device;
    diti_stage *stage = client->stream->stage;
    diti_stream_slot *slot = &client->stream->slots[client->batches[0].slot];
    VkSemaphore pretended = VK_NULL_HANDLE;
    claiming c = DITI_ZERO;
    uint64_t all = UINT64_MAX;
    pthread_t thread;
    uint32_t i;
    c.client = client;
    CHECK(diti_timeline_create(device, &pretended, &c.err) == DIT_OK);
    diti_destroy_Semaphore(device, stage->timeline);
    stage->timeline = pretended;
    stage->finished = 0;
    stage->submitted = 1;
    for (i = 0; i < DITI_STAGE_BUFFERS; i++) stage->buffers[i].value = 1;
    for (i = 0; i < DITI_STREAM_SLOTS; i++) client->stream->slots[i].written = 0;
    client->robbed = true;
    pthread_create(&thread, NULL, load_in_hurry, &c);
    usleep(50000);
    CHECK(!diti_atomic_load(&c.over) && slot->claimant == client && !client->stream->home->busy);
    CHECK(diti_stream_load(&jobs[1]->shares[0]->program.plan->streaming, 0, false, &all, &c.err) == DIT_WORKING);
    signal_timeline(device, pretended);
    pthread_join(thread, NULL);
    CHECK_MESSAGE(c.result == DIT_OK && !slot->claimant && slot->client == client && slot->ready, "%s", c.err.message);
    CHECK(finish(jobs[1]) && is_expected(jobs[1], 1));
    CHECK(finish(jobs[0]) && is_expected(jobs[0], 0));
    dit_job_destroy(jobs[0]);
    dit_job_destroy(jobs[1]);
    dit_model_destroy(model);
}

/* ---- Runs that end early ---- */

/* A folder behind callbacks whose reads can be made to fail. */
typedef struct reader {
    char *bytes;
    size_t size;
} reader;
static reader readers[32];
static int reader_count;
static long reads, fail_at; /* 0: never */

static int64_t read_at(uint64_t offset, void *dst, size_t size, void *user) {
    const reader *r = (const reader *)user;
    if (++reads == fail_at || offset + size > r->size) return -1;
    memcpy(dst, r->bytes + offset, size);
    return (int64_t)size;
}

static dit_result open_member(const char *member, dit_source *out, void *user) {
    reader *r = &readers[reader_count];
    char name[256];
    (void)user;
    snprintf(name, sizeof name, SMALL "/%s", member);
    r->bytes = reader_count < 32 ? test_read_file(name, &r->size) : NULL;
    if (!r->bytes) return DIT_ERROR_IO;
    reader_count++;
    out->read_at = read_at;
    out->size = r->size;
    out->user = r;
    return DIT_OK;
}

static void test_failing_reads(void) {
    dit_model_desc desc = {0};
    dit_model *model;
    dit_job *job;
    dit_error err = {0};
    dit_counters counters = {0};
    long all;
    int i;
    desc.source.open = open_member;
    desc.weight_budget = least;
    model = load(&desc);
    job = make_job(model, 0);
    reads = 0;
    if (job) CHECK(finish(job) && is_expected(job, 0));
    all = reads;
    dit_job_get_counters(job, &counters);
    CHECK(all > 20 && counters.streamed_bytes > 0);
    for (i = 0; job && i < 3; i++) { /* in the encoder, the steps, the decoder */
        reads = 0;
        fail_at = i == 0 ? 1 : i == 1 ? all / 2 : all - 3;
        restart(job, model, 0);
        CHECK(dit_job_wait(job, UINT64_MAX) == DIT_ERROR_IO);
        dit_job_status(job, NULL, &err);
        CHECK_MESSAGE(strstr(err.message, "tensor ") && strstr(err.message, ".weight") &&
                          strstr(err.message, "reading"),
                      "%s", err.message);
    }
    fail_at = 0;
    restart(job, model, 0);
    if (job) CHECK(finish(job) && is_expected(job, 0));
    dit_job_destroy(job);
    dit_model_destroy(model);
    while (reader_count) free(readers[--reader_count].bytes);
}

/* ---- Weights that stay in host memory ---- */

/* Pictures that must come without a read: behind a run that ended early, by the same job and by another one, and with
   int8 that is made at load. */
static void test_kept_reads(void) {
    static const dit_type_rule rule = {"transformer.*blocks.*", DIT_TYPE_I8_ROW};
    unsigned char first[BYTES], again[BYTES];
    dit_model_desc desc = {0};
    int int8;
    for (int8 = 0; int8 < 2; int8++) {
        dit_counters counters = {0};
        uint64_t streamed;
        dit_model *model;
        dit_job *job, *other;
        int i;
        desc.source.open = open_member;
        desc.weight_budget = int8 ? (least + resident) / 2 : least;
        desc.release_text_encoders = int8;
        desc.keep_streamed = true;
        desc.types = int8 ? &rule : NULL;
        desc.type_count = (uint32_t)int8;
        model = load(&desc);
        job = make_job(model, 0);
        if (!job) break;
        reads = 0; /* some weights are read, and others are left, however long the slices of this machine are */
        for (i = 0; i < 30 && reads < 3; i++) dit_job_step(job, 0);
        dit_job_cancel(job);
        CHECK(dit_job_wait(job, UINT64_MAX) == DIT_CANCELLED);
        restart(job, model, 0);
        reads = 0;
        CHECK(finish(job) && reads > 0 && (int8 || is_expected(job, 0)));
        CHECK(dit_job_read(job, DIT_READ_RGBA8, 0, 0, first, BYTES, 0, NULL) == DIT_OK);
        dit_job_get_counters(job, &counters);
        streamed = counters.streamed_bytes;
        fail_at = 1; /* whatever is read from now on fails */
        reads = 0;
        restart(job, model, 1);
        CHECK(finish(job) && (int8 || is_expected(job, 1)));
        dit_job_get_counters(job, &counters);
        CHECK(counters.streamed_bytes > streamed && streamed > 0);
        other = make_job(model, 0);
        CHECK(finish(other) && dit_job_read(other, DIT_READ_RGBA8, 0, 0, again, BYTES, 0, NULL) == DIT_OK);
        CHECK(!memcmp(first, again, BYTES));
        CHECK_MESSAGE(reads == 0, "%ld reads for pictures after the first", reads);
        fail_at = 0;
        dit_job_destroy(other);
        dit_job_destroy(job);
        dit_model_destroy(model);
        while (reader_count) free(readers[--reader_count].bytes);
    }
}

static uint32_t expansions(const dit_job *job) {
    const diti_plan *plan = job->shares[0]->program.plan;
    uint32_t count = 0;
    size_t i;
    for (i = 0; i < plan->source_count; i++) count += plan->sources[i].kernel == DITI_KERNEL_EXPAND;
    return count;
}

/* Kept BF16 becomes F16 when it is read, as resident BF16 does, so that nothing expands it in every step: not where it
   is read again, nor where another device, which may get it, computes with F32. */
static void test_kept_halves(void) {
    dit_context_desc desc = {0};
    dit_error err = {0};
    uint32_t least_expansions, count;
    dit_model *model;
    dit_job *job;
    int i;
    desc.devices = "0,0";
    desc.overrides = "rung=fp16,gflop_ns=100000000";
    if (dit_context_create(&desc, &context, &err) == DIT_ERROR_UNSUPPORTED_DEVICE) {
        printf("skipped: %s\n", err.message);
        return;
    }
    if (!CHECK_MESSAGE(context, "%s", err.message)) return;
    use_model(BRAIN);
    model = load_with(0, false);
    job = make_job(model, 0);
    least_expansions = job ? expansions(job) : 0;
    dit_job_destroy(job);
    dit_model_destroy(model);
    for (i = 0; i < 3; i++) {
        dit_model_desc md = {0};
        md.source.path = BRAIN;
        md.weight_budget = least;
        md.keep_streamed = i != 1;
        context->devices[1]->rung = i == 2 ? DITI_RUNG_BASE : DITI_RUNG_FP16;
        model = load(&md);
        job = make_job(model, 0);
        count = job ? expansions(job) : 0;
        CHECK_MESSAGE(i == 0 ? count == least_expansions : count > least_expansions + 10, "%d: %u expansions, not %u",
                      i, count, least_expansions);
        if (job) CHECK(finish(job) && is_expected(job, 0));
        if (job) restart(job, model, 1);
        if (job) CHECK(finish(job) && is_expected(job, 1));
        dit_job_destroy(job);
        dit_model_destroy(model);
    }
    dit_context_destroy(context);
}

/* A folder whose files are cut off, then gone, behind the first picture. */
static void test_kept_files(void) {
    char copy[64], command[400];
    dit_model_desc desc = {0};
    dit_model *model;
    dit_job *job;
    snprintf(copy, sizeof copy, "build/stream_kept_%d", (int)getpid());
    snprintf(command, sizeof command, "rm -rf %s && cp -rL %s %s && chmod -R u+w %s", copy, SMALL, copy, copy);
    if (!CHECK(system(command) == 0)) return;
    desc.source.path = copy;
    desc.weight_budget = least;
    desc.keep_streamed = true;
    model = load(&desc);
    job = make_job(model, 0);
    if (job) CHECK(finish(job) && is_expected(job, 0));
    snprintf(command, sizeof command, "find %s -name '*.safetensors' -exec truncate -s 1000 {} + && rm -rf %s", copy,
             copy);
    CHECK(system(command) == 0);
    if (job) restart(job, model, 1);
    if (job) CHECK(finish(job) && is_expected(job, 1));
    dit_job_destroy(job);
    dit_model_destroy(model);
}

/* Host memory for it is refused when the model is loaded; without keep_streamed the model loads. */
static void *refuse_one_size(size_t size, size_t align, void *user) {
    size_t refused = *(size_t *)user;
    (void)align;
    return size >= refused && size <= refused + 64 ? NULL : malloc(size);
}

static void free_any(void *p, size_t size, void *user) {
    (void)size;
    (void)user;
    free(p);
}

static void test_kept_refused(void) {
    size_t refused = SIZE_MAX / 2;
    const dit_allocator fussy = {refuse_one_size, free_any, &refused}, usual = context->env.allocator;
    dit_model_desc desc = {0};
    dit_model *model = NULL;
    dit_error err = {0};
    uint64_t before = memory_used();
    int keep;
    desc.source.path = SMALL;
    desc.weight_budget = least;
    for (keep = 0; keep < 2; keep++) {
        desc.keep_streamed = keep;
        context->env.allocator = fussy;
        dit_model_load(context, &desc, &model, &err);
        CHECK_MESSAGE((model != NULL) == !keep, "%s", err.message);
        if (model) refused = (size_t)model->transformer->component.weights.streamed->bytes;
        dit_model_destroy(model);
        context->env.allocator = usual;
        model = NULL;
    }
    CHECK(err.result == DIT_ERROR_OUT_OF_HOST_MEMORY);
    CHECK_MESSAGE(strstr(err.message, "MB of host memory") && strstr(err.message, "keep_streamed"), "%s", err.message);
    CHECK(memory_used() <= before + (1u << 20));
}

/* A model on disk of which one file is cut off while its weights are streamed, then put back. */
static void test_cut_files(void) {
    static const char *const files[] = {"transformer/diffusion_pytorch_model.safetensors",
                                        "text_encoder/model.safetensors", "vae/diffusion_pytorch_model.safetensors"};
    const char *whole = path;
    char copy[64], command[400], name[160];
    size_t i;
    snprintf(copy, sizeof copy, "build/stream_cut_%d", (int)getpid());
    snprintf(command, sizeof command, "rm -rf %s && cp -rL %s %s && chmod -R u+w %s", copy, SMALL, copy, copy);
    if (!CHECK(system(command) == 0)) return;
    path = copy;
    for (i = 0; i < DITI_COUNT(files); i++) {
        dit_model *model = i == 1 ? load_with(0, true) : load_with(least, false);
        dit_job *job = make_job(model, 0);
        dit_error err = {0};
        size_t size;
        FILE *file;
        char *bytes;
        snprintf(name, sizeof name, "%s/%s", copy, files[i]);
        bytes = test_read_file(name, &size);
        if (i != 1 && job) CHECK(finish(job) && is_expected(job, 0));
        CHECK(bytes && truncate(name, 1000) == 0);
        if (i != 1) restart(job, model, 0);
        CHECK(dit_job_wait(job, UINT64_MAX) == DIT_ERROR_BAD_FILE);
        dit_job_status(job, NULL, &err);
        CHECK_MESSAGE(strstr(err.message, name) && strstr(err.message, "tensor ") &&
                          strstr(err.message, "was cut off from") && !strchr(err.message, '\n'),
                      "%s", err.message);
        file = fopen(name, "r+b");
        if (CHECK(file != NULL)) fwrite(bytes, 1, size, file), fclose(file);
        restart(job, model, 0);
        if (job) CHECK(finish(job) && is_expected(job, 0));
        free(bytes);
        dit_job_destroy(job);
        dit_model_destroy(model);
    }
    path = whole;
    snprintf(command, sizeof command, "rm -rf %s", copy);
    CHECK(system(command) == 0);
}

/* Host memory that is refused once while a model with a budget is laid out. */
static void test_no_host_memory(void) {
    test_memory memory = {0};
    dit_model_desc desc = {0};
    long all = 0, at;
    desc.source.path = SMALL;
    desc.weight_budget = least;
    desc.dry_run = true;
    for (at = 0; at <= all; at += all / 50 + 1) {
        dit_context ctx = {0};
        dit_model *model = NULL;
        dit_result result;
        memset(&memory, 0, sizeof memory);
        memory.fail_at = at;
        ctx.env = test_env(&memory);
        result = dit_model_load(&ctx, &desc, &model, NULL);
        if (!at) all = memory.calls;
        CHECK((result == DIT_OK) == (model != NULL));
        CHECK(at ? result == DIT_OK || result == DIT_ERROR_OUT_OF_HOST_MEMORY : result == DIT_OK);
        dit_model_destroy(model);
        CHECK(memory.alive == 0);
    }
}

static void test_cancel(void) {
    dit_model *model = load_with(least, false);
    dit_job *job = make_job(model, 0);
    dit_status status;
    int i, turns;
    for (turns = 1; job && turns < 60; turns += 29) {
        memset(&status, 0, sizeof status);
        for (i = 0; i < turns && status.fraction < 0.7f; i++) {
            CHECK(dit_job_step(job, 0) == DIT_WORKING);
            dit_job_status(job, &status, NULL);
        }
        dit_job_cancel(job);
        CHECK(dit_job_wait(job, UINT64_MAX) == DIT_CANCELLED);
        restart(job, model, 1);
    }
    if (job) CHECK(finish(job) && is_expected(job, 1));
    restart(job, model, 0);
    for (i = 0; i < 10; i++) dit_job_step(job, 0);
    dit_job_destroy(job); /* while it runs */
    dit_model_destroy(model);
}

/* ---- Recorded into the application's commands ---- */

/* So many frames are recorded before the first of them runs; drop: one of them never does. Returns how many had no
   work, as the slots were in use. */
static uint32_t record_frames(engine *app, dit_job *job, uint32_t budget_us, uint32_t pending, bool drop) {
    VkCommandBuffer commands[4];
    dit_result result = DIT_WORKING;
    dit_status status;
    uint32_t i, count, empty = 0, frames = 0;
    while (result == DIT_WORKING && frames < 20000) {
        for (count = 0; count < pending && result == DIT_WORKING; count++, frames++) {
            commands[count] = engine_begin_commands(app);
            result = dit_job_record(job, commands[count], budget_us);
            dit_job_status(job, &status, NULL);
            empty += result == DIT_WORKING && !status.recorded_us;
        }
        for (i = drop ? 1 : 0; i < count; i++) engine_run(app, commands[i], VK_NULL_HANDLE, 0);
        if (drop) app->EndCommandBuffer(commands[0]);
        if (drop) break;
    }
    CHECK(drop || result == DIT_OK);
    return empty;
}

/* One slice a frame and as much as fits, one frame in flight and three; a frame that is dropped, with the restart that
   the manual asks for; a job that is stepped after it was recorded, and the other way round. */
static void test_recorded(engine *app) {
    dit_model *model = load_with(least, false);
    dit_job *job = make_job(model, 0);
    dit_counters counters = {0};
    if (!job) {
        dit_model_destroy(model);
        return;
    }
    record_frames(app, job, 1000000, 1, false);
    CHECK(is_expected(job, 0));
    dit_job_get_counters(job, &counters);
    CHECK(counters.streamed_bytes > 0);
    restart(job, model, 1);
    CHECK_MESSAGE(record_frames(app, job, 0, 3, false) > 0, "slots of frames that have not run were filled anew");
    CHECK(is_expected(job, 1));
    restart(job, model, 1);
    record_frames(app, job, 1000000, 2, true);
    restart(job, model, 0);
    record_frames(app, job, 1000000, 2, false);
    CHECK(is_expected(job, 0));
    restart(job, model, 1);
    CHECK(finish(job) && is_expected(job, 1));
    restart(job, model, 0);
    record_frames(app, job, 1000, 2, false);
    CHECK(is_expected(job, 0));
    dit_job_destroy(job);
    dit_model_destroy(model);
}

/* Loads so many bytes of the first batch that has that slot. */
static dit_result load_first(diti_stream_client *client, uint32_t slot, bool ahead, uint64_t bytes) {
    uint32_t batch = 0;
    while (client->batches[batch].slot != slot) batch++;
    return diti_stream_load(client, batch, ahead, &bytes, NULL);
}

/* A job whose half-filled mirror was taken fills it in one go the next time, else two might rob each other for ever. */
static void test_robbed_mirror(dit_job *const *jobs) {
    diti_stream_client *clients[JOBS];
    int i;
    for (i = 0; i < JOBS; i++) {
        diti_plan *plan = jobs[i]->shares[0]->program.plan;
        clients[i] = &plan->streaming;
        diti_plan_begin_stream(plan, true);
    }
    CHECK(load_first(clients[0], 0, false, 1000) == DIT_WORKING &&
          load_first(clients[1], 1, false, 1000) == DIT_WORKING);
    CHECK(load_first(clients[0], 0, false, 1000) == DIT_OK);
}

/* Weights that were read ahead, in whole or in part, make room for those that are due, and not the other way round. */
static void test_mirror_ahead(dit_job *job) {
    diti_plan *plan = job->shares[0]->program.plan;
    uint64_t ahead;
    for (ahead = 1000; ahead; ahead = ahead == 1000 ? UINT64_MAX : 0) {
        diti_plan_begin_stream(plan, true);
        CHECK(load_first(&plan->streaming, 1, true, ahead) == (ahead == 1000 ? DIT_WORKING : DIT_OK));
        CHECK(load_first(&plan->streaming, 0, false, 1000) == DIT_WORKING);
        CHECK(load_first(&plan->streaming, 1, true, UINT64_MAX) == DIT_WORKING);
        CHECK(load_first(&plan->streaming, 0, false, UINT64_MAX) == DIT_OK);
        CHECK(load_first(&plan->streaming, 1, true, UINT64_MAX) == DIT_WORKING);
    }
}

/* Slots that have no room for a mirror each share one, and jobs that are recorded in turns both end. */
static void test_shared_mirror(engine *app) {
    VkCommandBuffer commands;
    dit_model *model = load_with(least, false);
    dit_job *jobs[JOBS] = {NULL, NULL};
    dit_result results[JOBS] = {DIT_WORKING, DIT_WORKING};
    int i, frames = 0;
    for (i = 0; i < JOBS; i++) jobs[i] = make_job(model, i);
    while (jobs[0] && jobs[1] && (results[0] == DIT_WORKING || results[1] == DIT_WORKING) && frames++ < 20000) {
        for (i = 0; i < JOBS; i++) {
            if (results[i] != DIT_WORKING) continue;
            commands = engine_begin_commands(app);
            results[i] = dit_job_record(jobs[i], commands, 1000);
            engine_run(app, commands, VK_NULL_HANDLE, 0);
        }
    }
    for (i = 0; i < JOBS; i++)
        if (jobs[i]) CHECK(results[i] == DIT_OK && is_expected(jobs[i], i));
    CHECK(model && model->stream->shared_mirror.buffer && !model->stream->slots[0].mirror.buffer &&
          !model->stream->slots[1].mirror.buffer);
    CHECK(model && model->stream->shared_mirror.size == model->stream->slot_bytes);
    if (jobs[0]) test_mirror_ahead(jobs[0]);
    if (jobs[0] && jobs[1]) test_robbed_mirror(jobs);
    for (i = 0; i < JOBS; i++) dit_job_destroy(jobs[i]);
    dit_model_destroy(model);
}

/* One slot is more than the budget of the host's heap leaves: the job says so, and can be stepped. */
static void test_refused_mirror(engine *app) {
    VkCommandBuffer commands;
    dit_model *model = load_with(resident - 1, false);
    dit_job *job = make_job(model, 0);
    dit_error err = {0};
    dit_result result = DIT_WORKING;
    int i;
    CHECK(!model || model->stream->slot_bytes > DITI_STAGING_MIN);
    for (i = 0; job && i < 1000 && result == DIT_WORKING; i++) {
        commands = engine_begin_commands(app);
        result = dit_job_record(job, commands, 1000);
        engine_run(app, commands, VK_NULL_HANDLE, 0);
    }
    dit_job_status(job, NULL, &err);
    CHECK_MESSAGE(result == DIT_ERROR_OUT_OF_HOST_MEMORY && strstr(err.message, "dit_job_step"), "%d: %s", (int)result,
                  err.message);
    CHECK(!model || !model->stream->shared_mirror.buffer);
    restart(job, model, 0);
    if (job) CHECK(finish(job) && is_expected(job, 0));
    dit_job_destroy(job);
    dit_model_destroy(model);
}

/* ---- Frames that are not submitted ---- */

enum { PATIENCE_S = 10 }; /* nothing here waits for so long, unless it would wait for ever */

/* Records frames up to one with work in it, which is not submitted. */
static VkCommandBuffer record_work(engine *app, dit_job *job) {
    for (;;) {
        VkCommandBuffer commands = engine_begin_commands(app);
        dit_result result = dit_job_record(job, commands, 1000);
        dit_status status;
        dit_job_status(job, &status, NULL);
        if (!CHECK(result == DIT_WORKING) || status.recorded_us) return commands;
        engine_run(app, commands, VK_NULL_HANDLE, 0);
    }
}

static void drop_commands(engine *app, VkCommandBuffer commands) {
    app->EndCommandBuffer(commands);
    app->FreeCommandBuffers(app->device, app->pool, 1, &commands);
}

static pthread_mutex_t queue_mutex = PTHREAD_MUTEX_INITIALIZER; /* two threads submit */

static void lock_queue(void *app) {
    pthread_mutex_lock(&queue_mutex);
    engine_lock(app);
}

static void unlock_queue(void *app) {
    engine_unlock(app);
    pthread_mutex_unlock(&queue_mutex);
}

typedef struct encoding {
    const dit_model *model;
    dit_result result;
    dit_error err;
} encoding;

static void *encode(void *user) {
    encoding *e = (encoding *)user;
    size_t size = 0;
    void *blob;
    dit_encode_prompt(context, e->model, prompts[1], NULL, &size, NULL);
    blob = calloc(1, size);
    e->result = dit_encode_prompt(context, e->model, prompts[1], blob, &size, &e->err);
    free(blob);
    return NULL;
}

/* A thread that encodes waits for a frame, and the one that records takes it back, drops it with its job, or records
   another job into it. */
static void test_encode_beside_frame(engine *app, int how) {
    dit_model *model = load_with(least, false);
    dit_job *jobs[JOBS] = {make_job(model, 0), make_job(model, 1)};
    encoding e = {.model = model, .result = DIT_WORKING};
    VkCommandBuffer commands = record_work(app, jobs[0]);
    pthread_t thread;
    pthread_create(&thread, NULL, encode, &e);
    usleep(200000);
    CHECK(e.result == DIT_WORKING);
    if (how == 0) CHECK(dit_job_unrecord(jobs[0]) == DIT_OK);
    if (how == 2) CHECK(dit_job_record(jobs[1], commands, 1000) == DIT_WORKING);
    pthread_mutex_lock(&queue_mutex);
    if (how == 2)
        engine_run(app, commands, VK_NULL_HANDLE, 0);
    else
        drop_commands(app, commands);
    pthread_mutex_unlock(&queue_mutex);
    if (how == 1) dit_job_destroy(jobs[0]), jobs[0] = NULL;
    pthread_join(thread, NULL);
    CHECK_MESSAGE(e.result == DIT_OK, "%d: %s", how, e.err.message);
    if (how == 0) record_frames(app, jobs[0], 1000000, 1, false), CHECK(is_expected(jobs[0], 0));
    dit_job_destroy(jobs[0]);
    dit_job_destroy(jobs[1]);
    dit_model_destroy(model);
}

/* A job that is stepped says in the end that another one's frame keeps it from going on: not sooner because the machine
   slept meanwhile, or its clock was set. */
static void test_kept_by_frame(engine *app) {
    dit_model *model = load_with(least, false);
    dit_job *jobs[JOBS] = {make_job(model, 0), make_job(model, 1)};
    dit_error err = {0};
    int i;
    drop_commands(app, record_work(app, jobs[0]));
    for (i = 0; i < 4; i++) {
        clock_ahead_us += i < 2 ? 3600000000 : -3600000000;
        CHECK(dit_job_step(jobs[1], 1000) == DIT_WORKING);
    }
    context->device->patience_us = 50000;
    CHECK(dit_job_wait(jobs[1], PATIENCE_S * 1000000000ull) == DIT_ERROR_INVALID_ARGUMENT);
    dit_job_status(jobs[1], NULL, &err);
    CHECK_MESSAGE(strstr(err.message, "dit_job_record") && strstr(err.message, "streamed weights"), "%s", err.message);
    context->device->patience_us = PATIENCE_S * 1000000u;
    CHECK(dit_job_unrecord(jobs[0]) == DIT_OK);
    restart(jobs[1], model, 1);
    CHECK(finish(jobs[1]) && is_expected(jobs[1], 1));
    record_frames(app, jobs[0], 1000000, 2, false);
    CHECK(is_expected(jobs[0], 0));
    dit_job_destroy(jobs[0]);
    dit_job_destroy(jobs[1]);
    dit_model_destroy(model);
}

/* The last frames of a run are dropped, and its job is restarted: it goes on, stepped or recorded, and so does another
   one, even before it. */
static void test_dropped_end(engine *app, bool other_first, bool recorded) {
    dit_model *model = load_with(least, false);
    dit_job *jobs[JOBS] = {make_job(model, 0), make_job(model, 1)};
    int i;
    record_frames(app, jobs[0], 1000, 1, false);
    CHECK(is_expected(jobs[0], 0));
    restart(jobs[0], model, 0);
    for (i = 0; i < 3; i++) drop_commands(app, record_work(app, jobs[0]));
    restart(jobs[0], model, 0);
    for (i = 0; i < JOBS; i++) {
        int job = other_first ? 1 - i : i;
        if (recorded && !job)
            record_frames(app, jobs[job], 1000, 2, false);
        else
            CHECK(dit_job_wait(jobs[job], 2 * PATIENCE_S * 1000000000ull) == DIT_OK);
        CHECK(is_expected(jobs[job], job));
    }
    dit_job_destroy(jobs[0]);
    dit_job_destroy(jobs[1]);
    dit_model_destroy(model);
}

static void test_unsubmitted(engine *app) {
    uint64_t patience_us = context->device->patience_us;
    int how;
    context->device->patience_us = PATIENCE_S * 1000000u;
    for (how = 0; how < 3; how++) test_encode_beside_frame(app, how);
    test_kept_by_frame(app);
    test_dropped_end(app, false, false);
    test_dropped_end(app, true, true);
    context->device->patience_us = patience_us;
}

/* ---- The trace ---- */

/* Whether any span of the load lane and any slice go on at the same time. */
static bool loads_beside_work(void) {
    const diti_trace_chunk *a, *b;
    uint32_t i, j;
    for (a = context->trace->first; a; a = a->next) {
        for (i = 0; i < a->count; i++) {
            const diti_trace_event *load_event = &a->events[i];
            if (load_event->lane != DITI_TRACK_LOAD || strcmp(load_event->name, "stream weights") != 0) continue;
            for (b = context->trace->first; b; b = b->next) {
                for (j = 0; j < b->count; j++) {
                    const diti_trace_event *slice = &b->events[j];
                    if (slice->kind == DITI_TRACE_SLICE && slice->begin_ns < load_event->end_ns &&
                        load_event->begin_ns < slice->end_ns)
                        return true;
                }
            }
        }
    }
    return false;
}

/* Submits the commands, waits for their end, and returns whether they ended before their submission returned. */
static bool ends_in_submission(engine *app, VkCommandBuffer commands) {
    VkFenceCreateInfo info = {VK_STRUCTURE_TYPE_FENCE_CREATE_INFO, NULL, 0};
    VkSubmitInfo submit = {VK_STRUCTURE_TYPE_SUBMIT_INFO, NULL, 0, NULL, NULL, 1, &commands, 0, NULL};
    VkFence fence = VK_NULL_HANDLE;
    VkResult end = VK_ERROR_UNKNOWN;
    app->EndCommandBuffer(commands);
    app->CreateFence(app->device, &info, NULL, &fence);
    engine_lock(app);
    if (CHECK(app->QueueSubmit(app->queue, 1, &submit, fence) == VK_SUCCESS))
        end = app->WaitForFences(app->device, 1, &fence, VK_TRUE, 0);
    CHECK(app->QueueWaitIdle(app->queue) == VK_SUCCESS);
    engine_unlock(app);
    app->DestroyFence(app->device, fence, NULL);
    app->FreeCommandBuffers(app->device, app->pool, 1, &commands);
    return end == VK_SUCCESS;
}

/* Whether all work ends before its submission returns, whatever the library does: GPU-assisted validation was seen to
   wait for the end. The application itself submits a picture in frames of about 10 ms, until a frame goes on. */
static bool submissions_wait(void) {
    engine app = {0};
    dit_context_desc desc = {0};
    bool wait = true;
    desc.overrides = "rung=base";
    if (engine_make_instance(&app) && engine_make_device(&app, true)) {
        VkCommandBuffer commands;
        dit_model *model;
        dit_job *job;
        dit_result result = DIT_WORKING;
        context = engine_context(&app, &desc);
        model = load_with(0, false);
        job = make_job(model, 0);
        while (job && wait && result == DIT_WORKING) {
            commands = engine_begin_commands(&app);
            result = dit_job_record(job, commands, 10000);
            wait = ends_in_submission(&app, commands);
        }
        CHECK(!wait || (result == DIT_OK && is_expected(job, 0))); /* frames without work would end at once */
        dit_job_destroy(job);
        dit_model_destroy(model);
        dit_context_destroy(context);
    }
    engine_end(&app);
    return wait;
}

/* ---- Devices ---- */

static bool begin(const char *overrides, bool trace) {
    dit_context_desc desc = {0};
    dit_error err = {0};
    desc.overrides = overrides;
    desc.trace = trace;
    return CHECK_MESSAGE(dit_context_create(&desc, &context, &err) == DIT_OK, "%s", err.message);
}

/* ---- Expansions beside products ---- */

/* Whether the dispatch behind an expansion is a product that does not read it. */
static bool is_beside(const diti_plan *plan, uint32_t expansion) {
    const diti_dispatch *next = &plan->sources[expansion + 1];
    diti_tensor made = plan->sources[expansion].bindings[1].tensor;
    uint32_t i;
    for (i = 0; i < next->binding_count; i++)
        if (next->bindings[i].tensor && plan->tensors[next->bindings[i].tensor].parent == plan->tensors[made].parent)
            return false;
    return next->flops > 0;
}

/* A GPU expands streamed weights, too, beside the product before theirs, but for those that begin a batch: no product
   waits until weights are read that it does not need. */
static void check_early(const dit_job *job) {
    const diti_plan *plan = job->shares[0]->program.plan;
    uint32_t segment, first = 0, i, early = 0, late = 0;
    for (segment = 0; segment < plan->segment_count; first += plan->segment_sources[segment++]) {
        uint32_t last = DITI_NO_BATCH;
        for (i = first; i < first + plan->segment_sources[segment]; i++) {
            bool begins = plan->source_batches[i] != last;
            if (plan->source_batches[i] == DITI_NO_BATCH) continue;
            last = plan->source_batches[i];
            if (!plan->sources[i].passed) continue;
            early += !begins;
            late += begins;
            CHECK(is_beside(plan, i) == !begins);
        }
    }
    CHECK_MESSAGE(early > 10 && late > 10, "%u expansions beside a product, %u behind it", early, late);
}

static void test_early(void) {
    dit_model *model;
    dit_job *job;
    if (!begin("rung=base,cpu=0,mapped=0,staging=64K,gflop_ns=100000000,storage_range=128K", false)) return;
    use_model(EMOJI);
    model = load_with(least, false);
    job = make_job(model, 0);
    if (job) check_early(job);
    if (job) CHECK(finish(job) && is_expected(job, 0));
    dit_job_destroy(job);
    dit_model_destroy(model);
    dit_context_destroy(context);
}

/* On a device whose memory the host sees, the host writes the slots itself. */
static void test_mapped(void) {
    bool beside;
    if (!begin("rung=base,gflop_ns=100000000", true)) return;
    use_model(SMALL);
    test_budget(least);
    test_budget((least + resident) / 2);
    test_budget(resident);
    test_release();
    test_encode();
    test_jobs(least);
    test_claim_waits_alone(least);
    test_cancel();
    test_failing_reads();
    test_cut_files();
    test_kept_reads();
    test_kept_files();
    test_kept_refused();
    use_model(EMOJI);
    test_budget(least);
    beside = loads_beside_work();
    CHECK(memory_used() == 0);
    dit_context_destroy(context);
    if (!beside && submissions_wait())
        printf("skipped: loads beside work (submissions end before they return here)\n");
    else
        CHECK_MESSAGE(beside, "no weights are loaded beside work");
}

/* On a device whose memory the host does not see, a tiny staging ring makes every matrix take several turns. The copies
   go to a queue that the application names: here the one there is, so that waiting for another queue's semaphore is
   seen, but no second family. */
static void test_staged(void) {
    engine app = {0};
    dit_context_desc desc = {0};
    desc.overrides = "rung=base,mapped=0,staging=1K,gflop_ns=100000000";
    if (engine_make_instance(&app) && engine_make_device(&app, true)) {
        app.handover.transfer_queue = app.queue;
        app.handover.transfer_family = app.family;
        app.handover.lock_queue = lock_queue;
        app.handover.unlock_queue = unlock_queue;
        context = engine_context(&app, &desc);
        use_model(SMALL);
        test_budget(least);
        test_budget(resident);
        test_hurry_waits_alone();
        test_cancel();
        test_failing_reads();
        test_cut_files();
        test_kept_reads();
        test_no_host_memory();
        test_recorded(&app);
        dit_context_destroy(context);
    }
    engine_end(&app);
}

/* The host sees the memory that the application's frames read. */
static void test_mapped_frames(void) {
    engine app = {0};
    dit_context_desc desc = {0};
    desc.overrides = "rung=base,gflop_ns=100000000";
    if (engine_make_instance(&app) && engine_make_device(&app, true)) {
        app.handover.lock_queue = lock_queue;
        app.handover.unlock_queue = unlock_queue;
        context = engine_context(&app, &desc);
        use_model(SMALL);
        test_recorded(&app);
        test_unsubmitted(&app);
        dit_context_destroy(context);
    }
    engine_end(&app);
}

/* Copies go to a queue of another family: buffers belong to both, and only semaphores order copies and work. First a
   family that only copies, which is found unasked, then one that is named. */
static void test_two_families(const char *overrides, uint32_t family, bool all) {
    if (!begin(overrides, false)) return;
    CHECK(context->device->transfer_queue && context->device->transfer_family == family);
    CHECK(context->device->queue_family == 0 && context->device->transfer_queue != context->device->queue);
    path = SMALL;
    test_encode();
    if (all) {
        use_model(SMALL);
        test_budget(least);
        test_jobs((least + resident) / 2);
        test_cancel();
    }
    CHECK_MESSAGE(context->device->transfer_submits > 20, "%llu submissions of copies to the other family",
                  (unsigned long long)context->device->transfer_submits);
    dit_context_destroy(context);
}

static void test_families(bool all) {
    dit_context_desc desc = {0};
    dit_context *none = NULL;
    dit_error err = {0};
    test_two_families("rung=base,mapped=0,staging=1K", 2, all);
    if (all) test_two_families("rung=base,mapped=0,staging=1K,transfer_family=1", 1, all);
    desc.overrides = "transfer_family=3";
    CHECK(dit_context_create(&desc, &none, &err) == DIT_ERROR_INVALID_ARGUMENT && !none);
    CHECK_MESSAGE(strstr(err.message, "has 3 queue families"), "%s", err.message);
}

/* The budget of the host's heap leaves nothing. */
static void test_little_host_budget(void) {
    engine app = {0};
    dit_context_desc desc = {0};
    desc.overrides = "rung=base,mapped=0,staging=1K,gflop_ns=100000000,host_budget=1";
    if (engine_make_instance(&app) && engine_make_device(&app, true)) {
        context = engine_context(&app, &desc);
        use_model(SMALL);
        test_recorded(&app);
        test_shared_mirror(&app);
        use_model(EMOJI);
        test_refused_mirror(&app);
        dit_context_destroy(context);
    }
    engine_end(&app);
}

/* Nobody knows what the host's heap has left, and the application's allocator refuses the second mirror, or there is
   memory for one, or for none. */
static void check_refused_mirrors(engine *app, int how) {
    dit_model *model = load_with(least, false);
    dit_job *job = make_job(model, 0);
    VkDeviceSize limit = context->device->memory_limit, used = memory_used();
    dit_result result;
    if (how == 0) app->fail_at = app->calls + 2;
    if (how != 0) context->device->memory_limit = used + (how == 1 ? model->stream->slot_bytes * 3 / 2 : 0);
    if (how == 2) {
        VkCommandBuffer commands = engine_begin_commands(app);
        result = dit_job_record(job, commands, 1000);
        drop_commands(app, commands);
        CHECK(result == DIT_ERROR_OUT_OF_DEVICE_MEMORY && memory_used() == used);
        CHECK(!model->stream->shared_mirror.buffer && !model->stream->slots[0].mirror.buffer);
        context->device->memory_limit = limit;
        restart(job, model, 0);
    }
    record_frames(app, job, 1000000, 2, false);
    context->device->memory_limit = limit;
    CHECK(is_expected(job, 0));
    CHECK(!model->stream->shared_mirror.buffer == (how == 2));
    CHECK(!model->stream->slots[0].mirror.buffer == (how != 2) && !model->stream->slots[1].mirror.buffer == (how != 2));
    dit_job_destroy(job);
    dit_model_destroy(model);
}

static void test_refused_mirrors(void) {
    engine app = {0};
    dit_context_desc desc = {0};
    int how;
    desc.overrides = "rung=base,mapped=0,staging=1K,gflop_ns=100000000";
    desc.device_allocator.alloc = engine_alloc;
    desc.device_allocator.free = engine_free;
    desc.device_allocator.user = &app;
    if (engine_make_instance(&app) && engine_make_device(&app, true)) {
        context = engine_context(&app, &desc);
        use_model(SMALL);
        /* memory_limit counts the host's memory only where that is the device's */
        for (how = 0; how < (context->device->unified ? 3 : 1); how++) check_refused_mirrors(&app, how);
        dit_context_destroy(context);
    }
    engine_end(&app);
}

/* Staging buffers of a device with memory of its own shrink to what the budget of their heap leaves. */
static uint64_t most_pinned;

static bool watch_pinned(const char *what, uint64_t done, uint64_t total, void *user) {
    (void)what, (void)done, (void)total, (void)user;
    if (context->device->host_used > most_pinned) most_pinned = context->device->host_used;
    return true;
}

static void test_host_budget(void) {
    static const struct {
        const char *overrides;
        uint64_t least, most;
    } cases[] = {{"rung=base,mapped=0", 24u << 20, 25u << 20},
                 {"rung=base,mapped=0,host_budget=6M", 5u << 20, 6u << 20},
                 {"rung=base,mapped=0,host_budget=1", 3u << 18, 1u << 20}}; /* as little as it pays to copy */
    size_t i;
    for (i = 0; i < DITI_COUNT(cases); i++) {
        dit_model_desc desc = {0};
        dit_model *model;
        dit_job *job;
        if (!begin(cases[i].overrides, false)) return;
        context->device->unified = false;
        /* where self-tests copied to memory that the host does not see, they have pinned a slot of 8 MB, which stays */
        context->device->staging_slot = DITI_STAGING_MIN;
        diti_staging_free(context->device);
        most_pinned = 0;
        desc.source.path = SMALL;
        desc.progress.func = watch_pinned;
        model = load(&desc); /* a ring while it loads */
        CHECK_MESSAGE(most_pinned >= cases[i].least && most_pinned <= cases[i].most, "%s: %llu bytes",
                      cases[i].overrides, (unsigned long long)most_pinned);
        dit_model_destroy(model);
        desc.weight_budget = least;
        model = load(&desc); /* another one to stream with */
        CHECK_MESSAGE(!model || DITI_STAGE_BUFFERS * model->stream->stage->bytes <= cases[i].most, "%s: %llu bytes",
                      cases[i].overrides, (unsigned long long)model->stream->stage->bytes);
        job = i ? make_job(model, 0) : NULL;
        if (job) CHECK(finish(job) && is_expected(job, 0));
        dit_job_destroy(job);
        dit_model_destroy(model);
        dit_context_destroy(context);
    }
}

/* ---- A split job that cannot go on without a device ---- */

/* The device that is left has no memory for the whole job. Its plan is gone then, and so is the timeline that slots of
   that device waited for; the job answers what it is asked, and another one streams there. */
static void test_failed_resume(void) {
    dit_context_desc desc = {0};
    dit_job_desc split;
    dit_model *model;
    dit_job *job = NULL, *other;
    dit_status status = {0};
    dit_counters counters;
    dit_output output;
    dit_error err = {0};
    VkDeviceSize limit;
    uint64_t before, half;
    uint32_t i;
    desc.devices = "0,0";
    desc.overrides = "rung=base,gflop_ns=100000000";
    if (dit_context_create(&desc, &context, &err) == DIT_ERROR_UNSUPPORTED_DEVICE) {
        printf("skipped: %s\n", err.message);
        return;
    }
    if (!CHECK_MESSAGE(context, "%s", err.message)) return;
    use_model(SMALL);
    model = load_with(resident - 1, false); /* so little is streamed that it stays in its slot */
    other = make_job(model, 0);
    split = describe(model, 0);
    split.guidance.scale = 4;
    split.steps = 10;
    split.split = "cfg2";
    split.resume_on_loss = true;
    split.preview_interval = 1;
    CHECK_MESSAGE(dit_job_create(context, &split, &job, &err) == DIT_OK, "%s", err.message);
    before = context->devices[1]->submits;
    CHECK(dit_job_wait(job, UINT64_MAX) == DIT_OK);
    CHECK_MESSAGE(dit_job_restart(job, &split, &err) == DIT_OK, "%s", err.message);
    limit = context->device->memory_limit;
    context->device->memory_limit = memory_used();
    /* The device fails in the middle of a run, whose submissions the run before has counted: a test that waited for a
       step would come too late where layers are slow, as all steps may have been submitted then. */
    half = (context->devices[1]->submits - before) / 2;
    context->devices[1]->fail_submit_after = (uint32_t)(context->devices[1]->submits + half);
    CHECK(dit_job_wait(job, UINT64_MAX) == DIT_ERROR_OUT_OF_DEVICE_MEMORY);
    context->device->memory_limit = limit;
    for (i = 0; i < DITI_STREAM_SLOTS; i++) CHECK(!model->stream->slots[i].reader);
    dit_job_get_counters(job, &counters);
    CHECK(counters.dispatches > 0); /* of what was done before */
    dit_job_status(job, &status, NULL);
    CHECK(status.preview_id && dit_job_preview(job, &output) == DIT_ERROR_OUT_OF_DEVICE_MEMORY);
    dit_job_destroy(job);
    CHECK(finish(other) && is_expected(other, 0));
    dit_job_destroy(other);
    dit_model_destroy(model);
    dit_context_destroy(context);
}

/* ---- Copies whose submission fails ---- */

static struct refused {
    VkResult(VKAPI_PTR *submit)(VkQueue, uint32_t, const VkSubmitInfo *, VkFence);
    VkSemaphore timeline; /* of the copies */
    int left;             /* until one fails */
} refused;

static VKAPI_ATTR VkResult VKAPI_CALL refuse_copy(VkQueue queue, uint32_t count, const VkSubmitInfo *info,
                                                  VkFence fence) {
    if (count && info->signalSemaphoreCount && info->pSignalSemaphores[0] == refused.timeline && refused.left &&
        --refused.left == 0)
        return VK_ERROR_OUT_OF_HOST_MEMORY;
    return refused.submit(queue, count, info, fence);
}

/* A job's copies fail at some place of the run, and then another job's, with which the first one's would have gone. */
static void test_refused_copies(void) {
    dit_model *model;
    dit_job *jobs[JOBS];
    int i;
    if (!begin("rung=base,mapped=0,staging=8K,gflop_ns=100000000", false)) return;
    model = load_with(least, false);
    for (i = 0; i < JOBS; i++) jobs[i] = make_job(model, i);
    refused.submit = context->device->vk.QueueSubmit;
    refused.timeline = model->stream->stage->timeline;
    context->device->vk.QueueSubmit = refuse_copy;
    for (i = 1; i < 80; i += 13) {
        refused.left = i;
        CHECK(dit_job_wait(jobs[0], UINT64_MAX) == DIT_ERROR_OUT_OF_HOST_MEMORY);
        restart(jobs[0], model, 0);
        if (!CHECK(dit_job_wait(jobs[0], 10000000000ull) == DIT_OK && is_expected(jobs[0], 0))) return;
        restart(jobs[0], model, 0);
    }
    CHECK(load_first(&jobs[0]->shares[0]->program.plan->streaming, 0, false, 1000) == DIT_WORKING);
    refused.left = 1;
    CHECK(load_first(&jobs[1]->shares[0]->program.plan->streaming, 1, false, UINT64_MAX) ==
          DIT_ERROR_OUT_OF_HOST_MEMORY);
    for (i = 0; i < JOBS; i++) CHECK(finish(jobs[i]) && is_expected(jobs[i], i));
    for (i = 0; i < JOBS; i++) dit_job_destroy(jobs[i]);
    dit_model_destroy(model);
    dit_context_destroy(context);
}

/* Nothing is mapped and nothing else is asked for; in the end the device is lost while it streams. */
static void test_own_queue(void) {
    dit_model *model;
    dit_job *job;
    if (!begin("rung=base,mapped=0,staging=1K,gflop_ns=100000000", false)) return;
    test_jobs((least + resident) / 2);
    model = load_with(least, false);
    job = make_job(model, 0);
    context->device->fail_submit_after = (uint32_t)context->device->submits + 30;
    if (job) CHECK(dit_job_wait(job, UINT64_MAX) == DIT_ERROR_DEVICE_LOST);
    dit_job_destroy(job);
    dit_model_destroy(model);
    dit_context_destroy(context);
    test_host_budget();
    test_refused_copies();
}

int main(void) {
    bool all = getenv("DIT_TEST_ALL") && strcmp(getenv("DIT_TEST_ALL"), "1") == 0;
    const char *driver = getenv("VK_ICD_FILENAMES");
    test_vulkan_begin();
    if (driver && strstr(driver, "families")) test_families(all);
    if (!driver || !strstr(driver, "families") || all) { /* SwiftShader compiles for seconds */
        test_mapped();
        test_staged();
        test_kept_halves();
        test_early();
        test_failed_resume();
        test_little_host_budget();
        test_refused_mirrors();
        test_mapped_frames();
        test_own_queue();
    }
    test_vulkan_end();
    return TEST_END("stream");
}
