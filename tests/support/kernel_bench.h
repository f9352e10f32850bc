/* A bench for kernels: one graph at a time is planned and run on one device, with weights of every type, and its
   results are compared with references in double precision. Products, attention and convolutions have their references
   here, since several programs compute them. The program's main sets env. */
#ifndef KERNEL_BENCH_H
#define KERNEL_BENCH_H
#include "library.h"
#include "vk/pipeline.c"
#include "plain.h"
#include "truncating.h"

static diti_env env;
static bool truncates; /* devices to be opened round to F16 toward zero: truncating.h */
static bool sweep;     /* DIT_TEST_ALL=1 */
/* Every case; else a few of each kind, since the kernels differ in their loads, stores and tiles only. */
static bool thorough;

/* --- random numbers --- */

static uint64_t random_state = 1;
static inline uint32_t random_bits(void) {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(random_state >> 32);
}
static inline float random_float(void) { return (float)random_bits() * (2.0f / 4294967296.0f) - 1.0f; }

/* --- matrices on the host: floats; rounded where the device holds halves, so that both sides see the same values ---
 */

typedef struct matrix {
    uint32_t rows, columns;
    float *data;
} matrix;

static inline matrix matrix_new(uint32_t rows, uint32_t columns) {
    matrix m = {rows, columns, calloc((size_t)rows * columns + 1, sizeof(float))};
    return m;
}
static inline matrix matrix_random(uint32_t rows, uint32_t columns, float scale, diti_element format) {
    matrix m = matrix_new(rows, columns);
    for (size_t i = 0; i < (size_t)rows * columns; i++) {
        float v = random_float() * scale;
        m.data[i] = format == DITI_F16 ? diti_half_to_float(diti_float_to_half(v)) : v;
    }
    return m;
}
static inline float at(const matrix *m, uint32_t row, uint32_t column) {
    return m->data[(size_t)row * m->columns + column];
}

/* --- the bench: one graph and plan at a time on one device --- */

enum { MAX_INPUTS = 32, MAX_BUFFERS = 64 };
static struct bench {
    diti_device *device;
    diti_graph graph;
    diti_plan *plan;
    struct {
        diti_tensor tensor;
        const matrix *values;
        const uint32_t *words;
    } inputs[MAX_INPUTS];
    int input_count;
    diti_weight_block blocks[MAX_BUFFERS];
    int block_count;
} bench;

static inline diti_device *open_device(const char *overrides, uint32_t max_slice_us) {
    dit_vulkan through = {.get_instance_proc_addr = truncating_get_instance_proc_addr};
    dit_context_desc desc = {0};
    diti_device *device = NULL;
    dit_error err = {0};
    desc.overrides = overrides;
    desc.max_slice_us = max_slice_us;
    if (truncates) desc.vulkan = &through, desc.vulkan_count = 1;
    CHECK_MESSAGE(diti_device_open(&desc, &env, &device, &err) >= 0, "%s", err.message);
    return device;
}

/* The kernels of the fp16 rung need no 16-bit feature, so they run on every driver. */
static inline diti_device *open_rung(const char *overrides, diti_rung rung) {
    diti_device *device = open_device(overrides, 0);
    if (device) device->rung = rung;
    return device;
}

static inline diti_graph *begin(diti_device *device) {
    bench.device = device;
    diti_graph_init(&bench.graph, device);
    diti_graph_segment(&bench.graph, "test", false);
    bench.input_count = 0;
    return &bench.graph;
}

/* An input tensor of the given format whose rows are `extra` columns longer than the matrix (then a view of it). */
static inline diti_tensor input(const matrix *values, diti_element format, uint32_t extra, const char *name) {
    diti_tensor whole = diti_tensor_input(&bench.graph, format, values->rows, values->columns + extra, name);
    bench.inputs[bench.input_count].tensor = whole;
    bench.inputs[bench.input_count].words = NULL;
    bench.inputs[bench.input_count++].values = values;
    return extra ? diti_tensor_view(&bench.graph, whole, 0, values->rows, 0, values->columns) : whole;
}

static inline diti_tensor input_words(const uint32_t *words, uint32_t count, const char *name) {
    diti_tensor tensor = diti_tensor_input(&bench.graph, DITI_U32, 1, count, name);
    bench.inputs[bench.input_count].tensor = tensor;
    bench.inputs[bench.input_count].values = NULL;
    bench.inputs[bench.input_count++].words = words;
    return tensor;
}

static inline uint32_t format_bits(float v, diti_element format) {
    uint32_t bits;
    memcpy(&bits, &v, 4);
    return format == DITI_F16 ? diti_float_to_half(v) : bits;
}

/* Writes rows at the tensor's full width; values beyond the matrix are NaN, which must never reach a result. */
static inline void write_input(int index) {
    const diti_tensor_info *info = &bench.plan->tensors[bench.inputs[index].tensor];
    const matrix *m = bench.inputs[index].values;
    size_t size = diti_element_size(info->format), count = (size_t)info->rows * info->columns;
    unsigned char *data = malloc(count * size);
    dit_error err = {0};
    for (size_t i = 0; i < count; i++) {
        uint32_t row = (uint32_t)(i / info->columns), column = (uint32_t)(i % info->columns), bits;
        if (m)
            bits = format_bits(column < m->columns ? at(m, row, column) : NAN, info->format);
        else
            bits = bench.inputs[index].words[i];
        memcpy(data + i * size, &bits, size);
    }
    CHECK_MESSAGE(diti_plan_write(bench.plan, bench.inputs[index].tensor, data, count * size, &err) >= 0, "%s",
                  err.message);
    free(data);
}

