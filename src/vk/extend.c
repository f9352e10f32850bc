#include "vk/vk.h"

/* dit_device_extend: the application's pNext chain with the bits that dit needs set. Its structures are const, so those
   up to the last one that must change are copied, and what follows is linked as it is. A copy needs the structure's
   size: these are the ones that engines put there. */
#define DITI_EXTEND_STRUCTURES(X)                                                                                      \
    X(DEVICE_GROUP_DEVICE_CREATE_INFO, VkDeviceGroupDeviceCreateInfo)                                                  \
    X(PHYSICAL_DEVICE_FEATURES_2, VkPhysicalDeviceFeatures2)                                                           \
    X(PHYSICAL_DEVICE_VULKAN_1_1_FEATURES, VkPhysicalDeviceVulkan11Features)                                           \
    X(PHYSICAL_DEVICE_VULKAN_1_2_FEATURES, VkPhysicalDeviceVulkan12Features)                                           \
    X(PHYSICAL_DEVICE_VULKAN_1_3_FEATURES, VkPhysicalDeviceVulkan13Features)                                           \
    X(PHYSICAL_DEVICE_16BIT_STORAGE_FEATURES, VkPhysicalDevice16BitStorageFeatures)                                    \
    X(PHYSICAL_DEVICE_8BIT_STORAGE_FEATURES, VkPhysicalDevice8BitStorageFeatures)                                      \
    X(PHYSICAL_DEVICE_SHADER_FLOAT16_INT8_FEATURES, VkPhysicalDeviceShaderFloat16Int8Features)                         \
    X(PHYSICAL_DEVICE_TIMELINE_SEMAPHORE_FEATURES, VkPhysicalDeviceTimelineSemaphoreFeatures)                          \
    X(PHYSICAL_DEVICE_SYNCHRONIZATION_2_FEATURES, VkPhysicalDeviceSynchronization2Features)                            \
    X(PHYSICAL_DEVICE_DYNAMIC_RENDERING_FEATURES, VkPhysicalDeviceDynamicRenderingFeatures)                            \
    X(PHYSICAL_DEVICE_BUFFER_DEVICE_ADDRESS_FEATURES, VkPhysicalDeviceBufferDeviceAddressFeatures)                     \
    X(PHYSICAL_DEVICE_DESCRIPTOR_INDEXING_FEATURES, VkPhysicalDeviceDescriptorIndexingFeatures)                        \
    X(PHYSICAL_DEVICE_SCALAR_BLOCK_LAYOUT_FEATURES, VkPhysicalDeviceScalarBlockLayoutFeatures)                         \
    X(PHYSICAL_DEVICE_HOST_QUERY_RESET_FEATURES, VkPhysicalDeviceHostQueryResetFeatures)                               \
    X(PHYSICAL_DEVICE_IMAGELESS_FRAMEBUFFER_FEATURES, VkPhysicalDeviceImagelessFramebufferFeatures)                    \
    X(PHYSICAL_DEVICE_VULKAN_MEMORY_MODEL_FEATURES, VkPhysicalDeviceVulkanMemoryModelFeatures)                         \
    X(PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES, VkPhysicalDeviceSubgroupSizeControlFeatures)                     \
    X(PHYSICAL_DEVICE_MAINTENANCE_4_FEATURES, VkPhysicalDeviceMaintenance4Features)                                    \
    X(PHYSICAL_DEVICE_MULTIVIEW_FEATURES, VkPhysicalDeviceMultiviewFeatures)                                           \
    X(PHYSICAL_DEVICE_VARIABLE_POINTERS_FEATURES, VkPhysicalDeviceVariablePointersFeatures)                            \
    X(PHYSICAL_DEVICE_SAMPLER_YCBCR_CONVERSION_FEATURES, VkPhysicalDeviceSamplerYcbcrConversionFeatures)               \
    X(PHYSICAL_DEVICE_SHADER_DRAW_PARAMETERS_FEATURES, VkPhysicalDeviceShaderDrawParametersFeatures)                   \
    X(PHYSICAL_DEVICE_ROBUSTNESS_2_FEATURES_EXT, VkPhysicalDeviceRobustness2FeaturesEXT)                               \
    X(PHYSICAL_DEVICE_MESH_SHADER_FEATURES_EXT, VkPhysicalDeviceMeshShaderFeaturesEXT)                                 \
    X(PHYSICAL_DEVICE_ACCELERATION_STRUCTURE_FEATURES_KHR, VkPhysicalDeviceAccelerationStructureFeaturesKHR)           \
    X(PHYSICAL_DEVICE_RAY_TRACING_PIPELINE_FEATURES_KHR, VkPhysicalDeviceRayTracingPipelineFeaturesKHR)                \
    X(PHYSICAL_DEVICE_RAY_QUERY_FEATURES_KHR, VkPhysicalDeviceRayQueryFeaturesKHR)

