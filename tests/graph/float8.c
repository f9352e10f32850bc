/* Products of 8-bit floats: rows rounded to E4M3 with a scale, and products of these and of F8 weights as they are
   stored, against double precision: odd sizes, rows of nothing, all operands of the epilogue, weights in parts, layers
   side by side. No driver that can be had runs matrices of 8-bit floats, so that the override float8=2 puts halves in
   their place, which hold every value of them; tools/feigned.sh compiles the real ones.
   test-runs: lavapipe sanitize, in test-all newest swiftshader */
#include "kernel_bench.h"

static float row_scale(const unsigned char *row, uint32_t columns) {
    float scale;
    memcpy(&scale, row + diti_i8_pitch(columns) - 16, sizeof scale);
    return scale;
}

static unsigned char *read_bytes(diti_tensor tensor) {
    diti_tensor_info *info = &bench.plan->tensors[tensor];
    uint32_t columns = info->columns;
    unsigned char *bytes = malloc((size_t)info->rows * info->pitch);
    dit_error err = {0};
    info->columns = info->pitch;
    CHECK_MESSAGE(diti_plan_read(bench.plan, tensor, bytes, (size_t)info->rows * info->pitch, &err) >= 0, "%s",
                  err.message);
    info->columns = columns;
    return bytes;
}

/* Half a step of E4M3 at a magnitude, a hair wider for the driver's division. */
static double half_step(double value) {
    int exponent = -6;
    while (exponent < 8 && fabs(value) >= ldexp(1, exponent + 1)) exponent++;
    return ldexp(0.5, exponent - 3) * (1 + 1e-4);
}

/* Every value is the nearest of E4M3, under a scale that makes the largest of its row 448. */
static void check_rows(diti_device *device, uint32_t rows, uint32_t columns, float size, uint32_t extra) {
    diti_graph *graph = begin(device);
    diti_element format = extra ? graph->activation : DITI_F32;
    matrix x = matrix_random(rows, columns, size, format);
    uint32_t r, c, wrong = 0, padding = 0, pitch = diti_i8_pitch(columns);
    diti_tensor q;
    for (c = 0; c < columns; c++) {
        x.data[c] = format == DITI_F32 ? ldexpf(x.data[c], -(int)(c % 24)) : x.data[c]; /* subnormals, too */
        x.data[columns + c] = 0;
    }
    x.data[2 * columns] = NAN;
    q = diti_quantize_e4m3(graph, input(&x, format, extra, "x"), "quantize");
    if (run_plan()) {
        unsigned char *got = read_bytes(q);
        for (r = 0; r < rows; r++) {
            const unsigned char *row = got + (size_t)r * pitch;
            double most = 0, scale = (double)row_scale(row, columns);
            for (c = 0; c < columns; c++) most = fmax(most, fabs((double)at(&x, r, c)));
            if (r == 2) {
                CHECK(isnan(scale));
                continue;
            }
            if (!(fabs(scale - most / 448) <= most / 448 * 3e-6)) wrong++;
            for (c = 0; c < columns; c++) {
                double v = (double)at(&x, r, c), step = (double)diti_e4m3_to_float(row[c]);
                if (scale == 0 ? row[c] != 0 : !(fabs(step - v / scale) <= half_step(v / scale))) wrong++;
            }
            for (c = columns; c < pitch - 16; c++) padding += row[c] != 0;
        }
        CHECK_MESSAGE(!wrong && !padding, "[%u, %u] cpu %d: %u values are wrong, %u bytes of padding are not 0", rows,
                      columns, device->is_cpu, wrong, padding);
        free(got);
    }
    end();
    free(x.data);
}

