/* W8A8: quantizing rows, their rotation, and the products of int8 rows, against whole numbers and double precision: odd
   sizes, extremes, rows of nothing, every operand of the epilogue; equal bytes from every slicing and, but for what a
   compiler may fuse in the epilogue, from every kernel.
   test-compiler: quick   test-runs: lavapipe sanitize, in test-all newest discrete swiftshader races */
#include "kernel_bench.h"

/* --- int8 rows on the host --- */

typedef struct rows_i8 {
    uint32_t rows, columns;
    unsigned char *bytes; /* as the device holds them */
    bool four;            /* bit: weights; then values are sixteen times what they stand for */
} rows_i8;

static uint32_t rows_pitch(const rows_i8 *m) {
    return diti_i8_pitch(diti_i8_bytes(m->four ? DIT_TYPE_I4_ROW_ROTATED : DIT_TYPE_I8_ROW, m->columns));
}

static float row_scale(const rows_i8 *m, uint32_t row) {
    float scale;
    memcpy(&scale, m->bytes + (size_t)(row + 1) * rows_pitch(m) - 16, sizeof scale);
    return scale;
}
static int row_value(const rows_i8 *m, uint32_t row, uint32_t column) {
    if (m->four) { /* column 4 of eight stands above column 0 */
        uint32_t word = 0;
        memcpy(&word, m->bytes + (size_t)row * rows_pitch(m) + column / 8 * 4, 4);
        return 16 * ((int)((word >> (column % 4 * 8 + (column & 4)) & 15) ^ 8) - 8);
    }
    return (int8_t)m->bytes[(size_t)row * diti_i8_pitch(m->columns) + column];
}

static rows_i8 rows_new(uint32_t rows, uint32_t columns) {
    rows_i8 m = {rows, columns, calloc(rows, diti_i8_pitch(columns)), false};
    return m;
}

static rows_i8 rows_quantized(const matrix *values, bool rotated) {
    rows_i8 m = rows_new(values->rows, values->columns);
    uint32_t pitch = diti_i8_pitch(m.columns);
    float *row = malloc(m.columns * sizeof(float));
    for (uint32_t r = 0; r < m.rows; r++) {
        float scale;
        memcpy(row, values->data + (size_t)r * m.columns, m.columns * sizeof(float));
        if (rotated) diti_rotate_row(row, m.columns);
        CHECK(diti_quantize_row(row, m.columns, (int8_t *)m.bytes + (size_t)r * pitch, &scale));
        memcpy(m.bytes + (size_t)(r + 1) * pitch - 16, &scale, sizeof scale);
    }
    free(row);
    return m;
}

/* Steps of amax / 7 after the rotation, whole numbers written as the device has them. */
static rows_i8 rows_quantized_4(const matrix *values) {
    rows_i8 m = rows_new(values->rows, values->columns);
    float *row = malloc(m.columns * sizeof(float)), most = 0;
    m.four = true;
    for (uint32_t r = 0; r < m.rows; r++) {
        unsigned char *out = m.bytes + (size_t)r * rows_pitch(&m);
        float scale;
        memcpy(row, values->data + (size_t)r * m.columns, m.columns * sizeof(float));
        diti_rotate_row(row, m.columns);
        CHECK(diti_quantize_row_4(row, m.columns, &scale));
        for (uint32_t c = 0; c < m.columns; c++) {
            most = fmaxf(most, fabsf(row[c]));
            out[c / 8 * 4 + c % 4] |= (unsigned char)(((int)row[c] & 15) << (c & 4));
        }
        scale /= 16;
        memcpy(m.bytes + (size_t)(r + 1) * rows_pitch(&m) - 16, &scale, sizeof scale);
    }
    CHECK(most == 7);
    free(row);
    return m;
}

/* All bytes of an I8 tensor, scales and padding too. */
static rows_i8 read_rows(diti_tensor tensor) {
    diti_tensor_info *info = &bench.plan->tensors[tensor];
    rows_i8 m = rows_new(info->rows, info->columns);
    dit_error err = {0};
    info->columns = info->pitch;
    CHECK_MESSAGE(diti_plan_read(bench.plan, tensor, m.bytes, (size_t)info->rows * info->pitch, &err) >= 0, "%s",
                  err.message);
    info->columns = m.columns;
    return m;
}

