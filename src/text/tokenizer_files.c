#include "text/tokenizer.h"

/* Which tokenizer a file or folder holds. */

/* --- single files --- */
static dit_result diti_tokenizer_load_json(const diti_env *env, const void *data, size_t size, const char *name,
                                           diti_tokenizer **out, dit_error *err) {
    diti_json *root = NULL;
    diti_settings model;
    const char *type;
    dit_result result = diti_json_parse(env, (const char *)data, size, name, &root, err);
    DITI_TRY(result);
    model = diti_settings_of(diti_json_get(root, "model"), name, err);
    type = diti_setting_text(&model, "type", "Unigram");
    if (model.result < 0)
        result = model.result;
    else if (diti_equal(type, "Unigram"))
        result = diti_unigram_load_json(env, root, name, out, err);
    else if (diti_equal(type, "BPE"))
        result = diti_bpe_load_json(env, root, name, out, err);
    else if (diti_equal(type, "WordPiece"))
        result = diti_wordpiece_load_json(env, root, name, out, err);
    else
        result = diti_fail(err, DIT_ERROR_UNSUPPORTED_MODEL,
                           "%s: a tokenizer of type %.60s; only Unigram, BPE and WordPiece are supported", name, type);
    diti_json_free(env, root);
    return result;
}

/* A ModelProto begins with the tag of its first piece (a line feed), JSON with a brace, vocab.txt with "[PAD]". */
DIT_INTERNAL dit_result diti_tokenizer_load(const diti_env *env, const void *data, size_t size, const char *name,
                                            diti_tokenizer **out, dit_error *err) {
    const char *text = (const char *)data;
    size_t i = 0;
    while (i < size && text[0] != '\n' && (text[i] == ' ' || text[i] == '\r' || text[i] == '\n' || text[i] == '\t'))
        i++;
    if (i < size && text[i] == '{') return diti_tokenizer_load_json(env, data, size, name, out, err);
    if (i < size && text[i] == '[') return diti_wordpiece_load_text(env, text, size, name, out, err);
    return diti_tokenizer_load_spiece(env, data, size, name, out, err);
}

/* --- folders --- */
typedef struct diti_tokenizer_folder {
    const diti_env *env;
    const diti_package *package;
    const char *folder;
} diti_tokenizer_folder;

/* *data stays NULL where there is no such file. */
static dit_result diti_folder_read(const diti_tokenizer_folder *from, const char *file, char *path, size_t path_size,
                                   char **data, size_t *size, dit_error *err) {
    *data = NULL;
    if (!diti_format(path, path_size, "%s%s", from->folder, file)) return DIT_OK;
    return diti_package_read(from->package, path, data, size, err);
}

static dit_result diti_folder_load(const diti_tokenizer_folder *from, const char *file, diti_tokenizer **out,
                                   dit_error *err) {
    char path[160], *data;
    size_t size = 0;
    dit_result result;
    if (*out) return DIT_OK;
    result = diti_folder_read(from, file, path, sizeof path, &data, &size, err);
    if (result < 0 || !data) return result;
    result = diti_tokenizer_load(from->env, data, size, path, out, err);
    diti_free(from->env, data);
    return result;
}

static dit_result diti_folder_read_json(const diti_tokenizer_folder *from, const char *file, diti_json **out,
                                        dit_error *err) {
    char path[160], *data;
    size_t size = 0;
    dit_result result = diti_folder_read(from, file, path, sizeof path, &data, &size, err);
    if (result < 0 || !data) return result;
    result = diti_json_parse(from->env, data, size, path, out, err);
    diti_free(from->env, data);
    return result;
}

static dit_result diti_folder_load_merges(const diti_tokenizer_folder *from, diti_tokenizer **out, dit_error *err) {
    char path[160], *vocabulary, *merges = NULL;
    diti_json *config = NULL;
    size_t vocabulary_size = 0, merges_size = 0;
    dit_result result;
    if (*out) return DIT_OK;
    result = diti_folder_read(from, "merges.txt", path, sizeof path, &merges, &merges_size, err);
    if (result < 0 || !merges) return result;
    result = diti_folder_read(from, "vocab.json", path, sizeof path, &vocabulary, &vocabulary_size, err);
    if (result >= 0) result = diti_folder_read_json(from, "tokenizer_config.json", &config, err);
    if (result >= 0 && vocabulary)
        result = diti_tokenizer_load_merges(from->env, vocabulary, vocabulary_size, merges, merges_size, config, path,
                                            out, err);
    else if (result >= 0)
        result = diti_fail(err, DIT_ERROR_BAD_FILE, "%s is missing; merges.txt beside it needs it", path);
    diti_json_free(from->env, config);
    diti_free(from->env, vocabulary);
    diti_free(from->env, merges);
    return result;
}

DIT_INTERNAL dit_result diti_byt5_create(const diti_env *env, const diti_json *config, diti_tokenizer **out,
                                         dit_error *err) {
    static const char usual[] =
        "{\"0\": {\"content\": \"<pad>\"}, \"1\": {\"content\": \"</s>\"}, \"2\": {\"content\": \"<unk>\"}}";
    static const char name[] = "tokenizer_config.json";
    const diti_json *added = config ? diti_json_get(config, "added_tokens_decoder") : NULL;
    diti_json words = DITI_ZERO, *parsed = NULL;
    dit_result result;
    words.kind = DITI_JSON_OBJECT;
    if (!added || added->kind != DITI_JSON_OBJECT || !added->first) {
        DITI_TRY(diti_json_parse(env, usual, sizeof usual - 1, name, &parsed, err));
        added = parsed;
    }
    result = diti_vocabulary_create(env, DITI_TOKENIZER_BYT5, &words, added, name, out, err);
    diti_json_free(env, parsed);
    return result;
}

