/* Split jobs that go on without a device that fails, or without a process. snapshot.c copies what the solver remembers
   to the host, behind every step of the first share. When a device fails, the others settle, the job is planned anew
   for those that are left, encodes and prepares again, and every share begins its steps with what was copied last. The
   host keeps the pictures of the request in memory, which are encoded again, too. */
#include "job/job.h"

/* --- what must be there before --- */

/* Whether other processes have shares of a job, too. */
static bool diti_job_has_ranks(const dit_job *job) {
    const diti_assignment *first = &job->shares[0]->assignment;
    return first->share_total > job->context->device_count * (first->folded ? 2u : 1u);
}

/* The second device must be able to take the first one's place, which alone has all weights: the same request, on that
   device alone, is planned as a job that never runs, for weights that have come to a device stay there; again where a
   restart takes another plan, which may read others. In several processes the first device of each must be able to take
   any rank's. */
DIT_INTERNAL dit_result diti_snapshot_stand_in(const dit_job *job, const dit_progress *progress, dit_error *err) {
    dit_job *whole;
    diti_share *share;
    dit_result result;
    uint32_t axis;
    if (!job->request.shape.resumes) return DIT_OK;
    whole = (dit_job *)diti_alloc_zero(&job->env, sizeof *whole);
    if (!whole) return diti_fail_memory(err, "the job");
    whole->env = job->env;
    whole->context = job->context;
    whole->model = job->model;
    whole->request = job->request;
    for (axis = 0; axis < DITI_SPLIT_AXES; axis++) whole->request.shape.split.degree[axis] = 1;
    whole->request.shape.split.inputs = whole->request.shape.split.shard = 0;
    share = diti_share_create(whole, job->context->devices[diti_job_has_ranks(job) ? 0 : 1]);
    result = share ? DIT_OK : diti_fail_memory(err, "the job");
    if (share) {
        diti_assign(&whole->request.shape, false, 0, 1, &share->assignment);
        result = diti_share_plan(share, progress, err);
        diti_share_destroy(share);
    }
    diti_free(&job->env, whole);
    return result;
}

/* --- going on --- */

/* Whether every share can get at all weights that a plan of other devices asks it for: without the first device they
   are only where they were needed before. */
static bool diti_resume_has_weights(const dit_job *job) {
    if (diti_device_check(job->model->device, NULL) >= 0) return true;
    if (job->model->transformer->component.weights.streamed && !job->model->stream)
        return true; /* all come from the file */
    if (job->request.shape.split.shard) return false;
    if (job->request.shape.bare && job->request.shape.split.degree[DITI_SPLIT_CFG] > 1) return false;
    return !diti_split_cuts_blocks(&job->request.shape.split);
}

/* The largest split in the same ways that so many devices allow; guidance first, as it sends least. */
static void diti_resume_choose(const dit_job *job, uint32_t devices, diti_split *best) {
    const diti_split *before = &job->request.shape.split;
    diti_split_shape shape;
    diti_split split;
    uint32_t axis, most[DITI_SPLIT_AXES], ranks = 0;
    diti_job_split_shape(job->model, &job->request, &shape);
    split.inputs = best->inputs = split.shard = best->shard = 0;
    for (axis = 0; axis < DITI_SPLIT_AXES; axis++) {
        most[axis] = before->degree[axis] == 1 ? 1 : axis == DITI_SPLIT_CFG ? 2 : devices;
        split.degree[axis] = best->degree[axis] = 1;
    }
    for (;;) { /* every combination, cfg changing slowest */
        uint32_t count = diti_split_ranks(&split);
        if (count <= devices && count >= ranks && diti_split_check(&split, &shape, NULL) == DIT_OK) {
            ranks = count;
            *best = split;
        }
        for (axis = 0; axis < DITI_SPLIT_AXES && split.degree[axis] == most[axis]; axis++) split.degree[axis] = 1;
        if (axis == DITI_SPLIT_AXES) return;
        split.degree[axis]++;
    }
}

