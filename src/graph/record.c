/* Command buffers: recorded once, submitted again and again, or executed inside the application's own. */
#include "graph/plan_internal.h"

/* Gates are read where indirect dispatches are. */
static VkPipelineStageFlags diti_record_stages(const diti_plan *plan, VkPipelineStageFlags stages) {
    return plan->gated && stages & VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT ? stages | VK_PIPELINE_STAGE_DRAW_INDIRECT_BIT
                                                                        : stages;
}

static void diti_record_barrier(const diti_plan *plan, VkCommandBuffer commands, VkPipelineStageFlags from,
                                VkPipelineStageFlags to) {
    VkMemoryBarrier barrier;
    memset(&barrier, 0, sizeof barrier);
    barrier.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER;
    barrier.srcAccessMask = VK_ACCESS_MEMORY_WRITE_BIT;
    barrier.dstAccessMask = VK_ACCESS_MEMORY_READ_BIT | VK_ACCESS_MEMORY_WRITE_BIT;
    plan->device->vk.CmdPipelineBarrier(commands, diti_record_stages(plan, from), diti_record_stages(plan, to), 0, 1,
                                        &barrier, 0, NULL, 0, NULL);
}

/* The start of a run: states become zero, inputs arrive from the host's staging memory. */
static void diti_record_start(const diti_plan *plan, VkCommandBuffer commands) {
    size_t i;
    for (i = 0; i < plan->block_count; i++) {
        const diti_plan_block *block = &plan->blocks[i];
        VkBufferCopy copy;
        memset(&copy, 0, sizeof copy);
        copy.size = block->size;
        if (block->storage == DITI_STORAGE_STATE)
            plan->device->vk.CmdFillBuffer(commands, block->buffer.buffer, 0, VK_WHOLE_SIZE, 0);
        if (block->storage == DITI_STORAGE_INPUT)
            plan->device->vk.CmdCopyBuffer(commands, block->staging.buffer, block->buffer.buffer, 1, &copy);
    }
    diti_record_barrier(plan, commands, VK_PIPELINE_STAGE_TRANSFER_BIT,
                        VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT);
}

/* When everything before it is over, so that times of dispatches never overlap and add up to their slice's. */
static void diti_record_stamp(const diti_plan *plan, VkCommandBuffer commands, uint32_t query) {
    plan->device->vk.CmdWriteTimestamp(commands, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, plan->queries, query);
}

/* After the last slice of a segment: what its guards say, for the host. */
static void diti_record_report(const diti_plan *plan, VkCommandBuffer commands) {
    VkMemoryBarrier barrier;
    VkBufferCopy copy;
    VkBuffer guards;
    memset(&copy, 0, sizeof copy);
    memset(&barrier, 0, sizeof barrier);
    guards = diti_plan_buffer(plan, plan->guards, &copy.srcOffset, &copy.size);
    diti_record_barrier(plan, commands, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, VK_PIPELINE_STAGE_TRANSFER_BIT);
    plan->device->vk.CmdCopyBuffer(commands, guards, plan->report.buffer, 1, &copy);
    barrier.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER;
    barrier.srcAccessMask = VK_ACCESS_TRANSFER_WRITE_BIT;
    barrier.dstAccessMask = VK_ACCESS_HOST_READ_BIT;
    plan->device->vk.CmdPipelineBarrier(commands, VK_PIPELINE_STAGE_TRANSFER_BIT, VK_PIPELINE_STAGE_HOST_BIT, 0, 1,
                                        &barrier, 0, NULL, 0, NULL);
}

DIT_INTERNAL void diti_plan_record_guards(const diti_plan *plan, VkCommandBuffer commands) {
    const VkPipelineStageFlags work = VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT;
    const diti_plan_block *block = &plan->blocks[plan->tensors[plan->guards].block];
    VkBufferCopy copy;
    memset(&copy, 0, sizeof copy);
    diti_plan_buffer(plan, plan->guards, &copy.dstOffset, &copy.size);
    copy.srcOffset = copy.dstOffset;
    diti_record_barrier(plan, commands, work, VK_PIPELINE_STAGE_TRANSFER_BIT);
    plan->device->vk.CmdCopyBuffer(commands, block->staging.buffer, block->buffer.buffer, 1, &copy);
}

