/* Devices that fail, and runs that are cancelled, while several work on one picture: a job ends with an error that
   names the device, or goes on without it; it never hangs, and what comes after it works. */
/* test-runs: lavapipe */
#define DIT_IMPLEMENTATION
#include "dit.h"
#include "vulkan_test.h"

static dit_error err;
static bool full; /* the sweeps of make test-all */
static const char tiny[] = "tests/fixtures/pipe_pixart_sigma";
enum { LATENTS = 16 * 16 * 16, STEPS = 4, SIDE = 32 };

typedef struct maker {
    dit_context *context;
    dit_model *model;
    dit_job *job;
} maker;

static bool open_maker(maker *m, uint32_t devices, const char *path) {
    static const char name[] = ",llvmpipe";
    char list[16 * sizeof name] = "";
    dit_context_desc desc = DITI_ZERO;
    dit_model_desc model = DITI_ZERO;
    uint32_t i;
    memset(m, 0, sizeof *m);
    for (i = 0; i < devices; i++) strcat(list, name);
    desc.devices = list + 1;
    desc.overrides = "rung=base,device_ms=2000";
    model.source.path = path;
    return CHECK_MESSAGE(dit_context_create(&desc, &m->context, &err) == DIT_OK &&
                             dit_model_load(m->context, &model, &m->model, &err) == DIT_OK,
                         "%s", err.message);
}

static void close_maker(maker *m) {
    dit_job_destroy(m->job);
    dit_model_destroy(m->model);
    dit_context_destroy(m->context);
}

static dit_job_desc request(const maker *m, const char *split) {
    dit_job_desc desc = DITI_ZERO;
    desc.model = m->model;
    desc.prompt = "red apple";
    desc.negative_prompt = "blue";
    desc.width = desc.height = SIDE;
    desc.steps = STEPS;
    desc.seed = 42;
    desc.guidance.scale = 3;
    desc.split = split;
    return desc;
}

static bool make_job(maker *m, const dit_job_desc *desc) {
    dit_job_destroy(m->job);
    m->job = NULL;
    return CHECK_MESSAGE(dit_job_create(m->context, desc, &m->job, &err) == DIT_OK, "%s: %s",
                         desc->split ? desc->split : "alone", err.message);
}

static float latent[LATENTS], reference[LATENTS];

static dit_result finish(maker *m) {
    dit_result result = dit_job_wait(m->job, 60000000000u);
    CHECK(result != DIT_WORKING);
    dit_job_status(m->job, NULL, &err);
    if (result == DIT_OK)
        CHECK_MESSAGE(dit_job_read(m->job, DIT_READ_LATENT_F32, 0, 0, latent, sizeof latent, 0, &err) == DIT_OK, "%s",
                      err.message);
    return result;
}

/* Relative L2 of the latent to the reference. */
static double difference(void) {
    double error = 0, norm = 0;
    size_t i;
    for (i = 0; i < LATENTS; i++) {
        error += ((double)latent[i] - reference[i]) * ((double)latent[i] - reference[i]);
        norm += (double)reference[i] * reference[i];
    }
    return sqrt(error / norm);
}

static bool make_reference(maker *m, const dit_job_desc *desc) {
    dit_job_desc alone = *desc;
    alone.split = NULL;
    alone.resume_on_loss = false;
    memset(latent, 0, sizeof latent);
    if (!make_job(m, &alone) || !CHECK(finish(m) == DIT_OK)) return false;
    memcpy(reference, latent, sizeof reference);
    return true;
}

/* --- how a submission fails --- */

typedef enum how { LOSES, RUNS_OUT, STALLS, HOWS } how;
static const char *const how_names[] = {"lost", "out of memory", "stalled"};
static struct trap {
    diti_device *device;
    how how;
    uint32_t left;  /* submissions until it snaps; 0: it has */
    uint32_t count; /* submissions to the device */
} trap;

static VKAPI_ATTR VkResult VKAPI_CALL trap_submit(VkQueue queue, uint32_t count, const VkSubmitInfo *info,
                                                  VkFence fence) {
    static PFN_vkQueueSubmit submit;
    if (!submit) submit = (PFN_vkQueueSubmit)test_vulkan_function(trap.device->instance, "vkQueueSubmit");
    if (queue != trap.device->queue) return submit(queue, count, info, fence);
    trap.count++;
    if (trap.left && --trap.left == 0) {
        if (trap.how == RUNS_OUT) return VK_ERROR_OUT_OF_DEVICE_MEMORY;
        trap.device->vk.QueueWaitIdle(queue);
        if (trap.how == LOSES) trap.device->fail_submit_after = 1;
        if (trap.how == STALLS) trap.left = 1;
        return trap.how == LOSES ? VK_ERROR_DEVICE_LOST : VK_SUCCESS;
    }
    return submit(queue, count, info, fence);
}

static void set_trap(maker *m, uint32_t device, how kind, uint32_t at) {
    uint32_t i;
    for (i = 0; i < m->context->device_count; i++) m->context->devices[i]->vk.QueueSubmit = trap_submit;
    memset(&trap, 0, sizeof trap);
    trap.device = m->context->devices[device];
    trap.how = kind;
    trap.left = at;
}

/* --- going on --- */

/* A device fails at so many hundredths of the submissions of a run that is allowed to go on. */
static void check_resume(uint32_t devices, const char *split, uint32_t device, how kind, uint32_t percent) {
    dit_status status;
    dit_output output;
    dit_job_desc desc;
    dit_result result;
    maker m;
    if (!open_maker(&m, devices, tiny)) return;
    desc = request(&m, split);
    desc.resume_on_loss = true;
    desc.preview_interval = 2;
    if ((reference[0] != 0 || make_reference(&m, &desc)) && make_job(&m, &desc)) {
        set_trap(&m, device, kind, 0);
        CHECK(finish(&m) == DIT_OK && difference() <= 1e-3);
        CHECK_MESSAGE(dit_job_restart(m.job, &desc, &err) == DIT_OK, "%s", err.message);
        set_trap(&m, device, kind, 1 + trap.count * percent / 100);
        result = finish(&m);
        dit_job_status(m.job, &status, NULL);
        printf("%s, device %u %s at %u %%, behind step %u: relative L2 %.2g on %u devices\n", split, device,
               how_names[kind], percent, m.job->begins_at, difference(), m.job->share_total);
        CHECK_MESSAGE(result == DIT_OK && status.failed_devices == 1 && status.step == STEPS, "%s, device %u %s: %s",
                      split, device, how_names[kind], err.message);
        CHECK(difference() <= 1e-3 && m.job->share_total < devices);
        CHECK(dit_job_output(m.job, 0, 0, &output) == DIT_OK && output.device == (device ? 0u : 1u));
        CHECK(dit_job_restart(m.job, &desc, &err) < 0);
    }
    close_maker(&m);
}

static void test_resume(void) {
    check_resume(2, "cfg2", 1, LOSES, 60);
    check_resume(2, "ulysses2", 0, LOSES, 70);
    check_resume(3, "ring3", 1, RUNS_OUT, 40);
}

int main(void) {
    const char *all = getenv("DIT_TEST_ALL");
    full = all && *all == '1';
    test_vulkan_begin();
    test_resume();
    test_vulkan_end();
    return TEST_END("split_failure");
}
