/* Running: which slice comes next, how much may be in flight, when it is over. */
#include "job/job.h"

/* --- the order of slices --- */

/* The slice at the cursor was submitted. */
static void diti_run_mark_submitted(diti_share *share) {
    uint32_t segment = share->run.cursor.segment, chunk = share->run.cursor.chunk;
    diti_run_advance(share, &share->run.cursor);
    if (share->run.cursor.slice) return;
    share->run.last_segment = segment;
    share->run.judged_chunk = chunk;
    share->run.unjudged = share->program.plan->guards != 0;
}

static bool diti_run_at_end(const diti_share *share) { return share->run.cursor.segment > share->program.last_segment; }

/* Whether a segment decodes a chunk of a clip. */
static bool diti_run_is_chunk(const diti_share *share, uint32_t segment) {
    return segment > share->program.decode_segment;
}

static dit_stage diti_run_stage(const diti_share *share, uint32_t segment) {
    if (segment < share->program.step_segment && segment != share->program.low_prepare) return DIT_STAGE_ENCODE;
    return segment < share->program.decode_segment ? DIT_STAGE_DENOISE : DIT_STAGE_DECODE;
}

/* --- bookkeeping --- */

DIT_INTERNAL void diti_run_end(dit_job *job, dit_result result, const dit_error *why) {
    diti_leaving how = result == DIT_OK ? DITI_LEAVING_DONE
                       : result == DIT_ERROR_DEVICE_LOST || result == DIT_ERROR_OUT_OF_DEVICE_MEMORY
                           ? DITI_LEAVING_LOST
                           : DITI_LEAVING_FAILED;
    if (job->mesh) diti_beats_leave(job->mesh, how);
    if (job->mesh && result == DIT_OK) diti_mesh_log(job->mesh);
    diti_lock(&job->status_lock);
    job->status.result = result;
    if (why) job->error = *why;
    if (result == DIT_OK) {
        job->status.stage = DIT_STAGE_DONE;
        job->status.fraction = 1;
        job->status.step = job->request.shape.steps;
        job->status.frame = job->request.shape.frames;
        job->status.sound_samples = job->request.shape.sound_samples;
    }
    if (!job->recording) job->status.reused = diti_job_reused(job);
    diti_unlock(&job->status_lock);
}

DIT_INTERNAL dit_result diti_run_fail(dit_job *job, const dit_error *why) {
    diti_run_end(job, why->result, why);
    return why->result;
}

/* When a device fails, perhaps the others can go on. */
static dit_result diti_run_fail_or_resume(dit_job *job, dit_error *why) {
    return diti_job_resume(job, why) == DIT_OK ? DIT_WORKING : diti_run_fail(job, why);
}

/* A job's status tells how far its first share is. */
static void diti_run_report(diti_share *share, const diti_job_flight *flight) {
    dit_job *job = share->job;
    uint32_t step = share->program.plan->guards && !job->recording ? share->run.health.step : flight->steps_done;
    float fraction = 0;
    if (share->member) return;
    diti_lock(&job->status_lock);
    job->status.stage = flight->stage;
    if (step > job->status.step || job->recording) job->status.step = step; /* strips may begin again */
    job->status.last_slice_us = diti_plan_last_slice_us(share->program.plan);
    if (flight->preview) job->status.preview_id++;
    if (flight->frames > job->status.frame && !share->run.health.blocked) job->status.frame = flight->frames;
    if (share->run.total_us > 0) fraction = (float)(flight->done_us / share->run.total_us);
    if (fraction > 1) fraction = 1; /* more was to do than planned */
    if (fraction > job->status.fraction) job->status.fraction = fraction;
    if (!job->recording) job->status.reused = diti_job_reused(job);
    diti_unlock(&job->status_lock);
}

/* The frames of the last clip that are there when a chunk is decoded. */
static uint32_t diti_run_frames(const diti_share *share, uint32_t chunk) {
    const diti_program *program = &share->program;
    uint32_t before = program->chunk_count * (share->job->request.shape.image_count - 1);
    if (chunk < before) return 0;
    return program->chunks[chunk - before].out_first + program->chunks[chunk - before].out_frames;
}

/* Tells what the slice at the cursor will have done when it is finished. Moves the cursor. */
static diti_job_flight diti_run_next_slice(diti_share *share) {
    diti_job_flight flight;
    uint32_t segment = share->run.cursor.segment, chunk = share->run.cursor.chunk;
    memset(&flight, 0, sizeof flight);
    flight.us = diti_plan_slice_us(share->program.plan, segment, share->run.cursor.slice);
    flight.stage = diti_run_stage(share, segment);
    share->run.submitted_us +=
        (double)diti_plan_slice_planned_us(share->program.plan, segment, share->run.cursor.slice);
    flight.done_us = share->run.submitted_us;
    diti_run_mark_submitted(share);
    flight.steps_done = share->run.cursor.repeat;
    flight.preview = segment == share->program.preview_segment && share->run.cursor.segment != segment;
    if (share->run.cursor.chunk != chunk) flight.frames = diti_run_frames(share, chunk);
    return flight;
}

/* --- cutting anew --- */

#define DITI_LOOK_US 10000000u /* most that counts of the time between two looks at a device */
#define DITI_MIN_SLICE_US 250u /* least that a budget alone asks for: shorter slices are mostly launches */

