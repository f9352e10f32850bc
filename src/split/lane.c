/* Copies from one device to another. A chunk has three steps: out of the source into a slot, from side to side, out of
   the slot into the target. The first and the last are submissions to the two devices, which wait for what was
   submitted there before; the step between them, and its order, is the host's (diti_lane_pump). Where the other device
   is in another process, the application's transport takes its place. */
#include "split/mesh.h"

DIT_INTERNAL const char *diti_transport_name(diti_transport transport) {
    static const char *const names[DITI_TRANSPORTS] = {"group",  "fd",          "dma_buf", "host",
                                                       "staged", "application", "local"};
    return names[transport];
}

static bool diti_lane_shares(const diti_lane *lane) { return lane->transport <= DITI_TRANSPORT_HOST; }

DIT_INTERNAL bool diti_lane_pins(diti_transport transport) {
    return transport == DITI_TRANSPORT_HOST || transport == DITI_TRANSPORT_STAGED ||
           transport == DITI_TRANSPORT_APPLICATION;
}

DIT_INTERNAL void diti_lane_fit(diti_lane_desc *desc, uint64_t room) {
    uint64_t bytes = room / DITI_LANE_SLOTS & ~(uint64_t)255;
    desc->slots = DITI_LANE_SLOTS;
    if (desc->transport == DITI_TRANSPORT_APPLICATION) {
        while (desc->slots > 1 && room / desc->slots < desc->slot_bytes) desc->slots--;
        return;
    }
    if (bytes < DITI_STAGING_MIN) bytes = DITI_STAGING_MIN;
    if (bytes < desc->slot_bytes) desc->slot_bytes = bytes;
}

static diti_buffer *diti_lane_buffer(diti_lane *lane, uint32_t side, uint64_t chunk) {
    diti_lane_slot *slot = &lane->slots[chunk % lane->slot_count];
    if (lane->transport == DITI_TRANSPORT_LOCAL) side = DITI_LANE_OUT;
    return diti_lane_shares(lane) ? &slot->shared.buffers[side] : &slot->buffers[side];
}

/* --- making --- */

static dit_result diti_lane_make_slot(diti_lane *lane, diti_lane_slot *slot, dit_error *err) {
    static const diti_memory_sharing shares[] = {DITI_SHARING_GROUP, DITI_SHARING_FD, DITI_SHARING_DMA_BUF,
                                                 DITI_SHARING_HOST};
    static const diti_memory_kind kinds[DITI_LANE_SIDES] = {DITI_MEMORY_READBACK, DITI_MEMORY_UPLOAD};
    dit_result result = DIT_OK;
    uint32_t side;
    if (diti_lane_shares(lane))
        return diti_shared_create(lane->sides[DITI_LANE_OUT].device, lane->sides[DITI_LANE_IN].device,
                                  shares[lane->transport], lane->slot_bytes, &slot->shared, err);
    if (lane->transport == DITI_TRANSPORT_LOCAL)
        return diti_buffer_create_shared(lane->sides[DITI_LANE_OUT].device, lane->slot_bytes, "copies on a device",
                                         &slot->buffers[DITI_LANE_OUT], err);
    for (side = 0; side < DITI_LANE_SIDES && result >= 0; side++) {
        if (lane->sides[side].device)
            result = diti_buffer_create(lane->sides[side].device, lane->slot_bytes, kinds[side],
                                        "copies between devices", &slot->buffers[side], err);
    }
    return result;
}

static dit_result diti_lane_make_side(diti_lane_side *side, uint32_t slots, dit_error *err) {
    diti_device *device = side->device;
    VkCommandPoolCreateInfo info = DITI_ZERO;
    VkCommandBufferAllocateInfo allocate = DITI_ZERO;
    VkResult vr;
    if (!device) return DIT_OK;
    info.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO;
    info.flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT;
    info.queueFamilyIndex = device->transfer_queue ? device->transfer_family : device->queue_family;
    vr = device->vk.CreateCommandPool(device->device, &info, device->callbacks, &side->pool);
    if (vr < 0) {
        side->pool = VK_NULL_HANDLE;
        return diti_device_fail(device, vr, "vkCreateCommandPool", err);
    }
    allocate.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO;
    allocate.commandPool = side->pool;
    allocate.level = VK_COMMAND_BUFFER_LEVEL_PRIMARY;
    allocate.commandBufferCount = slots;
    vr = device->vk.AllocateCommandBuffers(device->device, &allocate, side->commands);
    if (vr < 0) return diti_device_fail(device, vr, "vkAllocateCommandBuffers", err);
    return side->timeline ? DIT_OK : diti_timeline_create(device, &side->timeline, err);
}

