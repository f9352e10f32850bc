/* The vk room on a device: memory and copies, pipelines, submission and waiting, the cache blob. devices.c has how
   devices are chosen, opened and wrapped. test-runs: lavapipe swiftshader sanitize discrete */
#include "library.h"
#include "vk/pipeline.c"
#include "vk/cache.c"
#include "vulkan_test.h"
#include "vk_test.h"
#include <pthread.h>
#include <time.h>

/* --- memory --- */

/* The largest allocation and the limit on all of them, of devices as their drivers describe them. */
static void memory_limits(void) {
    const VkDeviceSize MB = 1 << 20, GB = (VkDeviceSize)1 << 30;
    static const char *const names[] = {"T4", "7900 XTX", "a phone", "SwiftShader", "lavapipe", "no maintenance4"};
    const struct {
        VkDeviceSize allocation, buffer, heap, largest;
    } devices[] = {{4 * GB - 2 * MB, 1024 * GB, 15 * GB, 4 * GB - 2 * MB},
                   {4 * GB - 4, 4 * GB - 4, 24 * GB, 4 * GB - 4},
                   {GB, 2 * GB, 4 * GB, GB / 2},
                   {GB, GB, 2 * GB, GB / 2},
                   {2 * GB, 4 * GB - 1, 2 * GB, GB},
                   {64 * GB, 0, 48 * GB, 24 * GB}};
    size_t i;
    for (i = 0; i < sizeof devices / sizeof devices[0]; i++)
        CHECK_MESSAGE(diti_memory_largest(devices[i].allocation, devices[i].buffer, devices[i].heap) ==
                          devices[i].largest,
                      "%s", names[i]);
    CHECK(diti_memory_share(10000 * MB) == 9000 * MB - 256 * MB && diti_memory_share(300 * MB) == 150 * MB);
    CHECK(diti_memory_share(0) == 0 && diti_memory_share(1) == 1);
}

/* The ways a memory type can be chosen, on made-up boards. */
static void memory_types(void) {
    enum { L = 1, V = 2, C = 4, H = 8 }; /* device local, host visible, coherent, cached */
    static const struct {
        VkMemoryPropertyFlags types[5];
        uint32_t bits, device, upload, readback;
    } boards[] = {
        {{L, V | C, V | C | H, L | V | C, 0}, 31, 0, 1, 2},         /* discrete, with a window */
        {{0, L, V | C, V | C | H, L | V | C}, 31, 1, 2, 3},         /* the same in another order */
        {{L | V | C | H, 0, 0, 0, 0}, 1, 0, 0, 0},                  /* software */
        {{L, L | V | C, L | V | H, L | V | C | H, 0}, 15, 0, 1, 3}, /* unified */
        {{L, L | V | C, L | V | H, 0, 0}, 7, 0, 1, 2},              /* unified, cached memory not coherent */
        {{L, V | C, V | C | H, L | V | C, 0}, 12, 3, 2, 2},         /* bits exclude the best */
        {{L | 32, L | 64, V | C, L | 16, L | V | C}, 31, 4, 2, 2},  /* protected, AMD's and lazy ones are never taken */
    };
    uint32_t i, j, type = 99;
    for (i = 0; i < DITI_COUNT(boards); i++) {
        diti_device device = {0};
        device.memory.memoryTypeCount = 5;
        for (j = 0; j < 5; j++) device.memory.memoryTypes[j].propertyFlags = boards[i].types[j];
        CHECK_MESSAGE(diti_memory_type(&device, boards[i].bits, DITI_MEMORY_DEVICE, &type) && type == boards[i].device,
                      "board %u: device memory is type %u", i, type);
        CHECK_MESSAGE(diti_memory_type(&device, boards[i].bits, DITI_MEMORY_UPLOAD, &type) && type == boards[i].upload,
                      "board %u: upload memory is type %u", i, type);
        CHECK_MESSAGE(diti_memory_type(&device, boards[i].bits, DITI_MEMORY_READBACK, &type) &&
                          type == boards[i].readback,
                      "board %u: readback memory is type %u", i, type);
    }
}

