/* Vulkan calls that fail on demand. Give fault_get_instance_proc_addr to dit in a dit_vulkan that has nothing else set:
 * dit then opens its own device through it.
 *
 *     fault_begin(n, VK_ERROR_OUT_OF_DEVICE_MEMORY);  // the n-th call that can fail does so, once; 0: only count
 *     fault_only = "vkCreateBuffer";                  // optional, after fault_begin: the n-th call of this function
 *     ...
 *     fault_calls, fault_name                         // calls so far; which one failed, NULL: none
 *
 * With VK_ERROR_DEVICE_LOST only the calls that may return it are counted, and from the n-th on all of them do. One
 * device and one thread at a time.
 *
 *     fault_quiet = UINT64_MAX;  // after fault_begin: a lost device takes submissions and runs none, its waits
 * succeed,
 *                                // and its timelines are said to have come so far */
#ifndef VULKAN_FAULTS_H
#define VULKAN_FAULTS_H
#include "vulkan_test.h"

enum { FAULT_MOST = 4096 };
static unsigned fault_calls, fault_at;
static const char *fault_names[FAULT_MOST]; /* names of the calls since fault_begin */
static VkResult fault_code;
static const char *fault_name, *fault_only;
static int fault_lost;
static uint64_t fault_quiet;

/* X(name, parameters, arguments, may lose the device) */
#define FAULT_FUNCTIONS(X)                                                                                             \
    X(CreateInstance, (const VkInstanceCreateInfo *a, const VkAllocationCallbacks *b, VkInstance *c), (a, b, c), 0)    \
    X(EnumeratePhysicalDevices, (VkInstance a, uint32_t * b, VkPhysicalDevice * c), (a, b, c), 0)                      \
    X(EnumerateInstanceExtensionProperties, (const char *a, uint32_t *b, VkExtensionProperties *c), (a, b, c), 0)      \
    X(EnumerateDeviceExtensionProperties, (VkPhysicalDevice a, const char *b, uint32_t *c, VkExtensionProperties *d),  \
      (a, b, c, d), 0)                                                                                                 \
    X(CreateDevice, (VkPhysicalDevice a, const VkDeviceCreateInfo *b, const VkAllocationCallbacks *c, VkDevice *d),    \
      (a, b, c, d), 0)                                                                                                 \
    X(AllocateMemory, (VkDevice a, const VkMemoryAllocateInfo *b, const VkAllocationCallbacks *c, VkDeviceMemory *d),  \
      (a, b, c, d), 0)                                                                                                 \
    X(MapMemory, (VkDevice a, VkDeviceMemory b, VkDeviceSize c, VkDeviceSize d, VkMemoryMapFlags e, void **f),         \
      (a, b, c, d, e, f), 0)                                                                                           \
    X(CreateBuffer, (VkDevice a, const VkBufferCreateInfo *b, const VkAllocationCallbacks *c, VkBuffer *d),            \
      (a, b, c, d), 0)                                                                                                 \
    X(BindBufferMemory, (VkDevice a, VkBuffer b, VkDeviceMemory c, VkDeviceSize d), (a, b, c, d), 0)                   \
    X(CreateImage, (VkDevice a, const VkImageCreateInfo *b, const VkAllocationCallbacks *c, VkImage *d), (a, b, c, d), \
      0)                                                                                                               \
    X(BindImageMemory, (VkDevice a, VkImage b, VkDeviceMemory c, VkDeviceSize d), (a, b, c, d), 0)                     \
    X(CreateImageView, (VkDevice a, const VkImageViewCreateInfo *b, const VkAllocationCallbacks *c, VkImageView *d),   \
      (a, b, c, d), 0)                                                                                                 \
    X(CreateShaderModule,                                                                                              \
      (VkDevice a, const VkShaderModuleCreateInfo *b, const VkAllocationCallbacks *c, VkShaderModule *d),              \
      (a, b, c, d), 0)                                                                                                 \
    X(CreateComputePipelines,                                                                                          \
      (VkDevice a, VkPipelineCache b, uint32_t c, const VkComputePipelineCreateInfo *d,                                \
       const VkAllocationCallbacks *e, VkPipeline *f),                                                                 \
      (a, b, c, d, e, f), 0)                                                                                           \
    X(CreatePipelineLayout,                                                                                            \
      (VkDevice a, const VkPipelineLayoutCreateInfo *b, const VkAllocationCallbacks *c, VkPipelineLayout *d),          \
      (a, b, c, d), 0)                                                                                                 \
    X(CreatePipelineCache,                                                                                             \
      (VkDevice a, const VkPipelineCacheCreateInfo *b, const VkAllocationCallbacks *c, VkPipelineCache *d),            \
      (a, b, c, d), 0)                                                                                                 \
    X(GetPipelineCacheData, (VkDevice a, VkPipelineCache b, size_t * c, void *d), (a, b, c, d), 0)                     \
    X(CreateDescriptorSetLayout,                                                                                       \
      (VkDevice a, const VkDescriptorSetLayoutCreateInfo *b, const VkAllocationCallbacks *c,                           \
       VkDescriptorSetLayout *d),                                                                                      \
      (a, b, c, d), 0)                                                                                                 \
    X(CreateDescriptorPool,                                                                                            \
      (VkDevice a, const VkDescriptorPoolCreateInfo *b, const VkAllocationCallbacks *c, VkDescriptorPool *d),          \
      (a, b, c, d), 0)                                                                                                 \
    X(AllocateDescriptorSets, (VkDevice a, const VkDescriptorSetAllocateInfo *b, VkDescriptorSet *c), (a, b, c), 0)    \
    X(CreateCommandPool,                                                                                               \
      (VkDevice a, const VkCommandPoolCreateInfo *b, const VkAllocationCallbacks *c, VkCommandPool *d), (a, b, c, d),  \
      0)                                                                                                               \
    X(AllocateCommandBuffers, (VkDevice a, const VkCommandBufferAllocateInfo *b, VkCommandBuffer *c), (a, b, c), 0)    \
    X(BeginCommandBuffer, (VkCommandBuffer a, const VkCommandBufferBeginInfo *b), (a, b), 0)                           \
    X(EndCommandBuffer, (VkCommandBuffer a), (a), 0)                                                                   \
    X(ResetCommandBuffer, (VkCommandBuffer a, VkCommandBufferResetFlags b), (a, b), 0)                                 \
    X(CreateQueryPool, (VkDevice a, const VkQueryPoolCreateInfo *b, const VkAllocationCallbacks *c, VkQueryPool *d),   \
      (a, b, c, d), 0)                                                                                                 \
    X(GetQueryPoolResults,                                                                                             \
      (VkDevice a, VkQueryPool b, uint32_t c, uint32_t d, size_t e, void *f, VkDeviceSize g, VkQueryResultFlags h),    \
      (a, b, c, d, e, f, g, h), 1)                                                                                     \
    X(CreateSemaphore, (VkDevice a, const VkSemaphoreCreateInfo *b, const VkAllocationCallbacks *c, VkSemaphore *d),   \
      (a, b, c, d), 0)                                                                                                 \
    X(GetSemaphoreCounterValue, (VkDevice a, VkSemaphore b, uint64_t * c), (a, b, c), 1)                               \
    X(WaitSemaphores, (VkDevice a, const VkSemaphoreWaitInfo *b, uint64_t c), (a, b, c), 1)                            \
    X(QueueSubmit, (VkQueue a, uint32_t b, const VkSubmitInfo *c, VkFence d), (a, b, c, d), 1)

