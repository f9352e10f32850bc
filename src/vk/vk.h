/* vk: loader table, device choice and feature ladder, memory, pipelines, submission. */
#ifndef DITI_VK_H
#define DITI_VK_H
#include "base/base.h"

/* Every Vulkan function that dit calls, fetched with get_instance_proc_addr; nothing is linked. */
/* clang-format off */
#define DITI_VK_INSTANCE_FUNCTIONS(X) \
    X(DestroyInstance) X(EnumeratePhysicalDevices) X(GetPhysicalDeviceProperties2) X(GetPhysicalDeviceFeatures2) \
    X(GetPhysicalDeviceMemoryProperties2) X(GetPhysicalDeviceQueueFamilyProperties) \
    X(EnumerateDeviceExtensionProperties) X(CreateDevice) X(GetDeviceProcAddr)
#define DITI_VK_DEVICE_FUNCTIONS(X) \
    X(DestroyDevice) X(GetDeviceQueue) X(DeviceWaitIdle) X(QueueSubmit) X(QueueWaitIdle) \
    X(AllocateMemory) X(FreeMemory) X(MapMemory) X(FlushMappedMemoryRanges) \
    X(InvalidateMappedMemoryRanges) X(CreateBuffer) X(DestroyBuffer) X(GetBufferMemoryRequirements) \
    X(BindBufferMemory) X(CreateImage) X(DestroyImage) X(GetImageMemoryRequirements) X(BindImageMemory) \
    X(CreateImageView) X(DestroyImageView) X(CreateShaderModule) X(DestroyShaderModule) X(CreateComputePipelines) \
    X(DestroyPipeline) X(CreatePipelineLayout) X(DestroyPipelineLayout) X(CreatePipelineCache) \
    X(DestroyPipelineCache) X(GetPipelineCacheData) X(CreateDescriptorSetLayout) X(DestroyDescriptorSetLayout) \
    X(CreateDescriptorPool) X(DestroyDescriptorPool) X(AllocateDescriptorSets) X(UpdateDescriptorSets) \
    X(CreateCommandPool) X(DestroyCommandPool) X(AllocateCommandBuffers) X(BeginCommandBuffer) X(EndCommandBuffer) \
    X(CmdBindPipeline) X(CmdBindDescriptorSets) X(CmdPushConstants) X(CmdDispatch) X(CmdPipelineBarrier) \
    X(CmdCopyBuffer) X(CmdFillBuffer) X(CmdCopyBufferToImage) X(CmdExecuteCommands) X(CmdResetQueryPool) \
    X(CmdWriteTimestamp) X(CreateQueryPool) X(DestroyQueryPool) X(GetQueryPoolResults) \
    X(CreateSemaphore) X(DestroySemaphore) X(GetSemaphoreCounterValue) X(WaitSemaphores)
/* clang-format on */

typedef struct diti_vk_api {
    PFN_vkGetInstanceProcAddr GetInstanceProcAddr;
    PFN_vkCreateInstance CreateInstance;
    PFN_vkEnumerateInstanceVersion EnumerateInstanceVersion;
    PFN_vkEnumerateInstanceExtensionProperties EnumerateInstanceExtensionProperties;
#define DITI_VK_MEMBER(name) PFN_vk##name name;
    DITI_VK_INSTANCE_FUNCTIONS(DITI_VK_MEMBER) DITI_VK_DEVICE_FUNCTIONS(DITI_VK_MEMBER)
#undef DITI_VK_MEMBER
} diti_vk_api;

/* The ladder (architecture.md 4). Higher rungs follow; everything that asks "which rung" compares with >=. */
typedef enum diti_rung { DITI_RUNG_BASE, DITI_RUNG_FP16, DITI_RUNG_COUNT } diti_rung;

/* What a plan must respect: the device's own limits, lowered by overrides in tests. */
typedef struct diti_limits {
    VkDeviceSize storage_range;     /* maxStorageBufferRange */
    VkDeviceSize allocation;        /* largest single VkDeviceMemory, at most 1 GiB */
    VkDeviceSize storage_alignment; /* minStorageBufferOffsetAlignment */
    uint32_t group_count;           /* maxComputeWorkGroupCount[0] */
    uint32_t group_invocations;     /* maxComputeWorkGroupInvocations */
    uint32_t shared_bytes;          /* maxComputeSharedMemorySize */
    uint32_t subgroup_size;
    float timestamp_period; /* ns per tick; 0 when the queue has no timestamps */
    uint32_t timestamp_bits;
} diti_limits;

