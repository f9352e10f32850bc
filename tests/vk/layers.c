/* The validation layers are on and what they say is counted: a wrong call and a missing barrier must be seen, right
 * calls must not. Two dispatches that use one buffer are a hazard of each kind, in one command buffer and in two
 * submissions. Layers before 1.4 do not see all of them; the newest do, so that between the two every kind is seen.
   test-runs: lavapipe swiftshader sanitize newest */
#define TEST_SUBMITS
#include "vulkan_test.h"

enum { BUFFERS = 3, SETS = 3, WORDS = 64 };
typedef struct bench {
    VkInstance instance;
    VkDevice device;
    VkQueue queue;
    VkBuffer buffers[BUFFERS];
    VkDeviceMemory memory[BUFFERS];
    VkDescriptorSetLayout set_layout;
    VkPipelineLayout layout;
    VkPipeline pipeline;
    VkDescriptorPool descriptors;
    VkDescriptorSet sets[BUFFERS][BUFFERS]; /* [from][to] */
    VkCommandPool commands;
} bench;

#define CALL(bench, name) ((PFN_vk##name)test_vulkan_function((bench)->instance, "vk" #name))

/* layout(local_size_x = 1) in;
 * layout(std430, set = 0, binding = 0) readonly buffer From { uint from[]; };
 * layout(std430, set = 0, binding = 1) writeonly buffer To { uint to[]; };
 * void main() { to[gl_WorkGroupID.x] = from[gl_WorkGroupID.x]; } */
static const uint32_t copy_words[] = {
    0x7230203,  0x10000, 0x8000b, 0x20,    0x0,     0x20011, 0x1,     0x6000b, 0x1,        0x4c534c47, 0x6474732e,
    0x3035342e, 0x0,     0x3000e, 0x0,     0x1,     0x6000f, 0x5,     0x4,     0x6e69616d, 0x0,        0xf,
    0x60010,    0x4,     0x11,    0x1,     0x1,     0x1,     0x40047, 0x7,     0x6,        0x4,        0x40048,
    0x8,        0x0,     0x19,    0x50048, 0x8,     0x0,     0x23,    0x0,     0x30047,    0x8,        0x3,
    0x40047,    0xa,     0x22,    0x0,     0x40047, 0xa,     0x21,    0x1,     0x40047,    0xf,        0xb,
    0x1a,       0x40047, 0x14,    0x6,     0x4,     0x40048, 0x15,    0x0,     0x18,       0x50048,    0x15,
    0x0,        0x23,    0x0,     0x30047, 0x15,    0x3,     0x40047, 0x17,    0x22,       0x0,        0x40047,
    0x17,       0x21,    0x0,     0x40047, 0x1f,    0xb,     0x19,    0x20013, 0x2,        0x30021,    0x3,
    0x2,        0x40015, 0x6,     0x20,    0x0,     0x3001d, 0x7,     0x6,     0x3001e,    0x8,        0x7,
    0x40020,    0x9,     0x2,     0x8,     0x4003b, 0x9,     0xa,     0x2,     0x40015,    0xb,        0x20,
    0x1,        0x4002b, 0xb,     0xc,     0x0,     0x40017, 0xd,     0x6,     0x3,        0x40020,    0xe,
    0x1,        0xd,     0x4003b, 0xe,     0xf,     0x1,     0x4002b, 0x6,     0x10,       0x0,        0x40020,
    0x11,       0x1,     0x6,     0x3001d, 0x14,    0x6,     0x3001e, 0x15,    0x14,       0x40020,    0x16,
    0x2,        0x15,    0x4003b, 0x16,    0x17,    0x2,     0x40020, 0x1a,    0x2,        0x6,        0x4002b,
    0x6,        0x1e,    0x1,     0x6002c, 0xd,     0x1f,    0x1e,    0x1e,    0x1e,       0x50036,    0x2,
    0x4,        0x0,     0x3,     0x200f8, 0x5,     0x50041, 0x11,    0x12,    0xf,        0x10,       0x4003d,
    0x6,        0x13,    0x12,    0x60041, 0x1a,    0x1b,    0x17,    0xc,     0x13,       0x4003d,    0x6,
    0x1c,       0x1b,    0x60041, 0x1a,    0x1d,    0xa,     0xc,     0x13,    0x3003e,    0x1d,       0x1c,
    0x100fd,    0x10038,
};

