/* Frames: how work is cut, what a call of dit_job_record is expected to take, and what is learned from what it took.
 * All times are feigned (overrides gflop_ns and launch_us) or computed, so that nothing here depends on how fast the
 * machine is; dit-bench frames measures. test-runs: lavapipe, in test-all sanitize */
#include "library.h"
#include "graph/plan.c"
#include "job/inspect.c"
#include "vulkan_test.h"
#include "engine.h"
#include "files.h"
#include "real_shapes.h"

#define TINY "tests/fixtures/pipe_pixart_sigma"
enum { SIDE = 32, BYTES = SIDE * SIDE * 4, STEPS = 2 };

static unsigned char expected[BYTES];

/* ---- A step of FLUX.1 in slices: planned, never run ---- */

typedef struct flux {
    diti_device device;
    diti_transformer *model;
    diti_step_desc step;
    diti_graph graph;
    diti_plan plan;
} flux;

/* 1024 x 1024 pixels, 512 tokens of text, one branch, on an imaginary GPU whose cores nobody tells. */
static bool flux_open(flux *f, real_file *file, dit_type type) {
    diti_env env = test_env(NULL);
    diti_checkpoint *checkpoint = NULL;
    dit_source source;
    dit_model none;
    dit_error err = {0};
    diti_step_desc *d = &f->step;
    memset(&none, 0, sizeof none);
    none.env = env;
    diti_job_imaginary_device(&none, &f->device);
    file->original = true;
    file->type = type;
    real_flux(file, 3072, 19, 38, true);
    source = real_source(file);
    if (!CHECK_MESSAGE(diti_checkpoint_open(&env, &source, &checkpoint, &err) == DIT_OK &&
                           diti_transformer_load(NULL, &env, NULL, checkpoint, "", NULL, &f->model, &err) == DIT_OK,
                       "%s", err.message))
        return false;
    diti_checkpoint_close(checkpoint);
    diti_graph_init(&f->graph, &f->device);
    diti_graph_segment(&f->graph, "prepare", false);
    d->batch = d->branches = d->text_batch = 1;
    d->steps = 4;
    d->height = d->width = 128;
    d->text_tokens = 512;
    d->latent = diti_tensor_state(&f->graph, DITI_F32, f->model->traits.latent_channels, 128 * 128, "latent");
    d->text = diti_tensor_state(&f->graph, DITI_F32, 512, f->model->traits.text_columns, "text");
    d->pooled = diti_tensor_state(&f->graph, DITI_F32, 1, f->model->traits.pooled_columns, "pooled");
    d->row = diti_tensor_state(&f->graph, DITI_U32, 1, 1, "step");
    diti_transformer_prepare(f->model, &f->graph, d);
    diti_graph_segment(&f->graph, "step", true);
    diti_transformer_step(f->model, &f->graph, d);
    if (!CHECK_MESSAGE(!diti_graph_failed(&f->graph), "%s", f->graph.error.message)) return false;
    f->plan.device = &f->device;
    if (!CHECK_MESSAGE(diti_plan_assign_memory(&f->graph, &f->plan, &err) == DIT_OK, "%s", err.message)) return false;
    diti_plan_take(&f->plan, &f->graph);
    return true;
}

static void flux_forget_slices(flux *f) {
    diti_plan *plan = &f->plan;
    diti_free(&f->device.env, plan->dispatches);
    diti_free(&f->device.env, plan->slices);
    diti_free(&f->device.env, plan->source_us);
    diti_free(&f->device.env, plan->source_cut_us);
    diti_free(&f->device.env, plan->source_measured);
    diti_free(&f->device.env, plan->source_minimum);
    plan->dispatches = NULL;
    plan->slices = NULL;
    plan->source_us = plan->source_cut_us = NULL;
    plan->source_measured = NULL;
    plan->source_minimum = NULL;
    plan->dispatch_count = plan->slice_count = 0;
}

static void flux_close(flux *f) {
    diti_env env = test_env(NULL);
    flux_forget_slices(f);
    diti_free(&env, f->plan.tensors);
    diti_free(&env, f->plan.sources);
    diti_free(&env, f->plan.blocks);
    diti_free(&env, f->step.family);
    diti_graph_free(&f->graph);
    diti_transformer_destroy(f->model);
}

/* No piece is smaller than what fills the device (FILL workgroups, or all of its dispatch), none begins with a barrier
   against its own dispatch, no slice is longer than the limit unless it is one piece that may not be smaller. */
static void check_pieces(const diti_plan *plan, uint32_t fill, const char *what) {
    uint32_t i, k;
    for (i = 0; i < plan->slice_count; i++) {
        const diti_plan_slice *slice = &plan->slices[i];
        for (k = slice->first; k < slice->first + slice->count; k++) {
            const diti_plan_dispatch *piece = &plan->dispatches[k];
            uint32_t all = plan->sources[piece->source].groups;
            if (!CHECK_MESSAGE(piece->groups >= (all < fill ? all : fill) || piece->groups * 2 >= fill,
                               "%s: %u of %u workgroups of %s", what, piece->groups, all,
                               plan->sources[piece->source].name))
                return;
            if (!CHECK_MESSAGE(!piece->barrier || piece->first_group == 0, "%s: a barrier inside %s", what,
                               plan->sources[piece->source].name))
                return;
        }
        if (!CHECK_MESSAGE(slice->cut_us <= plan->limit_us * 1.0001f || slice->count == 1, "%s: %u pieces, %.0f us",
                           what, slice->count, (double)slice->cut_us))
            return;
    }
}

