/* Noise, as the original pipelines draw it: a stream of normal numbers for each picture or clip, and the order in which
   it is used. */
#include "job/job.h"

/* --- the stream --- */

static void diti_noise_begin(diti_noise_source *source, dit_rng rng, uint64_t seed) {
    memset(source, 0, sizeof *source);
    source->philox = rng == DIT_RNG_PHILOX;
    source->seed = seed;
    if (!source->philox) diti_random_seed(&source->random, seed);
}

/* One call of torch.randn. */
static void diti_noise_draw(diti_noise_source *source, float *out, size_t count) {
    if (source->philox)
        diti_philox_normal(source->seed, source->draws, out, count);
    else
        diti_random_normal(&source->random, out, count);
    source->draws++;
}

/* --- latents --- */

/* Planes [C, frames, area] of what is drawn [frames, C, area]; in place of others they are copied. The draws may
   have fewer frames than the planes. */
static void diti_noise_place(const dit_model *model, const diti_job_request *request, uint32_t frames,
                             const float *drawn, float *out) {
    uint32_t channels = model->transformer->traits.latent_channels, all = request->shape.latent_frames, f, c;
    size_t area = (size_t)request->latent_width * request->latent_height;
    bool by_frame = model->transformer->traits.noise_by_frame;
    for (c = 0; c < channels; c++)
        for (f = 0; f < frames; f++)
            memcpy(out + ((size_t)c * all + f) * area,
                   drawn + (by_frame ? (size_t)f * channels + c : (size_t)c * frames + f) * area, area * sizeof *out);
}

/* Planes of what is drawn, [area, C] of some models. */
static void diti_noise_place_drawn(const dit_model *model, const diti_job_request *request, uint32_t frames,
                                   const float *drawn, float *out) {
    uint32_t channels = model->transformer->traits.latent_channels;
    size_t plane = diti_request_plane(request), i;
    if (!model->transformer->traits.noise_by_token) {
        diti_noise_place(model, request, frames, drawn, out);
        return;
    }
    for (i = 0; i < plane * channels; i++) out[i % channels * plane + i / channels] = drawn[i];
}

/* --- frames that are given --- */

/* Draws [channels, frames, area] become rows [frames * area, channels]. */
static void diti_noise_rows(const float *drawn, uint32_t channels, size_t pixels, float *out) {
    uint32_t c;
    size_t i;
    for (i = 0; i < pixels; i++)
        for (c = 0; c < channels; c++) out[i * channels + c] = drawn[c * pixels + i];
}

/* The draws of an encoder of pictures, for up to four at a time, [n, channels, area]. */
static void diti_noise_pictures(diti_noise_source *source, uint32_t frames, uint32_t channels, size_t area,
                                float *scratch, float *out) {
    uint32_t first, count, i;
    for (first = 0; first < frames; first += count) {
        count = frames - first < DITI_VAE_PICTURES ? frames - first : DITI_VAE_PICTURES;
        diti_noise_draw(source, scratch, count * channels * area);
        for (i = 0; i < count; i++)
            diti_noise_rows(scratch + i * channels * area, channels, area, out + (first + i) * channels * area);
    }
}

/* Draws the noise that an encoder of clips takes at its end and, where it draws between its halves, too, that of each
   picture before. Draws are for all frames; those of frames that are not encoded are left out of the result. */
