/* Vulkan's functions: the loader is opened at run time, or the application hands its own over. */
#include "base/windows.h"
#include "vk/vk.h"
#ifndef _WIN32
#include <dlfcn.h>
#endif

#if defined(_WIN32)
static const char *const diti_loader_names[] = {"vulkan-1.dll"};
#define DITI_LOADER_HELP "install the graphics driver of the device's vendor"
static void *diti_library_open(const char *name) { return (void *)LoadLibraryA(name); }
static void diti_library_close(void *library) { FreeLibrary((HMODULE)library); }
static PFN_vkGetInstanceProcAddr diti_library_entry(void *library) {
    FARPROC symbol = GetProcAddress((HMODULE)library, "vkGetInstanceProcAddr");
    PFN_vkGetInstanceProcAddr entry = NULL;
    memcpy(&entry, &symbol, sizeof entry);
    return entry;
}
#else
#if defined(__APPLE__)
static const char *const diti_loader_names[] = {"libvulkan.1.dylib", "libvulkan.dylib", "libMoltenVK.dylib"};
#define DITI_LOADER_HELP "install the Vulkan SDK, or MoltenVK: brew install molten-vk vulkan-loader"
#else
static const char *const diti_loader_names[] = {"libvulkan.so.1", "libvulkan.so"};
#define DITI_LOADER_HELP "install the Vulkan loader: apt-get install libvulkan1, or dnf install vulkan-loader"
#endif
static void *diti_library_open(const char *name) { return dlopen(name, RTLD_NOW | RTLD_LOCAL); }
static void diti_library_close(void *library) { dlclose(library); }
static PFN_vkGetInstanceProcAddr diti_library_entry(void *library) {
    void *symbol = dlsym(library, "vkGetInstanceProcAddr");
    PFN_vkGetInstanceProcAddr entry = NULL;
    memcpy(&entry, &symbol, sizeof entry); /* ISO C has no cast from data to function pointers */
    return entry;
}
#endif
#define DITI_DRIVER_HELP                                                                                               \
    "install a driver for this machine's GPU, or a software one: apt-get install mesa-vulkan-drivers"

static dit_result diti_loader_open(const char *name, void **library, dit_error *err) {
    size_t i;
    if (name) {
        *library = diti_library_open(name);
        if (*library) return DIT_OK;
        return diti_fail(err, DIT_ERROR_UNSUPPORTED_DEVICE, "cannot load the Vulkan loader %s; %s", name,
                         DITI_LOADER_HELP);
    }
    for (i = 0; i < DITI_COUNT(diti_loader_names); i++) {
        *library = diti_library_open(diti_loader_names[i]);
        if (*library) return DIT_OK;
    }
    return diti_fail(err, DIT_ERROR_UNSUPPORTED_DEVICE, "cannot load the Vulkan loader %s; %s", diti_loader_names[0],
                     DITI_LOADER_HELP);
}

DIT_INTERNAL dit_result diti_vulkan_load(const char *loader, PFN_vkGetInstanceProcAddr given, diti_vk_api *vk,
                                         void **library, dit_error *err) {
    dit_result result = DIT_OK;
    *library = NULL;
    if (!given) result = diti_loader_open(loader, library, err);
    DITI_TRY(result);
    vk->GetInstanceProcAddr = given ? given : diti_library_entry(*library);
    if (!vk->GetInstanceProcAddr) {
        diti_vulkan_unload(library);
        return diti_fail(err, DIT_ERROR_UNSUPPORTED_DEVICE, "the Vulkan loader has no vkGetInstanceProcAddr; %s",
                         DITI_LOADER_HELP);
    }
    return DIT_OK;
}

DIT_INTERNAL void diti_vulkan_unload(void **library) {
    if (*library) diti_library_close(*library);
    *library = NULL;
}

