/* One picture by several processes, one of which is killed, stopped, or loses its device: with resume_on_loss the
   others make the picture, and its latent has the bytes of one device. One that loads slowly is waited for, and one
   that stops before its run begins is named. Processes choose a split together. PipeFusion folds over processes, with
   unequal shares, and when one is lost. A call that fails in one rank leaves the next ones alone. Clips, their given
   frames and their decoders over processes. */
/* test-runs: lavapipe */
#include "library.h"
#include "split/beats.c"
#include "split_job.h"
#include "vulkan_test.h"
#include "set_clock.h"
#include "socket_ranks.h"
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

enum { STEPS = 4, SIDE = 32, VALUES = 4096, PIXELS = 3 * 9 * 64 * 64 };
typedef enum how { NOTHING, KILLED, DEVICE_LOST, RUNS_OUT, STOPPED, CANCELLED, NEVER_RUNS, SMALL, HALVES } how;
static const char *const how_names[] = {"goes on", "is killed",    "loses its device",       "runs out",
                                        "hangs",   "is cancelled", "loads slowly and hangs", "has little memory",
                                        "has F16"};

typedef struct report { /* what a rank tells the parent, in memory of both */
    dit_result result;
    bool resumed, over;
    uint64_t died_us, ended_us, closing_us; /* on a clock that all processes have */
    uint32_t begins_at, shares, blocks, failed;
    char message[512], chosen[DITI_SPLIT_NAME];
    size_t count, pixels;
    float latent[VALUES], picture[PIXELS];
} report;
static report *reports, alone;

typedef struct trial {
    const char *split;
    uint32_t ranks, devices, rank, step; /* what happens, to that rank, once so many steps are behind it */
    how how;
    bool resumes;
} trial;
typedef struct clip_trial {
    const char *path;
    uint32_t frames, width;
    bool given; /* it goes on from a picture */
} clip_trial;
static const clip_trial *clip_made;       /* NULL: a picture is */
static const dit_image *begins_made;      /* a picture begins with it; NULL: with noise */
static const generated_model *shape_made; /* shape of the model; NULL: it is a pipeline */

static void happen(const trial *t, dit_job *job) {
    diti_device *device = job->shares[0]->device;
    reports[t->rank].died_us = diti_clock_us();
    switch (t->how) {
    case KILLED: raise(SIGKILL); break;
    case STOPPED: raise(SIGSTOP); break;
    case DEVICE_LOST: device->fail_submit_after = 1; break;
    case RUNS_OUT: device->memory_limit = 1; break;
    case CANCELLED: dit_job_cancel(job); break;
    case NEVER_RUNS:
    case SMALL:
    case HALVES:
    case NOTHING: break;
    }
}

static dit_job_desc request_clip(const maker *m, const trial *t) {
    static uint8_t pixels[64 * 64 * 4];
    static dit_image image;
    static dit_reference first;
    dit_job_desc desc = request(m, t->split, 64, 2);
    size_t i;
    for (i = 0; i < sizeof pixels; i++) pixels[i] = (uint8_t)(i * 7 + i / 128);
    image.height = 64;
    desc.width = image.width = clip_made->width;
    image.rgba = pixels;
    first.frames = &image;
    desc.frame_count = clip_made->frames;
    desc.float_frames = true;
    if (clip_made->given) {
        desc.references = &first;
        desc.reference_count = 1;
        desc.mask_strategy = "0,0,0,0,1,0.3";
    }
    return desc;
}

/* Loading takes as long again as others would bear without a word. */
enum { LOADING_US = 5000000 };
static bool linger(const char *what, uint64_t done, uint64_t total, void *user) {
    const uint64_t *begin = (const uint64_t *)user;
    (void)what, (void)done, (void)total;
    if (diti_clock_us() - *begin < LOADING_US) usleep(400000);
    return true;
}

static dit_result load_slowly_and_hang(maker *m, uint32_t rank) {
    uint64_t begin = diti_clock_us();
    dit_model_desc desc = DITI_ZERO;
    desc.source.path = tiny;
    desc.progress.func = linger;
    desc.progress.user = &begin;
    CHECK_MESSAGE(dit_model_load(m->context, &desc, &m->model, &err) == DIT_OK, "%s", err.message);
    reports[rank].died_us = diti_clock_us();
    CHECK(reports[rank].died_us - begin >= LOADING_US);
    raise(SIGSTOP);
    return DIT_ERROR_TRANSPORT;
}

/* SMALL: the transformer is read when the job needs it, and its matrices do not fit the rank's device whole. */
static dit_result create_generated(maker *m, const trial *t, uint32_t rank) {
    asked a = {8, 7, 1, 5, 0, 0, 0, "euler", false, 0, NULL};
    diti_device *device = m->context->device;
    dit_model_desc desc = DITI_ZERO;
    dit_result result;
    if (t->how == SMALL) a.columns = a.rows = 4, a.steps = 2;
    a.resumes = t->resumes;
    desc.weights_by_need = t->how == SMALL;
    result = load_denoiser(m, shape_made, DIT_TYPE_STORED, desc);
    if (result < 0) return result;
    shorten_texts(m->model);
    if (t->how == SMALL && rank == t->rank)
        device->memory_limit = device->memory_used + m->model->transformer->component.weights.streamed->bytes * 9 / 10;
    return make_asked(m, &a, t->split, &m->job);
}

/* Blocks of the transformer that a process has, over all of its stages. */
static uint32_t count_blocks(const dit_job *job) {
    uint32_t blocks = 0, first, end, i;
    for (i = 0; i < job->share_count; i++, blocks += end - first)
        diti_axes_blocks(&job->shares[i]->assignment.axes, job->model->transformer->traits.layers, &first, &end);
    return blocks;
}

