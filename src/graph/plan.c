/* The life of a plan: memory, pipelines, descriptor sets, host access. */
#include "graph/plan_internal.h"

static dit_result diti_plan_create_buffers(diti_plan *plan, dit_error *err) {
    size_t i;
    for (i = 0; i < plan->block_count; i++) {
        diti_plan_block *block = &plan->blocks[i];
        const char *what = block->storage == DITI_STORAGE_ARENA   ? "activations"
                           : block->storage == DITI_STORAGE_STATE ? "sampler state"
                                                                  : "inputs";
        if (plan->exchange_count) /* exchanges may go by another queue */
            DITI_TRY(diti_buffer_create_shared(plan->device, block->size, what, &block->buffer, err));
        else
            DITI_TRY(diti_buffer_create(plan->device, block->size, DITI_MEMORY_DEVICE, what, &block->buffer, err));
        if (block->storage == DITI_STORAGE_INPUT)
            DITI_TRY(diti_buffer_create_pinned(plan->device, block->size, DITI_MEMORY_UPLOAD, what,
                                               "have a smaller picture, or fewer of them in a job", &block->staging,
                                               err));
        plan->counters.allocations += block->storage == DITI_STORAGE_INPUT ? 2u : 1u;
        if (block->staging.block.mapped) memset(block->staging.block.mapped, 0, (size_t)block->size);
    }
    return DIT_OK;
}

static dit_result diti_plan_create_report(diti_plan *plan, dit_error *err) {
    DITI_TRY(diti_buffer_create(plan->device, plan->tensors[plan->guards].bytes, DITI_MEMORY_READBACK, "guards",
                                &plan->report, err));
    plan->counters.allocations++;
    memset(plan->report.block.mapped, 0, (size_t)plan->report.size); /* the memory may hold another plan's report */
    diti_buffer_flush(plan->device, &plan->report);
    return diti_guard_write(plan, 0, err);
}

/* --- pipelines: each distinct one is compiled once, by the caller and the threads that a worker lends --- */

#define DITI_PLAN_THREADS 7u        /* most that are lent */
#define DITI_PLAN_NAP_NS 1000000ull /* how long the caller sleeps before it looks whether they are done */
#define DITI_PLAN_NAPS 1000u        /* after so many it tells that it still waits */

typedef struct diti_plan_compile {
    diti_plan *plan;
    uint32_t *distinct; /* plan dispatches with pipelines that differ */
    uint32_t count;
    VkSemaphore never; /* never signalled: to wait for it with a time-out is how the caller sleeps */
    int lock;          /* guards all that follows; held for a few instructions */
    uint32_t next;     /* index into distinct, which threads take in order */
    uint32_t done, helped;
    bool stopped; /* nothing more is taken */
    dit_result result;
    dit_error error;
    uint32_t failed; /* index into distinct of the dispatch that result and error are about */
} diti_plan_compile;

static const diti_dispatch *diti_plan_source(const diti_plan *plan, uint32_t dispatch) {
    return &plan->sources[plan->dispatches[dispatch].source];
}

static bool diti_plan_same_pipeline(const diti_dispatch *a, const diti_dispatch *b) {
    return a->kernel == b->kernel && a->stated == b->stated && !memcmp(a->constants, b->constants, sizeof a->constants);
}

static uint32_t diti_plan_find_distinct(const diti_plan_compile *work, uint32_t dispatch) {
    const diti_dispatch *wanted = diti_plan_source(work->plan, dispatch);
    uint32_t i;
    for (i = 0; i < work->count; i++) {
        if (diti_plan_same_pipeline(diti_plan_source(work->plan, work->distinct[i]), wanted)) break;
    }
    return i;
}

/* Compiles one more; false when nothing is left to take. If several pipelines fail, the first in order is told
   about, and so no result depends on which thread was faster: all before one that failed were taken before it. */
static bool diti_plan_compile_next(diti_plan_compile *work) {
    diti_plan_dispatch *dispatch;
    const diti_dispatch *source;
    dit_error error = DITI_ZERO;
    dit_result result;
    uint32_t mine;
    diti_lock(&work->lock);
    mine = !work->stopped && work->next < work->count ? work->next++ : UINT32_MAX;
    diti_unlock(&work->lock);
    if (mine == UINT32_MAX) return false;
    dispatch = &work->plan->dispatches[work->distinct[mine]];
    source = &work->plan->sources[dispatch->source];
    result = diti_pipeline_get(work->plan->device, source->kernel, source->constants, source->stated,
                               &dispatch->pipeline, &error);
    diti_lock(&work->lock);
    work->done++;
    if (result < 0 && (work->result == DIT_OK || mine < work->failed)) {
        work->result = result;
        work->error = error;
        work->failed = mine;
        work->stopped = true;
    }
    diti_unlock(&work->lock);
    return result >= 0;
}

