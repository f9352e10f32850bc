/* Jobs over several processes. When a job is made, every rank tells every other one with what its devices compute, and
   what its plan comes from. Nobody waits for that before the job's first step: then all ranks take F32 if one of their
   devices has no F16, and a rank that made another call is named. The first word of a run (beats.c) says what a restart
   may have changed of that, so that no restart waits for letters. */
#include "job/job.h"

typedef enum diti_term {
    DITI_TERM_DEVICES,
    DITI_TERM_CHUNK,
    DITI_TERM_MODEL,
    DITI_TERM_MATRICES,
    DITI_TERM_SPLIT,
    DITI_TERM_WIDTH,
    DITI_TERM_HEIGHT,
    DITI_TERM_IMAGES,
    DITI_TERM_FRAMES,
    DITI_TERM_STEPS,
    DITI_TERM_TEXT,
    DITI_TERM_GUIDANCE,
    DITI_TERM_CACHE,
    DITI_TERM_PICTURES,
    DITI_TERM_TILE,
    DITI_TERMS
} diti_term;

/* A rank's letter. */
typedef struct diti_terms {
    uint32_t made;  /* 0: the call has failed before a plan was made, as the rank's last word says */
    uint32_t lacks; /* bit i: device i of the process computes without halves */
    uint64_t values[DITI_TERMS];
} diti_terms;

static const char *diti_term_name(uint32_t term) {
    static const char *const names[DITI_TERMS] = {"the number of its devices",
                                                  "override chunk",
                                                  "the model's transformer",
                                                  "types of the transformer's matrices, which shard sends",
                                                  "split",
                                                  "width",
                                                  "height",
                                                  "image_count",
                                                  "frame_count",
                                                  "steps",
                                                  "the number of tokens of its prompts",
                                                  "guidance",
                                                  "cache",
                                                  "which pictures are given",
                                                  "vae_tile"};
    return names[term];
}

static uint64_t diti_terms_mix(uint64_t hash, uint64_t value) {
    uint64_t both[2];
    both[0] = hash;
    both[1] = value;
    return diti_hash(both, sizeof both);
}

static uint64_t diti_terms_model(const dit_model *model) {
    const diti_model_traits *traits = &model->transformer->traits;
    uint64_t hash = diti_hash(model->info.family, strlen(model->info.family));
    hash = diti_terms_mix(hash, diti_hash(model->info.variant, strlen(model->info.variant)));
    hash = diti_terms_mix(hash, (uint64_t)traits->layers << 32 | traits->width);
    return diti_terms_mix(hash, (uint64_t)traits->heads << 32 | traits->patch);
}

static uint64_t diti_terms_matrices(const dit_model *model) {
    const diti_weights *weights = &model->transformer->component.weights;
    uint64_t hash = 0;
    size_t i;
    for (i = 0; i < DITI_TALLIES; i++) hash = diti_terms_mix(hash, weights->types[i].bytes);
    return hash;
}

static uint64_t diti_terms_split(const diti_job_shape *shape) {
    char name[DITI_SPLIT_NAME];
    diti_job_print_split(shape, name);
    return diti_terms_mix(diti_hash(name, strlen(name)), diti_hash(shape->shares, sizeof shape->shares));
}

static uint32_t diti_terms_tokens(const diti_job_shape *shape) { return shape->encoded_rows + shape->given_rows; }

static uint64_t diti_terms_guidance(const diti_job_shape *shape) {
    return (uint64_t)shape->guided << 32 | (uint64_t)shape->mixed << 33 | (uint64_t)shape->kinds << 34 |
           shape->text_rows;
}

static uint64_t diti_terms_cache(const diti_job_shape *shape) {
    return diti_terms_mix((uint64_t)shape->reuse_variants[0] << 32 | shape->reuse_variants[1],
                          (uint64_t)shape->reuse.policy);
}

static uint64_t diti_terms_pictures(const diti_job_shape *shape) {
    uint64_t hash = (uint64_t)shape->controls << 32 | shape->reference_count;
    hash = diti_terms_mix(hash, (uint64_t)shape->given_count << 32 | shape->hold_count);
    return diti_terms_mix(hash, (uint32_t)shape->starts | (uint32_t)shape->masked << 1 |
                                    (uint32_t)shape->repaints << 2 | (uint32_t)shape->follows << 3);
}

static void diti_terms_write(const dit_job *job, diti_terms *out) {
    const diti_job_shape *shape = &job->request.shape;
    uint64_t *values = out->values;
    values[DITI_TERM_DEVICES] = job->context->device_count;
    values[DITI_TERM_CHUNK] = job->context->peers->chunk;
    values[DITI_TERM_MODEL] = diti_terms_model(job->model);
    if (shape->split.shard) values[DITI_TERM_MATRICES] = diti_terms_matrices(job->model);
    values[DITI_TERM_SPLIT] = diti_terms_split(shape);
    values[DITI_TERM_WIDTH] = shape->width;
    values[DITI_TERM_HEIGHT] = shape->height;
    values[DITI_TERM_IMAGES] = shape->image_count;
    values[DITI_TERM_FRAMES] = shape->frames;
    values[DITI_TERM_STEPS] = shape->steps;
    values[DITI_TERM_TEXT] = diti_terms_tokens(shape);
    values[DITI_TERM_GUIDANCE] = diti_terms_guidance(shape);
    values[DITI_TERM_CACHE] = diti_terms_cache(shape);
    values[DITI_TERM_PICTURES] = diti_terms_pictures(shape);
    values[DITI_TERM_TILE] = shape->vae_tile;
    out->made = 1;
}

DIT_INTERNAL uint32_t diti_job_run_terms(const dit_job *job) {
    const diti_job_shape *shape = &job->request.shape;
    uint64_t rest = diti_terms_mix(diti_terms_guidance(shape), diti_terms_cache(shape));
    rest = diti_terms_mix(rest, diti_terms_pictures(shape));
    return (diti_terms_tokens(shape) & DITI_TERMS_TOKENS) | ((uint32_t)(rest & 0x3ffu) << 14);
}

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
