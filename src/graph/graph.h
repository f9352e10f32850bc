/* graph: tensors, ops, and the plan that fixes memory, splits work into slices, records command buffers once and
   replays them.

   Everything a model computes is a matrix [rows, columns]: tokens or pixels are rows (batch items one after the other),
   channels are columns. Ops append dispatches to the graph's current segment; the first error sticks to the graph and
   later ops do nothing, so that a block reads like its formula. diti_plan_create then turns the whole graph into
   recorded work. */
#ifndef DITI_GRAPH_H
#define DITI_GRAPH_H
#include "io/io.h"
#include "vk/vk.h"

/* DITI_I8: rows of int8 with a scale each, the operands of W8A8. columns bytes, zeros up to a multiple of 16, the scale
   as F32, 12 bytes of nothing; pitch and offsets count bytes. */
typedef enum diti_element { DITI_F32, DITI_F16, DITI_U32, DITI_I8 } diti_element;
DIT_INTERNAL uint32_t diti_element_size(diti_element element);
DIT_INTERNAL bool diti_element_is_float(diti_element element); /* F32 or F16 */
DIT_INTERNAL uint32_t diti_i8_pitch(uint32_t columns);

/* --- weights: already on the device, packed as stored. rows = outputs, columns = inputs (convolutions: Cin*kh*kw) ---
 */
typedef struct diti_weight_part { /* rows [first_row, first_row + rows) */
    const diti_buffer *buffer;
    VkDeviceSize offset; /* bytes, multiple of 16 */
    uint32_t first_row, rows;
    const struct diti_streamed *streamed; /* not NULL: in no buffer; offset counts in the row of what is streamed */
    const struct diti_pieces *pieces;     /* not NULL: of each row there, from offset on, these are wanted */
} diti_weight_part;
typedef struct diti_pieces { /* of bytes of a row become a row of other bytes */
    uint64_t from_pitch, to_pitch;
    struct {
        uint64_t from, to, size;
    } list[3];
    uint32_t count;
} diti_pieces;
#define DITI_MAX_WEIGHT_PARTS 64u
typedef struct diti_weight {
    const char *name; /* for messages; owned by the model */
    dit_type type;    /* vectors and small tables are always F32 on the device */
    uint32_t rows, columns;
    uint32_t kernel;     /* convolution kernel size: columns are (Cin, kernel, kernel); 1 for linear layers */
    uint32_t part_count; /* 0: the model has no such weight (an absent bias) */
    diti_weight_part parts[DITI_MAX_WEIGHT_PARTS];
} diti_weight;

/* Of a matrix that devices divide: rows [row, row + rows), rows 0: all; and of each row up to two stretches of columns,
   side by side, count 0 of the first: all. */
typedef struct diti_cut {
    uint32_t row, rows;
    struct {
        uint32_t first, count;
    } columns[2];
} diti_cut;
/* Values of a row that can't be parted: stretches of columns begin and end at multiples. */
DIT_INTERNAL uint32_t diti_weight_unit(const diti_weight *weight);

/* Bytes of so many rows on the device; false where the type has no such rows. */
DIT_INTERNAL bool diti_weight_bytes(dit_type type, uint64_t rows, uint32_t columns, uint64_t *out);

/* Where int8 rows come from: an I8 tensor of that type, or a tensor of floats or blocks that is quantized. */
typedef struct diti_i8_source {
    const diti_env *env;
    const diti_checkpoint *checkpoint;
    const diti_stored_tensor *tensor;
    dit_type type;
    uint32_t columns;
} diti_i8_source;
/* Rows [first, first + rows) as the device holds them. */
DIT_INTERNAL dit_result diti_i8_rows(const diti_i8_source *source, uint32_t first, uint32_t rows, unsigned char *out,
                                     dit_error *err);

/* --- loading weights: from a checkpoint to device memory, in the order asked for, so that what is asked for in a row
   (q, k, v) lies in a row. Asking only notes shapes and places; diti_loader_finish makes the memory and uploads. The
   first error sticks. --- */
typedef struct diti_weight_block {
    diti_buffer buffer;
    VkDeviceSize used;
} diti_weight_block;
typedef struct diti_upload { /* where bytes on the device come from (upload.c) */
    const diti_stored_tensor *tensor;
    uint64_t offset, size; /* stored bytes; int8 rows: bytes on the device */
    uint32_t floats;       /* not 0: the whole tensor, converted to so many F32 */
    bool turned;           /* floats: rows x columns from a tensor of columns x rows */
    bool halves;           /* stored as BF16, on the device F16 */
    dit_type i8;           /* int8 rows [first, first + rows) of that type, of so many columns; else 0 */
    uint32_t first, rows, columns;
    diti_weight_block *block; /* NULL: streamed */
    VkDeviceSize target;
    uint64_t kept; /* streamed: so many bytes from the first on lie in diti_streamed.kept */
} diti_upload;
/* A component's weights that are not resident: in thought one row of bytes, in the order of loading. */
typedef struct diti_streamed {
    struct diti_stream *stream; /* NULL: weights come to a device when a plan needs them, and stay (replica.c) */
    struct diti_replicas *replicas;
    const diti_env *env;
    const diti_checkpoint *checkpoint;
    diti_upload *uploads; /* by target */
    size_t count, capacity;
    uint64_t bytes;
    unsigned char *kept; /* as many of the host, for what has been read once; NULL: it is read again. Guarded by the
                            stream's busy */
} diti_streamed;
/* What is loaded of one stored type; a tensor of which only some rows are asked for counts with those. */
typedef struct diti_weight_tally {
    uint32_t tensors;
    uint64_t parameters, stored_bytes, bytes; /* bytes: on the device, resident or not */
} diti_weight_tally;
#define DITI_TALLIES ((size_t)DIT_TYPE_I64 + 1)
typedef struct diti_weights { /* the memory behind a component's weights */
    diti_weight_block **blocks;
    size_t block_count, block_capacity;
    char **names; /* what diti_weight.name points at */
    size_t name_count, name_capacity;
    uint64_t bytes, parameters; /* bytes: resident */
    uint64_t staged;            /* bytes of staging buffers that loading took from the device's memory besides */
    diti_weight_tally types[DITI_TALLIES];
    diti_streamed *streamed;        /* NULL: all is resident */
    struct diti_replicas *replicas; /* what else is resident, on any device; NULL: of no device */
} diti_weights;
/* Parts of weights on other devices than that of loading, or cut from larger ones, or read when they were needed. */
typedef struct diti_replica {
    const diti_device *device;
    const void *source; /* the part's buffer or diti_streamed */
    VkDeviceSize from;
    diti_pieces pieces; /* count 0: bytes as they are */
    uint64_t bytes;
    VkBuffer buffer;
    VkDeviceSize offset;
} diti_replica;
typedef struct diti_replica_block {
    diti_device *device;
    diti_buffer buffer;
} diti_replica_block;
typedef struct diti_replicas {
    diti_env env;
    diti_device *home; /* where what was loaded is */
    int lock;          /* spin lock: all that follows; nothing is copied or allocated on a device under it */
    bool fetching;     /* one plan brings weights: it alone changes the lists */
    diti_replica *list;
    size_t count, capacity;
    diti_replica_block **blocks;
    size_t block_count, block_capacity;
} diti_replicas;
DIT_INTERNAL diti_replicas *diti_replicas_create(const diti_env *env, diti_device *home);
DIT_INTERNAL void diti_replicas_free(diti_replicas *replicas);
/* Bytes of weights on a device that are there besides what was loaded. */
DIT_INTERNAL uint64_t diti_replicas_bytes(diti_replicas *replicas, const diti_device *device);
typedef struct diti_weight_sizes { /* bytes */
    uint64_t resident;             /* vectors, which are never streamed */
    uint64_t matrices;             /* may be streamed */
    uint64_t largest;              /* matrix that is read as a whole */
    uint64_t table;                /* largest of those that are read in pieces of any size */
    uint64_t piece;                /* least that can be read at once */
} diti_weight_sizes;
typedef struct diti_load_options { /* what a caller may ask for; NULL: nothing */
    const dit_progress *progress;
    const dit_type_rule *types;
    uint32_t type_count;
    diti_weight_sizes *sizes;   /* load nothing, tell this */
    struct diti_stream *stream; /* matrices beyond keep are streamed through it, and the checkpoint and the environment
                                   must stay; NULL: all are resident */
    uint64_t matrices, keep;    /* bytes of matrices, and how many of them stay on the device */
    bool int8_attention;        /* of dit_model_desc */
    bool by_need;               /* matrices are read when a plan needs them; the same must stay */
    bool *wide; /* not NULL: resident BF16 becomes F16 where the device computes with it, so that nothing expands it in
                   every step; set where a value is too large for that: then loading fails and is done again without */
} diti_load_options;
typedef struct diti_loader {
    diti_device *device; /* NULL: dry run, only shapes and sizes */
    const diti_env *env;
    const diti_checkpoint *checkpoint;
    const char *prefix; /* in front of every stored name */
    char scope[128];    /* in front of every name asked for: "transformer_blocks.3." */
    const char *(*rename)(void *user, const char *name, char *out,
                          size_t size); /* from the names asked for to stored ones; NULL: the same */
    void *user;
    const char *what; /* for progress: "transformer" */
    const dit_progress *progress;
    const char *component; /* rules name tensors COMPONENT.NAME, without the prefix */
    const dit_type_rule *types;
    uint32_t type_count;
    uint32_t unrotated; /* layers that the rules want rotated and whose rows no group fills */
    dit_error error;
    diti_weights weights;
    diti_upload *uploads;
    size_t upload_count, upload_capacity;
    diti_weight_sizes *sizes; /* not NULL: nothing is loaded */
    struct diti_stream *stream;
    uint64_t matrices, keep; /* of diti_load_options */
    uint64_t seen, kept;     /* matrix bytes so far, and how many of them stay */
    uint32_t skip;           /* rows of a matrix in the file before those that are asked for */
    uint32_t join;           /* so many matrices are to lie side by side; 0: the next one stands alone */
    bool chosen;             /* for all of those */
    bool streaming;          /* the matrix at hand is streamed */
    bool by_need;            /* of diti_load_options */
    bool *wide;              /* the same */
    bool *used;              /* for each tensor of the checkpoint whether it was asked for; NULL: none was */
} diti_loader;
/* prefix, checkpoint and progress must outlive the loader. Set rename and user afterwards where needed. */
DIT_INTERNAL void diti_loader_begin(diti_loader *loader, diti_device *device, const diti_env *env,
                                    const diti_checkpoint *checkpoint, const char *prefix, const char *what,
                                    const dit_progress *progress);
