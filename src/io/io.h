/* io: files, safetensors, GGUF; a checkpoint is tensors by name, a package is a whole pipeline: small files by path and
   tensors by component. */
#ifndef DITI_IO_H
#define DITI_IO_H
#include "base/base.h"

/* --- files: random access to bytes from a path, from memory, or through callbacks --- */
typedef struct diti_file diti_file;
/* Opens the bytes of source (path of a file, data+size, or read_at+size). name is for messages and copied; NULL: the
 * path. */
DIT_INTERNAL dit_result diti_file_open(const diti_env *env, const dit_source *source, const char *name, diti_file **out,
                                       dit_error *err);
/* Opens a member of a folder: through root's open hook when it has one (DIT_ERROR_IO, or an empty source, means that
   there is no such member), else the path below root->path. DIT_OK with *out = NULL when it does not exist. Names that
   would leave the folder are refused. */
DIT_INTERNAL dit_result diti_file_open_member(const diti_env *env, const dit_source *root, const char *member,
                                              diti_file **out, dit_error *err);
DIT_INTERNAL void diti_file_close(diti_file *file); /* NULL is fine */
DIT_INTERNAL uint64_t diti_file_size(const diti_file *file);
DIT_INTERNAL const char *diti_file_name(const diti_file *file);
/* Copies size bytes from offset. A range outside the file is DIT_ERROR_BAD_FILE, and so is a file that has become
   shorter since it was opened; a read that fails, the callback's too, is DIT_ERROR_IO. Any thread may call it. */
DIT_INTERNAL dit_result diti_file_read(const diti_file *file, uint64_t offset, void *out, size_t size, dit_error *err);
/* A copy of the whole file with a NUL behind it, freed with diti_free. */
DIT_INTERNAL dit_result diti_file_read_all(const diti_env *env, const diti_file *file, char **out, size_t *size,
                                           dit_error *err);
/* A folder on disk, or what the open hook stands for. */
DIT_INTERNAL bool diti_source_is_folder(const dit_source *source);

/* --- stored types --- */
DIT_INTERNAL const char *diti_type_name(dit_type type); /* "Q8_0" */
DIT_INTERNAL uint32_t diti_type_block(dit_type type);   /* elements per block: 1, 32, 128, 256; 0: none */
DIT_INTERNAL uint32_t diti_type_block_bytes(dit_type type);
/* Bytes of rows x row_length elements; false when row_length is no multiple of the block or the product overflows. */
DIT_INTERNAL bool diti_type_bytes(dit_type type, uint64_t rows, uint64_t row_length, uint64_t *out);
/* Exact float values of count elements (a multiple of the block) as ggml defines them (docs/models.md 9.2). blocks
   needs no alignment. */
DIT_INTERNAL void diti_type_to_float(dit_type type, const void *blocks, uint64_t count, float *out);
/* A block of I4_GROUP: 128 values scale * quant + least, quants 0..15; scale and least are halves. In a file: an I8
   tensor NAME [rows, columns / 128 * 68] and in the metadata "dit.blocks.NAME" = "i4_group" (docs/quantized.md). */
#define DITI_I4_GROUP 128u
#define DITI_I4_GROUP_BYTES 68u
#define DITI_BLOCKS_KEY "dit.blocks."
DIT_INTERNAL void diti_i4_group_pack(const uint8_t *quants, uint16_t scale, uint16_t least, uint8_t *block);
/* The least and the largest of 128 values become quants 0 and 15, as near as halves let them; false where a value is
   not finite or beyond halves. */
DIT_INTERNAL DITI_UNUSED bool diti_i4_group_encode(const float *values, uint8_t *block);

