/* Pictures on the device: made by a copy from the plan's buffers, left in the layout that the caller wants. */
#include "job/job.h"

static dit_result diti_image_bind(dit_job *job, diti_job_image *image, dit_error *err) {
    diti_device *device = job->shares[0]->device;
    VkMemoryRequirements need;
    VkMemoryDedicatedAllocateInfo dedicated;
    VkExportMemoryAllocateInfo to_export;
    dit_result result;
    VkResult vk;
    memset(&dedicated, 0, sizeof dedicated);
    memset(&to_export, 0, sizeof to_export);
    dedicated.sType = VK_STRUCTURE_TYPE_MEMORY_DEDICATED_ALLOCATE_INFO;
    dedicated.image = image->image;
    to_export.sType = VK_STRUCTURE_TYPE_EXPORT_MEMORY_ALLOCATE_INFO;
    to_export.pNext = &dedicated;
    to_export.handleTypes = job->target.export_handle;
    device->vk.GetImageMemoryRequirements(device->device, image->image, &need);
    image->memory.next = image->exported ? &to_export : NULL;
    result = diti_block_create(device, &need, DITI_MEMORY_DEVICE, "output image", &image->memory, err);
    image->memory.next = NULL;
    DITI_TRY(result);
    vk = device->vk.BindImageMemory(device->device, image->image, image->memory.block.memory,
                                    image->memory.block.offset);
    return vk == VK_SUCCESS
               ? DIT_OK
               : diti_fail_vk(err, vk, "vkBindImageMemory failed for an output image (%s)", diti_vk_name(vk));
}

/* Frames of a clip are layers; a preview is the first frame. */
static uint32_t diti_image_layers(const dit_job *job, const diti_job_image *image) {
    return job->request.shape.clip && image != &job->preview_image ? job->request.shape.frames : 1;
}

static dit_result diti_image_view(const dit_job *job, diti_job_image *image, dit_error *err) {
    const diti_device *device = job->shares[0]->device;
    uint32_t layers = diti_image_layers(job, image);
    VkImageViewUsageCreateInfo usage;
    VkImageViewCreateInfo info;
    VkResult vk;
    memset(&usage, 0, sizeof usage);
    memset(&info, 0, sizeof info);
    usage.sType = VK_STRUCTURE_TYPE_IMAGE_VIEW_USAGE_CREATE_INFO;
    usage.usage = VK_IMAGE_USAGE_SAMPLED_BIT; /* whatever the image's formats are used for besides */
    info.sType = VK_STRUCTURE_TYPE_IMAGE_VIEW_CREATE_INFO;
    info.pNext = &usage;
    info.image = image->image;
    info.viewType = layers > 1 ? VK_IMAGE_VIEW_TYPE_2D_ARRAY : VK_IMAGE_VIEW_TYPE_2D;
    info.format = image->format;
    info.subresourceRange.aspectMask = VK_IMAGE_ASPECT_COLOR_BIT;
    info.subresourceRange.levelCount = 1;
    info.subresourceRange.layerCount = layers;
    vk = device->vk.CreateImageView(device->device, &info, device->callbacks, &image->view);
    return vk == VK_SUCCESS
               ? DIT_OK
               : diti_fail_vk(err, vk, "vkCreateImageView failed for an output image (%s)", diti_vk_name(vk));
}

/* Whether queues of another family use the pictures. Zero may be a family or no wish at all: it counts where the
   application's device has such queues. */
static bool diti_image_leaves(const dit_job *job) {
    const diti_device *device = job->shares[0]->device;
    uint32_t family = job->target.dst_queue_family;
    return family < 64 && family != device->queue_family && (device->families >> family & 1u);
}

static VkImageUsageFlags diti_image_usage(const dit_target *target) {
    return target->usage | VK_IMAGE_USAGE_TRANSFER_DST_BIT | VK_IMAGE_USAGE_TRANSFER_SRC_BIT |
           VK_IMAGE_USAGE_SAMPLED_BIT;
}

static VkFormat diti_image_format(const dit_target *target) {
    return target->format ? (VkFormat)target->format : VK_FORMAT_R8G8B8A8_UNORM;
}

