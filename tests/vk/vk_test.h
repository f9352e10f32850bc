/* Tests of the vk room share a counting environment, the opening of devices and a small shader. Include after dit.h. */
#ifndef VK_TEST_H
#define VK_TEST_H
#include "vulkan_test.h"

static int test_blocks;    /* host allocations that live */
static char test_log[600]; /* the newest line about the cache blob */

static void *test_alloc(size_t size, size_t align, void *user) {
    void *memory = test_block(size, align);
    (void)user;
    if (memory) __atomic_add_fetch(&test_blocks, 1, __ATOMIC_RELAXED);
    return memory;
}

static void test_free(void *memory, size_t size, void *user) {
    (void)size, (void)user;
    __atomic_sub_fetch(&test_blocks, 1, __ATOMIC_RELAXED);
    free(memory);
}

static void test_log_line(int level, const char *message, void *user) {
    (void)level, (void)user;
    if (strstr(message, "cache blob")) snprintf(test_log, sizeof test_log, "%s", message);
}

static diti_env test_env(void) {
    diti_env env = {{test_alloc, test_free, NULL}, {NULL, DITI_LOG_INFO, NULL}, false};
    env.logger.func = test_log_line;
    return env;
}

static diti_device *test_open_desc(const dit_context_desc *desc, dit_error *err) {
    diti_env env = test_env();
    diti_device *device = NULL;
    memset(err, 0, sizeof *err);
    if (diti_device_open(desc, &env, &device, err) < 0) return NULL;
    return device;
}

static diti_device *test_open(const char *overrides) {
    dit_context_desc desc = {0};
    dit_error err;
    diti_device *device;
    desc.overrides = overrides;
    device = test_open_desc(&desc, &err);
    CHECK_MESSAGE(device, "%s: %s", overrides ? overrides : "defaults", err.message);
    return device;
}

/* The embedded module that is compiled fastest. */
static diti_kernel test_smallest_module(void) {
    const diti_spirv_module *table = diti_spirv_table();
    uint32_t i, best = 0;
    for (i = 0; i < DITI_KERNELS; i++) {
        if (table[i].word_count < table[best].word_count) best = i;
    }
    return (diti_kernel)best;
}

/* b[i] = a[i] * factor + i for i < count; a: binding 0, b: binding 7, constants: workgroup size, factor;
   push constants: first workgroup, count.
     layout(local_size_x_id = 0) in;
     layout(constant_id = 1) const uint factor = 1;
     layout(set = 0, binding = 0) readonly buffer A { uint a[]; };
     layout(set = 0, binding = 7) buffer B { uint b[]; };
     layout(push_constant) uniform P { uint first, count; } p;
     void main() {
         uint i = (gl_WorkGroupID.x + p.first) * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
         if (i < p.count) b[i] = a[i] * factor + i;
     } */
