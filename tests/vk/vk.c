/* The vk room: choosing, opening and wrapping devices, limits, memory, copies, pipelines, the cache blob, submission.
   test-runs: lavapipe swiftshader sanitize discrete */
#include "library.h"
#include "vk/quirks.c"
#include "vk/coop.c"
#include "vk/pipeline.c"
#include "vk/cache.c"
#include "vk/device.c"
#include "vk/extend.c"
#include "vk/spirv.c"
#include "vulkan_test.h"
#include "vk_test.h"
#include <pthread.h>
#include <time.h>

/* --- texts --- */

static void overrides(void) {
    const char *text = "rung=base,storage_range=1M,allocation=16K,groups=8";
    char value[16];
    dit_error err = {0};
    CHECK(diti_override_number(text, "storage_range", 5) == 1 << 20);
    CHECK(diti_override_number(text, "allocation", 5) == 16384);
    CHECK(diti_override_number(text, "groups", 5) == 8);
    CHECK(diti_override_number(text, "range", 5) == 5);
    CHECK(diti_override_number(text, "rung", 5) == 5);
    CHECK(diti_override_number(NULL, "groups", 5) == 5);
    CHECK(diti_override_is(text, "rung", "base"));
    CHECK(!diti_override_is(text, "rung", "bas") && !diti_override_is(text, "rung", "basely"));
    CHECK(diti_override_text(text, "rung", value, sizeof value) && !strcmp(value, "base"));
    CHECK(!diti_override_text(text, "rung", value, 4));
    CHECK(diti_overrides_check(text, &err) == DIT_OK);
    CHECK(diti_overrides_check("", &err) == DIT_OK && diti_overrides_check(NULL, &err) == DIT_OK);
    CHECK(diti_overrides_check("groups=8,", &err) == DIT_OK);
    CHECK(diti_overrides_check("groups=8,grups=9", &err) == DIT_ERROR_INVALID_ARGUMENT);
    CHECK(strstr(err.message, "grups=9") && strstr(err.message, "storage_range"));
    CHECK(diti_overrides_check("groups", &err) == DIT_ERROR_INVALID_ARGUMENT);
    CHECK(diti_overrides_check("groups=", &err) == DIT_ERROR_INVALID_ARGUMENT);
    CHECK(diti_overrides_check("groups=K", &err) == DIT_ERROR_INVALID_ARGUMENT);
    CHECK(diti_overrides_check("groups=-1", &err) == DIT_ERROR_INVALID_ARGUMENT);
    CHECK(diti_overrides_check("groups=99999999999999999999", &err) == DIT_ERROR_INVALID_ARGUMENT);
    CHECK(diti_overrides_check("groups=18446744073709551615G", &err) == DIT_ERROR_INVALID_ARGUMENT);
}

static diti_candidate candidate(const char *name, VkPhysicalDeviceType type, VkDeviceSize memory, const char *reason) {
    diti_candidate made = {0};
    snprintf(made.info.name, sizeof made.info.name, "%s", name);
    snprintf(made.reason, sizeof made.reason, "%s", reason);
    made.info.type = (uint32_t)type;
    made.info.memory = memory;
    memset(made.info.uuid, name[0], 16);
    return made;
}

static void choice(void) {
    diti_candidate list[5];
    dit_error err = {0};
    list[0] = candidate("llvmpipe (LLVM 15, 256 bits)", VK_PHYSICAL_DEVICE_TYPE_CPU, 99, "");
    list[1] = candidate("Board 4090", VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU, 24, "");
    list[2] = candidate("board 48", VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU, 48, "");
    list[3] = candidate("Laptop", VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU, 64, "");
    list[4] =
        candidate("Zombie", VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU, 999, "its driver has Vulkan 1.1, dit needs 1.2");
    CHECK(diti_candidate_choose(list, 5, NULL, &err) == &list[2]);
    CHECK(diti_candidate_choose(list, 5, "", &err) == &list[2]);
    CHECK(diti_candidate_choose(list, 2, NULL, &err) == &list[1]);
    CHECK(diti_candidate_choose(list, 1, NULL, &err) == &list[0]);
    CHECK(diti_candidate_choose(list, 5, "3", &err) == &list[3]);
    CHECK(diti_candidate_choose(list, 5, "d 4090", &err) == &list[1]);
    CHECK(diti_candidate_choose(list, 5, "BOARD", &err) == &list[2]);
    CHECK(diti_candidate_choose(list, 5, "LLVM 15, 256", &err) == &list[0]);
    CHECK(diti_candidate_choose(list, 5, "uuid:4c4c4c4c-4C4C-4c4c-4c4c-4c4c4c4c4c4c", &err) == &list[3]);
    CHECK(!diti_candidate_choose(list, 5, "uuid:4c4c4c4c-4c4c-4c4c-4c4c-4c4c4c4c4c4d", &err));
    CHECK(err.result == DIT_ERROR_UNSUPPORTED_DEVICE);
    CHECK(!diti_candidate_choose(list, 5, "uuid:4c4c", &err) && err.result == DIT_ERROR_INVALID_ARGUMENT);
    CHECK(!diti_candidate_choose(list, 5, "uuid:4c4c4c4c4c4c4c4c4c4c4c4c4c4c4c4c4c", &err));
    CHECK(!diti_candidate_choose(list, 5, "uuid:4c4c4c4c4c4c4c4c4c4c4c4c4c4c4c4g", &err));
    CHECK(!diti_candidate_choose(list, 5, "zombie", &err) && strstr(err.message, "Vulkan 1.1"));
    CHECK(!diti_candidate_choose(list, 5, "4", &err) && strstr(err.message, "Zombie"));
    CHECK(!diti_candidate_choose(list, 5, "nosuch", &err) && err.result == DIT_ERROR_UNSUPPORTED_DEVICE);
    CHECK(strstr(err.message, "nosuch") && strstr(err.message, "3: Laptop"));
    CHECK(!diti_candidate_choose(list, 5, "0,1", &err) && err.result == DIT_ERROR_UNSUPPORTED_DEVICE);
    CHECK(!diti_candidate_choose(list, 5, "5", &err) && err.result == DIT_ERROR_UNSUPPORTED_DEVICE); /* no name */
    CHECK(strstr(err.message, "from 0 to 4") && strstr(err.message, "2: board 48"));
    CHECK(!diti_candidate_choose(list, 5, "48", &err) && strstr(err.message, "digits are an index"));
    CHECK(!diti_candidate_choose(list, 1, "15", &err) && strstr(err.message, "the only one is 0"));
    CHECK(!diti_candidate_choose(list, 1, "256", &err) && err.result == DIT_ERROR_UNSUPPORTED_DEVICE);
    CHECK(!diti_candidate_choose(list, 5, "99999999999999999999", &err) && strstr(err.message, "digits are an index"));
    CHECK(diti_candidate_choose(list, 5, "0003", &err) == &list[3]);
    CHECK(!diti_candidate_choose(list, 0, NULL, &err) && strstr(err.message, "mesa-vulkan-drivers"));
}

/* --- known faults of drivers --- */

static uint32_t quirks_of(uint32_t vendor, uint32_t driver, uint32_t type, uint32_t device, uint32_t version,
                          uint32_t min_subgroup, bool mixed_dot) {
    diti_identity id = {0};
    const char *why;
    uint32_t found;
    id.vendor = vendor, id.driver = driver, id.type = type, id.device = device, id.version = version;
    id.min_subgroup = min_subgroup, id.mixed_dot = mixed_dot;
    found = diti_quirks(&id, UINT32_MAX, &why);
    CHECK((found != 0) == (why != NULL));
    return found;
}

static void quirks(void) {
    enum {
        AMD = 0x1002,
        INTEL = 0x8086,
        NVIDIA = 0x10de,
        CARD = VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU,
        CHIP = VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU,
        NONE = DITI_QUIRK_NO_MATRICES,
        SMALL = DITI_QUIRK_SMALL_TILES,
        SLOW = DITI_QUIRK_SLOW_HALF,
        DOUBTFUL = DITI_QUIRK_DOUBTFUL_MATRICES,
        SCATTERED = DITI_QUIRK_SCATTERED_SUMS
    };
    static const struct {
        uint32_t vendor, driver, type, device, version, subgroup;
        bool mixed_dot;
        uint32_t what;
    } cases[] = {
        {AMD, VK_DRIVER_ID_AMD_PROPRIETARY, CHIP, 0x1114, 0x800184, 32, true, NONE | SMALL}, /* Radeon 860M */
        {AMD, VK_DRIVER_ID_AMD_OPEN_SOURCE, CHIP, 0x1114, 0x800184, 32, true, NONE},
        {AMD, VK_DRIVER_ID_AMD_PROPRIETARY, CARD, 0x744c, 0x800184, 32, true, SMALL}, /* RX 7900 XTX */
        {AMD, VK_DRIVER_ID_AMD_OPEN_SOURCE, CARD, 0x744c, 0x800184, 32, true, 0},
        {AMD, VK_DRIVER_ID_AMD_PROPRIETARY, CARD, 0x73bf, 0x800184, 32, false, NONE | SMALL}, /* RX 6800 XT */
        {AMD, VK_DRIVER_ID_AMD_OPEN_SOURCE, CARD, 0x73bf, 0x800184, 32, false, NONE},
        {AMD, VK_DRIVER_ID_MESA_RADV, CARD, 0x73bf, 0x6800000, 32, false, 0},
        {AMD, VK_DRIVER_ID_MESA_RADV, CHIP, 0x1114, 0x6800000, 32, true, 0},
        {INTEL, VK_DRIVER_ID_INTEL_OPEN_SOURCE_MESA, CARD, 0x568f, 0x6800000, 8, true, NONE},
        {INTEL, VK_DRIVER_ID_INTEL_OPEN_SOURCE_MESA, CARD, 0x5690, 0x6800000, 8, true, DOUBTFUL}, /* A770M */
        {INTEL, VK_DRIVER_ID_INTEL_OPEN_SOURCE_MESA, CARD, 0x56a0, 0x6800000, 8, true, DOUBTFUL}, /* A770 */
        {INTEL, VK_DRIVER_ID_INTEL_PROPRIETARY_WINDOWS, CARD, 0x56c2, 101u << 14 | 8826, 8, true, DOUBTFUL},
        {INTEL, VK_DRIVER_ID_INTEL_PROPRIETARY_WINDOWS, CARD, 0x56c3, 101u << 14 | 8826, 8, true, NONE},
        {INTEL, VK_DRIVER_ID_INTEL_OPEN_SOURCE_MESA, CHIP, 0x7d55, 0x6800000, 8, true, NONE},     /* Meteor Lake */
        {INTEL, VK_DRIVER_ID_INTEL_OPEN_SOURCE_MESA, CHIP, 0x7d51, 0x6800000, 8, true, DOUBTFUL}, /* Arrow Lake H */
        {INTEL, VK_DRIVER_ID_INTEL_OPEN_SOURCE_MESA, CHIP, 0x7dd1, 0x6800000, 8, true, DOUBTFUL},
        {INTEL, VK_DRIVER_ID_INTEL_OPEN_SOURCE_MESA, CHIP, 0x7d41, 0x6800000, 8, true, NONE}, /* Arrow Lake U */
        {INTEL, VK_DRIVER_ID_INTEL_OPEN_SOURCE_MESA, CHIP, 0x7d67, 0x6800000, 8, true, NONE}, /* Arrow Lake S */
        {INTEL, VK_DRIVER_ID_INTEL_OPEN_SOURCE_MESA, CHIP, 0x7dd2, 0x6800000, 8, true, NONE},
        {INTEL, VK_DRIVER_ID_INTEL_PROPRIETARY_WINDOWS, CHIP, 0x46a6, 101u << 14 | 9999, 8, true, NONE},
        {INTEL, VK_DRIVER_ID_INTEL_OPEN_SOURCE_MESA, CARD, 0xe223, 0x6800000, 16, true, 0}, /* B70 */
        {INTEL, VK_DRIVER_ID_INTEL_PROPRIETARY_WINDOWS, CARD, 0xe223, 101u << 14 | 8515, 16, true, NONE},
        {INTEL, VK_DRIVER_ID_INTEL_PROPRIETARY_WINDOWS, CARD, 0xe223, 101u << 14 | 8826, 16, true, NONE},
        {INTEL, VK_DRIVER_ID_INTEL_PROPRIETARY_WINDOWS, CARD, 0xe223, 101u << 14 | 8827, 16, true, 0},
        {INTEL, VK_DRIVER_ID_INTEL_PROPRIETARY_WINDOWS, CARD, 0xe220, 101u << 14 | 8826, 16, true, NONE},
        {INTEL, VK_DRIVER_ID_INTEL_PROPRIETARY_WINDOWS, CARD, 0xe21f, 101u << 14 | 8826, 16, true, 0},
        {INTEL, VK_DRIVER_ID_INTEL_PROPRIETARY_WINDOWS, CARD, 0xe224, 101u << 14 | 8826, 16, true, 0},
        {NVIDIA, VK_DRIVER_ID_NVIDIA_PROPRIETARY, CARD, 0x1aff, 0, 32, true, 0},
        {NVIDIA, VK_DRIVER_ID_NVIDIA_PROPRIETARY, CARD, 0x1b00, 0, 32, true, SLOW}, /* GTX 1080 Ti's chip */
        {NVIDIA, VK_DRIVER_ID_MESA_NVK, CARD, 0x1d7f, 0, 32, true, SLOW | SCATTERED},
        {NVIDIA, VK_DRIVER_ID_NVIDIA_PROPRIETARY, CARD, 0x1d80, 0, 32, true, 0}, /* GV100 and newer */
        {NVIDIA, VK_DRIVER_ID_NVIDIA_PROPRIETARY, CARD, 0x2684, 0, 32, true, 0},
        {NVIDIA, VK_DRIVER_ID_MESA_NVK, CARD, 0x2684, 0, 32, true, SCATTERED},
        {0x10005, VK_DRIVER_ID_MESA_LLVMPIPE, VK_PHYSICAL_DEVICE_TYPE_CPU, 0, 1, 8, true, 0},
    };
    size_t i;
    for (i = 0; i < DITI_COUNT(cases); i++) {
        uint32_t found = quirks_of(cases[i].vendor, cases[i].driver, cases[i].type, cases[i].device, cases[i].version,
                                   cases[i].subgroup, cases[i].mixed_dot);
        CHECK_MESSAGE(found == cases[i].what, "case %zu: %x in place of %x", i, found, cases[i].what);
    }
    for (i = 0; i < DITI_COUNT(diti_quirk_table);
         i++) /* every row says what it is about and where that is known from */
        CHECK(diti_quirk_table[i].why && strlen(diti_quirk_table[i].source) > 8 && diti_quirk_table[i].what);
}

