/* dit-bench: how fast dit.h is on a device. One JSON line per case on stdout, messages on stderr. See usage_text.

   The way of a case: it appends its ops to a graph (case_gemm, case_attention), the graph becomes a plan as it does in
   a job, and the plan's segment runs several times (measure). Times are the device's own, the sum over the segment's
   command buffers, where its queue has timestamps; else the clock's. A time never fails anything. */
#define DIT_IMPLEMENTATION
#include "dit.h"
#include <errno.h>
#include <time.h>
#ifndef _WIN32
#include <unistd.h>
#endif

static const char usage_text[] =
    "usage: dit-bench CASE [options]     prints one JSON line per case\n"
    "\n"
    "gemm, gemv  x [m, k] times weights [n, k]: --m 1024 (gemv: 1) --n 1024 --k 1024 --type f32[,q8_0...]\n"
    "attention   --tokens 1024 --heads 8 --head-dim 64 [--keys TOKENS] [--batch 1]\n"
    "conv        --size 64 (height and width) --in 128 --out 128 --kernel 3 (or 1) --type f32\n"
    "norm, copy  m rows of k numbers: --m 1024 --k 1024\n"
    "expand      packed weights [n, k] to the format that kernels compute with: --type q8_0\n"
    "model       a picture, from the start of this process to its pixels: [--model PATH] [--prompt TEXT] [--steps N]\n"
    "            [--width W --height H] [--cfg-scale S]. Cold and warm are the caches you leave to it: Mesa keeps compiled\n"
    "            kernels in MESA_SHADER_CACHE_DIR, other drivers in the file of --cache. --runs N: N more, restarted.\n"
    "\n"
    "--type T    of the weights: f32 f16 bf16 f8_e4m3 f8_e5m2 q8_0 q4_0 q4_1 q5_0 q5_1 q2_k q3_k q4_k q5_k q6_k, or several\n"
    "            with commas between them\n"
    "--device D  an index, a part of a name or a UUID, as dit understands it; else the best one\n"
    "--rung R    base or fp16; else the highest that works\n"
    "--form F    kernels for a cpu or a gpu; else what the device is\n"
    "--runs N    timed runs, after one that is not counted (7); figures are medians\n"
    "--slice-us  longest command buffer (50000, dit's own default)\n"
    "--profile   then one more line per op: each dispatch alone between timestamps\n"
    "\n"
    "gflops comes from seconds: the device's time where it has timestamps, else the clock's (wall_seconds). cpu_seconds are\n"
    "this process's; with a software driver on a shared machine compare gflops_per_core, operations by cpu_seconds.\n"
    "fraction is the share of what the device can do at best, bytes copied or multiply-adds in registers, measured first.\n";

enum { EXIT_GOOD = 0, EXIT_FAILED = 1, EXIT_USAGE = 2, MOST_RUNS = 999 };

/* ---- options ---- */

typedef struct options {
    const char *op, *device, *rung, *form, *types, *model, *prompt, *cache;
    uint32_t m, n, k, tokens, keys, heads, head_dim, batch, size, in, out, kernel;
    uint32_t steps, width, height, cfg_scale, runs, slice_us;
    bool profile;
    dit_type type; /* of the case at hand */
} options;

typedef struct option {
    const char *name;
    size_t offset;
    uint32_t most; /* 0: a text */
} option;

static const option option_table[] = {
    {"--device", offsetof(options, device), 0},
    {"--rung", offsetof(options, rung), 0},
    {"--form", offsetof(options, form), 0},
    {"--type", offsetof(options, types), 0},
    {"--model", offsetof(options, model), 0},
    {"--prompt", offsetof(options, prompt), 0},
    {"--cache", offsetof(options, cache), 0},
    {"--m", offsetof(options, m), 1u << 24},
    {"--n", offsetof(options, n), 1u << 20},
    {"--k", offsetof(options, k), 1u << 20},
    {"--tokens", offsetof(options, tokens), 1u << 22},
    {"--keys", offsetof(options, keys), 1u << 22},
    {"--heads", offsetof(options, heads), 1024},
    {"--head-dim", offsetof(options, head_dim), 512},
    {"--batch", offsetof(options, batch), 65536},
    {"--size", offsetof(options, size), 8192},
    {"--in", offsetof(options, in), 65536},
    {"--out", offsetof(options, out), 65536},
    {"--kernel", offsetof(options, kernel), 3},
    {"--steps", offsetof(options, steps), 1000},
    {"--width", offsetof(options, width), 16384},
    {"--height", offsetof(options, height), 16384},
    {"--cfg-scale", offsetof(options, cfg_scale), 100},
    {"--runs", offsetof(options, runs), MOST_RUNS},
    {"--slice-us", offsetof(options, slice_us), 600000000},
};

static int complain(const char *format, ...) DITI_PRINTF(1, 2);
static int complain(const char *format, ...) {
    va_list arguments;
    fputs("dit-bench: ", stderr);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    return EXIT_USAGE;
}

static int take_number(const option *known, const char *text, uint32_t *out) {
    char *end;
    unsigned long long value;
    errno = 0;
    value = strtoull(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end || errno || value < 1 || value > known->most)
        return complain("%s %s: give a whole number from 1 to %u", known->name, text, known->most);
    *out = (uint32_t)value;
    return EXIT_GOOD;
}

