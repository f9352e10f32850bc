/* A clip that a clip follows, with models that have a branch for it (Wan VACE, docs/models.md 3.9.1): a control net
   inside the transformer, which reads the latents of the part of the clip that stays, those of the part that is made
   anew, and the mask that parts both. Pictures that the new clip refers to stand in front of it, as latent frames of
   their own. Everything that is not given is grey. Checks of a request, ops, and what the host writes. */
#include "job/job.h"

/* --- requests --- */

/* A pixel's part in the clip, as bytes of a picture that given.c reads. */
enum { DITI_BRANCH_STAYS = 0, DITI_BRANCH_GREY = 127, DITI_BRANCH_ANEW = 255 };
/* In front of the references in diti_job_shape.given: what stays, and what is made anew. */
#define DITI_BRANCH_CLIPS 2u

static dit_result diti_branch_check_clip(const dit_job_desc *desc, const diti_job_request *request, dit_error *err) {
    uint32_t frames = request->shape.frames, count = desc->control_count ? desc->control_count : 1,
             masks = desc->mask_count ? desc->mask_count : 1, i;
    char name[40];
    if (!desc->control_image && desc->mask)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "dit_job_desc: mask is given without control_image, the clip that it is about");
    if (!desc->control_image) return DIT_OK;
    if (count != frames)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "dit_job_desc: control_image has %u frames (control_count), the clip %u: the clip that is "
                         "followed is as long as what is made of it",
                         count, frames);
    if (desc->mask && masks != 1 && masks != frames)
        return diti_fail(
            err, DIT_ERROR_INVALID_ARGUMENT,
            "dit_job_desc: mask_count is %u; it must be 1, a mask for all frames, or %u, the clip's frames", masks,
            frames);
    for (i = 0; i < frames; i++) {
        diti_format(name, sizeof name, "control_image[%u]", (unsigned)i);
        DITI_TRY(diti_job_check_memory(name, &desc->control_image[i], &request->shape, err));
    }
    for (i = 0; desc->mask && i < masks; i++) {
        diti_format(name, sizeof name, "mask[%u]", (unsigned)i);
        DITI_TRY(diti_job_check_memory(name, &desc->mask[i], &request->shape, err));
    }
    return DIT_OK;
}

/* Pictures that the clip begins with and ends with. */
static dit_result diti_branch_check_ends(const dit_model *model, const dit_job_desc *desc,
                                         const diti_job_request *request, dit_error *err) {
    uint32_t count = desc->init_count ? desc->init_count : 1, i;
    char name[32];
    if (!desc->init_image) return DIT_OK;
    if (count > 2 || count > request->shape.frames)
        return diti_fail(
            err, DIT_ERROR_INVALID_ARGUMENT,
            "dit_job_desc: init_count is %u; with this model (%s %s) init_image is the clip's first frame, "
            "or that and the last one of a longer clip. A clip that is followed or repainted is "
            "control_image",
            count, model->info.family, model->info.variant);
    for (i = 0; i < count; i++) {
        diti_format(name, sizeof name, "init_image[%u]", (unsigned)i);
        DITI_TRY(diti_job_check_memory(name, &desc->init_image[i], &request->shape, err));
    }
    return DIT_OK;
}

static dit_result diti_branch_check_reference(const dit_model *model, const dit_reference *reference, uint32_t index,
                                              dit_error *err) {
    const dit_image *image = reference->frames;
    uint32_t least = 2 * diti_model_factor(model);
    if (!image || reference->frame_count > 1)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "references[%u]: it must be one picture", (unsigned)index);
    if (!image->rgba || image->image || image->rgb)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "references[%u]: this version reads references of this model from bytes in memory only; give "
                         "rgba",
                         (unsigned)index);
    if (!diti_request_has_rows(image, (size_t)image->width * 4))
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "references[%u]: row_pitch %llu does not suit %u x %u pixels",
                         (unsigned)index, (unsigned long long)image->row_pitch, image->width, image->height);
    if (image->width >= least && image->height >= least && image->width <= 8 * image->height &&
        image->height <= 8 * image->width && image->width <= DITI_REFERENCE_SIDE &&
        image->height <= DITI_REFERENCE_SIDE)
        return DIT_OK;
    return diti_fail(
        err, DIT_ERROR_INVALID_ARGUMENT,
        "references[%u]: it has %u x %u pixels; its sides must be %u to %u, and one at most eight times the "
        "other",
        (unsigned)index, image->width, image->height, least, DITI_REFERENCE_SIDE);
}