static void run_rank(const trial *t, uint32_t rank) {
    report *out = &reports[rank];
    char list[64] = "llvmpipe";
    dit_context_desc desc = DITI_ZERO;
    bool due = t->how != NOTHING && t->how != SMALL && t->how != HALVES && rank == t->rank;
    dit_status status;
    dit_job_desc job;
    uint64_t begin;
    maker m;
    uint32_t i;
    memset(&m, 0, sizeof m);
    for (i = 1; i < t->devices; i++) strcat(list, ",llvmpipe");
    desc.devices = list;
    /* one rank has little memory for copies, and so fewer slots than others */
    desc.overrides = rank == 1 ? "rung=base,chunk=1K,host_budget=1" : "rung=base,chunk=1K";
    if (t->ranks > 1) desc.transport = socket_transport(rank, t->ranks);
    if (t->split && !strcmp(t->split, "auto"))
        desc.overrides = "rung=base,chunk=1K,gflop_ns=30000000"; /* measured alike */
    if (t->how == HALVES) desc.overrides = rank == t->rank ? "rung=fp16,chunk=1K" : "rung=base,chunk=1K";
    if (t->how == NEVER_RUNS) desc.overrides = "rung=base,silence_ms=3000,transport_ms=20000";
    out->result = dit_context_create(&desc, &m.context, &err);
    if (due && t->how == NEVER_RUNS) out->result = load_slowly_and_hang(&m, rank);
    if (shape_made && out->result == DIT_OK)
        out->result = create_generated(&m, t, rank);
    else if (out->result == DIT_OK)
        out->result = load_pipeline(&m, clip_made ? clip_made->path : tiny);
    if (out->result == DIT_OK && !m.job) {
        job = clip_made ? request_clip(&m, t) : request(&m, t->split, SIDE, STEPS);
        if (begins_made) job.init_image = begins_made, job.strength = 0.6f;
        job.resume_on_loss = t->resumes;
        out->result = dit_job_create(m.context, &job, &m.job, &err);
        if (begins_made) memset((void *)(uintptr_t)begins_made->rgba, 0, SIDE * SIDE * 4); /* the call is over */
    }
    while (m.job && (out->result = dit_job_wait(m.job, 1000000)) == DIT_WORKING) {
        if (!due || m.job->shares[0]->run.cursor.repeat < t->step) continue;
        due = false;
        happen(t, m.job);
    }
    out->ended_us = diti_clock_us();
    if (m.job) {
        diti_job_print_split(&m.job->request.shape, out->chosen);
        out->blocks = count_blocks(m.job);
        dit_job_status(m.job, &status, &err);
        out->failed = status.failed_devices;
        out->resumed = m.job->resumed;
        out->begins_at = m.job->begins_at;
        out->shares = m.job->shares[0]->assignment.share_total;
    }
    if (out->result == DIT_OK && rank == 0) {
        static outcome made;
        CHECK_MESSAGE(read_latent(m.job, 0, &made) == DIT_OK && made.count <= VALUES, "%s", err.message);
        out->count = made.count;
        memcpy(out->latent, made.latent, made.count * sizeof *made.latent);
        if (clip_made &&
            CHECK_MESSAGE(read_picture(m.job, &made) == DIT_OK && made.pixels <= PIXELS, "%s", err.message)) {
            out->pixels = made.pixels;
            memcpy(out->picture, made.picture, made.pixels * sizeof *made.picture);
        }
    }
    memcpy(out->message, err.message, sizeof out->message);
    begin = diti_clock_us();
    close_maker(&m);
    out->closing_us = diti_clock_us() - begin;
    out->over = true;
}

/* --- calls that fail in one rank --- */

static dit_result finish_job(maker *m) {
    dit_result result;
    while ((result = dit_job_wait(m->job, 1000000)) == DIT_WORKING) {
    }
    dit_job_status(m->job, NULL, &err);
    return result;
}

/* The run ends in all ranks: well, and rank 0 has the picture of one device, or, where one is to blame, at once with
   an error that names it. */
static void expect_run(maker *m, uint32_t rank, const char *blamed) {
    uint64_t begin = diti_clock_us();
    dit_result result = finish_job(m);
    static outcome made;
    CHECK_MESSAGE(result == (blamed ? DIT_ERROR_TRANSPORT : DIT_OK) && (!blamed || strstr(err.message, blamed)),
                  "rank %u: %d, %s", rank, (int)result, err.message);
    CHECK_MESSAGE(!blamed || diti_clock_us() - begin < 2500000, "rank %u ended after %.1f s", rank,
                  (double)(diti_clock_us() - begin) * 1e-6);
    made.count = 0;
    if (blamed || rank || !CHECK(read_latent(m->job, 0, &made) == DIT_OK && made.count == alone.count)) return;
    CHECK_MESSAGE(relative_l2(made.latent, alone.latent, NULL, alone.count) < 1e-3, "relative L2 %g",
                  relative_l2(made.latent, alone.latent, NULL, alone.count));
}

static VKAPI_ATTR VkResult VKAPI_CALL no_command_pool(VkDevice device, const VkCommandPoolCreateInfo *info,
                                                      const VkAllocationCallbacks *callbacks, VkCommandPool *pool) {
    (void)device, (void)info, (void)callbacks, (void)pool;
    return VK_ERROR_OUT_OF_DEVICE_MEMORY;
}

