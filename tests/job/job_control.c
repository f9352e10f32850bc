/* Pictures that steer a picture, as jobs: FLUX.1 Fill's picture and mask, control nets, references whose keys and
   values are kept; with streamed weights, restarts, several pictures, on two devices, without one that fails, and what
   is said where something does not fit. The goldens of fixtures are compared by build/tests/golden.

   make test runs a split of each; DIT_TEST_ALL=1 every one.
   test-runs: lavapipe, in test-all sanitize swiftshader */
#include "library.h"
#include "vulkan_test.h"

enum { WIDTH = 96, HEIGHT = 64, LATENTS = 128 * (WIDTH / 16) * (HEIGHT / 16), TOKENS = 24, COLUMNS = 48, POOLED = 32 };

#define BASE "tests/fixtures/pipe_flux"
#define FILL "tests/fixtures/flux_fill/transformer"
#define NET "tests/fixtures/flux_controlnet/controlnet"
#define KLEIN "tests/fixtures/pipe_flux2_klein"
#define OTHER "tests/fixtures/pipe_pixart_sigma"

static dit_error err;
static dit_context *context, *pair; /* of a device, of the same device twice */
static uint8_t picture[HEIGHT][WIDTH][4], mask[HEIGHT][WIDTH][4];
static float text[TOKENS * COLUMNS], pooled[POOLED];
static bool sweeps;

static void make_inputs(void) {
    uint32_t x, y, c, i;
    for (y = 0; y < HEIGHT; y++)
        for (x = 0; x < WIDTH; x++)
            for (c = 0; c < 4; c++) {
                picture[y][x][c] = (uint8_t)(c == 3 ? 255 : 7 * x + 3 * y + 50 * c);
                mask[y][x][c] = (uint8_t)(c == 3 || (x > 40 && y < 50) ? 255 : 0);
            }
    for (i = 0; i < TOKENS * COLUMNS; i++) text[i] = (float)sin(0.37 * i);
    for (i = 0; i < POOLED; i++) pooled[i] = (float)cos(0.9 * i);
}

static dit_image image_of(const uint8_t *rgba, uint32_t width, uint32_t height) {
    dit_image image = DITI_ZERO;
    image.width = width;
    image.height = height;
    image.rgba = rgba;
    return image;
}

/* --- models --- */

static dit_result load_with(dit_context *on, const char *base, const dit_component *parts, uint32_t count,
                            VkDeviceSize budget, dit_model **out) {
    dit_model_desc desc = DITI_ZERO;
    desc.source.path = base;
    desc.components = parts;
    desc.component_count = count;
    desc.weight_budget = budget;
    *out = NULL;
    DITI_TRY(dit_model_load(on, &desc, out, &err));
    if (!strcmp(base, BASE)) /* as short as the fixture's texts */
        (*out)->texts[DITI_TEXT_FIRST].tokens = (*out)->transformer->traits.text_tokens = TOKENS;
    return DIT_OK;
}

static dit_model *load(dit_context *on, const char *base, const char *part, dit_role role, VkDeviceSize budget) {
    dit_component component = DITI_ZERO;
    dit_model *model;
    component.source.path = part;
    component.role = role;
    CHECK_MESSAGE(load_with(on, base, &component, part ? 1 : 0, budget, &model) == DIT_OK, "%s", err.message);
    return model;
}

/* The least budget, which the refusal of a smaller one names. */
static VkDeviceSize least_budget(const char *base, const char *part, dit_role role) {
    dit_component component = DITI_ZERO;
    dit_model *model;
    const char *at;
    component.source.path = part;
    component.role = role;
    CHECK(load_with(context, base, &component, 1, 1, &model) == DIT_ERROR_INVALID_ARGUMENT);
    at = strstr(err.message, "at least ");
    return at ? strtoull(at + strlen("at least "), NULL, 10) : 0;
}

/* --- jobs --- */

typedef struct asked {
    dit_job_desc desc;
    dit_tensor inputs[2];
    dit_image start, mask;
    dit_adapter adapter;
    dit_reference reference;
} asked;

static void ask(asked *a, const dit_model *model) {
    memset(a, 0, sizeof *a);
    a->desc.model = model;
    a->desc.width = WIDTH;
    a->desc.height = HEIGHT;
    a->desc.steps = 2;
    a->desc.seed = 5;
    a->start = image_of(&picture[0][0][0], WIDTH, HEIGHT);
    a->mask = image_of(&mask[0][0][0], WIDTH, HEIGHT);
    a->adapter.image = a->start;
    a->adapter.weight = 0.7f;
}

static void ask_flux(asked *a, const dit_model *model) {
    ask(a, model);
    a->inputs[0].name = "prompt_embeds";
    a->inputs[0].rank = 3;
    a->inputs[0].shape[0] = 1;
    a->inputs[0].shape[1] = TOKENS;
    a->inputs[0].shape[2] = COLUMNS;
    a->inputs[0].data = text;
    a->inputs[1].name = "pooled_prompt_embeds";
    a->inputs[1].rank = 2;
    a->inputs[1].shape[0] = 1;
    a->inputs[1].shape[1] = POOLED;
    a->inputs[1].data = pooled;
    a->desc.inputs = a->inputs;
    a->desc.input_count = 2;
}