static char last_module[32]; /* of the last dispatch */
static uint32_t last_constants[DITI_MAX_CONSTANTS];
static int last_expansions;       /* how many weights the last plan expanded */
static float large_inputs = 1;    /* a factor of activations */
static const char *plain_modules; /* a folder, or NULL: the embedded modules */

static inline bool run_plan(void) {
    dit_error err = {0};
    if (!CHECK_MESSAGE(!diti_graph_failed(&bench.graph), "%s", bench.graph.error.message)) return false;
    if (plain_modules) plain_insert(bench.device, plain_modules, &bench.graph);
    if (!CHECK_MESSAGE(diti_plan_create(&bench.graph, NULL, &bench.plan, &err) >= 0, "%s", err.message)) return false;
    snprintf(last_module, sizeof last_module, "%s",
             diti_kernel_name(bench.plan->sources[bench.plan->source_count - 1].kernel));
    memcpy(last_constants, bench.plan->sources[bench.plan->source_count - 1].constants, sizeof last_constants);
    last_expansions = 0;
    for (size_t i = 0; i < bench.plan->source_count; i++)
        last_expansions += bench.plan->sources[i].kernel == DITI_KERNEL_EXPAND;
    for (int i = 0; i < bench.input_count; i++) write_input(i);
    return CHECK_MESSAGE(diti_plan_run(bench.plan, 0, 1, &err) >= 0, "%s", err.message);
}

static inline matrix read_tensor(diti_tensor tensor) {
    const diti_tensor_info *info = &bench.plan->tensors[tensor];
    matrix m = matrix_new(info->rows, info->columns);
    size_t count = (size_t)info->rows * info->columns, size = diti_element_size(info->format);
    unsigned char *data = malloc(count * size);
    dit_error err = {0};
    CHECK_MESSAGE(diti_plan_read(bench.plan, tensor, data, count * size, &err) >= 0, "%s", err.message);
    for (size_t i = 0; i < count; i++) {
        uint16_t half;
        memcpy(size == 2 ? (void *)&half : (void *)&m.data[i], data + i * size, size);
        if (size == 2) m.data[i] = diti_half_to_float(half);
    }
    free(data);
    return m;
}

static inline void end(void) {
    if (bench.plan) diti_plan_destroy(bench.plan);
    bench.plan = NULL;
    diti_graph_free(&bench.graph);
    while (bench.block_count) {
        diti_weight_block *block = &bench.blocks[--bench.block_count];
        diti_buffer_destroy(bench.device, &block->buffer);
        memset(block, 0, sizeof *block);
    }
}

/* --- weights: stored bytes, and what they mean --- */

typedef struct weight_values {
    diti_weight weight;
    float *values;
    unsigned char *bytes;
} weight_values;

/* A float that every path represents exactly. */
static inline uint16_t random_half_bits(float scale) { return diti_float_to_half(random_float() * scale); }

static inline void fill_block(dit_type type, unsigned char *block) {
    uint32_t bytes = diti_type_block_bytes(type);
    uint16_t half = random_half_bits(0.02f), second = random_half_bits(0.05f);
    float f = random_float();
    for (uint32_t i = 0; i < bytes; i++) block[i] = (unsigned char)random_bits();
    switch (type) { /* scales that keep values moderate */
    case DIT_TYPE_F32: memcpy(block, &f, 4); return;
    case DIT_TYPE_F16:
        half = diti_float_to_half(f);
        memcpy(block, &half, 2);
        return;
    case DIT_TYPE_BF16:
        half = diti_float_to_bfloat(f);
        memcpy(block, &half, 2);
        return;
    case DIT_TYPE_F8_E4M3: block[0] &= 0xb7; return; /* magnitudes below 2 */
    case DIT_TYPE_F8_E5M2: block[0] &= 0xbf; return;
    case DIT_TYPE_MXFP4: block[0] = (unsigned char)(115 + random_bits() % 8); return;
    case DIT_TYPE_NVFP4:
        for (uint32_t i = 0; i < 4; i++) block[i] &= 0x9f; /* at most 2^-3 or so; the sign is of no account */
        return;
    case DIT_TYPE_Q2_K:
        memcpy(block + 80, &half, 2);
        memcpy(block + 82, &second, 2);
        return;
    case DIT_TYPE_Q3_K: memcpy(block + 108, &half, 2); return;
    case DIT_TYPE_Q6_K: memcpy(block + 208, &half, 2); return;
    case DIT_TYPE_Q4_1:
    case DIT_TYPE_Q5_1:
    case DIT_TYPE_Q4_K:
    case DIT_TYPE_Q5_K:
    case DIT_TYPE_I4_GROUP:
        memcpy(block, &half, 2);
        memcpy(block + 2, &second, 2);
        return;
    default: memcpy(block, &half, 2); return;
    }
}

