/* Traced plans: where the timestamps of a slice are, when they may be read, and what they say. */
#include "graph/plan_internal.h"

/* --- layout --- */

/* A repeated segment of few slices may have the same one in flight several times. */
static uint32_t diti_profile_sets(const diti_plan *plan, const diti_plan_slice *slice) {
    const diti_segment *segment = &plan->segments[slice->segment];
    uint32_t sets = segment->repeated ? DITI_PROFILE_SETS / segment->count : 1;
    return sets ? sets : 1;
}

/* Gives each slice its queries; returns the largest set. */
static uint32_t diti_profile_lay_out(diti_plan *plan, diti_profile *profile) {
    uint32_t i, largest = 2;
    for (i = 0; i < plan->slice_count; i++) {
        diti_profile_slice *slice = &profile->slices[i];
        slice->first_query = profile->query_count;
        slice->stride = 2 + (profile->ops ? 2 * plan->slices[i].count : 0);
        slice->sets = diti_profile_sets(plan, &plan->slices[i]);
        profile->query_count += slice->stride * slice->sets;
        profile->flight_capacity += slice->sets;
        if (slice->stride > largest) largest = slice->stride;
    }
    return largest;
}

DIT_INTERNAL dit_result diti_profile_create(diti_plan *plan, dit_error *err) {
    const diti_env *env = &plan->device->env;
    diti_trace *trace = plan->device->trace;
    diti_profile *profile;
    uint32_t largest;
    if (!trace) return DIT_OK;
    profile = (diti_profile *)diti_alloc_zero(env, sizeof *profile);
    plan->profile = profile;
    if (!profile) return diti_fail_memory(err, "a traced plan");
    profile->ops = !trace->light && plan->device->limits.timestamp_bits;
    diti_lock(&trace->lock);
    profile->id = ++trace->plans;
    diti_unlock(&trace->lock);
    profile->slices = (diti_profile_slice *)diti_alloc_array(env, plan->slice_count + 1, sizeof *profile->slices);
    if (!profile->slices) return diti_fail_memory(err, "a traced plan");
    largest = diti_profile_lay_out(plan, profile);
    profile->ticks = (uint64_t *)diti_alloc_array(env, largest, sizeof *profile->ticks);
    profile->flights =
        (diti_profile_flight *)diti_alloc_array(env, profile->flight_capacity + 1, sizeof *profile->flights);
    if (!profile->ticks || !profile->flights) return diti_fail_memory(err, "a traced plan");
    return DIT_OK;
}

/* --- what is in flight --- */

static diti_profile_flight *diti_profile_flight_at(diti_profile *profile, uint32_t i) {
    return &profile->flights[(profile->flight_first + i) % profile->flight_capacity];
}

/* Events that a slice would have made. */
static uint32_t diti_profile_events(const diti_plan *plan, uint32_t slice) {
    if (plan->device->trace->light) return 0;
    return 1 + (plan->profile->ops ? plan->slices[slice].count : 0);
}

static void diti_profile_lose(diti_plan *plan, const diti_profile_flight *flight) {
    diti_trace_drop(plan->device->trace, diti_profile_events(plan, flight->slice));
    diti_trace_finished(plan->device->trace, flight->submission, (uint8_t)plan->device->ordinal, 0, 0);
}

/* The next set's last run is still queued: its timestamps will be overwritten. */
static void diti_profile_overrun(diti_plan *plan, uint32_t slice) {
    diti_profile *profile = plan->profile;
    uint32_t i;
    for (i = 0; i < profile->flight_count; i++) {
        diti_profile_flight *flight = diti_profile_flight_at(profile, i);
        if (flight->slice != slice || flight->set != profile->slices[slice].next || flight->lost) continue;
        flight->lost = true;
        profile->slices[slice].busy--;
    }
}

DIT_INTERNAL bool diti_plan_may_submit(const diti_plan *plan, uint32_t segment, uint32_t slice) {
    uint32_t index = plan->segments[segment].first + slice;
    if (!plan->profile) return !plan->queries || plan->slices[index].measured || !plan->slices[index].value;
    return plan->profile->slices[index].busy < plan->profile->slices[index].sets;
}

DIT_INTERNAL VkCommandBuffer diti_profile_commands(diti_plan *plan, uint32_t slice) {
    diti_profile_slice *entry = &plan->profile->slices[slice];
    return entry->commands[entry->next];
}

/* A flight that was lost may leave the ring only in its turn: where it is full, the oldest one goes. */
static diti_profile_flight *diti_profile_new_flight(diti_plan *plan) {
    diti_profile *profile = plan->profile;
    if (profile->flight_count == profile->flight_capacity) {
        diti_profile_flight *oldest = diti_profile_flight_at(profile, 0);
        if (!oldest->lost) profile->slices[oldest->slice].busy--;
        diti_profile_lose(plan, oldest);
        profile->flight_first = (profile->flight_first + 1) % profile->flight_capacity;
        profile->flight_count--;
    }
    return diti_profile_flight_at(profile, profile->flight_count++);
}

