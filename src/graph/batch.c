/* Streamed weights as a plan sees them: its dispatches fall into batches whose matrices fit a slot (weights/stream.c),
   and every matrix has its place in it before anything is recorded. */
#include "graph/plan_internal.h"

#define DITI_STREAM_ROWS ((uint64_t)256 << 10) /* bytes of rows of which some columns are wanted */

typedef struct diti_batch_maker {
    diti_plan *plan;
    VkDeviceSize room; /* bytes that a batch has room for */
    uint32_t batch;    /* the open one */
    uint32_t turns;    /* batches of the segment in the first two slots */
    dit_error *err;
} diti_batch_maker;

static bool diti_batch_no_memory(diti_batch_maker *maker) {
    diti_fail_memory(maker->err, "the plan");
    return false;
}

static bool diti_batch_open(diti_batch_maker *maker) {
    diti_plan *plan = maker->plan;
    diti_stream_batch *batch;
    if (!diti_grow(&plan->device->env, (void **)&plan->streaming.batches, &plan->streaming.batch_capacity,
                   plan->streaming.batch_count, sizeof *plan->streaming.batches))
        return diti_batch_no_memory(maker);
    batch = &plan->streaming.batches[plan->streaming.batch_count];
    memset(batch, 0, sizeof *batch);
    batch->first = (uint32_t)plan->streaming.item_count;
    maker->batch = (uint32_t)plan->streaming.batch_count++;
    return true;
}

static const diti_stream_item *diti_batch_find(const diti_plan *plan, uint32_t batch, const diti_tensor_info *weight) {
    const diti_weight_part *part = weight->part;
    uint32_t i;
    for (i = 0; batch != DITI_NO_BATCH && i < plan->streaming.batches[batch].count; i++) {
        const diti_stream_item *item = &plan->streaming.items[plan->streaming.batches[batch].first + i];
        if (item->streamed == part->streamed && item->from == part->offset && item->bytes == weight->bytes &&
            item->pieces == part->pieces)
            return item;
    }
    return NULL;
}

/* The streamed parts of a dispatch that batch lacks; returns their number and adds up their bytes. */
static uint32_t diti_batch_missing(const diti_plan *plan, uint32_t batch, const diti_dispatch *source,
                                   diti_stream_item *out, VkDeviceSize *bytes) {
    uint32_t i, count = 0;
    *bytes = 0;
    for (i = 0; i < source->binding_count; i++) {
        const diti_tensor_info *parent = &plan->tensors[plan->tensors[source->bindings[i].tensor].parent];
        if (!source->bindings[i].tensor || parent->storage != DITI_STORAGE_WEIGHT || !diti_part_streams(parent->part))
            continue;
        if (diti_batch_find(plan, batch, parent)) continue;
        out[count].streamed = parent->part->streamed;
        out[count].from = parent->part->offset;
        out[count].bytes = parent->bytes;
        out[count].pieces = parent->part->pieces;
        out[count].read = parent->part->pieces ? parent->rows * parent->part->pieces->from_pitch : parent->bytes;
        *bytes += diti_align_up(parent->bytes, 16);
        count++;
    }
    return count;
}

static bool diti_batch_add(diti_batch_maker *maker, const diti_stream_item *items, uint32_t count) {
    diti_plan *plan = maker->plan;
    diti_stream_batch *batch = &plan->streaming.batches[maker->batch];
    uint32_t i;
    for (i = 0; i < count; i++) {
        diti_stream_item *item;
        if (!diti_grow(&plan->device->env, (void **)&plan->streaming.items, &plan->streaming.item_capacity,
                       plan->streaming.item_count, sizeof *plan->streaming.items))
            return diti_batch_no_memory(maker);
        item = &plan->streaming.items[plan->streaming.item_count++];
        *item = items[i];
        item->offset = batch->bytes;
        batch->bytes += diti_align_up(item->bytes, 16);
        batch->count++;
    }
    return true;
}

/* The stretch of an expert's row that has a slot, and in it all streamed parts of the dispatch: its number, from 0 on.
   UINT32_MAX: there is none, and they pass through the first two slots. */
static uint32_t diti_batch_expert_slot(const diti_stream_item *items, uint32_t count) {
    const VkDeviceSize bytes = items[0].streamed->slot_bytes;
    uint32_t i;
    for (i = 0; i < count && bytes; i++)
        if (items[i].streamed != items[0].streamed || items[i].pieces || items[i].from / bytes != items[0].from / bytes)
            return UINT32_MAX;
    return bytes ? (uint32_t)(items[0].from / bytes) : UINT32_MAX;
}

