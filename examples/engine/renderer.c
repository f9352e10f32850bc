/* The renderer: Vulkan 1.3, dynamic rendering, two frames in flight, one timeline semaphore that counts frames. */
#include "engine.h"
#include "shaders.inc"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef ENGINE_WINDOW
#define GLFW_INCLUDE_NONE
#include <GLFW/glfw3.h>
VkResult glfwCreateWindowSurface(VkInstance, GLFWwindow *, const VkAllocationCallbacks *, VkSurfaceKHR *);
#endif
VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL vkGetInstanceProcAddr(VkInstance instance, const char *name);

void renderer_say(renderer *r, const char *what, VkResult result) {
    if (result == VK_ERROR_DEVICE_LOST) r->lost = true;
    if (result < 0) fprintf(stderr, "engine: %s: VkResult %d\n", what, (int)result);
}

#ifndef ENGINE_VMA
void *memory_open(renderer *r) {
    (void)r;
    fprintf(stderr, "engine: built without VMA\n");
    return NULL;
}
void memory_close(void *allocator) { (void)allocator; }
VkResult memory_alloc(void *allocator, const VkMemoryRequirements *need, VkMemoryPropertyFlags required,
                      VkMemoryPropertyFlags preferred, VkDeviceMemory *memory, VkDeviceSize *offset, void **mapped,
                      void **handle) {
    (void)allocator, (void)need, (void)required, (void)preferred, (void)memory, (void)offset, (void)mapped,
        (void)handle;
    return VK_ERROR_OUT_OF_DEVICE_MEMORY;
}
void memory_free(void *allocator, void *handle) { (void)allocator, (void)handle; }
#endif

static VKAPI_ATTR VkBool32 VKAPI_CALL message(VkDebugUtilsMessageSeverityFlagBitsEXT severity,
                                              VkDebugUtilsMessageTypeFlagsEXT type,
                                              const VkDebugUtilsMessengerCallbackDataEXT *data, void *user) {
    (void)severity, (void)type;
    ((renderer *)user)->messages++;
    fprintf(stderr, "validation: %.600s\n", data->pMessage);
    return VK_FALSE;
}

/* ---- instance and device ---- */

static bool open_instance(renderer *r, const options *o) {
    const VkValidationFeatureEnableEXT enable = VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT;
    VkValidationFeaturesEXT features = {VK_STRUCTURE_TYPE_VALIDATION_FEATURES_EXT, NULL, 1, &enable, 0, NULL};
    VkDebugUtilsMessengerCreateInfoEXT debug = {
        .sType = VK_STRUCTURE_TYPE_DEBUG_UTILS_MESSENGER_CREATE_INFO_EXT,
        .pNext = &features,
        .messageSeverity =
            VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT | VK_DEBUG_UTILS_MESSAGE_SEVERITY_WARNING_BIT_EXT,
        .messageType = VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT,
        .pfnUserCallback = message,
        .pUserData = r,
    };
    const char *layer = "VK_LAYER_KHRONOS_validation", *extensions[16];
    VkApplicationInfo app = {.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO, .apiVersion = VK_API_VERSION_1_3};
    VkInstanceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
                                 .pApplicationInfo = &app,
                                 .ppEnabledLayerNames = &layer,
                                 .ppEnabledExtensionNames = extensions};
    VkResult result;
    r->entry = vkGetInstanceProcAddr;
#define LOAD(name) r->name = (PFN_vk##name)r->entry(r->instance, "vk" #name);
    GLOBAL_CALLS(LOAD)
#ifdef ENGINE_WINDOW
    if (r->window) {
        uint32_t count = 0, i;
        const char **needed = glfwGetRequiredInstanceExtensions(&count);
        for (i = 0; i < count && i < 15; i++) extensions[info.enabledExtensionCount++] = needed[i];
    }
#endif
    if (o->validate) {
        extensions[info.enabledExtensionCount++] = VK_EXT_DEBUG_UTILS_EXTENSION_NAME;
        info.enabledLayerCount = 1;
        info.pNext = &debug;
    }
    result = r->CreateInstance(&info, NULL, &r->instance);
    renderer_say(r, "vkCreateInstance", result);
    if (result < 0) return false;
    INSTANCE_CALLS(LOAD)
    debug.pNext = NULL;
    if (o->validate) r->CreateDebugUtilsMessengerEXT(r->instance, &debug, NULL, &r->messenger);
#ifdef ENGINE_WINDOW
    if (r->window) renderer_say(r, "no surface", glfwCreateWindowSurface(r->instance, r->window, NULL, &r->surface));
#endif
    return true;
}

/* One family draws; with --compute another one, that cannot draw, computes. */
static bool choose_families(renderer *r, const options *o) {
    VkQueueFamilyProperties families[16];
    uint32_t count = 0, i;
    r->family = r->compute_family = UINT32_MAX;
    r->GetPhysicalDeviceQueueFamilyProperties(r->gpu, &count, NULL);
    if (count > 16) count = 16;
    r->GetPhysicalDeviceQueueFamilyProperties(r->gpu, &count, families);
    for (i = 0; i < count; i++) {
        VkBool32 presents = !r->surface;
        if (r->surface) r->GetPhysicalDeviceSurfaceSupportKHR(r->gpu, i, r->surface, &presents);
        if (families[i].queueFlags & VK_QUEUE_GRAPHICS_BIT && presents && r->family == UINT32_MAX)
            r->family = i;
        else if (families[i].queueFlags & VK_QUEUE_COMPUTE_BIT && o->compute && r->compute_family == UINT32_MAX)
            r->compute_family = i;
    }
    if (r->family == UINT32_MAX) fprintf(stderr, "engine: the device draws nothing\n");
    if (o->compute && r->compute_family == UINT32_MAX)
        fprintf(stderr, "engine: --compute: the device has no second queue family\n");
    return r->family != UINT32_MAX && (!o->compute || r->compute_family != UINT32_MAX);
}

