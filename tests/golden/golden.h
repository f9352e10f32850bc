/* The frame of the golden runner: what a fixture folder holds, how tensors are compared and reported. A family is one
   header golden_NAME.h with a function that recognises its folders and one that runs them; golden.c lists the families.
 */
#ifndef GOLDEN_H
#define GOLDEN_H
#include "files.h"
#include "test.h"
#include <stdarg.h>

/* Tolerances: float32 against float32 differs by what rounding of angles does (docs/models.md 2.1), halves by their
   eleven bits. */
#define GOLDEN_BLOCK 1e-5  /* one block or one solver trajectory on recorded inputs */
#define GOLDEN_MODEL 1e-4  /* whole models */
#define GOLDEN_FP16 1.4e-2 /* either on the rungs that hold activations as halves */

typedef struct golden {
    diti_env env;
    const char *rung;      /* for families that compute on a device: "base", "fp16" */
    const char *device;    /* as in dit_context_desc.devices */
    const char *split;     /* of pipelines, over `device`, else the first two; NULL: none */
    const char *overrides; /* more of them for the device: "cpu=0"; NULL: none */
    bool json, allow_unsupported;
    unsigned every, from; /* run only each `every`th prompt, beginning with number from; 0: all */
    bool truncates;       /* devices round to F16 toward zero: truncating.h */
    uint64_t bytes;       /* a hash of all results that were compared */
    const char *path;     /* the folder at work */
    int compared;         /* in this folder; none at all is a failure */
    double worst;         /* relative L2 in this folder */
} golden;

typedef struct golden_folder {
    const char *path;
    const char *name;        /* last part of path */
    diti_json *config;       /* config.json or scheduler_config.json; NULL: neither is there */
    diti_checkpoint *golden; /* golden.safetensors, of the folder without "_sharded" when the folder has none; NULL */
    char *readme;            /* NULL: none */
} golden_folder;

typedef struct golden_family {
    const char *name;
    bool (*recognise)(const golden_folder *folder);
    void (*run)(golden *g, const golden_folder *folder);
} golden_family;

/* --- folders --- */
static inline bool golden_join(char *out, size_t size, const char *folder, const char *member) {
    return diti_format(out, size, "%s/%s", folder, member);
}

static inline bool golden_has(const char *folder, const char *member) {
    char path[1024];
    FILE *file = golden_join(path, sizeof path, folder, member) ? fopen(path, "rb") : NULL;
    if (file) fclose(file);
    return file != NULL;
}

static inline diti_checkpoint *golden_open_checkpoint(const diti_env *env, const char *folder, const char *member) {
    diti_checkpoint *checkpoint = NULL;
    dit_source source = DITI_ZERO;
    dit_error err = DITI_ZERO;
    char path[1024];
    if (!golden_has(folder, member) || !golden_join(path, sizeof path, folder, member)) return NULL;
    source.path = path;
    if (diti_checkpoint_open(env, &source, &checkpoint, &err) < 0) fprintf(stderr, "%s\n", err.message);
    return checkpoint;
}

static inline diti_json *golden_open_json(const diti_env *env, const char *folder, const char *member) {
    char path[1024];
    if (!golden_has(folder, member) || !golden_join(path, sizeof path, folder, member)) return NULL;
    return test_read_json(env, path);
}

static inline void golden_open(const diti_env *env, const char *path, golden_folder *folder) {
    char other[1024];
    size_t size, length = strlen(path);
    const char *slash = strrchr(path, '/');
    memset(folder, 0, sizeof *folder);
    folder->path = path;
    folder->name = slash ? slash + 1 : path;
    folder->config = golden_open_json(env, path, "config.json");
    if (!folder->config) folder->config = golden_open_json(env, path, "scheduler_config.json");
    folder->golden = golden_open_checkpoint(env, path, "golden.safetensors");
    if (!folder->golden && diti_ends_with(path, "_sharded")) {
        diti_format(other, sizeof other, "%.*s", (int)(length - strlen("_sharded")), path);
        folder->golden = golden_open_checkpoint(env, other, "golden.safetensors");
    }
    if (golden_join(other, sizeof other, path, "README")) folder->readme = test_read_file(other, &size);
}