/* How long slices may be: as the application has said, else as it has time for in a frame. */
static uint32_t diti_run_limit_us(const diti_share *share, uint32_t budget_us) {
    const diti_device *device = share->device;
    if (!share->job->recording || !device->slices_by_budget || budget_us >= device->max_slice_us)
        return device->max_slice_us;
    return budget_us < DITI_MIN_SLICE_US ? DITI_MIN_SLICE_US : budget_us;
}

/* Where a segment begins, work is cut anew if the limit is another one, or if measured times have proved slices off by
   4; by 2 already where a frame waits for them: then also inside a segment, where a dispatch begins and three slices
   were too long, so that a decoder, which runs once, learns from its own beginning. Guards and streams, which have
   segments run again and weights come, know segments and dispatches, not slices. A split job keeps its slices: its
   exchanges stand between them, and all devices count on each other's; nor is there a frame that it keeps waiting. */
static bool diti_run_wants_cut(const diti_share *share, float limit) {
    const diti_plan *plan = share->program.plan;
    bool first = share->run.cursor.segment == 0 && share->run.submitted_us <= 0;
    bool other = first ? limit < plan->limit_us || limit > plan->limit_us
                       : 2 * limit < plan->limit_us || limit > 2 * plan->limit_us;
    if (share->job->mesh || diti_run_at_end(share) || share->run.cuts == DITI_MAX_CUTS ||
        !diti_plan_slice_is_start(plan, share->run.cursor.segment, share->run.cursor.slice))
        return false;
    return other || diti_plan_is_off(plan, share->job->recording ? DITI_OFF_BY / 2 : DITI_OFF_BY,
                                     share->run.cursor.slice ? 2 : 0);
}

/* Cuts are counted for each segment anew. Call it where work may be cut, before diti_run_wants_cut. */
static void diti_run_count_cuts(diti_run *run) {
    if (run->cursor.slice == 0) run->cuts = 0;
}

static void diti_run_cut_anew(diti_share *share, uint32_t budget_us) {
    float limit = (float)diti_run_limit_us(share, budget_us);
    diti_run_count_cuts(&share->run);
    if (!diti_run_wants_cut(share, limit)) return;
    diti_plan_cut_anew(share->program.plan, limit, share->run.cursor.segment, &share->run.cursor.slice);
    share->run.cuts++;
}

/* --- what the guards say --- */

/* Nobody says anything about a segment before the run's decoder has ended. */
static bool diti_run_is_early(const diti_share *share) {
    return share->run.last_segment + 1 < share->program.plan->guard_end;
}

/* Steps of one device, and strips of several, may follow each other unseen; everything else waits for what is said
   about the segment before it, so that devices that agree go back from the same place. */
static bool diti_run_must_wait(const diti_share *share) {
    bool steps =
        diti_share_is_step(share, share->run.last_segment) && diti_share_is_step(share, share->run.cursor.segment);
    bool agrees = share->run.careful || (share->job->mesh && !diti_strips_used(&share->job->request.shape));
    if (diti_run_is_early(share)) return false;
    return share->run.unjudged && share->run.cursor.slice == 0 && (agrees || !steps || share->run.health.blocked);
}

/* A segment overflowed: an error if running it again does not help. */
static dit_result diti_run_count_retry(diti_share *share, const diti_verdict *verdict, dit_error *err) {
    bool same = verdict->segment == share->run.again_segment && verdict->step == share->run.again_step;
    share->run.tries = same ? share->run.tries + 1 : 1;
    share->run.again_segment = verdict->segment;
    share->run.again_step = verdict->step;
    return diti_guard_check(verdict, share->run.tries,
                            diti_share_is_step(share, verdict->segment) ? share->job->request.shape.steps : 0, err);
}

/* Tells the log that a share goes back, and the job's status where it is the first one. */
static void diti_run_log_rerun(diti_share *share, const diti_verdict *verdict) {
    dit_job *job = share->job;
    diti_rerun *rerun;
    diti_log(&job->env, DITI_LOG_INFO, "fp16 overflowed in %s; running that again, scaled", verdict->name);
    if (share->member) return;
    rerun = (diti_rerun *)diti_alloc(&job->env, sizeof *rerun);
    if (rerun) {
        diti_format(rerun->op, sizeof rerun->op, "%s", verdict->name);
        rerun->before = job->reruns;
        job->reruns = rerun;
    }
    diti_lock(&job->status_lock);
    job->status.result = DIT_WORKING;
    if (job->recording)
        job->status.frame = job->status.sound_samples =
            0; /* all was recorded, perhaps, and nothing of it can be read */
    job->status.reruns++;
    job->status.rerun_op = rerun ? rerun->op : NULL;
    diti_unlock(&job->status_lock);
}

static void diti_run_go_back(diti_share *share, const diti_verdict *verdict, uint32_t segment, uint32_t step) {
    diti_run_log_rerun(share, verdict);
    share->run.cursor.segment = segment;
    share->run.cursor.slice = 0;
    share->run.cursor.repeat = step;
    if (segment < share->program.decode_segment) share->run.cursor.chunk = 0;
    if (!diti_run_is_chunk(share, segment)) return;
    /* what a chunk leaves for the next one has changed: all chunks of the clip run again */
    share->run.cursor.chunk = share->run.judged_chunk / share->program.chunk_count * share->program.chunk_count;
    share->run.cursor.segment = diti_clip_segment(share, share->run.cursor.chunk);
}

