/* The device that dit works on: one of its own on the GPU that Godot draws with, whose queue yields to Godot's; or
   Godot's, where it was asked for and has what dit needs. */
#include "worker.h"
#define VK_NO_PROTOTYPES
#include <vulkan/vulkan_core.h>
#include "dit.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef _WIN32
#include <windows.h>
#else
#include <dlfcn.h>
#endif

struct own_device {
    VkInstance instance; /* NULL, like device, where Godot's are used */
    VkDevice device;
    VkDeviceCreateInfo *info; /* as it was created, with what it points to */
    PFN_vkDestroyDevice destroy_device;
    PFN_vkDestroyInstance destroy_instance;
};

enum { MOST = 16 };

/* The loader stays open until the process ends: Godot's renderer and drivers have it open as well. */
static PFN_vkGetInstanceProcAddr loader(void) {
    PFN_vkGetInstanceProcAddr entry = NULL;
#ifdef _WIN32
    HMODULE library = LoadLibraryA("vulkan-1.dll");
    FARPROC found = library ? GetProcAddress(library, "vkGetInstanceProcAddr") : NULL;
    memcpy(&entry, &found, sizeof entry);
#else
    static const char *const names[] = {"libvulkan.so.1", "libvulkan.so", "libvulkan.1.dylib", "libMoltenVK.dylib"};
    size_t i;
    for (i = 0; i < sizeof names / sizeof *names && !entry; i++) {
        void *library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
        void *found = library ? dlsym(library, "vkGetInstanceProcAddr") : NULL;
        memcpy(&entry, &found, sizeof entry);
    }
#endif
    return entry;
}

#define FUNCTION(name) PFN_vk##name name = (PFN_vk##name)entry(instance, "vk" #name)

/* ---- Godot's device ---- */

/* NULL: dit can use it. Godot makes one queue of each family, and draws and copies with two of them. dit needs a third
   one, because it cannot ask Godot to leave a queue alone for a moment. */
static const char *unfit(PFN_vkGetInstanceProcAddr entry, const place *at, uint32_t *family) {
    VkInstance instance = (VkInstance)at->instance;
    VkQueueFamilyProperties families[MOST];
    uint32_t count = MOST, i, copying = UINT32_MAX;
    FUNCTION(GetDeviceProcAddr);
    FUNCTION(GetPhysicalDeviceQueueFamilyProperties);
    /* Godot enables the features of an extension together with it. Vulkan tells no features of a device. */
    if (!GetDeviceProcAddr((VkDevice)at->device, "vkWaitSemaphoresKHR")) return "has no timeline semaphores";
    GetPhysicalDeviceQueueFamilyProperties((VkPhysicalDevice)at->physical_device, &count, families);
    for (i = 0; i < count; i++)
        if (families[i].queueFlags & VK_QUEUE_TRANSFER_BIT &&
            !(families[i].queueFlags & (VK_QUEUE_GRAPHICS_BIT | VK_QUEUE_COMPUTE_BIT)))
            copying = i;
    for (*family = 0; *family < count; ++*family)
        if (families[*family].queueFlags & VK_QUEUE_COMPUTE_BIT && *family != at->queue_family && copying != UINT32_MAX)
            return NULL;
    return "has no queue that Godot leaves alone";
}

static void use_godots(PFN_vkGetInstanceProcAddr entry, const place *at, uint32_t family, dit_vulkan *vulkan) {
    VkInstance instance = (VkInstance)at->instance;
    FUNCTION(GetDeviceProcAddr);
    PFN_vkGetDeviceQueue GetDeviceQueue =
        (PFN_vkGetDeviceQueue)GetDeviceProcAddr((VkDevice)at->device, "vkGetDeviceQueue");
    vulkan->get_instance_proc_addr = entry;
    vulkan->instance = instance;
    vulkan->physical_device = (VkPhysicalDevice)at->physical_device;
    vulkan->device = (VkDevice)at->device;
    vulkan->queue_family = family;
    GetDeviceQueue(vulkan->device, family, 0, &vulkan->queue);
}

/* ---- a device of dit's own ---- */

static bool uuid_of(PFN_vkGetInstanceProcAddr entry, VkInstance instance, VkPhysicalDevice gpu, uint8_t *uuid) {
    VkPhysicalDeviceIDProperties id = {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ID_PROPERTIES, NULL, {0}, {0}, {0}, 0, 0};
    VkPhysicalDeviceProperties2 properties;
    FUNCTION(GetPhysicalDeviceProperties2);
    if (!GetPhysicalDeviceProperties2) return false;
    memset(&properties, 0, sizeof properties);
    properties.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2;
    properties.pNext = &id;
    GetPhysicalDeviceProperties2(gpu, &properties);
    memcpy(uuid, id.deviceUUID, VK_UUID_SIZE);
    return true;
}

