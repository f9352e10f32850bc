/* Every sentence of the manual's chapter "In an engine" is tested, as far as a test can see it: pictures on another
   queue family, what a picture's image is and what is left of it, frames that are dropped, jobs that are destroyed
   while they run, what a preview costs, steps that reuse blocks, and memory behind an allocator that maps only what it
   must.
   test-runs: lavapipe families sanitize */
#define _GNU_SOURCE
#include "library.h"
#include "vulkan_test.h"
#include "engine.h"
#include <math.h>
#include <pthread.h>
#include <time.h>

#define MODEL "tests/fixtures/pipe_pixart_sigma" /* two blocks, random weights */
enum { SIDE = 32, BYTES = SIDE * SIDE * 4, STEPS = 2 };

static unsigned char expected[2][BYTES]; /* of seeds 7 and 8 */

/* ---- images that dit makes, as the driver sees them ---- */

static struct {
    PFN_vkGetDeviceProcAddr get;
    PFN_vkCreateImage create;
    PFN_vkDestroyImage destroy;
    PFN_vkCmdBindPipeline bind;
    VkSharingMode mode;
    VkImageUsageFlags usage;
    VkImageCreateFlags flags;
    uint32_t count, destroyed, families[2];
    VkPipeline bound[2][256]; /* pipelines that commands were recorded with: of a new job, in its warm-up */
    uint32_t bound_count[2], binding;
} made;

static VKAPI_ATTR void VKAPI_CALL destroy_image(VkDevice device, VkImage image,
                                                const VkAllocationCallbacks *callbacks) {
    made.destroyed++;
    made.destroy(device, image, callbacks);
}

static VKAPI_ATTR void VKAPI_CALL bind_pipeline(VkCommandBuffer commands, VkPipelineBindPoint point,
                                                VkPipeline pipeline) {
    uint32_t *count = &made.bound_count[made.binding], i;
    VkPipeline *bound = made.bound[made.binding];
    for (i = 0; i < *count && bound[i] != pipeline; i++) {
    }
    if (i == *count && i < 256) bound[(*count)++] = pipeline;
    made.bind(commands, point, pipeline);
}

static VKAPI_ATTR VkResult VKAPI_CALL create_image(VkDevice device, const VkImageCreateInfo *info,
                                                   const VkAllocationCallbacks *callbacks, VkImage *out) {
    made.mode = info->sharingMode;
    made.usage = info->usage;
    made.flags = info->flags;
    made.families[0] = info->queueFamilyIndexCount > 0 ? info->pQueueFamilyIndices[0] : UINT32_MAX;
    made.families[1] = info->queueFamilyIndexCount > 1 ? info->pQueueFamilyIndices[1] : UINT32_MAX;
    made.count++;
    return made.create(device, info, callbacks, out);
}

static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL get_device(VkDevice device, const char *name) {
    PFN_vkVoidFunction real = made.get(device, name);
    if (!strcmp(name, "vkCreateImage")) {
        made.create = (PFN_vkCreateImage)real;
        return (PFN_vkVoidFunction)create_image;
    }
    if (!strcmp(name, "vkDestroyImage")) {
        made.destroy = (PFN_vkDestroyImage)real;
        return (PFN_vkVoidFunction)destroy_image;
    }
    if (!strcmp(name, "vkCmdBindPipeline")) {
        made.bind = (PFN_vkCmdBindPipeline)real;
        return (PFN_vkVoidFunction)bind_pipeline;
    }
    return real;
}

static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL get_instance(VkInstance instance, const char *name) {
    PFN_vkVoidFunction real = test_vulkan_function(instance, name);
    if (strcmp(name, "vkGetDeviceProcAddr")) return real;
    made.get = (PFN_vkGetDeviceProcAddr)real;
    return (PFN_vkVoidFunction)get_device;
}

/* ---- helpers ---- */

static dit_model *load_model(dit_context *ctx, const char *path) {
    dit_model_desc desc = {0};
    dit_model *model = NULL;
    dit_error err = {0};
    desc.source.path = path;
    CHECK_MESSAGE(dit_model_load(ctx, &desc, &model, &err) == DIT_OK, "%s", err.message);
    return model;
}

static dit_job_desc describe(const dit_model *model, uint64_t seed) {
    dit_job_desc desc = {0};
    desc.model = model;
    desc.prompt = "a red heart";
    desc.width = desc.height = SIDE;
    desc.steps = STEPS;
    desc.seed = seed;
    return desc;
}

static dit_job *create_job(dit_context *ctx, const dit_job_desc *desc) {
    dit_job *job = NULL;
    dit_error err = {0};
    CHECK_MESSAGE(dit_job_create(ctx, desc, &job, &err) == DIT_OK, "%s", err.message);
    return job;
}

static void restart(dit_job *job, const dit_job_desc *desc) {
    dit_error err = {0};
    CHECK_MESSAGE(dit_job_restart(job, desc, &err) == DIT_OK, "%s", err.message);
}

/* So many frames, one slice in each, or all of them; returns what the last call said. */
static dit_result record(engine *e, dit_job *job, int frames) {
    dit_result result = DIT_WORKING;
    while (result == DIT_WORKING && frames-- > 0) {
        VkCommandBuffer commands = engine_begin_commands(e);
        result = dit_job_record(job, commands, 0);
        engine_run(e, commands, VK_NULL_HANDLE, 0);
    }
    return result;
}

static bool shows(engine *e, const dit_output *out, const unsigned char *picture) {
    unsigned char rgba[BYTES];
    engine_read_image(e, out, rgba);
    return !memcmp(rgba, picture, BYTES);
}

/* ---- another queue family ---- */

/* Pictures and previews of dit's own are sampled on the other family's queue, with nothing but the timeline. */
static void test_own_images(engine *e, dit_context *ctx, const dit_model *model) {
    dit_job_desc desc = describe(model, 7);
    dit_output out;
    dit_job *job;
    unsigned char preview[BYTES];
    bool two = e->other_family != UINT32_MAX;
    desc.preview_interval = 1;
    desc.target.dst_queue_family = two ? e->other_family : e->family;
    made.count = 0;
    job = create_job(ctx, &desc);
    if (!job) return;
    CHECK(made.count == 2); /* the picture and the preview */
    if (two)
        CHECK_MESSAGE(made.mode == VK_SHARING_MODE_CONCURRENT && made.families[0] == e->family &&
                          made.families[1] == e->other_family,
                      "mode %d, families %u and %u", (int)made.mode, made.families[0], made.families[1]);
    else
        CHECK(made.mode == VK_SHARING_MODE_EXCLUSIVE);
    while (dit_job_preview(job, &out) == DIT_WORKING && dit_job_step(job, 0) == DIT_WORKING) {
    }
    if (two) engine_switch_queue(e);
    if (CHECK(dit_job_preview(job, &out) == DIT_OK &&
              dit_job_read(job, DIT_READ_PREVIEW, 0, 0, preview, BYTES, 0, NULL) == DIT_OK))
        CHECK_MESSAGE(shows(e, &out, preview), "the preview is another one on the other queue");
    while (dit_job_output(job, 0, 0, &out) == DIT_WORKING && dit_job_step(job, UINT32_MAX) == DIT_WORKING) {
    }
    if (CHECK(dit_job_output(job, 0, 0, &out) == DIT_OK && out.timeline))
        CHECK_MESSAGE(shows(e, &out, expected[0]), "the picture is another one on the other queue");
    if (two) engine_switch_queue(e);
    CHECK(dit_job_wait(job, UINT64_MAX) == DIT_OK);
    dit_job_destroy(job);
}

/* An image belongs to dit's queue family alone where the application names no family, or one of which the device has no
   queue. */
