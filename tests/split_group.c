/* Device groups. No driver at hand has one of several devices, so one is feigned: two lavapipe devices are said to be a
   group, the calls that only groups have are recorded, and what they are about happens on the first device alone. That
   shows that masks and indices are right, and that everything else goes on as it does without groups; not that a driver
   with groups does what it should. */
/* test-runs: lavapipe */
#define DIT_IMPLEMENTATION
#include "dit.h"
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
    unsigned binds[4], wrong;       /* by home: buffers; what does not fit together */
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
    feigned.devices++;
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

static VKAPI_ATTR VkResult VKAPI_CALL feigned_submit(VkQueue queue, uint32_t count, const VkSubmitInfo *info,
                                                     VkFence fence) {
    const VkDeviceGroupSubmitInfo *group = (const VkDeviceGroupSubmitInfo *)info->pNext;
    VkSubmitInfo plain = *info;
    uint32_t i, index = 2;
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
    if (!strcmp(name, "vkGetDeviceGroupPeerMemoryFeatures")) return (PFN_vkVoidFunction)feigned_features;
    return real;
}

static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL feigned_entry(VkInstance instance, const char *name) {
    PFN_vkVoidFunction real = test_vulkan_function(instance, name);
    if (real && !strcmp(name, "vkEnumeratePhysicalDevices"))
        feigned.EnumeratePhysicalDevices = (PFN_vkEnumeratePhysicalDevices)real;
    FEIGN(GetDeviceProcAddr, feigned_device_entry)
    FEIGN(CreateDevice, feigned_create)
    if (!strcmp(name, "vkEnumeratePhysicalDeviceGroups")) return (PFN_vkVoidFunction)feigned_groups;
    return real;
}

static char logged[4096];

static void keep_log(int level, const char *message, void *user) {
    size_t used = strlen(logged);
    (void)user;
    snprintf(logged + used, sizeof logged - used, "%d %s\n", level, message);
}

static dit_result open_group(const char *overrides, VkPeerMemoryFeatureFlags features, dit_context **out) {
    dit_vulkan vulkan = {0};
    dit_context_desc desc = DITI_ZERO;
    memset(&feigned, 0, sizeof feigned);
    logged[0] = 0;
    feigned.features = features;
    vulkan.get_instance_proc_addr = feigned_entry;
    desc.vulkan = &vulkan;
    desc.vulkan_count = 1;
    desc.devices = "0,1";
    desc.overrides = overrides;
    desc.logger.func = keep_log;
    desc.logger.max_level = 2;
    return dit_context_create(&desc, out, &err);
}

int main(void) {
    const VkPeerMemoryFeatureFlags copies = VK_PEER_MEMORY_FEATURE_COPY_DST_BIT;
    dit_context *context = NULL;
    char list[4096];
    FILE *file = fopen("build/drivers/devices3", "r");
    uint32_t i;
    if (CHECK(file && fgets(list, sizeof list, file))) {
        list[strcspn(list, "\n")] = 0;
        setenv("VK_ICD_FILENAMES", list, 1);
        setenv("VK_DRIVER_FILES", list, 1);
    }
    if (file) fclose(file);
    test_vulkan_begin();
    if (CHECK_MESSAGE(open_group("transport=group", copies, &context) == DIT_OK, "%s", err.message)) {
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
    CHECK(open_group("transport=group", VK_PEER_MEMORY_FEATURE_COPY_SRC_BIT, &context) == DIT_ERROR_TRANSPORT);
    CHECK(context == NULL && feigned.peers[0][1]);
    if (CHECK_MESSAGE(open_group("unverified=1,break_transport=group", copies, &context) == DIT_OK, "%s", err.message))
        CHECK(context->peers->transports[0][1] > DITI_TRANSPORT_GROUP &&
              strstr(logged, "1 device 0 does not reach device 1 by group: its self-test failed"));
    dit_context_destroy(context);
    context = NULL; /* off unless asked for */
    if (CHECK_MESSAGE(open_group(NULL, copies, &context) == DIT_OK, "%s", err.message))
        CHECK(feigned.devices == 2 && feigned.members == 0 && feigned.submits[1] + feigned.submits[2] == 0 &&
              context->peers->transports[0][1] > DITI_TRANSPORT_GROUP);
    dit_context_destroy(context);
    test_vulkan_end();
    return TEST_END("split_group");
}