/* The rest of the old plan, for the new one: an application may wait for its timeline. NULL: no memory. */
static diti_plan *diti_resume_leave_plan(diti_share *share) {
    diti_plan *plan = share->program.plan, *rest = (diti_plan *)diti_alloc_zero(&plan->device->env, sizeof *rest);
    if (!rest) return NULL;
    diti_plan_forget_stream(plan);
    rest->device = plan->device;
    rest->timeline.semaphore = plan->timeline.semaphore;
    rest->timeline.submitted = plan->timeline.submitted;
    rest->counters = plan->counters;
    plan->timeline.semaphore = VK_NULL_HANDLE;
    plan->timeline.submitted = 0;
    diti_program_destroy(share->device, &share->program);
    memset(&share->program, 0, sizeof share->program);
    return rest;
}

/* The new plan keeps the counters, and on the same device the timeline. Where there is no new plan, the rest stays
   in its place. */
static void diti_resume_take_over(diti_share *share, diti_plan *rest) {
    VkSemaphore other = rest->timeline.semaphore;
    uint64_t submitted;
    bool same = rest->device == share->device;
    if (!share->program.plan) { /* calls of the job find a plan that has nothing to do */
        share->program.plan = rest;
        share->device = rest->device;
        return;
    }
    submitted = share->program.plan->timeline.submitted;
    if (!same) rest->timeline.semaphore = share->program.plan->timeline.semaphore;
    diti_plan_continue(share->program.plan, rest);
    if (!same) {
        share->program.plan->timeline.submitted = submitted;
        rest->timeline.semaphore = other;
    }
    diti_plan_destroy(rest);
}

static dit_result diti_resume_plan(dit_job *job, bool moves, dit_error *err) {
    dit_result result = diti_share_plan(job->shares[0], &job->context->progress, err);
    if (result == DIT_OK) result = diti_job_add_shares(job, &job->context->progress, err);
    if (result == DIT_OK && moves) result = diti_job_images_create(job, err);
    if (result == DIT_OK) result = diti_job_record_copies(job, err);
    return result;
}

/* Devices that are left, in the order of their ranks, and how much of the work each had. */
static uint32_t diti_resume_left(const dit_job *job, uint32_t failed, uint32_t *devices, double *parts) {
    uint32_t folds = job->shares[0]->assignment.folded ? 2 : 1, share, count = 0;
    for (share = 0; share < job->shares[0]->assignment.share_total; share += folds) {
        if (job->device_of_share[share] == job->device_of_share[failed]) continue;
        parts[count] = job->request.shape.shares[share / folds];
        devices[count++] = job->device_of_share[share];
    }
    return count;
}

/* Unequal devices stay as unequal as they were. */
static void diti_resume_shares(dit_job *job, const double *parts) {
    diti_job_shape *shape = &job->request.shape;
    uint32_t ranks = diti_split_ranks(&shape->split), each = ranks / shape->split.degree[DITI_SPLIT_CFG], rank, i;
    bool given = shape->shares[0] > 0;
    memset(shape->shares, 0, sizeof shape->shares);
    for (rank = 0; rank < ranks && given; rank += each) {
        double sum = 0;
        for (i = rank; i < rank + each; i++) sum += parts[i];
        for (i = rank; i < rank + each; i++) shape->shares[i] = parts[i] / sum;
    }
}

/* The job as its request now divides it, on these devices. */
static dit_result diti_resume_divide(dit_job *job, const uint32_t *devices, bool moves, dit_error *err) {
    diti_share *first = job->shares[0];
    diti_plan *rest;
    dit_result result;
    diti_job_drop_shares(job);
    job->previews_lost = job->status.preview_id;
    rest = diti_resume_leave_plan(first);
    if (!rest) return diti_fail_memory(err, "resume_on_loss");
    if (moves) diti_job_images_destroy(job);
    diti_buffer_destroy(first->device, &job->snapshot.buffer);
    job->snapshot.values[0] = job->snapshot.values[1] = 0;
    diti_job_redivide(job, devices);
    first->device = job->context->devices[job->device_of_share[0]];
    job->resumed = true;
    result = diti_resume_plan(job, moves, err);
    diti_resume_take_over(first, rest);
    return result;
}

