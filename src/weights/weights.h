/* weights: from a checkpoint to device memory. A loader notes what a component asks for and uploads it at once; what
   does not fit is streamed while plans run; other devices get replicas, or cuts. */
#ifndef DITI_WEIGHTS_H
#define DITI_WEIGHTS_H
#include "io/io.h"
#include "vk/vk.h"

/* --- weights: already on the device, packed as stored. rows = outputs, columns = inputs (convolutions: Cin*kh*kw) ---
 */
typedef struct diti_weight_part {          /* rows [first_row, first_row + rows) */
    const struct diti_weight_block *block; /* NULL: the part is streamed */
    VkDeviceSize offset;                   /* bytes, multiple of 16 */
    uint32_t first_row, rows;
    const struct diti_streamed *streamed; /* not NULL: in no buffer; offset is within a row of the streamed matrix */
    const struct diti_pieces *pieces;     /* not NULL: only these pieces of each row, behind offset, are wanted */
} diti_weight_part;
typedef struct diti_pieces { /* pieces of a row of from_pitch bytes make a row of to_pitch bytes */
    uint64_t from_pitch, to_pitch;
    struct {
        uint64_t from, to, size;
    } list[3];
    uint32_t count;
} diti_pieces;
#define DITI_MAX_WEIGHT_PARTS 64u
#define DITI_PART_ROWS 64u /* a part that is not the last has a multiple of these, or where fewer fit of 2 */
typedef struct diti_weight {
    const char *name; /* for messages; owned by the model */
    dit_type type;    /* vectors and small tables are always F32 on the device */
    uint32_t rows, columns;
    uint32_t kernel; /* convolution kernel size: columns are (Cin, kernel, kernel); 1 for linear layers */
    uint32_t frames; /* frames that a convolution over time reads: columns are (Cin, frames, kernel, kernel); 0 and
                        1: it reads one */
    const struct diti_weight *smooth; /* F32 [1, columns] that the columns are multiplied with when they are expanded:
                                         the file's matrix is for x divided by a factor for each; NULL: there is none */
    /* F32, of which value first_row + i is what row i is multiplied with when it is expanded; rows 0: there are none */
    diti_weight_part factor;
    uint32_t part_count; /* 0: the model has no such weight (an absent bias) */
    diti_weight_part parts[DITI_MAX_WEIGHT_PARTS];
} diti_weight;
/* Values of a row that belong to one input channel: 1 for linear layers. */
DIT_INTERNAL uint32_t diti_weight_taps(const diti_weight *weight);

/* A part of a matrix that devices divide: rows [row, row + rows), rows 0: all; and of each row up to two ranges of
   columns, side by side, count 0 of the first: all. */
typedef struct diti_cut {
    uint32_t row, rows;
    struct {
        uint32_t first, count;
    } columns[2];
} diti_cut;
typedef struct diti_cut_weight {
    const diti_weight *source;
    diti_cut cut;
    diti_weight weight;
    diti_pieces pieces;
} diti_cut_weight;
/* Values of a row that can't be parted: stretches of columns begin and end at multiples. */
DIT_INTERNAL uint32_t diti_weight_unit(const diti_weight *weight);
/* Fills made, which is all zeros; false where weight cannot be cut there. made->weight refers to made. */
DIT_INTERNAL bool diti_cut_make(diti_cut_weight *made, const diti_weight *weight, const diti_cut *cut);
DIT_INTERNAL void diti_cuts_free(const diti_env *env, diti_cut_weight **cuts, size_t count);
/* The wanted columns of so many rows. */
DIT_INTERNAL void diti_pieces_pick(const diti_pieces *pieces, const unsigned char *from, uint64_t rows,
                                   unsigned char *to);

/* Bytes of a row of int8 on the device: columns, zeros up to a multiple of 16, the scale as F32, 12 bytes of nothing.
 */
DIT_INTERNAL uint32_t diti_i8_pitch(uint32_t columns);
/* Bytes in which so many columns of such a row stand. Rows of 4 bit lie in the order of I4_GROUP, and their scale is a
   sixteenth of what the file has, since kernels read each value as the upper half of a byte. */
