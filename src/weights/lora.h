/* lora: adapters of linear layers (docs/models.md 9.5): files by any of their names, what they add to a weight, and
   their matrices on the device. An adapter adds scale * up * down to a weight [rows, columns], computed beside the
   weight's product, or added to its rows when they are loaded. */
#ifndef DITI_LORA_H
#define DITI_LORA_H
#include "weights/component.h"

/* --- files --- */
typedef enum diti_lora_slot {                 /* part that a tensor has in its module */
                              DITI_LORA_DOWN, /* LoRA: down [r, columns], up [rows, r] */
                              DITI_LORA_UP,
                              DITI_LORA_MID, /* Tucker factors [r, r, taps]: of a convolution's down, 1b, 2b and LoKr's
                                                2b [r, channels], whose rows they mix for each tap */
                              DITI_LOHA_1A,  /* LoHa: (1a * 1b) o (2a * 2b), elementwise; a [rows, r], b [r, columns];
                                                a [r, rows] beside a Tucker factor, LoKr's, too */
                              DITI_LOHA_1B,
                              DITI_LOHA_2A,
                              DITI_LOHA_2B,
                              DITI_LOHA_T1,
                              DITI_LOHA_T2,
                              DITI_LOKR_1, /* LoKr: the Kronecker product of 1 and 2, each whole or a * b */
                              DITI_LOKR_1A,
                              DITI_LOKR_1B,
                              DITI_LOKR_2,
                              DITI_LOKR_2A,
                              DITI_LOKR_2B,
                              DITI_LOKR_T2,
                              DITI_LORA_DIFF, /* the difference itself: of a weight, or of any vector */
                              DITI_LORA_DIFF_BIAS,
                              DITI_LORA_UP_BIAS,   /* as that, times the scale of the LoRA whose up has it */
                              DITI_LORA_MAGNITUDE, /* DoRA: of rows or of columns of the sum */
                              DITI_LORA_ALPHA,
                              DITI_LORA_SLOTS
} diti_lora_slot;
typedef enum diti_lora_kind {
    DITI_KIND_LORA,
    DITI_KIND_LOHA,
    DITI_KIND_LOKR,
    DITI_KIND_DIFF,
    DITI_LORA_KINDS
} diti_lora_kind;
typedef struct diti_lora_module {
    const char *name; /* as in the file, without what stands before and behind it; in the checkpoint's memory */
    dit_role part;    /* DIT_ROLE_TRANSFORMER, or a text encoder */
    bool bias;        /* the difference of a bias; the rest of that layer is a module of its own */
    diti_lora_kind kind;
    const diti_stored_tensor *tensors[DITI_LORA_SLOTS];
    uint32_t rows, columns, rank; /* rank: what alpha is divided by; 0: nothing */
    uint32_t rows2, columns2;     /* LoKr: of the second factor */
    uint32_t share;               /* DoRA: columns that share a magnitude; 0: each row has one */
    double *norms;                /* DoRA of columns: squares of the sum's, by magnitude, while they are needed */
    double scale;
    bool fits;                      /* the model has it */
    bool doubled;                   /* another module of the file is about the same rows: this one does not count */
    float *values[DITI_LORA_SLOTS]; /* while they are needed; of LoKr 1 and 2 are whole then */
} diti_lora_module;
typedef struct diti_lora_file {
    diti_env env;
    diti_checkpoint *checkpoint;
    diti_json *config; /* adapter_config.json, or what the metadata has in its place; NULL: neither is there */
    bool prefixed;     /* keys of config begin with "transformer." */
    diti_lora_module *modules;
    size_t module_count, module_capacity;
    uint32_t foreign; /* tensors that are nothing of an adapter, and the first of them */
    const diti_stored_tensor *first_foreign;
} diti_lora_file;
/* Opens a file, or PEFT's or diffusers' folder with adapter_config.json. */
DIT_INTERNAL dit_result diti_lora_open(const diti_env *env, const dit_source *source, diti_lora_file **out,
                                       dit_error *err);