/* Every share goes on where the states are, or begins anew where there are none. */
static dit_result diti_resume_set_out_all(dit_job *job, double total_us, dit_error *err) {
    dit_result result;
    uint32_t i;
    job->begins_at = job->snapshot.valid ? job->snapshot.step : 0;
    result = diti_job_write_inputs(job, err);
    for (i = 0; i < job->share_count && job->snapshot.valid && result >= 0; i++)
        result = diti_resume_write_states(job->shares[i], &job->snapshot, err);
    for (i = 0; i < job->share_count && result >= 0; i++) diti_resume_set_out(job->shares[i], job->begins_at, total_us);
    return result;
}

/* Without the device of share `failed`. */
static dit_result diti_resume_without(dit_job *job, uint32_t failed, dit_error *err) {
    uint32_t devices[DITI_MAX_DEVICES] = DITI_ZERO, left;
    double parts[DITI_MAX_DEVICES], total_us = job->shares[0]->run.total_us;
    left = diti_resume_left(job, failed, devices, parts);
    diti_resume_choose(job, diti_resume_has_weights(job) ? left : 1, &job->request.shape.split);
    diti_resume_shares(job, parts);
    DITI_TRY(diti_resume_divide(job, devices, job->device_of_share[failed] == job->device_of_share[0], err));
    return diti_resume_set_out_all(job, total_us, err);
}

static void diti_resume_log(dit_job *job, const char *why, uint32_t devices) {
    char name[DITI_SPLIT_NAME];
    diti_log(&job->env, DITI_LOG_WARNING, "%s; going on at step %u with split %s", why, job->begins_at + 1,
             diti_split_print(&job->request.shape.split, name));
    diti_lock(&job->status_lock);
    job->status.failed_devices += devices;
    diti_unlock(&job->status_lock);
}

/* --- in several processes --- */

/* Rank 0 sends this before it goes on; behind it stand the states. */
typedef struct diti_resume_word {
    uint32_t goes_on, valid, step, bytes;
} diti_resume_word;

static dit_result diti_resume_send(diti_peers *peers, const diti_snapshot *snapshot, bool goes_on, uint32_t number,
                                   uint32_t rank, dit_error *err) {
    size_t size = sizeof(diti_resume_word) + snapshot->bytes;
    unsigned char *text = (unsigned char *)diti_alloc(&peers->env, size);
    diti_resume_word word;
    dit_result result;
    if (!text) return diti_fail_memory(err, "resume_on_loss");
    word.goes_on = goes_on;
    word.valid = snapshot->valid;
    word.step = snapshot->step;
    word.bytes = (uint32_t)snapshot->bytes;
    memcpy(text, &word, sizeof word);
    memcpy(text + sizeof word, snapshot->states, snapshot->bytes);
    result = diti_letter_send(peers, number, 0, rank, text, size, NULL, err);
    diti_free(&peers->env, text);
    return result;
}

/* This rank has nothing to do in the rest of the run. */
static void diti_resume_end(dit_job *job) {
    diti_job_drop_shares(job);
    job->resumed = true;
    diti_lock(&job->status_lock);
    job->status.result = DIT_OK;
    job->status.stage = DIT_STAGE_DONE;
    job->status.fraction = 1;
    diti_unlock(&job->status_lock);
}

/* Without a rank: those that are left divide the work among them in the same way, each for itself. The first one, which
   has the picture, sends the others what it remembers. */
