/* dit_job_save_state and dit_job_desc.state: a job that goes on where another one was has the same states behind every
   step, to the byte, and the same picture, wherever the other one ended and whatever was kept twice; two experts,
   several numbers that the solver remembers, noise in every step, a start picture. Damaged states and those of other
   jobs are refused; so is what a state does not hold. test-runs: lavapipe, in test-all swiftshader sanitize */
#include "library.h"
#include "vulkan_test.h"

#define EXPERTS "tests/fixtures/pipe_wan22_i2v_a14b"
#define PICTURES "tests/fixtures/pipe_pixart_sigma"
enum {
    WIDTH = 32,
    HEIGHT = 32,
    MOST_STEPS = 8,
    ROOM = 1 << 17,
    VALUES = 5 * WIDTH * HEIGHT * 4,
    HEAD = 64 /* bytes in front of an allocation, where its size is noted */
};

typedef struct kind { /* a request */
    const char *model, *sampler;
    uint32_t frames, steps;
    float strength; /* 0: no start picture, but for models that want one */
} kind;

static const kind kinds[] = {
    {EXPERTS, NULL, 5, MOST_STEPS, 0},
    {EXPERTS, "euler", 5, 5, 0},
    {PICTURES, "euler-a", 0, 5, 0},
    {PICTURES, "dpmpp-2m", 0, 6, 0.8f},
};

/* States of jobs of a request behind each step, and the picture. */
typedef struct course {
    unsigned char states[MOST_STEPS + 1][ROOM];
    bool seen[MOST_STEPS + 1];
    size_t size;
    unsigned char picture[VALUES];
} course;

static dit_context *context;
static size_t missing; /* bytes of an allocation that fails, after `spared` others of that size; 0: none fails */
static int spared;

static void *host_alloc(size_t size, size_t align, void *user) {
    (void)user;
    return missing && size == missing && spared-- == 0 ? NULL : test_block(size, align);
}

static void host_free(void *memory, size_t size, void *user) {
    (void)size, (void)user;
    free(memory);
}

static dit_model *load(const char *folder) {
    dit_model_desc desc = {0};
    dit_model *model = NULL;
    dit_error err = {0};
    desc.source.path = folder;
    CHECK_MESSAGE(dit_model_load(context, &desc, &model, &err) == DIT_OK, "%s", err.message);
    return model;
}

static dit_job_desc describe(const kind *k, const dit_model *model) {
    static uint8_t rgba[WIDTH * HEIGHT * 4];
    static dit_image image;
    dit_job_desc desc = {0};
    uint32_t i;
    for (i = 0; i < sizeof rgba; i++) rgba[i] = (uint8_t)(i * 37 + i / 512 * 11);
    image.width = WIDTH;
    image.height = HEIGHT;
    image.rgba = rgba;
    desc.model = model;
    desc.prompt = "a fox runs through snow";
    desc.width = WIDTH;
    desc.height = HEIGHT;
    desc.frame_count = k->frames;
    if (k->frames || k->strength > 0) desc.init_image = &image;
    desc.strength = k->strength;
    desc.sampler = k->sampler;
    desc.steps = k->steps;
    desc.seed = 7;
    desc.keep_state = true;
    return desc;
}

/* The step that a state is of, which its fifth word says. */
static uint32_t step_of(const void *state) {
    uint32_t words[5];
    memcpy(words, state, sizeof words);
    return words[4];
}

/* Bytes of what the solver remembers in a state, which its eighth word says. */
static uint32_t bytes_of(const void *state) {
    uint32_t words[8];
    memcpy(words, state, sizeof words);
    return words[7];
}

/* Steps a job until `end` steps are finished in its state, or to its end; whatever a state says goes into *out, or is
   compared with what is there. */
static dit_result follow(dit_job *job, uint32_t end, course *out) {
    static unsigned char state[ROOM];
    dit_result result = DIT_WORKING;
    size_t size = 0;
    CHECK(dit_job_save_state(job, NULL, &size, NULL) == DIT_OK && size <= ROOM);
    if (!out->size) out->size = size;
    CHECK(size == out->size);
    while (result == DIT_WORKING) {
        dit_result saved;
        result = dit_job_wait(job, 200000);
        size = sizeof state;
        saved = dit_job_save_state(job, state, &size, NULL);
        if (saved == DIT_WORKING && result == DIT_WORKING) continue;
        if (!CHECK(saved == DIT_OK)) break;
        if (!out->seen[step_of(state)]) memcpy(out->states[step_of(state)], state, size);
        if (out->seen[step_of(state)] && memcmp(out->states[step_of(state)], state, size) != 0)
            CHECK_MESSAGE(false, "another state behind step %u", step_of(state));
        out->seen[step_of(state)] = true;
        if (step_of(state) >= end && result == DIT_WORKING) return result;
    }
    return result;
}

