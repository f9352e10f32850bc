/* text: tokenizers, Unicode and weighted prompts against their references, and against damaged files. */
#include "library.h"
#include "text/bpe.c"
#include "text/unicode.c"
#include "test.h"
#include "files.h"
#include "golden/golden_tokenizers.h"
#include "model_files.h"
#include <time.h>

#define T5 "tests/fixtures/tokenizers/t5"
#define T5_JSON "tests/fixtures/tokenizers/t5_json"
#define CLIP "tests/fixtures/tokenizers/clip"
#define CLIP_JSON "tests/fixtures/tokenizers/clip_json"
#define BERT "tests/fixtures/tokenizers/bert"
#define BERT_JSON "tests/fixtures/tokenizers/bert_json"
#define QWEN "tests/fixtures/tokenizers/qwen2"
#define SCRIPTS "tests/fixtures/tokenizers/scripts"

static diti_tokenizer *load(const diti_env *env, const void *data, size_t size, dit_error *err) {
    diti_tokenizer *tokenizer = NULL;
    memset(err, 0, sizeof *err);
    if (diti_tokenizer_load(env, data, size, "test", &tokenizer, err) < 0) return NULL;
    return tokenizer;
}

/* --- references --- */
static void test_golden(const diti_env *env, const char *file) {
    golden_tokenizer_result result = golden_tokenizer(env, file, T5 "/golden.json");
    CHECK_MESSAGE(result.cases == 12 && result.wrong == 0, "%s: %d of %d cases wrong; %s", file, result.wrong,
                  result.cases, result.message);
}

static void test_golden_folder(const diti_env *env, const char *folder, const char *golden) {
    golden_tokenizer_result result = golden_tokenizer_folder(env, folder, golden);
    CHECK_MESSAGE(result.cases == 12 && result.wrong == 0, "%s: %d of %d cases wrong; %s", folder, result.wrong,
                  result.cases, result.message);
}

/* Ids of tokenizers and of sentencepiece, made by tests/reference/tokenizer_json.py and tokenizer_words.py. */
static void check_column(const diti_env *env, const char *file, const char *data, size_t size, const char *golden_file,
                         const char *column) {
    diti_json *golden = test_read_json(env, golden_file);
    const diti_json *cases = diti_json_get(golden, "cases"), *item;
    dit_error err = DITI_ZERO;
    diti_tokenizer *tokenizer = load(env, data, size, &err);
    CHECK_MESSAGE(tokenizer != NULL, "%s: %s", file, err.message);
    CHECK(cases && cases->count > 30);
    for (item = tokenizer && cases ? cases->first : NULL; item; item = item->next) {
        const diti_json *ids = diti_json_get(item, column), *text = diti_json_get(item, "text");
        if (ids->kind == DITI_JSON_ARRAY)
            CHECK_MESSAGE(golden_ids_equal(tokenizer, text->text, ids, 0), "%s: \"%s\"", file, text->text);
    }
    diti_tokenizer_free(tokenizer);
    diti_json_free(env, golden);
}

static void test_column(const diti_env *env, const char *file, const char *golden_file, const char *column) {
    size_t size;
    char *data = test_read_file(file, &size);
    check_column(env, file, data, size, golden_file, column);
    free(data);
}

/* transformers 5 writes CLIP's pattern with the tokens around a text in front of it. */
static void test_newer_clip(const diti_env *env) {
    static const char file[] = CLIP_JSON "/tokenizer.json", more[] = "<\\\\|startoftext\\\\|>|<\\\\|endoftext\\\\|>|";
    bytes newer = {0};
    size_t size;
    char *data = test_read_file(file, &size), *at = strstr(data, "'s|'t");
    if (CHECK(at != NULL)) {
        bytes_add(&newer, data, (size_t)(at - data));
        bytes_add(&newer, more, strlen(more));
        bytes_add(&newer, at, size - (size_t)(at - data));
        check_column(env, file, (const char *)newer.data, newer.size, CLIP_JSON "/golden.json", "tokenizer.json");
    }
    bytes_free(&newer);
    free(data);
}

/* --- Unicode: every code and its decomposition, against Python's unicodedata --- */
static uint64_t hash_rule(const diti_env *env, const diti_unicode *unicode, diti_clean_rule rule, uint64_t hash,
                          const diti_codes *text) {
    diti_codes out = DITI_ZERO;
    char bytes[4];
    size_t i, j, length;
    out.env = env;
    diti_clean_step(unicode, rule, text, &out);
    for (i = 0; i < out.count; i++) {
        length = diti_utf8_encode(out.at[i], bytes);
        for (j = 0; j < length; j++) hash = (hash ^ (uint8_t)bytes[j]) * 0x100000001b3u;
    }
    diti_codes_free(&out);
    return hash;
}

/* Codes [first, first + 4096), each with ! behind it, which keeps neighbours apart. */
static diti_codes codes_from(const diti_env *env, const diti_unicode *unicode, uint32_t first) {
    diti_codes out = DITI_ZERO;
    uint32_t code;
    out.env = env;
    for (code = first; code < first + 4096; code++) {
        size_t before = out.count, length;
        if (code >= 0xd800 && code < 0xe000) continue;
        diti_codes_put(&out, code);
        diti_codes_put(&out, '!');
        before = out.count;
        diti_decompose_code(unicode, code, &out);
        length = out.count - before;
        if (length == 1 && out.at[before] == code)
            out.count = before;
        else
            diti_codes_put(&out, '!');
    }
    return out;
}

static void test_unicode(const diti_env *env) {
    static const struct {
        const char *name;
        diti_clean_rule rule;
    } steps[] = {{"compose", DITI_CLEAN_COMPOSE},
                 {"accents", DITI_CLEAN_ACCENTS},
                 {"lower", DITI_CLEAN_LOWER_SIGMA},
                 {"controls", DITI_CLEAN_CONTROLS}};
    diti_json *golden = test_read_json(env, "tests/fixtures/tokenizers/unicode.json");
    diti_unicode *unicode = diti_unicode_create(env);
    size_t i;
    for (i = 0; i < 4; i++) {
        uint64_t hash = 0xcbf29ce484222325u;
        char text[20];
        uint32_t first;
        for (first = 0; first < (test_quick_way("sanitize") ? 0x3000 : 0x110000); first += 4096) {
            diti_codes codes = codes_from(env, unicode, first);
            hash = hash_rule(env, unicode, steps[i].rule, hash, &codes);
            diti_codes_free(&codes);
        }
        snprintf(text, sizeof text, "%016llx", (unsigned long long)hash);
        CHECK_MESSAGE(first < 0x110000 || diti_equal(text, diti_json_string(golden, steps[i].name, "")), "%s: %s",
                      steps[i].name, text);
    }
    diti_free(env, unicode);
    diti_json_free(env, golden);
}

/* --- what prompt_clean of diffusers' Wan makes of prompts, but for white space --- */
static void test_mended(const diti_env *env) {
    static const char *const cases[][2] = {
        {"", ""},
        {"plain & simple, A&B", "plain & simple, A&B"},
        {"it\u2019s a \u2018dog\u201b, \u201cgood\u201f \u02bc", "it's a 'dog', \"good\" '"},
        {"a &lt;b&gt; &quot;c&quot; &apos;d&apos; &apos &amp", "a <b> \"c\" 'd' &apos &"},
        {"&amp;lt; &amp;amp;lt; &ampere &ltr", "< &lt; &ere <r"},
        {"&#39;&#x27;&#X27&#39 &#8217; &#146; &rsquo;&ldquo;", "'''' ' ' '\""},
        {"&#0; &#xD800; &#99999999999; &#x110000", "\ufffd \ufffd \ufffd \ufffd"},
        {"&# &#x &#; &; & &#xg &hellip;&ndash;&mdash", "&# &#x &#; &; & &#xg \u2026\u2013&mdash"},
        {"\u732b&amp;\u72ac&#", "\u732b&\u72ac&#"},
    };
    size_t i;
    for (i = 0; i < DITI_COUNT(cases); i++) {
        diti_codes codes;
        char *text = NULL;
        size_t length;
        CHECK(diti_clean(env, cases[i][0], strlen(cases[i][0]), DITI_CLEAN_ENTITIES | DITI_CLEAN_QUOTES, &codes,
                         NULL) == DIT_OK &&
              diti_codes_to_text(&codes, &text, &length, NULL) == DIT_OK);
        CHECK_MESSAGE(diti_equal(text, cases[i][1]), "\"%s\" becomes \"%s\"", cases[i][0], text);
        diti_free(env, text);
        diti_codes_free(&codes);
    }
}

