#include "vk/vk.h"

/* Copies between host and device that wait. Mapped memory is copied directly, the rest in chunks through one staging
   buffer that the device keeps. */

static dit_result diti_transfer_check(const diti_buffer *buffer, VkDeviceSize offset, VkDeviceSize size,
                                      dit_error *err) {
    if (size <= buffer->size && offset <= buffer->size - size) return DIT_OK;
    return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "bytes %llu to %llu are outside a buffer of %llu",
                     (unsigned long long)offset, (unsigned long long)(offset + size), (unsigned long long)buffer->size);
}

/* Two threads may copy at once: the second finds the slot empty and makes a staging buffer of its own. */
static dit_result diti_staging_take(diti_device *device, diti_buffer *out, dit_error *err) {
    VkDeviceSize room = diti_memory_host_room(device), size = device->staging_slot;
    diti_lock(&device->lock);
    *out = device->staging;
    memset(&device->staging, 0, sizeof device->staging);
    diti_unlock(&device->lock);
    if (out->buffer) return DIT_OK;
    if (size > room) size = room > DITI_STAGING_MIN ? room : DITI_STAGING_MIN;
    return diti_buffer_create(device, size, DITI_MEMORY_READBACK, "the staging buffer", out, err);
}

static void diti_staging_give(diti_device *device, diti_buffer *staging) {
    diti_lock(&device->lock);
    if (!device->staging.buffer) {
        device->staging = *staging;
        memset(staging, 0, sizeof *staging);
    }
    diti_unlock(&device->lock);
    diti_buffer_destroy(device, staging);
}

DIT_INTERNAL void diti_staging_free(diti_device *device) { diti_buffer_destroy(device, &device->staging); }

static void diti_transfer_barrier(diti_device *device, VkCommandBuffer commands, VkPipelineStageFlags from,
                                  VkAccessFlags from_access, VkPipelineStageFlags to, VkAccessFlags to_access) {
    VkMemoryBarrier barrier = DITI_ZERO;
    barrier.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER;
    barrier.srcAccessMask = from_access;
    barrier.dstAccessMask = to_access;
    device->vk.CmdPipelineBarrier(commands, from, to, 0, 1, &barrier, 0, NULL, 0, NULL);
}

typedef struct diti_transfer {
    VkBuffer from, to;
    VkBufferCopy region;
} diti_transfer;

static void diti_transfer_record(diti_device *device, VkCommandBuffer commands, void *user) {
    const diti_transfer *transfer = (const diti_transfer *)user;
    diti_transfer_barrier(device, commands, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT, VK_ACCESS_MEMORY_WRITE_BIT,
                          VK_PIPELINE_STAGE_TRANSFER_BIT, VK_ACCESS_TRANSFER_READ_BIT | VK_ACCESS_TRANSFER_WRITE_BIT);
    device->vk.CmdCopyBuffer(commands, transfer->from, transfer->to, 1, &transfer->region);
    diti_transfer_barrier(device, commands, VK_PIPELINE_STAGE_TRANSFER_BIT, VK_ACCESS_TRANSFER_WRITE_BIT,
                          VK_PIPELINE_STAGE_ALL_COMMANDS_BIT | VK_PIPELINE_STAGE_HOST_BIT,
                          VK_ACCESS_MEMORY_READ_BIT | VK_ACCESS_MEMORY_WRITE_BIT | VK_ACCESS_HOST_READ_BIT);
}

static dit_result diti_transfer_run(diti_device *device, VkBuffer from, VkDeviceSize from_offset, VkBuffer to,
                                    VkDeviceSize to_offset, VkDeviceSize size, dit_error *err) {
    diti_transfer transfer = DITI_ZERO;
    transfer.from = from;
    transfer.to = to;
    transfer.region.srcOffset = from_offset;
    transfer.region.dstOffset = to_offset;
    transfer.region.size = size;
    return diti_run_now(device, diti_transfer_record, &transfer, err);
}

