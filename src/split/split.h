/* split: one picture over several devices. Which product mesh of methods is fastest on which machine is arithmetic:
 * what is sent, how long it takes, what it needs of memory. No device is touched here. */
#ifndef DITI_SPLIT_H
#define DITI_SPLIT_H
#include "base/base.h"

enum { DITI_SPLIT_DEVICES = 64, DITI_SPLIT_NAME = 128, DITI_SPLIT_LARGEST = 65536 /* strips and steps */ };

/* The axes of the mesh, the innermost first: ranks that differ in tensor alone are neighbours, as they exchange most.
 */
typedef enum diti_split_axis {
    DITI_SPLIT_TENSOR,     /* columns, then rows of each pair of matrices; two all-reduces per block */
    DITI_SPLIT_ULYSSES,    /* rows everywhere, heads in attention: all-to-all before and after it */
    DITI_SPLIT_RING,       /* rows everywhere; keys and values go round */
    DITI_SPLIT_PIPEFUSION, /* layers, with strips of rows in flight; other rows' keys and values one step old */
    DITI_SPLIT_LAYERS,     /* layers, one device after the other: for memory alone */
    DITI_SPLIT_CFG,        /* the branches of guidance */
    DITI_SPLIT_AXES
} diti_split_axis;

typedef struct diti_split {
    uint32_t degree[DITI_SPLIT_AXES]; /* each at least 1; all 0: auto, the planner chooses */
    uint32_t inputs; /* not 0: tensor is a grid, so many of whose devices divide the other dimension of matrices */
    uint32_t shard;  /* not 0: devices keep the weights of some blocks each */
} diti_split;

typedef struct diti_split_shape { /* a denoiser at one size of picture */
    uint32_t layers, hidden, heads;
    uint32_t feed;       /* width of the feed-forward */
    uint32_t rows;       /* rows of the image or clip */
    uint32_t text;       /* rows of the text, or keys of the cross attention */
    uint32_t text_width; /* width of the keys of the cross attention before their projection */
    uint32_t row_values; /* values of the latent that one row stands for */
    uint32_t skips;      /* blocks that also read an earlier one's output */
    bool joint;          /* text and image attend together */
    bool gated;          /* a third matrix in the feed-forward */
    bool guided;         /* two branches of guidance per step */
    double weight_bytes; /* bytes of the denoiser's weights */
    /* A clip whose attention is within frames and within positions by turns: a layer is one of each. */
    uint32_t frames;       /* frames of rows; 0: all rows attend each other */
    uint32_t feeds, texts; /* feed-forwards and attentions to the text of such a layer */
    double second_bytes;   /* bytes of the weights of a second transformer; 0: there is none */
} diti_split_shape;

typedef struct diti_split_rates {  /* bytes per second and device that arrive while all devices send so */
    double pair, ring, all_to_all; /* groups of two; neighbours of larger ones; everyone to everyone of larger ones */
} diti_split_rates;

typedef struct diti_split_box { /* a machine */
    uint32_t count;
    struct {
        double rate;   /* operations per second that a denoiser attains */
        double stream; /* bytes per second of its memory */
        double memory; /* bytes; 0: not limited */
    } devices[DITI_SPLIT_DEVICES];
    diti_split_rates inside, across; /* a socket; groups that span sockets */
    uint32_t per_socket;             /* devices; 0: all */
    double uplink;                   /* bytes per second out of a socket, shared by all; 0: not limited */
    double latency;                  /* seconds of an exchange without bytes */
} diti_split_box;