static VkBuffer make_buffer(bench *b, VkDeviceSize size) {
    VkBufferCreateInfo info = {VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
                               NULL,
                               0,
                               size,
                               VK_BUFFER_USAGE_STORAGE_BUFFER_BIT,
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

static void make_pipeline(bench *b) {
    VkDescriptorSetLayoutBinding bindings[2] = {
        {0, VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 1, VK_SHADER_STAGE_COMPUTE_BIT, NULL},
        {1, VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 1, VK_SHADER_STAGE_COMPUTE_BIT, NULL}};
    VkDescriptorSetLayoutCreateInfo set = {VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO, NULL, 0, 2, bindings};
    VkPipelineLayoutCreateInfo layout = {
        VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO, NULL, 0, 1, &b->set_layout, 0, NULL};
    VkShaderModuleCreateInfo code = {VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO, NULL, 0, sizeof copy_words,
                                     copy_words};
    VkComputePipelineCreateInfo pipeline;
    VkShaderModule module = VK_NULL_HANDLE;
    memset(&pipeline, 0, sizeof pipeline);
    CHECK(CALL(b, CreateDescriptorSetLayout)(b->device, &set, NULL, &b->set_layout) == VK_SUCCESS);
    CHECK(CALL(b, CreatePipelineLayout)(b->device, &layout, NULL, &b->layout) == VK_SUCCESS);
    CHECK(CALL(b, CreateShaderModule)(b->device, &code, NULL, &module) == VK_SUCCESS);
    pipeline.sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO;
    pipeline.stage.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO;
    pipeline.stage.stage = VK_SHADER_STAGE_COMPUTE_BIT;
    pipeline.stage.module = module;
    pipeline.stage.pName = "main";
    pipeline.layout = b->layout;
    CHECK(CALL(b, CreateComputePipelines)(b->device, VK_NULL_HANDLE, 1, &pipeline, NULL, &b->pipeline) == VK_SUCCESS);
    CALL(b, DestroyShaderModule)(b->device, module, NULL);
}

/* Makes a descriptor set for each pair of buffers that a dispatch may copy between. */
static void make_sets(bench *b) {
    VkDescriptorPoolSize size = {VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 2 * BUFFERS * BUFFERS};
    VkDescriptorPoolCreateInfo pool = {
        VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO, NULL, 0, BUFFERS * BUFFERS, 1, &size};
    VkDescriptorSetAllocateInfo info = {VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO, NULL, VK_NULL_HANDLE, 1,
                                        &b->set_layout};
    int from, to, i;
    CHECK(CALL(b, CreateDescriptorPool)(b->device, &pool, NULL, &b->descriptors) == VK_SUCCESS);
    info.descriptorPool = b->descriptors;
    for (from = 0; from < BUFFERS; from++) {
        for (to = 0; to < BUFFERS; to++) {
            VkDescriptorBufferInfo range[2] = {{b->buffers[from], 0, VK_WHOLE_SIZE},
                                               {b->buffers[to], 0, VK_WHOLE_SIZE}};
            CHECK(CALL(b, AllocateDescriptorSets)(b->device, &info, &b->sets[from][to]) == VK_SUCCESS);
            for (i = 0; i < 2; i++) {
                VkWriteDescriptorSet write = {
                    VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET, NULL, b->sets[from][to], (uint32_t)i, 0, 1,
                    VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,      NULL, &range[i],         NULL};
                CALL(b, UpdateDescriptorSets)(b->device, 1, &write, 0, NULL);
            }
        }
    }
}

static int open_bench(bench *b) {
    VkApplicationInfo app = {VK_STRUCTURE_TYPE_APPLICATION_INFO, NULL, NULL, 0, NULL, 0, VK_API_VERSION_1_2};
    VkInstanceCreateInfo info = {VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO, NULL, 0, &app, 0, NULL, 0, NULL};
    float priority = 1;
    VkDeviceQueueCreateInfo queue = {VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO, NULL, 0, 0, 1, &priority};
    VkDeviceCreateInfo device_info = {VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO, NULL, 0, 1, &queue, 0, NULL, 0, NULL, NULL};
    VkCommandPoolCreateInfo pool = {VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO, NULL, 0, 0};
    VkPhysicalDevice physical = NULL;
    uint32_t count = 1;
    int i;
    memset(b, 0, sizeof *b);
    if (!CHECK(CALL(b, CreateInstance)(&info, NULL, &b->instance) == VK_SUCCESS)) return 0;
    CALL(b, EnumeratePhysicalDevices)(b->instance, &count, &physical);
    if (!CHECK_MESSAGE(physical, "no Vulkan device: is VK_ICD_FILENAMES right?")) return 0;
    if (!CHECK(CALL(b, CreateDevice)(physical, &device_info, NULL, &b->device) == VK_SUCCESS)) return 0;
    CALL(b, GetDeviceQueue)(b->device, 0, 0, &b->queue);
    for (i = 0; i < BUFFERS; i++) {
        b->buffers[i] = make_buffer(b, WORDS * sizeof(uint32_t));
        b->memory[i] = bind_memory(b, b->buffers[i]);
    }
    make_pipeline(b);
    make_sets(b);
    return CHECK(CALL(b, CreateCommandPool)(b->device, &pool, NULL, &b->commands) == VK_SUCCESS);
}

static void close_bench(bench *b) {
    int i;
    if (b->device) {
        CALL(b, DestroyCommandPool)(b->device, b->commands, NULL);
        CALL(b, DestroyDescriptorPool)(b->device, b->descriptors, NULL);
        CALL(b, DestroyPipeline)(b->device, b->pipeline, NULL);
        CALL(b, DestroyPipelineLayout)(b->device, b->layout, NULL);
        CALL(b, DestroyDescriptorSetLayout)(b->device, b->set_layout, NULL);
        for (i = 0; i < BUFFERS; i++) {
            CALL(b, DestroyBuffer)(b->device, b->buffers[i], NULL);
            CALL(b, FreeMemory)(b->device, b->memory[i], NULL);
        }
        CALL(b, DestroyDevice)(b->device, NULL);
    }
    if (b->instance) CALL(b, DestroyInstance)(b->instance, NULL);
}

/* --- two dispatches --- */

typedef struct hazard {
    const char *name;
    int from, to; /* the buffers of the second dispatch; the first one copies buffer 0 to 1 */
    int old[2];   /* whether layers before 1.4 see it in one command buffer, in two submissions */
} hazard;

static const hazard hazards[] = {
    {"a read after a write", 1, 2, {1, 1}},
    {"a write after a write", 2, 1, {0, 1}},
    {"a write after a read", 2, 0, {1, 1}},
};

static VkCommandBuffer begin_commands(bench *b) {
    VkCommandBufferAllocateInfo info = {VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO, NULL, b->commands,
                                        VK_COMMAND_BUFFER_LEVEL_PRIMARY, 1};
    VkCommandBufferBeginInfo begin = {VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO, NULL, 0, NULL};
    VkCommandBuffer commands = NULL;
    CHECK(CALL(b, AllocateCommandBuffers)(b->device, &info, &commands) == VK_SUCCESS);
    CHECK(CALL(b, BeginCommandBuffer)(commands, &begin) == VK_SUCCESS);
    return commands;
}

static void record_barrier(bench *b, VkCommandBuffer commands) {
    VkMemoryBarrier barrier = {VK_STRUCTURE_TYPE_MEMORY_BARRIER, NULL, VK_ACCESS_SHADER_WRITE_BIT,
                               VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT};
    VkPipelineStageFlags compute = VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT;
    CALL(b, CmdPipelineBarrier)(commands, compute, compute, 0, 1, &barrier, 0, NULL, 0, NULL);
}

static void record_copy(bench *b, VkCommandBuffer commands, int from, int to) {
    CALL(b, CmdBindPipeline)(commands, VK_PIPELINE_BIND_POINT_COMPUTE, b->pipeline);
    CALL(b, CmdBindDescriptorSets)
    (commands, VK_PIPELINE_BIND_POINT_COMPUTE, b->layout, 0, 1, &b->sets[from][to], 0, NULL);
    CALL(b, CmdDispatch)(commands, WORDS, 1, 1);
}

static void submit(bench *b, VkCommandBuffer commands) {
    VkSubmitInfo info = {VK_STRUCTURE_TYPE_SUBMIT_INFO, NULL, 0, NULL, NULL, 1, &commands, 0, NULL};
    CHECK(CALL(b, EndCommandBuffer)(commands) == VK_SUCCESS);
    CHECK(CALL(b, QueueSubmit)(b->queue, 1, &info, VK_NULL_HANDLE) == VK_SUCCESS);
}

/* How many lines the layers write about them. */
static int lines_about(const hazard *hazard, int across, int with_barrier) {
    bench b;
    if (open_bench(&b)) {
        VkCommandBuffer commands = begin_commands(&b);
        record_copy(&b, commands, 0, 1);
        if (across) {
            submit(&b, commands);
            commands = begin_commands(&b);
        }
        if (with_barrier) record_barrier(&b, commands);
        record_copy(&b, commands, hazard->from, hazard->to);
        submit(&b, commands);
        CALL(&b, QueueWaitIdle)(b.queue);
    }
    close_bench(&b);
    return test_layer_messages();
}

static int lines_about_wrong_call(void) {
    bench b;
    if (open_bench(&b)) CALL(&b, DestroyBuffer)(b.device, make_buffer(&b, 0), NULL);
    close_bench(&b);
    return test_layer_messages();
}

int main(void) {
    static const char *const where[2] = {"in one command buffer", "in two submissions"};
    int newest, across;
    size_t i;
    test_vulkan_begin();
    newest = test_layer_version() >= VK_MAKE_API_VERSION(0, 1, 4, 0);
    test_layers.printed = 0;
    CHECK_MESSAGE(lines_about_wrong_call() > 0, "a buffer of size 0 went unnoticed");
    for (i = 0; test_layers.on && i < sizeof hazards / sizeof *hazards; i++) {
        for (across = 0; across < 2; across++) {
            int lines = lines_about(&hazards[i], across, 0);
            printf("%s %s: %s\n", hazards[i].name, where[across], lines ? "seen" : "not seen");
            CHECK_MESSAGE(lines > 0 || !(newest || hazards[i].old[across]), "%s %s went unnoticed", hazards[i].name,
                          where[across]);
            CHECK_MESSAGE(lines_about(&hazards[i], across, 1) == 0, "right calls were objected to: %s %s",
                          hazards[i].name, where[across]);
        }
    }
    test_vulkan_end();
    return TEST_END("layers");
}