DIT_INTERNAL void diti_loader_scope(diti_loader *loader, const char *format, ...) DITI_PRINTF(2, 3); /* "" ends it */
DIT_INTERNAL const diti_stored_tensor *diti_loader_find(diti_loader *loader, const char *name); /* NULL when absent */
/* How many names before0after, before1after, ... exist. */
DIT_INTERNAL uint32_t diti_loader_count(diti_loader *loader, const char *before, const char *after);
/* The same number, or what key of the settings says instead; less than the file holds is refused (unused.c). */
DIT_INTERNAL uint32_t diti_loader_layers(diti_loader *loader, diti_settings *settings, const char *key,
                                         const char *before, const char *after);
/* Notes that a tensor is asked for, as all functions that load one do. */
DIT_INTERNAL void diti_loader_use(diti_loader *loader, const diti_stored_tensor *tensor);
/* Refuses a checkpoint with blocks beyond those that were asked for, and tells what else was not. */
DIT_INTERNAL dit_result diti_loader_check_unused(diti_loader *loader);
/* One number of a tensor's shape; 0 where there is no such tensor or dimension, or it is absurd. */
DIT_INTERNAL uint32_t diti_loader_dimension(diti_loader *loader, const char *name, uint32_t index);
/* From now on linear layers follow the rules of options, and matrices its limits. */
DIT_INTERNAL void diti_loader_rules(diti_loader *loader, const char *component, const diti_load_options *options);
/* A matrix in its stored type; shape [rows, columns] is checked. Convolutions: columns = Cin*kernel*kernel, shape
   [rows, Cin, kernel, kernel]; a 1x1 convolution is a matrix. */
DIT_INTERNAL void diti_load_matrix(diti_loader *loader, diti_weight *out, uint32_t rows, uint32_t columns,
                                   uint32_t kernel, const char *name);
/* The same for the weight of a linear layer, which may become int8. */
DIT_INTERNAL void diti_load_linear(diti_loader *loader, diti_weight *out, uint32_t rows, uint32_t columns,
                                   const char *name);
/* The same for a table that only diti_gather_rows reads, whose parts may be small. */
DIT_INTERNAL void diti_load_table(diti_loader *loader, diti_weight *out, uint32_t rows, uint32_t columns,
                                  const char *name);
/* Any stored float type, converted to F32 on the device, rows * columns values (biases: 1 x N), always one part. */
DIT_INTERNAL void diti_load_vector(diti_loader *loader, diti_weight *out, uint32_t rows, uint32_t columns,
                                   const char *name);
/* A matrix [rows, columns] that is stored as [columns, rows], as F32. */
DIT_INTERNAL void diti_load_transposed(diti_loader *loader, diti_weight *out, uint32_t rows, uint32_t columns,
                                       const char *name);
/* out = out's rows, then more's. false, and nothing done, where that can't be: other types or columns, too many parts;
 * vectors must lie side by side. */
DIT_INTERNAL bool diti_weight_append(const diti_loader *loader, diti_weight *out, const diti_weight *more);
/* So many values of a weight, and tensors, are not to be counted (again). */
DIT_INTERNAL void diti_loader_discount(diti_loader *loader, const diti_weight *weight, uint32_t tensors,
                                       uint64_t values);
/* DIT_CANCELLED when progress said so; whatever is not DIT_OK frees everything. A dry run leaves bytes and parameters
 * in out. */
DIT_INTERNAL dit_result diti_loader_finish(diti_loader *loader, diti_weights *out, dit_error *err);
DIT_INTERNAL void diti_weights_free(diti_device *device, const diti_env *env, diti_weights *weights);

/* --- uploading (upload.c) --- */
DIT_INTERNAL uint64_t diti_upload_bytes(const diti_upload *upload); /* on the device */
/* The next piece to read after `done` bytes on the device: at most `most` bytes, but at least one int8 row; tensors of
   floats come whole. */
DIT_INTERNAL uint64_t diti_upload_piece(const diti_upload *upload, uint64_t done, uint64_t most);
/* Reads (and converts) a piece. */
DIT_INTERNAL dit_result diti_upload_read(const diti_env *env, const diti_checkpoint *checkpoint,
                                         const diti_upload *upload, uint64_t done, uint64_t size, void *out,
                                         dit_error *err);
/* The same of a piece of BF16 that becomes F16. *wide is set, and it fails, where a value is too large for that. */
DIT_INTERNAL dit_result diti_upload_read_halves(const diti_env *env, const diti_checkpoint *checkpoint,
                                                const diti_upload *upload, uint64_t done, uint64_t size, uint16_t *out,
                                                bool *wide, dit_error *err);
/* The longest piece that has to be read at once. */
DIT_INTERNAL uint64_t diti_upload_least(const diti_upload *upload);

typedef struct diti_layer {
    diti_weight weight, bias;
} diti_layer;
/* NAME.weight and NAME.bias: linear layers and convolutions. */
DIT_INTERNAL void diti_load_layer(diti_loader *loader, diti_layer *out, uint32_t rows, uint32_t columns,
                                  uint32_t kernel, const char *name);
/* Rows [first, first + rows) of a linear layer that has `all` rows in the file. */
DIT_INTERNAL void diti_load_layer_rows(diti_loader *loader, diti_layer *out, uint32_t first, uint32_t rows,
                                       uint32_t all, uint32_t columns, const char *name);
/* Vectors of equal length as one table: F32 [count, columns]. */
DIT_INTERNAL void diti_load_vectors(diti_loader *loader, diti_weight *out, const char *const *names, uint32_t count,
                                    uint32_t columns);
/* NAME.weight and NAME.bias of a norm with affine: vectors. */
DIT_INTERNAL void diti_load_norm(diti_loader *loader, diti_layer *out, uint32_t columns, const char *name);
/* Up to three layers on one input (q, k, v), as one matrix where types and places allow it, else one by one
 * (diti_linear_joined). */
typedef struct diti_joined {
    diti_layer layers[3];
    uint32_t count;
} diti_joined;
DIT_INTERNAL void diti_load_joined(diti_loader *loader, diti_joined *out, const char *const *names, uint32_t count,
                                   uint32_t rows, uint32_t columns, bool biased);
/* The stored name that belongs to name: the longest row of pairs (asked for, stored) that name begins with, up to a dot
   or its end, gives its start. NULL when no row fits or size is too small. */
DIT_INTERNAL const char *diti_rename(const char *const (*pairs)[2], size_t count, const char *name, char *out,
                                     size_t size);

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
    uint32_t pitch;                /* elements from row to row; multiple of 4 for tensors the graph makes */
    diti_tensor parent;            /* views: the tensor whose memory this is; else itself */
    uint64_t first;                /* views: element offset inside the parent */
    uint64_t bytes;                /* of a parent: rows * pitch * element size */
    const diti_weight_part *part;  /* DITI_STORAGE_WEIGHT */
#define DITI_UNUSED_YET UINT32_MAX /* of first_use */
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
    /* What workgroups [g0, g1) touch: elements from (g0 / group_div) * group_step - before to ((g1 - 1) / group_div +
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
    uint32_t module;
    uint32_t constants[DITI_MAX_CONSTANTS];
    uint32_t constant_count;
    uint32_t push[DITI_PUSH_WORDS];
    uint32_t push_count;                      /* words, word 0 included */
    diti_binding bindings[DITI_MAX_BINDINGS]; /* binding i of set 0; tensor 0: unused */
    uint32_t binding_count;
    uint32_t groups;      /* workgroups on x */
    uint32_t group_align; /* slices start at multiples of this many workgroups; 0 and 1: anywhere */
    diti_cost_kind cost_kind;
    double flops, memory_bytes; /* for slices, progress and traces */
    double padded_flops;        /* where tiles stand out beyond the result: what they compute in all; else 0 */
    uint32_t shape[5]; /* for traces: M, N, K, kernel of products; queries, keys, heads, head_dim, batch of attention */
    uint32_t segment;
    bool early; /* it makes what the next product reads, of weights alone: see diti_graph_dispatch */
} diti_dispatch;

