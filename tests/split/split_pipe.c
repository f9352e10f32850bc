/* Blocks over several devices: as layers, exactly, and as PipeFusion, whose strips read keys and values of other
   strips that are one step old. Several stages make what one device makes of the same strips, in every order of
   segments that a run has; the error against the exact picture is told. Bytes are those of the closed forms.

   make test runs the small pipeline; DIT_TEST_ALL=1 all that is done with it, and every family. By hand:
   build/tests/split_pipe FAMILY. test-runs: lavapipe */
#include "library.h"
#include "split_job.h"
#include "split_ranks.h"
#include "vulkan_test.h"

/* A run on one device and one on several differ by the order of sums alone. */
#define TOLERANCE 1e-4

static const generated_model shapes[] = {
    {"pixart", "pixart", 4, 16, 6, 0, 0, false}, {"sd3", "sd3", 4, 16, 6, 0, 2, true},
    {"flux", "flux", 4, 16, 3, 5, 0, true},      {"hunyuan", "hunyuandit", 4, 16, 8, 0, 0, false},
    {"dit", "dit", 4, 16, 6, 0, 0, false},
};

static maker at;

static bool open_model(const generated_model *shape, uint32_t devices) {
    dit_model_desc desc = DITI_ZERO;
    if (!shape) desc.source.path = tiny;
    if (!CHECK_MESSAGE(open_devices(&at, devices, "rung=base", 0) == DIT_OK &&
                           load_denoiser(&at, shape, DIT_TYPE_STORED, desc) == DIT_OK,
                       "%s", err.message))
        return false;
    if (shape) shorten_texts(at.model);
    return true;
}

/* ---- runs ---- */

static dit_result finish(dit_job *job, outcome *out) {
    uint32_t image;
    uint64_t before = sent_bytes(job);
    dit_result result = wait_for(job, 60);
    if (result != DIT_OK) return result;
    out->sent = sent_bytes(job) - before;
    out->planned = planned_bytes(job, false);
    out->in_steps = planned_bytes(job, true);
    CHECK_MESSAGE(out->sent == out->planned, "%llu bytes were sent, %llu planned", (unsigned long long)out->sent,
                  (unsigned long long)out->planned);
    for (image = out->count = 0; image < job->request.shape.image_count && CHECK(out->count < MOST_LATENTS); image++)
        CHECK(read_latent(job, image, out) == DIT_OK);
    return DIT_OK;
}

static bool run(const asked *a, const char *split, outcome *out) {
    dit_job *job = NULL;
    dit_result result = make_asked(&at, a, split, &job);
    if (result == DIT_OK) result = finish(job, out);
    dit_job_destroy(job);
    return CHECK_MESSAGE(result == DIT_OK, "%s: %s", split ? split : "alone", err.message);
}

/* ---- what stages send, from the shapes alone ---- */

/* Bytes between stages in one evaluation of some branches: the residual stream over every boundary, F32, and skips
   whose taker is on another device, in the format of activations, F32 here. */
static uint64_t stage_bytes(const asked *a, uint32_t stages, uint32_t branches) {
    const diti_model_traits *traits = &at.model->transformer->traits;
    uint64_t rows = (uint64_t)a->columns * a->rows + (traits->joint ? at.model->texts[DITI_TEXT_FIRST].tokens : 0);
    uint64_t hops = stages - 1;
    uint32_t i, leaver, taker;
    for (i = 0; traits->skips && i + 1 < traits->layers / 2; i++) {
        for (leaver = 0; (leaver + 1) * traits->layers / stages <= i; leaver++) {
        }
        for (taker = 0; (taker + 1) * traits->layers / stages <= traits->layers - 1 - i; taker++) {
        }
        hops += leaver != taker;
    }
    return hops * branches * a->images * rows * traits->width * sizeof(float);
}

static uint64_t latent_bytes(const asked *a) {
    const dit_model_info *info = &at.model->info;
    return (uint64_t)a->images * info->latent_channels * a->columns * a->rows * info->patch * info->patch *
           sizeof(float);
}

/* ---- checks ---- */

