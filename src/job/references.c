/* Pictures that a picture is made after: FLUX.2's, Kontext's and Qwen-Image-Edit's references. Checks of a request,
   ops, and what the host writes. Each is scaled as the model's pipeline scales it, cut to whole tokens in its middle,
   and encoded once; the transformer reads its tokens beside those of the noise. A language model may be shown a smaller
   copy with the prompt. */
#include "job/job.h"

/* Pixels of a side that a token stands for. */
static uint32_t diti_references_unit(const dit_model *model) {
    return diti_model_factor(model) * model->transformer->traits.patch;
}

/* Sides of that area in the picture's proportions, each the nearest multiple of 32, or the even one of two that are as
   near (docs/models.md 3.14), or the next multiple of a unit from there on (3.24). */
static void diti_reference_fit(const dit_image *image, uint32_t area, uint32_t unit, uint32_t *width,
                               uint32_t *height) {
    double ratio = (double)image->width / image->height, side = sqrt((double)area * ratio), other = side / ratio;
    *width = unit ? (uint32_t)ceil(side / unit) * unit : (uint32_t)rint(side / 32) * 32;
    *height = unit ? (uint32_t)ceil(other / unit) * unit : (uint32_t)rint(other / 32) * 32;
    if (!*width) *width = 32;
    if (!*height) *height = 32;
}

/* The picture's size, or one of at most so many pixels and sides of at most twice the root of that, each rounded down
   to a multiple of 16 (docs/models.md 3.29). */
static void diti_reference_floor(const dit_image *image, uint32_t most, uint32_t *width, uint32_t *height) {
    double longer = image->width > image->height ? image->width : image->height, root = sqrt((double)most),
           ratio = fmin(1, fmin(sqrt((double)most / ((double)image->width * image->height)), 2 * root / longer));
    *width = (uint32_t)(image->width * ratio) / 16 * 16;
    *height = (uint32_t)(image->height * ratio) / 16 * 16;
    if (!*width) *width = 16;
    if (!*height) *height = 16;
}

/* The size of the copy that the language model sees, before that is made of whole tokens; where sides are rounded down,
   all copies get that of the first picture's, as in the original pipeline. */
static void diti_reference_fit_shown(const diti_model_traits *traits, const dit_image *image, uint32_t *width,
                                     uint32_t *height) {
    if (traits->floors_references) {
        diti_reference_floor(image, traits->shown_area, width, height);
        return;
    }
    if (traits->anchors) {
        *width = image->width;
        *height = image->height;
        return;
    }
    if (!traits->shown_half) {
        diti_reference_fit(image, traits->shown_area, 0, width, height);
        return;
    }
    diti_reference_fit(image, traits->reference_area, traits->reference_unit, width, height);
    *width /= 2;
    *height /= 2;
}

/* The first of those sizes whose proportions are nearest to those of the picture's whole tokens, which have 16 pixels a
   side (docs/models.md 3.4.1). */
static void diti_reference_nearest(const dit_image *image, const uint16_t (*sizes)[2], uint32_t *width,
                                   uint32_t *height) {
    double ratio = (double)(image->width / 16) / (image->height / 16), least = 1e9;
    for (; (*sizes)[0]; sizes++) {
        double away = fabs(ratio - (double)(*sizes)[0] / (*sizes)[1]);
        if (away >= least) continue;
        least = away;
        *width = (*sizes)[0];
        *height = (*sizes)[1];
    }
}

DIT_INTERNAL void diti_reference_scaled(const diti_model_traits *traits, const dit_image *image, uint32_t count,
                                        uint32_t *width, uint32_t *height) {
    uint32_t most = count > 1 ? traits->reference_limit : traits->reference_limit_alone;
    double pixels = (double)image->width * image->height;
    *width = image->width;
    *height = image->height;
    if (traits->floors_references) {
        diti_reference_floor(image, most, width, height);
    } else if (traits->reference_area) {
        diti_reference_fit(image, traits->reference_area, traits->reference_unit, width, height);
    } else if (traits->reference_sizes) {
        diti_reference_nearest(image, traits->reference_sizes, width, height);
    } else if (most && pixels > most) {
        *width = (uint32_t)(image->width * sqrt(most / pixels));
        *height = (uint32_t)(image->height * sqrt(most / pixels));
    }
}

