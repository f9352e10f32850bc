/* Every Vulkan call and every host allocation of the vk room fails once, in each way that it can: each time there must
   be a clean error or a way around it, nothing may be left behind, and the validation layers must stay silent.
   test-runs: sanitize swiftshader, in test-all lavapipe */
#include "library.h"
#include "vk/pipeline.c"
#include "vulkan_test.h"
#include "vk_test.h"
#include "vulkan_faults.h"

static unsigned char blob[1 << 16];
static size_t blob_size;

/* Calls everything that the room offers, once. */
static dit_result use_device(diti_device *device, dit_error *err) {
    unsigned char save[1 << 16], bytes[500] = {1, 2, 3};
    VkSemaphore timeline = VK_NULL_HANDLE;
    VkPipeline pipeline;
    diti_buffer upload = {0}, readback = {0};
    size_t size = 0;
    uint64_t value;
    dit_result result = diti_buffer_create(device, 500, DITI_MEMORY_UPLOAD, "upload", &upload, err);
    if (result >= 0) result = diti_buffer_create(device, 500, DITI_MEMORY_READBACK, "readback", &readback, err);
    if (result >= 0) result = diti_buffer_write(device, &upload, 0, bytes, 500, err);
    if (result >= 0) result = diti_buffer_read(device, &readback, 0, bytes, 500, err);
    if (result >= 0) result = test_compute(device, 300, 3, err);
    if (result >= 0) result = diti_timeline_create(device, &timeline, err);
    if (result >= 0) result = diti_submit(device, NULL, 0, timeline, 1, err);
    if (result >= 0) result = diti_timeline_wait(device, timeline, 1, UINT64_MAX, err);
    if (result >= 0) result = diti_timeline_value(device, timeline, &value, err);
    if (result >= 0) result = diti_pipeline_get(device, test_smallest_module(), NULL, 0, &pipeline, err);
    if (result >= 0) result = diti_cache_save(device, NULL, &size, err);
    if (result >= 0) result = diti_cache_save(device, save, &size, err);
    if (result >= 0) memcpy(blob, save, blob_size = size);
    if (timeline) {
        diti_queue_idle(device); /* as every owner does: a wait that failed may have left it in use */
        device->vk.DestroySemaphore(device->device, timeline, NULL);
    }
    diti_buffer_destroy(device, &upload);
    diti_buffer_destroy(device, &readback);
    return result;
}

static dit_result use(const diti_env *env, const char *overrides, dit_error *err) {
    dit_vulkan through = {0};
    dit_context_desc desc = {0};
    diti_device *device = NULL;
    dit_result result;
    through.get_instance_proc_addr = fault_get_instance_proc_addr;
    desc.vulkan = &through;
    desc.vulkan_count = 1;
    desc.cache = blob;
    desc.cache_size = blob_size;
    desc.overrides = overrides;
    result = diti_device_open(&desc, env, &device, err);
    if (result >= 0)
        result = use_device(device, err);
    else
        CHECK(!device);
    if (device && device->unified) CHECK(device->memory_used == device->staging.charged);
    diti_device_close(device);
    return result;
}

static void sweep_calls(const char *overrides, VkResult code) {
    diti_env env = test_env();
    unsigned n, calls, errors = 0;
    dit_error err = {0};
    fault_begin(0, code);
    CHECK_MESSAGE(use(&env, overrides, &err) == DIT_OK, "%s", err.message);
    calls = fault_calls;
    CHECK(calls > (code == VK_ERROR_DEVICE_LOST ? 8 : 30));
    for (n = 1; n <= calls; n++) {
        dit_result result;
        memset(&err, 0, sizeof err);
        fault_begin(n, code);
        result = use(&env, overrides, &err);
        CHECK_MESSAGE(fault_name, "call %u of %u did not happen", n, calls);
        CHECK_MESSAGE(result >= 0 || (err.message[0] && err.result == result), "call %u, %s", n, fault_name);
        CHECK_MESSAGE(code != VK_ERROR_DEVICE_LOST || !fault_lost || result == DIT_ERROR_DEVICE_LOST, "call %u, %s", n,
                      fault_name);
        CHECK_MESSAGE(test_blocks == 0, "call %u, %s: %d blocks are left", n, fault_name, test_blocks);
        test_blocks = 0;
        if (fault_name && !strcmp(fault_name, "vkGetPipelineCacheData") && code != VK_ERROR_DEVICE_LOST)
            CHECK_MESSAGE(result >= 0 || strstr(err.message, "the cache blob needs"),
                          "call %u: a blob without the driver's data is good, too: %s", n, err.message);
        else
            errors += result < 0;
    }
    CHECK_MESSAGE(errors * 10 > calls * 7, "only %u of %u failed calls were errors", errors, calls);
}

static unsigned alloc_calls, alloc_fails_at;

static void *alloc_or_fail(size_t size, size_t align, void *user) {
    return ++alloc_calls == alloc_fails_at ? NULL : test_alloc(size, align, user);
}

static void sweep_allocations(void) {
    diti_env env = test_env();
    unsigned n, calls;
    dit_error err = {0};
    env.allocator.alloc = alloc_or_fail;
    fault_begin(0, VK_SUCCESS);
    alloc_calls = alloc_fails_at = 0;
    CHECK_MESSAGE(use(&env, NULL, &err) == DIT_OK, "%s", err.message);
    calls = alloc_calls;
    CHECK(calls >= 4);
    for (n = 1; n <= calls; n++) {
        dit_result result;
        memset(&err, 0, sizeof err);
        alloc_calls = 0;
        alloc_fails_at = n;
        result = use(&env, NULL, &err);
        CHECK_MESSAGE(result >= 0 || result == DIT_ERROR_OUT_OF_HOST_MEMORY, "allocation %u: %s", n, err.message);
        CHECK_MESSAGE(test_blocks == 0, "allocation %u: %d blocks are left", n, test_blocks);
        test_blocks = 0;
    }
}

int main(void) {
    test_vulkan_begin();
    sweep_calls(NULL, VK_ERROR_OUT_OF_HOST_MEMORY);
    sweep_calls("mapped=0,staging=700", VK_ERROR_OUT_OF_DEVICE_MEMORY);
    sweep_calls(NULL, VK_ERROR_DEVICE_LOST);
    sweep_allocations();
    test_vulkan_end();
    return TEST_END("vk_faults");
}
