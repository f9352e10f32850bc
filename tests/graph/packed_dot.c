/* Packed weights by the integer dot product: weights and activations as blocks of int8 with a scale for each 32
   columns, and their products, against double precision: every packed type, odd rows, blocks of nothing, values that
   are not finite, all operands of the epilogue, weights in parts, slices, small limits; and who shares blocks.
   test-compiler: quick   test-runs: lavapipe, in test-all swiftshader sanitize newest */
#include "kernel_bench.h"

/* --- blocks on the host --- */

typedef struct blocks {
    uint32_t rows, columns, pitch;
    unsigned char *bytes; /* as the device holds them */
} blocks;

static float block_scale(const blocks *b, uint32_t row, uint32_t column) {
    float scale;
    memcpy(&scale, b->bytes + (size_t)row * b->pitch + b->columns + column / 32 * 4, sizeof scale);
    return scale;
}
static int block_value(const blocks *b, uint32_t row, uint32_t column) {
    return (int8_t)b->bytes[(size_t)row * b->pitch + column];
}

static blocks read_blocks(diti_tensor tensor) {
    diti_tensor_info *info = &bench.plan->tensors[tensor];
    blocks b = {info->rows, info->columns, info->pitch, malloc((size_t)info->rows * info->pitch)};
    dit_error err = {0};
    CHECK(info->format == DITI_I8 && info->blocks && info->pitch >= info->columns + info->columns / 8);
    info->columns = info->pitch;
    CHECK_MESSAGE(diti_plan_read(bench.plan, tensor, b.bytes, (size_t)b.rows * b.pitch, &err) >= 0, "%s", err.message);
    info->columns = b.columns;
    return b;
}

/* Every byte within half a step of its value; steps of the block's largest magnitude / 127, or a hair more. exact:
   bytes and scales are what is stored. */
static void check_blocks(const blocks *got, const float *values, bool exact, const char *what) {
    uint32_t r, c, k, wrong = 0;
    for (r = 0; r < got->rows; r++)
        for (c = 0; c < got->columns; c += 32) {
            const float *v = values + (size_t)r * got->columns + c;
            double most = 0, scale = (double)block_scale(got, r, c);
            uint32_t bits = diti_op_float(block_scale(got, r, c));
            for (k = 0; k < 32; k++) most = fabs((double)v[k]) <= most ? most : fabs((double)v[k]); /* NaN stays */
            if (!(most < 1e38)) {
                wrong += !isnan(scale);
                for (k = 0; k < 32; k++) wrong += block_value(got, r, c + k) != 0;
                continue;
            }
            wrong += (bits & 3) != 0;
            if (!exact && !(most < 1e-30 ? scale == 0 : scale >= most / 127 * (1 - 1e-6) && scale <= most / 126.99))
                wrong++;
            for (k = 0; k < 32; k++) {
                double step = block_value(got, r, c + k), off = step * scale - (double)v[k];
                if (!(fabs(off) <= (exact ? 0 : scale * 0.5001) + (most < 1e-30 ? 1e-30 : 0))) wrong++;
            }
        }
    CHECK_MESSAGE(!wrong, "%s: %u bytes and scales are wrong", what, wrong);
}

static blocks quantized(diti_device *device, const matrix *x, diti_element format, uint32_t extra) {
    diti_graph *graph = begin(device);
    diti_tensor q = diti_quantize_blocks(graph, input(x, format, extra, "x"), "quantize");
    blocks got = {0};
    if (run_plan()) got = read_blocks(q);
    end();
    return got;
}

static void check_quantize(diti_device *device, uint32_t rows, uint32_t columns, diti_element format, uint32_t extra,
                           float size) {
    matrix x = matrix_random(rows, columns, size, format);
    char what[120];
    blocks got;
    uint32_t c;
    snprintf(what, sizeof what, "quantize cpu %d [%u, %u] %s", device->is_cpu, rows, columns,
             format == DITI_F16 ? "halves" : "floats");
    for (c = 0; c < 32; c++) x.data[columns + c] = 0; /* a block of nothing */
    x.data[2 * columns + 7] = format == DITI_F16 ? 65504 : 3e37f;
    x.data[3 * columns + columns - 1] = format == DITI_F16 ? INFINITY : NAN;
    if (format == DITI_F32)
        for (c = 0; c < 32; c++) x.data[4 * columns + c] = 1e-33f;
    got = quantized(device, &x, format, extra);
    if (got.bytes) check_blocks(&got, x.data, false, what);
    free(got.bytes), free(x.data);
}

