/* This program feigns two features that no driver at hand has. It shows that the calls are right and that everything
   else goes on as it does without; it cannot show that a driver does what it should.
   Device groups of several devices: two lavapipe devices are said to be one group, the calls that only groups have are
   recorded, and their work happens on the first device alone.
   Timelines that two devices share: a thread signals the copy when the original is signaled. */
/* test-runs: lavapipe */
#include "library.h"
#include "vulkan_test.h"

static dit_error err;

static struct feigned {
    PFN_vkGetDeviceProcAddr GetDeviceProcAddr;
    PFN_vkCreateDevice CreateDevice;
    PFN_vkAllocateMemory AllocateMemory;
    PFN_vkQueueSubmit QueueSubmit;
    PFN_vkBindBufferMemory2 BindBufferMemory2;
    PFN_vkEnumeratePhysicalDevices EnumeratePhysicalDevices;
    VkPeerMemoryFeatureFlags features;
    unsigned devices, members;      /* made, and of how many physical devices */
    unsigned memory[4], submits[4]; /* by mask; 0: none was given */
    unsigned peers[2][2];           /* questions: local, remote */
    PFN_vkGetPhysicalDeviceExternalSemaphoreProperties GetPhysicalDeviceExternalSemaphoreProperties;
    PFN_vkEnumerateDeviceExtensionProperties EnumerateDeviceExtensionProperties;
    PFN_vkCreateSemaphore CreateSemaphore;
    PFN_vkDestroySemaphore DestroySemaphore;
    PFN_vkWaitSemaphores WaitSemaphores;
    PFN_vkGetSemaphoreCounterValue GetSemaphoreCounterValue;
    PFN_vkSignalSemaphore SignalSemaphore;
    bool timelines, deaf;                 /* drivers share them; the first that is imported hears nothing */
    unsigned exported, imported, bridged; /* timelines; submissions that wait for an imported one */
    unsigned binds[4], wrong;             /* by home: buffers; what does not fit together */
} feigned;

static VKAPI_ATTR VkResult VKAPI_CALL feigned_groups(VkInstance instance, uint32_t *count,
                                                     VkPhysicalDeviceGroupProperties *groups) {
    VkPhysicalDevice list[8];
    uint32_t found = 8;
    VkResult vr = feigned.EnumeratePhysicalDevices(instance, &found, list);
    if (vr < 0 || found < 2) return VK_ERROR_INITIALIZATION_FAILED;
    if (*count < 1) return VK_INCOMPLETE;
    *count = 1;
    groups[0].physicalDeviceCount = 2;
    groups[0].physicalDevices[0] = list[0];
    groups[0].physicalDevices[1] = list[1];
    return VK_SUCCESS;
}

static VKAPI_ATTR VkResult VKAPI_CALL feigned_create(VkPhysicalDevice physical, const VkDeviceCreateInfo *info,
                                                     const VkAllocationCallbacks *callbacks, VkDevice *out) {
    const VkDeviceGroupDeviceCreateInfo *group = (const VkDeviceGroupDeviceCreateInfo *)info->pNext;
    VkDeviceCreateInfo plain = *info;
    const char *names[64];
    uint32_t i;
    feigned.devices++;
    plain.enabledExtensionCount = 0;
    for (i = 0; i < info->enabledExtensionCount && i < 64; i++)
        if (strcmp(info->ppEnabledExtensionNames[i], "VK_KHR_external_semaphore_fd"))
            names[plain.enabledExtensionCount++] = info->ppEnabledExtensionNames[i];
    plain.ppEnabledExtensionNames = names;
    if (group && group->sType == VK_STRUCTURE_TYPE_DEVICE_GROUP_DEVICE_CREATE_INFO) {
        feigned.members += group->physicalDeviceCount;
        plain.pNext = group->pNext;
    }
    return feigned.CreateDevice(physical, &plain, callbacks, out);
}

