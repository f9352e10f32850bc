/* A job's plan is made anew: for a restart with other rows of text, LoRAs or control nets, and for F32 where another
   process has no F16. */
#include "job/job.h"

/* Plans job->request anew; the new plan goes on where that of *before stood. */
static dit_result diti_job_plan_again(dit_job *job, const diti_program *before, dit_error *err) {
    diti_share *first = job->shares[0];
    dit_result result;
    memset(&first->program, 0, sizeof first->program);
    result = diti_share_plan(first, &job->context->progress, err);
    if (result == DIT_OK) result = diti_job_record_copies(job, err);
    if (result == DIT_OK) result = diti_snapshot_record(job, err);
    if (result == DIT_OK) diti_plan_continue(first->program.plan, before->plan);
    return result;
}

DIT_INTERNAL dit_result diti_job_replace_program(dit_job *job, dit_error *err) {
    diti_share *first = job->shares[0];
    diti_program *before = (diti_program *)diti_alloc(&job->env, sizeof *before);
    dit_result result;
    if (!before) return diti_fail_memory(err, "the job");
    *before = first->program;
    result = diti_job_plan_again(job, before, err);
    diti_program_destroy(first->device, result == DIT_OK ? before : &first->program);
    if (result != DIT_OK) first->program = *before;
    diti_free(&job->env, before);
    return result;
}