static dit_result diti_branch_check_references(const dit_model *model, const dit_job_desc *desc, dit_error *err) {
    uint32_t most = model->transformer->traits.references, i;
    if (!desc->reference_count) return DIT_OK;
    if (!desc->references)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "dit_job_desc: references is NULL, reference_count is %u",
                         desc->reference_count);
    if (desc->reference_count > most)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "reference_count is %u; this model (%s %s) takes at most %u",
                         desc->reference_count, model->info.family, model->info.variant, most);
    for (i = 0; i < desc->reference_count; i++)
        DITI_TRY(diti_branch_check_reference(model, &desc->references[i], i, err));
    return DIT_OK;
}

static dit_result diti_branch_check(const dit_model *model, const dit_job_desc *desc, const diti_job_request *request,
                                    dit_error *err) {
    const char *wrong = desc->strength != 0 ? "strength" : NULL;
    if (request->shape.reuse.references) wrong = "cache \"references\"";
    if (desc->mask_strategy) wrong = "mask_strategy";
    if (desc->loop || desc->loop_count > 1 || desc->loop_frames || desc->loop_edit > 0) wrong = "loop_count";
    if (wrong)
        return diti_fail(
            err, DIT_ERROR_INVALID_ARGUMENT,
            "dit_job_desc: %s is given, and this model (%s %s) follows a clip from pure noise; leave it out", wrong,
            model->info.family, model->info.variant);
    if (!(desc->control_strength >= -100 && desc->control_strength <= 100))
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "control_strength is %g; it must be 0 (stands for 1) or up to 100 either way",
                         (double)desc->control_strength);
    if (model->vae || model->device) /* a dry run without an autoencoder encodes nothing */
        DITI_TRY(diti_job_needs_encoder(model, "control_image, even where it is NULL and all is grey", err));
    DITI_TRY(diti_branch_check_clip(desc, request, err));
    DITI_TRY(diti_branch_check_ends(model, desc, request, err));
    return diti_branch_check_references(model, desc, err);
}

DIT_INTERNAL dit_result diti_job_request_branch(const dit_model *model, const dit_job_desc *desc, diti_job_request *out,
                                                dit_error *err) {
    const diti_model_traits *traits = &model->transformer->traits;
    uint32_t factor = diti_model_factor(model), i;
    diti_job_shape *shape = &out->shape;
    if (traits->control_channels != 2 * traits->latent_channels + factor * factor)
        return diti_fail(
            err, DIT_ERROR_UNSUPPORTED_MODEL,
            "this model (%s %s) follows a clip of %u channels; with %u channels of a latent, each of whose "
            "elements is %u x %u pixels, they must be %u: the transformer and the autoencoder belong to "
            "different models",
            model->info.family, model->info.variant, traits->control_channels, traits->latent_channels, factor, factor,
            2 * traits->latent_channels + factor * factor);
    DITI_TRY(diti_branch_check(model, desc, out, err));
    shape->branch = true;
    shape->loop_count = 1;
    shape->controls = 1;
    out->net_adapters[0].weight = desc->control_strength != 0 ? desc->control_strength : 1;
    out->net_adapters[0].last = 1;
    out->control_image = desc->control_image;
    out->mask = desc->mask;
    out->mask_count = desc->mask_count > 1 ? desc->mask_count : 1;
    out->start = desc->init_image;
    out->start_count = desc->init_count > 1 ? desc->init_count : 1;
    shape->given_count = model->vae ? DITI_BRANCH_CLIPS + desc->reference_count : 0;
    for (i = 0; i < shape->given_count; i++) {
        shape->given[i].frames = i < DITI_BRANCH_CLIPS ? shape->frames : 1;
        shape->given[i].latent_frames = i < DITI_BRANCH_CLIPS ? shape->latent_frames : 1;
        shape->given[i].floats = i >= DITI_BRANCH_CLIPS;
    }
    for (i = 0; i < desc->reference_count; i++) out->reference_images[i] = desc->references[i].frames;
    shape->extra_frames = desc->reference_count;
    shape->latent_frames += desc->reference_count;
    return DIT_OK;
}

/* --- ops --- */

/* Latent frames [frame, frame + those of planes) of some channels of what the branch reads. */
static void diti_branch_put(const diti_share *share, diti_graph *graph, diti_tensor planes, uint32_t channel,
                            uint32_t frame) {
    uint32_t area = share->job->request.latent_width * share->job->request.latent_height;
    if (!planes || diti_graph_failed(graph)) return;
    diti_copy(graph, planes,
              diti_tensor_view(graph, share->program.control, channel, diti_tensor_rows(graph, planes), frame * area,
                               diti_tensor_columns(graph, planes)),
              "followed clip");
}