static void test_quantize(diti_device *device) {
    check_quantize(device, 5, 32, DITI_F32, 0, 1);
    check_quantize(device, 77, 96, DITI_F32, 4, 1e-20f);
    check_quantize(device, 9, 1056, DITI_F16, 8, 3);
    check_quantize(device, 300, 64, DITI_F16, 0, 1000);
}

/* --- weights --- */

static blocks weight_blocks(const weight_values *w, uint32_t first, uint32_t rows) {
    diti_tensor made = diti_op_dequantize(&bench.graph, &w->weight, 0, first, rows, true, "blocks");
    blocks got = {0};
    if (run_plan()) got = read_blocks(made);
    return got;
}

static void test_weights(diti_device *device) {
    for (int t = DIT_TYPE_Q8_0; t <= DIT_TYPE_I4_GROUP; t++) {
        const dit_type type = (dit_type)t;
        const bool exact = type == DIT_TYPE_Q8_0 || type == DIT_TYPE_Q4_0 || type == DIT_TYPE_Q5_0;
        const uint32_t columns = diti_type_block(type) < 256 ? 3 * diti_type_block(type) : 512, first = 3, rows = 10;
        weight_values w;
        blocks got;
        begin(device);
        w = weight_random(type, 13, columns, 1, 1);
        got = weight_blocks(&w, first, rows);
        if (got.bytes) check_blocks(&got, w.values + (size_t)first * columns, exact, diti_type_name(type));
        end();
        free(got.bytes);
        weight_free(&w);
    }
}

/* --- products --- */

static const struct form { /* every way to compute them */
    const char *overrides, *name;
    uint32_t max_slice_us;
    uint32_t cases; /* bits of those below that are enough; a full sweep takes all */
} forms[] = {{"cpu=1,packed_dot=1", "processor", 0, 0x92},
             {"cpu=0,packed_dot=1,decode=0,cores=1", "gpu", 0, 0x26},
             {"cpu=0,packed_dot=1,decode=0,cores=1,portions=0", "broadcasts", 0, 0x4c},
             {"cpu=0,packed_dot=1,decode=0,cores=1,groups=3,storage_range=128K", "gpu, small limits", 1, 0x14},
             {"cpu=0,packed_dot=1,decode=0,cores=1,portions=0,groups=2", "broadcasts, sliced", 1, 0x14}};

/* Drivers may round the product of an fma (lavapipe does). It is at most 2^24 times a scale here, so that a block's sum
   is off by half a unit, of some hundred to ten thousand; a scale or a byte that is wrong is off by far more. */
#define UNFUSED_TOLERANCE 3e-4
static double product_tolerance(diti_element format) {
    return tolerance_of(format) > UNFUSED_TOLERANCE ? tolerance_of(format) : UNFUSED_TOLERANCE;
}

typedef struct product { /* operands; what the blocks of x and of the weight stand for */
    matrix x, bias, multiply, gate, residual;
    weight_values w;
    matrix near_x;
    float *near_w;
} product;

/* Bytes as large as they can be, in whole blocks of one sign or of both. */
static void product_extremes(const linear_case *c, product *p) {
    for (size_t i = 0; i < (size_t)c->m * c->k; i++) p->x.data[i] = random_bits() % 8 ? 3.0f : -3.0f;
    for (size_t i = 0; i < (size_t)c->n * c->k; i++) p->w.bytes[i / 32 * 34 + 2 + i % 32] = i / c->k % 3 ? 0x80 : 0x7f;
    diti_type_to_float(c->type, p->w.bytes, (uint64_t)c->n * c->k, p->w.values);
}

static float *stands_for(const blocks *b) {
    float *values = malloc((size_t)b->rows * b->columns * sizeof *values);
    for (uint32_t r = 0; r < b->rows; r++)
        for (uint32_t c = 0; c < b->columns; c++)
            values[(size_t)r * b->columns + c] = (float)block_value(b, r, c) * block_scale(b, r, c);
    return values;
}