#if defined(_WIN32)
#define DITI_EXPORT_HANDLE VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_WIN32_BIT
#define DITI_EXPORT_FUNCTION "vkGetMemoryWin32HandleKHR"
#define DITI_EXPORT_INFO VK_STRUCTURE_TYPE_MEMORY_GET_WIN32_HANDLE_INFO_KHR
typedef void *diti_export_handle;
#else
#define DITI_EXPORT_HANDLE VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT
#define DITI_EXPORT_FUNCTION "vkGetMemoryFdKHR"
#define DITI_EXPORT_INFO VK_STRUCTURE_TYPE_MEMORY_GET_FD_INFO_KHR
typedef int diti_export_handle;
#endif
/* The Windows function takes a structure of the same members, which Vulkan declares beside windows.h alone. */
typedef VkResult(VKAPI_PTR *diti_export_function)(VkDevice device, const VkMemoryGetFdInfoKHR *info,
                                                  diti_export_handle *handle);

/* Whether the device makes images whose memory can be exported. */
static dit_result diti_image_check_export(const diti_device *device, const dit_target *target, dit_error *err) {
    PFN_vkGetPhysicalDeviceImageFormatProperties2 ask =
        (PFN_vkGetPhysicalDeviceImageFormatProperties2)device->vk.GetInstanceProcAddr(
            device->instance, "vkGetPhysicalDeviceImageFormatProperties2");
    VkPhysicalDeviceExternalImageFormatInfo external;
    VkPhysicalDeviceImageFormatInfo2 info;
    VkExternalImageFormatProperties can;
    VkImageFormatProperties2 properties;
    if (target->export_handle != DITI_EXPORT_HANDLE)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "target.export_handle 0x%x: on this system dit exports memory by handle type 0x%x alone",
                         (unsigned)target->export_handle, (unsigned)DITI_EXPORT_HANDLE);
    if (device->allocator.alloc)
        return diti_fail(
            err, DIT_ERROR_INVALID_ARGUMENT,
            "target.export_handle: the device_allocator makes no memory for export; give an image of yours");
    if (!device->exports)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "target.export_handle: %s lacks, or was created without, %s",
                         device->info.name, DITI_EXPORT);
    memset(&external, 0, sizeof external);
    memset(&info, 0, sizeof info);
    memset(&can, 0, sizeof can);
    memset(&properties, 0, sizeof properties);
    external.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_EXTERNAL_IMAGE_FORMAT_INFO;
    external.handleType = DITI_EXPORT_HANDLE;
    info.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_IMAGE_FORMAT_INFO_2;
    info.pNext = &external;
    info.format = diti_image_format(target);
    info.type = VK_IMAGE_TYPE_2D;
    info.tiling = VK_IMAGE_TILING_OPTIMAL;
    info.usage = diti_image_usage(target);
    info.flags = target->flags;
    can.sType = VK_STRUCTURE_TYPE_EXTERNAL_IMAGE_FORMAT_PROPERTIES;
    properties.sType = VK_STRUCTURE_TYPE_IMAGE_FORMAT_PROPERTIES_2;
    properties.pNext = &can;
    if (ask && ask(device->physical, &info, &properties) == VK_SUCCESS &&
        (can.externalMemoryProperties.externalMemoryFeatures & VK_EXTERNAL_MEMORY_FEATURE_EXPORTABLE_BIT))
        return DIT_OK;
    return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                     "target.export_handle: %s exports no images of format %d, usage 0x%x and flags 0x%x",
                     device->info.name, (int)info.format, (unsigned)info.usage, (unsigned)info.flags);
}

