/* ops: the formulas. Each op creates its output unless told where to write. A family of models needs this header, and
   diti_plan_write for its tables. */
#ifndef DITI_OPS_H
#define DITI_OPS_H
#include "graph/group.h"
#include "graph/solver_row.h"

typedef enum diti_activation {
    DITI_ACTIVATION_NONE,
    DITI_ACTIVATION_GELU_TANH,
    DITI_ACTIVATION_GELU_ERF,
    DITI_ACTIVATION_SILU,
    DITI_ACTIVATION_QUICK_GELU,
    DITI_ACTIVATION_RELU,   /* products, where it is of all that is added, the residual too; and elementwise */
    DITI_ACTIVATION_SQUASH, /* these three are elementwise only: 3 tanh(x / 3) */
    DITI_ACTIVATION_LOG,    /* log(max(x, 1e-5)) */
    DITI_ACTIVATION_ROOT    /* sqrt(x) */
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
    diti_rows rows; /* rows of x, and in the same places of multiply, residual and out; rows_per_gate counts all */
    diti_cut cut;   /* part of weight, and of bias the same rows; K and N are those of the part */
    uint32_t kinds; /* diti_linear_fused: not 0: the rows of cut are meant of each of so many equal stretches of all */
    uint32_t kind;  /* not 0: this one of them alone, counted from 1 on: out has its columns */
    uint32_t first, count; /* count not 0: so many rows of weight, and of bias, from first on; without multiply, gate
                              and residual */
    bool out_f32;          /* new tensors: F32 instead of the activation format */
    bool unbiased;         /* without any bias, which another op adds */
    const char *name;
} diti_linear_desc;
/* x [rows, K] F32 or activation format, weight [N, K] of any type. Chooses GEMV for few rows, expands packed weights
   chunk by chunk. With an int8 weight x is quantized first, unless it is I8 already. */
DIT_INTERNAL diti_tensor diti_linear(diti_graph *graph, diti_tensor x, const diti_weight *weight,
                                     const diti_linear_desc *desc);
/* Whether a LoRA of the graph adds something to that weight. Its product wants floats, beside int8 rows too. */
DIT_INTERNAL bool diti_graph_adapts(const diti_graph *graph, const diti_weight *weight);
/* The weight that stands for all of fused where it is int8, for diti_norm_desc.reader; else NULL. */
DIT_INTERNAL const diti_weight *diti_fused_linear_reader(const diti_fused_linear *fused);
/* All rows of fused in one tensor [rows, N0 + N1 + N2]; of desc only activation, out, out_f32, unbiased, rows, cut
   (its rows with kinds) and name. */
DIT_INTERNAL diti_tensor diti_linear_fused(diti_graph *graph, diti_tensor x, const diti_fused_linear *fused,
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
    bool factor;                      /* x * scale, not x * (1 + scale) */
    diti_tensor residual;             /* F32 [rows of x, columns], may be out: added, without a shift; 0: none */
    uint32_t item_rows, text_rows;    /* not 0: every group has two rows in the tables, one for the first text_rows of
                                         every item_rows rows, one for the others */
    bool silu;                        /* last of all; not of I8 */
    diti_tensor out;                  /* write here; 0: a new tensor */
    const diti_weight *reader; /* the weight that alone reads the result; where it is int8, the result is I8 for it */
    bool out_f32;
    const char *name;
} diti_norm_desc;
DIT_INTERNAL diti_tensor diti_norm(diti_graph *graph, diti_tensor x, const diti_norm_desc *desc);

/* x * factors, both [rows, columns], factors F32; out, or a new tensor of x's format. An exponent of x becomes that of
   the result, which fits because factors of such an x are at most 1. */
DIT_INTERNAL diti_tensor diti_multiply(diti_graph *graph, diti_tensor x, diti_tensor factors, diti_tensor out,
                                       const char *name);

/* x [rows, columns] of floats as I8: every row on its own, amax / 127 to a step, ties to even; a row that holds what is
   not finite gets a scale that is not. rotated: columns is a multiple of DITI_ROTATION_GROUP. */
