#include "text/tokenizer.h"

/* tokenizer.json of the tokenizers library, as transformers writes it for SentencePiece unigram models. Its normalizer
   and pre_tokenizer must amount to SentencePiece's own rules (docs/models.md 6.2); anything else is refused by name. */

/* --- base64 --- */
static int diti_base64_value(char digit) {
    if (digit >= 'A' && digit <= 'Z') return digit - 'A';
    if (digit >= 'a' && digit <= 'z') return digit - 'a' + 26;
    if (digit >= '0' && digit <= '9') return digit - '0' + 52;
    if (digit == '+') return 62;
    return digit == '/' ? 63 : -1;
}

/* Writes at most length * 3 / 4 bytes. */
static bool diti_base64_decode(const char *text, size_t length, uint8_t *out, size_t *size) {
    uint32_t bits = 0, held = 0;
    size_t i;
    while (length && text[length - 1] == '=') length--;
    for (*size = 0, i = 0; i < length; i++) {
        int value = diti_base64_value(text[i]);
        if (value < 0) return false;
        bits = bits << 6 | (uint32_t)value;
        held += 6;
        if (held < 8) continue;
        held -= 8;
        out[(*size)++] = (uint8_t)(bits >> held);
    }
    return true;
}

DITI_ONCE_BEGIN

/* --- normalizer and pre_tokenizer --- */
static dit_result diti_unigram_unsupported(const diti_tokenizer *tokenizer, const char *what, const char *type,
                                           dit_error *err) {
    return diti_fail(err, DIT_ERROR_UNSUPPORTED_MODEL, "%s: %s \"%.60s\" is not supported for a unigram model",
                     tokenizer->name, what, type);
}

static dit_result diti_unigram_read_charsmap(diti_tokenizer *tokenizer, const diti_json *object, dit_error *err) {
    const diti_json *map = diti_json_get(object, "precompiled_charsmap");
    uint8_t *bytes;
    size_t size = 0;
    dit_result result;
    if (!map || map->kind != DITI_JSON_STRING)
        return diti_fail(err, DIT_ERROR_BAD_FILE, "%s: the Precompiled normalizer has no precompiled_charsmap",
                         tokenizer->name);
    bytes = (uint8_t *)diti_alloc(&tokenizer->env, map->text_length + 1);
    if (!bytes) return diti_fail_memory(err, "the character map of %s", tokenizer->name);
    if (diti_base64_decode(map->text, map->text_length, bytes, &size))
        result =
            diti_normalizer_set_charsmap(&tokenizer->env, &tokenizer->normalizer, bytes, size, tokenizer->name, err);
    else
        result = diti_fail(err, DIT_ERROR_BAD_FILE, "%s: precompiled_charsmap is not base64", tokenizer->name);
    diti_free(&tokenizer->env, bytes);
    return result;
}

/* Only the replacement of runs of spaces is known; collapse_spaces does it. */
static bool diti_unigram_collapses(const diti_json *replace) {
    const diti_json *pattern = diti_json_get(replace, "pattern");
    const char *regex = diti_json_string(pattern, "Regex", ""), *content = diti_json_string(replace, "content", "");
    return diti_equal(regex, " {2,}") && (diti_equal(content, " ") || diti_equal(content, "\xe2\x96\x81"));
}

static dit_result diti_unigram_read_normalizer(diti_tokenizer *tokenizer, const diti_json *normalizer, dit_error *err) {
    diti_settings settings = diti_settings_of(normalizer, tokenizer->name, err);
    const char *type = diti_setting_text(&settings, "type", "");
    const diti_json *member;
    DITI_TRY(settings.result);
    if (!normalizer || normalizer->kind == DITI_JSON_NULL || diti_equal(type, "Strip"))
        return DIT_OK; /* collapse_spaces strips */
    if (diti_equal(type, "Precompiled")) return diti_unigram_read_charsmap(tokenizer, normalizer, err);
    if (diti_equal(type, "Replace") && diti_unigram_collapses(normalizer)) return DIT_OK;
    if (!diti_equal(type, "Sequence")) return diti_unigram_unsupported(tokenizer, "normalizer", type, err);
    member = diti_json_get(normalizer, "normalizers");
    for (member = member ? member->first : NULL; member; member = member->next) {
        DITI_TRY(diti_unigram_read_normalizer(tokenizer, member, err));
    }
    return DIT_OK;
}