static VKAPI_ATTR VkResult VKAPI_CALL feigned_allocate(VkDevice device, const VkMemoryAllocateInfo *info,
                                                       const VkAllocationCallbacks *callbacks, VkDeviceMemory *out) {
    const VkMemoryAllocateFlagsInfo *flags = (const VkMemoryAllocateFlagsInfo *)info->pNext;
    VkMemoryAllocateInfo plain = *info;
    if (flags && flags->sType == VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO) {
        feigned.wrong += flags->flags != VK_MEMORY_ALLOCATE_DEVICE_MASK_BIT;
        feigned.memory[flags->deviceMask & 3]++;
        plain.pNext = flags->pNext;
    } else {
        feigned.memory[0]++;
    }
    return feigned.AllocateMemory(device, &plain, callbacks, out);
}

/* --- timelines: a descriptor is that of a thing of no use, and stands for the timeline that was exported last --- */

typedef struct pair {
    VkDevice devices[2];
    VkSemaphore timelines[2];
    pthread_t thread;
    int used, stop; /* stop: under the lock */
} pair;
static pair pairs[16];
static pthread_mutex_t pairs_lock = PTHREAD_MUTEX_INITIALIZER;
static VkDevice exported_device;
static VkSemaphore exported_timeline;

static void *pass_on(void *argument) {
    pair *p = (pair *)argument;
    VkSemaphoreWaitInfo wait = {VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO, NULL, 0, 1, NULL, NULL};
    VkSemaphoreSignalInfo signal = {VK_STRUCTURE_TYPE_SEMAPHORE_SIGNAL_INFO, NULL, VK_NULL_HANDLE, 0};
    uint64_t seen = 0, next = 1;
    int stop = 0;
    wait.pSemaphores = &p->timelines[0];
    wait.pValues = &next;
    signal.semaphore = p->timelines[1];
    while (!stop) {
        if (feigned.WaitSemaphores(p->devices[0], &wait, 1000000) == VK_SUCCESS &&
            feigned.GetSemaphoreCounterValue(p->devices[0], p->timelines[0], &seen) == VK_SUCCESS) {
            signal.value = seen;
            next = seen + 1;
            feigned.SignalSemaphore(p->devices[1], &signal);
        }
        pthread_mutex_lock(&pairs_lock);
        stop = p->stop;
        pthread_mutex_unlock(&pairs_lock);
    }
    return NULL;
}

static VKAPI_ATTR VkResult VKAPI_CALL feigned_export(VkDevice device, const VkSemaphoreGetFdInfoKHR *info, int *fd) {
    exported_device = device;
    exported_timeline = info->semaphore;
    feigned.exported++;
    *fd = dup(1);
    return VK_SUCCESS;
}

static VKAPI_ATTR VkResult VKAPI_CALL feigned_import(VkDevice device, const VkImportSemaphoreFdInfoKHR *info) {
    unsigned i = 0;
    close(info->fd);
    feigned.wrong += info->flags != 0 || info->handleType != VK_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD_BIT;
    while (pairs[i].used) i++;
    pairs[i].devices[0] = exported_device;
    pairs[i].devices[1] = device;
    pairs[i].timelines[0] = exported_timeline;
    pairs[i].timelines[1] = info->semaphore;
    pairs[i].stop = 0;
    pairs[i].used = feigned.imported++ == 0 && feigned.deaf ? 2 : 1;
    if (pairs[i].used == 1) CHECK(pthread_create(&pairs[i].thread, NULL, pass_on, &pairs[i]) == 0);
    return VK_SUCCESS;
}

static VKAPI_ATTR void VKAPI_CALL feigned_destroy(VkDevice device, VkSemaphore timeline,
                                                  const VkAllocationCallbacks *callbacks) {
    unsigned i, k;
    for (i = 0; i < 16; i++)
        for (k = 0; k < 2; k++) {
            if (!pairs[i].used || pairs[i].devices[k] != device || pairs[i].timelines[k] != timeline) continue;
            pthread_mutex_lock(&pairs_lock);
            pairs[i].stop = 1;
            pthread_mutex_unlock(&pairs_lock);
            if (pairs[i].used == 1) pthread_join(pairs[i].thread, NULL);
            pairs[i].used = 0;
        }
    feigned.DestroySemaphore(device, timeline, callbacks);
}

