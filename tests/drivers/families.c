/* A Vulkan driver for the tests: SwiftShader with three queue families in place of one. Family 0 can do everything, 1
 * computes and copies, 2 only copies, and each has a queue of its own: SwiftShader gives every queue a thread. The
 * layers above it see a device as discrete GPUs are. tests/drivers.sh compiles it with DRIVER, SwiftShader's file.
 * With DISCRETE its devices say of themselves what an H100 says (discrete.h). FAMILIES=1 leaves one family, for drivers
 * that have a single queue. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <vulkan/vulkan_core.h>

#ifndef FAMILIES
#define FAMILIES 3
#endif
enum { DEVICES = 64 };
#define EXPORT __attribute__((visibility("default")))

static struct driver {
    void *library;
    PFN_vkGetInstanceProcAddr instance_function, physical_function;
    PFN_vkGetDeviceProcAddr device_function;
    PFN_vkCreateDevice create_device;
    PFN_vkDestroyDevice destroy_device;
    PFN_vkGetDeviceQueue get_queue;
    PFN_vkGetPhysicalDeviceQueueFamilyProperties families;
} real;

/* Which of SwiftShader's queues a family of a device has. */
static struct device_queues {
    VkDevice device;
    uint32_t queues[FAMILIES];
} devices[DEVICES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void load(void) {
    if (real.library) return;
    real.library = dlopen(DRIVER, RTLD_NOW | RTLD_LOCAL);
    if (!real.library) return;
    *(void **)&real.instance_function = dlsym(real.library, "vk_icdGetInstanceProcAddr");
    *(void **)&real.physical_function = dlsym(real.library, "vk_icdGetPhysicalDeviceProcAddr");
}

/* --- families --- */

static void family_fill(VkPhysicalDevice physical, uint32_t family, VkQueueFamilyProperties *out) {
    static const VkQueueFlags kept[3] = {~0u, VK_QUEUE_COMPUTE_BIT | VK_QUEUE_TRANSFER_BIT, VK_QUEUE_TRANSFER_BIT};
    uint32_t one = 1;
    real.families(physical, &one, out);
    out->queueFlags &= kept[family];
    out->queueCount = 1;
}

static VKAPI_ATTR void VKAPI_CALL get_families(VkPhysicalDevice physical, uint32_t *count,
                                               VkQueueFamilyProperties *out) {
    uint32_t i;
    if (!out || *count > FAMILIES) *count = FAMILIES;
    for (i = 0; out && i < *count; i++) family_fill(physical, i, &out[i]);
}

static VKAPI_ATTR void VKAPI_CALL get_families_2(VkPhysicalDevice physical, uint32_t *count,
                                                 VkQueueFamilyProperties2 *out) {
    uint32_t i;
    if (!out || *count > FAMILIES) *count = FAMILIES;
    for (i = 0; out && i < *count; i++) family_fill(physical, i, &out[i].queueFamilyProperties);
}

/* --- devices --- */

static struct device_queues *device_find(VkDevice device) {
    int i;
    for (i = 0; i < DEVICES && devices[i].device != device; i++) {
    }
    return i < DEVICES ? &devices[i] : NULL;
}

static VKAPI_ATTR VkResult VKAPI_CALL create_device(VkPhysicalDevice physical, const VkDeviceCreateInfo *info,
                                                    const VkAllocationCallbacks *callbacks, VkDevice *out) {
    VkDeviceQueueCreateInfo queues[FAMILIES];
    VkDeviceCreateInfo changed = *info;
    struct device_queues *place;
    VkResult result;
    uint32_t i;
    if (info->queueCreateInfoCount > FAMILIES) return VK_ERROR_INITIALIZATION_FAILED;
    for (i = 0; i < info->queueCreateInfoCount; i++) {
        queues[i] = info->pQueueCreateInfos[i];
        queues[i].queueFamilyIndex = 0;
    }
    changed.pQueueCreateInfos = queues;
    result = real.create_device(physical, &changed, callbacks, out);
    if (result != VK_SUCCESS) return result;
    pthread_mutex_lock(&lock);
    place = device_find(VK_NULL_HANDLE);
    if (place) place->device = *out;
    for (i = 0; place && i < info->queueCreateInfoCount; i++)
        place->queues[info->pQueueCreateInfos[i].queueFamilyIndex] = i;
    pthread_mutex_unlock(&lock);
    return place ? VK_SUCCESS : VK_ERROR_TOO_MANY_OBJECTS;
}

static VKAPI_ATTR void VKAPI_CALL destroy_device(VkDevice device, const VkAllocationCallbacks *callbacks) {
    struct device_queues *place;
    pthread_mutex_lock(&lock);
    place = device_find(device);
    if (place) memset(place, 0, sizeof *place);
    pthread_mutex_unlock(&lock);
    real.destroy_device(device, callbacks);
}

static VKAPI_ATTR void VKAPI_CALL get_queue(VkDevice device, uint32_t family, uint32_t index, VkQueue *out) {
    struct device_queues *place;
    pthread_mutex_lock(&lock);
    place = device_find(device);
    pthread_mutex_unlock(&lock);
    real.get_queue(device, 0, place->queues[family] + index, out);
}

#if defined(DISCRETE)
#include "discrete.h"
#endif

/* --- the way in --- */

static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL get_device_function(VkDevice device, const char *name) {
    PFN_vkVoidFunction function = real.device_function(device, name);
    if (!strcmp(name, "vkGetDeviceQueue")) {
        real.get_queue = (PFN_vkGetDeviceQueue)function;
        return (PFN_vkVoidFunction)get_queue;
    }
    if (!strcmp(name, "vkDestroyDevice")) {
        real.destroy_device = (PFN_vkDestroyDevice)function;
        return (PFN_vkVoidFunction)destroy_device;
    }
#if defined(DISCRETE)
    function = discrete_replace(name, function);
#endif
    return strcmp(name, "vkGetDeviceQueue2") ? function : NULL;
}

static PFN_vkVoidFunction replace(const char *name, PFN_vkVoidFunction function) {
    if (!function) return NULL;
    if (!strcmp(name, "vkGetPhysicalDeviceQueueFamilyProperties")) {
        real.families = (PFN_vkGetPhysicalDeviceQueueFamilyProperties)function;
        return (PFN_vkVoidFunction)get_families;
    }
    if (!strncmp(name, "vkGetPhysicalDeviceQueueFamilyProperties2", 41)) return (PFN_vkVoidFunction)get_families_2;
    if (!strcmp(name, "vkCreateDevice")) {
        real.create_device = (PFN_vkCreateDevice)function;
        return (PFN_vkVoidFunction)create_device;
    }
    if (!strcmp(name, "vkGetDeviceProcAddr")) {
        real.device_function = (PFN_vkGetDeviceProcAddr)function;
        return (PFN_vkVoidFunction)get_device_function;
    }
#if defined(DISCRETE)
    function = discrete_replace(name, function);
#endif
    return function;
}

EXPORT PFN_vkVoidFunction vk_icdGetInstanceProcAddr(VkInstance instance, const char *name);
EXPORT PFN_vkVoidFunction vk_icdGetInstanceProcAddr(VkInstance instance, const char *name) {
    load();
    return real.instance_function ? replace(name, real.instance_function(instance, name)) : NULL;
}

EXPORT PFN_vkVoidFunction vk_icdGetPhysicalDeviceProcAddr(VkInstance instance, const char *name);
EXPORT PFN_vkVoidFunction vk_icdGetPhysicalDeviceProcAddr(VkInstance instance, const char *name) {
    load();
    return real.physical_function ? replace(name, real.physical_function(instance, name)) : NULL;
}

EXPORT VkResult vk_icdNegotiateLoaderICDInterfaceVersion(uint32_t *version);
EXPORT VkResult vk_icdNegotiateLoaderICDInterfaceVersion(uint32_t *version) {
    VkResult (*negotiate)(uint32_t *);
    load();
    if (!real.library) return VK_ERROR_INCOMPATIBLE_DRIVER;
    *(void **)&negotiate = dlsym(real.library, "vk_icdNegotiateLoaderICDInterfaceVersion");
    return negotiate ? negotiate(version) : VK_SUCCESS;
}