static inline void upload(weight_values *w, uint32_t parts) {
    uint64_t row_bytes, offset = 0;
    uint32_t first = 0;
    dit_error err = {0};
    diti_type_bytes(w->weight.type, 1, w->weight.columns, &row_bytes);
    w->weight.part_count = parts;
    for (uint32_t p = 0; p < parts; p++) {
        diti_weight_part *part = &w->weight.parts[p];
        diti_weight_block *block = &bench.blocks[bench.block_count++];
        uint32_t rows = (w->weight.rows * (p + 1) / parts + 3) / 4 * 4; /* parts end at multiples of four rows */
        if (p + 1 == parts || rows > w->weight.rows) rows = w->weight.rows;
        part->first_row = first;
        part->rows = rows - first;
        part->offset = 256;
        part->block = block;
        CHECK_MESSAGE(diti_buffer_create(bench.device, (part->rows * row_bytes + 511) / 256 * 256, DITI_MEMORY_DEVICE,
                                         "weight", &block->buffer, &err) >= 0,
                      "%s", err.message);
        CHECK(diti_buffer_write(bench.device, &block->buffer, 256, w->bytes + offset, part->rows * row_bytes, &err) >=
              0);
        offset += part->rows * row_bytes;
        first = rows;
    }
}

static inline weight_values weight_random(dit_type type, uint32_t rows, uint32_t columns, uint32_t kernel,
                                          uint32_t parts) {
    weight_values w = {0};
    uint64_t bytes = 0;
    w.weight.name = "weight";
    w.weight.type = type;
    w.weight.rows = rows;
    w.weight.columns = columns;
    w.weight.kernel = kernel;
    CHECK(diti_type_bytes(type, rows, columns, &bytes));
    w.bytes = malloc(bytes);
    w.values = malloc((size_t)rows * columns * sizeof(float));
    for (uint64_t i = 0; i < bytes; i += diti_type_block_bytes(type)) fill_block(type, w.bytes + i);
    diti_type_to_float(type, w.bytes, (uint64_t)rows * columns, w.values);
    upload(&w, parts);
    return w;
}

/* Gives every row a factor; in front of the first one stands one that belongs to no row. */
static inline void give_factors(weight_values *w) {
    uint32_t rows = w->weight.rows, columns = w->weight.columns;
    diti_weight_block *block = &bench.blocks[bench.block_count++];
    float *factors = malloc((rows + 1) * sizeof *factors);
    dit_error err = {0};
    factors[0] = NAN;
    for (uint32_t r = 0; r < rows; r++) {
        factors[r + 1] = ldexpf(random_float() / 2 + 1, (int)(r % 7) - 3) * (r % 5 ? 1.0f : -1.0f);
        for (uint32_t c = 0; c < columns; c++) w->values[(size_t)r * columns + c] *= factors[r + 1];
    }
    w->weight.factor.block = block;
    w->weight.factor.offset = 256;
    w->weight.factor.rows = rows + 1;
    w->weight.factor.first_row = 1;
    CHECK_MESSAGE(diti_buffer_create(bench.device, 256 + (rows + 1) * sizeof *factors, DITI_MEMORY_DEVICE, "factors",
                                     &block->buffer, &err) >= 0,
                  "%s", err.message);
    CHECK(diti_buffer_write(bench.device, &block->buffer, 256, factors, (rows + 1) * sizeof *factors, &err) >= 0);
    free(factors);
}

static inline void weight_free(weight_values *w) {
    free(w->values);
    free(w->bytes);
}

/* A hash over every result that was compared since the last reset: equal bytes give equal numbers. */
static uint64_t result_hash;
static bool only_bytes; /* nothing is compared with a reference, which takes most of the time */

/* Relative L2 and the largest difference relative to the reference's root mean square. */
static inline bool close_to(const matrix *got, const double *wanted, double tolerance, const char *what) {
    double error = 0, norm = 0, worst = 0;
    size_t n = (size_t)got->rows * got->columns;
    result_hash = result_hash * 1099511628211u ^ diti_hash(got->data, n * sizeof(float));
    if (only_bytes) return true;
    for (size_t i = 0; i < n; i++) {
        double d = got->data[i] - wanted[i];
        error += d * d;
        norm += wanted[i] * wanted[i];
        if (!(fabs(d) <= worst)) worst = fabs(d); /* NaN sticks */
    }
    error = sqrt(error / (norm > 0 ? norm : 1));
    worst /= norm > 0 ? sqrt(norm / (double)n) : 1;
    if (getenv("DIT_TEST_PRINT")) printf("%-60s relative L2 %.2e, worst %.2e\n", what, error, worst);
    return CHECK_MESSAGE(error <= tolerance && worst <= 20 * tolerance, "%s: relative L2 %.2e, worst %.2e (%.1e)", what,
                         error, worst, tolerance);
}

/* F32: sums of up to some thousand products round by a few 1e-7, exp and tanh of the drivers by up to 1e-6.
   F16: results are rounded to 11 bits. */
static inline double tolerance_of(diti_element format) { return format == DITI_F16 ? 6e-4 : 4e-6; }

/* --- products --- */