static const uint32_t test_shader[] = {
    0x7230203,  0x10500, 0x8000b, 0x3c,    0,       0x20011, 1,       0x6000b, 1,          0x4c534c47, 0x6474732e,
    0x3035342e, 0,       0x3000e, 0,       1,       0xa000f, 5,       4,       0x6e69616d, 0,          0xb,
    0x12,       0x1e,    0x2d,    0x32,    0x60010, 4,       0x11,    1,       1,          1,          0x40047,
    0xb,        0xb,     0x1a,    0x50048, 0x10,    0,       0x23,    0,       0x50048,    0x10,       1,
    0x23,       4,       0x30047, 0x10,    2,       0x40047, 0x19,    1,       0,          0x40047,    0x1b,
    0xb,        0x19,    0x40047, 0x1e,    0xb,     0x1b,    0x40047, 0x2a,    6,          4,          0x50048,
    0x2b,       0,       0x23,    0,       0x30047, 0x2b,    2,       0x40047, 0x2d,       0x22,       0,
    0x40047,    0x2d,    0x21,    7,       0x40047, 0x2f,    6,       4,       0x40048,    0x30,       0,
    0x18,       0x50048, 0x30,    0,       0x23,    0,       0x30047, 0x30,    2,          0x40047,    0x32,
    0x22,       0,       0x40047, 0x32,    0x21,    0,       0x40047, 0x37,    1,          1,          0x20013,
    2,          0x30021, 3,       2,       0x40015, 6,       0x20,    0,       0x40017,    9,          6,
    3,          0x40020, 0xa,     1,       9,       0x4003b, 0xa,     0xb,     1,          0x4002b,    6,
    0xc,        0,       0x40020, 0xd,     1,       6,       0x4001e, 0x10,    6,          6,          0x40020,
    0x11,       9,       0x10,    0x4003b, 0x11,    0x12,    9,       0x40015, 0x13,       0x20,       1,
    0x4002b,    0x13,    0x14,    0,       0x40020, 0x15,    9,       6,       0x40032,    6,          0x19,
    1,          0x4002b, 6,       0x1a,    1,       0x60033, 9,       0x1b,    0x19,       0x1a,       0x1a,
    0x4003b,    0xa,     0x1e,    1,       0x4002b, 0x13,    0x23,    1,       0x20014,    0x26,       0x3001d,
    0x2a,       6,       0x3001e, 0x2b,    0x2a,    0x40020, 0x2c,    0xc,     0x2b,       0x4003b,    0x2c,
    0x2d,       0xc,     0x3001d, 0x2f,    6,       0x3001e, 0x30,    0x2f,    0x40020,    0x31,       0xc,
    0x30,       0x4003b, 0x31,    0x32,    0xc,     0x40020, 0x34,    0xc,     6,          0x40032,    6,
    0x37,       1,       0x50036, 2,       4,       0,       3,       0x200f8, 5,          0x50041,    0xd,
    0xe,        0xb,     0xc,     0x4003d, 6,       0xf,     0xe,     0x50041, 0x15,       0x16,       0x12,
    0x14,       0x4003d, 6,       0x17,    0x16,    0x50080, 6,       0x18,    0xf,        0x17,       0x50051,
    6,          0x1c,    0x1b,    0,       0x50084, 6,       0x1d,    0x18,    0x1c,       0x50041,    0xd,
    0x1f,       0x1e,    0xc,     0x4003d, 6,       0x20,    0x1f,    0x50080, 6,          0x21,       0x1d,
    0x20,       0x50041, 0x15,    0x24,    0x12,    0x23,    0x4003d, 6,       0x25,       0x24,       0x500b0,
    0x26,       0x27,    0x21,    0x25,    0x300f7, 0x29,    0,       0x400fa, 0x27,       0x28,       0x29,
    0x200f8,    0x28,    0x60041, 0x34,    0x35,    0x32,    0x14,    0x21,    0x4003d,    6,          0x36,
    0x35,       0x50084, 6,       0x38,    0x36,    0x37,    0x50080, 6,       0x3a,       0x38,       0x21,
    0x60041,    0x34,    0x3b,    0x2d,    0x14,    0x21,    0x3003e, 0x3b,    0x3a,       0x200f9,    0x29,
    0x200f8,    0x29,    0x100fd, 0x10038,
};

typedef struct test_dispatch {
    VkPipeline pipeline;
    VkDescriptorSet set;
    uint32_t push[2], groups;
} test_dispatch;

static void test_record_dispatch(diti_device *device, VkCommandBuffer commands, void *user) {
    const test_dispatch *dispatch = (const test_dispatch *)user;
    VkMemoryBarrier barrier = {VK_STRUCTURE_TYPE_MEMORY_BARRIER, NULL, VK_ACCESS_SHADER_WRITE_BIT,
                               VK_ACCESS_TRANSFER_READ_BIT | VK_ACCESS_HOST_READ_BIT};
    device->vk.CmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_COMPUTE, dispatch->pipeline);
    device->vk.CmdBindDescriptorSets(commands, VK_PIPELINE_BIND_POINT_COMPUTE, device->pipeline_layout, 0, 1,
                                     &dispatch->set, 0, NULL);
    device->vk.CmdPushConstants(commands, device->pipeline_layout, VK_SHADER_STAGE_COMPUTE_BIT, 0, 8, dispatch->push);
    device->vk.CmdDispatch(commands, dispatch->groups, 1, 1);
    device->vk.CmdPipelineBarrier(commands, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT,
                                  VK_PIPELINE_STAGE_TRANSFER_BIT | VK_PIPELINE_STAGE_HOST_BIT, 0, 1, &barrier, 0, NULL,
                                  0, NULL);
}

