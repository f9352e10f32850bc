/* Opening a device: its limits, its features, its queues, and what is left out because of a known fault. */
#include "vk/vk.h"

#define DITI_PORTABILITY_SUBSET "VK_KHR_portability_subset" /* vulkan_beta.h has the macro */

static void diti_device_sizes(diti_device *device, const VkPhysicalDeviceLimits *limits) {
    diti_limits *out = &device->limits;
    out->storage_range = limits->maxStorageBufferRange;
    out->storage_alignment = limits->minStorageBufferOffsetAlignment;
    out->group_count = limits->maxComputeWorkGroupCount[0];
    out->group_invocations = limits->maxComputeWorkGroupInvocations;
    if (limits->maxComputeWorkGroupSize[0] < out->group_invocations) {
        out->group_invocations = limits->maxComputeWorkGroupSize[0];
    }
    out->shared_bytes = limits->maxComputeSharedMemorySize;
    out->timestamp_period = limits->timestampPeriod;
}

/* Where a driver only emulates the instruction, gemm_gpu's floats are faster. */
static bool diti_device_dot_is_fast(const diti_device *device) {
    VkPhysicalDeviceShaderIntegerDotProductProperties dot = DITI_ZERO;
    VkPhysicalDeviceProperties2 properties = DITI_ZERO;
    dot.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_PROPERTIES;
    properties.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2;
    properties.pNext = &dot;
    device->vk.GetPhysicalDeviceProperties2(device->physical, &properties);
    return dot.integerDotProduct4x8BitPackedSignedAccelerated != VK_FALSE;
}

static void diti_device_properties(diti_device *device) {
    VkPhysicalDeviceMaintenance4Properties buffers = DITI_ZERO;
    VkPhysicalDeviceFloatControlsProperties controls = DITI_ZERO;
    VkPhysicalDeviceMaintenance3Properties memory = DITI_ZERO;
    VkPhysicalDeviceSubgroupProperties subgroup = DITI_ZERO;
    VkPhysicalDeviceProperties2 properties = DITI_ZERO;
    buffers.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_4_PROPERTIES;
    controls.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FLOAT_CONTROLS_PROPERTIES;
    if (device->features.has[DITI_FEATURE_MAINTENANCE4])
        controls.pNext = &buffers; /* elsewhere no extension tells this limit */
    memory.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_3_PROPERTIES;
    memory.pNext = &controls;
    subgroup.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES;
    subgroup.pNext = &memory;
    properties.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2;
    properties.pNext = &subgroup;
    device->vk.GetPhysicalDeviceProperties2(device->physical, &properties);
    diti_device_sizes(device, &properties.properties.limits);
    device->limits.subgroup_size = subgroup.subgroupSize;
    device->limits.allocation =
        diti_memory_largest(memory.maxMemoryAllocationSize, buffers.maxBufferSize, device->heap);
    device->rounds_halves = controls.shaderRoundingModeRTEFloat16 &&
                            controls.roundingModeIndependence != VK_SHADER_FLOAT_CONTROLS_INDEPENDENCE_NONE;
    device->keeps_infinity =
        controls.shaderSignedZeroInfNanPreserveFloat16 && controls.shaderSignedZeroInfNanPreserveFloat32;
    device->software = properties.properties.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU;
    /* the kernels for processors pass values between lanes */
    device->is_cpu = device->software && (subgroup.supportedOperations & VK_SUBGROUP_FEATURE_SHUFFLE_BIT) &&
                     (subgroup.supportedStages & VK_SHADER_STAGE_COMPUTE_BIT);
    device->broadcasts = (subgroup.supportedOperations & VK_SUBGROUP_FEATURE_SHUFFLE_BIT) &&
                         (subgroup.supportedOperations & VK_SUBGROUP_FEATURE_VOTE_BIT) &&
                         (subgroup.supportedStages & VK_SHADER_STAGE_COMPUTE_BIT);
}

static void diti_device_timestamps(diti_device *device, const char *overrides) {
    VkQueueFamilyProperties families[DITI_QUEUE_FAMILIES];
    uint32_t count = diti_queue_families(&device->vk, device->physical, families);
    if (device->queue_family < count) device->limits.timestamp_bits = families[device->queue_family].timestampValidBits;
    if (!diti_override_number(overrides, "timestamps", 1) || !(device->limits.timestamp_period > 0))
        device->limits.timestamp_bits = 0; /* ticks of no length measure nothing */
    if (!device->limits.timestamp_bits) device->limits.timestamp_period = 0;
    /* Behind a render pass a software driver may note the time of a timestamp when it draws, which is later than when
       it computes: lavapipe tells of 0.7 ms for 3.2 ms of work. Commands of dit's own never draw. */
    device->stamps_frames = device->limits.timestamp_bits &&
                            (device->software ? diti_override_number(overrides, "timestamps", 0) != 0 : true);
}

static uint64_t diti_lower_limit(const char *overrides, const char *key, uint64_t limit) {
    uint64_t wanted = diti_override_number(overrides, key, limit);
    return wanted < limit && wanted ? wanted : limit;
}