/* --- tuning: what an op wants to be measured (tune.c) --- */
typedef struct diti_gemm_image {                   /* a convolution's geometry */
    uint32_t height, width, out_height, out_width; /* height and width after upsampling */
    uint32_t kernel, stride, pad, upsample;
    uint32_t above, outside; /* lines that height has besides the image's, before upsampling: above it, and in all */
} diti_gemm_image;
typedef enum diti_tune_kind { DITI_TUNE_GEMM, DITI_TUNE_ATTENTION } diti_tune_kind;
typedef struct diti_tune_case {
    diti_tune_kind kind;
    const char *module;            /* the kernel's */
    diti_element formats[3];       /* x, weight, out; of attention all three the same */
    uint32_t rows, columns, depth; /* M, N, K; queries, keys, heads */
    uint32_t head_dim;
    diti_gemm_image image; /* kernel 0: none */
    uint64_t shapes;       /* diti_tune_choose sets it */
} diti_tune_case;

/* --- the graph --- */
typedef struct diti_segment {
    char name[32];         /* "encode", "step", "decode"… */
    uint32_t first, count; /* dispatches */
    bool repeated;         /* replayed many times: what it reads from earlier segments stays alive to its end */
} diti_segment;
#define DITI_MAX_SEGMENTS 16u
/* Something that goes to another device, or comes from it: rows and columns of a tensor. From its begin on the copy may
   use the tensor, at its end it is through: what is sent may change, what is received is there. Between the two other
   ops run. What one plan sends to another one meets what that one receives from it, in the order in which a run comes
   to their begins, as often as it does. */
typedef struct diti_exchange {
    diti_tensor tensor;
    uint32_t peer; /* number of the other device */
    uint32_t segment;
    bool sends;   /* else it receives */
    bool ended;   /* by an end of its own; else it ends with its segment */
    bool carried; /* else only a join ends it, or its next begin, or the end of the run */
} diti_exchange;
typedef enum diti_exchange_event_kind {
    DITI_EXCHANGE_BEGINS,
    DITI_EXCHANGE_ENDS,
    DITI_EXCHANGE_JOINS
} diti_exchange_event_kind;
typedef struct diti_exchange_event { /* in the order of the graph */
    diti_exchange_event_kind kind;
    uint32_t exchange; /* of a join none */
    diti_tensor tensor;
    uint32_t segment, place; /* dispatches of the graph that come before */
    uint32_t slice;          /* in a plan: slices of the segment that come before */
} diti_exchange_event;
#define DITI_NO_BLOCK UINT32_MAX
typedef struct diti_mark { /* a block of a model begins; or a segment, or what is behind blocks: DITI_NO_BLOCK */
    uint32_t block, segment;
    uint32_t place, event; /* dispatches and events before it */
    diti_tensor tensor;    /* the first that is made behind it */
} diti_mark;
typedef struct diti_guard_record { /* of an op that is guarded (guard.c); in it numbers of records, 0: none */
    char name[64];
    uint32_t segment;                /* counted from 1 */
    uint32_t store, load[2], narrow; /* whose exponents its result and its operands have */
    bool has_result;
    uint32_t exponent, wanted; /* of what is stored with it */
} diti_guard_record;
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
    diti_element activation; /* format of activations: F16 on rungs that have it, else F32 */
    bool int8_payload;       /* heads, keys and values go to other devices as int8, each row with a scale */
    uint32_t candidate;      /* 1 + what diti_tune_choose answers; 0: what is known */
    uint32_t slice_us;       /* the plan's limit of slices; 0: the device's */
    diti_tune_case *wanted;  /* what was not known, where the device is to be tuned */
    size_t wanted_count, wanted_capacity;
    char scope[24];     /* what ops belong to, for guards: "block 3"; empty: nothing */
    diti_tensor guards; /* U32 [records, words]; 0: nothing is guarded */
    diti_guard_record *guard_records;
    size_t guard_count, guard_capacity;
    uint32_t guard_judged;            /* records of earlier segments, and the first */
    uint32_t guard_self, guard_peers; /* this device and how many others agree with it on what must run again */
    bool guard_bare;                  /* what goes to other devices must have no exponent: they know only their own */
    bool guard_alike;                 /* exponents are raised together, on all devices of a sequence */
    diti_exchange *exchanges;
    size_t exchange_count, exchange_capacity;
    diti_exchange_event *events;
    size_t event_count, event_capacity;
    struct diti_cut_weight **cuts; /* weights that ops have made of larger ones */
    size_t cut_count, cut_capacity;
    diti_mark *marks;
    size_t mark_count, mark_capacity;
    diti_tensor made_early; /* what the newest dispatch that is early has made; 0: none */
} diti_graph;

DIT_INTERNAL void diti_graph_init(diti_graph *graph, diti_device *device);
DIT_INTERNAL void diti_graph_free(diti_graph *graph);
DIT_INTERNAL void diti_cuts_free(const diti_env *env, struct diti_cut_weight **cuts, size_t count);
/* The wanted columns of so many rows. */
DIT_INTERNAL void diti_pieces_pick(const diti_pieces *pieces, const unsigned char *from, uint64_t rows,
                                   unsigned char *to);
DIT_INTERNAL bool diti_graph_failed(const diti_graph *graph);
/* Keeps the first failure; returns 0 so that ops can `return diti_graph_fail(...)`. */
DIT_INTERNAL diti_tensor diti_graph_fail(diti_graph *graph, dit_result result, const char *format, ...)
    DITI_PRINTF(3, 4);
/* Starts the next segment; its number counts from 0. */
DIT_INTERNAL uint32_t diti_graph_segment(diti_graph *graph, const char *name, bool repeated);
/* What the next ops belong to, for messages and diti_shard_blocks: "block", 3; NULL: nothing. */
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
/* The same elements as [rows, columns], for tensors without padding (pitch equals columns). */
DIT_INTERNAL diti_tensor diti_tensor_reshape(diti_graph *graph, diti_tensor tensor, uint32_t rows, uint32_t columns);
/* The same rows with what pads them to a multiple of four elements: [rows, pitch], for copies. */
DIT_INTERNAL diti_tensor diti_tensor_padded(diti_graph *graph, diti_tensor tensor);
/* Part of a weight as a tensor for bindings: [rows, columns] elements for F32/F16 weights, opaque words for packed
 * ones. */
DIT_INTERNAL diti_tensor diti_tensor_weight(diti_graph *graph, const diti_weight *weight, uint32_t part);
DIT_INTERNAL const diti_tensor_info *diti_tensor_get(const diti_graph *graph, diti_tensor tensor);
/* What cut leaves of weight (weight itself where it cuts nothing off); lives as long as the graph, and its plan. */
DIT_INTERNAL const diti_weight *diti_weight_cut(diti_graph *graph, const diti_weight *weight, const diti_cut *cut);
/* Appends a copy of dispatch; widens the life of what it binds. One that is early comes to stand before the newest,
   where that reads what the early one before has made: a device then computes a product while it expands the weights of
   the next, by turns in two places, and waits once for both. */
DIT_INTERNAL void diti_graph_dispatch(diti_graph *graph, const diti_dispatch *dispatch);

/* An exchange begins behind the ops so far; its number. Without an end of its own it ends with its segment. */
DIT_INTERNAL uint32_t diti_exchange_begin(diti_graph *graph, diti_tensor tensor, uint32_t peer, bool sends);
DIT_INTERNAL void diti_exchange_end(diti_graph *graph, uint32_t exchange);
/* The exchange does not end with its segment: it may go on in later runs of this one and of others. Its tensor must be
   a state or an input. */
DIT_INTERNAL void diti_exchange_carry(diti_graph *graph, uint32_t exchange);
/* Here all carried exchanges of that very tensor that have begun are through. */
DIT_INTERNAL void diti_exchange_join(diti_graph *graph, diti_tensor tensor);
DIT_INTERNAL void diti_exchange_widen(diti_graph *graph); /* lives of tensors; before memory is assigned */
/* Sends one and receives the other at the same time, before anything else goes on. */
DIT_INTERNAL void diti_exchange_both(diti_graph *graph, diti_tensor from, diti_tensor to, uint32_t peer);
DIT_INTERNAL uint64_t diti_exchange_row_bytes(const diti_tensor_info *tensor); /* that are copied */

/* --- weights of blocks that devices keep a part of (shard.c) --- */
DIT_INTERNAL void diti_graph_mark(diti_graph *graph, uint32_t block);
/* The last thing done to a graph: in segments from `segment` on, matrices of block i (diti_graph_scope) are kept by
   device i modulo `devices` alone, which sends them to all others in every run of a segment, one block ahead of their
   use: (devices - 1) * the bytes of its matrices, each in whole words. All devices' graphs must have the same blocks.
 */
DIT_INTERNAL void diti_shard_blocks(diti_graph *graph, uint32_t self, uint32_t devices, uint32_t segment);

/* --- several devices at one kind of work (collective.c) --- */
typedef struct diti_group {
    uint32_t count, index;              /* count 0 and 1: this device alone; index: of this one among them */
    uint32_t devices[DITI_MAX_DEVICES]; /* their numbers, as exchanges have them */
    bool mirrored;                      /* the last has as much as the first, the last but one as the second, … */
    float weights[DITI_MAX_DEVICES];    /* how much of the work each is to have; all 0: equal parts */
} diti_group;
DIT_INTERNAL uint32_t diti_group_count(const diti_group *group); /* at least 1; NULL is fine */
/* Of `total` rows, heads, layers each member has consecutive ones: those from its first to the next one's, which for
   index count is total. None is left without where there are enough. */