static bool open_device(renderer *r, const options *o) {
    const char *swapchain = VK_KHR_SWAPCHAIN_EXTENSION_NAME;
    float priorities[2] = {1, 0.5f};
    VkDeviceQueueCreateInfo queues[2] = {{VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO, NULL, 0, 0, 1, &priorities[0]},
                                         {VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO, NULL, 0, 0, 1, &priorities[1]}};
    VkPhysicalDeviceVulkan12Features twelve = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES,
                                               .timelineSemaphore = VK_TRUE};
    VkPhysicalDeviceVulkan13Features thirteen = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES,
                                                 .pNext = &twelve,
                                                 .synchronization2 = VK_TRUE,
                                                 .dynamicRendering = VK_TRUE};
    VkDeviceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
                               .pNext = &thirteen,
                               .queueCreateInfoCount = o->compute ? 2 : 1,
                               .pQueueCreateInfos = queues,
                               .enabledExtensionCount = r->surface ? 1 : 0,
                               .ppEnabledExtensionNames = &swapchain};
    VkPhysicalDeviceProperties properties;
    VkResult result;
    uint32_t one = 1;
    if (r->EnumeratePhysicalDevices(r->instance, &one, &r->gpu) < 0 || !one || !choose_families(r, o)) return false;
    r->GetPhysicalDeviceProperties(r->gpu, &properties);
    r->GetPhysicalDeviceMemoryProperties(r->gpu, &r->memory);
    snprintf(r->name, sizeof r->name, "%s", properties.deviceName);
    queues[0].queueFamilyIndex = r->family;
    queues[1].queueFamilyIndex = r->compute_family;
    r->device_info = device_extend(r, &info);
    if (!r->device_info) return false;
    result = r->CreateDevice(r->gpu, r->device_info, NULL, &r->device);
    renderer_say(r, "vkCreateDevice", result);
    if (result < 0) return false;
#define LOAD_DEVICE(name) r->name = (PFN_vk##name)r->GetDeviceProcAddr(r->device, "vk" #name);
    DEVICE_CALLS(LOAD_DEVICE)
    r->GetDeviceQueue(r->device, r->family, 0, &r->queue);
    if (o->compute) r->GetDeviceQueue(r->device, r->compute_family, 0, &r->compute_queue);
    if (o->vma) r->allocator = memory_open(r);
    return !o->vma || r->allocator;
}

static VkSemaphore make_semaphore(renderer *r, VkSemaphoreType kind) {
    VkSemaphoreTypeCreateInfo type = {VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO, NULL, kind, 0};
    VkSemaphoreCreateInfo info = {VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO, &type, 0};
    VkSemaphore semaphore = VK_NULL_HANDLE;
    r->CreateSemaphore(r->device, &info, NULL, &semaphore);
    return semaphore;
}

static void open_commands(renderer *r, uint32_t family, VkCommandPool *pools, VkCommandBuffer *commands) {
    VkCommandPoolCreateInfo info = {VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO, NULL, 0, family};
    uint32_t i;
    for (i = 0; i < FRAMES; i++) {
        VkCommandBufferAllocateInfo one = {VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO, NULL, VK_NULL_HANDLE,
                                           VK_COMMAND_BUFFER_LEVEL_PRIMARY, 1};
        r->CreateCommandPool(r->device, &info, NULL, &pools[i]);
        one.commandPool = pools[i];
        r->AllocateCommandBuffers(r->device, &one, &commands[i]);
    }
}

/* ---- textures ---- */

static bool bind(renderer *r, const VkMemoryRequirements *need, VkMemoryPropertyFlags flags, VkDeviceMemory *memory) {
    VkMemoryAllocateInfo info = {VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO, NULL, need->size, 0};
    while (!(need->memoryTypeBits >> info.memoryTypeIndex & 1) ||
           (r->memory.memoryTypes[info.memoryTypeIndex].propertyFlags & flags) != flags)
        if (++info.memoryTypeIndex == r->memory.memoryTypeCount) return false;
    return r->AllocateMemory(r->device, &info, NULL, memory) == VK_SUCCESS;
}

static VkImageView make_view(renderer *r, VkImage image, VkFormat format, uint32_t mips) {
    VkImageViewCreateInfo info = {.sType = VK_STRUCTURE_TYPE_IMAGE_VIEW_CREATE_INFO,
                                  .image = image,
                                  .viewType = VK_IMAGE_VIEW_TYPE_2D,
                                  .format = format,
                                  .subresourceRange = {VK_IMAGE_ASPECT_COLOR_BIT, 0, mips, 0, 1}};
    VkImageView view = VK_NULL_HANDLE;
    r->CreateImageView(r->device, &info, NULL, &view);
    return view;
}

