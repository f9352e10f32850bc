/* The kernels against references computed in double precision: odd sizes, edge values, every operand of every epilogue,
   every stored type, slices and tiny limits. Both forms of a kernel (for processors, for GPUs) run on every driver.
   test-compiler: quick   test-runs: lavapipe swiftshader sanitize newest races */
#include "library.h"
#include "vk/pipeline.c"
#include "model/dit.c"
#include "plain.h"
#include "truncating.h"
#include "model_files.h"

static diti_env env;
static bool truncates; /* devices to be opened round to F16 toward zero: truncating.h */
static bool sweep;     /* DIT_TEST_ALL=1 */
static bool
    thorough; /* every case; else a few of each kind, since the kernels differ in their loads, stores and tiles only */

/* --- random numbers --- */

static uint64_t random_state = 1;
static uint32_t random_bits(void) {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(random_state >> 32);
}
static float random_float(void) { return (float)random_bits() * (2.0f / 4294967296.0f) - 1.0f; }

/* --- matrices on the host: floats; rounded where the device holds halves, so that both sides see the same values ---
 */

typedef struct matrix {
    uint32_t rows, columns;
    float *data;
} matrix;

static matrix matrix_new(uint32_t rows, uint32_t columns) {
    matrix m = {rows, columns, calloc((size_t)rows * columns + 1, sizeof(float))};
    return m;
}
static matrix matrix_random(uint32_t rows, uint32_t columns, float scale, diti_element format) {
    matrix m = matrix_new(rows, columns);
    for (size_t i = 0; i < (size_t)rows * columns; i++) {
        float v = random_float() * scale;
        m.data[i] = format == DITI_F16 ? diti_half_to_float(diti_float_to_half(v)) : v;
    }
    return m;
}
static float at(const matrix *m, uint32_t row, uint32_t column) { return m->data[(size_t)row * m->columns + column]; }

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