static outcome exact, stale, split_;

/* Rows as int8 are a quarter of the stream's bytes and a scale for each row; the error that they cost is printed. */
static void check_int8(const asked *a, const char *split, const char *as_int8) {
    if (!run(a, split, &stale) || !run(a, as_int8, &split_)) return;
    printf("  %s: relative L2 %.2g, %llu bytes instead of %llu\n", as_int8, difference(&split_, &stale),
           (unsigned long long)split_.sent, (unsigned long long)stale.sent);
    CHECK(difference(&split_, &stale) > 0 && difference(&split_, &stale) <= 0.05 && split_.in_steps < stale.in_steps);
}

/* Keys and values of other strips may be kept as int8, which costs accuracy: the error is printed, and it is the same
   on one device and on several. */
static void check_kept(const asked *a) {
    static outcome kept;
    if (!run(a, "pipefusion1:m2w1", &stale) || !run(a, "pipefusion1:m2w1k8", &kept) ||
        !run(a, "pipefusion2:m2w1k8", &split_))
        return;
    printf("  pipefusion1:m2w1k8: relative L2 %.2g from the same with floats\n", difference(&kept, &stale));
    CHECK(difference(&kept, &stale) > 0 && difference(&kept, &stale) <= 0.02);
    CHECK_MESSAGE(difference(&split_, &kept) <= TOLERANCE, "two stages: %g", difference(&split_, &kept));
}

/* The first stage begins a step's strips while the last one has some of the step before to do: how often that was
   seen, which depends on how fast both are. */
static void check_overlap(const asked *a, const char *split) {
    dit_job *job = NULL;
    const diti_share *last;
    dit_result result = DIT_WORKING;
    uint32_t seen = 0, count = 0;
    bool behind;
    if (CHECK_MESSAGE(make_asked(&at, a, split, &job) == DIT_OK, "%s", err.message)) {
        last = job->shares[job->share_count - 1];
        while (result == DIT_WORKING && seen < 1u << 20) {
            const diti_job_cursor *first = &job->shares[0]->run.cursor;
            result = dit_job_step(job, 0);
            behind = last->run.cursor.repeat < first->repeat ||
                     (last->run.cursor.repeat == first->repeat && !last->run.cursor.slice && last->run.flight_count);
            if (behind && first->slice &&
                first->segment == job->shares[0]->program.step_segments[DITI_FORM_NEXT][DITI_STEP_USUAL])
                seen |= 1u << first->repeat;
        }
        CHECK(result == DIT_OK);
    }
    for (; seen; seen &= seen - 1) count++;
    printf("  %s: %u of %u steps were seen to begin before the one before had ended\n", split, count, a->steps);
    dit_job_destroy(job);
}

static void check_layers(const asked *a, const char *const *splits) {
    for (; *splits; splits++) {
        if (!run(a, *splits, &split_)) continue;
        printf("  %s: relative L2 %.2g, %llu bytes\n", *splits, difference(&split_, &exact),
               (unsigned long long)split_.sent);
        CHECK(difference(&split_, &exact) <= TOLERANCE);
    }
}

/* Several stages against one device with the same strips. */
static void check_strips(const asked *a, const char *strips, const char *const *splits) {
    char name[80];
    snprintf(name, sizeof name, "pipefusion1%s", strips);
    if (!run(a, name, &stale)) return;
    printf("  %s: relative L2 %.2g from the exact latent\n", name, difference(&stale, &exact));
    CHECK(difference(&stale, &exact) > 1e-6);
    for (; *splits; splits++) {
        snprintf(name, sizeof name, "%s%s", *splits, strips);
        if (!run(a, name, &split_)) continue;
        printf("  %s: relative L2 %.2g, %llu bytes\n", name, difference(&split_, &stale),
               (unsigned long long)split_.sent);
        CHECK(difference(&split_, &stale) <= TOLERANCE);
    }
}

static uint64_t hidden_bytes(void) { return at.model->transformer->traits.width * sizeof(float); }