DIT_INTERNAL diti_tensor diti_quantize(diti_graph *graph, diti_tensor x, bool rotated, const char *name);
/* x F16 or F32 to rows of E4M3, the largest of a row to 448. */
DIT_INTERNAL diti_tensor diti_quantize_e4m3(diti_graph *graph, diti_tensor x, const char *name);
/* Quantizes rows of which every member of the group has some columns: all agree in the scales that whole rows have.
   Each sends 4 bytes of a row to every other one. */
DIT_INTERNAL diti_tensor diti_quantize_shared(diti_graph *graph, const diti_ranks *group, diti_tensor x, bool rotated,
                                              const char *name);

/* Quantizes into rows of an I8 tensor of as many columns, not rotated. */
DIT_INTERNAL void diti_quantize_to(diti_graph *graph, diti_tensor x, diti_tensor out, const char *name);

/* Takes columns [first, first + count) of x quantized so, with the scales that whole rows have. */
DIT_INTERNAL diti_tensor diti_quantize_columns(diti_graph *graph, diti_tensor x, uint32_t first, uint32_t count,
                                               bool rotated, const char *name);

/* softmax(scale * q k^T + bias + mask) v, per batch item and head; never an N x N buffer. q: a view [rows, heads *
   head_dim] with any pitch, k and v [rows, kv_heads * head_dim]. Without items q and k hold `batch` equal batches. With
   items, k and v are [key rows]: what no item names is never read; q is equal batches still, or packed. */
#define DITI_ITEM_WORDS 4u /* first query row, queries, first key row, keys; the first two count where packed only */
typedef struct diti_attention_desc {
    uint32_t batch, heads,
        head_dim;      /* head_dim <= 1536, above 512 without matrices; batch: rows of items where there are */
    uint32_t kv_heads; /* heads of k and v, each of which serves as many consecutive ones of q; 0: heads */
    float scale;
    float cap;          /* scaled scores become cap * tanh(score / cap) before bias and mask; 0: they stay */
    diti_tensor items;  /* U32 [batch, DITI_ITEM_WORDS]; no keys give 0; 0: none */
    bool packed;        /* batch items of unequal length: q is [query rows], each in one item */
    uint32_t key_limit; /* most keys that an item may have; 0: all rows of k */
    uint32_t row_step;  /* not 0: row r of item i is row i / row_step * row_step * (rows of an item) + i % row_step + r
                           * row_step of q, k, v and the result, so that the items of a group lie interleaved (a video's
                           positions, of which the rows are frames); without items, batch a multiple of it */
    diti_tensor bias;   /* F32 [heads, columns], element j - i + origin for key j and query i of an item (T5); origin is
                           query tokens - 1 and columns query tokens + key tokens - 1; packed: key_limit - 1 and 2 *
                           key_limit - 1; none */
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
    bool others;                      /* the rest is for the other rows of an item, from text_rows on */
    uint32_t kinds, text_rows;
    uint32_t kind;              /* not 0: x has the heads of this one of them alone, counted from 1 on */
    diti_tensor cosines, sines; /* F32 [tokens, head_dim / 2]; 0: no rotation */
    bool half_split;            /* pairs (i, i + d/2) instead of (2i, 2i + 1) */
    bool two_axes; /* half_split in either half of a head, with the first and the second half of the tables' columns;
                      where head_dim / 4 is odd, x is F32 and has columns behind it */
    bool rotate_first;       /* rotation, then RMS norm */
    uint32_t tokens;         /* rows per batch item: row r uses table row r % tokens / rows_per_entry */
    uint32_t rows_per_entry; /* 0: 1 */
    const char *name;
} diti_qkv_desc;
DIT_INTERNAL DITI_UNUSED void diti_qk_norm_rope(diti_graph *graph, diti_tensor x, const diti_qkv_desc *desc);
/* Rotates the first channels of heads in place, half-split among themselves, for each column of the tables two, and
   leaves the others. qkv [rows, 3 * heads * head_dim], no view: q, k, v side by side. cosines, sines F32 [3 * rows of
   an item, columns]: a row for each of q, k and v, where v's are ones and zeros. */
DIT_INTERNAL DITI_UNUSED void diti_turn_heads(diti_graph *graph, diti_tensor qkv, uint32_t heads, uint32_t head_dim,
                                              diti_tensor cosines, diti_tensor sines, const char *name);