typedef struct diti_split_system { /* how the methods are carried out */
    double element;      /* bytes of a value that is sent: 2, or 1 for int8 (its row scales are not counted) */
    double overlap;      /* fraction of Ring's attention that hides its copies, 0..1 */
    double merge;        /* bytes of memory traffic per value to merge two partial attentions */
    double strip_rows;   /* rows at which a strip runs at half the speed of a whole picture */
    double launch;       /* host seconds to submit a layer; 0: recorded once, replayed */
    bool text_per_strip; /* PipeFusion computes the text's rows again for each strip, not once per step */
    bool text_whole;     /* a text whose rows a sequence's devices cannot divide evenly is computed by each of them */
    bool heads_flow;     /* Ulysses sends values and keys while queries are projected; false: all behind that */
    bool skips_wait;     /* skips to the mirrored stage are waited for; false: they arrive behind arithmetic */
    uint32_t warmup;     /* PipeFusion's first steps over whole pictures */
    uint32_t strips;     /* strips of PipeFusion; 0: as many as stages */
    uint32_t steps;      /* steps of the sampler */
    double serial;       /* seconds of a picture that are not split: text encoders, autoencoder */
    uint32_t skip_first, skip_blocks, skip_from, skip_interval; /* cache: skip_blocks layers from skip_first are left
                              out in step skip_from and every skip_interval-th after it; skip_blocks 0: none */
    uint32_t gate;                                              /* step from which guidance is dropped; 0: never */
} diti_split_system;

typedef struct diti_split_request {
    diti_split_shape shape;
    diti_split_box box;
    diti_split_system system;
    uint32_t methods; /* bits 1 << axis that may have a degree above 1, and DITI_SPLIT_SHARDS; 0: all */
} diti_split_request;
#define DITI_SPLIT_SHARDS (1u << DITI_SPLIT_AXES)

typedef struct diti_split_cost {
    diti_split split;
    double seconds;           /* seconds of a picture */
    double device_seconds;    /* seconds of a picture if the host took no time */
    double compute, exchange; /* seconds of a step with nothing skipped: arithmetic, and copies that it does not hide */
    double hidden;            /* seconds of copies that the arithmetic hides */
    double sent;              /* bytes per device and step, the busiest */
    double memory; /* bytes on the fullest device: the denoiser's weights, activations, kept keys and values */
    bool fits;
} diti_split_cost;

typedef struct diti_split_plan {
    char note[128]; /* for the reader; no quotes, backslashes, line breaks */
    diti_split split;
    uint32_t strips, warmup;           /* strips and first whole steps of PipeFusion */
    bool int8;                         /* devices send values as int8 */
    bool feedback;                     /* devices add the error of int8 values in the next step */
    bool kept_int8;                    /* PipeFusion keeps keys and values of other strips as int8 */
    bool any;                          /* auto may choose methods that make a slightly other picture, too */
    double shares[DITI_SPLIT_DEVICES]; /* part of each rank in the work of its branch of guidance, where they sum to 1;
                                          all 0: as the devices' rates */
} diti_split_plan;

/* --- names: auto | auto:any | ITEM {, ITEM}, ITEM: AXIS DEGREE | tensorAxB | int8 | shard. An axis that is not named
 * has degree 1. Behind pipefusion may stand ":mPATCHES", ":wWARMUP", ":k8" (keys and values are kept as int8) or more
 * of them, ":m8w2k8", behind int8 ":e" (its error is fed back into the next step); else there are as many strips as
 * stages, and one step of warm-up. --- */
DIT_INTERNAL DITI_UNUSED const char *diti_split_axis_name(uint32_t axis);
/* Whether the picture stays that of one device, but for rounding. */
DIT_INTERNAL DITI_UNUSED bool diti_split_is_exact(uint32_t axis);
/* Whether a device holds some blocks, or parts of all: then it cannot compute a block alone. */
DIT_INTERNAL DITI_UNUSED bool diti_split_cuts_blocks(const diti_split *split);
DIT_INTERNAL DITI_UNUSED dit_result diti_split_parse_plan(const char *text, diti_split_plan *out, dit_error *err);
DIT_INTERNAL DITI_UNUSED const char *diti_split_print_plan(const diti_split_plan *plan, char out[DITI_SPLIT_NAME]);
/* Methods and degrees alone. */
DIT_INTERNAL DITI_UNUSED dit_result diti_split_parse(const char *text, diti_split *out, dit_error *err);
DIT_INTERNAL DITI_UNUSED const char *diti_split_print(const diti_split *split, char out[DITI_SPLIT_NAME]);
DIT_INTERNAL DITI_UNUSED uint32_t diti_split_ranks(const diti_split *split);
/* Whether a model can be split so: one sentence where a degree is too high for its heads, layers, rows or guidance. */
DIT_INTERNAL DITI_UNUSED dit_result diti_split_check(const diti_split *split, const diti_split_shape *shape,
                                                     dit_error *err);

