/* split, on devices: several of them work on one job. Every device has a plan of its own (graph/plan.h), in which
   exchanges say what it sends to others and receives from them; all plans have the same segments.

   peers   how the devices of a context reach each other: for every pair the best transport that proved itself
   lane    copies from one device to another, in chunks through a ring of slots that both reach
   mesh    plans that run side by side: lanes for their exchanges, and which slice may be submitted when

   Nothing here waits but where it says so: whoever runs a mesh pumps it, and host copies happen in the pumping. */
#ifndef DITI_MESH_H
#define DITI_MESH_H
#include "graph/plan.h"
#include "split/split.h"

/* ================= lanes ================= */
typedef enum diti_transport {                             /* best first */
                              DITI_TRANSPORT_GROUP,       /* memory of another member of a device group */
                              DITI_TRANSPORT_FD,          /* memory in common, by the driver's file descriptor */
                              DITI_TRANSPORT_DMA_BUF,     /* by the system's */
                              DITI_TRANSPORT_HOST,        /* pages of the host that both devices import */
                              DITI_TRANSPORT_STAGED,      /* the host copies from one's memory to the other's */
                              DITI_TRANSPORT_APPLICATION, /* dit_transport: one of the two is in another process */
                              DITI_TRANSPORT_LOCAL,       /* the two are one device: a buffer on it */
                              DITI_TRANSPORTS
} diti_transport;
DIT_INTERNAL const char *diti_transport_name(diti_transport transport);

/* A chunk goes from the source to a slot on one device, and from the slot to the target on the other. A slot is memory
   that both reach, or a buffer on each, between which the host copies. Each half of the way is a submission that waits
   for nothing but what was submitted before, so that no order of submissions can block.
   Each side has copies of its own, which it opens in an order of its own: what is opened first on one side meets what
   is opened first on the other, and must be as long. Both are cut into chunks as rows of bytes, whatever their shape.
 */
#define DITI_LANE_SLOTS 4u /* a lane has so many, where the host's memory has room for them */
/* A transfer's tag has 28 bits, as many as MPI takes: 4 for the job, 5 for each member of the lane, 4 for the run, 10
   for the chunk. */
#define DITI_LANE_TAG_BITS 14u /* bits for the job and the lane */
#define DITI_LANE_CHUNKS 1024u /* chunks with numbers of their own */
enum { DITI_LANE_OUT, DITI_LANE_IN, DITI_LANE_SIDES };
typedef struct diti_lane_slot {
    diti_shared shared;
    diti_buffer buffers[DITI_LANE_SIDES]; /* where nothing is shared; of a device in another process none */
    void *request;                        /* the application's */
    diti_trace_scope scope;               /* from leaving to arriving */
    uint64_t bytes, whole;                /* bytes of the chunk in the slot, and of the chunk's whole copy */
    const char *name;
} diti_lane_slot;
typedef struct diti_lane_chunk {
    uint64_t from, bytes; /* range in the whole copy */
} diti_lane_chunk;
/* One side of a copy: rows of so many bytes, pitch bytes from one to the next. */
typedef struct diti_lane_copy {
    VkBuffer buffer;
    VkDeviceSize offset, pitch;
    uint64_t row_bytes;
    uint32_t rows;
    uint32_t first, count; /* chunks; set by diti_lane_add */
    char name[32];
} diti_lane_copy;
typedef struct diti_lane_turn { /* a copy that may go on, on one side */
    uint32_t copy;              /* index of the copy on the side that is in this process */
    VkSemaphore after; /* a timeline of that side's device, and its value from which on memory may be touched */
    uint64_t value;
} diti_lane_turn;
/* Memory of a slot that a run left while the application was still reading or writing it: a transfer cannot be taken
   back. It is freed when the transfer is over, or with the context. */
