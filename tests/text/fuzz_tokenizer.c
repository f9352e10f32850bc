/* libFuzzer: any bytes as spiece.model, tokenizer.json or vocab.txt; behind an M as vocab.json, NUL, merges.txt, and
   behind another NUL tokenizer_config.json; behind a P as a prompt with weights; a GGUF by its metadata. A tokenizer
   that loads encodes a few texts and the input's own end, alone and in a chat template. */
#include "library.h"

static void encode_in(const diti_tokenizer *tokenizer, const char *text, const char *before, const char *after) {
    int32_t ids[24];
    float weights[24];
    diti_tokens tokens = {0};
    dit_error err = {0};
    tokens.ids = ids;
    tokens.weights = weights;
    tokens.capacity = DITI_COUNT(ids);
    tokens.before = before;
    tokens.after = after;
    tokens.keeps_after = after && *after == '<';
    if (diti_tokenizer_encode(tokenizer, text, &tokens, &err) < 0) return;
    if (tokens.count > DITI_COUNT(ids) || strlen(tokens.lost_text) >= sizeof tokens.lost_text) abort();
    if (*tokens.lost_text && tokens.lost == 0) abort();
}

static void encode(const diti_tokenizer *tokenizer, const char *text) {
    encode_in(tokenizer, text, NULL, NULL);
    encode_in(tokenizer, text, "<|im_start|>user\n", "<|im_end|>\n");
    encode_in(tokenizer, text, "(a", "b)");
}

static dit_result load(const diti_env *env, const uint8_t *data, size_t size, diti_tokenizer **out, dit_error *err) {
    const char *text = (const char *)data, *end = text + size, *merges, *config;
    diti_checkpoint *checkpoint = NULL;
    diti_json *root = NULL;
    dit_source source = {0};
    dit_result result;
    if (size >= 4 && !memcmp(data, "GGUF", 4)) {
        source.data = data;
        source.size = size;
        result = diti_checkpoint_open(env, &source, &checkpoint, err);
        if (result >= 0) result = diti_tokenizer_load_gguf(env, checkpoint, out, err);
        diti_checkpoint_close(checkpoint);
        return result;
    }
    if (size == 0 || *data != 'M') return diti_tokenizer_load(env, data, size, "fuzz", out, err);
    merges = (const char *)memchr(text, 0, size);
    if (!merges) merges = end - 1;
    config = (const char *)memchr(merges + 1, 0, (size_t)(end - merges) - 1);
    if (config && diti_json_parse(env, config + 1, (size_t)(end - config) - 1, "fuzz", &root, err) < 0) root = NULL;
    result = diti_tokenizer_load_merges(env, text + 1, (size_t)(merges - text) - (merges > text), merges + 1,
                                        (size_t)((config ? config : end) - merges) - 1, root, "fuzz", out, err);
    diti_json_free(env, root);
    return result;
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
