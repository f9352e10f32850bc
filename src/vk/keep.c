/* A device that has finished nothing for long is given up, but it may only be slow. Everything that it may still read
   or write is not destroyed then: it is kept until the device answers, which is when every queue has signaled a
   semaphore behind all that it was given. Whatever of a device does not answer before its context ends stays for good.
 */
#include "vk/vk.h"

enum { DITI_STALL_NONE, DITI_STALL_KEEPS, DITI_STALL_OVER }; /* values of diti_device.stalled */

typedef enum diti_kept_kind {
#define DITI_KEPT_KIND(name) DITI_KEPT_##name,
    DITI_KEPT_OBJECTS(DITI_KEPT_KIND)
#undef DITI_KEPT_KIND
        DITI_KEPT_MEMORY,
    DITI_KEPT_BLOCK,
    DITI_KEPT_PAGES
} diti_kept_kind;

struct diti_kept {
    struct diti_kept *next;
    diti_kept_kind kind;
    union {
#define DITI_KEPT_MEMBER(name) Vk##name name;
        DITI_KEPT_OBJECTS(DITI_KEPT_MEMBER)
#undef DITI_KEPT_MEMBER
        VkDeviceMemory memory;
        dit_block block;
        void *pages;
    } object;
};

static void diti_kept_destroy(diti_device *device, const diti_kept *kept) {
    switch (kept->kind) {
#define DITI_KEPT_CASE(name)                                                                                           \
    case DITI_KEPT_##name: device->vk.Destroy##name(device->device, kept->object.name, device->callbacks); break;
        DITI_KEPT_OBJECTS(DITI_KEPT_CASE)
#undef DITI_KEPT_CASE
    case DITI_KEPT_MEMORY: device->vk.FreeMemory(device->device, kept->object.memory, device->callbacks); break;
    case DITI_KEPT_BLOCK: device->allocator.free(device->ordinal, &kept->object.block, device->allocator.user); break;
    case DITI_KEPT_PAGES: diti_free(&device->env, kept->object.pages); break;
    }
}

/* Takes the list; destroys what is in it, or leaves it alone for good. */
static void diti_kept_end(diti_device *device, bool destroy) {
    diti_kept *kept, *next;
    diti_lock(&device->lock);
    kept = device->kept;
    device->kept = device->kept_last = NULL;
    diti_unlock(&device->lock);
    for (; kept; kept = next) {
        next = kept->next;
        if (destroy) diti_kept_destroy(device, kept);
        diti_free(&device->env, kept);
    }
}

/* --- asking --- */

static VkResult diti_device_ask_queue(diti_device *device, VkQueue queue, VkSemaphore *answer) {
    const uint64_t one = 1;
    VkTimelineSemaphoreSubmitInfo values = DITI_ZERO;
    VkSubmitInfo info = DITI_ZERO;
    VkResult vr;
    if (diti_timeline_create(device, answer, NULL) < 0) {
        *answer = VK_NULL_HANDLE;
        return VK_ERROR_OUT_OF_HOST_MEMORY;
    }
    values.sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO;
    values.signalSemaphoreValueCount = 1;
    values.pSignalSemaphoreValues = &one;
    info.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO;
    info.pNext = &values;
    info.signalSemaphoreCount = 1;
    info.pSignalSemaphores = answer;
    diti_queue_lock(device);
    vr = diti_device_group_submit(device, queue, &info);
    diti_queue_unlock(device);
    return vr;
}

DIT_INTERNAL void diti_keep_begin(diti_device *device) {
    VkResult vr;
    bool first;
    diti_lock(&device->lock);
    first = device->stalled == DITI_STALL_NONE;
    if (first) device->stalled = DITI_STALL_KEEPS;
    diti_unlock(&device->lock);
    if (!first) return;
    vr = diti_device_ask_queue(device, device->queue, &device->answers[0]);
    if (vr == VK_SUCCESS && device->transfer_queue)
        vr = diti_device_ask_queue(device, device->transfer_queue, &device->answers[1]);
    if (vr == VK_SUCCESS) diti_atomic_store(&device->asked, 1); /* a lost device can't answer any more */
    if (vr == VK_ERROR_DEVICE_LOST) diti_atomic_store(&device->stalled, DITI_STALL_OVER); /* nothing runs any more */
}