static void diti_device_override(diti_device *device, const char *overrides) {
    diti_limits *limits = &device->limits;
    uint32_t cores = limits->cores;
    limits->storage_range = diti_lower_limit(overrides, "storage_range", limits->storage_range);
    limits->allocation = diti_override_number(overrides, "allocation", limits->allocation);
    limits->block = limits->allocation < (VkDeviceSize)1 << 30 ? limits->allocation : (VkDeviceSize)1 << 30;
    limits->band = limits->block;
    limits->shared_bytes = (uint32_t)diti_lower_limit(overrides, "shared", limits->shared_bytes);
    limits->group_count = (uint32_t)diti_lower_limit(overrides, "groups", limits->group_count);
    limits->group_invocations = (uint32_t)diti_lower_limit(overrides, "invocations", limits->group_invocations);
    limits->cores = (uint32_t)diti_override_number(overrides, "cores", 0);
    if (limits->cores)
        limits->cores_told = true;
    else
        limits->cores = cores;
    device->is_cpu = diti_override_number(overrides, "cpu", device->is_cpu) != 0;
    if (!diti_override_number(overrides, "rounding", 1)) device->rounds_halves = false;
    device->maps_device_memory = diti_override_number(overrides, "mapped", 1) != 0;
    device->staging_bytes = diti_lower_limit(overrides, "staging", (uint64_t)8 << 20);
    if (device->staging_bytes > limits->allocation) device->staging_bytes = limits->allocation;
    /* where the host has no memory of its own, staging takes from what models need */
    device->staging_slot =
        device->unified ? diti_override_number(overrides, "staging", DITI_STAGING_MIN) : device->staging_bytes;
    if (device->staging_slot > device->staging_bytes) device->staging_slot = device->staging_bytes;
    device->host_budget = diti_override_number(overrides, "host_budget", 0);
    device->candidate = (uint32_t)diti_override_number(overrides, "candidate", 0);
    if (device->candidate > DITI_TUNE_CANDIDATES) device->candidate = 0;
    device->unguarded = !diti_override_number(overrides, "guards", 1);
    device->int4_activations = diti_override_number(overrides, "int4_activations", 0) != 0;
    device->decodes = diti_override_number(overrides, "decode", 1) != 0;
    if (diti_override_number(overrides, "fail_device", device->ordinal) == device->ordinal)
        device->fail_submit_after = (uint32_t)diti_override_number(overrides, "fail_submit", 0);
    device->patience_us = diti_override_number(overrides, "device_ms", 300000) * 1000;
    device->fail_pipeline_after = (uint32_t)diti_override_number(overrides, "fail_pipeline", 0);
    if (!device->fail_pipeline_after)
        diti_override_text(overrides, "fail_pipeline", device->fail_pipeline, sizeof device->fail_pipeline);
}

/* The size of the subgroups that share rows by broadcasts: what the portions say, as near as the device comes; 0: they
   are not used. */
static uint32_t diti_device_team(const diti_device *device, const diti_identity *id, uint32_t team) {
    uint32_t least = id->min_subgroup, most = id->max_subgroup;
    if (!team || !device->broadcasts || device->is_cpu || (least != most && !device->states_team)) return 0;
    team = team < least ? least : team > most ? most : team;
    return team >= DITI_MIN_TEAM && team <= DITI_MAX_TEAM ? team : 0;
}

/* A driver that chooses among sizes of subgroups takes larger ones where a workgroup would have too many of the
   smallest, and a thread of them has fewer registers: Intel's GPUs before Gen 12 have at most 56 of 8 threads. */
static uint32_t diti_device_narrow(const diti_device *device, const diti_identity *id) {
    uint64_t most = (uint64_t)id->min_subgroup * id->group_subgroups;
    bool chooses = id->min_subgroup < id->max_subgroup && most < device->limits.group_invocations;
    return chooses ? (uint32_t)most : device->limits.group_invocations;
}

/* Drivers that were seen to compile folded modules in less time, or in no more, and MoltenVK, which before 1.3 gives
   arrays the length that they have without specialization (KhronosGroup/MoltenVK#2441). SwiftShader fills the memory
   with some folded products; drivers that nobody has measured specialize modules themselves. */
static diti_folding diti_device_folding(const diti_identity *id, const char *overrides) {
    diti_folding folding = DITI_FOLDING_NONE;
    if (id->driver == VK_DRIVER_ID_MESA_RADV || id->driver == VK_DRIVER_ID_INTEL_OPEN_SOURCE_MESA ||
        id->driver == VK_DRIVER_ID_MESA_NVK || id->driver == VK_DRIVER_ID_MESA_TURNIP ||
        id->driver == DITI_DRIVER_HONEYKRISP || id->driver == VK_DRIVER_ID_MESA_LLVMPIPE ||
        id->driver == VK_DRIVER_ID_MOLTENVK)
        folding = DITI_FOLDING_ALL;
    if (id->driver == VK_DRIVER_ID_GOOGLE_SWIFTSHADER) folding = DITI_FOLDING_WITHOUT_PRODUCTS;
    return (diti_folding)diti_override_number(overrides, "fold", folding);
}

