/* Start pictures: what a request brings, checked; the latent that the steps begin with, and what a mask keeps of it.

   As diffusers does it: the picture is encoded, a latent is drawn from what the encoder says, and noise of the level of
   the first step that is taken is added. Behind every step the latent becomes, where the mask is black, what that
   picture would be with the noise of the next step. */
#include "job/job.h"

/* --- requests --- */

/* A picture of the caller's: pixels or an image, of the size that is made. */
static dit_result diti_start_check_image(const char *name, const dit_image *image, const diti_job_shape *shape,
                                         dit_error *err) {
    if (image->width != shape->width || image->height != shape->height)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "%s is %u x %u pixels, the picture %u x %u: scale it to that size, or ask for another", name,
                         image->width, image->height, shape->width, shape->height);
    if (image->rgb)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "%s.rgb: floats are for frames of clips; give the bytes of a picture in rgba alone", name);
    if ((image->rgba != NULL) == (image->image != VK_NULL_HANDLE))
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "%s needs either rgba or image", name);
    if (image->rgba && !diti_request_has_rows(image, (size_t)image->width * 4))
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "%s: row_pitch %llu does not suit %u x %u pixels of 4 bytes",
                         name, (unsigned long long)image->row_pitch, image->width, image->height);
    return DIT_OK;
}

DIT_INTERNAL bool diti_is_layout(uint32_t layout) {
    return (layout > VK_IMAGE_LAYOUT_UNDEFINED && layout < VK_IMAGE_LAYOUT_PREINITIALIZED) ||
           (layout >= 1000000000 && layout < VK_IMAGE_LAYOUT_MAX_ENUM);
}

static dit_result diti_start_check_device(const dit_image *image, diti_job_request *out, dit_error *err) {
    if (!image->image) return DIT_OK;
    if (!diti_is_layout(image->layout))
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "init_image.layout %u must be the VkImageLayout in which the image is, and is left: neither "
                         "UNDEFINED nor PREINITIALIZED",
                         image->layout);
    switch (image->format) {
    case VK_FORMAT_UNDEFINED:
    case VK_FORMAT_R8G8B8A8_UNORM:
    case VK_FORMAT_R8G8B8A8_SRGB: break;
    case VK_FORMAT_B8G8R8A8_UNORM:
    case VK_FORMAT_B8G8R8A8_SRGB: out->shape.start_swap = true; break;
    default:
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "init_image.format %d is not possible; use an 8-bit RGBA or BGRA format", (int)image->format);
    }
    out->shape.start_image = image->image;
    out->shape.start_layout = (VkImageLayout)image->layout;
    return DIT_OK;
}

DIT_INTERNAL dit_result diti_job_check_memory(const char *name, const dit_image *image, const diti_job_shape *shape,
                                              dit_error *err) {
    if (image->image)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "%s.image: this version reads such a picture from memory only; give %s.rgba", name, name);
    return diti_start_check_image(name, image, shape, err);
}

/* Latents to begin with, [image_count, C, h, w], or [1, C, h, w] for all pictures: no picture is encoded. */
static dit_result diti_start_take_latents(const dit_model *model, const diti_env *env, const dit_tensor *given,
                                          diti_job_request *out, dit_error *err) {
    size_t values = model->transformer->traits.latent_channels * diti_request_plane(out);
    uint32_t count = given->rank && given->shape[0] == 1 ? 1 : out->shape.image_count, i;
    float *all;
    DITI_TRY(diti_request_floats(env, given, count * values, &out->start_latents, err));
    DITI_TRY(diti_request_check_finite(given->name, out->start_latents, count * values, err));
    if (count == out->shape.image_count) return DIT_OK;
    all = (float *)diti_alloc_array(env, out->shape.image_count, values * sizeof *all);
    if (!all) return diti_fail_memory(err, "input %s", given->name);
    for (i = 0; i < out->shape.image_count; i++) memcpy(all + i * values, out->start_latents, values * sizeof *all);
    diti_free(env, out->start_latents);
    out->start_latents = all;
    return DIT_OK;
}