/* Every kernel uses this one interface, so one layout serves all pipelines: */
#define DITI_MAX_BINDINGS 8u   /* storage buffers 0..7 of set 0 */
#define DITI_PUSH_WORDS 32u    /* 128 bytes; word 0 is always the first workgroup of this slice on x */
#define DITI_MAX_CONSTANTS 16u /* specialization constants with ids 0..15, all uint32 */

typedef struct diti_pipeline {
    uint32_t module;
    uint32_t constants[DITI_MAX_CONSTANTS];
    uint32_t constant_count;
    VkPipeline pipeline;
} diti_pipeline;

typedef enum diti_memory_kind {
    DITI_MEMORY_DEVICE,  /* device local; mapped only where all memory is host visible */
    DITI_MEMORY_UPLOAD,  /* host visible and coherent, written by the host */
    DITI_MEMORY_READBACK /* host visible, cached where possible, read by the host */
} diti_memory_kind;

typedef struct diti_buffer {
    VkBuffer buffer;
    VkDeviceSize size;
    dit_block block; /* block.mapped: host address of the buffer's first byte, or NULL */
    diti_memory_kind kind;
    bool coherent;
    VkDeviceSize charged; /* counted in memory_used */
    void *hook_mapped;    /* block.mapped as the application's allocator gave it, for its free */
} diti_buffer;

typedef struct diti_device {
    diti_env env;
    diti_vk_api vk;
    void *library; /* of dlopen, when dit opened the loader */
    bool owns_instance, owns_device;
    VkInstance instance;
    VkPhysicalDevice physical;
    VkDevice device;
    VkQueue queue;
    uint32_t queue_family;
    void (*lock_queue)(void *user);
    void (*unlock_queue)(void *user);
    void *lock_user;
    const VkAllocationCallbacks *callbacks;
    dit_device_allocator allocator;
    dit_device_info info;
    diti_limits limits;
    VkPhysicalDeviceMemoryProperties memory;
    uint32_t ordinal;        /* of this device in its context, for the allocator hook */
    bool unified;            /* every heap is device local: host buffers count against memory_limit too */
    bool maps_device_memory; /* DITI_MEMORY_DEVICE buffers may be mapped; the override mapped=0 forbids it */
    bool is_cpu;             /* a software driver: gets its own tile choices */
    bool has_fp16;           /* shaderFloat16 and 16-bit storage are enabled */
    bool has_memory_budget, has_portability_subset; /* extensions */
    diti_rung rung;                                 /* the rung in use, after overrides and the self-test */
    uint32_t max_dispatch_us;
    VkDeviceSize memory_limit, memory_used; /* of dit's own allocations; used only under the lock */
    VkDescriptorSetLayout set_layout;
    VkPipelineLayout pipeline_layout;
    VkPipelineCache pipeline_cache;
    bool owns_pipeline_cache;
    diti_pipeline **pipelines;
    size_t pipeline_count, pipeline_capacity;
    uint64_t pipelines_compiled, allocations; /* counters */
    int lock;                                 /* spin lock: pipelines, memory accounting, the staging slot */
    int queue_lock;                           /* spin lock around the queue when the application gave no lock_queue */
    diti_buffer staging;                      /* a slot: whoever copies takes it out and puts it back */
    VkDeviceSize staging_bytes;
    int lost;                                      /* latched: nothing is submitted any more */
    uint32_t fail_submit_after;                    /* test override: the n-th submit reports device lost; 0: never */
    uint32_t fail_pipeline_after, pipelines_tried; /* test override: the n-th pipeline fails */
    uint64_t submits;
    float us_per_gflop; /* GEMM cost at the rung in use: a guess, or the cache blob's figure, until calibrated */
} diti_device;

/* "VK_ERROR_…" for messages. */
DIT_INTERNAL const char *diti_vk_name(VkResult result);