/* A device that is lost after all runs nothing, either. */
static bool diti_device_answers(diti_device *device) {
    uint64_t value;
    VkResult vr;
    int i;
    if (!diti_atomic_load(&device->asked)) return false;
    for (i = 0; i < 2 && device->answers[i]; i++) {
        value = 0;
        vr = device->vk.GetSemaphoreCounterValue(device->device, device->answers[i], &value);
        if (vr == VK_ERROR_DEVICE_LOST) return true;
        if (vr != VK_SUCCESS || value < 1) return false;
    }
    return true;
}

DIT_INTERNAL bool diti_device_keeps(diti_device *device) {
    if (diti_atomic_load(&device->stalled) != DITI_STALL_KEEPS) return false;
    if (!diti_device_answers(device)) return true;
    diti_kept_end(device, true);
    diti_atomic_store(&device->stalled, DITI_STALL_OVER);
    return false;
}

DIT_INTERNAL bool diti_keep_end(diti_device *device) {
    int i;
    bool keeps = diti_device_keeps(device);
    diti_kept_end(device, !keeps);
    for (i = 0; i < 2 && !keeps; i++)
        if (device->answers[i]) device->vk.DestroySemaphore(device->device, device->answers[i], device->callbacks);
    if (!keeps) return false;
    diti_log(&device->env, DITI_LOG_WARNING,
             "device %u (%s) does not answer: what it may still use is left to the end of the process", device->ordinal,
             device->info.name);
    return true;
}

/* --- what others call in place of vkDestroy... and vkFreeMemory; nothing is fine --- */

static void diti_keep_or_destroy(diti_device *device, const diti_kept *kept) {
    diti_kept *node;
    if (!diti_device_keeps(device)) {
        diti_kept_destroy(device, kept);
        return;
    }
    node = (diti_kept *)diti_alloc(&device->env, sizeof *node);
    if (!node) return; /* the object stays for good: there is no memory to note it in */
    *node = *kept;
    node->next = NULL;
    diti_lock(&device->lock);
    if (device->kept_last)
        device->kept_last->next = node;
    else
        device->kept = node;
    device->kept_last = node;
    diti_unlock(&device->lock);
}

#define DITI_KEPT_FUNCTION(name)                                                                                       \
    DIT_INTERNAL void diti_destroy_##name(diti_device *device, Vk##name object) {                                      \
        diti_kept kept = DITI_ZERO;                                                                                    \
        if (!object) return;                                                                                           \
        kept.kind = DITI_KEPT_##name;                                                                                  \
        kept.object.name = object;                                                                                     \
        diti_keep_or_destroy(device, &kept);                                                                           \
    }
DITI_KEPT_OBJECTS(DITI_KEPT_FUNCTION)
#undef DITI_KEPT_FUNCTION

DIT_INTERNAL void diti_destroy_memory(diti_device *device, VkDeviceMemory memory) {
    diti_kept kept = DITI_ZERO;
    if (!memory) return;
    kept.kind = DITI_KEPT_MEMORY;
    kept.object.memory = memory;
    diti_keep_or_destroy(device, &kept);
}

DIT_INTERNAL void diti_destroy_block(diti_device *device, const dit_block *block) {
    diti_kept kept = DITI_ZERO;
    kept.kind = DITI_KEPT_BLOCK;
    kept.object.block = *block;
    diti_keep_or_destroy(device, &kept);
}

DIT_INTERNAL void diti_destroy_pages(diti_device *a, diti_device *b, void *pages) {
    bool kept_by_a = diti_device_keeps(a), kept_by_b = diti_device_keeps(b);
    diti_kept kept = DITI_ZERO;
    if (!pages || (kept_by_a && kept_by_b)) return; /* two that do not answer: for good */
    kept.kind = DITI_KEPT_PAGES;
    kept.object.pages = pages;
    diti_keep_or_destroy(kept_by_b ? b : a, &kept);
}
