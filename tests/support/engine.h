/* A tiny application with a Vulkan device of its own, as an engine has one; tests of the contract hand it to dit.
   Include it after dit.h and vulkan_test.h. */
#ifndef TEST_ENGINE_H
#define TEST_ENGINE_H

/* clang-format off */
#define ENGINE_INSTANCE_CALLS(X) \
    X(DestroyInstance) X(EnumeratePhysicalDevices) X(GetPhysicalDeviceMemoryProperties) X(CreateDevice) \
    X(GetDeviceProcAddr) X(GetPhysicalDeviceQueueFamilyProperties)
#define ENGINE_DEVICE_CALLS(X) \
    X(DestroyDevice) X(GetDeviceQueue) X(DeviceWaitIdle) X(QueueSubmit) X(QueueWaitIdle) X(AllocateMemory) X(FreeMemory) \
    X(MapMemory) X(CreateBuffer) X(DestroyBuffer) X(GetBufferMemoryRequirements) X(BindBufferMemory) X(CreateImage) \
    X(DestroyImage) X(GetImageMemoryRequirements) X(BindImageMemory) X(CreateCommandPool) X(DestroyCommandPool) \
    X(AllocateCommandBuffers) X(FreeCommandBuffers) X(BeginCommandBuffer) X(EndCommandBuffer) X(CmdPipelineBarrier) \
    X(CmdCopyImageToBuffer) X(CreateFence) X(DestroyFence) X(WaitForFences)
/* clang-format on */

typedef struct engine {
    PFN_vkGetInstanceProcAddr entry;
    VkInstance instance;
    VkPhysicalDevice gpu;
    VkDevice device;
    float priority;
    VkDeviceQueueCreateInfo queue_info[2];
    VkPhysicalDeviceVulkan12Features features;
    VkDeviceCreateInfo info; /* the argument of vkCreateDevice, extended by dit; points into this struct */
    uint64_t info_memory[1024];
    VkPhysicalDeviceMemoryProperties memory;
    VkQueue queue;
    uint32_t family;
    VkCommandPool pool;
    bool two_families; /* set before engine_make_device: other_queue, of another family, where there is one */
    VkQueue other_queue;
    uint32_t other_family;
    VkCommandPool other_pool;
    dit_vulkan handover;
    int locked, lock_count, lock_errors;      /* of the queue lock */
    uint64_t allocated, live, calls, fail_at; /* of the device allocator: bytes in use, blocks in use */
    uint64_t most;                            /* bytes in use at any time */
    uint64_t kinds[2], kinds_most[2];         /* the same of what must be visible to the host [1], and of the rest */
    bool maps_least;                          /* it maps only what must be */
#define ENGINE_MEMBER(name) PFN_vk##name name;
    ENGINE_INSTANCE_CALLS(ENGINE_MEMBER)
    ENGINE_DEVICE_CALLS(ENGINE_MEMBER)
#undef ENGINE_MEMBER
} engine;

static inline void engine_lock(void *user) {
    engine *e = (engine *)user;
    if (e->locked) e->lock_errors++;
    e->locked = 1;
    e->lock_count++;
}

static inline void engine_unlock(void *user) {
    engine *e = (engine *)user;
    if (!e->locked) e->lock_errors++;
    e->locked = 0;
}

/* --- device memory through the hook --- */

static inline uint32_t engine_memory_type(const engine *e, uint32_t bits, VkMemoryPropertyFlags required,
                                          VkMemoryPropertyFlags preferred) {
    uint32_t i, found = UINT32_MAX;
    for (i = 0; i < e->memory.memoryTypeCount; i++) {
        VkMemoryPropertyFlags flags = e->memory.memoryTypes[i].propertyFlags;
        if (!(bits >> i & 1) || (flags & required) != required) continue;
        if ((flags & preferred) == preferred) return i;
        if (found == UINT32_MAX) found = i;
    }
    return found;
}

