/* From dispatches to slices: every piece of work is cut until it respects the device's limits and the time budget, then
   gathered into command buffers of about that budget. */
#include "graph/plan_internal.h"

/* The roofline model (Williams, Waterman, Patterson 2009): computing hides moving bytes, or the other way round. */
DIT_INTERNAL float diti_dispatch_us(const diti_speed *speed, const diti_dispatch *dispatch) {
    static const double relative[DITI_COST_KINDS] = {1.0, 2.0, 1.5, 1.0}; /* to a GEMM of as many operations */
    double flops = dispatch->padded_flops > dispatch->flops ? dispatch->padded_flops : dispatch->flops;
    double computing = flops * 1e-9 * (double)speed->us_per_gflop * relative[dispatch->cost_kind];
    double moving = dispatch->memory_bytes * 1e-9 * (double)speed->us_per_gigabyte;
    return speed->launch_us + (float)(computing > moving ? computing : moving);
}

/* Predicts the time of a part of a dispatch which takes us as a whole; each part has a launch of its own. */
static float diti_slice_part_us(const diti_plan *plan, const diti_dispatch *dispatch, float us, uint32_t groups) {
    float launch = plan->launch_us < us ? plan->launch_us : us;
    return launch + (us - launch) * (float)groups / (float)dispatch->groups;
}

DIT_INTERNAL float diti_plan_feigned_us(const diti_plan *plan, const diti_plan_slice *slice) {
    const diti_speed *speed = &plan->device->feigned;
    float us = 0;
    uint32_t i;
    for (i = slice->first; i < slice->first + slice->count && speed->us_per_gflop > 0; i++) {
        const diti_dispatch *source = &plan->sources[plan->dispatches[i].source];
        us += speed->launch_us + (diti_dispatch_us(speed, source) - speed->launch_us) *
                                     (float)plan->dispatches[i].groups / (float)source->groups;
    }
    return us;
}

/* Byte range of its memory that workgroups [first, end) touch through a binding. */
static void diti_slice_range(const diti_tensor_info *tensor, const diti_tensor_info *parent,
                             const diti_binding *binding, uint32_t first, uint32_t end, uint64_t *begin,
                             uint64_t *stop) {
    uint64_t size = diti_element_size(tensor->format), from, to, div = binding->group_div ? binding->group_div : 1;
    uint64_t low = tensor->first * size, high = low + (uint64_t)tensor->rows * tensor->pitch * size;
    if (high > parent->bytes) high = parent->bytes;
    if (binding->group_step) {
        from = first / div * binding->group_step;
        to = ((end - 1) / div + 1) * binding->group_step + binding->after;
        from = from > binding->before ? from - binding->before : 0;
        if (tensor->first * size + to * size < high) high = (tensor->first + to) * size;
        low += from * size;
    }
    *begin = low;
    *stop = diti_align_up(high, 16);
    if (*stop > parent->bytes) *stop = parent->bytes;
}

/* Where a tensor of a dispatch lies. */
static VkDeviceSize diti_slice_memory(const diti_plan *plan, const diti_dispatch *dispatch,
                                      const diti_tensor_info *parent, VkBuffer *buffer) {
    if (parent->storage == DITI_STORAGE_WEIGHT)
        return diti_plan_weight_place(plan, (uint32_t)(dispatch - plan->sources), parent, buffer);
    *buffer = plan->blocks[parent->block].buffer.buffer;
    return parent->offset;
}

/* The largest number of workgroups from first on whose bindings all fit the device's storage range; 0: not even the
 *smallest step fits, culprit is then the binding. */
static uint32_t diti_slice_fit(const diti_plan *plan, const diti_dispatch *dispatch, uint32_t first, uint32_t groups,
                               uint32_t *culprit) {
    uint32_t align = dispatch->group_align ? dispatch->group_align : 1, i;
    for (i = 0; i < dispatch->binding_count; i++) {
        const diti_binding *binding = &dispatch->bindings[i];
        const diti_tensor_info *tensor = &plan->tensors[binding->tensor], *parent = &plan->tensors[tensor->parent];
        VkDeviceSize alignment = plan->device->limits.storage_alignment, offset;
        VkBuffer buffer;
        if (!binding->tensor) continue;
        offset = diti_slice_memory(plan, dispatch, parent, &buffer);
        for (;;) {
            uint64_t begin, stop;
            diti_slice_range(tensor, parent, binding, first, first + groups, &begin, &stop);
            begin = (offset + begin) / alignment * alignment;
            if (offset + stop - begin <= plan->device->limits.storage_range) break;
            *culprit = i;
            if (groups <= align || binding->group_step == 0) return 0;
            groups = (groups / 2 + align - 1) / align * align;
        }
    }
    return groups;
}