/* Whether the driver makes images of dit's as the target wants them; what dit uses itself every driver has. */
DIT_INTERNAL dit_result diti_image_check(const diti_device *device, const dit_target *target, uint32_t width,
                                         uint32_t height, uint32_t layers, dit_error *err) {
    const uint32_t every_device = 256; /* layers of an image */
    VkImageFormatProperties most;
    VkResult vk;
    if (target->image) return DIT_OK;
    if (target->export_handle) DITI_TRY(diti_image_check_export(device, target, err));
    if (!target->usage && !target->flags && layers <= every_device) return DIT_OK;
    vk = device->vk.GetPhysicalDeviceImageFormatProperties(device->physical, diti_image_format(target),
                                                           VK_IMAGE_TYPE_2D, VK_IMAGE_TILING_OPTIMAL,
                                                           diti_image_usage(target), target->flags, &most);
    if (vk == VK_SUCCESS && layers > most.maxArrayLayers)
        return diti_fail(
            err, DIT_ERROR_INVALID_ARGUMENT,
            "target.format: an image of the device has at most %u layers, one for each frame, and the clip "
            "has %u frames; leave format 0 and read them",
            (unsigned)most.maxArrayLayers, (unsigned)layers);
    if (vk == VK_SUCCESS && width <= most.maxExtent.width && height <= most.maxExtent.height) return DIT_OK;
    return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                     "target.usage 0x%x and flags 0x%x: the device makes no such image of format %d and %u x %u "
                     "pixels (%s)",
                     (unsigned)target->usage, (unsigned)target->flags, (int)diti_image_format(target), width, height,
                     diti_vk_name(vk == VK_SUCCESS ? VK_ERROR_FORMAT_NOT_SUPPORTED : vk));
}