static void rows_upload(weight_values *w, const rows_i8 *m, bool rotated, uint32_t parts) {
    size_t pitch = rows_pitch(m);
    uint32_t first = 0;
    dit_error err = {0};
    memset(w, 0, sizeof *w);
    w->weight.name = "int8 weight";
    w->weight.type = m->four ? DIT_TYPE_I4_ROW_ROTATED : rotated ? DIT_TYPE_I8_ROW_ROTATED : DIT_TYPE_I8_ROW;
    w->weight.rows = m->rows;
    w->weight.columns = m->columns;
    w->weight.kernel = 1;
    w->weight.part_count = parts;
    for (uint32_t p = 0; p < parts; p++) {
        diti_weight_part *part = &w->weight.parts[p];
        diti_weight_block *block = &bench.blocks[bench.block_count++];
        uint32_t rows = p + 1 == parts ? m->rows - first : (m->rows / parts + 3) / 4 * 4;
        part->first_row = first;
        part->rows = rows;
        part->offset = 256;
        part->block = block;
        CHECK_MESSAGE(diti_buffer_create(bench.device, 256 + rows * pitch, DITI_MEMORY_DEVICE, "weight", &block->buffer,
                                         &err) >= 0,
                      "%s", err.message);
        CHECK(diti_buffer_write(bench.device, &block->buffer, 256, m->bytes + first * pitch, rows * pitch, &err) >= 0);
        first += rows;
    }
}

/* --- rotation and quantization on the host --- */

static double hadamard(uint32_t row, uint32_t column) {
    double sign = 1;
    for (uint32_t digit = 0; digit < 4; digit++, row /= 4, column /= 4)
        if (row % 4 + column % 4 == 3) sign = -sign;
    return sign / 16;
}

static void rotate_double(const float *row, uint32_t columns, double *out) {
    for (uint32_t c = 0; c < columns; c++) {
        out[c] = 0;
        for (uint32_t k = 0; k < 256; k++) out[c] += hadamard(c % 256, k) * row[c / 256 * 256 + k];
    }
}

static void test_host(void) {
    matrix m = matrix_random(2, 512, 3, DITI_F32);
    double *wanted = malloc(512 * sizeof(double)), squares = 0;
    float row[512], scale, ties[6] = {-127, 0.5f, 1.5f, 2.5f, -0.5f, -3.5f}, back = m.data[7];
    int8_t bytes[512];
    rotate_double(m.data, 512, wanted);
    memcpy(row, m.data, sizeof row);
    diti_rotate_row(row, 512);
    for (int i = 0; i < 512; i++) CHECK(fabs(row[i] - wanted[i]) < 2e-6);
    diti_rotate_row(row, 512);
    for (int i = 0; i < 512; i++) CHECK(fabsf(row[i] - m.data[i]) < 4e-6f); /* its own inverse */
    for (int i = 0; i < 512; i++) row[i] = 1;
    diti_rotate_row(row, 512); /* one value everywhere stays so: no column of H collects it */
    for (int i = 0; i < 512; i++) CHECK(row[i] == 1);
    CHECK(diti_quantize_row(ties, 6, bytes, &scale) && scale == 1);
    CHECK(bytes[0] == -127 && bytes[1] == 0 && bytes[2] == 2 && bytes[3] == 2 && bytes[4] == 0 && bytes[5] == -4);
    CHECK(diti_quantize_row(m.data, 512, bytes, &scale));
    for (int i = 0; i < 512; i++) squares += pow(bytes[i] * (double)scale - m.data[i], 2);
    CHECK(sqrt(squares / 512) < scale * 0.3); /* a step's spread: 1 / sqrt(12) */
    memset(row, 0, sizeof row);
    CHECK(diti_quantize_row(row, 512, bytes, &scale) && scale == 0 && bytes[0] == 0);
    row[3] = 1e-38f;
    CHECK(diti_quantize_row(row, 512, bytes, &scale) && scale == 0 && bytes[3] == 0);
    row[3] = INFINITY;
    CHECK(!diti_quantize_row(row, 512, bytes, &scale));
    row[3] = NAN;
    CHECK(!diti_quantize_row(row, 512, bytes, &scale));
    CHECK(diti_i8_type(DIT_TYPE_I8_ROW_ROTATED, 1152) == DIT_TYPE_I8_ROW);
    CHECK(diti_i8_type(DIT_TYPE_I8_ROW_ROTATED, 1024) == DIT_TYPE_I8_ROW_ROTATED);
    CHECK(back == m.data[7]);
    free(wanted), free(m.data);
}