static inline VkResult engine_alloc(uint32_t device, const VkMemoryRequirements *need, VkMemoryPropertyFlags required,
                                    VkMemoryPropertyFlags preferred, dit_block *out, void *user) {
    engine *e = (engine *)user;
    uint32_t type = engine_memory_type(e, need->memoryTypeBits, required, preferred);
    VkMemoryAllocateInfo info = {VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO, NULL, need->size, type};
    VkResult result;
    memset(out, 0, sizeof *out);
    if (++e->calls == e->fail_at || device != 0 || type == UINT32_MAX) return VK_ERROR_OUT_OF_DEVICE_MEMORY;
    result = e->AllocateMemory(e->device, &info, NULL, &out->memory);
    if (result < 0) return result;
    if ((e->maps_least ? required : e->memory.memoryTypes[type].propertyFlags) & VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT)
        e->MapMemory(e->device, out->memory, 0, VK_WHOLE_SIZE, 0, &out->mapped);
    out->size = need->size;
    e->allocated += need->size;
    if (e->allocated > e->most) e->most = e->allocated;
    out->handle = &e->kinds[(required & VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT) != 0];
    *(uint64_t *)out->handle += need->size;
    if (e->kinds[0] > e->kinds_most[0]) e->kinds_most[0] = e->kinds[0];
    if (e->kinds[1] > e->kinds_most[1]) e->kinds_most[1] = e->kinds[1];
    e->live++;
    return VK_SUCCESS;
}

static inline void engine_free(uint32_t device, const dit_block *block, void *user) {
    engine *e = (engine *)user;
    CHECK(device == 0 && (block->handle == &e->kinds[0] || block->handle == &e->kinds[1]) && block->memory);
    e->FreeMemory(e->device, block->memory, NULL);
    *(uint64_t *)block->handle -= block->size;
    e->allocated -= block->size;
    e->live--;
}

/* --- begin and end --- */

static inline bool engine_make_instance(engine *e) {
    VkApplicationInfo app = {VK_STRUCTURE_TYPE_APPLICATION_INFO, NULL, NULL, 0, NULL, 0, VK_API_VERSION_1_2};
    VkInstanceCreateInfo info = {VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO, NULL, 0, &app, 0, NULL, 0, NULL};
    uint32_t count = 1;
    PFN_vkCreateInstance create;
    e->entry = (PFN_vkGetInstanceProcAddr)test_vulkan_function(NULL, "vkGetInstanceProcAddr");
    create = (PFN_vkCreateInstance)test_vulkan_function(NULL, "vkCreateInstance");
    if (!CHECK(e->entry && create && create(&info, NULL, &e->instance) == VK_SUCCESS)) return false;
#define ENGINE_LOAD(name) e->name = (PFN_vk##name)e->entry(e->instance, "vk" #name);
    ENGINE_INSTANCE_CALLS(ENGINE_LOAD)
    ENGINE_DEVICE_CALLS(ENGINE_LOAD)
#undef ENGINE_LOAD
    e->EnumeratePhysicalDevices(e->instance, &count, &e->gpu);
    if (!CHECK(count == 1 && e->gpu)) return false;
    e->GetPhysicalDeviceMemoryProperties(e->gpu, &e->memory);
    return true;
}

static inline uint32_t engine_compute_family(const engine *e) {
    VkQueueFamilyProperties families[16];
    uint32_t count = 16, i;
    e->GetPhysicalDeviceQueueFamilyProperties(e->gpu, &count, families);
    for (i = 0; i < count && !(families[i].queueFlags & VK_QUEUE_COMPUTE_BIT); i++) {
    }
    return i;
}

/* A family other than dit's, whose queues can copy; UINT32_MAX: there is none. */
static inline uint32_t engine_another_family(const engine *e) {
    VkQueueFamilyProperties families[16];
    uint32_t count = 0, i;
    e->GetPhysicalDeviceQueueFamilyProperties(e->gpu, &count,
                                              NULL); /* SwiftShader fills all the room that it is given */
    if (count > 16) count = 16;
    e->GetPhysicalDeviceQueueFamilyProperties(e->gpu, &count, families);
    for (i = 0; i < count; i++)
        if (i != e->family && families[i].queueFlags & (VK_QUEUE_COMPUTE_BIT | VK_QUEUE_GRAPHICS_BIT)) return i;
    return UINT32_MAX;
}

