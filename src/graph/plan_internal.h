/* The steps of a plan, one file each: arena.c, fetch.c, batch.c, slice.c, record.c; no other room needs them. */
#ifndef DITI_PLAN_INTERNAL_H
#define DITI_PLAN_INTERNAL_H
#include "graph/plan.h"

DIT_INTERNAL void diti_exchange_widen(diti_graph *graph); /* lives of tensors; before memory is assigned */
DIT_INTERNAL dit_result diti_plan_assign_memory(diti_graph *graph, diti_plan *plan, dit_error *err);
DIT_INTERNAL dit_result diti_plan_make_slices(diti_plan *plan, const diti_graph *graph, dit_error *err);
/* Cuts the sources of a plan into slices, as its source_cut_us and limit_us say. The caller has kept, or freed, the
   slices that the plan had before: the plan forgets them. */
DIT_INTERNAL dit_result diti_plan_slice_sources(diti_plan *plan, dit_error *err);
/* Predicts the microseconds that a dispatch takes on a device of that speed. */
DIT_INTERNAL float diti_dispatch_us(const diti_speed *speed, const diti_dispatch *dispatch);
/* Fewer workgroups than this leave a device idle, and then take as long as this many. */
DIT_INTERNAL uint32_t diti_dispatch_fills(const diti_device *device, const diti_dispatch *dispatch);
/* Predicts the microseconds that a slice takes on the feigned device; 0: no device is feigned. */
DIT_INTERNAL float diti_plan_feigned_us(const diti_plan *plan, const diti_plan_slice *slice);
/* Before slices are made: which dispatches read streamed weights together (batch.c). */
DIT_INTERNAL dit_result diti_plan_make_batches(diti_plan *plan, const diti_graph *graph, dit_error *err);
/* Where a dispatch finds a part of a weight. */
DIT_INTERNAL VkDeviceSize diti_plan_weight_place(const diti_plan *plan, uint32_t source, const diti_tensor_info *weight,
                                                 VkBuffer *buffer);
/* Sees to it that the device has what dispatches read of weights (fetch.c). */
DIT_INTERNAL dit_result diti_plan_fetch_weights(diti_plan *plan, dit_error *err);
/* diti_stream_claim for a plan. */
DIT_INTERNAL dit_result diti_plan_claim_batch(diti_plan *plan, uint32_t batch, diti_submission *submission,
                                              dit_error *err);
/* Creates the pool that has room for the descriptor sets of all slices. */
DIT_INTERNAL dit_result diti_plan_create_descriptors(diti_plan *plan, dit_error *err);
/* Allocates and writes the descriptor sets that a slice binds and that are not there yet. */
DIT_INTERNAL dit_result diti_plan_write_sets(diti_plan *plan, const diti_plan_slice *slice, dit_error *err);
/* The timeline, command pools, and what is recorded whatever the slices. */
DIT_INTERNAL dit_result diti_plan_create_commands(diti_plan *plan, dit_error *err);
/* Records the primary command buffers of slices that have none yet. */
DIT_INTERNAL dit_result diti_plan_record_primaries(diti_plan *plan, dit_error *err);
/* A slice was seen to take so long. */
DIT_INTERNAL void diti_plan_took(diti_plan *plan, uint32_t slice, float us);
/* A slice was recorded into it. */
DIT_INTERNAL void diti_frame_add(diti_plan *plan, uint32_t slice, VkCommandBuffer commands);
/* Runs a segment once and tells what it took: by timestamps where they were read, else by the clock. */
DIT_INTERNAL dit_result diti_plan_time(diti_plan *plan, uint32_t segment, double *us, dit_error *err);
/* Takes over the exponents of a plan that is replaced. */
DIT_INTERNAL void diti_guard_inherit(diti_plan *plan, const diti_plan *before);

/* --- records of guards (guard.c, guard_plan.c) --- */
/* Words of a record, as in guard.glsl. The first record is diti_health. */
enum {
    DITI_RECORD_STORE,    /* float: the result times that is stored */
    DITI_RECORD_LOAD,     /* float: operands times that are what they stand for */
    DITI_RECORD_NARROW,   /* float: an F32 operand times that becomes F16 */
    DITI_RECORD_PEAK = 4, /* magnitudes, as bits, that did not fit: of the result, of that operand */
    DITI_RECORD_WORDS = 8
};
#define DITI_RECORD_RUN 4u /* word of the first record, behind diti_health: guard_run */

/* --- traced plans (profile.c): slices are recorded with timestamps of their own around each dispatch, some of them
   more than once, so that the same slice can be queued again before its timestamps were read --- */
#define DITI_PROFILE_SETS 4u
typedef struct diti_profile_slice {
    uint32_t first_query, stride; /* first query of set 0: two for the slice, two for each dispatch; from set to set */
    uint32_t sets, next, busy;
    VkCommandBuffer commands[DITI_PROFILE_SETS];
} diti_profile_slice;
typedef struct diti_profile_flight { /* a slice whose timestamps were not read yet */
    uint64_t value, submission, submit_ns;
    uint32_t slice, set, step;
    bool lost; /* the set was used again */
} diti_profile_flight;
typedef struct diti_profile {
    bool ops; /* timestamps around each dispatch; else around slices, for the application's ranges */
    uint32_t id, query_count;
    diti_profile_slice *slices;
    diti_profile_flight *flights; /* a ring */
    uint32_t flight_first, flight_count, flight_capacity;
    uint64_t *ticks, last_end_ns;
    uint32_t runs[DITI_MAX_SEGMENTS]; /* runs of each segment since the first one began */
} diti_profile;
/* Between making slices and recording them; does nothing where no trace is kept. */
DIT_INTERNAL dit_result diti_profile_create(diti_plan *plan, dit_error *err);
DIT_INTERNAL void diti_profile_free(diti_plan *plan); /* counts what was never read as dropped */
DIT_INTERNAL VkCommandBuffer diti_profile_commands(diti_plan *plan, uint32_t slice); /* to submit next */
/* They were submitted, at submit_ns. */
DIT_INTERNAL void diti_profile_submitted(diti_plan *plan, uint32_t slice, uint64_t submit_ns);
DIT_INTERNAL void diti_profile_collect(diti_plan *plan);
#endif