static void diti_noise_given(diti_noise_source *source, const dit_model *model, const diti_job_request *request,
                             const diti_given *given, float *scratch, float *inside, float *last) {
    uint32_t channels = model->transformer->traits.latent_channels, index;
    uint32_t frames = given->skipped_frames + given->frames, latents = given->skipped + given->latent_frames;
    size_t area = (size_t)request->latent_width * request->latent_height, row = area * channels;
    float *drawn = scratch + (size_t)DITI_VAE_PICTURES * row;
    diti_vae_clip clip;
    diti_vae_chunk chunk;
    memset(&clip, 0, sizeof clip);
    clip.vae = model->vae;
    clip.encode = true;
    clip.pixels.frames = frames;
    clip.latent.frames = latents;
    if (diti_vae_is_of_pictures(model->vae)) {
        diti_noise_pictures(source, frames, channels, area, scratch, drawn);
        memcpy(last, drawn + given->skipped * row, given->latent_frames * row * sizeof *last);
        return;
    }
    if (inside) {
        diti_noise_pictures(source, frames, channels, area, scratch, drawn);
        memcpy(inside, drawn + given->skipped_frames * row, given->frames * row * sizeof *inside);
        for (index = 0; diti_vae_clip_chunk(&clip, index, &chunk); index++) {
            diti_noise_draw(source, drawn, chunk.out_frames * row);
            if (chunk.out_first >= given->skipped)
                diti_noise_rows(drawn, channels, chunk.out_frames * area,
                                last + (chunk.out_first - given->skipped) * row);
        }
        return;
    }
    diti_noise_draw(source, drawn, latents * row);
    diti_noise_rows(drawn, channels, latents * area, last);
}

DIT_INTERNAL size_t diti_given_noise_values(const dit_model *model, const diti_job_request *request,
                                            const diti_given *given, bool inside) {
    size_t row = (size_t)model->transformer->traits.latent_channels * request->latent_width * request->latent_height;
    if (inside) return diti_vae_draws_inside(model->vae) ? given->frames * row : 0;
    return given->latent_frames * row;
}

DIT_INTERNAL uint32_t diti_padded(uint32_t columns) { return columns == 1 ? 1 : (columns + 3u) & ~3u; }

DIT_INTERNAL size_t diti_first_noise_columns(const dit_model *model, const diti_job_request *request) {
    return (size_t)model->transformer->traits.latent_channels *
           diti_padded(request->latent_width * request->latent_height);
}

/* Pictures at the ends of a clip get theirs from the clip's source, and are drawn by a seed that is always the same, as
   in diffusers' encode_vae_condition. */
#define DITI_ANCHOR_SEED 42u
static dit_result diti_noise_anchors(const dit_model *model, const diti_env *env, diti_job_request *out,
                                     dit_error *err) {
    uint32_t channels = model->transformer->traits.latent_channels, i;
    size_t area = (size_t)out->latent_width * out->latent_height, values = channels * area, k;
    float *drawn = (float *)diti_alloc_array(env, values, sizeof *drawn), *to;
    diti_noise_source source;
    to = out->given_noise = (float *)diti_alloc_array(env, 2 * values * out->shape.reference_count, sizeof *to);
    for (i = 0; i < out->shape.reference_count && drawn && to; i++, to += 2 * values) {
        diti_noise_begin(&source, DIT_RNG_DEFAULT, DITI_ANCHOR_SEED);
        diti_noise_draw(&source, drawn, values);
        diti_noise_rows(drawn, channels, area, to);
        diti_noise_draw(&out->sources[0], to + values, values);
        for (k = values; k < 2 * values; k++) to[k] *= model->transformer->traits.anchor_noise;
    }
    diti_free(env, drawn);
    return drawn && out->given_noise ? DIT_OK : diti_fail_memory(err, "the noise");
}

