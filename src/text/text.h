/* text: tokenizers and text encoders. */
#ifndef DITI_TEXT_H
#define DITI_TEXT_H
#include "graph/ops.h"
#include "graph/plan.h"
#include "io/io.h"
#include "text/tokenizer.h"
#include "weights/component.h"

/* --- chat templates (chat.c): how a prompt is put to a decoder language model, and which of its hidden states are the
   text that a transformer reads (docs/models.md 5.5) --- */
/* State k is what the first k layers make of the embeddings, which are state 0; the last is behind the final norm.
   Layers behind the last state that is wanted are neither loaded nor computed. */
#define DITI_TAPS 16u
#define DITI_TAPS_ALL 64u /* count: all states, of which there are at most so many */
typedef struct diti_taps {
    uint32_t count;        /* states that lie side by side in the columns of a row; 0: the last one alone */
    uint32_t layers;       /* layers of the encoder whose states are numbered here; in one with other layers the states
                              at the same fractions count; 0: any encoder's */
    int32_t at[DITI_TAPS]; /* below 0: counted from the end, -1 is the last */
    uint32_t form;         /* any of the enum below */
} diti_taps;
enum {                         /* diti_taps.form */
       DITI_TAPS_UNNORMED = 1, /* the last state is before the final norm */
       DITI_TAPS_CUT = 4,      /* layers counts those of an encoder that is cut, and one with more has them in front */
       DITI_TAPS_DEALT = 2     /* the states of a column lie side by side, and not the columns of a state */
};
enum { /* diti_chat.rules */
       DITI_CHAT_KEEPS_AFTER =
           1,                /* a text too long is cut before `after`, whose tokens are made apart; else at the end */
       DITI_CHAT_LOWERS = 2, /* the prompt is lower-cased, and without white space at its ends */
       DITI_CHAT_KEEPS_FIRST = 4, /* the first and the last token of `dropped` are part of the text nevertheless */
       DITI_CHAT_PLAIN_GUIDES =
           8, /* a negative prompt has no text around it, nor has an empty one that is made a blob */
       DITI_CHAT_PADS_BEFORE = 16,   /* padding stands in front of the text and attends nothing; with `padded` */
       DITI_CHAT_SPELLS_QUOTES = 32, /* diti_tokens.spells_quotes */
       DITI_CHAT_STRIPS = 64,        /* the prompt has no white space at its ends */
       DITI_CHAT_EMPTY_ALONE = 128,  /* `empty` stands for an empty prompt and the text around it */
       DITI_CHAT_GUIDES_UNSEEN =
           256 /* a negative prompt is not shown the pictures, and has the text of those without */
};
typedef struct diti_chat {
    const char *classes;        /* pipelines' classes in model_index.json, with spaces between */
    const char *before, *after; /* exact text around a prompt */
    const char *picture;        /* text in front of each picture, between `before` and the prompt; the picture's number,
                                   from 1 on, stands for #; a blank in front stands between pictures
                                   alone. NULL: pictures are not shown */
    const char *dropped;        /* the beginning of `before` whose states are no part of the text; "": none */
    const char *empty;          /* stands for an empty prompt */
    uint32_t tokens;            /* most tokens of the text, without those of `dropped` */
    bool padded;                /* padding up to `tokens`, beside those of pictures, is part of the text, too */
    uint32_t rules;             /* any of the enum above */
    diti_taps taps;
    uint32_t
        unit; /* not 0: padding up to a multiple of so many tokens is part of the text, too, and stands at place 1 */
} diti_chat;
#define DITI_CHATS_END                                                                                                 \
    { NULL, "", "", NULL, "", "", 0, false, 0, {0, 0, {0}, false}, 0 } /* behind a family's last */
DIT_INTERNAL const diti_chat *diti_chat_plain(void);                   /* the prompt alone, the last state */
DIT_INTERNAL bool diti_chat_has_class(const diti_chat *chat, const char *class_name);
/* ChatML, in which Qwen's language models are asked. */
#define DITI_CHAT_SYSTEM "<|im_start|>system\n"
#define DITI_CHAT_USER "<|im_start|>user\n"
#define DITI_CHAT_ANSWER "<|im_end|>\n<|im_start|>assistant\n"
/* The states of `own` layers that taps name, in order: numbers from 0 to own, with room for DITI_TAPS, or where all are
   named for DITI_TAPS_ALL. false: one of them is not there. */
DIT_INTERNAL bool diti_taps_resolve(const diti_taps *taps, uint32_t own, uint32_t *out, uint32_t *count);