/* --- the quantizing pass --- */

/* Every byte within half a step of the exact value (plus what the float before it may be off), the scale amax / 127. */
static void check_rows(const rows_i8 *got, const double *exact, const char *what) {
    uint32_t pitch = diti_i8_pitch(got->columns), wrong = 0, padding = 0;
    for (uint32_t r = 0; r < got->rows; r++) {
        const double *x = exact + (size_t)r * got->columns;
        double most = 0, scale = row_scale(got, r);
        for (uint32_t c = 0; c < got->columns; c++) most = fmax(most, fabs(x[c]));
        if (!(fabs(scale - most / 127) <= most / 127 * 3e-6)) wrong++;
        for (uint32_t c = 0; c < got->columns; c++) {
            double v = row_value(got, r, c);
            if (scale == 0 ? v != 0 : !(fabs(v - x[c] / scale) <= 0.5 + 2e-3)) wrong++;
        }
        for (uint32_t c = got->columns; c < pitch - 16; c++) padding += got->bytes[(size_t)r * pitch + c] != 0;
    }
    CHECK_MESSAGE(!wrong && !padding, "%s: %u values and scales are wrong, %u bytes of padding are not 0", what, wrong,
                  padding);
}

static void check_quantize(diti_device *device, uint32_t rows, uint32_t columns, bool rotated, uint32_t extra,
                           float scale) {
    diti_graph *graph = begin(device);
    diti_element format = extra ? graph->activation : DITI_F32;
    matrix x = matrix_random(rows, columns, scale, format);
    double *exact = malloc((size_t)rows * columns * sizeof(double));
    char what[120];
    diti_tensor q;
    snprintf(what, sizeof what, "quantize cpu %d rung %s [%u, %u]%s", device->is_cpu, diti_rung_name(device->rung),
             rows, columns, rotated ? " rotated" : "");
    for (uint32_t c = 0; rows > 2 && c < columns; c++) x.data[columns + c] = 0; /* a row of nothing */
    if (rows > 3) x.data[2 * columns] = 256 * x.data[3 * columns];              /* an outlier */
    for (uint32_t r = 0; r < rows; r++) {
        const float *row = x.data + (size_t)r * columns;
        if (rotated) rotate_double(row, columns, exact + (size_t)r * columns);
        for (uint32_t c = 0; !rotated && c < columns; c++) exact[(size_t)r * columns + c] = row[c];
    }
    q = diti_quantize(graph, input(&x, format, extra, "x"), rotated, "quantize");
    if (run_plan()) {
        rows_i8 got = read_rows(q);
        check_rows(&got, exact, what);
        free(got.bytes);
    }
    end();
    free(exact), free(x.data);
}

/* Whole numbers and a largest of 127 make steps of exactly 1: ties go to the even neighbour. */
static void check_ties(diti_device *device) {
    matrix x = matrix_new(3, 40);
    diti_graph *graph = begin(device);
    diti_tensor q;
    for (int i = 0; i < 40; i++) x.data[i] = (float)i * 0.5f - 9.75f + 0.25f, x.data[80 + i] = (float)i;
    x.data[39] = -127;
    x.data[80 + 5] = NAN; /* lost in no row of bytes */
    x.data[40 + 5] = -INFINITY;
    q = diti_quantize(graph, input(&x, DITI_F32, 0, "x"), false, "quantize");
    if (run_plan()) {
        rows_i8 got = read_rows(q);
        CHECK(row_scale(&got, 0) == 1);
        for (uint32_t i = 0; i < 40; i++) CHECK(row_value(&got, 0, i) == (int)nearbyint(x.data[i]));
        for (uint32_t r = 1; r < 3; r++) CHECK(!(row_scale(&got, r) - row_scale(&got, r) == 0));
        free(got.bytes);
    }
    end();
    free(x.data);
}