static void diti_plan_compile_task(void *arg) {
    diti_plan_compile *work = (diti_plan_compile *)arg;
    while (diti_plan_compile_next(work)) {
    }
    diti_lock(&work->lock);
    work->helped++;
    diti_unlock(&work->lock);
}

/* False: the application has had enough. */
static bool diti_plan_compile_report(diti_plan_compile *work, const dit_progress *progress) {
    uint32_t done;
    diti_lock(&work->lock);
    done = work->done;
    diti_unlock(&work->lock);
    if (!progress || !progress->func || progress->func("preparing kernels", done, work->count, progress->user))
        return true;
    diti_lock(&work->lock);
    work->stopped = true;
    diti_unlock(&work->lock);
    return false;
}

/* Sleeps until the lent threads have ended what they took. Tells that it does so whether a kernel more is done or not,
   after a second. */
static bool diti_plan_compile_wait(diti_plan_compile *work, uint32_t lent, const dit_progress *progress) {
    uint32_t helped, done, told = UINT32_MAX, naps = 0;
    bool wanted = true;
    for (;;) {
        diti_lock(&work->lock); /* the thread that counted last has let go of the lock then */
        helped = work->helped;
        done = work->done;
        diti_unlock(&work->lock);
        if (done != told || ++naps == DITI_PLAN_NAPS) naps = 0;
        if (wanted && !naps) wanted = diti_plan_compile_report(work, progress);
        told = done;
        if (helped == lent) return wanted;
        diti_timeline_wait(work->plan->device, work->never, 1, DITI_PLAN_NAP_NS, NULL);
    }
}

/* Hands out tasks until the worker refuses. */
static uint32_t diti_plan_compile_lend(diti_plan_compile *work, const dit_worker *worker) {
    uint32_t lent = 0;
    if (!worker || !worker->run || work->count < 2 ||
        diti_timeline_create(work->plan->device, &work->never, NULL) != DIT_OK)
        return 0;
    while (lent < DITI_PLAN_THREADS && lent + 1 < work->count &&
           worker->run(diti_plan_compile_task, work, worker->user))
        lent++;
    return lent;
}

static dit_result diti_plan_compile_all(diti_plan_compile *work, const dit_worker *worker, const dit_progress *progress,
                                        dit_error *err) {
    uint32_t lent = diti_plan_compile_lend(work, worker);
    bool wanted = true;
    while (wanted && diti_plan_compile_next(work)) wanted = diti_plan_compile_report(work, progress);
    if (lent && !diti_plan_compile_wait(work, lent, wanted ? progress : NULL)) wanted = false;
    diti_destroy_Semaphore(work->plan->device, work->never);
    if (!wanted && work->result == DIT_OK) work->result = DIT_CANCELLED;
    if (work->result < 0 && err) *err = work->error;
    return work->result;
}

/* Constants as ops_gemm.c and ops_attention.c state them: 1 is the format of the operands, 9 of products tells
   convolutions. */
static diti_class diti_plan_class(const diti_device *device, const diti_dispatch *dispatch) {
    const bool i8 = dispatch->constants[1] == DITI_I8;
    switch (dispatch->kernel) {
    case DITI_KERNEL_GEMM_COOP:
        if (dispatch->constants[DITI_CONSTANT_KIND] >= DITI_MATRIX_E4M3) return DITI_CLASS_COOP_FLOAT8;
        if (i8) return DITI_CLASS_COOP_I8;
        if (dispatch->constants[9]) return DITI_CLASS_COOP_CONV;
        return device->rung == DITI_RUNG_COOP2 ? DITI_CLASS_COOP2 : DITI_CLASS_COOP;
    case DITI_KERNEL_GEMM_HALF: return DITI_CLASS_HALF;
    case DITI_KERNEL_GEMM_DOT_GPU: return i8 ? DITI_CLASS_DOT : DITI_CLASS_PACKED_DOT;
    case DITI_KERNEL_GEMM_DOT_BROADCAST: return DITI_CLASS_PACKED_DOT;
    case DITI_KERNEL_GEMM_BROADCAST: return DITI_CLASS_BROADCAST;
    case DITI_KERNEL_ATTENTION_COOP2: return DITI_CLASS_COOP2_ATTENTION;
    case DITI_KERNEL_ATTENTION_COOP: return i8 ? DITI_CLASS_COOP_ATTENTION_I8 : DITI_CLASS_COOP_ATTENTION;
    case DITI_KERNEL_ATTENTION_HALF: return DITI_CLASS_HALF_ATTENTION;
    case DITI_KERNEL_ATTENTION_GPU:
        if (i8) return DITI_CLASS_DOT_ATTENTION;
        break;
    default: break;
    }
    return device->rung >= DITI_RUNG_FP16 ? DITI_CLASS_FP16 : DITI_CLASSES;
}