/* fails: what the call of rank `other` comes to; the run of the others ends with an error that names it. */
static void expect_made(maker *m, uint32_t rank, const char *split, uint32_t other, dit_result fails) {
    diti_device *device = m->context->device;
    dit_job_desc desc = request(m, split, SIDE, STEPS);
    PFN_vkCreateCommandPool make_pool = device->vk.CreateCommandPool;
    dit_result result;
    char name[16];
    snprintf(name, sizeof name, "rank %u", other);
    if (rank == other && fails == DIT_ERROR_OUT_OF_DEVICE_MEMORY) device->vk.CreateCommandPool = no_command_pool;
    if (rank == other && fails == DIT_ERROR_INVALID_ARGUMENT) desc.width++;
    result = make_job(m, &desc);
    device->vk.CreateCommandPool = make_pool;
    if (rank == other)
        CHECK_MESSAGE(result == fails, "rank %u: %d, %s", rank, (int)result, err.message);
    else if (result != DIT_OK)
        CHECK_MESSAGE(other < SOCKET_RANKS && strstr(err.message, name), "rank %u: %s", rank, err.message);
    if (result == DIT_OK) expect_run(m, rank, other < SOCKET_RANKS ? name : NULL);
}

static void restart_job(maker *m, uint32_t rank, uint32_t other, dit_result fails) {
    diti_device *device = m->context->device;
    dit_job_desc desc = request(m, "ring3", SIDE, STEPS);
    PFN_vkCreateCommandPool make_pool = device->vk.CreateCommandPool;
    dit_result result;
    desc.prompt_weights = fails == DIT_ERROR_OUT_OF_DEVICE_MEMORY; /* which takes another plan */
    if (desc.prompt_weights) desc.prompt = "(red:1.5) apple";
    if (rank == other && desc.prompt_weights) device->vk.CreateCommandPool = no_command_pool;
    if (rank == other && fails == DIT_ERROR_INVALID_ARGUMENT) desc.steps++;
    result = dit_job_restart(m->job, &desc, &err);
    device->vk.CreateCommandPool = make_pool;
    CHECK_MESSAGE(result == (rank == other ? fails : DIT_OK), "rank %u: %d, %s", rank, (int)result, err.message);
}

/* Letters (tags with bit 9) that have come from other ranks, and that nobody has taken. */
static uint32_t count_left_letters(uint32_t ranks) {
    uint32_t i, left = 0;
    for (i = 0; i < ranks; i++) {
        const socket_transfer *t = socket_peers[i].arrived;
        for (; t; t = t->next) left += (t->head.tag & 0x200u) != 0;
    }
    return left;
}

/* One of three ranks, with a pipeline. */
static bool open_third(maker *m, uint32_t rank, const char *path) {
    dit_context_desc desc = DITI_ZERO;
    memset(m, 0, sizeof *m);
    desc.devices = "llvmpipe";
    desc.overrides = "rung=base,silence_ms=3000,transport_ms=20000";
    desc.transport = socket_transport(rank, 3);
    return CHECK_MESSAGE(dit_context_create(&desc, &m->context, &err) == DIT_OK && load_pipeline(m, path) == DIT_OK,
                         "%s", err.message);
}

/* Calls fail in one rank; all that comes after them works in every rank, and takes no letter of theirs. */
static void call_on(uint32_t rank) {
    static const dit_result fails[] = {DIT_ERROR_INVALID_ARGUMENT, DIT_ERROR_OUT_OF_DEVICE_MEMORY};
    enum { NOBODY = SOCKET_RANKS };
    dit_job_desc job;
    uint32_t i;
    maker m;
    if (!open_third(&m, rank, tiny)) return;
    job = request(&m, "cfg2", SIDE, STEPS);
    if (rank < 2)
        expect_made(&m, rank, "cfg2", NOBODY, DIT_OK);
    else
        CHECK(make_job(&m, &job) == DIT_ERROR_INVALID_ARGUMENT && strstr(err.message, "no share for rank 2"));
    expect_made(&m, rank, "ring3", 1, DIT_ERROR_OUT_OF_DEVICE_MEMORY);
    expect_made(&m, rank, "auto", 1, DIT_ERROR_INVALID_ARGUMENT);
    expect_made(&m, rank, "auto", 0, DIT_ERROR_INVALID_ARGUMENT);
    expect_made(&m, rank, "auto", NOBODY, DIT_OK);
    expect_made(&m, rank, "ring3", NOBODY, DIT_OK);
    restart_job(&m, rank, NOBODY, DIT_OK);
    if (rank == 1) dit_job_cancel(m.job); /* before it was stepped */
    if (rank == 1)
        CHECK(dit_job_step(m.job, 0) == DIT_CANCELLED);
    else
        expect_run(&m, rank, "rank 1");
    restart_job(&m, rank, NOBODY, DIT_OK);
    expect_run(&m, rank, NULL);
    for (i = 0; i < DITI_COUNT(fails); i++) {
        restart_job(&m, rank, 1, fails[i]);
        if (rank != 1) expect_run(&m, rank, "rank 1");
        restart_job(&m, rank, NOBODY, DIT_OK);
        expect_run(&m, rank, NULL);
    }
    CHECK_MESSAGE(count_left_letters(3) == 0, "rank %u: %u letters were not taken", rank, count_left_letters(3));
    close_maker(&m);
}

/* A restart before the job's first step has prompts with another number of tokens. A third rank has no share. Where one
   rank alone has other prompts or pictures, the run ends before anything is exchanged, and the next one is none the
   worse for it. */
