/* Which devices there are, and which one is chosen: by its number, by a part of its name, or by rank where none is
 * named. */
#include "vk/vk.h"

DIT_INTERNAL const char *diti_rung_name(diti_rung rung) {
    static const char *const names[] = {"base", "fp16", "half", "coop", "coop2"};
    return (size_t)rung < DITI_COUNT(names) ? names[rung] : "none";
}

static bool diti_candidate_queue(const diti_vk_api *vk, VkPhysicalDevice physical, uint32_t *family) {
    VkQueueFamilyProperties families[DITI_QUEUE_FAMILIES];
    uint32_t i, count = diti_queue_families(vk, physical, families);
    for (i = 0; i < count; i++) {
        if (!(families[i].queueFlags & VK_QUEUE_COMPUTE_BIT)) continue;
        *family = i;
        return true;
    }
    return false;
}

static VkDeviceSize diti_candidate_memory(const diti_vk_api *vk, VkPhysicalDevice physical) {
    VkPhysicalDeviceMemoryProperties2 memory = DITI_ZERO;
    VkDeviceSize largest = 0;
    uint32_t i;
    memory.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2;
    vk->GetPhysicalDeviceMemoryProperties2(physical, &memory);
    for (i = 0; i < memory.memoryProperties.memoryHeapCount; i++) {
        const VkMemoryHeap *heap = &memory.memoryProperties.memoryHeaps[i];
        if ((heap->flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT) && heap->size > largest) largest = heap->size;
    }
    return largest;
}

/* Without asking for shapes of matrices, which crashes some drivers: that is left to the device that is opened. */
static void diti_candidate_rung(const diti_vk_api *vk, const diti_features *features, diti_candidate *out) {
    const diti_coop none = DITI_ZERO;
    diti_identity id = DITI_ZERO;
    const char *why;
    uint32_t quirks;
    diti_rung rung;
    diti_identify(vk, out->physical, &id);
    quirks = diti_quirks(&id, UINT32_MAX, &why);
    rung = diti_rung_highest(features, &none, quirks);
    if (features->has[DITI_FEATURE_COOP] && !(quirks & DITI_QUIRK_NO_MATRICES))
        rung = features->has[DITI_FEATURE_COOP_FLEXIBLE] ? DITI_RUNG_COOP2 : DITI_RUNG_COOP;
    if (out->info.type == VK_PHYSICAL_DEVICE_TYPE_CPU) rung = DITI_RUNG_BASE; /* as diti_device_rung has it */
    diti_format(out->info.rung, sizeof out->info.rung, "%s%s", rung >= DITI_RUNG_COOP ? "up to " : "",
                diti_rung_name(rung));
}

/* Checks what the base rung needs beyond what Vulkan 1.2 promises everywhere. */
static dit_result diti_candidate_examine(const diti_env *env, const diti_vk_api *vk,
                                         const VkPhysicalDeviceProperties *properties, diti_candidate *out,
                                         dit_error *err) {
    const VkPhysicalDeviceLimits *limits = &properties->limits;
    diti_features features = DITI_ZERO;
    out->reason[0] = 0;
    diti_format(out->info.rung, sizeof out->info.rung, "none");
    if (properties->apiVersion < VK_API_VERSION_1_2) {
        diti_format(out->reason, sizeof out->reason, "its driver has Vulkan %u.%u, dit needs 1.2",
                    VK_API_VERSION_MAJOR(properties->apiVersion), VK_API_VERSION_MINOR(properties->apiVersion));
        return DIT_OK;
    }
    DITI_TRY(diti_features_supported(env, vk, out->physical, &features, err));
    if (!features.has[DITI_FEATURE_TIMELINE]) {
        diti_format(out->reason, sizeof out->reason, "it has no timeline semaphores");
    } else if (!diti_candidate_queue(vk, out->physical, &out->queue_family)) {
        diti_format(out->reason, sizeof out->reason, "it has no compute queue");
    } else if (limits->maxComputeSharedMemorySize < 16384 || limits->maxComputeWorkGroupInvocations < 256) {
        diti_format(out->reason, sizeof out->reason,
                    "workgroups of 256 with 16 KB of shared memory are too large for it");
    } else if (limits->maxPerStageDescriptorStorageBuffers < DITI_MAX_BINDINGS) {
        diti_format(out->reason, sizeof out->reason, "a shader can use only %u storage buffers, dit needs %u",
                    limits->maxPerStageDescriptorStorageBuffers, DITI_MAX_BINDINGS);
    } else {
        diti_candidate_rung(vk, &features, out);
    }
    return DIT_OK;
}