static void fill(unsigned char *data, size_t size, uint32_t seed) {
    size_t i;
    for (i = 0; i < size; i++) {
        seed = seed * 1664525u + 1013904223u;
        data[i] = (unsigned char)(seed >> 24);
    }
}

/* Writes and reads at odd places, and checks the bytes around. */
static void copies(diti_device *device, diti_memory_kind kind) {
    enum { SIZE = 100003 };
    static const size_t places[][2] = {{0, SIZE},    {1, 1},         {SIZE - 1, 1}, {3, 4097},
                                       {4096, 4096}, {50001, 50002}, {SIZE, 0},     {7, 0}};
    static unsigned char mirror[SIZE], back[SIZE], part[SIZE];
    diti_buffer buffer;
    dit_error err = {0};
    size_t i;
    if (!CHECK(diti_buffer_create(device, SIZE, kind, "copies", &buffer, &err) == DIT_OK)) return;
    CHECK(buffer.size == SIZE && buffer.kind == kind);
    CHECK(kind == DITI_MEMORY_DEVICE || buffer.block.mapped);
    fill(mirror, SIZE, 1);
    CHECK(diti_buffer_write(device, &buffer, 0, mirror, SIZE, &err) == DIT_OK);
    for (i = 0; i < DITI_COUNT(places); i++) {
        fill(part, places[i][1], (uint32_t)i + 2);
        memcpy(mirror + places[i][0], part, places[i][1]);
        CHECK(diti_buffer_write(device, &buffer, places[i][0], part, places[i][1], &err) == DIT_OK);
        memset(back, 0, SIZE);
        CHECK(diti_buffer_read(device, &buffer, places[i][0], back, places[i][1], &err) == DIT_OK);
        CHECK(!memcmp(back, part, places[i][1]));
    }
    CHECK(diti_buffer_read(device, &buffer, 0, back, SIZE, &err) == DIT_OK && !memcmp(back, mirror, SIZE));
    CHECK(diti_buffer_write(device, &buffer, SIZE, part, 1, &err) == DIT_ERROR_INVALID_ARGUMENT);
    CHECK(diti_buffer_write(device, &buffer, 1, part, SIZE, &err) == DIT_ERROR_INVALID_ARGUMENT);
    CHECK(diti_buffer_read(device, &buffer, UINT64_MAX, part, 2, &err) == DIT_ERROR_INVALID_ARGUMENT);
    CHECK(diti_buffer_read(device, &buffer, 2, part, UINT64_MAX, &err) == DIT_ERROR_INVALID_ARGUMENT);
    diti_buffer_flush(device, &buffer);
    diti_buffer_invalidate(device, &buffer);
    diti_buffer_destroy(device, &buffer);
    CHECK(!buffer.buffer && !buffer.block.memory);
    diti_buffer_destroy(device, &buffer); /* a zeroed one is fine */
}

static void memory(const char *overrides) {
    diti_device *device = test_open(overrides);
    diti_buffer buffer, other;
    dit_error err = {0};
    if (!device) return;
    copies(device, DITI_MEMORY_DEVICE);
    copies(device, DITI_MEMORY_UPLOAD);
    copies(device, DITI_MEMORY_READBACK);
    CHECK(device->memory_used == (device->unified ? device->staging.charged : 0));
    CHECK(diti_buffer_create(device, 0, DITI_MEMORY_DEVICE, "nothing", &buffer, &err) < 0 &&
          strstr(err.message, "nothing"));
    CHECK(diti_buffer_create(device, device->limits.allocation + 1, DITI_MEMORY_DEVICE, "all", &buffer, &err) ==
          DIT_ERROR_OUT_OF_DEVICE_MEMORY);
    device->memory_limit = device->memory_used + 3000000;
    CHECK(diti_buffer_create(device, 2000000, DITI_MEMORY_DEVICE, "first", &buffer, &err) == DIT_OK);
    CHECK(diti_buffer_create(device, 2000000, DITI_MEMORY_DEVICE, "second", &other, &err) ==
          DIT_ERROR_OUT_OF_DEVICE_MEMORY);
    CHECK(!other.buffer && strstr(err.message, "second") && strstr(err.message, "device_memory_limit"));
    diti_buffer_destroy(device, &buffer);
    CHECK(diti_buffer_create(device, 2000000, DITI_MEMORY_DEVICE, "second", &other, &err) == DIT_OK);
    diti_buffer_destroy(device, &other);
    diti_device_close(device);
    CHECK(test_blocks == 0);
}

