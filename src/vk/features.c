#include "vk/vk.h"

/* Every optional feature that dit uses, as data: in which structure its bit stands, alone and in the structures of
   whole Vulkan versions. Structures newer than the least headers that dit compiles with are known by number only; all
   of them are a header and a row of VkBool32. */
typedef struct diti_feature_structure {
    uint32_t type; /* VkStructureType */
    uint32_t bits;
    const char *extension; /* NULL: in Vulkan 1.2 */
} diti_feature_structure;
enum {
    DITI_STRUCTURE_TIMELINE,
    DITI_STRUCTURE_ARITHMETIC,
    DITI_STRUCTURE_STORAGE16,
    DITI_STRUCTURE_MEMORY_MODEL,
    DITI_STRUCTURE_DOT,
    DITI_STRUCTURE_SUBGROUP,
    DITI_STRUCTURE_COOP,
    DITI_STRUCTURE_COOP2,
    DITI_STRUCTURE_BF16,
    DITI_STRUCTURE_MAINTENANCE4,
    DITI_STRUCTURE_MIXED_DOT,
    DITI_STRUCTURE_FLOAT8,
    DITI_STRUCTURES
};
static const diti_feature_structure diti_feature_structures[DITI_STRUCTURES] = {
    {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_TIMELINE_SEMAPHORE_FEATURES, 1, NULL},
    {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_FLOAT16_INT8_FEATURES, 2, NULL},
    {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_16BIT_STORAGE_FEATURES, 4, NULL},
    {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_MEMORY_MODEL_FEATURES, 3, NULL},
    {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_FEATURES, 1, "VK_KHR_shader_integer_dot_product"},
    {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES, 2, "VK_EXT_subgroup_size_control"},
    {1000506000, 2, "VK_KHR_cooperative_matrix"},
    {1000593000, 7, "VK_NV_cooperative_matrix2"},
    {1000141000, 3, "VK_KHR_shader_bfloat16"},
    {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_4_FEATURES, 1, "VK_KHR_maintenance4"},
    {1000673000, 4, "VK_VALVE_shader_mixed_float_dot_product"},
    {1000567000, 2, "VK_EXT_shader_float8"},
};

typedef struct diti_feature_place {
    uint32_t structure, bit;
} diti_feature_place;
static const diti_feature_place diti_feature_places[DITI_FEATURES] = {
    {DITI_STRUCTURE_TIMELINE, 0},   {DITI_STRUCTURE_ARITHMETIC, 0},   {DITI_STRUCTURE_STORAGE16, 0},
    {DITI_STRUCTURE_DOT, 0},        {DITI_STRUCTURE_SUBGROUP, 0},     {DITI_STRUCTURE_SUBGROUP, 1},
    {DITI_STRUCTURE_MIXED_DOT, 0},  {DITI_STRUCTURE_MAINTENANCE4, 0}, {DITI_STRUCTURE_MEMORY_MODEL, 1},
    {DITI_STRUCTURE_ARITHMETIC, 1}, {DITI_STRUCTURE_MEMORY_MODEL, 0}, {DITI_STRUCTURE_COOP, 0},
    {DITI_STRUCTURE_COOP2, 1},      {DITI_STRUCTURE_COOP2, 2},        {DITI_STRUCTURE_COOP2, 3},
    {DITI_STRUCTURE_COOP2, 4},      {DITI_STRUCTURE_BF16, 0},         {DITI_STRUCTURE_BF16, 2},
    {DITI_STRUCTURE_FLOAT8, 0},     {DITI_STRUCTURE_FLOAT8, 1},
};

