/* Files that hold a WordPiece tokenizer: BERT's. */
#include "text/tokenizer.h"

/* --- vocab.txt: a piece a line; what transformers' BertTokenizer does --- */
static size_t diti_vocab_line(const char *text, size_t size, size_t first, size_t *length) {
    const char *feed = (const char *)memchr(text + first, '\n', size - first);
    size_t end = feed ? (size_t)(feed - text) : size;
    *length = end - first;
    if (*length && text[end - 1] == '\r') *length -= 1;
    return end + 1;
}

DIT_INTERNAL dit_result diti_wordpiece_load_text(const diti_env *env, const char *text, size_t size, const char *name,
                                                 diti_tokenizer **out, dit_error *err) {
    diti_tokenizer *tokenizer = NULL;
    size_t first, next, length;
    uint64_t count = 0;
    int32_t id = 0;
    dit_result result;
    for (first = 0; first < size; first = next, count++) next = diti_vocab_line(text, size, first, &length);
    result = diti_tokenizer_create(env, DITI_TOKENIZER_WORDPIECE, name, count, size, &tokenizer, err);
    for (first = 0; first < size && result >= 0; first = next, id++) {
        next = diti_vocab_line(text, size, first, &length);
        result = diti_tokenizer_add(tokenizer, text + first, length, id, 0.0f, DITI_PIECE_NORMAL, err);
    }
    if (result >= 0) result = diti_tokenizer_finish(tokenizer, err);
    if (result < 0) {
        diti_tokenizer_free(tokenizer);
        return result;
    }
    tokenizer->rules =
        DITI_CLEAN_CONTROLS | DITI_CLEAN_IDEOGRAPHS | DITI_CLEAN_COMPOSE | DITI_CLEAN_LOWER_SIGMA | DITI_CLEAN_ACCENTS;
    *out = tokenizer;
    return DIT_OK;
}

/* --- tokenizer.json --- */
static dit_result diti_wordpiece_unsupported(const char *name, const char *what, const char *value, dit_error *err) {
    return diti_fail(err, DIT_ERROR_UNSUPPORTED_MODEL, "%s: %s \"%.60s\" is not supported for a WordPiece model", name,
                     what, value);
}

static dit_result diti_wordpiece_check_json(const diti_json *root, const char *name, dit_error *err) {
    diti_settings model = diti_settings_of(diti_json_get(root, "model"), name, err),
                  normal = diti_settings_of(diti_json_get(root, "normalizer"), name, err),
                  split = diti_settings_of(diti_json_get(root, "pre_tokenizer"), name, err);
    const char *normalizer = diti_setting_text(&normal, "type", ""), *splitter = diti_setting_text(&split, "type", "");
    const char *prefix = diti_setting_text(&model, "continuing_subword_prefix", "##");
    double limit = diti_setting_number(&model, "max_input_chars_per_word", DITI_WORD_LIMIT, 1, 1e9);
    DITI_TRY(model.result);
    DITI_TRY(normal.result);
    DITI_TRY(split.result);
    if (!diti_equal(normalizer, "BertNormalizer"))
        return diti_wordpiece_unsupported(name, "normalizer", normalizer, err);
    if (!diti_equal(splitter, "BertPreTokenizer"))
        return diti_wordpiece_unsupported(name, "pre_tokenizer", splitter, err);
    if (!diti_equal(prefix, "##")) return diti_wordpiece_unsupported(name, "continuing_subword_prefix", prefix, err);
    if (limit < DITI_WORD_LIMIT || limit > DITI_WORD_LIMIT)
        return diti_wordpiece_unsupported(name, "max_input_chars_per_word other than", "100", err);
    return DIT_OK;
}

DIT_INTERNAL dit_result diti_wordpiece_load_json(const diti_env *env, const diti_json *root, const char *name,
                                                 diti_tokenizer **out, dit_error *err) {
    diti_settings normalizer = diti_settings_of(diti_json_get(root, "normalizer"), name, err);
    bool lower = diti_setting_bool(&normalizer, "lowercase", true);
    uint32_t rules = lower ? DITI_CLEAN_LOWER : 0;
    const diti_json *model = diti_json_get(root, "model");
    if (diti_setting_bool(&normalizer, "clean_text", true)) rules |= DITI_CLEAN_CONTROLS;
    if (diti_setting_bool(&normalizer, "handle_chinese_chars", true)) rules |= DITI_CLEAN_IDEOGRAPHS;
    if (diti_setting_bool(&normalizer, "strip_accents", lower)) rules |= DITI_CLEAN_ACCENTS;
    DITI_TRY(normalizer.result);
    DITI_TRY(diti_wordpiece_check_json(root, name, err));
    DITI_TRY(diti_vocabulary_create(env, DITI_TOKENIZER_WORDPIECE, diti_json_get(model, "vocab"),
                                    diti_json_get(root, "added_tokens"), name, out, err));
    (*out)->rules |= rules;
    return DIT_OK;
}