static void test_families(engine *e, dit_context *ctx, const dit_model *model) {
    const uint32_t external[] = {VK_QUEUE_FAMILY_EXTERNAL, VK_QUEUE_FAMILY_FOREIGN_EXT};
    dit_job_desc desc = describe(model, 7);
    dit_memory memory;
    dit_error err = {0};
    dit_job *job;
    size_t i;
    for (i = 0; i < 2; i++) {
        desc.target.dst_queue_family = i ? VK_QUEUE_FAMILY_IGNORED : e->family;
        job = create_job(ctx, &desc);
        CHECK(made.mode == VK_SHARING_MODE_EXCLUSIVE);
        dit_job_destroy(job);
    }
    desc.target.dst_queue_family = 17;
    CHECK(dit_job_create(ctx, &desc, &job, &err) == DIT_ERROR_INVALID_ARGUMENT && !job &&
          strstr(err.message, "dst_queue_family") && strstr(err.message, "17"));
    CHECK(dit_job_memory(ctx, &desc, &memory, &err) == DIT_ERROR_INVALID_ARGUMENT);
    for (i = 0; i < 2; i++) {
        desc.target.dst_queue_family = external[i];
        CHECK(dit_job_create(ctx, &desc, &job, &err) == DIT_ERROR_INVALID_ARGUMENT &&
              strstr(err.message, "image of yours"));
    }
}

/* An exclusive image of the application's is released, and acquired by the other queue. */
static void test_release(engine *e, dit_context *ctx, const dit_model *model) {
    engine_image image = engine_make_image(e, SIDE, SIDE, VK_FORMAT_R8G8B8A8_UNORM);
    dit_job_desc desc = describe(model, 7);
    VkImageMemoryBarrier acquire;
    VkCommandBuffer commands;
    dit_output out;
    dit_job *job;
    desc.target.image = image.image;
    desc.target.format = VK_FORMAT_R8G8B8A8_UNORM;
    desc.target.final_layout = VK_IMAGE_LAYOUT_GENERAL;
    desc.target.dst_queue_family = e->other_family;
    job = create_job(ctx, &desc);
    CHECK(job && dit_job_wait(job, UINT64_MAX) == DIT_OK && dit_job_output(job, 0, 0, &out) == DIT_OK);
    engine_switch_queue(e);
    memset(&acquire, 0, sizeof acquire);
    acquire.sType = VK_STRUCTURE_TYPE_IMAGE_MEMORY_BARRIER;
    acquire.dstAccessMask = VK_ACCESS_MEMORY_READ_BIT;
    acquire.oldLayout = VK_IMAGE_LAYOUT_TRANSFER_DST_OPTIMAL;
    acquire.newLayout = out.layout;
    acquire.srcQueueFamilyIndex = e->family;
    acquire.dstQueueFamilyIndex = e->other_family;
    acquire.image = out.image;
    acquire.subresourceRange.aspectMask = VK_IMAGE_ASPECT_COLOR_BIT;
    acquire.subresourceRange.levelCount = acquire.subresourceRange.layerCount = 1;
    commands = engine_begin_commands(e);
    e->CmdPipelineBarrier(commands, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT, 0, 0, NULL,
                          0, NULL, 1, &acquire);
    engine_run(e, commands, out.timeline, out.value);
    CHECK(shows(e, &out, expected[0]));
    engine_switch_queue(e);
    dit_job_destroy(job);
    engine_free_image(e, &image);
}

/* ---- the image ---- */

/* After a restart image and view are the same, and show the old picture until the new one is copied into them, even
   where a longer prompt has the job planned anew. */
static void test_restart(engine *e, dit_context *ctx, const dit_model *model) {
    dit_job_desc desc = describe(model, 7);
    dit_output first, second;
    dit_job *job = create_job(ctx, &desc);
    if (!job) return;
    CHECK(record(e, job, INT32_MAX) == DIT_OK && dit_job_output(job, 0, 0, &first) == DIT_OK);
    CHECK(shows(e, &first, expected[0]));
    desc.seed = 8;
    desc.prompt =
        "a red heart, a red heart, a red heart, a red heart, a red heart, a red heart, a red heart, a red heart";
    restart(job, &desc);
    CHECK(dit_job_output(job, 0, 0, &second) == DIT_WORKING);
    CHECK(record(e, job, 3) == DIT_WORKING);
    CHECK_MESSAGE(shows(e, &first, expected[0]), "the old picture is gone while the new one is made");
    desc.prompt = "a red heart";
    restart(job, &desc);
    CHECK(record(e, job, INT32_MAX) == DIT_OK && dit_job_output(job, 0, 0, &second) == DIT_OK);
    CHECK(first.image == second.image && first.view == second.view && first.layout == second.layout);
    CHECK(shows(e, &second, expected[1]));
    CHECK(record(e, job, 1) == DIT_OK && dit_job_output(job, 0, 0, &second) == DIT_OK); /* nothing is left to record */
    dit_job_destroy(job);
}

static const VkFormat formats[] = {VK_FORMAT_R8G8B8A8_UNORM, VK_FORMAT_R8G8B8A8_SRGB, VK_FORMAT_B8G8R8A8_UNORM,
                                   VK_FORMAT_B8G8R8A8_SRGB};

static void test_formats(dit_context *ctx, const dit_model *model) {
    static const VkFormat others[] = {VK_FORMAT_R8_SRGB,
                                      VK_FORMAT_R8G8B8A8_UINT,
                                      VK_FORMAT_A8B8G8R8_UNORM_PACK32,
                                      VK_FORMAT_A2B10G10R10_UNORM_PACK32,
                                      VK_FORMAT_R16G16B16_SFLOAT,
                                      VK_FORMAT_BC7_UNORM_BLOCK};
    dit_job_desc desc = describe(model, 7);
    dit_error err = {0};
    dit_memory memory;
    dit_job *job;
    size_t i;
    for (i = 0; i < sizeof others / sizeof *others; i++) {
        desc.target.format = others[i];
        CHECK(dit_job_memory(ctx, &desc, &memory, &err) == DIT_ERROR_INVALID_ARGUMENT &&
              strstr(err.message, "target.format"));
    }
    for (i = 0; i < sizeof formats / sizeof *formats; i++) {
        desc.target.format = formats[i];
        CHECK_MESSAGE(dit_job_memory(ctx, &desc, &memory, &err) == DIT_OK, "%s", err.message);
    }
    job = create_job(ctx, &desc); /* with a view in that format */
    dit_job_destroy(job);
}

static float half(const unsigned char *at) {
    uint32_t bits = at[0] | (uint32_t)at[1] << 8, power = bits >> 10 & 31;
    double value = power ? ldexp(1024 + (bits & 1023), (int)power - 25) : ldexp(bits & 1023, -24);
    return (float)(bits >> 15 ? -value : value);
}

static double light_of(double v) {
    double size = fabs(v), light = size <= 0.04045 ? size / 12.92 : pow((size + 0.055) / 1.055, 2.4);
    return v < 0 ? -light : light;
}

/* Halves hold the linear light of the float picture, beyond 0..1 too, and 8-bit greys its luma; the preview beside them
   is of bytes. */