/* ByT5's has no other file than its configuration. */
static dit_result diti_folder_load_bytes(const diti_tokenizer_folder *from, diti_tokenizer **out, dit_error *err) {
    diti_json *config = NULL;
    dit_result result;
    if (*out) return DIT_OK;
    result = diti_folder_read_json(from, "tokenizer_config.json", &config, err);
    if (result >= 0 && diti_equal(diti_json_string(config, "tokenizer_class", ""), "ByT5Tokenizer"))
        result = diti_byt5_create(from->env, config, out, err);
    diti_json_free(from->env, config);
    return result;
}

/* "pad_token": "!" or {"content": "!", ...}. CLIP-G of SDXL and SD3 is padded with what stands for "!". */
static dit_result diti_tokenizer_configure_padding(const diti_tokenizer_folder *from, diti_tokenizer *tokenizer,
                                                   const diti_json *config, const char *file, dit_error *err) {
    diti_settings settings, token;
    const diti_json *value;
    const char *text;
    char path[160];
    diti_format(path, sizeof path, "%s%s", from->folder, file);
    settings = diti_settings_of(config, path, err);
    value = diti_setting(&settings, "pad_token");
    if (value && value->kind == DITI_JSON_OBJECT) {
        token = diti_settings_of(value, path, err);
        text = diti_setting_text(&token, "content", "");
        settings.result = token.result;
    } else {
        text = diti_setting_text(&settings, "pad_token", "");
    }
    DITI_TRY(settings.result);
    if (!*text || tokenizer->kind == DITI_TOKENIZER_UNIGRAM) return DIT_OK;
    return diti_tokenizer_special(tokenizer, text, &tokenizer->padding, err);
}

static void diti_tokenizer_configure_words(diti_tokenizer *tokenizer, diti_settings *settings) {
    bool lower = diti_setting_bool(settings, "do_lower_case", true);
    uint32_t lowers = tokenizer->rules & (DITI_CLEAN_LOWER | DITI_CLEAN_LOWER_SIGMA);
    if (tokenizer->kind != DITI_TOKENIZER_WORDPIECE || !settings->object) return;
    if (!lower) tokenizer->rules &= ~lowers;
    if (!diti_setting_bool(settings, "strip_accents", lower)) tokenizer->rules &= ~(uint32_t)DITI_CLEAN_ACCENTS;
    if (!diti_setting_bool(settings, "tokenize_chinese_chars", true))
        tokenizer->rules &= ~(uint32_t)DITI_CLEAN_IDEOGRAPHS;
}

static dit_result diti_tokenizer_use_config(const diti_tokenizer_folder *from, diti_tokenizer *tokenizer,
                                            const diti_json *config, const diti_json *map, uint32_t *limit,
                                            dit_error *err) {
    diti_settings settings;
    double most;
    char path[160] = "tokenizer_config.json";
    diti_format(path, sizeof path, "%stokenizer_config.json", from->folder);
    settings = diti_settings_of(config, path, err);
    most = diti_setting_number(&settings, "model_max_length", 0, -(double)INFINITY, (double)INFINITY);
    if (most >= 1 && most <= 4096) *limit = (uint32_t)most;
    if (tokenizer) diti_tokenizer_configure_words(tokenizer, &settings);
    if (settings.result < 0 || !tokenizer) return settings.result;
    DITI_TRY(diti_tokenizer_configure_padding(from, tokenizer, map, "special_tokens_map.json", err));
    return diti_tokenizer_configure_padding(from, tokenizer, config, "tokenizer_config.json", err);
}

static dit_result diti_tokenizer_configure(const diti_tokenizer_folder *from, diti_tokenizer *tokenizer,
                                           uint32_t *limit, dit_error *err) {
    diti_json *config = NULL, *map = NULL;
    dit_result result = diti_folder_read_json(from, "tokenizer_config.json", &config, err);
    if (result >= 0) result = diti_folder_read_json(from, "special_tokens_map.json", &map, err);
    if (result >= 0) result = diti_tokenizer_use_config(from, tokenizer, config, map, limit, err);
    diti_json_free(from->env, map);
    diti_json_free(from->env, config);
    return result;
}

/* The first of the files that tokenizers come in, and its configuration. */
static dit_result diti_folder_load_all(const diti_tokenizer_folder *from, diti_tokenizer **out, uint32_t *limit,
                                       dit_error *err) {
    DITI_TRY(diti_folder_load(from, "spiece.model", out, err));
    DITI_TRY(diti_folder_load(from, "tokenizer.json", out, err));
    DITI_TRY(diti_folder_load_merges(from, out, err));
    DITI_TRY(diti_folder_load(from, "vocab.txt", out, err));
    DITI_TRY(diti_folder_load_bytes(from, out, err));
    return diti_tokenizer_configure(from, *out, limit, err);
}

DIT_INTERNAL dit_result diti_tokenizer_load_folder(const diti_env *env, const diti_package *package, const char *folder,
                                                   diti_tokenizer **out, uint32_t *limit, dit_error *err) {
    diti_tokenizer_folder from;
    dit_result result;
    from.env = env;
    from.package = package;
    from.folder = folder;
    *out = NULL;
    *limit = 0;
    result = diti_folder_load_all(&from, out, limit, err);
    if (result >= 0) return result;
    diti_tokenizer_free(*out);
    *out = NULL;
    return result;
}