/* How often the segment of a slice has begun since the plan's first one did. */
static uint32_t diti_profile_run_of(diti_plan *plan, uint32_t slice) {
    uint32_t *runs = plan->profile->runs, segment = plan->slices[slice].segment;
    if (slice == 0) memset(runs, 0, sizeof plan->profile->runs);
    if (slice == plan->segments[segment].first) runs[segment]++;
    return runs[segment];
}

DIT_INTERNAL void diti_profile_submitted(diti_plan *plan, uint32_t slice, uint64_t submit_ns) {
    diti_profile_slice *entry = &plan->profile->slices[slice];
    diti_profile_flight *flight;
    if (entry->busy == entry->sets) diti_profile_overrun(plan, slice);
    flight = diti_profile_new_flight(plan);
    memset(flight, 0, sizeof *flight);
    flight->value = plan->timeline.submitted;
    flight->submission = diti_trace_submitted(plan->device->trace);
    flight->submit_ns = submit_ns;
    flight->slice = slice;
    flight->set = entry->next;
    flight->step = diti_profile_run_of(plan, slice);
    entry->next = (entry->next + 1) % entry->sets;
    entry->busy++;
}

/* --- what the timestamps say --- */

static void diti_profile_describe(const diti_plan *plan, const diti_profile_flight *flight, diti_trace_event *event) {
    const diti_plan_slice *slice = &plan->slices[flight->slice];
    const diti_segment *segment = &plan->segments[slice->segment];
    event->lane = DITI_TRACK_GPU;
    event->device = (uint8_t)plan->device->ordinal;
    event->plan = plan->profile->id;
    event->slice = flight->slice - segment->first;
    event->step = flight->step;
    diti_format(event->segment, sizeof event->segment, "%s", segment->name);
}

/* The tensor that tells which of many alike an op is: its weight, else what it writes. */
static const diti_tensor_info *diti_profile_subject(const diti_plan *plan, const diti_dispatch *source) {
    const diti_tensor_info *written = NULL;
    uint32_t i;
    for (i = 0; i < source->binding_count; i++) {
        const diti_tensor_info *tensor = &plan->tensors[source->bindings[i].tensor];
        if (!source->bindings[i].tensor) continue;
        if (tensor->part) return tensor;
        if (source->bindings[i].writes && !written) written = tensor;
    }
    return written;
}

static void diti_profile_shape(const diti_plan *plan, const diti_dispatch *source, diti_trace_event *event) {
    static const uint8_t kinds[DITI_COST_KINDS] = {DITI_TRACE_PRODUCT, DITI_TRACE_ATTENTION, DITI_TRACE_CONVOLUTION,
                                                   DITI_TRACE_MEMORY};
    uint32_t i;
    event->kind = kinds[source->cost_kind];
    memcpy(event->shape, source->shape, sizeof event->shape);
    for (i = 0; i < source->binding_count && event->kind == DITI_TRACE_MEMORY; i++) {
        const diti_tensor_info *tensor = &plan->tensors[source->bindings[i].tensor];
        if (!source->bindings[i].tensor || !source->bindings[i].writes) continue;
        event->shape[0] = tensor->rows;
        event->shape[1] = tensor->columns;
        return;
    }
}

static void diti_profile_add_op(const diti_plan *plan, const diti_plan_dispatch *part, diti_trace_event *event) {
    const diti_dispatch *source = &plan->sources[part->source];
    const diti_tensor_info *subject = diti_profile_subject(plan, source);
    double share = (double)part->groups / (double)source->groups;
    event->name = source->name;
    event->flops = source->flops * share;
    event->bytes = source->memory_bytes * share;
    event->first = part->first_group;
    event->groups = part->groups;
    event->all_groups = source->groups;
    diti_profile_shape(plan, source, event);
    diti_format(event->text, sizeof event->text, "%s", subject ? subject->name : "");
    diti_trace_add(plan->device->trace, event);
}

static void diti_profile_add_slice(const diti_plan *plan, const diti_profile_flight *flight, uint64_t begin_ns,
                                   uint64_t end_ns) {
    const diti_plan_slice *slice = &plan->slices[flight->slice];
    diti_trace_event event = DITI_ZERO;
    diti_profile_describe(plan, flight, &event);
    event.kind = DITI_TRACE_SLICE;
    event.begin_ns = begin_ns;
    event.end_ns = end_ns;
    event.busy_ns = (uint64_t)((double)slice->cut_us * 1e3);
    event.count = slice->count;
    diti_format(event.text, sizeof event.text, "%s", event.segment);
    diti_trace_add(plan->device->trace, &event);
}