/* The batch of a stretch, which is the same one in all segments: whatever was loaded of it has its place there. */
static bool diti_batch_expert(diti_batch_maker *maker, const diti_streamed *expert, uint32_t stretch, uint32_t *out) {
    diti_plan *plan = maker->plan;
    diti_stream_batch *batch;
    size_t i;
    for (i = 0; i < plan->streaming.batch_count; i++) {
        batch = &plan->streaming.batches[i];
        *out = (uint32_t)i;
        if (batch->slot == DITI_STREAM_SLOTS + stretch && plan->streaming.items[batch->first].streamed == expert)
            return true;
    }
    *out = (uint32_t)i;
    if (!diti_batch_open(maker)) return false;
    plan->streaming.batches[*out].slot = DITI_STREAM_SLOTS + stretch;
    for (i = 0; i < expert->count; i++) {
        const diti_upload *upload = &expert->uploads[i];
        diti_stream_item item = DITI_ZERO;
        item.streamed = expert;
        item.from = upload->target;
        item.bytes = item.read = diti_upload_bytes(upload);
        if (upload->target / expert->slot_bytes != stretch) continue;
        if (!diti_batch_add(maker, &item, 1)) return false;
    }
    return true;
}

/* Puts a dispatch into the batch of its stretch, if it has one. */
static bool diti_batch_take_expert(diti_batch_maker *maker, uint32_t source) {
    diti_plan *plan = maker->plan;
    diti_stream_item items[DITI_MAX_BINDINGS];
    VkDeviceSize bytes;
    uint32_t count = diti_batch_missing(plan, DITI_NO_BATCH, &plan->sources[source], items, &bytes);
    uint32_t stretch = count ? diti_batch_expert_slot(items, count) : UINT32_MAX;
    plan->source_batches[source] = DITI_NO_BATCH;
    if (stretch == UINT32_MAX) return true;
    return diti_batch_expert(maker, items[0].streamed, stretch, &plan->source_batches[source]);
}

/* Puts a dispatch that reads streamed weights into the open batch, or where that is full into a new one. */
static bool diti_batch_take(diti_batch_maker *maker, uint32_t source) {
    diti_plan *plan = maker->plan;
    const diti_dispatch *dispatch = &plan->sources[source];
    diti_stream_item items[DITI_MAX_BINDINGS];
    VkDeviceSize bytes, used = maker->batch == DITI_NO_BATCH ? 0 : plan->streaming.batches[maker->batch].bytes;
    uint32_t count;
    if (!diti_batch_missing(plan, DITI_NO_BATCH, dispatch, items, &bytes)) return true;
    count = diti_batch_missing(plan, maker->batch, dispatch, items, &bytes);
    if (count && (maker->batch == DITI_NO_BATCH || used + bytes > maker->room)) {
        if (!diti_batch_open(maker)) return false;
        plan->streaming.batches[maker->batch].slot = maker->turns++ % DITI_STREAM_SLOTS;
        count = diti_batch_missing(plan, maker->batch, dispatch, items, &bytes);
        if (bytes > plan->streaming.stream->slot_bytes) {
            diti_fail(maker->err, DIT_ERROR_UNSUPPORTED_MODEL,
                      "op %s reads %llu bytes of streamed weights at once, more than a slot of %llu", dispatch->name,
                      (unsigned long long)bytes, (unsigned long long)plan->streaming.stream->slot_bytes);
            return false;
        }
    }
    if (!diti_batch_add(maker, items, count)) return false;
    plan->source_batches[source] = maker->batch;
    return true;
}

/* An expansion that begins a batch goes back behind the product that it has passed: that one computes while the batch
   is loaded. */
static void diti_batch_begin_late(diti_plan *plan, const diti_segment *segment) {
    uint32_t i, end = segment->first + segment->count, last = DITI_NO_BATCH;
    for (i = segment->first; i + 1 < end; i++) {
        uint32_t batch = plan->source_batches[i];
        diti_dispatch expansion = plan->sources[i];
        if (batch == DITI_NO_BATCH || batch == last) continue;
        last = batch;
        if (!expansion.passed || plan->source_batches[i + 1] != DITI_NO_BATCH) continue;
        plan->sources[i] = plan->sources[i + 1];
        plan->source_batches[i] = DITI_NO_BATCH;
        plan->sources[i + 1] = expansion;
        plan->source_batches[i + 1] = batch;
        i++;
    }
}

