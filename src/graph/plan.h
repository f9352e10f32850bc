/* The plan: what a graph becomes. Memory, slices, recorded commands, and the guards that repeat a segment. */
#ifndef DITI_PLAN_H
#define DITI_PLAN_H
#include "graph/graph.h"

typedef struct diti_plan_block { /* memory that tensors share by offset */
    diti_storage storage;
    VkDeviceSize size;
    diti_buffer buffer;
    diti_buffer staging; /* DITI_STORAGE_INPUT: what the host writes and segment 0 copies */
} diti_plan_block;
typedef struct diti_plan_dispatch { /* one slice of a dispatch, ready to record */
    uint32_t source;                /* index of its dispatch */
    uint32_t first_group, groups;
    uint32_t push[DITI_PUSH_WORDS];
    VkDescriptorSet set;
    VkPipeline pipeline;
    float us;     /* predicted */
    bool barrier; /* depends on something recorded since the last barrier; never on other slices of its dispatch */
} diti_plan_dispatch;
typedef struct diti_plan_slice {    /* one command buffer */
    uint32_t segment, first, count; /* range of plan dispatches */
    uint32_t batch;                 /* batch of streamed weights that the slice reads; DITI_NO_BATCH: none */
    float us;                       /* predicted, then measured */
    float cut_us;                   /* predicted when the slice was cut */
    float planned_us;               /* predicted when the plan was made: for progress that never jumps back */
    bool measured;
    bool gated;     /* some of it may do nothing in a run */
    uint64_t value; /* value of the plan's timeline when the newest submission of the slice is finished */
    VkCommandBuffer primary, secondary;
} diti_plan_slice;
/* --- frames: what calls of dit_job_record have put into the application's commands, and how long that took
   (frames.c) --- */
#define DITI_FRAME_SLICES 64u /* slices of a frame that are timed */
#define DITI_MAX_FRAMES 17u   /* frames that are remembered: those in flight and the newest */
typedef struct diti_frame {
    uint32_t slices[DITI_FRAME_SLICES]; /* indices of the plan's slices */
    uint32_t count;
    uint32_t recuts;    /* the plan's recuts when the frame was recorded: slices of earlier cuts are no more */
    uint64_t last_tick; /* the last timestamp that was read in its place: it stays readable until the next is written */
    bool open;          /* the frame's timestamps were not read */
} diti_frame;
typedef struct diti_frames {
    VkQueryPool queries;            /* VK_NULL_HANDLE: the application must tell times */
    uint32_t most;                  /* frames that are remembered */
    uint64_t count;                 /* recorded so far */
    uint64_t told;                  /* frames that the application has told about, or passed over */
    uint64_t owed;                  /* times to come that are about frames of a plan that this one has replaced */
    bool reported;                  /* the application has told a time: timestamps are left alone */
    diti_buffer marks;              /* where weights are streamed: the newest frame that is finished */
    uint32_t marked, marked_before; /* the newest frames of the run that write it at their end; 0: none does */
    diti_frame list[DITI_MAX_FRAMES];
} diti_frames;