DIT_INTERNAL void diti_lora_close(diti_lora_file *file); /* NULL is fine */
/* Steps and guidance that a distilled model wants with it, by its metadata or its name; 0: it says nothing. */
DIT_INTERNAL void diti_lora_defaults(const diti_lora_file *file, uint32_t *steps, float *guidance);

/* --- modules of a model (lora_match.c) --- */
typedef struct diti_lora_scope { /* a part's weights */
    dit_role part;               /* the part that the file means */
    const diti_weights *weights;
} diti_lora_scope;
typedef struct diti_lora_match {
    diti_lora_module *module;
    const diti_target *target;
    uint32_t first, row, rows; /* rows [first, first + rows) of the module are the weight's from row on */
} diti_lora_match;
typedef struct diti_lora_matches {
    diti_lora_match *list;
    size_t count, capacity;
} diti_lora_matches;
/* Finds all modules of the file that are of one of the scopes. A module of another shape, or one of which some rows are
   nowhere, is refused; those that a scope has not stay with fits false. Files may have a layer twice, in the names of
   two code bases, or in parts and fused: the first counts. */
DIT_INTERNAL dit_result diti_lora_match_scopes(diti_lora_file *file, const diti_lora_scope *scopes, size_t count,
                                               diti_lora_matches *out, dit_error *err);
/* Whether a module, which is not `besides`, was matched with some of the target's rows. */
DIT_INTERNAL bool diti_lora_matches_have(const diti_lora_matches *matches, const diti_target *target,
                                         const diti_lora_module *besides);
/* Refuses a file of which nothing fits, and warns of what does not. */
DIT_INTERNAL dit_result diti_lora_check_fits(const diti_lora_file *file, dit_error *err);

/* --- values (lora_values.c) --- */
DIT_INTERNAL dit_result diti_lora_read(const diti_lora_file *file, diti_lora_module *module, dit_error *err);
DIT_INTERNAL void diti_lora_forget(const diti_lora_file *file, diti_lora_module *module);
/* The slot of a module that is a difference. */
DIT_INTERNAL diti_lora_slot diti_lora_diff_slot(const diti_lora_module *module);
/* The Tucker factor of a slot of rank times channels, b; NULL: none. *taps: how many columns a channel has. */
DIT_INTERNAL const diti_stored_tensor *diti_lora_tucker(const diti_lora_module *module, uint32_t b, uint32_t *taps);
/* The difference that a module adds to value `index` of a vector. */
DIT_INTERNAL float diti_lora_value(const diti_lora_module *module, uint32_t index);
/* out [columns] += weight * row `row` of what the module adds. */
DIT_INTERNAL void diti_lora_add_row(const diti_lora_module *module, uint32_t row, double weight, float *out);
/* How many columns lie between up [rows, thin] and down [thin, columns], whose product is the module's delta without
   its scale; 0: as many as would cost more than the delta itself. */
DIT_INTERNAL uint32_t diti_lora_thin(const diti_lora_module *module);
/* Rows of up, and all of down; pitch: elements from row to row of up. */
DIT_INTERNAL void diti_lora_up(const diti_lora_module *module, uint32_t first, uint32_t rows, uint32_t pitch,
                               float *out);
DIT_INTERNAL void diti_lora_down(const diti_lora_module *module, float *out);
/* DoRA: a row of the weight becomes that of the weight with the module, which is scaled to its magnitude. */
DIT_INTERNAL void diti_dora_apply_row(const diti_lora_module *module, uint32_t row, double weight, float *values);
/* The largest absolute value of so many. */
DIT_INTERNAL float diti_lora_largest(const float *values, uint64_t count);
/* No value of either is larger. */
DIT_INTERNAL void diti_lora_bounds(const diti_lora_module *module, float *up, float *down);

