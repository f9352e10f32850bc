/* Real architectures as lists of layers with random weights: the matrix products, attentions and norms of one
   evaluation of the denoiser, of a text encoder or of an autoencoder's decoder, in their sizes and order, without any
   model code. Layers that depend only on the prompt or the timestep (text projections, modulation) are not part of an
   evaluation: dit computes them once per picture. Batch 1: guidance doubles an evaluation. docs/models.md names the
   originals. */
#ifndef BENCH_SHAPES_H
#define BENCH_SHAPES_H
#include "bench_core.h"

typedef enum layer_kind {
    LAYER_NONE,
    LAYER_PLAIN,          /* DiT: self attention, feed-forward */
    LAYER_CROSS,          /* PixArt, Latte's spatial blocks, Wan (all frames are one): self attention per frame, cross
                             attention, feed-forward */
    LAYER_TEMPORAL,       /* Latte's temporal blocks: attention over the frames of each position, feed-forward */
    LAYER_TEMPORAL_CROSS, /* Open-Sora 1.2's, with a cross attention between the two */
    LAYER_BOTH,           /* STDiT: attention per frame, over the frames, cross attention, feed-forward */
    LAYER_HUNYUAN,        /* self attention, cross attention, feed-forward, three norms with affine */
    LAYER_HUNYUAN_SKIP,   /* the same after a projection of (x, an earlier x) */
    LAYER_JOINT,          /* SD3, FLUX double: text and image with their own weights, one attention */
    LAYER_JOINT_LAST,     /* SD3's last: the text goes no further */
    LAYER_SINGLE,         /* FLUX single: attention and feed-forward side by side */
    LAYER_JOINT_GATED,    /* FLUX.2's, whose feed-forwards are gated */
    LAYER_SINGLE_GATED,
    LAYER_SANDWICH, /* Z-Image: one set of weights and one modulation, gated, a norm before and behind each part */
    LAYER_GATED,  /* Qwen-Image-2.1: self attention, gated feed-forward; keys of the prompt, which are kept, left out */
    LAYER_EXPERT, /* CogVideoX: one set of weights, text and image with their own modulation */
    LAYER_T5,     /* RMS norms, position bias, gated feed-forward */
    LAYER_CLIP,   /* norms with affine, quick GELU; its causal mask is left out */
    LAYER_KINDS
} layer_kind;

static const char *const layer_names[LAYER_KINDS] = {
    "",      "plain",      "cross",  "temporal",    "temporal-cross", "both",     "hunyuan", "hunyuan-skip",
    "joint", "joint-last", "single", "joint-gated", "single-gated",   "sandwich", "gated",   "expert",
    "t5",    "clip"};

enum { SHAPE_KINDS = 3 };
typedef struct shape {
    const char *name;
    uint32_t hidden, heads, feed;  /* feed: width of the feed-forward */
    uint32_t frames, tokens, text; /* image rows: frames of tokens each; text rows, or keys of the cross attention */
    uint32_t in, out;              /* values of a patch before and after; 0: an encoder */
    diti_qkv_norm norm;            /* of q and k */
    bool rotary;
    struct {
        layer_kind kind;
        uint32_t count;
    } layers[SHAPE_KINDS];
} shape;