#define DITI_UNREAD_SLICES 64u
typedef struct diti_plan_unread {
    uint64_t value; /* value of the plan's timeline when the slice is finished */
    uint32_t slice;
} diti_plan_unread;
typedef struct diti_plan {
    diti_device *device;
    diti_segment segments[DITI_MAX_SEGMENTS]; /* first and count number slices */
    uint32_t segment_sources[DITI_MAX_SEGMENTS];
    uint32_t segment_count;
    diti_tensor_info *tensors;
    size_t tensor_count;
    diti_tensor guards;
    bool gated; /* some dispatches have gates */
    diti_guard_record *guard_records;
    diti_buffer report;             /* guards as of the newest finished segment; only where guards are */
    VkCommandBuffer restore;        /* guards as diti_guard_write wrote them */
    diti_element activation;        /* the graph's */
    bool guard_alike, guard_blind;  /* the graph's */
    uint32_t guard_end;             /* the graph's */
    uint32_t guard_run, guard_step; /* number and step of the newest diti_guard_write: older reports are out of date */
    diti_plan_block *blocks;
    size_t block_count, block_capacity;
    diti_dispatch *sources;
    size_t source_count;
    diti_plan_dispatch *dispatches;
    size_t dispatch_count, dispatch_capacity;
    diti_plan_slice *slices;
    size_t slice_count, slice_capacity;
    diti_exchange *exchanges;
    size_t exchange_count;
    diti_exchange_event *events;
    size_t event_count;
    uint32_t first_event[DITI_MAX_SEGMENTS + 1]; /* first event of each segment; the last: event_count */
    diti_cut_weight **cuts;
    size_t cut_count;
    diti_mark *marks; /* the graph's: which sources belong to which block */
    size_t mark_count;
    float limit_us;                   /* slices are cut to this */
    float finest_us;                  /* pieces are cut to this: limit_us, or more where that makes too many */
    float predicted_launch_us;        /* time of launching a piece that source_us was predicted with */
    float launch_us;                  /* predicted_launch_us, unless slices have proved launches shorter */
    float *source_us, *source_cut_us; /* time of each source: predicted when the plan was made, and by the newest cut */
    bool *source_measured;            /* the newest cut knew the time of each source */
    uint32_t *source_minimum;         /* least workgroups of a piece of each source; 0: whatever fills the device */
    uint32_t recuts;                  /* how often the sources were cut into slices */
    uint32_t slice_starts;            /* 1 + the source that the next cut begins a slice with; 0: none */
    struct diti_plan_retired *retired; /* leftovers of earlier cuts (recut.c) */
    VkDescriptorPool descriptors;
    VkCommandPool commands;       /* pool of the slices' commands; made anew with them */
    VkCommandPool other_commands; /* pool of restore */
    VkQueryPool queries;          /* two timestamps per slice; VK_NULL_HANDLE where the queue has none */
    struct diti_profile *profile; /* timestamps of a traced plan (profile.c); NULL: no trace */
    diti_timeline timeline;
    diti_plan_unread
        unread[DITI_UNREAD_SLICES]; /* a ring: slices that were submitted and whose timestamps were not read */
    uint32_t unread_first, unread_count;
    uint32_t last_slice_us;
    diti_frames frames;
    dit_counters counters;
    diti_stream_client streaming;
    uint32_t *source_batches; /* batch of each dispatch; DITI_NO_BATCH: reads nothing streamed */
} diti_plan;
typedef struct diti_plan_memory {
    VkDeviceSize activations, inputs;
    uint32_t blocks;
} diti_plan_memory;
/* Bytes of weights that a plan of the graph would bring to its device, had none come yet. */
DIT_INTERNAL uint64_t diti_graph_fetches(const diti_graph *graph);
/* A run of the plan begins, in which its slices are submitted or recorded; nothing of it is in flight. */
DIT_INTERNAL void diti_plan_begin_stream(diti_plan *plan, bool recorded);
/* Before the plan is destroyed, or its timeline taken from it: slots wait for that no longer, and the plan is at its
   end. Nothing of it is in flight. */
DIT_INTERNAL void diti_plan_forget_stream(diti_plan *plan);
/* For recorded plans, each does nothing where all weights are resident: once before the first frame; before a slice,
   diti_plan_load and what its slot needs (DIT_WORKING: the slice is not to be recorded yet); at the end of every frame,
   empty ones too. */
DIT_INTERNAL dit_result diti_plan_prepare_stream(diti_plan *plan, dit_error *err);
DIT_INTERNAL dit_result diti_plan_record_stream(diti_plan *plan, uint32_t segment, uint32_t slice, uint64_t *bytes,
                                                VkCommandBuffer commands, dit_error *err);
DIT_INTERNAL void diti_plan_mark_stream(diti_plan *plan, VkCommandBuffer commands);
/* --- cutting anew what has proved too long or too short (recut.c) --- */
#define DITI_OFF_BY 4.0f
#define DITI_MAX_CUTS 8u /* in one run of a segment */
/* Whether measured times differ from those that the slices were cut by: some slice that can be divided took more than
   limit_us and `off` times what was expected, or will, if it is like those that were measured; or a segment took less
   than 1 / DITI_OFF_BY of it, in more slices than it needs. most: so many slices that are too long may be. */
DIT_INTERNAL bool diti_plan_is_off(const diti_plan *plan, float off, uint32_t most);
/* Cuts all sources again, by what was measured, into slices of limit_us. Nothing that was submitted or recorded is
   touched: what it needs is freed when it has run. *slice, of a segment, is the next that a run comes to and begins
   with the beginning of a dispatch; it becomes the one that begins there now. A plan that cannot be cut anew (no
   memory, a trace that awaits timestamps) stays as it is. */