static struct fault_real {
    PFN_vkGetInstanceProcAddr GetInstanceProcAddr;
    PFN_vkGetDeviceProcAddr GetDeviceProcAddr;
    PFN_vkDeviceWaitIdle DeviceWaitIdle;
    VkDevice device;
#define FAULT_MEMBER(name, parameters, arguments, loses) PFN_vk##name name;
    FAULT_FUNCTIONS(FAULT_MEMBER)
#undef FAULT_MEMBER
} fault_real;

static inline void fault_begin(unsigned at, VkResult code) {
    fault_calls = 0;
    fault_at = at;
    fault_code = code;
    fault_name = fault_only = NULL;
    fault_lost = 0;
    fault_quiet = 0;
}

/* A device that is lost runs nothing any more: what was submitted ends before the loss is told. */
static inline VkResult fault_lose(void) {
    if (fault_real.device) fault_real.DeviceWaitIdle(fault_real.device);
    fault_lost = 1;
    return VK_ERROR_DEVICE_LOST;
}

static inline VkResult fault_result(const char *name, int loses) {
    if (fault_lost && loses) return VK_ERROR_DEVICE_LOST;
    if (fault_code == VK_ERROR_DEVICE_LOST && !loses) return VK_SUCCESS;
    if (fault_only && strcmp(fault_only, name)) return VK_SUCCESS;
    if (fault_calls < FAULT_MOST) fault_names[fault_calls] = name;
    if (++fault_calls != fault_at) return VK_SUCCESS;
    fault_name = name;
    return fault_code == VK_ERROR_DEVICE_LOST ? fault_lose() : fault_code;
}

