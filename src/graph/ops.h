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
    diti_rows rows; /* rows of x, and in the same places of multiply, residual and out; rows_per_gate counts all */
    diti_cut cut;   /* part of weight, and of bias the same rows; K and N are those of the part */
    uint32_t kinds; /* diti_linear_fused: not 0: the rows of cut are meant of each of so many equal stretches of all */
    bool out_f32;   /* new tensors: F32 instead of the activation format */
    bool unbiased;  /* without any bias, which another op adds */
    const char *name;
} diti_linear_desc;
/* x [rows, K] F32 or activation format, weight [N, K] of any type. Chooses GEMV for few rows, expands packed weights
   chunk by chunk. With an int8 weight x is quantized first, unless it is I8 already. */
DIT_INTERNAL diti_tensor diti_linear(diti_graph *graph, diti_tensor x, const diti_weight *weight,
                                     const diti_linear_desc *desc);
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
    uint32_t item_rows, text_rows;    /* not 0: every group has two rows in the tables, one for the first text_rows of
                                         every item_rows rows, one for the others */
    diti_tensor out;                  /* write here; 0: a new tensor */
    const diti_weight *reader; /* the weight that alone reads the result; where it is int8, the result is I8 for it */
    bool out_f32;
    const char *name;
} diti_norm_desc;
DIT_INTERNAL diti_tensor diti_norm(diti_graph *graph, diti_tensor x, const diti_norm_desc *desc);

/* x [rows, columns] of floats as I8: every row on its own, amax / 127 to a step, ties to even; a row that holds what is
   not finite gets a scale that is not. rotated: columns is a multiple of DITI_ROTATION_GROUP. */
DIT_INTERNAL diti_tensor diti_quantize(diti_graph *graph, diti_tensor x, bool rotated, const char *name);
/* Quantizes rows of which every member of the group has some columns: all agree in the scales that whole rows have.
   Each sends 4 bytes of a row to every other one. */
DIT_INTERNAL diti_tensor diti_quantize_shared(diti_graph *graph, const diti_group *group, diti_tensor x, bool rotated,
                                              const char *name);

/* Quantizes into rows of an I8 tensor of as many columns, not rotated. */
DIT_INTERNAL void diti_quantize_to(diti_graph *graph, diti_tensor x, diti_tensor out, const char *name);

/* Takes columns [first, first + count) of x quantized so, with the scales that whole rows have. */
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
    uint32_t most_keys; /* most keys that an item may have; 0: all rows of k */
    uint32_t row_step;  /* not 0: row r of item i is row i / row_step * row_step * (rows of an item) + i % row_step + r
                           * row_step of q, k, v and the result, so that the items of a group lie interleaved (a video's
                           positions, of which the rows are frames); without items, batch a multiple of it */
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
    bool two_axes; /* half_split in either half of a head, with the first and the second half of the tables' columns;
                      where head_dim / 4 is odd, x is F32 and has columns behind it */
    bool rotate_first;       /* rotation, then RMS norm */
    uint32_t tokens;         /* rows per batch item: row r uses table row r % tokens / rows_per_entry */
    uint32_t rows_per_entry; /* 0: 1 */
    const char *name;
} diti_qkv_desc;
DIT_INTERNAL DITI_UNUSED void diti_qk_norm_rope(diti_graph *graph, diti_tensor x, const diti_qkv_desc *desc);
/* Bytes of a head; 0: the device multiplies no int8 matrices, or not for such heads. */
DIT_INTERNAL uint32_t diti_attention_int8_head(const diti_device *device, uint32_t head_dim);

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

/* Latents are planar: F32 [batch * C, frames * height * width]. A patch is pt x p x p of their elements, and a token;
   tokens go frame by frame, line by line. Where a latent ends inside a patch, zeros stand beyond it. */
typedef struct diti_patches {
    uint32_t batch, channels;
    uint32_t frames, height, width; /* frames 0: an image, as 1 is */
    uint32_t patch, patch_frames;   /* p, pt; pt 0: 1 */
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
   coefficients: F32 [1, DITI_COEFFICIENTS + 2 * batch], a diti_solver_row and zeros. x, h1, h2 (states like x, h2 with
   y below it when the solver corrects) are updated in place; x0 is written to `x0` when not 0. health: U32 [1, 4]
   state; word 0 becomes the number of the first step whose prediction or new latent is not finite. mixed: the
   prediction is guided by rescale, projected and norm limit, too, and then in all channels. */
typedef struct diti_solver_row {
#define DITI_SOLVER_MEMBER(at, name) float name;
    DITI_SOLVER_ROW(DITI_SOLVER_MEMBER)
#undef DITI_SOLVER_MEMBER
} diti_solver_row;
DITI_STATIC_ASSERT(sizeof(diti_solver_row) == DITI_COEFFICIENTS * sizeof(float), solver_row);
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
    uint32_t batch, height, width; /* shape of the input */
    uint32_t stride;
    uint32_t pad_before,
        pad_after; /* zeros on top/left and bottom/right (docs/models.md 4.1: encoder downsampling pads 0 and 1) */
    uint32_t above, below; /* lines of an image that x has besides its `height`, seen there in place of zeros */
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
    uint32_t parts;      /* equal parts that every image in x is summed in before their sums are added in order:
                            devices that have some parts of an image each give the bytes of one that has all of them;
                            0: as suits the device */
    diti_tensor moments; /* moments of all parts of every image, [batch * parts, DITI_GROUP_MOMENTS * groups] by
                            diti_group_moments: x is normalised by these; 0: by its own */
    const char *name;
} diti_group_norm_desc;
/* The contribution of each part of an image: for each group its mean (two floats), squared deviations from it, their
   count; F32 [batch * parts, DITI_GROUP_MOMENTS * groups]. */
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
/* Planes of sRGB values in 0..1, F32 [3, pixels], as texels of an image, U32 [1, words]: RGBA of halves in linear
   light, not clamped, or 8-bit greys, where pixels are a multiple of 4. */
DIT_INTERNAL void diti_texels_out(diti_graph *graph, diti_tensor rgb, diti_tensor texels, bool grey);
/* Packed RGBA8 words U32 [1, pixels] (swap: BGRA) -> rows [pixels, 3] F32 in -1..1. */
DIT_INTERNAL diti_tensor diti_image_in(diti_graph *graph, diti_tensor rgba, bool swap);
#endif
