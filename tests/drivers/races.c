/* The layers see races on shared memory only where a workgroup has room for their marks, one word for each element of
 * every shared array, and where they know all barriers. This library stands on both sides of them:
 *
 *     dit.h  >  this as the loader  >  the real loader  >  the layers  >  this as the driver  >  lavapipe
 *
 * The driver says that a workgroup has RACES_ROOM bytes of shared memory; lavapipe takes any number. The loader says
 * RACES_SHARED, as most GPUs do, so that dit.h chooses the kernels of a GPU. It also widens barriers of a subgroup to
 * the workgroup, since the layers follow barriers of workgroups alone: a race between subgroups that such a barrier
 * hides stays unseen. Where WITHOUT_BARRIERS is set in the environment, modules lose all their barriers, and a test can
 * see that races are found.
 *
 * DRIVER and LOADER are the paths of the real libraries. The soname is the loader's: a program that opens
 * libvulkan.so.1 gets this library where it is preloaded. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <vulkan/vulkan_core.h>

#define EXPORT __attribute__((visibility("default")))

enum { RACES_ROOM = 512 << 10, RACES_SHARED = 48 << 10 }; /* bytes */
enum { OP_NOP = 1 << 16, OP_CONSTANT = 43, OP_CONTROL_BARRIER = 224, SCOPE_WORKGROUP = 2 };

static struct real {
    PFN_vkGetInstanceProcAddr instance_function;
    PFN_vkGetPhysicalDeviceProperties properties;
    PFN_vkGetPhysicalDeviceProperties2 properties_2;
    PFN_vkGetDeviceProcAddr device_function;
    PFN_vkCreateShaderModule create_module;
} loader, driver;

static void *open_real(const char *path) {
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) abort();
    return library;
}

/* --- the driver --- */

static VKAPI_ATTR void VKAPI_CALL driver_properties(VkPhysicalDevice physical, VkPhysicalDeviceProperties *out) {
    driver.properties(physical, out);
    out->limits.maxComputeSharedMemorySize = RACES_ROOM;
}

static VKAPI_ATTR void VKAPI_CALL driver_properties_2(VkPhysicalDevice physical, VkPhysicalDeviceProperties2 *out) {
    driver.properties_2(physical, out);
    out->properties.limits.maxComputeSharedMemorySize = RACES_ROOM;
}

static PFN_vkVoidFunction driver_replace(const char *name, PFN_vkVoidFunction function) {
    if (function && !strcmp(name, "vkGetPhysicalDeviceProperties")) {
        driver.properties = (PFN_vkGetPhysicalDeviceProperties)function;
        return (PFN_vkVoidFunction)driver_properties;
    }
    if (function && !strncmp(name, "vkGetPhysicalDeviceProperties2", 30)) {
        driver.properties_2 = (PFN_vkGetPhysicalDeviceProperties2)function;
        return (PFN_vkVoidFunction)driver_properties_2;
    }
    return function;
}

EXPORT PFN_vkVoidFunction vk_icdGetInstanceProcAddr(VkInstance instance, const char *name);
EXPORT PFN_vkVoidFunction vk_icdGetInstanceProcAddr(VkInstance instance, const char *name) {
    if (!driver.instance_function)
        *(void **)&driver.instance_function = dlsym(open_real(DRIVER), "vk_icdGetInstanceProcAddr");
    return driver_replace(name, driver.instance_function(instance, name));
}

EXPORT PFN_vkVoidFunction vk_icdGetPhysicalDeviceProcAddr(VkInstance instance, const char *name);
EXPORT PFN_vkVoidFunction vk_icdGetPhysicalDeviceProcAddr(VkInstance instance, const char *name) {
    PFN_vkGetInstanceProcAddr get;
    *(void **)&get = dlsym(open_real(DRIVER), "vk_icdGetPhysicalDeviceProcAddr");
    return driver_replace(name, get(instance, name));
}