DIT_INTERNAL uint32_t diti_i8_bytes(dit_type type, uint32_t columns);
/* Bytes of so many rows on the device; false where the type has no such rows. */
DIT_INTERNAL bool diti_weight_bytes(dit_type type, uint64_t rows, uint32_t columns, uint64_t *out);

/* Where int8 rows come from: an I8 tensor of that type, or a tensor of floats or blocks that is quantized. */
typedef struct diti_i8_source {
    const diti_env *env;
    const diti_checkpoint *checkpoint;
    const diti_stored_tensor *tensor;
    dit_type type;
    uint32_t columns;
    const diti_stored_tensor *smooth;      /* factors that the columns are divided by first; NULL: none */
    const struct diti_lora_merges *merges; /* added to the rows before they are quantized; NULL: nothing */
} diti_i8_source;
/* The values of a row without merges; the tensor may be of any type. */
DIT_INTERNAL dit_result diti_i8_floats(const diti_i8_source *source, uint32_t index, float *values, dit_error *err);
/* Rows [first, first + rows) as the device holds them. */
DIT_INTERNAL dit_result diti_i8_rows(const diti_i8_source *source, uint32_t first, uint32_t rows, unsigned char *out,
                                     dit_error *err);

/* --- loading weights: from a checkpoint to device memory, in the order asked for, so that what is asked for in a row
   (q, k, v) lies in a row. Asking only notes shapes and places; diti_loader_finish makes the memory and uploads. The
   first error sticks. --- */
typedef struct diti_weight_block {
    diti_buffer buffer;
    VkDeviceSize used;
    struct diti_replicas *replicas; /* where else its weights are; NULL: a weight that no loader made */
} diti_weight_block;
typedef struct diti_upload { /* where bytes on the device come from (upload.c) */
    const diti_stored_tensor *tensor;
    uint64_t offset, size; /* stored bytes; int8 rows: bytes on the device */
    uint32_t floats;       /* not 0: the whole tensor, converted to so many F32 */
    bool turned;           /* floats: rows x columns from a tensor of columns x rows */
    float added;           /* floats: to each */
    bool inverse;          /* floats: 1 / value; they must be finite, and not 0 */
    bool factors;          /* floats: the factors of rows from `first` on */
    /* floats: what this makes of the tensor's values, made[0] of them, with the other numbers; NULL: as they are */
    void (*make)(const uint32_t *made, const float *values, float *out);
    uint32_t made[6];
    bool halves; /* stored as BF16, on the device F16 */
    dit_type i8; /* int8 rows [first, first + rows) of that type, of so many columns; else 0 */
    uint32_t first, rows, columns;
    diti_weight_block *block; /* NULL: streamed */
    VkDeviceSize target;
    const diti_stored_tensor *smooth;      /* factors that columns are divided by before i8 or merges; NULL: none */
    const struct diti_lora_merges *merges; /* added to rows [first, first + rows); NULL: nothing */
    dit_type merged;                       /* the type that they have then, F32 or F16, or i8 */
    uint64_t first_piece;                  /* streamed: its first one's place in diti_streamed.kept_pieces */
} diti_upload;
/* A component's weights that are not resident: in thought one row of bytes, in the order of loading. */
typedef struct diti_streamed {
    struct diti_stream *stream; /* NULL: weights come to a device when a plan needs them, and stay (replica.c) */
    VkDeviceSize slot_bytes; /* bytes of the row that each of an expert's slots has; 0: they pass through the two slots
                                that all weights share */
    struct diti_replicas *replicas;
    const diti_env *env;
    const diti_checkpoint *checkpoint;
    diti_upload *uploads; /* by target */
    size_t count, capacity;
    uint64_t bytes;
    unsigned char *kept; /* as many of the host, for what has been read once; NULL: it is read again. Guarded by the
                            stream's busy, with the next */
    unsigned char *kept_pieces; /* a bit for each piece of each upload: it lies in kept. Devices that divide a matrix
                                   read any of them first */
} diti_streamed;
/* Everything that is loaded of one stored type; a tensor of which only some rows are asked for counts with those. */
typedef struct diti_weight_tally {
    uint32_t tensors;
    uint64_t parameters, stored_bytes, bytes; /* bytes: on the device, resident or not */
} diti_weight_tally;
#define DITI_TALLIES ((size_t)DIT_TYPE_I64 + 1)
/* Rows of a module that are rows of a weight, under one of the module's names: what adapters are looked up by. A module
   that files have fused or in parts has both kinds of names. */
