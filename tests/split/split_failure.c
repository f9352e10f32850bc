/* Devices that fail, and runs that are cancelled, while several work on one picture: a job ends with an error that
   names the device, or goes on without it; it never hangs, and what comes after it works. */
/* test-runs: lavapipe */
#include "library.h"
#include "split_job.h"
#include "vulkan_test.h"
#include <pthread.h>
#include <unistd.h>

static bool full; /* the sweeps of make test-all */
enum { STEPS = 3, SIDE = 32 };

static uint32_t patience_ms = 20000, bridge;

static bool open_maker(maker *m, uint32_t devices) {
    char overrides[64];
    memset(m, 0, sizeof *m);
    snprintf(overrides, sizeof overrides, "rung=base,device_ms=%u,bridge=%u", patience_ms, bridge);
    return CHECK_MESSAGE(open_devices(m, devices, overrides, 0) == DIT_OK && load_pipeline(m, tiny) == DIT_OK, "%s",
                         err.message);
}

static bool begin(maker *m, const dit_job_desc *desc) {
    return CHECK_MESSAGE(make_job(m, desc) == DIT_OK, "%s: %s", desc->split ? desc->split : "alone", err.message);
}

static outcome made, reference;

static dit_result finish(maker *m) {
    dit_result result = wait_for(m->job, 60);
    CHECK(result != DIT_WORKING);
    made.count = 0;
    if (result == DIT_OK) CHECK_MESSAGE(read_latent(m->job, 0, &made) == DIT_OK, "%s", err.message);
    return result;
}

/* The relative error of the latent that was made, against the reference. */
static double error_made(void) { return difference(&made, &reference); }

static void take_reference(maker *m, const char *split) {
    dit_job_desc desc = request(m, split, SIDE, STEPS);
    if (begin(m, &desc) && CHECK(finish(m) == DIT_OK)) reference = made;
}

/* --- how a submission fails --- */

typedef enum how { LOSES, RUNS_OUT, STALLS, HOWS } how;
static const char *const how_names[] = {"lost", "out of memory", "stalled"};
static struct trap {
    maker *m;
    diti_device *device;
    uint32_t share, step; /* submissions count when that share of the job has submitted so many steps */
    how how;
    uint32_t left;  /* until it snaps; 0: it has */
    uint32_t count; /* submissions to the device */
} trap;

static VkResult trap_snap(VkQueue queue) {
    if (trap.how == RUNS_OUT) return VK_ERROR_OUT_OF_DEVICE_MEMORY;
    trap.device->vk.QueueWaitIdle(queue);
    if (trap.how == LOSES) trap.device->fail_submit_after = 1;
    if (trap.how == STALLS) trap.left = 1; /* nothing after it runs */
    return trap.how == LOSES ? VK_ERROR_DEVICE_LOST : VK_SUCCESS;
}

static VKAPI_ATTR VkResult VKAPI_CALL trap_submit(VkQueue queue, uint32_t count, const VkSubmitInfo *info,
                                                  VkFence fence) {
    static PFN_vkQueueSubmit submit;
    bool mine = queue == trap.device->queue;
    if (!submit) submit = (PFN_vkQueueSubmit)test_vulkan_function(trap.device->instance, "vkQueueSubmit");
    trap.count += mine;
    if (mine && trap.left && trap.m->job->shares[trap.share]->run.cursor.repeat >= trap.step && --trap.left == 0)
        return trap_snap(queue);
    return submit(queue, count, info, fence);
}

/* at: 0: only count. */
static void set_trap(maker *m, uint32_t device, how kind, uint32_t step, uint32_t at) {
    uint32_t i;
    for (i = 0; i < m->context->device_count; i++) m->context->devices[i]->vk.QueueSubmit = trap_submit;
    memset(&trap, 0, sizeof trap);
    trap.m = m;
    trap.share = device;
    trap.device = m->context->devices[device];
    trap.how = kind;
    trap.step = step;
    trap.left = at;
}

/* --- going on --- */