/* Rates of an H200, an L40, a 7900 XTX, a T4 at about half of their peaks, and of what is far slower. Slices are as
   many as the time of the step asks for: at most twice that, since what is left of a slice may be too short for the
   next piece. Where slices would leave the device idle they are fewer: a piece of 512 workgroups is then as long as it
   is. */
static void test_flux(void) {
    static const float rates[] = {3.3f, 9, 17, 40, 2000};
    static const uint32_t limits[] = {50000, 4000, 1000};
    real_file file = {0};
    static flux f;
    size_t r, l;
    dit_error err = {0};
    if (flux_open(&f, &file, DIT_TYPE_F16)) {
        for (r = 0; r < DITI_COUNT(rates); r++) {
            uint32_t fewer = 0;
            for (l = 0; l < DITI_COUNT(limits); l++) {
                char what[80];
                double total = 0, floor_us = 0;
                uint32_t i, slices;
                f.device.speed.launch_us = 4;
                f.device.speed.us_per_gflop = rates[r];
                f.device.speed.us_per_gigabyte = rates[r] * 100;
                f.device.max_slice_us = limits[l];
                snprintf(what, sizeof what, "FLUX.1 at %.1f us per GFLOP within %u us", (double)rates[r], limits[l]);
                if (!CHECK_MESSAGE(diti_plan_make_slices(&f.plan, &f.graph, &err) == DIT_OK, "%s", err.message)) break;
                check_pieces(&f.plan, 512, what);
                slices = f.plan.segments[1].count;
                for (i = f.plan.segments[1].first; i < f.plan.segments[1].first + slices; i++) {
                    total += (double)f.plan.slices[i].cut_us;
                    if (f.plan.slices[i].cut_us > f.plan.limit_us) floor_us += (double)f.plan.slices[i].cut_us;
                }
                printf("%s: %.1f ms in %u slices, %.0f %% of the time in slices that fill the device alone\n", what,
                       total * 1e-3, slices, 100 * floor_us / total);
                CHECK_MESSAGE(total > 60e3 * (double)rates[r] && total < 120e3 * (double)rates[r], "%s: %.0f us", what,
                              total);
                CHECK_MESSAGE(slices <= 2 * total / limits[l] + 4, "%s: %u slices", what, slices);
                CHECK_MESSAGE(slices + 0.5 >= (total - floor_us) / limits[l], "%s: %u slices", what, slices);
                CHECK_MESSAGE(slices >= fewer, "%s: %u slices, fewer than with more time", what, slices);
                fewer = slices;
                flux_forget_slices(&f);
            }
        }
        /* as many cores as an H200 tells of */
        f.device.limits.cores_told = true;
        f.device.limits.cores = 132;
        f.device.max_slice_us = 1000;
        if (CHECK(diti_plan_make_slices(&f.plan, &f.graph, &err) == DIT_OK))
            check_pieces(&f.plan, 4 * 132, "132 cores");
        /* a processor whose speed was measured a thousand times too low: it may be cut into single workgroups */
        flux_forget_slices(&f);
        f.device.is_cpu = true;
        f.device.speed.us_per_gflop = 1e6f;
        f.device.speed.us_per_gigabyte = 1e8f;
        f.device.max_slice_us = 100;
        if (CHECK(diti_plan_make_slices(&f.plan, &f.graph, &err) == DIT_OK))
            CHECK_MESSAGE(f.plan.dispatch_count <= 32768, "%u pieces", (unsigned)f.plan.dispatch_count);
    }
    flux_close(&f);
    real_free(&file);
}

/* Weights that are packed are expanded while the product before theirs computes: no barrier stands between the two, and
   there are hardly more barriers than there would be without expansions. */
static void test_expansions(void) {
    real_file file = {0};
    static flux f;
    uint32_t early = 0, epoch_early = 0, beside = 0, barriers = 0;
    bool product = false;
    size_t i;
    dit_error err = {0};
    if (flux_open(&f, &file, DIT_TYPE_Q8_0)) {
        f.device.speed.launch_us = 4;
        f.device.speed.us_per_gflop = 9;
        f.device.speed.us_per_gigabyte = 900;
        f.device.max_slice_us = 1000000;
        CHECK_MESSAGE(diti_plan_make_slices(&f.plan, &f.graph, &err) == DIT_OK, "%s", err.message);
        for (i = 0; i <= f.plan.dispatch_count; i++) {
            const diti_dispatch *source = &f.plan.sources[f.plan.dispatches[i % f.plan.dispatch_count].source];
            if (i == f.plan.dispatch_count || f.plan.dispatches[i].barrier) {
                beside += product ? epoch_early : 0;
                epoch_early = product = 0;
                barriers++;
            }
            if (i == f.plan.dispatch_count) break;
            early += source->early;
            epoch_early += source->early;
            product = product || source->cost_kind == DITI_COST_GEMM;
        }
        printf("FLUX.1 of q8_0: %u of %u expansions beside a product, %u barriers for %u dispatches\n", beside, early,
               barriers, (uint32_t)f.plan.dispatch_count);
        CHECK(early > 800 && beside * 10 > early * 6);
        CHECK(barriers * 20 < (f.plan.dispatch_count - early) * 21);
    }
    flux_close(&f);
    real_free(&file);
}

