/* Tokenizers against golden.json: ids, ids padded and cut to max_length, attention mask; all exact. */
#ifndef GOLDEN_TOKENIZERS_H
#define GOLDEN_TOKENIZERS_H
#include "golden.h"

typedef struct golden_tokenizer_result {
    int cases, wrong;
    char message[600]; /* the first that is wrong */
} golden_tokenizer_result;

static inline dit_result test_encode(const diti_tokenizer *tokenizer, const char *text, int32_t *ids, uint32_t capacity,
                                     uint32_t *count, uint32_t *lost, dit_error *err) {
    diti_tokens tokens = DITI_ZERO;
    dit_result result;
    tokens.ids = ids;
    tokens.capacity = capacity;
    result = diti_tokenizer_encode(tokenizer, text, &tokens, err);
    if (count) *count = tokens.count;
    if (lost) *lost = tokens.lost;
    return result;
}

/* length 0: as many ids as there are. Otherwise ids is what text becomes when padded or cut to length. */
static inline bool golden_ids_equal(const diti_tokenizer *tokenizer, const char *text, const diti_json *ids,
                                    uint32_t length) {
    uint32_t capacity = length ? length : ids->count + 3, count = 0, lost = 0, i;
    int32_t *found = (int32_t *)malloc(capacity * sizeof(int32_t));
    const diti_json *wanted = ids->first;
    bool equal = test_encode(tokenizer, text, found, capacity, &count, &lost, NULL) == DIT_OK;
    if (ids->count != (length ? capacity : count)) equal = false;
    for (i = 0; equal && wanted; wanted = wanted->next, i++) equal = found[i] == (int32_t)wanted->number;
    free(found);
    return equal;
}

static inline bool golden_mask_equal(const diti_tokenizer *tokenizer, const char *text, const diti_json *mask) {
    int32_t *ids = (int32_t *)malloc(mask->count * sizeof(int32_t));
    uint32_t count = 0, lost = 0, i = 0;
    const diti_json *wanted;
    bool equal = test_encode(tokenizer, text, ids, mask->count, &count, &lost, NULL) == DIT_OK;
    for (wanted = mask->first; wanted; wanted = wanted->next, i++)
        equal = equal && (i < count) == (wanted->number == 1);
    free(ids);
    return equal;
}

static inline bool golden_tokenizer_case(const diti_tokenizer *tokenizer, const diti_json *item, uint32_t length) {
    const char *text = diti_json_string(item, "text", NULL);
    const diti_json *ids = diti_json_get(item, "ids"), *padded = diti_json_get(item, "ids_padded"),
                    *mask = diti_json_get(item, "attention_mask");
    if (!text || !ids || !padded || !mask) return false;
    return golden_ids_equal(tokenizer, text, ids, 0) && golden_ids_equal(tokenizer, text, padded, length) &&
           golden_mask_equal(tokenizer, text, mask);
}

static inline void golden_tokenizer_cases(const diti_tokenizer *tokenizer, const diti_json *golden,
                                          golden_tokenizer_result *result) {
    const diti_json *cases = diti_json_get(golden, "cases"), *item;
    for (item = cases ? cases->first : NULL; item; item = item->next) {
        const diti_json *text = diti_json_get(item, "text");
        if (text && text->text_length != strlen(text->text)) continue; /* a prompt ends where a C string does */
        result->cases++;
        if (golden_tokenizer_case(tokenizer, item, (uint32_t)diti_json_number(golden, "max_length", 0))) continue;
        if (result->wrong++ == 0)
            snprintf(result->message, sizeof result->message, "\"%s\"", diti_json_string(item, "text", ""));
    }
}

/* file: spiece.model or tokenizer.json. */
static inline golden_tokenizer_result golden_tokenizer(const diti_env *env, const char *file, const char *golden_file) {
    golden_tokenizer_result result = {0, 0, ""};
    dit_error err = DITI_ZERO;
    diti_tokenizer *tokenizer = NULL;
    diti_json *golden = test_read_json(env, golden_file);
    size_t size;
    char *data = test_read_file(file, &size);
    if (data && diti_tokenizer_load(env, data, size, file, &tokenizer, &err) == DIT_OK)
        golden_tokenizer_cases(tokenizer, golden, &result);
    else
        snprintf(result.message, sizeof result.message, "%s", data ? err.message : "cannot read it");
    diti_tokenizer_free(tokenizer);
    diti_json_free(env, golden);
    free(data);
    return result;
}