static inline double activated(diti_activation kind, double x) {
    switch (kind) {
    case DITI_ACTIVATION_GELU_TANH:
        return 0.5 * x * (1 + tanh(sqrt(2 / 3.14159265358979323846) * (x + 0.044715 * x * x * x)));
    case DITI_ACTIVATION_GELU_ERF: return 0.5 * x * (1 + erf(x / sqrt(2)));
    case DITI_ACTIVATION_SILU: return x / (1 + exp(-x));
    case DITI_ACTIVATION_QUICK_GELU: return x / (1 + exp(-1.702 * x));
    default: return x;
    }
}

typedef struct linear_case {
    uint32_t m, n, k;
    dit_type type;
    uint32_t parts;
    diti_activation activation;
    bool bias, multiply, gate, residual, out_f32, x_f32, in_place, factors;
    uint32_t rows_per_gate, extra; /* extra columns of x, multiplier, gate and residual: views with a pitch */
    diti_rows rows;                /* others stay as they are: in place */
} linear_case;

static inline void reference_linear(const linear_case *c, const matrix *x, const float *w, const matrix *bias,
                                    const matrix *multiply, const matrix *gate, const matrix *residual, double *out) {
    for (uint32_t r = 0; r < c->m && !only_bytes; r++)
        for (uint32_t n = 0; n < c->n; n++) {
            double v = 0;
            if (c->rows.of && (r % c->rows.of < c->rows.first || r % c->rows.of >= c->rows.first + c->rows.count)) {
                out[(size_t)r * c->n + n] = at(residual, r, n);
                continue;
            }
            for (uint32_t k = 0; k < c->k; k++) v += (double)at(x, r, k) * w[(size_t)n * c->k + k];
            if (c->bias) v += at(bias, 0, n);
            v = activated(c->activation, v);
            if (c->multiply) v *= at(multiply, r, n);
            if (c->gate) v *= at(gate, c->rows_per_gate ? r / c->rows_per_gate : 0, n);
            if (c->residual) v += at(residual, r, n);
            out[(size_t)r * c->n + n] = v;
        }
}

static inline weight_values bias_weight(const matrix *values) {
    weight_values w = {0};
    w.weight.name = "bias";
    w.weight.type = DIT_TYPE_F32;
    w.weight.rows = 1;
    w.weight.columns = values->columns;
    w.bytes = malloc(values->columns * sizeof(float));
    memcpy(w.bytes, values->data, values->columns * sizeof(float));
    upload(&w, 1);
    return w;
}

/* The rounding of halves that happens on the way: expanded weights are held as activations are. */
static inline void round_weights(weight_values *w, diti_element format) {
    bool direct = (w->weight.type == DIT_TYPE_F32 || w->weight.type == DIT_TYPE_F16) && w->weight.columns % 4 == 0 &&
                  w->weight.kernel <= 1;
    if (format != DITI_F16 || direct) return;
    for (size_t i = 0; i < (size_t)w->weight.rows * w->weight.columns; i++)
        w->values[i] = diti_half_to_float(diti_float_to_half(w->values[i]));
}

static inline matrix run_linear(diti_device *device, const linear_case *c, double **wanted) {
    diti_graph *graph = begin(device);
    diti_element act = graph->activation, x_format = c->x_f32 ? DITI_F32 : act;
    matrix x = matrix_random(c->m, c->k, 1, x_format), bias = matrix_random(1, c->n, 1, DITI_F32),
           multiply = matrix_random(c->m, c->n, 1, act);
    matrix gate =
        matrix_random(c->rows_per_gate ? (c->m + c->rows_per_gate - 1) / c->rows_per_gate : 1, c->n, 1, DITI_F32);
    matrix residual = matrix_random(c->m, c->n, 2, DITI_F32), got = {0, 0, NULL};
    weight_values w = weight_random(c->type, c->n, c->k, 1, c->parts ? c->parts : 1), b = {0}, smooth = {0};
    diti_linear_desc desc = {0};
    diti_tensor out;
    if (c->factors) { /* of rows, and of columns */
        matrix columns = matrix_random(1, c->k, 2, DITI_F32);
        give_factors(&w);
        smooth = bias_weight(&columns);
        w.weight.smooth = &smooth.weight;
        for (size_t i = 0; i < (size_t)c->n * c->k; i++) w.values[i] *= columns.data[i % c->k];
        free(columns.data);
    }
    for (size_t i = 0; i < (size_t)c->m * c->k && large_inputs > 1; i += 7)
        x.data[i] = i % 2 ? large_inputs : -large_inputs;
    if (c->bias) {
        b = bias_weight(&bias);
        desc.bias = &b.weight;
    }
    desc.activation = c->activation;
    if (c->multiply) desc.multiply = input(&multiply, act, c->extra, "multiply");
    if (c->gate) desc.gate = input(&gate, DITI_F32, c->extra, "gate");
    desc.rows_per_gate = c->rows_per_gate;
    desc.rows = c->rows;
    if (c->residual) desc.residual = input(&residual, DITI_F32, c->extra, "residual");
    if (c->in_place) desc.out = desc.residual;
    desc.out_f32 = c->out_f32;
    out = diti_linear(graph, input(&x, x_format, c->extra, "x"), &w.weight, &desc);
    round_weights(&w, act);
    *wanted = malloc(((size_t)c->m * c->n) * sizeof(double));
    reference_linear(c, &x, w.values, &bias, &multiply, &gate, &residual, *wanted);
    if (run_plan()) got = read_tensor(out);
    end();
    weight_free(&w);
    weight_free(&b);
    weight_free(&smooth);
    free(x.data), free(bias.data), free(multiply.data), free(gate.data), free(residual.data);
    return got;
}

