// Memory from VMA, for the engine's textures and, as a dit_device_allocator, for dit.
extern "C" {
#include "engine.h"
}
#define VMA_IMPLEMENTATION
#define VMA_STATIC_VULKAN_FUNCTIONS 0
#define VMA_DYNAMIC_VULKAN_FUNCTIONS 1
#include <vk_mem_alloc.h>

void *memory_open(renderer *r) {
    VmaVulkanFunctions functions = {};
    VmaAllocatorCreateInfo info = {};
    VmaAllocator allocator = nullptr;
    functions.vkGetInstanceProcAddr = r->entry;
    functions.vkGetDeviceProcAddr = r->GetDeviceProcAddr;
    info.instance = r->instance;
    info.physicalDevice = r->gpu;
    info.device = r->device;
    info.vulkanApiVersion = VK_API_VERSION_1_3;
    info.pVulkanFunctions = &functions;
    return vmaCreateAllocator(&info, &allocator) == VK_SUCCESS ? allocator : nullptr;
}

void memory_close(void *allocator) { vmaDestroyAllocator(static_cast<VmaAllocator>(allocator)); }

VkResult memory_alloc(void *allocator, const VkMemoryRequirements *need, VkMemoryPropertyFlags required,
                      VkMemoryPropertyFlags preferred, VkDeviceMemory *memory, VkDeviceSize *offset, void **mapped,
                      void **handle) {
    VmaAllocationCreateInfo info = {};
    VmaAllocation allocation = nullptr;
    VmaAllocationInfo got = {};
    info.requiredFlags = required;
    info.preferredFlags = preferred;
    info.flags =
        VMA_ALLOCATION_CREATE_MAPPED_BIT; // wherever the host sees it: dit then writes weights where they belong
    VkResult result = vmaAllocateMemory(static_cast<VmaAllocator>(allocator), need, &info, &allocation, &got);
    if (result < 0) return result;
    *memory = got.deviceMemory;
    *offset = got.offset;
    *mapped = got.pMappedData;
    *handle = allocation;
    return VK_SUCCESS;
}

void memory_free(void *allocator, void *handle) {
    vmaFreeMemory(static_cast<VmaAllocator>(allocator), static_cast<VmaAllocation>(handle));
}
