/* How the timestamps of a device relate to the time of a trace. */
#include "vk/vk.h"

typedef struct diti_trace_stamp {
    diti_trace *trace;
    VkQueryPool queries;
    uint64_t begin_ns;
} diti_trace_stamp;

static void diti_trace_record_stamp(diti_device *device, VkCommandBuffer commands, void *user) {
    diti_trace_stamp *stamp = (diti_trace_stamp *)user;
    device->vk.CmdResetQueryPool(commands, stamp->queries, 0, 1);
    device->vk.CmdWriteTimestamp(commands, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, stamp->queries, 0);
    stamp->begin_ns = diti_trace_now(stamp->trace);
}

/* The device's clock is read somewhere between submitting and the end of the wait; of some tries the shortest counts.
 */
static dit_result diti_trace_calibrate(diti_trace *trace, diti_device *device, VkQueryPool queries, dit_error *err) {
    diti_trace_stamp stamp = DITI_ZERO;
    uint64_t end_ns, half, ticks;
    VkResult vr;
    int i;
    stamp.trace = trace;
    stamp.queries = queries;
    device->clock.accuracy_ns = UINT64_MAX;
    for (i = 0; i < 5; i++) {
        DITI_TRY(diti_run_now(device, diti_trace_record_stamp, &stamp, err));
        end_ns = diti_trace_now(trace);
        half = (end_ns - stamp.begin_ns) / 2 + 1000u; /* the host's clock counts microseconds */
        if (half >= device->clock.accuracy_ns) continue;
        vr = device->vk.GetQueryPoolResults(device->device, queries, 0, 1, sizeof ticks, &ticks, sizeof ticks,
                                            VK_QUERY_RESULT_64_BIT);
        if (vr != VK_SUCCESS) return diti_device_fail(device, vr, "vkGetQueryPoolResults", err);
        device->clock.ticks = ticks;
        device->clock.ns = stamp.begin_ns + (end_ns - stamp.begin_ns) / 2;
        device->clock.accuracy_ns = half;
    }
    return DIT_OK;
}

DIT_INTERNAL dit_result diti_trace_attach(diti_trace *trace, diti_device *device, dit_error *err) {
    VkQueryPool queries = VK_NULL_HANDLE;
    VkQueryPoolCreateInfo info = DITI_ZERO;
    dit_result result = DIT_OK;
    VkResult vr;
    if (device->limits.timestamp_bits) {
        info.sType = VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO;
        info.queryType = VK_QUERY_TYPE_TIMESTAMP;
        info.queryCount = 1;
        vr = device->vk.CreateQueryPool(device->device, &info, device->callbacks, &queries);
        if (vr < 0) return diti_device_fail(device, vr, "vkCreateQueryPool", err);
        result = diti_trace_calibrate(trace, device, queries, err);
        diti_destroy_QueryPool(device, queries);
    }
    DITI_TRY(result);
    device->trace = trace;
    return DIT_OK;
}

DIT_INTERNAL uint64_t diti_trace_device_ns(const diti_device *device, uint64_t ticks, uint64_t now_ns) {
    const diti_trace_clock *clock = &device->clock;
    uint32_t bits = device->limits.timestamp_bits;
    double period = (double)device->limits.timestamp_period, since = ((double)now_ns - (double)clock->ns) / period;
    double passed, turn, turns;
    if (bits >= 64) return clock->ns + (uint64_t)((double)(ticks - clock->ticks) * period);
    turn = (double)((uint64_t)1 << bits);
    passed = (double)((ticks - clock->ticks) & (((uint64_t)1 << bits) - 1));
    turns = floor((since - passed) / turn + 0.5);
    if (turns > 0) passed += turns * turn;
    return clock->ns + (uint64_t)(passed * period);
}
