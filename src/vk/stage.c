/* Copies from the host to memory that it does not see: a ring of pinned buffers, one of which is filled while others
   are copied. */
#include "vk/vk.h"

static dit_result diti_stage_make_buffer(diti_stage *stage, diti_stage_buffer *buffer, dit_error *err) {
    diti_device *device = stage->device;
    VkCommandBufferAllocateInfo info = DITI_ZERO;
    VkResult vr;
    DITI_TRY(diti_buffer_create(device, stage->bytes, DITI_MEMORY_UPLOAD, "a staging buffer", &buffer->buffer, err));
    info.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO;
    info.commandPool = stage->pool;
    info.level = VK_COMMAND_BUFFER_LEVEL_PRIMARY;
    info.commandBufferCount = 1;
    vr = device->vk.AllocateCommandBuffers(device->device, &info, &buffer->commands);
    return vr < 0 ? diti_device_fail(device, vr, "vkAllocateCommandBuffers", err) : DIT_OK;
}

static dit_result diti_stage_make(diti_stage *stage, dit_error *err) {
    diti_device *device = stage->device;
    VkCommandPoolCreateInfo info = DITI_ZERO;
    dit_result result;
    VkResult vr;
    uint32_t i;
    info.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO;
    info.flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT;
    info.queueFamilyIndex = stage->queue ? device->transfer_family : device->queue_family;
    vr = device->vk.CreateCommandPool(device->device, &info, device->callbacks, &stage->pool);
    if (vr < 0) return diti_device_fail(device, vr, "vkCreateCommandPool", err);
    result = diti_timeline_create(device, &stage->timeline, err);
    for (i = 0; i < DITI_STAGE_BUFFERS && result >= 0; i++)
        result = diti_stage_make_buffer(stage, &stage->buffers[i], err);
    return result;
}

DIT_INTERNAL VkDeviceSize diti_stage_bytes(diti_device *device, VkDeviceSize least, VkDeviceSize usual) {
    VkDeviceSize room = diti_memory_host_room(device) / DITI_STAGE_BUFFERS & ~(VkDeviceSize)0xffff;
    VkDeviceSize bytes = usual < room ? usual : room;
    return bytes > least ? bytes : least;
}

DIT_INTERNAL dit_result diti_stage_create(diti_device *device, VkDeviceSize bytes, VkQueue queue, diti_stage **out,
                                          dit_error *err) {
    diti_stage *stage = (diti_stage *)diti_alloc_zero(&device->env, sizeof *stage);
    dit_result result;
    *out = NULL;
    if (!stage) return diti_fail_memory(err, "a staging ring");
    stage->device = device;
    stage->bytes = bytes;
    stage->queue = queue;
    result = diti_stage_make(stage, err);
    if (result < 0)
        diti_stage_destroy(stage);
    else
        *out = stage;
    return result;
}

DIT_INTERNAL void diti_stage_destroy(diti_stage *stage) {
    diti_device *device;
    uint32_t i;
    if (!stage) return;
    device = stage->device;
    if (stage->submitted && diti_timeline_wait(device, stage->timeline, stage->submitted, UINT64_MAX, NULL) != DIT_OK)
        diti_queue_idle(device); /* copies that still run must not be freed */
    for (i = 0; i < DITI_STAGE_BUFFERS; i++) {
        diti_trace_close(&stage->buffers[i].scope, (double)stage->buffers[i].used);
        diti_buffer_destroy(device, &stage->buffers[i].buffer);
    }
    diti_destroy_Semaphore(device, stage->timeline);
    diti_destroy_CommandPool(device, stage->pool);
    diti_free(&device->env, stage);
}

/* Ends the trace's spans of copies that are over. */
static dit_result diti_stage_poll(diti_stage *stage, dit_error *err) {
    diti_trace_scope none = DITI_ZERO;
    uint32_t i;
    dit_result result = diti_timeline_value(stage->device, stage->timeline, &stage->finished, err);
    for (i = 0; i < DITI_STAGE_BUFFERS && result >= 0; i++) {
        diti_stage_buffer *buffer = &stage->buffers[i];
        if (!buffer->scope.trace || buffer->value > stage->finished) continue;
        diti_trace_close(&buffer->scope, (double)buffer->used);
        buffer->scope = none;
    }
    return result;
}