/* The last reference is the first frame, as in diffusers. References stay as they are: their mask is black. */
DIT_INTERNAL void diti_branch_emit(diti_share *share, diti_graph *graph) {
    const dit_job *job = share->job;
    const diti_job_request *request = &job->request;
    const diti_job_shape *shape = &request->shape;
    uint32_t channels = job->model->transformer->traits.latent_channels, i, references = shape->extra_frames,
             planes = job->model->transformer->traits.control_channels,
             clip = (shape->latent_frames - references) * request->latent_width * request->latent_height;
    share->program.control =
        diti_tensor_state(graph, DITI_F32, planes, (uint32_t)diti_request_plane(request), "followed clip");
    if (share->assignment.share == 0) {
        share->program.branch_parts =
            diti_tensor_input(graph, DITI_U32, 1, shape->frames * shape->width * shape->height, "parts of a clip");
        share->program.condition_mask = diti_tensor_input(graph, DITI_F32, planes - 2 * channels, clip, "mask");
        diti_fill_zeros(graph, share->program.control);
        diti_branch_put(share, graph, share->program.condition_mask, 2 * channels, references);
    }
    for (i = 0; i < shape->given_count && !diti_graph_failed(graph); i++) {
        diti_tensor latent = diti_given_encode(share, graph, i);
        if (i < DITI_BRANCH_CLIPS)
            diti_branch_put(share, graph, latent, i * channels, references);
        else
            diti_branch_put(share, graph, latent, 0, shape->given_count - 1 - i);
    }
    diti_broadcast(graph, &share->assignment.all, 0, share->program.control);
}

/* --- host inputs --- */

/* The picture that is a frame of the clip itself; NULL: none is. */
static const dit_image *diti_branch_end(const diti_job_request *request, uint32_t frame) {
    if (!request->start) return NULL;
    if (!frame) return &request->start[0];
    return request->start_count > 1 && frame + 1 == request->shape.frames ? &request->start[1] : NULL;
}

/* How white a frame's mask is, 0..255. */
static uint32_t diti_branch_white(const diti_job_request *request, uint32_t frame, uint32_t x, uint32_t y) {
    if (diti_branch_end(request, frame)) return 0;
    if (!request->mask) return 255;
    return diti_mask_grey(&request->mask[request->mask_count > 1 ? frame : 0], x, y);
}

static uint8_t diti_branch_part(const diti_job_request *request, uint32_t frame, uint32_t x, uint32_t y) {
    if (!diti_branch_end(request, frame) && !request->control_image) return DITI_BRANCH_GREY;
    return diti_branch_white(request, frame, x, y) > 127 ? DITI_BRANCH_ANEW : DITI_BRANCH_STAYS;
}

/* RGBA of all frames, and a picture of the same size that parts them. */
static dit_result diti_branch_write_clip(diti_share *share, dit_error *err) {
    const dit_job *job = share->job;
    const diti_job_request *request = &job->request;
    uint32_t width = request->shape.width, height = request->shape.height, frame, x, y;
    size_t line = (size_t)width * 4, bytes = line * height * request->shape.frames;
    uint8_t *pixels = (uint8_t *)diti_alloc(&job->env, bytes), *to = pixels;
    dit_result result;
    if (!pixels) return diti_fail_memory(err, "the clip that is followed");
    for (frame = 0; frame < request->shape.frames; frame++) {
        const dit_image *image = diti_branch_end(request, frame);
        if (!image && request->control_image) image = &request->control_image[frame];
        for (y = 0; y < height; y++, to += line)
            if (image)
                memcpy(to, image->rgba + y * (image->row_pitch ? image->row_pitch : line), line);
            else
                memset(to, 0, line);
    }
    result = diti_plan_write(share->program.plan, share->program.given_pixels[0], pixels, bytes, err);
    for (frame = 0, to = pixels; frame < request->shape.frames; frame++)
        for (y = 0; y < height; y++)
            for (x = 0; x < width; x++, to += 4) memset(to, diti_branch_part(request, frame, x, y), 4);
    if (result >= 0) result = diti_plan_write(share->program.plan, share->program.branch_parts, pixels, bytes, err);
    diti_free(&job->env, pixels);
    return result;
}

/* Plane dy * side + dx has pixel (side * y + dy, side * x + dx) of the mask at (y, x); a latent frame has that of the
   frame in the middle of those that it stands for, were all as long: torch's "nearest-exact". */
static dit_result diti_branch_write_mask(diti_share *share, dit_error *err) {
    const dit_job *job = share->job;
    const diti_job_request *request = &job->request;
    const diti_job_shape *shape = &request->shape;
    uint32_t width = request->latent_width, height = request->latent_height, frames = shape->latent_frames, frame,
             plane, side = diti_model_factor(job->model), x, y;
    size_t values;
    float *mask, *at, scale;
    dit_result result;
    frames -= shape->extra_frames;
    scale = (float)shape->frames / (float)frames;
    values = (size_t)side * side * frames * height * width;
    mask = at = (float *)diti_alloc_array(&job->env, values, sizeof *mask);
    if (!mask) return diti_fail_memory(err, "the mask");
    for (plane = 0; plane < side * side; plane++)
        for (frame = 0; frame < frames; frame++) {
            uint32_t from = (uint32_t)(((float)frame + 0.5f) * scale);
            for (y = 0; y < height; y++)
                for (x = 0; x < width; x++)
                    *at++ = (float)diti_branch_white(request, from < shape->frames ? from : shape->frames - 1,
                                                     x * side + plane % side, y * side + plane / side) /
                            255.0f;
        }
    result = diti_plan_write(share->program.plan, share->program.condition_mask, mask, values * sizeof *mask, err);
    diti_free(&job->env, mask);
    return result;
}

