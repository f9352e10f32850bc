/* libFuzzer: any bytes as spiece.model or tokenizer.json; what loads encodes a few texts and the input's own end. */
#define DIT_IMPLEMENTATION
#include "dit.h"

static void encode(const diti_tokenizer *tokenizer, const char *text) {
    int32_t ids[24];
    uint32_t count = 0, lost = 0;
    dit_error err = {0};
    if (diti_tokenizer_encode(tokenizer, text, ids, DITI_COUNT(ids), &count, &lost, &err) >= 0 &&
        count > DITI_COUNT(ids))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    diti_env env;
    diti_tokenizer *tokenizer = NULL;
    dit_error err = {0};
    diti_env_init(&env, NULL, NULL, NULL);
    if (diti_tokenizer_load(&env, data, size, "fuzz", &tokenizer, &err) >= 0) {
        char tail[65];
        size_t length = size < 64 ? size : 64;
        memcpy(tail, data + size - length, length);
        tail[length] = 0;
        encode(tokenizer, "");
        encode(tokenizer, "A red  fox,\tflat style");
        encode(tokenizer, "\xef\xbc\xa1\xc3\xa9\xff\xe2\x96\x81 \xf0\x9f\xa6\x8a<extra_id_0></s>");
        encode(tokenizer, tail);
    } else if (tokenizer || err.result >= 0 || !err.message[0]) {
        abort();
    }
    diti_tokenizer_free(tokenizer);
    return 0;
}
