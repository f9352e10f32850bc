/* Warming up: every pipeline of a plan runs once, on one workgroup, before anybody waits for it. Drivers do a part of
   compiling only then. Their results are worth nothing; a run begins by writing all that it reads. */
#include "graph/plan_internal.h"

static void diti_warm_barrier(const diti_device *device, VkCommandBuffer commands) {
    const VkPipelineStageFlags work = VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT;
    VkMemoryBarrier barrier = DITI_ZERO;
    barrier.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER;
    barrier.srcAccessMask = VK_ACCESS_MEMORY_WRITE_BIT;
    barrier.dstAccessMask = VK_ACCESS_MEMORY_READ_BIT | VK_ACCESS_MEMORY_WRITE_BIT;
    device->vk.CmdPipelineBarrier(commands, work, work, 0, 1, &barrier, 0, NULL, 0, NULL);
}

/* Inputs as the host wrote them, since kernels take places in memory from them; zeros elsewhere. */
static void diti_warm_memory(const diti_plan *plan, VkCommandBuffer commands) {
    size_t i;
    for (i = 0; i < plan->block_count; i++) {
        const diti_plan_block *block = &plan->blocks[i];
        VkBufferCopy copy = DITI_ZERO;
        copy.size = block->size;
        if (block->storage == DITI_STORAGE_INPUT)
            plan->device->vk.CmdCopyBuffer(commands, block->staging.buffer, block->buffer.buffer, 1, &copy);
        else
            plan->device->vk.CmdFillBuffer(commands, block->buffer.buffer, 0, VK_WHOLE_SIZE, 0);
    }
}

/* The first dispatch of each pipeline; not one that reads streamed weights, whose memory other jobs may be filling. */
static bool diti_warm_wants(const diti_plan *plan, size_t index) {
    const diti_plan_dispatch *dispatch = &plan->dispatches[index];
    size_t i;
    if (plan->source_batches && plan->source_batches[dispatch->source] != DITI_NO_BATCH) return false;
    for (i = 0; i < index; i++) {
        const diti_plan_dispatch *other = &plan->dispatches[i];
        bool streams = plan->source_batches && plan->source_batches[other->source] != DITI_NO_BATCH;
        if (!streams && other->pipeline == dispatch->pipeline) return false;
    }
    return true;
}

static void diti_warm_record(diti_device *device, VkCommandBuffer commands, void *user) {
    const diti_plan *plan = (const diti_plan *)user;
    const diti_vk_api *vk = &device->vk;
    size_t i;
    diti_warm_memory(plan, commands);
    for (i = 0; i < plan->dispatch_count; i++) {
        const diti_plan_dispatch *dispatch = &plan->dispatches[i];
        if (!diti_warm_wants(plan, i)) continue;
        diti_warm_barrier(device, commands);
        vk->CmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_COMPUTE, dispatch->pipeline);
        vk->CmdBindDescriptorSets(commands, VK_PIPELINE_BIND_POINT_COMPUTE, device->pipeline_layout, 0, 1,
                                  &dispatch->set, 0, NULL);
        vk->CmdPushConstants(commands, device->pipeline_layout, VK_SHADER_STAGE_COMPUTE_BIT, 0,
                             plan->sources[dispatch->source].push_count * 4u, dispatch->push);
        vk->CmdDispatch(commands, 1, 1, 1);
    }
    diti_warm_barrier(device, commands);
}

DIT_INTERNAL dit_result diti_plan_warm(diti_plan *plan, dit_error *err) {
    size_t i;
    for (i = 0; i < plan->slice_count; i++) DITI_TRY(diti_plan_write_sets(plan, &plan->slices[i], err));
    return diti_run_now(plan->device, diti_warm_record, plan, err);
}