static void test_texels(engine *e, dit_context *ctx, const dit_model *model) {
    static float rgb[SIDE * SIDE * 3];
    static unsigned char texels[2][8 * SIDE * SIDE], preview[BYTES];
    dit_job_desc desc = describe(model, 7);
    uint32_t i, c, wrong = 0, beyond = 0;
    dit_error err = {0};
    dit_output out;
    int grey;
    for (grey = 0; grey < 2; grey++) {
        dit_job *job;
        desc.preview_interval = 1;
        desc.target.final_layout = grey ? VK_IMAGE_LAYOUT_TRANSFER_SRC_OPTIMAL : VK_IMAGE_LAYOUT_GENERAL;
        desc.target.format = grey ? VK_FORMAT_R8_UNORM : VK_FORMAT_R16G16B16A16_SFLOAT;
        job = create_job(ctx, &desc);
        if (!job) return;
        CHECK((grey ? record(e, job, INT32_MAX) : dit_job_wait(job, UINT64_MAX)) == DIT_OK);
        CHECK(dit_job_output(job, 0, 0, &out) == DIT_OK && out.format == desc.target.format &&
              out.layout == desc.target.final_layout);
        engine_read_image(e, &out, texels[grey]);
        CHECK(dit_job_preview(job, &out) == DIT_OK && out.format == VK_FORMAT_R8G8B8A8_UNORM &&
              out.layout == desc.target.final_layout &&
              dit_job_read(job, DIT_READ_PREVIEW, 0, 0, preview, BYTES, 0, NULL) == DIT_OK && shows(e, &out, preview));
        CHECK(dit_job_read(job, DIT_READ_RGB_F32, 0, 0, rgb, sizeof rgb, 0, NULL) == DIT_OK);
        desc.target.format = VK_FORMAT_R8G8B8A8_UNORM;
        CHECK(dit_job_restart(job, &desc, &err) == DIT_ERROR_INVALID_ARGUMENT && strstr(err.message, "target"));
        dit_job_destroy(job);
    }
    for (i = 0; i < SIDE * SIDE; i++) {
        const float *v = rgb + 3 * i;
        double luma = 0;
        for (c = 0; c < 3; c++) {
            double light = light_of((double)v[c]), got = (double)half(texels[0] + 8 * i + 2 * c);
            double inside = v[c] < 0 ? 0 : v[c] > 1 ? 1 : (double)v[c];
            luma += inside * (c == 0 ? 0.2126 : c == 1 ? 0.7152 : 0.0722);
            beyond += inside != (double)v[c];
            wrong += fabs(light - got) > 1e-3 * fabs(light) + 1e-5;
        }
        wrong += memcmp(texels[0] + 8 * i + 6, "\x00\x3c", 2) != 0; /* alpha 1 */
        wrong += fabs(255 * luma - texels[1][i]) > 0.51;
    }
    CHECK_MESSAGE(!wrong && beyond, "%u texels are wrong; %u values are beyond 0..1", wrong, beyond);
}

/* Images of dit's have what else is asked of them, and what the device does not do is refused by name. */
static void test_usage(dit_context *ctx, const dit_model *model) {
    const VkImageUsageFlags own =
        VK_IMAGE_USAGE_SAMPLED_BIT | VK_IMAGE_USAGE_TRANSFER_SRC_BIT | VK_IMAGE_USAGE_TRANSFER_DST_BIT;
    dit_job_desc desc = describe(model, 7);
    dit_error err = {0};
    dit_memory memory;
    dit_job *job;
    desc.target.usage = VK_IMAGE_USAGE_STORAGE_BIT;
    desc.target.flags = VK_IMAGE_CREATE_MUTABLE_FORMAT_BIT;
    desc.preview_interval = 1;
    job = create_job(ctx, &desc);
    CHECK(made.usage == (own | VK_IMAGE_USAGE_STORAGE_BIT) && made.flags == VK_IMAGE_CREATE_MUTABLE_FORMAT_BIT);
    dit_job_destroy(job);
    desc.target.usage = VK_IMAGE_USAGE_DEPTH_STENCIL_ATTACHMENT_BIT;
    CHECK(dit_job_memory(ctx, &desc, &memory, &err) == DIT_ERROR_INVALID_ARGUMENT &&
          strstr(err.message, "target.usage 0x20"));
    CHECK(dit_job_create(ctx, &desc, &job, &err) == DIT_ERROR_INVALID_ARGUMENT);
    memset(&desc.target, 0, sizeof desc.target);
    desc.target.mip = 1;
    CHECK(dit_job_memory(ctx, &desc, &memory, &err) == DIT_ERROR_INVALID_ARGUMENT && strstr(err.message, "target.mip"));
}

/* One mip of one layer is written; the others keep content and layout. Other runs write others, or another image. */
static void test_subresources(engine *e, dit_context *ctx, const dit_model *model) {
    PFN_vkCmdClearColorImage clear = (PFN_vkCmdClearColorImage)e->entry(e->instance, "vkCmdClearColorImage");
    engine_image image = {VK_NULL_HANDLE, VK_NULL_HANDLE, 2 * SIDE, 2 * SIDE}, other;
    VkImageSubresourceRange all = {VK_IMAGE_ASPECT_COLOR_BIT, 0, 3, 0, 3};
    VkClearColorValue grey = {{0.2f, 0.4f, 0.6f, 1}};
    dit_job_desc desc = describe(model, 7);
    unsigned char rgba[4 * BYTES];
    VkImageMemoryBarrier barrier;
    VkMemoryRequirements need;
    VkImageCreateInfo info;
    dit_error err = {0};
    VkCommandBuffer commands;
    dit_output out;
    dit_job *job;
    uint32_t mip, layer, i;
    memset(&info, 0, sizeof info);
    info.sType = VK_STRUCTURE_TYPE_IMAGE_CREATE_INFO;
    info.imageType = VK_IMAGE_TYPE_2D;
    info.format = VK_FORMAT_R8G8B8A8_UNORM;
    info.extent.width = info.extent.height = 2 * SIDE;
    info.extent.depth = 1;
    info.mipLevels = info.arrayLayers = 3;
    info.samples = VK_SAMPLE_COUNT_1_BIT;
    info.usage = VK_IMAGE_USAGE_TRANSFER_DST_BIT | VK_IMAGE_USAGE_TRANSFER_SRC_BIT | VK_IMAGE_USAGE_SAMPLED_BIT;
    CHECK(e->CreateImage(e->device, &info, NULL, &image.image) == VK_SUCCESS);
    e->GetImageMemoryRequirements(e->device, image.image, &need);
    image.memory = engine_bind(e, &need, 0);
    e->BindImageMemory(e->device, image.image, image.memory, 0);
    memset(&barrier, 0, sizeof barrier);
    barrier.sType = VK_STRUCTURE_TYPE_IMAGE_MEMORY_BARRIER;
    barrier.dstAccessMask = VK_ACCESS_TRANSFER_WRITE_BIT;
    barrier.newLayout = VK_IMAGE_LAYOUT_GENERAL;
    barrier.srcQueueFamilyIndex = barrier.dstQueueFamilyIndex = VK_QUEUE_FAMILY_IGNORED;
    barrier.image = image.image;
    barrier.subresourceRange = all;
    commands = engine_begin_commands(e);
    e->CmdPipelineBarrier(commands, VK_PIPELINE_STAGE_TOP_OF_PIPE_BIT, VK_PIPELINE_STAGE_TRANSFER_BIT, 0, 0, NULL, 0,
                          NULL, 1, &barrier);
    clear(commands, image.image, VK_IMAGE_LAYOUT_GENERAL, &grey, 1, &all);
    engine_run(e, commands, VK_NULL_HANDLE, 0);
    desc.target.image = image.image;
    desc.target.format = info.format;
    desc.target.dst_queue_family = VK_QUEUE_FAMILY_IGNORED;
    desc.target.mip = 1;
    desc.target.layer = 2;
    job = create_job(ctx, &desc);
    if (!job) return;
    CHECK(dit_job_wait(job, UINT64_MAX) == DIT_OK && dit_job_output(job, 0, 0, &out) == DIT_OK);
    other = engine_make_image(e, SIDE, SIDE, VK_FORMAT_R8G8B8A8_SRGB);
    desc.seed = 8;
    desc.target.layer = 0;
    restart(job, &desc);
    CHECK(record(e, job, INT32_MAX) == DIT_OK);
    for (i = 0; i < 2; i++) { /* once recorded, once stepped */
        desc.seed = 7 + i;
        desc.target.image = other.image;
        desc.target.format = VK_FORMAT_R8G8B8A8_SRGB;
        desc.target.final_layout = i ? VK_IMAGE_LAYOUT_GENERAL : VK_IMAGE_LAYOUT_TRANSFER_SRC_OPTIMAL;
        desc.target.mip = desc.target.layer = 0;
        restart(job, &desc);
        CHECK((i ? dit_job_wait(job, UINT64_MAX) : record(e, job, INT32_MAX)) == DIT_OK);
        CHECK(dit_job_output(job, 0, 0, &out) == DIT_OK && out.image == other.image && !out.view &&
              out.layout == desc.target.final_layout && out.format == VK_FORMAT_R8G8B8A8_SRGB);
        CHECK_MESSAGE(shows(e, &out, expected[i]), "run %u on another target", i);
    }
    desc.target.format = VK_FORMAT_B8G8R8A8_UNORM;
    CHECK(dit_job_restart(job, &desc, &err) == DIT_ERROR_INVALID_ARGUMENT && strstr(err.message, "target.format"));
    memset(&desc.target, 0, sizeof desc.target);
    CHECK(dit_job_restart(job, &desc, &err) == DIT_ERROR_INVALID_ARGUMENT && strstr(err.message, "target"));
    engine_free_image(e, &other);
    out.image = image.image;
    out.layout = VK_IMAGE_LAYOUT_SHADER_READ_ONLY_OPTIMAL;
    out.timeline = VK_NULL_HANDLE;
    for (mip = 0; mip < 3; mip++) {
        for (layer = 0; layer < 3; layer++) {
            bool kept = true;
            dit_output at = out;
            at.width = at.height = 2 * SIDE >> mip;
            if (mip == 1 && layer != 1) {
                engine_read_part(e, &at, mip, layer, rgba);
                CHECK_MESSAGE(!memcmp(rgba, expected[layer ? 0 : 1], BYTES), "layer %u has another picture", layer);
                continue;
            }
            at.layout = VK_IMAGE_LAYOUT_GENERAL; /* as before: the layers complain about any other */
            engine_read_part(e, &at, mip, layer, rgba);
            for (i = 0; i < at.width * at.height; i++) kept = kept && !memcmp(rgba + 4 * i, "\x33\x66\x99\xff", 4);
            CHECK_MESSAGE(kept, "mip %u of layer %u was written", mip, layer);
        }
    }
    dit_job_destroy(job);
    engine_free_image(e, &image);
}

