/* Files that hold a byte-level BPE tokenizer: CLIP's. */
#include "text/tokenizer.h"

#define DITI_MERGE_LIMIT (4u << 20)

static dit_result diti_merge_add(diti_tokenizer *tokenizer, const char *left, size_t left_length, const char *right,
                                 size_t right_length, dit_error *err) {
    diti_merge_index *index = &tokenizer->merges;
    char joined[2048];
    diti_merge merge;
    void *merges = index->merges;
    merge.rank = (uint32_t)index->count;
    merge.left = diti_piece_find(&tokenizer->words, left, left_length);
    merge.right = diti_piece_find(&tokenizer->words, right, right_length);
    merge.result = -1;
    if (merge.left >= 0 && merge.right >= 0 && left_length + right_length <= sizeof joined) {
        memcpy(joined, left, left_length);
        memcpy(joined + left_length, right, right_length);
        merge.result = diti_piece_find(&tokenizer->words, joined, left_length + right_length);
    }
    if (merge.result < 0)
        return diti_fail(err, DIT_ERROR_BAD_FILE, "%s: merge %u joins or makes a piece that the vocabulary lacks",
                         tokenizer->name, merge.rank + 1);
    if (index->count >= DITI_MERGE_LIMIT)
        return diti_fail(err, DIT_ERROR_BAD_FILE, "%s: more than %u merges", tokenizer->name, DITI_MERGE_LIMIT);
    if (!diti_grow(&tokenizer->env, &merges, &index->capacity, index->count, sizeof merge))
        return diti_fail_memory(err, "the merges of %s", tokenizer->name);
    index->merges = (diti_merge *)merges;
    index->merges[index->count++] = merge;
    return DIT_OK;
}

/* "left right" */
static dit_result diti_merge_add_line(diti_tokenizer *tokenizer, const char *line, size_t length, dit_error *err) {
    const char *space = (const char *)memchr(line, ' ', length);
    if (!space)
        return diti_fail(err, DIT_ERROR_BAD_FILE, "%s: merge %lu is no pair of pieces", tokenizer->name,
                         (unsigned long)tokenizer->merges.count + 1);
    return diti_merge_add(tokenizer, line, (size_t)(space - line), space + 1, length - (size_t)(space - line) - 1, err);
}

/* --- vocab.json and merges.txt: what transformers' CLIPTokenizer does without ftfy --- */
static dit_result diti_merges_read(diti_tokenizer *tokenizer, const char *text, size_t size, dit_error *err) {
    size_t first = 0, end;
    bool header = true;
    for (; first < size; first = end + 1, header = false) {
        const char *feed = (const char *)memchr(text + first, '\n', size - first);
        size_t length;
        end = feed ? (size_t)(feed - text) : size;
        length = end - first;
        while (length && (text[first + length - 1] == '\r' || text[first + length - 1] == ' ')) length--;
        if (!header && length) DITI_TRY(diti_merge_add_line(tokenizer, text + first, length, err));
    }
    return diti_merge_index_build(tokenizer, err);
}

static dit_result diti_merges_load(const diti_env *env, const diti_json *root, const char *merges, size_t size,
                                   const char *name, diti_tokenizer **out, dit_error *err) {
    diti_tokenizer *tokenizer = NULL;
    dit_result result;
    DITI_TRY(diti_vocabulary_create(env, DITI_TOKENIZER_CLIP, root, NULL, name, &tokenizer, err));
    tokenizer->rules = DITI_CLEAN_CONTROLS | DITI_CLEAN_IDEOGRAPHS | DITI_CLEAN_COMPOSE | DITI_CLEAN_LOWER_SIGMA;
    result = diti_merges_read(tokenizer, merges, size, err);
    if (result >= 0)
        *out = tokenizer;
    else
        diti_tokenizer_free(tokenizer);
    return result;
}

DIT_INTERNAL dit_result diti_tokenizer_load_merges(const diti_env *env, const char *vocabulary, size_t vocabulary_size,
                                                   const char *merges, size_t merges_size, const char *name,
                                                   diti_tokenizer **out, dit_error *err) {
    diti_json *root = NULL;
    dit_result result = diti_json_parse(env, vocabulary, vocabulary_size, name, &root, err);
    if (result >= 0) result = diti_merges_load(env, root, merges, merges_size, name, out, err);
    diti_json_free(env, root);
    return result;
}

/* --- tokenizer.json: what the tokenizers library does, as far as CLIP's files ask for it --- */
static dit_result diti_bpe_unsupported(const char *name, const char *what, const char *value, dit_error *err) {
    return diti_fail(err, DIT_ERROR_UNSUPPORTED_MODEL, "%s: %s \"%.60s\" is not supported for a BPE model, only CLIP's",
                     name, what, value);
}