static dit_result diti_slice_too_large(const diti_plan *plan, const diti_dispatch *dispatch, uint32_t culprit,
                                       dit_error *err) {
    const diti_tensor_info *tensor = &plan->tensors[dispatch->bindings[culprit].tensor];
    return diti_fail(
        err, DIT_ERROR_UNSUPPORTED_DEVICE,
        "op %s needs all of tensor %s [%u, %u] at once, more than the device's maxStorageBufferRange of %llu bytes; ask for a smaller image%s",
        dispatch->name, tensor->name, tensor->rows, tensor->columns,
        (unsigned long long)plan->device->limits.storage_range,
        strncmp(dispatch->name, "vae_", 4) ? "" : ", or for smaller tiles (vae_tile)");
}

/* Fills in where each binding starts (offset words) and keeps the byte ranges for the descriptor set in ranges. */
static void diti_slice_bind(const diti_plan *plan, const diti_dispatch *dispatch, diti_plan_dispatch *slice,
                            VkDescriptorBufferInfo *ranges) {
    VkDeviceSize alignment = plan->device->limits.storage_alignment;
    uint32_t i;
    for (i = 0; i < dispatch->binding_count; i++) {
        const diti_binding *binding = &dispatch->bindings[i];
        const diti_tensor_info *tensor = &plan->tensors[binding->tensor], *parent = &plan->tensors[tensor->parent];
        uint64_t begin, stop, size, base, zero;
        if (!binding->tensor) continue;
        diti_slice_range(tensor, parent, binding, slice->first_group, slice->first_group + slice->groups, &begin,
                         &stop);
        base = diti_slice_memory(plan, dispatch, parent, &ranges[i].buffer);
        size = diti_element_size(tensor->format);
        zero = base + tensor->first * size; /* place of the tensor's first element; may lie before the range: the
                                               difference wraps, as in the kernel */
        ranges[i].offset = (base + begin) / alignment * alignment;
        ranges[i].range = base + stop - ranges[i].offset;
        slice->push[binding->offset_word] =
            (uint32_t)((int64_t)(zero - ranges[i].offset) / (int64_t)binding->element_bytes);
    }
}

/* Every binding of the layout is written, since a shader names them all. A binding that an op leaves out repeats its
   first output: the validation layers take a named binding for a used one, and that one is ordered by barriers anyway.
 */
static void diti_slice_write_set(const diti_plan *plan, const diti_dispatch *dispatch, VkDescriptorSet set,
                                 const VkDescriptorBufferInfo *ranges) {
    VkWriteDescriptorSet writes[DITI_MAX_BINDINGS];
    uint32_t i, first = 0;
    while (first + 1 < dispatch->binding_count && !dispatch->bindings[first].writes) first++;
    memset(writes, 0, sizeof writes);
    for (i = 0; i < DITI_MAX_BINDINGS; i++) {
        bool used = i < dispatch->binding_count && dispatch->bindings[i].tensor;
        writes[i].sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET;
        writes[i].dstSet = set;
        writes[i].dstBinding = i;
        writes[i].descriptorCount = 1;
        writes[i].descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER;
        writes[i].pBufferInfo = &ranges[used ? i : first];
    }
    plan->device->vk.UpdateDescriptorSets(plan->device->device, DITI_MAX_BINDINGS, writes, 0, NULL);
}

DIT_INTERNAL dit_result diti_plan_write_sets(diti_plan *plan, const diti_plan_slice *slice, dit_error *err) {
    VkDescriptorBufferInfo ranges[DITI_MAX_BINDINGS];
    VkDescriptorSetAllocateInfo info;
    uint32_t i;
    memset(&info, 0, sizeof info);
    info.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO;
    info.descriptorPool = plan->descriptors;
    info.descriptorSetCount = 1;
    info.pSetLayouts = &plan->device->set_layout;
    for (i = slice->first; i < slice->first + slice->count; i++) {
        diti_plan_dispatch *piece = &plan->dispatches[i];
        VkResult vk;
        if (piece->set) continue;
        vk = plan->device->vk.AllocateDescriptorSets(plan->device->device, &info, &piece->set);
        if (vk != VK_SUCCESS)
            return diti_fail_vk(err, vk, "vkAllocateDescriptorSets failed for op %s (%s)",
                                plan->sources[piece->source].name, diti_vk_name(vk));
        memset(ranges, 0, sizeof ranges);
        diti_slice_bind(plan, &plan->sources[piece->source], piece, ranges);
        diti_slice_write_set(plan, &plan->sources[piece->source], piece->set, ranges);
    }
    return DIT_OK;
}

