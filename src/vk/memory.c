/* Device memory: kinds and limits of it, blocks, buffers within blocks, and how much of the host a device may pin. */
#include "vk/vk.h"

#define DITI_HOST_COHERENT (VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT)

/* --- limits --- */

static uint32_t diti_memory_largest_heap(const diti_device *device) {
    uint32_t i, best = 0;
    VkDeviceSize size = 0;
    for (i = 0; i < device->memory.memoryHeapCount; i++) {
        const VkMemoryHeap *heap = &device->memory.memoryHeaps[i];
        if (!(heap->flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT) || heap->size <= size) continue;
        size = heap->size;
        best = i;
    }
    return best;
}

/* The bytes of a heap that VK_EXT_memory_budget calls free; 0: unknown, or nothing is free. */
static VkDeviceSize diti_memory_free_budget(diti_device *device, uint32_t heap) {
    VkPhysicalDeviceMemoryBudgetPropertiesEXT budget = DITI_ZERO;
    VkPhysicalDeviceMemoryProperties2 memory = DITI_ZERO;
    if (!device->has_memory_budget) return 0;
    budget.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT;
    memory.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2;
    memory.pNext = &budget;
    device->vk.GetPhysicalDeviceMemoryProperties2(device->physical, &memory);
    if (budget.heapBudget[heap] <= budget.heapUsage[heap]) return 0;
    return budget.heapBudget[heap] - budget.heapUsage[heap];
}

/* One tensor gets half of the heap at most: what it is made from must fit, too. A driver that states 1 GiB or less
   gets half of that, since SwiftShader refuses exactly what it states. */
DIT_INTERNAL VkDeviceSize diti_memory_largest(VkDeviceSize allocation, VkDeviceSize buffer, VkDeviceSize heap) {
    VkDeviceSize largest = allocation <= (VkDeviceSize)1 << 30 ? allocation / 2 : allocation;
    if (buffer && buffer < largest) largest = buffer;
    return heap / 2 < largest ? heap / 2 : largest;
}

/* 90 % less 256 MB: drivers need room of their own, and Windows moves memory out to the host when the last of it is
   taken. Half of it where little is free. */
DIT_INTERNAL VkDeviceSize diti_memory_share(VkDeviceSize available) {
    VkDeviceSize headroom = available / 10 + ((VkDeviceSize)256 << 20);
    return available - (headroom < available / 2 ? headroom : available / 2);
}

DIT_INTERNAL void diti_memory_find(diti_device *device) {
    VkPhysicalDeviceMemoryProperties2 memory = DITI_ZERO;
    uint32_t i;
    memory.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2;
    device->vk.GetPhysicalDeviceMemoryProperties2(device->physical, &memory);
    device->memory = memory.memoryProperties;
    device->unified = true;
    for (i = 0; i < device->memory.memoryHeapCount; i++) {
        if (!(device->memory.memoryHeaps[i].flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT)) device->unified = false;
    }
    device->heap = device->memory.memoryHeaps[diti_memory_largest_heap(device)].size;
}

DIT_INTERNAL void diti_memory_init(diti_device *device, VkDeviceSize limit) {
    device->memory_limit =
        limit ? limit : diti_memory_share(diti_memory_free_budget(device, diti_memory_largest_heap(device)));
    if (!device->memory_limit) device->memory_limit = diti_memory_share(device->heap);
}

/* Host buffers take from the device's memory only where there is no other. */
static bool diti_memory_counts(const diti_device *device, diti_memory_kind kind) {
    return kind == DITI_MEMORY_DEVICE || device->unified;
}

