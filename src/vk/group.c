/* Device groups: several physical devices behind one VkDevice. Each of them is a device of its own here: what belongs
   to it is allocated on it alone, its command buffers run on it alone. The first that is opened makes the VkDevice, and
   the others use it. No driver that dit was tested with has a group of more than one, so this is off unless asked for.
 */
#include "vk/vk.h"

DIT_INTERNAL void diti_device_group_find(diti_device *device) {
    PFN_vkEnumeratePhysicalDeviceGroups list = (PFN_vkEnumeratePhysicalDeviceGroups)device->vk.GetInstanceProcAddr(
        device->instance, "vkEnumeratePhysicalDeviceGroups");
    VkPhysicalDeviceGroupProperties groups[DITI_MAX_DEVICES];
    uint32_t i, k, count = DITI_MAX_DEVICES;
    for (i = 0; i < DITI_MAX_DEVICES; i++) {
        memset(&groups[i], 0, sizeof groups[i]);
        groups[i].sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_GROUP_PROPERTIES;
    }
    if (!list || list(device->instance, &count, groups) < 0) return;
    for (i = 0; i < count; i++) {
        for (k = 0; k < groups[i].physicalDeviceCount && k < DITI_MAX_DEVICES; k++) {
            if (groups[i].physicalDevices[k] != device->physical || groups[i].physicalDeviceCount < 2) continue;
            device->group_index = k;
            device->group_count =
                groups[i].physicalDeviceCount < DITI_MAX_DEVICES ? groups[i].physicalDeviceCount : DITI_MAX_DEVICES;
            memcpy(device->group, groups[i].physicalDevices, sizeof device->group);
        }
    }
}

static void diti_device_group_lock(void *user) { diti_lock(&((diti_device *)user)->queue_lock); }
static void diti_device_group_unlock(void *user) { diti_unlock(&((diti_device *)user)->queue_lock); }

DIT_INTERNAL bool diti_device_group_join(diti_device *device, diti_device *leader) {
    if (!device->group_count || leader->group_count != device->group_count ||
        memcmp(leader->group, device->group, device->group_count * sizeof *device->group))
        return false;
    device->device = leader->device;
    device->queue = leader->queue;
    device->queue_family = leader->queue_family;
    device->transfer_queue = leader->transfer_queue;
    device->transfer_family = leader->transfer_family;
    device->lock_queue = diti_device_group_lock;
    device->unlock_queue = diti_device_group_unlock;
    device->lock_user = leader;
    device->joined = true;
    memcpy(device->shares, leader->shares, sizeof device->shares);
    return true;
}

DIT_INTERNAL const void *diti_device_group_mask(const diti_device *device, VkMemoryAllocateFlagsInfo *info,
                                                const void *next) {
    if (!device->group_count) return next;
    memset(info, 0, sizeof *info);
    info->sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO;
    info->pNext = next;
    info->flags = VK_MEMORY_ALLOCATE_DEVICE_MASK_BIT;
    info->deviceMask = 1u << device->group_index;
    return info;
}

DIT_INTERNAL VkResult diti_device_group_submit(const diti_device *device, VkQueue queue, const VkSubmitInfo *info) {
    uint32_t waits[DITI_MAX_WAITS], commands[DITI_GROUP_COMMANDS], i;
    VkDeviceGroupSubmitInfo masks = DITI_ZERO;
    VkSubmitInfo whole = *info;
    if (!device->group_count) return device->vk.QueueSubmit(queue, 1, info, VK_NULL_HANDLE);
    if (info->commandBufferCount > DITI_GROUP_COMMANDS) return VK_ERROR_TOO_MANY_OBJECTS;
    for (i = 0; i < info->waitSemaphoreCount; i++) waits[i] = device->group_index;
    for (i = 0; i < info->commandBufferCount; i++) commands[i] = 1u << device->group_index;
    masks.sType = VK_STRUCTURE_TYPE_DEVICE_GROUP_SUBMIT_INFO;
    masks.pNext = info->pNext;
    masks.waitSemaphoreCount = info->waitSemaphoreCount;
    masks.pWaitSemaphoreDeviceIndices = waits;
    masks.commandBufferCount = info->commandBufferCount;
    masks.pCommandBufferDeviceMasks = commands;
    masks.signalSemaphoreCount = info->signalSemaphoreCount;
    masks.pSignalSemaphoreDeviceIndices = &device->group_index;
    whole.pNext = &masks;
    return device->vk.QueueSubmit(queue, 1, &whole, VK_NULL_HANDLE);
}