/* Puts the other queue in the place of the one that dit uses, for commands of the application's, or back. */
static inline void engine_switch_queue(engine *e) {
    VkCommandPool pool = e->pool;
    VkQueue queue = e->queue;
    e->pool = e->other_pool, e->queue = e->other_queue;
    e->other_pool = pool, e->other_queue = queue;
}

/* extend: the device gets what dit can use; else the least that dit needs. */
static inline bool engine_make_device(engine *e, bool extend) {
    VkDeviceQueueCreateInfo queue = {VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO, NULL, 0, 0, 1, &e->priority};
    VkDeviceCreateInfo app = {VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO, NULL, 0, 1, e->queue_info, 0, NULL, 0, NULL, NULL};
    VkCommandPoolCreateInfo pool = {VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO, NULL, 0, 0};
    size_t size = sizeof e->info_memory;
    dit_error err = {0};
    e->priority = 1;
    e->features.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES;
    e->features.timelineSemaphore = VK_TRUE;
    e->family = pool.queueFamilyIndex = queue.queueFamilyIndex = engine_compute_family(e);
    e->queue_info[0] = e->queue_info[1] = queue;
    e->other_family = e->queue_info[1].queueFamilyIndex = e->two_families ? engine_another_family(e) : UINT32_MAX;
    if (e->other_family != UINT32_MAX) app.queueCreateInfoCount = 2;
    e->info = app;
    if (extend)
        CHECK_MESSAGE(dit_device_extend(e->entry, e->instance, e->gpu, &app, e->info_memory, &size, &e->info, &err) ==
                          DIT_OK,
                      "%s", err.message);
    else
        e->info.pNext = &e->features;
    if (!CHECK(e->CreateDevice(e->gpu, &e->info, NULL, &e->device) == VK_SUCCESS)) return false;
    e->GetDeviceQueue(e->device, e->family, 0, &e->queue);
    e->CreateCommandPool(e->device, &pool, NULL, &e->pool);
    if (e->other_family != UINT32_MAX) {
        e->GetDeviceQueue(e->device, e->other_family, 0, &e->other_queue);
        pool.queueFamilyIndex = e->other_family;
        e->CreateCommandPool(e->device, &pool, NULL, &e->other_pool);
    }
    e->handover.get_instance_proc_addr = e->entry;
    e->handover.instance = e->instance;
    e->handover.physical_device = e->gpu;
    e->handover.device = e->device;
    e->handover.device_info = &e->info;
    e->handover.queue = e->queue;
    e->handover.queue_family = e->family;
    e->handover.lock_queue = engine_lock;
    e->handover.unlock_queue = engine_unlock;
    e->handover.lock_user = e;
    return true;
}

static inline dit_context *engine_context(engine *e, dit_context_desc *desc) {
    dit_context *ctx = NULL;
    dit_error err = {0};
    desc->vulkan = &e->handover;
    desc->vulkan_count = 1;
    CHECK_MESSAGE(dit_context_create(desc, &ctx, &err) == DIT_OK, "%s", err.message);
    return ctx;
}

static inline void engine_end(engine *e) {
    if (e->device) {
        e->DeviceWaitIdle(e->device);
        e->DestroyCommandPool(e->device, e->pool, NULL);
        if (e->other_pool) e->DestroyCommandPool(e->device, e->other_pool, NULL);
        e->DestroyDevice(e->device, NULL);
    }
    if (e->instance) e->DestroyInstance(e->instance, NULL);
    CHECK(e->lock_errors == 0 && !e->locked);
    CHECK_MESSAGE(e->live == 0, "%llu device blocks are still in use", (unsigned long long)e->live);
}

/* --- commands --- */

static inline VkCommandBuffer engine_begin_commands(engine *e) {
    VkCommandBufferAllocateInfo info = {VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO, NULL, e->pool,
                                        VK_COMMAND_BUFFER_LEVEL_PRIMARY, 1};
    VkCommandBufferBeginInfo begin = {VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO, NULL,
                                      VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT, NULL};
    VkCommandBuffer commands = NULL;
    e->AllocateCommandBuffers(e->device, &info, &commands);
    e->BeginCommandBuffer(commands, &begin);
    return commands;
}