/* Batches of stretches come first: the items of a batch lie side by side, so that no other one may begin while it is
   open. */
static bool diti_batch_segment(diti_batch_maker *maker, const diti_segment *segment) {
    const uint32_t end = segment->first + segment->count;
    uint32_t i;
    for (i = segment->first; i < end; i++)
        if (!diti_batch_take_expert(maker, i)) return false;
    maker->batch = DITI_NO_BATCH;
    maker->turns = 0;
    for (i = segment->first; i < end; i++)
        if (maker->plan->source_batches[i] == DITI_NO_BATCH && !diti_batch_take(maker, i)) return false;
    return true;
}

/* A repeated segment whose batches do not go round evenly would need one slot for its last batch and its first: then
   smaller batches are tried. */
static bool diti_batch_even_segment(diti_batch_maker *maker, const diti_segment *segment) {
    diti_plan *plan = maker->plan;
    size_t batches = plan->streaming.batch_count, items = plan->streaming.item_count;
    uint32_t part;
    for (part = 16; part >= 8; part--) {
        plan->streaming.batch_count = batches;
        plan->streaming.item_count = items;
        maker->room = plan->streaming.stream->slot_bytes / 16 * part;
        if (!diti_batch_segment(maker, segment)) return false;
        if (!segment->repeated || maker->turns <= DITI_STREAM_SLOTS || maker->turns % DITI_STREAM_SLOTS == 0) break;
    }
    return true;
}

/* The stream behind the plan's weights, of its device; and room for rows of which it wants some columns. */
static dit_result diti_batch_stream(diti_plan *plan, dit_error *err) {
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
    result = diti_stream_on(home, plan->device, &plan->streaming.stream, err);
    plan->streaming.timeline = &plan->timeline;
    if (result < 0 || !row) return result;
    plan->streaming.row_bytes = row > DITI_STREAM_ROWS ? row : DITI_STREAM_ROWS;
    plan->streaming.rows = (unsigned char *)diti_alloc_array(&plan->device->env, 1, (size_t)plan->streaming.row_bytes);
    return plan->streaming.rows ? DIT_OK : diti_fail_memory(err, "the plan");
}

DIT_INTERNAL dit_result diti_plan_make_batches(diti_plan *plan, const diti_graph *graph, dit_error *err) {
    diti_batch_maker maker = DITI_ZERO;
    dit_error error = DITI_ZERO; /* err may be NULL, and the result is in it */
    uint32_t segment;
    dit_result result = diti_batch_stream(plan, err);
    if (result < 0 || !plan->streaming.stream) return result;
    plan->source_batches =
        (uint32_t *)diti_alloc_array(&plan->device->env, plan->source_count + 1, sizeof *plan->source_batches);
    if (!plan->source_batches) return diti_fail_memory(err, "the plan");
    maker.plan = plan;
    maker.err = &error;
    for (segment = 0; segment < graph->segment_count; segment++) {
        if (!diti_batch_even_segment(&maker, &graph->segments[segment])) {
            if (err) *err = error;
            return error.result;
        }
        diti_batch_begin_late(plan, &graph->segments[segment]);
    }
    return DIT_OK;
}

DIT_INTERNAL VkDeviceSize diti_plan_weight_place(const diti_plan *plan, uint32_t source, const diti_tensor_info *weight,
                                                 VkBuffer *buffer) {
    uint32_t slot;
    if (!diti_part_streams(weight->part)) {
        *buffer = weight->buffer;
        return weight->offset;
    }
    slot = plan->streaming.batches[plan->source_batches[source]].slot;
    *buffer = plan->streaming.stream->slots[slot].buffer.buffer;
    if (slot >= DITI_STREAM_SLOTS) return weight->part->offset % weight->part->streamed->slot_bytes;
    return diti_batch_find(plan, plan->source_batches[source], weight)->offset;
}

/* --- while it runs --- */

DIT_INTERNAL dit_result diti_plan_pause(const diti_plan *plan, dit_error *err) {
    return diti_timeline_wait(plan->device, plan->timeline.semaphore, plan->timeline.submitted + 1, 1000000u, err);
}

DIT_INTERNAL bool diti_plan_streams(const diti_plan *plan) { return plan->streaming.stream != NULL; }