static product product_make(diti_device *device, const linear_case *c, bool extremes) {
    diti_element act = begin(device)->activation, x_format = c->x_f32 ? DITI_F32 : act;
    product p = {0};
    blocks of_x, of_w;
    p.x = matrix_random(c->m, c->k, 1, x_format);
    p.bias = matrix_random(1, c->n, 1, DITI_F32);
    p.multiply = matrix_random(c->m, c->n, 1, act);
    p.residual = matrix_random(c->m, c->n, 2, DITI_F32);
    p.gate = matrix_random(c->rows_per_gate ? (c->m + c->rows_per_gate - 1) / c->rows_per_gate : 1, c->n, 1, DITI_F32);
    p.w = weight_random(c->type, c->n, c->k, 1, 1);
    for (uint32_t i = 0; c->m > 4 && i < c->k; i++) p.x.data[3 * c->k + i] = 0; /* a row of nothing */
    if (extremes) product_extremes(c, &p);
    end();
    begin(device);
    upload(&p.w, 1);
    of_w = weight_blocks(&p.w, 0, c->n);
    end();
    of_x = quantized(device, &p.x, x_format, 0);
    p.near_x = p.x;
    p.near_x.data = stands_for(&of_x);
    p.near_w = stands_for(&of_w);
    free(of_x.bytes), free(of_w.bytes);
    return p;
}

static void product_free(product *p) {
    weight_free(&p->w);
    free(p->x.data), free(p->near_x.data), free(p->near_w), free(p->bias.data), free(p->multiply.data);
    free(p->gate.data), free(p->residual.data);
}

/* Weights are rounded in a model's blocks, and in segments that are repeated. */
static diti_graph *begin_block(diti_device *device) {
    bench.device = device;
    bench.input_count = 0;
    diti_graph_init(&bench.graph, device);
    diti_graph_segment(&bench.graph, "step", true);
    diti_graph_scope(&bench.graph, "block", 1);
    return &bench.graph;
}

static matrix product_run(diti_device *device, const linear_case *c, product *p) {
    diti_graph *graph = begin_block(device);
    diti_element act = graph->activation;
    weight_values b = {0};
    diti_linear_desc desc = {0};
    matrix got = {0};
    diti_tensor out;
    upload(&p->w, c->parts ? c->parts : 1);
    if (c->bias) b = bias_weight(&p->bias);
    desc.bias = c->bias ? &b.weight : NULL;
    desc.activation = c->activation;
    if (c->multiply) desc.multiply = input(&p->multiply, act, c->extra, "multiply");
    if (c->gate) desc.gate = input(&p->gate, DITI_F32, c->extra, "gate");
    desc.rows_per_gate = c->rows_per_gate;
    desc.rows = c->rows;
    if (c->residual) desc.residual = input(&p->residual, DITI_F32, c->extra, "residual");
    if (c->in_place) desc.out = desc.residual;
    desc.out_f32 = c->out_f32;
    out = diti_linear(graph, input(&p->x, c->x_f32 ? DITI_F32 : act, c->extra, "x"), &p->w.weight, &desc);
    if (run_plan()) got = read_tensor(out);
    end();
    weight_free(&b);
    return got;
}

static void check_product(diti_device *device, const struct form *form, const linear_case *c, bool extremes) {
    product p = product_make(device, c, extremes);
    diti_element format = device->rung >= DITI_RUNG_FP16 && !c->out_f32 && !c->in_place ? DITI_F16 : DITI_F32;
    double *near = malloc((size_t)c->m * c->n * sizeof *near), *exact = malloc((size_t)c->m * c->n * sizeof *exact);
    matrix got = product_run(device, c, &p);
    char what[200];
    snprintf(what, sizeof what, "%s: m %u n %u k %u %s parts %u act %d%s%s%s%s%s", form->name, c->m, c->n, c->k,
             diti_type_name(c->type), c->parts, (int)c->activation, c->bias ? " bias" : "",
             c->multiply ? " multiply" : "", c->gate ? " gate" : "", c->residual ? " residual" : "",
             c->rows.of ? " rows" : "");
    reference_linear(c, &p.near_x, p.near_w, &p.bias, &p.multiply, &p.gate, &p.residual, near);
    reference_linear(c, &p.x, p.w.values, &p.bias, &p.multiply, &p.gate, &p.residual, exact);
    if (got.data) {
        const char *module = device->dot_team ? "gemm_dot_broadcast" : "gemm_dot_gpu";
        CHECK_MESSAGE(!strcmp(last_module, module), "%s: module %s", what, last_module);
        close_to(&got, near, product_tolerance(format), what);
        close_to(&got, exact, 1e-2, what); /* each factor rounded to steps of a 127th of its block's largest */
    }
    free(got.data), free(near), free(exact);
    product_free(&p);
}