/* Converts two timestamps into the trace's time. */
static void diti_profile_span(const diti_plan *plan, const uint64_t *ticks, uint64_t now_ns, uint64_t *begin_ns,
                              uint64_t *end_ns) {
    *begin_ns = diti_trace_device_ns(plan->device, ticks[0], now_ns);
    *end_ns = diti_trace_device_ns(plan->device, ticks[1], now_ns);
    if (*end_ns < *begin_ns) *end_ns = *begin_ns;
}

static void diti_profile_add_ops(const diti_plan *plan, const diti_profile_flight *flight, uint64_t now_ns) {
    const diti_plan_slice *slice = &plan->slices[flight->slice];
    const uint64_t *ticks = plan->profile->ticks + 2;
    uint32_t i;
    for (i = 0; i < slice->count; i++, ticks += 2) {
        diti_trace_event event = DITI_ZERO;
        diti_profile_describe(plan, flight, &event);
        diti_profile_span(plan, ticks, now_ns, &event.begin_ns, &event.end_ns);
        diti_profile_add_op(plan, &plan->dispatches[slice->first + i], &event);
    }
}

/* The times of a finished slice; false: they cannot be had. Without timestamps: when the host saw it come and go. */
static bool diti_profile_times(diti_plan *plan, const diti_profile_flight *flight, uint64_t now_ns, uint64_t *begin_ns,
                               uint64_t *end_ns) {
    const diti_profile_slice *entry = &plan->profile->slices[flight->slice];
    diti_device *device = plan->device;
    uint64_t *ticks = plan->profile->ticks;
    size_t size = entry->stride * sizeof *ticks;
    if (flight->lost) return false;
    if (!plan->queries) {
        *begin_ns = flight->submit_ns > plan->profile->last_end_ns ? flight->submit_ns : plan->profile->last_end_ns;
        *end_ns = plan->profile->last_end_ns = now_ns;
        return true;
    }
    if (device->vk.GetQueryPoolResults(device->device, plan->queries, entry->first_query + flight->set * entry->stride,
                                       entry->stride, size, ticks, sizeof *ticks, VK_QUERY_RESULT_64_BIT) != VK_SUCCESS)
        return false;
    diti_profile_span(plan, ticks, now_ns, begin_ns, end_ns);
    return true;
}

static void diti_profile_learn(diti_plan *plan, uint32_t slice, uint64_t ns) {
    if (!plan->queries) return;
    if (diti_plan_feigned_us(plan, &plan->slices[slice]) > 0)
        diti_plan_took(plan, slice, diti_plan_feigned_us(plan, &plan->slices[slice]));
    else
        diti_plan_took(plan, slice, (float)((double)ns * 1e-3));
}

static void diti_profile_finish(diti_plan *plan, const diti_profile_flight *flight) {
    diti_trace *trace = plan->device->trace;
    uint64_t now_ns = diti_trace_now(trace), begin_ns, end_ns;
    if (!flight->lost) plan->profile->slices[flight->slice].busy--;
    if (!diti_profile_times(plan, flight, now_ns, &begin_ns, &end_ns)) {
        diti_profile_lose(plan, flight);
        return;
    }
    diti_profile_learn(plan, flight->slice, end_ns - begin_ns);
    if (!trace->light) diti_profile_add_slice(plan, flight, begin_ns, end_ns);
    if (plan->profile->ops) diti_profile_add_ops(plan, flight, now_ns);
    diti_trace_finished(trace, flight->submission, (uint8_t)plan->device->ordinal, begin_ns, end_ns);
}

DIT_INTERNAL void diti_profile_collect(diti_plan *plan) {
    diti_profile *profile = plan->profile;
    uint64_t done = 0;
    if (!profile->flight_count || diti_timeline_value(plan->device, plan->timeline.semaphore, &done, NULL) < 0) return;
    while (profile->flight_count && diti_profile_flight_at(profile, 0)->value <= done) {
        diti_profile_finish(plan, diti_profile_flight_at(profile, 0));
        profile->flight_first = (profile->flight_first + 1) % profile->flight_capacity;
        profile->flight_count--;
    }
}

DIT_INTERNAL void diti_profile_free(diti_plan *plan) {
    diti_profile *profile = plan->profile;
    const diti_env *env = &plan->device->env;
    if (!profile) return;
    if (profile->flight_count) diti_profile_collect(plan);
    for (; profile->flight_count; profile->flight_count--) {
        diti_profile_lose(plan, diti_profile_flight_at(profile, 0));
        profile->flight_first = (profile->flight_first + 1) % profile->flight_capacity;
    }
    diti_free(env, profile->slices);
    diti_free(env, profile->flights);
    diti_free(env, profile->ticks);
    diti_free(env, profile);
    plan->profile = NULL;
}