static inline void golden_close(const diti_env *env, golden_folder *folder) {
    diti_json_free(env, folder->config);
    diti_checkpoint_close(folder->golden);
    free(folder->readme);
}

/* --- tensors --- */
static inline uint64_t golden_count(const diti_checkpoint *checkpoint, const char *name) {
    const diti_stored_tensor *tensor = checkpoint ? diti_checkpoint_find(checkpoint, name) : NULL;
    return tensor ? diti_stored_tensor_elements(tensor) : 0;
}

/* A tensor as floats (integers too), freed with free; NULL when it is absent. */
static inline float *golden_floats(const diti_checkpoint *checkpoint, const char *name, uint64_t *count) {
    const diti_stored_tensor *tensor = checkpoint ? diti_checkpoint_find(checkpoint, name) : NULL;
    dit_error err = DITI_ZERO;
    dit_result result = DIT_OK;
    float *out;
    uint64_t i;
    *count = 0;
    if (!tensor) return NULL;
    *count = diti_stored_tensor_elements(tensor);
    out = (float *)malloc((size_t)(*count ? *count : 1) * sizeof(float));
    if (tensor->type == DIT_TYPE_I64 || tensor->type == DIT_TYPE_I32) {
        size_t bytes = tensor->type == DIT_TYPE_I64 ? 8 : 4;
        for (i = 0; i < *count && result == DIT_OK; i++) {
            int64_t wide = 0;
            int32_t narrow = 0;
            result = diti_checkpoint_read(checkpoint, tensor, i * bytes, bytes == 8 ? (void *)&wide : (void *)&narrow,
                                          bytes, &err);
            out[i] = bytes == 8 ? (float)wide : (float)narrow;
        }
    } else if (diti_equal(tensor->type_name, "U8")) {
        diti_stored_tensor bytes = *tensor;
        bytes.type = DIT_TYPE_I32; /* the library reads no U8 */
        for (i = 0; i < *count && result == DIT_OK; i++) {
            uint8_t byte = 0;
            result = diti_checkpoint_read(checkpoint, &bytes, i, &byte, 1, &err);
            out[i] = byte;
        }
    } else {
        result = diti_checkpoint_read_float(checkpoint, tensor, out, *count, &err);
    }
    if (result >= 0) return out;
    fprintf(stderr, "%s: %s\n", name, err.message);
    free(out);
    return NULL;
}

/* --- reports; each line counts as one test --- */
static inline void golden_begin(golden *g, const char *path) {
    g->path = path;
    g->compared = 0;
    g->worst = 0;
    if (!g->json) printf("%s\n", path);
}

static inline void golden_end(golden *g) {
    if (!g->json && g->worst > 0) printf("  worst relative L2 of %d: %.3g\n", g->compared, g->worst);
    fflush(stdout); /* whoever stops the program sees the folders that were done */
}

static inline void golden_count_test(golden *g, bool passed) {
    g->compared++;
    if (passed)
        test_passed++;
    else
        test_failed++;
}

/* Reports something other than a tensor: an exact comparison, or why a folder could not be run. */
static inline bool golden_check(golden *g, bool passed, const char *what, ...) DITI_PRINTF(3, 4);
static inline bool golden_check(golden *g, bool passed, const char *what, ...) {
    char text[700];
    va_list args;
    va_start(args, what);
    vsnprintf(text, sizeof text, what, args);
    va_end(args);
    golden_count_test(g, passed);
    if (g->json) {
        char *c;
        for (c = text; *c; c++) {
            if (*c == '"' || *c == '\\' || (unsigned char)*c < 32) *c = '\'';
        }
        printf("{\"folder\":\"%s\",\"check\":\"%s\",\"passed\":%s}\n", g->path, text, passed ? "true" : "false");
    } else if (!passed) {
        printf("  %-44s FAILED\n", text);
        fprintf(stderr, "%s: failed: %s\n", g->path, text);
    } else {
        printf("  %-44s ok\n", text);
    }
    return passed;
}