static rows_i8 norm_quantized(diti_device *device, const matrix *x, const matrix *table, bool rotated, bool fused) {
    diti_weight reader = {0};
    diti_graph *graph = begin(device);
    diti_norm_desc desc = {0};
    diti_tensor in = input(x, DITI_F32, 0, "x"), tables = input(table, DITI_F32, 0, "tables"), out;
    rows_i8 got = {0};
    desc.eps = 1e-6f;
    desc.scale = diti_tensor_view(graph, tables, 0, 1, 0, x->columns);
    desc.shift = diti_tensor_view(graph, tables, 1, 1, 0, x->columns);
    desc.out_f32 = true;
    reader.type = rotated ? DIT_TYPE_I8_ROW_ROTATED : DIT_TYPE_I8_ROW;
    if (fused) desc.reader = &reader;
    out = diti_norm(graph, in, &desc);
    if (!fused) out = diti_quantize(graph, out, rotated, "quantize");
    if (run_plan()) got = read_rows(out);
    end();
    return got;
}

/* Quantizing inside a norm gives the bytes of quantizing behind it, but for values that lie on a boundary between two
   steps. */
static void check_norm_quantize(diti_device *device, uint32_t rows, uint32_t columns, bool rotated) {
    matrix x = matrix_random(rows, columns, 5, DITI_F32), table = matrix_random(2, columns, 1, DITI_F32);
    rows_i8 a, b;
    uint32_t apart = 0;
    for (uint32_t i = 0; i < rows * columns; i++) x.data[i] += 20;
    a = norm_quantized(device, &x, &table, rotated, true);
    b = norm_quantized(device, &x, &table, rotated, false);
    for (uint32_t r = 0; r < rows && CHECK(a.bytes && b.bytes); r++) {
        CHECK(fabsf(row_scale(&a, r) - row_scale(&b, r)) <= 1e-6f * row_scale(&b, r));
        for (uint32_t c = 0; c < columns; c++) {
            int difference = abs(row_value(&a, r, c) - row_value(&b, r, c));
            CHECK(difference <= 1);
            apart += difference != 0;
        }
    }
    CHECK_MESSAGE(apart * 1000 <= rows * columns, "%u of %u bytes differ", apart, rows * columns);
    free(a.bytes), free(b.bytes), free(x.data), free(table.data);
}

static void test_quantize(diti_device *device) {
    static const uint32_t columns[] = {1, 3, 4, 5, 16, 17, 63, 64, 65, 100, 1152, 2052};
    for (size_t i = 0; i < DITI_COUNT(columns); i++)
        check_quantize(device, 5 + (uint32_t)i % 3 * 8, columns[i], false, 4 * (i & 1), i % 2 ? 1e-3f : 30);
    check_quantize(device, 9, 256, true, 0, 1);
    check_quantize(device, 3, 512, true, 4, 1);
    check_quantize(device, 6, 1280, true, 0, 100);
    check_quantize(device, 4, 10240, true, 0, 1); /* more than the lanes of a GPU's workgroup hold at a time */
    check_ties(device);
    check_norm_quantize(device, 7, 130, false);
    check_norm_quantize(device, 7, 512, true);
}

/* --- products --- */

typedef struct product_case {
    uint32_t m, n, k, parts, extra, rows_per_gate;
    bool rotated, bias, multiply, gate, residual, in_place, extremes, sliced;
    bool four, four_activations;
    diti_activation activation;
} product_case;

typedef struct product { /* the operands and the result */
    matrix x, bias, multiply, gate, residual, out;
    rows_i8 weight, activations;
} product;

static void product_free(product *p) {
    free(p->x.data), free(p->bias.data), free(p->multiply.data), free(p->gate.data), free(p->residual.data);
    free(p->out.data), free(p->weight.bytes), free(p->activations.bytes);
}