/* vocab.json and merges.txt, with the added tokens of tokenizer_config.json. */
static inline golden_tokenizer_result golden_tokenizer_merges(const diti_env *env, const char *path,
                                                              const char *golden_file) {
    static const char *const names[] = {"vocab.json", "merges.txt"};
    golden_tokenizer_result result = {0, 0, ""};
    dit_error err = DITI_ZERO;
    diti_tokenizer *tokenizer = NULL;
    diti_json *golden = test_read_json(env, golden_file),
              *config = golden_open_json(env, path, "tokenizer_config.json");
    char file[1024], *data[2];
    size_t sizes[2], i;
    for (i = 0; i < 2; i++) {
        golden_join(file, sizeof file, path, names[i]);
        data[i] = test_read_file(file, &sizes[i]);
    }
    if (data[0] && data[1] &&
        diti_tokenizer_load_merges(env, data[0], sizes[0], data[1], sizes[1], config, path, &tokenizer, &err) == DIT_OK)
        golden_tokenizer_cases(tokenizer, golden, &result);
    else
        snprintf(result.message, sizeof result.message, "%s", err.message);
    diti_tokenizer_free(tokenizer);
    diti_json_free(env, golden);
    diti_json_free(env, config);
    for (i = 0; i < 2; i++) free(data[i]);
    return result;
}

/* The folder of golden.json itself: vocab.json and merges.txt, vocab.txt, whatever it holds. */
static inline golden_tokenizer_result golden_tokenizer_folder(const diti_env *env, const char *path,
                                                              const char *golden_file) {
    golden_tokenizer_result result = {0, 0, ""};
    dit_error err = DITI_ZERO;
    dit_source source = DITI_ZERO;
    diti_package *package = NULL;
    diti_tokenizer *tokenizer = NULL;
    diti_json *golden = test_read_json(env, golden_file);
    uint32_t limit = 0;
    source.path = path;
    if (diti_package_open(env, &source, &package, &err) == DIT_OK &&
        diti_tokenizer_load_folder(env, package, "", &tokenizer, &limit, &err) == DIT_OK && tokenizer)
        golden_tokenizer_cases(tokenizer, golden, &result);
    else
        snprintf(result.message, sizeof result.message, "%s", err.message);
    diti_tokenizer_free(tokenizer);
    diti_package_close(package);
    diti_json_free(env, golden);
    return result;
}

/* --- chat templates: the exact text, and its ids --- */
static inline bool golden_chat_case(const diti_tokenizer *tokenizer, const diti_json *item) {
    static const struct {
        const char *name;
        const char *model;
        double dropped; /* with the published words, where the golden does not say */
    } chats[] = {{"zimage", "ZImagePipeline", 0},
                 {"flux2_klein", "Flux2KleinPipeline", 0},
                 {"flux2_dev", "Flux2Pipeline", 0},
                 {"qwenimage", "QwenImagePipeline", 34},
                 {"qwenimage_edit", "QwenImageEditPipeline", 64},
                 {"qwenimage21", "QwenImage21Pipeline", -1},
                 {"krea2", "Krea2Pipeline", -1},
                 {"anima", "AnimaPipeline", 0}};
    const char *name = diti_json_string(item, "model", ""), *prompt = diti_json_string(item, "prompt", NULL);
    const diti_json *ids = diti_json_get(item, "ids"), *wanted;
    char text[4096];
    size_t i;
    for (i = 0; i < DITI_COUNT(chats); i++) {
        const diti_chat *chat = diti_families_chat(chats[i].model);
        diti_tokens tokens = DITI_ZERO;
        uint32_t dropped = 0, k = 0;
        bool good;
        if (!diti_equal(chats[i].name, name) || !prompt || !ids) continue;
        tokens.capacity = ids->count + 3;
        tokens.ids = (int32_t *)malloc(tokens.capacity * sizeof *tokens.ids);
        tokens.before = chat->before;
        tokens.after = chat->after;
        tokens.keeps_after = (chat->rules & DITI_CHAT_KEEPS_AFTER) != 0;
        good = diti_format(text, sizeof text, "%s%s%s", chat->before, prompt, chat->after) &&
               diti_equal(text, diti_json_string(item, "text", "")) &&
               diti_tokenizer_encode(tokenizer, prompt, &tokens, NULL) == DIT_OK && tokens.count == ids->count &&
               diti_tokenizer_count(tokenizer, chat->dropped, &dropped, NULL) == DIT_OK &&
               dropped == diti_json_number(item, "dropped", chats[i].dropped);
        for (wanted = ids->first; good && wanted; wanted = wanted->next, k++)
            good = tokens.ids[k] == (int32_t)wanted->number;
        free(tokens.ids);
        return good;
    }
    return false;
}

