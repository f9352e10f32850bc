/* The states of a solver behind each step, copied to the host by the first share: so that others go on where a device
   fails (resume.c), or another job where this one ended (dit_job_save_state). */
#include "job/job.h"

/* --- what is kept --- */

/* The latent, what the solver remembers, and of either expert how many steps reused blocks, where the device decides.
 */
enum { DITI_SNAPSHOT_TENSORS = 5 };

/* 0: the job has no such tensor. */
static diti_tensor diti_snapshot_tensor(const diti_share *share, uint32_t i) {
    if (i > 2) return share->program.residuals[i - 3].count;
    return i ? share->program.history[i - 1] : share->program.latent;
}

static VkDeviceSize diti_snapshot_bytes(const diti_share *share) {
    VkDeviceSize bytes = 0;
    uint32_t i;
    for (i = 0; i < DITI_SNAPSHOT_TENSORS; i++) {
        diti_tensor index = diti_snapshot_tensor(share, i);
        const diti_tensor_info *tensor = &share->program.plan->tensors[index];
        if (index) bytes += (VkDeviceSize)tensor->rows * tensor->columns * sizeof(float);
    }
    return bytes;
}

static void diti_snapshot_barrier(const diti_share *share, VkCommandBuffer commands, VkPipelineStageFlags from,
                                  VkPipelineStageFlags to, VkAccessFlags access) {
    VkMemoryBarrier barrier;
    memset(&barrier, 0, sizeof barrier);
    barrier.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER;
    barrier.srcAccessMask = VK_ACCESS_MEMORY_WRITE_BIT;
    barrier.dstAccessMask = access;
    share->device->vk.CmdPipelineBarrier(commands, from, to, 0, 1, &barrier, 0, NULL, 0, NULL);
}

/* Rows of a tensor, and in host memory one behind the other from *at, which moves on. */
static void diti_snapshot_record_rows(const diti_share *share, VkCommandBuffer commands, diti_tensor index,
                                      VkBuffer host, VkDeviceSize *at, bool back) {
    const diti_tensor_info *tensor = &share->program.plan->tensors[index];
    uint32_t row, rows = tensor->rows;
    VkDeviceSize offset, size, pitch = (VkDeviceSize)tensor->pitch * sizeof(float);
    VkBuffer buffer = diti_plan_buffer(share->program.plan, index, &offset, &size);
    VkBufferCopy copy;
    copy.size = (VkDeviceSize)tensor->columns * sizeof(float);
    if (copy.size == pitch) {
        copy.size *= rows;
        rows = 1;
    }
    for (row = 0; row < rows; row++, *at += copy.size) {
        copy.srcOffset = back ? *at : offset + row * pitch;
        copy.dstOffset = back ? offset + row * pitch : *at;
        share->device->vk.CmdCopyBuffer(commands, back ? host : buffer, back ? buffer : host, 1, &copy);
    }
}

static void diti_snapshot_record_states(const diti_share *share, VkCommandBuffer commands, VkBuffer host,
                                        VkDeviceSize at, bool back) {
    const VkPipelineStageFlags all = VK_PIPELINE_STAGE_ALL_COMMANDS_BIT, transfer = VK_PIPELINE_STAGE_TRANSFER_BIT;
    const VkAccessFlags any = VK_ACCESS_MEMORY_READ_BIT | VK_ACCESS_MEMORY_WRITE_BIT;
    uint32_t i;
    diti_snapshot_barrier(share, commands, all, transfer, VK_ACCESS_TRANSFER_READ_BIT | VK_ACCESS_TRANSFER_WRITE_BIT);
    for (i = 0; i < DITI_SNAPSHOT_TENSORS; i++)
        if (diti_snapshot_tensor(share, i))
            diti_snapshot_record_rows(share, commands, diti_snapshot_tensor(share, i), host, &at, back);
    if (back) diti_snapshot_record_rows(share, commands, share->program.step_row, host, &at, back);
    diti_snapshot_barrier(share, commands, transfer, all | VK_PIPELINE_STAGE_HOST_BIT, any | VK_ACCESS_HOST_READ_BIT);
}

