/* Submissions to a queue and waiting for them by a timeline. A device that finishes nothing for long is given up. */
#include "vk/vk.h"

DIT_INTERNAL dit_result diti_device_stalled(diti_device *device, dit_error *err) {
    dit_result result = diti_fail_vk(err, VK_ERROR_DEVICE_LOST,
                                     "the Vulkan device %u (%s) has finished nothing for %u ms and is given up",
                                     device->ordinal, device->info.name, (unsigned)(device->patience_us / 1000));
    diti_keep_begin(device);
    diti_atomic_store(&device->lost, 1);
    return diti_device_blame(device, result, err);
}

/* Under the queue lock. */
static void diti_queue_wait_idle(diti_device *device) {
    device->vk.QueueWaitIdle(device->queue);
    if (device->transfer_queue) device->vk.QueueWaitIdle(device->transfer_queue);
}

DIT_INTERNAL void diti_queue_idle(diti_device *device) {
    diti_queue_lock(device);
    if (!diti_atomic_load(&device->lost)) diti_queue_wait_idle(device);
    diti_queue_unlock(device);
}

DIT_INTERNAL void diti_queue_rest(diti_device *device) {
    if (device->software) diti_queue_idle(device);
}

/* Under the queue lock. A simulated loss leaves nothing running, as a real one does. */
static VkResult diti_queue_submit(diti_device *device, VkQueue queue, const VkSubmitInfo *info) {
    if (diti_atomic_load(&device->lost)) return VK_ERROR_DEVICE_LOST;
    device->submits++;
    if (queue == device->transfer_queue) device->transfer_submits++;
    if (device->fail_submit_after && device->submits >= device->fail_submit_after) {
        diti_queue_wait_idle(device);
        diti_atomic_store(&device->lost, 1);
        return VK_ERROR_DEVICE_LOST;
    }
    return diti_device_group_submit(device, queue, info);
}

DIT_INTERNAL void diti_submission_wait(diti_submission *submission, VkSemaphore timeline, uint64_t value) {
    uint32_t i = 0;
    if (!timeline || !value) return;
    while (i < submission->wait_count && submission->waits[i] != timeline) i++;
    if (i == submission->wait_count) {
        submission->waits[submission->wait_count] = timeline; /* one for each direction to each device */
        submission->wait_values[submission->wait_count++] = 0;
    }
    if (submission->wait_values[i] < value) submission->wait_values[i] = value;
}

DIT_INTERNAL dit_result diti_submit_after(diti_device *device, const diti_submission *submission, dit_error *err) {
    VkPipelineStageFlags stages[DITI_MAX_WAITS];
    VkTimelineSemaphoreSubmitInfo values = DITI_ZERO;
    VkSubmitInfo info = DITI_ZERO;
    VkResult vr;
    uint32_t i;
    for (i = 0; i < submission->wait_count; i++) stages[i] = VK_PIPELINE_STAGE_ALL_COMMANDS_BIT;
    values.sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO;
    values.waitSemaphoreValueCount = submission->wait_count;
    values.pWaitSemaphoreValues = submission->wait_values;
    values.signalSemaphoreValueCount = submission->signal ? 1 : 0;
    values.pSignalSemaphoreValues = &submission->signal_value;
    info.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO;
    info.pNext = &values;
    info.waitSemaphoreCount = submission->wait_count;
    info.pWaitSemaphores = submission->waits;
    info.pWaitDstStageMask = stages;
    info.commandBufferCount = submission->count;
    info.pCommandBuffers = submission->commands;
    info.signalSemaphoreCount = values.signalSemaphoreValueCount;
    info.pSignalSemaphores = &submission->signal;
    diti_queue_lock(device);
    vr = diti_queue_submit(device, submission->queue ? submission->queue : device->queue, &info);
    diti_queue_unlock(device);
    return vr < 0 ? diti_device_fail(device, vr, "vkQueueSubmit", err) : DIT_OK;
}

DIT_INTERNAL dit_result diti_submit(diti_device *device, const VkCommandBuffer *commands, uint32_t count,
                                    VkSemaphore timeline, uint64_t value, dit_error *err) {
    diti_submission submission = DITI_ZERO;
    submission.commands = commands;
    submission.count = count;
    submission.signal = timeline;
    submission.signal_value = value;
    return diti_submit_after(device, &submission, err);
}

