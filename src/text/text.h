/* text: tokenizers and text encoders. */
#ifndef DITI_TEXT_H
#define DITI_TEXT_H
#include "graph/graph.h"
#include "io/io.h"

/* --- T5's SentencePiece unigram (models.md 6.2) --- */
typedef struct diti_tokenizer diti_tokenizer;
/* data: the bytes of spiece.model, or of a tokenizer.json whose model is Unigram (told apart by content). */
DIT_INTERNAL dit_result diti_tokenizer_load(const diti_env *env, const void *data, size_t size, const char *name, diti_tokenizer **out, dit_error *err);
/* tokenizer.ggml.* metadata of a llama.cpp T5 GGUF. */
DIT_INTERNAL dit_result diti_tokenizer_load_gguf(const diti_env *env, const diti_checkpoint *checkpoint, diti_tokenizer **out, dit_error *err);
DIT_INTERNAL void diti_tokenizer_free(diti_tokenizer *tokenizer);
/* Writes exactly capacity ids: the tokens of text (UTF-8; broken bytes become U+FFFD), </s>, then <pad>. *count = ids before the
   padding. Longer text is cut with </s> kept last; *lost = tokens that did not fit. */
DIT_INTERNAL dit_result diti_tokenizer_encode(const diti_tokenizer *tokenizer, const char *text, int32_t *ids, uint32_t capacity, uint32_t *count, uint32_t *lost, dit_error *err);
#endif
