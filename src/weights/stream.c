/* Streamed weights: the slots that a model's jobs share, and how they are filled. */
#include "weights/weights.h"

/* --- the slots --- */

static uint32_t diti_stream_slot_count(const diti_stream *stream) { return DITI_STREAM_SLOTS + stream->sizes.experts; }

static VkDeviceSize diti_stream_slot_size(const diti_stream *stream, uint32_t slot) {
    return slot < DITI_STREAM_SLOTS ? stream->slot_bytes : stream->sizes.expert;
}

DIT_INTERNAL uint64_t diti_stream_bytes(const diti_stream *stream) {
    return stream ? DITI_STREAM_SLOTS * stream->slot_bytes + stream->sizes.experts * stream->sizes.expert : 0;
}

/* The slot's mirror, which has no buffer where it needs none. */
static diti_buffer *diti_slot_mirror(diti_stream *stream, diti_stream_slot *slot) {
    return slot->mirror.buffer ? &slot->mirror : &stream->shared_mirror;
}

static dit_result diti_stream_make(diti_stream *stream, dit_error *err) {
    diti_device *device = stream->device;
    VkDeviceSize usual, piece = stream->sizes.piece;
    bool mapped = true;
    uint32_t i;
    for (i = 0; i < diti_stream_slot_count(stream); i++) {
        DITI_TRY(diti_buffer_create_shared(device, diti_stream_slot_size(stream, i), "streamed weights",
                                           &stream->slots[i].buffer, err));
        if (!stream->slots[i].buffer.block.mapped) mapped = false;
    }
    if (mapped) return DIT_OK;
    usual = device->staging_bytes;
    if (device->unified && usual > stream->slot_bytes / 8) usual = stream->slot_bytes / 8;
    if (usual < device->staging_slot) usual = device->staging_slot;
    if (piece < DITI_STAGING_MIN) piece = usual < DITI_STAGING_MIN ? usual : DITI_STAGING_MIN;
    return diti_stage_create(device, diti_stage_bytes(device, piece, usual), device->transfer_queue, &stream->stage,
                             err);
}

DIT_INTERNAL dit_result diti_stream_create(diti_device *device, const diti_env *env, const diti_stream_sizes *sizes,
                                           diti_stream **out, dit_error *err) {
    diti_stream *stream = (diti_stream *)diti_alloc_zero(env, sizeof *stream);
    dit_result result = DIT_OK;
    *out = NULL;
    if (!stream) return diti_fail_memory(err, "streamed weights");
    stream->env = *env;
    stream->device = device;
    stream->sizes = *sizes;
    stream->slot_bytes = sizes->slot;
    stream->home = stream;
    if (device) result = diti_stream_make(stream, err);
    if (result < 0)
        diti_stream_destroy(stream);
    else
        *out = stream;
    return result;
}

DIT_INTERNAL void diti_stream_destroy(diti_stream *home) {
    diti_env env;
    uint32_t i;
    while (home) {
        diti_stream *next = home->next;
        env = home->env;
        diti_stage_destroy(home->stage);
        for (i = 0; i < diti_stream_slot_count(home) && home->device; i++) {
            diti_buffer_destroy(home->device, &home->slots[i].mirror);
            diti_buffer_destroy(home->device, &home->slots[i].buffer);
        }
        if (home->device) diti_buffer_destroy(home->device, &home->shared_mirror);
        diti_free(&env, home);
        home = next;
    }
}

/* Where two threads make it at the same time, the second one throws its own away. */
DIT_INTERNAL dit_result diti_stream_on(diti_stream *home, diti_device *device, diti_stream **out, dit_error *err) {
    VkDeviceSize limit = device->limits.block & ~(VkDeviceSize)0xffff;
    diti_stream_sizes sizes = home->sizes;
    diti_stream *made = NULL, *found;
    if (sizes.slot > limit) sizes.slot = limit;
    for (;;) {
        diti_lock(&home->lock);
        for (found = home; found && found->device != device; found = found->next) {
        }
        if (!found && made) {
            made->next = home->next;
            home->next = found = made;
            made = NULL;
        }
        diti_unlock(&home->lock);
        if (found) break;
        DITI_TRY(diti_stream_create(device, &home->env, &sizes, &made, err));
        made->home = home;
    }
    diti_stream_destroy(made);
    *out = found;
    return DIT_OK;
}

