/* A Vulkan layer that makes lavapipe look like a GPU whose VkDevice Godot can share with dit: three queue families,
   which draw, compute and copy, and timeline semaphores on whatever device is made. All queues are the driver's one
   queue behind a lock. tests/godot.sh builds it, since no version of Godot makes such a device by itself. */
#define VK_NO_PROTOTYPES
#include <vulkan/vulkan.h>
#include <vulkan/vk_layer.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define LAYER __attribute__((visibility("default")))
#define COUNT(array) (sizeof(array) / sizeof *(array))
enum { FAMILIES = 3, MOST = 16 };
static const VkQueueFlags flags_of[FAMILIES] = {
    VK_QUEUE_GRAPHICS_BIT | VK_QUEUE_COMPUTE_BIT | VK_QUEUE_TRANSFER_BIT,
    VK_QUEUE_COMPUTE_BIT | VK_QUEUE_TRANSFER_BIT,
    VK_QUEUE_TRANSFER_BIT,
};

/* The next layer or driver of an instance or a device is found by the dispatch table that its objects begin with. */
typedef struct next_one {
    void *table;
    VkInstance instance;
    VkDevice device;
    PFN_vkGetInstanceProcAddr of_instance;
    PFN_vkGetDeviceProcAddr of_device;
} next_one;
static next_one known[MOST];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER, queue_lock = PTHREAD_MUTEX_INITIALIZER;

static void *table_of(const void *object) { return *(void *const *)object; }

static bool remember(next_one one) {
    bool kept = false;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < MOST && !kept; i++)
        if (!known[i].table || known[i].table == one.table) known[i] = one, kept = true;
    pthread_mutex_unlock(&lock);
    return kept;
}

static next_one find(const void *object) {
    next_one found = {0};
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < MOST; i++)
        if (known[i].table == table_of(object)) found = known[i];
    pthread_mutex_unlock(&lock);
    return found;
}

#define OF_INSTANCE(object, name) ((PFN_##name)find(object).of_instance(find(object).instance, #name))
#define OF_DEVICE(object, name) ((PFN_##name)find(object).of_device(find(object).device, #name))

/* ---- instance ---- */

static VKAPI_ATTR VkResult VKAPI_CALL create_instance(const VkInstanceCreateInfo *info, const VkAllocationCallbacks *a,
                                                      VkInstance *out) {
    VkLayerInstanceCreateInfo *chain = (VkLayerInstanceCreateInfo *)info->pNext;
    next_one one = {0};
    VkResult result;
    while (chain &&
           (chain->sType != VK_STRUCTURE_TYPE_LOADER_INSTANCE_CREATE_INFO || chain->function != VK_LAYER_LINK_INFO))
        chain = (VkLayerInstanceCreateInfo *)chain->pNext;
    if (!chain) return VK_ERROR_INITIALIZATION_FAILED;
    one.of_instance = chain->u.pLayerInfo->pfnNextGetInstanceProcAddr;
    chain->u.pLayerInfo = chain->u.pLayerInfo->pNext;
    result = ((PFN_vkCreateInstance)one.of_instance(NULL, "vkCreateInstance"))(info, a, out);
    if (result != VK_SUCCESS) return result;
    one.table = table_of(*out);
    one.instance = *out;
    return remember(one) ? VK_SUCCESS : VK_ERROR_OUT_OF_HOST_MEMORY;
}

static VKAPI_ATTR void VKAPI_CALL families(VkPhysicalDevice gpu, uint32_t *count, VkQueueFamilyProperties *out) {
    VkQueueFamilyProperties real[MOST];
    uint32_t i, reals = MOST;
    OF_INSTANCE(gpu, vkGetPhysicalDeviceQueueFamilyProperties)(gpu, &reals, real);
    if (out && *count > FAMILIES) *count = FAMILIES;
    for (i = 0; out && i < *count; i++) {
        out[i] = real[0];
        out[i].queueFlags = flags_of[i];
        out[i].queueCount = 1;
    }
    if (!out) *count = FAMILIES;
}

static VKAPI_ATTR void VKAPI_CALL families2(VkPhysicalDevice gpu, uint32_t *count, VkQueueFamilyProperties2 *out) {
    VkQueueFamilyProperties one[FAMILIES];
    if (!out) {
        families(gpu, count, NULL);
        return;
    }
    families(gpu, count, one);
    for (uint32_t i = 0; i < *count; i++) out[i].queueFamilyProperties = one[i];
}

static VKAPI_ATTR VkResult VKAPI_CALL presents(VkPhysicalDevice gpu, uint32_t family, VkSurfaceKHR surface,
                                               VkBool32 *out) {
    *out = VK_FALSE;
    if (family) return VK_SUCCESS;
    return OF_INSTANCE(gpu, vkGetPhysicalDeviceSurfaceSupportKHR)(gpu, 0, surface, out);
}

