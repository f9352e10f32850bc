/* dit-bench: how fast the kernels are. Prints one JSON line per case; a time never fails anything.
     dit-bench gemm      [--m 1024] [--n 1024] [--k 1024] [--type f32]
     dit-bench attention [--tokens 1024] [--keys TOKENS] [--heads 8] [--head-dim 64]
     dit-bench conv      [--size 64] [--in 128] [--out 128] [--type f16]
   and for all: [--device 0] [--rung base|fp16] [--runs 7] [--form cpu|gpu]
   gflops is the median of the runs by the clock, gflops_per_cpu_second the median by the process's CPU time (of
   software drivers: per core). */
#define DIT_IMPLEMENTATION
#include "dit.h"
#include <strings.h>
#include <time.h>

typedef struct options {
    const char *op, *device, *rung, *form;
    uint32_t m, n, k, tokens, keys, heads, head_dim, size, in, out, runs;
    dit_type type;
} options;

typedef struct bench {
    diti_env env;
    diti_device *device;
    diti_graph graph;
    diti_buffer buffer;
    diti_weight weight;
    double flops;
} bench;

static int fail(const char *what) {
    fprintf(stderr, "dit-bench: %s\n", what);
    return 1;
}

static double seconds(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int compare(const void *a, const void *b) {
    double d = *(const double *)a - *(const double *)b;
    return (d > 0) - (d < 0);
}

static int open_bench(bench *b, const options *o, dit_error *err) {
    dit_context_desc desc;
    char overrides[128] = "";
    memset(&desc, 0, sizeof desc);
    if (o->rung) snprintf(overrides, sizeof overrides, "rung=%s", o->rung);
    if (o->form)
        snprintf(overrides + strlen(overrides), sizeof overrides - strlen(overrides), "%scpu=%d", o->rung ? "," : "",
                 !strcmp(o->form, "cpu"));
    desc.devices = o->device;
    desc.overrides = overrides[0] ? overrides : NULL;
    desc.max_dispatch_us = 60000000; /* one piece */
    if (diti_env_init(&b->env, NULL, NULL, err) < 0) return 1;
    if (diti_device_open(&desc, &b->env, &b->device, err) < 0) return 1;
    diti_graph_init(&b->graph, b->device);
    diti_graph_segment(&b->graph, "bench", false);
    return 0;
}

/* Random bytes with small scales: the values do not matter, only that none is infinite. */
static int make_weight(bench *b, dit_type type, uint32_t rows, uint32_t columns, uint32_t kernel, dit_error *err) {
    uint64_t bytes, i;
    uint32_t state = 1;
    unsigned char *data;
    int failed;
    if (!diti_type_bytes(type, rows, columns, &bytes)) return fail("k is no multiple of the type's block");
    data = (unsigned char *)calloc(1, bytes);
    for (i = 0; i < bytes; i++) data[i] = (unsigned char)((state = state * 1664525u + 1013904223u) >> 25);
    failed = diti_buffer_create(b->device, bytes, DITI_MEMORY_DEVICE, "weight", &b->buffer, err) < 0 ||
             diti_buffer_write(b->device, &b->buffer, 0, data, bytes, err) < 0;
    free(data);
    b->weight.name = "weight";
    b->weight.type = type;
    b->weight.rows = rows;
    b->weight.columns = columns;
    b->weight.kernel = kernel;
    b->weight.part_count = 1;
    b->weight.parts[0].buffer = &b->buffer;
    b->weight.parts[0].rows = rows;
    return failed;
}

static int make_gemm(bench *b, const options *o, dit_error *err) {
    diti_linear_desc desc;
    memset(&desc, 0, sizeof desc);
    if (make_weight(b, o->type, o->n, o->k, 1, err)) return 1;
    diti_linear(&b->graph, diti_tensor_input(&b->graph, b->graph.activation, o->m, o->k, "x"), &b->weight, &desc);
    b->flops = 2.0 * o->m * o->n * o->k;
    return 0;
}

static int make_attention(bench *b, const options *o) {
    diti_attention_desc desc;
    uint32_t keys = o->keys ? o->keys : o->tokens, width = o->heads * o->head_dim;
    diti_tensor q, k, v;
    memset(&desc, 0, sizeof desc);
    desc.batch = 1;
    desc.heads = o->heads;
    desc.head_dim = o->head_dim;
    desc.scale = 0.125f;
    q = diti_tensor_input(&b->graph, b->graph.activation, o->tokens, width, "q");
    k = diti_tensor_input(&b->graph, b->graph.activation, keys, width, "k");
    v = diti_tensor_input(&b->graph, b->graph.activation, keys, width, "v");
    diti_attention(&b->graph, q, k, v, &desc);
    b->flops = 4.0 * o->tokens * keys * o->heads * o->head_dim;
    return 0;
}

static int make_conv(bench *b, const options *o, dit_error *err) {
    diti_conv_desc desc;
    memset(&desc, 0, sizeof desc);
    if (make_weight(b, o->type, o->out, o->in * 9, 3, err)) return 1;
    desc.batch = 1;
    desc.height = desc.width = o->size;
    desc.pad_before = desc.pad_after = 1;
    diti_conv2d(&b->graph, diti_tensor_input(&b->graph, b->graph.activation, o->size * o->size, o->in, "x"), &b->weight,
                &desc);
    b->flops = 18.0 * o->size * o->size * o->in * o->out;
    return 0;
}

static void print_case(const bench *b, const options *o, double clock, double cpu) {
    uint32_t m = o->m, n = o->n, k = o->k;
    char name[32];
    const char *type = diti_type_name(o->type);
    size_t i;
    if (!strcmp(o->op, "attention"))
        m = o->tokens, n = o->keys ? o->keys : o->tokens, k = o->head_dim,
        type = b->graph.activation == DITI_F16 ? "F16" : "F32";
    if (!strcmp(o->op, "conv")) m = o->size * o->size, n = o->out, k = o->in * 9;
    for (i = 0; type[i] && i + 1 < sizeof name; i++)
        name[i] = (char)(type[i] >= 'A' && type[i] <= 'Z' ? type[i] + 32 : type[i]);
    name[i] = 0;
    printf("{\"op\": \"%s\", \"m\": %u, \"n\": %u, \"k\": %u, ", o->op, m, n, k);
    if (!strcmp(o->op, "attention")) printf("\"heads\": %u, ", o->heads);
    printf(
        "\"type\": \"%s\", \"rung\": \"%s\", \"device\": \"%s\", \"gflops\": %.2f, \"ms\": %.3f, \"gflops_per_cpu_second\": %.2f}\n",
        name, diti_rung_name(b->device->rung), b->device->info.name, b->flops / clock * 1e-9, clock * 1e3,
        b->flops / cpu * 1e-9);
}

static int run(bench *b, const options *o, dit_error *err) {
    double clock[64], cpu[64];
    diti_plan *plan;
    uint32_t i, runs = o->runs < 64 ? o->runs : 64;
    if (diti_graph_failed(&b->graph)) return *err = b->graph.error, 1;
    if (diti_plan_create(&b->graph, NULL, &plan, err) < 0) return 1;
    for (i = 0; i <= runs; i++) { /* the first run compiles */
        double c = seconds(CLOCK_MONOTONIC), p = seconds(CLOCK_PROCESS_CPUTIME_ID);
        if (diti_plan_run(plan, 0, 1, err) < 0) return 1;
        if (i) clock[i - 1] = seconds(CLOCK_MONOTONIC) - c, cpu[i - 1] = seconds(CLOCK_PROCESS_CPUTIME_ID) - p;
    }
    qsort(clock, runs, sizeof *clock, compare);
    qsort(cpu, runs, sizeof *cpu, compare);
    print_case(b, o, clock[runs / 2], cpu[runs / 2]);
    diti_plan_destroy(plan);
    return 0;
}

static bool parse_type(const char *name, dit_type *out) {
    int type;
    for (type = DIT_TYPE_F32; type <= DIT_TYPE_Q6_K; type++) {
        if (strcasecmp(name, diti_type_name((dit_type)type))) continue;
        *out = (dit_type)type;
        return true;
    }
    return false;
}

static int parse(int argc, char **argv, options *o) {
    struct {
        const char *name;
        uint32_t *number;
        const char **text;
    } known[] = {{"--m", &o->m, NULL},
                 {"--n", &o->n, NULL},
                 {"--k", &o->k, NULL},
                 {"--tokens", &o->tokens, NULL},
                 {"--keys", &o->keys, NULL},
                 {"--heads", &o->heads, NULL},
                 {"--head-dim", &o->head_dim, NULL},
                 {"--size", &o->size, NULL},
                 {"--in", &o->in, NULL},
                 {"--out", &o->out, NULL},
                 {"--runs", &o->runs, NULL},
                 {"--device", NULL, &o->device},
                 {"--rung", NULL, &o->rung},
                 {"--form", NULL, &o->form}};
    int i;
    size_t j;
    if (argc < 2)
        return fail(
            "usage: dit-bench gemm|attention|conv [--m N] [--n N] [--k N] [--type T] [--tokens N] [--heads N] [--head-dim N] [--device D] [--rung R]");
    o->op = argv[1];
    for (i = 2; i < argc; i += 2) {
        bool found = false;
        if (i + 1 == argc) return fail("an option lacks its value");
        if (!strcmp(argv[i], "--type")) found = parse_type(argv[i + 1], &o->type);
        for (j = 0; j < DITI_COUNT(known) && !found; j++) {
            if (strcmp(argv[i], known[j].name)) continue;
            found = true;
            if (known[j].text)
                *known[j].text = argv[i + 1];
            else
                *known[j].number = (uint32_t)strtoul(argv[i + 1], NULL, 10), found = *known[j].number > 0;
        }
        if (!found) return fprintf(stderr, "dit-bench: %s %s is not understood\n", argv[i], argv[i + 1]), 1;
    }
    return 0;
}

int main(int argc, char **argv) {
    options o = {"gemm", NULL, NULL, NULL, 1024, 1024, 1024, 1024, 0, 8, 64, 64, 128, 128, 7, DIT_TYPE_F32};
    bench b;
    dit_error err;
    int failed;
    memset(&b, 0, sizeof b);
    memset(&err, 0, sizeof err);
    if (parse(argc, argv, &o)) return 2;
    if (open_bench(&b, &o, &err)) return fail(err.message);
    if (!strcmp(o.op, "gemm"))
        failed = make_gemm(&b, &o, &err);
    else if (!strcmp(o.op, "attention"))
        failed = make_attention(&b, &o);
    else if (!strcmp(o.op, "conv"))
        failed = make_conv(&b, &o, &err);
    else
        return fail("the case is gemm, attention or conv");
    if (!failed) failed = run(&b, &o, &err);
    if (failed) fail(err.message);
    diti_graph_free(&b.graph);
    diti_buffer_destroy(b.device, &b.buffer);
    diti_device_close(b.device);
    return failed;
}