/* --- one thread at a time reads, for all devices --- */

static bool diti_stream_enter(diti_stream *stream) {
    diti_stream *home = stream->home;
    bool mine;
    diti_lock(&home->lock);
    mine = !home->busy;
    home->busy = true;
    diti_unlock(&home->lock);
    return mine;
}

static void diti_stream_leave(diti_stream *stream) {
    diti_stream *home = stream->home;
    diti_lock(&home->lock);
    home->busy = false;
    diti_unlock(&home->lock);
}

/* A plan that goes may have no timeline any more. */
static void diti_client_pause(const diti_stream_client *client) {
    const diti_timeline *timeline = client->timeline;
    if (timeline->semaphore)
        diti_timeline_wait(client->stream->device, timeline->semaphore, timeline->submitted + 1, 1000000u, NULL);
}

/* Waits until no other thread reads. */
static void diti_client_enter(const diti_stream_client *client) {
    while (!diti_stream_enter(client->stream)) diti_client_pause(client);
}

DIT_INTERNAL bool diti_part_streams(const diti_weight_part *part) { return part->streamed && part->streamed->stream; }

#define DITI_STREAM_PIECE ((uint64_t)4 << 20) /* read at a time where nothing else limits it */

/* --- filling a slot: under busy --- */

static bool diti_slot_holds(const diti_stream_slot *slot, const diti_stream_client *client, uint32_t batch) {
    return slot->client == client && slot->batch == batch;
}

/* Whether frames that read the slot are finished. */
static bool diti_slot_marked(const diti_stream *stream, const diti_stream_slot *slot) {
    if (!slot->marks) return true;
    diti_buffer_invalidate(stream->device, slot->marks);
    return (int32_t)(*(const volatile uint32_t *)slot->marks->block.mapped - slot->mark) >= 0;
}

/* DIT_OK: the application's frames that read the slot are finished, which nothing but looking again and again can tell.
   Frames that never finish were thrown away, and a plan that is submitted then fails. One that is recorded does not:
   the application may have paused between recording and submitting. */
static dit_result diti_slot_await_mark(const diti_stream *stream, diti_stream_slot *slot,
                                       const diti_stream_client *client, dit_error *err) {
    if (diti_slot_marked(stream, slot)) return DIT_OK;
    if (client->recorded) return DIT_WORKING;
    DITI_TRY(diti_device_check(stream->device, err)); /* a lost device sets no mark */
    slot->awaited_us += diti_clock_passed(&slot->looked_us);
    if (slot->awaited_us <= stream->device->patience_us) return DIT_WORKING;
    return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                     "commands that dit_job_record wrote still read streamed weights after %llu ms; submit them, or "
                     "restart or destroy their job",
                     (unsigned long long)(stream->device->patience_us / 1000));
}

/* DIT_OK: nothing reads or writes the slot any more. */
static dit_result diti_slot_idle(diti_stream *stream, diti_stream_slot *slot, const diti_stream_client *client,
                                 dit_error *err) {
    uint64_t done = 0;
    dit_result result = diti_slot_await_mark(stream, slot, client, err);
    if (result != DIT_OK) return result;
    slot->marks = NULL;
    if (stream->stage) result = diti_stage_wait(stream->stage, slot->written, false, err);
    if (result != DIT_OK || !slot->reader) return result;
    result = diti_timeline_value(stream->device, slot->reader, &done, err);
    return result < 0 || done >= slot->reader_value ? result : DIT_WORKING;
}

/* Whether the mirror that slots share may be written for a slot: frames that copy from it for another one are finished.
   Weights that it still has for the other one are thrown away, and read again later: another client's, or the client's
   own, which were read ahead of those that are due. Reading ahead throws nothing of the client's own away. */