static VKAPI_ATTR VkResult VKAPI_CALL feigned_semaphore(VkDevice device, const VkSemaphoreCreateInfo *info,
                                                        const VkAllocationCallbacks *callbacks, VkSemaphore *out) {
    VkSemaphoreTypeCreateInfo type = *(const VkSemaphoreTypeCreateInfo *)info->pNext;
    VkSemaphoreCreateInfo plain = *info;
    const VkExportSemaphoreCreateInfo *to_export = (const VkExportSemaphoreCreateInfo *)type.pNext;
    feigned.wrong += to_export && (to_export->sType != VK_STRUCTURE_TYPE_EXPORT_SEMAPHORE_CREATE_INFO ||
                                   to_export->handleTypes != VK_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD_BIT);
    type.pNext = NULL;
    plain.pNext = &type;
    return feigned.CreateSemaphore(device, &plain, callbacks, out);
}

static VKAPI_ATTR void VKAPI_CALL feigned_abilities(VkPhysicalDevice physical,
                                                    const VkPhysicalDeviceExternalSemaphoreInfo *info,
                                                    VkExternalSemaphoreProperties *out) {
    const VkSemaphoreTypeCreateInfo *type = (const VkSemaphoreTypeCreateInfo *)info->pNext;
    (void)physical;
    feigned.wrong += !type || type->semaphoreType != VK_SEMAPHORE_TYPE_TIMELINE ||
                     info->handleType != VK_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD_BIT;
    out->externalSemaphoreFeatures =
        VK_EXTERNAL_SEMAPHORE_FEATURE_EXPORTABLE_BIT | VK_EXTERNAL_SEMAPHORE_FEATURE_IMPORTABLE_BIT;
}

static VKAPI_ATTR VkResult VKAPI_CALL feigned_extensions(VkPhysicalDevice physical, const char *layer, uint32_t *count,
                                                         VkExtensionProperties *list) {
    uint32_t room = *count;
    VkResult vr = feigned.EnumerateDeviceExtensionProperties(physical, layer, count, list);
    if (vr == VK_SUCCESS && (!list || *count < room)) {
        if (list) snprintf(list[*count].extensionName, sizeof list->extensionName, "VK_KHR_external_semaphore_fd");
        ++*count;
    }
    return vr;
}

static VKAPI_ATTR VkResult VKAPI_CALL feigned_submit(VkQueue queue, uint32_t count, const VkSubmitInfo *info,
                                                     VkFence fence) {
    const VkDeviceGroupSubmitInfo *group = (const VkDeviceGroupSubmitInfo *)info->pNext;
    VkSubmitInfo plain = *info;
    uint32_t i, k, index = 2;
    for (i = 0; i < info->waitSemaphoreCount; i++)
        for (k = 0; k < 16; k++) feigned.bridged += pairs[k].used && pairs[k].timelines[1] == info->pWaitSemaphores[i];
    if (group && group->sType == VK_STRUCTURE_TYPE_DEVICE_GROUP_SUBMIT_INFO) {
        feigned.wrong += group->commandBufferCount != info->commandBufferCount ||
                         group->waitSemaphoreCount != info->waitSemaphoreCount ||
                         group->signalSemaphoreCount != info->signalSemaphoreCount || info->commandBufferCount < 1;
        index = group->pCommandBufferDeviceMasks[0] - 1;
        for (i = 0; i < group->commandBufferCount; i++)
            feigned.wrong += group->pCommandBufferDeviceMasks[i] != 1u << index;
        for (i = 0; i < group->waitSemaphoreCount; i++) feigned.wrong += group->pWaitSemaphoreDeviceIndices[i] != index;
        for (i = 0; i < group->signalSemaphoreCount; i++)
            feigned.wrong += group->pSignalSemaphoreDeviceIndices[i] != index;
        plain.pNext = group->pNext;
    }
    feigned.submits[index < 2 ? index + 1 : 0] += count;
    return feigned.QueueSubmit(queue, 1, &plain, fence);
}

