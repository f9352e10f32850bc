/* Small answers that are found once for a device and its driver, by key, and kept in the cache blob: which candidate of
   a kernel is the fastest for a class of shapes (graph/tune.c), and which classes of kernels proved themselves
   (ladder.c). */
#include "vk/vk.h"

DIT_INTERNAL bool diti_tuned_find(diti_device *device, uint64_t shapes, uint32_t *choice) {
    bool found = false;
    size_t i;
    diti_lock(&device->lock);
    for (i = 0; i < device->tuned_count && !found; i++) {
        found = device->tuned[i].shapes == shapes;
        if (found) *choice = device->tuned[i].choice;
    }
    diti_unlock(&device->lock);
    return found;
}

DIT_INTERNAL bool diti_tuned_put(diti_device *device, uint64_t shapes, uint32_t choice) {
    bool good = true;
    size_t i = 0;
    diti_lock(&device->lock);
    while (i < device->tuned_count && device->tuned[i].shapes != shapes) i++;
    if (i < device->tuned_count) {
        device->tuned[i].choice = choice;
    } else if (i < DITI_TUNED_MAX) {
        good = diti_grow(&device->env, (void **)&device->tuned, &device->tuned_capacity, i, sizeof *device->tuned);
        if (good) {
            device->tuned[i].shapes = shapes;
            device->tuned[i].choice = choice;
            device->tuned[i].reserved = 0;
            device->tuned_count++;
        }
    }
    diti_unlock(&device->lock);
    return good;
}

DIT_INTERNAL void diti_tuned_add(diti_device *device, uint64_t shapes, uint32_t choice) {
    uint32_t known;
    if (!diti_tuned_find(device, shapes, &known)) diti_tuned_put(device, shapes, choice);
}