DIT_INTERNAL uint32_t diti_group_first(const diti_group *group, uint32_t index, uint32_t total);
DIT_INTERNAL uint32_t diti_group_size(const diti_group *group, uint32_t index, uint32_t total);
/* Every member has its rows of each of `items` items, part [items * own, columns]; all come to have all of them, a new
   tensor [items * total, columns] of the same format. Sends items * own * columns elements to every other member. */
DIT_INTERNAL diti_tensor diti_all_gather(diti_graph *graph, const diti_group *group, diti_tensor part, uint32_t items,
                                         uint32_t total, const char *name);
/* x F32 becomes the sum of all members' x, added in the order of members, so that all have the same bytes. Each sends
   to each other one the rows that are that one's, of x and of the sum its own: of N equal parts 2 (N - 1) / N of x. */
DIT_INTERNAL void diti_all_reduce(diti_graph *graph, const diti_group *group, diti_tensor x, const char *name);
/* What comes from a device of the sequence is stored with the exponent of what this one has of it. */
DIT_INTERNAL void diti_guard_alike(diti_graph *graph, diti_tensor own, diti_tensor received);
/* x as it is sent, and from where it came to where it belongs. As int8 a row of c columns has c bytes, zeros up to a
   multiple of 16, and 16 for its scale. */
DIT_INTERNAL diti_tensor diti_payload(diti_graph *graph, diti_tensor x);
DIT_INTERNAL void diti_payload_open(diti_graph *graph, diti_tensor payload, diti_tensor out);
/* Ends an exchange: the payload that has come by it, in that format. */
DIT_INTERNAL diti_tensor diti_payload_take(diti_graph *graph, uint32_t exchange, diti_tensor payload,
                                           diti_element format);
/* The format that payloads of a tensor have. */
DIT_INTERNAL diti_element diti_payload_format(const diti_graph *graph, diti_tensor x);
/* Columns of so many that are a member's, in whole fours: those from its first on. */
DIT_INTERNAL uint32_t diti_group_column(const diti_group *group, uint32_t index, uint32_t columns);
/* Every member has made its columns of x, which then go to all: each sends rows * own columns to every other one. */
DIT_INTERNAL void diti_gather_columns(diti_graph *graph, const diti_group *group, diti_tensor x);
/* Ulysses: from some rows of all heads to all rows of some heads, and back. kinds: what stands side by side, each of
   heads * head_dim columns (q, k, v). rows[i]: of each item with member i; own heads: diti_group_size of heads. */
typedef struct diti_exchange_heads {
    const diti_group *group;
    const uint32_t *rows;
    uint32_t items, heads, head_dim;
} diti_exchange_heads;
/* [items * own rows, kinds * heads * head_dim] -> [items * all rows, kinds * own heads * head_dim] */
DIT_INTERNAL diti_tensor diti_gather_heads(diti_graph *graph, const diti_exchange_heads *desc, diti_tensor x,
                                           uint32_t kinds);
/* [items * all rows, own heads * head_dim] -> [items * own rows, heads * head_dim], out or a new tensor */
DIT_INTERNAL diti_tensor diti_scatter_heads(diti_graph *graph, const diti_exchange_heads *desc, diti_tensor x,
                                            diti_tensor out);

/* --- inside the room: how ops fill a dispatch (ops.c) --- */
/* Zeroes dispatch; false when the graph has failed already or the shader is missing. constants[0] is the workgroup's
 * size. */
DIT_INTERNAL bool diti_op_begin(diti_graph *graph, diti_dispatch *dispatch, const char *name, const char *module,
                                uint32_t group_size);
/* Binding `index`: exactly the memory of tensor, its element offset in push word `word`. Tensor 0 is skipped. */
DIT_INTERNAL void diti_op_bind(const diti_graph *graph, diti_dispatch *dispatch, uint32_t index, diti_tensor tensor,
                               uint8_t word, bool reads, bool writes);
/* Every `div` workgroups of that binding touch the next `rows` rows, from `before` rows earlier to `after` rows later.
 */
DIT_INTERNAL void diti_op_bind_rows(const diti_graph *graph, diti_dispatch *dispatch, uint32_t index, uint32_t div,
                                    uint64_t rows, uint64_t before, uint64_t after);
/* Appends the dispatch; groups is 64-bit so that too large a count is caught here. */
DIT_INTERNAL void diti_op_emit(diti_graph *graph, diti_dispatch *dispatch, uint64_t groups, uint32_t push_count);
/* Rows can be read four elements at a time (the last few of a row one by one, where columns is no multiple of 4). */
DIT_INTERNAL bool diti_op_aligned(const diti_graph *graph, diti_tensor tensor);
/* Aligned, and columns is a multiple of 4; 0 is. */
DIT_INTERNAL bool diti_op_vector(const diti_graph *graph, diti_tensor tensor);
/* tensor itself, or an aligned copy. */
DIT_INTERNAL diti_tensor diti_op_align(diti_graph *graph, diti_tensor tensor, const char *name);
DIT_INTERNAL uint32_t diti_op_float(float value); /* its bits, for push constants */
/* Fails the graph unless tensor is [rows, columns] of floats that kernels can write four (F16: two) at a time. */
DIT_INTERNAL bool diti_op_writable(diti_graph *graph, diti_tensor tensor, uint32_t rows, uint32_t columns,
                                   const char *name);
/* An F32 vector [1, columns] (a bias, a norm's weight) as a tensor; 0 when absent or the graph failed. */
DIT_INTERNAL diti_tensor diti_op_vector_weight(diti_graph *graph, const diti_weight *weight, uint32_t columns,
                                               const char *name);
/* Rows [first, first + rows) of a weight's part as [rows, columns] elements whose pitch is a multiple of 4: the weight
   itself where it is F32 or F16 and allows it, else expanded (ops_expand.c); convolutions become (k, k, Cin). */
DIT_INTERNAL diti_tensor diti_op_expand(diti_graph *graph, const diti_weight *weight, uint32_t part, uint32_t first,
                                        uint32_t rows, const char *name);
/* How many rows to expand at a time. */
DIT_INTERNAL uint32_t diti_op_expand_rows(const diti_graph *graph, const diti_weight *weight, uint32_t part);
/* A GEMM with its epilogue (ops_gemm.c); image: a convolution's geometry, or NULL. */
typedef struct diti_gemm {
    diti_tensor x, weight; /* weight [N, taps * K padded to 4] */
    diti_tensor bias, multiply, gate, residual, out;
    uint32_t activation; /* diti_activation */
    uint32_t rows, columns, depth, rows_per_gate;
    uint32_t
        parts; /* split-K: 0: not decided; 1: no; more: x is [parts * rows rounded up to 16, columns], to be added */
    const diti_gemm_image *image;
    dit_type packed; /* not 0: weight is stored like that, and decoded where it is loaded */
    const char *name;
} diti_gemm;
DIT_INTERNAL void diti_op_gemm(diti_graph *graph, const diti_gemm *gemm);
/* Which candidate of a kernel to take, 0 being the usual one; all give the same bytes. */
DIT_INTERNAL uint32_t diti_tune_choose(diti_graph *graph, const diti_tune_case *wanted);
/* Measures what the graph wants: a graph built afterwards makes use of it. DIT_CANCELLED when progress says so. */
DIT_INTERNAL dit_result diti_tune_run(diti_graph *graph, const dit_progress *progress, dit_error *err);
/* Finds the device's speed, unless it is calibrated on its rung. Where the device is allowed too little memory for
   that, the guess stays. */
DIT_INTERNAL dit_result diti_device_measure(diti_device *device, dit_error *err);
/* Where a device has both kinds of matrices for attention: keeps those that proved faster, or measures which do. */
DIT_INTERNAL dit_result diti_device_choose_attention(diti_device *device, dit_error *err);
/* Whether `tiles` of the usual size are too few, and a product is done in parts (ops_split_k.c). */
DIT_INTERNAL bool diti_op_splits_gemm(const diti_graph *graph, const diti_gemm *gemm, uint64_t tiles);
/* Does it in parts then; false: it is not split. */
DIT_INTERNAL bool diti_op_split_gemm(diti_graph *graph, const diti_gemm *gemm, uint64_t tiles);
/* How attention divides its work (ops_attention.c, ops_attention_matrix.c). */
#define DITI_ATTENTION_CONSTANTS 10u
typedef struct diti_attention_tiles {
    const char *module;
    uint32_t group, block;                                        /* workgroup size and its queries */
    uint32_t quads;                                               /* room for head_dim / 4 */
    uint32_t constants[DITI_ATTENTION_CONSTANTS], constant_count; /* from id 6 on */
} diti_attention_tiles;
/* On cooperative matrices: false where the device has none that fit, or none worth it. int8: of queries and keys. */
DIT_INTERNAL bool diti_attention_tiles_matrix(const diti_device *device, uint32_t head_dim, uint32_t queries,
                                              uint32_t keys, bool int8, uint32_t candidate, diti_attention_tiles *out);

/* A dispatch under guard (guard.c): does nothing in a graph that is not guarded. */
typedef struct diti_guard_use {
    diti_tensor out;         /* F16: may get an exponent; F32: only looked at; 0: neither */
    diti_tensor operands[2]; /* without out: both are undone together; else the second one multiplies the result */
    bool narrows;            /* the kernel makes F16 of an F32 operand 0 */
    uint32_t binding;
    uint8_t word;
} diti_guard_use;
DIT_INTERNAL void diti_op_guard(diti_graph *graph, diti_dispatch *dispatch, const diti_guard_use *use);
/* The dispatch does nothing while a segment must run again. */
DIT_INTERNAL void diti_op_gate(diti_graph *graph, diti_dispatch *dispatch, uint32_t binding, uint8_t word);
/* `to` is stored with the exponent of `from`. */
DIT_INTERNAL void diti_guard_pass(diti_graph *graph, diti_tensor from, diti_tensor to);
/* tensor, or a copy for kernels that know no exponents. */
DIT_INTERNAL diti_tensor diti_guard_release(diti_graph *graph, diti_tensor tensor, const char *name);
#define DITI_GUARD_CELL 16u /* bytes: what offsets of guards and health count */
#define DITI_OP_JUDGE 5u    /* of elementwise.comp */
#define DITI_OP_WEIGH 6u
#define DITI_OP_MERGE 7u