static VKAPI_ATTR VkResult VKAPI_CALL feigned_bind(VkDevice device, uint32_t count,
                                                   const VkBindBufferMemoryInfo *info) {
    const VkBindBufferMemoryDeviceGroupInfo *group = (const VkBindBufferMemoryDeviceGroupInfo *)info->pNext;
    VkBindBufferMemoryInfo plain = *info;
    feigned.wrong += count != 1 || !group || group->sType != VK_STRUCTURE_TYPE_BIND_BUFFER_MEMORY_DEVICE_GROUP_INFO ||
                     group->deviceIndexCount != 2 || group->pDeviceIndices[0] != group->pDeviceIndices[1];
    if (group) feigned.binds[group->pDeviceIndices[0] & 3]++;
    plain.pNext = NULL;
    return feigned.BindBufferMemory2(device, 1, &plain);
}

static VKAPI_ATTR void VKAPI_CALL feigned_features(VkDevice device, uint32_t heap, uint32_t local, uint32_t remote,
                                                   VkPeerMemoryFeatureFlags *out) {
    (void)device;
    feigned.wrong += heap != 0 || local > 1 || remote > 1;
    feigned.peers[local & 1][remote & 1]++;
    *out = feigned.features;
}

#define FEIGN(function, replacement)                                                                                   \
    if (real && !strcmp(name, "vk" #function)) {                                                                       \
        feigned.function = (PFN_vk##function)real;                                                                     \
        return (PFN_vkVoidFunction)replacement;                                                                        \
    }

static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL feigned_device_entry(VkDevice device, const char *name) {
    PFN_vkVoidFunction real = feigned.GetDeviceProcAddr(device, name);
    FEIGN(AllocateMemory, feigned_allocate)
    FEIGN(QueueSubmit, feigned_submit)
    FEIGN(BindBufferMemory2, feigned_bind)
    FEIGN(CreateSemaphore, feigned_semaphore)
    FEIGN(DestroySemaphore, feigned_destroy)
    FEIGN(WaitSemaphores, feigned.WaitSemaphores)
    FEIGN(GetSemaphoreCounterValue, feigned.GetSemaphoreCounterValue)
    FEIGN(SignalSemaphore, feigned.SignalSemaphore)
    if (!strcmp(name, "vkGetSemaphoreFdKHR")) return (PFN_vkVoidFunction)feigned_export;
    if (!strcmp(name, "vkImportSemaphoreFdKHR")) return (PFN_vkVoidFunction)feigned_import;
    if (!strcmp(name, "vkGetDeviceGroupPeerMemoryFeatures")) return (PFN_vkVoidFunction)feigned_features;
    return real;
}

static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL feigned_entry(VkInstance instance, const char *name) {
    PFN_vkVoidFunction real = test_vulkan_function(instance, name);
    if (real && !strcmp(name, "vkEnumeratePhysicalDevices"))
        feigned.EnumeratePhysicalDevices = (PFN_vkEnumeratePhysicalDevices)real;
    FEIGN(GetDeviceProcAddr, feigned_device_entry)
    FEIGN(CreateDevice, feigned_create)
    if (feigned.timelines) {
        FEIGN(GetPhysicalDeviceExternalSemaphoreProperties, feigned_abilities)
        FEIGN(EnumerateDeviceExtensionProperties, feigned_extensions)
    }
    if (!strcmp(name, "vkEnumeratePhysicalDeviceGroups")) return (PFN_vkVoidFunction)feigned_groups;
    return real;
}

static char logged[4096];

static void keep_log(int level, const char *message, void *user) {
    size_t used = strlen(logged);
    (void)user;
    snprintf(logged + used, sizeof logged - used, "%d %s\n", level, message);
}

enum { WITHOUT_TIMELINES, WITH_TIMELINES, DEAF };

static dit_result open_pair(const char *overrides, VkPeerMemoryFeatureFlags features, int timelines,
                            dit_context **out) {
    dit_vulkan vulkan = {0};
    dit_context_desc desc = DITI_ZERO;
    memset(&feigned, 0, sizeof feigned);
    logged[0] = 0;
    feigned.features = features;
    feigned.timelines = timelines != WITHOUT_TIMELINES;
    feigned.deaf = timelines == DEAF;
    vulkan.get_instance_proc_addr = feigned_entry;
    desc.vulkan = &vulkan;
    desc.vulkan_count = 1;
    desc.devices = "0,1";
    desc.overrides = overrides;
    desc.logger.func = keep_log;
    desc.logger.max_level = 2;
    return dit_context_create(&desc, out, &err);
}

static void test_groups(void) {
    const VkPeerMemoryFeatureFlags copies = VK_PEER_MEMORY_FEATURE_COPY_DST_BIT;
    dit_context *context = NULL;
    uint32_t i;
    if (CHECK_MESSAGE(open_pair("transport=group", copies, WITHOUT_TIMELINES, &context) == DIT_OK, "%s", err.message)) {
        CHECK(context->peers->transports[0][1] == DITI_TRANSPORT_GROUP &&
              context->peers->transports[1][0] == DITI_TRANSPORT_GROUP);
        CHECK(feigned.devices == 1 && feigned.members == 2);
        CHECK(context->devices[0]->device == context->devices[1]->device);
        CHECK(feigned.memory[0] == 0 && feigned.memory[1] && feigned.memory[2] && feigned.memory[3] == 0);
        for (i = 0; i < 2; i++)
            CHECK_MESSAGE(feigned.submits[i + 1] == context->devices[i]->submits, "device %u: %u of %u submits", i,
                          feigned.submits[i + 1], (unsigned)context->devices[i]->submits);
        CHECK(feigned.submits[0] == 0 && feigned.wrong == 0);
        CHECK(feigned.peers[0][1] && feigned.peers[1][0] && !feigned.peers[0][0] && !feigned.peers[1][1]);
        CHECK(feigned.binds[0] == DITI_LANE_SLOTS && feigned.binds[1] == DITI_LANE_SLOTS);
    }
    dit_context_destroy(context);
    context = NULL; /* the driver's copies cannot go there */
    CHECK(open_pair("transport=group", VK_PEER_MEMORY_FEATURE_COPY_SRC_BIT, WITHOUT_TIMELINES, &context) ==
          DIT_ERROR_TRANSPORT);
    CHECK(context == NULL && feigned.peers[0][1]);
    if (CHECK_MESSAGE(open_pair("unverified=1,break_transport=group", copies, WITHOUT_TIMELINES, &context) == DIT_OK,
                      "%s", err.message))
        CHECK(context->peers->transports[0][1] > DITI_TRANSPORT_GROUP &&
              strstr(logged, "1 device 0 does not reach device 1 by group: its self-test failed"));
    dit_context_destroy(context);
    context = NULL; /* off unless asked for */
    if (CHECK_MESSAGE(open_pair(NULL, copies, WITHOUT_TIMELINES, &context) == DIT_OK, "%s", err.message))
        CHECK(feigned.devices == 2 && feigned.members == 0 && feigned.submits[1] + feigned.submits[2] == 0 &&
              context->peers->transports[0][1] > DITI_TRANSPORT_GROUP);
    dit_context_destroy(context);
}

static VkSemaphore later; /* a timeline that the host signals */

/* The receiving device is given its copy before the sending one has begun. */
static void check_order(dit_context *context) {
    diti_env env = context->peers->env;
    diti_device *const *devices = context->devices;
    diti_buffer buffers[2] = {DITI_ZERO, DITI_ZERO};
    VkSemaphoreSignalInfo signal = {VK_STRUCTURE_TYPE_SEMAPHORE_SIGNAL_INFO, NULL, VK_NULL_HANDLE, 1};
    diti_lane_desc desc = DITI_ZERO;
    diti_lane_copy copy = DITI_ZERO;
    diti_lane *lane = NULL;
    unsigned char sent[1000], got[1000];
    uint64_t begin = diti_clock_us();
    bool moved, waited;
    uint32_t i;
    desc.transport = context->peers->transports[0][1];
    desc.devices[0] = devices[0];
    desc.devices[1] = devices[1];
    desc.to = 1;
    desc.slot_bytes = 512;
    desc.bridged = true;
    copy.pitch = copy.row_bytes = sizeof sent;
    copy.rows = 1;
    for (i = 0; i < sizeof sent; i++) sent[i] = (unsigned char)(i * 7);
    CHECK(diti_lane_create(&env, &desc, &lane, &err) == DIT_OK);
    for (i = 0; i < 2; i++) {
        CHECK(diti_buffer_create_shared(devices[i], sizeof sent, "test", &buffers[i], &err) == DIT_OK);
        copy.buffer = buffers[i].buffer;
        CHECK(diti_lane_add(lane, i, &copy, &err) == DIT_OK);
    }
    CHECK(diti_timeline_create(devices[0], &later, &err) == DIT_OK);
    CHECK(diti_buffer_write(devices[0], &buffers[0], 0, sent, sizeof sent, &err) == DIT_OK);
    diti_lane_open(lane, DITI_LANE_OUT, 0, later, 1);
    diti_lane_open(lane, DITI_LANE_IN, 0, VK_NULL_HANDLE, 0);
    CHECK(diti_lane_pump(lane, &moved, &err) == DIT_OK);
    CHECK(lane->sides[DITI_LANE_IN].submitted == 2 && lane->sides[DITI_LANE_OUT].finished == 0);
    signal.semaphore = later;
    CHECK(devices[0]->vk.SignalSemaphore(devices[0]->device, &signal) == VK_SUCCESS);
    while (!diti_lane_idle(lane) && diti_clock_us() - begin < 10000000)
        CHECK(diti_lane_wait(lane, 1000000, &waited, &err) >= 0 && diti_lane_pump(lane, &moved, &err) == DIT_OK);
    CHECK(diti_buffer_read(devices[1], &buffers[1], 0, got, sizeof got, &err) == DIT_OK);
    CHECK(!memcmp(sent, got, sizeof got));
    diti_lane_destroy(lane);
    devices[0]->vk.DestroySemaphore(devices[0]->device, later, NULL);
    for (i = 0; i < 2; i++) diti_buffer_destroy(devices[i], &buffers[i]);
}

static void test_timelines(void) {
    dit_context *context = NULL;
    uint64_t begin;
    if (CHECK_MESSAGE(open_pair("bridge=1", 0, WITH_TIMELINES, &context) == DIT_OK, "%s", err.message)) {
        CHECK(context->peers->bridges[0][1] && context->peers->bridges[1][0]);
        CHECK(feigned.exported == 2 && feigned.imported == 2 && feigned.bridged >= 20 && feigned.wrong == 0);
        check_order(context);
    }
    dit_context_destroy(context);
    context = NULL; /* not on a queue that computes; not where the self-test fails */
    if (CHECK(open_pair(NULL, 0, WITH_TIMELINES, &context) == DIT_OK))
        CHECK(!context->peers->bridges[0][1] && feigned.exported == 0);
    dit_context_destroy(context);
    context = NULL;
    if (CHECK(open_pair("bridge=1,break_transport=bridge", 0, WITH_TIMELINES, &context) == DIT_OK))
        CHECK(!context->peers->bridges[0][1] &&
              strstr(logged, "1 device 1 cannot wait for device 0 itself: its self-test failed"));
    dit_context_destroy(context);
    context = NULL; /* a device that would wait for ever is let go */
    begin = diti_clock_us();
    if (CHECK_MESSAGE(open_pair("bridge=1,transport_ms=100", 0, DEAF, &context) == DIT_OK, "%s", err.message))
        CHECK_MESSAGE(
            !context->peers->bridges[0][1] && context->peers->bridges[1][0] &&
                strstr(logged, "1 device 1 cannot wait for device 0 itself: a copy between devices took more"),
            "%s", logged);
    CHECK(diti_clock_us() - begin < 10000000);
    dit_context_destroy(context);
}

int main(void) {
    char list[4096];
    FILE *file = fopen("build/drivers/devices3", "r");
    if (CHECK(file && fgets(list, sizeof list, file))) {
        list[strcspn(list, "\n")] = 0;
        setenv("VK_ICD_FILENAMES", list, 1);
        setenv("VK_DRIVER_FILES", list, 1);
    }
    if (file) fclose(file);
    test_vulkan_begin();
    test_groups();
    test_vulkan_end();
    unsetenv("VK_INSTANCE_LAYERS"); /* they keep books about timelines, which a signal from nowhere upsets */
    test_timelines();
    return TEST_END("split_feigned");
}