/* Memory that is not coherent must be flushed and invalidated. No driver at hand has such a type, so one is said to be:
   the calls are then made, and the layers look at them. */
static void incoherent(void) {
    diti_device *device = test_open("mapped=0,staging=1000");
    uint32_t i;
    if (!device) return;
    for (i = 0; i < device->memory.memoryTypeCount; i++) {
        device->memory.memoryTypes[i].propertyFlags &= ~(VkMemoryPropertyFlags)VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
    }
    copies(device, DITI_MEMORY_READBACK);
    copies(device, DITI_MEMORY_DEVICE);
    CHECK(!device->staging.coherent);
    diti_device_close(device);
}

/* Uploads weights as to a GPU whose memory the host cannot see: many chunks, several buffers. */
static void large_write(void) {
    diti_device *device = test_open("mapped=0,staging=1M,allocation=100M");
    size_t size = (size_t)100 << 20, i;
    unsigned char *data = (unsigned char *)malloc(size), *back = (unsigned char *)malloc(size);
    diti_buffer buffers[3];
    dit_error err = {0};
    if (!device || !data || !back) return;
    memset(buffers, 0, sizeof buffers);
    fill(data, size, 7);
    for (i = 0; i < 3; i++) {
        CHECK(diti_buffer_create(device, size, DITI_MEMORY_DEVICE, "large", &buffers[i], &err) == DIT_OK);
        CHECK(!buffers[i].block.mapped);
        data[size - 1] = (unsigned char)i;
        CHECK(diti_buffer_write(device, &buffers[i], 0, data, size, &err) == DIT_OK);
    }
    CHECK(device->submits == 300);
    for (i = 0; i < 3; i++) {
        data[size - 1] = (unsigned char)i;
        CHECK(diti_buffer_read(device, &buffers[i], 0, back, size, &err) == DIT_OK && !memcmp(data, back, size));
        diti_buffer_destroy(device, &buffers[i]);
    }
    diti_device_close(device);
    free(data);
    free(back);
}

/* --- the application's allocator: bump allocation from one block, as an engine's would be --- */

typedef struct arena {
    diti_device *device;
    VkDeviceMemory memory;
    unsigned char *mapped;
    VkDeviceSize used;
    int allocated, freed, refuse, unmapped;
} arena;

static VkResult arena_alloc(uint32_t device, const VkMemoryRequirements *need, VkMemoryPropertyFlags required,
                            VkMemoryPropertyFlags preferred, dit_block *out, void *user) {
    arena *from = (arena *)user;
    CHECK(device == 0 && need->size > 0);
    CHECK(required == 0 || required == (VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT));
    CHECK(required || preferred == VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT);
    if (from->refuse) return VK_ERROR_OUT_OF_DEVICE_MEMORY;
    from->used = (from->used + need->alignment - 1) / need->alignment * need->alignment;
    out->memory = from->memory;
    out->offset = from->used;
    out->size = need->size;
    out->mapped = from->unmapped ? NULL : from->mapped + from->used;
    out->handle = from;
    from->used += need->size;
    from->allocated++;
    return VK_SUCCESS;
}

static void arena_free(uint32_t device, const dit_block *block, void *user) {
    arena *from = (arena *)user;
    CHECK(device == 0 && block->handle == from && block->memory == from->memory);
    CHECK((block->mapped != NULL) == !from->unmapped);
    from->freed++;
}

