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
    if (device) result = diti_stream_make(stream, piece, err);
    if (result < 0)
        diti_stream_destroy(stream);
    else
        *out = stream;
    return result;
}

DIT_INTERNAL void diti_stream_destroy(diti_stream *stream) {
    diti_env env;
    uint32_t i;
    if (!stream) return;
    env = stream->env;
    diti_stage_destroy(stream->stage);
    for (i = 0; i < DITI_STREAM_SLOTS && stream->device; i++)
        diti_buffer_destroy(stream->device, &stream->slots[i].buffer);
    diti_free(&env, stream);
}

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

static const diti_plan_item *diti_group_find(const diti_plan *plan, uint32_t group, const diti_weight_part *part) {
    uint32_t i;
    for (i = 0; group != DITI_NO_GROUP && i < plan->groups[group].count; i++) {
        const diti_plan_item *item = &plan->items[plan->groups[group].first + i];
        if (item->streamed == part->streamed && item->from == part->offset) return item;
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
        if (diti_group_find(plan, group, parent->part)) continue;
        out[count].streamed = parent->part->streamed;
        out[count].from = parent->part->offset;
        out[count].bytes = parent->bytes;
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

/* The stream behind the plan's weights; false: there are several. */
static bool diti_group_stream(diti_plan *plan) {
    size_t i;
    for (i = 1; i < plan->tensor_count; i++) {
        const diti_tensor_info *tensor = &plan->tensors[i];
        if (tensor->storage != DITI_STORAGE_WEIGHT || !diti_part_streams(tensor->part)) continue;
        if (plan->stream && plan->stream != tensor->part->streamed->stream) return false;
        plan->stream = tensor->part->streamed->stream;
    }
    return true;
}

DIT_INTERNAL dit_result diti_plan_make_groups(diti_plan *plan, const diti_graph *graph, dit_error *err) {
    diti_group_maker maker = DITI_ZERO;
    dit_error error = DITI_ZERO; /* err may be NULL, and the result is in it */
    uint32_t segment, i;
    size_t before;
    if (!diti_group_stream(plan))
        return diti_fail(err, DIT_ERROR_UNSUPPORTED_MODEL, "a plan cannot use several models with streamed weights");
    if (!plan->stream) return DIT_OK;
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
    item = diti_group_find(plan, plan->source_groups[source], weight->part);
    *buffer = plan->stream->slots[plan->groups[plan->source_groups[source]].slot].buffer.buffer;
    return item->offset;
}

/* --- filling a slot: under busy --- */

static bool diti_stream_enter(diti_stream *stream) {
    bool mine;
    diti_lock(&stream->lock);
    mine = !stream->busy;
    stream->busy = true;
    diti_unlock(&stream->lock);
    return mine;
}

static void diti_stream_leave(diti_stream *stream) {
    diti_lock(&stream->lock);
    stream->busy = false;
    diti_unlock(&stream->lock);
}

DIT_INTERNAL dit_result diti_plan_pause(const diti_plan *plan, dit_error *err) {
    return diti_timeline_wait(plan->device, plan->timeline, plan->submitted + 1, 1000000u, err);
}

static bool diti_slot_holds(const diti_stream_slot *slot, const diti_plan *plan, uint32_t group) {
    return slot->plan == plan && slot->group == group;
}

/* DIT_OK: nothing reads or writes the slot any more. */
static dit_result diti_slot_idle(diti_stream *stream, diti_stream_slot *slot, bool wait, dit_error *err) {
    uint64_t done = 0;
    dit_result result = DIT_OK;
    if (stream->stage) result = diti_stage_wait(stream->stage, slot->written, wait, err);
    if (result != DIT_OK || !slot->reader) return result;
    if (wait) return diti_timeline_wait(stream->device, slot->reader, slot->reader_value, UINT64_MAX, err);
    result = diti_timeline_value(stream->device, slot->reader, &done, err);
    return result < 0 || done >= slot->reader_value ? result : DIT_WORKING;
}

/* Which upload begins where the slot's item does. */
static void diti_slot_find(diti_stream_slot *slot, const diti_plan *plan) {
    const diti_plan_group *group = &plan->groups[slot->group];
    const diti_plan_item *item = &plan->items[group->first + slot->item];
    size_t low = 0, high = slot->item < group->count ? item->streamed->count : 0;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (item->streamed->uploads[middle].target < item->from)
            low = middle + 1;
        else
            high = middle;
    }
    slot->upload = low;
}

/* Takes the slot for a group of plan; what was in it is gone. */
static dit_result diti_slot_take(diti_stream *stream, diti_stream_slot *slot, diti_plan *plan, uint32_t group,
                                 bool wait, dit_error *err) {
    dit_result result = diti_slot_idle(stream, slot, wait, err);
    if (result != DIT_OK) return result;
    if (slot->plan && slot->plan != plan && !slot->used) slot->plan->robbed = true;
    slot->plan = plan;
    slot->group = group;
    slot->ready = slot->used = false;
    slot->item = 0;
    slot->done = 0;
    slot->reader = VK_NULL_HANDLE;
    diti_slot_find(slot, plan);
    return DIT_OK;
}

/* Size bytes more were read: on to the next upload, or item. */
static void diti_slot_advance(diti_stream_slot *slot, const diti_plan *plan, const diti_plan_item *item,
                              uint64_t size) {
    const diti_streamed *streamed = item->streamed;
    slot->done += size;
    if (slot->done < diti_upload_bytes(&streamed->uploads[slot->upload])) return;
    slot->done = 0;
    slot->upload++;
    if (slot->upload < streamed->count && streamed->uploads[slot->upload].target < item->from + item->bytes) return;
    slot->item++;
    diti_slot_find(slot, plan);
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

static dit_result diti_slot_read(diti_stream *stream, diti_stream_slot *slot, const diti_plan_item *item,
                                 diti_upload *upload, uint64_t size, bool wait, dit_error *err) {
    VkDeviceSize target = item->offset + (upload->target - item->from) + slot->done;
    const diti_streamed *streamed = item->streamed;
    dit_error why = DITI_ZERO;
    void *out = NULL;
    dit_result result = DIT_OK;
    if (stream->stage)
        result = diti_stage_room(stream->stage, size, wait, &out, err);
    else
        out = (unsigned char *)slot->buffer.block.mapped + target;
    if (result != DIT_OK) return result;
    if (diti_streamed_read(streamed, upload, slot->done, size, out, &why) < 0) return diti_slot_fail(upload, &why, err);
    if (stream->stage) slot->written = diti_stage_put(stream->stage, slot->buffer.buffer, target, size);
    return DIT_OK;
}

#define DITI_STREAM_PIECE ((uint64_t)4 << 20) /* read at a time where nothing else limits it */

/* Reads at most *bytes of the slot's group. */
static dit_result diti_slot_fill(diti_stream *stream, diti_stream_slot *slot, bool wait, uint64_t *bytes,
                                 dit_error *err) {
    diti_plan *plan = slot->plan;
    const diti_plan_group *group = &plan->groups[slot->group];
    while (slot->item < group->count) {
        const diti_plan_item *item = &plan->items[group->first + slot->item];
        diti_upload *upload = &item->streamed->uploads[slot->upload];
        uint64_t size, most = stream->stage ? stream->stage->bytes : DITI_STREAM_PIECE;
        dit_result result;
        if (*bytes == 0) return DIT_WORKING;
        size = diti_upload_piece(upload, slot->done, *bytes < most ? *bytes : most);
        result = diti_slot_read(stream, slot, item, upload, size, wait, err);
        if (result != DIT_OK) return result;
        *bytes -= size < *bytes ? size : *bytes;
        plan->counters.streamed_bytes += size;
        diti_slot_advance(slot, plan, item, size);
    }
    slot->ready = true;
    return stream->stage ? diti_stage_submit(stream->stage, err) : DIT_OK;
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
    }
    diti_stream_leave(plan->stream);
}