/* Asks about a job all the time, from a thread of its own. */
typedef struct asker {
    const dit_job *job;
    int over; /* atomic */
    pthread_t thread;
    uint64_t submits, asked;
    bool fell, odd;
} asker;

static void *ask(void *user) {
    asker *a = (asker *)user;
    while (!diti_atomic_load(&a->over)) {
        dit_share shares[DITI_MAX_DEVICES];
        dit_counters counters;
        dit_status status;
        uint32_t count = DITI_MAX_DEVICES, i;
        dit_job_get_counters(a->job, &counters);
        dit_job_status(a->job, &status, NULL);
        dit_job_shares(a->job, shares, &count, NULL);
        a->fell = a->fell || counters.submits < a->submits;
        a->submits = counters.submits;
        a->odd = a->odd || !count || count > 4 || status.step > STEPS;
        for (i = 0; i < count; i++) a->odd = a->odd || shares[i].device > 3 || !shares[i].work[0];
        a->asked++;
        usleep(100);
    }
    return NULL;
}

static void ask_begin(asker *a, const dit_job *job) {
    memset(a, 0, sizeof *a);
    a->job = job;
    CHECK(pthread_create(&a->thread, NULL, ask, a) == 0);
}

static void ask_end(asker *a) {
    diti_atomic_store(&a->over, 1);
    pthread_join(a->thread, NULL);
    CHECK_MESSAGE(a->asked && !a->fell && !a->odd, "asked %llu times, counts %s, answers %s",
                  (unsigned long long)a->asked, a->fell ? "fell" : "rose", a->odd ? "were odd" : "were right");
}

/* A device fails behind so many steps of a run that is allowed to go on. */
static void check_resume(maker *m, const char *split, uint32_t device, how kind, uint32_t step) {
    static uint8_t pixels[4 * SIDE * SIDE];
    dit_job_desc desc = request(m, split, SIDE, STEPS);
    dit_status status;
    dit_output output;
    dit_result result = DIT_WORKING;
    uint32_t before;
    asker a;
    desc.resume_on_loss = true;
    desc.preview_interval = 1;
    if (!begin(m, &desc)) return;
    before = m->job->shares[0]->assignment.share_total;
    set_trap(m, device, kind, step, 3);
    ask_begin(&a, m->job);
    while (!m->job->resumed && (result = dit_job_step(m->job, 0)) == DIT_WORKING) {
    }
    if (CHECK(m->job->resumed && result == DIT_WORKING)) { /* previews were in the old plan */
        CHECK(dit_job_preview(m->job, &output) == DIT_WORKING);
        CHECK(dit_job_read(m->job, DIT_READ_PREVIEW, 0, 0, pixels, sizeof pixels, 0, &err) == DIT_WORKING);
    }
    result = finish(m);
    ask_end(&a);
    dit_job_status(m->job, &status, NULL);
    printf("%s, device %u %s: went on behind step %u with %u devices: relative L2 %.2g\n", split, device,
           how_names[kind], m->job->begins_at, m->job->shares[0]->assignment.share_total, error_made());
    CHECK_MESSAGE(result == DIT_OK && status.failed_devices == 1 && status.step == STEPS, "%s, device %u %s: %s", split,
                  device, how_names[kind], err.message);
    CHECK(error_made() <= 1e-3 && m->job->shares[0]->assignment.share_total < before);
    CHECK(m->job->begins_at + 2 >= step && m->job->begins_at <= step);
    CHECK(dit_job_output(m->job, 0, 0, &output) == DIT_OK && output.device == (device ? 0u : 1u));
    CHECK(status.preview_id < STEPS && dit_job_restart(m->job, &desc, &err) < 0);
}

/* A job that goes on has kept nothing of earlier steps: a fixed schedule computes all that are left, and makes the
   picture of a schedule that ends there; where the device decides, it begins with one that is computed. Steps that
   reused blocks before count as well. */
