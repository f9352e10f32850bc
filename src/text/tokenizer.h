/* text: tokenizers. Apart from text.h because they need nothing of the graph. */
#ifndef DITI_TOKENIZER_H
#define DITI_TOKENIZER_H
#include "io/io.h"

/* --- Unicode (unicode.c) --- */
typedef enum diti_unicode_class {
    DITI_UNICODE_OTHER,
    DITI_UNICODE_LETTER,
    DITI_UNICODE_NUMBER,
    DITI_UNICODE_MARK, /* nonspacing */
    DITI_UNICODE_PUNCTUATION,
    DITI_UNICODE_CONTROL, /* formats, private and unassigned codes, too */
    DITI_UNICODE_SPACE,
    DITI_UNICODE_UPPER, /* letters of one case, where DITI_CLEAN_CASES asks; any mark is DITI_UNICODE_MARK then */
    DITI_UNICODE_LOWER
} diti_unicode_class;
DIT_INTERNAL bool diti_unicode_is_space(uint32_t code);
DIT_INTERNAL uint32_t diti_utf8_encode(uint32_t code, char *out); /* bytes written: 1 to 4 */

typedef struct diti_codes {
    const diti_env *env;
    uint32_t *at;
    uint8_t *kinds; /* diti_unicode_class of each; what diti_clean returns has them */
    size_t count, capacity;
    bool failed;
} diti_codes;
DIT_INTERNAL void diti_codes_free(diti_codes *codes);
/* UTF-8 with a NUL behind it; *out is freed with diti_free. */
DIT_INTERNAL dit_result diti_codes_to_text(const diti_codes *codes, char **out, size_t *length, dit_error *err);

/* Steps in the order in which they are done. */
typedef enum diti_clean_rule {
    DITI_CLEAN_CONTROLS = 1,     /* controls and U+FFFD go, any white space becomes a space */
    DITI_CLEAN_IDEOGRAPHS = 2,   /* spaces around each of them */
    DITI_CLEAN_COMPOSE = 4,      /* NFC */
    DITI_CLEAN_LOWER = 8,        /* code by code, as the tokenizers library does */
    DITI_CLEAN_LOWER_SIGMA = 16, /* as Python does: a sigma that ends a word looks different */
    DITI_CLEAN_ACCENTS = 32,     /* NFD without nonspacing marks */
    DITI_CLEAN_ENTITIES = 64,    /* HTML's become what they stand for, twice */
    DITI_CLEAN_QUOTES = 128,     /* curled ones become ' and " */
    DITI_CLEAN_LAST = DITI_CLEAN_QUOTES,
    DITI_CLEAN_CASES = 256 /* no step: classes tell the case of letters */
} diti_clean_rule;
#define DITI_PROMPT_LIMIT (16u << 20) /* bytes */
/* Text (UTF-8; broken bytes become U+FFFD) after those steps, freed with diti_codes_free. */
DIT_INTERNAL dit_result diti_clean(const diti_env *env, const char *text, size_t length, uint32_t rules,
                                   diti_codes *out, dit_error *err);

/* --- SentencePiece's normaliser (docs/models.md 6.2): a byte trie whose values are offsets of replacement strings ---
 */
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

/* --- pieces of text by their bytes --- */
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
    uint32_t first[257]; /* the first piece whose first byte is at least so much */
} diti_piece_index;
typedef struct diti_piece_range { /* the pieces that begin with the depth bytes read so far */
    uint32_t low, high, depth;
} diti_piece_range;
DIT_INTERNAL bool diti_piece_index_add(const diti_env *env, diti_piece_index *index, const diti_piece *piece);
DIT_INTERNAL void diti_piece_index_sort(diti_piece_index *index);
DIT_INTERNAL diti_piece_range diti_piece_range_all(const diti_piece_index *index);
/* Reads one byte more; false: no piece begins so. */
DIT_INTERNAL bool diti_piece_range_narrow(const diti_piece_index *index, diti_piece_range *range, char next);
/* The piece that the bytes read so far spell, or NULL. */
DIT_INTERNAL const diti_piece *diti_piece_range_exact(const diti_piece_index *index, const diti_piece_range *range);
DIT_INTERNAL const diti_piece *diti_piece_longest(const diti_piece_index *index, const char *text, size_t length);
DIT_INTERNAL int32_t diti_piece_find(const diti_piece_index *index, const char *text, size_t length); /* -1: absent */

