/* Jobs: created once with everything they need, then run slice by slice. */
#include "job/job.h"

/* --- creation --- */

/* Back to the start of a run. */
static void diti_job_rewind(dit_job *job) {
    uint32_t i;
    for (i = 0; i < job->share_count; i++) {
        diti_share *share = job->shares[i];
        memset(&share->run, 0, sizeof share->run);
        share->run.total_us = diti_share_predict_us(share);
    }
    job->begun = job->loading = false;
    job->still_us = 0;
    memset(&job->before, 0, sizeof job->before);
    diti_snapshot_forget(job);
    diti_atomic_store(&job->cancel, 0);
    diti_lock(&job->status_lock);
    memset(&job->status, 0, sizeof job->status);
    memset(&job->error, 0, sizeof job->error);
    job->status.step_count = job->request.shape.steps;
    job->status.frame_count = job->request.shape.frames;
    job->status.result = DIT_WORKING;
    job->recording = false;
    diti_unlock(&job->status_lock);
    diti_reruns_free(job);
}

static dit_result diti_job_build(dit_job *job, const dit_job_desc *desc, dit_error *err) {
    diti_telling telling;
    dit_progress progress = desc->progress.func ? diti_beats_progress(job->context->peers, &desc->progress, &telling)
                                                : job->context->progress;
    dit_result result = diti_share_plan(job->shares[0], &progress, err);
    if (result == DIT_OK) result = diti_snapshot_stand_in(job, &progress, err);
    if (result == DIT_OK) result = diti_job_add_shares(job, &progress, err);
    if (result == DIT_OK) result = diti_job_images_create(job, err);
    if (result == DIT_OK) result = diti_job_record_copies(job, err);
    if (result == DIT_OK) result = diti_snapshot_create(job, err);
    if (result == DIT_OK) result = diti_state_take(job, desc, err);
    if (result == DIT_OK) result = diti_job_write_inputs(job, err);
    if (result == DIT_OK) diti_job_rewind(job);
    if (result == DIT_OK) diti_state_set_out(job);
    return result;
}

DIT_INTERNAL dit_result diti_job_check_guards(const dit_job_desc *desc, dit_error *err) {
    if (!desc->_zero_begin && !desc->_zero_end) return DIT_OK;
    return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                     "dit_job_desc: the guard members are not zero; initialise the struct with {0}");
}

static dit_result diti_job_check(const dit_context *ctx, const dit_job_desc *desc, dit_error *err) {
    if (diti_job_check_guards(desc, err) < 0) return DIT_ERROR_INVALID_ARGUMENT;
    if (desc->model && !desc->model->device)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "dit_job_desc: the model was loaded as a dry run and makes no jobs");
    if (desc->model && desc->model->device != ctx->device)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "dit_job_desc: the model was loaded with another context");
    return DIT_OK;
}

DIT_API dit_result dit_job_create(dit_context *ctx, const dit_job_desc *desc, dit_job **out, dit_error *err) {
    dit_job *job;
    diti_peers *peers;
    dit_result result;
    if (!out) return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "dit_job_create: out is NULL");
    *out = NULL;
    if (!ctx || !desc) return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "dit_job_create: ctx and desc must be given");
    DITI_TRY(diti_job_check(ctx, desc, err));
    diti_retired_collect(ctx);
    peers = desc->split ? ctx->peers : NULL;
    diti_beats_prepare(ctx->peers);
    job = (dit_job *)diti_alloc_zero(&ctx->env, sizeof *job);
    if (!job) return diti_fail_memory(err, "the job");
    job->env = ctx->env;
    job->context = ctx;
    job->model = desc->model;
    job->target = desc->target;
    if (peers) {
        job->number = diti_beats_number(peers);
        diti_beats_aim(peers, job->number, 0);
    }
    result = diti_job_request_make(desc->model, &job->env, desc, NULL, &job->request, err);
    if (result == DIT_OK) result = diti_job_request_noise(desc->model, &job->env, NULL, &job->request, err);
    if (result != DIT_OK && peers && diti_starts_with(desc->split, "auto")) diti_job_choose_nothing(job);
    if (result == DIT_OK) result = diti_job_divide(job, ctx, err);
    if (peers) {
        dit_result told = diti_job_tell_terms(job, result == DIT_OK, result == DIT_OK ? err : NULL);
        if (result == DIT_OK) result = told;
    }
    if (result == DIT_OK) result = diti_job_build(job, desc, err);
    if (peers)
        diti_beats_made(peers, job->number, 0, job->joins, result == DIT_OK ? DITI_LEAVING_DONE : DITI_LEAVING_FAILED);
    if (result != DIT_OK) {
        dit_job_destroy(job);
        return result;
    }
    diti_job_publish(job);
    *out = job;
    return DIT_OK;
}