static void test_products(diti_device *device, const struct form *form) {
    static const linear_case cases[] = {
        {.m = 9, .n = 4, .k = 32, .type = DIT_TYPE_Q8_0},
        {.m = 65, .n = 68, .k = 96, .type = DIT_TYPE_Q8_0, .bias = true, .x_f32 = true},
        {.m = 130,
         .n = 132,
         .k = 512,
         .type = DIT_TYPE_Q4_K,
         .parts = 3,
         .bias = true,
         .gate = true,
         .residual = true,
         .in_place = true,
         .rows_per_gate = 33,
         .extra = 4},
        {.m = 37,
         .n = 52,
         .k = 256,
         .type = DIT_TYPE_Q6_K,
         .multiply = true,
         .bias = true,
         .out_f32 = true,
         .activation = DITI_ACTIVATION_GELU_TANH},
        {.m = 36, .n = 20, .k = 64, .type = DIT_TYPE_Q5_1, .residual = true, .in_place = true, .rows = {18, 4, 12}},
        {.m = 200, .n = 36, .k = 1056, .type = DIT_TYPE_Q4_0, .residual = true, .out_f32 = true, .extra = 8},
        {.m = 11, .n = 100, .k = 384, .type = DIT_TYPE_I4_GROUP, .activation = DITI_ACTIVATION_SILU}};
    static const linear_case all = {.m = 33, .n = 44, .k = 768};
    static const linear_case large = {.m = 17, .n = 20, .k = 8192, .type = DIT_TYPE_Q8_0, .out_f32 = true};
    for (size_t i = 0; i < DITI_COUNT(cases); i++) {
        if (strstr(form->overrides, "storage_range") && cases[i].k > 600) continue; /* not even tiles fit */
        if (sweep || (form->cases >> i & 1)) check_product(device, form, &cases[i], false);
    }
    if (form->cases >> DITI_COUNT(cases) & 1) check_product(device, form, &large, true);
    for (int t = DIT_TYPE_Q8_0; sweep && !form->max_slice_us && t <= DIT_TYPE_I4_GROUP; t++) {
        linear_case c = all;
        c.type = (dit_type)t;
        check_product(device, form, &c, false);
    }
}

/* --- who gets blocks, and who shares them --- */

typedef struct counts {
    uint32_t blocks, weights, dots;
} counts;

static counts count_plan(void) {
    counts n = {0};
    for (size_t i = 0; i < bench.plan->source_count; i++) {
        const diti_dispatch *d = &bench.plan->sources[i];
        bool blocks = d->kernel == DITI_KERNEL_EXPAND && d->constants[2] == 5;
        n.weights += blocks && d->constants[1] >= DIT_TYPE_Q8_0;
        n.blocks += blocks && d->constants[1] < DIT_TYPE_Q8_0;
        n.dots += d->kernel == DITI_KERNEL_GEMM_DOT_GPU || d->kernel == DITI_KERNEL_GEMM_DOT_BROADCAST;
    }
    return n;
}

/* Layers side by side share the blocks of x, but not where something has written x in between. */
static void test_sharing(diti_device *device) {
    matrix x = matrix_random(40, 64, 1, DITI_F32), first, second, third;
    diti_graph *graph = begin_block(device);
    weight_values w = weight_random(DIT_TYPE_Q8_0, 64, 64, 1, 1);
    diti_linear_desc desc = {.out_f32 = true}, onto = {.out_f32 = true};
    diti_tensor in = input(&x, DITI_F32, 0, "x"), a, b, c;
    desc.out = a = diti_tensor_state(graph, DITI_F32, 40, 64, "first"); /* these are read behind the last op */
    diti_linear(graph, in, &w.weight, &desc);
    desc.out = b = diti_tensor_state(graph, DITI_F32, 40, 64, "second");
    diti_linear(graph, in, &w.weight, &desc);
    onto.out = onto.residual = in;
    diti_linear(graph, in, &w.weight, &onto);
    desc.out = c = diti_tensor_state(graph, DITI_F32, 40, 64, "third");
    diti_linear(graph, in, &w.weight, &desc);
    if (run_plan()) {
        counts n = count_plan();
        double *wanted = malloc(40 * 64 * sizeof *wanted);
        linear_case form = {.m = 40, .n = 64, .k = 64};
        CHECK_MESSAGE(n.blocks == 2 && n.weights == 4 && n.dots == 4, "%u, %u, %u", n.blocks, n.weights, n.dots);
        first = read_tensor(a), second = read_tensor(b), third = read_tensor(c);
        CHECK(!memcmp(first.data, second.data, 40 * 64 * sizeof(float)));
        for (size_t i = 0; i < 40 * 64; i++) x.data[i] += first.data[i];
        reference_linear(&form, &x, w.values, NULL, NULL, NULL, NULL, wanted);
        close_to(&third, wanted, 1e-2, "x that was written");
        free(first.data), free(second.data), free(third.data), free(wanted);
    }
    end();
    weight_free(&w), free(x.data);
}