DIT_INTERNAL DITI_UNUSED dit_result diti_split_check_plan(const diti_split_plan *plan, const diti_split_shape *shape,
                                                          dit_error *err);

/* --- arithmetic --- */
/* How dit.h carries methods out: text once per step, skips sent ahead of their use, heads as soon as they are there,
 * recorded commands, merges in one pass (two fp32 reads, one write); sends fp16. */
DIT_INTERNAL DITI_UNUSED void diti_split_usual_system(diti_split_system *out);
/* Operations of one evaluation of one branch of guidance; a multiplication with its addition counts twice. */
DIT_INTERNAL DITI_UNUSED double diti_split_flops(const diti_split_shape *shape);
/* Bytes of weights that a device sends in a step where they are sharded, else 0. */
DIT_INTERNAL DITI_UNUSED double diti_split_shard_bytes(const diti_split_shape *shape, const diti_split *split);
/* Bytes that a device sends along an axis for one branch: per layer (tensor, ulysses, ring), per step and boundary of
 * stages (pipefusion, layers; the latent that goes back to the first is not counted), per step (cfg). element: bytes
 * of a value. */
DIT_INTERNAL DITI_UNUSED double diti_split_bytes(const diti_split_shape *shape, const diti_split *split,
                                                 diti_split_axis axis, double element);
/* The share of what a rank sends along an axis that the rank at place peer of that axis gets; mirror: of its skips. */
DIT_INTERNAL DITI_UNUSED double diti_split_peer(diti_split_axis axis, uint32_t degree, uint32_t place, uint32_t peer,
                                                bool mirror);
DIT_INTERNAL DITI_UNUSED uint32_t diti_split_stride(const diti_split *split, diti_split_axis axis); /* in ranks */
/* Bytes per step that a stage of PipeFusion sends to the mirrored one, all its branches. */
DIT_INTERNAL DITI_UNUSED double diti_split_skip_bytes(const diti_split_request *request, const diti_split *split);
DIT_INTERNAL DITI_UNUSED void diti_split_predict(const diti_split_request *request, const diti_split *split,
                                                 diti_split_cost *out);
/* The best splits of all factorisations of the box's devices, best first: what fits, then by seconds, then by how long
 * devices are busy. Weights are sharded where they do not fit otherwise, and where nothing fits tensor's matrices are
 * cut as a grid if it has more devices than there are heads: both send more. Returns how many there are; writes at most
 * `most`. */
DIT_INTERNAL DITI_UNUSED uint32_t diti_split_choose(const diti_split_request *request, diti_split_cost *out,
                                                    uint32_t most);

/* --- plans as JSON: what dit-plan -o writes and --split @FILE runs --- */
/* text is freed with diti_free. */
DIT_INTERNAL DITI_UNUSED dit_result diti_split_write(const diti_env *env, const diti_split_plan *plan, char **text,
                                                     dit_error *err);
/* what: the file's name, for messages. */
DIT_INTERNAL DITI_UNUSED dit_result diti_split_read(const diti_env *env, const char *text, size_t size,
                                                    const char *what, diti_split_plan *out, dit_error *err);
/* Reads dit_job_desc.split or --split: a name, @FILE of a plan, or a plan's text, which begins with a brace. */
DIT_INTERNAL DITI_UNUSED dit_result diti_split_take(const diti_env *env, const char *text, diti_split_plan *out,
                                                    dit_error *err);
/* Shares of the members of axes [first, end), all inside cfg, in the work that these divide, as rank sees them: sums
 * over the ranks of its branch of guidance. Equal where a plan has no shares (0). */
DIT_INTERNAL DITI_UNUSED void diti_split_weights(const diti_split *split, const double *shares, uint32_t rank,
                                                 uint32_t first, uint32_t end, float *weights);
#endif