/* ---- device ---- */

/* Timeline semaphores are switched on where the application has a structure for them, else in one that is put in front.
 */
static const void *with_timeline(const void *chain, VkPhysicalDeviceTimelineSemaphoreFeatures *room) {
    VkBaseOutStructure *at = (VkBaseOutStructure *)chain;
    for (; at; at = at->pNext) {
        if (at->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES)
            return ((VkPhysicalDeviceVulkan12Features *)at)->timelineSemaphore = VK_TRUE, chain;
        if (at->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_TIMELINE_SEMAPHORE_FEATURES)
            return ((VkPhysicalDeviceTimelineSemaphoreFeatures *)at)->timelineSemaphore = VK_TRUE, chain;
    }
    *room = (VkPhysicalDeviceTimelineSemaphoreFeatures){VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_TIMELINE_SEMAPHORE_FEATURES,
                                                        (void *)chain, VK_TRUE};
    return room;
}

static VKAPI_ATTR VkResult VKAPI_CALL create_device(VkPhysicalDevice gpu, const VkDeviceCreateInfo *info,
                                                    const VkAllocationCallbacks *a, VkDevice *out) {
    VkLayerDeviceCreateInfo *chain = (VkLayerDeviceCreateInfo *)info->pNext;
    VkPhysicalDeviceTimelineSemaphoreFeatures timeline;
    VkDeviceCreateInfo changed = *info;
    VkDeviceQueueCreateInfo queue = {0};
    const char *names[256];
    next_one one = {0};
    PFN_vkCreateDevice next;
    VkResult result;
    while (chain &&
           (chain->sType != VK_STRUCTURE_TYPE_LOADER_DEVICE_CREATE_INFO || chain->function != VK_LAYER_LINK_INFO))
        chain = (VkLayerDeviceCreateInfo *)chain->pNext;
    if (!chain || info->enabledExtensionCount >= COUNT(names)) return VK_ERROR_INITIALIZATION_FAILED;
    one.of_instance = chain->u.pLayerInfo->pfnNextGetInstanceProcAddr;
    one.of_device = chain->u.pLayerInfo->pfnNextGetDeviceProcAddr;
    chain->u.pLayerInfo = chain->u.pLayerInfo->pNext;

    changed.pNext = with_timeline(info->pNext, &timeline);
    changed.ppEnabledExtensionNames = names;
    names[0] = "VK_KHR_timeline_semaphore";
    changed.enabledExtensionCount = 1;
    for (uint32_t i = 0; i < info->enabledExtensionCount; i++)
        if (strcmp(info->ppEnabledExtensionNames[i], names[0]))
            names[changed.enabledExtensionCount++] = info->ppEnabledExtensionNames[i];
    queue = info->pQueueCreateInfos[0];
    queue.queueFamilyIndex = 0;
    queue.queueCount = 1;
    changed.pQueueCreateInfos = &queue;
    changed.queueCreateInfoCount = 1;

    next = (PFN_vkCreateDevice)one.of_instance(find(gpu).instance, "vkCreateDevice");
    result = next(gpu, &changed, a, out);
    if (result != VK_SUCCESS) return result;
    one.table = table_of(*out);
    one.device = *out;
    return remember(one) ? VK_SUCCESS : VK_ERROR_OUT_OF_HOST_MEMORY;
}

static VKAPI_ATTR void VKAPI_CALL get_queue(VkDevice device, uint32_t family, uint32_t index, VkQueue *out) {
    (void)family, (void)index;
    OF_DEVICE(device, vkGetDeviceQueue)(device, 0, 0, out);
}

static VKAPI_ATTR void VKAPI_CALL get_queue2(VkDevice device, const VkDeviceQueueInfo2 *info, VkQueue *out) {
    (void)info;
    OF_DEVICE(device, vkGetDeviceQueue)(device, 0, 0, out);
}

static VKAPI_ATTR VkResult VKAPI_CALL create_pool(VkDevice device, const VkCommandPoolCreateInfo *info,
                                                  const VkAllocationCallbacks *a, VkCommandPool *out) {
    VkCommandPoolCreateInfo changed = *info;
    changed.queueFamilyIndex = 0;
    return OF_DEVICE(device, vkCreateCommandPool)(device, &changed, a, out);
}

/* A driver's queue may be used by one thread at a time, and applications think that these are several queues. */
#define LOCKED(call)                                                                                                   \
    VkResult result;                                                                                                   \
    pthread_mutex_lock(&queue_lock);                                                                                   \
    result = call;                                                                                                     \
    pthread_mutex_unlock(&queue_lock);                                                                                 \
    return result