DIT_INTERNAL dit_result diti_job_request_start(const dit_model *model, const diti_env *env, const dit_job_desc *desc,
                                               diti_job_request *out, dit_error *err) {
    const diti_vae_traits *vae = model->vae ? diti_vae_get_traits(model->vae) : NULL;
    const dit_tensor *latents = diti_request_input(desc, "image_latents");
    if (!(desc->strength >= 0 && desc->strength <= 1))
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "strength is %g; it must be 0 (0.75) to 1 (all is replaced)",
                         (double)desc->strength);
    if (!desc->init_image && !latents && (desc->mask || desc->strength > 0))
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "dit_job_desc: %s is given without init_image, the picture that it is about",
                         desc->mask ? "mask" : "strength");
    if (desc->init_image && latents)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "input image_latents and init_image: a picture begins with one of them; leave the other out");
    if (!desc->init_image && !latents) return DIT_OK;
    if (latents) DITI_TRY(diti_start_take_latents(model, env, latents, out, err));
    if (!latents && (!vae || !vae->has_encoder))
        return diti_fail(err, DIT_ERROR_UNSUPPORTED_MODEL,
                         "init_image: the model's autoencoder has no encoder; load the whole one as a component with "
                         "the role DIT_ROLE_VAE");
    if (!latents) DITI_TRY(diti_start_check_image("init_image", desc->init_image, &out->shape, err));
    if (!latents) DITI_TRY(diti_start_check_device(desc->init_image, out, err));
    if (desc->mask) DITI_TRY(diti_job_check_memory("mask", desc->mask, &out->shape, err));
    out->strength = desc->strength > 0 ? desc->strength : 0.75f;
    out->shape.starts = true;
    out->shape.masked = desc->mask != NULL;
    out->shape.start_latents = latents != NULL;
    out->shape.draws_start = !latents && !vae->exact && !vae->means &&
                             !(desc->reference_count && model->transformer->traits.reference_sizes); /* Kontext */
    out->start = desc->init_image;
    out->mask = desc->mask;
    return DIT_OK;
}

/* --- ops --- */

/* One picture's share of the latents of all. */
static diti_tensor diti_start_part(const dit_job *job, diti_graph *graph, diti_tensor all, uint32_t image) {
    uint32_t channels = job->model->transformer->traits.latent_channels;
    return diti_tensor_view(graph, all, image * channels, channels, 0,
                            job->request.latent_width * job->request.latent_height);
}

/* The encoder's means, and logarithms of variances where it has them, as planes. */
static diti_tensor diti_start_encode(diti_share *share, diti_graph *graph) {
    const dit_job *job = share->job;
    const diti_job_shape *shape = &job->request.shape;
    uint32_t pixels = shape->width * shape->height;
    diti_patches places = DITI_ZERO;
    diti_tensor rows;
    share->program.start_rgba = shape->start_image ? diti_tensor_state(graph, DITI_U32, 1, pixels, "start picture")
                                                   : diti_tensor_input(graph, DITI_U32, 1, pixels, "start picture");
    rows = diti_vae_encode(job->model->vae, graph,
                           diti_image_in(graph, share->program.start_rgba, diti_vae_get_traits(job->model->vae)->colors,
                                         shape->start_swap),
                           shape->height, shape->width, shape->vae_tile);
    if (diti_graph_failed(graph)) return 0;
    places.batch = places.patch = 1;
    places.channels = diti_tensor_get(graph, rows)->columns;
    places.height = job->request.latent_height;
    places.width = job->request.latent_width;
    return diti_unpatchify(graph, rows, &places, places.channels);
}

/* x = row `row` of the start's coefficients, a solver step, applied to a prediction and noise. */
static void diti_start_mix(diti_share *share, diti_graph *graph, uint32_t row, const diti_solver_desc *states,
                           diti_tensor prediction, diti_tensor noise, bool learned) {
    diti_solver_desc solver = *states;
    solver.noise = noise;
    solver.learned = learned;
    solver.coefficients = diti_tensor_view(graph, share->program.start_coefficients, row, 1, 0, DITI_COEFFICIENTS);
    diti_solver_step(graph, prediction, &solver);
}