static bool diti_record_ends_segment(const diti_plan *plan, const diti_plan_slice *slice) {
    const diti_segment *segment = &plan->segments[slice->segment];
    return slice == &plan->slices[segment->first + segment->count - 1];
}

static void diti_record_dispatch(const diti_plan *plan, const diti_plan_dispatch *dispatch, VkCommandBuffer commands) {
    const diti_dispatch *source = &plan->sources[dispatch->source];
    VkDeviceSize offset, size, entry = dispatch->groups + (source->gate_else ? DITI_GATE_ENTRIES : 0);
    VkBuffer gate;
    if (!source->gate) {
        plan->device->vk.CmdDispatch(commands, dispatch->groups, 1, 1);
        return;
    }
    gate = diti_plan_buffer(plan, source->gate, &offset, &size);
    plan->device->vk.CmdDispatchIndirect(commands, gate, offset + entry * 4 * sizeof(uint32_t));
}

/* begin: the query that is written behind the leading barrier, when what came before is over; stamps: the query before
   the first dispatch, the others follow; UINT32_MAX: no timestamps. */
static void diti_record_slice(const diti_plan *plan, const diti_plan_slice *slice, VkCommandBuffer commands,
                              uint32_t begin, uint32_t stamps) {
    const VkPipelineStageFlags work = VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT;
    const diti_vk_api *vk = &plan->device->vk;
    VkPipeline bound = VK_NULL_HANDLE;
    uint32_t i;
    if (!slice->count || plan->dispatches[slice->first].barrier) diti_record_barrier(plan, commands, work, work);
    if (begin != UINT32_MAX) diti_record_stamp(plan, commands, begin);
    if (slice == &plan->slices[0]) diti_record_start(plan, commands);
    for (i = slice->first; i < slice->first + slice->count; i++) {
        const diti_plan_dispatch *dispatch = &plan->dispatches[i];
        const diti_dispatch *source = &plan->sources[dispatch->source];
        if (dispatch->barrier && i > slice->first)
            diti_record_barrier(plan, commands, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT,
                                VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT);
        if (dispatch->pipeline != bound)
            vk->CmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_COMPUTE, dispatch->pipeline);
        bound = dispatch->pipeline;
        vk->CmdBindDescriptorSets(commands, VK_PIPELINE_BIND_POINT_COMPUTE, plan->device->pipeline_layout, 0, 1,
                                  &dispatch->set, 0, NULL);
        vk->CmdPushConstants(commands, plan->device->pipeline_layout, VK_SHADER_STAGE_COMPUTE_BIT, 0,
                             source->push_count * 4u, dispatch->push);
        if (stamps != UINT32_MAX) diti_record_stamp(plan, commands, stamps++);
        diti_record_dispatch(plan, dispatch, commands);
        if (stamps != UINT32_MAX) diti_record_stamp(plan, commands, stamps++);
    }
    if (plan->guards && diti_record_ends_segment(plan, slice)) diti_record_report(plan, commands);
}

static dit_result diti_record_begin(const diti_plan *plan, VkCommandBuffer commands, bool secondary, dit_error *err) {
    VkCommandBufferInheritanceInfo inheritance;
    VkCommandBufferBeginInfo info;
    VkResult vk;
    memset(&inheritance, 0, sizeof inheritance);
    memset(&info, 0, sizeof info);
    inheritance.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_INHERITANCE_INFO;
    info.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO;
    info.flags = VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT; /* one step may be queued twice */
    info.pInheritanceInfo = secondary ? &inheritance : NULL;
    vk = plan->device->vk.BeginCommandBuffer(commands, &info);
    return vk == VK_SUCCESS ? DIT_OK : diti_fail_vk(err, vk, "vkBeginCommandBuffer failed (%d)", (int)vk);
}

static dit_result diti_record_end(diti_plan *plan, VkCommandBuffer commands, dit_error *err) {
    VkResult vk = plan->device->vk.EndCommandBuffer(commands);
    plan->counters.recordings++;
    return vk == VK_SUCCESS ? DIT_OK : diti_fail_vk(err, vk, "vkEndCommandBuffer failed (%d)", (int)vk);
}