/* ---- frames that do not come, jobs that go ---- */

/* Commands that never run spoil a run, and a restart mends it. */
static void test_dropped_frame(engine *e, dit_context *ctx, const dit_model *model) {
    dit_job_desc desc = describe(model, 7);
    dit_job *job = create_job(ctx, &desc);
    VkCommandBuffer commands = engine_begin_commands(e);
    dit_output out;
    if (!job) return;
    CHECK(record(e, job, 2) == DIT_WORKING && dit_job_record(job, commands, 0) == DIT_WORKING);
    e->EndCommandBuffer(commands);
    e->FreeCommandBuffers(e->device, e->pool, 1, &commands);
    restart(job, &desc);
    CHECK(record(e, job, INT32_MAX) == DIT_OK && dit_job_output(job, 0, 0, &out) == DIT_OK);
    CHECK_MESSAGE(shows(e, &out, expected[0]), "a dropped frame shows after the restart");
    dit_job_destroy(job);
}

/* A job is destroyed in the middle of a run: once its commands have finished, with others that were never submitted,
   and in step mode at any time. A job beside it notices nothing. */
static void test_destroying(engine *e, dit_context *ctx, const dit_model *model) {
    dit_job_desc desc = describe(model, 7);
    dit_job *going = create_job(ctx, &desc), *staying, *stepped;
    VkCommandBuffer commands;
    dit_output out;
    stepped = create_job(ctx, &desc);
    desc.seed = 8;
    staying = create_job(ctx, &desc);
    if (!going || !staying || !stepped) return;
    commands = engine_begin_commands(e);
    CHECK(dit_job_record(going, commands, 0) == DIT_WORKING && dit_job_record(staying, commands, 0) == DIT_WORKING);
    engine_run(e, commands, VK_NULL_HANDLE, 0);
    commands = engine_begin_commands(e);
    CHECK(dit_job_record(going, commands, 0) == DIT_WORKING);
    e->EndCommandBuffer(commands);
    CHECK(dit_job_step(stepped, UINT32_MAX) == DIT_WORKING);
    dit_job_destroy(stepped);
    dit_job_destroy(going);
    e->FreeCommandBuffers(e->device, e->pool, 1, &commands);
    CHECK(record(e, staying, INT32_MAX) == DIT_OK && dit_job_output(staying, 0, 0, &out) == DIT_OK);
    CHECK(shows(e, &out, expected[1]));
    dit_job_destroy(staying);
}

/* Each call is taken back once and made again, whatever it recorded: the picture is the same. */
static void test_unrecord(engine *e, dit_context *ctx, const dit_model *model, uint32_t budget_us) {
    dit_job_desc desc = describe(model, 7);
    dit_result result = DIT_WORKING;
    dit_status before, after;
    dit_counters counted[2];
    dit_output out;
    dit_job *job;
    desc.preview_interval = 1;
    job = create_job(ctx, &desc);
    if (!job) return;
    CHECK(dit_job_unrecord(job) == DIT_ERROR_INVALID_ARGUMENT && dit_job_unrecord(NULL) == DIT_ERROR_INVALID_ARGUMENT);
    while (result == DIT_WORKING) {
        VkCommandBuffer dropped = engine_begin_commands(e), commands;
        dit_job_status(job, &before, NULL);
        dit_job_get_counters(job, &counted[0]);
        result = dit_job_record(job, dropped, budget_us);
        e->EndCommandBuffer(dropped);
        e->FreeCommandBuffers(e->device, e->pool, 1, &dropped);
        if (!CHECK(result >= 0 && dit_job_unrecord(job) == DIT_OK)) break;
        CHECK(dit_job_unrecord(job) == DIT_ERROR_INVALID_ARGUMENT);
        CHECK(dit_job_output(job, 0, 0, &out) == DIT_WORKING);
        dit_job_status(job, &after, NULL);
        dit_job_get_counters(job, &counted[1]);
        CHECK(after.result == DIT_WORKING && after.preview_id == before.preview_id && after.step == before.step &&
              counted[0].dispatches == counted[1].dispatches);
        commands = engine_begin_commands(e);
        result = dit_job_record(job, commands, budget_us);
        engine_run(e, commands, VK_NULL_HANDLE, 0);
    }
    CHECK(result == DIT_OK && dit_job_output(job, 0, 0, &out) == DIT_OK && out.final);
    CHECK_MESSAGE(shows(e, &out, expected[0]), "dropped calls of %u us show", budget_us);
    CHECK(record(e, job, 1) == DIT_OK && dit_job_unrecord(job) == DIT_OK); /* one that recorded nothing */
    CHECK(dit_job_output(job, 0, 0, &out) == DIT_OK);
    dit_job_destroy(job);
}

/* Weights that a dropped call was to bring are brought again: read into the device's memory by the host, or copied
   there by the call. */
static void test_unrecord_streamed(engine *e, dit_context *ctx) {
    dit_model_desc desc = {0};
    dit_model *model = NULL;
    dit_error err = {0};
    desc.source.path = MODEL;
    desc.weight_budget = 127680; /* the least */
    if (CHECK_MESSAGE(dit_model_load(ctx, &desc, &model, &err) == DIT_OK, "%s", err.message))
        test_unrecord(e, ctx, model, 0);
    dit_model_destroy(model);
}

/* A job that pauses behind a dropped call, the first of its second run, leaves the memory for weights to others. */
static void test_pause_streamed(engine *e, dit_context *ctx) {
    dit_model_desc desc = {0};
    dit_model *model = NULL;
    dit_error err = {0};
    dit_job_desc first, second;
    dit_job *pausing, *other;
    VkCommandBuffer dropped;
    desc.source.path = MODEL;
    desc.weight_budget = 127680; /* the least */
    if (!CHECK_MESSAGE(dit_model_load(ctx, &desc, &model, &err) == DIT_OK, "%s", err.message)) return;
    first = describe(model, 7);
    second = describe(model, 8);
    pausing = create_job(ctx, &first);
    other = create_job(ctx, &second);
    CHECK(record(e, pausing, INT32_MAX) == DIT_OK && record(e, pausing, 1) == DIT_OK &&
          record(e, pausing, 1) == DIT_OK);
    restart(pausing, &first);
    dropped = engine_begin_commands(e);
    CHECK(dit_job_record(pausing, dropped, 20000) == DIT_WORKING);
    e->EndCommandBuffer(dropped);
    e->FreeCommandBuffers(e->device, e->pool, 1, &dropped);
    CHECK(dit_job_unrecord(pausing) == DIT_OK);
    CHECK_MESSAGE(record(e, other, INT32_MAX) == DIT_OK, "another job gets no memory for weights");
    CHECK(record(e, pausing, INT32_MAX) == DIT_OK);
    dit_job_destroy(pausing);
    dit_job_destroy(other);
    dit_model_destroy(model);
}