/* latents = mean + deviation * noise of each picture's own */
static void diti_start_draw(diti_share *share, diti_graph *graph, const diti_solver_desc *states, diti_tensor moments) {
    const dit_job *job = share->job;
    diti_solver_desc one = *states;
    uint32_t i;
    share->program.start_noise =
        diti_tensor_input(graph, DITI_F32, diti_tensor_get(graph, share->program.latent)->rows,
                          diti_tensor_get(graph, share->program.latent)->columns, "start noise");
    for (i = 0; i < job->request.shape.image_count && !diti_graph_failed(graph); i++) {
        one.x = diti_start_part(job, graph, states->x, i);
        one.h1 = diti_start_part(job, graph, states->h1, i);
        one.h2 = diti_start_part(job, graph, states->h2, i);
        diti_start_mix(share, graph, 0, &one, moments, diti_start_part(job, graph, share->program.start_noise, i),
                       true);
    }
}

static void diti_start_map(diti_graph *graph, diti_tensor from, diti_tensor to, float scale, float offset) {
    diti_elementwise_desc desc = DITI_ZERO;
    desc.scale = scale;
    desc.offset = offset;
    desc.out = to;
    desc.name = "start latent";
    diti_elementwise(graph, from, &desc);
}

/* The encoder's values become latents as the sampler has them. */
static void diti_start_scale(diti_graph *graph, const diti_vae_traits *vae, diti_tensor from, diti_tensor to) {
    uint32_t columns = diti_tensor_columns(graph, to), i;
    if (!vae->by_channel) diti_start_map(graph, from, to, vae->scale, -vae->shift * vae->scale);
    for (i = 0; i < vae->latent_channels && vae->by_channel && !diti_graph_failed(graph); i++)
        diti_start_map(graph, diti_tensor_view(graph, from, i, 1, 0, columns),
                       diti_tensor_view(graph, to, i, 1, 0, columns), vae->scales[i], -vae->shifts[i] * vae->scales[i]);
}

/* The picture's latents, one for each picture that is made. */
static void diti_start_latents(diti_share *share, diti_graph *graph, const diti_solver_desc *states,
                               diti_tensor latents) {
    const dit_job *job = share->job;
    const diti_job_shape *shape = &job->request.shape;
    const diti_vae_traits *vae = diti_vae_get_traits(job->model->vae);
    diti_tensor moments;
    uint32_t i;
    share->program.start_noise = share->program.start_latents = 0;
    if (shape->start_latents) {
        share->program.start_latents = diti_tensor_input(graph, DITI_F32, diti_tensor_rows(graph, latents),
                                                         diti_tensor_columns(graph, latents), "start latents");
        diti_start_map(graph, share->program.start_latents, latents, 1, 0);
        return;
    }
    moments = diti_start_encode(share, graph);
    if (diti_graph_failed(graph)) return;
    if (shape->draws_start) diti_start_draw(share, graph, states, moments);
    for (i = 0; i < shape->image_count && !diti_graph_failed(graph); i++)
        diti_start_scale(graph, vae,
                         shape->draws_start ? diti_start_part(job, graph, share->program.latent, i)
                                            : diti_start_part(job, graph, moments, 0),
                         diti_start_part(job, graph, latents, i));
}

DIT_INTERNAL size_t diti_job_latent_values(const dit_job *job) {
    return (size_t)job->request.shape.image_count * job->model->transformer->traits.latent_channels *
           diti_request_plane(&job->request);
}

/* A step of a solver that remembers nothing, and its coefficients. */
static diti_solver_desc diti_start_plain(diti_share *share, diti_graph *graph, const diti_solver_desc *states) {
    diti_solver_desc plain = *states;
    plain.guided = plain.mixed = plain.has_y = plain.has_h3 = plain.keeps = false;
    plain.x0 = 0;
    plain.frames = 0;
    plain.h2 = diti_tensor_view(graph, states->h2, 0, diti_tensor_rows(graph, states->x), 0,
                                diti_tensor_columns(graph, states->x));
    share->program.start_coefficients = diti_tensor_input(graph, DITI_F32, 2, DITI_COEFFICIENTS, "start coefficients");
    return plain;
}

DIT_INTERNAL void diti_start_begin(diti_share *share, diti_graph *graph, const diti_solver_desc *states,
                                   diti_tensor latents) {
    diti_solver_desc plain = diti_start_plain(share, graph, states);
    diti_start_mix(share, graph, 1, &plain, latents, share->program.noise, false);
}