DIT_INTERNAL dit_result diti_plan_create_descriptors(diti_plan *plan, dit_error *err) {
    VkDescriptorPoolSize size;
    VkDescriptorPoolCreateInfo info;
    VkResult vk;
    if (plan->dispatch_count == 0) return DIT_OK;
    memset(&info, 0, sizeof info);
    size.type = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER;
    size.descriptorCount = (uint32_t)plan->dispatch_count * DITI_MAX_BINDINGS;
    info.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO;
    info.maxSets = (uint32_t)plan->dispatch_count;
    info.poolSizeCount = 1;
    info.pPoolSizes = &size;
    vk =
        plan->device->vk.CreateDescriptorPool(plan->device->device, &info, plan->device->callbacks, &plan->descriptors);
    return vk == VK_SUCCESS
               ? DIT_OK
               : diti_fail_vk(err, vk, "vkCreateDescriptorPool failed for %u sets (%d)", info.maxSets, (int)vk);
}

static dit_result diti_slice_append(diti_plan *plan, uint32_t source, uint32_t first, uint32_t groups, float us,
                                    dit_error *err) {
    diti_plan_dispatch *slice;
    if (!diti_grow(&plan->device->env, (void **)&plan->dispatches, &plan->dispatch_capacity, plan->dispatch_count,
                   sizeof *plan->dispatches)) {
        return diti_fail_memory(err, "the plan");
    }
    slice = &plan->dispatches[plan->dispatch_count++];
    memset(slice, 0, sizeof *slice);
    slice->source = source;
    slice->first_group = first;
    slice->groups = groups;
    slice->us = us;
    memcpy(slice->push, plan->sources[source].push, sizeof slice->push);
    slice->push[0] = first;
    return DIT_OK;
}

/* Four for each place that a core has for them. A core that holds one workgroup of 256 invocations holds more of
   smaller ones. Where nobody says how many cores there are, 512 fill all but the largest devices. A processor's threads
   take workgroups one by one, and are few. */
DIT_INTERNAL uint32_t diti_dispatch_fills(const diti_device *device, const diti_dispatch *dispatch) {
    uint32_t size = dispatch->constants[0];
    if (device->is_cpu) return 1;
    if (!device->limits.cores_told) return 512;
    return 4 * device->limits.cores * (size && size < 256 ? 256 / size : 1);
}

/* Windows resets a device that does not answer for two seconds. A prediction may be wrong by the factor between. */
#define DITI_LONGEST_PIECE_US 300000

/* The most workgroups of a dispatch in one piece: as many as finest_us has time for, but no fewer than what fills the
   device, or (source_minimum) was measured to leave it idle, unless these take too long, and no fewer than take as long
   as their launch, since pieces that are mostly launches make frames longer, not shorter. */
static uint32_t diti_slice_limit(const diti_plan *plan, uint32_t source) {
    const diti_dispatch *dispatch = &plan->sources[source];
    uint32_t align = dispatch->group_align ? dispatch->group_align : 1, most = dispatch->groups, pieces;
    float us = plan->source_cut_us[source], launch = plan->launch_us, room = plan->finest_us - launch;
    if (us > plan->finest_us) {
        double by_cost = (double)dispatch->groups * (double)(room > launch ? room : launch) / (double)(us - launch);
        double longest = (double)dispatch->groups * DITI_LONGEST_PIECE_US / (double)us;
        uint32_t least;
        if (by_cost < most) most = (uint32_t)by_cost;
        least =
            plan->source_measured[source] ? plan->source_minimum[source] : diti_dispatch_fills(plan->device, dispatch);
        if (least > longest) least = (uint32_t)longest;
        if (most < least) most = least;
    }
    if (most > dispatch->groups) most = dispatch->groups;
    if (most > plan->device->limits.group_count) most = plan->device->limits.group_count;
    if (dispatch->gate && most >= DITI_GATE_ENTRIES) most = DITI_GATE_ENTRIES - 1;
    most = most / align * align;
    if (most == 0) most = align;
    pieces = (dispatch->groups - 1) / most + 1; /* equal pieces: the last one fills the device, too */
    pieces = (dispatch->groups - 1) / pieces + 1;
    pieces = (pieces + align - 1) / align * align;
    return pieces < most ? pieces : most;
}