DIT_API bool dit_model_edited_size(const dit_model *model, uint32_t *width, uint32_t *height) {
    const diti_model_traits *traits = model && model->transformer ? &model->transformer->traits : NULL;
    dit_image image = DITI_ZERO;
    if (!traits || !traits->references || !(traits->reference_area || traits->floors_references) || !*width || !*height)
        return false;
    image.width = *width;
    image.height = *height;
    diti_reference_scaled(traits, &image, 1, width, height);
    return true;
}

/* The tower of the model's language model; NULL: nothing is shown to it. */
static const diti_vision *diti_references_vision(const dit_model *model) {
    const diti_encoder *encoder = &model->encoders[0];
    return encoder->self && encoder->picture_chat ? diti_decoder_vision((const diti_decoder *)encoder->self) : NULL;
}

#define DITI_SHOWN_LEAST (256.0 * 256.0) /* pixels that Qwen3-VL's processor scales smaller pictures up to */

/* A token's sides go into each side so many times, the nearest, or of two as near the even one; of a copy that was not
   scaled up before, into sides of at least so many pixels. */
static void diti_reference_tokens_of(const diti_model_traits *traits, uint32_t width, uint32_t height, uint32_t side,
                                     diti_vision_grid *out) {
    double up = sqrt(DITI_SHOWN_LEAST / ((double)width * height));
    out->rows = (uint32_t)rint((double)height / side);
    out->columns = (uint32_t)rint((double)width / side);
    if ((traits->floors_references || traits->anchors) &&
        (double)out->rows * out->columns * side * side < DITI_SHOWN_LEAST) {
        out->rows = (uint32_t)ceil(height * up / side);
        out->columns = (uint32_t)ceil(width * up / side);
    }
    if (!out->rows) out->rows = 1;
    if (!out->columns) out->columns = 1;
}

/* The tokens of a copy of the second area, whose sides are multiples of a token's. */
static dit_result diti_reference_show(const dit_model *model, const char *name, const dit_image *image,
                                      diti_vision_grid *out, dit_error *err) {
    const diti_vision *vision = diti_references_vision(model);
    uint32_t width, height, side;
    if (!model->encoders[0].self || !model->transformer->traits.shown_area) return DIT_OK;
    if (!vision)
        return diti_fail(err, DIT_ERROR_UNSUPPORTED_MODEL,
                         "%s: the text encoder's file has no vision tower (visual.*), which this model shows pictures "
                         "to; load the text encoder of the model's own repository",
                         name);
    side = diti_vision_side(vision);
    diti_reference_fit_shown(&model->transformer->traits, image, &width, &height);
    diti_reference_tokens_of(&model->transformer->traits, width, height, side, out);
    return DIT_OK;
}

static dit_result diti_references_take(const dit_model *model, uint32_t index, const dit_job_desc *desc,
                                       diti_job_request *out, dit_error *err) {
    const dit_reference *reference = &desc->references[index];
    const dit_image *image = reference->frames;
    const diti_model_traits *traits = &model->transformer->traits;
    diti_reference_shape *shape = &out->shape.references[index];
    uint32_t unit = diti_references_unit(model), width, height;
    uint32_t least =
        traits->reference_area || traits->reference_sizes ? 2 * unit : 4 * unit; /* scaled up, too, or not */
    if (!image || reference->frame_count > 1)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "references[%u]: it must be one picture", (unsigned)index);
    if (!image->rgba || image->image || image->rgb)
        return diti_fail(
            err, DIT_ERROR_INVALID_ARGUMENT,
            "references[%u]: this version reads references of pictures from bytes in memory only; give rgba",
            (unsigned)index);
    if (!diti_request_has_rows(image, (size_t)image->width * 4))
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "references[%u]: row_pitch %llu does not suit %u x %u pixels",
                         (unsigned)index, (unsigned long long)image->row_pitch, image->width, image->height);
    if (image->width < least || image->height < least || image->width > 8 * image->height ||
        image->height > 8 * image->width)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "references[%u]: it has %u x %u pixels; its sides must be at least %u, and one at most eight "
                         "times the other",
                         (unsigned)index, image->width, image->height, least);
    if (image->width > DITI_REFERENCE_SIDE || image->height > DITI_REFERENCE_SIDE)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "references[%u]: it has %u x %u pixels, a side of more than %u; scale it down",
                         (unsigned)index, image->width, image->height, DITI_REFERENCE_SIDE);
    diti_reference_scaled(traits, image, desc->reference_count, &width, &height);
    if ((uint64_t)width * height > DITI_REFERENCE_PIXELS)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "references[%u]: it has %u x %u pixels, more than %u; scale it down", (unsigned)index, width,
                         height, DITI_REFERENCE_PIXELS);
    shape->width = width / unit * unit;
    shape->height = height / unit * unit;
    out->reference_images[index] = image;
    return diti_reference_show(model, "references", out->reference_images[traits->floors_references ? 0 : index],
                               &shape->shown, err);
}

