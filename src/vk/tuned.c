/* Which candidate of a kernel is the fastest for a class of shapes: found by graph/tune.c, kept in the cache blob. */
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

DIT_INTERNAL void diti_tuned_add(diti_device *device, uint64_t shapes, uint32_t choice) {
    uint32_t known;
    if (diti_tuned_find(device, shapes, &known)) return;
    diti_lock(&device->lock);
    if (device->tuned_count < DITI_TUNED_MOST &&
        diti_grow(&device->env, (void **)&device->tuned, &device->tuned_capacity, device->tuned_count,
                  sizeof *device->tuned)) {
        device->tuned[device->tuned_count].shapes = shapes;
        device->tuned[device->tuned_count].choice = choice;
        device->tuned[device->tuned_count].reserved = 0;
        device->tuned_count++;
    }
    diti_unlock(&device->lock);
}
