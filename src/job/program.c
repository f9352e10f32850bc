/* The program of a share: its plan, and the commands of the job beside those of the plan. */
#include "job/job.h"

static dit_result diti_job_create_pool(dit_job *job, dit_error *err) {
    const diti_device *device = job->device;
    VkCommandPoolCreateInfo info;
    VkResult vk;
    memset(&info, 0, sizeof info);
    info.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO;
    info.queueFamilyIndex = device->queue_family;
    vk = device->vk.CreateCommandPool(device->device, &info, device->callbacks, &job->program.command_pool);
    return vk == VK_SUCCESS ? DIT_OK : diti_fail_vk(err, vk, "vkCreateCommandPool failed (%s)", diti_vk_name(vk));
}

DIT_INTERNAL dit_result diti_job_allocate_commands(dit_job *job, VkCommandBuffer *out, dit_error *err) {
    const diti_device *device = job->device;
    VkCommandBufferAllocateInfo allocate;
    VkCommandBufferBeginInfo begin;
    VkResult vk;
    DITI_TRY(job->program.command_pool ? DIT_OK : diti_job_create_pool(job, err));
    memset(&allocate, 0, sizeof allocate);
    memset(&begin, 0, sizeof begin);
    allocate.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO;
    allocate.commandPool = job->program.command_pool;
    allocate.level = VK_COMMAND_BUFFER_LEVEL_PRIMARY;
    allocate.commandBufferCount = 1;
    begin.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO;
    begin.flags = VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT;
    vk = device->vk.AllocateCommandBuffers(device->device, &allocate, out);
    if (vk == VK_SUCCESS) vk = device->vk.BeginCommandBuffer(*out, &begin);
    return vk == VK_SUCCESS ? DIT_OK
                            : diti_fail_vk(err, vk, "no command buffer for the output image (%s)", diti_vk_name(vk));
}

DIT_INTERNAL dit_result diti_job_end_commands(dit_job *job, VkCommandBuffer commands, dit_error *err) {
    VkResult vk = job->device->vk.EndCommandBuffer(commands);
    job->program.plan->counters.recordings++;
    return vk == VK_SUCCESS ? DIT_OK : diti_fail_vk(err, vk, "vkEndCommandBuffer failed (%s)", diti_vk_name(vk));
}

/* Copies into images are commands of the job, beside those of the plan. */
DIT_INTERNAL dit_result diti_job_record_copies(dit_job *job, dit_error *err) {
    job->program.start_copy = VK_NULL_HANDLE;
    DITI_TRY(diti_job_allocate_commands(job, &job->program.finish, err));
    diti_job_record_finish(job, job->program.finish);
    DITI_TRY(diti_job_end_commands(job, job->program.finish, err));
    if (job->request.shape.start_image) {
        DITI_TRY(diti_job_allocate_commands(job, &job->program.start_copy, err));
        diti_job_record_start(job, job->program.start_copy);
        DITI_TRY(diti_job_end_commands(job, job->program.start_copy, err));
    }
    if (!job->request.shape.preview_interval || job->assignment.share) return DIT_OK;
    DITI_TRY(diti_job_allocate_commands(job, &job->program.preview_copy, err));
    diti_job_record_preview(job, job->program.preview_copy);
    return diti_job_end_commands(job, job->program.preview_copy, err);
}

static void diti_job_ops(dit_job *job, diti_graph *graph) {
    diti_trace_scope scope = diti_trace_open(job->context->trace, DITI_TRACK_PLAN, "ops");
    diti_free(&job->env, job->program.denoise.family);
    memset(&job->program.text, 0, sizeof job->program.text);
    memset(&job->program.denoise, 0, sizeof job->program.denoise);
    diti_graph_init(graph, job->device);
    graph->worker = &job->context->worker;
    diti_job_emit(job, graph);
    diti_trace_close(&scope, 0);
}

DIT_INTERNAL dit_result diti_job_plan(dit_job *job, const dit_progress *progress, dit_error *err) {
    diti_graph graph;
    dit_result result;
    bool again;
    do {
        diti_job_ops(job, &graph);
        if (graph.wanted_count && !diti_graph_failed(&graph)) {
            result = diti_tune_run(&graph, progress, err);
            diti_graph_free(&graph);
            if (result != DIT_OK) return result;
            diti_job_ops(job, &graph);
        }
        result = diti_plan_create(&graph, progress, &job->program.plan, err);
        again = graph.again;
        diti_graph_free(&graph);
        if (again && err) memset(err, 0, sizeof *err);
    } while (again);
    if (result == DIT_OK && !job->device->owns_device && !diti_plan_streams(job->program.plan))
        result = diti_plan_prepare_secondaries(job->program.plan, err);
    return result;
}

DIT_INTERNAL void diti_program_destroy(diti_device *device, diti_program *program) {
    diti_free(&device->env, program->denoise.family);
    diti_destroy_CommandPool(device, program->command_pool);
    diti_plan_destroy(program->plan);
}
