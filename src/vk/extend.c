#include "vk/vk.h"

/* dit_device_extend: the application's VkDeviceCreateInfo with the bits that dit needs set, copied with all that it
   points to, so that nothing of the application's need outlive the call. A copy of a structure of the pNext chain needs
   its size: these are the ones that engines put there. From the first unknown one on the chain is linked as it is. */
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
    X(PHYSICAL_DEVICE_INLINE_UNIFORM_BLOCK_FEATURES, VkPhysicalDeviceInlineUniformBlockFeatures)                       \
    X(PHYSICAL_DEVICE_PRIVATE_DATA_FEATURES, VkPhysicalDevicePrivateDataFeatures)                                      \
    X(PHYSICAL_DEVICE_TEXTURE_COMPRESSION_ASTC_HDR_FEATURES, VkPhysicalDeviceTextureCompressionASTCHDRFeatures)        \
    X(PHYSICAL_DEVICE_SHADER_ATOMIC_INT64_FEATURES, VkPhysicalDeviceShaderAtomicInt64Features)                         \
    X(PHYSICAL_DEVICE_UNIFORM_BUFFER_STANDARD_LAYOUT_FEATURES, VkPhysicalDeviceUniformBufferStandardLayoutFeatures)    \
    X(PHYSICAL_DEVICE_SEPARATE_DEPTH_STENCIL_LAYOUTS_FEATURES, VkPhysicalDeviceSeparateDepthStencilLayoutsFeatures)    \
    X(PHYSICAL_DEVICE_SHADER_SUBGROUP_EXTENDED_TYPES_FEATURES, VkPhysicalDeviceShaderSubgroupExtendedTypesFeatures)    \
    X(PHYSICAL_DEVICE_SHADER_DEMOTE_TO_HELPER_INVOCATION_FEATURES,                                                     \
      VkPhysicalDeviceShaderDemoteToHelperInvocationFeatures)                                                          \
    X(PHYSICAL_DEVICE_SHADER_TERMINATE_INVOCATION_FEATURES, VkPhysicalDeviceShaderTerminateInvocationFeatures)         \
    X(PHYSICAL_DEVICE_VERTEX_INPUT_DYNAMIC_STATE_FEATURES_EXT, VkPhysicalDeviceVertexInputDynamicStateFeaturesEXT)     \
    X(PHYSICAL_DEVICE_EXTENDED_DYNAMIC_STATE_FEATURES_EXT, VkPhysicalDeviceExtendedDynamicStateFeaturesEXT)            \
    X(PHYSICAL_DEVICE_EXTENDED_DYNAMIC_STATE_2_FEATURES_EXT, VkPhysicalDeviceExtendedDynamicState2FeaturesEXT)         \
    X(PHYSICAL_DEVICE_EXTENDED_DYNAMIC_STATE_3_FEATURES_EXT, VkPhysicalDeviceExtendedDynamicState3FeaturesEXT)         \
    X(PHYSICAL_DEVICE_GRAPHICS_PIPELINE_LIBRARY_FEATURES_EXT, VkPhysicalDeviceGraphicsPipelineLibraryFeaturesEXT)      \
    X(PHYSICAL_DEVICE_DESCRIPTOR_BUFFER_FEATURES_EXT, VkPhysicalDeviceDescriptorBufferFeaturesEXT)                     \
    X(PHYSICAL_DEVICE_FRAGMENT_SHADING_RATE_FEATURES_KHR, VkPhysicalDeviceFragmentShadingRateFeaturesKHR)              \
    X(PHYSICAL_DEVICE_FRAGMENT_SHADER_BARYCENTRIC_FEATURES_KHR, VkPhysicalDeviceFragmentShaderBarycentricFeaturesKHR)  \
    X(PHYSICAL_DEVICE_SHADER_CLOCK_FEATURES_KHR, VkPhysicalDeviceShaderClockFeaturesKHR)                               \
    X(PHYSICAL_DEVICE_SHADER_ATOMIC_FLOAT_FEATURES_EXT, VkPhysicalDeviceShaderAtomicFloatFeaturesEXT)                  \
    X(PHYSICAL_DEVICE_TRANSFORM_FEEDBACK_FEATURES_EXT, VkPhysicalDeviceTransformFeedbackFeaturesEXT)                   \
    X(PHYSICAL_DEVICE_CONDITIONAL_RENDERING_FEATURES_EXT, VkPhysicalDeviceConditionalRenderingFeaturesEXT)             \
    X(PHYSICAL_DEVICE_CUSTOM_BORDER_COLOR_FEATURES_EXT, VkPhysicalDeviceCustomBorderColorFeaturesEXT)                  \
    X(PHYSICAL_DEVICE_MEMORY_PRIORITY_FEATURES_EXT, VkPhysicalDeviceMemoryPriorityFeaturesEXT)                         \
    X(PHYSICAL_DEVICE_PAGEABLE_DEVICE_LOCAL_MEMORY_FEATURES_EXT, VkPhysicalDevicePageableDeviceLocalMemoryFeaturesEXT) \
    X(PHYSICAL_DEVICE_PRESENT_ID_FEATURES_KHR, VkPhysicalDevicePresentIdFeaturesKHR)                                   \
    X(PHYSICAL_DEVICE_PRESENT_WAIT_FEATURES_KHR, VkPhysicalDevicePresentWaitFeaturesKHR)                               \
    X(PHYSICAL_DEVICE_FAULT_FEATURES_EXT, VkPhysicalDeviceFaultFeaturesEXT)                                            \
    X(PHYSICAL_DEVICE_DIAGNOSTICS_CONFIG_FEATURES_NV, VkPhysicalDeviceDiagnosticsConfigFeaturesNV)                     \
    X(DEVICE_DIAGNOSTICS_CONFIG_CREATE_INFO_NV, VkDeviceDiagnosticsConfigCreateInfoNV)                                 \
    X(DEVICE_PRIVATE_DATA_CREATE_INFO, VkDevicePrivateDataCreateInfo)                                                  \
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
    static const struct {
        int type;
        size_t size;
    } known[] = {
#define DITI_EXTEND_SIZE(name, structure) {VK_STRUCTURE_TYPE_##name, sizeof(structure)},
        DITI_EXTEND_STRUCTURES(DITI_EXTEND_SIZE)
#undef DITI_EXTEND_SIZE
    };
    VkStructureType own;
    uint32_t i;
    size_t size;
    for (i = 0; i < DITI_COUNT(known); i++)
        if (known[i].type == (int)type) return known[i].size;
    for (i = 0; (size = diti_feature_structure_size(i, &own)) != 0; i++) {
        if (own == type) return size;
    }
    return 0;
}