static inline void check_linear(diti_device *device, const linear_case *c) {
    double *wanted;
    char what[160];
    diti_element format = device->rung >= DITI_RUNG_FP16 && !c->out_f32 && !c->in_place ? DITI_F16 : DITI_F32;
    matrix got = run_linear(device, c, &wanted);
    snprintf(what, sizeof what, "linear %s cpu %d m %u n %u k %u %s act %d%s%s%s%s", diti_rung_name(device->rung),
             device->is_cpu, c->m, c->n, c->k, diti_type_name(c->type), (int)c->activation, c->bias ? " bias" : "",
             c->multiply ? " multiply" : "", c->gate ? " gate" : "", c->residual ? " residual" : "");
    if (got.data) close_to(&got, wanted, tolerance_of(format), what);
    free(got.data);
    free(wanted);
}

/* --- attention --- */

typedef struct attention_case {
    uint32_t batch, heads, head_dim, queries, keys; /* packed: the most of an item */
    float size;                                     /* of queries and keys */
    bool lengths, bias, lse, packed;
    uint32_t extra, row_step;
    uint32_t kv_heads; /* 0: heads */
    float cap;
} attention_case;

/* First query row, queries, first key row, keys of every item. lengths: the second has no keys, the others not all.
 * packed: 1, 7, 13... queries, their keys in the other order of items. */
static inline void attention_items(const attention_case *c, uint32_t (*items)[4]) {
    uint32_t i, rows = 0;
    memset(items, 0, 8 * sizeof *items);
    for (i = 0; i < c->batch; i++) {
        items[i][0] = c->packed ? rows : i * c->queries;
        items[i][1] = c->packed ? (i + 1 < c->batch ? 1 + 6 * i : c->queries) : c->queries;
        items[i][2] = i * c->keys;
        items[i][3] = c->keys;
        if (c->lengths) items[i][3] = i == 1 ? 0 : (c->keys * 2 + 2) / 3 + i;
        if (items[i][3] > c->keys) items[i][3] = c->keys;
        if (c->row_step) {
            items[i][0] = i / c->row_step * c->row_step * c->queries + i % c->row_step;
            items[i][2] = i / c->row_step * c->row_step * c->keys + i % c->row_step;
        }
        rows += items[i][1];
    }
    for (i = 0, rows = 0; c->packed && i < c->batch; i++) {
        items[c->batch - 1 - i][2] = rows;
        items[c->batch - 1 - i][3] = items[c->batch - 1 - i][1] == 7 ? 0 : items[c->batch - 1 - i][1];
        rows += items[c->batch - 1 - i][3];
    }
}

static inline void reference_attention(const attention_case *c, const matrix *q, const matrix *k, const matrix *v,
                                       uint32_t (*items)[4], const matrix *bias, float scale, double *out,
                                       double *lse) {
    double *p = malloc((c->keys + 1) * sizeof(double));
    for (uint32_t b = 0; b < c->batch && !only_bytes; b++)
        for (uint32_t h = 0; h < c->heads; h++)
            for (uint32_t i = 0; i < items[b][1]; i++) {
                uint32_t keys = items[b][3], first = h * c->head_dim, step = c->row_step ? c->row_step : 1;
                uint32_t kv = c->kv_heads ? h / (c->heads / c->kv_heads) * c->head_dim : first;
                uint32_t row = items[b][0] + i * step, from = items[b][2];
                double top = -1e300, sum = 0;
                for (uint32_t j = 0; j < keys; j++) {
                    double s = 0;
                    for (uint32_t d = 0; d < c->head_dim; d++)
                        s += (double)at(q, row, first + d) * at(k, from + j * step, kv + d);
                    s = c->cap > 0 ? (double)c->cap * tanh(s * (double)scale / (double)c->cap) : s * (double)scale;
                    p[j] = s + (c->bias ? at(bias, h, j + c->queries - 1 - i) : 0);
                    if (p[j] > top) top = p[j];
                }
                for (uint32_t j = 0; j < keys; j++) sum += p[j] = exp(p[j] - top);
                for (uint32_t d = 0; d < c->head_dim; d++) {
                    double o = 0;
                    for (uint32_t j = 0; j < keys; j++) o += p[j] * at(v, from + j * step, kv + d);
                    out[(size_t)row * c->heads * c->head_dim + first + d] = keys ? o / sum : 0;
                }
                lse[(size_t)row * c->heads + h] = keys ? top + log(sum) : -3e38;
            }
    free(p);
}

static inline uint32_t attention_rows(const attention_case *c, uint32_t (*items)[4], uint32_t column) {
    uint32_t i, end = 0;
    for (i = 0; i < c->batch; i++)
        if (items[i][column] + items[i][column + 1] > end) end = items[i][column] + items[i][column + 1];
    return end;
}