DIT_INTERNAL void diti_plan_cut_anew(diti_plan *plan, float limit_us, uint32_t segment, uint32_t *slice);
/* Whether a slice begins with the beginning of a dispatch. */
DIT_INTERNAL bool diti_plan_slice_is_start(const diti_plan *plan, uint32_t segment, uint32_t slice);
DIT_INTERNAL void diti_plan_free_retired(diti_plan *plan, bool all); /* not all: what has run */
/* --- frames (frames.c) --- */
DIT_INTERNAL void diti_frame_begin(diti_plan *plan, VkCommandBuffer commands);
/* A frame with nothing in it, about which the application may tell as well. */
DIT_INTERNAL void diti_frame_pass(diti_plan *plan);
DIT_INTERNAL void diti_frame_drop(diti_plan *plan);   /* the newest one */
DIT_INTERNAL void diti_frames_learn(diti_plan *plan); /* from the timestamps of finished frames */
/* The oldest frame that was not told about took so long; 0: nobody knows. false: there is no such frame. */
DIT_INTERNAL bool diti_frames_told(diti_plan *plan, uint32_t us);
/* --- pipelines to compile (compile.c) --- */
typedef struct diti_wanted { /* pipelines that differ, in the order in which they were asked for */
    diti_pipeline *list;
    size_t count, capacity;
    bool goes_on;  /* the others are compiled although the driver cannot compile one */
    size_t failed; /* index of the first that failed */
} diti_wanted;
DIT_INTERNAL bool diti_wanted_add(const diti_device *device, diti_wanted *wanted,
                                  const diti_dispatch *dispatch);                               /* false: no memory */
DIT_INTERNAL size_t diti_wanted_find(const diti_wanted *wanted, const diti_dispatch *dispatch); /* count: it is not */
DIT_INTERNAL void diti_wanted_free(const diti_env *env, diti_wanted *wanted);
/* In place of diti_plan_create, for a device that has a list of pipelines that are wanted: adds those that the graph
   needs and that the device does not have. */
DIT_INTERNAL dit_result diti_graph_want(const diti_graph *graph, dit_error *err);
/* Compiles those that the device does not have, side by side where worker lends threads (NULL: none). DIT_CANCELLED:
   progress ended it. */
DIT_INTERNAL dit_result diti_wanted_compile(diti_device *device, diti_wanted *wanted, const dit_worker *worker,
                                            const dit_progress *progress, dit_error *err);
/* Tells what diti_plan_create would allocate, and allocates nothing. */
DIT_INTERNAL dit_result diti_plan_measure(diti_graph *graph, diti_plan_memory *out, dit_error *err);
/* Takes the graph's dispatches (the graph may be freed afterwards): assigns memory, compiles missing pipelines, writes
 * descriptor sets. */
DIT_INTERNAL dit_result diti_plan_create(diti_graph *graph, const dit_progress *progress, diti_plan **out,
                                         dit_error *err);
DIT_INTERNAL void diti_plan_destroy(diti_plan *plan); /* waits for its own submissions */
/* A plan that replaces another one, which has nothing left to do: the timeline and the counters go on. */
DIT_INTERNAL void diti_plan_continue(diti_plan *plan, diti_plan *before);

/* --- guards in a graph: what overflows F16 is done again, scaled (guard.c) --- */
typedef struct diti_health { /* the device's report on a run */
    uint32_t bad_step;       /* the first whose latent is not finite, from 1 on */
    uint32_t blocked;        /* the segment, from 1 on, that must run again before anything has an effect */
    uint32_t bad_picture;    /* not 0: the picture is not finite */
    uint32_t step;           /* steps that had an effect */
} diti_health;
#define DITI_HEALTH_WORDS 4u
/* Before the first segment. */
DIT_INTERNAL void diti_guard_begin(diti_graph *graph);
/* Right after it: what one of so many devices has to do again all do again. Each tells the others with every
   judgement, so that nobody must ask later. */
DIT_INTERNAL void diti_guard_join(diti_graph *graph, uint32_t self, uint32_t devices);
/* Words of diti_health in a guarded graph: U32 [1, words]. */
DIT_INTERNAL diti_tensor diti_guard_health(diti_graph *graph, uint32_t first, uint32_t words);
/* After a segment's ops, and before what must not happen twice. */
DIT_INTERNAL void diti_guard_judge(diti_graph *graph);
/* The tensor to write what a state is to hold for the next run of the segment: it comes there after the verdict, unless
   the segment must run again. Without guards it is the state itself. */