static bool diti_slot_has_mirror(diti_stream *stream, diti_stream_slot *slot, const diti_stream_client *client,
                                 bool ahead) {
    diti_stream_slot *other = stream->mirror_for;
    if (slot->mirror.buffer || !client->recorded || !stream->shared_mirror.buffer) return true;
    if (other && other != slot) {
        if (other->mirrored && other->client == client && ahead) return false;
        if (other->mirrored && other->client && other->client != client) other->client->robbed = true;
        if (other->mirrored) other->client = NULL;
        if (!diti_slot_marked(stream, other)) return false;
    }
    stream->mirror_for = slot;
    return true;
}

/* Takes the slot for a batch of client; what was in it is gone. */
static dit_result diti_slot_take(diti_stream *stream, diti_stream_slot *slot, diti_stream_client *client,
                                 uint32_t batch, bool ahead, dit_error *err) {
    dit_result result = diti_slot_idle(stream, slot, client, err);
    if (result != DIT_OK) return result;
    if (!diti_slot_has_mirror(stream, slot, client, ahead)) return DIT_WORKING;
    if (slot->client && slot->client != client && !slot->used) slot->client->robbed = true;
    slot->client = client;
    slot->batch = batch;
    slot->ready = slot->used = false;
    slot->mirrored = client->recorded && diti_slot_mirror(stream, slot)->buffer;
    slot->item = 0;
    slot->done = 0;
    slot->reader = VK_NULL_HANDLE;
    return DIT_OK;
}

/* The upload that holds what comes next of the slot's item; NULL: nothing does, and what is left fills up its last
   word. */
static const diti_upload *diti_slot_find(const diti_stream_slot *slot, const diti_stream_item *item) {
    const diti_streamed *streamed = item->streamed;
    uint64_t at = item->from + slot->done;
    size_t low = 0, high = streamed->count;
    if (slot->done >= item->read) return NULL;
    while (low < high) { /* the first that begins behind it */
        size_t middle = low + (high - low) / 2;
        if (streamed->uploads[middle].target <= at)
            low = middle + 1;
        else
            high = middle;
    }
    if (!low || at - streamed->uploads[low - 1].target >= diti_upload_bytes(&streamed->uploads[low - 1])) return NULL;
    return &streamed->uploads[low - 1];
}

/* The file's message does not know which tensor was wanted. */
static dit_result diti_slot_fail(const diti_upload *upload, const dit_error *why, dit_error *err) {
    if (why->result != DIT_ERROR_IO && why->result != DIT_ERROR_BAD_FILE) {
        if (err) *err = *why;
        return why->result;
    }
    return diti_fail(err, why->result, "tensor %.160s, streamed while the job runs: %.300s", upload->tensor->name,
                     why->message);
}

static bool diti_streamed_has(const diti_streamed *streamed, uint64_t piece) {
    return streamed->kept_pieces[piece / 8] >> piece % 8 & 1;
}

/* Pieces that hold bytes [done, done + size) of an upload come into the host's copy, those that are not there yet; as
   many as lie in a row are read at once. */
static dit_result diti_streamed_keep(const diti_streamed *streamed, const diti_upload *upload, uint64_t done,
                                     uint64_t size, dit_error *err) {
    uint64_t bytes = diti_upload_bytes(upload), each = diti_upload_kept_piece(upload), at = done / each, next;
    uint64_t end = (done + size + each - 1) / each, base = upload->first_piece;
    for (; at < end; at = next) {
        uint64_t from = at * each, to, piece;
        next = at + 1;
        if (diti_streamed_has(streamed, base + at)) continue;
        while (next < end && !diti_streamed_has(streamed, base + next)) next++;
        to = next * each < bytes ? next * each : bytes;
        DITI_TRY(diti_upload_read(streamed->env, streamed->checkpoint, upload, from, to - from,
                                  streamed->kept + upload->target + from, err));
        for (piece = base + at; piece < base + next; piece++)
            streamed->kept_pieces[piece / 8] |= (unsigned char)(1u << piece % 8);
    }
    return DIT_OK;
}

/* From the host's copy where there is one, which is written first: memory that the device sees may be slow to read. */
static dit_result diti_streamed_read(const diti_streamed *streamed, const diti_upload *upload, uint64_t done,
                                     uint64_t size, void *out, dit_error *err) {
    if (!streamed->kept) return diti_upload_read(streamed->env, streamed->checkpoint, upload, done, size, out, err);
    DITI_TRY(diti_streamed_keep(streamed, upload, done, size, err));
    memcpy(out, streamed->kept + upload->target + done, (size_t)size);
    return DIT_OK;
}