/* --- inside the room --- */
DIT_INTERNAL dit_result diti_vulkan_load(const char *loader, PFN_vkGetInstanceProcAddr given, diti_vk_api *vk,
                                         void **library, dit_error *err);
DIT_INTERNAL void diti_vulkan_unload(void **library);
DIT_INTERNAL dit_result diti_instance_create(const diti_env *env, diti_vk_api *vk, VkInstance *out, dit_error *err);
DIT_INTERNAL void diti_instance_destroy(diti_vk_api *vk, VkInstance instance); /* NULL is fine */
DIT_INTERNAL dit_result diti_instance_functions(diti_vk_api *vk, VkInstance instance, dit_error *err);
DIT_INTERNAL dit_result diti_device_functions(diti_vk_api *vk, VkDevice device, dit_error *err);
typedef struct diti_features { /* what the ladder asks for; filled with what exists or with what is enabled */
    bool timeline, fp16, storage16;
} diti_features;
DIT_INTERNAL void diti_features_supported(const diti_vk_api *vk, VkPhysicalDevice physical, diti_features *out);
DIT_INTERNAL void diti_features_enabled(const VkDeviceCreateInfo *info, diti_features *out);
typedef struct diti_candidate { /* a physical device, seen from dit */
    VkPhysicalDevice physical;
    dit_device_info info;
    uint32_t queue_family; /* the first with COMPUTE */
    char reason[160];      /* why dit cannot use it; empty: it can */
} diti_candidate;
/* All physical devices in Vulkan's order; freed with diti_free. */
DIT_INTERNAL dit_result diti_candidates_list(const diti_env *env, const diti_vk_api *vk, VkInstance instance,
                                             diti_candidate **out, uint32_t *count, dit_error *err);
DIT_INTERNAL void diti_candidate_fill(const diti_vk_api *vk, VkPhysicalDevice physical, diti_candidate *out);
/* The candidate that choice names; NULL with an error that lists what there is. */
DIT_INTERNAL const diti_candidate *diti_candidate_choose(const diti_candidate *list, uint32_t count, const char *choice,
                                                         dit_error *err);
DIT_INTERNAL void diti_memory_init(diti_device *device, VkDeviceSize limit);
DIT_INTERNAL void diti_staging_free(diti_device *device);
DIT_INTERNAL dit_result diti_layouts_create(diti_device *device, dit_error *err);
DIT_INTERNAL dit_result diti_cache_load(diti_device *device, const void *blob, size_t size, dit_error *err);
DIT_INTERNAL void diti_pipelines_free(diti_device *device);
/* DIT_ERROR_DEVICE_LOST once the device is lost: calls that need not ask the driver ask here. */
DIT_INTERNAL dit_result diti_device_check(diti_device *device, dit_error *err);
/* Fills err for a failed Vulkan call and latches device loss. */
DIT_INTERNAL dit_result diti_device_fail(diti_device *device, VkResult vr, const char *call, dit_error *err);
DIT_INTERNAL void diti_queue_idle(diti_device *device);

/* --- atomics (C99 has none) --- */
DIT_INTERNAL int diti_atomic_load(const int *value);
DIT_INTERNAL void diti_atomic_store(int *value, int to);
DIT_INTERNAL void diti_lock(int *lock);
DIT_INTERNAL void diti_unlock(int *lock);

/* --- devices --- */
/* Opens the device that desc names (index, part of the name, "uuid:..."; NULL: the best) or wraps the application's. */
DIT_INTERNAL dit_result diti_device_open(const dit_context_desc *desc, const diti_env *env, diti_device **out,
                                         dit_error *err);
DIT_INTERNAL void diti_device_close(diti_device *device);
DIT_INTERNAL const char *diti_rung_name(diti_rung rung);
/* The value of key in "key=value,key=value" (desc->overrides), K/M/G suffixes understood; otherwise when absent. */
DIT_INTERNAL uint64_t diti_override_number(const char *overrides, const char *key, uint64_t otherwise);
/* Copies the value of key; false when the key is absent or out is too small. */
DIT_INTERNAL bool diti_override_text(const char *overrides, const char *key, char *out, size_t size);
/* Unknown keys and malformed entries are errors that name the known keys. */
DIT_INTERNAL dit_result diti_overrides_check(const char *overrides, dit_error *err);
DIT_INTERNAL bool diti_override_is(const char *overrides, const char *key, const char *value);