enum { DITI_NAMES_DIFFUSERS = 1, DITI_NAMES_ORIGINAL = 2, DITI_NAMES_ALL = 3 };
typedef struct diti_target {
    char *module;              /* as it is asked for, without ".weight" or ".bias" */
    bool vector;               /* numbers, each a row of one column, whatever shape the tensor has */
    bool bias;                 /* a vector whose name ended in ".bias" */
    uint32_t names;            /* code bases that call it so: diffusers; the original, by its key table; or both */
    uint32_t first, rows, all; /* rows [first, first + rows) of the module's `all` */
    uint32_t columns;
    const char *weight;               /* diti_weight.name of the weight that has them: this very string */
    uint32_t row;                     /* from here on */
    const diti_stored_tensor *tensor; /* stored tensor that has them, from tensor_row on */
    uint32_t tensor_row;
} diti_target;
typedef struct diti_smooth { /* factors of one matrix, or of several on one x */
    uint32_t file;           /* the place of the stored ones tells whether they are the same */
    uint64_t offset;
    diti_weight weight;
} diti_smooth;
typedef struct diti_weights { /* the memory behind a component's weights */
    diti_weight_block **blocks;
    size_t block_count, block_capacity;
    char **names; /* storage of every diti_weight.name */
    size_t name_count, name_capacity;
    uint64_t bytes, parameters; /* bytes: resident */
    diti_smooth **smooths;      /* storage of every diti_weight.smooth */
    size_t smooth_count, smooth_capacity;
    uint64_t staged; /* bytes of staging buffers that loading took besides */
    diti_weight_tally types[DITI_TALLIES];
    diti_streamed *streamed;        /* NULL: all is resident */
    diti_streamed *expert;          /* weights in an expert's slots while it is at work; NULL: none are */
    struct diti_replicas *replicas; /* parts that are resident besides, on any device; NULL: on no device */
    diti_target *targets;           /* noted for parts that adapters may be for */
    size_t target_count, target_capacity;
    const struct diti_key_table *originals; /* the original's names of modules; NULL: unknown */
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
/* A part's replicas, and what tells parts of one component from each other. */
DIT_INTERNAL diti_replicas *diti_replicas_of(const diti_weight_part *part);
DIT_INTERNAL const void *diti_replica_source(const diti_weight_part *part);
/* The part is where it was loaded, and can be bound there. */
DIT_INTERNAL bool diti_replica_needless(const diti_device *device, const diti_weight_part *part);
/* Whether a replica is of that device and that part, of which so many bytes are wanted; the one that is, or NULL. */
DIT_INTERNAL bool diti_replica_same(const diti_replica *replica, const diti_device *device,
                                    const diti_weight_part *part, uint64_t bytes);
DIT_INTERNAL diti_replica *diti_replica_find(diti_replicas *replicas, const diti_device *device,
                                             const diti_weight_part *part, uint64_t bytes);
/* One plan at a time brings weights, which takes seconds: the others sleep in diti_replicas_enter. */
DIT_INTERNAL dit_result diti_replicas_enter(diti_device *device, diti_replicas *replicas, dit_error *err);
DIT_INTERNAL void diti_replicas_leave(diti_replicas *replicas);
typedef struct diti_fetch { /* the parts of a component that a device lacks, and gets */
    diti_device *device;
    diti_replicas *replicas;
    size_t first; /* number of the first new replica, and of the first new block */
    size_t first_block;
    uint64_t most; /* bytes of the largest row */
} diti_fetch;
/* Notes a place for a part that is not there, under the lock; false: no memory. row: bytes that are copied as a whole.
 */
DIT_INTERNAL bool diti_fetch_note(diti_fetch *fetch, const diti_weight_part *part, uint64_t bytes, uint64_t row);
DIT_INTERNAL dit_result diti_fetch_make(diti_fetch *fetch, dit_error *err); /* the memory behind these places */
DIT_INTERNAL void diti_fetch_undo(diti_fetch *fetch);                       /* nothing of the fetch stays */
typedef struct diti_replica_copy {                                          /* where a part goes, and room to read it */
    diti_device *device;
    diti_buffer *target;
    VkDeviceSize offset;
    unsigned char *read, *picked;
} diti_replica_copy;
/* Copies a part, at most `most` bytes at a time, which is a row at least. */
DIT_INTERNAL dit_result diti_replica_move(const diti_replica_copy *copy, const diti_weight_part *part, uint64_t row,
                                          uint64_t bytes, uint64_t most, dit_error *err);
typedef struct diti_weight_sizes { /* bytes */
    uint64_t resident;             /* vectors, which are never streamed */
    uint64_t matrices;             /* may be streamed */
    uint64_t largest;              /* matrix that is read as a whole */
    uint64_t table;                /* largest of those that are read in pieces of any size */
    uint64_t piece;                /* least that can be read at once */
} diti_weight_sizes;
typedef struct diti_load_options { /* a caller's wishes; NULL: none */
    const dit_progress *progress;
    const dit_type_rule *types;
    uint32_t type_count;
    uint64_t *types_used;       /* bit i is set where types[i] decides about a weight; NULL: nobody asks */
    diti_weight_sizes *sizes;   /* load nothing, tell this */
    struct diti_stream *stream; /* matrices beyond keep are streamed through it, and the checkpoint and the environment
                                   must stay; NULL: all are resident */
    uint64_t matrices, keep;    /* bytes of matrices, and how many of them stay on the device */
    bool expert;         /* keep: so many are in the stream's slots for the expert at work, while it is this one */
    bool int8_attention; /* dit_model_desc.int8_attention */
    bool by_need;        /* matrices are read when a plan needs them; the same must stay */
    bool read_once; /* streamed matrices, or those by_need, are read once and kept, for devices that all compute with
                       F16 */
    const struct diti_taps *taps; /* states of a decoder language model that are wanted (text/text.h); NULL: the last */
    bool shown;                   /* pictures are shown to a decoder language model: its vision tower is loaded */
    bool sees;                    /* a decoder language model is one that was trained to see, shown any or not */
    bool *wide;  /* not NULL: resident BF16 becomes F16 where the device computes with it, so that nothing expands it in
                    every step; set where a value is too large for that: then loading fails and is done again without.
                    With read_once other BF16 does, too, when it is read; nothing can be done again then, and a value
                    that is too large becomes infinite, as its expansion makes it on these devices */
    bool adapts; /* modules are noted as targets of adapters */
    dit_role role;                   /* the part's, for adapters */
    dit_role other_role;             /* one that adapters may call it, too; DIT_ROLE_NONE: none */
    struct diti_lora_merges *merges; /* adapters that become part of the weights; NULL: none */
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
    uint64_t *types_used;
    uint32_t unrotated; /* layers that the rules want rotated and whose rows no group fills */
    dit_error error;
    diti_weights weights;
    diti_upload *uploads;
    size_t upload_count, upload_capacity;
    diti_weight_sizes *sizes; /* not NULL: nothing is loaded */
    struct diti_stream *stream;
    uint64_t matrices, keep;          /* diti_load_options.matrices and keep */
    bool expert;                      /* diti_load_options.expert */
    uint64_t seen, kept;              /* matrix bytes so far, and how many of them stay */
    uint32_t skip;                    /* rows of a matrix in the file before the rows that are asked for */
    const diti_stored_tensor *smooth; /* smoothing factors of the matrix at hand; NULL: it has none */
    uint32_t join;                /* number of matrices that are to lie side by side; 0: the next one stands alone */
    bool chosen;                  /* streaming is decided for all of those matrices */
    bool streaming;               /* the matrix at hand is streamed */
    bool by_need;                 /* diti_load_options.by_need */
    bool read_once;               /* diti_load_options.read_once */
    const struct diti_taps *taps; /* diti_load_options.taps */
    bool shown, sees;             /* diti_load_options' */
    bool *wide;                   /* diti_load_options.wide */
    bool *used;                   /* for each tensor of the checkpoint whether it was asked for; NULL: none was */
    bool adapts;                  /* diti_load_options.adapts */
    uint32_t names;               /* diti_target.names of what is asked for; 0: all */
    const struct diti_lora_merges *merges; /* NULL: none */
} diti_loader;
/* prefix, checkpoint and progress must outlive the loader. Set rename and user afterwards where needed. */
DIT_INTERNAL void diti_loader_begin(diti_loader *loader, diti_device *device, const diti_env *env,
                                    const diti_checkpoint *checkpoint, const char *prefix, const char *what,
                                    const dit_progress *progress);
DIT_INTERNAL void diti_loader_scope(diti_loader *loader, const char *format, ...) DITI_PRINTF(2, 3); /* "" ends it */
DIT_INTERNAL void diti_loader_scope_end(diti_loader *loader);
DIT_INTERNAL const diti_stored_tensor *diti_loader_find(diti_loader *loader, const char *name); /* NULL when absent */
/* How many names before0after, before1after, ... exist. */
DIT_INTERNAL uint32_t diti_loader_count(diti_loader *loader, const char *before, const char *after);
/* How many names there are, or the one that key of the settings says instead; less than the file holds is refused
 * (unused.c). */
DIT_INTERNAL uint32_t diti_loader_layers(diti_loader *loader, diti_settings *settings, const char *key,
                                         const char *before, const char *after);
/* Notes that a tensor is asked for, as all functions that load one do. */
DIT_INTERNAL void diti_loader_use(diti_loader *loader, const diti_stored_tensor *tensor);
/* Refuses a checkpoint with blocks beyond those that were asked for, and tells what else was not. */
DIT_INTERNAL dit_result diti_loader_check_unused(diti_loader *loader);
/* One number of a tensor's shape; 0 where there is no such tensor or dimension, or it is absurd. */
DIT_INTERNAL uint32_t diti_loader_dimension(diti_loader *loader, const char *name, uint32_t index);
/* Notes that rows [row, row + rows) of a weight that was asked for are also rows [first, first + rows) of the `all` of
   a module, which has that name in the loader's scope. */
DIT_INTERNAL void diti_loader_alias(diti_loader *loader, const diti_weight *weight, uint32_t row, uint32_t rows,
                                    const char *module, uint32_t first, uint32_t all, uint32_t names);
/* Targets in a weight are in another one, from that row on: it was appended there. */
DIT_INTERNAL void diti_loader_move_targets(diti_loader *loader, const char *from, const char *to, uint32_t row);
/* A model that is not supported: the error names the file, and says what the format does. */
DIT_INTERNAL dit_result diti_loader_refuse(const diti_loader *loader, dit_error *err, const char *format, ...)
    DITI_PRINTF(3, 4);
/* From now on linear layers follow the rules of options, and matrices its limits. */
DIT_INTERNAL void diti_loader_rules(diti_loader *loader, const char *component, const diti_load_options *options);
/* A matrix in its stored type; shape [rows, columns] is checked. Convolutions: columns = Cin*kernel*kernel, shape
   [rows, Cin, kernel, kernel]; a 1x1 convolution is a matrix. */
DIT_INTERNAL void diti_load_matrix(diti_loader *loader, diti_weight *out, uint32_t rows, uint32_t columns,
                                   uint32_t kernel, const char *name);
/* diti_load_matrix for the weight of a linear layer, which may become int8. */
DIT_INTERNAL void diti_load_linear(diti_loader *loader, diti_weight *out, uint32_t rows, uint32_t columns,
                                   const char *name);
/* diti_load_matrix for a table that only diti_gather_rows reads, whose parts may be small. */
DIT_INTERNAL void diti_load_table(diti_loader *loader, diti_weight *out, uint32_t rows, uint32_t columns,
                                  const char *name);
/* Any stored float type, converted to F32 on the device, rows * columns values (biases: 1 x N), always one part. */
DIT_INTERNAL void diti_load_vector(diti_loader *loader, diti_weight *out, uint32_t rows, uint32_t columns,
                                   const char *name);
/* A vector of so many values, to each of which a number is added: norms whose weights are stored around 0. */
DIT_INTERNAL DITI_UNUSED void diti_load_offset(diti_loader *loader, diti_weight *out, uint32_t columns, float added,
                                               const char *name);
/* The vector that was loaded `back` loads of a vector before the last one becomes what make says, see diti_upload. */
DIT_INTERNAL DITI_UNUSED void diti_load_remake(diti_loader *loader, uint32_t back,
                                               void (*make)(const uint32_t *made, const float *values, float *out));
/* F32 [rows, columns], which make makes of a tensor of that shape, of so many dimensions, as diti_upload says; made[0]
   is set here. frames: see diti_weight. */
DIT_INTERNAL DITI_UNUSED void diti_load_made(diti_loader *loader, diti_weight *out, uint32_t rows, uint32_t columns,
                                             uint32_t frames, const char *name, const uint64_t *shape, uint32_t rank,
                                             void (*make)(const uint32_t *made, const float *values, float *out),
                                             const uint32_t made[6]);
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
/* Reads a piece of BF16 that becomes F16. *wide is set, and it fails, where a value is too large for that. */
DIT_INTERNAL dit_result diti_upload_read_halves(const diti_env *env, const diti_checkpoint *checkpoint,
                                                const diti_upload *upload, uint64_t done, uint64_t size, uint16_t *out,
                                                bool *wide, dit_error *err);
/* Bytes of each of the pieces in which the host keeps it, of which the last one may have fewer. */
DIT_INTERNAL uint64_t diti_upload_kept_piece(const diti_upload *upload);
/* The longest piece that has to be read at once. */
DIT_INTERNAL uint64_t diti_upload_minimum(const diti_upload *upload);

typedef struct diti_layer {
    diti_weight weight, bias;
} diti_layer;
/* NAME.weight and NAME.bias: linear layers and convolutions. */
DIT_INTERNAL void diti_load_layer(diti_loader *loader, diti_layer *out, uint32_t rows, uint32_t columns,
                                  uint32_t kernel, const char *name);
/* A linear layer without bias. */
DIT_INTERNAL void diti_load_bare(diti_loader *loader, diti_layer *out, uint32_t rows, uint32_t columns,
                                 const char *name);
/* Rows [first, first + rows) of one that has `all` rows in the file. */
DIT_INTERNAL void diti_load_bare_rows(diti_loader *loader, diti_layer *out, uint32_t first, uint32_t rows, uint32_t all,
                                      uint32_t columns, const char *name);
/* NAME.weight [rows, channels, frames, kernel, kernel] and, where biased says so, NAME.bias: a convolution over space
   and time. Trailing ones of the shape may be missing. */
DIT_INTERNAL void diti_load_conv(diti_loader *loader, diti_layer *out, uint32_t rows, uint32_t channels,
                                 uint32_t frames, uint32_t kernel, bool biased, const char *name);
/* Rows [first, first + rows) of a linear layer that has `all` rows in the file. */
DIT_INTERNAL void diti_load_layer_rows(diti_loader *loader, diti_layer *out, uint32_t first, uint32_t rows,
                                       uint32_t all, uint32_t columns, const char *name);
/* 1 / value of a vector that is found already. */
DIT_INTERNAL void diti_load_inverse(diti_loader *loader, diti_weight *out, const diti_stored_tensor *tensor);
/* Vectors of equal length as one table: F32 [count, columns]. */
DIT_INTERNAL void diti_load_vectors(diti_loader *loader, diti_weight *out, const char *const *names, uint32_t count,
                                    uint32_t columns);
/* NAME.weight and NAME.bias of a norm with affine: vectors. */
DIT_INTERNAL void diti_load_norm(diti_loader *loader, diti_layer *out, uint32_t columns, const char *name);
/* Up to three layers on one input (q, k, v), as one matrix where types and places allow it, else one by one
 * (diti_linear_fused). */
typedef struct diti_fused_linear {
    diti_layer layers[3];
    uint32_t count;
} diti_fused_linear;
DIT_INTERNAL void diti_load_fused_linear(diti_loader *loader, diti_fused_linear *out, const char *const *names,
                                         uint32_t count, uint32_t rows, uint32_t columns, bool biased);
/* The tensors of a low-rank part beside a matrix are not left over (docs/quantized.md). */
DIT_INTERNAL void diti_loader_use_low_rank(diti_loader *loader, const diti_stored_tensor *tensor);
/* Inverses of smoothing factors, freed with diti_free; *out stays NULL where smooth is (smooth.c). */
DIT_INTERNAL dit_result diti_smooth_read(const diti_env *env, const diti_checkpoint *checkpoint,
                                         const diti_stored_tensor *smooth, float **out, dit_error *err);
/* The inverse of each; false where one is 0 or not finite, which the other one tells. */
DIT_INTERNAL bool diti_smooth_invert(float *factors, uint64_t count);
DIT_INTERNAL dit_result diti_smooth_fail(const diti_checkpoint *checkpoint, const diti_stored_tensor *smooth,
                                         dit_error *err);
/* The stored name that belongs to name: the longest row of pairs (asked for, stored) that name begins with, up to a dot
   or its end, gives its start. NULL when no row fits or size is too small. */
DIT_INTERNAL const char *diti_rename(const char *const (*pairs)[2], size_t count, const char *name, char *out,
                                     size_t size);

/* --- streamed weights (stream.c): two slots of device memory for a model, through which the matrices that are not
   resident pass. A plan's dispatches fall into batches of consecutive ones whose matrices fit a slot; every batch has
   its slot, and every matrix its place in it, when the plan is made, so that nothing is recorded twice. The slot of a
   slice's batch is filled before the slice is submitted: by the host where it sees the memory, else by way of a ring of
   pinned buffers. Plans share the slots: whoever needs one takes it, as soon as the slices that read it are finished,
   and its former user fills it again.

   A model may have two experts, of which one works at a time. The slots behind the first two are that one's: what is
   read into them stays as long as its steps last, and the other one's weights then take its place. Each of these slots
   has a stretch of either expert's weights, in the order of loading. --- */
#define DITI_STREAM_SLOTS 2u
#define DITI_EXPERT_SLOTS 30u /* at most */
#define DITI_NO_BATCH UINT32_MAX
typedef struct diti_stream_item { /* a streamed part in its batch's slot */
    const diti_streamed *streamed;
    uint64_t from, bytes;      /* from: in the row of what is streamed. bytes: in the slot */
    const diti_pieces *pieces; /* pieces of the columns; NULL: all columns */
    uint64_t read;             /* bytes from `from` on that the item is made of: whole rows */
    VkDeviceSize offset;       /* in the slot */
} diti_stream_item;
typedef struct diti_stream_batch {
    uint32_t first, count; /* range of items */
    uint32_t slot;
    VkDeviceSize bytes;
} diti_stream_batch;
typedef struct diti_stream_client { /* a plan, as its stream sees it */
    struct diti_stream *stream;     /* NULL: all its weights are resident */
    const diti_timeline *timeline;  /* timeline of the plan */
    diti_stream_item *items;
    size_t item_count, item_capacity;
    diti_stream_batch *batches;
    size_t batch_count, batch_capacity;
    unsigned char *rows; /* room for whole rows of which some columns are wanted; NULL: there are none */
    uint64_t row_bytes;  /* bytes of rows */
    uint64_t read_bytes; /* bytes that the plan has not counted yet */
    bool robbed;         /* a slot that it was filling was taken: the next time it fills one in one go */
    bool recorded;       /* into the application's commands: slots are free when those have run */
} diti_stream_client;
typedef struct diti_stream_slot {
    diti_buffer buffer;
    diti_stream_client *client; /* the plan whose batch is in the slot, or on its way; NULL: nothing is */
    uint32_t batch;
    bool ready;       /* the whole batch was read */
    bool used;        /* a slice that reads the slot was submitted */
    uint32_t item;    /* the next to read */
    uint64_t done;    /* bytes of its source that were read */
    uint64_t written; /* value of the stage's timeline when its copies are over */
    VkSemaphore reader;
    uint64_t reader_value; /* value of reader when the last slice that reads the slot is finished */
    diti_buffer mirror;    /* for recorded plans, where the slot is not mapped: their commands copy it into the slot.
                              No buffer: the slot has the shared one */
    bool mirrored;         /* the slot's content is only in its mirror so far */
    const diti_buffer *marks;
    uint32_t mark;                  /* value of the word in marks when the last frame that reads the slot is finished */
    uint64_t looked_us, awaited_us; /* how long a plan that is submitted has waited for that frame */
    const diti_stream_client *claimant; /* the plan that waits for the slot, and has it first; NULL: none */
} diti_stream_slot;
typedef struct diti_stream_sizes {
    VkDeviceSize slot, piece; /* slot: enough for the largest matrix; piece: least that can be read at once */
    VkDeviceSize expert;      /* bytes of each slot for the expert at work, at least those of a slot */
    uint32_t experts;         /* how many such slots there are */
} diti_stream_sizes;
typedef struct diti_stream {
    diti_env env;
    diti_device *device; /* NULL: a dry run */
    diti_stream_sizes sizes;
    VkDeviceSize slot_bytes;
    bool keeps; /* weights that were read stay in host memory */
    diti_stream_slot slots[DITI_STREAM_SLOTS + DITI_EXPERT_SLOTS];
    diti_buffer shared_mirror;    /* one mirror of all slots that have none of their own: those for the expert, and,
                                     where the host has no room for more, the others as well */
    diti_stream_slot *mirror_for; /* the slot that had it last; NULL: none */
    diti_stage *stage;            /* NULL: the slots are mapped */
    struct diti_stream *home;     /* stream of the device that the model was loaded on; itself there */
    struct diti_stream *next;     /* behind home: those of other devices, which have slots of their own */
    int lock;                     /* home's guards busy, and the list */
    bool busy;                    /* home's is for all devices: one thread at a time reads files and the host's copy */
} diti_stream;
DIT_INTERNAL dit_result diti_stream_create(diti_device *device, const diti_env *env, const diti_stream_sizes *sizes,
                                           diti_stream **out, dit_error *err);
DIT_INTERNAL uint64_t diti_stream_bytes(const diti_stream *stream); /* bytes of all slots; 0 for NULL */
/* Destroys the streams of all devices, after the plans that use them; NULL is fine. */
DIT_INTERNAL void diti_stream_destroy(diti_stream *home);
/* The stream of a device, which is made for its first plan. */
DIT_INTERNAL dit_result diti_stream_on(diti_stream *home, diti_device *device, diti_stream **out, dit_error *err);
DIT_INTERNAL bool diti_part_streams(const diti_weight_part *part); /* through slots, while the plan runs */
/* Loads at most *bytes of a batch into its slot, and takes what was loaded off *bytes. DIT_OK: all of it is there;
   DIT_WORKING: not yet. ahead: another client's batch that is not read yet stays. */
DIT_INTERNAL dit_result diti_stream_load(diti_stream_client *client, uint32_t batch, bool ahead, uint64_t *bytes,
                                         dit_error *err);
/* Before and after a slice of a batch is submitted: what it reads is in its slot, or on its way there, which submission
   then waits for. submitted: whether it was. */
DIT_INTERNAL dit_result diti_stream_claim(diti_stream_client *client, uint32_t batch, diti_submission *submission,
                                          dit_error *err);
DIT_INTERNAL void diti_stream_release(diti_stream_client *client, uint32_t batch, bool submitted);
/* The client goes, and with it the marks of its frames. */
DIT_INTERNAL void diti_stream_forget(diti_stream_client *client, const diti_buffer *marks);
/* A run begins, whose slices are submitted or recorded. Nothing of the client is in flight: frames of the run before
   that have not run never do. */
DIT_INTERNAL void diti_stream_begin(diti_stream_client *client, const diti_buffer *marks, bool recorded);
/* The commands of the newest frame, which would set `mark`, never run; the frame that marks before it sets `before`. */
DIT_INTERNAL void diti_stream_unrecord(diti_stream_client *client, const diti_buffer *marks, uint32_t mark,
                                       uint32_t before);
/* For recorded plans: memory that their commands copy into slots that are not mapped; a batch into its slot, by these
   commands too, free when the word in marks comes to mark; that word, at the end of a frame. */
DIT_INTERNAL dit_result diti_stream_make_mirrors(const diti_stream_client *client, dit_error *err);
DIT_INTERNAL dit_result diti_stream_record(diti_stream_client *client, uint32_t batch, const diti_buffer *marks,
                                           uint32_t mark, uint64_t *bytes, VkCommandBuffer commands, dit_error *err);
DIT_INTERNAL void diti_stream_mark(const diti_device *device, const diti_buffer *marks, uint32_t mark,
                                   VkCommandBuffer commands);
#endif