DIT_INTERNAL dit_result diti_candidate_fill(const diti_env *env, const diti_vk_api *vk, VkPhysicalDevice physical,
                                            diti_candidate *out, dit_error *err) {
    VkPhysicalDeviceIDProperties id = DITI_ZERO;
    VkPhysicalDeviceProperties2 properties = DITI_ZERO;
    memset(out, 0, sizeof *out);
    id.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ID_PROPERTIES;
    properties.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2;
    properties.pNext = &id;
    vk->GetPhysicalDeviceProperties2(physical, &properties);
    out->physical = physical;
    diti_format(out->info.name, sizeof out->info.name, "%s", properties.properties.deviceName);
    memcpy(out->info.uuid, id.deviceUUID, sizeof out->info.uuid);
    memcpy(out->driver_uuid, id.driverUUID, sizeof out->driver_uuid);
    out->info.vendor = properties.properties.vendorID;
    out->info.type = (uint32_t)properties.properties.deviceType;
    out->info.api_version = properties.properties.apiVersion;
    out->info.driver_version = properties.properties.driverVersion;
    out->info.memory = diti_candidate_memory(vk, physical);
    return diti_candidate_examine(env, vk, &properties.properties, out, err);
}

DIT_INTERNAL dit_result diti_candidates_list(const diti_env *env, const diti_vk_api *vk, VkInstance instance,
                                             diti_candidate **out, uint32_t *count, dit_error *err) {
    VkPhysicalDevice physical[64]; /* more are ignored: VK_INCOMPLETE is a success */
    diti_candidate *list;
    uint32_t i, found = DITI_COUNT(physical);
    VkResult vr = vk->EnumeratePhysicalDevices(instance, &found, physical);
    dit_result result = DIT_OK;
    *out = NULL;
    *count = 0;
    if (vr < 0) return diti_fail_vk(err, vr, "vkEnumeratePhysicalDevices: %s", diti_vk_name(vr));
    list = (diti_candidate *)diti_alloc_array(env, found ? found : 1, sizeof *list);
    if (!list) return diti_fail_memory(err, "a list of %u Vulkan devices", found);
    for (i = 0; i < found && result >= 0; i++) result = diti_candidate_fill(env, vk, physical[i], &list[i], err);
    if (result < 0) {
        diti_free(env, list);
        return result;
    }
    *out = list;
    *count = found;
    return DIT_OK;
}

/* --- choosing --- */

static int diti_candidate_score(const diti_candidate *candidate) {
    switch (candidate->info.type) {
    case VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU: return 5;
    case VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU: return 4;
    case VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU: return 3;
    case VK_PHYSICAL_DEVICE_TYPE_CPU: return 2;
    default: return 1;
    }
}

static bool diti_candidate_better(const diti_candidate *a, const diti_candidate *b) {
    if (!b) return true;
    if (diti_candidate_score(a) != diti_candidate_score(b)) return diti_candidate_score(a) > diti_candidate_score(b);
    return a->info.memory > b->info.memory;
}

static int diti_hex_digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

/* 32 hexadecimal digits, dashes anywhere between them. */
static bool diti_uuid_parse(const char *text, uint8_t out[16]) {
    int digits = 0, digit;
    memset(out, 0, 16);
    for (; *text; text++) {
        if (*text == '-') continue;
        digit = diti_hex_digit(*text);
        if (digit < 0 || digits == 32) return false;
        out[digits / 2] = (uint8_t)(out[digits / 2] * 16 + digit);
        digits++;
    }
    return digits == 32;
}

static bool diti_is_digits(const char *text) { return *text && !text[strspn(text, "0123456789")]; }

/* Digits as a number; false when it is too large for an index. */
static bool diti_index_parse(const char *text, uint32_t *out) {
    for (*out = 0; *text; text++) {
        if (*out > 99999) return false;
        *out = *out * 10 + (uint32_t)(*text - '0');
    }
    return true;
}

static char diti_lower(char c) { return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c; }

/* Case is ignored, as people write "nvidia" and drivers "NVIDIA". */
static bool diti_name_contains(const char *name, const char *part) {
    size_t i;
    for (; *name; name++) {
        for (i = 0; part[i] && diti_lower(name[i]) == diti_lower(part[i]); i++) {
        }
        if (!part[i]) return true;
    }
    return false;
}

