/* A queue for one thread at a time, timelines, and what a failing call means for the device. */
#include "vk/vk.h"

DIT_INTERNAL void diti_queue_lock(diti_device *device) {
    if (device->lock_queue)
        device->lock_queue(device->lock_user);
    else
        diti_lock(&device->queue_lock);
}

DIT_INTERNAL void diti_queue_unlock(diti_device *device) {
    if (device->unlock_queue)
        device->unlock_queue(device->lock_user);
    else
        diti_unlock(&device->queue_lock);
}

DIT_INTERNAL dit_result diti_device_blame(const diti_device *device, dit_result result, dit_error *err) {
    if (err) err->device = device->ordinal + 1;
    return result;
}

static dit_result diti_device_lost(const diti_device *device, dit_error *err) {
    char which[16] = "";
    dit_result result;
    if (device->has_peers) diti_format(which, sizeof which, " %u", device->ordinal);
    result = diti_fail_vk(err, VK_ERROR_DEVICE_LOST, "the Vulkan device%s (%s) was lost; make a new context to go on",
                          which, device->info.name);
    return diti_device_blame(device, result, err);
}

DIT_INTERNAL dit_result diti_device_check(diti_device *device, dit_error *err) {
    return diti_atomic_load(&device->lost) ? diti_device_lost(device, err) : DIT_OK;
}

/* Every failing call on the device passes here, so that a loss is remembered whoever met it first. */
DIT_INTERNAL dit_result diti_device_fail(diti_device *device, VkResult vr, const char *call, dit_error *err) {
    if (vr == VK_ERROR_DEVICE_LOST) {
        diti_atomic_store(&device->lost, 1);
        return diti_device_lost(device, err);
    }
    if (device->has_peers)
        return diti_device_blame(
            device,
            diti_fail_vk(err, vr, "device %u (%s): %s: %s", device->ordinal, device->info.name, call, diti_vk_name(vr)),
            err);
    return diti_device_blame(device, diti_fail_vk(err, vr, "%s: %s", call, diti_vk_name(vr)), err);
}

DIT_INTERNAL dit_result diti_timeline_create(diti_device *device, VkSemaphore *out, dit_error *err) {
    VkSemaphoreTypeCreateInfo type = DITI_ZERO;
    VkSemaphoreCreateInfo info = DITI_ZERO;
    VkResult vr;
    type.sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO;
    type.semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE;
    info.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO;
    info.pNext = &type;
    vr = device->vk.CreateSemaphore(device->device, &info, device->callbacks, out);
    return vr < 0 ? diti_device_fail(device, vr, "vkCreateSemaphore", err) : DIT_OK;
}

/* Drivers may say of a timeline of a lost device that all is done: its value is then the largest that there is. */
DIT_INTERNAL VkResult diti_timeline_counter(diti_device *device, VkSemaphore timeline, uint64_t *out) {
    VkResult vr = device->vk.GetSemaphoreCounterValue(device->device, timeline, out);
    return vr == VK_SUCCESS && *out == UINT64_MAX ? VK_ERROR_DEVICE_LOST : vr;
}

DIT_INTERNAL dit_result diti_timeline_value(diti_device *device, VkSemaphore timeline, uint64_t *out, dit_error *err) {
    VkResult vr;
    DITI_TRY(diti_device_check(device, err));
    vr = diti_timeline_counter(device, timeline, out);
    return vr < 0 ? diti_device_fail(device, vr, "vkGetSemaphoreCounterValue", err) : DIT_OK;
}