static void check_cached_resume(maker *m, const char *split) {
    static const char *const caches[] = {"taylor:from=1,interval=2,to=%u", "fbcache:threshold=1000,most=2"};
    enum { MANY = 7 };
    static outcome resumed;
    dit_status status;
    uint32_t i, begins, wanted;
    char cache[64];
    for (i = 0; i < 2; i++) {
        dit_job_desc desc = request(m, split, SIDE, MANY), alone = request(m, NULL, SIDE, MANY);
        snprintf(cache, sizeof cache, caches[i], (unsigned)MANY);
        desc.cache = cache;
        desc.resume_on_loss = true;
        if (!begin(m, &desc)) return;
        set_trap(m, 1, RUNS_OUT, 4, 3);
        CHECK_MESSAGE(finish(m) == DIT_OK && m->job->resumed, "%s: %s", cache, err.message);
        begins = m->job->begins_at;
        dit_job_status(m->job, &status, NULL);
        wanted = i ? begins - (begins + 2) / 3 + MANY - begins - (MANY - begins + 2) / 3 : begins / 2;
        CHECK_MESSAGE(begins > 1 && begins <= 4 && status.reused == wanted,
                      "%s behind step %u: %u steps reused, not %u", cache, begins, status.reused, wanted);
        if (i) continue;
        snprintf(cache, sizeof cache, caches[i], begins);
        alone.cache = cache;
        resumed = made;
        CHECK_MESSAGE(begin(m, &alone) && finish(m) == DIT_OK && difference(&resumed, &made) <= 1e-3, "%s: off by %.3g",
                      cache, difference(&resumed, &made));
    }
}

/* A device fails, and the other one has no room for all of the work. The job keeps its counts, and tells why it ended
   whatever it is asked for. */
static void check_no_room(maker *m, uint32_t device) {
    static uint8_t pixels[4 * SIDE * SIDE];
    diti_device *poor = m->context->devices[1 - device];
    dit_job_desc desc = request(m, "ulysses2", SIDE, STEPS);
    VkDeviceSize limit = poor->memory_limit;
    dit_share shares[2];
    dit_counters before, after;
    dit_output output;
    dit_status status;
    uint32_t count = 2;
    desc.resume_on_loss = true;
    desc.preview_interval = 1;
    if (!begin(m, &desc)) return;
    dit_job_get_counters(m->job, &before);
    set_trap(m, device, RUNS_OUT, 2, 3);
    poor->memory_limit = 1;
    CHECK(finish(m) == DIT_ERROR_OUT_OF_DEVICE_MEMORY && m->job->resumed);
    poor->memory_limit = limit;
    dit_job_get_counters(m->job, &after);
    CHECK(after.submits > before.submits && after.dispatches > before.dispatches);
    dit_job_status(m->job, &status, NULL);
    CHECK(status.result == DIT_ERROR_OUT_OF_DEVICE_MEMORY);
    CHECK(dit_job_preview(m->job, &output) == status.result && dit_job_output(m->job, 0, 0, &output) == status.result);
    CHECK(dit_job_read(m->job, DIT_READ_PREVIEW, 0, 0, pixels, sizeof pixels, 0, &err) == status.result &&
          strstr(err.message, "memory"));
    CHECK(dit_job_read(m->job, DIT_READ_RGBA8, 0, 0, pixels, sizeof pixels, 0, &err) == status.result);
    CHECK(dit_job_shares(m->job, shares, &count, &err) == DIT_OK && count == 1);
    CHECK(dit_job_step(m->job, 0) == status.result && dit_job_restart(m->job, &desc, &err) < 0);
}

/* A second failure, or one of the device with an image of the application's, ends the run. */
static void check_no_resume(maker *m) {
    dit_job_desc desc = request(m, "ring3", SIDE, STEPS);
    dit_result result;
    desc.resume_on_loss = true;
    if (!begin(m, &desc)) return;
    set_trap(m, 1, RUNS_OUT, 1, 1);
    while ((result = dit_job_step(m->job, 0)) == DIT_WORKING && !m->job->resumed) {
    }
    CHECK(m->job->resumed && m->job->shares[0]->assignment.share_total == 2);
    set_trap(m, 2, RUNS_OUT, 2, 1);
    trap.share = 1;
    CHECK(finish(m) == DIT_ERROR_OUT_OF_DEVICE_MEMORY && err.device == 3 && strstr(err.message, "device 2"));
}