static const shape shapes[] = {
    {"dit-xl-2", 1152, 16, 4608, 1, 256, 0, 16, 32, DITI_QKV_NO_NORM, false, {{LAYER_PLAIN, 28}}},
    {"pixart-sigma-1024", 1152, 16, 4608, 1, 4096, 300, 16, 32, DITI_QKV_NO_NORM, false, {{LAYER_CROSS, 28}}},
    {"sd3-medium",
     1536,
     24,
     6144,
     1,
     4096,
     333,
     64,
     64,
     DITI_QKV_NO_NORM,
     false,
     {{LAYER_JOINT, 23}, {LAYER_JOINT_LAST, 1}}},
    {"sd35-large",
     2432,
     38,
     9728,
     1,
     4096,
     333,
     64,
     64,
     DITI_QKV_RMS,
     false,
     {{LAYER_JOINT, 37}, {LAYER_JOINT_LAST, 1}}},
    {"flux", 3072, 24, 12288, 1, 4096, 512, 64, 64, DITI_QKV_RMS, true, {{LAYER_JOINT, 19}, {LAYER_SINGLE, 38}}},
    {"flux-tiny", 512, 4, 2048, 1, 256, 256, 64, 64, DITI_QKV_RMS, true, {{LAYER_JOINT, 2}, {LAYER_SINGLE, 4}}},
    {"flux2-klein-4b",
     3072,
     24,
     9216,
     1,
     4096,
     512,
     128,
     128,
     DITI_QKV_RMS,
     true,
     {{LAYER_JOINT_GATED, 5}, {LAYER_SINGLE_GATED, 20}}},
    {"flux2-klein-9b",
     4096,
     32,
     12288,
     1,
     4096,
     512,
     128,
     128,
     DITI_QKV_RMS,
     true,
     {{LAYER_JOINT_GATED, 8}, {LAYER_SINGLE_GATED, 24}}},
    {"z-image", 3840, 30, 10240, 1, 4096, 64, 64, 64, DITI_QKV_RMS, true, {{LAYER_SANDWICH, 32}}},
    {"ideogram-4", 4608, 18, 12288, 1, 4096, 256, 128, 128, DITI_QKV_RMS, true, {{LAYER_SANDWICH, 34}}},
    {"qwen-image", 3072, 24, 12288, 1, 4096, 128, 64, 64, DITI_QKV_RMS, true, {{LAYER_JOINT, 60}}},
    {"qwen-image-21", 4096, 32, 12288, 1, 4096, 0, 64, 64, DITI_QKV_RMS, true, {{LAYER_GATED, 32}}},
    {"kandinsky-5", 2560, 20, 10240, 1, 4096, 512, 64, 64, DITI_QKV_RMS, true, {{LAYER_CROSS, 50}}},
    {"ernie-image", 4096, 32, 12288, 1, 4096, 0, 128, 128, DITI_QKV_RMS, true, {{LAYER_GATED, 36}}},
    {"chroma", 3072, 24, 12288, 1, 4096, 512, 64, 64, DITI_QKV_RMS, true, {{LAYER_JOINT, 19}, {LAYER_SINGLE, 38}}},
    {"longcat", 3072, 24, 12288, 1, 4096, 512, 64, 64, DITI_QKV_RMS, true, {{LAYER_JOINT, 10}, {LAYER_SINGLE, 20}}},
    {"ovis",
     3072,
     24,
     12288,
     1,
     4096,
     256,
     64,
     64,
     DITI_QKV_RMS,
     true,
     {{LAYER_JOINT_GATED, 6}, {LAYER_SINGLE_GATED, 27}}},
    /* The blocks that image and text have of their own count as joint ones. */
    {"flux3-klein", 3072, 24, 9216, 1, 4096, 512, 128, 128, DITI_QKV_RMS, true, {{LAYER_SINGLE_GATED, 33}}},
    {"hunyuandit",
     1408,
     16,
     6144,
     1,
     4096,
     333,
     16,
     32,
     DITI_QKV_LAYER,
     true,
     {{LAYER_HUNYUAN, 21}, {LAYER_HUNYUAN_SKIP, 19}}},
    {"stdit", 1152, 16, 4608, 16, 1024, 200, 16, 32, DITI_QKV_RMS, false, {{LAYER_BOTH, 28}}},
    {"latte",
     1152,
     16,
     4608,
     16,
     1024,
     120,
     16,
     32,
     DITI_QKV_NO_NORM,
     false,
     {{LAYER_CROSS, 28}, {LAYER_TEMPORAL, 28}}},
    /* 51x720x1280: 17 frames become five */
    {"stdit3",
     1152,
     16,
     4608,
     15,
     3600,
     300,
     16,
     32,
     DITI_QKV_RMS,
     true,
     {{LAYER_CROSS, 28}, {LAYER_TEMPORAL_CROSS, 28}}},
    {"latte-t2v", /* 65x512x512 */
     1152,
     16,
     4608,
     17,
     1024,
     300,
     16,
     32,
     DITI_QKV_NO_NORM,
     false,
     {{LAYER_CROSS, 28}, {LAYER_TEMPORAL, 28}}},
    {"cogvideox-2b", 1920, 30, 7680, 13, 1350, 226, 64, 64, DITI_QKV_LAYER, false, {{LAYER_EXPERT, 30}}},
    {"cogvideox-5b", 3072, 48, 12288, 13, 1350, 226, 64, 64, DITI_QKV_LAYER, true, {{LAYER_EXPERT, 42}}},
    {"cogvideox15-5b", 3072, 48, 12288, 11, 4080, 224, 128, 128, DITI_QKV_LAYER, true, {{LAYER_EXPERT, 42}}},
    {"ltx-2b", 2048, 32, 8192, 1, 7392, 128, 128, 128, DITI_QKV_RMS, true, {{LAYER_CROSS, 28}}}, /* 161x512x704 */
    {"ltx-13b", 4096, 32, 16384, 1, 7392, 128, 128, 128, DITI_QKV_RMS, true, {{LAYER_CROSS, 48}}},
    {"ltx2-19b", 4096, 32, 16384, 1, 6144, 1024, 128, 128, DITI_QKV_RMS, true, {{LAYER_CROSS, 48}}}, /* 121x512x768 */
    {"hunyuanvideo",                                                                                 /* 129x720x1280 */
     3072,
     24,
     12288,
     33,
     3600,
     256,
     64,
     64,
     DITI_QKV_RMS,
     true,
     {{LAYER_JOINT, 20}, {LAYER_SINGLE, 40}}},
    {"kandinsky-5-t2v", 1792, 28, 7168, 1, 47616, 512, 132, 64, DITI_QKV_RMS, true, {{LAYER_CROSS, 32}}}, /* 121x512x768
                                                                                                           */
    {"hunyuanvideo15", 2048, 16, 8192, 31, 1590, 256, 65, 32, DITI_QKV_RMS, true, {{LAYER_JOINT, 54}}},   /* 121x480x848
                                                                                                           */
    /* 124x768x1344 and its sound; of 56 heads of 128 channels those that the width has room for */
    {"minimax-h3", 5376, 42, 14336, 1, 38304, 512, 96, 96, DITI_QKV_RMS, true, {{LAYER_SANDWICH, 50}}},
    {"wan-1.3b", 1536, 12, 8960, 1, 32760, 512, 64, 64, DITI_QKV_RMS, true, {{LAYER_CROSS, 30}}},
    {"wan-ti2v-5b", 3072, 24, 14336, 1, 27280, 512, 192, 192, DITI_QKV_RMS, true, {{LAYER_CROSS, 30}}},
    {"wan-14b", 5120, 40, 13824, 1, 75600, 512, 64, 64, DITI_QKV_RMS, true, {{LAYER_CROSS, 40}}},
    {"t5-xxl", 4096, 64, 10240, 1, 300, 0, 0, 0, DITI_QKV_NO_NORM, false, {{LAYER_T5, 24}}},
    {"clip-l", 768, 12, 3072, 1, 77, 0, 0, 0, DITI_QKV_NO_NORM, false, {{LAYER_CLIP, 12}}},
    {"clip-g", 1280, 20, 5120, 1, 77, 0, 0, 0, DITI_QKV_NO_NORM, false, {{LAYER_CLIP, 32}}},
};