/* How much of an upload, from `at` on, is read next: of an item of columns whole rows. */
static uint64_t diti_slot_piece(const diti_stream *stream, const diti_stream_slot *slot, const diti_stream_item *item,
                                const diti_upload *upload, uint64_t at, uint64_t bytes) {
    uint64_t most = stream->stage ? stream->stage->bytes : DITI_STREAM_PIECE, left = item->read - slot->done, size;
    const diti_pieces *pieces = item->pieces;
    const diti_stream_client *client = slot->client;
    if (most > bytes) most = bytes;
    if (!pieces) {
        size = diti_upload_piece(upload, at, most);
        return size < left ? size : left;
    }
    if (most > client->row_bytes) most = client->row_bytes;
    if (left > diti_upload_bytes(upload) - at) left = diti_upload_bytes(upload) - at;
    if (most > left) most = left;
    return most < pieces->from_pitch ? pieces->from_pitch : most / pieces->from_pitch * pieces->from_pitch;
}

static dit_result diti_slot_read(diti_stream *stream, diti_stream_slot *slot, const diti_stream_item *item,
                                 const diti_upload *upload, uint64_t size, dit_error *err) {
    const diti_pieces *pieces = item->pieces;
    const diti_stream_client *client = slot->client;
    uint64_t rows = pieces ? size / pieces->from_pitch : 0, put = pieces ? rows * pieces->to_pitch : size;
    VkDeviceSize target = item->offset + (pieces ? slot->done / pieces->from_pitch * pieces->to_pitch : slot->done);
    dit_error why = DITI_ZERO;
    void *out = NULL;
    dit_result result = DIT_OK;
    if (slot->mirrored)
        out = (unsigned char *)diti_slot_mirror(stream, slot)->block.mapped + target;
    else if (stream->stage)
        result = diti_stage_room(stream->stage, put, false, &out, err);
    else
        out = (unsigned char *)slot->buffer.block.mapped + target;
    if (result != DIT_OK) return result;
    if (diti_streamed_read(item->streamed, upload, item->from + slot->done - upload->target, size,
                           pieces ? client->rows : out, &why) < 0)
        return diti_slot_fail(upload, &why, err);
    if (pieces) diti_pieces_pick(pieces, client->rows, rows, (unsigned char *)out);
    if (stream->stage && !slot->mirrored)
        slot->written = diti_stage_put(stream->stage, slot->buffer.buffer, target, put);
    return DIT_OK;
}

/* Reads at most *bytes of the slot's batch. */
static dit_result diti_slot_fill(diti_stream *stream, diti_stream_slot *slot, uint64_t *bytes, dit_error *err) {
    diti_stream_client *client = slot->client;
    const diti_stream_batch *batch = &client->batches[slot->batch];
    while (slot->item < batch->count) {
        const diti_stream_item *item = &client->items[batch->first + slot->item];
        const diti_upload *upload = diti_slot_find(slot, item);
        uint64_t size;
        dit_result result;
        if (!upload) {
            slot->item++;
            slot->done = 0;
            continue;
        }
        if (*bytes == 0) return DIT_WORKING;
        size = diti_slot_piece(stream, slot, item, upload, item->from + slot->done - upload->target, *bytes);
        result = diti_slot_read(stream, slot, item, upload, size, err);
        if (result != DIT_OK) return result;
        *bytes -= size < *bytes ? size : *bytes;
        client->read_bytes += size;
        slot->done += size;
    }
    slot->ready = true;
    return stream->stage && !slot->mirrored ? diti_stage_submit(stream->stage, err) : DIT_OK;
}

/* A submission that fails may lose copies of several slots. Their weights are read again, and nothing waits for the
   copies. */
static void diti_stream_drop_lost(diti_stream *stream) {
    uint32_t i;
    for (i = 0; i < diti_stream_slot_count(stream) && stream->stage; i++) {
        diti_stream_slot *slot = &stream->slots[i];
        if (!diti_stage_lost(stream->stage, slot->written)) continue;
        slot->client = NULL;
        slot->written = 0;
    }
}