static void check_bytes(const asked *a) {
    uint32_t branches = at.model->transformer->traits.default_guidance != 1.0f ? 2 : 1;
    uint64_t step = stage_bytes(a, 2, branches) + branches * latent_bytes(a); /* predicted variances stay */
    if (run(a, "layers2", &split_))
        CHECK_MESSAGE(split_.in_steps == a->steps * step, "layers2: %llu bytes in steps, the closed form says %llu",
                      (unsigned long long)split_.in_steps, (unsigned long long)(a->steps * step));
    /* folded: the stream alone, there and back, and what is predicted is where it belongs */
    if (at.model->transformer->traits.skips) step = 2 * a->rows * a->columns * branches * hidden_bytes();
    if (run(a, "pipefusion2:m3w1", &split_))
        CHECK_MESSAGE(split_.in_steps == a->steps * step, "pipefusion2: %llu bytes in steps, the closed form says %llu",
                      (unsigned long long)split_.in_steps, (unsigned long long)(a->steps * step));
}

/* A stage is lost: the other device goes on with the strips, and a step of warm-up. */
static void check_lost(const asked *a, const char *split, uint32_t submit) {
    dit_job *job = NULL;
    dit_status status;
    at.context->devices[1]->submits = 0;
    if (CHECK_MESSAGE(make_asked(&at, a, split, &job) == DIT_OK, "%s", err.message)) {
        at.context->devices[1]->submits = 0;
        at.context->devices[1]->fail_submit_after = submit;
        CHECK_MESSAGE(dit_job_wait(job, 60000000000u) == DIT_OK, "submit %u: %s", submit, err.message);
        dit_job_status(job, &status, &err);
        CHECK_MESSAGE(status.failed_devices == 1 && job->begins_at > 0, "%u devices failed, went on at %u: %s",
                      status.failed_devices, job->begins_at, err.message);
        split_.count = 0;
        CHECK(read_latent(job, 0, &split_) == DIT_OK);
        printf("  %s, a device lost in step %u: relative L2 %.2g from the exact latent, %.2g without a loss\n", split,
               job->begins_at, difference(&split_, &exact), difference(&stale, &exact));
        CHECK(difference(&split_, &exact) <= 2 * difference(&stale, &exact));
    }
    dit_job_destroy(job);
}

/* Cancels in the middle of a run, then runs again; `stale` is the picture that must come. */
static void check_cancel(const asked *a, const char *split) {
    generated_inputs inputs;
    dit_job_desc desc = request_asked(&at, a, split, &inputs);
    dit_job *job = NULL;
    dit_status status = DITI_ZERO;
    dit_result result = DIT_WORKING;
    if (CHECK_MESSAGE(dit_job_create(at.context, &desc, &job, &err) == DIT_OK, "%s", err.message)) {
        while (result == DIT_WORKING && status.step < 2) {
            result = dit_job_step(job, 0);
            dit_job_status(job, &status, NULL);
        }
        CHECK_MESSAGE(result == DIT_WORKING, "step %u of %u", status.step, status.step_count);
        dit_job_cancel(job);
        CHECK(dit_job_wait(job, UINT64_MAX) == DIT_CANCELLED);
        CHECK_MESSAGE(dit_job_restart(job, &desc, &err) == DIT_OK && finish(job, &split_) == DIT_OK, "%s", err.message);
    }
    dit_job_destroy(job);
    generated_free_inputs(&inputs);
    CHECK_MESSAGE(difference(&split_, &stale) <= TOLERANCE, "after a cancel: %g", difference(&split_, &stale));
}

static void check_refused(const asked *a, const char *split, const char *words) {
    dit_job *job = NULL;
    CHECK_MESSAGE(make_asked(&at, a, split, &job) == DIT_ERROR_INVALID_ARGUMENT && strstr(err.message, words),
                  "%s: '%s' does not say %s", split, err.message, words);
    dit_job_destroy(job);
}

/* ---- folded stages ---- */

#define PLAN "{\"format\": \"dit-split-plan\", \"version\": 1, "
#define FOLDED PLAN "\"split\": \"pipefusion2\", \"patches\": 3, \"shares\": [0.7, 0.3]}"