/* --- checkpoints: tensors by name, whatever the file --- */
typedef struct diti_stored_tensor {
    const char *name;
    const char *type_name; /* the type's name in the file */
    dit_type type;         /* DIT_TYPE_STORED: one that dit.h does not read; diti_checkpoint_read refuses it by name.
                              DIT_TYPE_I8_ROW: bytes that mean nothing without their scales, see below */
    uint32_t rank;         /* 0..5 */
    /* Torch order: slowest first. GGUF's dims are reversed on reading, orig_shape metadata is honoured: then blocks may
       run across the rows of shape, so take the elements as one sequence. */
    uint64_t shape[5];
    uint64_t size;   /* bytes */
    uint64_t offset; /* place in the tensor's file */
    /* NULL: the elements follow one another. Else steps in elements along each dimension, which diti_checkpoint_read
       puts in order (PyTorch only). */
    const uint64_t *strides;
    const struct diti_nunchaku_tensor *made; /* not NULL: diti_checkpoint_read makes its bytes of nunchaku's tensors */
    const struct diti_nvfp4_pair *nvfp4;     /* not NULL: it makes them of ComfyUI's values and scales */
    const struct diti_row_lengths *lengths;  /* not NULL: it gives rows their lengths (PyTorch's weight_norm) */
    uint32_t iq4; /* not 0: it makes Q8_0 of IQ4_NL or IQ4_XS, whose blocks have so many values */
    uint32_t file;
} diti_stored_tensor;
typedef struct diti_checkpoint diti_checkpoint;
/* A safetensors file, a *.safetensors.index.json with its shards, a GGUF file (or the first of
   name-00001-of-0000N.gguf), a PyTorch checkpoint (or its *.bin.index.json). */
DIT_INTERNAL dit_result diti_checkpoint_open(const diti_env *env, const dit_source *source, diti_checkpoint **out,
                                             dit_error *err);
/* Opens a member of a folder likewise; DIT_OK with *out = NULL when it does not exist. */
DIT_INTERNAL dit_result diti_checkpoint_open_member(const diti_env *env, const dit_source *root, const char *member,
                                                    diti_checkpoint **out, dit_error *err);
/* The tensors of both, which must outlive it; of a name that both have, the first one's. */
DIT_INTERNAL dit_result diti_checkpoint_join(const diti_checkpoint *first, const diti_checkpoint *second,
                                             diti_checkpoint **out, dit_error *err);
DIT_INTERNAL void diti_checkpoint_close(diti_checkpoint *checkpoint);             /* NULL is fine */
DIT_INTERNAL const char *diti_checkpoint_name(const diti_checkpoint *checkpoint); /* first file's name, for messages */
DIT_INTERNAL uint32_t diti_checkpoint_count(const diti_checkpoint *checkpoint);
/* Bytes that its files lack at their ends; 0 unless only headers are read. */
DIT_INTERNAL uint64_t diti_checkpoint_absent(const diti_checkpoint *checkpoint);
DIT_INTERNAL const diti_stored_tensor *diti_checkpoint_tensor(const diti_checkpoint *checkpoint, uint32_t index);
/* Hashed; NULL when absent. */
DIT_INTERNAL const diti_stored_tensor *diti_checkpoint_find(const diti_checkpoint *checkpoint, const char *name);
/* Whether any tensor's name starts so. */
DIT_INTERNAL bool diti_checkpoint_has_prefix(const diti_checkpoint *checkpoint, const char *prefix);
DIT_INTERNAL uint64_t diti_stored_tensor_elements(const diti_stored_tensor *tensor);
/* Copies stored bytes [offset, offset+size) of a tensor. */
DIT_INTERNAL dit_result diti_checkpoint_read(const diti_checkpoint *checkpoint, const diti_stored_tensor *tensor,
                                             uint64_t offset, void *out, size_t size, dit_error *err);
/* Reads all PyTorch archives among its files wholly and compares every entry with its CRC-32, at 1 to 2 GB/s; other
   files have no checksums. Opening a checkpoint compares only what says where tensors are. For tools. */
DIT_INTERNAL DITI_UNUSED dit_result diti_checkpoint_verify(const diti_checkpoint *checkpoint, dit_error *err);
/* Fails for a type that is not read, and names it. */
DIT_INTERNAL dit_result diti_checkpoint_refuse_type(const diti_checkpoint *checkpoint, const diti_stored_tensor *tensor,
                                                    dit_error *err);
/* The whole tensor as float32, count elements, factors within; for small tables read on the host. */
DIT_INTERNAL dit_result diti_checkpoint_read_float(const diti_checkpoint *checkpoint, const diti_stored_tensor *tensor,
                                                   float *out, uint64_t count, dit_error *err);
/* Its elements [first, first + count), both multiples of the type's block. */
DIT_INTERNAL dit_result diti_checkpoint_read_range(const diti_checkpoint *checkpoint, const diti_stored_tensor *tensor,
                                                   uint64_t first, float *out, uint64_t count, dit_error *err);