/* The sending side's timeline, where the receiving device is to wait for it. */
static dit_result diti_lane_make_bridge(diti_lane *lane, const diti_lane_desc *desc, dit_error *err) {
    VkSemaphore timelines[2] = {VK_NULL_HANDLE, VK_NULL_HANDLE};
    dit_result result;
    if (!desc->bridged) return DIT_OK;
    result = diti_timeline_create_shared(desc->devices[DITI_LANE_OUT], desc->devices[DITI_LANE_IN], timelines, err);
    lane->sides[DITI_LANE_OUT].timeline = timelines[0];
    lane->bridge = timelines[1];
    return result;
}

DIT_INTERNAL dit_result diti_lane_create(const diti_env *env, const diti_lane_desc *desc, diti_lane **out,
                                         dit_error *err) {
    diti_lane *lane = (diti_lane *)diti_alloc_zero(env, sizeof *lane);
    dit_result result = DIT_OK;
    uint32_t i;
    *out = NULL;
    if (!lane) return diti_fail_memory(err, "copies between devices");
    lane->env = *env;
    lane->transport = desc->transport;
    lane->from = desc->from;
    lane->to = desc->to;
    lane->slot_bytes = desc->slot_bytes;
    lane->slot_count = desc->slots ? desc->slots : DITI_LANE_SLOTS;
    lane->tag = desc->tag;
    memcpy(lane->ranks, desc->ranks, sizeof lane->ranks);
    lane->limit_us = desc->limit_us;
    if (desc->application) lane->application = *desc->application;
    lane->owed = desc->owed;
    if (lane->transport == DITI_TRANSPORT_APPLICATION) {
        lane->ledger = (diti_lane_ledger *)diti_alloc_zero(env, sizeof *lane->ledger);
        if (!lane->ledger) result = diti_fail_memory(err, "copies between devices");
        if (lane->ledger) lane->ledger->sends = desc->devices[DITI_LANE_OUT] != NULL;
    }
    for (i = 0; i < DITI_LANE_SIDES; i++) {
        lane->sides[i].device = desc->devices[i];
        if (desc->devices[i]) lane->trace = desc->devices[i]->trace;
    }
    if (result >= 0) result = diti_lane_make_bridge(lane, desc, err);
    for (i = 0; i < DITI_LANE_SIDES && result >= 0; i++)
        result = diti_lane_make_side(&lane->sides[i], lane->slot_count, err);
    for (i = 0; i < lane->slot_count && result >= 0; i++) result = diti_lane_make_slot(lane, &lane->slots[i], err);
    if (lane->transport == DITI_TRANSPORT_LOCAL) lane->bridge = lane->sides[DITI_LANE_OUT].timeline;
    if (result < 0)
        diti_lane_destroy(lane);
    else
        *out = lane;
    return result;
}

static void diti_lane_free_side(diti_lane *lane, uint32_t index) {
    diti_lane_side *side = &lane->sides[index];
    diti_device *device = side->device;
    uint32_t i;
    diti_free(&lane->env, side->turns);
    diti_free(&lane->env, side->copies);
    diti_free(&lane->env, side->chunks);
    if (!device) return;
    diti_destroy_Semaphore(device, side->timeline);
    if (index == DITI_LANE_IN && lane->transport != DITI_TRANSPORT_LOCAL) diti_destroy_Semaphore(device, lane->bridge);
    diti_destroy_CommandPool(device, side->pool);
    for (i = 0; i < lane->slot_count; i++) diti_buffer_destroy(device, &lane->slots[i].buffers[index]);
}

DIT_INTERNAL void diti_lane_destroy(diti_lane *lane) {
    diti_env env;
    uint32_t i;
    if (!lane) return;
    env = lane->env;
    diti_lane_settle(lane);
    for (i = 0; i < DITI_LANE_SIDES; i++)
        if (lane->sides[i].device) diti_queue_rest(lane->sides[i].device);
    for (i = 0; i < DITI_LANE_SIDES; i++) diti_lane_free_side(lane, i);
    for (i = 0; i < lane->slot_count && diti_lane_shares(lane); i++)
        diti_shared_destroy(lane->sides[DITI_LANE_OUT].device, lane->sides[DITI_LANE_IN].device,
                            &lane->slots[i].shared);
    diti_free(&env, lane->ledger);
    diti_free(&env, lane);
}

/* --- recording --- */