/* A place between two lines or columns, as torch's bilinear interpolation finds it. */
typedef struct diti_branch_place {
    uint32_t low, high;
    float part; /* the share that high has */
} diti_branch_place;

static diti_branch_place diti_branch_between(uint32_t i, uint32_t from, uint32_t to) {
    float at = ((float)i + 0.5f) * ((float)from / (float)to) - 0.5f;
    diti_branch_place place;
    if (at < 0) at = 0;
    place.low = (uint32_t)at < from ? (uint32_t)at : from - 1;
    place.high = place.low + 1 < from ? place.low + 1 : place.low;
    place.part = at - (float)place.low;
    return place;
}

/* A picture of bytes as floats in -1..1 in the middle of a white canvas, as large as it can be there. */
static void diti_branch_fit(const uint8_t *rgba, uint32_t width, uint32_t height, const diti_job_shape *shape,
                            float *canvas) {
    double by_height = (double)shape->height / height, by_width = (double)shape->width / width,
           scale = by_height < by_width ? by_height : by_width;
    uint32_t lines = (uint32_t)(height * scale), columns = (uint32_t)(width * scale), x, y, c;
    size_t i, values = (size_t)shape->width * shape->height * 3;
    for (i = 0; i < values; i++) canvas[i] = 1;
    canvas += ((size_t)((shape->height - lines) / 2) * shape->width + (shape->width - columns) / 2) * 3;
    for (y = 0; y < lines; y++) {
        diti_branch_place v = diti_branch_between(y, height, lines);
        for (x = 0; x < columns; x++) {
            diti_branch_place h = diti_branch_between(x, width, columns);
            const uint8_t *low = rgba + (size_t)v.low * width * 4, *high = rgba + (size_t)v.high * width * 4;
            for (c = 0; c < 3; c++) {
                float upper = (1 - h.part) * (float)low[4 * h.low + c] + h.part * (float)low[4 * h.high + c];
                float lower = (1 - h.part) * (float)high[4 * h.low + c] + h.part * (float)high[4 * h.high + c];
                canvas[((size_t)y * shape->width + x) * 3 + c] = ((1 - v.part) * upper + v.part * lower) / 127.5f - 1;
            }
        }
    }
}

/* Cut to whole latent elements by Pillow's resampling first, as the pipeline does it. */
static dit_result diti_branch_write_reference(diti_share *share, uint32_t index, const dit_image *image,
                                              dit_error *err) {
    const dit_job *job = share->job;
    const diti_job_shape *shape = &job->request.shape;
    uint32_t factor = diti_model_factor(job->model), width = image->width / factor * factor,
             height = image->height / factor * factor;
    size_t values = (size_t)shape->width * shape->height * 3;
    float *canvas = (float *)diti_alloc_array(&job->env, values, sizeof *canvas);
    diti_picture picture = DITI_ZERO;
    uint8_t *scaled = NULL;
    dit_result result = canvas ? DIT_OK : diti_fail_memory(err, "a reference");
    picture.rgba = image->rgba;
    picture.pitch = image->row_pitch;
    picture.width = image->width;
    picture.height = image->height;
    if (result >= 0) result = diti_resize(&job->env, &picture, width, height, DITI_WINDOW_LANCZOS, &scaled, err);
    if (result >= 0) {
        diti_branch_fit(scaled, width, height, shape, canvas);
        result = diti_plan_write(share->program.plan, share->program.given_pixels[index], canvas,
                                 values * sizeof *canvas, err);
    }
    diti_free(&job->env, scaled);
    diti_free(&job->env, canvas);
    return result;
}

DIT_INTERNAL dit_result diti_branch_write(diti_share *share, dit_error *err) {
    uint32_t i;
    if (share->assignment.share || !share->job->request.shape.branch) return DIT_OK;
    DITI_TRY(diti_branch_write_clip(share, err));
    DITI_TRY(diti_branch_write_mask(share, err));
    for (i = DITI_BRANCH_CLIPS; i < share->job->request.shape.given_count; i++)
        DITI_TRY(
            diti_branch_write_reference(share, i, share->job->request.reference_images[i - DITI_BRANCH_CLIPS], err));
    return DIT_OK;
}