static bool make_texture(renderer *r, VkExtent3D extent, uint32_t mips, VkFormat format, VkImageUsageFlags usage,
                         texture *out) {
    uint32_t families[2] = {r->family, r->compute_family};
    bool both = r->compute_queue != NULL;
    VkImageCreateInfo info = {.sType = VK_STRUCTURE_TYPE_IMAGE_CREATE_INFO,
                              .imageType = VK_IMAGE_TYPE_2D,
                              .format = format,
                              .extent = extent,
                              .mipLevels = mips,
                              .arrayLayers = 1,
                              .samples = VK_SAMPLE_COUNT_1_BIT,
                              .usage = usage,
                              .sharingMode = both ? VK_SHARING_MODE_CONCURRENT : VK_SHARING_MODE_EXCLUSIVE,
                              .queueFamilyIndexCount = both ? 2 : 0,
                              .pQueueFamilyIndices = families};
    VkMemoryRequirements need;
    VkDeviceSize offset = 0;
    void *mapped;
    memset(out, 0, sizeof *out);
    out->side = extent.width;
    out->mips = mips;
    if (r->CreateImage(r->device, &info, NULL, &out->image) < 0) return false;
    r->GetImageMemoryRequirements(r->device, out->image, &need);
    if (r->allocator ? memory_alloc(r->allocator, &need, 0, VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT, &out->memory, &offset,
                                    &mapped, &out->handle) < 0
                     : !bind(r, &need, 0, &out->memory))
        return false;
    r->BindImageMemory(r->device, out->image, out->memory, offset);
    out->view = make_view(r, out->image, format, mips);
    return out->view != VK_NULL_HANDLE;
}

bool renderer_make_texture(renderer *r, uint32_t side, uint32_t mips, VkFormat format, VkImageUsageFlags usage,
                           texture *out) {
    return make_texture(r, (VkExtent3D){side, side, 1}, mips, format, usage, out);
}

void renderer_free_texture(renderer *r, texture *t) {
    r->DestroyImageView(r->device, t->view, NULL);
    r->DestroyImage(r->device, t->image, NULL);
    if (t->handle)
        memory_free(r->allocator, t->handle);
    else
        r->FreeMemory(r->device, t->memory, NULL);
    memset(t, 0, sizeof *t);
}

static void barrier(renderer *r, VkImage image, uint32_t mip, uint32_t mips, VkPipelineStageFlags2 from,
                    VkAccessFlags2 written, VkImageLayout before, VkPipelineStageFlags2 to, VkAccessFlags2 access,
                    VkImageLayout after) {
    VkImageMemoryBarrier2 one = {VK_STRUCTURE_TYPE_IMAGE_MEMORY_BARRIER_2,
                                 NULL,
                                 from,
                                 written,
                                 to,
                                 access,
                                 before,
                                 after,
                                 VK_QUEUE_FAMILY_IGNORED,
                                 VK_QUEUE_FAMILY_IGNORED,
                                 image,
                                 {VK_IMAGE_ASPECT_COLOR_BIT, mip, mips, 0, 1}};
    VkDependencyInfo info = {
        .sType = VK_STRUCTURE_TYPE_DEPENDENCY_INFO, .imageMemoryBarrierCount = 1, .pImageMemoryBarriers = &one};
    r->CmdPipelineBarrier2(r->commands[r->frame % FRAMES], &info);
}

void renderer_make_mips(renderer *r, const texture *t) {
    const VkPipelineStageFlags2 blit = VK_PIPELINE_STAGE_2_BLIT_BIT;
    uint32_t mip;
    barrier(r, t->image, 0, 1, VK_PIPELINE_STAGE_2_ALL_COMMANDS_BIT, VK_ACCESS_2_MEMORY_WRITE_BIT,
            VK_IMAGE_LAYOUT_SHADER_READ_ONLY_OPTIMAL, blit, VK_ACCESS_2_TRANSFER_READ_BIT,
            VK_IMAGE_LAYOUT_TRANSFER_SRC_OPTIMAL);
    if (t->mips > 1)
        barrier(r, t->image, 1, t->mips - 1, VK_PIPELINE_STAGE_2_FRAGMENT_SHADER_BIT, 0, VK_IMAGE_LAYOUT_UNDEFINED,
                blit, VK_ACCESS_2_TRANSFER_WRITE_BIT, VK_IMAGE_LAYOUT_TRANSFER_DST_OPTIMAL);
    for (mip = 1; mip < t->mips; mip++) {
        int32_t from = (int32_t)(t->side >> (mip - 1)), to = from > 1 ? from / 2 : 1;
        VkImageBlit2 region = {.sType = VK_STRUCTURE_TYPE_IMAGE_BLIT_2,
                               .srcSubresource = {VK_IMAGE_ASPECT_COLOR_BIT, mip - 1, 0, 1},
                               .srcOffsets = {{0, 0, 0}, {from, from, 1}},
                               .dstSubresource = {VK_IMAGE_ASPECT_COLOR_BIT, mip, 0, 1},
                               .dstOffsets = {{0, 0, 0}, {to, to, 1}}};
        VkBlitImageInfo2 info = {VK_STRUCTURE_TYPE_BLIT_IMAGE_INFO_2,
                                 NULL,
                                 t->image,
                                 VK_IMAGE_LAYOUT_TRANSFER_SRC_OPTIMAL,
                                 t->image,
                                 VK_IMAGE_LAYOUT_TRANSFER_DST_OPTIMAL,
                                 1,
                                 &region,
                                 VK_FILTER_LINEAR};
        r->CmdBlitImage2(r->commands[r->frame % FRAMES], &info);
        barrier(r, t->image, mip, 1, blit, VK_ACCESS_2_TRANSFER_WRITE_BIT, VK_IMAGE_LAYOUT_TRANSFER_DST_OPTIMAL, blit,
                VK_ACCESS_2_TRANSFER_READ_BIT, VK_IMAGE_LAYOUT_TRANSFER_SRC_OPTIMAL);
    }
    barrier(r, t->image, 0, t->mips, blit, 0, VK_IMAGE_LAYOUT_TRANSFER_SRC_OPTIMAL,
            VK_PIPELINE_STAGE_2_FRAGMENT_SHADER_BIT, VK_ACCESS_2_SHADER_SAMPLED_READ_BIT,
            VK_IMAGE_LAYOUT_SHADER_READ_ONLY_OPTIMAL);
}