static void allocator_hooks(const char *overrides) {
    VkMemoryAllocateInfo info = {VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO, NULL, 8 << 20, 0};
    diti_device *device = test_open(overrides);
    diti_buffer buffer;
    arena from = {0};
    dit_error err = {0};
    if (!device) return;
    if (!device->unified) { /* type 0 may be of any kind there */
        diti_device_close(device);
        return;
    }
    CHECK(device->vk.AllocateMemory(device->device, &info, NULL, &from.memory) == 0);
    CHECK(device->vk.MapMemory(device->device, from.memory, 0, VK_WHOLE_SIZE, 0, (void **)&from.mapped) == 0);
    device->allocator.alloc = arena_alloc;
    device->allocator.free = arena_free;
    device->allocator.user = &from;
    copies(device, DITI_MEMORY_DEVICE);
    copies(device, DITI_MEMORY_UPLOAD);
    copies(device, DITI_MEMORY_READBACK);
    from.refuse = 1;
    CHECK(diti_buffer_create(device, 100, DITI_MEMORY_DEVICE, "refused", &buffer, &err) ==
          DIT_ERROR_OUT_OF_DEVICE_MEMORY);
    CHECK(strstr(err.message, "refused") && strstr(err.message, "device_allocator"));
    from.refuse = 0;
    diti_staging_free(device);
    CHECK(from.allocated == from.freed && from.allocated >= 3);
    from.unmapped = 1;
    CHECK(diti_buffer_create(device, 100, DITI_MEMORY_UPLOAD, "unmapped", &buffer, &err) == DIT_ERROR_INVALID_ARGUMENT);
    CHECK(diti_buffer_create(device, 100, DITI_MEMORY_DEVICE, "unmapped", &buffer, &err) == DIT_OK);
    CHECK(!buffer.block.mapped);
    diti_buffer_destroy(device, &buffer);
    CHECK(from.allocated == from.freed && device->memory_used == 0);
    device->vk.FreeMemory(device->device, from.memory, NULL);
    memset(&device->allocator, 0, sizeof device->allocator);
    diti_device_close(device);
}

static void hooks_in_pairs(void) {
    dit_context_desc desc = {0};
    dit_error err;
    desc.device_allocator.alloc = arena_alloc;
    CHECK(!test_open_desc(&desc, &err) && strstr(err.message, "device_allocator"));
    desc.device_allocator.alloc = NULL;
    desc.device_allocator.free = arena_free;
    CHECK(!test_open_desc(&desc, &err) && err.result == DIT_ERROR_INVALID_ARGUMENT);
}

/* --- computing, waiting, losing --- */

static void compute(void) {
    diti_device *device = test_open(NULL);
    dit_error err = {0};
    if (!device) return;
    CHECK_MESSAGE(test_compute(device, 1000, 3, &err) == DIT_OK, "%s", err.message);
    CHECK_MESSAGE(test_compute(device, 65, 0x80000001u, &err) == DIT_OK, "%s", err.message);
    diti_device_close(device);
}