/* Reports a check that is worth a line only when it fails. */
static inline bool golden_require(golden *g, bool passed, const char *what, ...) DITI_PRINTF(3, 4);
static inline bool golden_require(golden *g, bool passed, const char *what, ...) {
    char text[700];
    va_list args;
    if (passed) return true;
    va_start(args, what);
    vsnprintf(text, sizeof text, what, args);
    va_end(args);
    return golden_check(g, false, "%s", text);
}

typedef struct golden_difference {
    double max_abs, relative_l2, cosine;
} golden_difference;

/* NaN anywhere makes the relative L2 NaN, which passes no tolerance. */
static inline golden_difference golden_measure(const float *out, const float *reference, uint64_t count) {
    golden_difference d = {0, 0, 1};
    double error = 0, square = 0, out_square = 0, dot = 0;
    uint64_t i;
    for (i = 0; i < count; i++) {
        double a = (double)out[i], b = (double)reference[i], e = fabs(a - b);
        if (!(e <= d.max_abs)) d.max_abs = e;
        error += e * e;
        square += b * b;
        out_square += a * a;
        dot += a * b;
    }
    d.relative_l2 = error == 0 ? 0 : sqrt(error) / sqrt(square);
    if (square > 0 && out_square > 0) d.cosine = dot / sqrt(square) / sqrt(out_square);
    return d;
}

static inline bool golden_compare(golden *g, const char *tensor, const float *out, const float *reference,
                                  uint64_t count, double tolerance) {
    golden_difference d = golden_measure(out, reference, count);
    bool passed = count > 0 && d.relative_l2 <= tolerance;
    golden_count_test(g, passed);
    g->bytes = g->bytes * 1099511628211u ^ diti_hash(out, (size_t)count * sizeof *out);
    if (!(d.relative_l2 <= g->worst)) g->worst = d.relative_l2;
    if (g->json) {
        printf(
            "{\"folder\":\"%s\",\"tensor\":\"%s\",\"count\":%llu,\"max_abs\":%.9g,\"relative_l2\":%.9g,\"cosine\":%.9g,\"tolerance\":%g,\"passed\":%s}\n",
            g->path, tensor, (unsigned long long)count, isfinite(d.max_abs) ? d.max_abs : 1e38,
            isfinite(d.relative_l2) ? d.relative_l2 : 1e38, isfinite(d.cosine) ? d.cosine : 0, tolerance,
            passed ? "true" : "false");
        return passed;
    }
    printf("  %-44s max-abs %-10.3g rel-l2 %-10.3g cos %.8f %s\n", tensor, d.max_abs, d.relative_l2, d.cosine,
           passed ? "ok" : "FAILED");
    if (!passed)
        fprintf(stderr, "%s: failed: %s: relative L2 %.3g, tolerance %g\n", g->path, tensor, d.relative_l2, tolerance);
    return passed;
}

/* Compares values with a tensor of the folder's golden.safetensors, which must be there and have count elements. */
static inline bool golden_compare_with(golden *g, const golden_folder *folder, const char *tensor, const float *out,
                                       uint64_t count, double tolerance) {
    uint64_t wanted;
    float *reference = golden_floats(folder->golden, tensor, &wanted);
    bool passed;
    if (!reference || wanted != count)
        passed = golden_check(g, false, "%s has %llu elements, computed are %llu", tensor, (unsigned long long)wanted,
                              (unsigned long long)count);
    else
        passed = golden_compare(g, tensor, out, reference, count, tolerance);
    free(reference);
    return passed;
}
#endif