static void restart_on(uint32_t rank) {
    static const char longer[] = "a red apple and a green one on a wooden table";
    char differs[80];
    dit_job_desc job;
    uint32_t i;
    maker m;
    if (!open_third(&m, rank, "tests/fixtures/pipe_qwenimage")) return;
    job = request(&m, "layers2", SIDE, 1);
    CHECK_MESSAGE(make_job(&m, &job) == (rank < 2 ? DIT_OK : DIT_ERROR_INVALID_ARGUMENT), "%s", err.message);
    job.prompt = longer;
    for (i = 0; i < 2 && m.job; i++) {
        CHECK_MESSAGE(dit_job_restart(m.job, &job, &err) == DIT_OK, "rank %u, restart %u: %s", rank, i, err.message);
        CHECK_MESSAGE(finish_job(&m) == DIT_OK, "rank %u, restart %u: %s", rank, i, err.message);
    }
    for (i = 0; i < 2 && m.job; i++) {
        job.prompt = rank == i ? "a" : longer;
        CHECK_MESSAGE(dit_job_restart(m.job, &job, &err) == DIT_OK, "rank %u: %s", rank, err.message);
        CHECK_MESSAGE(finish_job(&m) == DIT_ERROR_TRANSPORT, "rank %u: %s", rank, err.message);
        snprintf(differs, sizeof differs, "rank %u differs from rank %u in the number of tokens of its prompts (",
                 1 - rank, rank);
        CHECK_MESSAGE(strstr(err.message, differs) || strstr(err.message, "ended its run early"), "rank %u: %s", rank,
                      err.message);
        if (rank == 0) CHECK_MESSAGE(strstr(err.message, "rank 1"), "%s", err.message);
        job.prompt = longer;
        CHECK_MESSAGE(dit_job_restart(m.job, &job, &err) == DIT_OK, "rank %u: %s", rank, err.message);
        CHECK_MESSAGE(finish_job(&m) == DIT_OK, "rank %u: %s", rank, err.message);
    }
    CHECK_MESSAGE(count_left_letters(3) == 0, "rank %u: %u letters were not taken", rank, count_left_letters(3));
    close_maker(&m);
}

/* Chunks that were sent to the other rank, or asked for from it, in the run at hand. */
static uint32_t count_chunks(const dit_job *job) {
    uint32_t chunks = 0;
    size_t i;
    for (i = 0; i < job->mesh->lane_count; i++) chunks += job->mesh->lanes[i]->ledger->count;
    return chunks;
}

/* More runs than there are tags for end early, by turns in each rank, while rows are on their way.
   No tag is on its way twice (socket_ranks.h), the last run has no rows of an earlier one, and nothing stays behind. */
static void leave_on(uint32_t rank) {
    enum { RUNS = 36 };
    dit_context_desc desc = DITI_ZERO;
    diti_peers *peers;
    dit_job_desc job;
    uint64_t begin;
    uint32_t i;
    maker m;
    memset(&m, 0, sizeof m);
    desc.devices = "llvmpipe";
    desc.overrides = "rung=base,silence_ms=3000,transport_ms=20000,chunk=1K";
    desc.transport = socket_transport(rank, 2);
    if (!CHECK_MESSAGE(dit_context_create(&desc, &m.context, &err) == DIT_OK && load_pipeline(&m, tiny) == DIT_OK, "%s",
                       err.message))
        return;
    job = request(&m, "ulysses2", SIDE, STEPS);
    if (!CHECK_MESSAGE(make_job(&m, &job) == DIT_OK, "%s", err.message)) return;
    for (i = 0; i < RUNS; i++) {
        uint32_t most =
            i % 2 == rank ? 1 : 30 + i; /* this one leaves before the other has what it sends, or asks for */
        dit_result result = DIT_WORKING;
        begin = diti_clock_us();
        job.seed = 100 + i;
        while (result == DIT_WORKING && count_chunks(m.job) < most && diti_clock_us() - begin < 5000000)
            result = dit_job_step(m.job, 100);
        CHECK(result < 0 || count_chunks(m.job) >= most);
        dit_job_cancel(m.job);
        dit_job_step(m.job, 0);
        if (i + 1 == RUNS) job.seed = 42;
        CHECK_MESSAGE(dit_job_restart(m.job, &job, &err) == DIT_OK, "%s", err.message);
    }
    expect_run(&m, rank, NULL);
    dit_job_destroy(m.job);
    m.job = NULL;
    peers = m.context->peers;
    diti_lane_free_owed(&peers->env, &peers->owed, false);
    CHECK(!peers->owed.first && !peers->deaf);
    close_maker(&m);
}

static void (*calls)(uint32_t rank); /* what a rank does in the place of run_rank; NULL: that */

static bool stops(const trial *t) { return t->how == STOPPED || t->how == NEVER_RUNS; }

/* Every rank in a process of its own, from a parent that has no driver. */
static bool run_trial(const trial *t) {
    pid_t ranks[SOCKET_RANKS];
    uint32_t rank;
    bool well = true;
    memset(reports, 0, SOCKET_RANKS * sizeof *reports);
    fflush(stdout);
    if (!CHECK(sockets_make(t->ranks))) return false;
    for (rank = 0; rank < t->ranks; rank++) {
        ranks[rank] = fork();
        if (ranks[rank]) continue;
        test_failed = 0;
        sockets_keep(rank, t->ranks);
        test_vulkan_begin();
        if (calls)
            calls(rank);
        else
            run_rank(t, rank);
        test_vulkan_end();
        fflush(stdout);
        _exit(test_failed != 0);
    }
    sockets_keep(SOCKET_RANKS, t->ranks);
    for (rank = 0; rank < t->ranks; rank++) {
        int status = 0;
        bool dies = t->rank == rank && (t->how == KILLED || stops(t));
        if (dies && t->how != KILLED) continue;
        well = CHECK(waitpid(ranks[rank], &status, 0) == ranks[rank]) && well;
        well =
            CHECK_MESSAGE(dies || status == 0, "%s: rank %u ended with status %x", t->split, rank, (unsigned)status) &&
            well;
    }
    if (stops(t)) {
        kill(ranks[t->rank], SIGKILL);
        waitpid(ranks[t->rank], NULL, 0);
    }
    return well;
}