/* ================= guards: what overflows F16 is done again, scaled ================= */
typedef struct diti_health { /* what the device tells of a run */
    uint32_t bad_step;       /* the first whose latent is not finite, from 1 on */
    uint32_t blocked;        /* the segment, from 1 on, that must run again before anything has an effect */
    uint32_t bad_picture;    /* not 0: it is not finite */
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

/* ================= ops: each creates its output unless told where to write ================= */

typedef enum diti_activation {
    DITI_ACTIVATION_NONE,
    DITI_ACTIVATION_GELU_TANH,
    DITI_ACTIVATION_GELU_ERF,
    DITI_ACTIVATION_SILU,
    DITI_ACTIVATION_QUICK_GELU,
    DITI_ACTIVATION_RELU,  /* products only, and of all that is added, the residual too */
    DITI_ACTIVATION_SQUASH /* elementwise only: 3 tanh(x / 3) */
} diti_activation;

/* Where every item has rows of two kinds, its text, then its image: of every `of` rows those [first, first + count) are
   meant. of 0: all rows. */
typedef struct diti_rows {
    uint32_t of, first, count;
} diti_rows;

/* out[r, n] = residual[r, n] + gate[r / rows_per_gate, n] * (multiply[r, n] * activation(sum_k x[r, k] * weight[n, k] +
 * bias[n])) ; absent parts drop out. */
typedef struct diti_linear_desc {
    const diti_weight *bias; /* F32 [N]; NULL or part_count 0: none */
    diti_activation activation;
    diti_tensor multiply;   /* [rows, N] activation format: the other half of a GLU */
    diti_tensor gate;       /* F32 [groups, N] (or a view of columns of a modulation table) */
    uint32_t rows_per_gate; /* rows that share one gate row; 0: all */
    diti_tensor residual;   /* F32 [rows, N] */
    diti_tensor out;        /* write here (may equal residual); 0: a new tensor */
    diti_rows rows;         /* of x, and in the same places of multiply, residual and out; rows_per_gate counts all */
    diti_cut cut;           /* of weight, and its rows of bias; K and N are what it leaves */
    uint32_t kinds; /* diti_linear_joined: not 0: the rows of cut are meant of each of so many equal stretches of all */
    bool out_f32;   /* new tensors: F32 instead of the activation format */
    bool unbiased;  /* without any bias: someone else adds it */
    const char *name;
} diti_linear_desc;
/* x [rows, K] F32 or activation format, weight [N, K] of any type. Chooses GEMV for few rows, expands packed weights
   chunk by chunk. With an int8 weight x is quantized first, unless it is I8 already. */
DIT_INTERNAL diti_tensor diti_linear(diti_graph *graph, diti_tensor x, const diti_weight *weight,
                                     const diti_linear_desc *desc);
/* The weight that stands for all of joined where it is int8, for diti_norm_desc.reader; else NULL. */
DIT_INTERNAL const diti_weight *diti_joined_reader(const diti_joined *joined);
/* All rows of joined in one tensor [rows, N0 + N1 + N2]; of desc only activation, out, out_f32, unbiased, rows, cut
   (its rows with kinds) and name. */
DIT_INTERNAL diti_tensor diti_linear_joined(diti_graph *graph, diti_tensor x, const diti_joined *joined,
                                            const diti_linear_desc *desc);

/* LayerNorm or RMSNorm over columns (docs/models.md 1), then affine, then x * (1 + scale) + shift with rows of F32
 * tables.
 */
typedef struct diti_norm_desc {
    bool rms;
    float eps;
    const diti_weight *weight, *bias; /* F32 [columns]; NULL: no affine */
    diti_tensor scale, shift;         /* F32 [groups, columns] (views of a modulation table); 0: none */
    uint32_t rows_per_group;          /* 0: all rows share one row of the tables */
    uint32_t item_rows, text_rows;    /* not 0: every group has two rows in the tables, one for the first text_rows of
                                         every item_rows rows, one for the others */
    diti_tensor out;                  /* write here; 0: a new tensor */
    const diti_weight *reader;        /* what alone reads the result; where it is int8, the result is I8 for it */
    bool out_f32;
    const char *name;
} diti_norm_desc;
DIT_INTERNAL diti_tensor diti_norm(diti_graph *graph, diti_tensor x, const diti_norm_desc *desc);

/* x [rows, columns] of floats as I8: every row on its own, amax / 127 to a step, ties to even; a row that holds what is
   not finite gets a scale that is not. rotated: columns is a multiple of DITI_ROTATION_GROUP. */
DIT_INTERNAL diti_tensor diti_quantize(diti_graph *graph, diti_tensor x, bool rotated, const char *name);
/* The same for rows of which every member of the group has some columns: all agree in the scales that whole rows have.
   Each sends 4 bytes of a row to every other one. */
DIT_INTERNAL diti_tensor diti_quantize_shared(diti_graph *graph, const diti_group *group, diti_tensor x, bool rotated,
                                              const char *name);

/* The same into rows of an I8 tensor of as many columns, not rotated. */
DIT_INTERNAL void diti_quantize_to(diti_graph *graph, diti_tensor x, diti_tensor out, const char *name);

/* Of x, quantized so, columns [first, first + count): with the scales that whole rows have. */
DIT_INTERNAL diti_tensor diti_quantize_columns(diti_graph *graph, diti_tensor x, uint32_t first, uint32_t count,
                                               bool rotated, const char *name);

/* softmax(scale * q k^T + bias + mask) v, per batch item and head; never an N x N buffer. q, k, v: views [rows, heads *
   head_dim] with any pitch. Without items q and k hold `batch` equal batches. With items, k and v are [key rows]: what
   no item names is never read; q is equal batches still, or packed. */
#define DITI_ITEM_WORDS 4u /* first query row, queries, first key row, keys; the first two count where packed only */
typedef struct diti_attention_desc {
    uint32_t batch, heads, head_dim; /* head_dim <= 512; batch: rows of items where there are */
    float scale;
    diti_tensor items;  /* U32 [batch, DITI_ITEM_WORDS]; no keys give 0; 0: none */
    bool packed;        /* batch items of unequal length: q is [query rows], each in one item */
    uint32_t most_keys; /* that an item may have; 0: all rows of k */
    diti_tensor bias;   /* F32 [heads, columns], element j - i + origin for key j and query i of an item (T5); origin is
                           query tokens - 1 and columns query tokens + key tokens - 1; packed: most_keys - 1 and 2 *
                           most_keys - 1; none */
    diti_tensor lse;    /* F32 [q rows, heads]: natural log of the sum of exponentials of the scaled scores; 0: not
                           wanted */
    /* q and k as int8 where the device can (else nothing changes): an error of about 1e-3 for the time of half the
       products */
    bool int8;
    diti_tensor out; /* write here; 0: a new tensor */
    const char *name;
} diti_attention_desc;
/* q and k are floats, or both are what diti_qkv_int8 makes. */
DIT_INTERNAL diti_tensor diti_attention(diti_graph *graph, diti_tensor q, diti_tensor k, diti_tensor v,
                                        const diti_attention_desc *desc);

/* In place on the q or k columns of a QKV tensor: per-head RMS or LayerNorm, then rotary embedding
 * (docs/models.md 2.5). */
typedef enum diti_qkv_norm { DITI_QKV_NO_NORM, DITI_QKV_RMS, DITI_QKV_LAYER } diti_qkv_norm;
typedef struct diti_qkv_desc {
    uint32_t heads, head_dim;
    diti_qkv_norm norm;
    float eps;
    const diti_weight *weight, *bias; /* F32 [head_dim]; of weight so many after each other: for the first of `kinds`
                                         (0: 1) equal parts of the heads (q, k), … */
    bool others;                      /* then the same for the other rows of an item, those from text_rows on */
    uint32_t kinds, text_rows;
    diti_tensor cosines, sines; /* F32 [tokens, head_dim / 2]; 0: no rotation */
    bool half_split;            /* pairs (i, i + d/2) instead of (2i, 2i + 1) */
    uint32_t tokens;            /* rows per batch item: row r uses table row r % tokens */
    const char *name;
} diti_qkv_desc;
DIT_INTERNAL DITI_UNUSED void diti_qkv_post(diti_graph *graph, diti_tensor x, const diti_qkv_desc *desc);
/* About the mean over all rows of the keys that diti_qkv_post would make of x: F32 [1, heads * head_dim]. */
DIT_INTERNAL diti_tensor diti_qkv_mean(diti_graph *graph, diti_tensor x, const diti_qkv_desc *desc);
/* What diti_qkv_post would make of x, as int8 with a scale for each head of each row, for diti_attention; mean is that
   of the keys, which goes from them. I8 [rows, heads * diti_attention_int8_head]. */
DIT_INTERNAL diti_tensor diti_qkv_int8(diti_graph *graph, diti_tensor x, const diti_qkv_desc *desc, diti_tensor mean,
                                       bool keys);
/* Bytes of a head; 0: the device multiplies no int8 matrices, or not for such heads. */
DIT_INTERNAL uint32_t diti_attention_int8_head(const diti_device *device, uint32_t head_dim);

/* In place on x F32: each row times its weight, then all rows of an item times what makes their mean what it was, as
   A1111's web UI weighs tokens. Weights of 1 change nothing. table: U32 [rows, 4], a diti_row_weight for each row of
   x. */
typedef struct diti_row_weight {
    float weight;
    uint32_t first, rows; /* of the item that the row is in; 0 rows: it is in none */
    uint32_t zero;
} diti_row_weight;
DIT_INTERNAL void diti_weigh_rows(diti_graph *graph, diti_tensor x, diti_tensor table, const char *name);

/* Rows of a weight by index: ids U32 [1, count]; out F32 [count, columns]. */
DIT_INTERNAL diti_tensor diti_gather_rows(diti_graph *graph, const diti_weight *table, diti_tensor ids,
                                          const char *name);

/* Rows of a tensor by index: table F32; row numbers from its end on give zeros. */
DIT_INTERNAL diti_tensor diti_gather_tensor(diti_graph *graph, diti_tensor table, diti_tensor ids, const char *name);

/* y[r, c] = activation(x) + addend: addend F32 row r % addend_rows; formats may differ (also the format conversion op).
 */
typedef struct diti_elementwise_desc {
    diti_activation activation;
    float scale, offset; /* applied first: activation(x * scale + offset); scale 0 means 1 */
    diti_tensor add;     /* F32 [any, columns], repeated over rows; 0: none */
    diti_tensor out;
    bool out_f32;
    const char *name;
} diti_elementwise_desc;
DIT_INTERNAL diti_tensor diti_elementwise(diti_graph *graph, diti_tensor x, const diti_elementwise_desc *desc);
/* `from` to where `to` is, in the format of `to`. */
DIT_INTERNAL void diti_copy(diti_graph *graph, diti_tensor from, diti_tensor to, const char *name);
/* Rows of int8 with their scales, not rotated, to where out is: F32 or F16. */
DIT_INTERNAL void diti_dequantize(diti_graph *graph, diti_tensor x, diti_tensor out, const char *name);
/* Attention o to some keys becomes attention to these and those of x, all F32 [rows, heads * head_dim], head_dim a
   multiple of 4; o_lse, x_lse: their diti_attention_desc.lse. The new ones, a new tensor. */
DIT_INTERNAL diti_tensor diti_merge_attention(diti_graph *graph, diti_tensor o, diti_tensor o_lse, diti_tensor x,
                                              diti_tensor x_lse, uint32_t head_dim);

/* Copies row `*step` of table (F32 [steps, columns]) to out (F32 [1, columns], a state or arena tensor it creates when
 * 0). step: U32 [1,1] state. */
DIT_INTERNAL diti_tensor diti_select_row(diti_graph *graph, diti_tensor table, diti_tensor step, const char *name);
DIT_INTERNAL void diti_advance_step(diti_graph *graph,
                                    diti_tensor step); /* *step += 1, the last op of a repeated segment */

/* Latents are planar: F32 [batch * C, h * w]. Patches (docs/models.md 2.6): out [batch * (h/p) * (w/p), C*p*p], column
   (c, dy, dx), times *input when given (F32 [1, 1], the schedule's input scale). */
DIT_INTERNAL diti_tensor diti_patchify(diti_graph *graph, diti_tensor latent, uint32_t batch, uint32_t channels,
                                       uint32_t height, uint32_t width, uint32_t patch, diti_tensor input);
/* tokens [batch * (h/p) * (w/p), p*p*out_channels] with column (dy, dx, c) -> F32 planar [batch * channels, h*w] of the
 * first `channels` channels. */
DIT_INTERNAL diti_tensor diti_unpatchify(diti_graph *graph, diti_tensor tokens, uint32_t batch, uint32_t channels,
                                         uint32_t out_channels, uint32_t height, uint32_t width, uint32_t patch);
/* The same for tokens with column (c, dy, dx). */
DIT_INTERNAL diti_tensor diti_unpatchify_planes(diti_graph *graph, diti_tensor tokens, uint32_t batch,
                                                uint32_t channels, uint32_t height, uint32_t width, uint32_t patch);
/* Planar F32 [batch * C, h*w] -> rows [batch * h*w, C] (activation format), value * scale + shift. */
DIT_INTERNAL diti_tensor diti_planar_to_rows(diti_graph *graph, diti_tensor planar, uint32_t batch, uint32_t channels,
                                             float scale, float shift);

/* The solver step of sample/sample.h, with guidance: prediction planar F32 [(1 or 2) * batch * C, h*w] (unconditional
   half first); when learned, every image's C planes are followed by C of what the model says about the variance.
   coefficients: F32 [1, DITI_COEFFICIENTS + 2 * batch] = (x0_x, x0_m, clip, x_x, x_m, d0, d1, d2, noise, guidance, step
   number from 1 on, noise_v, x_y, y_x, y_y, e0, e1, e2, rescale, projected, norm limit, guided channels, kept_x0,
   kept_noise, 0 ...). x, h1, h2 (states like x, h2 with y below it when the solver corrects) are updated in place; x0
   is written to `x0` when not 0. health: U32 [1, 4] state; word 0 becomes the number of the first step whose prediction
   or new latent is not finite. mixed: the prediction is guided by rescale, projected and norm limit, too, and then in
   all channels. */
#define DITI_COEFFICIENTS 24u
typedef struct diti_solver_desc {
    diti_tensor x, h1, h2, x0, noise, coefficients, health;
    uint32_t channels; /* C */
    bool guided, mixed, corrects, learned;
    bool keeps; /* below h2, and y or as much room, stand a picture's latent, its noise, and a mask: where that is 0,
                   the new latent is kept_x0 * the first + kept_noise * the second */
} diti_solver_desc;
DIT_INTERNAL uint32_t diti_solver_planes(const diti_solver_desc *desc); /* how many times the rows of x has h2 */
DIT_INTERNAL void diti_solver_step(diti_graph *graph, diti_tensor prediction, const diti_solver_desc *desc);

/* Convolution on rows [batch * h*w, Cin]: kernel 1 or 3, stride 1 or 2. out [batch * oh*ow, Cout]. */
typedef struct diti_conv_desc {
    uint32_t batch, height, width; /* of the input */
    uint32_t stride;
    uint32_t pad_before,
        pad_after; /* zeros on top/left and bottom/right (docs/models.md 4.1: encoder downsampling pads 0 and 1) */
    uint32_t above, below; /* of one image: lines that x has besides its `height`, seen there in place of zeros */
    bool upsample;         /* nearest x2 of the input first, on the fly */
    const diti_weight *bias;
    diti_activation activation;
    diti_tensor residual; /* [out rows, Cout], any float format */
    diti_tensor out;      /* write here; 0: a new tensor */
    bool out_f32;
    const char *name;
} diti_conv_desc;
DIT_INTERNAL diti_tensor diti_conv2d(diti_graph *graph, diti_tensor x, const diti_weight *weight,
                                     const diti_conv_desc *desc);

/* GroupNorm over rows [batch * pixels, C] (docs/models.md 1), optionally followed by SiLU. */
typedef struct diti_group_norm_desc {
    uint32_t batch, groups;
    float eps;
    const diti_weight *weight, *bias; /* F32 [C] */
    bool silu;
    uint32_t parts;      /* of equal size, that every image in x is summed in before their sums are added in order:
                            devices that have some parts of an image each give the bytes of one that has all of them;
                            0: as suits the device */
    diti_tensor moments; /* of all parts of every image, [batch * parts, DITI_GROUP_MOMENTS * groups] by
                            diti_group_moments: x is normalised by these; 0: by its own */
    const char *name;
} diti_group_norm_desc;
/* What each part of an image adds: for each group its mean (two floats), squared deviations from it, their count; F32
   [batch * parts, DITI_GROUP_MOMENTS * groups]. */
#define DITI_GROUP_MOMENTS 4u
DIT_INTERNAL diti_tensor diti_group_moments(diti_graph *graph, diti_tensor x, const diti_group_norm_desc *desc);
DIT_INTERNAL diti_tensor diti_group_norm(diti_graph *graph, diti_tensor x, const diti_group_norm_desc *desc);

/* A rectangle of the pixels of from, which is from_width wide, to one of out. overlap: how many of its first and last
   lines and columns fade into what other tiles put there, whose weights and these give 1; tiles come line by line. */
typedef struct diti_tile {
    uint32_t from_y, from_x, from_width, out_y, out_x, out_width, height, width;
    uint32_t top, left, bottom, right;
} diti_tile;
DIT_INTERNAL void diti_move_tile(diti_graph *graph, diti_tensor from, diti_tensor out, const diti_tile *tile);

/* rows [pixels, >= 3] in -1..1 -> packed RGBA8 words U32 [1, pixels] in `rgba` (swap: BGRA), and planar F32 [3, pixels]
   mapped to 0..1 but not clamped in `rgb` (docs/models.md 4.1); either may be 0. Non-finite values set word 2 of
   health. */
DIT_INTERNAL void diti_image_out(diti_graph *graph, diti_tensor rows, diti_tensor rgba, diti_tensor rgb, bool swap,
                                 diti_tensor health);
/* Packed RGBA8 words U32 [1, pixels] (swap: BGRA) -> rows [pixels, 3] F32 in -1..1. */
DIT_INTERNAL diti_tensor diti_image_in(diti_graph *graph, diti_tensor rgba, bool swap);

/* ================= the plan ================= */
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
    uint32_t segment, first, count; /* of plan dispatches */
    uint32_t group;                 /* of streamed weights that it reads; DITI_NO_GROUP: none */
    float us;                       /* predicted, then measured */
    float cut_us;                   /* predicted when it was cut */
    float planned_us;               /* predicted when the plan was made: for progress that never jumps back */
    bool measured;
    uint64_t value; /* of the plan's timeline when its newest submission is finished */
    VkCommandBuffer primary, secondary;
} diti_plan_slice;
/* --- streamed weights (stream.c): two slots of device memory for a model, through which the matrices that are not
   resident pass. A plan's dispatches fall into groups of consecutive ones whose matrices fit a slot; every group has
   its slot, and every matrix its place in it, when the plan is made, so that nothing is recorded twice. The slot of a
   slice's group is filled before the slice is submitted: by the host where it sees the memory, else by way of a ring of
   pinned buffers. Jobs share the slots: whoever needs one takes it, as soon as the slices that read it are finished,
   and its former user fills it again. --- */