/* Portions of the work: those of a size of subgroups before those of a vendor, and those for whom nobody knows. */
static void portions(void) {
    static const struct {
        uint32_t vendor, subgroup, line;
    } cases[] = {{0x8086, 8, 0},  {0x8086, 16, 1}, {0x1002, 64, 2}, {0x1002, 0, 2},  {0x10de, 32, 3}, {0x1002, 32, 4},
                 {0x8086, 32, 8}, {0x5143, 64, 5}, {0x106b, 32, 6}, {0x13b5, 16, 7}, {0, 0, 8}};
    diti_identity id = {0};
    for (size_t i = 0; i < DITI_COUNT(cases); i++) {
        id.vendor = cases[i].vendor;
        id.min_subgroup = cases[i].subgroup;
        CHECK_MESSAGE(diti_portions_of(&id, UINT64_MAX) == diti_portions_of(&id, cases[i].line),
                      "portions of vendor %x, subgroups of %u", cases[i].vendor, cases[i].subgroup);
    }
    CHECK(diti_portions_of(&id, 4)->part_rows == 32 && diti_portions_of(&id, 2)->part_rows == 64);
}

/* The size of subgroups that matrices have; 0: it is not known, so there are no matrices. */
static void subgroup_sizes(void) {
    diti_features features = {{false}};
    diti_identity id = {0};
    bool chosen;
    id.vendor = 0x10de, id.subgroup = id.min_subgroup = id.max_subgroup = 32;
    CHECK(diti_coop_subgroup(&id, &features, &chosen) == 32 && !chosen); /* nothing has to be chosen */
    id.chooses_subgroup = true;
    features.has[DITI_FEATURE_SUBGROUP_SIZE] = features.has[DITI_FEATURE_FULL_SUBGROUPS] = true;
    CHECK(diti_coop_subgroup(&id, &features, &chosen) == 32 && chosen);
    id.chooses_subgroup = false;
    CHECK(diti_coop_subgroup(&id, &features, &chosen) == 32 && !chosen); /* NVK */
    id.min_subgroup = 16;
    CHECK(diti_coop_subgroup(&id, &features, &chosen) == 0);
    id.chooses_subgroup = true;
    CHECK(diti_coop_subgroup(&id, &features, &chosen) == 32 && chosen);
    id.vendor = 0x8086;
    CHECK(diti_coop_subgroup(&id, &features, &chosen) == 16 && chosen);
    id.min_subgroup = id.max_subgroup = 0; /* a driver that says nothing about them */
    features.has[DITI_FEATURE_SUBGROUP_SIZE] = false;
    CHECK(diti_coop_subgroup(&id, &features, &chosen) == 0);
    memset(&features, 0, sizeof features);
    features.has[DITI_FEATURE_COOP] = features.has[DITI_FEATURE_FP16] = features.has[DITI_FEATURE_STORAGE16] = true;
    features.has[DITI_FEATURE_MEMORY_MODEL] = features.has[DITI_FEATURE_MEMORY_SCOPE] = true;
    features.has[DITI_FEATURE_INT8] = features.has[DITI_FEATURE_SUBGROUP_SIZE] = true;
    diti_features_useful(&features);
    CHECK(features.has[DITI_FEATURE_COOP] && features.has[DITI_FEATURE_INT8]);
    CHECK(!features.has[DITI_FEATURE_SUBGROUP_SIZE]); /* the size is of use only with full subgroups */
}

/* A driver that lists cooperative matrices, which the one below may not have, and never NVIDIA's second generation of
   them, which that one may have; and what it is asked. */
static struct feign {
    PFN_vkGetPhysicalDeviceProperties2 properties;
    PFN_vkGetPhysicalDeviceFeatures2 features;
    PFN_vkEnumerateDeviceExtensionProperties extensions;
    PFN_vkCreateDevice create;
    uint32_t vendor, driver, type;
    bool one_size, shapes; /* one size of subgroups; shapes are listed, too */
    bool idle;             /* subgroups cannot be asked to be full */
    bool timeless;         /* timestamps have bits, but no period */
    uint32_t version;      /* the version of Vulkan; 0: the driver's own */
    uint32_t asked, refused;
} feign;

static VKAPI_ATTR void VKAPI_CALL feign_properties(VkPhysicalDevice gpu, VkPhysicalDeviceProperties2 *out) {
    VkBaseOutStructure *at;
    feign.properties(gpu, out);
    out->properties.vendorID = feign.vendor;
    if (feign.version) out->properties.apiVersion = feign.version;
    if (feign.timeless) out->properties.limits.timestampPeriod = 0;
    out->properties.deviceType = (VkPhysicalDeviceType)feign.type;
    for (at = (VkBaseOutStructure *)out->pNext; at; at = at->pNext) {
        if (at->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES)
            ((VkPhysicalDeviceDriverProperties *)(void *)at)->driverID = (VkDriverId)feign.driver;
        if (at->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_PROPERTIES)
            ((VkPhysicalDeviceShaderIntegerDotProductProperties *)(void *)at)
                ->integerDotProduct4x8BitPackedMixedSignednessAccelerated = VK_TRUE;
        if (at->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_PROPERTIES) {
            VkPhysicalDeviceSubgroupSizeControlProperties *sizes =
                (VkPhysicalDeviceSubgroupSizeControlProperties *)(void *)at;
            sizes->minSubgroupSize = 8;
            sizes->maxSubgroupSize = feign.one_size ? 8 : 16;
            sizes->requiredSubgroupSizeStages = feign.one_size ? 0 : VK_SHADER_STAGE_COMPUTE_BIT;
        }
    }
}

static VKAPI_ATTR void VKAPI_CALL feign_features(VkPhysicalDevice gpu, VkPhysicalDeviceFeatures2 *out) {
    VkBaseOutStructure *at;
    feign.features(gpu, out);
    for (at = (VkBaseOutStructure *)out->pNext; at; at = at->pNext) {
        diti_feature_node *node = (diti_feature_node *)(void *)at;
        if ((uint32_t)at->sType == 1000506000u) node->bits[0] = VK_TRUE;
        if ((uint32_t)at->sType == 1000593000u) memset(node->bits, 0, 7 * sizeof *node->bits);
        if (at->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES && feign.idle)
            ((VkPhysicalDeviceSubgroupSizeControlFeatures *)(void *)at)->computeFullSubgroups = VK_FALSE;
    }
}

static VKAPI_ATTR VkResult VKAPI_CALL feign_extensions(VkPhysicalDevice gpu, const char *layer, uint32_t *count,
                                                       VkExtensionProperties *out) {
    uint32_t room = *count;
    VkResult vr = feign.extensions(gpu, layer, count, out);
    if (vr < 0) return vr;
    if (out && *count < room)
        snprintf(out[*count].extensionName, VK_MAX_EXTENSION_NAME_SIZE, "VK_KHR_cooperative_matrix");
    ++*count;
    return vr;
}

static VKAPI_ATTR VkResult VKAPI_CALL feign_create(VkPhysicalDevice gpu, const VkDeviceCreateInfo *info,
                                                   const VkAllocationCallbacks *callbacks, VkDevice *out) {
    uint32_t i;
    for (i = 0; i < info->enabledExtensionCount; i++)
        if (!strcmp(info->ppEnabledExtensionNames[i], "VK_KHR_cooperative_matrix"))
            return feign.refused++, VK_ERROR_FEATURE_NOT_PRESENT;
    return feign.create(gpu, info, callbacks, out);
}

static VKAPI_ATTR VkResult VKAPI_CALL feign_matrices(VkPhysicalDevice gpu, uint32_t *count,
                                                     diti_vk_coop_property *out) {
    uint32_t i;
    (void)gpu;
    feign.asked++;
    *count = feign.shapes ? 2 : 0;
    for (i = 0; i < *count && out; i++) {
        unsigned char *at = (unsigned char *)out + i * (offsetof(diti_vk_coop_property, invocations) + 7) / 8 * 8;
        diti_vk_coop_property *shape = (diti_vk_coop_property *)(void *)at;
        shape->m = shape->n = shape->k = 16;
        shape->a = shape->b = i ? 3 : 0;
        shape->c = shape->result = i ? 5 : 1;
        shape->saturating = VK_FALSE;
        shape->scope = 3;
    }
    return VK_SUCCESS;
}

