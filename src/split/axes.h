/* Methods of sharing a picture: what each axis of the mesh is called, divides, promises, sends and costs. A method is a
   file, axis_NAME.c, and a row of the table in axes.c (docs/parallel.md 4). */
#ifndef DITI_AXES_H
#define DITI_AXES_H
#include "split/split.h"

/* Things that methods divide. The degrees of all methods that divide one thing are multiplied, and there must be at
   least as many of it. */
enum {
    DITI_DIVIDES_BRANCHES = 1, /* branches of guidance */
    DITI_DIVIDES_HEADS = 2,
    DITI_DIVIDES_LAYERS = 4,
    DITI_DIVIDES_ROWS = 8
};

/* Who sends to whom in a group of more than two, each at the same time. */
typedef enum diti_pattern {
    DITI_PATTERN_PAIR, /* one to one */
    DITI_PATTERN_RING, /* all to the next one */
    DITI_PATTERN_ALL   /* all to all */
} diti_pattern;

struct diti_cost;
typedef struct diti_cost diti_cost;

typedef struct diti_cost_step {
    double layers; /* layers that run: behind the slowest stage of a pipeline, as if each stage ran as many */
    double compute, exchange, hidden;
} diti_cost_step;

/* Members that are NULL, 0 or false do nothing. */
typedef struct diti_split_method {
    const char *name;
    uint32_t divides;     /* DITI_DIVIDES_... */
    uint32_t excludes;    /* a bit 1 << axis for each method that cannot stand beside this one */
    bool exact;           /* the picture is that of one device, but for rounding; auto takes no other unless it may */
    bool cuts_blocks;     /* devices hold some blocks, or parts of all; else each can compute every block alone */
    diti_pattern pattern; /* pattern of what is sent along the axis */

    /* --- names --- */
    /* Reads what may stand behind the degree, which it may change; false: nothing such can stand there. */
    bool (*read)(const char **at, uint32_t *degree, diti_split_plan *out);
    /* Writes the degree as it is named and what stands behind it; plan NULL: of methods and degrees alone. */
    void (*print)(const diti_split *split, const diti_split_plan *plan, char *out, size_t size);
    /* A limit that follows from more than what is divided; name: the plan's, for messages. */
    dit_result (*limits)(const diti_split_plan *plan, const diti_split_shape *shape, const char *name, dit_error *err);

    /* --- costs --- */
    /* See diti_split_bytes; element: bytes of a value. */
    double (*bytes)(const diti_cost *c, double element);
    /* The part of a device's bytes that goes to a peer; NULL: all of them to the next device of a ring. */
    double (*peer)(uint32_t degree, uint32_t place, uint32_t peer);
    /* Seconds that copies add to a layer, which is computed in so many strips; layer_seconds: of its arithmetic. */
    double (*layer)(const diti_cost *c, double strips, double layer_seconds, double *hidden);
    /* Seconds that copies add to a step, whatever its layers do. */
    double (*once)(const diti_cost *c);
    /* A step behind the warm-up, where the method overlaps the stages of layers. */
    void (*step)(const diti_cost *c, diti_cost_step *step);
    /* Seconds before the first such step. */
    double (*fill)(const diti_cost *c);
} diti_split_method;

/* The letters of cost.c. */
struct diti_cost {
    const diti_split_request *q;
    const diti_split_shape *shape;
    const diti_split *split;
    diti_split_method methods[DITI_SPLIT_AXES];
    double n, s, t, d, layers, e, k, o, i, u, r, p, l, c, b, m;
    double skips; /* bytes per step that a stage of PipeFusion sends to the mirrored one */
};

DIT_INTERNAL diti_split_method diti_split_method_of(uint32_t axis);
DIT_INTERNAL void diti_split_methods(diti_split_method out[DITI_SPLIT_AXES]); /* all of them */
/* Each fills in its own. */
DIT_INTERNAL void diti_axis_tensor(diti_split_method *out);
DIT_INTERNAL void diti_axis_ulysses(diti_split_method *out);
DIT_INTERNAL void diti_axis_ring(diti_split_method *out);
DIT_INTERNAL void diti_axis_pipefusion(diti_split_method *out);
DIT_INTERNAL void diti_axis_layers(diti_split_method *out);
DIT_INTERNAL void diti_axis_cfg(diti_split_method *out);

/* A whole number from least to most; at is moved behind it. */
DIT_INTERNAL bool diti_split_parse_number(const char **at, uint32_t least, uint32_t most, uint32_t *out);

/* --- arithmetic that methods share (cost_terms.c; stages: axis_layers.c, skips: axis_pipefusion.c) --- */
DIT_INTERNAL void diti_cost_shape(diti_cost *c, const diti_split_shape *shape);
/* See diti_split_peer. */
DIT_INTERNAL double diti_cost_peer(const diti_split_method *method, uint32_t degree, uint32_t place, uint32_t peer,
                                   bool mirror);
/* See diti_split_skip_bytes. */
DIT_INTERNAL double diti_cost_skip_bytes(const diti_cost *c);
/* A stage of layers sends the residual stream, and sends it to the next one. */
DIT_INTERNAL double diti_cost_stage_bytes(const diti_cost *c, double element);
DIT_INTERNAL double diti_cost_stage_peer(uint32_t degree, uint32_t place, uint32_t peer);
/* Seconds of bytes along an axis. mirror: of its skips. */
DIT_INTERNAL double diti_cost_send(const diti_cost *c, diti_split_axis axis, bool mirror, double bytes);
/* Bytes that a device sends along an axis, for all branches that it computes. */
DIT_INTERNAL double diti_cost_bytes(const diti_cost *c, diti_split_axis axis);
/* Seconds of arithmetic of so many layers. */
DIT_INTERNAL double diti_cost_compute(const diti_cost *c, double layers);
/* Seconds that copies along all axes add to a layer. */
DIT_INTERNAL double diti_cost_layer(const diti_cost *c, double strips, double layer_seconds, double *hidden);
/* The share of attention in a layer's operations. */
DIT_INTERNAL double diti_cost_attention(const diti_cost *c);
#endif