/* Blocks of the stages of each device, both of them; a device has more of them the larger its share. */
static void check_blocks(const dit_job *job, uint32_t more) {
    uint32_t first, end, blocks[2] = {0, 0}, i, layers = at.model->transformer->traits.layers;
    CHECK(job->shares[0]->assignment.folded && job->shares[0]->assignment.share_total == 4);
    for (i = 0; i < job->share_count; i++) {
        diti_axes_blocks(&job->shares[i]->assignment.axes, layers, &first, &end);
        blocks[job->device_of_share[i]] += end - first;
    }
    CHECK_MESSAGE(blocks[0] == layers / 2 + more && blocks[0] + blocks[1] == layers, "%u and %u blocks of %u",
                  blocks[0], blocks[1], layers);
}

/* Two processes with a device each make what one process makes with both. */
static void check_folded_ranks(const generated_model *shape, const asked *a) {
    static uint32_t numbers[2] = {0, 1};
    dit_result results[2] = {DIT_WORKING, DIT_WORKING};
    dit_job *jobs[2] = {NULL, NULL};
    uint64_t begin = diti_clock_us();
    maker ranks[2];
    int i;
    memset(ranks, 0, sizeof ranks);
    for (i = 0; i < 2; i++) {
        dit_context_desc desc = DITI_ZERO;
        dit_model_desc model = DITI_ZERO;
        desc.devices = "llvmpipe";
        desc.overrides = "rung=base";
        desc.transport = rank_transport(&numbers[i], 2);
        CHECK_MESSAGE(dit_context_create(&desc, &ranks[i].context, &err) == DIT_OK &&
                          load_denoiser(&ranks[i], shape, DIT_TYPE_STORED, model) == DIT_OK,
                      "%s", err.message);
        if (!ranks[i].model) break;
        shorten_texts(ranks[i].model);
        CHECK_MESSAGE(make_asked(&ranks[i], a, "pipefusion2:m3w1", &jobs[i]) == DIT_OK, "%s", err.message);
    }
    while (jobs[0] && jobs[1] && (results[0] == DIT_WORKING || results[1] == DIT_WORKING) &&
           diti_clock_us() - begin < 120000000)
        for (i = 0; i < 2; i++) results[i] = dit_job_wait(jobs[i], 1000000);
    if (jobs[0] && jobs[1]) {
        dit_job_status(jobs[0], NULL, &err);
        CHECK_MESSAGE(results[0] == DIT_OK && results[1] == DIT_OK, "%d, %d: %s", (int)results[0], (int)results[1],
                      err.message);
        CHECK(jobs[0]->shares[0]->assignment.folded && jobs[0]->share_count == 2 &&
              jobs[1]->shares[0]->assignment.share == 2);
        split_.count = 0;
        CHECK(read_latent(jobs[0], 0, &split_) == DIT_OK);
        printf("  folded over two processes: relative L2 %.2g\n", difference(&split_, &stale));
        CHECK(difference(&split_, &stale) <= TOLERANCE);
    }
    for (i = 0; i < 2; i++) {
        dit_job_destroy(jobs[i]);
        close_maker(&ranks[i]);
    }
}

static void test_folded(const generated_model *shape) {
    asked a = {8, 7, 1, 5, 0, 0, 0, "euler", false, 0, NULL};
    dit_job *job = NULL;
    if (open_model(shape, 3) && run(&a, NULL, &exact) && run(&a, "pipefusion1:m3w1", &stale)) {
        if (CHECK_MESSAGE(make_asked(&at, &a, FOLDED, &job) == DIT_OK, "%s", err.message)) {
            check_blocks(job, shape->layers / 4);
            CHECK_MESSAGE(finish(job, &split_) == DIT_OK && difference(&split_, &stale) <= TOLERANCE, "%g: %s",
                          difference(&split_, &stale), err.message);
            printf("  folded, unequal shares: relative L2 %.2g\n", difference(&split_, &stale));
        }
        dit_job_destroy(job);
        a.resumes = true; /* one of two devices is left, or two of three, which fold again */
        check_lost(&a, FOLDED, 40);
        close_maker(&at);
        if (open_model(shape, 3)) check_lost(&a, "pipefusion3:m3w1", 40);
    }
    close_maker(&at);
    a.resumes = false;
    check_folded_ranks(shape, &a);
}