#define DITI_STREAM_SLOTS 2u
#define DITI_NO_GROUP UINT32_MAX
typedef struct diti_stream_slot {
    diti_buffer buffer;
    struct diti_plan *plan; /* whose group is in it, or on its way; NULL: nothing is */
    uint32_t group;
    bool ready;       /* all of it was read */
    bool used;        /* a slice that reads it was submitted */
    uint32_t item;    /* the next to read */
    uint64_t done;    /* bytes of its source that were read */
    uint64_t written; /* value of the stage's timeline when its copies are over */
    VkSemaphore reader;
    uint64_t reader_value; /* of that timeline, when the last slice that reads it is finished */
    diti_buffer mirror;    /* for recorded plans, where the slot is not mapped: their commands copy it into the slot */
    bool mirrored;         /* what is in it is only there so far */
    const diti_buffer *marks;
    uint32_t mark; /* what the word in marks comes to when the last frame that reads the slot is finished */
} diti_stream_slot;
typedef struct diti_stream {
    diti_env env;
    diti_device *device; /* NULL: a dry run */
    VkDeviceSize slot_bytes;
    VkDeviceSize piece;
    bool keeps; /* what was read stays in host memory */
    diti_stream_slot slots[DITI_STREAM_SLOTS];
    diti_stage *stage;        /* NULL: the slots are mapped */
    struct diti_stream *home; /* of the device that the model was loaded on; itself there */
    struct diti_stream *next; /* behind home: those of other devices, which have slots of their own */
    int lock;                 /* of home: guards busy, and the list */
    bool busy;                /* of home: one thread at a time, for all devices, reads files and the host's copy */
} diti_stream;
/* slot_bytes: enough for the largest matrix. piece: least that can be read at once. */
DIT_INTERNAL dit_result diti_stream_create(diti_device *device, const diti_env *env, VkDeviceSize slot_bytes,
                                           VkDeviceSize piece, diti_stream **out, dit_error *err);
