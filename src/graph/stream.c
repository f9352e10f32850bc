/* Streamed weights: the slots that a model's jobs share, which part of which matrix goes where in them, and when. */
#include "graph/graph.h"

/* --- the slots --- */

static dit_result diti_stream_make(diti_stream *stream, VkDeviceSize piece, dit_error *err) {
    diti_device *device = stream->device;
    VkDeviceSize usual;
    bool mapped = true;
    uint32_t i;
    for (i = 0; i < DITI_STREAM_SLOTS; i++) {
        dit_result result =
            diti_buffer_create_shared(device, stream->slot_bytes, "streamed weights", &stream->slots[i].buffer, err);
        if (result < 0) return result;
        if (!stream->slots[i].buffer.block.mapped) mapped = false;
    }
    if (mapped) return DIT_OK;
    usual = device->staging_bytes;
    if (device->unified && usual > stream->slot_bytes / 8) usual = stream->slot_bytes / 8;
    if (usual < device->staging_slot) usual = device->staging_slot;
    if (piece < DITI_STAGING_LEAST) piece = usual < DITI_STAGING_LEAST ? usual : DITI_STAGING_LEAST;
    return diti_stage_create(device, diti_stage_bytes(device, piece, usual), device->transfer_queue, &stream->stage,
                             err);
}

DIT_INTERNAL dit_result diti_stream_create(diti_device *device, const diti_env *env, VkDeviceSize slot_bytes,
                                           VkDeviceSize piece, diti_stream **out, dit_error *err) {
    diti_stream *stream = (diti_stream *)diti_alloc_zero(env, sizeof *stream);
    dit_result result = DIT_OK;
    *out = NULL;
    if (!stream) return diti_fail(err, DIT_ERROR_OUT_OF_HOST_MEMORY, "no host memory to stream weights");
    stream->env = *env;
    stream->device = device;
    stream->slot_bytes = slot_bytes;
    stream->piece = piece;
    stream->home = stream;
    if (device) result = diti_stream_make(stream, piece, err);
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
        for (i = 0; i < DITI_STREAM_SLOTS && home->device; i++) {
            diti_buffer_destroy(home->device, &home->slots[i].mirror);
            diti_buffer_destroy(home->device, &home->slots[i].buffer);
        }
        diti_free(&env, home);
        home = next;
    }
}

/* The stream of a device, which is made for its first plan. Of two threads that make it at the same time the second
   one throws its own away. */