static product product_make(const product_case *c) {
    product p = {0};
    matrix w = matrix_random(c->n, c->k, 0.1f, DITI_F32);
    uint32_t gates = c->rows_per_gate ? (c->m + c->rows_per_gate - 1) / c->rows_per_gate : 1;
    p.x = matrix_random(c->m, c->k, 2, DITI_F32);
    for (uint32_t i = 0; c->extremes && i < c->m * c->k; i++) p.x.data[i] = random_bits() % 8 ? 3.0f : -3.0f;
    for (uint32_t i = 0; c->m > 4 && i < c->k; i++) p.x.data[3 * c->k + i] = 0; /* a row of nothing */
    p.weight = c->four ? rows_quantized_4(&w) : rows_quantized(&w, c->rotated);
    if (c->extremes && c->four) {
        for (uint32_t r = 0; r < c->n; r++)
            memset(p.weight.bytes + (size_t)r * rows_pitch(&p.weight), r % 3 ? 0x88 : 0x77, c->k / 2);
    } else if (c->extremes) {
        for (uint32_t r = 0; r < c->n; r++)
            memset(p.weight.bytes + (size_t)r * diti_i8_pitch(c->k), r % 3 ? -128 : 127, c->k);
    }
    p.bias = matrix_random(1, c->n, 1, DITI_F32);
    p.multiply = matrix_random(c->m, c->n, 1, DITI_F32);
    p.gate = matrix_random(gates, c->n, 1, DITI_F32);
    p.residual = matrix_random(c->m, c->n, 2, DITI_F32);
    free(w.data);
    return p;
}

static rows_i8 quantized(diti_device *device, const matrix *x, const product_case *c) {
    rows_i8 got = {0};
    diti_graph *graph = begin(device);
    diti_tensor q = diti_quantize(graph, input(x, DITI_F32, c->extra, "x"), c->rotated, "quantize");
    if (run_plan()) got = read_rows(q);
    end();
    return got;
}

static matrix product_run(diti_device *device, const product_case *c, const product *p) {
    diti_graph *graph = begin(device);
    weight_values w, b = {0};
    diti_linear_desc desc = {0};
    matrix got = {0};
    diti_tensor out;
    rows_upload(&w, &p->weight, c->rotated, c->parts ? c->parts : 1);
    if (c->bias) b = bias_weight(&p->bias);
    desc.bias = c->bias ? &b.weight : NULL;
    desc.activation = c->activation;
    if (c->multiply) desc.multiply = input(&p->multiply, DITI_F32, c->extra, "multiply");
    if (c->gate) desc.gate = input(&p->gate, DITI_F32, c->extra, "gate");
    desc.rows_per_gate = c->rows_per_gate;
    if (c->residual) desc.residual = input(&p->residual, DITI_F32, c->extra, "residual");
    if (c->in_place) desc.out = desc.residual;
    desc.out_f32 = true;
    out = diti_linear(graph, input(&p->x, DITI_F32, c->extra, "x"), &w.weight, &desc);
    if (run_plan()) got = read_tensor(out);
    end();
    weight_free(&b);
    return got;
}

/* A number of the reference, and how far two kernels may be from each other there. Their sums are the same whole
   numbers, and products alone are rounded in one way. Where a product meets a sum, a compiler may fuse both in one
   kernel and not in another: one of them then leaves a rounding out, and from there on they round other numbers. */
typedef struct apart {
    double value, off;
} apart;
#define HALF_UNIT (1.0001 / (1 << 24)) /* of 1; the rest is for what roundings do to later ones */

static void add_to(apart *a, double addend) {
    a->off += HALF_UNIT * fabs(a->value);
    a->value += addend;
    a->off += 2 * HALF_UNIT * fabs(a->value);
}

static void multiply_with(apart *a, double factor) {
    a->value *= factor;
    if (a->off > 0) a->off = a->off * fabs(factor) + 2 * HALF_UNIT * fabs(a->value);
}

/* GELU is nowhere steeper than 1.13, and both kernels round five times on its way. */
static void activate_in(apart *a, diti_activation activation) {
    if (activation == DITI_ACTIVATION_NONE) return;
    a->off = 1.13 * a->off + 10 * HALF_UNIT * fabs(a->value);
    a->value = activated(activation, a->value);
}