/* Noise of all that is given, one after the other. References keep what was drawn for them in the job's first run. */
static dit_result diti_noise_all_given(const dit_model *model, const diti_env *env, const diti_job_request *before,
                                       diti_job_request *out, dit_error *err) {
    size_t all = 0, most = 0, at = 0, row, kept = 0;
    float *scratch = NULL;
    uint32_t i;
    if (model->transformer->traits.anchors && out->shape.reference_count)
        return diti_noise_anchors(model, env, out, err);
    row = (size_t)model->transformer->traits.latent_channels * out->latent_width * out->latent_height;
    for (i = 0; i < out->shape.given_count; i++) {
        const diti_given *given = &out->shape.given[i];
        size_t frames = given->skipped_frames + given->frames;
        all += diti_given_noise_values(model, out, given, true) + diti_given_noise_values(model, out, given, false);
        if (!given->continues) kept = all;
        if (frames > most) most = frames;
    }
    if (!all) return DIT_OK;
    out->given_noise = (float *)diti_alloc_array(env, all, sizeof *out->given_noise);
    scratch = (float *)diti_alloc_array(env, row * (most + DITI_VAE_PICTURES), sizeof *scratch);
    if (!out->given_noise || !scratch) {
        diti_free(env, scratch);
        return diti_fail_memory(err, "the noise");
    }
    for (i = 0; i < out->shape.given_count; i++) {
        const diti_given *given = &out->shape.given[i];
        size_t inside = diti_given_noise_values(model, out, given, true),
               last = diti_given_noise_values(model, out, given, false);
        if (model->transformer->traits.means)
            memset(out->given_noise + at, 0, (inside + last) * sizeof *out->given_noise);
        else if (!before || given->continues)
            diti_noise_given(&out->sources[0], model, out, given, scratch, inside ? out->given_noise + at : NULL,
                             out->given_noise + at + inside);
        at += inside + last;
    }
    if (before && kept) memcpy(out->given_noise, before->given_noise, kept * sizeof *out->given_noise);
    diti_free(env, scratch);
    return DIT_OK;
}

/* --- a request's noise --- */

/* How often the noise of a step is drawn at a time, and whether noise for frames that are given is drawn before it. */
static size_t diti_noise_copies(const dit_model *model, const diti_job_request *request) {
    return model->transformer->traits.frame_steps && request->schedule.flow_begin <= 0 ? 2 : 1;
}

static dit_result diti_noise_alloc(const dit_model *model, const diti_env *env, size_t values, diti_job_request *out,
                                   dit_error *err) {
    size_t all = values * out->shape.image_count, steps = out->shape.steps;
    out->noise = (float *)diti_alloc_array(env, all, sizeof *out->noise);
    if (out->shape.draws_start) out->start_noise = (float *)diti_alloc_array(env, all, sizeof *out->start_noise);
    if (out->shape.stochastic) out->step_noise = (float *)diti_alloc_array(env, all * steps, sizeof *out->step_noise);
    if (out->shape.hold_count) out->renoise = (float *)diti_alloc_array(env, all * steps, sizeof *out->renoise);
    if (out->shape.noisy_first)
        out->first_noise = (float *)diti_alloc_array(env, diti_first_noise_columns(model, out) * steps, sizeof(float));
    out->sources = (diti_noise_source *)diti_alloc_array(env, out->shape.image_count, sizeof *out->sources);
    if (out->noise && out->sources && (!out->shape.draws_start || out->start_noise) &&
        (!out->shape.stochastic || out->step_noise) && (!out->shape.hold_count || out->renoise) &&
        (!out->shape.noisy_first || out->first_noise))
        return DIT_OK;
    return diti_fail_memory(err, "the noise");
}

/* Values of a latent that are the sound's. */
static size_t diti_noise_sound(const dit_model *model, const diti_job_request *request) {
    return (size_t)model->transformer->traits.latent_channels * request->shape.sound_frames * request->latent_width *
           request->latent_height;
}

/* The sound's is drawn behind the pictures', [channels, tokens, lines of the spectrogram]: a token has the channels one
   after the other. */
static void diti_noise_place_sound(const dit_model *model, diti_noise_source *source, float *scratch,
                                   const diti_job_request *request, float *out) {
    const diti_model_traits *traits = &model->transformer->traits;
    size_t plane = diti_request_plane(request), area = (size_t)request->latent_width * request->latent_height,
           first = plane - request->shape.sound_frames * area, tokens = request->shape.sound_tokens, token;
    uint32_t lines = traits->latent_channels / traits->sound_channels, c;
    diti_noise_draw(source, scratch, tokens * traits->latent_channels);
    for (c = 0; c < traits->latent_channels; c++)
        for (token = 0; token < plane - first; token++)
            out[c * plane + first + token] =
                token < tokens ? scratch[(c / lines * tokens + token) * lines + c % lines] : 0;
}