static void pipelines(void) {
    diti_device *device = test_open("fail_pipeline=2");
    VkPipeline first, again, second;
    diti_kernel kernel = test_smallest_module();
    uint32_t constants[DITI_MAX_CONSTANTS] = {64};
    dit_error err = {0};
    if (!device) return;
    CHECK(diti_pipeline_get(device, kernel, constants, 1u << DITI_MAX_CONSTANTS, &first, &err) ==
          DIT_ERROR_INVALID_ARGUMENT);
    CHECK(diti_pipeline_get(device, DITI_KERNELS, NULL, 0, &first, &err) == DIT_ERROR_INVALID_ARGUMENT);
    CHECK_MESSAGE(diti_pipeline_get(device, kernel, NULL, 0, &first, &err) == DIT_OK, "%s", err.message);
    CHECK(diti_pipeline_get(device, kernel, NULL, 0, &again, &err) == DIT_OK && again == first);
    CHECK(device->pipelines_compiled == 1);
    CHECK(diti_pipeline_get(device, kernel, constants, 1, &second, &err) == DIT_ERROR_VULKAN && !second);
    CHECK(strstr(err.message, diti_kernel_name(kernel)));
    CHECK(device->pipelines_compiled == 1);
    device->fail_pipeline_after = 0;
    snprintf(device->fail_pipeline, sizeof device->fail_pipeline, "%s:0=64", diti_kernel_name(kernel));
    CHECK(diti_pipeline_get(device, kernel, constants, 1, &second, &err) == DIT_ERROR_VULKAN && !second);
    snprintf(device->fail_pipeline, sizeof device->fail_pipeline, "%s", diti_kernel_name(kernel));
    CHECK(diti_pipeline_get(device, kernel, constants, 1, &second, &err) == DIT_ERROR_VULKAN && !second);
    snprintf(device->fail_pipeline, sizeof device->fail_pipeline, "%s:0=63", diti_kernel_name(kernel));
    CHECK(diti_pipeline_get(device, kernel, constants, 1, &second, &err) == DIT_OK && second != first);
    CHECK(device->pipelines_compiled == 2);
    constants[1] = 7; /* which nobody states */
    CHECK(diti_pipeline_get(device, kernel, constants, 1, &again, &err) == DIT_OK && again == second);
    CHECK(device->pipelines_compiled == 2);
    diti_device_close(device);
    CHECK(test_blocks == 0);
}

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void timelines(void) {
    diti_device *device = test_open(NULL);
    VkSemaphore timeline = VK_NULL_HANDLE;
    uint64_t value = 99;
    dit_error err = {0};
    double start;
    if (!device) return;
    CHECK(diti_timeline_create(device, &timeline, &err) == DIT_OK);
    CHECK(diti_timeline_value(device, timeline, &value, &err) == DIT_OK && value == 0);
    CHECK(diti_timeline_wait(device, timeline, 0, 0, &err) == DIT_OK);
    CHECK(diti_timeline_wait(device, timeline, 1, 0, &err) == DIT_WORKING);
    start = seconds();
    CHECK(diti_timeline_wait(device, timeline, 1, 20 * 1000 * 1000, &err) == DIT_WORKING);
    CHECK(seconds() - start > 0.015);
    CHECK(diti_submit(device, NULL, 0, timeline, 5, &err) == DIT_OK);
    CHECK(diti_timeline_wait(device, timeline, 5, UINT64_MAX, &err) == DIT_OK);
    CHECK(diti_timeline_value(device, timeline, &value, &err) == DIT_OK && value == 5);
    CHECK(diti_timeline_wait(device, timeline, 6, 1000, &err) == DIT_WORKING);
    CHECK(diti_submit(device, NULL, 0, VK_NULL_HANDLE, 0, &err) == DIT_OK);
    device->vk.DestroySemaphore(device->device, timeline, NULL);
    diti_device_close(device);
}

static void device_loss(void) {
    diti_device *device = test_open("fail_submit=3");
    VkSemaphore timeline = VK_NULL_HANDLE;
    uint64_t value;
    char byte = 0;
    diti_buffer buffer;
    dit_error err = {0};
    if (!device) return;
    CHECK(diti_timeline_create(device, &timeline, &err) == DIT_OK);
    CHECK(diti_buffer_create(device, 10, DITI_MEMORY_DEVICE, "loss", &buffer, &err) == DIT_OK);
    CHECK(diti_submit(device, NULL, 0, timeline, 1, &err) == DIT_OK);
    CHECK(diti_submit(device, NULL, 0, timeline, 2, &err) == DIT_OK);
    CHECK(diti_submit(device, NULL, 0, timeline, 3, &err) == DIT_ERROR_DEVICE_LOST);
    CHECK(err.vk == VK_ERROR_DEVICE_LOST && strstr(err.message, "lost"));
    CHECK(diti_submit(device, NULL, 0, timeline, 4, &err) == DIT_ERROR_DEVICE_LOST);
    CHECK(device->submits == 3);
    CHECK(diti_timeline_wait(device, timeline, 3, UINT64_MAX, &err) == DIT_ERROR_DEVICE_LOST);
    CHECK(diti_timeline_value(device, timeline, &value, &err) == DIT_ERROR_DEVICE_LOST);
    CHECK(diti_buffer_read(device, &buffer, 0, &byte, 1, &err) == DIT_ERROR_DEVICE_LOST);
    diti_buffer_destroy(device, &buffer);
    device->vk.DestroySemaphore(device->device, timeline, NULL);
    diti_device_close(device);
    CHECK(test_blocks == 0);
}

