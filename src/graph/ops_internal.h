/* How ops fill a dispatch; no other room needs it. */
#ifndef DITI_OPS_INTERNAL_H
#define DITI_OPS_INTERNAL_H
#include "graph/ops.h"

/* Appends a copy of dispatch; widens the life of what it binds. One that is early comes to stand before the newest,
   where that reads what the early one before has made: a device then computes a product while it expands the weights of
   the next, by turns in two places, and waits once for both. */
DIT_INTERNAL void diti_graph_dispatch(diti_graph *graph, const diti_dispatch *dispatch);
DIT_INTERNAL void diti_graph_mark(diti_graph *graph, uint32_t block);
/* The part of weight that cut leaves (weight itself where it cuts nothing off); it lives as long as the graph, and its
 * plan. */
DIT_INTERNAL const diti_weight *diti_weight_cut(diti_graph *graph, const diti_weight *weight, const diti_cut *cut);

/* --- tuning: what an op wants to be measured (tune.c) --- */
typedef struct diti_gemm_image {                   /* a convolution's geometry */
    uint32_t height, width, out_height, out_width; /* height and width after upsampling */
    uint32_t kernel, stride, pad, upsample;
    uint32_t frames, frame_stride; /* frames that a result reads; frames from one to the next. Both are 1 for images */
    uint32_t in_frames, frames_before; /* frames of the clip; frames that are missing before its first */
    bool edges, ends; /* beyond the edges are the pixels at them, not zeros; beyond the ends the frames at them */
    uint32_t above, outside; /* lines that height has besides the image's, before upsampling: above it, and in all */
} diti_gemm_image;
typedef enum diti_tune_kind { DITI_TUNE_GEMM, DITI_TUNE_ATTENTION } diti_tune_kind;
typedef struct diti_tune_case {
    diti_tune_kind kind;
    diti_kernel kernel;            /* kernel of products; attention takes the one that follows from the rest */
    diti_element formats[3];       /* x, weight, out; of attention all three the same */
    uint32_t rows, columns, depth; /* M, N, K; queries, keys, heads */
    uint32_t head_dim;
    diti_gemm_image image; /* kernel 0: none */
    uint64_t shapes;       /* diti_tune_choose sets it */
} diti_tune_case;

/* --- a dispatch (ops.c) --- */
/* Zeroes dispatch; false when the graph has failed already. constants[0] is the workgroup's size. */
DIT_INTERNAL bool diti_op_begin(diti_graph *graph, diti_dispatch *dispatch, const char *name, diti_kernel kernel,
                                uint32_t group_size);
/* Binding `index`: exactly the memory of tensor, its element offset in push word `word`. Tensor 0 is skipped. */
DIT_INTERNAL void diti_op_bind(const diti_graph *graph, diti_dispatch *dispatch, uint32_t index, diti_tensor tensor,
                               uint8_t word, bool reads, bool writes);
/* Every `div` workgroups of that binding touch the next `rows` rows, from `before` rows earlier to `after` rows later.
 */
DIT_INTERNAL void diti_op_bind_rows(const diti_graph *graph, diti_dispatch *dispatch, uint32_t index, uint32_t div,
                                    uint64_t rows, uint64_t before, uint64_t after);
/* Appends the dispatch; groups is 64-bit so that too large a count is caught here. */
DIT_INTERNAL void diti_op_emit(diti_graph *graph, diti_dispatch *dispatch, uint64_t groups, uint32_t push_count);
/* Rows can be read four elements at a time (the last few of a row one by one, where columns is no multiple of 4). */
DIT_INTERNAL bool diti_op_aligned(const diti_graph *graph, diti_tensor tensor);
/* Aligned, and columns is a multiple of 4; 0 is. */
DIT_INTERNAL bool diti_op_vector(const diti_graph *graph, diti_tensor tensor);
/* tensor itself, or an aligned copy. */
DIT_INTERNAL diti_tensor diti_op_align(diti_graph *graph, diti_tensor tensor, const char *name);
DIT_INTERNAL uint32_t diti_op_float(float value); /* the bits of a float, for push constants */
/* Fails the graph unless tensor is [rows, columns] of floats that kernels can write four (F16: two) at a time. */
DIT_INTERNAL bool diti_op_writable(diti_graph *graph, diti_tensor tensor, uint32_t rows, uint32_t columns,
                                   const char *name);
/* An F32 vector [1, columns] (a bias, a norm's weight) as a tensor; 0 when absent or the graph failed. */
DIT_INTERNAL diti_tensor diti_op_vector_weight(diti_graph *graph, const diti_weight *weight, uint32_t columns,
                                               const char *name);
/* Rows [first, first + rows) of a weight's part as [rows, columns] elements whose pitch is a multiple of 4: the weight
   itself where it is F32 or F16 and allows it, else expanded (ops_expand.c); convolutions become (k, k, Cin). blocks:
   as int8 with a scale for each 32 columns. */