static VKAPI_ATTR VkResult VKAPI_CALL submit(VkQueue queue, uint32_t count, const VkSubmitInfo *infos, VkFence fence) {
    LOCKED(OF_DEVICE(queue, vkQueueSubmit)(queue, count, infos, fence));
}
static VKAPI_ATTR VkResult VKAPI_CALL submit2(VkQueue queue, uint32_t count, const VkSubmitInfo2 *infos,
                                              VkFence fence) {
    LOCKED(OF_DEVICE(queue, vkQueueSubmit2)(queue, count, infos, fence));
}
static VKAPI_ATTR VkResult VKAPI_CALL present(VkQueue queue, const VkPresentInfoKHR *info) {
    LOCKED(OF_DEVICE(queue, vkQueuePresentKHR)(queue, info));
}
static VKAPI_ATTR VkResult VKAPI_CALL queue_wait(VkQueue queue) { LOCKED(OF_DEVICE(queue, vkQueueWaitIdle)(queue)); }
static VKAPI_ATTR VkResult VKAPI_CALL device_wait(VkDevice device) {
    LOCKED(OF_DEVICE(device, vkDeviceWaitIdle)(device));
}

/* ---- the loader's way in ---- */

static PFN_vkVoidFunction of_device(VkDevice device, const char *name);
static PFN_vkVoidFunction of_instance(VkInstance instance, const char *name);

static const struct {
    const char *name;
    PFN_vkVoidFunction function;
    bool of_device;
} functions[] = {
    {"vkGetInstanceProcAddr", (PFN_vkVoidFunction)of_instance, false},
    {"vkGetDeviceProcAddr", (PFN_vkVoidFunction)of_device, true},
    {"vkCreateInstance", (PFN_vkVoidFunction)create_instance, false},
    {"vkGetPhysicalDeviceQueueFamilyProperties", (PFN_vkVoidFunction)families, false},
    {"vkGetPhysicalDeviceQueueFamilyProperties2", (PFN_vkVoidFunction)families2, false},
    {"vkGetPhysicalDeviceQueueFamilyProperties2KHR", (PFN_vkVoidFunction)families2, false},
    {"vkGetPhysicalDeviceSurfaceSupportKHR", (PFN_vkVoidFunction)presents, false},
    {"vkCreateDevice", (PFN_vkVoidFunction)create_device, false},
    {"vkGetDeviceQueue", (PFN_vkVoidFunction)get_queue, true},
    {"vkGetDeviceQueue2", (PFN_vkVoidFunction)get_queue2, true},
    {"vkCreateCommandPool", (PFN_vkVoidFunction)create_pool, true},
    {"vkQueueSubmit", (PFN_vkVoidFunction)submit, true},
    {"vkQueueSubmit2", (PFN_vkVoidFunction)submit2, true},
    {"vkQueueSubmit2KHR", (PFN_vkVoidFunction)submit2, true},
    {"vkQueuePresentKHR", (PFN_vkVoidFunction)present, true},
    {"vkQueueWaitIdle", (PFN_vkVoidFunction)queue_wait, true},
    {"vkDeviceWaitIdle", (PFN_vkVoidFunction)device_wait, true},
};

/* Only functions that the next one has are there here as well. */
static PFN_vkVoidFunction of_device(VkDevice device, const char *name) {
    PFN_vkVoidFunction next = find(device).of_device(device, name);
    for (size_t i = 0; i < COUNT(functions); i++)
        if (functions[i].of_device && next && !strcmp(name, functions[i].name)) return functions[i].function;
    return next;
}

static PFN_vkVoidFunction of_instance(VkInstance instance, const char *name) {
    next_one one = {0};
    PFN_vkVoidFunction next;
    if (instance) one = find(instance); /* the loader asks for vkCreateInstance before there is anything next */
    next = one.of_instance ? one.of_instance(instance, name) : NULL;
    for (size_t i = 0; i < COUNT(functions); i++)
        if ((next || !one.of_instance) && !strcmp(name, functions[i].name)) return functions[i].function;
    return next;
}

LAYER VKAPI_ATTR VkResult VKAPI_CALL vkNegotiateLoaderLayerInterfaceVersion(VkNegotiateLayerInterface *interface);
LAYER VKAPI_ATTR VkResult VKAPI_CALL vkNegotiateLoaderLayerInterfaceVersion(VkNegotiateLayerInterface *interface) {
    interface->loaderLayerInterfaceVersion = 2;
    interface->pfnGetInstanceProcAddr = of_instance;
    interface->pfnGetDeviceProcAddr = of_device;
    interface->pfnGetPhysicalDeviceProcAddr = NULL;
    return VK_SUCCESS;
}