static dit_result diti_memory_reserve(diti_device *device, VkDeviceSize size, const char *what, dit_error *err) {
    VkDeviceSize used;
    bool fits;
    diti_lock(&device->lock);
    used = device->memory_used;
    fits = size <= device->memory_limit && used <= device->memory_limit - size;
    if (fits) device->memory_used += size;
    diti_unlock(&device->lock);
    if (fits) return DIT_OK;
    return diti_fail(err, DIT_ERROR_OUT_OF_DEVICE_MEMORY,
                     "%s needs %.1f MB of device memory, but %.1f of the allowed %.1f MB are in use "
                     "(device_memory_limit in the context's desc)",
                     what, (double)size / 1e6, (double)used / 1e6, (double)device->memory_limit / 1e6);
}

static void diti_memory_release(diti_device *device, VkDeviceSize size, VkDeviceSize pinned) {
    diti_lock(&device->lock);
    device->memory_used -= size;
    device->host_used -= pinned;
    diti_unlock(&device->lock);
}

/* --- memory types --- */

static VkMemoryPropertyFlags diti_memory_required(diti_memory_kind kind) {
    switch (kind) {
    case DITI_MEMORY_UPLOAD: return DITI_HOST_COHERENT;
    case DITI_MEMORY_READBACK: return VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT;
    case DITI_MEMORY_DEVICE: break;
    }
    return 0;
}

/* How well a type serves a kind, from 1 up; 0: not at all. Host types avoid device local memory (the small window of a
   discrete GPU), device types avoid the host's. */
static uint32_t diti_memory_score(VkMemoryPropertyFlags flags, diti_memory_kind kind) {
    const VkMemoryPropertyFlags special = VK_MEMORY_PROPERTY_LAZILY_ALLOCATED_BIT | VK_MEMORY_PROPERTY_PROTECTED_BIT |
                                          VK_MEMORY_PROPERTY_DEVICE_COHERENT_BIT_AMD;
    uint32_t local = (flags & VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT) ? 1 : 0;
    uint32_t visible = (flags & VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT) ? 1 : 0;
    uint32_t cached = (flags & VK_MEMORY_PROPERTY_HOST_CACHED_BIT) ? 1 : 0;
    uint32_t coherent = (flags & VK_MEMORY_PROPERTY_HOST_COHERENT_BIT) ? 1 : 0;
    if ((flags & special) || (flags & diti_memory_required(kind)) != diti_memory_required(kind)) return 0;
    switch (kind) {
    case DITI_MEMORY_DEVICE: return 1 + 2 * local + (1 - visible);
    case DITI_MEMORY_UPLOAD: return 1 + 2 * (1 - local) + (1 - cached);
    case DITI_MEMORY_READBACK: return 1 + 4 * cached + 2 * coherent + (1 - local);
    }
    return 0;
}

/* The best type of those in bits; false when none is left. */
DIT_INTERNAL bool diti_memory_type(const diti_device *device, uint32_t bits, diti_memory_kind kind, uint32_t *out) {
    uint32_t i, score, best = 0;
    for (i = 0; i < device->memory.memoryTypeCount; i++) {
        if (!(bits >> i & 1u)) continue;
        score = diti_memory_score(device->memory.memoryTypes[i].propertyFlags, kind);
        if (score <= best) continue;
        best = score;
        *out = i;
    }
    return best > 0;
}

/* The bytes that may still be allocated of the heap that buffers for uploads come from; UINT64_MAX: nobody knows. Where
   all memory is the device's, memory_limit tells it. */
DIT_INTERNAL VkDeviceSize diti_memory_host_room(diti_device *device) {
    VkDeviceSize room = UINT64_MAX, used;
    uint32_t type;
    if (device->host_budget) {
        diti_lock(&device->lock);
        used = device->host_used;
        diti_unlock(&device->lock);
        return used < device->host_budget ? device->host_budget - used : 0;
    }
    if (!device->has_memory_budget || device->unified || device->allocator.alloc) return room;
    if (diti_memory_type(device, UINT32_MAX, DITI_MEMORY_UPLOAD, &type))
        room = diti_memory_free_budget(device, device->memory.memoryTypes[type].heapIndex);
    return room;
}

/* --- blocks --- */

