/* graph: tensors, ops, and the plan that fixes memory, splits work into slices, records command buffers once and
   replays them.

   Everything a model computes is a matrix [rows, columns]: tokens or pixels are rows (batch items one after the other),
   channels are columns. Ops append dispatches to the graph's current segment; the first error sticks to the graph and
   later ops do nothing, so that a block reads like its formula. diti_plan_create then turns the whole graph into
   recorded work. */
#ifndef DITI_GRAPH_H
#define DITI_GRAPH_H
#include "weights/weights.h"

/* DITI_I8: rows of int8 with a scale each, the operands of W8A8. columns bytes, zeros up to a multiple of 16, the scale
   as F32, 12 bytes of nothing; pitch and offsets count bytes. In blocks: columns bytes, a multiple of 32, behind them a
   scale as F32 for each 32. */
typedef enum diti_element { DITI_F32, DITI_F16, DITI_U32, DITI_I8 } diti_element;
DIT_INTERNAL uint32_t diti_element_size(diti_element element);
DIT_INTERNAL bool diti_element_is_float(diti_element element); /* F32 or F16 */

/* --- tensors --- */
typedef uint32_t diti_tensor; /* index into the graph; 0 is "none" */
typedef enum diti_storage {
    DITI_STORAGE_ARENA, /* lives from its first write to its last read; memory is shared with others */
    DITI_STORAGE_STATE, /* keeps its content over the whole plan (latents, solver history); segment 0 starts by zeroing
                           it */
    DITI_STORAGE_INPUT, /* written by the host before a run (diti_plan_write), copied to the device by the first segment
                         */
    DITI_STORAGE_WEIGHT /* a part of a weight */
} diti_storage;
typedef struct diti_tensor_info {
    char name[64];
    diti_storage storage;
    diti_element format;
    uint32_t rows, columns;
    bool rotated;                  /* I8: in the basis of rotated weights */
    bool halved;                   /* I8: a weight of 4 bit, two columns to a byte of its pitch */
    bool e4m3;                     /* I8: the bytes are E4M3 (docs/kernels.md 2.2) */
    bool blocks;                   /* I8: 32 columns have a scale (docs/kernels.md 1.3) */
    diti_tensor floats;            /* I8: the floats that were quantized, with as many rows; 0: unknown */
    uint32_t pitch;                /* elements from row to row; multiple of 4 for tensors the graph makes */
    diti_tensor parent;            /* views: the tensor whose memory this is; else itself */
    uint64_t first;                /* views: element offset inside the parent */
    uint64_t bytes;                /* parents: rows * pitch * element size */
    const diti_weight_part *part;  /* DITI_STORAGE_WEIGHT */
#define DITI_UNUSED_YET UINT32_MAX /* a first_use that no dispatch has set */
    uint32_t first_use, last_use;  /* dispatch indices, set by the ops, widened by the planner for repeated segments */
    uint32_t guard;                /* parents: the record with the exponent that they are stored with; 0: as they are */
    uint32_t block;                /* planner: which arena block */
    VkDeviceSize offset;           /* planner: byte offset in its block; DITI_STORAGE_WEIGHT: in buffer */
    VkBuffer buffer;               /* planner: DITI_STORAGE_WEIGHT that is not streamed */
} diti_tensor_info;

/* --- dispatches ---
   Kernels number their workgroups on x only; word 0 of the push constants is the number of the first one, so that any
   range of workgroups is a valid slice with the same result. Element offsets of bindings are push constants too, so
   that a slice may bind only the part of a large tensor that it touches. */