/* Extensions that devices need to share memory with others, or to export it, and that this one has. */
typedef struct diti_extend_shares {
    const char *names[(int)DITI_SHARINGS + 1];
    uint32_t count;
} diti_extend_shares;

static dit_result diti_extend_find_shares(const diti_env *env, const diti_vk_api *vk, VkPhysicalDevice gpu,
                                          diti_extend_shares *out, dit_error *err) {
    VkExtensionProperties *list;
    uint32_t i, share, count = 0;
    if (vk->EnumerateDeviceExtensionProperties(gpu, NULL, &count, NULL) < 0) return DIT_OK;
    list = (VkExtensionProperties *)diti_alloc_array(env, count + 1, sizeof *list);
    if (!list) return diti_fail_memory(err, "a list of %u device extensions", count);
    if (vk->EnumerateDeviceExtensionProperties(gpu, NULL, &count, list) < 0) count = 0;
    for (share = 0; share < DITI_SHARINGS; share++)
        for (i = 0; i < count; i++)
            if (diti_equal(list[i].extensionName, diti_share_extension(share)))
                out->names[out->count++] = diti_share_extension(share);
#if defined(_WIN32) /* elsewhere it is one of those */
    for (i = 0; i < count; i++)
        if (diti_equal(list[i].extensionName, DITI_EXPORT)) out->names[out->count++] = DITI_EXPORT;
#endif
    diti_free(env, list);
    return DIT_OK;
}

typedef struct diti_extend {
    diti_extend_shares shares;
    diti_features missing; /* exists, is useful to dit, and is not enabled */
    unsigned char *memory; /* NULL: only count */
    size_t used, room;
    VkBaseOutStructure *first, **tail;
    const char **names;
    uint32_t name_count;
} diti_extend;