static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL feign_get(VkInstance instance, const char *name) {
    PFN_vkVoidFunction real = test_vulkan_function(instance, name);
#define FEIGN(function, member, wrapper)                                                                               \
    if (!strcmp(name, function)) {                                                                                     \
        memcpy(&feign.member, &real, sizeof real);                                                                     \
        return (PFN_vkVoidFunction)wrapper;                                                                            \
    }
    FEIGN("vkGetPhysicalDeviceProperties2", properties, feign_properties)
    FEIGN("vkGetPhysicalDeviceFeatures2", features, feign_features)
    FEIGN("vkEnumerateDeviceExtensionProperties", extensions, feign_extensions)
    FEIGN("vkCreateDevice", create, feign_create)
#undef FEIGN
    if (!strcmp(name, "vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR")) return (PFN_vkVoidFunction)feign_matrices;
    return real;
}

static void feign_list(char *rung, size_t size) {
    diti_env env = test_env();
    diti_vk_api vk = {0};
    VkInstance instance = NULL;
    diti_candidate *list = NULL;
    void *library = NULL;
    uint32_t count = 0;
    dit_error err = {0};
    CHECK(diti_vulkan_load(NULL, feign_get, &vk, &library, &err) == DIT_OK);
    CHECK(diti_instance_create(&env, &vk, &instance, &err) == DIT_OK);
    CHECK(diti_instance_functions(&vk, instance, &err) == DIT_OK);
    CHECK(diti_candidates_list(&env, &vk, instance, &list, &count, &err) == DIT_OK && count > 0);
    if (count) snprintf(rung, size, "%s", list[0].info.rung);
    diti_free(&env, list);
    diti_instance_destroy(&vk, instance);
}

static diti_device *feign_open(const char *overrides) {
    dit_vulkan through = {0};
    dit_context_desc desc = {0};
    dit_error err = {0};
    diti_device *device;
    through.get_instance_proc_addr = feign_get;
    desc.vulkan = &through;
    desc.vulkan_count = 1;
    desc.overrides = overrides;
    feign.asked = feign.refused = 0;
    device = test_open_desc(&desc, &err);
    CHECK_MESSAGE(device, "%s", err.message);
    return device;
}

/* Some drivers crash when they are asked for their matrices: those are never asked, and others only when they are
   opened. */
static void who_is_asked(bool fp16) {
    char rung[32] = "";
    diti_device *device;
    memset(&feign, 0, sizeof feign);
    feign.vendor = 0x1002, feign.driver = VK_DRIVER_ID_MESA_RADV, feign.type = VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU;
    feign_list(rung, sizeof rung);
    CHECK_MESSAGE(feign.asked == 0, "listing devices asked %u times", feign.asked);
    CHECK_MESSAGE(!fp16 || !strcmp(rung, "up to coop"), "rung '%s'", rung);
    device = feign_open("rung=base");
    if (device) CHECK((feign.asked > 0) == fp16);
    diti_device_close(device);
    feign.timeless = true;
    device = feign_open("rung=base");
    if (device) CHECK(device->limits.timestamp_bits == 0 && device->limits.timestamp_period == 0);
    diti_device_close(device);
    feign.timeless = false;
    feign.one_size = true;
    device = feign_open("rung=base");
    if (device) CHECK_MESSAGE((feign.asked > 0) == fp16, "subgroups of one size do not suffice for matrices");
    diti_device_close(device);
    feign.idle = true;
    device = feign_open("rung=base");
    CHECK_MESSAGE(feign.asked == 0, "matrices belong to subgroups that may have idle threads");
    diti_device_close(device);
    feign.idle = false;
    feign.driver = VK_DRIVER_ID_AMD_PROPRIETARY;
    feign_list(rung, sizeof rung);
    CHECK_MESSAGE(!fp16 || !strcmp(rung, "half"), "rung '%s'", rung);
    device = feign_open("rung=base");
    CHECK_MESSAGE(feign.asked == 0, "a driver that would have crashed was asked %u times", feign.asked);
    diti_device_close(device);
    device = feign_open("rung=base,quirks=0");
    CHECK_MESSAGE(!fp16 || feign.asked > 0, "quirks=0 does not force it");
    diti_device_close(device);
    feign.driver = VK_DRIVER_ID_MESA_RADV; /* a driver that lists what it cannot enable */
    feign.shapes = true;
    device = fp16 ? feign_open("rung=coop") : NULL;
    if (device)
        CHECK_MESSAGE(feign.refused == 1 && device->rung == DITI_RUNG_HALF &&
                          !device->features.has[DITI_FEATURE_COOP] && !strcmp(device->info.rung, "half, no coop"),
                      "%u refusals, rung '%s'", feign.refused, device->info.rung);
    diti_device_close(device);
    feign.version = VK_API_VERSION_1_1;
    feign_list(rung, sizeof rung);
    CHECK_MESSAGE(!strcmp(rung, "none"), "rung '%s'", rung);
    CHECK(test_blocks == 0);
}

/* Blocks of exactly the sizes a module states, so that the sanitizer sees any access beyond them. */
static bool unpacks(const diti_spirv_module *module, uint32_t **words) {
    unsigned char *bytes = malloc(module->byte_count);
    bool good;
    *words = malloc(module->word_count * sizeof **words);
    good = diti_spirv_words(module, bytes, *words);
    free(bytes);
    return good;
}

static bool fails(const char *const *pieces, uint32_t words, uint32_t bytes) {
    diti_spirv_module module = {"test", NULL, words, bytes};
    uint32_t *out;
    bool good;
    module.pieces = pieces;
    good = unpacks(&module, &out);
    free(out);
    return !good;
}

/* The smallest embedded module as one piece of text, which a test may damage. */
static char *smallest_text(diti_spirv_module *module) {
    const diti_spirv_module *table = diti_spirv_table();
    const char *const *piece;
    char *text;
    size_t size = 1;
    *module = table[test_smallest_module()];
    for (piece = module->pieces; *piece; piece++) size += strlen(*piece);
    text = calloc(1, size);
    for (piece = module->pieces; *piece; piece++) strcat(text, *piece);
    return text;
}

static void spirv_text_digits(void) {
    static const char *const digits[] = {"\"$$$$", "$$$$?", "$$\\$$", "zzzzz", "yyyyy", "$$$", ""};
    uint32_t i;
    for (i = 0; i < sizeof digits / sizeof *digits; i++) {
        const char *pieces[3] = {digits[i], NULL, NULL};
        CHECK_MESSAGE(fails(pieces, 1, 1), "%s", digits[i]);
        pieces[1] = "";
        CHECK_MESSAGE(fails(pieces, 1, 1), "%s and nothing", digits[i]);
    }
}

/* Pieces may part anywhere, inside a group of digits too, and be empty. */
static void spirv_text_pieces(void) {
    diti_spirv_module module;
    char *text = smallest_text(&module), *first = calloc(1, 10);
    const char *pieces[5] = {"", NULL, "", NULL, NULL};
    uint32_t *whole, *parted, cut;
    CHECK(unpacks(&module, &whole));
    for (cut = 0; cut < 10; cut++) {
        memcpy(first, text, cut);
        pieces[1] = first, pieces[3] = text + cut, module.pieces = pieces;
        CHECK(unpacks(&module, &parted) && !memcmp(whole, parted, module.word_count * sizeof *whole));
        free(parted);
    }
    free(first);
    free(whole);
    free(text);
}

static void spirv_text_counts(void) {
    diti_spirv_module module;
    char *text = smallest_text(&module);
    const char *pieces[2] = {NULL, NULL};
    uint32_t words = module.word_count, bytes = module.byte_count;
    size_t size = strlen(text), kept;
    pieces[0] = text;
    CHECK(!fails(pieces, words, bytes));
    CHECK(fails(pieces, words + 1, bytes) && fails(pieces, words - 1, bytes));
    CHECK(fails(pieces, words, bytes + 100) && fails(pieces, words, bytes - 1) && fails(pieces, words, 1));
    CHECK(fails(pieces, words + 100, bytes + 100) && fails(pieces, 1, bytes));
    for (kept = size - 5; kept > 10; kept = kept * 3 / 4) { /* the last group may hold nothing that is needed */
        text[kept] = 0;
        CHECK_MESSAGE(fails(pieces, words, bytes), "%lu digits of %lu", (unsigned long)kept, (unsigned long)size);
    }
    free(text);
}

/* One to three digits are others: decoding ends, inside its blocks, and never with the same words. */
static void spirv_text_mutations(void) {
    diti_spirv_module module;
    char *text = smallest_text(&module), *damaged = strdup(text);
    const char *pieces[2] = {NULL, NULL};
    uint32_t *whole, *words, trial, seed = 1, same = 0, failed = 0, trials = 3000;
    size_t size = strlen(text) - 5;
    CHECK(unpacks(&module, &whole));
    pieces[0] = damaged, module.pieces = pieces;
    for (trial = 0; trial < trials; trial++) {
        uint32_t changes = trial % 3 + 1;
        memcpy(damaged, text, size);
        for (; changes; changes--) {
            seed = seed * 1664525u + 1013904223u;
            damaged[(seed >> 8) % (trial % 2 ? size : 60)] = (char)('#' + (seed >> 24) % 87);
        }
        if (!memcmp(damaged, text, size)) continue;
        if (!unpacks(&module, &words))
            failed++;
        else if (!memcmp(words, whole, module.word_count * sizeof *words))
            same++;
        free(words);
    }
    CHECK_MESSAGE(!same, "%u of %u damaged texts give the same words", same, trials);
    CHECK_MESSAGE(failed > trials / 2, "%u of %u damaged texts fail", failed, trials);
    free(whole);
    free(damaged);
    free(text);
}

static void spirv_text(void) {
    spirv_text_digits();
    spirv_text_pieces();
    spirv_text_counts();
    spirv_text_mutations();
}

/* Every embedded module decodes to SPIR-V, under a name of its own, within the budget. */
static void spirv_modules(void) {
    diti_env env = test_env();
    uint32_t i, k, *words;
    size_t count, total = 0;
    dit_error err = {0};
    CHECK(DITI_KERNELS > 0 && DITI_KERNELS <= 60);
    for (i = 0; i < DITI_KERNELS; i++) {
        const char *name = diti_kernel_name((diti_kernel)i);
        for (k = 0; k < i; k++) CHECK_MESSAGE(strcmp(name, diti_kernel_name((diti_kernel)k)), "two are named %s", name);
        if (!CHECK(diti_spirv_decode(&env, (diti_kernel)i, &words, &count, &err) == DIT_OK)) continue;
        CHECK_MESSAGE(count > 5 && words[0] == 0x07230203u, "module %s is no SPIR-V", name);
        diti_free(&env, words);
        for (k = 0; k < i && diti_spirv_table()[k].pieces != diti_spirv_table()[i].pieces; k++) continue;
        total += k < i ? 0 : 4 * (size_t)diti_spirv_table()[i].word_count; /* kernels may have one module */
    }
    CHECK(total <= 600 * 1000);
    CHECK(diti_spirv_decode(&env, DITI_KERNELS, &words, &count, &err) == DIT_ERROR_INVALID_ARGUMENT);
    CHECK(!strcmp(diti_kernel_name(DITI_KERNEL_GEMM_COOP), "gemm_coop") &&
          !strcmp(diti_kernel_name(DITI_KERNELS), "?"));
}