static inline void check_attention(diti_device *device, const attention_case *c) {
    diti_graph *graph = begin(device);
    diti_element act = graph->activation;
    uint32_t width = c->heads * c->head_dim, items[8][4], queries, keys;
    uint32_t kv_width = (c->kv_heads ? c->kv_heads : c->heads) * c->head_dim;
    float size = c->size > 0 ? c->size : 1;
    matrix q, k, v, bias;
    diti_attention_desc desc = {0};
    diti_tensor out, tq, tk, tv;
    double *wanted, *wanted_lse;
    char what[160];
    attention_items(c, items);
    queries = c->packed ? attention_rows(c, items, 0) : c->batch * c->queries;
    keys = c->packed ? attention_rows(c, items, 2) : c->batch * c->keys;
    q = matrix_random(queries, width, size, act);
    k = matrix_random(keys, kv_width, size, act);
    v = matrix_random(keys, kv_width, 1, act);
    bias = matrix_random(c->heads, c->queries + c->keys - 1, 2, DITI_F32);
    wanted = malloc((size_t)queries * width * sizeof(double));
    wanted_lse = malloc((size_t)queries * c->heads * sizeof(double));
    desc.batch = c->batch;
    desc.heads = c->heads;
    desc.head_dim = c->head_dim;
    desc.scale = 1 / sqrtf((float)c->head_dim);
    desc.packed = c->packed;
    desc.key_limit = c->keys;
    desc.row_step = c->row_step;
    desc.kv_heads = c->kv_heads;
    desc.cap = c->cap;
    if (c->lengths || c->packed) {
        desc.items = input_words(items[0], c->batch * DITI_ITEM_WORDS, "items");
        desc.items = diti_tensor_reshape(graph, desc.items, c->batch, DITI_ITEM_WORDS);
    }
    if (c->bias) desc.bias = input(&bias, DITI_F32, 0, "bias");
    if (c->lse) desc.lse = diti_tensor_new(graph, DITI_F32, queries, c->heads, "lse");
    tq = input(&q, act, c->extra, "q");
    tk = input(&k, act, 2 * c->extra, "k");
    tv = input(&v, act, c->extra, "v");
    out = diti_attention(graph, tq, tk, tv, &desc);
    reference_attention(c, &q, &k, &v, items, &bias, desc.scale, wanted, wanted_lse);
    snprintf(what, sizeof what,
             "attention %s cpu %d batch %u heads %u x %u, %u queries, %u keys, size %g%s%s%s%s%s%s%s",
             diti_rung_name(device->rung), device->is_cpu, c->batch, c->heads, c->head_dim, c->queries, c->keys,
             (double)size, c->lengths ? " lengths" : "", c->packed ? " packed" : "", c->bias ? " bias" : "",
             c->lse ? " lse" : "", c->row_step ? " interleaved" : "", c->kv_heads ? " shared keys" : "",
             c->cap > 0 ? " capped" : "");
    if (run_plan()) {
        matrix got = read_tensor(out);
        /* exp of the drivers is off by up to 17 units in the last place, and scores of size s round by s * 6e-8 */
        /* F16 sums of scores, and of what 32 keys add to an output, are off by 2^-12 of their size or so */
        bool half = device->rung == DITI_RUNG_HALF;
        close_to(&got, wanted, tolerance_of(act) + (c->size > 1 ? 1e-3 : 0) + (half ? 1e-3 : 0), what);
        free(got.data);
        if (c->lse) {
            got = read_tensor(desc.lse);
            strncat(what, ": lse", sizeof what - strlen(what) - 1);
            for (size_t i = 0; i < (size_t)got.rows * got.columns; i++) {
                if (got.data[i] > -1e38f) continue; /* no keys */
                CHECK(only_bytes || wanted_lse[i] < -1e38);
                wanted_lse[i] = got.data[i] = 0;
            }
            for (size_t i = 0; half && i < (size_t)got.rows * got.columns; i++) { /* the error of a score near 0 */
                float away = wanted_lse[i] < 0 ? -1 : 1;
                wanted_lse[i] += (double)away, got.data[i] += away;
            }
            close_to(&got, wanted_lse, half ? 1e-3 : tolerance_of(DITI_F32), what);
            free(got.data);
        }
    }
    end();
    free(q.data), free(k.data), free(v.data), free(bias.data), free(wanted), free(wanted_lse);
}

/* Each set of flags and each head_dim is a pipeline of its own, which takes lavapipe a second. Rows that are in
   lengths, have a bias, are packed or want their lse are seen together; a head's size is usual, large or odd. */