/* Text metadata: safetensors __metadata__, GGUF string values (numbers printed). NULL when absent. */
DIT_INTERNAL const char *diti_checkpoint_text(const diti_checkpoint *checkpoint, const char *key);
/* A GGUF array value: raw little-endian elements of number arrays, aligned for their type. false when absent. The view
   lives as long as the checkpoint. */
DIT_INTERNAL bool diti_checkpoint_array(const diti_checkpoint *checkpoint, const char *key, const void **data,
                                        uint64_t *count, uint32_t *gguf_type);
/* A GGUF string array element; NULL past the end. */
DIT_INTERNAL const char *diti_checkpoint_array_text(const diti_checkpoint *checkpoint, const char *key, uint64_t index,
                                                    size_t *length);

/* --- int8 rows: a matrix NAME [rows, columns] of type I8 (GGUF, safetensors) whose row r times element r of NAME_scale
   [rows] or [rows, 1] (any float type) is the weight. Where the file's metadata holds "dit.rotation.NAME" = 256, every
   256 values of a row are multiplied by the regular Hadamard matrix H (the Kronecker product of four times [1 1 1 -1; 1
   1 -1 1; 1 -1 1 1; -1 1 1 1] / 2, symmetric and its own inverse), and what the matrix is multiplied with must be too.
   --- */
#define DITI_ROTATION_GROUP 256u
#define DITI_ROTATION_KEY "dit.rotation."
#define DITI_SCALE_SUFFIX "_scale"
#define DITI_I8_BLOCK 32u                         /* columns that have a scale of their own, where not a row has one */
#define DITI_I8_MAX_COLUMNS 132104u               /* sums of so many products of -128..127 and -127..127 fit 32 bits */
DIT_INTERNAL bool diti_type_is_i8(dit_type type); /* rows with a scale, for activations of int8 */
DIT_INTERNAL bool diti_type_is_rotated(dit_type type); /* I8_ROW_ROTATED or I4_ROW_ROTATED */
/* wanted, or I8_ROW where groups do not fill a row that should be rotated. */
DIT_INTERNAL dit_type diti_i8_type(dit_type wanted, uint32_t columns);
/* count is a multiple of the group. */
DIT_INTERNAL void diti_rotate_row(float *values, uint32_t count);
/* scale = amax / 127, 0 for rows of nothing; ties to even. false for a value that is not finite. */
DIT_INTERNAL bool diti_quantize_row(const float *values, uint32_t count, int8_t *out, float *scale);
/* Rows of I4_ROW_ROTATED: scale = amax / 7, and values become whole numbers in place. */
DIT_INTERNAL bool diti_quantize_row_4(float *values, uint32_t count, float *scale);
/* Which of them an I8 tensor is. */
DIT_INTERNAL dit_result diti_i8_stored_type(const diti_checkpoint *checkpoint, const diti_stored_tensor *tensor,
                                            dit_type *out, dit_error *err);
/* The tensor that holds its scales, of the right shape; their values are not looked at. */
DIT_INTERNAL dit_result diti_i8_find_scales(const diti_checkpoint *checkpoint, const diti_stored_tensor *tensor,
                                            uint32_t rows, const diti_stored_tensor **out, dit_error *err);
/* Scales of rows [first, first + rows), which are whole blocks of the scales' type. */
DIT_INTERNAL dit_result diti_i8_read_scales(const diti_checkpoint *checkpoint, const diti_stored_tensor *tensor,
                                            uint32_t first, float *out, uint32_t rows, dit_error *err);

/* I8 tensors that are blocks, rows of 4 bit or rotated rows by what files say of them get that type; for
   diti_checkpoint_open. */
DIT_INTERNAL dit_result diti_checkpoint_name_types(diti_checkpoint *checkpoint, dit_error *err);
/* The tensor whose name ends in other where tensor's ends in ending; NULL: there is none. */
DIT_INTERNAL const diti_stored_tensor *diti_stored_sibling(const diti_checkpoint *checkpoint,
                                                           const diti_stored_tensor *tensor, const char *ending,
                                                           const char *other);
/* ComfyUI's description of a weight; NULL: there is none. */
DIT_INTERNAL const diti_stored_tensor *diti_comfy_marker(const diti_checkpoint *checkpoint,
                                                         const diti_stored_tensor *tensor);