static void ask_fill(asked *a, const dit_model *model) {
    ask_flux(a, model);
    a->desc.init_image = &a->start;
    a->desc.mask = &a->mask;
}

static void ask_net(asked *a, const dit_model *model) {
    ask_flux(a, model);
    a->desc.adapters = &a->adapter;
    a->desc.adapter_count = 1;
}

/* A reference of another size than the picture, whose keys and values are kept. */
static void ask_kept(asked *a, const dit_model *model) {
    ask(a, model);
    a->desc.prompt = "a fox";
    a->start.height = 64;
    a->start.width = 80;
    a->start.row_pitch = WIDTH * 4;
    a->reference.frames = &a->start;
    a->desc.references = &a->reference;
    a->desc.reference_count = 1;
    a->desc.cache = "references";
}

/* latent: [LATENTS], which is klein's; FLUX.1's are fewer, and zeros follow. */
static dit_result finish(dit_job *job, uint32_t image, float *latent) {
    dit_result result = dit_job_wait(job, UINT64_MAX);
    memset(latent, 0, LATENTS * sizeof *latent);
    if (result == DIT_OK)
        result = dit_job_read(job, DIT_READ_LATENT_F32, image, 0, latent,
                              diti_job_latent_values(job) / job->request.shape.image_count * sizeof *latent, 0, &err);
    else
        dit_job_status(job, NULL, &err);
    return result;
}

static void run(dit_context *on, const dit_job_desc *desc, float *latent) {
    dit_job *job = NULL;
    dit_result result = dit_job_create(on, desc, &job, &err);
    if (result == DIT_OK) result = finish(job, 0, latent);
    CHECK_MESSAGE(result == DIT_OK, "%s: %s", desc->split ? desc->split : "one device", err.message);
    dit_job_destroy(job);
}

static void refused(dit_context *on, const dit_job_desc *desc, const char *said) {
    dit_job *job = NULL;
    dit_result result = dit_job_create(on, desc, &job, &err);
    CHECK_MESSAGE(result < 0 && strstr(err.message, said), "\"%s\" should say \"%s\"", result < 0 ? err.message : "",
                  said);
    dit_job_destroy(job);
}

/* How far a is from b, relative. */
static double off(const float *a, const float *b) {
    double error = 0, all = 0;
    uint32_t i;
    for (i = 0; i < LATENTS; i++) {
        error += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
        all += (double)b[i] * (double)b[i];
    }
    return sqrt(error / (all > 0 ? all : 1));
}

static float one[LATENTS], other[LATENTS];

/* Devices add in another order than one does. */
#define SPLIT_OFF 1e-5
static void run_splits(const dit_job_desc *desc, const char *const *splits, const char *what) {
    dit_job_desc split = *desc;
    size_t i;
    for (i = 0; splits[i] && (sweeps || i < 1); i++) {
        split.split = splits[i];
        run(pair, &split, other);
        CHECK_MESSAGE(off(other, one) <= SPLIT_OFF, "%s, %s: off by %.3g", what, splits[i], off(other, one));
    }
}

/* The request with the noise of the seed's draw of that number, the first being 1. */
static dit_job_desc with_draw(const asked *a, uint32_t number) {
    static float drawn[LATENTS];
    static dit_tensor inputs[3];
    const size_t count = 16 * (WIDTH / 8) * (HEIGHT / 8);
    dit_job_desc desc = a->desc;
    diti_random random;
    diti_random_seed(&random, desc.seed);
    while (number--) diti_random_normal(&random, drawn, count);
    memcpy(inputs, a->inputs, sizeof a->inputs);
    memset(&inputs[2], 0, sizeof inputs[2]);
    inputs[2].name = "noise";
    inputs[2].rank = 1;
    inputs[2].shape[0] = count;
    inputs[2].data = drawn;
    desc.inputs = inputs;
    desc.input_count = 3;
    return desc;
}

/* The originals draw the latents of other pictures before the noise, which is the seed's draw behind these. */
static void check_draw(const asked *a, uint32_t number, const float *expected) {
    static float latent[LATENTS];
    dit_job_desc desc = with_draw(a, number);
    run(context, &desc, latent);
    CHECK_MESSAGE(memcmp(expected, latent, sizeof latent) == 0, "noise of draw %u is off by %.3g", number,
                  off(latent, expected));
}

/* A net's blocks are where the blocks are that need them: devices that divide blocks, their weights, or strips give
   the bytes of one device that does the same. */
static void run_exact(const dit_job_desc *desc, const char *split, const char *as) {
    dit_job_desc own = *desc;
    own.split = as;
    run(pair, &own, one);
    own.split = split;
    run(pair, &own, other);
    CHECK_MESSAGE(memcmp(one, other, sizeof one) == 0, "%s is off by %.3g", split, off(other, one));
}