/* dit_job_record submits nothing, also in the first frame of a job whose weights are streamed and where frames have
   timestamps. */
static void test_no_submissions(engine *e) {
    dit_context_desc cd = {0};
    dit_model_desc md = {0};
    dit_model *model = NULL;
    dit_error err = {0};
    dit_context *ctx;
    int streams;
    cd.overrides = "timestamps=1";
    ctx = engine_context(e, &cd);
    for (streams = 0; streams < 2 && ctx; streams++) {
        dit_result result = DIT_WORKING;
        dit_job_desc desc;
        dit_job *job;
        md.source.path = MODEL;
        md.weight_budget = streams ? 127680 : 0;
        if (!CHECK_MESSAGE(dit_model_load(ctx, &md, &model, &err) == DIT_OK, "%s", err.message)) break;
        desc = describe(model, 7);
        job = create_job(ctx, &desc);
        while (job && result == DIT_WORKING) {
            VkCommandBuffer commands = engine_begin_commands(e);
            int before = e->lock_count;
            result = dit_job_record(job, commands, 20000);
            CHECK_MESSAGE(e->lock_count == before, "dit_job_record used the queue");
            engine_run(e, commands, VK_NULL_HANDLE, 0);
        }
        CHECK(result == DIT_OK);
        dit_job_destroy(job);
        dit_model_destroy(model);
    }
    dit_context_destroy(ctx);
}

/* The picture is final, and can be read, when dit has seen it finished, not when it is recorded. */
static void test_final(engine *e, dit_context *ctx, const dit_model *model) {
    dit_job_desc desc = describe(model, 7);
    VkCommandBuffer commands = engine_begin_commands(e);
    dit_job *job = create_job(ctx, &desc);
    unsigned char rgba[BYTES];
    dit_error err = {0};
    dit_output out;
    int run;
    if (!job) return;
    for (run = 0; run < 2; run++) {
        if (run) commands = engine_begin_commands(e);
        while (dit_job_record(job, commands, UINT32_MAX) == DIT_WORKING) {
        }
        CHECK(dit_job_output(job, 0, 0, &out) == DIT_OK && !out.final);
        CHECK(dit_job_read(job, DIT_READ_RGBA8, 0, 0, rgba, BYTES, 0, &err) == DIT_WORKING && !err.message[0]);
        engine_run(e, commands, VK_NULL_HANDLE, 0);
        CHECK_MESSAGE(dit_job_read(job, DIT_READ_RGBA8, 0, 0, rgba, BYTES, 0, &err) == DIT_OK, "%s", err.message);
        CHECK(!memcmp(rgba, expected[0], BYTES));
        CHECK(dit_job_output(job, 0, 0, &out) == DIT_OK && out.final && shows(e, &out, expected[0]));
        restart(job, &desc);
    }
    CHECK(dit_job_wait(job, UINT64_MAX) == DIT_OK && dit_job_output(job, 0, 0, &out) == DIT_OK && out.final);
    dit_job_destroy(job);
}

/* Every pipeline of a job runs before its first frame, and the picture stays the same. */
static void test_warm_up(engine *e, dit_context *ctx, const dit_model *model) {
    dit_job_desc desc = describe(model, 7);
    dit_error err = {0};
    dit_output out;
    uint32_t i, k, missing = 0;
    dit_job *job;
    desc.preview_interval = 1;
    made.bound_count[0] = made.bound_count[1] = made.binding = 0;
    job = create_job(ctx, &desc);
    made.binding = 1;
    if (!job) return;
    CHECK_MESSAGE(dit_job_warm_up(job, &err) == DIT_OK, "%s", err.message);
    for (i = 0; i < made.bound_count[0]; i++) {
        for (k = 0; k < made.bound_count[1] && made.bound[1][k] != made.bound[0][i]; k++) {
        }
        missing += k == made.bound_count[1];
    }
    CHECK_MESSAGE(made.bound_count[0] > 10 && made.bound_count[1] == made.bound_count[0] && !missing,
                  "%u of %u pipelines are warm, %u are not", made.bound_count[1], made.bound_count[0], missing);
    CHECK(record(e, job, INT32_MAX) == DIT_OK && dit_job_output(job, 0, 0, &out) == DIT_OK);
    CHECK_MESSAGE(shows(e, &out, expected[0]), "the picture of a warm job is another one");
    CHECK(dit_job_warm_up(job, &err) == DIT_ERROR_INVALID_ARGUMENT && strstr(err.message, "begun"));
    CHECK(dit_job_warm_up(NULL, &err) == DIT_ERROR_INVALID_ARGUMENT);
    restart(job, &desc);
    CHECK(dit_job_warm_up(job, &err) == DIT_OK && dit_job_wait(job, UINT64_MAX) == DIT_OK);
    dit_job_destroy(job);
}

static VkSemaphore make_timeline(engine *e) {
    PFN_vkCreateSemaphore create = (PFN_vkCreateSemaphore)e->entry(e->instance, "vkCreateSemaphore");
    VkSemaphoreTypeCreateInfo type = {VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO, NULL, VK_SEMAPHORE_TYPE_TIMELINE,
                                      0};
    VkSemaphoreCreateInfo info = {VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO, &type, 0};
    VkSemaphore semaphore = VK_NULL_HANDLE;
    CHECK(create(e->device, &info, NULL, &semaphore) == VK_SUCCESS);
    return semaphore;
}

/* Retired jobs stay until their frames have finished, by a semaphore of the application's or by dit's; what is left
   goes with the model. */
static void test_retire(engine *e, dit_context *ctx) {
    PFN_vkSignalSemaphore signal = (PFN_vkSignalSemaphore)e->entry(e->instance, "vkSignalSemaphore");
    PFN_vkDestroySemaphore destroy = (PFN_vkDestroySemaphore)e->entry(e->instance, "vkDestroySemaphore");
    VkSemaphore semaphores[2]; /* what the commands wait for, and what they signal */
    uint64_t one = 1;
    VkTimelineSemaphoreSubmitInfo values = {VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO, NULL, 1, &one, 1, &one};
    VkPipelineStageFlags stage = VK_PIPELINE_STAGE_ALL_COMMANDS_BIT;
    VkSubmitInfo submit = {VK_STRUCTURE_TYPE_SUBMIT_INFO, &values, 0, NULL, NULL, 1, NULL, 0, NULL};
    VkSemaphoreSignalInfo open = {VK_STRUCTURE_TYPE_SEMAPHORE_SIGNAL_INFO, NULL, VK_NULL_HANDLE, 1};
    VkCommandBuffer commands = engine_begin_commands(e), others;
    dit_model *model = load_model(ctx, MODEL);
    dit_job_desc desc = describe(model, 7);
    dit_job *jobs[4];
    uint32_t i;
    for (i = 0; i < 4; i++) jobs[i] = create_job(ctx, &desc);
    if (!jobs[3]) return;
    semaphores[0] = open.semaphore = make_timeline(e);
    semaphores[1] = make_timeline(e);
    submit.waitSemaphoreCount = submit.signalSemaphoreCount = 1;
    submit.pWaitSemaphores = &semaphores[0];
    submit.pSignalSemaphores = &semaphores[1];
    submit.pWaitDstStageMask = &stage;
    submit.pCommandBuffers = &commands;
    made.destroyed = 0;
    CHECK(dit_job_record(jobs[0], commands, 0) == DIT_WORKING);
    e->EndCommandBuffer(commands);
    dit_job_retire(jobs[0], semaphores[1], 1); /* before it is submitted */
    CHECK(e->QueueSubmit(e->queue, 1, &submit, VK_NULL_HANDLE) == VK_SUCCESS);
    others = engine_begin_commands(e);
    CHECK(dit_job_record(jobs[1], others, 0) == DIT_WORKING && made.destroyed == 0);
    signal(e->device, &open);
    e->QueueWaitIdle(e->queue);
    CHECK(dit_job_record(jobs[1], others, 0) == DIT_WORKING);
    CHECK_MESSAGE(made.destroyed == 1, "%u images of a retired job are destroyed", made.destroyed);
    engine_run(e, others, VK_NULL_HANDLE, 0);
    e->FreeCommandBuffers(e->device, e->pool, 1, &commands);
    CHECK(record(e, jobs[2], 1) == DIT_WORKING);
    dit_job_retire(jobs[2], VK_NULL_HANDLE, 0);
    e->QueueWaitIdle(e->queue);
    CHECK(record(e, jobs[1], 1) == DIT_WORKING && made.destroyed == 2);
    dit_job_retire(jobs[1], semaphores[1], 2); /* which never comes */
    dit_job_retire(NULL, VK_NULL_HANDLE, 0);
    CHECK(record(e, jobs[3], INT32_MAX) == DIT_OK && made.destroyed == 2);
    dit_job_destroy(jobs[3]);
    CHECK(made.destroyed == 3);
    dit_model_destroy(model);
    CHECK_MESSAGE(made.destroyed == 4, "%u of 4 jobs are gone with their model", made.destroyed);
    for (i = 0; i < 2; i++) destroy(e->device, semaphores[i], NULL);
}

