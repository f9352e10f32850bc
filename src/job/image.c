/* Pictures on the device: made by a copy from the plan's buffers, left in the layout that the caller wants. */
#include "job/job.h"

static dit_result diti_image_bind(dit_job *job, diti_job_image *image, dit_error *err) {
    diti_device *device = job->device;
    VkMemoryRequirements need;
    VkResult vk;
    device->vk.GetImageMemoryRequirements(device->device, image->image, &need);
    DITI_TRY(diti_block_create(device, &need, DITI_MEMORY_DEVICE, "output image", &image->memory, err));
    vk = device->vk.BindImageMemory(device->device, image->image, image->memory.block.memory,
                                    image->memory.block.offset);
    return vk == VK_SUCCESS
               ? DIT_OK
               : diti_fail_vk(err, vk, "vkBindImageMemory failed for an output image (%s)", diti_vk_name(vk));
}

static dit_result diti_image_view(const dit_job *job, diti_job_image *image, dit_error *err) {
    const diti_device *device = job->device;
    VkImageViewCreateInfo info;
    VkResult vk;
    memset(&info, 0, sizeof info);
    info.sType = VK_STRUCTURE_TYPE_IMAGE_VIEW_CREATE_INFO;
    info.image = image->image;
    info.viewType = VK_IMAGE_VIEW_TYPE_2D;
    info.format = image->format;
    info.subresourceRange.aspectMask = VK_IMAGE_ASPECT_COLOR_BIT;
    info.subresourceRange.levelCount = 1;
    info.subresourceRange.layerCount = 1;
    vk = device->vk.CreateImageView(device->device, &info, device->callbacks, &image->view);
    return vk == VK_SUCCESS
               ? DIT_OK
               : diti_fail_vk(err, vk, "vkCreateImageView failed for an output image (%s)", diti_vk_name(vk));
}

/* Whether queues of another family use the pictures. Zero may be a family or no wish at all: it counts where the
   application's device has such queues. */
static bool diti_image_leaves(const dit_job *job) {
    uint32_t family = job->target.dst_queue_family;
    return family < 64 && family != job->device->queue_family && (job->device->families >> family & 1u);
}

static dit_result diti_image_create(dit_job *job, diti_job_image *image, dit_error *err) {
    const diti_device *device = job->device;
    VkImageCreateInfo info;
    uint32_t families[2];
    VkResult vk;
    memset(&info, 0, sizeof info);
    info.sType = VK_STRUCTURE_TYPE_IMAGE_CREATE_INFO;
    info.imageType = VK_IMAGE_TYPE_2D;
    info.format = image->format;
    info.extent.width = job->request.shape.width;
    info.extent.height = job->request.shape.height;
    info.extent.depth = info.mipLevels = info.arrayLayers = 1;
    info.samples = VK_SAMPLE_COUNT_1_BIT;
    info.tiling = VK_IMAGE_TILING_OPTIMAL;
    info.usage = VK_IMAGE_USAGE_TRANSFER_DST_BIT | VK_IMAGE_USAGE_TRANSFER_SRC_BIT | VK_IMAGE_USAGE_SAMPLED_BIT;
    if (diti_image_leaves(job)) { /* nobody need release and acquire what is written in every run */
        families[0] = device->queue_family;
        families[1] = job->target.dst_queue_family;
        info.sharingMode = VK_SHARING_MODE_CONCURRENT;
        info.queueFamilyIndexCount = 2;
        info.pQueueFamilyIndices = families;
    }
    vk = device->vk.CreateImage(device->device, &info, device->callbacks, &image->image);
    if (vk != VK_SUCCESS)
        return diti_fail_vk(err, vk, "vkCreateImage failed for %u x %u pixels (%s)", info.extent.width,
                            info.extent.height, diti_vk_name(vk));
    image->owned = true;
    DITI_TRY(diti_image_bind(job, image, err));
    return diti_image_view(job, image, err);
}