/* The segment that overflowed runs again, scaled; what was submitted behind it has had no effect. */
static dit_result diti_run_again(diti_share *share, const diti_verdict *verdict, dit_error *err) {
    dit_result result = diti_run_count_retry(share, verdict, err);
    if (result >= 0) result = diti_guard_restore(share->program.plan, verdict->step, err);
    if (result >= 0) diti_run_go_back(share, verdict, verdict->segment, verdict->step);
    return result;
}

/* Whether all shares of a job are judged at the same time (diti_run_go_together). */
static bool diti_run_goes_together(const diti_share *share) {
    if (diti_run_is_chunk(share, share->run.last_segment) && !diti_clip_is_divided(share)) return false;
    if (share->run.careful) return true;
    if (!share->run.health.blocked) return false;
    if (!diti_strips_used(&share->job->request.shape)) return share->program.plan->guard_alike;
    return share->job->mesh || diti_share_is_step(share, share->run.health.blocked - 1);
}

/* Nothing is in flight, so the newest report is about the last segment. */
static dit_result diti_run_settle(diti_share *share, dit_error *err) {
    diti_verdict verdict;
    if (!share->run.unjudged || share->run.cursor.slice || diti_run_is_early(share) || diti_run_goes_together(share))
        return DIT_OK;
    share->run.unjudged = false;
    return diti_guard_raise(share->program.plan, &verdict) ? diti_run_again(share, &verdict, err) : DIT_OK;
}

/* Patches: every share from its first segment on, or from where a lost device had left it. */
static dit_result diti_run_start_over(dit_job *job, dit_error *err) {
    dit_result result = DIT_OK;
    uint32_t i;
    diti_snapshot_forget(job);
    for (i = 0; i < job->share_count && result >= 0; i++) {
        diti_share *share = job->shares[i];
        uint32_t tries = share->run.tries;
        diti_resume_set_out(share, job->begins_at, share->run.total_us);
        share->run.tries = tries;
        share->states_due = share->states.buffer != VK_NULL_HANDLE;
        memset(&share->run.health, 0, sizeof share->run.health);
        result = diti_guard_write(share->program.plan, job->begins_at, err);
    }
    return result;
}

/* Patches that overflowed somewhere: how far the devices have come since is chance, and so are the peaks that their
   guards saw. The run begins again as before, and now no share goes on before all of them have come to the end of the
   same segment, so that every run learns the same exponents. */
static dit_result diti_run_grow_careful(dit_job *job, diti_plan *const *plans, dit_error *err) {
    diti_verdict verdicts[DITI_MAX_DEVICES];
    uint32_t i, blamed = UINT32_MAX;
    diti_job_settle(job);
    diti_guard_raise_all(plans, job->share_count, verdicts);
    for (i = 0; i < job->share_count; i++) {
        diti_guard_forget(job->shares[i]->program.plan);
        job->shares[i]->run.careful = true;
        if (blamed == UINT32_MAX && verdicts[i].name) blamed = i;
    }
    if (blamed == UINT32_MAX) return DIT_OK;
    diti_run_go_back(job->shares[0], &verdicts[blamed], 0, 0);
    return diti_run_start_over(job, err);
}

/* All shares have come to the end of a segment, in which some device overflowed. */
static dit_result diti_run_raise_together(dit_job *job, diti_plan *const *plans, bool over, dit_error *err) {
    diti_verdict verdicts[DITI_MAX_DEVICES];
    dit_result result = DIT_OK;
    bool told = false;
    uint32_t i;
    diti_guard_raise_all(plans, job->share_count, verdicts);
    for (i = 0; i < job->share_count && result >= 0; i++) {
        diti_share *share = job->shares[i];
        if (!over) {
            result = diti_run_again(share, &verdicts[i], err);
        } else if (verdicts[i].name) {
            result = diti_run_count_retry(share, &verdicts[i], err);
            if (result >= 0 && !told) diti_run_go_back(job->shares[0], &verdicts[i], 0, 0);
            told = true;
        }
    }
    return result < 0 || !over ? result : diti_run_start_over(job, err);
}

/* Patches begin again, unless nothing but the decoder overflowed; over several processes, where nobody knows, always.
 */
static bool diti_run_begins_again(const diti_share *share) {
    uint32_t blocked = share->run.health.blocked;
    if (!blocked || !diti_strips_used(&share->job->request.shape)) return false;
    if (blocked <= share->program.plan->guard_end) return true;
    return blocked - 1 < share->program.decode_segment && (share->job->mesh || diti_share_is_step(share, blocked - 1));
}

/* Devices of a sequence agree on a segment, which runs again with exponents that all of them raise; strips begin
   again. *moved: shares may go on that waited for others. */
static dit_result diti_run_go_together(dit_job *job, bool *moved, dit_error *err) {
    diti_share *first = job->shares[0];
    diti_plan *plans[DITI_MAX_DEVICES];
    bool any = false, all = true, over = false;
    uint32_t i;
    for (i = 0; i < job->share_count; i++) {
        const diti_share *share = job->shares[i];
        bool blocked = share->run.health.blocked && !diti_run_is_early(share) && diti_run_goes_together(share);
        any = any || blocked;
        over = over || (blocked && diti_run_begins_again(share));
        all = all && share->run.unjudged && !share->run.cursor.slice && !share->run.flight_count &&
              share->run.cursor.segment == first->run.cursor.segment &&
              share->run.cursor.repeat == first->run.cursor.repeat;
        plans[i] = share->program.plan;
    }
    if (over && !first->run.careful && !first->program.plan->guard_end) return diti_run_grow_careful(job, plans, err);
    if (!all || (!any && !first->run.careful)) return DIT_OK;
    for (i = 0; i < job->share_count; i++) job->shares[i]->run.unjudged = false;
    *moved = true;
    if (!any) return DIT_OK;
    return diti_run_raise_together(job, plans, over, err);
}