/* --- what a folder's configuration changes --- */
static diti_tokenizer *load_members(const diti_env *env, folder *files, dit_error *err) {
    dit_source source = folder_source(files);
    diti_package *package = NULL;
    diti_tokenizer *tokenizer = NULL;
    uint32_t limit = 0;
    memset(err, 0, sizeof *err);
    if (diti_package_open(env, &source, &package, err) == DIT_OK)
        diti_tokenizer_load_folder(env, package, "tokenizer/", &tokenizer, &limit, err);
    diti_package_close(package);
    folder_free(files);
    return tokenizer;
}

static void add_file(folder *files, const char *name, const char *path) {
    bytes file = {0};
    size_t size;
    char *data = test_read_file(path, &size);
    bytes_add(&file, data, size);
    free(data);
    folder_add(files, name, file);
}

static void test_configured(const diti_env *env) {
    static const char *const wrong[][2] = {
        {"{\"do_lower_case\":\"false\"}",
         "tokenizer/tokenizer_config.json: do_lower_case: \"false\" is not true or false"},
        {"{\"strip_accents\":0}", "strip_accents: 0"},
        {"{\"tokenize_chinese_chars\":[]}", "tokenize_chinese_chars: the list"},
        {"{\"model_max_length\":\"77\"}", "model_max_length: \"77\" is not a number"},
        {"{\"pad_token\":0}", "pad_token: 0 is not a text"},
        {"{\"pad_token\":{\"content\":0}}", "content: 0 is not a text"},
        {"[]", "tokenizer/tokenizer_config.json: it is not an object"},
    };
    folder files = {0};
    dit_error err;
    diti_tokenizer *tokenizer;
    int32_t ids[8];
    uint32_t count = 0;
    add_file(&files, "tokenizer/vocab.json", CLIP "/vocab.json");
    add_file(&files, "tokenizer/merges.txt", CLIP "/merges.txt");
    folder_add_text(&files, "tokenizer/special_tokens_map.json", "{\"pad_token\":{\"content\":\"!\"}}");
    tokenizer = load_members(env, &files, &err);
    CHECK_MESSAGE(tokenizer != NULL, "%s", err.message);
    if (tokenizer) { /* the padding's own sign in the text is the padding token, as transformers has it */
        CHECK(test_encode(tokenizer, "\x01\x02", ids + 6, 2, &count, NULL, &err) == DIT_OK && count == 2);
        CHECK(test_encode(tokenizer, "a!", ids, 8, &count, NULL, &err) == DIT_OK && count == 4);
        CHECK(ids[0] == 1012 && ids[1] == 320 && ids[2] == 0 && ids[3] == 1013 && ids[4] == 0 && ids[7] == 0);
    }
    diti_tokenizer_free(tokenizer);
    add_file(&files, "tokenizer/vocab.txt", BERT "/vocab.txt");
    folder_add_text(&files, "tokenizer/tokenizer_config.json", "{\"do_lower_case\":false}");
    tokenizer = load_members(env, &files, &err);
    CHECK_MESSAGE(tokenizer != NULL, "%s", err.message);
    CHECK(tokenizer && test_encode(tokenizer, "photo Photo", ids, 8, &count, NULL, &err) == DIT_OK && count == 4 &&
          ids[1] == 411 && ids[2] == 1);
    diti_tokenizer_free(tokenizer);
    add_file(&files, "tokenizer/merges.txt", CLIP "/merges.txt");
    tokenizer = load_members(env, &files, &err);
    CHECK_MESSAGE(!tokenizer && strstr(err.message, "vocab.json is missing"), "%s", err.message);
    for (size_t i = 0; i < DITI_COUNT(wrong); i++) {
        add_file(&files, "tokenizer/vocab.txt", BERT "/vocab.txt");
        folder_add_text(&files, "tokenizer/tokenizer_config.json", wrong[i][0]);
        tokenizer = load_members(env, &files, &err);
        CHECK_MESSAGE(!tokenizer && strstr(err.message, wrong[i][1]), "%s: %s", wrong[i][0], err.message);
    }
}

/* --- weights: what A1111's parser makes of these --- */
static void check_prompt(const diti_env *env, const char *text, const char *expected) {
    diti_prompt prompt;
    char written[512] = "";
    size_t i;
    CHECK(diti_prompt_parse(env, text, strlen(text), &prompt, NULL) == DIT_OK);
    for (i = 0; i < prompt.count; i++) {
        const diti_prompt_part *part = &prompt.parts[i];
        snprintf(written + strlen(written), sizeof written - strlen(written), "%s%.*s=%.4g", i ? "|" : "",
                 (int)part->length, prompt.text + part->first, part->weight);
    }
    CHECK_MESSAGE(diti_equal(written, expected), "\"%s\" gives \"%s\", not \"%s\"", text, written, expected);
    diti_prompt_free(env, &prompt);
}

static void test_prompts(const diti_env *env) {
    static const char *const cases[][2] = {
        {"", ""},
        {"a cat", "a cat=1"},
        {"a (cat)", "a =1|cat=1.1"},
        {"a [cat]", "a =1|cat=0.9091"},
        {"a ((cat)) b", "a =1|cat=1.21| b=1"},
        {"a (cat:1.3) b", "a =1|cat=1.3| b=1"},
        {"(a (b:2) [c]:0.5)", "a =0.5|b=1| =0.5|c=0.4545"},
        {"(a: -0.5 )", "a=-0.5"},
        {"(a:.5)(b:2.)", "a=0.5|b=2"},
        {"(a)(b)", "ab=1.1"},
        {"(a", "a=1.1"},
        {"[a", "a=0.9091"},
        {"((a", "a=1.21"},
        {"a) b] c", "a) b] c=1"},
        {"a:1.3) b", "a:1.3) b=1"},
        {"a [b:1.3] c", "a =1|b:1.3=0.9091| c=1"},
        {"(a:b)", "a:b=1.1"},
        {"(a:1.2.3)", "a:1.2.3=1.1"},
        {"(a:)", "a:=1.1"},
        {"at 10:30", "at 10:30=1"},
        {"a\\(b\\) \\[c\\] \\\\d", "a(b) [c] \\d=1"},
        {"(a\\):1.5)", "a)=1.5"},
        {"a\\b\\", "ab=1"},
        {"()", ""},
        {"(a [b (c:2) d] e:1.5)", "a =1.5|b =1.364|c=2.727| d=1.364| e=1.5"},
    };
    static const char *const unread[][2] = {
        {"", ""},
        {"a cat BREAK a dog", "BREAK"},
        {"BREAK", "BREAK"},
        {"BREAKFAST, OUTBREAK, BREAK_2, break", ""},
        {"a [cat:dog:0.5]", "[a:b:0.5]"},
        {"a [cat: 10 ]", "[a:b:0.5]"},
        {"a [[cat]:dog:3] b", "[a:b:0.5]"},
        {"[cat|dog]", "[a|b]"},
        {"a|b [c] (d:1.3) [e (f:1.2)] [g:h] \\[i:2\\] j:2]", ""},
        {"[a:", ""},
        {"]:1]", ""},
        {"\\", ""},
    };
    static char many[20002];
    diti_prompt prompt;
    dit_error err = DITI_ZERO;
    size_t i;
    for (i = 0; i < sizeof cases / sizeof *cases; i++) check_prompt(env, cases[i][0], cases[i][1]);
    for (i = 0; i < DITI_COUNT(unread); i++) {
        const char *found = diti_prompt_unread(unread[i][0]);
        CHECK_MESSAGE(diti_equal(found ? found : "", unread[i][1]), "\"%s\": %s", unread[i][0],
                      found ? found : "nothing");
    }
    for (i = 0; i < 20000; i++) many[i] = "(a"[i % 2];
    CHECK(diti_prompt_parse(env, many, 20000, &prompt, &err) == DIT_ERROR_INVALID_ARGUMENT && !prompt.text);
    CHECK_MESSAGE(strstr(err.message, "more than 4096"), "%s", err.message);
}