static dit_result diti_image_prepare(dit_job *job, diti_job_image *image, VkImage given, dit_error *err) {
    image->format = job->target.format ? (VkFormat)job->target.format : VK_FORMAT_R8G8B8A8_UNORM;
    image->layout =
        job->target.final_layout ? (VkImageLayout)job->target.final_layout : VK_IMAGE_LAYOUT_SHADER_READ_ONLY_OPTIMAL;
    image->image = given;
    return given ? DIT_OK : diti_image_create(job, image, err);
}

DIT_INTERNAL dit_result diti_job_images_create(dit_job *job, dit_error *err) {
    dit_result result = diti_buffer_create(job->device, sizeof(diti_health), DITI_MEMORY_READBACK, "health",
                                           &job->health_readback, err);
    uint32_t i;
    for (i = 0; i < job->request.shape.image_count && result >= 0 && job->assignment.share == 0; i++)
        result = diti_image_prepare(job, &job->images[i], i == 0 ? job->target.image : VK_NULL_HANDLE, err);
    if (result >= 0 && job->request.shape.preview_interval && job->assignment.share == 0)
        result = diti_image_prepare(job, &job->preview_image, VK_NULL_HANDLE, err);
    return result;
}

static void diti_image_destroy(dit_job *job, diti_job_image *image) {
    diti_device *device = job->device;
    if (!image->owned) return;
    diti_destroy_ImageView(device, image->view);
    diti_destroy_Image(device, image->image);
    diti_block_destroy(device, &image->memory);
    memset(image, 0, sizeof *image);
}

DIT_INTERNAL void diti_job_images_destroy(dit_job *job) {
    uint32_t i;
    for (i = 0; i < DITI_JOB_MAX_IMAGES; i++) diti_image_destroy(job, &job->images[i]);
    diti_image_destroy(job, &job->preview_image);
    diti_buffer_destroy(job->device, &job->health_readback);
}

/* --- commands --- */

static VkImageMemoryBarrier diti_image_barrier(const diti_job_image *image) {
    VkImageMemoryBarrier barrier;
    memset(&barrier, 0, sizeof barrier);
    barrier.sType = VK_STRUCTURE_TYPE_IMAGE_MEMORY_BARRIER;
    barrier.srcQueueFamilyIndex = barrier.dstQueueFamilyIndex = VK_QUEUE_FAMILY_IGNORED;
    barrier.image = image->image;
    barrier.subresourceRange.aspectMask = VK_IMAGE_ASPECT_COLOR_BIT;
    barrier.subresourceRange.levelCount = 1;
    barrier.subresourceRange.layerCount = 1;
    return barrier;
}

/* Also waits for the dispatches that wrote the buffer, and for whoever read the image's old content. */
static void diti_image_begin_copy(const dit_job *job, VkCommandBuffer commands, const diti_job_image *image) {
    VkImageMemoryBarrier to_copy = diti_image_barrier(image);
    VkMemoryBarrier written;
    memset(&written, 0, sizeof written);
    written.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER;
    written.srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT;
    written.dstAccessMask = VK_ACCESS_TRANSFER_READ_BIT;
    to_copy.dstAccessMask = VK_ACCESS_TRANSFER_WRITE_BIT;
    to_copy.oldLayout = VK_IMAGE_LAYOUT_UNDEFINED;
    to_copy.newLayout = VK_IMAGE_LAYOUT_TRANSFER_DST_OPTIMAL;
    job->device->vk.CmdPipelineBarrier(commands, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT, VK_PIPELINE_STAGE_TRANSFER_BIT, 0,
                                       1, &written, 0, NULL, 1, &to_copy);
}