/* --- a text encoder, whatever its kind --- */
typedef struct diti_encoder_traits {
    uint32_t columns, projected; /* projected: columns of the pooled output's projection, 0: none */
    uint32_t vocabulary, positions, layers;
    uint32_t source; /* columns of another encoder's states that it reads; 0: it reads tokens alone */
} diti_encoder_traits;
#define DITI_ENCODER_INPUTS 64u
/* Inputs of decoder language models. */
enum {
    DITI_DECODER_COSINES,
    DITI_DECODER_SINES,
    DITI_DECODER_MASK,
    DITI_DECODER_WINDOW,
    DITI_DECODER_ORDER, /* U32 [1, rows]: rows of embeddings, then of pictures; from here on where there are pictures */
    DITI_DECODER_VISION_PIXELS,
    DITI_DECODER_VISION_COSINES,
    DITI_DECODER_VISION_SINES,
    DITI_DECODER_VISION_PICTURES,
    DITI_DECODER_VISION_WINDOWS,
    DITI_DECODER_VISION_PLACES, /* Qwen3-VL: F32 [patches, D], what tells where they are */
    DITI_DECODER_DEEP,          /* U32 [1, rows]: rows of use->deep that are added to those of the text; others none */
    DITI_DECODER_LOCAL_COSINES, /* Gemma 3: of its windowed layers */
    DITI_DECODER_LOCAL_SINES
};
#define DITI_VISION_DEEP 4u
#define DITI_MAX_PICTURES 10u
typedef struct diti_vision_grid { /* tokens that a picture is to a language model */
    uint32_t rows, columns;
} diti_vision_grid;
/* Prompts in a graph: ids U32 [1, rows], those of all prompts one after the other. Encoding declares what else the
   encoder has to know as inputs of its own, which are filled once the plan exists. */
typedef struct diti_encoder_use {
    uint32_t batch, rows, tokens; /* batch: items; tokens: the most that one of them has */
    diti_tensor ids;
    diti_tensor items;   /* U32 [batch, DITI_ITEM_WORDS]: the rows that each prompt attends to; 0: all of its own */
    diti_tensor weights; /* table of diti_weigh_rows for states; 0: all tokens count alike */
    uint32_t skip; /* CLIP: of the last layers for states: 0: the last one's output, 1: that of the one before (SD3) */
    bool norm_states;                             /* CLIP: states pass the final norm (not in SD3) */
    bool unprojected;                             /* CLIP: pooled without the projection (FLUX) */
    diti_vision_grid pictures[DITI_MAX_PICTURES]; /* stand in every prompt, in this order */
    uint32_t picture_count;
    uint32_t padding; /* decoders: the place at which all padding stands; 0: it goes on where the text ends */
    diti_tensor deep[DITI_VISION_DEEP];      /* set by encoding: what is added to pictures' rows behind layer k */
    diti_tensor inputs[DITI_ENCODER_INPUTS]; /* the encoder's own */
    diti_tensor source, source_items; /* a conditioner: states of the encoder before it, F32 [batch * source_tokens,
                                         columns], and which are each prompt's */
    uint32_t source_tokens;
    diti_tensor pooled; /* CLIP, of encoding: F32 [batch, projected or columns] */
} diti_encoder_use;
typedef struct diti_encoder_type { /* each calls its own encoder self */
    bool packed; /* prompts may have unequal lengths: items are always given, and name every row once as a query */
    bool masks;  /* padding can be left out by items */
    dit_result (*load)(diti_device *device, const diti_env *env, const diti_json *config,
                       const diti_checkpoint *checkpoint, const char *prefix, const diti_load_options *options,
                       void **out, dit_error *err);
    void (*destroy)(void *self);
    const diti_encoder_traits *(*traits)(const void *self);
    const diti_weights *(*weights)(const void *self);
    /* States F32 [rows, columns], and use->pooled. */
    diti_tensor (*encode)(const void *self, diti_graph *graph, diti_encoder_use *use);
    /* ids, items: what the tensors hold. NULL: the encoder has no inputs of its own. */
    dit_result (*write_inputs)(const void *self, diti_plan *plan, const diti_encoder_use *use, const int32_t *ids,
                               const uint32_t *items, dit_error *err);
} diti_encoder_type;
DIT_INTERNAL const diti_encoder_type *diti_t5_type(void);
DIT_INTERNAL const diti_encoder_type *diti_clip_type(void);
DIT_INTERNAL const diti_encoder_type *diti_bert_type(void);
DIT_INTERNAL const diti_encoder_type *diti_decoder_type(void);
DIT_INTERNAL const diti_encoder_type *diti_conditioner_type(void); /* conditioner.c, docs/models.md 5.8 */
DIT_INTERNAL const diti_encoder_type *diti_connectors_type(void);  /* connectors.c, docs/models.md 5.10 */

/* --- attention in LTX-2 and its connectors (connectors.c): RMS norms of all heads together, each half of a head
   rotates against the other, and heads may have gates --- */
