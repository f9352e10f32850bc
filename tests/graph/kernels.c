/* Kernels that multiply matrices, against references computed in double precision: products, convolutions, attention
   and packed weights; odd sizes, edge values, every operand of every epilogue, every stored type, slices. Both forms of
   a kernel (for processors, for GPUs) run on every driver, and each rung on drivers that have it. Other kernels are in
   kernels_rows.c.
   test-compiler: quick   test-runs: lavapipe swiftshader sanitize newest */
#include "kernel_bench.h"
#include "model/dit.c"
#include "model_files.h"

/* --- products --- */

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

/* --- convolution --- */

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

/* --- products that are split along K --- */

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
    test_conv(device);
    diti_device_close(device);
}

/* --- the rungs above fp16, whose kernels take what is aligned --- */

#define UNIT_TOLERANCE 2e-3 /* short sums in halves, and F32 activations that are rounded to halves */

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

static void test_drivers(void) {
    bool units = test_unit("coop", "gemm_coop"), halves = false;
    if (units && sweep) test_unit("coop2", "gemm_coop");
    if (units) test_decoded("rung=coop,cpu=0,portions=0", "gemm_coop", false, !sweep);
    if (units && sweep) test_decoded("rung=coop,cpu=0,portions=1", "gemm_coop", false, false);
    if (units) test_decoded_parts("rung=coop,cpu=0,portions=0");
    if (units) test_pairs();
    if (units) test_halves_alone();
    if (units) test_tall();
    if (!units || sweep) halves = test_unit("half", "gemm_half"); /* SwiftShader has none */
    if (sweep && halves) test_decoded("rung=half,cpu=0", "gemm_half", false, false);
    if (halves && test_first_driver()) /* these tiles compile in half of the time */
        test_decoded("rung=half,cpu=0,portions=1", "gemm_half", false, !sweep);
    if (units && !sweep) return; /* all else has been seen on other drivers */
    thorough = test_first_driver();
    test_device("cpu=1", DITI_RUNG_BASE);
    if (test_quick_way("sanitize")) return; /* the host's part has been seen */
    if (thorough) test_split_k(DITI_RUNG_BASE);
    thorough = sweep;
    if (sweep || !test_first_driver()) test_device("cpu=1", DITI_RUNG_FP16); /* in make test SwiftShader has it */
    if (sweep) test_device("cpu=0", DITI_RUNG_BASE);
    test_device("cpu=0", DITI_RUNG_FP16);
    if (test_first_driver()) test_decoded("rung=base,cpu=0", "gemm_gpu", true, false);
    if (test_first_driver()) test_decoded_parts("rung=base,cpu=0");
    if (sweep || !test_first_driver()) test_wide_results("gemm_gpu", "rung=base,cpu=0,portions=2");
    test_narrowed();
    test_narrowed_smooth();
    test_wide_model();
    if (halves) test_broadcast();
    test_clip_slices(test_first_driver() ? "1" : "0");
    if (sweep) test_clip_slices("0");
    if (test_first_driver()) test_broadcast_attention();
}

int main(void) {
    dit_error err = {0};
    sweep = test_sweeps();
    test_vulkan_begin();
    CHECK(diti_env_init(&env, NULL, NULL, &err) >= 0);
    test_drivers();
    test_vulkan_end();
    return TEST_END("kernels");
}