/* exact: the split gives the bytes of one device before the failure and behind it. */
static void check_resume(const trial *t, bool exact) {
    const report *first = &reports[0];
    double error;
    uint32_t rank;
    if (!run_trial(t)) return;
    error = first->count == alone.count ? relative_l2(first->latent, alone.latent, NULL, alone.count) : INFINITY;
    printf("%s, rank %u %s behind step %u: went on behind step %u with %u shares, relative L2 %.2g\n", t->split,
           t->rank, how_names[t->how], t->step, first->begins_at, first->shares, error);
    CHECK_MESSAGE(first->result == DIT_OK && first->resumed && first->failed == t->devices, "%s, rank %u %s: %s",
                  t->split, t->rank, how_names[t->how], first->message);
    CHECK(first->shares < t->ranks * t->devices && first->begins_at + 2 >= t->step && first->begins_at <= STEPS);
    CHECK(exact ? error == 0 : error < 1e-3);
    for (rank = 1; rank < t->ranks; rank++)
        if (rank != t->rank)
            CHECK_MESSAGE(reports[rank].result == DIT_OK && reports[rank].resumed && reports[rank].over,
                          "%s: rank %u: %s", t->split, rank, reports[rank].message);
    if (t->how == DEVICE_LOST) CHECK(reports[t->rank].result == DIT_ERROR_DEVICE_LOST && !reports[t->rank].resumed);
}

/* A job that may not go on, or cannot, ends in every rank with an error that names the one that is to blame. */
static void check_end(const trial *t) {
    char name[32];
    uint32_t rank;
    if (!run_trial(t)) return;
    snprintf(name, sizeof name, "rank %u", t->rank);
    for (rank = 0; rank < t->ranks; rank++) {
        if (rank == t->rank) continue;
        double seconds = (double)(reports[rank].ended_us - reports[t->rank].died_us) * 1e-6;
        printf("%s, rank %u %s: rank %u after %.1f s: %s\n", t->split, t->rank, how_names[t->how], rank, seconds,
               reports[rank].message);
        CHECK_MESSAGE(seconds < 30, "%s: rank %u ended after %.1f s", t->split, rank, seconds);
        CHECK(reports[rank].result == DIT_ERROR_TRANSPORT && !reports[rank].resumed && reports[rank].over);
        CHECK_MESSAGE(strstr(reports[rank].message, name), "%s", reports[rank].message);
        CHECK(t->how != NEVER_RUNS || strstr(reports[rank].message, "for 3 s: it was killed, hangs or does not come"));
    }
}

static double error_of(const report *made, const report *right) {
    return made->count == right->count ? relative_l2(made->latent, right->latent, NULL, right->count) : INFINITY;
}

/* A model is so small that each rank makes the picture alone. All words between them have come when they end. */
static void check_few(void) {
    trial t = {"auto", 2, 1, 0, 0, NOTHING, false};
    const report *one = &reports[0], *two = &reports[1];
    double error;
    if (!run_trial(&t) ||
        !CHECK_MESSAGE(one->result == DIT_OK && two->result == DIT_OK, "%s, %s", one->message, two->message))
        return;
    error = error_of(one, &alone);
    printf("auto: %s, relative L2 %.2g\n", one->chosen, error);
    CHECK_MESSAGE(!strcmp(one->chosen, two->chosen), "%s, %s", one->chosen, two->chosen);
    CHECK(error < 1e-3 && one->closing_us < 3000000 && two->closing_us < 3000000);
}

/* Two ranks choose the same split, though only one of them knows that the model does not fit it: the other one alone
   would not divide it. */
static void check_choice(uint32_t rank) {
    static const generated_model pixart = {"pixart12", "pixart", 4, 16, 12, 0, 0, false};
    static report whole;
    trial t = {NULL, 1, 1, 0, 0, SMALL, false};
    const report *one = &reports[0], *two = &reports[1];
    double error;
    t.rank = UINT32_MAX;
    shape_made = &pixart;
    if (!run_trial(&t) || !CHECK_MESSAGE(one->result == DIT_OK, "%s", one->message)) return;
    whole = *one;
    t.split = "auto";
    t.ranks = 2;
    t.rank = rank;
    if (!run_trial(&t) || !CHECK_MESSAGE(one->result == DIT_OK && two->result == DIT_OK, "rank %u %s: %s, %s", rank,
                                         how_names[SMALL], one->message, two->message))
        return;
    error = error_of(one, &whole);
    printf("auto, rank %u %s: %s, relative L2 %.2g\n", rank, how_names[SMALL], one->chosen, error);
    CHECK_MESSAGE(!strcmp(one->chosen, two->chosen), "%s, %s", one->chosen, two->chosen);
    CHECK_MESSAGE(strstr(one->chosen, "shard") || strstr(one->chosen, "tensor") || strstr(one->chosen, "layers"), "%s",
                  one->chosen);
    CHECK(error < 1e-3);
}

/* Ranks with F16 compute with F32 beside one that has none, from copies of the picture that they begin with: those are
   made when the rank with F16 does not know yet with what the others compute. */
