/* Memory that two devices have in common: exported by one and imported by the other, or pages of the host that both
   import. Every way is offered only where the drivers say that they can; whether the bytes arrive is for a test. */
#include "vk/vk.h"
#if !defined(_WIN32)
#include <unistd.h>
static void diti_share_close(int fd) { close(fd); }
#else
static void diti_share_close(int fd) { (void)fd; }
#endif

static VkExternalMemoryHandleTypeFlagBits diti_share_handle(diti_memory_sharing share) {
    switch (share) {
    case DITI_SHARING_DMA_BUF: return VK_EXTERNAL_MEMORY_HANDLE_TYPE_DMA_BUF_BIT_EXT;
    case DITI_SHARING_HOST: return VK_EXTERNAL_MEMORY_HANDLE_TYPE_HOST_ALLOCATION_BIT_EXT;
    default: return VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT;
    }
}

/* Opaque descriptors: a driver may take what another one exported and read rubbish from it. */
static bool diti_share_same_driver(const diti_device *a, const diti_device *b) {
    return !memcmp(a->driver_uuid, b->driver_uuid, sizeof a->driver_uuid) &&
           !memcmp(a->info.uuid, b->info.uuid, sizeof a->info.uuid);
}

static const VkBufferUsageFlags diti_share_usage = VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT;

static bool diti_share_has(const diti_device *device, diti_memory_sharing share,
                           VkExternalMemoryFeatureFlags features) {
    VkPhysicalDeviceExternalBufferInfo info = DITI_ZERO;
    VkExternalBufferProperties properties = DITI_ZERO;
    PFN_vkGetPhysicalDeviceExternalBufferProperties ask =
        (PFN_vkGetPhysicalDeviceExternalBufferProperties)device->vk.GetInstanceProcAddr(
            device->instance, "vkGetPhysicalDeviceExternalBufferProperties");
    if (!device->shares[share] || !ask) return false;
    info.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_EXTERNAL_BUFFER_INFO;
    info.usage = diti_share_usage;
    info.handleType = diti_share_handle(share);
    properties.sType = VK_STRUCTURE_TYPE_EXTERNAL_BUFFER_PROPERTIES;
    ask(device->physical, &info, &properties);
    return (properties.externalMemoryProperties.externalMemoryFeatures & features) == features &&
           (properties.externalMemoryProperties.compatibleHandleTypes & (VkFlags)info.handleType);
}

DIT_INTERNAL bool diti_share_possible(const diti_device *a, const diti_device *b, diti_memory_sharing share) {
    VkExternalMemoryFeatureFlags imports = VK_EXTERNAL_MEMORY_FEATURE_IMPORTABLE_BIT;
    VkExternalMemoryFeatureFlags export_too = VK_EXTERNAL_MEMORY_FEATURE_EXPORTABLE_BIT;
    if (share == DITI_SHARING_HOST) export_too = imports;
    if (share == DITI_SHARING_GROUP) return diti_device_group_reaches(a, b);
    if (share == DITI_SHARING_FD && !diti_share_same_driver(a, b)) return false;
    return diti_share_has(a, share, export_too) && diti_share_has(b, share, imports);
}

static dit_result diti_shared_buffer(diti_device *device, diti_memory_sharing share, VkDeviceSize size,
                                     diti_buffer *out, VkMemoryRequirements *need, dit_error *err) {
    VkExternalMemoryBufferCreateInfo external = DITI_ZERO;
    VkBufferCreateInfo info = DITI_ZERO;
    VkResult vr;
    external.sType = VK_STRUCTURE_TYPE_EXTERNAL_MEMORY_BUFFER_CREATE_INFO;
    external.handleTypes = (VkFlags)diti_share_handle(share);
    info.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO;
    info.pNext = share == DITI_SHARING_GROUP ? NULL : &external;
    info.size = size;
    info.usage = diti_share_usage;
    vr = device->vk.CreateBuffer(device->device, &info, device->callbacks, &out->buffer);
    if (vr < 0) {
        out->buffer = VK_NULL_HANDLE;
        return diti_device_fail(device, vr, "vkCreateBuffer of shared memory", err);
    }
    out->size = size;
    device->vk.GetBufferMemoryRequirements(device->device, out->buffer, need);
    return DIT_OK;
}