/* Submits; waits for timeline >= value first when timeline is given; returns when the GPU is done. */
static inline void engine_run(engine *e, VkCommandBuffer commands, VkSemaphore timeline, uint64_t value) {
    VkTimelineSemaphoreSubmitInfo wait = {VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO, NULL, 1, &value, 0, NULL};
    VkPipelineStageFlags stage = VK_PIPELINE_STAGE_ALL_COMMANDS_BIT;
    VkSubmitInfo submit = {VK_STRUCTURE_TYPE_SUBMIT_INFO, NULL, 0, NULL, NULL, 1, &commands, 0, NULL};
    if (timeline) {
        submit.pNext = &wait;
        submit.waitSemaphoreCount = 1;
        submit.pWaitSemaphores = &timeline;
        submit.pWaitDstStageMask = &stage;
    }
    e->EndCommandBuffer(commands);
    engine_lock(e);
    CHECK(e->QueueSubmit(e->queue, 1, &submit, VK_NULL_HANDLE) == VK_SUCCESS);
    CHECK(e->QueueWaitIdle(e->queue) == VK_SUCCESS);
    engine_unlock(e);
    e->FreeCommandBuffers(e->device, e->pool, 1, &commands);
}

/* --- images --- */

typedef struct engine_image {
    VkImage image;
    VkDeviceMemory memory;
    uint32_t width, height;
} engine_image;

static inline VkDeviceMemory engine_bind(engine *e, const VkMemoryRequirements *need, VkMemoryPropertyFlags required) {
    VkMemoryAllocateInfo info = {VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO, NULL, need->size,
                                 engine_memory_type(e, need->memoryTypeBits, required, 0)};
    VkDeviceMemory memory = VK_NULL_HANDLE;
    CHECK(e->AllocateMemory(e->device, &info, NULL, &memory) == VK_SUCCESS);
    return memory;
}

static inline engine_image engine_make_layers(engine *e, uint32_t width, uint32_t height, VkFormat format,
                                              uint32_t layers) {
    engine_image out = {VK_NULL_HANDLE, VK_NULL_HANDLE, width, height};
    VkImageCreateInfo info;
    VkMemoryRequirements need;
    memset(&info, 0, sizeof info);
    info.sType = VK_STRUCTURE_TYPE_IMAGE_CREATE_INFO;
    info.imageType = VK_IMAGE_TYPE_2D;
    info.format = format;
    info.extent.width = width;
    info.extent.height = height;
    info.extent.depth = info.mipLevels = 1;
    info.arrayLayers = layers;
    info.samples = VK_SAMPLE_COUNT_1_BIT;
    info.usage = VK_IMAGE_USAGE_TRANSFER_DST_BIT | VK_IMAGE_USAGE_TRANSFER_SRC_BIT;
    CHECK(e->CreateImage(e->device, &info, NULL, &out.image) == VK_SUCCESS);
    e->GetImageMemoryRequirements(e->device, out.image, &need);
    out.memory = engine_bind(e, &need, 0);
    e->BindImageMemory(e->device, out.image, out.memory, 0);
    return out;
}

static inline engine_image engine_make_image(engine *e, uint32_t width, uint32_t height, VkFormat format) {
    return engine_make_layers(e, width, height, format, 1);
}

static inline void engine_free_image(engine *e, engine_image *image) {
    e->DestroyImage(e->device, image->image, NULL);
    e->FreeMemory(e->device, image->memory, NULL);
}