/* --- on the device (lora.c) --- */
typedef struct diti_adapter_part { /* rows of a weight */
    uint32_t row, rows;
    uint32_t first, rank; /* columns [first, first + rank) of x * down^T that up reads */
    diti_weight up;       /* [rows, rank], or [rows, columns of the weight] */
} diti_adapter_part;
typedef struct diti_adapter { /* all that a LoRA adds to a weight */
    const char *weight;       /* diti_weight.name: this very string */
    uint32_t scale;           /* first of its columns among the LoRA's scales: one for each row of down or, without
                                 down, of the weight */
    uint32_t values;  /* the weight is a vector: the scales are what is added to so many of its values; else 0 */
    diti_weight down; /* [rank, columns]; no parts: up reads x itself */
    diti_adapter_part *parts;
    uint32_t part_count;
} diti_adapter;
typedef struct diti_lora {
    diti_env env;
    diti_device *device;    /* NULL: a dry run */
    diti_adapter *adapters; /* by address of weight */
    size_t adapter_count, adapter_capacity;
    float *scales; /* at weight 1 */
    uint32_t scale_count;
    const diti_lora_module *merged; /* one that fits and can only be merged, in a dry run; NULL: none */
    uint32_t modules, dense;        /* modules that fit, and those of them whose delta is a whole matrix */
    diti_weights weights;
} diti_lora;
/* Makes what a file adds by these matches. measures: nothing is made on the device, and weights.bytes tells what would
   be. */
DIT_INTERNAL dit_result diti_lora_load(diti_device *device, const diti_env *env, const diti_lora_file *file,
                                       diti_lora_matches *matches, bool measures, diti_lora **out, dit_error *err);
DIT_INTERNAL void diti_lora_free(diti_lora *lora); /* NULL is fine */
/* The low-rank parts that a checkpoint has beside weights which were loaded from it; *out NULL: none. */
DIT_INTERNAL dit_result diti_low_rank_load(diti_device *device, const diti_env *env, const diti_checkpoint *checkpoint,
                                           const diti_weights *weights, bool measures, diti_lora **out, dit_error *err);
/* The first adapter of a weight, and how many there are. */
DIT_INTERNAL const diti_adapter *diti_lora_find(const diti_lora *lora, const diti_weight *weight, size_t *count);

/* --- merged when weights are loaded (lora_merge.c) --- */
#define DITI_LORA_MERGES 32u
typedef struct diti_lora_merge { /* rows of a stored tensor */
    const diti_stored_tensor *tensor;
    uint32_t row, rows, first; /* rows [row, row + rows) get the module's from first on */
    diti_lora_module *module;
    uint32_t file; /* the number of the module's */
    double weight;
} diti_lora_merge;
typedef struct diti_lora_merges {
    diti_env env;
    diti_lora_file *files[DITI_LORA_MERGES];
    float weights[DITI_LORA_MERGES];
    dit_role of[DITI_LORA_MERGES]; /* DIT_ROLE_TRANSFORMER_2: for that expert alone */
    uint32_t count;
    diti_lora_merge *list; /* by address of tensor, then by file: DoRA changes what is there, too */
    size_t list_count, list_capacity;
} diti_lora_merges;
/* Notes what is added to a component's stored tensors; the values of these modules stay in memory. */
DIT_INTERNAL dit_result diti_lora_merges_match(diti_lora_merges *merges, dit_role part, const diti_weights *weights,
                                               dit_error *err);
/* lora_norms.c: measures the columns that DoRA scales, by reading the weights that are noted; once for each module. */
DIT_INTERNAL dit_result diti_lora_merges_measure(diti_lora_merges *merges, const diti_checkpoint *checkpoint,
                                                 dit_error *err);
/* lora_merge.c */
DIT_INTERNAL bool diti_lora_merges_has(const diti_lora_merges *merges, const diti_stored_tensor *tensor);
/* values [columns] of a row of the tensor. */
DIT_INTERNAL void diti_lora_merges_add(const diti_lora_merges *merges, const diti_stored_tensor *tensor, uint32_t row,
                                       float *values);
/* Adds what stands in the list of merges before `end`. */
DIT_INTERNAL void diti_lora_merges_add_until(const diti_lora_merges *merges, const diti_stored_tensor *tensor,
                                             uint32_t row, size_t end, float *values);
/* values: all of a tensor that is a vector (diti_target). */
DIT_INTERNAL void diti_lora_merges_add_vector(const diti_lora_merges *merges, const diti_stored_tensor *tensor,
                                              float *values);
DIT_INTERNAL void diti_lora_merges_free(diti_lora_merges *merges);
#endif