/* --- what is not allowed to go on --- */

/* The error names the device; the job can be made or run again where the device has not gone. */
static void check_failure(maker *m, const char *split, uint32_t device, how kind, uint32_t at) {
    dit_job_desc desc = request(m, split, SIDE, STEPS);
    dit_result result, wanted = kind == RUNS_OUT ? DIT_ERROR_OUT_OF_DEVICE_MEMORY : DIT_ERROR_DEVICE_LOST;
    char name[32];
    if (!begin(m, &desc)) return;
    snprintf(name, sizeof name, "device %u", device);
    set_trap(m, device, kind, 0, at);
    result = finish(m);
    CHECK_MESSAGE(result == wanted && err.device == device + 1 && strstr(err.message, name), "%s, submit %u: %d %s",
                  split, at, (int)result, err.message);
    set_trap(m, device, kind, 0, 0);
    result = dit_job_restart(m->job, &desc, &err);
    if (kind != RUNS_OUT) {
        CHECK(result == DIT_ERROR_DEVICE_LOST);
        return;
    }
    CHECK_MESSAGE(result == DIT_OK && finish(m) == DIT_OK && error_made() <= 1e-3, "%s again: %s", split, err.message);
}

/* Memory for the plan of a share is refused. */
static void check_creation(maker *m, const char *split, uint32_t device) {
    diti_device *poor = m->context->devices[device];
    dit_job_desc desc = request(m, split, SIDE, STEPS);
    VkDeviceSize limit = poor->memory_limit;
    dit_job_destroy(m->job);
    m->job = NULL;
    poor->memory_limit = poor->memory_used;
    CHECK_MESSAGE(make_job(m, &desc) == DIT_ERROR_OUT_OF_DEVICE_MEMORY && !m->job &&
                      (device == 0 || err.device == device + 1),
                  "%s without memory on device %u: %s", split, device, err.message);
    poor->memory_limit = limit;
    CHECK(begin(m, &desc) && finish(m) == DIT_OK && error_made() <= 1e-3);
}

/* Memory for the share of the second device is refused when a restart plans anew. The picture that was finished went
   with the old plan: nothing is read in its place. The job can be restarted once there is memory. */
static void check_restart(maker *m, const char *split) {
    static uint8_t pixels[4 * SIDE * SIDE];
    diti_device *poor = m->context->devices[1];
    dit_job_desc desc = request(m, split, SIDE, STEPS), other = desc;
    VkDeviceSize limit = poor->memory_limit;
    dit_result result;
    dit_status status;
    if (!begin(m, &desc) || !CHECK(finish(m) == DIT_OK)) return;
    other.prompt = "(red:1.3) apple"; /* weights of words are another op */
    other.prompt_weights = true;
    poor->memory_limit = 1;
    result = dit_job_restart(m->job, &other, &err);
    CHECK_MESSAGE(result == DIT_ERROR_OUT_OF_DEVICE_MEMORY && err.device == 2, "%s: %s", split, err.message);
    poor->memory_limit = limit;
    dit_job_status(m->job, &status, &err);
    CHECK(status.result == result && err.result == result && strstr(err.message, "memory"));
    CHECK(dit_job_read(m->job, DIT_READ_RGBA8, 0, 0, pixels, sizeof pixels, 0, &err) == result);
    CHECK(dit_job_step(m->job, 0) == result);
    CHECK_MESSAGE(dit_job_restart(m->job, &desc, &err) == DIT_OK && finish(m) == DIT_OK && error_made() <= 1e-3,
                  "%s again: %s", split, err.message);
}

/* --- cancelling --- */

static uint32_t random_state = 1;

static uint32_t random_below(uint32_t limit) {
    random_state = random_state * 1664525u + 1013904223u;
    return (random_state >> 8) % limit;
}