/* Whether a segment still finds what it reads: what was recorded behind it has run, without effect but on the memory
   that segments share. Steps and previews leave alone what comes into any of them. */
static bool diti_run_may_repeat(const diti_share *share, uint32_t segment) {
    uint32_t last = share->run.cursor.slice ? share->run.cursor.segment : share->run.last_segment;
    if (diti_strips_used(&share->job->request.shape) || diti_run_is_chunk(share, segment)) return false;
    return last == segment || (segment >= share->program.step_segment && last >= share->program.step_segment &&
                               segment < share->program.decode_segment && last < share->program.decode_segment);
}

/* The application's commands are never waited for: they go back to the segment that overflowed, or to the start, as
   soon as a report says so. One that is just being written is read at the next call. */
DIT_INTERNAL dit_result diti_job_verdict(dit_job *job, dit_error *err) {
    diti_share *first = job->shares[0];
    diti_verdict verdict;
    if (!diti_job_must_repeat(job) || !diti_guard_raise(first->program.plan, &verdict) || !verdict.record)
        return DIT_OK;
    job->before.went_back = true;
    first->run.restores = diti_run_may_repeat(first, verdict.segment);
    DITI_TRY(diti_run_count_retry(first, &verdict, err));
    diti_run_go_back(first, &verdict, first->run.restores ? verdict.segment : 0,
                     first->run.restores ? verdict.step : 0); /* first: other threads may ask for the status */
    DITI_TRY(diti_guard_write(first->program.plan, first->run.restores ? verdict.step : 0, err));
    first->run.all_submitted = false;
    diti_job_await_report(job);
    return DIT_OK;
}

static dit_result diti_run_judge(dit_job *job, const diti_health *health, dit_error *err) {
    if (health->bad_step)
        return diti_fail(
            err, DIT_ERROR_NOT_FINITE,
            "the latent is not finite after step %u of %u (solver step); try the fp32 rung or another sampler",
            health->bad_step, job->request.shape.steps);
    if (health->bad_picture)
        return diti_fail(err, DIT_ERROR_NOT_FINITE, "the picture is not finite (VAE decoder); try the fp32 rung");
    return DIT_OK;
}

DIT_INTERNAL dit_result diti_run_check_health(dit_job *job) {
    diti_health health;
    dit_error error;
    dit_result result;
    uint64_t done;
    uint32_t i;
    memset(&error, 0, sizeof error);
    result = diti_job_verdict(job, &error);
    diti_buffer_invalidate(job->shares[0]->device, &job->health_readback);
    memcpy(&health, job->health_readback.block.mapped, sizeof health);
    if (result >= 0 && health.step == DITI_NO_REPORT && !job->recording)
        result = diti_device_fail(job->shares[0]->device, VK_ERROR_DEVICE_LOST, "the last commands", &error);
    if (result >= 0 && health.step == DITI_NO_REPORT) { /* the application's commands have not run, unless it is lost */
        result = diti_timeline_value(job->shares[0]->device, diti_plan_timeline(job->shares[0]->program.plan), &done,
                                     &error);
        return result < 0 ? diti_run_fail(job, &error) : DIT_WORKING;
    }
    if (result >= 0) result = diti_run_judge(job, &health, &error);
    for (i = 1; i < job->share_count && result >= 0; i++) {
        diti_share *share = job->shares[i];
        result = diti_plan_read(share->program.plan, share->program.health_words, &health, sizeof health, &error);
        if (result >= 0) result = diti_run_judge(job, &health, &error);
    }
    return result < 0 ? diti_run_fail(job, &error) : DIT_OK;
}

/* --- step mode --- */

static uint32_t diti_run_flight_index(const diti_share *share, uint32_t i) {
    return (share->run.flight_first + i) % DITI_JOB_MAX_FLIGHT;
}

/* Drops what the GPU has finished from the ring. */
static dit_result diti_run_poll(diti_share *share, dit_error *err) {
    uint64_t done = 0;
    DITI_TRY(diti_timeline_value(share->device, diti_plan_timeline(share->program.plan), &done, err));
    diti_plan_learn(share->program.plan);
    diti_plan_free_retired(share->program.plan, false);
    diti_guard_read(share->program.plan, &share->run.health);
    diti_snapshot_poll(share, done);
    while (share->run.flight_count && share->run.flight[share->run.flight_first].value <= done) {
        share->job->still_us = 0;
        diti_run_report(share, &share->run.flight[share->run.flight_first]);
        share->run.flight_first = diti_run_flight_index(share, 1);
        share->run.flight_count--;
    }
    return share->run.flight_count == 0 ? diti_run_settle(share, err) : DIT_OK;
}

static float diti_run_flight_us(const diti_share *share) {
    float us = 0;
    uint32_t i;
    for (i = 0; i < share->run.flight_count; i++) us += share->run.flight[diti_run_flight_index(share, i)].us;
    return us;
}