DIT_INTERNAL DITI_UNUSED diti_tensor diti_guard_late(diti_graph *graph, diti_tensor state, const char *name);

/* --- guards of a plan; all do nothing where there are none --- */
typedef struct diti_verdict { /* about a segment that must run again */
    uint32_t segment, step;   /* step: how many were done */
    uint32_t record;
    const char *name; /* name of the op that is to blame; owned by the plan */
    bool lost;        /* running the segment again does not help */
} diti_verdict;
#define DITI_GUARD_TRIES 8u
/* For the next run from the start, or the next restore. */
DIT_INTERNAL dit_result diti_guard_write(diti_plan *plan, uint32_t step, dit_error *err);
DIT_INTERNAL void diti_guard_read(const diti_plan *plan, diti_health *out); /* as of the newest finished segment */
/* Raises exponents so far as that report asks for; false: it does not. */
DIT_INTERNAL bool diti_guard_raise(diti_plan *plan, diti_verdict *out);
/* Does so for plans of several devices, whose ops of one name in one segment share an exponent: false where none of the
   reports asks for it. out: of each plan. */
DIT_INTERNAL bool diti_guard_raise_all(diti_plan *const *plans, uint32_t count, diti_verdict *out);
DIT_INTERNAL void diti_guard_forget(diti_plan *plan); /* all exponents, and writes nothing */
/* The error of a run that nothing helps. steps: of the run, where one of them is at fault; 0: something else is. */
DIT_INTERNAL dit_result diti_guard_check(const diti_verdict *verdict, uint32_t tries, uint32_t steps, dit_error *err);
/* Nothing of the plan is in flight: what must run again can be submitted after it. */
DIT_INTERNAL dit_result diti_guard_restore(diti_plan *plan, uint32_t step, dit_error *err);
/* Records that into commands of the application's. */
DIT_INTERNAL void diti_plan_record_guards(const diti_plan *plan, VkCommandBuffer commands);
/* diti_plan_run for one segment, as often as its guards want. */
DIT_INTERNAL dit_result diti_guard_run(diti_plan *plan, uint32_t segment, dit_error *err);
/* Sets an input's content ([rows, columns] tightly packed); reaches the device when segment 0 runs. */
DIT_INTERNAL dit_result diti_plan_write(diti_plan *plan, diti_tensor input, const void *data, size_t size,
                                        dit_error *err);
/* Reads a state or (still living) tensor tightly packed, waiting for submitted work. */
DIT_INTERNAL dit_result diti_plan_read(diti_plan *plan, diti_tensor tensor, void *data, size_t size, dit_error *err);
DIT_INTERNAL VkBuffer diti_plan_buffer(const diti_plan *plan, diti_tensor tensor, VkDeviceSize *offset,
                                       VkDeviceSize *size); /* for copies into images */
/* Slices of a segment, in order; each is one pre-recorded command buffer whose cost is at most about max_slice_us.
 */
DIT_INTERNAL uint32_t diti_plan_slice_count(const diti_plan *plan, uint32_t segment);
DIT_INTERNAL float diti_plan_slice_us(const diti_plan *plan, uint32_t segment,
                                      uint32_t slice); /* predicted, corrected by timestamps */
DIT_INTERNAL float
diti_plan_slice_planned_us(const diti_plan *plan, uint32_t segment,
                           uint32_t slice);              /* as first predicted: for progress that never jumps back */
DIT_INTERNAL uint32_t diti_whole_us(float us);           /* UINT32_MAX: that or more */
DIT_INTERNAL void diti_plan_wait(const diti_plan *plan); /* for everything submitted; NULL is fine */
DIT_INTERNAL dit_result diti_plan_submit(diti_plan *plan, uint32_t segment, uint32_t slice, uint64_t *value,
                                         dit_error *err); /* value of the plan's timeline when the slice is done */
/* Submits a slice behind what submission waits for; the rest of submission is filled here. */
DIT_INTERNAL dit_result diti_plan_submit_after(diti_plan *plan, uint32_t segment, uint32_t slice,
                                               diti_submission *submission, uint64_t *value, dit_error *err);
/* Bytes that a segment sends in a run of it, to all others or (peer < UINT32_MAX) to one. */
DIT_INTERNAL uint64_t diti_plan_exchange_bytes(const diti_plan *plan, uint32_t segment, uint32_t peer);
/* Records a slice into the application's command buffer. Its descriptor sets and its secondary are made when it is
   recorded for the first time: making those of all slices at once, as work that is cut anew would have to, takes many
   times what a frame has time for. */