static dit_result diti_stream_on(diti_stream *home, diti_device *device, diti_stream **out, dit_error *err) {
    VkDeviceSize limit = device->limits.block & ~(VkDeviceSize)0xffff, bytes = home->slot_bytes;
    diti_stream *made = NULL, *found;
    dit_result result;
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
        result = diti_stream_create(device, &home->env, bytes < limit ? bytes : limit, home->piece, &made, err);
        if (result < 0) return result;
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

DIT_INTERNAL dit_result diti_plan_pause(const diti_plan *plan, dit_error *err) {
    return diti_timeline_wait(plan->device, plan->timeline, plan->submitted + 1, 1000000u, err);
}

#define DITI_STREAM_PIECE ((uint64_t)4 << 20)  /* read at a time where nothing else limits it */
#define DITI_STREAM_ROWS ((uint64_t)256 << 10) /* of rows of which some columns are wanted */

/* --- groups: when a plan is made --- */

DIT_INTERNAL bool diti_part_streams(const diti_weight_part *part) { return part->streamed && part->streamed->stream; }

typedef struct diti_group_maker {
    diti_plan *plan;
    VkDeviceSize room; /* of a group */
    uint32_t group;    /* the open one */
    dit_error *err;
} diti_group_maker;

static bool diti_group_no_memory(diti_group_maker *maker) {
    diti_fail(maker->err, DIT_ERROR_OUT_OF_HOST_MEMORY, "no host memory for the plan");
    return false;
}

static bool diti_group_open(diti_group_maker *maker) {
    diti_plan *plan = maker->plan;
    diti_plan_group *group;
    if (!diti_grow(&plan->device->env, (void **)&plan->groups, &plan->group_capacity, plan->group_count,
                   sizeof *plan->groups))
        return diti_group_no_memory(maker);
    group = &plan->groups[plan->group_count];
    memset(group, 0, sizeof *group);
    group->first = (uint32_t)plan->item_count;
    maker->group = (uint32_t)plan->group_count++;
    return true;
}

static const diti_plan_item *diti_group_find(const diti_plan *plan, uint32_t group, const diti_tensor_info *weight) {
    const diti_weight_part *part = weight->part;
    uint32_t i;
    for (i = 0; group != DITI_NO_GROUP && i < plan->groups[group].count; i++) {
        const diti_plan_item *item = &plan->items[plan->groups[group].first + i];
        if (item->streamed == part->streamed && item->from == part->offset && item->bytes == weight->bytes &&
            item->pieces == part->pieces)
            return item;
    }
    return NULL;
}

/* The streamed parts of a dispatch that group lacks; returns their number and adds up their bytes. */
static uint32_t diti_group_missing(const diti_plan *plan, uint32_t group, const diti_dispatch *source,
                                   diti_plan_item *out, VkDeviceSize *bytes) {
    uint32_t i, count = 0;
    *bytes = 0;
    for (i = 0; i < source->binding_count; i++) {
        const diti_tensor_info *parent = &plan->tensors[plan->tensors[source->bindings[i].tensor].parent];
        if (!source->bindings[i].tensor || parent->storage != DITI_STORAGE_WEIGHT || !diti_part_streams(parent->part))
            continue;
        if (diti_group_find(plan, group, parent)) continue;
        out[count].streamed = parent->part->streamed;
        out[count].from = parent->part->offset;
        out[count].bytes = parent->bytes;
        out[count].pieces = parent->part->pieces;
        out[count].read = parent->part->pieces ? parent->rows * parent->part->pieces->from_pitch : parent->bytes;
        *bytes += (parent->bytes + 15u) & ~(uint64_t)15u;
        count++;
    }
    return count;
}

static bool diti_group_add(diti_group_maker *maker, const diti_plan_item *items, uint32_t count) {
    diti_plan *plan = maker->plan;
    diti_plan_group *group = &plan->groups[maker->group];
    uint32_t i;
    for (i = 0; i < count; i++) {
        diti_plan_item *item;
        if (!diti_grow(&plan->device->env, (void **)&plan->items, &plan->item_capacity, plan->item_count,
                       sizeof *plan->items))
            return diti_group_no_memory(maker);
        item = &plan->items[plan->item_count++];
        *item = items[i];
        item->offset = group->bytes;
        group->bytes += (item->bytes + 15u) & ~(uint64_t)15u;
        group->count++;
    }
    return true;
}

/* Puts a dispatch into the open group, or where that is full into a new one. */
static bool diti_group_take(diti_group_maker *maker, uint32_t source) {
    diti_plan *plan = maker->plan;
    const diti_dispatch *dispatch = &plan->sources[source];
    diti_plan_item items[DITI_MAX_BINDINGS];
    VkDeviceSize bytes, used = maker->group == DITI_NO_GROUP ? 0 : plan->groups[maker->group].bytes;
    uint32_t all = diti_group_missing(plan, DITI_NO_GROUP, dispatch, items, &bytes);
    uint32_t count = diti_group_missing(plan, maker->group, dispatch, items, &bytes);
    plan->source_groups[source] = DITI_NO_GROUP;
    if (!all) return true;
    if (count && (maker->group == DITI_NO_GROUP || used + bytes > maker->room)) {
        if (!diti_group_open(maker)) return false;
        count = diti_group_missing(plan, maker->group, dispatch, items, &bytes);
        if (bytes > plan->stream->slot_bytes) {
            diti_fail(maker->err, DIT_ERROR_UNSUPPORTED_MODEL,
                      "op %s reads %llu bytes of streamed weights at once, more than a slot of %llu", dispatch->name,
                      (unsigned long long)bytes, (unsigned long long)plan->stream->slot_bytes);
            return false;
        }
    }
    if (!diti_group_add(maker, items, count)) return false;
    plan->source_groups[source] = maker->group;
    return true;
}

static bool diti_group_segment(diti_group_maker *maker, const diti_segment *segment) {
    uint32_t i;
    maker->group = DITI_NO_GROUP;
    for (i = segment->first; i < segment->first + segment->count; i++) {
        if (!diti_group_take(maker, i)) return false;
    }
    return true;
}

/* A repeated segment whose groups do not go round evenly would need one slot for its last group and its first: then
   smaller groups are tried. */
static bool diti_group_even_segment(diti_group_maker *maker, const diti_segment *segment) {
    diti_plan *plan = maker->plan;
    size_t groups = plan->group_count, items = plan->item_count;
    uint32_t part, count;
    for (part = 16; part >= 8; part--) {
        plan->group_count = groups;
        plan->item_count = items;
        maker->room = plan->stream->slot_bytes / 16 * part;
        if (!diti_group_segment(maker, segment)) return false;
        count = (uint32_t)(plan->group_count - groups);
        if (!segment->repeated || count <= DITI_STREAM_SLOTS || count % DITI_STREAM_SLOTS == 0) break;
    }
    return true;
}

/* The stream behind the plan's weights, of its device; and room for rows of which it wants some columns. */
static dit_result diti_group_stream(diti_plan *plan, dit_error *err) {
    diti_stream *home = NULL;
    uint64_t row = 0;
    size_t i;
    dit_result result;
    for (i = 1; i < plan->tensor_count; i++) {
        const diti_tensor_info *tensor = &plan->tensors[i];
        if (tensor->storage != DITI_STORAGE_WEIGHT || !diti_part_streams(tensor->part)) continue;
        if (home && home != tensor->part->streamed->stream)
            return diti_fail(err, DIT_ERROR_UNSUPPORTED_MODEL,
                             "a plan cannot use several models with streamed weights");
        home = tensor->part->streamed->stream;
        if (tensor->part->pieces && tensor->part->pieces->from_pitch > row) row = tensor->part->pieces->from_pitch;
    }
    if (!home) return DIT_OK;
    result = diti_stream_on(home, plan->device, &plan->stream, err);
    if (result < 0 || !row) return result;
    plan->stream_row_bytes = row > DITI_STREAM_ROWS ? row : DITI_STREAM_ROWS;
    plan->stream_rows = (unsigned char *)diti_alloc_array(&plan->device->env, 1, (size_t)plan->stream_row_bytes);
    return plan->stream_rows ? DIT_OK : diti_fail(err, DIT_ERROR_OUT_OF_HOST_MEMORY, "no host memory for the plan");
}

DIT_INTERNAL dit_result diti_plan_make_groups(diti_plan *plan, const diti_graph *graph, dit_error *err) {
    diti_group_maker maker = DITI_ZERO;
    dit_error error = DITI_ZERO; /* err may be NULL, and the result is in it */
    uint32_t segment, i;
    size_t before;
    dit_result result = diti_group_stream(plan, err);
    if (result < 0 || !plan->stream) return result;
    plan->source_groups =
        (uint32_t *)diti_alloc_array(&plan->device->env, plan->source_count + 1, sizeof *plan->source_groups);
    if (!plan->source_groups) return diti_fail(err, DIT_ERROR_OUT_OF_HOST_MEMORY, "no host memory for the plan");
    maker.plan = plan;
    maker.err = &error;
    for (segment = 0; segment < graph->segment_count; segment++) {
        before = plan->group_count;
        if (!diti_group_even_segment(&maker, &graph->segments[segment])) {
            if (err) *err = error;
            return error.result;
        }
        for (i = (uint32_t)before; i < plan->group_count; i++) plan->groups[i].slot = i % DITI_STREAM_SLOTS;
    }
    return DIT_OK;
}

DIT_INTERNAL VkDeviceSize diti_plan_weight_place(const diti_plan *plan, uint32_t source, const diti_tensor_info *weight,
                                                 VkBuffer *buffer) {
    const diti_plan_item *item;
    if (!diti_part_streams(weight->part)) {
        *buffer = weight->buffer;
        return weight->offset;
    }
    item = diti_group_find(plan, plan->source_groups[source], weight);
    *buffer = plan->stream->slots[plan->groups[plan->source_groups[source]].slot].buffer.buffer;
    return item->offset;
}

/* --- filling a slot: under busy --- */

static bool diti_slot_holds(const diti_stream_slot *slot, const diti_plan *plan, uint32_t group) {
    return slot->plan == plan && slot->group == group;
}

/* Whether frames that read the slot are finished. */
static bool diti_slot_marked(const diti_stream *stream, const diti_stream_slot *slot) {
    if (!slot->marks) return true;
    diti_buffer_invalidate(stream->device, slot->marks);
    return (int32_t)(*(const volatile uint32_t *)slot->marks->block.mapped - slot->mark) >= 0;
}

/* The application's frames cannot be waited for but by looking: it may have thrown them away. */
static dit_result diti_slot_wait_mark(const diti_stream *stream, const diti_stream_slot *slot, const diti_plan *plan,
                                      dit_error *err) {
    uint64_t begin = diti_clock_us();
    dit_result result = DIT_OK;
    while (result >= 0 && !diti_slot_marked(stream, slot)) {
        if (diti_clock_us() - begin > stream->device->patience_us)
            return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                             "commands that dit_job_record wrote still read streamed weights after %llu ms; submit "
                             "them, or destroy their job",
                             (unsigned long long)(stream->device->patience_us / 1000));
        result = diti_plan_pause(plan, err);
    }
    return result < 0 ? result : DIT_OK;
}