/* --- tokenizers: T5's SentencePiece unigram, CLIP's byte-level BPE, BERT's WordPiece (docs/models.md 6) --- */
typedef enum diti_tokenizer_kind {
    DITI_TOKENIZER_UNIGRAM,
    DITI_TOKENIZER_CLIP,
    DITI_TOKENIZER_BYTES,  /* byte-level BPE of language models: GPT-2's and its kin */
    DITI_TOKENIZER_PIECES, /* BPE of characters, whose spaces are U+2581: Gemma's, LLaMA 2's */
    DITI_TOKENIZER_WORDPIECE,
    DITI_TOKENIZER_BYT5 /* bytes, without a vocabulary */
} diti_tokenizer_kind;
typedef struct diti_merge { /* BPE: two neighbours that become one, the lowest rank first */
    int32_t left, right, result;
    uint32_t rank;
} diti_merge;
typedef struct diti_merge_index {
    diti_merge *merges;
    uint32_t *slots; /* index + 1; 0: free */
    size_t count, capacity, slot_count;
} diti_merge_index;
typedef struct diti_tokenizer {
    diti_env env;
    char *name; /* for messages */
    diti_tokenizer_kind kind;
    diti_normalizer normalizer; /* unigram */
    uint32_t rules;             /* the others: diti_clean_rule */
    char *pool;                 /* the bytes of all pieces */
    size_t pool_size, pool_used;
    diti_piece_index words;               /* pieces that text is made of */
    diti_piece_index specials;            /* "</s>" and its like: cut out of the text before anything else */
    uint32_t capacity, count;             /* pieces announced, added so far */
    int32_t byte_ids[256];                /* unigram and BPE; -1: no such piece */
    int32_t last_byte_ids[256];           /* CLIP: of bytes that end a word */
    uint32_t digits;                      /* language models' BPE: most digits of a word */
    bool escapes_spaces;                  /* BPE of characters: spaces become U+2581 */
    bool whole_words;                     /* a word that is a piece is not made of merges */
    diti_merge_index merges;              /* BPE */
    bool byte_fallback;                   /* unigram: unknown characters are spelled in bytes */
    int32_t begin, unknown, end, padding; /* begin, end -1: none */
    float unknown_score, min_score, max_score;
} diti_tokenizer;

/* The tokens of a prompt. */
typedef struct diti_tokens {
    int32_t *ids;
    float *weights;             /* how strongly each token counts; NULL: the prompt is plain text, its brackets too */
    const char *before, *after; /* text around the prompt, which weighs 1; NULL: none */
    bool keeps_after;           /* a prompt that does not fit is cut before `after`, whose tokens are made apart */
    bool spells_quotes;         /* quoted text becomes tokens sign by sign (quotes.c), and all apart from `before` */
    uint32_t capacity;          /* entries that ids and weights have room for */
    uint32_t count;             /* ids before the padding */
    uint32_t lost;              /* tokens that did not fit */
    char lost_text[160];        /* the lost tokens, as text */
    bool lost_more;             /* more tokens were lost than lost_text has room for */
} diti_tokens;

/* data: the bytes of spiece.model, tokenizer.json, or vocab.txt (told apart by content). */
DIT_INTERNAL dit_result diti_tokenizer_load(const diti_env *env, const void *data, size_t size, const char *name,
                                            diti_tokenizer **out, dit_error *err);
/* vocab.json and merges.txt of CLIP or a language model, with the added tokens that tokenizer_config.json has. config
   NULL: none. */
