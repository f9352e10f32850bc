/* Every case of dit-bench stands on this: the device, random weights, the device's own ceilings, plans that run several
   times, JSON lines, profiles. Include it after dit.h with its implementation. */
#ifndef BENCH_CORE_H
#define BENCH_CORE_H
#include "../examples/cli/programs.h"
#include <errno.h>
#include <time.h>

enum { MOST_RUNS = 999 };

typedef struct options {
    const char *op, *device, *rung, *form, *types, *model, *prompt, *cache, *shape, *report, *page, *parts, *split;
    uint32_t m, n, k, tokens, keys, heads, head_dim, batch, size, in, out, kernel, layers, lora;
    uint32_t steps, width, height, cfg_scale, frames, runs, slice_us, budget_us, seconds;
    bool profile, no_fusion, no_replay, no_ceilings, by_cpu, strided, full, sweep;
    dit_type type; /* of the case at hand */
} options;

static int complain(int code, const char *format, ...) DITI_PRINTF(2, 3);
static int complain(int code, const char *format, ...) {
    va_list arguments;
    fputs("dit-bench: ", stderr);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    return code;
}

static char lower(char c) { return (char)(c >= 'A' && c <= 'Z' ? c + 32 : c); }

/* "q8_0" for DIT_TYPE_Q8_0 */
static const char *type_text(dit_type type, char out[32]) {
    const char *name = type == DIT_TYPE_I8_ROW           ? "i8r"
                       : type == DIT_TYPE_I8_ROW_ROTATED ? "i8r+rot"
                       : type == DIT_TYPE_I4_ROW_ROTATED ? "i4r+rot"
                                                         : diti_type_name(type);
    size_t i;
    for (i = 0; name[i] && i < 31; i++) out[i] = lower(name[i]);
    out[i] = 0;
    return out;
}

/* The type whose name stands at text[0..length). */
static bool find_type(const char *text, size_t length, dit_type *out) {
    char name[32];
    int type;
    for (type = DIT_TYPE_F32; type <= DIT_TYPE_I4_ROW_ROTATED; type++) {
        type_text((dit_type)type, name);
        if (strlen(name) != length) continue;
        while (length && lower(text[length - 1]) == name[length - 1]) length--;
        if (length == 0) {
            *out = (dit_type)type;
            return true;
        }
        length = strlen(name);
    }
    return false;
}

/* The units that make products: each has a ceiling of its own. */
typedef enum rate { RATE_FMA, RATE_HALF, RATE_DOT, RATE_COOP, RATE_COOP_I8, RATES } rate;

/* ---- the bench ---- */

typedef struct held { /* random weights, kept while their plan lives */
    diti_weight weight;
    diti_weight_block blocks[DITI_MAX_WEIGHT_PARTS];
    struct held *next;
} held;

/* A LoRA of that rank on every layer, whose values are random. */
enum { MOST_ADAPTERS = 4096 };
typedef struct bench_lora {
    diti_lora lora;
    diti_lora_use use;
    diti_adapter_part parts[MOST_ADAPTERS];
    char names[MOST_ADAPTERS]; /* their addresses tell weights apart */
} bench_lora;

typedef struct times { /* seconds of one run: medians over all */
    double device, wall, cpu;
    double cold; /* of the first run, when a GPU's clocks may still be low */
} times;

typedef struct line { /* the numbers that a case prints */
    const char *op, *type;
    uint32_t m, n, k;
    double flops, bytes;
    double expanded, barriers; /* bytes of weights that were expanded, and barriers, of a step */
    times t;
    char more[1024]; /* further keys: ", \"tokens\": 1024" */
    char title[64];  /* title of the report's row, behind op; empty: m x n x k */
} line;

typedef struct bench {
    options o;
    FILE *out;          /* lines of JSON; NULL: none */
    FILE *page;         /* Markdown: the table of --report, or the page of report; NULL: none */
    output_file report; /* that page, where it is a file; its file NULL: none */
    double started;     /* when the process began */
    diti_env env;
    dit_context *context;
    diti_device *device;
    void *blob; /* what the next context gets as its cache: from --cache, or of the contexts before it; NULL: none */
    size_t blob_size;
    bool blob_read; /* --cache had one when this process began */
    double opening; /* seconds that the first context took */
    diti_graph graph;
    diti_plan *plan;
    held *weights;
    bench_lora *lora;                /* NULL: none */
    bool no_memory;                  /* weights have a size, but no memory: their plan is never made */
    double weight_bytes;             /* of them, so far */
    int code;                        /* the first failure while a graph is built */
    double busy;                     /* when the device was last seen at work for long */
    double peaks[RATES], peak_bytes; /* operations by rate, and bytes, per second; 0: not measured, or there is none */
    line line;
    dit_error err;
} bench;

static double now(void) {
#ifdef _WIN32
    LARGE_INTEGER count, rate;
    QueryPerformanceCounter(&count);
    QueryPerformanceFrequency(&rate);
    return (double)count.QuadPart / (double)rate.QuadPart;
#else
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
#endif
}

static double cpu_now(void) { return (double)clock() / CLOCKS_PER_SEC; }

static int failed(bench *b) {
    return complain(b->err.result < 0 ? exit_code_of(b->err.result) : EXIT_OTHER, "%s",
                    b->err.message[0] ? b->err.message : "failed, for a reason that was not told");
}

