/* The kernels against references computed in double precision: odd sizes, edge values, every operand of every epilogue,
   every stored type, slices and tiny limits. Both forms of a kernel (for processors, for GPUs) run on every driver.
   test-runs: lavapipe swiftshader sanitize */
#define DIT_IMPLEMENTATION
#include "dit.h"
#include "vulkan_test.h"

static diti_env env;
static bool sweep; /* DIT_TEST_ALL=1 */

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
    diti_buffer buffers[MAX_BUFFERS];
    int buffer_count;
} bench;

static diti_device *open_device(const char *overrides, uint32_t max_dispatch_us) {
    dit_context_desc desc = {0};
    diti_device *device = NULL;
    dit_error err = {0};
    desc.overrides = overrides;
    desc.max_dispatch_us = max_dispatch_us;
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

/* Rows at the tensor's full width; what lies beyond the matrix is NaN, which must never reach a result. */
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

static bool run_plan(void) {
    dit_error err = {0};
    if (!CHECK_MESSAGE(!diti_graph_failed(&bench.graph), "%s", bench.graph.error.message)) return false;
    if (!CHECK_MESSAGE(diti_plan_create(&bench.graph, NULL, &bench.plan, &err) >= 0, "%s", err.message)) return false;
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
    while (bench.buffer_count) diti_buffer_destroy(bench.device, &bench.buffers[--bench.buffer_count]);
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
        diti_buffer *buffer = &bench.buffers[bench.buffer_count++];
        uint32_t rows = (w->weight.rows * (p + 1) / parts + 3) / 4 * 4; /* parts end at multiples of four rows */
        if (p + 1 == parts || rows > w->weight.rows) rows = w->weight.rows;
        part->first_row = first;
        part->rows = rows - first;
        part->offset = 256;
        part->buffer = buffer;
        CHECK_MESSAGE(diti_buffer_create(bench.device, (part->rows * row_bytes + 511) / 256 * 256, DITI_MEMORY_DEVICE,
                                         "weight", buffer, &err) >= 0,
                      "%s", err.message);
        CHECK(diti_buffer_write(bench.device, buffer, 256, w->bytes + offset, part->rows * row_bytes, &err) >= 0);
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

static void weight_free(weight_values *w) {
    free(w->values);
    free(w->bytes);
}

/* Relative L2 and the largest difference relative to the reference's root mean square. */
static bool close_to(const matrix *got, const double *wanted, double tolerance, const char *what) {
    double error = 0, norm = 0, worst = 0;
    size_t n = (size_t)got->rows * got->columns;
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
    bool bias, multiply, gate, residual, out_f32, x_f32, in_place;
    uint32_t rows_per_gate, extra; /* extra columns of x, multiplier, gate and residual: views with a pitch */
} linear_case;

static void reference_linear(const linear_case *c, const matrix *x, const float *w, const matrix *bias,
                             const matrix *multiply, const matrix *gate, const matrix *residual, double *out) {
    for (uint32_t r = 0; r < c->m; r++)
        for (uint32_t n = 0; n < c->n; n++) {
            double v = 0;
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
    weight_values w = weight_random(c->type, c->n, c->k, 1, c->parts ? c->parts : 1), b = {0};
    diti_linear_desc desc = {0};
    diti_tensor out;
    if (c->bias) {
        b = bias_weight(&bias);
        desc.bias = &b.weight;
    }
    desc.activation = c->activation;
    if (c->multiply) desc.multiply = input(&multiply, act, c->extra, "multiply");
    if (c->gate) desc.gate = input(&gate, DITI_F32, c->extra, "gate");
    desc.rows_per_gate = c->rows_per_gate;
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
            uint32_t k = sizes[(i * 3 + j * 5 + 2) % n];
            linear_case c = {.m = sizes[i], .n = sizes[j], .k = k, .type = DIT_TYPE_F32};
            c.bias = true;
            c.out_f32 = sizes[j] % 2 == 1;
            check_linear(device, &c);
        }
}

static void test_linear_parts(diti_device *device) {
    for (int part = 0; part < 8; part++) {
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
    for (int a = DITI_ACTIVATION_GELU_ERF; a <= DITI_ACTIVATION_QUICK_GELU; a++) {
        linear_case c = {.m = 33, .n = 64, .k = 48, .type = DIT_TYPE_F32};
        c.activation = (diti_activation)a;
        check_linear(device, &c);
    }
}

static void test_linear_types(diti_device *device) {
    for (int type = DIT_TYPE_F32; type <= DIT_TYPE_Q6_K; type++) {
        linear_case c = {.m = 40, .n = 72, .k = 512, .type = (dit_type)type};
        c.parts = 3;
        c.bias = true;
        check_linear(device, &c);
    }
}

static void test_device(const char *overrides, diti_rung rung) {
    diti_device *device = open_rung(overrides, rung);
    if (!device) return;
    test_linear_sizes(device);
    test_linear_parts(device);
    test_linear_types(device);
    diti_device_close(device);
}

int main(void) {
    dit_error err = {0};
    sweep = getenv("DIT_TEST_ALL") && !strcmp(getenv("DIT_TEST_ALL"), "1");
    test_vulkan_begin();
    CHECK(diti_env_init(&env, NULL, NULL, &err) >= 0);
    test_device("cpu=1", DITI_RUNG_BASE);
    test_device("cpu=1", DITI_RUNG_FP16);
    test_device("cpu=0", DITI_RUNG_BASE);
    test_device("cpu=0", DITI_RUNG_FP16);
    test_vulkan_end();
    return TEST_END("kernels");
}