/* ---- The device is measured: launches and rates are told apart, and kept ---- */

static char logged[65536];
static void log_line(int level, const char *message, void *user) {
    size_t used = strlen(logged);
    (void)level, (void)user;
    snprintf(logged + used, sizeof logged - used, "%s\n", message);
}

static dit_context *open_context(engine *e, const char *overrides, uint32_t max_slice_us, const void *cache,
                                 size_t cache_size) {
    dit_context_desc desc = {0};
    dit_context *ctx = NULL;
    dit_error err = {0};
    desc.overrides = overrides;
    desc.max_slice_us = max_slice_us;
    desc.cache = cache;
    desc.cache_size = cache_size;
    desc.logger.func = log_line;
    desc.logger.max_level = 2;
    logged[0] = 0;
    if (e) return engine_context(e, &desc);
    CHECK_MESSAGE(dit_context_create(&desc, &ctx, &err) == DIT_OK, "%s", err.message);
    return ctx;
}

static void test_fit(void) {
    static const float launches[] = {0, 5, 20, 200}, rates[] = {3.3f, 9, 17, 40, 2000};
    dit_context *ctx = open_context(NULL, "gflop_ns=17000,launch_us=20", 0, NULL, 0);
    diti_device *device = ctx ? ctx->device : NULL;
    dit_error err = {0};
    size_t r, i;
    if (!device) return;
    CHECK(device->calibrated && device->feigned.us_per_gflop == 17 && device->feigned.launch_us == 20);
    for (r = 0; r < DITI_COUNT(rates); r++) {
        for (i = 0; i < DITI_COUNT(launches); i++) {
            device->feigned.launch_us = launches[i];
            device->feigned.us_per_gflop = rates[r];
            device->feigned.us_per_gigabyte = 10 * rates[r];
            device->calibrated = false;
            CHECK_MESSAGE(diti_device_measure(device, &err) == DIT_OK && device->calibrated, "%s", err.message);
            CHECK_MESSAGE(fabs((double)device->speed.us_per_gflop / (double)rates[r] - 1) < 0.2 &&
                              fabs((double)device->speed.us_per_gigabyte / (double)rates[r] / 10 - 1) < 0.2,
                          "%g us per GFLOP and launches of %g us: %g us per GFLOP and %g us per GB are found",
                          (double)rates[r], (double)launches[i], (double)device->speed.us_per_gflop,
                          (double)device->speed.us_per_gigabyte);
            CHECK_MESSAGE(fabs((double)device->speed.launch_us - (double)launches[i]) < 1,
                          "a launch of %g us is taken for one of %g", (double)launches[i],
                          (double)device->speed.launch_us);
        }
    }
    dit_context_destroy(ctx);
}

static void test_cache(void) {
    static unsigned char blob[1 << 20];
    diti_speed speed = {0};
    size_t size = sizeof blob;
    dit_error err = {0};
    dit_context *ctx = open_context(NULL, NULL, 0, NULL, 0);
    if (!ctx) return;
    CHECK_MESSAGE(ctx->device->calibrated && ctx->device->speed.us_per_gflop > 0 && ctx->device->speed.launch_us >= 0,
                  "nothing was measured");
    CHECK_MESSAGE(strstr(logged, "GB/s of memory"), "%s", logged);
    CHECK_MESSAGE(ctx->device->validated == (test_layers.on != 0), "validation layers are %s",
                  test_layers.on ? "not noticed" : "seen where there are none");
    printf("%s: %.0f us per GFLOP, %.0f us per GB, %.1f us a launch\n", ctx->device->info.name,
           (double)ctx->device->speed.us_per_gflop, (double)ctx->device->speed.us_per_gigabyte,
           (double)ctx->device->speed.launch_us);
    speed = ctx->device->speed;
    CHECK_MESSAGE(dit_context_save_cache(ctx, blob, &size, &err) == DIT_OK, "%s", err.message);
    dit_context_destroy(ctx);
    ctx = open_context(NULL, NULL, 0, blob, size);
    if (!ctx) return;
    CHECK_MESSAGE(!memcmp(&ctx->device->speed, &speed, sizeof speed) && !strstr(logged, "GB/s of memory"),
                  "it was measured again: %s", logged);
    dit_context_destroy(ctx);
    /* times of another rung say nothing about this one */
    ctx = open_context(NULL, "rung=base,cpu=0", 0, blob, size);
    if (!ctx) return;
    CHECK_MESSAGE(strstr(logged, "GB/s of memory"), "the speed of other kernels was taken over");
    dit_context_destroy(ctx);
}