/* --- factors: a matrix NAME of 8-bit floats may have NAME_scale beside it (M.scale_weight for M.weight in older
   files), and one of NVFP4 M.weight_scale_2 (in GGUF M.scale): one float for all rows, or one for each, [rows] or
   [rows, 1]. The weight is value * factor of its row. --- */
DIT_INTERNAL bool diti_type_has_factors(dit_type type); /* matrices of the type may have factors */
/* The tensor of a matrix's factors; NULL: it has none. */
DIT_INTERNAL const diti_stored_tensor *diti_factor_find(const diti_checkpoint *checkpoint,
                                                        const diti_stored_tensor *tensor);
/* Whether they are floats, as many as rows or one; their values are not looked at. DIT_OK where there are none. */
DIT_INTERNAL dit_result diti_factor_check(const diti_checkpoint *checkpoint, const diti_stored_tensor *tensor,
                                          dit_error *err);
/* The factors of rows [first, first + count) of a matrix that has them. */
DIT_INTERNAL dit_result diti_factor_read(const diti_checkpoint *checkpoint, const diti_stored_tensor *tensor,
                                         uint64_t first, uint64_t count, float *out, dit_error *err);
/* Multiplies elements [first, first + count) of a matrix, which stand in values, with their rows' factors. */
DIT_INTERNAL dit_result diti_factor_apply(const diti_checkpoint *checkpoint, const diti_stored_tensor *tensor,
                                          uint64_t first, uint64_t count, float *values, dit_error *err);

/* --- inside the room: NVFP4 in ComfyUI's files (nvfp4.c), whose blocks are made when they are read --- */
typedef struct diti_nvfp4_pair {
    uint64_t columns;
    uint32_t scales_file;
    uint64_t scales; /* place in that file; that of the values is the tensor's */
} diti_nvfp4_pair;
/* Makes a tensor of bytes one of NVFP4, with the scales and the factor beside it. */
DIT_INTERNAL dit_result diti_nvfp4_name(diti_checkpoint *checkpoint, diti_stored_tensor *tensor, dit_error *err);
DIT_INTERNAL dit_result diti_nvfp4_read(const diti_checkpoint *checkpoint, const diti_stored_tensor *tensor,
                                        uint64_t offset, unsigned char *out, size_t size, dit_error *err);

/* --- inside the room: weights as PyTorch's weight_norm keeps them (checkpoint.c): the rows of NAME.weight are those of
   NAME.weight_v with the lengths in NAME.weight_g, a row being all that has one first index --- */
typedef struct diti_row_lengths {
    uint32_t file;
    uint64_t offset; /* place of the lengths, which are F32, in that file */
} diti_row_lengths;

/* --- inside the room: IQ4_NL and IQ4_XS (iq4.c), which are read as Q8_0 --- */
/* For a tensor of any type, when its place in the file is known. */
DIT_INTERNAL void diti_iq4_name(diti_stored_tensor *tensor);
/* Bytes [offset, offset + size) of the tensor as Q8_0, or of its floats. */
DIT_INTERNAL dit_result diti_iq4_read(const diti_checkpoint *checkpoint, const diti_stored_tensor *tensor, bool floats,
                                      uint64_t offset, unsigned char *out, size_t size, dit_error *err);

/* --- low-rank parts and smoothing: a matrix NAME may have these beside it, and y = (x / NAME_smooth) NAME^T + (x
   NAME_lora_down^T) NAME_lora_up^T then (docs/quantized.md). --- */
#define DITI_LOW_RANK_DOWN "_lora_down"
#define DITI_LOW_RANK_UP "_lora_up"
#define DITI_LOW_RANK_SMOOTH "_smooth"
#define DITI_FACTOR_SUFFIX "_factor" /* factors of NVFP4 */

/* --- inside the room: nunchaku's files (docs/quantized.md), whose layers are in the order in which its kernels load
   them, in tiles of 128 rows and columns. The tensors of a checkpoint are made of them: rows of Q4_0, Q4_1, I4_GROUP
   and NVFP4, and floats, under diffusers' names. --- */