static void run_streamed(const char *base, const char *part, dit_role role, void (*how)(asked *a, const dit_model *m)) {
    asked a;
    dit_model *model = load(context, base, part, role, least_budget(base, part, role));
    dit_model_info info;
    how(&a, model);
    dit_model_get_info(model, &info);
    CHECK(info.streamed_bytes > 0);
    run(context, &a.desc, other);
    CHECK_MESSAGE(memcmp(one, other, sizeof one) == 0, "streamed weights give the same bytes, not %.3g away",
                  off(other, one));
    dit_model_destroy(model);
}

/* --- a device fails --- */

static struct trap {
    const dit_job *job; /* NULL: nothing fails */
    uint32_t device, step;
} trap;

static VKAPI_ATTR VkResult VKAPI_CALL trap_submit(VkQueue queue, uint32_t count, const VkSubmitInfo *info,
                                                  VkFence fence) {
    static PFN_vkQueueSubmit submit;
    if (!submit) submit = (PFN_vkQueueSubmit)test_vulkan_function(pair->devices[0]->instance, "vkQueueSubmit");
    if (trap.job && queue == pair->devices[trap.device]->queue &&
        trap.job->shares[trap.device]->run.cursor.repeat >= trap.step) {
        trap.job = NULL;
        return VK_ERROR_OUT_OF_DEVICE_MEMORY;
    }
    return submit(queue, count, info, fence);
}

/* A device of two runs out of memory behind so many steps; the other one goes on and makes the picture in `one`, whose
   pictures have been gone since the job was restarted. */
static void run_resumed(const asked *a, uint32_t device, uint32_t step, const char *what) {
    dit_job_desc desc = a->desc;
    dit_job *job = NULL;
    dit_result result;
    uint32_t i;
    desc.split = "ulysses2";
    desc.resume_on_loss = true;
    result = dit_job_create(pair, &desc, &job, &err);
    if (result >= 0) result = dit_job_restart(job, &desc, &err);
    if (!CHECK_MESSAGE(result == DIT_OK, "%s: %s", what, err.message)) return;
    memset(picture, 99, sizeof picture);
    memset(mask, 99, sizeof mask);
    for (i = 0; i < 2; i++) pair->devices[i]->vk.QueueSubmit = trap_submit;
    trap.job = job;
    trap.device = device;
    trap.step = step;
    result = finish(job, 0, other);
    CHECK_MESSAGE(result == DIT_OK && job->resumed && job->begins_at <= step && off(other, one) <= SPLIT_OFF,
                  "%s, device %u fails: %d (%s), goes on at step %u, off by %.3g", what, device, (int)result,
                  result < 0 ? err.message : "", job->begins_at, off(other, one));
    trap.job = NULL;
    dit_job_destroy(job);
    make_inputs();
}

/* A start picture is encoded again where no step was over. */
static void test_start_resumed(void) {
    dit_model *model = load(pair, BASE, NULL, DIT_ROLE_NONE, 0);
    asked a;
    ask_fill(&a, model);
    a.desc.strength = 1;
    run(pair, &a.desc, one);
    run_resumed(&a, 1, 0, "start picture and mask");
    run_resumed(&a, 0, 1, "start picture and mask");
    dit_model_destroy(model);
}

/* --- Fill --- */

static void test_fill_refusals(dit_model *model) {
    static const float none = 0;
    const dit_tensor latents = {"image_latents", DIT_TYPE_F32, 1, {1, 0, 0, 0, 0}, &none};
    asked a;
    ask_fill(&a, model);
    a.desc.mask = NULL;
    refused(context, &a.desc, "mask is missing");
    a.desc.init_image = NULL;
    refused(context, &a.desc, "init_image is missing");
    ask_fill(&a, model);
    a.mask.width = WIDTH / 2;
    refused(context, &a.desc, "mask is 48 x 64 pixels, the picture 96 x 64: scale it");
    ask_fill(&a, model);
    a.start.rgba = NULL;
    refused(context, &a.desc, "init_image needs either rgba or image");
    ask_fill(&a, model);
    a.desc.strength = 0.5f;
    refused(context, &a.desc, "strength is 0.5");
    ask_fill(&a, model);
    a.desc.inputs = &latents;
    a.desc.input_count = 1;
    refused(context, &a.desc, "input image_latents: this model");
    ask_fill(&a, model);
    a.desc.control_image = &a.start;
    refused(context, &a.desc, "control_image must be NULL");
    ask_fill(&a, model);
    a.desc.adapters = &a.adapter;
    a.desc.adapter_count = 1;
    refused(context, &a.desc, "takes no control net");
    ask_fill(&a, model);
    a.desc.cache = "everything";
    refused(context, &a.desc, "cache \"everything\" is unknown");
}