/* ---- parts of layers ---- */

typedef struct net { /* a shape as a graph under construction */
    bench *b;
    const shape *s;
    uint32_t text_rows, image_rows, rows; /* of x: text first where it is part of it */
    diti_tensor x;                        /* F32 [rows, hidden], the residual stream */
    diti_tensor tables;                   /* F32 [12, hidden]: shift, scale, gate of each norm */
    diti_tensor text_kv;                  /* [text, 2 * hidden] of the cross attention */
    diti_tensor skip;                     /* F32 [rows, hidden] */
    diti_tensor cosines, sines;           /* F32 [rows, head_dim / 2] */
    diti_tensor positions;                /* F32 [heads, 2 * rows - 1] */
    diti_weight reader;                   /* stands for a weight that reads a norm: its type counts */
    bool ends;                            /* the ends are no block, and never int8 */
} net;

typedef struct pair { /* a linear layer's random weights */
    const diti_weight *weight, *bias;
} pair;

static pair net_pair(net *n, uint32_t rows, uint32_t columns) {
    pair p;
    dit_type type = fitting_type(n->b, columns);
    p.weight = random_weight(n->b, n->ends && diti_type_is_i8(type) ? DIT_TYPE_F16 : type, rows, columns, 1);
    p.bias = random_weight(n->b, DIT_TYPE_F32, 1, rows, 1);
    if (n->b->o.lora && !n->b->code && !add_lora(n->b, p.weight))
        n->b->code = complain(EXIT_MEMORY, "out of memory for random LoRAs");
    return p;
}

static diti_tensor net_rows(net *n, diti_tensor t, uint32_t first, uint32_t rows) {
    return diti_tensor_view(&n->b->graph, t, first, rows, 0, diti_tensor_get(&n->b->graph, t)->columns);
}

static diti_tensor net_columns(net *n, diti_tensor t, uint32_t first, uint32_t columns) {
    return diti_tensor_view(&n->b->graph, t, 0, diti_tensor_get(&n->b->graph, t)->rows, first, columns);
}

static diti_tensor net_row(net *n, uint32_t row) { return net_rows(n, n->tables, row, 1); }

/* One pass over x, as a kernel that was not fused would make it. */
static diti_tensor net_pass(net *n, diti_tensor x, diti_activation activation, diti_tensor add, diti_tensor out,
                            const char *name) {
    diti_elementwise_desc desc = DITI_ZERO;
    desc.activation = activation;
    desc.scale = 0.5f;
    desc.add = add;
    desc.out = out;
    desc.name = name;
    return diti_elementwise(&n->b->graph, x, &desc);
}

/* --no-fusion: bias, activation, gate and residual as passes of their own. */
static diti_tensor net_apart(net *n, diti_tensor x, pair p, const diti_linear_desc *desc) {
    diti_linear_desc plain = DITI_ZERO;
    diti_tensor y, bias = diti_op_vector_weight(&n->b->graph, p.bias, p.weight->rows, desc->name);
    plain.name = desc->name;
    y = diti_linear(&n->b->graph, x, p.weight, &plain);
    y = net_pass(n, y, DITI_ACTIVATION_NONE, bias, 0, "bias");
    if (desc->activation) y = net_pass(n, y, desc->activation, 0, 0, "activation");
    if (desc->multiply) y = net_pass(n, y, DITI_ACTIVATION_NONE, 0, 0, "multiply");
    if (desc->gate) y = net_pass(n, y, DITI_ACTIVATION_NONE, 0, 0, "gate");
    if (desc->residual || desc->out) y = net_pass(n, y, DITI_ACTIVATION_NONE, desc->residual, desc->out, "residual");
    return y;
}

static diti_tensor net_product(net *n, diti_tensor x, pair p, const diti_linear_desc *desc) {
    diti_linear_desc whole = *desc;
    if (n->b->o.no_fusion) return net_apart(n, x, p, desc);
    whole.bias = p.bias;
    return diti_linear(&n->b->graph, x, p.weight, &whole);
}

/* A new linear layer on x, to a tensor of its own or to out. */
static diti_tensor net_linear(net *n, diti_tensor x, uint32_t columns, diti_activation activation, diti_tensor out,
                              const char *name) {
    diti_linear_desc desc = DITI_ZERO;
    desc.activation = activation;
    desc.out = out;
    desc.name = name;
    return net_product(n, x, net_pair(n, columns, diti_tensor_get(&n->b->graph, x)->columns), &desc);
}

/* x += gate * layer(h), in place; gate 0: none. */
static void net_residual(net *n, diti_tensor x, diti_tensor h, pair p, diti_tensor gate, const char *name) {
    diti_linear_desc desc = DITI_ZERO;
    desc.gate = gate;
    desc.residual = desc.out = x;
    desc.name = name;
    net_product(n, h, p, &desc);
}