DIT_INTERNAL dit_result diti_snapshot_record(dit_job *job, dit_error *err) {
    diti_share *first = job->shares[0];
    dit_result result = DIT_OK;
    uint32_t place;
    for (place = 0; place < 2 && result >= 0 && job->snapshot.buffer.buffer; place++) {
        result = diti_share_allocate_commands(first, &first->program.snapshot_copies[place], err);
        if (result < 0) break;
        diti_snapshot_record_states(first, first->program.snapshot_copies[place], job->snapshot.buffer.buffer,
                                    place * job->snapshot.bytes, false);
        result = diti_share_end_commands(first, first->program.snapshot_copies[place], err);
    }
    return result;
}

DIT_INTERNAL dit_result diti_snapshot_create(dit_job *job, dit_error *err) {
    diti_snapshot *snapshot = &job->snapshot;
    const char *asked = job->request.shape.keeps ? "keep_state" : "resume_on_loss";
    if (!job->request.shape.resumes && !job->request.shape.keeps) return DIT_OK;
    if (job->request.shape.keeps && job->shares[0]->assignment.share_total > 1)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "dit_job_desc: keep_state and state are for a job on one device, and a split has several");
    snapshot->bytes = (size_t)diti_snapshot_bytes(job->shares[0]);
    snapshot->states = (unsigned char *)diti_alloc(&job->env, snapshot->bytes);
    if (!snapshot->states) return diti_fail_memory(err, "%s", asked);
    if (job->shares[0]->assignment.share) return DIT_OK; /* the first rank remembers for all */
    DITI_TRY(diti_buffer_create_pinned(job->shares[0]->device, 2 * snapshot->bytes, DITI_MEMORY_READBACK, asked,
                                       "leave it out", &snapshot->buffer, err));
    return diti_snapshot_record(job, err);
}

DIT_INTERNAL void diti_snapshot_destroy(dit_job *job) {
    diti_buffer_destroy(job->shares[0]->device, &job->snapshot.buffer);
    diti_free(&job->env, job->snapshot.states);
    memset(&job->snapshot, 0, sizeof job->snapshot);
}

DIT_INTERNAL void diti_snapshot_forget(dit_job *job) {
    job->snapshot.values[0] = job->snapshot.values[1] = 0;
    job->snapshot.valid = false;
}

/* Steps, and what comes before the first one; not strips that are still on their way. */
static bool diti_snapshot_wants(const diti_share *share, uint32_t segment) {
    return !share->member && share->job->snapshot.buffer.buffer && !share->states_due &&
           (segment + 1 == share->program.step_segment || diti_share_is_step(share, segment)) &&
           !diti_strips_is(share, segment, DITI_FORM_STRIPS);
}

/* Steps whose outcome is there behind a segment, when so many are counted. */
static uint32_t diti_snapshot_steps(const diti_share *share, uint32_t segment, uint32_t counted) {
    return diti_strips_is(share, segment, DITI_FORM_NEXT) ? counted - 1 : counted;
}

DIT_INTERNAL bool diti_snapshot_busy(const diti_share *share) {
    const diti_job_cursor *at = &share->run.cursor;
    if (at->segment > share->program.decode_segment || !diti_snapshot_wants(share, at->segment)) return false;
    return share->job->snapshot
               .values[diti_snapshot_steps(share, at->segment,
                                           at->repeat + (diti_share_counts(share, at->segment) ? 1u : 0u)) %
                       2] != 0;
}

DIT_INTERNAL dit_result diti_snapshot_submit(diti_share *share, uint32_t segment, uint64_t *value, dit_error *err) {
    uint32_t steps = diti_snapshot_steps(share, segment, share->run.cursor.repeat), place = steps % 2;
    if (!diti_snapshot_wants(share, segment)) return DIT_OK;
    DITI_TRY(diti_plan_submit_commands(share->program.plan, share->program.snapshot_copies[place], value, err));
    share->job->snapshot.values[place] = *value;
    share->job->snapshot.steps[place] = steps;
    return DIT_OK;
}