/* The model knows nothing of the picture where the mask is white; and a mask may change from run to run. */
static void test_fill_mask(dit_model *model) {
    uint8_t kept = picture[10][60][0];
    float second[LATENTS];
    dit_job *job = NULL;
    asked a;
    ask_fill(&a, model);
    picture[10][60][0] = (uint8_t)(kept + 90); /* is repainted */
    CHECK(dit_job_create(context, &a.desc, &job, &err) == DIT_OK && finish(job, 0, other) == DIT_OK);
    CHECK(memcmp(one, other, sizeof one) == 0);
    picture[10][60][0] = kept;
    mask[60][3][0] = mask[60][3][1] = mask[60][3][2] = 255;
    CHECK(dit_job_restart(job, &a.desc, &err) == DIT_OK && finish(job, 0, other) == DIT_OK);
    CHECK_MESSAGE(off(other, one) > 1e-4, "another mask makes another picture, %.3g away", off(other, one));
    mask[60][3][0] = mask[60][3][1] = mask[60][3][2] = 0;
    dit_job_destroy(job);
    a.desc.image_count = 2;
    job = NULL;
    CHECK_MESSAGE(dit_job_create(context, &a.desc, &job, &err) == DIT_OK, "%s", err.message);
    CHECK(job && finish(job, 0, other) == DIT_OK && finish(job, 1, second) == DIT_OK);
    CHECK_MESSAGE(off(other, one) <= SPLIT_OFF, "two pictures: the first is off by %.3g", off(other, one));
    a.desc.image_count = 1;
    a.desc.seed++;
    run(context, &a.desc, other);
    CHECK_MESSAGE(off(second, other) <= SPLIT_OFF, "two pictures: the second is off by %.3g", off(second, other));
    dit_job_destroy(job);
}

static void test_fill(void) {
    static const char *const splits[] = {"ulysses2", "layers2", "ring2", "tensor2", NULL};
    dit_model *model = load(context, BASE, FILL, DIT_ROLE_TRANSFORMER, 0);
    dit_model_info info;
    asked a;
    dit_model_get_info(model, &info);
    CHECK(info.wants_mask && !info.wants_control && !strcmp(info.variant, "fill"));
    test_fill_refusals(model);
    ask_fill(&a, model);
    run(context, &a.desc, one);
    check_draw(&a, 2, one);
    test_fill_mask(model);
    dit_model_destroy(model);
    run_streamed(BASE, FILL, DIT_ROLE_TRANSFORMER, ask_fill);
    model = load(pair, BASE, FILL, DIT_ROLE_TRANSFORMER, 0);
    ask_fill(&a, model);
    run_splits(&a.desc, splits, "fill");
    run_resumed(&a, 1, 1, "fill");
    if (sweeps) run_resumed(&a, 0, 1, "fill");
    dit_model_destroy(model);
}

/* --- control nets --- */

static void test_net_files(void) {
    static const struct {
        const char *base, *part, *said;
    } wrong[] = {{OTHER, NET, "takes no control net"},
                 {BASE, BASE "/transformer", "controlnet_blocks.0.weight is missing"},
                 {BASE, BASE "/scheduler", "no control net"},
                 {NET, NULL, "DIT_ROLE_CONTROL"}};
    dit_component component = DITI_ZERO;
    dit_model *model;
    size_t i;
    component.role = DIT_ROLE_CONTROL;
    for (i = 0; i < DITI_COUNT(wrong); i++) {
        dit_result result;
        component.source.path = wrong[i].part;
        result = load_with(context, wrong[i].base, &component, wrong[i].part ? 1 : 0, 0, &model);
        CHECK_MESSAGE(result < 0 && strstr(err.message, wrong[i].said), "%s beside %s: \"%s\" should say \"%s\"",
                      wrong[i].part ? wrong[i].part : "nothing", wrong[i].base, result < 0 ? err.message : "",
                      wrong[i].said);
        dit_model_destroy(model);
    }
}

static void test_net_refusals(dit_model *model) {
    asked a;
    ask_net(&a, model);
    a.adapter.control = 1;
    refused(context, &a.desc, "adapters[0].control is 1, and the model has 1 control nets");
    ask_net(&a, model);
    a.adapter.image.height = 32;
    refused(context, &a.desc, "adapters[0].image is 96 x 32 pixels");
    ask_net(&a, model);
    memset(&a.adapter.image, 0, sizeof a.adapter.image);
    refused(context, &a.desc, "adapters[0].image: a control net follows a picture");
    ask_net(&a, model);
    a.adapter.mode = 2;
    refused(context, &a.desc, "adapters[0].mode is 2");
    ask_net(&a, model);
    a.adapter.first = 0.8f;
    a.adapter.last = 0.2f;
    refused(context, &a.desc, "must be rising fractions");
    ask_net(&a, model);
    a.adapter.weight = 1e9f;
    refused(context, &a.desc, "adapters[0].weight");
    ask_net(&a, model);
    a.desc.control_image = &a.start;
    refused(context, &a.desc, "a control net follows that of its entry in adapters");
    ask_net(&a, model);
    a.desc.adapters = NULL;
    refused(context, &a.desc, "adapters is NULL, adapter_count is 1");
    ask_net(&a, model);
    a.reference.frames = &a.start;
    a.desc.references = &a.reference;
    a.desc.reference_count = 1;
    refused(context, &a.desc, "give adapters or references");
}

