#include "vk/vk.h"

/* The cache blob: for each device a part: this header, then tuned choices, then what vkGetPipelineCacheData gave. It is
   only good for the driver that made it, on the machine that made it, so the header is stored as it lies in memory. */
#define DITI_CACHE_MAGIC 0x63746964u /* "ditc" */
#define DITI_CACHE_VERSION 3u
typedef struct diti_cache_header {
    uint32_t magic, version;
    uint8_t uuid[16]; /* pipelineCacheUUID */
    uint32_t vendor, device, driver_version;
    uint32_t rung, is_cpu; /* rung and kind of the device whose kernels speed is about */
    diti_speed speed;      /* measured earlier, so that the next context need not; all 0: unknown */
    uint32_t tuned_count, reserved;
    uint64_t spirv_hash, data_size; /* data_size: behind the choices */
    uint64_t checksum;              /* sum over everything else, header first */
} diti_cache_header;

static uint64_t diti_cache_checksum(const diti_cache_header *header, const void *data, size_t size) {
    diti_cache_header copy = *header;
    uint64_t parts[2];
    copy.checksum = 0;
    parts[0] = diti_hash(&copy, sizeof copy);
    parts[1] = diti_hash(data, size);
    return diti_hash(parts, sizeof parts);
}

/* The header that every good blob of this device and this build starts with. */
static void diti_cache_identity(diti_device *device, diti_cache_header *out) {
    VkPhysicalDeviceProperties2 properties = DITI_ZERO;
    properties.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2;
    device->vk.GetPhysicalDeviceProperties2(device->physical, &properties);
    memset(out, 0, sizeof *out);
    out->magic = DITI_CACHE_MAGIC;
    out->version = DITI_CACHE_VERSION;
    memcpy(out->uuid, properties.properties.pipelineCacheUUID, sizeof out->uuid);
    out->vendor = properties.properties.vendorID;
    out->device = properties.properties.deviceID;
    out->driver_version = properties.properties.driverVersion;
    out->spirv_hash = diti_spirv_hash();
}

/* Some drivers trust the data they are given, so its own header is checked here too. Where it is wrong the data alone
   is left out: whatever a driver makes of it, the choices beside it are good. */
static bool diti_cache_data_fits(const diti_cache_header *header, const unsigned char *data, size_t size) {
    uint32_t words[4]; /* VkPipelineCacheHeaderVersionOne: header size, version, vendor, device, then the UUID */
    if (!size) return true;
    if (size < sizeof words + 16) return false;
    memcpy(words, data, sizeof words);
    return words[0] == 32 && words[1] == VK_PIPELINE_CACHE_HEADER_VERSION_ONE && words[2] == header->vendor &&
           words[3] == header->device && !memcmp(data + 16, header->uuid, 16);
}

static size_t diti_cache_tuned_size(const diti_cache_header *header) {
    return header->tuned_count * sizeof(diti_tuned);
}

static diti_tuned diti_cache_tuned(const unsigned char *blob, uint32_t index) {
    diti_tuned tuned;
    memcpy(&tuned, blob + sizeof(diti_cache_header) + index * sizeof tuned, sizeof tuned);
    return tuned;
}

/* Whoever asks for a choice looks whether it is one of theirs; no choice of dit's is larger than this. */
static bool diti_cache_choices_fit(const diti_cache_header *header, const unsigned char *blob) {
    uint32_t i;
    for (i = 0; i < header->tuned_count; i++) {
        diti_tuned tuned = diti_cache_tuned(blob, i);
        if (tuned.choice > DITI_TUNED_MOST || tuned.reserved) return false;
    }
    return true;
}

/* NULL when the blob may be used, else what is wrong with it. */
static const char *diti_cache_check(diti_device *device, const unsigned char *blob, size_t size,
                                    diti_cache_header *header) {
    diti_cache_header mine;
    if (size < sizeof *header) return "it is too short";
    memcpy(header, blob, sizeof *header);
    diti_cache_identity(device, &mine);
    if (header->magic != mine.magic) return "it is no cache of dit";
    if (header->version != mine.version) return "another version of dit wrote it";
    if (memcmp(header->uuid, mine.uuid, sizeof mine.uuid) || header->vendor != mine.vendor ||
        header->device != mine.device || header->driver_version != mine.driver_version) {
        return "another device or driver wrote it";
    }
    if (header->spirv_hash != mine.spirv_hash) return "it belongs to other shaders";
    if (header->tuned_count > DITI_TUNED_MAX || diti_cache_tuned_size(header) > size - sizeof *header ||
        header->data_size != size - sizeof *header - diti_cache_tuned_size(header))
        return "it is cut off or too long";
    if (header->checksum != diti_cache_checksum(header, blob + sizeof *header, size - sizeof *header)) {
        return "its checksum is wrong";
    }
    return diti_cache_choices_fit(header, blob) ? NULL : "its tuned choices are damaged";
}