/* Room for size bytes in memory; NULL while counting or when there is no room. */
static void *diti_extend_take(diti_extend *extend, size_t size) {
    size_t start = extend->used;
    extend->used += (size + 7) / 8 * 8;
    return extend->memory && extend->used <= extend->room ? extend->memory + start : NULL;
}

/* A copy in memory; NULL likewise, and of nothing. */
static void *diti_extend_copy(diti_extend *extend, const void *from, size_t size) {
    void *copy = from && size ? diti_extend_take(extend, size) : NULL;
    if (copy) memcpy(copy, from, size);
    return copy;
}

/* Appends a copy of size bytes to memory and to the new chain; NULL while counting or when there is no room. */
static VkBaseOutStructure *diti_extend_put(diti_extend *extend, const void *from, size_t size) {
    VkBaseOutStructure *copy = (VkBaseOutStructure *)diti_extend_copy(extend, from, size);
    if (((const VkBaseInStructure *)from)->sType == VK_STRUCTURE_TYPE_DEVICE_GROUP_DEVICE_CREATE_INFO) {
        const VkDeviceGroupDeviceCreateInfo *group = (const VkDeviceGroupDeviceCreateInfo *)from;
        const void *gpus = diti_extend_copy(extend, group->pPhysicalDevices,
                                            group->physicalDeviceCount * sizeof *group->pPhysicalDevices);
        if (copy) ((VkDeviceGroupDeviceCreateInfo *)(void *)copy)->pPhysicalDevices = (const VkPhysicalDevice *)gpus;
    }
    if (!copy) return NULL;
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
    const char *added[(int)DITI_SHARINGS + 1 + (int)DITI_FEATURES];
    uint32_t i, j, count;
    diti_features_chain(&extend->missing, &chain);
    for (i = 0; i < extend->shares.count; i++) added[i] = extend->shares.names[i];
    for (i = 0; i < chain.extension_count; i++) added[extend->shares.count + i] = chain.extensions[i];
    count = extend->shares.count + chain.extension_count;
    extend->name_count = app->enabledExtensionCount;
    extend->names = (const char **)diti_extend_take(extend, (app->enabledExtensionCount + count) * sizeof *added);
    for (i = 0; i < app->enabledExtensionCount; i++) {
        const char *name = app->ppEnabledExtensionNames[i];
        name = (const char *)diti_extend_copy(extend, name, strlen(name) + 1);
        if (extend->names) extend->names[i] = name;
    }
    for (i = 0; i < count; i++) {
        bool enabled = false;
        for (j = 0; j < app->enabledExtensionCount; j++)
            enabled = enabled || diti_equal(app->ppEnabledExtensionNames[j], added[i]);
        if (enabled) continue;
        if (extend->names) extend->names[extend->name_count] = added[i];
        extend->name_count++;
    }
}

/* Queues with their priorities; one structure of their chains is known, others are linked as they are. */
static const VkDeviceQueueCreateInfo *diti_extend_queues(diti_extend *extend, const VkDeviceCreateInfo *app) {
    VkDeviceQueueCreateInfo *queues = (VkDeviceQueueCreateInfo *)diti_extend_copy(
        extend, app->pQueueCreateInfos, app->queueCreateInfoCount * sizeof *queues);
    uint32_t i;
    for (i = 0; i < app->queueCreateInfoCount; i++) {
        const VkDeviceQueueCreateInfo *queue = &app->pQueueCreateInfos[i];
        const VkBaseInStructure *next = (const VkBaseInStructure *)queue->pNext;
        const void *priorities =
            diti_extend_copy(extend, queue->pQueuePriorities, queue->queueCount * sizeof *queue->pQueuePriorities);
        if (next && next->sType == VK_STRUCTURE_TYPE_DEVICE_QUEUE_GLOBAL_PRIORITY_CREATE_INFO_KHR)
            next = (const VkBaseInStructure *)diti_extend_copy(extend, next,
                                                               sizeof(VkDeviceQueueGlobalPriorityCreateInfoKHR));
        if (!queues) continue;
        queues[i].pQueuePriorities = (const float *)priorities;
        queues[i].pNext = next;
    }
    return queues;
}