static size_t diti_extend_size_of(VkStructureType type) {
    VkStructureType own;
    uint32_t i;
    size_t size;
    switch ((int)type) {
#define DITI_EXTEND_SIZE(name, structure)                                                                              \
    case VK_STRUCTURE_TYPE_##name: return sizeof(structure);
        DITI_EXTEND_STRUCTURES(DITI_EXTEND_SIZE)
#undef DITI_EXTEND_SIZE
    default: break;
    }
    for (i = 0; (size = diti_feature_structure_size(i, &own)) != 0; i++) {
        if (own == type) return size;
    }
    return 0;
}

/* Extensions that devices need to share memory with others, and that this one has. */
typedef struct diti_extend_shares {
    const char *names[DITI_SHARES];
    uint32_t count;
} diti_extend_shares;

static dit_result diti_extend_find_shares(const diti_env *env, const diti_vk_api *vk, VkPhysicalDevice gpu,
                                          diti_extend_shares *out, dit_error *err) {
    VkExtensionProperties *list;
    uint32_t i, share, count = 0;
    if (vk->EnumerateDeviceExtensionProperties(gpu, NULL, &count, NULL) < 0) return DIT_OK;
    list = (VkExtensionProperties *)diti_alloc_array(env, count + 1, sizeof *list);
    if (!list) return diti_fail(err, DIT_ERROR_OUT_OF_HOST_MEMORY, "no memory to list %u device extensions", count);
    if (vk->EnumerateDeviceExtensionProperties(gpu, NULL, &count, list) < 0) count = 0;
    for (share = 0; share < DITI_SHARES; share++)
        for (i = 0; i < count; i++)
            if (diti_equal(list[i].extensionName, diti_share_extension(share)))
                out->names[out->count++] = diti_share_extension(share);
    diti_free(env, list);
    return DIT_OK;
}

typedef struct diti_extend {
    diti_extend_shares shares;
    diti_features missing; /* exists, is useful to dit, and is not enabled */
    unsigned char *memory; /* NULL: only count */
    size_t used, room;
    VkBaseOutStructure *first, **tail;
    const char *const *names; /* NULL: the application's own */
    uint32_t name_count;
} diti_extend;

/* Room for size bytes in memory; NULL while counting or when there is no room. */
static void *diti_extend_take(diti_extend *extend, size_t size) {
    size_t start = extend->used;
    extend->used += (size + 7) / 8 * 8;
    return extend->memory && extend->used <= extend->room ? extend->memory + start : NULL;
}

/* Appends a copy of size bytes to memory and to the new chain; NULL while counting or when there is no room. */
static VkBaseOutStructure *diti_extend_put(diti_extend *extend, const void *from, size_t size) {
    VkBaseOutStructure *copy = (VkBaseOutStructure *)diti_extend_take(extend, size);
    if (!copy) return NULL;
    memcpy(copy, from, size);
    copy->pNext = NULL;
    *extend->tail = copy;
    extend->tail = &copy->pNext;
    return copy;
}

static bool diti_extend_has(const VkDeviceCreateInfo *app, VkStructureType type) {
    const VkBaseInStructure *at;
    for (at = (const VkBaseInStructure *)app->pNext; at; at = at->pNext) {
        if (at->sType == type) return true;
    }
    return false;
}

/* Features for which the chain has no structure yet. Where it has a structure of a Vulkan version, that one must be
   used, for the specification forbids both. */
static void diti_extend_add(diti_extend *extend, const VkDeviceCreateInfo *app) {
    diti_features rest = extend->missing;
    const VkBaseInStructure *at;
    diti_feature_chain chain;
    uint32_t i;
    for (at = (const VkBaseInStructure *)app->pNext; at; at = at->pNext) {
        for (i = 0; i < DITI_FEATURES; i++)
            if (diti_feature_is_in(i, at->sType)) rest.has[i] = false;
    }
    diti_features_chain(&rest, &chain);
    for (i = 0; i < chain.count; i++) {
        VkStructureType type = chain.nodes[i].type;
        size_t size = diti_extend_size_of(type);
        if (!diti_extend_has(app, type)) diti_extend_put(extend, &chain.nodes[i], size);
    }
}

/* The application's extensions, those of the missing features and those for sharing, if there are any of the latter. */
static void diti_extend_names(diti_extend *extend, const VkDeviceCreateInfo *app) {
    diti_feature_chain chain;
    const char **names, *added[(int)DITI_SHARES + (int)DITI_FEATURES];
    uint32_t i, j, count;
    diti_features_chain(&extend->missing, &chain);
    extend->name_count = app->enabledExtensionCount;
    for (i = 0; i < extend->shares.count; i++) added[i] = extend->shares.names[i];
    for (i = 0; i < chain.extension_count; i++) added[extend->shares.count + i] = chain.extensions[i];
    count = extend->shares.count + chain.extension_count;
    if (!count) return;
    names = (const char **)diti_extend_take(extend, (app->enabledExtensionCount + count) * sizeof *names);
    extend->names = names;
    for (i = 0; names && i < app->enabledExtensionCount; i++) names[i] = app->ppEnabledExtensionNames[i];
    for (i = 0; i < count; i++) {
        bool enabled = false;
        for (j = 0; j < app->enabledExtensionCount; j++)
            enabled = enabled || diti_equal(app->ppEnabledExtensionNames[j], added[i]);
        if (!enabled && names) names[extend->name_count] = added[i];
        if (!enabled) extend->name_count++;
    }
}