DIT_INTERNAL void diti_snapshot_poll(diti_share *share, uint64_t done) {
    diti_snapshot *snapshot = &share->job->snapshot;
    uint32_t i, place;
    if (share->member) return;
    for (i = 0; i < 2; i++) {
        place = snapshot->steps[0] <= snapshot->steps[1] ? i : 1 - i; /* the older one first */
        if (!snapshot->values[place] || snapshot->values[place] > done) continue;
        snapshot->values[place] = 0;
        if (share->run.health.blocked) continue; /* the step runs again */
        diti_buffer_invalidate(share->device, &snapshot->buffer);
        memcpy(snapshot->states, (const unsigned char *)snapshot->buffer.block.mapped + place * snapshot->bytes,
               snapshot->bytes);
        snapshot->step = snapshot->steps[place];
        snapshot->valid = true;
    }
}

/* --- beginning where another run was --- */

DIT_INTERNAL dit_result diti_resume_write_states(diti_share *share, const diti_snapshot *snapshot, dit_error *err) {
    VkDeviceSize bytes = snapshot->bytes + sizeof(uint32_t);
    DITI_TRY(diti_buffer_create(share->device, bytes, DITI_MEMORY_UPLOAD, "states", &share->states, err));
    DITI_TRY(diti_share_allocate_commands(share, &share->program.states_copy, err));
    memcpy(share->states.block.mapped, snapshot->states, snapshot->bytes);
    memcpy((unsigned char *)share->states.block.mapped + snapshot->bytes, &snapshot->step, sizeof snapshot->step);
    diti_buffer_flush(share->device, &share->states);
    diti_snapshot_record_states(share, share->program.states_copy, share->states.buffer, 0, true);
    share->states_due = true;
    return diti_share_end_commands(share, share->program.states_copy, err);
}

DIT_INTERNAL dit_result diti_share_submit_states(diti_share *share, uint64_t *value, dit_error *err) {
    DITI_TRY(diti_plan_submit_commands(share->program.plan, share->program.states_copy, value, err));
    share->states_due = false;
    return DIT_OK;
}

DIT_INTERNAL void diti_resume_set_out(diti_share *share, uint32_t step, double total_us) {
    memset(&share->run.cursor, 0, sizeof share->run.cursor);
    share->run.cursor.repeat = step;
    share->run.all_submitted = share->run.unjudged = false;
    share->run.flight_first = share->run.flight_count = share->run.last_segment = share->run.tries = 0;
    share->run.submitted_us = diti_share_steps_us(share, step);
    share->run.total_us = total_us;
    share->job->still_us = 0;
}

/* --- states as bytes: what dit_job_save_state gives. Words, the exponents of the guards, what the solver remembers ---
 */

#define DITI_STATE_MAGIC 0x53544944u /* "DITS" */
#define DITI_STATE_VERSION 1u

typedef struct diti_state_head {
    uint32_t magic, version;
    uint32_t hash[2]; /* sum of all that follows, the low half first */
    uint32_t step, steps, guards, bytes;
} diti_state_head;

#define DITI_STATE_HASHED offsetof(diti_state_head, step)

static uint32_t diti_state_guards(const dit_job *job) {
    const diti_plan *plan = job->shares[0]->program.plan;
    return plan->guards ? plan->tensors[plan->guards].rows : 0;
}

static size_t diti_state_size(const dit_job *job) {
    return sizeof(diti_state_head) + diti_state_guards(job) * sizeof(uint32_t) + job->snapshot.bytes;
}

static void diti_state_hash(const void *blob, size_t size, uint32_t *hash) {
    uint64_t sum = diti_hash((const unsigned char *)blob + DITI_STATE_HASHED, size - DITI_STATE_HASHED);
    hash[0] = (uint32_t)sum;
    hash[1] = (uint32_t)(sum >> 32);
}