static dit_result diti_image_create(dit_job *job, diti_job_image *image, dit_error *err) {
    const diti_device *device = job->shares[0]->device;
    VkExternalMemoryImageCreateInfo external;
    VkImageCreateInfo info;
    uint32_t families[2];
    VkResult vk;
    memset(&external, 0, sizeof external);
    memset(&info, 0, sizeof info);
    external.sType = VK_STRUCTURE_TYPE_EXTERNAL_MEMORY_IMAGE_CREATE_INFO;
    external.handleTypes = job->target.export_handle;
    image->exported = external.handleTypes && image != &job->preview_image;
    info.sType = VK_STRUCTURE_TYPE_IMAGE_CREATE_INFO;
    info.pNext = image->exported ? &external : NULL;
    info.imageType = VK_IMAGE_TYPE_2D;
    info.format = image->format;
    info.extent.width = job->request.shape.width;
    info.extent.height = job->request.shape.height;
    info.extent.depth = info.mipLevels = 1;
    info.arrayLayers = diti_image_layers(job, image);
    info.samples = VK_SAMPLE_COUNT_1_BIT;
    info.tiling = VK_IMAGE_TILING_OPTIMAL;
    info.usage = diti_image_usage(&job->target);
    info.flags = job->target.flags;
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

/* Previews are bytes in any case. */
static void diti_image_aim(const dit_job *job, diti_job_image *image) {
    const dit_target *target = &job->target;
    bool preview = image == &job->preview_image && job->request.shape.texels != DITI_TEXELS_RGBA;
    image->format = preview ? VK_FORMAT_R8G8B8A8_UNORM : diti_image_format(target);
    image->layout =
        target->final_layout ? (VkImageLayout)target->final_layout : VK_IMAGE_LAYOUT_SHADER_READ_ONLY_OPTIMAL;
}

static dit_result diti_image_prepare(dit_job *job, diti_job_image *image, VkImage given, dit_error *err) {
    diti_image_aim(job, image);
    image->image = given;
    if (!given) return diti_image_create(job, image, err);
    image->mip = job->target.mip;
    image->layer = job->target.layer;
    return DIT_OK;
}

/* Clips have images where a format is asked for, which one of the application's has. */
DIT_INTERNAL uint32_t diti_image_count(const dit_job *job) {
    return job->request.shape.clip && !job->target.format ? 0 : job->request.shape.image_count;
}

DIT_INTERNAL bool diti_job_may_aim(const dit_job *job, const dit_target *target) {
    const dit_target *then = &job->target;
    if ((target->image != VK_NULL_HANDLE) != (then->image != VK_NULL_HANDLE)) return false;
    if (job->request.shape.clip && !target->format != !then->format) return false;
    return target->image || (diti_image_format(target) == diti_image_format(then) && target->usage == then->usage &&
                             target->flags == then->flags && target->export_handle == then->export_handle &&
                             target->dst_queue_family == then->dst_queue_family);
}

DIT_INTERNAL void diti_job_aim(dit_job *job, const dit_target *target) {
    diti_job_image *image = &job->images[0];
    uint32_t i;
    job->target = *target;
    for (i = 0; i < job->request.shape.image_count; i++) diti_image_aim(job, &job->images[i]);
    if (job->preview_image.owned) diti_image_aim(job, &job->preview_image);
    if (image->owned) return;
    image->image = target->image;
    image->mip = target->mip;
    image->layer = target->layer;
}

/* Room for the frames of clips in host memory. */
static dit_result diti_image_create_frames(dit_job *job, dit_error *err) {
    const diti_job_shape *shape = &job->request.shape;
    VkDeviceSize pixels = (VkDeviceSize)shape->width * shape->height * shape->image_count * shape->frames;
    if (!shape->clip || job->shares[0]->assignment.share) return DIT_OK;
    DITI_TRY(diti_buffer_create_pinned(job->shares[0]->device, 4 * pixels, DITI_MEMORY_READBACK, "frames",
                                       "have a shorter or a smaller clip", &job->frames, err));
    if (!shape->float_frames) return DIT_OK;
    return diti_buffer_create_pinned(job->shares[0]->device, 12 * pixels, DITI_MEMORY_READBACK, "float frames",
                                     "leave out float_frames, or have a shorter or a smaller clip", &job->float_frames,
                                     err);
}

DIT_INTERNAL dit_result diti_job_images_create(dit_job *job, dit_error *err) {
    diti_share *first = job->shares[0];
    dit_result result = diti_buffer_create(first->device, DITI_REPORT_BYTES, DITI_MEMORY_READBACK, "health",
                                           &job->health_readback, err);
    uint32_t i;
    if (result >= 0) result = diti_image_create_frames(job, err);
    for (i = 0; i < diti_image_count(job) && result >= 0 && first->assignment.share == 0; i++)
        result = diti_image_prepare(job, &job->images[i], i == 0 ? job->target.image : VK_NULL_HANDLE, err);
    if (result >= 0 && job->request.shape.preview_interval && first->assignment.share == 0)
        result = diti_image_prepare(job, &job->preview_image, VK_NULL_HANDLE, err);
    return result;
}

static void diti_image_destroy(dit_job *job, diti_job_image *image) {
    diti_device *device = job->shares[0]->device;
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
    diti_buffer_destroy(job->shares[0]->device, &job->frames);
    diti_buffer_destroy(job->shares[0]->device, &job->float_frames);
    diti_buffer_destroy(job->shares[0]->device, &job->health_readback);
}

DIT_API dit_result dit_job_export(dit_job *job, uint32_t image, dit_export *out, dit_error *err) {
    const diti_device *device;
    const diti_job_image *from;
    diti_export_handle handle;
    diti_export_function get;
    VkMemoryGetFdInfoKHR info;
    VkResult vk;
    if (!job || !out || image >= job->request.shape.image_count || job->shares[0]->assignment.share)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "dit_job_export: there is no job, no out or no image %u",
                         image);
    memset(out, 0, sizeof *out);
    from = &job->images[image];
    if (!from->exported)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "dit_job_export: the job was created without target.export_handle");
    device = job->shares[0]->device;
    get = (diti_export_function)device->vk.GetDeviceProcAddr(device->device, DITI_EXPORT_FUNCTION);
    memset(&info, 0, sizeof info);
    info.sType = DITI_EXPORT_INFO;
    info.memory = from->memory.block.memory;
    info.handleType = DITI_EXPORT_HANDLE;
    vk = get ? get(device->device, &info, &handle) : VK_ERROR_EXTENSION_NOT_PRESENT;
    if (vk != VK_SUCCESS) return diti_fail_vk(err, vk, DITI_EXPORT_FUNCTION " failed (%s)", diti_vk_name(vk));
    out->handle = (int64_t)(intptr_t)handle;
    out->handle_type = DITI_EXPORT_HANDLE;
    out->memory_type = from->memory.memory_type;
    out->size = from->memory.block.size;
    out->format = (uint32_t)from->format;
    out->width = job->request.shape.width;
    out->height = job->request.shape.height;
    out->usage = diti_image_usage(&job->target);
    out->flags = job->target.flags;
    out->layout = (uint32_t)from->layout;
    return DIT_OK;
}