typedef struct diti_lane_owed {
    struct diti_lane_owed *next;
    diti_device *device; /* NULL: the bytes stand behind this struct */
    diti_buffer buffer;
    dit_transport application;
    void *request;
} diti_lane_owed;
typedef struct diti_lane_debts { /* a context's; jobs of several threads add to it and free what is over */
    int lock;
    diti_lane_owed *first; /* under lock, which is not held while the application is asked */
} diti_lane_debts;
/* Chunks of a lane that this process has sent in a run, or has asked for. */
typedef struct diti_lane_ledger {
    uint32_t tag; /* the first chunk's */
    uint32_t sends, count;
    uint32_t bytes[DITI_LANE_CHUNKS]; /* the last chunks', each at its number modulo DITI_LANE_CHUNKS */
} diti_lane_ledger;
typedef struct diti_lane_side {
    diti_device *device; /* NULL: in another process */
    VkCommandPool pool;
    VkCommandBuffer commands[DITI_LANE_SLOTS]; /* commands of each slot: recorded anew for the chunk that comes to it */
    VkSemaphore timeline;                      /* counts chunks */
    uint64_t opened, submitted, finished;      /* chunks since the lane was made; finished: as far as was seen */
    uint64_t signals;                  /* value that the timeline comes to: a run that ended early leaves numbers out */
    diti_lane_turn *turns;             /* a ring */
    uint32_t first, count, turn_count; /* turn_count: room */
    uint32_t chunk;                    /* the next one of the first turn's copy */
    diti_lane_copy *copies;
    size_t copy_count, copy_capacity;
    diti_lane_chunk *chunks;
    size_t chunk_count, chunk_capacity;
} diti_lane_side;
typedef struct diti_lane {
    diti_env env;
    diti_transport transport;
    uint32_t from, to; /* devices, counted over all processes */
    VkDeviceSize slot_bytes;
    diti_lane_slot slots[DITI_LANE_SLOTS];
    uint32_t slot_count;
    diti_lane_side sides[DITI_LANE_SIDES];
    uint64_t passed;    /* chunks that the host has brought from side to side, or seen to be there */
    uint64_t bytes;     /* bytes of chunks that were copied in, or handed to the application */
    VkSemaphore bridge; /* timeline of the sending side as the receiving device knows it: that waits for it itself, the
                           host need not see what is sent; VK_NULL_HANDLE: the host does */
    dit_transport application;
    diti_lane_debts *owed; /* the context's */
    uint32_t tag, ranks[DITI_LANE_SIDES];
    uint64_t limit_us, looked_us, idle_us; /* limit: of waiting for another process, which has done nothing for idle */
    uint64_t busy_us, busy_since_us;       /* while chunks were on their way; since: 0: none is */
    uint64_t told_us, told_bytes;          /* time and bytes that the log knows of (diti_mesh_log) */
    diti_lane_ledger *ledger;              /* the run's; NULL: both devices are in this process */
    diti_trace *trace;
} diti_lane;

typedef struct diti_lane_desc {
    diti_transport transport;
    diti_device *devices[DITI_LANE_SIDES]; /* NULL: in another process */
    uint32_t from, to;
    uint32_t ranks[DITI_LANE_SIDES]; /* processes of the devices */
    bool bridged;                    /* by a timeline that both devices have */
    VkDeviceSize slot_bytes;
    uint32_t slots; /* 0: DITI_LANE_SLOTS */
    const dit_transport *application;
    diti_lane_debts *owed; /* where there is an application's transport */
    uint32_t tag;          /* tag of the lane, DITI_LANE_TAG_BITS */
    uint64_t limit_us;
} diti_lane_desc;
/* Whether slots are pages of the host. */
DIT_INTERNAL bool diti_lane_pins(diti_transport transport);
/* Makes slots smaller where there is room for so many bytes on a side, as little as it pays to copy. Two processes cut
   their copies alike, but each may have fewer slots. */