static dit_result diti_record_allocate(const diti_plan *plan, VkCommandPool pool, VkCommandBufferLevel level,
                                       VkCommandBuffer *out, dit_error *err) {
    VkCommandBufferAllocateInfo info;
    VkResult vk;
    memset(&info, 0, sizeof info);
    info.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO;
    info.commandPool = pool;
    info.level = level;
    info.commandBufferCount = 1;
    vk = plan->device->vk.AllocateCommandBuffers(plan->device->device, &info, out);
    return vk == VK_SUCCESS ? DIT_OK : diti_fail_vk(err, vk, "vkAllocateCommandBuffers failed (%d)", (int)vk);
}

static dit_result diti_record_primary(diti_plan *plan, size_t index, dit_error *err) {
    diti_plan_slice *slice = &plan->slices[index];
    DITI_TRY(diti_plan_write_sets(plan, slice, err));
    DITI_TRY(diti_record_allocate(plan, plan->commands, VK_COMMAND_BUFFER_LEVEL_PRIMARY, &slice->primary, err));
    DITI_TRY(diti_record_begin(plan, slice->primary, false, err));
    if (plan->queries) plan->device->vk.CmdResetQueryPool(slice->primary, plan->queries, (uint32_t)index * 2, 2);
    diti_record_slice(plan, slice, slice->primary, plan->queries ? (uint32_t)index * 2 : UINT32_MAX, UINT32_MAX);
    if (plan->queries) diti_record_stamp(plan, slice->primary, (uint32_t)index * 2 + 1);
    return diti_record_end(plan, slice->primary, err);
}

static dit_result diti_record_traced(diti_plan *plan, size_t index, uint32_t set, dit_error *err) {
    diti_profile_slice *entry = &plan->profile->slices[index];
    VkCommandBuffer *commands = &entry->commands[set];
    uint32_t query = entry->first_query + set * entry->stride;
    DITI_TRY(diti_plan_write_sets(plan, &plan->slices[index], err));
    DITI_TRY(diti_record_allocate(plan, plan->commands, VK_COMMAND_BUFFER_LEVEL_PRIMARY, commands, err));
    DITI_TRY(diti_record_begin(plan, *commands, false, err));
    if (plan->queries) plan->device->vk.CmdResetQueryPool(*commands, plan->queries, query, entry->stride);
    diti_record_slice(plan, &plan->slices[index], *commands, plan->queries ? query : UINT32_MAX,
                      plan->profile->ops ? query + 2 : UINT32_MAX);
    if (plan->queries) diti_record_stamp(plan, *commands, query + 1);
    return diti_record_end(plan, *commands, err);
}

static dit_result diti_record_create_pool(const diti_plan *plan, VkCommandPool *out, dit_error *err) {
    VkCommandPoolCreateInfo info;
    VkResult vk;
    if (*out) return DIT_OK;
    memset(&info, 0, sizeof info);
    info.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO;
    info.queueFamilyIndex = plan->device->queue_family;
    vk = plan->device->vk.CreateCommandPool(plan->device->device, &info, plan->device->callbacks, out);
    return vk == VK_SUCCESS ? DIT_OK : diti_fail_vk(err, vk, "vkCreateCommandPool failed (%d)", (int)vk);
}

static dit_result diti_record_create_queries(diti_plan *plan, dit_error *err) {
    VkQueryPoolCreateInfo info;
    VkResult vk;
    if (plan->queries || plan->device->limits.timestamp_bits == 0) return DIT_OK;
    memset(&info, 0, sizeof info);
    info.sType = VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO;
    info.queryType = VK_QUERY_TYPE_TIMESTAMP;
    info.queryCount = plan->profile ? plan->profile->query_count : (uint32_t)plan->slice_count * 2;
    vk = plan->device->vk.CreateQueryPool(plan->device->device, &info, plan->device->callbacks, &plan->queries);
    return vk == VK_SUCCESS
               ? DIT_OK
               : diti_fail_vk(err, vk, "vkCreateQueryPool failed for %u timestamps (%d)", info.queryCount, (int)vk);
}

