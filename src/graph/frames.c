/* Frames: what calls of dit_job_record have put into the application's command buffers, and how long that took. Times
   come from timestamps between the slices, in the application's own order of commands, or from the application. */
#include "graph/plan_internal.h"

/* Timestamps of a frame: before its first slice and behind each of them. */
#define DITI_FRAME_QUERIES (DITI_FRAME_SLICES + 1)

static diti_frame *diti_frame_at(diti_frames *frames, uint64_t number) { return &frames->list[number % frames->most]; }

static uint32_t diti_frame_query(const diti_frames *frames, uint64_t number) {
    return (uint32_t)(number % frames->most) * DITI_FRAME_QUERIES;
}

static bool diti_frames_stamped(const diti_frames *frames) { return frames->queries && !frames->reported; }

static void diti_frames_reset(diti_device *device, VkCommandBuffer commands, void *user) {
    const diti_frames *frames = (const diti_frames *)user;
    device->vk.CmdResetQueryPool(commands, frames->queries, 0, frames->most * DITI_FRAME_QUERIES);
}

/* All timestamps are reset once, so that asking for those of a frame that was recorded and never submitted is no error:
   they are not there. */
DIT_INTERNAL dit_result diti_plan_prepare_frames(diti_plan *plan, dit_error *err) {
    diti_device *device = plan->device;
    diti_frames *frames = &plan->frames;
    VkQueryPoolCreateInfo info;
    VkResult vk;
    if (frames->most) return DIT_OK;
    frames->most = device->frames_in_flight < DITI_MAX_FRAMES ? device->frames_in_flight + 1 : DITI_MAX_FRAMES;
    if (!device->stamps_frames) return DIT_OK;
    memset(&info, 0, sizeof info);
    info.sType = VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO;
    info.queryType = VK_QUERY_TYPE_TIMESTAMP;
    info.queryCount = frames->most * DITI_FRAME_QUERIES;
    vk = device->vk.CreateQueryPool(device->device, &info, device->callbacks, &frames->queries);
    if (vk != VK_SUCCESS)
        return diti_fail_vk(err, vk, "vkCreateQueryPool failed for %u timestamps (%d)", info.queryCount, (int)vk);
    return diti_run_now(device, diti_frames_reset, frames, err);
}

/* The timestamp waits for the computing before it alone, not for drawing or whatever else the application has in
   flight. */
static void diti_frame_stamp(const diti_plan *plan, VkCommandBuffer commands, uint32_t query) {
    plan->device->vk.CmdWriteTimestamp(commands, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, plan->frames.queries, query);
}

/* A frame that comes to the place of one that was never read forgets that one. */
DIT_INTERNAL void diti_frame_begin(diti_plan *plan, VkCommandBuffer commands) {
    diti_frames *frames = &plan->frames;
    uint32_t query = diti_frame_query(frames, frames->count);
    diti_frame *frame = diti_frame_at(frames, frames->count++);
    frame->count = 0;
    frame->recuts = plan->recuts;
    frame->open = true;
    if (!diti_frames_stamped(frames)) return;
    plan->device->vk.CmdResetQueryPool(commands, frames->queries, query, DITI_FRAME_QUERIES);
    diti_frame_stamp(plan, commands, query);
}

DIT_INTERNAL void diti_frame_pass(diti_plan *plan) {
    diti_frames *frames = &plan->frames;
    diti_frame *frame;
    if (!frames->most) return;
    diti_frames_learn(plan); /* before it takes the place of another one */
    frame = diti_frame_at(frames, frames->count++);
    frame->count = 0;
    frame->open = false;
}

DIT_INTERNAL void diti_frame_add(diti_plan *plan, uint32_t slice, VkCommandBuffer commands) {
    diti_frames *frames = &plan->frames;
    diti_frame *frame;
    if (!frames->count) return; /* tests execute slices in no frame */
    frame = diti_frame_at(frames, frames->count - 1);
    if (frame->count == 0) frame->recuts = plan->recuts; /* the call of the frame may have cut work anew before */
    if (frame->count == DITI_FRAME_SLICES) return;
    frame->slices[frame->count++] = slice;
    if (diti_frames_stamped(frames))
        diti_frame_stamp(plan, commands, diti_frame_query(frames, frames->count - 1) + frame->count);
}