static void net_add(net *n, diti_tensor x, diti_tensor h, diti_tensor gate, const char *name) {
    const diti_graph *graph = &n->b->graph;
    net_residual(n, x, h, net_pair(n, diti_tensor_get(graph, x)->columns, diti_tensor_get(graph, h)->columns), gate,
                 name);
}

/* LayerNorm with rows row and row + 1 of the tables as shift and scale. */
static diti_tensor net_norm(net *n, diti_tensor x, uint32_t row) {
    diti_norm_desc desc = DITI_ZERO;
    diti_tensor y;
    desc.eps = 1e-6f;
    desc.name = "norm";
    if (!n->b->o.no_fusion) {
        desc.shift = net_row(n, row);
        desc.scale = net_row(n, row + 1);
        if (!n->ends && !n->b->o.lora) desc.reader = &n->reader; /* a LoRA reads floats */
    }
    y = diti_norm(&n->b->graph, x, &desc);
    return n->b->o.no_fusion ? net_pass(n, y, DITI_ACTIVATION_NONE, net_row(n, row), 0, "modulate") : y;
}

/* Norm and rotation of the heads that lie in x's columns. */
static void net_heads(net *n, diti_tensor x, bool rotate) {
    diti_qkv_desc desc = DITI_ZERO;
    if (n->s->norm == DITI_QKV_NO_NORM && !(n->s->rotary && rotate)) return;
    desc.heads = n->s->heads;
    desc.head_dim = n->s->hidden / n->s->heads;
    desc.norm = n->s->norm;
    desc.eps = 1e-6f;
    if (desc.norm) desc.weight = random_weight(n->b, DIT_TYPE_F32, 1, desc.head_dim, 1);
    if (desc.norm == DITI_QKV_LAYER) desc.bias = random_weight(n->b, DIT_TYPE_F32, 1, desc.head_dim, 1);
    if (n->s->rotary && rotate) {
        desc.cosines = n->cosines;
        desc.sines = n->sines;
        desc.tokens = n->rows;
    }
    desc.name = "heads";
    diti_qk_norm_rope(&n->b->graph, x, &desc);
}

/* step: diti_attention_desc.row_step. */
static diti_tensor net_attention(net *n, diti_tensor q, diti_tensor k, diti_tensor v, uint32_t batch, uint32_t step,
                                 const char *name) {
    diti_attention_desc desc = DITI_ZERO;
    desc.batch = batch;
    desc.heads = n->s->heads;
    desc.head_dim = n->s->hidden / n->s->heads;
    desc.scale = 1.0f / sqrtf((float)desc.head_dim);
    desc.bias = n->positions;
    desc.row_step = step;
    desc.name = name;
    return diti_attention(&n->b->graph, q, k, v, &desc);
}

/* qkv: [rows, 3 * hidden], q, k and v side by side. */
static diti_tensor net_qkv_attention(net *n, diti_tensor qkv, uint32_t batch, uint32_t step) {
    uint32_t width = n->s->hidden;
    net_heads(n, net_columns(n, qkv, 0, width), true);
    net_heads(n, net_columns(n, qkv, width, width), true);
    return net_attention(n, net_columns(n, qkv, 0, width), net_columns(n, qkv, width, width),
                         net_columns(n, qkv, 2 * width, width), batch, step, step ? "temporal" : "attention");
}

/* Rows of a frame attend each other, or (temporal) those of a place in all frames, which are a frame apart. */
static void net_self(net *n, diti_tensor x, bool temporal, uint32_t row, bool gated) {
    uint32_t batch = temporal ? n->s->tokens : n->s->frames;
    diti_tensor h = net_linear(n, net_norm(n, x, row), 3 * n->s->hidden, DITI_ACTIVATION_NONE, 0, "qkv");
    net_add(n, x, net_qkv_attention(n, h, batch, temporal ? batch : 0), gated ? net_row(n, row + 2) : 0,
            "attention_out");
}

/* All rows of x are queries to the same text. */
static void net_cross(net *n, diti_tensor x, bool normed) {
    uint32_t width = n->s->hidden;
    diti_tensor q = net_linear(n, normed ? net_norm(n, x, 3) : x, width, DITI_ACTIVATION_NONE, 0, "text_q");
    if (normed) net_heads(n, q, true);
    q = net_attention(n, q, net_columns(n, n->text_kv, 0, width), net_columns(n, n->text_kv, width, width), 1, 0,
                      "text_attention");
    net_add(n, x, q, 0, "text_out");
}

static void net_feed(net *n, diti_tensor x, uint32_t row, diti_activation activation, bool gated) {
    diti_tensor h = net_linear(n, net_norm(n, x, row), n->s->feed, activation, 0, "ff_in");
    net_add(n, x, h, gated ? net_row(n, row + 2) : 0, "ff_out");
}

/* ---- layers ---- */

static void layer_hunyuan(net *n, bool skips) {
    diti_graph *graph = &n->b->graph;
    if (skips) {
        diti_tensor both = diti_tensor_new(graph, DITI_F32, n->rows, 2 * n->s->hidden, "x and skip");
        net_pass(n, n->x, DITI_ACTIVATION_NONE, 0, net_columns(n, both, 0, n->s->hidden), "concatenate");
        net_pass(n, n->skip, DITI_ACTIVATION_NONE, 0, net_columns(n, both, n->s->hidden, n->s->hidden), "concatenate");
        net_linear(n, both, n->s->hidden, DITI_ACTIVATION_NONE, n->x, "skip_linear");
    }
    net_self(n, n->x, false, 0, false);
    net_cross(n, n->x, true);
    net_feed(n, n->x, 6, DITI_ACTIVATION_GELU_TANH, false);
}