/* claims: the slot is the client's until the call that claims it is over. Nothing is waited for here. */
static dit_result diti_stream_fill(diti_stream_client *client, uint32_t batch, bool ahead, bool claims, uint64_t *bytes,
                                   dit_error *err) {
    diti_stream *stream = client->stream;
    diti_stream_slot *slot = &stream->slots[client->batches[batch].slot];
    uint64_t all = UINT64_MAX, before;
    bool hurry = client->robbed && !ahead; /* without a hurry two jobs might rob each other for ever */
    diti_trace_scope scope;
    dit_result result = DIT_OK;
    if (diti_slot_holds(slot, client, batch) && slot->ready) return DIT_OK;
    if (hurry) bytes = &all;
    if (slot->claimant && slot->claimant != client) return DIT_WORKING;
    if (!diti_slot_holds(slot, client, batch)) {
        if (ahead && slot->client && slot->client != client && !slot->used)
            return DIT_WORKING; /* the other's is due first */
        result = diti_slot_take(stream, slot, client, batch, ahead, err);
    }
    if (result == DIT_OK && *bytes == 0) return DIT_WORKING;
    if (result == DIT_OK) {
        before = *bytes;
        scope = diti_trace_open(stream->device->trace, DITI_TRACK_LOAD, "stream weights");
        result = diti_slot_fill(stream, slot, bytes, err);
        diti_trace_close(&scope, (double)(before - *bytes));
        if (result < 0) slot->client = NULL;
    }
    slot->claimant = claims && result == DIT_WORKING ? client : NULL;
    if (result < 0) diti_stream_drop_lost(stream);
    return result;
}

/* --- for those who run plans --- */

/* A submission that a slot waits for, of a timeline that stays: the stage's, or the client's own. Timelines of other
   clients may go while nobody holds `busy`. VK_NULL_HANDLE: there is none. */
static VkSemaphore diti_client_awaits(const diti_stream_client *client, uint32_t batch, uint64_t *value) {
    const diti_stream_slot *slot = &client->stream->slots[client->batches[batch].slot];
    const diti_stage *stage = client->stream->stage;
    bool taken = diti_slot_holds(slot, client, batch);
    if (slot->marks) return VK_NULL_HANDLE;
    *value = stage && taken ? stage->finished + 1 : slot->written;
    if (stage && *value > stage->finished && *value <= stage->submitted) return stage->timeline;
    *value = slot->reader_value;
    return !taken && slot->reader == client->timeline->semaphore ? slot->reader : VK_NULL_HANDLE;
}

/* Others may enter while this one waits: threads that step their jobs, and that submit the application's frames, or
   drop them. */
static dit_result diti_client_let_in(const diti_stream_client *client, VkSemaphore timeline, uint64_t value,
                                     dit_error *err) {
    diti_stream *stream = client->stream;
    dit_result result = DIT_OK;
    diti_stream_leave(stream);
    if (timeline)
        result = diti_timeline_wait(stream->device, timeline, value, UINT64_MAX, err);
    else
        diti_client_pause(client);
    diti_client_enter(client);
    return result;
}

/* In a hurry the stage is waited for, and the slot stays the client's meanwhile. */
DIT_INTERNAL dit_result diti_stream_load(diti_stream_client *client, uint32_t batch, bool ahead, uint64_t *bytes,
                                         dit_error *err) {
    diti_stream_slot *slot = &client->stream->slots[client->batches[batch].slot];
    VkSemaphore timeline;
    uint64_t value = 0;
    bool hurry;
    dit_result result, waited = DIT_OK;
    if (!diti_stream_enter(client->stream)) return DIT_WORKING;
    hurry = client->robbed && !ahead;
    for (;;) {
        result = waited < 0 ? waited : diti_stream_fill(client, batch, ahead, hurry, bytes, err);
        if (!hurry || result != DIT_WORKING || !diti_slot_holds(slot, client, batch)) break;
        timeline = diti_client_awaits(client, batch, &value);
        if (!timeline) break;
        waited = diti_client_let_in(client, timeline, value, err);
    }
    if (slot->claimant == client) slot->claimant = NULL;
    diti_stream_leave(client->stream);
    return result;
}