/* DIT_OK: nothing reads or writes the slot any more. */
static dit_result diti_slot_idle(diti_stream *stream, diti_stream_slot *slot, const diti_plan *plan, bool wait,
                                 dit_error *err) {
    uint64_t done = 0;
    dit_result result = DIT_OK;
    if (!wait && !diti_slot_marked(stream, slot)) return DIT_WORKING;
    if (wait) result = diti_slot_wait_mark(stream, slot, plan, err);
    if (result < 0) return result;
    slot->marks = NULL;
    if (stream->stage) result = diti_stage_wait(stream->stage, slot->written, wait, err);
    if (result != DIT_OK || !slot->reader) return result;
    if (wait) return diti_timeline_wait(stream->device, slot->reader, slot->reader_value, UINT64_MAX, err);
    result = diti_timeline_value(stream->device, slot->reader, &done, err);
    return result < 0 || done >= slot->reader_value ? result : DIT_WORKING;
}

/* Takes the slot for a group of plan; what was in it is gone. */
static dit_result diti_slot_take(diti_stream *stream, diti_stream_slot *slot, diti_plan *plan, uint32_t group,
                                 bool wait, dit_error *err) {
    dit_result result = diti_slot_idle(stream, slot, plan, wait, err);
    if (result != DIT_OK) return result;
    if (slot->plan && slot->plan != plan && !slot->used) slot->plan->robbed = true;
    slot->plan = plan;
    slot->group = group;
    slot->ready = slot->used = false;
    slot->mirrored = plan->recorded && slot->mirror.buffer;
    slot->item = 0;
    slot->done = 0;
    slot->reader = VK_NULL_HANDLE;
    return DIT_OK;
}