/* Memory that runs out while the device is measured is an error and leaves nothing behind. */
static void test_faults(void) {
    test_memory memory = {0};
    dit_context_desc desc = {0};
    dit_context *ctx = NULL;
    dit_error err = {0};
    long calls, failed = 0, i;
    desc.allocator.alloc = test_memory_alloc;
    desc.allocator.free = test_memory_free;
    desc.allocator.user = &memory;
    desc.overrides = "rung=base";
    if (!CHECK_MESSAGE(dit_context_create(&desc, &ctx, &err) == DIT_OK, "%s", err.message)) return;
    calls = memory.calls;
    dit_context_destroy(ctx);
    for (i = calls - 2; i > calls / 2; i -= 1 + calls / 8) { /* the last calls are those of measuring */
        dit_result result;
        memset(&memory, 0, sizeof memory);
        memory.fail_at = i;
        result = dit_context_create(&desc, &ctx, &err);
        /* a slower run takes fewer sizes to know enough */
        CHECK_MESSAGE(memory.calls < i ? result == DIT_OK : result == DIT_ERROR_OUT_OF_HOST_MEMORY && !ctx,
                      "allocation %ld of %ld fails: %d, %s", i, memory.calls, result, err.message);
        failed += result < 0;
        dit_context_destroy(ctx);
        ctx = NULL;
        CHECK_MESSAGE(memory.alive == 0, "%ld allocations are left", memory.alive);
    }
    CHECK(failed > 0);
    memset(&memory, 0, sizeof memory);
    desc.device_memory_limit = 1 << 20; /* too little for what would be timed */
    if (CHECK_MESSAGE(dit_context_create(&desc, &ctx, &err) == DIT_OK, "%s", err.message))
        CHECK(!ctx->device->calibrated && ctx->device->speed.us_per_gflop > 0);
    dit_context_destroy(ctx);
}

/* ---- Recorded frames ---- */

static dit_job *make_job(dit_context *ctx, dit_model **model, const dit_model_desc *how) {
    dit_model_desc md = {0};
    dit_job_desc jd = {0};
    dit_job *job = NULL;
    dit_error err = {0};
    if (how) md = *how;
    md.source.path = TINY;
    *model = NULL;
    if (!CHECK_MESSAGE(dit_model_load(ctx, &md, model, &err) == DIT_OK, "%s", err.message)) return NULL;
    jd.model = *model;
    jd.width = jd.height = SIDE;
    jd.steps = STEPS;
    jd.prompt = "a red heart";
    CHECK_MESSAGE(dit_job_create(ctx, &jd, &job, &err) == DIT_OK, "%s", err.message);
    return job;
}

static void restart(dit_job *job, const dit_model *model) {
    dit_job_desc jd = {0};
    dit_error err = {0};
    jd.model = model;
    jd.width = jd.height = SIDE;
    jd.steps = STEPS;
    jd.prompt = "a red heart";
    CHECK_MESSAGE(dit_job_restart(job, &jd, &err) == DIT_OK, "%s", err.message);
}

static void check_picture(dit_job *job, const char *what) {
    unsigned char rgba[BYTES];
    dit_error err = {0};
    if (CHECK_MESSAGE(dit_job_read(job, DIT_READ_RGBA8, 0, 0, rgba, sizeof rgba, 0, &err) == DIT_OK, "%s: %s", what,
                      err.message))
        CHECK_MESSAGE(!memcmp(rgba, expected, BYTES), "%s: other bytes", what);
}

typedef struct frames {
    uint32_t calls;         /* in all */
    float longest, slice;   /* from the second step on: what a frame and a slice take on the feigned device */
    uint32_t last_slice_us; /* as the status told at the end */
    float told;             /* largest ratio of what a frame was expected to take and what it took */
} frames;

static float frame_us(const dit_job *job, float *slice) {
    const diti_frames *all = &job->shares[0]->program.plan->frames;
    const diti_frame *frame = &all->list[(all->count - 1) % all->most];
    float us = 0;
    uint32_t i;
    for (i = 0; i < frame->count && frame->recuts == job->shares[0]->program.plan->recuts; i++) {
        float one =
            diti_plan_feigned_us(job->shares[0]->program.plan, &job->shares[0]->program.plan->slices[frame->slices[i]]);
        if (one > *slice) *slice = one;
        us += one;
    }
    return us;
}

