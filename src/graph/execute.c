/* A finished plan at work: its inputs and results, its segments from begin to end. */
#include "graph/plan_internal.h"

static bool diti_plan_size_matches(const diti_tensor_info *info, size_t size) {
    return (uint64_t)info->rows * info->columns * diti_element_size(info->format) == size;
}

DIT_INTERNAL dit_result diti_plan_write(diti_plan *plan, diti_tensor input, const void *data, size_t size,
                                        dit_error *err) {
    const diti_tensor_info *info = &plan->tensors[input];
    const unsigned char *from = (const unsigned char *)data;
    size_t element = diti_element_size(info->format), row_bytes = info->columns * element;
    diti_plan_block *block;
    unsigned char *to;
    uint32_t row;
    if (info->storage != DITI_STORAGE_INPUT || !diti_plan_size_matches(info, size)) {
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "input %s is [%u, %u] of %u bytes, %llu bytes were given",
                         info->name, info->rows, info->columns, (unsigned)element, (unsigned long long)size);
    }
    block = &plan->blocks[info->block];
    to = (unsigned char *)block->staging.block.mapped + info->offset + info->first * element;
    for (row = 0; row < info->rows; row++)
        memcpy(to + (size_t)row * info->pitch * element, from + row * row_bytes, row_bytes);
    diti_buffer_flush(plan->device, &block->staging);
    return DIT_OK;
}

DIT_INTERNAL dit_result diti_plan_read(diti_plan *plan, diti_tensor tensor, void *data, size_t size, dit_error *err) {
    const diti_tensor_info *info = &plan->tensors[tensor];
    size_t element = diti_element_size(info->format), row_bytes = info->columns * element,
           pitch_bytes = info->pitch * element, all;
    unsigned char *pitched;
    dit_result result;
    uint32_t row;
    if (!diti_plan_size_matches(info, size)) {
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "tensor %s is [%u, %u] of %u bytes, room for %llu bytes was given", info->name, info->rows,
                         info->columns, (unsigned)element, (unsigned long long)size);
    }
    if (plan->timeline.submitted) {
        DITI_TRY(diti_timeline_wait(plan->device, plan->timeline.semaphore, plan->timeline.submitted, UINT64_MAX, err));
    }
    all = (info->rows - 1) * pitch_bytes + row_bytes;
    pitched = (unsigned char *)diti_alloc(&plan->device->env, all);
    if (!pitched) return diti_fail_memory(err, "reading tensor %s", info->name);
    result = diti_buffer_read(plan->device, &plan->blocks[info->block].buffer, info->offset + info->first * element,
                              pitched, all, err);
    for (row = 0; row < info->rows && result >= 0; row++)
        memcpy((unsigned char *)data + row * row_bytes, pitched + row * pitch_bytes, row_bytes);
    diti_free(&plan->device->env, pitched);
    return result;
}

DIT_INTERNAL uint32_t diti_plan_slice_count(const diti_plan *plan, uint32_t segment) {
    return plan->segments[segment].count;
}

DIT_INTERNAL float diti_plan_slice_us(const diti_plan *plan, uint32_t segment, uint32_t slice) {
    return plan->slices[plan->segments[segment].first + slice].us;
}

DIT_INTERNAL float diti_plan_slice_planned_us(const diti_plan *plan, uint32_t segment, uint32_t slice) {
    return plan->slices[plan->segments[segment].first + slice].planned_us;
}

/* While the device works on slice: the weights of the slices behind it. */
static dit_result diti_plan_run_ahead(diti_plan *plan, uint32_t segment, uint32_t slice, dit_error *err) {
    diti_stream_walk walk = DITI_ZERO;
    uint64_t bytes = UINT64_MAX;
    dit_result result = DIT_OK;
    while (result == DIT_OK && ++slice < plan->segments[segment].count)
        result = diti_plan_load_ahead(plan, &walk, segment, slice, &bytes, err);
    return result < 0 ? result : DIT_OK;
}

DIT_INTERNAL dit_result diti_plan_run(diti_plan *plan, uint32_t first, uint32_t count, dit_error *err) {
    uint32_t segment, slice;
    uint64_t value = 0;
    for (segment = first; segment < first + count; segment++) {
        for (slice = 0; slice < plan->segments[segment].count; slice++) {
            DITI_TRY(diti_plan_submit(plan, segment, slice, &value, err));
            if (plan->streaming.stream) DITI_TRY(diti_plan_run_ahead(plan, segment, slice, err));
        }
    }
    return value ? diti_timeline_wait(plan->device, plan->timeline.semaphore, value, UINT64_MAX, err) : DIT_OK;
}

#define DITI_TIME_DOUBTED_US 2000.0 /* timestamps are doubted above so long a time by the clock */

/* Beside an application that draws, a software driver may write timestamps late, and both at once. */
static bool diti_plan_doubts(const diti_device *device, double stamped_us, double clock_us) {
    return device->software && clock_us > DITI_TIME_DOUBTED_US && clock_us > 4 * stamped_us;
}

DIT_INTERNAL dit_result diti_plan_time(diti_plan *plan, uint32_t segment, double *us, dit_error *err) {
    const diti_segment *timed = &plan->segments[segment];
    uint64_t begin = diti_clock_us();
    bool stamped = plan->queries != VK_NULL_HANDLE;
    double sum = 0;
    uint32_t i;
    DITI_TRY(diti_plan_run(plan, segment, 1, err));
    *us = (double)(diti_clock_us() - begin);
    diti_plan_learn(plan);
    for (i = timed->first; i < timed->first + timed->count; i++) {
        stamped = stamped && plan->slices[i].measured;
        sum += (double)plan->slices[i].us;
        plan->slices[i].measured = false; /* the next time counts as it is */
    }
    if (stamped && !diti_plan_doubts(plan->device, sum, *us)) *us = sum;
    return DIT_OK;
}
