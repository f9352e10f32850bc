/* DIT_NO_CACHE: every step computes all blocks. */
#include "job/job.h"

DIT_INTERNAL dit_result diti_job_request_cache(const dit_model *model, const dit_job_desc *desc, diti_job_request *out,
                                               dit_error *err) {
    (void)model, (void)out;
    if (!desc->cache) return DIT_OK;
    return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                     "dit_job_desc: cache must be NULL: this build was made without caching (DIT_NO_CACHE)");
}

DIT_INTERNAL dit_result diti_job_request_reuse(const dit_model *model, const diti_env *env, const dit_job_desc *desc,
                                               diti_job_request *out, dit_error *err) {
    (void)model, (void)env, (void)desc, (void)out, (void)err;
    return DIT_OK;
}

DIT_INTERNAL bool diti_job_reuses(const dit_job *job, uint32_t step) {
    (void)job, (void)step;
    return false;
}

DIT_INTERNAL uint32_t diti_job_reused(dit_job *job) {
    (void)job;
    return 0;
}

DIT_INTERNAL void diti_reuse_begin(diti_share *share, diti_graph *graph) { (void)share, (void)graph; }

DIT_INTERNAL void diti_reuse_select(diti_share *share, diti_graph *graph, diti_step_kind kind, bool reuses) {
    (void)share, (void)graph, (void)kind, (void)reuses;
}

DIT_INTERNAL dit_result diti_reuse_write(diti_share *share, dit_error *err) {
    (void)share, (void)err;
    return DIT_OK;
}