static dit_result diti_block_map(diti_device *device, VkMemoryPropertyFlags flags, diti_buffer *out, dit_error *err) {
    bool wanted = out->kind != DITI_MEMORY_DEVICE;
    VkResult vr;
    out->coherent = (flags & VK_MEMORY_PROPERTY_HOST_COHERENT_BIT) != 0;
    if (!wanted && (!device->maps_device_memory || (flags & DITI_HOST_COHERENT) != DITI_HOST_COHERENT)) return DIT_OK;
    vr = device->vk.MapMemory(device->device, out->block.memory, 0, VK_WHOLE_SIZE, 0, &out->block.mapped);
    if (vr >= 0) return DIT_OK;
    out->block.mapped = NULL;
    return wanted ? diti_device_fail(device, vr, "vkMapMemory", err) : DIT_OK; /* device memory can be staged */
}

/* Own memory: the next best type is tried when a heap is full, but device memory never falls back to the host's. */
static VkResult diti_block_allocate(diti_device *device, const VkMemoryRequirements *need, diti_buffer *out,
                                    uint32_t *type) {
    VkMemoryAllocateFlagsInfo mask;
    VkMemoryAllocateInfo info = DITI_ZERO;
    VkResult vr = VK_ERROR_OUT_OF_DEVICE_MEMORY;
    uint32_t bits = need->memoryTypeBits, first_score = 0;
    info.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO;
    info.pNext = diti_device_group_mask(device, &mask, out->next);
    info.allocationSize = need->size;
    while (diti_memory_type(device, bits, out->kind, type)) {
        uint32_t score = diti_memory_score(device->memory.memoryTypes[*type].propertyFlags, out->kind);
        if (!first_score) first_score = score;
        if (out->kind == DITI_MEMORY_DEVICE && first_score >= 3 && score < 3) break;
        info.memoryTypeIndex = *type;
        vr = device->vk.AllocateMemory(device->device, &info, device->callbacks, &out->block.memory);
        if (vr != VK_ERROR_OUT_OF_DEVICE_MEMORY) break;
        bits &= ~(1u << *type);
    }
    return vr;
}

static dit_result diti_block_dedicate(diti_device *device, const VkMemoryRequirements *need, const char *what,
                                      diti_buffer *out, dit_error *err) {
    dit_result result;
    uint32_t type = 0;
    VkResult vr = diti_block_allocate(device, need, out, &type);
    if (vr < 0) {
        out->block.memory = VK_NULL_HANDLE;
        return diti_fail_vk(err, vr, "%s: vkAllocateMemory of %.1f MB: %s", what, (double)need->size / 1e6,
                            diti_vk_name(vr));
    }
    out->block.size = need->size;
    out->memory_type = type;
    result = diti_block_map(device, device->memory.memoryTypes[type].propertyFlags, out, err);
    if (result < 0) {
        device->vk.FreeMemory(device->device, out->block.memory, device->callbacks);
        memset(&out->block, 0, sizeof out->block);
    }
    return result;
}

/* True when every type that such memory can come from is coherent host memory: then a mapping may be used as it is. */
static bool diti_memory_always_coherent(const diti_device *device, uint32_t bits) {
    uint32_t i;
    for (i = 0; i < device->memory.memoryTypeCount; i++) {
        VkMemoryPropertyFlags flags = device->memory.memoryTypes[i].propertyFlags;
        if ((bits >> i & 1u) && (flags & DITI_HOST_COHERENT) != DITI_HOST_COHERENT) return false;
    }
    return true;
}

