/* Files that hold a byte-level BPE tokenizer: CLIP's, or a language model's. */
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

DIT_INTERNAL dit_result diti_merge_add_line(diti_tokenizer *tokenizer, const char *line, size_t length,
                                            dit_error *err) {
    const char *space = (const char *)memchr(line, ' ', length);
    if (!space)
        return diti_fail(err, DIT_ERROR_BAD_FILE, "%s: merge %lu is no pair of pieces", tokenizer->name,
                         (unsigned long)tokenizer->merges.count + 1);
    return diti_merge_add(tokenizer, line, (size_t)(space - line), space + 1, length - (size_t)(space - line) - 1, err);
}

/* --- vocab.json and merges.txt: what transformers' CLIPTokenizer does without ftfy, and what Qwen2Tokenizer does ---
 */
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

/* CLIP's vocabulary has what a text begins with; its pieces say where a word ends. */
static diti_tokenizer_kind diti_merges_kind(const diti_json *words) {
    const diti_json *word = words->kind == DITI_JSON_OBJECT ? words->first : NULL;
    if (diti_json_get(words, "<|startoftext|>")) return DITI_TOKENIZER_CLIP;
    while (word && !diti_ends_with(word->key, "</w>")) word = word->next;
    return word ? DITI_TOKENIZER_CLIP : DITI_TOKENIZER_BYTES;
}

static dit_result diti_merges_load(const diti_env *env, const diti_json *root, const char *merges, size_t size,
                                   const diti_json *config, const char *name, diti_tokenizer **out, dit_error *err) {
    bool clip = diti_merges_kind(root) == DITI_TOKENIZER_CLIP;
    diti_tokenizer *tokenizer = NULL;
    dit_result result;
    DITI_TRY(diti_vocabulary_create(env, diti_merges_kind(root), root,
                                    clip ? NULL : diti_json_get(config, "added_tokens_decoder"), name, &tokenizer,
                                    err));
    tokenizer->rules = DITI_CLEAN_COMPOSE;
    if (clip) tokenizer->rules |= DITI_CLEAN_CONTROLS | DITI_CLEAN_IDEOGRAPHS | DITI_CLEAN_LOWER_SIGMA;
    tokenizer->digits = 1;
    result = diti_merges_read(tokenizer, merges, size, err);
    if (result >= 0)
        *out = tokenizer;
    else
        diti_tokenizer_free(tokenizer);
    return result;
}

DIT_INTERNAL dit_result diti_tokenizer_load_merges(const diti_env *env, const char *vocabulary, size_t vocabulary_size,
                                                   const char *merges, size_t merges_size, const diti_json *config,
                                                   const char *name, diti_tokenizer **out, dit_error *err) {
    diti_json *root = NULL;
    dit_result result = diti_json_parse(env, vocabulary, vocabulary_size, name, &root, err);
    if (result >= 0) result = diti_merges_load(env, root, merges, merges_size, config, name, out, err);
    diti_json_free(env, root);
    return result;
}

/* --- tokenizer.json: what the tokenizers library does, as far as these files ask for it --- */
static dit_result diti_bpe_unsupported(const char *name, const char *what, const char *value, dit_error *err) {
    return diti_fail(err, DIT_ERROR_UNSUPPORTED_MODEL,
                     "%s: %s \"%.60s\" is not supported for a BPE model, only those of CLIP, Qwen, LLaMA and Gemma",
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
    } else if (diti_equal(type, "Lowercase") && tokenizer->kind == DITI_TOKENIZER_CLIP) {
        tokenizer->rules |= DITI_CLEAN_LOWER;
    } else if (tokenizer->kind == DITI_TOKENIZER_PIECES && diti_equal(type, "Prepend") &&
               diti_equal(diti_json_string(normalizer, "prepend", ""), "\xe2\x96\x81")) {
        tokenizer->normalizer.add_prefix = true;
    } else if (tokenizer->kind == DITI_TOKENIZER_PIECES && diti_equal(type, "Replace") &&
               diti_equal(diti_json_string(diti_json_get(normalizer, "pattern"), "String", ""), " ") &&
               diti_equal(diti_json_string(normalizer, "content", ""), "\xe2\x96\x81")) {
        tokenizer->escapes_spaces = true;
    } else if (tokenizer->kind != DITI_TOKENIZER_CLIP ||
               !diti_equal(type, "Replace") || /* white space only separates words, however much of it */
               !diti_equal(diti_json_string(diti_json_get(normalizer, "pattern"), "Regex", ""), "\\s+")) {
        result = diti_bpe_unsupported(tokenizer->name, "normalizer", type, err);
    }
    return result;
}