/* NAME.json: llama3 and mistral: the same pieces, split and framed as these do; gemma: pieces of characters. */
static inline void golden_run_other(golden *g, const golden_folder *folder, const char *golden_file, const char *name) {
    diti_json *golden;
    const diti_json *cases, *item;
    golden_tokenizer_result result = {0, 0, ""};
    diti_tokenizer *tokenizer = NULL;
    dit_error err = DITI_ZERO;
    char file[1024], member[32];
    size_t size;
    char *data;
    diti_format(member, sizeof member, "%s.json", name);
    if (!golden_has(folder->path, member)) return;
    golden = test_read_json(&g->env, golden_file);
    cases = diti_json_get(golden, "cases");
    golden_join(file, sizeof file, folder->path, member);
    data = test_read_file(file, &size);
    if (data) diti_tokenizer_load(&g->env, data, size, file, &tokenizer, &err);
    for (item = cases && tokenizer ? cases->first : NULL; item; item = item->next) {
        const char *text = diti_json_string(item, "text", "");
        result.cases++;
        if (golden_ids_equal(tokenizer, text, diti_json_get(item, name), 0)) continue;
        if (result.wrong++ == 0) snprintf(result.message, sizeof result.message, "\"%s\"", text);
    }
    golden_check(g, result.cases > 0 && result.wrong == 0, "%s: %d of %d texts give the same ids %s%s", member,
                 result.cases - result.wrong, result.cases, result.message, err.message);
    diti_tokenizer_free(tokenizer);
    diti_json_free(&g->env, golden);
    free(data);
}

static inline void golden_run_chats(golden *g, const golden_folder *folder, const char *golden_file,
                                    const char *member) {
    diti_json *golden = test_read_json(&g->env, golden_file);
    const diti_json *chats = diti_json_get(golden, "chat"), *item;
    golden_tokenizer_result result = {0, 0, ""};
    diti_tokenizer *tokenizer = NULL;
    char file[1024];
    size_t size;
    char *data = NULL;
    if (chats && golden_join(file, sizeof file, folder->path, member)) data = test_read_file(file, &size);
    if (data) diti_tokenizer_load(&g->env, data, size, file, &tokenizer, NULL);
    for (item = chats && tokenizer ? chats->first : NULL; item; item = item->next) {
        result.cases++;
        if (golden_chat_case(tokenizer, item)) continue;
        if (result.wrong++ == 0)
            snprintf(result.message, sizeof result.message, "%s", diti_json_string(item, "model", "?"));
    }
    if (chats)
        golden_check(g, result.cases > 0 && result.wrong == 0, "%d of %d chats have the same text and ids %s",
                     result.cases - result.wrong, result.cases, result.message);
    diti_tokenizer_free(tokenizer);
    diti_json_free(&g->env, golden);
    free(data);
}

/* --- the family --- */
static inline bool golden_is_tokenizer(const golden_folder *folder) {
    return golden_has(folder->path, "golden.json") &&
           (golden_has(folder->path, "spiece.model") || golden_has(folder->path, "merges.txt") ||
            golden_has(folder->path, "vocab.txt"));
}

static inline void golden_report_tokenizer(golden *g, const char *what, golden_tokenizer_result result) {
    golden_check(g, result.cases > 0 && result.wrong == 0, "%s: %d of %d texts give the same ids, padding and mask %s",
                 what, result.cases - result.wrong, result.cases, result.message);
}

static inline void golden_run_tokenizer(golden *g, const golden_folder *folder) {
    static const char *const files[] = {"spiece.model", "tokenizer.json"};
    char file[1024], golden_file[1024];
    size_t i;
    golden_join(golden_file, sizeof golden_file, folder->path, "golden.json");
    golden_report_tokenizer(g, "folder", golden_tokenizer_folder(&g->env, folder->path, golden_file));
    for (i = 0; i < 2; i++) {
        if (golden_has(folder->path, files[i]) && golden_join(file, sizeof file, folder->path, files[i]))
            golden_report_tokenizer(g, files[i], golden_tokenizer(&g->env, file, golden_file));
    }
    if (golden_has(folder->path, "vocab.json") && golden_has(folder->path, "tokenizer.json"))
        golden_report_tokenizer(g, "vocab.json", golden_tokenizer_merges(&g->env, folder->path, golden_file));
    golden_run_chats(g, folder, golden_file, "tokenizer.json");
    golden_run_other(g, folder, golden_file, "llama3");
    golden_run_other(g, folder, golden_file, "gemma");
    if (golden_has(folder->path, "mistral.json") &&
        golden_join(golden_file, sizeof golden_file, folder->path, "golden_mistral.json")) {
        golden_run_other(g, folder, golden_file, "mistral");
        golden_run_chats(g, folder, golden_file, "mistral.json");
    }
}
#endif