/* tell: the application reports; drop: nothing is read of what was recorded. */
static frames record(engine *e, dit_job *job, uint32_t budget_us, bool tell) {
    frames out = {0};
    dit_result result = DIT_WORKING;
    dit_status status;
    while (result == DIT_WORKING && out.calls < 20000) {
        VkCommandBuffer commands = engine_begin_commands(e);
        bool settled = job->shares[0]->run.cursor.repeat >= 1;
        const diti_plan *plan = job->shares[0]->program.plan;
        uint64_t recordings = plan->counters.recordings;
        const diti_frame *frame;
        float us, slice = 0;
        result = dit_job_record(job, commands, budget_us);
        frame = &plan->frames.list[(plan->frames.count - 1) % plan->frames.most];
        CHECK_MESSAGE(plan->counters.recordings <= recordings + frame->count || frame->count == DITI_FRAME_SLICES,
                      "a frame of %u slices records %u, though work was cut anew", frame->count,
                      (unsigned)(plan->counters.recordings - recordings));
        engine_run(e, commands, VK_NULL_HANDLE, 0);
        us = frame_us(job, &slice);
        out.calls++;
        if (tell) CHECK(dit_job_record_took(job, (uint32_t)us) == DIT_OK);
        dit_job_status(job, &status, NULL);
        if (!settled) continue;
        if (us > out.longest) out.longest = us;
        if (slice > out.slice) out.slice = slice;
        if (us > 0 && status.recorded_us / us > out.told) out.told = status.recorded_us / us;
    }
    CHECK_MESSAGE(result == DIT_OK, "%d after %u frames", result, out.calls);
    out.last_slice_us = status.last_slice_us;
    return out;
}

#define FEIGNED "rung=base,gflop_ns=2000000000,launch_us=20"

/* Contexts of FEIGNED serve several tests each, because a driver compiles every pipeline anew for a context. Sets one
   as if it had just been opened with max_slice_us (0: slices as long as the budget), on a device that is taken for
   `wrong` times as slow as it is. */
static dit_context *set_slices(dit_context *ctx, float wrong, uint32_t max_slice_us) {
    diti_device *device = ctx->device;
    device->speed = device->feigned;
    device->speed.us_per_gflop *= wrong;
    device->speed.us_per_gigabyte *= wrong;
    device->max_slice_us = max_slice_us ? max_slice_us : 50000;
    device->slices_by_budget = !max_slice_us;
    logged[0] = 0;
    return ctx;
}

/* The device is ten times as slow as it was taken for: the first step shows it, and from the second one on frames keep
   their budget, in the decoder, too, which has not run before. And the other way round. */
static void test_recut(engine *e, dit_context *ctx) {
    static const float wrong[] = {0.1f, 10};
    dit_model *model;
    size_t i;
    for (i = 0; i < DITI_COUNT(wrong); i++) {
        dit_job *job = make_job(set_slices(ctx, wrong[i], 2000), &model, NULL);
        if (job) {
            uint32_t before = (uint32_t)job->shares[0]->program.plan->slice_count,
                     cuts = job->shares[0]->program.plan->recuts;
            frames got = record(e, job, 2000, false);
            printf("taken for %g of what it takes: %u slices become %u, %u frames, of %.0f us at most\n",
                   (double)wrong[i], before, (uint32_t)job->shares[0]->program.plan->slice_count, got.calls,
                   (double)got.longest);
            check_picture(job, "cut anew");
            CHECK_MESSAGE(job->shares[0]->program.plan->recuts > cuts && strstr(logged, "cut anew"),
                          "nothing was cut anew");
            CHECK_MESSAGE(wrong[i] > 1 ? job->shares[0]->program.plan->slice_count < before
                                       : job->shares[0]->program.plan->slice_count > before,
                          "%u slices become %u", before, (uint32_t)job->shares[0]->program.plan->slice_count);
            CHECK_MESSAGE(got.longest <= 2000 + got.slice && got.slice <= 2000 * 1.25f,
                          "frames of %.0f us, slices of %.0f us", (double)got.longest, (double)got.slice);
            CHECK_MESSAGE(got.last_slice_us > 0, "no slice was measured");
            CHECK_MESSAGE(got.told < 1.5f, "%.1f times as long as it takes is told", (double)got.told);
            cuts = job->shares[0]->program.plan->recuts;
            restart(job, model);
            got = record(e, job, 2000, false);
            check_picture(job, "the second run");
            CHECK_MESSAGE(job->shares[0]->program.plan->recuts <= cuts + 1, "it was cut %u times more",
                          job->shares[0]->program.plan->recuts - cuts);
        }
        dit_job_destroy(job);
        dit_model_destroy(model);
    }
}

/* Times that lie around what is expected, as a busy machine has them, move the times of sources that were never
   measured by as much, however often work is cut anew. */
