/* text: tokenizers and text encoders. */
#ifndef DITI_TEXT_H
#define DITI_TEXT_H
#include "graph/ops.h"
#include "graph/plan.h"
#include "io/io.h"
#include "text/tokenizer.h"

/* --- T5, mT5, umT5 encoders (docs/models.md 5.1) --- */
typedef struct diti_t5 diti_t5;
typedef struct diti_t5_traits {
    uint32_t columns, vocabulary, layers;
} diti_t5_traits;
/* transformers or llama.cpp key names; config NULL: sizes from metadata and shapes. */
DIT_INTERNAL dit_result diti_t5_load(diti_device *device, const diti_env *env, const diti_json *config,
                                     const diti_checkpoint *checkpoint, const char *prefix,
                                     const diti_load_options *options, diti_t5 **out, dit_error *err);
DIT_INTERNAL void diti_t5_destroy(diti_t5 *t5);
DIT_INTERNAL const diti_t5_traits *diti_t5_get_traits(const diti_t5 *t5);
DIT_INTERNAL const diti_weights *diti_t5_weights(const diti_t5 *t5);
/* Prompts of unequal length, one after the other: ids U32 [1, rows]; items says which rows each of them reads
   (diti_attention_desc: queries and keys count from the same rows; keys beyond those named are masked; a family that
   attends to padding names it as keys), and names every row once as a query -> F32 [rows, columns]. diti_t5_encode
   declares inputs for relative positions, one for each table of the model; diti_t5_write_inputs fills them once the
   plan exists. */
#define DITI_T5_MAX_BLOCKS 64u
typedef struct diti_t5_use {
    uint32_t batch, rows, tokens;         /* batch: items; tokens: the most that one of them has */
    diti_tensor ids, items;               /* items: U32 [batch, DITI_ITEM_WORDS] */
    diti_tensor weights;                  /* table of diti_weigh_rows; 0: all tokens count alike */
    diti_tensor bias[DITI_T5_MAX_BLOCKS]; /* F32 [heads, 2 * tokens - 1] */
} diti_t5_use;
DIT_INTERNAL diti_tensor diti_t5_encode(const diti_t5 *t5, diti_graph *graph, diti_t5_use *use);
DIT_INTERNAL dit_result diti_t5_write_inputs(const diti_t5 *t5, diti_plan *plan, const diti_t5_use *use,
                                             dit_error *err);

/* --- CLIP text encoders (docs/models.md 5.2) --- */
typedef struct diti_clip diti_clip;
typedef struct diti_clip_traits {
    uint32_t columns, projected; /* projected: columns of the projection, 0: none */
    uint32_t vocabulary, positions, layers;
} diti_clip_traits;
/* transformers' or OpenCLIP's key names; config NULL: sizes from shapes, heads of 64, the activation that goes with the
   size. */
DIT_INTERNAL dit_result diti_clip_load(diti_device *device, const diti_env *env, const diti_json *config,
                                       const diti_checkpoint *checkpoint, const char *prefix,
                                       const diti_load_options *options, diti_clip **out, dit_error *err);
DIT_INTERNAL void diti_clip_destroy(diti_clip *clip);
DIT_INTERNAL const diti_clip_traits *diti_clip_get_traits(const diti_clip *clip);
DIT_INTERNAL const diti_weights *diti_clip_weights(const diti_clip *clip);
/* Tells diti_clip_encode what is wanted, with ids U32 [1, batch * tokens]; holds inputs that it declares and
   diti_clip_write_inputs fills. */
typedef struct diti_clip_use {
    uint32_t batch, tokens;
    uint32_t skip;    /* of the last layers for states: 0: the last one's output, 1: that of the one before (SD3) */
    bool norm_states; /* states pass the final norm (not in SD3) */
    bool unprojected; /* pooled without the projection (FLUX) */
    diti_tensor ids;
    diti_tensor weights; /* of states: table of diti_weigh_rows; 0: all tokens count alike */
    diti_tensor causal;  /* F32 [heads, 2 * tokens - 1] */
    diti_tensor pooled;  /* U32 [1, batch]: rows of the tokens that stand for the prompts */
} diti_clip_use;
typedef struct diti_clip_result {
    diti_tensor states; /* F32 [batch * tokens, columns] */
    diti_tensor pooled; /* F32 [batch, projected or columns] */
} diti_clip_result;
DIT_INTERNAL void diti_clip_encode(const diti_clip *clip, diti_graph *graph, diti_clip_use *use, diti_clip_result *out);
/* ids: what the tensor holds, for the place of the end token. */
DIT_INTERNAL dit_result diti_clip_write_inputs(const diti_clip *clip, diti_plan *plan, const diti_clip_use *use,
                                               const int32_t *ids, dit_error *err);

/* --- BERT (docs/models.md 5.3) --- */
typedef struct diti_bert diti_bert;
typedef struct diti_bert_traits {
    uint32_t columns, vocabulary, positions, layers;
} diti_bert_traits;
DIT_INTERNAL dit_result diti_bert_load(diti_device *device, const diti_env *env, const diti_json *config,
                                       const diti_checkpoint *checkpoint, const char *prefix,
                                       const diti_load_options *options, diti_bert **out, dit_error *err);
DIT_INTERNAL void diti_bert_destroy(diti_bert *bert);
DIT_INTERNAL const diti_bert_traits *diti_bert_get_traits(const diti_bert *bert);
DIT_INTERNAL const diti_weights *diti_bert_weights(const diti_bert *bert);
typedef struct diti_bert_use {
    uint32_t batch, tokens;
    diti_tensor ids;     /* U32 [1, batch * tokens] */
    diti_tensor items;   /* U32 [batch, DITI_ITEM_WORDS]: the rows that each prompt attends to; 0: all of its own */
    diti_tensor weights; /* table of diti_weigh_rows; 0: all tokens count alike */
} diti_bert_use;
/* -> F32 [batch * tokens, columns] */
DIT_INTERNAL diti_tensor diti_bert_encode(const diti_bert *bert, diti_graph *graph, const diti_bert_use *use);
#endif