#define DITI_NUNCHAKU_TILE 128u
#define DITI_NUNCHAKU_GROUP 64u /* columns that share a scale */
#define DITI_NUNCHAKU_PACK 16u  /* rows and columns of a tile of a low-rank part */
typedef enum diti_nunchaku_part {
    DITI_NUNCHAKU_VALUES,
    DITI_NUNCHAKU_SCALES,
    DITI_NUNCHAKU_ZEROS, /* layers of AWQ's order alone have them */
    DITI_NUNCHAKU_BIAS,
    DITI_NUNCHAKU_SMOOTH,
    DITI_NUNCHAKU_DOWN,
    DITI_NUNCHAKU_UP,
    DITI_NUNCHAKU_ROW_FACTORS, /* layers of fp4 alone have these two */
    DITI_NUNCHAKU_FACTOR,
    DITI_NUNCHAKU_PARTS
} diti_nunchaku_part;
typedef struct diti_nunchaku_layer {
    const diti_stored_tensor *parts[DITI_NUNCHAKU_PARTS]; /* in the file; NULL: absent */
    uint32_t rows, columns, tile_rows, tile_columns;      /* sizes of the matrix, and of its tiles */
    uint32_t splits; /* not 0: the layer is in AWQ's order, and row r of the file is row r / splits of what is number
                        r % splits of so many (shifts, scales, gates); 1: a text encoder's, whose rows stay */
    uint32_t group;  /* columns that share a scale, in AWQ's order */
    bool shifted;    /* x is what GELU makes, and nunchaku adds a constant to it, which the bias takes away again */
    bool fp4;        /* values are E2M1, with scales of E4M3 for 16 columns */
} diti_nunchaku_layer;
typedef struct diti_nunchaku_tensor {
    diti_nunchaku_part part;
    const diti_nunchaku_layer *layers[2]; /* columns of the second one, if any, follow those of the first */
    uint32_t first;                       /* row of the layers that is its first */
} diti_nunchaku_tensor;
/* Puts tensors as diffusers calls them in the place of nunchaku's; DIT_OK where there are none of those. */
DIT_INTERNAL dit_result diti_checkpoint_name_nunchaku(diti_checkpoint *checkpoint, dit_error *err);
/* Bytes [offset, offset + size) of a tensor that is made (nunchaku_read.c). */
DIT_INTERNAL dit_result diti_nunchaku_read(const diti_checkpoint *checkpoint, const diti_stored_tensor *tensor,
                                           uint64_t offset, unsigned char *out, size_t size, dit_error *err);

/* --- packages: a pipeline's parts, from a diffusers folder or from one GGUF written by dit-convert ---
   In such a GGUF every small file of the folder stands under the key "dit.file.<path>" (u8 array) and every tensor is
   named
   "<component>.<tensor>" with component transformer, text_encoder, vae. Other single files hold one component or
   several under known prefixes (docs/models.md 3, 9.3). */
typedef struct diti_package diti_package;
DIT_INTERNAL dit_result diti_package_open(const diti_env *env, const dit_source *source, diti_package **out,
                                          dit_error *err);
DIT_INTERNAL void diti_package_close(diti_package *package); /* NULL is fine */
DIT_INTERNAL bool diti_package_is_folder(const diti_package *package);
/* Bytes that the checkpoints opened so far lack: see diti_checkpoint_absent. */
DIT_INTERNAL uint64_t diti_package_absent(const diti_package *package);
/* A small file by its path in the repository ("scheduler/scheduler_config.json"); *out is NULL when there is none.
   Freed with diti_free. A NUL is appended. A single file may hold spiece.model as a tensor of bytes. */
#define DITI_WORDS_TENSOR "spiece_model"
DIT_INTERNAL dit_result diti_package_read(const diti_package *package, const char *path, char **out, size_t *size,
                                          dit_error *err);
/* The tensors of a component ("transformer", "text_encoder", "vae"; "" = the file itself, or the weights beside
   config.json in a component's own folder) and the prefix their names carry in that checkpoint; DIT_OK with *out = NULL
   when the package has none. Owned by the package. */
DIT_INTERNAL dit_result diti_package_component(diti_package *package, const char *component,
                                               const diti_checkpoint **out, const char **prefix, dit_error *err);