/* activation(gate(h)) * up(h). */
static diti_tensor net_gated(net *n, diti_tensor h, diti_activation activation) {
    diti_linear_desc gate = DITI_ZERO;
    gate.multiply = net_linear(n, h, n->s->feed, DITI_ACTIVATION_NONE, 0, "ff_up");
    gate.activation = activation;
    gate.name = "ff_gate";
    return net_product(n, h, net_pair(n, n->s->feed, diti_tensor_get(&n->b->graph, h)->columns), &gate);
}

/* x += gate * RMS(h). */
static void net_behind(net *n, diti_tensor h, diti_tensor gate) {
    diti_norm_desc desc = DITI_ZERO;
    desc.rms = desc.factor = true;
    desc.eps = 1e-5f;
    desc.scale = gate;
    desc.residual = desc.out = n->x;
    desc.name = "norm_behind";
    diti_norm(&n->b->graph, h, &desc);
}

static void layer_sandwich(net *n) {
    uint32_t width = n->s->hidden;
    diti_tensor h = net_linear(n, net_norm(n, n->x, 0), 3 * width, DITI_ACTIVATION_NONE, 0, "qkv");
    net_behind(n, net_linear(n, net_qkv_attention(n, h, 1, 0), width, DITI_ACTIVATION_NONE, 0, "attention_out"),
               net_row(n, 2));
    h = net_gated(n, net_norm(n, n->x, 3), DITI_ACTIVATION_SILU);
    net_behind(n, net_linear(n, h, width, DITI_ACTIVATION_NONE, 0, "ff_out"), net_row(n, 5));
}

/* Text rows and image rows: each with weights and modulation of its own. */
static void layer_joint(net *n, bool last, bool gated) {
    diti_graph *graph = &n->b->graph;
    diti_tensor qkv = diti_tensor_new(graph, graph->activation, n->rows, 3 * n->s->hidden, "qkv"), a;
    uint32_t i;
    for (i = 0; i < 2; i++) {
        uint32_t first = i ? n->text_rows : 0, rows = i ? n->image_rows : n->text_rows;
        net_linear(n, net_norm(n, net_rows(n, n->x, first, rows), 6 * i), 3 * n->s->hidden, DITI_ACTIVATION_NONE,
                   net_rows(n, qkv, first, rows), "qkv");
    }
    a = net_qkv_attention(n, qkv, 1, 0);
    for (i = last ? 1 : 0; i < 2; i++) {
        uint32_t first = i ? n->text_rows : 0, rows = i ? n->image_rows : n->text_rows;
        diti_tensor x = net_rows(n, n->x, first, rows);
        net_add(n, x, net_rows(n, a, first, rows), net_row(n, 6 * i + 2), "attention_out");
        if (gated)
            net_add(n, x, net_gated(n, net_norm(n, x, 6 * i + 3), DITI_ACTIVATION_SILU), net_row(n, 6 * i + 5),
                    "ff_out");
        else
            net_feed(n, x, 6 * i + 3, DITI_ACTIVATION_GELU_TANH, true);
    }
}

static void layer_single(net *n, bool gated) {
    diti_tensor h = net_norm(n, n->x, 0), gate = net_row(n, 2);
    diti_tensor feed = gated ? net_gated(n, h, DITI_ACTIVATION_SILU)
                             : net_linear(n, h, n->s->feed, DITI_ACTIVATION_GELU_TANH, 0, "ff_in");
    diti_tensor a = net_qkv_attention(n, net_linear(n, h, 3 * n->s->hidden, DITI_ACTIVATION_NONE, 0, "qkv"), 1, 0);
    net_add(n, n->x, a, gate, "attention_out");
    net_add(n, n->x, feed, gate, "ff_out");
}

static void layer_expert(net *n) {
    diti_graph *graph = &n->b->graph;
    uint32_t i, width = n->s->hidden;
    diti_tensor qkv = diti_tensor_new(graph, graph->activation, n->rows, 3 * width, "qkv"), a;
    pair in = net_pair(n, 3 * width, width), out = net_pair(n, width, width), up = net_pair(n, n->s->feed, width),
         down = net_pair(n, width, n->s->feed);
    diti_linear_desc desc = DITI_ZERO;
    for (i = 0; i < 2; i++) {
        uint32_t first = i ? n->text_rows : 0, rows = i ? n->image_rows : n->text_rows;
        desc.name = "qkv";
        desc.out = net_rows(n, qkv, first, rows);
        net_product(n, net_norm(n, net_rows(n, n->x, first, rows), 6 * i), in, &desc);
    }
    a = net_qkv_attention(n, qkv, 1, 0);
    desc.name = "ff_in";
    desc.out = 0;
    desc.activation = DITI_ACTIVATION_GELU_TANH;
    for (i = 0; i < 2; i++) {
        uint32_t first = i ? n->text_rows : 0, rows = i ? n->image_rows : n->text_rows;
        diti_tensor x = net_rows(n, n->x, first, rows);
        net_residual(n, x, net_rows(n, a, first, rows), out, net_row(n, 6 * i + 2), "attention_out");
        net_residual(n, x, net_product(n, net_norm(n, x, 6 * i + 3), up, &desc), down, net_row(n, 6 * i + 5), "ff_out");
    }
}