/* A pipeline that does not compile: its class is left out from now on, and the same ops make other kernels. False where
   there are none. Devices that work together have told each other that they compute with halves; and a candidate that
   is only being measured is given up alone. */
static bool diti_plan_descend(diti_plan *plan, const diti_plan_compile *work, uint32_t candidate) {
    diti_device *device = plan->device;
    diti_class which = diti_plan_class(device, diti_plan_source(plan, work->distinct[work->failed]));
    if (work->result != DIT_ERROR_VULKAN || candidate > 1 || which == DITI_CLASSES ||
        (which == DITI_CLASS_FP16 && device->has_peers))
        return false;
    diti_log(&device->env, DITI_LOG_WARNING, "%s; from now on %s does without %s", work->error.message,
             device->info.name, diti_class_name(which));
    diti_lock(&device->lock);
    diti_class_drop(device, which);
    device->dropped |= DITI_CLASS_BIT(which);
    diti_class_describe(device, device->dropped);
    diti_unlock(&device->lock);
    diti_proof_put(device, which, DITI_PROOF_BAD);
    return true;
}

static dit_result diti_plan_create_pipelines(diti_plan *plan, diti_graph *graph, const dit_progress *progress,
                                             dit_error *err) {
    diti_plan_compile work = DITI_ZERO;
    uint64_t before = diti_pipelines_compiled(plan->device);
    dit_result result;
    uint32_t i;
    work.plan = plan;
    work.distinct = (uint32_t *)diti_alloc_array(&plan->device->env, plan->dispatch_count + 1, sizeof *work.distinct);
    if (!work.distinct) return diti_fail_memory(err, "the plan");
    for (i = 0; i < plan->dispatch_count; i++) {
        if (diti_plan_find_distinct(&work, i) == work.count) work.distinct[work.count++] = i;
    }
    result = diti_plan_compile_all(&work, graph->worker, progress, err);
    graph->again = result < 0 && diti_plan_descend(plan, &work, graph->candidate);
    for (i = 0; i < plan->dispatch_count && result == DIT_OK; i++) {
        plan->dispatches[i].pipeline = plan->dispatches[work.distinct[diti_plan_find_distinct(&work, i)]].pipeline;
    }
    diti_free(&plan->device->env, work.distinct);
    plan->counters.pipelines = diti_pipelines_compiled(plan->device) - before;
    return result;
}

/* Moves the arrays out of the graph: the plan goes on with them. */
static void diti_plan_take(diti_plan *plan, diti_graph *graph) {
    plan->tensors = graph->tensors;
    plan->tensor_count = graph->tensor_count;
    plan->sources = graph->dispatches;
    plan->source_count = graph->dispatch_count;
    plan->guards = graph->guards;
    plan->gated = graph->gated;
    plan->guard_alike = graph->guard_alike;
    plan->guard_blind = graph->guard_blind;
    plan->guard_end = graph->guard_end;
    plan->guard_records = graph->guard_records;
    plan->exchanges = graph->exchanges;
    plan->exchange_count = graph->exchange_count;
    plan->events = graph->events;
    plan->event_count = graph->event_count;
    plan->cuts = graph->cuts;
    plan->cut_count = graph->cut_count;
    plan->marks = graph->marks;
    plan->mark_count = graph->mark_count;
    graph->marks = NULL;
    graph->mark_count = graph->mark_capacity = 0;
    graph->cuts = NULL;
    graph->cut_count = graph->cut_capacity = 0;
    graph->exchanges = NULL;
    graph->events = NULL;
    graph->exchange_count = graph->exchange_capacity = graph->event_count = graph->event_capacity = 0;
    graph->tensors = NULL;
    graph->dispatches = NULL;
    graph->guard_records = NULL;
    graph->tensor_count = graph->tensor_capacity = graph->dispatch_count = graph->dispatch_capacity = 0;
}

static dit_result diti_plan_place(diti_plan *plan, diti_graph *graph, dit_error *err) {
    DITI_TRY(diti_plan_assign_memory(graph, plan, err));
    diti_plan_take(plan, graph);
    DITI_TRY(diti_plan_create_buffers(plan, err));
    if (plan->guards) DITI_TRY(diti_plan_create_report(plan, err));
    DITI_TRY(diti_plan_fetch_weights(plan, err));
    return diti_plan_make_slices(plan, graph, err);
}