/* Bytes of a head; 0: the device multiplies no int8 matrices, or not for such heads. */
DIT_INTERNAL uint32_t diti_attention_int8_head(const diti_device *device, uint32_t head_dim);
/* Whether heads are so wide that several subgroups of attention_coop.comp share one. */
DIT_INTERNAL bool diti_attention_is_wide(const diti_device *device, uint32_t head_dim);
/* Whether attention of such heads goes on matrices. */
DIT_INTERNAL bool diti_attention_has_matrices(const diti_device *device, uint32_t head_dim);
/* Asks how a subgroup spreads the elements of matrices of halves over its threads (shaders/coop_layout.comp): F32
   [1, diti_coop_layout_count], for each thread and each of its elements the number of that element, in a matrix of sums
   and in a first operand, then how many elements a thread has of either. */
DIT_INTERNAL diti_tensor diti_coop_layout(diti_graph *graph);
DIT_INTERNAL size_t diti_coop_layout_count(const diti_coop_shape *shape);
/* The member coop_layout of a diti_device that follows from these. */
DIT_INTERNAL uint32_t diti_coop_layout_of(const float *found, uint32_t lanes, const diti_coop_shape *shape);
/* Whether such matrices can have this layout. */
DIT_INTERNAL bool diti_coop_layout_fits(uint32_t layout, uint32_t lanes, const diti_coop_shape *shape);

/* In place on x F32: each row times its weight, then all rows of an item times what makes their mean what it was, as
   A1111's web UI weighs tokens. Weights of 1 change nothing. table: U32 [rows, 4], a diti_row_weight for each row of
   x. */
typedef struct diti_row_weight {
    float weight;
    uint32_t first, rows; /* rows of the item that the row is in; 0 rows: the row is in none */
    uint32_t zero;
} diti_row_weight;
DIT_INTERNAL void diti_weigh_rows(diti_graph *graph, diti_tensor x, diti_tensor table, const char *name);

/* Rows of a weight by index: ids U32 [1, count]; out F32 [count, columns]. */
DIT_INTERNAL diti_tensor diti_gather_rows(diti_graph *graph, const diti_weight *table, diti_tensor ids,
                                          const char *name);

/* Rows of a tensor by index: table F32; row numbers from its end on give zeros. */
DIT_INTERNAL diti_tensor diti_gather_tensor(diti_graph *graph, diti_tensor table, diti_tensor ids, const char *name);

/* y[r, c] = activation(x) + addend: addend F32 row r / rows_per_add % addend_rows; formats may differ (also the format
   conversion op). */
typedef struct diti_elementwise_desc {
    diti_activation activation;
    float scale, offset;   /* applied first: activation(x * scale + offset); scale 0 means 1 */
    diti_tensor add;       /* F32 [any, columns], repeated over rows; 0: none */
    uint32_t rows_per_add; /* rows that share a row of add; 0: 1 */
    diti_tensor out;
    bool out_f32;
    const char *name;
} diti_elementwise_desc;
DIT_INTERNAL diti_tensor diti_elementwise(diti_graph *graph, diti_tensor x, const diti_elementwise_desc *desc);
/* `from` to where `to` is, in the format of `to`. */
DIT_INTERNAL void diti_copy(diti_graph *graph, diti_tensor from, diti_tensor to, const char *name);
/* Copies those rows, both F32, whose word in choices, U32 [1, rows / rows of `from` that share a word], is `chosen`. */
DIT_INTERNAL void diti_copy_chosen(diti_graph *graph, diti_tensor from, diti_tensor to, diti_tensor choices,
                                   uint32_t chosen, const char *name);
/* Rows of int8 with their scales, not rotated, to where out is: F32 or F16. */
DIT_INTERNAL void diti_dequantize(diti_graph *graph, diti_tensor x, diti_tensor out, const char *name);
/* Attention o to some keys becomes attention to these and those of x, all F32 [rows, heads * head_dim], head_dim a
   multiple of 4; o_lse, x_lse: their diti_attention_desc.lse. The new ones, a new tensor. */
DIT_INTERNAL diti_tensor diti_merge_attention(diti_graph *graph, diti_tensor o, diti_tensor o_lse, diti_tensor x,
                                              diti_tensor x_lse, uint32_t head_dim);