/* The rung asked for, else the highest that the enabled features allow; a software driver emulates halves and matrix
   units, so it stays on the base rung unless asked. */
static dit_result diti_device_rung(diti_device *device, const char *overrides, dit_error *err) {
    bool obeys = diti_override_number(overrides, "quirks", 1) != 0;
    diti_identity id = DITI_ZERO, sized;
    const char *why;
    uint32_t quirks;
    char wanted[32];
    int rung;
    diti_identify(&device->vk, device->physical, &id);
    sized = id;
    if (id.vendor != 0x8086) sized.min_subgroup = device->coop.subgroup;
    if (id.driver == DITI_DRIVER_HONEYKRISP) sized.vendor = 0x106b; /* Apple's: the driver names Mesa */
    device->portions = diti_portions_of(&sized, diti_override_number(overrides, "portions", UINT64_MAX));
    device->limits.narrow_invocations = diti_device_narrow(device, &id);
    device->states_team = device->features.has[DITI_FEATURE_SUBGROUP_SIZE] && id.chooses_subgroup;
    device->team = diti_device_team(device, &id, device->portions->team);
    device->attention_team = diti_device_team(device, &id, device->portions->attention_team);
    device->dot_team = diti_device_team(device, &id, device->portions->dot_team);
    device->folding = diti_device_folding(&id, overrides);
    quirks = obeys ? diti_quirks(&id, UINT32_MAX, &why) : 0;
    device->small_tiles = (quirks & DITI_QUIRK_SMALL_TILES) != 0;
    device->scattered_sums = (quirks & DITI_QUIRK_SCATTERED_SUMS) != 0;
    device->doubts_matrices = (quirks & DITI_QUIRK_DOUBTFUL_MATRICES) != 0;
    device->rung = diti_rung_highest(&device->features, &device->coop, quirks);
    if (!diti_override_text(overrides, "rung", wanted, sizeof wanted)) {
        if (device->is_cpu) device->rung = DITI_RUNG_BASE;
        return DIT_OK;
    }
    for (rung = 0; rung < DITI_RUNG_COUNT; rung++) {
        bool exists = rung <= (int)device->rung || (rung == DITI_RUNG_HALF && device->has_fp16);
        if (!diti_equal(wanted, diti_rung_name((diti_rung)rung))) continue;
        if (!exists) {
            return diti_fail(err, DIT_ERROR_UNSUPPORTED_DEVICE, "overrides: %s has not what rung %s needs%s%s",
                             device->info.name, wanted, device->coop.ban ? ": " : "",
                             device->coop.ban ? device->coop.ban : "");
        }
        device->rung = (diti_rung)rung;
        return DIT_OK;
    }
    return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                     "overrides: there is no rung '%s'; rungs are base, fp16, half, coop and coop2", wanted);
}

/* Beside each other only: of no use to a device that is alone. */
static const char *const diti_share_extensions[DITI_SHARINGS] = {
    "VK_KHR_external_memory_fd", "VK_EXT_external_memory_dma_buf", "VK_EXT_external_memory_host",
    "VK_KHR_external_semaphore_fd"};

DIT_INTERNAL const char *diti_share_extension(uint32_t share) { return diti_share_extensions[share]; }

static void diti_device_share(diti_device *device, const char *extension) {
    uint32_t i;
    for (i = 0; i < DITI_SHARINGS; i++)
        if (device->has_peers && diti_equal(extension, diti_share_extensions[i])) device->shares[i] = true;
    if (diti_equal(extension, DITI_EXPORT)) device->exports = true;
}

/* Notes what the application enabled, where the device is its own. */
static void diti_device_shares_enabled(diti_device *device, const VkDeviceCreateInfo *info) {
    uint32_t i;
    memset(device->shares, 0, sizeof device->shares);
    device->exports = false;
    for (i = 0; info && i < info->enabledExtensionCount; i++)
        diti_device_share(device, info->ppEnabledExtensionNames[i]);
}

/* Whether a validation layer watches. A layer answers without being in the device's list of extensions, and the loader
   answers where nothing else does. */
static bool diti_device_is_validated(const diti_device *device) {
    VkPhysicalDeviceToolPropertiesEXT tools[16];
    uint32_t i, count = DITI_COUNT(tools);
    PFN_vkVoidFunction function =
        device->vk.GetInstanceProcAddr(device->instance, "vkGetPhysicalDeviceToolPropertiesEXT");
    PFN_vkGetPhysicalDeviceToolPropertiesEXT list = (PFN_vkGetPhysicalDeviceToolPropertiesEXT)function;
    memset(tools, 0, sizeof tools);
    for (i = 0; i < count; i++) tools[i].sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_TOOL_PROPERTIES_EXT;
    if (!list || list(device->physical, &count, tools) < 0) return false;
    for (i = 0; i < count; i++)
        if (tools[i].purposes & VK_TOOL_PURPOSE_VALIDATION_BIT_EXT) return true;
    return false;
}

