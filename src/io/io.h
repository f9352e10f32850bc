/* io: files, safetensors, GGUF; a checkpoint is tensors by name, a package is a whole pipeline: small files by path and tensors by component. */
#ifndef DITI_IO_H
#define DITI_IO_H
#include "base/base.h"

/* --- files: random access to bytes from a path (mapped), from memory, or through callbacks --- */
typedef struct diti_file diti_file;
/* Opens the bytes of source (path of a file, data+size, or read_at+size). name is for messages and copied. */
DIT_INTERNAL dit_result diti_file_open(const diti_env *env, const dit_source *source, const char *name, diti_file **out, dit_error *err);
DIT_INTERNAL void diti_file_close(diti_file *file); /* NULL is fine */
DIT_INTERNAL uint64_t diti_file_size(const diti_file *file);
DIT_INTERNAL const char *diti_file_name(const diti_file *file);
/* Copies size bytes from offset; a range outside the file is DIT_ERROR_BAD_FILE, a failing callback DIT_ERROR_IO. */
DIT_INTERNAL dit_result diti_file_read(const diti_file *file, uint64_t offset, void *out, size_t size, dit_error *err);
/* The mapped or given bytes, valid while the file is open; NULL for callback sources: use diti_file_read. */
DIT_INTERNAL const void *diti_file_view(const diti_file *file, uint64_t offset, size_t size);

/* --- stored types --- */
DIT_INTERNAL const char *diti_type_name(dit_type type);          /* "Q8_0" */
DIT_INTERNAL bool diti_type_from_name(const char *name, dit_type *out); /* case-insensitive: "q8_0", "f16" */
DIT_INTERNAL uint32_t diti_type_block(dit_type type);            /* elements per block: 1, 32 or 256 */
DIT_INTERNAL uint32_t diti_type_block_bytes(dit_type type);
/* Bytes of rows x row_length elements; false when row_length is no multiple of the block or the product overflows. */
DIT_INTERNAL bool diti_type_bytes(dit_type type, uint64_t rows, uint64_t row_length, uint64_t *out);
/* Exact float values of count elements (a multiple of the block) as ggml defines them (models.md 9.2). */
DIT_INTERNAL void diti_type_to_float(dit_type type, const void *blocks, uint64_t count, float *out);

/* --- checkpoints: tensors by name, whatever the file --- */
typedef struct diti_stored_tensor {
    const char *name;
    dit_type type;
    uint32_t rank;      /* 0..5 */
    uint64_t shape[5];  /* torch order: slowest first. GGUF's dims are reversed on reading, orig_shape metadata is honoured */
    uint64_t size;      /* bytes */
    uint64_t offset;    /* in its file */
    uint32_t file;
} diti_stored_tensor;
typedef struct diti_checkpoint diti_checkpoint;
/* A safetensors file, a *.safetensors.index.json with its shards, a GGUF file (or the first of name-00001-of-0000N.gguf). */
DIT_INTERNAL dit_result diti_checkpoint_open(const diti_env *env, const dit_source *source, diti_checkpoint **out, dit_error *err);
DIT_INTERNAL void diti_checkpoint_close(diti_checkpoint *checkpoint);
DIT_INTERNAL uint32_t diti_checkpoint_count(const diti_checkpoint *checkpoint);
DIT_INTERNAL const diti_stored_tensor *diti_checkpoint_tensor(const diti_checkpoint *checkpoint, uint32_t index);
DIT_INTERNAL const diti_stored_tensor *diti_checkpoint_find(const diti_checkpoint *checkpoint, const char *name); /* hashed; NULL when absent */
/* Copies stored bytes [offset, offset+size) of a tensor. */
DIT_INTERNAL dit_result diti_checkpoint_read(const diti_checkpoint *checkpoint, const diti_stored_tensor *tensor, uint64_t offset, void *out, size_t size, dit_error *err);
/* The whole tensor as float32, count elements; for small tables read on the host. */
DIT_INTERNAL dit_result diti_checkpoint_read_float(const diti_checkpoint *checkpoint, const diti_stored_tensor *tensor, float *out, uint64_t count, dit_error *err);
/* Text metadata: safetensors __metadata__, GGUF string values (numbers printed). NULL when absent. */
DIT_INTERNAL const char *diti_checkpoint_text(const diti_checkpoint *checkpoint, const char *key);
/* A GGUF array value: raw little-endian elements of u8/i32/u32/f32 arrays. false when absent. The view lives as long as the checkpoint. */
DIT_INTERNAL bool diti_checkpoint_array(const diti_checkpoint *checkpoint, const char *key, const void **data, uint64_t *count, uint32_t *gguf_type);
/* A GGUF string array element; NULL past the end. */
DIT_INTERNAL const char *diti_checkpoint_array_text(const diti_checkpoint *checkpoint, const char *key, uint64_t index, size_t *length);

/* --- packages: a pipeline's parts, from a diffusers folder or from one GGUF written by dit-convert ---
   In such a GGUF every small file of the folder stands under the key "dit.file.<path>" (u8 array) and every tensor is named
   "<component>.<tensor>" with component transformer, text_encoder, vae. Other single files hold one component or several
   under known prefixes (models.md 3, 9.3). */
typedef struct diti_package diti_package;
DIT_INTERNAL dit_result diti_package_open(const diti_env *env, const dit_source *source, diti_package **out, dit_error *err);
DIT_INTERNAL void diti_package_close(diti_package *package);
/* A small file by its path in the repository ("scheduler/scheduler_config.json"); *out is NULL when there is none. Freed with diti_free. A NUL is appended. */
DIT_INTERNAL dit_result diti_package_read(const diti_package *package, const char *path, char **out, size_t *size, dit_error *err);
/* The tensors of a component ("transformer", "text_encoder", "vae"; "" = the file itself) and the prefix their names carry in that
   checkpoint; DIT_OK with *out = NULL when the package has none. Owned by the package. */
DIT_INTERNAL dit_result diti_package_component(diti_package *package, const char *component, const diti_checkpoint **out, const char **prefix, dit_error *err);
#endif