static inline void test_attention_few(diti_device *device) {
    static const attention_case cases[] = {
        {.batch = 1, .heads = 2, .head_dim = 72, .queries = 300, .keys = 15},
        {.batch = 1, .heads = 2, .head_dim = 512, .queries = 17, .keys = 77},
        {.batch = 1, .heads = 2, .head_dim = 7, .queries = 16, .keys = 77},
        {.batch = 1, .heads = 1, .head_dim = 16, .queries = 1, .keys = 1, .lse = true},
        {.batch = 1, .heads = 1, .head_dim = 16, .queries = 77, .keys = 300, .lse = true},
        {.batch = 1, .heads = 1, .head_dim = 16, .queries = 300, .keys = 17, .lse = true},
        {.batch = 1, .heads = 1, .head_dim = 16, .queries = 16, .keys = 300, .size = 100, .lse = true},
        {3, 2, 64, 17, 77, .lengths = true, .bias = true, .lse = true, .extra = 8},
        {5, 2, 16, 120, 120, .packed = true, .bias = true, .lse = true},
        {4, 6, 16, 33, 33, .packed = true, .bias = true, .lse = true, .kv_heads = 2, .cap = 0.25f},
        {6, 2, 24, 17, 19, .row_step = 3, .lse = true, .extra = 8},
        {5, 1, 7, 2, 2, .row_step = 5},
    };
    /* make test: tests/graph/attention.c has the sizes on rungs above fp16; the host's part does not depend on them */
    for (size_t i = !sweep && (device->rung > DITI_RUNG_FP16 || test_quick_way("sanitize")) ? 7 : 0;
         i < DITI_COUNT(cases); i++) {
        /* rows that are not aligned take LLVM four seconds: make test has them interleaved on rung base */
        if (!sweep && cases[i].head_dim == 7 && (i == 2 || device->rung > DITI_RUNG_FP16)) continue;
        check_attention(device, &cases[i]);
    }
}

static inline void test_attention(diti_device *device) {
    static const uint32_t dims[] = {16, 64, 72, 80, 88, 96, 128, 256, 40, 512, 30, 7, 1024},
                          lengths[] = {1, 15, 16, 17, 77, 300};
    attention_case c = {0};
    const bool few = !sweep && (test_first_driver() || test_quick_way("sanitize"));
    if (sweep || few) test_attention_few(device);
    if (few) return;
    for (int i = 0; i < 13; i++) {
        if (!thorough && i != 2 && i != 6 && i != 9 && i != 11) continue;
        c = (attention_case){
            .batch = 1, .heads = 2, .head_dim = dims[i], .queries = lengths[(i + 3) % 6], .keys = lengths[(i + 5) % 6]};
        if (c.head_dim > 128) c.queries = 17, c.keys = 77;
        check_attention(device, &c);
    }
    for (int i = 0; i < 6; i++)
        for (int j = 0; j < 6; j++) {
            if (!sweep && (i + j) % 9) continue;
            c = (attention_case){
                .batch = 1, .heads = 1, .head_dim = 16, .queries = lengths[i], .keys = lengths[j], .lse = true};
            check_attention(device, &c);
        }
    c = (attention_case){
        .batch = 3, .heads = 2, .head_dim = 64, .queries = 17, .keys = 77, .lengths = true, .lse = true, .extra = 8};
    check_attention(device, &c);
    c = (attention_case){
        .batch = 2, .heads = 2, .head_dim = 64, .queries = 24, .keys = 24, .lengths = true, .bias = true};
    check_attention(device, &c);
    c = (attention_case){
        .batch = 5, .heads = 2, .head_dim = 16, .queries = 120, .keys = 120, .packed = true, .bias = true};
    check_attention(device, &c);
    c = (attention_case){
        .batch = 3, .heads = 2, .head_dim = 72, .queries = 17, .keys = 17, .packed = true, .lse = true};
    check_attention(device, &c);
    c = (attention_case){.batch = 2, .heads = 6, .head_dim = 64, .queries = 33, .keys = 70, .kv_heads = 2, .lse = true};
    check_attention(device, &c);
    c = (attention_case){.batch = 3,
                         .heads = 4,
                         .head_dim = 72,
                         .queries = 33,
                         .keys = 33,
                         .packed = true,
                         .bias = true,
                         .kv_heads = 1,
                         .cap = 0.25f};
    check_attention(device, &c);
    c = (attention_case){.batch = 1,
                         .heads = 1,
                         .head_dim = 64,
                         .queries = 16,
                         .keys = 300,
                         .size = 100,
                         .lse = true}; /* scores to 1e4 */
    check_attention(device, &c);
}

/* --- convolution --- */

typedef struct conv_case {
    uint32_t batch, height, width, in, out, kernel, stride, before, after;
    dit_type type;
    bool upsample, bias, residual, residual_f32;
    uint32_t above, below;         /* lines of x beside the image's */
    uint32_t frames, frame_stride; /* not 0: the batch is a clip, of which the kernel reads so many frames */
    bool edges;
    uint32_t first, last; /* frames before the first and behind the last */
    bool ends;
} conv_case;

static const char *conv_module; /* the module that convolutions of halves must have chosen; NULL: any */

