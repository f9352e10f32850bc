/* Devices: which one is chosen, what is known of drivers and what they are asked, limits, and the application's own:
   wrapped, and made with what dit needs. test-runs: lavapipe swiftshader sanitize discrete */
#include "library.h"
#include "vk/quirks.c"
#include "vk/coop.c"
#include "vk/pipeline.c"
#include "vk/cache.c"
#include "vk/device.c"
#include "vk/extend.c"
#include "vulkan_test.h"
#include "vk_test.h"

/* --- texts that override limits --- */

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

/* --- choosing --- */

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

/* --- limits --- */

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

/* --- what is known of drivers: faults, portions of the work, subgroups --- */

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

/* --- what drivers are asked --- */

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
    given.pipeline_cache = VK_NULL_HANDLE; /* once more on the same device, but with a cache of dit's own */
    device = app_wrap(&given, &err);
    if (CHECK_MESSAGE(device, "%s", err.message))
        CHECK(device->pipeline_cache && test_compute(device, 10, 5, &err) == DIT_OK);
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

/* Extends the application's create info, makes a device with it and computes on it. fp16: whether dit's own device has
   it. */
static void extend_with(const void *chain, bool fp16) {
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
            CHECK(device->has_fp16 == fp16);
            CHECK(test_compute(device, 100, 5, &err) == DIT_OK);
        }
        diti_device_close(device);
    }
    app_end(&a);
}

static void extend(bool fp16) {
    VkPhysicalDeviceVulkan12Features core12 = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES};
    VkPhysicalDeviceVulkan11Features core11 = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES};
    VkPhysicalDeviceTimelineSemaphoreFeatures timeline = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_TIMELINE_SEMAPHORE_FEATURES};
    VkPhysicalDevice16BitStorageFeatures storage = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_16BIT_STORAGE_FEATURES};
    VkPhysicalDeviceFeatures2 features = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2};
    extend_with(NULL, fp16);
    extend_with(&features, fp16);
    core12.hostQueryReset = VK_TRUE;
    extend_with(&core12, fp16);
    core11.pNext = &features, features.pNext = &core12;
    extend_with(&core11, fp16);
    CHECK(core12.timelineSemaphore == VK_FALSE && core11.storageBuffer16BitAccess == VK_FALSE); /* copies are changed */
    core12.pNext = &core11, core11.pNext = NULL;
    extend_with(&core12, fp16);
    storage.pNext = &timeline;
    extend_with(&storage, fp16);
    timeline.timelineSemaphore = VK_TRUE;
    extend_with(&storage, fp16);
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
    bool fp16;
    test_vulkan_begin();
    overrides();
    choice();
    list_devices();
    open_by_choice();
    fp16 = limits();
    who_is_asked(fp16);
    quirks();
    portions();
    subgroup_sizes();
    wrapped();
    wrapped_versions();
    wrapped_refusals();
    extend(fp16);
    extend_copies();
    extend_scope();
    extend_refusals();
    test_vulkan_end();
    return TEST_END("devices");
}