DIT_INTERNAL dit_result diti_reference_anchor(const dit_model *model, const char *name, const dit_image *image,
                                              diti_job_request *out, dit_error *err) {
    uint32_t index = out->shape.reference_count++, most = DITI_MAX_PICTURES * model->encoders[0].picture_tokens;
    diti_reference_shape *shape = &out->shape.references[index];
    out->reference_images[index] = image;
    shape->width = out->shape.width;
    shape->height = out->shape.height;
    DITI_TRY(diti_reference_show(model, name, image, &shape->shown, err));
    if (diti_references_tokens(&out->shape) <= most || !model->encoders[0].self) return DIT_OK;
    return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                     "%s: it becomes %u tokens of the text encoder, which has room for %u; make a smaller clip", name,
                     shape->shown.rows * shape->shown.columns, most);
}

DIT_INTERNAL dit_result diti_job_request_references(const dit_model *model, const dit_job_desc *desc,
                                                    diti_job_request *out, dit_error *err) {
    uint32_t i, most = model->transformer->traits.references;
    if (out->shape.reuse.references && (!desc->reference_count || !model->transformer->traits.caches_references))
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "dit_job_desc: cache \"references\" is about references, %s; it must be NULL",
                         desc->reference_count ? "whose keys change from step to step with this model"
                                               : "and there are none");
    if (!desc->reference_count) return DIT_OK;
    out->shape.keeps_references = out->shape.reuse.references || model->transformer->traits.keeps_references;
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
    for (i = 0; i < desc->reference_count; i++) DITI_TRY(diti_references_take(model, i, desc, out, err));
    out->shape.reference_count = desc->reference_count;
    return DIT_OK;
}

DIT_INTERNAL uint32_t diti_references_tokens(const diti_job_shape *shape) {
    uint32_t i, tokens = 0;
    for (i = 0; i < shape->reference_count; i++)
        tokens += shape->references[i].shown.rows * shape->references[i].shown.columns;
    return tokens ? tokens + shape->reference_count * DITI_REFERENCE_WORDS : 0;
}