/* The slot stays the client's while it waits. */
DIT_INTERNAL dit_result diti_stream_claim(diti_stream_client *client, uint32_t batch, diti_submission *submission,
                                          dit_error *err) {
    diti_stream *stream = client->stream;
    diti_stream_slot *slot = &stream->slots[client->batches[batch].slot];
    uint64_t all = UINT64_MAX, value = 0;
    VkSemaphore timeline;
    dit_result result, waited = DIT_OK;
    diti_client_enter(client);
    for (;;) {
        result = waited < 0 ? waited : diti_stream_fill(client, batch, false, true, &all, err);
        if (result != DIT_WORKING) break;
        timeline = diti_client_awaits(client, batch, &value);
        waited = diti_client_let_in(client, timeline, value, err);
    }
    if (result < 0) {
        if (slot->claimant == client) slot->claimant = NULL;
        diti_stream_leave(stream);
        return result;
    }
    if (stream->stage) {
        diti_submission_wait(submission, stream->stage->timeline, slot->written);
    }
    return DIT_OK;
}

DIT_INTERNAL void diti_stream_release(diti_stream_client *client, uint32_t batch, bool submitted) {
    diti_stream_slot *slot = &client->stream->slots[client->batches[batch].slot];
    if (submitted) {
        slot->used = true;
        slot->reader = client->timeline->semaphore;
        slot->reader_value = client->timeline->submitted;
        client->robbed = false;
    }
    diti_stream_leave(client->stream);
}

DIT_INTERNAL void diti_stream_forget(diti_stream_client *client, const diti_buffer *marks) {
    uint32_t i;
    diti_client_enter(client);
    for (i = 0; i < diti_stream_slot_count(client->stream); i++) {
        diti_stream_slot *slot = &client->stream->slots[i];
        if (slot->client == client) slot->client = NULL;
        if (slot->reader == client->timeline->semaphore) slot->reader = VK_NULL_HANDLE;
        if (slot->marks == marks) slot->marks = NULL;
    }
    diti_stream_leave(client->stream);
}

/* --- recorded plans --- */

DIT_INTERNAL void diti_stream_begin(diti_stream_client *client, const diti_buffer *marks, bool recorded) {
    uint32_t i;
    if (!client->recorded && !recorded) return;
    diti_client_enter(client);
    for (i = 0; i < diti_stream_slot_count(client->stream); i++) {
        diti_stream_slot *slot = &client->stream->slots[i];
        /* frames that were thrown away have copied nothing into the slot, and set no mark */
        if (slot->client == client) slot->client = NULL;
        if (slot->marks == marks) slot->marks = NULL;
    }
    client->recorded = recorded;
    diti_stream_leave(client->stream);
}

DIT_INTERNAL void diti_stream_unrecord(diti_stream_client *client, const diti_buffer *marks, uint32_t mark,
                                       uint32_t before) {
    uint32_t i;
    diti_client_enter(client);
    for (i = 0; i < diti_stream_slot_count(client->stream); i++) {
        diti_stream_slot *slot = &client->stream->slots[i];
        if (slot->marks != marks || slot->mark != mark) continue;
        slot->client = NULL; /* a copy into it may be among the commands */
        slot->mark = before; /* frames before it may be on their way */
        slot->looked_us = slot->awaited_us = 0;
    }
    diti_stream_leave(client->stream);
}

static dit_result diti_mirror_make(diti_stream *stream, VkDeviceSize bytes, diti_buffer *out, dit_error *err) {
    return diti_buffer_create_pinned(stream->device, bytes, DITI_MEMORY_UPLOAD, "streamed weights of recorded jobs",
                                     "run the job by dit_job_step, which copies in pieces", out, err);
}