static double thread_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Another thread that has taken retired jobs, and takes its time to destroy them. */
static void *let_go(void *arg) {
    dit_context *ctx = (dit_context *)arg;
    struct timespec while_it_destroys = {0, 300000000};
    nanosleep(&while_it_destroys, NULL);
    diti_lock(&ctx->retired_lock);
    ctx->collecting--;
    diti_unlock(&ctx->retired_lock);
    return NULL;
}

/* The end of a model waits for that thread, and sleeps meanwhile. */
static void test_end_beside_retiring(dit_context *ctx) {
    dit_model *model = load_model(ctx, MODEL);
    double used = thread_seconds();
    pthread_t thread;
    ctx->collecting++;
    if (!CHECK(pthread_create(&thread, NULL, let_go, ctx) == 0)) return;
    dit_model_destroy(model);
    used = thread_seconds() - used;
    CHECK_MESSAGE(ctx->collecting == 0 && used < 0.1, "%u threads destroy jobs, %.3f s of a processor", ctx->collecting,
                  used);
    pthread_join(thread, NULL);
}

/* ---- memory that leaves the device ---- */

/* Another device of the driver makes an image on exported memory, and reads it. */
static bool shows_elsewhere(engine *other, const dit_export *from, uint32_t family, const unsigned char *picture) {
    VkExternalMemoryImageCreateInfo external = {VK_STRUCTURE_TYPE_EXTERNAL_MEMORY_IMAGE_CREATE_INFO, NULL,
                                                from->handle_type};
    VkMemoryDedicatedAllocateInfo dedicated = {VK_STRUCTURE_TYPE_MEMORY_DEDICATED_ALLOCATE_INFO, NULL, VK_NULL_HANDLE,
                                               VK_NULL_HANDLE};
    VkImportMemoryFdInfoKHR import = {VK_STRUCTURE_TYPE_IMPORT_MEMORY_FD_INFO_KHR, &dedicated,
                                      (VkExternalMemoryHandleTypeFlagBits)from->handle_type, (int)from->handle};
    VkMemoryAllocateInfo memory = {VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO, &import, from->size, from->memory_type};
    VkImageMemoryBarrier acquire;
    VkImageCreateInfo info;
    VkCommandBuffer commands;
    engine_image image = {VK_NULL_HANDLE, VK_NULL_HANDLE, from->width, from->height};
    dit_output out;
    bool same;
    memset(&info, 0, sizeof info);
    memset(&acquire, 0, sizeof acquire);
    memset(&out, 0, sizeof out);
    info.sType = VK_STRUCTURE_TYPE_IMAGE_CREATE_INFO;
    info.pNext = &external;
    info.flags = from->flags;
    info.imageType = VK_IMAGE_TYPE_2D;
    info.format = (VkFormat)from->format;
    info.extent.width = from->width;
    info.extent.height = from->height;
    info.extent.depth = info.mipLevels = info.arrayLayers = 1;
    info.samples = VK_SAMPLE_COUNT_1_BIT;
    info.usage = from->usage;
    if (!CHECK(other->CreateImage(other->device, &info, NULL, &image.image) == VK_SUCCESS)) return false;
    dedicated.image = image.image;
    if (!CHECK(other->AllocateMemory(other->device, &memory, NULL, &image.memory) == VK_SUCCESS)) return false;
    CHECK(other->BindImageMemory(other->device, image.image, image.memory, 0) == VK_SUCCESS);
    acquire.sType = VK_STRUCTURE_TYPE_IMAGE_MEMORY_BARRIER;
    acquire.dstAccessMask = VK_ACCESS_MEMORY_READ_BIT;
    acquire.oldLayout =
        family == VK_QUEUE_FAMILY_EXTERNAL ? VK_IMAGE_LAYOUT_TRANSFER_DST_OPTIMAL : (VkImageLayout)from->layout;
    acquire.newLayout = (VkImageLayout)from->layout;
    acquire.srcQueueFamilyIndex = VK_QUEUE_FAMILY_EXTERNAL;
    acquire.dstQueueFamilyIndex = other->family;
    acquire.image = image.image;
    acquire.subresourceRange.aspectMask = VK_IMAGE_ASPECT_COLOR_BIT;
    acquire.subresourceRange.levelCount = acquire.subresourceRange.layerCount = 1;
    commands = engine_begin_commands(other);
    other->CmdPipelineBarrier(commands, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT, 0, 0,
                              NULL, 0, NULL, 1, &acquire);
    engine_run(other, commands, VK_NULL_HANDLE, 0);
    out.image = image.image;
    out.format = from->format;
    out.layout = from->layout;
    out.width = from->width;
    out.height = from->height;
    same = shows(other, &out, picture);
    engine_free_image(other, &image);
    return same;
}

static void export_refused(dit_context *ctx, const dit_job_desc *desc, const char *words) {
    dit_error err = {0};
    dit_memory memory;
    dit_job *job;
    CHECK(dit_job_memory(ctx, desc, &memory, &err) == DIT_ERROR_INVALID_ARGUMENT);
    CHECK_MESSAGE(dit_job_create(ctx, desc, &job, &err) == DIT_ERROR_INVALID_ARGUMENT && !job &&
                      strstr(err.message, words),
                  "%s", err.message);
}

/* The handle that memory is exported by here, the extension that does it, and a handle of another system. */
#ifdef _WIN32
#define HANDLE_HERE VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_WIN32_BIT
#define HANDLE_ELSEWHERE VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT
#define HANDLE_EXTENSION "VK_KHR_external_memory_win32"
#define HANDLE_NAME "handle type 0x2"
#else
#define HANDLE_HERE VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT
#define HANDLE_ELSEWHERE VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_WIN32_BIT
#define HANDLE_EXTENSION "VK_KHR_external_memory_fd"
#define HANDLE_NAME "handle type 0x1"
#endif

static bool exports(const engine *e) { /* SwiftShader knows other handles */
    uint32_t i;
    for (i = 0; i < e->info.enabledExtensionCount; i++)
        if (!strcmp(e->info.ppEnabledExtensionNames[i], HANDLE_EXTENSION)) return true;
    return false;
}