/* Bytes of the first of several parts; 0: it is none, or not whole. */
static size_t diti_cache_part(const unsigned char *blob, size_t size) {
    diti_cache_header header;
    size_t tuned;
    if (size < sizeof header) return 0;
    memcpy(&header, blob, sizeof header);
    tuned = diti_cache_tuned_size(&header);
    if (header.magic != DITI_CACHE_MAGIC || header.version != DITI_CACHE_VERSION ||
        header.tuned_count > DITI_TUNED_MAX || tuned > size - sizeof header ||
        header.data_size > size - sizeof header - tuned)
        return 0;
    return sizeof header + tuned + (size_t)header.data_size;
}

/* The device's part: the one in its place if that is its own, else the first that is. NULL: there is none. */
static const unsigned char *diti_cache_find(diti_device *device, const unsigned char *blob, size_t size,
                                            size_t *part_size) {
    const char *problem = NULL;
    const unsigned char *found = NULL;
    diti_cache_header header;
    uint32_t place = 0;
    while (size) {
        size_t part = diti_cache_part(blob, size);
        const char *wrong = diti_cache_check(device, blob, part ? part : size, &header);
        if (!wrong && (!found || place == device->ordinal)) {
            found = blob;
            *part_size = part;
        }
        if (!problem || !part) problem = wrong;
        if (!part) found = NULL;
        if (!part) break;
        blob += part;
        size -= part;
        place++;
    }
    if (!found) diti_log(&device->env, DITI_LOG_INFO, "the cache blob is ignored: %s", problem);
    return found;
}

/* Plans divide by these numbers and add them up, so that none may be absurd; NaN fits nowhere. */
static bool diti_cache_speed_fits(const diti_speed *speed) {
    return speed->launch_us >= 0 && speed->launch_us < 1e6f && speed->us_per_gflop > 0 && speed->us_per_gflop < 1e9f &&
           speed->us_per_gigabyte > 0 && speed->us_per_gigabyte < 1e9f;
}

/* Takes over what a part knows; *data: where the driver's own begins, the end where it has none that fits. */
static void diti_cache_accept(diti_device *device, const void *blob, size_t size, size_t *data) {
    diti_cache_header header;
    uint32_t i;
    memcpy(&header, blob, sizeof header);
    if (header.rung < DITI_RUNG_COUNT && header.is_cpu == (uint32_t)device->is_cpu &&
        diti_cache_speed_fits(&header.speed)) {
        device->speed = header.speed;
        device->calibrated = true;
        device->calibrated_rung = (diti_rung)header.rung;
    }
    *data = size - (size_t)header.data_size;
    if (!diti_cache_data_fits(&header, (const unsigned char *)blob + *data, (size_t)header.data_size)) {
        diti_log(&device->env, DITI_LOG_INFO,
                 "the driver's data in the cache blob is left out: another driver wrote it");
        *data = size;
    }
    for (i = 0; i < header.tuned_count; i++) {
        diti_tuned tuned = diti_cache_tuned((const unsigned char *)blob, i);
        diti_tuned_add(device, tuned.shapes, tuned.choice);
    }
}

DIT_INTERNAL dit_result diti_cache_load(diti_device *device, const void *blob, size_t size, dit_error *err) {
    VkPipelineCacheCreateInfo info = DITI_ZERO;
    size_t data = 0;
    const unsigned char *part = blob ? diti_cache_find(device, (const unsigned char *)blob, size, &size) : NULL;
    VkResult vr;
    if (part) diti_cache_accept(device, part, size, &data);
    if (device->pipeline_cache) return DIT_OK; /* the application's */
    info.sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO;
    if (part) {
        info.initialDataSize = size - data;
        info.pInitialData = part + data;
    }
    vr = device->vk.CreatePipelineCache(device->device, &info, device->callbacks, &device->pipeline_cache);
    if (vr < 0 && part) { /* start empty rather than fail */
        diti_log(&device->env, DITI_LOG_WARNING, "the driver refused the cache blob: %s", diti_vk_name(vr));
        info.initialDataSize = 0;
        info.pInitialData = NULL;
        vr = device->vk.CreatePipelineCache(device->device, &info, device->callbacks, &device->pipeline_cache);
    }
    if (vr < 0) {
        device->pipeline_cache = VK_NULL_HANDLE;
        return diti_device_fail(device, vr, "vkCreatePipelineCache", err);
    }
    device->owns_pipeline_cache = true;
    return DIT_OK;
}