/* Row `*step` of table (F32 or U32 [steps, columns]) as a new tensor [1, columns]. step: U32 [1,1] state. */
DIT_INTERNAL diti_tensor diti_select_row(diti_graph *graph, diti_tensor table, diti_tensor step, const char *name);
DIT_INTERNAL void diti_advance_step(diti_graph *graph,
                                    diti_tensor step); /* *step += 1, the last op of a repeated segment */

/* Residuals of blocks, kept and added again (ops_residual.c). A step's row of their table, F32 [1,
   DITI_REUSE_WORDS]: which slot is written, whether all must be computed, the threshold of changes, most steps that
   reuse one after the other, the step's number, and what each slot counts when they are added. */
#define DITI_REUSE_SLOTS 6u
typedef struct diti_reuse_row {
    float slot, computes, threshold, most, step, weights[DITI_REUSE_SLOTS], unused;
} diti_reuse_row;
#define DITI_REUSE_WORDS ((uint32_t)(sizeof(diti_reuse_row) / sizeof(float)))
typedef enum diti_residual_op {
    DITI_RESIDUAL_PUT,  /* slot = x */
    DITI_RESIDUAL_TAKE, /* slot = x - slot */
    DITI_RESIDUAL_ADD   /* x += weights * slots */
} diti_residual_op;
/* slots: as many tensors of the shape of x, F32 without gaps. row: begins with a diti_reuse_row's members. */
DIT_INTERNAL void diti_residual_do(diti_graph *graph, diti_residual_op op, diti_tensor x, const diti_tensor *slots,
                                   uint32_t count, diti_tensor row);
/* Whether the blocks that follow need not be computed: the result is a gate, a state that holds until the next one.
   change: what the first blocks add; changes[2]: places of what they added before, of its shape. state F32 [1,
   DITI_REUSE_STATE + steps]: slot of changes, whether there is something, steps reused since, steps reused in all, then
   for each step whether it did; next: the new one, which becomes state unless the step must run again. With sums
   (EasyCache) change is the input of the blocks, sums[2] are places of what diti_decide_measure told of their output,
   and state has DITI_FORECAST_STATE more words. */
#define DITI_REUSE_STATE 4u
#define DITI_REUSE_COUNT 3u
#define DITI_FORECAST_STATE 6u
typedef struct diti_decide_desc {
    diti_tensor change, changes[2], sums[2], state, next, row, gate;
    uint32_t items, text, image; /* rows of an item in change: the text's do not count */
    uint32_t first_branch, branches;
    const struct diti_ranks *group; /* devices that decide together; NULL: none */
} diti_decide_desc;
DIT_INTERNAL void diti_decide(diti_graph *graph, const diti_decide_desc *desc);
/* F32 [1, 4]: for either branch the sums of |change - before| and |change| over image rows. */
DIT_INTERNAL diti_tensor diti_decide_measure(diti_graph *graph, const diti_decide_desc *desc);

/* Latents are planar: F32 [batch * C, frames * height * width]. A patch is pt x p x p of their elements, and a token;
   tokens go frame by frame, line by line. Where a latent ends inside a patch, zeros stand beyond it. */
typedef struct diti_patches {
    uint32_t batch, channels;
    uint32_t frames, height, width; /* frames 0: an image, as 1 is */
    uint32_t patch, patch_frames;   /* p, pt; pt 0: 1 */
    bool channels_last;             /* diti_patchify: columns are (dt, dy, dx, c) */
} diti_patches;
/* How many tokens a batch item has. */
DIT_INTERNAL uint32_t diti_patches_tokens(const diti_patches *patches);
/* Patches (docs/models.md 2.6): out [batch * tokens, C * pt * p * p], column (c, dt, dy, dx), times *input when given
   (F32 [1, 1], the schedule's input scale). */
DIT_INTERNAL diti_tensor diti_patchify(diti_graph *graph, diti_tensor latent, const diti_patches *patches,
                                       diti_tensor input);
/* tokens [batch * tokens, pt * p * p * out_channels] with column (dt, dy, dx, c) -> F32 planar [batch * channels,
   frames * height * width] of the first `channels` channels. */
DIT_INTERNAL diti_tensor diti_unpatchify(diti_graph *graph, diti_tensor tokens, const diti_patches *patches,
                                         uint32_t out_channels);