/* --- inside the room: what the parsers of safetensors and GGUF share --- */
/* GGUF value types, also the element types that diti_checkpoint_array reports. */
enum {
    DITI_GGUF_U8,
    DITI_GGUF_I8,
    DITI_GGUF_U16,
    DITI_GGUF_I16,
    DITI_GGUF_U32,
    DITI_GGUF_I32,
    DITI_GGUF_F32,
    DITI_GGUF_BOOL,
    DITI_GGUF_STRING,
    DITI_GGUF_ARRAY,
    DITI_GGUF_U64,
    DITI_GGUF_I64,
    DITI_GGUF_F64
};

typedef struct diti_text {
    const char *text; /* NUL-terminated */
    size_t length;
} diti_text;

typedef struct diti_meta {
    const char *name; /* first, as diti_name_index wants it */
    const char *text; /* strings and numbers; NULL for arrays */
    uint32_t type;    /* type of the value or of the array's elements */
    bool array;
    uint64_t count;         /* 1 unless an array */
    const void *data;       /* numbers, aligned to 16 bytes */
    const diti_text *texts; /* string arrays */
} diti_meta;

/* Finds structs in an array by the name that is their first member. */
typedef struct diti_name_index {
    uint32_t *slots; /* index + 1; 0: free */
    size_t size;     /* a power of two */
} diti_name_index;

typedef struct diti_metadata {
    diti_meta *items;
    size_t count, capacity;
    diti_name_index index;
} diti_metadata;

struct diti_checkpoint {
    diti_env env;
    diti_file **files;
    size_t file_count, file_capacity;
    diti_stored_tensor *tensors;
    size_t tensor_count, tensor_capacity;
    diti_stored_tensor *packed; /* a file's own tensors, where others are made of them (nunchaku.c); else NULL */
    diti_name_index index;
    diti_metadata metadata; /* metadata of the first file */
    uint64_t absent;        /* see diti_checkpoint_absent */
    void *chunks;           /* memory of names and metadata, freed with the checkpoint */
    bool joined;            /* files are other checkpoints' */
};

/* A type as a file names it, with the bytes that it takes, whether dit.h reads it or not. */
typedef struct diti_format_type {
    const char *name;
    uint32_t id; /* GGUF's number */
    dit_type type;
    uint32_t block, bytes;
} diti_format_type;

DIT_INTERNAL bool diti_name_find(const diti_name_index *index, const void *items, size_t stride, const char *name,
                                 size_t *out);
/* Two items with one name are an error that calls them what ("tensor"). */
DIT_INTERNAL dit_result diti_name_build(const diti_env *env, diti_name_index *index, const void *items, size_t stride,
                                        size_t count, const char *file, const char *what, dit_error *err);
/* Memory that lives as long as the checkpoint, 16-byte aligned; NULL when there is none. */
DIT_INTERNAL void *diti_checkpoint_keep(diti_checkpoint *checkpoint, size_t size);
/* A NUL-terminated copy. */
DIT_INTERNAL char *diti_checkpoint_keep_text(diti_checkpoint *checkpoint, const char *text, size_t length);
DIT_INTERNAL void diti_checkpoint_free_kept(diti_checkpoint *checkpoint); /* frees everything that was kept */
DIT_INTERNAL dit_result diti_no_memory(const char *name, dit_error *err);
/* Adds a tensor of the newest file. Fills in type, file and size from format and the shape (its last dimension is the
 * row). */
DIT_INTERNAL dit_result diti_checkpoint_add(diti_checkpoint *checkpoint, diti_stored_tensor *tensor,
                                            const diti_format_type *format, dit_error *err);
/* Turns the offsets of the tensors from first on, so far relative to data_offset, into offsets in the newest file;
   refuses those outside the file and those that overlap. */
DIT_INTERNAL dit_result diti_checkpoint_place(diti_checkpoint *checkpoint, size_t first, uint64_t data_offset,
                                              dit_error *err);
DIT_INTERNAL dit_result diti_metadata_add(diti_checkpoint *checkpoint, diti_metadata *metadata, const diti_meta *meta,
                                          dit_error *err);