EXPORT VkResult vk_icdNegotiateLoaderICDInterfaceVersion(uint32_t *version);
EXPORT VkResult vk_icdNegotiateLoaderICDInterfaceVersion(uint32_t *version) {
    VkResult (*negotiate)(uint32_t *);
    *(void **)&negotiate = dlsym(open_real(DRIVER), "vk_icdNegotiateLoaderICDInterfaceVersion");
    return negotiate(version);
}

/* --- the loader --- */

static VKAPI_ATTR void VKAPI_CALL loader_properties(VkPhysicalDevice physical, VkPhysicalDeviceProperties *out) {
    loader.properties(physical, out);
    out->limits.maxComputeSharedMemorySize = RACES_SHARED;
}

static VKAPI_ATTR void VKAPI_CALL loader_properties_2(VkPhysicalDevice physical, VkPhysicalDeviceProperties2 *out) {
    loader.properties_2(physical, out);
    out->properties.limits.maxComputeSharedMemorySize = RACES_SHARED;
}

/* Barriers name their scopes by the numbers of constants. A module that has barriers of subgroups alone lacks the
   constant that is wanted, and keeps its own. */
static void change_barriers(uint32_t *words, size_t count) {
    uint32_t *end = words + count, *constant, *barrier, workgroup = 0;
    for (barrier = words + 5; barrier < end; barrier += *barrier >> 16) {
        if ((*barrier & 0xffff) != OP_CONTROL_BARRIER) continue;
        for (constant = words + 5; constant < barrier; constant += *constant >> 16)
            if ((*constant & 0xffff) == OP_CONSTANT && constant[2] == barrier[1] && constant[3] == SCOPE_WORKGROUP)
                workgroup = barrier[1];
    }
    for (barrier = words + 5; barrier < end; barrier += *barrier >> 16) {
        if ((*barrier & 0xffff) != OP_CONTROL_BARRIER) continue;
        if (workgroup) barrier[1] = workgroup;
        if (getenv("WITHOUT_BARRIERS")) barrier[0] = barrier[1] = barrier[2] = barrier[3] = OP_NOP;
    }
}

static VKAPI_ATTR VkResult VKAPI_CALL create_module(VkDevice device, const VkShaderModuleCreateInfo *info,
                                                    const VkAllocationCallbacks *callbacks, VkShaderModule *out) {
    VkShaderModuleCreateInfo changed = *info;
    uint32_t *words = malloc(info->codeSize);
    VkResult result;
    if (!words) return VK_ERROR_OUT_OF_HOST_MEMORY;
    memcpy(words, info->pCode, info->codeSize);
    change_barriers(words, info->codeSize / 4);
    changed.pCode = words;
    result = loader.create_module(device, &changed, callbacks, out);
    free(words);
    return result;
}

static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL device_function(VkDevice device, const char *name) {
    PFN_vkVoidFunction function = loader.device_function(device, name);
    return strcmp(name, "vkCreateShaderModule") ? function : (PFN_vkVoidFunction)create_module;
}

EXPORT VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL vkGetInstanceProcAddr(VkInstance instance, const char *name);
EXPORT VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL vkGetInstanceProcAddr(VkInstance instance, const char *name) {
    PFN_vkVoidFunction function;
    if (!loader.instance_function)
        *(void **)&loader.instance_function = dlsym(open_real(LOADER), "vkGetInstanceProcAddr");
    function = loader.instance_function(instance, name);
    if (!function) return NULL;
    if (!strcmp(name, "vkGetPhysicalDeviceProperties")) {
        loader.properties = (PFN_vkGetPhysicalDeviceProperties)function;
        return (PFN_vkVoidFunction)loader_properties;
    }
    if (!strncmp(name, "vkGetPhysicalDeviceProperties2", 30)) {
        loader.properties_2 = (PFN_vkGetPhysicalDeviceProperties2)function;
        return (PFN_vkVoidFunction)loader_properties_2;
    }
    if (!strcmp(name, "vkGetDeviceProcAddr")) {
        loader.device_function = (PFN_vkGetDeviceProcAddr)function;
        loader.create_module = (PFN_vkCreateShaderModule)loader.instance_function(instance, "vkCreateShaderModule");
        return (PFN_vkVoidFunction)device_function;
    }
    return function;
}