static enum { WITHIN, OUTSIDE, ONCE } place; /* within a block, outside blocks, in a segment that is not repeated */
static uint32_t dots_of(diti_device *device, dit_type type, uint32_t m, uint32_t n, uint32_t k) {
    matrix x = matrix_random(m, k, 1, DITI_F32);
    diti_graph *graph = place == ONCE ? begin(device) : begin_block(device);
    weight_values w = weight_random(type, n, k, 1, 1);
    diti_linear_desc desc = {.out_f32 = true};
    uint32_t dots = 0;
    diti_graph_scope(graph, place == OUTSIDE ? NULL : "block", 1);
    diti_linear(graph, input(&x, DITI_F32, 0, "x"), &w.weight, &desc);
    if (run_plan()) dots = count_plan().dots;
    end();
    weight_free(&w), free(x.data);
    return dots;
}

static void test_choice(void) {
    diti_device *device = open_device("cpu=0,packed_dot=1", 0);
    if (!device) return;
    CHECK(dots_of(device, DIT_TYPE_Q8_0, 300, 64, 64) == 1);
    CHECK(dots_of(device, DIT_TYPE_Q8_0, 40, 64, 64) == 0); /* decoded by the product */
    CHECK(dots_of(device, DIT_TYPE_Q5_0, 40, 64, 64) == 1); /* no product decodes this type */
    CHECK(dots_of(device, DIT_TYPE_Q5_0, 8, 64, 64) == 0);
    CHECK(dots_of(device, DIT_TYPE_Q8_0, 300, 66, 64) == 0); /* no whole quads of outputs */
    place = OUTSIDE;
    CHECK(dots_of(device, DIT_TYPE_Q8_0, 300, 64, 64) == 0);
    place = ONCE;
    CHECK(dots_of(device, DIT_TYPE_Q8_0, 300, 64, 64) == 0);
    place = WITHIN;
    CHECK(dots_of(device, DIT_TYPE_F16, 300, 64, 64) == 0 && dots_of(device, DIT_TYPE_F8_E4M3, 300, 64, 64) == 0);
    diti_device_close(device);
    device = open_device("cpu=0,dot=1", 0); /* the base rung is exact */
    if (device) CHECK(device->rung > DITI_RUNG_BASE || dots_of(device, DIT_TYPE_Q8_0, 300, 64, 64) == 0);
    diti_device_close(device);
}

/* The class proves itself when a context is made. */
static void test_class(const char *overrides, bool wanted) {
    dit_context_desc desc = {0};
    dit_context *context = NULL;
    dit_error err = {0};
    desc.overrides = overrides;
    if (!CHECK_MESSAGE(dit_context_create(&desc, &context, &err) == DIT_OK, "%s", err.message)) return;
    CHECK_MESSAGE(diti_class_is_used(context->device, DITI_CLASS_PACKED_DOT) == wanted, "%s", overrides);
    CHECK_MESSAGE(wanted == !strstr(context->device->info.rung, "no packed_dot"), "%s: rung %s", overrides,
                  context->device->info.rung);
    dit_context_destroy(context);
}

int main(void) {
    dit_error err = {0};
    diti_device *device;
    bool exists;
    sweep = test_sweeps();
    test_vulkan_begin();
    CHECK(diti_env_init(&env, NULL, NULL, &err) >= 0);
    device = open_device("packed_dot=1", 0);
    exists = device && device->packed_dot;
    diti_device_close(device);
    if (!exists) printf("skipped: no integer dot product on this device\n");
    for (size_t i = 0; i < DITI_COUNT(forms) && exists; i++) {
        device = open_device(forms[i].overrides, forms[i].max_slice_us);
        if (!device) continue;
        if (i < (sweep ? 2 : 1)) {
            test_quantize(device);
            test_weights(device);
            test_sharing(device);
        }
        device->rung = i % 2 ? DITI_RUNG_FP16 : DITI_RUNG_BASE;
        test_products(device, &forms[i]);
        diti_device_close(device);
    }
    if (exists) {
        test_choice();
        test_class("packed_dot=1", true);
        test_class("packed_dot=1,selftest_fail=packed_dot", false);
    }
    test_vulkan_end();
    return TEST_END("packed_dot");
}