/* --- devices --- */

static void list_devices(void) {
    dit_device_info info[16];
    uint32_t count = 0, one = 1, few = 16;
    dit_error err = {0};
    CHECK(dit_device_list(NULL, &count, &err) == DIT_OK && count >= 1);
    CHECK(dit_device_list(info, &few, &err) == DIT_OK && few == count);
    CHECK(info[0].name[0] && info[0].memory > 0 && info[0].rung[0]);
    CHECK(info[0].api_version >= VK_API_VERSION_1_2);
    CHECK(dit_device_list(info, &one, &err) == DIT_OK && one == 1);
    CHECK(dit_device_list(info, NULL, &err) == DIT_ERROR_INVALID_ARGUMENT);
}

static void open_by_choice(void) {
    dit_device_info info[16];
    dit_context_desc desc = {0};
    diti_device *device;
    uint32_t i, count = 16;
    char text[64] = "uuid:";
    dit_error err = {0};
    dit_device_list(info, &count, &err);
    for (i = 0; i < 16; i++) snprintf(text + 5 + 2 * i, 3, "%02x", info[0].uuid[i]);
    desc.devices = text;
    device = test_open_desc(&desc, &err);
    if (CHECK_MESSAGE(device, "%s", err.message)) CHECK(!strcmp(device->info.name, info[0].name));
    diti_device_close(device);
    desc.devices = info[0].name; /* the whole name, as a list shows it; lavapipe's has a comma */
    device = test_open_desc(&desc, &err);
    CHECK_MESSAGE(device, "%s", err.message);
    diti_device_close(device);
    desc.devices = "nosuch";
    CHECK(!test_open_desc(&desc, &err) && err.result == DIT_ERROR_UNSUPPORTED_DEVICE);
    CHECK(strstr(err.message, info[0].name));
    desc.devices = NULL;
    desc.overrides = "loader=libnosuch.so.1";
    CHECK(!test_open_desc(&desc, &err) && err.result == DIT_ERROR_UNSUPPORTED_DEVICE);
    CHECK(strstr(err.message, "libnosuch.so.1") && strstr(err.message, "libvulkan1"));
    desc.overrides = "loader=libm.so.6";
    CHECK(!test_open_desc(&desc, &err) && strstr(err.message, "vkGetInstanceProcAddr"));
    desc.overrides = "nosuch=1";
    CHECK(!test_open_desc(&desc, &err) && err.result == DIT_ERROR_INVALID_ARGUMENT);
    desc.overrides = "rung=nosuch";
    CHECK(!test_open_desc(&desc, &err) && strstr(err.message, "base, fp16, half, coop and coop2"));
    CHECK(test_blocks == 0);
}

static bool limits(void) {
    diti_device *device = test_open(NULL);
    dit_context_desc desc = {0};
    dit_error err;
    bool fp16;
    if (!device) return false;
    CHECK(device->limits.storage_range >= 1 << 27 && device->limits.allocation >= 1 << 28);
    CHECK(device->limits.shared_bytes >= 16384 && device->limits.group_invocations >= 256);
    CHECK(device->limits.group_count >= 65535 && device->limits.subgroup_size >= 4);
    CHECK(device->limits.storage_alignment >= 1 && device->limits.storage_alignment <= 256);
    CHECK(device->memory_limit > 0 && device->speed.us_per_gflop > 0 && device->max_slice_us == 50000);
    CHECK(device->is_cpu || !device->has_fp16 ? device->rung == DITI_RUNG_BASE : device->rung >= DITI_RUNG_FP16);
    CHECK(!strcmp(device->info.rung, diti_rung_name(device->rung)));
    fp16 = device->has_fp16;
    diti_device_close(device);
    device =
        test_open("rung=base,storage_range=1M,allocation=16M,shared=8K,groups=8,invocations=64,cpu=0,timestamps=0");
    if (!device) return fp16;
    CHECK(device->rung == DITI_RUNG_BASE && !strcmp(device->info.rung, "base"));
    CHECK(device->limits.storage_range == 1 << 20 && device->limits.allocation == 16 << 20);
    CHECK(device->limits.shared_bytes == 8192 && device->limits.group_count == 8);
    CHECK(device->limits.group_invocations == 64 && !device->is_cpu);
    CHECK(device->limits.timestamp_bits == 0 && device->limits.timestamp_period == 0);
    diti_device_close(device);
    device = test_open("groups=4000M,shared=1G"); /* limits are only ever lowered */
    if (!device) return fp16;
    CHECK(device->limits.group_count < 4000u << 20 && device->limits.shared_bytes <= 1 << 20);
    diti_device_close(device);
    device =
        test_open("allocation=999G"); /* but for this one, so that what larger devices can do is planned anywhere */
    if (!device) return fp16;
    CHECK(device->limits.allocation == (VkDeviceSize)999 << 30 && device->limits.block == 1 << 30);
    diti_device_close(device);
    desc.overrides = "rung=fp16";
    device = test_open_desc(&desc, &err);
    CHECK(fp16 ? device && device->rung == DITI_RUNG_FP16 : !device && err.result == DIT_ERROR_UNSUPPORTED_DEVICE);
    diti_device_close(device);
    CHECK(test_blocks == 0);
    return fp16;
}

/* The largest allocation and the limit on all of them, of devices as their drivers describe them. */
static void memory_limits(void) {
    const VkDeviceSize MB = 1 << 20, GB = (VkDeviceSize)1 << 30;
    static const char *const names[] = {"T4", "7900 XTX", "a phone", "SwiftShader", "lavapipe", "no maintenance4"};
    const struct {
        VkDeviceSize allocation, buffer, heap, largest;
    } devices[] = {{4 * GB - 2 * MB, 1024 * GB, 15 * GB, 4 * GB - 2 * MB},
                   {4 * GB - 4, 4 * GB - 4, 24 * GB, 4 * GB - 4},
                   {GB, 2 * GB, 4 * GB, GB / 2},
                   {GB, GB, 2 * GB, GB / 2},
                   {2 * GB, 4 * GB - 1, 2 * GB, GB},
                   {64 * GB, 0, 48 * GB, 24 * GB}};
    size_t i;
    for (i = 0; i < sizeof devices / sizeof devices[0]; i++)
        CHECK_MESSAGE(diti_memory_largest(devices[i].allocation, devices[i].buffer, devices[i].heap) ==
                          devices[i].largest,
                      "%s", names[i]);
    CHECK(diti_memory_share(10000 * MB) == 9000 * MB - 256 * MB && diti_memory_share(300 * MB) == 150 * MB);
    CHECK(diti_memory_share(0) == 0 && diti_memory_share(1) == 1);
}

/* --- memory --- */

static void fill(unsigned char *data, size_t size, uint32_t seed) {
    size_t i;
    for (i = 0; i < size; i++) {
        seed = seed * 1664525u + 1013904223u;
        data[i] = (unsigned char)(seed >> 24);
    }
}

/* Writes and reads at odd places, and checks the bytes around. */
static void copies(diti_device *device, diti_memory_kind kind) {
    enum { SIZE = 100003 };
    static const size_t places[][2] = {{0, SIZE},    {1, 1},         {SIZE - 1, 1}, {3, 4097},
                                       {4096, 4096}, {50001, 50002}, {SIZE, 0},     {7, 0}};
    static unsigned char mirror[SIZE], back[SIZE], part[SIZE];
    diti_buffer buffer;
    dit_error err = {0};
    size_t i;
    if (!CHECK(diti_buffer_create(device, SIZE, kind, "copies", &buffer, &err) == DIT_OK)) return;
    CHECK(buffer.size == SIZE && buffer.kind == kind);
    CHECK(kind == DITI_MEMORY_DEVICE || buffer.block.mapped);
    fill(mirror, SIZE, 1);
    CHECK(diti_buffer_write(device, &buffer, 0, mirror, SIZE, &err) == DIT_OK);
    for (i = 0; i < DITI_COUNT(places); i++) {
        fill(part, places[i][1], (uint32_t)i + 2);
        memcpy(mirror + places[i][0], part, places[i][1]);
        CHECK(diti_buffer_write(device, &buffer, places[i][0], part, places[i][1], &err) == DIT_OK);
        memset(back, 0, SIZE);
        CHECK(diti_buffer_read(device, &buffer, places[i][0], back, places[i][1], &err) == DIT_OK);
        CHECK(!memcmp(back, part, places[i][1]));
    }
    CHECK(diti_buffer_read(device, &buffer, 0, back, SIZE, &err) == DIT_OK && !memcmp(back, mirror, SIZE));
    CHECK(diti_buffer_write(device, &buffer, SIZE, part, 1, &err) == DIT_ERROR_INVALID_ARGUMENT);
    CHECK(diti_buffer_write(device, &buffer, 1, part, SIZE, &err) == DIT_ERROR_INVALID_ARGUMENT);
    CHECK(diti_buffer_read(device, &buffer, UINT64_MAX, part, 2, &err) == DIT_ERROR_INVALID_ARGUMENT);
    CHECK(diti_buffer_read(device, &buffer, 2, part, UINT64_MAX, &err) == DIT_ERROR_INVALID_ARGUMENT);
    diti_buffer_flush(device, &buffer);
    diti_buffer_invalidate(device, &buffer);
    diti_buffer_destroy(device, &buffer);
    CHECK(!buffer.buffer && !buffer.block.memory);
    diti_buffer_destroy(device, &buffer); /* a zeroed one is fine */
}

static void memory(const char *overrides) {
    diti_device *device = test_open(overrides);
    diti_buffer buffer, other;
    dit_error err = {0};
    if (!device) return;
    copies(device, DITI_MEMORY_DEVICE);
    copies(device, DITI_MEMORY_UPLOAD);
    copies(device, DITI_MEMORY_READBACK);
    CHECK(device->memory_used == (device->unified ? device->staging.charged : 0));
    CHECK(diti_buffer_create(device, 0, DITI_MEMORY_DEVICE, "nothing", &buffer, &err) < 0 &&
          strstr(err.message, "nothing"));
    CHECK(diti_buffer_create(device, device->limits.allocation + 1, DITI_MEMORY_DEVICE, "all", &buffer, &err) ==
          DIT_ERROR_OUT_OF_DEVICE_MEMORY);
    device->memory_limit = device->memory_used + 3000000;
    CHECK(diti_buffer_create(device, 2000000, DITI_MEMORY_DEVICE, "first", &buffer, &err) == DIT_OK);
    CHECK(diti_buffer_create(device, 2000000, DITI_MEMORY_DEVICE, "second", &other, &err) ==
          DIT_ERROR_OUT_OF_DEVICE_MEMORY);
    CHECK(!other.buffer && strstr(err.message, "second") && strstr(err.message, "device_memory_limit"));
    diti_buffer_destroy(device, &buffer);
    CHECK(diti_buffer_create(device, 2000000, DITI_MEMORY_DEVICE, "second", &other, &err) == DIT_OK);
    diti_buffer_destroy(device, &other);
    diti_device_close(device);
    CHECK(test_blocks == 0);
}

/* Memory that is not coherent must be flushed and invalidated. No driver at hand has such a type, so one is said to be:
   the calls are then made, and the layers look at them. */
