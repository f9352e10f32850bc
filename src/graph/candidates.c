/* Every kernel has a usual size of tiles and up to two others, which give the same bytes. Ops ask here which one to
   take; where that was never measured on the device they leave a case for tune.c. */
#include "graph/ops_internal.h"

/* Shapes are of one class while their sizes round up to the same powers of two. */
static uint32_t diti_tune_log2(uint32_t value) {
    uint32_t bits = 0;
    while (value > (1u << bits) && bits < 31) bits++;
    return bits;
}

static uint64_t diti_tune_class(const diti_device *device, const diti_tune_case *c) {
    const char *name = c->kind == DITI_TUNE_GEMM ? diti_kernel_name(c->kernel) : "attention";
    uint32_t words[16] = {0};
    words[0] = (uint32_t)device->rung | (device->is_cpu ? 0x100u : 0) | (device->dot ? 0x200u : 0);
    words[1] = (uint32_t)c->kind;
    words[2] = (uint32_t)c->formats[0] | (uint32_t)c->formats[1] << 4 | (uint32_t)c->formats[2] << 8;
    words[3] = diti_tune_log2(c->rows);
    words[4] = diti_tune_log2(c->columns);
    words[5] = diti_tune_log2(c->depth);
    words[6] = c->head_dim;
    words[7] = c->image.kernel | c->image.stride << 8 | c->image.upsample << 16;
    words[8] = device->limits.subgroup_size;
    words[9] = device->limits.shared_bytes;
    words[10] = (uint32_t)diti_hash(name, strlen(name));
    return diti_hash(words, sizeof words);
}

DIT_INTERNAL uint32_t diti_tune_choose(diti_graph *graph, const diti_tune_case *wanted) {
    diti_device *device = graph->device;
    uint64_t shapes = diti_tune_class(device, wanted);
    uint32_t choice = 0;
    size_t i;
    if (graph->candidate) return graph->candidate - 1;
    if (device->candidate) return device->candidate - 1;
    if (diti_tuned_find(device, shapes, &choice) || !device->tune) return choice < DITI_TUNE_CANDIDATES ? choice : 0;
    for (i = 0; i < graph->wanted_count; i++) {
        if (graph->wanted[i].shapes == shapes) return 0;
    }
    if (!diti_grow(&device->env, (void **)&graph->wanted, &graph->wanted_capacity, graph->wanted_count,
                   sizeof *graph->wanted))
        return 0;
    graph->wanted[graph->wanted_count] = *wanted;
    graph->wanted[graph->wanted_count++].shapes = shapes;
    return 0;
}