/* Godot's GPU, or the first that dit can use where Godot draws without Vulkan. */
static bool wanted_uuid(PFN_vkGetInstanceProcAddr entry, const place *at, uint8_t *uuid, dit_error *err) {
    dit_device_info list[MOST];
    uint32_t count = MOST, i;
    if (at->instance && at->physical_device &&
        uuid_of(entry, (VkInstance)at->instance, (VkPhysicalDevice)at->physical_device, uuid))
        return true;
    if (dit_device_list(list, &count, err) < 0) return false;
    for (i = 0; i < count && !strcmp(list[i].rung, "none"); i++) {
    }
    if (i < count) memcpy(uuid, list[i].uuid, VK_UUID_SIZE);
    if (i == count) snprintf(err->message, sizeof err->message, "no Vulkan device here suits dit");
    return i < count;
}

static bool open_instance(own_device *d, PFN_vkGetInstanceProcAddr entry, dit_error *err) {
    VkApplicationInfo app = {VK_STRUCTURE_TYPE_APPLICATION_INFO, NULL, "dit in Godot", 0, NULL, 0, VK_API_VERSION_1_2};
    VkInstanceCreateInfo info = {VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO, NULL, 0, &app, 0, NULL, 0, NULL};
    VkInstance instance = NULL;
    FUNCTION(CreateInstance);
    VkResult result = CreateInstance(&info, NULL, &d->instance);
    if (result == VK_SUCCESS)
        d->destroy_instance = (PFN_vkDestroyInstance)entry(d->instance, "vkDestroyInstance");
    else
        snprintf(err->message, sizeof err->message, "vkCreateInstance for dit's own device failed (%d)", (int)result);
    return result == VK_SUCCESS;
}

static VkPhysicalDevice find_gpu(const own_device *d, PFN_vkGetInstanceProcAddr entry, const uint8_t *uuid) {
    VkInstance instance = d->instance;
    VkPhysicalDevice list[MOST];
    uint32_t count = MOST, i;
    uint8_t its[VK_UUID_SIZE];
    FUNCTION(EnumeratePhysicalDevices);
    EnumeratePhysicalDevices(instance, &count, list);
    for (i = 0; i < count; i++)
        if (uuid_of(entry, instance, list[i], its) && !memcmp(its, uuid, VK_UUID_SIZE)) return list[i];
    return NULL;
}

/* One that computes and does not draw, where there is one: it works beside Godot's. */
static uint32_t find_family(PFN_vkGetInstanceProcAddr entry, VkInstance instance, VkPhysicalDevice gpu) {
    VkQueueFamilyProperties families[MOST];
    uint32_t count = MOST, i, found = UINT32_MAX;
    FUNCTION(GetPhysicalDeviceQueueFamilyProperties);
    GetPhysicalDeviceQueueFamilyProperties(gpu, &count, families);
    for (i = 0; i < count; i++) {
        if (!(families[i].queueFlags & VK_QUEUE_COMPUTE_BIT)) continue;
        if (!(families[i].queueFlags & VK_QUEUE_GRAPHICS_BIT)) return i;
        if (found == UINT32_MAX) found = i;
    }
    return found;
}

/* The extension's name, where the GPU has one that lets a queue yield to others; NULL: it has none. */
static const char *low_priority(PFN_vkGetInstanceProcAddr entry, VkInstance instance, VkPhysicalDevice gpu) {
    static const char *const names[] = {"VK_KHR_global_priority", "VK_EXT_global_priority"};
    VkExtensionProperties *list;
    const char *found = NULL;
    uint32_t count = 0, i, k;
    FUNCTION(EnumerateDeviceExtensionProperties);
    EnumerateDeviceExtensionProperties(gpu, NULL, &count, NULL);
    list = calloc(count + 1, sizeof *list);
    if (list) EnumerateDeviceExtensionProperties(gpu, NULL, &count, list);
    for (k = 0; k < 2 && list && !found; k++)
        for (i = 0; i < count && !found; i++)
            if (!strcmp(list[i].extensionName, names[k])) found = names[k];
    free(list);
    return found;
}