/* The reference: sums in whole numbers, the rest in double precision. */
static apart *product_reference(const product_case *c, const product *p, const rows_i8 *q) {
    apart *out = calloc((size_t)c->m * c->n, sizeof *out), *v = out;
    for (uint32_t r = 0; r < c->m; r++)
        for (uint32_t n = 0; n < c->n; n++, v++) {
            int64_t sum = 0;
            for (uint32_t k = 0; k < c->k; k++) sum += row_value(q, r, k) * row_value(&p->weight, n, k);
            v->value = (double)sum * row_scale(q, r) * row_scale(&p->weight, n);
            if (c->bias) add_to(v, at(&p->bias, 0, n));
            activate_in(v, c->activation);
            if (c->multiply) multiply_with(v, at(&p->multiply, r, n));
            if (c->gate) multiply_with(v, at(&p->gate, c->rows_per_gate ? r / c->rows_per_gate : 0, n));
            if (c->residual) add_to(v, at(&p->residual, r, n));
        }
    return out;
}

static struct kernel_form { /* every way to compute the same sums */
    const char *overrides, *name;
    uint32_t max_slice_us;
    uint32_t kernel; /* the first form with this kernel, whose bytes are the same */
    diti_device *device;
} forms[] = {{"cpu=1,dot=0", "processor", 0, 0, NULL},
             {"cpu=0,dot=0", "gpu", 0, 1, NULL},
             {"cpu=0,dot=1", "gpu dot", 0, 2, NULL},
             {"cpu=0,dot=1,groups=3,storage_range=128K", "gpu dot, small limits", 1, 2, NULL},
             {"cpu=0,dot=0,groups=2", "gpu, sliced", 1, 1, NULL},
             {"cpu=1,dot=0,storage_range=128K", "processor, sliced", 1, 0, NULL},
             {"rung=coop,dot=0", "matrix units", 0, 6, NULL},
             {"rung=coop2,dot=0", "matrix units 2", 0, 7, NULL},
             {"rung=coop,dot=0,groups=3", "matrix units, sliced", 1, 6, NULL},
             {"rung=coop,dot=0,cpu=0,portions=3,cores=1", "matrix units, tall tiles", 0, 6, NULL}};

/* A kernel gives its own bytes again, and numbers as near to another kernel's as roundings explain. */
static void check_same(const matrix *got, const matrix *other, bool same_kernel, const apart *wanted, const char *what,
                       const char *name) {
    size_t i, count = (size_t)got->rows * got->columns, wrong = 0;
    if (same_kernel) {
        CHECK_MESSAGE(!memcmp(other->data, got->data, count * sizeof(float)), "%s: other bytes than %s", what, name);
        return;
    }
    for (i = 0; i < count; i++) wrong += !(fabs((double)got->data[i] - other->data[i]) <= wanted[i].off);
    CHECK_MESSAGE(!wrong, "%s: %u numbers are farther from %s than roundings explain", what, (unsigned)wrong, name);
}

