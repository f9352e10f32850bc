/* Known faults of drivers and devices, as one table. Properties that the table leaves out are not even asked for, since
   some drivers crash when they are asked; everything else proves itself when a context is made (job/selftest.c). */
#include "vk/vk.h"

enum { DITI_VENDOR_AMD = 0x1002, DITI_VENDOR_NVIDIA = 0x10de, DITI_VENDOR_INTEL = 0x8086 };

/* Where neither numbers of devices nor versions of drivers tell a generation apart, something that it lacks does. */
typedef enum diti_quirk_unless {
    DITI_UNLESS_NOTHING,
    DITI_UNLESS_MIXED_DOT,  /* a fast dot product of bytes of mixed signs: AMD's GPUs from RDNA3 on */
    DITI_UNLESS_SUBGROUP_16 /* no subgroups of 8: Intel's GPUs from Xe2 on */
} diti_quirk_unless;

typedef struct diti_quirk {
    uint32_t vendor;
    uint32_t driver;                                                 /* a VkDriverId; 0: any */
    uint32_t type;                                                   /* a VkPhysicalDeviceType; 0: any */
    uint32_t first_device, last_device, first_version, last_version; /* deviceID and driverVersion; last 0: no end */
    diti_quirk_unless unless;
    uint32_t what; /* DITI_QUIRK_... */
    const char *why, *source;
} diti_quirk;

/* driverVersion of Intel's driver for Windows: the last two of the four numbers that people see, 32.0.101.8826. */
#define DITI_INTEL_WINDOWS(third, fourth) ((uint32_t)(third) << 14 | (uint32_t)(fourth))

/* Mesa's compiler takes a matrix product apart on GPUs that have no instruction for it: before verx10 125, on Meteor
   Lake, and on Arrow Lake but for ARL_H, whose deviceIDs are 7d51 and 7dd1. */
#define DITI_INTEL_UNITS "Mesa, lower_dpas in src/intel/compiler/brw_compiler.c, include/pci_ids/iris_pci_ids.h"

static const diti_quirk diti_quirk_table[] = {
    {DITI_VENDOR_AMD, VK_DRIVER_ID_AMD_PROPRIETARY, VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU, 0, 0, 0, 0,
     DITI_UNLESS_NOTHING, DITI_QUIRK_NO_MATRICES, "this driver crashes when it is asked for them on integrated GPUs",
     "GPUOpen-Drivers/AMDVLK#422, ggml-org/llama.cpp#22750"},
    {DITI_VENDOR_AMD, VK_DRIVER_ID_AMD_OPEN_SOURCE, VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU, 0, 0, 0, 0,
     DITI_UNLESS_NOTHING, DITI_QUIRK_NO_MATRICES, "this driver crashes when it is asked for them on integrated GPUs",
     "GPUOpen-Drivers/AMDVLK#422"},
    {DITI_VENDOR_AMD, VK_DRIVER_ID_AMD_PROPRIETARY, 0, 0, 0, 0, 0, DITI_UNLESS_MIXED_DOT, DITI_QUIRK_NO_MATRICES,
     "this driver emulates them on GPUs before RDNA3", "ggml-org/llama.cpp#11074"},
    {DITI_VENDOR_AMD, VK_DRIVER_ID_AMD_OPEN_SOURCE, 0, 0, 0, 0, 0, DITI_UNLESS_MIXED_DOT, DITI_QUIRK_NO_MATRICES,
     "this driver emulates them on GPUs before RDNA3", "ggml-org/llama.cpp#11074"},
    {DITI_VENDOR_AMD, VK_DRIVER_ID_AMD_PROPRIETARY, 0, 0, 0, 0, 0, DITI_UNLESS_NOTHING, DITI_QUIRK_SMALL_TILES,
     "large tiles of matrices are slow with this driver", "ggml-org/llama.cpp#18763"},
    {DITI_VENDOR_INTEL, 0, 0, 0, 0x568f, 0, 0, DITI_UNLESS_SUBGROUP_16, DITI_QUIRK_NO_MATRICES,
     "before Arc and Xe2 Intel's GPUs have no matrix units", "Mesa, src/intel/compiler/brw_lower_dpas.cpp"},
    {DITI_VENDOR_INTEL, 0, 0, 0x56c3, 0x7d50, 0, 0, DITI_UNLESS_SUBGROUP_16, DITI_QUIRK_NO_MATRICES,
     "before Arc and Xe2 Intel's GPUs have no matrix units", "Mesa, src/intel/compiler/brw_lower_dpas.cpp"},
    {DITI_VENDOR_INTEL, 0, 0, 0x7d52, 0x7dd0, 0, 0, DITI_UNLESS_SUBGROUP_16, DITI_QUIRK_NO_MATRICES,
     "of Intel's chips with Xe-LPG only Arrow Lake H has matrix units", DITI_INTEL_UNITS},
    {DITI_VENDOR_INTEL, 0, 0, 0x7dd2, 0, 0, 0, DITI_UNLESS_SUBGROUP_16, DITI_QUIRK_NO_MATRICES,
     "of Intel's chips with Xe-LPG only Arrow Lake H has matrix units", DITI_INTEL_UNITS},
    {DITI_VENDOR_INTEL, 0, 0, 0x5690, 0x56c2, 0, 0, DITI_UNLESS_SUBGROUP_16, DITI_QUIRK_DOUBTFUL_MATRICES,
     "kernels of others ran 20 times as fast on Arc A's matrix units, or 1400 times slower",
     "ggml-org/llama.cpp#24404"},
    {DITI_VENDOR_INTEL, 0, 0, 0x7d51, 0x7d51, 0, 0, DITI_UNLESS_SUBGROUP_16, DITI_QUIRK_DOUBTFUL_MATRICES,
     "Arrow Lake H has Arc A's matrix units, which were fast for some and slow for others", DITI_INTEL_UNITS},
    {DITI_VENDOR_INTEL, 0, 0, 0x7dd1, 0x7dd1, 0, 0, DITI_UNLESS_SUBGROUP_16, DITI_QUIRK_DOUBTFUL_MATRICES,
     "Arrow Lake H has Arc A's matrix units, which were fast for some and slow for others", DITI_INTEL_UNITS},
    {DITI_VENDOR_INTEL, VK_DRIVER_ID_INTEL_PROPRIETARY_WINDOWS, 0, 0xe220, 0xe223, 0, DITI_INTEL_WINDOWS(101, 8826),
     DITI_UNLESS_NOTHING, DITI_QUIRK_NO_MATRICES, "they lose the device with this driver, up to 32.0.101.8826",
     "IGCIT/Intel-GPU-Community-Issue-Tracker-IGCIT#1487, ggml-org/llama.cpp#22034, #24005"},
    {DITI_VENDOR_NVIDIA, 0, 0, 0x1b00, 0x1d7f, 0, 0, DITI_UNLESS_NOTHING, DITI_QUIRK_SLOW_HALF,
     "GPUs from GP102 to GP108 compute halves 64 times slower than floats",
     "CUDA C++ Programming Guide, arithmetic instructions, compute capability 6.1"},
    {DITI_VENDOR_NVIDIA, VK_DRIVER_ID_MESA_NVK, 0, 0, 0, 0, 0, DITI_UNLESS_NOTHING, DITI_QUIRK_SCATTERED_SUMS,
     "sums that begin as zeros get registers that are no group of four, and are moved before every product",
     "Mesa, alloc_scalar in src/nouveau/compiler/nak/assign_regs.rs"},
};