/* Mirrors of the first slots, each its own or none, and one for all others that there are. */
static dit_result diti_stream_add_mirrors(diti_stream *stream, bool each, dit_error *err) {
    VkDeviceSize shared = stream->sizes.experts ? stream->sizes.expert : 0;
    dit_result result = DIT_OK;
    uint32_t i;
    if (!each && shared < stream->slot_bytes) shared = stream->slot_bytes;
    if (shared) result = diti_mirror_make(stream, shared, &stream->shared_mirror, err);
    for (i = 0; i < DITI_STREAM_SLOTS && each && result >= 0; i++)
        result = diti_mirror_make(stream, stream->slot_bytes, &stream->slots[i].mirror, err);
    if (result >= 0) return result;
    for (i = 0; i < DITI_STREAM_SLOTS; i++) diti_buffer_destroy(stream->device, &stream->slots[i].mirror);
    diti_buffer_destroy(stream->device, &stream->shared_mirror);
    return result;
}

/* With a mirror of each slot one is filled while frames copy from another. Where the host has no room for them, which
   it may not say before it refuses one, there is one for all. */
DIT_INTERNAL dit_result diti_stream_make_mirrors(const diti_stream_client *client, dit_error *err) {
    diti_stream *stream = client->stream;
    VkDeviceSize bytes = DITI_STREAM_SLOTS * stream->slot_bytes + (stream->sizes.experts ? stream->sizes.expert : 0);
    dit_result result = DIT_OK;
    diti_client_enter(client);
    if (stream->stage && !diti_slot_mirror(stream, &stream->slots[0])->buffer &&
        (bytes > diti_memory_host_room(stream->device) || diti_stream_add_mirrors(stream, true, NULL) < 0))
        result = diti_stream_add_mirrors(stream, false, err);
    diti_stream_leave(stream);
    return result;
}

static void diti_stream_barrier(const diti_device *device, VkCommandBuffer commands, VkPipelineStageFlags from,
                                VkPipelineStageFlags to, VkAccessFlags access) {
    VkMemoryBarrier barrier = DITI_ZERO;
    barrier.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER;
    barrier.srcAccessMask = VK_ACCESS_MEMORY_WRITE_BIT;
    barrier.dstAccessMask = access;
    device->vk.CmdPipelineBarrier(commands, from, to, 0, 1, &barrier, 0, NULL, 0, NULL);
}

DIT_INTERNAL dit_result diti_stream_record(diti_stream_client *client, uint32_t batch, const diti_buffer *marks,
                                           uint32_t mark, uint64_t *bytes, VkCommandBuffer commands, dit_error *err) {
    const VkPipelineStageFlags shader = VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, copy = VK_PIPELINE_STAGE_TRANSFER_BIT;
    diti_device *device = client->stream->device;
    diti_stream_slot *slot = &client->stream->slots[client->batches[batch].slot];
    dit_result result;
    if (!diti_stream_enter(client->stream)) return DIT_WORKING;
    result = diti_stream_fill(client, batch, false, false, bytes, err);
    if (result == DIT_OK && slot->mirrored) {
        const diti_buffer *mirror = diti_slot_mirror(client->stream, slot);
        VkBufferCopy region = DITI_ZERO;
        diti_buffer_flush(device, mirror);
        region.size = client->batches[batch].bytes;
        diti_stream_barrier(device, commands, shader | copy, copy, VK_ACCESS_TRANSFER_WRITE_BIT);
        device->vk.CmdCopyBuffer(commands, mirror->buffer, slot->buffer.buffer, 1, &region);
        diti_stream_barrier(device, commands, copy, shader, VK_ACCESS_SHADER_READ_BIT);
        slot->mirrored = false;
    }
    if (result == DIT_OK) {
        slot->used = true;
        slot->marks = marks;
        slot->mark = mark;
        slot->looked_us = slot->awaited_us = 0;
        client->robbed = false;
    }
    diti_stream_leave(client->stream);
    return result;
}

DIT_INTERNAL void diti_stream_mark(const diti_device *device, const diti_buffer *marks, uint32_t mark,
                                   VkCommandBuffer commands) {
    const VkPipelineStageFlags shader = VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, copy = VK_PIPELINE_STAGE_TRANSFER_BIT;
    diti_stream_barrier(device, commands, shader | copy, copy, VK_ACCESS_TRANSFER_WRITE_BIT);
    device->vk.CmdFillBuffer(commands, marks->buffer, 0, sizeof(uint32_t), mark);
    diti_stream_barrier(device, commands, copy, VK_PIPELINE_STAGE_HOST_BIT, VK_ACCESS_HOST_READ_BIT);
}