DIT_INTERNAL void diti_lane_fit(diti_lane_desc *desc, uint64_t room);
DIT_INTERNAL dit_result diti_lane_create(const diti_env *env, const diti_lane_desc *desc, diti_lane **out,
                                         dit_error *err);
DIT_INTERNAL void diti_lane_destroy(diti_lane *lane); /* settles; NULL is fine */
/* Records a copy of a side in this process, to run any number of times. Its number: one more than that of the side's
   copy before. */
DIT_INTERNAL dit_result diti_lane_add(diti_lane *lane, uint32_t side, const diti_lane_copy *copy, dit_error *err);
/* The copy may run once more when timeline after has reached value; it was submitted to its last chunk since it was
   opened before. Returns what the side's timeline reaches when it is through. */
DIT_INTERNAL uint64_t diti_lane_open(diti_lane *lane, uint32_t side, uint32_t copy, VkSemaphore after, uint64_t value);
/* Does what can be done now without waiting; *moved becomes true when something was. */
DIT_INTERNAL dit_result diti_lane_pump(diti_lane *lane, bool *moved, dit_error *err);
/* Likewise while the other process is not in the run: nothing is sent or asked for, which nobody would meet. */
DIT_INTERNAL dit_result diti_lane_stand(diti_lane *lane, dit_error *err);
DIT_INTERNAL bool diti_lane_idle(const diti_lane *lane); /* nothing is open or on its way */
/* Waits until something that is on its way has moved on, or the time is over. *waited becomes true unless nothing is.
 */
DIT_INTERNAL dit_result diti_lane_wait(diti_lane *lane, uint64_t timeout_ns, bool *waited, dit_error *err);
/* The receiving device waits no more for a sending one that was lost. */
DIT_INTERNAL void diti_lane_release(diti_lane *lane);
/* Waits for what was submitted and forgets what is open. */
DIT_INTERNAL void diti_lane_settle(diti_lane *lane);
/* Frees what the application no longer uses, or all of it. */
DIT_INTERNAL void diti_lane_free_owed(const diti_env *env, diti_lane_debts *debts, bool all);

/* ================= peers ================= */
typedef struct diti_split_links { /* measured between the devices of a context */
    uint32_t count;
    double pairs[DITI_MAX_DEVICES][DITI_MAX_DEVICES]; /* rates of one pair alone, both sending */
    diti_split_rates inside, across;
    uint32_t per_socket; /* devices; 0: all */
    double latency;
} diti_split_links;
/* A message from the host of one process to that of another; its memory stays until it has come, or to the context's
   end. */
typedef struct diti_letter {
    struct diti_letter *next;
    void *request; /* the application's; NULL: it is there */
    uint32_t rank; /* the other process */
    size_t size;
    bool kept; /* somebody waits for it */
} diti_letter;

typedef struct diti_peers {
    diti_env env;
    diti_device *const *devices;      /* the context's */
    uint32_t count;                   /* devices in this process */
    uint32_t ranks[DITI_MAX_DEVICES]; /* processes that are left, in order */
    uint32_t rank_count, place;       /* how many they are, and which of them this one is */
    uint32_t first, all; /* number of the first one among the devices of these processes, and how many there are */
    uint32_t lacks[DITI_MAX_DEVICES]; /* by rank, bit i: its device i has no F16, as it has told with a job */
    VkDeviceSize chunk;               /* bytes copied at a time */
    dit_transport application;
    uint64_t limit_us, silence_us; /* longest time of waiting for another process, and without a word from it */
    uint32_t jobs;     /* jobs over several processes that were made or failed to be: each process counts alike */
    uint32_t job, run; /* words of a rank that comes to a run are for this one: usually the next job's first */
    diti_transport transports[DITI_MAX_DEVICES][DITI_MAX_DEVICES]; /* from, to: of devices in this process */
    bool bridges[DITI_MAX_DEVICES][DITI_MAX_DEVICES]; /* the receiving one waits for the sending one itself */
    diti_split_links links;                           /* count 0: not measured */
    diti_lane_debts owed;
    struct diti_beats *coming;  /* words for runs that have no mesh yet, under coming_lock */
    int coming_lock, stepped_s; /* stepped_s: atomic; second in which a run was stepped last */
    struct diti_beats *deaf;    /* beats of ended runs with words on their way to here: freed with the context */
    int letters_lock;
    diti_letter *letters; /* under letters_lock: letters that are on their way, or were not taken */
} diti_peers;
/* Tests the transports of every pair. overrides: transport, break_transport, bridge, chunk,
   transport_ms, silence_ms. */
