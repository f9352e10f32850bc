#include "text/tokenizer.h"

/* --- tokenizer.ggml.* of a GGUF (docs/models.md 9.3) --- */
typedef struct diti_ggml_vocabulary {
    uint64_t count;
    const void *scores; /* count floats, not aligned; NULL: all 0 */
    const void *types;  /* count int32, not aligned; NULL: all normal */
} diti_ggml_vocabulary;

/* A GGUF array of count 4-byte elements, whatever of the two type codes it has; NULL when the key is absent. */
static dit_result diti_ggml_array(const diti_checkpoint *checkpoint, const char *key, uint32_t type, uint32_t or_type,
                                  uint64_t count, const void **out, dit_error *err) {
    uint64_t found = 0;
    uint32_t found_type = 0;
    *out = NULL;
    if (!diti_checkpoint_array(checkpoint, key, out, &found, &found_type)) return DIT_OK;
    if (found == count && (found_type == type || found_type == or_type)) return DIT_OK;
    return diti_fail(err, DIT_ERROR_BAD_FILE,
                     "GGUF metadata: %s has %llu values of type %u where %llu pieces are named", key,
                     (unsigned long long)found, found_type, (unsigned long long)count);
}

static dit_result diti_ggml_measure(const diti_checkpoint *checkpoint, diti_ggml_vocabulary *vocabulary,
                                    uint64_t *bytes, dit_error *err) {
    static const char key[] = "tokenizer.ggml.tokens";
    size_t length = 0;
    *bytes = 0;
    for (vocabulary->count = 0; diti_checkpoint_array_text(checkpoint, key, vocabulary->count, &length);
         vocabulary->count++) {
        if (!diti_add_u64(*bytes, length, bytes))
            return diti_fail(err, DIT_ERROR_BAD_FILE, "GGUF metadata: %s is too long", key);
    }
    DITI_TRY(diti_ggml_array(checkpoint, "tokenizer.ggml.scores", 6, 6, vocabulary->count, &vocabulary->scores, err));
    return diti_ggml_array(checkpoint, "tokenizer.ggml.token_type", 5, 4, vocabulary->count, &vocabulary->types, err);
}

static dit_result diti_ggml_add_pieces(const diti_checkpoint *checkpoint, const diti_ggml_vocabulary *vocabulary,
                                       diti_tokenizer *tokenizer, dit_error *err) {
    dit_result result = DIT_OK;
    uint64_t i;
    for (i = 0; i < vocabulary->count && result >= 0; i++) {
        size_t length = 0;
        const char *text = diti_checkpoint_array_text(checkpoint, "tokenizer.ggml.tokens", i, &length);
        float score = 0.0f;
        int32_t type = DITI_PIECE_NORMAL;
        if (vocabulary->scores) memcpy(&score, (const char *)vocabulary->scores + i * 4, 4);
        if (vocabulary->types) memcpy(&type, (const char *)vocabulary->types + i * 4, 4);
        if (type < DITI_PIECE_NORMAL || type > DITI_PIECE_BYTE)
            return diti_fail(err, DIT_ERROR_BAD_FILE, "%s: piece %llu has the unknown type %d", tokenizer->name,
                             (unsigned long long)i, type);
        if (tokenizer->kind == DITI_TOKENIZER_BYTES && type == DITI_PIECE_USER) type = DITI_PIECE_CONTROL; /* added */
        result = diti_tokenizer_add(tokenizer, text, length, (int32_t)i, score, (diti_piece_type)type, err);
    }
    return result;
}

/* An id of the metadata, when it is there; one outside the vocabulary is an error. */
static dit_result diti_ggml_id(const diti_checkpoint *checkpoint, const char *key, const diti_tokenizer *tokenizer,
                               int32_t *id, dit_error *err) {
    const char *text = diti_checkpoint_text(checkpoint, key);
    unsigned long value;
    if (!text) return DIT_OK;
    value = strtoul(text, NULL, 10);
    if (value >= tokenizer->count)
        return diti_fail(err, DIT_ERROR_BAD_FILE, "%s: %s is %s, but there are %u pieces", tokenizer->name, key, text,
                         tokenizer->count);
    *id = (int32_t)value;
    return DIT_OK;
}

static bool diti_ggml_flag(const diti_checkpoint *checkpoint, const char *key, bool otherwise) {
    const char *text = diti_checkpoint_text(checkpoint, key);
    return text ? !diti_equal(text, "0") && !diti_equal(text, "false") : otherwise;
}

static dit_result diti_ggml_read_normalizer(const diti_checkpoint *checkpoint, diti_tokenizer *tokenizer,
                                            dit_error *err) {
    static const char key[] = "tokenizer.ggml.precompiled_charsmap";
    diti_normalizer *normalizer = &tokenizer->normalizer;
    const void *map = NULL;
    uint64_t size = 0;
    uint32_t type = 0;
    normalizer->add_prefix = diti_ggml_flag(checkpoint, "tokenizer.ggml.add_space_prefix", true);
    normalizer->collapse_spaces = diti_ggml_flag(checkpoint, "tokenizer.ggml.remove_extra_whitespaces", true);
    normalizer->unicode_spaces = true; /* older files carry no map, and every T5 map does at least this */
    if (!diti_checkpoint_array(checkpoint, key, &map, &size, &type)) return DIT_OK;
    if (type > 1) return diti_fail(err, DIT_ERROR_BAD_FILE, "%s: %s must be an array of bytes", tokenizer->name, key);
    return diti_normalizer_set_charsmap(&tokenizer->env, normalizer, map, (size_t)size, tokenizer->name, err);
}