/* Does so for tokens with column (c, dt, dy, dx). */
DIT_INTERNAL diti_tensor diti_unpatchify_planes(diti_graph *graph, diti_tensor tokens, const diti_patches *patches);
/* Planar F32 [batch * C, h*w] -> rows [batch * h*w, C] (activation format), value * scale + shift. */
DIT_INTERNAL diti_tensor diti_planar_to_rows(diti_graph *graph, diti_tensor planar, uint32_t batch, uint32_t channels,
                                             float scale, float shift);

/* The solver step of sample/sample.h, with guidance: prediction planar F32 [(1 or 2) * batch * C, h*w] (unconditional
   half first); when learned, every image's C planes are followed by C of what the model says about the variance.
   coefficients: F32 [1, DITI_COEFFICIENTS + 2 * batch], a diti_solver_row and zeros, and where frames are held 3 for
   each frame. x, h1, h2 (states like x; below h2 stand y and then h3, as far as there are any) are updated in place;
   x0 is written to `x0` when not 0. health: U32 [1, 4] state; word 0 becomes the number of the first step whose
   prediction or new latent is not finite. mixed: the prediction is guided by rescale, projected and norm limit, too,
   and then in all channels. */
typedef struct diti_solver_row {
#define DITI_SOLVER_MEMBER(at, name) float name;
    DITI_SOLVER_ROW(DITI_SOLVER_MEMBER)
#undef DITI_SOLVER_MEMBER
} diti_solver_row;
DITI_STATIC_ASSERT(sizeof(diti_solver_row) == DITI_COEFFICIENTS * sizeof(float), solver_row);
#define DITI_SOLVER_LINES 65535u
typedef struct diti_solver_desc {
    diti_tensor x, h1, h2, x0, noise, coefficients, health;
    uint32_t channels; /* C */
    bool guided, mixed, learned;
    uint32_t token_side, width; /* token_side not 0, with mixed: the guided prediction of every token of so many lines
                                   and columns has the length of the conditional one, and is not rescaled, projected
                                   or limited; DITI_SOLVER_LINES: of every line of every channel. width: of x's
                                   planes */
    bool sent;                  /* the prediction goes to other devices, too, so that it stays as it is */
    bool has_y, has_h3;         /* h3 has room for y in front, whether y is there or not */
    uint32_t frames; /* frames of a clip, side by side in each row of x, some of which stay as they are; 0: none */
    bool keeps; /* below h2, y or as much room, and h3, stand a picture's latent, its noise, and a mask: where that is
                   0, the new latent is kept_x0 * the first + kept_noise * the second */
} diti_solver_desc;
DIT_INTERNAL uint32_t diti_solver_planes(const diti_solver_desc *desc); /* how many times the rows of x has h2 */
DIT_INTERNAL uint32_t diti_solver_kept(const diti_solver_desc *desc);   /* the picture's latent is that one of these */
/* Where frames are held: what becomes of x before the model is evaluated, for each frame its x times x plus its noise
   times the tensor noise. It takes x, noise, coefficients, health, channels and frames from desc. */
DIT_INTERNAL void diti_solver_renoise(diti_graph *graph, const diti_solver_desc *desc);
DIT_INTERNAL void diti_solver_step(diti_graph *graph, diti_tensor prediction, const diti_solver_desc *desc);

/* Convolution on rows [batch * h*w, Cin]: kernel 1 or 3, stride 1 or 2. out [batch * oh*ow, Cout]. A weight over
   several frames takes the batch for the frames of a clip. Beyond its ends stand zeros, or the frame at the end. */
typedef struct diti_conv_desc {
    uint32_t batch, height, width;        /* shape of the input */
    uint32_t stride, frame_stride;        /* 0: 1 */
    bool edges;                           /* padding repeats the pixels at the edges, and is not zeros */
    uint32_t frames_before, frames_after; /* how many stand beyond the ends; less than the weight's frames */
    bool ends;                            /* these repeat the frames at the ends, and are not zeros */
    uint32_t pad_before,
        pad_after; /* zeros on top/left and bottom/right (docs/models.md 4.1: encoder downsampling pads 0 and 1) */
    uint32_t above, below; /* lines of each image that x has besides its `height`, seen there in place of zeros */
    bool upsample;         /* nearest x2 of the input first, on the fly */
    const diti_weight *bias;
    diti_activation activation;
    diti_tensor residual; /* [out rows, Cout], any float format */
    diti_tensor out;      /* write here; 0: a new tensor */
    bool out_f32;
    const char *name;
} diti_conv_desc;
DIT_INTERNAL diti_tensor diti_conv(diti_graph *graph, diti_tensor x, const diti_weight *weight,
                                   const diti_conv_desc *desc);