static void check_picture(dit_job *job, const kind *k, course *out, bool first) {
    static unsigned char picture[VALUES];
    const size_t size = (size_t)(k->frames ? k->frames : 1) * WIDTH * HEIGHT * 4;
    dit_error err = {0};
    CHECK_MESSAGE(dit_job_read(job, DIT_READ_RGBA8, 0, k->frames ? DIT_ALL_FRAMES : 0, picture, size, 0, &err) ==
                      DIT_OK,
                  "%s", err.message);
    if (first) memcpy(out->picture, picture, size);
    CHECK_MESSAGE(memcmp(out->picture, picture, size) == 0, "another picture");
}

/* From this state on; `again`: the job ends one step later, and another one goes on from what it kept. */
static void go_on(const kind *k, const dit_model *model, course *c, uint32_t from, bool again) {
    dit_job_desc desc = describe(k, model);
    dit_job *job = NULL;
    dit_status status;
    dit_error err = {0};
    dit_result result;
    desc.keep_state = again;
    desc.state = c->states[from];
    desc.state_size = c->size;
    if (!CHECK_MESSAGE(dit_job_create(context, &desc, &job, &err) == DIT_OK, "%s", err.message)) return;
    dit_job_status(job, &status, NULL);
    CHECK_MESSAGE(status.step == from, "step %u, not %u", status.step, from);
    result = follow(job, again ? from + 1 : UINT32_MAX, c);
    if (result == DIT_OK) check_picture(job, k, c, false);
    CHECK(again ? result >= 0 : result == DIT_OK);
    dit_job_destroy(job);
}

static void test_kind(const kind *k) {
    static course c;
    dit_model *model = load(k->model);
    dit_job_desc desc;
    dit_job *job = NULL;
    dit_error err = {0};
    uint32_t step;
    memset(&c, 0, sizeof c);
    if (!model) return;
    desc = describe(k, model);
    CHECK_MESSAGE(dit_job_create(context, &desc, &job, &err) == DIT_OK, "%s", err.message);
    if (job) {
        CHECK(follow(job, UINT32_MAX, &c) == DIT_OK);
        check_picture(job, k, &c, true);
        CHECK(dit_job_restart(job, &desc, &err) == DIT_OK && follow(job, UINT32_MAX, &c) == DIT_OK);
        check_picture(job, k, &c, false);
        desc.state = c.states[1];
        desc.state_size = c.size;
        CHECK(dit_job_restart(job, &desc, &err) == DIT_ERROR_INVALID_ARGUMENT && strstr(err.message, "state"));
        desc.state = NULL;
        desc.keep_state = false;
        CHECK(dit_job_restart(job, &desc, &err) == DIT_ERROR_INVALID_ARGUMENT && strstr(err.message, "keep_state"));
    }
    dit_job_destroy(job);
    for (step = 0; step <= MOST_STEPS; step++) {
        if (!c.seen[step]) continue;
        go_on(k, model, &c, step, false);
        if (step % 2) go_on(k, model, &c, step, true);
    }
    CHECK(c.seen[1] && c.seen[k->steps > 5 && k->strength > 0 ? 4 : k->steps]);
    /* a job that began with a state begins its next run with step 1 */
    desc = describe(k, model);
    desc.state = c.states[2];
    desc.state_size = c.size;
    job = NULL;
    CHECK_MESSAGE(c.seen[2] && dit_job_create(context, &desc, &job, &err) == DIT_OK, "%s", err.message);
    if (job) {
        desc.state = NULL;
        CHECK(dit_job_restart(job, &desc, &err) == DIT_OK && follow(job, UINT32_MAX, &c) == DIT_OK);
        check_picture(job, k, &c, false);
    }
    dit_job_destroy(job);
    dit_model_destroy(model);
}

static void refused(const dit_job_desc *desc, const char *said) {
    dit_job *job = NULL;
    dit_error err = {0};
    CHECK_MESSAGE(dit_job_create(context, desc, &job, &err) == DIT_ERROR_INVALID_ARGUMENT && !job &&
                      strstr(err.message, said),
                  "\"%s\" should say \"%s\"", err.message, said);
    dit_job_destroy(job);
}