static void test_recut_noise(dit_context *ctx) {
    dit_model *model;
    dit_job *job = make_job(set_slices(ctx, 1, 2000), &model, NULL);
    diti_plan *plan = job ? job->shares[0]->program.plan : NULL;
    uint32_t round, slice, guessed = 0;
    size_t i;
    for (round = 0; job && round < 12; round++) {
        const diti_segment *step = &plan->segments[1];
        for (i = step->first; i < step->first + step->count; i++) {
            plan->slices[i].measured = true;
            plan->slices[i].us = diti_plan_feigned_us(plan, &plan->slices[i]) * ((i + round) % 2 ? 1.5f : 0.7f);
        }
        slice = 0;
        diti_plan_cut_anew(plan, 2000, 0, &slice);
    }
    for (i = 0; job && i < plan->source_count; i++) {
        guessed += !plan->source_measured[i];
        CHECK_MESSAGE(plan->source_cut_us[i] < 2 * plan->source_us[i], "%s: %g us in place of %g",
                      plan->sources[i].name, (double)plan->source_cut_us[i], (double)plan->source_us[i]);
    }
    CHECK_MESSAGE(guessed > 10, "%u sources were not measured", guessed);
    dit_job_destroy(job);
    dit_model_destroy(model);
}

/* Step mode learns and cuts likewise, with all weights resident or streamed, with and without a trace. */
static void test_recut_steps(dit_context *ctx, bool streamed, bool traced) {
    dit_model_desc md = {0};
    dit_model *model = NULL;
    dit_job *job;
    md.release_text_encoders = streamed;
    job = make_job(set_slices(ctx, 0.1f, 4000), &model, &md);
    if (job) {
        uint32_t cuts = job->shares[0]->program.plan->recuts, i;
        dit_result result;
        float longest = 0;
        CHECK(diti_plan_streams(job->shares[0]->program.plan) == streamed);
        do result = dit_job_step(job, traced ? 0 : 4000);
        while (result == DIT_WORKING);
        CHECK_MESSAGE(result == DIT_OK, "%d", result);
        check_picture(job, streamed ? "cut anew while weights are streamed" : "cut anew");
        CHECK_MESSAGE(job->shares[0]->program.plan->recuts > cuts, "nothing was cut anew%s",
                      traced ? " in a trace" : "");
        for (i = 0; i < job->shares[0]->program.plan->slice_count; i++) {
            float us = diti_plan_feigned_us(job->shares[0]->program.plan, &job->shares[0]->program.plan->slices[i]);
            if (us > longest) longest = us;
        }
        CHECK_MESSAGE(longest < 4000 * 1.25f, "a slice of %.0f us", (double)longest);
        restart(job, model);
        while ((result = dit_job_wait(job, UINT64_MAX)) == DIT_WORKING) {
        }
        check_picture(job, "waited for");
    }
    dit_job_destroy(job);
    dit_model_destroy(model);
}

static void test_recut_traced(void) {
    dit_context_desc desc = {0};
    dit_context *ctx = NULL;
    dit_error err = {0};
    desc.overrides = FEIGNED;
    desc.max_slice_us = 4000;
    desc.trace = true;
    if (!CHECK_MESSAGE(dit_context_create(&desc, &ctx, &err) == DIT_OK, "%s", err.message)) return;
    test_recut_steps(ctx, false, true);
    dit_context_destroy(ctx);
}

/* A smaller budget never gives longer frames, nor fewer, whether the budget or the application decides how long slices
   are. */
static void test_budgets(engine *e, dit_context *ctx) {
    static const uint32_t budgets[] = {16000, 4000, 1000};
    frames before = {0}, got;
    dit_model *model = NULL;
    size_t i;
    dit_job *job = make_job(set_slices(ctx, 1, 0), &model, NULL);
    for (i = 0; job && i < DITI_COUNT(budgets); i++) {
        if (i) restart(job, model);
        got = record(e, job, budgets[i], false);
        printf("budget %u us: %u frames of %.0f us at most, slices of %.0f us at most\n", budgets[i], got.calls,
               (double)got.longest, (double)got.slice);
        check_picture(job, "a budget");
        CHECK_MESSAGE(job->shares[0]->program.plan->limit_us <= (float)(budgets[i] < 250 ? 250 : budgets[i]),
                      "slices of %.0f us for a budget of %u", (double)job->shares[0]->program.plan->limit_us,
                      budgets[i]);
        CHECK_MESSAGE(got.longest <= (float)budgets[i] * 1.05f || got.longest <= got.slice,
                      "budget %u: a frame of %.0f us", budgets[i], (double)got.longest);
        if (i)
            CHECK_MESSAGE(got.longest <= before.longest * 1.01f && got.calls >= before.calls,
                          "budget %u: %u frames of %.0f us, with more time %u of %.0f", budgets[i], got.calls,
                          (double)got.longest, before.calls, (double)before.longest);
        before = got;
    }
    dit_job_destroy(job);
    dit_model_destroy(model);
}

/* ---- Where times come from ---- */

/* A driver that notes all timestamps of a command buffer when it has run. */
static PFN_vkGetQueryPoolResults results_of;
static VKAPI_ATTR VkResult VKAPI_CALL same_ticks(VkDevice device, VkQueryPool pool, uint32_t first, uint32_t count,
                                                 size_t size, void *out, VkDeviceSize stride,
                                                 VkQueryResultFlags flags) {
    VkResult result = results_of(device, pool, first, count, size, out, stride, flags);
    uint32_t i;
    for (i = 1; result == VK_SUCCESS && i < count; i++) memcpy((char *)out + i * stride, out, sizeof(uint64_t));
    return result;
}