static VkDescriptorSet test_descriptors(diti_device *device, VkDescriptorPool *pool, const diti_buffer *a,
                                        const diti_buffer *b) {
    VkDescriptorPoolSize size = {VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, DITI_MAX_BINDINGS};
    VkDescriptorPoolCreateInfo info = {VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO, NULL, 0, 1, 1, &size};
    VkDescriptorSetAllocateInfo allocate = {VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO, NULL, VK_NULL_HANDLE, 1,
                                            &device->set_layout};
    VkDescriptorBufferInfo buffers[2] = {{a->buffer, 0, a->size}, {b->buffer, 0, b->size}};
    VkWriteDescriptorSet writes[2] = {{0}};
    VkDescriptorSet set = VK_NULL_HANDLE;
    int i;
    if (device->vk.CreateDescriptorPool(device->device, &info, NULL, pool) < 0) return VK_NULL_HANDLE;
    allocate.descriptorPool = *pool;
    if (device->vk.AllocateDescriptorSets(device->device, &allocate, &set) < 0) return VK_NULL_HANDLE;
    for (i = 0; i < 2; i++) {
        writes[i].sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET;
        writes[i].dstSet = set;
        writes[i].dstBinding = i ? 7 : 0;
        writes[i].descriptorCount = 1;
        writes[i].descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER;
        writes[i].pBufferInfo = &buffers[i];
    }
    device->vk.UpdateDescriptorSets(device->device, 2, writes, 0, NULL);
    return set;
}

/* Runs the shader over `count` numbers and compares: the device computes, end to end. Checks nothing itself, so that
   threads may call it. */
static dit_result test_compute(diti_device *device, uint32_t count, uint32_t factor, dit_error *err) {
    uint32_t *numbers = (uint32_t *)malloc(count * 4), i, wrong = 0;
    diti_pipeline key = {0};
    diti_pipeline_constants constants;
    diti_buffer a = {0}, b = {0};
    VkDescriptorPool pool = VK_NULL_HANDLE;
    test_dispatch dispatch = {0};
    dit_result result;
    key.constants[0] = 64, key.constants[1] = factor, key.stated = DITI_STATED(2);
    diti_pipeline_specialize(device, &key, &constants);
    for (i = 0; i < count; i++) numbers[i] = i * 2654435761u;
    result = diti_buffer_create(device, count * 4, DITI_MEMORY_DEVICE, "a", &a, err);
    if (result >= 0) result = diti_buffer_create(device, count * 4, DITI_MEMORY_DEVICE, "b", &b, err);
    if (result >= 0) result = diti_buffer_write(device, &a, 0, numbers, count * 4, err);
    if (result >= 0 && diti_pipeline_from_words(device, test_shader, DITI_COUNT(test_shader), &key, &constants.info,
                                                &key.pipeline) < 0) {
        key.pipeline = VK_NULL_HANDLE;
        result = diti_fail(err, DIT_ERROR_VULKAN, "no pipeline");
    }
    if (result >= 0) dispatch.set = test_descriptors(device, &pool, &a, &b);
    if (result >= 0 && !dispatch.set) result = diti_fail(err, DIT_ERROR_VULKAN, "no descriptor set");
    dispatch.pipeline = key.pipeline;
    dispatch.push[1] = count;
    dispatch.groups = (count + 63) / 64;
    if (result >= 0) result = diti_run_now(device, test_record_dispatch, &dispatch, err);
    if (result >= 0) result = diti_buffer_read(device, &b, 0, numbers, count * 4, err);
    for (i = 0; result >= 0 && i < count; i++) wrong += numbers[i] != i * 2654435761u * factor + i;
    if (wrong) result = diti_fail(err, DIT_ERROR_VULKAN, "%u of %u numbers are wrong", wrong, count);
    if (pool) device->vk.DestroyDescriptorPool(device->device, pool, NULL);
    if (key.pipeline) device->vk.DestroyPipeline(device->device, key.pipeline, NULL);
    diti_buffer_destroy(device, &a);
    diti_buffer_destroy(device, &b);
    free(numbers);
    return result;
}
#endif