DIT_INTERNAL void diti_start_emit(diti_share *share, diti_graph *graph, const diti_solver_desc *states) {
    uint32_t planes = diti_tensor_get(graph, share->program.latent)->rows,
             pixels = diti_tensor_get(graph, share->program.latent)->columns;
    uint32_t kept = diti_solver_kept(states) * planes;
    diti_solver_desc plain = diti_start_plain(share, graph, states);
    diti_tensor latents;
    latents = states->keeps ? diti_tensor_view(graph, states->h2, kept, planes, 0, pixels)
                            : diti_tensor_new(graph, DITI_F32, planes, pixels, "start latent");
    if (!share->assignment.share) diti_start_latents(share, graph, &plain, latents);
    diti_broadcast(graph, &share->assignment.all, 0, latents); /* the first share has the picture */
    diti_start_mix(share, graph, 1, &plain, latents, share->program.noise, false);
    if (!states->keeps) return;
    share->program.mask = diti_tensor_input(graph, DITI_F32, planes, pixels, "mask");
    diti_start_map(graph, share->program.noise, diti_tensor_view(graph, states->h2, kept + planes, planes, 0, pixels),
                   1, 0);
    diti_start_map(graph, share->program.mask,
                   diti_tensor_view(graph, states->h2, kept + 2 * planes, planes, 0, pixels), 1, 0);
}

/* --- host inputs --- */

static size_t diti_start_pitch(const dit_image *image) {
    return image->row_pitch ? image->row_pitch : (size_t)image->width * 4;
}

DIT_INTERNAL dit_result diti_job_write_pixels(diti_share *share, diti_tensor tensor, const dit_image *image,
                                              dit_error *err) {
    const dit_job *job = share->job;
    size_t line = (size_t)image->width * 4, y;
    uint8_t *pixels;
    dit_result result;
    if (!image->rgba) return DIT_OK;
    pixels = (uint8_t *)diti_alloc_array(&job->env, image->height, line);
    if (!pixels) return diti_fail_memory(err, "a picture");
    for (y = 0; y < image->height; y++) memcpy(pixels + y * line, image->rgba + y * diti_start_pitch(image), line);
    result = diti_plan_write(share->program.plan, tensor, pixels, image->height * line, err);
    diti_free(&job->env, pixels);
    return result;
}

/* Grey as PIL computes it. */
DIT_INTERNAL uint32_t diti_mask_grey(const dit_image *mask, uint32_t x, uint32_t y) {
    const uint8_t *pixel = mask->rgba + (size_t)y * diti_start_pitch(mask) + (size_t)x * 4;
    return (pixel[0] * 19595u + pixel[1] * 38470u + pixel[2] * 7471u + 0x8000u) >> 16;
}

/* Grey of at least one half: diffusers' binarize. */
DIT_INTERNAL float diti_mask_at(const dit_image *mask, uint32_t x, uint32_t y) {
    return diti_mask_grey(mask, x, y) >= 128 ? 1.0f : 0.0f;
}

/* Every plane has the same mask: that of the first pixel of the square that an element stands for, diffusers' nearest.
 */
static dit_result diti_start_write_mask(diti_share *share, dit_error *err) {
    const dit_job *job = share->job;
    const diti_job_request *request = &job->request;
    uint32_t width = request->latent_width, height = request->latent_height, x, y,
             factor = diti_vae_get_traits(job->model->vae)->factor,
             planes = request->shape.image_count * job->model->transformer->traits.latent_channels, plane;
    size_t area = (size_t)width * height;
    float *mask = (float *)diti_alloc_array(&job->env, area * planes, sizeof *mask);
    dit_result result;
    if (!mask) return diti_fail_memory(err, "the mask");
    for (y = 0; y < height; y++) {
        for (x = 0; x < width; x++) mask[y * width + x] = diti_mask_at(request->mask, x * factor, y * factor);
    }
    for (plane = 1; plane < planes; plane++) memcpy(mask + plane * area, mask, area * sizeof *mask);
    result = diti_plan_write(share->program.plan, share->program.mask, mask, area * planes * sizeof *mask, err);
    diti_free(&job->env, mask);
    return result;
}