DIT_API dit_result dit_job_warm_up(dit_job *job, dit_error *err) {
    dit_result result = DIT_OK;
    uint32_t i;
    if (!job) return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "dit_job_warm_up: job is NULL");
    if (job->begun)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "dit_job_warm_up: the job's run has begun; warm it up before, or after dit_job_restart");
    for (i = 0; i < job->share_count && result >= 0; i++) result = diti_plan_warm(job->shares[i]->program.plan, err);
    diti_job_publish(job);
    return result;
}

/* --- restart --- */

static dit_result diti_job_same_shape(const dit_job *job, const dit_job_desc *desc, const diti_job_request *request,
                                      dit_error *err) {
    const diti_job_shape *now = &request->shape, *then = &job->request.shape;
    const char *what = NULL;
    if (desc->model != job->model)
        what = "model";
    else if (now->swap != then->swap || now->texels != then->texels)
        what = "target.format (in what its texels are)";
    else if (!diti_job_may_aim(job, &desc->target))
        what = "target (dit's image or yours; of dit's, format, usage, flags, export_handle and dst_queue_family)";
    else if (now->width != then->width || now->height != then->height)
        what = "width or height";
    else if (now->image_count != then->image_count)
        what = "image_count";
    else if (now->frames != then->frames || now->float_frames != then->float_frames)
        what = "frame_count or float_frames";
    else if (now->sound_tokens != then->sound_tokens)
        what = "fps, by which the clip's sound has its length";
    else if (now->sound_samples != then->sound_samples)
        what = "no_sound";
    else if (now->loop_count != then->loop_count || now->loop_frames != then->loop_frames)
        what = "loop_count or loop_frames";
    else if (now->branch && now->extra_frames != then->extra_frames)
        what = "reference_count";
    else if (now->steps != then->steps)
        what = then->starts ? "steps, or strength" : "steps";
    else if (now->starts != then->starts || now->masked != then->masked || now->start_image != then->start_image ||
             now->start_latents != then->start_latents || now->start_layout != then->start_layout ||
             now->start_swap != then->start_swap)
        what = "init_image, image_latents or mask (given or not, or another VkImage)";
    else if (now->guided != then->guided)
        what = "guidance (on or off)";
    else if (now->mixed != then->mixed || now->norms_tokens != then->norms_tokens)
        what = "guidance (rescale or projection on or off)";
    else if (now->perturb != then->perturb || now->isolate != then->isolate || now->sound_scale != then->sound_scale ||
             now->rescales != then->rescales || memcmp(now->scales, then->scales, sizeof now->scales) != 0)
        what = "guidance (the sound's beside that of the pictures, perturb, isolate; with rescale all)";
    else if (now->kinds != then->kinds || request->guidance.skip_layer != job->request.guidance.skip_layer ||
             request->guidance.skip_blocks != job->request.guidance.skip_blocks)
        what = "guidance (its interval, or skip_layer)";
    else if (memcmp(&now->reuse, &then->reuse, sizeof now->reuse) != 0)
        what = "cache (or which of its steps have guidance)";
    else if (now->stochastic != then->stochastic || now->scaled_input != then->scaled_input ||
             now->has_y != then->has_y || now->has_h3 != then->has_h3 || now->learned != then->learned)
        what = "sampler";
    else if (now->preview_interval != then->preview_interval || now->preview != then->preview)
        what = "preview_interval, or preview";
    else if (now->resumes != then->resumes)
        what = "resume_on_loss";
    else if (now->keeps != then->keeps)
        what = "keep_state";
    else if (now->vae_tile != then->vae_tile)
        what = "vae_tile";
    else if (now->clip_skip != then->clip_skip)
        what = "clip_skip";
    else if (memcmp(&now->split, &then->split, sizeof now->split) != 0 || now->strips != then->strips ||
             now->warmup != then->warmup || now->int8_payload != then->int8_payload ||
             now->int8_feedback != then->int8_feedback || now->int8_kept != then->int8_kept ||
             memcmp(now->shares, then->shares, sizeof now->shares) != 0)
        what = "split";
    else if (now->encodes[0] != then->encodes[0] || now->encodes[1] != then->encodes[1])
        what = "which prompts are given as embeddings";
    return what ? diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                            "dit_job_restart: %s differs from the job's; create a new job", what)
                : DIT_OK;
}