static dit_result diti_resume_without_rank(dit_job *job, uint32_t lost, dit_error *err) {
    diti_peers *peers = job->context->peers;
    const diti_assignment *assignment = &job->shares[0]->assignment;
    uint32_t folds = assignment->folded ? 2 : 1, ranks = assignment->share_total / folds, number = job->mesh->job;
    uint32_t devices[DITI_MAX_DEVICES], others[DITI_MAX_DEVICES], left = 0, count = 0, taken, i;
    double parts[DITI_MAX_DEVICES];
    bool first = assignment->share == 0, known = !job->request.shape.start_image || job->snapshot.valid;
    dit_result result = DIT_OK;
    for (i = 0; i < ranks; i++) {
        uint32_t rank = job->mesh->ranks[i / peers->count];
        if (rank == lost) continue;
        if (i % peers->count == 0) others[count++] = rank;
        parts[left++] = job->request.shape.shares[i];
    }
    for (i = 0; i < DITI_MAX_DEVICES; i++) devices[i] = i;
    diti_peers_leave_out(peers, lost);
    diti_resume_choose(job, left, &job->request.shape.split);
    diti_resume_shares(job, parts);
    taken = diti_split_ranks(&job->request.shape.split);
    job->joins = false;
    diti_beats_aim(peers, number, ++job->runs);
    if (!first && peers->first >= taken) {
        diti_resume_end(job);
        diti_beats_made(peers, number, job->runs, false, DITI_LEAVING_DONE);
        return DIT_OK;
    }
    if (!first)
        result = diti_letter_ask(peers, number, 0, others[0], sizeof(diti_resume_word) + job->snapshot.bytes,
                                 &job->states_letter, err);
    else if (!known)
        result = diti_fail(
            err, DIT_ERROR_TRANSPORT,
            "rank %u is gone before the first step was over, and a start picture in a VkImage is not kept", lost);
    job->states_looked_us = job->states_waited_us = 0;
    if (result == DIT_OK) result = diti_resume_divide(job, devices, false, err);
    diti_beats_made(peers, number, job->runs, job->joins, result == DIT_OK ? DITI_LEAVING_DONE : DITI_LEAVING_FAILED);
    for (i = 1; first && i < count; i++)
        if (result != DIT_OK || i * peers->count < taken) {
            dit_result sent =
                diti_resume_send(peers, &job->snapshot, result == DIT_OK, number, others[i], result < 0 ? NULL : err);
            if (result == DIT_OK) result = sent;
        }
    if (result == DIT_OK && first) result = diti_resume_set_out_all(job, job->shares[0]->run.total_us, err);
    return result;
}

DIT_INTERNAL dit_result diti_resume_take_states(dit_job *job, dit_error *err) {
    const unsigned char *text = (const unsigned char *)diti_letter_text(job->states_letter);
    diti_peers *peers = job->context->peers;
    bool moved = false;
    diti_resume_word word;
    dit_result result = diti_letter_poll(peers, job->states_letter, err);
    if (result == DIT_WORKING && job->mesh) DITI_TRY(diti_mesh_pump(job->mesh, &moved, err));
    if (result == DIT_WORKING) job->states_waited_us += diti_clock_passed(&job->states_looked_us);
    if (job->states_waited_us > peers->limit_us)
        return diti_fail(err, DIT_ERROR_TRANSPORT, "rank %u does not say where the job goes on", peers->ranks[0]);
    if (result != DIT_OK) return result;
    memcpy(&word, text, sizeof word);
    if (!word.goes_on || word.bytes != job->snapshot.bytes) {
        diti_letter_drop(peers, &job->states_letter);
        return diti_fail(err, DIT_ERROR_TRANSPORT, "rank %u does not go on; its error says why", peers->ranks[0]);
    }
    job->snapshot.valid = word.valid;
    job->snapshot.step = word.step;
    memcpy(job->snapshot.states, text + sizeof word, job->snapshot.bytes);
    diti_letter_drop(peers, &job->states_letter);
    DITI_TRY(diti_resume_set_out_all(job, job->shares[0]->run.total_us, err));
    diti_log(&job->env, DITI_LOG_INFO, "this rank goes on at step %u, too", job->begins_at + 1);
    return DIT_OK;
}

