#include "vk/vk.h"

/* How many multiprocessors, compute units or shader cores a device has. Core Vulkan does not say; where the vendor has
   no extension for it, a guess by the kind of device that never changes, because results depend on it (ops_split_k.c).
 */

static bool diti_cores_has(const VkExtensionProperties *list, uint32_t count, const char *name) {
    uint32_t i;
    for (i = 0; i < count; i++) {
        if (diti_equal(list[i].extensionName, name)) return true;
    }
    return false;
}

/* How many there are. out: whether the vendor's extension says so, and how many registers it tells of. */
static uint32_t diti_cores_of_list(const diti_device *device, const VkExtensionProperties *list, uint32_t count,
                                   diti_limits *out) {
    VkPhysicalDeviceShaderSMBuiltinsPropertiesNV nv = DITI_ZERO;
    VkPhysicalDeviceShaderCorePropertiesAMD amd = DITI_ZERO;
    VkPhysicalDeviceShaderCoreBuiltinsPropertiesARM arm = DITI_ZERO;
    VkPhysicalDeviceProperties2 properties = DITI_ZERO;
    properties.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2;
    nv.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_SM_BUILTINS_PROPERTIES_NV;
    amd.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_CORE_PROPERTIES_AMD;
    arm.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_CORE_BUILTINS_PROPERTIES_ARM;
    if (diti_cores_has(list, count, VK_NV_SHADER_SM_BUILTINS_EXTENSION_NAME))
        properties.pNext = &nv;
    else if (diti_cores_has(list, count, VK_AMD_SHADER_CORE_PROPERTIES_EXTENSION_NAME))
        properties.pNext = &amd;
    else if (diti_cores_has(list, count, VK_ARM_SHADER_CORE_BUILTINS_EXTENSION_NAME))
        properties.pNext = &arm;
    device->vk.GetPhysicalDeviceProperties2(device->physical, &properties);
    out->registers = amd.vgprsPerSimd;
    out->cores_told = true;
    if (nv.shaderSMCount) return nv.shaderSMCount;
    if (arm.shaderCoreCount) return arm.shaderCoreCount;
    if (amd.computeUnitsPerShaderArray)
        return amd.shaderEngineCount * amd.shaderArraysPerEngineCount * amd.computeUnitsPerShaderArray;
    out->cores_told = false;
    return properties.properties.deviceType == VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU ? 32 : 8;
}

DIT_INTERNAL dit_result diti_device_cores(const diti_device *device, diti_limits *out, dit_error *err) {
    VkExtensionProperties *list;
    uint32_t count = 0;
    if (device->vk.EnumerateDeviceExtensionProperties(device->physical, NULL, &count, NULL) < 0) count = 0;
    list = (VkExtensionProperties *)diti_alloc_array(&device->env, count + 1, sizeof *list);
    if (!list) return diti_fail_memory(err, "the device's extensions");
    if (device->vk.EnumerateDeviceExtensionProperties(device->physical, NULL, &count, list) < 0) count = 0;
    out->cores = diti_cores_of_list(device, list, count, out);
    diti_free(&device->env, list);
    return DIT_OK;
}