DIT_INTERNAL dit_result diti_peers_create(const diti_env *env, diti_device *const *devices, uint32_t count,
                                          const dit_transport *application, const char *overrides, diti_peers **out,
                                          dit_error *err);
DIT_INTERNAL void diti_peers_destroy(diti_peers *peers); /* NULL is fine */
/* Meshes that are made from now on do without a process. */
DIT_INTERNAL void diti_peers_leave_out(diti_peers *peers, uint32_t rank);
/* Letters belong to a job, by its number, and are numbered from each sender: below DITI_LETTER_TERMS those of its runs,
   so many above it those by which all agree (agree.c), and from DITI_LETTER_CHOICES on so many by which its split is
   chosen (auto.c). A copy of data is sent. *out is the caller's until diti_letter_drop, if out is given. */
#define DITI_LETTER_TERMS 128u
#define DITI_LETTER_CHOICES 256u
DIT_INTERNAL dit_result diti_letter_send(diti_peers *peers, uint32_t job, uint32_t number, uint32_t to,
                                         const void *data, size_t size, diti_letter **out, dit_error *err);
/* *out is the caller's until diti_letter_drop. */
DIT_INTERNAL dit_result diti_letter_ask(diti_peers *peers, uint32_t job, uint32_t number, uint32_t from, size_t size,
                                        diti_letter **out, dit_error *err);
/* DIT_WORKING: it has not come. */
DIT_INTERNAL dit_result diti_letter_poll(const diti_peers *peers, diti_letter *letter, dit_error *err);
DIT_INTERNAL const void *diti_letter_text(const diti_letter *letter);
DIT_INTERNAL void diti_letter_drop(diti_peers *peers, diti_letter **letter); /* NULL is fine */
/* Devices that share a socket by what pairs of them attain; 0: all. */
DIT_INTERNAL uint32_t diti_split_sockets(const diti_split_links *links);
/* Fills links, once, by copies of some MB; of devices in this process (measure.c). */
DIT_INTERNAL dit_result diti_peers_measure(diti_peers *peers, dit_error *err);

/* A run ended before both processes of a lane had handed over as many chunks: what the other one has sent is taken, or
   what it has asked for is sent, whatever the bytes, so that nothing meets a later run that has the same tags. */
DIT_INTERNAL void diti_lane_even(diti_peers *peers, uint32_t rank, const diti_lane_ledger *own,
                                 const diti_lane_ledger *other);

