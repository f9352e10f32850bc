/* Cutting a plan's dispatches anew, when measured times have shown that its slices are too long, or shorter than they
   need be. Dispatches, memory, pipelines and what is streamed when stay; slices, their descriptor sets and their
   commands are made again beside the old ones, which are freed when they have run. */
#include "graph/plan_internal.h"

typedef struct diti_plan_retired { /* leftovers of one cut */
    struct diti_plan_retired *next;
    VkDescriptorPool descriptors;
    VkCommandPool commands;
    VkQueryPool queries;
    diti_plan_dispatch *dispatches;
    size_t dispatch_count, dispatch_capacity;
    diti_plan_slice *slices;
    size_t slice_count, slice_capacity;
    diti_segment segments[DITI_MAX_SEGMENTS];
    float limit_us;
    uint64_t value, frame; /* values of the timeline and of frames when the cut was retired */
} diti_plan_retired;

/* --- whether --- */

static bool diti_recut_divides(const diti_plan *plan, const diti_plan_slice *slice) {
    const diti_plan_dispatch *piece = &plan->dispatches[slice->first];
    uint32_t align = plan->sources[piece->source].group_align;
    return slice->count > 1 || (slice->count && piece->groups > (align ? align : 1));
}

/* A slice that was never measured is expected to be off by `all`, the ratio of all slices that were. */
static bool diti_recut_too_long(const diti_plan *plan, const diti_plan_slice *slice, float off, float all) {
    float us = slice->measured ? slice->us : slice->cut_us * all;
    return us > plan->limit_us && us > off * slice->cut_us && diti_recut_divides(plan, slice);
}

/* A segment that took far less than expected, all in all, in more than twice as many slices as that time needs. */
static bool diti_recut_too_short(const diti_plan *plan, const diti_segment *segment) {
    float us = 0, expected = 0;
    uint32_t i, measured = 0;
    for (i = segment->first; i < segment->first + segment->count; i++) {
        const diti_plan_slice *slice = &plan->slices[i];
        if (!slice->measured) continue;
        us += slice->us;
        expected += slice->cut_us;
        measured++;
    }
    return measured > 2 && us * DITI_OFF_BY < expected && (float)measured > 2 * (us / plan->limit_us + 1);
}

DIT_INTERNAL bool diti_plan_is_off(const diti_plan *plan, float off, uint32_t most) {
    float us = 0, expected = 0;
    uint32_t i, found = 0;
    for (i = 0; i < plan->slice_count; i++) {
        if (!plan->slices[i].measured) continue;
        us += plan->slices[i].us;
        expected += plan->slices[i].cut_us;
    }
    for (i = 0; i < plan->slice_count; i++)
        found += diti_recut_too_long(plan, &plan->slices[i], off, expected > 0 ? us / expected : 1);
    if (found > most) return true;
    for (i = 0; i < plan->segment_count; i++)
        if (diti_recut_too_short(plan, &plan->segments[i])) return true;
    return false;
}

/* --- what sources take, as slices have shown --- */

typedef struct diti_recut_sum { /* an expected time without launches, and the time that was measured */
    double expected, us;
} diti_recut_sum;

typedef struct diti_recut_source {
    diti_recut_sum sum; /* sum of its pieces since the last cut */
    uint32_t groups;    /* workgroups of its largest piece */
    uint32_t class_of;
} diti_recut_source;

typedef struct diti_recut_facts {
    diti_recut_source *sources;
    diti_recut_sum *classes; /* sources with one pipeline are of one class: predictions, and what they take */
    VkPipeline *pipelines;   /* pipeline of each class */
    uint32_t class_count;
    float launch;                  /* time of a launch that the slices were cut with */
    double kinds[DITI_COST_KINDS]; /* the largest ratio of its classes; 0: none was measured */
    double all;
} diti_recut_facts;

static double diti_recut_ratio(const diti_recut_sum *sum) { return sum->expected > 0 ? sum->us / sum->expected : 0; }

static void diti_recut_add(diti_recut_sum *sum, double expected, double us) {
    sum->expected += expected;
    sum->us += us;
}

