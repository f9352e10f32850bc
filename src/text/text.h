/* text: tokenizers and text encoders. */
#ifndef DITI_TEXT_H
#define DITI_TEXT_H
#include "graph/graph.h"
#include "io/io.h"
#include "text/tokenizer.h"

/* --- T5, mT5, umT5 encoders (models.md 5.1) --- */
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
    diti_tensor bias[DITI_T5_MAX_BLOCKS]; /* F32 [heads, 2 * tokens - 1] */
} diti_t5_use;
DIT_INTERNAL diti_tensor diti_t5_encode(const diti_t5 *t5, diti_graph *graph, diti_t5_use *use);
DIT_INTERNAL dit_result diti_t5_write_inputs(const diti_t5 *t5, diti_plan *plan, const diti_t5_use *use,
                                             dit_error *err);
#endif
