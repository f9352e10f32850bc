/* Clips: the numbers of frames that a model and its autoencoder can make, and what a request says of them. */
#include "job/job.h"

#define DITI_CLIP_MOST_FRAMES 65536u

DIT_INTERNAL bool diti_model_makes_clips(const dit_model *model) {
    return model->transformer && model->transformer->traits.default_frames > 0;
}

/* Latent frames of a clip; 0: there are no clips of so many frames. Without an autoencoder, in a dry run, a latent
   frame counts as a frame. */
static uint32_t diti_clip_latent_frames(const dit_model *model, uint32_t frames) {
    return model->vae ? diti_vae_latent_frames(model->vae, frames, false, NULL) : frames;
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
    info->default_fps = traits->default_fps;
    info->frame_multiple = model->vae ? diti_vae_frame_factor(model->vae) : 1;
    info->wants_image = traits->condition_channels > 0;
    info->holds_frames = traits->frame_steps;
}

DIT_API uint32_t dit_model_frames(const dit_model *model, uint32_t frames) {
    uint32_t below, above;
    if (!model || !diti_model_makes_clips(model)) return 1;
    if (!frames) return model->info.default_frames;
    if (frames > DITI_CLIP_MOST_FRAMES) frames = DITI_CLIP_MOST_FRAMES;
    for (below = frames; below > 1 && !diti_clip_latent_frames(model, below);) below--;
    for (above = frames; above < 2 * frames && !diti_clip_latent_frames(model, above);) above++;
    return frames - below <= above - frames ? below : above;
}

/* Frames that a clip has in common with the one before it: those of its first latent frames. */
DIT_API uint32_t dit_job_overlap(const dit_job *job) {
    return job && job->request.shape.loop_count > 1
               ? diti_clip_frames_of(job->model, job->request.shape.loop_frames)
               : 0;
}