/* An application that gave a VkPipelineCache stores it itself: its data is not copied into the blob. */
static dit_result diti_cache_data_size(diti_device *device, size_t *size, dit_error *err) {
    VkResult vr;
    *size = 0;
    if (!device->owns_pipeline_cache) return DIT_OK;
    vr = device->vk.GetPipelineCacheData(device->device, device->pipeline_cache, size, NULL);
    if (vr == VK_ERROR_DEVICE_LOST) return diti_device_fail(device, vr, "vkGetPipelineCacheData", err);
    if (vr < 0) *size = 0; /* diti_cache_copy_data tells it */
    return DIT_OK;
}

static bool diti_cache_has_grown(diti_device *device, size_t size) {
    size_t now = 0;
    VkResult vr = device->vk.GetPipelineCacheData(device->device, device->pipeline_cache, &now, NULL);
    return vr >= 0 && now > size;
}

/* Copies the driver's data, of *size bytes as it announced, to `out`. Data that cannot be had, or would be refused
   later, is left out: the blob is good without it. */
static dit_result diti_cache_copy_data(diti_device *device, const diti_cache_header *header, unsigned char *out,
                                       size_t *size, dit_error *err) {
    const size_t announced = *size;
    const char *problem = NULL;
    VkResult vr;
    if (!device->owns_pipeline_cache) return DIT_OK;
    /* exactly the size that was told: lavapipe returns any larger one as it came, SwiftShader refuses it */
    vr = device->vk.GetPipelineCacheData(device->device, device->pipeline_cache, size, announced ? out : NULL);
    if (vr == VK_ERROR_DEVICE_LOST) return diti_device_fail(device, vr, "vkGetPipelineCacheData", err);
    if (vr == VK_INCOMPLETE && diti_cache_has_grown(device, announced))
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "the cache blob has grown: ask for its size again");
    if (vr != VK_SUCCESS)
        problem = diti_vk_name(vr);
    else if (*size > announced)
        problem = "it is larger than was announced";
    else if (!diti_cache_data_fits(header, out, *size)) /* newer lavapipes announce a header and write 20 bytes of it */
        problem = "its header is wrong";
    if (problem) {
        diti_log(&device->env, DITI_LOG_INFO, "the driver's data is left out of the cache blob: %s", problem);
        *size = 0;
    }
    return DIT_OK;
}

/* Choices that another thread adds meanwhile are left out. */
static void diti_cache_copy_tuned(diti_device *device, unsigned char *out, uint32_t count) {
    diti_lock(&device->lock);
    if (count) memcpy(out, device->tuned, count * sizeof(diti_tuned));
    diti_unlock(&device->lock);
}

static uint32_t diti_cache_tuned_count(diti_device *device) {
    uint32_t count;
    diti_lock(&device->lock);
    count = (uint32_t)device->tuned_count;
    diti_unlock(&device->lock);
    return count;
}

DIT_INTERNAL dit_result diti_cache_save(diti_device *device, void *blob, size_t *size, dit_error *err) {
    diti_cache_header header;
    unsigned char *behind;
    size_t data_size, room = *size, tuned_size;
    DITI_TRY(diti_device_check(device, err));
    DITI_TRY(diti_cache_data_size(device, &data_size, err));
    diti_cache_identity(device, &header);
    header.tuned_count = diti_cache_tuned_count(device);
    tuned_size = diti_cache_tuned_size(&header);
    *size = sizeof header + tuned_size + data_size;
    if (!blob) return DIT_OK;
    if (room < *size) {
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "the cache blob needs %llu bytes, only %llu were given",
                         (unsigned long long)*size, (unsigned long long)room);
    }
    behind = (unsigned char *)blob + sizeof header;
    diti_cache_copy_tuned(device, behind, header.tuned_count);
    DITI_TRY(diti_cache_copy_data(device, &header, behind + tuned_size, &data_size, err));
    header.rung = (uint32_t)(device->calibrated ? device->calibrated_rung : device->rung);
    header.is_cpu = device->is_cpu;
    if (device->calibrated) header.speed = device->speed;
    header.data_size = data_size;
    header.checksum = diti_cache_checksum(&header, behind, tuned_size + data_size);
    memcpy(blob, &header, sizeof header);
    *size = sizeof header + tuned_size + data_size;
    return DIT_OK;
}