static void test_rows(const char *overrides) {
    static const uint32_t columns[] = {1, 4, 5, 16, 17, 100, 1152, 2052};
    dit_context_desc desc = {.overrides = overrides};
    diti_device *device = NULL;
    dit_error err = {0};
    size_t i;
    if (diti_device_open(&desc, &env, &device, &err) < 0) {
        CHECK_MESSAGE(strstr(err.message, "has not what rung"), "%s", err.message);
        return;
    }
    for (i = 0; i < DITI_COUNT(columns); i++)
        check_rows(device, 3 + (uint32_t)i % 4, columns[i], i % 2 ? 1e-3f : 30, 4 * (i & 1));
    diti_device_close(device);
}

/* The matrix that a product of 8-bit floats takes in place of x. */
static matrix rounded(const matrix *x) {
    matrix out = matrix_new(x->rows, x->columns);
    uint32_t r, c;
    for (r = 0; r < x->rows; r++) {
        float most = 0;
        for (c = 0; c < x->columns; c++) most = fmaxf(most, fabsf(at(x, r, c)));
        for (c = 0; c < x->columns && most > 0; c++)
            out.data[(size_t)r * x->columns + c] =
                diti_e4m3_to_float(diti_float_to_e4m3(at(x, r, c) * (448.0f / most))) * (most / 448.0f);
    }
    return out;
}

typedef struct product_case {
    uint32_t m, n, k, parts, layers; /* layers side by side, of n outputs each; 0: one */
    dit_type type;
    bool whole, expanded; /* the epilogue with all operands; the weight is expanded, and x is not rounded */
    diti_rows rows;
} product_case;

static void check_product(diti_device *device, const product_case *c) {
    linear_case form = {.m = c->m,
                        .n = c->n,
                        .k = c->k,
                        .bias = true,
                        .multiply = c->whole,
                        .gate = c->whole,
                        .residual = c->whole,
                        .activation = c->whole ? DITI_ACTIVATION_GELU_TANH : 0,
                        .rows = c->rows};
    diti_graph *graph = begin(device);
    uint32_t count = c->layers ? c->layers : 1, i, r, n;
    matrix x = matrix_random(c->m, c->k, 2, DITI_F16), near = c->expanded ? x : rounded(&x),
           bias = matrix_random(1, c->n, 1, DITI_F32), multiply = matrix_random(c->m, c->n, 1, DITI_F16),
           gate = matrix_random(1, c->n, 1, DITI_F32), residual = matrix_random(c->m, c->n, 2, DITI_F32), got = {0};
    diti_fused_linear fused = {0};
    diti_linear_desc desc = {0};
    weight_values w[3] = {0}, b = bias_weight(&bias);
    double *wanted = malloc((size_t)c->m * c->n * count * sizeof(double)), *one = malloc((size_t)c->m * c->n * 8);
    char what[120];
    diti_tensor out;
    fused.count = count;
    for (i = 0; i < count; i++) {
        w[i] = weight_random(c->type, c->n, c->k, 1, c->parts ? c->parts : 1);
        fused.layers[i].weight = w[i].weight;
        fused.layers[i].bias = b.weight;
    }
    desc.bias = &b.weight;
    desc.activation = form.activation;
    desc.rows = c->rows;
    if (c->whole) {
        desc.multiply = input(&multiply, DITI_F16, 0, "multiply");
        desc.gate = input(&gate, DITI_F32, 0, "gate");
        desc.residual = input(&residual, DITI_F32, 0, "residual");
    }
    desc.out_f32 = true;
    if (c->rows.of) desc.out = desc.residual;
    out = count > 1 ? diti_linear_fused(graph, input(&x, DITI_F16, 0, "x"), &fused, &desc)
                    : diti_linear(graph, input(&x, DITI_F16, 0, "x"), &w[0].weight, &desc);
    for (i = 0; i < count; i++) {
        reference_linear(&form, &near, w[i].values, &bias, &multiply, &gate, &residual, one);
        for (r = 0; r < c->m; r++)
            for (n = 0; n < c->n; n++) wanted[((size_t)r * count + i) * c->n + n] = one[(size_t)r * c->n + n];
    }
    snprintf(what, sizeof what, "%s m %u n %u k %u parts %u layers %u%s%s", diti_type_name(c->type), c->m, c->n, c->k,
             c->parts, count, c->whole ? " whole" : "", c->rows.of ? " rows" : "");
    if (run_plan()) {
        uint32_t quantized = 0;
        for (i = 0; i < bench.plan->source_count; i++) quantized += bench.plan->sources[i].kernel == DITI_KERNEL_NORM;
        CHECK_MESSAGE(c->expanded ? !quantized && last_expansions : quantized == 1 && !last_expansions,
                      "%s: %u roundings, %d expansions", what, quantized, last_expansions);
        got = read_tensor(out);
        close_to(&got, wanted, 1e-3, what); /* a value between two steps may go to either, as division rounds */
        free(got.data);
    }
    end();
    for (i = 0; i < count; i++) weight_free(&w[i]);
    weight_free(&b);
    if (!c->expanded) free(near.data);
    free(x.data), free(bias.data), free(multiply.data), free(gate.data), free(residual.data);
    free(wanted), free(one);
}