static bool count_op(const dit_op_info *op, void *user) {
    *(uint64_t *)user += op->runs;
    return true;
}

/* Ops that a run executes whose net works from one part of the steps to another. */
static uint64_t executed(asked *a, float first, float last) {
    dit_inspector inspector = DITI_ZERO;
    uint64_t ops = 0;
    inspector.op = count_op;
    inspector.user = &ops;
    a->adapter.first = first;
    a->adapter.last = last;
    CHECK_MESSAGE(dit_job_inspect(context, &a->desc, &inspector, &err) == DIT_OK, "%s", err.message);
    return ops;
}

/* A net is computed in the steps in which it works, and nowhere else; nor is the picture encoded of one that never
   works. */
static void test_net_steps(dit_model *model) {
    uint64_t ops[5];
    asked a;
    ask_net(&a, model);
    a.desc.steps = 4;
    ops[0] = executed(&a, 0.76f, 0.99f); /* no whole step */
    ops[1] = executed(&a, 0, 0.25f);
    ops[2] = executed(&a, 0.5f, 1);
    ops[3] = executed(&a, 0.25f, 1);
    ops[4] = executed(&a, 0, 1);
    CHECK(ops[4] > ops[3] && ops[4] - ops[3] == ops[3] - ops[2] && ops[3] - ops[2] == ops[2] - ops[1]);
    CHECK(ops[0] < ops[1] - (ops[2] - ops[1]));
    a.desc.adapter_count = 0;
    CHECK(executed(&a, 0, 1) == ops[0]);
}

/* Strength 0 in all steps is no net at all; other strengths need no other plan, and other steps do. */
static void test_net_strength(dit_model *model) {
    float bare[LATENTS];
    dit_job *job = NULL;
    const diti_plan *plan;
    asked a;
    ask_net(&a, model);
    a.desc.adapter_count = 0;
    run(context, &a.desc, bare);
    CHECK_MESSAGE(off(one, bare) > 1e-3, "a control net changes the picture, by %.3g", off(one, bare));
    ask_net(&a, model);
    a.adapter.first = 0.01f; /* both steps begin before, or end behind */
    a.adapter.last = 0.9f;
    CHECK(dit_job_create(context, &a.desc, &job, &err) == DIT_OK && finish(job, 0, other) == DIT_OK);
    CHECK_MESSAGE(memcmp(bare, other, sizeof bare) == 0, "a net that never works is %.3g away", off(other, bare));
    a.adapter.first = a.adapter.last = 0;
    CHECK(dit_job_restart(job, &a.desc, &err) == DIT_OK && finish(job, 0, other) == DIT_OK);
    CHECK(memcmp(one, other, sizeof one) == 0);
    plan = job->shares[0]->program.plan;
    a.adapter.weight = 0.1f;
    CHECK(dit_job_restart(job, &a.desc, &err) == DIT_OK && finish(job, 0, other) == DIT_OK);
    CHECK(off(other, one) > 1e-3 && job->shares[0]->program.plan == plan);
    a.desc.adapter_count = 0;
    CHECK(dit_job_restart(job, &a.desc, &err) == DIT_OK && finish(job, 0, other) == DIT_OK);
    CHECK_MESSAGE(memcmp(bare, other, sizeof bare) == 0, "a net that is taken away is %.3g away", off(other, bare));
    dit_job_destroy(job);
}

/* Blocks behind those that are reused need blocks of the net, which run whatever the device decides: in the third step,
   where it must reuse, what a fixed schedule gives that reuses there; with a threshold of 0 nothing is lost. */
static void test_net_cached(dit_context *on, const dit_model *model, const char *split) {
    float fixed[LATENTS], bare[LATENTS];
    asked a;
    ask_net(&a, model);
    a.desc.steps = 3;
    a.desc.split = split;
    run(on, &a.desc, bare);
    a.desc.cache = "delta:first=1,blocks=1,from=2";
    run(on, &a.desc, fixed);
    a.desc.cache = "fbcache:threshold=1000,front=1,back=1,warmup=2";
    run(on, &a.desc, other);
    CHECK_MESSAGE(off(other, fixed) <= 1e-6 && off(fixed, bare) > 1e-3, "reused blocks beside a net: %.3g away, %.3g",
                  off(other, fixed), off(fixed, bare));
    a.desc.cache = "fbcache:threshold=0,front=1,back=1";
    run(on, &a.desc, other);
    CHECK_MESSAGE(off(other, bare) <= 1e-6, "nothing reused beside a net: %.3g away", off(other, bare));
}