static void diti_lane_barrier(const diti_device *device, VkCommandBuffer commands, VkPipelineStageFlags from,
                              VkAccessFlags from_access, VkPipelineStageFlags to, VkAccessFlags to_access) {
    VkMemoryBarrier barrier = DITI_ZERO;
    barrier.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER;
    barrier.srcAccessMask = from_access;
    barrier.dstAccessMask = to_access;
    device->vk.CmdPipelineBarrier(commands, from, to, 0, 1, &barrier, 0, NULL, 0, NULL);
}

/* Hands a slot that another device wrote over to this one, or what this one wrote to the other. */
static void diti_lane_hand_over(const diti_device *device, VkCommandBuffer commands, VkBuffer slot, bool acquire) {
    uint32_t own = device->transfer_queue ? device->transfer_family : device->queue_family;
    VkBufferMemoryBarrier barrier = DITI_ZERO;
    barrier.sType = VK_STRUCTURE_TYPE_BUFFER_MEMORY_BARRIER;
    barrier.srcAccessMask = acquire ? 0u : (VkAccessFlags)VK_ACCESS_TRANSFER_WRITE_BIT;
    barrier.dstAccessMask = acquire ? (VkAccessFlags)VK_ACCESS_TRANSFER_READ_BIT : 0u;
    barrier.srcQueueFamilyIndex = acquire ? VK_QUEUE_FAMILY_EXTERNAL : own;
    barrier.dstQueueFamilyIndex = acquire ? own : VK_QUEUE_FAMILY_EXTERNAL;
    barrier.buffer = slot;
    barrier.size = VK_WHOLE_SIZE;
    device->vk.CmdPipelineBarrier(commands, VK_PIPELINE_STAGE_TRANSFER_BIT, VK_PIPELINE_STAGE_TRANSFER_BIT, 0, 0, NULL,
                                  1, &barrier, 0, NULL);
}

/* Bytes [from, to) of a copy, the rows of which follow each other in the slot. */
static void diti_lane_record_rows(const diti_device *device, VkCommandBuffer commands, const diti_lane_copy *copy,
                                  uint64_t from, uint64_t to, VkBuffer slot, uint32_t side) {
    VkBufferCopy parts[64];
    uint64_t at, size;
    uint32_t count = 0;
    memset(parts, 0, sizeof parts);
    for (at = from; at < to; at += size) {
        uint64_t in_row = at % copy->row_bytes;
        VkDeviceSize far_offset = copy->offset + at / copy->row_bytes * copy->pitch + in_row, near_offset = at - from;
        size = copy->row_bytes - in_row < to - at ? copy->row_bytes - in_row : to - at;
        parts[count].srcOffset = side == DITI_LANE_OUT ? far_offset : near_offset;
        parts[count].dstOffset = side == DITI_LANE_OUT ? near_offset : far_offset;
        parts[count++].size = size;
        if (count < DITI_COUNT(parts) && at + size < to) continue;
        device->vk.CmdCopyBuffer(commands, side == DITI_LANE_OUT ? copy->buffer : slot,
                                 side == DITI_LANE_OUT ? slot : copy->buffer, count, parts);
        count = 0;
    }
}

static dit_result diti_lane_record(diti_lane *lane, uint32_t side, const diti_lane_copy *copy, uint64_t from,
                                   uint64_t to, uint32_t slot, dit_error *err) {
    const VkAccessFlags all = VK_ACCESS_MEMORY_READ_BIT | VK_ACCESS_MEMORY_WRITE_BIT;
    diti_device *device = lane->sides[side].device;
    VkBuffer buffer = diti_lane_buffer(lane, side, slot)->buffer;
    bool external = lane->transport == DITI_TRANSPORT_FD || lane->transport == DITI_TRANSPORT_DMA_BUF;
    VkCommandBuffer commands = lane->sides[side].commands[slot];
    VkCommandBufferBeginInfo begin = DITI_ZERO;
    VkResult vr;
    begin.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO;
    begin.flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT;
    vr = device->vk.BeginCommandBuffer(commands, &begin);
    if (vr < 0) return diti_device_fail(device, vr, "vkBeginCommandBuffer", err);
    diti_lane_barrier(device, commands, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT, all, VK_PIPELINE_STAGE_TRANSFER_BIT,
                      VK_ACCESS_TRANSFER_READ_BIT | VK_ACCESS_TRANSFER_WRITE_BIT);
    if (external && side == DITI_LANE_IN) diti_lane_hand_over(device, commands, buffer, true);
    diti_lane_record_rows(device, commands, copy, from, to, buffer, side);
    if (external && side == DITI_LANE_OUT) diti_lane_hand_over(device, commands, buffer, false);
    diti_lane_barrier(device, commands, VK_PIPELINE_STAGE_TRANSFER_BIT, VK_ACCESS_TRANSFER_WRITE_BIT,
                      VK_PIPELINE_STAGE_ALL_COMMANDS_BIT | VK_PIPELINE_STAGE_HOST_BIT, all | VK_ACCESS_HOST_READ_BIT);
    vr = device->vk.EndCommandBuffer(commands);
    return vr < 0 ? diti_device_fail(device, vr, "vkEndCommandBuffer", err) : DIT_OK;
}