typedef struct diti_bpe_pattern {
    diti_tokenizer_kind kind;
    uint32_t digits;
    uint32_t rules;
    const char *regex;
} diti_bpe_pattern;
#define DITI_BPE_PATTERN(DIGITS)                                                                                       \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" DIGITS                                               \
    "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define DITI_BPE_UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define DITI_BPE_LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define DITI_BPE_CLIP "'s|'t|'re|'ve|'m|'ll|'d|[\\p{L}]+|[\\p{N}]|[^\\s\\p{L}\\p{N}]+"
static const diti_bpe_pattern diti_bpe_patterns[] = {
    {DITI_TOKENIZER_CLIP, 1, 0, DITI_BPE_CLIP},
    {DITI_TOKENIZER_CLIP, 1, 0, "<\\|startoftext\\|>|<\\|endoftext\\|>|" DITI_BPE_CLIP}, /* transformers 5's */
    {DITI_TOKENIZER_BYTES, 1, 0, DITI_BPE_PATTERN("\\p{N}")},
    {DITI_TOKENIZER_BYTES, 3, 0, DITI_BPE_PATTERN("\\p{N}{1,3}")},
    {DITI_TOKENIZER_BYTES, 1, DITI_CLEAN_CASES,
     "[^\\r\\n\\p{L}\\p{N}]?" DITI_BPE_UPPER "*" DITI_BPE_LOWER "+|[^\\r\\n\\p{L}\\p{N}]?" DITI_BPE_UPPER
     "+" DITI_BPE_LOWER "*|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"},
};

static dit_result diti_bpe_read_pattern(diti_tokenizer *tokenizer, const char *regex, dit_error *err) {
    size_t i;
    for (i = 0; i < DITI_COUNT(diti_bpe_patterns); i++) {
        const diti_bpe_pattern *pattern = &diti_bpe_patterns[i];
        if (pattern->kind != tokenizer->kind || !diti_equal(pattern->regex, regex)) continue;
        tokenizer->digits = pattern->digits;
        tokenizer->rules |= pattern->rules;
        return DIT_OK;
    }
    return diti_bpe_unsupported(tokenizer->name, "pattern", regex, err);
}

/* Where spaces have become something else before, nothing is split at them. */
static dit_result diti_bpe_check_unsplit(const diti_tokenizer *tokenizer, const diti_json *pre_tokenizer,
                                         dit_error *err) {
    const char *type = diti_json_string(pre_tokenizer, "type", "");
    if (!tokenizer->escapes_spaces) return diti_bpe_unsupported(tokenizer->name, "normalizer", "without U+2581", err);
    if (!pre_tokenizer || pre_tokenizer->kind == DITI_JSON_NULL ||
        (diti_equal(type, "Split") &&
         diti_equal(diti_json_string(diti_json_get(pre_tokenizer, "pattern"), "String", ""), " ")))
        return DIT_OK;
    return diti_bpe_unsupported(tokenizer->name, "pre_tokenizer", type, err);
}