static diti_tokenizer *load_file(const diti_env *env, const char *file) {
    dit_error err;
    size_t size;
    char *data = test_read_file(file, &size);
    diti_tokenizer *tokenizer = load(env, data, size, &err);
    CHECK_MESSAGE(tokenizer != NULL, "%s: %s", file, err.message);
    free(data);
    return tokenizer;
}

static void test_weighted(const diti_env *env) {
    diti_tokenizer *tokenizer = load_file(env, CLIP_JSON "/tokenizer.json");
    diti_tokens tokens = DITI_ZERO;
    int32_t ids[12], plain[12];
    float weights[12];
    uint32_t i;
    tokens.ids = ids;
    tokens.weights = weights;
    tokens.capacity = 12;
    CHECK(diti_tokenizer_encode(tokenizer, "a (photo:1.5) [of] an", &tokens, NULL) == DIT_OK && tokens.count == 7);
    CHECK(test_encode(tokenizer, "a photo of an", plain, 12, NULL, NULL, NULL) == DIT_OK);
    CHECK(memcmp(ids, plain, sizeof ids) == 0);
    for (i = 0; i < 12; i++) { /* begin, a, pho, to, of, an, end, padding */
        float wanted = i == 2 || i == 3 ? 1.5f : i == 4 ? (float)(1 / 1.1) : 1.0f;
        CHECK_MESSAGE(weights[i] == wanted, "token %u weighs %g", i, weights[i]);
    }
    tokens.weights = NULL; /* brackets are text */
    CHECK(diti_tokenizer_encode(tokenizer, "(a)", &tokens, NULL) == DIT_OK && tokens.count == 5);
    CHECK(diti_tokenizer_encode(tokenizer, "\x01\x02", &tokens, NULL) == DIT_OK && tokens.count == 4);
    tokens.weights = weights;
    CHECK(diti_tokenizer_encode(tokenizer, "()", &tokens, NULL) == DIT_OK && tokens.count == 2);
    diti_tokenizer_free(tokenizer);
}

/* --- words that do not fit --- */
static void check_lost(const diti_env *env, const char *file, uint32_t capacity, const char *text,
                       const char *expected) {
    diti_tokenizer *tokenizer = load_file(env, file);
    diti_tokens tokens = DITI_ZERO;
    int32_t ids[16];
    tokens.ids = ids;
    tokens.capacity = capacity;
    CHECK(diti_tokenizer_encode(tokenizer, text, &tokens, NULL) == DIT_OK && tokens.lost > 0);
    CHECK_MESSAGE(diti_starts_with(tokens.lost_text, expected), "\"%s\", not \"%s\"", tokens.lost_text, expected);
    CHECK(tokens.lost_more || !*expected || diti_equal(tokens.lost_text, expected));
    CHECK(diti_utf8_length(tokens.lost_text, strlen(tokens.lost_text)) > 0);
    diti_tokenizer_free(tokenizer);
}

static void test_lost_words(const diti_env *env) {
    static char text[400];
    check_lost(env, CLIP_JSON "/tokenizer.json", 5, "A photo of an Astronaut, riding", "of an astronaut , riding");
    check_lost(env, BERT "/vocab.txt", 4, "A photo of an Astronaut, riding", "of an astronaut , riding");
    check_lost(env, T5 "/spiece.model", 2, "a photograph of the", "photograph of the");
    check_lost(env, CLIP_JSON "/tokenizer.json", 4, "\xe4\xb8\x80\xe4\xb8\xaa\n\xe5\xae\x87x", "");
    memset(text, 'z', sizeof text - 1);
    check_lost(env, BERT "/vocab.txt", 2, text, "zzzzzz");
    for (int i = 0; i + 2 < (int)sizeof text; i += 2) memcpy(text + i, "\xc3\xa9", 2);
    check_lost(env, CLIP_JSON "/tokenizer.json", 2, text, "\xc3\xa9\xc3\xa9");
}

/* --- damaged vocabularies --- */
static void check_merges(const diti_env *env, const char *vocabulary, const char *merges, const char *words) {
    dit_error err = DITI_ZERO;
    diti_tokenizer *tokenizer = NULL;
    dit_result result = diti_tokenizer_load_merges(env, vocabulary, strlen(vocabulary), merges, strlen(merges), NULL,
                                                   "test", &tokenizer, &err);
    CHECK_MESSAGE(result < 0 && !tokenizer && strstr(err.message, words), "wanted \"%s\", got \"%s\"", words,
                  err.message);
    diti_tokenizer_free(tokenizer);
}

static void test_words_refused(const diti_env *env) {
    size_t size;
    char *vocabulary = test_read_file(CLIP "/vocab.json", &size);
    dit_error err;
    diti_tokenizer *tokenizer;
    check_merges(env, "[]", "", "no object of pieces");
    check_merges(env, "{}", "", "vocabulary is empty");
    check_merges(env, "{\"a\":-1}", "", "has no id");
    check_merges(env, "{\"a</w>\":1}", "", "no <|startoftext|>");
    check_merges(env, "{\"a\":1}", "", "no piece for byte 0"); /* a language model's */
    check_merges(env, "{\"<|startoftext|>\":0,\"<|endoftext|>\":1,\"!\":2}", "", "no piece for byte 0");
    check_merges(env, vocabulary, "#version\nab\n", "merge 1 is no pair");
    check_merges(env, vocabulary, "#version\ni n\r\nxq qx\n", "merge 2 joins or makes a piece");
    free(vocabulary);
    tokenizer = load(env, "[PAD]\na\n", 8, &err);
    CHECK_MESSAGE(!tokenizer && strstr(err.message, "no [CLS]"), "%s", err.message);
}

/* Words of a megabyte, of marks, of brackets: no cost that grows with the square of the text. */
static void test_hostile_words(const diti_env *env) {
    const size_t LENGTH = test_quick_way("sanitize") ? 1 << 14 : 1 << 18; /* the full length takes seconds there */
    static const char *const parts[] = {"ab", "a", "\xcc\xa3\xcc\x81\xcc\xa7", "\xe4\xb8\x80", "'"};
    diti_tokenizer *clip = load_file(env, CLIP_JSON "/tokenizer.json"), *bert = load_file(env, BERT "/vocab.txt");
    diti_tokenizer *qwen = load_file(env, QWEN "/tokenizer.json"), *llama = load_file(env, SCRIPTS "/llama3.json");
    char *text = (char *)malloc(LENGTH + 1);
    int32_t ids[77];
    clock_t start = clock();
    size_t i, part;
    for (part = 0; part < 5; part++) {
        size_t length = strlen(parts[part]);
        for (i = 0; i < LENGTH; i++) text[i] = parts[part][i % length];
        text[LENGTH - LENGTH % length] = 0;
        CHECK(clip && test_encode(clip, text, ids, 77, NULL, NULL, NULL) == DIT_OK);
        CHECK(bert && test_encode(bert, text, ids, 77, NULL, NULL, NULL) == DIT_OK);
        CHECK(qwen && test_encode(qwen, text, ids, 77, NULL, NULL, NULL) == DIT_OK);
        CHECK(llama && test_encode(llama, text, ids, 77, NULL, NULL, NULL) == DIT_OK);
    }
    CHECK((double)(clock() - start) / CLOCKS_PER_SEC < 60); /* takes seconds; only a hang is caught */
    diti_tokenizer_free(clip);
    diti_tokenizer_free(bert);
    diti_tokenizer_free(qwen);
    diti_tokenizer_free(llama);
    free(text);
}