/* ---- all ---- */

static void test_small(bool full) {
    static const char *const two[] = {"pipefusion2", NULL}, *const all[] = {"cfg2,pipefusion2", NULL};
    asked a = {3, 4, 1, 4, 0, 0, 0, "euler", false, 0, NULL};
    if (open_model(NULL, 4)) {
        printf("the small pipeline\n");
        if (run(&a, NULL, &exact)) check_strips(&a, ":m2w1", all);
        check_kept(&a);
        if (full) check_int8(&a, "pipefusion2:m2w1", "pipefusion2:m2w1,int8");
        if (full) check_overlap(&a, "pipefusion2:m4w1");
        a.first = 0.2f; /* branches that come and go, previews that wait for strips */
        a.last = 0.8f;
        a.steps = 6;
        a.preview = 2;
        a.sampler = "dpm++2m";
        if (run(&a, NULL, &exact)) check_strips(&a, ":m4w1", two);
        check_cancel(&a, "pipefusion2:m4w1");
        check_refused(&a, "pipefusion2:m5", "5 patches of 4 rows");
        check_refused(&a, "pipefusion2:w0", "warm-up");
        check_refused(&a, "pipefusion3", "layers");
        a.first = a.last = 0;
        a.preview = 0;
        a.sampler = "euler";
        if (full && run(&a, NULL, &exact) && run(&a, "pipefusion1:m4w1", &stale)) {
            a.resumes = true;
            check_lost(&a, "pipefusion2:m4w1", 40);
        }
    }
    close_maker(&at);
}

#define UNEQUAL "\"patches\": 3, \"shares\": [0.1, 0.2, 0.35, 0.35]}"

static void test_family(const generated_model *shape) {
    static const char *const layers[] = {"layers2", "layers3", "layers2,ulysses2",
                                         PLAN "\"split\": \"layers2,ulysses2\", " UNEQUAL, NULL},
                             *const few[] = {"pipefusion2", "pipefusion3", "ulysses2,pipefusion2", "ring2,pipefusion2",
                                             NULL},
                             *const many[] = {"pipefusion4", NULL}, *const guided[] = {"cfg2,pipefusion2", NULL};
    asked a = {8, 7, 1, 5, 0, 0, 0, "euler", false, 0, NULL};
    if (open_model(shape, 4)) {
        bool branches = at.model->transformer->traits.default_guidance != 1.0f;
        printf("%s\n", shape->name);
        if (run(&a, NULL, &exact)) {
            check_layers(&a, layers);
            check_strips(&a, ":m3w1", few);
            if (run(&a, PLAN "\"split\": \"pipefusion2,ring2\", " UNEQUAL, &split_))
                CHECK_MESSAGE(difference(&split_, &stale) <= TOLERANCE, "unequal shares: %g",
                              difference(&split_, &stale));
            check_strips(&a, ":m7w2", many);
            if (branches) check_strips(&a, ":m2w1", guided);
        }
        check_bytes(&a);
        a.images = 2;
        a.first = 0.3f;
        a.last = 0.8f;
        if (run(&a, NULL, &exact)) check_strips(&a, ":m2w1", branches ? guided : many);
    }
    close_maker(&at);
}

int main(int argc, char **argv) {
    bool full = whole_sweep();
    size_t i;
    int k;
    test_vulkan_begin();
    if (argc < 2) test_small(full);
    for (i = 0; i < DITI_COUNT(shapes); i++) {
        bool wanted = full && argc < 2;
        for (k = 1; k < argc; k++) wanted = wanted || !strcmp(argv[k], shapes[i].name);
        if (wanted) test_family(&shapes[i]);
        if (wanted && !strcmp(shapes[i].family, "hunyuandit")) test_folded(&shapes[i]);
    }
    test_vulkan_end();
    return TEST_END("split_pipe");
}