/* ---- the pipeline ---- */

typedef struct push {
    float place[4], color[4];
    uint32_t cube;
} push;

static VkShaderModule make_module(renderer *r, const uint32_t *words, size_t size) {
    VkShaderModuleCreateInfo info = {VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO, NULL, 0, size, words};
    VkShaderModule module = VK_NULL_HANDLE;
    r->CreateShaderModule(r->device, &info, NULL, &module);
    return module;
}

static bool open_pipeline(renderer *r) {
    VkSamplerCreateInfo sampler = {.sType = VK_STRUCTURE_TYPE_SAMPLER_CREATE_INFO,
                                   .magFilter = VK_FILTER_LINEAR,
                                   .minFilter = VK_FILTER_LINEAR,
                                   .mipmapMode = VK_SAMPLER_MIPMAP_MODE_LINEAR,
                                   .addressModeU = VK_SAMPLER_ADDRESS_MODE_CLAMP_TO_EDGE,
                                   .addressModeV = VK_SAMPLER_ADDRESS_MODE_CLAMP_TO_EDGE,
                                   .maxLod = VK_LOD_CLAMP_NONE};
    VkDescriptorSetLayoutBinding binding = {0, VK_DESCRIPTOR_TYPE_COMBINED_IMAGE_SAMPLER, 1,
                                            VK_SHADER_STAGE_FRAGMENT_BIT, NULL};
    VkDescriptorSetLayoutCreateInfo set = {VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO, NULL, 0, 1, &binding};
    VkDescriptorPoolSize size = {VK_DESCRIPTOR_TYPE_COMBINED_IMAGE_SAMPLER, 2 * FRAMES};
    VkDescriptorPoolCreateInfo pool = {VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO, NULL, 0, 2 * FRAMES, 1, &size};
    VkDescriptorSetLayout layouts[2 * FRAMES];
    VkDescriptorSetAllocateInfo allocate = {VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO, NULL, VK_NULL_HANDLE,
                                            2 * FRAMES, layouts};
    VkPushConstantRange range = {VK_SHADER_STAGE_VERTEX_BIT, 0, sizeof(push)};
    VkPipelineLayoutCreateInfo layout = {
        VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO, NULL, 0, 1, &r->set_layout, 1, &range};
    VkPipelineShaderStageCreateInfo stages[2] = {{.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                                                  .stage = VK_SHADER_STAGE_VERTEX_BIT,
                                                  .pName = "main"},
                                                 {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                                                  .stage = VK_SHADER_STAGE_FRAGMENT_BIT,
                                                  .pName = "main"}};
    VkPipelineVertexInputStateCreateInfo input = {.sType = VK_STRUCTURE_TYPE_PIPELINE_VERTEX_INPUT_STATE_CREATE_INFO};
    VkPipelineInputAssemblyStateCreateInfo assembly = {.sType =
                                                           VK_STRUCTURE_TYPE_PIPELINE_INPUT_ASSEMBLY_STATE_CREATE_INFO,
                                                       .topology = VK_PRIMITIVE_TOPOLOGY_TRIANGLE_LIST};
    VkPipelineViewportStateCreateInfo viewport = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_VIEWPORT_STATE_CREATE_INFO, .viewportCount = 1, .scissorCount = 1};
    VkPipelineRasterizationStateCreateInfo raster = {.sType =
                                                         VK_STRUCTURE_TYPE_PIPELINE_RASTERIZATION_STATE_CREATE_INFO,
                                                     .cullMode = VK_CULL_MODE_BACK_BIT,
                                                     .frontFace = VK_FRONT_FACE_CLOCKWISE,
                                                     .lineWidth = 1};
    VkPipelineMultisampleStateCreateInfo samples = {.sType = VK_STRUCTURE_TYPE_PIPELINE_MULTISAMPLE_STATE_CREATE_INFO,
                                                    .rasterizationSamples = VK_SAMPLE_COUNT_1_BIT};
    VkPipelineColorBlendAttachmentState opaque = {.colorWriteMask = 15};
    VkPipelineColorBlendStateCreateInfo blend = {.sType = VK_STRUCTURE_TYPE_PIPELINE_COLOR_BLEND_STATE_CREATE_INFO,
                                                 .attachmentCount = 1,
                                                 .pAttachments = &opaque};
    VkDynamicState states[2] = {VK_DYNAMIC_STATE_VIEWPORT, VK_DYNAMIC_STATE_SCISSOR};
    VkPipelineDynamicStateCreateInfo dynamic = {VK_STRUCTURE_TYPE_PIPELINE_DYNAMIC_STATE_CREATE_INFO, NULL, 0, 2,
                                                states};
    VkPipelineRenderingCreateInfo rendering = {.sType = VK_STRUCTURE_TYPE_PIPELINE_RENDERING_CREATE_INFO,
                                               .colorAttachmentCount = 1,
                                               .pColorAttachmentFormats = &r->format};
    VkGraphicsPipelineCreateInfo info = {.sType = VK_STRUCTURE_TYPE_GRAPHICS_PIPELINE_CREATE_INFO,
                                         .pNext = &rendering,
                                         .stageCount = 2,
                                         .pStages = stages,
                                         .pVertexInputState = &input,
                                         .pInputAssemblyState = &assembly,
                                         .pViewportState = &viewport,
                                         .pRasterizationState = &raster,
                                         .pMultisampleState = &samples,
                                         .pColorBlendState = &blend,
                                         .pDynamicState = &dynamic};
    VkResult result;
    uint32_t i;
    r->CreateSampler(r->device, &sampler, NULL, &r->sampler);
    r->CreateDescriptorSetLayout(r->device, &set, NULL, &r->set_layout);
    r->CreateDescriptorPool(r->device, &pool, NULL, &r->descriptors);
    for (i = 0; i < 2 * FRAMES; i++) layouts[i] = r->set_layout;
    allocate.descriptorPool = r->descriptors;
    r->AllocateDescriptorSets(r->device, &allocate, r->sets[0]);
    r->CreatePipelineLayout(r->device, &layout, NULL, &r->layout);
    stages[0].module = make_module(r, cube_vert, sizeof cube_vert);
    stages[1].module = make_module(r, cube_frag, sizeof cube_frag);
    info.layout = r->layout;
    result = r->CreateGraphicsPipelines(r->device, VK_NULL_HANDLE, 1, &info, NULL, &r->pipeline);
    renderer_say(r, "vkCreateGraphicsPipelines", result);
    for (i = 0; i < 2; i++) r->DestroyShaderModule(r->device, stages[i].module, NULL);
    return result >= 0;
}