static dit_result diti_lane_add_chunk(diti_lane *lane, uint32_t index, uint64_t from, uint64_t to, dit_error *err) {
    diti_lane_side *side = &lane->sides[index];
    diti_lane_chunk *chunk;
    if (!diti_grow(&lane->env, (void **)&side->chunks, &side->chunk_capacity, side->chunk_count, sizeof *side->chunks))
        return diti_fail_memory(err, "copies between devices");
    chunk = &side->chunks[side->chunk_count++];
    chunk->from = from;
    chunk->bytes = to - from;
    return DIT_OK;
}

/* Room for every copy of this process to be open once, and for another process to be a few chunks behind. */
static bool diti_lane_grow_turns(diti_lane *lane, size_t copies) {
    uint32_t i, need = (uint32_t)copies + 1 + DITI_LANE_SLOTS;
    for (i = 0; i < DITI_LANE_SIDES; i++) {
        diti_lane_side *side = &lane->sides[i];
        if (need <= side->turn_count) continue;
        diti_free(&lane->env, side->turns);
        side->turn_count = 2 * need;
        side->turns = (diti_lane_turn *)diti_alloc_array(&lane->env, side->turn_count, sizeof *side->turns);
        if (!side->turns) return false;
    }
    return true;
}

DIT_INTERNAL dit_result diti_lane_add(diti_lane *lane, uint32_t index, const diti_lane_copy *copy, dit_error *err) {
    diti_lane_side *side = &lane->sides[index];
    diti_lane_copy whole = *copy;
    uint64_t bytes = whole.row_bytes * whole.rows, from, to;
    dit_result result = DIT_OK;
    if (!bytes) return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "an exchange of %s has no bytes", copy->name);
    if (!diti_lane_grow_turns(lane, side->copy_count + 1) ||
        !diti_grow(&lane->env, (void **)&side->copies, &side->copy_capacity, side->copy_count, sizeof *side->copies))
        return diti_fail_memory(err, "copies between devices");
    if (whole.pitch == whole.row_bytes || whole.rows == 1) {
        whole.row_bytes = bytes;
        whole.rows = 1;
    }
    whole.first = (uint32_t)side->chunk_count;
    for (from = 0; from < bytes && result >= 0; from = to) {
        to = bytes - from < lane->slot_bytes ? bytes : from + lane->slot_bytes;
        result = diti_lane_add_chunk(lane, index, from, to, err);
    }
    whole.count = (uint32_t)side->chunk_count - whole.first;
    side->copies[side->copy_count++] = whole;
    return result;
}

/* --- running --- */

/* The side whose copies a turn runs: itself, or the other one if it is in another process. */
static const diti_lane_side *diti_lane_here(const diti_lane *lane, uint32_t index) {
    return &lane->sides[lane->sides[index].device ? index : 1 - index];
}

static const diti_lane_copy *diti_lane_turn_copy(const diti_lane *lane, uint32_t index) {
    const diti_lane_side *side = &lane->sides[index];
    return &diti_lane_here(lane, index)->copies[side->turns[side->first].copy];
}

static void diti_lane_push(diti_lane *lane, uint32_t index, uint32_t copy, VkSemaphore after, uint64_t value) {
    diti_lane_side *side = &lane->sides[index];
    diti_lane_turn *turn = &side->turns[(side->first + side->count++) % side->turn_count];
    turn->copy = copy;
    turn->after = after;
    turn->value = value;
    side->opened += diti_lane_here(lane, index)->copies[copy].count;
}

DIT_INTERNAL uint64_t diti_lane_open(diti_lane *lane, uint32_t side, uint32_t copy, VkSemaphore after, uint64_t value) {
    diti_lane_push(lane, side, copy, after, value);
    if (!lane->sides[1 - side].device) diti_lane_push(lane, 1 - side, copy, VK_NULL_HANDLE, 0);
    return lane->sides[side].opened;
}

