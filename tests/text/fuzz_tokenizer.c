/* libFuzzer: any bytes as spiece.model, tokenizer.json or vocab.txt; behind an M as vocab.json, NUL, merges.txt; behind
   a P as a prompt with weights. A tokenizer that loads encodes a few texts and the input's own end. */
#include "library.h"

static void encode(const diti_tokenizer *tokenizer, const char *text) {
    int32_t ids[24];
    float weights[24];
    diti_tokens tokens = {0};
    dit_error err = {0};
    tokens.ids = ids;
    tokens.weights = weights;
    tokens.capacity = DITI_COUNT(ids);
    if (diti_tokenizer_encode(tokenizer, text, &tokens, &err) < 0) return;
    if (tokens.count > DITI_COUNT(ids) || strlen(tokens.lost_text) >= sizeof tokens.lost_text) abort();
    if (*tokens.lost_text && tokens.lost == 0) abort();
}

static dit_result load(const diti_env *env, const uint8_t *data, size_t size, diti_tokenizer **out, dit_error *err) {
    const char *text = (const char *)data, *merges;
    if (size == 0 || *data != 'M') return diti_tokenizer_load(env, data, size, "fuzz", out, err);
    merges = (const char *)memchr(text, 0, size);
    if (!merges) merges = text + size - 1;
    return diti_tokenizer_load_merges(env, text + 1, (size_t)(merges - text) - (merges > text), merges + 1,
                                      size - (size_t)(merges - text) - 1, "fuzz", out, err);
}

static void prompt(const diti_env *env, const char *text, size_t size) {
    diti_prompt parsed;
    dit_error err = {0};
    size_t i, at = 0;
    if (diti_prompt_parse(env, text, size, &parsed, &err) < 0) return;
    for (i = 0; i < parsed.count; at += parsed.parts[i++].length) {
        if (parsed.parts[i].first != at || parsed.parts[i].length > parsed.size - at) abort();
    }
    if (at != parsed.size || at > size) abort();
    diti_prompt_free(env, &parsed);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    diti_env env;
    diti_tokenizer *tokenizer = NULL;
    dit_error err = {0};
    diti_env_init(&env, NULL, NULL, NULL);
    if (size && *data == 'P') {
        prompt(&env, (const char *)data + 1, size - 1);
        return 0;
    }
    if (load(&env, data, size, &tokenizer, &err) >= 0) {
        char tail[65];
        size_t length = size < 64 ? size : 64;
        memcpy(tail, data + size - length, length);
        tail[length] = 0;
        encode(tokenizer, "");
        encode(tokenizer, "A red  (fox:1.2),\tflat [style] isn't it\\)");
        encode(tokenizer, "\xef\xbc\xa1\xc3\xa9\xff\xe2\x96\x81 \xf0\x9f\xa6\x8a<extra_id_0></s>");
        encode(tokenizer, tail);
    } else if (tokenizer || err.result >= 0 || !err.message[0]) {
        abort();
    }
    diti_tokenizer_free(tokenizer);
    return 0;
}