/* The rank that this job can go on without; else UINT32_MAX. */
static uint32_t diti_resume_lost(const dit_job *job, const dit_error *why) {
    uint32_t lost, i;
    if (!job->mesh || !job->request.shape.resumes || job->resumed || job->recording ||
        why->result != DIT_ERROR_TRANSPORT)
        return UINT32_MAX;
    for (i = 0; i < job->share_count; i++)
        if (diti_device_check(job->shares[i]->device, NULL) < 0) return UINT32_MAX;
    lost = diti_beats_lost(job->mesh);
    return lost == job->mesh->ranks[0] || lost == job->context->peers->application.rank ? UINT32_MAX : lost;
}

static dit_result diti_job_resume_ranks(dit_job *job, dit_error *why) {
    diti_share *first = job->shares[0];
    uint32_t lost = diti_resume_lost(job, why);
    dit_error other = DITI_ZERO;
    dit_result result;
    if (lost == UINT32_MAX) return why->result;
    diti_job_settle(job);
    if (job->snapshot.buffer.buffer) diti_snapshot_poll(first, first->program.plan->timeline.submitted);
    result = diti_resume_without_rank(job, lost, &other);
    if (result < 0) *why = other;
    DITI_TRY(result);
    diti_resume_log(job, why->message, job->context->peers->count);
    return DIT_OK;
}

/* The share on the device that why names, if others can go on; else UINT32_MAX. */
static uint32_t diti_resume_failed(const dit_job *job, const dit_error *why) {
    const diti_job_shape *shape = &job->request.shape;
    uint32_t i, failed = UINT32_MAX;
    if (!shape->resumes || job->resumed || job->recording) return UINT32_MAX;
    if (why->result != DIT_ERROR_DEVICE_LOST && why->result != DIT_ERROR_OUT_OF_DEVICE_MEMORY) return UINT32_MAX;
    for (i = 0; i < job->share_count; i++)
        if (job->device_of_share[i] + 1 == why->device && failed == UINT32_MAX) failed = i;
    if (failed == 0 && (job->target.image || shape->start_image)) return UINT32_MAX; /* both are on that device */
    return shape->start_image && !job->snapshot.valid ? UINT32_MAX : failed;         /* may have changed meanwhile */
}

DIT_INTERNAL dit_result diti_job_resume(dit_job *job, dit_error *why) {
    diti_share *first = job->shares[0];
    uint32_t failed, i;
    dit_error other = DITI_ZERO;
    dit_result result;
    if (diti_job_has_ranks(job)) return diti_job_resume_ranks(job, why);
    failed = diti_resume_failed(job, why);
    if (failed == UINT32_MAX) return why->result;
    diti_job_settle(job);
    for (i = 0; i < job->share_count; i++) /* strips: it may have come into what was kept */
        if (job->shares[i]->run.health.blocked && diti_strips_used(&job->request.shape)) job->snapshot.valid = false;
    for (i = 0; i < job->share_count; i++) {
        if (job->device_of_share[i] == job->device_of_share[failed] ||
            diti_device_check(job->shares[i]->device, NULL) >= 0)
            continue;
        return diti_fail(why, DIT_ERROR_DEVICE_LOST,
                         "devices %u and %u failed; a job goes on without one device, not without two",
                         job->device_of_share[failed], job->device_of_share[i]);
    }
    if (diti_device_check(first->device, NULL) >= 0) diti_snapshot_poll(first, first->program.plan->timeline.submitted);
    result = diti_resume_without(job, failed, &other);
    if (result != DIT_OK) {
        if (result < 0) *why = other;
        return why->result;
    }
    diti_resume_log(job, why->message, 1);
    return DIT_OK;
}