static void layer_t5(net *n) {
    net_self(n, n->x, false, 0, false);
    net_add(n, n->x, net_gated(n, net_norm(n, n->x, 3), DITI_ACTIVATION_GELU_TANH), 0, "ff_down");
}

static void net_layer(net *n, layer_kind kind) {
    switch (kind) {
    case LAYER_CROSS:
    case LAYER_TEMPORAL_CROSS:
    case LAYER_BOTH:
        net_self(n, n->x, kind == LAYER_TEMPORAL_CROSS, 0, true);
        if (kind == LAYER_BOTH) net_self(n, n->x, true, 6, true);
        net_cross(n, n->x, false);
        net_feed(n, n->x, 3, DITI_ACTIVATION_GELU_TANH, true);
        return;
    case LAYER_PLAIN:
    case LAYER_TEMPORAL:
        net_self(n, n->x, kind == LAYER_TEMPORAL, 0, true);
        net_feed(n, n->x, 3, DITI_ACTIVATION_GELU_TANH, true);
        return;
    case LAYER_HUNYUAN:
    case LAYER_HUNYUAN_SKIP: layer_hunyuan(n, kind == LAYER_HUNYUAN_SKIP); return;
    case LAYER_JOINT:
    case LAYER_JOINT_GATED:
    case LAYER_JOINT_LAST: layer_joint(n, kind == LAYER_JOINT_LAST, kind == LAYER_JOINT_GATED); return;
    case LAYER_SINGLE:
    case LAYER_SINGLE_GATED: layer_single(n, kind == LAYER_SINGLE_GATED); return;
    case LAYER_SANDWICH: layer_sandwich(n); return;
    case LAYER_GATED:
        net_self(n, n->x, false, 0, true);
        net_add(n, n->x, net_gated(n, net_norm(n, n->x, 3), DITI_ACTIVATION_SILU), net_row(n, 5), "ff_out");
        return;
    case LAYER_EXPERT: layer_expert(n); return;
    case LAYER_T5: layer_t5(n); return;
    case LAYER_CLIP:
        net_self(n, n->x, false, 0, false);
        net_feed(n, n->x, 3, DITI_ACTIVATION_QUICK_GELU, false);
        return;
    default: return;
    }
}

/* ---- a whole shape ---- */

static const shape *find_shape(const char *name) {
    size_t i;
    for (i = 0; i < DITI_COUNT(shapes); i++) {
        if (strcmp(shapes[i].name, name) == 0) return &shapes[i];
    }
    return NULL;
}

static diti_tensor net_input(net *n, uint32_t rows, uint32_t columns, const char *name) {
    return diti_tensor_input(&n->b->graph, DITI_F32, rows, columns, name);
}

static void net_begin(net *n, bench *b, const shape *s) {
    uint32_t half = s->hidden / s->heads / 2;
    bool joint = s->layers[0].kind == LAYER_JOINT || s->layers[0].kind == LAYER_JOINT_GATED ||
                 s->layers[0].kind == LAYER_SINGLE_GATED || s->layers[0].kind == LAYER_SANDWICH ||
                 s->layers[0].kind == LAYER_EXPERT;
    memset(n, 0, sizeof *n);
    n->b = b;
    n->s = s;
    n->reader.type = fitting_type(b, s->hidden);
    n->text_rows = joint ? s->text : 0;
    n->image_rows = s->frames * s->tokens;
    n->rows = n->text_rows + n->image_rows;
    n->x = diti_tensor_state(&b->graph, DITI_F32, n->rows, s->hidden, "x");
    n->tables = net_input(n, 12, s->hidden, "modulation");
    if (s->text && !joint)
        n->text_kv = diti_tensor_input(&b->graph, b->graph.activation, s->text, 2 * s->hidden, "text keys and values");
    if (s->layers[1].kind == LAYER_HUNYUAN_SKIP) n->skip = net_input(n, n->rows, s->hidden, "skip");
    if (s->rotary) n->cosines = net_input(n, n->rows, half, "cosines");
    if (s->rotary) n->sines = net_input(n, n->rows, half, "sines");
    if (s->layers[0].kind == LAYER_T5) n->positions = net_input(n, s->heads, 2 * n->rows - 1, "positions");
}

/* Patches in, the last norm and projection. */
static void net_ends(net *n) {
    diti_tensor image = net_rows(n, n->x, n->text_rows, n->image_rows);
    diti_tensor patches = net_input(n, n->image_rows, n->s->in, "patches");
    n->ends = true;
    net_linear(n, patches, n->s->hidden, DITI_ACTIVATION_NONE, image, "patch_embed");
    net_linear(n, net_norm(n, image, 0), n->s->out, DITI_ACTIVATION_NONE, 0, "proj_out");
    n->ends = false;
}

/* One segment holds the ends, and one each kind of layer: it is measured once and counted several times. */
typedef struct shape_run {
    const shape *s;
    uint32_t run[SHAPE_KINDS], total, ran; /* layers of each kind that run; layers of the shape, and those that run */
    uint32_t segments[SHAPE_KINDS], ends;  /* ends: 0 where there are none */
    double weight_bytes, run_bytes;        /* bytes of weights of the whole shape, and of the layers that run */
} shape_run;