static void check_bundled(diti_tokenizer *tokenizer, const char *text, const int32_t *wanted, uint32_t wanted_count) {
    int32_t ids[32];
    uint32_t count;
    CHECK(tokenizer && test_encode(tokenizer, text, ids, 32, &count, NULL, NULL) == DIT_OK && count == wanted_count &&
          memcmp(ids, wanted, count * sizeof *ids) == 0);
}

/* The bundled tokenizers have the ids that transformers' CLIPTokenizer and the tokenizers library give. */
static void test_bundled(const diti_env *env) {
    static const char words[] = "A photograph of an astronaut riding a horse, 8k!",
                      marks[] = "na\u00efve caf\u00e9's d\u00e9j\u00e0-vu \U0001f98a 2024",
                      spaces[] = "na\u00efve caf\u00e9's  d\u00e9j\u00e0-vu \u210c\ufb01 2024 glass cube";
    static const int32_t clip_words[] = {49406, 320, 8853, 539, 550, 18376, 6765, 320, 4558, 267, 279, 330, 256, 49407},
                         clip_marks[] = {49406, 1097,  35689, 563, 15304, 568, 25466, 73,  21259,
                                         268,   13230, 6040,  488, 273,   271, 273,   275, 49407},
                         t5_words[] = {71, 6419, 13, 46, 30059, 7494, 3, 9, 4952, 6, 505, 157, 55, 1},
                         t5_spaces[] = {3,  29,  9,  2,  162, 11949, 31,   7,   4315, 18, 208,
                                        76, 454, 89, 23, 460, 2266,  1905, 123, 346,  1};
    size_t sizes[2];
    char *vocabulary = test_read_file("models/clip/vocab.json", &sizes[0]);
    char *merges = test_read_file("models/clip/merges.txt", &sizes[1]);
    diti_tokenizer *clip = NULL, *t5 = load_file(env, "models/t5/tokenizer.json");
    if (CHECK(vocabulary && merges))
        diti_tokenizer_load_merges(env, vocabulary, sizes[0], merges, sizes[1], NULL, "models/clip", &clip, NULL);
    check_bundled(clip, words, clip_words, DITI_COUNT(clip_words));
    check_bundled(clip, marks, clip_marks, DITI_COUNT(clip_marks));
    check_bundled(t5, words, t5_words, DITI_COUNT(t5_words));
    check_bundled(t5, spaces, t5_spaces, DITI_COUNT(t5_spaces));
    diti_tokenizer_free(clip);
    diti_tokenizer_free(t5);
    free(vocabulary);
    free(merges);
}

/* llama.cpp's metadata. This file has no character map: only texts that need none are comparable. */
static void test_gguf(const diti_env *env) {
    diti_checkpoint *checkpoint = NULL;
    diti_tokenizer *tokenizer = NULL;
    diti_json *golden = test_read_json(env, T5 "/golden.json");
    const diti_json *item;
    dit_source source = DITI_ZERO;
    dit_error err = DITI_ZERO;
    int compared = 0;
    source.path = "tests/fixtures/gguf_t5_q8_0/model.gguf";
    CHECK_MESSAGE(diti_checkpoint_open(env, &source, &checkpoint, &err) == DIT_OK, "%s", err.message);
    CHECK_MESSAGE(checkpoint && diti_tokenizer_load_gguf(env, checkpoint, &tokenizer, &err) == DIT_OK, "%s",
                  err.message);
    for (item = diti_json_get(golden, "cases")->first; item && tokenizer; item = item->next) {
        const char *text = diti_json_string(item, "text", "");
        size_t i = 0;
        while ((text[i] & 0x80) == 0 && text[i]) i++;
        if (text[i]) continue;
        CHECK_MESSAGE(golden_tokenizer_case(tokenizer, item, 40), "%s", text);
        compared++;
    }
    CHECK(compared >= 6);
    diti_tokenizer_free(tokenizer);
    diti_checkpoint_close(checkpoint);
    diti_json_free(env, golden);
}

/* --- a SentencePiece model made by hand --- */
typedef struct spiece {
    uint8_t bytes[1 << 16];
    size_t size;
} spiece;

static void put(spiece *model, uint64_t value) {
    for (; value >= 128; value >>= 7) model->bytes[model->size++] = (uint8_t)(value | 128);
    model->bytes[model->size++] = (uint8_t)value;
}

static void put_bytes(spiece *model, uint32_t field, const void *data, size_t size) {
    put(model, field << 3 | 2);
    put(model, size);
    memcpy(model->bytes + model->size, data, size);
    model->size += size;
}

static void put_piece(spiece *model, const char *text, float score, int type) {
    static spiece piece;
    piece.size = 0;
    put_bytes(&piece, 1, text, strlen(text));
    put(&piece, 2 << 3 | 5);
    memcpy(piece.bytes + piece.size, &score, 4);
    piece.size += 4;
    put(&piece, 3 << 3);
    put(&piece, (uint64_t)type);
    put_bytes(model, 1, piece.bytes, piece.size);
}

static void put_specials(spiece *model) {
    put_piece(model, "<pad>", 0, 3);
    put_piece(model, "</s>", 0, 3);
    put_piece(model, "<unk>", 0, 2);
}

static void put_charsmap(spiece *model, const uint32_t *trie, uint32_t units, const char *strings, size_t size) {
    static spiece map, normalizer;
    uint32_t bytes = units * 4;
    normalizer.size = 0;
    memcpy(map.bytes, &bytes, 4);
    memcpy(map.bytes + 4, trie, bytes);
    memcpy(map.bytes + 4 + bytes, strings, size);
    put_bytes(&normalizer, 2, map.bytes, 4 + bytes + size);
    put_bytes(model, 3, normalizer.bytes, normalizer.size);
}

static bool encodes(const diti_tokenizer *tokenizer, const char *text, const char *expected) {
    int32_t ids[64];
    char written[512] = "";
    uint32_t count = 0, lost = 0, i;
    if (test_encode(tokenizer, text, ids, 64, &count, &lost, NULL) < 0) return false;
    for (i = 0; i < count; i++) sprintf(written + strlen(written), "%s%d", i ? " " : "", ids[i]);
    if (strcmp(written, expected) != 0) fprintf(stderr, "    \"%s\" gives %s\n", text, written);
    return strcmp(written, expected) == 0 && lost == 0;
}

/* --- language models --- */

/* The tokens of a prompt in its chat template, as words: ids of added tokens and pieces. */
static void check_chat(const diti_tokenizer *tokenizer, const diti_tokens *around, const char *prompt,
                       const char *expected, uint32_t lost) {
    int32_t ids[64];
    float weights[64];
    char written[512] = "";
    dit_error err = DITI_ZERO;
    diti_tokens tokens = *around;
    uint32_t i;
    tokens.ids = ids;
    if (around->weights) tokens.weights = weights;
    if (CHECK_MESSAGE(diti_tokenizer_encode(tokenizer, prompt, &tokens, &err) == DIT_OK, "%s", err.message))
        for (i = 0; i < tokens.count; i++) {
            sprintf(written + strlen(written), "%s%d", i ? " " : "", ids[i]);
            if (around->weights && weights[i] != 1.0f) sprintf(written + strlen(written), ":%.3g", (double)weights[i]);
        }
    CHECK_MESSAGE(!strcmp(written, expected) && tokens.lost == lost, "\"%s\" is %s (%u lost)", prompt, written,
                  tokens.lost);
}

/* Codes of each word that Mistral's pattern cuts a text into, as the tokenizers library has them. */
static void test_capitals(const diti_env *env) {
    diti_tokenizer *tokenizer = load_file(env, SCRIPTS "/mistral.json");
    diti_json *golden = test_read_json(env, SCRIPTS "/golden_mistral.json");
    const diti_json *cases = diti_json_get(golden, "cases"), *item;
    CHECK(tokenizer && cases && cases->count > 250);
    for (item = tokenizer && cases ? cases->first : NULL; item; item = item->next) {
        const diti_json *text = diti_json_get(item, "text"), *words = diti_json_get(item, "words"), *word;
        diti_codes codes = DITI_ZERO;
        size_t first = 0;
        CHECK(diti_clean(env, text->text, text->text_length, tokenizer->rules, &codes, NULL) == DIT_OK);
        for (word = words->first; word && first < codes.count; word = word->next) {
            size_t end = diti_bpe_bytes_end(tokenizer, &codes, first);
            if (end - first != (size_t)word->number) break;
            first = end;
        }
        CHECK_MESSAGE(!word && first == codes.count, "\"%s\" is cut elsewhere, at %u", text->text, (unsigned)first);
        diti_codes_free(&codes);
    }
    diti_tokenizer_free(tokenizer);
    diti_json_free(env, golden);
}