static diti_device *open_device(const char *overrides, uint32_t max_slice_us) {
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
static diti_device *open_rung(const char *overrides, diti_rung rung) {
    diti_device *device = open_device(overrides, 0);
    if (device) device->rung = rung;
    return device;
}

static diti_graph *begin(diti_device *device) {
    bench.device = device;
    diti_graph_init(&bench.graph, device);
    diti_graph_segment(&bench.graph, "test", false);
    bench.input_count = 0;
    return &bench.graph;
}

/* An input tensor of the given format whose rows are `extra` columns longer than the matrix (then a view of it). */
static diti_tensor input(const matrix *values, diti_element format, uint32_t extra, const char *name) {
    diti_tensor whole = diti_tensor_input(&bench.graph, format, values->rows, values->columns + extra, name);
    bench.inputs[bench.input_count].tensor = whole;
    bench.inputs[bench.input_count].words = NULL;
    bench.inputs[bench.input_count++].values = values;
    return extra ? diti_tensor_view(&bench.graph, whole, 0, values->rows, 0, values->columns) : whole;
}

static diti_tensor input_words(const uint32_t *words, uint32_t count, const char *name) {
    diti_tensor tensor = diti_tensor_input(&bench.graph, DITI_U32, 1, count, name);
    bench.inputs[bench.input_count].tensor = tensor;
    bench.inputs[bench.input_count].values = NULL;
    bench.inputs[bench.input_count++].words = words;
    return tensor;
}

static uint32_t format_bits(float v, diti_element format) {
    uint32_t bits;
    memcpy(&bits, &v, 4);
    return format == DITI_F16 ? diti_float_to_half(v) : bits;
}

/* Writes rows at the tensor's full width; values beyond the matrix are NaN, which must never reach a result. */
static void write_input(int index) {
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

static bool run_plan(void) {
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

static matrix read_tensor(diti_tensor tensor) {
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

static void end(void) {
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
static uint16_t random_half_bits(float scale) { return diti_float_to_half(random_float() * scale); }

static void fill_block(dit_type type, unsigned char *block) {
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

static void upload(weight_values *w, uint32_t parts) {
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

static weight_values weight_random(dit_type type, uint32_t rows, uint32_t columns, uint32_t kernel, uint32_t parts) {
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
static void give_factors(weight_values *w) {
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

static void weight_free(weight_values *w) {
    free(w->values);
    free(w->bytes);
}

/* A hash over every result that was compared since the last reset: equal bytes give equal numbers. */
static uint64_t result_hash;
static uint64_t few_hash; /* of the first part of run_kernels */
static bool only_bytes;   /* nothing is compared with a reference, which takes most of the time */

/* Relative L2 and the largest difference relative to the reference's root mean square. */
static bool close_to(const matrix *got, const double *wanted, double tolerance, const char *what) {
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
#define UNIT_TOLERANCE 2e-3 /* short sums in halves, and F32 activations that are rounded to halves */
static double tolerance_of(diti_element format) { return format == DITI_F16 ? 6e-4 : 4e-6; }

/* --- GEMM --- */

static double activated(diti_activation kind, double x) {
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

static void reference_linear(const linear_case *c, const matrix *x, const float *w, const matrix *bias,
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

static weight_values bias_weight(const matrix *values) {
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
static void round_weights(weight_values *w, diti_element format) {
    bool direct = (w->weight.type == DIT_TYPE_F32 || w->weight.type == DIT_TYPE_F16) && w->weight.columns % 4 == 0 &&
                  w->weight.kernel <= 1;
    if (format != DITI_F16 || direct) return;
    for (size_t i = 0; i < (size_t)w->weight.rows * w->weight.columns; i++)
        w->values[i] = diti_half_to_float(diti_float_to_half(w->values[i]));
}

static matrix run_linear(diti_device *device, const linear_case *c, double **wanted) {
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

static void check_linear(diti_device *device, const linear_case *c) {
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

static void test_linear_sizes(diti_device *device) {
    static const uint32_t few[] = {1, 7, 16, 63, 65, 77}, all[] = {1, 7, 16, 63, 64, 65, 77, 257};
    const uint32_t *sizes = sweep ? all : few;
    int n = sweep ? 8 : 6;
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) {
            if (!thorough && (i + j) % 3 != 1) continue;
            uint32_t k = sizes[(i * 3 + j * 5 + 2) % n];
            linear_case c = {.m = sizes[i], .n = sizes[j], .k = k, .type = DIT_TYPE_F32};
            c.bias = true;
            c.out_f32 = sizes[j] % 2 == 1;
            check_linear(device, &c);
        }
}

static void test_linear_parts(diti_device *device) {
    for (int part = sweep ? 0 : thorough ? 2 : 5; part < 8; part++) {
        if (!sweep && (part == 3 || part == 4)) continue; /* part 7 has both */
        linear_case c = {.m = 70, .n = 96, .k = 64, .type = DIT_TYPE_F16};
        c.bias = part == 1 || part == 6;
        c.multiply = part == 2 || part == 6;
        c.gate = part == 3 || part >= 6;
        c.residual = part == 4 || part >= 6;
        c.activation = part == 5 || part == 6 ? DITI_ACTIVATION_GELU_TANH : DITI_ACTIVATION_NONE;
        c.rows_per_gate = part == 6 ? 33 : 0;
        c.extra = 4 * (uint32_t)(part & 1);
        c.in_place = part == 7;
        c.x_f32 = part == 5;
        check_linear(device, &c);
        if (part < 6) continue;
        c.m = 5; /* few rows */
        c.rows_per_gate = part == 6 ? 2 : 0;
        check_linear(device, &c);
        c.n = 31; /* nothing aligned */
        c.k = 33;
        c.m = 37;
        c.extra = 3;
        c.out_f32 = true;
        check_linear(device, &c);
    }
    for (int a = DITI_ACTIVATION_GELU_ERF; a <= DITI_ACTIVATION_QUICK_GELU && thorough; a++) {
        linear_case c = {.m = 33, .n = 64, .k = 48, .type = DIT_TYPE_F32};
        c.activation = (diti_activation)a;
        check_linear(device, &c);
    }
}

/* The image's rows of two prompts with two images each: the first five rows of an item are text. */
static void test_linear_items(diti_device *device) {
    linear_case c = {.m = 4 * 42, .n = 72, .k = 64, .type = DIT_TYPE_Q8_0, .parts = 2};
    c.rows.of = 42;
    c.rows.first = 5;
    c.rows.count = 37;
    c.rows_per_gate = 84;
    c.bias = c.gate = c.residual = c.in_place = true;
    check_linear(device, &c);
    c.rows.first = 0; /* few rows: a matrix-vector product on GPUs */
    c.rows.count = 5;
    c.extra = 4;
    check_linear(device, &c);
}

/* Rows are found by the size of a block, and decoded as test_linear_types decodes every type. */
static bool gathered_type(int type) {
    return sweep || type == DIT_TYPE_F32 || type == DIT_TYPE_Q8_0 || type == DIT_TYPE_Q4_K || type == DIT_TYPE_NVFP4;
}

static bool wanted_type(int type) {
    return thorough || type == DIT_TYPE_BF16 || type == DIT_TYPE_Q8_0 || type == DIT_TYPE_I4_GROUP;
}

/* Rows 8 to 51 of a weight in three parts, of their columns the second and the fourth quarter side by side. */
static void check_cut(diti_device *device, dit_type type, bool factors) {
    enum { M = 21, N = 44, K = 512, ROWS = 72, COLUMNS = 1024 };
    diti_graph *graph = begin(device);
    matrix x = matrix_random(M, K, 1, graph->activation), got = {0, 0, NULL};
    weight_values w = weight_random(type, ROWS, COLUMNS, 1, 3);
    diti_replicas *replicas = diti_replicas_create(&env, device);
    linear_case c = {.m = M, .n = N, .k = K};
    diti_linear_desc desc = {0};
    float *part = malloc(N * K * sizeof *part);
    double *wanted = malloc(M * N * sizeof *wanted);
    diti_tensor out;
    if (factors) give_factors(&w);
    for (int i = 0; i < bench.block_count; i++) bench.blocks[i].replicas = replicas;
    desc.cut.row = 8;
    desc.cut.rows = N;
    desc.cut.columns[0].first = 256;
    desc.cut.columns[1].first = 768;
    desc.cut.columns[0].count = desc.cut.columns[1].count = 256;
    desc.out_f32 = true;
    out = diti_linear(graph, input(&x, graph->activation, 0, "x"), &w.weight, &desc);
    CHECK(diti_linear(graph, out, &w.weight, &desc) == 0); /* of other columns */
    memset(&graph->error, 0, sizeof graph->error);
    round_weights(&w, graph->activation);
    for (int r = 0; r < N; r++)
        for (int k = 0; k < K; k++) part[r * K + k] = w.values[(8 + r) * COLUMNS + (k < 256 ? 256 + k : 512 + k)];
    reference_linear(&c, &x, part, NULL, NULL, NULL, NULL, wanted);
    if (run_plan()) {
        uint64_t bytes = diti_replicas_bytes(replicas, device), row = 0;
        got = read_tensor(out);
        close_to(&got, wanted, tolerance_of(DITI_F32), diti_type_name(type));
        CHECK(diti_type_bytes(type, 1, K, &row) && bytes >= N * row && bytes <= N * row + 3 * 16);
    }
    end();
    diti_replicas_free(replicas);
    weight_free(&w);
    free(got.data), free(x.data), free(part), free(wanted);
}

static void test_linear_types(diti_device *device) {
    for (int type = DIT_TYPE_F32; type <= DIT_TYPE_NVFP4; type++) {
        if (!wanted_type(type)) continue;
        linear_case c = {.m = 40, .n = 72, .k = 512, .type = (dit_type)type};
        c.parts = 3;
        c.bias = true;
        check_linear(device, &c);
        if (diti_weight_bytes(c.type, 1, 512, &(uint64_t){0})) check_cut(device, c.type, false);
    }
    for (int type = thorough ? DIT_TYPE_F8_E4M3 : DIT_TYPE_NVFP4; type;
         type = type < DIT_TYPE_NVFP4 ? DIT_TYPE_NVFP4 : 0) {
        linear_case c = {.m = 40, .n = 72, .k = 512, .type = (dit_type)type, .parts = 3, .factors = true};
        check_linear(device, &c);
        check_cut(device, c.type, true);
    }
}

/* --- weights as rows: expansion and gathering, exact --- */

static void test_expand(diti_device *device) {
    static const uint32_t ids[] = {3, 0, 70, 31, 30, 3, 12};
    for (int type = DIT_TYPE_F32; type <= DIT_TYPE_NVFP4; type++) {
        if (!wanted_type(type) || (thorough && !gathered_type(type))) continue;
        uint32_t columns = diti_type_block((dit_type)type) == 1 ? 45 : 512, wrong = 0;
        diti_graph *graph = begin(device);
        weight_values w = weight_random((dit_type)type, 71, columns, 1, 3);
        diti_tensor out;
        if (type == DIT_TYPE_NVFP4) give_factors(&w);
        out = diti_gather_rows(graph, &w.weight, input_words(ids, 7, "ids"), "gather");
        if (run_plan()) {
            matrix got = read_tensor(out);
            for (uint32_t r = 0; r < 7; r++)
                for (uint32_t c = 0; c < columns; c++)
                    wrong += at(&got, r, c) != w.values[(size_t)ids[r] * columns + c];
            CHECK_MESSAGE(wrong == 0, "gather %s: %u wrong values", diti_type_name((dit_type)type), wrong);
            free(got.data);
        }
        end();
        weight_free(&w);
    }
}

/* All codes of the small floats, NaN included, against the host's definition. */
static void test_expand_codes(diti_device *device) {
    static const dit_type types[] = {DIT_TYPE_F8_E4M3, DIT_TYPE_F8_E5M2, DIT_TYPE_F16, DIT_TYPE_BF16};
    static const uint32_t ids[] = {0, 1};
    for (int t = 0; t < 4; t++) {
        uint32_t width = diti_type_block_bytes(types[t]), codes = width == 1 ? 256 : 65536, wrong = 0;
        weight_values w = {0};
        diti_graph *graph = begin(device);
        diti_tensor out;
        w.weight.name = "codes";
        w.weight.type = types[t];
        w.weight.rows = 2;
        w.weight.columns = codes / 2;
        w.bytes = malloc(codes * width);
        w.values = malloc(codes * sizeof(float));
        for (uint32_t i = 0; i < codes * width; i++)
            w.bytes[i] = (unsigned char)(width == 1 ? i : i % 2 ? i / 2 / 256 : i / 2 % 256);
        diti_type_to_float(types[t], w.bytes, codes, w.values);
        upload(&w, 1);
        out = diti_gather_rows(graph, &w.weight, input_words(ids, 2, "ids"), "gather");
        if (run_plan()) {
            matrix got = read_tensor(out);
            for (uint32_t i = 0; i < codes; i++) {
                bool same = isnan(w.values[i]) ? isnan(got.data[i]) : got.data[i] == w.values[i];
                bool tiny = fabsf(w.values[i]) < 1.1754944e-38f; /* drivers may flush F32 subnormals */
                wrong += !same && !tiny;
            }
            CHECK_MESSAGE(wrong == 0, "codes of %s: %u wrong values", diti_type_name(types[t]), wrong);
            free(got.data);
        }
        end();
        weight_free(&w);
    }
}

/* All scales of floats of 4 bits, each with all codes. */
static void test_expand_scales(diti_device *device) {
    static const dit_type types[] = {DIT_TYPE_MXFP4, DIT_TYPE_NVFP4};
    static const uint32_t ids[] = {0, 1};
    for (int t = 0; t < 2; t++) {
        const uint32_t elements = diti_type_block(types[t]), width = diti_type_block_bytes(types[t]), wide = 4096;
        const uint32_t scales = t ? 4 : 1;
        diti_graph *graph = begin(device);
        weight_values w = weight_random(types[t], 2, wide, 1, 1);
        uint32_t wrong = 0;
        diti_tensor out;
        for (uint32_t b = 0; b < 2 * wide / elements; b++) {
            unsigned char *block = w.bytes + (size_t)b * width;
            for (uint32_t i = 0; i < scales; i++) block[i] = (unsigned char)(b * scales + i);
            for (uint32_t i = scales; i < width; i++)
                block[i] = (unsigned char)((i - scales) % 16 | (15 - (i - scales) % 16) << 4);
        }
        diti_type_to_float(types[t], w.bytes, 2 * wide, w.values);
        bench.block_count--;
        diti_buffer_destroy(device, &bench.blocks[bench.block_count].buffer);
        upload(&w, 1);
        out = diti_gather_rows(graph, &w.weight, input_words(ids, 2, "ids"), "gather");
        if (run_plan()) {
            matrix got = read_tensor(out);
            for (uint32_t i = 0; i < 2 * wide; i++) { /* drivers may flush F32 subnormals, of scales, too */
                bool tiny = types[t] == DIT_TYPE_MXFP4 && fabsf(w.values[i]) < 1e-37f;
                wrong += got.data[i] != w.values[i] && !tiny;
            }
            CHECK_MESSAGE(wrong == 0, "scales of %s: %u wrong values", diti_type_name(types[t]), wrong);
            free(got.data);
        }
        end();
        weight_free(&w);
    }
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
static void attention_items(const attention_case *c, uint32_t (*items)[4]) {
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

static void reference_attention(const attention_case *c, const matrix *q, const matrix *k, const matrix *v,
                                uint32_t (*items)[4], const matrix *bias, float scale, double *out, double *lse) {
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

static uint32_t attention_rows(const attention_case *c, uint32_t (*items)[4], uint32_t column) {
    uint32_t i, end = 0;
    for (i = 0; i < c->batch; i++)
        if (items[i][column] + items[i][column + 1] > end) end = items[i][column] + items[i][column + 1];
    return end;
}

static void check_attention(diti_device *device, const attention_case *c) {
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
static void test_attention_few(diti_device *device) {
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

static void test_attention(diti_device *device) {
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

/* --- norms --- */

typedef struct norm_case {
    uint32_t rows, columns, rows_per_group, item_rows, text_rows;
    bool rms, affine, modulate, x_act, out_f32, silu;
    float size, offset;
    uint32_t extra;
} norm_case;

static void check_norm(diti_device *device, const norm_case *c) {
    diti_graph *graph = begin(device);
    diti_element act = graph->activation, format = c->x_act ? act : DITI_F32;
    matrix x = matrix_random(c->rows, c->columns, c->size, format), weight = matrix_random(1, c->columns, 1, DITI_F32),
           bias = matrix_random(1, c->columns, 1, DITI_F32);
    uint32_t groups = c->rows_per_group ? (c->rows + c->rows_per_group - 1) / c->rows_per_group : 1,
             kinds = c->item_rows ? 2 : 1;
    matrix scale = matrix_random(kinds * groups, c->columns, 1, DITI_F32),
           shift = matrix_random(kinds * groups, c->columns, 1, DITI_F32);
    weight_values w = bias_weight(&weight), b = bias_weight(&bias);
    double *wanted = malloc((size_t)c->rows * c->columns * sizeof(double));
    diti_norm_desc desc = {0};
    diti_tensor out;
    char what[160];
    for (size_t i = 0; i < (size_t)c->rows * c->columns; i++) x.data[i] += c->offset;
    if (format == DITI_F16)
        for (size_t i = 0; i < (size_t)c->rows * c->columns; i++)
            x.data[i] = diti_half_to_float(diti_float_to_half(x.data[i]));
    desc.rms = c->rms;
    desc.eps = 1e-6f;
    if (c->affine) desc.weight = &w.weight;
    if (c->affine && !c->rms) desc.bias = &b.weight;
    if (c->modulate)
        desc.scale = input(&scale, DITI_F32, c->extra, "scale"),
        desc.shift = input(&shift, DITI_F32, c->extra, "shift");
    desc.rows_per_group = c->rows_per_group;
    desc.item_rows = c->item_rows;
    desc.text_rows = c->text_rows;
    desc.out_f32 = c->out_f32;
    desc.silu = c->silu;
    if (c->item_rows) /* between other rows */
        desc.out = diti_tensor_view(graph, diti_tensor_new(graph, act, c->rows + 2, c->columns + 4, "out"), 1, c->rows,
                                    4, c->columns);
    out = diti_norm(graph, input(&x, format, c->extra, "x"), &desc);
    for (uint32_t r = 0; r < c->rows && !only_bytes; r++) {
        double mean = 0, var = 0;
        uint32_t g = c->rows_per_group ? r / c->rows_per_group : 0;
        if (c->item_rows) g = 2 * g + (r % c->item_rows >= c->text_rows);
        for (uint32_t i = 0; i < c->columns && !c->rms; i++) mean += at(&x, r, i) / (double)c->columns;
        for (uint32_t i = 0; i < c->columns; i++) var += (at(&x, r, i) - mean) * (at(&x, r, i) - mean) / c->columns;
        for (uint32_t i = 0; i < c->columns; i++) {
            double v = (at(&x, r, i) - mean) / sqrt(var + 1e-6f);
            if (desc.weight) v *= weight.data[i];
            if (desc.bias) v += bias.data[i];
            if (c->modulate) v = v * (1 + (double)at(&scale, g, i)) + at(&shift, g, i);
            wanted[(size_t)r * c->columns + i] = c->silu ? activated(DITI_ACTIVATION_SILU, v) : v;
        }
    }
    snprintf(what, sizeof what, "norm %s cpu %d [%u, %u] rms %d affine %d modulate %d size %g offset %g",
             diti_rung_name(device->rung), device->is_cpu, c->rows, c->columns, c->rms, c->affine, c->modulate,
             (double)c->size, (double)c->offset);
    if (run_plan()) {
        matrix got = read_tensor(out);
        /* a value of 1e4 is itself rounded to 5e-4 before anything is computed: x is what the device holds, so that
         * costs nothing here */
        close_to(&got, wanted, tolerance_of(c->out_f32 ? DITI_F32 : act), what);
        free(got.data);
    }
    end();
    weight_free(&w);
    weight_free(&b);
    free(x.data), free(weight.data), free(bias.data), free(scale.data), free(shift.data), free(wanted);
}

static void test_norms(diti_device *device) {
    static const uint32_t columns[] = {1152, 64, 33, 6144, 5};
    for (int i = thorough ? 0 : 1; i < (thorough ? 5 : 3); i++) {
        norm_case c = {.rows = 13, .columns = columns[i], .size = 2, .out_f32 = columns[i] % 2 == 1};
        check_norm(device, &c);
        c.offset = 1e4f;
        check_norm(device, &c);
        c.offset = 0;
        c.size = 0; /* constant rows */
        c.rms = true;
        check_norm(device, &c);
        c.size = 100;
        c.affine = true;
        c.x_act = c.silu = true;
        check_norm(device, &c);
        c.rms = c.silu = false;
        c.modulate = true;
        c.rows_per_group = 5;
        c.extra = 4;
        check_norm(device, &c);
        if (columns[i] % 2) continue;
        c.rows = 30; /* two prompts with three images each, and two rows of text */
        c.rows_per_group = 15;
        c.item_rows = 5;
        c.text_rows = 2;
        check_norm(device, &c);
    }
}

/* --- queries and keys: norm and rotation --- */

enum { QKV_HALF_SPLIT = 1, QKV_TWO_AXES = 2, QKV_ROTATE_FIRST = 4, QKV_SHARED = 8 };

/* form: of the rotation. text: so many rows of an item have weights of their own, and the second half of the heads has
   others than the first */
static void check_qkv(diti_device *device, uint32_t heads, uint32_t dim, diti_qkv_norm norm, bool rotate, uint32_t form,
                      bool affine, uint32_t text) {
    diti_graph *graph = begin(device);
    diti_element act = graph->activation;
    enum { TOKENS = 9, ROWS = 18 };
    uint32_t width = heads * dim, kinds = text ? 2 : 1;
    matrix x = matrix_random(ROWS, width, 2, act), weight = matrix_random(1, kinds * kinds * dim, 1, DITI_F32),
           bias = matrix_random(1, dim, 1, DITI_F32);
    uint32_t share = form & QKV_SHARED ? 3 : 1, split = form & QKV_TWO_AXES ? dim / 4 : dim / 2;
    bool half_split = form & (QKV_HALF_SPLIT | QKV_TWO_AXES), late = rotate && form & QKV_ROTATE_FIRST;
    matrix cosines = matrix_random(TOKENS / share, dim / 2, 1, DITI_F32),
           sines = matrix_random(TOKENS / share, dim / 2, 1, DITI_F32);
    weight_values w = bias_weight(&weight), b = bias_weight(&bias);
    double *wanted = malloc((size_t)ROWS * width * sizeof(double)), *v = malloc(dim * sizeof(double));
    diti_qkv_desc desc = {0};
    diti_tensor tensor;
    char what[160];
    desc.heads = heads;
    desc.head_dim = dim;
    desc.norm = norm;
    desc.eps = 1e-6f;
    if (affine) desc.weight = &w.weight, desc.bias = norm == DITI_QKV_LAYER ? &b.weight : NULL;
    if (rotate)
        desc.cosines = input(&cosines, DITI_F32, 0, "cosines"), desc.sines = input(&sines, DITI_F32, 0, "sines");
    desc.half_split = half_split;
    desc.two_axes = (form & QKV_TWO_AXES) != 0;
    desc.rotate_first = (form & QKV_ROTATE_FIRST) != 0;
    desc.rows_per_entry = share > 1 ? share : 0;
    desc.tokens = TOKENS;
    desc.kinds = kinds;
    desc.text_rows = text;
    desc.others = text != 0;
    tensor = input(&x, act, 8, "x");
    diti_qk_norm_rope(graph, tensor, &desc);
    for (uint32_t r = 0; r < ROWS; r++)
        for (uint32_t h = 0; h < heads; h++) {
            double mean = 0, var = 0, *to = wanted + (size_t)r * width + h * dim;
            uint32_t which = text ? 2 * (r % TOKENS >= text) + (h >= heads / 2) : 0;
            for (uint32_t i = 0; i < dim && norm == DITI_QKV_LAYER; i++) mean += (double)at(&x, r, h * dim + i) / dim;
            for (uint32_t i = 0; i < dim; i++)
                var += (at(&x, r, h * dim + i) - mean) * (at(&x, r, h * dim + i) - mean) / dim;
            for (uint32_t i = 0; i < dim; i++) {
                v[i] = norm == DITI_QKV_NO_NORM ? at(&x, r, h * dim + i)
                                                : (at(&x, r, h * dim + i) - mean) / sqrt(var + 1e-6f);
                if (desc.weight && !late) v[i] *= weight.data[which * dim + i];
                if (desc.bias) v[i] += bias.data[i];
                to[i] = v[i];
            }
            for (uint32_t i = 0; i < dim / 2 && rotate; i++) {
                uint32_t a = half_split ? i / split * 2 * split + i % split : 2 * i, z = half_split ? a + split : a + 1;
                double cosine = at(&cosines, r % TOKENS / share, i), sine = at(&sines, r % TOKENS / share, i);
                to[a] = v[a] * cosine - v[z] * sine;
                to[z] = v[z] * cosine + v[a] * sine;
            }
            for (uint32_t i = 0; i < dim && desc.weight && late; i++) to[i] *= weight.data[which * dim + i];
        }
    snprintf(what, sizeof what, "qkv %s cpu %d %u x %u norm %d rotate %d form %u affine %d",
             diti_rung_name(device->rung), device->is_cpu, heads, dim, (int)norm, rotate, form, affine);
    if (run_plan()) {
        matrix got = read_tensor(tensor);
        close_to(&got, wanted, tolerance_of(act), what);
        free(got.data);
    }
    end();
    weight_free(&w);
    weight_free(&b);
    free(x.data), free(weight.data), free(bias.data), free(cosines.data), free(sines.data), free(wanted), free(v);
}

static void test_qkv(diti_device *device) {
    check_qkv(device, 3, 64, DITI_QKV_RMS, true, false, true, 0);
    check_qkv(device, 2, 88, DITI_QKV_LAYER, true, false, true, 0);
    check_qkv(device, 2, 72, DITI_QKV_RMS, true, true, false, 0);
    check_qkv(device, 5, 128, DITI_QKV_NO_NORM, true, false, false, 0);
    check_qkv(device, 4, 16, DITI_QKV_LAYER, false, false, true, 0);
    check_qkv(device, 6, 24, DITI_QKV_RMS, true, false, true, 4);
    check_qkv(device, 2, 24, DITI_QKV_RMS, true, QKV_ROTATE_FIRST | QKV_SHARED, true, 0);
    check_qkv(device, 2, 72, DITI_QKV_NO_NORM, true, QKV_HALF_SPLIT | QKV_SHARED, false, 0);
    check_qkv(device, 2, 72, DITI_QKV_NO_NORM, true, QKV_TWO_AXES, false, 0);
    if (device->rung == DITI_RUNG_BASE) check_qkv(device, 3, 36, DITI_QKV_NO_NORM, true, QKV_TWO_AXES, false, 0);
}

/* --- patches of videos, and rows of their frames --- */

enum { THERE, BACK, BACK_PLANAR };

/* Latents that end inside a patch, and patches of more frames than one. */
static void check_patches(diti_device *device, const diti_patches *p, int way) {
    uint32_t deep = p->patch_frames ? p->patch_frames : 1, frames = p->frames ? p->frames : 1, patch = p->patch;
    uint32_t gf = frames / deep, gh = (p->height + patch - 1) / patch, gw = (p->width + patch - 1) / patch;
    uint32_t volume = deep * patch * patch, plane = frames * p->height * p->width, tokens = gf * gh * gw;
    diti_graph *graph = begin(device);
    diti_element act = graph->activation;
    matrix latent = matrix_random(p->batch * p->channels, plane, 1, act),
           rows = matrix_random(p->batch * tokens, p->channels * volume, 1, DITI_F32);
    double *there = calloc((size_t)rows.rows * rows.columns, sizeof *there),
           *back = calloc((size_t)latent.rows * plane, sizeof *back);
    diti_tensor from = input(way == THERE ? &latent : &rows, DITI_F32, 0, "from"), to;
    char what[120];
    to = way == THERE  ? diti_patchify(graph, from, p, 0)
         : way == BACK ? diti_unpatchify(graph, from, p, p->channels)
                       : diti_unpatchify_planes(graph, from, p);
    for (uint32_t b = 0; b < p->batch; b++)
        for (uint32_t c = 0; c < p->channels; c++)
            for (uint32_t at_pixel = 0; at_pixel < plane; at_pixel++) {
                uint32_t f = at_pixel / (p->height * p->width), y = at_pixel / p->width % p->height,
                         x = at_pixel % p->width;
                uint32_t token = ((b * gf + f / deep) * gh + y / patch) * gw + x / patch;
                uint32_t inside = (f % deep * patch + y % patch) * patch + x % patch, row = b * p->channels + c;
                there[(size_t)token * rows.columns + c * volume + inside] = at(&latent, row, at_pixel);
                back[(size_t)row * plane + at_pixel] =
                    at(&rows, token, way == BACK_PLANAR ? c * volume + inside : inside * p->channels + c);
            }
    CHECK(diti_patches_tokens(p) == tokens);
    snprintf(what, sizeof what, "patches of %u x %u x %u in %u x %u x %u, way %d", deep, patch, patch, frames,
             p->height, p->width, way);
    if (run_plan()) {
        matrix got = read_tensor(to);
        close_to(&got, way == THERE ? there : back, 0, what);
        free(got.data);
    }
    end();
    free(latent.data), free(rows.data), free(there), free(back);
}

/* A row of a table of words picks rows of a table of floats for three frames; frames share rows of what is added; the
   rows of one frame are taken from another tensor. */
static void check_frames(diti_device *device) {
    enum { FRAMES = 3, SHARE = 5, COLUMNS = 12, STEPS = 2 };
    static const uint32_t words[STEPS * FRAMES] = {0, 2, 0, 1, 2, 7}, step[1] = {1};
    diti_graph *graph = begin(device);
    matrix table = matrix_random(STEPS + 1, COLUMNS, 1, DITI_F32),
           x = matrix_random(FRAMES * SHARE, COLUMNS, 1, DITI_F32),
           other = matrix_random(FRAMES * SHARE, COLUMNS, 1, DITI_F32);
    double sums[FRAMES * SHARE * COLUMNS];
    diti_tensor ids, picked, out;
    diti_elementwise_desc add = {0};
    ids = diti_tensor_reshape(graph, input_words(words, STEPS * FRAMES, "ids"), STEPS, FRAMES);
    ids = diti_select_row(graph, ids, input_words(step, 1, "step"), "select");
    picked = diti_gather_tensor(graph, input(&table, DITI_F32, 0, "table"), ids, "pick");
    add.add = picked;
    add.rows_per_add = SHARE;
    add.out_f32 = true;
    out = diti_elementwise(graph, input(&x, DITI_F32, 0, "x"), &add);
    diti_copy_chosen(graph, input(&other, DITI_F32, 4, "other"), out, ids, 2, "choose");
    for (uint32_t f = 0; f < FRAMES; f++) /* the third frame's row is none of the table */
        for (uint32_t r = f * SHARE; r < (f + 1) * SHARE; r++)
            for (uint32_t c = 0; c < COLUMNS; c++)
                sums[r * COLUMNS + c] = f == 1   ? at(&other, r, c)
                                        : f == 0 ? at(&x, r, c) + at(&table, words[FRAMES], c)
                                                 : at(&x, r, c);
    if (run_plan()) {
        matrix got = read_tensor(out);
        close_to(&got, sums, 1e-7, "rows that frames share");
        free(got.data);
    }
    end();
    free(table.data), free(x.data), free(other.data);
}

static void test_videos(diti_device *device) {
    static const diti_patches cases[] = {{2, 3, 4, 7, 9, 2, 2, false},
                                         {1, 4, 0, 6, 4, 2, 0, false},
                                         {1, 2, 3, 5, 5, 4, 1, false},
                                         {2, 7, 1, 1, 1, 1, 0, false}}; /* the last one: planes of one element */
    for (size_t i = 0; i < DITI_COUNT(cases); i++) {
        check_patches(device, &cases[i], THERE);
        check_patches(device, &cases[i], i % 2 ? BACK : BACK_PLANAR);
    }
    check_patches(device, &cases[0], BACK);
    check_frames(device);
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

static void check_conv(diti_device *device, const conv_case *c) {
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

static void test_conv(diti_device *device) {
    static const conv_case cases[] = {
        {1, 9, 7, 16, 20, 3, 1, 1, 1, DIT_TYPE_F16, false, true, false, false, 0, 0, 1, 1, false, 0, 0, false},
        {2, 6, 5, 8, 33, 3, 1, 1, 1, DIT_TYPE_F32, false, true, true, true, 0, 0, 1, 1, false, 0, 0, false},
        {1, 8, 8, 3, 16, 3, 1, 1, 1, DIT_TYPE_F32, false, true, false, false, 0, 0, 1, 1, false, 0, 0, false},
        {1, 8, 6, 16, 3, 3, 1, 1, 1, DIT_TYPE_BF16, false, true, false, false, 0, 0, 1, 1, false, 0, 0, false},
        {2, 8, 10, 12, 24, 3, 2, 0, 1, DIT_TYPE_F16, false, true, false, false, 0, 0, 1, 1, false, 0, 0, false},
        {2, 5, 4, 16, 16, 3, 1, 1, 1, DIT_TYPE_F16, true, true, true, false, 0, 0, 1, 1, false, 0, 0, false},
        {2, 4, 6, 16, 40, 1, 1, 0, 0, DIT_TYPE_F16, false, true, true, false, 0, 0, 1, 1, false, 0, 0, false},
        {1, 7, 7, 6, 10, 1, 2, 0, 0, DIT_TYPE_F32, false, false, false, false, 0, 0, 1, 1, false, 0, 0, false},
        {1, 4, 4, 32, 36, 3, 1, 1, 1, DIT_TYPE_Q8_0, false, true, false, false, 0, 0, 1, 1, false, 0, 0, false},
        {1, 3, 3, 256, 8, 3, 1, 1, 1, DIT_TYPE_Q4_K, false, true, false, false, 0, 0, 1, 1, false, 0, 0, false},
        {1, 5, 6, 16, 20, 3, 1, 1, 1, DIT_TYPE_F16, false, true, true, false, 1, 1, 1, 1, false, 0, 0, false},
        {1, 4, 5, 16, 16, 3, 1, 1, 1, DIT_TYPE_F16, true, true, true, false, 1, 1, 1, 1, false, 0, 0, false},
        {1, 4, 6, 12, 24, 3, 2, 0, 1, DIT_TYPE_F32, false, true, false, false, 0, 1, 1, 1, false, 0, 0, false},
        /* clips: 3x3x3, 3x1x1, 1x3x3, halved in time, in space, in both; a Cin of 3 and of 6 */
        {5, 5, 3, 16, 20, 3, 1, 1, 1, DIT_TYPE_F16, false, true, false, false, 0, 0, 3, 1, false, 0, 0, false},
        {3, 3, 5, 8, 12, 1, 1, 0, 0, DIT_TYPE_F32, false, false, true, true, 0, 0, 3, 1, false, 2, 0, true},
        {7, 4, 3, 6, 10, 3, 1, 1, 1, DIT_TYPE_F32, false, true, false, false, 0, 0, 3, 2, false, 1, 1, true},
        {3, 4, 6, 12, 24, 3, 2, 0, 1, DIT_TYPE_BF16, false, true, false, false, 0, 0, 1, 1, false, 0, 0, false},
        {5, 4, 6, 3, 8, 3, 2, 1, 1, DIT_TYPE_F16, false, true, false, false, 0, 0, 3, 2, true, 2, 0, true},
        {4, 3, 4, 16, 16, 3, 1, 1, 1, DIT_TYPE_F16, true, true, true, false, 0, 0, 3, 1, true, 0, 0, false},
        {1, 2, 3, 32, 36, 3, 1, 1, 1, DIT_TYPE_Q8_0, false, true, false, false, 0, 0, 3, 1, false, 2, 0, false},
        {3, 2, 3, 16, 20, 3, 1, 1, 1, DIT_TYPE_F16, false, true, false, false, 0, 0, 3, 1, false, 1, 1, false},
    };
    for (size_t i = 0; i < DITI_COUNT(cases); i++) {
        if (!thorough && i % 3 != 2) continue;
        conv_case c = cases[i];
        if (device->rung >= DITI_RUNG_FP16 && c.out % 2) c.out++; /* F16 pixels begin at even elements */
        check_conv(device, &c);
    }
}

/* --- GroupNorm --- */

/* Sums as two devices would make them; the first one has so many of the image's parts. */
static diti_tensor moments_of_parts(diti_graph *graph, diti_tensor x, uint32_t first,
                                    const diti_group_norm_desc *desc) {
    diti_tensor_info info = *diti_tensor_get(graph, x);
    uint32_t columns = DITI_GROUP_MOMENTS * desc->groups, rows = info.rows / desc->parts, i;
    diti_tensor all = diti_tensor_new(graph, DITI_F32, desc->parts, columns, "moments");
    diti_group_norm_desc own = *desc;
    for (i = 0; i < 2; i++) {
        own.parts = i ? desc->parts - first : first;
        diti_copy(graph,
                  diti_group_moments(
                      graph, diti_tensor_view(graph, x, i * first * rows, own.parts * rows, 0, info.columns), &own),
                  diti_tensor_view(graph, all, i * first, own.parts, 0, columns), "moments");
    }
    return all;
}

/* parts: that the image is summed in; first: of them, that one of two devices has, whose result has the same bytes as
   that of one device. */
static void check_group_norm(diti_device *device, uint32_t batch, uint32_t pixels, uint32_t columns, uint32_t groups,
                             bool silu, float offset, uint32_t parts, uint32_t first) {
    diti_graph *graph = begin(device);
    diti_element act = graph->activation;
    matrix x = matrix_random(batch * pixels, columns, 2, act), weight = matrix_random(1, columns, 1, DITI_F32),
           bias = matrix_random(1, columns, 1, DITI_F32);
    weight_values w = bias_weight(&weight), b = bias_weight(&bias);
    double *wanted = malloc((size_t)batch * pixels * columns * sizeof(double));
    diti_group_norm_desc desc = {
        .batch = batch, .groups = groups, .eps = 1e-6f, .weight = &w.weight, .bias = &b.weight, .silu = silu};
    diti_tensor in, out, alone = 0;
    char what[160];
    uint32_t width = columns / groups;
    for (size_t i = 0; i < (size_t)batch * pixels * columns; i++) {
        x.data[i] += offset;
        if (act == DITI_F16) x.data[i] = diti_half_to_float(diti_float_to_half(x.data[i]));
    }
    in = input(&x, act, 0, "x");
    desc.parts = parts;
    if (first) alone = diti_group_norm(graph, in, &desc);
    if (first) desc.moments = moments_of_parts(graph, in, first, &desc);
    out = diti_group_norm(graph, in, &desc);
    for (uint32_t item = 0; item < batch && !only_bytes; item++)
        for (uint32_t g = 0; g < groups; g++) {
            double mean = 0, var = 0, n = (double)pixels * width;
            for (int pass = 0; pass < 3; pass++)
                for (uint32_t p = 0; p < pixels; p++)
                    for (uint32_t c = g * width; c < (g + 1) * width; c++) {
                        double v = at(&x, item * pixels + p, c);
                        if (pass == 0) mean += v / n;
                        if (pass == 1) var += (v - mean) * (v - mean) / n;
                        v = (v - mean) / sqrt(var + 1e-6f) * weight.data[c] + bias.data[c];
                        if (pass == 2)
                            wanted[((size_t)item * pixels + p) * columns + c] =
                                silu ? activated(DITI_ACTIVATION_SILU, v) : v;
                    }
        }
    snprintf(what, sizeof what, "group norm %s cpu %d %u x [%u, %u] %u groups offset %g, %u of %u parts",
             diti_rung_name(device->rung), device->is_cpu, batch, pixels, columns, groups, (double)offset, first,
             parts);
    if (run_plan()) {
        matrix got = read_tensor(out);
        close_to(&got, wanted, tolerance_of(act), what);
        if (alone) {
            matrix whole = read_tensor(alone);
            CHECK_MESSAGE(!memcmp(whole.data, got.data, (size_t)batch * pixels * columns * sizeof *got.data),
                          "%s: the bytes are not those of one device", what);
            free(whole.data);
        }
        free(got.data);
    }
    end();
    weight_free(&w);
    weight_free(&b);
    free(x.data), free(weight.data), free(bias.data), free(wanted);
}

/* --- clips --- */

static void close_frames(diti_device *device, diti_tensor out, double *wanted, const char *name) {
    char what[160];
    snprintf(what, sizeof what, "%s %s", name, diti_rung_name(device->rung));
    if (run_plan()) {
        matrix got = read_tensor(out);
        close_to(&got, wanted, tolerance_of(bench.graph.activation), what);
        free(got.data);
    }
    end();
    free(wanted);
}

static void check_blend(diti_device *device, diti_blend_kind kind, uint32_t frames, uint32_t first, uint32_t columns,
                        bool more) {
    diti_graph *graph = begin(device);
    diti_element act = graph->activation;
    diti_blend_desc desc = {.kind = kind, .clip = {frames, 3, 5}, .first = first, .weight = 0.75f, .more_weight = -2};
    uint32_t count = diti_blended_frames(kind, frames, first), area = 15;
    matrix x = matrix_random(frames * area, columns, 1, act), y = matrix_random(count * area, columns, 1, DITI_F32);
    double *wanted = malloc((size_t)count * area * columns * sizeof(double));
    char what[100];
    if (more) desc.more = input(&y, DITI_F32, 0, "more");
    for (uint32_t f = 0; f < count; f++)
        for (uint32_t i = 0; i < area * columns; i++) {
#define FRAME(F) ((double)x.data[(size_t)(F)*area * columns + i])
            double v = 0, parts[3] = {1, 0, 0};
            uint32_t from[3] = {f, 0, 0}, g = f - first;
            if (f >= first && kind == DITI_BLEND_DOUBLE) from[0] = first + g / 2;
            if (f >= first && kind == DITI_BLEND_HALVES) {
                from[0] = first + 2 * g, from[1] = from[0] + 1;
                parts[0] = parts[1] = 0.5;
            }
            if (kind == DITI_BLEND_THIRDS)
                for (uint32_t k = 0; k < 3; k++) parts[k] = 1.0 / 3, from[k] = 2 * f < k ? 0 : 2 * f - k;
            if (kind == DITI_BLEND_LINEAR && f > 0) { /* half-pixel centres in frames 1, 2, ... */
                double place = ((f - 1) + 0.5) / 2 - 0.5, last = frames - 2;
                if (place < 0) place = 0;
                if (place > last) place = last;
                from[0] = 1 + (uint32_t)place, from[1] = from[0] + 1 < frames ? from[0] + 1 : from[0];
                parts[1] = place - floor(place), parts[0] = 1 - parts[1];
            }
            for (int k = 0; k < 3; k++) v += parts[k] * FRAME(from[k]);
            if (more) v = 0.75 * v - 2.0 * y.data[(size_t)f * area * columns + i];
            wanted[(size_t)f * area * columns + i] = v;
#undef FRAME
        }
    snprintf(what, sizeof what, "blend %d of %u frames, first %u, %u columns%s", (int)kind, frames, first, columns,
             more ? ", more" : "");
    desc.name = "blend";
    close_frames(device, diti_blend_frames(graph, input(&x, act, columns % 4 ? 0 : 4, "x"), &desc), wanted, what);
    free(x.data), free(y.data);
}

/* x: the coarser clip where it is spread, the finer one where it is gathered. */
static void check_block(diti_device *device, diti_block_desc desc, uint32_t from_columns, bool spread, bool more) {
    diti_graph *graph = begin(device);
    diti_element act = graph->activation;
    uint32_t repeats = desc.repeats ? desc.repeats : 1, modulus = desc.modulus ? desc.modulus : desc.columns;
    diti_video from = desc.clip, to = from;
    matrix x = matrix_random(from.frames * from.height * from.width, from_columns, 1, act), y;
    double *wanted;
    char what[100];
    if (spread)
        to.frames = from.frames * desc.time - desc.first, to.height *= desc.side, to.width *= desc.side;
    else
        to.frames = (from.frames + desc.first) / desc.time, to.height /= desc.side, to.width /= desc.side;
    y = matrix_random(to.frames * to.height * to.width, desc.columns, 1, DITI_F32);
    wanted = calloc((size_t)y.rows * y.columns, sizeof(double));
    /* every element of the finer clip, and where it stands in the coarser one */
    for (uint32_t f = 0; f < (spread ? from.frames * desc.time : from.frames + desc.first); f++)
        for (uint32_t h = 0; h < (spread ? to.height : from.height); h++)
            for (uint32_t w = 0; w < (spread ? to.width : from.width); w++)
                for (uint32_t c = 0; c < (spread ? desc.columns : from_columns); c++) {
                    uint32_t number = (spread ? c % modulus : c) * desc.channel_step + f % desc.time * desc.time_step +
                                      h % desc.side * desc.line_step + w % desc.side * desc.pixel_step;
                    const diti_video *coarse = spread ? &from : &to;
                    uint32_t place = (f / desc.time * coarse->height + h / desc.side) * coarse->width + w / desc.side;
                    uint32_t fine = f < desc.first ? 0 : f - desc.first;
                    if (spread && f >= desc.first)
                        wanted[(size_t)((fine * to.height + h) * to.width + w) * desc.columns + c] =
                            at(&x, place, number / repeats);
                    if (!spread && (f >= desc.first || desc.edge) && number / repeats < desc.columns)
                        wanted[(size_t)place * desc.columns + number / repeats] +=
                            (double)at(&x, (fine * from.height + h) * from.width + w, c) / repeats;
                }
    if (more) {
        desc.more = input(&y, DITI_F32, 0, "more");
        for (size_t i = 0; i < (size_t)y.rows * y.columns; i++) wanted[i] += (double)y.data[i];
    }
    snprintf(what, sizeof what, "%s %u of %u columns, %u x %u, first %u", spread ? "spread" : "gather", desc.columns,
             from_columns, desc.time, desc.side, desc.first);
    desc.name = what;
    close_frames(device,
                 spread ? diti_spread_frames(graph, input(&x, act, 0, "x"), &desc)
                        : diti_gather_frames(graph, input(&x, act, 0, "x"), &desc),
                 wanted, what);
    free(x.data), free(y.data);
}

static void check_condition(diti_device *device, diti_video clip, diti_video coarse, uint32_t first, uint32_t columns) {
    diti_graph *graph = begin(device);
    diti_element act = graph->activation;
    uint32_t area = coarse.height * coarse.width;
    matrix x = matrix_random(clip.frames * clip.height * clip.width, columns, 1, act),
           tables = matrix_random(coarse.frames * area, 2 * columns, 1, DITI_F32);
    double *wanted = malloc((size_t)x.rows * columns * sizeof(double));
    diti_condition_desc desc = {.clip = clip, .coarse = coarse, .first = first, .silu = true, .name = "condition"};
    diti_tensor both = input(&tables, DITI_F32, 0, "tables");
    desc.scale = diti_tensor_view(graph, both, 0, tables.rows, 0, columns);
    desc.shift = diti_tensor_view(graph, both, 0, tables.rows, columns, columns);
    for (uint32_t r = 0; r < x.rows; r++) {
        uint32_t f = r / (clip.height * clip.width), h = r / clip.width % clip.height, w = r % clip.width;
        uint32_t t = f < first ? f : first + (f - first) * (coarse.frames - first) / (clip.frames - first);
        uint32_t row = t * area + h * coarse.height / clip.height * coarse.width + w * coarse.width / clip.width;
        for (uint32_t c = 0; c < columns; c++)
            wanted[(size_t)r * columns + c] = activated(
                DITI_ACTIVATION_SILU, (double)at(&x, r, c) * at(&tables, row, c) + at(&tables, row, columns + c));
    }
    close_frames(device, diti_condition_frames(graph, input(&x, act, 0, "x"), &desc), wanted, "condition");
    free(x.data), free(tables.data);
}

/* [C, T, area] read as [T, C, area], and back. */
static void check_fold(diti_device *device, uint32_t frames, uint32_t columns) {
    diti_graph *graph = begin(device);
    diti_element act = graph->activation;
    diti_video clip = {frames, 2, 3};
    matrix x = matrix_random(frames * 6, columns, 1, act);
    double *wanted = malloc((size_t)x.rows * columns * sizeof(double));
    diti_tensor folded = diti_fold_frames(graph, input(&x, act, 0, "x"), &clip, false);
    diti_tensor back = diti_fold_frames(graph, folded, &clip, true);
    for (uint32_t n = 0; n < frames * columns; n++)
        for (uint32_t p = 0; p < 6; p++)
            wanted[(size_t)(n / columns * 6 + p) * columns + n % columns] = at(&x, n % frames * 6 + p, n / frames);
    if (run_plan()) {
        matrix got = read_tensor(folded), again = read_tensor(back);
        close_to(&got, wanted, 1e-7, "folded");
        CHECK(!memcmp(again.data, x.data, (size_t)x.rows * columns * sizeof(float)));
        free(got.data), free(again.data);
    }
    end();
    free(wanted), free(x.data);
}

static void check_draw(diti_device *device, uint32_t rows, uint32_t columns) {
    diti_graph *graph = begin(device);
    matrix x = matrix_random(rows, 2 * columns, 40, DITI_F32), noise = matrix_random(rows, columns, 2, DITI_F32);
    double *wanted = malloc((size_t)rows * columns * sizeof(double));
    for (uint32_t r = 0; r < rows; r++)
        for (uint32_t c = 0; c < columns; c++) {
            double spread = (double)at(&x, r, columns + c);
            spread = spread < -30 ? -30 : spread > 20 ? 20 : spread;
            wanted[(size_t)r * columns + c] = (at(&x, r, c) + exp(spread / 2) * (double)at(&noise, r, c)) * 0.25;
        }
    close_frames(
        device, diti_draw(graph, input(&x, DITI_F32, 0, "moments"), input(&noise, DITI_F32, 0, "noise"), 0.25f, "draw"),
        wanted, "draw");
    free(x.data), free(noise.data);
}

/* A rectangle of frames 1 and 2 into a larger clip, plain, and faded in place. */
static void check_place(diti_device *device, bool right) {
    diti_graph *graph = begin(device);
    diti_video from = {3, 4, 5}, other = {3, 6, 7}, to = {2, 6, 8};
    matrix x = matrix_random(3 * 20, 3, 1, DITI_F32), y = matrix_random(3 * 42, 3, 1, DITI_F32);
    double *wanted = calloc(2 * 48 * 3, sizeof(double));
    diti_tensor all = diti_tensor_new(graph, DITI_F32, 2 * 48, 3, "all");
    diti_tensor tile = diti_tensor_new(graph, DITI_F32, 3 * 20, 3, "tile");
    diti_place_desc fade = {
        .from = from, .to = from, .part = {3, 3, 5}, .other_size = other, .other_y = 2, .other_x = 1};
    diti_place_desc move = {
        .from = from, .to = to, .part = {2, 3, 4}, .first = 1, .from_y = 1, .from_x = 1, .y = 2, .x = 3, .out = all};
    if (right) fade.part = (diti_video){3, 4, 2}, fade.right = true;
    fade.other = input(&y, DITI_F32, 0, "other");
    fade.out = tile;
    diti_copy(graph, input(&x, DITI_F32, 0, "x"), tile, "copy");
    diti_fill_zeros(graph, all);
    diti_place_frames(graph, tile, &fade);
    diti_place_frames(graph, tile, &move);
    for (uint32_t f = 0; f < 2; f++)
        for (uint32_t h = 1; h < 4; h++)
            for (uint32_t w = 1; w < 5; w++)
                for (uint32_t c = 0; c < 3; c++) {
                    double v = at(&x, ((f + 1) * 4 + h) * 5 + w, c), a = right ? w / 2.0 : h / 3.0;
                    if (a < 1) v = at(&y, ((f + 1) * 6 + h + 2) * 7 + w + 1, c) * (1 - a) + v * a;
                    wanted[((f * 6 + h + 1) * 8 + w + 2) * 3 + c] = v;
                }
    close_frames(device, all, wanted, "place");
    free(x.data), free(y.data);
}

static void test_frames(diti_device *device) {
    uint32_t odd = device->rung >= DITI_RUNG_FP16 ? 6 : 5; /* F16 rows begin at even elements */
    check_blend(device, DITI_BLEND_LINEAR, 4, 1, 8, true);
    check_block(device,
                (diti_block_desc){.clip = {2, 3, 2},
                                  .columns = 6,
                                  .time = 2,
                                  .side = 2,
                                  .channel_step = 8,
                                  .time_step = 4,
                                  .line_step = 2,
                                  .pixel_step = 1,
                                  .repeats = 4,
                                  .first = 1},
                12, true, true);
    check_block(device,
                (diti_block_desc){.clip = {5, 4, 6},
                                  .columns = 12,
                                  .time = 2,
                                  .side = 2,
                                  .channel_step = 8,
                                  .time_step = 4,
                                  .line_step = 2,
                                  .pixel_step = 1,
                                  .repeats = 4,
                                  .first = 1},
                6, false, true);
    check_condition(device, (diti_video){5, 4, 6}, (diti_video){3, 2, 3}, 1, 8);
    check_fold(device, 3, 8);
    check_draw(device, 37, 5);
    check_place(device, false);
    check_place(device, true);
    if (!thorough) return;
    check_blend(device, DITI_BLEND_DOUBLE, 3, 1, odd, false);
    check_blend(device, DITI_BLEND_DOUBLE, 2, 0, 8, false);
    check_blend(device, DITI_BLEND_LINEAR, 2, 1, odd, false);
    check_blend(device, DITI_BLEND_THIRDS, 5, 0, 8, true);
    check_blend(device, DITI_BLEND_THIRDS, 4, 0, odd, false);
    check_blend(device, DITI_BLEND_THIRDS, 1, 0, 4, false);
    check_blend(device, DITI_BLEND_HALVES, 5, 1, odd, false);
    check_blend(device, DITI_BLEND_HALVES, 4, 0, 8, false);
    check_block(
        device,
        (diti_block_desc){.clip = {3, 2, 3}, .columns = odd, .time = 2, .side = 1, .channel_step = 2, .time_step = 1},
        2 * odd, true, false);
    check_block(device,
                (diti_block_desc){.clip = {2, 3, 4},
                                  .columns = odd,
                                  .time = 2,
                                  .side = 1,
                                  .channel_step = 1,
                                  .time_step = odd,
                                  .line_step = 1,
                                  .pixel_step = 1,
                                  .first = 1},
                2 * odd, true, false);
    check_block(device,
                (diti_block_desc){.clip = {2, 3, 2},
                                  .columns = 8,
                                  .time = 1,
                                  .side = 2,
                                  .channel_step = 4,
                                  .line_step = 1,
                                  .pixel_step = 2,
                                  .modulus = 2},
                8, true, false);
    check_block(
        device,
        (diti_block_desc){
            .clip = {1, 4, 6}, .columns = 12, .time = 1, .side = 2, .channel_step = 4, .line_step = 1, .pixel_step = 2},
        3, false, false);
    check_block(device,
                (diti_block_desc){.clip = {3, 2, 4},
                                  .columns = 8,
                                  .time = 2,
                                  .side = 1,
                                  .channel_step = 2,
                                  .time_step = 1,
                                  .repeats = 1,
                                  .first = 1,
                                  .edge = true},
                4, false, false);
    check_condition(device, (diti_video){4, 4, 6}, (diti_video){2, 2, 3}, 0, odd);
    check_fold(device, 4, odd);
}

/* --- weighted rows --- */

/* Items have `tokens` rows, and two rows of no item stand behind them. The mean is far from 0, where sums that cancel
   are only as good as float sums are. */
static void check_weigh(diti_device *device, uint32_t batch, uint32_t tokens, uint32_t columns, bool ones) {
    diti_graph *graph = begin(device);
    uint32_t rows = batch * tokens + 2;
    matrix x = matrix_random(rows, columns, 1, DITI_F32);
    diti_row_weight *table = calloc(rows, sizeof *table);
    double *wanted = malloc((size_t)rows * columns * sizeof(double));
    diti_elementwise_desc copy = {.out_f32 = true, .name = "copy"};
    diti_tensor out, weights;
    char what[120];
    for (uint32_t i = 0; i < rows; i++) {
        table[i].weight = ones ? 1 : random_float() + 1;
        table[i].rows = i < batch * tokens ? tokens : 0;
        table[i].first = i < batch * tokens ? i / tokens * tokens : 0;
    }
    for (size_t i = 0; i < (size_t)rows * columns; i++) x.data[i] += 0.3f;
    for (uint32_t i = 0; i < rows; i++) {
        double before = 0, after = 0, ratio;
        for (uint32_t r = table[i].first; r < table[i].first + table[i].rows; r++)
            for (uint32_t c = 0; c < columns; c++)
                before += at(&x, r, c), after += (double)at(&x, r, c) * table[r].weight;
        ratio = ones || table[i].rows == 0 ? 1 : before / after;
        for (uint32_t c = 0; c < columns; c++)
            wanted[(size_t)i * columns + c] = (double)at(&x, i, c) * table[i].weight * ratio;
    }
    out = diti_elementwise(graph, input(&x, DITI_F32, 0, "x"), &copy);
    weights =
        diti_tensor_reshape(graph, input_words((const uint32_t *)(const void *)table, rows * 4, "weights"), rows, 4);
    diti_weigh_rows(graph, out, weights, "weigh");
    snprintf(what, sizeof what, "weigh %u x [%u, %u]", batch, tokens, columns);
    if (run_plan()) {
        matrix got = read_tensor(out);
        close_to(&got, wanted, ones ? 0 : 1e-5, what);
        free(got.data);
    }
    end();
    free(x.data), free(table), free(wanted);
}

static void test_weigh(diti_device *device) {
    check_weigh(device, 2, 77, 40, false);
    check_weigh(device, 1, 5, 3, false);
    check_weigh(device, 1, 298, 130, true);
}

static void test_group_norm(diti_device *device) {
    check_group_norm(device, 2, 300, 32, 8, true, 0, 0, 0);
    check_group_norm(device, 2, 300, 32, 8, true, 0, 3, 0);
    check_group_norm(device, 1, 65, 96, 32, false, 0, 0, 0);
    check_group_norm(device, 1, 700, 16, 8, true, 1e4f, 0, 0);
    check_group_norm(device, 1, 700, 16, 8, true, 1e4f, 4, 1);
    check_group_norm(device, 1, 1313, 16, 4, false, 100, 13, 6);
    check_group_norm(device, 3, 1, 64, 32, false, 0, 0, 0);
    if (device->rung == DITI_RUNG_BASE) check_group_norm(device, 2, 10, 9, 3, true, 0, 0, 0);
}

/* --- convolutions that keep channels apart, and attention without a softmax --- */

/* extra: columns that x, gate and the result have besides. */
static void check_depthwise(diti_device *device, uint32_t batch, uint32_t height, uint32_t width, uint32_t columns,
                            uint32_t side, bool gated, bool bias, uint32_t extra) {
    diti_graph *graph = begin(device);
    diti_element act = graph->activation;
    uint32_t rows = batch * height * width, channels = (gated ? 2 * columns : columns) + 3;
    matrix x = matrix_random(rows, columns, 1, act), gate = matrix_random(rows, columns, 2, act);
    weight_values w = weight_random(DIT_TYPE_F32, channels, side * side, 1, 1),
                  b = weight_random(DIT_TYPE_F32, 1, channels, 1, 1);
    double *wanted = calloc((size_t)rows * columns, sizeof(double));
    diti_depthwise_desc desc = {.height = height, .width = width, .weight = &w.weight, .first = 3};
    diti_tensor in = input(&x, act, extra, "x");
    char what[120];
    desc.bias = bias ? &b.weight : NULL;
    desc.gate_first = 3 + columns;
    if (gated) desc.gate = input(&gate, act, extra, "gate");
    if (!gated) desc.gate_first = 0;
    for (uint32_t r = 0; r < rows && !only_bytes; r++)
        for (uint32_t c = 0; c < columns; c++) {
            double parts[2] = {0, 0};
            for (uint32_t p = 0; p < (gated ? 2u : 1u); p++) {
                uint32_t channel = 3 + (p ? columns : 0) + c;
                for (int dy = -(int)(side / 2); dy <= (int)(side / 2); dy++)
                    for (int dx = -(int)(side / 2); dx <= (int)(side / 2); dx++) {
                        int y = (int)(r / width % height) + dy, at_x = (int)(r % width) + dx;
                        uint32_t tap = (uint32_t)((dy + (int)(side / 2)) * (int)side + dx + (int)(side / 2));
                        if (y < 0 || at_x < 0 || y >= (int)height || at_x >= (int)width) continue;
                        parts[p] += (double)w.values[channel * side * side + tap] *
                                    (double)at(p ? &gate : &x, (uint32_t)((int)r + dy * (int)width + dx), c);
                    }
                if (bias) parts[p] += (double)b.values[channel];
            }
            wanted[(size_t)r * columns + c] = gated ? parts[0] * activated(DITI_ACTIVATION_SILU, parts[1]) : parts[0];
        }
    snprintf(what, sizeof what, "depthwise %u x %u of %u pictures %u x %u, %u channels%s%s", side, side, batch, height,
             width, columns, gated ? ", gated" : "", bias ? ", bias" : "");
    desc.name = "depthwise";
    close_frames(device, diti_depthwise(graph, in, &desc), wanted, what);
    free(x.data), free(gate.data);
    weight_free(&w), weight_free(&b);
}

static void check_grouped(diti_device *device, uint32_t rows, uint32_t groups, uint32_t size, uint32_t extra) {
    diti_graph *graph = begin(device);
    diti_element act = graph->activation;
    uint32_t columns = groups * size;
    matrix x = matrix_random(rows, columns, 1, act);
    weight_values w = weight_random(DIT_TYPE_F32, columns, size, 1, 1);
    double *wanted = calloc((size_t)rows * columns, sizeof(double));
    diti_tensor out = diti_tensor_state(graph, act, rows, columns, "out");
    char what[100];
    for (uint32_t r = 0; r < rows && !only_bytes; r++)
        for (uint32_t c = 0; c < columns; c++)
            for (uint32_t i = 0; i < size; i++)
                wanted[(size_t)r * columns + c] +=
                    (double)w.values[c * size + i] * (double)at(&x, r, c / size * size + i);
    snprintf(what, sizeof what, "grouped, %u rows of %u groups of %u", rows, groups, size);
    diti_grouped(graph, input(&x, act, extra, "x"), &w.weight, out, "grouped");
    close_frames(device, out, wanted, what);
    free(x.data);
    weight_free(&w);
}

/* beside: q, k and v of a head side by side; else all q, all k, all v. */
static void check_linear_attention(diti_device *device, uint32_t items, uint32_t rows, uint32_t heads, uint32_t dim,
                                   bool beside, uint32_t extra) {
    diti_graph *graph = begin(device);
    diti_element act = graph->activation;
    uint32_t width = heads * dim;
    matrix x = matrix_random(items * rows, 3 * width, 1, act);
    double *wanted = calloc((size_t)items * rows * width, sizeof(double)), *scores = calloc(rows, sizeof(double));
    diti_linear_attention_desc desc = {.items = items, .heads = heads, .head_dim = dim};
    char what[120];
    desc.step = beside ? 3 * dim : dim;
    desc.key_offset = beside ? dim : width;
    desc.value_offset = 2 * desc.key_offset;
    for (uint32_t i = 0; i < items && !only_bytes; i++)
        for (uint32_t h = 0; h < heads; h++)
            for (uint32_t r = 0; r < rows; r++) {
                double all = 1e-15;
                for (uint32_t k = 0; k < rows; k++) {
                    scores[k] = 0;
                    for (uint32_t d = 0; d < dim; d++)
                        scores[k] += fmax(0, (double)at(&x, i * rows + r, h * desc.step + d)) *
                                     fmax(0, (double)at(&x, i * rows + k, h * desc.step + desc.key_offset + d));
                    all += scores[k];
                }
                for (uint32_t d = 0; d < dim; d++) {
                    double sum = 0;
                    for (uint32_t k = 0; k < rows; k++)
                        sum += scores[k] * (double)at(&x, i * rows + k, h * desc.step + desc.value_offset + d);
                    wanted[(size_t)(i * rows + r) * width + h * dim + d] = sum / all;
                }
            }
    snprintf(what, sizeof what, "linear attention, %u items of %u rows, %u heads of %u%s", items, rows, heads, dim,
             beside ? ", side by side" : "");
    desc.name = "linear_attention";
    close_frames(device, diti_linear_attention(graph, input(&x, act, extra, "x"), &desc), wanted, what);
    free(x.data), free(scores);
}

/* Values cut off below 0, by an op of their own. */
static void check_relu(diti_device *device, uint32_t rows, uint32_t columns) {
    diti_graph *graph = begin(device);
    matrix x = matrix_random(rows, columns, 1, graph->activation);
    diti_elementwise_desc desc = {.activation = DITI_ACTIVATION_RELU, .scale = 2, .offset = 0.25f, .name = "relu"};
    double *wanted = calloc((size_t)rows * columns, sizeof(double));
    for (size_t i = 0; i < (size_t)rows * columns; i++) wanted[i] = fmax(0, 2 * (double)x.data[i] + 0.25);
    close_frames(device, diti_elementwise(graph, input(&x, graph->activation, 0, "x"), &desc), wanted, "relu");
    free(x.data);
}

static void test_channels(diti_device *device) {
    check_relu(device, 9, 21);
    check_depthwise(device, 1, 5, 9, 20, 3, true, true, 0);
    check_depthwise(device, 2, 7, 3, 13, 5, false, false, 0);
    check_grouped(device, 7, 3, 8, 4);
    check_linear_attention(device, 2, 45, 4, 16, false, 4);
    check_linear_attention(device, 1, 300, 2, 8, true, 0);
    if (!thorough) return;
    check_depthwise(device, 3, 1, 1, 4, 3, false, true, 0);
    check_depthwise(device, 1, 1, 7, 6, 5, true, false, 2);
    check_depthwise(device, 2, 6, 5, 30, 1, true, true, 0);
    check_depthwise(device, 1, 4, 4, 8, 7, false, true, 4);
    check_grouped(device, 5, 5, 3, 0);
    check_grouped(device, 1, 2, 1, 0);
    check_linear_attention(device, 3, 1, 1, 4, false, 0);
    check_linear_attention(device, 1, 257, 3, 12, false, 1);
    check_linear_attention(device, 2, 515, 1, 64, true, 0);
}

/* --- equal bytes: again, in slices, within tiny limits, without the optimiser --- */

/* One case of every kernel, large enough that 128 KiB bindings cut it; few: without other forms of the same kernels. */
static void run_kernels(diti_device *device, bool few) {
    linear_case linear = {.m = 300,
                          .n = 200,
                          .k = 160,
                          .type = DIT_TYPE_F32,
                          .bias = true,
                          .multiply = true,
                          .gate = true,
                          .residual = true,
                          .rows_per_gate = 150};
    conv_case conv = {2,    40,   36, 16, 20, 3, 1,     1, 1, DIT_TYPE_F16, false, true,
                      true, true, 0,  0,  1,  1, false, 0, 0, false};
    attention_case attention = {
        .batch = 2, .heads = 2, .head_dim = 72, .queries = 150, .keys = 100, .lengths = true, .lse = true};
    norm_case norm = {.rows = 200, .columns = 320, .modulate = true, .size = 1};
    random_state = 7;
    result_hash = 1;
    check_linear(device, &linear);
    linear = (linear_case){
        .m = 70, .n = 700, .k = 96, .type = DIT_TYPE_Q8_0, .parts = 2, .activation = DITI_ACTIVATION_GELU_TANH};
    check_linear(device, &linear);
    check_conv(device, &conv);
    check_attention(device, &attention);
    check_norm(device, &norm);
    check_group_norm(device, 2, 1000, 32, 8, true, 0, 0, 0);
    check_qkv(device, 3, 64, DITI_QKV_RMS, true, false, true, 0);
    few_hash = result_hash;
    if (few) return;
    linear.m = 3; /* few rows */
    check_linear(device, &linear);
    conv = (conv_case){1,     30,    24, 64, 16, 3, 1,     1, 1, DIT_TYPE_Q8_0, true, true,
                       false, false, 0,  0,  1,  1, false, 0, 0, false};
    check_conv(device, &conv);
    conv = (conv_case){1,     60,    66, 12, 36, 3, 2,     0, 1, DIT_TYPE_F32, false, true,
                       false, false, 0,  0,  1,  1, false, 0, 0, false};
    check_conv(device, &conv);
    conv = (conv_case){8,     10,    33, 12, 20, 3, 1,     1, 1, DIT_TYPE_F16, false, true,
                       false, false, 0,  0,  3,  1, false, 2, 0, false};
    check_conv(device, &conv);
    conv = (conv_case){9,     8,     33, 12, 20, 1, 1,     0, 0, DIT_TYPE_F16, false, true,
                       false, false, 0,  0,  3,  2, false, 1, 1, true};
    check_conv(device, &conv);
    check_blend(device, DITI_BLEND_LINEAR, 40, 1, 20, true);
    check_blend(device, DITI_BLEND_THIRDS, 41, 0, 20, false);
    check_block(device,
                (diti_block_desc){.clip = {5, 9, 30},
                                  .columns = 12,
                                  .time = 2,
                                  .side = 2,
                                  .channel_step = 8,
                                  .time_step = 4,
                                  .line_step = 2,
                                  .pixel_step = 1,
                                  .repeats = 4,
                                  .first = 1},
                24, true, true);
    check_block(device,
                (diti_block_desc){.clip = {5, 20, 30},
                                  .columns = 12,
                                  .time = 2,
                                  .side = 2,
                                  .channel_step = 8,
                                  .time_step = 4,
                                  .line_step = 2,
                                  .pixel_step = 1,
                                  .repeats = 4,
                                  .first = 1},
                6, false, true);
    check_condition(device, (diti_video){5, 20, 30}, (diti_video){3, 10, 15}, 1, 16);
    check_depthwise(device, 2, 20, 30, 24, 3, true, true, 0);
    check_grouped(device, 300, 3, 8, 0);
    check_linear_attention(device, 2, 300, 2, 16, false,
                           0); /* a part of 256 rows fits the small range of test_same_bytes */
}

static void run_everything(diti_device *device) { run_kernels(device, false); }

/* Sets tiny limits for plans to come; pipelines stay. */
static void cut_small(diti_device *device, uint32_t groups) {
    device->limits.group_count = groups;
    device->max_slice_us = 300;
}

/* Returns the bytes' hash. */
static uint64_t test_same_bytes(const char *form, diti_rung rung) {
    char overrides[160];
    diti_device *device;
    uint64_t whole, few, again, sliced;
    snprintf(overrides, sizeof overrides, "cpu=%s,shared=16K", form);
    device = open_rung(overrides, rung);
    if (!device) return 0;
    run_everything(device);
    whole = result_hash;
    few = few_hash;
    only_bytes = true;
    run_everything(device);
    again = result_hash;
    CHECK_MESSAGE(whole == again, "cpu=%s: the same work twice gives other bytes", form);
    for (device->candidate = 2; device->candidate <= DITI_TUNE_CANDIDATES && test_first_driver(); device->candidate++) {
        if (!sweep && device->candidate > 1) continue; /* each is a set of kernels to compile */
        run_kernels(device, !sweep);
        CHECK_MESSAGE((sweep ? whole : few) == result_hash, "cpu=%s: candidate %u gives other bytes", form,
                      device->candidate);
    }
    device->candidate = 0;
    /* The partial sums of a tile must fit: its columns are as many as a subgroup's threads ask for. */
    device->limits.storage_range = (device->limits.subgroup_size > 8 ? 256 : 128) << 10;
    device->limits.allocation = 16 << 20;
    cut_small(device, 8);
    run_everything(device);
    sliced = result_hash;
    diti_device_close(device);
    CHECK_MESSAGE(whole == sliced, "cpu=%s: slices give other bytes", form);
    only_bytes = false;
    return whole;
}

/* Convolutions with a stride over frames, cut into slices of all sizes: one that begins within a frame reads rows of x
   that lie before those of its own place. */
static void test_clip_slices(const char *form) {
    static const conv_case c = {9,     16,    33, 12, 20, 1, 1,     0, 0, DIT_TYPE_F16, false, true,
                                false, false, 0,  0,  3,  2, false, 1, 1, true};
    char overrides[80];
    diti_device *device;
    snprintf(overrides, sizeof overrides, "cpu=%s", form);
    device = open_rung(overrides, DITI_RUNG_BASE);
    if (!device) return;
    for (uint32_t groups = 1; groups <= 16; groups *= 2) {
        cut_small(device, groups);
        check_conv(device, &c);
    }
    diti_device_close(device);
}

/* Products that are split along K: eight parts, the last one shorter; three; two, of few rows. */
static uint64_t run_split(diti_device *device) {
    linear_case c = {.m = 100,
                     .n = 70,
                     .k = 2061,
                     .type = DIT_TYPE_F32,
                     .activation = DITI_ACTIVATION_GELU_TANH,
                     .bias = true,
                     .multiply = true,
                     .gate = true,
                     .residual = true,
                     .rows_per_gate = 50,
                     .extra = 8};
    random_state = 11;
    result_hash = 1;
    check_linear(device, &c);
    c = (linear_case){.m = 64, .n = 400, .k = 2048, .type = DIT_TYPE_Q8_0, .in_place = true, .residual = true};
    check_linear(device, &c);
    c = (linear_case){.m = 3, .n = 32, .k = 3000, .type = DIT_TYPE_F16, .out_f32 = true, .x_f32 = true};
    check_linear(device, &c);
    return result_hash;
}

static void test_split_k(diti_rung rung) {
    diti_device *device = open_rung("cpu=0,cores=24", rung);
    uint64_t split;
    if (!device) return;
    split = run_split(device);
    only_bytes = true;
    CHECK(run_split(device) == split);
    cut_small(device, 4);
    CHECK_MESSAGE(run_split(device) == split, "slices give other bytes");
    device->limits.cores = 1;
    CHECK_MESSAGE(run_split(device) != split, "nothing is split");
    only_bytes = false;
    diti_device_close(device);
}

/* --- dit specializes modules as drivers do: the same bytes --- */

/* Attention on matrices takes a driver of the newest Mesa 11 seconds to compile, folded or not: the full run has it. */
static void test_folded(const char *overrides, bool attends) {
    linear_case linear = {.m = 70, .n = 96, .k = 96, .type = DIT_TYPE_F16, .bias = true, .gate = true};
    attention_case attention = {
        .batch = 2, .heads = 2, .head_dim = 72, .queries = 50, .keys = 33, .lengths = true, .lse = true};
    uint64_t hashes[2] = {0, 0};
    only_bytes = true;
    for (int i = 0; i < 2; i++) {
        char both[80];
        diti_device *device;
        snprintf(both, sizeof both, "%s,fold=%d", overrides, i ? DITI_FOLDING_ALL : DITI_FOLDING_NONE);
        device = open_device(both, 0);
        if (!device) break;
        CHECK(device->folding == (i ? DITI_FOLDING_ALL : DITI_FOLDING_NONE));
        random_state = 7;
        result_hash = 1;
        if (sweep)
            run_everything(device);
        else
            check_linear(device, &linear);
        if (attends && !sweep) check_attention(device, &attention);
        hashes[i] = result_hash;
        diti_device_close(device);
    }
    only_bytes = false;
    CHECK_MESSAGE(hashes[0] == hashes[1] && hashes[0], "%s: other bytes when dit specializes modules", overrides);
}

/* --- F16 is rounded to nearest, ties to even, by drivers that truncate, too --- */

/* Every half, then values between it and the next one: a quarter of the way, the middle and both neighbours of the
   middle. Infinities, NaNs, the largest float and a subnormal one follow. */
static matrix rounding_edges(uint32_t columns) {
    static const uint32_t others[] = {0x7f800000, 0x7fc00000, 0x7fffffff, 0x7f800001,
                                      0x7f7fffff, 0x47800000, 0x00000001, 0x0a000000};
    uint32_t halves = 0x7c00, count = halves * 5 + DITI_COUNT(others), i;
    matrix m = matrix_new((2 * count + columns - 1) / columns, columns);
    for (i = 0; i < count; i++) {
        uint32_t half = i / 5;
        float v, lower = diti_half_to_float((uint16_t)half), middle;
        middle = (lower + (half + 1 < halves ? diti_half_to_float((uint16_t)(half + 1)) : 65536)) / 2;
        switch (i % 5) {
        case 0: v = lower; break;
        case 1: v = (lower + middle) / 2; break;
        case 2: v = nextafterf(middle, 0); break;
        case 3: v = middle; break;
        default: v = nextafterf(middle, 1e9f);
        }
        if (half >= halves) memcpy(&v, &others[i - 5 * halves], sizeof v);
        m.data[2 * i] = v;
        m.data[2 * i + 1] = -v;
    }
    return m;
}

static bool infinity_is_nan; /* packHalf2x16 of this driver makes a NaN of infinity */

/* signs: whether those of results that are 0 count; subnormal floats may have been taken for 0 before */
static void check_rounded(const matrix *x, const matrix *got, bool signs, const char *what) {
    uint32_t wrong = 0, first = 0;
    for (uint32_t i = 0; got->data && i < x->rows * x->columns; i++) {
        float wanted = diti_half_to_float(diti_float_to_half(x->data[i])), v = got->data[i];
        bool same = isnan(wanted) || (isinf(wanted) && infinity_is_nan) ? isnan(v) : wanted == v;
        if (same && signs && v == 0 && fabsf(x->data[i]) >= 1e-37f) same = signbit(wanted) == signbit(v);
        if (!same && !wrong++) first = i;
    }
    CHECK_MESSAGE(got->data && wrong == 0, "%s: %u of %u values are not rounded to nearest; %.9g became %.9g", what,
                  wrong, x->rows * x->columns, (double)x->data[first], (double)(got->data ? got->data[first] : 0));
}

static void check_rounded_copy(diti_device *device, const char *what) {
    diti_graph *graph = begin(device);
    diti_elementwise_desc copy = {.name = "copy"};
    matrix x = rounding_edges(1024), got = {0};
    diti_tensor out = diti_elementwise(graph, input(&x, DITI_F32, 0, "x"), &copy);
    if (run_plan()) got = read_tensor(out);
    end();
    for (uint32_t i = 0; got.data && i < x.rows * x.columns; i++)
        if (x.data[i] == INFINITY) infinity_is_nan = isnan(got.data[i]);
    check_rounded(&x, &got, true, what);
    free(x.data), free(got.data);
}

/* Products with 1 show how operands and results are rounded. Sums have no signs of zeros. */
static void check_rounded_product(diti_device *device, const char *what) {
    enum { SIZE = 64 };
    diti_graph *graph = begin(device);
    diti_linear_desc desc = {0};
    weight_values w = weight_random(DIT_TYPE_F16, SIZE, SIZE, 1, 1);
    matrix x = rounding_edges(SIZE), got = {0};
    dit_error err = {0};
    diti_tensor out;
    for (uint32_t i = 0; i < x.rows * SIZE; i++) /* times 0 that is not 0 */
        if (!isfinite(x.data[i]) || (device->rung >= DITI_RUNG_HALF && fabsf(x.data[i]) >= 65520)) x.data[i] = 1;
    for (uint32_t i = 0; i < SIZE * SIZE; i++) memcpy(w.bytes + 2 * i, i % SIZE == i / SIZE ? "\0\x3c" : "\0\0", 2);
    CHECK(diti_buffer_write(device, &bench.blocks[0].buffer, w.weight.parts[0].offset, w.bytes, 2 * SIZE * SIZE,
                            &err) >= 0);
    out = diti_linear(graph, input(&x, DITI_F32, 0, "x"), &w.weight, &desc);
    if (run_plan()) got = read_tensor(out);
    end();
    weight_free(&w);
    check_rounded(&x, &got, false, what);
    free(x.data), free(got.data);
}

/* A picture whose halves overflow is reported. */
static void check_overflow_is_seen(diti_device *device, const char *what) {
    const uint32_t no_health[DITI_HEALTH_WORDS] = {0};
    diti_graph *graph = begin(device);
    diti_elementwise_desc copy = {.name = "copy"};
    matrix x = matrix_new(4, 4), got;
    diti_tensor rgba = diti_tensor_new(graph, DITI_U32, 1, 4, "rgba"), health;
    float seen = 0;
    x.data[5] = 7e4f;
    health = input_words(no_health, DITI_HEALTH_WORDS, "health");
    diti_image_out(graph, diti_elementwise(graph, input(&x, DITI_F32, 0, "x"), &copy), rgba, 0, false, health);
    if (run_plan()) {
        got = read_tensor(health);
        seen = got.data[2];
        free(got.data);
    }
    CHECK_MESSAGE(memcmp(&seen, no_health, sizeof seen), "%s: nobody sees that a picture overflows", what);
    end();
    free(x.data);
}

/* Kernels that compute with F16: F32 operands, heads whose weights are halves, and scores that want F32. */
static uint64_t run_halves(diti_device *device, bool bytes_alone) {
    linear_case linear = {.m = 70, .n = 96, .k = 72, .type = DIT_TYPE_F32, .x_f32 = true, .bias = true};
    attention_case attention = {.batch = 1, .heads = 2, .head_dim = 72, .queries = 40, .keys = 150};
    random_state = 7;
    result_hash = 1;
    only_bytes = bytes_alone;
    check_linear(device, &linear);
    check_attention(device, &attention);
    attention.size = 6;
    check_attention(device, &attention);
    only_bytes = false;
    return result_hash;
}

/* form: override of the kernels; bytes: what run_kernels gave on the driver as it is, of everything in a sweep. */
static void test_rounding(const char *form, uint64_t bytes) {
    char overrides[64];
    unsigned sites = truncating_sites;
    diti_device *device;
    snprintf(overrides, sizeof overrides, "cpu=%s,shared=16K", form);
    for (int i = 0; i < 2; i++) {
        const char *what = i ? "a driver that truncates" : "this driver";
        truncates = i;
        device = open_rung(overrides, DITI_RUNG_FP16);
        if (!device) break;
        check_rounded_copy(device, what);
        check_rounded_product(device, what);
        check_overflow_is_seen(device, what);
        only_bytes = true;
        if (truncates) run_kernels(device, !sweep);
        only_bytes = false;
        diti_device_close(device);
    }
    truncates = false;
    CHECK_MESSAGE(truncating_sites > sites, "no shader has a conversion that could truncate");
    CHECK_MESSAGE(result_hash == bytes, "cpu=%s: a driver that truncates gives other bytes", form);
}

/* The newest lavapipe does not round matrices of floats that become halves where the module says how (its errors of
   attention are 2.1e-4 then, 2.9e-4 where attention_coop2 rounds the weights itself), so that either way of rounding
   has bytes of its own on rung coop2, and results are compared with the reference. */
static void test_rounding_of_halves(const char *rung) {
    uint64_t bytes[4] = {0};
    char overrides[64];
    bool own_bytes = !strcmp(rung, "coop2");
    for (int i = 0; i < 4; i++) { /* bit 0: truncates; bit 1: cannot be told how to round */
        dit_context_desc desc = {.overrides = overrides};
        diti_device *device = NULL;
        snprintf(overrides, sizeof overrides, "rung=%s%s", rung, i & 2 ? ",rounding=0" : "");
        if (i == 0 && diti_device_open(&desc, &env, &device, NULL) < 0) return; /* the device has not the rung */
        diti_device_close(device);
        truncates = i & 1;
        device = open_device(overrides, 0);
        if (!device) break;
        CHECK_MESSAGE(!(i & 2) || !device->rounds_halves, "it can be told how to round");
        check_rounded_product(device, overrides);
        bytes[i] = run_halves(device, !own_bytes);
        CHECK_MESSAGE(bytes[i] == bytes[own_bytes ? i & 2 : 0], "%s%s: other bytes", overrides,
                      truncates ? ", on a driver that truncates" : "");
        diti_device_close(device);
    }
    truncates = false;
}

static void test_unoptimised(const char *form, diti_rung rung, uint64_t optimised) {
    char overrides[64], command[] = "mkdir -p build/plain && build/spirv raw shaders build/plain >build/plain/log 2>&1";
    diti_device *device;
    if (system(command) != 0) {
        printf("skipped: unoptimised shaders (needs glslang-tools, and build/spirv from make)\n");
        return;
    }
    only_bytes = true;
    snprintf(overrides, sizeof overrides, "cpu=%s,shared=16K", form);
    device = open_rung(overrides, rung);
    if (!device) return;
    plain_modules = "build/plain";
    run_everything(device);
    plain_modules = NULL;
    only_bytes = false;
    diti_device_close(device);
    CHECK_MESSAGE(optimised == result_hash, "cpu=%s: unoptimised shaders give other bytes", form);
}

static void test_device(const char *overrides, diti_rung rung) {
    diti_device *device = open_rung(overrides, rung);
    if (!device) return;
    if (rung == DITI_RUNG_FP16 && !device->has_fp16 && !sweep) { /* no job on this driver is on this rung */
        diti_device_close(device);
        return;
    }
    test_linear_sizes(device);
    test_attention(device);
    if (!device->is_cpu && !sweep) { /* the kernels of GPUs: one case of each is in run_everything */
        diti_device_close(device);
        return;
    }
    test_linear_parts(device);
    test_linear_items(device);
    if (!test_quick_way("sanitize")) test_linear_types(device), test_expand_codes(device);
    if (thorough) test_expand_scales(device);
    test_expand(device);
    test_norms(device);
    test_qkv(device);
    test_videos(device);
    test_conv(device);
    test_frames(device);
    test_channels(device);
    test_group_norm(device);
    test_weigh(device);
    diti_device_close(device);
}

/* --- the rungs above fp16, whose kernels take what is aligned --- */

static void check_unit(diti_device *device, const char *module, const linear_case *c, float scale) {
    double *wanted;
    char what[200];
    matrix got;
    large_inputs = scale;
    got = run_linear(device, c, &wanted);
    large_inputs = 1;
    snprintf(what, sizeof what, "%s rung %s cpu %d m %u n %u k %u %s act %d%s%s%s%s%s x %g", module,
             diti_rung_name(device->rung), device->is_cpu, c->m, c->n, c->k, diti_type_name(c->type),
             (int)c->activation, c->bias ? " bias" : "", c->multiply ? " multiply" : "", c->gate ? " gate" : "",
             c->residual ? " residual" : "", c->x_f32 ? " x f32" : "", (double)scale);
    CHECK_MESSAGE(!strcmp(last_module, module), "%s: computed by %s", what, last_module);
    if (got.data) close_to(&got, wanted, UNIT_TOLERANCE, what);
    free(got.data), free(wanted);
}

/* Every part of the epilogue at once, edges on every side, and inputs up to 6e4, whose products no half can hold; of
   convolutions pixels beyond every edge, a K that leaves something over, enlarged, and with a residual. Not all of
   them: one convolution, where other portions of the work are all that is new. */
static void test_unit_few(diti_device *device, const char *module, bool all) {
    const diti_portions *portions = device->portions;
    diti_portions late = *portions;
    linear_case c = {.m = 70, .n = 96, .k = 72, .type = DIT_TYPE_F16, .rows_per_gate = 33, .extra = 8};
    c.bias = c.multiply = c.gate = c.residual = c.out_f32 = true;
    c.activation = DITI_ACTIVATION_GELU_TANH;
    check_unit(device, module, &c, 1);
    c.m = 37, c.n = 44, c.k = 200, c.rows_per_gate = 9;
    late.late = true;        /* as on AMD's GPUs */
    late.half_scalar = true; /* as on Qualcomm's */
    late.half_apart = true;
    late.half_unrolled = late.half_step;
    device->portions = &late;
    device->scattered_sums = true; /* as with NVK */
    check_unit(device, module, &c, 1);
    CHECK(strcmp(module, "gemm_coop") != 0 ||
          (last_constants[DITI_CONSTANT_LOOP] & ~DITI_LOOP_PAIRED) ==
              ((portions->ahead ? DITI_LOOP_AHEAD : 0u) | DITI_LOOP_SCATTERED | DITI_LOOP_LATE));
    device->scattered_sums = false;
    device->portions = portions;
    check_unit(device, module, &c, 6e4f);
    conv_module = module;
    if (device->rung != DITI_RUNG_HALF && device->portions->conv_edge == 64) { /* two tiles of pixels, one cut off */
        check_conv(device, &(conv_case){1,    13,    11, 16, 24, 3, 1,     1, 1, DIT_TYPE_F16, true, true,
                                        true, false, 0,  0,  1,  1, false, 0, 0, false});
        check_conv(device, &(conv_case){1,     13,    11, 40, 72, 3, 1,     1, 1, DIT_TYPE_F16, false, true,
                                        false, false, 1,  1,  1,  1, false, 0, 0, false});
    }
    if (device->rung != DITI_RUNG_HALF) {
        conv_module = NULL;
        return;
    }
    check_conv(device, &(conv_case){2,    5,     4, 12, 16, 3, 1,     1, 1, DIT_TYPE_F16, true, true,
                                    true, false, 0, 0,  1,  1, false, 0, 0, false});
    if (!strcmp(module, "gemm_half")) { /* which sums fewer products in halves there */
        device->portions = &late;
        check_conv(device, &(conv_case){1,     9,     7, 20, 24, 3, 1,     1, 1, DIT_TYPE_F16, false, true,
                                        false, false, 0, 0,  1,  1, false, 0, 0, false});
        device->portions = portions;
    }
    if (all) {
        check_conv(device, &(conv_case){1,     9,     7, 20, 24, 3, 1,     1, 1, DIT_TYPE_F16, false, true,
                                        false, false, 1, 1,  1,  1, false, 0, 0, false});
        check_conv(device, &(conv_case){1,     8,     8, 6, 12, 3, 2,     0, 1, DIT_TYPE_F16, false, true,
                                        false, false, 0, 0, 1,  1, false, 0, 0, false});
    }
    conv_module = NULL;
}

static void test_unit_all(diti_device *device, const char *module) {
    static const uint32_t m[] = {9, 16, 63, 64, 65, 77, 257}, n[] = {4, 36, 64, 68, 256, 12, 20},
                          k[] = {8, 64, 200, 24, 32, 256, 72};
    static const dit_type types[] = {DIT_TYPE_F32, DIT_TYPE_BF16, DIT_TYPE_Q8_0, DIT_TYPE_Q4_K};
    static const conv_case convs[] = {
        {1, 9, 7, 16, 20, 3, 1, 1, 1, DIT_TYPE_F16, false, true, false, false, 1, 1, 1, 1, false, 0, 0, false},
        {2, 8, 10, 24, 24, 3, 2, 0, 1, DIT_TYPE_F16, false, true, false, false, 0, 0, 1, 1, false, 0, 0, false},
        {2, 5, 4, 16, 16, 3, 1, 1, 1, DIT_TYPE_F16, true, true, true, false, 0, 0, 1, 1, false, 0, 0, false}};
    for (size_t i = 0; i < DITI_COUNT(m); i++)
        check_unit(device, module, &(linear_case){.m = m[i], .n = n[i], .k = k[i], .type = DIT_TYPE_F16, .bias = true},
                   1);
    for (int part = 0; part < 5; part++)
        check_unit(device, module,
                   &(linear_case){.m = 33,
                                  .n = 48,
                                  .k = 64,
                                  .type = DIT_TYPE_F16,
                                  .multiply = part == 1,
                                  .gate = part == 2,
                                  .residual = part == 3,
                                  .in_place = part == 3,
                                  .x_f32 = part == 4,
                                  .out_f32 = part == 0},
                   1);
    for (size_t i = 0; i < DITI_COUNT(types); i++)
        check_unit(device, module, &(linear_case){.m = 40, .n = 72, .k = 512, .type = types[i], .parts = 3}, 1);
    conv_module = module;
    for (size_t i = 0; i < DITI_COUNT(convs); i++) check_conv(device, &convs[i]);
    conv_module = NULL;
}

/* A product has the same bytes however it is cut into slices. */
static void test_unit_slices(const char *rung) {
    linear_case c = {.m = 200, .n = 100, .k = 72, .type = DIT_TYPE_F16, .bias = true};
    uint64_t hashes[2] = {0, 0};
    char overrides[100];
    for (int i = 0; i < 2; i++) {
        diti_device *device;
        double *wanted;
        matrix got;
        snprintf(overrides, sizeof overrides, "rung=%s%s", rung, i ? ",groups=3,storage_range=64K" : "");
        device = open_device(overrides, i ? 300 : 0);
        if (!device) return;
        random_state = 13;
        got = run_linear(device, &c, &wanted);
        hashes[i] = diti_hash(got.data, (size_t)c.m * c.n * sizeof(float));
        free(got.data), free(wanted);
        diti_device_close(device);
    }
    CHECK_MESSAGE(hashes[0] == hashes[1], "rung %s: slices give other bytes", rung);
}

/* Threads and subgroups may have other portions of the work: a line of vk/portions.c. */
static void test_unit_portions(const char *rung, const char *module, int line) {
    char overrides[64];
    diti_device *device;
    snprintf(overrides, sizeof overrides, "rung=%s,cpu=0,portions=%d", rung, line);
    device = open_device(overrides, 0);
    if (device) {
        device->team = 0; /* gemm_broadcast would take the place of gemm_half: test_broadcast */
        test_unit_few(device, module, sweep);
    }
    diti_device_close(device);
}

/* Rows of A as threads of Intel's GPUs hold them: a module of the tests puts together again what they would load. */
static void test_pairs(void) {
    static const char command[] =
        "rm -rf build/paired && mkdir -p build/paired && cp shaders/*.comp shaders/*.glsl build/paired && printf "
        "'gemm_coop gemm_coop.comp 16 -DEMULATED\nexpand expand.comp 12\n' >build/paired/MODULES && build/spirv raw "
        "build/paired build/paired >build/paired/log 2>&1 && [ -f build/paired/gemm_coop.spv ]";
    char overrides[80];
    if (system(command) != 0) {
        printf("skipped: pairs of operands (needs glslang-tools, and build/spirv from make)\n");
        return;
    }
    for (int line = 0; line < (sweep ? 2 : 1); line++) { /* Arc A's, Xe2's */
        diti_device *device;
        snprintf(overrides, sizeof overrides, "rung=coop,cpu=0,portions=%d,layout=%u,shared=30K", line,
                 DITI_LAYOUT_PAIRS);
        device = open_device(overrides, 0);
        if (!device) return;
        plain_modules = "build/paired";
        if (sweep) test_unit_few(device, "gemm_coop", false);
        check_unit(device, "gemm_coop", &(linear_case){.m = 77, .n = 96, .k = 72, .type = DIT_TYPE_F16, .bias = true},
                   1);
        CHECK(last_constants[DITI_CONSTANT_LOOP] & DITI_LOOP_PAIRED);
        conv_module = "gemm_coop";
        check_conv(device, &(conv_case){1,    13,    11, 16, 24, 3, 1,     1, 1, DIT_TYPE_F16, true, true,
                                        true, false, 0,  0,  1,  1, false, 0, 0, false});
        CHECK(last_constants[DITI_CONSTANT_LOOP] & DITI_LOOP_PAIRED);
        conv_module = NULL;
        plain_modules = NULL;
        check_unit(device, "gemm_coop", &(linear_case){.m = 77, .n = 64, .k = 72, .type = DIT_TYPE_F16, .x_f32 = true},
                   1);
        CHECK(!(last_constants[DITI_CONSTANT_LOOP] & DITI_LOOP_PAIRED));
        diti_device_close(device);
    }
}

/* --- BF16 weights: F16 on devices that compute with it, once for all steps --- */

enum { NARROW_ROWS = 20, NARROW_COLUMNS = 64 };

typedef enum narrow_way { NARROW_RESIDENT, NARROW_STREAMED, NARROW_KEPT, NARROW_BY_NEED } narrow_way;

/* Loads the file's only matrix and multiplies it; what was expanded in that graph is counted. */
static matrix run_loaded(diti_device *device, const bytes *file, narrow_way way, bool *wide, dit_type *type,
                         uint32_t *expanded, dit_result *result) {
    diti_load_options options = {.wide = wide};
    diti_stream_sizes sizes = {.slot = NARROW_ROWS * NARROW_COLUMNS * 2, .piece = NARROW_COLUMNS * 2};
    diti_linear_desc desc = {.name = "linear"};
    diti_checkpoint *checkpoint = NULL;
    dit_source source = memory_source(file);
    diti_weights weights;
    diti_weight weight;
    diti_loader loader;
    dit_error err = {0};
    matrix x, got = {0, 0, NULL};
    *expanded = 0;
    random_state = 4;
    if (!CHECK_MESSAGE(diti_checkpoint_open(&env, &source, &checkpoint, &err) == DIT_OK, "%s", err.message)) return got;
    options.by_need = way == NARROW_BY_NEED;
    options.read_once = way >= NARROW_KEPT;
    if (way == NARROW_STREAMED || way == NARROW_KEPT)
        CHECK(diti_stream_create(device, &env, &sizes, &options.stream, &err) == DIT_OK);
    if (options.stream) options.stream->keeps = options.read_once;
    options.matrices = sizes.slot;
    diti_loader_begin(&loader, device, &env, checkpoint, "", "test", NULL);
    diti_loader_rules(&loader, "test", &options);
    diti_load_linear(&loader, &weight, NARROW_ROWS, NARROW_COLUMNS, "w");
    *result = diti_loader_finish(&loader, &weights, &err);
    *type = weight.type;
    if (*result == DIT_OK) {
        diti_graph *graph = begin(device);
        diti_tensor out;
        x = matrix_random(33, NARROW_COLUMNS, 1e-3f, DITI_F16);
        desc.out_f32 = true;
        out = diti_linear(graph, input(&x, graph->activation, 0, "x"), &weight, &desc);
        for (size_t i = 0; i < graph->dispatch_count; i++)
            *expanded += graph->dispatches[i].kernel == DITI_KERNEL_EXPAND;
        if (run_plan()) got = read_tensor(out);
        end();
        free(x.data);
        diti_weights_free(device, &env, &weights);
    } else {
        CHECK_MESSAGE(strstr(err.message, "tensor w") != NULL, "%s", err.message);
    }
    diti_stream_destroy(options.stream);
    diti_checkpoint_close(checkpoint);
    return got;
}

/* All that was multiplied with finite weights is the same to the bit; of what was not, nothing is finite. */
static void check_narrowed(const matrix *got, const matrix *expected, int large, const char *what) {
    uint32_t i;
    CHECK(got->data && expected->data);
    for (i = 0; got->data && expected->data && i < got->rows * got->columns; i++) {
        bool finite = !large || i % NARROW_ROWS != 700 / NARROW_COLUMNS;
        CHECK_MESSAGE(finite ? !memcmp(&got->data[i], &expected->data[i], sizeof(float)) : !isfinite(got->data[i]),
                      "%s, %d: %u: %g, %g", what, large, i, (double)got->data[i], (double)expected->data[i]);
    }
}

/* A matrix that is read late can't be loaded again: a value that no half holds becomes infinite, as in expanded
 * weights. */
static void check_read_late(diti_device *device, const bytes *file, const matrix *expected, int large) {
    static const char *const names[] = {"resident", "streamed", "kept", "by need"};
    int way;
    for (way = NARROW_STREAMED; way <= (int)NARROW_BY_NEED; way++) {
        bool wide = false, narrow = device->rung == DITI_RUNG_FP16 && way != NARROW_STREAMED;
        uint32_t expanded;
        dit_result result;
        dit_type type;
        matrix got = run_loaded(device, file, (narrow_way)way, &wide, &type, &expanded, &result);
        CHECK_MESSAGE(result == DIT_OK && !wide && type == (narrow ? DIT_TYPE_F16 : DIT_TYPE_BF16) &&
                          expanded == !narrow,
                      "%s, %d: %s, %u expanded", names[way], large, diti_type_name(type), expanded);
        check_narrowed(&got, expected, device->rung == DITI_RUNG_FP16 || large == 2 ? large : 0, names[way]);
        free(got.data);
    }
}

static void test_narrowed(void) {
    /* The largest half, then both sides of the least normal half, of half of the least one, and of zero. */
    static const uint16_t edges[] = {0x477f, 0xc77f, 0x3880, 0x387f, 0x3881, 0xb301, 0x3300, 0x3301, 0x32ff,
                                     0x3380, 0xb3c0, 0x3340, 0x0000, 0x8000, 0x0001, 0x807f, 0x3f80, 0xbf81};
    char header[120];
    snprintf(header, sizeof header, "{\"w\":{\"dtype\":\"BF16\",\"shape\":[%d,%d],\"data_offsets\":[0,%d]}}",
             NARROW_ROWS, NARROW_COLUMNS, NARROW_ROWS * NARROW_COLUMNS * 2);
    for (int rung = DITI_RUNG_BASE; rung <= DITI_RUNG_FP16; rung++) {
        diti_device *device = open_rung("", (diti_rung)rung);
        for (int large = 0; large < 3 && device; large++) { /* 0: all fits; 1: 65536; 2: infinity, which stays one */
            bytes file = safetensors_bytes(header, NARROW_ROWS * NARROW_COLUMNS * 2);
            uint16_t *values = (uint16_t *)(void *)(file.data + 8 + strlen(header)),
                     last = large == 2 ? 0x7f80 : 0x4780;
            bool wide = false, narrow = rung == DITI_RUNG_FP16 && large != 1;
            uint32_t expanded[2];
            dit_result result[2];
            dit_type type[2];
            matrix got[2];
            random_state = 9;
            for (int i = 0; i < NARROW_ROWS * NARROW_COLUMNS; i++) {
                uint16_t value = i < (int)DITI_COUNT(edges) ? edges[i] : diti_float_to_bfloat(random_float());
                memcpy(&values[i], large && i == 700 ? &last : &value, 2);
            }
            got[0] = run_loaded(device, &file, NARROW_RESIDENT, NULL, &type[0], &expanded[0], &result[0]);
            got[1] = run_loaded(device, &file, NARROW_RESIDENT, &wide, &type[1], &expanded[1], &result[1]);
            check_read_late(device, &file, &got[0], large);
            CHECK(result[0] == DIT_OK && type[0] == DIT_TYPE_BF16 && expanded[0] == 1);
            CHECK(wide == (rung == DITI_RUNG_FP16 && large == 1) && (result[1] < 0) == wide);
            if (!wide) {
                CHECK_MESSAGE(type[1] == (narrow ? DIT_TYPE_F16 : DIT_TYPE_BF16) && expanded[1] == !narrow,
                              "rung %d, %d: %s, %u expanded", rung, large, diti_type_name(type[1]), expanded[1]);
                for (uint32_t i = 0; got[0].data && got[1].data && i < got[0].rows * got[0].columns; i++) {
                    if (large == 2 && i % NARROW_ROWS == 700 / NARROW_COLUMNS) continue; /* drivers differ about it */
                    CHECK_MESSAGE(!memcmp(&got[0].data[i], &got[1].data[i], sizeof(float)), "rung %d, %d: %u: %g, %g",
                                  rung, large, i, (double)got[0].data[i], (double)got[1].data[i]);
                }
            }
            free(got[0].data), free(got[1].data);
            bytes_free(&file);
        }
        diti_device_close(device);
    }
}

/* Factors bring large values back in range, so that such a matrix stays BF16 however it is read. */
static void test_narrowed_smooth(void) {
    diti_device *device = open_rung("", DITI_RUNG_FP16);
    enum { BYTES = NARROW_ROWS * NARROW_COLUMNS * 2 };
    char header[240];
    bytes file;
    bool wide = false;
    uint32_t expanded, i;
    dit_result result;
    dit_type type;
    matrix got[2];
    snprintf(header, sizeof header,
             "{\"w\":{\"dtype\":\"BF16\",\"shape\":[%d,%d],\"data_offsets\":[0,%d]},"
             "\"w_smooth\":{\"dtype\":\"BF16\",\"shape\":[%d],\"data_offsets\":[%d,%d]}}",
             NARROW_ROWS, NARROW_COLUMNS, BYTES, NARROW_COLUMNS, BYTES, BYTES + 2 * NARROW_COLUMNS);
    file = safetensors_bytes(header, BYTES + 2 * NARROW_COLUMNS);
    for (i = 0; i < BYTES / 2 + NARROW_COLUMNS; i++) { /* 1; in column 3 the value is 2^17, its factor 2^17 */
        uint16_t value = i % NARROW_COLUMNS == 3 ? 0x4800 : 0x3f80;
        memcpy(file.data + 8 + strlen(header) + 2 * (size_t)i, &value, 2);
    }
    got[0] = run_loaded(device, &file, NARROW_RESIDENT, NULL, &type, &expanded, &result);
    got[1] = run_loaded(device, &file, NARROW_KEPT, &wide, &type, &expanded, &result);
    CHECK(result == DIT_OK && !wide && type == DIT_TYPE_BF16 && expanded == 1);
    check_narrowed(&got[1], &got[0], 0, "smoothed");
    for (i = 0; got[1].data && i < got[1].rows * got[1].columns; i++) CHECK(isfinite(got[1].data[i]));
    free(got[0].data), free(got[1].data);
    bytes_free(&file);
    diti_device_close(device);
}

/* A model with a value that no half holds is loaded again without halves. The fixture's halves are read as if they were
   BF16. */
static void test_wide_model(void) {
    const char *entry = "\"blocks.0.attn.proj.weight\"", *half = "\"F16\"", *from;
    FILE *in = fopen("tests/fixtures/dit_orig/model.safetensors", "rb");
    bytes stored = {0};
    char piece[4096];
    uint64_t length;
    size_t got;
    if (!CHECK(in != NULL)) return;
    while ((got = fread(piece, 1, sizeof piece, in)) > 0) bytes_add(&stored, piece, got);
    fclose(in);
    memcpy(&length, stored.data, 8);
    for (int large = 0; large < 2; large++) {
        diti_device *device = open_rung("", DITI_RUNG_FP16);
        diti_checkpoint *checkpoint = NULL;
        diti_transformer *model = NULL;
        bytes file = {0};
        dit_source source;
        dit_error err = {0};
        unsigned long first = 0;
        const char *at;
        bytes_u64(&file, 0);
        for (from = (const char *)stored.data + 8; from < (const char *)stored.data + 8 + length; from++) {
            if (!strncmp(from, half, strlen(half))) bytes_add(&file, "\"B", 2), from++;
            bytes_add(&file, from, 1);
        }
        *(uint64_t *)(void *)file.data = file.size - 8;
        at = strstr((const char *)file.data + 8, entry);
        at = at ? strstr(at, "\"data_offsets\":[") : NULL;
        if (!CHECK(device && at && sscanf(at + 16, "%lu", &first) == 1)) break;
        first += (unsigned long)file.size + 64;
        bytes_add(&file, stored.data + 8 + length, stored.size - 8 - (size_t)length);
        if (large) memcpy(file.data + first, "\x80\x47", 2); /* 65536 */
        source = memory_source(&file);
        if (CHECK_MESSAGE(diti_checkpoint_open(&env, &source, &checkpoint, &err) == DIT_OK &&
                              diti_transformer_load(device, &env, NULL, checkpoint, "", NULL, &model, &err) == DIT_OK,
                          "%s", err.message)) {
            const diti_weight *weight = &((diti_dit *)(void *)model)->blocks[0].out.weight;
            CHECK_MESSAGE(weight->type == (large ? DIT_TYPE_BF16 : DIT_TYPE_F16), "%s", diti_type_name(weight->type));
            diti_transformer_destroy(model);
        }
        diti_checkpoint_close(checkpoint);
        diti_device_close(device);
        bytes_free(&file);
    }
    bytes_free(&stored);
}

/* --- packed weights that a product of few rows decodes itself: the bytes of an expansion and a product --- */

/* one: of one type, where compiling takes long. */
static void test_decoded(const char *overrides, const char *module, bool few, bool one) {
    static const dit_type types[] = {DIT_TYPE_Q8_0,     DIT_TYPE_Q4_0,  DIT_TYPE_Q4_K, DIT_TYPE_Q6_K,
                                     DIT_TYPE_I4_GROUP, DIT_TYPE_MXFP4, DIT_TYPE_NVFP4};
    static const uint32_t rows[] = {1, 3, 8, 9, 33, 300};
    diti_device *device = open_device(overrides, 0);
    for (size_t t = one ? 2 : 0; t < (one ? 3 : DITI_COUNT(types)) && device; t += sweep ? 1 : 2)
        for (size_t r = few ? 0 : 3; r < DITI_COUNT(rows); r++) {
            linear_case c = {.m = rows[r], .n = 72, .k = 512, .type = types[t], .parts = r % 2 ? 3 : 1, .bias = true};
            matrix got[2];
            int expansions[2];
            if (!sweep && (t + r) % 2) continue;
            for (int i = 0; i < 2; i++) {
                double *wanted;
                device->decodes = i;
                random_state = 5 + r;
                got[i] = run_linear(device, &c, &wanted);
                expansions[i] = last_expansions;
                if (got[i].data) {
                    char what[80];
                    snprintf(what, sizeof what, "%s %s m %u decoded %d", overrides, diti_type_name(c.type), c.m, i);
                    if (few) close_to(&got[i], wanted, tolerance_of(device->rung ? DITI_F16 : DITI_F32), what);
                    CHECK_MESSAGE(rows[r] <= 8 || !strcmp(last_module, module), "%s: computed by %s", what,
                                  last_module);
                }
                free(wanted);
            }
            CHECK_MESSAGE(expansions[0] == (c.parts > 1 ? 3 : 1) && expansions[1] == (c.m > 128 ? expansions[0] : 0),
                          "%s %s m %u: %d and %d expansions", overrides, diti_type_name(c.type), c.m, expansions[0],
                          expansions[1]);
            if (got[0].data && got[1].data)
                CHECK_MESSAGE(!memcmp(got[0].data, got[1].data, sizeof(float) * c.m * c.n),
                              "%s %s m %u: other bytes when decoded in the product", overrides, diti_type_name(c.type),
                              c.m);
            free(got[0].data), free(got[1].data);
        }
    diti_device_close(device);
}

/* Products that are split along K decode packed weights, too: eight parts, of one type at least two blocks each; and
   five, the last one shorter. */
static void test_decoded_parts(const char *overrides) {
    static const dit_type types[] = {DIT_TYPE_Q6_K,     DIT_TYPE_Q8_0,  DIT_TYPE_Q4_K, DIT_TYPE_Q4_0,
                                     DIT_TYPE_I4_GROUP, DIT_TYPE_MXFP4, DIT_TYPE_NVFP4};
    diti_device *device = open_device(overrides, 0);
    for (size_t t = 0; t < (sweep ? 2 * DITI_COUNT(types) : 4) && device; t++) {
        linear_case c = {.m = 33, .n = 72, .k = t % 2 ? 2304 : 4096, .type = types[t / 2], .bias = true};
        matrix got[3];
        for (int i = 0; i < 3; i++) { /* expanded, decoded, and decoded as a whole */
            double *wanted;
            char what[80];
            device->decodes = i > 0;
            device->limits.cores = i < 2 ? 24 : 1;
            random_state = 5;
            got[i] = run_linear(device, &c, &wanted);
            snprintf(what, sizeof what, "%s %s k %u, %d", overrides, diti_type_name(c.type), c.k, i);
            if (got[i].data) close_to(&got[i], wanted, tolerance_of(device->rung ? DITI_F16 : DITI_F32), what);
            CHECK_MESSAGE(last_expansions == !i, "%s: %d expansions", what, last_expansions);
            free(wanted);
        }
        if (got[0].data && got[1].data && got[2].data) {
            CHECK_MESSAGE(c.k < 4096 || !memcmp(got[0].data, got[1].data, sizeof(float) * c.m * c.n),
                          "%s %s: parts have other bytes when they are decoded", overrides, diti_type_name(c.type));
            CHECK_MESSAGE(memcmp(got[1].data, got[2].data, sizeof(float) * c.m * c.n), "%s %s: nothing is split",
                          overrides, diti_type_name(c.type));
        }
        for (int i = 0; i < 3; i++) free(got[i].data);
    }
    diti_device_close(device);
}

/* A device whose matrices hold halves and no int8 uses them. */
static void test_halves_alone(void) {
    diti_device *device = open_device("rung=coop,int8_matrices=0,subgroup=64", 0);
    if (device) {
        CHECK(device->coop.subgroup == device->limits.subgroup_size); /* the driver has no other size */
        CHECK(device->rung == DITI_RUNG_COOP && !device->coop_i8 && !device->coop.subgroup_shape[DITI_COOP_S8].m);
        test_unit_few(device, "gemm_coop", false);
    }
    diti_device_close(device);
}

/* Products by broadcasts within subgroups, as Intel's GPUs without matrices have them: the portions of line 0. */
static void test_broadcast(void) {
    const char *module = "gemm_broadcast";
    diti_device *device = open_rung("cpu=0,portions=0", DITI_RUNG_HALF);
    if (!device) return;
    CHECK_MESSAGE(device->team == device->limits.subgroup_size, "teams of %u in subgroups of %u", device->team,
                  device->limits.subgroup_size);
    test_unit_few(device, module, true);
    if (sweep) test_unit_all(device, module), test_conv(device);
    for (uint32_t n = 93; n <= 96; n += sweep ? 1 : 2) /* columns that are no multiple of four, and packed weights */
        check_unit(device, module, &(linear_case){.m = 33, .n = n, .k = 64, .type = DIT_TYPE_Q8_0, .bias = true}, 1);
    CHECK_MESSAGE(last_expansions == 1, "%d expansions", last_expansions);
    check_unit(device, module,
               &(linear_case){.m = 70, .n = 96, .k = 71, .type = DIT_TYPE_F32, .x_f32 = true, .extra = 1}, 1);
    device->software = false; /* as a GPU, which rounds a product and a sum at once */
    check_unit(device, module, &(linear_case){.m = 70, .n = 96, .k = 200, .type = DIT_TYPE_F16, .bias = true}, 1);
    CHECK(last_constants[15] == 0);
    check_unit(device, module, &(linear_case){.m = 70, .n = 96, .k = 200, .type = DIT_TYPE_F16, .out_f32 = true}, 6e4f);
    device->software = true;
    device->team = 0;
    check_unit(device, "gemm_half", &(linear_case){.m = 70, .n = 96, .k = 72, .type = DIT_TYPE_F16}, 1);
    diti_device_close(device);
    device = open_device("cpu=1,portions=0", 0);
    CHECK(device && !device->team);
    diti_device_close(device);
    device = open_device("cpu=0", 0);
    CHECK(device && !device->team);
    diti_device_close(device);
}

/* A thread of attention by broadcasts has one key of a tile, as a bias wants. */
static void test_broadcast_attention(void) {
    diti_device *device = open_rung("cpu=0,portions=0", DITI_RUNG_FP16);
    if (device && CHECK(device->attention_team)) {
        check_attention(
            device, &(attention_case){3, 4, 128, 33, 33, .packed = true, .bias = true, .kv_heads = 2, .cap = 0.25f});
        CHECK_MESSAGE(!strcmp(last_module, "attention_broadcast"), "computed by %s", last_module);
    }
    diti_device_close(device);
}

/* Large products without matrices on NVIDIA's GPUs, and of floats on AMD's: threads with 8 x 8 results. */
static void test_wide_results(const char *module, const char *overrides) {
    diti_device *device = open_device(overrides, 0);
    linear_case c = {.m = 301, .n = 6204, .k = 44, .type = DIT_TYPE_F16, .bias = true};
    if (device) {
        device->team = 0;
        check_unit(device, module, &c, 1);
        CHECK_MESSAGE(last_constants[11] == 8, "%s: %u columns of results", module, last_constants[11]);
        c.type = DIT_TYPE_Q8_0;
        c.k = 64;
        if (sweep) check_unit(device, module, &c, 1);
    }
    diti_device_close(device);
}

/* The tiles of a product: subgroups above each other, and columns of K in a slice. */
static void tiles_of(diti_device *device, uint32_t m, uint32_t n, uint32_t k, bool x_f32, uint32_t out[2]) {
    diti_graph *graph = begin(device);
    diti_gemm gemm = {0};
    gemm.x = diti_tensor_state(graph, x_f32 ? DITI_F32 : DITI_F16, m, k, "x");
    gemm.weight = diti_tensor_state(graph, DITI_F16, n, k, "weight");
    gemm.out = diti_tensor_state(graph, DITI_F16, m, n, "out");
    gemm.rows = m, gemm.columns = n, gemm.depth = k, gemm.parts = 1;
    gemm.name = "product";
    diti_op_gemm(graph, &gemm);
    CHECK(graph->dispatches[graph->dispatch_count - 1].kernel == DITI_KERNEL_GEMM_COOP);
    memcpy(out, graph->dispatches[graph->dispatch_count - 1].constants + 16, 2 * sizeof *out);
    end();
}

/* Tiles that are twice as high as wide, as NVIDIA's GPUs have them on matrices, with slices of K that do not divide a
   power of two. Edges of tiles on both sides; K that slices divide, and K of which something is left over. */
static void test_tall(void) {
    static const struct {
        uint32_t m, n, k, high, step; /* high: subgroups above each other */
        bool x_f32;
    } cases[] = {{131, 132, 200, 4, 48, false}, {131, 132, 96, 4, 48, false}, {131, 132, 8, 4, 48, false},
                 {131, 132, 64, 4, 32, false},  /* which slices of 48 do not divide, and those of 32 do */
                 {131, 132, 72, 2, 32, true},   /* floats take registers when they are loaded */
                 {128, 260, 72, 2, 32, false}}; /* one row of tiles is no higher than it must be */
    diti_device *device = open_device("rung=coop,cpu=0,portions=3,cores=1", 0);
    for (size_t i = 0; i < DITI_COUNT(cases) && device; i++) {
        linear_case c = {.m = cases[i].m, .n = cases[i].n, .k = cases[i].k, .x_f32 = cases[i].x_f32};
        uint32_t tiles[2];
        tiles_of(device, c.m, c.n, c.k, c.x_f32, tiles);
        CHECK_MESSAGE(tiles[0] == cases[i].high, "%u subgroups above each other", tiles[0]);
        if (device->coop.subgroup == 8) /* in larger ones a tile of this size has too few loads for each thread */
            CHECK_MESSAGE(tiles[1] == cases[i].step, "slices of %u", tiles[1]);
        c.type = DIT_TYPE_F16;
        c.rows_per_gate = 33;
        c.extra = 8;
        c.bias = c.multiply = c.gate = c.residual = c.out_f32 = true;
        if (sweep || device->coop.subgroup > 8) check_unit(device, "gemm_coop", &c, 1); /* LLVM takes 20 s for each */
    }
    if (device) { /* as on an H200: half as many tiles have to fill the cores */
        uint32_t tiles[2];
        device->limits.cores = 132;
        device->limits.shared_bytes = 48 << 10;
        device->coop.subgroup = 32;
        tiles_of(device, 4608, 1024, 96, false, tiles);
        CHECK_MESSAGE(tiles[0] == 4 && tiles[1] == 48, "%u subgroups, slices of %u", tiles[0], tiles[1]);
        tiles_of(device, 4608, 896, 96, false, tiles);
        CHECK_MESSAGE(tiles[0] == 2 && tiles[1] == 32, "%u subgroups, slices of %u", tiles[0], tiles[1]);
    }
    diti_device_close(device);
}

/* false: the device has not what the rung needs. */
static bool test_unit(const char *rung, const char *module) {
    char overrides[64];
    dit_context_desc desc = {0};
    diti_device *device = NULL;
    dit_error err = {0};
    snprintf(overrides, sizeof overrides, "rung=%s", rung);
    desc.overrides = overrides;
    if (diti_device_open(&desc, &env, &device, &err) < 0)
        return !CHECK_MESSAGE(strstr(err.message, "has not what rung"), "%s", err.message);
    test_unit_few(device, module, true);
    if (device->rung == DITI_RUNG_HALF) test_attention(device);
    if (sweep) test_unit_all(device, module);
    diti_device_close(device);
    if (!strcmp(rung, "half")) {
        test_unit_portions(rung, module, 0);            /* Intel's */
        if (sweep) test_unit_portions(rung, module, 5); /* Qualcomm's */
        if (sweep) test_unit_portions(rung, module, 6); /* Apple's */
        if (sweep) test_wide_results(module, "rung=half,cpu=0,portions=3");
    } else {
        test_unit_portions(rung, module, 0);            /* Arc A's */
        if (sweep) test_unit_portions(rung, module, 1); /* Xe2's; one pipeline takes newer LLVM 18 s */
    }
    if (sweep) {
        test_unit_slices(rung);
        snprintf(overrides, sizeof overrides, "rung=%s,cpu=0", rung); /* the tiles of GPUs */
        device = open_device(overrides, 0);
        if (device) test_unit_few(device, module, true);
        diti_device_close(device);
    }
    return true;
}

/* Way races: the layers tell where threads use shared memory without a barrier between them, which drivers that run
   one subgroup after the other do not show. The kernels of GPUs, with the portions of each kind of GPU; what they
   compute is compared with references elsewhere. */
static void test_races(void) {
    static const char *const rungs[] = {"coop", "coop2", "half", "base"};
    static const int lines = 9; /* of diti_portions_table */
    char overrides[80];
    diti_device *device;
    only_bytes = true;
    test_layers.printed = 0;
    test_barriers(0); /* else silence would prove nothing */
    device = open_rung("cpu=0", DITI_RUNG_BASE);
    check_group_norm(device, 2, 1000, 32, 8, true, 0, 0, 0);
    diti_device_close(device);
    test_barriers(1);
    CHECK_MESSAGE(test_layer_messages() > 0, "a kernel without barriers has no races");
    test_layers.printed = 8;
    for (int i = 0; i < (sweep ? lines * (int)DITI_COUNT(rungs) : 1); i++) { /* LLVM takes a minute for most lines */
        snprintf(overrides, sizeof overrides, "rung=%s,cpu=0,portions=%d", rungs[i % (int)DITI_COUNT(rungs)],
                 sweep ? i / (int)DITI_COUNT(rungs) : 1);
        device = open_device(overrides, 0);
        if (!device) continue;
        check_linear(device, &(linear_case){.m = 70, .n = 96, .k = 72, .type = DIT_TYPE_F16, .bias = true});
        check_attention(device, &(attention_case){.batch = 1, .heads = 2, .head_dim = 128, .queries = 77, .keys = 300});
        check_norm(device, &(norm_case){.rows = 200, .columns = 320, .modulate = true, .size = 1});
        check_qkv(device, 3, 64, DITI_QKV_RMS, true, false, true, 0);
        if (sweep) run_everything(device), test_attention(device);
        diti_device_close(device);
        CHECK_MESSAGE(test_layer_messages() == 0, "%s: races, or accesses beyond a binding", overrides);
    }
    only_bytes = false;
}

int main(void) {
    dit_error err = {0};
    uint64_t hashes[2] = {0, 0};
    bool units, halves = false;
    sweep = getenv("DIT_TEST_ALL") && !strcmp(getenv("DIT_TEST_ALL"), "1");
    test_vulkan_begin();
    CHECK(diti_env_init(&env, NULL, NULL, &err) >= 0);
    if (getenv("DIT_TEST_WAY") && !strcmp(getenv("DIT_TEST_WAY"), "races")) {
        test_races();
        test_vulkan_end();
        return TEST_END("kernels");
    }
    units = test_unit("coop", "gemm_coop");
    if (units && sweep) test_unit("coop2", "gemm_coop");
    if (units) test_decoded("rung=coop,cpu=0,portions=0", "gemm_coop", false, !sweep);
    if (units && sweep) test_decoded("rung=coop,cpu=0,portions=1", "gemm_coop", false, false);
    if (units) test_decoded_parts("rung=coop,cpu=0,portions=0");
    if (units) test_pairs();
    if (units) test_halves_alone();
    if (units) test_tall();
    if (!units || sweep) halves = test_unit("half", "gemm_half"); /* SwiftShader has none */
    if (sweep && halves) test_decoded("rung=half,cpu=0", "gemm_half", false, false);
    if (halves && (sweep || test_first_driver())) /* these tiles compile in half of the time */
        test_decoded("rung=half,cpu=0,portions=1", "gemm_half", false, !sweep);
    if (units) test_folded("rung=coop", false);
    if (units && sweep) test_folded("rung=coop2", false);
    if (units && !sweep) { /* all else has been seen on other drivers */
        test_vulkan_end();
        return TEST_END("kernels");
    }
    thorough = test_first_driver();
    if (!sweep && getenv("DIT_TEST_WAY") && !strcmp(getenv("DIT_TEST_WAY"), "sanitize")) { /* the host's part */
        test_device("cpu=1", DITI_RUNG_BASE);
        test_vulkan_end();
        return TEST_END("kernels");
    }
    test_device("cpu=1", DITI_RUNG_BASE);
    if (halves && test_first_driver()) { /* SwiftShader is left to specialize by itself (vk/device.c) */
        test_folded("rung=base,cpu=1", true);
        if (sweep) test_folded("rung=base,cpu=0", true);
        if (sweep) test_folded("rung=half,cpu=0", true);
    }
    if (thorough) test_split_k(DITI_RUNG_BASE);
    thorough = sweep;
    if (sweep || !test_first_driver()) test_device("cpu=1", DITI_RUNG_FP16); /* in make test SwiftShader has it */
    if (sweep) test_device("cpu=0", DITI_RUNG_BASE);
    test_device("cpu=0", DITI_RUNG_FP16);
    if (sweep || test_first_driver()) test_decoded("rung=base,cpu=0", "gemm_gpu", true, false);
    if (sweep || test_first_driver()) test_decoded_parts("rung=base,cpu=0");
    if (sweep || !test_first_driver()) test_wide_results("gemm_gpu", "rung=base,cpu=0,portions=2");
    test_narrowed();
    test_narrowed_smooth();
    test_wide_model();
    if (halves) test_broadcast();
    test_clip_slices(test_first_driver() ? "1" : "0");
    if (sweep) test_clip_slices(test_first_driver() ? "0" : "1");
    if (sweep || test_first_driver()) test_broadcast_attention();
    if (sweep || !test_first_driver()) hashes[0] = test_same_bytes("1", DITI_RUNG_BASE);
    if (sweep || test_first_driver()) hashes[1] = test_same_bytes("0", DITI_RUNG_FP16);
    if (sweep || test_first_driver()) test_rounding("0", sweep ? hashes[1] : few_hash);
    if (sweep) test_rounding_of_halves("half"); /* make test has seen a driver that truncates on rung fp16 */
    for (int i = DITI_RUNG_COOP; i < DITI_RUNG_COUNT && units; i++)
        test_rounding_of_halves(diti_rung_name((diti_rung)i));
    for (int i = 0; i < 2 && sweep && !units && test_first_driver();
         i++) /* those drivers fuse what the optimizer joins */
        test_unoptimised(i ? "0" : "1", i ? DITI_RUNG_FP16 : DITI_RUNG_BASE, hashes[i]);
    test_vulkan_end();
    return TEST_END("kernels");
}
