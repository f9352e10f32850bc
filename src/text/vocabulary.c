/* Vocabularies {"piece": id, ...} with added tokens [{"id": id, "content": "piece"}, ...], or {"id": {"content": ...}}.
 */
#include "text/tokenizer.h"

static bool diti_vocabulary_id(const diti_json *value, uint64_t *id) {
    return diti_json_u64(value, id) && *id <= INT32_MAX;
}

static bool diti_vocabulary_key(const char *key, uint64_t *id) {
    *id = 0;
    if (!*key) return false;
    for (; *key >= '0' && *key <= '9' && *id <= INT32_MAX; key++) *id = *id * 10 + (uint64_t)(*key - '0');
    return !*key && *id <= INT32_MAX;
}

static bool diti_vocabulary_added(const diti_json *token, const diti_json **content, uint64_t *id) {
    *content = diti_json_get(token, "content");
    if (!*content || (*content)->kind != DITI_JSON_STRING) return false;
    return token->key ? diti_vocabulary_key(token->key, id) : diti_vocabulary_id(diti_json_get(token, "id"), id);
}

static dit_result diti_vocabulary_measure(const diti_json *words, const diti_json *added, const char *name,
                                          uint64_t *count, uint64_t *bytes, dit_error *err) {
    const diti_json *item, *content;
    uint64_t id;
    if (!words || words->kind != DITI_JSON_OBJECT)
        return diti_fail(err, DIT_ERROR_BAD_FILE, "%s: the vocabulary is no object of pieces", name);
    for (item = words->first; item; item = item->next) {
        if (!diti_vocabulary_id(item, &id))
            return diti_fail(err, DIT_ERROR_BAD_FILE, "%s: piece \"%.60s\" has no id", name, item->key);
        *bytes += item->key_length;
        *count += 1;
    }
    for (item = added ? added->first : NULL; item; item = item->next) {
        if (!diti_vocabulary_added(item, &content, &id))
            return diti_fail(err, DIT_ERROR_BAD_FILE, "%s: an entry of added_tokens has no content or no id", name);
        *bytes += content->text_length;
        *count += 1;
    }
    return DIT_OK;
}

static dit_result diti_vocabulary_fill(diti_tokenizer *tokenizer, const diti_json *words, const diti_json *added,
                                       dit_error *err) {
    const diti_json *item, *content;
    uint64_t id = 0;
    for (item = words->first; item; item = item->next) {
        diti_vocabulary_id(item, &id);
        DITI_TRY(diti_tokenizer_add(tokenizer, item->key, item->key_length, (int32_t)id, 0.0f, DITI_PIECE_NORMAL, err));
    }
    for (item = added ? added->first : NULL; item; item = item->next) {
        diti_vocabulary_added(item, &content, &id);
        DITI_TRY(diti_tokenizer_add(tokenizer, content->text, content->text_length, (int32_t)id, 0.0f,
                                    DITI_PIECE_CONTROL, err));
    }
    return diti_tokenizer_finish(tokenizer, err);
}

DIT_INTERNAL dit_result diti_vocabulary_create(const diti_env *env, diti_tokenizer_kind kind, const diti_json *words,
                                               const diti_json *added, const char *name, diti_tokenizer **out,
                                               dit_error *err) {
    diti_tokenizer *tokenizer = NULL;
    uint64_t count = 0, bytes = 0;
    dit_result result;
    DITI_TRY(diti_vocabulary_measure(words, added, name, &count, &bytes, err));
    DITI_TRY(diti_tokenizer_create(env, kind, name, count, bytes, &tokenizer, err));
    result = diti_vocabulary_fill(tokenizer, words, added, err);
    if (result >= 0)
        *out = tokenizer;
    else
        diti_tokenizer_free(tokenizer);
    return result;
}