static bool diti_run_may_submit(const diti_share *share, uint32_t budget_us) {
    if (share->run.all_submitted || share->run.flight_count == DITI_JOB_MAX_FLIGHT || diti_run_must_wait(share))
        return false;
    if (diti_snapshot_busy(share)) return false;
    if (share->job->mesh && !diti_run_at_end(share) &&
        !diti_mesh_ready(share->job->mesh, share->member, share->run.cursor.segment, share->run.cursor.slice))
        return false;
    if (share->run.flight_count == 0) return true;
    if (diti_run_at_end(share)) return true; /* the copy into the image is cheap */
    if (!diti_plan_may_submit(share->program.plan, share->run.cursor.segment, share->run.cursor.slice)) return false;
    return diti_run_flight_us(share) +
               diti_plan_slice_us(share->program.plan, share->run.cursor.segment, share->run.cursor.slice) <=
           (float)budget_us;
}

static dit_result diti_run_submit_finish(diti_share *share, diti_job_flight *flight, dit_error *err) {
    dit_result result;
    memset(flight, 0, sizeof *flight);
    if (share->member) { /* the picture is the first one's */
        flight->value = share->program.plan->timeline.submitted;
        flight->stage = DIT_STAGE_DECODE;
        share->run.all_submitted = true;
        return DIT_OK;
    }
    result = diti_plan_submit_commands(share->program.plan, share->program.finish, &flight->value, err);
    flight->done_us = share->run.total_us;
    flight->steps_done = share->job->request.shape.steps;
    flight->stage = DIT_STAGE_DECODE;
    share->run.finish_value = flight->value;
    share->run.all_submitted = result >= 0;
    return result;
}

static dit_result diti_run_submit_slice(diti_share *share, diti_job_flight *flight, dit_error *err) {
    const dit_job *job = share->job;
    diti_job_cursor at = share->run.cursor;
    dit_result result = DIT_OK;
    uint64_t value = 0;
    *flight = diti_run_next_slice(share);
    if (share->states_due && at.segment >= share->program.step_segment)
        result = diti_share_submit_states(share, &value, err);
    if (result >= 0 && share->program.start_copy && at.segment == share->program.start_segment && at.slice == 0)
        result = diti_plan_submit_commands(share->program.plan, share->program.start_copy, &value, err);
    if (result >= 0 && share->program.chunk_commands && diti_run_is_chunk(share, at.segment) && at.slice == 0)
        result =
            diti_plan_submit_commands(share->program.plan, share->program.chunk_commands[2 * at.chunk], &value, err);
    if (result >= 0)
        result = job->mesh ? diti_mesh_submit(job->mesh, share->member, at.segment, at.slice, &value, err)
                           : diti_plan_submit(share->program.plan, at.segment, at.slice, &value, err);
    if (result >= 0 && flight->preview && share->assignment.share == 0)
        result = diti_plan_submit_commands(share->program.plan, share->program.preview_copy, &value, err);
    if (result >= 0 && share->program.chunk_commands && share->run.cursor.chunk != at.chunk)
        result = diti_plan_submit_commands(share->program.plan, share->program.chunk_commands[2 * at.chunk + 1], &value,
                                           err);
    if (result >= 0 && share->run.cursor.slice == 0) result = diti_snapshot_submit(share, at.segment, &value, err);
    flight->value = value;
    return result;
}

static dit_result diti_run_submit_next(diti_share *share, dit_error *err) {
    diti_job_flight *flight = &share->run.flight[diti_run_flight_index(share, share->run.flight_count)];
    dit_result result =
        diti_run_at_end(share) ? diti_run_submit_finish(share, flight, err) : diti_run_submit_slice(share, flight, err);
    if (result >= 0) share->run.flight_count++;
    return result;
}

/* --- streamed weights --- */

/* DIT_OK when the weights of the next slice are there. */
static dit_result diti_run_load(diti_share *share, uint64_t *bytes, dit_error *err) {
    if (diti_run_at_end(share)) return DIT_OK;
    return diti_plan_load(share->program.plan, share->run.cursor.segment, share->run.cursor.slice, bytes, err);
}

/* Weights of the slices to come, while the GPU works. */
static dit_result diti_run_load_ahead(diti_share *share, uint64_t *bytes, dit_error *err) {
    diti_stream_walk walk = DITI_ZERO;
    diti_job_cursor cursor = share->run.cursor;
    dit_result result = diti_plan_streams(share->program.plan) ? DIT_OK : DIT_WORKING;
    while (result == DIT_OK && cursor.segment <= share->program.last_segment) {
        result = diti_plan_load_ahead(share->program.plan, &walk, cursor.segment, cursor.slice, bytes, err);
        diti_run_advance(share, &cursor);
    }
    return result < 0 ? result : DIT_OK;
}

/* Every device its own. */
static dit_result diti_run_load_all_ahead(dit_job *job, uint64_t *bytes, dit_error *err) {
    dit_result result = DIT_OK;
    uint32_t i;
    for (i = 0; i < job->share_count && result >= 0; i++) result = diti_run_load_ahead(job->shares[i], bytes, err);
    job->loading = *bytes == 0;
    return result;
}

static bool diti_run_streams(const dit_job *job) {
    uint32_t i;
    for (i = 0; i < job->share_count; i++)
        if (job->shares[i]->program.plan && diti_plan_streams(job->shares[i]->program.plan)) return true;
    return false;
}

