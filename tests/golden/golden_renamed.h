/* The weights of a folder under the names of another code base, as a safetensors file in memory. */
#ifndef GOLDEN_RENAMED_H
#define GOLDEN_RENAMED_H
#include "golden_model.h"
#include "model_files.h"

typedef struct golden_renamed {
    const char *before;            /* in front of every name */
    const char *const (*pairs)[2]; /* replaced one after the other, each once */
    size_t count;
    bool joined; /* the first two of five dimensions are one, as stable-diffusion.cpp writes them */
} golden_renamed;

static inline void golden_rename(const golden_renamed *to, const char *name, char *out, size_t size) {
    char before[256];
    size_t i;
    diti_format(out, size, "%s", name);
    for (i = 0; i < to->count; i++) {
        const char *at = strstr(out, to->pairs[i][0]);
        if (!at) continue;
        diti_format(before, sizeof before, "%.*s%s%s", (int)(at - out), out, to->pairs[i][1],
                    at + strlen(to->pairs[i][0]));
        diti_format(out, size, "%s", before);
    }
}

/* Freed with bytes_free. */
static inline bytes golden_renamed_file(const diti_checkpoint *from, const golden_renamed *to) {
    static char header[32768];
    bytes data = {0}, out;
    size_t used = 1;
    uint32_t i, k;
    strcpy(header, "{");
    for (i = 0; i < diti_checkpoint_count(from); i++) {
        const diti_stored_tensor *tensor = diti_checkpoint_tensor(from, i);
        bool joined = to->joined && tensor->rank == 5;
        uint64_t count, begin = data.size;
        float *values = golden_floats(from, tensor->name, &count);
        char name[256], shape[128] = "";
        bytes_add(&data, values, (size_t)count * sizeof *values);
        free(values);
        golden_rename(to, tensor->name, name, sizeof name);
        for (k = joined ? 1 : 0; k < tensor->rank; k++) {
            uint64_t size = tensor->shape[k] * (joined && k == 1 ? tensor->shape[0] : 1);
            snprintf(shape + strlen(shape), sizeof shape - strlen(shape), "%s%llu", shape[0] ? "," : "",
                     (unsigned long long)size);
        }
        snprintf(header + used, sizeof header - used,
                 "%s\"%s%s\":{\"dtype\":\"F32\",\"shape\":[%s],\"data_offsets\":[%llu,%llu]}", i ? "," : "", to->before,
                 name, shape, (unsigned long long)begin, (unsigned long long)data.size);
        used += strlen(header + used);
    }
    strcat(header, "}");
    out = safetensors_bytes(header, 0);
    bytes_add(&out, data.data, data.size);
    bytes_free(&data);
    return out;
}

/* Opens the folder's weights under those names; file is freed with bytes_free behind diti_checkpoint_close. */
static inline diti_checkpoint *golden_open_renamed(golden *g, const diti_checkpoint *from, const golden_renamed *to,
                                                   bytes *file) {
    diti_checkpoint *open = NULL;
    dit_source source;
    dit_error err = DITI_ZERO;
    *file = golden_renamed_file(from, to);
    source = memory_source(file);
    golden_require(g, diti_checkpoint_open(&g->env, &source, &open, &err) == DIT_OK, "other names open %s",
                   err.message);
    return open;
}
#endif