static bool diti_job_same_rows(const diti_job_shape *a, const diti_job_shape *b) {
    return a->encoded_rows == b->encoded_rows && a->given_rows == b->given_rows && a->text_rows == b->text_rows &&
           a->weighted == b->weighted && a->noisy_first == b->noisy_first && a->null_text == b->null_text &&
           a->bare == b->bare && a->loras == b->loras && !memcmp(a->given, b->given, sizeof a->given) &&
           !memcmp(a->holds, b->holds, sizeof a->holds) && a->control_set_count == b->control_set_count &&
           a->variants == b->variants && !memcmp(a->control_sets, b->control_sets, sizeof a->control_sets) &&
           !memcmp(a->reuse_variants, b->reuse_variants, sizeof a->reuse_variants) &&
           a->reference_count == b->reference_count && a->ends == b->ends &&
           !memcmp(a->references, b->references, sizeof a->references);
}

/* Takes over *request, or leaves the job as it was. */
static dit_result diti_job_take_request(dit_job *job, diti_job_request *request, dit_error *err) {
    diti_job_request before = job->request;
    dit_result result = DIT_OK;
    bool taken;
    job->request = *request;
    if (!diti_job_same_rows(&before.shape, &request->shape)) {
        if (job->shares[0]->assignment.share_total > 1) diti_beats_aim(job->context->peers, job->number, job->runs);
        diti_job_drop_shares(job);
        result = diti_snapshot_stand_in(job, &job->context->progress, err);
        if (result == DIT_OK) result = diti_job_replace_program(job, err);
    }
    taken = result == DIT_OK;
    if (!taken) job->request = before;
    if (!job->mesh) { /* shares go with the plan; without them the job can only be restarted */
        dit_result added = diti_job_add_shares(job, &job->context->progress, taken ? err : NULL);
        if (taken) result = added;
    }
    diti_job_request_free(&job->env, taken ? &before : request);
    return result;
}

/* The copies into the images of another target. On failure the job keeps those that it has. */
static dit_result diti_job_copy_elsewhere(dit_job *job, dit_error *err) {
    diti_share *first = job->shares[0];
    diti_program before = first->program;
    dit_result result;
    first->program.command_pool = VK_NULL_HANDLE;
    first->program.chunk_commands = NULL;
    result = diti_job_record_copies(job, err);
    if (result >= 0) result = diti_snapshot_record(job, err);
    diti_destroy_CommandPool(first->device, result >= 0 ? before.command_pool : first->program.command_pool);
    diti_free(&job->env, result >= 0 ? before.chunk_commands : first->program.chunk_commands);
    if (result < 0) first->program = before;
    return result;
}

/* Takes over *request and the target, or leaves the job as it was. */
static dit_result diti_job_take_target(dit_job *job, const dit_target *target, diti_job_request *request,
                                       dit_error *err) {
    dit_target before = job->target;
    dit_result result = DIT_OK;
    if (memcmp(&before, target, sizeof before) == 0) return diti_job_take_request(job, request, err);
    diti_job_aim(job, target);
    result = diti_job_copy_elsewhere(job, err);
    if (result == DIT_OK) {
        result = diti_job_take_request(job, request, err);
        if (result != DIT_OK) {
            diti_job_aim(job, &before);
            diti_job_copy_elsewhere(job, NULL);
        }
    } else {
        diti_job_aim(job, &before);
        diti_job_request_free(&job->env, request);
    }
    return result;
}

/* A choice that was left to the devices once stays as it was decided. */
static dit_result diti_job_keep_split(const dit_job *job, diti_job_request *request, dit_error *err) {
    if (!request->shape.split.degree[0]) {
        request->shape.split = job->request.shape.split;
        request->shape.strips = job->request.shape.strips;
        memcpy(request->shape.shares, job->request.shape.shares, sizeof request->shape.shares);
        request->predicted_seconds = job->request.predicted_seconds;
    }
    return diti_job_choose(job->model, job->context, NULL, request, err);
}