/* Common to both modes: DIT_WORKING when the run may go on. */
static dit_result diti_run_begin(dit_job *job, bool recording) {
    dit_status status;
    uint32_t i;
    dit_error error;
    memset(&error, 0, sizeof error);
    diti_retired_collect(job->context);
    dit_job_status(job, &status, NULL);
    if (status.result != DIT_WORKING) return status.result;
    if (diti_atomic_load(&job->cancel)) {
        diti_run_end(job, DIT_CANCELLED, NULL);
        return DIT_CANCELLED;
    }
    if (job->shares[0]->assignment.share_total > 1 && !job->mesh) {
        diti_fail(&error, DIT_ERROR_INVALID_ARGUMENT, "a restart failed; restart the job again, or make another one");
        return diti_run_fail(job, &error);
    }
    if (job->begun && job->recording != recording) {
        diti_fail(&error, DIT_ERROR_INVALID_ARGUMENT, "a run is either stepped or recorded; restart the job to change");
        return diti_run_fail(job, &error);
    }
    if (!job->begun) {
        job->watched_us = diti_clock_us();
        job->still_us = 0;
        for (i = 0; i < job->share_count; i++) diti_plan_begin_stream(job->shares[i]->program.plan, recording);
    }
    if (!job->begun) diti_job_await_report(job);
    job->begun = true;
    diti_lock(&job->status_lock);
    job->recording = recording;
    diti_unlock(&job->status_lock);
    return DIT_WORKING;
}

/* Submits what can be submitted of one share; *moved becomes true when something was. */
static dit_result diti_run_share(diti_share *share, uint32_t budget_us, uint64_t *bytes, bool *moved, dit_error *err) {
    dit_result result = diti_run_poll(share, err);
    while (result == DIT_OK && diti_run_may_submit(share, budget_us)) {
        if (share->run.cursor.slice == 0) diti_run_cut_anew(share, budget_us);
        result = diti_run_load(share, bytes, err);
        if (result == DIT_OK) result = diti_run_submit_next(share, err);
        *moved = *moved || result == DIT_OK;
    }
    return result;
}

/* A device that has something to finish; NULL: none has. */
static diti_device *diti_run_waits(const dit_job *job) {
    uint32_t i;
    for (i = 0; i < job->share_count; i++) {
        diti_device *device = job->shares[i]->device;
        if (job->shares[i]->run.flight_count && !(job->mesh && diti_mesh_awaits(job->mesh, device))) return device;
    }
    return job->mesh ? diti_mesh_waits(job->mesh) : NULL;
}

/* A device that finishes nothing of what it was given for long is lost, even if the driver does not say so. Between two
   looks no more than ten seconds count: the machine may have slept, or its clock may have been set. */
static dit_result diti_run_watch(dit_job *job, bool moved, dit_error *err) {
    uint64_t now = diti_clock_us(), passed = now > job->watched_us ? now - job->watched_us : 0;
    diti_device *waits = diti_run_waits(job);
    job->watched_us = now;
    job->still_us = moved || !waits ? 0 : job->still_us + (passed < DITI_LOOK_US ? passed : DITI_LOOK_US);
    return waits && job->still_us >= job->shares[0]->device->patience_us ? diti_device_stalled(waits, err) : DIT_OK;
}

/* Slices or copies of one device may have waited for what another one has just submitted. */
static dit_result diti_run_shares(dit_job *job, uint32_t budget_us, uint64_t *bytes, dit_error *err) {
    dit_result result = DIT_OK;
    bool moved = true, ever = false;
    uint32_t i;
    while (moved && result >= 0) {
        moved = false;
        if (job->mesh) result = diti_mesh_pump(job->mesh, &moved, err);
        for (i = 0; i < job->share_count && result >= 0; i++)
            result = diti_run_share(job->shares[i], budget_us, bytes, &moved, err);
        if (result >= 0) result = diti_run_go_together(job, &moved, err);
        ever = ever || moved;
        moved = moved && job->mesh;
    }
    return result < 0 ? result : diti_run_watch(job, ever, err);
}

static bool diti_run_over(const dit_job *job) {
    uint32_t i;
    for (i = 0; i < job->share_count; i++)
        if (!job->shares[i]->run.all_submitted || job->shares[i]->run.flight_count) return false;
    return !job->mesh || diti_mesh_idle(job->mesh);
}

static dit_result diti_run_step(dit_job *job, uint32_t budget_us) {
    uint64_t bytes = diti_job_load_bytes(budget_us), before = bytes;
    dit_error error;
    dit_result result;
    memset(&error, 0, sizeof error);
    result = diti_run_begin(job, false);
    if (result == DIT_WORKING && job->agrees) {
        result = diti_job_agree(job, &error);
        if (result < 0) return diti_run_fail_or_resume(job, &error);
        if (result == DIT_WORKING) return result;
        result = DIT_WORKING;
    }
    if (result == DIT_WORKING && job->states_letter) {
        result = diti_resume_take_states(job, &error);
        if (result < 0) return diti_run_fail(job, &error);
        if (result == DIT_OK) result = DIT_WORKING;
        if (job->states_letter) return result;
    }
    if (result != DIT_WORKING) return result;
    result = diti_run_load_all_ahead(job, &bytes, &error); /* first: a driver may read timestamps when nothing runs */
    if (result >= 0) result = diti_run_shares(job, budget_us, &bytes, &error);
    if (result >= 0) result = diti_run_load_all_ahead(job, &bytes, &error);
    if (result >= 0 && job->mesh) result = diti_mesh_watch(job->mesh, bytes != before, &error);
    if (result < 0) return diti_run_fail_or_resume(job, &error);
    if (!diti_run_over(job)) return DIT_WORKING;
    result = diti_run_check_health(job);
    if (result >= 0) diti_run_end(job, DIT_OK, NULL);
    return result;
}