static bool diti_candidate_matches(const diti_candidate *candidate, const char *choice, const uint8_t *uuid) {
    if (uuid) return !memcmp(candidate->info.uuid, uuid, 16);
    return !choice || diti_name_contains(candidate->info.name, choice);
}

static const diti_candidate *diti_candidate_none(const diti_candidate *list, uint32_t count, const char *choice,
                                                 dit_error *err) {
    char names[300];
    size_t used = 0;
    uint32_t i;
    names[0] = 0;
    for (i = 0; i < count && used < sizeof names; i++) {
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%u: %s", i ? ", " : "", i, list[i].info.name);
    }
    if (!count) {
        diti_fail(err, DIT_ERROR_UNSUPPORTED_DEVICE,
                  "there is no Vulkan device: install a driver for this machine's GPU, or a software one: "
                  "apt-get install mesa-vulkan-drivers");
    } else if (choice && diti_is_digits(choice) && count == 1) {
        diti_fail(err, DIT_ERROR_UNSUPPORTED_DEVICE,
                  "devices '%s': there is one Vulkan device, and digits are an index: the only one is 0 (%s)", choice,
                  list[0].info.name);
    } else if (choice && diti_is_digits(choice)) {
        diti_fail(err, DIT_ERROR_UNSUPPORTED_DEVICE, "devices '%s': digits are an index, from 0 to %u: %s", choice,
                  count - 1, names);
    } else {
        diti_fail(err, DIT_ERROR_UNSUPPORTED_DEVICE, "no Vulkan device is called '%s'; the devices are %s",
                  choice ? choice : "", names);
    }
    return NULL;
}

static const diti_candidate *diti_candidate_usable(const diti_candidate *candidate, dit_error *err) {
    if (!candidate->reason[0]) return candidate;
    diti_fail(err, DIT_ERROR_UNSUPPORTED_DEVICE, "dit cannot use %s: %s", candidate->info.name, candidate->reason);
    return NULL;
}

DIT_INTERNAL const diti_candidate *diti_candidate_choose(const diti_candidate *list, uint32_t count, const char *choice,
                                                         dit_error *err) {
    const diti_candidate *best = NULL, *unusable = NULL;
    bool by_uuid = choice && diti_starts_with(choice, "uuid:");
    uint8_t uuid[16];
    uint32_t i, index;
    if (choice && !*choice) choice = NULL;
    if (choice && count && diti_is_digits(choice)) {
        if (diti_index_parse(choice, &index) && index < count) return diti_candidate_usable(&list[index], err);
        return diti_candidate_none(list, count, choice, err);
    }
    if (by_uuid && !diti_uuid_parse(choice + 5, uuid)) {
        diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "devices '%s': a UUID has 32 hexadecimal digits", choice);
        return NULL;
    }
    for (i = 0; i < count; i++) {
        if (!diti_candidate_matches(&list[i], choice, by_uuid ? uuid : NULL)) continue;
        if (list[i].reason[0])
            unusable = &list[i];
        else if (diti_candidate_better(&list[i], best))
            best = &list[i];
    }
    if (best) return best;
    return unusable ? diti_candidate_usable(unusable, err) : diti_candidate_none(list, count, choice, err);
}

/* --- the public list --- */

static void diti_candidates_copy(const diti_candidate *list, uint32_t found, dit_device_info *out, uint32_t *count) {
    uint32_t i;
    if (!out || *count > found) *count = found;
    for (i = 0; out && i < *count; i++) out[i] = list[i].info;
}

DIT_API dit_result dit_device_list(dit_device_info *out, uint32_t *count, dit_error *err) {
    diti_vk_api vk = DITI_ZERO;
    VkInstance instance = NULL;
    diti_candidate *list = NULL;
    void *library = NULL;
    uint32_t found = 0;
    diti_env env;
    dit_result result = diti_env_init(&env, NULL, NULL, err);
    if (!count) return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "dit_device_list: count is NULL");
    if (result >= 0) result = diti_vulkan_load(NULL, NULL, &vk, &library, err);
    if (result >= 0) result = diti_instance_create(&env, &vk, &instance, err);
    if (result >= 0) result = diti_instance_functions(&vk, instance, err);
    if (result >= 0) result = diti_candidates_list(&env, &vk, instance, &list, &found, err);
    if (result < 0)
        *count = 0;
    else
        diti_candidates_copy(list, found, out, count);
    diti_free(&env, list);
    diti_instance_destroy(&vk, instance);
    diti_vulkan_unload(&library);
    return result;
}