typedef struct thread_work {
    diti_device *device;
    dit_result result;
    dit_error err;
} thread_work;

static void *thread_run(void *user) {
    thread_work *work = (thread_work *)user;
    uint32_t i;
    for (i = 0; i < 5 && work->result >= 0; i++) {
        work->result = test_compute(work->device, 5000 + i, i + 1, &work->err);
    }
    return NULL;
}

/* Two threads compute at once, each with its own device or both on one. */
static void threads(int shared) {
    thread_work first = {0}, second = {0};
    pthread_t thread;
    first.device = test_open("mapped=0,staging=4K");
    second.device = shared ? first.device : test_open("mapped=0");
    if (!first.device || !second.device) return;
    CHECK(pthread_create(&thread, NULL, thread_run, &first) == 0);
    thread_run(&second);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK_MESSAGE(first.result == DIT_OK, "%s", first.err.message);
    CHECK_MESSAGE(second.result == DIT_OK, "%s", second.err.message);
    diti_device_close(first.device);
    if (!shared) diti_device_close(second.device);
    CHECK(test_blocks == 0);
}

/* --- the cache blob --- */

static unsigned char blob[1 << 20];
static size_t blob_size;

static void cache_make(void) {
    diti_device *device = test_open(NULL);
    size_t size = 0;
    dit_error err = {0};
    if (!device) return;
    CHECK(test_compute(device, 100, 1, &err) == DIT_OK);
    device->speed.us_per_gflop = 123.5f;
    device->calibrated = true;
    device->calibrated_rung = device->rung;
    diti_tuned_add(device, 0x1234567890abcdefu, 2);
    diti_tuned_add(device, 77, 1);
    diti_tuned_add(device, 77, 0); /* the first measurement stays */
    CHECK(diti_cache_save(device, NULL, &size, &err) == DIT_OK && size >= sizeof(diti_cache_header));
    size--;
    CHECK(diti_cache_save(device, blob, &size, &err) == DIT_ERROR_INVALID_ARGUMENT);
    blob_size = sizeof blob;
    CHECK(diti_cache_save(device, blob, &blob_size, &err) == DIT_OK);
    CHECK_MESSAGE(blob_size <= size && blob_size >= sizeof(diti_cache_header) + 2 * sizeof(diti_tuned),
                  "%zu bytes instead of %zu", blob_size, size); /* some drivers write less than they announce */
    diti_device_close(device);
}

/* Opens a device with a blob; true when the blob was taken. */
static bool cache_opens(const unsigned char *data, size_t size) {
    dit_context_desc desc = {0};
    diti_device *device;
    dit_error err;
    uint32_t choice = 9, other = 9;
    bool taken;
    test_log[0] = 0;
    desc.cache = data;
    desc.cache_size = size;
    device = test_open_desc(&desc, &err);
    if (!CHECK_MESSAGE(device, "%s", err.message)) return false;
    taken = device->speed.us_per_gflop == 123.5f;
    CHECK(device->calibrated == taken);
    CHECK(diti_tuned_find(device, 0x1234567890abcdefu, &choice) == taken && choice == (taken ? 2u : 9u));
    CHECK(diti_tuned_find(device, 77, &other) == taken && other == (taken ? 1u : 9u));
    CHECK(!diti_tuned_find(device, 78, &choice) && device->tuned_count == (taken ? 2u : 0u));
    CHECK_MESSAGE(taken == !strstr(test_log, "ignored"), "logged '%s'", test_log);
    CHECK(test_compute(device, 100, 1, &err) == DIT_OK);
    diti_device_close(device);
    return taken;
}

/* Damage that keeps the checksum right must be found as well: an attacker or another program may have made it. */
static void cache_reseal(unsigned char *data, size_t size) {
    diti_cache_header header;
    memcpy(&header, data, sizeof header);
    header.checksum = diti_cache_checksum(&header, data + sizeof header, size - sizeof header);
    memcpy(data, &header, sizeof header);
}