static void diti_recut_classify(const diti_plan *plan, diti_recut_facts *facts) {
    size_t i;
    for (i = 0; i < plan->dispatch_count; i++) {
        const diti_plan_dispatch *piece = &plan->dispatches[i];
        diti_recut_source *source = &facts->sources[piece->source];
        uint32_t k = 0;
        if (piece->first_group) continue;
        while (k < facts->class_count && facts->pipelines[k] != piece->pipeline) k++;
        if (k == facts->class_count) facts->pipelines[facts->class_count++] = piece->pipeline;
        source->class_of = k;
    }
}

/* Each piece has its launch, and its part in the rest of its slice's time. */
static void diti_recut_add_slice(const diti_plan *plan, const diti_plan_slice *slice, diti_recut_facts *facts) {
    double launch = (double)facts->launch, rest = (double)slice->us - (double)plan->launch_us * slice->count;
    double work = (double)slice->cut_us - launch * slice->count;
    size_t i;
    if (!slice->measured || work <= 0 || rest <= 0) return;
    for (i = slice->first; i < slice->first + slice->count; i++) {
        const diti_plan_dispatch *piece = &plan->dispatches[i];
        diti_recut_source *source = &facts->sources[piece->source];
        double expected = (double)piece->us > launch ? (double)piece->us - launch : 0;
        diti_recut_add(&source->sum, expected, expected * rest / work);
        if (piece->groups > source->groups) source->groups = piece->groups;
    }
}

/* Pieces that take no longer than a launch should prove launches shorter: to nine tenths of the shortest. */
static void diti_recut_launch(diti_plan *plan) {
    float launch = plan->launch_us;
    size_t i;
    for (i = 0; i < plan->slice_count; i++) {
        const diti_plan_slice *slice = &plan->slices[i];
        if (slice->measured && slice->count && 0.9f * slice->us / (float)slice->count < launch)
            launch = 0.9f * slice->us / (float)slice->count;
    }
    for (i = 0; i < plan->source_count; i++)
        if (plan->source_cut_us[i] > plan->launch_us) plan->source_cut_us[i] -= plan->launch_us - launch;
    plan->launch_us = launch;
}

static double diti_recut_work(float us, float launch) { return us > launch ? (double)us - (double)launch : 0; }

/* A source takes what its pieces did. Where pieces that were made by a measured time take longer again, they leave the
   device idle, and smaller ones would take no less. */
static void diti_recut_learn(diti_plan *plan, const diti_recut_facts *facts) {
    float launch = plan->launch_us;
    size_t i;
    for (i = 0; i < plan->source_count; i++) {
        const diti_recut_source *source = &facts->sources[i];
        double ratio = diti_recut_ratio(&source->sum);
        if (!(ratio > 0)) continue;
        if (plan->source_measured[i] && ratio > 1.5 &&
            source->groups < diti_dispatch_fills(plan->device, &plan->sources[i]))
            plan->source_minimum[i] = source->groups;
        plan->source_measured[i] = true;
        if (plan->source_cut_us[i] > launch)
            plan->source_cut_us[i] = (float)((double)launch + (double)(plan->source_cut_us[i] - launch) * ratio);
    }
}

/* Compares the times of measured sources with predictions. */
static void diti_recut_compare(const diti_plan *plan, diti_recut_facts *facts) {
    diti_recut_sum all = DITI_ZERO;
    size_t i;
    for (i = 0; i < plan->source_count; i++) {
        double predicted = diti_recut_work(plan->source_us[i], plan->predicted_launch_us);
        double takes = diti_recut_work(plan->source_cut_us[i], plan->launch_us);
        if (!plan->source_measured[i]) continue;
        diti_recut_add(&facts->classes[facts->sources[i].class_of], predicted, takes);
        diti_recut_add(&all, predicted, takes);
    }
    for (i = 0; i < plan->source_count; i++) {
        double ratio = diti_recut_ratio(&facts->classes[facts->sources[i].class_of]);
        double *kind = &facts->kinds[plan->sources[i].cost_kind];
        if (ratio > *kind) *kind = ratio;
    }
    facts->all = diti_recut_ratio(&all);
}