static void incoherent(void) {
    diti_device *device = test_open("mapped=0,staging=1000");
    uint32_t i;
    if (!device) return;
    for (i = 0; i < device->memory.memoryTypeCount; i++) {
        device->memory.memoryTypes[i].propertyFlags &= ~(VkMemoryPropertyFlags)VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
    }
    copies(device, DITI_MEMORY_READBACK);
    copies(device, DITI_MEMORY_DEVICE);
    CHECK(!device->staging.coherent);
    diti_device_close(device);
}

/* Uploads weights as to a GPU whose memory the host cannot see: many chunks, several buffers. */
static void large_write(void) {
    diti_device *device = test_open("mapped=0,staging=1M,allocation=100M");
    size_t size = (size_t)100 << 20, i;
    unsigned char *data = (unsigned char *)malloc(size), *back = (unsigned char *)malloc(size);
    diti_buffer buffers[3];
    dit_error err = {0};
    if (!device || !data || !back) return;
    memset(buffers, 0, sizeof buffers);
    fill(data, size, 7);
    for (i = 0; i < 3; i++) {
        CHECK(diti_buffer_create(device, size, DITI_MEMORY_DEVICE, "large", &buffers[i], &err) == DIT_OK);
        CHECK(!buffers[i].block.mapped);
        data[size - 1] = (unsigned char)i;
        CHECK(diti_buffer_write(device, &buffers[i], 0, data, size, &err) == DIT_OK);
    }
    CHECK(device->submits == 300);
    for (i = 0; i < 3; i++) {
        data[size - 1] = (unsigned char)i;
        CHECK(diti_buffer_read(device, &buffers[i], 0, back, size, &err) == DIT_OK && !memcmp(data, back, size));
        diti_buffer_destroy(device, &buffers[i]);
    }
    diti_device_close(device);
    free(data);
    free(back);
}

/* The ways a memory type can be chosen, on made-up boards. */
static void memory_types(void) {
    enum { L = 1, V = 2, C = 4, H = 8 }; /* device local, host visible, coherent, cached */
    static const struct {
        VkMemoryPropertyFlags types[5];
        uint32_t bits, device, upload, readback;
    } boards[] = {
        {{L, V | C, V | C | H, L | V | C, 0}, 31, 0, 1, 2},         /* discrete, with a window */
        {{0, L, V | C, V | C | H, L | V | C}, 31, 1, 2, 3},         /* the same in another order */
        {{L | V | C | H, 0, 0, 0, 0}, 1, 0, 0, 0},                  /* software */
        {{L, L | V | C, L | V | H, L | V | C | H, 0}, 15, 0, 1, 3}, /* unified */
        {{L, L | V | C, L | V | H, 0, 0}, 7, 0, 1, 2},              /* unified, cached memory not coherent */
        {{L, V | C, V | C | H, L | V | C, 0}, 12, 3, 2, 2},         /* bits exclude the best */
        {{L | 32, L | 64, V | C, L | 16, L | V | C}, 31, 4, 2, 2},  /* protected, AMD's and lazy ones are never taken */
    };
    uint32_t i, j, type = 99;
    for (i = 0; i < DITI_COUNT(boards); i++) {
        diti_device device = {0};
        device.memory.memoryTypeCount = 5;
        for (j = 0; j < 5; j++) device.memory.memoryTypes[j].propertyFlags = boards[i].types[j];
        CHECK_MESSAGE(diti_memory_type(&device, boards[i].bits, DITI_MEMORY_DEVICE, &type) && type == boards[i].device,
                      "board %u: device memory is type %u", i, type);
        CHECK_MESSAGE(diti_memory_type(&device, boards[i].bits, DITI_MEMORY_UPLOAD, &type) && type == boards[i].upload,
                      "board %u: upload memory is type %u", i, type);
        CHECK_MESSAGE(diti_memory_type(&device, boards[i].bits, DITI_MEMORY_READBACK, &type) &&
                          type == boards[i].readback,
                      "board %u: readback memory is type %u", i, type);
    }
}

/* --- the application's allocator: bump allocation from one block, as an engine's would be --- */

typedef struct arena {
    diti_device *device;
    VkDeviceMemory memory;
    unsigned char *mapped;
    VkDeviceSize used;
    int allocated, freed, refuse, unmapped;
} arena;

static VkResult arena_alloc(uint32_t device, const VkMemoryRequirements *need, VkMemoryPropertyFlags required,
                            VkMemoryPropertyFlags preferred, dit_block *out, void *user) {
    arena *from = (arena *)user;
    CHECK(device == 0 && need->size > 0);
    CHECK(required == 0 || required == (VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT));
    CHECK(required || preferred == VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT);
    if (from->refuse) return VK_ERROR_OUT_OF_DEVICE_MEMORY;
    from->used = (from->used + need->alignment - 1) / need->alignment * need->alignment;
    out->memory = from->memory;
    out->offset = from->used;
    out->size = need->size;
    out->mapped = from->unmapped ? NULL : from->mapped + from->used;
    out->handle = from;
    from->used += need->size;
    from->allocated++;
    return VK_SUCCESS;
}

static void arena_free(uint32_t device, const dit_block *block, void *user) {
    arena *from = (arena *)user;
    CHECK(device == 0 && block->handle == from && block->memory == from->memory);
    CHECK((block->mapped != NULL) == !from->unmapped);
    from->freed++;
}

static void allocator_hooks(const char *overrides) {
    VkMemoryAllocateInfo info = {VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO, NULL, 8 << 20, 0};
    diti_device *device = test_open(overrides);
    diti_buffer buffer;
    arena from = {0};
    dit_error err = {0};
    if (!device) return;
    if (!device->unified) { /* type 0 may be of any kind there */
        diti_device_close(device);
        return;
    }
    CHECK(device->vk.AllocateMemory(device->device, &info, NULL, &from.memory) == 0);
    CHECK(device->vk.MapMemory(device->device, from.memory, 0, VK_WHOLE_SIZE, 0, (void **)&from.mapped) == 0);
    device->allocator.alloc = arena_alloc;
    device->allocator.free = arena_free;
    device->allocator.user = &from;
    copies(device, DITI_MEMORY_DEVICE);
    copies(device, DITI_MEMORY_UPLOAD);
    copies(device, DITI_MEMORY_READBACK);
    from.refuse = 1;
    CHECK(diti_buffer_create(device, 100, DITI_MEMORY_DEVICE, "refused", &buffer, &err) ==
          DIT_ERROR_OUT_OF_DEVICE_MEMORY);
    CHECK(strstr(err.message, "refused") && strstr(err.message, "device_allocator"));
    from.refuse = 0;
    diti_staging_free(device);
    CHECK(from.allocated == from.freed && from.allocated >= 3);
    from.unmapped = 1;
    CHECK(diti_buffer_create(device, 100, DITI_MEMORY_UPLOAD, "unmapped", &buffer, &err) == DIT_ERROR_INVALID_ARGUMENT);
    CHECK(diti_buffer_create(device, 100, DITI_MEMORY_DEVICE, "unmapped", &buffer, &err) == DIT_OK);
    CHECK(!buffer.block.mapped);
    diti_buffer_destroy(device, &buffer);
    CHECK(from.allocated == from.freed && device->memory_used == 0);
    device->vk.FreeMemory(device->device, from.memory, NULL);
    memset(&device->allocator, 0, sizeof device->allocator);
    diti_device_close(device);
}

static void hooks_in_pairs(void) {
    dit_context_desc desc = {0};
    dit_error err;
    desc.device_allocator.alloc = arena_alloc;
    CHECK(!test_open_desc(&desc, &err) && strstr(err.message, "device_allocator"));
    desc.device_allocator.alloc = NULL;
    desc.device_allocator.free = arena_free;
    CHECK(!test_open_desc(&desc, &err) && err.result == DIT_ERROR_INVALID_ARGUMENT);
}

/* --- computing, waiting, losing --- */

static void compute(void) {
    diti_device *device = test_open(NULL);
    dit_error err = {0};
    if (!device) return;
    CHECK_MESSAGE(test_compute(device, 1000, 3, &err) == DIT_OK, "%s", err.message);
    CHECK_MESSAGE(test_compute(device, 65, 0x80000001u, &err) == DIT_OK, "%s", err.message);
    diti_device_close(device);
}

static void pipelines(void) {
    diti_device *device = test_open("fail_pipeline=2");
    VkPipeline first, again, second;
    diti_kernel kernel = test_smallest_module();
    uint32_t constants[DITI_MAX_CONSTANTS] = {64};
    dit_error err = {0};
    if (!device) return;
    CHECK(diti_pipeline_get(device, kernel, constants, 1u << DITI_MAX_CONSTANTS, &first, &err) ==
          DIT_ERROR_INVALID_ARGUMENT);
    CHECK(diti_pipeline_get(device, DITI_KERNELS, NULL, 0, &first, &err) == DIT_ERROR_INVALID_ARGUMENT);
    CHECK_MESSAGE(diti_pipeline_get(device, kernel, NULL, 0, &first, &err) == DIT_OK, "%s", err.message);
    CHECK(diti_pipeline_get(device, kernel, NULL, 0, &again, &err) == DIT_OK && again == first);
    CHECK(device->pipelines_compiled == 1);
    CHECK(diti_pipeline_get(device, kernel, constants, 1, &second, &err) == DIT_ERROR_VULKAN && !second);
    CHECK(strstr(err.message, diti_kernel_name(kernel)));
    CHECK(device->pipelines_compiled == 1);
    device->fail_pipeline_after = 0;
    snprintf(device->fail_pipeline, sizeof device->fail_pipeline, "%s:0=64", diti_kernel_name(kernel));
    CHECK(diti_pipeline_get(device, kernel, constants, 1, &second, &err) == DIT_ERROR_VULKAN && !second);
    snprintf(device->fail_pipeline, sizeof device->fail_pipeline, "%s", diti_kernel_name(kernel));
    CHECK(diti_pipeline_get(device, kernel, constants, 1, &second, &err) == DIT_ERROR_VULKAN && !second);
    snprintf(device->fail_pipeline, sizeof device->fail_pipeline, "%s:0=63", diti_kernel_name(kernel));
    CHECK(diti_pipeline_get(device, kernel, constants, 1, &second, &err) == DIT_OK && second != first);
    CHECK(device->pipelines_compiled == 2);
    constants[1] = 7; /* which nobody states */
    CHECK(diti_pipeline_get(device, kernel, constants, 1, &again, &err) == DIT_OK && again == second);
    CHECK(device->pipelines_compiled == 2);
    diti_device_close(device);
    CHECK(test_blocks == 0);
}

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void timelines(void) {
    diti_device *device = test_open(NULL);
    VkSemaphore timeline = VK_NULL_HANDLE;
    uint64_t value = 99;
    dit_error err = {0};
    double start;
    if (!device) return;
    CHECK(diti_timeline_create(device, &timeline, &err) == DIT_OK);
    CHECK(diti_timeline_value(device, timeline, &value, &err) == DIT_OK && value == 0);
    CHECK(diti_timeline_wait(device, timeline, 0, 0, &err) == DIT_OK);
    CHECK(diti_timeline_wait(device, timeline, 1, 0, &err) == DIT_WORKING);
    start = seconds();
    CHECK(diti_timeline_wait(device, timeline, 1, 20 * 1000 * 1000, &err) == DIT_WORKING);
    CHECK(seconds() - start > 0.015);
    CHECK(diti_submit(device, NULL, 0, timeline, 5, &err) == DIT_OK);
    CHECK(diti_timeline_wait(device, timeline, 5, UINT64_MAX, &err) == DIT_OK);
    CHECK(diti_timeline_value(device, timeline, &value, &err) == DIT_OK && value == 5);
    CHECK(diti_timeline_wait(device, timeline, 6, 1000, &err) == DIT_WORKING);
    CHECK(diti_submit(device, NULL, 0, VK_NULL_HANDLE, 0, &err) == DIT_OK);
    device->vk.DestroySemaphore(device->device, timeline, NULL);
    diti_device_close(device);
}