/* Copies a mip of a layer of an image, of the given layout, format and size, to rgba, on the application's side. */
static inline void engine_read_part(engine *e, const dit_output *from, uint32_t mip, uint32_t layer,
                                    unsigned char *rgba) {
    uint32_t texel = from->format == VK_FORMAT_R16G16B16A16_SFLOAT ? 8 : from->format == VK_FORMAT_R8_UNORM ? 1 : 4;
    VkBufferCreateInfo info = {VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
                               NULL,
                               0,
                               (VkDeviceSize)from->width * from->height * texel,
                               VK_BUFFER_USAGE_TRANSFER_DST_BIT,
                               VK_SHARING_MODE_EXCLUSIVE,
                               0,
                               NULL};
    VkImageMemoryBarrier barrier;
    VkMemoryBarrier visible = {VK_STRUCTURE_TYPE_MEMORY_BARRIER, NULL, VK_ACCESS_TRANSFER_WRITE_BIT,
                               VK_ACCESS_HOST_READ_BIT};
    VkBufferImageCopy copy;
    VkMemoryRequirements need;
    VkDeviceMemory memory;
    VkBuffer buffer = VK_NULL_HANDLE;
    VkCommandBuffer commands = engine_begin_commands(e);
    void *mapped = NULL;
    memset(&copy, 0, sizeof copy);
    memset(&barrier, 0, sizeof barrier);
    e->CreateBuffer(e->device, &info, NULL, &buffer);
    e->GetBufferMemoryRequirements(e->device, buffer, &need);
    memory = engine_bind(e, &need, VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT);
    e->BindBufferMemory(e->device, buffer, memory, 0);
    e->MapMemory(e->device, memory, 0, VK_WHOLE_SIZE, 0, &mapped);
    barrier.sType = VK_STRUCTURE_TYPE_IMAGE_MEMORY_BARRIER;
    barrier.srcAccessMask = VK_ACCESS_MEMORY_WRITE_BIT;
    barrier.dstAccessMask = VK_ACCESS_TRANSFER_READ_BIT;
    barrier.oldLayout = from->layout;
    barrier.newLayout = VK_IMAGE_LAYOUT_TRANSFER_SRC_OPTIMAL;
    barrier.srcQueueFamilyIndex = barrier.dstQueueFamilyIndex = VK_QUEUE_FAMILY_IGNORED;
    barrier.image = from->image;
    barrier.subresourceRange.aspectMask = VK_IMAGE_ASPECT_COLOR_BIT;
    barrier.subresourceRange.baseMipLevel = copy.imageSubresource.mipLevel = mip;
    barrier.subresourceRange.baseArrayLayer = copy.imageSubresource.baseArrayLayer = layer;
    barrier.subresourceRange.levelCount = barrier.subresourceRange.layerCount = 1;
    e->CmdPipelineBarrier(commands, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT, VK_PIPELINE_STAGE_TRANSFER_BIT, 0, 0, NULL, 0,
                          NULL, 1, &barrier);
    copy.imageSubresource.aspectMask = VK_IMAGE_ASPECT_COLOR_BIT;
    copy.imageSubresource.layerCount = 1;
    copy.imageExtent.width = from->width;
    copy.imageExtent.height = from->height;
    copy.imageExtent.depth = 1;
    e->CmdCopyImageToBuffer(commands, from->image, VK_IMAGE_LAYOUT_TRANSFER_SRC_OPTIMAL, buffer, 1, &copy);
    barrier.srcAccessMask = 0; /* back to the layout that dit promised, as the next run may rely on it */
    barrier.dstAccessMask = VK_ACCESS_MEMORY_READ_BIT;
    barrier.oldLayout = VK_IMAGE_LAYOUT_TRANSFER_SRC_OPTIMAL;
    barrier.newLayout = from->layout;
    e->CmdPipelineBarrier(commands, VK_PIPELINE_STAGE_TRANSFER_BIT,
                          VK_PIPELINE_STAGE_HOST_BIT | VK_PIPELINE_STAGE_ALL_COMMANDS_BIT, 0, 1, &visible, 0, NULL, 1,
                          &barrier);
    engine_run(e, commands, from->timeline, from->value);
    if (mapped) memcpy(rgba, mapped, (size_t)from->width * from->height * texel);
    e->DestroyBuffer(e->device, buffer, NULL);
    e->FreeMemory(e->device, memory, NULL);
}

static inline void engine_read_image(engine *e, const dit_output *from, unsigned char *rgba) {
    engine_read_part(e, from, 0, 0, rgba);
}
#endif
