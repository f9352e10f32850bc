/* Pictures that a picture is made after: FLUX.2's and Kontext's references. Checks of a request, ops, and what the host
   writes. Each is cut to whole tokens in its middle and encoded once; the transformer reads its tokens beside those of
   the noise. */
#include "job/job.h"

/* Pixels of a side that a token stands for. */
static uint32_t diti_references_unit(const dit_model *model) {
    return diti_model_factor(model) * model->transformer->traits.patch;
}

static dit_result diti_references_take(const dit_model *model, uint32_t index, const dit_reference *reference,
                                       diti_job_request *out, dit_error *err) {
    const dit_image *image = reference->frames;
    diti_reference_shape *shape = &out->shape.references[index];
    uint32_t unit = diti_references_unit(model);
    if (!image || reference->frame_count > 1)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "references[%u]: it must be one picture", (unsigned)index);
    if (!image->rgba || image->image || image->rgb)
        return diti_fail(
            err, DIT_ERROR_INVALID_ARGUMENT,
            "references[%u]: this version reads references of pictures from bytes in memory only; give rgba",
            (unsigned)index);
    if (image->row_pitch && image->row_pitch < (size_t)image->width * 4)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "references[%u]: row_pitch %llu is less than %u pixels",
                         (unsigned)index, (unsigned long long)image->row_pitch, image->width);
    if (image->width < 4 * unit || image->height < 4 * unit || image->width > 8 * image->height ||
        image->height > 8 * image->width)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "references[%u]: it has %u x %u pixels; its sides must be at least %u, and one at most eight "
                         "times the other",
                         (unsigned)index, image->width, image->height, 4 * unit);
    if ((uint64_t)image->width * image->height > DITI_REFERENCE_PIXELS)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "references[%u]: it has %u x %u pixels, more than %u; scale it down", (unsigned)index,
                         image->width, image->height, DITI_REFERENCE_PIXELS);
    shape->width = image->width / unit * unit;
    shape->height = image->height / unit * unit;
    out->reference_images[index] = image;
    return DIT_OK;
}

DIT_INTERNAL dit_result diti_job_request_references(const dit_model *model, const dit_job_desc *desc,
                                                    diti_job_request *out, dit_error *err) {
    uint32_t i, most = model->transformer->traits.references;
    if (desc->cache && (!desc->reference_count || !model->transformer->traits.caches_references))
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "dit_job_desc: cache \"references\" is about references, %s; it must be NULL",
                         desc->reference_count ? "whose keys change from step to step with this model"
                                               : "and there are none");
    if (!desc->reference_count) return DIT_OK;
    out->shape.keeps_references = desc->cache || model->transformer->traits.keeps_references;
    if (!desc->references)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "dit_job_desc: references is NULL, reference_count is %u",
                         desc->reference_count);
    if (desc->reference_count > most)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "reference_count is %u; this model (%s %s) takes at most %u",
                         desc->reference_count, model->info.family, model->info.variant, most);
    if (desc->mask_strategy || desc->loop_count > 1 || desc->loop || desc->loop_frames)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "dit_job_desc: mask_strategy and loops are of clips; this model makes pictures");
    DITI_TRY(diti_job_needs_encoder(model, "references", err));
    for (i = 0; i < desc->reference_count; i++)
        DITI_TRY(diti_references_take(model, i, &desc->references[i], out, err));
    out->shape.reference_count = desc->reference_count;
    return DIT_OK;
}

/* --- ops --- */