static int compare_doubles(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, uint32_t count) {
    qsort(values, count, sizeof *values, compare_doubles);
    return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

/* --rung and --form in the words of dit_context_desc.overrides. */
static int make_overrides(const options *o, char *out, size_t size) {
    if (o->form && strcmp(o->form, "cpu") != 0 && strcmp(o->form, "gpu") != 0)
        return complain(EXIT_USAGE, "--form %s: there are cpu and gpu", o->form);
    if (o->rung && (strlen(o->rung) > 20 || strchr(o->rung, ',')))
        return complain(EXIT_USAGE, "--rung %s: there is no such rung", o->rung);
    diti_format(out, size, "%s%s%s%s", o->rung ? "rung=" : "", o->rung ? o->rung : "", o->rung && o->form ? "," : "",
                !o->form                      ? ""
                : strcmp(o->form, "cpu") == 0 ? "cpu=1"
                                              : "cpu=0");
    return EXIT_GOOD;
}

/* ---- the cache that contexts hand on, so that self-tests run and kernels are compiled once ---- */

static void read_cache(bench *b) {
    FILE *file = b->o.cache ? fopen(b->o.cache, "rb") : NULL;
    long length = -1;
    if (!file) return;
    if (fseek(file, 0, SEEK_END) == 0) length = ftell(file);
    if (length > 0 && fseek(file, 0, SEEK_SET) == 0) b->blob = malloc((size_t)length);
    if (b->blob) b->blob_size = fread(b->blob, 1, (size_t)length, file);
    b->blob_read = b->blob_size > 0;
    fclose(file);
}

/* Takes a context's cache over. One that cannot be had, of a lost device above all, leaves the one before. */
static dit_result take_cache(bench *b, dit_context *context) {
    size_t size = 0;
    void *blob;
    DITI_TRY(dit_context_save_cache(context, NULL, &size, &b->err));
    blob = malloc(size);
    if (!blob) return diti_fail(&b->err, DIT_ERROR_OUT_OF_HOST_MEMORY, "out of memory for the cache");
    if (dit_context_save_cache(context, blob, &size, &b->err) < 0) return free(blob), b->err.result;
    free(b->blob);
    b->blob = blob;
    b->blob_size = size;
    return DIT_OK;
}

/* --cache gets what the contexts so far have found. */
static int write_cache(bench *b) {
    output_file out;
    if (!b->o.cache) return EXIT_GOOD;
    if (b->context && take_cache(b, b->context) < 0) return failed(b);
    if (!b->blob) return EXIT_GOOD;
    if (output_open(&out, b->o.cache) && output_close(&out, fwrite(b->blob, 1, b->blob_size, out.file) == b->blob_size))
        return EXIT_GOOD;
    return complain(exit_code_of_writing(errno), "--cache %s: %s", b->o.cache, told_reason(errno));
}

static int open_context(bench *b) {
    dit_context_desc desc = DITI_ZERO;
    char overrides[64];
    double begun = now();
    int code = make_overrides(&b->o, overrides, sizeof overrides);
    if (code || b->context) return code;
    desc.devices = b->o.device;
    desc.overrides = overrides;
    desc.max_slice_us = b->o.slice_us;
    desc.cache = b->blob;
    desc.cache_size = b->blob_size;
    if (dit_context_create(&desc, &b->context, &b->err) < 0) return failed(b);
    if (!b->opening) b->opening = now() - begun;
    b->device = b->context->device;
    b->env = b->context->env;
    if (!b->o.rung || diti_equal(b->o.rung, diti_rung_name(b->device->rung))) return EXIT_GOOD;
    return complain(EXIT_USAGE, "--rung %s: %s fails its self-test there; leave --rung out to use %s", b->o.rung,
                    b->device->info.name, diti_rung_name(b->device->rung));
}

/* ---- random numbers ---- */

static uint32_t random_next(uint32_t *state) {
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

static float random_float(uint32_t *state) { return (float)random_next(state) * (2.0f / 16777216.0f) - 1.0f; }

/* One stored block of moderate values: random bits, then the scales that would not be. */
static void random_block(dit_type type, unsigned char *block, uint32_t *state) {
    uint32_t i, bytes = diti_type_block_bytes(type);
    uint16_t scale = diti_float_to_half(0.01f), value = diti_float_to_half(random_float(state));
    float f = random_float(state);
    for (i = 0; i < bytes; i++) block[i] = (unsigned char)(random_next(state) >> 9);
    switch (type) {
    case DIT_TYPE_F32: memcpy(block, &f, 4); return;
    case DIT_TYPE_F16: memcpy(block, &value, 2); return;
    case DIT_TYPE_BF16:
        value = diti_float_to_bfloat(f);
        memcpy(block, &value, 2);
        return;
    case DIT_TYPE_F8_E4M3: block[0] &= 0xb7; return;
    case DIT_TYPE_F8_E5M2: block[0] &= 0xbf; return;
    case DIT_TYPE_Q2_K: memcpy(block + 82, &scale, 2); break;
    case DIT_TYPE_Q4_1:
    case DIT_TYPE_Q5_1:
    case DIT_TYPE_Q4_K:
    case DIT_TYPE_Q5_K:
    case DIT_TYPE_I4_GROUP: memcpy(block + 2, &scale, 2); break;
    case DIT_TYPE_MXFP4: block[0] = 121; return; /* 2^-6 */
    case DIT_TYPE_NVFP4: memset(block, 9, 4); return;
    default: break;
    }
    i = type == DIT_TYPE_Q2_K ? 80 : type == DIT_TYPE_Q3_K ? 108 : type == DIT_TYPE_Q6_K ? 208 : 0;
    memcpy(block + i, &scale, 2);
}

/* A row of int8 weights as the device holds it: values, zeros, the scale. */
static void random_row(uint32_t columns, unsigned char *row, uint32_t *state) {
    uint32_t i, pitch = diti_i8_pitch(columns);
    float scale = 0.01f;
    memset(row, 0, pitch);
    for (i = 0; i < columns; i++) row[i] = (unsigned char)(random_next(state) >> 9);
    memcpy(row + pitch - 16, &scale, sizeof scale);
}

/* Fills a buffer with copies of some random blocks, or rows of so many columns. */
static int random_buffer(bench *b, diti_buffer *buffer, dit_type type, uint32_t columns, uint64_t bytes) {
    bool i8 = diti_type_is_i8(type);
    uint32_t i, state = 1, block = i8 ? diti_i8_pitch(diti_i8_bytes(type, columns)) : diti_type_block_bytes(type),
                count = i8 ? 64 : 4096;
    uint64_t chunk = (uint64_t)count * block, done, size;
    unsigned char *data = malloc((size_t)chunk);
    dit_result result = DIT_OK;
    if (!data) return complain(EXIT_MEMORY, "out of memory for random weights");
    for (i = 0; i < count; i++) {
        if (i8)
            random_row(diti_i8_bytes(type, columns), data + (size_t)i * block, &state);
        else
            random_block(type, data + (size_t)i * block, &state);
    }
    for (done = 0; done < bytes && result >= 0; done += size) {
        size = bytes - done < chunk ? bytes - done : chunk;
        result = diti_buffer_write(b->device, buffer, done, data, size, &b->err);
    }
    free(data);
    return result < 0 ? failed(b) : EXIT_GOOD;
}

static int random_part(bench *b, held *h, uint32_t rows, uint64_t row_bytes) {
    diti_weight *weight = &h->weight;
    diti_weight_part *part = &weight->parts[weight->part_count];
    diti_buffer *buffer = &h->blocks[weight->part_count].buffer;
    if (weight->part_count == DITI_MAX_WEIGHT_PARTS)
        return complain(EXIT_USAGE, "weights [%u, %u] are too large for this device; choose smaller sizes",
                        weight->rows, weight->columns);
    buffer->size = rows * row_bytes;
    if (!b->no_memory &&
        diti_buffer_create(b->device, rows * row_bytes, DITI_MEMORY_DEVICE, "random weights", buffer, &b->err) < 0)
        return failed(b);
    part->block = &h->blocks[weight->part_count];
    part->first_row = weight->part_count ? part[-1].first_row + part[-1].rows : 0;
    part->rows = rows;
    weight->part_count++;
    b->weight_bytes += (double)rows * (double)row_bytes;
    return b->no_memory ? EXIT_GOOD : random_buffer(b, buffer, weight->type, weight->columns, rows * row_bytes);
}

static int fill_weight(bench *b, held *h, uint32_t rows, uint32_t columns) {
    uint64_t row_bytes = 0, limit = b->device->limits.storage_range, most;
    uint32_t done, part;
    int code = EXIT_GOOD;
    char name[32];
    if (diti_type_is_rotated(h->weight.type) && diti_i8_type(h->weight.type, columns) != h->weight.type)
        return complain(EXIT_USAGE,
                        "rows of %u values don't divide into groups of %u; give sizes that are multiples of it, or i8r",
                        columns, DITI_ROTATION_GROUP);
    if (!diti_weight_bytes(h->weight.type, 1, columns, &row_bytes)) {
        return complain(
            EXIT_USAGE,
            "rows of %u values don't divide into blocks of %u; give sizes that are multiples of it, or a --type other than %s",
            columns, diti_type_block(h->weight.type), type_text(h->weight.type, name));
    }
    if (limit > b->device->limits.allocation) limit = b->device->limits.allocation;
    most = limit / row_bytes > 4 ? limit / row_bytes / 4 * 4 : 1;
    for (done = 0; done < rows && !code; done += part) {
        part = rows - done < most ? rows - done : (uint32_t)most;
        code = random_part(b, h, part, row_bytes);
    }
    return code;
}

/* Random weights [rows, columns]. After a failure, which is told once and kept in b->code, they are empty and no op
 * takes them. */
static const diti_weight *random_weight(bench *b, dit_type type, uint32_t rows, uint32_t columns, uint32_t kernel) {
    static const diti_weight empty;
    held *h = b->code || !rows || !columns ? NULL : calloc(1, sizeof *h);
    if (!h) {
        if (!b->code && rows && columns) b->code = complain(EXIT_MEMORY, "out of memory for random weights");
        return &empty;
    }
    h->next = b->weights;
    b->weights = h;
    h->weight.name = "random";
    h->weight.type = type;
    h->weight.rows = rows;
    h->weight.columns = columns;
    h->weight.kernel = kernel;
    b->code = fill_weight(b, h, rows, columns);
    return b->code ? &empty : &h->weight;
}

/* The type that a converter would give to rows of so many values: f16 where they don't fill its blocks. */
static dit_type fitting_type(const bench *b, uint32_t columns) {
    if (diti_type_is_i8(b->o.type)) return diti_i8_type(b->o.type, columns);
    return columns % diti_type_block(b->o.type) ? DIT_TYPE_F16 : b->o.type;
}

/* Gives a weight a LoRA. false: no memory. */
static bool add_lora(bench *b, const diti_weight *weight) {
    dit_type type = b->graph.activation == DITI_F16 ? DIT_TYPE_F16 : DIT_TYPE_F32;
    uint32_t rank = (b->o.lora + 3) / 4 * 4;
    bench_lora *all = b->lora;
    diti_adapter *adapter;
    diti_adapter_part *part;
    if (!weight->part_count) return true;
    if (!all) {
        all = b->lora = calloc(1, sizeof *all);
        if (all) all->lora.adapters = calloc(MOST_ADAPTERS, sizeof *all->lora.adapters);
        if (!all || !all->lora.adapters) return false;
        all->use.lora = &all->lora;
    }
    if (!b->graph.loras) {
        b->graph.loras = &all->use;
        b->graph.lora_count = 1;
        b->graph.lora_scales = diti_tensor_input(&b->graph, DITI_F32, 1, rank, "strengths of LoRAs");
    }
    if (all->lora.adapter_count == MOST_ADAPTERS) return false;
    ((diti_weight *)(uintptr_t)weight)->name = &all->names[all->lora.adapter_count];
    part = &all->parts[all->lora.adapter_count];
    adapter = &all->lora.adapters[all->lora.adapter_count];
    adapter->weight = weight->name;
    adapter->down = *random_weight(b, type, rank, weight->columns, 1);
    adapter->parts = part;
    adapter->part_count = 1;
    part->rows = weight->rows;
    part->rank = rank;
    part->up = *random_weight(b, type, weight->rows, rank, 1);
    all->lora.adapter_count++;
    return true;
}

static void free_weights(bench *b) {
    if (b->lora) free(b->lora->lora.adapters);
    free(b->lora);
    b->lora = NULL;
    while (b->weights) {
        held *h = b->weights;
        uint32_t i;
        for (i = 0; i < DITI_MAX_WEIGHT_PARTS; i++) diti_buffer_destroy(b->device, &h->blocks[i].buffer);
        b->weights = h->next;
        free(h);
    }
}

/* ---- what the device can do at best, measured before the first case: copies, and sums of products in registers ----
 */

static const uint32_t fma_words[] = {
#include "bench_fma.inc"
};
static const uint32_t half_words[] = {
#include "bench_half.inc"
};
static const uint32_t dot_words[] = {
#include "bench_dot.inc"
};
static const uint32_t copy_words[] = {
#include "bench_copy.inc"
};
static const uint32_t coop_words[] = {
#include "bench_coop_f16.inc"
};
static const uint32_t coop_i8_words[] = {
#include "bench_coop_s8.inc"
};
#define RATE_GROUP 64u
#define RATE_MOST_GROUPS 32768u /* that write results of their own; more of them write the same again */
#define RATE_MOST (RATE_MOST_GROUPS * 64)
#define RATE_STEPS (256.0 * 4 * 8) /* of an invocation of bench_fma.comp */
#define COOP_STEPS (64.0 * 4 * 8)  /* of a subgroup of bench_coop.comp */
#define COOP_SUBGROUPS 4u          /* in a workgroup of it */
#define COPY_BYTES 16384u          /* that a workgroup of bench_copy.comp reads */

static const struct {
    const char *name, *what;
    const uint32_t *words;
    size_t size;
    double flops; /* operations of a step; 0: the device tells the shape */
} rates[RATES] = {{"fma", "multiply-adds", fma_words, sizeof fma_words, 2},
                  {"half", "multiply-adds of f16 pairs", half_words, sizeof half_words, 4},
                  {"dot", "int8 dot products", dot_words, sizeof dot_words, 8},
                  {"coop", "cooperative matrices of f16", coop_words, sizeof coop_words, 0},
                  {"coop_i8", "cooperative matrices of int8", coop_i8_words, sizeof coop_i8_words, 0}};

static const diti_coop_shape *rate_shape(const diti_device *device, rate r) {
    return &device->coop.subgroup_shape[r == RATE_COOP ? DITI_COOP_F16 : DITI_COOP_S8];
}

/* Operations of a workgroup. */
static double rate_flops(const diti_device *device, rate r) {
    const diti_coop_shape *shape = rate_shape(device, r);
    if (r < RATE_COOP) return RATE_STEPS * rates[r].flops * RATE_GROUP;
    return COOP_STEPS * COOP_SUBGROUPS * 2.0 * shape->m * shape->n * shape->k;
}

static bool rate_exists(const diti_device *device, rate r) {
    if (r >= RATE_COOP) return device->coop.subgroup && rate_shape(device, r)->m;
    return r == RATE_HALF ? device->has_fp16 : r == RATE_DOT ? device->has_dot : true;
}

typedef struct ceiling { /* one of the measurements */
    diti_buffer buffers[2];
    VkShaderModule module;
    VkPipeline pipeline;
    VkDescriptorPool pool;
    VkDescriptorSet set;
    VkQueryPool queries; /* none on a software driver, whose clock is as good */
    diti_record_function record;
    uint32_t amount; /* workgroups, or copies */
} ceiling;

/* A GPU lowers its clocks while a driver compiles, or when it has been idle for a second, to a quarter on an H200, and
   raises them while it works. As in graph/calibrate.c it is kept busy first for so many seconds of its own time, and
   longer while runs become faster, also little by little. */
#define BENCH_WARM 0.1
#define BENCH_WARM_IDLE 0.3     /* where it did nothing for a tenth of a second before */
#define BENCH_WARM_MOST 1.0     /* by its time or by the clock */
#define BENCH_WARM_STEADY 0.075 /* of its time without a run that is faster by the gain ends the warm-up */
#define BENCH_WARM_GAIN 0.97

typedef struct warming {
    double least, begun; /* seconds to be busy for; when the first run was over */
    double all, mark;    /* seconds of all runs; the shortest run when one was faster than its mark by the gain */
    double since;        /* seconds of all runs up to that one */
} warming;

static void warming_begin(const bench *b, warming *w) {
    memset(w, 0, sizeof *w);
    w->least = now() - b->busy < 0.1 ? BENCH_WARM : BENCH_WARM_IDLE;
}

/* Whether a run that has just taken so long was still part of the warm-up. 0: it does not count, since its time is the
   clock's and may be that of a compiler. */
static bool still_warming(const bench *b, warming *w, double seconds) {
    double at = now();
    if (b->device->software) return false;
    if (!w->begun) w->begun = at;
    w->all += seconds;
    if (seconds > 0 && (!(w->mark > 0) || seconds < w->mark * BENCH_WARM_GAIN)) {
        w->mark = seconds;
        w->since = w->all;
    }
    if (w->all >= BENCH_WARM_MOST || at - w->begun >= BENCH_WARM_MOST) return false;
    return w->all < w->least || w->all - w->since < BENCH_WARM_STEADY;
}

/* Seconds between two timestamps; 0 where there are none. */
static double stamped_seconds(const diti_device *device, VkQueryPool queries, uint32_t first) {
    uint32_t bits = device->limits.timestamp_bits;
    uint64_t ticks[2], mask = bits >= 64 ? UINT64_MAX : ((uint64_t)1 << bits) - 1;
    if (!queries || device->vk.GetQueryPoolResults(device->device, queries, first, 2, sizeof ticks, ticks,
                                                   sizeof ticks[0], VK_QUERY_RESULT_64_BIT) != VK_SUCCESS)
        return 0;
    return (double)((ticks[1] - ticks[0]) & mask) * device->limits.timestamp_period * 1e-9;
}

static void record_copies(diti_device *device, VkCommandBuffer commands, void *user) {
    const ceiling *c = user;
    VkBufferCopy copy = DITI_ZERO;
    uint32_t i;
    VkMemoryBarrier barrier = DITI_ZERO;
    barrier.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER;
    barrier.srcAccessMask = VK_ACCESS_TRANSFER_WRITE_BIT;
    barrier.dstAccessMask = VK_ACCESS_TRANSFER_READ_BIT | VK_ACCESS_TRANSFER_WRITE_BIT;
    copy.size = c->buffers[0].size;
    for (i = 0; i < c->amount; i++) {
        device->vk.CmdCopyBuffer(commands, c->buffers[i % 2].buffer, c->buffers[1 - i % 2].buffer, 1, &copy);
        device->vk.CmdPipelineBarrier(commands, VK_PIPELINE_STAGE_TRANSFER_BIT, VK_PIPELINE_STAGE_TRANSFER_BIT, 0, 1,
                                      &barrier, 0, NULL, 0, NULL);
    }
}

/* Copies by a kernel: some drivers' own keep only a part of a large GPU busy. */
static void record_copy_kernels(diti_device *device, VkCommandBuffer commands, void *user) {
    const ceiling *c = user;
    const VkPipelineBindPoint compute = VK_PIPELINE_BIND_POINT_COMPUTE;
    VkMemoryBarrier barrier = DITI_ZERO;
    uint32_t i;
    barrier.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER;
    barrier.srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT;
    barrier.dstAccessMask = VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT;
    device->vk.CmdBindPipeline(commands, compute, c->pipeline);
    device->vk.CmdBindDescriptorSets(commands, compute, device->pipeline_layout, 0, 1, &c->set, 0, NULL);
    for (i = 0; i < c->amount; i++) {
        device->vk.CmdDispatch(commands, (uint32_t)(c->buffers[0].size / COPY_BYTES), 1, 1);
        device->vk.CmdPipelineBarrier(commands, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT,
                                      VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, 0, 1, &barrier, 0, NULL, 0, NULL);
    }
}

static void record_rate(diti_device *device, VkCommandBuffer commands, void *user) {
    const ceiling *c = user;
    const VkPipelineBindPoint compute = VK_PIPELINE_BIND_POINT_COMPUTE;
    uint32_t groups = c->amount < RATE_MOST_GROUPS ? c->amount : RATE_MOST_GROUPS;
    device->vk.CmdBindPipeline(commands, compute, c->pipeline);
    device->vk.CmdBindDescriptorSets(commands, compute, device->pipeline_layout, 0, 1, &c->set, 0, NULL);
    device->vk.CmdDispatch(commands, groups, c->amount / groups, 1); /* both are powers of two */
}

/* A test that asks whether figures are there, not what they are, makes both smaller. */
#ifndef BENCH_BURSTS
#define BENCH_BURSTS 15
#define BENCH_COPY_MIB 64 /* four times as many on a GPU */
#endif

static dit_result ceiling_queries(bench *b, ceiling *c) {
    diti_device *device = b->device;
    VkQueryPoolCreateInfo info = DITI_ZERO;
    VkResult vk;
    if (c->queries || device->software || !device->limits.timestamp_bits) return DIT_OK;
    info.sType = VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO;
    info.queryType = VK_QUERY_TYPE_TIMESTAMP;
    info.queryCount = 2;
    vk = device->vk.CreateQueryPool(device->device, &info, device->callbacks, &c->queries);
    return vk == VK_SUCCESS ? DIT_OK : diti_device_fail(device, vk, "vkCreateQueryPool", &b->err);
}

static void record_burst(diti_device *device, VkCommandBuffer commands, void *user) {
    ceiling *c = user;
    const VkPipelineStageFlagBits stage = VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT;
    if (c->queries) {
        device->vk.CmdResetQueryPool(commands, c->queries, 0, 2);
        device->vk.CmdWriteTimestamp(commands, stage, c->queries, 0);
    }
    c->record(device, commands, c);
    if (c->queries) device->vk.CmdWriteTimestamp(commands, stage, c->queries, 1);
}

static dit_result time_burst(bench *b, ceiling *c, double *seconds) {
    double begin = now(), stamped;
    dit_result result = diti_run_now(b->device, record_burst, c, &b->err);
    *seconds = now() - begin;
    stamped = result < 0 ? 0 : stamped_seconds(b->device, c->queries, 0);
    if (stamped > 0) *seconds = stamped;
    return result;
}

/* Doubles the amount until it takes 4 ms, warms the device up, which may double it again, and takes the best of the
   bursts; seconds per amount. Short bursts, of which some run undisturbed on a busy machine. */
static dit_result time_ceiling(bench *b, ceiling *c, diti_record_function record, uint32_t most, double *out) {
    double best = 0, seconds = 0;
    warming w;
    uint32_t i;
    c->record = record;
    DITI_TRY(ceiling_queries(b, c));
    warming_begin(b, &w);
    for (c->amount = 1; c->amount < most && seconds < 0.004; c->amount *= 2) DITI_TRY(time_burst(b, c, &seconds));
    do {
        DITI_TRY(time_burst(b, c, &seconds));
        if (seconds < 0.003 && c->amount < most && !b->device->software) {
            c->amount *= 2;
            w.mark = 0;
        }
    } while (still_warming(b, &w, seconds));
    for (i = 0; i < BENCH_BURSTS; i++) {
        DITI_TRY(time_burst(b, c, &seconds));
        if (!best || seconds < best) best = seconds;
    }
    *out = best / c->amount;
    b->busy = now();
    return DIT_OK;
}

typedef struct rate_stage { /* the parameters of the pipeline of cooperative matrices */
    VkPipelineShaderStageRequiredSubgroupSizeCreateInfo subgroup;
    VkSpecializationMapEntry entries[4];
    VkSpecializationInfo constants;
    uint32_t values[4]; /* workgroup size, shape */
} rate_stage;

static void rate_describe(const diti_device *device, rate r, rate_stage *out, VkPipelineShaderStageCreateInfo *stage) {
    uint32_t i;
    if (r < RATE_COOP || r == RATES) return;
    out->subgroup.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_REQUIRED_SUBGROUP_SIZE_CREATE_INFO;
    out->subgroup.requiredSubgroupSize = device->coop.subgroup;
    out->values[0] = device->coop.subgroup * COOP_SUBGROUPS;
    memcpy(out->values + 1, rate_shape(device, r), sizeof out->values - sizeof out->values[0]);
    for (i = 0; i < 4; i++) {
        out->entries[i].constantID = i;
        out->entries[i].offset = i * 4;
        out->entries[i].size = 4;
    }
    out->constants.mapEntryCount = 4;
    out->constants.pMapEntries = out->entries;
    out->constants.dataSize = sizeof out->values;
    out->constants.pData = out->values;
    stage->flags = VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT;
    stage->pNext = &out->subgroup;
    stage->pSpecializationInfo = &out->constants;
}

/* r: RATES stands for copies. */
static dit_result rate_pipeline(bench *b, ceiling *c, rate r) {
    diti_device *device = b->device;
    VkShaderModuleCreateInfo module = DITI_ZERO;
    VkComputePipelineCreateInfo pipeline = DITI_ZERO;
    rate_stage stage = DITI_ZERO;
    VkResult vk;
    module.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO;
    module.codeSize = r == RATES ? sizeof copy_words : rates[r].size;
    module.pCode = r == RATES ? copy_words : rates[r].words;
    pipeline.sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO;
    pipeline.stage.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO;
    pipeline.stage.stage = VK_SHADER_STAGE_COMPUTE_BIT;
    pipeline.stage.pName = "main";
    pipeline.layout = device->pipeline_layout;
    rate_describe(device, r, &stage, &pipeline.stage);
    vk = device->vk.CreateShaderModule(device->device, &module, device->callbacks, &c->module);
    pipeline.stage.module = c->module;
    if (vk == VK_SUCCESS)
        vk = device->vk.CreateComputePipelines(device->device, VK_NULL_HANDLE, 1, &pipeline, device->callbacks,
                                               &c->pipeline);
    return vk == VK_SUCCESS ? DIT_OK : diti_device_fail(device, vk, "vkCreateComputePipelines", &b->err);
}

/* Every binding of dit's layout holds the first buffer, but the second one the second, where there is one. */
static dit_result rate_set(bench *b, ceiling *c) {
    diti_device *device = b->device;
    VkDescriptorPoolSize size = {VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, DITI_MAX_BINDINGS};
    VkDescriptorPoolCreateInfo pool = DITI_ZERO;
    VkDescriptorSetAllocateInfo allocate = DITI_ZERO;
    VkDescriptorBufferInfo ranges[] = {{c->buffers[0].buffer, 0, VK_WHOLE_SIZE},
                                       {c->buffers[1].buffer, 0, VK_WHOLE_SIZE}};
    VkWriteDescriptorSet writes[DITI_MAX_BINDINGS] = DITI_ZERO;
    VkResult vk;
    uint32_t i;
    pool.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO;
    pool.maxSets = pool.poolSizeCount = 1;
    pool.pPoolSizes = &size;
    allocate.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO;
    allocate.descriptorSetCount = 1;
    allocate.pSetLayouts = &device->set_layout;
    vk = device->vk.CreateDescriptorPool(device->device, &pool, device->callbacks, &c->pool);
    allocate.descriptorPool = c->pool;
    if (vk == VK_SUCCESS) vk = device->vk.AllocateDescriptorSets(device->device, &allocate, &c->set);
    if (vk != VK_SUCCESS) return diti_device_fail(device, vk, "vkAllocateDescriptorSets", &b->err);
    for (i = 0; i < DITI_MAX_BINDINGS; i++) {
        writes[i].sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET;
        writes[i].dstSet = c->set;
        writes[i].dstBinding = i;
        writes[i].descriptorCount = 1;
        writes[i].descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER;
        writes[i].pBufferInfo = &ranges[i == 1 && c->buffers[1].buffer];
    }
    device->vk.UpdateDescriptorSets(device->device, DITI_MAX_BINDINGS, writes, 0, NULL);
    return DIT_OK;
}

static dit_result ceiling_buffer(bench *b, diti_buffer *buffer, VkDeviceSize size) {
    return diti_buffer_create(b->device, size, DITI_MEMORY_DEVICE, "measuring the device", buffer, &b->err);
}

static void free_ceiling(bench *b, ceiling *c) {
    diti_device *device = b->device;
    if (c->queries) device->vk.DestroyQueryPool(device->device, c->queries, device->callbacks);
    if (c->pool) device->vk.DestroyDescriptorPool(device->device, c->pool, device->callbacks);
    if (c->pipeline) device->vk.DestroyPipeline(device->device, c->pipeline, device->callbacks);
    if (c->module) device->vk.DestroyShaderModule(device->device, c->module, device->callbacks);
    diti_buffer_destroy(device, &c->buffers[0]);
    diti_buffer_destroy(device, &c->buffers[1]);
}

/* The faster of the driver's copies and a kernel's; every byte counts twice, as it does for ops. */
static dit_result measure_copy(bench *b) {
    ceiling c = DITI_ZERO;
    VkDeviceSize size = (VkDeviceSize)(b->device->is_cpu ? BENCH_COPY_MIB : 4 * BENCH_COPY_MIB) << 20;
    double seconds = 1, by_kernel = 1;
    dit_result result = ceiling_buffer(b, &c.buffers[0], size);
    if (result >= 0) result = ceiling_buffer(b, &c.buffers[1], size);
    if (result >= 0) result = time_ceiling(b, &c, record_copies, 64, &seconds);
    if (result >= 0) result = rate_set(b, &c);
    if (result >= 0) result = rate_pipeline(b, &c, RATES);
    if (result >= 0) result = time_ceiling(b, &c, record_copy_kernels, 64, &by_kernel);
    if (by_kernel < seconds) seconds = by_kernel;
    b->peak_bytes = 2 * (double)size / seconds;
    free_ceiling(b, &c);
    return result;
}

static dit_result measure_rate(bench *b, rate r) {
    ceiling c = DITI_ZERO;
    double seconds = 1;
    dit_result result = ceiling_buffer(b, &c.buffers[0], RATE_MOST_GROUPS * RATE_GROUP * sizeof(float));
    if (result >= 0) result = rate_set(b, &c);
    if (result >= 0) result = rate_pipeline(b, &c, r);
    if (result >= 0) result = time_ceiling(b, &c, record_rate, RATE_MOST, &seconds);
    b->peaks[r] = rate_flops(b->device, r) / seconds;
    free_ceiling(b, &c);
    return result;
}

/* The units with which the kernels of the case at hand make their products. */
static rate case_rate(const bench *b) {
    const diti_device *device = b->device;
    if (diti_type_is_i8(b->o.type)) return device->coop_i8 ? RATE_COOP_I8 : device->dot ? RATE_DOT : RATE_FMA;
    if (device->rung < DITI_RUNG_HALF) return RATE_FMA;
    return device->rung >= DITI_RUNG_COOP && rate_exists(device, RATE_COOP) ? RATE_COOP : RATE_HALF;
}

static bool rate_wanted(const bench *b, rate r) {
    if (b->o.no_ceilings || !rate_exists(b->device, r) || b->peaks[r] > 0) return false;
    return r == case_rate(b) || b->page || b->o.report || strcmp(b->o.op, "ceilings") == 0;
}

static int measure_ceilings(bench *b) {
    int r;
    for (r = 0; r < RATES; r++) {
        if (rate_wanted(b, (rate)r) && measure_rate(b, (rate)r) < 0) return failed(b);
    }
    return !b->o.no_ceilings && !(b->peak_bytes > 0) && measure_copy(b) < 0 ? failed(b) : EXIT_GOOD;
}

/* ---- a case as a plan: segment 0 brings the inputs, those after it are measured ---- */

enum { MEASURED = 1 };

static int begin_case(bench *b) {
    int code = open_context(b);
    if (!code) code = measure_ceilings(b);
    if (code) return code;
    memset(&b->line, 0, sizeof b->line);
    b->code = EXIT_GOOD;
    b->weight_bytes = 0;
    diti_graph_init(&b->graph, b->device);
    diti_graph_segment(&b->graph, "inputs", false);
    return EXIT_GOOD;
}

static void end_case(bench *b) {
    diti_plan_destroy(b->plan);
    b->plan = NULL;
    diti_graph_free(&b->graph);
    free_weights(b);
}

static diti_tensor input(bench *b, uint32_t rows, uint32_t columns, const char *name) {
    return diti_tensor_input(&b->graph, b->graph.activation, rows, columns, name);
}

/* Random values for an input tensor of floats. */
static dit_result write_input(bench *b, diti_tensor tensor) {
    const diti_tensor_info *info = &b->plan->tensors[tensor];
    size_t i, size = diti_element_size(info->format), count = (size_t)info->rows * info->columns;
    unsigned char *data = malloc(count * size);
    uint32_t state = (uint32_t)tensor;
    dit_result result;
    if (!data) return diti_fail(&b->err, DIT_ERROR_OUT_OF_HOST_MEMORY, "out of memory for inputs");
    for (i = 0; i < count; i++) {
        float f = random_float(&state);
        uint16_t half = diti_float_to_half(f);
        if (info->format == DITI_F16)
            memcpy(data + 2 * i, &half, 2);
        else
            memcpy(data + 4 * i, &f, 4);
    }
    result = diti_plan_write(b->plan, tensor, data, count * size, &b->err);
    free(data);
    return result;
}

static dit_result write_inputs(bench *b) {
    dit_result result = DIT_OK;
    uint32_t i;
    for (i = 1; i < b->plan->tensor_count && result >= 0; i++) {
        const diti_tensor_info *info = &b->plan->tensors[i];
        if (info->storage == DITI_STORAGE_INPUT && info->parent == i && info->format != DITI_U32)
            result = write_input(b, i);
    }
    return result;
}

/* Operations and bytes that the ops of a segment count for themselves. */
static void count_work(const diti_plan *plan, uint32_t segment, double *flops, double *bytes) {
    size_t i;
    *flops = *bytes = 0;
    for (i = 0; i < plan->source_count; i++) {
        if (plan->sources[i].segment != segment) continue;
        *flops += plan->sources[i].flops;
        *bytes += plan->sources[i].memory_bytes;
    }
}

/* Counts the bytes of expanded weights that a segment writes, and its barriers, each of which waits for all that was
   begun before. */
static void count_waits(const diti_plan *plan, uint32_t segment, double *expanded, double *barriers) {
    size_t i;
    *expanded = *barriers = 0;
    for (i = 0; i < plan->dispatch_count; i++) {
        const diti_plan_dispatch *piece = &plan->dispatches[i];
        const diti_dispatch *source = &plan->sources[piece->source];
        if (source->segment != segment) continue;
        *barriers += piece->barrier;
        if (!piece->first_group && !strcmp(source->name, "expand"))
            *expanded += (double)plan->tensors[source->bindings[1].tensor].bytes;
    }
}

static int make_plan(bench *b) {
    dit_result result;
    if (b->code) return b->code;
    result = diti_plan_create(&b->graph, NULL, &b->plan, &b->err);
    if (result >= 0) result = write_inputs(b);
    if (result >= 0) result = diti_plan_run(b->plan, 0, 1, &b->err);
    return result < 0 ? failed(b) : EXIT_GOOD;
}

static double segment_seconds(const diti_plan *plan, uint32_t segment) {
    double seconds = 0;
    uint32_t i;
    for (i = 0; i < plan->segments[segment].count; i++)
        seconds += stamped_seconds(plan->device, plan->queries, (plan->segments[segment].first + i) * 2);
    return seconds;
}

/* Drops a plan's command buffers and records them anew for its slices. */
static dit_result record_again(diti_plan *plan, dit_error *err) {
    diti_device *device = plan->device;
    size_t i;
    diti_plan_wait(plan);
    if (plan->queries) device->vk.DestroyQueryPool(device->device, plan->queries, device->callbacks);
    device->vk.DestroyCommandPool(device->device, plan->commands, device->callbacks);
    plan->queries = VK_NULL_HANDLE;
    plan->commands = VK_NULL_HANDLE;
    plan->unread_count = 0;
    for (i = 0; i < plan->slice_count; i++) plan->slices[i].primary = NULL;
    return diti_plan_record_primaries(plan, err);
}

/* --no-replay: as if nothing had been recorded before. The device's time does not tell what recording costs: the clock
 * does. */
static dit_result run_once(bench *b, uint32_t segment, times *t) {
    double wall = now(), cpu = cpu_now();
    dit_result result = b->o.no_replay ? record_again(b->plan, &b->err) : DIT_OK;
    if (result >= 0) result = diti_plan_run(b->plan, segment, 1, &b->err);
    t->wall = now() - wall;
    t->cpu = cpu_now() - cpu;
    t->device = result < 0 || b->o.no_replay ? 0 : segment_seconds(b->plan, segment);
    return result;
}

/* The first run pays for the driver's compiler and cold caches; it is not counted, nor are those that raise clocks. */
static int warm_up(bench *b, uint32_t segment, double *cold) {
    warming w;
    double seconds;
    times t;
    warming_begin(b, &w);
    *cold = 0;
    do {
        if (run_once(b, segment, &t) < 0) return failed(b);
        seconds = t.device > 0 ? t.device : *cold > 0 ? t.wall : 0;
        if (!(*cold > 0)) *cold = t.device > 0 ? t.device : t.wall;
    } while (still_warming(b, &w, seconds));
    return EXIT_GOOD;
}

static int measure(bench *b, uint32_t segment, times *out) {
    double device[MOST_RUNS], wall[MOST_RUNS], cpu[MOST_RUNS];
    uint32_t i, runs = b->o.runs;
    times t;
    int code = warm_up(b, segment, &out->cold);
    if (code) return code;
    for (i = 0; i < runs; i++) {
        if (run_once(b, segment, &t) < 0) return failed(b);
        device[i] = t.device;
        wall[i] = t.wall;
        cpu[i] = t.cpu;
    }
    out->device = median(device, runs);
    out->wall = median(wall, runs);
    out->cpu = median(cpu, runs);
    b->busy = now();
    return EXIT_GOOD;
}

/* ---- lines ---- */

static void print_text(FILE *out, const char *text) {
    fputc('"', out);
    for (; *text; text++) {
        if (*text == '"' || *text == '\\') fputc('\\', out);
        if ((unsigned char)*text >= ' ') fputc(*text, out);
    }
    fputc('"', out);
}

static void add_key(bench *b, const char *key, double value, const char *format) {
    size_t used = strlen(b->line.more);
    char text[64];
    if (!(value - value == 0)) value = 0; /* JSON has no infinity */
    snprintf(text, sizeof text, format, value);
    snprintf(b->line.more + used, sizeof b->line.more - used, ", \"%s\": %s", key, text);
}

static void add_text(bench *b, const char *key, const char *text) {
    size_t used = strlen(b->line.more);
    snprintf(b->line.more + used, sizeof b->line.more - used, ", \"%s\": \"%s\"", key, text);
}

static void add_bool(bench *b, const char *key, bool value) {
    size_t used = strlen(b->line.more);
    snprintf(b->line.more + used, sizeof b->line.more - used, ", \"%s\": %s", key, value ? "true" : "false");
}

/* The most host memory that this process has had, in bytes; 0 where the system does not say. */
static double peak_host_bytes(void) {
    FILE *file = fopen("/proc/self/status", "r");
    char text[256];
    unsigned long kilobytes = 0;
    while (file && fgets(text, sizeof text, file)) {
        if (sscanf(text, "VmHWM: %lu", &kilobytes) == 1) break;
    }
    if (file) fclose(file);
    return (double)kilobytes * 1024;
}

/* Device memory lies in host memory where the driver is software: counted once there. */
static void add_memory(bench *b, double device_bytes) {
    double host = peak_host_bytes();
    add_key(b, "memory", b->device->is_cpu && host > 0 ? host : host + device_bytes, "%.0f");
    add_key(b, "device_bytes", device_bytes, "%.0f");
    add_key(b, "host_peak_bytes", host, "%.0f");
}

static void add_waits(bench *b) {
    add_key(b, "expanded_bytes_per_step", b->line.expanded, "%.0f");
    add_key(b, "barriers_per_step", b->line.barriers, "%.0f");
}

/* ---- the table of --report ---- */

static void print_ceilings(const bench *b) {
    int r;
    fprintf(b->page, "%s, rung %s: copies %.1f GB/s (read and written); in registers, GFLOP/s:", b->device->info.name,
            diti_rung_name(b->device->rung), b->peak_bytes * 1e-9);
    for (r = 0; r < RATES; r++) {
        if (b->peaks[r] > 0) fprintf(b->page, "%s %s %.1f", r ? "," : "", rates[r].what, b->peaks[r] * 1e-9);
    }
    fprintf(b->page, ".\n");
}

static void begin_table(const bench *b) {
    fprintf(b->page,
            "\n| case | type | ms | GFLOP/s | GB/s | of the ceiling |\n| --- | --- | --- | --- | --- | --- |\n");
    fflush(b->page);
}

static int open_report(bench *b) {
    if (!b->o.report || b->page) return EXIT_GOOD;
    if (!output_open(&b->report, b->o.report))
        return complain(exit_code_of_writing(errno), "--report %s: %s", b->o.report, told_reason(errno));
    b->page = b->report.file;
    print_ceilings(b);
    begin_table(b);
    return EXIT_GOOD;
}

static void report_line(const bench *b, double seconds, double fraction) {
    const line *l = &b->line;
    char sizes[64];
    if (!b->page) return;
    diti_format(sizes, sizeof sizes, "%u × %u × %u", l->m, l->n, l->k);
    fprintf(b->page, "| %s %s | %s | %.3f | %.2f | %.2f | %.0f %% |\n", l->op, l->title[0] ? l->title : sizes, l->type,
            seconds * 1e3, l->flops / seconds * 1e-9, l->bytes / seconds * 1e-9, fraction * 100);
    fflush(b->page);
}

/* ---- lines, to their end ---- */

/* Seconds of a run: the device's time where it is known. */
static double line_seconds(const bench *b) { return b->line.t.device > 0 ? b->line.t.device : b->line.t.wall; }

/* A case is bounded by arithmetic or by memory, by whichever share of the ceiling is larger; the share tells how near
   it comes. */
static double ceiling_fraction(const bench *b, double seconds, const char **bound) {
    rate r = case_rate(b);
    double flops = b->peaks[r] > 0 ? b->line.flops / b->peaks[r] : 0;
    double bytes = b->peak_bytes > 0 ? b->line.bytes / b->peak_bytes : 0;
    *bound = flops > bytes ? rates[r].name : "copy";
    return (flops > bytes ? flops : bytes) / seconds;
}

static void print_line(bench *b) {
    const line *l = &b->line;
    const char *bound;
    double seconds = line_seconds(b), fraction = ceiling_fraction(b, seconds, &bound);
    report_line(b, seconds, fraction);
    if (!b->out) return;
    fprintf(b->out,
            "{\"op\": \"%s\", \"m\": %u, \"n\": %u, \"k\": %u, \"type\": \"%s\", \"rung\": \"%s\", \"device\": ", l->op,
            l->m, l->n, l->k, l->type, diti_rung_name(b->device->rung));
    print_text(b->out, b->device->info.name);
    add_key(b, "gflops", l->flops / seconds * 1e-9, "%.6g");
    add_key(b, "gbytes_per_s", l->bytes / seconds * 1e-9, "%.6g");
    add_key(b, "seconds", seconds, "%.6f");
    add_key(b, "wall_seconds", l->t.wall, "%.6f");
    if (l->t.cold > 0) add_key(b, "cold_seconds", l->t.cold, "%.6f");
    add_key(b, "cpu_seconds", l->t.cpu, "%.6f");
    add_key(b, "gflops_per_core", l->t.cpu > 0 ? l->flops / l->t.cpu * 1e-9 : 0, "%.3f");
    if (b->peak_bytes > 0) {
        add_key(b, "peak_gflops", b->peaks[case_rate(b)] * 1e-9, "%.3f");
        add_key(b, "peak_gbytes_per_s", b->peak_bytes * 1e-9, "%.3f");
        add_text(b, "bound", bound);
        add_key(b, "fraction", fraction, "%.4f");
    }
    fprintf(b->out, "%s}\n", l->more);
    fflush(b->out);
}

/* ---- profile: every dispatch in a command buffer of its own ---- */

/* Makes the slices of a plan hold one dispatch each, and records them anew. */
static dit_result split_plan(diti_plan *plan, dit_error *err) {
    diti_device *device = plan->device;
    diti_plan_slice *slices =
        (diti_plan_slice *)diti_alloc_array(&device->env, plan->dispatch_count + plan->slice_count, sizeof *slices);
    size_t count = 0;
    uint32_t segment, i;
    if (!slices) return diti_fail(err, DIT_ERROR_OUT_OF_HOST_MEMORY, "out of memory for the profile");
    for (segment = 0; segment < plan->segment_count; segment++) {
        diti_segment *s = &plan->segments[segment];
        size_t first = count;
        for (i = 0; i < s->count; i++) {
            const diti_plan_slice *old = &plan->slices[s->first + i];
            uint32_t d = old->first, end = old->first + old->count;
            do {
                slices[count].segment = segment;
                slices[count].batch = old->batch;
                slices[count].first = d;
                slices[count].count = d < end ? 1 : 0;
                slices[count++].us = 1;
            } while (++d < end);
        }
        s->first = (uint32_t)first;
        s->count = (uint32_t)(count - first);
    }
    diti_plan_wait(plan);
    diti_free(&device->env, plan->slices);
    plan->slices = slices;
    plan->slice_count = plan->slice_capacity = count;
    return record_again(plan, err);
}

typedef struct profile_row {
    const char *segment, *name;
    uint32_t count; /* dispatches in a run of the segment */
    double seconds, flops, bytes;
    uint32_t repeats; /* runs of the segment that the total counts */
} profile_row;

static profile_row *profile_find(profile_row *rows, uint32_t *count, const char *segment, const char *name) {
    uint32_t i;
    for (i = 0; i < *count; i++) {
        if (strcmp(rows[i].segment, segment) == 0 && strcmp(rows[i].name, name) == 0) return &rows[i];
    }
    rows[i].segment = segment;
    rows[i].name = name;
    (*count)++;
    return &rows[i];
}

static int compare_rows(const void *a, const void *b) {
    const profile_row *x = (const profile_row *)a, *y = (const profile_row *)b;
    double d = y->seconds * y->repeats - x->seconds * x->repeats;
    return (d > 0) - (d < 0);
}

static void print_profile(bench *b, profile_row *rows, uint32_t count) {
    double total = 0;
    uint32_t i;
    qsort(rows, count, sizeof *rows, compare_rows);
    for (i = 0; i < count; i++) total += rows[i].seconds * rows[i].repeats;
    for (i = 0; i < count; i++) {
        const profile_row *row = &rows[i];
        fprintf(b->out,
                "{\"op\": \"profile\", \"segment\": \"%s\", \"name\": \"%s\", \"dispatches\": %u, \"repeats\": %u, "
                "\"seconds\": %.6f, \"share\": %.4f, \"gflops\": %.3f, \"gbytes_per_s\": %.3f}\n",
                row->segment, row->name, row->count, row->repeats, row->seconds,
                total > 0 ? row->seconds * row->repeats / total : 0,
                row->seconds > 0 ? row->flops / row->seconds * 1e-9 : 0,
                row->seconds > 0 ? row->bytes / row->seconds * 1e-9 : 0);
    }
    fflush(b->out);
}

/* Seconds of each slice of a segment, medians over some runs. */
static dit_result profile_runs(bench *b, diti_plan *plan, uint32_t segment, double *medians) {
    enum { RUNS = 3 };
    const diti_segment *s = &plan->segments[segment];
    double *samples = malloc((size_t)s->count * RUNS * sizeof *samples);
    dit_result result = samples ? DIT_OK : diti_fail(&b->err, DIT_ERROR_OUT_OF_HOST_MEMORY, "out of memory");
    uint32_t run, i;
    for (run = 0; run < RUNS && result >= 0; run++) {
        result = diti_plan_run(plan, segment, 1, &b->err);
        for (i = 0; i < s->count && result >= 0; i++)
            samples[i * RUNS + run] = stamped_seconds(plan->device, plan->queries, (s->first + i) * 2);
    }
    for (i = 0; i < s->count && result >= 0; i++) medians[i] = median(samples + i * RUNS, RUNS);
    free(samples);
    return result;
}

static int profile_segment(bench *b, diti_plan *plan, uint32_t segment, uint32_t repeats, profile_row *rows,
                           uint32_t *count) {
    const diti_segment *s = &plan->segments[segment];
    double *seconds = malloc(s->count * sizeof *seconds);
    uint32_t i;
    if (!seconds || profile_runs(b, plan, segment, seconds) < 0) return free(seconds), failed(b);
    for (i = 0; i < s->count; i++) {
        const diti_plan_slice *slice = &plan->slices[s->first + i];
        const diti_plan_dispatch *dispatch = &plan->dispatches[slice->first];
        const diti_dispatch *source = &plan->sources[dispatch->source];
        double part = (double)dispatch->groups / source->groups;
        profile_row *row;
        if (!slice->count) continue;
        row = profile_find(rows, count, s->name, source->name);
        row->count++;
        row->repeats = repeats;
        row->seconds += seconds[i];
        row->flops += source->flops * part;
        row->bytes += source->memory_bytes * part;
    }
    free(seconds);
    return EXIT_GOOD;
}

/* One line per op of a plan's segments; `repeated` of them runs `repeats` times in the whole. */
static int profile(bench *b, diti_plan *plan, uint32_t repeated, uint32_t repeats) {
    profile_row *rows = calloc(plan->source_count + 1, sizeof *rows);
    uint32_t segment, count = 0;
    int code = EXIT_GOOD;
    if (!rows) return complain(EXIT_MEMORY, "out of memory for the profile");
    if (!plan->queries) code = complain(EXIT_USAGE, "--profile: this device's queue has no timestamps");
    if (!code && split_plan(plan, &b->err) < 0) code = failed(b);
    for (segment = 0; segment < plan->segment_count && !code; segment++)
        code = profile_segment(b, plan, segment, segment == repeated ? repeats : 1, rows, &count);
    if (!code) print_profile(b, rows, count);
    free(rows);
    return code;
}

/* ---- a case of one segment, from its graph to its line ---- */

static int finish_case(bench *b) {
    int code = make_plan(b);
    if (!code) code = measure(b, MEASURED, &b->line.t);
    if (code) return code;
    count_work(b->plan, MEASURED, &b->line.flops, &b->line.bytes);
    print_line(b);
    return b->o.profile ? profile(b, b->plan, MEASURED, 1) : EXIT_GOOD;
}
#endif