/* --- commands --- */

static VkImageMemoryBarrier diti_image_barrier(const diti_job_image *image) {
    VkImageMemoryBarrier barrier;
    memset(&barrier, 0, sizeof barrier);
    barrier.sType = VK_STRUCTURE_TYPE_IMAGE_MEMORY_BARRIER;
    barrier.srcQueueFamilyIndex = barrier.dstQueueFamilyIndex = VK_QUEUE_FAMILY_IGNORED;
    barrier.image = image->image;
    barrier.subresourceRange.aspectMask = VK_IMAGE_ASPECT_COLOR_BIT;
    barrier.subresourceRange.baseMipLevel = image->mip;
    barrier.subresourceRange.baseArrayLayer = image->layer;
    barrier.subresourceRange.levelCount = 1;
    barrier.subresourceRange.layerCount = 1;
    return barrier;
}

/* Also waits for the dispatches that wrote the buffer, and for whoever read the image's old content. */
static void diti_image_begin_copy(const dit_job *job, VkCommandBuffer commands, const diti_job_image *image) {
    const diti_vk_api *vk = &job->shares[0]->device->vk;
    VkImageMemoryBarrier to_copy = diti_image_barrier(image);
    VkMemoryBarrier written;
    memset(&written, 0, sizeof written);
    written.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER;
    written.srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT;
    written.dstAccessMask = VK_ACCESS_TRANSFER_READ_BIT;
    to_copy.dstAccessMask = VK_ACCESS_TRANSFER_WRITE_BIT;
    to_copy.oldLayout = VK_IMAGE_LAYOUT_UNDEFINED;
    to_copy.newLayout = VK_IMAGE_LAYOUT_TRANSFER_DST_OPTIMAL;
    vk->CmdPipelineBarrier(commands, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT, VK_PIPELINE_STAGE_TRANSFER_BIT, 0, 1, &written,
                           0, NULL, 1, &to_copy);
}

/* Hands the image over: layout, visibility and, for an image of the application's, the queue family. */
static void diti_image_end_copy(const dit_job *job, VkCommandBuffer commands, const diti_job_image *image) {
    VkImageMemoryBarrier to_user = diti_image_barrier(image);
    const dit_target *target = &job->target;
    const diti_device *device = job->shares[0]->device;
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
    if ((!image->owned && diti_image_leaves(job)) ||
        ((!image->owned || image->exported) && (target->dst_queue_family == VK_QUEUE_FAMILY_EXTERNAL ||
                                                target->dst_queue_family == VK_QUEUE_FAMILY_FOREIGN_EXT))) {
        to_user.srcQueueFamilyIndex = device->queue_family;
        to_user.dstQueueFamilyIndex = target->dst_queue_family;
        to_user.dstAccessMask = 0; /* a release: the other queue acquires */
        stage = VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT;
    }
    device->vk.CmdPipelineBarrier(commands, VK_PIPELINE_STAGE_TRANSFER_BIT, stage, 0, 0, NULL, 0, NULL, 1, &to_user);
}

/* skipped: bytes of texels in front. */
static void diti_image_record_copy(const dit_job *job, VkCommandBuffer commands, diti_tensor rgba, VkDeviceSize skipped,
                                   const diti_job_image *image) {
    const diti_share *first = job->shares[0];
    VkBufferImageCopy copy;
    VkDeviceSize size;
    VkBuffer buffer;
    memset(&copy, 0, sizeof copy);
    buffer = diti_plan_buffer(first->program.plan, rgba, &copy.bufferOffset, &size);
    copy.bufferOffset += skipped;
    copy.imageSubresource.aspectMask = VK_IMAGE_ASPECT_COLOR_BIT;
    copy.imageSubresource.mipLevel = image->mip;
    copy.imageSubresource.baseArrayLayer = image->layer;
    copy.imageSubresource.layerCount = 1;
    copy.imageExtent.width = job->request.shape.width;
    copy.imageExtent.height = job->request.shape.height;
    copy.imageExtent.depth = 1;
    diti_image_begin_copy(job, commands, image);
    first->device->vk.CmdCopyBufferToImage(commands, buffer, image->image, VK_IMAGE_LAYOUT_TRANSFER_DST_OPTIMAL, 1,
                                           &copy);
    diti_image_end_copy(job, commands, image);
}