static void test_products(diti_device *device) {
    static const product_case cases[] = {
        {37, 52, 48, 1, 0, DIT_TYPE_F8_E4M3, false, false, {0, 0, 0}},
        {37, 52, 208, 2, 0, DIT_TYPE_F8_E5M2, true, false, {0, 0, 0}},
        {130, 68, 1040, 3, 0, DIT_TYPE_F8_E4M3, true, false, {0, 0, 0}},
        {33, 20, 64, 1, 3, DIT_TYPE_F8_E4M3, false, false, {0, 0, 0}},
        {36, 20, 64, 2, 0, DIT_TYPE_F8_E4M3, true, false, {18, 4, 12}},
        {33, 20, 40, 1, 0, DIT_TYPE_F8_E4M3, false, true, {0, 0, 0}}, /* rows of 40 bytes */
        {33, 22, 64, 1, 0, DIT_TYPE_F8_E5M2, false, true, {0, 0, 0}}, /* no whole quads of outputs */
        {8, 20, 64, 1, 0, DIT_TYPE_F8_E4M3, false, true, {0, 0, 0}},  /* few rows */
    };
    size_t i;
    for (i = 0; i < DITI_COUNT(cases); i++) check_product(device, &cases[i]);
}

/* The class proves itself when a context is made, and without it weights are expanded. */
static void test_class(const char *overrides, uint32_t wanted, const char *rung) {
    dit_context_desc desc = {0};
    dit_context *context = NULL;
    dit_error err = {0};
    desc.overrides = overrides;
    if (!CHECK_MESSAGE(dit_context_create(&desc, &context, &err) == DIT_OK, "%s", err.message)) return;
    CHECK_MESSAGE(context->device->coop_float8 == wanted && !strcmp(context->device->info.rung, rung),
                  "%s: %u, rung %s", overrides, context->device->coop_float8, context->device->info.rung);
    dit_context_destroy(context);
}

int main(void) {
    dit_error err = {0};
    dit_context_desc desc = {0};
    diti_device *device = NULL;
    sweep = test_sweeps();
    test_vulkan_begin();
    CHECK(diti_env_init(&env, NULL, NULL, &err) >= 0);
    test_rows("rung=fp16,cpu=1");
    test_rows("rung=fp16,cpu=0");
    desc.overrides = "rung=coop,float8=2";
    if (diti_device_open(&desc, &env, &device, &err) >= 0) {
        CHECK(device->coop_float8 == 2 && diti_class_is_used(device, DITI_CLASS_COOP_FLOAT8));
        test_products(device);
        diti_device_close(device);
        test_class("rung=coop,float8=2", 2, "coop");
        test_class("rung=coop,float8=1", 0, "coop"); /* this driver has no such matrices */
        test_class("rung=coop,float8=2,selftest_fail=coop_float8", 0, "coop, no coop_float8");
    }
    test_class("rung=base,float8=2", 0, "base");
    test_vulkan_end();
    return TEST_END("float8");
}