/* ---- the swapchain ---- */

static void close_swapchain(renderer *r) {
    uint32_t i;
    for (i = 0; i < r->image_count; i++) {
        r->DestroyImageView(r->device, r->views[i], NULL);
        r->DestroySemaphore(r->device, r->presentable[i], NULL);
    }
    r->image_count = 0;
}

/* The images have the window's size; false: that is nothing just now. */
static bool make_swapchain(renderer *r) {
    VkSurfaceCapabilitiesKHR can;
    VkSwapchainKHR before = r->swapchain;
    VkSwapchainCreateInfoKHR info = {.sType = VK_STRUCTURE_TYPE_SWAPCHAIN_CREATE_INFO_KHR,
                                     .surface = r->surface,
                                     .imageFormat = r->format,
                                     .imageColorSpace = VK_COLOR_SPACE_SRGB_NONLINEAR_KHR,
                                     .imageArrayLayers = 1,
                                     .imageUsage = VK_IMAGE_USAGE_COLOR_ATTACHMENT_BIT,
                                     .preTransform = VK_SURFACE_TRANSFORM_IDENTITY_BIT_KHR,
                                     .compositeAlpha = VK_COMPOSITE_ALPHA_OPAQUE_BIT_KHR,
                                     .presentMode = VK_PRESENT_MODE_FIFO_KHR,
                                     .oldSwapchain = before};
    VkResult result = r->GetPhysicalDeviceSurfaceCapabilitiesKHR(r->gpu, r->surface, &can);
    uint32_t i;
    r->extent = can.currentExtent;
#ifdef ENGINE_WINDOW
    if (r->extent.width == UINT32_MAX) {
        int width, height;
        glfwGetFramebufferSize(r->window, &width, &height);
        r->extent = (VkExtent2D){(uint32_t)width, (uint32_t)height};
    }
#endif
    if (result < 0 || !r->extent.width || !r->extent.height) return false;
    r->DeviceWaitIdle(r->device); /* frames that show the old one */
    close_swapchain(r);
    info.imageExtent = r->extent;
    info.minImageCount = can.minImageCount > 2 ? can.minImageCount : 2;
    result = r->CreateSwapchainKHR(r->device, &info, NULL, &r->swapchain);
    r->DestroySwapchainKHR(r->device, before, NULL);
    renderer_say(r, "vkCreateSwapchainKHR", result);
    if (result < 0) {
        r->swapchain = VK_NULL_HANDLE;
        return false;
    }
    r->image_count = 8;
    r->GetSwapchainImagesKHR(r->device, r->swapchain, &r->image_count, r->images);
    for (i = 0; i < r->image_count; i++) {
        r->views[i] = make_view(r, r->images[i], r->format, 1);
        r->presentable[i] = make_semaphore(r, VK_SEMAPHORE_TYPE_BINARY);
    }
    r->resized = false;
    return true;
}

/* Eight bits without sRGB, since the cube's textures hold sRGB values and are shown as they are. */
static VkFormat surface_format(renderer *r) {
    VkSurfaceFormatKHR formats[32];
    uint32_t count = 32, i;
    r->GetPhysicalDeviceSurfaceFormatsKHR(r->gpu, r->surface, &count, formats);
    for (i = 0; i < count; i++)
        if (formats[i].format == VK_FORMAT_B8G8R8A8_UNORM || formats[i].format == VK_FORMAT_R8G8B8A8_UNORM)
            return formats[i].format;
    return formats[0].format;
}