/* pNext: where the memory comes from, or that it is to be exported. */
static dit_result diti_shared_allocate(diti_device *device, diti_memory_sharing share, VkDeviceSize size,
                                       uint32_t types, const void *pNext, diti_buffer *out, dit_error *err) {
    VkMemoryDedicatedAllocateInfo dedicated = DITI_ZERO;
    VkMemoryAllocateFlagsInfo mask;
    VkMemoryAllocateInfo info = DITI_ZERO;
    bool dedicates = share == DITI_SHARING_FD || share == DITI_SHARING_DMA_BUF; /* false: two buffers, or pages */
    VkResult vr;
    if (!diti_memory_type(device, types, share == DITI_SHARING_HOST ? DITI_MEMORY_UPLOAD : DITI_MEMORY_DEVICE,
                          &info.memoryTypeIndex))
        return diti_fail(err, DIT_ERROR_UNSUPPORTED_DEVICE, "%s has no memory type for shared memory",
                         device->info.name);
    dedicated.sType = VK_STRUCTURE_TYPE_MEMORY_DEDICATED_ALLOCATE_INFO;
    dedicated.pNext = pNext;
    dedicated.buffer = out->buffer;
    info.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO;
    info.pNext = diti_device_group_mask(device, &mask, dedicates ? &dedicated : pNext);
    info.allocationSize = size;
    vr = device->vk.AllocateMemory(device->device, &info, device->callbacks, &out->block.memory);
    if (vr < 0) {
        out->block.memory = VK_NULL_HANDLE;
        return diti_device_fail(device, vr, "vkAllocateMemory of shared memory", err);
    }
    vr = device->vk.BindBufferMemory(device->device, out->buffer, out->block.memory, 0);
    return vr < 0 ? diti_device_fail(device, vr, "vkBindBufferMemory of shared memory", err) : DIT_OK;
}

/* --- by file descriptor --- */

static dit_result diti_shared_export(diti_device *device, const diti_buffer *from, diti_memory_sharing share, int *fd,
                                     dit_error *err) {
    PFN_vkGetMemoryFdKHR get = (PFN_vkGetMemoryFdKHR)device->vk.GetDeviceProcAddr(device->device, "vkGetMemoryFdKHR");
    VkMemoryGetFdInfoKHR info = DITI_ZERO;
    VkResult vr;
    info.sType = VK_STRUCTURE_TYPE_MEMORY_GET_FD_INFO_KHR;
    info.memory = from->block.memory;
    info.handleType = diti_share_handle(share);
    vr = get ? get(device->device, &info, fd) : VK_ERROR_EXTENSION_NOT_PRESENT;
    return vr < 0 ? diti_device_fail(device, vr, "vkGetMemoryFdKHR", err) : DIT_OK;
}

/* The memory types that a descriptor fits; those of an opaque one are what they were at home. */
static uint32_t diti_shared_types(const diti_device *device, diti_memory_sharing share, int fd) {
    PFN_vkGetMemoryFdPropertiesKHR ask =
        (PFN_vkGetMemoryFdPropertiesKHR)device->vk.GetDeviceProcAddr(device->device, "vkGetMemoryFdPropertiesKHR");
    VkMemoryFdPropertiesKHR properties = DITI_ZERO;
    if (share == DITI_SHARING_FD) return UINT32_MAX;
    properties.sType = VK_STRUCTURE_TYPE_MEMORY_FD_PROPERTIES_KHR;
    if (!ask || ask(device->device, diti_share_handle(share), fd, &properties) < 0) return 0;
    return properties.memoryTypeBits;
}