typedef struct diti_binding {
    diti_tensor tensor;
    bool reads, writes;
    uint8_t offset_word;   /* push constant word with the element offset of the tensor's first element in the binding;
                              filled by the planner */
    uint8_t element_bytes; /* unit of that offset: 4 for packed weights (the kernel reads words) and F32/U32, 2 for F16,
                              1 for I8 */
    /* Workgroups [g0, g1) touch elements from (g0 / group_div) * group_step - before to ((g1 - 1) / group_div +
       1) * group_step + after of the tensor. group_step 0: the whole tensor, whatever the slice. */
    uint32_t group_div;
    uint64_t group_step, before, after;
} diti_binding;
typedef enum diti_cost_kind {
    DITI_COST_GEMM,
    DITI_COST_ATTENTION,
    DITI_COST_CONV,
    DITI_COST_MEMORY,
    DITI_COST_KINDS
} diti_cost_kind;
typedef struct diti_dispatch {
    const char *name; /* static text, e.g. "gemm" */
    diti_kernel kernel;
    uint32_t constants[DITI_MAX_CONSTANTS];
    uint32_t stated; /* bit i: constants[i] is; the others are as the module has them */
    uint32_t push[DITI_PUSH_WORDS];
    uint32_t push_count;                      /* words, word 0 included */
    diti_binding bindings[DITI_MAX_BINDINGS]; /* binding i of set 0; tensor 0: unused */
    uint32_t binding_count;
    uint32_t groups;      /* workgroups on x */
    uint32_t group_align; /* slices start at multiples of this many workgroups; 0 and 1: anywhere */
    diti_cost_kind cost_kind;
    double flops, memory_bytes; /* for slices, progress and traces */
    double padded_flops;        /* where tiles stand out beyond the result: operations of whole tiles; else 0 */
    uint32_t shape[5]; /* for traces: M, N, K, kernel of products; queries, keys, heads, head_dim, batch of attention */
    uint32_t segment;
    diti_tensor gate; /* U32 [2 * DITI_GATE_ENTRIES, 4]: how many workgroups run where so many are asked for, first if
                         blocks are computed, then if they are not (ops_residual.c); 0: all */
    bool gate_else;   /* the second half counts */
    bool early;       /* the dispatch makes operands of the next product from weights alone: see diti_graph_dispatch */
    bool passed;      /* early: the dispatch stands before the product that was emitted before it */
} diti_dispatch;

#define DITI_GATE_ENTRIES 4097u /* pieces of gated dispatches have fewer workgroups */

/* --- the graph --- */
typedef struct diti_segment {
    char name[32];         /* "encode", "step", "decode"… */
    uint32_t first, count; /* dispatches */
    bool repeated;         /* replayed many times: tensors of earlier segments that it reads stay alive to its end */
    bool late; /* runs between the repeated segments that follow it: what it reads stays alive to the end of these */
} diti_segment;
#define DITI_MAX_SEGMENTS 48u
/* Something that goes to another device, or comes from it: rows and columns of a tensor. From its begin on the copy may
   use the tensor, at its end it is through: what is sent may change, what is received is there. Between the two other
   ops run. The bytes that one plan sends to another meet those that the other receives from it, in the order in which a
   run comes to their begins, as often as it does. */