/* Commands that were never submitted leave no times; those that were leave them, where timestamps are believed. */
static void test_timestamps(engine *e, dit_context *ctx, bool believed) {
    dit_model *model = NULL;
    dit_job *job = make_job(ctx, &model, NULL);
    dit_counters before, after;
    dit_status status;
    dit_result result = DIT_WORKING;
    uint32_t calls = 0, i, measured = 0;
    if (!job) return;
    dit_job_get_counters(job, &before);
    while (result == DIT_WORKING && calls++ < 20000) {
        VkCommandBuffer commands = engine_begin_commands(e);
        result = dit_job_record(job, commands, 2000);
        engine_run(e, commands, VK_NULL_HANDLE, 0);
        dit_job_status(job, &status, NULL);
        CHECK(status.recorded_us > 0);
    }
    CHECK_MESSAGE(result == DIT_OK, "%d", result);
    check_picture(job, "recorded");
    dit_job_get_counters(job, &after);
    CHECK(after.submits == before.submits && after.allocations == before.allocations);
    diti_frames_learn(job->shares[0]->program.plan); /* of the last frames, as a next call would */
    for (i = 0; i < job->shares[0]->program.plan->slice_count; i++)
        measured += job->shares[0]->program.plan->slices[i].measured;
    CHECK_MESSAGE(believed ? measured > 0 && job->shares[0]->program.plan->last_slice_us > 0
                           : measured == 0 && !status.last_slice_us,
                  "%u slices are measured", measured);
    if (believed) { /* dropped frames, which spoil the picture, but are never taken for measured ones */
        restart(job, model);
        for (i = 0; i < job->shares[0]->program.plan->slice_count; i++)
            job->shares[0]->program.plan->slices[i].measured = false;
        for (i = 0; i < 12; i++) {
            VkCommandBuffer commands = engine_begin_commands(e);
            CHECK(dit_job_record(job, commands, 0) == DIT_WORKING);
            e->EndCommandBuffer(commands);
            e->FreeCommandBuffers(e->device, e->pool, 1, &commands);
        }
        for (i = measured = 0; i < job->shares[0]->program.plan->slice_count; i++)
            measured += job->shares[0]->program.plan->slices[i].measured;
        CHECK_MESSAGE(measured <= 4, "%u slices are measured that never ran", measured); /* of frames before these */
    }
    dit_job_destroy(job);
    dit_model_destroy(model);
}

/* The times that an application reports count more than timestamps. */
static void test_reports(engine *e, dit_context *ctx) {
    dit_model *model = NULL;
    dit_job *job;
    VkCommandBuffer commands;
    dit_status status;
    uint32_t slice;
    ctx->device->max_slice_us = 1000000;
    ctx->device->slices_by_budget = false;
    job = make_job(ctx, &model, NULL);
    if (!job) return;
    CHECK(dit_job_record_took(job, 5) == DIT_ERROR_INVALID_ARGUMENT); /* nothing was recorded */
    CHECK(dit_job_record_took(NULL, 5) == DIT_ERROR_INVALID_ARGUMENT);
    commands = engine_begin_commands(e);
    CHECK(dit_job_record(job, commands, 0) == DIT_WORKING);
    engine_run(e, commands, VK_NULL_HANDLE, 0);
    slice = job->shares[0]->program.plan->frames.list[0].slices[0];
    CHECK(dit_job_record_took(job, 123456) == DIT_OK);
    dit_job_status(job, &status, NULL);
    CHECK_MESSAGE(status.last_slice_us == 123456 &&
                      fabs((double)job->shares[0]->program.plan->slices[slice].us - 123456) < 1,
                  "%u us", status.last_slice_us);
    CHECK(dit_job_record_took(job, 5) == DIT_ERROR_INVALID_ARGUMENT); /* it was told */
    commands = engine_begin_commands(e);
    CHECK(dit_job_record(job, commands, 0) == DIT_WORKING);
    engine_run(e, commands, VK_NULL_HANDLE, 0);
    CHECK(dit_job_record_took(job, 0) == DIT_OK); /* nobody knows */
    dit_job_status(job, &status, NULL);
    CHECK(status.last_slice_us == 123456 && job->shares[0]->program.plan->slices[slice].us > 123455);
    while (dit_job_record(job, commands = engine_begin_commands(e), 0) == DIT_WORKING)
        engine_run(e, commands, VK_NULL_HANDLE, 0);
    engine_run(e, commands, VK_NULL_HANDLE, 0);
    check_picture(job, "told");
    restart(job, model); /* times beyond what the status can say */
    job->shares[0]->program.plan->slices[0].us = 1e15f;
    commands = engine_begin_commands(e);
    CHECK(dit_job_record(job, commands, 0) == DIT_WORKING);
    engine_run(e, commands, VK_NULL_HANDLE, 0);
    while (dit_job_record_took(job, UINT32_MAX) == DIT_OK) {
    }
    dit_job_status(job, &status, NULL);
    CHECK_MESSAGE(status.recorded_us == UINT32_MAX && status.last_slice_us == UINT32_MAX, "%u and %u us",
                  status.recorded_us, status.last_slice_us);
    dit_job_destroy(job);
    dit_model_destroy(model);
}