/* --- memory --- */
DIT_INTERNAL dit_result diti_buffer_create(diti_device *device, VkDeviceSize size, diti_memory_kind kind,
                                           const char *what, diti_buffer *out, dit_error *err);
/* Memory for anything else (images): fills all of out (zeroed) but buffer and size; the caller binds it. */
DIT_INTERNAL dit_result diti_block_create(diti_device *device, const VkMemoryRequirements *need, diti_memory_kind kind,
                                          const char *what, diti_buffer *out, dit_error *err);
DIT_INTERNAL void diti_block_destroy(diti_device *device, diti_buffer *buffer);
DIT_INTERNAL void diti_buffer_destroy(diti_device *device, diti_buffer *buffer); /* a zeroed buffer is fine */
/* Host copies that wait: for loading and reading back, never inside the step loop. Direct where mapped, else staged. */
DIT_INTERNAL dit_result diti_buffer_write(diti_device *device, diti_buffer *buffer, VkDeviceSize offset,
                                          const void *data, VkDeviceSize size, dit_error *err);
DIT_INTERNAL dit_result diti_buffer_read(diti_device *device, diti_buffer *buffer, VkDeviceSize offset, void *data,
                                         VkDeviceSize size, dit_error *err);
/* Makes host writes visible to the device, or the device's writes readable; nothing to do for coherent memory. */
DIT_INTERNAL void diti_buffer_flush(diti_device *device, const diti_buffer *buffer);
DIT_INTERNAL void diti_buffer_invalidate(diti_device *device, const diti_buffer *buffer);

/* --- pipelines: created on first use, shared by everything on the device --- */
DIT_INTERNAL dit_result diti_pipeline_get(diti_device *device, uint32_t module, const uint32_t *constants,
                                          uint32_t constant_count, VkPipeline *out, dit_error *err);
DIT_INTERNAL dit_result diti_cache_save(diti_device *device, void *blob, size_t *size, dit_error *err);

/* --- submission --- */
/* Submits command buffers under the queue lock and then signals timeline, when set, with value. Latches device loss. */
DIT_INTERNAL dit_result diti_submit(diti_device *device, const VkCommandBuffer *commands, uint32_t count,
                                    VkSemaphore timeline, uint64_t value, dit_error *err);
DIT_INTERNAL dit_result diti_timeline_create(diti_device *device, VkSemaphore *out, dit_error *err);
DIT_INTERNAL dit_result diti_timeline_value(diti_device *device, VkSemaphore timeline, uint64_t *out, dit_error *err);
/* DIT_WORKING when the time ran out. */
DIT_INTERNAL dit_result diti_timeline_wait(diti_device *device, VkSemaphore timeline, uint64_t value,
                                           uint64_t timeout_ns, dit_error *err);
/* Records and runs one command buffer now, and waits: for set-up work only. */
typedef void (*diti_record_function)(diti_device *device, VkCommandBuffer commands, void *user);
DIT_INTERNAL dit_result diti_run_now(diti_device *device, diti_record_function record, void *user, dit_error *err);

/* --- embedded SPIR-V (vk/spirv.inc, generated by make shaders) --- */
DIT_INTERNAL uint32_t diti_spirv_count(void);
DIT_INTERNAL const char *diti_spirv_name(uint32_t module);
DIT_INTERNAL bool diti_spirv_find(const char *name, uint32_t *module);
/* One embedded module: LEB128-coded words as base85 text, in pieces that every compiler accepts; NULL ends them. */
typedef struct diti_spirv_module {
    const char *name; /* NULL ends the table */
    const char *const *pieces;
    uint32_t word_count;
} diti_spirv_module;
/* Defined at the end of spirv.inc, which stands last in dit.h. */
DIT_INTERNAL const diti_spirv_module *diti_spirv_table(void);
DIT_INTERNAL uint64_t diti_spirv_hash(void); /* of all modules */
/* Decodes a module; words is freed with diti_free. */
DIT_INTERNAL dit_result diti_spirv_decode(const diti_env *env, uint32_t module, uint32_t **words, size_t *count,
                                          dit_error *err);
#endif