static dit_result diti_global_functions(diti_vk_api *vk, dit_error *err) {
    PFN_vkGetInstanceProcAddr get = vk->GetInstanceProcAddr;
    vk->CreateInstance = (PFN_vkCreateInstance)get(NULL, "vkCreateInstance");
    vk->EnumerateInstanceVersion = (PFN_vkEnumerateInstanceVersion)get(NULL, "vkEnumerateInstanceVersion");
    vk->EnumerateInstanceExtensionProperties =
        (PFN_vkEnumerateInstanceExtensionProperties)get(NULL, "vkEnumerateInstanceExtensionProperties");
    if (vk->CreateInstance && vk->EnumerateInstanceVersion && vk->EnumerateInstanceExtensionProperties) return DIT_OK;
    return diti_fail(err, DIT_ERROR_UNSUPPORTED_DEVICE, "the Vulkan loader is older than Vulkan 1.1; dit needs 1.2: %s",
                     DITI_LOADER_HELP);
}

/* Devices that are not fully conformant (MoltenVK) show up only where this extension is enabled. */
static dit_result diti_instance_has_portability(const diti_env *env, const diti_vk_api *vk, bool *found,
                                                dit_error *err) {
    VkExtensionProperties *list;
    uint32_t i, count = 0;
    *found = false;
    if (vk->EnumerateInstanceExtensionProperties(NULL, &count, NULL) < 0 || !count) return DIT_OK;
    list = (VkExtensionProperties *)diti_alloc_array(env, count, sizeof *list);
    if (!list) return diti_fail_memory(err, "a list of %u instance extensions", count);
    if (vk->EnumerateInstanceExtensionProperties(NULL, &count, list) < 0) count = 0;
    for (i = 0; i < count; i++) {
        if (diti_equal(list[i].extensionName, VK_KHR_PORTABILITY_ENUMERATION_EXTENSION_NAME)) *found = true;
    }
    diti_free(env, list);
    return DIT_OK;
}

DIT_INTERNAL dit_result diti_instance_create(const diti_env *env, diti_vk_api *vk, VkInstance *out, dit_error *err) {
    const char *portability = VK_KHR_PORTABILITY_ENUMERATION_EXTENSION_NAME;
    VkApplicationInfo application = DITI_ZERO;
    VkInstanceCreateInfo info = DITI_ZERO;
    VkResult vr;
    bool portable;
    DITI_TRY(diti_global_functions(vk, err));
    DITI_TRY(diti_instance_has_portability(env, vk, &portable, err));
    application.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO;
    application.pEngineName = "dit.h";
    application.engineVersion = DIT_VERSION;
    application.apiVersion = VK_API_VERSION_1_3; /* the newest that dit knows; older devices are fine */
    info.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO;
    info.pApplicationInfo = &application;
    if (portable) {
        info.flags = VK_INSTANCE_CREATE_ENUMERATE_PORTABILITY_BIT_KHR;
        info.enabledExtensionCount = 1;
        info.ppEnabledExtensionNames = &portability;
    }
    vr = vk->CreateInstance(&info, NULL, out);
    if (vr == VK_ERROR_INCOMPATIBLE_DRIVER) {
        return diti_fail(err, DIT_ERROR_UNSUPPORTED_DEVICE, "no Vulkan driver is installed: %s", DITI_DRIVER_HELP);
    }
    if (vr < 0) return diti_fail_vk(err, vr, "vkCreateInstance: %s", diti_vk_name(vr));
    return DIT_OK;
}

DIT_INTERNAL void diti_instance_destroy(diti_vk_api *vk, VkInstance instance) {
    if (!instance) return;
    if (!vk->DestroyInstance) {
        vk->DestroyInstance = (PFN_vkDestroyInstance)vk->GetInstanceProcAddr(instance, "vkDestroyInstance");
    }
    if (vk->DestroyInstance) vk->DestroyInstance(instance, NULL);
}

/* A function that Vulkan is asked for, and where diti_vk_api keeps it. */
typedef struct diti_vk_function {
    const char *name;
    size_t place;
} diti_vk_function;
#define DITI_VK_FUNCTION(name) {"vk" #name, offsetof(diti_vk_api, name)},