static dit_result diti_transfer_write(diti_device *device, diti_buffer *buffer, VkDeviceSize offset,
                                      const unsigned char *data, VkDeviceSize size, dit_error *err) {
    diti_buffer staging = DITI_ZERO;
    VkDeviceSize done, part;
    dit_result result = diti_staging_take(device, &staging, err);
    for (done = 0; result >= 0 && done < size; done += part) {
        part = size - done < staging.size ? size - done : staging.size;
        memcpy(staging.block.mapped, data + done, (size_t)part);
        diti_buffer_flush(device, &staging);
        result = diti_transfer_run(device, staging.buffer, 0, buffer->buffer, offset + done, part, err);
    }
    diti_staging_give(device, &staging);
    return result;
}

static dit_result diti_transfer_read(diti_device *device, diti_buffer *buffer, VkDeviceSize offset, unsigned char *data,
                                     VkDeviceSize size, dit_error *err) {
    diti_buffer staging = DITI_ZERO;
    VkDeviceSize done, part;
    dit_result result = diti_staging_take(device, &staging, err);
    for (done = 0; result >= 0 && done < size; done += part) {
        part = size - done < staging.size ? size - done : staging.size;
        result = diti_transfer_run(device, buffer->buffer, offset + done, staging.buffer, 0, part, err);
        if (result < 0) break;
        diti_buffer_invalidate(device, &staging);
        memcpy(data + done, staging.block.mapped, (size_t)part);
    }
    diti_staging_give(device, &staging);
    return result;
}

static void diti_transfer_to_host(diti_device *device, VkCommandBuffer commands, void *user) {
    (void)user;
    diti_transfer_barrier(device, commands, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT, VK_ACCESS_MEMORY_WRITE_BIT,
                          VK_PIPELINE_STAGE_HOST_BIT, VK_ACCESS_HOST_READ_BIT);
}

static dit_result diti_transfer_to_device(diti_device *device, diti_buffer *buffer, VkDeviceSize offset,
                                          const void *data, VkDeviceSize size, dit_error *err) {
    if (!buffer->block.mapped) {
        return diti_transfer_write(device, buffer, offset, (const unsigned char *)data, size, err);
    }
    memcpy((unsigned char *)buffer->block.mapped + offset, data, (size_t)size);
    diti_buffer_flush(device, buffer);
    return DIT_OK;
}

/* Waiting alone does not make the device's writes visible to the host: a barrier to the host does, on any path. */
static dit_result diti_transfer_from_device(diti_device *device, diti_buffer *buffer, VkDeviceSize offset, void *data,
                                            VkDeviceSize size, dit_error *err) {
    if (!buffer->block.mapped) return diti_transfer_read(device, buffer, offset, (unsigned char *)data, size, err);
    DITI_TRY(diti_run_now(device, diti_transfer_to_host, NULL, err));
    diti_buffer_invalidate(device, buffer);
    memcpy(data, (const unsigned char *)buffer->block.mapped + offset, (size_t)size);
    return DIT_OK;
}

DIT_INTERNAL dit_result diti_buffer_write(diti_device *device, diti_buffer *buffer, VkDeviceSize offset,
                                          const void *data, VkDeviceSize size, dit_error *err) {
    diti_trace_scope scope;
    dit_result result;
    DITI_TRY(diti_transfer_check(buffer, offset, size, err));
    DITI_TRY(diti_device_check(device, err));
    if (!size) return DIT_OK;
    scope = diti_trace_open(device->trace, DITI_TRACK_COPY, "to device");
    result = diti_transfer_to_device(device, buffer, offset, data, size, err);
    diti_trace_close(&scope, (double)size);
    return result;
}

DIT_INTERNAL dit_result diti_buffer_read(diti_device *device, diti_buffer *buffer, VkDeviceSize offset, void *data,
                                         VkDeviceSize size, dit_error *err) {
    diti_trace_scope scope;
    dit_result result;
    DITI_TRY(diti_transfer_check(buffer, offset, size, err));
    if (!size) return DIT_OK;
    scope = diti_trace_open(device->trace, DITI_TRACK_COPY, "from device");
    result = diti_transfer_from_device(device, buffer, offset, data, size, err);
    diti_trace_close(&scope, (double)size);
    return result;
}