DIT_INTERNAL dit_result diti_metadata_finish(diti_checkpoint *checkpoint, diti_metadata *metadata, dit_error *err);
DIT_INTERNAL const diti_meta *diti_metadata_find(const diti_metadata *metadata, const char *name);
DIT_INTERNAL void diti_metadata_free(const diti_env *env, diti_metadata *metadata);
/* Parse the newest file and add its tensors. */
DIT_INTERNAL dit_result diti_safetensors_parse(diti_checkpoint *checkpoint, dit_error *err);
DIT_INTERNAL const diti_format_type *diti_safetensors_find_type(const char *name); /* NULL: unknown */
DIT_INTERNAL dit_result diti_gguf_parse(diti_checkpoint *checkpoint, uint32_t *split_number, uint32_t *split_count,
                                        dit_error *err);
DIT_INTERNAL DITI_UNUSED uint32_t diti_gguf_code(dit_type type); /* GGUF's number of a type; F32's where it has none */
DIT_INTERNAL dit_result diti_pytorch_parse(diti_checkpoint *checkpoint, dit_error *err);

/* --- inside the room: PyTorch checkpoints are zip archives with a pickle that says which bytes are which tensor --- */
typedef struct diti_zip_entry {
    const char *name;
    uint64_t offset, size; /* range of the entry's bytes in the file */
    uint32_t crc;          /* 0: not computed */
} diti_zip_entry;
typedef struct diti_zip {
    diti_zip_entry *entries;
    size_t count;
    diti_name_index index;
    unsigned char *directory; /* memory of the names */
} diti_zip;
DIT_INTERNAL dit_result diti_zip_open(const diti_env *env, const diti_file *file, diti_zip *out, dit_error *err);
DIT_INTERNAL void diti_zip_free(const diti_env *env, diti_zip *zip);
DIT_INTERNAL const diti_zip_entry *diti_zip_find(const diti_zip *zip, const char *name); /* NULL: absent */
/* Reads all bytes of an entry and compares their CRC-32 with what the archive says; DIT_OK where it says none. */
DIT_INTERNAL dit_result diti_zip_check(const diti_env *env, const diti_file *file, const diti_zip_entry *entry,
                                       dit_error *err);

typedef enum diti_pickle_callable { /* the names that a pickle may use */
                                    DITI_PICKLE_ORDERED_DICT,
                                    DITI_PICKLE_TENSOR_V2,
                                    DITI_PICKLE_TENSOR_V3,
                                    DITI_PICKLE_PARAMETER,
                                    DITI_PICKLE_NAMESPACE,
                                    DITI_PICKLE_SIZE,
                                    DITI_PICKLE_TYPE
} diti_pickle_callable;
typedef enum diti_pickle_kind {
    DITI_PICKLE_OTHER, /* None, True, a float, ...: nobody asks */
    DITI_PICKLE_MARK,
    DITI_PICKLE_INTEGER,
    DITI_PICKLE_TEXT,
    DITI_PICKLE_TUPLE,
    DITI_PICKLE_LIST,
    DITI_PICKLE_DICTIONARY,
    DITI_PICKLE_RECORD,
    DITI_PICKLE_GLOBAL,
    DITI_PICKLE_STORAGE,
    DITI_PICKLE_TENSOR
} diti_pickle_kind;
#define DITI_PICKLE_END UINT32_MAX
typedef struct diti_pickle_value {
    diti_pickle_kind kind;
    uint32_t count;       /* items of tuples, storages and tensors (their arguments), pairs of dictionaries, bytes */
    uint32_t first, last; /* item or pair */
    int64_t number;       /* integers; callables; tensors: 1 when their arguments tell the type */
    const char *text;     /* in the pickle, without a NUL; GLOBAL: a type as safetensors calls it, or NULL */
} diti_pickle_value;
typedef struct diti_pickle_pair {
    uint32_t key, value, next; /* next pair of the dictionary or DITI_PICKLE_END */
} diti_pickle_pair;
typedef struct diti_pickle {
    diti_pickle_value *values;
    size_t value_count, value_capacity;
    uint32_t *items; /* values of tuples */
    size_t item_count, item_capacity;
    diti_pickle_pair *pairs;
    size_t pair_count, pair_capacity;
    uint32_t root; /* item that was pickled */
} diti_pickle;
/* bytes must live as long as the pickle, and have less than 2^31 of them. file is for messages. */
DIT_INTERNAL dit_result diti_pickle_parse(const diti_env *env, const void *bytes, size_t size, const char *file,
                                          diti_pickle *out, dit_error *err);
DIT_INTERNAL void diti_pickle_free(const diti_env *env, diti_pickle *pickle);
#endif