/* Pictures of dit's own are seen by a second device, also after a restart and after the job is gone. */
static void test_export(engine *e, dit_context *ctx, const dit_model *model) {
    static engine other;
    const uint32_t families[] = {0, VK_QUEUE_FAMILY_EXTERNAL};
    dit_job_desc desc = describe(model, 7);
    dit_error err = {0};
    dit_export out;
    dit_job *job;
    size_t i;
    memset(&other, 0, sizeof other);
    job = create_job(ctx, &desc);
    CHECK(dit_job_export(job, 0, &out, &err) == DIT_ERROR_INVALID_ARGUMENT && strstr(err.message, "export_handle"));
    CHECK(dit_job_export(NULL, 0, &out, &err) == DIT_ERROR_INVALID_ARGUMENT);
    CHECK(dit_job_export(job, 1, &out, &err) == DIT_ERROR_INVALID_ARGUMENT && strstr(err.message, "image 1"));
    desc.target.export_handle = HANDLE_HERE;
    CHECK(dit_job_restart(job, &desc, &err) == DIT_ERROR_INVALID_ARGUMENT && strstr(err.message, "export_handle"));
    dit_job_destroy(job);
    desc.target.export_handle = HANDLE_ELSEWHERE;
    export_refused(ctx, &desc, HANDLE_NAME);
    desc.target.export_handle = HANDLE_HERE;
    if (!exports(e)) {
        export_refused(ctx, &desc, HANDLE_EXTENSION);
        return;
    }
    desc.target.format = VK_FORMAT_R8G8B8A8_UNORM;
    desc.target.usage = VK_IMAGE_USAGE_DEPTH_STENCIL_ATTACHMENT_BIT;
    export_refused(ctx, &desc, "exports no images");
    desc.target.usage = 0;
    if (!engine_make_instance(&other) || !engine_make_device(&other, true)) return;
    for (i = 0; i < 2; i++) {
        desc.target.dst_queue_family = families[i];
        desc.target.final_layout = VK_IMAGE_LAYOUT_GENERAL;
        desc.preview_interval = 1;
        desc.seed = 8;
        job = create_job(ctx, &desc);
        CHECK(job && dit_job_wait(job, UINT64_MAX) == DIT_OK);
        desc.seed = 7;
        restart(job, &desc);
        CHECK(dit_job_wait(job, UINT64_MAX) == DIT_OK && dit_job_export(job, 0, &out, &err) == DIT_OK);
        CHECK(out.width == SIDE && out.height == SIDE && out.format == VK_FORMAT_R8G8B8A8_UNORM && out.handle >= 0);
        if (i) dit_job_destroy(job);
        CHECK_MESSAGE(shows_elsewhere(&other, &out, families[i], expected[0]), "another device sees another picture");
        if (!i) dit_job_destroy(job);
    }
    engine_end(&other);
}

/* Where the memory is the application's, or its device was created without the extension, there is nothing to export.
 */
static void test_no_export(void) {
    static engine e;
    int hooked;
    for (hooked = 0; hooked < 2; hooked++) {
        dit_context_desc cd = {0};
        dit_context *ctx = NULL;
        dit_model *model = NULL;
        memset(&e, 0, sizeof e);
        if (!engine_make_instance(&e) || !engine_make_device(&e, hooked)) return;
        if (hooked) {
            cd.device_allocator.alloc = engine_alloc;
            cd.device_allocator.free = engine_free;
            cd.device_allocator.user = &e;
        }
        ctx = engine_context(&e, &cd);
        model = ctx ? load_model(ctx, MODEL) : NULL;
        if (model) {
            dit_job_desc desc = describe(model, 7);
            desc.target.export_handle = HANDLE_HERE;
            export_refused(ctx, &desc, hooked ? "device_allocator" : HANDLE_EXTENSION);
        }
        dit_model_destroy(model);
        dit_context_destroy(ctx);
        engine_end(&e);
    }
}

/* ---- other threads ---- */

typedef struct asking {
    const dit_job *job;
    int stop; /* atomic */
    bool good;
} asking;

/* A restart is never seen half done: a run that has ended stays so until it is over, and counts never fall.
 */
static void *ask(void *user) {
    asking *a = (asking *)user;
    dit_counters before = {0}, now;
    dit_status status;
    a->good = true;
    while (!diti_atomic_load(&a->stop)) {
        dit_job_status(a->job, &status, NULL);
        dit_job_get_counters(a->job, &now);
        if ((status.result != DIT_OK && status.result != DIT_WORKING) || now.recordings < before.recordings ||
            now.dispatches < before.dispatches || now.submits < before.submits)
            a->good = false;
        before = now;
    }
    return NULL;
}

/* A thread asks about a job while another one restarts it with prompts that are planned anew. */
static void test_asking(engine *e, dit_context *ctx, const dit_model *model) {
    static char longer[6 * 50 + 1];
    dit_job_desc desc = describe(model, 7);
    dit_counters before, after;
    dit_job *job;
    pthread_t thread;
    asking a = {0};
    int i;
    for (i = 0; i < 50; i++) memcpy(longer + 6 * i, "a cat ", 7);
    desc.steps = 3;
    desc.cache = "delta:first=1,from=2,interval=2";
    a.job = job = create_job(ctx, &desc);
    dit_job_get_counters(job, &before);
    if (!job || !CHECK(pthread_create(&thread, NULL, ask, &a) == 0)) return;
    for (i = 0; i < 6; i++) {
        if (i % 3 < 2)
            CHECK(record(e, job, INT32_MAX) == DIT_OK);
        else
            CHECK(dit_job_wait(job, UINT64_MAX) == DIT_OK);
        desc.prompt = desc.negative_prompt = i % 2 ? "a red heart" : longer;
        restart(job, &desc);
    }
    diti_atomic_store(&a.stop, 1);
    pthread_join(thread, NULL);
    dit_job_get_counters(job, &after);
    CHECK(after.allocations > before.allocations); /* work was planned anew */
    CHECK_MESSAGE(a.good, "another thread was told what is not so");
    dit_job_destroy(job);
}

/* ---- what things cost ---- */

typedef struct cost {
    double preview, decode;
    uint32_t preview_ops, decode_ops;
} cost;

static bool add_op(const dit_op_info *op, void *user) {
    cost *c = (cost *)user;
    if (!strcmp(op->segment, "preview")) c->preview += op->flops, c->preview_ops++;
    if (!strcmp(op->segment, "decode")) c->decode += op->flops, c->decode_ops++;
    return true;
}

/* A preview is one more run of the decoder. */
static void test_preview_cost(dit_context *ctx, const dit_model *model) {
    dit_job_desc desc = describe(model, 7);
    dit_inspector inspector = {add_op, NULL, NULL};
    dit_memory without, with;
    dit_error err = {0};
    cost c = {0};
    inspector.user = &c;
    CHECK(dit_job_memory(ctx, &desc, &without, &err) == DIT_OK);
    desc.preview_interval = 1;
    CHECK_MESSAGE(dit_job_inspect(ctx, &desc, &inspector, &err) == DIT_OK, "%s", err.message);
    CHECK_MESSAGE(c.preview_ops > 20 && c.preview_ops <= c.decode_ops && c.preview > 0.9 * c.decode &&
                      c.preview < 1.1 * c.decode,
                  "%u ops of %g, the decoder has %u of %g", c.preview_ops, c.preview, c.decode_ops, c.decode);
    CHECK(dit_job_memory(ctx, &desc, &with, &err) == DIT_OK && with.activations >= without.activations + BYTES);
}

/* Memory through an allocator that maps only what it must is what dit_job_memory says: staging is small, and counted
   where all memory is the device's. */