static dit_result diti_device_extensions(diti_device *device, dit_error *err) {
    VkExtensionProperties *list;
    uint32_t i, count = 0;
    if (device->vk.EnumerateDeviceExtensionProperties(device->physical, NULL, &count, NULL) < 0) return DIT_OK;
    list = (VkExtensionProperties *)diti_alloc_array(&device->env, count, sizeof *list);
    if (!list) return diti_fail_memory(err, "a list of %u device extensions", count);
    if (device->vk.EnumerateDeviceExtensionProperties(device->physical, NULL, &count, list) < 0) count = 0;
    for (i = 0; i < count; i++) {
        if (diti_equal(list[i].extensionName, VK_EXT_MEMORY_BUDGET_EXTENSION_NAME)) device->has_memory_budget = true;
        if (diti_equal(list[i].extensionName, DITI_PORTABILITY_SUBSET)) device->has_portability_subset = true;
        diti_device_share(device, list[i].extensionName);
    }
    diti_free(&device->env, list);
    return DIT_OK;
}

/* attention_coop2 is SPIR-V 1.6, which Vulkan 1.3 has. */
static uint32_t diti_device_coop_attention(const diti_device *device) {
    const diti_coop *coop = &device->coop;
    if (!device->portions->channels && !device->portions->column_channels) return 0;
    if (device->rung >= DITI_RUNG_COOP2 && coop->flexible[DITI_COOP_F16].m && coop->reductions && coop->conversions &&
        coop->per_element && device->features.has[DITI_FEATURE_MAINTENANCE4] &&
        device->api_version >= VK_API_VERSION_1_3)
        return 2;
    return device->rung >= DITI_RUNG_COOP && coop->subgroup_shape[DITI_COOP_F16].m ? 1 : 0;
}

static void diti_device_disable_matrices(diti_device *device) {
    device->features.has[DITI_FEATURE_COOP] = false;
    if (!device->team && !device->attention_team && !device->dot_team)
        device->features.has[DITI_FEATURE_SUBGROUP_SIZE] = false;
    diti_features_useful(&device->features);
    memset(&device->coop, 0, sizeof device->coop);
}

/* Settles what goes with the rung: the products of int8 rows, and what an own device has no need to enable. */
static void diti_device_settle(diti_device *device, const char *overrides, uint32_t dropped) {
    const diti_coop *coop = &device->coop;
    uint32_t i;
    device->half_products = device->rung >= DITI_RUNG_HALF;
    device->coop_convolutions = device->rung >= DITI_RUNG_COOP && device->portions->conv_step;
    device->coop_pairs = device->rung >= DITI_RUNG_COOP && coop->subgroup_shape[DITI_COOP_F16].m;
    device->coop_i8 =
        device->rung >= DITI_RUNG_COOP && coop->subgroup_shape[DITI_COOP_F16].m && coop->subgroup_shape[DITI_COOP_S8].m;
    device->coop_float8 = (uint32_t)diti_override_number(overrides, "float8", 0);
    if (device->rung < DITI_RUNG_COOP ||
        !coop->subgroup_shape[device->coop_float8 == 1 ? DITI_COOP_E4M3 : DITI_COOP_F16].m)
        device->coop_float8 = 0;
    device->coop_attention = diti_device_coop_attention(device);
    device->coop_attention_khr = device->coop_attention && coop->subgroup_shape[DITI_COOP_F16].m;
    device->coop_attention_i8 = device->coop_attention && device->portions->channels;
    device->coop_layout = (uint32_t)diti_override_number(overrides, "layout", 0);
    device->half_attention = device->rung == DITI_RUNG_HALF || (device->rung > DITI_RUNG_HALF && !device->is_cpu);
    if (device->has_dot) device->dot = diti_override_number(overrides, "dot", diti_device_dot_is_fast(device)) != 0;
    device->dot_attention = device->dot;
    device->packed_dot_forced = device->has_dot && diti_override_number(overrides, "packed_dot", 0) != 0;
    device->packed_dot = device->packed_dot_forced || (device->dot && !device->is_cpu && device->portions->packed_dot &&
                                                       diti_override_number(overrides, "packed_dot", 1) != 0);
    for (i = 0; i < DITI_CLASSES; i++)
        if (dropped & DITI_CLASS_BIT(i)) diti_class_drop(device, (diti_class)i);
    if (device->owns_instance && device->rung < DITI_RUNG_COOP) diti_device_disable_matrices(device);
}

