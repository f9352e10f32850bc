/* The fuzz targets of the file formats share this: they open the input as a package and ask for every part of it. */
#ifndef FUZZ_FILES_H
#define FUZZ_FILES_H
#include "library.h"

/* Every member of the folder is one small shard, so that an index finds what it names. */
static dit_result fuzz_open(const char *member, dit_source *out, void *user) {
    static const char shard[] =
        "\x37\0\0\0\0\0\0\0{\"a\":{\"dtype\":\"I32\",\"shape\":[],\"data_offsets\":[0,4]}}  \1\0\0\0";
    (void)user;
    if (strstr(member, "absent")) return DIT_ERROR_IO;
    out->data = shard;
    out->size = sizeof shard - 1;
    return DIT_OK;
}

static void fuzz_tensors(const diti_env *env, const diti_checkpoint *checkpoint) {
    for (uint32_t i = 0; i < diti_checkpoint_count(checkpoint); i++) {
        const diti_stored_tensor *tensor = diti_checkpoint_tensor(checkpoint, i);
        uint64_t elements = diti_stored_tensor_elements(tensor);
        dit_error err = {0};
        float *values;
        if (diti_checkpoint_find(checkpoint, tensor->name) != tensor) abort();
        if (elements > 1 << 20) continue;
        values = (float *)diti_alloc(env, (size_t)elements * sizeof *values);
        if (values) diti_checkpoint_read_float(checkpoint, tensor, values, elements, &err);
        diti_free(env, values);
    }
}

static void fuzz_metadata(const diti_checkpoint *checkpoint) {
    static const char *const keys[] = {"general.architecture", "format", "k.array", "k.texts", "dit.file.config.json"};
    static const uint8_t value_bytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8}; /* of GGUF's value types */
    volatile size_t sum = 0;
    for (size_t i = 0; i < DITI_COUNT(keys); i++) {
        const char *text = diti_checkpoint_text(checkpoint, keys[i]);
        const void *data;
        uint64_t count;
        uint32_t type;
        size_t length;
        if (text) sum += strlen(text);
        if (diti_checkpoint_array(checkpoint, keys[i], &data, &count, &type) && count) {
            sum += ((const uint8_t *)data)[count * value_bytes[type] - 1];
        }
        for (uint64_t j = 0; (text = diti_checkpoint_array_text(checkpoint, keys[i], j, &length)) != NULL; j++) {
            if (text[length] != 0) abort();
        }
    }
}

static void fuzz_package(const diti_env *env, diti_package *package) {
    static const char *const components[] = {"", "transformer", "text_encoder", "vae"};
    dit_error err = {0};
    char *text;
    size_t size;
    for (size_t i = 0; i < DITI_COUNT(components); i++) {
        const diti_checkpoint *checkpoint;
        const char *prefix;
        if (diti_package_component(package, components[i], &checkpoint, &prefix, &err) < 0 || !checkpoint) continue;
        fuzz_tensors(env, checkpoint);
        diti_checkpoint_verify(checkpoint, &err);
        fuzz_metadata(checkpoint);
    }
    if (diti_package_read(package, "config.json", &text, &size, &err) >= 0) diti_free(env, text);
}

static void fuzz_file(const uint8_t *data, size_t size) {
    dit_source source = {0};
    dit_error err = {0};
    diti_env env;
    diti_package *package;
    diti_env_init(&env, NULL, NULL, NULL);
    source.data = data;
    source.size = size;
    source.open = fuzz_open;
    source.path = "m-00001-of-00002.gguf";
    if (diti_package_open(&env, &source, &package, &err) >= 0)
        fuzz_package(&env, package);
    else if (package || err.result >= 0 || !err.message[0] || strchr(err.message, '\n'))
        abort();
    diti_package_close(package);
}
#endif