static void test_formats(bool full) {
    static uint8_t pixels[SIDE * SIDE * 4];
    static const dit_image begins = {SIDE, SIDE, pixels, 0, VK_NULL_HANDLE, 0, 0, NULL};
    static const trial mixed[] = {{"ulysses2", 2, 1, 0, 0, HALVES, true},
                                  {"cfg2,ulysses2", 4, 1, 3, 0, HALVES, false},
                                  {"layers2", 2, 1, 1, 0, HALVES, false},
                                  {"cfg2,ulysses2", 2, 2, 1, 0, HALVES, false},
                                  {"cfg2,shard", 2, 1, 0, 0, HALVES, false}};
    static report right;
    trial t = {NULL, 1, 1, 1, 0, HALVES, false};
    uint32_t i;
    for (i = 0; i < sizeof pixels; i++) pixels[i] = (uint8_t)(i * 7 + i / 128);
    begins_made = &begins;
    if (run_trial(&t) && CHECK_MESSAGE(reports[0].result == DIT_OK, "%s", reports[0].message)) {
        right = reports[0];
        for (i = 0; i < (full ? DITI_COUNT(mixed) : 1) && run_trial(&mixed[i]); i++) {
            CHECK_MESSAGE(reports[0].result == DIT_OK && reports[1].result == DIT_OK, "%s: %s, %s", mixed[i].split,
                          reports[0].message, reports[1].message);
            printf("%s, rank %u %s: relative L2 %.2g\n", mixed[i].split, mixed[i].rank, how_names[HALVES],
                   error_of(&reports[0], &right));
            CHECK(error_of(&reports[0], &right) <= 1e-5);
        }
    }
    begins_made = NULL;
}

/* HunyuanDiT's stages of PipeFusion are folded: each process has two of them. A run that goes on without one is not
   much farther from the exact picture than PipeFusion itself. */
static void test_folded(bool full) {
    static const generated_model hunyuan = {"hunyuan", "hunyuandit", 4, 16, 8, 0, 0, false};
    static const char unequal[] = "{\"format\": \"dit-split-plan\", \"version\": 1, \"split\": \"pipefusion2\", "
                                  "\"patches\": 3, \"shares\": [0.7, 0.3]}";
    static const trial lost[] = {{unequal, 2, 1, 1, 2, KILLED, true}, {"pipefusion3:m3w1", 3, 1, 1, 2, KILLED, true}};
    static report exact, stale;
    const report *first = &reports[0];
    trial t = {NULL, 1, 1, 0, 0, NOTHING, false};
    unsigned i;
    shape_made = &hunyuan;
    if (full && run_trial(&t) && CHECK_MESSAGE(first->result == DIT_OK, "%s", first->message)) exact = *first;
    t.split = "pipefusion1:m3w1";
    if (!run_trial(&t) || !CHECK_MESSAGE(first->result == DIT_OK, "%s", first->message)) return;
    stale = *first;
    t.split = unequal;
    t.ranks = 2;
    if (run_trial(&t)) {
        printf("folded over two processes, unequal shares: relative L2 %.2g\n", error_of(first, &stale));
        CHECK_MESSAGE(first->result == DIT_OK && reports[1].result == DIT_OK, "%s, %s", first->message,
                      reports[1].message);
        CHECK(first->shares == 4 && error_of(first, &stale) <= 1e-4);
        CHECK_MESSAGE(first->blocks == 6 && reports[1].blocks == 2, "%u and %u blocks", first->blocks,
                      reports[1].blocks);
    }
    for (i = 0; full && i < DITI_COUNT(lost) && run_trial(&lost[i]); i++) {
        printf("%s, rank 1 is killed: went on behind step %u with %u shares, relative L2 %.2g, without a loss %.2g\n",
               lost[i].split, first->begins_at, first->shares, error_of(first, &exact), error_of(&stale, &exact));
        CHECK_MESSAGE(first->result == DIT_OK && first->resumed && first->failed == 1, "%s", first->message);
        CHECK(first->shares == (i ? 4 : 1) && error_of(first, &exact) <= 2 * error_of(&stale, &exact));
    }
}

static void test_resumes(bool full) {
    static const trial
        some[] = {{"cfg2,ulysses2", 4, 1, 1, 2, KILLED, true}, {"cfg2", 2, 1, 1, 1, DEVICE_LOST, true}},
        more[] = {{"ulysses2", 2, 1, 1, 1, KILLED, true},      {"cfg2,ulysses2", 4, 1, 3, 0, DEVICE_LOST, true},
                  {"cfg2,ulysses2", 4, 1, 2, 3, KILLED, true}, {"cfg2,ulysses2", 2, 2, 1, 1, KILLED, true},
                  {"layers2", 2, 1, 1, 2, KILLED, true},       {"ulysses2,shard", 2, 1, 1, 1, KILLED, true},
                  {"cfg2", 2, 1, 1, 1, STOPPED, true}},
        other[] = {
            {"ring3", 3, 1, 2, 1, KILLED, true},
            {"cfg2,tensor2", 4, 1, 1, 2, DEVICE_LOST, true},
            {"{\"format\": \"dit-split-plan\", \"version\": 1, \"split\": \"ring3\", \"shares\": [0.5, 0.3, 0.2]}", 3,
             1, 1, 2, KILLED, true}};
    unsigned i;
    for (i = 0; i < DITI_COUNT(some); i++) check_resume(&some[i], true);
    for (i = 0; full && i < DITI_COUNT(more); i++) check_resume(&more[i], true);
    for (i = 0; full && i < DITI_COUNT(other); i++) check_resume(&other[i], false);
}