/* Or it is drawn token by token, each of which has the first values of a patch. */
static void diti_noise_place_tokens(const dit_model *model, diti_noise_source *source, float *scratch,
                                    const diti_job_request *request, float *out) {
    const diti_model_traits *traits = &model->transformer->traits;
    uint32_t patch = traits->patch, columns = traits->sound_columns, width = request->latent_width,
             area = width * request->latent_height, plane = area / (patch * patch), across = width / patch;
    size_t all = diti_request_plane(request), first = all - (size_t)request->shape.sound_frames * area, token, c;
    diti_noise_draw(source, scratch, (size_t)request->shape.sound_tokens * columns);
    for (c = 0; c < traits->latent_channels; c++) memset(out + c * all + first, 0, (all - first) * sizeof *out);
    for (token = 0; token < request->shape.sound_tokens; token++)
        for (c = 0; c < columns; c++) {
            size_t y = token % plane / across * patch + c / patch % patch, x = token % across * patch + c % patch;
            out[c / (patch * patch) * all + first + token / plane * area + y * width + x] =
                scratch[token * columns + c];
        }
}

static void diti_noise_latents(const dit_model *model, uint32_t image, size_t values, float *scratch,
                               diti_job_request *out) {
    diti_noise_source *source = &out->sources[image];
    uint32_t nets = model->transformer->traits.draws_control ? out->shape.controls : 0;
    if (out->shape.repaints || out->shape.follows) /* the original draws the latent of the picture beside it first */
        diti_noise_draw(source, scratch, values);
    for (; nets; nets &= nets - 1) /* the original draws latents of control nets' pictures, too */
        diti_noise_draw(source, scratch, values);
    if (out->start_noise) diti_noise_draw(source, out->start_noise + image * values, values);
    diti_noise_draw(source, scratch, values - diti_noise_sound(model, out));
    diti_noise_place_drawn(model, out, out->shape.latent_frames - out->shape.sound_frames, scratch,
                           out->noise + image * values);
    if (out->shape.sound_frames && model->transformer->traits.sound_columns)
        diti_noise_place_tokens(model, source, scratch, out, out->noise + image * values);
    else if (out->shape.sound_frames)
        diti_noise_place_sound(model, source, scratch, out, out->noise + image * values);
}

/* The noise of a given first frame: the first rows of what is drawn for all tokens, [frames * area, C]. */
static void diti_noise_first(const dit_model *model, uint32_t step, size_t values, float *scratch,
                             diti_job_request *out) {
    uint32_t channels = model->transformer->traits.latent_channels, c, i;
    uint32_t area = out->latent_width * out->latent_height, room = diti_padded(area);
    float time = out->schedule.steps[step].timestep / 1000.0f,
          *to = out->first_noise + step * diti_first_noise_columns(model, out);
    diti_noise_draw(&out->sources[0], scratch, values);
    for (c = 0; c < channels; c++, to += room)
        for (i = 0; i < room; i++)
            to[i] = i < area ? out->first_scale * scratch[(size_t)i * channels + c] * (time * time) : 0;
}

static void diti_noise_steps(const dit_model *model, uint32_t image, size_t values, float *scratch,
                             diti_job_request *out) {
    diti_noise_source *source = &out->sources[image];
    size_t all = values * out->shape.image_count, copies = diti_noise_copies(model, out);
    uint32_t step, i;
    if (!out->shape.stochastic && !out->shape.hold_count && !out->first_noise && out->shape.loop_count < 2) return;
    for (step = 0; step < out->shape.steps; step++) {
        if (out->first_noise) diti_noise_first(model, step, values, scratch, out);
        if (out->first_noise && !out->shape.stochastic) continue;
        if (model->transformer->traits.draws_frames) {
            diti_noise_draw(source, scratch, copies * values);
            if (out->renoise) memcpy(out->renoise + step * all + image * values, scratch, values * sizeof *scratch);
        }
        for (i = 0; i < out->schedule.steps[step].draws; i++) diti_noise_draw(source, scratch, copies * values);
        if (!out->shape.stochastic) continue;
        if (out->schedule.steps[step].draws) /* the last of a step's draws is used */
            diti_noise_place_drawn(model, out, out->shape.latent_frames, scratch,
                                   out->step_noise + step * all + image * values);
        else
            memset(out->step_noise + step * all + image * values, 0, values * sizeof *scratch);
    }
}