static void test_refusals(void) {
    static unsigned char state[ROOM];
    const kind *k = &kinds[2];
    dit_model *model = load(k->model), *other = load(EXPERTS);
    dit_job_desc desc = describe(k, model), frames = describe(&kinds[1], other);
    dit_job *job = NULL;
    dit_error err = {0};
    size_t size = 0, few, at;
    if (!CHECK(model && other && dit_job_create(context, &desc, &job, &err) == DIT_OK)) return;
    CHECK(dit_job_save_state(NULL, NULL, &size, &err) == DIT_ERROR_INVALID_ARGUMENT);
    CHECK(dit_job_save_state(job, NULL, NULL, &err) == DIT_ERROR_INVALID_ARGUMENT);
    CHECK(dit_job_save_state(job, NULL, &size, &err) == DIT_OK && size <= ROOM);
    few = size - 1;
    CHECK(dit_job_save_state(job, state, &few, &err) == DIT_ERROR_INVALID_ARGUMENT && few == size);
    CHECK(dit_job_save_state(job, state, &few, &err) == DIT_WORKING); /* before the first step */
    CHECK(dit_job_wait(job, UINT64_MAX) == DIT_OK && dit_job_save_state(job, state, &few, &err) == DIT_OK);
    CHECK(dit_job_restart(job, &desc, &err) == DIT_OK && /* refused before the command buffer is looked at */
          dit_job_record(job, (VkCommandBuffer)(uintptr_t)&job, 0) == DIT_ERROR_INVALID_ARGUMENT);
    dit_job_status(job, NULL, &err);
    CHECK_MESSAGE(strstr(err.message, "dit_job_step alone"), "%s", err.message);
    dit_job_destroy(job);
    desc.state = state;
    for (at = 0; at < size; at += at < 64 ? 3 : size / 7) {
        desc.state_size = at;
        refused(&desc, "dit_job_desc.state: ");
        desc.state_size = size;
        state[at] ^= 0x40;
        refused(&desc, at < 8 ? "begin anew" : "damaged");
        state[at] ^= 0x40;
    }
    desc.steps = 4;
    refused(&desc, "another job, of 5 steps");
    desc.steps = 5;
    desc.width = 48;
    refused(&desc, "another job");
    frames.state = state;
    frames.state_size = size;
    refused(&frames, "another job");
    frames.state = NULL;
    desc = describe(k, model);
    desc.cache = "delta:first=0,blocks=1,from=1,interval=2";
    refused(&desc, "cache needs more");
    desc.cache = NULL;
    desc.keep_state = false;
    job = NULL;
    CHECK(dit_job_create(context, &desc, &job, &err) == DIT_OK);
    CHECK(dit_job_save_state(job, NULL, &size, &err) == DIT_ERROR_INVALID_ARGUMENT &&
          strstr(err.message, "keep_state"));
    dit_job_destroy(job);
    dit_model_destroy(other);
    dit_model_destroy(model);
}

/* Without host memory for `bytes` of what the solver remembers, the message names the member that asked for it. */
static void check_named(const dit_job_desc *desc, uint32_t bytes, const char *member) {
    dit_result result = DIT_ERROR_OUT_OF_HOST_MEMORY;
    dit_error err = {0};
    char wanted[64];
    bool told = false;
    int others;
    snprintf(wanted, sizeof wanted, "no host memory for %s", member);
    for (others = 0; others < 16 && result == DIT_ERROR_OUT_OF_HOST_MEMORY; others++) {
        dit_job *job = NULL;
        missing = bytes + HEAD;
        spared = others;
        result = dit_job_create(context, desc, &job, &err);
        missing = 0;
        told = told || (result < 0 && strcmp(err.message, wanted) == 0);
        dit_job_destroy(job);
    }
    CHECK_MESSAGE(result == DIT_OK, "%s", err.message);
    CHECK_MESSAGE(told, "nothing says \"%s\"", wanted);
}

static void test_without_memory(void) {
    static unsigned char state[ROOM];
    dit_context *one = context;
    dit_model *model = load(kinds[2].model);
    dit_job_desc desc = describe(&kinds[2], model);
    dit_context_desc two = {0};
    size_t size = sizeof state;
    dit_job *job = NULL;
    dit_error err = {0};
    if (!CHECK(model && dit_job_create(context, &desc, &job, &err) == DIT_OK)) return;
    CHECK(dit_job_wait(job, UINT64_MAX) == DIT_OK && dit_job_save_state(job, state, &size, &err) == DIT_OK);
    dit_job_destroy(job);
    check_named(&desc, bytes_of(state), "keep_state");
    dit_model_destroy(model);
    two.devices = "0,0"; /* on one device nothing is resumed */
    two.allocator.alloc = host_alloc;
    two.allocator.free = host_free;
    if (CHECK_MESSAGE(dit_context_create(&two, &context, &err) == DIT_OK, "%s", err.message)) {
        model = load(kinds[2].model);
        desc.model = model;
        desc.keep_state = false;
        desc.resume_on_loss = true;
        desc.split = "cfg2";
        if (model) check_named(&desc, bytes_of(state), "resume_on_loss");
        dit_model_destroy(model);
        dit_context_destroy(context);
    }
    context = one;
}

int main(void) {
    dit_context_desc desc = {0};
    dit_error err = {0};
    size_t i;
    desc.allocator.alloc = host_alloc;
    desc.allocator.free = host_free;
    test_vulkan_begin();
    CHECK_MESSAGE(dit_context_create(&desc, &context, &err) == DIT_OK, "%s", err.message);
    for (i = 0; context && i < DITI_COUNT(kinds); i++) test_kind(&kinds[i]);
    if (context) test_refusals();
    if (context) test_without_memory();
    dit_context_destroy(context);
    test_vulkan_end();
    return TEST_END("state");
}