static void device_loss(void) {
    diti_device *device = test_open("fail_submit=3");
    VkSemaphore timeline = VK_NULL_HANDLE;
    uint64_t value;
    char byte = 0;
    diti_buffer buffer;
    dit_error err = {0};
    if (!device) return;
    CHECK(diti_timeline_create(device, &timeline, &err) == DIT_OK);
    CHECK(diti_buffer_create(device, 10, DITI_MEMORY_DEVICE, "loss", &buffer, &err) == DIT_OK);
    CHECK(diti_submit(device, NULL, 0, timeline, 1, &err) == DIT_OK);
    CHECK(diti_submit(device, NULL, 0, timeline, 2, &err) == DIT_OK);
    CHECK(diti_submit(device, NULL, 0, timeline, 3, &err) == DIT_ERROR_DEVICE_LOST);
    CHECK(err.vk == VK_ERROR_DEVICE_LOST && strstr(err.message, "lost"));
    CHECK(diti_submit(device, NULL, 0, timeline, 4, &err) == DIT_ERROR_DEVICE_LOST);
    CHECK(device->submits == 3);
    CHECK(diti_timeline_wait(device, timeline, 3, UINT64_MAX, &err) == DIT_ERROR_DEVICE_LOST);
    CHECK(diti_timeline_value(device, timeline, &value, &err) == DIT_ERROR_DEVICE_LOST);
    CHECK(diti_buffer_read(device, &buffer, 0, &byte, 1, &err) == DIT_ERROR_DEVICE_LOST);
    diti_buffer_destroy(device, &buffer);
    device->vk.DestroySemaphore(device->device, timeline, NULL);
    diti_device_close(device);
    CHECK(test_blocks == 0);
}

typedef struct thread_work {
    diti_device *device;
    dit_result result;
    dit_error err;
} thread_work;

static void *thread_run(void *user) {
    thread_work *work = (thread_work *)user;
    uint32_t i;
    for (i = 0; i < 5 && work->result >= 0; i++) {
        work->result = test_compute(work->device, 5000 + i, i + 1, &work->err);
    }
    return NULL;
}

/* Two threads compute at once, each with its own device or both on one. */
static void threads(int shared) {
    thread_work first = {0}, second = {0};
    pthread_t thread;
    first.device = test_open("mapped=0,staging=4K");
    second.device = shared ? first.device : test_open("mapped=0");
    if (!first.device || !second.device) return;
    CHECK(pthread_create(&thread, NULL, thread_run, &first) == 0);
    thread_run(&second);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK_MESSAGE(first.result == DIT_OK, "%s", first.err.message);
    CHECK_MESSAGE(second.result == DIT_OK, "%s", second.err.message);
    diti_device_close(first.device);
    if (!shared) diti_device_close(second.device);
    CHECK(test_blocks == 0);
}

/* --- the cache blob --- */

static unsigned char blob[1 << 20];
static size_t blob_size;

static void cache_make(void) {
    diti_device *device = test_open(NULL);
    size_t size = 0;
    dit_error err = {0};
    if (!device) return;
    CHECK(test_compute(device, 100, 1, &err) == DIT_OK);
    device->speed.us_per_gflop = 123.5f;
    device->calibrated = true;
    device->calibrated_rung = device->rung;
    diti_tuned_add(device, 0x1234567890abcdefu, 2);
    diti_tuned_add(device, 77, 1);
    diti_tuned_add(device, 77, 0); /* the first measurement stays */
    CHECK(diti_cache_save(device, NULL, &size, &err) == DIT_OK && size >= sizeof(diti_cache_header));
    size--;
    CHECK(diti_cache_save(device, blob, &size, &err) == DIT_ERROR_INVALID_ARGUMENT);
    blob_size = sizeof blob;
    CHECK(diti_cache_save(device, blob, &blob_size, &err) == DIT_OK);
    CHECK_MESSAGE(blob_size <= size && blob_size >= sizeof(diti_cache_header) + 2 * sizeof(diti_tuned),
                  "%zu bytes instead of %zu", blob_size, size); /* some drivers write less than they announce */
    diti_device_close(device);
}

/* Opens a device with a blob; true when the blob was taken. */
static bool cache_opens(const unsigned char *data, size_t size) {
    dit_context_desc desc = {0};
    diti_device *device;
    dit_error err;
    uint32_t choice = 9, other = 9;
    bool taken;
    test_log[0] = 0;
    desc.cache = data;
    desc.cache_size = size;
    device = test_open_desc(&desc, &err);
    if (!CHECK_MESSAGE(device, "%s", err.message)) return false;
    taken = device->speed.us_per_gflop == 123.5f;
    CHECK(device->calibrated == taken);
    CHECK(diti_tuned_find(device, 0x1234567890abcdefu, &choice) == taken && choice == (taken ? 2u : 9u));
    CHECK(diti_tuned_find(device, 77, &other) == taken && other == (taken ? 1u : 9u));
    CHECK(!diti_tuned_find(device, 78, &choice) && device->tuned_count == (taken ? 2u : 0u));
    CHECK_MESSAGE(taken == !strstr(test_log, "ignored"), "logged '%s'", test_log);
    CHECK(test_compute(device, 100, 1, &err) == DIT_OK);
    diti_device_close(device);
    return taken;
}

/* Damage that keeps the checksum right must be found as well: an attacker or another program may have made it. */
static void cache_reseal(unsigned char *data, size_t size) {
    diti_cache_header header;
    memcpy(&header, data, sizeof header);
    header.checksum = diti_cache_checksum(&header, data + sizeof header, size - sizeof header);
    memcpy(data, &header, sizeof header);
}

/* Everything else in such a blob is good and taken; only the speed stays a guess. */
static void cache_absurd_speeds(unsigned char *bad) {
    static const float absurd[] = {0, -1, INFINITY, NAN, 1e30f};
    size_t i, k;
    for (i = 0; i < 3 * DITI_COUNT(absurd); i++) {
        diti_cache_header header;
        dit_context_desc desc = {0};
        diti_device *device;
        dit_error err;
        memcpy(bad, blob, blob_size);
        memcpy(&header, bad, sizeof header);
        k = i / 3;
        if (i % 3 == 0) header.speed.launch_us = k ? absurd[k] : -2;
        if (i % 3 == 1) header.speed.us_per_gflop = absurd[k];
        if (i % 3 == 2) header.speed.us_per_gigabyte = absurd[k];
        memcpy(bad, &header, sizeof header);
        cache_reseal(bad, blob_size);
        desc.cache = bad;
        desc.cache_size = blob_size;
        device = test_open_desc(&desc, &err);
        if (!CHECK_MESSAGE(device, "%s", err.message)) return;
        CHECK_MESSAGE(!device->calibrated && device->speed.us_per_gflop != 123.5f && device->tuned_count == 2,
                      "%g is taken for a speed", (double)absurd[k]);
        diti_device_close(device);
    }
}

static void cache_damage(void) {
    static unsigned char bad[sizeof blob + 64];
    static const size_t sealed[] = {0,  4,  8,  23, 24, 28,
                                    32, 56, 59, 64, 72}; /* magic, version, uuid, ids, choices, hash, size */
    const size_t choice = sizeof(diti_cache_header) + 8, driver = sizeof(diti_cache_header) + 2 * sizeof(diti_tuned);
    size_t i, sizes[] = {1, 4, sizeof(diti_cache_header) - 1, sizeof(diti_cache_header), blob_size / 2, blob_size - 1};
    CHECK(cache_opens(blob, blob_size));
    for (i = 0; i < DITI_COUNT(sizes); i++) {
        if (sizes[i] < blob_size) CHECK_MESSAGE(!cache_opens(blob, sizes[i]), "cut to %zu", sizes[i]);
    }
    memcpy(bad, blob, blob_size);
    CHECK(!cache_opens(bad, blob_size + 7));
    for (i = 0; i < DITI_COUNT(sealed); i++) {
        memcpy(bad, blob, blob_size);
        bad[sealed[i]] ^= 0x11;
        CHECK_MESSAGE(!cache_opens(bad, blob_size), "byte %zu changed", sealed[i]);
        cache_reseal(bad, blob_size);
        CHECK_MESSAGE(!cache_opens(bad, blob_size), "byte %zu changed, checksum mended", sealed[i]);
    }
    cache_absurd_speeds(bad);
    memcpy(bad, blob, blob_size);
    bad[choice + 3] = 1; /* no choice is so large */
    cache_reseal(bad, blob_size);
    CHECK(!cache_opens(bad, blob_size));
    CHECK_MESSAGE(strstr(test_log, "tuned choices are damaged"), "logged '%s'", test_log);
    for (i = 0; i < 32 && driver + i < blob_size; i += 4) { /* the driver's own header */
        memcpy(bad, blob, blob_size);
        bad[driver + i] ^= 0x55;
        CHECK_MESSAGE(!cache_opens(bad, blob_size), "data byte %zu changed", i);
        cache_reseal(bad, blob_size);
        CHECK_MESSAGE(cache_opens(bad, blob_size) && strstr(test_log, "data in the cache blob is left out"),
                      "data byte %zu changed, checksum mended: '%s'", i, test_log);
    }
    fill(bad, blob_size, 3);
    CHECK(!cache_opens(bad, blob_size));
    memset(bad, 0, blob_size);
    CHECK(!cache_opens(bad, blob_size));
}

typedef enum whim { /* ways in which a driver may answer vkGetPipelineCacheData */
                    WHIM_NONE,
                    WHIM_FEWER,  /* it writes less than it announced */
                    WHIM_LARGER, /* it says to have written more */
                    WHIM_NO_HEADER,
                    WHIM_INCOMPLETE,
                    WHIM_GROWS, /* so that the room for it is too small */
                    WHIM_FAILS,
                    WHIM_LOST,
                    WHIMS
} whim;
static whim whim_now;
static uint32_t whim_header[8];

static uint32_t whim_calls;

static VkResult VKAPI_CALL whim_data(VkDevice device, VkPipelineCache cache, size_t *size, void *data) {
    const size_t announced = 100;
    (void)device, (void)cache;
    if (whim_now == WHIM_FAILS) return VK_ERROR_OUT_OF_HOST_MEMORY;
    if (whim_now == WHIM_LOST) return VK_ERROR_DEVICE_LOST;
    if (!data) {
        *size = announced + (whim_now == WHIM_GROWS ? whim_calls++ : 0);
        return VK_SUCCESS;
    }
    CHECK_MESSAGE(*size == announced, "%zu bytes of room", *size);
    memset(data, 0, announced);
    if (whim_now != WHIM_NO_HEADER) memcpy(data, whim_header, sizeof whim_header);
    *size = announced + (whim_now == WHIM_LARGER) - (whim_now == WHIM_FEWER);
    return whim_now == WHIM_INCOMPLETE || whim_now == WHIM_GROWS ? VK_INCOMPLETE : VK_SUCCESS;
}

