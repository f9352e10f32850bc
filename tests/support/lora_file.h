/* Adapter files made in memory: names and values as a test wants them. Include it after the library. */
#ifndef LORA_FILE_H
#define LORA_FILE_H
#include "model_files.h"
#include "real_shapes.h"

#define LORA_FILE_TENSORS 4096

typedef struct lora_file {
    bytes header, data, whole;
    uint32_t count;
    char metadata[256]; /* of __metadata__: "\"key\":\"text\""; empty: none */
} lora_file;

static inline void lora_file_bytes(lora_file *file, const char *name, const char *type, const uint64_t *shape,
                                   uint32_t rank, const void *values, size_t size) {
    char text[400];
    uint32_t i;
    int used =
        snprintf(text, sizeof text, "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[", file->count++ ? "," : "", name, type);
    for (i = 0; i < rank; i++)
        used += snprintf(text + used, sizeof text - (size_t)used, "%s%llu", i ? "," : "", (unsigned long long)shape[i]);
    used += snprintf(text + used, sizeof text - (size_t)used, "],\"data_offsets\":[%zu,%zu]}", file->data.size,
                     file->data.size + size);
    bytes_add(&file->header, text, (size_t)used);
    bytes_add(&file->data, values, size);
}

/* Random values around 0, `spread` wide; seed: all files differ. */
static inline void lora_file_matrix(lora_file *file, const char *name, uint64_t rows, uint64_t columns, double spread,
                                    uint64_t seed) {
    uint64_t shape[2], i, count = rows * columns;
    float *values = (float *)malloc((size_t)count * sizeof *values);
    shape[0] = rows;
    shape[1] = columns;
    for (i = 0; i < count; i++)
        values[i] =
            (float)(((double)(real_random(diti_hash(name, strlen(name)) + seed, i) >> 11) / 9007199254740992.0 - 0.5) *
                    2 * spread);
    lora_file_bytes(file, name, "F32", shape, 2, values, (size_t)count * sizeof *values);
    free(values);
}

static inline void lora_file_number(lora_file *file, const char *name, float value) {
    lora_file_bytes(file, name, "F32", NULL, 0, &value, sizeof value);
}

/* The file's bytes so far, which live until it is freed. */
static inline dit_source lora_file_source(lora_file *file) {
    char begin[300];
    bytes_free(&file->whole);
    snprintf(begin, sizeof begin, "{%s%s%s", file->metadata[0] ? "\"__metadata__\":{" : "", file->metadata,
             file->metadata[0] ? "}," : "");
    bytes_u64(&file->whole, strlen(begin) + file->header.size + 1);
    bytes_add(&file->whole, begin, strlen(begin));
    bytes_add(&file->whole, file->header.data, file->header.size);
    bytes_add(&file->whole, "}", 1);
    bytes_add(&file->whole, file->data.data, file->data.size);
    return memory_source(&file->whole);
}

static inline void lora_file_free(lora_file *file) {
    bytes_free(&file->header);
    bytes_free(&file->data);
    bytes_free(&file->whole);
    memset(file, 0, sizeof *file);
}

/* LoRA's pair for a module of that shape, as PEFT names it. */
static inline void lora_file_pair(lora_file *file, const char *module, uint64_t rows, uint64_t columns, uint64_t rank,
                                  double spread, uint64_t seed) {
    char name[300];
    snprintf(name, sizeof name, "transformer.%s.lora_A.weight", module);
    lora_file_matrix(file, name, rank, columns, 1 / sqrt((double)columns), seed);
    snprintf(name, sizeof name, "transformer.%s.lora_B.weight", module);
    lora_file_matrix(file, name, rows, rank, spread, seed);
}
#endif