static int take_option(options *o, const char *name, const char *value) {
    size_t i;
    for (i = 0; i < DITI_COUNT(option_table); i++) {
        const option *known = &option_table[i];
        if (strcmp(known->name, name) != 0) continue;
        if (!value) return complain("%s: a value is missing after it", name);
        if (known->most) return take_number(known, value, (uint32_t *)(void *)((char *)o + known->offset));
        *(const char **)(void *)((char *)o + known->offset) = value;
        return EXIT_GOOD;
    }
    return complain("%s: there is no such option; dit-bench --help lists them", name);
}

static void default_number(uint32_t *value, uint32_t otherwise) {
    if (!*value) *value = otherwise;
}

static int take_options(options *o, int count, char **texts) {
    int i, code;
    o->op = texts[1];
    for (i = 2; i < count; i++) {
        if (strcmp(texts[i], "--profile") == 0) {
            o->profile = true;
            continue;
        }
        code = take_option(o, texts[i], i + 1 < count ? texts[i + 1] : NULL);
        if (code) return code;
        i++;
    }
    if (strcmp(o->op, "model") != 0) default_number(&o->runs, 7);
    default_number(&o->m, strcmp(o->op, "gemv") == 0 ? 1 : 1024);
    default_number(&o->n, 1024);
    default_number(&o->k, 1024);
    default_number(&o->tokens, 1024);
    default_number(&o->keys, o->tokens);
    default_number(&o->heads, 8);
    default_number(&o->head_dim, 64);
    default_number(&o->batch, 1);
    default_number(&o->size, 64);
    default_number(&o->in, 128);
    default_number(&o->out, 128);
    default_number(&o->kernel, 3);
    if (!o->types) o->types = strcmp(o->op, "expand") == 0 ? "q8_0" : "f32";
    return EXIT_GOOD;
}

static char lower(char c) { return (char)(c >= 'A' && c <= 'Z' ? c + 32 : c); }

/* "q8_0" for DIT_TYPE_Q8_0 */
static const char *type_text(dit_type type, char out[32]) {
    const char *name = diti_type_name(type);
    size_t i;
    for (i = 0; name[i] && i < 31; i++) out[i] = lower(name[i]);
    out[i] = 0;
    return out;
}