static dit_result diti_plan_build(diti_plan *plan, diti_graph *graph, const dit_progress *progress, dit_error *err) {
    diti_trace_scope scope = diti_trace_open(plan->device->trace, DITI_TRACK_PLAN, "memory and slices");
    dit_result result = diti_plan_place(plan, graph, err);
    diti_trace_close(&scope, 0);
    DITI_TRY(result);
    scope = diti_trace_open(plan->device->trace, DITI_TRACK_PLAN, "compile pipelines");
    result = diti_plan_create_pipelines(plan, graph, progress, err);
    diti_trace_close(&scope, 0);
    if (result != DIT_OK) return result;
    DITI_TRY(diti_plan_create_descriptors(plan, err));
    DITI_TRY(diti_profile_create(plan, err));
    DITI_TRY(diti_plan_create_commands(plan, err));
    return diti_plan_record_primaries(plan, err);
}

DIT_INTERNAL dit_result diti_plan_create(diti_graph *graph, const dit_progress *progress, diti_plan **out,
                                         dit_error *err) {
    diti_plan *plan;
    dit_result result;
    *out = NULL;
    if (diti_graph_failed(graph)) {
        if (err) *err = graph->error;
        return graph->error.result;
    }
    plan = (diti_plan *)diti_alloc_zero(&graph->device->env, sizeof *plan);
    if (!plan) return diti_fail_memory(err, "the plan");
    plan->device = graph->device;
    result = diti_plan_build(plan, graph, progress, err);
    if (result != DIT_OK) {
        diti_plan_destroy(plan);
        return result;
    }
    *out = plan;
    return DIT_OK;
}

static void diti_plan_free_blocks(diti_plan *plan) {
    size_t i;
    for (i = 0; i < plan->block_count; i++) {
        diti_buffer_destroy(plan->device, &plan->blocks[i].buffer);
        diti_buffer_destroy(plan->device, &plan->blocks[i].staging);
    }
    diti_free(&plan->device->env, plan->blocks);
}

DIT_INTERNAL void diti_plan_wait(const diti_plan *plan) {
    if (plan && plan->timeline.submitted)
        diti_timeline_wait(plan->device, plan->timeline.semaphore, plan->timeline.submitted, UINT64_MAX, NULL);
}

DIT_INTERNAL void diti_plan_destroy(diti_plan *plan) {
    diti_device *device;
    if (!plan) return;
    device = plan->device;
    diti_plan_wait(plan);
    diti_plan_forget_stream(plan);
    diti_profile_free(plan);
    diti_plan_free_retired(plan, true);
    diti_destroy_QueryPool(device, plan->frames.queries);
    diti_buffer_destroy(device, &plan->frames.marks);
    diti_destroy_QueryPool(device, plan->queries);
    diti_destroy_CommandPool(device, plan->commands);
    diti_destroy_CommandPool(device, plan->other_commands);
    diti_destroy_DescriptorPool(device, plan->descriptors);
    diti_destroy_Semaphore(device, plan->timeline.semaphore);
    diti_plan_free_blocks(plan);
    diti_buffer_destroy(device, &plan->report);
    diti_free(&device->env, plan->guard_records);
    diti_free(&device->env, plan->exchanges);
    diti_cuts_free(&device->env, plan->cuts, plan->cut_count);
    diti_free(&device->env, plan->events);
    diti_free(&device->env, plan->marks);
    diti_free(&device->env, plan->tensors);
    diti_free(&device->env, plan->sources);
    diti_free(&device->env, plan->dispatches);
    diti_free(&device->env, plan->slices);
    diti_free(&device->env, plan->source_us);
    diti_free(&device->env, plan->source_cut_us);
    diti_free(&device->env, plan->source_measured);
    diti_free(&device->env, plan->source_minimum);
    diti_free(&device->env, plan);
}

DIT_INTERNAL void diti_plan_continue(diti_plan *plan, diti_plan *before) {
    diti_timeline unused = DITI_ZERO;
    unused.semaphore = plan->timeline.semaphore;
    diti_guard_inherit(plan, before);
    plan->timeline = before->timeline;
    plan->frames.owed = before->frames.owed + before->frames.count - before->frames.told;
    plan->counters.dispatches += before->counters.dispatches;
    plan->counters.submits += before->counters.submits;
    plan->counters.recordings += before->counters.recordings;
    plan->counters.allocations += before->counters.allocations;
    plan->counters.pipelines += before->counters.pipelines;
    plan->counters.peer_bytes += before->counters.peer_bytes;
    plan->counters.streamed_bytes += before->counters.streamed_bytes;
    before->timeline = unused;
}