DIT_INTERNAL dit_result diti_tokenizer_load_merges(const diti_env *env, const char *vocabulary, size_t vocabulary_size,
                                                   const char *merges, size_t merges_size, const diti_json *config,
                                                   const char *name, diti_tokenizer **out, dit_error *err);
/* tokenizer.ggml.* metadata of a llama.cpp GGUF: T5's, or the byte-level BPE of a language model. */
DIT_INTERNAL dit_result diti_tokenizer_load_gguf(const diti_env *env, const diti_checkpoint *checkpoint,
                                                 diti_tokenizer **out, dit_error *err);
/* Whatever of these files a folder of a package has ("tokenizer/"; "": the package itself), with what
   tokenizer_config.json and special_tokens_map.json say; DIT_OK with *out = NULL where there is none. *limit:
   model_max_length, 0: unknown. */
DIT_INTERNAL dit_result diti_tokenizer_load_folder(const diti_env *env, const diti_package *package, const char *folder,
                                                   diti_tokenizer **out, uint32_t *limit, dit_error *err);
DIT_INTERNAL void diti_tokenizer_free(diti_tokenizer *tokenizer);
/* Fills exactly capacity ids: the tokens of text (UTF-8; broken bytes become U+FFFD) between the begin and end tokens
   that the model wants, then padding. Longer text is cut, the end token kept where there is one. Begin, end and padding
   weigh 1. */
DIT_INTERNAL dit_result diti_tokenizer_encode(const diti_tokenizer *tokenizer, const char *text, diti_tokens *out,
                                              dit_error *err);

/* How many tokens a text has, without a begin and an end. */
DIT_INTERNAL dit_result diti_tokenizer_count(const diti_tokenizer *tokenizer, const char *text, uint32_t *count,
                                             dit_error *err);

/* How the readers fill a tokenizer: create with room for so many pieces, add each, finish. */
DIT_INTERNAL dit_result diti_tokenizer_create(const diti_env *env, diti_tokenizer_kind kind, const char *name,
                                              uint64_t piece_count, uint64_t piece_bytes, diti_tokenizer **out,
                                              dit_error *err);
DIT_INTERNAL dit_result diti_tokenizer_add(diti_tokenizer *tokenizer, const char *text, size_t length, int32_t id,
                                           float score, diti_piece_type type, dit_error *err);
DIT_INTERNAL dit_result diti_tokenizer_finish(diti_tokenizer *tokenizer, dit_error *err);
/* The id of a piece, which is cut out of texts from now on; an error where there is none. Once all are added. */
DIT_INTERNAL dit_result diti_tokenizer_special(diti_tokenizer *tokenizer, const char *text, int32_t *id,
                                               dit_error *err);
/* The ids of what every text of that kind begins and ends with, and their like. */
DIT_INTERNAL dit_result diti_unigram_finish(diti_tokenizer *tokenizer, dit_error *err);
DIT_INTERNAL dit_result diti_merge_index_build(diti_tokenizer *tokenizer,
                                               dit_error *err); /* once all merges are there */
DIT_INTERNAL dit_result diti_bpe_finish(diti_tokenizer *tokenizer, dit_error *err);
#define DITI_WORD_LIMIT 100u /* longest word of WordPiece: longer ones are unknown */
DIT_INTERNAL dit_result diti_wordpiece_finish(diti_tokenizer *tokenizer, dit_error *err);
/* root: a tokenizer.json of that kind. */
DIT_INTERNAL dit_result diti_unigram_load_json(const diti_env *env, const diti_json *root, const char *name,
                                               diti_tokenizer **out, dit_error *err);
DIT_INTERNAL dit_result diti_bpe_load_json(const diti_env *env, const diti_json *root, const char *name,
                                           diti_tokenizer **out, dit_error *err);
DIT_INTERNAL dit_result diti_wordpiece_load_json(const diti_env *env, const diti_json *root, const char *name,
                                                 diti_tokenizer **out, dit_error *err);
DIT_INTERNAL dit_result diti_tokenizer_load_spiece(const diti_env *env, const void *data, size_t size, const char *name,
                                                   diti_tokenizer **out, dit_error *err);
