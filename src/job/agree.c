/* Jobs over several processes. When a job is made, every rank tells every other one with what its devices compute, and
   what its plan comes from. Nobody waits for that before the job's first step: then all ranks take F32 if one of their
   devices has no F16, and a rank that made another call is named. */
#include "job/job.h"

static uint32_t diti_terms_number(const dit_job *job) {
    return DITI_LETTER_TERMS + (job->number >> 4) % DITI_LETTER_TERMS; /* the tag has 4 bits of it */
}

/* Ranks that a job lost count, too: their letters come. */
DIT_INTERNAL dit_result diti_job_tell_terms(dit_job *job, bool made, dit_error *err) {
    diti_peers *peers = job->context->peers;
    dit_result result = DIT_OK;
    diti_terms own = DITI_ZERO;
    uint32_t i;
    for (i = 0; i < job->context->device_count; i++)
        own.lacks |= (uint32_t)(job->context->devices[i]->rung < DITI_RUNG_FP16) << i;
    if (made) diti_terms_write(job, &own);
    for (i = 0; i < peers->rank_count && result >= 0; i++) {
        uint32_t rank = peers->ranks[i];
        if (i == peers->place) continue;
        result = diti_letter_send(peers, job->number, diti_terms_number(job), rank, &own, sizeof own, NULL, err);
        if (result >= 0)
            result =
                diti_letter_ask(peers, job->number, diti_terms_number(job), rank, sizeof own, &job->terms[rank], err);
    }
    job->agrees = made && peers->rank_count > 1 && job->shares[0]->assignment.share_total > 1;
    return result;
}

DIT_INTERNAL void diti_job_drop_terms(dit_job *job) {
    uint32_t rank;
    for (rank = 0; rank < DITI_MAX_DEVICES; rank++)
        if (job->terms[rank]) diti_letter_drop(job->context->peers, &job->terms[rank]);
    if (job->states_letter) diti_letter_drop(job->context->peers, &job->states_letter);
    job->agrees = false;
}

static dit_result diti_terms_compare(const dit_job *job, uint32_t rank, const diti_terms *theirs, dit_error *err) {
    diti_terms own = DITI_ZERO;
    uint32_t i, self = job->context->peers->application.rank;
    diti_terms_write(job, &own);
    for (i = 0; i < DITI_TERMS; i++) {
        char numbers[64] = "";
        if (own.values[i] == theirs->values[i]) continue;
        if ((own.values[i] | theirs->values[i]) >> 32 == 0)
            diti_format(numbers, sizeof numbers, " (%u and %u)", (unsigned)theirs->values[i], (unsigned)own.values[i]);
        return diti_fail(err, DIT_ERROR_TRANSPORT,
                         "rank %u differs from rank %u in %s%s: what they exchange does not fit; every rank must make "
                         "the same calls, with the same model",
                         rank, self, diti_term_name(i), numbers);
    }
    return DIT_OK;
}

/* Ranks whose devices have shares of the job. */
static bool diti_terms_count(const dit_job *job, uint32_t place) {
    const diti_assignment *first = &job->shares[0]->assignment;
    return place * job->context->device_count * (first->folded ? 2u : 1u) < first->share_total;
}

/* DIT_WORKING: some rank with a share has not told its terms. */
static dit_result diti_terms_read(dit_job *job, dit_error *err) {
    diti_peers *peers = job->context->peers;
    dit_result result = DIT_OK;
    uint32_t i;
    for (i = 0; i < peers->rank_count; i++) {
        uint32_t rank = peers->ranks[i];
        diti_letter *letter = job->terms[rank];
        dit_result came;
        diti_terms theirs;
        if (!letter || !diti_terms_count(job, i)) continue;
        came = diti_letter_poll(peers, letter, err);
        if (came < 0) return came;
        if (came == DIT_OK) memcpy(&theirs, diti_letter_text(letter), sizeof theirs);
        if (came != DIT_OK || !theirs.made) {
            result = DIT_WORKING;
            continue;
        }
        peers->lacks[rank] = theirs.lacks;
        if (!job->runs) DITI_TRY(diti_terms_compare(job, rank, &theirs, err)); /* the letters are of the creation */
    }
    return result;
}

static bool diti_terms_want_floats(const dit_job *job) {
    return job->shares[0]->assignment.share_total > 1 && job->shares[0]->program.plan->activation == DITI_F16 &&
           !diti_job_has_halves(job);
}

/* Plans the job for F32. Its run has not begun, and the words that were exchanged for it stay with it. */
static dit_result diti_terms_plan_again(dit_job *job, dit_error *err) {
    diti_peers *peers = job->context->peers;
    dit_result result;
    uint32_t i;
    diti_log(&job->env, DITI_LOG_INFO, "a device of another process has no F16: the job is planned for F32");
    diti_beats_return(job->mesh);
    job->joins = false;
    diti_job_drop_shares(job);
    result = diti_job_replace_program(job, err);
    if (result == DIT_OK) result = diti_job_add_shares(job, &job->context->progress, err);
    diti_beats_made(peers, job->number, job->runs, job->joins, DITI_LEAVING_FAILED);
    if (result == DIT_OK) result = diti_job_write_inputs(job, err);
    for (i = 0; i < job->share_count && result == DIT_OK; i++) {
        diti_plan_begin_stream(job->shares[i]->program.plan, false);
        diti_resume_set_out(job->shares[i], 0, diti_share_predict_us(job->shares[i]));
    }
    return result;
}

DIT_INTERNAL dit_result diti_job_agree(dit_job *job, dit_error *err) {
    bool moved = false;
    dit_result result = diti_terms_read(job, err);
    if (result == DIT_OK && diti_terms_want_floats(job)) result = diti_terms_plan_again(job, err);
    if (result == DIT_OK) {
        diti_job_drop_terms(job);
        if (!job->request.shape.resumes) diti_request_drop_pictures(&job->env, &job->request);
    }
    if (result != DIT_WORKING) return result;
    DITI_TRY(diti_mesh_pump(job->mesh, &moved, err));
    DITI_TRY(diti_mesh_watch(job->mesh, moved, err));
    return DIT_WORKING;
}