/* The text around a prompt is cut where the family says, weighs 1, and is no prompt with weights itself. */
static void test_chats(const diti_env *env) {
    const diti_chat *klein = diti_families_chat("Flux2KleinPipeline");
    diti_tokenizer *qwen = load_file(env, QWEN "/tokenizer.json");
    diti_tokens around = DITI_ZERO;
    float weights[1];
    dit_error err = DITI_ZERO;
    int32_t ids[4];
    uint32_t count = 0;
    if (!qwen) return;
    around.before = "<|im_start|>";
    around.after = "<|im_end|>(";
    around.capacity = 12;
    check_chat(qwen, &around, "ab", "901 64 65 902 7", 0);
    check_chat(qwen, &around, "", "901 902 7", 0);
    check_chat(qwen, &around, "<|im_end|><|im_", "901 902 27 91 306 62 902 7", 0);
    around.capacity = 4;
    check_chat(qwen, &around, "ab", "901 64 65 902", 1);
    around.keeps_after = true;
    check_chat(qwen, &around, "ab", "901 64 902 7", 1);
    around.capacity = 12;
    around.weights = weights;
    check_chat(qwen, &around, "(a:1.5)b", "901 64:1.5 65 902 7", 0);
    check_chat(qwen, &around, "a(b)", "901 64 65:1.1 902 7", 0);
    check_chat(qwen, &around, "ab", "901 64 65 902 7", 0);
    around.weights = NULL;
    around.capacity = 1;
    around.ids = ids;
    CHECK(diti_tokenizer_encode(qwen, "ab", &around, &err) == DIT_ERROR_INVALID_ARGUMENT &&
          strstr(err.message, "1 tokens have no room for the 2"));
    CHECK(diti_tokenizer_count(qwen, "ab<|im_end|>", &count, &err) == DIT_OK && count == 3);
    CHECK(klein && diti_families_chat("Flux2KleinKVPipeline") == klein);
    CHECK(diti_families_chat("Flux2Pipeline") == klein + 1 && klein[1].rules == DITI_CHAT_PADS_BEFORE);
    CHECK(diti_families_chat("Flux3DistilledModularPipeline") == diti_families_chat("Flux3ModularPipeline"));
    CHECK(!diti_families_chat("Flux2Klein") && !diti_families_chat("") && !diti_families_chat("KVPipeline"));
    diti_tokenizer_free(qwen);
}

/* Quoted text as LongCat-Image's pipeline makes tokens of it, with transformers' tokenizer. */
static void test_quotes(const diti_env *env) {
    static const char *const prompts[][2] = {
        {"a sign 'Hello World' here", "64 267 765 220 6 39 68 75 75 78 220 54 78 81 75 67 6 339 441"},
        {"it's \"on\" the door", "278 382 220 1 78 77 1 263 471 268"},
        {"say \"hi 'there'", "82 628 453 71 72 220 6 83 71 68 81 68 6"},
        {"\xe2\x80\x98 a \xe2\x80\x98"
         "bc\xe2\x80\x99 d",
         "158 222 246 258 220 158 222 246 65 66 158 222 247 298"},
        {"\xe2\x80\x9c\xe4\xbd\xa0\xe5\xa5\xbd\xe2\x80\x9d", "158 222 250 160 121 254 161 98 121 158 222 251"},
        {"'tis John's house", "6 83 72 82 220 41 78 71 77 6 82 220 71 78 84 82 68"},
        {"rock'n'roll 'n'", "291 66 74 6 77 6 81 78 75 75 220 6 77 6"},
        {"'' x", "6 6 220 87"},
        {"a 'b' 'c'", "64 220 6 65 6 220 6 66 6"},
        {"don't 'don't' \"x", "67 265 816 220 6 67 78 77 6 83 6 453 87"},
        {" plain", "284 75 324"},
        {"", ""}};
    diti_tokenizer *qwen = load_file(env, QWEN "/tokenizer.json");
    diti_tokens around = DITI_ZERO;
    float weights[1];
    size_t i;
    if (!qwen) return;
    around.before = around.after = "";
    around.capacity = 40;
    around.spells_quotes = true;
    for (i = 0; i < DITI_COUNT(prompts); i++) check_chat(qwen, &around, prompts[i][0], prompts[i][1], 0);
    around.capacity = 5;
    check_chat(qwen, &around, "a 'bcd' e", "64 220 6 65 66", 3);
    around.capacity = 40;
    around.before = "t"; /* "th" and "he" are pieces */
    check_chat(qwen, &around, "he", "83 71 68", 0);
    check_chat(qwen, &around, "'he'", "83 6 71 68 6", 0);
    around.weights = weights; /* a quotation goes on where the weight changes */
    check_chat(qwen, &around, "a 'b(he:1.5)' he", "83 64 220 6 65 71:1.5 68:1.5 6 339 68", 0);
    diti_tokenizer_free(qwen);
}

/* Texts in quotes as HunyuanVideo 1.5's pipeline finds them, and their bytes as transformers' ByT5Tokenizer has them.
 */
static void test_byt5(const diti_env *env) {
    static const char *const quotes[][2] = {
        {"no quotes", NULL},
        {"", NULL},
        {"an \"open one, “another", NULL},
        {"say \"a\nb\"", NULL},
        {"a \"b\" “c\" d” \"e", "Text \"b\". Text \"c\" d\". "},
        {"“a” \"b\" “a”", "Text \"a\". Text \"b\". "},
        {"\"\"", "Text \"\". "},
        {"a \"\n\" b\"", "Text \" b\". "},
        {"its sign says \"Grüße, 4€\" and “营业”, and again \"Grüße, 4€\"", "Text \"Grüße, 4€\". Text \"营业\". "}};
    static const int32_t whole[] = {37, 119, 198, 191, 385, 123, 0, 37, 1, 0, 0}, cut[] = {37, 119, 198, 1};
    static const char text[] = "\"tü<color-1>x<pad>\"";
    dit_source source = DITI_ZERO;
    diti_package *package = NULL;
    diti_tokenizer *told = NULL, *plain = NULL;
    diti_tokens tokens = DITI_ZERO;
    dit_error err = DITI_ZERO;
    int32_t ids[DITI_COUNT(whole)];
    uint32_t limit = 0;
    size_t i;
    for (i = 0; i < DITI_COUNT(quotes); i++) {
        char *out = NULL;
        CHECK(diti_byt5_quotes(env, quotes[i][0], &out, &err) == DIT_OK);
        CHECK_MESSAGE(quotes[i][1] ? diti_equal(out, quotes[i][1]) : !out, "%s: %s", quotes[i][0], out ? out : "none");
        diti_free(env, out);
    }
    source.path = "tests/fixtures/pipe_hunyuanvideo15";
    CHECK(diti_package_open(env, &source, &package, &err) == DIT_OK &&
          diti_tokenizer_load_folder(env, package, "tokenizer_2/", &told, &limit, &err) == DIT_OK && told);
    CHECK(diti_byt5_create(env, NULL, &plain, &err) == DIT_OK);
    tokens.ids = ids;
    tokens.capacity = DITI_COUNT(whole);
    CHECK(told && diti_tokenizer_encode(told, text, &tokens, &err) == DIT_OK && tokens.count == 9 && !tokens.lost &&
          !memcmp(ids, whole, sizeof whole));
    CHECK(plain && diti_tokenizer_encode(plain, "<color-1></s>", &tokens, &err) == DIT_OK && tokens.count == 11 &&
          ids[0] == 3 + '<' && ids[8] == 3 + '>' && ids[9] == 1 && ids[10] == 1);
    tokens.capacity = DITI_COUNT(cut);
    CHECK(told && diti_tokenizer_encode(told, text, &tokens, &err) == DIT_OK && tokens.lost == 5 &&
          !memcmp(ids, cut, sizeof cut));
    diti_tokenizer_free(plain);
    diti_tokenizer_free(told);
    diti_package_close(package);
}