typedef struct diti_feature_version { /* a feature bit that a structure of a Vulkan version has, too */
    uint32_t feature, type;
    size_t offset;
} diti_feature_version;
#define DITI_IN_VERSION(feature, version, member)                                                                      \
    {                                                                                                                  \
        DITI_FEATURE_##feature, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_##version##_FEATURES,                       \
            offsetof(VkPhysicalDeviceVulkan1##version##Features, member)                                               \
    }
static const diti_feature_version diti_feature_versions[] = {
    DITI_IN_VERSION(STORAGE16, 1, storageBuffer16BitAccess),
    DITI_IN_VERSION(TIMELINE, 2, timelineSemaphore),
    DITI_IN_VERSION(FP16, 2, shaderFloat16),
    DITI_IN_VERSION(INT8, 2, shaderInt8),
    DITI_IN_VERSION(MEMORY_MODEL, 2, vulkanMemoryModel),
    DITI_IN_VERSION(MEMORY_SCOPE, 2, vulkanMemoryModelDeviceScope),
    DITI_IN_VERSION(DOT, 3, shaderIntegerDotProduct),
    DITI_IN_VERSION(MAINTENANCE4, 3, maintenance4),
    DITI_IN_VERSION(SUBGROUP_SIZE, 3, subgroupSizeControl),
    DITI_IN_VERSION(FULL_SUBGROUPS, 3, computeFullSubgroups),
};

/* Where a feature's bit stands in a structure of that type; 0: it does not stand there. */
static size_t diti_feature_offset(uint32_t feature, uint32_t type) {
    const diti_feature_place *place = &diti_feature_places[feature];
    size_t i;
    if (diti_feature_structures[place->structure].type == type)
        return offsetof(diti_feature_node, bits) + place->bit * sizeof(VkBool32);
    for (i = 0; i < DITI_COUNT(diti_feature_versions); i++) {
        if (diti_feature_versions[i].feature == feature && diti_feature_versions[i].type == type)
            return diti_feature_versions[i].offset;
    }
    return 0;
}

DIT_INTERNAL bool diti_features_set(const diti_features *wanted, VkStructureType type, void *structure) {
    const VkBool32 yes = VK_TRUE;
    bool any = false;
    uint32_t i;
    for (i = 0; i < DITI_FEATURES; i++) {
        size_t offset = wanted->has[i] ? diti_feature_offset(i, (uint32_t)type) : 0;
        if (offset && structure) memcpy((unsigned char *)structure + offset, &yes, sizeof yes);
        any = any || offset;
    }
    return any;
}

DIT_INTERNAL void diti_features_get(const VkBaseInStructure *structure, diti_features *out) {
    uint32_t i;
    for (i = 0; i < DITI_FEATURES; i++) {
        size_t offset = diti_feature_offset(i, (uint32_t)structure->sType);
        VkBool32 bit = VK_FALSE;
        if (offset) memcpy(&bit, (const unsigned char *)structure + offset, sizeof bit);
        out->has[i] = out->has[i] || bit;
    }
}

DIT_INTERNAL size_t diti_feature_structure_size(uint32_t index, VkStructureType *type) {
    if (index >= DITI_STRUCTURES) return 0;
    *type = (VkStructureType)diti_feature_structures[index].type;
    return offsetof(diti_feature_node, bits) + diti_feature_structures[index].bits * sizeof(VkBool32);
}

DIT_INTERNAL bool diti_feature_is_in(uint32_t feature, VkStructureType type) {
    return diti_feature_offset(feature, (uint32_t)type) != 0;
}

static void diti_feature_node_put(diti_feature_chain *chain, uint32_t structure) {
    const char *extension = diti_feature_structures[structure].extension;
    diti_feature_node *node = &chain->nodes[chain->count];
    memset(node, 0, sizeof *node);
    node->type = (VkStructureType)diti_feature_structures[structure].type;
    if (chain->count) chain->nodes[chain->count - 1].next = node;
    chain->count++;
    if (extension) chain->extensions[chain->extension_count++] = extension;
}

DIT_INTERNAL void diti_features_chain(const diti_features *wanted, diti_feature_chain *chain) {
    uint32_t i;
    memset(chain, 0, sizeof *chain);
    for (i = 0; i < DITI_STRUCTURES; i++) {
        VkStructureType type = (VkStructureType)diti_feature_structures[i].type;
        if (!diti_features_set(wanted, type, NULL)) continue;
        diti_feature_node_put(chain, i);
        diti_features_set(wanted, type, &chain->nodes[chain->count - 1]);
    }
}

/* Only structures of extensions that the device has may be asked for. */
static dit_result diti_features_extensions(const diti_env *env, const diti_vk_api *vk, VkPhysicalDevice physical,
                                           bool *has, dit_error *err) {
    VkExtensionProperties *list;
    uint32_t i, s, count = 0;
    for (s = 0; s < DITI_STRUCTURES; s++) has[s] = !diti_feature_structures[s].extension;
    if (vk->EnumerateDeviceExtensionProperties(physical, NULL, &count, NULL) < 0) return DIT_OK;
    list = (VkExtensionProperties *)diti_alloc_array(env, count + 1u, sizeof *list);
    if (!list) return diti_fail_memory(err, "a list of %u device extensions", count);
    if (vk->EnumerateDeviceExtensionProperties(physical, NULL, &count, list) < 0) count = 0;
    for (i = 0; i < count; i++) {
        for (s = 0; s < DITI_STRUCTURES; s++) {
            const char *extension = diti_feature_structures[s].extension;
            has[s] = has[s] || (extension && diti_equal(list[i].extensionName, extension));
        }
    }
    diti_free(env, list);
    return DIT_OK;
}

DIT_INTERNAL dit_result diti_features_supported(const diti_env *env, const diti_vk_api *vk, VkPhysicalDevice physical,
                                                diti_features *out, dit_error *err) {
    VkPhysicalDeviceFeatures2 features = DITI_ZERO;
    diti_feature_chain chain;
    bool has[DITI_STRUCTURES];
    uint32_t i;
    dit_result result = diti_features_extensions(env, vk, physical, has, err);
    memset(out, 0, sizeof *out);
    DITI_TRY(result);
    memset(&chain, 0, sizeof chain);
    for (i = 0; i < DITI_STRUCTURES; i++)
        if (has[i]) diti_feature_node_put(&chain, i);
    features.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2;
    features.pNext = chain.nodes;
    vk->GetPhysicalDeviceFeatures2(physical, &features);
    for (i = 0; i < chain.count; i++) diti_features_get((const VkBaseInStructure *)(const void *)&chain.nodes[i], out);
    diti_features_useful(out);
    return DIT_OK;
}

DIT_INTERNAL void diti_features_enabled(const VkDeviceCreateInfo *info, diti_features *out) {
    const VkBaseInStructure *at;
    memset(out, 0, sizeof *out);
    for (at = (const VkBaseInStructure *)info->pNext; at; at = at->pNext) diti_features_get(at, out);
    diti_features_useful(out);
}

/* Features need each other: groups are of use only whole, or after another one. */
DIT_INTERNAL void diti_features_useful(diti_features *f) {
    bool *has = f->has, coop;
    uint32_t i;
    has[DITI_FEATURE_FP16] = has[DITI_FEATURE_STORAGE16] = has[DITI_FEATURE_FP16] && has[DITI_FEATURE_STORAGE16];
    has[DITI_FEATURE_MIXED_DOT] = has[DITI_FEATURE_MIXED_DOT] && has[DITI_FEATURE_FP16];
    has[DITI_FEATURE_SUBGROUP_SIZE] = has[DITI_FEATURE_FULL_SUBGROUPS] =
        has[DITI_FEATURE_SUBGROUP_SIZE] && has[DITI_FEATURE_FULL_SUBGROUPS];
    coop = has[DITI_FEATURE_COOP] && has[DITI_FEATURE_FP16] && has[DITI_FEATURE_MEMORY_MODEL] &&
           has[DITI_FEATURE_MEMORY_SCOPE];
    has[DITI_FEATURE_BF16_COOP] = has[DITI_FEATURE_BF16] = has[DITI_FEATURE_BF16] && has[DITI_FEATURE_BF16_COOP];
    has[DITI_FEATURE_FLOAT8_COOP] = has[DITI_FEATURE_FLOAT8] =
        has[DITI_FEATURE_FLOAT8] && has[DITI_FEATURE_FLOAT8_COOP];
    for (i = DITI_FEATURE_INT8; i < DITI_FEATURES; i++) has[i] = has[i] && coop;
}

DIT_INTERNAL void diti_features_proved(diti_features *f, const char *overrides) {
    bool *has = f->has;
    if (!diti_override_number(overrides, "unverified", 0)) has[DITI_FEATURE_MIXED_DOT] = false;
    if (!diti_override_number(overrides, "float8", 0)) has[DITI_FEATURE_FLOAT8] = has[DITI_FEATURE_FLOAT8_COOP] = false;
}