/* Whatever decides which kernels run: an answer found with other overrides or features is no answer. */
static void diti_device_proof_key(diti_device *device, const char *overrides) {
    VkPhysicalDeviceProperties2 properties = DITI_ZERO;
    uint32_t words[6];
    uint64_t parts[6];
    properties.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2;
    device->vk.GetPhysicalDeviceProperties2(device->physical, &properties);
    words[0] = DIT_VERSION;
    words[1] = properties.properties.vendorID;
    words[2] = properties.properties.deviceID;
    words[3] = properties.properties.driverVersion;
    words[4] = device->limits.subgroup_size;
    words[5] = device->owns_instance;
    parts[0] = diti_hash(words, sizeof words);
    parts[1] = diti_hash(properties.properties.pipelineCacheUUID, VK_UUID_SIZE);
    parts[2] = diti_hash(device->info.name, strlen(device->info.name));
    parts[3] = diti_hash(device->features.has, sizeof device->features.has);
    parts[4] = overrides ? diti_hash(overrides, strlen(overrides)) : 0;
    parts[5] = diti_spirv_hash();
    device->proof_key = diti_hash(parts, sizeof parts);
}

/* 10 GFLOP/s and 1 TFLOP/s: careful guesses. A software driver computes about as fast as it moves memory, a GPU moves a
   byte in the time of ten operations or more. */
static void diti_device_guess(diti_device *device, const char *overrides) {
    device->speed.launch_us = device->is_cpu ? 10.0f : 5.0f;
    device->speed.us_per_gflop = device->is_cpu ? 100000.0f : 1000.0f;
    device->speed.us_per_gigabyte = device->speed.us_per_gflop * (device->is_cpu ? 2.0f : 20.0f);
    device->feigned.launch_us = (float)diti_override_number(overrides, "launch_us", 0);
    device->feigned.us_per_gflop = (float)diti_override_number(overrides, "gflop_ns", 0) * 1e-3f;
    device->feigned.us_per_gigabyte = 10 * device->feigned.us_per_gflop;
}

/* Everything that is known once the physical device, the queue family and the features are. */
static dit_result diti_device_describe(diti_device *device, const dit_context_desc *desc, dit_error *err) {
    bool quirks = diti_override_number(desc->overrides, "quirks", 1) != 0;
    device->has_fp16 = device->features.has[DITI_FEATURE_FP16];
    device->has_dot = device->features.has[DITI_FEATURE_DOT];
    device->unverified = diti_override_number(desc->overrides, "unverified", 0) != 0;
    diti_memory_find(device);
    diti_device_properties(device);
    diti_device_timestamps(device, desc->overrides);
    DITI_TRY(diti_device_cores(device, &device->limits, err));
    diti_device_override(device, desc->overrides);
    device->validated = diti_device_is_validated(device);
    DITI_TRY(diti_device_extensions(device, err));
    DITI_TRY(
        diti_coop_find(&device->env, &device->vk, device->physical, &device->features, quirks, &device->coop, err));
    diti_coop_override(&device->vk, device->physical, desc->overrides, &device->coop);
    diti_memory_init(device, desc->device_memory_limit);
    DITI_TRY(diti_device_rung(device, desc->overrides, err));
    diti_device_proof_key(device, desc->overrides);
    diti_device_settle(device, desc->overrides, device->dropped);
    diti_class_describe(device, device->dropped);
    diti_device_guess(device, desc->overrides);
    return DIT_OK;
}

/* --- a device of dit's own --- */

/* A family that can only copy, where one is wanted and there is one; else that of the queue. A family that the override
   names may compute as well. */
static dit_result diti_device_transfer_family(diti_device *device, const char *overrides, dit_error *err) {
    VkQueueFamilyProperties families[DITI_QUEUE_FAMILIES];
    uint32_t i, count = diti_queue_families(&device->vk, device->physical, families);
    uint64_t named = diti_override_number(overrides, "transfer_family", UINT64_MAX);
    device->transfer_family = device->queue_family;
    if (named != UINT64_MAX) {
        if (named >= count)
            return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                             "overrides: transfer_family: %s has %u queue families, counted from 0", device->info.name,
                             count);
        device->transfer_family = (uint32_t)named;
        return DIT_OK;
    }
    /* Peers copy, and so do streams: these only where the host cannot write device memory itself. */
    if (!diti_override_number(overrides, "transfer",
                              device->has_peers || !device->unified || !device->maps_device_memory))
        return DIT_OK;
    for (i = 0; i < count && device->transfer_family == device->queue_family; i++) {
        VkQueueFlags flags = families[i].queueFlags;
        if ((flags & VK_QUEUE_TRANSFER_BIT) && !(flags & (VK_QUEUE_COMPUTE_BIT | VK_QUEUE_GRAPHICS_BIT)))
            device->transfer_family = i;
    }
    return DIT_OK;
}

/* synchronization2 and all that is not needed stays off: every enabled feature is one more thing a driver can get
 * wrong. */