DIT_INTERNAL dit_result diti_plan_execute(diti_plan *plan, uint32_t segment, uint32_t slice, VkCommandBuffer commands,
                                          dit_error *err);
/* The newest frame will never run: forgets it, and that its commands have copied weights. dispatches: of the counters,
   before it. */
DIT_INTERNAL void diti_plan_unrecord(diti_plan *plan, uint64_t dispatches);
/* Makes the timestamps of frames where they are missing. Call before diti_plan_execute. */
DIT_INTERNAL dit_result diti_plan_prepare_frames(diti_plan *plan, dit_error *err);
/* Whether the host must load weights while the plan runs. */
DIT_INTERNAL bool diti_plan_streams(const diti_plan *plan);
/* Loads what is streamed for the next slice, *bytes at most, and takes what it loaded off *bytes. DIT_OK: all of it is
   there; DIT_WORKING: not yet, because *bytes is 0 or its slot is in use. Submitting loads, too, but waits. */
DIT_INTERNAL dit_result diti_plan_load(diti_plan *plan, uint32_t segment, uint32_t slice, uint64_t *bytes,
                                       dit_error *err);
/* Loads for slices to come, asked for in their order from the next one on, as long as it returns DIT_OK. */
#define DITI_STREAM_AHEAD 256u
typedef struct diti_stream_walk {                                           /* zero at first */
    uint32_t slots, slices, batches[DITI_STREAM_SLOTS + DITI_EXPERT_SLOTS]; /* slots: a bit for each with a batch */
} diti_stream_walk;
DIT_INTERNAL dit_result diti_plan_load_ahead(diti_plan *plan, diti_stream_walk *walk, uint32_t segment, uint32_t slice,
                                             uint64_t *bytes, dit_error *err);
/* Lets up to a millisecond pass. */
DIT_INTERNAL dit_result diti_plan_pause(const diti_plan *plan, dit_error *err);
/* false: timestamps of the slice must be taken over first (diti_plan_learn), or its next run would lose them: of a
   slice that was never measured, and of a traced one. */
DIT_INTERNAL bool diti_plan_may_submit(const diti_plan *plan, uint32_t segment, uint32_t slice);
/* Takes over the timestamps of finished slices. */
DIT_INTERNAL void diti_plan_learn(diti_plan *plan);
/* Submits other commands in the plan's order, on its timeline. */
DIT_INTERNAL dit_result diti_plan_submit_commands(diti_plan *plan, VkCommandBuffer commands, uint64_t *value,
                                                  dit_error *err);
/* No commands, only waits: what its timeline comes to then has them behind it. */
DIT_INTERNAL dit_result diti_plan_submit_waits(diti_plan *plan, diti_submission *submission, dit_error *err);
DIT_INTERNAL VkSemaphore diti_plan_timeline(const diti_plan *plan);
DIT_INTERNAL uint32_t diti_plan_last_slice_us(const diti_plan *plan);
DIT_INTERNAL void diti_counters_add(dit_counters *out, const dit_counters *more);
/* Runs every pipeline once and waits; nothing of the plan is in flight, and what a run left in its memory is lost. */
DIT_INTERNAL dit_result diti_plan_warm(diti_plan *plan, dit_error *err);
/* Submits all slices of segments [first, first + count) once, in order, and waits: tests, encoders, one-off work. */
DIT_INTERNAL dit_result diti_plan_run(diti_plan *plan, uint32_t first, uint32_t count, dit_error *err);

/* --- what a device takes for what (calibrate.c, tune.c) --- */
/* Measures what the graph wants: a graph built afterwards makes use of it. DIT_CANCELLED when progress says so. */
DIT_INTERNAL dit_result diti_tune_run(diti_graph *graph, const dit_progress *progress, dit_error *err);
/* Finds the device's speed, unless it is calibrated on its rung. Where the device is allowed too little memory for
   that, the guess stays. */
DIT_INTERNAL dit_result diti_device_measure(diti_device *device, dit_error *err);
/* Where it is in doubt that matrices are fast: leaves them unless products on them take less time, by what is known or
   else measured. */
DIT_INTERNAL dit_result diti_device_choose_matrices(diti_device *device, dit_error *err);
/* Where a device has both kinds of matrices for attention: keeps those that proved faster, or measures which do. */
DIT_INTERNAL dit_result diti_device_choose_attention(diti_device *device, dit_error *err);
#endif