/* Whatever a driver answers, the tuned choices are kept: at most its own data is left out. */
static void cache_whims(void) {
    static const size_t kept[WHIMS] = {100, 99};
    diti_device *device = test_open(NULL);
    dit_error err = {0};
    diti_cache_header header;
    unsigned char bytes[1000];
    if (!device) return;
    diti_cache_identity(device, &header);
    whim_header[0] = 32, whim_header[1] = 1, whim_header[2] = header.vendor, whim_header[3] = header.device;
    memcpy(whim_header + 4, header.uuid, 16);
    device->vk.GetPipelineCacheData = whim_data;
    diti_tuned_add(device, 77, 263);
    for (whim_now = WHIM_NONE; whim_now < WHIMS; whim_now++) {
        const size_t fixed = sizeof header + sizeof(diti_tuned);
        size_t size = 0;
        dit_result result;
        whim_calls = 0;
        test_log[0] = 0;
        result = diti_cache_save(device, NULL, &size, &err);
        if (result >= 0) CHECK(size == fixed + (whim_now == WHIM_FAILS ? 0 : 100));
        if (result >= 0) result = diti_cache_save(device, bytes, &size, &err);
        if (whim_now == WHIM_GROWS || whim_now == WHIM_LOST) {
            CHECK(result == (whim_now == WHIM_LOST ? DIT_ERROR_DEVICE_LOST : DIT_ERROR_INVALID_ARGUMENT));
            continue;
        }
        CHECK_MESSAGE(result == DIT_OK && size == fixed + kept[whim_now], "whim %d: %zu bytes", (int)whim_now, size);
        CHECK_MESSAGE(!kept[whim_now] == (strstr(test_log, "left out of the cache blob") != NULL), "whim %d: '%s'",
                      (int)whim_now, test_log);
        CHECK_MESSAGE(!diti_cache_check(device, bytes, size, &header), "whim %d", (int)whim_now);
        CHECK(header.tuned_count == 1 && diti_cache_tuned(bytes, 0).choice == 263);
    }
    diti_device_close(device);
}

/* --- the application's device --- */

typedef struct app {
    VkInstance instance;
    VkPhysicalDevice gpu;
    VkDevice device;
    VkQueue queue;
    VkDeviceQueueCreateInfo queue_info;
    VkDeviceCreateInfo device_info;
    float priority;
    int locks, unlocks;
    uint64_t extend_memory[1024];
} app;

static PFN_vkVoidFunction app_function(app *a, const char *name) { return test_vulkan_function(a->instance, name); }

static void app_lock(void *user) { ((app *)user)->locks++; }
static void app_unlock(void *user) { ((app *)user)->unlocks++; }

static int app_begin(app *a, uint32_t api) {
    VkApplicationInfo info = {VK_STRUCTURE_TYPE_APPLICATION_INFO, NULL, NULL, 0, NULL, 0, api};
    VkInstanceCreateInfo instance = {VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO, NULL, 0, &info, 0, NULL, 0, NULL};
    uint32_t count = 1;
    VkDeviceQueueCreateInfo queue = {VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO, NULL, 0, 0, 1, NULL};
    VkDeviceCreateInfo device = {VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO, NULL, 0, 1, NULL, 0, NULL, 0, NULL, NULL};
    memset(a, 0, sizeof *a);
    a->priority = 1;
    a->queue_info = queue;
    a->queue_info.pQueuePriorities = &a->priority;
    a->device_info = device;
    a->device_info.pQueueCreateInfos = &a->queue_info;
    if (!CHECK(((PFN_vkCreateInstance)test_vulkan_function(NULL, "vkCreateInstance"))(&instance, NULL, &a->instance) ==
               0))
        return 0;
    return CHECK(((PFN_vkEnumeratePhysicalDevices)app_function(a, "vkEnumeratePhysicalDevices"))(a->instance, &count,
                                                                                                 &a->gpu) >= 0 &&
                 a->gpu);
}

static int app_create(app *a, const VkDeviceCreateInfo *info) {
    if (!CHECK(((PFN_vkCreateDevice)app_function(a, "vkCreateDevice"))(a->gpu, info, NULL, &a->device) == 0)) return 0;
    ((PFN_vkGetDeviceQueue)app_function(a, "vkGetDeviceQueue"))(a->device, 0, 0, &a->queue);
    return 1;
}

static void app_end(app *a) {
    if (a->device) {
        CHECK(((PFN_vkDeviceWaitIdle)app_function(a, "vkDeviceWaitIdle"))(a->device) == 0); /* still there */
        ((PFN_vkDestroyDevice)app_function(a, "vkDestroyDevice"))(a->device, NULL);
    }
    ((PFN_vkDestroyInstance)app_function(a, "vkDestroyInstance"))(a->instance, NULL);
}

static dit_vulkan app_vulkan(app *a, const VkDeviceCreateInfo *info) {
    dit_vulkan given = {0};
    given.get_instance_proc_addr = (PFN_vkGetInstanceProcAddr)test_vulkan_function(NULL, "vkGetInstanceProcAddr");
    given.instance = a->instance;
    given.physical_device = a->gpu;
    given.device = a->device;
    given.device_info = info;
    given.queue = a->queue;
    return given;
}

static diti_device *app_wrap(const dit_vulkan *given, dit_error *err) {
    dit_context_desc desc = {0};
    desc.vulkan = given;
    desc.vulkan_count = 1;
    return test_open_desc(&desc, err);
}

/* Only the timeline is enabled: a device that could do fp16 must be used without. */
static void wrapped(void) {
    VkPhysicalDeviceVulkan12Features features = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES};
    VkPipelineCacheCreateInfo cache = {VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO, NULL, 0, 0, NULL};
    diti_device *device;
    dit_vulkan given;
    dit_error err = {0};
    unsigned char small[200];
    size_t size = sizeof small;
    app a;
    if (!app_begin(&a, VK_API_VERSION_1_2)) return;
    features.timelineSemaphore = VK_TRUE;
    a.device_info.pNext = &features;
    if (!app_create(&a, &a.device_info)) return;
    given = app_vulkan(&a, &a.device_info);
    given.api_version = VK_API_VERSION_1_2;
    given.lock_queue = app_lock, given.unlock_queue = app_unlock, given.lock_user = &a;
    CHECK(((PFN_vkCreatePipelineCache)app_function(&a, "vkCreatePipelineCache"))(a.device, &cache, NULL,
                                                                                 &given.pipeline_cache) == 0);
    device = app_wrap(&given, &err);
    if (CHECK_MESSAGE(device, "%s", err.message)) {
        CHECK(device->rung == DITI_RUNG_BASE && !device->has_fp16 && !strcmp(device->info.rung, "base"));
        CHECK(device->api_version == VK_API_VERSION_1_2); /* the instance's, whatever the device has */
        CHECK(device->device == a.device && device->pipeline_cache == given.pipeline_cache);
        CHECK(test_compute(device, 1000, 5, &err) == DIT_OK);
        CHECK(a.locks > 0 && a.locks == a.unlocks && (uint64_t)a.locks == device->submits);
        CHECK(diti_cache_save(device, small, &size, &err) == DIT_OK && size == sizeof(diti_cache_header));
        diti_device_close(device);
    }
    ((PFN_vkDestroyPipelineCache)app_function(&a, "vkDestroyPipelineCache"))(a.device, given.pipeline_cache, NULL);
    device = app_wrap(&given, &err); /* once more on the same device, but with a cache of dit's own */
    given.pipeline_cache = VK_NULL_HANDLE;
    diti_device_close(device);
    device = app_wrap(&given, &err);
    if (CHECK_MESSAGE(device, "%s", err.message)) CHECK(test_compute(device, 10, 5, &err) == DIT_OK);
    diti_device_close(device);
    given.device_info = NULL; /* stands for: the timeline alone */
    device = app_wrap(&given, &err);
    if (CHECK_MESSAGE(device, "%s", err.message)) CHECK(!device->has_fp16);
    diti_device_close(device);
    app_end(&a);
    CHECK(test_blocks == 0);
}

/* attention_coop2 is SPIR-V 1.6, so VK_KHR_maintenance4 on Vulkan 1.2 is not enough for it. */
static void wrapped_versions(void) {
    static const diti_portions none = {0};
    const diti_identity any = {0};
    diti_device device = {0};
    device.portions = diti_portions_of(&any, UINT64_MAX);
    device.rung = DITI_RUNG_COOP2;
    device.coop.subgroup_shape[DITI_COOP_F16].m = device.coop.flexible[DITI_COOP_F16].m = 16;
    device.coop.reductions = device.coop.conversions = device.coop.per_element = true;
    device.features.has[DITI_FEATURE_MAINTENANCE4] = true;
    device.api_version = VK_MAKE_API_VERSION(0, 1, 2, 250);
    CHECK(diti_device_coop_attention(&device) == 1);
    device.api_version = VK_API_VERSION_1_3;
    CHECK(diti_device_coop_attention(&device) == 2);
    device.features.has[DITI_FEATURE_MAINTENANCE4] = false;
    CHECK(diti_device_coop_attention(&device) == 1);
    device.portions = &none; /* as Arc A's, whose products alone are on matrices */
    CHECK(diti_device_coop_attention(&device) == 0);
}

static void wrapped_refusals(void) {
    VkPhysicalDeviceTimelineSemaphoreFeatures timeline = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_TIMELINE_SEMAPHORE_FEATURES};
    dit_vulkan given, bad;
    dit_context_desc desc = {0};
    dit_error err = {0};
    app a;
    if (!app_begin(&a, VK_API_VERSION_1_2)) return;
    timeline.timelineSemaphore = VK_TRUE;
    a.device_info.pNext = &timeline;
    if (!app_create(&a, &a.device_info)) return;
    given = app_vulkan(&a, &a.device_info);
    bad = given, bad.instance = NULL;
    CHECK(!app_wrap(&bad, &err) && strstr(err.message, "instance"));
    bad = given, bad.physical_device = NULL;
    CHECK(!app_wrap(&bad, &err) && strstr(err.message, "physical_device"));
    bad = given, bad.device = NULL;
    CHECK(!app_wrap(&bad, &err) && strstr(err.message, "device"));
    bad = given, bad.queue = NULL;
    CHECK(!app_wrap(&bad, &err) && strstr(err.message, "queue"));
    bad = given, bad.get_instance_proc_addr = NULL;
    CHECK(!app_wrap(&bad, &err) && strstr(err.message, "get_instance_proc_addr"));
    bad = given, bad.lock_queue = app_lock;
    CHECK(!app_wrap(&bad, &err) && strstr(err.message, "unlock_queue"));
    bad = given, bad.queue_family = 63;
    CHECK(!app_wrap(&bad, &err) && err.result == DIT_ERROR_INVALID_ARGUMENT && strstr(err.message, "family 63"));
    bad = given, bad.api_version = VK_API_VERSION_1_1;
    CHECK(!app_wrap(&bad, &err) && err.result == DIT_ERROR_UNSUPPORTED_DEVICE && strstr(err.message, "1.1"));
    timeline.timelineSemaphore = VK_FALSE;
    CHECK(!app_wrap(&given, &err) && strstr(err.message, "dit_device_extend"));
    timeline.timelineSemaphore = VK_TRUE;
    desc.vulkan = &given, desc.vulkan_count = 1, desc.devices = "0";
    CHECK(!test_open_desc(&desc, &err) && err.result == DIT_ERROR_INVALID_ARGUMENT);
    desc.devices = NULL, desc.vulkan_count = 2;
    CHECK(!test_open_desc(&desc, &err) && err.result == DIT_ERROR_INVALID_ARGUMENT);
    desc.vulkan_count = 1, desc.vulkan = NULL;
    CHECK(!test_open_desc(&desc, &err) && err.result == DIT_ERROR_INVALID_ARGUMENT);
    app_end(&a);
    CHECK(test_blocks == 0);
}