/* As long as the timeline moves on. VK_TIMEOUT: the device finishes nothing any more. */
static VkResult diti_timeline_wait_on(diti_device *device, const VkSemaphoreWaitInfo *info) {
    uint64_t before = 0, now = 0;
    VkResult vr = diti_timeline_counter(device, info->pSemaphores[0], &before);
    while (vr == VK_SUCCESS) {
        vr = device->vk.WaitSemaphores(device->device, info, device->patience_us * 1000);
        if (vr != VK_TIMEOUT) break;
        vr = diti_timeline_counter(device, info->pSemaphores[0], &now);
        if (vr == VK_SUCCESS && now == before) return VK_TIMEOUT;
        before = now;
    }
    return vr;
}

DIT_INTERNAL dit_result diti_timeline_wait(diti_device *device, VkSemaphore timeline, uint64_t value,
                                           uint64_t timeout_ns, dit_error *err) {
    VkSemaphoreWaitInfo info = DITI_ZERO;
    diti_trace_scope scope;
    uint64_t reached = 0;
    dit_result result = diti_device_check(device, err); /* a lost device may never reach the value */
    VkResult vr;
    DITI_TRY(result);
    info.sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO;
    info.semaphoreCount = 1;
    info.pSemaphores = &timeline;
    info.pValues = &value;
    scope = diti_trace_open(device->trace, DITI_TRACK_WAIT, "wait");
    vr = timeout_ns == UINT64_MAX ? diti_timeline_wait_on(device, &info)
                                  : device->vk.WaitSemaphores(device->device, &info, timeout_ns);
    diti_trace_close(&scope, 0);
    if (vr == VK_SUCCESS) vr = diti_timeline_counter(device, timeline, &reached);
    if (vr == VK_SUCCESS && reached < value) vr = VK_ERROR_DEVICE_LOST; /* waits for a lost device end, too */
    if (vr == VK_TIMEOUT) return timeout_ns == UINT64_MAX ? diti_device_stalled(device, err) : DIT_WORKING;
    return vr < 0 ? diti_device_fail(device, vr, "vkWaitSemaphores", err) : DIT_OK;
}

static dit_result diti_run_record(diti_device *device, VkCommandPool pool, diti_record_function record, void *user,
                                  VkCommandBuffer *out, dit_error *err) {
    VkCommandBufferAllocateInfo allocate = DITI_ZERO;
    VkCommandBufferBeginInfo begin = DITI_ZERO;
    VkResult vr;
    allocate.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO;
    allocate.commandPool = pool;
    allocate.level = VK_COMMAND_BUFFER_LEVEL_PRIMARY;
    allocate.commandBufferCount = 1;
    begin.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO;
    begin.flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT;
    vr = device->vk.AllocateCommandBuffers(device->device, &allocate, out);
    if (vr < 0) return diti_device_fail(device, vr, "vkAllocateCommandBuffers", err);
    vr = device->vk.BeginCommandBuffer(*out, &begin);
    if (vr < 0) return diti_device_fail(device, vr, "vkBeginCommandBuffer", err);
    record(device, *out, user);
    vr = device->vk.EndCommandBuffer(*out);
    return vr < 0 ? diti_device_fail(device, vr, "vkEndCommandBuffer", err) : DIT_OK;
}

static dit_result diti_run_in_pool(diti_device *device, VkCommandPool pool, diti_record_function record, void *user,
                                   dit_error *err) {
    VkCommandBuffer commands = NULL;
    VkSemaphore timeline = VK_NULL_HANDLE;
    dit_result result = diti_run_record(device, pool, record, user, &commands, err);
    if (result >= 0) result = diti_timeline_create(device, &timeline, err);
    if (result >= 0) result = diti_submit(device, &commands, 1, timeline, 1, err);
    if (result >= 0) {
        result = diti_timeline_wait(device, timeline, 1, UINT64_MAX, err);
        if (result < 0) diti_queue_idle(device); /* a wait that failed must not free what still runs */
    }
    diti_destroy_Semaphore(device, timeline);
    return result;
}

DIT_INTERNAL dit_result diti_run_now(diti_device *device, diti_record_function record, void *user, dit_error *err) {
    VkCommandPoolCreateInfo info = DITI_ZERO;
    VkCommandPool pool = VK_NULL_HANDLE;
    dit_result result;
    VkResult vr;
    info.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO;
    info.flags = VK_COMMAND_POOL_CREATE_TRANSIENT_BIT;
    info.queueFamilyIndex = device->queue_family;
    vr = device->vk.CreateCommandPool(device->device, &info, device->callbacks, &pool);
    if (vr < 0) return diti_device_fail(device, vr, "vkCreateCommandPool", err);
    result = diti_run_in_pool(device, pool, record, user, err);
    diti_destroy_CommandPool(device, pool);
    return result;
}