/* Words for a rank that may not listen are fewer than there are numbers, and the last says that no more come. */
static uint32_t words, last_word;
static uint64_t last_tag;
static void *count_word(uint32_t to, const void *data, size_t size, uint64_t tag, void *user) {
    CHECK(to == 1 && size == sizeof last_word && (!words || (last_word == DITI_BEAT_PREPARES && tag > last_tag)));
    memcpy(&last_word, data, sizeof last_word);
    last_tag = tag;
    words++;
    return user;
}
static int is_done(void *request, void *user) { return request == user; }
static void *never_comes(uint32_t from, void *data, size_t size, uint64_t tag, void *user) {
    (void)from, (void)data, (void)size, (void)tag;
    return user;
}

static void test_words(void) {
    dit_transport transport = {0, 2, count_word, never_comes, is_done, &words};
    dit_allocator allocator = DITI_ZERO;
    dit_logger logger = DITI_ZERO;
    diti_peers *peers = NULL;
    diti_env env;
    int i;
    CHECK(diti_env_init(&env, &allocator, &logger, &err) == DIT_OK &&
          diti_peers_create(&env, NULL, 0, &transport, "silence_ms=0", &peers, &err) == DIT_OK);
    for (i = 0; peers && i < 1000; i++) diti_beats_prepare(peers);
    CHECK_MESSAGE(words == DITI_BEAT_UNHEARD && last_word == DITI_BEAT_QUIET, "%u words, the last is %u", words,
                  last_word);
    diti_peers_destroy(peers);
    diti_beats_prepare(NULL); /* a context without other processes */
}

/* While the application is asked whether a transfer of an ended run is over, another thread's run ends, and owes it one
   more. Both are asked for until they are over, and freed then. */
static diti_peers *owing;
static uint32_t transfers_over;
static void owe_more(void) {
    static const diti_lane_ledger none, one = {.count = 1, .bytes = {4}};
    diti_lane_even(owing, 1, &none, &one);
}
static int owe_once(void *request, void *user) {
    (void)request, (void)user;
    if (!transfers_over++) owe_more();
    return 1;
}

static void test_owed(void) {
    dit_transport transport = {0, 2, count_word, never_comes, owe_once, &words};
    test_memory memory = {0};
    diti_env env = test_env(&memory);
    CHECK(diti_peers_create(&env, NULL, 0, &transport, NULL, &owing, &err) == DIT_OK);
    owe_more();
    diti_lane_free_owed(&env, &owing->owed, false);
    CHECK_MESSAGE(transfers_over == 1 && owing->owed.first, "%u transfers are over", transfers_over);
    diti_lane_free_owed(&env, &owing->owed, false);
    CHECK_MESSAGE(transfers_over == 2 && !owing->owed.first, "%u transfers are over", transfers_over);
    diti_peers_destroy(owing);
    CHECK_MESSAGE(memory.alive == 0, "%ld allocations stay", (long)memory.alive);
}

/* The machine sleeps for an hour, or its clock is set back, whenever the application is asked: transfers are waited for
   as long as nothing else moves, and no less. */
enum { HOUR_US = 3600000000u };
static int64_t ahead_us; /* what each question adds to the clock */
static uint32_t questions, last_question;
static int is_done_late(void *request, void *user) {
    (void)request, (void)user;
    clock_ahead_us += ahead_us;
    return ++questions >= last_question;
}

static diti_lane *make_late_lane(const diti_env *env, const dit_transport *transport, diti_lane_debts *debts) {
    diti_lane_copy copy = {.pitch = 16, .row_bytes = 16, .rows = 1, .name = "late"};
    diti_lane_desc desc = DITI_ZERO;
    diti_lane *lane = NULL;
    desc.transport = DITI_TRANSPORT_APPLICATION;
    desc.slot_bytes = 16;
    desc.application = transport;
    desc.ranks[DITI_LANE_OUT] = 1;
    desc.limit_us = 3000000;
    desc.owed = debts;
    CHECK_MESSAGE(diti_lane_create(env, &desc, &lane, &err) == DIT_OK, "%s", err.message);
    CHECK(diti_lane_add(lane, DITI_LANE_OUT, &copy, &err) == DIT_OK);
    CHECK(diti_lane_add(lane, DITI_LANE_IN, &copy, &err) == DIT_OK);
    diti_lane_open(lane, DITI_LANE_OUT, 0, VK_NULL_HANDLE, 0);
    questions = 0;
    last_question = UINT32_MAX;
    return lane;
}