static void test_memory(const char *path, uint32_t side, uint32_t preview_interval) {
    static engine e;
    dit_context_desc cd = {0};
    dit_memory memory = {0};
    dit_context *ctx = NULL;
    dit_model *model = NULL;
    dit_job *job = NULL;
    dit_job_desc desc;
    dit_error err = {0};
    unsigned char *rgba = (unsigned char *)malloc((size_t)side * side * 4);
    memset(&e, 0, sizeof e);
    e.maps_least = true;
    if (engine_make_instance(&e) && engine_make_device(&e, true)) {
        cd.device_allocator.alloc = engine_alloc;
        cd.device_allocator.free = engine_free;
        cd.device_allocator.user = &e;
        ctx = engine_context(&e, &cd);
        /* A context measures the device in buffers as large as the device is fast, and returns them. */
        e.most = e.allocated;
        memcpy(e.kinds_most, e.kinds, sizeof e.kinds);
        model = ctx ? load_model(ctx, path) : NULL;
    }
    if (model) {
        uint64_t taken;
        desc = describe(model, 7);
        desc.width = desc.height = side;
        desc.steps = 1;
        desc.preview_interval = preview_interval;
        CHECK(dit_job_memory(ctx, &desc, &memory, &err) == DIT_OK);
        job = create_job(ctx, &desc);
        CHECK(job && dit_job_step(job, 0) == DIT_WORKING);
        dit_job_read(job, DIT_READ_LATENT_F32, 0, 0, rgba, (size_t)side * side * 4, 0, NULL);
        taken = ctx->device->unified ? e.most : e.kinds_most[0];
        printf("%s: said %.2f MB, at most %.2f MB, now %.2f MB\n", path, (double)memory.peak / 1e6, (double)taken / 1e6,
               (double)e.allocated / 1e6);
        CHECK_MESSAGE(taken <= memory.peak + memory.peak / 50 + 65536 && taken >= memory.peak / 10 * 9,
                      "dit_job_memory says %llu, %llu were taken", (unsigned long long)memory.peak,
                      (unsigned long long)taken);
        CHECK_MESSAGE(e.kinds_most[0] <= memory.device_local + memory.device_local / 50 + 65536 &&
                          e.kinds_most[0] >= memory.device_local / 10 * 9,
                      "%llu for the device alone, %llu were taken", (unsigned long long)memory.device_local,
                      (unsigned long long)e.kinds_most[0]);
        CHECK_MESSAGE(e.kinds_most[1] <= memory.host_visible + memory.host_visible / 50 + 65536 &&
                          e.kinds_most[1] >= memory.host_visible / 10 * 9,
                      "%llu visible to the host, %llu were taken", (unsigned long long)memory.host_visible,
                      (unsigned long long)e.kinds_most[1]);
    }
    dit_job_destroy(job);
    dit_model_destroy(model);
    dit_context_destroy(ctx);
    engine_end(&e);
    free(rgba);
}

static void make_expected(dit_context *ctx, const dit_model *model) {
    dit_job_desc desc = describe(model, 7);
    dit_job *job = create_job(ctx, &desc);
    uint64_t i;
    for (i = 0; i < 2 && job; i++) {
        desc.seed = 7 + i;
        restart(job, &desc);
        CHECK(dit_job_wait(job, UINT64_MAX) == DIT_OK &&
              dit_job_read(job, DIT_READ_RGBA8, 0, 0, expected[i], BYTES, 0, NULL) == DIT_OK);
    }
    CHECK(memcmp(expected[0], expected[1], BYTES) != 0);
    dit_job_destroy(job);
}

/* early: what a status that is asked for before the last commands run says about steps that reused blocks. */
static dit_result record_asking(engine *e, dit_job *job, uint32_t *early) {
    dit_result result = DIT_WORKING;
    dit_status status;
    while (result == DIT_WORKING) {
        VkCommandBuffer commands = engine_begin_commands(e);
        result = dit_job_record(job, commands, 0);
        dit_job_status(job, &status, NULL);
        *early = status.reused;
        engine_run(e, commands, VK_NULL_HANDLE, 0);
    }
    return result;
}

/* A job that reuses blocks gives the same bytes in frames of the application's as dit_job_wait does, by a schedule of
   the host's and where the device decides, which tells nothing before it has; nothing is allocated or compiled on the
   way, nor in a second run. */
static void test_cached(engine *e, dit_context *ctx, const dit_model *model) {
    static const char *const caches[] = {"delta:first=1,from=2,interval=2", "taylor:order=2,interval=2,from=3",
                                         "fbcache:threshold=1.5,most=1", "delta:first=1,from=2,interval=2+gate:4"};
    static unsigned char plain[BYTES], waited[BYTES], read[BYTES];
    dit_job_desc desc = describe(model, 7);
    dit_counters begun, ended;
    dit_status status;
    dit_output out;
    dit_job *job;
    uint32_t early;
    size_t i;
    int run;
    desc.steps = 6;
    job = create_job(ctx, &desc);
    CHECK(job && dit_job_wait(job, UINT64_MAX) == DIT_OK &&
          dit_job_read(job, DIT_READ_RGBA8, 0, 0, plain, BYTES, 0, NULL) == DIT_OK);
    dit_job_destroy(job);
    for (i = 0; i < sizeof caches / sizeof *caches; i++) {
        desc.cache = caches[i];
        job = create_job(ctx, &desc);
        if (!job) continue;
        CHECK(dit_job_wait(job, UINT64_MAX) == DIT_OK &&
              dit_job_read(job, DIT_READ_RGBA8, 0, 0, waited, BYTES, 0, NULL) == DIT_OK);
        CHECK_MESSAGE(memcmp(plain, waited, BYTES), "%s: the picture without a cache", caches[i]);
        dit_job_destroy(job);
        job = create_job(ctx, &desc);
        if (!job) continue;
        dit_job_get_counters(job, &begun);
        for (run = 0; run < 2; run++) {
            if (run) restart(job, &desc);
            CHECK(record_asking(e, job, &early) == DIT_OK && dit_job_output(job, 0, 0, &out) == DIT_OK &&
                  dit_job_read(job, DIT_READ_RGBA8, 0, 0, read, BYTES, 0, NULL) == DIT_OK);
            CHECK_MESSAGE(!early || !strstr(caches[i], "fbcache"), "run %d: %u steps reused before they ran", run,
                          early);
            CHECK_MESSAGE(!memcmp(read, waited, BYTES) && shows(e, &out, waited), "%s, run %d: other bytes", caches[i],
                          run);
            dit_job_status(job, &status, NULL);
            CHECK_MESSAGE(status.reused > 0 && status.reused < 5, "%s: %u of 6 steps reused blocks", caches[i],
                          status.reused);
        }
        dit_job_get_counters(job, &ended);
        CHECK_MESSAGE(ended.allocations == begun.allocations && ended.pipelines == begun.pipelines,
                      "%s: %llu allocations and %llu pipelines in the loop", caches[i],
                      (unsigned long long)(ended.allocations - begun.allocations),
                      (unsigned long long)(ended.pipelines - begun.pipelines));
        dit_job_destroy(job);
    }
}

int main(void) {
    static engine e;
    dit_context_desc cd = {0};
    dit_context *ctx = NULL;
    dit_model *model = NULL;
    test_vulkan_begin();
    e.two_families = true;
    if (engine_make_instance(&e) && engine_make_device(&e, true)) {
        e.handover.get_instance_proc_addr = get_instance;
        ctx = engine_context(&e, &cd);
        model = ctx ? load_model(ctx, MODEL) : NULL;
    }
    if (model) {
        make_expected(ctx, model);
        test_own_images(&e, ctx, model);
        test_families(&e, ctx, model);
        if (e.other_family != UINT32_MAX) {
            test_release(&e, ctx, model);
        } else {
            test_restart(&e, ctx, model);
            test_formats(ctx, model);
            test_texels(&e, ctx, model);
            test_usage(ctx, model);
            test_subresources(&e, ctx, model);
            test_export(&e, ctx, model);
            test_dropped_frame(&e, ctx, model);
            test_unrecord(&e, ctx, model, 0);
            test_unrecord(&e, ctx, model, 20000);
            test_unrecord_streamed(&e, ctx);
            test_pause_streamed(&e, ctx);
            test_no_submissions(&e);
            test_asking(&e, ctx, model);
            test_destroying(&e, ctx, model);
            test_retire(&e, ctx);
            test_end_beside_retiring(ctx);
            test_final(&e, ctx, model);
            test_warm_up(&e, ctx, model);
            test_preview_cost(ctx, model);
            test_cached(&e, ctx, model);
        }
    }
    dit_model_destroy(model);
    dit_context_destroy(ctx);
    engine_end(&e);
    if (test_first_driver()) {
        test_no_export();
        test_memory(MODEL, SIDE, 0);
        test_memory("models/emoji-q8_0.gguf", 128, 1);
    }
    test_vulkan_end();
    return TEST_END("in_engine");
}