/* Hands the image over: layout, visibility and, for an image of the application's, the queue family. */
static void diti_image_end_copy(const dit_job *job, VkCommandBuffer commands, const diti_job_image *image) {
    VkImageMemoryBarrier to_user = diti_image_barrier(image);
    const dit_target *target = &job->target;
    uint32_t own = job->device->queue_family;
    VkPipelineStageFlags stage =
        target->dst_stage ? target->dst_stage : (VkPipelineStageFlags)VK_PIPELINE_STAGE_ALL_COMMANDS_BIT;
    to_user.srcAccessMask = VK_ACCESS_TRANSFER_WRITE_BIT;
    to_user.dstAccessMask = target->dst_access ? target->dst_access : (VkAccessFlags)VK_ACCESS_MEMORY_READ_BIT;
    to_user.oldLayout = VK_IMAGE_LAYOUT_TRANSFER_DST_OPTIMAL;
    to_user.newLayout = image->layout;
    if (image->owned && diti_image_leaves(job)) { /* dit's queue need not know the stages of the other one */
        to_user.dstAccessMask = VK_ACCESS_MEMORY_READ_BIT;
        stage = VK_PIPELINE_STAGE_ALL_COMMANDS_BIT;
    }
    if (!image->owned && (diti_image_leaves(job) || target->dst_queue_family == VK_QUEUE_FAMILY_EXTERNAL ||
                          target->dst_queue_family == VK_QUEUE_FAMILY_FOREIGN_EXT)) {
        to_user.srcQueueFamilyIndex = own;
        to_user.dstQueueFamilyIndex = target->dst_queue_family;
        to_user.dstAccessMask = 0; /* a release: the other queue acquires */
        stage = VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT;
    }
    job->device->vk.CmdPipelineBarrier(commands, VK_PIPELINE_STAGE_TRANSFER_BIT, stage, 0, 0, NULL, 0, NULL, 1,
                                       &to_user);
}

static void diti_image_record_copy(const dit_job *job, VkCommandBuffer commands, diti_tensor rgba,
                                   const diti_job_image *image) {
    VkBufferImageCopy copy;
    VkDeviceSize size;
    VkBuffer buffer;
    memset(&copy, 0, sizeof copy);
    buffer = diti_plan_buffer(job->program.plan, rgba, &copy.bufferOffset, &size);
    copy.imageSubresource.aspectMask = VK_IMAGE_ASPECT_COLOR_BIT;
    copy.imageSubresource.layerCount = 1;
    copy.imageExtent.width = job->request.shape.width;
    copy.imageExtent.height = job->request.shape.height;
    copy.imageExtent.depth = 1;
    diti_image_begin_copy(job, commands, image);
    job->device->vk.CmdCopyBufferToImage(commands, buffer, image->image, VK_IMAGE_LAYOUT_TRANSFER_DST_OPTIMAL, 1,
                                         &copy);
    diti_image_end_copy(job, commands, image);
}

static void diti_image_record_health(const dit_job *job, VkCommandBuffer commands) {
    const diti_vk_api *vk = &job->device->vk;
    VkMemoryBarrier barrier;
    VkBufferCopy copy;
    VkBuffer buffer;
    memset(&copy, 0, sizeof copy);
    memset(&barrier, 0, sizeof barrier);
    buffer = diti_plan_buffer(job->program.plan, job->program.health_words, &copy.srcOffset, &copy.size);
    vk->CmdCopyBuffer(commands, buffer, job->health_readback.buffer, 1, &copy);
    barrier.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER;
    barrier.srcAccessMask = VK_ACCESS_TRANSFER_WRITE_BIT;
    barrier.dstAccessMask = VK_ACCESS_HOST_READ_BIT;
    vk->CmdPipelineBarrier(commands, VK_PIPELINE_STAGE_TRANSFER_BIT, VK_PIPELINE_STAGE_HOST_BIT, 0, 1, &barrier, 0,
                           NULL, 0, NULL);
}

DIT_INTERNAL void diti_job_record_finish(const dit_job *job, VkCommandBuffer commands) {
    uint32_t i;
    for (i = 0; i < job->request.shape.image_count && job->assignment.share == 0; i++)
        diti_image_record_copy(job, commands, job->program.rgba[i], &job->images[i]);
    diti_image_record_health(job, commands);
}

DIT_INTERNAL void diti_job_record_preview(const dit_job *job, VkCommandBuffer commands) {
    diti_image_record_copy(job, commands, job->program.preview, &job->preview_image);
}