static dit_result diti_shared_by_fd(diti_device *a, diti_device *b, diti_memory_sharing share, diti_shared *out,
                                    const VkMemoryRequirements *need, dit_error *err) {
    VkExportMemoryAllocateInfo to_export = DITI_ZERO;
    VkImportMemoryFdInfoKHR to_import = DITI_ZERO;
    dit_result result;
    int fd = -1;
    to_export.sType = VK_STRUCTURE_TYPE_EXPORT_MEMORY_ALLOCATE_INFO;
    to_export.handleTypes = (VkFlags)diti_share_handle(share);
    DITI_TRY(diti_shared_allocate(a, share, need[0].size, need[0].memoryTypeBits, &to_export, &out->buffers[0], err));
    DITI_TRY(diti_shared_export(a, &out->buffers[0], share, &fd, err));
    to_import.sType = VK_STRUCTURE_TYPE_IMPORT_MEMORY_FD_INFO_KHR;
    to_import.handleType = diti_share_handle(share);
    to_import.fd = fd;
    result = diti_shared_allocate(b, share, need[0].size, need[1].memoryTypeBits & diti_shared_types(b, share, fd),
                                  &to_import, &out->buffers[1], err);
    if (!out->buffers[1].block.memory) diti_share_close(fd); /* an import makes it the driver's */
    return result;
}

/* --- pages of the host --- */

static VkDeviceSize diti_shared_alignment(const diti_device *device) {
    VkPhysicalDeviceExternalMemoryHostPropertiesEXT host = DITI_ZERO;
    VkPhysicalDeviceProperties2 properties = DITI_ZERO;
    host.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_EXTERNAL_MEMORY_HOST_PROPERTIES_EXT;
    properties.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2;
    properties.pNext = &host;
    device->vk.GetPhysicalDeviceProperties2(device->physical, &properties);
    return host.minImportedHostPointerAlignment;
}

static dit_result diti_shared_import_pages(diti_device *device, void *pages, VkDeviceSize size,
                                           const VkMemoryRequirements *need, diti_buffer *out, dit_error *err) {
    PFN_vkGetMemoryHostPointerPropertiesEXT ask = (PFN_vkGetMemoryHostPointerPropertiesEXT)device->vk.GetDeviceProcAddr(
        device->device, "vkGetMemoryHostPointerPropertiesEXT");
    VkMemoryHostPointerPropertiesEXT properties = DITI_ZERO;
    VkImportMemoryHostPointerInfoEXT info = DITI_ZERO;
    VkResult vr;
    properties.sType = VK_STRUCTURE_TYPE_MEMORY_HOST_POINTER_PROPERTIES_EXT;
    info.sType = VK_STRUCTURE_TYPE_IMPORT_MEMORY_HOST_POINTER_INFO_EXT;
    info.handleType = diti_share_handle(DITI_SHARING_HOST);
    info.pHostPointer = pages;
    vr = ask ? ask(device->device, info.handleType, pages, &properties) : VK_ERROR_EXTENSION_NOT_PRESENT;
    if (vr < 0) return diti_device_fail(device, vr, "vkGetMemoryHostPointerPropertiesEXT", err);
    return diti_shared_allocate(device, DITI_SHARING_HOST, size, need->memoryTypeBits & properties.memoryTypeBits,
                                &info, out, err);
}

static dit_result diti_shared_by_pages(diti_device *a, diti_device *b, diti_shared *out,
                                       const VkMemoryRequirements *need, dit_error *err) {
    VkDeviceSize align = diti_shared_alignment(a), other = diti_shared_alignment(b), size = need[0].size;
    unsigned char *pages;
    if (other > align) align = other;
    if (need[1].size > size) size = need[1].size;
    if (align == 0 || align > 1u << 20)
        return diti_fail(err, DIT_ERROR_UNSUPPORTED_DEVICE, "no pages of the host suit both devices");
    size = (size + align - 1) / align * align;
    out->pages = diti_alloc(&a->env, (size_t)(size + align));
    if (!out->pages) return diti_fail_memory(err, "shared pages");
    pages = (unsigned char *)out->pages + (align - (uintptr_t)out->pages % align) % align;
    DITI_TRY(diti_shared_import_pages(a, pages, size, &need[0], &out->buffers[0], err));
    return diti_shared_import_pages(b, pages, size, &need[1], &out->buffers[1], err);
}

/* --- between members of a device group: on the receiving one --- */

static dit_result diti_shared_by_group(diti_device *a, diti_device *b, diti_shared *out,
                                       const VkMemoryRequirements *need, dit_error *err) {
    DITI_TRY(diti_shared_allocate(b, DITI_SHARING_GROUP, need[1].size, need[0].memoryTypeBits & need[1].memoryTypeBits,
                                  NULL, &out->buffers[1], err));
    return diti_device_group_bind(a, &out->buffers[0], b, out->buffers[1].block.memory, err);
}