DIT_API dit_result dit_job_save_state(dit_job *job, void *blob, size_t *size, dit_error *err) {
    unsigned char *at = (unsigned char *)blob;
    const diti_plan *plan;
    diti_state_head head;
    size_t room;
    uint32_t i;
    if (!job || !size)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "dit_job_save_state: job and size must be given");
    if (!job->request.shape.keeps)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "dit_job_save_state: the job was created without dit_job_desc.keep_state");
    room = *size;
    *size = diti_state_size(job);
    if (!blob) return DIT_OK;
    if (room < *size)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "dit_job_save_state: %llu bytes are needed, blob has %llu",
                         (unsigned long long)*size, (unsigned long long)room);
    if (!job->snapshot.valid) return DIT_WORKING;
    plan = job->shares[0]->program.plan;
    memset(&head, 0, sizeof head);
    head.magic = DITI_STATE_MAGIC;
    head.version = DITI_STATE_VERSION;
    head.step = job->snapshot.step;
    head.steps = job->request.shape.steps;
    head.guards = diti_state_guards(job);
    head.bytes = (uint32_t)job->snapshot.bytes;
    at += sizeof head;
    for (i = 0; i < head.guards; i++, at += sizeof(uint32_t))
        memcpy(at, &plan->guard_records[i].exponent, sizeof(uint32_t));
    memcpy(at, job->snapshot.states, job->snapshot.bytes);
    memcpy(blob, &head, sizeof head);
    diti_state_hash(blob, *size, head.hash);
    memcpy(blob, &head, sizeof head);
    return DIT_OK;
}

static dit_result diti_state_check(const dit_job *job, const dit_job_desc *desc, diti_state_head *head,
                                   dit_error *err) {
    uint32_t hash[2];
    if (desc->state_size < sizeof *head)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "dit_job_desc.state: %llu bytes are no state of a job",
                         (unsigned long long)desc->state_size);
    memcpy(head, desc->state, sizeof *head);
    if (head->magic != DITI_STATE_MAGIC || head->version != DITI_STATE_VERSION)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "dit_job_desc.state: no state that this version of dit_job_save_state made; begin anew");
    diti_state_hash(desc->state, desc->state_size, hash);
    if (memcmp(hash, head->hash, sizeof hash) != 0)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "dit_job_desc.state: the state is damaged; begin anew");
    if (desc->state_size != diti_state_size(job) || head->bytes != job->snapshot.bytes ||
        head->guards != diti_state_guards(job) || head->steps != job->request.shape.steps || head->step > head->steps)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "dit_job_desc.state: the state is of another job, of %u steps and %u bytes; this one has %u "
                         "steps and %u bytes",
                         head->steps, head->bytes, job->request.shape.steps, (uint32_t)job->snapshot.bytes);
    return DIT_OK;
}

DIT_INTERNAL dit_result diti_state_take(dit_job *job, const dit_job_desc *desc, dit_error *err) {
    const unsigned char *at;
    diti_plan *plan = job->shares[0]->program.plan;
    diti_state_head head;
    uint32_t i;
    if (!desc->state) return DIT_OK;
    DITI_TRY(diti_state_check(job, desc, &head, err));
    at = (const unsigned char *)desc->state + sizeof head;
    for (i = 0; i < head.guards; i++, at += sizeof(uint32_t))
        memcpy(&plan->guard_records[i].exponent, at, sizeof(uint32_t));
    memcpy(job->snapshot.states, at, job->snapshot.bytes);
    job->snapshot.step = job->begins_at = head.step;
    return diti_resume_write_states(job->shares[0], &job->snapshot, err);
}

DIT_INTERNAL void diti_state_set_out(dit_job *job) {
    if (!job->shares[0]->states_due) return;
    job->snapshot.valid = true;
    job->status.step = job->begins_at;
    diti_resume_set_out(job->shares[0], job->begins_at, job->shares[0]->run.total_us);
}