DIT_INTERNAL dit_result diti_instance_functions(diti_vk_api *vk, VkInstance instance, dit_error *err) {
    static const diti_vk_function functions[] = {DITI_VK_INSTANCE_FUNCTIONS(DITI_VK_FUNCTION)};
    const char *missing = NULL;
    size_t i;
    for (i = 0; i < DITI_COUNT(functions); i++) {
        PFN_vkVoidFunction function = vk->GetInstanceProcAddr(instance, functions[i].name);
        memcpy((unsigned char *)vk + functions[i].place, &function, sizeof function);
        if (!function) missing = functions[i].name;
    }
    vk->GetCoopProperties =
        (diti_vk_coop_list)vk->GetInstanceProcAddr(instance, "vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR");
    vk->GetFlexibleProperties = (diti_vk_coop_list)vk->GetInstanceProcAddr(
        instance, "vkGetPhysicalDeviceCooperativeMatrixFlexibleDimensionsPropertiesNV");
    if (!missing) return DIT_OK;
    return diti_fail(err, DIT_ERROR_UNSUPPORTED_DEVICE, "the Vulkan instance has no %s; dit needs Vulkan 1.2", missing);
}

DIT_INTERNAL dit_result diti_device_functions(diti_vk_api *vk, VkDevice device, dit_error *err) {
    static const diti_vk_function functions[] = {DITI_VK_DEVICE_FUNCTIONS(DITI_VK_FUNCTION)};
    const char *missing = NULL;
    size_t i;
    for (i = 0; i < DITI_COUNT(functions); i++) {
        PFN_vkVoidFunction function = vk->GetDeviceProcAddr(device, functions[i].name);
        memcpy((unsigned char *)vk + functions[i].place, &function, sizeof function);
        if (!function) missing = functions[i].name;
    }
    if (!missing) return DIT_OK;
    return diti_fail(err, DIT_ERROR_UNSUPPORTED_DEVICE, "the Vulkan device has no %s; dit needs Vulkan 1.2", missing);
}

DIT_INTERNAL uint32_t diti_queue_families(const diti_vk_api *vk, VkPhysicalDevice physical,
                                          VkQueueFamilyProperties out[DITI_QUEUE_FAMILIES]) {
    uint32_t count = 0;
    vk->GetPhysicalDeviceQueueFamilyProperties(physical, &count, NULL); /* SwiftShader fills all places it is given */
    if (count > DITI_QUEUE_FAMILIES) count = DITI_QUEUE_FAMILIES;
    vk->GetPhysicalDeviceQueueFamilyProperties(physical, &count, out);
    return count;
}

DIT_INTERNAL const char *diti_vk_name(VkResult result) {
    switch ((int)result) {
    case VK_SUCCESS: return "VK_SUCCESS";
    case VK_TIMEOUT: return "VK_TIMEOUT";
    case VK_INCOMPLETE: return "VK_INCOMPLETE";
    case VK_ERROR_OUT_OF_HOST_MEMORY: return "VK_ERROR_OUT_OF_HOST_MEMORY";
    case VK_ERROR_OUT_OF_DEVICE_MEMORY: return "VK_ERROR_OUT_OF_DEVICE_MEMORY";
    case VK_ERROR_INITIALIZATION_FAILED: return "VK_ERROR_INITIALIZATION_FAILED";
    case VK_ERROR_DEVICE_LOST: return "VK_ERROR_DEVICE_LOST";
    case VK_ERROR_MEMORY_MAP_FAILED: return "VK_ERROR_MEMORY_MAP_FAILED";
    case VK_ERROR_LAYER_NOT_PRESENT: return "VK_ERROR_LAYER_NOT_PRESENT";
    case VK_ERROR_EXTENSION_NOT_PRESENT: return "VK_ERROR_EXTENSION_NOT_PRESENT";
    case VK_ERROR_FEATURE_NOT_PRESENT: return "VK_ERROR_FEATURE_NOT_PRESENT";
    case VK_ERROR_INCOMPATIBLE_DRIVER: return "VK_ERROR_INCOMPATIBLE_DRIVER";
    case VK_ERROR_TOO_MANY_OBJECTS: return "VK_ERROR_TOO_MANY_OBJECTS";
    case VK_ERROR_FORMAT_NOT_SUPPORTED: return "VK_ERROR_FORMAT_NOT_SUPPORTED";
    case VK_ERROR_FRAGMENTED_POOL: return "VK_ERROR_FRAGMENTED_POOL";
    case VK_ERROR_OUT_OF_POOL_MEMORY: return "VK_ERROR_OUT_OF_POOL_MEMORY";
    case VK_ERROR_FRAGMENTATION: return "VK_ERROR_FRAGMENTATION";
    case VK_ERROR_UNKNOWN: return "VK_ERROR_UNKNOWN";
    default: return "an unexpected VkResult";
    }
}