bool renderer_open(renderer *r, const options *o, uint32_t width, uint32_t height) {
    const VkImageUsageFlags usage = VK_IMAGE_USAGE_SAMPLED_BIT | VK_IMAGE_USAGE_TRANSFER_DST_BIT |
                                    VK_IMAGE_USAGE_TRANSFER_SRC_BIT | VK_IMAGE_USAGE_COLOR_ATTACHMENT_BIT;
    uint32_t i;
    pthread_mutex_init(&r->queue_lock, NULL);
    if (!open_instance(r, o) || !open_device(r, o)) return false;
    r->format = r->surface ? surface_format(r) : VK_FORMAT_R8G8B8A8_UNORM;
    r->timeline = make_semaphore(r, VK_SEMAPHORE_TYPE_TIMELINE);
    r->compute_timeline = make_semaphore(r, VK_SEMAPHORE_TYPE_TIMELINE);
    for (i = 0; i < FRAMES; i++) r->acquired[i] = make_semaphore(r, VK_SEMAPHORE_TYPE_BINARY);
    open_commands(r, r->family, r->pools, r->commands);
    if (o->compute) open_commands(r, r->compute_family, r->compute_pools, r->compute_commands);
    if (!renderer_make_texture(r, 1, 1, VK_FORMAT_R8G8B8A8_UNORM, usage, &r->blank) || !open_pipeline(r)) return false;
    r->extent = (VkExtent2D){width, height};
    if (r->surface) return make_swapchain(r);
    return make_texture(r, (VkExtent3D){width, height, 1}, 1, r->format, usage, &r->target);
}

void renderer_close(renderer *r) {
    uint32_t i;
    if (r->device) {
        r->DeviceWaitIdle(r->device);
        close_swapchain(r);
        if (r->swapchain) r->DestroySwapchainKHR(r->device, r->swapchain, NULL);
        renderer_free_texture(r, &r->blank);
        renderer_free_texture(r, &r->target);
        for (i = 0; i < FRAMES; i++) {
            r->DestroyCommandPool(r->device, r->pools[i], NULL);
            r->DestroyCommandPool(r->device, r->compute_pools[i], NULL);
            r->DestroySemaphore(r->device, r->acquired[i], NULL);
        }
        r->DestroySemaphore(r->device, r->timeline, NULL);
        r->DestroySemaphore(r->device, r->compute_timeline, NULL);
        r->DestroyPipeline(r->device, r->pipeline, NULL);
        r->DestroyPipelineLayout(r->device, r->layout, NULL);
        r->DestroyDescriptorPool(r->device, r->descriptors, NULL);
        r->DestroyDescriptorSetLayout(r->device, r->set_layout, NULL);
        r->DestroySampler(r->device, r->sampler, NULL);
        if (r->allocator) memory_close(r->allocator);
        r->DestroyDevice(r->device, NULL);
    }
    if (r->surface) r->DestroySurfaceKHR(r->instance, r->surface, NULL);
    if (r->messenger) r->DestroyDebugUtilsMessengerEXT(r->instance, r->messenger, NULL);
    if (r->instance) r->DestroyInstance(r->instance, NULL);
    free(r->device_info);
    pthread_mutex_destroy(&r->queue_lock);
}

/* ---- frames ---- */

bool renderer_finished(renderer *r, uint64_t frame) {
    uint64_t done = 0, computed = frame;
    r->GetSemaphoreCounterValue(r->device, r->timeline, &done);
    if (r->compute_queue) r->GetSemaphoreCounterValue(r->device, r->compute_timeline, &computed);
    return done >= frame && computed >= frame;
}

static void wait_for(renderer *r, uint64_t frame) {
    VkSemaphore semaphores[2] = {r->timeline, r->compute_timeline};
    uint64_t values[2] = {frame, frame};
    VkSemaphoreWaitInfo info = {
        VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO, NULL, 0, r->compute_queue ? 2 : 1, semaphores, values};
    renderer_say(r, "vkWaitSemaphores", r->WaitSemaphores(r->device, &info, UINT64_MAX));
}

static void begin_commands(renderer *r, VkCommandPool pool, VkCommandBuffer commands) {
    VkCommandBufferBeginInfo begin = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
                                      .flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT};
    r->ResetCommandPool(r->device, pool, 0);
    r->BeginCommandBuffer(commands, &begin);
}

bool renderer_begin(renderer *r) {
    uint32_t slot = (uint32_t)((r->frame + 1) % FRAMES);
    VkResult result = VK_SUCCESS;
    if (r->frame >= FRAMES) wait_for(r, r->frame + 1 - FRAMES);
    if (r->surface) {
        if ((r->resized || !r->swapchain) && !make_swapchain(r)) return false;
        result =
            r->AcquireNextImageKHR(r->device, r->swapchain, UINT64_MAX, r->acquired[slot], VK_NULL_HANDLE, &r->image);
        r->resized = result == VK_ERROR_OUT_OF_DATE_KHR || result == VK_SUBOPTIMAL_KHR;
        if (result == VK_ERROR_OUT_OF_DATE_KHR) return false;
        renderer_say(r, "vkAcquireNextImageKHR", result);
    }
    if (result < 0 || r->lost) return false;
    r->frame++;
    r->wait_compute = r->compute_waits = 0;
    begin_commands(r, r->pools[slot], r->commands[slot]);
    if (r->compute_queue) begin_commands(r, r->compute_pools[slot], r->compute_commands[slot]);
    return true;
}

