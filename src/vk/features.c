#include "vk/vk.h"

DIT_INTERNAL void diti_features_supported(const diti_vk_api *vk, VkPhysicalDevice physical, diti_features *out) {
    VkPhysicalDeviceTimelineSemaphoreFeatures timeline = DITI_ZERO;
    VkPhysicalDeviceShaderFloat16Int8Features fp16 = DITI_ZERO;
    VkPhysicalDevice16BitStorageFeatures storage = DITI_ZERO;
    VkPhysicalDeviceShaderIntegerDotProductFeatures dot = DITI_ZERO;
    VkPhysicalDeviceFeatures2 features = DITI_ZERO;
    timeline.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_TIMELINE_SEMAPHORE_FEATURES;
    fp16.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_FLOAT16_INT8_FEATURES;
    fp16.pNext = &timeline;
    storage.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_16BIT_STORAGE_FEATURES;
    storage.pNext = &fp16;
    features.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2;
    dot.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_FEATURES;
    dot.pNext = &storage;
    features.pNext = &dot;
    vk->GetPhysicalDeviceFeatures2(physical, &features);
    out->timeline = timeline.timelineSemaphore != VK_FALSE;
    out->fp16 = fp16.shaderFloat16 != VK_FALSE;
    out->storage16 = storage.storageBuffer16BitAccess != VK_FALSE;
    out->dot = dot.shaderIntegerDotProduct != VK_FALSE;
}

static void diti_features_of_struct(const VkBaseInStructure *at, diti_features *out) {
    switch ((int)at->sType) {
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES:
        if (((const VkPhysicalDeviceVulkan11Features *)at)->storageBuffer16BitAccess) out->storage16 = true;
        break;
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_16BIT_STORAGE_FEATURES:
        if (((const VkPhysicalDevice16BitStorageFeatures *)at)->storageBuffer16BitAccess) out->storage16 = true;
        break;
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES:
        if (((const VkPhysicalDeviceVulkan12Features *)at)->timelineSemaphore) out->timeline = true;
        if (((const VkPhysicalDeviceVulkan12Features *)at)->shaderFloat16) out->fp16 = true;
        break;
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_TIMELINE_SEMAPHORE_FEATURES:
        if (((const VkPhysicalDeviceTimelineSemaphoreFeatures *)at)->timelineSemaphore) out->timeline = true;
        break;
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_FLOAT16_INT8_FEATURES:
        if (((const VkPhysicalDeviceShaderFloat16Int8Features *)at)->shaderFloat16) out->fp16 = true;
        break;
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES:
        if (((const VkPhysicalDeviceVulkan13Features *)at)->shaderIntegerDotProduct) out->dot = true;
        break;
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_FEATURES:
        if (((const VkPhysicalDeviceShaderIntegerDotProductFeatures *)at)->shaderIntegerDotProduct) out->dot = true;
        break;
    default: break;
    }
}

DIT_INTERNAL void diti_features_enabled(const VkDeviceCreateInfo *info, diti_features *out) {
    const VkBaseInStructure *at;
    memset(out, 0, sizeof *out);
    for (at = (const VkBaseInStructure *)info->pNext; at; at = at->pNext) diti_features_of_struct(at, out);
}