static bool diti_quirk_fits(const diti_quirk *quirk, const diti_identity *id) {
    if (quirk->vendor != id->vendor || (quirk->driver && quirk->driver != id->driver) ||
        (quirk->type && quirk->type != id->type))
        return false;
    if (id->device < quirk->first_device || (quirk->last_device && id->device > quirk->last_device)) return false;
    if (id->version < quirk->first_version || (quirk->last_version && id->version > quirk->last_version)) return false;
    if (quirk->unless == DITI_UNLESS_MIXED_DOT) return !id->mixed_dot;
    if (quirk->unless == DITI_UNLESS_SUBGROUP_16) return id->min_subgroup < 16;
    return true;
}

DIT_INTERNAL uint32_t diti_quirks(const diti_identity *id, uint32_t wanted, const char **why) {
    uint32_t found = 0;
    size_t i;
    *why = NULL;
    for (i = 0; i < DITI_COUNT(diti_quirk_table); i++) {
        const diti_quirk *quirk = &diti_quirk_table[i];
        if (!(quirk->what & wanted) || !diti_quirk_fits(quirk, id)) continue;
        if (!*why) *why = quirk->why;
        found |= quirk->what;
    }
    return found;
}

DIT_INTERNAL void diti_identify(const diti_vk_api *vk, VkPhysicalDevice physical, diti_identity *out) {
    VkPhysicalDeviceProperties2 properties = DITI_ZERO;
    VkPhysicalDeviceDriverProperties driver = DITI_ZERO;
    VkPhysicalDeviceSubgroupProperties subgroup = DITI_ZERO;
    VkPhysicalDeviceSubgroupSizeControlProperties sizes = DITI_ZERO;
    VkPhysicalDeviceShaderIntegerDotProductProperties dot = DITI_ZERO;
    properties.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2;
    properties.pNext = &driver;
    driver.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES;
    driver.pNext = &subgroup;
    subgroup.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES;
    subgroup.pNext = &sizes;
    sizes.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_PROPERTIES;
    sizes.pNext = &dot;
    dot.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_PROPERTIES;
    vk->GetPhysicalDeviceProperties2(physical, &properties);
    out->vendor = properties.properties.vendorID;
    out->device = properties.properties.deviceID;
    out->driver = (uint32_t)driver.driverID;
    out->version = properties.properties.driverVersion;
    out->type = (uint32_t)properties.properties.deviceType;
    out->subgroup = subgroup.subgroupSize;
    out->min_subgroup = sizes.minSubgroupSize;
    out->max_subgroup = sizes.maxSubgroupSize;
    out->group_subgroups = sizes.maxComputeWorkgroupSubgroups;
    out->chooses_subgroup = (sizes.requiredSubgroupSizeStages & VK_SHADER_STAGE_COMPUTE_BIT) != 0;
    out->mixed_dot = dot.integerDotProduct4x8BitPackedMixedSignednessAccelerated != VK_FALSE;
}