/* Everything else in such a blob is good and taken; only the speed stays a guess. */
static void cache_absurd_speeds(unsigned char *bad) {
    static const float absurd[] = {0, -1, INFINITY, NAN, 1e30f};
    size_t i, k;
    for (i = 0; i < 3 * DITI_COUNT(absurd); i++) {
        diti_cache_header header;
        dit_context_desc desc = {0};
        diti_device *device;
        dit_error err;
        memcpy(bad, blob, blob_size);
        memcpy(&header, bad, sizeof header);
        k = i / 3;
        if (i % 3 == 0) header.speed.launch_us = k ? absurd[k] : -2;
        if (i % 3 == 1) header.speed.us_per_gflop = absurd[k];
        if (i % 3 == 2) header.speed.us_per_gigabyte = absurd[k];
        memcpy(bad, &header, sizeof header);
        cache_reseal(bad, blob_size);
        desc.cache = bad;
        desc.cache_size = blob_size;
        device = test_open_desc(&desc, &err);
        if (!CHECK_MESSAGE(device, "%s", err.message)) return;
        CHECK_MESSAGE(!device->calibrated && device->speed.us_per_gflop != 123.5f && device->tuned_count == 2,
                      "%g is taken for a speed", (double)absurd[k]);
        diti_device_close(device);
    }
}

static void cache_damage(void) {
    static unsigned char bad[sizeof blob + 64];
    static const size_t sealed[] = {0,  4,  8,  23, 24, 28,
                                    32, 56, 59, 64, 72}; /* magic, version, uuid, ids, choices, hash, size */
    const size_t choice = sizeof(diti_cache_header) + 8, driver = sizeof(diti_cache_header) + 2 * sizeof(diti_tuned);
    size_t i, sizes[] = {1, 4, sizeof(diti_cache_header) - 1, sizeof(diti_cache_header), blob_size / 2, blob_size - 1};
    CHECK(cache_opens(blob, blob_size));
    for (i = 0; i < DITI_COUNT(sizes); i++) {
        if (sizes[i] < blob_size) CHECK_MESSAGE(!cache_opens(blob, sizes[i]), "cut to %zu", sizes[i]);
    }
    memcpy(bad, blob, blob_size);
    CHECK(!cache_opens(bad, blob_size + 7));
    for (i = 0; i < DITI_COUNT(sealed); i++) {
        memcpy(bad, blob, blob_size);
        bad[sealed[i]] ^= 0x11;
        CHECK_MESSAGE(!cache_opens(bad, blob_size), "byte %zu changed", sealed[i]);
        cache_reseal(bad, blob_size);
        CHECK_MESSAGE(!cache_opens(bad, blob_size), "byte %zu changed, checksum mended", sealed[i]);
    }
    cache_absurd_speeds(bad);
    memcpy(bad, blob, blob_size);
    bad[choice + 3] = 1; /* no choice is so large */
    cache_reseal(bad, blob_size);
    CHECK(!cache_opens(bad, blob_size));
    CHECK_MESSAGE(strstr(test_log, "tuned choices are damaged"), "logged '%s'", test_log);
    for (i = 0; i < 32 && driver + i < blob_size; i += 4) { /* the driver's own header */
        memcpy(bad, blob, blob_size);
        bad[driver + i] ^= 0x55;
        CHECK_MESSAGE(!cache_opens(bad, blob_size), "data byte %zu changed", i);
        cache_reseal(bad, blob_size);
        CHECK_MESSAGE(cache_opens(bad, blob_size) && strstr(test_log, "data in the cache blob is left out"),
                      "data byte %zu changed, checksum mended: '%s'", i, test_log);
    }
    fill(bad, blob_size, 3);
    CHECK(!cache_opens(bad, blob_size));
    memset(bad, 0, blob_size);
    CHECK(!cache_opens(bad, blob_size));
}