#define FAULT_WRAPPER(name, parameters, arguments, loses)                                                              \
    static VKAPI_ATTR VkResult VKAPI_CALL fault_##name parameters {                                                    \
        VkResult result = fault_result("vk" #name, loses);                                                             \
        return result == VK_SUCCESS ? fault_real.name arguments : result;                                              \
    }
FAULT_FUNCTIONS(FAULT_WRAPPER)
#undef FAULT_WRAPPER

static VKAPI_ATTR VkResult VKAPI_CALL fault_counter(VkDevice device, VkSemaphore timeline, uint64_t *value) {
    VkResult vr = fault_GetSemaphoreCounterValue(device, timeline, value);
    if (!fault_quiet || vr != VK_ERROR_DEVICE_LOST) return vr;
    *value = fault_quiet;
    return VK_SUCCESS;
}

static VKAPI_ATTR VkResult VKAPI_CALL fault_wait(VkDevice device, const VkSemaphoreWaitInfo *info, uint64_t timeout) {
    VkResult vr = fault_WaitSemaphores(device, info, timeout);
    return fault_quiet && vr == VK_ERROR_DEVICE_LOST ? VK_SUCCESS : vr;
}

/* Imitates a slow device: while the gate is shut, everything that is submitted waits. */
static struct fault_gate {
    bool shut;
    VkSemaphore semaphore;
} fault_gate;

static inline PFN_vkVoidFunction fault_device_function(const char *name) {
    return fault_real.GetDeviceProcAddr(fault_real.device, name);
}

static inline void fault_make_gate(void) {
    VkSemaphoreTypeCreateInfo type = {VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO, NULL, VK_SEMAPHORE_TYPE_TIMELINE,
                                      0};
    VkSemaphoreCreateInfo info = {VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO, &type, 0};
    PFN_vkCreateSemaphore create = (PFN_vkCreateSemaphore)fault_device_function("vkCreateSemaphore");
    CHECK(create(fault_real.device, &info, NULL, &fault_gate.semaphore) == VK_SUCCESS);
}

static inline void fault_open_gate(void) {
    VkSemaphoreSignalInfo info = {VK_STRUCTURE_TYPE_SEMAPHORE_SIGNAL_INFO, NULL, fault_gate.semaphore, 1};
    fault_gate.shut = false;
    CHECK(((PFN_vkSignalSemaphore)fault_device_function("vkSignalSemaphore"))(fault_real.device, &info) == VK_SUCCESS);
    CHECK(fault_real.DeviceWaitIdle(fault_real.device) == VK_SUCCESS);
}