static VkResult diti_device_create(diti_device *device) {
    VkDeviceQueueCreateInfo queues[2];
    VkDeviceCreateInfo info = DITI_ZERO;
    VkDeviceGroupDeviceCreateInfo group = DITI_ZERO;
    diti_feature_chain chain;
    float priority = 1.0f;
    uint32_t i;
    diti_features_chain(&device->features, &chain);
    memset(queues, 0, sizeof queues);
    queues[0].sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO;
    queues[0].queueFamilyIndex = device->queue_family;
    queues[0].queueCount = 1;
    queues[0].pQueuePriorities = &priority;
    queues[1] = queues[0];
    queues[1].queueFamilyIndex = device->transfer_family;
    info.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO;
    info.pNext = chain.nodes;
    group.sType = VK_STRUCTURE_TYPE_DEVICE_GROUP_DEVICE_CREATE_INFO;
    group.pNext = chain.nodes;
    group.physicalDeviceCount = device->group_count;
    group.pPhysicalDevices = device->group;
    if (device->group_count) info.pNext = &group;
    info.queueCreateInfoCount = device->transfer_family != device->queue_family ? 2 : 1;
    info.pQueueCreateInfos = queues;
    if (device->has_portability_subset) /* must be enabled where it exists */
        chain.extensions[chain.extension_count++] = DITI_PORTABILITY_SUBSET;
    for (i = 0; i < DITI_SHARINGS; i++)
        if (device->shares[i]) chain.extensions[chain.extension_count++] = diti_share_extensions[i];
    if (device->exports &&
        !(device->shares[DITI_SHARING_FD] && diti_equal(DITI_EXPORT, diti_share_extension(DITI_SHARING_FD))))
        chain.extensions[chain.extension_count++] = DITI_EXPORT;
    info.ppEnabledExtensionNames = chain.extensions;
    info.enabledExtensionCount = chain.extension_count;
    return device->vk.CreateDevice(device->physical, &info, NULL, &device->device);
}

static dit_result diti_device_select(diti_device *device, const char *choice, dit_error *err) {
    const diti_candidate *chosen;
    diti_candidate *list;
    dit_error why = DITI_ZERO; /* err may be NULL, and the result is in it */
    uint32_t count;
    dit_result result = DIT_OK;
    DITI_TRY(diti_candidates_list(&device->env, &device->vk, device->instance, &list, &count, err));
    chosen = diti_candidate_choose(list, count, choice, &why);
    if (chosen) {
        device->physical = chosen->physical;
        device->queue_family = chosen->queue_family;
        device->info = chosen->info;
        device->api_version = chosen->info.api_version; /* the instance has as much as dit asks for */
        memcpy(device->driver_uuid, chosen->driver_uuid, sizeof device->driver_uuid);
    } else {
        result = why.result;
        if (err) *err = why;
    }
    diti_free(&device->env, list);
    return result;
}

static dit_result diti_device_open_local(diti_device *device, const dit_context_desc *desc, dit_error *err) {
    VkResult vr;
    DITI_TRY(device->shares_instance ? DIT_OK
                                     : diti_instance_create(&device->env, &device->vk, &device->instance, err));
    device->owns_instance = true;
    DITI_TRY(diti_instance_functions(&device->vk, device->instance, err));
    DITI_TRY(diti_device_select(device, desc->devices, err));
    DITI_TRY(diti_features_supported(&device->env, &device->vk, device->physical, &device->features, err));
    diti_features_proved(&device->features, desc->overrides);
    DITI_TRY(diti_device_describe(device, desc, err));
    DITI_TRY(diti_device_transfer_family(device, desc->overrides, err));
    if (device->has_peers && (device->unverified || diti_override_is(desc->overrides, "transport", "group")))
        diti_device_group_find(device);
    if (device->first && diti_device_group_join(device, device->first))
        return diti_device_functions(&device->vk, device->device, err);
    vr = diti_device_create(device);
    if (vr < 0 && device->rung >= DITI_RUNG_COOP) { /* some drivers list features that they cannot enable */
        diti_log(&device->env, DITI_LOG_WARNING, "vkCreateDevice on %s: %s; it is tried without cooperative matrices",
                 device->info.name, diti_vk_name(vr));
        device->dropped |= DITI_CLASS_BIT(DITI_CLASS_COOP);
        diti_class_drop(device, DITI_CLASS_COOP);
        diti_device_disable_matrices(device);
        diti_class_describe(device, device->dropped);
        vr = diti_device_create(device);
    }
    if (vr < 0) {
        device->device = NULL;
        return diti_fail_vk(err, vr, "vkCreateDevice on %s: %s", device->info.name, diti_vk_name(vr));
    }
    device->owns_device = true;
    DITI_TRY(diti_device_functions(&device->vk, device->device, err));
    device->vk.GetDeviceQueue(device->device, device->queue_family, 0, &device->queue);
    if (device->transfer_family != device->queue_family)
        device->vk.GetDeviceQueue(device->device, device->transfer_family, 0, &device->transfer_queue);
    return DIT_OK;
}

/* --- a device of the application's --- */