/* A convolution of each channel by itself, k x k taps and zeros around the picture, stride 1: y[r, c] = sum over taps
   of x[r', c] * weight[first + c, tap] + bias[first + c]. With a gate y(x) * silu(y(gate)), whose channels begin at
   gate_first of the weight. x and gate [batch * height * width, columns] of one format. */
typedef struct diti_depthwise_desc {
    uint32_t height, width;
    const diti_weight *weight, *bias; /* F32 [channels, k * k], k odd; F32 [channels], NULL: none */
    uint32_t first, gate_first;
    diti_tensor gate; /* 0: none */
    diti_tensor out;  /* write here; 0: a new tensor, F32 */
    const char *name;
} diti_depthwise_desc;
DIT_INTERNAL DITI_UNUSED diti_tensor diti_depthwise(diti_graph *graph, diti_tensor x, const diti_depthwise_desc *desc);
/* A 1 x 1 convolution in groups of as many channels as weight F32 [channels, size] has columns: y[r, c] = sum over i of
   x[r, c / size * size + i] * weight[c, i], to out. */
DIT_INTERNAL DITI_UNUSED void diti_grouped(diti_graph *graph, diti_tensor x, const diti_weight *weight, diti_tensor out,
                                           const char *name);

/* A periodic activation of samples, made at twice their rate, so that it adds no tones that they cannot hold
   (docs/models.md 4.12). u[n] = the sum over i, with n + 5 - i even, of up[i] * x[(n + 5 - i) / 2]; s = u + b *
   sin(a u)^2 by channel; y[t] = the sum over j of down[j] * s[2t + j - 5]. Beyond its ends a signal has the samples at
   the ends. x [samples, channels]; rates F32 [2, channels]: a, then b; filters F32 [2, DITI_SNAKE_TAPS]: up, then down.
   The result is F32. */
#define DITI_SNAKE_TAPS 12u
DIT_INTERNAL DITI_UNUSED diti_tensor diti_snake(diti_graph *graph, diti_tensor x, const diti_weight *rates,
                                                const diti_weight *filters, const char *name);

/* Attention without a softmax (docs/models.md 3.19): with q and k cut off below 0, a query's result is the sum over
   keys of v (k . q) divided by the sum of k . q, plus 1e-15. x [items * rows, any]: of head h, q stands in columns [h *
   step, h * step + head_dim), k and v key_offset and value_offset columns behind it. The result: F32 [items * rows,
   heads * head_dim].
 */
typedef struct diti_linear_attention_desc {
    uint32_t items, heads, head_dim; /* head_dim: a multiple of 4 */
    uint32_t step, key_offset, value_offset;
    const char *name;
} diti_linear_attention_desc;
DIT_INTERNAL DITI_UNUSED diti_tensor diti_linear_attention(diti_graph *graph, diti_tensor x,
                                                           const diti_linear_attention_desc *desc);

/* GroupNorm over rows [batch * pixels, C] (docs/models.md 1), optionally followed by SiLU. */
typedef struct diti_group_norm_desc {
    uint32_t batch, groups;
    float eps;
    const diti_weight *weight, *bias; /* F32 [C] */
    bool silu;
    uint32_t parts;      /* equal parts that every image in x is summed in before their sums are added in order:
                            devices that have some parts of an image each give the bytes of one that has all of them;
                            0: as suits the device */
    diti_tensor out;     /* write here; 0: a new tensor */
    diti_tensor moments; /* moments of all parts of every image, [batch * parts, DITI_GROUP_MOMENTS * groups] by
                            diti_group_moments: x is normalised by these; 0: by its own */
    const char *name;
} diti_group_norm_desc;
/* The contribution of each part of an image: for each group its mean (two floats), squared deviations from it, their
   count; F32 [batch * parts, DITI_GROUP_MOMENTS * groups]. */