DIT_INTERNAL uint32_t diti_references_rows(const diti_job_shape *shape) {
    uint32_t i, tokens, rows = 0;
    for (i = 0; i < shape->reference_count; i++) {
        tokens = shape->references[i].shown.rows * shape->references[i].shown.columns;
        rows += tokens ? tokens + 2 : 0;
    }
    return rows;
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

DIT_INTERNAL diti_tensor diti_latent_planes(const diti_vae *model, diti_graph *graph, diti_tensor rows,
                                            const diti_video *latent, bool inverts) {
    const diti_vae_traits *vae = diti_vae_get_traits(model);
    uint32_t channels = vae->latent_channels, c, columns = latent->frames * latent->height * latent->width;
    diti_patches places = DITI_ZERO;
    diti_elementwise_desc desc = DITI_ZERO;
    diti_tensor planes;
    places.batch = places.patch = 1;
    places.channels = channels;
    places.frames = latent->frames;
    places.height = latent->height;
    places.width = latent->width;
    planes = diti_unpatchify(graph, rows, &places, channels);
    desc.name = "scale given latents";
    for (c = 0; c < (vae->by_channel ? channels : 1) && !diti_graph_failed(graph); c++) {
        float scale = vae->by_channel ? vae->scales[c] : vae->scale,
              shift = vae->by_channel ? vae->shifts[c] : vae->shift;
        if (inverts && vae->inverts_scale) scale = 1 / scale;
        desc.scale = scale;
        desc.offset = -shift * scale;
        desc.out = diti_tensor_view(graph, planes, c, vae->by_channel ? 1 : channels, 0, columns);
        diti_elementwise(graph, desc.out, &desc);
    }
    return planes;
}

/* The nearest number of 11 bits, as F16 has them: x - (c - c x) of c x = 8193 x (Veltkamp's splitting). */
static diti_tensor diti_anchor_halve(diti_graph *graph, diti_tensor x) {
    diti_elementwise_desc desc = DITI_ZERO;
    diti_tensor wide;
    desc.out_f32 = true;
    desc.name = "round given latents";
    desc.scale = 8193;
    wide = desc.add = diti_elementwise(graph, x, &desc);
    desc.scale = -1;
    return wide ? diti_elementwise(graph, diti_elementwise(graph, x, &desc), &desc) : 0;
}

DIT_INTERNAL diti_tensor diti_anchor_latent(const diti_vae *vae, diti_graph *graph, diti_tensor pixels,
                                            const diti_video *latent, uint32_t tile, const diti_tensor noise[2],
                                            float part) {
    uint32_t factor = diti_vae_get_traits(vae)->factor;
    diti_elementwise_desc desc = DITI_ZERO;
    diti_tensor x = diti_vae_encode(vae, graph, pixels, factor * latent->height, factor * latent->width, tile);
    if (diti_graph_failed(graph)) return 0;
    x = diti_anchor_halve(graph, diti_draw(graph, x, noise[0], 1, "draw given latents"));
    desc.scale = 1 - part;
    desc.add = noise[1];
    desc.out_f32 = true;
    desc.name = "given frame";
    return diti_elementwise(graph, diti_latent_planes(vae, graph, x, latent, false), &desc);
}

static diti_tensor diti_references_encode(diti_share *share, diti_graph *graph, uint32_t index) {
    const diti_reference_shape *shape = &share->job->request.shape.references[index];
    diti_tensor pixels = share->program.reference_pixels[index] =
        diti_tensor_input(graph, DITI_U32, 1, shape->width * shape->height, "reference");
    const diti_vae *vae = share->job->model->vae;
    const diti_model_traits *traits = &share->job->model->transformer->traits;
    diti_tensor *noise = share->program.given_noise[index];
    diti_video latent = {1, shape->height / vae->traits.factor, shape->width / vae->traits.factor};
    pixels = diti_image_in(graph, pixels, vae->traits.colors, false);
    if (!traits->anchors) return diti_encode_mean(share, graph, pixels, shape->width, shape->height, true);
    noise[0] = diti_tensor_input(graph, DITI_F32, latent.height * latent.width, traits->latent_channels, "given noise");
    noise[1] = diti_tensor_input(graph, DITI_F32, traits->latent_channels, latent.height * latent.width,
                                 "noise of the given frame");
    return diti_anchor_latent(vae, graph, pixels, &latent, share->job->request.shape.vae_tile, noise,
                              traits->anchor_noise);
}

DIT_INTERNAL void diti_references_emit(diti_share *share, diti_graph *graph) {
    const dit_job *job = share->job;
    diti_step_desc *step = &share->program.step;
    uint32_t i, factor = job->model->vae ? diti_vae_get_traits(job->model->vae)->factor : 1;
    step->reference_count = job->request.shape.reference_count;
    step->ends = job->request.shape.ends;
    for (i = 0; i < step->reference_count && !diti_graph_failed(graph); i++) {
        diti_reference_latent *latent = &step->references[i];
        step->shown_tokens[i] =
            job->request.shape.references[i].shown.rows * job->request.shape.references[i].shown.columns;
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

/* Bytes times alpha, or divided by it, as Pillow rounds them: colours of pixels that are not seen count for nothing
   when a picture with alpha is scaled. */
static void diti_reference_weigh(uint8_t *rgba, size_t pixels, bool back) {
    size_t i, c;
    for (i = 0; i < pixels; i++, rgba += 4) {
        uint32_t alpha = rgba[3];
        for (c = 0; c < 3; c++) {
            uint32_t value = rgba[c] * alpha + 128;
            if (back)
                value = alpha && alpha < 255 ? 255 * rgba[c] / alpha : rgba[c];
            else
                value = (value + (value >> 8)) >> 8;
            rgba[c] = (uint8_t)(value < 255 ? value : 255);
        }
    }
}

/* over: on white, since the model sees no alpha. */
static dit_result diti_reference_scale(const diti_env *env, const diti_picture *picture, uint32_t width,
                                       uint32_t height, bool over, uint8_t **out, dit_error *err) {
    size_t pixels = (size_t)picture->width * picture->height, i, c;
    diti_picture weighed = *picture;
    uint8_t *copy;
    dit_result result;
    if (picture->width == width && picture->height == height) { /* Pillow copies it */
        result = diti_resize(env, picture, width, height, DITI_WINDOW_LANCZOS, out, err);
    } else {
        copy = (uint8_t *)diti_alloc_array(env, pixels, 4);
        if (!copy) return diti_fail_memory(err, "a reference");
        weighed.rgba = copy;
        weighed.pitch = (size_t)picture->width * 4;
        for (i = 0; i < picture->height; i++)
            memcpy(copy + i * weighed.pitch, picture->rgba + i * picture->pitch, weighed.pitch);
        diti_reference_weigh(copy, pixels, false);
        result = diti_resize(env, &weighed, width, height, DITI_WINDOW_LANCZOS, out, err);
        if (result >= 0) diti_reference_weigh(*out, (size_t)width * height, true);
        diti_free(env, copy);
    }
    for (i = 0; i < (size_t)width * height && over && result >= 0; i++) {
        uint8_t *rgba = *out + 4 * i;
        for (c = 0; c < 3; c++) {
            uint32_t value = rgba[c] * rgba[3] + 255u * (255u - rgba[3]) + 128;
            rgba[c] = (uint8_t)((value + (value >> 8)) >> 8);
        }
    }
    return result;
}

static diti_picture diti_reference_picture(const dit_image *image) {
    diti_picture picture;
    picture.rgba = image->rgba;
    picture.pitch = image->row_pitch ? image->row_pitch : (size_t)image->width * 4;
    picture.width = image->width;
    picture.height = image->height;
    return picture;
}

/* Pixels of the middle. Alpha weighs no colour where the pipeline drops it before it scales. */
static dit_result diti_reference_write(diti_share *share, uint32_t index, const dit_image *image, dit_error *err) {
    const dit_job *job = share->job;
    const diti_model_traits *traits = &job->model->transformer->traits;
    const diti_reference_shape *shape = &job->request.shape.references[index];
    diti_picture picture = diti_reference_picture(image), scaled = picture;
    size_t line = (size_t)shape->width * 4, bytes = line * shape->height;
    uint8_t *made = NULL, *packed = (uint8_t *)diti_alloc(&job->env, bytes);
    dit_result result = packed ? DIT_OK : diti_fail_memory(err, "a reference");
    uint32_t y;
    diti_reference_scaled(traits, image, job->request.shape.reference_count, &scaled.width, &scaled.height);
    if (result >= 0 && traits->reference_area)
        result = diti_reference_scale(&job->env, &picture, scaled.width, scaled.height,
                                      diti_vae_get_traits(job->model->vae)->colors == 3, &made, err);
    else if (result >= 0 && (scaled.width != picture.width || scaled.height != picture.height))
        result = diti_resize(&job->env, &picture, scaled.width, scaled.height, DITI_WINDOW_LANCZOS, &made, err);
    if (made) {
        scaled.rgba = made;
        scaled.pitch = (size_t)scaled.width * 4;
    }
    for (y = 0; y < shape->height && result >= 0; y++)
        memcpy(packed + y * line,
               scaled.rgba + ((scaled.height - shape->height) / 2 + y) * scaled.pitch +
                   (size_t)(scaled.width - shape->width) / 2 * 4,
               line);
    if (result >= 0)
        result = diti_plan_write(share->program.plan, share->program.reference_pixels[index], packed, bytes, err);
    diti_free(&job->env, made);
    diti_free(&job->env, packed);
    return result;
}

/* The copy that the language model sees, by the steps of the pipeline: to the area, or to the reference's size and half
   of that, then to whole tokens. */
static dit_result diti_reference_shown(const dit_job *job, const dit_image *image, const diti_picture *picture,
                                       const diti_vision_grid *grid, float *patches, dit_error *err) {
    const diti_vision *vision = diti_references_vision(job->model);
    const diti_model_traits *traits = &job->model->transformer->traits;
    uint32_t side = diti_vision_side(vision), halves = traits->shown_half ? 2 : 1;
    diti_picture fitted = DITI_ZERO, whole = DITI_ZERO;
    uint8_t *first = NULL, *half = NULL, *second = NULL;
    dit_result result;
    if (traits->floors_references) image = job->request.reference_images[0];
    diti_reference_fit_shown(traits, image, &fitted.width, &fitted.height);
    whole.width = halves * fitted.width;
    whole.height = halves * fitted.height;
    whole.pitch = (size_t)whole.width * 4;
    result = diti_reference_scale(&job->env, picture, whole.width, whole.height, true, &first, err);
    whole.rgba = fitted.rgba = first;
    if (result >= 0 && traits->shown_half)
        result = diti_resize(&job->env, &whole, fitted.width, fitted.height, DITI_WINDOW_LANCZOS, &half, err);
    if (half) fitted.rgba = half;
    if (result >= 0)
        result =
            diti_resize(&job->env, &fitted, grid->columns * side, grid->rows * side, DITI_WINDOW_CUBIC, &second, err);
    if (result >= 0) diti_vision_patches(vision, grid, second, patches);
    diti_free(&job->env, first);
    diti_free(&job->env, half);
    diti_free(&job->env, second);
    return result;
}

static dit_result diti_references_write_shown(diti_share *share, diti_tensor input, dit_error *err) {
    const dit_job *job = share->job;
    size_t columns = share->program.plan->tensors[input].columns, rows = share->program.plan->tensors[input].rows;
    float *patches = (float *)diti_alloc_array(&job->env, rows * columns, sizeof *patches), *at = patches;
    dit_result result = patches ? DIT_OK : diti_fail_memory(err, "pictures for the language model");
    uint32_t i;
    for (i = 0; i < job->request.shape.reference_count && result >= 0; i++) {
        const diti_vision_grid *grid = &job->request.shape.references[i].shown;
        diti_picture picture = diti_reference_picture(job->request.reference_images[i]);
        result = diti_reference_shown(job, job->request.reference_images[i], &picture, grid, at, err);
        at += 4 * (size_t)grid->rows * grid->columns * columns;
    }
    if (result >= 0)
        result = diti_plan_write(share->program.plan, input, patches, rows * columns * sizeof *patches, err);
    diti_free(&job->env, patches);
    return result;
}

DIT_INTERNAL dit_result diti_references_write(diti_share *share, dit_error *err) {
    const dit_job *job = share->job;
    diti_tensor shown = share->program.text.encoders[0].inputs[DITI_DECODER_VISION_PIXELS];
    uint32_t i;
    size_t values = (size_t)job->model->transformer->traits.latent_channels * job->request.latent_width *
                    job->request.latent_height;
    if (share->assignment.share) return DIT_OK;
    for (i = 0; i < 2 * job->request.shape.reference_count && job->model->transformer->traits.anchors; i++)
        DITI_TRY(diti_plan_write(share->program.plan, share->program.given_noise[i / 2][i % 2],
                                 job->request.given_noise + i * values, values * sizeof(float), err));
    for (i = 0; i < job->request.shape.reference_count; i++) {
        if (!job->request.reference_images[i]) return DIT_OK; /* written before */
        DITI_TRY(diti_reference_write(share, i, job->request.reference_images[i], err));
    }
    return i && shown && share->program.text.picture_count ? diti_references_write_shown(share, shown, err) : DIT_OK;
}