/* ================= meshes ================= */
/* Members are the devices that exchanges speak of, numbered over all processes. Two of them may be on one device. */
#define DITI_MAX_MEMBERS (2 * DITI_MAX_DEVICES)
typedef struct diti_mesh_port { /* an exchange of a plan in its lane */
    diti_lane *lane;
    uint32_t side, copy;
    bool open;     /* the plan's cursor has come to the begin of the exchange */
    uint64_t last; /* value that the timeline of the port's side reaches then */
} diti_mesh_port;
typedef struct diti_mesh_member {
    diti_plan *plan;
    diti_device *device;
    diti_mesh_port *ports; /* one for each of the plan's exchanges */
    uint32_t *open;        /* exchanges that are open */
    uint32_t open_count;   /* entries of open */
    uint32_t met, last;    /* events of the segment at hand: the one to come to next, and their end */
    diti_submission next;  /* semaphores that the plan's next slice waits for */
    dit_error error;       /* error of waits that could not be submitted */
    bool arrived;          /* at the segment at hand */
} diti_mesh_member;
typedef struct diti_mesh {
    diti_env env;
    uint32_t first, count;            /* members in this process */
    uint32_t all, each;               /* members of all processes, and of each */
    uint32_t job, run;                /* numbers of its job and of the run, which are the same in every process */
    uint32_t terms;                   /* 24 bits, the same in every process: see diti_mesh_begin */
    uint32_t ranks[DITI_MAX_DEVICES]; /* the processes */
    diti_mesh_member members[DITI_MAX_MEMBERS];
    diti_lane **lanes;
    size_t lane_count, lane_capacity;
    struct diti_beats *beats; /* NULL: all members are in this process */
    uint64_t silence_us;      /* longest time without a sign of life from a rank that was heard */
    diti_peers *peers;
    uint64_t limit_us;             /* longest time of standing still */
    uint64_t moves;                /* how often something was seen to move */
    uint64_t watched_us, still_us; /* when that was; how long nothing had */
} diti_mesh;

/* Signs of life (beats.c); all but the last do nothing in one process. */
typedef struct diti_beats diti_beats;
typedef enum diti_leaving {
    DITI_LEAVING_DONE,
    DITI_LEAVING_FAILED,
    DITI_LEAVING_LOST /* a device here failed: the others may go on without this rank */
} diti_leaving;
/* A model is being loaded, or a job made: tells the others that this rank comes to its run. Any thread; peers may be
   NULL. Does nothing while a run is stepped. */
DIT_INTERNAL void diti_beats_prepare(diti_peers *peers);
/* Progress as a call tells it where other processes take part: they hear of it, too. telling stays as long as the call;
   peers may be NULL. */
typedef struct diti_telling {
    diti_peers *peers;
    dit_progress progress; /* the application's */
} diti_telling;
DIT_INTERNAL dit_progress diti_beats_progress(diti_peers *peers, const dit_progress *own, diti_telling *telling);
/* Number of a job that is made, which every process counts alike: whatever comes of it. */
DIT_INTERNAL uint32_t diti_beats_number(diti_peers *peers);
/* This rank comes to that run of a job: words are for it until it has a mesh, or diti_beats_made. */
DIT_INTERNAL void diti_beats_aim(diti_peers *peers, uint32_t job, uint32_t run);
/* The call is over that was to bring this rank to the run. Unless it joins, that is, has a mesh for it, the others are
   told that it does not come; how: whether that is meant so. */
DIT_INTERNAL void diti_beats_made(diti_peers *peers, uint32_t job, uint32_t run, bool joins, diti_leaving how);
/* For every look at a letter of that rank for a job that is made: an error names the rank if it has been silent for too
   long. */
DIT_INTERNAL dit_result diti_beats_await(diti_peers *peers, uint32_t job, uint32_t rank, dit_error *err);
DIT_INTERNAL void diti_beats_part(diti_peers *peers); /* the context ends: those that were listened to need not be */
DIT_INTERNAL dit_result diti_beats_create(diti_mesh *mesh, dit_error *err);
/* The mesh goes before its run has begun, and another one is made for it, which takes the words. */
DIT_INTERNAL void diti_beats_return(diti_mesh *mesh);
/* An error names the rank that has been silent for 25 s, though it was heard, or has said that it failed. */
DIT_INTERNAL dit_result diti_beats_pump(diti_mesh *mesh, dit_error *err);
/* Whether a rank has been heard in the run at hand, and exchanges what this one does. */
DIT_INTERNAL bool diti_beats_joined(const diti_mesh *mesh, uint32_t rank);
DIT_INTERNAL void diti_beats_leave(diti_mesh *mesh, diti_leaving how); /* tells the others that the run ended here */
/* A rank that the others may go on without, as its device failed, or nothing is heard from it; UINT32_MAX: none. */
DIT_INTERNAL uint32_t diti_beats_lost(const diti_mesh *mesh);
DIT_INTERNAL void diti_beats_lose(diti_mesh *mesh, uint32_t rank);         /* unless another one is known to be lost */
DIT_INTERNAL void diti_beats_settle(diti_mesh *mesh, diti_peers *peers);   /* before the next run, or the end */
DIT_INTERNAL void diti_beats_free(const diti_env *env, diti_beats *beats); /* a whole list; NULL is fine */

