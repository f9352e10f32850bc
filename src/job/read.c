/* Pictures, latents and previews go back to the application. */
#include "job/job.h"

DITI_ONCE_BEGIN

static dit_result diti_read_check(dit_job *job, dit_read what, uint32_t image, uint32_t frame, const void *dst,
                                  dit_error *err) {
    dit_status status;
    dit_error why;
    if (!job || !dst) return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "dit_job_read: job and dst must be given");
    if ((frame >= job->request.shape.frames && frame != DIT_ALL_FRAMES) || image >= job->request.shape.image_count ||
        (int)what < DIT_READ_RGBA8 || (int)what > DIT_READ_SOUND_F32) {
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "dit_job_read: there is no such picture (image %u, frame %u, what %d)", image, frame,
                         (int)what);
    }
    if (job->shares[0]->assignment.share)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "dit_job_read: the picture is with rank 0");
    if (diti_job_verdict(job, &why) < 0) diti_run_fail(job, &why);
    dit_job_status(job, &status, &why);
    if (what == DIT_READ_PREVIEW) {
        if (!job->request.shape.preview_interval)
            return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "dit_job_read: the job was created without previews");
        if (status.preview_id > job->previews_lost) return DIT_OK;
        if (status.result < 0 && err) *err = why;
        return status.result == DIT_OK ? DIT_WORKING : status.result;
    }
    if (what == DIT_READ_SOUND_F32 && !job->request.shape.sound_samples)
        return diti_fail(
            err, DIT_ERROR_INVALID_ARGUMENT,
            "dit_job_read: there is no sound; dit_model_info.sound_rate tells whether the model makes any, "
            "and dit_job_desc.no_sound leaves it out");
    if (what == DIT_READ_RGB_F32 && job->request.shape.clip && !job->request.shape.float_frames)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "dit_job_read: floats of frames are kept where dit_job_desc.float_frames asks for them");
    if (status.result < 0 && err) *err = why;
    if (status.result == DIT_WORKING && what != DIT_READ_LATENT_F32 && what != DIT_READ_SOUND_F32 &&
        frame < status.frame)
        return DIT_OK;
    if (status.result != DIT_OK) return status.result;
    return job->recording ? diti_run_check_health(job) : DIT_OK;
}

static dit_result diti_read_need(size_t rows, size_t row_bytes, size_t *row_pitch, size_t size, dit_error *err) {
    size_t need;
    if (*row_pitch == 0) *row_pitch = row_bytes;
    if (*row_pitch < row_bytes || !diti_mul_size(rows - 1, *row_pitch, &need) || need > SIZE_MAX - row_bytes ||
        size < need + row_bytes) {
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "dit_job_read: %llu rows of %llu bytes do not fit into %llu bytes with a pitch of %llu",
                         (unsigned long long)rows, (unsigned long long)row_bytes, (unsigned long long)size,
                         (unsigned long long)*row_pitch);
    }
    return DIT_OK;
}

DITI_REGION_END

static void diti_read_unswap(uint8_t *pixels, size_t count) {
    size_t i;
    for (i = 0; i < count; i++, pixels += 4) {
        uint8_t blue = pixels[0];
        pixels[0] = pixels[2];
        pixels[2] = blue;
    }
}

/* Frames of a clip from host memory. */
static dit_result diti_read_frames(dit_job *job, dit_read what, uint32_t image, uint32_t frame, uint8_t *dst,
                                   size_t size, size_t row_pitch, dit_error *err) {
    uint32_t count = frame == DIT_ALL_FRAMES ? job->request.shape.frames : 1, i;
    size_t width = job->request.shape.width, height = job->request.shape.height, pixels = width * height, x, y, c;
    size_t texel = what == DIT_READ_RGBA8 ? 4 : 3 * sizeof(float);
    DITI_TRY(diti_read_need(count * height, width * texel, &row_pitch, size, err));
    for (i = 0; i < count; i++, dst += height * row_pitch) { /* no further than the need is checked */
        uint32_t number = frame == DIT_ALL_FRAMES ? i : frame;
        if (what == DIT_READ_RGBA8) {
            const uint8_t *from = diti_clip_bytes(job, image, number);
            for (y = 0; y < height; y++) memcpy(dst + y * row_pitch, from + y * width * 4, width * 4);
            for (y = 0; y < height && job->request.shape.swap; y++) diti_read_unswap(dst + y * row_pitch, width);
        } else {
            const float *from = diti_clip_floats(job, image, number);
            for (y = 0; y < height; y++)
                for (x = 0; x < width; x++)
                    for (c = 0; c < 3; c++)
                        memcpy(dst + y * row_pitch + (x * 3 + c) * sizeof(float), &from[c * pixels + y * width + x],
                               sizeof(float));
        }
    }
    return DIT_OK;
}