typedef struct diti_gated_attention {
    diti_layer q, k, v, out; /* [inner, d], [inner, columns of what is read] twice, [d, inner] */
    diti_layer gate;         /* [heads, d]; no parts: there are none */
    diti_weight norms[2];    /* F32 [inner]: of queries, of keys */
    uint32_t heads, head_dim;
} diti_gated_attention;
/* By diffusers' names in the loader's scope. */
DIT_INTERNAL DITI_UNUSED void diti_gated_attention_load(diti_loader *loader, diti_gated_attention *out, uint32_t heads,
                                                        uint32_t head_dim, uint32_t width, uint32_t columns);
typedef struct diti_gated_attend_desc {
    diti_tensor x;       /* F32 [rows, d]: += gate * attention of h to from */
    diti_tensor h, from; /* [rows, d], [rows, columns] */
    uint32_t batch;      /* equal shares of the rows of h, and of those of from, that attend each other */
    diti_tensor q_table[2], k_table[2]; /* cosines and sines F32 [rows of a share, inner / 2]; 0: nothing rotates */
    diti_tensor gate;                   /* F32 [groups, d], 0: 1 */
    bool int8;
    bool values; /* in place of attention, each row of h gets its own values: from is h */
} diti_gated_attend_desc;
DIT_INTERNAL DITI_UNUSED void diti_gated_attend(diti_graph *graph, const diti_gated_attention *attention,
                                                const diti_gated_attend_desc *desc);
/* width / 2 cosines and sines of places, parts of a whole, from -1 to 1 times frequencies from pi / 2 to 5000 pi, of
   which each place has as many; places take turns, and channels in front that no frequency is left for stay. */
DIT_INTERNAL DITI_UNUSED void diti_part_rotation(uint32_t width, uint32_t axes, const float *places, float *cosines,
                                                 float *sines);

/* --- T5, mT5, umT5 encoders (docs/models.md 5.1) --- */
typedef struct diti_t5 diti_t5;
/* Key names of transformers, of llama.cpp or of Wan's original umT5; config NULL: sizes from metadata and shapes. */
DIT_INTERNAL dit_result diti_t5_load(diti_device *device, const diti_env *env, const diti_json *config,
                                     const diti_checkpoint *checkpoint, const char *prefix,
                                     const diti_load_options *options, diti_t5 **out, dit_error *err);
DIT_INTERNAL void diti_t5_destroy(diti_t5 *t5);
/* Queries and keys of an item count from the same rows; keys beyond those named are masked; a family that attends to
   padding names it as keys. Inputs: relative positions, F32 [heads, 2 * tokens - 1] for each table of the model. */
DIT_INTERNAL diti_tensor diti_t5_encode(const diti_t5 *t5, diti_graph *graph, diti_encoder_use *use);
DIT_INTERNAL dit_result diti_t5_write_inputs(const diti_t5 *t5, diti_plan *plan, const diti_encoder_use *use,
                                             dit_error *err);

/* --- CLIP text encoders (docs/models.md 5.2) --- */
typedef struct diti_clip diti_clip;
/* transformers' or OpenCLIP's key names; config NULL: sizes from shapes, heads of 64, the activation that goes with the
   size. */
DIT_INTERNAL dit_result diti_clip_load(diti_device *device, const diti_env *env, const diti_json *config,
                                       const diti_checkpoint *checkpoint, const char *prefix,
                                       const diti_load_options *options, diti_clip **out, dit_error *err);
DIT_INTERNAL void diti_clip_destroy(diti_clip *clip);
/* Inputs: the causal mask, F32 [heads, 2 * tokens - 1], and which rows of the tokens stand for the prompts, U32
   [1, batch]. */
DIT_INTERNAL diti_tensor diti_clip_encode(const diti_clip *clip, diti_graph *graph, diti_encoder_use *use);
/* ids: what the tensor holds, for the place of the end token. */
DIT_INTERNAL dit_result diti_clip_write_inputs(const diti_clip *clip, diti_plan *plan, const diti_encoder_use *use,
                                               const int32_t *ids, dit_error *err);

/* --- CLIP's encoder of pictures (docs/models.md 5.6) --- */
typedef struct diti_clip_vision diti_clip_vision;
DIT_INTERNAL bool diti_clip_vision_is(const diti_checkpoint *checkpoint, const char *prefix);
/* transformers' key names; config NULL: sizes from shapes, heads of 64. */
DIT_INTERNAL dit_result diti_clip_vision_load(diti_device *device, const diti_env *env, const diti_json *config,
                                              const diti_checkpoint *checkpoint, const char *prefix,
                                              const diti_load_options *options, diti_clip_vision **out, dit_error *err);