/* Every piece has a descriptor set, which takes kilobytes on some drivers. A speed that was measured while the machine
   was busy makes all work look long: cut into single workgroups, it would fill gigabytes. */
#define DITI_MAX_PIECES 32768

static void diti_slice_choose_finest(diti_plan *plan) {
    uint64_t pieces;
    float longest = 0;
    uint32_t i;
    for (i = 0; i < plan->source_count; i++)
        if (plan->source_cut_us[i] > longest) longest = plan->source_cut_us[i];
    for (plan->finest_us = plan->limit_us;; plan->finest_us *= 2) {
        for (pieces = 0, i = 0; i < plan->source_count; i++)
            pieces += (plan->sources[i].groups - 1) / diti_slice_limit(plan, i) + 1;
        if (pieces <= DITI_MAX_PIECES || plan->finest_us > longest) return;
    }
}

static dit_result diti_slice_cut(diti_plan *plan, uint32_t source, dit_error *err) {
    const diti_dispatch *dispatch = &plan->sources[source];
    uint32_t most = diti_slice_limit(plan, source), first = 0, groups, culprit = 0;
    float us = plan->source_cut_us[source];
    while (first < dispatch->groups) {
        groups = dispatch->groups - first < most ? dispatch->groups - first : most;
        groups = diti_slice_fit(plan, dispatch, first, groups, &culprit);
        if (groups == 0) return diti_slice_too_large(plan, dispatch, culprit, err);
        if (diti_slice_append(plan, source, first, groups, diti_slice_part_us(plan, dispatch, us, groups), err) < 0)
            return DIT_ERROR_OUT_OF_HOST_MEMORY;
        first += groups;
    }
    return DIT_OK;
}

/* --- barriers: one is needed where a dispatch touches what another wrote, or writes what another read, since the last
 * one --- */

typedef struct diti_hazard {
    VkBuffer buffer; /* buffer of a block; weights are never written */
    uint64_t begin, end;
    bool written;
} diti_hazard;
typedef struct diti_hazards {
    diti_hazard items[256];
    uint32_t count;
} diti_hazards;

static bool diti_hazard_conflict(const diti_hazards *hazards, const diti_hazard *with, bool reads) {
    uint32_t i;
    for (i = 0; i < hazards->count; i++) {
        const diti_hazard *item = &hazards->items[i];
        if (item->buffer != with->buffer || item->end <= with->begin || with->end <= item->begin) continue;
        if (with->written || (reads && item->written)) return true;
    }
    return false;
}

static uint32_t diti_hazards_of(const diti_plan *plan, uint32_t source, diti_hazard *out) {
    const diti_dispatch *dispatch = &plan->sources[source];
    uint32_t i, count = 0;
    for (i = 0; i < dispatch->binding_count; i++) { /* views of other rows do not meet, unless what is bound does */
        const diti_tensor_info *tensor = &plan->tensors[dispatch->bindings[i].tensor];
        const diti_tensor_info *parent = &plan->tensors[tensor->parent];
        uint64_t size = diti_element_size(tensor->format);
        if (!dispatch->bindings[i].tensor || parent->storage == DITI_STORAGE_WEIGHT) continue;
        out[count].buffer = plan->blocks[parent->block].buffer.buffer;
        out[count].begin = parent->offset + tensor->first * size;
        out[count].end = diti_align_up(out[count].begin + (uint64_t)tensor->rows * tensor->pitch * size, 16);
        out[count].begin -= out[count].begin % plan->device->limits.storage_alignment;
        out[count].written = dispatch->bindings[i].writes;
        count++;
    }
    if (dispatch->gate) {
        const diti_tensor_info *gate = &plan->tensors[dispatch->gate];
        out[count].buffer = plan->blocks[gate->block].buffer.buffer;
        out[count].begin = gate->offset;
        out[count].end = gate->offset + gate->bytes;
        out[count++].written = false;
    }
    return count;
}