DIT_INTERNAL diti_tensor diti_op_dequantize(diti_graph *graph, const diti_weight *weight, uint32_t part, uint32_t first,
                                            uint32_t rows, bool blocks, const char *name);
/* How many rows to expand at a time. */
DIT_INTERNAL uint32_t diti_op_dequantize_rows(const diti_graph *graph, const diti_weight *weight, uint32_t part,
                                              bool blocks);
/* x, of whole blocks of 32 columns, as int8 with a scale for each; layers that read the same x share them. */
DIT_INTERNAL diti_tensor diti_quantize_blocks(diti_graph *graph, diti_tensor x, const char *name);
/* A GEMM with its epilogue; image: a convolution's geometry, or NULL. */
typedef struct diti_gemm {
    diti_tensor x, weight; /* weight [N, taps * K padded to 4] */
    diti_tensor bias, multiply, gate, residual, out;
    uint32_t activation; /* diti_activation */
    uint32_t rows, columns, depth, rows_per_gate;
    uint32_t
        parts; /* split-K: 0: not decided; 1: no; more: x is [parts * rows rounded up to 16, columns], to be added */
    uint32_t out_step; /* rows of out from item to item, of products for the rows of items; 0: those of x */
    const diti_gemm_image *image;
    dit_type packed; /* not 0: weight is stored like that, and decoded where it is loaded */
    dit_type float8; /* not 0: weight is bytes of this type, and x rows of E4M3 */
    bool blocks;     /* weight and x are int8 with a scale for each 32 columns */
    const char *name;
} diti_gemm;
/* Parts with rows [begin, end) of a weight that ops of other devices read, and none of this one, which has no rows for
   it: they are sent and received here, too. */
DIT_INTERNAL void diti_linear_pass_on(diti_graph *graph, const diti_weight *weight, uint32_t begin, uint32_t end);
/* gemm with rows [begin, end) of a weight, whatever its type, for the rows of each item: columns of gemm's operands are
   counted from begin on (ops_linear.c). */
DIT_INTERNAL void diti_linear_chunks(diti_graph *graph, const diti_gemm *gemm, const diti_weight *weight,
                                     const diti_rows *which, uint32_t begin, uint32_t end);
/* Whether the product itself decodes a packed weight when it loads it. */
DIT_INTERNAL bool diti_linear_decodes(const diti_graph *graph, const diti_gemm *gemm, const diti_weight *weight,
                                      const diti_rows *which);
DIT_INTERNAL diti_tensor diti_linear_columns(diti_graph *graph, diti_tensor tensor, uint32_t first, uint32_t count);
DIT_INTERNAL diti_tensor diti_linear_rows(diti_graph *graph, diti_tensor tensor, uint32_t first, uint32_t count);
/* Does so with what LoRAs add (ops_lora.c). weight: a cut of whole, which desc describes. */
DIT_INTERNAL void diti_lora_linear(diti_graph *graph, const diti_gemm *gemm, const diti_weight *weight,
                                   const diti_weight *whole, const diti_linear_desc *desc);
/* In one product or in several (ops_split_k.c); in one (ops_gemm.c). */
DIT_INTERNAL void diti_op_gemm(diti_graph *graph, const diti_gemm *gemm);
/* Room for products that are added with gemm.parts, F32 [rows, columns]: what is added reads whole fours of columns, so
   that zeros stand behind the last. */
DIT_INTERNAL diti_tensor diti_op_partials(diti_graph *graph, uint32_t rows, uint32_t columns);
DIT_INTERNAL void diti_op_gemm_whole(diti_graph *graph, const diti_gemm *gemm);
/* Whether blocks of int8 are to be multiplied in place of what a product has, its x and weight. */
DIT_INTERNAL bool diti_op_gemm_blocks(const diti_graph *graph, const diti_gemm *gemm);
/* Whether the device has matrices of 8-bit floats for this product, x and weight aside (gemm.float8). */
DIT_INTERNAL bool diti_op_gemm_float8(const diti_graph *graph, const diti_gemm *gemm);
/* Tiles of the usual size that a product has: down, and across. */
DIT_INTERNAL uint32_t diti_op_gemm_tiles(const diti_graph *graph, const diti_gemm *gemm, uint32_t *across);
/* Whether a product of packed weights has one row of tiles, so that no weight is decoded twice, and a kernel that
   decodes them. The one for broadcasts does not: it is so much faster than others that weights are better expanded for
   it. */