/* Cancels a run somewhere, whatever is on its way, and begins again, several times; the last run goes to its end. */
static void check_cancel(maker *m, const char *split, uint32_t times) {
    dit_job_desc desc = request(m, split, SIDE, STEPS);
    uint32_t i, steps, done = 0;
    if (!begin(m, &desc)) return;
    for (i = 0; i < times; i++) {
        dit_result result = DIT_WORKING;
        for (steps = random_below(40); steps && result == DIT_WORKING; steps--)
            result = dit_job_step(m->job, random_below(2) * 100000);
        dit_job_cancel(m->job);
        result = dit_job_wait(m->job, 20000000000u);
        done += result == DIT_OK;
        CHECK_MESSAGE(result == DIT_CANCELLED || result == DIT_OK, "%s, cancelled: %d", split, (int)result);
        CHECK_MESSAGE(dit_job_restart(m->job, &desc, &err) == DIT_OK, "%s: %s", split, err.message);
        if (i % 2) { /* in the middle, without being cancelled before */
            CHECK(dit_job_step(m->job, 100000) == DIT_WORKING);
            CHECK_MESSAGE(dit_job_restart(m->job, &desc, &err) == DIT_OK, "%s: %s", split, err.message);
        }
    }
    CHECK(finish(m) == DIT_OK && error_made() <= 1e-3 && done < times);
    CHECK(dit_job_restart(m->job, &desc, &err) == DIT_OK); /* the job is then destroyed in the middle */
    for (steps = random_below(20); steps; steps--) dit_job_step(m->job, 100000);
}

/* --- sweeps --- */

/* Submissions of a run to a device. */
static uint32_t count_submits(maker *m, const char *split, uint32_t device) {
    dit_job_desc desc = request(m, split, SIDE, STEPS);
    if (!begin(m, &desc)) return 0;
    set_trap(m, device, RUNS_OUT, 0, 0);
    CHECK(dit_job_wait(m->job, UINT64_MAX) == DIT_OK);
    return trap.count;
}

/* Every submission of a run to a device fails in turn, and the same job is begun again. A device that was lost comes
   back here as none does, which leaves the run what it is elsewhere and the sweep short. */
static void sweep_submits(maker *m, const char *split, uint32_t device, how kind) {
    dit_result result, wanted = kind == RUNS_OUT ? DIT_ERROR_OUT_OF_DEVICE_MEMORY : DIT_ERROR_DEVICE_LOST;
    diti_device *fails = m->context->devices[device];
    dit_job_desc desc = request(m, split, SIDE, STEPS);
    uint32_t at, submits = count_submits(m, split, device), failed = 0;
    for (at = 1; m->job && at <= submits; at++) {
        if (!CHECK_MESSAGE(dit_job_restart(m->job, &desc, &err) == DIT_OK, "%s: %s", split, err.message)) return;
        set_trap(m, device, kind, 0, at);
        result = finish(m);
        failed += !trap.left;
        CHECK_MESSAGE(trap.left ? result == DIT_OK : result == wanted && err.device == device + 1,
                      "%s, submit %u of device %u: %d %s", split, at, device, (int)result, err.message);
        set_trap(m, device, kind, 0, 0);
        fails->lost = 0;
        fails->fail_submit_after = 0;
    }
    CHECK(m->job && dit_job_restart(m->job, &desc, &err) == DIT_OK && finish(m) == DIT_OK && error_made() <= 1e-3);
    printf("%s: device %u %s at %u of %u submits\n", split, device, how_names[kind], failed, submits);
    CHECK(failed > 0);
}