/* The type whose name stands at text[0..length). */
static bool find_type(const char *text, size_t length, dit_type *out) {
    char name[32];
    int type;
    for (type = DIT_TYPE_F32; type <= DIT_TYPE_Q6_K; type++) {
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

/* ---- the bench ---- */

typedef struct held { /* random weights, kept while their plan lives */
    diti_weight weight;
    diti_buffer buffers[DITI_MAX_WEIGHT_PARTS];
    struct held *next;
} held;

typedef struct times { /* seconds of one run: medians over all */
    double device, wall, cpu;
} times;

typedef struct line { /* what a case prints */
    const char *op, *type;
    uint32_t m, n, k;
    double flops, bytes;
    times t;
    char more[512]; /* further keys: ", \"tokens\": 1024" */
} line;

typedef struct bench {
    options o;
    FILE *out;
    double started; /* when the process began */
    diti_env env;
    dit_context *context;
    diti_device *device;
    diti_graph graph;
    diti_plan *plan;
    held *weights;
    double peak_flops, peak_bytes; /* per second; 0: not measured yet */
    line line;
    dit_error err;
} bench;

static double now(void) {
    struct timespec t;
#ifdef _WIN32
    timespec_get(&t, TIME_UTC);
#else
    clock_gettime(CLOCK_MONOTONIC, &t);
#endif
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double cpu_now(void) { return (double)clock() / CLOCKS_PER_SEC; }

static int failed(bench *b) {
    complain("%s", b->err.message[0] ? b->err.message : "failed, for a reason that was not told");
    return EXIT_FAILED;
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
        return complain("--form %s: there are cpu and gpu", o->form);
    if (o->rung && (strlen(o->rung) > 20 || strchr(o->rung, ',')))
        return complain("--rung %s: there is no such rung", o->rung);
    diti_format(out, size, "%s%s%s%s", o->rung ? "rung=" : "", o->rung ? o->rung : "", o->rung && o->form ? "," : "",
                !o->form                      ? ""
                : strcmp(o->form, "cpu") == 0 ? "cpu=1"
                                              : "cpu=0");
    return EXIT_GOOD;
}

static int open_context(bench *b, const void *cache, size_t cache_size) {
    dit_context_desc desc = DITI_ZERO;
    char overrides[64];
    int code = make_overrides(&b->o, overrides, sizeof overrides);
    if (code || b->context) return code;
    desc.devices = b->o.device;
    desc.overrides = overrides;
    desc.max_dispatch_us = b->o.slice_us;
    desc.cache = cache;
    desc.cache_size = cache_size;
    if (dit_context_create(&desc, &b->context, &b->err) < 0) return failed(b);
    b->device = b->context->device;
    b->env = b->context->env;
    if (!b->o.rung || diti_equal(b->o.rung, diti_rung_name(b->device->rung))) return EXIT_GOOD;
    return complain("--rung %s: %s fails its self-test there; leave --rung out to use %s", b->o.rung,
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
    case DIT_TYPE_Q5_K: memcpy(block + 2, &scale, 2); break;
    default: break;
    }
    i = type == DIT_TYPE_Q2_K ? 80 : type == DIT_TYPE_Q3_K ? 108 : type == DIT_TYPE_Q6_K ? 208 : 0;
    memcpy(block + i, &scale, 2);
}

/* Fills a buffer with copies of some random blocks. */
static int random_buffer(bench *b, diti_buffer *buffer, dit_type type, uint64_t bytes) {
    enum { BLOCKS = 4096 };
    uint32_t i, state = 1, block = diti_type_block_bytes(type);
    uint64_t chunk = (uint64_t)BLOCKS * block, done, size;
    unsigned char *data = malloc((size_t)chunk);
    dit_result result = DIT_OK;
    if (!data) return complain("out of memory for random weights");
    for (i = 0; i < BLOCKS; i++) random_block(type, data + (size_t)i * block, &state);
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
    diti_buffer *buffer = &h->buffers[weight->part_count];
    if (weight->part_count == DITI_MAX_WEIGHT_PARTS)
        return complain("weights [%u, %u] are too large for this device; choose smaller sizes", weight->rows,
                        weight->columns);
    if (diti_buffer_create(b->device, rows * row_bytes, DITI_MEMORY_DEVICE, "random weights", buffer, &b->err) < 0)
        return failed(b);
    part->buffer = buffer;
    part->first_row = weight->part_count ? part[-1].first_row + part[-1].rows : 0;
    part->rows = rows;
    weight->part_count++;
    return random_buffer(b, buffer, weight->type, rows * row_bytes);
}

/* Random weights [rows, columns]; NULL when that failed, and told. */
static const diti_weight *random_weight(bench *b, dit_type type, uint32_t rows, uint32_t columns, uint32_t kernel) {
    held *h = calloc(1, sizeof *h);
    uint64_t row_bytes = 0, limit = b->device->limits.storage_range, most;
    uint32_t done, part;
    int code = EXIT_GOOD;
    char name[32];
    if (!h) return complain("out of memory for random weights"), NULL;
    h->next = b->weights;
    b->weights = h;
    h->weight.name = "random";
    h->weight.type = type;
    h->weight.rows = rows;
    h->weight.columns = columns;
    h->weight.kernel = kernel;
    if (!diti_type_bytes(type, 1, columns, &row_bytes)) {
        complain(
            "rows of %u values don't divide into blocks of %u; give sizes that are multiples of it, or a --type other than %s",
            columns, diti_type_block(type), type_text(type, name));
        return NULL;
    }
    if (limit > b->device->limits.allocation) limit = b->device->limits.allocation;
    most = limit / row_bytes > 4 ? limit / row_bytes / 4 * 4 : 1;
    for (done = 0; done < rows && !code; done += part) {
        part = rows - done < most ? rows - done : (uint32_t)most;
        code = random_part(b, h, part, row_bytes);
    }
    return code ? NULL : &h->weight;
}

static void free_weights(bench *b) {
    while (b->weights) {
        held *h = b->weights;
        uint32_t i;
        for (i = 0; i < DITI_MAX_WEIGHT_PARTS; i++) diti_buffer_destroy(b->device, &h->buffers[i]);
        b->weights = h->next;
        free(h);
    }
}

/* ---- what the device can do at best, measured before the first case: copies, and multiply-adds in registers ---- */

static const uint32_t fma_words[] = {
#include "bench_fma.inc"
};
#define FMA_FLOPS (2.0 * 256 * 4 * 8) /* of an invocation of bench_fma.comp */
#define FMA_GROUP 64u
#define FMA_MOST_GROUPS 32768u

typedef struct ceiling { /* one of the two measurements */
    diti_buffer buffers[2];
    VkShaderModule module;
    VkPipeline pipeline;
    VkDescriptorPool pool;
    VkDescriptorSet set;
    uint32_t amount; /* workgroups, or copies */
} ceiling;

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

static void record_fma(diti_device *device, VkCommandBuffer commands, void *user) {
    const ceiling *c = user;
    const VkPipelineBindPoint compute = VK_PIPELINE_BIND_POINT_COMPUTE;
    device->vk.CmdBindPipeline(commands, compute, c->pipeline);
    device->vk.CmdBindDescriptorSets(commands, compute, device->pipeline_layout, 0, 1, &c->set, 0, NULL);
    device->vk.CmdDispatch(commands, c->amount, 1, 1);
}

/* Doubles the amount until it takes 20 ms, then takes the best of five; seconds per amount. */
static dit_result time_ceiling(bench *b, ceiling *c, diti_record_function record, uint32_t most, double *out) {
    double best = 0, begin, seconds = 0;
    dit_result result;
    uint32_t i;
    for (c->amount = 1; c->amount < most && seconds < 0.02; c->amount *= 2) {
        begin = now();
        result = diti_run_now(b->device, record, c, &b->err);
        if (result < 0) return result;
        seconds = now() - begin;
    }
    for (i = 0; i < 5; i++) {
        begin = now();
        result = diti_run_now(b->device, record, c, &b->err);
        if (result < 0) return result;
        seconds = now() - begin;
        if (!best || seconds < best) best = seconds;
    }
    *out = best / c->amount;
    return DIT_OK;
}

static dit_result fma_pipeline(bench *b, ceiling *c) {
    diti_device *device = b->device;
    VkShaderModuleCreateInfo module = DITI_ZERO;
    VkComputePipelineCreateInfo pipeline = DITI_ZERO;
    VkResult vk;
    module.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO;
    module.codeSize = sizeof fma_words;
    module.pCode = fma_words;
    pipeline.sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO;
    pipeline.stage.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO;
    pipeline.stage.stage = VK_SHADER_STAGE_COMPUTE_BIT;
    pipeline.stage.pName = "main";
    pipeline.layout = device->pipeline_layout;
    vk = device->vk.CreateShaderModule(device->device, &module, device->callbacks, &c->module);
    pipeline.stage.module = c->module;
    if (vk == VK_SUCCESS)
        vk = device->vk.CreateComputePipelines(device->device, VK_NULL_HANDLE, 1, &pipeline, device->callbacks,
                                               &c->pipeline);
    return vk == VK_SUCCESS ? DIT_OK : diti_device_fail(device, vk, "vkCreateComputePipelines", &b->err);
}

/* Every binding of dit's layout holds the one buffer. */
static dit_result fma_set(bench *b, ceiling *c) {
    diti_device *device = b->device;
    VkDescriptorPoolSize size = {VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, DITI_MAX_BINDINGS};
    VkDescriptorPoolCreateInfo pool = DITI_ZERO;
    VkDescriptorSetAllocateInfo allocate = DITI_ZERO;
    VkDescriptorBufferInfo range = {c->buffers[0].buffer, 0, VK_WHOLE_SIZE};
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
        writes[i].pBufferInfo = &range;
    }
    device->vk.UpdateDescriptorSets(device->device, DITI_MAX_BINDINGS, writes, 0, NULL);
    return DIT_OK;
}

static dit_result ceiling_buffer(bench *b, diti_buffer *buffer, VkDeviceSize size) {
    return diti_buffer_create(b->device, size, DITI_MEMORY_DEVICE, "measuring the device", buffer, &b->err);
}

static void free_ceiling(bench *b, ceiling *c) {
    diti_device *device = b->device;
    if (c->pool) device->vk.DestroyDescriptorPool(device->device, c->pool, device->callbacks);
    if (c->pipeline) device->vk.DestroyPipeline(device->device, c->pipeline, device->callbacks);
    if (c->module) device->vk.DestroyShaderModule(device->device, c->module, device->callbacks);
    diti_buffer_destroy(device, &c->buffers[0]);
    diti_buffer_destroy(device, &c->buffers[1]);
}

static dit_result measure_copy(bench *b) {
    ceiling c = DITI_ZERO;
    VkDeviceSize size = (VkDeviceSize)(b->device->is_cpu ? 64 : 256) << 20;
    double seconds = 1;
    dit_result result = ceiling_buffer(b, &c.buffers[0], size);
    if (result >= 0) result = ceiling_buffer(b, &c.buffers[1], size);
    if (result >= 0) result = time_ceiling(b, &c, record_copies, 64, &seconds);
    b->peak_bytes = 2 * (double)size / seconds; /* read and written */
    free_ceiling(b, &c);
    return result;
}

static dit_result measure_fma(bench *b) {
    ceiling c = DITI_ZERO;
    double seconds = 1;
    dit_result result = ceiling_buffer(b, &c.buffers[0], FMA_MOST_GROUPS * FMA_GROUP * sizeof(float));
    if (result >= 0) result = fma_set(b, &c);
    if (result >= 0) result = fma_pipeline(b, &c);
    if (result >= 0) result = time_ceiling(b, &c, record_fma, FMA_MOST_GROUPS, &seconds);
    b->peak_flops = FMA_FLOPS * FMA_GROUP / seconds;
    free_ceiling(b, &c);
    return result;
}

static int measure_ceilings(bench *b) {
    if (b->peak_flops > 0) return EXIT_GOOD;
    if (measure_copy(b) < 0 || measure_fma(b) < 0) return failed(b);
    return EXIT_GOOD;
}

/* ---- a case as a plan: segment 0 brings the inputs, segment 1 is measured ---- */

enum { MEASURED = 1 };

static int begin_case(bench *b) {
    int code = open_context(b, NULL, 0);
    if (!code) code = measure_ceilings(b);
    if (code) return code;
    memset(&b->line, 0, sizeof b->line);
    diti_graph_init(&b->graph, b->device);
    diti_graph_segment(&b->graph, "inputs", false);
    diti_graph_segment(&b->graph, "measured", true);
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

static int make_plan(bench *b) {
    dit_result result = diti_plan_create(&b->graph, NULL, &b->plan, &b->err);
    if (result >= 0) result = write_inputs(b);
    if (result >= 0) result = diti_plan_run(b->plan, 0, MEASURED, &b->err);
    if (result < 0) return failed(b);
    count_work(b->plan, MEASURED, &b->line.flops, &b->line.bytes);
    return EXIT_GOOD;
}

/* Seconds between the timestamps around a command buffer; 0 where there are none. */
static double slice_seconds(const diti_plan *plan, size_t slice) {
    const diti_device *device = plan->device;
    uint32_t bits = device->limits.timestamp_bits;
    uint64_t ticks[2], mask = bits >= 64 ? UINT64_MAX : ((uint64_t)1 << bits) - 1;
    if (!plan->queries ||
        device->vk.GetQueryPoolResults(device->device, plan->queries, (uint32_t)slice * 2, 2, sizeof ticks, ticks,
                                       sizeof ticks[0], VK_QUERY_RESULT_64_BIT) != VK_SUCCESS)
        return 0;
    return (double)((ticks[1] - ticks[0]) & mask) * device->limits.timestamp_period * 1e-9;
}

static double segment_seconds(const diti_plan *plan, uint32_t segment) {
    double seconds = 0;
    uint32_t i;
    for (i = 0; i < plan->segments[segment].count; i++)
        seconds += slice_seconds(plan, plan->segments[segment].first + i);
    return seconds;
}

static dit_result run_once(bench *b, uint32_t segment, times *t) {
    double wall = now(), cpu = cpu_now();
    dit_result result = diti_plan_run(b->plan, segment, 1, &b->err);
    t->wall = now() - wall;
    t->cpu = cpu_now() - cpu;
    t->device = result < 0 ? 0 : segment_seconds(b->plan, segment);
    return result;
}

/* The first run pays for the driver's compiler and cold caches: it is not counted. */
static int measure(bench *b, uint32_t segment, times *out) {
    double device[MOST_RUNS], wall[MOST_RUNS], cpu[MOST_RUNS];
    uint32_t i, runs = b->o.runs;
    times t;
    for (i = 0; i <= runs; i++) {
        if (run_once(b, segment, &t) < 0) return failed(b);
        if (i == 0) continue;
        device[i - 1] = t.device;
        wall[i - 1] = t.wall;
        cpu[i - 1] = t.cpu;
    }
    out->device = median(device, runs);
    out->wall = median(wall, runs);
    out->cpu = median(cpu, runs);
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

/* The larger of both shares: what bounds the case, and how near it comes. */
static void add_ceilings(bench *b, double seconds) {
    double flops = b->line.flops / b->peak_flops, bytes = b->line.bytes / b->peak_bytes;
    if (!(b->peak_flops > 0)) return;
    add_key(b, "peak_gflops", b->peak_flops * 1e-9, "%.3f");
    add_key(b, "peak_gbytes_per_s", b->peak_bytes * 1e-9, "%.3f");
    add_key(b, "fraction", (flops > bytes ? flops : bytes) / seconds, "%.4f");
}

static void print_line(bench *b) {
    const line *l = &b->line;
    double seconds = l->t.device > 0 ? l->t.device : l->t.wall;
    fprintf(b->out,
            "{\"op\": \"%s\", \"m\": %u, \"n\": %u, \"k\": %u, \"type\": \"%s\", \"rung\": \"%s\", \"device\": ", l->op,
            l->m, l->n, l->k, l->type, diti_rung_name(b->device->rung));
    print_text(b->out, b->device->info.name);
    add_key(b, "gflops", l->flops / seconds * 1e-9, "%.3f");
    add_key(b, "gbytes_per_s", l->bytes / seconds * 1e-9, "%.3f");
    add_key(b, "seconds", seconds, "%.6f");
    add_key(b, "wall_seconds", l->t.wall, "%.6f");
    add_key(b, "cpu_seconds", l->t.cpu, "%.6f");
    add_key(b, "gflops_per_core", l->t.cpu > 0 ? l->flops / l->t.cpu * 1e-9 : 0, "%.3f");
    add_ceilings(b, seconds);
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
    if (plan->queries) device->vk.DestroyQueryPool(device->device, plan->queries, device->callbacks);
    device->vk.DestroyCommandPool(device->device, plan->commands, device->callbacks);
    device->vk.DestroySemaphore(device->device, plan->timeline, device->callbacks);
    plan->queries = VK_NULL_HANDLE;
    plan->submitted = plan->pending_value = 0;
    return diti_plan_record_primaries(plan, err);
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
        for (i = 0; i < s->count && result >= 0; i++) samples[i * RUNS + run] = slice_seconds(plan, s->first + i);
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
    if (!rows) return complain("out of memory for the profile");
    if (!plan->queries) code = complain("--profile: this device's queue has no timestamps");
    if (!code && split_plan(plan, &b->err) < 0) code = failed(b);
    for (segment = 0; segment < plan->segment_count && !code; segment++)
        code = profile_segment(b, plan, segment, segment == repeated ? repeats : 1, rows, &count);
    if (!code) print_profile(b, rows, count);
    free(rows);
    return code;
}

/* ---- cases of one op ---- */

static int finish_case(bench *b) {
    int code = make_plan(b);
    if (!code) code = measure(b, MEASURED, &b->line.t);
    if (code) return code;
    print_line(b);
    return b->o.profile ? profile(b, b->plan, MEASURED, 1) : EXIT_GOOD;
}

static int case_gemm(bench *b) {
    const options *o = &b->o;
    diti_linear_desc desc = DITI_ZERO;
    const diti_weight *weight = random_weight(b, o->type, o->n, o->k, 1);
    if (!weight) return EXIT_USAGE;
    b->line.m = o->m;
    b->line.n = o->n;
    b->line.k = o->k;
    desc.name = "gemm";
    diti_linear(&b->graph, input(b, o->m, o->k, "x"), weight, &desc);
    return finish_case(b);
}

static int case_attention(bench *b) {
    const options *o = &b->o;
    diti_attention_desc desc = DITI_ZERO;
    uint32_t width = o->heads * o->head_dim;
    diti_tensor q, k, v;
    desc.batch = o->batch;
    desc.heads = o->heads;
    desc.head_dim = o->head_dim;
    desc.scale = 1.0f / sqrtf((float)o->head_dim);
    q = input(b, o->batch * o->tokens, width, "q");
    k = input(b, o->batch * o->keys, width, "k");
    v = input(b, o->batch * o->keys, width, "v");
    diti_attention(&b->graph, q, k, v, &desc);
    b->line.m = o->tokens;
    b->line.n = o->keys;
    b->line.k = o->head_dim;
    b->line.type = b->graph.activation == DITI_F16 ? "f16" : "f32";
    add_key(b, "tokens", o->tokens, "%.0f");
    add_key(b, "keys", o->keys, "%.0f");
    add_key(b, "heads", o->heads, "%.0f");
    add_key(b, "head_dim", o->head_dim, "%.0f");
    add_key(b, "batch", o->batch, "%.0f");
    return finish_case(b);
}

static int case_conv(bench *b) {
    const options *o = &b->o;
    diti_conv_desc desc = DITI_ZERO;
    const diti_weight *weight = random_weight(b, o->type, o->out, o->in * o->kernel * o->kernel, o->kernel);
    if (!weight) return EXIT_USAGE;
    desc.batch = 1;
    desc.height = desc.width = o->size;
    desc.stride = 1;
    desc.pad_before = desc.pad_after = o->kernel / 2;
    b->line.m = o->size * o->size;
    b->line.n = o->out;
    b->line.k = weight->columns;
    add_key(b, "size", o->size, "%.0f");
    add_key(b, "kernel", o->kernel, "%.0f");
    diti_conv2d(&b->graph, input(b, o->size * o->size, o->in, "x"), weight, &desc);
    return finish_case(b);
}

/* LayerNorm with scale and shift, as every block has it: m rows of k columns, F32 in, activations out. */
static int case_norm(bench *b) {
    const options *o = &b->o;
    diti_norm_desc desc = DITI_ZERO;
    diti_tensor table = diti_tensor_input(&b->graph, DITI_F32, 2, o->k, "modulation");
    desc.eps = 1e-6f;
    desc.scale = diti_tensor_view(&b->graph, table, 0, 1, 0, o->k);
    desc.shift = diti_tensor_view(&b->graph, table, 1, 1, 0, o->k);
    b->line.m = o->m;
    b->line.k = o->k;
    b->line.type = "f32";
    diti_norm(&b->graph, diti_tensor_input(&b->graph, DITI_F32, o->m, o->k, "x"), &desc);
    return finish_case(b);
}

/* Packed weights [n, k] to the format that the kernels compute with. */
static int case_expand(bench *b) {
    const options *o = &b->o;
    const diti_weight *weight = random_weight(b, o->type, o->n, o->k, 1);
    uint32_t part, first;
    if (!weight) return EXIT_USAGE;
    for (part = 0; part < weight->part_count; part++) {
        uint32_t rows = weight->parts[part].rows, most = diti_op_expand_rows(&b->graph, weight, part);
        for (first = 0; first < rows; first += most)
            diti_op_expand(&b->graph, weight, part, first, rows - first < most ? rows - first : most, "expanded");
    }
    if (!b->graph.dispatch_count)
        return complain("expand: the kernels read %s as it is; give a --type that is packed, such as q8_0",
                        b->line.type);
    b->line.n = o->n;
    b->line.k = o->k;
    return finish_case(b);
}

/* m rows of k numbers from one tensor to another, by a kernel. */
static int case_copy(bench *b) {
    const options *o = &b->o;
    diti_elementwise_desc desc = DITI_ZERO;
    b->line.m = o->m;
    b->line.k = o->k;
    b->line.type = b->graph.activation == DITI_F16 ? "f16" : "f32";
    desc.name = "copy";
    diti_elementwise(&b->graph, input(b, o->m, o->k, "x"), &desc);
    return finish_case(b);
}

/* ---- a whole picture ---- */

/* Most host memory that this process has had, bytes; 0 where the system does not say. */
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

static const char *find_model(const bench *b, char *out, size_t size) {
    if (b->o.model) return b->o.model;
#ifndef _WIN32
    {
        ssize_t length = readlink("/proc/self/exe", out, size - 64);
        char *slash;
        out[length > 0 ? length : 0] = 0;
        slash = strrchr(out, '/');
        if (slash) strcpy(slash, "/../models/emoji-q8_0.gguf");
        if (slash && access(out, R_OK) == 0) return out;
    }
#endif
    return "models/emoji-q8_0.gguf";
}

static void *read_cache(const char *path, size_t *size) {
    FILE *file = path ? fopen(path, "rb") : NULL;
    unsigned char *data = NULL;
    long length = -1;
    *size = 0;
    if (!file) return NULL;
    if (fseek(file, 0, SEEK_END) == 0) length = ftell(file);
    if (length > 0 && fseek(file, 0, SEEK_SET) == 0) data = malloc((size_t)length);
    if (data) *size = fread(data, 1, (size_t)length, file);
    fclose(file);
    return data;
}

static int write_cache(bench *b) {
    size_t size = 0;
    void *data;
    FILE *file;
    bool good;
    if (!b->o.cache) return EXIT_GOOD;
    if (dit_context_save_cache(b->context, NULL, &size, &b->err) < 0) return failed(b);
    data = malloc(size);
    if (!data || dit_context_save_cache(b->context, data, &size, &b->err) < 0) return free(data), failed(b);
    file = fopen(b->o.cache, "wb");
    good = file && fwrite(data, 1, size, file) == size;
    if (file && fclose(file) != 0) good = false;
    free(data);
    return good ? EXIT_GOOD : complain("--cache %s: %s", b->o.cache, strerror(errno));
}

typedef struct picture {
    dit_model *model;
    dit_job *job;
    dit_job_desc desc;
    unsigned char *pixels;
    size_t size;
    double first_step, last_step; /* when the first and the last step were seen finished */
    double memory;
} picture;

static void note_memory(bench *b, picture *p) {
    if ((double)b->device->memory_used > p->memory) p->memory = (double)b->device->memory_used;
}

/* Runs the job to its end and reads the pixels. */
static int run_picture(bench *b, picture *p) {
    dit_status status = DITI_ZERO;
    dit_result result;
    p->first_step = p->last_step = 0;
    do {
        result = dit_job_wait(p->job, 20000000);
        dit_job_status(p->job, &status, &b->err);
        if (!p->first_step && status.step > 0) p->first_step = now();
        if (!p->last_step && status.step == status.step_count) p->last_step = now();
        note_memory(b, p);
    } while (result == DIT_WORKING);
    if (result < 0) return failed(b);
    result = dit_job_read(p->job, DIT_READ_RGBA8, 0, 0, p->pixels, p->size, 0, &b->err);
    return result < 0 ? failed(b) : EXIT_GOOD;
}

static int load_picture(bench *b, picture *p) {
    dit_model_desc desc = DITI_ZERO;
    dit_model_info info;
    char path[1024];
    desc.source.path = find_model(b, path, sizeof path);
    if (dit_model_load(b->context, &desc, &p->model, &b->err) < 0) return failed(b);
    dit_model_get_info(p->model, &info);
    p->desc.model = p->model;
    p->desc.prompt = b->o.prompt ? b->o.prompt : "fox, fluent style on a purple background";
    p->desc.width = b->o.width ? b->o.width : info.default_width;
    p->desc.height = b->o.height ? b->o.height : info.default_height;
    p->desc.steps = b->o.steps ? b->o.steps : info.default_steps;
    p->desc.guidance.scale = (float)b->o.cfg_scale;
    p->desc.seed = 42;
    p->size = (size_t)p->desc.width * p->desc.height * 4;
    p->pixels = malloc(p->size);
    return p->pixels ? EXIT_GOOD : complain("out of memory for the picture");
}

/* More runs of the same job: its prompt, sizes and steps stay. */
static int repeat_picture(bench *b, picture *p, times *t, double *steps_per_s) {
    double wall[MOST_RUNS], cpu[MOST_RUNS], rate[MOST_RUNS];
    uint32_t i, steps = p->desc.steps;
    for (i = 0; i < b->o.runs; i++) {
        double wall_begin = now(), cpu_begin = cpu_now();
        if (dit_job_restart(p->job, &p->desc, &b->err) < 0) return failed(b);
        if (run_picture(b, p)) return EXIT_FAILED;
        wall[i] = now() - wall_begin;
        cpu[i] = cpu_now() - cpu_begin;
        rate[i] = steps > 1 ? (steps - 1) / (p->last_step - p->first_step) : 1 / wall[i];
    }
    t->wall = median(wall, b->o.runs);
    t->cpu = median(cpu, b->o.runs);
    *steps_per_s = median(rate, b->o.runs);
    return EXIT_GOOD;
}

/* The operations of a whole run: every segment once, the steps as often as there are steps. */
static void count_picture(bench *b, const picture *p) {
    double flops, bytes;
    uint32_t segment;
    for (segment = 0; segment < p->job->plan->segment_count; segment++) {
        uint32_t times = segment == p->job->step_segment ? p->desc.steps : 1;
        count_work(p->job->plan, segment, &flops, &bytes);
        b->line.flops += flops * times;
        b->line.bytes += bytes * times;
    }
}

static int time_picture(bench *b, picture *p, double opened) {
    double loaded, planned, drawn, steps = p->desc.steps, rate;
    loaded = now();
    if (dit_job_create(b->context, &p->desc, &p->job, &b->err) < 0) return failed(b);
    note_memory(b, p);
    planned = now();
    if (run_picture(b, p)) return EXIT_FAILED;
    drawn = now();
    rate = steps > 1 ? (steps - 1) / (p->last_step - p->first_step) : 1 / (drawn - planned);
    b->line.t.wall = drawn - b->started;
    b->line.t.cpu = cpu_now();
    count_picture(b, p);
    add_key(b, "width", p->desc.width, "%.0f");
    add_key(b, "height", p->desc.height, "%.0f");
    add_key(b, "steps", steps, "%.0f");
    add_key(b, "context_seconds", opened - b->started, "%.3f");
    add_key(b, "load_seconds", loaded - opened, "%.3f");
    add_key(b, "plan_seconds", planned - loaded, "%.3f");
    add_key(b, "run_seconds", drawn - planned, "%.3f");
    add_key(b, "pipelines", (double)b->device->pipelines_compiled, "%.0f");
    if (b->o.runs) {
        times again = DITI_ZERO;
        if (repeat_picture(b, p, &again, &rate)) return EXIT_FAILED;
        add_key(b, "again_seconds", again.wall, "%.3f");
        add_key(b, "again_cpu_seconds", again.cpu, "%.3f");
    }
    add_key(b, "steps_per_s", rate, "%.3f");
    return EXIT_GOOD;
}

/* Device memory lies in host memory where the driver is software or the GPU shares it: counted once there. */
static void add_memory(bench *b, double device_bytes) {
    double host = peak_host_bytes();
    add_key(b, "memory", b->device->is_cpu && host > 0 ? host : host + device_bytes, "%.0f");
    add_key(b, "device_bytes", device_bytes, "%.0f");
    add_key(b, "host_peak_bytes", host, "%.0f");
}

static int draw_picture(bench *b, picture *p) {
    double opened;
    size_t cache_size = 0;
    void *cache = read_cache(b->o.cache, &cache_size);
    int code = open_context(b, cache, cache_size);
    opened = now();
    free(cache);
    if (!code) code = load_picture(b, p);
    if (!code) code = time_picture(b, p, opened);
    if (!code) code = write_cache(b);
    if (code) return code;
    add_memory(b, p->memory);
    b->line.type = "stored";
    print_line(b);
    return b->o.profile ? profile(b, p->job->plan, p->job->step_segment, p->desc.steps) : EXIT_GOOD;
}

static int case_model(bench *b) {
    picture p;
    int code;
    memset(&p, 0, sizeof p);
    memset(&b->line, 0, sizeof b->line);
    b->line.op = "model";
    code = draw_picture(b, &p);
    dit_job_destroy(p.job);
    dit_model_destroy(p.model);
    free(p.pixels);
    return code;
}

/* ---- running cases ---- */

typedef struct kind {
    const char *name;
    int (*run)(bench *b);
} kind;

static const kind kinds[] = {{"gemm", case_gemm}, {"gemv", case_gemm}, {"attention", case_attention},
                             {"conv", case_conv}, {"norm", case_norm}, {"expand", case_expand},
                             {"copy", case_copy}};

static int run_kind(bench *b, const kind *kind) {
    char type[32];
    int code = begin_case(b);
    if (code) return code;
    b->line.op = kind->name;
    b->line.type = type_text(b->o.type, type);
    code = kind->run(b);
    end_case(b);
    return code;
}

static int check_types(const char *text) {
    dit_type type;
    size_t length;
    for (;; text += length + 1) {
        length = strcspn(text, ",");
        if (!find_type(text, length, &type))
            return complain("--type %.*s: there is no such type; dit-bench --help lists them", (int)length, text);
        if (!text[length]) return EXIT_GOOD;
    }
}

/* Once for each type of the list. */
static int run_types(bench *b, const kind *kind) {
    const char *text = b->o.types;
    int code = check_types(text);
    while (!code) {
        size_t length = strcspn(text, ",");
        find_type(text, length, &b->o.type);
        code = run_kind(b, kind);
        if (!text[length]) break;
        text += length + 1;
    }
    return code;
}

static int run_op(bench *b) {
    size_t i;
    if (strcmp(b->o.op, "model") == 0) return case_model(b);
    for (i = 0; i < DITI_COUNT(kinds); i++) {
        if (strcmp(kinds[i].name, b->o.op) == 0) return run_types(b, &kinds[i]);
    }
    return complain("%s: there is no such case; dit-bench --help lists them", b->o.op);
}

static int bench_run(int count, char **texts, FILE *out) {
    bench b;
    int code;
    memset(&b, 0, sizeof b);
    b.started = now();
    b.out = out;
    if (count < 2) return complain("which case? Say dit-bench gemm, for example; dit-bench --help lists them");
    if (strcmp(texts[1], "--help") == 0 || strcmp(texts[1], "-h") == 0) return fputs(usage_text, out), EXIT_GOOD;
    code = take_options(&b.o, count, texts);
    if (!code) code = run_op(&b);
    dit_context_destroy(b.context);
    return code;
}

#ifndef BENCH_NO_MAIN
int main(int count, char **texts) { return bench_run(count, texts, stdout); }
#endif
