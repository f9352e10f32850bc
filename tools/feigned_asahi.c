/* The part for Apple's GPUs of Mesa's drm-shim, for tools/feigned.sh: the one that Mesa has speaks an older interface
   of the kernel than Honeykrisp, the driver, now wants. FEIGNED_ASAHI is the number of a chip and says which GPU this
   is. The file has that part of the interface which the driver asks for. Memory is the shim's own; nothing is ever run.
 */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "drm-shim/drm_shim.h"

bool drm_shim_driver_prefers_first_render_node = true;

enum {
    GET_PARAMS,
    GET_TIME,
    VM_CREATE,
    VM_DESTROY,
    VM_BIND,
    GEM_CREATE,
    GEM_MMAP_OFFSET,
    GEM_BIND_OBJECT,
    QUEUE_CREATE,
    QUEUE_DESTROY,
    SUBMIT,
    CALLS
};

static struct {
    uint64_t features; /* 1: loads from where no memory is yield zeros */
    uint32_t generation, variant, revision, chip, dies, clusters, cores, frequency_khz;
    uint64_t core_masks[64], start, end, least_kernel_size;
    uint32_t most_commands, most_attachments;
    uint64_t timestamp_hz;
} params = {.features = 1,
            .dies = 1,
            .start = 0x4000,
            .end = (uint64_t)1 << 39,
            .least_kernel_size = (uint64_t)1 << 35,
            .most_commands = 64,
            .most_attachments = 16,
            .timestamp_hz = 1000000000};

static const struct {
    uint32_t chip, generation;
    char variant;
    uint32_t revision, clusters, cores, whole_clusters, frequency_khz; /* clusters that are not whole lack a core */
} models[] = {{0x8103, 13, 'G', 0x11, 1, 8, 1, 1278000}, {0x6021, 14, 'C', 0x11, 4, 10, 2, 1398000}};

static int nothing(int fd, unsigned long request, void *arg) {
    (void)fd, (void)request, (void)arg;
    return 0;
}

static int get_params(int fd, unsigned long request, void *arg) {
    struct {
        uint32_t group, zero;
        uint64_t pointer, size;
    } *ask = arg;
    (void)fd, (void)request;
    if (ask->group) return -EINVAL;
    if (ask->size > sizeof params) ask->size = sizeof params;
    memcpy((void *)(uintptr_t)ask->pointer, &params, ask->size);
    return 0;
}

static int create_vm(int fd, unsigned long request, void *arg) {
    struct {
        uint64_t kernel_start, kernel_end;
        uint32_t id, zero;
    } *vm = arg;
    (void)fd, (void)request;
    vm->id = 1;
    return 0;
}

static int create_memory(int fd, unsigned long request, void *arg) {
    struct {
        uint64_t size;
        uint32_t flags, vm, handle, zero;
    } *create = arg;
    struct shim_bo *memory = calloc(1, sizeof *memory);
    (void)request;
    if (!memory || drm_shim_bo_init(memory, create->size)) return free(memory), -ENOMEM;
    create->handle = (uint32_t)drm_shim_bo_get_handle(drm_shim_fd_lookup(fd), memory);
    drm_shim_bo_put(memory);
    return 0;
}

static int map_memory(int fd, unsigned long request, void *arg) {
    struct {
        uint32_t handle, flags;
        uint64_t offset;
    } *map = arg;
    struct shim_fd *file = drm_shim_fd_lookup(fd);
    struct shim_bo *memory = drm_shim_bo_lookup(file, (int)map->handle);
    (void)request;
    if (!memory) return -ENOENT;
    map->offset = drm_shim_bo_get_mmap_offset(file, memory);
    drm_shim_bo_put(memory);
    return 0;
}

static int bind_object(int fd, unsigned long request, void *arg) {
    struct {
        uint32_t unbinds, flags, handle, vm;
        uint64_t offset, range;
        uint32_t object, zero;
    } *bind = arg;
    (void)fd, (void)request;
    if (!bind->unbinds) bind->object = bind->handle;
    return 0;
}

static int create_queue(int fd, unsigned long request, void *arg) {
    struct {
        uint32_t flags, vm, priority, id;
        uint64_t shaders;
    } *queue = arg;
    (void)fd, (void)request;
    queue->id = 1;
    return 0;
}

static ioctl_fn_t calls[CALLS] = {[GET_PARAMS] = get_params,
                                  [GET_TIME] = nothing,
                                  [VM_CREATE] = create_vm,
                                  [VM_DESTROY] = nothing,
                                  [VM_BIND] = nothing,
                                  [GEM_CREATE] = create_memory,
                                  [GEM_MMAP_OFFSET] = map_memory,
                                  [GEM_BIND_OBJECT] = bind_object,
                                  [QUEUE_CREATE] = create_queue,
                                  [QUEUE_DESTROY] = nothing,
                                  [SUBMIT] = nothing};

void drm_shim_driver_init(void) {
    const char *text = getenv("FEIGNED_ASAHI");
    uint32_t i, k, chip = text ? (uint32_t)strtoul(text, NULL, 16) : models[0].chip;
    for (i = 0; i < sizeof models / sizeof *models && models[i].chip != chip;) i++;
    if (i == sizeof models / sizeof *models) {
        fprintf(stderr, "FEIGNED_ASAHI=%s: no such chip\n", text);
        exit(2);
    }
    params.generation = models[i].generation;
    params.variant = (uint32_t)models[i].variant;
    params.revision = models[i].revision;
    params.chip = chip;
    params.clusters = models[i].clusters;
    params.cores = models[i].cores;
    params.frequency_khz = models[i].frequency_khz;
    for (k = 0; k < params.clusters; k++)
        params.core_masks[k] = ((uint64_t)1 << (params.cores - (k >= models[i].whole_clusters))) - 1;
    shim_device.bus_type = DRM_BUS_PLATFORM;
    shim_device.driver_name = "asahi";
    shim_device.driver_ioctls = calls;
    shim_device.driver_ioctl_count = CALLS;
    drm_shim_override_file("DRIVER=asahi\nOF_FULLNAME=/soc/gpu\nOF_COMPATIBLE_0=apple,agx\nOF_COMPATIBLE_N=1\n",
                           "/sys/dev/char/%d:%d/device/uevent", DRM_MAJOR, render_node_minor);
}
