/* The order in which a run comes to the segments of its plan, how often, and how long that takes. */
#include "job/job.h"

DIT_INTERNAL bool diti_share_is_step(const diti_share *share, uint32_t segment) {
    return segment >= share->program.step_segment && segment < share->program.decode_segment &&
           segment != share->program.preview_segment;
}

DIT_INTERNAL bool diti_share_counts(const diti_share *share, uint32_t segment) {
    return diti_share_is_step(share, segment) && !diti_strips_is(share, segment, DITI_FORM_REST);
}

static uint32_t diti_run_step_segment(const diti_share *share, uint32_t step) {
    const diti_job_request *request = &share->job->request;
    diti_step_form form = diti_strips_whole(request, share->job->begins_at, step) ? DITI_FORM_WHOLE : DITI_FORM_STRIPS;
    uint32_t variant = diti_job_step_variant(request, step);
    if (diti_job_reuses(share->job, step))
        return share->program.reuse_segments[diti_job_is_low(share->job, step)][form][variant];
    return diti_job_is_low(share->job, step) ? share->program.low_segments[variant]
                                             : share->program.step_segments[form][variant];
}

/* Whether the next step is the first one of the expert for low noise, which has to be prepared. */
static bool diti_run_enters_low(const diti_share *share, uint32_t segment, uint32_t step) {
    const dit_job *job = share->job;
    return segment != share->program.low_prepare && step < job->request.shape.steps && diti_job_is_low(job, step) &&
           (step == job->begins_at || !diti_job_is_low(job, step - 1));
}

/* The segment that comes after a segment, if all that was submitted has the effect that is hoped for. */
static uint32_t diti_run_after(const diti_share *share, uint32_t segment, uint32_t repeat) {
    const dit_job *job = share->job;
    bool step = diti_share_is_step(share, segment);
    uint32_t next = diti_strips_after(share, segment, repeat);
    bool kept = job->resumed && job->snapshot.valid; /* the outcome of the start picture */
    uint32_t skipped = kept && segment + 1 == share->program.start_segment ? 1 : 0;
    uint32_t first = share->program.low_prepare < share->program.step_segment ? share->program.low_prepare
                                                                              : share->program.step_segment;
    if (segment + 1 + skipped < first) return segment + 1 + skipped;
    if (segment >= share->program.decode_segment) return segment + 1;
    if (next != UINT32_MAX) return next;
    if (step && diti_job_preview_due(job, repeat)) return share->program.preview_segment;
    if (diti_run_enters_low(share, segment, repeat)) return share->program.low_prepare;
    return repeat < job->request.shape.steps ? diti_run_step_segment(share, repeat) : share->program.decode_segment;
}

static void diti_run_next(const diti_share *share, diti_job_cursor *cursor) {
    cursor->slice = 0;
    if (diti_share_counts(share, cursor->segment)) cursor->repeat++;
    if (cursor->segment > share->program.decode_segment) cursor->chunk++;
    cursor->segment = cursor->segment >= share->program.decode_segment && share->program.chunk_count
                          ? diti_clip_segment(share, cursor->chunk)
                          : diti_run_after(share, cursor->segment, cursor->repeat);
}

DIT_INTERNAL void diti_run_advance(const diti_share *share, diti_job_cursor *cursor) {
    if (++cursor->slice >= diti_plan_slice_count(share->program.plan, cursor->segment)) diti_run_next(share, cursor);
}

DIT_INTERNAL uint32_t diti_share_runs(const diti_share *share, uint32_t segment, uint32_t steps) {
    diti_job_cursor cursor = DITI_ZERO;
    uint32_t runs = 0;
    while (cursor.segment <= share->program.last_segment && cursor.repeat < steps) {
        runs += cursor.segment == segment;
        diti_run_next(share, &cursor);
    }
    return runs;
}

static double diti_segment_us(const diti_share *share, uint32_t segment) {
    double us = 0;
    uint32_t i;
    for (i = 0; i < diti_plan_slice_count(share->program.plan, segment); i++)
        us += (double)diti_plan_slice_planned_us(share->program.plan, segment, i);
    return us;
}

DIT_INTERNAL double diti_share_steps_us(const diti_share *share, uint32_t steps) {
    double us = 0;
    uint32_t segment;
    for (segment = share->program.step_segment; segment < share->program.decode_segment; segment++)
        if (diti_share_is_step(share, segment))
            us += diti_share_runs(share, segment, steps) * diti_segment_us(share, segment);
    return us;
}

DIT_INTERNAL double diti_share_predict_us(const diti_share *share) {
    double us = 0;
    uint32_t segment;
    for (segment = 0; segment < share->program.plan->segment_count; segment++)
        us += diti_share_runs(share, segment, UINT32_MAX) * diti_segment_us(share, segment);
    return us;
}

DIT_INTERNAL bool diti_job_must_repeat(const dit_job *job) {
    diti_health health;
    if (!job->recording) return false;
    diti_guard_read(job->shares[0]->program.plan, &health);
    return health.blocked != 0;
}

DIT_INTERNAL uint64_t diti_job_load_bytes(uint32_t budget_us) {
    const uint64_t least = (uint64_t)1 << 20, most = (uint64_t)16 << 20;
    uint64_t bytes = (uint64_t)budget_us * 2048u;
    return bytes < least ? least : bytes < most ? bytes : most;
}