static void check_product(const product_case *c) {
    product p = product_make(c);
    rows_i8 q = {0};
    double *values;
    apart *wanted;
    matrix got[DITI_COUNT(forms)] = {{0}};
    char what[200];
    int most = 0;
    for (size_t i = 0; i < DITI_COUNT(forms); i++)
        if (forms[i].device) forms[i].device->int4_activations = c->four_activations;
    q = quantized(forms[0].device, &p.x, c);
    for (uint32_t i = 0; i < c->m * c->k; i++)
        most = abs(row_value(&q, i / c->k, i % c->k)) > most ? abs(row_value(&q, i / c->k, i % c->k)) : most;
    CHECK(most == (c->four_activations ? 7 : 127));
    wanted = product_reference(c, &p, &q);
    values = malloc((size_t)c->m * c->n * sizeof *values);
    for (size_t i = 0; i < (size_t)c->m * c->n; i++) values[i] = wanted[i].value;
    for (size_t i = 0; i < DITI_COUNT(forms); i++) {
        size_t like = forms[i].kernel;
        if (!forms[i].device || (forms[i].max_slice_us && !c->sliced && !sweep)) continue;
        if (strstr(forms[i].overrides, "storage_range") && diti_i8_pitch(c->k) > 4096)
            continue; /* not even tiles fit */
        snprintf(what, sizeof what, "%s: m %u n %u k %u parts %u extra %u%s%s%s%s%s%s act %d", forms[i].name, c->m,
                 c->n, c->k, c->parts, c->extra, c->rotated ? " rotated" : "", c->four ? " 4 bit" : "",
                 c->bias ? " bias" : "", c->multiply ? " multiply" : "", c->gate ? " gate" : "",
                 c->residual ? " residual" : "", (int)c->activation);
        got[i] = product_run(forms[i].device, c, &p);
        if (!CHECK_MESSAGE(got[i].data, "%s", what)) continue;
        close_to(&got[i], values, tolerance_of(DITI_F32), what);
        if (like == i || !got[like].data) like = 0;
        if (i && got[like].data)
            check_same(&got[i], &got[like], forms[like].kernel == forms[i].kernel, wanted, what, forms[like].name);
    }
    for (size_t i = 0; i < DITI_COUNT(forms); i++) free(got[i].data);
    free(values), free(wanted), free(q.bytes);
    product_free(&p);
}

/* Weights of 4 bit, with activations of 8 and of 4: odd rows and columns, whole groups of 256. */
static void test_four(void) {
    static const uint32_t sizes[][3] = {{1, 1, 256}, {70, 97, 512}, {33, 44, 256}, {130, 132, 768}, {9, 20, 16384}};
    for (size_t i = 0; i < DITI_COUNT(sizes); i++) {
        product_case c = {.m = sizes[i][0], .n = sizes[i][1], .k = sizes[i][2], .rotated = true, .four = true};
        if (!sweep && i != (test_first_driver() || test_quick_way("sanitize") ? 3u : 0u)) continue;
        c.bias = c.residual = i == 1;
        c.parts = i == 3 ? 3 : 1;
        c.extremes = i == 4;
        c.sliced = i == 3;
        c.four_activations = i == 2 || i == 3;
        check_product(&c);
    }
}

static void test_products(void) {
    static const uint32_t sizes[][3] = {{1, 1, 1},    {65, 63, 5}, {1, 77, 250}, {130, 131, 65}, {17, 36, 2056},
                                        {63, 65, 64}, {7, 16, 3},  {77, 1, 100}, {16, 7, 4},     {20, 72, 1030}};
    for (size_t i = 0; i < (sweep ? DITI_COUNT(sizes) : 5); i++) { /* each size is other code to the driver */
        product_case c = {.m = sizes[i][0], .n = sizes[i][1], .k = sizes[i][2]};
        c.bias = sweep && i % 2;
        c.sliced = c.m == 130;
        check_product(&c);
    }
    for (int part = sweep ? 0 : 6; part < 9; part++) {
        product_case c = {.m = 70, .n = 96, .k = part % 2 ? 256 : 132, .rotated = part % 2};
        c.bias = part == 1 || part >= 6;
        c.multiply = part == 2 || part == 6;
        c.gate = part == 3 || part >= 6;
        c.residual = part == 4 || part >= 6;
        c.activation = part == 5 || part == 6 ? DITI_ACTIVATION_GELU_TANH : DITI_ACTIVATION_NONE;
        c.rows_per_gate = part == 6 ? 33 : 0;
        c.extra = 4 * (uint32_t)(part & 1);
        c.in_place = part == 7;
        c.parts = part == 8 ? 3 : 1;
        c.sliced = part == 8;
        check_product(&c);
    }
    {
        product_case c = {.m = 9, .n = 18, .k = 16384, .extremes = true};
        check_product(&c);
    }
}

/* Matrix units take columns in quads. A full sweep tries everything on them. */
static void test_units(void) {
    product_case c = {.m = 37, .n = 44, .k = 100, .bias = true};
    check_product(&c);
    c = (product_case){.m = 9, .n = 20, .k = 16384, .extremes = true, .bias = true};
    check_product(&c);
    if (!sweep) return;
    c = (product_case){
        .m = 131, .n = 132, .k = 208, .bias = true, .residual = true}; /* tall tiles, and edges of them */
    check_product(&c);
    c = (product_case){.m = 131, .n = 132, .k = 256, .rotated = true, .four = true};
    check_product(&c);
}