static bool diti_hazard_step(const diti_plan *plan, uint32_t source, diti_hazards *hazards) {
    diti_hazard mine[DITI_MAX_BINDINGS + 1]; /* one more for the gate */
    uint32_t count = diti_hazards_of(plan, source, mine), i;
    bool barrier = hazards->count + count > DITI_COUNT(hazards->items);
    for (i = 0; i < count && !barrier; i++) barrier = diti_hazard_conflict(hazards, &mine[i], true);
    if (barrier) hazards->count = 0;
    for (i = 0; i < count; i++) hazards->items[hazards->count++] = mine[i];
    return barrier;
}

/* --- gathering into command buffers --- */

static dit_result diti_slice_open(diti_plan *plan, uint32_t segment, dit_error *err) {
    diti_plan_slice *slice;
    if (!diti_grow(&plan->device->env, (void **)&plan->slices, &plan->slice_capacity, plan->slice_count,
                   sizeof *plan->slices)) {
        return diti_fail_memory(err, "the plan");
    }
    slice = &plan->slices[plan->slice_count++];
    memset(slice, 0, sizeof *slice);
    slice->segment = segment;
    slice->first = (uint32_t)plan->dispatch_count;
    slice->batch = DITI_NO_BATCH;
    plan->segments[segment].count++;
    return DIT_OK;
}

/* The batch of streamed weights that a dispatch reads. */
static uint32_t diti_slice_batch(const diti_plan *plan, uint32_t source) {
    return plan->source_batches ? plan->source_batches[source] : DITI_NO_BATCH;
}

/* Whether a piece belongs into a command buffer of its own: that would become too long, or reads another batch of
   streamed weights. */
static bool diti_slice_is_full(const diti_plan *plan, const diti_plan_slice *slice, const diti_plan_dispatch *piece) {
    uint32_t batch = diti_slice_batch(plan, piece->source);
    if (slice->count && slice->us + piece->us > plan->limit_us) return true;
    return batch != DITI_NO_BATCH && slice->batch != DITI_NO_BATCH && slice->batch != batch;
}

/* Moves the pieces of the newest dispatch, [from, dispatch_count), into command buffers. These begin with a barrier,
   unless they go on with the dispatch that the one before ends with: workgroups of a dispatch never depend on each
   other, and what the dispatch depends on is behind the barrier of its first piece. Synchronization validation compares
   what descriptors bind and knows no workgroups: where it may watch, pieces are ordered as dispatches are, so that it
   has nothing to say. */
static dit_result diti_slice_gather(diti_plan *plan, uint32_t segment, size_t from, diti_hazards *hazards,
                                    dit_error *err) {
    size_t i;
    for (i = from; i < plan->dispatch_count; i++) {
        diti_plan_dispatch *piece = &plan->dispatches[i];
        diti_plan_slice *slice = &plan->slices[plan->slice_count - 1];
        if (diti_slice_is_full(plan, slice, piece) ||
            (slice->count && i == from && piece->source + 1 == plan->slice_starts)) {
            if (diti_slice_open(plan, segment, err) < 0) return DIT_ERROR_OUT_OF_HOST_MEMORY;
            slice = &plan->slices[plan->slice_count - 1];
            slice->first = (uint32_t)i;
            if (i == from || plan->device->validated) hazards->count = 0;
        }
        if (i == from || plan->device->validated)
            piece->barrier = diti_hazard_step(plan, piece->source, hazards) || slice->count == 0;
        if (slice->batch == DITI_NO_BATCH) slice->batch = diti_slice_batch(plan, piece->source);
        slice->count++;
        slice->gated = slice->gated || plan->sources[piece->source].gate;
        slice->us += piece->us;
        slice->cut_us = slice->us;
        slice->planned_us +=
            diti_slice_part_us(plan, &plan->sources[piece->source], plan->source_us[piece->source], piece->groups);
    }
    return DIT_OK;
}

/* Exchanges begin and end between command buffers: notes how many of them come before a dispatch, and opens another one
   where an exchange needs it. */
static dit_result diti_slice_meet(diti_plan *plan, uint32_t segment, uint32_t dispatch, bool last, uint32_t *event,
                                  diti_hazards *hazards, dit_error *err) {
    bool filled = plan->slices[plan->slice_count - 1].count > 0;
    uint32_t before = plan->segments[segment].count - (filled ? 0u : 1u), first = *event;
    for (; *event < plan->event_count; ++*event) {
        diti_exchange_event *at = &plan->events[*event];
        if (at->segment != segment || at->place != dispatch) break;
        at->slice = before;
        hazards->count = 0;
    }
    return first == *event || !filled || last ? DIT_OK : diti_slice_open(plan, segment, err);
}