DIT_INTERNAL dit_result diti_stage_wait(diti_stage *stage, uint64_t value, bool wait, dit_error *err) {
    dit_result result;
    if (value <= stage->finished) return DIT_OK;
    if (value > stage->submitted) {
        DITI_TRY(diti_stage_submit(stage, err));
    }
    if (wait) {
        DITI_TRY(diti_timeline_wait(stage->device, stage->timeline, value, UINT64_MAX, err));
    }
    result = diti_stage_poll(stage, err);
    return result < 0 || value <= stage->finished ? result : DIT_WORKING;
}

DIT_INTERNAL bool diti_stage_lost(const diti_stage *stage, uint64_t value) {
    return value > stage->submitted && !stage->buffers[stage->current].open;
}

/* The copies behind it come after those before it, which may have written the same bytes for nobody to read: the host
   waited for them, but has made nothing visible. */
static void diti_stage_barrier(const diti_stage *stage, VkCommandBuffer commands) {
    VkMemoryBarrier barrier = DITI_ZERO;
    barrier.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER;
    barrier.srcAccessMask = VK_ACCESS_TRANSFER_WRITE_BIT;
    barrier.dstAccessMask = VK_ACCESS_TRANSFER_WRITE_BIT;
    stage->device->vk.CmdPipelineBarrier(commands, VK_PIPELINE_STAGE_TRANSFER_BIT, VK_PIPELINE_STAGE_TRANSFER_BIT, 0, 1,
                                         &barrier, 0, NULL, 0, NULL);
}

static dit_result diti_stage_open(diti_stage *stage, bool wait, dit_error *err) {
    diti_stage_buffer *buffer = &stage->buffers[stage->current];
    VkCommandBufferBeginInfo info = DITI_ZERO;
    dit_result result;
    VkResult vr;
    if (buffer->open) return DIT_OK;
    result = diti_stage_wait(stage, buffer->value, wait, err);
    if (result != DIT_OK) return result;
    info.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO;
    info.flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT;
    vr = stage->device->vk.BeginCommandBuffer(buffer->commands, &info);
    if (vr < 0) return diti_device_fail(stage->device, vr, "vkBeginCommandBuffer", err);
    diti_stage_barrier(stage, buffer->commands);
    buffer->open = true;
    buffer->used = 0;
    buffer->value = stage->submitted + 1;
    return DIT_OK;
}

DIT_INTERNAL dit_result diti_stage_room(diti_stage *stage, VkDeviceSize size, bool wait, void **out, dit_error *err) {
    diti_stage_buffer *buffer = &stage->buffers[stage->current];
    dit_result result;
    if (buffer->open && size > stage->bytes - buffer->used) DITI_TRY(diti_stage_submit(stage, err));
    result = diti_stage_open(stage, wait, err);
    if (result != DIT_OK) return result;
    buffer = &stage->buffers[stage->current];
    *out = (unsigned char *)buffer->buffer.block.mapped + buffer->used;
    return DIT_OK;
}

DIT_INTERNAL uint64_t diti_stage_put(diti_stage *stage, VkBuffer target, VkDeviceSize offset, VkDeviceSize size) {
    diti_stage_buffer *buffer = &stage->buffers[stage->current];
    VkBufferCopy region = DITI_ZERO;
    region.srcOffset = buffer->used;
    region.dstOffset = offset;
    region.size = size;
    stage->device->vk.CmdCopyBuffer(buffer->commands, buffer->buffer.buffer, target, 1, &region);
    buffer->used = diti_align_up(buffer->used + size, 16);
    if (buffer->used > stage->bytes) buffer->used = stage->bytes;
    return buffer->value;
}

DIT_INTERNAL dit_result diti_stage_submit(diti_stage *stage, dit_error *err) {
    diti_stage_buffer *buffer = &stage->buffers[stage->current];
    uint64_t value = buffer->value;
    diti_submission submission = DITI_ZERO;
    VkResult vr;
    if (!buffer->open) return DIT_OK;
    buffer->open = false;
    buffer->value = 0; /* where this fails, there is nothing to wait for */
    diti_buffer_flush(stage->device, &buffer->buffer);
    vr = stage->device->vk.EndCommandBuffer(buffer->commands);
    if (vr < 0) return diti_device_fail(stage->device, vr, "vkEndCommandBuffer", err);
    submission.queue = stage->queue;
    submission.commands = &buffer->commands;
    submission.count = 1;
    submission.signal = stage->timeline;
    submission.signal_value = value;
    buffer->scope = diti_trace_open(stage->device->trace, DITI_TRACK_COPY, "to device");
    DITI_TRY(diti_submit_after(stage->device, &submission, err));
    buffer->value = stage->submitted = value;
    stage->current = (stage->current + 1) % DITI_STAGE_BUFFERS;
    return DIT_OK;
}
