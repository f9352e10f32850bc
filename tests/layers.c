/* The validation layers are on and what they say is counted: a wrong call and a missing barrier must be seen, right
 * calls must not. */
#include "vulkan_test.h"

typedef struct bench {
    VkInstance instance;
    VkDevice device;
} bench;

#define CALL(bench, name) ((PFN_vk##name)test_vulkan_function((bench)->instance, "vk" #name))

static int open_bench(bench *b) {
    VkApplicationInfo app = {VK_STRUCTURE_TYPE_APPLICATION_INFO, NULL, NULL, 0, NULL, 0, VK_API_VERSION_1_2};
    VkInstanceCreateInfo info = {VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO, NULL, 0, &app, 0, NULL, 0, NULL};
    float priority = 1;
    VkDeviceQueueCreateInfo queue = {VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO, NULL, 0, 0, 1, &priority};
    VkDeviceCreateInfo device_info = {VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO, NULL, 0, 1, &queue, 0, NULL, 0, NULL, NULL};
    VkPhysicalDevice physical = NULL;
    uint32_t count = 1;
    memset(b, 0, sizeof *b);
    if (!CHECK(CALL(b, CreateInstance)(&info, NULL, &b->instance) == VK_SUCCESS)) return 0;
    CALL(b, EnumeratePhysicalDevices)(b->instance, &count, &physical);
    if (!CHECK_MESSAGE(physical, "no Vulkan device: is VK_ICD_FILENAMES right?")) return 0;
    return CHECK(CALL(b, CreateDevice)(physical, &device_info, NULL, &b->device) == VK_SUCCESS);
}

static void close_bench(bench *b) {
    if (b->device) CALL(b, DestroyDevice)(b->device, NULL);
    if (b->instance) CALL(b, DestroyInstance)(b->instance, NULL);
}

static VkBuffer make_buffer(bench *b, VkDeviceSize size) {
    VkBufferCreateInfo info = {VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
                               NULL,
                               0,
                               size,
                               VK_BUFFER_USAGE_TRANSFER_DST_BIT,
                               VK_SHARING_MODE_EXCLUSIVE,
                               0,
                               NULL};
    VkBuffer buffer = VK_NULL_HANDLE;
    CALL(b, CreateBuffer)(b->device, &info, NULL, &buffer);
    return buffer;
}

static VkDeviceMemory bind_memory(bench *b, VkBuffer buffer) {
    VkMemoryRequirements need;
    VkMemoryAllocateInfo info = {VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO, NULL, 0, 0};
    VkDeviceMemory memory = VK_NULL_HANDLE;
    CALL(b, GetBufferMemoryRequirements)(b->device, buffer, &need);
    info.allocationSize = need.size;
    while (!(need.memoryTypeBits >> info.memoryTypeIndex & 1)) info.memoryTypeIndex++;
    CHECK(CALL(b, AllocateMemory)(b->device, &info, NULL, &memory) == VK_SUCCESS);
    CHECK(CALL(b, BindBufferMemory)(b->device, buffer, memory, 0) == VK_SUCCESS);
    return memory;
}

/* Records two fills of one buffer, with a barrier between them or without. */
static void record_fills(bench *b, VkCommandPool pool, VkBuffer buffer, int with_barrier) {
    VkCommandBufferAllocateInfo info = {VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO, NULL, pool,
                                        VK_COMMAND_BUFFER_LEVEL_PRIMARY, 1};
    VkCommandBufferBeginInfo begin = {VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO, NULL, 0, NULL};
    VkMemoryBarrier barrier = {VK_STRUCTURE_TYPE_MEMORY_BARRIER, NULL, VK_ACCESS_TRANSFER_WRITE_BIT,
                               VK_ACCESS_TRANSFER_WRITE_BIT};
    PFN_vkCmdPipelineBarrier barrier_between = CALL(b, CmdPipelineBarrier);
    VkPipelineStageFlags transfer = VK_PIPELINE_STAGE_TRANSFER_BIT;
    VkCommandBuffer commands = NULL;
    CHECK(CALL(b, AllocateCommandBuffers)(b->device, &info, &commands) == VK_SUCCESS);
    CALL(b, BeginCommandBuffer)(commands, &begin);
    CALL(b, CmdFillBuffer)(commands, buffer, 0, VK_WHOLE_SIZE, 1);
    if (with_barrier) barrier_between(commands, transfer, transfer, 0, 1, &barrier, 0, NULL, 0, NULL);
    CALL(b, CmdFillBuffer)(commands, buffer, 0, VK_WHOLE_SIZE, 2);
    CALL(b, EndCommandBuffer)(commands);
    CALL(b, FreeCommandBuffers)(b->device, pool, 1, &commands);
}

static void fill_twice(bench *b, int with_barrier) {
    VkCommandPoolCreateInfo info = {VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO, NULL, 0, 0};
    VkCommandPool pool = VK_NULL_HANDLE;
    VkBuffer buffer = make_buffer(b, 256);
    VkDeviceMemory memory = bind_memory(b, buffer);
    CHECK(CALL(b, CreateCommandPool)(b->device, &info, NULL, &pool) == VK_SUCCESS);
    record_fills(b, pool, buffer, with_barrier);
    CALL(b, DestroyCommandPool)(b->device, pool, NULL);
    CALL(b, DestroyBuffer)(b->device, buffer, NULL);
    CALL(b, FreeMemory)(b->device, memory, NULL);
}

/* How many lines the layers write about two fills, after a wrong call where that is asked for. */
static int lines_about(int wrong_call, int with_barrier) {
    bench b;
    if (open_bench(&b)) {
        if (wrong_call) CALL(&b, DestroyBuffer)(b.device, make_buffer(&b, 0), NULL);
        fill_twice(&b, with_barrier);
    }
    close_bench(&b);
    return test_layer_messages();
}

int main(void) {
    test_vulkan_begin();
    test_layers.printed = 0;
    CHECK_MESSAGE(lines_about(1, 1) > 0, "a buffer of size 0 went unnoticed");
    CHECK_MESSAGE(lines_about(0, 0) > 0, "two writes without a barrier went unnoticed");
    CHECK_MESSAGE(lines_about(0, 1) == 0, "right calls were objected to");
    test_vulkan_end();
    return TEST_END("layers");
}