static bool create_device(own_device *d, PFN_vkGetInstanceProcAddr entry, VkPhysicalDevice gpu, uint32_t family,
                          const char *priority, dit_error *err) {
    static const float lowest = 0;
    VkInstance instance = d->instance;
    VkDeviceQueueGlobalPriorityCreateInfoKHR low = {VK_STRUCTURE_TYPE_DEVICE_QUEUE_GLOBAL_PRIORITY_CREATE_INFO_KHR,
                                                    NULL, VK_QUEUE_GLOBAL_PRIORITY_LOW_KHR};
    VkDeviceQueueCreateInfo queue = {
        VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO, priority ? &low : NULL, 0, family, 1, &lowest};
    VkDeviceCreateInfo app = {
        VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO, NULL, 0, 1, &queue, 0, NULL, priority ? 1u : 0u, &priority, NULL};
    size_t size = 0;
    VkResult result;
    FUNCTION(CreateDevice);
    if (dit_device_extend(entry, instance, gpu, &app, NULL, &size, NULL, err) < 0) return false;
    d->info = malloc(sizeof *d->info + size);
    if (!d->info || dit_device_extend(entry, instance, gpu, &app, d->info + 1, &size, d->info, err) < 0) return false;
    result = CreateDevice(gpu, d->info, NULL, &d->device);
    if (result == VK_SUCCESS) {
        d->destroy_device = (PFN_vkDestroyDevice)entry(instance, "vkDestroyDevice");
        return true;
    }
    snprintf(err->message, sizeof err->message, "vkCreateDevice for dit failed (%d)", (int)result);
    free(d->info);
    d->info = NULL;
    return false;
}

static bool open_own(own_device *d, PFN_vkGetInstanceProcAddr entry, const place *at, dit_vulkan *vulkan,
                     const char *why, char *note, size_t note_size, dit_error *err) {
    uint8_t uuid[VK_UUID_SIZE];
    VkPhysicalDeviceProperties properties;
    VkPhysicalDevice gpu;
    const char *priority;
    uint32_t family;
    if (!wanted_uuid(entry, at, uuid, err) || !open_instance(d, entry, err)) return false;
    gpu = find_gpu(d, entry, uuid);
    if (!gpu) {
        snprintf(err->message, sizeof err->message, "Godot's GPU is not among those that Vulkan lists for dit");
        return false;
    }
    family = find_family(entry, d->instance, gpu);
    priority = low_priority(entry, d->instance, gpu);
    if (!create_device(d, entry, gpu, family, priority, err)) {
        priority = NULL; /* some systems allow no priority but the usual one */
        if (!create_device(d, entry, gpu, family, priority, err)) return false;
    }
    vulkan->get_instance_proc_addr = entry;
    vulkan->instance = d->instance;
    vulkan->physical_device = gpu;
    vulkan->device = d->device;
    vulkan->device_info = d->info;
    vulkan->queue_family = family;
    ((PFN_vkGetDeviceQueue)entry(d->instance, "vkGetDeviceQueue"))(d->device, family, 0, &vulkan->queue);
    ((PFN_vkGetPhysicalDeviceProperties)entry(d->instance, "vkGetPhysicalDeviceProperties"))(gpu, &properties);
    snprintf(note, note_size, "dit works on a device of its own on %s, at %s priority%s%s", properties.deviceName,
             priority ? "low" : "the usual", why ? ": Godot's device " : "", why ? why : "");
    return true;
}

bool own_device_open(own_device **out, const place *at, dit_vulkan *vulkan, char *note, size_t note_size, char *message,
                     size_t message_size) {
    PFN_vkGetInstanceProcAddr entry = loader();
    own_device *d = calloc(1, sizeof *d);
    dit_error err = {0};
    const char *why = NULL;
    uint32_t family = 0;
    *out = NULL;
    if (!d || !entry) {
        snprintf(message, message_size, entry ? "no memory for a device" : "there is no Vulkan on this machine");
        free(d);
        return false;
    }
    *out = d;
    if (at->device) why = unfit(entry, at, &family);
    if (at->device && !why) {
        use_godots(entry, at, family, vulkan);
        snprintf(note, note_size, "dit works on Godot's device, on its queue family %u", family);
        return true;
    }
    if (open_own(d, entry, at, vulkan, why, note, note_size, &err)) return true;
    snprintf(message, message_size, "%s", err.message);
    own_device_close(d);
    *out = NULL;
    return false;
}

void own_device_close(own_device *d) {
    if (!d) return;
    if (d->device) d->destroy_device(d->device, NULL);
    if (d->instance) d->destroy_instance(d->instance, NULL);
    free(d->info);
    free(d);
}