static dit_result diti_wrap_check(const dit_vulkan *given, dit_error *err) {
    const char *missing = NULL;
    if (!given->instance) missing = "instance";
    if (!given->physical_device) missing = "physical_device";
    if (!given->device) missing = "device";
    if (!given->queue) missing = "queue";
    if (missing) return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "dit_vulkan: %s is missing", missing);
    if (!given->lock_queue != !given->unlock_queue) {
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "dit_vulkan: set both lock_queue and unlock_queue, or neither");
    }
    if (given->api_version && given->api_version < VK_API_VERSION_1_2) {
        return diti_fail(err, DIT_ERROR_UNSUPPORTED_DEVICE,
                         "dit_vulkan: the instance was made for Vulkan %u.%u; dit needs apiVersion 1.2 or newer",
                         VK_API_VERSION_MAJOR(given->api_version), VK_API_VERSION_MINOR(given->api_version));
    }
    return DIT_OK;
}

/* A family of the device with one of flags, of which device_info creates a queue. */
static dit_result diti_wrap_family(diti_device *device, const dit_vulkan *given, uint32_t family, VkQueueFlags flags,
                                   const char *lacks, dit_error *err) {
    VkQueueFamilyProperties families[DITI_QUEUE_FAMILIES];
    uint32_t i, count = diti_queue_families(&device->vk, device->physical, families);
    bool requested = !given->device_info;
    if (family >= count || !(families[family].queueFlags & flags)) {
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "dit_vulkan: queue family %u of %s has no %s", family,
                         device->info.name, lacks);
    }
    for (i = 0; !requested && i < given->device_info->queueCreateInfoCount; i++) {
        if (given->device_info->pQueueCreateInfos[i].queueFamilyIndex == family) requested = true;
    }
    if (requested) return DIT_OK;
    return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "dit_vulkan: device_info creates no queue of family %u", family);
}

/* A bit for each family that the device has queues of; without device_info, for each that there is. */
static uint64_t diti_wrap_families(const diti_device *device, const dit_vulkan *given) {
    uint64_t families = 0;
    uint32_t i, count = 0;
    device->vk.GetPhysicalDeviceQueueFamilyProperties(device->physical, &count, NULL);
    if (!given->device_info) return count < 64 ? ((uint64_t)1 << count) - 1 : UINT64_MAX;
    for (i = 0; i < given->device_info->queueCreateInfoCount; i++) {
        uint32_t family = given->device_info->pQueueCreateInfos[i].queueFamilyIndex;
        if (family < 64) families |= (uint64_t)1 << family;
    }
    return families;
}

static dit_result diti_wrap_queue(diti_device *device, const dit_vulkan *given, dit_error *err) {
    const VkQueueFlags copies = VK_QUEUE_TRANSFER_BIT | VK_QUEUE_COMPUTE_BIT | VK_QUEUE_GRAPHICS_BIT;
    DITI_TRY(diti_wrap_family(device, given, given->queue_family, VK_QUEUE_COMPUTE_BIT, "COMPUTE", err));
    if (!given->transfer_queue) return DIT_OK;
    return diti_wrap_family(device, given, given->transfer_family, copies, "TRANSFER", err);
}

static dit_result diti_device_wrap(diti_device *device, const dit_context_desc *desc, dit_error *err) {
    const dit_vulkan *given = desc->vulkan;
    diti_candidate candidate;
    DITI_TRY(diti_wrap_check(given, err));
    device->instance = given->instance;
    device->physical = given->physical_device;
    device->queue = given->queue;
    device->queue_family = given->queue_family;
    device->transfer_queue = given->transfer_queue;
    device->transfer_family = given->transfer_family;
    device->lock_queue = given->lock_queue;
    device->unlock_queue = given->unlock_queue;
    device->lock_user = given->lock_user;
    device->callbacks = given->host_callbacks;
    device->pipeline_cache = given->pipeline_cache;
    DITI_TRY(diti_instance_functions(&device->vk, device->instance, err));
    DITI_TRY(diti_candidate_fill(&device->env, &device->vk, device->physical, &candidate, err));
    device->info = candidate.info;
    device->api_version = given->api_version ? given->api_version : VK_API_VERSION_1_2;
    if (device->api_version > candidate.info.api_version) device->api_version = candidate.info.api_version;
    memcpy(device->driver_uuid, candidate.driver_uuid, sizeof device->driver_uuid);
    if (candidate.reason[0]) {
        return diti_fail(err, DIT_ERROR_UNSUPPORTED_DEVICE, "dit cannot use %s: %s", device->info.name,
                         candidate.reason);
    }
    device->features.has[DITI_FEATURE_TIMELINE] = true; /* without device_info */
    if (given->device_info) diti_features_enabled(given->device_info, &device->features);
    diti_features_proved(&device->features, desc->overrides);
    if (!device->features.has[DITI_FEATURE_TIMELINE]) {
        return diti_fail(err, DIT_ERROR_UNSUPPORTED_DEVICE,
                         "dit_vulkan: timelineSemaphore was not enabled at vkCreateDevice; dit_device_extend does it");
    }
    DITI_TRY(diti_wrap_queue(device, given, err));
    device->families = diti_wrap_families(device, given);
    DITI_TRY(diti_device_describe(device, desc, err));
    diti_device_shares_enabled(device, given->device_info);
    device->device = given->device;
    return diti_device_functions(&device->vk, device->device, err);
}