/* A side's next chunk was submitted. */
static void diti_lane_advance(diti_lane *lane, uint32_t index) {
    diti_lane_side *side = &lane->sides[index];
    side->submitted++;
    if (++side->chunk < diti_lane_turn_copy(lane, index)->count) return;
    side->chunk = 0;
    side->first = (side->first + 1) % side->turn_count;
    side->count--;
}

static dit_result diti_lane_submit_device(diti_lane *lane, uint32_t index, const diti_lane_chunk *chunk,
                                          dit_error *err) {
    uint32_t slot = (uint32_t)(lane->sides[index].submitted % lane->slot_count);
    diti_lane_side *side = &lane->sides[index];
    const diti_lane_turn *turn = &side->turns[side->first];
    diti_submission submission = DITI_ZERO;
    DITI_TRY(diti_lane_record(lane, index, diti_lane_turn_copy(lane, index), chunk->from, chunk->from + chunk->bytes,
                              slot, err));
    submission.queue = side->device->transfer_queue;
    submission.commands = &side->commands[slot];
    submission.count = 1;
    submission.signal = side->timeline;
    submission.signal_value = side->submitted + 1;
    diti_submission_wait(&submission, turn->after, turn->value);
    if (index == DITI_LANE_IN) diti_submission_wait(&submission, lane->bridge, submission.signal_value);
    DITI_TRY(diti_submit_after(side->device, &submission, err));
    side->signals = submission.signal_value;
    return DIT_OK;
}

/* The device of this side is in another process: what is done here is to hand the other side's bytes to it, or to ask
   for them. */
static dit_result diti_lane_submit_application(diti_lane *lane, uint32_t index, const diti_lane_chunk *chunk,
                                               dit_error *err) {
    diti_lane_slot *slot = &lane->slots[lane->sides[index].submitted % lane->slot_count];
    diti_lane_ledger *ledger = lane->ledger;
    uint32_t number = ledger->count % DITI_LANE_CHUNKS;
    uint64_t tag = ledger->tag | number;
    const dit_transport *with = &lane->application;
    diti_buffer *buffer = &slot->buffers[1 - index];
    bool sends = index == DITI_LANE_IN;
    if (sends) diti_buffer_invalidate(lane->sides[DITI_LANE_OUT].device, buffer);
    slot->request =
        sends ? with->send(lane->ranks[DITI_LANE_IN], buffer->block.mapped, (size_t)chunk->bytes, tag, with->user)
              : with->receive(lane->ranks[DITI_LANE_OUT], buffer->block.mapped, (size_t)chunk->bytes, tag, with->user);
    if (!slot->request)
        return diti_fail(err, DIT_ERROR_TRANSPORT, "the application's transport could not %s rank %u",
                         sends ? "send to" : "receive from", lane->ranks[index]);
    ledger->bytes[number] = (uint32_t)chunk->bytes;
    ledger->count++;
    return DIT_OK;
}

static dit_result diti_lane_mismatch(const diti_lane *lane, const diti_lane_slot *slot, const diti_lane_copy *copy,
                                     dit_error *err) {
    return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                     "device %u sends %llu bytes (%s) where device %u is to receive %llu (%s)", lane->from,
                     (unsigned long long)slot->whole, slot->name, lane->to,
                     (unsigned long long)copy->row_bytes * copy->rows, copy->name);
}

/* Its memory is among what the application still owes. */
static bool diti_lane_gave_away(const diti_lane *lane, const diti_lane_slot *slot) {
    return lane->transport == DITI_TRANSPORT_APPLICATION && !slot->buffers[DITI_LANE_OUT].buffer &&
           !slot->buffers[DITI_LANE_IN].buffer;
}

static dit_result diti_lane_submit(diti_lane *lane, uint32_t index, dit_error *err) {
    diti_lane_side *side = &lane->sides[index];
    const diti_lane_copy *copy = diti_lane_turn_copy(lane, index);
    const diti_lane_chunk *chunk = &diti_lane_here(lane, index)->chunks[copy->first + side->chunk];
    diti_lane_slot *slot = &lane->slots[side->submitted % lane->slot_count];
    dit_result result = DIT_OK;
    if (index == DITI_LANE_OUT) {
        slot->name = copy->name;
        slot->bytes = chunk->bytes;
        slot->whole = copy->row_bytes * copy->rows;
        slot->scope = diti_trace_open(lane->trace, DITI_TRACK_PEER, NULL);
        if (diti_lane_gave_away(lane, slot)) result = diti_lane_make_slot(lane, slot, err);
        DITI_TRY(result);
    } else if (slot->whole != copy->row_bytes * copy->rows) {
        return diti_lane_mismatch(lane, slot, copy, err);
    }
    DITI_TRY(side->device ? diti_lane_submit_device(lane, index, chunk, err)
                          : diti_lane_submit_application(lane, index, chunk, err));
    if (index == DITI_LANE_IN) lane->bytes += chunk->bytes;
    diti_lane_advance(lane, index);
    return DIT_OK;
}

