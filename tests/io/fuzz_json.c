/* libFuzzer: any bytes as JSON. A tree that comes out is walked whole. */
#include "library.h"

static size_t walk(const diti_json *node) {
    size_t sum = node->count + node->text_length + node->key_length + (node->number > 0 ? 1u : 0u);
    uint64_t whole;
    if (node->text && node->text[node->text_length] != 0) abort();
    if (node->key && node->key[node->key_length] != 0) abort();
    if (node->kind != DITI_JSON_NUMBER && diti_json_u64(node, &whole)) abort();
    for (const diti_json *child = node->first; child; child = child->next) {
        if (child->key && strlen(child->key) == child->key_length && diti_json_get(node, child->key) != child) abort();
        sum += walk(child);
    }
    return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    diti_env env;
    diti_json *root;
    dit_error err = {0};
    volatile size_t sum = 0;
    diti_env_init(&env, NULL, NULL, NULL);
    if (diti_json_parse(&env, (const char *)data, size, "fuzz", &root, &err) >= 0)
        sum = walk(root);
    else if (root || err.result >= 0 || !err.message[0])
        abort();
    diti_json_free(&env, root);
    return (int)(sum & 0);
}