static void test_refusals(diti_device *device) {
    product_case c = {.m = 4, .n = 4, .k = 256};
    product p = product_make(&c);
    weight_values w;
    diti_linear_desc desc = {0};
    diti_conv_desc conv = {0};
    diti_graph *graph = begin(device);
    rows_upload(&w, &p.weight, true, 1); /* x is quantized, but not rotated */
    CHECK(
        !diti_linear(graph, diti_quantize(graph, input(&p.x, DITI_F32, 0, "x"), false, "quantize"), &w.weight, &desc));
    CHECK(diti_graph_failed(graph));
    end();
    graph = begin(device);
    CHECK(!diti_quantize(graph, diti_tensor_new(graph, DITI_F32, 4, 255, "x"), true, "quantize"));
    end();
    graph = begin(device);
    CHECK(!diti_attention(graph, diti_tensor_new(graph, DITI_I8, 4, 64, "q"), 0, 0,
                          NULL == &desc ? NULL : &(diti_attention_desc){.batch = 1, .heads = 1, .head_dim = 64}));
    end();
    graph = begin(device);
    rows_upload(&w, &p.weight, false, 1);
    w.weight.columns = DITI_I8_MAX_COLUMNS + 1;
    CHECK(!diti_linear(graph, diti_tensor_new(graph, DITI_F32, 1, w.weight.columns, "x"), &w.weight, &desc));
    CHECK(strstr(graph->error.message, "overflow"));
    end();
    graph = begin(device);
    rows_upload(&w, &p.weight, false, 1);
    conv.batch = 1, conv.height = 2, conv.width = 2;
    CHECK(!diti_conv(graph, input(&p.x, DITI_F32, 0, "x"), &w.weight, &conv) && diti_graph_failed(graph));
    end();
    product_free(&p);
}

int main(void) {
    dit_error err = {0};
    bool units;
    sweep = test_sweeps();
    test_vulkan_begin();
    CHECK(diti_env_init(&env, NULL, NULL, &err) >= 0);
    test_host();
    units = has_rung("rung=coop");
    for (size_t i = 0; i < DITI_COUNT(forms); i++) {
        if (strstr(forms[i].overrides, "rung=") &&
            (!units || (!sweep && strcmp(forms[i].overrides, "rung=coop,dot=0"))))
            continue;
        if (units && !sweep && i > 0 && i < 6) continue;          /* they were seen on other drivers */
        if (!test_first_driver() && (i == 4 || i == 5)) continue; /* one of the sliced forms is enough */
        forms[i].device = open_device(forms[i].overrides, forms[i].max_slice_us);
        if (!forms[i].device) continue;
        forms[i].device->scattered_sums = strstr(forms[i].name, "sliced") != NULL; /* as with NVK */
        if (!strstr(forms[i].overrides, "rung=")) {
            forms[i].device->rung = DITI_RUNG_BASE;
            forms[i].device->coop_i8 = false;
        }
        if (!strstr(forms[i].overrides, "dot=1") || forms[i].device->dot) continue;
        printf("no integer dot product on this device: %s is not run\n", forms[i].name);
        diti_device_close(forms[i].device);
        forms[i].device = NULL;
    }
    if (units || sweep) test_units(); /* other kernels have test_products */
    for (int i = 0; i < 2 && (!units || sweep); i++) {
        test_quantize(forms[i].device);
        forms[i].device->rung = DITI_RUNG_FP16;
        test_quantize(forms[i].device);
        forms[i].device->rung = DITI_RUNG_BASE;
    }
    if (!units || sweep) test_products();
    test_four();
    test_refusals(forms[0].device);
    for (size_t i = 0; i < DITI_COUNT(forms); i++) {
        if (forms[i].device && getenv("DIT_TEST_PRINT"))
            printf("%s: %u pipelines\n", forms[i].name, (unsigned)forms[i].device->pipelines_compiled);
        diti_device_close(forms[i].device);
    }
    test_vulkan_end();
    return TEST_END("int8");
}