/* States by number, from the end, and at the same fractions of another number of layers. */
static void test_taps(void) {
    static const struct {
        diti_taps taps;
        uint32_t layers;
        const char *states;
    } cases[] = {{{0, 0, {0}, false}, 7, "7"},
                 {{1, 0, {-2}, false}, 36, "35"},
                 {{3, 36, {9, 18, 27}, false}, 36, "9 18 27"},
                 {{3, 36, {9, 18, 27}, false}, 4, "1 2 3"},
                 {{2, 0, {0, -1}, true}, 2, "0 2"},
                 {{1, 50, {50}, DITI_TAPS_CUT}, 64, "50"},
                 {{1, 50, {50}, DITI_TAPS_CUT}, 51, "50"},
                 {{1, 50, {50}, DITI_TAPS_CUT}, 50, "50"},
                 {{1, 50, {50}, DITI_TAPS_CUT}, 13, "13"},
                 {{3, 36, {9, 18, 27}, false}, 6, NULL},
                 {{1, 0, {8}, false}, 7, NULL},
                 {{1, 0, {-9}, false}, 7, NULL},
                 {{2, 0, {3, 3}, false}, 7, NULL},
                 {{2, 0, {3, 2}, false}, 7, NULL}};
    uint32_t out[DITI_TAPS], count, i, k;
    for (i = 0; i < DITI_COUNT(cases); i++) {
        char text[64] = "";
        bool good = diti_taps_resolve(&cases[i].taps, cases[i].layers, out, &count);
        for (k = 0; good && k < count; k++) sprintf(text + strlen(text), "%s%u", k ? " " : "", out[k]);
        CHECK_MESSAGE(good == (cases[i].states != NULL) && (!good || !strcmp(text, cases[i].states)), "case %u: %s", i,
                      text);
    }
}

/* A GGUF with the bytes, "ab", an added token, and those merges; what is wrong is left out or replaced. */
static bytes language_gguf(const char *pre, const char *merge, uint32_t padding, uint32_t types) {
    bytes out = {0};
    char text[8];
    uint32_t i;
    gguf_head(&out, 3, 0, merge ? 7 : 6);
    gguf_key(&out, "general.architecture", 8);
    bytes_text(&out, "qwen3");
    gguf_key(&out, "tokenizer.ggml.model", 8);
    bytes_text(&out, "gpt2");
    gguf_key(&out, "tokenizer.ggml.pre", 8);
    bytes_text(&out, pre);
    gguf_key_u32(&out, "tokenizer.ggml.padding_token_id", padding);
    gguf_key(&out, "tokenizer.ggml.tokens", 9);
    bytes_u32(&out, 8);
    bytes_u64(&out, 258);
    for (i = 0; i < 256; i++) {
        text[diti_utf8_encode(diti_bpe_letter(i), text)] = 0;
        bytes_text(&out, text);
    }
    bytes_text(&out, "ab");
    bytes_text(&out, "<end>");
    gguf_key(&out, "tokenizer.ggml.token_type", 9);
    bytes_u32(&out, 5);
    bytes_u64(&out, types);
    for (i = 0; i < types; i++) bytes_u32(&out, i < 257 ? 1 : 4);
    if (merge) {
        gguf_key(&out, "tokenizer.ggml.merges", 9);
        bytes_u32(&out, 8);
        bytes_u64(&out, 1);
        bytes_text(&out, merge);
    }
    bytes_pad(&out, 32);
    return out;
}

static void test_language_gguf(const diti_env *env) {
    static const struct {
        const char *pre, *merge;
        uint32_t padding, types;
        const char *words; /* of the error; NULL: none */
    } cases[] = {{"qwen2", "a b", 257, 258, NULL},
                 {"llama-bpe", "a b", 257, 258, NULL},
                 {"tekken", "a b", 257, 258, NULL},
                 {"qwen2", NULL, 257, 258, "tokenizer.ggml.merges is missing"},
                 {"gpt-4o", "a b", 257, 258, "tokenizer.ggml.pre is \"gpt-4o\""},
                 {"qwen2", "a c", 257, 258, "merge 1 joins or makes a piece"},
                 {"qwen2", "ab", 257, 258, "merge 1 is no pair"},
                 {"qwen2", "a b", 258, 258, "padding_token_id is 258"},
                 {"qwen2", "a b", 257, 200, "token_type has 200 values"}};
    size_t i;
    for (i = 0; i < DITI_COUNT(cases); i++) {
        bytes file = language_gguf(cases[i].pre, cases[i].merge, cases[i].padding, cases[i].types);
        diti_checkpoint *checkpoint = NULL;
        diti_tokenizer *tokenizer = NULL;
        dit_source source = memory_source(&file);
        dit_error err = DITI_ZERO;
        dit_result result = diti_checkpoint_open(env, &source, &checkpoint, &err);
        CHECK_MESSAGE(result == DIT_OK, "%s", err.message);
        if (checkpoint) result = diti_tokenizer_load_gguf(env, checkpoint, &tokenizer, &err);
        if (cases[i].words)
            CHECK_MESSAGE(result < 0 && !tokenizer && strstr(err.message, cases[i].words), "%s", err.message);
        else if (CHECK_MESSAGE(result == DIT_OK, "%s", err.message))
            CHECK(encodes(tokenizer, "ab<end>ba", "256 257 98 97") && tokenizer->padding == 257);
        diti_tokenizer_free(tokenizer);
        diti_checkpoint_close(checkpoint);
        bytes_free(&file);
    }
}

static void test_small_model(const diti_env *env) {
    static spiece model;
    dit_error err;
    diti_tokenizer *tokenizer;
    model.size = 0;
    put_specials(&model);
    put_piece(&model, "\xe2\x96\x81", -3, 1); /* 3 */
    put_piece(&model, "a", -1, 1);            /* 4 */
    put_piece(&model, "ab", -1.5f, 1);        /* 5 */
    put_piece(&model, "b", -1, 1);            /* 6 */
    put_piece(&model, "abab", -9, 4);         /* 7: user */
    put_piece(&model, "ba", -0.1f, 5);        /* 8: unused */
    put_piece(&model, "a", -0.5f, 1);         /* 9: a duplicate, never found */
    put_piece(&model, "", -1, 1);             /* 10: never matches */
    put_piece(&model, "az", -12, 1); /* 11: low, but an unknown character costs 10 more than the lowest score */
    tokenizer = load(env, model.bytes, model.size, &err);
    CHECK_MESSAGE(tokenizer != NULL, "%s", err.message);
    CHECK(encodes(tokenizer, "az", "3 11 1"));
    CHECK(encodes(tokenizer, "ab", "3 5 1"));
    CHECK(encodes(tokenizer, "  ba  ", "3 6 4 1"));
    CHECK(encodes(tokenizer, "ababb", "3 7 6 1"));
    CHECK(encodes(tokenizer, "xy\xf0\x9f\x98\x80 b", "3 2 3 6 1"));
    CHECK(encodes(tokenizer, "a</s>b", "3 4 1 3 6 1"));
    CHECK(encodes(tokenizer, "a\xff\xc3", "3 4 2 1")); /* broken bytes become U+FFFD, which is unknown */
    CHECK(encodes(tokenizer, "a\xed\xa0\x80", "3 4 2 1"));
    CHECK(encodes(tokenizer, "", "1") && encodes(tokenizer, "   ", "1") && encodes(tokenizer, NULL, "1"));
    diti_tokenizer_free(tokenizer);
}