VkCommandBuffer renderer_computing(renderer *r) {
    return r->compute_queue ? r->compute_commands[r->frame % FRAMES] : r->commands[r->frame % FRAMES];
}

static void draw(renderer *r, const push *p, uint32_t vertices) {
    r->CmdPushConstants(r->commands[r->frame % FRAMES], r->layout, VK_SHADER_STAGE_VERTEX_BIT, 0, sizeof *p, p);
    r->CmdDraw(r->commands[r->frame % FRAMES], vertices, 1, 0, 0);
}

void renderer_draw(renderer *r, VkImageView cube, VkImageView small, float sine, const rectangle *bars,
                   uint32_t count) {
    const VkPipelineStageFlags2 output = VK_PIPELINE_STAGE_2_COLOR_ATTACHMENT_OUTPUT_BIT;
    VkCommandBuffer commands = r->commands[r->frame % FRAMES];
    VkImage image = r->surface ? r->images[r->image] : r->target.image;
    VkDescriptorSet *sets = r->sets[r->frame % FRAMES];
    VkDescriptorImageInfo images[2] = {
        {r->sampler, cube ? cube : r->blank.view, VK_IMAGE_LAYOUT_SHADER_READ_ONLY_OPTIMAL},
        {r->sampler, small ? small : r->blank.view, VK_IMAGE_LAYOUT_SHADER_READ_ONLY_OPTIMAL}};
    VkWriteDescriptorSet writes[2];
    VkRenderingAttachmentInfo color = {.sType = VK_STRUCTURE_TYPE_RENDERING_ATTACHMENT_INFO,
                                       .imageView = r->surface ? r->views[r->image] : r->target.view,
                                       .imageLayout = VK_IMAGE_LAYOUT_COLOR_ATTACHMENT_OPTIMAL,
                                       .loadOp = VK_ATTACHMENT_LOAD_OP_CLEAR,
                                       .storeOp = VK_ATTACHMENT_STORE_OP_STORE,
                                       .clearValue = {{{0.06f, 0.07f, 0.1f, 1}}}};
    VkRenderingInfo rendering = {.sType = VK_STRUCTURE_TYPE_RENDERING_INFO,
                                 .renderArea = {{0, 0}, r->extent},
                                 .layerCount = 1,
                                 .colorAttachmentCount = 1,
                                 .pColorAttachments = &color};
    VkViewport viewport = {0, 0, (float)r->extent.width, (float)r->extent.height, 0, 1};
    push p = {
        {sine, 1, (float)r->extent.width / (float)r->extent.height, 0}, {0.3f, 0.3f, 0.35f, cube ? 0.0f : 1.0f}, 1};
    uint32_t i;
    for (i = 0; i < 2; i++)
        writes[i] = (VkWriteDescriptorSet){.sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET,
                                           .dstSet = sets[i],
                                           .descriptorCount = 1,
                                           .descriptorType = VK_DESCRIPTOR_TYPE_COMBINED_IMAGE_SAMPLER,
                                           .pImageInfo = &images[i]};
    r->UpdateDescriptorSets(r->device, 2, writes, 0, NULL);
    if (r->frame == 1) /* nobody has written it, nobody sees it: it stands where no picture is */
        barrier(r, r->blank.image, 0, 1, 0, 0, VK_IMAGE_LAYOUT_UNDEFINED, VK_PIPELINE_STAGE_2_FRAGMENT_SHADER_BIT,
                VK_ACCESS_2_SHADER_SAMPLED_READ_BIT, VK_IMAGE_LAYOUT_SHADER_READ_ONLY_OPTIMAL);
    barrier(r, image, 0, 1, output | VK_PIPELINE_STAGE_2_COPY_BIT, 0, VK_IMAGE_LAYOUT_UNDEFINED, output,
            VK_ACCESS_2_COLOR_ATTACHMENT_WRITE_BIT, VK_IMAGE_LAYOUT_COLOR_ATTACHMENT_OPTIMAL);
    r->CmdBeginRendering(commands, &rendering);
    r->CmdSetViewport(commands, 0, 1, &viewport);
    r->CmdSetScissor(commands, 0, 1, &rendering.renderArea);
    r->CmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_GRAPHICS,
                       r->pipeline); /* all state is bound behind dit's work */
    r->CmdBindDescriptorSets(commands, VK_PIPELINE_BIND_POINT_GRAPHICS, r->layout, 0, 1, &sets[0], 0, NULL);
    p.place[1] = 1 - sine * sine > 0 ? __builtin_sqrtf(1 - sine * sine) : 0;
    draw(r, &p, 36);
    if (small) {
        push corner = {{0.55f, 0.5f, 0.4f, 0.45f}, {0, 0, 0, 0}, 0};
        r->CmdBindDescriptorSets(commands, VK_PIPELINE_BIND_POINT_GRAPHICS, r->layout, 0, 1, &sets[1], 0, NULL);
        draw(r, &corner, 6);
    }
    for (i = 0; i < count; i++) {
        push bar = {
            {bars[i].x, bars[i].y, bars[i].width, bars[i].height}, {bars[i].red, bars[i].green, bars[i].blue, 1}, 0};
        draw(r, &bar, 6);
    }
    r->CmdEndRendering(commands);
    barrier(r, image, 0, 1, output, VK_ACCESS_2_COLOR_ATTACHMENT_WRITE_BIT, VK_IMAGE_LAYOUT_COLOR_ATTACHMENT_OPTIMAL,
            r->surface ? 0 : VK_PIPELINE_STAGE_2_COPY_BIT, r->surface ? 0 : VK_ACCESS_2_TRANSFER_READ_BIT,
            r->surface ? VK_IMAGE_LAYOUT_PRESENT_SRC_KHR : VK_IMAGE_LAYOUT_TRANSFER_SRC_OPTIMAL);
}