DIT_API dit_result dit_job_step(dit_job *job, uint32_t budget_us) {
    dit_result result;
    if (!job) return DIT_ERROR_INVALID_ARGUMENT;
    result = diti_run_step(job, budget_us);
    diti_job_publish(job);
    return result;
}

/* The rest of a time-out that began at *begin; a clock that was set back begins anew. */
static uint64_t diti_run_time_left(uint64_t timeout_ns, uint64_t *begin) {
    uint64_t now = diti_clock_us(), passed_ns;
    if (timeout_ns == UINT64_MAX) return timeout_ns;
    if (now < *begin) *begin = now;
    passed_ns = (now - *begin) * 1000u;
    return passed_ns < timeout_ns ? timeout_ns - passed_ns : 0;
}

/* Until something that was submitted is finished, or a while has passed. */
static dit_result diti_run_rest(dit_job *job, uint64_t timeout_ns, dit_error *err) {
    bool waited = false;
    dit_result result = DIT_OK;
    uint32_t i;
    if (job->mesh) result = diti_mesh_wait(job->mesh, timeout_ns, &waited, err);
    for (i = 0; i < job->share_count && result >= 0 && !waited; i++) {
        diti_share *share = job->shares[i];
        if (!share->run.flight_count) continue;
        waited = true;
        result = diti_timeline_wait(share->device, diti_plan_timeline(share->program.plan),
                                    share->run.flight[share->run.flight_first].value, timeout_ns, err);
    }
    if (waited || result < 0) return result;
    /* another job uses the memory for streamed weights, or a rank is awaited */
    return diti_plan_pause(job->shares[0]->program.plan, err);
}

DIT_API dit_result dit_job_wait(dit_job *job, uint64_t timeout_ns) {
    uint64_t begin = diti_clock_us(), left, glance_ns;
    dit_result result;
    dit_error error;
    if (!job) return DIT_ERROR_INVALID_ARGUMENT;
    /* short waits, so that a cancel from another thread is seen, and room for more streamed weights */
    glance_ns = diti_run_streams(job) ? 1000000u : job->mesh ? 500000u : 10000000u;
    for (;;) {
        result = dit_job_step(job, job->shares[0]->device->max_slice_us);
        left = diti_run_time_left(timeout_ns, &begin);
        if (result != DIT_WORKING || left == 0) return result;
        if (job->loading) continue;
        memset(&error, 0, sizeof error);
        result = diti_run_rest(job, left < glance_ns ? left : glance_ns, &error);
        if (result < 0 && diti_run_fail_or_resume(job, &error) < 0) {
            diti_job_publish(job);
            return error.result;
        }
    }
}

/* --- record mode --- */

static dit_result diti_run_record_slice(diti_share *share, VkCommandBuffer commands, dit_error *err) {
    diti_job_cursor at = share->run.cursor;
    diti_job_flight flight = diti_run_next_slice(share);
    if (share->program.start_copy && at.segment == share->program.start_segment && at.slice == 0)
        diti_job_record_start(share->job, commands);
    if (diti_run_is_chunk(share, at.segment) && at.slice == 0) diti_clip_record_input(share->job, commands, at.chunk);
    DITI_TRY(diti_plan_execute(share->program.plan, at.segment, at.slice, commands, err));
    if (flight.preview) diti_job_record_preview(share->job, commands);
    if (share->run.cursor.chunk != at.chunk) diti_clip_record_output(share->job, commands, at.chunk);
    flight.frames = 0; /* nobody knows when the commands have run */
    diti_run_report(share, &flight);
    return DIT_OK;
}

static void diti_run_expect(dit_job *job, float us) {
    diti_lock(&job->status_lock);
    job->status.recorded_us = diti_whole_us(us);
    diti_unlock(&job->status_lock);
}

static void diti_run_remember(dit_job *job) {
    diti_share *first = job->shares[0];
    diti_job_before *before = &job->before;
    before->known = before->recorded = true;
    before->went_back = false;
    before->cursor = first->run.cursor;
    before->last_segment = first->run.last_segment;
    before->judged_chunk = first->run.judged_chunk;
    before->unjudged = first->run.unjudged;
    before->restores = first->run.restores;
    before->submitted_us = first->run.submitted_us;
    before->dispatches = first->program.plan->counters.dispatches;
    diti_lock(&job->status_lock);
    before->status = job->status;
    diti_unlock(&job->status_lock);
}

/* As many slices as the budget has time for, and the host weights. *us: what they are expected to take. Where work is
   to be cut anew a frame ends, since one that is taken back begins again with the slices that it began with. */