static dit_result diti_bpe_read_normalizer(diti_tokenizer *tokenizer, const diti_json *normalizer, dit_error *err) {
    diti_settings settings = diti_settings_of(normalizer, tokenizer->name, err);
    const char *type = diti_setting_text(&settings, "type", "");
    const diti_json *member;
    dit_result result = settings.result;
    if (result < 0 || !normalizer || normalizer->kind == DITI_JSON_NULL) return result;
    if (diti_equal(type, "Sequence")) {
        member = diti_json_get(normalizer, "normalizers");
        for (member = member ? member->first : NULL; member && result >= 0; member = member->next)
            result = diti_bpe_read_normalizer(tokenizer, member, err);
    } else if (diti_equal(type, "NFC")) {
        tokenizer->rules |= DITI_CLEAN_COMPOSE;
    } else if (diti_equal(type, "Lowercase")) {
        tokenizer->rules |= DITI_CLEAN_LOWER;
    } else if (!diti_equal(type, "Replace") || /* white space only separates words, however much of it */
               !diti_equal(diti_json_string(diti_json_get(normalizer, "pattern"), "Regex", ""), "\\s+")) {
        result = diti_bpe_unsupported(tokenizer->name, "normalizer", type, err);
    }
    return result;
}

static dit_result diti_bpe_check_split(const diti_json *pre_tokenizer, const char *name, dit_error *err) {
    static const char clip[] = "'s|'t|'re|'ve|'m|'ll|'d|[\\p{L}]+|[\\p{N}]|[^\\s\\p{L}\\p{N}]+";
    diti_settings settings = diti_settings_of(pre_tokenizer, name, err);
    const char *type = diti_setting_text(&settings, "type", "");
    const char *regex = diti_json_string(diti_json_get(pre_tokenizer, "pattern"), "Regex", "");
    bool prefix = diti_setting_bool(&settings, "add_prefix_space", true);
    const diti_json *member;
    dit_result result = settings.result;
    if (result < 0) return result;
    if (diti_equal(type, "Split"))
        return diti_equal(regex, clip) ? DIT_OK : diti_bpe_unsupported(name, "pattern", regex, err);
    if (diti_equal(type, "ByteLevel") && !prefix) return DIT_OK;
    if (!diti_equal(type, "Sequence")) return diti_bpe_unsupported(name, "pre_tokenizer", type, err);
    member = diti_json_get(pre_tokenizer, "pretokenizers");
    for (member = member ? member->first : NULL; member && result >= 0; member = member->next)
        result = diti_bpe_check_split(member, name, err);
    return result;
}

/* "left right" or ["left", "right"]. */
static dit_result diti_bpe_read_merges(diti_tokenizer *tokenizer, const diti_json *merges, dit_error *err) {
    const diti_json *merge;
    for (merge = merges ? merges->first : NULL; merge; merge = merge->next) {
        const diti_json *left = merge->first, *right = left ? left->next : NULL;
        if (merge->kind == DITI_JSON_STRING)
            DITI_TRY(diti_merge_add_line(tokenizer, merge->text, merge->text_length, err));
        else if (left && right && left->kind == DITI_JSON_STRING && right->kind == DITI_JSON_STRING)
            DITI_TRY(diti_merge_add(tokenizer, left->text, left->text_length, right->text, right->text_length, err));
        else
            DITI_TRY(diti_merge_add_line(tokenizer, "", 0, err));
    }
    return diti_merge_index_build(tokenizer, err);
}

static dit_result diti_bpe_fill(diti_tokenizer *tokenizer, const diti_json *root, const diti_json *model,
                                dit_error *err) {
    DITI_TRY(diti_bpe_read_normalizer(tokenizer, diti_json_get(root, "normalizer"), err));
    DITI_TRY(diti_bpe_check_split(diti_json_get(root, "pre_tokenizer"), tokenizer->name, err));
    return diti_bpe_read_merges(tokenizer, diti_json_get(model, "merges"), err);
}

DIT_INTERNAL dit_result diti_bpe_load_json(const diti_env *env, const diti_json *root, const char *name,
                                           diti_tokenizer **out, dit_error *err) {
    const diti_json *model = diti_json_get(root, "model");
    diti_settings settings = diti_settings_of(model, name, err);
    const char *suffix = diti_setting_text(&settings, "end_of_word_suffix", "");
    diti_tokenizer *tokenizer = NULL;
    dit_result result;
    DITI_TRY(settings.result);
    if (!diti_equal(suffix, "</w>")) return diti_bpe_unsupported(name, "end_of_word_suffix", suffix, err);
    DITI_TRY(diti_vocabulary_create(env, DITI_TOKENIZER_CLIP, diti_json_get(model, "vocab"),
                                    diti_json_get(root, "added_tokens"), name, &tokenizer, err));
    result = diti_bpe_fill(tokenizer, root, model, err);
    if (result >= 0)
        *out = tokenizer;
    else
        diti_tokenizer_free(tokenizer);
    return result;
}
