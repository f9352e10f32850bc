/* Requests that are drawn: a model, what is asked of it, and a way to run it. How work is cut, where weights are kept,
   which limits a device has, and whether a run was cancelled before do not change a byte of the picture. Whatever
   cannot be asked for is refused with a sentence.

   make test runs one of a small model, make test-all a hundred; by hand: build/tests/drawn SEED COUNT [MODEL].
   test-runs: lavapipe, in test-all sanitize newest */
#include "library.h"
#include "split/split_models.h"
#include "vulkan_test.h"
#include "engine.h"

/* How far latents and pictures may be apart where sums are in another order, in floats and rounded to halves. */
#define TOLERANCE 1e-5
#define HALVES_TOLERANCE 1e-2

/* ---- what is asked for ---- */

typedef struct drawn_request {
    dit_job_desc desc;
    generated_inputs inputs;
    dit_image begins, mask;
    uint8_t pixels[4 * 256 * 256], white[4 * 256 * 256];
    char says[500];
} drawn_request;

static void draw_start(const maker *m, drawn_request *r) {
    const dit_model_info *info = &m->model->info;
    uint32_t i;
    if (r->desc.width * r->desc.height > 256 * 256) return;
    for (i = 0; i < sizeof r->pixels; i++) {
        r->pixels[i] = (uint8_t)draw(256);
        r->white[i] = (uint8_t)(i / 4 % r->desc.width * 2 < r->desc.width ? 255 : 0);
    }
    r->begins.rgba = r->pixels;
    r->mask.rgba = r->white;
    r->begins.width = r->mask.width = r->desc.width;
    r->begins.height = r->mask.height = r->desc.height;
    r->desc.init_image = &r->begins;
    if (draw(3) == 0) { /* latents in its place */
        dit_tensor *latents = &r->inputs.list[r->inputs.count];
        generated_add_input(&r->inputs, "image_latents", r->desc.height / info->latent_factor * info->latent_channels,
                            r->desc.width / info->latent_factor, 0);
        latents->rank = 3; /* one for all pictures */
        latents->shape[2] = latents->shape[1];
        latents->shape[1] = latents->shape[0];
        latents->shape[0] = 1;
        r->desc.input_count = r->inputs.count;
        r->desc.init_image = NULL;
    }
    if (draw(2)) r->desc.mask = &r->mask;
    r->desc.strength = 0.1f + (float)draw(10) / 10;
}

static void draw_request(const maker *m, const char *name, drawn_request *r) {
    static const char *const caches[] = {"auto",
                                         "delta:first=0,blocks=1,from=1,interval=2",
                                         "taylor:order=1,interval=2",
                                         "fbcache:threshold=0.1",
                                         "easycache:threshold=0.2",
                                         "gate:2"},
                             *const splits[] = {"cfg2",    "ulysses2",         "ulysses2,int8", "ring2",
                                                "layers2", "pipefusion2:m3w1", "tensor2",       "tensor2,shard"};
    asked a = ask_listed(m, name, 1 + draw(6), 1 + draw(6), 1 + draw(4) / 3, 1 + draw(4));
    uint32_t kinds = 0;
    memset(r, 0, sizeof *r);
    a.sampler = NULL;
    if (draw(4) == 0) a.first = (float)draw(5) / 10;
    if (draw(4) == 0) a.last = a.first + 0.1f + (float)draw(5) / 10;
    r->desc = request_asked(m, &a, NULL, &r->inputs);
    while (dit_sampler_name(kinds)) kinds++;
    if (draw(2)) r->desc.sampler = dit_sampler_name(draw(kinds));
    for (kinds = 0; dit_schedule_name(kinds);) kinds++;
    if (draw(4) == 0) r->desc.schedule = dit_schedule_name(draw(kinds));
    r->desc.seed = draw(1000);
    if (draw(3) == 0) r->desc.preview_interval = 1 + draw(2);
    if (draw(3) == 0) r->desc.vae_tile = 8 * (8 + draw(8));
    if (draw(4) == 0) r->desc.guidance.rescale = 0.5f;
    if (draw(4) == 0) r->desc.guidance.project = 0.5f;
    if (draw(4) == 0) r->desc.eta = 0.5f;
    if (draw(5) == 0) r->desc.cache = caches[draw(DITI_COUNT(caches))];
    if (draw(2) == 0) r->desc.split = splits[draw(DITI_COUNT(splits))];
    if (!a.frames && draw(5) == 0) draw_start(m, r);
    snprintf(
        r->says, sizeof r->says,
        "%s, %u x %u x %u, %u steps of %s on %s, seed %u, %s%s, guidance %g to %g, rescale %g, project %g, eta %g, "
        "cache %s, split %s, preview %u, tile %u",
        name, (unsigned)r->desc.width, (unsigned)r->desc.height, (unsigned)r->desc.image_count, (unsigned)r->desc.steps,
        r->desc.sampler ? r->desc.sampler : "-", r->desc.schedule ? r->desc.schedule : "-", (unsigned)r->desc.seed,
        r->desc.init_image     ? "from a picture"
        : r->desc.strength > 0 ? "from latents"
                               : "from noise",
        r->desc.mask ? " with a mask" : "", (double)r->desc.guidance.first, (double)r->desc.guidance.last,
        (double)r->desc.guidance.rescale, (double)r->desc.guidance.project, (double)r->desc.eta,
        r->desc.cache ? r->desc.cache : "-", r->desc.split ? r->desc.split : "-", (unsigned)r->desc.preview_interval,
        (unsigned)r->desc.vae_tile);
}

