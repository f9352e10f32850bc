/* The order in which a run comes to the segments of its plan, how often, and how long that takes. */
#include "job/job.h"

DIT_INTERNAL bool diti_job_is_step(const dit_job *job, uint32_t segment) {
    return segment >= job->program.step_segment && segment < job->program.decode_segment &&
           segment != job->program.preview_segment;
}

DIT_INTERNAL bool diti_job_counts(const dit_job *job, uint32_t segment) {
    return diti_job_is_step(job, segment) && !diti_patches_is(job, segment, DITI_FORM_REST);
}

static uint32_t diti_run_step_segment(const dit_job *job, uint32_t step) {
    diti_step_form form = diti_patches_whole(job, step) ? DITI_FORM_WHOLE : DITI_FORM_PATCHES;
    return job->program.step_segments[form][diti_job_step_kind(&job->request, step)];
}

/* The segment that comes after a segment, if all that was submitted has the effect that is hoped for. */
static uint32_t diti_run_after(const dit_job *job, uint32_t segment, uint32_t repeat) {
    bool step = diti_job_is_step(job, segment);
    uint32_t next = diti_patches_after(job, segment, repeat);
    uint32_t skipped = job->resumed && segment + 1 == job->program.start_segment ? 1 : 0; /* its outcome was kept */
    if (segment + 1 + skipped < job->program.step_segment) return segment + 1 + skipped;
    if (segment >= job->program.decode_segment) return segment + 1;
    if (next != UINT32_MAX) return next;
    if (step && diti_job_preview_due(job, repeat)) return job->program.preview_segment;
    return repeat < job->request.shape.steps ? diti_run_step_segment(job, repeat) : job->program.decode_segment;
}

static void diti_run_next(const dit_job *job, diti_job_cursor *cursor) {
    cursor->slice = 0;
    if (diti_job_counts(job, cursor->segment)) cursor->repeat++;
    cursor->segment = diti_run_after(job, cursor->segment, cursor->repeat);
}

DIT_INTERNAL void diti_run_advance(const dit_job *job, diti_job_cursor *cursor) {
    if (++cursor->slice >= diti_plan_slice_count(job->program.plan, cursor->segment)) diti_run_next(job, cursor);
}

DIT_INTERNAL uint32_t diti_job_runs(const dit_job *job, uint32_t segment, uint32_t steps) {
    diti_job_cursor cursor = DITI_ZERO;
    uint32_t runs = 0;
    while (cursor.segment <= job->program.decode_segment && cursor.repeat < steps) {
        runs += cursor.segment == segment;
        diti_run_next(job, &cursor);
    }
    return runs;
}

static double diti_segment_us(const dit_job *job, uint32_t segment) {
    double us = 0;
    uint32_t i;
    for (i = 0; i < diti_plan_slice_count(job->program.plan, segment); i++)
        us += (double)diti_plan_slice_planned_us(job->program.plan, segment, i);
    return us;
}

DIT_INTERNAL double diti_job_steps_us(const dit_job *job, uint32_t steps) {
    double us = 0;
    uint32_t segment;
    for (segment = job->program.step_segment; segment < job->program.decode_segment; segment++)
        if (diti_job_is_step(job, segment)) us += diti_job_runs(job, segment, steps) * diti_segment_us(job, segment);
    return us;
}

DIT_INTERNAL double diti_job_predict_us(const dit_job *job) {
    double us = 0;
    uint32_t segment;
    for (segment = 0; segment < job->program.plan->segment_count; segment++)
        us += diti_job_runs(job, segment, UINT32_MAX) * diti_segment_us(job, segment);
    return us;
}

DIT_INTERNAL bool diti_job_must_repeat(const dit_job *job) {
    diti_health health;
    if (!job->run.recording) return false;
    diti_guard_read(job->program.plan, &health);
    return health.blocked != 0;
}