DIT_INTERNAL void diti_clip_vision_destroy(diti_clip_vision *vision);
DIT_INTERNAL const diti_weights *diti_clip_vision_weights(const diti_clip_vision *vision);
DIT_INTERNAL uint32_t diti_clip_vision_tokens(const diti_clip_vision *vision);
DIT_INTERNAL uint32_t diti_clip_vision_columns(const diti_clip_vision *vision);
/* Patches of a picture, and the last but one state of what the encoder makes of them: F32 [tokens, columns]. */
DIT_INTERNAL diti_tensor diti_clip_vision_input(const diti_clip_vision *vision, diti_graph *graph);
DIT_INTERNAL diti_tensor diti_clip_vision_encode(const diti_clip_vision *vision, diti_graph *graph,
                                                 diti_tensor patches);
/* Writes the patches of a picture of any size, in memory. */
DIT_INTERNAL dit_result diti_clip_vision_write(const diti_clip_vision *vision, diti_plan *plan, diti_tensor patches,
                                               const dit_image *image, dit_error *err);

/* --- BERT (docs/models.md 5.3) --- */
typedef struct diti_bert diti_bert;
DIT_INTERNAL dit_result diti_bert_load(diti_device *device, const diti_env *env, const diti_json *config,
                                       const diti_checkpoint *checkpoint, const char *prefix,
                                       const diti_load_options *options, diti_bert **out, dit_error *err);
DIT_INTERNAL void diti_bert_destroy(diti_bert *bert);
DIT_INTERNAL diti_tensor diti_bert_encode(const diti_bert *bert, diti_graph *graph, const diti_encoder_use *use);

/* --- decoder language models: Qwen2.5, Qwen3, Gemma 2 and 3, Mistral, LLaMA (docs/models.md 5.4) --- */
typedef struct diti_decoder diti_decoder;
/* Names of transformers, with any of the prefixes that models of several parts have, or of llama.cpp. config NULL:
   sizes from a GGUF's metadata. States are those of options->taps. */
DIT_INTERNAL dit_result diti_decoder_load(diti_device *device, const diti_env *env, const diti_json *config,
                                          const diti_checkpoint *checkpoint, const char *prefix,
                                          const diti_load_options *options, diti_decoder **out, dit_error *err);
DIT_INTERNAL void diti_decoder_destroy(diti_decoder *decoder);
/* A row attends to those before it and to itself, as far as its item has them as keys: a padded row to all tokens. Its
   position is its number in its item. Inputs: masks, and cosines and sines of all rows. */
DIT_INTERNAL diti_tensor diti_decoder_encode(const diti_decoder *decoder, diti_graph *graph, diti_encoder_use *use);
DIT_INTERNAL dit_result diti_decoder_write_inputs(const diti_decoder *decoder, diti_plan *plan,
                                                  const diti_encoder_use *use, const int32_t *ids,
                                                  const uint32_t *items, dit_error *err);

/* --- vision towers of decoder language models (vision.c, docs/models.md 5.7): Qwen2.5-VL's, Qwen3-VL's --- */
typedef struct diti_vision diti_vision;
/* The tower in the file that the loader reads, which makes tokens of so many columns; NULL: the file has none, or the
   loader has failed. */
DIT_INTERNAL diti_vision *diti_vision_load(diti_component *component, diti_loader *loader, const diti_json *json,
                                           uint32_t columns);
/* Pixels along the side of a token. */
DIT_INTERNAL uint32_t diti_vision_side(const diti_vision *vision);
/* Tokens of all pictures of a use, as vectors for the language model: F32 [tokens, columns], and use->deep. Token k,
   line by line and picture after picture, is row places[k]. */
DIT_INTERNAL uint32_t diti_vision_tokens(const diti_encoder_use *use);
DIT_INTERNAL void diti_vision_order(const diti_vision *vision, const diti_encoder_use *use, uint32_t *places);
DIT_INTERNAL diti_tensor diti_vision_emit(const diti_vision *vision, diti_graph *graph, diti_encoder_use *use);
/* All inputs but the pictures. */
DIT_INTERNAL dit_result diti_vision_write(const diti_vision *vision, const diti_env *env, diti_plan *plan,
                                          const diti_encoder_use *use, dit_error *err);
/* A picture's rows of the input DITI_DECODER_VISION_PIXELS: four for each token. rgba: of the grid's size. */
DIT_INTERNAL void diti_vision_patches(const diti_vision *vision, const diti_vision_grid *grid, const uint8_t *rgba,
                                      float *out);
/* The encoder's tower, NULL: it has none; and the token that stands for each of a picture's in a prompt. */
DIT_INTERNAL const diti_vision *diti_decoder_vision(const diti_decoder *decoder);
DIT_INTERNAL int32_t diti_decoder_picture(const diti_decoder *decoder);
#endif