static inline void check_conv(diti_device *device, const conv_case *c) {
    diti_graph *graph = begin(device);
    diti_element act = graph->activation;
    uint32_t up = c->upsample ? 2 : 1, height = c->height * up, width = c->width * up,
             oh = (height + c->before + c->after - c->kernel) / c->stride + 1;
    uint32_t frames = c->frames ? c->frames : 1, frame_stride = c->frame_stride ? c->frame_stride : 1;
    uint32_t ow = (width + c->before + c->after - c->kernel) / c->stride + 1, taps = frames * c->kernel * c->kernel,
             rows = ((c->batch + c->first + c->last - frames) / frame_stride + 1) * oh * ow;
    matrix x = matrix_random(c->batch * (c->above + c->height + c->below) * c->width, c->in, 1, act),
           bias = matrix_random(1, c->out, 1, DITI_F32);
    matrix residual = matrix_random(rows, c->out, 1, c->residual_f32 ? DITI_F32 : act);
    weight_values w = weight_random(c->type, c->out, c->in * taps, c->kernel, 1), b = bias_weight(&bias);
    uint32_t unit = device->rung >= DITI_RUNG_COOP && c->in % 8 == 0 ? 8 : 4; /* matrices want rows of 16 bytes */
    double *wanted = malloc((size_t)rows * c->out * sizeof(double));
    diti_conv_desc desc = {0};
    diti_tensor out;
    char what[200];
    w.weight.frames = c->frames;
    desc.frame_stride = c->frame_stride;
    desc.edges = c->edges;
    desc.ends = c->ends;
    desc.frames_before = c->first;
    desc.frames_after = c->last;
    desc.batch = c->batch;
    desc.height = c->height;
    desc.width = c->width;
    desc.stride = c->stride;
    desc.pad_before = c->before;
    desc.pad_after = c->after;
    desc.upsample = c->upsample;
    desc.above = c->above;
    desc.below = c->below;
    if (c->bias) desc.bias = &b.weight;
    if (c->residual) desc.residual = input(&residual, c->residual_f32 ? DITI_F32 : act, 0, "residual");
    out = diti_conv(graph, input(&x, act, c->in % 4 ? 0 : unit, "x"), &w.weight, &desc);
    if (conv_module)
        CHECK_MESSAGE(!strcmp(diti_kernel_name(graph->dispatches[graph->dispatch_count - 1].kernel), conv_module) &&
                          graph->dispatches[graph->dispatch_count - 1].constants[9],
                      "a convolution of %u to %u has not chosen %s", c->in, c->out, conv_module);
    round_weights(&w, act);
    for (uint32_t r = 0; r < rows && !only_bytes; r++)
        for (uint32_t n = 0; n < c->out; n++) {
            uint32_t oy = r % (oh * ow) / ow, ox = r % ow;
            double v = c->bias ? bias.data[n] : 0;
            for (uint32_t ky = 0; ky < frames * c->kernel; ky++)
                for (uint32_t kx = 0; kx < c->kernel; kx++) {
                    int item = (int)(r / (oh * ow) * frame_stride + ky / c->kernel) - (int)c->first;
                    int y = (int)(oy * c->stride + ky % c->kernel) - (int)c->before,
                        px = (int)(ox * c->stride + kx) - (int)c->before;
                    y += (int)(c->above * up);
                    if (c->ends && item < 0) item = 0;
                    if (c->ends && item >= (int)c->batch) item = (int)c->batch - 1;
                    if (item < 0 || item >= (int)c->batch) continue;
                    if (c->edges && y < 0) y = 0;
                    if (c->edges && px < 0) px = 0;
                    if (c->edges && y >= (int)height) y = (int)height - 1;
                    if (c->edges && px >= (int)width) px = (int)width - 1;
                    if (y < 0 || px < 0 || y >= (int)(height + (c->above + c->below) * up) || px >= (int)width)
                        continue;
                    for (uint32_t i = 0; i < c->in; i++)
                        v += (double)at(&x,
                                        ((uint32_t)item * c->height + (uint32_t)y / up) * c->width + (uint32_t)px / up,
                                        i) *
                             w.values[((size_t)n * c->in + i) * taps + ky * c->kernel + kx];
                }
            wanted[(size_t)r * c->out + n] = v + (c->residual ? at(&residual, r, n) : 0);
        }
    snprintf(what, sizeof what,
             "conv %s cpu %d %ux%ux%u %u to %u kernel %ux%u stride %u %u pad %u %u %u %u up %u %s%s%s",
             diti_rung_name(device->rung), device->is_cpu, c->batch, c->height, c->width, c->in, c->out, frames,
             c->kernel, frame_stride, c->stride, c->before, c->after, c->first, c->last, c->upsample,
             diti_type_name(c->type), c->edges ? " edges" : "", c->ends ? " ends" : "");
    if (run_plan()) {
        matrix got = read_tensor(out);
        close_to(&got, wanted, tolerance_of(act), what);
        free(got.data);
    }
    end();
    weight_free(&w);
    weight_free(&b);
    free(x.data), free(bias.data), free(residual.data), free(wanted);
}

/* Sets tiny limits for plans to come; pipelines stay. */
static inline void cut_small(diti_device *device, uint32_t groups) {
    device->limits.group_count = groups;
    device->max_slice_us = 300;
}

/* Whether a device can be opened so. */
static inline bool has_rung(const char *overrides) {
    dit_context_desc desc = {0};
    diti_device *device = NULL;
    dit_error err = {0};
    desc.overrides = overrides;
    if (diti_device_open(&desc, &env, &device, &err) < 0) return false;
    diti_device_close(device);
    return true;
}
#endif