static void test_byte_fallback(const diti_env *env) {
    static spiece model;
    dit_error err;
    diti_tokenizer *tokenizer;
    char name[8];
    int i;
    model.size = 0;
    put_specials(&model);
    put_piece(&model, "\xe2\x96\x81", -3, 1); /* 3 */
    for (i = 0; i < 256; i++) {
        sprintf(name, "<0x%02X>", i);
        put_piece(&model, name, 0, 6); /* 4 + i */
    }
    tokenizer = load(env, model.bytes, model.size, &err);
    CHECK_MESSAGE(tokenizer != NULL, "%s", err.message);
    CHECK(encodes(tokenizer, "A\xc3\xa9", "3 69 199 173 1"));
    diti_tokenizer_free(tokenizer);
    /* umT5: <s> stands before <unk>, and bytes before the words */
    model.size = 0;
    put_piece(&model, "<pad>", 0, 3);
    put_piece(&model, "</s>", 0, 3);
    put_piece(&model, "<s>", 0, 3);
    put_piece(&model, "<unk>", 0, 2);
    for (i = 0; i < 256; i++) {
        sprintf(name, "<0x%02X>", i);
        put_piece(&model, name, 0, 6); /* 4 + i */
    }
    put_piece(&model, "\xe2\x96\x81", -3, 1); /* 260 */
    put_piece(&model,
              "\xe2\x96\x81"
              "cat",
              -4, 1);              /* 261 */
    put_piece(&model, "s", -5, 1); /* 262 */
    tokenizer = load(env, model.bytes, model.size, &err);
    CHECK_MESSAGE(tokenizer != NULL, "%s", err.message);
    CHECK(tokenizer->padding == 0 && tokenizer->end == 1);
    CHECK(encodes(tokenizer, "cats \n cat", "261 262 260 14 261 1"));
    CHECK(encodes(tokenizer, "cat \xe7\x8c\xab", "261 260 235 144 175 1"));
    diti_tokenizer_free(tokenizer);
}

static void test_capacity(const diti_env *env) {
    static spiece model;
    dit_error err;
    diti_tokenizer *tokenizer;
    int32_t ids[8];
    uint32_t count, lost;
    model.size = 0;
    put_specials(&model);
    put_piece(&model, "a", -1, 1);
    tokenizer = load(env, model.bytes, model.size, &err);
    CHECK(tokenizer != NULL);
    CHECK(test_encode(tokenizer, "aaaa", ids, 3, &count, &lost, &err) == DIT_OK && count == 3 && lost == 3 &&
          ids[2] == 1);
    CHECK(test_encode(tokenizer, "aaaa", ids, 1, &count, &lost, &err) == DIT_OK && count == 1 && lost == 5 &&
          ids[0] == 1);
    CHECK(test_encode(tokenizer, "a", ids, 5, &count, &lost, &err) == DIT_OK && count == 3 && lost == 0 &&
          ids[3] == 0 && ids[4] == 0);
    CHECK(test_encode(tokenizer, "a", ids, 0, &count, &lost, &err) == DIT_ERROR_INVALID_ARGUMENT);
    diti_tokenizer_free(tokenizer);
}

/* --- damaged models --- */
static void refuse(const diti_env *env, const spiece *model, const char *words) {
    dit_error err;
    diti_tokenizer *tokenizer = load(env, model->bytes, model->size, &err);
    CHECK_MESSAGE(!tokenizer && strstr(err.message, words), "wanted \"%s\", got \"%s\"", words, err.message);
    diti_tokenizer_free(tokenizer);
}

static void test_refused_models(const diti_env *env) {
    static spiece model, trainer;
    static char text[2000];
    model.size = 0;
    refuse(env, &model, "vocabulary is empty");
    put_piece(&model, "<pad>", 0, 3);
    refuse(env, &model, "no piece of text");
    put_piece(&model, "a", -1, 1);
    refuse(env, &model, "no unknown piece");
    put_piece(&model, "<unk>", 0, 2);
    refuse(env, &model, "no end piece");
    model.size = 0;
    put_specials(&model);
    put_piece(&model, "a", NAN, 1);
    refuse(env, &model, "not a finite number");
    model.size = 0;
    put_specials(&model);
    put_piece(&model, "a", 0, 9);
    refuse(env, &model, "unknown type 9");
    model.size = 0;
    memset(text, 'x', sizeof text - 1);
    put_piece(&model, text, 0, 1);
    refuse(env, &model, "1999 bytes long");
    model.size = trainer.size = 0;
    put_specials(&model);
    put(&trainer, 3 << 3);
    put(&trainer, 2);
    put_bytes(&model, 2, trainer.bytes, trainer.size);
    refuse(env, &model, "BPE");
    model.size = 0;
    put(&model, 1 << 3 | 2);
    put(&model, UINT64_MAX);
    refuse(env, &model, "damaged");
}

/* Tries whose units point outside, at themselves, or whose values lie outside the strings: no crash, and time linear in
 * the text. */
static void test_hostile_tries(const diti_env *env) {
    static spiece model;
    static uint32_t trie[512];
    static char text[20001], strings[3000];
    int kind, i;
    memset(text, 'a', sizeof text - 1);
    for (kind = 0; kind < 4; kind++) {
        dit_error err;
        diti_tokenizer *tokenizer;
        for (i = 0; i < 512; i++) {
            if (kind == 0) trie[i] = 'a' | 1u << 8;     /* every unit leads back to itself, with a value */
            if (kind == 1) trie[i] = 'a' | 0x7ffffe00u; /* far outside */
            if (kind == 2) trie[i] = 'a' | 1u << 8 | (uint32_t)(i & 255) << 10; /* wanders, values anywhere */
            if (kind == 3) trie[i] = 0xffffffffu;
        }
        model.size = 0;
        put_specials(&model);
        put_piece(&model, "a", -1, 1);
        put_charsmap(&model, trie, 512, "bc", 2); /* no NUL at the end */
        tokenizer = load(env, model.bytes, model.size, &err);
        CHECK_MESSAGE(tokenizer != NULL, "%s", err.message);
        if (tokenizer) {
            int32_t ids[16];
            CHECK(test_encode(tokenizer, text, ids, 16, NULL, NULL, &err) == DIT_OK);
        }
        diti_tokenizer_free(tokenizer);
    }
    memset(strings, 'z', sizeof strings);
    model.size = 0;
    put_specials(&model);
    put_charsmap(&model, trie, 4, strings, sizeof strings);
    refuse(env, &model, "a replacement longer");
}

/* Every truncation of the first bytes and of every piece class, and bytes turned over anywhere. */
static void test_damaged_bytes(const diti_env *env, const char *file, size_t stride, int flips) {
    size_t size, cut;
    char *data = test_read_file(file, &size);
    uint32_t state = 1, tried = 0;
    int i;
    for (cut = 0; data && cut < size; cut += cut < 64 ? 1 : stride) {
        char *copy = (char *)malloc(cut + 1);
        dit_error err;
        memcpy(copy, data, cut);
        diti_tokenizer_free(load(env, copy, cut, &err));
        free(copy);
        tried++;
    }
    if (test_quick_way("sanitize")) flips /= 3;
    for (i = 0; data && i < flips; i++) {
        char *at;
        char old;
        dit_error err;
        diti_tokenizer *tokenizer;
        int32_t ids[8];
        state = state * 1664525u + 1013904223u;
        at = data + state % size, old = *at;
        *at = (char)(state >> 16);
        tokenizer = load(env, data, size, &err);
        if (tokenizer) test_encode(tokenizer, "a photo, \xef\xbc\xa1 caf\xc3\xa9", ids, 8, NULL, NULL, NULL);
        diti_tokenizer_free(tokenizer);
        *at = old;
        tried++;
    }
    CHECK_MESSAGE(tried > 64, "%s", file);
    free(data);
}