static uint32_t diti_batch_of(const diti_plan *plan, uint32_t segment, uint32_t slice) {
    return plan->slices[plan->segments[segment].first + slice].batch;
}

static void diti_batch_count(diti_plan *plan) {
    plan->counters.streamed_bytes += plan->streaming.read_bytes;
    plan->streaming.read_bytes = 0;
}

DIT_INTERNAL dit_result diti_plan_load(diti_plan *plan, uint32_t segment, uint32_t slice, uint64_t *bytes,
                                       dit_error *err) {
    uint32_t batch = diti_batch_of(plan, segment, slice);
    dit_result result;
    if (batch == DITI_NO_BATCH) return DIT_OK;
    result = diti_stream_load(&plan->streaming, batch, false, bytes, err);
    diti_batch_count(plan);
    return result;
}

DIT_INTERNAL dit_result diti_plan_load_ahead(diti_plan *plan, diti_stream_walk *walk, uint32_t segment, uint32_t slice,
                                             uint64_t *bytes, dit_error *err) {
    uint32_t batch = diti_batch_of(plan, segment, slice), slot;
    dit_result result;
    if (++walk->slices > DITI_STREAM_AHEAD) return DIT_WORKING;
    if (batch == DITI_NO_BATCH) return DIT_OK;
    slot = plan->streaming.batches[batch].slot;
    if (walk->slots >> slot & 1u) /* the slot's content is needed before */
        return walk->batches[slot] == batch ? DIT_OK : DIT_WORKING;
    walk->slots |= 1u << slot;
    walk->batches[slot] = batch;
    result = diti_stream_load(&plan->streaming, batch, true, bytes, err);
    diti_batch_count(plan);
    return result;
}

DIT_INTERNAL dit_result diti_plan_claim_batch(diti_plan *plan, uint32_t batch, diti_submission *submission,
                                              dit_error *err) {
    dit_result result = diti_stream_claim(&plan->streaming, batch, submission, err);
    diti_batch_count(plan);
    return result;
}

DIT_INTERNAL void diti_plan_forget_stream(diti_plan *plan) {
    if (plan->streaming.stream) diti_stream_forget(&plan->streaming, &plan->frames.marks);
    diti_free(&plan->device->env, plan->streaming.items);
    diti_free(&plan->device->env, plan->streaming.batches);
    diti_free(&plan->device->env, plan->streaming.rows);
    diti_free(&plan->device->env, plan->source_batches);
    memset(&plan->streaming, 0, sizeof plan->streaming);
    plan->source_batches = NULL;
}

DIT_INTERNAL void diti_plan_begin_stream(diti_plan *plan, bool recorded) {
    plan->frames.marked = 0; /* frames before it have finished, or never will */
    if (plan->streaming.stream) diti_stream_begin(&plan->streaming, &plan->frames.marks, recorded);
}

DIT_INTERNAL dit_result diti_plan_prepare_stream(diti_plan *plan, dit_error *err) {
    diti_buffer *marks = &plan->frames.marks;
    if (!plan->streaming.stream || marks->buffer) return DIT_OK;
    DITI_TRY(diti_stream_make_mirrors(&plan->streaming, err));
    DITI_TRY(diti_buffer_create(plan->device, 16, DITI_MEMORY_READBACK, "frames", marks, err));
    memset(marks->block.mapped, 0, 16);
    diti_buffer_flush(plan->device, marks);
    return DIT_OK;
}

DIT_INTERNAL dit_result diti_plan_record_stream(diti_plan *plan, uint32_t segment, uint32_t slice, uint64_t *bytes,
                                                VkCommandBuffer commands, dit_error *err) {
    uint32_t batch = plan->streaming.stream ? diti_batch_of(plan, segment, slice) : DITI_NO_BATCH;
    dit_result result;
    if (batch == DITI_NO_BATCH) return DIT_OK;
    result = diti_stream_record(&plan->streaming, batch, &plan->frames.marks, (uint32_t)plan->frames.count, bytes,
                                commands, err);
    diti_batch_count(plan);
    return result;
}

DIT_INTERNAL void diti_plan_mark_stream(diti_plan *plan, VkCommandBuffer commands) {
    diti_frames *frames = &plan->frames;
    if (!plan->streaming.stream) return;
    frames->marked_before = frames->marked;
    frames->marked = (uint32_t)frames->count;
    diti_stream_mark(plan->device, &frames->marks, frames->marked, commands);
}