/* A status that is asked for is partly read from what recorded commands have written, and from the plan, which a
   restart may replace: from now on nothing of it is. Returns whether there are such commands. */
static bool diti_job_freeze_status(dit_job *job) {
    bool recording = job->recording;
    diti_lock(&job->status_lock);
    if (recording) job->status.reused = diti_job_reused(job);
    if (job->status.result == DIT_OK && diti_job_must_repeat(job)) job->status.result = DIT_WORKING;
    job->recording = false;
    diti_unlock(&job->status_lock);
    return recording;
}

static void diti_job_thaw_status(dit_job *job, bool recording) {
    diti_lock(&job->status_lock);
    job->recording = recording;
    diti_unlock(&job->status_lock);
}

static dit_result diti_job_start_again(dit_job *job, const dit_job_desc *desc, dit_error *err) {
    const diti_plan *plan = job->shares[0]->program.plan;
    const diti_job_request *before;
    diti_job_request request;
    dit_error why = DITI_ZERO;
    dit_result result;
    dit_status status;
    bool recording, taken;
    uint32_t i;
    DITI_TRY(diti_job_check(job->context, desc, err));
    if (job->resumed)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "dit_job_restart: the job has lost a device; create a new job, on devices that work");
    if (desc->state)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "dit_job_restart: dit_job_desc.state is for dit_job_create; a restart begins with step 1");
    for (i = 0; i < job->share_count; i++) DITI_TRY(diti_device_check(job->shares[i]->device, err));
    dit_job_status(job, &status, NULL);
    before = desc->loop && status.result == DIT_OK ? &job->request : NULL;
    DITI_TRY(diti_job_request_make(desc->model, &job->env, desc, before, &request, err));
    result = before && diti_job_same_shape(job, desc, &request, err) < 0
                 ? DIT_ERROR_INVALID_ARGUMENT
                 : diti_job_request_noise(desc->model, &job->env, before, &request, err);
    if (result >= 0) result = diti_clip_keep_end(job, &request, err);
    if (result >= 0) result = diti_job_keep_split(job, &request, err);
    if (job->shares[0]->assignment.share_total == 1) request.shape.resumes = false;
    if (!(request.shape.loras & ~job->request.shape.loras) && request.shape.text_rows == job->request.shape.text_rows)
        request.shape.loras = job->request.shape.loras; /* LoRAs of weight 0 stay in a plan that stays */
    if (result >= 0) result = diti_job_same_shape(job, desc, &request, err);
    if (result < 0) {
        diti_job_request_free(&job->env, &request);
        return result;
    }
    diti_job_settle(job);
    recording = diti_job_freeze_status(job);
    for (i = 0; i < job->share_count; i++) /* other jobs need the slots before it */
        diti_plan_begin_stream(job->shares[i]->program.plan, recording);
    result = diti_job_take_target(job, &desc->target, &request, &why);
    if (result == DIT_OK) result = diti_job_join(job, &why);
    taken = result == DIT_OK || job->shares[0]->program.plan != plan;
    if (result == DIT_OK) { /* a run that goes on keeps the exponents that it has learned */
        for (i = 0; i < job->share_count; i++) diti_guard_forget(job->shares[i]->program.plan);
        job->begins_at = 0; /* a state was for the first run alone */
        job->shares[0]->states_due = false;
        result = diti_job_write_inputs(job, &why);
    }
    if (result < 0 && err) *err = why;
    if (!taken) {
        diti_job_thaw_status(job, recording);
        return result;
    }
    diti_job_rewind(job);
    /* the picture went with the old plan, or some inputs are those of the run before */
    if (result != DIT_OK) diti_run_end(job, result, result < 0 ? &why : NULL);
    return result;
}

DIT_API dit_result dit_job_restart(dit_job *job, const dit_job_desc *desc, dit_error *err) {
    diti_peers *peers;
    dit_result result;
    if (!job || !desc) return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "dit_job_restart: job and desc must be given");
    diti_retired_collect(job->context);
    peers = job->shares[0]->assignment.share_total > 1 ? job->context->peers : NULL;
    job->runs++;
    job->joins = false;
    result = diti_job_start_again(job, desc, err);
    if (result < 0 && job->joins && job->mesh) diti_beats_leave(job->mesh, DITI_LEAVING_FAILED);
    if (peers) diti_beats_made(peers, job->number, job->runs, job->joins, DITI_LEAVING_FAILED);
    diti_job_publish(job);
    return result;
}