/* --- both --- */

/* dit_vulkan with nothing but get_instance_proc_addr: dit's own device, found through the application's loader. */
static bool diti_device_is_given(const dit_context_desc *desc) {
    const dit_vulkan *given = desc->vulkan_count ? desc->vulkan : NULL;
    return given && (given->instance || given->physical_device || given->device || given->queue || given->device_info);
}

static dit_result diti_device_check_desc(const dit_context_desc *desc, dit_error *err) {
    if (desc->vulkan_count > 1)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "%u devices were given in place of one", desc->vulkan_count);
    if (desc->vulkan_count && !(desc->vulkan && desc->vulkan->get_instance_proc_addr))
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "dit_vulkan: get_instance_proc_addr is missing");
    if (diti_device_is_given(desc) && desc->devices) {
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "set devices or vulkan, not both");
    }
    if (!desc->device_allocator.alloc != !desc->device_allocator.free) {
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "device_allocator: set both alloc and free, or neither");
    }
    return diti_overrides_check(desc->overrides, err);
}

static dit_result diti_device_start(diti_device *device, const dit_context_desc *desc, dit_error *err) {
    char loader[512];
    bool named = diti_override_text(desc->overrides, "loader", loader, sizeof loader);
    PFN_vkGetInstanceProcAddr entry = desc->vulkan_count ? desc->vulkan->get_instance_proc_addr : NULL;
    if (!device->shares_instance)
        DITI_TRY(diti_vulkan_load(named ? loader : NULL, entry, &device->vk, &device->library, err));
    device->allocator = desc->device_allocator;
    device->max_slice_us = desc->max_slice_us ? desc->max_slice_us : 50000;
    device->slices_by_budget = !desc->max_slice_us;
    device->frames_in_flight = desc->frames_in_flight ? desc->frames_in_flight : 3;
    if (diti_device_is_given(desc))
        DITI_TRY(diti_device_wrap(device, desc, err));
    else
        DITI_TRY(diti_device_open_local(device, desc, err));
    DITI_TRY(diti_cache_load(device, desc->cache, desc->cache_size, err));
    return diti_layouts_create(device, err);
}

static void diti_device_settle_in(diti_device *device, const dit_context_desc *desc, const diti_device_place *place) {
    const diti_device *first = place->first;
    device->ordinal = place->ordinal;
    device->dropped = place->dropped;
    device->has_peers = place->count > 1;
    device->shares_instance =
        first && first->owns_instance && !diti_device_is_given(desc) &&
        (!desc->vulkan_count || desc->vulkan->get_instance_proc_addr == first->vk.GetInstanceProcAddr);
    if (!device->shares_instance) return;
    device->vk = first->vk;
    device->instance = first->instance;
    device->first = (diti_device *)(uintptr_t)first;
}

DIT_INTERNAL dit_result diti_device_open_beside(const dit_context_desc *desc, const diti_env *env,
                                                const diti_device_place *place, diti_device **out, dit_error *err) {
    diti_device *device;
    dit_result result = diti_device_check_desc(desc, err);
    *out = NULL;
    DITI_TRY(result);
    device = (diti_device *)diti_alloc_zero(env, sizeof *device);
    if (!device) return diti_fail_memory(err, "a device");
    device->env = *env;
    diti_device_settle_in(device, desc, place);
    result = diti_device_start(device, desc, err);
    if (result < 0) {
        diti_device_close(device);
        return result;
    }
    diti_log(env, DITI_LOG_INFO, "%s: rung %s, %.0f MB of device memory allowed", device->info.name, device->info.rung,
             (double)device->memory_limit / 1e6);
    *out = device;
    return DIT_OK;
}

DIT_INTERNAL dit_result diti_device_open(const dit_context_desc *desc, const diti_env *env, diti_device **out,
                                         dit_error *err) {
    const diti_device_place alone = DITI_ZERO;
    return diti_device_open_beside(desc, env, &alone, out, err);
}

/* Whoever submitted work has waited for it; only a device of dit's own is made idle once more. */
DIT_INTERNAL void diti_device_close(diti_device *device) {
    diti_env env;
    if (!device) return;
    env = device->env;
    if (device->device && device->vk.DestroyDevice) {
        if (device->owns_device && device->vk.DeviceWaitIdle && !diti_atomic_load(&device->lost))
            device->vk.DeviceWaitIdle(device->device);
        diti_staging_free(device);
        diti_pipelines_free(device);
        if (diti_keep_end(device)) {
            (device->first ? device->first : device)->instance_stays = true;
            if (device->joined) device->first->device_stays = true;
        } else if (device->device_stays) {
            device->instance_stays = true;
        } else if (device->owns_device) {
            device->vk.DestroyDevice(device->device, NULL);
        }
    }
    if (!device->instance_stays) {
        if (device->owns_instance && !device->shares_instance) diti_instance_destroy(&device->vk, device->instance);
        diti_vulkan_unload(&device->library);
    }
    diti_free(&env, device);
}
