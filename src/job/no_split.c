/* DIT_NO_SPLIT: a job on one device has one share, which is all of it, and evaluates whole steps. */
#include "job/job.h"

DIT_INTERNAL dit_result diti_job_choose(const dit_model *model, const dit_context *context, const dit_job *made,
                                        diti_job_request *request, dit_error *err) {
    (void)model, (void)context, (void)made, (void)request, (void)err;
    return DIT_OK;
}

DIT_INTERNAL void diti_job_choose_nothing(const dit_job *job) { (void)job; }

DIT_INTERNAL void diti_job_split_shape(const dit_model *model, const diti_job_request *request, diti_split_shape *out) {
    (void)model, (void)request;
    memset(out, 0, sizeof *out);
}

DIT_INTERNAL void diti_assign(const diti_job_shape *shape, bool folded, uint32_t share, uint32_t total,
                              diti_assignment *out) {
    (void)folded, (void)share, (void)total;
    memset(out, 0, sizeof *out);
    out->share_total = 1;
    out->branches = diti_job_branches(shape);
}

DIT_INTERNAL dit_result diti_job_divide(dit_job *job, const dit_context *context, dit_error *err) {
    diti_share *share = diti_share_create(job, context ? context->device : NULL);
    if (!share) return diti_fail_memory(err, "the job");
    job->request.shape.resumes = false; /* no other device can go on */
    diti_assign(&job->request.shape, false, 0, 1, &share->assignment);
    return DIT_OK;
}

DIT_INTERNAL dit_result diti_job_add_shares(dit_job *job, const dit_progress *progress, dit_error *err) {
    (void)job, (void)progress, (void)err;
    return DIT_OK;
}

DIT_INTERNAL dit_result diti_job_join(dit_job *job, dit_error *err) {
    (void)job, (void)err;
    return DIT_OK;
}

DIT_INTERNAL void diti_job_drop_shares(dit_job *job) { (void)job; }

DIT_INTERNAL void diti_job_settle(dit_job *job) { diti_plan_wait(job->shares[0]->program.plan); }

DIT_INTERNAL const char *diti_job_print_split(const diti_job_shape *shape, char out[DITI_SPLIT_NAME]) {
    (void)shape;
    return diti_split_print_plan(NULL, out);
}

DIT_INTERNAL void diti_share_describe(const diti_share *share, dit_share *out) {
    (void)share;
    memset(out, 0, sizeof *out);
    diti_format(out->work, sizeof out->work, "everything");
    out->part = 1;
}

/* --- strips.c --- */

DIT_INTERNAL bool diti_strips_has(const diti_share *share, uint32_t variant, diti_step_form form) {
    return form == DITI_FORM_WHOLE && (share->job->request.shape.variants >> variant & 1u);
}

DIT_INTERNAL uint32_t diti_strips_after(const diti_share *share, uint32_t segment, uint32_t steps) {
    (void)share, (void)segment, (void)steps;
    return UINT32_MAX;
}

DIT_INTERNAL bool diti_strips_is(const diti_share *share, uint32_t segment, diti_step_form form) {
    (void)share, (void)segment, (void)form;
    return false;
}

DIT_INTERNAL void diti_strips_begin(diti_share *share, diti_graph *graph) { (void)share, (void)graph; }

DIT_INTERNAL bool diti_strips_emit(diti_share *share, diti_graph *graph, diti_step_kind kind, diti_step_form form,
                                   bool reuses, const diti_solver_desc *states) {
    (void)share, (void)graph, (void)kind, (void)form, (void)reuses, (void)states;
    return false;
}

DIT_INTERNAL void diti_strips_share_latent(diti_share *share, diti_graph *graph) { (void)share, (void)graph; }

/* --- agree.c --- */

DIT_INTERNAL dit_result diti_job_tell_terms(dit_job *job, bool made, dit_error *err) {
    (void)job, (void)made, (void)err;
    return DIT_OK;
}

DIT_INTERNAL dit_result diti_job_agree(dit_job *job, dit_error *err) {
    (void)job, (void)err;
    return DIT_OK;
}

DIT_INTERNAL void diti_job_drop_terms(dit_job *job) { (void)job; }

/* --- resume.c --- */

DIT_INTERNAL dit_result diti_snapshot_stand_in(const dit_job *job, const dit_progress *progress, dit_error *err) {
    (void)job, (void)progress, (void)err;
    return DIT_OK;
}

DIT_INTERNAL dit_result diti_job_resume(dit_job *job, dit_error *why) {
    (void)job;
    return why->result;
}

DIT_INTERNAL dit_result diti_resume_take_states(dit_job *job, dit_error *err) {
    (void)job, (void)err;
    return DIT_OK;
}