static void diti_image_record_health(const dit_job *job, VkCommandBuffer commands) {
    const diti_share *first = job->shares[0];
    const diti_vk_api *vk = &first->device->vk;
    VkMemoryBarrier barrier;
    VkBufferCopy copy;
    VkBuffer buffer;
    uint32_t i;
    memset(&copy, 0, sizeof copy);
    memset(&barrier, 0, sizeof barrier);
    buffer = diti_plan_buffer(first->program.plan, first->program.health_words, &copy.srcOffset, &copy.size);
    vk->CmdCopyBuffer(commands, buffer, job->health_readback.buffer, 1, &copy);
    for (i = 0; i < 2; i++) {
        diti_tensor state = first->program.residuals[i].state;
        if (!state) continue;
        buffer = diti_plan_buffer(first->program.plan, state, &copy.srcOffset, &copy.size);
        copy.dstOffset = sizeof(diti_health) + i * DITI_REUSE_STATE * sizeof(float);
        copy.size = DITI_REUSE_STATE * sizeof(float);
        vk->CmdCopyBuffer(commands, buffer, job->health_readback.buffer, 1, &copy);
    }
    barrier.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER;
    barrier.srcAccessMask = VK_ACCESS_TRANSFER_WRITE_BIT;
    barrier.dstAccessMask = VK_ACCESS_HOST_READ_BIT;
    vk->CmdPipelineBarrier(commands, VK_PIPELINE_STAGE_TRANSFER_BIT, VK_PIPELINE_STAGE_HOST_BIT, 0, 1, &barrier, 0,
                           NULL, 0, NULL);
}

DIT_INTERNAL void diti_job_await_report(dit_job *job) {
    diti_health *health = (diti_health *)job->health_readback.block.mapped;
    memset(health, 0, DITI_REPORT_BYTES);
    health->step = DITI_NO_REPORT;
    diti_buffer_flush(job->shares[0]->device, &job->health_readback);
}

/* The commands of a picture that has to be repeated say so, whenever they write their report. */
DIT_INTERNAL bool diti_job_reported(const dit_job *job) {
    const volatile diti_health *health = (const volatile diti_health *)job->health_readback.block.mapped;
    diti_buffer_invalidate(job->shares[0]->device, &job->health_readback);
    return health->step != DITI_NO_REPORT && !health->blocked;
}

DIT_INTERNAL void diti_job_record_finish(const dit_job *job, VkCommandBuffer commands) {
    const diti_share *first = job->shares[0];
    uint32_t i;
    for (i = 0; i < job->request.shape.image_count && first->assignment.share == 0 && !job->request.shape.clip; i++)
        diti_image_record_copy(job, commands, first->program.texels[i], 0, &job->images[i]);
    diti_image_record_health(job, commands);
}

DIT_INTERNAL void diti_image_record_frame(const dit_job *job, VkCommandBuffer commands, uint32_t index, uint32_t frame,
                                          uint32_t place) {
    const diti_job_shape *shape = &job->request.shape;
    VkDeviceSize texel = shape->texels == DITI_TEXELS_LIGHT ? 8 : shape->texels == DITI_TEXELS_GREY ? 1 : 4;
    diti_job_image image = job->images[index];
    image.layer += place;
    diti_image_record_copy(job, commands, job->shares[0]->program.texels[0],
                           texel * frame * shape->width * shape->height, &image);
}

DIT_INTERNAL void diti_job_record_preview(const dit_job *job, VkCommandBuffer commands) {
    diti_image_record_copy(job, commands, job->shares[0]->program.preview, 0, &job->preview_image);
}