/* The application's memory: its type is unknown, so host kinds ask for coherent memory. */
static dit_result diti_block_hooked(diti_device *device, const VkMemoryRequirements *need, const char *what,
                                    diti_buffer *out, dit_error *err) {
    const dit_device_allocator *hook = &device->allocator;
    bool host = out->kind != DITI_MEMORY_DEVICE;
    VkMemoryPropertyFlags required = host ? DITI_HOST_COHERENT : 0;
    VkMemoryPropertyFlags preferred = host ? 0 : VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT;
    VkResult vr;
    if (out->kind == DITI_MEMORY_READBACK) preferred = VK_MEMORY_PROPERTY_HOST_CACHED_BIT;
    vr = (VkResult)hook->alloc(device->ordinal, need, required, preferred, &out->block, hook->user);
    if (vr < 0) {
        memset(&out->block, 0, sizeof out->block);
        return diti_fail_vk(err, vr, "%s: the device_allocator refused %.1f MB: %s", what, (double)need->size / 1e6,
                            diti_vk_name(vr));
    }
    out->hook_mapped = out->block.mapped;
    out->coherent = host || diti_memory_always_coherent(device, need->memoryTypeBits);
    if (!host && (!device->maps_device_memory || !out->coherent)) out->block.mapped = NULL;
    if (!host || out->block.mapped) return DIT_OK;
    hook->free(device->ordinal, &out->block, hook->user);
    memset(&out->block, 0, sizeof out->block);
    return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                     "%s: the device_allocator must map memory that it was asked for as HOST_VISIBLE", what);
}

DIT_INTERNAL dit_result diti_block_create(diti_device *device, const VkMemoryRequirements *need, diti_memory_kind kind,
                                          const char *what, diti_buffer *out, dit_error *err) {
    bool counts = diti_memory_counts(device, kind);
    dit_result result;
    DITI_TRY(counts ? diti_memory_reserve(device, need->size, what, err) : DIT_OK);
    out->kind = kind;
    out->charged = counts ? need->size : 0;
    if (device->allocator.alloc)
        result = diti_block_hooked(device, need, what, out, err);
    else
        result = diti_block_dedicate(device, need, what, out, err);
    if (result < 0) {
        if (counts) diti_memory_release(device, need->size, 0);
        return result;
    }
    diti_lock(&device->lock);
    device->allocations++;
    out->pinned = kind == DITI_MEMORY_DEVICE ? 0 : need->size;
    device->host_used += out->pinned;
    diti_unlock(&device->lock);
    return DIT_OK;
}

DIT_INTERNAL void diti_block_destroy(diti_device *device, diti_buffer *buffer) {
    if (!buffer->block.memory) return;
    if (device->allocator.free) {
        buffer->block.mapped = buffer->hook_mapped;
        diti_destroy_block(device, &buffer->block);
    } else {
        diti_destroy_memory(device, buffer->block.memory);
    }
    diti_memory_release(device, buffer->charged, buffer->pinned);
    memset(&buffer->block, 0, sizeof buffer->block);
}

/* --- buffers --- */

static dit_result diti_buffer_bind(diti_device *device, const char *what, diti_buffer *out, dit_error *err) {
    VkMemoryRequirements need;
    VkResult vr;
    device->vk.GetBufferMemoryRequirements(device->device, out->buffer, &need);
    DITI_TRY(diti_block_create(device, &need, out->kind, what, out, err));
    if (!out->block.mapped) diti_atomic_store(&device->stages, 1);
    vr = device->vk.BindBufferMemory(device->device, out->buffer, out->block.memory, out->block.offset);
    return vr < 0 ? diti_device_fail(device, vr, "vkBindBufferMemory", err) : DIT_OK;
}