static dit_result diti_bpe_read_split(diti_tokenizer *tokenizer, const diti_json *pre_tokenizer, dit_error *err) {
    diti_settings settings = diti_settings_of(pre_tokenizer, tokenizer->name, err);
    const char *type = diti_setting_text(&settings, "type", "");
    const char *regex = diti_json_string(diti_json_get(pre_tokenizer, "pattern"), "Regex", "");
    bool prefix = diti_setting_bool(&settings, "add_prefix_space", true);
    const diti_json *member;
    dit_result result = settings.result;
    DITI_TRY(result);
    if (diti_equal(type, "Split")) return diti_bpe_read_pattern(tokenizer, regex, err);
    if (diti_equal(type, "ByteLevel") && !prefix) return DIT_OK;
    if (!diti_equal(type, "Sequence")) return diti_bpe_unsupported(tokenizer->name, "pre_tokenizer", type, err);
    member = diti_json_get(pre_tokenizer, "pretokenizers");
    for (member = member ? member->first : NULL; member && result >= 0; member = member->next)
        result = diti_bpe_read_split(tokenizer, member, err);
    return result;
}

/* The token that stands before every text: LLaMA 3's template names it. */
static dit_result diti_bpe_read_template(diti_tokenizer *tokenizer, const diti_json *processor, dit_error *err) {
    const diti_json *member = diti_json_get(processor, "processors"), *first, *token;
    dit_result result = DIT_OK;
    for (member = member ? member->first : NULL; member && result >= 0; member = member->next)
        result = diti_bpe_read_template(tokenizer, member, err);
    if (result < 0 || !diti_equal(diti_json_string(processor, "type", ""), "TemplateProcessing")) return result;
    first = diti_json_get(processor, "single");
    token = first && first->first ? diti_json_get(first->first, "SpecialToken") : NULL;
    return token ? diti_tokenizer_special(tokenizer, diti_json_string(token, "id", ""), &tokenizer->begin, err)
                 : DIT_OK;
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
    if (tokenizer->kind == DITI_TOKENIZER_PIECES)
        DITI_TRY(diti_bpe_check_unsplit(tokenizer, diti_json_get(root, "pre_tokenizer"), err));
    else
        DITI_TRY(diti_bpe_read_split(tokenizer, diti_json_get(root, "pre_tokenizer"), err));
    if (tokenizer->kind == DITI_TOKENIZER_BYTES && !tokenizer->digits)
        return diti_bpe_unsupported(tokenizer->name, "pre_tokenizer", "ByteLevel without Split", err);
    if (tokenizer->kind != DITI_TOKENIZER_CLIP)
        DITI_TRY(diti_bpe_read_template(tokenizer, diti_json_get(root, "post_processor"), err));
    return diti_bpe_read_merges(tokenizer, diti_json_get(model, "merges"), err);
}

DIT_INTERNAL dit_result diti_bpe_load_json(const diti_env *env, const diti_json *root, const char *name,
                                           diti_tokenizer **out, dit_error *err) {
    const diti_json *model = diti_json_get(root, "model");
    diti_settings settings = diti_settings_of(model, name, err);
    const char *suffix = diti_setting_text(&settings, "end_of_word_suffix", "");
    bool whole = diti_setting_bool(&settings, "ignore_merges", false), clip = diti_equal(suffix, "</w>");
    bool fallback = diti_setting_bool(&settings, "byte_fallback", false);
    diti_tokenizer *tokenizer = NULL;
    dit_result result;
    DITI_TRY(settings.result);
    if (!clip && *suffix) return diti_bpe_unsupported(name, "end_of_word_suffix", suffix, err);
    DITI_TRY(diti_vocabulary_create(env,
                                    clip       ? DITI_TOKENIZER_CLIP
                                    : fallback ? DITI_TOKENIZER_PIECES
                                               : DITI_TOKENIZER_BYTES,
                                    diti_json_get(model, "vocab"), diti_json_get(root, "added_tokens"), name,
                                    &tokenizer, err));
    tokenizer->whole_words = whole;
    tokenizer->normalizer.add_prefix = false;
    result = diti_bpe_fill(tokenizer, root, model, err);
    if (result >= 0)
        *out = tokenizer;
    else
        diti_tokenizer_free(tokenizer);
    return result;
}