/* Two nets add up. */
static void test_two_nets(void) {
    dit_component parts[2] = DITI_ZERO;
    dit_adapter adapters[2];
    dit_job_desc desc;
    dit_model *model;
    uint32_t i;
    asked a;
    for (i = 0; i < 2; i++) {
        parts[i].source.path = NET;
        parts[i].role = DIT_ROLE_CONTROL;
    }
    CHECK_MESSAGE(load_with(context, BASE, parts, 2, 0, &model) == DIT_OK, "%s", err.message);
    ask_net(&a, model);
    for (i = 0; i < 2; i++) {
        adapters[i] = a.adapter;
        adapters[i].control = i;
        adapters[i].weight = 0.35f;
    }
    a.desc.adapters = adapters;
    a.desc.adapter_count = 2;
    run(context, &a.desc, other);
    check_draw(&a, 3, other);
    desc = with_draw(&a, 2);
    run(context, &desc, other);
    CHECK_MESSAGE(off(other, one) <= SPLIT_OFF, "two nets of half the strength: off by %.3g", off(other, one));
    adapters[1].control = 0;
    refused(context, &a.desc, "which an adapter before has, too");
    dit_model_destroy(model);
}

/* --- a net that tells three kinds of pictures apart: the fixture's, with a table --- */

enum { KINDS = 3, WIDTH_OF_NET = 48 };

static void *make_union(uint64_t *size) {
    static const char path[] = NET "/diffusion_pytorch_model.safetensors";
    char entry[160];
    FILE *file = fopen(path, "rb");
    uint8_t *from, *out;
    float *table;
    uint64_t all, header, added, bytes = KINDS * WIDTH_OF_NET * sizeof(float), i;
    fseek(file, 0, SEEK_END);
    all = (uint64_t)ftell(file);
    rewind(file);
    from = (uint8_t *)malloc(all);
    CHECK(fread(from, 1, all, file) == all);
    fclose(file);
    memcpy(&header, from, 8);
    while (from[8 + header - 1] != '}') header--; /* spaces fill it up */
    memcpy(&i, from, 8);
    snprintf(entry, sizeof entry,
             ",\"controlnet_mode_embedder.weight\":{\"dtype\":\"F32\",\"shape\":[%d,%d],"
             "\"data_offsets\":[%llu,%llu]}}",
             KINDS, WIDTH_OF_NET, (unsigned long long)(all - 8 - i), (unsigned long long)(all - 8 - i + bytes));
    added = header - 1 + strlen(entry);
    out = (uint8_t *)calloc(1, 8 + added + 16 + all + bytes);
    while (added % 8) entry[strlen(entry) + 1] = 0, entry[strlen(entry)] = ' ', added++;
    memcpy(out, &added, 8);
    memcpy(out + 8, from + 8, header - 1);
    memcpy(out + 8 + header - 1, entry, strlen(entry));
    memcpy(out + 8 + added, from + 8 + i, all - 8 - i);
    table = (float *)(void *)(out + 8 + added + all - 8 - i);
    for (i = 0; i < KINDS * WIDTH_OF_NET; i++) {
        float value = (float)sin(1.7 * (double)i);
        memcpy(table + i, &value, sizeof value);
    }
    memcpy(&i, from, 8);
    *size = 8 + added + all - 8 - i + bytes;
    free(from);
    return out;
}

/* A folder of the fixture's config.json and that file. */
static dit_result open_union(const char *member, dit_source *out, void *user) {
    memset(out, 0, sizeof *out);
    if (!strcmp(member, "config.json"))
        out->path = NET "/config.json";
    else if (!strcmp(member, "diffusion_pytorch_model.safetensors"))
        *out = *(const dit_source *)user;
    return out->path || out->data ? DIT_OK : DIT_ERROR_IO;
}

static void test_union(void) {
    dit_component component = DITI_ZERO;
    dit_source file = DITI_ZERO;
    dit_model *model;
    float first[LATENTS];
    dit_job *job = NULL;
    asked a;
    file.data = make_union(&file.size);
    component.source.open = open_union;
    component.source.user = &file;
    component.role = DIT_ROLE_CONTROL;
    CHECK_MESSAGE(load_with(pair, BASE, &component, 1, 0, &model) == DIT_OK, "%s", err.message);
    ask_net(&a, model);
    CHECK(dit_job_create(pair, &a.desc, &job, &err) == DIT_OK && finish(job, 0, first) == DIT_OK);
    CHECK_MESSAGE(off(first, one) > 1e-5, "a token more in the net's text: %.3g away", off(first, one));
    a.adapter.mode = 2;
    CHECK(dit_job_restart(job, &a.desc, &err) == DIT_OK && finish(job, 0, other) == DIT_OK);
    CHECK_MESSAGE(off(other, first) > 1e-5, "another kind of picture: %.3g away", off(other, first));
    dit_job_destroy(job);
    memcpy(first, other, sizeof first);
    a.desc.split = "ulysses2";
    run(pair, &a.desc, other);
    CHECK_MESSAGE(off(other, first) <= SPLIT_OFF, "ulysses2: off by %.3g", off(other, first));
    a.desc.split = NULL;
    a.adapter.mode = KINDS;
    refused(pair, &a.desc, "tells 3 kinds of pictures apart");
    dit_model_destroy(model);
    free((void *)(uintptr_t)file.data);
}