static dit_result diti_lane_watch(diti_lane *lane, const diti_lane_side *side, bool waits, dit_error *err) {
    uint64_t passed_us = diti_clock_passed(&lane->looked_us);
    lane->idle_us = waits ? lane->idle_us + passed_us : 0;
    if (lane->idle_us < lane->limit_us) return DIT_OK;
    return diti_fail(err, DIT_ERROR_TRANSPORT, "rank %u %s nothing for %llu ms", lane->ranks[side - lane->sides],
                     side == &lane->sides[DITI_LANE_OUT] ? "sent" : "took",
                     (unsigned long long)(lane->limit_us / 1000));
}

/* 1: the slot's transfer is done; 0: not yet; < 0: it failed. One that is over is not asked for again: the application
   may have freed its request. */
static int diti_lane_ask(const diti_lane *lane, diti_lane_slot *slot) {
    int done = slot->request ? lane->application.poll(slot->request, lane->application.user) : -1;
    if (done) slot->request = NULL;
    return done;
}

static dit_result diti_lane_poll_application(diti_lane *lane, diti_lane_side *side, dit_error *err) {
    diti_lane_slot *slot = &lane->slots[side->finished % lane->slot_count];
    uint32_t rank = lane->ranks[side - lane->sides];
    int done = side->finished < side->submitted ? diti_lane_ask(lane, slot) : 0;
    if (done < 0) return diti_fail(err, DIT_ERROR_TRANSPORT, "the application's transport to rank %u failed", rank);
    if (done) side->finished++;
    return diti_lane_watch(lane, side, !done && side->finished < side->submitted, err);
}

DIT_INTERNAL dit_result diti_lane_stand(diti_lane *lane, dit_error *err) {
    const diti_lane_side *side = &lane->sides[lane->sides[DITI_LANE_OUT].device ? DITI_LANE_IN : DITI_LANE_OUT];
    return diti_lane_watch(lane, side, side->count != 0, err);
}

/* A slot's chunk has arrived, or is given up. */
static void diti_lane_trace(diti_lane *lane, diti_lane_slot *slot) {
    diti_trace_scope none = DITI_ZERO;
    char text[64];
    if (!slot->scope.trace) return;
    diti_format(text, sizeof text, "%u to %u: %s, %s", lane->from, lane->to, slot->name,
                diti_transport_name(lane->transport));
    diti_trace_close_as(&slot->scope, text, (double)slot->bytes);
    slot->scope = none;
}

/* Finds out what a side has finished. */
static dit_result diti_lane_poll(diti_lane *lane, uint32_t index, dit_error *err) {
    diti_lane_side *side = &lane->sides[index];
    uint64_t before = side->finished, done = 0;
    dit_result result = DIT_OK;
    if (!side->device) {
        result = diti_lane_poll_application(lane, side, err);
    } else if (side->finished < side->submitted) {
        result = diti_timeline_value(side->device, side->timeline, &done, err);
        if (result >= 0 && done > side->finished) side->finished = done;
    }
    for (; index == DITI_LANE_IN && before < side->finished; before++)
        diti_lane_trace(lane, &lane->slots[before % lane->slot_count]);
    return result;
}

/* The next chunk is in its slot on one side: now it is on the other. */
static void diti_lane_pass(diti_lane *lane) {
    diti_lane_slot *slot = &lane->slots[lane->passed % lane->slot_count];
    size_t bytes = (size_t)slot->bytes;
    diti_device *from = lane->sides[DITI_LANE_OUT].device, *to = lane->sides[DITI_LANE_IN].device;
    if (lane->transport == DITI_TRANSPORT_STAGED) {
        diti_buffer_invalidate(from, &slot->buffers[DITI_LANE_OUT]);
        memcpy(slot->buffers[DITI_LANE_IN].block.mapped, slot->buffers[DITI_LANE_OUT].block.mapped, bytes);
    }
    if (to && slot->buffers[DITI_LANE_IN].buffer) diti_buffer_flush(to, &slot->buffers[DITI_LANE_IN]);
    lane->passed++;
}

