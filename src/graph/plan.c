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

/* --- pipelines --- */

/* Constants as ops_gemm.c and ops_attention.c state them: 1 is the format of the operands, 9 of products tells
   convolutions. */
static diti_class diti_plan_class(const diti_device *device, const diti_pipeline *pipeline) {
    const bool i8 = pipeline->constants[1] == DITI_I8;
    switch (pipeline->kernel) {
    case DITI_KERNEL_GEMM_COOP:
        if (pipeline->constants[DITI_CONSTANT_KIND] >= DITI_MATRIX_E4M3) return DITI_CLASS_COOP_FLOAT8;
        if (i8) return DITI_CLASS_COOP_I8;
        if (pipeline->constants[DITI_CONSTANT_LOOP] & DITI_LOOP_PAIRED) return DITI_CLASS_COOP_PAIRS;
        if (pipeline->constants[9]) return DITI_CLASS_COOP_CONV;
        return device->rung == DITI_RUNG_COOP2 ? DITI_CLASS_COOP2 : DITI_CLASS_COOP;
    case DITI_KERNEL_GEMM_HALF: return DITI_CLASS_HALF;
    case DITI_KERNEL_GEMM_DOT_GPU: return i8 ? DITI_CLASS_DOT : DITI_CLASS_PACKED_DOT;
    case DITI_KERNEL_GEMM_DOT_BROADCAST: return DITI_CLASS_PACKED_DOT;
    case DITI_KERNEL_GEMM_BROADCAST: return DITI_CLASS_BROADCAST;
    case DITI_KERNEL_ATTENTION_COOP2: return DITI_CLASS_COOP2_ATTENTION;
    case DITI_KERNEL_ATTENTION_COOP: return i8 ? DITI_CLASS_COOP_ATTENTION_I8 : DITI_CLASS_COOP_ATTENTION;
    case DITI_KERNEL_ATTENTION_DIRECT:
    case DITI_KERNEL_ATTENTION_COLUMNS:
    case DITI_KERNEL_COOP_LAYOUT: return DITI_CLASS_COOP_ATTENTION;
    case DITI_KERNEL_ATTENTION_BROADCAST: return DITI_CLASS_BROADCAST_ATTENTION;
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
static bool diti_plan_descend(const diti_plan *plan, const diti_wanted *wanted, const dit_error *error,
                              uint32_t candidate) {
    diti_device *device = plan->device;
    diti_class which = diti_plan_class(device, &wanted->list[wanted->failed]);
    if (error->result != DIT_ERROR_VULKAN || candidate > 1 || which == DITI_CLASSES ||
        (which == DITI_CLASS_FP16 && device->has_peers))
        return false;
    diti_log(&device->env, DITI_LOG_WARNING, "%s; from now on %s does without %s", error->message, device->info.name,
             diti_class_name(which));
    diti_lock(&device->lock);
    diti_class_drop(device, which);
    device->dropped |= DITI_CLASS_BIT(which);
    diti_class_describe(device, device->dropped);
    diti_unlock(&device->lock);
    diti_proof_put(device, which, DITI_PROOF_BAD);
    return true;
}

static const diti_dispatch *diti_plan_source(const diti_plan *plan, size_t dispatch) {
    return &plan->sources[plan->dispatches[dispatch].source];
}

static dit_result diti_plan_compile(diti_plan *plan, diti_graph *graph, diti_wanted *wanted,
                                    const dit_progress *progress, dit_error *err) {
    dit_error error = DITI_ZERO;
    dit_result result;
    size_t i;
    for (i = 0; i < plan->dispatch_count; i++) {
        if (!diti_wanted_add(plan->device, wanted, diti_plan_source(plan, i))) return diti_fail_memory(err, "the plan");
    }
    result = diti_wanted_compile(plan->device, wanted, graph->worker, progress, &error);
    graph->again = result < 0 && diti_plan_descend(plan, wanted, &error, graph->candidate);
    if (result < 0 && err) *err = error;
    for (i = 0; i < plan->dispatch_count && result == DIT_OK; i++)
        plan->dispatches[i].pipeline = wanted->list[diti_wanted_find(wanted, diti_plan_source(plan, i))].pipeline;
    return result;
}

static dit_result diti_plan_create_pipelines(diti_plan *plan, diti_graph *graph, const dit_progress *progress,
                                             dit_error *err) {
    diti_wanted wanted = DITI_ZERO;
    uint64_t before = diti_pipelines_compiled(plan->device);
    dit_result result = diti_plan_compile(plan, graph, &wanted, progress, err);
    diti_wanted_free(&plan->device->env, &wanted);
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
    plan->activation = graph->activation;
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

DIT_INTERNAL void diti_counters_add(dit_counters *out, const dit_counters *more) {
    out->dispatches += more->dispatches;
    out->submits += more->submits;
    out->recordings += more->recordings;
    out->allocations += more->allocations;
    out->pipelines += more->pipelines;
    out->peer_bytes += more->peer_bytes;
    out->streamed_bytes += more->streamed_bytes;
}

DIT_INTERNAL void diti_plan_continue(diti_plan *plan, diti_plan *before) {
    diti_timeline unused = DITI_ZERO;
    unused.semaphore = plan->timeline.semaphore;
    diti_guard_inherit(plan, before);
    plan->timeline = before->timeline;
    plan->frames.owed = before->frames.owed + before->frames.count - before->frames.told;
    diti_counters_add(&plan->counters, &before->counters);
    before->timeline = unused;
}