typedef struct diti_exchange {
    diti_tensor tensor;
    uint32_t peer; /* number of the other device */
    uint32_t segment;
    bool sends;   /* false: the exchange receives */
    bool ended;   /* by an end of its own; else it ends with its segment */
    bool carried; /* false: only a join ends it, or its next begin, or the end of the run */
} diti_exchange;
typedef enum diti_exchange_event_kind {
    DITI_EXCHANGE_BEGINS,
    DITI_EXCHANGE_ENDS,
    DITI_EXCHANGE_JOINS
} diti_exchange_event_kind;
typedef struct diti_exchange_event { /* in the order of the graph */
    diti_exchange_event_kind kind;
    uint32_t exchange; /* index in exchanges; joins have none */
    diti_tensor tensor;
    uint32_t segment, place; /* dispatches of the graph that come before */
    uint32_t slice;          /* in a plan: slices of the segment that come before */
} diti_exchange_event;
#define DITI_NO_BLOCK UINT32_MAX
typedef struct diti_mark { /* a block of a model begins; or a segment, or what is behind blocks: DITI_NO_BLOCK */
    uint32_t block, segment;
    uint32_t place, event; /* dispatches and events before the mark */
    diti_tensor tensor;    /* the first tensor that is made behind the mark */
    char scope[24];        /* "single block 3" */
} diti_mark;
typedef struct diti_guard_record { /* an op that is guarded (guard.c); records are named by number, 0: none */
    char name[64];
    uint32_t segment;                /* counted from 1 */
    uint32_t store, load[2], narrow; /* records whose exponents the result and the operands have */
    bool has_result;
    bool travels;              /* another device sends or receives what has this exponent */
    uint32_t exponent, wanted; /* exponent that the op's result is stored with, and the one that it asks for */
} diti_guard_record;
typedef struct diti_late_copy { /* a result for the segment's next run, and the state that keeps it */
    diti_tensor from, to;
} diti_late_copy;
typedef struct diti_lora_use { /* a LoRA that linear layers of the graph have beside their weights (ops_lora.c) */
    const struct diti_lora *lora;
    uint32_t column; /* the first of its scales in lora_scales */
} diti_lora_use;
typedef struct diti_graph {
    diti_device *device;
    dit_error error;           /* sticky: the first failure */
    diti_tensor_info *tensors; /* [0] is unused */
    size_t tensor_count, tensor_capacity;
    diti_dispatch *dispatches;
    size_t dispatch_count, dispatch_capacity;
    diti_segment segments[DITI_MAX_SEGMENTS];
    uint32_t segment_count;
    const dit_worker *worker; /* lends threads for compiling pipelines; NULL: none */
    bool again; /* diti_plan_create failed with a kernel that the device does without from now on: emit all ops again */
    diti_element activation;       /* format of activations: F16 on rungs that have it, else F32, which others may be
                                      set to: then nothing is rounded to F16 */
    bool int8_payload;             /* heads, keys and values go to other devices as int8, each row with a scale */
    bool shards;                   /* devices have but a part of each block's weights (diti_shard_blocks) */
    bool int8_feedback;            /* the error of int8 payloads in a step is added in the next one */
    uint32_t candidate;            /* 1 + what diti_tune_choose answers; 0: what is known */
    uint32_t slice_us;             /* the plan's limit of slices; 0: the device's */
    struct diti_tune_case *wanted; /* cases that were not known, where the device is to be tuned */
    size_t wanted_count, wanted_capacity;
    char scope[24];     /* the part of a model that ops belong to, for guards: "block 3"; empty: nothing */
    diti_tensor guards; /* U32 [records, words]; 0: nothing is guarded */
    diti_guard_record *guard_records;
    size_t guard_count, guard_capacity;
    uint32_t guard_judged;            /* records of earlier segments, and the first */
    uint32_t guard_self, guard_peers; /* this device's number, and how many agree on what must run again */
    bool guard_bare;       /* tensors for other devices must have no exponent: every device knows only its own */
    bool guard_alike;      /* exponents are raised together, on all devices of a sequence */
    bool guard_apart;      /* the verdict on the segments to come goes to no other device */
    uint32_t guard_end;    /* not 0: what overflows in the segments up to this one counts when that has ended: no device
                              hears of another before */
    bool guard_blind;      /* exponents of what travels rise by a fixed amount, since some device's peaks are unknown */
    diti_late_copy *lates; /* copies that wait for the segment's verdict */
    size_t late_count, late_capacity;
    diti_exchange *exchanges;
    size_t exchange_count, exchange_capacity;
    diti_exchange_event *events;
    size_t event_count, event_capacity;
    diti_cut_weight **cuts; /* weights that ops have made of larger ones */
    size_t cut_count, cut_capacity;
    diti_mark *marks;
    size_t mark_count, mark_capacity;
    diti_tensor gate;       /* gate of the dispatches that follow, and its half */
    bool gate_else, gated;  /* gated: some dispatch has one */
    diti_tensor made_early; /* tensor that the newest early dispatch has made; 0: none */
    const diti_lora_use *loras;
    uint32_t lora_count;
    /* diti_lora_vector, where LoRAs add to vectors; else NULL */
    diti_tensor (*add_to_vector)(struct diti_graph *graph, const diti_weight *weight, diti_tensor vector);
    diti_tensor lora_scales; /* F32 [1, scales of all], each times the weight of its LoRA */
} diti_graph;

