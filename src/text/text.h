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
/* ids U32 [1, batch * tokens]; lengths U32 [1, batch] masks the padding (0: padding is attended, as SD3 and FLUX do)
   -> F32 [batch * tokens, columns]. diti_t5_encode declares inputs for relative positions, one for each table of the
   model; diti_t5_write_inputs fills them once the plan exists. */
#define DITI_T5_MAX_BLOCKS 64u
typedef struct diti_t5_use {
    uint32_t batch, tokens;
    diti_tensor ids, lengths;
    diti_tensor bias[DITI_T5_MAX_BLOCKS]; /* F32 [heads, 2 * tokens - 1] */
} diti_t5_use;
DIT_INTERNAL diti_tensor diti_t5_encode(const diti_t5 *t5, diti_graph *graph, diti_t5_use *use);
DIT_INTERNAL dit_result diti_t5_write_inputs(const diti_t5 *t5, diti_plan *plan, const diti_t5_use *use,
                                             dit_error *err);
#endif