static dit_result diti_ggml_fill(const diti_checkpoint *checkpoint, const diti_ggml_vocabulary *vocabulary,
                                 diti_tokenizer *tokenizer, dit_error *err) {
    dit_result result = diti_ggml_add_pieces(checkpoint, vocabulary, tokenizer, err);
    if (result >= 0) result = diti_ggml_id(checkpoint, "tokenizer.ggml.eos_token_id", tokenizer, &tokenizer->end, err);
    if (result >= 0)
        result = diti_ggml_id(checkpoint, "tokenizer.ggml.padding_token_id", tokenizer, &tokenizer->padding, err);
    if (result >= 0)
        result = diti_ggml_id(checkpoint, "tokenizer.ggml.unknown_token_id", tokenizer, &tokenizer->unknown, err);
    if (result >= 0) result = diti_ggml_read_normalizer(checkpoint, tokenizer, err);
    return result >= 0 ? diti_tokenizer_finish(tokenizer, err) : result;
}

/* --- byte-level BPE: the words that a text is split into have a name --- */
typedef struct diti_ggml_split {
    const char *name;
    uint32_t digits, rules;
    bool whole_words;
} diti_ggml_split;

static dit_result diti_ggml_read_split(const diti_checkpoint *checkpoint, diti_tokenizer *tokenizer, dit_error *err) {
    static const diti_ggml_split splits[] = {
        {"qwen2", 1, DITI_CLEAN_COMPOSE, false}, {"llama-bpe", 3, 0, true}, {"tekken", 1, DITI_CLEAN_CASES, true}};
    const char *name = diti_checkpoint_text(checkpoint, "tokenizer.ggml.pre");
    size_t i;
    for (i = 0; i < DITI_COUNT(splits); i++) {
        if (!diti_equal(name, splits[i].name)) continue;
        tokenizer->digits = splits[i].digits;
        tokenizer->rules = splits[i].rules;
        tokenizer->whole_words = splits[i].whole_words;
        return DIT_OK;
    }
    return diti_fail(err, DIT_ERROR_UNSUPPORTED_MODEL,
                     "GGUF metadata: tokenizer.ggml.pre is \"%.60s\"; only \"qwen2\", \"llama-bpe\" and \"tekken\" are "
                     "supported",
                     name ? name : "(absent)");
}

static dit_result diti_ggml_read_merges(const diti_checkpoint *checkpoint, diti_tokenizer *tokenizer, dit_error *err) {
    static const char key[] = "tokenizer.ggml.merges";
    const char *line;
    size_t length = 0;
    uint64_t i;
    for (i = 0; (line = diti_checkpoint_array_text(checkpoint, key, i, &length)) != NULL; i++)
        DITI_TRY(diti_merge_add_line(tokenizer, line, length, err));
    if (!i) return diti_fail(err, DIT_ERROR_BAD_FILE, "GGUF metadata: %s is missing", key);
    return diti_merge_index_build(tokenizer, err);
}

static dit_result diti_ggml_fill_bytes(const diti_checkpoint *checkpoint, const diti_ggml_vocabulary *vocabulary,
                                       diti_tokenizer *tokenizer, dit_error *err) {
    DITI_TRY(diti_ggml_read_split(checkpoint, tokenizer, err));
    DITI_TRY(diti_ggml_add_pieces(checkpoint, vocabulary, tokenizer, err));
    DITI_TRY(diti_tokenizer_finish(tokenizer, err));
    DITI_TRY(diti_ggml_id(checkpoint, "tokenizer.ggml.padding_token_id", tokenizer, &tokenizer->padding, err));
    if (diti_ggml_flag(checkpoint, "tokenizer.ggml.add_bos_token", tokenizer->whole_words))
        DITI_TRY(diti_ggml_id(checkpoint, "tokenizer.ggml.bos_token_id", tokenizer, &tokenizer->begin, err));
    return diti_ggml_read_merges(checkpoint, tokenizer, err);
}

DIT_INTERNAL dit_result diti_tokenizer_load_gguf(const diti_env *env, const diti_checkpoint *checkpoint,
                                                 diti_tokenizer **out, dit_error *err) {
    const char *model = diti_checkpoint_text(checkpoint, "tokenizer.ggml.model");
    bool bytes_bpe = diti_equal(model, "gpt2");
    diti_ggml_vocabulary vocabulary = DITI_ZERO;
    diti_tokenizer *tokenizer;
    uint64_t bytes = 0;
    dit_result result;
    if (!bytes_bpe && !diti_equal(model, "t5"))
        return diti_fail(err, DIT_ERROR_UNSUPPORTED_MODEL,
                         "GGUF metadata: tokenizer.ggml.model is \"%s\"; only \"t5\" and \"gpt2\" are supported",
                         model ? model : "(absent)");
    result = diti_ggml_measure(checkpoint, &vocabulary, &bytes, err);
    if (result == DIT_OK)
        result = diti_tokenizer_create(env, bytes_bpe ? DITI_TOKENIZER_BYTES : DITI_TOKENIZER_UNIGRAM, "GGUF tokenizer",
                                       vocabulary.count, bytes, &tokenizer, err);
    DITI_TRY(result);
    result = bytes_bpe ? diti_ggml_fill_bytes(checkpoint, &vocabulary, tokenizer, err)
                       : diti_ggml_fill(checkpoint, &vocabulary, tokenizer, err);
    if (result == DIT_OK)
        *out = tokenizer;
    else
        diti_tokenizer_free(tokenizer);
    return result;
}