/* plans: one for each member. places: index of the context's device that each is on, number of the first one among the
   members of all processes, and how many members a process has; NULL: member i is on device i. */
typedef struct diti_mesh_places {
    const uint32_t *devices;
    uint32_t first, each;
} diti_mesh_places;
DIT_INTERNAL dit_result diti_mesh_create(diti_peers *peers, diti_plan *const *plans, const diti_mesh_places *places,
                                         uint32_t count, diti_mesh **out, dit_error *err);
DIT_INTERNAL void diti_mesh_destroy(diti_mesh *mesh); /* before its plans; NULL is fine */
/* Whether what must have arrived or left before a slice has; members submit their slices in order. */
DIT_INTERNAL bool diti_mesh_ready(diti_mesh *mesh, uint32_t member, uint32_t segment, uint32_t slice);
/* diti_plan_submit of a slice that is ready. */
DIT_INTERNAL dit_result diti_mesh_submit(diti_mesh *mesh, uint32_t member, uint32_t segment, uint32_t slice,
                                         uint64_t *value, dit_error *err);
DIT_INTERNAL dit_result diti_mesh_pump(diti_mesh *mesh, bool *moved, dit_error *err);
/* A device that has a copy to finish, and waits for no other one that has; NULL: there is none. */
DIT_INTERNAL diti_device *diti_mesh_waits(const diti_mesh *mesh);
/* Whether copies to a device wait, on it, for what another one has not sent yet. */
DIT_INTERNAL bool diti_mesh_awaits(const diti_mesh *mesh, const diti_device *device);
/* No device waits for one that was lost any more; before anything is waited for. */
DIT_INTERNAL void diti_mesh_release(diti_mesh *mesh);
DIT_INTERNAL bool diti_mesh_idle(const diti_mesh *mesh);
/* Waits a while for one of the copies that are on their way; *waited: whether there was one. */
DIT_INTERNAL dit_result diti_mesh_wait(diti_mesh *mesh, uint64_t timeout_ns, bool *waited, dit_error *err);
/* An error, once nothing was on its way and nothing moved for longer than the peers' limit: members wait for each
   other. To be called often: what passes between two calls counts as a second at most. moved: something else did. */
DIT_INTERNAL dit_result diti_mesh_watch(diti_mesh *mesh, bool moved, dit_error *err);
DIT_INTERNAL void diti_mesh_settle(diti_mesh *mesh); /* the run is over, whatever is open; the next begins anew */
/* The mesh is for that run of a job from now on; with other processes before anything is opened. terms: what a restart
   may change of what is exchanged: the number of tokens of its prompts, and a sum of the rest in 10 bits above it. A
   rank that says other ones is named, before anything is exchanged with it. */
#define DITI_TERMS_TOKENS 0x3fffu
DIT_INTERNAL dit_result diti_mesh_begin(diti_mesh *mesh, uint32_t job, uint32_t run, uint32_t terms, dit_error *err);
/* Logs what went over each link since the last time, how, and how fast. */
DIT_INTERNAL void diti_mesh_log(diti_mesh *mesh);
/* Bytes that left a member so far, for all other devices or (to < UINT32_MAX) for one. */
DIT_INTERNAL uint64_t diti_mesh_bytes(const diti_mesh *mesh, uint32_t member, uint32_t to);
#endif