/* LTX-Video's decoder takes noise behind the steps: for every latent, which the pipeline mixes in, then planes. */
static dit_result diti_noise_decoder(const dit_model *model, const diti_env *env, diti_job_request *out,
                                     dit_error *err) {
    const diti_vae_traits *traits = model->vae ? diti_vae_get_traits(model->vae) : NULL;
    diti_video latent = {out->shape.latent_frames, out->latent_height, out->latent_width};
    uint32_t channels = model->transformer->traits.latent_channels, image, plane, count;
    size_t rows = diti_request_plane(out), values = rows * channels, i;
    float *scratch;
    if (!traits || !traits->timed) return DIT_OK;
    for (plane = 0; (count = diti_vae_noise_plane(model->vae, &latent, plane)) != 0; plane++)
        out->plane_values += count;
    scratch = (float *)diti_alloc_array(env, values, sizeof *scratch);
    out->decode_noise = (float *)diti_alloc_array(env, values * out->shape.image_count, sizeof *out->decode_noise);
    if (out->plane_values)
        out->plane_noise = (float *)diti_alloc_array(env, out->plane_values, sizeof *out->plane_noise);
    if (!scratch || !out->decode_noise || (out->plane_values && !out->plane_noise)) {
        diti_free(env, scratch);
        return diti_fail_memory(err, "the noise");
    }
    for (image = 0; image < out->shape.image_count; image++) {
        float *own = out->decode_noise + image * values;
        diti_noise_draw(&out->sources[image], scratch, values);
        diti_noise_rows(scratch, channels, rows, own);
        for (i = 0; i < values; i++) own[i] *= traits->decode_noise;
    }
    diti_free(env, scratch);
    for (plane = 0, i = 0; (count = diti_vae_noise_plane(model->vae, &latent, plane)) != 0; plane++, i += count)
        diti_noise_draw(&out->sources[0], out->plane_noise + i, count);
    return DIT_OK;
}

DIT_INTERNAL dit_result diti_job_request_noise(const dit_model *model, const diti_env *env,
                                               const diti_job_request *before, diti_job_request *out, dit_error *err) {
    const diti_model_traits *traits = &model->transformer->traits;
    size_t values = traits->latent_channels * diti_request_plane(out);
    bool given_last = out->shape.fixes && (traits->picture_noise > 0 || traits->given_last);
    dit_result result = DIT_OK;
    float *scratch;
    uint32_t image;
    DITI_TRY(diti_noise_alloc(model, env, values, out, err));
    scratch = (float *)diti_alloc_array(env, diti_noise_copies(model, out) * values, sizeof *scratch);
    if (!scratch) return diti_fail_memory(err, "the noise");
    for (image = 0; image < out->shape.image_count; image++) {
        if (before)
            out->sources[image] = before->sources[image];
        else
            diti_noise_begin(&out->sources[image], out->rng, out->seed + image);
    }
    if (!given_last) result = diti_noise_all_given(model, env, before, out, err);
    for (image = 0; image < out->shape.image_count && result >= 0; image++)
        diti_noise_latents(model, image, values, scratch, out);
    if (given_last) result = diti_noise_all_given(model, env, before, out, err);
    for (image = 0; image < out->shape.image_count && result >= 0; image++)
        diti_noise_steps(model, image, values, scratch, out);
    if (result >= 0) result = diti_noise_decoder(model, env, out, err);
    diti_free(env, scratch);
    for (image = 0; image < out->shape.image_count && result >= 0 && out->noise_input; image++)
        diti_noise_place(model, out, out->shape.latent_frames, out->noise_input + image * values,
                         out->noise + image * values);
    diti_free(env, out->noise_input);
    out->noise_input = NULL;
    return result;
}