static dit_result diti_record_restore(diti_plan *plan, dit_error *err) {
    DITI_TRY(diti_record_allocate(plan, plan->other_commands, VK_COMMAND_BUFFER_LEVEL_PRIMARY, &plan->restore, err));
    DITI_TRY(diti_record_begin(plan, plan->restore, false, err));
    diti_plan_record_guards(plan, plan->restore);
    return diti_record_end(plan, plan->restore, err);
}

DIT_INTERNAL dit_result diti_plan_create_commands(diti_plan *plan, dit_error *err) {
    DITI_TRY(diti_timeline_create(plan->device, &plan->timeline.semaphore, err));
    DITI_TRY(diti_record_create_pool(plan, &plan->other_commands, err));
    return plan->guards ? diti_record_restore(plan, err) : DIT_OK;
}

DIT_INTERNAL dit_result diti_plan_record_primaries(diti_plan *plan, dit_error *err) {
    diti_trace_scope scope = diti_trace_open(plan->device->trace, DITI_TRACK_RECORD, "record");
    dit_result result = diti_record_create_pool(plan, &plan->commands, err);
    uint32_t set;
    size_t i;
    if (result >= 0) result = diti_record_create_queries(plan, err);
    for (i = 0; i < plan->slice_count && result >= 0; i++) {
        if (!plan->profile && !plan->slices[i].primary) result = diti_record_primary(plan, i, err);
        for (set = 0; plan->profile && set < plan->profile->slices[i].sets && result >= 0; set++)
            if (!plan->profile->slices[i].commands[set]) result = diti_record_traced(plan, i, set, err);
    }
    diti_trace_close(&scope, 0);
    return result;
}

static dit_result diti_record_secondary(diti_plan *plan, diti_plan_slice *slice, dit_error *err) {
    VkCommandBuffer commands = NULL;
    DITI_TRY(diti_plan_write_sets(plan, slice, err));
    DITI_TRY(diti_record_create_pool(plan, &plan->commands, err));
    DITI_TRY(diti_record_allocate(plan, plan->commands, VK_COMMAND_BUFFER_LEVEL_SECONDARY, &commands, err));
    DITI_TRY(diti_record_begin(plan, commands, true, err));
    diti_record_slice(plan, slice, commands, UINT32_MAX, UINT32_MAX);
    DITI_TRY(diti_record_end(plan, commands, err));
    slice->secondary = commands;
    return DIT_OK;
}

DIT_INTERNAL dit_result diti_plan_execute(diti_plan *plan, uint32_t segment, uint32_t slice, VkCommandBuffer commands,
                                          dit_error *err) {
    uint32_t index = plan->segments[segment].first + slice;
    diti_plan_slice *entry = &plan->slices[index];
    if (!entry->secondary) DITI_TRY(diti_record_secondary(plan, entry, err));
    plan->counters.dispatches += entry->count;
    plan->device->vk.CmdExecuteCommands(commands, 1, &entry->secondary);
    diti_frame_add(plan, index, commands);
    return DIT_OK;
}

/* --- what slices took --- */

static void diti_record_read(diti_plan *plan, uint32_t slice) {
    const diti_limits *limits = &plan->device->limits;
    uint64_t ticks[2], mask = limits->timestamp_bits >= 64 ? UINT64_MAX : ((uint64_t)1 << limits->timestamp_bits) - 1;
    if (diti_plan_feigned_us(plan, &plan->slices[slice]) > 0) {
        diti_plan_took(plan, slice, diti_plan_feigned_us(plan, &plan->slices[slice]));
        return;
    }
    if (plan->device->vk.GetQueryPoolResults(plan->device->device, plan->queries, slice * 2, 2, sizeof ticks, ticks,
                                             sizeof ticks[0], VK_QUERY_RESULT_64_BIT) != VK_SUCCESS)
        return;
    diti_plan_took(plan, slice,
                   (float)((double)((ticks[1] - ticks[0]) & mask) * (double)limits->timestamp_period * 1e-3));
}

DIT_INTERNAL void diti_plan_learn(diti_plan *plan) {
    uint64_t done = 0;
    if (plan->profile) {
        diti_profile_collect(plan);
        return;
    }
    if (!plan->unread_count || diti_timeline_value(plan->device, plan->timeline.semaphore, &done, NULL) < 0) return;
    for (; plan->unread_count; plan->unread_count--) {
        const diti_plan_unread *entry = &plan->unread[plan->unread_first];
        if (entry->value > done) return;
        /* a segment that was submitted again has overwritten its timestamps */
        if (plan->slices[entry->slice].value == entry->value) diti_record_read(plan, entry->slice);
        plan->unread_first = (plan->unread_first + 1) % DITI_UNREAD_SLICES;
    }
}