/* Extends the application's create info, makes a device with it and computes on it at the best rung. */
static void extend_with(const void *chain, const char *rung) {
    VkDeviceCreateInfo out;
    diti_device *device;
    dit_vulkan given;
    dit_error err = {0};
    size_t size = 0, room;
    uint32_t i, shares = 0;
    app a;
    if (!app_begin(&a, VK_API_VERSION_1_2)) return;
    a.device_info.pNext = chain;
    given = app_vulkan(&a, NULL);
    CHECK_MESSAGE(dit_device_extend(given.get_instance_proc_addr, a.instance, a.gpu, &a.device_info, NULL, &size, NULL,
                                    &err) == DIT_OK,
                  "%s", err.message);
    CHECK(size > 0 && size <= sizeof a.extend_memory);
    room = size - 1;
    CHECK(dit_device_extend(given.get_instance_proc_addr, a.instance, a.gpu, &a.device_info, a.extend_memory, &room,
                            &out, &err) == DIT_ERROR_INVALID_ARGUMENT);
    CHECK(room == size);
    CHECK(dit_device_extend(given.get_instance_proc_addr, a.instance, a.gpu, &a.device_info, a.extend_memory, &size,
                            &out, &err) == DIT_OK);
    CHECK(out.queueCreateInfoCount == 1 && out.pQueueCreateInfos[0].queueCount == 1);
    for (i = 0; i < out.enabledExtensionCount; i++) /* the extensions by which all drivers here share memory */
        shares += !strcmp(out.ppEnabledExtensionNames[i], "VK_KHR_external_memory_fd") ||
                  !strcmp(out.ppEnabledExtensionNames[i], "VK_EXT_external_memory_host");
    CHECK(shares == 2);
    if (app_create(&a, &out)) {
        given = app_vulkan(&a, &out);
        device = app_wrap(&given, &err);
        if (CHECK_MESSAGE(device, "%s", err.message)) {
            CHECK(device->has_fp16 == !!strcmp(rung, "base"));
            CHECK(test_compute(device, 100, 5, &err) == DIT_OK);
        }
        diti_device_close(device);
    }
    app_end(&a);
}

static void extend(void) {
    VkPhysicalDeviceVulkan12Features core12 = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES};
    VkPhysicalDeviceVulkan11Features core11 = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES};
    VkPhysicalDeviceTimelineSemaphoreFeatures timeline = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_TIMELINE_SEMAPHORE_FEATURES};
    VkPhysicalDevice16BitStorageFeatures storage = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_16BIT_STORAGE_FEATURES};
    VkPhysicalDeviceFeatures2 features = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2};
    dit_device_info info[16];
    uint32_t count = 16;
    dit_error err = {0};
    dit_device_list(info, &count, &err);
    extend_with(NULL, info[0].rung);
    extend_with(&features, info[0].rung);
    core12.hostQueryReset = VK_TRUE;
    extend_with(&core12, info[0].rung);
    core11.pNext = &features, features.pNext = &core12;
    extend_with(&core11, info[0].rung);
    CHECK(core12.timelineSemaphore == VK_FALSE && core11.storageBuffer16BitAccess == VK_FALSE); /* copies are changed */
    core12.pNext = &core11, core11.pNext = NULL;
    extend_with(&core12, info[0].rung);
    storage.pNext = &timeline;
    extend_with(&storage, info[0].rung);
    timeline.timelineSemaphore = VK_TRUE;
    extend_with(&storage, info[0].rung);
}

/* All that the application hands over may be gone when dit_device_extend returns: the device is made from copies. */
static void extend_copies(void) {
    typedef struct handed_over {
        VkDeviceCreateInfo info;
        VkDeviceQueueCreateInfo queue;
        float priority;
        VkPhysicalDeviceFeatures features;
        VkPhysicalDeviceVulkan12Features core12;
        VkPhysicalDevicePrivateDataFeatures last; /* dit changes nothing in it */
        VkDeviceGroupDeviceCreateInfo group;
        VkPhysicalDevice gpu;
        const char *names[1];
        char name[64];
    } handed_over;
    handed_over *app_side = (handed_over *)calloc(1, sizeof *app_side);
    const VkBaseInStructure *at;
    VkDeviceCreateInfo out;
    dit_error err = {0};
    diti_device *device;
    dit_vulkan given;
    size_t size;
    app a;
    if (!app_side || !app_begin(&a, VK_API_VERSION_1_3)) return free(app_side);
    size = sizeof a.extend_memory;
    app_side->priority = 0.5f;
    app_side->queue = a.queue_info;
    app_side->queue.pQueuePriorities = &app_side->priority;
    app_side->core12.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES;
    app_side->core12.pNext = &app_side->group;
    app_side->group.sType = VK_STRUCTURE_TYPE_DEVICE_GROUP_DEVICE_CREATE_INFO;
    app_side->group.pNext = &app_side->last;
    app_side->group.physicalDeviceCount = 1;
    app_side->group.pPhysicalDevices = &app_side->gpu;
    app_side->gpu = a.gpu;
    app_side->last.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PRIVATE_DATA_FEATURES;
    snprintf(app_side->name, sizeof app_side->name, "VK_KHR_external_memory_fd");
    app_side->names[0] = app_side->name;
    app_side->info = a.device_info;
    app_side->info.pNext = &app_side->core12;
    app_side->info.pQueueCreateInfos = &app_side->queue;
    app_side->info.pEnabledFeatures = &app_side->features;
    app_side->info.ppEnabledExtensionNames = app_side->names;
    app_side->info.enabledExtensionCount = 1;
    given = app_vulkan(&a, NULL);
    CHECK_MESSAGE(dit_device_extend(given.get_instance_proc_addr, a.instance, a.gpu, &app_side->info, a.extend_memory,
                                    &size, &out, &err) == DIT_OK,
                  "%s", err.message);
    memset(app_side, 0xcc, sizeof *app_side); /* as the stack of a function that has returned */
    free(app_side);
    for (at = (const VkBaseInStructure *)out.pNext; at; at = at->pNext)
        if (!CHECK((const char *)at >= (const char *)a.extend_memory && (const char *)at < (const char *)(&a + 1)))
            return;
    CHECK((const char *)out.pQueueCreateInfos >= (const char *)a.extend_memory &&
          (const char *)out.pQueueCreateInfos < (const char *)(&a + 1));
    if (app_create(&a, &out)) {
        given = app_vulkan(&a, &out);
        device = app_wrap(&given, &err);
        if (CHECK_MESSAGE(device, "%s", err.message)) CHECK(test_compute(device, 100, 5, &err) == DIT_OK);
        diti_device_close(device);
    }
    app_end(&a);
}

/* Kernels have atomics for the whole device, which are a feature of their own once an application enables the memory
   model, whether there are matrices or not. */
static void extend_scope(void) {
    VkPhysicalDeviceVulkan12Features core12 = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES};
    VkPhysicalDeviceFeatures2 features = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, .pNext = &core12};
    PFN_vkGetInstanceProcAddr get = (PFN_vkGetInstanceProcAddr)test_vulkan_function(NULL, "vkGetInstanceProcAddr");
    VkDeviceCreateInfo out, info;
    dit_error err = {0};
    size_t size;
    bool has;
    app a;
    if (!app_begin(&a, VK_API_VERSION_1_2)) return;
    ((PFN_vkGetPhysicalDeviceFeatures2)app_function(&a, "vkGetPhysicalDeviceFeatures2"))(a.gpu, &features);
    has = core12.vulkanMemoryModel && core12.vulkanMemoryModelDeviceScope;
    core12 = (VkPhysicalDeviceVulkan12Features){.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES};
    core12.vulkanMemoryModel = has;
    info = a.device_info;
    info.pNext = &core12;
    size = sizeof a.extend_memory;
    CHECK(dit_device_extend(get, a.instance, a.gpu, &info, a.extend_memory, &size, &out, &err) == DIT_OK);
    CHECK(!has || ((const VkPhysicalDeviceVulkan12Features *)out.pNext)->vulkanMemoryModelDeviceScope);
    app_end(&a);
}

static void extend_refusals(void) {
    VkPhysicalDeviceVulkan12Features core12 = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES};
    VkBaseInStructure unknown = {(VkStructureType)1234567, NULL};
    PFN_vkGetInstanceProcAddr get = (PFN_vkGetInstanceProcAddr)test_vulkan_function(NULL, "vkGetInstanceProcAddr");
    dit_error err = {0};
    size_t size = 0;
    VkDeviceCreateInfo out, info;
    app a;
    if (!app_begin(&a, VK_API_VERSION_1_2)) return;
    info = a.device_info;
    unknown.pNext = (const VkBaseInStructure *)&core12;
    info.pNext = &unknown;
    CHECK(dit_device_extend(get, a.instance, a.gpu, &info, NULL, &size, NULL, &err) == DIT_ERROR_INVALID_ARGUMENT);
    CHECK(strstr(err.message, "1234567"));
    unknown.pNext = NULL;
    core12.pNext = &unknown;
    info.pNext = &core12; /* behind what must change, an unknown structure is no trouble */
    CHECK(dit_device_extend(get, a.instance, a.gpu, &info, NULL, &size, NULL, &err) == DIT_OK);
    size = sizeof a.extend_memory;
    CHECK(dit_device_extend(get, a.instance, a.gpu, &info, a.extend_memory, &size, &out, &err) == DIT_OK);
    CHECK(diti_extend_has(&out, unknown.sType));
    info.queueCreateInfoCount = 0;
    CHECK(dit_device_extend(get, a.instance, a.gpu, &info, NULL, &size, NULL, &err) == DIT_ERROR_INVALID_ARGUMENT);
    CHECK(dit_device_extend(NULL, a.instance, a.gpu, &info, NULL, &size, NULL, &err) == DIT_ERROR_INVALID_ARGUMENT);
    CHECK(dit_device_extend(get, a.instance, a.gpu, NULL, NULL, &size, NULL, &err) == DIT_ERROR_INVALID_ARGUMENT);
    CHECK(dit_device_extend(get, a.instance, a.gpu, &info, a.extend_memory, &size, NULL, &err) ==
          DIT_ERROR_INVALID_ARGUMENT);
    app_end(&a);
}

int main(void) {
    test_vulkan_begin();
    overrides();
    choice();
    quirks();
    subgroup_sizes();
    portions();
    spirv_text();
    spirv_modules();
    list_devices();
    open_by_choice();
    who_is_asked(limits());
    memory_limits();
    memory_types();
    memory(NULL);
    memory("mapped=0,staging=1000");
    memory("mapped=0,allocation=64M");
    incoherent();
    large_write();
    allocator_hooks(NULL);
    allocator_hooks("mapped=0,staging=5000");
    hooks_in_pairs();
    compute();
    pipelines();
    timelines();
    device_loss();
    threads(0);
    threads(1);
    cache_make();
    cache_damage();
    cache_whims();
    wrapped();
    wrapped_versions();
    wrapped_refusals();
    extend();
    extend_copies();
    extend_scope();
    extend_refusals();
    test_vulkan_end();
    return TEST_END("vk");
}