/* Spreads `layers` over the kinds, at least one of each; 0: all. */
static void choose_layers(shape_run *r, uint32_t layers) {
    uint32_t i;
    for (i = 0; i < SHAPE_KINDS; i++) r->total += r->s->layers[i].count;
    for (i = 0; i < SHAPE_KINDS && r->s->layers[i].count; i++) {
        uint32_t count = r->s->layers[i].count, most = layers ? (layers * count + r->total / 2) / r->total : count;
        r->run[i] = most < 1 ? 1 : most > count ? count : most;
        r->ran += r->run[i];
    }
}

static void emit_shape(bench *b, shape_run *r, bool ends) {
    net n;
    uint32_t i, layer;
    net_begin(&n, b, r->s);
    if (ends && r->s->in) {
        r->ends = diti_graph_segment(&b->graph, "ends", true);
        net_ends(&n);
        r->weight_bytes = r->run_bytes = b->weight_bytes;
    }
    for (i = 0; i < SHAPE_KINDS && r->run[i]; i++) {
        double before = b->weight_bytes;
        r->segments[i] = diti_graph_segment(&b->graph, layer_names[r->s->layers[i].kind], true);
        diti_graph_scope(&b->graph, "block", i);
        for (layer = 0; layer < r->run[i]; layer++) net_layer(&n, r->s->layers[i].kind);
        r->run_bytes += b->weight_bytes - before;
        r->weight_bytes += (b->weight_bytes - before) * r->s->layers[i].count / r->run[i];
    }
    diti_graph_scope(&b->graph, NULL, 0);
    b->line.m = n.rows;
    b->line.n = r->s->hidden;
}

/* Adds `times` runs of a segment, per layer `share` of it, to the line. */
static int add_segment(bench *b, uint32_t segment, double share) {
    double flops, bytes, expanded, barriers;
    times t;
    int code = measure(b, segment, &t);
    if (code) return code;
    count_work(b->plan, segment, &flops, &bytes);
    count_waits(b->plan, segment, &expanded, &barriers);
    b->line.expanded += expanded * share;
    b->line.barriers += barriers * share;
    b->line.flops += flops * share;
    b->line.bytes += bytes * share;
    b->line.t.device += t.device * share;
    b->line.t.wall += t.wall * share;
    b->line.t.cpu += t.cpu * share;
    b->line.t.cold += t.cold * share;
    return EXIT_GOOD;
}

static void add_shape_keys(bench *b, const shape_run *r) {
    double used = (double)b->device->memory_used;
    add_text(b, "shape", r->s->name);
    add_key(b, "layers", r->total, "%.0f");
    add_key(b, "layers_run", r->ran, "%.0f");
    add_bool(b, "extrapolated", r->ran < r->total);
    add_key(b, "weight_bytes", r->weight_bytes, "%.0f");
    add_key(b, "model_bytes", used - r->run_bytes + r->weight_bytes, "%.0f");
    add_memory(b, used);
    add_waits(b);
    add_bool(b, "fusion", !b->o.no_fusion);
    add_bool(b, "replay", !b->o.no_replay);
    add_key(b, "lora", b->o.lora, "%.0f");
}

/* One evaluation: every kind of layer as often as the shape has it, whether that many ran or not. */
static int measure_shape(bench *b, shape_run *r) {
    int code = r->ends ? add_segment(b, r->ends, 1) : EXIT_GOOD;
    uint32_t i;
    for (i = 0; i < SHAPE_KINDS && r->run[i] && !code; i++)
        code = add_segment(b, r->segments[i], (double)r->s->layers[i].count / r->run[i]);
    if (code) return code;
    add_shape_keys(b, r);
    diti_format(b->line.title, sizeof b->line.title, "%s%s", r->s->name, r->ran < r->total ? " (extrapolated)" : "");
    add_key(b, r->s->in ? "steps_per_s" : "runs_per_s", 1 / (b->line.t.device > 0 ? b->line.t.device : b->line.t.wall),
            "%.4f");
    print_line(b);
    return b->o.profile ? profile(b, b->plan, 0, 1) : EXIT_GOOD;
}

/* One line per kind of layer, each for a single layer. */
static int measure_blocks(bench *b, shape_run *r) {
    uint32_t i;
    int code = EXIT_GOOD;
    for (i = 0; i < SHAPE_KINDS && r->run[i] && !code; i++) {
        uint32_t m = b->line.m, n = b->line.n;
        const char *type = b->line.type;
        memset(&b->line, 0, sizeof b->line);
        b->line.op = "block";
        b->line.type = type;
        b->line.m = m;
        b->line.n = n;
        code = add_segment(b, r->segments[i], 1.0 / r->run[i]);
        add_text(b, "shape", r->s->name);
        diti_format(b->line.title, sizeof b->line.title, "%s: %s", r->s->name, layer_names[r->s->layers[i].kind]);
        add_text(b, "layer", layer_names[r->s->layers[i].kind]);
        add_key(b, "count", r->s->layers[i].count, "%.0f");
        add_key(b, "lora", b->o.lora, "%.0f");
        if (!code) print_line(b);
    }
    return code || !b->o.profile ? code : profile(b, b->plan, 0, 1);
}

static int run_shape(bench *b, const shape *s) {
    bool blocks = strcmp(b->o.op, "block") == 0;
    shape_run r;
    int code;
    memset(&r, 0, sizeof r);
    r.s = s;
    choose_layers(&r, blocks ? 1 : b->o.layers);
    emit_shape(b, &r, !blocks);
    code = make_plan(b);
    if (code) return code;
    return blocks ? measure_blocks(b, &r) : measure_shape(b, &r);
}