DIT_INTERNAL dit_result diti_wordpiece_load_text(const diti_env *env, const char *text, size_t size, const char *name,
                                                 diti_tokenizer **out, dit_error *err);
/* "left right" */
DIT_INTERNAL dit_result diti_merge_add_line(diti_tokenizer *tokenizer, const char *line, size_t length, dit_error *err);
/* Makes a tokenizer of a tokenizer.json's vocabulary {"piece": id, ...} and added_tokens, or tokenizer_config.json's
   added_tokens_decoder. */
DIT_INTERNAL dit_result diti_vocabulary_create(const diti_env *env, diti_tokenizer_kind kind, const diti_json *words,
                                               const diti_json *added, const char *name, diti_tokenizer **out,
                                               dit_error *err);

/* ByT5's (byt5.c; tokenizer_files.c creates it). config: tokenizer_config.json, NULL: none. */
DIT_INTERNAL dit_result diti_byt5_create(const diti_env *env, const diti_json *config, diti_tokenizer **out,
                                         dit_error *err);
DIT_INTERNAL void diti_byt5_finish(diti_tokenizer *tokenizer);
/* The text that HunyuanVideo 1.5's pipeline has ByT5 read of a prompt: 'Text "a". Text "b". ', with each of the texts
   in quotes once. out stays NULL where there are none, and is freed with diti_free. */
DIT_INTERNAL dit_result diti_byt5_quotes(const diti_env *env, const char *prompt, char **out, dit_error *err);

/* Where tokens go, in the order of the text. text: what a token stands for, in case it is lost. */
typedef struct diti_token_sink {
    diti_tokens *tokens;
    uint32_t room;
    float weight; /* weight of the tokens to come */
} diti_token_sink;
DIT_INTERNAL void diti_token_emit(diti_token_sink *sink, int32_t id, const char *text, size_t length);
/* Text without special pieces. */
DIT_INTERNAL dit_result diti_unigram_encode(const diti_tokenizer *tokenizer, const char *text, size_t length,
                                            diti_token_sink *sink, dit_error *err);
DIT_INTERNAL dit_result diti_bpe_encode(const diti_tokenizer *tokenizer, const char *text, size_t length,
                                        diti_token_sink *sink, dit_error *err);
DIT_INTERNAL dit_result diti_wordpiece_encode(const diti_tokenizer *tokenizer, const char *text, size_t length,
                                              diti_token_sink *sink, dit_error *err);
DIT_INTERNAL void diti_byt5_encode(const char *text, size_t length, diti_token_sink *sink);

/* --- prompts with weights, as A1111's web UI writes them (prompt_weights.c): (a) 1.1, [a] 1 / 1.1, (a:1.3), nested
   ones multiply; \( \) \[ \] are brackets of the text --- */
#define DITI_PROMPT_PARTS 4096u
typedef struct diti_prompt_part {
    size_t first, length; /* range in the prompt's text */
    double weight;
} diti_prompt_part;
typedef struct diti_prompt {
    char *text; /* without the signs that stand for weights */
    diti_prompt_part *parts;
    size_t size, count, capacity;
} diti_prompt;
DIT_INTERNAL dit_result diti_prompt_parse(const diti_env *env, const char *text, size_t length, diti_prompt *out,
                                          dit_error *err);
/* Names the first sign that is text here and more to A1111's web UI: "BREAK", "[a:b:0.5]" or "[a|b]"; NULL: none. */
DIT_INTERNAL const char *diti_prompt_unread(const char *text);
DIT_INTERNAL void diti_prompt_free(const diti_env *env, diti_prompt *prompt);

/* --- quoted text, as LongCat-Image's pipeline finds it (quotes.c, docs/models.md 6.6) --- */
/* begins[i] becomes whether byte i begins a run that becomes tokens by itself: each sign of quoted text, with the marks
   around it, and what follows. */
DIT_INTERNAL void diti_quotes_find(const char *text, size_t length, bool *begins);
#endif