/* A source that was never measured takes longer or shorter than predicted by as much as others that its kernel
   computes; else as the slowest kernel of its kind, since a frame suffers more from what takes longer than expected;
   else as all. The prediction is what is multiplied, however often work is cut: times that were guessed before would
   grow with every cut, without an end. */
static void diti_recut_guess(diti_plan *plan, const diti_recut_facts *facts) {
    size_t i;
    for (i = 0; i < plan->source_count; i++) {
        double ratio = diti_recut_ratio(&facts->classes[facts->sources[i].class_of]);
        if (plan->source_measured[i]) continue;
        if (!(ratio > 0)) ratio = facts->kinds[plan->sources[i].cost_kind];
        if (!(ratio > 0)) ratio = facts->all > 0 ? facts->all : 1;
        plan->source_cut_us[i] =
            (float)((double)plan->launch_us + diti_recut_work(plan->source_us[i], plan->predicted_launch_us) * ratio);
    }
}

/* false: no memory for it. */
static bool diti_recut_study(diti_plan *plan) {
    const diti_env *env = &plan->device->env;
    diti_recut_facts facts = DITI_ZERO;
    size_t i;
    bool good;
    facts.sources = (diti_recut_source *)diti_alloc_array(env, plan->source_count + 1, sizeof *facts.sources);
    facts.classes = (diti_recut_sum *)diti_alloc_array(env, plan->source_count + 1, sizeof *facts.classes);
    facts.pipelines = (VkPipeline *)diti_alloc_array(env, plan->source_count + 1, sizeof *facts.pipelines);
    good = facts.sources && facts.classes && facts.pipelines;
    if (good) {
        facts.launch = plan->launch_us;
        diti_recut_launch(plan);
        diti_recut_classify(plan, &facts);
        for (i = 0; i < plan->slice_count; i++) diti_recut_add_slice(plan, &plan->slices[i], &facts);
        diti_recut_learn(plan, &facts);
        diti_recut_compare(plan, &facts);
        diti_recut_guess(plan, &facts);
    }
    diti_free(env, facts.sources);
    diti_free(env, facts.classes);
    diti_free(env, facts.pipelines);
    return good;
}

/* --- doing it --- */

static void diti_recut_free(const diti_plan *plan, diti_plan_retired *old) {
    diti_device *device = plan->device;
    diti_destroy_QueryPool(device, old->queries);
    diti_destroy_CommandPool(device, old->commands);
    diti_destroy_DescriptorPool(device, old->descriptors);
    diti_free(&device->env, old->dispatches);
    diti_free(&device->env, old->slices);
    diti_free(&device->env, old);
}

/* The application's commands that were recorded before have run once as many frames have been recorded since as can be
   in flight. */
DIT_INTERNAL void diti_plan_free_retired(diti_plan *plan, bool all) {
    diti_plan_retired **at = &plan->retired;
    uint64_t done = 0;
    if (!*at || (!all && diti_timeline_value(plan->device, plan->timeline.semaphore, &done, NULL) < 0)) return;
    while (*at) {
        diti_plan_retired *old = *at;
        bool over =
            old->value <= done && (!old->frame || plan->frames.count > old->frame + plan->device->frames_in_flight);
        if (all || over) {
            *at = old->next;
            diti_recut_free(plan, old);
        } else {
            at = &old->next;
        }
    }
}

/* The plan and old exchange all that a cut consists of. */
static void diti_recut_swap(diti_plan *plan, diti_plan_retired *old) {
    diti_plan_retired now = *old;
    uint32_t i;
    old->descriptors = plan->descriptors;
    old->commands = plan->commands;
    old->queries = plan->queries;
    old->dispatches = plan->dispatches;
    old->dispatch_count = plan->dispatch_count;
    old->dispatch_capacity = plan->dispatch_capacity;
    old->slices = plan->slices;
    old->slice_count = plan->slice_count;
    old->slice_capacity = plan->slice_capacity;
    old->limit_us = plan->limit_us;
    memcpy(old->segments, plan->segments, sizeof old->segments);
    plan->descriptors = now.descriptors;
    plan->commands = now.commands;
    plan->queries = now.queries;
    plan->dispatches = now.dispatches;
    plan->dispatch_count = now.dispatch_count;
    plan->dispatch_capacity = now.dispatch_capacity;
    plan->slices = now.slices;
    plan->slice_count = now.slice_count;
    plan->slice_capacity = now.slice_capacity;
    plan->limit_us = now.limit_us;
    for (i = 0; i < DITI_MAX_SEGMENTS; i++) { /* the slices of a segment change, and nothing else */
        plan->segments[i].first = now.segments[i].first;
        plan->segments[i].count = now.segments[i].count;
    }
}