static int case_shape(bench *b, const char *otherwise, bool encoder) {
    const char *name = b->o.shape ? b->o.shape : otherwise;
    const shape *known = find_shape(name);
    shape changed;
    if (!known || (known->in == 0) != encoder)
        return complain(EXIT_USAGE, "--shape %s: there is no such %s; dit-bench --help lists them", name,
                        encoder ? "encoder" : "architecture");
    if (!diti_type_is_i8(b->o.type) && known->hidden % diti_type_block(b->o.type))
        return complain(EXIT_USAGE, "--type %s: rows of %u values don't divide into blocks of %u; choose another type",
                        b->line.type, known->hidden, diti_type_block(b->o.type));
    changed = *known;
    if (b->o.tokens) changed.tokens = b->o.tokens;
    if (b->o.frames) changed.frames = b->o.frames;
    if (b->o.full) {
        changed.tokens *= changed.frames;
        changed.frames = 1;
        if (changed.layers[0].kind == LAYER_BOTH) changed.layers[0].kind = LAYER_CROSS;
    }
    return run_shape(b, &changed);
}

/* ---- an autoencoder's decoder: AutoencoderKL with (128, 256, 512, 512) channels. Nothing of it becomes int8 ---- */

typedef struct vae_net {
    bench *b;
    uint32_t size; /* height and width so far */
} vae_net;

static diti_tensor vae_norm(vae_net *v, diti_tensor x) {
    uint32_t channels = diti_tensor_get(&v->b->graph, x)->columns;
    diti_group_norm_desc desc = DITI_ZERO;
    desc.batch = 1;
    desc.groups = 32;
    desc.eps = 1e-6f;
    desc.weight = random_weight(v->b, DIT_TYPE_F32, 1, channels, 1);
    desc.bias = random_weight(v->b, DIT_TYPE_F32, 1, channels, 1);
    desc.silu = true;
    return diti_group_norm(&v->b->graph, x, &desc);
}

static diti_tensor vae_conv(vae_net *v, diti_tensor x, uint32_t channels, uint32_t kernel, bool upsample,
                            diti_tensor residual) {
    diti_conv_desc desc = DITI_ZERO;
    uint32_t in = diti_tensor_get(&v->b->graph, x)->columns;
    desc.batch = 1;
    desc.height = desc.width = v->size;
    desc.stride = 1;
    desc.pad_before = desc.pad_after = kernel / 2;
    desc.upsample = upsample;
    desc.bias = random_weight(v->b, DIT_TYPE_F32, 1, channels, 1);
    desc.residual = residual;
    if (upsample) v->size *= 2;
    in *= kernel * kernel;
    return diti_conv(&v->b->graph, x, random_weight(v->b, fitting_type(v->b, in), channels, in, kernel), &desc);
}

static diti_tensor vae_resnet(vae_net *v, diti_tensor x, uint32_t channels) {
    diti_tensor h = vae_conv(v, vae_norm(v, x), channels, 3, false, 0), shortcut = x;
    h = vae_norm(v, h);
    if (diti_tensor_get(&v->b->graph, x)->columns != channels) shortcut = vae_conv(v, x, channels, 1, false, 0);
    return vae_conv(v, h, channels, 3, false, shortcut);
}

static diti_tensor vae_attention(vae_net *v, diti_tensor x, uint32_t channels) {
    diti_attention_desc desc = DITI_ZERO;
    diti_linear_desc linear = DITI_ZERO;
    diti_graph *graph = &v->b->graph;
    uint32_t rows = v->size * v->size;
    diti_tensor qkv =
        diti_linear(graph, vae_norm(v, x), random_weight(v->b, v->b->o.type, 3 * channels, channels, 1), &linear);
    desc.batch = desc.heads = 1;
    desc.head_dim = channels;
    desc.scale = 1.0f / sqrtf((float)channels);
    return vae_conv(v,
                    diti_attention(graph, diti_tensor_view(graph, qkv, 0, rows, 0, channels),
                                   diti_tensor_view(graph, qkv, 0, rows, channels, channels),
                                   diti_tensor_view(graph, qkv, 0, rows, 2 * channels, channels), &desc),
                    channels, 1, false, x);
}

static void emit_vae(bench *b) {
    static const uint32_t channels[] = {512, 512, 256, 128};
    vae_net v = {b, b->o.size};
    diti_tensor x = vae_conv(&v, input(b, v.size * v.size, 4, "latent"), 512, 3, false, 0);
    uint32_t level, i;
    b->line.m = 64 * v.size * v.size;
    b->line.n = 3;
    diti_format(b->line.title, sizeof b->line.title, "decoder, latent %u × %u", v.size, v.size);
    add_key(b, "size", v.size, "%.0f");
    x = vae_attention(&v, vae_resnet(&v, x, 512), 512);
    x = vae_resnet(&v, x, 512);
    for (level = 0; level < 4; level++) {
        for (i = 0; i < 3; i++) x = vae_resnet(&v, x, channels[level]);
        if (level < 3) x = vae_conv(&v, x, channels[level], 3, true, 0);
    }
    vae_conv(&v, vae_norm(&v, x), 3, 3, false, 0);
}

static int case_vae(bench *b) {
    emit_vae(b);
    return finish_case(b);
}
#endif