#define DITI_GROUP_MOMENTS 4u
DIT_INTERNAL diti_tensor diti_group_moments(diti_graph *graph, diti_tensor x, const diti_group_norm_desc *desc);
DIT_INTERNAL diti_tensor diti_group_norm(diti_graph *graph, diti_tensor x, const diti_group_norm_desc *desc);

/* --- clips: rows are pixels, line by line and frame after frame (ops_frames.c) --- */
typedef struct diti_video {
    uint32_t frames, height, width;
} diti_video;

/* Twice the frames, or half of them. The first `first` frames stay, and the rule is about those behind them. */
typedef enum diti_blend_kind {
    DITI_BLEND_DOUBLE, /* each frame twice */
    DITI_BLEND_LINEAR, /* frame 0 stays; between the others by half-pixel centres: quarters and three quarters */
    DITI_BLEND_THIRDS, /* the mean of frames 2f - 2, 2f - 1 and 2f, frame 0 for those before it */
    DITI_BLEND_HALVES  /* the mean of two neighbours */
} diti_blend_kind;
typedef struct diti_blend_desc {
    diti_blend_kind kind;
    diti_video clip; /* x */
    uint32_t first;  /* for DOUBLE and HALVES */
    /* Not 0: a tensor as large as the result, which becomes weight * frames + more_weight * more. */
    diti_tensor more;
    float weight, more_weight;
    diti_tensor out;       /* write here; 0: a new tensor */
    bool out_f32, clamped; /* clamped: to -1..1 */
    const char *name;
} diti_blend_desc;
DIT_INTERNAL uint32_t diti_blended_frames(diti_blend_kind kind, uint32_t frames, uint32_t first);
DIT_INTERNAL DITI_UNUSED diti_tensor diti_blend_frames(diti_graph *graph, diti_tensor x, const diti_blend_desc *desc);

/* Blocks of time frames, side lines and side columns against channels: element (t, y, x) of channel c of the finer clip
   has the number c * channel_step + t * time_step + y * line_step + x * pixel_step, and channel n of the coarser one
   has the numbers from n * repeats to n * repeats + repeats - 1. */
typedef struct diti_block_desc {
    diti_video clip;  /* x */
    uint32_t columns; /* channels of the result */
    uint32_t time, side;
    uint32_t channel_step, time_step, line_step, pixel_step;
    uint32_t repeats;      /* 0: 1. Gathering: the mean of so many is a channel of the result */
    uint32_t modulus;      /* spreading: channel c is made as channel c % modulus is; 0: not so */
    uint32_t first;        /* spreading: the result lacks so many frames in front; gathering: so many stand before x */
    bool edge;             /* gathering: these are frame 0 of x, and not zeros */
    diti_tensor more;      /* added; 0: nothing */
    diti_tensor out;       /* write here; 0: a new tensor */
    bool out_f32, clamped; /* clamped: to -1..1 */
    const char *name;
} diti_block_desc;
DIT_INTERNAL DITI_UNUSED diti_tensor diti_spread_frames(diti_graph *graph, diti_tensor x, const diti_block_desc *desc);
DIT_INTERNAL DITI_UNUSED diti_tensor diti_gather_frames(diti_graph *graph, diti_tensor x, const diti_block_desc *desc);

/* x * scale + shift with rows of a coarser clip, the nearest (floor(i * coarse / fine)), then SiLU. */
typedef struct diti_condition_desc {
    diti_video clip, coarse;
    uint32_t first;           /* frames in front that belong to each other, and not to those behind them */
    diti_tensor scale, shift; /* [coarse rows, columns of x]; shift is F32 */
    bool silu;
    diti_tensor out; /* write here; 0: a new tensor */
    const char *name;
} diti_condition_desc;
DIT_INTERNAL DITI_UNUSED diti_tensor diti_condition_frames(diti_graph *graph, diti_tensor x,
                                                           const diti_condition_desc *desc);

/* Planes [channels, frames, area] in the order of memory, read as [frames, channels, area]; back: and again as it was.
 */
DIT_INTERNAL DITI_UNUSED diti_tensor diti_fold_frames(diti_graph *graph, diti_tensor x, const diti_video *clip,
                                                      bool back);

/* All of x, of floats, becomes 0, whatever was there. */
DIT_INTERNAL void diti_fill_zeros(diti_graph *graph, diti_tensor x);