static VKAPI_ATTR VkResult VKAPI_CALL fault_submit_behind_gate(VkQueue queue, uint32_t count,
                                                               const VkSubmitInfo *submits, VkFence fence) {
    VkTimelineSemaphoreSubmitInfo values = *(const VkTimelineSemaphoreSubmitInfo *)submits->pNext;
    VkSubmitInfo info = *submits;
    VkSemaphore waits[65];
    VkPipelineStageFlags stages[65];
    uint64_t wait_values[65];
    uint32_t i;
    if (!fault_gate.shut) {
        VkResult vr = fault_QueueSubmit(queue, count, submits, fence);
        return fault_quiet && vr == VK_ERROR_DEVICE_LOST ? VK_SUCCESS : vr;
    }
    if (!fault_gate.semaphore) fault_make_gate();
    CHECK(count == 1 && info.waitSemaphoreCount < 65 && values.waitSemaphoreValueCount == info.waitSemaphoreCount);
    for (i = 0; i < info.waitSemaphoreCount; i++) {
        waits[i] = info.pWaitSemaphores[i];
        stages[i] = info.pWaitDstStageMask[i];
        wait_values[i] = values.pWaitSemaphoreValues[i];
    }
    waits[i] = fault_gate.semaphore;
    stages[i] = VK_PIPELINE_STAGE_ALL_COMMANDS_BIT;
    wait_values[i] = 1;
    info.pNext = &values;
    info.pWaitSemaphores = waits;
    info.pWaitDstStageMask = stages;
    info.waitSemaphoreCount = values.waitSemaphoreValueCount = i + 1;
    values.pWaitSemaphoreValues = wait_values;
    return fault_QueueSubmit(queue, 1, &info, fence);
}

static VKAPI_ATTR void VKAPI_CALL fault_destroy_device(VkDevice device, const VkAllocationCallbacks *callbacks) {
    PFN_vkDestroyDevice destroy = (PFN_vkDestroyDevice)fault_device_function("vkDestroyDevice");
    if (fault_gate.semaphore)
        ((PFN_vkDestroySemaphore)fault_device_function("vkDestroySemaphore"))(device, fault_gate.semaphore, NULL);
    fault_gate.semaphore = VK_NULL_HANDLE;
    destroy(device, callbacks);
}

static inline PFN_vkVoidFunction fault_wrap(const char *name, PFN_vkVoidFunction real) {
#define FAULT_WRAP(function, parameters, arguments, loses)                                                             \
    if (real && !strcmp(name, "vk" #function)) {                                                                       \
        fault_real.function = (PFN_vk##function)real;                                                                  \
        return (PFN_vkVoidFunction)fault_##function;                                                                   \
    }
    FAULT_FUNCTIONS(FAULT_WRAP)
#undef FAULT_WRAP
    return real;
}

static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL fault_get_device_proc_addr(VkDevice device, const char *name) {
    PFN_vkVoidFunction wrapped;
    fault_real.device = device;
    fault_real.DeviceWaitIdle = (PFN_vkDeviceWaitIdle)fault_real.GetDeviceProcAddr(device, "vkDeviceWaitIdle");
    if (!strcmp(name, "vkDestroyDevice")) return (PFN_vkVoidFunction)fault_destroy_device;
    wrapped = fault_wrap(name, fault_real.GetDeviceProcAddr(device, name));
    if (!strcmp(name, "vkQueueSubmit")) return (PFN_vkVoidFunction)fault_submit_behind_gate;
    if (!strcmp(name, "vkGetSemaphoreCounterValue")) return (PFN_vkVoidFunction)fault_counter;
    if (!strcmp(name, "vkWaitSemaphores")) return (PFN_vkVoidFunction)fault_wait;
    return wrapped;
}

static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL fault_get_instance_proc_addr(VkInstance instance, const char *name) {
    PFN_vkVoidFunction real = test_vulkan_function(instance, name);
    if (!strcmp(name, "vkGetDeviceProcAddr")) {
        fault_real.GetDeviceProcAddr = (PFN_vkGetDeviceProcAddr)real;
        fault_real.device = NULL;
        return (PFN_vkVoidFunction)fault_get_device_proc_addr;
    }
    return fault_wrap(name, real);
}
#endif