static dit_result diti_slice_segment(diti_plan *plan, uint32_t segment, uint32_t first, uint32_t count, uint32_t *event,
                                     dit_error *err) {
    diti_hazards hazards;
    uint32_t i;
    hazards.count = 0;
    plan->segments[segment].first = (uint32_t)plan->slice_count;
    plan->segments[segment].count = 0;
    DITI_TRY(diti_slice_open(plan, segment, err));
    for (i = first; i < first + count; i++) {
        size_t from = plan->dispatch_count;
        DITI_TRY(diti_slice_meet(plan, segment, i, false, event, &hazards, err));
        DITI_TRY(diti_slice_cut(plan, i, err));
        DITI_TRY(diti_slice_gather(plan, segment, from, &hazards, err));
    }
    return diti_slice_meet(plan, segment, first + count, true, event, &hazards, err);
}

DIT_INTERNAL dit_result diti_plan_slice_sources(diti_plan *plan, dit_error *err) {
    uint32_t segment, event = 0, first = 0, count;
    dit_result result = DIT_OK;
    plan->dispatches = NULL;
    plan->slices = NULL;
    plan->dispatch_count = plan->dispatch_capacity = plan->slice_count = plan->slice_capacity = 0;
    diti_slice_choose_finest(plan);
    for (segment = 0; segment < plan->segment_count && result >= 0; segment++, first += count) {
        count = plan->segment_sources[segment];
        plan->first_event[segment] = event;
        result = diti_slice_segment(plan, segment, first, count, &event, err);
    }
    plan->first_event[plan->segment_count] = event;
    plan->recuts++;
    return result;
}

DIT_INTERNAL dit_result diti_plan_make_slices(diti_plan *plan, const diti_graph *graph, dit_error *err) {
    const diti_env *env = &plan->device->env;
    uint32_t i;
    DITI_TRY(diti_plan_make_batches(plan, graph, err));
    plan->source_us = (float *)diti_alloc_array(env, plan->source_count + 1, sizeof *plan->source_us);
    plan->source_cut_us = (float *)diti_alloc_array(env, plan->source_count + 1, sizeof *plan->source_cut_us);
    plan->source_measured = (bool *)diti_alloc_array(env, plan->source_count + 1, sizeof *plan->source_measured);
    plan->source_minimum = (uint32_t *)diti_alloc_array(env, plan->source_count + 1, sizeof *plan->source_minimum);
    if (!plan->source_us || !plan->source_cut_us || !plan->source_measured || !plan->source_minimum)
        return diti_fail_memory(err, "the plan");
    for (i = 0; i < plan->source_count; i++)
        plan->source_us[i] = plan->source_cut_us[i] = diti_dispatch_us(&plan->device->speed, &plan->sources[i]);
    plan->launch_us = plan->predicted_launch_us = plan->device->speed.launch_us;
    plan->limit_us = (float)(graph->slice_us ? graph->slice_us : plan->device->max_slice_us);
    plan->segment_count = graph->segment_count;
    for (i = 0; i < graph->segment_count; i++) {
        plan->segments[i] = graph->segments[i];
        plan->segment_sources[i] = graph->segments[i].count;
    }
    return diti_plan_slice_sources(plan, err);
}

DIT_INTERNAL uint32_t diti_whole_us(float us) {
    return us < (float)UINT32_MAX ? (uint32_t)(us + 0.5f) : UINT32_MAX; /* the float is one more */
}

/* A gated slice that took less than half of what is expected did nothing. The first time counts as it is; later a
   longer one only by a quarter, since whatever else the machine does now and then makes a slice longer, and nothing
   makes it shorter. Two equal timestamps tell no time: MoltenVK writes those of a command buffer when all of it has
   run, on devices whose counters it cannot read in between. A software driver writes some timestamps at once and others
   late: its zeros count, or the others would alone. */
DIT_INTERNAL void diti_plan_took(diti_plan *plan, uint32_t slice, float us) {
    diti_plan_slice *entry = &plan->slices[slice];
    if (!(us > 0) && !plan->device->software) return;
    plan->last_slice_us = diti_whole_us(us);
    if (entry->gated && us < entry->us / 2) return;
    entry->us = entry->measured && us > entry->us ? entry->us + (us - entry->us) / 4 : us;
    entry->measured = true;
}