DIT_INTERNAL diti_tensor diti_encode_mean(const diti_share *share, diti_graph *graph, diti_tensor pixels,
                                          uint32_t width, uint32_t height, bool shifted) {
    const dit_job *job = share->job;
    const diti_vae_traits *vae = diti_vae_get_traits(job->model->vae);
    uint32_t channels = vae->latent_channels, rows = width / vae->factor * (height / vae->factor), c;
    diti_patches places = DITI_ZERO;
    diti_elementwise_desc desc = DITI_ZERO;
    diti_tensor moments, planes;
    moments = diti_vae_encode(job->model->vae, graph, pixels, height, width, job->request.shape.vae_tile);
    if (diti_graph_failed(graph)) return 0;
    places.batch = places.patch = 1;
    places.channels = channels;
    places.height = height / vae->factor;
    places.width = width / vae->factor;
    desc.out_f32 = true;
    desc.name = "mean of a picture";
    moments = diti_elementwise(graph, diti_tensor_view(graph, moments, 0, rows, 0, channels), &desc);
    planes = diti_unpatchify(graph, moments, &places, channels);
    desc.name = "scale picture";
    for (c = 0; c < (vae->by_channel ? channels : 1) && !diti_graph_failed(graph); c++) {
        desc.scale = vae->by_channel ? vae->scales[c] : vae->scale;
        desc.offset = shifted ? -(vae->by_channel ? vae->shifts[c] : vae->shift) * desc.scale : 0;
        desc.out = diti_tensor_view(graph, planes, c, vae->by_channel ? 1 : channels, 0, rows);
        diti_elementwise(graph, desc.out, &desc);
    }
    return planes;
}

static diti_tensor diti_references_encode(diti_share *share, diti_graph *graph, uint32_t index) {
    const diti_reference_shape *shape = &share->job->request.shape.references[index];
    share->program.reference_pixels[index] =
        diti_tensor_input(graph, DITI_U32, 1, shape->width * shape->height, "reference");
    return diti_encode_mean(share, graph, diti_image_in(graph, share->program.reference_pixels[index], false),
                            shape->width, shape->height, true);
}

DIT_INTERNAL void diti_references_emit(diti_share *share, diti_graph *graph) {
    const dit_job *job = share->job;
    diti_denoise *denoise = &share->program.denoise;
    uint32_t i, factor = job->model->vae ? diti_vae_get_traits(job->model->vae)->factor : 1;
    denoise->reference_count = job->request.shape.reference_count;
    for (i = 0; i < denoise->reference_count && !diti_graph_failed(graph); i++) {
        diti_reference_latent *latent = &denoise->references[i];
        latent->height = job->request.shape.references[i].height / factor;
        latent->width = job->request.shape.references[i].width / factor;
        latent->planes = share->assignment.share
                             ? diti_tensor_new(graph, DITI_F32, job->model->transformer->traits.latent_channels,
                                               latent->height * latent->width, "reference")
                             : diti_references_encode(share, graph, i);
        if (share->assignment.share_total > 1 && !diti_graph_failed(graph))
            diti_broadcast(graph, &share->assignment.all, 0, latent->planes);
    }
}

/* --- host inputs --- */

DIT_INTERNAL dit_result diti_references_write(diti_share *share, dit_error *err) {
    const dit_job *job = share->job;
    uint32_t i, y;
    for (i = 0; i < job->request.shape.reference_count && !share->assignment.share; i++) {
        const diti_reference_shape *shape = &job->request.shape.references[i];
        const dit_image *image = job->request.reference_images[i];
        size_t line = (size_t)shape->width * 4, pitch, bytes = line * shape->height;
        const uint8_t *from;
        uint8_t *packed;
        dit_result result;
        if (!image) return DIT_OK; /* written before */
        pitch = image->row_pitch ? image->row_pitch : (size_t)image->width * 4;
        from =
            image->rgba + (image->height - shape->height) / 2 * pitch + (size_t)(image->width - shape->width) / 2 * 4;
        packed = (uint8_t *)diti_alloc(&job->env, bytes);
        if (!packed) return diti_fail_memory(err, "a reference");
        for (y = 0; y < shape->height; y++) memcpy(packed + y * line, from + y * pitch, line);
        result = diti_plan_write(share->program.plan, share->program.reference_pixels[i], packed, bytes, err);
        diti_free(&job->env, packed);
        if (result != DIT_OK) return result;
    }
    return DIT_OK;
}