/* All but the chain. */
static void diti_extend_rest(diti_extend *extend, const VkDeviceCreateInfo *app, VkDeviceCreateInfo *out) {
    const char **layers =
        (const char **)diti_extend_copy(extend, app->ppEnabledLayerNames, app->enabledLayerCount * sizeof *layers);
    uint32_t i;
    for (i = 0; i < app->enabledLayerCount; i++) {
        const char *name = app->ppEnabledLayerNames[i];
        name = (const char *)diti_extend_copy(extend, name, strlen(name) + 1);
        if (layers) layers[i] = name;
    }
    diti_extend_names(extend, app);
    *out = *app;
    out->pQueueCreateInfos = diti_extend_queues(extend, app);
    out->pEnabledFeatures = (const VkPhysicalDeviceFeatures *)diti_extend_copy(extend, app->pEnabledFeatures,
                                                                               sizeof *app->pEnabledFeatures);
    out->ppEnabledLayerNames = layers;
    out->ppEnabledExtensionNames = extend->names;
    out->enabledExtensionCount = extend->name_count;
}

static dit_result diti_extend_chain(diti_extend *extend, const VkDeviceCreateInfo *app, dit_error *err) {
    const VkBaseInStructure *at, *rest = (const VkBaseInStructure *)app->pNext;
    for (at = rest; at; at = at->pNext) {
        if (diti_features_set(&extend->missing, at->sType, NULL)) rest = at->pNext;
    }
    while (rest && diti_extend_size_of(rest->sType)) rest = rest->pNext;
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
    if (extend->memory && extend->used <= extend->room) *extend->tail = (VkBaseOutStructure *)rest;
    return DIT_OK;
}

/* The device must be usable, and the application must create a queue that dit can use. */
static dit_result diti_extend_check(const diti_env *env, const diti_vk_api *vk, VkPhysicalDevice gpu,
                                    const VkDeviceCreateInfo *app, dit_error *err) {
    VkQueueFamilyProperties families[DITI_QUEUE_FAMILIES];
    uint32_t i, count;
    diti_candidate candidate;
    DITI_TRY(diti_candidate_fill(env, vk, gpu, &candidate, err));
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
    DITI_TRY(diti_env_init(&env, NULL, NULL, err));
    vk.GetInstanceProcAddr = gipa;
    DITI_TRY(diti_instance_functions(&vk, instance, err));
    DITI_TRY(diti_extend_check(&env, &vk, gpu, app, err));
    DITI_TRY(diti_features_supported(&env, &vk, gpu, out, err));
    diti_features_proved(out, NULL);
    DITI_TRY(diti_extend_find_shares(&env, &vk, gpu, shares, err));
    memset(&enabled, 0, sizeof enabled);
    for (at = (const VkBaseInStructure *)app->pNext; at; at = at->pNext) diti_features_get(at, &enabled);
    for (i = 0; i < DITI_FEATURES; i++) out->has[i] = out->has[i] && !enabled.has[i];
    return DIT_OK;
}

DIT_API dit_result dit_device_extend(PFN_vkGetInstanceProcAddr gipa, VkInstance instance, VkPhysicalDevice gpu,
                                     const VkDeviceCreateInfo *app, void *memory, size_t *size, VkDeviceCreateInfo *out,
                                     dit_error *err) {
    diti_extend extend = DITI_ZERO;
    VkDeviceCreateInfo made;
    if (!gipa || !instance || !gpu || !app || !size || (memory && !out)) {
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "dit_device_extend: an argument is NULL");
    }
    if ((uintptr_t)memory % 8) {
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "dit_device_extend: memory is not aligned to 8 bytes");
    }
    DITI_TRY(diti_extend_missing(gipa, instance, gpu, app, &extend.missing, &extend.shares, err));
    extend.memory = (unsigned char *)memory;
    extend.room = *size;
    extend.tail = &extend.first;
    DITI_TRY(diti_extend_chain(&extend, app, err));
    diti_extend_rest(&extend, app, &made);
    *size = extend.used;
    if (!memory) return DIT_OK;
    if (extend.used > extend.room) {
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "dit_device_extend: %llu bytes are needed, %llu were given",
                         (unsigned long long)extend.used, (unsigned long long)extend.room);
    }
    made.pNext = extend.first;
    *out = made;
    return DIT_OK;
}