/* Those of all devices, after the plans that use them; NULL is fine. */
DIT_INTERNAL void diti_stream_destroy(diti_stream *home);

typedef struct diti_plan_item { /* a streamed part in its group's slot */
    const diti_streamed *streamed;
    uint64_t from, bytes;             /* from: in the row of what is streamed. bytes: in the slot */
    const struct diti_pieces *pieces; /* of columns; NULL: all */
    uint64_t read;                    /* bytes from `from` on that it is made of: those of whole rows */
    VkDeviceSize offset;              /* in the slot */
} diti_plan_item;
typedef struct diti_plan_group {
    uint32_t first, count; /* of items */
    uint32_t slot;
    VkDeviceSize bytes;
} diti_plan_group;

/* --- frames: what calls of dit_job_record have put into the application's commands, and how long that took
   (frames.c) --- */
#define DITI_FRAME_SLICES 64u /* of a frame that are timed */
#define DITI_MAX_FRAMES 17u   /* that are remembered: those in flight and the newest */
typedef struct diti_frame {
    uint32_t slices[DITI_FRAME_SLICES]; /* of the plan's */
    uint32_t count;
    uint32_t recuts;    /* the plan's, when it was recorded: slices of earlier ones are no more */
    uint64_t last_tick; /* the last timestamp that was read in its place: it stays readable until the next is written */
    bool open;          /* its timestamps were not read */
} diti_frame;
typedef struct diti_frames {
    VkQueryPool queries; /* VK_NULL_HANDLE: the application must tell times */
    uint32_t most;       /* frames that are remembered */
    uint64_t count;      /* recorded so far */
    uint64_t told;       /* of these the application has told about, or passed over */
    uint64_t owed;       /* times to come that are about frames of a plan that this one has replaced */
    bool reported;       /* it has told a time: timestamps are left alone */
    diti_buffer marks;   /* where weights are streamed: the newest frame that is finished */
    diti_frame list[DITI_MAX_FRAMES];
} diti_frames;

#define DITI_UNREAD_SLICES 64u
typedef struct diti_plan_unread {
    uint64_t value; /* of the plan's timeline, when it is finished */
    uint32_t slice;
} diti_plan_unread;
typedef struct diti_plan {
    diti_device *device;
    diti_segment segments[DITI_MAX_SEGMENTS]; /* first and count are those of slices */
    uint32_t segment_sources[DITI_MAX_SEGMENTS];
    uint32_t segment_count;
    diti_tensor_info *tensors;
    size_t tensor_count;
    diti_tensor guards;
    diti_guard_record *guard_records;
    diti_buffer report;             /* guards as of the newest finished segment; only where guards are */
    VkCommandBuffer restore;        /* guards as diti_guard_write wrote them */
    bool guard_alike;               /* of the graph */
    uint32_t guard_run, guard_step; /* how often it did, and for which step: what older reports say is out of date */
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
    uint32_t first_event[DITI_MAX_SEGMENTS + 1]; /* of each segment; the last: event_count */
    struct diti_cut_weight **cuts;
    size_t cut_count;
    float limit_us;                    /* slices are cut to this */
    float launch_us;                   /* of a piece; the device's, unless slices have proved shorter */
    float *source_us, *source_cut_us;  /* of each source: predicted when the plan was made, and by the newest cut */
    bool *source_measured;             /* the newest cut knew what it takes */
    uint32_t *source_least;            /* workgroups that a piece of it has at least; 0: whatever fills the device */
    uint32_t recuts;                   /* how often the sources were cut into slices */
    uint32_t slice_starts;             /* 1 + the source that the next cut begins a slice with; 0: none */
    struct diti_plan_retired *retired; /* what earlier cuts left (recut.c) */
    VkDescriptorPool descriptors;
    VkCommandPool commands;       /* of slices; made anew with them */
    VkCommandPool other_commands; /* of restore */
    VkQueryPool queries;          /* two timestamps per slice; VK_NULL_HANDLE where the queue has none */
    struct diti_profile *profile; /* what a traced plan keeps besides (profile.c); NULL: no trace */
    VkSemaphore timeline;
    uint64_t submitted; /* newest timeline value */
    diti_plan_unread
        unread[DITI_UNREAD_SLICES]; /* a ring: slices that were submitted and whose timestamps were not read */
    uint32_t unread_first, unread_count;
    uint32_t last_slice_us;
    diti_frames frames;
    dit_counters counters;
    diti_stream *stream; /* NULL: all weights are resident */
    diti_plan_item *items;
    size_t item_count, item_capacity;
    diti_plan_group *groups;
    size_t group_count, group_capacity;
    uint32_t *source_groups;    /* of each dispatch; DITI_NO_GROUP: reads nothing streamed */
    unsigned char *stream_rows; /* whole rows of streamed weights, of which it wants some columns; NULL: of none */
    uint64_t stream_row_bytes;  /* so many bytes of them */
    bool robbed;                /* a slot that it was filling was taken: the next time it fills one in one go */
    bool recorded;              /* into the application's commands: slots are free when those have run */
} diti_plan;
typedef struct diti_plan_memory {
    VkDeviceSize activations, inputs;
    uint32_t blocks;
} diti_plan_memory;
/* The steps of diti_plan_create, one file each: arena.c, slice.c, record.c. */
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
/* Of streamed weights (stream.c): before slices are made. */
DIT_INTERNAL dit_result diti_plan_make_groups(diti_plan *plan, const diti_graph *graph, dit_error *err);
/* Where a dispatch finds a part of a weight. */
DIT_INTERNAL VkDeviceSize diti_plan_weight_place(const diti_plan *plan, uint32_t source, const diti_tensor_info *weight,
                                                 VkBuffer *buffer);
/* Sees to it that the device has what dispatches read of weights (replica.c). */
DIT_INTERNAL dit_result diti_plan_fetch_weights(diti_plan *plan, dit_error *err);
/* How many bytes that would be, had none come yet. */
DIT_INTERNAL uint64_t diti_graph_fetches(const diti_graph *graph);
DIT_INTERNAL bool diti_part_streams(const diti_weight_part *part); /* through slots, while the plan runs */
/* Before and after a slice of a group is submitted: what it reads is in its slot, or on its way there, which submission
   then waits for. submitted: whether it was. */