DIT_INTERNAL dit_result diti_start_write(diti_share *share, dit_error *err) {
    const diti_job_request *request = &share->job->request;
    diti_solver_row rows[2] = DITI_ZERO, *mean = &rows[0], *mix = &rows[1];
    if (!share->assignment.share && request->start)
        DITI_TRY(diti_job_write_pixels(share, share->program.start_rgba, request->start, err));
    mean->clip = mix->clip = (float)INFINITY; /* none */
    mean->x_m = mean->noise = 1;              /* mean + noise * */
    mean->noise_v = 0.5f;                     /* exp(logvar / 2) */
    mix->x_m = request->schedule.start_x0;
    mix->noise = request->schedule.start_noise;
    DITI_TRY(diti_plan_write(share->program.plan, share->program.start_coefficients, rows, sizeof rows, err));
    if (!share->assignment.share && request->start_latents)
        DITI_TRY(diti_plan_write(share->program.plan, share->program.start_latents, request->start_latents,
                                 diti_job_latent_values(share->job) * sizeof(float), err));
    if (share->program.start_noise)
        DITI_TRY(diti_plan_write(share->program.plan, share->program.start_noise, request->start_noise,
                                 diti_job_latent_values(share->job) * sizeof(float), err));
    return request->mask ? diti_start_write_mask(share, err) : DIT_OK;
}

/* --- an image of the application's --- */

DIT_INTERNAL void diti_job_record_start(const dit_job *job, VkCommandBuffer commands) {
    const diti_share *first = job->shares[0];
    const diti_vk_api *vk = &first->device->vk;
    VkImage image = job->request.shape.start_image;
    VkImageLayout layout = job->request.shape.start_layout;
    VkImageMemoryBarrier barrier;
    VkMemoryBarrier copied;
    VkBufferImageCopy copy;
    VkDeviceSize size;
    VkBuffer buffer;
    memset(&barrier, 0, sizeof barrier);
    memset(&copied, 0, sizeof copied);
    memset(&copy, 0, sizeof copy);
    barrier.sType = VK_STRUCTURE_TYPE_IMAGE_MEMORY_BARRIER;
    barrier.srcQueueFamilyIndex = barrier.dstQueueFamilyIndex = VK_QUEUE_FAMILY_IGNORED;
    barrier.image = image;
    barrier.subresourceRange.aspectMask = copy.imageSubresource.aspectMask = VK_IMAGE_ASPECT_COLOR_BIT;
    barrier.subresourceRange.levelCount = barrier.subresourceRange.layerCount = copy.imageSubresource.layerCount = 1;
    barrier.srcAccessMask = VK_ACCESS_MEMORY_WRITE_BIT;
    barrier.dstAccessMask = VK_ACCESS_TRANSFER_READ_BIT;
    barrier.oldLayout = layout;
    barrier.newLayout = VK_IMAGE_LAYOUT_TRANSFER_SRC_OPTIMAL;
    copied.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER;
    copied.srcAccessMask = VK_ACCESS_MEMORY_WRITE_BIT; /* the first segment cleared the buffer */
    copied.dstAccessMask = VK_ACCESS_TRANSFER_WRITE_BIT;
    vk->CmdPipelineBarrier(commands, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT, VK_PIPELINE_STAGE_TRANSFER_BIT, 0, 1, &copied,
                           0, NULL, 1, &barrier);
    buffer = diti_plan_buffer(first->program.plan, first->program.start_rgba, &copy.bufferOffset, &size);
    copy.imageExtent.width = job->request.shape.width;
    copy.imageExtent.height = job->request.shape.height;
    copy.imageExtent.depth = 1;
    vk->CmdCopyImageToBuffer(commands, image, VK_IMAGE_LAYOUT_TRANSFER_SRC_OPTIMAL, buffer, 1, &copy);
    copied.srcAccessMask = VK_ACCESS_TRANSFER_WRITE_BIT;
    copied.dstAccessMask = VK_ACCESS_SHADER_READ_BIT;
    barrier.srcAccessMask = 0; /* nothing was written */
    barrier.dstAccessMask = VK_ACCESS_MEMORY_READ_BIT | VK_ACCESS_MEMORY_WRITE_BIT;
    barrier.oldLayout = VK_IMAGE_LAYOUT_TRANSFER_SRC_OPTIMAL;
    barrier.newLayout = layout;
    vk->CmdPipelineBarrier(commands, VK_PIPELINE_STAGE_TRANSFER_BIT, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT, 0, 1, &copied,
                           0, NULL, 1, &barrier);
}