/* The ticks of a frame that is finished; false: it is not, or they are those of the frame before it in its place. */
static bool diti_frame_read(const diti_plan *plan, uint64_t number, uint64_t *ticks) {
    const diti_frames *frames = &plan->frames;
    const diti_frame *frame = &frames->list[number % frames->most];
    uint64_t got[DITI_FRAME_QUERIES][2]; /* a timestamp, and whether it is there */
    uint32_t i;
    if (plan->device->vk.GetQueryPoolResults(
            plan->device->device, frames->queries, diti_frame_query(frames, number), frame->count + 1, sizeof got, got,
            sizeof got[0], VK_QUERY_RESULT_64_BIT | VK_QUERY_RESULT_WITH_AVAILABILITY_BIT) != VK_SUCCESS)
        return false;
    for (i = 0; i <= frame->count; i++) {
        if (!got[i][1]) return false;
        ticks[i] = got[i][0];
    }
    return ticks[0] != frame->last_tick;
}

static void diti_frame_learn(diti_plan *plan, diti_frame *frame, const uint64_t *ticks) {
    const diti_limits *limits = &plan->device->limits;
    uint64_t mask = limits->timestamp_bits >= 64 ? UINT64_MAX : ((uint64_t)1 << limits->timestamp_bits) - 1;
    uint32_t i;
    frame->last_tick = ticks[0];
    frame->open = false;
    for (i = 0; i < frame->count && frame->recuts == plan->recuts; i++) {
        double us = (double)((ticks[i + 1] - ticks[i]) & mask) * (double)limits->timestamp_period * 1e-3;
        diti_plan_took(plan, frame->slices[i], (float)us);
    }
}

/* On a feigned device all that was recorded is finished. */
static void diti_frame_feign(diti_plan *plan, diti_frame *frame) {
    uint32_t i;
    frame->open = false;
    for (i = 0; i < frame->count && frame->recuts == plan->recuts; i++)
        diti_plan_took(plan, frame->slices[i], diti_plan_feigned_us(plan, &plan->slices[frame->slices[i]]));
}

DIT_INTERNAL void diti_frames_learn(diti_plan *plan) {
    diti_frames *frames = &plan->frames;
    uint64_t ticks[DITI_FRAME_QUERIES], number = frames->count > frames->most ? frames->count - frames->most : 0;
    for (; number < frames->count && !frames->reported; number++) {
        diti_frame *frame = diti_frame_at(frames, number);
        if (!frame->open || !frame->count) continue;
        if (plan->device->feigned.us_per_gflop > 0)
            diti_frame_feign(plan, frame);
        else if (frames->queries && diti_frame_read(plan, number, ticks))
            diti_frame_learn(plan, frame, ticks);
    }
}

DIT_INTERNAL void diti_frame_drop(diti_plan *plan) {
    diti_frames *frames = &plan->frames;
    if (!frames->most) return;
    diti_frame_at(frames, --frames->count)->count = 0;
    if (frames->told > frames->count) frames->told = frames->count;
}

DIT_INTERNAL void diti_plan_unrecord(diti_plan *plan, uint64_t dispatches) {
    diti_frames *frames = &plan->frames;
    if (plan->streaming.stream)
        diti_stream_unrecord(&plan->streaming, &frames->marks, frames->marked, frames->marked_before);
    frames->marked = frames->marked_before;
    diti_frame_drop(plan);
    plan->counters.dispatches = dispatches;
}

/* The time is shared out as it was expected to be. */
DIT_INTERNAL bool diti_frames_told(diti_plan *plan, uint32_t us) {
    diti_frames *frames = &plan->frames;
    const diti_frame *frame;
    float expected = 0;
    uint32_t i;
    if (frames->owed) {
        frames->owed--;
        return true;
    }
    if (frames->told == frames->count) return false;
    if (frames->count > frames->most && frames->told < frames->count - frames->most)
        frames->told = frames->count - frames->most;
    frame = diti_frame_at(frames, frames->told++);
    if (!us) return true;
    frames->reported = true;
    if (frame->recuts != plan->recuts) return true;
    for (i = 0; i < frame->count; i++) expected += plan->slices[frame->slices[i]].us;
    for (i = 0; i < frame->count && expected > 0; i++)
        diti_plan_took(plan, frame->slices[i], (float)us * plan->slices[frame->slices[i]].us / expected);
    return true;
}