/* --- all --- */

static dit_result diti_shared_make(diti_device *a, diti_device *b, diti_memory_sharing share, VkDeviceSize size,
                                   diti_shared *out, dit_error *err) {
    VkMemoryRequirements need[2];
    DITI_TRY(diti_shared_buffer(a, share, size, &out->buffers[0], &need[0], err));
    DITI_TRY(diti_shared_buffer(b, share, size, &out->buffers[1], &need[1], err));
    if (share == DITI_SHARING_HOST) return diti_shared_by_pages(a, b, out, need, err);
    if (share == DITI_SHARING_GROUP) return diti_shared_by_group(a, b, out, need, err);
    return diti_shared_by_fd(a, b, share, out, need, err);
}

DIT_INTERNAL dit_result diti_shared_create(diti_device *a, diti_device *b, diti_memory_sharing share, VkDeviceSize size,
                                           diti_shared *out, dit_error *err) {
    dit_result result;
    memset(out, 0, sizeof *out);
    result = diti_shared_make(a, b, share, size, out, err);
    if (result < 0) diti_shared_destroy(a, b, out);
    return result;
}

static void diti_shared_free(diti_device *device, const diti_buffer *buffer) {
    diti_destroy_Buffer(device, buffer->buffer);
    diti_destroy_memory(device, buffer->block.memory);
}

DIT_INTERNAL void diti_shared_destroy(diti_device *a, diti_device *b, diti_shared *shared) {
    diti_shared_free(a, &shared->buffers[0]);
    diti_shared_free(b, &shared->buffers[1]);
    diti_destroy_pages(a, b, shared->pages);
    memset(shared, 0, sizeof *shared);
}

/* --- timelines --- */

static bool diti_timeline_has(const diti_device *device, VkExternalSemaphoreFeatureFlags features) {
    PFN_vkGetPhysicalDeviceExternalSemaphoreProperties ask =
        (PFN_vkGetPhysicalDeviceExternalSemaphoreProperties)device->vk.GetInstanceProcAddr(
            device->instance, "vkGetPhysicalDeviceExternalSemaphoreProperties");
    VkExternalSemaphoreProperties properties = DITI_ZERO;
    VkPhysicalDeviceExternalSemaphoreInfo info = DITI_ZERO;
    VkSemaphoreTypeCreateInfo type = DITI_ZERO;
    if (!device->shares[DITI_SHARING_TIMELINE] || !ask) return false;
    type.sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO;
    type.semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE;
    info.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_EXTERNAL_SEMAPHORE_INFO;
    info.pNext = &type;
    info.handleType = VK_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD_BIT;
    properties.sType = VK_STRUCTURE_TYPE_EXTERNAL_SEMAPHORE_PROPERTIES;
    ask(device->physical, &info, &properties);
    return (properties.externalSemaphoreFeatures & features) == features;
}

DIT_INTERNAL bool diti_timeline_shareable(const diti_device *signals, const diti_device *waits) {
    return diti_share_same_driver(signals, waits) &&
           diti_timeline_has(signals, VK_EXTERNAL_SEMAPHORE_FEATURE_EXPORTABLE_BIT) &&
           diti_timeline_has(waits, VK_EXTERNAL_SEMAPHORE_FEATURE_IMPORTABLE_BIT);
}

static dit_result diti_timeline_make(diti_device *device, bool exported, VkSemaphore *out, dit_error *err) {
    VkExportSemaphoreCreateInfo to_export = DITI_ZERO;
    VkSemaphoreTypeCreateInfo type = DITI_ZERO;
    VkSemaphoreCreateInfo info = DITI_ZERO;
    VkResult vr;
    to_export.sType = VK_STRUCTURE_TYPE_EXPORT_SEMAPHORE_CREATE_INFO;
    to_export.handleTypes = VK_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD_BIT;
    type.sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO;
    type.pNext = exported ? &to_export : NULL;
    type.semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE;
    info.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO;
    info.pNext = &type;
    vr = device->vk.CreateSemaphore(device->device, &info, device->callbacks, out);
    if (vr >= 0) return DIT_OK;
    *out = VK_NULL_HANDLE;
    return diti_device_fail(device, vr, "vkCreateSemaphore", err);
}