typedef struct diti_observer { /* dit-convert --calibrate: appends ops that keep the input of a linear layer */
    void (*linear)(const struct diti_observer *observer, diti_graph *graph, diti_tensor x, const diti_weight *weight);
} diti_observer;

DIT_INTERNAL void diti_graph_init(diti_graph *graph, diti_device *device);
DIT_INTERNAL void diti_graph_free(diti_graph *graph);
#define diti_graph_failed(graph) ((graph)->error.result < 0) /* no call: it is asked in hundreds of places */
/* Keeps the first failure; returns 0 so that ops can `return diti_graph_fail(...)`. */
DIT_INTERNAL diti_tensor diti_graph_fail(diti_graph *graph, dit_result result, const char *format, ...)
    DITI_PRINTF(3, 4);
/* diti_fail_memory for graphs. */
DIT_INTERNAL diti_tensor diti_graph_fail_memory(diti_graph *graph, const char *format, ...) DITI_PRINTF(2, 3);
/* Starts the next segment; its number counts from 0. */
DIT_INTERNAL uint32_t diti_graph_segment(diti_graph *graph, const char *name, bool repeated);
/* Names what the next ops belong to, for messages and diti_shard_blocks: "block", 3; NULL: nothing. */
DIT_INTERNAL void diti_graph_scope(diti_graph *graph, const char *what, uint32_t index);
DIT_INTERNAL diti_tensor diti_tensor_new(diti_graph *graph, diti_element format, uint32_t rows, uint32_t columns,
                                         const char *name);
DIT_INTERNAL diti_tensor diti_tensor_state(diti_graph *graph, diti_element format, uint32_t rows, uint32_t columns,
                                           const char *name);
DIT_INTERNAL diti_tensor diti_tensor_input(diti_graph *graph, diti_element format, uint32_t rows, uint32_t columns,
                                           const char *name);
/* rows x columns of tensor from (row, column) on: the same memory. */
DIT_INTERNAL diti_tensor diti_tensor_view(diti_graph *graph, diti_tensor tensor, uint32_t row, uint32_t rows,
                                          uint32_t column, uint32_t columns);
/* Views the elements as [rows, columns], for tensors without padding (pitch equals columns). */
DIT_INTERNAL diti_tensor diti_tensor_reshape(diti_graph *graph, diti_tensor tensor, uint32_t rows, uint32_t columns);
/* Views the rows with what pads them to a multiple of four elements: [rows, pitch], for copies. */
DIT_INTERNAL diti_tensor diti_tensor_padded(diti_graph *graph, diti_tensor tensor);
/* Part of a weight as a tensor for bindings: [rows, columns] elements for F32/F16 weights, opaque words for packed
 * ones. */
DIT_INTERNAL diti_tensor diti_tensor_weight(diti_graph *graph, const diti_weight *weight, uint32_t part);
/* The factors of a weight's rows, [1, as many as its factor has]; 0: it has none. */
DIT_INTERNAL diti_tensor diti_tensor_factors(diti_graph *graph, const diti_weight *weight);
/* Rows of int8 with a scale for each 32 columns. */
DIT_INTERNAL diti_tensor diti_tensor_blocks(diti_graph *graph, uint32_t rows, uint32_t columns, const char *name);
/* A part of a weight whose elements are bytes, as rows of those. */
DIT_INTERNAL diti_tensor diti_tensor_bytes(diti_graph *graph, const diti_weight *weight, uint32_t part);
/* 0 where the graph has failed. */
DIT_INTERNAL uint32_t diti_tensor_rows(const diti_graph *graph, diti_tensor tensor);
DIT_INTERNAL uint32_t diti_tensor_columns(const diti_graph *graph, diti_tensor tensor);
DIT_INTERNAL const diti_tensor_info *diti_tensor_get(const diti_graph *graph, diti_tensor tensor);
#endif