static dit_result diti_run_record_slices(diti_share *share, VkCommandBuffer commands, uint32_t budget_us, float *us,
                                         dit_error *err) {
    uint64_t bytes = diti_job_load_bytes(budget_us);
    float limit = (float)diti_run_limit_us(share, budget_us);
    dit_result result = DIT_OK;
    diti_run_cut_anew(share, budget_us);
    diti_run_remember(share->job);
    if (share->run.restores) diti_plan_record_guards(share->program.plan, commands);
    share->run.restores = false;
    diti_frame_begin(share->program.plan, commands);
    while (!diti_run_at_end(share)) {
        float next;
        if (*us > 0 && share->run.cursor.slice == 0) {
            diti_run_count_cuts(&share->run);
            if (diti_run_wants_cut(share, limit)) break;
        }
        next = diti_plan_slice_us(share->program.plan, share->run.cursor.segment, share->run.cursor.slice);
        if (*us > 0 && *us + next > (float)budget_us) break;
        result = diti_plan_record_stream(share->program.plan, share->run.cursor.segment, share->run.cursor.slice,
                                         &bytes, commands, err);
        if (result != DIT_OK) break;
        *us += next > 0 ? next : 1;
        result = diti_run_record_slice(share, commands, err);
        if (result < 0) break;
    }
    diti_plan_mark_stream(share->program.plan, commands);
    if (result >= 0) result = diti_run_load_ahead(share, &bytes, err);
    return result < 0 ? result : DIT_OK;
}

static dit_result diti_run_record_frame(dit_job *job, VkCommandBuffer commands, uint32_t budget_us, dit_error *err) {
    diti_share *first = job->shares[0];
    float us = 0;
    dit_result result = diti_run_record_slices(first, commands, budget_us, &us, err);
    diti_run_expect(job, us);
    if (result < 0 || !diti_run_at_end(first)) return result < 0 ? result : DIT_WORKING;
    diti_job_record_finish(job, commands);
    first->run.all_submitted = true;
    diti_run_end(job, DIT_OK, NULL);
    return DIT_OK;
}

static dit_result diti_run_append(dit_job *job, VkCommandBuffer cmd, uint32_t budget_us) {
    diti_plan *plan;
    diti_trace_scope scope;
    dit_error error;
    dit_result result;
    memset(&error, 0, sizeof error);
    memset(&job->before, 0, sizeof job->before);
    result = diti_run_begin(job, true);
    job->before.known = result == DIT_OK;
    plan = job->shares[0]->program.plan;
    if (result != DIT_WORKING) {
        diti_frame_pass(plan);
        return result;
    }
    if (job->mesh)
        result = diti_fail(&error, DIT_ERROR_INVALID_ARGUMENT,
                           "dit_job_record: a split job has commands for several devices; use dit_job_step");
    else if (job->request.shape.keeps)
        result = diti_fail(&error, DIT_ERROR_INVALID_ARGUMENT,
                           "dit_job_record: a job with keep_state or state runs by dit_job_step alone");
    else
        result = diti_plan_prepare_frames(plan, &error);
    if (result >= 0) result = diti_plan_prepare_stream(plan, &error);
    if (result >= 0) result = diti_job_verdict(job, &error);
    if (result < 0) return diti_run_fail(job, &error);
    diti_frames_learn(plan);
    diti_plan_free_retired(plan, false);
    scope = diti_trace_open(job->context->trace, DITI_TRACK_RECORD, "dit_job_record");
    result = diti_run_record_frame(job, cmd, budget_us, &error);
    diti_trace_close(&scope, 0);
    if (result < 0) job->before.known = false;
    return result < 0 ? diti_run_fail(job, &error) : result;
}

DIT_API dit_result dit_job_record(dit_job *job, VkCommandBuffer cmd, uint32_t budget_us) {
    dit_result result;
    if (!job) return DIT_ERROR_INVALID_ARGUMENT;
    if (!cmd) {
        diti_log(&job->context->env, DITI_LOG_ERROR,
                 "dit_job_record: cmd is NULL; give a primary command buffer that is being recorded");
        return DIT_ERROR_INVALID_ARGUMENT;
    }
    result = diti_run_append(job, cmd, budget_us);
    diti_job_publish(job);
    return result;
}

/* The job is as it was before its newest call, or where a report has sent it back to since. */
static void diti_run_recall(dit_job *job) {
    const diti_job_before *before = &job->before;
    diti_run *run = &job->shares[0]->run;
    diti_lock(&job->status_lock);
    if (before->went_back)
        job->status.preview_id = before->status.preview_id;
    else
        job->status = before->status;
    diti_unlock(&job->status_lock);
    if (before->went_back) return;
    run->cursor = before->cursor;
    run->last_segment = before->last_segment;
    run->judged_chunk = before->judged_chunk;
    run->unjudged = before->unjudged;
    run->restores = before->restores;
    run->submitted_us = before->submitted_us;
    run->all_submitted = false;
}

DIT_API dit_result dit_job_unrecord(dit_job *job) {
    diti_share *first;
    diti_job_before *before;
    if (!job || !job->before.known) return DIT_ERROR_INVALID_ARGUMENT;
    before = &job->before;
    before->known = false;
    first = job->shares[0];
    if (!before->recorded) {
        diti_frame_drop(first->program.plan);
        return DIT_OK;
    }
    diti_run_recall(job);
    diti_plan_unrecord(first->program.plan, before->dispatches);
    diti_job_publish(job);
    return DIT_OK;
}

DIT_API dit_result dit_job_record_took(dit_job *job, uint32_t us) {
    if (!job || !diti_frames_told(job->shares[0]->program.plan, us)) return DIT_ERROR_INVALID_ARGUMENT;
    diti_lock(&job->status_lock);
    job->status.last_slice_us = diti_plan_last_slice_us(job->shares[0]->program.plan);
    diti_unlock(&job->status_lock);
    return DIT_OK;
}