/* A rectangle of frames of x to a place in those of out. With another tile each becomes other * (1 - a)
   + x * a, where a rises from 0 in the first line, or with right in the first column, to 1 behind the last. */
typedef struct diti_place_desc {
    diti_video from, to, part; /* x; out; what is moved of each */
    uint32_t first;            /* frame of x, and of other, that becomes the first of out */
    uint32_t from_y, from_x;   /* place in x */
    uint32_t y, x;             /* place in out */
    diti_tensor other;         /* 0: none */
    diti_video other_size;
    uint32_t other_y, other_x;
    bool right;
    diti_tensor out; /* may be x */
} diti_place_desc;
DIT_INTERNAL DITI_UNUSED void diti_place_frames(diti_graph *graph, diti_tensor x, const diti_place_desc *desc);

/* moments [rows, 2C], means and log-variances, as autoencoders give them: (mean + exp(log-variance / 2) * noise) *
   scale, F32 [rows, C]. The log-variance is clamped to [-30, 20]. noise [rows, C]; 0: none. */
DIT_INTERNAL diti_tensor diti_draw(diti_graph *graph, diti_tensor moments, diti_tensor noise, float scale,
                                   const char *name);

/* A rectangle of the pixels of from, which is from_width wide, to one of out. overlap: how many of its first and last
   lines and columns fade into what other tiles put there, whose weights and these give 1; tiles come line by line. */
typedef struct diti_tile {
    uint32_t from_y, from_x, from_width, out_y, out_x, out_width, height, width;
    uint32_t top, left, bottom, right;
} diti_tile;
DIT_INTERNAL void diti_move_tile(diti_graph *graph, diti_tensor from, diti_tensor out, const diti_tile *tile);

/* rows [pixels, 3] or with alpha [pixels, 4] in -1..1 -> packed RGBA8 words U32 [1, pixels] in `rgba` (swap: BGRA), and
   planar F32 [3, pixels] mapped to 0..1 but not clamped in `rgb` (docs/models.md 4.1); either may be 0. Non-finite
   values set word 2 of health. */
DIT_INTERNAL void diti_image_out(diti_graph *graph, diti_tensor rows, diti_tensor rgba, diti_tensor rgb, bool swap,
                                 diti_tensor health);
/* A latent, planar F32 [channels * patch^2, height * width], as rows of colours in about -1..1, F32 [height * width *
   patch^2, 3]: the sum over channels of their values times their row of table, plus its last row. table: F32 [channels
   + 1, DITI_COLOR_COLUMNS]. Plane c * patch^2 + dy * patch + dx is channel c of pixel (dy, dx) of a patch. */
#define DITI_COLOR_COLUMNS 4u /* red, green, blue, nothing */
DIT_INTERNAL diti_tensor diti_latent_colors(diti_graph *graph, diti_tensor planes, uint32_t height, uint32_t width,
                                            uint32_t patch, diti_tensor table);
/* rows [height * width, 3] in -1..1 -> a picture `factor` times as large, packed RGBA8 words U32 [1, pixels] (swap:
   BGRA), with straight lines between the centres of pixels. */
DIT_INTERNAL void diti_enlarge_out(diti_graph *graph, diti_tensor rows, uint32_t height, uint32_t width,
                                   uint32_t factor, diti_tensor rgba, bool swap);
/* Planes of sRGB values in 0..1, F32 [3, pixels], as texels of an image, U32 [1, words]: RGBA of halves in linear
   light, not clamped, or 8-bit greys, where pixels are a multiple of 4. */
DIT_INTERNAL void diti_texels_out(diti_graph *graph, diti_tensor rgb, diti_tensor texels, bool grey);
/* Packed RGBA8 words U32 [1, pixels] (swap: BGRA) -> rows [pixels, colors] F32 in -1..1; a fourth one is alpha. */
DIT_INTERNAL diti_tensor diti_image_in(diti_graph *graph, diti_tensor rgba, uint32_t colors, bool swap);
/* ops_lora.c: the vector with what LoRAs add to it: a tensor of its own, or `vector` itself where none does. */
DIT_INTERNAL diti_tensor diti_lora_vector(diti_graph *graph, const diti_weight *weight, diti_tensor vector);
#endif