static void test_json_refused(const diti_env *env) {
    static const char *const cases[][2] = {
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{},\"end_of_word_suffix\":\"@\"}}", "end_of_word_suffix"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{},\"byte_fallback\":true}}", "vocabulary is empty"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"byte_fallback\":true}}", "no piece <0x00>"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0}}}", "no piece for byte 0"},
        {"{\"model\":{\"type\":\"Unigram\",\"vocab\":[],\"unk_id\":0}}", "unk_id names none"},
        {"{\"model\":{\"vocab\":[[\"a\",-1]],\"unk_id\":null}}", "unk_id names none"},
        {"{\"model\":{\"vocab\":[[\"a\"]],\"unk_id\":0}}", "no [text, score]"},
        {"{\"model\":{\"vocab\":[[\"a\",NaN]],\"unk_id\":0},\"pre_tokenizer\":{\"type\":\"Metaspace\"}}",
         "not a finite"},
        {"{\"model\":{\"vocab\":[[\"a\",-1]],\"unk_id\":0},\"normalizer\":{\"type\":\"NFC\"}}", "\"NFC\""},
        {"{\"model\":{\"vocab\":[[\"a\",-1]],\"unk_id\":0},\"normalizer\":{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"?\"}}",
         "base64"},
        {"{\"model\":{\"vocab\":[[\"a\",-1]],\"unk_id\":0},\"pre_tokenizer\":{\"type\":\"ByteLevel\"}}",
         "\"ByteLevel\""},
        {"{\"model\":{\"vocab\":[[\"a\",-1]],\"unk_id\":0},\"added_tokens\":[{\"id\":-1,\"content\":\"x\"}]}",
         "no content or no id"},
        {"{\"model\":{\"vocab\":{}}}", "no array of pieces"},
        {"{}", "no array of pieces"},
        {"{\"model\":{\"type\":7}}", "test: type: 7 is not a text"},
        {"{\"model\":[]}", "not an object of settings"},
        {"{\"model\":{\"type\":\"BPE\",\"end_of_word_suffix\":0}}", "end_of_word_suffix: 0 is not a text"},
        {"{\"model\":{\"vocab\":[[\"a\",-1]],\"unk_id\":0,\"byte_fallback\":1}}",
         "byte_fallback: 1 is not true or false"},
        {"{\"model\":{\"vocab\":[[\"a\",-1]],\"unk_id\":0},\"normalizer\":{\"type\":true}}",
         "type: true is not a text"},
        {"{\"model\":{\"vocab\":[[\"a\",-1]],\"unk_id\":0},\"pre_tokenizer\":{\"type\":\"Metaspace\",\"add_prefix_space\":\"yes\"}}",
         "add_prefix_space: \"yes\" is not true or false"},
        {"{\"model\":{\"type\":\"WordPiece\",\"vocab\":{}},\"normalizer\":{\"type\":\"BertNormalizer\",\"lowercase\":\"no\"}}",
         "lowercase: \"no\" is not true or false"},
        {"{\"model\":{\"type\":\"WordPiece\",\"max_input_chars_per_word\":\"100\"}}",
         "max_input_chars_per_word: \"100\" is not a number"},
    };
    size_t i;
    for (i = 0; i < sizeof cases / sizeof *cases; i++) {
        dit_error err;
        diti_tokenizer *tokenizer = load(env, cases[i][0], strlen(cases[i][0]), &err);
        CHECK_MESSAGE(!tokenizer && strstr(err.message, cases[i][1]), "wanted \"%s\", got \"%s\"", cases[i][1],
                      err.message);
        diti_tokenizer_free(tokenizer);
    }
}

/* --- costs --- */
/* Viterbi must be linear in the text: a megabyte in well under the seconds that anything quadratic would take. */
static void test_long_prompt(const diti_env *env) {
    const uint32_t LENGTH = test_quick_way("sanitize") ? 1 << 17 : 1 << 20;
    dit_error err;
    size_t size;
    char *data = test_read_file(T5 "/spiece.model", &size), *text = (char *)malloc(LENGTH + 1);
    diti_tokenizer *tokenizer = load(env, data, size, &err);
    int32_t ids[300];
    uint32_t count = 0, lost = 0, i;
    clock_t start = clock();
    for (i = 0; i < LENGTH; i++) text[i] = "a photograph of the "[i % 20];
    text[LENGTH] = 0;
    CHECK(tokenizer && test_encode(tokenizer, text, ids, 300, &count, &lost, &err) == DIT_OK && count == 300 &&
          lost > LENGTH / 10);
    CHECK((double)(clock() - start) / CLOCKS_PER_SEC < 60); /* takes about a second; only a hang is caught */
    diti_tokenizer_free(tokenizer);
    free(text);
    free(data);
}

/* Each allocation refused once: an error, and nothing left over. */
static void test_out_of_memory(const char *file) {
    test_memory memory = {0, 0, 0};
    diti_env env = test_env(&memory);
    size_t size;
    char *data = test_read_file(file, &size);
    int32_t ids[8];
    dit_result result = DIT_ERROR_IO;
    for (memory.fail_at = 1; memory.fail_at < 1000 && result != DIT_OK; memory.fail_at++) {
        dit_error err = DITI_ZERO;
        diti_tokenizer *tokenizer = NULL;
        memory.calls = 0;
        result = diti_tokenizer_load(&env, data, size, "test", &tokenizer, &err);
        if (result == DIT_OK) result = test_encode(tokenizer, "a photo", ids, 8, NULL, NULL, &err);
        if (result != DIT_OK)
            CHECK_MESSAGE(result == DIT_ERROR_OUT_OF_HOST_MEMORY && err.message[0], "allocation %ld: %d %s",
                          memory.fail_at, result, err.message);
        diti_tokenizer_free(tokenizer);
        CHECK_MESSAGE(memory.alive == 0, "%ld left over after allocation %ld failed", memory.alive, memory.fail_at);
    }
    CHECK(result == DIT_OK && memory.fail_at > 5);
    free(data);
}

int main(void) {
    diti_env env = test_env(NULL);
    test_golden(&env, T5 "/spiece.model");
    test_golden(&env, T5_JSON "/tokenizer.json");
    test_column(&env, T5 "/spiece.model", T5_JSON "/golden.json", "spiece.model");
    test_column(&env, T5_JSON "/tokenizer.json", T5_JSON "/golden.json", "tokenizer.json");
    test_column(&env, T5_JSON "/words.json", T5_JSON "/golden.json", "words.json");
    test_column(&env, CLIP_JSON "/tokenizer.json", CLIP_JSON "/golden.json", "tokenizer.json");
    test_newer_clip(&env);
    test_mended(&env);
    test_column(&env, BERT_JSON "/tokenizer.json", BERT_JSON "/golden.json", "tokenizer.json");
    test_golden_folder(&env, CLIP, CLIP "/golden.json");
    test_golden_folder(&env, BERT, BERT "/golden.json");
    test_unicode(&env);
    test_configured(&env);
    test_prompts(&env);
    test_weighted(&env);
    test_lost_words(&env);
    test_words_refused(&env);
    test_capitals(&env);
    test_chats(&env);
    test_quotes(&env);
    test_byt5(&env);
    test_taps();
    test_language_gguf(&env);
    test_hostile_words(&env);
    test_bundled(&env);
    test_gguf(&env);
    test_small_model(&env);
    test_byte_fallback(&env);
    test_capacity(&env);
    test_refused_models(&env);
    test_hostile_tries(&env);
    test_damaged_bytes(&env, T5 "/spiece.model", 997, 300);
    test_damaged_bytes(&env, T5_JSON "/words.json", 101, 300);
    test_damaged_bytes(&env, CLIP_JSON "/tokenizer.json", 499, 300);
    test_damaged_bytes(&env, BERT_JSON "/tokenizer.json", 199, 300);
    test_damaged_bytes(&env, SCRIPTS "/llama3.json", 499, 300);
    test_damaged_bytes(&env, BERT "/vocab.txt", 199, 300);
    test_json_refused(&env);
    test_long_prompt(&env);
    test_out_of_memory(T5 "/spiece.model");
    test_out_of_memory(T5_JSON "/tokenizer.json");
    test_out_of_memory(CLIP_JSON "/tokenizer.json");
    test_out_of_memory(QWEN "/tokenizer.json");
    test_out_of_memory(BERT "/vocab.txt");
    return TEST_END("text");
}