/* families: of the queues that use it, 1 or 2. */
static dit_result diti_buffer_make(diti_device *device, VkDeviceSize size, diti_memory_kind kind,
                                   const uint32_t *families, uint32_t family_count, const char *what, diti_buffer *out,
                                   dit_error *err) {
    VkBufferCreateInfo info = DITI_ZERO;
    dit_result result = diti_device_check(device, err);
    VkResult vr;
    memset(out, 0, sizeof *out);
    DITI_TRY(result);
    if (!size || size > device->limits.allocation) {
        return diti_fail(err, DIT_ERROR_OUT_OF_DEVICE_MEMORY,
                         "%s: %llu bytes is not a size between 1 and the device's largest allocation, %llu", what,
                         (unsigned long long)size, (unsigned long long)device->limits.allocation);
    }
    out->kind = kind;
    out->size = size;
    info.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO;
    info.size = size;
    info.usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_INDIRECT_BUFFER_BIT |
                 VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT;
    info.sharingMode = family_count > 1 ? VK_SHARING_MODE_CONCURRENT : VK_SHARING_MODE_EXCLUSIVE;
    info.queueFamilyIndexCount = family_count;
    info.pQueueFamilyIndices = families;
    vr = device->vk.CreateBuffer(device->device, &info, device->callbacks, &out->buffer);
    if (vr < 0) {
        memset(out, 0, sizeof *out);
        return diti_device_fail(device, vr, "vkCreateBuffer", err);
    }
    result = diti_buffer_bind(device, what, out, err);
    if (result < 0) diti_buffer_destroy(device, out);
    return result;
}

DIT_INTERNAL dit_result diti_buffer_create(diti_device *device, VkDeviceSize size, diti_memory_kind kind,
                                           const char *what, diti_buffer *out, dit_error *err) {
    return diti_buffer_make(device, size, kind, &device->queue_family, 1, what, out, err);
}

DIT_INTERNAL dit_result diti_buffer_create_shared(diti_device *device, VkDeviceSize size, const char *what,
                                                  diti_buffer *out, dit_error *err) {
    bool two = device->transfer_queue && device->transfer_family != device->queue_family;
    uint32_t families[2];
    families[0] = device->queue_family;
    families[1] = device->transfer_family;
    return diti_buffer_make(device, size, DITI_MEMORY_DEVICE, families, two ? 2u : 1u, what, out, err);
}

/* So little as a staging buffer has in any case is never refused. */
DIT_INTERNAL dit_result diti_buffer_create_pinned(diti_device *device, VkDeviceSize size, diti_memory_kind kind,
                                                  const char *what, const char *instead, diti_buffer *out,
                                                  dit_error *err) {
    VkDeviceSize room = diti_memory_host_room(device);
    if (size <= room || size <= DITI_STAGING_MIN) return diti_buffer_create(device, size, kind, what, out, err);
    return diti_fail(err, DIT_ERROR_OUT_OF_HOST_MEMORY,
                     "%s: %.1f MB of host memory that the device sees, of which the budget of its heap leaves %.1f MB; "
                     "%s",
                     what, (double)size / 1e6, (double)room / 1e6, instead);
}

DIT_INTERNAL void diti_buffer_destroy(diti_device *device, diti_buffer *buffer) {
    diti_destroy_Buffer(device, buffer->buffer);
    diti_block_destroy(device, buffer);
    memset(buffer, 0, sizeof *buffer);
}

/* Only own memory can be incoherent, and that is mapped whole, so no range needs rounding to nonCoherentAtomSize. */
static VkMappedMemoryRange diti_buffer_range(const diti_buffer *buffer) {
    VkMappedMemoryRange range = DITI_ZERO;
    range.sType = VK_STRUCTURE_TYPE_MAPPED_MEMORY_RANGE;
    range.memory = buffer->block.memory;
    range.size = VK_WHOLE_SIZE;
    return range;
}

DIT_INTERNAL void diti_buffer_flush(diti_device *device, const diti_buffer *buffer) {
    VkMappedMemoryRange range = diti_buffer_range(buffer);
    if (buffer->coherent || !buffer->block.mapped) return;
    device->vk.FlushMappedMemoryRanges(device->device, 1, &range);
}

DIT_INTERNAL void diti_buffer_invalidate(diti_device *device, const diti_buffer *buffer) {
    VkMappedMemoryRange range = diti_buffer_range(buffer);
    if (buffer->coherent || !buffer->block.mapped) return;
    device->vk.InvalidateMappedMemoryRanges(device->device, 1, &range);
}