DIT_INTERNAL dit_result diti_stream_claim(diti_plan *plan, uint32_t group, diti_submission *submission, dit_error *err);
DIT_INTERNAL void diti_stream_release(diti_plan *plan, uint32_t group, bool submitted);
DIT_INTERNAL void diti_stream_forget(diti_plan *plan); /* it is about to be destroyed */
/* A run of the plan begins, in which its slices are submitted or recorded; nothing of it is in flight. */
DIT_INTERNAL void diti_stream_begin(diti_plan *plan, bool recorded);
/* For recorded plans, each does nothing where all weights are resident: once before the first frame; before a slice,
   diti_plan_load and what its slot needs (DIT_WORKING: the slice is not to be recorded yet); at the end of every frame,
   empty ones too. */
DIT_INTERNAL dit_result diti_stream_prepare(diti_plan *plan, dit_error *err);
DIT_INTERNAL dit_result diti_stream_record(diti_plan *plan, uint32_t segment, uint32_t slice, uint64_t *bytes,
                                           VkCommandBuffer commands, dit_error *err);
DIT_INTERNAL void diti_stream_mark(const diti_plan *plan, VkCommandBuffer commands);
DIT_INTERNAL dit_result diti_plan_write_sets(diti_plan *plan, dit_error *err);
/* Creates the descriptor sets of all slices and writes them. */
DIT_INTERNAL dit_result diti_plan_create_descriptors(diti_plan *plan, dit_error *err);
/* The timeline, command pools, and what is recorded whatever the slices. */
DIT_INTERNAL dit_result diti_plan_create_commands(diti_plan *plan, dit_error *err);
/* Records the primary command buffers of slices that have none yet. */
DIT_INTERNAL dit_result diti_plan_record_primaries(diti_plan *plan, dit_error *err);
/* A slice was seen to take so long. */
DIT_INTERNAL void diti_plan_took(diti_plan *plan, uint32_t slice, float us);
/* --- cutting anew what has proved too long or too short (recut.c) --- */
#define DITI_OFF_BY 4.0f
#define DITI_MOST_CUTS 8u /* in one run of a segment */
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
DIT_INTERNAL dit_result diti_frames_create(diti_plan *plan, dit_error *err); /* nothing where it is there */
DIT_INTERNAL void diti_frame_begin(diti_plan *plan, VkCommandBuffer commands);
/* A slice was recorded into it. */
DIT_INTERNAL void diti_frame_add(diti_plan *plan, uint32_t slice, VkCommandBuffer commands);
DIT_INTERNAL void diti_frames_learn(diti_plan *plan); /* from the timestamps of those that are finished */
/* The oldest frame that was not told about took so long; 0: nobody knows. false: there is no such frame. */
DIT_INTERNAL bool diti_frames_told(diti_plan *plan, uint32_t us);
/* --- traced plans (profile.c): slices are recorded with timestamps of their own around each dispatch, some of them
   more than once, so that the same slice can be queued again before its timestamps were read --- */
#define DITI_PROFILE_SETS 4u
typedef struct diti_profile_slice {
    uint32_t first_query, stride; /* of set 0: two for the slice, then two for each dispatch; from set to set */
    uint32_t sets, next, busy;
    VkCommandBuffer commands[DITI_PROFILE_SETS];
} diti_profile_slice;
typedef struct diti_profile_flight { /* a slice whose timestamps were not read yet */
    uint64_t value, submission, submit_ns;
    uint32_t slice, set, step;
    bool lost; /* its set was used again */
} diti_profile_flight;
typedef struct diti_profile {
    bool ops; /* timestamps around each dispatch; else around slices, for the application's ranges */
    uint32_t id, query_count;
    diti_profile_slice *slices;
    diti_profile_flight *flights; /* a ring */
    uint32_t flight_first, flight_count, flight_capacity;
    uint64_t *ticks, last_end_ns;
    uint32_t runs[DITI_MAX_SEGMENTS]; /* of each segment since the first one began */
} diti_profile;
/* Between making slices and recording them; does nothing where no trace is kept. */
DIT_INTERNAL dit_result diti_profile_create(diti_plan *plan, dit_error *err);
DIT_INTERNAL void diti_profile_free(diti_plan *plan); /* counts what was never read as dropped */
DIT_INTERNAL VkCommandBuffer diti_profile_commands(diti_plan *plan, uint32_t slice); /* to submit next */
/* They were submitted, at submit_ns. */
DIT_INTERNAL void diti_profile_submitted(diti_plan *plan, uint32_t slice, uint64_t submit_ns);
DIT_INTERNAL void diti_profile_collect(diti_plan *plan);
/* What diti_plan_create would allocate, without allocating. */
DIT_INTERNAL dit_result diti_plan_measure(diti_graph *graph, diti_plan_memory *out, dit_error *err);
/* Takes the graph's dispatches (the graph may be freed afterwards): assigns memory, compiles missing pipelines, writes
 * descriptor sets. */
DIT_INTERNAL dit_result diti_plan_create(diti_graph *graph, const dit_progress *progress, diti_plan **out,
                                         dit_error *err);
DIT_INTERNAL void diti_plan_destroy(diti_plan *plan); /* waits for its own submissions */
/* A plan that replaces another one, which has nothing left to do: the timeline and the counters go on. */
DIT_INTERNAL void diti_plan_continue(diti_plan *plan, diti_plan *before);
/* Guards of a plan; all do nothing where there are none. */
typedef struct diti_verdict { /* about a segment that must run again */
    uint32_t segment, step;   /* step: how many were done */
    uint32_t record;
    const char *name; /* of the op that is to blame; owned by the plan */
    bool lost;        /* running it again does not help */
} diti_verdict;
#define DITI_GUARD_TRIES 8u
/* For the next run from the start, or the next restore. */
DIT_INTERNAL dit_result diti_guard_write(diti_plan *plan, uint32_t step, dit_error *err);
DIT_INTERNAL void diti_guard_read(const diti_plan *plan, diti_health *out); /* as of the newest finished segment */
/* Raises exponents so far as that report asks for; false: it does not. */
DIT_INTERNAL bool diti_guard_raise(diti_plan *plan, diti_verdict *out);
/* The same for plans of several devices whose ops of one name in one segment have one exponent: false where none of the
   reports asks for it. out: of each plan. */
DIT_INTERNAL bool diti_guard_raise_all(diti_plan *const *plans, uint32_t count, diti_verdict *out);
DIT_INTERNAL void diti_guard_forget(diti_plan *plan);                           /* all exponents, and writes nothing */
DIT_INTERNAL void diti_guard_inherit(diti_plan *plan, const diti_plan *before); /* those of a plan that is replaced */
/* The error of a run that nothing helps. steps: of the run; 0: has none. */
DIT_INTERNAL dit_result diti_guard_check(const diti_plan *plan, const diti_verdict *verdict, uint32_t tries,
                                         uint32_t steps, dit_error *err);
/* Nothing of the plan is in flight: what must run again can be submitted after it. */
DIT_INTERNAL dit_result diti_guard_restore(diti_plan *plan, uint32_t step, dit_error *err);
/* The same by commands of the application's. */
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
DIT_INTERNAL void diti_plan_wait(const diti_plan *plan); /* for everything submitted; NULL is fine */
DIT_INTERNAL dit_result diti_plan_submit(diti_plan *plan, uint32_t segment, uint32_t slice, uint64_t *value,
                                         dit_error *err); /* value of the plan's timeline when it is done */
/* The same after what submission waits for; the rest of submission is filled here. */
DIT_INTERNAL dit_result diti_plan_submit_after(diti_plan *plan, uint32_t segment, uint32_t slice,
                                               diti_submission *submission, uint64_t *value, dit_error *err);
/* Bytes that a segment sends in a run of it, to all others or (peer < UINT32_MAX) to one. */
DIT_INTERNAL uint64_t diti_plan_exchange_bytes(const diti_plan *plan, uint32_t segment, uint32_t peer);
DIT_INTERNAL void diti_plan_execute(diti_plan *plan, uint32_t segment, uint32_t slice,
                                    VkCommandBuffer commands); /* into the application's command buffer */
DIT_INTERNAL dit_result diti_plan_prepare_secondaries(diti_plan *plan,
                                                      dit_error *err); /* once, before the first diti_plan_execute */
/* Whether the host must load weights while the plan runs. */
DIT_INTERNAL bool diti_plan_streams(const diti_plan *plan);
/* Loads what is streamed for the next slice, *bytes at most, and takes what it loaded off *bytes. DIT_OK: all of it is
   there; DIT_WORKING: not yet, because *bytes is 0 or its slot is in use. Submitting loads, too, but waits. */
DIT_INTERNAL dit_result diti_plan_load(diti_plan *plan, uint32_t segment, uint32_t slice, uint64_t *bytes,
                                       dit_error *err);
/* The same for slices to come, asked for in their order from the next one on, as long as it returns DIT_OK. */
#define DITI_STREAM_AHEAD 256u
typedef struct diti_stream_walk { /* zero at first */
    uint32_t slots, group, slices;
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
DIT_INTERNAL void diti_plan_counters(const diti_plan *plan, dit_counters *out);
/* Runs a segment once and tells what it took: by timestamps where they were read, else by the clock. */
DIT_INTERNAL dit_result diti_plan_time(diti_plan *plan, uint32_t segment, double *us, dit_error *err);
/* Submits all slices of segments [first, first + count) once, in order, and waits: tests, encoders, one-off work. */
DIT_INTERNAL dit_result diti_plan_run(diti_plan *plan, uint32_t first, uint32_t count, dit_error *err);
#endif