/* The upload that holds what comes next of the slot's item; NULL: nothing does, and what is left fills up its last
   word. */
static diti_upload *diti_slot_find(const diti_stream_slot *slot, const diti_plan_item *item) {
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

/* From the host's copy where there is one, which is written first: memory that the device sees may be slow to read. */
static dit_result diti_streamed_read(const diti_streamed *streamed, diti_upload *upload, uint64_t done, uint64_t size,
                                     void *out, dit_error *err) {
    unsigned char *kept = streamed->kept ? streamed->kept + upload->target + done : NULL;
    dit_result result;
    if (!kept) return diti_upload_read(streamed->env, streamed->checkpoint, upload, done, size, out, err);
    if (done + size > upload->kept) {
        result = diti_upload_read(streamed->env, streamed->checkpoint, upload, done, size, kept, err);
        if (result < 0) return result;
        if (done <= upload->kept) upload->kept = done + size;
    }
    memcpy(out, kept, (size_t)size);
    return DIT_OK;
}

/* How much of an upload, from `at` on, is read next: of an item of columns whole rows. */
static uint64_t diti_slot_piece(const diti_stream *stream, const diti_stream_slot *slot, const diti_plan_item *item,
                                const diti_upload *upload, uint64_t at, uint64_t bytes) {
    uint64_t most = stream->stage ? stream->stage->bytes : DITI_STREAM_PIECE, left = item->read - slot->done, size;
    const diti_pieces *pieces = item->pieces;
    const diti_plan *plan = slot->plan;
    if (most > bytes) most = bytes;
    if (!pieces) {
        size = diti_upload_piece(upload, at, most);
        return size < left ? size : left;
    }
    if (most > plan->stream_row_bytes) most = plan->stream_row_bytes;
    if (left > diti_upload_bytes(upload) - at) left = diti_upload_bytes(upload) - at;
    if (most > left) most = left;
    return most < pieces->from_pitch ? pieces->from_pitch : most / pieces->from_pitch * pieces->from_pitch;
}

static dit_result diti_slot_read(diti_stream *stream, diti_stream_slot *slot, const diti_plan_item *item,
                                 diti_upload *upload, uint64_t size, bool wait, dit_error *err) {
    const diti_pieces *pieces = item->pieces;
    const diti_plan *plan = slot->plan;
    uint64_t rows = pieces ? size / pieces->from_pitch : 0, put = pieces ? rows * pieces->to_pitch : size;
    VkDeviceSize target = item->offset + (pieces ? slot->done / pieces->from_pitch * pieces->to_pitch : slot->done);
    dit_error why = DITI_ZERO;
    void *out = NULL;
    dit_result result = DIT_OK;
    if (slot->mirrored)
        out = (unsigned char *)slot->mirror.block.mapped + target;
    else if (stream->stage)
        result = diti_stage_room(stream->stage, put, wait, &out, err);
    else
        out = (unsigned char *)slot->buffer.block.mapped + target;
    if (result != DIT_OK) return result;
    if (diti_streamed_read(item->streamed, upload, item->from + slot->done - upload->target, size,
                           pieces ? plan->stream_rows : out, &why) < 0)
        return diti_slot_fail(upload, &why, err);
    if (pieces) diti_pieces_pick(pieces, plan->stream_rows, rows, (unsigned char *)out);
    if (stream->stage && !slot->mirrored)
        slot->written = diti_stage_put(stream->stage, slot->buffer.buffer, target, put);
    return DIT_OK;
}

/* Reads at most *bytes of the slot's group. */
static dit_result diti_slot_fill(diti_stream *stream, diti_stream_slot *slot, bool wait, uint64_t *bytes,
                                 dit_error *err) {
    diti_plan *plan = slot->plan;
    const diti_plan_group *group = &plan->groups[slot->group];
    while (slot->item < group->count) {
        const diti_plan_item *item = &plan->items[group->first + slot->item];
        diti_upload *upload = diti_slot_find(slot, item);
        uint64_t size;
        dit_result result;
        if (!upload) {
            slot->item++;
            slot->done = 0;
            continue;
        }
        if (*bytes == 0) return DIT_WORKING;
        size = diti_slot_piece(stream, slot, item, upload, item->from + slot->done - upload->target, *bytes);
        result = diti_slot_read(stream, slot, item, upload, size, wait, err);
        if (result != DIT_OK) return result;
        *bytes -= size < *bytes ? size : *bytes;
        plan->counters.streamed_bytes += size;
        slot->done += size;
    }
    slot->ready = true;
    return stream->stage && !slot->mirrored ? diti_stage_submit(stream->stage, err) : DIT_OK;
}

static dit_result diti_stream_load(diti_plan *plan, uint32_t group, bool ahead, bool wait, uint64_t *bytes,
                                   dit_error *err) {
    diti_stream *stream = plan->stream;
    diti_stream_slot *slot = &stream->slots[plan->groups[group].slot];
    uint64_t all = UINT64_MAX, before;
    bool hurry = plan->robbed && !ahead; /* or two jobs might rob each other for ever */
    diti_trace_scope scope;
    dit_result result = DIT_OK;
    if (diti_slot_holds(slot, plan, group) && slot->ready) return DIT_OK;
    if (hurry) bytes = &all;
    if (!diti_slot_holds(slot, plan, group)) {
        if (ahead && slot->plan && slot->plan != plan && !slot->used) return DIT_WORKING; /* the other's is due first */
        result = diti_slot_take(stream, slot, plan, group, wait, err);
    }
    if (result != DIT_OK || *bytes == 0) return result == DIT_OK ? DIT_WORKING : result;
    before = *bytes;
    scope = diti_trace_open(stream->device->trace, DITI_LANE_LOAD, "stream weights");
    result = diti_slot_fill(stream, slot, wait || hurry, bytes, err);
    diti_trace_close(&scope, (double)(before - *bytes));
    if (result < 0) slot->plan = NULL;
    return result;
}

/* --- for those who run plans --- */

DIT_INTERNAL bool diti_plan_streams(const diti_plan *plan) { return plan->stream != NULL; }

static uint32_t diti_plan_group_of(const diti_plan *plan, uint32_t segment, uint32_t slice) {
    return plan->slices[plan->segments[segment].first + slice].group;
}

DIT_INTERNAL dit_result diti_plan_load(diti_plan *plan, uint32_t segment, uint32_t slice, uint64_t *bytes,
                                       dit_error *err) {
    uint32_t group = diti_plan_group_of(plan, segment, slice);
    dit_result result;
    if (group == DITI_NO_GROUP) return DIT_OK;
    if (!diti_stream_enter(plan->stream)) return DIT_WORKING;
    result = diti_stream_load(plan, group, false, false, bytes, err);
    diti_stream_leave(plan->stream);
    return result;
}

DIT_INTERNAL dit_result diti_plan_load_ahead(diti_plan *plan, diti_stream_walk *walk, uint32_t segment, uint32_t slice,
                                             uint64_t *bytes, dit_error *err) {
    uint32_t group = diti_plan_group_of(plan, segment, slice);
    dit_result result;
    if (++walk->slices > DITI_STREAM_AHEAD) return DIT_WORKING;
    if (group == DITI_NO_GROUP || (walk->slots && group == walk->group)) return DIT_OK;
    if (walk->slots >> plan->groups[group].slot & 1u) return DIT_WORKING; /* what is in it is needed before */
    walk->slots |= 1u << plan->groups[group].slot;
    walk->group = group;
    if (!diti_stream_enter(plan->stream)) return DIT_WORKING;
    result = diti_stream_load(plan, group, true, false, bytes, err);
    diti_stream_leave(plan->stream);
    return result;
}

DIT_INTERNAL dit_result diti_stream_claim(diti_plan *plan, uint32_t group, diti_submission *submission,
                                          dit_error *err) {
    diti_stream *stream = plan->stream;
    uint64_t all = UINT64_MAX;
    dit_result result;
    while (!diti_stream_enter(stream)) {
        result = diti_plan_pause(plan, err);
        if (result < 0) return result;
    }
    result = diti_stream_load(plan, group, false, true, &all, err);
    if (result < 0) {
        diti_stream_leave(stream);
        return result;
    }
    if (stream->stage) {
        diti_submission_wait(submission, stream->stage->timeline, stream->slots[plan->groups[group].slot].written);
    }
    return DIT_OK;
}

DIT_INTERNAL void diti_stream_release(diti_plan *plan, uint32_t group, bool submitted) {
    diti_stream_slot *slot = &plan->stream->slots[plan->groups[group].slot];
    if (submitted) {
        slot->used = true;
        slot->reader = plan->timeline;
        slot->reader_value = plan->submitted;
        plan->robbed = false;
    }
    diti_stream_leave(plan->stream);
}

DIT_INTERNAL void diti_stream_forget(diti_plan *plan) {
    uint32_t i;
    if (!plan->stream) return;
    while (!diti_stream_enter(plan->stream)) {
        if (plan->timeline) diti_plan_pause(plan, NULL);
    }
    for (i = 0; i < DITI_STREAM_SLOTS; i++) {
        diti_stream_slot *slot = &plan->stream->slots[i];
        if (slot->plan == plan) slot->plan = NULL;
        if (slot->reader == plan->timeline) slot->reader = VK_NULL_HANDLE;
        if (slot->marks == &plan->frames.marks) slot->marks = NULL;
    }
    diti_stream_leave(plan->stream);
}

/* --- recorded plans --- */

DIT_INTERNAL void diti_stream_begin(diti_plan *plan, bool recorded) {
    uint32_t i;
    if (!plan->stream || (!plan->recorded && !recorded)) return;
    while (!diti_stream_enter(plan->stream)) diti_plan_pause(plan, NULL);
    for (i = 0; i < DITI_STREAM_SLOTS; i++) /* frames that were thrown away have copied nothing into them */
        if (plan->stream->slots[i].plan == plan) plan->stream->slots[i].plan = NULL;
    plan->recorded = recorded;
    diti_stream_leave(plan->stream);
}

static dit_result diti_stream_make_mirrors(diti_stream *stream, dit_error *err) {
    dit_result result = DIT_OK;
    uint32_t i;
    for (i = 0; i < DITI_STREAM_SLOTS && result >= 0 && stream->stage; i++) {
        diti_buffer *mirror = &stream->slots[i].mirror;
        if (!mirror->buffer)
            result = diti_buffer_create(stream->device, stream->slot_bytes, DITI_MEMORY_UPLOAD,
                                        "streamed weights of recorded jobs", mirror, err);
    }
    return result;
}

DIT_INTERNAL dit_result diti_stream_prepare(diti_plan *plan, dit_error *err) {
    diti_buffer *marks = &plan->frames.marks;
    dit_result result;
    if (!plan->stream || marks->buffer) return DIT_OK;
    while (!diti_stream_enter(plan->stream)) {
        result = diti_plan_pause(plan, err);
        if (result < 0) return result;
    }
    result = diti_stream_make_mirrors(plan->stream, err);
    diti_stream_leave(plan->stream);
    if (result >= 0) result = diti_buffer_create(plan->device, 16, DITI_MEMORY_READBACK, "frames", marks, err);
    if (result < 0) return result;
    memset(marks->block.mapped, 0, 16);
    diti_buffer_flush(plan->device, marks);
    return DIT_OK;
}

static void diti_stream_barrier(const diti_plan *plan, VkCommandBuffer commands, VkPipelineStageFlags from,
                                VkPipelineStageFlags to, VkAccessFlags access) {
    VkMemoryBarrier barrier = DITI_ZERO;
    barrier.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER;
    barrier.srcAccessMask = VK_ACCESS_MEMORY_WRITE_BIT;
    barrier.dstAccessMask = access;
    plan->device->vk.CmdPipelineBarrier(commands, from, to, 0, 1, &barrier, 0, NULL, 0, NULL);
}

static void diti_slot_record(diti_stream_slot *slot, diti_plan *plan, uint32_t group, VkCommandBuffer commands) {
    const VkPipelineStageFlags shader = VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, copy = VK_PIPELINE_STAGE_TRANSFER_BIT;
    VkBufferCopy region = DITI_ZERO;
    if (slot->mirrored) {
        diti_buffer_flush(plan->device, &slot->mirror);
        region.size = plan->groups[group].bytes;
        diti_stream_barrier(plan, commands, shader | copy, copy, VK_ACCESS_TRANSFER_WRITE_BIT);
        plan->device->vk.CmdCopyBuffer(commands, slot->mirror.buffer, slot->buffer.buffer, 1, &region);
        diti_stream_barrier(plan, commands, copy, shader, VK_ACCESS_SHADER_READ_BIT);
        slot->mirrored = false;
    }
    slot->used = true;
    slot->marks = &plan->frames.marks;
    slot->mark = (uint32_t)plan->frames.count;
    plan->robbed = false;
}

DIT_INTERNAL dit_result diti_stream_record(diti_plan *plan, uint32_t segment, uint32_t slice, uint64_t *bytes,
                                           VkCommandBuffer commands, dit_error *err) {
    uint32_t group = plan->stream ? diti_plan_group_of(plan, segment, slice) : DITI_NO_GROUP;
    dit_result result;
    if (group == DITI_NO_GROUP) return DIT_OK;
    if (!diti_stream_enter(plan->stream)) return DIT_WORKING;
    result = diti_stream_load(plan, group, false, false, bytes, err);
    if (result == DIT_OK) diti_slot_record(&plan->stream->slots[plan->groups[group].slot], plan, group, commands);
    diti_stream_leave(plan->stream);
    return result;
}

DIT_INTERNAL void diti_stream_mark(const diti_plan *plan, VkCommandBuffer commands) {
    const VkPipelineStageFlags shader = VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, copy = VK_PIPELINE_STAGE_TRANSFER_BIT;
    if (!plan->stream) return;
    diti_stream_barrier(plan, commands, shader | copy, copy, VK_ACCESS_TRANSFER_WRITE_BIT);
    plan->device->vk.CmdFillBuffer(commands, plan->frames.marks.buffer, 0, sizeof(uint32_t),
                                   (uint32_t)plan->frames.count);
    diti_stream_barrier(plan, commands, copy, VK_PIPELINE_STAGE_HOST_BIT, VK_ACCESS_HOST_READ_BIT);
}