static dit_result diti_extend_chain(diti_extend *extend, const VkDeviceCreateInfo *app, dit_error *err) {
    const VkBaseInStructure *at, *rest = (const VkBaseInStructure *)app->pNext;
    for (at = rest; at; at = at->pNext) {
        if (diti_features_set(&extend->missing, at->sType, NULL)) rest = at->pNext;
    }
    for (at = (const VkBaseInStructure *)app->pNext; at != rest; at = at->pNext) {
        size_t size = diti_extend_size_of(at->sType);
        if (!size) {
            return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                             "dit_device_extend: in the pNext chain, move the structure with sType %d behind the "
                             "Vulkan11, Vulkan12 and other core feature structures",
                             (int)at->sType);
        }
        diti_features_set(&extend->missing, at->sType, diti_extend_put(extend, at, size));
    }
    diti_extend_add(extend, app);
    diti_extend_names(extend, app);
    if (extend->memory && extend->used <= extend->room) *extend->tail = (VkBaseOutStructure *)rest;
    return DIT_OK;
}

/* The device must be usable, and the application must create a queue that dit can use. */
static dit_result diti_extend_check(const diti_env *env, const diti_vk_api *vk, VkPhysicalDevice gpu,
                                    const VkDeviceCreateInfo *app, dit_error *err) {
    VkQueueFamilyProperties families[DITI_QUEUE_FAMILIES];
    uint32_t i, count;
    diti_candidate candidate;
    dit_result result = diti_candidate_fill(env, vk, gpu, &candidate, err);
    if (result < 0) return result;
    if (candidate.reason[0]) {
        return diti_fail(err, DIT_ERROR_UNSUPPORTED_DEVICE, "dit cannot use %s: %s", candidate.info.name,
                         candidate.reason);
    }
    count = diti_queue_families(vk, gpu, families);
    for (i = 0; i < app->queueCreateInfoCount; i++) {
        uint32_t family = app->pQueueCreateInfos[i].queueFamilyIndex;
        if (family < count && (families[family].queueFlags & VK_QUEUE_COMPUTE_BIT)) return DIT_OK;
    }
    return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                     "dit_device_extend: create a queue of a family with COMPUTE, such as family %u of %s",
                     candidate.queue_family, candidate.info.name);
}

static dit_result diti_extend_missing(PFN_vkGetInstanceProcAddr gipa, VkInstance instance, VkPhysicalDevice gpu,
                                      const VkDeviceCreateInfo *app, diti_features *out, diti_extend_shares *shares,
                                      dit_error *err) {
    diti_vk_api vk = DITI_ZERO;
    diti_features enabled;
    diti_env env;
    const VkBaseInStructure *at;
    uint32_t i;
    dit_result result = diti_env_init(&env, NULL, NULL, err);
    if (result < 0) return result;
    vk.GetInstanceProcAddr = gipa;
    result = diti_instance_functions(&vk, instance, err);
    if (result >= 0) result = diti_extend_check(&env, &vk, gpu, app, err);
    if (result >= 0) result = diti_features_supported(&env, &vk, gpu, out, err);
    if (result >= 0) result = diti_extend_find_shares(&env, &vk, gpu, shares, err);
    if (result < 0) return result;
    memset(&enabled, 0, sizeof enabled);
    for (at = (const VkBaseInStructure *)app->pNext; at; at = at->pNext) diti_features_get(at, &enabled);
    for (i = 0; i < DITI_FEATURES; i++) out->has[i] = out->has[i] && !enabled.has[i];
    return DIT_OK;
}

DIT_API dit_result dit_device_extend(PFN_vkGetInstanceProcAddr gipa, VkInstance instance, VkPhysicalDevice gpu,
                                     const VkDeviceCreateInfo *app, void *memory, size_t *size, VkDeviceCreateInfo *out,
                                     dit_error *err) {
    diti_extend extend = DITI_ZERO;
    dit_result result;
    if (!gipa || !instance || !gpu || !app || !size || (memory && !out)) {
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "dit_device_extend: an argument is NULL");
    }
    if ((uintptr_t)memory % 8) {
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "dit_device_extend: memory is not aligned to 8 bytes");
    }
    result = diti_extend_missing(gipa, instance, gpu, app, &extend.missing, &extend.shares, err);
    if (result < 0) return result;
    extend.memory = (unsigned char *)memory;
    extend.room = *size;
    extend.tail = &extend.first;
    result = diti_extend_chain(&extend, app, err);
    if (result < 0) return result;
    if (!extend.used) extend.used = 8; /* so that no one asks malloc for nothing */
    *size = extend.used;
    if (!memory) return DIT_OK;
    if (extend.used > extend.room) {
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "dit_device_extend: %llu bytes are needed, %llu were given",
                         (unsigned long long)extend.used, (unsigned long long)extend.room);
    }
    *out = *app;
    out->pNext = extend.first;
    if (extend.names) out->ppEnabledExtensionNames = extend.names;
    out->enabledExtensionCount = extend.name_count;
    return DIT_OK;
}