/* ---- how it is run ---- */

typedef enum drawn_run {
    WAITS,
    STEPS,   /* with small budgets */
    CANCELS, /* after some steps, and begins again */
    REPEATS, /* after another picture */
    FRAMES,  /* in command buffers of an application, on its device */
    RUNS
} drawn_run;

static engine app; /* of FRAMES */

static dit_result step_to_end(dit_job *job) {
    dit_result result = DIT_WORKING;
    uint64_t begin = diti_clock_us();
    uint32_t i;
    for (i = 0; result == DIT_WORKING && diti_clock_us() - begin < 120000000u; i++)
        result = dit_job_step(job, i % 3 * 500);
    dit_job_status(job, NULL, &err);
    return result;
}

static dit_result record_to_end(dit_job *job, uint32_t budget_us) {
    dit_result result = DIT_WORKING;
    uint64_t begin = diti_clock_us();
    while (result == DIT_WORKING && diti_clock_us() - begin < 120000000u) {
        VkCommandBuffer commands = engine_begin_commands(&app);
        result = dit_job_record(job, commands, budget_us);
        engine_run(&app, commands, VK_NULL_HANDLE, 0);
    }
    dit_job_status(job, NULL, &err);
    return result;
}

static dit_result run_job(dit_job *job, drawn_run how, uint32_t steps, const dit_job_desc *desc) {
    dit_job_desc other = *desc;
    dit_result result;
    other.seed++;
    if (how == STEPS) return step_to_end(job);
    if (how == FRAMES) return record_to_end(job, 1 + 50 * steps);
    if (how == CANCELS) {
        for (; steps; steps--) dit_job_step(job, 0);
        dit_job_cancel(job);
        result = dit_job_wait(job, 120000000000u);
        if (result != DIT_CANCELLED && result != DIT_OK) return result;
    }
    if (how == REPEATS) {
        DITI_TRY(dit_job_restart(job, &other, &err));
        DITI_TRY(wait_for(job, 120));
    }
    if (how != WAITS) DITI_TRY(dit_job_restart(job, desc, &err));
    return wait_for(job, 120);
}

static dit_result make_outcome(const maker *m, drawn_run how, uint32_t steps, const dit_job_desc *desc, outcome *out) {
    dit_job *job = NULL;
    dit_result result = dit_job_create(m->context, desc, &job, &err);
    uint32_t image;
    memset(out, 0, sizeof *out);
    if (result == DIT_OK && !fits_outcome(job)) result = diti_fail(&err, DIT_ERROR_INVALID_ARGUMENT, "more than fits");
    if (result == DIT_OK) result = run_job(job, how, steps, desc);
    for (image = 0; result == DIT_OK && image < job->request.shape.image_count; image++)
        result = read_latent(job, image, out);
    if (result == DIT_OK) result = read_picture(job, out);
    dit_job_destroy(job);
    return result;
}