DIT_INTERNAL bool diti_op_gemm_decodes(const diti_graph *graph, const diti_gemm *gemm);
/* Which candidate of a kernel to take, 0 being the usual one; all give the same bytes. */
DIT_INTERNAL uint32_t diti_tune_choose(diti_graph *graph, const diti_tune_case *wanted);
/* Whether `tiles` of the usual size are too few, and a product is done in parts (ops_split_k.c). */
DIT_INTERNAL bool diti_op_splits_gemm(const diti_graph *graph, const diti_gemm *gemm, uint64_t tiles);
/* How attention divides its work (ops_attention.c, ops_attention_matrix.c). */
#define DITI_ATTENTION_CONSTANTS 12u
typedef struct diti_attention_tiles {
    diti_kernel kernel;
    uint32_t group, block;                                        /* workgroup size and its queries */
    uint32_t quads;                                               /* room for head_dim / 4 */
    uint32_t constants[DITI_ATTENTION_CONSTANTS], constant_count; /* from id 6 on */
} diti_attention_tiles;
/* On cooperative matrices: false where the device has none that fit, or none worth it. int8: of queries and keys. */
DIT_INTERNAL bool diti_attention_tiles_matrix(const diti_device *device, uint32_t head_dim, uint32_t queries,
                                              uint32_t keys, bool int8, uint32_t candidate, diti_attention_tiles *out);

/* A dispatch under guard (guard.c): does nothing in a graph that is not guarded. */
typedef struct diti_guard_use {
    diti_tensor out;         /* F16: may get an exponent; F32: only looked at; 0: neither */
    diti_tensor operands[2]; /* without out: both are undone together; else the second one multiplies the result */
    bool narrows;            /* the kernel makes F16 of an F32 operand 0 */
    uint32_t binding;
    uint8_t word;
} diti_guard_use;
DIT_INTERNAL void diti_op_guard(diti_graph *graph, diti_dispatch *dispatch, const diti_guard_use *use);
/* The dispatch does nothing while a segment must run again. */
DIT_INTERNAL void diti_op_gate(diti_graph *graph, diti_dispatch *dispatch, uint32_t binding, uint8_t word);
/* `to` is stored with the exponent of `from`. */
DIT_INTERNAL void diti_guard_pass(diti_graph *graph, diti_tensor from, diti_tensor to);
/* tensor, or a copy for kernels that know no exponents. */
DIT_INTERNAL diti_tensor diti_guard_release(diti_graph *graph, diti_tensor tensor, const char *name);
/* tensor, F32 without an exponent, with that of `like`. */
DIT_INTERNAL DITI_UNUSED diti_tensor diti_guard_like(diti_graph *graph, diti_tensor tensor, diti_tensor like,
                                                     const char *name);
/* Copies, unless a segment must run again. */
DIT_INTERNAL void diti_copy_gated(diti_graph *graph, diti_tensor from, diti_tensor to, const char *name);
#define DITI_GUARD_CELL 16u /* bytes: what offsets of guards and health count */

/* --- one transfer (exchange.c); other rooms say what they need in the words of group.h --- */
/* An exchange begins behind the ops so far; its number. Without an end of its own it ends with its segment. */
DIT_INTERNAL uint32_t diti_exchange_begin(diti_graph *graph, diti_tensor tensor, uint32_t peer, bool sends);
DIT_INTERNAL void diti_exchange_end(diti_graph *graph, uint32_t exchange);
/* The exchange does not end with its segment: it may go on in later runs of this one and of others. Its tensor must be
   a state or an input. */
DIT_INTERNAL void diti_exchange_carry(diti_graph *graph, uint32_t exchange);
/* Here all carried exchanges of that very tensor that have begun are through. */
DIT_INTERNAL void diti_exchange_join(diti_graph *graph, diti_tensor tensor);

/* --- int8 rows of which other devices have columns, too (ops_norm.c) --- */
/* The largest magnitude of each row, F32 [1, rows]. */
DIT_INTERNAL diti_tensor diti_quantize_measure(diti_graph *graph, diti_tensor x, bool rotated, const char *name);
/* diti_quantize, with the scales that rows have whose largest magnitudes stand in agreed, F32 [members, rows]; 0: x is
   whole. */
DIT_INTERNAL diti_tensor diti_quantize_agreed(diti_graph *graph, diti_tensor x, bool rotated, diti_tensor agreed,
                                              const char *name);

/* --- queries and keys as int8 (ops_attention.c) --- */
/* About the mean over all rows of the keys that diti_qk_norm_rope would make of x: F32 [1, heads * head_dim]. */
DIT_INTERNAL diti_tensor diti_qkv_mean(diti_graph *graph, diti_tensor x, const diti_qkv_desc *desc);
/* Makes of x what diti_qk_norm_rope would, as int8 with a scale for each head of each row, for diti_attention; mean is
   that of the keys, which goes from them. I8 [rows, heads * diti_attention_int8_head]. */
DIT_INTERNAL diti_tensor diti_qkv_int8(diti_graph *graph, diti_tensor x, const diti_qkv_desc *desc, diti_tensor mean,
                                       bool keys);
#endif