static void submit(renderer *r, VkQueue queue, VkCommandBuffer commands, const VkSemaphoreSubmitInfo *waits,
                   uint32_t wait_count, const VkSemaphoreSubmitInfo *signals, uint32_t signal_count) {
    VkCommandBufferSubmitInfo buffer = {VK_STRUCTURE_TYPE_COMMAND_BUFFER_SUBMIT_INFO, NULL, commands, 0};
    VkSubmitInfo2 info = {
        VK_STRUCTURE_TYPE_SUBMIT_INFO_2, NULL, 0, wait_count, waits, 1, &buffer, signal_count, signals};
    VkResult result = r->EndCommandBuffer(commands);
    pthread_mutex_lock(&r->queue_lock);
    if (result >= 0) result = r->QueueSubmit2(queue, 1, &info, VK_NULL_HANDLE);
    pthread_mutex_unlock(&r->queue_lock);
    renderer_say(r, "vkQueueSubmit2", result);
}

static VkSemaphoreSubmitInfo semaphore_at(VkSemaphore semaphore, uint64_t value) {
    VkSemaphoreSubmitInfo info = {VK_STRUCTURE_TYPE_SEMAPHORE_SUBMIT_INFO, NULL, semaphore, value,
                                  VK_PIPELINE_STAGE_2_ALL_COMMANDS_BIT,    0};
    return info;
}

void renderer_end(renderer *r) {
    uint32_t slot = (uint32_t)(r->frame % FRAMES), waits = 0, signals = 0;
    VkSemaphoreSubmitInfo wait[2], signal[2];
    VkPresentInfoKHR present = {VK_STRUCTURE_TYPE_PRESENT_INFO_KHR, NULL, 1, NULL, 1, &r->swapchain, &r->image, NULL};
    VkResult result;
    if (r->compute_queue) {
        wait[0] = semaphore_at(r->timeline, r->compute_waits);
        signal[0] = semaphore_at(r->compute_timeline, r->frame);
        submit(r, r->compute_queue, r->compute_commands[slot], wait, r->compute_waits ? 1 : 0, signal, 1);
    }
    if (r->wait_compute) wait[waits++] = semaphore_at(r->compute_timeline, r->wait_compute);
    if (r->surface) wait[waits++] = semaphore_at(r->acquired[slot], 0);
    signal[signals++] = semaphore_at(r->timeline, r->frame);
    if (r->surface) signal[signals++] = semaphore_at(r->presentable[r->image], 0);
    submit(r, r->queue, r->commands[slot], wait, waits, signal, signals);
    if (!r->surface || r->lost) return;
    present.pWaitSemaphores = &r->presentable[r->image];
    pthread_mutex_lock(&r->queue_lock);
    result = r->QueuePresentKHR(r->queue, &present);
    pthread_mutex_unlock(&r->queue_lock);
    if (result == VK_ERROR_OUT_OF_DATE_KHR || result == VK_SUBOPTIMAL_KHR)
        r->resized = true;
    else
        renderer_say(r, "vkQueuePresentKHR", result);
}

/* Nothing waits for the frame, and the next one takes its place. */
void renderer_drop(renderer *r) {
    r->EndCommandBuffer(r->commands[r->frame % FRAMES]);
    if (r->compute_queue) r->EndCommandBuffer(r->compute_commands[r->frame % FRAMES]);
    r->frame--;
}

bool renderer_read(renderer *r, unsigned char *rgba) {
    VkBufferCreateInfo info = {.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
                               .size = (VkDeviceSize)r->extent.width * r->extent.height * 4,
                               .usage = VK_BUFFER_USAGE_TRANSFER_DST_BIT};
    VkBufferImageCopy copy = {.imageSubresource = {VK_IMAGE_ASPECT_COLOR_BIT, 0, 0, 1},
                              .imageExtent = {r->extent.width, r->extent.height, 1}};
    VkMemoryRequirements need;
    VkDeviceMemory memory = VK_NULL_HANDLE;
    VkBuffer buffer = VK_NULL_HANDLE;
    VkCommandBuffer commands;
    void *mapped = NULL;
    wait_for(r, r->frame);
    r->CreateBuffer(r->device, &info, NULL, &buffer);
    r->GetBufferMemoryRequirements(r->device, buffer, &need);
    if (bind(r, &need, VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT, &memory) &&
        renderer_begin(r)) {
        r->BindBufferMemory(r->device, buffer, memory, 0);
        commands = r->commands[r->frame % FRAMES];
        r->CmdCopyImageToBuffer(commands, r->target.image, VK_IMAGE_LAYOUT_TRANSFER_SRC_OPTIMAL, buffer, 1, &copy);
        renderer_end(r);
        wait_for(r, r->frame);
        if (r->MapMemory(r->device, memory, 0, VK_WHOLE_SIZE, 0, &mapped) >= 0) memcpy(rgba, mapped, (size_t)info.size);
    }
    r->DestroyBuffer(r->device, buffer, NULL);
    r->FreeMemory(r->device, memory, NULL);
    return mapped != NULL;
}
