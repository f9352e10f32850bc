/* Compiling pipelines: each one that is wanted once, by the caller and the threads that a worker lends. */
#include "graph/plan_internal.h"

#define DITI_COMPILE_THREADS 15u       /* most that are lent */
#define DITI_COMPILE_NAP_NS 1000000ull /* how long the caller sleeps before it looks whether they are done */
#define DITI_COMPILE_NAPS 1000u        /* after so many it tells that it still waits */

/* --- the list of what is wanted --- */

DIT_INTERNAL size_t diti_wanted_find(const diti_wanted *wanted, const diti_dispatch *dispatch) {
    const diti_pipeline key = diti_pipeline_key(dispatch->kernel, dispatch->constants, dispatch->stated);
    size_t i;
    for (i = 0; i < wanted->count; i++) {
        const diti_pipeline *other = &wanted->list[i];
        if (other->kernel == key.kernel && other->stated == key.stated &&
            !memcmp(other->constants, key.constants, sizeof key.constants))
            break;
    }
    return i;
}

DIT_INTERNAL bool diti_wanted_add(const diti_device *device, diti_wanted *wanted, const diti_dispatch *dispatch) {
    if (diti_wanted_find(wanted, dispatch) < wanted->count) return true;
    if (!diti_grow(&device->env, (void **)&wanted->list, &wanted->capacity, wanted->count, sizeof *wanted->list))
        return false;
    wanted->list[wanted->count++] = diti_pipeline_key(dispatch->kernel, dispatch->constants, dispatch->stated);
    return true;
}

DIT_INTERNAL void diti_wanted_free(const diti_env *env, diti_wanted *wanted) {
    diti_free(env, wanted->list);
    memset(wanted, 0, sizeof *wanted);
}

DIT_INTERNAL dit_result diti_graph_want(const diti_graph *graph, dit_error *err) {
    diti_device *device = graph->device;
    size_t i;
    if (diti_graph_failed(graph)) {
        if (err) *err = graph->error;
        return graph->error.result;
    }
    for (i = 0; i < graph->dispatch_count; i++) {
        const diti_dispatch *dispatch = &graph->dispatches[i];
        if (diti_pipeline_exists(device, dispatch->kernel, dispatch->constants, dispatch->stated)) continue;
        if (!diti_wanted_add(device, device->wanted, dispatch)) return diti_fail_memory(err, "a list of pipelines");
    }
    return DIT_OK;
}

/* --- compiling them --- */

typedef struct diti_compile {
    diti_device *device;
    diti_wanted *wanted;
    VkSemaphore never; /* never signalled: to wait for it with a time-out is how the caller sleeps */
    int lock;          /* guards all that follows; held for a few instructions */
    size_t next;       /* index into the list, which threads take in order */
    uint32_t done, helped;
    bool stopped; /* nothing more is taken */
    dit_result result;
    dit_error error;
    size_t failed; /* index into the list of what result and error are about */
} diti_compile;

/* Compiles one more; false when nothing is left to take. If several pipelines fail, the first in order is told
   about, and so no result depends on which thread was faster: all before one that failed were taken before it. */
static bool diti_compile_next(diti_compile *work) {
    diti_pipeline *pipeline;
    dit_error error = DITI_ZERO;
    dit_result result;
    bool ends;
    size_t mine;
    diti_lock(&work->lock);
    mine = !work->stopped && work->next < work->wanted->count ? work->next++ : SIZE_MAX;
    diti_unlock(&work->lock);
    if (mine == SIZE_MAX) return false;
    pipeline = &work->wanted->list[mine];
    result = diti_pipeline_get(work->device, pipeline->kernel, pipeline->constants, pipeline->stated,
                               &pipeline->pipeline, &error);
    ends = result < 0 && !(work->wanted->goes_on && result == DIT_ERROR_VULKAN);
    diti_lock(&work->lock);
    work->done++;
    if (result < 0 && (work->result == DIT_OK || mine < work->failed)) {
        work->result = result;
        work->error = error;
        work->failed = mine;
    }
    if (ends) work->stopped = true;
    diti_unlock(&work->lock);
    return !ends;
}

static void diti_compile_task(void *arg) {
    diti_compile *work = (diti_compile *)arg;
    while (diti_compile_next(work)) {
    }
    diti_lock(&work->lock);
    work->helped++;
    diti_unlock(&work->lock);
}

/* False: the application has had enough. */
static bool diti_compile_report(diti_compile *work, const dit_progress *progress) {
    uint32_t done;
    diti_lock(&work->lock);
    done = work->done;
    diti_unlock(&work->lock);
    if (!progress || !progress->func || progress->func("preparing kernels", done, work->wanted->count, progress->user))
        return true;
    diti_lock(&work->lock);
    work->stopped = true;
    diti_unlock(&work->lock);
    return false;
}

/* Sleeps until the lent threads have ended what they took. Tells that it does so whether a kernel more is done or not,
   after a second. */
static bool diti_compile_wait(diti_compile *work, uint32_t lent, const dit_progress *progress) {
    uint32_t helped, done, told = UINT32_MAX, naps = 0;
    bool wanted = true;
    for (;;) {
        diti_lock(&work->lock); /* the thread that counted last has let go of the lock then */
        helped = work->helped;
        done = work->done;
        diti_unlock(&work->lock);
        if (done != told || ++naps == DITI_COMPILE_NAPS) naps = 0;
        if (wanted && !naps) wanted = diti_compile_report(work, progress);
        told = done;
        if (helped == lent) return wanted;
        diti_timeline_wait(work->device, work->never, 1, DITI_COMPILE_NAP_NS, NULL);
    }
}

/* Hands out tasks until the worker refuses. */
static uint32_t diti_compile_lend(diti_compile *work, const dit_worker *worker) {
    uint32_t lent = 0;
    if (!worker || !worker->run || work->wanted->count < 2 ||
        diti_timeline_create(work->device, &work->never, NULL) != DIT_OK)
        return 0;
    while (lent < DITI_COMPILE_THREADS && lent + 1 < work->wanted->count &&
           worker->run(diti_compile_task, work, worker->user))
        lent++;
    return lent;
}

DIT_INTERNAL dit_result diti_wanted_compile(diti_device *device, diti_wanted *wanted, const dit_worker *worker,
                                            const dit_progress *progress, dit_error *err) {
    diti_compile work = DITI_ZERO;
    uint32_t lent;
    bool goes_on = true;
    work.device = device;
    work.wanted = wanted;
    lent = diti_compile_lend(&work, worker);
    while (goes_on && diti_compile_next(&work)) goes_on = diti_compile_report(&work, progress);
    if (lent && !diti_compile_wait(&work, lent, goes_on ? progress : NULL)) goes_on = false;
    diti_destroy_Semaphore(device, work.never);
    if (!goes_on && work.result == DIT_OK) work.result = DIT_CANCELLED;
    if (work.result < 0 && err) *err = work.error;
    wanted->failed = work.failed;
    return work.result;
}