typedef enum whim { /* ways in which a driver may answer vkGetPipelineCacheData */
                    WHIM_NONE,
                    WHIM_FEWER,  /* it writes less than it announced */
                    WHIM_LARGER, /* it says to have written more */
                    WHIM_NO_HEADER,
                    WHIM_INCOMPLETE,
                    WHIM_GROWS, /* so that the room for it is too small */
                    WHIM_FAILS,
                    WHIM_LOST,
                    WHIMS
} whim;
static whim whim_now;
static uint32_t whim_header[8];

static uint32_t whim_calls;

static VkResult VKAPI_CALL whim_data(VkDevice device, VkPipelineCache cache, size_t *size, void *data) {
    const size_t announced = 100;
    (void)device, (void)cache;
    if (whim_now == WHIM_FAILS) return VK_ERROR_OUT_OF_HOST_MEMORY;
    if (whim_now == WHIM_LOST) return VK_ERROR_DEVICE_LOST;
    if (!data) {
        *size = announced + (whim_now == WHIM_GROWS ? whim_calls++ : 0);
        return VK_SUCCESS;
    }
    CHECK_MESSAGE(*size == announced, "%zu bytes of room", *size);
    memset(data, 0, announced);
    if (whim_now != WHIM_NO_HEADER) memcpy(data, whim_header, sizeof whim_header);
    *size = announced + (whim_now == WHIM_LARGER) - (whim_now == WHIM_FEWER);
    return whim_now == WHIM_INCOMPLETE || whim_now == WHIM_GROWS ? VK_INCOMPLETE : VK_SUCCESS;
}

/* Whatever a driver answers, the tuned choices are kept: at most its own data is left out. */
static void cache_whims(void) {
    static const size_t kept[WHIMS] = {100, 99};
    diti_device *device = test_open(NULL);
    dit_error err = {0};
    diti_cache_header header;
    unsigned char bytes[1000];
    if (!device) return;
    diti_cache_identity(device, &header);
    whim_header[0] = 32, whim_header[1] = 1, whim_header[2] = header.vendor, whim_header[3] = header.device;
    memcpy(whim_header + 4, header.uuid, 16);
    device->vk.GetPipelineCacheData = whim_data;
    diti_tuned_add(device, 77, 263);
    for (whim_now = WHIM_NONE; whim_now < WHIMS; whim_now++) {
        const size_t fixed = sizeof header + sizeof(diti_tuned);
        size_t size = 0;
        dit_result result;
        whim_calls = 0;
        test_log[0] = 0;
        result = diti_cache_save(device, NULL, &size, &err);
        if (result >= 0) CHECK(size == fixed + (whim_now == WHIM_FAILS ? 0 : 100));
        if (result >= 0) result = diti_cache_save(device, bytes, &size, &err);
        if (whim_now == WHIM_GROWS || whim_now == WHIM_LOST) {
            CHECK(result == (whim_now == WHIM_LOST ? DIT_ERROR_DEVICE_LOST : DIT_ERROR_INVALID_ARGUMENT));
            continue;
        }
        CHECK_MESSAGE(result == DIT_OK && size == fixed + kept[whim_now], "whim %d: %zu bytes", (int)whim_now, size);
        CHECK_MESSAGE(!kept[whim_now] == (strstr(test_log, "left out of the cache blob") != NULL), "whim %d: '%s'",
                      (int)whim_now, test_log);
        CHECK_MESSAGE(!diti_cache_check(device, bytes, size, &header), "whim %d", (int)whim_now);
        CHECK(header.tuned_count == 1 && diti_cache_tuned(bytes, 0).choice == 263);
    }
    diti_device_close(device);
}

int main(void) {
    test_vulkan_begin();
    memory_limits();
    memory_types();
    memory(NULL);
    memory("mapped=0,staging=1000");
    memory("mapped=0,allocation=64M");
    incoherent();
    large_write();
    allocator_hooks(NULL);
    allocator_hooks("mapped=0,staging=5000");
    hooks_in_pairs();
    compute();
    pipelines();
    timelines();
    device_loss();
    threads(0);
    threads(1);
    cache_make();
    cache_damage();
    cache_whims();
    test_vulkan_end();
    return TEST_END("vk");
}