static void test_net(void) {
    static const char *const splits[] = {"ulysses2,shard", "layers2", "tensor2", "ring2", NULL};
    dit_model *model = load(context, BASE, NET, DIT_ROLE_CONTROL, 0);
    dit_model_info info;
    asked a;
    dit_model_get_info(model, &info);
    CHECK(info.control_count == 1 && info.parameters[DIT_ROLE_CONTROL] > 10000);
    test_net_files();
    test_net_refusals(model);
    ask_net(&a, model);
    run(context, &a.desc, one);
    check_draw(&a, 2, one);
    test_net_strength(model);
    test_net_steps(model);
    test_net_cached(context, model, NULL);
    dit_model_destroy(model);
    test_two_nets();
    if (sweeps) test_union();
    run_streamed(BASE, NET, DIT_ROLE_CONTROL, ask_net);
    model = load(pair, BASE, NET, DIT_ROLE_CONTROL, 0);
    ask_net(&a, model);
    run_splits(&a.desc, splits, "control net");
    run_resumed(&a, 0, 1, "control net");
    if (sweeps) run_resumed(&a, 1, 0, "control net");
    run_exact(&a.desc, "layers2", NULL);
    if (sweeps) run_exact(&a.desc, "ulysses2,shard", "ulysses2");
    a.desc.steps = 4;
    if (sweeps) run_exact(&a.desc, "pipefusion2:m2w1", "pipefusion1:m2w1");
    a.desc.steps = 5;
    a.adapter.first = 0.4f; /* the net begins in strips, and ends in them */
    a.adapter.last = 0.8f;
    run_exact(&a.desc, "pipefusion2:m2w1", "pipefusion1:m2w1");
    if (sweeps) run_exact(&a.desc, "layers2", NULL);
    a.desc.cache = "delta:first=1,blocks=1,from=2";
    if (sweeps) run_exact(&a.desc, "pipefusion2:m2w1", "pipefusion1:m2w1");
    if (sweeps) test_net_cached(pair, model, "layers2");
    if (sweeps) test_net_cached(pair, model, "ulysses2");
    dit_model_destroy(model);
}

/* --- references whose keys and values are kept --- */

static void test_kept(void) {
    static const char *const splits[] = {"ulysses2", "layers2", "ring2", "tensor2", NULL};
    dit_model *model = load(pair, KLEIN, NULL, DIT_ROLE_NONE, 0);
    asked a;
    ask_kept(&a, model);
    run(pair, &a.desc, one);
    run_splits(&a.desc, splits, "kept references");
    run_resumed(&a, 1, 1, "kept references");
    if (sweeps) run_resumed(&a, 0, 1, "kept references");
    a.desc.split = "pipefusion2";
    refused(pair, &a.desc, "leave cache away");
    a.desc.split = NULL;
    a.desc.image_count = 2;
    run(pair, &a.desc, other);
    CHECK_MESSAGE(off(other, one) <= SPLIT_OFF, "two pictures: the first is off by %.3g", off(other, one));
    ask_kept(&a, model);
    a.desc.reference_count = 0;
    refused(pair, &a.desc, "there are none");
    ask_kept(&a, model);
    a.desc.cache = NULL;
    run(pair, &a.desc, other);
    CHECK_MESSAGE(off(other, one) > 1e-3, "references that are read in every step make another picture, %.3g away",
                  off(other, one));
    dit_model_destroy(model);
}

/* --- sizes and numbers of references --- */

/* A reference that is scaled in the library gives the bytes that one gives which is scaled before, with and without a
   gap behind its lines; what is behind its alpha counts for nothing. */
static void test_scaled(dit_model *model) {
    enum { W = 200, H = 120, PITCH = 4 * W + 12 };
    diti_model_traits *traits = &model->transformer->traits;
    static uint8_t large[H * PITCH];
    uint32_t width, height, most = traits->reference_limit_alone;
    diti_picture from = DITI_ZERO;
    uint8_t *small = NULL;
    size_t i;
    asked a;
    for (i = 0; i < sizeof large; i++) large[i] = (uint8_t)(i % PITCH * 7 + i / PITCH * 3 + i * i % 31);
    ask_kept(&a, model);
    a.start.rgba = large;
    a.start.width = W;
    a.start.height = H;
    a.start.row_pitch = PITCH;
    traits->reference_limit_alone = 96 * 96;
    diti_reference_scaled(traits, &a.start, 1, &width, &height);
    CHECK_MESSAGE(width == 123 && height == 74, "it is scaled to %u x %u", width, height);
    run(context, &a.desc, one);
    from.rgba = large;
    from.pitch = PITCH;
    from.width = W;
    from.height = H;
    traits->reference_limit_alone = 0;
    CHECK(diti_resize(&context->env, &from, width, height, DITI_WINDOW_LANCZOS, &small, &err) == DIT_OK);
    a.start.rgba = small;
    a.start.width = width;
    a.start.height = height;
    a.start.row_pitch = 0;
    run(context, &a.desc, other);
    CHECK_MESSAGE(memcmp(one, other, sizeof one) == 0, "a reference that is scaled before is off by %.3g",
                  off(other, one));
    diti_free(&context->env, small);
    traits->reference_limit_alone = most;
}