/* Nothing stays behind on any device. */
static void sweep_split(maker *m, const char *split) {
    VkDeviceSize used[DITI_MAX_DEVICES];
    dit_job_desc desc = request(m, split, SIDE, STEPS);
    uint32_t device, i, devices = begin(m, &desc) ? m->job->shares[0]->assignment.share_total : 0;
    dit_job_destroy(m->job);
    m->job = NULL;
    for (i = 0; i < m->context->device_count; i++) used[i] = m->context->devices[i]->memory_used;
    for (device = 0; device < devices; device++) {
        check_creation(m, split, device);
        sweep_submits(m, split, device, RUNS_OUT);
        sweep_submits(m, split, device, LOSES);
    }
    dit_job_destroy(m->job);
    m->job = NULL;
    for (i = 0; i < m->context->device_count; i++)
        CHECK_MESSAGE(m->context->devices[i]->memory_used == used[i], "%s: device %u has %llu bytes, not %llu", split,
                      i, (unsigned long long)m->context->devices[i]->memory_used, (unsigned long long)used[i]);
}

static void test_whole_devices(void) {
    static const char *const splits[] = {"ulysses2",      "ring2",          "cfg2",          "ring3",
                                         "cfg2,ulysses2", "ulysses2,ring2", "tensor2",       "layers2",
                                         "cfg2,layers2",  "tensor2x2",      "ulysses2,shard"},
                             *const other[] = {"pipefusion2", "ring2,int8"}; /* another picture */
    uint32_t i;
    maker m;
    if (!open_maker(&m, full ? 4 : 2)) return;
    take_reference(&m, NULL);
    for (i = 0; i < (full ? DITI_COUNT(splits) : 1); i++) {
        check_cancel(&m, splits[i], full ? 20 : 3);
        check_creation(&m, splits[i], 1 - i % 2);
        check_restart(&m, splits[i]);
        check_failure(&m, splits[i], i % 2, RUNS_OUT, 9 + 8 * i);
        check_resume(&m, splits[i], i % 2, RUNS_OUT, 1 + i % STEPS);
        if (full) sweep_split(&m, splits[i]);
    }
    check_cached_resume(&m, "ulysses2");
    check_no_room(&m, 1);
    if (full) check_no_room(&m, 0);
    if (full) check_no_resume(&m);
    for (i = 0; full && i < DITI_COUNT(other); i++) {
        take_reference(&m, other[i]);
        sweep_split(&m, other[i]);
    }
    close_maker(&m);
}

/* A device that is gone takes its context with it. Memory that a silent device may still use is kept for ever. */
static void check_gone(const char *split, uint32_t devices, uint32_t device, how kind, bool resumes, uint32_t at) {
    dit_job_desc desc;
    maker m;
    patience_ms = kind == STALLS ? 1000 : 20000;
    if (kind == STALLS) __lsan_disable();
    if (!open_maker(&m, devices)) return;
    desc = request(&m, NULL, SIDE, STEPS);
    if (resumes) {
        check_resume(&m, split, device, kind, at);
    } else {
        check_failure(&m, split, device, kind, at);
        if (device) CHECK(begin(&m, &desc) && finish(&m) == DIT_OK && error_made() <= 1e-3);
    }
    close_maker(&m);
    if (kind == STALLS) __lsan_enable();
}

static void sweep_gone(const char *split, uint32_t devices) {
    uint32_t device, at, submits;
    maker m;
    for (device = 0; device < devices; device++) {
        if (!open_maker(&m, devices)) return;
        submits = count_submits(&m, split, device);
        close_maker(&m);
        for (at = 1 + random_below(9); at <= submits; at += 1 + submits / 8)
            check_gone(split, devices, device, LOSES, false, at);
        for (at = 1; at < STEPS; at++) check_gone(split, devices, device, LOSES, true, at);
        check_gone(split, devices, device, STALLS, true, 1);
    }
}

int main(void) {
    full = whole_sweep();
    test_vulkan_begin();
    test_whole_devices();
    bridge = 1; /* devices wait for each other themselves, where the driver can have them */
    check_gone("cfg2", 2, 0, STALLS, true, 2);
    if (full) {
        sweep_gone("cfg2", 2);
        sweep_gone("ulysses2", 2);
        sweep_gone("ring3", 3);
        sweep_gone("cfg2,ulysses2", 4);
    }
    test_vulkan_end();
    return TEST_END("split_failure");
}