/* The next chunk's slot, and its commands on both sides, are free. */
static bool diti_lane_has_room(const diti_lane *lane) {
    const diti_lane_side *out = &lane->sides[DITI_LANE_OUT], *in = &lane->sides[DITI_LANE_IN];
    return out->submitted - in->finished < lane->slot_count && out->submitted - out->finished < lane->slot_count;
}

static void diti_lane_clock(diti_lane *lane) {
    bool busy = lane->sides[DITI_LANE_IN].finished < lane->sides[DITI_LANE_OUT].submitted;
    uint64_t now = busy == (lane->busy_since_us != 0) ? 0 : diti_clock_us();
    if (!now) return;
    if (!busy && now > lane->busy_since_us) lane->busy_us += now - lane->busy_since_us;
    lane->busy_since_us = busy ? now : 0;
}

DIT_INTERNAL dit_result diti_lane_pump(diti_lane *lane, bool *moved, dit_error *err) {
    diti_lane_side *out = &lane->sides[DITI_LANE_OUT], *in = &lane->sides[DITI_LANE_IN];
    uint64_t before = out->submitted + out->finished + lane->passed + in->submitted + in->finished;
    dit_result result = diti_lane_poll(lane, DITI_LANE_OUT, err);
    if (result >= 0) result = diti_lane_poll(lane, DITI_LANE_IN, err);
    while (result >= 0 && out->count && diti_lane_has_room(lane)) result = diti_lane_submit(lane, DITI_LANE_OUT, err);
    while (result >= 0 && lane->passed < (lane->bridge ? out->submitted : out->finished)) diti_lane_pass(lane);
    while (result >= 0 && in->count && in->submitted < lane->passed) result = diti_lane_submit(lane, DITI_LANE_IN, err);
    if (out->submitted + out->finished + lane->passed + in->submitted + in->finished != before) *moved = true;
    diti_lane_clock(lane);
    return result;
}

DIT_INTERNAL bool diti_lane_idle(const diti_lane *lane) {
    const diti_lane_side *out = &lane->sides[DITI_LANE_OUT], *in = &lane->sides[DITI_LANE_IN];
    return !out->count && !in->count && in->finished == out->submitted;
}

DIT_INTERNAL dit_result diti_lane_wait(diti_lane *lane, uint64_t timeout_ns, bool *waited, dit_error *err) {
    uint32_t i;
    for (i = 0; i < DITI_LANE_SIDES; i++) {
        diti_lane_side *side = &lane->sides[i];
        if (!side->device || side->finished == side->submitted) continue;
        *waited = true;
        return diti_timeline_wait(side->device, side->timeline, side->finished + 1, timeout_ns, err);
    }
    return DIT_OK;
}

/* Adds a list to it. */
static void diti_lane_owe(diti_lane_debts *debts, diti_lane_owed *list) {
    diti_lane_owed **end = &list;
    while (*end) end = &(*end)->next;
    diti_lock(&debts->lock);
    *end = debts->first;
    debts->first = list;
    diti_unlock(&debts->lock);
}

DIT_INTERNAL void diti_lane_free_owed(const diti_env *env, diti_lane_debts *debts, bool all) {
    diti_lane_owed *list, **at = &list;
    diti_lock(&debts->lock);
    list = debts->first;
    debts->first = NULL;
    diti_unlock(&debts->lock);
    while (*at) {
        diti_lane_owed *owed = *at;
        if (!all && owed->application.poll(owed->request, owed->application.user) == 0) {
            at = &owed->next;
            continue;
        }
        *at = owed->next;
        if (owed->device) diti_buffer_destroy(owed->device, &owed->buffer);
        diti_free(env, owed);
    }
    diti_lane_owe(debts, list);
}

DIT_INTERNAL void diti_lane_even(diti_peers *peers, uint32_t rank, const diti_lane_ledger *own,
                                 const diti_lane_ledger *other) {
    const dit_transport *with = &peers->application;
    uint32_t number = own->count, bytes;
    if (other->count > DITI_LANE_CHUNKS && number < other->count - DITI_LANE_CHUNKS)
        number = other->count - DITI_LANE_CHUNKS;
    for (; number < other->count; number++) {
        uint64_t tag = own->tag | number % DITI_LANE_CHUNKS;
        diti_lane_owed *owed;
        bytes = other->bytes[number % DITI_LANE_CHUNKS];
        owed = (diti_lane_owed *)diti_alloc_zero(&peers->env, sizeof *owed + bytes);
        if (!owed) return;
        owed->application = *with;
        owed->request = own->sends ? with->send(rank, owed + 1, bytes, tag, with->user)
                                   : with->receive(rank, owed + 1, bytes, tag, with->user);
        if (owed->request)
            diti_lane_owe(&peers->owed, owed);
        else
            diti_free(&peers->env, owed);
    }
}