/* ---- the device, and where weights are ---- */

static dit_context *open_drawn(const char *overrides, uint32_t max_slice_us, drawn_run run) {
    dit_context_desc desc = DITI_ZERO;
    dit_context *context = NULL;
    desc.devices = run == FRAMES ? NULL : "0,0";
    desc.overrides = overrides;
    desc.max_slice_us = max_slice_us;
    if (run == FRAMES) {
        memset(&app, 0, sizeof app);
        return engine_make_instance(&app) && engine_make_device(&app, true) ? engine_context(&app, &desc) : NULL;
    }
    CHECK_MESSAGE(dit_context_create(&desc, &context, &err) == DIT_OK, "%s: %s", overrides, err.message);
    return context;
}

/* Overrides behind those that are given. Only what fits a binding changes the order of sums. */
static void draw_overrides(char *out, size_t size, const char *rung) {
    uint32_t i;
    snprintf(out, size, "%s", rung);
    for (i = 0; i < 2; i++) {
        size_t length = strlen(out);
        switch (draw(9)) {
        case 0: snprintf(out + length, size - length, ",storage_range=%u", 131072u << draw(6)); break;
        case 1: snprintf(out + length, size - length, ",staging=%u", 4096u << draw(8)); break;
        case 2: snprintf(out + length, size - length, ",groups=%u", 16u << draw(8)); break;
        case 3: snprintf(out + length, size - length, ",mapped=0"); break;
        case 4: snprintf(out + length, size - length, ",transfer=%u", draw(2)); break;
        case 5:
            snprintf(out + length, size - length, ",gflop_ns=%u,launch_us=%u", 1000u << draw(16), 1u << draw(8));
            break;
        case 6: snprintf(out + length, size - length, ",allocation=%u", 16777216u << draw(3)); break;
        case 7: snprintf(out + length, size - length, ",host_budget=%u", 16777216u << draw(3)); break;
        default: snprintf(out + length, size - length, ",timestamps=0"); break;
        }
    }
}

typedef struct drawn_way {
    char overrides[200];
    uint32_t max_slice_us;
    drawn_run run;
    uint32_t steps; /* calls of dit_job_step before a run is cancelled, or what a frame's budget follows from */
    dit_model_desc model;
} drawn_way;

static void draw_way(drawn_way *way, const char *rung, uint64_t weights) {
    static const uint32_t slices[] = {0, 0, 100, 2000, 20000};
    memset(way, 0, sizeof *way);
    draw_overrides(way->overrides, sizeof way->overrides, rung);
    way->max_slice_us = slices[draw(DITI_COUNT(slices))];
    way->run = (drawn_run)draw(RUNS);
    way->steps = draw(60);
    if (draw(3) == 0) {
        way->model.weight_budget = weights / (1 + draw(3)) + 500000;
        way->model.keep_streamed = draw(2);
    } else if (draw(4) == 0) {
        way->model.weights_by_need = true;
    }
}

/* ---- all ---- */

static uint32_t refused, impossible, same;