static dit_result diti_read_rgba(dit_job *job, diti_tensor rgba, uint8_t *dst, size_t size, size_t row_pitch,
                                 dit_error *err) {
    size_t width = job->request.shape.width, height = job->request.shape.height, y;
    uint8_t *pixels;
    dit_result result = diti_read_need(height, width * 4, &row_pitch, size, err);
    DITI_TRY(result);
    pixels = (uint8_t *)diti_alloc(&job->env, width * height * 4);
    if (!pixels) return diti_fail_memory(err, "reading the picture");
    result = diti_plan_read(job->shares[0]->program.plan, rgba, pixels, width * height * 4, err);
    if (result >= 0 && job->request.shape.swap) diti_read_unswap(pixels, width * height);
    for (y = 0; y < height && result >= 0; y++) memcpy(dst + y * row_pitch, pixels + y * width * 4, width * 4);
    diti_free(&job->env, pixels);
    return result;
}

static dit_result diti_read_rgb(dit_job *job, uint32_t image, uint8_t *dst, size_t size, size_t row_pitch,
                                dit_error *err) {
    const diti_program *program = &job->shares[0]->program;
    size_t width = job->request.shape.width, height = job->request.shape.height, pixels = width * height, x, y, c;
    dit_result result = diti_read_need(height, width * 3 * sizeof(float), &row_pitch, size, err);
    float *planes;
    DITI_TRY(result);
    planes = (float *)diti_alloc(&job->env, pixels * 3 * sizeof *planes);
    if (!planes) return diti_fail_memory(err, "reading the picture");
    result = diti_plan_read(program->plan, program->rgb[image], planes, pixels * 3 * sizeof *planes, err);
    for (y = 0; y < height && result >= 0; y++) {
        for (x = 0; x < width; x++) {
            for (c = 0; c < 3; c++)
                memcpy(dst + y * row_pitch + (x * 3 + c) * sizeof(float), &planes[c * pixels + y * width + x],
                       sizeof(float));
        }
    }
    diti_free(&job->env, planes);
    return result;
}

DITI_ONCE_BEGIN

static dit_result diti_read_latent(dit_job *job, uint32_t image, void *dst, size_t size, dit_error *err) {
    const diti_program *program = &job->shares[0]->program;
    size_t need = job->model->transformer->traits.latent_channels * diti_request_plane(&job->request) * sizeof(float);
    if (size < need)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "dit_job_read: the latent needs %llu bytes, %llu were given",
                         (unsigned long long)need, (unsigned long long)size);
    return diti_plan_read(program->plan, program->latents[image], dst, need, err);
}

static dit_result diti_read_sound(dit_job *job, uint32_t image, void *dst, size_t size, dit_error *err) {
    const diti_program *program = &job->shares[0]->program;
    size_t need = (size_t)job->request.shape.sound_samples * job->model->info.sound_channels * sizeof(float);
    if (size < need)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "dit_job_read: the sound needs %llu bytes, %llu were given",
                         (unsigned long long)need, (unsigned long long)size);
    return diti_plan_read(program->plan, program->sounds[image], dst, need, err);
}

DIT_API dit_result dit_job_read(dit_job *job, dit_read what, uint32_t image, uint32_t frame, void *dst, size_t size,
                                size_t row_pitch, dit_error *err) {
    const diti_program *program;
    dit_result result = diti_read_check(job, what, image, frame, dst, err);
    if (result != DIT_OK) return result;
    program = &job->shares[0]->program;
    if (job->request.shape.clip && (what == DIT_READ_RGBA8 || what == DIT_READ_RGB_F32))
        return diti_read_frames(job, what, image, frame, (uint8_t *)dst, size, row_pitch, err);
    switch (what) {
    case DIT_READ_RGBA8: return diti_read_rgba(job, program->rgba[image], (uint8_t *)dst, size, row_pitch, err);
    case DIT_READ_RGB_F32: return diti_read_rgb(job, image, (uint8_t *)dst, size, row_pitch, err);
    case DIT_READ_LATENT_F32: return diti_read_latent(job, image, dst, size, err);
    case DIT_READ_SOUND_F32: return diti_read_sound(job, image, dst, size, err);
    case DIT_READ_PREVIEW: return diti_read_rgba(job, program->preview, (uint8_t *)dst, size, row_pitch, err);
    }
    return DIT_ERROR_INVALID_ARGUMENT;
}

DITI_REGION_END
