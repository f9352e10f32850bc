/* versus_ggml BACKENDS CASE...: how fast ggml-vulkan is at single operations, for tools/versus.sh, which builds it
   against Debian's ggml. BACKENDS: the folder of libggml-vulkan.so. A CASE is gemm:TYPE:TOKENS:OUT:K, or
   attention:HEAD_DIM:HEADS: TOKENS by ggml_flash_attn_ext with keys and values in f16. Prints the device's name, then a
   line per case: the case, seconds and GFLOP/s, or why there are none, with tabs between them.

   ggml tells no time of the device's, so that the clock is read around a graph of as many equal operations as take 20
   ms (16 at most), which makes what a submission costs small. The median of 7 such graphs counts, after one that does
   not. */
#include <ggml-alloc.h>
#include <ggml-backend.h>
#include <ggml.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST = 16, RUNS = 7 };

typedef struct operation {
    char kind[16], type[16];
    long tokens, out, k; /* attention: tokens, heads, head_dim */
} operation;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static enum ggml_type find_type(const char *name) {
    int i;
    for (i = 0; i < GGML_TYPE_COUNT; i++) {
        const char *known = ggml_type_name((enum ggml_type)i);
        if (known && strcmp(known, name) == 0) break;
    }
    return (enum ggml_type)i;
}

static int parse(const char *text, operation *o) {
    memset(o, 0, sizeof *o);
    if (sscanf(text, "gemm:%15[^:]:%ld:%ld:%ld", o->type, &o->tokens, &o->out, &o->k) == 4) {
        strcpy(o->kind, "gemm");
        return find_type(o->type) != GGML_TYPE_COUNT;
    }
    strcpy(o->kind, "attention");
    return sscanf(text, "attention:%ld:%ld:%ld", &o->k, &o->out, &o->tokens) == 3;
}

static double flops(const operation *o) {
    double product = 2.0 * (double)o->tokens * (double)o->out * (double)o->k;
    return strcmp(o->kind, "gemm") == 0 ? product : 2 * product * (double)o->tokens;
}

/* Numbers between -0.5 and 0.5. */
static int fill(struct ggml_tensor *t) {
    size_t i, count = (size_t)ggml_nelements(t);
    uint32_t state = 1;
    float *floats = malloc(count * sizeof *floats);
    void *bytes = malloc(ggml_nbytes(t));
    if (floats && bytes) {
        for (i = 0; i < count; i++) {
            state = state * 1664525u + 1013904223u;
            floats[i] = (float)(state >> 8) / 16777216.0f - 0.5f;
        }
        if (t->type == GGML_TYPE_F32)
            memcpy(bytes, floats, count * sizeof *floats);
        else
            ggml_quantize_chunk(t->type, floats, bytes, 0, (int64_t)count / t->ne[0], t->ne[0], NULL);
        ggml_backend_tensor_set(t, bytes, 0, ggml_nbytes(t));
    }
    i = floats && bytes;
    free(floats);
    free(bytes);
    return (int)i;
}

/* The inputs of an operation, and as many equal ones on them as repeats says. */
static struct ggml_cgraph *build(struct ggml_context *context, const operation *o, int repeats,
                                 struct ggml_tensor *inputs[3]) {
    struct ggml_cgraph *graph = ggml_new_graph(context);
    int i;
    memset(inputs, 0, 3 * sizeof *inputs);
    if (strcmp(o->kind, "gemm") == 0) {
        inputs[0] = ggml_new_tensor_2d(context, find_type(o->type), o->k, o->out);
        inputs[1] = ggml_new_tensor_2d(context, GGML_TYPE_F32, o->k, o->tokens);
    } else {
        inputs[0] = ggml_new_tensor_3d(context, GGML_TYPE_F32, o->k, o->tokens, o->out);
        inputs[1] = ggml_new_tensor_3d(context, GGML_TYPE_F16, o->k, o->tokens, o->out);
        inputs[2] = ggml_new_tensor_3d(context, GGML_TYPE_F16, o->k, o->tokens, o->out);
    }
    for (i = 0; i < repeats; i++) {
        if (inputs[2]) {
            ggml_build_forward_expand(graph, ggml_flash_attn_ext(context, inputs[0], inputs[1], inputs[2], NULL,
                                                                 1.0f / sqrtf((float)o->k), 0, 0));
        } else {
            ggml_build_forward_expand(graph, ggml_mul_mat(context, inputs[0], inputs[1]));
        }
    }
    return graph;
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Seconds of a graph: the median. */
static double run(ggml_backend_t backend, struct ggml_cgraph *graph, int runs) {
    double seconds[RUNS], begin;
    int i;
    for (i = -1; i < runs; i++) { /* the first compiles */
        begin = now();
        if (ggml_backend_graph_compute(backend, graph) != GGML_STATUS_SUCCESS) return -1;
        ggml_backend_synchronize(backend);
        if (i >= 0) seconds[i] = now() - begin;
    }
    qsort(seconds, (size_t)runs, sizeof *seconds, compare);
    return seconds[runs / 2];
}

/* Seconds of one of them; why not where that is negative. */
static double measure(ggml_backend_t backend, const operation *o, int repeats, int runs, const char **why) {
    struct ggml_init_params room = {ggml_tensor_overhead() * 64 + ggml_graph_overhead(), NULL, true};
    struct ggml_context *context = ggml_init(room);
    struct ggml_tensor *inputs[3];
    struct ggml_cgraph *graph = build(context, o, repeats, inputs);
    ggml_backend_buffer_t buffer = NULL;
    double seconds = -1;
    float first = 0;
    int i;
    *why = "unsupported";
    if (ggml_backend_supports_op(backend, ggml_graph_node(graph, 0))) {
        *why = "no memory";
        buffer = ggml_backend_alloc_ctx_tensors(context, backend);
    }
    if (buffer) {
        for (i = 0; i < 3 && inputs[i]; i++)
            if (!fill(inputs[i])) goto end;
        *why = "failed";
        seconds = run(backend, graph, runs) / repeats;
        ggml_backend_tensor_get(ggml_graph_node(graph, repeats - 1), &first, 0, sizeof first);
        if (!isfinite(first) || first == 0) seconds = -1, *why = "wrong result";
    }
end:
    ggml_backend_buffer_free(buffer);
    ggml_free(context);
    return seconds;
}

int main(int count, char **texts) {
    ggml_backend_t backend = NULL;
    ggml_backend_dev_t device;
    int i;
    if (count < 3) return fprintf(stderr, "usage: versus_ggml BACKENDS CASE...\n"), 2;
    ggml_backend_load_all_from_path(texts[1]);
    device = ggml_backend_dev_by_name("Vulkan0");
    if (device) backend = ggml_backend_dev_init(device, NULL);
    if (!backend) return fprintf(stderr, "versus_ggml: ggml finds no Vulkan device\n"), 5;
    printf("%s\n", ggml_backend_dev_description(device));
    for (i = 2; i < count; i++) {
        const char *why = "no such case";
        operation o;
        double seconds = -1;
        if (parse(texts[i], &o)) {
            seconds = measure(backend, &o, 1, 1, &why);
            if (seconds > 0)
                seconds = measure(backend, &o, seconds < 0.02 / MOST ? MOST : (int)(0.02 / seconds) + 1, RUNS, &why);
        }
        if (seconds > 0)
            printf("%s\t%.6f\t%.2f\n", texts[i], seconds, flops(&o) / seconds * 1e-9);
        else
            printf("%s\t-\t%s\n", texts[i], why);
        fflush(stdout);
    }
    ggml_backend_free(backend);
    return 0;
}