static dit_result diti_unigram_read_metaspace(diti_tokenizer *tokenizer, const diti_json *metaspace, dit_error *err) {
    diti_settings settings = diti_settings_of(metaspace, tokenizer->name, err);
    const char *scheme = diti_setting_text(&settings, "prepend_scheme", "always");
    const char *replacement = diti_setting_text(&settings, "replacement", "\xe2\x96\x81");
    bool prefix = diti_setting_bool(&settings, "add_prefix_space", true);
    DITI_TRY(settings.result);
    if (!diti_equal(replacement, "\xe2\x96\x81"))
        return diti_unigram_unsupported(tokenizer, "Metaspace replacement", replacement, err);
    tokenizer->normalizer.add_prefix = prefix && !diti_equal(scheme, "never");
    return DIT_OK;
}

static dit_result diti_unigram_read_pre_tokenizer(diti_tokenizer *tokenizer, const diti_json *pre_tokenizer,
                                                  dit_error *err) {
    diti_settings settings = diti_settings_of(pre_tokenizer, tokenizer->name, err);
    const char *type = diti_setting_text(&settings, "type", "");
    const diti_json *member;
    DITI_TRY(settings.result);
    if (diti_equal(type, "WhitespaceSplit")) {
        tokenizer->normalizer.unicode_spaces = true; /* no piece spans two words, so splitting adds nothing else */
        return DIT_OK;
    }
    if (diti_equal(type, "Metaspace")) return diti_unigram_read_metaspace(tokenizer, pre_tokenizer, err);
    if (!diti_equal(type, "Sequence")) return diti_unigram_unsupported(tokenizer, "pre_tokenizer", type, err);
    member = diti_json_get(pre_tokenizer, "pretokenizers");
    for (member = member ? member->first : NULL; member; member = member->next) {
        DITI_TRY(diti_unigram_read_pre_tokenizer(tokenizer, member, err));
    }
    return DIT_OK;
}

/* --- vocabulary: [[piece, score], …] in the order of the ids --- */
typedef struct diti_unigram_source {
    const diti_json *vocab, *added; /* arrays */
    uint64_t unknown;
    bool byte_fallback;
    uint8_t *special; /* per id of the vocabulary: an added token, cut out of the text before anything else */
} diti_unigram_source;

static dit_result diti_unigram_read_model(const diti_json *root, const char *name, diti_unigram_source *source,
                                          dit_error *err) {
    const diti_json *model = diti_json_get(root, "model"), *unknown = diti_json_get(model, "unk_id");
    diti_settings settings = diti_settings_of(model, name, err);
    source->vocab = diti_json_get(model, "vocab");
    source->added = diti_json_get(root, "added_tokens");
    source->byte_fallback = diti_setting_bool(&settings, "byte_fallback", false);
    DITI_TRY(settings.result);
    if (!source->vocab || source->vocab->kind != DITI_JSON_ARRAY)
        return diti_fail(err, DIT_ERROR_BAD_FILE, "%s: model.vocab is no array of pieces", name);
    if (!diti_json_u64(unknown, &source->unknown) || source->unknown >= source->vocab->count)
        return diti_fail(err, DIT_ERROR_BAD_FILE, "%s: model.unk_id names none of the %u pieces", name,
                         source->vocab->count);
    return DIT_OK;
}

static bool diti_unigram_added(const diti_json *token, const diti_json **content, uint64_t *id) {
    *content = diti_json_get(token, "content");
    return *content && (*content)->kind == DITI_JSON_STRING && diti_json_u64(diti_json_get(token, "id"), id) &&
           *id <= INT32_MAX;
}

