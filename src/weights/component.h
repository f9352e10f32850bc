/* component: how a part of a pipeline, transformer, text encoder or autoencoder, is loaded: which names its file has,
   sizes from shapes and config.json, memory, weights. */
#ifndef DITI_COMPONENT_H
#define DITI_COMPONENT_H
#include "weights/weights.h"
#include "io/io.h"

/* Names of tensors in files of another code base: BEFORE3.NAME is stored as AFTER3.STORED, by the longest of the pairs
   (asked for, stored) that NAME begins with. before NULL: the whole name is NAME. pairs NULL: AFTER stands before any
   name. */
typedef struct diti_key_table {
    const char *before, *after;
    const char *const (*pairs)[2];
    size_t count;
} diti_key_table;
#define DITI_KEY_TABLES 5u
/* A loader's rename. user: const diti_key_table [DITI_KEY_TABLES], of which the first that has the name counts; tables
   that are zero have none. */
DIT_INTERNAL const char *diti_rename_by_tables(void *user, const char *name, char *out, size_t size);

/* Sizes of a configuration, a struct: what a tensor's shape says, and what config.json says instead of what is there.
 */
typedef struct diti_shape_key {
    size_t member; /* offsetof a uint32_t */
    const char *tensor;
    uint32_t index;
} diti_shape_key;
typedef struct diti_size_key {
    size_t member;
    const char *key;
    uint32_t most;
} diti_size_key;
DIT_INTERNAL void diti_read_shapes(diti_loader *loader, void *config, const diti_shape_key *keys, size_t count);
DIT_INTERNAL void diti_read_sizes(diti_settings *settings, void *config, const diti_size_key *keys, size_t count);
/* A size that a configuration must have, and what a file lacks where it is 0. */
typedef struct diti_need {
    size_t member;
    const char *part;
} diti_need;
/* title: of the model. The error names the first part that is missing. */
DIT_INTERNAL DITI_UNUSED dit_result diti_config_complete(const diti_loader *loader, const void *config,
                                                         const char *title, const diti_need *needs, size_t count,
                                                         dit_error *err);

/* Matrices that read the same (q, k, v), which other files have as one. */
typedef struct diti_fused {
    const char *fused, *names[3];
    uint32_t count; /* number of names */
} diti_fused;
/* rows, columns: of each. With a rename the file has the fused one, unless it has the first of the others. */
DIT_INTERNAL void diti_load_fused(diti_loader *loader, diti_fused_linear *out, const diti_fused *names, uint32_t rows,
                                  uint32_t columns);
/* Matrices without biases. */
DIT_INTERNAL void diti_load_fused_bare(diti_loader *loader, diti_fused_linear *out, const diti_fused *names,
                                       uint32_t rows, uint32_t columns);

typedef struct diti_component diti_component;
typedef struct diti_component_kind {
    const char *what; /* "transformer": for progress and messages */
    const char *role; /* rules of types name tensors ROLE.NAME */
    size_t size;      /* bytes of the struct that begins with a diti_component */
    /* The configuration, from shapes and config (may be NULL). */
    dit_result (*read)(diti_component *component, diti_loader *loader, const diti_json *config, dit_error *err);
    void (*load)(diti_component *component, diti_loader *loader); /* asks for all weights; errors stick to the loader */
    /* The last word, when all weights are there; NULL: there is none. */
    dit_result (*finish)(diti_component *component, const diti_json *config, dit_error *err);
} diti_component_kind;
struct diti_component {  /* first member of every part's own struct */
    diti_device *device; /* NULL after a dry run */
    diti_env env;
    diti_weights weights;
    struct diti_component_block *arrays;
};
typedef struct diti_component_source {
    diti_device *device; /* NULL: a dry run, only shapes and sizes */
    const diti_env *env;
    const diti_json *config; /* NULL: there is none */
    const diti_checkpoint *checkpoint;
    const char *prefix;               /* in front of every stored name */
    const diti_load_options *options; /* NULL: nothing is asked for */
    const diti_key_table *keys;       /* the file's names; NULL: those that are asked for */
    const diti_key_table *originals;  /* the original's names, whatever the file's; NULL: keys */
} diti_component_source;
/* Whether the file has a tensor of that name. */
DIT_INTERNAL bool diti_component_has(const diti_component_source *from, const char *name);
DIT_INTERNAL dit_result diti_component_load(const diti_component_kind *kind, const diti_component_source *from,
                                            diti_component **out, dit_error *err);
/* Zeroes that are freed with the component; NULL: the loader has failed. */
DIT_INTERNAL void *diti_component_array(diti_component *component, diti_loader *loader, size_t count, size_t size);
DIT_INTERNAL void diti_component_free(diti_component *component); /* NULL is fine */
#endif