/* Both lists have all sources, in their order. */
static void diti_recut_take_pipelines(diti_plan *plan, const diti_plan_retired *old) {
    size_t i, k = 0;
    for (i = 0; i < plan->dispatch_count; i++) {
        while (old->dispatches[k].source != plan->dispatches[i].source) k++;
        plan->dispatches[i].pipeline = old->dispatches[k].pipeline;
    }
}

/* The application's frames execute secondaries; slices are submitted as primaries, which are recorded when the first is
   wanted. */
static dit_result diti_recut_make(diti_plan *plan, const diti_plan_retired *old, dit_error *err) {
    DITI_TRY(diti_plan_slice_sources(plan, err));
    diti_recut_take_pipelines(plan, old);
    DITI_TRY(diti_plan_create_descriptors(plan, err));
    if (!plan->device->trace) return DIT_OK;
    diti_profile_free(plan);
    DITI_TRY(diti_profile_create(plan, err));
    return diti_plan_record_primaries(plan, err);
}

DIT_INTERNAL bool diti_plan_slice_is_start(const diti_plan *plan, uint32_t segment, uint32_t slice) {
    const diti_plan_slice *entry = &plan->slices[plan->segments[segment].first + slice];
    return slice == 0 || (entry->count && plan->dispatches[entry->first].first_group == 0);
}

/* The slice that begins with a source. */
static uint32_t diti_recut_find(const diti_plan *plan, uint32_t segment, uint32_t source) {
    uint32_t slice = 0;
    while (slice + 1 < plan->segments[segment].count &&
           plan->dispatches[plan->slices[plan->segments[segment].first + slice].first].source < source)
        slice++;
    return slice;
}

DIT_INTERNAL void diti_plan_cut_anew(diti_plan *plan, float limit_us, uint32_t segment, uint32_t *slice) {
    const diti_env *env = &plan->device->env;
    const diti_plan_slice *next = &plan->slices[plan->segments[segment].first + *slice];
    uint32_t source = *slice ? plan->dispatches[next->first].source : 0;
    size_t slices = plan->slice_count;
    diti_plan_retired *old;
    dit_error error = DITI_ZERO;
    dit_result result;
    /* timestamps of traced slices lie where the old slices have them: none may be awaited */
    if (plan->profile && plan->profile->flight_count) return;
    old = (diti_plan_retired *)diti_alloc_zero(env, sizeof *old);
    if (!old || !diti_recut_study(plan)) {
        diti_free(env, old);
        return;
    }
    diti_recut_swap(plan, old);
    plan->limit_us = limit_us;
    plan->slice_starts = *slice ? source + 1 : 0;
    result = diti_recut_make(plan, old, &error);
    plan->slice_starts = 0;
    if (result < 0) {
        diti_log(env, DITI_LOG_WARNING, "slices stay as they are, though they take other times than expected: %s",
                 error.message);
        diti_recut_swap(plan, old);
        diti_recut_free(plan, old);
        return;
    }
    old->value = plan->timeline.submitted;
    old->frame = plan->frames.count;
    old->next = plan->retired;
    plan->retired = old;
    plan->unread_count = 0;
    if (*slice) *slice = diti_recut_find(plan, segment, source);
    diti_log(env, DITI_LOG_INFO, "work is cut anew, by measured times: %u slices instead of %u, of %.0f us at most",
             (unsigned)plan->slice_count, (unsigned)slices, (double)limit_us);
}
