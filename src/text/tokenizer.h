/* text: tokenizers. Apart from text.h because they need nothing of the graph. */
#ifndef DITI_TOKENIZER_H
#define DITI_TOKENIZER_H
#include "io/io.h"

/* --- SentencePiece's normaliser (models.md 6.2): a byte trie whose values are offsets of replacement strings --- */
typedef struct diti_normalizer {
    uint32_t *trie; /* Darts units; NULL: characters stay as they are */
    uint32_t trie_count;
    char *replacements; /* NUL-terminated strings, and one NUL more at the end */
    uint32_t replacements_size;
    bool add_prefix;      /* one space before the first character */
    bool collapse_spaces; /* runs become one space, none at the ends */
    bool unicode_spaces;  /* whatever white space the trie leaves counts as a space */
} diti_normalizer;
DIT_INTERNAL dit_result diti_normalizer_set_charsmap(const diti_env *env, diti_normalizer *normalizer, const void *data,
                                                     size_t size, const char *name, dit_error *err);
DIT_INTERNAL void diti_normalizer_free(const diti_env *env, diti_normalizer *normalizer);
/* Normalised text with spaces written as U+2581; broken UTF-8 bytes become U+FFFD. *out is freed with diti_free. */
DIT_INTERNAL dit_result diti_normalizer_run(const diti_env *env, const diti_normalizer *normalizer, const char *text,
                                            size_t length, char **out, size_t *out_length, dit_error *err);

/* --- T5's SentencePiece unigram (models.md 6.2) --- */
typedef enum diti_piece_type {
    DITI_PIECE_NORMAL = 1,
    DITI_PIECE_UNKNOWN = 2,
    DITI_PIECE_CONTROL = 3,
    DITI_PIECE_USER = 4,
    DITI_PIECE_UNUSED = 5,
    DITI_PIECE_BYTE = 6
} diti_piece_type;
typedef struct diti_piece {
    const char *text; /* length bytes in the tokenizer's pool */
    uint32_t length;
    int32_t id;
    float score;
    diti_piece_type type;
} diti_piece;
typedef struct diti_piece_index { /* sorted by bytes, so that the pieces with a common beginning are neighbours */
    diti_piece *pieces;
    size_t capacity;
    uint32_t count;
} diti_piece_index;
typedef struct diti_tokenizer {
    diti_env env;
    char *name; /* for messages */
    diti_normalizer normalizer;
    char *pool; /* the bytes of all pieces */
    size_t pool_size, pool_used;
    diti_piece_index words;    /* what Viterbi may choose */
    diti_piece_index specials; /* "</s>" and its like: cut out of the text before anything else */
    uint32_t capacity, count;  /* pieces announced, added so far */
    int32_t byte_ids[256];     /* -1: no such piece */
    bool byte_fallback;        /* unknown characters are spelled in bytes */
    int32_t unknown, end, padding;
    float unknown_score, min_score, max_score;
} diti_tokenizer;

/* data: the bytes of spiece.model, or of a tokenizer.json whose model is Unigram (told apart by content). */
DIT_INTERNAL dit_result diti_tokenizer_load(const diti_env *env, const void *data, size_t size, const char *name,
                                            diti_tokenizer **out, dit_error *err);
/* tokenizer.ggml.* metadata of a llama.cpp T5 GGUF. */
DIT_INTERNAL dit_result diti_tokenizer_load_gguf(const diti_env *env, const diti_checkpoint *checkpoint,
                                                 diti_tokenizer **out, dit_error *err);
DIT_INTERNAL void diti_tokenizer_free(diti_tokenizer *tokenizer);
/* Writes exactly capacity ids: the tokens of text (UTF-8; broken bytes become U+FFFD), </s>, then <pad>. *count = ids
   before the padding. Longer text is cut with </s> kept last; *lost = tokens that did not fit. */
DIT_INTERNAL dit_result diti_tokenizer_encode(const diti_tokenizer *tokenizer, const char *text, int32_t *ids,
                                              uint32_t capacity, uint32_t *count, uint32_t *lost, dit_error *err);

/* How the readers fill a tokenizer: create with room for so many pieces, add each, finish. */
DIT_INTERNAL dit_result diti_tokenizer_create(const diti_env *env, const char *name, uint64_t piece_count,
                                              uint64_t piece_bytes, diti_tokenizer **out, dit_error *err);
DIT_INTERNAL dit_result diti_tokenizer_add(diti_tokenizer *tokenizer, const char *text, size_t length, int32_t id,
                                           float score, diti_piece_type type, dit_error *err);
DIT_INTERNAL dit_result diti_tokenizer_finish(diti_tokenizer *tokenizer, dit_error *err);
DIT_INTERNAL dit_result diti_tokenizer_load_json(const diti_env *env, const void *data, size_t size, const char *name,
                                                 diti_tokenizer **out, dit_error *err);
#endif
