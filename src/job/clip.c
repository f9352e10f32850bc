/* Clips: the numbers of frames that a model and its autoencoder can make, and what a request says of them. */
#include "job/job.h"

DIT_INTERNAL bool diti_model_makes_clips(const dit_model *model) {
    return model->transformer && model->transformer->traits.default_frames > 0;
}

/* Latent frames of a clip; 0: there are no clips of so many frames. Without an autoencoder, in a dry run, a latent
   frame counts as a frame. */
static uint32_t diti_clip_latent_frames(const dit_model *model, uint32_t frames) {
    uint32_t latent = model->vae ? diti_vae_latent_frames(model->vae, frames, false, NULL) : frames;
    return latent < model->transformer->traits.least_frames ? 0 : latent;
}

/* The longest clip of so many latent frames. */
static uint32_t diti_clip_frames_of(const dit_model *model, uint32_t latent_frames) {
    uint32_t most = latent_frames * (model->vae ? diti_vae_frame_factor(model->vae) : 1), frames;
    for (frames = most; frames > 1 && diti_clip_latent_frames(model, frames) != latent_frames;) frames--;
    return frames;
}

DIT_INTERNAL void diti_model_describe_frames(dit_model *model) {
    const diti_model_traits *traits = &model->transformer->traits;
    dit_model_info *info = &model->info;
    if (!traits->default_frames) return;
    info->default_frames = diti_clip_frames_of(model, traits->default_frames);
    info->default_latent_frames = diti_clip_latent_frames(model, info->default_frames);
    info->default_fps = traits->default_fps;
    info->frame_multiple = model->vae ? diti_vae_frame_factor(model->vae) : 1;
    info->wants_image = traits->condition_channels > 0;
    info->wants_last_image = traits->pictures_seen > 1;
    info->takes_last_image = traits->mask_channels > 0 || traits->control_channels > 0 || traits->anchors;
    info->takes_control = traits->control_channels > 0;
    info->holds_frames = traits->frame_steps;
    info->takes_image =
        traits->fixes_first || traits->anchors || info->takes_control || (info->wants_image && !info->wants_last_image);
}

DIT_API uint32_t dit_model_frames(const dit_model *model, uint32_t frames) {
    uint32_t below, above;
    if (!model || !diti_model_makes_clips(model)) return 1;
    if (!frames) return model->info.default_frames;
    if (frames > DITI_CLIP_MOST_FRAMES) frames = DITI_CLIP_MOST_FRAMES;
    for (below = frames; below > 1 && !diti_clip_latent_frames(model, below);) below--;
    if (!diti_clip_latent_frames(model, below)) below = 0; /* the shortest clip is longer */
    for (above = frames;
         (!below || above < 2 * frames) && above < DITI_CLIP_MOST_FRAMES && !diti_clip_latent_frames(model, above);)
        above++;
    return !below ? above : frames - below <= above - frames ? below : above;
}

/* Frames that a clip has in common with the one before it: those of its first latent frames. */
DIT_API uint32_t dit_job_overlap(const dit_job *job) {
    return job && job->request.shape.loop_count > 1 ? diti_clip_frames_of(job->model, job->request.shape.loop_frames)
                                                    : 0;
}

/* --- requests --- */

/* frame_count, and the latent frames that it needs: whole patches, those that are too many being in front; those of its
   sound are behind. */
DIT_INTERNAL dit_result diti_job_request_clip(const dit_model *model, const dit_job_desc *desc, diti_job_request *out,
                                              dit_error *err) {
    uint32_t frames = desc->frame_count ? desc->frame_count : model->info.default_frames, latent, deep, nearest;
    out->shape.frames = out->shape.latent_frames = 1;
    out->shape.clip = diti_model_makes_clips(model);
    if (!out->shape.clip && (desc->frame_count > 1 || desc->init_count > 1 || desc->fps != 0 || desc->float_frames))
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "dit_job_desc: this model makes still images; frame_count and init_count must be 0 or 1, fps "
                         "and float_frames 0");
    if (!out->shape.clip) return DIT_OK;
    nearest = dit_model_frames(model, frames);
    if (nearest != frames)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "frame_count %u is not possible with this model; the nearest is %u", frames, nearest);
    if (!(desc->fps >= 0 && desc->fps <= 1000))
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "fps is %g; it must be 0 (the model's default) to 1000",
                         (double)desc->fps);
    if (desc->resume_on_loss)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "dit_job_desc: clips do not go on without a device that fails; resume_on_loss must be false");
    latent = diti_clip_latent_frames(model, frames);
    deep = model->transformer->traits.patch_frames ? model->transformer->traits.patch_frames : 1;
    out->shape.frames = frames;
    out->shape.extra_frames = (deep - latent % deep) % deep;
    out->shape.sound_tokens = diti_sound_tokens(&model->transformer->traits, frames, desc->fps);
    out->shape.sound_frames =
        diti_sound_frames(&model->transformer->traits, frames, desc->fps, diti_request_positions(model, out));
    out->shape.latent_frames = latent + out->shape.extra_frames + out->shape.sound_frames;
    if (model->vocoder && !desc->no_sound) {
        out->shape.sound_samples = diti_sound_samples(model->vocoder, out->shape.sound_tokens);
        if (!out->shape.sound_samples && out->shape.sound_tokens)
            return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                             "dit_job_desc: the sound of %u frames is too long; set no_sound, or make fewer", frames);
    }
    out->shape.float_frames = desc->float_frames || desc->loop_count > 1;
    out->fps = desc->fps;
    return DIT_OK;
}

DIT_INTERNAL uint32_t diti_shape_pictures(const diti_job_shape *shape) {
    return shape->latent_frames - shape->extra_frames - shape->sound_frames;
}

DIT_INTERNAL size_t diti_request_plane(const diti_job_request *request) {
    return (size_t)request->shape.latent_frames * request->latent_height * request->latent_width;
}

DIT_INTERNAL VkDeviceSize diti_clip_host_bytes(const diti_job_shape *shape) {
    VkDeviceSize pixels = (VkDeviceSize)shape->image_count * shape->frames * shape->width * shape->height;
    return shape->clip ? pixels * (shape->float_frames ? 16 : 4) : 0;
}

DIT_INTERNAL uint32_t diti_request_positions(const dit_model *model, const diti_job_request *request) {
    diti_step_desc step = DITI_ZERO;
    diti_token_grid grid;
    step.height = request->latent_height;
    step.width = request->latent_width;
    grid = diti_transformer_grid(model->transformer, &step);
    return grid.rows * grid.columns;
}
