/* text: the unigram tokenizer against its references, and against damaged files. */
#define DIT_IMPLEMENTATION
#include "dit.h"
#include "test.h"
#include "files.h"
#include "golden_tokenizers.h"
#include <time.h>

#define T5 "tests/fixtures/tokenizers/t5"
#define T5_JSON "tests/fixtures/tokenizers/t5_json"

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

/* Ids of tokenizers and of sentencepiece, made by tests/reference/tokenizer_json.py. */
static void test_column(const diti_env *env, const char *file, const char *column) {
    diti_json *golden = test_read_json(env, T5_JSON "/golden.json");
    const diti_json *cases = diti_json_get(golden, "cases"), *item;
    dit_error err = DITI_ZERO;
    size_t size;
    char *data = test_read_file(file, &size);
    diti_tokenizer *tokenizer = load(env, data, size, &err);
    CHECK_MESSAGE(tokenizer != NULL, "%s: %s", file, err.message);
    CHECK(cases && cases->count > 30);
    for (item = tokenizer && cases ? cases->first : NULL; item; item = item->next) {
        const diti_json *ids = diti_json_get(item, column), *text = diti_json_get(item, "text");
        if (ids->kind == DITI_JSON_ARRAY)
            CHECK_MESSAGE(golden_ids_equal(tokenizer, text->text, ids, 0), "%s: \"%s\"", file, text->text);
    }
    diti_tokenizer_free(tokenizer);
    free(data);
    diti_json_free(env, golden);
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
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{}}}", "end_of_word_suffix"},
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
    enum { LENGTH = 1 << 20 };
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
          lost > 100000);
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
    test_column(&env, T5 "/spiece.model", "spiece.model");
    test_column(&env, T5_JSON "/tokenizer.json", "tokenizer.json");
    test_column(&env, T5_JSON "/words.json", "words.json");
    test_gguf(&env);
    test_small_model(&env);
    test_byte_fallback(&env);
    test_capacity(&env);
    test_refused_models(&env);
    test_hostile_tries(&env);
    test_damaged_bytes(&env, T5 "/spiece.model", 997, 300);
    test_damaged_bytes(&env, T5_JSON "/words.json", 101, 300);
    test_json_refused(&env);
    test_long_prompt(&env);
    test_out_of_memory(T5 "/spiece.model");
    test_out_of_memory(T5_JSON "/tokenizer.json");
    return TEST_END("text");
}