/* Sides of an area are the nearest multiples of 32, or the even one of two that are as near, as Python rounds them. */
static void test_area(void) {
    static const uint32_t sizes[][4] = {
        {98, 128, 320, 448}, {1250, 1152, 384, 384}, {64, 225, 192, 704}, {5, 40, 128, 1088}};
    size_t i;
    for (i = 0; i < DITI_COUNT(sizes); i++) {
        diti_model_traits traits = DITI_ZERO;
        dit_image image = DITI_ZERO;
        uint32_t width, height;
        traits.reference_area = 384 * 384;
        image.width = sizes[i][0];
        image.height = sizes[i][1];
        diti_reference_scaled(&traits, &image, 1, &width, &height);
        CHECK_MESSAGE(width == sizes[i][2] && height == sizes[i][3], "%u x %u becomes %u x %u", image.width,
                      image.height, width, height);
    }
}

/* Ten of several sizes count, each of them; an eleventh is refused. */
static void test_ten(dit_model *model) {
    static dit_image images[11];
    static dit_reference references[11];
    uint32_t i;
    asked a;
    ask(&a, model);
    a.desc.prompt = "a fox";
    for (i = 0; i < 11; i++) {
        images[i] = image_of(&picture[0][0][0], i % 2 ? 64 : 80, 64);
        images[i].row_pitch = WIDTH * 4;
        references[i].frames = &images[i];
    }
    images[3].width = 96;
    a.desc.references = references;
    a.desc.reference_count = 11;
    refused(context, &a.desc, "reference_count is 11; this model (flux2 klein-4b) takes at most 10");
    a.desc.reference_count = 10;
    run(context, &a.desc, one);
    images[9].rgba = &mask[0][0][0];
    run(context, &a.desc, other);
    CHECK_MESSAGE(off(other, one) > 1e-3, "the tenth reference changes the picture by %.3g", off(other, one));
}

/* A start picture of FLUX.1 is drawn from what the encoder says, and of Kontext, which FLUX.1 is with references, the
   mean is taken. */
static void test_kontext_start(void) {
    dit_model *model = load(context, BASE, NULL, DIT_ROLE_NONE, 0);
    uint32_t i;
    for (i = 0; model && i < 2; i++) {
        diti_job_request request;
        asked a;
        ask_flux(&a, model);
        a.reference.frames = a.desc.init_image = &a.start;
        a.desc.references = &a.reference;
        a.desc.reference_count = i;
        if (CHECK_MESSAGE(diti_job_request_make(model, &context->env, &a.desc, NULL, &request, &err) == DIT_OK, "%s",
                          err.message))
            CHECK(request.shape.draws_start == (i == 0));
        diti_job_request_free(&context->env, &request);
    }
    dit_model_destroy(model);
}

static void test_sizes(void) {
    static uint8_t wide[64 * 513 * 4];
    dit_model *model = load(context, KLEIN, NULL, DIT_ROLE_NONE, 0);
    asked a;
    if (!model) return;
    test_scaled(model);
    test_area();
    test_ten(model);
    ask_kept(&a, model);
    a.start = image_of(wide, 513, 64);
    refused(context, &a.desc, "one at most eight times the other");
    a.start = image_of(wide, 63, 64);
    refused(context, &a.desc, "must be at least 64");
    a.start = image_of(wide, 16400, 16400); /* refused before it is read */
    refused(context, &a.desc, "a side of more than 16384");
    dit_model_destroy(model);
}

static dit_context *open_devices(const char *devices) {
    dit_context_desc desc = DITI_ZERO;
    dit_context *opened = NULL;
    desc.devices = devices;
    CHECK_MESSAGE(dit_context_create(&desc, &opened, &err) == DIT_OK, "%s", err.message);
    return opened;
}

int main(void) {
    static const char *const needed[] = {BASE, FILL, NET, KLEIN, OTHER};
    const char *all = getenv("DIT_TEST_ALL");
    size_t i;
    sweeps = all && !strcmp(all, "1");
    for (i = 0; i < DITI_COUNT(needed); i++)
        if (!test_needs(needed[i])) return TEST_END("job_control");
    test_vulkan_begin();
    make_inputs();
    context = open_devices("0");
    pair = open_devices("0,0");
    if (context && pair) {
        test_start_resumed();
        test_fill();
        test_net();
        test_kept();
        test_kontext_start();
        test_sizes();
    }
    dit_context_destroy(context);
    dit_context_destroy(pair);
    test_vulkan_end();
    return TEST_END("job_control");
}