DIT_INTERNAL dit_result diti_timeline_create_shared(diti_device *signals, diti_device *waits, VkSemaphore out[2],
                                                    dit_error *err) {
    PFN_vkGetSemaphoreFdKHR get =
        (PFN_vkGetSemaphoreFdKHR)signals->vk.GetDeviceProcAddr(signals->device, "vkGetSemaphoreFdKHR");
    PFN_vkImportSemaphoreFdKHR import =
        (PFN_vkImportSemaphoreFdKHR)waits->vk.GetDeviceProcAddr(waits->device, "vkImportSemaphoreFdKHR");
    VkSemaphoreGetFdInfoKHR from = DITI_ZERO;
    VkImportSemaphoreFdInfoKHR to = DITI_ZERO;
    VkResult vr;
    DITI_TRY(diti_timeline_make(signals, true, &out[0], err));
    DITI_TRY(diti_timeline_make(waits, false, &out[1], err));
    from.sType = VK_STRUCTURE_TYPE_SEMAPHORE_GET_FD_INFO_KHR;
    from.semaphore = out[0];
    from.handleType = VK_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD_BIT;
    to.sType = VK_STRUCTURE_TYPE_IMPORT_SEMAPHORE_FD_INFO_KHR;
    to.semaphore = out[1];
    to.handleType = from.handleType;
    vr = get ? get(signals->device, &from, &to.fd) : VK_ERROR_EXTENSION_NOT_PRESENT;
    if (vr < 0) return diti_device_fail(signals, vr, "vkGetSemaphoreFdKHR", err);
    vr = import ? import(waits->device, &to) : VK_ERROR_EXTENSION_NOT_PRESENT;
    if (vr >= 0) return DIT_OK;
    diti_share_close(to.fd);
    return diti_device_fail(waits, vr, "vkImportSemaphoreFdKHR", err);
}

DIT_INTERNAL bool diti_device_group_reaches(const diti_device *from, const diti_device *to) {
    PFN_vkGetDeviceGroupPeerMemoryFeatures ask;
    VkPeerMemoryFeatureFlags features = 0;
    uint32_t type;
    if (!from->group_count || from->device != to->device || from->group_index == to->group_index) return false;
    ask = (PFN_vkGetDeviceGroupPeerMemoryFeatures)from->vk.GetDeviceProcAddr(from->device,
                                                                             "vkGetDeviceGroupPeerMemoryFeatures");
    if (!ask || !diti_memory_type(to, UINT32_MAX, DITI_MEMORY_DEVICE, &type)) return false;
    ask(from->device, to->memory.memoryTypes[type].heapIndex, from->group_index, to->group_index, &features);
    return (features & VK_PEER_MEMORY_FEATURE_COPY_DST_BIT) != 0;
}

DIT_INTERNAL dit_result diti_device_group_bind(diti_device *device, const diti_buffer *buffer, const diti_device *home,
                                               VkDeviceMemory memory, dit_error *err) {
    PFN_vkBindBufferMemory2 bind =
        (PFN_vkBindBufferMemory2)device->vk.GetDeviceProcAddr(device->device, "vkBindBufferMemory2");
    VkBindBufferMemoryDeviceGroupInfo group = DITI_ZERO;
    VkBindBufferMemoryInfo info = DITI_ZERO;
    uint32_t homes[DITI_MAX_DEVICES], i;
    VkResult vr;
    for (i = 0; i < device->group_count; i++) homes[i] = home->group_index;
    group.sType = VK_STRUCTURE_TYPE_BIND_BUFFER_MEMORY_DEVICE_GROUP_INFO;
    group.deviceIndexCount = device->group_count;
    group.pDeviceIndices = homes;
    info.sType = VK_STRUCTURE_TYPE_BIND_BUFFER_MEMORY_INFO;
    info.pNext = &group;
    info.buffer = buffer->buffer;
    info.memory = memory;
    vr = bind ? bind(device->device, 1, &info) : VK_ERROR_EXTENSION_NOT_PRESENT;
    return vr < 0 ? diti_device_fail(device, vr, "vkBindBufferMemory2 of another device's memory", err) : DIT_OK;
}
