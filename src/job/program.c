/* Shares, and their programs: the plan, and the commands beside those of the plan. */
#include "job/job.h"

DIT_INTERNAL diti_share *diti_share_create(dit_job *job, diti_device *device) {
    diti_share *share = (diti_share *)diti_alloc_zero(&job->env, sizeof *share);
    if (!share) return NULL;
    share->job = job;
    share->device = device;
    share->member = job->share_count;
    job->shares[job->share_count++] = share;
    return share;
}

static dit_result diti_share_create_pool(diti_share *share, dit_error *err) {
    const diti_device *device = share->device;
    VkCommandPoolCreateInfo info;
    VkResult vk;
    memset(&info, 0, sizeof info);
    info.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO;
    info.queueFamilyIndex = device->queue_family;
    vk = device->vk.CreateCommandPool(device->device, &info, device->callbacks, &share->program.command_pool);
    return vk == VK_SUCCESS ? DIT_OK : diti_fail_vk(err, vk, "vkCreateCommandPool failed (%s)", diti_vk_name(vk));
}

DIT_INTERNAL dit_result diti_share_allocate_commands(diti_share *share, VkCommandBuffer *out, dit_error *err) {
    const diti_device *device = share->device;
    VkCommandBufferAllocateInfo allocate;
    VkCommandBufferBeginInfo begin;
    VkResult vk;
    DITI_TRY(share->program.command_pool ? DIT_OK : diti_share_create_pool(share, err));
    memset(&allocate, 0, sizeof allocate);
    memset(&begin, 0, sizeof begin);
    allocate.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO;
    allocate.commandPool = share->program.command_pool;
    allocate.level = VK_COMMAND_BUFFER_LEVEL_PRIMARY;
    allocate.commandBufferCount = 1;
    begin.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO;
    begin.flags = VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT;
    vk = device->vk.AllocateCommandBuffers(device->device, &allocate, out);
    if (vk == VK_SUCCESS) vk = device->vk.BeginCommandBuffer(*out, &begin);
    return vk == VK_SUCCESS ? DIT_OK
                            : diti_fail_vk(err, vk, "no command buffer for the output image (%s)", diti_vk_name(vk));
}

DIT_INTERNAL dit_result diti_share_end_commands(diti_share *share, VkCommandBuffer commands, dit_error *err) {
    VkResult vk = share->device->vk.EndCommandBuffer(commands);
    share->program.plan->counters.recordings++;
    return vk == VK_SUCCESS ? DIT_OK : diti_fail_vk(err, vk, "vkEndCommandBuffer failed (%s)", diti_vk_name(vk));
}

/* Commands of every chunk, before it and behind it. */
static dit_result diti_program_record_chunks(dit_job *job, dit_error *err) {
    diti_share *first = job->shares[0];
    diti_program *program = &first->program;
    uint32_t count = program->chunk_count * job->request.shape.image_count, i;
    if (!job->request.shape.clip || first->assignment.share) return DIT_OK;
    program->chunk_commands =
        (VkCommandBuffer *)diti_alloc_array(&job->env, 2 * (size_t)count, sizeof *program->chunk_commands);
    if (!program->chunk_commands) return diti_fail_memory(err, "the commands of chunks");
    for (i = 0; i < 2 * count; i++) {
        VkCommandBuffer *commands = &program->chunk_commands[i];
        DITI_TRY(diti_share_allocate_commands(first, commands, err));
        if (i % 2)
            diti_clip_record_output(job, *commands, i / 2);
        else
            diti_clip_record_input(job, *commands, i / 2);
        DITI_TRY(diti_share_end_commands(first, *commands, err));
    }
    return DIT_OK;
}

/* Copies into images are commands of the job, beside those of the plan. */
DIT_INTERNAL dit_result diti_job_record_copies(dit_job *job, dit_error *err) {
    diti_share *first = job->shares[0];
    first->program.start_copy = VK_NULL_HANDLE;
    DITI_TRY(diti_share_allocate_commands(first, &first->program.finish, err));
    diti_job_record_finish(job, first->program.finish);
    DITI_TRY(diti_share_end_commands(first, first->program.finish, err));
    DITI_TRY(diti_program_record_chunks(job, err));
    if (job->request.shape.start_image) {
        DITI_TRY(diti_share_allocate_commands(first, &first->program.start_copy, err));
        diti_job_record_start(job, first->program.start_copy);
        DITI_TRY(diti_share_end_commands(first, first->program.start_copy, err));
    }
    if (!job->request.shape.preview_interval || first->assignment.share) return DIT_OK;
    DITI_TRY(diti_share_allocate_commands(first, &first->program.preview_copy, err));
    diti_job_record_preview(job, first->program.preview_copy);
    return diti_share_end_commands(first, first->program.preview_copy, err);
}

DIT_INTERNAL void diti_program_free_families(const diti_env *env, diti_program *program) {
    uint32_t i;
    diti_free(env, program->step.family);
    diti_free(env, program->low.family);
    diti_free(env, program->unconditional.family);
    for (i = 0; i < DITI_MAX_CONTROLS; i++) diti_free(env, program->net_steps[i].family);
}

static void diti_share_ops(diti_share *share, diti_graph *graph) {
    const dit_job *job = share->job;
    diti_trace_scope scope = diti_trace_open(job->context->trace, DITI_TRACK_PLAN, "ops");
    diti_program_free_families(&job->env, &share->program);
    memset(share->program.net_steps, 0, sizeof share->program.net_steps);
    memset(&share->program.low, 0, sizeof share->program.low);
    memset(&share->program.unconditional, 0, sizeof share->program.unconditional);
    memset(&share->program.text, 0, sizeof share->program.text);
    memset(&share->program.loras, 0, sizeof share->program.loras);
    memset(&share->program.step, 0, sizeof share->program.step);
    diti_graph_init(graph, share->device);
    graph->worker = &job->context->worker;
    diti_share_emit(share, graph);
    diti_trace_close(&scope, 0);
}

DIT_INTERNAL dit_result diti_share_plan(diti_share *share, const dit_progress *progress, dit_error *err) {
    diti_graph graph;
    dit_result result;
    bool again;
    share->job->plans_changed = true;
    do {
        diti_share_ops(share, &graph);
        if (graph.wanted_count && !diti_graph_failed(&graph)) {
            result = diti_tune_run(&graph, progress, err);
            diti_graph_free(&graph);
            if (result != DIT_OK) return result;
            diti_share_ops(share, &graph);
        }
        result = diti_plan_create(&graph, progress, &share->program.plan, err);
        again = graph.again;
        diti_graph_free(&graph);
        if (again && err) memset(err, 0, sizeof *err);
    } while (again);
    if (result == DIT_OK && !share->device->owns_device) /* dit_job_record submits nothing */
        result = diti_plan_prepare_frames(share->program.plan, err);
    return result;
}

DIT_INTERNAL void diti_program_destroy(diti_device *device, diti_program *program) {
    diti_program_free_families(&device->env, program);
    diti_free(&device->env, program->chunks);
    diti_free(&device->env, program->chunk_commands);
    diti_destroy_CommandPool(device, program->command_pool);
    diti_plan_destroy(program->plan);
}

DIT_INTERNAL void diti_share_destroy(diti_share *share) {
    diti_program_destroy(share->device, &share->program);
    diti_buffer_destroy(share->device, &share->states);
    diti_free(&share->job->env, share);
}