/* An application that calls in every frame, also when a run has ended, and tells two frames late what each call took,
   tells about each of them: what nothing took is not what the first frame of the next run took. */
static void test_late_reports(engine *e, dit_context *ctx) {
    enum { LATE = 2, TOOK = 100000, NOTHING = 3 };
    dit_model *model = NULL;
    dit_job *job = make_job(ctx, &model, NULL);
    uint32_t took[LATE] = {0}, calls = 0, run, after;
    const diti_plan *plan;
    size_t i;
    if (!job) return;
    for (run = 0; run < 3; run++) {
        for (after = 0; after < 4; calls++) {
            VkCommandBuffer commands = engine_begin_commands(e);
            bool ended = after > 0;
            if (dit_job_record(job, commands, 0) == DIT_OK) after++;
            if (calls == 3) { /* a frame of nothing that is dropped */
                e->EndCommandBuffer(commands);
                e->FreeCommandBuffers(e->device, e->pool, 1, &commands);
                CHECK(dit_job_unrecord(job) == DIT_OK);
                commands = engine_begin_commands(e);
                CHECK(dit_job_record(job, commands, 0) >= 0);
            }
            engine_run(e, commands, VK_NULL_HANDLE, 0);
            if (calls >= LATE)
                CHECK_MESSAGE(dit_job_record_took(job, took[calls % LATE]) == DIT_OK, "call %u is not known",
                              calls - LATE);
            took[calls % LATE] = ended ? NOTHING : TOOK;
        }
        CHECK(dit_job_unrecord(job) == DIT_OK && dit_job_record(job, engine_begin_commands(e), 0) == DIT_OK);
        restart(job, model);
    }
    plan = job->shares[0]->program.plan;
    for (i = 0; i < plan->slice_count; i++)
        CHECK_MESSAGE(!plan->slices[i].measured || plan->slices[i].us > TOOK / 10, "slice %u: %.0f us", (unsigned)i,
                      (double)plan->slices[i].us);
    for (i = 0; i < LATE; i++) CHECK(dit_job_record_took(job, 0) == DIT_OK);
    CHECK(dit_job_record_took(job, 0) == DIT_ERROR_INVALID_ARGUMENT);
    dit_job_destroy(job);
    dit_model_destroy(model);
}

static void test_in_frames(engine *e, bool quick) {
    dit_context *ctx = open_context(e, FEIGNED, 0, NULL, 0);
    if (ctx) test_recut(e, ctx);
    if (ctx) test_recut_noise(ctx);
    if (ctx && !quick) test_budgets(e, ctx);
    dit_context_destroy(ctx);
    ctx = open_context(e, "rung=base,timestamps=1", 0, NULL, 0);
    if (ctx && !quick) test_timestamps(e, ctx, true);
    if (ctx) {
        results_of = ctx->device->vk.GetQueryPoolResults;
        ctx->device->vk.GetQueryPoolResults = same_ticks;
        ctx->device->software = false; /* zeros of software drivers count */
        test_timestamps(e, ctx, false);
        ctx->device->software = true;
        ctx->device->vk.GetQueryPoolResults = results_of;
    }
    if (ctx) test_reports(e, ctx);
    if (ctx) test_late_reports(e, ctx);
    dit_context_destroy(ctx);
    ctx = open_context(e, "rung=base", 0, NULL, 0);
    if (ctx) test_timestamps(e, ctx, false);
    dit_context_destroy(ctx);
}

static void make_expected(dit_context *ctx) {
    dit_model *model = NULL;
    dit_job *job = make_job(ctx, &model, NULL);
    if (job) {
        CHECK(dit_job_wait(job, UINT64_MAX) == DIT_OK);
        CHECK(dit_job_read(job, DIT_READ_RGBA8, 0, 0, expected, BYTES, 0, NULL) == DIT_OK);
    }
    dit_job_destroy(job);
    dit_model_destroy(model);
}

static void test_in_steps(bool quick) {
    dit_context *ctx = open_context(NULL, FEIGNED, 0, NULL, 0);
    if (ctx) make_expected(ctx);
    if (ctx && !quick) test_recut_steps(ctx, false, false);
    if (ctx && !quick) test_recut_steps(ctx, true, false);
    dit_context_destroy(ctx);
    test_recut_traced();
}

int main(void) {
    static engine e;
    bool quick = test_quick_way("sanitize"); /* in make test */
    test_vulkan_begin();
    if (!quick) {
        test_flux();
        test_expansions();
    }
    test_fit();
    test_cache();
    test_faults();
    test_in_steps(quick); /* the first of them makes the picture that all expect */
    if (engine_make_instance(&e) && engine_make_device(&e, true)) test_in_frames(&e, quick);
    engine_end(&e);
    test_vulkan_end();
    return TEST_END("frames");
}