static dit_result diti_unigram_measure(const char *name, const diti_unigram_source *source, uint64_t *count,
                                       uint64_t *bytes, dit_error *err) {
    const diti_json *item, *content;
    uint64_t id;
    for (item = source->vocab->first; item; item = item->next) {
        const diti_json *text = item->kind == DITI_JSON_ARRAY ? item->first : NULL;
        if (!text || text->kind != DITI_JSON_STRING || !text->next || text->next->kind != DITI_JSON_NUMBER)
            return diti_fail(err, DIT_ERROR_BAD_FILE, "%s: piece %llu of model.vocab is no [text, score]", name,
                             (unsigned long long)*count);
        *bytes += text->text_length;
        *count += 1;
    }
    for (item = source->added ? source->added->first : NULL; item; item = item->next) {
        if (!diti_unigram_added(item, &content, &id))
            return diti_fail(err, DIT_ERROR_BAD_FILE, "%s: an entry of added_tokens has no content or no id", name);
        if (id < source->vocab->count) source->special[id] = 1;
        *bytes += content->text_length;
        *count += 1;
    }
    return DIT_OK;
}

static bool diti_unigram_is_byte(const char *text, size_t length) { return length == 6 && memcmp(text, "<0x", 3) == 0; }

static diti_piece_type diti_unigram_type(const diti_unigram_source *source, uint32_t id, const diti_json *text) {
    if (id == source->unknown) return DITI_PIECE_UNKNOWN;
    if (source->special[id]) return DITI_PIECE_UNUSED; /* added_tokens adds it as a special */
    return source->byte_fallback && diti_unigram_is_byte(text->text, text->text_length) ? DITI_PIECE_BYTE
                                                                                        : DITI_PIECE_NORMAL;
}

static dit_result diti_unigram_add_pieces(diti_tokenizer *tokenizer, const diti_unigram_source *source,
                                          dit_error *err) {
    const diti_json *item, *content;
    dit_result result = DIT_OK;
    uint32_t id = 0;
    uint64_t added_id;
    for (item = source->vocab->first; item && result >= 0; item = item->next, id++) {
        const diti_json *text = item->first;
        result = diti_tokenizer_add(tokenizer, text->text, text->text_length, (int32_t)id, (float)text->next->number,
                                    diti_unigram_type(source, id, text), err);
    }
    for (item = source->added ? source->added->first : NULL; item && result >= 0; item = item->next) {
        if (!diti_unigram_added(item, &content, &added_id)) continue;
        result = diti_tokenizer_add(tokenizer, content->text, content->text_length, (int32_t)added_id, 0.0f,
                                    DITI_PIECE_CONTROL, err);
    }
    return result;
}

static dit_result diti_unigram_fill(diti_tokenizer *tokenizer, const diti_json *root, const diti_unigram_source *source,
                                    dit_error *err) {
    dit_result result = diti_unigram_read_normalizer(tokenizer, diti_json_get(root, "normalizer"), err);
    if (result >= 0) result = diti_unigram_read_pre_tokenizer(tokenizer, diti_json_get(root, "pre_tokenizer"), err);
    if (result >= 0) result = diti_unigram_add_pieces(tokenizer, source, err);
    return result >= 0 ? diti_tokenizer_finish(tokenizer, err) : result;
}

static dit_result diti_unigram_build(const diti_env *env, const diti_json *root, const char *name,
                                     diti_unigram_source *source, diti_tokenizer **out, dit_error *err) {
    uint64_t count = 0, bytes = 0;
    diti_tokenizer *tokenizer = NULL;
    dit_result result = diti_unigram_measure(name, source, &count, &bytes, err);
    if (result >= 0) result = diti_tokenizer_create(env, DITI_TOKENIZER_UNIGRAM, name, count, bytes, &tokenizer, err);
    if (result >= 0) result = diti_unigram_fill(tokenizer, root, source, err);
    if (result >= 0)
        *out = tokenizer;
    else
        diti_tokenizer_free(tokenizer);
    return result;
}

DIT_INTERNAL dit_result diti_unigram_load_json(const diti_env *env, const diti_json *root, const char *name,
                                               diti_tokenizer **out, dit_error *err) {
    diti_unigram_source source = DITI_ZERO;
    dit_result result;
    DITI_TRY(diti_unigram_read_model(root, name, &source, err));
    source.special = (uint8_t *)diti_alloc_zero(env, (size_t)source.vocab->count + 1);
    if (source.special)
        result = diti_unigram_build(env, root, name, &source, out, err);
    else
        result = diti_fail_memory(err, "the vocabulary of %s", name);
    diti_free(env, source.special);
    return result;
}

DITI_REGION_END