static void test_set_clock(void) {
    static const int64_t jumps_us[] = {HOUR_US, -(int64_t)HOUR_US};
    dit_transport transport = {0, 2, count_word, never_comes, is_done_late, &words};
    diti_lane_debts debts = DITI_ZERO;
    test_memory memory = {0};
    diti_env env = test_env(&memory);
    diti_peers *peers = NULL;
    diti_letter *letter;
    diti_lane *lane;
    bool moved;
    uint32_t i, k;
    for (i = 0; i < DITI_COUNT(jumps_us); i++) {
        lane = make_late_lane(&env, &transport, &debts);
        ahead_us = jumps_us[i];
        for (k = 0; k < 3; k++) CHECK_MESSAGE(diti_lane_pump(lane, &moved, &err) == DIT_OK, "%s", err.message);
        CHECK(questions == 2); /* the first one asks for the bytes */
        last_question = questions + (i ? 5 : 1);
        diti_lane_settle(lane);
        CHECK_MESSAGE(questions == last_question && !debts.first, "%u questions of %u", questions, last_question);
        diti_lane_destroy(lane);
        lane = make_late_lane(&env, &transport, &debts);
        for (k = 0; k < 3; k++, clock_ahead_us += ahead_us)
            CHECK_MESSAGE(diti_lane_stand(lane, &err) == DIT_OK, "%s", err.message);
        for (k = 0; k < 7 && diti_lane_stand(lane, &err) == DIT_OK; k++) clock_ahead_us += 500000;
        for (k = 0; k < 3; k++) diti_lane_pump(lane, &moved, &err);
        ahead_us = 500000;
        CHECK_MESSAGE(strstr(err.message, "rank 1 sent nothing for 3000 ms"), "%s", err.message);
        diti_lane_settle(lane); /* gives up behind a second */
        CHECK(debts.first);
        diti_lane_free_owed(&env, &debts, true);
        diti_lane_destroy(lane);
        CHECK(diti_peers_create(&env, NULL, 0, &transport, NULL, &peers, &err) == DIT_OK);
        CHECK(diti_letter_ask(peers, 0, 0, 1, 4, &letter, &err) == DIT_OK);
        diti_letter_drop(peers, &letter);
        ahead_us = jumps_us[i];
        questions = 0;
        last_question = 4;
        diti_peers_destroy(peers);
        CHECK_MESSAGE(questions == last_question, "a letter was asked for %u times", questions);
        CHECK_MESSAGE(memory.alive == 0, "%ld allocations stay", (long)memory.alive);
    }
    clock_ahead_us = ahead_us = 0;
}

static void test_ends(bool full) {
    static const trial ends[] = {
        {"cfg2", 2, 1, 0, 1, KILLED, true},      {"cfg2", 2, 1, 1, 0, NEVER_RUNS, false},
        {"cfg2", 2, 1, 1, 1, KILLED, false},     {"auto", 2, 1, 1, 0, NEVER_RUNS, false},
        {"auto", 2, 1, 0, 0, NEVER_RUNS, false}, {"cfg2", 2, 1, 1, 1, STOPPED, false},
        {"cfg2", 2, 1, 1, 1, CANCELLED, true},   {"cfg2,ulysses2", 4, 1, 0, 1, DEVICE_LOST, true}};
    unsigned i;
    for (i = 0; i < (full ? DITI_COUNT(ends) : 2); i++) check_end(&ends[i]);
}

static void test_calls(void) {
    trial t = {"calls that fail", 3, 1, 0, 0, NOTHING, false};
    calls = call_on;
    run_trial(&t);
    t.split = "runs that end early";
    t.ranks = 2;
    calls = leave_on;
    run_trial(&t);
    t.split = "restarts with other prompts";
    t.ranks = 3;
    calls = restart_on;
    run_trial(&t);
    calls = NULL;
}

/* exact: the split has the sums of one device. */
static void check_clip(const clip_trial *c, const char *const *splits, const bool *exact) {
    trial t = {NULL, 1, 1, 0, 0, NOTHING, false};
    uint32_t i;
    clip_made = c;
    if (!run_trial(&t) || !CHECK_MESSAGE(reports[0].result == DIT_OK, "%s: %s", c->path, reports[0].message)) return;
    alone = reports[0];
    t.ranks = 2;
    for (i = 0; splits[i]; i++) {
        const report *one = &reports[0], *two = &reports[1];
        double latent, frames;
        t.split = splits[i];
        if (!run_trial(&t) || !CHECK_MESSAGE(one->result == DIT_OK && two->result == DIT_OK, "%s, %s: %s%s", c->path,
                                             splits[i], one->message, two->message))
            continue;
        CHECK(one->shares == 2 && one->pixels == alone.pixels && one->count == alone.count);
        latent = relative_l2(one->latent, alone.latent, NULL, alone.count);
        frames = relative_l2(one->picture, alone.picture, NULL, alone.pixels);
        printf("%s%s, %s over two processes: relative L2 %.2g, frames %.2g\n", c->path,
               c->given ? " from a picture" : "", splits[i], latent, frames);
        CHECK(exact[i] ? !(latent + frames > 0) : latent <= 1e-3 && frames <= 1e-3);
    }
}

static void test_clips(void) {
    static const char *const turns[] = {"ulysses2", "layers2", "cfg2", NULL},
                             *const shallow[] = {"ulysses2", "cfg2", NULL},
                             *const joint[] = {"ulysses2", "layers2", "ring2", NULL};
    static const bool all[] = {true, true, true}, some[] = {false, true, false};
    static const clip_trial clips[] = {{"tests/fixtures/pipe_opensora11", 5, 64, true},
                                       {"tests/fixtures/pipe_opensora12", 17, 32, true},
                                       {"tests/fixtures/pipe_cogvideox_2b", 9, 64, false}};
    check_clip(&clips[0], turns, all);
    check_clip(&clips[1], shallow, all);
    check_clip(&clips[2], joint, some);
}

int main(void) {
    trial one = {NULL, 1, 1, 0, 0, NOTHING, false};
    bool full = whole_sweep();
    test_words();
    test_owed();
    test_set_clock();
    reports =
        (report *)mmap(NULL, SOCKET_RANKS * sizeof *reports, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (!CHECK(reports != MAP_FAILED)) return TEST_END("split_processes");
    if (run_trial(&one) && CHECK_MESSAGE(reports[0].result == DIT_OK, "%s", reports[0].message)) {
        alone = reports[0];
        if (full) check_few(), check_choice(0);
        check_choice(1);
        test_folded(full);
        shape_made = NULL;
        test_formats(full);
        test_resumes(full);
        test_ends(full);
        test_calls();
    }
    if (full) test_clips();
    return TEST_END("split_processes");
}