#define DITI_LANE_FAREWELL_US 1000000u /* the other process knows that the run is over (beats.c) */

/* A transfer of the application's cannot be taken back. One that does not end soon keeps the memory of its slot, which
   gets other memory when it is used again. */
static void diti_lane_settle_application(diti_lane *lane, uint32_t index) {
    diti_lane_side *side = &lane->sides[index];
    uint64_t looked_us = 0, waited_us = 0;
    if (lane->owed) diti_lane_free_owed(&lane->env, lane->owed, false);
    for (; side->finished < side->submitted; side->finished++) {
        diti_lane_slot *slot = &lane->slots[side->finished % lane->slot_count];
        diti_lane_owed *owed = lane->owed ? (diti_lane_owed *)diti_alloc_zero(&lane->env, sizeof *owed) : NULL;
        uint64_t limit_us = owed && lane->limit_us > DITI_LANE_FAREWELL_US ? DITI_LANE_FAREWELL_US : lane->limit_us;
        int done = diti_lane_ask(lane, slot);
        while (!done && (waited_us += diti_clock_passed(&looked_us)) < limit_us) done = diti_lane_ask(lane, slot);
        if (done || !owed) {
            diti_free(&lane->env, owed);
            continue;
        }
        owed->device = lane->sides[1 - index].device;
        owed->buffer = slot->buffers[1 - index];
        owed->application = lane->application;
        owed->request = slot->request;
        memset(&slot->buffers[1 - index], 0, sizeof slot->buffers[1 - index]);
        diti_lane_owe(lane->owed, owed);
    }
}

/* The host signals in the place of the sending device. */
static void diti_lane_signal(diti_lane *lane) {
    const diti_lane_side *in = &lane->sides[DITI_LANE_IN];
    VkSemaphoreSignalInfo info = DITI_ZERO;
    uint64_t value = 0;
    if (diti_timeline_value(in->device, lane->bridge, &value, NULL) < 0 || value >= in->signals) return;
    info.sType = VK_STRUCTURE_TYPE_SEMAPHORE_SIGNAL_INFO;
    info.semaphore = lane->bridge;
    info.value = in->signals;
    in->device->vk.SignalSemaphore(in->device->device, &info);
}

DIT_INTERNAL void diti_lane_release(diti_lane *lane) {
    diti_device *from = lane->sides[DITI_LANE_OUT].device;
    if (lane->bridge && from != lane->sides[DITI_LANE_IN].device && diti_device_check(from, NULL) < 0)
        diti_lane_signal(lane);
}

/* A sending device that has had nothing to do for so long has sent everything. */
#define DITI_LANE_BRIDGE_NS 1000000000u

/* Waits until everything submitted has ended, or gives its device up. The sending side comes first: one that waits for
   its signals longer than it has anything to do would wait for ever. */
static void diti_lane_settle_device(diti_lane *lane, diti_lane_side *side) {
    bool waits = lane->bridge && side == &lane->sides[DITI_LANE_IN];
    dit_result result = DIT_WORKING;
    if (waits) result = diti_timeline_wait(side->device, side->timeline, side->signals, DITI_LANE_BRIDGE_NS, NULL);
    if (waits && result == DIT_WORKING) diti_lane_signal(lane);
    if (result == DIT_WORKING)
        result = diti_timeline_wait(side->device, side->timeline, side->signals, UINT64_MAX, NULL);
    if (result != DIT_OK) diti_queue_idle(side->device);
}

DIT_INTERNAL void diti_lane_settle(diti_lane *lane) {
    uint64_t number = lane->sides[DITI_LANE_OUT].submitted;
    uint32_t i;
    if (lane->sides[DITI_LANE_IN].submitted > number) number = lane->sides[DITI_LANE_IN].submitted;
    diti_lane_release(lane);
    for (i = 0; i < lane->slot_count; i++) diti_lane_trace(lane, &lane->slots[i]);
    for (i = 0; i < DITI_LANE_SIDES; i++) {
        diti_lane_side *side = &lane->sides[i];
        if (!side->device)
            diti_lane_settle_application(lane, i);
        else if (side->signals)
            diti_lane_settle_device(lane, side);
        side->opened = side->submitted = side->finished = number;
        side->first = side->count = side->chunk = 0;
    }
    lane->passed = number;
    lane->looked_us = lane->idle_us = 0;
}
