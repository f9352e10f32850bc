#include "device.h"
#include <stdio.h>
#include <stdlib.h>

VkDeviceCreateInfo *device_extend(renderer *r, const VkDeviceCreateInfo *info) {
    dit_error err = {0};
    size_t size = 0;
    VkDeviceCreateInfo *out;
    dit_device_extend(r->entry, r->instance, r->gpu, info, NULL, &size, NULL, &err); /* asks for the size */
    out = calloc(1, sizeof *out + size);
    if (size && out && dit_device_extend(r->entry, r->instance, r->gpu, info, out + 1, &size, out, &err) == DIT_OK)
        return out;
    fprintf(stderr, "engine: %s\n", err.message);
    free(out);
    return NULL;
}

static void lock(void *user) { pthread_mutex_lock(&((renderer *)user)->queue_lock); }
static void unlock(void *user) { pthread_mutex_unlock(&((renderer *)user)->queue_lock); }

dit_vulkan device_for_dit(renderer *r) {
    return (dit_vulkan){.get_instance_proc_addr = r->entry,
                        .instance = r->instance,
                        .physical_device = r->gpu,
                        .device = r->device,
                        .api_version = VK_API_VERSION_1_3,
                        .device_info = r->device_info,
                        .queue = r->compute_queue ? r->compute_queue : r->queue,
                        .queue_family = r->compute_queue ? r->compute_family : r->family,
                        .lock_queue = lock,
                        .unlock_queue = unlock,
                        .lock_user = r};
}