/* By another way: the same bytes, or a limit with which it cannot be made. */
static void check_way(const char *name, const char *rung, const drawn_request *r, uint64_t weights,
                      const outcome *expected) {
    static outcome made;
    maker m = DITI_ZERO;
    dit_job_desc desc = r->desc;
    drawn_way way;
    dit_result result;
    char says[300];
    draw_way(&way, rung, weights);
    if (desc.split && way.run == FRAMES) way.run = STEPS; /* an application lends one device */
    snprintf(says, sizeof says, "%s, slices of %u us, run %d, %u, %llu bytes of weights%s%s", way.overrides,
             (unsigned)way.max_slice_us, (int)way.run, (unsigned)way.steps, (unsigned long long)way.model.weight_budget,
             way.model.keep_streamed ? ", kept" : "", way.model.weights_by_need ? ", by need" : "");
    m.context = open_drawn(way.overrides, way.max_slice_us, way.run);
    if (m.context && CHECK_MESSAGE(load_listed(&m, name, way.model), "%s", says)) {
        desc.model = m.model;
        result = make_outcome(&m, way.run, way.steps, &desc, &made);
        if (result == DIT_ERROR_UNSUPPORTED_DEVICE || result == DIT_ERROR_OUT_OF_DEVICE_MEMORY) {
            impossible++;
            printf("%s\n    by %s: %s\n", r->says, says, err.message);
        } else if (CHECK_MESSAGE(result == DIT_OK, "%s\n    by %s: %s", r->says, says, err.message)) {
            bool rounds = strstr(way.overrides, "storage_range"), halves = !strstr(way.overrides, "rung=base"),
                 equal = made.count == expected->count && made.pixels == expected->pixels &&
                         !memcmp(made.latent, expected->latent, made.count * sizeof *made.latent) &&
                         !memcmp(made.picture, expected->picture, made.pixels * sizeof *made.picture);
            double tolerance = rounds ? halves ? HALVES_TOLERANCE : TOLERANCE : 0;
            same += equal;
            CHECK_MESSAGE(
                equal || (difference(&made, expected) <= tolerance && picture_difference(&made, expected) <= tolerance),
                "%s\n    by %s: latent %g, picture %g", r->says, says, difference(&made, expected),
                picture_difference(&made, expected));
        }
    }
    close_maker(&m);
    if (way.run == FRAMES) engine_end(&app);
}

static bool lacks_matrices;

static void find_matrices(void) {
    dit_context_desc desc = DITI_ZERO;
    dit_context *context = NULL;
    desc.overrides = "rung=coop";
    lacks_matrices = dit_context_create(&desc, &context, &err) != DIT_OK;
    dit_context_destroy(context);
}

static void check_model(const char *name, uint32_t requests) {
    static const char *const rungs[] = {"rung=base",       "rung=base,cpu=0", "rung=fp16",
                                        "rung=fp16,cpu=0", "rung=half,cpu=0", "rung=coop,cpu=0"};
    static drawn_request r;
    static outcome expected;
    const char *rung = rungs[draw(DITI_COUNT(rungs) - (lacks_matrices ? 1 : 0))];
    dit_model_desc how = DITI_ZERO;
    maker m = DITI_ZERO;
    uint64_t weights;
    uint32_t tries = 0;
    dit_result result;
    m.context = open_drawn(rung, 0, WAITS);
    if (m.context && load_listed(&m, name, how)) {
        weights = m.model->transformer->component.weights.bytes;
        for (; requests && tries < 20 * requests; tries++) {
            draw_request(&m, name, &r);
            result = make_outcome(&m, WAITS, 0, &r.desc, &expected);
            if (result == DIT_ERROR_INVALID_ARGUMENT || result == DIT_ERROR_UNSUPPORTED_MODEL) {
                CHECK_MESSAGE(err.message[0] && !strchr(err.message, '\n'), "%s: '%s'", r.says, err.message);
                refused++;
            } else if (CHECK_MESSAGE(result == DIT_OK, "%s, %s: %s", r.says, rung, err.message)) {
                requests--;
                check_way(name, rung, &r, weights, &expected);
            }
            generated_free_inputs(&r.inputs);
            fflush(stdout);
        }
    }
    close_maker(&m);
}

int main(int argc, char **argv) {
    uint32_t count = argc > 2 ? (uint32_t)atoi(argv[2]) : whole_sweep() ? 100 : 1;
    const char *only = argc > 3 ? argv[3] : argc > 2 || whole_sweep() ? NULL : "pixart-sigma";
    drawn = argc > 1 ? (uint64_t)atoi(argv[1]) + 1 : whole_sweep() ? 1 : 6; /* of seed 5, one that is soon done */
    test_vulkan_begin();
    find_matrices();
    for (; count; count -= count < 2 ? count : 2) check_model(only ? only : draw_model(), count < 2 ? count : 2);
    printf("%u had the same bytes, %u cannot be made so, %u requests were refused\n", (unsigned)same,
           (unsigned)impossible, (unsigned)refused);
    test_vulkan_end();
    return TEST_END("drawn");
}