/* Where the ring is full the oldest one goes. */
static void diti_record_submitted(diti_plan *plan, uint32_t slice) {
    diti_plan_unread *entry;
    plan->slices[slice].value = plan->timeline.submitted;
    if (!plan->queries) return;
    if (plan->unread_count == DITI_UNREAD_SLICES) {
        plan->unread_first = (plan->unread_first + 1) % DITI_UNREAD_SLICES;
        plan->unread_count--;
    }
    entry = &plan->unread[(plan->unread_first + plan->unread_count++) % DITI_UNREAD_SLICES];
    entry->slice = slice;
    entry->value = plan->timeline.submitted;
}

/* --- submitting --- */

/* submission: with what it waits for, or zero. */
static dit_result diti_record_submit(diti_plan *plan, VkCommandBuffer commands, diti_submission *submission,
                                     dit_error *err) {
    diti_trace_scope scope = diti_trace_open(plan->device->trace, DITI_TRACK_SUBMIT, "submit");
    dit_result result;
    submission->commands = &commands;
    submission->count = commands ? 1 : 0;
    submission->signal = plan->timeline.semaphore;
    submission->signal_value = plan->timeline.submitted + 1;
    result = diti_submit_after(plan->device, submission, err);
    diti_trace_close(&scope, 0);
    DITI_TRY(result);
    plan->counters.submits++;
    plan->timeline.submitted++;
    return DIT_OK;
}

DIT_INTERNAL dit_result diti_plan_submit(diti_plan *plan, uint32_t segment, uint32_t slice, uint64_t *value,
                                         dit_error *err) {
    diti_submission submission = DITI_ZERO;
    return diti_plan_submit_after(plan, segment, slice, &submission, value, err);
}

DIT_INTERNAL dit_result diti_plan_submit_after(diti_plan *plan, uint32_t segment, uint32_t slice,
                                               diti_submission *submission, uint64_t *value, dit_error *err) {
    uint32_t index = plan->segments[segment].first + slice;
    uint32_t batch = plan->slices[index].batch;
    uint64_t begin_ns;
    dit_result result;
    if (!plan->profile && !plan->slices[index].primary) /* the run before was recorded, and its slices cut anew */
        DITI_TRY(diti_plan_record_primaries(plan, err));
    if (batch != DITI_NO_BATCH) DITI_TRY(diti_plan_claim_batch(plan, batch, submission, err));
    begin_ns = plan->profile ? diti_trace_now(plan->device->trace) : 0;
    diti_plan_learn(plan);
    result = diti_record_submit(plan, plan->profile ? diti_profile_commands(plan, index) : plan->slices[index].primary,
                                submission, err);
    if (batch != DITI_NO_BATCH) diti_stream_release(&plan->streaming, batch, result >= 0);
    DITI_TRY(result);
    plan->counters.dispatches += plan->slices[index].count;
    if (plan->profile)
        diti_profile_submitted(plan, index, begin_ns);
    else
        diti_record_submitted(plan, index);
    *value = plan->timeline.submitted;
    return DIT_OK;
}

DIT_INTERNAL dit_result diti_plan_submit_commands(diti_plan *plan, VkCommandBuffer commands, uint64_t *value,
                                                  dit_error *err) {
    diti_submission submission = DITI_ZERO;
    DITI_TRY(diti_record_submit(plan, commands, &submission, err));
    *value = plan->timeline.submitted;
    return DIT_OK;
}

DIT_INTERNAL dit_result diti_plan_submit_waits(diti_plan *plan, diti_submission *submission, dit_error *err) {
    return diti_record_submit(plan, VK_NULL_HANDLE, submission, err);
}

DIT_INTERNAL VkSemaphore diti_plan_timeline(const diti_plan *plan) { return plan->timeline.semaphore; }

DIT_INTERNAL uint32_t diti_plan_last_slice_us(const diti_plan *plan) { return plan->last_slice_us; }
